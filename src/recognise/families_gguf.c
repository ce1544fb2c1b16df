/*
 * families_gguf.c: the same families under GGUF names. One list of tensor names serves all
 * architectures (gguf-py 0.19 constants); what converters change is in the facts: every fused qkv
 * is rows q|k|v there, Gemma's norms have their 1 added already, llama's rotary pairs are
 * interleaved (docs/formats.md, 8).
 */
#include "recognise/family.h"

const rs_field_row rs_dialect_gguf[] = {
    {RS_FIELD_WIDTH, "embedding_length"},         {RS_FIELD_LAYERS, "block_count"},
    {RS_FIELD_HEADS, "attention.head_count"},     {RS_FIELD_KV_HEADS, "attention.head_count_kv"},
    {RS_FIELD_HEAD_DIM, "attention.key_length"},  {RS_FIELD_VALUE_DIM, "attention.value_length"},
    {RS_FIELD_ROPE_DIMS, "rope.dimension_count"}, {RS_FIELD_SSM_INNER, "ssm.inner_size"},
    {RS_FIELD_SSM_STATE, "ssm.state_size"},       {RS_FIELD_SSM_RANK, "ssm.time_step_rank"},
    {RS_FIELD_SSM_GROUPS, "ssm.group_count"},     {RS_FIELD_COUNT, NULL}};

/* Mamba-2 keeps its head count where Mamba has the rank of dt. */
const rs_field_row rs_dialect_gguf_mamba2[] = {
    {RS_FIELD_WIDTH, "embedding_length"},         {RS_FIELD_LAYERS, "block_count"},
    {RS_FIELD_HEADS, "attention.head_count"},     {RS_FIELD_KV_HEADS, "attention.head_count_kv"},
    {RS_FIELD_HEAD_DIM, "attention.key_length"},  {RS_FIELD_VALUE_DIM, "attention.value_length"},
    {RS_FIELD_ROPE_DIMS, "rope.dimension_count"}, {RS_FIELD_SSM_INNER, "ssm.inner_size"},
    {RS_FIELD_SSM_STATE, "ssm.state_size"},       {RS_FIELD_SSM_HEADS, "ssm.time_step_rank"},
    {RS_FIELD_SSM_GROUPS, "ssm.group_count"},     {RS_FIELD_COUNT, NULL}};

#define OPT RS_SLOT_MAIN, RS_P_OPTIONAL
static const rs_module_pattern names[] = {
    {"token_embd", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"token_embd_norm", RS_ROLE_NORM_EMBED, OPT},
    {"token_types", RS_ROLE_EMBED_TYPE, OPT},
    {"position_embd", RS_ROLE_EMBED_POSITION, OPT},
    {"output_norm", RS_ROLE_NORM_FINAL, OPT},
    {"output", RS_ROLE_LM_HEAD, OPT},
    {"cls*", RS_ROLE_HEAD_OTHER, OPT},
    {"rope_freqs", RS_ROLE_ROPE_DIVISORS, OPT},
    {"rope_factors_long", RS_ROLE_ROPE_TABLE, OPT},
    {"rope_factors_short", RS_ROLE_ROPE_TABLE, OPT},
    {"blk.#.rope_freqs", RS_ROLE_ROPE_TABLE, OPT},
    {"blk.#.attn_rot_embd", RS_ROLE_ROPE_TABLE, OPT},
    {"blk.#.attn_q", RS_ROLE_Q, OPT},
    {"blk.#.attn_k", RS_ROLE_K, OPT},
    {"blk.#.attn_v", RS_ROLE_V, OPT},
    {"blk.#.attn_qkv", RS_ROLE_QKV, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_ROWS},
    {"blk.#.attn_output", RS_ROLE_O, OPT},
    {"blk.#.attn_q_norm", RS_ROLE_Q_NORM, OPT},
    {"blk.#.attn_k_norm", RS_ROLE_K_NORM, OPT},
    {"blk.#.attn_norm", RS_ROLE_NORM_MIXER, OPT},
    {"blk.#.attn_norm_2", RS_ROLE_NORM_MLP, OPT},
    {"blk.#.attn_output_norm", RS_ROLE_NORM_MIXER, OPT},
    {"blk.#.post_attention_norm", RS_ROLE_NORM_MIXER_OUT, OPT},
    {"blk.#.ffn_norm", RS_ROLE_NORM_MLP, OPT},
    {"blk.#.layer_output_norm", RS_ROLE_NORM_MLP, OPT},
    {"blk.#.post_ffw_norm", RS_ROLE_NORM_MLP_OUT, OPT},
    {"blk.#.ffn_gate", RS_ROLE_MLP_GATE, OPT},
    {"blk.#.ffn_up", RS_ROLE_MLP_UP, OPT},
    {"blk.#.ffn_down", RS_ROLE_MLP_DOWN, OPT},
    {"blk.#.ffn_gate_inp*", RS_ROLE_MOE_ROUTER, OPT},
    {"blk.#.exp_probs_b", RS_ROLE_MOE_ROUTER, OPT},
    {"blk.#.ffn_gate_*", RS_ROLE_MOE_EXPERT, OPT},
    {"blk.#.ffn_up_*", RS_ROLE_MOE_EXPERT, OPT},
    {"blk.#.ffn_down_*", RS_ROLE_MOE_EXPERT, OPT},
    {"blk.#.ssm_in", RS_ROLE_SSM_IN, OPT},
    {"blk.#.ssm_conv1d", RS_ROLE_SSM_CONV, OPT},
    {"blk.#.ssm_x", RS_ROLE_SSM_X, OPT},
    {"blk.#.ssm_dt", RS_ROLE_SSM_DT, OPT},
    {"blk.#.ssm_a", RS_ROLE_SSM_A, OPT},
    {"blk.#.ssm_d", RS_ROLE_SSM_D, OPT},
    {"blk.#.ssm_norm", RS_ROLE_SSM_NORM, OPT},
    {"blk.#.ssm_dt_norm", RS_ROLE_SSM_DT_NORM, OPT},
    {"blk.#.ssm_b_norm", RS_ROLE_SSM_B_NORM, OPT},
    {"blk.#.ssm_c_norm", RS_ROLE_SSM_C_NORM, OPT},
    {"blk.#.ssm_out", RS_ROLE_SSM_OUT, OPT},
    {"blk.#.attn_q_a", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_MLA},
    {"blk.#.attn_q_b", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_MLA},
    {"blk.#.attn_kv_a_mqa", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_MLA},
    {"blk.#.attn_kv_b", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_MLA},
    {"blk.#.attn_k_b", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_MLA},
    {"blk.#.attn_v_b", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_MLA},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* Mamba-2 adds its bias of dt to what in_proj gives: it belongs to no map, as Mamba's does. */
static const rs_module_pattern dt_bias[] = {{"blk.#.ssm_dt.bias", RS_ROLE_SSM_DT_BIAS, OPT},
                                            {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* LFM2: the norm behind the last layer has the name of one behind the embedding. */
static const rs_module_pattern lfm2[] = {{"token_embd_norm", RS_ROLE_NORM_FINAL, OPT},
                                         {"blk.#.shortconv.in_proj", RS_ROLE_SSM_IN, OPT},
                                         {"blk.#.shortconv.conv", RS_ROLE_SSM_CONV, OPT},
                                         {"blk.#.shortconv.out_proj", RS_ROLE_SSM_OUT, OPT},
                                         {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* Qwen3-Next and Qwen3.5: each head's query is followed by a gate for what the head writes. */
static const rs_module_pattern delta[] = {
    {"blk.#.attn_q", RS_ROLE_Q, RS_SLOT_MAIN, RS_P_OPTIONAL | RS_P_GATED},
    {"blk.#.post_attention_norm", RS_ROLE_NORM_MLP, OPT},
    {"blk.#.attn_qkv", RS_ROLE_DELTA_QKV, OPT},
    {"blk.#.attn_gate", RS_ROLE_DELTA_Z, OPT},
    {"blk.#.ssm_beta", RS_ROLE_DELTA_B, OPT},
    {"blk.#.ssm_alpha", RS_ROLE_DELTA_A, OPT},
    {"blk.#.ssm_ba", RS_ROLE_DELTA_BA, OPT},
    {"blk.#.ssm_in", RS_ROLE_DELTA_QKVZ, OPT}, /* as the first files had it */
    {"blk.#.nextn.*", RS_ROLE_OTHER, OPT},     /* guesses of tokens further on */
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

#define GGUF(name_, types_, norm_, rope_)                                                          \
    .name = (name_), .types = (types_), .dialect = rs_dialect_gguf, .patterns = {names},           \
    .norm = (norm_), .rope = (rope_)
#define GGUF_S6(name_, types_)                                                                     \
    .name = (name_), .types = (types_), .dialect = rs_dialect_gguf, .patterns = {names},           \
    .norm = RS_NORM_RMSNORM, .ssm = RS_SSM_S6
#define GGUF_SSD(name_, types_)                                                                    \
    .name = (name_), .types = (types_), .dialect = rs_dialect_gguf_mamba2,                         \
    .patterns = {dt_bias, names}, .norm = RS_NORM_RMSNORM, .ssm = RS_SSM_SSD

/* What such a model has of its own comes first. */
#define GGUF_OWN(name_, types_, own_)                                                              \
    .name = (name_), .types = (types_), .dialect = rs_dialect_gguf,                                \
    .patterns = {own_, dt_bias, names}, .norm = RS_NORM_RMSNORM, .rope = RS_ROPE_HALF_SPLIT

const rs_family rs_families_gguf[] = {
    {GGUF("llama", "llama", RS_NORM_RMSNORM, RS_ROPE_INTERLEAVED),
     .facts = RS_FACT_PRE_NORM | RS_FACT_GUESS, .forward = &rs_forward_llama},
    {GGUF("qwen2", "qwen2 qwen2moe", RS_NORM_RMSNORM, RS_ROPE_HALF_SPLIT),
     .facts = RS_FACT_PRE_NORM, .forward = &rs_forward_qwen2},
    {GGUF("qwen3", "qwen3 qwen3moe", RS_NORM_RMSNORM, RS_ROPE_HALF_SPLIT),
     .facts = RS_FACT_PRE_NORM, .forward = &rs_forward_qwen3},
    {GGUF("gemma", "gemma", RS_NORM_RMSNORM, RS_ROPE_HALF_SPLIT), .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_gemma},
    {GGUF("gemma2", "gemma2", RS_NORM_RMSNORM, RS_ROPE_HALF_SPLIT),
     .facts = RS_FACT_PRE_NORM | RS_FACT_SCALE_UNSTATED, .forward = &rs_forward_gemma2},
    {GGUF("gemma3", "gemma3", RS_NORM_RMSNORM, RS_ROPE_HALF_SPLIT),
     .facts = RS_FACT_PRE_NORM | RS_FACT_SCALE_UNSTATED, .forward = &rs_forward_gemma3},
    {GGUF("phi3", "phi3", RS_NORM_RMSNORM, RS_ROPE_HALF_SPLIT), .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_phi3},
    {GGUF("granite", "granite granitemoe", RS_NORM_RMSNORM, RS_ROPE_INTERLEAVED),
     .facts = RS_FACT_PRE_NORM | RS_FACT_ROPE_SWITCH, .forward = &rs_forward_granite},
    {GGUF("olmo", "olmo", RS_NORM_LAYERNORM, RS_ROPE_INTERLEAVED),
     .facts = RS_FACT_PRE_NORM | RS_FACT_BARE_NORM},
    {GGUF("olmo2", "olmo2", RS_NORM_RMSNORM, RS_ROPE_HALF_SPLIT), .facts = RS_FACT_QK_NORM_FULL,
     .forward = &rs_forward_olmo2},
    {GGUF("gpt2", "gpt2", RS_NORM_LAYERNORM, RS_ROPE_NONE), .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_gpt2},
    {GGUF("gpt_neox", "gptneox", RS_NORM_LAYERNORM, RS_ROPE_HALF_SPLIT), .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_gpt_neox},
    {GGUF("falcon", "falcon", RS_NORM_LAYERNORM, RS_ROPE_HALF_SPLIT), .facts = RS_FACT_PRE_NORM},
    {GGUF("bert", "bert", RS_NORM_LAYERNORM, RS_ROPE_NONE), .forward = &rs_forward_bert},
    {GGUF_S6("falcon_mamba", "mamba"), .when = "ssm.dt_b_c_rms", .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_falcon_mamba},
    {GGUF_S6("mamba", "mamba"), .facts = RS_FACT_PRE_NORM, .forward = &rs_forward_mamba},
    {GGUF_SSD("mamba2", "mamba2"), .facts = RS_FACT_PRE_NORM, .forward = &rs_forward_mamba2},
    {GGUF_S6("jamba", "jamba"), .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID,
     .forward = &rs_forward_jamba},
    {GGUF_SSD("granitemoehybrid", "granitehybrid"), .rope = RS_ROPE_INTERLEAVED,
     .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID | RS_FACT_ROPE_SWITCH | RS_FACT_ROPE_SPREAD,
     .forward = &rs_forward_granite_hybrid},
    {GGUF_OWN("lfm2", "lfm2 lfm2moe", lfm2), .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID,
     .forward = &rs_forward_lfm2},
    {GGUF_OWN("qwen3_5", "qwen35 qwen35moe", delta),
     .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID | RS_FACT_TILED_HEADS,
     .forward = &rs_forward_qwen3_5},
    {GGUF_OWN("qwen3_next", "qwen3next", delta), .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID,
     .forward = &rs_forward_qwen3_next},
    {GGUF_SSD("falcon_h1", "falcon-h1"), .rope = RS_ROPE_HALF_SPLIT,
     .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID | RS_FACT_BOTH, .forward = &rs_forward_falcon_h1},
    {GGUF_SSD("nemotron_h", "nemotron_h nemotron_h_moe"),
     .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID | RS_FACT_STEP_FROM_MIN,
     .forward = &rs_forward_nemotron_h},
    {.name = NULL}};
