/*
 * families_forward.c: what a forward pass needs to know of a family beside names and sizes.
 *
 * The settings are the defaults of transformers 5.23's configuration classes under their own names:
 * a config.json says only what differs from them. Where norms stand, which biases exist and what
 * the masks are follows the modules of the same release. GGUF files are read through the same rows
 * (network_gguf.c gives their keys these names).
 */
#include "recognise/family.h"

#define NUMBER(key_, value_)                                                                       \
    {                                                                                              \
        .key = (key_), .number = (value_)                                                          \
    }
#define TEXT(key_, value_)                                                                         \
    {                                                                                              \
        .key = (key_), .text = (value_)                                                            \
    }
#define END                                                                                        \
    {                                                                                              \
        .key = NULL                                                                                \
    }
#define SIZES(width_, layers_, heads_, mlp_)                                                       \
    NUMBER("hidden_size", width_), NUMBER("num_hidden_layers", layers_),                           \
        NUMBER("num_attention_heads", heads_), NUMBER("intermediate_size", mlp_)

/* Sizes under the names that network_gguf.c gives to GGUF's keys. */
const rs_field_row rs_dialect_translated[] = {{RS_FIELD_WIDTH, "hidden_size"},
                                              {RS_FIELD_LAYERS, "num_hidden_layers"},
                                              {RS_FIELD_HEADS, "num_attention_heads"},
                                              {RS_FIELD_KV_HEADS, "num_key_value_heads"},
                                              {RS_FIELD_HEAD_DIM, "head_dim"},
                                              {RS_FIELD_VALUE_DIM, "value_dim"},
                                              {RS_FIELD_ROPE_DIMS, "rotary_dim"},
                                              {RS_FIELD_SSM_INNER, "ssm_inner_size"},
                                              {RS_FIELD_SSM_STATE, "ssm_state_size"},
                                              {RS_FIELD_SSM_RANK, "ssm_time_step_rank"},
                                              {RS_FIELD_SSM_HEADS, "ssm_head_count"},
                                              {RS_FIELD_SSM_GROUPS, "ssm_group_count"},
                                              {RS_FIELD_COUNT, NULL}};

/* ---- encoders with the norm behind ---- */

#define BERT_SETTINGS(pad_)                                                                        \
    NUMBER("max_position_embeddings", 512), NUMBER("type_vocab_size", 2),                          \
        NUMBER("initializer_range", 0.02), NUMBER("layer_norm_eps", 1e-12),                        \
        NUMBER("pad_token_id", pad_), TEXT("is_decoder", "false"),                                 \
        TEXT("add_cross_attention", "false"), TEXT("tie_word_embeddings", "true"), END
#define BERT_SIZES SIZES(768, 12, 12, 3072), TEXT("hidden_act", "gelu")
static const rs_setting bert[] = {NUMBER("vocab_size", 30522), BERT_SIZES, BERT_SETTINGS(0)};
static const rs_setting roberta[] = {NUMBER("vocab_size", 50265), BERT_SIZES, BERT_SETTINGS(1)};

#define BERT_FORWARD(types_, settings_, more_)                                                     \
    .types = (types_), .settings = (settings_), .eps = "layer_norm_eps",                           \
    .activation = "hidden_act", .mlp_width = "intermediate_size",                                  \
    .max_positions = "max_position_embeddings", .qkv_bias = RS_ALWAYS, .o_bias = RS_ALWAYS,        \
    .mlp_bias = RS_ALWAYS,                                                                         \
    .facts = RS_W_AFTER | RS_W_POSITIONS | RS_W_TYPES | RS_W_EMBED_NORM | RS_W_MLM |               \
             RS_W_PAD_ROW | (more_)
const rs_forward rs_forward_bert = {BERT_FORWARD("bert", bert, RS_W_DECODER)};
const rs_forward rs_forward_roberta = {
    BERT_FORWARD("roberta xlm-roberta camembert", roberta, RS_W_DECODER | RS_W_POSITIONS_PAD),
    .gelu_head = true};

static const rs_setting distilbert[] = {NUMBER("vocab_size", 30522),
                                        NUMBER("dim", 768),
                                        NUMBER("n_layers", 6),
                                        NUMBER("n_heads", 12),
                                        NUMBER("hidden_dim", 3072),
                                        TEXT("activation", "gelu"),
                                        NUMBER("max_position_embeddings", 512),
                                        NUMBER("initializer_range", 0.02),
                                        NUMBER("pad_token_id", 0),
                                        TEXT("tie_word_embeddings", "true"),
                                        END};
const rs_forward rs_forward_distilbert = {.types = "distilbert",
                                          .settings = distilbert,
                                          .fixed_eps = 1e-12,
                                          .activation = "activation",
                                          .mlp_width = "hidden_dim",
                                          .max_positions = "max_position_embeddings",
                                          .qkv_bias = RS_ALWAYS,
                                          .o_bias = RS_ALWAYS,
                                          .mlp_bias = RS_ALWAYS,
                                          .facts = RS_W_AFTER | RS_W_POSITIONS | RS_W_EMBED_NORM |
                                                   RS_W_MLM | RS_W_PAD_ROW};

static const rs_setting albert[] = {NUMBER("vocab_size", 30000),
                                    NUMBER("embedding_size", 128),
                                    SIZES(4096, 12, 64, 16384),
                                    NUMBER("num_hidden_groups", 1),
                                    NUMBER("inner_group_num", 1),
                                    TEXT("hidden_act", "gelu_new"),
                                    BERT_SETTINGS(0)};
const rs_forward rs_forward_albert = {
    BERT_FORWARD("albert", albert, RS_W_EMBED_PROJECTION | RS_W_DONG2021_CODE)};

static const rs_setting xlnet[] = {NUMBER("vocab_size", 32000),
                                   NUMBER("d_model", 1024),
                                   NUMBER("n_layer", 24),
                                   NUMBER("n_head", 16),
                                   NUMBER("d_inner", 4096),
                                   TEXT("ff_activation", "gelu"),
                                   TEXT("attn_type", "bi"),
                                   NUMBER("initializer_range", 0.02),
                                   NUMBER("layer_norm_eps", 1e-12),
                                   NUMBER("clamp_len", -1),
                                   TEXT("bi_data", "false"),
                                   TEXT("same_length", "false"),
                                   TEXT("tie_word_embeddings", "true"),
                                   END};
const rs_forward rs_forward_xlnet = {.types = "xlnet",
                                     .settings = xlnet,
                                     .eps = "layer_norm_eps",
                                     .activation = "ff_activation",
                                     .mlp_width = "d_inner",
                                     .mlp_bias = RS_ALWAYS,
                                     .facts = RS_W_AFTER | RS_W_RELATIVE};

/* ---- decoders with LayerNorm ---- */

static const rs_setting gpt2[] = {NUMBER("vocab_size", 50257),
                                  NUMBER("n_positions", 1024),
                                  NUMBER("n_embd", 768),
                                  NUMBER("n_layer", 12),
                                  NUMBER("n_head", 12),
                                  TEXT("activation_function", "gelu_new"),
                                  NUMBER("layer_norm_epsilon", 1e-5),
                                  NUMBER("initializer_range", 0.02),
                                  TEXT("add_cross_attention", "false"),
                                  TEXT("tie_word_embeddings", "true"),
                                  END};
const rs_forward rs_forward_gpt2 = {.types = "gpt2",
                                    .settings = gpt2,
                                    .eps = "layer_norm_epsilon",
                                    .activation = "activation_function",
                                    .mlp_width = "n_inner",
                                    .max_positions = "n_positions",
                                    .qkv_bias = RS_ALWAYS,
                                    .o_bias = RS_ALWAYS,
                                    .mlp_bias = RS_ALWAYS,
                                    .facts = RS_W_BEFORE | RS_W_FINAL | RS_W_CAUSAL |
                                             RS_W_POSITIONS | RS_W_DECODER | RS_W_RESIDUAL_STD};

static const rs_setting gpt_neox[] = {NUMBER("vocab_size", 50432),
                                      SIZES(6144, 44, 64, 24576),
                                      TEXT("hidden_act", "gelu"),
                                      NUMBER("max_position_embeddings", 2048),
                                      NUMBER("initializer_range", 0.02),
                                      NUMBER("layer_norm_eps", 1e-5),
                                      TEXT("use_parallel_residual", "true"),
                                      TEXT("attention_bias", "true"),
                                      TEXT("tie_word_embeddings", "false"),
                                      END};
const rs_forward rs_forward_gpt_neox = {.types = "gpt_neox gptneox",
                                        .settings = gpt_neox,
                                        .eps = "layer_norm_eps",
                                        .activation = "hidden_act",
                                        .mlp_width = "intermediate_size",
                                        .max_positions = "max_position_embeddings",
                                        .qkv_bias = "attention_bias",
                                        .o_bias = "attention_bias",
                                        .mlp_bias = RS_ALWAYS,
                                        .parallel = "use_parallel_residual",
                                        .theta = 10000,
                                        .facts = RS_W_BEFORE | RS_W_FINAL | RS_W_CAUSAL};

static const rs_setting falcon[] = {NUMBER("vocab_size", 65024),
                                    NUMBER("hidden_size", 4544),
                                    NUMBER("num_hidden_layers", 32),
                                    NUMBER("num_attention_heads", 71),
                                    TEXT("activation", "gelu"),
                                    NUMBER("layer_norm_epsilon", 1e-5),
                                    NUMBER("initializer_range", 0.02),
                                    NUMBER("max_position_embeddings", 2048),
                                    TEXT("alibi", "false"),
                                    TEXT("new_decoder_architecture", "false"),
                                    TEXT("multi_query", "true"),
                                    TEXT("parallel_attn", "true"),
                                    TEXT("bias", "false"),
                                    TEXT("tie_word_embeddings", "true"),
                                    END};
const rs_forward rs_forward_falcon = {.types = "falcon RefinedWeb RefinedWebModel",
                                      .settings = falcon,
                                      .eps = "layer_norm_epsilon",
                                      .activation = "activation",
                                      .mlp_width = "ffn_hidden_size",
                                      .max_positions = "max_position_embeddings",
                                      .qkv_bias = "bias",
                                      .o_bias = "bias",
                                      .mlp_bias = "bias",
                                      .parallel = "parallel_attn",
                                      .theta = 10000,
                                      .facts =
                                          RS_W_BEFORE | RS_W_FINAL | RS_W_CAUSAL | RS_W_FALCON};

/* ---- decoders with RMSNorm ---- */

#define DECODER(vocabulary_, positions_)                                                           \
    NUMBER("vocab_size", vocabulary_), NUMBER("max_position_embeddings", positions_),              \
        NUMBER("initializer_range", 0.02)
#define SILU TEXT("hidden_act", "silu")
#define EPS(eps_) NUMBER("rms_norm_eps", eps_)
#define UNTIED TEXT("tie_word_embeddings", "false"), END
#define TIED TEXT("tie_word_embeddings", "true"), END
#define PAD(id_) NUMBER("pad_token_id", id_)
#define NO_ATTENTION_BIAS TEXT("attention_bias", "false")

#define LLAMA_SETTINGS                                                                             \
    DECODER(32000, 2048), SIZES(4096, 32, 32, 11008), SILU, EPS(1e-6), NO_ATTENTION_BIAS,          \
        TEXT("mlp_bias", "false")
#define QWEN_SETTINGS                                                                              \
    DECODER(151936, 32768), SIZES(4096, 32, 32, 22016), NUMBER("num_key_value_heads", 32),         \
        TEXT("use_sliding_window", "false"), NUMBER("sliding_window", 4096),                       \
        NUMBER("max_window_layers", 28), SILU, EPS(1e-6)
#define OLMO_SETTINGS                                                                              \
    DECODER(50304, 2048), SIZES(4096, 32, 32, 11008), SILU, NO_ATTENTION_BIAS, PAD(1)

static const rs_setting llama[] = {LLAMA_SETTINGS, UNTIED};
static const rs_setting mistral[] = {DECODER(32000, 131072),
                                     SIZES(4096, 32, 32, 14336),
                                     NUMBER("num_key_value_heads", 8),
                                     NUMBER("sliding_window", 4096),
                                     SILU,
                                     EPS(1e-6),
                                     UNTIED};
static const rs_setting qwen2[] = {QWEN_SETTINGS, UNTIED};
static const rs_setting qwen3[] = {QWEN_SETTINGS, NUMBER("head_dim", 128), NO_ATTENTION_BIAS,
                                   UNTIED};
static const rs_setting granite[] = {LLAMA_SETTINGS,
                                     NUMBER("embedding_multiplier", 1),
                                     NUMBER("logits_scaling", 1),
                                     NUMBER("residual_multiplier", 1),
                                     NUMBER("attention_multiplier", 1),
                                     UNTIED};
static const rs_setting phi3[] = {
    DECODER(32064, 4096), SIZES(3072, 32, 32, 8192), SILU, EPS(1e-5), PAD(32000), UNTIED};
static const rs_setting olmo[] = {OLMO_SETTINGS, UNTIED};
static const rs_setting olmo2[] = {OLMO_SETTINGS, EPS(1e-5), UNTIED};

#define DECODER_FORWARD(types_, settings_)                                                         \
    .types = (types_), .settings = (settings_), .activation = "hidden_act",                        \
    .mlp_width = "intermediate_size", .max_positions = "max_position_embeddings", .theta = 10000
#define RMS_FORWARD(types_, settings_) DECODER_FORWARD(types_, settings_), .eps = "rms_norm_eps"
enum {
    DECODER_FACTS = RS_W_FINAL | RS_W_CAUSAL | RS_W_GATED | RS_W_PAD_ROW,
    PRE_NORM = RS_W_BEFORE | DECODER_FACTS
};

const rs_forward rs_forward_llama = {RMS_FORWARD("llama", llama), .qkv_bias = "attention_bias",
                                     .o_bias = "attention_bias", .mlp_bias = "mlp_bias",
                                     .facts = PRE_NORM};
const rs_forward rs_forward_mistral = {RMS_FORWARD("mistral ministral", mistral),
                                       .window_period = 1, .facts = PRE_NORM};
const rs_forward rs_forward_qwen2 = {RMS_FORWARD("qwen2", qwen2), .qkv_bias = RS_ALWAYS,
                                     .facts = PRE_NORM | RS_W_WINDOW_BEYOND};
const rs_forward rs_forward_qwen3 = {RMS_FORWARD("qwen3", qwen3), .qkv_bias = "attention_bias",
                                     .o_bias = "attention_bias",
                                     .facts = PRE_NORM | RS_W_WINDOW_BEYOND | RS_W_QK_NORM};
const rs_forward rs_forward_granite = {RMS_FORWARD("granite", granite),
                                       .qkv_bias = "attention_bias",
                                       .o_bias = "attention_bias",
                                       .mlp_bias = "mlp_bias",
                                       .embedding_multiplier = "embedding_multiplier",
                                       .facts = PRE_NORM | RS_W_GRANITE};
const rs_forward rs_forward_phi3 = {RMS_FORWARD("phi3", phi3), .window_period = 1,
                                    .facts = PRE_NORM | RS_W_PLAIN_ROPE};
const rs_forward rs_forward_olmo = {DECODER_FORWARD("olmo", olmo), .fixed_eps = 1e-5,
                                    .qkv_bias = "attention_bias", .o_bias = "attention_bias",
                                    .facts = PRE_NORM | RS_W_CLIP};
const rs_forward rs_forward_olmo2 = {RMS_FORWARD("olmo2", olmo2), .qkv_bias = "attention_bias",
                                     .o_bias = "attention_bias",
                                     .facts = RS_W_INSIDE | DECODER_FACTS | RS_W_QK_NORM};

/* ---- Gemma ---- */

static const rs_setting gemma[] = {DECODER(256000, 8192),
                                   SIZES(3072, 28, 16, 24576),
                                   NUMBER("num_key_value_heads", 16),
                                   NUMBER("head_dim", 256),
                                   TEXT("hidden_act", "gelu_pytorch_tanh"),
                                   EPS(1e-6),
                                   PAD(0),
                                   NO_ATTENTION_BIAS,
                                   TIED};
#define SANDWICH_SETTINGS(vocabulary_, positions_)                                                 \
    DECODER(vocabulary_, positions_), SIZES(2304, 26, 8, 9216), NUMBER("num_key_value_heads", 4),  \
        NUMBER("head_dim", 256), TEXT("hidden_activation", "gelu_pytorch_tanh"), EPS(1e-6),        \
        PAD(0), NO_ATTENTION_BIAS, NUMBER("query_pre_attn_scalar", 256),                           \
        NUMBER("sliding_window", 4096)
static const rs_setting gemma2[] = {SANDWICH_SETTINGS(256000, 8192),
                                    NUMBER("final_logit_softcapping", 30),
                                    NUMBER("attn_logit_softcapping", 50), TIED};
static const rs_setting gemma3[] = {SANDWICH_SETTINGS(262208, 131072),
                                    NUMBER("sliding_window_pattern", 6), TIED};
enum { GEMMA = PRE_NORM | RS_W_EMBED_SQRT };
const rs_forward rs_forward_gemma = {RMS_FORWARD("gemma", gemma), .qkv_bias = "attention_bias",
                                     .o_bias = "attention_bias", .facts = GEMMA | RS_W_GELU_TANH};
#define SANDWICH_FORWARD(types_, settings_)                                                        \
    .types = (types_), .settings = (settings_), .eps = "rms_norm_eps",                             \
    .activation = "hidden_activation", .mlp_width = "intermediate_size",                           \
    .max_positions = "max_position_embeddings", .qkv_bias = "attention_bias",                      \
    .o_bias = "attention_bias"
const rs_forward rs_forward_gemma2 = {
    SANDWICH_FORWARD("gemma2", gemma2), .window_period = 2, .theta = 10000, .odd_scale_layers = 46,
    .facts = GEMMA | RS_W_INSIDE | RS_W_KEY_SCALE | RS_W_SCORE_CAP};
const rs_forward rs_forward_gemma3 = {SANDWICH_FORWARD("gemma3_text gemma3", gemma3),
                                      .window_period = 6,
                                      .theta = 1e6,
                                      .local_theta = 1e4,
                                      .odd_scale_layers = 62,
                                      .facts = GEMMA | RS_W_INSIDE | RS_W_KEY_SCALE | RS_W_QK_NORM |
                                               RS_W_ROPE_BY_KIND | RS_W_PERIOD_FIELD |
                                               RS_W_BIDIRECTIONAL};

/* ---- state spaces ---- */

/* Sizes have no defaults here: the state-spaces repository's configurations name them otherwise. */
static const rs_setting mamba2[] = {NUMBER("vocab_size", 32768),
                                    NUMBER("conv_kernel", 4),
                                    NUMBER("layer_norm_epsilon", 1e-5),
                                    NUMBER("initializer_range", 0.1),
                                    TEXT("hidden_act", "silu"),
                                    TEXT("use_bias", "false"),
                                    TEXT("use_conv_bias", "true"),
                                    PAD(1),
                                    UNTIED};
#define MAMBA_SETTINGS                                                                             \
    NUMBER("vocab_size", 50280), NUMBER("conv_kernel", 4), NUMBER("layer_norm_epsilon", 1e-5),     \
        NUMBER("initializer_range", 0.1), SILU, TEXT("use_bias", "false"),                         \
        TEXT("use_conv_bias", "true"), PAD(0), TIED
static const rs_setting mamba[] = {MAMBA_SETTINGS};
static const rs_setting falcon_mamba[] = {NUMBER("mixer_rms_eps", 1e-6), MAMBA_SETTINGS};
static const rs_ssm_forward mamba_mixer = {.kernel = "conv_kernel",
                                           .in_bias = "use_bias",
                                           .o_bias = "use_bias",
                                           .conv_bias = "use_conv_bias",
                                           .activation = "hidden_act",
                                           .draws_steps = true,
                                           .draws_maps = true,
                                           .rescaled = "rescale_prenorm_residual"};
static const rs_ssm_forward falcon_mamba_mixer = {.kernel = "conv_kernel",
                                                  .in_bias = "use_bias",
                                                  .o_bias = "use_bias",
                                                  .conv_bias = "use_conv_bias",
                                                  .bare_inner_norms = true,
                                                  .inner_eps = "mixer_rms_eps",
                                                  .activation = "hidden_act",
                                                  .draws_steps = true,
                                                  .draws_maps = true,
                                                  .rescaled = "rescale_prenorm_residual"};
#define MAMBA_FORWARD(types_, settings_, mixer_)                                                   \
    .types = (types_), .settings = (settings_), .eps = "layer_norm_epsilon",                       \
    .activation = "hidden_act", .ssm = &(mixer_), .facts = RS_W_BEFORE | RS_W_FINAL | RS_W_CAUSAL
const rs_forward rs_forward_mamba = {MAMBA_FORWARD("mamba", mamba, mamba_mixer)};
const rs_forward rs_forward_falcon_mamba = {
    MAMBA_FORWARD("falcon_mamba", falcon_mamba, falcon_mamba_mixer)};

static const rs_ssm_forward mamba2_mixer = {.kernel = "conv_kernel",
                                            .in_bias = "use_bias",
                                            .o_bias = "use_bias",
                                            .conv_bias = "use_conv_bias",
                                            .step_limit = "time_step_limit",
                                            .groups = 8,
                                            .activation = "hidden_act",
                                            .draws_steps = true,
                                            .draws_maps = true,
                                            .rescaled = "rescale_prenorm_residual"};
const rs_forward rs_forward_mamba2 = {MAMBA_FORWARD("mamba2", mamba2, mamba2_mixer)};

/* Hybrids: each layer has one mixer of either kind, and an MLP. */
#define HYBRID_SETTINGS(vocabulary_, state_)                                                       \
    DECODER(vocabulary_, 262144), SIZES(4096, 32, 32, 14336), NUMBER("num_key_value_heads", 8),    \
        NUMBER("mamba_d_state", state_), NUMBER("mamba_d_conv", 4), NUMBER("mamba_expand", 2),     \
        TEXT("mamba_conv_bias", "true"), TEXT("mamba_proj_bias", "false"), SILU, PAD(0), UNTIED
static const rs_setting bamba[] = {
    NUMBER("mamba_n_heads", 128), NUMBER("mamba_n_groups", 1), EPS(1e-5), NO_ATTENTION_BIAS,
    TEXT("mlp_bias", "false"),    HYBRID_SETTINGS(128000, 256)};
static const rs_setting jamba[] = {NUMBER("num_experts", 16), NUMBER("attn_layer_period", 8),
                                   NUMBER("attn_layer_offset", 4), EPS(1e-6),
                                   HYBRID_SETTINGS(65536, 16)};
static const rs_ssm_forward bamba_mixer = {.kernel = "mamba_d_conv",
                                           .in_bias = "mamba_proj_bias",
                                           .o_bias = "mamba_proj_bias",
                                           .conv_bias = "mamba_conv_bias",
                                           .step_limit = "time_step_limit",
                                           .groups = 1,
                                           .activation = "hidden_act"};
static const rs_ssm_forward jamba_mixer = {.kernel = "mamba_d_conv",
                                           .in_bias = "mamba_proj_bias",
                                           .o_bias = "mamba_proj_bias",
                                           .conv_bias = "mamba_conv_bias",
                                           .inner_eps = "rms_norm_eps",
                                           .activation = "hidden_act"};
const rs_forward rs_forward_bamba = {RMS_FORWARD("bamba", bamba), .qkv_bias = "attention_bias",
                                     .o_bias = "attention_bias",  .mlp_bias = "mlp_bias",
                                     .ssm = &bamba_mixer,         .facts = PRE_NORM};
const rs_forward rs_forward_jamba = {RMS_FORWARD("jamba", jamba), .ssm = &jamba_mixer,
                                     .experts = "num_experts", .no_experts = 1, .facts = PRE_NORM};

static const rs_setting granite_hybrid[] = {NUMBER("mamba_n_heads", 128),
                                            NUMBER("mamba_n_groups", 1),
                                            NUMBER("mamba_d_state", 256),
                                            NUMBER("mamba_d_conv", 4),
                                            NUMBER("mamba_expand", 2),
                                            TEXT("mamba_conv_bias", "true"),
                                            TEXT("mamba_proj_bias", "false"),
                                            NUMBER("num_local_experts", 8),
                                            NUMBER("shared_intermediate_size", 1024),
                                            NUMBER("embedding_multiplier", 1),
                                            NUMBER("logits_scaling", 1),
                                            NUMBER("residual_multiplier", 1),
                                            NUMBER("attention_multiplier", 1),
                                            LLAMA_SETTINGS,
                                            UNTIED};
const rs_forward rs_forward_granite_hybrid = {.types = "granitemoehybrid",
                                              .settings = granite_hybrid,
                                              .eps = "rms_norm_eps",
                                              .activation = "hidden_act",
                                              .mlp_width = "shared_intermediate_size",
                                              .max_positions = "max_position_embeddings",
                                              .theta = 10000,
                                              .qkv_bias = "attention_bias",
                                              .o_bias = "attention_bias",
                                              .ssm = &bamba_mixer,
                                              .experts = "num_local_experts",
                                              .embedding_multiplier = "embedding_multiplier",
                                              .facts = PRE_NORM | RS_W_GRANITE};

/* Falcon-H1: attention and Mamba-2 side by side, then an MLP; numbers beside most maps. */
static const rs_setting falcon_h1[] = {DECODER(128000, 8192),
                                       SIZES(4096, 32, 32, 14336),
                                       NUMBER("num_key_value_heads", 8),
                                       NUMBER("mamba_d_ssm", 1024),
                                       NUMBER("mamba_n_heads", 128),
                                       NUMBER("mamba_n_groups", 1),
                                       NUMBER("mamba_d_state", 256),
                                       NUMBER("mamba_d_conv", 4),
                                       NUMBER("mamba_expand", 2),
                                       TEXT("mamba_conv_bias", "true"),
                                       TEXT("mamba_proj_bias", "false"),
                                       TEXT("projectors_bias", "false"),
                                       TEXT("mamba_rms_norm", "false"),
                                       TEXT("mamba_norm_before_gate", "true"),
                                       TEXT("mlp_bias", "false"),
                                       NO_ATTENTION_BIAS,
                                       SILU,
                                       EPS(1e-5),
                                       PAD(0),
                                       UNTIED};
static const rs_multiplier falcon_h1_multipliers[] = {
    {.role = RS_ROLE_Q, .field = "attention_in_multiplier", .input = true},
    {.role = RS_ROLE_K, .field = "attention_in_multiplier", .input = true},
    {.role = RS_ROLE_K, .field = "key_multiplier"},
    {.role = RS_ROLE_V, .field = "attention_in_multiplier", .input = true},
    {.role = RS_ROLE_O, .field = "attention_out_multiplier"},
    {.role = RS_ROLE_SSM_IN, .field = "ssm_in_multiplier", .input = true},
    {.role = RS_ROLE_SSM_IN, .field = "ssm_multipliers", .count = 5, .each = true},
    {.role = RS_ROLE_SSM_OUT, .field = "ssm_out_multiplier"},
    {.role = RS_ROLE_MLP_GATE, .field = "mlp_multipliers", .count = 2, .entry = 0},
    {.role = RS_ROLE_MLP_DOWN, .field = "mlp_multipliers", .count = 2, .entry = 1},
    {.field = NULL}};
static const rs_ssm_forward falcon_h1_mixer = {.kernel = "mamba_d_conv",
                                               .in_bias = "mamba_proj_bias",
                                               .o_bias = "projectors_bias",
                                               .conv_bias = "mamba_conv_bias",
                                               .activation = "hidden_act",
                                               .step_limit = "time_step_limit",
                                               .gated_norm = "mamba_rms_norm",
                                               .norm_first = "mamba_norm_before_gate",
                                               .groups = 1};
const rs_forward rs_forward_falcon_h1 = {RMS_FORWARD("falcon_h1", falcon_h1),
                                         .qkv_bias = "attention_bias",
                                         .o_bias = "attention_bias",
                                         .mlp_bias = "mlp_bias",
                                         .ssm = &falcon_h1_mixer,
                                         .multipliers = falcon_h1_multipliers,
                                         .embedding_multiplier = "embedding_multiplier",
                                         .logits_multiplier = "lm_head_multiplier",
                                         .facts = PRE_NORM};

/* Nemotron-H: a layer is Mamba-2, attention without positions, or an MLP without a gate. */
static const rs_setting nemotron_h[] = {NUMBER("vocab_size", 131072),
                                        NUMBER("hidden_size", 4096),
                                        NUMBER("num_attention_heads", 32),
                                        NUMBER("num_key_value_heads", 8),
                                        NUMBER("head_dim", 128),
                                        NUMBER("intermediate_size", 21504),
                                        NUMBER("max_position_embeddings", 4096),
                                        NUMBER("ssm_state_size", 128),
                                        NUMBER("mamba_num_heads", 128),
                                        NUMBER("mamba_head_dim", 64),
                                        NUMBER("n_groups", 8),
                                        NUMBER("conv_kernel", 4),
                                        NUMBER("time_step_min", 0.001),
                                        NUMBER("time_step_max", 0.1),
                                        NUMBER("time_step_floor", 1e-4),
                                        NUMBER("layer_norm_epsilon", 1e-5),
                                        NUMBER("initializer_range", 0.02),
                                        TEXT("mlp_hidden_act", "relu2"),
                                        TEXT("mamba_hidden_act", "silu"),
                                        TEXT("use_bias", "false"),
                                        TEXT("use_conv_bias", "true"),
                                        TEXT("mlp_bias", "false"),
                                        TEXT("rescale_prenorm_residual", "true"),
                                        UNTIED};
static const rs_old_name nemotron_h_old_names[] = {
    {"n_groups", "mamba_n_groups"},        {"conv_kernel", "mamba_d_conv"},
    {"time_step_min", "mamba_dt_min"},     {"time_step_max", "mamba_dt_max"},
    {"time_step_limit", "mamba_dt_limit"}, {"time_step_floor", "mamba_dt_init_floor"},
    {"use_conv_bias", "mamba_conv_bias"},  {NULL, NULL}};
static const rs_ssm_forward nemotron_h_mixer = {.kernel = "conv_kernel",
                                                .in_bias = "use_bias",
                                                .o_bias = "use_bias",
                                                .conv_bias = "use_conv_bias",
                                                .activation = "mamba_hidden_act",
                                                .step_limit = "time_step_limit",
                                                .step_least = "time_step_min",
                                                .groups = 8,
                                                .draws_steps = true,
                                                .rescaled = "rescale_prenorm_residual"};
const rs_forward rs_forward_nemotron_h = {.types = "nemotron_h",
                                          .settings = nemotron_h,
                                          .eps = "layer_norm_epsilon",
                                          .activation = "mlp_hidden_act",
                                          .mlp_width = "intermediate_size",
                                          .mlp_bias = "mlp_bias",
                                          .max_positions = "max_position_embeddings",
                                          .ssm = &nemotron_h_mixer,
                                          .old_names = nemotron_h_old_names,
                                          .one_branch = true,
                                          .facts = RS_W_BEFORE | RS_W_FINAL | RS_W_CAUSAL};

/* ---- short convolutions and delta rules beside attention ---- */

static const rs_setting lfm2[] = {DECODER(65536, 128000),
                                  SIZES(2560, 32, 32, 12288),
                                  NUMBER("num_key_value_heads", 8),
                                  NUMBER("norm_eps", 1e-5),
                                  NUMBER("conv_L_cache", 3),
                                  TEXT("conv_bias", "false"),
                                  NUMBER("block_multiple_of", 256),
                                  NUMBER("block_ffn_dim_multiplier", 1),
                                  TEXT("block_auto_adjust_ff_dim", "true"),
                                  SILU,
                                  PAD(0),
                                  TIED};
static const rs_ssm_forward lfm2_mixer = {.kernel = "conv_L_cache",
                                          .in_bias = "conv_bias",
                                          .o_bias = "conv_bias",
                                          .conv_bias = "conv_bias",
                                          .kind = RS_SSM_SHORT_CONV};
const rs_forward rs_forward_lfm2 = {.types = "lfm2",
                                    .settings = lfm2,
                                    .activation = "hidden_act",
                                    .mlp_width = "intermediate_size",
                                    .max_positions = "max_position_embeddings",
                                    .theta = 1e6,
                                    .eps = "norm_eps",
                                    .mlp_adjusted = "block_auto_adjust_ff_dim",
                                    .old_mlp_width = "block_ff_dim",
                                    .old_tied = "tie_embedding",
                                    .ssm = &lfm2_mixer,
                                    .facts = PRE_NORM | RS_W_QK_NORM};

#define DELTA_SETTINGS NUMBER("linear_conv_kernel_dim", 4), SILU, EPS(1e-6), NO_ATTENTION_BIAS
#define QWEN_DELTA_SETTINGS                                                                        \
    DELTA_SETTINGS, NUMBER("full_attention_interval", 4), NUMBER("linear_key_head_dim", 128),      \
        NUMBER("linear_value_head_dim", 128), NUMBER("linear_num_key_heads", 16),                  \
        NUMBER("linear_num_value_heads", 32), NUMBER("head_dim", 256), UNTIED
static const rs_setting qwen3_5[] = {DECODER(248320, 32768), SIZES(4096, 32, 16, 12288),
                                     NUMBER("num_key_value_heads", 4), QWEN_DELTA_SETTINGS};
static const rs_setting qwen3_next[] = {DECODER(151936, 32768), SIZES(2048, 48, 16, 5632),
                                        NUMBER("num_key_value_heads", 2),
                                        NUMBER("num_experts", 512), QWEN_DELTA_SETTINGS};
static const rs_setting olmo_hybrid[] = {DECODER(100352, 65536),
                                         SIZES(3840, 32, 30, 11008),
                                         PAD(100277),
                                         TEXT("linear_allow_neg_eigval", "true"),
                                         DELTA_SETTINGS,
                                         UNTIED};
static const rs_ssm_forward qwen_delta = {.kernel = "linear_conv_kernel_dim", .kind = RS_SSM_DELTA};
static const rs_ssm_forward olmo_delta = {.kernel = "linear_conv_kernel_dim",
                                          .kind = RS_SSM_DELTA,
                                          .doubled = "linear_allow_neg_eigval",
                                          .norm_eps = 1e-5,
                                          .before = true,
                                          .draws_steps = true};
#define QWEN_DELTA(types_, settings_)                                                              \
    RMS_FORWARD(types_, settings_), .qkv_bias = "attention_bias", .o_bias = "attention_bias",      \
                                    .ssm = &qwen_delta, .facts = PRE_NORM | RS_W_QK_NORM
const rs_forward rs_forward_qwen3_5 = {QWEN_DELTA("qwen3_5_text qwen3_5", qwen3_5)};
const rs_forward rs_forward_qwen3_next = {QWEN_DELTA("qwen3_next", qwen3_next),
                                          .experts = "num_experts"};
const rs_forward rs_forward_olmo_hybrid = {RMS_FORWARD("olmo_hybrid", olmo_hybrid),
                                           .qkv_bias = "attention_bias", .o_bias = "attention_bias",
                                           .ssm = &olmo_delta,
                                           .facts = RS_W_INSIDE | DECODER_FACTS | RS_W_QK_NORM};

/* ---- images ---- */

static const rs_setting vit[] = {
    SIZES(768, 12, 12, 3072),        TEXT("hidden_act", "gelu"), NUMBER("initializer_range", 0.02),
    NUMBER("layer_norm_eps", 1e-12), NUMBER("image_size", 224),  NUMBER("patch_size", 16),
    NUMBER("num_channels", 3),       TEXT("qkv_bias", "true"),   END};
const rs_forward rs_forward_vit = {.types = "vit",
                                   .settings = vit,
                                   .eps = "layer_norm_eps",
                                   .activation = "hidden_act",
                                   .mlp_width = "intermediate_size",
                                   .qkv_bias = "qkv_bias",
                                   .o_bias = RS_ALWAYS,
                                   .mlp_bias = RS_ALWAYS,
                                   .facts = RS_W_BEFORE | RS_W_FINAL | RS_W_IMAGES};
