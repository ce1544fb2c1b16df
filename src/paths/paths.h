/*
 * paths.h: `rankscope paths`: the output of a network as a sum over paths through its heads (Dong,
 * Cordonnier, Loukas 2021, arXiv 2103.03404; docs/theory/collapse.md, 12).
 *
 * A path takes, at every self-attention, one head or the skip beside it. Its length is the number
 * of heads that it takes. With the mixing matrices and the scales of the norms frozen at what they
 * were in the full pass, every path is a product P_path X W_path, and
 *
 *     X^L = sum over paths of P_path X^0 W_path + sum over sources of what they become above
 *
 * exactly. X^0 is what enters the first layer. A source is what a branch adds whatever its linear
 * input: the output of an MLP or of a cross-attention, and the biases of an attention and of the
 * norms around it. The length of a source's path counts the heads above the source.
 *
 * A norm enters as the linear map that it was: rows times 1/s_i, LayerNorm's centring and the gain
 * on the feature side; so rows of P_path do not sum to 1. A branch's skip passes paths on with
 * their length unchanged.
 *
 * Sums over all paths of one length come from dynamic programming over the layers, never from
 * enumeration: with Y^(k) the sum for length k, a layer does
 * Y^(k) <- after(skip Y^(k) + scale inside(sum_h P_h before(Y^(k-1)) W_h)).
 *
 * From below: rs_path_plan says which paths there are; rs_path_sums_of gives the sums of one
 * sample; rs_paths does it for all samples and writes tables, figures and findings; rs_paths_path
 * opens a path and does it all. All numbers are computed in float64.
 */
#ifndef RS_PATHS_PATHS_H
#define RS_PATHS_PATHS_H

#include "network/edit.h"
#include "observe/opened.h"

/* The sum over all paths and sources may leave the output by no more than this times the sum of the
 * norms of its terms: rounding is relative to what is added up, and not to what is left where terms
 * cancel. */
#define RS_PATH_IDENTITY 1e-10

/* ---- which paths there are (paths_plan.c) ---- */

/* What a path can do at one branch: pass along the skip, or take one of the heads. */
typedef struct rs_path_hop {
    int32_t layer, branch; /* from 0 */
    int32_t heads; /* heads to take; 0: an MLP, cross-attention, or a branch that is not run */
    bool skips;    /* the branch's skip is not 0 */
} rs_path_hop;

/* The paths of a network, by length. */
typedef struct rs_path_plan {
    rs_path_hop *hops; /* [n_hops] every branch in order */
    int32_t n_hops;
    int32_t deepest;   /* length of the longest path: the self-attentions that run */
    int32_t longest;   /* longest length with numbers of its own: deepest or --max-length */
    int64_t *count;    /* [longest+1] paths of each length; RS_NULL_INT above 2^63 - 1 */
    double *log_count; /* [longest+1] their natural logarithms; -inf: there are none */
    double log_total;  /* natural logarithm of the number of all paths */
    double *log_ways;  /* [n_hops+1][longest+1] ln of the ways to take m heads from hop i on */
} rs_path_plan;

/* Counts the paths; max_length < 0: all lengths. RS_E_UNSUPPORTED for a self-attention that reads
 * the state before another branch of its layer (no family has one). */
rs_status rs_path_plan_open(rs_path_plan **out, const rs_network *network, int64_t max_length,
                            rs_error *err);
void rs_path_plan_close(rs_path_plan *plan); /* NULL is fine */

/* Single paths, as they were drawn. */
typedef struct rs_path_set {
    size_t n, total;  /* drawn, and with those of one head that stand behind them */
    int32_t *choice;  /* [total][n_hops] head that is taken at each branch; -1: the skip */
    int32_t *length;  /* [n] lengths, ascending */
    size_t *first;    /* [longest+2] paths of length k are first[k] .. first[k+1]-1 */
    bool *exhaustive; /* [longest+1] the paths of this length are all that there are */
    int64_t *copies;  /* [n] how often each path is among those of its length: at least 1 */
    bool *again;      /* [n] it was drawn before */
} rs_path_set;

/* Draws `each` paths of every length uniformly (with replacement), or all where there are no more.
 * A length's draw depends on the seed and the length alone. */
rs_status rs_path_set_draw(rs_path_set **out, const rs_path_plan *plan, int64_t each, uint64_t seed,
                           rs_error *err);
/* Puts all paths of one head behind those that were drawn, for the norm of each alone, unless they are
 * all among them. */
rs_status rs_path_set_add_single(rs_path_set *set, const rs_path_plan *plan, rs_error *err);
void rs_path_set_close(rs_path_set *set);

/* ---- one sample (paths_pass.c) ---- */

/* How well the sums make the output. The terms are those of the embedding and of the sources, by
 * length. NaN where a term is not finite. */
typedef struct rs_path_identity {
    double error;        /* ‖sum − output‖_F / Σ ‖term‖_F */
    double output_error; /* the same / ‖output‖_F */
    double cancellation; /* Σ ‖term‖_F / ‖output‖_F: at least 1 but for rounding */
} rs_path_identity;

/* The sums of one sample: matrices [n, d], row-major, one behind the other. */
typedef struct rs_path_sums {
    int64_t n, d;
    int32_t longest;
    double *embedding;    /* [longest+2][n*d] sums of P_path X^0 W_path by length; the last one is
                             of all longer paths */
    double *source;       /* [longest+2][n*d] sums of what the sources become, by length, too */
    double *injected;     /* [n_layers][n*d] what the sources of each layer become; or NULL */
    double *injection;    /* [n_layers] Frobenius norm of a layer's sources; or NULL */
    double *output;       /* [n*d] the state behind the last layer, before the final norm */
    double *path_state;   /* [paths][n*d] P_path X^0 W_path */
    double *path_product; /* [paths][n*n] P_path times a power of two */
    rs_path_identity identity;
} rs_path_sums;

/* Computes them. batch: one sample with at least one row; weights: those of RS_PRECISION_F64; set
 * (may be NULL): single paths.
 * RS_E_NOT_FINITE names the first layer whose state holds NaN or infinity. */
rs_status rs_path_sums_of(rs_path_sums **out, const rs_network *network, rs_weights *weights,
                          const rs_batch *batch, const rs_path_plan *plan, const rs_path_set *set,
                          bool by_layer, const rs_context *context, rs_error *err);
void rs_path_sums_close(rs_path_sums *sums);

/* How far the whole of the sums moves, measured as identity.error is, when every number on the way
 * changes in its last bit (at random, always the same): what rounding does to them, whatever the
 * program does right or wrong. NaN where they then leave the range of float64. The arguments are
 * those that made the sums. */
rs_status rs_path_sums_moved(double *moved, const rs_path_sums *sums, const rs_network *network,
                             rs_weights *weights, const rs_batch *batch, const rs_path_plan *plan,
                             const rs_context *context, rs_error *err);

/* The identity of the sums, computed anew. */
rs_path_identity rs_path_identity_of(const rs_path_sums *sums);

/*
 * The published code's paths of one sample (paths_code.c): sums [longest + 1, n, d] gain, for each
 * length, the normed sum of its paths in the set; 0 where there are none. batch, weights: as above;
 * mlps: the MLPs of a path's layers run behind its heads, as in that program's model of memorisation.
 */
rs_status rs_path_code_sums_of(double *sums, const rs_network *network, rs_weights *weights,
                               const rs_batch *batch, const rs_path_plan *plan,
                               const rs_path_set *set, bool mlps, const rs_context *context,
                               rs_error *err);
/* What it norms with: (x − mean)/sqrt(variance + 1e-5) of each row of x (n×d). */
void rs_path_plain_norm(double *x, int64_t n, int64_t d);

/* ‖A‖_F, ‖A − mean of rows‖_F / ‖A‖_F, and the latter in the composite norm sqrt(‖·‖₁‖·‖∞). NaN
 * ratios for A = 0. A: n×d. */
typedef struct rs_path_size {
    double fro, residual, residual_1inf;
} rs_path_size;
rs_status rs_path_size_of(rs_path_size *out, const double *a, int64_t n, int64_t d, rs_error *err);

/* How far P (n×n) is from rank one: ‖P − σuvᵀ‖/‖P‖ for its leading singular triple, in the
 * Frobenius norm (exactly sqrt(Σ_{i≥2}σ_i²/Σσ_i²)) and in the composite norm, as the published
 * notebook measures it (docs/theory/collapse.md, 12). NaN for P = 0. */
typedef struct rs_rank1_distance {
    double fro, composite;
} rs_rank1_distance;
rs_status rs_rank1_distance_of(rs_rank1_distance *out, const double *p, int64_t n, rs_error *err);

/* ---- all samples ---- */

/* What to compute and say. */
typedef struct rs_paths_options {
    rs_input_source source;
    rs_edit edit;
    int64_t max_length; /* longest length with a row of its own; -1: every length has one */
    int64_t paths;      /* single paths drawn for each length; 0: none */
    rs_path_semantics semantics;
    bool by_layer;  /* table sources is written */
    bool lesions;   /* table lesions is written */
    bool no_logits; /* truncated models are not put through the head */
} rs_paths_options;
void rs_paths_defaults(rs_paths_options *options);
/* paths_needs.c: adds up the memory of a run with these options. */
rs_run_need rs_paths_need;

/* Writes tables summary, lengths, paths, truncated (theorem), sources (by_layer), lesions, combined (code);
 * RS_E_INTERNAL when the identity fails. */
rs_status rs_paths(rs_result *result, const rs_network *network, const rs_inputs *inputs,
                   const rs_paths_options *options, const rs_context *context, rs_error *err);

/* The command as the command line asks for it. */
typedef struct rs_paths_request {
    const rs_lent_model *lent; /* a model that is open already, instead of path; NULL */
    const char *path, *init;
    bool lenient;
    rs_paths_options options;
} rs_paths_request;

/* Opens, computes and closes. inputs receives the files that outputs must not replace; the caller
 * frees its `ids`. */
rs_status rs_paths_path(rs_result *result, rs_input_files *inputs, const rs_paths_request *request,
                        const rs_context *context, rs_error *err);

/* What its tables can have, for rs_explain. */
extern const rs_table_kind rs_paths_summary_kind, rs_paths_lengths_kind, rs_paths_paths_kind,
    rs_paths_truncated_kind, rs_paths_combined_kind, rs_paths_sources_kind, rs_paths_lesions_kind,
    rs_paths_strongest_kind, rs_paths_edges_kind;

#endif
