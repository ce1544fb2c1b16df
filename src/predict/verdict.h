/* verdict.h: what becomes of a network's tokens, in one word (docs/theory/mean_field.md, 11). */
#ifndef RS_PREDICT_VERDICT_H
#define RS_PREDICT_VERDICT_H

#include "predict/theory.h"

typedef enum rs_predict_verdict {
    RS_PREDICT_UNKNOWN, /* numbers are missing */
    RS_PREDICT_HEALTHY,
    RS_PREDICT_SLOW,
    RS_PREDICT_EXPONENTIAL,
    RS_PREDICT_DOUBLY_EXPONENTIAL,
    RS_PREDICT_EXPLOSION,
    RS_PREDICT_COUNT
} rs_predict_verdict;

typedef enum rs_predict_severity {
    RS_PREDICT_INFO,
    RS_PREDICT_WARN,
    RS_PREDICT_CRITICAL
} rs_predict_severity;

typedef struct rs_predict_thresholds {
    double
        explosion_decades; /* of ‖X‖² or of the backward signal over the second half of the depth */
    double halving;        /* e_L below this part of e_0 is a fall */
    double power_exponent; /* a fall of at least this exponent is exponential */
    double doubly_factor;  /* log₁₀ e grows by it in each of the last two blocks, */
    double doubly_below;   /* both with e below this */
    double critical_below; /* e_L below which exponential is critical */
    double embedding_ratio; /* the first block multiplies ‖X‖² by more: the embedding is swamped */
    double condensed;       /* E ΣA² above it: attention is condensed */
} rs_predict_thresholds;
extern const rs_predict_thresholds rs_predict_defaults;

/* The name of threshold i in the order above ("explosion_decades"); NULL behind the last. */
const char *rs_predict_threshold_name(size_t i);
/* RS_E_BAD_OPTION: no such name, or no number above 0. */
rs_status rs_predict_threshold_set(rs_predict_thresholds *thresholds, const char *name,
                                   double value, rs_error *err);

/* Columns of n_layers + 1 numbers, from theory or measured. NaN: not known. */
typedef struct rs_predict_columns {
    int32_t n_layers;
    const double
        *log10_apart; /* 1 − ρ of blocks' outputs, [0] of the input; -INFINITY: equal tokens */
    const double *log10_square; /* ‖X‖² */
    const double *log10_state;  /* ‖∂L/∂X‖²; NULL or all NaN: not known, and not asked */
    /* The first state of which 1 − ρ is hidden by rounding, as it is of all behind it; 0: none is. Then
     * log10(1 − ρ) of the last is at most so much. */
    int32_t lost_from;
    double log10_most;
} rs_predict_columns;

typedef struct rs_predict_found {
    rs_predict_verdict verdict;
    rs_predict_severity severity;
    bool equal_from_start; /* e_0 = 0 */
    bool to_floor;         /* the fall is that of the states in front of the first that is hidden */
    double exponent;       /* p; NaN where it is not defined */
    double decades;        /* the larger move over the second half, in decades */
} rs_predict_found;

void rs_predict_judge(rs_predict_found *out, const rs_predict_columns *input,
                      const rs_predict_thresholds *thresholds);
/* "healthy", "doubly_exponential"; "unknown". */
const char *rs_predict_verdict_code(rs_predict_verdict verdict);
/* The same; NULL of what is unknown. */
const char *rs_predict_verdict_known(rs_predict_verdict verdict);
#endif
