/*
 * test_network.c: checkpoints become networks: configurations that lie are refused by name, what is
 * only odd is noted, GGUF's silences and sentence-transformers' side files are understood.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "case_files.h"
#include "network_cases.h"

#include <math.h>

static void lies_are_named(void **state)
{
    (void)state;
    static const trial trials[] = {
        {"llama", "{\"model_type\":\"zamba2\"}", RS_E_UNSUPPORTED, "layers share"},
        {"llama", "{\"model_type\":\"zamba\"}", RS_E_UNSUPPORTED, "x_proj"},
        {"llama", "{\"model_type\":\"rwkv\"}", RS_E_UNSUPPORTED, "WKV"},
        {"llama", "{\"model_type\":\"xlstm\"}", RS_E_UNSUPPORTED, "mLSTM"},
        {"llama", "{\"model_type\":\"kimi_linear\"}", RS_E_UNSUPPORTED, "delta attention"},
        {"llama", "{\"model_type\":\"mixtral\"}", RS_E_UNSUPPORTED, "mixtures of experts"},
        {"llama", "{\"model_type\":\"qwen3_moe\"}", RS_E_UNSUPPORTED, "mixtures of experts"},
        {"llama", "{\"model_type\":\"deepseek_v3\"}", RS_E_UNSUPPORTED, "latent attention"},
        {"llama", "{\"model_type\":\"whisper\"}", RS_E_UNSUPPORTED, "sound"},
        {"llama", "{\"model_type\":\"never_heard_of\"}", RS_E_FAMILY_UNKNOWN, "never_heard_of"},
        {"llama", "{\"model_type\":7}", RS_E_FAMILY_UNKNOWN, "(none)"},
        {"llama", "{\"hidden_act\":\"mystery\"}", RS_E_UNSUPPORTED, "\"mystery\""},
        {"llama", "{\"hidden_act\":3}", RS_E_CONFIG_SCHEMA, "hidden_act"},
        {"llama", "{\"rope_parameters\":{\"rope_type\":\"longrope\"}}", RS_E_UNSUPPORTED,
         "\"longrope\""},
        {"llama", "{\"rope_parameters\":{\"rope_type\":true}}", RS_E_CONFIG_SCHEMA, "rope_type"},
        {"llama", "{\"rope_parameters\":{\"rope_type\":\"linear\"}}", RS_E_CONFIG_SCHEMA, "factor"},
        {"llama", "{\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":-2}}",
         RS_E_CONFIG_SIZE, "factor"},
        {"llama", "{\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":2}}",
         RS_E_CONFIG_SCHEMA, "low_freq_factor"},
        {"llama",
         "{\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":2,\"low_freq_factor\":4,"
         "\"high_freq_factor\":4}}",
         RS_E_CONFIG_SIZE, "not below"},
        {"llama", "{\"rope_parameters\":{\"rope_theta\":\"much\"}}", RS_E_CONFIG_SIZE,
         "rope_theta"},
        {"llama", "{\"rope_parameters\":{\"rope_theta\":1}}", RS_E_CONFIG_SIZE, "above 1"},
        {"llama", "{\"rope_scaling\":{\"type\":\"mrope\"}}", RS_E_UNSUPPORTED, "\"mrope\""},
        {"llama", "{\"head_dim\":5,\"num_attention_heads\":4}", RS_E_CONFIG_SIZE, "pairs"},
        {"gpt_neox", "{\"rope_parameters\":{\"rope_theta\":100,\"partial_rotary_factor\":0.2}}",
         RS_E_CONFIG_SIZE, "pairs"},
        {"llama",
         "{\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2,"
         "\"partial_rotary_factor\":0.5}}",
         RS_E_UNSUPPORTED, "partial_rotary_factor"},
        {"llama", "{\"num_attention_heads\":5,\"head_dim\":null}", RS_E_CONFIG_HEADS,
         "no multiple"},
        {"llama", "{\"num_key_value_heads\":3}", RS_E_CONFIG_HEADS, "key/value"},
        {"llama", "{\"num_key_value_heads\":1}", RS_E_TENSOR_SHAPE, "has shape [12, 12]"},
        {"llama", "{\"hidden_size\":16}", RS_E_TENSOR_SHAPE, "asks for [23, 16]"},
        {"llama", "{\"intermediate_size\":19}", RS_E_TENSOR_SHAPE, "mlp."},
        {"llama", "{\"vocab_size\":24}", RS_E_TENSOR_SHAPE, "embed_tokens"},
        {"llama", "{\"vocab_size\":-1}", RS_E_CONFIG_SIZE, "vocab_size"},
        {"llama", "{\"num_hidden_layers\":2147483647}", RS_E_CONFIG_LAYERS, "2147483647"},
        {"llama", "{\"rope_parameters\":3}", RS_E_CONFIG_SCHEMA, "rope_parameters is no object"},
        {"llama", "{\"rope_scaling\":\"x\"}", RS_E_CONFIG_SCHEMA, "rope_scaling is no object"},
        {"llama", "{\"tie_word_embeddings\":\"x\"}", RS_E_CONFIG_SCHEMA, "tie_word_embeddings"},
        {"gpt2", "{\"scale_attn_weights\":2147483648}", RS_E_CONFIG_SCHEMA, "scale_attn_weights"},
        {"vit", "{\"qkv_bias\":\"x\"}", RS_E_CONFIG_SCHEMA, "qkv_bias"},
        {"bert", "{\"is_decoder\":[[[]]]}", RS_E_CONFIG_SCHEMA, "is_decoder"},
        {"llama", "{\"num_hidden_layers\":0}", RS_E_CONFIG_SIZE, "num_hidden_layers"},
        {"llama", "{\"num_hidden_layers\":3}", RS_E_TENSOR_MISSING,
         "9 tensors that a llama forward pass needs are absent: "
         "model.layers.2.input_layernorm.weight"},
        {"llama", "{\"num_hidden_layers\":9999}", RS_E_TENSOR_MISSING, ", ..."},
        {"llama", "{\"attention_bias\":true}", RS_E_TENSOR_MISSING,
         "model.layers.0.self_attn.q_proj.bias"},
        {"llama", "{\"rms_norm_eps\":-1}", RS_E_CONFIG_SIZE, "rms_norm_eps"},
        {"llama", "{\"rms_norm_eps\":\"small\"}", RS_E_CONFIG_SIZE, "rms_norm_eps"},
        {"qwen2_window", "{\"layer_types\":[\"full_attention\",\"chunked_attention\"]}",
         RS_E_UNSUPPORTED, "chunked_attention"},
        {"qwen2_window", "{\"layer_types\":[\"full_attention\"]}", RS_E_CONFIG_LAYERS, "layer 1"},
        {"qwen2_window", "{\"sliding_window\":0}", RS_E_CONFIG_SIZE, "sliding_window"},
        {"gemma2", "{\"query_pre_attn_scalar\":0}", RS_E_CONFIG_SIZE, "query_pre_attn_scalar"},
        {"gemma2", "{\"use_bidirectional_attention\":true}", RS_E_UNSUPPORTED, "bidirectional"},
        {"granite", "{\"logits_scaling\":0}", RS_E_CONFIG_SIZE, "divided by 0"},
        {"olmo", "{\"clip_qkv\":8}", RS_E_UNSUPPORTED, "clip_qkv"},
        {"phi3", "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4}}", RS_E_UNSUPPORTED,
         "\"yarn\""},
        {"falcon", "{\"alibi\":true}", RS_E_UNSUPPORTED, "alibi"},
        {"bert", "{\"position_embedding_type\":\"relative_key\"}", RS_E_UNSUPPORTED,
         "\"relative_key\""},
        {"bert", "{\"add_cross_attention\":true}", RS_E_CONFIG_SCHEMA, "is_decoder"},
        {"bert", "{\"add_cross_attention\":true,\"is_decoder\":true}", RS_E_TENSOR_MISSING,
         "crossattention.self.query"},
        {"bert", "{\"max_position_embeddings\":15}", RS_E_TENSOR_SHAPE, "position_embeddings"},
        {"bert", "{\"type_vocab_size\":3}", RS_E_TENSOR_SHAPE, "token_type_embeddings"},
        {"roberta", "{\"pad_token_id\":13}", RS_E_CONFIG_SIZE, "pad_token_id"},
        {"albert", "{\"num_hidden_groups\":6}", RS_E_CONFIG_LAYERS, "6 groups"},
        {"albert", "{\"inner_group_num\":2000000}", RS_E_CONFIG_LAYERS, "at most"},
        {"albert", "{\"embedding_size\":7}", RS_E_TENSOR_SHAPE, "word_embeddings"},
        {"xlnet", "{\"attn_type\":\"both\"}", RS_E_UNSUPPORTED, "\"both\""},
        {"xlnet", "{\"bi_data\":true}", RS_E_UNSUPPORTED, "bi_data"},
        {"xlnet", "{\"n_head\":7}", RS_E_TENSOR_SHAPE, "rel_attn"},
        {"vit", "{\"image_size\":[12,9]}", RS_E_TENSOR_SHAPE, "position_embeddings"},
        {"vit", "{\"patch_size\":10}", RS_E_CONFIG_SIZE, "cannot be cut"},
        {"vit", "{\"num_channels\":2000000}", RS_E_CONFIG_SIZE, "cannot be cut"},
        {"gpt2", "{\"n_inner\":61}", RS_E_TENSOR_SHAPE, "c_fc"},
        {"falcon_h1", "{\"mlp_multipliers\":[1]}", RS_E_CONFIG_SIZE, "list of 2 numbers"},
        {"falcon_h1", "{\"ssm_multipliers\":[1,1,1,1,\"x\"]}", RS_E_CONFIG_SIZE, "of 5 numbers"},
        {"falcon_h1", "{\"ssm_multipliers\":2}", RS_E_CONFIG_SIZE, "of 5 numbers"},
        {"falcon_h1", "{\"key_multiplier\":\"x\"}", RS_E_CONFIG_SIZE, "key_multiplier"},
        {"falcon_h1", "{\"ssm_in_multiplier\":1e200,\"ssm_multipliers\":[1,1,1,1,1e200]}",
         RS_E_CONFIG_SIZE, "more than any double"},
        {"falcon_h1", "{\"ssm_multipliers\":null,\"key_multiplier\":null}", RS_OK, NULL},
        {"falcon_h1", "{\"hidden_act\":\"gelu\"}", RS_E_UNSUPPORTED, "silu alone"},
        {"falcon_h1", "{\"mamba_rms_norm\":true}", RS_E_TENSOR_MISSING, "mamba.norm.weight"},
        {"falcon_h1", "{\"mamba_d_ssm\":null,\"mamba_expand\":3,\"mamba_n_heads\":8}",
         RS_E_TENSOR_SHAPE, "in_proj"},
        {"falcon_h1", "{\"mamba_d_head\":\"auto\"}", RS_OK, NULL},
        {"falcon_h1", "{\"time_step_limit\":[0.5,0.1]}", RS_E_CONFIG_SCHEMA, "time_step_limit"},
        {"falcon_h1", "{\"time_step_limit\":[0,\"inf\"]}", RS_OK, NULL},
        {"falcon_h1", "{\"time_step_limit\":[0,\"nan\"]}", RS_E_CONFIG_SCHEMA, "time_step_limit"},
        {"falcon_h1", "{\"time_step_limit\":[0,\"1e400\"]}", RS_E_CONFIG_SCHEMA, "time_step_limit"},
        {"falcon_h1", "{\"time_step_limit\":[\"a\",1]}", RS_E_CONFIG_SCHEMA, "time_step_limit"},
        {"falcon_h1", "{\"time_step_limit\":[0]}", RS_E_CONFIG_SCHEMA, "time_step_limit"},
        {"falcon_h1", "{\"time_step_limit\":[0,null]}", RS_E_CONFIG_SCHEMA, "time_step_limit"},
        {"falcon_h1", "{\"time_step_limit\":0.5}", RS_E_CONFIG_SCHEMA, "time_step_limit"},
        {"falcon_h1", "{\"time_step_limit\":null}", RS_OK, NULL},
        {"nemotron_h",
         "{\"layers_block_type\":[\"mamba\",\"attention\",\"attention\",\"mlp\","
         "\"mamba\"]}",
         RS_E_CONFIG_LAYERS,
         "layers_block_type says that layer 1 has attention, and the checkpoint "
         "stores an MLP alone there"},
        {"nemotron_h", "{\"layers_block_type\":null,\"hybrid_override_pattern\":\"M-M-M\"}",
         RS_E_CONFIG_LAYERS, "hybrid_override_pattern says that layer 2 has a state-space mixer"},
        {"nemotron_h", "{\"layers_block_type\":null,\"hybrid_override_pattern\":\"M-*EM\"}",
         RS_E_UNSUPPORTED, "hybrid_override_pattern makes layer 3 a mixture of experts"},
        {"nemotron_h", "{\"layers_block_type\":null,\"hybrid_override_pattern\":\"M-*-MM\"}",
         RS_E_TENSOR_MISSING, "layers.5."},
        {"nemotron_h", "{\"layers_block_type\":null,\"hybrid_override_pattern\":\"M-*-M\"}", RS_OK,
         NULL},
        {"nemotron_h",
         "{\"layers_block_type\":[\"mamba\",\"mlp\",\"attention\",\"mlp\",\"mamba\"],"
         "\"num_hidden_layers\":52}",
         RS_OK, NULL},
        {"nemotron_h", "{\"mamba_hidden_act\":\"gelu\"}", RS_E_UNSUPPORTED, "silu alone"},
        {"nemotron_h", "{\"time_step_min\":\"x\"}", RS_E_CONFIG_SIZE, "time_step_min"},
        {"nemotron_h_steps", "{\"mamba_conv_bias\":\"x\"}", RS_E_CONFIG_SCHEMA, "use_conv_bias"},
        {"nemotron_h_steps", "{\"mamba_d_conv\":5}", RS_E_TENSOR_SHAPE, "conv1d"},
        {"bamba", "{\"attn_layer_indices\":[0]}", RS_E_CONFIG_LAYERS,
         "attn_layer_indices says that layer 0 has attention"},
        {"jamba", "{\"attn_layer_offset\":0}", RS_E_CONFIG_LAYERS, "attn_layer_period says"},
        {"granite_hybrid", "{\"layer_types\":[\"mamba\",\"mamba\",\"attention\"]}",
         RS_E_CONFIG_LAYERS, "layer_types says that layer 1 has a state-space mixer"},
        {"gpt_neox", "{\"attention_bias\":false}", RS_OK, NULL},
        {"llama", "{\"tie_word_embeddings\":true}", RS_OK, NULL},
        {"llama", "{\"num_hidden_layers\":1}", RS_OK, NULL},
        {"llama", "{\"rope_scaling\":null,\"head_dim\":6,\"mlp_bias\":null}", RS_OK, NULL},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        rs_checkpoint *checkpoint = open_case(trials[i].name);
        rs_network *network;
        rs_error err = {0};
        overlay(checkpoint->config, trials[i].change);
        rs_status status = rs_network_open(&network, checkpoint, &err);
        check_status(&trials[i], status, &err);
        assert_true((status == RS_OK) == (network != NULL));
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
}

static bool noted(const rs_network *network, const char *code)
{
    for (size_t i = 0; i < network->notes.n; i++)
        if (strcmp(network->notes.items[i].code, code) == 0) return true;
    return false;
}

/* What the file has and the pass does not use is said: here biases that the configuration denies,
 * and a name that nobody knows. */
static void unused_tensors_are_noted(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint = open_case("llama_bias_tied");
    rs_network *network;
    rs_error err = {0};
    assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_OK);
    assert_false(noted(network, "unused_tensor"));
    rs_network_close(network);
    overlay(checkpoint->config, "{\"mlp_bias\":false}");
    assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_OK);
    assert_true(noted(network, "unused_tensor"));
    assert_non_null(strstr(network->notes.items[network->notes.n - 1].message, "6 tensors play"));
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

static void fewer_layers_are_noted(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint = open_case("llama");
    rs_network *network;
    rs_error err = {0};
    overlay(checkpoint->config, "{\"num_hidden_layers\":1}");
    assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_OK);
    assert_int_equal(network->n_layers, 1);
    assert_true(noted(network, "extra_layers"));
    rs_network_close(network);
    json_decref(checkpoint->config);
    checkpoint->config = NULL;
    assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_E_CONFIG_MISSING);
    assert_null(network);
    rs_checkpoint_close(checkpoint);
}

/* ---- GGUF ---- */

static void gguf_says_what_it_lacks(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        rs_status status;
    } lost[] = {{"gemma3.block_count", RS_E_CONFIG_SCHEMA},
                {"gemma3.embedding_length", RS_E_CONFIG_SCHEMA},
                {"gemma3.feed_forward_length", RS_E_CONFIG_SCHEMA},
                {"general.architecture", RS_E_CONFIG_SCHEMA},
                {"gemma3.attention.key_length", RS_E_TENSOR_SHAPE},
                {"gemma3.rope.freq_base", RS_OK}};
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        rs_checkpoint *checkpoint = open_case("gemma3_gguf");
        rs_network *network;
        rs_error err = {0};
        assert_int_equal(json_object_del(checkpoint->config, lost[i].key), 0);
        rs_status status = rs_network_open(&network, checkpoint, &err);
        if (status != lost[i].status)
            fail_msg("without %s: %s: %s", lost[i].key, rs_status_name(status), err.what);
        if (status == RS_E_CONFIG_SCHEMA) assert_non_null(strstr(err.what, lost[i].key));
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
}

/* A bias that only the first layer has is a damaged file; a pooling is one number. */
static void gguf_biases_and_pooling(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint = open_case("qwen2_gguf");
    rs_network *network;
    rs_error err = {0};
    for (size_t t = 0; t < checkpoint->n_tensors; t++)
        if (strcmp(checkpoint->tensors[t].name, "blk.1.attn_q.bias") == 0)
            checkpoint->tensors[t].name = "blk.1.elsewhere";
    assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_E_TENSOR_MISSING);
    assert_non_null(strstr(err.what, "blk.1.attn_q.bias"));
    rs_checkpoint_close(checkpoint);
    static const rs_pooling kinds[] = {RS_POOLING_NONE, RS_POOLING_MEAN, RS_POOLING_CLS};
    for (int kind = 0; kind < 3; kind++) {
        checkpoint = open_case("bert_gguf");
        json_object_set_new(checkpoint->config, "bert.pooling_type", json_integer(kind));
        assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_OK);
        assert_int_equal(network->pooling, kinds[kind]);
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
}

/* Windows, bases and the query's scale, of which GGUF says little (docs/formats.md, 8). */
static void gemma3_gguf_layers(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint = open_case("gemma3_gguf");
    rs_network *network;
    rs_error err = {0};
    assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_OK);
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_attention_op *op = &rs_layer_mixer(&network->layers[l])->attention;
        bool global = l % 6 == 5;
        assert_int_equal(op->window, global ? 0 : 3);
        assert_true(op->rope.theta == (global ? 1e6 : 1e4));
        assert_true(fabs(op->scale - 1 / sqrt(6)) < 1e-15);
    }
    assert_true(network->embedding.scale == sqrt(12));
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

static void gemma3_gguf_newer_keys(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint = open_case("gemma3_gguf");
    rs_network *network;
    rs_error err = {0};
    overlay(checkpoint->config,
            "{\"gemma3.attention.sliding_window_pattern\":[true,false,true,true,true,true,false],"
            "\"gemma3.rope.freq_base_swa\":250.0,\"gemma3.rope.scaling.type\":\"linear\","
            "\"gemma3.rope.scaling.factor\":8.0}");
    if (rs_network_open(&network, checkpoint, &err) != RS_OK) fail_msg("%s", err.what);
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_attention_op *op = &rs_layer_mixer(&network->layers[l])->attention;
        bool global = l == 1 || l == 6;
        assert_int_equal(op->window, global ? 0 : 3);
        assert_true(op->rope.theta == (global ? 1e6 : 250));
        assert_int_equal(op->rope.law, global ? RS_ROPE_LINEAR : RS_ROPE_PLAIN);
    }
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

/* ---- sentence-transformers ---- */

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void pooling_is_read(void **state)
{
    (void)state;
#define POOLING(path)                                                                              \
    "[{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"\"},"                      \
    "{\"type\":\"sentence_transformers.models.Pooling\",\"path\":\"" path "\"},"                   \
    "{\"type\":\"sentence_transformers.models.Normalize\",\"path\":\"2_Normalize\"}]"
    static const struct {
        const char *modules, *config;
        rs_status status;
        rs_pooling pooling;
    } trials[] = {
        {POOLING("1_Pooling"), "{\"pooling_mode_mean_tokens\":true}", RS_OK, RS_POOLING_MEAN},
        {POOLING("1_Pooling"), "{\"pooling_mode_cls_token\":true}", RS_OK, RS_POOLING_CLS},
        {POOLING("1_Pooling"), "{\"pooling_mode\":\"max\"}", RS_OK, RS_POOLING_MAX},
        {POOLING("1_Pooling"),
         "{\"pooling_mode_mean_tokens\":true,\"pooling_mode_max_tokens\":true}", RS_OK,
         RS_POOLING_NONE},
        {POOLING("1_Pooling"), "[3]", RS_OK, RS_POOLING_NONE},
        {POOLING("../1_Pooling"), "{}", RS_E_INDEX_PATH, RS_POOLING_NONE},
        {POOLING("/etc"), "{}", RS_E_INDEX_PATH, RS_POOLING_NONE},
        {POOLING(".."), "{}", RS_E_INDEX_PATH, RS_POOLING_NONE},
        {"{", "{}", RS_E_JSON_SYNTAX, RS_POOLING_NONE},
        {"{\"a\":1}", "{}", RS_OK, RS_POOLING_NONE},
    };
    char folder[] = "network_pooling_XXXXXX", inner[64], path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(inner, sizeof inner, "%s/1_Pooling", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        rs_checkpoint *checkpoint = open_case("bert");
        rs_network *network;
        rs_error err = {0};
        put_file(folder, "modules.json", trials[i].modules);
        put_file(folder, "1_Pooling/config.json", trials[i].config);
        rs_free(checkpoint->config_path);
        snprintf(path, sizeof path, "%s/config.json", folder);
        checkpoint->config_path = rs_strdup(path);
        rs_status status = rs_network_open(&network, checkpoint, &err);
        if (status != trials[i].status) fail_msg("%zu: %s: %s", i, err.where, err.what);
        if (network) assert_int_equal(network->pooling, trials[i].pooling);
        if (network && trials[i].modules[0] == '[') assert_true(network->normalize);
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
    static const char *const files[] = {"1_Pooling/config.json", "1_Pooling", "modules.json", ""};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        assert_int_equal(remove(path), 0);
    }
}

/* ---- copies, activations, memory ---- */

static void copies_are_apart(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint = open_case("llama");
    rs_network *network, *copy;
    rs_error err = {0};
    overlay(checkpoint->config, "{\"num_hidden_layers\":1}");
    assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_OK);
    assert_int_equal(rs_network_copy(&copy, network, &err), RS_OK);
    copy->layers[0].branches[0].skip = 0.25;
    assert_true(network->layers[0].branches[0].skip == 1);
    assert_true(noted(copy, "extra_layers"));
    rs_network_close(network);
    assert_string_equal(copy->family, "llama");
    assert_ptr_equal(copy->embedding.tokens,
                     rs_checkpoint_find(checkpoint, "model.embed_tokens.weight"));
    rs_network_close(copy);
    rs_checkpoint_close(checkpoint);
}

static void activations_have_names(void **state)
{
    (void)state;
    for (int a = 0; a < RS_ACT_COUNT; a++) {
        rs_activation found;
        assert_true(rs_activation_find(&found, rs_activation_name((rs_activation)a)));
        assert_int_equal(found, a);
    }
    rs_activation found;
    assert_false(rs_activation_find(&found, "gelu_"));
    assert_true(rs_activation_find(&found, "gelu_pytorch_tanh"));
    assert_int_equal(found, RS_ACT_GELU_TANH);
}

static rs_status open_once(const rs_checkpoint *checkpoint, bool draw)
{
    rs_network *network = NULL, *copy = NULL;
    rs_init *init = NULL;
    rs_error err = {0};
    rs_status status = RS_OK;
    if (draw) status = rs_init_open(&init, NULL, 3, &err);
    if (status == RS_OK)
        status =
            draw ? rs_network_from_config(&network, checkpoint->config, "config.json", init, &err)
                 : rs_network_open(&network, checkpoint, &err);
    if (status == RS_OK) status = rs_network_copy(&copy, network, &err);
    rs_network_close(copy);
    rs_network_close(network);
    rs_init_close(init);
    return status;
}

static void memory_may_end_anywhere(void **state)
{
    (void)state;
    static const char *const names[] = {"bert_cross", "albert", "gpt2", "gemma3_gguf", "vit"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        rs_checkpoint *checkpoint = open_case(names[i]);
        for (int draw = 0; draw < (strstr(names[i], "_gguf") ? 1 : 2); draw++) {
            int64_t before = rs_memory_requests();
            assert_int_equal(open_once(checkpoint, draw), RS_OK);
            int64_t requests = rs_memory_requests() - before;
            for (int64_t n = 1; n <= requests; n++) {
                rs_memory_fail_at(n);
                rs_status status = open_once(checkpoint, draw);
                rs_memory_fail_at(0);
                if (status != RS_E_NO_MEMORY)
                    fail_msg("%s, request %lld of %lld: %s", names[i], (long long)n,
                             (long long)requests, rs_status_name(status));
            }
        }
        rs_checkpoint_close(checkpoint);
    }
}

/* RoBERTa's masked head has GELU whatever its layers have; BERT's has theirs. */
static void heads_have_activations(void **state)
{
    static const char *const names[] = {"roberta", "bert"};
    static const rs_activation wanted[] = {RS_ACT_GELU, RS_ACT_RELU};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rs_checkpoint *checkpoint = open_case(names[i]);
        rs_network *network;
        rs_error err = {0};
        overlay(checkpoint->config, "{\"hidden_act\":\"relu\"}");
        assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_OK);
        assert_int_equal(network->head.activation, wanted[i]);
        assert_int_equal(network->layers[0].branches[1].mlp.activation, RS_ACT_RELU);
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_are_named),          cmocka_unit_test(unused_tensors_are_noted),
        cmocka_unit_test(fewer_layers_are_noted),  cmocka_unit_test(gguf_says_what_it_lacks),
        cmocka_unit_test(gguf_biases_and_pooling), cmocka_unit_test(gemma3_gguf_layers),
        cmocka_unit_test(gemma3_gguf_newer_keys),  cmocka_unit_test(pooling_is_read),
        cmocka_unit_test(heads_have_activations),  cmocka_unit_test(copies_are_apart),
        cmocka_unit_test(activations_have_names),  cmocka_unit_test(memory_may_end_anywhere),
    };
    return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
