/* test_token_measures.c: the measures of token matrices against mpmath, NumPy and HiGHS
 * (tests/oracle/make_measures_golden.py), the published vectors, closed forms and identities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "l1_ball.h"
#include "measures/token_measures.h"

#include <float.h>

#define U32 (FLT_EPSILON / 2.0)
#define U64 (DBL_EPSILON / 2.0)

/* Both entry points; `single` rounds X to float32 first. The rows are given a gap of three. */
static rs_token_measures measure(const double *x, int64_t n, int64_t d, bool single,
                                 rs_centre centre)
{
    rs_token_options options = {true, centre, single ? U32 : U64, 0, NULL, false};
    int64_t ld = d + 3;
    float *narrow = malloc((size_t)(n * ld) * sizeof *narrow);
    double *wide = malloc((size_t)(n * ld) * sizeof *wide);
    void *workspace = malloc(rs_token_workspace(n, d, &options));
    assert_non_null(narrow);
    assert_non_null(wide);
    assert_non_null(workspace);
    for (int64_t i = 0; i < n * ld; i++) {
        double entry = i % ld < d ? x[i / ld * d + i % ld] : NAN;
        narrow[i] = (float)entry;
        wide[i] = entry;
    }
    rs_token_measures out;
    rs_error err = {0};
    int64_t before = rs_memory_requests();
    rs_status status = single
                           ? rs_token_measure_f32(&out, narrow, n, d, ld, &options, workspace, &err)
                           : rs_token_measure_f64(&out, wide, n, d, ld, &options, workspace, &err);
    if (status != RS_OK) fail_msg("%s: %s", err.where, err.what);
    assert_int_equal(rs_memory_requests(), before);
    free(narrow);
    free(wide);
    free(workspace);
    return out;
}

/* X_ik = a_i c_k + 2^−e r_ik; law "sizes": 2^(−i e) r_ik. */
static double *tokens(const json_t *item)
{
    int64_t n = integer_of(item, "n"), d = integer_of(item, "d");
    const char *law = text_of(item, "law");
    double spread = ldexp(1, -(int)integer_of(item, "exponent"));
    double *numbers = entries(d + n + n * d, (uint64_t)integer_of(item, "seed"));
    double *x = malloc((size_t)(n * d) * sizeof *x);
    assert_non_null(x);
    const double *c = numbers, *a = numbers + d, *r = numbers + d + n;
    for (int64_t i = 0; i < n; i++) {
        double weight = 1;
        if (strcmp(law, "none") == 0) weight = 0;
        if (strcmp(law, "unequal") == 0) weight = a[i] + 1;
        if (strcmp(law, "signs") == 0) weight = a[i] < 0 ? -1 : 1;
        for (int64_t k = 0; k < d; k++) {
            double common = weight * c[k], own = spread * r[i * d + k];
            x[i * d + k] = common + own;
            if (strcmp(law, "sizes") == 0)
                x[i * d + k] = ldexp(r[i * d + k], (int)(-i * integer_of(item, "exponent")));
        }
    }
    free(numbers);
    return x;
}

static void check_spectrum(const json_t *item, const rs_token_measures *got, double u)
{
    /* What token_spectrum.c states: E keeps the rounding of X's entries, 1e-16 of ‖X‖. */
    assert_near("rank1_residual", got->rank1_residual, expected_of(item, "rank1_residual"), 1e-9,
                2 * U64);
    assert_near("stable_rank", got->stable_rank, expected_of(item, "stable_rank"), 1e-13, 0);
    assert_near("stable_rank_gram", got->stable_rank_gram, expected_of(item, "stable_rank_gram"),
                1e-13, 0);
    assert_near("effective_rank", got->effective_rank, expected_of(item, "effective_rank"),
                u == U32 ? 1e-7 : 1e-9, 0);
    assert_near("numerical_rank", got->numerical_rank, expected_of(item, "numerical_rank"), 0, 0);
}

static void check_centre(const json_t *item, const rs_token_measures *got, const char *centre)
{
    static const char *const names[] = {"residual_fro", "relative_residual", "residual_1inf",
                                        "relative_residual_1inf"};
    const double values[] = {got->residual_fro, got->relative_residual, got->residual_1inf,
                             got->relative_residual_1inf};
    for (int i = 0; i < 4; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s_%s", names[i], centre);
        assert_near(key, values[i], expected_of(item, key), 1e-13, 0);
    }
}

static void check_golden(const json_t *item)
{
    int64_t n = integer_of(item, "n"), d = integer_of(item, "d");
    bool single = strcmp(text_of(item, "type"), "f32") == 0;
    double u = single ? U32 : U64;
    double *x = tokens(item);
    rs_token_measures got = measure(x, n, d, single, RS_CENTRE_MEAN);
    assert_int_equal(got.first_nonfinite, -1);
    assert_near("norm_fro", got.norm_fro, expected_of(item, "norm_fro"), 1e-14, 0);
    check_centre(item, &got, "mean");
    /* The unit rows are rounded once more: that rounding is all that these lose. */
    double mu = expected_of(item, "row_normalised_mu");
    assert_near("row_normalised_mu", got.row_normalised_mu, mu, 1e-12, 4 * U64);
    assert_near("mean_cosine", got.mean_cosine, expected_of(item, "mean_cosine"), 1e-13, 1e-14);
    double spread = expected_of(item, "one_minus_cosine");
    assert_near("one_minus_cosine", got.one_minus_cosine, spread, 1e-12,
                16 * U64 * sqrt(spread) + 16 * U64 * U64);
    assert_near("diameter", got.diameter, expected_of(item, "diameter"), 1e-13, 0);
    assert_true(got.floor == RS_TOKEN_FLOOR * u);
    assert_int_equal(got.at_floor, got.relative_residual <= got.floor);
    check_spectrum(item, &got, u);
    got = measure(x, n, d, single, RS_CENTRE_MEDIAN);
    check_centre(item, &got, "median");
    free(x);
}

static void agrees_with_golden(void **state)
{
    (void)state;
    json_t *cases = load_cases(RS_TEST_DATA "/measures/tokens.json", 20), *item;
    size_t index;
    json_array_foreach(cases, index, item) check_golden(item);
    json_decref(cases);
}

/* ---- the smallest l1 ball ---- */

static void l1_ball_is_the_linear_programme_s(void **state)
{
    (void)state;
    json_t *cases = load_cases(RS_TEST_DATA "/measures/tokens.json", 20), *item;
    size_t index, seen = 0;
    json_array_foreach(cases, index, item)
    {
        if (!json_object_get(item, "ball")) continue;
        int64_t n = integer_of(item, "n"), d = integer_of(item, "d");
        bool single = strcmp(text_of(item, "type"), "f32") == 0;
        double *points = tokens(item), x[64], expected = expected_of(item, "ball");
        for (int64_t i = 0; single && i < n * d; i++)
            points[i] = (double)(float)points[i];
        rs_lp_centre got = ball(x, points, n, d, RS_LP_TOLERANCE);
        /* Beside the gap, the rounding of entries that are nearly equal. */
        double noise = 4 * (double)d * U64;
        assert_near("radius", got.radius, expected, 2e-9, noise);
        assert_near("radius of x", radius_of(x, points, n, d), got.radius, 1e-12, noise);
        assert_true(got.lower <= got.radius && got.radius - got.lower <= 2e-9 * got.radius);
        if (n > 1) seen++;
        rs_token_measures all = measure(points, n, d, false, RS_CENTRE_LP);
        assert_true(all.residual_1inf >= 0 && all.residual_fro >= 0);
        free(points);
    }
    assert_true(seen >= 10);
    json_decref(cases);
}

/* n = 2: half the distance; the corners of the l1 unit ball: 1. */
static void l1_ball_closed_forms(void **state)
{
    (void)state;
    double x[3];
    const double pair[] = {1, 2, 3, 2, -1, 7};
    rs_lp_centre got = ball(x, pair, 2, 3, RS_LP_TOLERANCE);
    assert_near("pair", got.radius, 4, 1e-9, 0);
    const double corners[] = {1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1};
    got = ball(x, corners, 6, 3, RS_LP_TOLERANCE);
    assert_near("corners", got.radius, 1, 1e-9, 0);
    for (int k = 0; k < 3; k++)
        assert_near("centre", x[k], 0, 0, 1e-8);
    const double same[] = {5, 6, 7, 5, 6, 7};
    got = ball(x, same, 2, 3, RS_LP_TOLERANCE);
    assert_true(got.radius == 0 && x[0] == 5 && x[1] == 6 && x[2] == 7);
}

/* ---- published vectors and closed forms ---- */

/* docs/theory/tokens.md, 8. */
static void published_vector(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4, 5, 9};
    for (int single = 0; single < 2; single++) {
        rs_token_measures m = measure(x, 3, 2, single, RS_CENTRE_MEAN);
        assert_near("d_M", m.residual_fro, 5.830951894845301, 1e-15, 0);
        assert_near("F2", m.norm_fro * m.norm_fro, 136, 1e-15, 0);
        assert_near("relative residual", m.relative_residual, 0.5, 1e-15, 0);
        assert_near("mean cosine", m.mean_cosine, .9912125493531255, 1e-15, 0);
        assert_near("1 - mean cosine", m.one_minus_cosine, 1 - .9912125493531255, 1e-13, 0);
        assert_near("sr(X)", m.stable_rank, 1.0029367231735111, 1e-15, 0);
        assert_near("sr(Sigma)", m.stable_rank_gram, 1.0000086243429978, 1e-15, 0);
        /* ‖R‖₁ = 8 and ‖R‖∞ = 6 of R = (−2,−3; 0,−1; 2,4). */
        assert_near("composite", m.residual_1inf, sqrt(48), 1e-15, 0);
        assert_near("diameter", m.diameter, sqrt(65), 1e-15, 0);
        assert_true(m.numerical_rank == 2 && !m.at_floor);
    }
}

/* docs/theory/tokens.md, 4: antipodal tokens have rank one and the maximal spread. */
static void antipodal_tokens(void **state)
{
    (void)state;
    const double x[] = {3, 4, 0, -3, -4, 0, 3, 4, 0, -3, -4, 0};
    rs_token_measures m = measure(x, 4, 3, false, RS_CENTRE_MEAN);
    assert_near("relative residual", m.relative_residual, 1, 1e-15, 0);
    assert_near("mu", m.row_normalised_mu, 1, 1e-15, 0);
    assert_near("mean cosine", m.mean_cosine, -1. / 3, 1e-15, 0);
    assert_near("rank-1 residual", m.rank1_residual, 0, 0, 1e-15);
    assert_near("diameter", m.diameter, 10, 1e-15, 0);
    assert_near("effective rank", m.effective_rank, 1, 1e-13, 0);
    assert_true(m.numerical_rank == 1 && !m.at_floor);
}

/* Trap 2: one token of norm 1, the others 0 or tiny: rank one although the relative residual is
 * sqrt(1 − 1/n). */
static void rank_one_with_unequal_norms(void **state)
{
    (void)state;
    double x[4 * 3];
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            x[i * 3 + k] = (k + 1) * ldexp(1, -40 * i);
    rs_token_measures m = measure(x, 4, 3, false, RS_CENTRE_MEAN);
    assert_near("relative residual", m.relative_residual, sqrt(0.75), 1e-9, 0);
    assert_near("mu", m.row_normalised_mu, 0, 0, 4 * U64);
    assert_near("rank-1 residual", m.rank1_residual, 0, 0, 4 * U64);
    assert_near("mean cosine", m.mean_cosine, 1, 1e-15, 0);
}

/* docs/theory/tokens.md, 2: the composite norm of ((1,1),(0,0)) and ((1,0),(1,0)) is √2, of their
 * sum 3. */
static void composite_norm_has_its_root(void **state)
{
    (void)state;
    /* Centred matrices 2A of the same shape: columns (1, −1). */
    const double x[] = {1, 1, -1, -1};
    rs_token_measures m = measure(x, 2, 2, false, RS_CENTRE_MEAN);
    assert_near("composite", m.residual_1inf, 2, 1e-15, 0);
    assert_near("relative", m.relative_residual_1inf, 1, 1e-15, 0);
}

/* docs/theory/corrections.md, 12: X = (1,0,0,0): centred by the median 1, by the mean 1.125 =
 * sqrt(1.5 · 0.75) · …. */
static void mean_and_median_differ(void **state)
{
    (void)state;
    const double x[] = {1, 0, 0, 0};
    rs_token_measures mean = measure(x, 4, 1, false, RS_CENTRE_MEAN);
    rs_token_measures median = measure(x, 4, 1, false, RS_CENTRE_MEDIAN);
    assert_near("mean", mean.residual_1inf * mean.residual_1inf, 1.125, 1e-15, 0);
    assert_near("median", median.residual_1inf, 1, 1e-15, 0);
}

static void identical_tokens(void **state)
{
    (void)state;
    double x[5 * 4];
    for (int i = 0; i < 20; i++)
        x[i] = 0.1 * (i % 4 + 1);
    for (int single = 0; single < 2; single++) {
        rs_token_measures m = measure(x, 5, 4, single, RS_CENTRE_MEAN);
        assert_true(m.residual_fro == 0 && m.relative_residual == 0 && m.diameter == 0);
        assert_true(m.at_floor && m.numerical_rank == 1);
        assert_near("1 - cosine", m.one_minus_cosine, 0, 0, 1e-31);
        assert_near("rank-1 residual", m.rank1_residual, 0, 0, 4 * U64);
    }
}

static void identity_matrix(void **state)
{
    (void)state;
    enum { N = 30 };
    double x[N * N] = {0};
    for (int i = 0; i < N; i++)
        x[i * N + i] = 1;
    rs_token_measures m = measure(x, N, N, false, RS_CENTRE_MEAN);
    assert_near("effective rank", m.effective_rank, N, 1e-13, 0);
    assert_near("stable rank", m.stable_rank, N, 1e-13, 0);
    assert_near("rank-1 residual", m.rank1_residual, sqrt(1 - 1. / N), 1e-14, 0);
    assert_near("relative residual", m.relative_residual, sqrt(1 - 1. / N), 1e-14, 0);
    assert_near("mean cosine", m.mean_cosine, 0, 0, 1e-15);
    assert_near("diameter", m.diameter, sqrt(2), 1e-15, 0);
    assert_true(m.numerical_rank == N);
}

static void undefined_is_nan(void **state)
{
    (void)state;
    const double zero[6] = {0};
    rs_token_measures m = measure(zero, 3, 2, false, RS_CENTRE_LP);
    assert_true(m.norm_fro == 0 && m.residual_fro == 0 && m.diameter == 0);
    assert_true(isnan(m.relative_residual) && isnan(m.relative_residual_1inf));
    assert_true(isnan(m.mean_cosine) && isnan(m.effective_rank) && isnan(m.stable_rank));
    assert_true(isnan(m.rank1_residual) && isnan(m.numerical_rank) && !m.at_floor);
    assert_true(isnan(m.row_normalised_mu) && isnan(m.one_minus_cosine));
    const double one[] = {3, 4};
    m = measure(one, 1, 2, false, RS_CENTRE_MEAN);
    assert_true(m.relative_residual == 0 && m.at_floor && isnan(m.mean_cosine));
    assert_true(m.norm_fro == 5 && m.effective_rank == 1 && m.rank1_residual == 0);
    /* Zero rows have no direction: the cosine is over the other two. */
    const double gap[] = {1, 0, 0, 0, 0, 1};
    m = measure(gap, 3, 2, false, RS_CENTRE_MEAN);
    assert_near("cosine", m.mean_cosine, 0, 0, 1e-16);
    assert_near("mu", m.row_normalised_mu, sqrt((2. - 2. / 3) / 3), 1e-15, 0);
    /* Squares of a row may be below the doubles: it has its direction. */
    for (int k = -150; k >= -200; k -= 10) {
        const double faint[] = {3e-11, -4e-11, 3 * pow(10, k), -4 * pow(10, k)};
        m = measure(faint, 2, 2, false, RS_CENTRE_MEAN);
        assert_near("cosine", m.mean_cosine, 1, 1e-14, 0);
        assert_near("mu", m.row_normalised_mu, 0, 0, 1e-14);
    }
}

static void nonfinite_is_located(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        double x[] = {1, 2, 3, 4, bad[i], 6, bad[i], 8};
        for (int single = 0; single < 2; single++) {
            rs_token_measures m = measure(x, 4, 2, single, RS_CENTRE_MEAN);
            assert_int_equal(m.first_nonfinite, 2);
            assert_true(isnan(m.norm_fro) && isnan(m.diameter) && isnan(m.numerical_rank));
            assert_true(!m.at_floor);
        }
    }
}

/* Powers of two change nothing but the scale, at either end of the range. */
static void extreme_scales(void **state)
{
    (void)state;
    double *x = entries(12 * 7, 77), y[12 * 7];
    rs_token_measures plain = measure(x, 12, 7, false, RS_CENTRE_MEAN);
    static const int exponents[] = {-900, -300, 300, 900};
    for (int e = 0; e < 4; e++) {
        for (int i = 0; i < 12 * 7; i++)
            y[i] = ldexp(x[i], exponents[e]);
        rs_token_measures m = measure(y, 12, 7, false, RS_CENTRE_MEAN);
        assert_near("norm", m.norm_fro, ldexp(plain.norm_fro, exponents[e]), 1e-14, 0);
        assert_near("diameter", m.diameter, ldexp(plain.diameter, exponents[e]), 1e-14, 0);
        assert_near("1inf", m.residual_1inf, ldexp(plain.residual_1inf, exponents[e]), 1e-14, 0);
        assert_near("residual", m.relative_residual, plain.relative_residual, 1e-14, 0);
        assert_near("effective rank", m.effective_rank, plain.effective_rank, 1e-12, 0);
        assert_near("cosine", m.one_minus_cosine, plain.one_minus_cosine, 1e-14, 0);
    }
    free(x);
}

/* docs/theory/tokens.md, 7: 7.0e-7 in float32 is a measurement, 1.9e-7 is the floor. */
static void floor_lies_between_the_published_values(void **state)
{
    (void)state;
    double x[64 * 8];
    static const struct {
        double relative;
        bool at_floor;
    } cases[] = {{7.0e-7, false}, {3.5e-7, true}, {1.9e-7, true}};
    for (int c = 0; c < 3; c++) {
        /* Tokens ±relative around 1: the relative residual is `relative`. */
        for (int i = 0; i < 64 * 8; i++)
            x[i] = 1 + (i / 8 % 2 ? cases[c].relative : -cases[c].relative);
        rs_token_options options = {false, RS_CENTRE_MEAN, U32, 0, NULL, false};
        rs_token_measures m;
        void *workspace = malloc(rs_token_workspace(64, 8, &options));
        assert_non_null(workspace);
        assert_int_equal(rs_token_measure_f64(&m, x, 64, 8, 8, &options, workspace, NULL), RS_OK);
        assert_near("residual", m.relative_residual, cases[c].relative, 1e-8, 0);
        assert_int_equal(m.at_floor, cases[c].at_floor);
        assert_true(isnan(m.effective_rank) && isnan(m.rank1_residual) && isnan(m.stable_rank));
        free(workspace);
    }
}

/* A value of float64 data beside the threshold of the numerical rank takes the direct route:
 * diagonal matrices say how many there are. */
static void numerical_rank_beside_its_threshold(void **state)
{
    (void)state;
    enum { N = 16 };
    static const struct {
        bool single;
        double factor;
        double rank;
    } cases[] = {
        {false, 1.5, 9}, {false, 0.5, 8}, {true, 1.01, 9}, {true, 0.99, 8}, {true, 1e-9, 8}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double x[N * N] = {0}, epsilon = cases[c].single ? FLT_EPSILON : DBL_EPSILON;
        for (int i = 0; i < 8; i++)
            x[i * N + i] = 1;
        x[8 * N + 8] = cases[c].factor * N * epsilon;
        rs_token_measures m = measure(x, N, N, cases[c].single, RS_CENTRE_MEAN);
        assert_near("numerical rank", m.numerical_rank, cases[c].rank, 0, 0);
        assert_near("effective rank", m.effective_rank, 8, 1e-4, 0);
    }
}

/* Blocks of rows: more tokens than one block of the diameter, against all pairs. */
static void diameter_of_many_tokens(void **state)
{
    (void)state;
    enum { N = 700, D = 5 };
    double *x = entries(N * D, 5), best = 0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) {
            double sum = 0;
            for (int k = 0; k < D; k++)
                sum += (x[i * D + k] - x[j * D + k]) * (x[i * D + k] - x[j * D + k]);
            best = fmax(best, sqrt(sum));
        }
    }
    rs_token_measures m = measure(x, N, D, false, RS_CENTRE_MEAN);
    assert_near("diameter", m.diameter, best, 1e-15, 0);
    free(x);
}

/* Left out, the diameter is undefined, needs no room, and changes no other measure. */
static void diameter_left_out(void **state)
{
    (void)state;
    enum { N = 300, D = 7 };
    double *x = entries(N * D, 6);
    for (int centre = RS_CENTRE_MEAN; centre <= RS_CENTRE_LP; centre++) {
        rs_token_measures whole = measure(x, N, D, false, (rs_centre)centre), m;
        rs_token_options options = {true, (rs_centre)centre, U64, 0, NULL, true};
        void *workspace = malloc(rs_token_workspace(N, D, &options));
        assert_non_null(workspace);
        assert_int_equal(rs_token_measure_f64(&m, x, N, D, D, &options, workspace, NULL), RS_OK);
        assert_true(isnan(m.diameter) && whole.diameter > 0);
        assert_true(m.residual_fro == whole.residual_fro && m.residual_1inf == whole.residual_1inf);
        assert_true(m.one_minus_cosine == whole.one_minus_cosine);
        assert_true(m.effective_rank == whole.effective_rank);
        assert_true(m.rank1_residual == whole.rank1_residual);
        free(workspace);
    }
    free(x);
}

static void senseless_sizes_are_refused(void **state)
{
    (void)state;
    rs_token_options options = {true, RS_CENTRE_LP, U64, 0, NULL, false};
    rs_token_measures m;
    const double x[4] = {0};
    static const int64_t sizes[][3] = {{0, 1, 1}, {1, 0, 1}, {1, 2, 1}, {-1, 2, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        rs_error err = {0};
        assert_int_equal(rs_token_measure_f64(&m, x, sizes[i][0], sizes[i][1], sizes[i][2],
                                              &options, NULL, &err),
                         RS_E_INTERNAL);
        assert_true(err.what[0] != 0);
    }
    assert_true(rs_token_workspace(INT32_MAX, INT32_MAX, &options) == SIZE_MAX);
    assert_true(rs_token_workspace((int64_t)INT32_MAX + 1, 1, &options) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_golden),
        cmocka_unit_test(l1_ball_is_the_linear_programme_s),
        cmocka_unit_test(l1_ball_closed_forms),
        cmocka_unit_test(published_vector),
        cmocka_unit_test(antipodal_tokens),
        cmocka_unit_test(rank_one_with_unequal_norms),
        cmocka_unit_test(composite_norm_has_its_root),
        cmocka_unit_test(mean_and_median_differ),
        cmocka_unit_test(identical_tokens),
        cmocka_unit_test(identity_matrix),
        cmocka_unit_test(undefined_is_nan),
        cmocka_unit_test(nonfinite_is_located),
        cmocka_unit_test(extreme_scales),
        cmocka_unit_test(floor_lies_between_the_published_values),
        cmocka_unit_test(numerical_rank_beside_its_threshold),
        cmocka_unit_test(diameter_of_many_tokens),
        cmocka_unit_test(diameter_left_out),
        cmocka_unit_test(senseless_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
