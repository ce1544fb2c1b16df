/* test_arch_input.c: the law of the states that an architecture file describes as its input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arch_support.h"

static rs_arch *arch_of(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    rs_arch *arch = NULL;
    rs_error err;
    rs_status status = rs_arch_read(&arch, json, "ARCH.json", &err);
    json_decref(json);
    if (status != RS_OK) fail_msg("%s: %s", text, err.what);
    return arch;
}

/* Squared norms are exact, correlations right in expectation: the mean over samples and pairs of
 * <x,y>/norm2 has variance at most that of one pair over samples. */
static void inputs_have_norm_and_correlation(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double rho, norm2;
    } rows[] = {
        {"{\"d_model\": 10, \"seq_len\": 5}", 0, 10},
        {"{\"d_model\": 10, \"seq_len\": 5, \"input\": {\"rho\": 0.3}}", 0.3, 10},
        {"{\"d_model\": 2, \"seq_len\": 5, \"input\": {\"rho\": 0.7, \"norm2\": \"1\"}}", 0.7, 1},
        {"{\"d_model\": 10, \"seq_len\": 5, \"input\": {\"rho\": \"1/n\", \"norm2\": \"2*d*L\"}}",
         0.2, 240},
        {"{\"d_model\": 10, \"seq_len\": 5, \"input\": {\"rho\": 1}}", 1, 10},
        {"{\"d_model\": 1, \"seq_len\": 5}", 0, 1},
        {"{\"d_model\": 10, \"seq_len\": 5, \"input\": {\"rho\": -0.1}}", -0.1, 10},
        {"{\"d_model\": 3, \"seq_len\": 5, \"input\": {\"rho\": -0.2, \"norm2\": 7}}", -0.2, 7},
        {"{\"d_model\": 2, \"seq_len\": 5, \"input\": {\"rho\": -0.15}}", -0.15, 2},
        {"{\"d_model\": 2, \"seq_len\": 5, \"input\": {\"rho\": \"-1/(n-1)\"}}", -0.25, 2},
        {"{\"d_model\": 4, \"seq_len\": 5, \"input\": {\"rho\": \"-1/(n-1)\"}}", -0.25, 4},
    };
    enum { TRIALS = 3000 };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        rs_arch *arch = arch_of(rows[r].text);
        int64_t n = arch->seq_len, d = arch->d_model;
        double x[50], mean = 0, square = 0, centre = 0;
        rs_error err;
        for (int t = 0; t < TRIALS; t++) {
            assert_int_equal(rs_arch_input(x, arch, 4, t, &err), RS_OK);
            double pairs = 0;
            for (int64_t a = 0; a < n; a++)
                for (int64_t b = 0; b <= a; b++) {
                    double dot = 0;
                    for (int64_t i = 0; i < d; i++)
                        dot += x[a * d + i] * x[b * d + i];
                    dot /= rows[r].norm2;
                    if (a == b)
                        assert_true(fabs(dot - 1) < 1e-14);
                    else
                        pairs += dot / 10;
                }
            mean += pairs / TRIALS;
            square += pairs * pairs / TRIALS;
            centre += x[0] / sqrt(rows[r].norm2) / TRIALS;
        }
        double error = sqrt(fmax(0, square - mean * mean) / TRIALS);
        if (!(fabs(mean - rows[r].rho) < 5 * error + 1e-12))
            fail_msg("%s: correlation %g, not %g", rows[r].text, mean, rows[r].rho);
        assert_true(fabs(centre) < 5 / sqrt((double)d * TRIALS)); /* directions are uniform */
        rs_arch_close(arch);
    }
}

/* Gram matrix of one drawn sample, in units of norm2: [n, n]. */
static void gram_of(double *gram, const char *text, int64_t sample)
{
    rs_arch *arch = arch_of(text);
    int64_t n = arch->seq_len, d = arch->rows ? arch->rows : arch->d_model;
    double *x = malloc((size_t)(n * d) * sizeof *x);
    rs_error err;
    assert_int_equal(rs_arch_input(x, arch, 11, sample, &err), RS_OK);
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = 0; b < n; b++) {
            double dot = 0;
            for (int64_t i = 0; i < d; i++)
                dot += x[a * d + i] * x[b * d + i];
            gram[a * n + b] = dot / arch->input_norm2;
        }
    free(x);
    rs_arch_close(arch);
}

/* One group has each pair's inner product itself; the sum of all of them is n (1 + (n - 1) rho) for any
 * number of groups that are regular, and 0 at the end of the range. */
static void correlations_below_zero(void **state)
{
    (void)state;
    enum { MOST = 300 };
    static double gram[MOST * MOST];
    static const struct {
        int n, d;
        double part; /* of -1/(n - 1) */
        bool one;    /* group */
    } rows[] = {{2, 2, 0.5, true},     {2, 1, 1, true},      {8, 8, 1, true},    {8, 7, 1, true},
                {8, 8, 0.3, true},     {8, 100, 1, true},    {1, 1, 0, true},    {3, 2, 1, true},
                {3, 2, 0.4, false},    {9, 8, 0.7, false},   {8, 1, 1, false},   {9, 7, 1, false},
                {128, 130, 0.9, true}, {129, 200, 1, false}, {300, 3, 1, false}, {7, 2, 0.9, false},
                {5, 3, 0.2, false}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int n = rows[r].n;
        char text[160];
        snprintf(text, sizeof text,
                 "{\"d_model\": %d, \"seq_len\": %d, \"input\": {\"rho\": \"0-%.17g/(n-%s)\", "
                 "\"norm2\": 3}}",
                 rows[r].d, n, rows[r].part, n > 1 ? "1" : "2");
        double rho = n > 1 ? -rows[r].part / (n - 1) : 0, pairs = 0;
        bool some_far = false;
        for (int64_t sample = 0; sample < 3; sample++) {
            gram_of(gram, text, sample);
            double sum = 0;
            for (int a = 0; a < n; a++)
                for (int b = 0; b < n; b++) {
                    double wanted = a == b ? 1 : rho;
                    sum += gram[a * n + b];
                    if (a == b || rows[r].one)
                        assert_true(fabs(gram[a * n + b] - wanted) < 1e-13);
                    else
                        some_far = some_far || fabs(gram[a * n + b] - rho) > 1e-3;
                }
            pairs += sum / 3;
            if (rows[r].part == 1) assert_true(fabs(sum) < 1e-11 * n);
        }
        assert_true(rows[r].one != some_far);
        /* between groups there is an inner product, whose mean is 0 */
        if (rows[r].one) assert_true(fabs(pairs - n * (1 + (n - 1) * rho)) < 1e-11 * n);
    }
}

/* Every pair of tokens has the same law: none is always in the group of its neighbour. */
static void tokens_are_alike_below_zero(void **state)
{
    (void)state;
    enum { N = 5, TRIALS = 4000 };
    double gram[N * N], mean[N * N] = {0}, square[N * N] = {0};
    for (int64_t t = 0; t < TRIALS; t++) {
        gram_of(gram, "{\"d_model\": 2, \"seq_len\": 5, \"input\": {\"rho\": -0.2}}", t);
        for (int i = 0; i < N * N; i++)
            mean[i] += gram[i] / TRIALS, square[i] += gram[i] * gram[i] / TRIALS;
    }
    for (int a = 0; a < N; a++)
        for (int b = 0; b < a; b++) {
            double error = sqrt((square[a * N + b] - mean[a * N + b] * mean[a * N + b]) / TRIALS);
            assert_true(error > 1e-3 && fabs(mean[a * N + b] + 0.2) < 5 * error);
        }
}

/* A text of another length than the file's may be too long. */
static void longer_texts_are_refused(void **state)
{
    (void)state;
    rs_arch *arch = arch_of("{\"d_model\": 4, \"seq_len\": 3, \"input\": {\"rho\": -0.5}}");
    double x[16];
    rs_error err;
    arch->seq_len = 4;
    assert_int_equal(rs_arch_input(x, arch, 1, 0, &err), RS_E_ARCH_SCHEMA);
    assert_non_null(strstr(err.what, "of 4 tokens"));
    arch->seq_len = 2;
    assert_int_equal(rs_arch_input(x, arch, 1, 0, &err), RS_OK);
    for (int64_t i = 1; i <= 4; i++) {
        rs_memory_fail_at(i);
        rs_status status = rs_arch_input(x, arch, 1, 0, &err);
        rs_memory_fail_at(0);
        assert_int_equal(status, RS_E_NO_MEMORY);
    }
    rs_arch_close(arch);
}

static void inputs_depend_on_seed_and_sample_only(void **state)
{
    (void)state;
    rs_arch *arch = arch_of("{\"d_model\": 10, \"seq_len\": 5, \"input\": {\"rho\": 0.5}}");
    double a[50], b[50], c[50];
    rs_error err;
    assert_int_equal(rs_arch_input(a, arch, 1, 7, &err), RS_OK);
    assert_int_equal(rs_arch_input(b, arch, 1, 8, &err), RS_OK);
    assert_int_equal(rs_arch_input(c, arch, 1, 7, &err), RS_OK);
    assert_memory_equal(a, c, sizeof a);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(rs_arch_input(c, arch, 2, 7, &err), RS_OK);
    assert_memory_not_equal(a, c, sizeof a);
    rs_arch_close(arch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_have_norm_and_correlation),
        cmocka_unit_test(correlations_below_zero),
        cmocka_unit_test(tokens_are_alike_below_zero),
        cmocka_unit_test(longer_texts_are_refused),
        cmocka_unit_test(inputs_depend_on_seed_and_sample_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
