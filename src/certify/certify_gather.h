/*
 * certify_gather.h: what `certify` hears of a float64 pass. Three listeners, each with rows of its
 * own, in this order: the gatherer fills rs_certify_pass; the predictor follows the law of collapse
 * and the skip strengths are weighed, both reading what the gatherer has filled in by then. None
 * calls another.
 */
#ifndef RS_CERTIFY_CERTIFY_GATHER_H
#define RS_CERTIFY_CERTIFY_GATHER_H

#include "certify/certify_lambda.h"
#include "linalg/workspace.h"
#include "observe/pass.h"
#include "proof/lambda_scalar.h"

/* A buffer for a matrix, kept from call to call. */
typedef struct rs_certify_room {
    double *data;
    size_t count;
} rs_certify_room;
rs_status rs_certify_room_for(rs_certify_room *room, int64_t rows, int64_t cols, rs_error *err);

/* What the listeners are opened for; it outlives them. */
typedef struct rs_certify_scene {
    const rs_network *network;
    const rs_weight_norms *norms;
    const rs_inputs *inputs;
    const rs_certify_options *options;
    const rs_context *context;
    int64_t capacity; /* samples of a batch, at most */
    int64_t widest;   /* tokens or keys of a mixing matrix, at most */
} rs_certify_scene;

/* The number of rows of sample s of a batch. */
static inline int64_t rs_batch_rows(const rs_input_batch *batch, int64_t s)
{
    return batch->batch.begin[s + 1] - batch->batch.begin[s];
}

/* certify_gather.c: the gatherer. Its pass is filled once the network has run. */
typedef struct rs_certify_gather rs_certify_gather;
rs_status rs_certify_gather_open(rs_certify_gather **out, const rs_certify_scene *scene,
                                 rs_error *err);
rs_listener *rs_certify_gather_listener(rs_certify_gather *gather);
rs_certify_pass *rs_certify_gather_pass(rs_certify_gather *gather);
void rs_certify_gather_close(rs_certify_gather *gather); /* NULL is fine */

/* certify_attention.c: what certificates need of a head; room: rs_certify_head_bytes. */
void rs_certify_head_of(rs_certify_head *out, int64_t *empty_rows, const rs_branch *branch,
                        const rs_attention_view *view, double *room);
/* The memory of it for matrices of at most n queries and keys. */
size_t rs_certify_head_bytes(int64_t n);
/* mean: [keys], of the logits over the queries. */
void rs_certify_mean_logits(double *mean, const rs_attention_view *view);

/* certify_mlp.c: the largest |Y_i - Y_j|/|X_i - X_j| of an MLP's rows Y [n, d_out] and those that it
 * read, X [n, d], the longest of them `longest`; pairs too close to tell from rounding are left
 * out. NaN: no pair is left. */
double rs_certify_mlp_stretch(const double *in, const double *out, int64_t n, int64_t d,
                              int64_t d_out, double longest);

/* certify_predict.c: the predictor. pass: the gatherer's. */
typedef struct rs_certify_predict rs_certify_predict;
rs_status rs_certify_predict_open(rs_certify_predict **out, const rs_certify_scene *scene,
                                  const rs_certify_pass *pass, rs_error *err);
rs_listener *rs_certify_predict_listener(rs_certify_predict *predict);
const rs_certify_prediction *rs_certify_predict_row(const rs_certify_predict *predict, int64_t s,
                                                    int32_t l);
void rs_certify_predict_close(rs_certify_predict *predict); /* NULL is fine */

/* certify_consensus.c: eigenvalues of the mixing matrices of one branch, sample by sample of a
 * batch, and its value matrix. */
typedef struct rs_certify_consensus {
    const rs_certify_scene *scene;
    rs_certify_room eigenvalues; /* [capacity, 2 longest] real parts, imaginary parts */
    rs_certify_room value_matrix;
} rs_certify_consensus;
/* Called before the heads of mixer b of layer l, with each head's matrix, by worker threads (work:
 * n² doubles), and for the row of sample s of the batch. */
rs_status rs_consensus_begin(rs_certify_consensus *consensus, int32_t l, int32_t b, rs_error *err);
rs_status rs_consensus_mixing(const rs_certify_consensus *consensus, const rs_attention_view *view,
                              double *work, rs_error *err);
rs_status rs_consensus_row(rs_lambda_row *row, const rs_certify_consensus *consensus,
                           const rs_lambda_layer *layer, int64_t s, int32_t l, rs_error *err);
void rs_consensus_close(rs_certify_consensus *consensus);

/* certify_scalar.c: the matrices of one branch, sample by sample of a batch, where theorem C and the
 * sign rule, or the S-lemma, can speak of them; what the others lack. */
extern const char rs_scalar_text[], rs_fixed_text[];
typedef struct rs_certify_scalar {
    const rs_certify_scene *scene;
    rs_certify_room mixing; /* [capacity, longest, longest] */
    rs_certify_room walks;  /* [capacity, 2 longest] numbers, then signs, of each sample's walk */
    rs_lambda_sign_walk *walk; /* [capacity] through the layers so far */
} rs_certify_scalar;
/* Whether they speak of mixer b of layer l. */
bool rs_scalar_wants(const rs_certify_scalar *scalar, int32_t l, int32_t b);
/* Called before its matrices, with each (by worker threads), and for the row of sample s of the
 * batch. */
rs_status rs_scalar_begin(rs_certify_scalar *scalar, int32_t l, int32_t b, rs_error *err);
void rs_scalar_mixing(const rs_certify_scalar *scalar, const rs_attention_view *view);
rs_status rs_scalar_row(rs_lambda_row *row, const rs_certify_scalar *scalar,
                        const rs_lambda_layer *layer, int64_t s, int32_t l, rs_error *err);
void rs_scalar_close(rs_certify_scalar *scalar);

/* certify_lambda.c: the skip strengths. pass: the gatherer's. */
rs_status rs_certify_lambda_open(rs_certify_lambda **out, const rs_certify_scene *scene,
                                 const rs_certify_pass *pass, rs_error *err);
rs_listener *rs_certify_lambda_listener(rs_certify_lambda *lambda);
/* Fills in what needs the whole layer and the marks of rounding: the over-smoothing factor. */
rs_status rs_certify_lambda_finish(rs_certify_lambda *lambda, rs_error *err);
void rs_certify_lambda_close(rs_certify_lambda *lambda); /* NULL is fine */

/* certify_hearing.c: all of them, of one pass. scene outlives it, and stays where it is. */
typedef struct rs_certify_hearing {
    const rs_certify_scene *scene;
    rs_listener *guest; /* hears behind them, another's; NULL: nobody does */
    rs_certify_gather *gather;
    rs_certify_predict *predict; /* NULL: the law was not asked for */
    rs_certify_lambda *lambda;
    rs_certify_pass *pass; /* the gatherer's */
} rs_certify_hearing;
/* What it has opened when it fails, rs_certify_hearing_close closes. */
rs_status rs_certify_hearing_open(rs_certify_hearing *out, const rs_certify_scene *scene, bool law,
                                  rs_error *err);
/* In the order in which they must hear; returns how many. */
size_t rs_certify_hearing_listeners(rs_listener *out[RS_CERTIFY_LISTENERS],
                                    const rs_certify_hearing *hearing);
/* Runs the pass for them alone. weights: float64, or NULL. */
rs_status rs_certify_hear(const rs_certify_hearing *hearing, rs_weights *weights, rs_error *err);
void rs_certify_hearing_close(rs_certify_hearing *hearing);

#endif
