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
        cmocka_unit_test(inputs_depend_on_seed_and_sample_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
