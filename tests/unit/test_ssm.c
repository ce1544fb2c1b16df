/* test_ssm.c: the state-space mixers of the engine against their definitions, written as plain
 * loops over the matrices M_ij of docs/theory/ssm.md, and against published vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mixer_tests.h"

#include "base/memory.h"

/* ---- the least sizes ---- */

/* One head or channel of one number with a state of one, a convolution of one tap or of more than
 * most texts have tokens. */
static rs_branch least_of(built *b, int64_t d)
{
    rs_branch branch = state_space_of(b, d);
    int64_t width = chance(b, 0.5) ? 1 : 60;
    if (branch.kind == RS_BRANCH_SSD) {
        rs_ssd_op *op = &branch.ssd;
        op->heads = op->groups = 1, op->head_dim = op->state = 1, op->norm_groups = 1;
        op->conv = (rs_conv_op){3, width, tensor(b, RS_F32, 3 * width, 0, 0.7), NULL, {0}};
        op->in = dense_of(b, d, 5, chance(b, 0.5));
        op->o = dense_of(b, 1, d, chance(b, 0.5));
        op->norm.dim = 1;
        return branch;
    }
    rs_s6_op *op = &branch.s6;
    op->inner = op->state = op->rank = 1;
    op->conv = (rs_conv_op){1, width, tensor(b, RS_F32, width, 0, 0.7), NULL, {0}};
    op->in = dense_of(b, d, 2, chance(b, 0.5));
    op->x = dense_of(b, 1, 3, false);
    op->step = dense_of(b, 1, 1, true);
    op->o = dense_of(b, 1, d, chance(b, 0.5));
    op->dt_norm = op->b_norm = op->c_norm = (rs_norm_op){0};
    return branch;
}

static void least_sizes(void **state)
{
    (void)state;
    check_drawn(least_of, 80);
}

/* ---- vectors ---- */

/* A_log = ln(1 .. n) in each of the rows. */
static rs_tensor *logarithms(built *b, int64_t rows, int64_t n)
{
    rs_tensor *t = generate(b, 0, rows * n, 0, 0);
    double *numbers = (double *)(uintptr_t)t->data;
    for (int64_t i = 0; i < rows * n; i++)
        numbers[i] = log((double)(i % n + 1));
    return t;
}

/* lambda_skip_ssm, 7.2: block vectors that were computed in NumPy. */
static void mamba_vector(void **state)
{
    (void)state;
    built *b = vector_new(1, 4, 10, RS_BRANCH_S6);
    rs_s6_op *op = &b->layers[0].branches[0].s6;
    *op = (rs_s6_op){.inner = 8, .state = 4, .rank = 2, .gated = true};
    op->in = generated_map(b, 11, 4, 16, 0.8);
    op->conv = (rs_conv_op){8, 4, generate(b, 12, 32, 0.6, 0), generate(b, 13, 8, 0.1, 0), {0}};
    op->x = generated_map(b, 14, 8, 10, 0.7);
    op->step = generated_map(b, 15, 2, 8, 0.7);
    op->step.bias = generate(b, 16, 8, 1, -2);
    op->a_log = logarithms(b, 8, 4);
    op->d = generate(b, 17, 8, 0.3, 1);
    op->o = generated_map(b, 18, 8, 4, 0.5);
    static const double first[] = {-0.013769707938, -0.023641162951, -0.007041031304,
                                   0.041102322119};
    static const double last[] = {0.071635756469, -0.090710599448, 0.046265891997, -0.021849579017};
    static const double row[] = {-0.003569010648, -0.002800562004, -0.018014194140,
                                 0.003272316722,  0.001074621349,  0.749960797252};
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, true);
    are(h.states[1], first, 4);
    are(h.states[1] + 20, last, 4);
    are(h.matrices[0][0][0] + 30, row, 6);
    heard_free(&h);
    op->gated = false;
    run_engine(&h, b, RS_PRECISION_F64, 1, false);
    double square = 0, norm = 1.163451624815;
    for (int i = 0; i < 24; i++)
        square += h.states[1][i] * h.states[1][i];
    square = sqrt(square);
    are(&square, &norm, 1);
    heard_free(&h);
    built_free(b);
}

static void mamba2_vector(void **state)
{
    (void)state;
    built *b = vector_new(2, 8, 30, RS_BRANCH_SSD);
    rs_ssd_op *op = &b->layers[0].branches[0].ssd;
    *op = (rs_ssd_op){.heads = 4,
                      .groups = 2,
                      .head_dim = 4,
                      .state = 4,
                      .step_most = INFINITY,
                      .gate = RS_GATE_BEFORE_NORM,
                      .norm_groups = 2};
    op->in = generated_map(b, 31, 8, 52, 0.6);
    op->conv = (rs_conv_op){32, 4, generate(b, 32, 128, 0.6, 0), generate(b, 33, 32, 0.1, 0), {0}};
    op->dt_bias = generate(b, 34, 4, 1, -1);
    op->a_log = logarithms(b, 1, 4);
    op->d = generate(b, 35, 4, 0.3, 1);
    op->norm = (rs_norm_op){RS_NORM_RMSNORM, 16, 1e-5, generate(b, 36, 16, 0.2, 1), NULL};
    op->o = generated_map(b, 37, 16, 8, 0.5);
    static const double grouped[] = {1.905280599605,  -1.168090847042, -0.179256734462,
                                     0.198232205364,  -0.967395527668, -0.244663536106,
                                     -0.521692912380, 0.032378948187};
    static const double whole_first[] = {0.215526525968,  1.229554531078,  0.968675375600,
                                         -0.164426022569, -0.033908396558, 0.480225836506,
                                         0.590587813774,  -1.685903403879};
    static const double whole[] = {1.723069767133,  0.123783047623,  -1.077744741036,
                                   -0.450225835360, -0.652577474325, -0.290594963996,
                                   -0.407934347757, -1.259421116209};
    static const double row[] = {3.327976865470e-03,  -7.902976400806e-04, -4.478998551881e-03,
                                 -2.031610356984e-03, -2.549990671532e-02, 8.325846255205e-01};
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, true);
    are(h.states[1] + 40, grouped, 8);
    are(h.matrices[0][0][0] + 30, row, 6);
    heard_free(&h);
    op->norm_groups = 1;
    run_engine(&h, b, RS_PRECISION_F64, 1, false);
    are(h.states[1], whole_first, 8);
    are(h.states[1] + 40, whole, 8);
    heard_free(&h);
    built_free(b);
}

/* ---- what a checkpoint may hold ---- */

static void rates_that_overflow(void **state)
{
    (void)state;
    built *b = alone_new(ssd_of, 7, 3, 2);
    check_overflow(b, &b->layers[0].branches[0].ssd.a_log);
    b = alone_new(s6_of, 7, 3, 2);
    check_overflow(b, &b->layers[0].branches[0].s6.a_log);
}

int main(void)
{
    static drawn_kind kind = {state_space_of};
    const struct CMUnitTest tests[] = {
        MIXER_TESTS(&kind),
        cmocka_unit_test(mamba_vector),
        cmocka_unit_test(mamba2_vector),
        cmocka_unit_test(least_sizes),
        cmocka_unit_test(rates_that_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
