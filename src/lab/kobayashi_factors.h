/*
 * kobayashi_factors.h: gradient descent on two 5 by 5 factors,
 *
 *     c |A B^T - D|^2 + (decay/2) (|A|^2 + |B|^2),   D = diag(1, .8, .6, .4, .2),
 *
 * and what is seen of them: singular values of A B^T, the gap to the nuclear norm, |A^T A - B^T B|
 * (docs/theory/weight_decay.md, 1 to 3).
 */
#ifndef RS_LAB_KOBAYASHI_FACTORS_H
#define RS_LAB_KOBAYASHI_FACTORS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { RS_FACTORS_N = 5, RS_FACTORS_SIZE = RS_FACTORS_N * RS_FACTORS_N };

/* The singular values of D, descending. */
extern const double rs_factors_target[RS_FACTORS_N];

/* The factors and what moves them. */
typedef struct rs_factors {
    double c, decay, rate;
    double a[RS_FACTORS_SIZE], b[RS_FACTORS_SIZE];
} rs_factors;

/* Sets both factors: entries of variance 1/5, from a hash of their index, which other programs have
 * too (tests/oracle/make_kobayashi_golden.py), or normal ones of draw `draw` under the seed. */
void rs_factors_hash(rs_factors *f);
void rs_factors_draw(rs_factors *f, uint64_t seed, uint64_t draw);

void rs_factors_run(rs_factors *f, int steps);
/* A step that returns by how much an entry of Q = A^T A - B^T B misses
 * Q' = (1 - 2 rate decay) Q + rate^2 (dA^T dA - dB^T dB), which is exact. */
double rs_factors_step_balance(rs_factors *f);

typedef struct rs_factors_seen {
    double sigma[RS_FACTORS_N]; /* of A B^T, descending */
    double nuclear, norms;      /* their sum; |A|^2 + |B|^2 */
    double gap, imbalance;      /* norms/2 - nuclear; |A^T A - B^T B| */
} rs_factors_seen;
rs_status rs_factors_see(rs_factors_seen *seen, const rs_factors *f, rs_error *err);

/* Slopes a step of ln |A^T A - B^T B|, where it is above 1e-10, and of ln gap, until it is below
 * 1e-11 for the first time: least squares over every tenth of steps 300 to 900. */
typedef struct rs_factors_slopes {
    double imbalance, gap;
} rs_factors_slopes;
rs_status rs_factors_fit(rs_factors_slopes *slopes, rs_factors *f, rs_error *err);

/* What the laws say: the soft threshold max(d - decay/(2c), 0) of mode i; whether that mode lies on
 * the threshold; and the least target strictly below it, NaN where none is. */
double rs_factors_soft(double c, double decay, int mode);
bool rs_factors_critical(double c, double decay, int mode);
double rs_factors_least_dead(double c, double decay);

#endif
