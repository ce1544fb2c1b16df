/* gather.h: the listener (pass.h) that gathers measures over samples; shared by
 * measure.c and gather_*.c. */
#ifndef RS_OBSERVE_GATHER_H
#define RS_OBSERVE_GATHER_H

#include "base/memory.h"
#include "observe/measure.h"

/* Sums of a table's columns over the samples so far, row by row. */
typedef struct rs_sums {
    double *sum;    /* [rows, columns] */
    int64_t *count; /* [rows, columns] samples where the column is defined */
    size_t rows, columns;
} rs_sums;
rs_status rs_sums_open(rs_sums *sums, size_t rows, size_t columns, rs_error *err);
void rs_sums_add(rs_sums *sums, size_t row, const double *values);
double rs_sums_mean(const rs_sums *sums, size_t row, size_t column); /* NaN: nowhere defined */
void rs_sums_close(rs_sums *sums);
/* columns.c: the values of n columns for one sample's measures, and their means over the samples,
 * put where the columns are read. */
void rs_measure_values(double *values, const rs_column *columns, size_t n, const void *measures);
void rs_measure_means(void *measures, const rs_column *columns, size_t n, const rs_sums *sums,
                      size_t row);
/* The same of the columns of the sums from `first` on. */
void rs_measure_means_from(void *measures, const rs_column *columns, size_t n, const rs_sums *sums,
                           size_t row, size_t first);

/* The listener, with one part for each kind of measure. */
typedef struct rs_gather {
    rs_listener listener;
    const rs_network *network;
    const rs_inputs *inputs;
    const rs_measure_options *options;
    const rs_context *context;
    rs_precision precision;
    const rs_input_batch *batch; /* the batch that runs now */
    int64_t capacity;            /* samples of a batch, at most */
    rs_measured *out;

    /* tokens */
    rs_sums tokens;           /* sums for the rows of out->tokens */
    const double *right;      /* the network's right vector, where the centre is made of it */
    double *residuals;        /* [rows of tokens, samples] relative residuals */
    double *logarithms;       /* [rows of tokens, samples] their logarithms to base 10 */
    bool *marks;              /* [rows of tokens, samples] the residual is rounding */
    rs_token_measures *slots; /* [capacity] measures of the state that is measured now */
    double *fused;            /* [rows of the batch, width of the fused state]; or NULL */
    int64_t fused_width, fused_rows;
    int32_t fused_layers; /* states that are in `fused` so far */

    /* attention: thread by thread, so that no two write to one place */
    rs_sums attention;            /* sums for the rows of out->attention, with columns more */
    rs_attention_measures *heads; /* [n_attention, capacity]; samples -1: no value */
    bool *seen;                   /* [n_attention, capacity] the sample was measured */
    rs_attention_null *nulls;     /* [n_attention, capacity] what uniform attention would measure */
    size_t *head_row;             /* [layers+1] first row of each layer */

    /* rollout: [capacity]; NULL: it is not measured */
    struct rs_rolled *rolled;
    rs_sums rollout; /* sums for the rows of out->rollout */

    /* mixing */
    rs_sums mixing;         /* sums for the rows of out->mixing */
    struct rs_mixed *mixed; /* [n_mixing, capacity] */
    size_t *mixing_first;   /* [layers+1] first row of each layer */

    /* loss */
    int32_t *targets; /* [rows of the batch] next tokens; -1: none */
    double *nll;      /* [rows of the batch] −ln of their probabilities */
    double nll_sum;   /* over all samples so far */
} rs_gather;

/* measure.c: the longest sample of which pairs of tokens are measured, and of which ranks of mixing
 * matrices are; 0: there is none. */
int64_t rs_gather_longest_pairs(const rs_gather *gather);
int64_t rs_gather_longest_ranks(const rs_gather *gather);

/* gather_tokens.c */
rs_status rs_gather_tokens_open(rs_gather *gather, rs_error *err);
rs_status rs_gather_state(void *gather, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err);
rs_status rs_gather_tokens_end_batch(rs_gather *gather, rs_error *err);
void rs_gather_tokens_finish(rs_gather *gather);
void rs_gather_tokens_close(rs_gather *gather);

/* floor.c: the relative residual below which all that is left is rounding; NaN: there is none. */
double rs_residual_floor(rs_precision precision);
/* Marks the states of one sample whose residual is rounding. marks, residuals: one entry `stride`
 * behind the other for state 0, then for block_out and mixer_out of each layer. */
void rs_floor_marks(bool *marks, const double *residuals, size_t stride, const rs_network *network,
                    double floor);

/* gather_attention.c */
rs_status rs_gather_attention_open(rs_gather *gather, rs_error *err);
rs_status rs_gather_attention(void *gather, const rs_attention_view *view, rs_error *err);
/* Those that have a row: the matrices of a layer's mixer, unless each channel has one. */
bool rs_gather_wants_attention(void *gather, int32_t layer, int32_t branch, int32_t head);
/* Those of the batch that are not too long. */
bool rs_gather_wants_sample(void *gather, int32_t sample);
void rs_gather_attention_end_batch(rs_gather *gather);
void rs_gather_attention_finish(rs_gather *gather);
/* gather_nulls.c: draws what heads without structure would have for ranks, behind the means. */
rs_status rs_gather_attention_nulls(rs_gather *gather, rs_error *err);
void rs_gather_attention_close(rs_gather *gather);

/* gather_rollout.c: heads are told by several threads, layers between them by one. */
rs_status rs_gather_rollout_open(rs_gather *gather, rs_error *err);
void rs_gather_rollout_head(rs_gather *gather, const rs_attention_view *view);
rs_status rs_gather_rollout_layer(rs_gather *gather, int32_t layer, rs_error *err);
void rs_gather_rollout_end_batch(rs_gather *gather);
void rs_gather_rollout_finish(rs_gather *gather);
void rs_gather_rollout_close(rs_gather *gather);
size_t rs_rollout_room(int64_t n); /* bytes of scratch that a thread needs */

/* gather_mixing.c. What one sample's matrices measured. */
typedef struct rs_mixed {
    rs_mixing_measures of;
    double most; /* the largest ‖M‖_F of them */
    bool seen;
} rs_mixed;
rs_status rs_gather_mixing_open(rs_gather *gather, rs_error *err);
bool rs_gather_wants_mixing(void *gather, int32_t layer, int32_t branch);
rs_status rs_gather_mixing(void *gather, const rs_mixing_view *view, rs_error *err);
/* The same of a matrix that is there: of softmax attention, which tells nothing otherwise. */
void rs_gather_mixing_matrix(rs_gather *gather, const rs_attention_view *view);
void rs_gather_mixing_end_batch(rs_gather *gather);
void rs_gather_mixing_finish(rs_gather *gather);
void rs_gather_mixing_close(rs_gather *gather);

/* drawn.c: the variance that a row's logits would have over many keys, if the layer's query and key
 * maps were drawn by the model's default law and read the tokens that were measured to enter; NaN:
 * the law is not known, or nothing was measured. */
double rs_logit_variance_drawn(const rs_network *network, const rs_measured *measured,
                               int32_t layer);

/* gather_loss.c. rs_nll_*: −ln softmax(x)_target for a row x of n logits. */
double rs_nll_f32(const float *x, int64_t n, int32_t target);
double rs_nll_f64(const double *x, int64_t n, int32_t target);
rs_status rs_gather_loss_open(rs_gather *gather, rs_error *err);
void rs_gather_loss_begin_batch(rs_gather *gather);
rs_status rs_gather_logits(void *gather, int64_t first_row, const rs_state_view *view,
                           rs_error *err);
void rs_gather_loss_end_batch(rs_gather *gather);
void rs_gather_loss_close(rs_gather *gather);

#endif
