/*
 * measure.h: one network over many inputs, with the measures of tokens and attention gathered over
 * the samples (what probe and the laboratory show).
 */
#ifndef RS_OBSERVE_MEASURE_H
#define RS_OBSERVE_MEASURE_H

#include "measures/attention_measures.h"
#include "measures/token_measures.h"
#include "network/edit.h"
#include "observe/inputs.h"

/* A quantity over samples; samples where it is undefined (NaN) do not count. */
typedef struct rs_spread {
    int64_t n;
    double mean, std;                 /* std: of the samples, with n - 1; NaN below two */
    double min, max, median, geomean; /* geomean: exp of the mean logarithm; 0 when one is 0 */
} rs_spread;
/* values are reordered. */
rs_spread rs_spread_of(double *values, int64_t n);

enum { RS_TOKEN_REALS = 14, RS_TOKEN_LOGS = 6, RS_ATTENTION_REALS = 11 };

/* What a row of table tokens is measured on. */
typedef enum rs_token_site {
    RS_TOKEN_SITE_BLOCK_OUT,
    RS_TOKEN_SITE_MIXER_OUT,
    RS_TOKEN_SITE_FUSION_MAX,
    RS_TOKEN_SITE_FUSION_CONCAT,
    RS_TOKEN_SITE_FUSION_GATE,
    RS_TOKEN_SITES
} rs_token_site;
const char *rs_token_site_name(rs_token_site site); /* "block_out", ... */

/* One row of table tokens. */
typedef struct rs_token_row {
    rs_token_site site;
    int32_t layer;               /* state l: 0 enters the first block */
    double mean[RS_TOKEN_REALS]; /* order of rs_token_columns; NaN: nowhere defined */
    double log10[RS_TOKEN_LOGS]; /* order of rs_token_logs: means over the samples of the logarithm,
                                    of the residual precision; NaN for others */
    rs_spread residual;          /* relative_residual */
    rs_spread log10_residual;    /* of the samples' log10_relative_residual */
    bool at_floor;               /* residual.mean is rounding, or every sample's is */
    int64_t samples;             /* with tokens */
    int64_t zero;                /* of them, samples whose entries are all zero: no ratio exists */
    int64_t nonfinite;           /* of them, samples with a NaN or an infinity */
    int64_t first_sample, first_token; /* where the first of them is; -1 */
    int64_t open_centres;              /* samples whose LP centre is less exact than it should be */
    double open_gap;                   /* the largest relative gap of them */
    int64_t open_sample;               /* where it is */
    int64_t equal;                     /* residual precision: samples whose residual is exactly 0 */
    int64_t beyond;                    /* and samples whose exponent is below what is counted */
} rs_token_row;

/* One row of table attention. */
typedef struct rs_attention_row {
    int32_t layer, head;             /* from 0 */
    double mean[RS_ATTENTION_REALS]; /* order of rs_attention_columns */
    double gap_geomean, gap_min;     /* of spectral_gap over the samples */
    double entropy_ratio;            /* entropy / (mean over rows of ln of the visible keys) */
    int64_t samples;                 /* samples of at least one token that were measured */
    int64_t unconverged;             /* samples where an eigenvalue iteration failed */
} rs_attention_row;

typedef struct rs_measured {
    rs_token_row *tokens; /* by layer, then site */
    size_t n_tokens;
    rs_attention_row *attention; /* by layer, then head; empty when not asked for */
    size_t n_attention;
    int64_t samples;        /* that have tokens */
    int64_t singles;        /* of them, samples of one token */
    int64_t rows;           /* tokens in all */
    int64_t scored;         /* next tokens that the loss is over; 0: no loss was asked for */
    double nll;             /* mean negative log-likelihood of them, nats */
    double floor;           /* of relative_residual at this precision; NaN: there is none */
    uint64_t peak_bytes;    /* activations and workspace of the engine, at most */
    uint64_t measure_bytes; /* workspace of the measures */
    double flops;           /* of the matrix products of all passes */
    double seconds;         /* of all passes with their measures */
    int64_t batch;          /* samples a pass */
} rs_measured;

typedef struct rs_measure_options {
    rs_precision precision; /* of the weights given */
    bool tokens;            /* table tokens */
    bool spectral;          /* its rank columns */
    bool attention;         /* table attention */
    bool loss;              /* next-token loss, where the head predicts the next token */
    rs_centre centre;
    rs_fusion fusion;         /* one more row: the states of all layers read together */
    int64_t batch;            /* samples a pass; 0: chosen from memory */
    const char *phase;        /* for the progress bar; NULL: "probe" */
    int64_t *first_sample[2]; /* told, for taps, which sample each batch begins with; NULL */
    uint64_t done, total; /* progress so far and in all, in tokens; total 0: this network's alone */
} rs_measure_options;
/* Everything but loss, mean as centre. */
void rs_measure_defaults(rs_measure_options *options);

/*
 * Runs `network` over all inputs and measures it. taps (n_taps, may be 0) listen too, before the
 * measures. A NaN in the states is no failure (rows say where).
 */
rs_status rs_measure_network(rs_measured **out, const rs_network *network, rs_weights *weights,
                             const rs_inputs *inputs, const rs_measure_options *options,
                             const rs_tap *const *taps, size_t n_taps, const rs_context *context,
                             rs_error *err);
void rs_measured_free(rs_measured *measured); /* NULL is fine */

/* The row of a state, or NULL. */
const rs_token_row *rs_measured_row(const rs_measured *measured, rs_token_site site, int32_t layer);

/* How much decoded weight rs_weights_open may keep on this machine: half of its memory. */
uint64_t rs_weight_limit(const rs_context *context);
/* Samples of `longest` tokens that one pass takes when nobody says: as many as 4096 tokens hold,
 * fewer where their activations would take more than a sixteenth of the memory, at least one. */
int64_t rs_default_batch(const rs_network *network, rs_precision precision, int64_t longest,
                         const rs_context *context);

/* The columns in the order of rs_token_row.mean and rs_attention_row.mean: columns.c. */
extern const rs_column rs_token_columns[RS_TOKEN_REALS];
extern const rs_column rs_attention_columns[RS_ATTENTION_REALS];
extern const rs_column rs_token_logs[RS_TOKEN_LOGS];
/* The columns, and the logarithms behind them. */
void rs_token_values(double values[RS_TOKEN_REALS + RS_TOKEN_LOGS],
                     const rs_token_measures *measures);
void rs_attention_values(double values[RS_ATTENTION_REALS], const rs_attention_measures *measures);
enum { RS_TOKEN_RELATIVE_RESIDUAL = 2, RS_TOKEN_MEAN_COSINE = 7, RS_TOKEN_EFFECTIVE_RANK = 10 };
enum { RS_TOKEN_LOG_RELATIVE = 1 };
enum {
    RS_ATTENTION_ENTROPY = 0,
    RS_ATTENTION_LOGIT_VARIANCE = 1,
    RS_ATTENTION_GAP = 2,
    RS_ATTENTION_UNIFORM = 7,
    RS_ATTENTION_FIRST = 9
};

#endif
