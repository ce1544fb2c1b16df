/* test_arch.c: architecture files: every default, every field, every refusal, and the law of
 * inputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "network/arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct built {
    rs_init *init;
    rs_network *network;
} built;

static rs_status build(built *b, const char *text, const char *law, rs_error *err)
{
    *b = (built){NULL, NULL};
    json_error_t why;
    int64_t failures = rs_memory_failures();
    json_t *json = json_loads(text, JSON_DECODE_ANY, &why);
    if (rs_memory_check(failures, "test", err) != RS_OK) {
        json_decref(json);
        return RS_E_NO_MEMORY;
    }
    if (!json) fail_msg("%s: %s", text, why.text);
    rs_status status = rs_init_open(&b->init, law, 1, err);
    if (status == RS_OK)
        status = rs_network_from_arch(&b->network, json, "ARCH.json", b->init, err);
    json_decref(json);
    return status;
}

static void unbuild(built *b)
{
    rs_network_close(b->network);
    rs_init_close(b->init);
}

static built good(const char *text)
{
    built b;
    rs_error err;
    rs_status status = build(&b, text, NULL, &err);
    if (status != RS_OK) fail_msg("%s: %s: %s; %s", text, err.where, err.what, err.hint);
    return b;
}

static double variance(const rs_tensor *tensor)
{
    const float *x = (const float *)(const void *)tensor->data;
    double sum = 0;
    for (int64_t i = 0; i < tensor->count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum / (double)tensor->count;
}

/* Variance within five standard errors of a normal sample's. */
static void assert_variance(const rs_tensor *tensor, double expected)
{
    double found = variance(tensor);
    if (!(fabs(found / expected - 1) < 5 * sqrt(2.0 / (double)tensor->count)))
        fail_msg("%s: variance %g, not %g", tensor->name, found, expected);
}

static void assert_dense(const rs_dense *dense, int64_t out, int64_t in)
{
    assert_non_null(dense->weight);
    assert_null(dense->bias);
    assert_true(dense->out_is_row);
    assert_int_equal(dense->out, out);
    assert_int_equal(dense->in, in);
    assert_int_equal(dense->rows, out);
    assert_int_equal(dense->cols, in);
    assert_int_equal(dense->first, 0);
    assert_int_equal(dense->run, out);
    assert_int_equal(dense->stride, out);
    assert_int_equal(dense->weight->count, out * in);
}

static void every_default(void **state)
{
    (void)state;
    built b = good("{}");
    const rs_network *n = b.network;
    assert_string_equal(n->family, "arch");
    assert_int_equal(n->d_model, 64);
    assert_int_equal(n->n_layers, 12);
    assert_null(n->embedding.tokens);
    assert_null(n->head.decoder.weight);
    assert_int_equal(n->max_positions, 0);
    assert_int_equal(n->final_norm.kind, RS_NORM_LAYERNORM);
    assert_int_equal(n->stored.parameters, 12 * (4 * 64 * 64 + 2 * 64 * 256));
    for (int32_t l = 0; l < 12; l++) {
        const rs_layer *layer = &n->layers[l];
        assert_int_equal(layer->n_branches, 2);
        assert_int_equal(layer->stored, l);
        const rs_branch *mixer = rs_layer_mixer(layer), *mlp = &layer->branches[1];
        assert_ptr_equal(mixer, &layer->branches[0]);
        assert_true(mixer->skip == 1 && mixer->scale == 1 && mlp->skip == 1 && mlp->scale == 1);
        assert_false(mixer->joins || mlp->joins);
        assert_int_equal(mixer->before.kind, RS_NORM_LAYERNORM);
        assert_int_equal(mixer->before.dim, 64);
        assert_true(mixer->before.eps == 1e-5);
        assert_int_equal(mixer->inside.kind, RS_NORM_NONE);
        assert_int_equal(mixer->after.kind, RS_NORM_NONE);
        const rs_attention_op *a = &mixer->attention;
        assert_int_equal(a->heads, 1);
        assert_int_equal(a->kv_heads, 1);
        assert_int_equal(a->head_dim, 64);
        assert_int_equal(a->value_dim, 64);
        assert_true(a->scale == 0.125 && a->temperature == 1 && a->softcap == 0);
        assert_true(a->mix_identity == 0 && a->mix_softmax == 1 && a->mix_uniform == 0);
        assert_false(a->causal);
        assert_int_equal(a->window, 0);
        assert_int_equal(a->rope.kind, RS_ROPE_NONE);
        assert_null(a->distance_bias);
        assert_dense(&a->q, 64, 64);
        assert_dense(&a->k, 64, 64);
        assert_dense(&a->v, 64, 64);
        assert_dense(&a->o, 64, 64);
        assert_variance(a->q.weight, 1 / 64.0);
        assert_variance(a->o.weight, 1 / 64.0);
        assert_int_equal(mlp->kind, RS_BRANCH_MLP);
        assert_int_equal(mlp->mlp.activation, RS_ACT_GELU);
        assert_int_equal(mlp->mlp.width, 256);
        assert_dense(&mlp->mlp.up, 256, 64);
        assert_dense(&mlp->mlp.down, 64, 256);
        assert_null(mlp->mlp.gate.weight);
        assert_variance(mlp->mlp.up.weight, 1 / 64.0);
        assert_variance(mlp->mlp.down.weight, 1 / 256.0);
    }
    unbuild(&b);
}

static void sizes_and_grouped_heads(void **state)
{
    (void)state;
    built b = good("{\"depth\": 2, \"d_model\": 30, \"heads\": 6, \"kv_heads\": 2, \"d_head\": 7, "
                   "\"mlp\": \"swiglu\", \"mlp_width\": 11, \"vocab\": 50, \"seq_len\": 9, "
                   "\"positions\": \"learned\", \"mask\": \"causal\"}");
    const rs_attention_op *a = &rs_layer_mixer(&b.network->layers[1])->attention;
    assert_dense(&a->q, 42, 30);
    assert_dense(&a->k, 14, 30);
    assert_dense(&a->v, 14, 30);
    assert_dense(&a->o, 30, 42);
    assert_true(a->causal);
    assert_true(fabs(a->scale - 1 / sqrt(7)) < 1e-15);
    const rs_mlp_op *mlp = &b.network->layers[1].branches[1].mlp;
    assert_dense(&mlp->up, 11, 30);
    assert_dense(&mlp->gate, 11, 30);
    assert_dense(&mlp->down, 30, 11);
    assert_int_equal(mlp->activation, RS_ACT_SILU);
    const rs_embedding_op *e = &b.network->embedding;
    assert_int_equal(e->vocabulary, 50);
    assert_int_equal(e->width, 30);
    assert_int_equal(e->n_positions, 9);
    assert_int_equal(b.network->max_positions, 9);
    assert_variance(e->tokens, 1);
    assert_variance(e->positions, 1);
    assert_dense(&b.network->head.decoder, 50, 30);
    assert_true(b.network->head.next_token);
    uint64_t layer = 30 * (42 + 14 + 14 + 42) + 3 * 30 * 11;
    assert_int_equal(b.network->stored.parameters, 2 * layer + 2 * 50 * 30 + 9 * 30);
    unbuild(&b);
}

static void attention_words_become_mixes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double identity, softmax, uniform;
    } rows[] = {
        {"{\"depth\": 1, \"attention\": \"softmax\"}", 0, 1, 0},
        {"{\"depth\": 1, \"attention\": \"uniform\"}", 0, 0, -1},
        {"{\"depth\": 1, \"attention\": \"centred\"}", 0, 1, 1},
        {"{\"depth\": 1, \"attention\": \"shaped\"}", 1, 1, 1},
        {"{\"depth\": 1, \"attention\": \"shaped\", \"shaped\": [1, \"1/4\", 0.5]}", 1, 0.25, 0.5},
        {"{\"depth\": 1, \"attention\": \"rescaled\"}", 0, 2, 1},
        {"{\"depth\": 1, \"attention\": \"rescaled\", \"rescale\": 0.5}", 0, 1.5, 0.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        built b = good(rows[i].text);
        const rs_attention_op *a = &rs_layer_mixer(b.network->layers)->attention;
        assert_true(a->mix_identity == rows[i].identity && a->mix_softmax == rows[i].softmax &&
                    a->mix_uniform == rows[i].uniform);
        unbuild(&b);
    }
    built b = good("{\"depth\": 1, \"temperature\": 2.5, \"mask\": \"sliding:4\"}");
    const rs_attention_op *a = &rs_layer_mixer(b.network->layers)->attention;
    assert_true(a->temperature == 2.5 && a->causal && a->window == 4);
    unbuild(&b);
}

static void norms(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        bool before, inside, after, final;
    } rows[] = {
        {"none", 0, 0, 0, 0}, {"pre", 1, 0, 0, 1}, {"post", 0, 0, 1, 0}, {"sandwich", 1, 1, 0, 1}};
    for (size_t i = 0; i < 4; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"depth\": 1, \"norm\": \"%s\", \"norm_kind\": \"rmsnorm\"}",
                 rows[i].word);
        built b = good(text);
        for (int k = 0; k < 2; k++) {
            const rs_branch *branch = &b.network->layers[0].branches[k];
            assert_int_equal(branch->before.kind, rows[i].before ? RS_NORM_RMSNORM : RS_NORM_NONE);
            assert_int_equal(branch->inside.kind, rows[i].inside ? RS_NORM_RMSNORM : RS_NORM_NONE);
            assert_int_equal(branch->after.kind, rows[i].after ? RS_NORM_RMSNORM : RS_NORM_NONE);
        }
        assert_int_equal(b.network->final_norm.kind,
                         rows[i].final ? RS_NORM_RMSNORM : RS_NORM_NONE);
        unbuild(&b);
    }
}

static void strengths_are_numbers_formulas_or_lists(void **state)
{
    (void)state;
    built b = good("{\"depth\": 4, \"skip_mixer\": 0.5, \"skip_mlp\": [1, \"l/L\", -1, 0], "
                   "\"branch_mixer\": \"1/sqrt(L)\", \"branch_mlp\": \"1/(l+1)\"}");
    static const double skip_mlp[] = {1, 0.25, -1, 0};
    for (int l = 0; l < 4; l++) {
        const rs_branch *branch = b.network->layers[l].branches;
        assert_true(branch[0].skip == 0.5 && branch[0].scale == 0.5);
        assert_true(branch[1].skip == skip_mlp[l] && branch[1].scale == 1.0 / (l + 1));
    }
    unbuild(&b);
}

static void positions(void **state)
{
    (void)state;
    built b = good("{\"depth\": 1, \"heads\": 2, \"positions\": \"rope\"}");
    const rs_attention_op *a = &rs_layer_mixer(b.network->layers)->attention;
    assert_int_equal(a->rope.kind, RS_ROPE_HALF_SPLIT);
    assert_int_equal(a->rope.law, RS_ROPE_PLAIN);
    assert_int_equal(a->rope.dims, 32);
    assert_true(a->rope.theta == 10000);
    unbuild(&b);

    /* 12 heads: the slopes printed in the paper's reference code for a number of heads that is no
     * power of two: those of 8 heads, then every second one of 16. */
    b = good("{\"depth\": 2, \"d_model\": 24, \"heads\": 12, \"seq_len\": 5, \"positions\": "
             "\"alibi\"}");
    a = &rs_layer_mixer(b.network->layers)->attention;
    static const double slopes[] = {1 / 2.,
                                    1 / 4.,
                                    1 / 8.,
                                    1 / 16.,
                                    1 / 32.,
                                    1 / 64.,
                                    1 / 128.,
                                    1 / 256.,
                                    0.70710678118654752,
                                    0.35355339059327376,
                                    0.17677669529663688,
                                    0.08838834764831844};
    assert_int_equal(a->distance_reach, 4);
    assert_int_equal(a->distance_bias->shape[0], 12);
    assert_int_equal(a->distance_bias->shape[1], 9);
    const float *bias = (const float *)(const void *)a->distance_bias->data;
    for (int h = 0; h < 12; h++)
        for (int i = 0; i < 9; i++)
            assert_true(fabs((double)bias[h * 9 + i] + slopes[h] * abs(i - 4)) <
                        2 * 0x1p-24 * slopes[h] * 4);
    const rs_attention_op *second = &rs_layer_mixer(&b.network->layers[1])->attention;
    assert_ptr_equal(second->distance_bias, a->distance_bias);
    unbuild(&b);

    b = good("{\"depth\": 2, \"heads\": 4, \"seq_len\": 300, \"positions\": \"relative\", "
             "\"init\": {\"relative\": \"normal(0, 9)\"}}");
    a = &rs_layer_mixer(b.network->layers)->attention;
    assert_int_equal(a->distance_reach, 299);
    assert_int_equal(a->distance_bias->count, 4 * 599);
    assert_variance(a->distance_bias, 9);
    second = &rs_layer_mixer(&b.network->layers[1])->attention;
    assert_ptr_not_equal(second->distance_bias, a->distance_bias);
    unbuild(&b);
}

static void mlps(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        rs_activation activation;
        double variance;
    } rows[] = {{"linear", RS_ACT_LINEAR, 1 / 64.0},
                {"relu", RS_ACT_RELU, 2 / 64.0},
                {"gelu", RS_ACT_GELU, 1 / 64.0},
                {"gelu_tanh", RS_ACT_GELU_TANH, 1 / 64.0},
                {"swiglu", RS_ACT_SILU, 1 / 64.0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"depth\": 1, \"mlp\": \"%s\"}", rows[i].word);
        built b = good(text);
        const rs_mlp_op *mlp = &b.network->layers[0].branches[1].mlp;
        assert_int_equal(mlp->activation, rows[i].activation);
        assert_variance(mlp->up.weight, rows[i].variance);
        assert_variance(mlp->down.weight, 1 / 256.0);
        unbuild(&b);
    }
    built b = good("{\"depth\": 1, \"mlp\": \"none\"}");
    assert_int_equal(b.network->layers[0].n_branches, 1);
    unbuild(&b);
}

static void laws(void **state)
{
    (void)state;
    built b = good("{\"depth\": 2, \"heads\": 4, \"kv_heads\": 2, \"init\": {\"wq\": \"zero\", "
                   "\"wk\": \"identity\", \"wv\": \"normal(0, 1/(d*L))\", \"wo\": \"none\", "
                   "\"w1\": \"normal(0, 4/(fan_in+fan_out))\", \"w2\": \"orthogonal\"}}");
    const rs_attention_op *a = &rs_layer_mixer(b.network->layers)->attention;
    assert_true(variance(a->q.weight) == 0);
    assert_true(variance(a->k.weight) == 32 / (32.0 * 64));
    assert_variance(a->v.weight, 1 / 128.0);
    assert_null(a->o.weight);
    assert_int_equal(a->value_dim, 64);
    assert_dense(&a->v, 2 * 64, 64);
    const rs_mlp_op *mlp = &b.network->layers[0].branches[1].mlp;
    assert_variance(mlp->up.weight, 4 / 320.0);
    assert_true(fabs(variance(mlp->down.weight) * 256 - 1) < 1e-6); /* 64 rows of length 1 */
    unbuild(&b);
    rs_error err;
    assert_int_equal(
        build(&b, "{\"depth\": 1, \"init\": {\"wq\": \"zero\"}}", "normal(0, 9)", &err), RS_OK);
    assert_variance(rs_layer_mixer(b.network->layers)->attention.q.weight, 9); /* --init wins */
    unbuild(&b);
}

/* ---- state-space mixers ---- */

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

static void layers_are_shared(void **state)
{
    (void)state;
    built b = good("{\"depth\": 3, \"d_model\": 8, \"share_layers\": true, \"skip_mixer\": "
                   "[1, 2, 3], \"branch_mlp\": \"l\"}");
    const rs_network *n = b.network;
    assert_int_equal(n->stored.parameters, 4 * 64 + 2 * 8 * 32);
    for (int32_t l = 0; l < 3; l++) {
        const rs_branch *own = n->layers[l].branches, *first = n->layers[0].branches;
        assert_int_equal(n->layers[l].stored, 0);
        assert_ptr_equal(own[0].attention.q.weight, first[0].attention.q.weight);
        assert_ptr_equal(own[1].mlp.down.weight, first[1].mlp.down.weight);
        assert_true(own[0].skip == l + 1 && own[1].scale == l);
    }
    unbuild(&b);
    b = good("{\"depth\": 2, \"mixer\": [\"attention\", \"mamba\"]}");
    assert_int_equal(rs_layer_mixer(&b.network->layers[0])->kind, RS_BRANCH_ATTENTION);
    assert_int_equal(rs_layer_mixer(&b.network->layers[1])->kind, RS_BRANCH_S6);
    unbuild(&b);
}

static void refusals_name_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what, *hint;
        rs_status status;
    } rows[] = {
        {"[]", "is a JSON object", "", RS_E_ARCH_SCHEMA},
        {"3", "is a JSON object", "", RS_E_ARCH_SCHEMA},
        {"{\"dept\": 3}", "unknown field \"dept\"", "did you mean \"depth\"?", RS_E_ARCH_SCHEMA},
        {"{\"skip\": 1}", "unknown field \"skip\"", "did you mean \"", RS_E_ARCH_SCHEMA},
        {"{\"depth\": 0}", "\"depth\" is 0; a whole number from 1 to 65536", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": 1.5}", "\"depth\" is 1.5", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": \"3\"}", "\"depth\" is \"3\"", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": 1e18}", "\"depth\" is 1e18", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": null}", "\"depth\" is null", "", RS_E_ARCH_SCHEMA},
        {"{\"d_model\": -4}", "\"d_model\" is -4", "", RS_E_ARCH_SCHEMA},
        {"{\"heads\": []}", "\"heads\" is a list", "", RS_E_ARCH_SCHEMA},
        {"{\"heads\": 3}", "\"d_model\" 64 is no multiple of \"heads\" 3", "give \"d_head\"",
         RS_E_ARCH_SCHEMA},
        {"{\"heads\": 4, \"kv_heads\": 3}", "no multiple of \"kv_heads\" 3", "", RS_E_ARCH_SCHEMA},
        {"{\"seq_len\": {}}", "\"seq_len\" is an object", "", RS_E_ARCH_SCHEMA},
        {"{\"vocab\": 0}", "\"vocab\" is 0", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\"}", "the mixer \"graph\" needs its matrix", "give \"graph\": {",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": 1}", "\"graph\" is no object", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {}}", "names no \"file\"", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {\"file\": 1}}", "names no \"file\"", "",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {\"file\": \"a.npy\", \"from\": \"row\"}}",
         "unknown field \"from\" in \"graph\"", "did you mean \"form\"?", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {\"file\": \"a.npy\", \"form\": \"rows\"}}",
         "\"rows\"; there are row, symmetric, attention, given", "did you mean \"row\"?",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {\"file\": \"a.npy\", \"form\": 1}}",
         "\"form\" in \"graph\" is no text", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {\"file\": \"no such.npy\"}}", "", "", RS_E_NOT_FOUND},
        {"{\"graph\": {\"file\": \"a.npy\"}}", "\"graph\" is read by no mixer here",
         "use \"mixer\": \"graph\"", RS_E_ARCH_SCHEMA},
        {"{\"value_map\": \"identity\"}", "\"value_map\" identity is read by no mixer here", "",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"s4d\", \"value_map\": \"identity\"}",
         "\"value_map\" identity is read by no mixer here", "", RS_E_ARCH_SCHEMA},
        {"{\"value_map\": \"none\"}", "\"value_map\" is \"none\"; there are free, identity", "",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"mambo\"}", "\"mixer\" is \"mambo\"", "did you mean \"mamba\"?",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": 1}", "\"mixer\" is 1", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": 2, \"mixer\": [\"mamba\", \"mamba2\"], \"share_layers\": true}",
         "\"mixer\" lists mamba and mamba2", "give one mixer", RS_E_ARCH_SCHEMA},
        {"{\"share_layers\": 1}", "\"share_layers\" is 1; true or false", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"mamba2\", \"heads\": 4, \"groups\": 3}", "no multiple of \"groups\" 3", "",
         RS_E_ARCH_SCHEMA},
        {"{\"dt_init\": [0.1, 0.01]}", "\"dt_init\" is a list; a list of the least", "",
         RS_E_ARCH_SCHEMA},
        {"{\"dt_init\": 1}", "\"dt_init\" is 1", "", RS_E_ARCH_SCHEMA},
        {"{\"gate\": true}", "\"gate\" is true; a text", "", RS_E_ARCH_SCHEMA},
        {"{\"state\": 0}", "\"state\" is 0", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"linear_attention\", \"decay\": 0.9}", "\"mask\" is none",
         "give \"mask\": \"causal\"", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"linear_attention\", \"mask\": \"sliding:3\"}",
         "\"mask\" is sliding:3; linear_attention has no window", "", RS_E_ARCH_SCHEMA},
        {"{\"decay\": 1.5}", "\"decay\" is 1.5; a number from 0 to 1", "", RS_E_ARCH_SCHEMA},
        {"{\"decay\": \"retnot\"}", "\"decay\" is \"retnot\"", "", RS_E_ARCH_SCHEMA},
        {"{\"decay\": [0.5, 0.5]}", "\"decay\" lists 2 heads; \"heads\" is 1",
         "give one entry a head", RS_E_ARCH_SCHEMA},
        {"{\"feature_map\": \"relu\"}", "there are identity, elu", "", RS_E_ARCH_SCHEMA},
        {"{\"normalised\": 1}", "\"normalised\" is 1; true or false", "", RS_E_ARCH_SCHEMA},
        {"{\"without_self\": 0}", "\"without_self\" is 0; true or false", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": 2, \"mixer\": [\"attention\"]}", "\"mixer\" lists 1 layers; \"depth\" is 2",
         "", RS_E_ARCH_SCHEMA},
        {"{\"attention\": \"centered\"}",
         "\"attention\" is \"centered\"; there are softmax, uniform,"
         " centred, shaped, rescaled",
         "did you mean \"centred\"?", RS_E_ARCH_SCHEMA},
        {"{\"shaped\": [1, 2]}", "\"shaped\" is a list; a list of three", "", RS_E_ARCH_SCHEMA},
        {"{\"shaped\": [1, 2, true]}", "\"shaped\" is true; a number or a formula", "",
         RS_E_ARCH_SCHEMA},
        {"{\"rescale\": \"x\"}", "\"rescale\" is \"x\"", "", RS_E_ARCH_SCHEMA},
        {"{\"temperature\": 0}", "\"temperature\" is 0; a number above 0", "", RS_E_ARCH_SCHEMA},
        {"{\"temperature\": \"1\"}", "\"temperature\" is \"1\"", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"casual\"}", "\"mask\" is \"casual\"", "did you mean \"causal\"?",
         RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"sliding:0\"}", "sliding:W with W", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"sliding:\"}", "sliding:W with W", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"sliding:3x\"}", "sliding:W with W", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"sliding:W\"}", "sliding:W with W", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"sliding:99999999999999999999\"}", "sliding:W with W", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": true}", "\"mask\" is true; a text", "", RS_E_ARCH_SCHEMA},
        {"{\"positions\": \"rotary\"}", "\"positions\" is \"rotary\"", "did you mean",
         RS_E_ARCH_SCHEMA},
        {"{\"positions\": \"learned\"}", "\"vocab\" is null", "give \"vocab\"", RS_E_ARCH_SCHEMA},
        {"{\"positions\": \"rope\", \"d_head\": 7}", "\"d_head\" 7 is odd", "", RS_E_ARCH_SCHEMA},
        {"{\"norm\": \"layernorm\"}", "\"norm\" is \"layernorm\"; there are none, pre", "",
         RS_E_ARCH_SCHEMA},
        {"{\"norm_kind\": \"rms\"}", "there are layernorm, rmsnorm", "did you mean \"rmsnorm\"?",
         RS_E_ARCH_SCHEMA},
        {"{\"skip_mixer\": \"1/l\"}", "a division by zero", "", RS_E_EXPRESSION},
        {"{\"skip_mlp\": \"1/depth\"}", "does not know \"depth\"", "", RS_E_EXPRESSION},
        {"{\"branch_mlp\": [1]}", "\"branch_mlp\" lists 1 layers; \"depth\" is 12",
         "give one entry a layer", RS_E_ARCH_SCHEMA},
        {"{\"branch_mixer\": null}", "\"branch_mixer\" is null", "", RS_E_ARCH_SCHEMA},
        {"{\"mlp\": \"silu\"}", "\"mlp\" is \"silu\"", "did you mean", RS_E_ARCH_SCHEMA},
        {"{\"init\": \"xavier\"}", "\"init\" is \"xavier\"; an object of laws", "",
         RS_E_ARCH_SCHEMA},
        {"{\"init\": {\"wz\": \"zero\"}}", "unknown field \"wz\" in \"init\"", "did you mean \"w",
         RS_E_ARCH_SCHEMA},
        {"{\"init\": {\"wq\": 0}}", "\"wq\" is 0; the text of a law", "", RS_E_ARCH_SCHEMA},
        {"{\"init\": {\"wq\": \"none\"}}", "\"none\" is not a law", "", RS_E_BAD_OPTION},
        {"{\"init\": {\"wq\": \"normal(0, 1/fanin)\"}}", "does not know \"fanin\"", "",
         RS_E_EXPRESSION},
        {"{\"input\": 1}", "\"input\" is 1; an object", "", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"low\": \"gaussian\"}}", "unknown field \"low\" in \"input\"",
         "did you mean \"law\"?", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"law\": \"uniform\"}}", "\"law\" is \"uniform\"", "", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"rho\": -0.1}}", "\"rho\" is -0.1", "", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"rho\": 1.1}}", "\"rho\" is 1.1", "", RS_E_ARCH_SCHEMA},
        {"{\"d_model\": 1, \"input\": {\"rho\": 0.5}}", "0 or 1 for \"d_model\" 1", "",
         RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"norm2\": \"d-64\"}}", "\"norm2\" is \"d-64\"", "", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"norm2\": \"m\"}}", "does not know \"m\"", "", RS_E_EXPRESSION},
        {"{\"depth\": 65536, \"d_model\": 65536}", "the weights need", "choose a smaller model",
         RS_E_MEMORY_LIMIT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        built b;
        rs_error err;
        rs_status status = build(&b, rows[i].text, NULL, &err);
        assert_null(b.network);
        if (status != rows[i].status || !strstr(err.what, rows[i].what) ||
            !strstr(err.hint, rows[i].hint))
            fail_msg("%s: %s: %s; %s", rows[i].text, rs_status_name(status), err.what, err.hint);
        unbuild(&b);
    }
}

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

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char text[] =
        "{\"depth\": 2, \"d_model\": 8, \"heads\": 2, \"vocab\": 9, \"positions\": \"alibi\", "
        "\"init\": {\"wq\": \"orthogonal\", \"wk\": \"uniform(0, 1)\"}}";
    built b;
    rs_error err;
    int64_t before = rs_memory_requests();
    assert_int_equal(build(&b, text, NULL, &err), RS_OK);
    unbuild(&b);
    int64_t n = rs_memory_requests() - before;
    assert_true(n > 20);
    for (int64_t i = 1; i <= n; i++) {
        rs_memory_fail_at(i);
        rs_status status = build(&b, text, NULL, &err);
        rs_memory_fail_at(0);
        unbuild(&b);
        assert_int_equal(status, RS_E_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default),
        cmocka_unit_test(sizes_and_grouped_heads),
        cmocka_unit_test(attention_words_become_mixes),
        cmocka_unit_test(norms),
        cmocka_unit_test(strengths_are_numbers_formulas_or_lists),
        cmocka_unit_test(positions),
        cmocka_unit_test(mlps),
        cmocka_unit_test(laws),
        cmocka_unit_test(mamba_is_drawn),
        cmocka_unit_test(mamba2_is_drawn),
        cmocka_unit_test(linear_attention_is_drawn),
        cmocka_unit_test(delta_is_drawn),
        cmocka_unit_test(short_conv_is_drawn),
        cmocka_unit_test(layers_are_shared),
        cmocka_unit_test(refusals_name_the_field),
        cmocka_unit_test(inputs_have_norm_and_correlation),
        cmocka_unit_test(inputs_depend_on_seed_and_sample_only),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
