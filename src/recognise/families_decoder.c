/*
 * families_decoder.c: decoders of the GPT and LLaMA kind, and the tables that others share.
 *
 * Names and layouts after the modules of transformers 5.23 (gpt2, gpt_neox, falcon, llama, mistral,
 * qwen2, qwen3, gemma*, phi3, olmo*); see docs/formats.md, 5.4 to 5.6.
 */
#include "recognise/family.h"

/* Fields of configurations written by transformers. */
const rs_field_row rs_dialect_common[] = {RS_FIELDS_OF_SIZES,
                                          {RS_FIELD_KV_HEADS, "n_head_kv"},
                                          {RS_FIELD_ROPE_DIMS, "rotary_dim"},
                                          {RS_FIELD_LAYER_GROUPS, "num_hidden_groups"},
                                          {RS_FIELD_INNER_GROUP, "inner_group_num"},
                                          {RS_FIELD_COUNT, NULL}};

const char *const rs_prefixes_decoder[] = {"model.",
                                           "language_model.model.",
                                           "model.language_model.",
                                           "model.language_model.model.",
                                           "model.text_model.",
                                           "language_model.",
                                           "model.decoder.",
                                           NULL};

/* Attention and norms as LLaMA names them; what post_attention_layernorm means differs, so that
 * each family adds its own row. */
const rs_module_pattern rs_patterns_llama[] = {
    {"embed_tokens", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"layers.#.self_attn.q_proj", RS_ROLE_Q, RS_SLOT_MAIN, 0},
    {"layers.#.self_attn.k_proj", RS_ROLE_K, RS_SLOT_MAIN, 0},
    {"layers.#.self_attn.v_proj", RS_ROLE_V, RS_SLOT_MAIN, 0},
    {"layers.#.self_attn.o_proj", RS_ROLE_O, RS_SLOT_MAIN, 0},
    {"layers.#.self_attn.dense", RS_ROLE_O, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.self_attn.out_proj", RS_ROLE_O, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.self_attn.q_norm", RS_ROLE_Q_NORM, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.self_attn.k_norm", RS_ROLE_K_NORM, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.self_attn.rotary_emb.inv_freq", RS_ROLE_ROPE_TABLE, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"rotary_emb.inv_freq", RS_ROLE_ROPE_TABLE, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"lm_head", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

const rs_module_pattern rs_patterns_llama_mlp[] = {
    {"norm", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},
    {"layers.#.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"layers.#.post_attention_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.gate_proj", RS_ROLE_MLP_GATE, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.up_proj", RS_ROLE_MLP_UP, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.down_proj", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* Mixtures of experts under all the names in use. */
const rs_module_pattern rs_patterns_moe[] = {
    {"layers.#.mlp.gate", RS_ROLE_MOE_ROUTER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mlp.gate.*", RS_ROLE_MOE_ROUTER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mlp.router*", RS_ROLE_MOE_ROUTER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mlp.experts.*", RS_ROLE_MOE_EXPERT, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mlp.shared_expert*", RS_ROLE_MOE_EXPERT, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.block_sparse_moe.gate", RS_ROLE_MOE_ROUTER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.block_sparse_moe.router*", RS_ROLE_MOE_ROUTER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.block_sparse_moe.*", RS_ROLE_MOE_EXPERT, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.feed_forward.router*", RS_ROLE_MOE_ROUTER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.feed_forward.experts.*", RS_ROLE_MOE_EXPERT, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* What else such files hold: latent attention (refused by name), other towers. */
const rs_module_pattern rs_patterns_other[] = {
    {"layers.#.self_attn.q_a_proj", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_MLA},
    {"layers.#.self_attn.q_b_proj", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_MLA},
    {"layers.#.self_attn.kv_a_proj_with_mqa", RS_ROLE_OTHER, RS_SLOT_MAIN,
     RS_P_OPTIONAL | RS_P_MLA},
    {"layers.#.self_attn.kv_b_proj", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_MLA},
    {"vision_tower.*", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"vision_model.*", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"visual.*", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"audio_tower.*", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"multi_modal_projector.*", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"score", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* Gemma 2 and 3: a second norm inside each branch. */
const rs_module_pattern rs_patterns_sandwich[] = {
    {"norm", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},
    {"layers.#.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"layers.#.post_attention_layernorm", RS_ROLE_NORM_MIXER_OUT, RS_SLOT_MAIN, 0},
    {"layers.#.pre_feedforward_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    {"layers.#.post_feedforward_layernorm", RS_ROLE_NORM_MLP_OUT, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.gate_proj", RS_ROLE_MLP_GATE, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.up_proj", RS_ROLE_MLP_UP, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.down_proj", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* OLMo 2 and 3: norms only behind the branches. */
const rs_module_pattern rs_patterns_olmo2[] = {
    {"norm", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},
    {"layers.#.post_attention_layernorm", RS_ROLE_NORM_MIXER_OUT, RS_SLOT_MAIN, 0},
    {"layers.#.post_feedforward_layernorm", RS_ROLE_NORM_MLP_OUT, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.gate_proj", RS_ROLE_MLP_GATE, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.up_proj", RS_ROLE_MLP_UP, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.down_proj", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* OLMo: its LayerNorms have no weights at all. */
static const rs_module_pattern olmo[] = {
    {"layers.#.mlp.gate_proj", RS_ROLE_MLP_GATE, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.up_proj", RS_ROLE_MLP_UP, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.down_proj", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

static const rs_module_pattern phi3[] = {
    {"embed_tokens", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"layers.#.self_attn.qkv_proj", RS_ROLE_QKV, RS_SLOT_MAIN, RS_P_ROWS},
    {"layers.#.self_attn.o_proj", RS_ROLE_O, RS_SLOT_MAIN, 0},
    {"layers.#.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"layers.#.post_attention_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.gate_up_proj", RS_ROLE_MLP_GATE_UP, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.down_proj", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},
    {"layers.#.self_attn.rotary_emb.inv_freq", RS_ROLE_ROPE_TABLE, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"norm", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},
    {"lm_head", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

static const rs_module_pattern gpt2[] = {
    {"wte", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"wpe", RS_ROLE_EMBED_POSITION, RS_SLOT_MAIN, 0},
    {"h.#.ln_1", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"h.#.attn.c_attn", RS_ROLE_QKV, RS_SLOT_MAIN, RS_P_ROWS | RS_P_CONV1D},
    {"h.#.attn.c_proj", RS_ROLE_O, RS_SLOT_MAIN, RS_P_CONV1D},
    {"h.#.attn.bias", RS_ROLE_BUFFER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"h.#.attn.masked_bias", RS_ROLE_BUFFER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"h.#.ln_cross_attn", RS_ROLE_NORM_CROSS, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"h.#.crossattention.q_attn", RS_ROLE_CROSS_Q, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_CONV1D},
    {"h.#.crossattention.c_attn", RS_ROLE_CROSS_KV, RS_SLOT_MAIN,
     RS_P_OPTIONAL | RS_P_ROWS | RS_P_CONV1D},
    {"h.#.crossattention.c_proj", RS_ROLE_CROSS_O, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_CONV1D},
    {"h.#.crossattention.*", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"h.#.ln_2", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    {"h.#.mlp.c_fc", RS_ROLE_MLP_UP, RS_SLOT_MAIN, RS_P_CONV1D},
    {"h.#.mlp.c_proj", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, RS_P_CONV1D},
    {"ln_f", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},
    {"lm_head", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

static const rs_module_pattern gpt_neox[] = {
    {"embed_in", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"layers.#.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"layers.#.post_attention_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    {"layers.#.attention.query_key_value", RS_ROLE_QKV, RS_SLOT_MAIN, RS_P_INTERLEAVED},
    {"layers.#.attention.dense", RS_ROLE_O, RS_SLOT_MAIN, 0},
    {"layers.#.attention.bias", RS_ROLE_BUFFER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.attention.masked_bias", RS_ROLE_BUFFER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.attention.rotary_emb.inv_freq", RS_ROLE_ROPE_TABLE, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mlp.dense_h_to_4h", RS_ROLE_MLP_UP, RS_SLOT_MAIN, 0},
    {"layers.#.mlp.dense_4h_to_h", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},
    {"final_layer_norm", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},
    {"embed_out", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"lm_head", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* Falcon: the same tensor name with three different orders inside, chosen by the config. */
#define FALCON(order)                                                                              \
    {"word_embeddings", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},                                     \
        {"h.#.self_attention.query_key_value", RS_ROLE_QKV, RS_SLOT_MAIN, (order)},                \
        {"h.#.self_attention.dense", RS_ROLE_O, RS_SLOT_MAIN, 0},                                  \
        {"h.#.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, RS_P_OPTIONAL},                  \
        {"h.#.ln_attn", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, RS_P_OPTIONAL},                          \
        {"h.#.post_attention_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, RS_P_OPTIONAL},           \
        {"h.#.ln_mlp", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, RS_P_OPTIONAL},                             \
        {"h.#.mlp.dense_h_to_4h", RS_ROLE_MLP_UP, RS_SLOT_MAIN, 0},                                \
        {"h.#.mlp.dense_4h_to_h", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},                              \
        {"ln_f", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},                                             \
        {"lm_head", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},                                 \
    {                                                                                              \
        NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0                                                     \
    }
static const rs_module_pattern falcon_grouped[] = {FALCON(RS_P_GROUPED)};
static const rs_module_pattern falcon_rows[] = {FALCON(RS_P_ROWS)};
static const rs_module_pattern falcon_interleaved[] = {FALCON(RS_P_INTERLEAVED)};

static const rs_field_default gemma_defaults[] = {{RS_FIELD_HEAD_DIM, 256}, {RS_FIELD_COUNT, 0}};
/* Published Gemma 3 4B configurations name only what differs from these. */
static const rs_field_default gemma3_defaults[] = {
    {RS_FIELD_HEAD_DIM, 256}, {RS_FIELD_HEADS, 8}, {RS_FIELD_KV_HEADS, 4}, {RS_FIELD_COUNT, 0}};
static const rs_field_default qwen3_defaults[] = {{RS_FIELD_HEAD_DIM, 128}, {RS_FIELD_COUNT, 0}};

static const char *const gpt2_prefixes[] = {"transformer.", NULL};
static const char *const neox_prefixes[] = {"gpt_neox.", NULL};

#define LLAMA_LIKE(name_, types_)                                                                  \
    .name = (name_), .types = (types_), .dialect = rs_dialect_common,                              \
    .patterns = {rs_patterns_llama, rs_patterns_llama_mlp, rs_patterns_moe, rs_patterns_other},    \
    .prefixes = rs_prefixes_decoder, .norm = RS_NORM_RMSNORM, .rope = RS_ROPE_HALF_SPLIT
#define GEMMA_LIKE(name_, types_, list_)                                                           \
    .name = (name_), .types = (types_), .dialect = rs_dialect_common,                              \
    .patterns = {rs_patterns_llama, (list_), rs_patterns_other}, .prefixes = rs_prefixes_decoder,  \
    .norm = RS_NORM_RMSNORM_PLUS_ONE, .rope = RS_ROPE_HALF_SPLIT, .facts = RS_FACT_PRE_NORM
#define FALCON_LIKE(list_)                                                                         \
    .name = "falcon", .types = "falcon RefinedWeb RefinedWebModel", .dialect = rs_dialect_common,  \
    .patterns = {(list_)}, .prefixes = gpt2_prefixes, .norm = RS_NORM_LAYERNORM,                   \
    .rope = RS_ROPE_HALF_SPLIT, .forward = &rs_forward_falcon

const rs_family rs_families_decoder[] = {
    {LLAMA_LIKE("llama", "llama"), .facts = RS_FACT_PRE_NORM | RS_FACT_GUESS,
     .forward = &rs_forward_llama},
    {LLAMA_LIKE("mistral", "mistral ministral"), .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_mistral},
    {LLAMA_LIKE("mixtral", "mixtral"), .facts = RS_FACT_PRE_NORM},
    {LLAMA_LIKE("qwen2", "qwen2 qwen2_moe"), .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_qwen2},
    {LLAMA_LIKE("qwen3", "qwen3"), .defaults = qwen3_defaults, .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_qwen3},
    {LLAMA_LIKE("qwen3", "qwen3_moe"), .facts = RS_FACT_PRE_NORM}, /* head_dim has no default */
    {LLAMA_LIKE("granite", "granite"), .facts = RS_FACT_PRE_NORM, .forward = &rs_forward_granite},
    {GEMMA_LIKE("gemma", "gemma", rs_patterns_llama_mlp), .defaults = gemma_defaults,
     .forward = &rs_forward_gemma},
    {GEMMA_LIKE("gemma2", "gemma2", rs_patterns_sandwich), .defaults = gemma_defaults,
     .forward = &rs_forward_gemma2},
    {GEMMA_LIKE("gemma3", "gemma3_text gemma3", rs_patterns_sandwich), .defaults = gemma3_defaults,
     .forward = &rs_forward_gemma3},
    {.name = "phi3",
     .types = "phi3",
     .dialect = rs_dialect_common,
     .patterns = {phi3, rs_patterns_other},
     .prefixes = rs_prefixes_decoder,
     .norm = RS_NORM_RMSNORM,
     .rope = RS_ROPE_HALF_SPLIT,
     .facts = RS_FACT_PRE_NORM | RS_FACT_PARTIAL_ROPE,
     .forward = &rs_forward_phi3},
    {.name = "olmo",
     .types = "olmo",
     .dialect = rs_dialect_common,
     .patterns = {rs_patterns_llama, olmo, rs_patterns_other},
     .prefixes = rs_prefixes_decoder,
     .norm = RS_NORM_LAYERNORM,
     .rope = RS_ROPE_HALF_SPLIT,
     .facts = RS_FACT_PRE_NORM | RS_FACT_BARE_NORM,
     .forward = &rs_forward_olmo},
    {.name = "olmo2",
     .types = "olmo2 olmo3 flex_olmo",
     .dialect = rs_dialect_common,
     .patterns = {rs_patterns_llama, rs_patterns_olmo2, rs_patterns_moe, rs_patterns_other},
     .prefixes = rs_prefixes_decoder,
     .norm = RS_NORM_RMSNORM,
     .rope = RS_ROPE_HALF_SPLIT,
     .facts = RS_FACT_QK_NORM_FULL,
     .forward = &rs_forward_olmo2},
    {.name = "gpt2",
     .types = "gpt2",
     .dialect = rs_dialect_common,
     .patterns = {gpt2, rs_patterns_other},
     .prefixes = gpt2_prefixes,
     .norm = RS_NORM_LAYERNORM,
     .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_gpt2},
    {.name = "gpt_neox",
     .types = "gpt_neox",
     .dialect = rs_dialect_common,
     .patterns = {gpt_neox},
     .prefixes = neox_prefixes,
     .norm = RS_NORM_LAYERNORM,
     .rope = RS_ROPE_HALF_SPLIT,
     .rope_fraction = 0.25,
     .facts = RS_FACT_PRE_NORM | RS_FACT_PARTIAL_ROPE,
     .forward = &rs_forward_gpt_neox},
    {FALCON_LIKE(falcon_grouped), .when = "new_decoder_architecture", .facts = RS_FACT_PRE_NORM},
    {FALCON_LIKE(falcon_rows), .when = "multi_query",
     .facts = RS_FACT_PRE_NORM | RS_FACT_MULTI_QUERY},
    {FALCON_LIKE(falcon_interleaved), .facts = RS_FACT_PRE_NORM | RS_FACT_HEAD_PER_KV},
    {.name = "deepseek",
     .types = "deepseek_v2 deepseek_v3",
     .dialect = rs_dialect_common,
     .patterns = {rs_patterns_llama, rs_patterns_other},
     .prefixes = rs_prefixes_decoder},
    {.name = NULL}};
