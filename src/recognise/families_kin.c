/*
 * families_kin.c: decoders that name their tensors as LLaMA does and compute something else with
 * them: other pairs rotate, not all layers do, norms multiply by 1 + w or take a mean away, queries
 * and keys are normalised, scores are not scaled.
 *
 * Facts after the modules and configuration classes of transformers 5.23, each row checked against
 * what its forward pass did (tests/oracle/make_family_golden.py).
 */
#include "recognise/family.h"

#define ROW(name, role)                                                                            \
    {                                                                                              \
        name, role, RS_SLOT_MAIN, RS_P_OPTIONAL                                                    \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0                                                     \
    }

/* What LLaMA's rows leave out, under the names of all these models. */
static const rs_module_pattern more[] = {
    ROW("norm", RS_ROLE_NORM_FINAL),
    ROW("final_layernorm", RS_ROLE_NORM_FINAL),
    ROW("embedding_norm", RS_ROLE_NORM_FINAL),
    ROW("layers.#.self_attn.query_layernorm", RS_ROLE_Q_NORM),
    ROW("layers.#.self_attn.key_layernorm", RS_ROLE_K_NORM),
    ROW("layers.#.self_attn.q_layernorm", RS_ROLE_Q_NORM),
    ROW("layers.#.self_attn.k_layernorm", RS_ROLE_K_NORM),
    ROW("layers.#.self_attn.q_layernorm.norms.*", RS_ROLE_Q_NORM), /* one for each head */
    ROW("layers.#.self_attn.k_layernorm.norms.*", RS_ROLE_K_NORM),
    ROW("layers.#.self_attn.sinks", RS_ROLE_OTHER),
    ROW("layers.#.self_attn.attention_sink_bias", RS_ROLE_OTHER),
    ROW("layers.#.self_attn.lambda_*", RS_ROLE_OTHER),
    ROW("layers.#.linear_attn.*", RS_ROLE_OTHER),
    ROW("layers.#.mlp.gate_proj", RS_ROLE_MLP_GATE),
    ROW("layers.#.mlp.up_proj", RS_ROLE_MLP_UP),
    ROW("layers.#.mlp.down_proj", RS_ROLE_MLP_DOWN),
    ROW("layers.#.mlp.gate_up_proj", RS_ROLE_MLP_GATE_UP),
    ROW("layers.#.mlp.fc1", RS_ROLE_MLP_UP),
    ROW("layers.#.mlp.fc2", RS_ROLE_MLP_DOWN),
    ROW("layers.#.mlp.c_fc", RS_ROLE_MLP_UP),
    ROW("layers.#.mlp.c_proj", RS_ROLE_MLP_DOWN),
    ROW("layers.#.mlp.shared_mlp.*", RS_ROLE_MOE_EXPERT),
    ROW("layers.#.mlp.e_score_correction_bias", RS_ROLE_MOE_ROUTER),
    ROW("layers.#.mlp.moe_statics*", RS_ROLE_MOE_ROUTER),
    ROW("layers.#.block_sparse_moe.*", RS_ROLE_MOE_EXPERT),
    ROW("layers.#.feed_forward.gate_proj", RS_ROLE_MLP_GATE),
    ROW("layers.#.feed_forward.up_proj", RS_ROLE_MLP_UP),
    ROW("layers.#.feed_forward.down_proj", RS_ROLE_MLP_DOWN),
    ROW("layers.#.feed_forward.shared_expert.*", RS_ROLE_MOE_EXPERT),
    ROW("layers.#.shared_mlp.input_linear", RS_ROLE_MLP_GATE_UP),
    ROW("layers.#.shared_mlp.output_linear", RS_ROLE_MLP_DOWN),
    END};

/* A norm before attention and one before the MLP, or one before both. */
static const rs_module_pattern before[] = {
    {"layers.#.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    ROW("layers.#.post_attention_layernorm", RS_ROLE_NORM_MLP),
    END};
static const rs_module_pattern sandwich[] =
    {/* GLM-4 */
     {"layers.#.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
     {"layers.#.post_self_attn_layernorm", RS_ROLE_NORM_MIXER_OUT, RS_SLOT_MAIN, 0},
     {"layers.#.post_attention_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
     {"layers.#.post_mlp_layernorm", RS_ROLE_NORM_MLP_OUT, RS_SLOT_MAIN, 0},
     END};
static const rs_module_pattern vaultgemma[] = {
    {"layers.#.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"layers.#.pre_feedforward_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    END};
static const rs_module_pattern apertus[] = {
    {"layers.#.attention_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"layers.#.feedforward_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    ROW("layers.#.mlp.act_fn.*", RS_ROLE_OTHER),
    END};
static const rs_module_pattern lfm2[] = {
    {"layers.#.operator_norm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"layers.#.ffn_norm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    ROW("layers.#.conv.in_proj", RS_ROLE_SSM_IN),
    ROW("layers.#.conv.conv", RS_ROLE_SSM_CONV),
    ROW("layers.#.conv.out_proj", RS_ROLE_SSM_OUT),
    ROW("layers.#.conv.*", RS_ROLE_OTHER),
    ROW("layers.#.feed_forward.w1", RS_ROLE_MLP_GATE),
    ROW("layers.#.feed_forward.w3", RS_ROLE_MLP_UP),
    ROW("layers.#.feed_forward.w2", RS_ROLE_MLP_DOWN),
    END};
static const rs_module_pattern behind[] = {
    {"layers.#.post_attention_layernorm", RS_ROLE_NORM_MIXER_OUT, RS_SLOT_MAIN, 0},
    {"layers.#.post_feedforward_layernorm", RS_ROLE_NORM_MLP_OUT, RS_SLOT_MAIN, 0},
    END};
static const rs_module_pattern gemma3n[] = {
    ROW("layers.#.altup.*", RS_ROLE_OTHER),
    ROW("layers.#.laurel.*", RS_ROLE_OTHER),
    ROW("layers.#.per_layer_*", RS_ROLE_OTHER),
    ROW("layers.#.post_per_layer_input_norm", RS_ROLE_OTHER),
    ROW("altup_*", RS_ROLE_OTHER),
    ROW("per_layer_*", RS_ROLE_OTHER),
    ROW("embed_tokens_per_layer", RS_ROLE_EMBED_OTHER),
    END};
#define DELTA "layers.#.linear_attn."
#define DELTA_NUMBERS                                                                              \
    ROW(DELTA "conv1d", RS_ROLE_SSM_CONV), ROW(DELTA "A_log", RS_ROLE_SSM_A),                      \
        ROW(DELTA "dt_bias", RS_ROLE_SSM_DT_BIAS)

/* Qwen3-Next: each head's query is followed by a gate for what the head writes. */
static const rs_module_pattern gated[] = {
    {"embed_tokens", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"layers.#.self_attn.q_proj", RS_ROLE_Q, RS_SLOT_MAIN, RS_P_GATED},
    {"layers.#.self_attn.k_proj", RS_ROLE_K, RS_SLOT_MAIN, 0},
    {"layers.#.self_attn.v_proj", RS_ROLE_V, RS_SLOT_MAIN, 0},
    {"layers.#.self_attn.o_proj", RS_ROLE_O, RS_SLOT_MAIN, 0},
    ROW("layers.#.self_attn.q_norm", RS_ROLE_Q_NORM),
    ROW("layers.#.self_attn.k_norm", RS_ROLE_K_NORM),
    ROW("lm_head", RS_ROLE_LM_HEAD),
    ROW("mtp.*", RS_ROLE_OTHER),
    ROW(DELTA "in_proj_qkvz", RS_ROLE_DELTA_QKVZ),
    ROW(DELTA "in_proj_ba", RS_ROLE_DELTA_BA),
    ROW(DELTA "in_proj_qkv", RS_ROLE_DELTA_QKV),
    ROW(DELTA "in_proj_z", RS_ROLE_DELTA_Z),
    ROW(DELTA "in_proj_b", RS_ROLE_DELTA_B),
    ROW(DELTA "in_proj_a", RS_ROLE_DELTA_A),
    ROW(DELTA "norm", RS_ROLE_SSM_NORM),
    ROW(DELTA "out_proj", RS_ROLE_SSM_OUT),
    DELTA_NUMBERS,
    END};
/* OLMo Hybrid: attention with norms behind, delta rules with norms before. */
static const rs_module_pattern olmo_hybrid[] = {
    {"layers.#.post_attention_layernorm", RS_ROLE_NORM_MIXER_OUT, RS_SLOT_MAIN, 0},
    ROW("layers.#.post_feedforward_layernorm", RS_ROLE_NORM_MLP_OUT),
    ROW("layers.#.feedforward_layer_norm", RS_ROLE_NORM_MIXER_OUT), /* as transformers writes it */
    ROW("layers.#.input_layernorm", RS_ROLE_NORM_MIXER),
    ROW("layers.#.attention_layer_norm", RS_ROLE_NORM_MIXER),
    ROW(DELTA "q_conv1d", RS_ROLE_SSM_CONV),
    ROW(DELTA "k_conv1d", RS_ROLE_DELTA_CONV_K),
    ROW(DELTA "v_conv1d", RS_ROLE_DELTA_CONV_V),
    ROW(DELTA "q_proj", RS_ROLE_DELTA_Q),
    ROW(DELTA "k_proj", RS_ROLE_DELTA_K),
    ROW(DELTA "v_proj", RS_ROLE_DELTA_V),
    ROW(DELTA "g_proj", RS_ROLE_DELTA_Z),
    ROW(DELTA "b_proj", RS_ROLE_DELTA_B),
    ROW(DELTA "a_proj", RS_ROLE_DELTA_A),
    ROW(DELTA "o_norm", RS_ROLE_SSM_NORM),
    ROW(DELTA "o_proj", RS_ROLE_SSM_OUT),
    DELTA_NUMBERS,
    END};

static const rs_field_row values_apart[] = {
    RS_FIELDS_OF_SIZES, {RS_FIELD_VALUE_DIM, "v_head_dim"}, {RS_FIELD_COUNT, NULL}};

#define HEAD_DIM(name, n)                                                                          \
    static const rs_field_default name[] = {{RS_FIELD_HEAD_DIM, n}, {RS_FIELD_COUNT, 0}}
HEAD_DIM(c64, 64);
HEAD_DIM(c128, 128);
HEAD_DIM(c256, 256);
static const rs_field_default mimo[] = {
    {RS_FIELD_HEAD_DIM, 192}, {RS_FIELD_VALUE_DIM, 128}, {RS_FIELD_COUNT, 0}};

#define KIN(name_, types_, norms_, norm_, rope_)                                                   \
    .name = (name_), .types = (types_), .dialect = rs_dialect_common,                              \
    .patterns = {rs_patterns_llama, (norms_), more, rs_patterns_moe, rs_patterns_other},           \
    .prefixes = rs_prefixes_decoder, .norm = (norm_), .rope = (rope_)
#define GATED(name_, types_)                                                                       \
    .name = (name_), .types = (types_), .dialect = rs_dialect_common, .defaults = c256,            \
    .patterns = {gated, before, more, rs_patterns_moe, rs_patterns_other},                         \
    .prefixes = rs_prefixes_decoder, .norm = RS_NORM_RMSNORM_PLUS_ONE, .rope = RS_ROPE_HALF_SPLIT, \
    .rope_fraction = 0.25, .facts = RS_FACT_PRE_NORM | RS_FACT_PARTIAL_ROPE | RS_FACT_HYBRID
#define RMS RS_NORM_RMSNORM
#define LAYER RS_NORM_LAYERNORM
#define HALF RS_ROPE_HALF_SPLIT
#define TURNS RS_ROPE_INTERLEAVED
enum { PRE = RS_FACT_PRE_NORM, PART = RS_FACT_PRE_NORM | RS_FACT_PARTIAL_ROPE };

const rs_family rs_families_kin[] = {
    /* neighbours rotate together */
    {KIN("cohere", "cohere", before, LAYER, TURNS), .facts = PRE | RS_FACT_QK_LAYERNORM},
    {KIN("cohere2", "cohere2", before, LAYER, TURNS), .facts = PRE, .turning = RS_TURN_WINDOWS,
     .window_period = 4},
    {KIN("glm", "glm", before, RMS, TURNS), .defaults = c128, .rope_fraction = 0.5, .facts = PART},
    {KIN("glm4", "glm4", sandwich, RMS, TURNS), .defaults = c128, .rope_fraction = 0.5,
     .facts = PART},
    {KIN("ernie4_5", "ernie4_5", before, RMS, TURNS), .defaults = c128, .facts = PRE},
    {KIN("ernie4_5", "ernie4_5_moe", before, RMS, TURNS), .facts = PRE},
    {KIN("helium", "helium", before, RMS, TURNS), .defaults = c128, .facts = PRE},
    {KIN("llama4", "llama4_text llama4", before, RMS, TURNS), .defaults = c128,
     .facts = PRE | RS_FACT_BARE_QK_NORM | RS_FACT_QK_NORM_TURNED, .turning = RS_TURN_LISTED},
    /* not all layers rotate */
    {KIN("smollm3", "smollm3", before, RMS, HALF), .facts = PRE, .turning = RS_TURN_LISTED},
    {KIN("exaone4", "exaone4", behind, RMS, HALF), .turning = RS_TURN_ANY_WINDOWS,
     .window_period = 4},
    {KIN("exaone_moe", "exaone_moe", before, RMS, HALF), .facts = PRE,
     .turning = RS_TURN_ANY_WINDOWS, .window_period = 4},
    /* norms that are no plain RMSNorm */
    {KIN("nemotron", "nemotron", before, RS_NORM_LAYERNORM_PLUS_ONE, HALF), .rope_fraction = 0.5,
     .facts = PART},
    {KIN("vaultgemma", "vaultgemma", vaultgemma, RS_NORM_RMSNORM_PLUS_ONE, HALF), .defaults = c256,
     .facts = PRE},
    {KIN("starcoder2", "starcoder2", before, LAYER, HALF), .facts = PRE},
    {KIN("phimoe", "phimoe", before, LAYER, HALF), .facts = PRE},
    {KIN("jais2", "jais2", before, LAYER, HALF), .facts = PRE},
    {KIN("phi", "phi", before, LAYER, HALF), .rope_fraction = 0.5,
     .facts = PART | RS_FACT_QK_LAYERNORM},
    {KIN("stablelm", "stablelm", before, LAYER, HALF), .rope_fraction = 0.25,
     .facts = PART | RS_FACT_QK_LAYERNORM},
    /* queries and keys are normalised */
    {KIN("hunyuan_v1", "hunyuan_v1_dense hunyuan_v1_moe", before, RMS, HALF), .facts = PRE},
    {KIN("nanochat", "nanochat", more, RMS, HALF),
     .facts = PRE | RS_FACT_BARE_NORM | RS_FACT_BARE_QK_NORM},
    {KIN("olmoe", "olmoe", before, RMS, HALF), .facts = PRE | RS_FACT_QK_NORM_FULL},
    {KIN("minimax_m2", "minimax_m2", before, RMS, HALF), .defaults = c128,
     .facts = PART | RS_FACT_QK_NORM_FULL},
    {KIN("glm4_moe", "glm4_moe", before, RMS, HALF), .rope_fraction = 0.5, .facts = PART},
    {KIN("apertus", "apertus", apertus, RMS, HALF), .facts = PRE},
    {KIN("lfm2", "lfm2", lfm2, RMS, HALF), .facts = PRE | RS_FACT_HYBRID,
     .forward = &rs_forward_lfm2},
    {GATED("qwen3_5", "qwen3_5_text qwen3_5"), .forward = &rs_forward_qwen3_5},
    {GATED("qwen3_next", "qwen3_next qwen3_5_moe_text qwen3_5_moe"),
     .forward = &rs_forward_qwen3_next},
    {KIN("olmo_hybrid", "olmo_hybrid", olmo_hybrid, RMS, HALF),
     .facts = RS_FACT_QK_NORM_FULL | RS_FACT_HYBRID | RS_FACT_NULL_ROPE | RS_FACT_LAST_ATTENDS,
     .forward = &rs_forward_olmo_hybrid},
    /* other scores, other values */
    {.name = "gemma3n",
     .types = "gemma3n_text gemma3n",
     .dialect = rs_dialect_common,
     .defaults = c256,
     .patterns = {rs_patterns_llama, rs_patterns_sandwich, gemma3n, rs_patterns_other},
     .prefixes = rs_prefixes_decoder,
     .norm = RMS,
     .rope = HALF,
     .facts = PRE | RS_FACT_UNIT_SCALE | RS_FACT_VALUE_NORM | RS_FACT_SHARED_KV},
    {KIN("diffllama", "diffllama", before, RMS, HALF), .facts = PRE | RS_FACT_PAIRED_VALUES},
    {.name = "mimo_v2_flash",
     .types = "mimo_v2_flash",
     .dialect = values_apart,
     .defaults = mimo,
     .patterns = {rs_patterns_llama, before, more, rs_patterns_moe, rs_patterns_other},
     .prefixes = rs_prefixes_decoder,
     .norm = RMS,
     .rope = HALF,
     .rope_fraction = 0.334,
     .facts = PART | RS_FACT_WINDOWS_DOUBLE_KV},
    /* LLaMA by another name */
    {KIN("ministral3", "ministral3", before, RMS, HALF), .defaults = c128, .facts = PRE},
    {KIN("seed_oss", "seed_oss", before, RMS, HALF), .defaults = c128, .facts = PRE},
    {KIN("cwm", "cwm", before, RMS, HALF), .defaults = c128, .facts = PRE},
    {KIN("granite_swa", "granite_swa granitemoe_swa", before, RMS, HALF), .facts = PRE},
    {KIN("arcee", "arcee", before, RMS, HALF), .facts = PRE},
    {KIN("gpt_oss", "gpt_oss", before, RMS, HALF), .defaults = c64, .facts = PRE},
    {KIN("granitemoe", "granitemoe granitemoeshared", before, RMS, HALF), .facts = PRE},
    {.name = NULL}};
