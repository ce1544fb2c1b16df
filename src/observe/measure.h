/*
 * measure.h: one network over many inputs, with the measures of tokens and attention gathered over
 * the samples (what probe and the laboratory show).
 */
#ifndef RS_OBSERVE_MEASURE_H
#define RS_OBSERVE_MEASURE_H

#include "measures/attention_measures.h"
#include "measures/attention_null.h"
#include "measures/mixing_measures.h"
#include "measures/token_measures.h"
#include "network/edit.h"
#include "observe/gather_gradients.h"
#include "observe/pass.h"

/* A quantity over samples; samples where it is undefined (NaN) do not count. */
typedef struct rs_spread {
    int64_t n;
    double mean, std;                 /* std: of the samples, with n - 1; NaN below two */
    double min, max, median, geomean; /* geomean: exp of the mean logarithm; 0 when one is 0 */
} rs_spread;
/* The spread of n values, which it reorders. */
rs_spread rs_spread_of(double *values, int64_t n);

/* The numbers of columns: of tokens, of their logarithms behind those, of attention, of its null. */
enum { RS_TOKEN_REALS = 14, RS_TOKEN_LOGS = 7, RS_ATTENTION_REALS = 19, RS_ATTENTION_NULLS = 14 };

/* What a row of table tokens is measured on. */
typedef enum rs_token_site {
    RS_TOKEN_SITE_BLOCK_OUT,  /* the state behind a layer */
    RS_TOKEN_SITE_MIXER_OUT,  /* what a layer's mixer adds */
    RS_TOKEN_SITE_FUSION_MAX, /* the states of all layers read together, see rs_fusion */
    RS_TOKEN_SITE_FUSION_CONCAT,
    RS_TOKEN_SITE_FUSION_GATE,
    RS_TOKEN_SITES
} rs_token_site;
const char *rs_token_site_name(rs_token_site site); /* "block_out", ... */

/* One row of table tokens: a state of the network, over all samples. */
typedef struct rs_token_row {
    rs_token_site site;
    int32_t layer;            /* number of the state; 0 enters the first block */
    rs_token_measures mean;   /* means of what rs_token_columns names; NaN: undefined */
    rs_spread residual;       /* spread of the samples' relative residuals */
    rs_spread log10_residual; /* spread of their logarithms to base 10 */
    bool at_floor;            /* residual.mean is rounding, or every sample's residual is */
    int64_t samples;          /* samples that have tokens; only these count below */
    int64_t zero;             /* samples whose entries are all zero: no ratio exists */
    int64_t nonfinite;        /* samples with a NaN or an infinity */
    int64_t first_sample, first_token; /* place of the first NaN or infinity; -1: there is none */
    int64_t open_centres;              /* samples whose LP centre is less exact than it should be */
    double open_gap;                   /* largest relative gap of such a centre */
    int64_t open_sample;               /* sample with that gap */
    int64_t equal;                     /* residual precision: samples whose residual is exactly 0 */
    int64_t beyond;                    /* residual precision: samples below all exponents */
    int64_t outside;                   /* residual precision: samples whose size is no double */
} rs_token_row;

/* One row of table attention: a head, over all samples. */
typedef struct rs_attention_row {
    int32_t layer, head;         /* from 0 */
    rs_attention_measures mean;  /* means of what rs_attention_columns names */
    double gap_geomean, gap_min; /* geometric mean and least of the spectral gap */
    double entropy_ratio;        /* entropy over the mean of ln of the visible keys */
    rs_attention_null null; /* means of what uniform attention measures; logit_variance: of drawn
                               query and key weights, see rs_attention_null_columns */
    int64_t samples;        /* measured samples; empty ones are not counted */
    int64_t unconverged;    /* samples where an eigenvalue iteration failed */
} rs_attention_row;

/* One row of table mixing: a head, or all channels of a mixer that has a matrix for each. */
typedef struct rs_mixing_row {
    int32_t layer, branch;   /* from 0 */
    int32_t head;            /* from 0; -1: the channels' root mean square, range and mean */
    const char *mixer;       /* as ARCH.json calls its kind */
    rs_mixing_measures mean; /* means; row sums: least and largest over the samples */
    double frobenius_most; /* the largest ‖M‖_F of any sample and channel; NaN: there is none */
    int64_t samples;       /* measured samples; empty ones are not counted */
} rs_mixing_row;

/* What is multiplied layer by layer. */
typedef enum rs_rollout_form {
    RS_ROLLOUT_MEAN, /* the heads' mean matrix A */
    RS_ROLLOUT_HALF, /* ½(A + I), the published attention rollout */
    RS_ROLLOUT_FORMS
} rs_rollout_form;

/* One row of table rollout: the product of the layers up to `layer`, means over the samples. */
typedef struct rs_rollout_row {
    int32_t layer; /* from 0 */
    rs_rollout_form form;
    double sigma_ratio;    /* σ₂/σ₁ */
    double effective_rank; /* exp(−Σ p ln p), p = σ/Σσ */
} rs_rollout_row;

/* What a network did to its inputs. */
typedef struct rs_measured {
    rs_token_row *tokens; /* [n_tokens] sorted by layer, then site */
    size_t n_tokens;
    rs_attention_row *attention; /* [n_attention] sorted by layer, then head */
    size_t n_attention;
    rs_rollout_row
        *rollout; /* [n_rollout] sorted by layer, then form; none where a layer mixes in a
                                way that is not followed, or no ranks are asked for */
    size_t n_rollout;
    rs_mixing_row *mixing; /* [n_mixing] sorted by layer, branch, then head */
    size_t n_mixing;
    int64_t samples;   /* samples that have tokens */
    int64_t singles;   /* samples of one token */
    int64_t left_out;  /* samples too long for what costs the square of their length */
    int64_t unranked;  /* samples of table attention too long for its ranks */
    int64_t rows;      /* tokens of all samples */
    int64_t scored;    /* next tokens that the loss is over; 0: no loss was asked for */
    double nll;        /* mean negative log-likelihood of those tokens, nats */
    double floor;      /* relative residual that is rounding at this precision; NaN: none is */
    rs_graded *graded; /* gradients; NULL: they were not asked for */
    rs_pass_account account; /* of the pass with its measures */
    uint64_t measure_bytes;  /* memory that the measures took */
    int64_t batch;           /* samples that were run at once */
} rs_measured;

/* Which mixing matrices have a row in table mixing. */
typedef enum rs_mixing_choice {
    RS_MIXING_NONE, /* none */
    RS_MIXING_TOLD, /* none of a network of softmax attention alone; else all that are formed anyway
                       or need not be */
    RS_MIXING_ALL   /* all */
} rs_mixing_choice;

/* What to measure. */
typedef struct rs_measure_options {
    rs_precision precision; /* precision of the weights given */
    bool tokens;            /* table tokens is measured */
    bool spectral;          /* its rank columns and those of table attention are, too */
    bool attention;         /* table attention is measured */
    rs_mixing_choice mixing;
    bool loss;      /* the next-token loss is, where the head predicts the next token */
    bool quadratic; /* what costs the square of a sample's length, also of long ones */
    const rs_gradient_request *gradient; /* NULL: no gradients */
    rs_centre centre;
    rs_fusion fusion;     /* adds a row on the states of all layers read together */
    int64_t batch;        /* samples that are run at once; 0: as memory allows */
    const char *phase;    /* name for the progress bar; NULL: "probe" */
    uint64_t done, total; /* tokens done so far and in all; total 0: this network's alone */
} rs_measure_options;
/* gather_mixing.c: whether table mixing is wanted of this network, and the rows that it would have. */
bool rs_mixing_is_asked(const rs_network *network, const rs_measure_options *options);
size_t rs_mixing_rows(const rs_network *network, const rs_measure_options *options);

/* Sets everything but mixing and the loss to be measured, with the mean as centre. */
void rs_measure_defaults(rs_measure_options *options);
/* Of samples of more tokens, the diameter and the mixing matrices are left out, whose price is the
 * square of the length, unless `quadratic` asks for them. */
enum { RS_QUADRATIC_TOKENS = 8192 };
bool rs_measures_pairs(const rs_measure_options *options, int64_t n);
/* Whether the ranks of mixing matrices of a sample of n tokens are measured, whose price is the cube of
 * the length: not of more than RS_RANK_TOKENS, unless `quadratic` asks for them. */
enum { RS_RANK_TOKENS = 512 };
bool rs_measures_ranks(const rs_measure_options *options, int64_t n);
/* gather_rollout.c: bytes that table rollout takes. */
double rs_rollout_bytes(double samples, int64_t longest, int threads);

/*
 * Runs `network` over all inputs and measures it. Other listeners (n, may be 0; RS_MEASURE_GUESTS at
 * most) listen too, before the measures. A NaN in the states is no failure (rows say where).
 */
enum { RS_MEASURE_GUESTS = 6 };
rs_status rs_measure_network(rs_measured **out, const rs_network *network, rs_weights *weights,
                             const rs_inputs *inputs, const rs_measure_options *options,
                             rs_listener *const *listeners, size_t n, const rs_context *context,
                             rs_error *err);
/* Takes for the null of each head what that head of `twin`, a network of the same shape, measured. */
void rs_measured_take_null(rs_measured *measured, const rs_measured *twin);
void rs_measured_free(rs_measured *measured); /* NULL is fine */

/* The row of a state; NULL: it was not measured. */
const rs_token_row *rs_measured_row(const rs_measured *measured, rs_token_site site, int32_t layer);

/* columns.c: the columns of rs_token_measures, its logarithms last, and of rs_attention_measures. */
extern const rs_column rs_token_columns[RS_TOKEN_REALS + RS_TOKEN_LOGS];
extern const rs_column rs_attention_columns[RS_ATTENTION_REALS];
/* The columns ..._null, of rs_attention_null. */
extern const rs_column rs_attention_null_columns[RS_ATTENTION_NULLS];

#endif
