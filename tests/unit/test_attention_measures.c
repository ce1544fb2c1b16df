/* test_attention_measures.c: the measures of mixing matrices against mpmath, NumPy and LAPACK
 * (tests/oracle/make_measures_golden.py), the published vectors, closed forms, and matrices that
 * Krylov methods find hard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "linalg/krylov.h"
#include "measure_cases.h"
#include "measures/attention_measures.h"

#include <float.h>

typedef struct setting {
    bool single, causal;
    int64_t window;
    bool ranks;
} setting;

/* Both entry points with a gap of two behind every row,
 * and NaN where a causal mask does not look. */
static rs_attention_measures measure(const double *a, const double *p, const double *logits,
                                     int64_t n, setting s)
{
    const double *source[3] = {a, p, logits};
    float *narrow[3] = {NULL};
    double *wide[3] = {NULL};
    int64_t ld = n + 2;
    for (int m = 0; m < 3; m++) {
        if (!source[m]) continue;
        narrow[m] = malloc((size_t)(n * ld) * sizeof **narrow);
        wide[m] = malloc((size_t)(n * ld) * sizeof **wide);
        assert_non_null(narrow[m]);
        assert_non_null(wide[m]);
        for (int64_t i = 0; i < n * ld; i++) {
            bool read = i % ld < (s.causal ? i / ld + 1 : n);
            double entry = read ? source[m][i / ld * n + i % ld] : NAN;
            wide[m][i] = entry;
            narrow[m][i] = (float)entry;
        }
    }
    void *workspace = malloc(rs_attention_workspace(n));
    assert_non_null(workspace);
    rs_attention_measures out;
    rs_error err = {0};
    int64_t before = rs_memory_requests();
    rs_status status = s.single
                           ? rs_attention_measure_f32(&out, narrow[0], narrow[1], narrow[2], n, ld,
                                                      s.causal, s.window, s.ranks, workspace, &err)
                           : rs_attention_measure_f64(&out, wide[0], wide[1], wide[2], n, ld,
                                                      s.causal, s.window, s.ranks, workspace, &err);
    if (status != RS_OK) fail_msg("%s: %s", err.where, err.what);
    assert_int_equal(rs_memory_requests(), before);
    for (int m = 0; m < 3; m++) {
        free(narrow[m]);
        free(wide[m]);
    }
    free(workspace);
    return out;
}

static rs_attention_measures plain(const double *a, int64_t n)
{
    return measure(a, a, NULL, n, (setting){0});
}

/* ---- golden ---- */

typedef struct example {
    double *p, *a, *logits;
} example;

static bool sees(const json_t *item, int64_t i, int64_t j)
{
    int64_t window = integer_of(item, "window");
    if (strcmp(text_of(item, "mask"), "causal") == 0 && j > i) return false;
    return window == 0 || (i - j < window && j - i < window);
}

/* One row of P: (1/2 + r)^power over the visible keys, divided by its sum. */
static void softmax_row(double *p, const json_t *item, const double *r, int64_t i)
{
    int64_t n = integer_of(item, "n"), power = integer_of(item, "power");
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        double base = sees(item, i, j) ? r[j] + 0.5 : 0;
        p[j] = base;
        for (int64_t k = 1; k < power; k++)
            p[j] *= base;
        sum += p[j];
    }
    bool masked = strcmp(text_of(item, "edit"), "masked") == 0 && i % 7 == 5;
    for (int64_t j = 0; j < n; j++)
        p[j] = masked ? 0 : p[j] / sum;
}

static void edit_row(double *a, const json_t *item, const double *p, int64_t i)
{
    int64_t n = integer_of(item, "n"), count = 0;
    const char *edit = text_of(item, "edit");
    for (int64_t j = 0; j < n; j++)
        count += sees(item, i, j);
    for (int64_t j = 0; j < n; j++) {
        double even = sees(item, i, j) ? 1 / (double)count : 0;
        a[j] = p[j];
        if (strcmp(edit, "centred") == 0) a[j] = p[j] - even;
        if (strcmp(edit, "rescaled") == 0) a[j] = 0.5 * p[j];
        if (strcmp(edit, "shaped") == 0) a[j] = ((i == j) + 0.5 * p[j]) - 0.5 * even;
    }
}

static example make_example(const json_t *item)
{
    int64_t n = integer_of(item, "n");
    double *numbers = entries(2 * n * n, (uint64_t)integer_of(item, "seed"));
    example e = {malloc((size_t)(n * n) * 8), malloc((size_t)(n * n) * 8),
                 malloc((size_t)(n * n) * 8)};
    assert_true(e.p && e.a && e.logits);
    for (int64_t i = 0; i < n; i++) {
        softmax_row(e.p + i * n, item, numbers + i * n, i);
        edit_row(e.a + i * n, item, e.p + i * n, i);
        for (int64_t j = 0; j < n; j++)
            e.logits[i * n + j] = 8 * numbers[n * n + i * n + j];
    }
    free(numbers);
    return e;
}

static void check_golden(const json_t *item, bool single)
{
    int64_t n = integer_of(item, "n");
    example e = make_example(item);
    bool causal = strcmp(text_of(item, "mask"), "causal") == 0;
    rs_attention_measures got = measure(
        e.a, e.p, e.logits, n, (setting){single, causal, integer_of(item, "window"), false});
    /* What the rounding of the entries to float32 does to a norm, or to an eigenvalue of condition
     * up to 50. */
    double loose = single ? 4e-7 : 1e-13, eigen = single ? 3e-6 : 1e-9;
    double noise = single ? 1e-7 : 1e-15;
    const struct {
        const char *name;
        double value, relative;
    } columns[] = {{"entropy", got.entropy, loose},
                   {"logit_variance", got.logit_variance, loose},
                   {"sigma1", got.sigma1, single ? loose : 1e-11},
                   {"sigma2", got.sigma2, single ? loose : 1e-11},
                   {"lambda2", got.lambda2, eigen},
                   {"dobrushin", got.dobrushin, loose},
                   {"distance_to_uniform", got.distance_to_uniform, loose},
                   {"self_weight", got.self_weight, loose},
                   {"first_token_weight", got.first_token_weight, loose},
                   {"centred_norm_squared", got.centred_norm_squared, single ? loose : 1e-11}};
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
        char what[96];
        snprintf(what, sizeof what, "%s, n = %d, seed %d", columns[c].name, (int)n,
                 (int)integer_of(item, "seed"));
        assert_near(what, columns[c].value, expected_of(item, columns[c].name), columns[c].relative,
                    noise);
    }
    assert_true(got.converged);
    assert_near("gap", got.spectral_gap, 1 - got.lambda2, 1e-15, 1e-16);
    free(e.p);
    free(e.a);
    free(e.logits);
}

/* One more number of the golden file; null in it: NaN. */
static void check_rank(const json_t *item, const char *name, double value, double relative)
{
    char what[96];
    snprintf(what, sizeof what, "%s, n = %d, seed %d", name, (int)integer_of(item, "n"),
             (int)integer_of(item, "seed"));
    if (!json_object_get(item, name)) {
        if (!isnan(value)) fail_msg("%s is %g, where it has no value", what, value);
        return;
    }
    assert_near(what, value, expected_of(item, name), relative, 0);
}

/* Ranks of doubles, counted ones exactly, and σ₁ and σ₂ by the way they come then. */
static void check_golden_ranks(const json_t *item)
{
    int64_t n = integer_of(item, "n");
    example e = make_example(item);
    bool causal = strcmp(text_of(item, "mask"), "causal") == 0;
    setting s = {.causal = causal, .window = integer_of(item, "window")};
    rs_attention_measures without = measure(e.a, e.p, e.logits, n, s);
    s.ranks = true;
    rs_attention_measures got = measure(e.a, e.p, e.logits, n, s);
    assert_true(isnan(without.effective_rank) && isnan(without.centred_numerical_rank));
    assert_true(got.converged);
    assert_near("lambda2", got.lambda2, without.lambda2, 0, 0);
    check_rank(item, "sigma1", got.sigma1, 1e-13);
    check_rank(item, "effective_rank", got.effective_rank, 1e-10);
    check_rank(item, "stable_rank", got.stable_rank, 1e-10);
    check_rank(item, "energy_rank", got.energy_rank, 0);
    check_rank(item, "numerical_rank", got.numerical_rank, 0);
    check_rank(item, "centred_effective_rank", got.centred_effective_rank, 1e-10);
    check_rank(item, "centred_stable_rank", got.centred_stable_rank, 1e-10);
    check_rank(item, "centred_energy_rank", got.centred_energy_rank, 0);
    check_rank(item, "centred_numerical_rank", got.centred_numerical_rank, 0);
    s.single = true;
    got = measure(e.a, e.p, e.logits, n, s);
    check_rank(item, "effective_rank", got.effective_rank, 1e-4);
    check_rank(item, "stable_rank", got.stable_rank, 1e-5);
    free(e.p);
    free(e.a);
    free(e.logits);
}

static void agrees_with_golden(void **state)
{
    (void)state;
    json_t *cases = load_cases(RS_TEST_DATA "/measures/attention.json", 18), *item;
    size_t index;
    json_array_foreach(cases, index, item)
    {
        check_golden(item, false);
        check_golden(item, true);
        check_golden_ranks(item);
    }
    json_decref(cases);
}

/* ---- published vectors and closed forms ---- */

/* docs/theory/attention.md, 9. */
static void published_vector(void **state)
{
    (void)state;
    const double a[] = {1. / 3, 2. / 3, 3. / 4, 1. / 4};
    rs_attention_measures m = plain(a, 2);
    assert_near("sigma1", m.sigma1, 1.0041855907413282, 1e-15, 0);
    assert_near("sigma2", m.sigma2, .41492993975253856, 1e-15, 0);
    assert_near("lambda2", m.lambda2, 5. / 12, 1e-15, 0);
    assert_near("gap", m.spectral_gap, 7. / 12, 1e-15, 0);
    assert_near("Dobrushin", m.dobrushin, 5. / 12, 1e-15, 0);
    assert_near("entropy", m.entropy, .5994246564568105, 1e-15, 0);
    /* PA has the rows ±(5/24)(−1, 1): one singular value, 5/12. */
    assert_near("centred", sqrt(m.centred_norm_squared), 5. / 12, 1e-15, 0);
    assert_near("distance", m.distance_to_uniform, sqrt(2. / 36 + 2. / 16), 1e-15, 0);
}

/* Uniform causal attention (docs/theory/attention.md, 2 and 3): eigenvalues 1, 1/2, …, 1/n. */
static void uniform_causal(void **state)
{
    (void)state;
    double a[64 * 64] = {0};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j <= i; j++)
            a[i * 4 + j] = 1. / (i + 1);
    rs_attention_measures m = measure(a, a, a, 4, (setting){.causal = true});
    assert_near("sigma1", m.sigma1, 1.272287989759105, 1e-14, 0);
    assert_near("lambda2", m.lambda2, 0.5, 1e-15, 0);
    assert_near("distance", m.distance_to_uniform, 0, 0, 1e-15);
    assert_near("logit variance", m.logit_variance, 0, 0, 1e-30);
    assert_near("self", m.self_weight, (1 + 1. / 2 + 1. / 3 + 1. / 4) / 4, 1e-15, 0);
    assert_near("first", m.first_token_weight, (1 + 1. / 2 + 1. / 3 + 1. / 4) / 4, 1e-15, 0);
    assert_near("entropy", m.entropy, log(24) / 4, 1e-15, 0);
    assert_near("Dobrushin", m.dobrushin, 0.75, 1e-15, 0);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j <= i; j++)
            a[i * 64 + j] = 1. / (i + 1);
    m = measure(a, a, NULL, 64, (setting){.causal = true});
    /* s₁ and s₂ of T = 64 as docs/theory/attention.md, 3 has them. */
    assert_near("sigma1", m.sigma1, 1.598, 0, 5e-4);
    assert_near("sigma2", m.sigma2, 1.014, 0, 5e-4);
    assert_true(isnan(m.logit_variance));
}

/* Shi et al.: rows e1, e1, e2, e2 have λ_max(AᵀPA) = 2 (docs/theory/attention.md, 5). */
static void smoothing_factor_may_exceed_one(void **state)
{
    (void)state;
    const double a[16] = {1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0};
    rs_attention_measures m = plain(a, 4);
    assert_near("centred", m.centred_norm_squared, 2, 1e-14, 0);
    assert_near("sigma1 squared", m.sigma1 * m.sigma1, 2, 1e-14, 0);
    assert_near("sigma2 squared", m.sigma2 * m.sigma2, 2, 1e-14, 0);
    assert_near("entropy", m.entropy, 0, 0, 1e-16);
    assert_near("Dobrushin", m.dobrushin, 1, 1e-15, 0);
}

static void fill(double *a, int64_t n, double value)
{
    for (int64_t i = 0; i < n * n; i++)
        a[i] = value;
}

static void uniform_identity_and_permutation(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 5, 13, 40, 130};
    for (int s = 0; s < 6; s++) {
        int64_t n = sizes[s];
        double *a = malloc((size_t)(n * n) * sizeof *a), size = (double)n;
        assert_non_null(a);
        fill(a, n, 1 / size);
        rs_attention_measures m = plain(a, n);
        assert_true(m.converged);
        assert_near("uniform sigma1", m.sigma1, 1, 1e-13, 0);
        assert_near("uniform sigma2", m.sigma2, 0, 0, 1e-13);
        assert_near("uniform lambda2", m.lambda2, 0, 0, 1e-13);
        assert_near("uniform centred", m.centred_norm_squared, 0, 0, 1e-26);
        assert_near("uniform Dobrushin", m.dobrushin, 0, 0, 1e-15);
        assert_near("uniform entropy", m.entropy, log(size), 1e-14, 0);
        assert_near("uniform distance", m.distance_to_uniform, 0, 0, 1e-14);
        fill(a, n, 0);
        for (int64_t i = 0; i < n; i++)
            a[i * n + i] = 1;
        m = plain(a, n);
        double second = n > 1;
        assert_near("identity sigma2", m.sigma2, second, 1e-13, 0);
        assert_near("identity lambda2", m.lambda2, second, 1e-13, 0);
        assert_near("identity centred", m.centred_norm_squared, second, 1e-13, 0);
        assert_near("identity self", m.self_weight, 1, 1e-15, 0);
        assert_near("identity distance", m.distance_to_uniform, sqrt(size - 1), 1e-13, 0);
        /* One cycle: all eigenvalues on the unit circle. */
        fill(a, n, 0);
        for (int64_t i = 0; i < n; i++)
            a[i * n + (i + 1) % n] = 1;
        m = plain(a, n);
        assert_near("cycle sigma2", m.sigma2, second, 1e-13, 0);
        assert_near("cycle lambda2", m.lambda2, second, 1e-11, 0);
        free(a);
    }
}

static void rank_one(void **state)
{
    (void)state;
    enum { N = 50 };
    double *q = entries(N, 3), a[N * N], sum = 0, squares = 0;
    for (int j = 0; j < N; j++)
        sum += q[j] += 0.5;
    for (int j = 0; j < N; j++)
        squares += q[j] / sum * (q[j] / sum);
    for (int i = 0; i < N * N; i++)
        a[i] = q[i % N] / sum;
    rs_attention_measures m = plain(a, N);
    assert_near("sigma1", m.sigma1, sqrt(N * squares), 1e-13, 0);
    assert_near("sigma2", m.sigma2, 0, 0, 1e-14);
    assert_near("lambda2", m.lambda2, 0, 0, 1e-14);
    assert_near("Dobrushin", m.dobrushin, 0, 0, 1e-15);
    free(q);
}

/* ---- matrices that are hard for Krylov methods ---- */

/* A circulant of c: eigenvalues Σ c_j ω^{jk}, complex pairs in general. */
static double circulant(double *a, int n, const double c[4])
{
    double second = 0, turn = 2 * acos(-1) / n;
    memset(a, 0, (size_t)(n * n) * sizeof *a);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 4; j++)
            a[i * n + (i + j) % n] = c[j];
    for (int k = 1; k < n; k++) {
        double re = 0, im = 0;
        for (int j = 0; j < 4; j++) {
            re += c[j] * cos(turn * k * j);
            im += c[j] * sin(turn * k * j);
        }
        second = fmax(second, hypot(re, im));
    }
    return second;
}

static void circulants(void **state)
{
    (void)state;
    static const double filters[][4] = {
        {0.5, 0.5, 0, 0}, {0.2, 0.5, 0.3, 0}, {0.05, 0.05, 0.05, 0.85}, {0, 0, 1, 0}};
    /* At 130 Arnoldi has to give up on the third, whose moduli lie close together. */
    static const int sizes[] = {60, 130};
    for (int s = 0; s < 2; s++) {
        int n = sizes[s];
        double *a = malloc((size_t)(n * n) * sizeof *a);
        assert_non_null(a);
        for (int f = 0; f < 4; f++) {
            double expected = circulant(a, n, filters[f]);
            rs_attention_measures m = plain(a, n);
            assert_near("circulant lambda2", m.lambda2, expected, 1e-9, 0);
            /* Normal: the singular values are the moduli. */
            assert_near("circulant sigma1", m.sigma1, 1, 1e-12, 0);
            assert_near("circulant sigma2", m.sigma2, expected, 1e-11, 0);
            assert_true(m.converged);
        }
        free(a);
    }
}

/* Where Arnoldi gives up it says so: the tokens look at their neighbour, with some noise. */
static void hard_for_arnoldi(void **state)
{
    (void)state;
    enum { N = 130 };
    double *a = malloc(N * N * sizeof *a);
    assert_non_null(a);
    (void)circulant(a, N, (const double[]){0, 0.999, 0.001, 0});
    rs_workspace space = {0};
    rs_krylov_space(N, &space);
    space = (rs_workspace){.base = malloc(space.used)};
    assert_non_null(space.base);
    void *base = space.base;
    rs_eigenvalue got;
    rs_largest_eigenvalue(&got, NULL, a, N, NULL, 1e-11, &space);
    /* Either the residual test was passed, and then the modulus is that of an eigenvalue,
     * or not. */
    assert_true(!got.converged || fabs(got.modulus - 1) < 1e-9);
    rs_attention_measures m = plain(a, N);
    double second = circulant(a, N, (const double[]){0, 0.999, 0.001, 0});
    assert_true(m.converged);
    assert_near("lambda2", m.lambda2, second, 1e-9, 0);
    free(base);
    free(a);
}

/* Row-stochastic with k copies of one eigenvalue and a Jordan block at another: block diagonal of
 * S₁ = (1−t)J + tI (eigenvalue t, multiplicity n−1) and a bidiagonal chain into the first token. */
static void defective_and_multiple(void **state)
{
    (void)state;
    enum { N = 30, CHAIN = 3 };
    double a[N * N] = {0};
    int block = N - CHAIN;
    for (int i = 0; i < block; i++)
        for (int j = 0; j < block; j++)
            a[i * N + j] = 0.7 / block + (i == j ? 0.3 : 0);
    /* Chain: stays with 0.6, moves on with 0.4, the last into token 0: a Jordan block at 0.6. */
    for (int i = block; i < N; i++) {
        a[i * N + i] = 0.6;
        a[i * N + (i + 1 < N ? i + 1 : 0)] = 0.4;
    }
    rs_attention_measures m = plain(a, N);
    /* A triple eigenvalue moves by the cube root of the rounding. */
    assert_near("Jordan", m.lambda2, 0.6, 1e-4, 0);
    assert_true(m.converged);
    /* Two closed groups of tokens: 1 is a double eigenvalue. */
    double b[N * N] = {0};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            if ((i < 11) == (j < 11)) b[i * N + j] = 1. / (i < 11 ? 11 : N - 11);
    m = plain(b, N);
    assert_near("two groups", m.lambda2, 1, 1e-12, 0);
    assert_near("gap", m.spectral_gap, 0, 0, 1e-12);
    assert_near("sigma2", m.sigma2, 1, 1e-12, 0);
}

/* Nilpotent after deflation: every token but the last looks at the next one, the last at itself.
 * Strictly triangular on purpose, so that no rounding is involved. */
static void nilpotent(void **state)
{
    (void)state;
    enum { N = 40 };
    double a[N * N] = {0};
    for (int i = 0; i < N; i++)
        a[i * N + (i + 1 < N ? i + 1 : i)] = 1;
    rs_attention_measures m = plain(a, N);
    assert_near("lambda2", m.lambda2, 0, 0, 1e-15);
    assert_near("sigma1", m.sigma1, sqrt(2), 1e-13, 0);
    assert_near("sigma2", m.sigma2, 1, 1e-13, 0);
    assert_near("Dobrushin", m.dobrushin, 1, 1e-15, 0);
}

/* A symmetric tridiagonal Toeplitz walk: eigenvalues cos(πk/n), neighbours 1e-3 apart, ± pairs. */
static void nearly_equal_moduli(void **state)
{
    (void)state;
    enum { N = 96 };
    double a[N * N] = {0}, pi = acos(-1);
    for (int i = 0; i < N; i++) {
        a[i * N + (i > 0 ? i - 1 : i)] += 0.5;
        a[i * N + (i + 1 < N ? i + 1 : i)] += 0.5;
    }
    rs_attention_measures m = plain(a, N);
    assert_near("lambda2", m.lambda2, cos(pi / N), 1e-9, 0);
    assert_near("sigma1", m.sigma1, 1, 1e-12, 0);
    assert_near("sigma2", m.sigma2, cos(pi / N), 1e-11, 0);
    assert_near("centred", m.centred_norm_squared, cos(pi / N) * cos(pi / N), 1e-11, 0);
}

/* Not stochastic: αI + βP − γJ with known spectrum, its largest eigenvalue multiple. */
static void edited_with_multiplicities(void **state)
{
    (void)state;
    enum { N = 35 };
    double a[N * N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            a[i * N + j] = (i == j ? 0.8 : 0) - 0.5 / N;
    /* Eigenvalues 0.8 (n−1 times) and 0.3. */
    rs_attention_measures m = plain(a, N);
    assert_near("lambda2", m.lambda2, 0.8, 1e-12, 0);
    assert_near("sigma2", m.sigma2, 0.8, 1e-12, 0);
    /* diag(3, 3, 1, …) in another basis (Householder): rows of unequal sums. */
    double v[N], square = 0, *r = entries(N, 9);
    for (int i = 0; i < N; i++)
        square += r[i] * r[i];
    for (int i = 0; i < N; i++)
        v[i] = r[i] / sqrt(square);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++) {
                double value = k < 2 ? 3 : 1. / (k + 1);
                sum += ((i == k) - 2 * v[i] * v[k]) * value * ((j == k) - 2 * v[j] * v[k]);
            }
            a[i * N + j] = sum;
        }
    }
    m = plain(a, N);
    assert_near("lambda2", m.lambda2, 3, 1e-9, 0);
    assert_near("sigma1", m.sigma1, 3, 1e-11, 0);
    assert_near("sigma2", m.sigma2, 3, 1e-11, 0);
    free(r);
}

static void zero_rows_and_zero_matrix(void **state)
{
    (void)state;
    double a[20 * 20] = {0};
    rs_attention_measures m = plain(a, 20);
    assert_true(m.sigma1 == 0 && m.sigma2 == 0 && m.lambda2 == 0 && m.converged);
    assert_true(isnan(m.entropy) && m.dobrushin == 0);
    /* Masked rows beside uniform ones. */
    for (int i = 0; i < 20; i++)
        for (int j = 0; i < 12 && j < 12; j++)
            a[i * 20 + j] = 1. / 12;
    m = plain(a, 20);
    assert_near("entropy", m.entropy, log(12), 1e-14, 0);
    assert_near("lambda2", m.lambda2, 0, 0, 1e-14);
    assert_near("sigma1", m.sigma1, 1, 1e-13, 0);
    assert_near("Dobrushin", m.dobrushin, 0.5, 1e-14, 0);
}

static void nonfinite_gives_nan(void **state)
{
    (void)state;
    double a[9] = {1, 0, 0, 0, 1, 0, 0, 0, NAN}, good[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    double logits[9] = {1, -INFINITY, NAN, 1, 3, -INFINITY, 5, 5, 5};
    rs_attention_measures m = measure(a, good, NULL, 3, (setting){0});
    assert_true(isnan(m.sigma1) && isnan(m.lambda2) && isnan(m.entropy) && isnan(m.dobrushin));
    m = measure(good, a, NULL, 3, (setting){.single = true});
    assert_true(isnan(m.sigma1) && isnan(m.lambda2) && isnan(m.entropy));
    m = measure(good, good, logits, 3, (setting){0});
    assert_near("logit variance", m.logit_variance, 1. / 3, 1e-15, 0);
    assert_near("sigma2", m.sigma2, 1, 1e-14, 0);
}

static void senseless_sizes_are_refused(void **state)
{
    (void)state;
    rs_attention_measures m;
    const double a[1] = {1};
    rs_error err = {0};
    assert_int_equal(rs_attention_measure_f64(&m, a, a, NULL, 0, 1, false, 0, false, NULL, &err),
                     RS_E_INTERNAL);
    assert_int_equal(rs_attention_measure_f64(&m, a, a, NULL, 2, 1, false, 0, false, NULL, &err),
                     RS_E_INTERNAL);
    assert_int_equal(rs_attention_measure_f64(&m, a, a, NULL, 1, 1, false, -1, false, NULL, &err),
                     RS_E_INTERNAL);
    assert_true(err.what[0] != 0);
    assert_true(rs_attention_workspace(INT64_MAX) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_golden),
        cmocka_unit_test(published_vector),
        cmocka_unit_test(uniform_causal),
        cmocka_unit_test(smoothing_factor_may_exceed_one),
        cmocka_unit_test(uniform_identity_and_permutation),
        cmocka_unit_test(rank_one),
        cmocka_unit_test(circulants),
        cmocka_unit_test(hard_for_arnoldi),
        cmocka_unit_test(defective_and_multiple),
        cmocka_unit_test(nilpotent),
        cmocka_unit_test(nearly_equal_moduli),
        cmocka_unit_test(edited_with_multiplicities),
        cmocka_unit_test(zero_rows_and_zero_matrix),
        cmocka_unit_test(nonfinite_gives_nan),
        cmocka_unit_test(senseless_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
