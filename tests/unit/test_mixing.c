/* test_mixing.c: what the engine tells of the mixing matrices of Mamba and Mamba-2 without forming
 * them (docs/theory/ssm.md, 10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mixer_reference.h"
#include "mixing_support.h"

static void ssd_decays(double *log_decay, double *step, const rs_ssd_op *op, const double *x,
                       int64_t n)
{
    int64_t width = op->in.out;
    double *p = ref_dense_rows(x, n, &op->in), *rate = ref_numbers(op->a_log);
    double *bias = ref_numbers(op->dt_bias);
    for (int32_t h = 0; h < op->heads; h++) {
        step[h] = 0;
        for (int64_t t = 0; t < n; t++) {
            double soft = softplus(p[(t + 1) * width - op->heads + h] + (bias ? bias[h] : 0));
            step[h] += fmin(fmax(soft, op->step_least), op->step_most) / (double)n;
        }
        log_decay[h] = -exp(rate[h]) * step[h];
    }
    free(p);
    free(rate);
    free(bias);
}

static void s6_decays(double *log_decay, double *step, const rs_s6_op *op, const double *x,
                      int64_t n)
{
    int64_t inner = op->inner;
    double *p = ref_dense_rows(x, n, &op->in), *rate = ref_numbers(op->a_log);
    double *u = ref_conv(p, n, op->in.out, 0, &op->conv, true);
    double *r = ref_dense_rows(u, n, &op->x), *dt = malloc((size_t)inner * sizeof *dt);
    memset(step, 0, (size_t)inner * sizeof *step);
    for (int64_t t = 0; t < n; t++) {
        ref_norm(r + t * op->x.out, &op->dt_norm);
        ref_dense(dt, r + t * op->x.out, &op->step);
        for (int64_t c = 0; c < inner; c++)
            step[c] += softplus(dt[c]) / (double)n;
    }
    for (int64_t c = 0; c < inner; c++) {
        log_decay[c] = 0;
        for (int64_t s = 0; s < op->state; s++)
            log_decay[c] -= exp(rate[c * op->state + s]) * step[c] / (double)op->state;
    }
    double *used[] = {p, rate, u, r, dt};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
}

static void decays_of(double *log_decay, double *step, const rs_branch *branch, const double *x,
                      int64_t n)
{
    if (branch->kind == RS_BRANCH_SSD)
        ssd_decays(log_decay, step, &branch->ssd, x, n);
    else
        s6_decays(log_decay, step, &branch->s6, x, n);
}

static void drawn_lengths(void **state)
{
    (void)state;
    check_numbers(state_space_of, ref_mixer, decays_of, 60, 2e-4);
}

static void cut_texts(void **state)
{
    (void)state;
    check_cut(state_space_of, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_lengths),
                                       cmocka_unit_test(cut_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
