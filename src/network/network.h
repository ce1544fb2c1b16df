/*
 * network.h: a model as data that a forward pass runs (docs/design.md, 1).
 *
 * A network is an embedding, a list of layers, a final norm and a head. A layer is a list of
 * branches, each
 *
 *     X <- after( skip * X + scale * inside( op( before(X) ) ) )
 *
 * where op is attention (self or cross) or an MLP, and before/inside/after are norms, any of them
 * absent: pre-LN has `before`, post-LN `after`, sandwich norms `before` and `inside`. GPT-NeoX's
 * parallel block is a second branch with `joins`: its op reads what the first branch read. Families
 * (families_*.c) become this description in network_*.c; interventions (edit.h) edit it; nothing in
 * a forward pass knows a family's or an ablation's name.
 *
 * Everything here borrows: weights stay in the checkpoint (mapped) or in an rs_init (drawn).
 */
#ifndef RS_NETWORK_NETWORK_H
#define RS_NETWORK_NETWORK_H

#include "linalg/activation.h"
#include "network/init.h"
#include "recognise/model.h"

/* What the configuration multiplies a stretch of a map's outputs by, beside what is stored. */
typedef struct rs_dense_factor {
    int64_t units; /* so many outputs, behind those of the factor before */
    double weight, bias;
} rs_dense_factor;

/*
 * A linear map y = W x + b as it is stored. The matrix view is rows×cols, row-major. Output unit u
 * is stored vector v(u) = first + (u / run) * stride + u % run: matrix row v when out_is_row
 * (nn.Linear, [out, in]), else matrix column v (Conv1D and XLNet, [in, out]). A plain map has first
 * 0, run = stride = out; a fused qkv picks its part.
 */
typedef struct rs_dense {
    const rs_tensor *weight; /* NULL: this map is absent */
    int64_t rows, cols;
    bool out_is_row;
    int64_t in, out;
    int64_t first, run, stride;
    const rs_tensor *bias; /* entry v(u) belongs to output u; NULL: none */
    /* FP8: the true weight of view element (i, j) is stored × scale[i / scale_block_rows][j /
     * scale_block_cols]; or NULL */
    const rs_tensor *scale;
    int64_t scale_block_rows, scale_block_cols;
    /* [n_factors], for all outputs in their order; NULL: 1. Whoever asks for numbers of the map gets
     * the product. */
    const rs_dense_factor *factors;
    int32_t n_factors;
} rs_dense;
/* Those of output u. */
rs_dense_factor rs_dense_factor_of(const rs_dense *dense, int64_t u);

/* Norm over the last dimension. kind NONE is the identity. LayerNorm: (x - mean)/sqrt(var + eps) *
 * gain + bias; RMSNorm: x/sqrt(mean(x²) + eps) * gain; PLUS_ONE: gain is 1 + the stored one. gain,
 * bias: `dim` entries from gain_first on, NULL: 1, 0. */
typedef struct rs_norm_op {
    rs_norm_kind kind;
    int64_t dim;
    double eps;
    const rs_tensor *gain, *bias;
} rs_norm_op;

/* Rotary positions: the first `dims` of each head rotate, pair t by angle position *
 * inverse_frequency(t). Frequencies come from rs_rope_frequencies: some laws depend on the length
 * of the text. */
typedef enum rs_rope_law {
    RS_ROPE_PLAIN,
    RS_ROPE_LINEAR,
    RS_ROPE_DYNAMIC,
    RS_ROPE_LLAMA3,
    RS_ROPE_YARN,
    RS_ROPE_FACTORS
} rs_rope_law;
typedef struct rs_rope_op {
    rs_rope_kind kind; /* NONE: no rotation */
    rs_rope_law law;
    int32_t dims; /* even */
    double theta, factor, low_freq_factor, high_freq_factor, beta_fast, beta_slow, attention_factor;
    int64_t original_positions;
    bool truncate;             /* yarn */
    const rs_tensor *divisors; /* FACTORS: GGUF's rope_freqs, dims/2 entries that the plain
                                  frequencies are divided by */
} rs_rope_op;
/* n where the law's frequencies are those of texts of n tokens alone (dynamic, beyond the trained
 * length); 0: they are those of every length. */
int64_t rs_rope_own_length(const rs_rope_op *rope, int64_t n);
/* inverse [dims/2] and the factor on cos and sin, for texts of n tokens. */
void rs_rope_frequencies(double *inverse, double *attention_factor, const rs_rope_op *rope,
                         int64_t n);
/* By how much, at most, rounding puts the angle of any pair wrong for each position that a token
 * lies from the first (radians; docs/certificates.md, C9); +infinity: not known. */
double rs_rope_angle_rate(const rs_rope_op *rope, int64_t n);

/* XLNet: score(i,j) = (q_i + content)·k_j + (q_i + position)·r_(i-j) + (q_i + segment)·s_(same
 * segment), r_p = R(p) times `r`, R(p) the sinusoid [sin | cos] of width d_model, p from n down to
 * -n. (docs/formats.md, 5.3) */
typedef struct rs_relative_op {
    rs_dense r; /* weight NULL: this attention has none */
    const rs_tensor *content_bias, *position_bias, *segment_bias; /* [heads, head_dim]; NULL: 0 */
    const rs_tensor *segment_embed; /* [2, heads, head_dim]; NULL: none */
    int64_t clamp;                  /* distances are clamped to ±clamp; <= 0: not */
} rs_relative_op;

typedef struct rs_attention_op {
    int32_t heads, kv_heads; /* query head h uses kv head h / (heads/kv_heads) */
    int64_t head_dim, value_dim;
    rs_dense q, k, v, o; /* outputs heads*head_dim, kv_heads*head_dim, kv_heads*value_dim; o reads
                            heads*value_dim. o.weight NULL: W_O is merged into W_V (the theory
                            papers' one matrix): value_dim is d_model, and the op's result is the
                            plain sum over heads of mixing_h X W_V,h (+ its bias) */
    rs_dense gate;       /* to heads*value_dim: what heads write, before o, is multiplied by
                            sigmoid(gate x); weight NULL: there is none */
    bool cross;          /* k and v read the batch's memory instead of the tokens */
    rs_norm_op q_norm, k_norm; /* before the rotation; dim = head_dim, or all heads at once when dim
                                  is the map's whole output */
    rs_rope_op rope;
    rs_relative_op relative;
    const rs_tensor *distance_bias; /* [heads, 2*reach+1]: added to logit (i, j) at clamp(i-j)+reach
                                       (ALiBi, learned); or NULL */
    int64_t distance_reach;
    double scale;   /* of q·k, such as 1/sqrt(head_dim) */
    double softcap; /* c: logits become c*tanh(logit/c); 0: none */
    bool causal;    /* key j is visible to query i iff j <= i */
    int64_t window; /* sliding: also i - j < window (|i - j| < window when not causal); 0: none */
    /* What interventions edit. Logits are divided by temperature; then the matrix applied to the
     * values is identity*I + softmax*P - uniform*C, P the softmax, C the uniform matrix over the
     * visible keys (11ᵀ/n; causal 1/i). */
    double temperature;                            /* 1 */
    double mix_identity, mix_softmax, mix_uniform; /* 0, 1, 0 */
    /* Before that, P becomes its best approximation of a rank of at most most_rank, or of the least
     * that keeps most_energy of Σσ², without what its mask hides; 0, 0: it stays. */
    int64_t most_rank;
    double most_energy;
} rs_attention_op;
/* Whether P is cut to a lower rank; whether, for that or another reason, the matrix applied to the values
 * is another than the softmax. */
bool rs_attention_is_cut(const rs_attention_op *op);
bool rs_attention_is_edited(const rs_attention_op *op);

typedef struct rs_mlp_op {
    rs_dense up, gate, down; /* gate.weight NULL: act(up x); else act(gate x) * (up x) */
    rs_activation activation;
    int64_t width;
} rs_mlp_op;

/* A causal convolution of each channel by itself: y_t = bias + sum_j w_j x_(t - width + 1 + j), x = 0
 * before the first token of a sample. */
typedef struct rs_conv_op {
    int64_t channels, width;
    const rs_tensor *weight;  /* [channels, 1, width] */
    const rs_tensor *bias;    /* [channels]; NULL: 0 */
    const rs_tensor *more[2]; /* with the weights of the channels behind those that `weight` holds;
                                 NULL: there are none */
} rs_conv_op;

/* Where a state-space mixer's gate z stands. */
typedef enum rs_gate_place {
    RS_GATE_BEFORE_NORM, /* norm(y * silu(z)) */
    RS_GATE_AFTER_NORM,  /* norm(y) * silu(z) */
    RS_GATE_NONE         /* norm(y) */
} rs_gate_place;

/* Mamba-2's mixer (state-space duality, docs/theory/ssm.md, 3): of a head with P values x_t and of
 * its group's n-vectors B_t, C_t, all behind a convolution and SiLU,
 *     S_t = exp(step_t a) S_(t-1) + step_t B_t x_tᵀ,  y_t = S_tᵀ C_t + d x_t,
 * step = clamp(softplus(dt + dt_bias)), a = -exp(a_log); then the gate, the norm and the output
 * map. Its mixing matrix is M_ij = C_i·B_j exp(a (step_(j+1) + ... + step_i)) step_j + d [i = j],
 * j <= i, applied to the values x. */
typedef struct rs_ssd_op {
    int32_t heads, groups; /* head h reads B and C of group h / (heads/groups) */
    int64_t head_dim, state;
    rs_dense in; /* to z (heads*head_dim), x (the same), B and C (groups*state each), dt (heads) */
    rs_conv_op conv;                      /* of x, B and C */
    const rs_tensor *dt_bias, *a_log, *d; /* [heads]; dt_bias, d NULL: 0 */
    bool a_stored;                        /* a_log holds a itself (GGUF) */
    double step_least, step_most;
    rs_gate_place gate;
    rs_norm_op norm;     /* of heads*head_dim, in equal stretches: one a group of the norm */
    int64_t norm_groups; /* at least 1 */
    rs_dense o;
} rs_ssd_op;

/* Mamba's mixer (S6, docs/theory/ssm.md, 2): every channel c has `state` numbers of its own,
 *     h_s <- exp(step a_s) h_s + step B_s u,  y = sum_s C_s h_s + d u,
 * u the channel behind convolution and SiLU, step = softplus(dt), B, C and dt read from all channels
 * of u; then the gate and the output map. The mixing matrix of channel c is M_ij = sum_s C_i,s B_j,s
 * exp(a_s (step_(j+1) + ... + step_i)) step_j + d [i = j], j <= i. */
typedef struct rs_s6_op {
    int64_t inner, state, rank;
    rs_dense in;                        /* to u and z, inner each */
    rs_dense x;                         /* from u to dt (rank), B and C (state each) */
    rs_dense step;                      /* from dt to inner */
    rs_norm_op dt_norm, b_norm, c_norm; /* of what x gives; NONE: absent */
    rs_conv_op conv;                    /* of u */
    const rs_tensor *a_log;             /* [inner, state] */
    const rs_tensor *d;                 /* [inner]; NULL: 0 */
    bool a_stored;                      /* a_log holds a itself (GGUF) */
    bool gated;                         /* y * silu(z) */
    rs_dense o;
} rs_s6_op;

/* What is applied to queries and keys of linear attention, entry by entry. */
typedef enum rs_feature_map {
    RS_FEATURE_IDENTITY,
    RS_FEATURE_ELU /* elu(x) + 1 */
} rs_feature_map;

/* Linear attention (docs/theory/ssm.md, 5): of a head, with features f of queries and keys,
 *     M_ij = f(q_i)·f(k_j) decay^(i-j) / temperature
 * over the keys that i sees (j <= i when causal, all otherwise), divided by its row sum where
 * `normalised`, applied to the values; then the norm of each head, the gate and the output map. */
typedef struct rs_linear_op {
    int32_t heads, kv_heads; /* head h uses key head h / (heads/kv_heads) */
    int64_t head_dim, value_dim;
    rs_dense q, k; /* heads*head_dim, kv_heads*head_dim */
    rs_dense v;    /* kv_heads*value_dim; weight NULL: values are the tokens, value_dim = d_model */
    rs_dense gate; /* heads*value_dim; weight NULL: there is none */
    rs_dense o;    /* weight NULL: the sum over heads, value_dim = d_model */
    rs_feature_map feature_map;
    double temperature;
    const rs_tensor *decay; /* [heads], 0 to 1; NULL: 1. Needs `causal` */
    bool causal;
    bool normalised;     /* a row that sums to 0 is taken for 0 */
    bool without_self;   /* a token does not see its own key */
    rs_gate_place place; /* of the gate, where there is one */
    rs_norm_op norm;     /* of heads*value_dim, a head by itself; NONE: absent */
} rs_linear_op;

/* S4D (docs/theory/ssm.md, 6): every channel c has `pairs` complex numbers of its own,
 *     h_s <- exp(step a_s) h_s + u,  y = 2 Re sum_s C_s (exp(step a_s) - 1)/a_s h_s + d u,
 * step = exp(log_step), a = -exp(log_decay) + i frequency; then GELU and (o y) * sigmoid(gate y). Its
 * mixing matrix is Toeplitz, one a channel, and does not depend on the input. */
typedef struct rs_s4d_op {
    int64_t channels, pairs;
    const rs_tensor *log_step;              /* [channels] */
    const rs_tensor *log_decay, *frequency; /* [channels, pairs] */
    const rs_tensor *c;                     /* [channels, pairs, 2] */
    const rs_tensor *d;                     /* [channels]; NULL: 0 */
    rs_dense o, gate;                       /* from channels to d_model */
} rs_s4d_op;

/* A gated linear recurrence (qLSTM, docs/theory/ssm.md, 7): of each channel x behind a convolution,
 *     h <- sigmoid(forget) h + sigmoid(in) x,  y = sigmoid(out) h,
 * forget, in and out maps of all channels of x; then y * gelu(gate) and the output map. The mixing
 * matrix of a channel is M_ij = sigmoid(out_i) sigmoid(forget_(j+1)) ... sigmoid(forget_i)
 * sigmoid(in_j). */
typedef struct rs_recurrence_op {
    int64_t inner;
    rs_dense in;     /* to the gate and x, inner each */
    rs_conv_op conv; /* of x */
    rs_dense gates;  /* from inner to forget, in and out, inner each */
    bool gated;      /* y * gelu(gate) */
    rs_dense o;
} rs_recurrence_op;

/* The gated delta rule (docs/theory/ssm.md, 8): of a head with values v_t and of its group's keys
 * k_t and queries q_t, all behind a convolution and its activation, keys and queries then divided by
 * their lengths and queries by sqrt(key_dim),
 *     S <- decay_t S,  S <- S + strength_t k_t (v_t - Sᵀk_t)ᵀ,  y_t = Sᵀq_t,
 * decay = exp(-exp(a_log) softplus(a + dt_bias)), strength = strength_most sigmoid(b); then the norm
 * of each head, the gate and the output map. */
typedef struct rs_delta_op {
    int32_t heads, key_heads;
    bool tiled;    /* head h reads q and k of h % key_heads, not of h / (heads/key_heads) */
    bool a_stored; /* a_log holds minus its exponential (GGUF) */
    int64_t key_dim, value_dim;
    rs_dense q, k;            /* key_heads*key_dim each */
    rs_dense v, z;            /* heads*value_dim each; z.weight NULL: there is no gate */
    rs_dense b, a;            /* heads each */
    rs_conv_op conv;          /* of q, k and v, in this order */
    rs_activation activation; /* behind it */
    const rs_tensor *a_log;   /* [heads] */
    const rs_tensor *dt_bias; /* [heads]; NULL: 0 */
    double strength_most;     /* 1; 2 lets a state change its sign */
    rs_gate_place gate;
    rs_norm_op norm; /* of value_dim: one gain for all heads */
    rs_dense o;
} rs_delta_op;

/* LFM2's gated short convolution (docs/theory/ssm.md, 9): b, c, x of each channel from `in`,
 *     y_t = c_t (bias + sum_j w_j (b x)_(t - width + 1 + j)),
 * and the output map. The mixing matrix of a channel is M_ij = c_i w_(width - 1 - i + j) b_j, applied
 * to x; the convolution's bias adds c_i bias behind it. */
typedef struct rs_short_conv_op {
    rs_dense in; /* to b, c and x, conv.channels each */
    rs_conv_op conv;
    rs_dense o;
} rs_short_conv_op;

/* A mixer whose matrix is given: V -> M V W_O, V the tokens' values, M made from the numbers of a
 * file (graph.h, docs/theory/graph.md), or the softmax of attention over a graph's edges alone. */
typedef struct rs_graph rs_graph;
typedef struct rs_graph_op {
    const rs_graph *graph;   /* its form, nodes and edges: samples have as many tokens as nodes */
    const rs_tensor *matrix; /* the numbers of M; NULL: attention */
    int32_t heads;           /* matrices; 1 unless attention */
    /* head h uses key head h / (heads/key_heads) and value head h / (heads/value_heads) */
    int32_t key_heads, value_heads;
    int64_t head_dim, value_dim;
    rs_dense q, k; /* attention alone */
    rs_dense v;    /* weight NULL: values are the tokens themselves, in value_heads stretches */
    rs_dense o;    /* weight NULL: the heads' results are added up; value_dim is d_model */
    double scale;  /* of q·k */
    double temperature; /* logits are divided by it */
} rs_graph_op;

/* What a branch's op is (op_traits.h says what each kind can do). */
typedef enum rs_branch_kind {
    RS_BRANCH_ATTENTION,
    RS_BRANCH_MLP,
    RS_BRANCH_SSD,
    RS_BRANCH_S6,
    RS_BRANCH_LINEAR,
    RS_BRANCH_S4D,
    RS_BRANCH_RECURRENCE,
    RS_BRANCH_DELTA,
    RS_BRANCH_SHORT_CONV,
    RS_BRANCH_GRAPH
} rs_branch_kind;
enum { RS_BRANCH_KINDS = RS_BRANCH_GRAPH + 1 }; /* no kind: a switch has no case for it */

typedef struct rs_branch {
    rs_branch_kind kind;
    rs_norm_op before, inside, after;
    double skip, scale; /* λ and α; scale 0: the op is not run */
    bool joins; /* parallel block: the op reads what the layer's first branch read; skip stays on
                   the running state */
    union {     /* the one that `kind` says: no other may be read (op_traits.h) */
        rs_attention_op attention;
        rs_mlp_op mlp;
        rs_ssd_op ssd;
        rs_s6_op s6;
        rs_linear_op linear;
        rs_s4d_op s4d;
        rs_recurrence_op recurrence;
        rs_delta_op delta;
        rs_short_conv_op short_conv;
        rs_graph_op graph;
    };
} rs_branch;

enum { RS_BRANCHES_MAX = 3 };
typedef struct rs_layer {
    rs_branch branches[RS_BRANCHES_MAX]; /* in order; rs_layer_mixer tells which is the mixer */
    int32_t n_branches;
    int32_t stored; /* the layer of the checkpoint whose weights these are (ALBERT and --depth
                       repeat layers) */
} rs_layer;

/* Tokens, rows of numbers or patches to the first state. x = norm(map(tokens[id]*scale) + positions[p
 * + position_offset] + types[0]), then projection (ALBERT, when its weight is there). Rows are what
 * the batch gives in the place of tokens[id]*scale. Images: patch projection, a class token in front,
 * positions added. */
typedef struct rs_embedding_op {
    /* [vocabulary, width], or [vocabulary, map.in]; NULL: the network is fed rows, states or images */
    const rs_tensor *tokens;
    int64_t vocabulary, width;
    int64_t rows;          /* numbers of a row that it is fed; 0: it is not fed rows */
    rs_dense map, map_out; /* map, or map_out(GELU(map)); a weight NULL: there is none */
    double scale;          /* Gemma: sqrt(d_model), 1 otherwise */
    bool scales_rows;      /* rows are multiplied by it, too: it stands behind the table, not in
                                   it (transformers: Granite's stands behind, Gemma's is inside) */
    const rs_tensor *positions; /* [positions, width], or [1, positions, width]; NULL: none */
    int64_t n_positions, position_offset;
    bool positions_fixed; /* they are no parameter: sinusoids that an architecture file asked for */
    const rs_tensor *types; /* [types, width], row 0 is used; NULL: none */
    rs_norm_op norm;
    rs_dense projection;
    rs_dense patch; /* in = channels*patch*patch (c, y, x order); weight NULL: no images */
    const rs_tensor *class_token; /* [width], or NULL */
    int64_t channels, image_height, image_width, patch_height, patch_width;
} rs_embedding_op;

/* Numbers of what a token or a row is in front of the embedding's map. */
int64_t rs_embedding_source(const rs_embedding_op *op);
/* Whether a batch may give rows of so many numbers. */
bool rs_embedding_reads_rows(const rs_embedding_op *op);

/* Logits: softcap( decoder( norm( act( transform(x) ) ) ) * scale ); transform and norm absent in
 * decoders. */
typedef struct rs_head_op {
    rs_dense transform;
    rs_activation activation;
    rs_norm_op norm;
    rs_dense decoder;      /* weight NULL: the network has no head */
    const rs_tensor *bias; /* a bias of the logits stored apart from the decoder; NULL: none */
    double scale, softcap; /* 1, 0 */
    bool next_token; /* logits of token i predict token i+1 (a causal language model): loss and
                        --generate make sense */
} rs_head_op;

/* How the states of all layers are read together. */
typedef enum rs_fusion {
    RS_FUSION_NONE,
    RS_FUSION_CONCAT,
    RS_FUSION_MAX,
    RS_FUSION_GATE
} rs_fusion;

/* What final norm and head read in the place of the last state, a token by itself, of the states
 * H_1 ... H_L behind the layers (docs/theory/signal.md, 5): CONCAT map [H_1 | ... | H_L]; MAX the
 * largest, entry by entry; GATE sum_k I_k H_k, I the softmax over k of map H_k. */
typedef struct rs_read_out_op {
    rs_fusion kind; /* NONE: they read the last state */
    rs_dense map;   /* CONCAT: n_layers*d_model to d_model; GATE: d_model to 1; MAX: absent */
} rs_read_out_op;

typedef enum rs_pooling {
    RS_POOLING_NONE,
    RS_POOLING_MEAN,
    RS_POOLING_CLS,
    RS_POOLING_MAX
} rs_pooling;

typedef struct rs_network {
    const char *family; /* "bert", "llama", "arch", ... */
    bool dong2021_code; /* the code released with Dong et al. 2021 runs this model, so that an edit
                           can ask for its variants without MLP */
    int64_t d_model;
    rs_embedding_op embedding;
    rs_layer *layers; /* in the arena */
    int32_t n_layers; /* as applied: shared blocks are listed as often as they run */
    rs_read_out_op read_out;
    rs_norm_op final_norm;
    rs_head_op head;
    rs_fusion fusion;      /* that probe measures: the read-out's; without one untrained, of states
                         that nothing reads so */
    int64_t max_positions; /* longest text; 0: no limit by construction */
    int64_t trained_positions; /* rotary positions: the length that the configuration was made for,
                                  no limit; 0: not said */
    int64_t padding_id;  /* transformers takes this id for padding wherever it stands, and counts no
                           position for it (RoBERTa); here ids given are never padding; -1: none */
    int64_t padding_row; /* the configuration's pad_token_id, which no text has; -1: none */
    rs_pooling pooling;  /* sentence-transformers' modules.json beside the model; MEAN counts real
                           tokens only */
    bool normalize;      /* and a Normalize module behind it */
    const char *pooling_file; /* the configuration that named the pooling; NULL: none was read */
    const rs_checkpoint *checkpoint; /* whose mapped tensors the weights are: a pass looks whether
                                        its files still have their pages; NULL: all are drawn */
    double init_std; /* standard deviation that the model's library draws attention and MLP by; NaN:
                         an architecture file, which has a law for each */
    rs_stored stored; /* of the checkpoint; drawn weights: those that the network uses, tied and
                         shared ones once, all F32 */
    rs_notes notes;   /* what a user should know: assumed, ignored, differing */
    rs_arena *arena;
} rs_network;

/*
 * The network of a checkpoint: any family of families_*.c whose forward pass is known, and what
 * rs_network_save (saved.h) wrote. Every tensor
 * it needs is checked to be there, decodable and of the right shape; sizes of the config against
 * the tensors; unknown activations, RoPE laws, position types refused by name (RS_E_UNSUPPORTED,
 * RS_E_CONFIG_*, RS_E_TENSOR_*). The checkpoint must outlive the network.
 */
rs_status rs_network_open(rs_network **out, const rs_checkpoint *checkpoint, rs_error *err);
/* Opens it and what rs_model_open makes of the checkpoint, which is recognised once for both. model
 * may be NULL. */
rs_status rs_network_open_with_model(rs_network **out, rs_model **model,
                                     const rs_checkpoint *checkpoint, rs_error *err);

/* The network of a configuration without weights: config is a parsed Hugging Face config.json
 * (`path` for messages); every tensor is drawn by `init` (which must outlive the network). */
rs_status rs_network_from_config(rs_network **out, const json_t *config, const char *path,
                                 rs_init *init, rs_error *err);

/* The same before a weight is drawn: its tensors have sizes and laws (rs_init_law), and no numbers. */
rs_status rs_network_plan(rs_network **out, const json_t *config, const char *path, rs_init *init,
                          rs_error *err);

/* The network of an architecture file (docs/arch.md). arch.c */
rs_status rs_network_from_arch(rs_network **out, const json_t *arch, const char *path,
                               rs_init *init, rs_error *err);

/* The same before a weight is drawn; init must outlive it. */
rs_status rs_arch_plan(rs_network **out, const json_t *arch, const char *path, rs_init *init,
                       rs_error *err);

/* A copy whose layers may be edited; tensors stay shared, `from`'s owner must outlive it. */
rs_status rs_network_copy(rs_network **out, const rs_network *from, rs_error *err);
void rs_network_close(rs_network *network); /* NULL is fine */

/* The branch's op where it is of that kind, else NULL (op_traits.c). */
const rs_attention_op *rs_branch_attention(const rs_branch *branch);
/* Whether positions turn queries and keys. */
bool rs_attention_turns(const rs_attention_op *op);
/* Whether a vector added to all keys adds one number to all logits of a query, which the softmax does
 * not see: keys stand in them as scale q·k alone. */
bool rs_attention_moves_alike(const rs_attention_op *op);
const rs_mlp_op *rs_branch_mlp(const rs_branch *branch);
/* The branch's op where it is an attention that is linear in its values once its matrices are
 * known, which a gate of its own would change; else NULL. */
const rs_attention_op *rs_branch_plain_attention(const rs_branch *branch);

/* The first branch of a layer that mixes its tokens and reads nothing else, such as the
 * self-attention; or NULL. */
const rs_branch *rs_layer_mixer(const rs_layer *layer);
/* Whether that branch is its layer's mixer, or mixes the same tokens beside it: what all of these
 * give is added up. */
bool rs_layer_mixes_with(const rs_layer *layer, int32_t branch);
/* Whether that branch is its layer's mixer. */
bool rs_is_mixer(const rs_network *network, int32_t layer, int32_t branch);

#endif
