/*
 * arch.h: an architecture file (ARCH.json): a sequence model described in a few words, without a
 * checkpoint. Every field has a default; an unknown field or value is refused by name.
 *
 * field          default                     meaning
 * depth          12                          layers
 * d_model        64                          width
 * heads          1                           query heads
 * kv_heads       heads                       key and value heads
 * d_head         d_model / heads             width of a head
 * seq_len        16                          tokens of a sample (the longest text with learned
 *                                            positions)
 * vocab          null                        null: the network is fed rows, or states drawn by `input`
 * rows           null                        {"width": W, "map": linear | mlp, "map_width": M, "norm":
 *                                            false}: it is fed rows of W numbers, which the map turns
 *                                            into states; `mlp` is a map to M (0: d_model) numbers,
 *                                            GELU and a map; a LayerNorm behind
 * embed          null                        {"map": none | linear | mlp, "map_width": M, "norm":
 *                                            false}: the same behind the embeddings of tokens
 * outputs        null                        width of the head; null: vocab, or no head
 * fusion         "none"                      concat, max, gate: the head reads the states of all
 *                                            layers together, by weights of their own; without a
 *                                            head they are measured together as well
 * mixer          "attention"                 mamba, mamba2, linear_attention, s4d,
 *                                            gated_recurrence, gated_delta, short_conv, graph; a
 *                                            list gives one a layer
 * block          "sequential"                parallel: the MLP reads what the mixer reads, behind
 *                                            its own norm, and is added to skip and mixer (GPT-NeoX)
 * share_layers   false                       true: one layer's weights in every layer
 * attention      "softmax"                   uniform, centred (P - C), shaped (aI + bP - cC),
 *                                            rescaled ((1+w)P - wC)
 * shaped         [1, 1, 1]                   a, b, c of shaped, or a list with three for each layer
 * rescale        1                           w of rescaled
 * mask           "none"                      causal, sliding:W (causal, W tokens wide)
 * temperature    1                           logits are divided by it: a number above 0, a formula of
 *                                            L and l (from 0), or a list with one a layer
 * positions      "none"                      learned, sinusoidal, rope, alibi, relative (a bias for
 *                                            each head and distance)
 * norm           "pre"                       none, post, sandwich
 * norm_kind      "layernorm"                 rmsnorm
 * norm_affine    "none"                      gain, both: norms around ops and the final one have gains
 *                                            (1 at first), and biases (0)
 * bias           false                       true: maps of attention, of MLPs and of the head have
 *                                            biases, 0 at first
 * skip_mixer     1                           likewise, of any sign
 * skip_mlp       1                           likewise
 * branch_mixer   1                           likewise
 * branch_mlp     1                           likewise
 * mlp            "gelu"                      none, linear, relu, gelu_tanh, swiglu, sin, sigmoid
 * mlp_width      4 d_model
 * state          16                          numbers that a state has for each channel (gated_delta:
 *                                            width of a key)
 * groups         1                           groups of heads that share B and C (mamba2)
 * conv           4                           width of the convolution before a state-space mixer
 * gate           "before"                    where its gate stands: before or after the inner norm,
 *                gated_delta: "after"        or none
 *                linear_attention: "none"
 * inner_norm     mamba2, gated_delta: true   a norm behind the states (mamba2; of each head:
 *                others: false               gated_delta, linear_attention), of dt, B and C (mamba)
 * decay          1                           of linear_attention: a number from 0 to 1, a list with
 *                                            one a head, or "retnet" (1 - 2^(-5-h))
 * value_map      "free"                      identity: no W_V, values are the tokens
 *                                            (linear_attention, graph)
 * feature_map    "identity"                  elu: elu + 1, of its queries and keys
 * normalised     false                       true: its matrices are divided by their row sums
 * without_self   false                       true: its tokens do not see their own keys
 * dt_init        [0.001, 0.1]                least and largest step drawn, uniform in its logarithm
 * graph          null                        {"file": FILE.npy, "form": row | symmetric | attention
 *                                            | given} of mixer graph; seq_len is then the file's
 * init           {}                          laws by weight: wq wk wv wo w1 wg w2 embedding
 *                                            position relative head win wx wdt conv map fusion;
 *                                            default normal(0, 1/fan_in), 2/fan_in for w1 of relu,
 *                                            normal(0, 1) for embedding, position, uniform(-b, b)
 *                                            for wdt and conv, b = 1/sqrt(fan_in), zero for fusion
 *                                            of a gate; "wo": "none"
 *                                            merges attention's W_O into W_V; "wv" and "wo" of
 *                                            "identity" are absent maps: values are the tokens, each
 *                                            head's its stretch of them (whole with "wo": "none");
 *                                            the heads' results side by side are the output
 * input          {"law": "gaussian",         norm2: squared norm of every token, a formula of d, n
 *                 "rho": 0, "norm2": "d"}    and L; rho: correlation between tokens, -1/(n-1) to 1,
 *                                            a number or a formula of the same
 */
#ifndef RS_NETWORK_ARCH_H
#define RS_NETWORK_ARCH_H

#include "network/graph.h"
#include "network/network.h"

/* Layers, and numbers of any width, beyond these are slips of the pen, and would be asked of memory before
 * anything else is checked. */
#define RS_ARCH_MOST_LAYERS 65536
#define RS_ARCH_LARGEST ((int64_t)1 << 24)

/* Where a layer has norms. */
typedef enum rs_arch_norm {
    RS_ARCH_NORM_NONE,
    RS_ARCH_NORM_PRE,
    RS_ARCH_NORM_POST,
    RS_ARCH_NORM_SANDWICH
} rs_arch_norm;

/* How tokens are told their positions. */
typedef enum rs_arch_positions {
    RS_ARCH_POSITIONS_NONE,
    RS_ARCH_POSITIONS_LEARNED,
    RS_ARCH_POSITIONS_ROPE,
    RS_ARCH_POSITIONS_ALIBI,
    RS_ARCH_POSITIONS_RELATIVE,
    RS_ARCH_POSITIONS_SINUSOIDAL
} rs_arch_positions;

/* What of a norm is stored, and trained. */
typedef enum rs_arch_affine {
    RS_ARCH_AFFINE_NONE,
    RS_ARCH_AFFINE_GAIN,
    RS_ARCH_AFFINE_BOTH
} rs_arch_affine;

/* What stands between embeddings or rows of numbers and the first layer. */
typedef enum rs_arch_map_kind {
    RS_ARCH_MAP_NONE,
    RS_ARCH_MAP_LINEAR, /* a map */
    RS_ARCH_MAP_MLP     /* a map, GELU, a map */
} rs_arch_map_kind;
typedef struct rs_arch_embed {
    rs_arch_map_kind map;
    int64_t width; /* between the two maps of MLP; 0: d_model */
    bool norm;     /* a LayerNorm behind, with gain and bias */
} rs_arch_embed;

/* A layer's MLP, by its activation. */
typedef enum rs_arch_mlp {
    RS_ARCH_MLP_NONE,
    RS_ARCH_MLP_LINEAR,
    RS_ARCH_MLP_RELU,
    RS_ARCH_MLP_GELU,
    RS_ARCH_MLP_GELU_TANH,
    RS_ARCH_MLP_SWIGLU,
    RS_ARCH_MLP_SIN,
    RS_ARCH_MLP_SIGMOID
} rs_arch_mlp;

/* Mixers by their words, in the order of rs_arch_mixers (arch_mixers.c). */
typedef enum rs_arch_mixer {
    RS_ARCH_ATTENTION,
    RS_ARCH_LINEAR_ATTENTION,
    RS_ARCH_S4D,
    RS_ARCH_MAMBA,
    RS_ARCH_MAMBA2,
    RS_ARCH_GATED_RECURRENCE,
    RS_ARCH_GATED_DELTA,
    RS_ARCH_SHORT_CONV,
    RS_ARCH_GRAPH,
    RS_ARCH_MIXERS
} rs_arch_mixer;

/* The weights that "init" names. */
typedef enum rs_arch_weight {
    RS_ARCH_WQ,
    RS_ARCH_WK,
    RS_ARCH_WV,
    RS_ARCH_WO,
    RS_ARCH_W1,
    RS_ARCH_WG,
    RS_ARCH_W2,
    RS_ARCH_EMBEDDING,
    RS_ARCH_POSITION,
    RS_ARCH_RELATIVE,
    RS_ARCH_HEAD,
    RS_ARCH_WIN,
    RS_ARCH_WX,
    RS_ARCH_WDT,
    RS_ARCH_CONV,
    RS_ARCH_MAP,
    RS_ARCH_FUSION,
    RS_ARCH_WEIGHTS
} rs_arch_weight;

/* An architecture, field by field as above. */
typedef struct rs_arch {
    const char *path;
    int64_t depth, d_model, heads, kv_heads, d_head, seq_len, mlp_width;
    int64_t vocab;       /* 0: the file says null */
    int64_t rows;        /* numbers of a row that the network is fed; 0: it is not fed rows */
    rs_arch_embed embed; /* of rows or of tokens */
    int64_t outputs;     /* 0: the file says null */
    rs_fusion fusion;
    rs_arch_mixer *mixer; /* [depth] */
    bool share_layers;
    bool parallel; /* the MLP reads what the mixer reads */
    int64_t state, groups, conv;
    rs_gate_place gate;
    bool gate_given; /* the file says where the gate stands */
    int inner_norm;  /* -1: the file does not say */
    double *decay;   /* [heads] of linear attention; NULL: 1 */
    rs_feature_map feature_map;
    bool normalised, without_self;
    double dt_init[2];
    double mix_identity, mix_softmax, mix_uniform;
    double (*layer_mix)[3]; /* [depth] the same three, layer by layer; NULL: those are for all */
    bool causal;
    int64_t window;      /* 0: there is none */
    double *temperature; /* [depth] */
    rs_arch_positions positions;
    rs_arch_norm norm;
    rs_norm_kind norm_kind;
    rs_arch_affine affine;
    bool bias; /* of the maps of attention, MLPs and the head */
    double *skip_mixer, *skip_mlp, *branch_mixer, *branch_mlp; /* [depth] */
    rs_arch_mlp mlp;
    const char *init[RS_ARCH_WEIGHTS]; /* laws of the weights */
    bool merged_output;                /* the file says "wo": "none" */
    bool identity_values;              /* the file says "value_map": "identity" */
    bool absent_values, absent_output; /* the file says "wv", "wo": "identity" */
    struct rs_arch_graph *graph;       /* what "graph" names (arch_graph.c), or NULL */
    double input_rho, input_norm2;
    rs_arena *arena;
} rs_arch;

/* Reads and checks an architecture file; `path` is for messages. RS_E_ARCH_SCHEMA (unknown field or
 * value, bad size, list of the wrong length), RS_E_EXPRESSION; and what opening a graph's file gives. */
rs_status rs_arch_read(rs_arch **out, const json_t *json, const char *path, rs_error *err);
void rs_arch_close(rs_arch *arch);
/* What "init" calls the law of weights of a role ("wq"); NULL: it has none for them. */
const char *rs_arch_init_name(rs_role role);
/* The path of the file that "graph" names; NULL: there is none. */
const char *rs_arch_graph_path(const rs_arch *arch);
/* A field whose value is a whole number ("depth", "heads"). */
bool rs_arch_field_is_whole(const char *field);
/* Whether there is a field of that name ("input.rho": of an object in the file); where not, `nearest` is
 * the one most like it. */
bool rs_arch_has_field(char *nearest, size_t size, const char *field);

/*
 * Draws one sample of the input law: states [seq_len, d], d being d_model, or the width of the rows
 * that the network is fed; seq_len is the file's. Every
 * token has squared norm norm2 exactly; two tokens have E<x, y> = rho norm2 exactly: each is
 * sqrt(norm2) (sqrt(rho) u + sqrt(1 - rho) v), u a direction shared by the sample, v one of its own
 * among those orthogonal to u (all directions when rho is 0). Below 0 (arch_apart.c) tokens are cut at
 * random into groups of at most min(d, 128) (d + 1 where rho is -1/(n-1)): two of one group of m have
 * the inner product rho (n-1)/(m-1) norm2 itself, of two groups it is 0 in the mean. Depends on (seed,
 * sample) only. RS_E_ARCH_SCHEMA: so many tokens cannot have that correlation.
 */
rs_status rs_arch_input(double *states, const rs_arch *arch, uint64_t seed, int64_t sample,
                        rs_error *err);

#endif
