/*
 * gram_logits.h: what comes back through the logits of masked attention: squared gradients of queries
 * and keys, and of the tokens that they are made of (docs/theory/mean_field.md, 6).
 */
#ifndef RS_PREDICT_GRAM_LOGITS_H
#define RS_PREDICT_GRAM_LOGITS_H

#include "predict/gram_state.h"

/* Tokens read, and moments of the softmax over them. */
typedef struct rs_gram_logits {
    const rs_gram_state *read;
    double ratio;         /* rs_gram_state_ratio of them */
    const double *gaps;   /* [n]: mean gap of the keys that a row sees */
    const double *uneven; /* [n]: ‖H‖²/((m − 1) gap²) of the Gram matrix H about their mean */
    const double *shared;       /* [n, n]: E Σ_j A_ij A_i'j, the lower triangle */
    const double *tail;         /* [n]: 2E ΣA³ − E(ΣA²)² of a row */
    double kappa;               /* docs/theory/mean_field.md, 5 */
    const int64_t *first, *end; /* [n]: keys that rows see */
    const double *turn;         /* [2n − 1] of rotary positions, 1 at 0; NULL: none */
    double *diagonal, *off;     /* [n, n]: scratch */
    double *squares;            /* [n + 1]: scratch */
    /* [n + 1], and [n, n] each: scratch of rotary positions alone */
    double *means, *noted, *turns, *sums;
} rs_gram_logits;

/* back += scale times what comes back to the tokens, per unit of squares and of gaps; the sum returned
 * is that of queries, Σ_ii' K_ii' Q_ii', in the same unit and without scale. given symmetric. */
double rs_gram_through_logits(double *back, const rs_gram_logits *logits, const double *given,
                              double scale);

#endif
