/* certify_gather.h: the listener to the pass of `certify`; shared by certify_gather.c,
 * certify_attention.c, certify_predict.c, certify_lambda.c and certify_consensus.c. */
#ifndef RS_CERTIFY_CERTIFY_GATHER_H
#define RS_CERTIFY_CERTIFY_GATHER_H

#include "certify/certify_lambda.h"
#include "certify/certify_parts.h"
#include "linalg/workspace.h"
#include "proof/lambda.h"

/* A buffer for a matrix, kept from call to call. */
typedef struct rs_certify_room {
    double *data;
    size_t count;
} rs_certify_room;
rs_status rs_certify_room_for(rs_certify_room *room, int64_t rows, int64_t cols, rs_error *err);

/* The listener. */
typedef struct rs_certify_gather {
    const rs_network *network;
    const rs_inputs *inputs;
    const rs_weight_norms *norms;
    const rs_certify_options *options;
    const rs_context *context;
    rs_certify_lambda *lambda; /* NULL: it is not asked for */
    rs_certify_pass *pass;
    rs_input_batch batch;
    int64_t capacity;
    rs_certify_room state, summed, branch; /* [rows, d] X before the branch; the sum before the
                                              norm behind it; what the branch added */
    void **workspaces;                     /* [threads]: of the token measures */
    rs_token_measures *measures;           /* [capacity] */
    rs_certify_room *scratch;              /* [threads]: of the attention callback */
    /* consensus: eigenvalues of P by sample of the batch, and W */
    rs_certify_room eigenvalues, value_matrix;
    /* prediction */
    bool predicting;           /* the law is followed in this layer */
    rs_certify_room predicted; /* [rows, d] residual rows of the law so far */
    rs_certify_room values, mixed, weights, more, wide, gates;
    bool *sample_predicts; /* [capacity] */
    const char **reasons;  /* [capacity] why the sample is not predicted; static text */
} rs_certify_gather;

/* The number of rows of sample s of the batch at hand. */
static inline int64_t rs_batch_rows(const rs_certify_gather *g, int64_t s)
{
    return g->batch.batch.begin[s + 1] - g->batch.batch.begin[s];
}

static inline rs_certify_branch *rs_batch_branch(rs_certify_gather *g, int64_t s, int32_t l,
                                                 int32_t b)
{
    return rs_pass_branch(g->pass, g->batch.first + s, l, b);
}

/* certify_predict.c: follows the law. These are called in the order in which the pass tells of a
 * branch. */
rs_status rs_predict_begin_layer(rs_certify_gather *g, int32_t l, const double *x, rs_error *err);
rs_status rs_predict_op_in(rs_certify_gather *g, int32_t l, int32_t b, const double *x,
                           rs_error *err);
rs_status rs_predict_attention(rs_certify_gather *g, const rs_attention_view *view,
                               const double *mean_logits, double range, double *work,
                               rs_error *err);
rs_status rs_predict_op_out(rs_certify_gather *g, int32_t l, int32_t b, rs_error *err);
rs_status rs_predict_out(rs_certify_gather *g, int32_t l, int32_t b, const double *x,
                         rs_error *err);
void rs_predict_close(rs_certify_gather *g);

/* certify_attention.c: takes in one head; worker threads call it. */
rs_status rs_certify_attention(void *user, const rs_attention_view *view, rs_error *err);

/* certify_consensus.c: called before the heads of a branch; with each head's matrix, by worker
 * threads (work: n² doubles); and for the row of sample s of the batch. */
rs_status rs_consensus_begin(rs_certify_gather *g, int32_t l, int32_t b, rs_error *err);
rs_status rs_consensus_mixing(rs_certify_gather *g, const rs_attention_view *view, double *work,
                              rs_error *err);
rs_status rs_consensus_row(rs_lambda_row *row, const rs_certify_gather *g,
                           const rs_lambda_layer *layer, const rs_branch *mixer, int64_t s,
                           int32_t l, rs_error *err);

/* certify_lambda.c: called at the end of a branch, with what it read and what it added kept in
 * g. */
rs_status rs_certify_lambda_branch(rs_certify_gather *g, int32_t l, int32_t b, rs_error *err);

#endif
