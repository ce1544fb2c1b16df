/* paths_parts.h: parts of `paths` that its files share; private to paths*.c. */
#ifndef RS_PATHS_PATHS_PARTS_H
#define RS_PATHS_PATHS_PARTS_H

#include "paths/paths.h"

/* ---- frozen maps (paths_linear.c) ---- */

/* A norm as the linear map that it was on one state: y_i = (x_i − mean x_i) gain / s_i, plus a bias
 * that is a source. kind NONE: the identity. */
typedef struct rs_frozen_norm {
    rs_norm_kind kind;
    double *factor;      /* [n] 1/s_i */
    double *gain, *bias; /* [d] */
    double shake;        /* its input is shaken by so much first (rs_path_shake); 0: it is not */
} rs_frozen_norm;

/* Multiplies each number by 1 ± by; the sign depends on the number and its place alone. */
void rs_path_shake(double *x, int64_t count, double by);

/* The branch that is being passed: its norms, and for a self-attention its weights and mixing
 * matrices. */
typedef struct rs_frozen_branch {
    int64_t n, d;
    rs_frozen_norm before, inside, after;
    double skip, scale;
    /* self-attention */
    int32_t heads, kv_heads;
    int64_t value_dim;
    bool merged;          /* no W_O: heads are added up */
    double *w_v, *b_v;    /* [kv_heads*value_dim, d] value weights, and their biases */
    double *w_o, *b_o;    /* [d, heads*value_dim] output weights, and their biases */
    const double *mixing; /* [heads][n*n] */
    double *room;         /* holds the numbers of norms and weights */
} rs_frozen_branch;

/* Makes room for any branch of the network on n rows. */
rs_status rs_frozen_open(rs_frozen_branch *f, const rs_network *network, int64_t n, rs_error *err);
void rs_frozen_close(rs_frozen_branch *f);
/* Loads gains, biases and weights of a branch; rs_frozen_measure sets its factors. */
rs_status rs_frozen_load(rs_frozen_branch *f, const rs_branch *branch, bool attends, rs_error *err);
/* Sets factor[i] to 1/s_i of the norm on the rows of `state` (n×d). */
void rs_frozen_measure(rs_frozen_norm *norm, const rs_norm_op *op, const double *state, int64_t n,
                       int64_t d);
/* Applies the norm's linear part to x (n×d), and the bias when asked to. */
void rs_frozen_apply(double *x, const rs_frozen_norm *norm, int64_t n, int64_t d, bool bias);

/* How many numbers of scratch rs_frozen_attend needs for `slots` states. */
size_t rs_frozen_scratch(const rs_frozen_branch *f, int64_t slots);
/*
 * out_s = inside(Σ_h P_h before(x_s) W_h), linear parts alone, for `slots` states. Where x_s is
 * NULL the state is zero and all biases count: what the branch adds by itself. One thread, BLAS
 * inside.
 */
void rs_frozen_attend(double *const *out, double *const *x, int64_t slots,
                      const rs_frozen_branch *f, double *scratch);
/* out (n×d) = P_h (x W_V,h + b_V,h) W_O,h + b_O for one head, norms left out; p:
 * its mixing matrix. */
void rs_frozen_code_head(double *out, const double *x, const double *p, int32_t head,
                         const rs_frozen_branch *f, double *scratch);

/* ---- individual paths (paths_single.c) ---- */

enum { RS_PATH_NO_HEAD = -1 };

/* One path behind the branch that was passed last. Its state is n×d where width is 0, and above 0
 * the product A B, kept as B (width×d) and behind it A (n×width). Where width is RS_PATH_NO_HEAD it
 * is the state without heads, which is kept elsewhere. */
typedef struct rs_single_path {
    int64_t width;
    double *state, *product; /* [n*d], [n*n]; product NULL: not asked for */
} rs_single_path;

/* How many numbers of scratch an attention needs here; rs_single_finish needs n*d. */
size_t rs_single_scratch(const rs_frozen_branch *f);
/* Takes a path through the branch by that head (-1: the skip). start: the state without heads
 * before the branch; rows [n]: the diagonal of its product. */
void rs_single_advance(rs_single_path *path, int32_t head, const double *start, const double *rows,
                       const rs_frozen_branch *f, double *scratch);
/* Takes that diagonal through the branch by the skip. */
void rs_single_rows(double *rows, const rs_frozen_branch *f);
/* Multiplies a path's state out. */
void rs_single_finish(rs_single_path *path, const double *start, const double *rows, int64_t n,
                      int64_t d, double *scratch);

/* A power of two that brings the largest entry near 1 where squares of entries, and their sums,
 * would leave the range; else 1. */
double rs_path_scale(const double *a, int64_t count);
/* scale² <a, b>. */
double rs_path_dot(const double *a, const double *b, int64_t count, double scale);
/* Fails with RS_E_NOT_FINITE where a state holds NaN or infinity: what leaves a branch of that
 * layer, whose op has that name (NULL: the layer itself), or for layer -1 the embedding. */
rs_status rs_path_check_finite(const double *state, int64_t count, int32_t layer, const char *op,
                               rs_error *err);

/* ---- results of a sample (paths.c) ---- */

/* What paths of one length make together. X is the output. */
typedef struct rs_path_length {
    rs_path_size embedding, source;
    double projection, source_projection;              /* <., X>/‖X‖² of both */
    double cumulative_error, cumulative_error_sources; /* of all lengths up to this one */
} rs_path_length;

/* What the network makes of a state in place of its own last one. */
typedef struct rs_path_outcome {
    double state_error;      /* ‖f(Y) − f(X)‖_F/‖f(X)‖_F, f the final norm */
    double state_cosine;     /* mean over tokens of the cosine between f(Y) and f(X) */
    double embedding_cosine; /* cosine of the pooled embeddings; NaN: the model has no pooling */
    int64_t scored;          /* tokens with a target */
    double nll;              /* negative log-likelihood, summed over them */
    double top1, kl;         /* sums over all tokens; NaN: the model has no head */
    double logit_squares, logit_error_squares;
    int64_t tokens;
} rs_path_outcome;

/* Runs the final norm, head and pooling of a network on given states (paths_outcome.c). states
 * [count+1][n*d]: the first is the network's own, and so is the first outcome. ids [n] or NULL;
 * logits: also through the head. */
rs_status rs_path_outcomes(rs_path_outcome *out, const rs_network *network, rs_weights *weights,
                           const double *states, int64_t count, int64_t n, const int32_t *ids,
                           bool logits, const rs_context *context, rs_error *err);

/* A quantity over the sampled paths of a length. */
typedef struct rs_path_spread {
    int64_t n;
    double mean, error;       /* mean and its standard error; NaN below two paths */
    double median, low, high; /* median and its 95% interval by order statistics; NaN where there
                                 are too few paths for one */
} rs_path_spread;
/* The spread of n values, which are reordered; NaNs do not count. */
rs_path_spread rs_path_spread_of(double *values, int64_t n, bool exhaustive);

enum {
    RS_PATH_MEASURES = 4
}; /* contribution_fro residual_ratio rank1_distance rank1_distance_1inf */

/* The Frobenius cosines of pairs of different sampled paths of a length; NaN: there is no pair. */
typedef struct rs_path_cosine {
    double mean, error; /* error: the mean's standard error over draws of paths */
    double null; /* what chance makes of the mean, as a root mean square: of independent Gaussian
                           n×d matrices, drawn as often as these paths were */
} rs_path_cosine;

/* What one sample gave. */
typedef struct rs_path_sample {
    int64_t sample, tokens;
    rs_path_identity identity;
    rs_path_length *lengths;                   /* [longest+1] */
    rs_path_spread (*paths)[RS_PATH_MEASURES]; /* [longest+1]; or NULL */
    rs_path_cosine *cosines;                   /* [longest+1]; or NULL */
    rs_path_outcome *outcomes;                 /* [longest+2] the network's own state, then lengths
                                                  0 .. k for each k */
    double *injected_fro, *injected_projection, *injection_fro; /* [n_layers]; or NULL */
} rs_path_sample;

/* The norms of one path's contribution, summed over the samples (paths_lattice.c). */
typedef struct rs_path_strength {
    double fro, relative; /* relative to the output */
} rs_path_strength;

/* A run over all samples. */
typedef struct rs_paths_run {
    rs_result *result;
    const rs_network *network;
    const rs_inputs *inputs;
    const rs_paths_options *options;
    const rs_context *context;
    rs_weights *weights;
    rs_path_plan *plan;
    rs_path_set *set;
    rs_path_strength *strengths; /* [set->total]; NULL: not measured */
    rs_path_sample *samples;
    size_t n_samples;
    rs_path_identity identity;  /* the largest of each over the samples */
    struct rs_lesions *lesions; /* paths_lesions.h; NULL: not asked for */
} rs_paths_run;

/* Measures all paths that were drawn, on one sample (paths.c). */
rs_status rs_path_measure_paths(rs_path_sample *out, const rs_paths_run *run, const double *states,
                                const double *products, int64_t n, rs_error *err);
/* Compares all paths of each length with each other (paths_cosine.c). */
rs_status rs_path_measure_cosines(rs_path_sample *out, const rs_paths_run *run,
                                  const double *states, int64_t n, rs_error *err);
/* Runs one sample by the published code's semantics (paths_code.c). */
rs_status rs_paths_code_sample(rs_paths_run *run, rs_path_sample *out, const rs_batch *batch,
                               rs_error *err);
/* Whether there is room for that many paths of one head, of `state` bytes each. */
bool rs_paths_take_ones(double ones, double state, const rs_context *context);
/* Puts all paths of one head into the set where there is room for their states, and makes room for
 * strengths (paths_lattice.c). */
rs_status rs_paths_prepare_lattice(rs_paths_run *run, rs_error *err);
/* Adds the norms of a sample's paths to the strengths. */
void rs_paths_add_strengths(rs_paths_run *run, const rs_path_sums *sums);
/* Writes tables strongest_paths and path_edges, and the figure of them. */
rs_status rs_paths_lattice(const rs_paths_run *run, rs_error *err);
/* Write tables, words and figures (paths_tables.c, paths_words.c). */
rs_status rs_paths_tables(const rs_paths_run *run, rs_error *err);
rs_status rs_paths_words(const rs_paths_run *run, rs_error *err);
rs_status rs_paths_figures(const rs_paths_run *run, rs_error *err);

/* paths_words.c: the sum of short paths is the output "but for a tenth" at a relative error of this.
 */
#define RS_PATH_CLOSE 0.1
/* The least k whose paths make the output but for a tenth; -1: none. */
int32_t rs_paths_enough(const rs_paths_run *run);
/* Of all paths, the share that has at most `length` heads, as a logarithm to base 10. */
double rs_paths_log10_share(const rs_path_plan *plan, int32_t length);
/* Writes a share: "0.762%", or "10^-5.6". */
const char *rs_paths_power(char *text, size_t size, double log10_value);

/* paths_verdict.c: sets the verdict: which paths make the output. */
rs_status rs_paths_verdict(const rs_paths_run *run, rs_error *err);

/* Means over the samples of what tables say of length k (-1: of the network's own state, outcomes
 * alone); NaN where undefined everywhere. */
typedef struct rs_path_means {
    double fro, share, source_fro, source_share, projection, source_projection, residual, rank1;
    double cumulative_error, state_error, nll, top1, kl, logit_error, embedding_cosine;
} rs_path_means;
rs_path_means rs_paths_mean(const rs_paths_run *run, int32_t length);

#endif
