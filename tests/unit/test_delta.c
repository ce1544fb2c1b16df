/* test_delta.c: the gated delta rule and the gated short convolution against their definitions
 * (docs/theory/ssm.md, 8 and 9), written as plain loops, and against a published vector. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "delta_builder.h"
#include "mixer_tests.h"

#include "base/memory.h"
#include "network/op_traits.h"

/* ---- a published vector ---- */

/* A state of queries, keys, values, a and b side by side, and a mixer that only runs the rule on it:
 * the vector's q, k, v are those behind the convolution. */
static void delta_vector(void **state)
{
    (void)state;
    enum { N = 5, DK = 3, DV = 2, D = 2 * DK + DV + 2 };
    static const double first[] = {-.000712990897, -.001777769674};
    static const double last[] = {-.119208947536, -.127208088670};
    static const double row[] = {.033047558586, .008437540855, -.047749681240, -.033027897890,
                                 .180153762114};
    static const int64_t widths[] = {DK, DK, DV, 1, 1};
    built *b = bare_new(0, D, N, RS_BRANCH_DELTA);
    for (int t = 0, at = 0; t < 5; at += (int)widths[t++])
        for (int64_t i = 0; i < N * widths[t]; i++)
            b->states[i / widths[t] * D + at + i % widths[t]] =
                generated((uint32_t)(60 + t), (uint32_t)i);
    rs_delta_op *op = &b->layers[0].branches[0].delta;
    *op = (rs_delta_op){.heads = 1,
                        .key_heads = 1,
                        .key_dim = DK,
                        .value_dim = DV,
                        .strength_most = 1,
                        .activation = RS_ACT_LINEAR,
                        .gate = RS_GATE_NONE};
    op->q = pick(b, D, 0, DK);
    op->k = pick(b, D, DK, DK);
    op->v = pick(b, D, 2 * DK, DV);
    op->a = pick(b, D, 2 * DK + DV, 1);
    op->b = pick(b, D, 2 * DK + DV + 1, 1);
    op->conv = (rs_conv_op){2 * DK + DV, 1, generate(b, 0, 2 * DK + DV, 0, 1), NULL, {0}};
    op->a_log = generate(b, 0, 1, 0, 0);
    op->o = generated_map(b, 0, DV, D, 0);
    for (int i = 0; i < DV; i++)
        ((double *)(uintptr_t)op->o.weight->data)[i * DV + i] = 1;
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, true);
    are(h.states[1], first, DV);
    are(h.states[1] + (N - 1) * D, last, DV);
    are(h.matrices[0][0][0] + (N - 1) * N, row, N);
    heard_free(&h);
    built_free(b);
}

/* ---- what a checkpoint may hold ---- */

static void rates_that_overflow(void **state)
{
    (void)state;
    built *b = alone_new(delta_of, 7, 3, 2);
    check_overflow(b, &b->layers[0].branches[0].delta.a_log);
}

/* Strengths of exactly 0, 1 and 2, keys of zeros, decays that underflow and rates of 0. */
static void extreme_states(void **state)
{
    (void)state;
    static const double bias[] = {-1e30, 1e30, 0}, rate[] = {-200, 80, 0};
    for (int t = 0; t < 36; t++) {
        built *b = alone_new(delta_of, (uint64_t)t, 4, 30);
        rs_delta_op *op = &b->layers[0].branches[0].delta;
        op->b = dense_of(b, 4, op->heads, false);
        op->b.bias = tensor(b, RS_F32, 4096, bias[t % 3], 0);
        op->a_log = tensor(b, RS_F32, op->heads, rate[t / 3 % 3], 0);
        int64_t kernels = op->conv.channels * op->conv.width;
        if (t / 9 % 2) op->conv = (rs_conv_op){op->conv.channels, op->conv.width, NULL, NULL, {0}};
        if (t / 9 % 2) op->conv.weight = tensor(b, RS_F32, kernels, 0, 0);
        heard h;
        run_engine(&h, b, RS_PRECISION_F64, 1, true);
        compare_all(&h, b, ref_mixer, 1e-11, (uint64_t)t);
        heard_free(&h);
        run_engine(&h, b, RS_PRECISION_F32, 1, true);
        compare_all(&h, b, ref_mixer, 3e-4, (uint64_t)t);
        heard_free(&h);
        built_free(b);
    }
}

/* An attention with gates is nobody's plain attention: certificates and paths must not take its heads
 * for linear in their values, and the residual precision does not run it. */
static void gated_attention(void **state)
{
    (void)state;
    enum { D = 4 };
    built *b = vector_new(3, D, 1, RS_BRANCH_ATTENTION);
    rs_branch *branch = &b->layers[0].branches[0];
    branch->attention = (rs_attention_op){.heads = 2,
                                          .kv_heads = 1,
                                          .head_dim = 2,
                                          .value_dim = 2,
                                          .scale = 1,
                                          .causal = true,
                                          .temperature = 1,
                                          .mix_softmax = 1};
    rs_attention_op *op = &branch->attention;
    op->q = generated_map(b, 2, D, 4, 1);
    op->k = generated_map(b, 3, D, 2, 1);
    op->v = generated_map(b, 4, D, 2, 1);
    op->o = generated_map(b, 5, 4, D, 1);
    assert_ptr_equal(rs_branch_plain_attention(branch), op);
    assert_null(rs_branch_unproved(branch));
    assert_int_equal(rs_branch_proved_heads(branch), 2);
    heard open, shut;
    run_engine(&open, b, RS_PRECISION_F64, 1, false);
    op->gate = generated_map(b, 6, D, 4, 0);
    op->gate.bias = generate(b, 0, 4, 0, log(3));
    run_engine(&shut, b, RS_PRECISION_F64, 1, false);
    for (int i = 0; i < TOKENS * D; i++) /* sigmoid(log 3) = 3/4 of everything */
        assert_true(fabs(shut.states[1][i] - 0.75 * open.states[1][i]) < 1e-14);
    heard_free(&open);
    heard_free(&shut);
    assert_null(rs_branch_plain_attention(branch));
    assert_ptr_equal(rs_branch_attention(branch), op);
    assert_non_null(rs_branch_unproved(branch));
    assert_int_equal(rs_branch_proved_heads(branch), 0);
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    rs_context context = {.threads = 1};
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_RESIDUAL, 1 << 20, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, &b->network, weights, &context, &err),
                     RS_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "gates"));
    rs_weights_close(weights);
    built_free(b);
}

int main(void)
{
    static drawn_kind kind = {mixer_of};
    const struct CMUnitTest tests[] = {
        MIXER_TESTS(&kind),
        cmocka_unit_test(delta_vector),
        cmocka_unit_test(rates_that_overflow),
        cmocka_unit_test(extreme_states),
        cmocka_unit_test(gated_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
