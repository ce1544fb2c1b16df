/* test_model_guess.c: models without a table: guessed by their names, or named by --map. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model_fixture.h"

typedef struct trial {
    rs_format format;
    const char *config, *map;
    const char *const *lines;
    rs_checkpoint *checkpoint;
    rs_model *model;
    rs_error err;
} trial;

static rs_status go(trial *t)
{
    json_t *map = t->map ? json_loads(t->map, 0, NULL) : NULL;
    assert_true(!t->map || map);
    t->err = (rs_error){0};
    t->model = NULL;
    t->checkpoint = fixture_make(t->format, t->config, t->lines, 2);
    assert_non_null(t->checkpoint);
    rs_status status = rs_model_open(&t->model, t->checkpoint, map, "map.json", &t->err);
    json_decref(map);
    return status;
}

static void end(trial *t)
{
    rs_model_close(t->model);
    rs_checkpoint_close(t->checkpoint);
}

static void succeeds(trial *t, const char *family, size_t products)
{
    if (go(t) != RS_OK) fail_msg("%s: %s; %s", t->err.where, t->err.what, t->err.hint);
    assert_string_equal(t->model->family, family);
    assert_int_equal(t->model->n_products, products);
    assert_true(t->model->guessed);
    assert_true(t->model->notes.n > 0);
}

static const char *note(const trial *t, const char *code)
{
    for (size_t i = 0; i < t->model->notes.n; i++)
        if (strcmp(t->model->notes.items[i].code, code) == 0)
            return t->model->notes.items[i].message;
    return NULL;
}

static void refuses(trial t, rs_status wanted, const char *says)
{
    rs_status status = go(&t);
    if (status != wanted)
        fail_msg("%s instead of %s: %s", rs_status_name(status), rs_status_name(wanted),
                 t.err.what);
    if (!strstr(t.err.what, says) && !strstr(t.err.where, says) && !strstr(t.err.hint, says))
        fail_msg("nothing of \"%s\" in %s: %s; %s", says, t.err.where, t.err.what, t.err.hint);
    end(&t);
}

#define CONFIG                                                                                     \
    "{\"model_type\":\"novel\",\"hidden_size\":16,\"num_hidden_layers\":2,"                        \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"rope_theta\":10000}"

static const char *const prefixed[] = {"net.core.layers.%.self_attn.q_proj.weight F32 16 16",
                                       "net.core.layers.%.self_attn.k_proj.weight F32 8 16",
                                       "net.core.layers.%.self_attn.v_proj.weight F32 8 16",
                                       "net.core.layers.%.self_attn.o_proj.weight F32 16 16",
                                       "net.core.layers.%.input_layernorm.weight F32 16",
                                       "net.core.layers.%.input_layernorm.bias F32 16",
                                       "net.core.layers.%.gadget.weight F32 16",
                                       NULL};
static const char *const opt[] = {"model.decoder.layers.%.self_attn.q_proj.weight F32 16 16",
                                  "model.decoder.layers.%.self_attn.k_proj.weight F32 16 16",
                                  "model.decoder.layers.%.self_attn.v_proj.weight F32 16 16",
                                  "model.decoder.layers.%.self_attn.out_proj.weight F32 16 16",
                                  "model.decoder.layers.%.fc1.weight F32 8 16",
                                  NULL};
static const char *const bart[] = {"model.encoder.layers.%.self_attn.q_proj.weight F32 16 16",
                                   "model.encoder.layers.%.self_attn.k_proj.weight F32 16 16",
                                   "model.encoder.layers.%.self_attn.v_proj.weight F32 16 16",
                                   "model.encoder.layers.%.self_attn.out_proj.weight F32 16 16",
                                   "model.decoder.layers.%.self_attn.q_proj.weight F32 16 16",
                                   "model.decoder.layers.%.self_attn.k_proj.weight F32 16 16",
                                   "model.decoder.layers.%.self_attn.v_proj.weight F32 16 16",
                                   "model.decoder.layers.%.self_attn.out_proj.weight F32 16 16",
                                   "model.decoder.layers.%.encoder_attn.q_proj.weight F32 16 16",
                                   "model.decoder.layers.%.encoder_attn.k_proj.weight F32 16 16",
                                   NULL};
static const char *const two_stacks[] = {"layers.%.self_attn.q_proj.weight F32 16 16",
                                         "layers.%.self_attn.k_proj.weight F32 8 16",
                                         "layers.%.self_attn.v_proj.weight F32 8 16",
                                         "layers.%.self_attn.o_proj.weight F32 16 16",
                                         "layers.%.self_attn.q_norm.weight F32 16",
                                         "layers.%.self_attn.k_norm.weight F32 8",
                                         "eyes.layers.%.self_attn.q_proj.weight F32 4 4",
                                         "eyes.layers.%.self_attn.k_proj.weight F32 4 4",
                                         NULL};
static const char *const one_odd[] = {"model.layers.%.self_attn.q_proj.weight F32 16 16",
                                      "model.layers.%.self_attn.k_proj.weight F32 8 16",
                                      "model.layers.%.self_attn.v_proj.weight F32 8 16",
                                      "model.layers.%.self_attn.o_proj.weight F32 16 16",
                                      "model.layers.2.self_attn.q_proj.weight F32 24 16",
                                      "model.layers.2.self_attn.k_proj.weight F32 8 16",
                                      "model.layers.2.self_attn.v_proj.weight F32 8 16",
                                      "model.layers.2.self_attn.o_proj.weight F32 16 24",
                                      NULL};
static const char *const plain_gguf[] = {
    "blk.%.attn_q.weight F32 16 16", "blk.%.attn_k.weight F32 8 16", "blk.%.attn_v.weight F32 8 16",
    "blk.%.attn_output.weight F32 16 16", NULL};
static const char *const fused[] = {"h.%.attn.query_key_value.weight F32 48 16",
                                    "h.%.attn.o.weight F32 16 16", NULL};
static const char *const alien[] = {"zork.%.a F32 2 2", "zork.%.b F32 2 2", "zork.%.c F32 2 2",
                                    "zork.%.d F32 2 2", "zork.%.e F32 2 2", "zork.%.f F32 2 2",
                                    "zork.%.g F32 2 2", "zork.%.h F32 2 2", "zork.%.i F32 2 2",
                                    "zork.%.j F32 2 2", "zork.%.k F32 2 2", NULL};
static const char *const lora[] = {"base.layers.%.x.lora_A.weight F32 2 2", NULL};

/* Which units turn, what a norm multiplies by, whether queries and keys are normalised, how scores
 * are scaled: no name tells, and nothing may be computed from it. */
static void nothing_else_is_known(const trial *t)
{
    for (size_t i = 0; i < t->model->n_products; i++) {
        const rs_product *p = &t->model->products[i];
        assert_int_equal(p->rope, RS_ROPE_NONE);
        assert_int_equal(p->a.norm, RS_NORM_NONE);
        assert_int_equal(p->b.norm, RS_NORM_NONE);
        assert_null(p->a.inner_gain);
        assert_null(p->b.inner_gain);
        assert_non_null(strstr(p->corrections, "not known"));
        assert_null(strstr(p->corrections, "sqrt"));
        if (p->kind == RS_PRODUCT_QK) assert_true(p->qk_norm); /* may be: no finding on its scale */
    }
    const char *message = note(t, "guessed_family");
    assert_non_null(message);
    assert_non_null(strstr(message, "table planes is left out"));
    assert_non_null(strstr(message, "--fold-norms folds nothing"));
}

static void known_names_of_unknown_models(void **state)
{
    (void)state;
    trial t = {.config = CONFIG, .lines = prefixed};
    succeeds(&t, "llama-like (guessed)", 16);
    assert_string_equal(t.model->notes.items[0].code, "guessed_family");
    assert_non_null(strstr(t.model->notes.items[0].message, "novel"));
    assert_non_null(strstr(t.model->notes.items[0].message, "net.core."));
    nothing_else_is_known(&t);
    end(&t);
    t = (trial){.config = "{\"hidden_size\":16,\"num_hidden_layers\":2,\"num_attention_heads\":4}",
                .lines = fixture_bert};
    succeeds(&t, "bert-like (guessed)", 16);
    assert_null(t.model->products[0].a.gain);
    end(&t);
    t = (trial){.config = "{\"model_type\":\"opt2\",\"d_model\":16,\"num_layers\":2,\"n_head\":4,"
                          "\"num_hidden_layers\":2,\"num_attention_heads\":4}",
                .lines = opt};
    succeeds(&t, "llama-like (guessed)", 16);
    assert_int_equal(t.model->products[0].a.norm, RS_NORM_NONE);
    assert_int_equal(t.model->products[0].rope, RS_ROPE_NONE);
    end(&t);
    t = (trial){.config = "{\"model_type\":\"bart2\",\"d_model\":16,\"encoder_layers\":2,"
                          "\"decoder_layers\":2,\"encoder_attention_heads\":4,"
                          "\"decoder_attention_heads\":2}",
                .lines = bart};
    succeeds(&t, "whisper-like (guessed)", 2 * (8 + 4 + 2));
    assert_string_equal(t.model->products[0].stack, "encoder");
    assert_string_equal(t.model->products[t.model->n_products - 1].attention, "cross");
    assert_non_null(note(&t, "product_not_formed"));
    end(&t);
    t = (trial){.format = RS_FORMAT_GGUF,
                .config = "{\"general.architecture\":\"novel\",\"novel.block_count\":2,"
                          "\"novel.embedding_length\":16,\"novel.attention.head_count\":4,"
                          "\"novel.attention.head_count_kv\":2}",
                .lines = plain_gguf};
    succeeds(&t, "llama-like (guessed)", 16);
    nothing_else_is_known(&t);
    end(&t);
    t = (trial){.config = CONFIG, .lines = two_stacks};
    succeeds(&t, "llama-like (guessed)", 16);
    nothing_else_is_known(&t);
    assert_non_null(note(&t, "other_stack"));
    assert_non_null(strstr(note(&t, "other_stack"), "4 behind \"eyes.\""));
    end(&t);
}

/* A layer of another shape is named, and the others are scanned. */
static void a_layer_that_does_not_fit(void **state)
{
    (void)state;
    static const char *const types[] = {"novel", "llama"};
    for (size_t i = 0; i < 2; i++) {
        char config[256];
        snprintf(config, sizeof config,
                 "{\"model_type\":\"%s\",\"hidden_size\":16,\"num_hidden_layers\":3,"
                 "\"num_attention_heads\":4,\"num_key_value_heads\":2}",
                 types[i]);
        trial t = {.config = config, .lines = one_odd};
        if (go(&t) != RS_OK) fail_msg("%s: %s", t.err.where, t.err.what);
        assert_int_equal(t.model->n_products, 16);
        const char *message = note(&t, "layer_left_out");
        assert_non_null(message);
        assert_non_null(strstr(message, "model.layers.2.self_attn.q_proj.weight"));
        assert_non_null(strstr(message, "has shape [24, 16]"));
        assert_non_null(strstr(message, "asks for [16, 16]"));
        for (size_t n = 0; n < t.checkpoint->n_tensors; n++) {
            bool odd = strncmp(t.checkpoint->tensors[n].name, "model.layers.2.", 15) == 0;
            const rs_tensor_role *role = &t.model->roles[n];
            assert_string_equal(role->status, odd ? "decoded only" : "analysed");
            if (odd) assert_non_null(strstr(role->reason, "layer_left_out"));
        }
        end(&t);
    }
}

static void what_cannot_be_guessed(void **state)
{
    (void)state;
    refuses((trial){.config = "{\"model_type\":\"x\",\"hidden_size\":16,\"num_hidden_layers\":2}",
                    .lines = prefixed},
            RS_E_CONFIG_SCHEMA, "num_attention_heads");
    refuses((trial){.config = "{\"hidden_size\":16,\"num_hidden_layers\":2,"
                              "\"num_attention_heads\":2,\"head_dim\":4}",
                    .lines = prefixed},
            RS_E_TENSOR_SHAPE, "guessed from names");
    refuses((trial){.config = CONFIG, .lines = fused}, RS_E_UNSUPPORTED, "cannot split");
    refuses((trial){.config = "{\"model_type\":\"novel_ssm\",\"hidden_size\":8,"
                              "\"num_hidden_layers\":2,\"state_size\":5,\"num_heads\":4,"
                              "\"head_dim\":4}",
                    .lines = fixture_mamba2},
            RS_E_UNSUPPORTED, "cannot split");
    refuses((trial){.config = CONFIG, .lines = alien}, RS_E_FAMILY_UNKNOWN, "22 tensor names");
    refuses((trial){.config = CONFIG, .lines = alien}, RS_E_FAMILY_UNKNOWN, "zork.1.j, ...");
    refuses((trial){.config = CONFIG, .lines = lora}, RS_E_FAMILY_UNKNOWN, "adapter");
    refuses((trial){.config = "{}", .lines = alien}, RS_E_FAMILY_UNKNOWN, "(none)");
    refuses((trial){.format = RS_FORMAT_GGUF, .config = "{}", .lines = plain_gguf},
            RS_E_CONFIG_SCHEMA, "general.architecture");
}

static const char *const custom[] = {"t.%.wq F32 16 12",
                                     "t.%.wk F32 8 12",
                                     "t.%.wv F32 8 12",
                                     "t.%.wo F32 12 16",
                                     "t.%.g F32 12",
                                     "t.%.fused F32 32 12",
                                     "t.%.conv F32 12 32",
                                     "t.%.convo F32 16 12",
                                     "t.%.c.k F32 8 20",
                                     "t.%.c.v F32 8 20",
                                     NULL};

static void assert_factor(const rs_factor *f, bool rows, int64_t first, int64_t inner,
                          int64_t features)
{
    assert_int_equal(f->vector_is_row, rows);
    assert_int_equal(f->first, first);
    assert_int_equal(f->inner, inner);
    assert_int_equal(f->features, features);
}

static void tensors_named_by_a_map(void **state)
{
    (void)state;
    trial t = {.map = "{\"heads\":4,\"q\":\"t.{i}.wq\",\"k\":\"t.{i}.wk\",\"v\":\"t.{i}.wv\","
                      "\"o\":\"t.{i}.wo\",\"norm\":\"t.{i}.g\",\"norm_kind\":\"rmsnorm\","
                      "\"rope\":\"half\",\"layers\":2}",
               .lines = custom};
    succeeds(&t, "custom (--map)", 16);
    const rs_product *p = &t.model->products[8 + 3];
    assert_int_equal(p->layer, 1);
    assert_int_equal(p->kv_head, 1);
    assert_factor(&p->a, true, 12, 4, 12);
    assert_factor(&p->b, true, 4, 4, 12);
    assert_string_equal(p->a.gain->name, "t.1.g");
    assert_int_equal(p->rope_dims, 4);
    assert_int_equal(t.model->d_model, 12);
    end(&t);
    t.map = "{\"heads\":4,\"v\":\"t.{i}.wv\",\"o\":\"t.{i}.wo\",\"norm\":\"t.{i}.g\","
            "\"norm_kind\":\"layernorm+1\"}";
    succeeds(&t, "custom (--map)", 8);
    assert_int_equal(t.model->products[0].a.norm, RS_NORM_LAYERNORM_PLUS_ONE);
    end(&t);
    t.map = "{\"heads\":4,\"kv_heads\":2,\"qkv\":\"t.{i}.fused\",\"qkv_layout\":\"grouped\","
            "\"o\":\"t.{i}.wo\"}";
    succeeds(&t, "custom (--map)", 16);
    assert_factor(&t.model->products[3].a, true, 16 + 4, 4, 12);
    assert_factor(&t.model->products[3].b, true, 16 + 8, 4, 12);
    assert_factor(&t.model->products[7].a, true, 16 + 12, 4, 12);
    end(&t);
    t.map = "{\"heads\":4,\"kv_heads\":2,\"qkv\":\"t.{i}.conv\",\"qkv_layout\":\"columns q|k|v\","
            "\"o\":\"t.{i}.convo\",\"layout\":\"conv1d\"}";
    succeeds(&t, "custom (--map)", 16);
    assert_factor(&t.model->products[3].a, false, 12, 4, 12);
    assert_factor(&t.model->products[3].b, false, 16 + 4, 4, 12);
    assert_factor(&t.model->products[7].b, true, 12, 4, 12);
    end(&t);
    t.map = "[{\"heads\":4,\"stack\":\"decoder\",\"q\":\"t.{i}.wq\",\"k\":\"t.{i}.wk\"},"
            "{\"heads\":4,\"stack\":\"decoder\",\"attention\":\"cross\",\"q\":\"t.{i}.wq\","
            "\"k\":\"t.{i}.c.k\",\"v\":\"t.{i}.c.v\",\"o\":\"t.{i}.wo\"}]";
    succeeds(&t, "custom (--map)", 24);
    assert_string_equal(t.model->products[8].attention, "cross");
    assert_int_equal(t.model->products[8].b.features, 20);
    assert_int_equal(t.model->layers, 2);
    end(&t);
}

static const char *const documented[] = {"enc.%.mha.in_w F32 48 32", "enc.%.mha.out_w F32 32 32",
                                         "enc.%.pre.g F32 32", NULL};

/* The example of docs/map.md, read out of it. */
static void the_documented_map_works(void **state)
{
    (void)state;
    char text[8192];
    FILE *file = fopen(RS_SOURCE_DIR "/docs/map.md", "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    char *start = strstr(text, "```json"), *stop = start ? strstr(start + 7, "```") : NULL;
    assert_non_null(stop);
    *stop = 0;
    trial t = {.map = start + 7, .lines = documented};
    succeeds(&t, "custom (--map)", 16);
    assert_factor(&t.model->products[3].a, true, 24, 8, 32);
    assert_factor(&t.model->products[3].b, true, 32, 8, 32);
    assert_factor(&t.model->products[7].a, true, 40, 8, 32);
    end(&t);
}

static void maps_that_are_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *map;
        rs_status status;
        const char *says;
    } wrong[] = {
        {"{\"head\":4}", RS_E_MAP_SCHEMA, "did you mean \"heads\"?"},
        {"{\"heads\":4}", RS_E_MAP_SCHEMA, "no product"},
        {"{\"heads\":0,\"q\":\"a{i}\",\"k\":\"b{i}\"}", RS_E_MAP_SCHEMA, "heads is 0"},
        {"{\"q\":\"a{i}\",\"k\":\"b{i}\"}", RS_E_MAP_SCHEMA, "heads"},
        {"{\"heads\":4,\"q\":\"a\",\"k\":\"b{i}\"}", RS_E_MAP_SCHEMA, "{i}"},
        {"{\"heads\":4,\"q\":\"a{i}{i}\",\"k\":\"b{i}\"}", RS_E_MAP_SCHEMA, "once"},
        {"{\"heads\":4,\"q\":7,\"k\":\"b{i}\"}", RS_E_MAP_SCHEMA, "{i}"},
        {"{\"heads\":4,\"q\":\"t.{i}.wq\",\"qkv\":\"t.{i}.fused\"}", RS_E_MAP_SCHEMA, "either"},
        {"{\"heads\":4,\"qkv\":\"t.{i}.fused\"}", RS_E_MAP_SCHEMA, "qkv_layout"},
        {"{\"heads\":4,\"qkv\":\"t.{i}.fused\",\"qkv_layout\":\"rows\"}", RS_E_MAP_SCHEMA,
         "unknown qkv_layout"},
        {"{\"heads\":4,\"q\":\"t.{i}.wq\",\"k\":\"t.{i}.wk\",\"norm\":\"t.{i}.g\"}",
         RS_E_MAP_SCHEMA, "norm_kind"},
        {"{\"heads\":4,\"q\":\"t.{i}.wq\",\"k\":\"t.{i}.wk\",\"rope\":\"full\"}", RS_E_MAP_SCHEMA,
         "unknown rope"},
        {"{\"heads\":4,\"q\":\"t.{i}.wq\",\"k\":\"t.{i}.wk\",\"rope\":\"half\",\"rope_dims\":9}",
         RS_E_MAP_SCHEMA, "rope_dims"},
        {"{\"heads\":4,\"q\":\"t.{i}.wq\",\"k\":\"t.{i}.nope\"}", RS_E_TENSOR_MISSING, "\"k\""},
        {"{\"heads\":4,\"q\":\"u.{i}.wq\",\"k\":\"u.{i}.wk\"}", RS_E_TENSOR_MISSING, "0 layers"},
        {"{\"heads\":4,\"q\":\"t.{i}.wq\",\"k\":\"t.{i}.wk\",\"layers\":5}", RS_E_TENSOR_MISSING,
         "5 are asked"},
        {"{\"heads\":3,\"q\":\"t.{i}.wq\",\"k\":\"t.{i}.wk\"}", RS_E_CONFIG_HEADS, "16 units"},
        {"{\"heads\":4,\"q\":\"t.{i}.g\",\"k\":\"t.{i}.wk\"}", RS_E_TENSOR_SHAPE, "dimensions"},
        {"{\"heads\":4,\"q\":\"t.{i}.wq\",\"k\":\"t.{i}.c.k\"}", RS_E_TENSOR_SHAPE, ""},
        {"[]", RS_E_MAP_SCHEMA, "wrong number"},
        {"[7]", RS_E_MAP_SCHEMA, "object"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuses((trial){.map = wrong[i].map, .lines = custom}, wrong[i].status, wrong[i].says);
}

static void memory_may_end_while_mapping(void **state)
{
    (void)state;
    json_t *map = json_loads("{\"heads\":4,\"q\":\"t.{i}.wq\",\"k\":\"t.{i}.wk\"}", 0, NULL);
    rs_checkpoint *checkpoint = fixture_make(RS_FORMAT_SAFETENSORS, NULL, custom, 2);
    rs_status status = RS_E_NO_MEMORY;
    int64_t at = 1;
    for (; status != RS_OK && at < 1000; at++) {
        rs_model *model;
        rs_memory_fail_at(at);
        status = rs_model_open(&model, checkpoint, map, "map.json", NULL);
        rs_memory_fail_at(0);
        if (status != RS_OK) assert_int_equal(status, RS_E_NO_MEMORY);
        if (status == RS_OK) rs_model_close(model);
    }
    assert_int_equal(status, RS_OK);
    assert_true(at > 6);
    rs_checkpoint_close(checkpoint);
    json_decref(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_names_of_unknown_models),
        cmocka_unit_test(a_layer_that_does_not_fit),
        cmocka_unit_test(what_cannot_be_guessed),
        cmocka_unit_test(tensors_named_by_a_map),
        cmocka_unit_test(the_documented_map_works),
        cmocka_unit_test(maps_that_are_wrong),
        cmocka_unit_test(memory_may_end_while_mapping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
