/* test_mixing_linear.c: what the engine tells of the mixing matrices of linear attention, S4D and gated
 * recurrences without forming them (docs/theory/ssm.md, 10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "linear_builder.h"
#include "mixing_support.h"

static void linear_decays(double *log_decay, double *step, const rs_linear_op *op)
{
    double *decay = ref_numbers(op->decay);
    for (int32_t h = 0; h < op->heads; h++) {
        log_decay[h] = decay ? log(decay[h]) : NAN;
        step[h] = NAN;
    }
    free(decay);
}

static void s4d_decays(double *log_decay, double *step, const rs_s4d_op *op)
{
    double *log_step = ref_numbers(op->log_step), *rate = ref_numbers(op->log_decay);
    for (int64_t c = 0; c < op->channels; c++) {
        step[c] = exp(log_step[c]);
        log_decay[c] = 0;
        for (int64_t s = 0; s < op->pairs; s++)
            log_decay[c] -= step[c] * exp(rate[c * op->pairs + s]) / (double)op->pairs;
    }
    free(log_step);
    free(rate);
}

static void recurrence_decays(double *log_decay, double *step, const rs_recurrence_op *op,
                              const double *x, int64_t n)
{
    int64_t inner = op->inner;
    double *p = ref_dense_rows(x, n, &op->in);
    double *u = ref_conv(p, n, 2 * inner, inner, &op->conv, false);
    double *g = ref_dense_rows(u, n, &op->gates);
    for (int64_t c = 0; c < inner; c++) {
        log_decay[c] = 0;
        step[c] = NAN;
        for (int64_t t = 0; t < n; t++) { /* log sigmoid(f) */
            double f = g[t * 3 * inner + c];
            log_decay[c] -= (log1p(exp(-fabs(f))) + fmax(-f, 0)) / (double)n;
        }
    }
    free(p);
    free(u);
    free(g);
}

static void mixer_decays_of(double *log_decay, double *step, const rs_branch *branch,
                            const double *x, int64_t n)
{
    if (branch->kind == RS_BRANCH_LINEAR)
        linear_decays(log_decay, step, &branch->linear);
    else if (branch->kind == RS_BRANCH_S4D)
        s4d_decays(log_decay, step, &branch->s4d);
    else
        recurrence_decays(log_decay, step, &branch->recurrence, x, n);
}

static void drawn_lengths(void **state)
{
    (void)state;
    check_numbers(linear_mixer_of, ref_mixer, mixer_decays_of, 120, 2e-4);
}

static void cut_texts(void **state)
{
    (void)state;
    check_cut(linear_mixer_of, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_lengths),
                                       cmocka_unit_test(cut_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
