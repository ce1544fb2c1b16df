/* test_model_config.c: configurations that lie (docs/formats.md, 9), each with its own error, and
 * those that look odd and are fine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model_fixture.h"

typedef struct trial {
    const char *config;
    rs_status status;
    const char *says; /* part of where, what or hint */
} trial;

static rs_status open_with(const char *config, const char *const *lines, rs_model **model,
                           rs_checkpoint **checkpoint, rs_error *err)
{
    *checkpoint = fixture_make(RS_FORMAT_SAFETENSORS, config, lines, 2);
    assert_non_null(*checkpoint);
    return rs_model_open(model, *checkpoint, NULL, NULL, err);
}

static void run(const trial *trials, size_t n, const char *const *lines)
{
    for (size_t i = 0; i < n; i++) {
        rs_model *model;
        rs_checkpoint *checkpoint;
        rs_error err = {0};
        rs_status status = open_with(trials[i].config, lines, &model, &checkpoint, &err);
        if (status != trials[i].status)
            fail_msg("%s: %s instead of %s: %s", trials[i].config, rs_status_name(status),
                     rs_status_name(trials[i].status), err.what);
        if (trials[i].says && !strstr(err.what, trials[i].says) &&
            !strstr(err.where, trials[i].says) && !strstr(err.hint, trials[i].says))
            fail_msg("%s: nothing of \"%s\" in %s: %s; %s", trials[i].config, trials[i].says,
                     err.where, err.what, err.hint);
        if (status == RS_OK) assert_true(model->n_products > 0);
        if (status == RS_OK) rs_model_close(model);
        rs_checkpoint_close(checkpoint);
    }
}

#define WITH(width, layers, heads, kv)                                                             \
    "{\"model_type\":\"llama\",\"hidden_size\":" width ",\"num_hidden_layers\":" layers            \
    ",\"num_attention_heads\":" heads ",\"num_key_value_heads\":" kv "}"

static void lies_are_named(void **state)
{
    (void)state;
    static const trial trials[] = {
        {WITH("-16", "2", "4", "2"), RS_E_CONFIG_SIZE, "hidden_size is -16"},
        {WITH("0", "2", "4", "2"), RS_E_CONFIG_SIZE, "hidden_size is 0"},
        {WITH("1e30", "2", "4", "2"), RS_E_CONFIG_SIZE, "hidden_size"},
        {WITH("9223372036854775807", "2", "4", "2"), RS_E_CONFIG_SIZE, "hidden_size"},
        {WITH("16.5", "2", "4", "2"), RS_E_CONFIG_SIZE, "16.5"},
        {WITH("\"16\"", "2", "4", "2"), RS_E_CONFIG_SIZE, "the text \"16\""},
        {WITH("null", "2", "4", "2"), RS_E_CONFIG_SIZE, "hidden_size is null"},
        {WITH("true", "2", "4", "2"), RS_E_CONFIG_SIZE, "not a number"},
        {WITH("[]", "2", "4", "2"), RS_E_CONFIG_LAYERS, "hidden_size"},
        {WITH("{\"__float__\":\"NaN\"}", "2", "4", "2"), RS_E_CONFIG_SIZE, "not finite"},
        {WITH("\"Infinity\"", "2", "4", "2"), RS_E_CONFIG_SIZE, "Infinity"},
        {WITH("16", "-1", "4", "2"), RS_E_CONFIG_SIZE, "num_hidden_layers"},
        {WITH("16", "2000000000", "4", "2"), RS_E_CONFIG_LAYERS, "2000000000"},
        {WITH("16", "4000000000", "4", "2"), RS_E_CONFIG_SIZE, "num_hidden_layers"},
        {WITH("16", "3", "4", "2"), RS_E_TENSOR_MISSING, "layers.2.self_attn.q_proj.weight"},
        {WITH("16", "2", "0", "2"), RS_E_CONFIG_SIZE, "num_attention_heads"},
        {WITH("16", "2", "3", "1"), RS_E_CONFIG_HEADS, "no multiple"},
        {WITH("16", "2", "4", "3"), RS_E_CONFIG_HEADS, "key/value"},
        {WITH("16", "2", "4", "8"), RS_E_CONFIG_HEADS, "key/value"},
        {WITH("16", "2", "4", "-2"), RS_E_CONFIG_SIZE, "num_key_value_heads"},
        {WITH("16", "2", "1000000", "2"), RS_E_CONFIG_SIZE, "heads"},
        {WITH("16", "2", "4", "1"), RS_E_TENSOR_SHAPE, "k_proj"},
        {WITH("32", "2", "4", "2"), RS_E_TENSOR_SHAPE, "has shape [16, 16]"},
        {FIXTURE_LLAMA ",\"head_dim\":8}", RS_E_TENSOR_SHAPE, "asks for [32, 16]"},
        {FIXTURE_LLAMA ",\"head_dim\":\"four\"}", RS_E_CONFIG_SIZE, "head_dim"},
        {FIXTURE_LLAMA ",\"head_dim\":2147483647}", RS_E_TENSOR_SHAPE, "q_proj"},
        {FIXTURE_LLAMA ",\"partial_rotary_factor\":1.5}", RS_E_CONFIG_SIZE, "rotary"},
        {FIXTURE_LLAMA ",\"partial_rotary_factor\":\"half\"}", RS_E_CONFIG_SIZE, "partial_rotary"},
        {FIXTURE_LLAMA ",\"rotary_dim\":64}", RS_E_CONFIG_SIZE, "rotary"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"num_attention_heads\":4}",
         RS_E_CONFIG_SCHEMA, "has no hidden_size"},
        {NULL, RS_E_CONFIG_MISSING, "--map"},
    };
    run(trials, sizeof trials / sizeof *trials, fixture_llama);
}

static void oddities_are_fine(void **state)
{
    (void)state;
    static const trial trials[] = {
        {FIXTURE_LLAMA "}", RS_OK, NULL},
        {FIXTURE_LLAMA ",\"head_dim\":null}", RS_OK, NULL},
        {FIXTURE_LLAMA ",\"head_dim\":4}", RS_OK, NULL},
        {FIXTURE_LLAMA ",\"head_dim\":4.0}", RS_OK, NULL},
        {FIXTURE_LLAMA ",\"rope_scaling\":null,\"sliding_window\":null,\"foo\":[1,{\"a\":2}]}",
         RS_OK, NULL},
        {FIXTURE_LLAMA ",\"text_config\":null}", RS_OK, NULL},
        {"{\"model_type\":\"llava\",\"text_config\":" FIXTURE_LLAMA "}}", RS_OK, NULL},
    };
    run(trials, sizeof trials / sizeof *trials, fixture_llama);
}

static void state_space_lies_are_named(void **state)
{
    (void)state;
#define SSD(state, heads, dim, groups)                                                             \
    "{\"model_type\":\"mamba2\",\"hidden_size\":8,\"num_hidden_layers\":2,\"state_size\":" state   \
    ",\"num_heads\":" heads ",\"head_dim\":" dim ",\"n_groups\":" groups "}"
    static const trial trials[] = {
        {FIXTURE_MAMBA2 "}", RS_OK, NULL},
        {SSD("5", "4", "4", "null"), RS_OK, NULL},
        {SSD("{\"__float__\":\"Infinity\"}", "4", "4", "2"), RS_E_CONFIG_SIZE, "state_size"},
        {SSD("6", "4", "4", "2"), RS_E_TENSOR_SHAPE, "in_proj"},
        {SSD("5", "2147483647", "2147483647", "2"), RS_E_CONFIG_SIZE, "multiply"},
        {SSD("2147483647", "4", "4", "2147483647"), RS_E_CONFIG_SIZE, "multiply"},
        {SSD("5", "null", "3", "2"), RS_E_CONFIG_HEADS, "head width"},
        {SSD("5", "4", "4", "[2]"), RS_E_CONFIG_LAYERS, "n_groups"},
        {SSD("10", "4", "4", "1"), RS_OK, NULL},
    };
    run(trials, sizeof trials / sizeof *trials, fixture_mamba2);
}

static void assert_note(const rs_model *model, const char *code, const char *part)
{
    for (size_t i = 0; i < model->notes.n; i++)
        if (strcmp(model->notes.items[i].code, code) == 0 &&
            strstr(model->notes.items[i].message, part))
            return;
    fail_msg("no note %s with \"%s\"", code, part);
}

static void the_form_of_rope_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *config, *says;
    } forms[] = {
        {FIXTURE_LLAMA ",\"rope_theta\":500000}",
         "old form was used (rope_theta at the top); base 500000"},
        {FIXTURE_LLAMA ",\"rope_parameters\":{\"rope_theta\":20000}}",
         "new form was used (rope_parameters); base 20000"},
        {FIXTURE_LLAMA ",\"rope_theta\":1,\"rope_parameters\":{\"rope_theta\":30000}}",
         "both forms are there; the new one was used (rope_parameters); base 30000"},
        {FIXTURE_LLAMA "}", "default base"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        rs_model *model;
        rs_checkpoint *checkpoint;
        assert_int_equal(open_with(forms[i].config, fixture_llama, &model, &checkpoint, NULL),
                         RS_OK);
        assert_note(model, "rope_form", forms[i].says);
        rs_model_close(model);
        rs_checkpoint_close(checkpoint);
    }
}

static void a_lone_shard_is_scanned(void **state)
{
    (void)state;
    rs_model *model;
    rs_checkpoint *checkpoint =
        fixture_make(RS_FORMAT_SAFETENSORS, FIXTURE_LLAMA "}", fixture_llama, 2);
    assert_non_null(checkpoint);
    json_object_set_new(checkpoint->config, "num_hidden_layers", json_integer(60));
    checkpoint->files = rs_calloc(1, sizeof *checkpoint->files);
    checkpoint->n_files = 1;
    checkpoint->files->name = rs_strdup("model-00001-of-00030.safetensors");
    assert_int_equal(rs_model_open(&model, checkpoint, NULL, NULL, NULL), RS_OK);
    assert_int_equal(model->layers, 60);
    assert_int_equal(model->n_products, 16);
    assert_note(model, "partial_checkpoint", "model-00001-of-00030.safetensors");
    assert_note(model, "missing_tensor", "layers.2.self_attn.q_proj.weight");
    rs_model_close(model);
    rs_checkpoint_close(checkpoint);
}

static void surplus_layers_are_told(void **state)
{
    (void)state;
    rs_model *model;
    rs_checkpoint *checkpoint;
    assert_int_equal(open_with(WITH("16", "1", "4", "2"), fixture_llama, &model, &checkpoint, NULL),
                     RS_OK);
    assert_int_equal(model->n_products, 8);
    assert_note(model, "extra_layers", "1 groups");
    rs_model_close(model);
    rs_checkpoint_close(checkpoint);
}

/* transformers 5.23: LlamaRotaryEmbedding turns all of a head whatever partial_rotary_factor says;
 * a module that nobody knows may well read it. */
static void a_share_that_is_not_read_rotates_nothing_less(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        int dims;
    } cases[] = {{FIXTURE_LLAMA ",\"partial_rotary_factor\":0.5}", 4},
                 {FIXTURE_LLAMA ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}}", 4},
                 {"{\"model_type\":\"nobodys\",\"hidden_size\":16,\"num_hidden_layers\":2,"
                  "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"rope_theta\":10000,"
                  "\"partial_rotary_factor\":0.5}",
                  0}}; /* whether an unknown module turns anything is not known */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_model *model;
        rs_checkpoint *checkpoint;
        assert_int_equal(open_with(cases[i].config, fixture_llama, &model, &checkpoint, NULL),
                         RS_OK);
        assert_int_equal(model->products[0].rope_dims, cases[i].dims);
        size_t notes = 0;
        for (size_t n = 0; n < model->notes.n; n++)
            notes += strcmp(model->notes.items[n].code, "whole_head_rotates") == 0;
        assert_int_equal(notes, cases[i].dims == 4);
        rs_model_close(model);
        rs_checkpoint_close(checkpoint);
    }
}

static const char *const another_tower_and_an_odd_layer[] = {
    "layers.%.self_attn.q_proj.weight F32 16 16",
    "layers.%.self_attn.k_proj.weight F32 8 16",
    "layers.2.self_attn.q_proj.weight F32 24 16",
    "layers.2.self_attn.k_proj.weight F32 8 16",
    "eyes.layers.%.self_attn.q_proj.weight F32 4 4",
    "eyes.layers.%.self_attn.k_proj.weight F32 4 4",
    NULL};

static void memory_may_end_anywhere(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        const char *const *lines;
    } cases[] = {{FIXTURE_LLAMA "}", fixture_llama},
                 {FIXTURE_BERT "}", fixture_bert},
                 {FIXTURE_MAMBA2 "}", fixture_mamba2},
                 {"{\"model_type\":\"new\",\"hidden_size\":16,\"num_hidden_layers\":2,"
                  "\"num_attention_heads\":4,\"num_key_value_heads\":2}",
                  fixture_llama},
                 {"{\"model_type\":\"new\",\"hidden_size\":16,\"num_hidden_layers\":3,"
                  "\"num_attention_heads\":4,\"num_key_value_heads\":2}",
                  another_tower_and_an_odd_layer}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_checkpoint *checkpoint =
            fixture_make(RS_FORMAT_SAFETENSORS, cases[i].config, cases[i].lines, 2);
        rs_status status = RS_E_NO_MEMORY;
        int64_t at = 1;
        for (; status != RS_OK && at < 5000; at++) {
            rs_model *model;
            rs_memory_fail_at(at);
            status = rs_model_open(&model, checkpoint, NULL, NULL, NULL);
            rs_memory_fail_at(0);
            if (status == RS_OK)
                rs_model_close(model);
            else
                assert_int_equal(status, RS_E_NO_MEMORY);
        }
        assert_int_equal(status, RS_OK);
        assert_true(at > 8);
        rs_checkpoint_close(checkpoint);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_are_named),
        cmocka_unit_test(oddities_are_fine),
        cmocka_unit_test(state_space_lies_are_named),
        cmocka_unit_test(the_form_of_rope_is_told),
        cmocka_unit_test(a_lone_shard_is_scanned),
        cmocka_unit_test(surplus_layers_are_told),
        cmocka_unit_test(a_share_that_is_not_read_rotates_nothing_less),
        cmocka_unit_test(memory_may_end_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
