/*
 * family.h: what a family table says. A family is data: rows that name config fields and tensors,
 * and a few facts about where norms, RoPE and state-space mixers sit. Adding a family is adding
 * rows; no code branches on a family's name.
 *
 * A tensor's name is split as  [prefix.]module[.suffix] : the prefix is one of the family's
 * optional ones ("bert.", "model."), the suffix says which part of the module it is (".weight",
 * ".bias", a quantiser's ".scales"), and every component of the module that is a number is written
 * '#'.
 */
#ifndef RS_RECOGNISE_FAMILY_H
#define RS_RECOGNISE_FAMILY_H

#include "recognise/model.h"

/* Which stack, and which attention of it, a pattern belongs to. Entries of --map follow behind. */
typedef enum rs_slot {
    RS_SLOT_MAIN,    /* the only stack; self-attention or state-space mixer */
    RS_SLOT_ENCODER, /* encoder, self-attention */
    RS_SLOT_DECODER, /* decoder, self-attention */
    RS_SLOT_CROSS,   /* decoder, attention to the encoder */
    RS_SLOT_MAP      /* the first entry of --map */
} rs_slot;

/* Flags of a pattern. */
enum {
    RS_P_OPTIONAL = 1u << 0,    /* its absence is not worth a note */
    RS_P_CONV1D = 1u << 1,      /* stored [in, out] */
    RS_P_XLNET = 1u << 2,       /* stored [d_model, heads, d_head], for q, k, v, r and o alike */
    RS_P_ROWS = 1u << 3,        /* fused: all q, then all k, then all v */
    RS_P_INTERLEAVED = 1u << 4, /* fused: for each head q, k, v */
    RS_P_GROUPED = 1u << 5,     /* fused: for each kv group its q heads, k, v */
    RS_P_NESTED = 1u << 6,      /* layer = first number × inner_group_num + second number */
    RS_P_MLA = 1u << 7,         /* latent attention: the checkpoint is refused by this name */
    RS_P_GATED = 1u << 8        /* q: for each head its query, then a gate of the same width */
};

/* What the modules of one name are for. Lists of patterns end with module NULL. */
typedef struct rs_module_pattern {
    const char *module; /* "layers.#.self_attn.q_proj"; a trailing '*' matches any rest */
    rs_role role;
    rs_slot slot;
    unsigned flags;
} rs_module_pattern;

/* The sizes that a configuration states, whatever it calls them. */
typedef enum rs_field {
    RS_FIELD_WIDTH,
    RS_FIELD_LAYERS,
    RS_FIELD_HEADS,
    RS_FIELD_KV_HEADS,
    RS_FIELD_HEAD_DIM,
    RS_FIELD_VALUE_DIM,
    RS_FIELD_ROPE_DIMS,
    RS_FIELD_ENCODER_LAYERS,
    RS_FIELD_ENCODER_HEADS,
    RS_FIELD_DECODER_LAYERS,
    RS_FIELD_DECODER_HEADS,
    RS_FIELD_LAYER_GROUPS,
    RS_FIELD_INNER_GROUP,
    RS_FIELD_SSM_INNER,
    RS_FIELD_SSM_EXPAND,
    RS_FIELD_SSM_STATE,
    RS_FIELD_SSM_RANK,
    RS_FIELD_SSM_HEADS,
    RS_FIELD_SSM_HEAD_DIM,
    RS_FIELD_SSM_GROUPS,
    RS_FIELD_COUNT
} rs_field;

/* One spelling of a field; of several, the first one that is present and not null counts. A dot
 * descends into an object. GGUF keys are written without the architecture in front. */
typedef struct rs_field_row {
    rs_field field;
    const char *key; /* NULL ends the list */
} rs_field_row;
/* The spellings of sizes that most configurations use, newest first. */
#define RS_FIELDS_OF_SIZES                                                                         \
    {RS_FIELD_WIDTH, "hidden_size"}, {RS_FIELD_WIDTH, "n_embd"}, {RS_FIELD_WIDTH, "d_model"},      \
        {RS_FIELD_WIDTH, "dim"}, {RS_FIELD_LAYERS, "num_hidden_layers"},                           \
        {RS_FIELD_LAYERS, "n_layer"}, {RS_FIELD_LAYERS, "n_layers"},                               \
        {RS_FIELD_LAYERS, "num_layers"}, {RS_FIELD_HEADS, "num_attention_heads"},                  \
        {RS_FIELD_HEADS, "n_head"}, {RS_FIELD_HEADS, "n_heads"}, {RS_FIELD_HEADS, "num_heads"},    \
        {RS_FIELD_KV_HEADS, "num_key_value_heads"}, {RS_FIELD_KV_HEADS, "num_kv_heads"},           \
        {RS_FIELD_HEAD_DIM, "head_dim"},                                                           \
    {                                                                                              \
        RS_FIELD_HEAD_DIM, "d_head"                                                                \
    }

/* What the reference implementation assumes where a field is absent. Lists end with value 0. */
typedef struct rs_field_default {
    rs_field field;
    int64_t value;
} rs_field_default;

/* The kinds of state-space mixers whose weights are known. */
typedef enum rs_ssm_kind {
    RS_SSM_NONE,
    RS_SSM_S6,        /* Mamba: x_proj gives dt|B|C from the inner width */
    RS_SSM_SSD,       /* Mamba-2: in_proj gives z|x|B|C|dt */
    RS_SSM_DELTA,     /* the gated delta rule: run, no products formed */
    RS_SSM_SHORT_CONV /* LFM2's short convolution: run, no products formed */
} rs_ssm_kind;

/* Facts about a family that are neither names nor sizes. */
enum {
    RS_FACT_PRE_NORM = 1u << 0,      /* NORM_MIXER stands right before q, k, v (or in_proj) */
    RS_FACT_QK_NORM_FULL = 1u << 1,  /* QK-norm runs over all heads at once (OLMo 2) */
    RS_FACT_HYBRID = 1u << 2,        /* attention and state-space layers, by a list in the config */
    RS_FACT_BOTH = 1u << 3,          /* every layer has both mixers in parallel */
    RS_FACT_SHARED_LAYERS = 1u << 4, /* ALBERT: groups of blocks applied again and again */
    RS_FACT_TIED_ATTENTION = 1u << 5,  /* attention blocks shared between layers are stored once */
    RS_FACT_WIDE_INPUT = 1u << 6,      /* attention reads [hidden, embedding]: twice the width */
    RS_FACT_HEAD_PER_KV = 1u << 7,     /* kv head count must be ignored: one kv head per head */
    RS_FACT_MULTI_QUERY = 1u << 8,     /* one kv head for all, whatever the config says */
    RS_FACT_SCALE_UNSTATED = 1u << 9,  /* the file does not say by what scores are scaled */
    RS_FACT_HALF_SCALE = 1u << 10,     /* scores are divided by sqrt(d_head/2) */
    RS_FACT_GUESS = 1u << 11,          /* offered when an unknown model has these names */
    RS_FACT_BARE_NORM = 1u << 13,      /* its norms have no weights (OLMo) */
    RS_FACT_PARTIAL_ROPE = 1u << 14,   /* its module reads partial_rotary_factor */
    RS_FACT_BARE_QK_NORM = 1u << 12,   /* QK-norm without weights, unless use_qk_norm is false */
    RS_FACT_QK_NORM_TURNED = 1u << 15, /* a QK-norm without weights only where RoPE turns */
    RS_FACT_QK_LAYERNORM = 1u << 16,   /* its QK-norm is a LayerNorm: no gain to fold */
    RS_FACT_UNIT_SCALE = 1u << 17,     /* scores are not scaled at all */
    RS_FACT_VALUE_NORM = 1u << 18,     /* values are normalised, without weights */
    RS_FACT_SHARED_KV = 1u << 19,      /* late layers read keys and values of earlier ones */
    RS_FACT_PAIRED_VALUES = 1u << 20,  /* o reads no head's values alone: there is no OV */
    RS_FACT_WINDOWS_DOUBLE_KV = 1u << 21, /* layers with windows have twice the kv heads */
    RS_FACT_ROPE_SWITCH = 1u << 22,       /* GGUF: no RoPE where rope.scaling.finetuned is false */
    RS_FACT_ROPE_SPREAD = 1u << 23, /* GGUF: rows of q and k are interleaved over a whole head, also
                                       where a part of it rotates */
    RS_FACT_STEP_FROM_MIN = 1u << 24, /* steps are at least time_step_min, without a most */
    RS_FACT_NULL_ROPE = 1u << 25,     /* nothing rotates where rope_theta is null */
    RS_FACT_LAST_ATTENDS = 1u << 26,  /* without a list every fourth layer has attention, of fewer
                                         the last; no other field says which */
    RS_FACT_TILED_HEADS = 1u << 27    /* GGUF: neighbouring value heads have different keys */
};

/* Which layers have RoPE, where not all do. */
typedef enum rs_turning {
    RS_TURN_ALL,
    RS_TURN_LISTED,     /* those with 1 in no_rope_layers; all but each no_rope_layer_interval-th */
    RS_TURN_WINDOWS,    /* those with a window */
    RS_TURN_ANY_WINDOWS /* those with a window, or all where the model has none */
} rs_turning;

/* One of several stacks, with sizes of its own. */
typedef struct rs_tower {
    const char *name;    /* for column `stack` */
    const char *section; /* object of the configuration to read; where it is absent, the whole */
    const rs_field_default *defaults;
} rs_tower;

/* A field of the reference's configuration class, under its name there, and its value where a
 * config.json is silent: the number where text is NULL; text "true" or "false" is a boolean. */
typedef struct rs_setting {
    const char *key; /* NULL ends the list */
    double number;
    const char *text;
} rs_setting;

/* Facts about a family's forward pass that are neither names nor sizes. */
enum {
    RS_W_BEFORE = 1u << 0, /* a norm before each branch's op: NORM_MIXER, NORM_MLP, NORM_CROSS */
    RS_W_INSIDE = 1u << 1, /* a norm of the op's output: NORM_MIXER_OUT, NORM_MLP_OUT */
    RS_W_AFTER = 1u << 2,  /* a norm behind the skip: NORM_MIXER, NORM_MLP, NORM_CROSS */
    RS_W_FINAL = 1u << 3,  /* a norm behind the last layer */
    RS_W_CAUSAL = 1u << 4,
    RS_W_DECODER = 1u << 5, /* causal when is_decoder; cross-attention when add_cross_attention */
    RS_W_GATED = 1u << 6,   /* act(gate) * up */
    RS_W_QK_NORM = 1u << 7,
    RS_W_POSITIONS = 1u << 8,         /* learned absolute positions */
    RS_W_POSITIONS_PAD = 1u << 9,     /* they begin behind pad_token_id */
    RS_W_TYPES = 1u << 10,            /* token types */
    RS_W_EMBED_NORM = 1u << 11,       /* norm of the embedding's sum */
    RS_W_EMBED_PROJECTION = 1u << 12, /* embedding_size may differ from the width */
    RS_W_EMBED_SQRT = 1u << 13,       /* embeddings are multiplied by sqrt(width) */
    RS_W_RELATIVE = 1u << 14,         /* XLNet's attention */
    RS_W_IMAGES = 1u << 15,           /* patches and a class token instead of tokens */
    RS_W_MLM = 1u << 16,              /* masked language model: transform, norm, decoder, bias */
    RS_W_WINDOW_BEYOND = 1u << 17, /* windows, if use_sliding_window, from max_window_layers on */
    RS_W_ROPE_BY_KIND = 1u << 18,  /* RoPE of its own in layers with windows */
    RS_W_PERIOD_FIELD = 1u << 19,  /* sliding_window_pattern overrides window_period */
    RS_W_KEY_SCALE = 1u << 20,     /* GGUF: scores are divided by sqrt(key_length) */
    RS_W_GRANITE = 1u << 21,       /* multipliers of embeddings, branches, logits */
    RS_W_CLIP = 1u << 22,          /* clip_qkv, when set, is refused */
    RS_W_FALCON = 1u << 23,        /* one norm or two for a parallel block */
    RS_W_RESIDUAL_STD = 1u << 24,  /* outputs of branches are drawn smaller (GPT-2) */
    RS_W_BIDIRECTIONAL = 1u << 25, /* use_bidirectional_attention is known */
    RS_W_PLAIN_ROPE = 1u << 26,    /* its scaling laws are not run (Phi-3: longrope) */
    RS_W_PAD_ROW = 1u << 27,       /* the embedding's row of pad_token_id is drawn as 0 */
    RS_W_SCORE_CAP = 1u << 28,     /* attn_logit_softcapping is computed, not only read */
    RS_W_DONG2021_CODE = 1u << 29, /* the code released with Dong et al. 2021 runs this family and
                                      differs from their paper where it has no MLP */
    RS_W_GELU_TANH = 1u << 30      /* "gelu" means its approximation by tanh (Gemma) */
};

#define RS_ALWAYS "" /* a bias that is always there */

/* A field with a number that a map's output, or what it reads, is multiplied by. Lists of them end
 * with field NULL. */
typedef struct rs_multiplier {
    rs_role role;
    const char *field;
    int entry; /* of a list of numbers */
    int count; /* how many numbers the list has; 0: the field is one number */
    bool each; /* a number of the list for each stretch of the map's outputs, from entry 0 on */
    bool input;
} rs_multiplier;

/* A field under the name that older files give it, which counts where it is there. Lists end with
 * key NULL. */
typedef struct rs_old_name {
    const char *key, *old;
} rs_old_name;

/* How a family's state-space mixers are run: fields of the configuration, and what no field says. */
typedef struct rs_ssm_forward {
    const char *kernel;           /* field with the width of the convolution */
    const char *in_bias, *o_bias; /* as biases of rs_forward; files have the last word */
    const char *conv_bias;
    const char *activation; /* field with the convolution's; NULL: SiLU, the only one that is run */
    const char *step_limit; /* field with the least and the most step; NULL: none */
    const char *step_least; /* field with the least step; NULL: step_limit says */
    bool bare_inner_norms;  /* norms of B, C, dt have no weights */
    const char *inner_eps;  /* field with the eps of norms of B, C, dt; NULL: there are none */
    const char *gated_norm; /* boolean field: there is a norm beside the gate; NULL: always */
    const char *norm_first; /* boolean field: the norm stands before the gate; NULL: never */
    int64_t groups;         /* where neither configuration nor tensors say */
    /* Of what is drawn: steps between the configuration's bounds (else a bias of 1, or what every
     * map has), and uniform convolution and output map (else as every map). */
    bool draws_steps, draws_maps;
    const char *rescaled; /* boolean field: the output map is uniform, and smaller by the root of
                             the number of layers; NULL: never */
    rs_ssm_kind kind;     /* NONE: the kind whose products are formed */
    const char *doubled;  /* boolean field: a delta rule's strengths go up to 2; NULL: to 1 */
    double norm_eps;      /* of a delta rule's norm; 0: that of the other norms */
    bool before;          /* a norm before the mixer and one before its MLP, which is
                               NORM_MIXER_OUT, wherever layers with attention have theirs */
} rs_ssm_forward;

/* How the models of a family are run. Biases: RS_ALWAYS, NULL for never, or a boolean field. */
typedef struct rs_forward {
    const char *types; /* model types that run so; the family's others are refused */
    const rs_setting *settings;
    const char *eps; /* field with the norms' epsilon; NULL: it is fixed_eps */
    double fixed_eps;
    const char *activation;    /* field with its name */
    const char *mlp_width;     /* field; null there means four times the width */
    const char *mlp_adjusted;  /* boolean field: that width is made smaller and round (LFM2) */
    const char *old_mlp_width; /* the field's older name, which counts where it is there; or NULL */
    const char *old_tied;      /* the same of tie_word_embeddings */
    const char *max_positions; /* field with the number of positions */
    const char *qkv_bias, *o_bias, *mlp_bias;
    const char *parallel;      /* boolean field: the MLP stands beside attention */
    int window_period;         /* layers with windows: 0 none, 1 all, n all but each n-th */
    double local_theta;        /* RoPE's base in layers with windows (RS_W_ROPE_BY_KIND) */
    double theta;              /* RoPE's base where the configuration is silent */
    int odd_scale_layers;      /* a model of so many layers divides its scores by sqrt(width/heads)
                             (RS_W_KEY_SCALE) */
    const char *experts;       /* field with the number of experts; NULL: its models have none */
    int no_experts;            /* the number that means none */
    const rs_ssm_forward *ssm; /* NULL: it has no state-space mixers that are run */
    const rs_multiplier *multipliers;                     /* NULL: none */
    const char *embedding_multiplier, *logits_multiplier; /* fields; NULL: none */
    const rs_old_name *old_names;                         /* NULL: none */
    bool one_branch; /* a layer is a mixer or an MLP, behind NORM_MIXER */
    bool gelu_head;  /* MLM: the transform's activation is GELU, whatever the layers' is */
    unsigned facts;
} rs_forward;

extern const rs_forward rs_forward_bert, rs_forward_roberta, rs_forward_distilbert,
    rs_forward_albert, rs_forward_xlnet, rs_forward_gpt2, rs_forward_gpt_neox, rs_forward_llama,
    rs_forward_mistral, rs_forward_qwen2, rs_forward_qwen3, rs_forward_granite, rs_forward_gemma,
    rs_forward_gemma2, rs_forward_gemma3, rs_forward_phi3, rs_forward_olmo, rs_forward_olmo2,
    rs_forward_falcon, rs_forward_vit, rs_forward_mamba2, rs_forward_mamba, rs_forward_falcon_mamba,
    rs_forward_bamba, rs_forward_jamba, rs_forward_granite_hybrid, rs_forward_falcon_h1,
    rs_forward_nemotron_h;
extern const rs_forward rs_forward_lfm2;
extern const rs_forward rs_forward_qwen3_5;
extern const rs_forward rs_forward_qwen3_next;
extern const rs_forward rs_forward_olmo_hybrid;

/* All that is known of the models of one family. */
typedef struct rs_family {
    const char *name;
    const char *types; /* blank-separated model_type values (HF) or architectures (GGUF) */
    const char *when;  /* boolean field that must be true; NULL: there is no condition */
    const rs_field_row *dialect;
    const rs_field_default *defaults; /* or NULL */
    const rs_module_pattern *patterns[5];
    const char *const *prefixes; /* optional ones, NULL-terminated; or NULL */
    rs_norm_kind norm;
    rs_rope_kind rope;
    const char *rope_if;  /* RoPE only if this field is true or "rope"; NULL: always */
    double rope_fraction; /* share of a head that rotates when the config is silent; 0: all */
    rs_turning turning;
    int32_t window_period; /* without layer_types: all but each n-th layer have a window */
    rs_ssm_kind ssm;
    unsigned facts;
    rs_tower towers[RS_SLOT_MAP]; /* by slot; without names: encoder and decoder of one section */
    const char *refusal;          /* why this family cannot be read; NULL for the others */
    const rs_forward *forward;    /* NULL: its forward pass is not known */
} rs_family;

/* The families, list by list; each list ends with name NULL. */
extern const rs_family rs_families_bert[], rs_families_decoder[], rs_families_kin[],
    rs_families_ssm[], rs_families_vision_audio[], rs_families_gguf[];

/* Lists that several families share. */
extern const rs_field_row rs_dialect_common[], rs_dialect_mamba[], rs_dialect_hybrid[],
    rs_dialect_nemotron[], rs_dialect_whisper[], rs_dialect_gguf[], rs_dialect_gguf_mamba2[],
    rs_dialect_translated[];
extern const rs_module_pattern rs_patterns_llama[], rs_patterns_llama_mlp[], rs_patterns_sandwich[],
    rs_patterns_olmo2[], rs_patterns_moe[], rs_patterns_other[];
extern const char *const rs_prefixes_decoder[];

#endif
