/*
 * mixing_measures.h: what a matrix M [n, n] that a mixer applies to its values says of the mixer:
 * what table mixing shows (docs/probe.md).
 */
#ifndef RS_MEASURES_MIXING_MEASURES_H
#define RS_MEASURES_MIXING_MEASURES_H

#include <stdbool.h>
#include <stdint.h>

/* NaN: the mixer has no such number. */
typedef struct rs_mixing_measures {
    double frobenius;                /* ‖M‖_F */
    double row_sum_min, row_sum_max; /* least and largest of the n sums of a row */
    double log_decay;                /* mean logarithm of the factor by which a token lets decay */
    double decay;                    /* exp(log_decay) */
    double half_life;                /* tokens after which half is left; NaN: nothing decays */
    double delta_mean;               /* mean step */
    double share_of_d; /* n d² / (n d² + ‖M − d I‖_F²), d the skip inside the mixer */
} rs_mixing_measures;

/* Nothing measured yet: NaN, and no range of row sums. */
rs_mixing_measures rs_mixing_none(void);
/* Widens the range of row sums by least .. most; a NaN in it stays. */
void rs_mixing_widen(rs_mixing_measures *measures, double least, double most);

/* Norm and row sums of a matrix that is there, row-major with leading dimension ld, in float32 or
 * (wide) float64; causal: what lies above its diagonal is not read. The rest is NaN. A NaN in the
 * matrix is one in what it enters. */
rs_mixing_measures rs_mixing_of_matrix(const void *matrix, bool wide, int64_t n, int64_t ld,
                                       bool causal);

/* Sets decay and half_life by log_decay. */
void rs_mixing_decay(rs_mixing_measures *measures);

#endif
