/* test_spectrum.c: singular values of products, Gram comparisons, rank measures, the random
 * baseline. Oracles: the closed forms of wd_closed_form_tests.json, one-sided Jacobi in long
 * double, and direct simulation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "longdouble_svd.h"
#include "property.h"

#include "base/memory.h"
#include "base/random.h"
#include "linalg/blas.h"
#include "linalg/gram.h"
#include "linalg/measures.h"
#include "linalg/null_model.h"
#include "linalg/spectrum.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define assert_close(a, b, relative)                                                               \
    do {                                                                                           \
        double a_ = (a), b_ = (b);                                                                 \
        if (!(fabs(a_ - b_) <= (relative)*fabs(b_)))                                               \
            fail_msg("%s = %.17g, expected %.17g", #a, a_, b_);                                    \
    } while (0)

static json_t *closed_forms;

static int load(void **state)
{
    (void)state;
    closed_forms = json_load_file(RS_TEST_DATA "/wd_closed_form_tests.json", 0, NULL);
    return closed_forms ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    json_decref(closed_forms);
    return 0;
}

/* The n-th case (from 0) whose name starts so. */
static const json_t *find_case(const char *prefix, int nth)
{
    size_t i;
    json_t *entry;
    json_array_foreach(closed_forms, i, entry)
    {
        if (strncmp(json_string_value(json_object_get(entry, "name")), prefix, strlen(prefix)) ==
                0 &&
            nth-- == 0)
            return entry;
    }
    fail_msg("no case %s", prefix);
    return NULL;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* A list of lists as a row-major matrix. */
static double *matrix_of(const json_t *rows, int64_t *m, int64_t *n)
{
    *m = (int64_t)json_array_size(rows);
    *n = (int64_t)json_array_size(json_array_get(rows, 0));
    double *out = test_malloc((size_t)(*m * *n) * sizeof *out);
    for (int64_t i = 0; i < *m; i++)
        for (int64_t j = 0; j < *n; j++)
            out[i * *n + j] =
                json_number_value(json_array_get(json_array_get(rows, (size_t)i), (size_t)j));
    return out;
}

static void closed_form_rank_measures(void **state)
{
    (void)state;
    for (int c = 0; c < 5; c++) {
        const json_t *entry = find_case("rank_measures", c),
                     *want = json_object_get(entry, "expected");
        const json_t *input = json_object_get(entry, "input");
        double sigma[16];
        int64_t k = (int64_t)json_array_size(input);
        for (int64_t i = 0; i < k; i++)
            sigma[i] = json_number_value(json_array_get(input, (size_t)i));
        rs_measures m;
        rs_measures_of(&m, sigma, k, k, 1e-6);
        assert_close(m.nuclear_norm, number(want, "nuclear"), 1e-15);
        assert_close(m.frobenius_norm, number(want, "fro"), 1e-15);
        assert_close(m.spectral_norm, number(want, "spectral"), 0);
        assert_close(m.stable_rank, number(want, "stable_rank"), 1e-15);
        assert_close(m.effective_rank, number(want, "erank_sigma"), 1e-14);
        assert_close(m.participation_ratio, number(want, "pr_energy"), 1e-15);
        assert_int_equal(m.numerical_rank,
                         json_integer_value(json_object_get(want, "numrank_1e_6")));
        assert_int_equal(m.energy_rank, json_integer_value(json_object_get(want, "k95_energy")));
        assert_int_equal(rs_energy_rank(sigma, k, 0.9),
                         json_integer_value(json_object_get(want, "k90_energy")));
        assert_close(m.pseudo_rank, number(want, "pseudo_rank"), 1e-15);
        if (m.numerical_rank == k)
            assert_close(m.condition, sigma[0] / sigma[k - 1], 0);
        else
            assert_true(isnan(m.condition));
    }
}

static void a_zero_spectrum_has_null_ratios(void **state)
{
    (void)state;
    double sigma[3] = {0};
    rs_measures m;
    rs_measures_of(&m, sigma, 3, 3, 1e-6);
    assert_true(m.spectral_norm == 0 && m.nuclear_norm == 0 && m.numerical_rank == 0 &&
                m.energy_rank == 0);
    assert_true(isnan(m.stable_rank) && isnan(m.effective_rank) && isnan(m.condition) &&
                isnan(m.pseudo_rank));
    rs_measures_of(&m, sigma, 0, 3, 1e-6);
    assert_true(isnan(m.stable_rank));
    /* Squares of these leave the double range; the ratios do not. */
    double huge[2] = {1e300, 1e300}, tiny[2] = {1e-300, 1e-300};
    rs_measures_of(&m, huge, 2, 2, 1e-6);
    assert_close(m.stable_rank, 2, 1e-15);
    rs_measures_of(&m, tiny, 2, 2, 1e-6);
    assert_close(m.participation_ratio, 2, 1e-15);
}

static void grams(double *x, double *y, const double *a, int64_t m, const double *b, int64_t n,
                  int64_t r)
{
    memset(x, 0, (size_t)(r * r) * sizeof *x);
    memset(y, 0, (size_t)(r * r) * sizeof *y);
    rs_gram_add_cols(x, a, m, r, r);
    rs_gram_add_cols(y, b, n, r, r);
    rs_gram_symmetrise(x, r);
    rs_gram_symmetrise(y, r);
}

static void spectrum_by_grams(double *sigma, bool *trusted, const double *x, const double *y,
                              int64_t r)
{
    double *work = test_malloc((rs_gram_work(r) + (size_t)r) * sizeof *work);
    rs_squares squares = {.room = test_malloc(rs_squares_room(r) * sizeof *work)};
    rs_bidiagonal product = {.n = r, .d = sigma, .e = work + rs_gram_work(r)};
    rs_gram_pair pair;
    rs_error err;
    rs_gram_compare(&pair, x, y, r);
    assert_int_equal(rs_gram_bidiagonal(&product, &squares, trusted, x, y, work, &err), RS_OK);
    rs_squares_finish(&squares);
    if (*trusted) {
        assert_int_equal(rs_bidiagonal_values(&product, 1, work, &err), RS_OK);
        assert_int_equal(rs_gram_refine(sigma, trusted, x, y, pair.trace_xy, r, work, &err), RS_OK);
    }
    test_free(work);
    test_free(squares.room);
}

static void closed_form_product(void **state)
{
    (void)state;
    const json_t *entry = find_case("product r=2", 0), *want = json_object_get(entry, "expected");
    int64_t m, n, r;
    double *a = matrix_of(json_object_get(json_object_get(entry, "input"), "A"), &m, &r);
    double *b = matrix_of(json_object_get(json_object_get(entry, "input"), "B"), &n, &r);
    double x[4], y[4], sigma[2];
    bool trusted;
    grams(x, y, a, m, b, n, r);
    rs_gram_pair pair;
    rs_gram_compare(&pair, x, y, r);
    assert_close(pair.trace_xy, number(want, "tr_XY"), 1e-15);
    assert_close(pair.half_norm, number(want, "half_frob"), 1e-15);
    assert_close(pair.norm_q, number(want, "Q_fro"), 1e-15);
    assert_true(fabs(pair.balance_score - number(want, "balance_score")) < 1e-15);
    double q[4], of_q[2], gap[2], work[256];
    for (int i = 0; i < 4; i++)
        q[i] = x[i] - y[i];
    spectrum_by_grams(sigma, &trusted, x, y, r);
    assert_true(trusted);
    double nuclear = sigma[0] + sigma[1];
    assert_close(nuclear, number(want, "nuclear"), 1e-14);
    rs_error err;
    assert_int_equal(rs_symmetric_eigenvalues(of_q, q, r, work, &err), RS_OK);
    rs_gap_bracket(gap, of_q, r, pair.half_norm, nuclear);
    assert_close(gap[0], number(want, "gap_lower"), 1e-13);
    assert_close(gap[1], number(want, "gap_upper_half_nucQ"), 1e-13);
    for (int i = 0; i < 2; i++)
        assert_close(sigma[i],
                     json_number_value(json_array_get(json_object_get(want, "sv"), (size_t)i)),
                     1e-14);
    test_free(a);
    test_free(b);
}

static void closed_form_grouped_query(void **state)
{
    (void)state;
    const json_t *entry = find_case("GQA", 0), *want = json_object_get(entry, "expected");
    const json_t *input = json_object_get(entry, "input");
    int64_t m, r;
    double *q[2], *k = matrix_of(json_object_get(input, "Wk"), &r, &m);
    double group[4] = {0}, y[4] = {0}, sigma[2];
    bool trusted;
    rs_gram_add_rows(y, k, r, m, m);
    rs_gram_symmetrise(y, r);
    for (size_t h = 0; h < 2; h++) {
        double x[4] = {0};
        q[h] = matrix_of(json_array_get(json_object_get(input, "Wq"), h), &r, &m);
        rs_gram_add_rows(x, q[h], r, m, m);
        rs_gram_symmetrise(x, r);
        spectrum_by_grams(sigma, &trusted, x, y, r);
        assert_close(
            sigma[0] + sigma[1],
            json_number_value(json_array_get(json_object_get(want, "per_head_nuclear"), h)), 1e-14);
        for (int i = 0; i < 4; i++)
            group[i] += x[i];
    }
    spectrum_by_grams(sigma, &trusted, group, y, r);
    assert_close(sigma[0] + sigma[1], number(want, "nuclear_stacked"), 1e-14);
    rs_gram_pair pair;
    rs_gram_compare(&pair, group, y, r);
    assert_close(pair.half_norm, number(want, "half_frob"), 1e-15);
    for (int h = 0; h < 2; h++)
        test_free(q[h]);
    test_free(k);
}

/* Läuchli: the Gram of mu = 1e-8 is singular in float64, so the route must notice and the careful
 * one must be right. */
static void closed_form_lauchli_and_graded(void **state)
{
    (void)state;
    for (int c = 0; c < 3; c++) {
        const json_t *entry = find_case("Laeuchli", c), *want = json_object_get(entry, "expected");
        double mu = number(json_object_get(entry, "input"), "mu");
        double a[6] = {1, 1, mu, 0, 0, mu}, b[6], x[4], y[4], sigma[2];
        memcpy(b, a, sizeof a);
        bool trusted;
        grams(x, y, a, 3, b, 3, 2);
        spectrum_by_grams(sigma, &trusted, x, y, 2);
        double small = json_number_value(json_array_get(want, 1));
        if (trusted) assert_close(sigma[1], small, 1e-7);
        assert_int_equal(trusted, mu > 1e-4);
        rs_error err;
        assert_int_equal(rs_factor_spectrum(sigma, a, 3, b, 3, 2, &err), RS_OK);
        assert_close(sigma[0], json_number_value(json_array_get(want, 0)), 1e-15);
        assert_close(sigma[1], small, 1e-9);
    }
    const json_t *entry = find_case("graded", 0), *want = json_object_get(entry, "expected");
    int64_t m, n, r;
    double *a = matrix_of(json_object_get(json_object_get(entry, "input"), "A"), &m, &r);
    double *b = matrix_of(json_object_get(json_object_get(entry, "input"), "B"), &n, &r);
    double x[4], y[4], sigma[2];
    bool trusted;
    grams(x, y, a, m, b, n, r);
    spectrum_by_grams(sigma, &trusted, x, y, r);
    assert_true(trusted);
    for (int i = 0; i < 2; i++)
        assert_close(sigma[i], json_number_value(json_array_get(want, (size_t)i)), 1e-12);
    test_free(a);
    test_free(b);
}

static double *gaussian(rs_random *random, int64_t n)
{
    double *out = test_malloc((size_t)(n ? n : 1) * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = rs_random_normal(random);
    return out;
}

/* Random shapes, r up to beyond m and n, columns graded over up to 12 decades in either factor. */
static void random_products_agree_with_long_double_jacobi(void **state)
{
    (void)state;
    for (int trial = property_start(200, 7000000); property_next(&trial);) {
        rs_random random = property_random();
        int64_t m = 1 + (int64_t)(24 * rs_random_uniform(&random)),
                n = 1 + (int64_t)(24 * rs_random_uniform(&random));
        int64_t r = 1 + (int64_t)(14 * rs_random_uniform(&random)), k = m < n ? m : n;
        if (r < k) k = r;
        double grade_a = 12 * rs_random_uniform(&random) * (trial % 3 == 1),
               grade_b = 12 * rs_random_uniform(&random) * (trial % 5 == 2);
        double *a = gaussian(&random, m * r), *b = gaussian(&random, n * r);
        for (int64_t j = 0; j < r; j++) {
            double sa = pow(10, -grade_a * rs_random_uniform(&random)),
                   sb = pow(10, -grade_b * rs_random_uniform(&random));
            for (int64_t i = 0; i < m; i++)
                a[i * r + j] *= sa;
            for (int64_t i = 0; i < n; i++)
                b[i * r + j] *= sb;
        }
        double expected[32], sigma[32], x[256], y[256];
        oracle_product_svd(expected, a, m, b, n, r);
        grams(x, y, a, m, b, n, r);
        bool trusted;
        spectrum_by_grams(sigma, &trusted, x, y, r);
        if (r > m || r > n) assert_false(trusted);
        if (trusted)
            for (int64_t i = 0; i < k; i++)
                assert_close(sigma[i], expected[i], 1e-6);
        rs_error err;
        assert_int_equal(rs_factor_spectrum(sigma, a, m, b, n, r, &err), RS_OK);
        for (int64_t i = 0; i < k; i++)
            if (fabs(sigma[i] - expected[i]) > 1e-9 * expected[i] + 1e-17 * expected[0])
                fail_msg("trial %d m %d n %d r %d i %d: %.17g, expected %.17g", trial, (int)m,
                         (int)n, (int)r, (int)i, sigma[i], expected[i]);
        test_free(a);
        test_free(b);
    }
}

/* mpmath (make_product_spectrum_golden.py). What the careful route promises: graded units keep the
 * digits of every singular value, however small; of nearly parallel ones, as many are lost as the
 * scaled factors' condition has. Through the Grams the error is absolute. */
static void small_values_against_mpmath(void **state)
{
    (void)state;
    json_t *cases = json_load_file(RS_TEST_DATA "/product_spectrum.json", 0, NULL), *entry;
    size_t c;
    double worst_graded = 0, worst_parallel = 0;
    assert_true(json_array_size(cases) == 24);
    json_array_foreach(cases, c, entry)
    {
        int64_t m, n, r;
        double *a = matrix_of(json_object_get(entry, "a"), &m, &r);
        double *b = matrix_of(json_object_get(entry, "b"), &n, &r);
        const json_t *want = json_object_get(entry, "sigma");
        bool graded = strcmp(json_string_value(json_object_get(entry, "kind")), "graded") == 0;
        double condition = number(entry, "condition"), x[16], y[16], sigma[4];
        double first = json_number_value(json_array_get(want, 0));
        assert_int_equal(r, 4);
        grams(x, y, a, m, b, n, r);
        bool trusted;
        spectrum_by_grams(sigma, &trusted, x, y, r);
        for (size_t i = 0; i < 4 && trusted; i++)
            assert_true(fabs(sigma[i] - json_number_value(json_array_get(want, i))) <=
                        1e-14 * first);
        rs_error err;
        assert_int_equal(rs_factor_spectrum(sigma, a, m, b, n, r, &err), RS_OK);
        for (size_t i = 0; i < 4; i++) {
            double expected = json_number_value(json_array_get(want, i));
            double relative = fabs(sigma[i] - expected) / expected;
            double *worst = graded ? &worst_graded : &worst_parallel;
            *worst = fmax(*worst, relative);
            if (!(relative <= 16 * 0x1p-53 * condition))
                fail_msg("case %zu, %zu: %.17g, expected %.17g (condition %.3g)", c, i, sigma[i],
                         expected, condition);
        }
        test_free(a);
        test_free(b);
    }
    assert_true(worst_graded < 1e-14);
    assert_true(worst_parallel > 1e-8); /* the cases are as hard as they are meant to be */
    json_decref(cases);
}

static void zero_and_extreme_factors(void **state)
{
    (void)state;
    double zero[4] = {0}, one[4] = {1, 0, 0, 1}, sigma[2] = {9, 9};
    bool trusted;
    rs_error err;
    spectrum_by_grams(sigma, &trusted, zero, one, 2);
    assert_true(trusted && sigma[0] == 0 && sigma[1] == 0);
    double a[2] = {1e200, 0}, b[2] = {1e100, 1e100};
    assert_int_equal(rs_factor_spectrum(sigma, a, 2, b, 2, 1, &err), RS_OK);
    assert_close(sigma[0], 1.4142135623730951e300, 1e-15);
    double az[2] = {0, 0}, bz[2] = {1, 1};
    assert_int_equal(rs_factor_spectrum(sigma, az, 2, bz, 2, 1, &err), RS_OK);
    assert_true(sigma[0] == 0);
    double an[2] = {NAN, INFINITY};
    assert_int_equal(rs_factor_spectrum(sigma, an, 2, bz, 2, 1, &err), RS_E_INTERNAL);
    rs_gram_pair pair;
    rs_gram_compare(&pair, zero, zero, 2);
    assert_true(isnan(pair.balance));
    rs_gram_compare(&pair, one, one, 2);
    assert_true(pair.isotropic && pair.balance_score == 1 && pair.balance == 0);
}

/* Two products that share B, both drawn in full: how alike their effective ranks are, and that products that share
 * nothing are not. */
static void products_that_share_a_factor_are_alike(void **state)
{
    static const int64_t shapes[][3] = {{8, 8, 8}, {30, 6, 6}, {3, 7, 5}, {12, 4, 9}, {16, 8, 2}};
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        enum { TRIALS = 1500 };
        int64_t m = shapes[s][0], n = shapes[s][1], r = shapes[s][2], k = m < n ? m : n;
        double sums[2] = {0}, squares[2] = {0}, both = 0, drawn;
        rs_random random = rs_random_new(17, s);
        rs_error err;
        for (int t = 0; t < TRIALS; t++) {
            double *b = gaussian(&random, n * r), sigma[32], ranks[2];
            for (int i = 0; i < 2; i++) {
                double *a = gaussian(&random, m * r);
                rs_measures measures;
                oracle_product_svd(sigma, a, m, b, n, r);
                rs_measures_of(&measures, sigma, r < k ? r : k, r, 0);
                ranks[i] = measures.effective_rank;
                sums[i] += ranks[i] / TRIALS;
                squares[i] += ranks[i] * ranks[i] / TRIALS;
                test_free(a);
            }
            both += ranks[0] * ranks[1] / TRIALS;
            test_free(b);
        }
        double direct = (both - sums[0] * sums[1]) /
                        sqrt((squares[0] - sums[0] * sums[0]) * (squares[1] - sums[1] * sums[1]));
        assert_int_equal(rs_null_correlation(&drawn, m, n, r, 0, &err), RS_OK);
        double error = hypot((1 - direct * direct) / sqrt(TRIALS), 0.02);
        if (!(direct > 0.04 && fabs(drawn - direct) < 4 * error))
            fail_msg("shape %zu: %g, directly %g", s, drawn, direct);
    }
    double one;
    rs_error err;
    assert_int_equal(rs_null_correlation(&one, 1, 5, 4, 0, &err), RS_OK);
    assert_true(one == 0); /* of one direction the rank is 1 */
}

/* Direct simulation: draw A and B in full, form the product, take its spectrum with the long double
 * oracle. */
static void null_model_equals_direct_simulation(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{20, 16, 4}, {6, 9, 12}, {5, 5, 5}, {3, 1, 2}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t m = shapes[s][0], n = shapes[s][1], r = shapes[s][2], k = m < n ? m : n;
        if (r < k) k = r;
        enum { TRIALS = 400 };
        double nuclear = 0, effective = 0, stable = 0, pseudo = 0, square = 0;
        rs_random random = rs_random_new(11, s);
        for (int t = 0; t < TRIALS; t++) {
            double *a = gaussian(&random, m * r), *b = gaussian(&random, n * r), sigma[32];
            oracle_product_svd(sigma, a, m, b, n, r);
            rs_measures measures;
            rs_measures_of(&measures, sigma, k, r, 0);
            nuclear += measures.nuclear_norm / (0.5 * (double)(m + n) * (double)r) / TRIALS;
            effective += measures.effective_rank / TRIALS;
            square += measures.effective_rank * measures.effective_rank / TRIALS;
            stable += measures.stable_rank / TRIALS;
            pseudo += measures.pseudo_rank / TRIALS;
            test_free(a);
            test_free(b);
        }
        rs_null_model model;
        rs_error err;
        assert_int_equal(rs_null_model_new(&model, m, n, r, 0, &err), RS_OK);
        double error =
            sqrt((square - effective * effective) * (1.0 / TRIALS + 1.0 / (double)model.trials));
        assert_true(fabs(model.effective_rank - effective) <= 4 * error + 1e-12);
        /* A standard deviation of n numbers is known to about 1/sqrt(2n) of itself. */
        double spread = sqrt((square - effective * effective) * TRIALS / (TRIALS - 1));
        if (k > 1) /* of one direction it is 1 */
            assert_close(model.effective_rank_spread, spread,
                         4 * sqrt(0.5 / TRIALS + 0.5 / (double)model.trials));
        assert_close(model.nuclear_ratio, nuclear, 0.06);
        assert_close(model.stable_rank, stable, 0.06);
        assert_close(model.pseudo_rank, pseudo, 0.06);
        assert_int_equal(model.k, k);
        assert_true(model.band_low[0] == 1 && model.band_high[0] == 1);
        for (int64_t i = 1; i < k; i++)
            assert_true(model.band_low[i] <= model.band_high[i]);
        rs_null_model_free(&model);
    }
}

/* docs/theory/products.md, 2 and 3: values of random Gaussian heads, and the formula 1 − r/(4d) for
 * large d. */
static void null_model_equals_the_published_baselines(void **state)
{
    (void)state;
    static const struct {
        int64_t d, r;
        double nuclear, pseudo, effective, stable, tolerance;
    } rows[] = {{4096, 128, .9921, .9375, .992, .646, .01},
                {768, 64, .979, .9375, .979, .533, .02},
                {64, 32, .866, .844, .844, .242, .06}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rs_null_model model;
        rs_error err;
        assert_int_equal(rs_null_model_new(&model, rows[i].d, rows[i].d, rows[i].r, 0, &err),
                         RS_OK);
        assert_close(model.nuclear_ratio, rows[i].nuclear, rows[i].tolerance);
        assert_close(model.pseudo_rank, rows[i].pseudo, 2 * rows[i].tolerance);
        assert_close(model.effective_rank / (double)rows[i].r, rows[i].effective,
                     rows[i].tolerance);
        assert_close(model.stable_rank / (double)rows[i].r, rows[i].stable, 4 * rows[i].tolerance);
        rs_null_model_free(&model);
    }
    /* Beyond k = 512 dimensions shrink together: the ratios must join smoothly. */
    rs_null_model below, above;
    rs_error err;
    assert_int_equal(rs_null_model_new(&below, 512, 512, 512, 0, &err), RS_OK);
    assert_int_equal(rs_null_model_new(&above, 700, 700, 700, 0, &err), RS_OK);
    assert_close(above.effective_rank / 700, below.effective_rank / 512, 0.01);
    assert_close(above.pseudo_rank, below.pseudo_rank, 0.01);
    assert_close(above.nuclear_ratio, below.nuclear_ratio, 0.01);
    rs_null_model_free(&below);
    rs_null_model_free(&above);
}

static void out_of_memory_is_reported(void **state)
{
    (void)state;
    for (int n = 1; n <= 6; n++) {
        double a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 2, 1, 0, 3}, sigma[2];
        rs_memory_fail_at(n);
        rs_status factor = rs_factor_spectrum(sigma, a, 3, b, 3, 2, NULL);
        rs_memory_fail_at(n);
        rs_null_model model;
        rs_status null_model = rs_null_model_new(&model, 3, 3, 2, 0, NULL);
        rs_memory_fail_at(0);
        assert_int_equal(factor, RS_E_NO_MEMORY);
        assert_int_equal(null_model, RS_E_NO_MEMORY);
    }
}

static void blas_kernels(void **state)
{
    (void)state;
    assert_string_equal(rs_blas_better_core("Prescott", RS_CPU_AVX512, false), "SkylakeX");
    assert_string_equal(rs_blas_better_core("Prescott", RS_CPU_AVX512, true), "Zen");
    assert_string_equal(rs_blas_better_core("Haswell", RS_CPU_AVX512, false), "SkylakeX");
    assert_string_equal(rs_blas_better_core("Nehalem", RS_CPU_AVX2, false), "Haswell");
    assert_string_equal(rs_blas_better_core("Sandybridge", RS_CPU_AVX2, true), "Zen");
    assert_string_equal(rs_blas_better_core("Nehalem", RS_CPU_AVX, false), "Sandybridge");
    assert_null(rs_blas_better_core("Zen", RS_CPU_AVX512, true));
    assert_null(rs_blas_better_core("SkylakeX", RS_CPU_AVX512, false));
    assert_null(rs_blas_better_core("Haswell", RS_CPU_AVX2, true));
    assert_null(rs_blas_better_core("Prescott", RS_CPU_SSE, false));
    assert_null(rs_blas_better_core("NEOVERSEN1", RS_CPU_NEON, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_form_rank_measures),
        cmocka_unit_test(a_zero_spectrum_has_null_ratios),
        cmocka_unit_test(closed_form_product),
        cmocka_unit_test(closed_form_grouped_query),
        cmocka_unit_test(closed_form_lauchli_and_graded),
        cmocka_unit_test(random_products_agree_with_long_double_jacobi),
        cmocka_unit_test(small_values_against_mpmath),
        cmocka_unit_test(zero_and_extreme_factors),
        cmocka_unit_test(products_that_share_a_factor_are_alike),
        cmocka_unit_test(null_model_equals_direct_simulation),
        cmocka_unit_test(null_model_equals_the_published_baselines),
        cmocka_unit_test(out_of_memory_is_reported),
        cmocka_unit_test(blas_kernels),
    };
    return cmocka_run_group_tests_name("spectrum", tests, load, unload);
}
