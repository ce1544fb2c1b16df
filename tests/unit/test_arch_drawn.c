/* test_arch_drawn.c: architecture files with mixers that are not attention: what is drawn, by which law. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arch_support.h"

static const float *floats(const rs_tensor *tensor)
{
    return (const float *)(const void *)tensor->data;
}

static void assert_all(const rs_tensor *tensor, int64_t count, double value)
{
    assert_int_equal(tensor->count, count);
    for (int64_t i = 0; i < count; i++)
        assert_true(floats(tensor)[i] == (float)value);
}

/* ln 1, ln 2, ..., ln n, again and again. */
static void assert_rates(const rs_tensor *tensor, int64_t count, int64_t n)
{
    assert_int_equal(tensor->count, count);
    for (int64_t i = 0; i < count; i++)
        assert_true(fabs((double)floats(tensor)[i] - log((double)(i % n + 1))) < 1e-6);
}

/* Steps, softplus of the biases, lie in their bounds, and both halves of their logarithms are hit. */
static void assert_steps(const rs_tensor *biases, int64_t count, double low, double high)
{
    int64_t below = 0;
    assert_int_equal(biases->count, count);
    for (int64_t i = 0; i < count; i++) {
        double step = log1p(exp((double)floats(biases)[i]));
        assert_true(step > low * (1 - 1e-5) && step < high * (1 + 1e-5));
        below += step < sqrt(low * high);
    }
    assert_true(below > count / 4 && below < 3 * count / 4);
}

static void assert_conv(const rs_conv_op *conv, int64_t channels, int64_t width)
{
    double bound = 1 / sqrt((double)width), most = 0;
    assert_int_equal(conv->channels, channels);
    assert_int_equal(conv->width, width);
    assert_int_equal(conv->weight->count, channels * width);
    for (int64_t i = 0; i < channels * width; i++)
        most = fmax(most, fabs((double)floats(conv->weight)[i]));
    assert_true(most <= bound && most > 0.8 * bound);
}

static void mamba_is_drawn(void **state)
{
    (void)state;
    built b = good("{\"depth\": 2, \"d_model\": 40, \"heads\": 2, \"d_head\": 30, \"mixer\": "
                   "\"mamba\", \"state\": 5, \"conv\": 3, \"inner_norm\": true, \"dt_init\": "
                   "[0.01, 0.2], \"mlp\": \"none\", \"gate\": \"none\"}");
    const rs_branch *mixer = rs_layer_mixer(&b.network->layers[1]);
    assert_int_equal(mixer->kind, RS_BRANCH_S6);
    const rs_s6_op *op = &mixer->s6;
    assert_int_equal(op->inner, 60);
    assert_int_equal(op->state, 5);
    assert_int_equal(op->rank, 3); /* 40 / 16, rounded up */
    assert_false(op->gated);
    assert_dense(&op->in, 120, 40);
    assert_dense(&op->x, 13, 60);
    assert_dense(&op->o, 40, 60);
    assert_variance(op->in.weight, 1.0 / 40);
    assert_conv(&op->conv, 60, 3);
    assert_rates(op->a_log, 300, 5);
    assert_steps(op->step.bias, 60, 0.01, 0.2);
    assert_all(op->d, 60, 1);
    assert_int_equal(op->b_norm.dim, 5);
    assert_int_equal(op->dt_norm.dim, 3);
    int64_t layer = 120 * 40 + 13 * 60 + 60 * 3 + 60 + 40 * 60 + 60 * 3 + 300 + 60;
    assert_int_equal(b.network->stored.parameters, 2 * layer);
    unbuild(&b);
}

static void mamba2_is_drawn(void **state)
{
    (void)state;
    built b = good("{\"depth\": 1, \"d_model\": 24, \"heads\": 48, \"d_head\": 2, \"mixer\": "
                   "\"mamba2\", \"groups\": 3, \"gate\": \"after\", \"vocab\": 7}");
    const rs_branch *mixer = rs_layer_mixer(&b.network->layers[0]);
    assert_int_equal(mixer->kind, RS_BRANCH_SSD);
    const rs_ssd_op *op = &mixer->ssd;
    assert_int_equal(op->heads, 48);
    assert_int_equal(op->groups, 3);
    assert_int_equal(op->norm_groups, 3);
    assert_int_equal(op->gate, RS_GATE_AFTER_NORM);
    assert_int_equal(op->norm.kind, RS_NORM_RMSNORM);
    assert_int_equal(op->norm.dim, 96);
    assert_dense(&op->in, 2 * 96 + 2 * 48 + 48, 24);
    assert_conv(&op->conv, 96 + 2 * 48, 4);
    assert_rates(op->a_log, 48, 48);
    assert_steps(op->dt_bias, 48, 1e-3, 0.1);
    assert_all(op->d, 48, 1);
    assert_true(op->step_least == 0 && isinf(op->step_most));
    assert_true(b.network->head.next_token); /* it looks back only, whatever the mask */
    unbuild(&b);
    b = good("{\"depth\": 1, \"mixer\": \"mamba2\", \"inner_norm\": false}");
    assert_int_equal(rs_layer_mixer(&b.network->layers[0])->ssd.norm.kind, RS_NORM_NONE);
    unbuild(&b);
}

static void linear_attention_is_drawn(void **state)
{
    (void)state;
    built b = good("{\"depth\": 1, \"d_model\": 40, \"heads\": 4, \"kv_heads\": 2, \"d_head\": 5, "
                   "\"mixer\": \"linear_attention\", \"mask\": \"causal\", \"decay\": \"retnet\", "
                   "\"mlp\": \"none\", \"value_map\": \"free\"}");
    const rs_branch *mixer = rs_layer_mixer(&b.network->layers[0]);
    assert_int_equal(mixer->kind, RS_BRANCH_LINEAR);
    assert_dense(&mixer->linear.q, 20, 40);
    assert_dense(&mixer->linear.k, 10, 40);
    assert_dense(&mixer->linear.v, 10, 40);
    assert_dense(&mixer->linear.o, 40, 20);
    assert_null(mixer->linear.gate.weight);
    for (int h = 0; h < 4; h++)
        assert_true(((const double *)(const void *)mixer->linear.decay->data)[h] ==
                    1 - exp2(-5 - h));
    unbuild(&b);
    b = good("{\"depth\": 1, \"d_model\": 40, \"mixer\": \"linear_attention\", \"mlp\": \"none\", "
             "\"value_map\": \"identity\", \"init\": {\"wo\": \"none\"}}");
    mixer = rs_layer_mixer(&b.network->layers[0]);
    assert_null(mixer->linear.v.weight);
    assert_null(mixer->linear.o.weight);
    assert_null(mixer->linear.decay);
    assert_int_equal(mixer->linear.value_dim, 40);
    assert_int_equal(b.network->stored.parameters, 2 * 40 * 40);
    unbuild(&b);
}

static void delta_is_drawn(void **state)
{
    (void)state;
    built b =
        good("{\"depth\": 1, \"d_model\": 40, \"heads\": 48, \"kv_heads\": 16, \"d_head\": 2, "
             "\"state\": 5, \"conv\": 3, \"mixer\": \"gated_delta\", \"mlp\": \"none\", "
             "\"init\": {\"win\": \"normal(0, 9)\", \"wo\": \"normal(0, 4)\"}}");
    const rs_branch *mixer = rs_layer_mixer(&b.network->layers[0]);
    assert_int_equal(mixer->kind, RS_BRANCH_DELTA);
    const rs_delta_op *op = &mixer->delta;
    assert_dense(&op->q, 80, 40);
    assert_dense(&op->k, 80, 40);
    assert_dense(&op->v, 96, 40);
    assert_dense(&op->z, 96, 40);
    assert_dense(&op->b, 48, 40);
    assert_dense(&op->a, 48, 40);
    assert_dense(&op->o, 40, 96);
    const rs_dense *first[] = {&op->q, &op->k, &op->v, &op->z, &op->b, &op->a};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        assert_variance(first[i]->weight, 9);
    assert_variance(op->o.weight, 4);
    assert_conv(&op->conv, 256, 3);
    assert_rates(op->a_log, 48, 48);
    assert_steps(op->dt_bias, 48, 1e-3, 0.1);
    assert_true(op->strength_most == 1 && op->activation == RS_ACT_SILU);
    assert_int_equal(op->gate, RS_GATE_AFTER_NORM);
    assert_int_equal(op->norm.dim, 2);
    int64_t maps = (80 + 80 + 96 + 96 + 48 + 48) * 40 + 40 * 96;
    assert_int_equal(b.network->stored.parameters, maps + 256 * 3 + 2 * 48);
    unbuild(&b);
    b = good(
        "{\"depth\": 1, \"mixer\": \"gated_delta\", \"gate\": \"none\", \"inner_norm\": false}");
    mixer = rs_layer_mixer(&b.network->layers[0]);
    assert_null(mixer->delta.z.weight);
    assert_int_equal(mixer->delta.norm.kind, RS_NORM_NONE);
    unbuild(&b);
}

static void short_conv_is_drawn(void **state)
{
    (void)state;
    built b = good("{\"depth\": 1, \"d_model\": 40, \"heads\": 2, \"d_head\": 30, \"conv\": 3, "
                   "\"mixer\": \"short_conv\", \"mlp\": \"none\"}");
    const rs_branch *mixer = rs_layer_mixer(&b.network->layers[0]);
    assert_int_equal(mixer->kind, RS_BRANCH_SHORT_CONV);
    const rs_short_conv_op *op = &mixer->short_conv;
    assert_dense(&op->in, 180, 40);
    assert_dense(&op->o, 40, 60);
    assert_variance(op->in.weight, 1.0 / 40);
    assert_variance(op->o.weight, 1.0 / 60);
    assert_conv(&op->conv, 60, 3);
    assert_null(op->conv.bias);
    unbuild(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mamba_is_drawn),
        cmocka_unit_test(mamba2_is_drawn),
        cmocka_unit_test(linear_attention_is_drawn),
        cmocka_unit_test(delta_is_drawn),
        cmocka_unit_test(short_conv_is_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
