/*
 * test_network_draws.c: configurations without weights: drawn networks have the description that
 * stored ones have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "network/op_traits.h"
#include "network_cases.h"

#include <math.h>

/* Descriptions agree but for which tensors they point to. A map that is stored with others in one
 * tensor (a) is drawn as a tensor of its own (b). */
static void same_dense(const rs_dense *a, const rs_dense *b)
{
    assert_true(!a->weight == !b->weight);
    if (!a->weight) return;
    assert_int_equal(b->weight->count, b->in * b->out);
    assert_true(a->in == b->in && a->out == b->out);
    assert_true(!a->bias == !b->bias);
    if (a->weight->count != b->weight->count) return;
    /* field by field: the bytes between the fields are nobody's */
    assert_true(a->rows == b->rows && a->cols == b->cols && a->out_is_row == b->out_is_row);
    assert_true(a->first == b->first && a->run == b->run && a->stride == b->stride);
    assert_true(a->scale == b->scale && a->scale_block_rows == b->scale_block_rows &&
                a->scale_block_cols == b->scale_block_cols);
    assert_int_equal(a->n_factors, b->n_factors);
    for (int32_t i = 0; i < a->n_factors; i++)
        assert_true(a->factors[i].units == b->factors[i].units &&
                    a->factors[i].weight == b->factors[i].weight &&
                    a->factors[i].bias == b->factors[i].bias);
}

static void same_norm(const rs_norm_op *a, const rs_norm_op *b)
{
    /* 1 + w with w = 0 is drawn as a gain of 1 */
    if (a->kind != RS_NORM_RMSNORM_PLUS_ONE) assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->dim, b->dim);
    assert_true(a->eps == b->eps && !a->gain == !b->gain && !a->bias == !b->bias);
}

static void same_rope(const rs_rope_op *a, const rs_rope_op *b)
{
    assert_true(a->kind == b->kind && a->law == b->law && a->dims == b->dims);
    assert_true(a->theta == b->theta && a->factor == b->factor);
    assert_true(a->low_freq_factor == b->low_freq_factor &&
                a->high_freq_factor == b->high_freq_factor);
    assert_true(a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow);
    assert_true(a->attention_factor == b->attention_factor &&
                a->original_positions == b->original_positions);
    assert_true(a->truncate == b->truncate && a->divisors == b->divisors);
}

static void same_ssd(const rs_ssd_op *a, const rs_ssd_op *b)
{
    assert_true(a->heads == b->heads && a->groups == b->groups && a->head_dim == b->head_dim);
    assert_true(a->state == b->state && a->conv.width == b->conv.width);
    assert_true(!a->conv.bias == !b->conv.bias && !a->dt_bias == !b->dt_bias && !a->d == !b->d);
    assert_true(a->step_least == b->step_least && a->step_most == b->step_most);
    assert_true(a->gate == b->gate && a->norm_groups == b->norm_groups);
    same_norm(&a->norm, &b->norm);
}

static void same_branch(const rs_branch *a, const rs_branch *b)
{
    assert_int_equal(a->kind, b->kind);
    same_norm(&a->before, &b->before);
    same_norm(&a->inside, &b->inside);
    same_norm(&a->after, &b->after);
    assert_true(a->skip == b->skip && a->scale == b->scale && a->joins == b->joins);
    const rs_weight_list *weights = &rs_branch_traits(a)->weights;
    for (size_t i = 0; i < weights->n; i++) {
        const rs_dense *left = rs_weight_map(&weights->rows[i], a);
        const rs_dense *right = rs_weight_map(&weights->rows[i], b);
        assert_true(!left == !right);
        if (left) same_dense(left, right);
    }
    if (a->kind == RS_BRANCH_SSD) same_ssd(&a->ssd, &b->ssd);
    const rs_attention_op *p = rs_branch_attention(a), *q = rs_branch_attention(b);
    if (!p) return;
    assert_true(!p->relative.content_bias == !q->relative.content_bias);
    assert_true(p->scale == q->scale && p->softcap == q->softcap && p->window == q->window);
    assert_true(p->causal == q->causal && p->cross == q->cross);
    same_norm(&p->q_norm, &q->q_norm);
    same_rope(&p->rope, &q->rope);
}

static bool all_equal(const rs_tensor *tensor, float value)
{
    for (int64_t i = 0; i < tensor->count; i++) {
        float x;
        rs_tensor_decode_f32(&x, tensor, i, 1);
        if (x != value) return false;
    }
    return true;
}

static void check_draws(const rs_network *network)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t i = 0; i < network->layers[l].n_branches; i++) {
            const rs_branch *branch = &network->layers[l].branches[i];
            const rs_norm_op *norms[] = {&branch->before, &branch->inside, &branch->after};
            for (size_t k = 0; k < 3; k++) {
                if (norms[k]->gain) assert_true(all_equal(norms[k]->gain, 1));
                if (norms[k]->bias) assert_true(all_equal(norms[k]->bias, 0));
            }
            const rs_attention_op *op = rs_branch_attention(branch);
            const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
            const rs_dense *map =
                op ? &op->v : rs_weight_map(&weights->rows[weights->n - 1], branch);
            assert_non_null(map); /* the output's, last of every list */
            assert_false(all_equal(map->weight, 0));
            if (map->bias) assert_true(all_equal(map->bias, 0));
            const rs_tensor *r = op ? op->relative.content_bias : NULL;
            if (r) assert_false(all_equal(r, 0));
        }
}

static void one_drawn(const char *name)
{
    rs_checkpoint *checkpoint = open_case(name);
    rs_network *stored, *drawn;
    rs_init *init;
    rs_error err = {0};
    assert_int_equal(rs_network_open(&stored, checkpoint, &err), RS_OK);
    assert_int_equal(rs_init_open(&init, NULL, 7, &err), RS_OK);
    if (rs_network_from_config(&drawn, checkpoint->config, "config.json", init, &err) != RS_OK)
        fail_msg("%s: %s: %s", name, err.where, err.what);
    assert_string_equal(stored->family, drawn->family);
    assert_int_equal(stored->d_model, drawn->d_model);
    assert_int_equal(stored->n_layers, drawn->n_layers);
    assert_int_equal(stored->max_positions, drawn->max_positions);
    assert_int_equal(stored->embedding.position_offset, drawn->embedding.position_offset);
    assert_true(stored->embedding.scale == drawn->embedding.scale);
    same_norm(&stored->embedding.norm, &drawn->embedding.norm);
    same_norm(&stored->final_norm, &drawn->final_norm);
    for (int32_t l = 0; l < stored->n_layers; l++) {
        assert_int_equal(stored->layers[l].n_branches, drawn->layers[l].n_branches);
        assert_int_equal(stored->layers[l].stored, drawn->layers[l].stored);
        for (int32_t i = 0; i < stored->layers[l].n_branches; i++)
            same_branch(&stored->layers[l].branches[i], &drawn->layers[l].branches[i]);
    }
    if (stored->head.next_token && drawn->head.next_token)
        assert_int_equal(stored->stored.parameters, drawn->stored.parameters);
    check_draws(drawn);
    rs_network_close(drawn);
    rs_init_close(init);
    rs_network_close(stored);
    rs_checkpoint_close(checkpoint);
}

static void drawn_networks_are_wired_like_stored_ones(void **state)
{
    (void)state;
    static const char *const names[] = {"bert",
                                        "bert_cross",
                                        "roberta",
                                        "distilbert",
                                        "albert",
                                        "albert_inner",
                                        "xlnet",
                                        "gpt2",
                                        "gpt2_cross",
                                        "gpt_neox",
                                        "llama",
                                        "llama_yarn",
                                        "mistral",
                                        "qwen2",
                                        "qwen3",
                                        "gemma",
                                        "gemma2",
                                        "gemma3",
                                        "phi3",
                                        "olmo",
                                        "olmo2",
                                        "granite",
                                        "falcon",
                                        "falcon_new",
                                        "falcon_old",
                                        "vit",
                                        "gpt_neox_serial",
                                        "mamba",
                                        "mamba2",
                                        "mamba2_limits",
                                        "jamba",
                                        "bamba",
                                        "granite_hybrid",
                                        "falcon_h1",
                                        "nemotron_h",
                                        "falcon_h1_norm",
                                        "falcon_h1_biased",
                                        "falcon_h1_gate_first"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        one_drawn(names[i]);
}

/* W Wᵀ or WᵀW of the shorter side is the identity, as float32 keeps it. */
static void assert_orthogonal(const char *name, const rs_dense *dense)
{
    const rs_tensor *w = dense->weight;
    if (!w) return;
    int64_t rows = dense->rows, cols = dense->cols;
    bool wide = rows <= cols;
    int64_t m = wide ? rows : cols, n = wide ? cols : rows;
    assert_int_equal(w->count, rows * cols);
    assert_int_equal(w->count, dense->in * dense->out); /* its own tensor, not a part of one */
    double *data = malloc((size_t)w->count * sizeof *data);
    assert_non_null(data);
    rs_tensor_decode_f64(data, w, 0, w->count);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++) {
            double dot = 0;
            for (int64_t t = 0; t < n; t++)
                dot += wide ? data[i * cols + t] * data[j * cols + t]
                            : data[t * cols + i] * data[t * cols + j];
            if (fabs(dot - (i == j)) > 1e-6)
                fail_msg("%s: %s: vectors %lld and %lld have product %g", name, w->name,
                         (long long)i, (long long)j, dot);
        }
    free(data);
}

/* A law is about one map, whether a family's files store it alone or with others. */
static void one_law_means_one_model(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2",       "gpt2_cross", "gpt_neox", "phi3", "falcon",
                                        "falcon_new", "falcon_old", "llama",    "bert"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        rs_checkpoint *checkpoint = open_case(names[n]);
        rs_network *network;
        rs_init *init;
        rs_error err = {0};
        assert_int_equal(rs_init_open(&init, "orthogonal", 7, &err), RS_OK);
        assert_int_equal(
            rs_network_from_config(&network, checkpoint->config, "config.json", init, &err), RS_OK);
        for (int32_t l = 0; l < network->n_layers; l++)
            for (int32_t i = 0; i < network->layers[l].n_branches; i++) {
                const rs_branch *branch = &network->layers[l].branches[i];
                const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
                for (size_t k = 0; k < weights->n; k++) {
                    const rs_dense *map = rs_weight_map(&weights->rows[k], branch);
                    if (map) assert_orthogonal(names[n], map);
                }
            }
        rs_network_close(network);
        rs_init_close(init);
        rs_checkpoint_close(checkpoint);
    }
}

static rs_network *draw_changed(const char *name, const char *change, rs_init **init)
{
    rs_checkpoint *checkpoint = open_case(name);
    rs_network *network;
    rs_error err = {0};
    overlay(checkpoint->config, change);
    assert_int_equal(rs_init_open(init, NULL, 7, &err), RS_OK);
    if (rs_network_from_config(&network, checkpoint->config, "config.json", *init, &err) != RS_OK)
        fail_msg("%s %s: %s: %s", name, change, err.where, err.what);
    rs_checkpoint_close(checkpoint);
    return network;
}

/* The one row of zeros in a table, -1: none. */
static int64_t zero_row(const rs_tensor *table)
{
    int64_t found = -1, width = table->shape[1];
    for (int64_t row = 0; row < table->shape[0]; row++) {
        bool zero = true;
        for (int64_t i = 0; i < width && zero; i++) {
            float x;
            rs_tensor_decode_f32(&x, table, row * width + i, 1);
            zero = x == 0;
        }
        if (!zero) continue;
        if (found >= 0) fail_msg("rows %lld and %lld are zero", (long long)found, (long long)row);
        found = row;
    }
    return found;
}

/* transformers 5.23: nn.Embedding's padding_idx, row by row of the classes' own defaults. */
static void padding_rows_are_zero(void **state)
{
    (void)state;
    static const struct {
        const char *name, *change;
        int64_t words, positions;
    } trials[] = {
        {"bert", "{}", 0, -1},
        {"bert", "{\"pad_token_id\":3}", 3, -1},
        {"bert", "{\"pad_token_id\":null}", -1, -1},
        {"albert", "{\"pad_token_id\":2}", 2, -1},
        {"distilbert", "{\"pad_token_id\":4}", 4, -1},
        {"roberta", "{\"pad_token_id\":2}", 2, 2},
        {"camembert", "{\"pad_token_id\":1}", 1, 1},
        {"xlnet", "{\"pad_token_id\":5}", -1, -1},
        {"gpt2", "{\"pad_token_id\":5}", -1, -1},
        {"gpt_neox", "{\"pad_token_id\":5}", -1, -1},
        {"falcon", "{\"pad_token_id\":5}", -1, -1},
        {"llama", "{\"pad_token_id\":null}", -1, -1},
        {"llama", "{\"pad_token_id\":22}", 22, -1},
        {"llama", "{\"pad_token_id\":-1,\"vocab_size\":23}", 22, -1},
        {"llama", "{\"pad_token_id\":23,\"vocab_size\":23}", -1, -1},
        {"qwen2", "{\"pad_token_id\":7}", 7, -1},
        {"gemma", "{\"pad_token_id\":0}", 0, -1},
        {"gemma3", "{\"pad_token_id\":0}", 0, -1},
        {"olmo", "{\"pad_token_id\":1}", 1, -1},
        {"olmo2", "{\"pad_token_id\":1}", 1, -1},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        rs_init *init;
        rs_network *network = draw_changed(trials[i].name, trials[i].change, &init);
        const rs_embedding_op *e = &network->embedding;
        if (zero_row(e->tokens) != trials[i].words)
            fail_msg("%s %s: row %lld is zero", trials[i].name, trials[i].change,
                     (long long)zero_row(e->tokens));
        if (e->positions) assert_int_equal(zero_row(e->positions), trials[i].positions);
        bool told = false, outside = strstr(trials[i].change, "\"pad_token_id\":23,") != NULL;
        for (size_t n = 0; n < network->notes.n; n++)
            told |= strcmp(network->notes.items[n].code, "padding_outside_vocabulary") == 0;
        assert_int_equal(told, outside); /* nn.Embedding of 23 rows refuses a padding_idx of 23 */
        rs_network_close(network);
        rs_init_close(init);
    }
    /* a silent configuration has its class's own */
    static const struct {
        const char *config;
        int64_t words;
    } silent[] = {
        {"{\"model_type\":\"olmo\",\"vocab_size\":9,\"hidden_size\":8,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":2,\"intermediate_size\":8}",
         1},
        {"{\"model_type\":\"gemma\",\"vocab_size\":9,\"hidden_size\":8,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":2,\"num_key_value_heads\":2,\"head_dim\":4,"
         "\"intermediate_size\":8}",
         0},
        {"{\"model_type\":\"llama\",\"vocab_size\":9,\"hidden_size\":8,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":2,\"intermediate_size\":8}",
         -1},
    };
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        json_t *config = json_loads(silent[i].config, 0, NULL);
        rs_network *network;
        rs_init *init;
        rs_error err = {0};
        assert_int_equal(rs_init_open(&init, NULL, 1, &err), RS_OK);
        if (rs_network_from_config(&network, config, "config.json", init, &err) != RS_OK)
            fail_msg("%s", err.what);
        assert_int_equal(zero_row(network->embedding.tokens), silent[i].words);
        rs_network_close(network);
        rs_init_close(init);
        json_decref(config);
    }
}

/* create_sinusoidal_embeddings of transformers 5.23's modeling_distilbert for 14 positions of width
 * 15, some entries of it. */
static void distilbert_can_have_sinusoids(void **state)
{
    (void)state;
    static const struct {
        int64_t row, column;
        double value;
    } known[] = {
        {0, 0, 0},
        {0, 1, 1},
        {1, 0, 0.841470957},
        {1, 1, 0.540302277},
        {1, 2, 0.288695902},
        {5, 3, 0.106272981},
        {7, 4, 0.56496197},
        {7, 5, 0.825116992},
        {13, 0, 0.420167029},
        {13, 7, 0.947156191},
        {13, 10, 0.0280039888},
        {13, 11, 0.999607801},
    };
    rs_init *init;
    rs_network *network = draw_changed("distilbert", "{\"sinusoidal_pos_embds\":true}", &init);
    const rs_tensor *table = network->embedding.positions;
    assert_int_equal(table->shape[1], 15);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double value;
        rs_tensor_decode_f64(&value, table, known[i].row * 15 + known[i].column, 1);
        if (fabs(value - known[i].value) > 1e-7)
            fail_msg("position %lld, %lld: %.9g instead of %.9g", (long long)known[i].row,
                     (long long)known[i].column, value, known[i].value);
    }
    rs_network_close(network);
    rs_init_close(init);
}

static void shared_blocks_share_draws(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint = open_case("albert");
    rs_network *network;
    rs_init *init;
    rs_error err = {0};
    assert_int_equal(rs_init_open(&init, NULL, 7, &err), RS_OK);
    assert_int_equal(
        rs_network_from_config(&network, checkpoint->config, "config.json", init, &err), RS_OK);
    /* 5 depths over 2 groups: 0 0 0 1 1 */
    static const int32_t groups[] = {0, 0, 0, 1, 1};
    for (int32_t l = 0; l < 5; l++) {
        assert_int_equal(network->layers[l].stored, groups[l]);
        assert_true((network->layers[l].branches[0].attention.q.weight ==
                     network->layers[0].branches[0].attention.q.weight) == (groups[l] == 0));
    }
    rs_network_close(network);
    rs_init_close(init);
    rs_checkpoint_close(checkpoint);
}

/* Configurations as users write them: nearly empty, or absurd. */
static void bare_configurations(void **state)
{
    (void)state;
    static const trial trials[] = {
        {"",
         "{\"model_type\":\"bert\",\"num_hidden_layers\":1,\"hidden_size\":24,"
         "\"vocab_size\":50}",
         RS_OK, NULL},
        {"", "{}", RS_E_FAMILY_UNKNOWN, "(none)"},
        {"", "{\"model_type\":\"llama\",\"hidden_size\":2147483647}", RS_E_CONFIG_HEADS,
         "no multiple"},
        {"", "{\"model_type\":\"gpt2\",\"n_embd\":1048576,\"n_layer\":9000,\"n_head\":1}",
         RS_E_MEMORY_LIMIT, "GiB"},
        {"", "{\"model_type\":\"llama\",\"vocab_size\":2147483647,\"num_hidden_layers\":1}",
         RS_E_MEMORY_LIMIT, "GiB"},
        {"", "{\"model_type\":\"bert\",\"initializer_range\":-1}", RS_E_CONFIG_SIZE,
         "initializer_range"},
        {"", "{\"model_type\":\"zamba2\"}", RS_E_UNSUPPORTED, "layers share"},
        {"", "{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":2}", RS_E_CONFIG_LAYERS,
         "layer 0"},
        {"", "{\"model_type\":\"nemotron_h\",\"hybrid_override_pattern\":\"ME\"}", RS_E_UNSUPPORTED,
         "makes layer 1 a mixture of experts"},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        json_t *config = json_loads(trials[i].change, 0, NULL);
        rs_network *network;
        rs_init *init;
        rs_error err = {0};
        assert_int_equal(rs_init_open(&init, NULL, 1, &err), RS_OK);
        rs_status status = rs_network_from_config(&network, config, "config.json", init, &err);
        check_status(&trials[i], status, &err);
        if (network) assert_int_equal(network->layers[0].branches[1].mlp.width, 3072);
        rs_network_close(network);
        rs_init_close(init);
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_networks_are_wired_like_stored_ones),
        cmocka_unit_test(one_law_means_one_model),
        cmocka_unit_test(padding_rows_are_zero),
        cmocka_unit_test(distilbert_can_have_sinusoids),
        cmocka_unit_test(shared_blocks_share_draws),
        cmocka_unit_test(bare_configurations),
    };
    return cmocka_run_group_tests_name("network_draws", tests, NULL, NULL);
}
