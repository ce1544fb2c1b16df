/* test_mixing_delta.c: what the engine tells of the mixing matrices of the gated delta rule and the
 * gated short convolution without forming them (docs/theory/ssm.md, 10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "delta_builder.h"
#include "mixing_support.h"

static void decays_of(double *log_decay, double *step, const rs_branch *branch, const double *x,
                      int64_t n)
{
    int32_t matrices = rs_branch_traits(branch)->matrices(branch);
    for (int32_t i = 0; i < matrices; i++)
        log_decay[i] = step[i] = NAN;
    if (branch->kind != RS_BRANCH_DELTA) return;
    const rs_delta_op *op = &branch->delta;
    double *a = ref_dense_rows(x, n, &op->a), *rate = ref_numbers(op->a_log);
    double *bias = ref_numbers(op->dt_bias);
    for (int32_t h = 0; h < op->heads; h++) {
        step[h] = 0;
        for (int64_t t = 0; t < n; t++)
            step[h] += softplus(a[t * op->heads + h] + (bias ? bias[h] : 0)) / (double)n;
        log_decay[h] = -exp(rate[h]) * step[h];
    }
    free(a);
    free(rate);
    free(bias);
}

static void drawn_lengths(void **state)
{
    (void)state;
    check_numbers(mixer_of, ref_mixer, decays_of, 80, 2e-4);
}

static void cut_texts(void **state)
{
    (void)state;
    check_cut(mixer_of, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_lengths),
                                       cmocka_unit_test(cut_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
