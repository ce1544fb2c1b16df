/*
 * families_ssm.c: Mamba, Mamba-2, and hybrids that mix state-space and attention layers.
 *
 * Names and splits after the modules of transformers 5.23 (mamba, mamba2, falcon_mamba, jamba,
 * bamba, granitemoehybrid, zamba2, nemotron_h, falcon_h1) and the state-spaces repository's config;
 * see docs/formats.md, 5.8 and 5.9.
 */
#include "recognise/family.h"

const rs_field_row rs_dialect_mamba[] = {{RS_FIELD_WIDTH, "hidden_size"},
                                         {RS_FIELD_WIDTH, "d_model"},
                                         {RS_FIELD_LAYERS, "num_hidden_layers"},
                                         {RS_FIELD_LAYERS, "n_layer"},
                                         {RS_FIELD_SSM_INNER, "intermediate_size"},
                                         {RS_FIELD_SSM_INNER, "d_inner"},
                                         {RS_FIELD_SSM_EXPAND, "expand"},
                                         {RS_FIELD_SSM_EXPAND, "ssm_cfg.expand"},
                                         {RS_FIELD_SSM_STATE, "state_size"},
                                         {RS_FIELD_SSM_STATE, "mamba2_state_size"},
                                         {RS_FIELD_SSM_STATE, "ssm_cfg.d_state"},
                                         {RS_FIELD_SSM_RANK, "time_step_rank"},
                                         {RS_FIELD_SSM_RANK, "ssm_cfg.dt_rank"},
                                         {RS_FIELD_SSM_HEADS, "num_heads"},
                                         {RS_FIELD_SSM_HEADS, "mamba2_num_heads"},
                                         {RS_FIELD_SSM_HEADS, "ssm_cfg.nheads"},
                                         {RS_FIELD_SSM_HEAD_DIM, "head_dim"},
                                         {RS_FIELD_SSM_HEAD_DIM, "mamba2_head_dim"},
                                         {RS_FIELD_SSM_HEAD_DIM, "ssm_cfg.headdim"},
                                         {RS_FIELD_SSM_GROUPS, "n_groups"},
                                         {RS_FIELD_SSM_GROUPS, "mamba2_n_groups"},
                                         {RS_FIELD_SSM_GROUPS, "ssm_cfg.ngroups"},
                                         {RS_FIELD_COUNT, NULL}};

const rs_field_row rs_dialect_hybrid[] = {
    {RS_FIELD_WIDTH, "hidden_size"},           {RS_FIELD_LAYERS, "num_hidden_layers"},
    {RS_FIELD_LAYERS, "layers_block_type"}, /* a list: its length counts */
    {RS_FIELD_HEADS, "num_attention_heads"},   {RS_FIELD_KV_HEADS, "num_key_value_heads"},
    {RS_FIELD_HEAD_DIM, "attention_head_dim"}, {RS_FIELD_HEAD_DIM, "head_dim"},
    {RS_FIELD_SSM_INNER, "mamba_d_ssm"},       {RS_FIELD_SSM_EXPAND, "mamba_expand"},
    {RS_FIELD_SSM_EXPAND, "expand"},           {RS_FIELD_SSM_STATE, "mamba_d_state"},
    {RS_FIELD_SSM_STATE, "ssm_state_size"},    {RS_FIELD_SSM_RANK, "mamba_dt_rank"},
    {RS_FIELD_SSM_HEADS, "mamba_n_heads"},     {RS_FIELD_SSM_HEADS, "n_mamba_heads"},
    {RS_FIELD_SSM_HEADS, "mamba_num_heads"},   {RS_FIELD_SSM_HEAD_DIM, "mamba_d_head"},
    {RS_FIELD_SSM_HEAD_DIM, "mamba_headdim"},  {RS_FIELD_SSM_HEAD_DIM, "mamba_head_dim"},
    {RS_FIELD_SSM_GROUPS, "mamba_n_groups"},   {RS_FIELD_SSM_GROUPS, "mamba_ngroups"},
    {RS_FIELD_SSM_GROUPS, "n_groups"},         {RS_FIELD_COUNT, NULL}};

/* Layers are counted by their list, whatever num_hidden_layers says (transformers 5.23). */
const rs_field_row rs_dialect_nemotron[] = {{RS_FIELD_WIDTH, "hidden_size"},
                                            {RS_FIELD_LAYERS, "layers_block_type"},
                                            {RS_FIELD_LAYERS, "layer_types"},
                                            {RS_FIELD_LAYERS, "hybrid_override_pattern"},
                                            {RS_FIELD_LAYERS, "num_hidden_layers"},
                                            {RS_FIELD_HEADS, "num_attention_heads"},
                                            {RS_FIELD_KV_HEADS, "num_key_value_heads"},
                                            {RS_FIELD_HEAD_DIM, "head_dim"},
                                            {RS_FIELD_HEAD_DIM, "attention_head_dim"},
                                            {RS_FIELD_SSM_STATE, "ssm_state_size"},
                                            {RS_FIELD_SSM_HEADS, "mamba_num_heads"},
                                            {RS_FIELD_SSM_HEAD_DIM, "mamba_head_dim"},
                                            {RS_FIELD_SSM_GROUPS, "mamba_n_groups"},
                                            {RS_FIELD_SSM_GROUPS, "n_groups"},
                                            {RS_FIELD_COUNT, NULL}};

#define MIXER(at, flags)                                                                           \
    {at "in_proj", RS_ROLE_SSM_IN, RS_SLOT_MAIN, (flags)},                                         \
        {at "x_proj", RS_ROLE_SSM_X, RS_SLOT_MAIN, RS_P_OPTIONAL},                                 \
        {at "dt_proj", RS_ROLE_SSM_DT, RS_SLOT_MAIN, RS_P_OPTIONAL},                               \
        {at "dt_bias", RS_ROLE_SSM_DT_BIAS, RS_SLOT_MAIN, RS_P_OPTIONAL},                          \
        {at "conv1d", RS_ROLE_SSM_CONV, RS_SLOT_MAIN, (flags)},                                    \
        {at "A_log", RS_ROLE_SSM_A, RS_SLOT_MAIN, (flags)},                                        \
        {at "D", RS_ROLE_SSM_D, RS_SLOT_MAIN, (flags)},                                            \
        {at "norm", RS_ROLE_SSM_NORM, RS_SLOT_MAIN, RS_P_OPTIONAL},                                \
        {at "dt_layernorm", RS_ROLE_SSM_DT_NORM, RS_SLOT_MAIN, RS_P_OPTIONAL},                     \
        {at "b_layernorm", RS_ROLE_SSM_B_NORM, RS_SLOT_MAIN, RS_P_OPTIONAL},                       \
        {at "c_layernorm", RS_ROLE_SSM_C_NORM, RS_SLOT_MAIN, RS_P_OPTIONAL},                       \
    {                                                                                              \
        at "out_proj", RS_ROLE_SSM_OUT, RS_SLOT_MAIN, (flags)                                      \
    }

static const rs_module_pattern mamba[] = {
    {"embeddings", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"embedding", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.norm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    MIXER("layers.#.mixer.", 0),
    {"norm_f", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},
    {"lm_head", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

static const rs_module_pattern hybrid[] = {
    MIXER("layers.#.mamba.", RS_P_OPTIONAL),
    {"norm", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"final_layernorm", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"layers.#.pre_ff_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.post_attention_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.feed_forward.gate_proj", RS_ROLE_MLP_GATE, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.feed_forward.up_proj", RS_ROLE_MLP_UP, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.feed_forward.down_proj", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.shared_mlp.input_linear", RS_ROLE_MLP_GATE_UP, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.shared_mlp.output_linear", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

#define SHARED "layers.#.shared_transformer."
static const rs_module_pattern zamba2[] = {
    {"embed_tokens", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    MIXER("layers.#.mamba.", RS_P_OPTIONAL),
    MIXER("layers.#.mamba_decoder.mamba.", RS_P_OPTIONAL),
    {"layers.#.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mamba_decoder.input_layernorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.linear", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {SHARED "self_attn.q_proj", RS_ROLE_Q, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {SHARED "self_attn.k_proj", RS_ROLE_K, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {SHARED "self_attn.v_proj", RS_ROLE_V, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {SHARED "self_attn.o_proj", RS_ROLE_O, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {SHARED "self_attn.*", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {SHARED "input_layernorm", RS_ROLE_NORM_CROSS, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {SHARED "pre_ff_layernorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {SHARED "feed_forward.gate_up_proj", RS_ROLE_MLP_GATE_UP, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {SHARED "feed_forward.down_proj", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {SHARED "feed_forward.*", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"final_layernorm", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},
    {"lm_head", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

static const rs_module_pattern nemotron_h[] = {
    {"embeddings", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"layers.#.norm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    MIXER("layers.#.mixer.", RS_P_OPTIONAL),
    {"layers.#.mixer.q_proj", RS_ROLE_Q, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mixer.k_proj", RS_ROLE_K, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mixer.v_proj", RS_ROLE_V, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mixer.o_proj", RS_ROLE_O, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mixer.up_proj", RS_ROLE_MLP_UP, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mixer.down_proj", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mixer.gate*", RS_ROLE_MOE_ROUTER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mixer.experts.*", RS_ROLE_MOE_EXPERT, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mixer.shared_experts.*", RS_ROLE_MOE_EXPERT, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"norm_f", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},
    {"lm_head", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"mtp.*", RS_ROLE_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL}, /* guesses of tokens further on */
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

static const rs_field_default mamba_defaults[] = {
    {RS_FIELD_SSM_STATE, 16}, {RS_FIELD_SSM_EXPAND, 2}, {RS_FIELD_COUNT, 0}};
static const rs_field_default mamba2_defaults[] = {{RS_FIELD_SSM_STATE, 128},
                                                   {RS_FIELD_SSM_EXPAND, 2},
                                                   {RS_FIELD_SSM_HEAD_DIM, 64},
                                                   {RS_FIELD_COUNT, 0}};
static const rs_field_default jamba_defaults[] = {
    {RS_FIELD_SSM_STATE, 16}, {RS_FIELD_SSM_EXPAND, 2}, {RS_FIELD_COUNT, 0}};
static const rs_field_default hybrid_defaults[] = {{RS_FIELD_SSM_EXPAND, 2}, {RS_FIELD_COUNT, 0}};

static const char *const mamba_prefixes[] = {"backbone.", "model.backbone.", "model.", NULL};
static const char *const nemotron_prefixes[] = {"backbone.", "model.", NULL};

#define HYBRID(name_, types_, ssm_)                                                                \
    .name = (name_), .types = (types_), .dialect = rs_dialect_hybrid,                              \
    .patterns = {rs_patterns_llama, hybrid, rs_patterns_moe, rs_patterns_other},                   \
    .prefixes = rs_prefixes_decoder, .norm = RS_NORM_RMSNORM, .ssm = (ssm_)

const rs_family rs_families_ssm[] = {
    {.name = "mamba",
     .types = "mamba",
     .dialect = rs_dialect_mamba,
     .defaults = mamba_defaults,
     .patterns = {mamba},
     .prefixes = mamba_prefixes,
     .norm = RS_NORM_RMSNORM,
     .ssm = RS_SSM_S6,
     .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_mamba},
    {.name = "falcon_mamba",
     .types = "falcon_mamba",
     .dialect = rs_dialect_mamba,
     .defaults = mamba_defaults,
     .patterns = {mamba},
     .prefixes = mamba_prefixes,
     .norm = RS_NORM_RMSNORM,
     .ssm = RS_SSM_S6,
     .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_falcon_mamba},
    {.name = "mamba2",
     .types = "mamba2",
     .dialect = rs_dialect_mamba,
     .defaults = mamba2_defaults,
     .patterns = {mamba},
     .prefixes = mamba_prefixes,
     .norm = RS_NORM_RMSNORM,
     .ssm = RS_SSM_SSD,
     .facts = RS_FACT_PRE_NORM,
     .forward = &rs_forward_mamba2},
    {HYBRID("jamba", "jamba", RS_SSM_S6), .defaults = jamba_defaults, .forward = &rs_forward_jamba,
     .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID},
    {HYBRID("bamba", "bamba", RS_SSM_SSD), .defaults = hybrid_defaults,
     .forward = &rs_forward_bamba, .rope = RS_ROPE_HALF_SPLIT, .rope_fraction = 0.5,
     .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID | RS_FACT_PARTIAL_ROPE},
    {HYBRID("granitemoehybrid", "granitemoehybrid", RS_SSM_SSD), .defaults = hybrid_defaults,
     .forward = &rs_forward_granite_hybrid, .rope = RS_ROPE_HALF_SPLIT,
     .rope_if = "position_embedding_type", .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID},
    {HYBRID("falcon_h1", "falcon_h1", RS_SSM_SSD), .defaults = hybrid_defaults,
     .forward = &rs_forward_falcon_h1, .rope = RS_ROPE_HALF_SPLIT,
     .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID | RS_FACT_BOTH},
    {.name = "zamba2",
     .types = "zamba2",
     .dialect = rs_dialect_hybrid,
     .defaults = hybrid_defaults,
     .patterns = {zamba2},
     .prefixes = rs_prefixes_decoder,
     .norm = RS_NORM_RMSNORM,
     .rope = RS_ROPE_HALF_SPLIT,
     .rope_if = "use_mem_rope",
     .ssm = RS_SSM_SSD,
     .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID | RS_FACT_TIED_ATTENTION | RS_FACT_WIDE_INPUT |
              RS_FACT_HALF_SCALE | RS_FACT_STEP_FROM_MIN},
    {.name = "nemotron_h",
     .types = "nemotron_h",
     .dialect = rs_dialect_nemotron,
     .forward = &rs_forward_nemotron_h,
     .patterns = {nemotron_h},
     .prefixes = nemotron_prefixes,
     .norm = RS_NORM_RMSNORM,
     .ssm = RS_SSM_SSD,
     .facts = RS_FACT_PRE_NORM | RS_FACT_HYBRID | RS_FACT_STEP_FROM_MIN},
    {.name = "zamba",
     .types = "zamba",
     .dialect = rs_dialect_hybrid,
     .patterns = {hybrid},
     .refusal = "its in_proj interleaves x and gate row by row and its x_proj holds one matrix a "
                "head; this layout is not read"},
    {.name = NULL}};
