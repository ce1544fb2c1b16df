/*
 * model.h: a checkpoint understood as a sequence model: which tensor plays which role, and from
 * that the head products.
 *
 * A family is data (families_*.c): rows that map names of config fields and patterns of tensor
 * names to this description. Nothing here computes; linalg and collapse do.
 */
#ifndef RS_RECOGNISE_MODEL_H
#define RS_RECOGNISE_MODEL_H

#include "base/notes.h"
#include "checkpoint/checkpoint.h"

/* What a tensor is for; rs_role_name gives the names that table `tensors` shows. */
typedef enum rs_role {
    RS_ROLE_UNKNOWN = 0,
    RS_ROLE_Q,
    RS_ROLE_K,
    RS_ROLE_V,
    RS_ROLE_O,
    RS_ROLE_QKV,
    RS_ROLE_KV,
    RS_ROLE_CROSS_Q,
    RS_ROLE_CROSS_K,
    RS_ROLE_CROSS_V,
    RS_ROLE_CROSS_KV,
    RS_ROLE_CROSS_O, /* attention to another model's output (BERT, GPT-2 as decoders) */
    RS_ROLE_R,       /* r: XLNet's positional key */
    RS_ROLE_Q_BIAS,
    RS_ROLE_K_BIAS,
    RS_ROLE_V_BIAS,
    RS_ROLE_O_BIAS,
    RS_ROLE_QKV_BIAS,
    RS_ROLE_CONTENT_BIAS,
    RS_ROLE_POSITION_BIAS,
    RS_ROLE_SEGMENT_BIAS,
    RS_ROLE_SEGMENT_EMBED, /* XLNet */
    RS_ROLE_Q_NORM,
    RS_ROLE_K_NORM,
    RS_ROLE_NORM_MIXER,
    RS_ROLE_NORM_MIXER_BIAS, /* before the mixer (pre-LN) or after it (post-LN) */
    RS_ROLE_NORM_MIXER_OUT,
    RS_ROLE_NORM_MIXER_OUT_BIAS, /* inside the branch, after the mixer (sandwich) */
    RS_ROLE_NORM_MLP,
    RS_ROLE_NORM_MLP_BIAS,
    RS_ROLE_NORM_MLP_OUT,
    RS_ROLE_NORM_MLP_OUT_BIAS,
    RS_ROLE_NORM_CROSS,
    RS_ROLE_NORM_CROSS_BIAS, /* before cross-attention */
    RS_ROLE_NORM_FINAL,
    RS_ROLE_NORM_FINAL_BIAS,
    RS_ROLE_NORM_EMBED,
    RS_ROLE_NORM_EMBED_BIAS,
    RS_ROLE_NORM_HEAD, /* between the transform of a masked language model's head and its decoder */
    RS_ROLE_MLP_UP,
    RS_ROLE_MLP_GATE,
    RS_ROLE_MLP_GATE_UP,
    RS_ROLE_MLP_DOWN,
    RS_ROLE_MLP_UP_BIAS,
    RS_ROLE_MLP_GATE_BIAS,
    RS_ROLE_MLP_DOWN_BIAS,
    RS_ROLE_MOE_ROUTER,
    RS_ROLE_MOE_EXPERT,
    RS_ROLE_EMBED_TOKEN,
    RS_ROLE_EMBED_POSITION,
    RS_ROLE_EMBED_TYPE,
    RS_ROLE_EMBED_PROJECTION,
    RS_ROLE_EMBED_PATCH,
    RS_ROLE_EMBED_CLASS,
    RS_ROLE_EMBED_OTHER,
    RS_ROLE_LM_HEAD,
    RS_ROLE_HEAD_TRANSFORM,
    RS_ROLE_HEAD_BIAS, /* of the logits, stored apart from their matrix */
    RS_ROLE_HEAD_OTHER,
    RS_ROLE_SSM_IN,
    RS_ROLE_SSM_CONV,
    RS_ROLE_SSM_CONV_BIAS,
    RS_ROLE_SSM_X,
    RS_ROLE_SSM_DT,
    RS_ROLE_SSM_DT_BIAS,
    RS_ROLE_SSM_A,
    RS_ROLE_SSM_D,
    RS_ROLE_SSM_NORM,
    RS_ROLE_SSM_DT_NORM,
    RS_ROLE_SSM_B_NORM,
    RS_ROLE_SSM_C_NORM,
    RS_ROLE_SSM_OUT,
    RS_ROLE_DELTA_Q, /* the maps of a gated delta rule */
    RS_ROLE_DELTA_K,
    RS_ROLE_DELTA_V,
    RS_ROLE_DELTA_Z,
    RS_ROLE_DELTA_B,
    RS_ROLE_DELTA_A,
    RS_ROLE_DELTA_QKV,
    RS_ROLE_DELTA_QKVZ,
    RS_ROLE_DELTA_BA,
    RS_ROLE_DELTA_CONV_K, /* convolutions of k and v where files keep three */
    RS_ROLE_DELTA_CONV_V,
    RS_ROLE_LAYER_SCALE,
    RS_ROLE_ROPE_TABLE,
    RS_ROLE_ROPE_DIVISORS,
    RS_ROLE_BUFFER,
    RS_ROLE_QUANT_SCALE,
    RS_ROLE_OTHER,
    /* Draws hang on a role's number: new ones go here. */
    RS_ROLE_Q_GATE,      /* of what a head of attention writes; stored with the queries */
    RS_ROLE_HEAD_FUSION, /* of the states of all layers, which the head reads together */
    RS_ROLE_COUNT
} rs_role;

const char *rs_role_name(rs_role role); /* "q", "qkv", "norm_mixer", ... */

/* The kinds of norms; PLUS_ONE: the gain is 1 + the stored weight. */
typedef enum rs_norm_kind {
    RS_NORM_NONE,
    RS_NORM_LAYERNORM,
    RS_NORM_RMSNORM,
    RS_NORM_RMSNORM_PLUS_ONE,
    RS_NORM_LAYERNORM_PLUS_ONE /* scan folds it; no forward pass has it */
} rs_norm_kind;
/* How RoPE pairs the entries of a head, of which the first `dims` rotate where none is left out:
 * pair t is (step t, step t + gap). */
typedef enum rs_rope_kind {
    RS_ROPE_NONE,
    RS_ROPE_HALF_SPLIT,  /* (t, t + dims/2) */
    RS_ROPE_INTERLEAVED, /* (2t, 2t + 1) */
    RS_ROPE_SPREAD       /* (2t, 2t + dims): half-split, then a whole head of which at most half
                            rotates was interleaved (Bamba in GGUF) */
} rs_rope_kind;
typedef struct rs_rope_pairing {
    int64_t step, gap;
} rs_rope_pairing;
static inline rs_rope_pairing rs_rope_pairs(rs_rope_kind kind, int64_t dims)
{
    bool half = kind == RS_ROPE_HALF_SPLIT, spread = kind == RS_ROPE_SPREAD;
    return (rs_rope_pairing){half ? 1 : 2, half ? dims / 2 : spread ? dims : 1};
}
/* The products that are measured. */
typedef enum rs_product_kind {
    RS_PRODUCT_QK, /* query and key weights of a head */
    RS_PRODUCT_OV, /* value and output weights of a head */
    RS_PRODUCT_CB, /* C and B of a state-space mixer's group */
    RS_PRODUCT_IO  /* input and output projections of a state-space mixer */
} rs_product_kind;

/*
 * One factor of a head product: `inner` vectors (the head's units), each of length `features`,
 * taken out of one tensor seen as a row-major matrix rows×cols. vector_is_row: vector i is matrix
 * row first+i; otherwise matrix column first+i. With `inner` = r and `features` = m, the factor A
 * of docs/theory/products.md is the m×r matrix whose column i is vector i.
 */
typedef struct rs_factor {
    const rs_tensor *tensor;
    int64_t rows, cols; /* the matrix view; rows*cols = tensor->count */
    bool vector_is_row;
    int64_t first;    /* row or column of vector 0 */
    int64_t inner;    /* number of vectors r */
    int64_t features; /* length m of each: cols when vector_is_row, else rows */
    /* --with-bias: entry bias_first+i belongs to vector i; NULL when the projection has none */
    const rs_tensor *bias;
    int64_t bias_first;
    /* --fold-norms: the norm right before this projection (acts on features); NULL/NONE when there
     * is none */
    const rs_tensor *gain;      /* γ, `features` long; may be NULL for a norm without weights */
    const rs_tensor *gain_bias; /* β of a LayerNorm, for --fold-norms with --with-bias; or NULL */
    rs_norm_kind norm;
    /* --fold-norms: QK-norm gain on the vectors, entry inner_gain_first+i;
     * NULL when there is none */
    const rs_tensor *inner_gain;
    int64_t inner_gain_first;
    bool inner_gain_plus_one;
    /* FP8 checkpoints: true weight = stored × scale of its block (docs/formats.md, 3); NULL when
     * there is none. The scale of element (i, j) of the view is scale[i / scale_block_rows][j /
     * scale_block_cols] (rounded-up grid). */
    const rs_tensor *scale;
    int64_t scale_block_rows, scale_block_cols;
} rs_factor;

/* A head product, one row of table `heads`. A (m×r) and B (n×r) share `inner`; it is A Bᵀ, m×n. */
typedef struct rs_product {
    const char *stack;     /* "encoder", "decoder" or NULL */
    const char *attention; /* "self", "cross", "positional" or NULL (state-space) */
    rs_product_kind kind;
    int32_t layer, head; /* from 0; head = query head (qk, ov), group (cb), head or 0 (io) */
    int32_t kv_head;     /* the key/value head it is paired with; = head without grouping */
    int32_t group_size;  /* query heads that share kv_head; 1 without grouping */
    /* qk: W_Q,h and W_K,g. ov: W_V,g (as A) and W_O,hᵀ (as B). cb: C and B. io: in and out. */
    rs_factor a, b;
    rs_rope_kind rope; /* qk only */
    int32_t rope_dims; /* leading vectors of the head that rotate; 0 without RoPE */
    bool qk_norm; /* the score is invariant to the scale of each factor; in a guess, it may be */
    /* Text of the column: what the product leaves out, such as "scale 1/sqrt(64) left out; RoPE at
     * distance 0". The scan adds what its options applied. */
    const char *corrections;
} rs_product;

/* How Mamba's code draws a step, log-uniform from low to high and at least `floor`, and the limits
 * of every step (docs/theory/ssm.md, 3 and 4); NaN: the configuration has no such number. */
typedef struct rs_step_law {
    double low, high, floor;
    double least, most;
} rs_step_law;

/* The tensors of a state-space mixer that say how its states decay while no token says otherwise,
 * and its direct path D; NULL: absent. */
typedef struct rs_ssm_rest {
    int32_t layer;
    bool by_head;     /* Mamba-2: a channel below is a head */
    int64_t channels; /* each with a step and an entry of D of its own */
    int64_t states;   /* rates of a channel: 1 by head */
    const rs_tensor *a, *dt_bias, *d;
    bool
        a_stored; /* `a` holds the rates themselves (GGUF), not the logarithms of their negatives */
} rs_ssm_rest;

/* What became of a tensor, one row of table `tensors`. */
typedef struct rs_tensor_role {
    rs_role role;
    int32_t layer;      /* -1 when it belongs to no layer */
    const char *stack;  /* or NULL */
    const char *status; /* "analysed": in a product; "decoded only": readable; "refused" */
    const char *reason; /* why it is not analysed; "" when it is */
} rs_tensor_role;

/* What a checkpoint stores, the same for every command. */
typedef struct rs_stored {
    uint64_t parameters;   /* stored numbers of all tensors but buffers, each counted once */
    const char *dtype;     /* type of most of them: "BF16" */
    const char *file_type; /* the file's own name for its mixture of types: "Q4_K_M"; or NULL */
} rs_stored;

/* A checkpoint understood as a model. */
typedef struct rs_model {
    const rs_checkpoint *checkpoint; /* borrowed; must outlive the model */
    const char *family; /* "llama", "bert", ...; a guess is named so: "llama-like (guessed)" */
    bool guessed;       /* the roles come from recognisable names, or from --map */
    int32_t layers;     /* blocks of all stacks */
    int32_t depth;      /* blocks as they are applied: more than `layers` where they are shared */
    int64_t d_model;
    int32_t heads, kv_heads; /* heads of the first attention; 0 in pure state-space models */
    int64_t d_head;
    rs_stored stored;
    rs_product *products; /* sorted by layer, then kind, then head */
    size_t n_products;
    rs_ssm_rest *rests; /* of the state-space mixers that form products, by layer */
    size_t n_rests;
    rs_step_law steps;
    rs_tensor_role *roles; /* one for each of checkpoint->tensors */
    rs_notes notes; /* what was guessed, missing or unknown, and which form of RoPE is used */
    rs_arena *arena;
} rs_model;

/*
 * Reads the checkpoint as a model. map (may be NULL) is the parsed --map FILE.json, map_path its
 * name. Fails with RS_E_CONFIG_* when the config lies about sizes, RS_E_TENSOR_SHAPE when a tensor
 * disagrees, RS_E_TENSOR_DTYPE when a product needs a tensor that is not decodable,
 * RS_E_FAMILY_UNKNOWN / RS_E_NO_PRODUCT when nothing was recognised (the names are listed, at most
 * 20 and a count).
 */
rs_status rs_model_open(rs_model **out, const rs_checkpoint *checkpoint, const json_t *map,
                        const char *map_path, rs_error *err);
void rs_model_close(rs_model *model);

#endif
