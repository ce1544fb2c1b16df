/* test_model_wiring.c: which vectors of which tensor a product takes, what stands beside them, and
 * what is said of tensors that take no part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model_fixture.h"

typedef struct opened {
    rs_checkpoint *checkpoint;
    rs_model *model;
} opened;

static opened open_good(rs_format format, const char *config, const char *const *lines, int layers)
{
    opened o = {fixture_make(format, config, lines, layers), NULL};
    rs_error err = {0};
    assert_non_null(o.checkpoint);
    if (rs_model_open(&o.model, o.checkpoint, NULL, NULL, &err) != RS_OK)
        fail_msg("%s: %s; %s", err.where, err.what, err.hint);
    return o;
}

static void close_both(opened *o)
{
    rs_model_close(o->model);
    rs_checkpoint_close(o->checkpoint);
}

static void fails(rs_format format, const char *config, const char *const *lines, rs_status wanted,
                  const char *says)
{
    rs_checkpoint *checkpoint = fixture_make(format, config, lines, 2);
    rs_model *model;
    rs_error err = {0};
    assert_non_null(checkpoint);
    rs_status status = rs_model_open(&model, checkpoint, NULL, NULL, &err);
    if (status != wanted)
        fail_msg("%s instead of %s: %s", rs_status_name(status), rs_status_name(wanted), err.what);
    if (!strstr(err.what, says) && !strstr(err.where, says) && !strstr(err.hint, says))
        fail_msg("nothing of \"%s\" in %s: %s; %s", says, err.where, err.what, err.hint);
    rs_checkpoint_close(checkpoint);
}

static const rs_product *product(const rs_model *model, rs_product_kind kind, int layer, int head)
{
    for (size_t i = 0; i < model->n_products; i++) {
        const rs_product *p = &model->products[i];
        if (p->kind == kind && p->layer == layer && p->head == head) return p;
    }
    fail_msg("no product %d of layer %d head %d", (int)kind, layer, head);
    return NULL;
}

static void assert_factor(const rs_factor *f, const char *tensor, bool rows, int64_t first,
                          int64_t inner, int64_t features)
{
    assert_string_equal(f->tensor->name, tensor);
    assert_int_equal(f->vector_is_row, rows);
    assert_int_equal(f->first, first);
    assert_int_equal(f->inner, inner);
    assert_int_equal(f->features, features);
    assert_int_equal(f->rows * f->cols, f->tensor->count);
}

static const rs_tensor_role *role_of(const opened *o, const char *name)
{
    const rs_tensor *tensor = rs_checkpoint_find(o->checkpoint, name);
    assert_non_null(tensor);
    return &o->model->roles[tensor - o->checkpoint->tensors];
}

static const char *note(const rs_model *model, const char *code)
{
    for (size_t i = 0; i < model->notes.n; i++)
        if (strcmp(model->notes.items[i].code, code) == 0) return model->notes.items[i].message;
    return NULL;
}

static void grouped_queries_and_roles(void **state)
{
    (void)state;
    opened o = open_good(RS_FORMAT_SAFETENSORS, FIXTURE_LLAMA "}", fixture_llama, 2);
    const rs_product *qk = product(o.model, RS_PRODUCT_QK, 1, 3);
    assert_factor(&qk->a, "model.layers.1.self_attn.q_proj.weight", true, 12, 4, 16);
    assert_factor(&qk->b, "model.layers.1.self_attn.k_proj.weight", true, 4, 4, 16);
    assert_int_equal(qk->kv_head, 1);
    assert_int_equal(qk->group_size, 2);
    assert_int_equal(qk->rope, RS_ROPE_HALF_SPLIT);
    assert_int_equal(qk->rope_dims, 4);
    assert_string_equal(qk->a.gain->name, "model.layers.1.input_layernorm.weight");
    assert_int_equal(qk->a.norm, RS_NORM_RMSNORM);
    assert_string_equal(qk->corrections, "scale 1/sqrt(4) left out; RoPE at distance 0");
    const rs_product *ov = product(o.model, RS_PRODUCT_OV, 0, 2);
    assert_factor(&ov->a, "model.layers.0.self_attn.v_proj.weight", true, 4, 4, 16);
    assert_factor(&ov->b, "model.layers.0.self_attn.o_proj.weight", false, 8, 4, 16);
    assert_null(ov->b.gain);
    assert_string_equal(o.model->family, "llama");
    assert_string_equal(o.model->stored.dtype, "BF16");
    assert_int_equal(o.model->stored.parameters,
                     2 * 11 * 16 + 16 + 2 * (2 * 16 + 16 * 16 * 2 + 2 * 8 * 16 + 3 * 8 * 16));
    assert_string_equal(role_of(&o, "model.layers.1.mlp.up_proj.weight")->status, "decoded only");
    assert_string_equal(role_of(&o, "model.layers.1.mlp.up_proj.weight")->reason,
                        "MLP weight: not part of a head product");
    assert_string_equal(rs_role_name(role_of(&o, "lm_head.weight")->role), "lm_head");
    assert_int_equal(role_of(&o, "lm_head.weight")->layer, -1);
    assert_string_equal(role_of(&o, "model.layers.0.self_attn.q_proj.weight")->status, "analysed");
    assert_null(note(o.model, "missing_tensor"));
    close_both(&o);
}

static void post_norm_has_nothing_to_fold(void **state)
{
    (void)state;
    opened o = open_good(RS_FORMAT_SAFETENSORS, FIXTURE_BERT "}", fixture_bert, 2);
    const rs_product *qk = product(o.model, RS_PRODUCT_QK, 0, 1);
    assert_null(qk->a.gain);
    assert_int_equal(qk->a.norm, RS_NORM_NONE);
    assert_string_equal(qk->a.bias->name, "encoder.layer.0.attention.self.query.bias");
    assert_int_equal(qk->a.bias_first, 4);
    assert_int_equal(role_of(&o, "embeddings.LayerNorm.gamma")->role, RS_ROLE_NORM_EMBED);
    assert_int_equal(role_of(&o, "embeddings.LayerNorm.beta")->role, RS_ROLE_NORM_EMBED_BIAS);
    assert_int_equal(role_of(&o, "embeddings.position_ids")->role, RS_ROLE_BUFFER);
    close_both(&o);
}

static const char *const gemma2[] = {"model.layers.%.input_layernorm.weight F32 16",
                                     "model.layers.%.self_attn.q_proj.weight F32 24 16",
                                     "model.layers.%.self_attn.k_proj.weight F32 12 16",
                                     "model.layers.%.self_attn.v_proj.weight F32 12 16",
                                     "model.layers.%.self_attn.o_proj.weight F32 16 24",
                                     "model.layers.%.self_attn.q_norm.weight F32 6",
                                     "model.layers.%.self_attn.k_norm.weight F32 6",
                                     NULL};

static void gains_of_gemma_have_their_one(void **state)
{
    (void)state;
    opened o = open_good(RS_FORMAT_SAFETENSORS,
                         "{\"model_type\":\"gemma3_text\",\"hidden_size\":16,"
                         "\"num_hidden_layers\":1,\"num_attention_heads\":4,"
                         "\"num_key_value_heads\":2,\"head_dim\":6,\"query_pre_attn_scalar\":9,"
                         "\"attn_logit_softcapping\":50.0}",
                         gemma2, 1);
    const rs_product *qk = product(o.model, RS_PRODUCT_QK, 0, 3);
    assert_int_equal(qk->a.norm, RS_NORM_RMSNORM_PLUS_ONE);
    assert_true(qk->a.inner_gain_plus_one);
    assert_string_equal(qk->b.inner_gain->name, "model.layers.0.self_attn.k_norm.weight");
    assert_true(qk->qk_norm);
    assert_string_equal(
        qk->corrections,
        "scale 1/sqrt(9) left out; RoPE at distance 0; QK-norm: the score ignores the "
        "scale; soft-cap 50 left out");
    assert_non_null(strstr(note(o.model, "missing_tensor"), "layers.0.mlp.gate_proj.weight"));
    close_both(&o);
}

static const char *const gguf_llama[] = {
    "blk.%.attn_q.weight Q4_K 512 256", "blk.%.attn_k.weight Q4_K 256 256",
    "blk.%.attn_v.weight Q6_K 128 256", "blk.%.attn_output.weight Q4_K 256 256",
    "blk.%.attn_norm.weight F32 256",   NULL};

static void gguf_has_its_own_widths_and_pairs(void **state)
{
    (void)state;
    opened o = open_good(RS_FORMAT_GGUF,
                         "{\"general.architecture\":\"llama\",\"llama.block_count\":2,"
                         "\"llama.embedding_length\":256,\"llama.attention.head_count\":4,"
                         "\"llama.attention.head_count_kv\":[2,2],"
                         "\"llama.attention.key_length\":128,\"llama.attention.value_length\":64,"
                         "\"llama.rope.dimension_count\":32}",
                         gguf_llama, 2);
    const rs_product *qk = product(o.model, RS_PRODUCT_QK, 1, 2);
    assert_factor(&qk->a, "blk.1.attn_q.weight", true, 256, 128, 256);
    assert_factor(&qk->b, "blk.1.attn_k.weight", true, 128, 128, 256);
    assert_int_equal(qk->rope, RS_ROPE_INTERLEAVED);
    assert_int_equal(qk->rope_dims, 32);
    const rs_product *ov = product(o.model, RS_PRODUCT_OV, 1, 2);
    assert_factor(&ov->a, "blk.1.attn_v.weight", true, 64, 64, 256);
    assert_factor(&ov->b, "blk.1.attn_output.weight", false, 128, 64, 256);
    close_both(&o);
}

static void state_space_products(void **state)
{
    (void)state;
    opened o = open_good(RS_FORMAT_SAFETENSORS, FIXTURE_MAMBA2 "}", fixture_mamba2, 2);
    const char *in = "backbone.layers.1.mixer.in_proj.weight";
    const rs_product *cb = product(o.model, RS_PRODUCT_CB, 1, 1);
    assert_factor(&cb->a, in, true, 16 + 16 + 10 + 5, 5, 8);
    assert_factor(&cb->b, in, true, 16 + 16 + 5, 5, 8);
    assert_null(cb->attention);
    assert_int_equal(cb->group_size, 2);
    assert_non_null(strstr(cb->corrections, "shared by heads 2-3"));
    const rs_product *io = product(o.model, RS_PRODUCT_IO, 1, 3);
    assert_factor(&io->a, in, true, 16 + 12, 4, 8);
    assert_factor(&io->b, "backbone.layers.1.mixer.out_proj.weight", false, 12, 4, 8);
    assert_string_equal(io->b.inner_gain->name, "backbone.layers.1.mixer.norm.weight");
    assert_int_equal(io->b.inner_gain_first, 12);
    assert_int_equal(o.model->heads, 0);
    close_both(&o);
}

static const char *const mamba_original[] = {
    "backbone.embedding.weight F32 16 32", "backbone.layers.%.mixer.in_proj.weight F32 128 32",
    "backbone.layers.%.mixer.x_proj.weight F32 34 64",
    "backbone.layers.%.mixer.out_proj.weight F32 32 64", NULL};
static const char *const mamba2_draft[] = {"backbone.layers.%.mixer.in_proj.weight F32 56 8",
                                           "backbone.layers.%.mixer.out_proj.weight F32 8 16",
                                           NULL};

static void mamba_under_older_configs(void **state)
{
    (void)state;
    opened o = open_good(RS_FORMAT_SAFETENSORS,
                         "{\"d_model\":32,\"n_layer\":2,\"vocab_size\":16,\"ssm_cfg\":{},"
                         "\"rms_norm\":true}",
                         mamba_original, 2);
    const rs_product *cb = product(o.model, RS_PRODUCT_CB, 0, 0);
    assert_factor(&cb->a, "backbone.layers.0.mixer.x_proj.weight", true, 2 + 16, 16, 64);
    assert_factor(&cb->b, "backbone.layers.0.mixer.x_proj.weight", true, 2, 16, 64);
    close_both(&o);
    o = open_good(RS_FORMAT_SAFETENSORS,
                  "{\"d_model\":8,\"n_layer\":2,\"ssm_cfg\":{\"layer\":\"Mamba2\",\"d_state\":5,"
                  "\"headdim\":4,\"ngroups\":2}}",
                  mamba2_draft, 2);
    assert_int_equal(o.model->n_products, 12);
    close_both(&o);
    o = open_good(RS_FORMAT_SAFETENSORS,
                  "{\"model_type\":\"mamba2\",\"hidden_size\":8,\"num_hidden_layers\":2,"
                  "\"mamba2_head_dim\":4,\"mamba2_num_heads\":4,\"mamba2_n_groups\":2,"
                  "\"mamba2_state_size\":5}",
                  mamba2_draft, 2);
    assert_int_equal(o.model->n_products, 12);
    close_both(&o);
}

static const char *const fp8[] = {"layers.%.self_attn.q_proj.weight F8_E4M3 256 200",
                                  "layers.%.self_attn.q_proj.weight_scale_inv F32 2 2",
                                  "layers.%.self_attn.k_proj.weight F8_E4M3 256 200",
                                  "layers.%.self_attn.k_proj.weight_scale F32 1",
                                  "layers.%.self_attn.v_proj.weight F8_E4M3 256 200",
                                  "layers.%.self_attn.v_proj.weight_scale BF16 256 1",
                                  "layers.%.self_attn.o_proj.weight BF16 200 256",
                                  NULL};
#define CONFIG_200                                                                                 \
    "{\"model_type\":\"llama\",\"hidden_size\":200,\"num_hidden_layers\":1,"                       \
    "\"num_attention_heads\":2,\"head_dim\":128"

static void scales_of_fp8_are_placed(void **state)
{
    (void)state;
    opened o = open_good(RS_FORMAT_SAFETENSORS, CONFIG_200 "}", fp8, 1);
    const rs_product *qk = product(o.model, RS_PRODUCT_QK, 0, 1);
    assert_string_equal(qk->a.scale->name, "layers.0.self_attn.q_proj.weight_scale_inv");
    assert_int_equal(qk->a.scale_block_rows, 128);
    assert_int_equal(qk->a.scale_block_cols, 128);
    assert_int_equal(qk->b.scale_block_rows, 256);
    assert_int_equal(qk->b.scale_block_cols, 200);
    const rs_product *ov = product(o.model, RS_PRODUCT_OV, 0, 1);
    assert_int_equal(ov->a.scale_block_rows, 1);
    assert_int_equal(ov->a.scale_block_cols, 200);
    assert_null(ov->b.scale);
    assert_int_equal(role_of(&o, "layers.0.self_attn.k_proj.weight_scale")->role,
                     RS_ROLE_QUANT_SCALE);
    assert_int_equal(o.model->stored.parameters, 4 * 256 * 200);
    close_both(&o);
    fails(RS_FORMAT_SAFETENSORS,
          CONFIG_200 ",\"quantization_config\":{\"weight_block_size\":[64,64]}}", fp8,
          RS_E_TENSOR_SHAPE, "[4, 4]");
}

static const char *const bare_fp8[] = {"layers.%.self_attn.q_proj.weight F8_E4M3 16 16",
                                       "layers.%.self_attn.k_proj.weight F8_E4M3 8 16", NULL};
static const char *const gptq[] = {"model.layers.%.self_attn.q_proj.qweight I32 2 16",
                                   "model.layers.%.self_attn.q_proj.qzeros I32 1 2",
                                   "model.layers.%.self_attn.q_proj.scales F16 1 16",
                                   "model.layers.%.self_attn.k_proj.qweight I32 2 8", NULL};
static const char *const bnb[] = {
    "model.layers.%.self_attn.q_proj.weight U8 128 1",
    "model.layers.%.self_attn.q_proj.weight.absmax F32 4",
    "model.layers.%.self_attn.q_proj.weight.quant_state.bitsandbytes__nf4 U8 80",
    "model.layers.%.self_attn.k_proj.weight U8 64 1", NULL};
static const char *const iq2[] = {"blk.%.attn_q.weight IQ2_XXS 256 256",
                                  "blk.%.attn_k.weight F32 256 256", NULL};
static const char *const mla[] = {"model.layers.%.self_attn.q_a_proj.weight F32 8 16",
                                  "model.layers.%.self_attn.o_proj.weight F32 16 16", NULL};

static void packed_and_latent_weights_are_refused(void **state)
{
    (void)state;
    fails(RS_FORMAT_SAFETENSORS, FIXTURE_LLAMA "}", bare_fp8, RS_E_TENSOR_DTYPE, "scale");
    fails(RS_FORMAT_SAFETENSORS, FIXTURE_LLAMA "}", gptq, RS_E_TENSOR_DTYPE, "GPTQ");
    fails(RS_FORMAT_SAFETENSORS, FIXTURE_LLAMA "}", bnb, RS_E_TENSOR_DTYPE, "bitsandbytes");
    fails(RS_FORMAT_GGUF,
          "{\"general.architecture\":\"llama\",\"llama.block_count\":2,"
          "\"llama.embedding_length\":256,\"llama.attention.head_count\":4}",
          iq2, RS_E_TENSOR_DTYPE, "IQ2_XXS");
    fails(RS_FORMAT_SAFETENSORS, FIXTURE_LLAMA "}", mla, RS_E_UNSUPPORTED, "q_a_proj");
    fails(RS_FORMAT_SAFETENSORS, "{\"model_type\":\"zamba\"}", mla, RS_E_UNSUPPORTED, "zamba");
}

static const char *const holey[] = {"layers.0.self_attn.q_proj.weight F32 16 16",
                                    "layers.0.self_attn.k_proj.weight F32 8 16",
                                    "layers.1.self_attn.q_proj.weight F32 16 16", NULL};
static const char *const qk_only[] = {"layers.%.self_attn.q_proj.weight F32 16 16",
                                      "layers.%.self_attn.k_proj.weight F32 8 16",
                                      "extra.thing F32 3", "other.thing IQ1_S 3", NULL};
static const char *const nothing[] = {"model.embed_tokens.weight F32 11 16", NULL};

static void absent_tensors(void **state)
{
    (void)state;
    fails(RS_FORMAT_SAFETENSORS, FIXTURE_LLAMA "}", holey, RS_E_TENSOR_MISSING,
          "layers.1.self_attn.k_proj.weight");
    fails(RS_FORMAT_SAFETENSORS, FIXTURE_LLAMA "}", nothing, RS_E_NO_PRODUCT,
          "model.embed_tokens.weight");
    opened o = open_good(RS_FORMAT_SAFETENSORS, FIXTURE_LLAMA "}", qk_only, 2);
    assert_int_equal(o.model->n_products, 8);
    assert_non_null(strstr(note(o.model, "missing_tensor"), "embed_tokens.weight"));
    assert_non_null(strstr(note(o.model, "unknown_tensor"), "extra.thing"));
    assert_string_equal(role_of(&o, "extra.thing")->reason, "name not recognised");
    assert_string_equal(role_of(&o, "other.thing")->status, "refused");
    assert_non_null(strstr(role_of(&o, "other.thing")->reason, "IQ1_S"));
    close_both(&o);
}

static const char *const small[] = {"layers.%.self_attn.q_proj.weight F32 8 3",
                                    "layers.%.self_attn.k_proj.weight F32 8 3",
                                    "layers.%.self_attn.v_proj.weight F32 8 3",
                                    "layers.%.self_attn.o_proj.weight F32 3 8",
                                    "layers.%.nothing.weight F32 0 5",
                                    "scalar F32",
                                    NULL};

static void one_head_wider_than_the_model(void **state)
{
    (void)state;
    opened o = open_good(RS_FORMAT_SAFETENSORS,
                         "{\"model_type\":\"llama\",\"hidden_size\":3,\"num_hidden_layers\":1,"
                         "\"num_attention_heads\":1,\"head_dim\":8}",
                         small, 1);
    assert_int_equal(o.model->n_products, 2);
    assert_factor(&product(o.model, RS_PRODUCT_QK, 0, 0)->a, "layers.0.self_attn.q_proj.weight",
                  true, 0, 8, 3);
    assert_int_equal(product(o.model, RS_PRODUCT_OV, 0, 0)->kv_head, 0);
    assert_int_equal(o.model->stored.parameters, 4 * 24 + 1);
    close_both(&o);
}

static void every_role_has_a_name(void **state)
{
    (void)state;
    for (int a = 0; a < RS_ROLE_COUNT; a++) {
        assert_non_null(rs_role_name((rs_role)a));
        for (int b = 0; b < a; b++)
            assert_string_not_equal(rs_role_name((rs_role)a), rs_role_name((rs_role)b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grouped_queries_and_roles),
        cmocka_unit_test(post_norm_has_nothing_to_fold),
        cmocka_unit_test(gains_of_gemma_have_their_one),
        cmocka_unit_test(gguf_has_its_own_widths_and_pairs),
        cmocka_unit_test(state_space_products),
        cmocka_unit_test(mamba_under_older_configs),
        cmocka_unit_test(scales_of_fp8_are_placed),
        cmocka_unit_test(packed_and_latent_weights_are_refused),
        cmocka_unit_test(absent_tensors),
        cmocka_unit_test(one_head_wider_than_the_model),
        cmocka_unit_test(every_role_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
