/*
 * forward.h: running a network (network.h) on batches of sequences, with taps (docs/design.md, 2).
 *
 * A precision is a table of operations (embed, norm, attention, MLP, combine, head) in a file of
 * its own; forward.c walks the description and calls them, and knows neither families nor
 * precisions. A mixer that is not attention is one more branch kind with one operation per
 * precision. Sequences of a batch lie packed, one behind the other, so that padding does not exist
 * here.
 */
#ifndef RS_ENGINE_FORWARD_H
#define RS_ENGINE_FORWARD_H

#include "base/context.h"
#include "network/network.h"

enum { RS_PRECISIONS = RS_PRECISION_RESIDUAL + 1 };
/* The size of an element of a state's plain numbers; the unit roundoff u (2^-24, 2^-53). */
size_t rs_precision_size(rs_precision precision);
double rs_precision_roundoff(rs_precision precision);

/* Points of a sweep that run side by side in one pass: they differ in the branches' skips alone.
 * The samples go through the first op once; behind it the state is repeated for each point, and from
 * there on the batch that taps are told has points x samples samples, those of point 0 first. */
typedef struct rs_points {
    int32_t n;
    const double *skip; /* [branches of all layers, n], the first layer's first */
} rs_points;

/* Dropout of a training step: each number of what enters the first layer, of what each op gives and of
 * the probabilities of attention becomes 0 with probability `rate`, and is multiplied by 1/(1 - rate)
 * otherwise. Which do follows from seed, step and place alone; row i of the batch counts as first_row +
 * i. An op's result is dropped in front of the norm `inside`; states that a batch gives are not. */
typedef struct rs_dropout {
    double rate; /* from 0 to below 1 */
    uint64_t seed, step;
    int64_t first_row;
} rs_dropout;

/* Samples that run together, packed one behind the other. One of ids, rows, images, states is given. */
typedef struct rs_batch {
    int32_t samples;
    const int64_t *begin; /* [samples+1] sample s has rows begin[s] .. begin[s+1]-1, or none */
    const int32_t *ids;   /* [rows] token ids, or NULL */
    const double *rows;   /* [rows, rs_embedding_source()] what stands in the place of each token's
                             embedding, or is the row that the network is fed; or NULL */
    const float *images;  /* [samples, channels, height, width]: 1 + patches rows each */
    const double *states; /* [rows, d_model] what enters the first layer as it is, of any length:
                             nothing of the embedding is read; or NULL */
    const double *memory; /* [memory_begin[samples], d_model] for cross-attention; or NULL */
    const int64_t *memory_begin; /* [samples+1] first row of each sample in `memory` */
    const rs_points *points;     /* not with memory, nor in the residual precision; or NULL */
    const rs_dropout *dropout;   /* not with points, nor in the residual precision; or NULL */
} rs_batch;

/* Where in a network a state is; l counts layers from 1. */
typedef enum rs_site {
    RS_SITE_BLOCK_OUT, /* behind layer l, before any final norm; l = 0: what enters layer 1 */
    RS_SITE_MIXER_OUT, /* what the mixer of layer l gives, before norm, scale and skip; of several
                          side by side the sum; not told of a layer without */
    RS_SITE_READ_OUT,  /* what the read-out makes of the states behind all layers, before the final
                          norm; l = number of layers; not told of a network without */
    RS_SITE_FINAL,     /* after the final norm; l = number of layers */
    RS_SITE_COUNT
} rs_site;

/* Where in a branch X <- after(skip X + scale inside(op(before(X)))) a state is. A branch of scale
 * 0 has no OP_IN, OP_OUT and ADDED. */
typedef enum rs_moment {
    RS_MOMENT_IN,     /* the running X before the branch */
    RS_MOMENT_OP_IN,  /* before(X), or before() of what the layer's first branch read (joins) */
    RS_MOMENT_OP_OUT, /* op's result, before inside, scale and skip */
    RS_MOMENT_ADDED,  /* inside(op's result), before scale and skip */
    RS_MOMENT_SUM,    /* skip X + scale ADDED, which the norm `after` reads */
    RS_MOMENT_OUT,    /* the running X after the branch, its norm included */
    RS_MOMENT_COUNT
} rs_moment;

/* A state on its way through the network: rows as in the batch. Valid during the call only. */
typedef struct rs_state_view {
    rs_precision precision;
    const void *data; /* [rows, cols] float (F32) or double, leading dimension cols */
    int64_t rows, cols;
    const rs_batch *batch;
    /* RESIDUAL: row i of sample s is 2^scale_s (base_s + 2^exponent_s residual_i), of which `data`
     * are plain numbers: the columns of a sample's residual have mean zero and its largest entry is
     * in [1/2, 1), or all of it is 0. An exponent of RS_EXPONENT_LEAST (residual.h) was below what
     * is counted. A scale other than 0 is that of tokens near the ends of the doubles' range, where
     * `data` may be infinite or 0. NULL for logits and other precisions. */
    const double *base;      /* [samples, cols] */
    const double *residual;  /* [rows, cols] */
    const int64_t *exponent; /* [samples] */
    const int64_t *scale;    /* [samples] */
    const double *rounding;  /* [samples] share of the residual that may be rounding: residual.h */
} rs_state_view;

/* The attention matrices of one head on one sample. Taps are told of them by worker threads,
 * several at once: `thread` says which. */
typedef struct rs_attention_view {
    rs_precision precision;
    int32_t layer, branch;     /* branch of a layer that the matrices are of, both from 0 */
    int32_t head, sample;      /* from 0 */
    int thread;                /* 0 .. context.threads - 1 */
    int64_t n, keys;           /* numbers of queries and keys */
    int64_t ld;                /* leading dimension of all three */
    const void *mixing;        /* [n, keys] what is applied to the values */
    const void *probabilities; /* [n, keys] the softmax; mixing itself unless edited; NULL: the
                                  mixer has none */
    const void *logits;        /* [n, keys] with scale, cap and temperature, without the mask; NULL
                                  unless wants_logits */
    double skip; /* d of the d I that a skip inside the mixer adds to `mixing`; 0: it has none */
    bool causal, cross;
    int64_t window;
} rs_attention_view;

/* What one mixing matrix M [n, n] of a sample says of itself, from recurrences linear in n
 * (docs/theory/ssm.md, 10). NaN: the mixer has no such number. */
typedef struct rs_mixing_numbers {
    double square;       /* ‖M‖_F² */
    double mixed_square; /* ‖M − d I‖_F²: without the skip d inside the mixer */
    double skip;         /* d */
    double row_sum_least, row_sum_most; /* of the n row sums */
    double
        log_decay; /* mean over tokens, and over states that differ, of the logarithm of the factor
                         by which what is kept decays at a token; -infinity where that is 0 */
    double step;   /* mean step */
} rs_mixing_numbers;

/* The bytes of workspace that telling them, of every mixer but attention, takes beside a pass over up
 * to `samples` texts of up to `longest` tokens. */
double rs_mixing_bytes(const rs_network *network, rs_precision precision, int64_t samples,
                       int64_t longest, int threads);

/* All matrices of a branch on one sample of n tokens. */
typedef struct rs_mixing_view {
    int32_t layer, branch, sample; /* from 0 */
    int64_t n;
    int32_t matrices;
    const rs_mixing_numbers *of; /* [matrices] */
} rs_mixing_view;

/* A listener. Any function may be NULL. A status other than RS_OK ends the pass with it. What nobody
 * asks for is neither formed nor told; which states and moments are told changes no number of the
 * pass. A view's data are the engine's own: a listener copies what it needs beyond the call. */
typedef struct rs_tap {
    void *user;
    unsigned sites; /* bits 1u << RS_SITE_...: the states that `state` is told */
    rs_status (*state)(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                       rs_error *err);
    unsigned moments; /* bits 1u << RS_MOMENT_...: the moments that `branch` is told */
    /* Moments of branch `branch` (from 0) of layer `layer` (from 0), in the order above; the
     * attention matrices of that branch come between OP_IN and OP_OUT. */
    rs_status (*branch)(void *user, int32_t layer, int32_t branch, rs_moment moment,
                        const rs_state_view *view, rs_error *err);
    /* Which heads (layer, branch, head from 0): the engine forms the matrix only for those. NULL:
     * all. */
    bool (*wants_attention)(void *user, int32_t layer, int32_t branch, int32_t head);
    bool (*wants_sample)(void *user, int32_t sample); /* and for which samples; NULL: all */
    bool wants_logits;
    rs_status (*attention)(void *user, const rs_attention_view *view, rs_error *err);
    /* Branches (layer, branch from 0) whose mixing matrices are to be told in numbers, without being
     * formed; attention has none of this kind. NULL: all. `mixing` is told behind the op, a sample a
     * call, in order. */
    bool (*wants_mixing)(void *user, int32_t layer, int32_t branch);
    rs_status (*mixing)(void *user, const rs_mixing_view *view, rs_error *err);
    /* Head's logits for rows [first_row, first_row + view->rows): in order, in pieces, so that
     * [rows, vocabulary] never exists whole. */
    rs_status (*logits)(void *user, int64_t first_row, const rs_state_view *view, rs_error *err);
} rs_tap;

/* The number of rows whose logits are made, and held, at once. */
int64_t rs_logits_rows(const rs_dense *decoder, rs_precision precision);

typedef struct rs_runner rs_runner;

/* Decoded or converted weights, shared by runners of one precision (variants of one model).
 * limit_bytes: how much decoded weight is kept (float32 tensors that can be used where they are
 * mapped are never copied); beyond it weights are decoded again, layer by layer, on each pass. */
typedef struct rs_weights rs_weights;
rs_status rs_weights_open(rs_weights **out, rs_precision precision, uint64_t limit_bytes,
                          rs_error *err);
void rs_weights_close(rs_weights *weights);
/* Bytes of numbers that decoding has made so far; what is used where it is mapped is not among them. */
uint64_t rs_weights_decoded(const rs_weights *weights);
/* Says that numbers of tensors that runners read through these weights are others now, or stand at
 * other addresses: what was decoded is forgotten, and the next pass reads all of them anew. Not
 * while a runner of these weights runs. */
void rs_weights_changed(rs_weights *weights);

/* Opens what runs a network; network, weights and context must outlive it. Checks that the
 * description is consistent (widths, heads). */
rs_status rs_runner_open(rs_runner **out, const rs_network *network, rs_weights *weights,
                         const rs_context *context, rs_error *err);
void rs_runner_close(rs_runner *runner);

/*
 * Runs the network over one batch. Refuses ids outside the vocabulary (RS_E_TOKEN_RANGE: sample,
 * position, id), sequences longer than the positions (RS_E_TOO_LONG), images of the wrong size.
 * Workspace is kept between calls: after the first batch of a shape nothing is allocated. Cancelled
 * through the context between operations. The head runs only when a tap has `logits`.
 */
rs_status rs_runner_run(rs_runner *runner, const rs_batch *batch, const rs_tap *const *taps,
                        size_t n_taps, rs_error *err);

/* The most bytes of activations and workspace that were held so far. */
uint64_t rs_runner_peak(const rs_runner *runner);
/* The floating-point operations of the last pass's matrix products (2 a multiply-add). */
double rs_runner_flops(const rs_runner *runner);

/* Continues the one sample of prompt, which has ids and the memory that the network reads, greedily
 * by n_new ids, out [n_new]; nothing stops it earlier. */
rs_status rs_generate(int32_t *out, rs_runner *runner, const rs_batch *prompt, int64_t n_new,
                      rs_error *err);

#endif
