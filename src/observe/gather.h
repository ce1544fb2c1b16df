/* gather.h: what listens to a pass (rs_tap) and gathers measures over samples; shared by
 * measure.c and gather_*.c. */
#ifndef RS_OBSERVE_GATHER_H
#define RS_OBSERVE_GATHER_H

#include "base/memory.h"
#include "observe/measure.h"

/* Sums of a row's columns over the samples so far. */
typedef struct rs_sums {
    double *sum;    /* [rows, columns] */
    int64_t *count; /* [rows, columns] samples where the column is defined */
    size_t rows, columns;
} rs_sums;
rs_status rs_sums_open(rs_sums *sums, size_t rows, size_t columns, rs_error *err);
void rs_sums_add(rs_sums *sums, size_t row, const double *values);
double rs_sums_mean(const rs_sums *sums, size_t row, size_t column); /* NaN: nowhere defined */
void rs_sums_close(rs_sums *sums);

typedef struct rs_gather {
    const rs_network *network;
    const rs_probe_inputs *inputs;
    const rs_measure_options *options;
    const rs_context *context;
    rs_precision precision;
    const rs_probe_batch *batch; /* the batch that runs now */
    int64_t capacity;            /* samples a batch */
    rs_probe_measured *out;
    void **workspaces; /* [threads] */
    size_t workspace_bytes;

    /* tokens */
    rs_sums tokens;           /* rows as out->tokens */
    double *residuals;        /* [rows of tokens, samples] */
    double *logarithms;       /* the same: log10_relative_residual */
    bool *marks;              /* the same: the residual is rounding */
    rs_token_measures *slots; /* [capacity] of the state that is measured now */
    double *fused;            /* [rows of the batch, width of the fused state]; or NULL */
    int64_t fused_width, fused_rows;
    int32_t fused_layers; /* states in it so far */

    /* attention: thread by thread, so that no two write to one place */
    rs_sums attention;            /* rows as out->attention; two columns more than they show */
    rs_attention_measures *heads; /* [n_attention, capacity]; samples -1: no value */
    bool *seen;                   /* the same */
    double *most_entropy;         /* the same: mean over rows of ln of the visible keys */
    size_t *head_row;             /* [layers+1] first row of a layer */

    /* loss */
    int32_t *targets; /* [rows of the batch]; -1: none */
    double *nll;      /* the same */
    double nll_sum;
} rs_gather;

/* gather_tokens.c */
rs_status rs_gather_tokens_open(rs_gather *gather, rs_error *err);
rs_status rs_gather_state(void *gather, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err);
rs_status rs_gather_tokens_end_batch(rs_gather *gather, rs_error *err);
void rs_gather_tokens_finish(rs_gather *gather);
void rs_gather_tokens_close(rs_gather *gather);

/* floor.c. The floor of relative_residual; NaN where a residual never is rounding. */
double rs_probe_floor(rs_precision precision);
/* marks, residuals: of one sample, rows of table tokens (state 0, then block_out and
 * mixer_out of each layer) `stride` apart. */
void rs_floor_marks(bool *marks, const double *residuals, size_t stride, const rs_network *network,
                    double floor);

/* gather_attention.c */
rs_status rs_gather_attention_open(rs_gather *gather, rs_error *err);
rs_status rs_gather_attention(void *gather, const rs_attention_view *view, rs_error *err);
void rs_gather_attention_end_batch(rs_gather *gather);
void rs_gather_attention_finish(rs_gather *gather);
void rs_gather_attention_close(rs_gather *gather);

/* gather_loss.c. rs_nll_*: −ln softmax(x)_target of a row of n logits. */
double rs_nll_f32(const float *x, int64_t n, int32_t target);
double rs_nll_f64(const double *x, int64_t n, int32_t target);
rs_status rs_gather_loss_open(rs_gather *gather, rs_error *err);
void rs_gather_loss_begin_batch(rs_gather *gather);
rs_status rs_gather_logits(void *gather, int64_t first_row, const rs_state_view *view,
                           rs_error *err);
void rs_gather_loss_end_batch(rs_gather *gather);
void rs_gather_loss_close(rs_gather *gather);

#endif
