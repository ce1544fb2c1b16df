/* test_arch.c: architecture files: every default and every field of attention, MLPs and norms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arch_support.h"

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

/* Of every mixer that has logits, of shared layers too. */
static void temperatures_are_numbers_formulas_or_lists(void **state)
{
    (void)state;
    built b = good("{\"depth\": 3, \"temperature\": [1, \"1/(l+1)\", 1e-300], \"mixer\": "
                   "[\"attention\", \"linear_attention\", \"attention\"]}");
    assert_true(b.network->layers[0].branches[0].attention.temperature == 1);
    assert_true(b.network->layers[1].branches[0].linear.temperature == 0.5);
    assert_true(b.network->layers[2].branches[0].attention.temperature == 1e-300);
    unbuild(&b);
    static const char *const mixers[] = {"attention", "linear_attention"};
    for (int i = 0; i < 4; i++) {
        char text[160];
        snprintf(text, sizeof text,
                 "{\"depth\": 4, \"mixer\": \"%s\", \"temperature\": \"l+1\", "
                 "\"share_layers\": %s}",
                 mixers[i % 2], i < 2 ? "true" : "false");
        b = good(text);
        for (int32_t l = 0; l < 4; l++) {
            const rs_branch *mixer = &b.network->layers[l].branches[0];
            assert_true((i % 2 ? mixer->linear.temperature : mixer->attention.temperature) ==
                        l + 1);
        }
        unbuild(&b);
    }
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
    } rows[] = {{"linear", RS_ACT_LINEAR, 1 / 64.0},  {"relu", RS_ACT_RELU, 2 / 64.0},
                {"gelu", RS_ACT_GELU, 1 / 64.0},      {"gelu_tanh", RS_ACT_GELU_TANH, 1 / 64.0},
                {"swiglu", RS_ACT_SILU, 1 / 64.0},    {"sin", RS_ACT_SIN, 1 / 64.0},
                {"sigmoid", RS_ACT_SIGMOID, 1 / 64.0}};
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

static void fusions(void **state)
{
    (void)state;
    static const char *const words[] = {"none", "concat", "max", "gate"};
    static const rs_fusion fusion[] = {RS_FUSION_NONE, RS_FUSION_CONCAT, RS_FUSION_MAX,
                                       RS_FUSION_GATE};
    for (size_t i = 0; i < 4; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"depth\": 1, \"fusion\": \"%s\"}", words[i]);
        built b = good(text);
        rs_network *copy;
        rs_error err;
        assert_int_equal(b.network->fusion, fusion[i]);
        assert_int_equal(rs_network_copy(&copy, b.network, &err), RS_OK);
        assert_int_equal(copy->fusion, fusion[i]);
        rs_network_close(copy);
        unbuild(&b);
    }
}

/* Where there is a head it reads the states by weights of its own; without one nothing does. */
static void read_outs(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        rs_fusion kind;
        int64_t rows, cols;
        double variance;
    } cases[] = {
        {"\"fusion\": \"concat\", \"vocab\": 7", RS_FUSION_CONCAT, 64, 5 * 64, 1.0 / (5 * 64)},
        {"\"fusion\": \"concat\", \"outputs\": 3, \"init\": {\"fusion\": \"normal(0, 4)\"}",
         RS_FUSION_CONCAT, 64, 5 * 64, 4},
        {"\"fusion\": \"gate\", \"vocab\": 7", RS_FUSION_GATE, 1, 64, 0},
        {"\"fusion\": \"max\", \"vocab\": 7", RS_FUSION_MAX, 0, 0, 0},
        {"\"fusion\": \"gate\"", RS_FUSION_NONE, 0, 0, 0},
        {"\"vocab\": 7", RS_FUSION_NONE, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[160];
        snprintf(text, sizeof text, "{\"depth\": 5, \"bias\": true, %s}", cases[i].fields);
        built b = good(text);
        const rs_read_out_op *op = &b.network->read_out;
        assert_int_equal(op->kind, cases[i].kind);
        assert_null(op->map.bias);
        assert_int_equal(op->map.weight != NULL, cases[i].rows > 0);
        if (op->map.weight) {
            assert_int_equal(op->map.weight->shape[0], cases[i].rows);
            assert_int_equal(op->map.weight->shape[1], cases[i].cols);
            assert_true(rs_init_law(op->map.weight)->kind ==
                        (cases[i].variance > 0 ? RS_LAW_NORMAL : RS_LAW_ZERO));
            if (cases[i].variance > 0) assert_variance(op->map.weight, cases[i].variance);
        }
        unbuild(&b);
    }
}

static void parallel_blocks(void **state)
{
    (void)state;
    static const double skips[] = {1, 0.5, 2};
    for (int share = 0; share < 2; share++) {
        char text[160];
        snprintf(text, sizeof text,
                 "{\"depth\": 3, \"block\": \"parallel\", \"norm\": \"%s\", \"share_layers\": %s, "
                 "\"skip_mlp\": [1, 0.5, 2]}",
                 share ? "pre" : "sandwich", share ? "true" : "false");
        built b = good(text);
        for (int32_t l = 0; l < 3; l++) {
            const rs_branch *mixer = &b.network->layers[l].branches[0], *mlp = mixer + 1;
            assert_true(!mixer->joins && mlp->joins);
            assert_int_equal(mlp->before.kind, RS_NORM_LAYERNORM); /* its own, not the mixer's */
            assert_true(mixer->skip == 1 && mlp->skip == skips[l]);
        }
        unbuild(&b);
    }
    built b = good("{\"depth\": 1, \"block\": \"sequential\", \"norm\": \"post\"}");
    assert_false(b.network->layers[0].branches[1].joins);
    unbuild(&b);
}

/* Rows of a map, each an entry of 1 and zeros. */
static void assert_identity(const rs_dense *map, int64_t rows, int64_t cols)
{
    const float *x = (const float *)(const void *)map->weight->data;
    assert_dense(map, rows, cols);
    assert_true(map->weight->fixed);
    for (int64_t i = 0; i < rows * cols; i++)
        assert_true(x[i] == (i / cols % cols == i % cols));
}

static void absent_maps(void **state)
{
    (void)state;
    built b = good("{\"depth\": 2, \"d_model\": 12, \"heads\": 4, \"d_head\": 3, \"bias\": true, "
                   "\"mlp\": \"none\", \"init\": {\"wv\": \"identity\", \"wo\": \"identity\"}}");
    const rs_attention_op *a = &rs_layer_mixer(b.network->layers)->attention, *second;
    second = &rs_layer_mixer(&b.network->layers[1])->attention;
    assert_identity(&a->v, 12, 12);
    assert_identity(&a->o, 12, 12);
    assert_ptr_equal(a->v.weight, second->v.weight);
    assert_non_null(a->q.bias);
    assert_int_equal(a->value_dim, 3);
    assert_int_equal(b.network->stored.parameters, 2 * 2 * (12 * 12 + 12));
    unbuild(&b);
    /* a trained law of the same numbers: the other map's */
    b = good("{\"depth\": 1, \"d_model\": 12, \"heads\": 4, \"kv_heads\": 2, \"d_head\": 6, "
             "\"init\": {\"wv\": \"identity\", \"wk\": \"identity\"}}");
    a = &rs_layer_mixer(b.network->layers)->attention;
    assert_identity(&a->v, 12, 12);
    assert_false(a->o.weight->fixed || a->k.weight->fixed);
    assert_dense(&a->o, 12, 24);
    unbuild(&b);
    /* whole tokens of every head where W_O is merged */
    b = good("{\"depth\": 1, \"d_model\": 5, \"heads\": 4, \"kv_heads\": 2, \"d_head\": 3, "
             "\"init\": {\"wv\": \"identity\", \"wo\": \"none\"}}");
    a = &rs_layer_mixer(b.network->layers)->attention;
    assert_identity(&a->v, 10, 5);
    assert_null(a->o.weight);
    unbuild(&b);
    rs_error err;
    assert_int_equal(
        build(&b, "{\"depth\": 1, \"init\": {\"wo\": \"identity\"}}", "normal(0, 9)", &err), RS_OK);
    assert_identity(&rs_layer_mixer(b.network->layers)->attention.o, 64,
                    64); /* --init draws none */
    unbuild(&b);
    b = good("{\"depth\": 2, \"d_model\": 12, \"heads\": 4, \"d_head\": 3, \"mixer\": [\"mamba2\", "
             "\"s4d\"], \"init\": {\"wo\": \"identity\", \"wv\": \"identity\"}}");
    assert_identity(&rs_layer_mixer(&b.network->layers[0])->ssd.o, 12, 12);
    assert_identity(&rs_layer_mixer(&b.network->layers[1])->s4d.o, 12, 12);
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

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char text[] =
        "{\"depth\": 2, \"d_model\": 8, \"heads\": 2, \"vocab\": 9, \"positions\": \"alibi\", "
        "\"init\": {\"wq\": \"orthogonal\", \"wk\": \"uniform(0, 1)\", \"wv\": \"identity\"}}";
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
        cmocka_unit_test(temperatures_are_numbers_formulas_or_lists),
        cmocka_unit_test(positions),
        cmocka_unit_test(mlps),
        cmocka_unit_test(laws),
        cmocka_unit_test(fusions),
        cmocka_unit_test(read_outs),
        cmocka_unit_test(parallel_blocks),
        cmocka_unit_test(absent_maps),
        cmocka_unit_test(layers_are_shared),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
