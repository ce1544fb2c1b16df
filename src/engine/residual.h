/*
 * residual.h: tokens as X = 2^s (c xᵀ + 2^e M): what they share, and what tells them apart with an
 * exponent of its own (docs/theory/collapse.md, 14). Pure functions on one sample, for
 * ops_residual.c.
 *
 * M is a matrix of doubles with max|M| in [1/2, 1) and Mᵀc = 0, e an int64. So the part in which
 * tokens differ keeps 53 bits however small it is, where plain numbers leave rounding. M = 0 is
 * exact: the tokens are multiples of one.
 *
 * s is 0 as long as the tokens' own size is far inside the range of doubles. Beyond, it carries that
 * size, and the larger of x and 2^e M is about 1 (14.7). Only M = 0 or x = 0 do without it.
 *
 * c is 1 for all tokens, and nothing is stored for it, unless something mixed them by rows of
 * different sums: then the tokens share a direction, not a vector, and c says how much of it each
 * has. What c cannot pass (a bias, an activation, another state) first levels the tokens: c xᵀ
 * less its mean becomes part of M.
 */
#ifndef RS_ENGINE_RESIDUAL_H
#define RS_ENGINE_RESIDUAL_H

#include "network/network.h"

/* No exponent is below this: three of them can be added. A residual that gets there stays there,
 * and its size is not known any more: it is not 0, and that is all. */
#define RS_EXPONENT_LEAST (-((int64_t)1 << 61))
/* What sets an exponent to where it gets to the least, whatever factors follow in the same layer;
 * nothing that is counted is as low. */
#define RS_EXPONENT_LOST (RS_EXPONENT_LEAST + ((int64_t)1 << 39))
/* A sample whose size is within 2^±RS_SCALE_FREE has s = 0; no |s| is above RS_SCALE_MOST. */
#define RS_SCALE_FREE 512
#define RS_SCALE_MOST ((int64_t)1 << 60)

/* The tokens of one sample. */
typedef struct rs_residual {
    double *x; /* [d] */
    double *m; /* [n, d] */
    int64_t *e;
    int64_t n, d;
    double *c;       /* [n], where *uneven */
    int64_t *uneven; /* whether c is not 1 for all; NULL: it is 1 */
    int64_t *scale;  /* s; NULL: it is 0, and stays so */
    /* The share of M, in the Frobenius norm, that may be rounding of an op worked out in plain
     * numbers: 0 where none was, 1 where M says nothing. NULL: nobody asks. */
    double *rounding;
} rs_residual;

/* 2^e; 0 or infinity where no double is. */
double rs_power_of_two(int64_t e);
/* Whether all of a[0 .. count-1] is 0. */
bool rs_all_zero(const double *a, int64_t count);
/* max|a_i| over a [count]; infinity when one is not finite. */
double rs_largest(const double *a, int64_t count);
/* The exponent k with `most` in [2^(k-1), 2^k); 0 for 0 and infinity. */
int64_t rs_exponent_of(double most);

/* a [count] times 2^e. */
void rs_scale_by(double *a, int64_t count, int64_t e);

/* Sets x, M, e and s so that X = rows [n, d]; c = 1. scratch: [2 d]. */
void rs_residual_split(const rs_residual *out, const double *rows, double *scratch);
/* Moves M's part along c into x (for c = 1 the mean of its rows), and brings max|M| back into
 * [1/2, 1). scratch: [2 d]. */
void rs_residual_settle(const rs_residual *r, double *scratch);
/* The same tokens with c = 1, settled: x becomes their mean. Where c is 1 nothing is done. scratch:
 * [2 d]. */
void rs_residual_level(const rs_residual *r, double *scratch);
/* rows [n, d] = 2^up X; infinity or 0 where no double is. */
void rs_residual_plain(double *rows, const rs_residual *r, int64_t up);
/* x = skip x + scale y, not settled; y NULL: x = skip x. Both have the same c. y is used up. */
void rs_residual_combine(const rs_residual *x, const rs_residual *y, double skip, double scale);

/* ---- sizes (14.7): residual_scale.c ---- */

/* What residual.c does wherever an exponent has changed: one below the least becomes the least. */
void rs_residual_clamp(const rs_residual *r);
/* The exponent of the larger of 2^s x and 2^(s+e) M; INT64_MIN where both are 0, 1024 where x is
 * not finite. */
int64_t rs_residual_size(const rs_residual *r);
/* Writes the same tokens with s = scale; x may become 0 or infinite. */
void rs_residual_shift(const rs_residual *r, int64_t scale);
/* Chooses s again: 0 where the tokens' size allows it. */
void rs_residual_rescale(const rs_residual *r);
/* s = 0 whatever the size. */
void rs_residual_fold(const rs_residual *r);
/* s = degree times `by`. Where that is beyond what is counted X becomes infinite, or is lost. */
void rs_residual_set_scale(const rs_residual *r, int64_t degree, int64_t by);
/* Brings x and y to one s, so that skip x + scale y can be formed. */
void rs_residual_meet(const rs_residual *x, const rs_residual *y, double skip, double scale);
/* |2^e M| / |X| in the Frobenius norm, for c = 1; 0 for X = 0. */
double rs_residual_share(const rs_residual *r);
/* Sets `rounding` where X has an error of `error` |X|. */
void rs_residual_round(const rs_residual *r, double error);
/* M is not 0, and its size not known (RS_EXPONENT_LOST). */
void rs_residual_lose(const rs_residual *r);

/*
 * The norm of each of d / op->dim stretches (14.4), not settled; in place. With X_i = x + 2^e M_i,
 * tilde for what the norm subtracts its mean from, s0² and s_i² the mean squares of x̃ and X̃_i plus
 * eps,
 *
 *     2^e M'_i = g (2^e M̃_i / s_i + x̃ (1/s_i - 1/s0)),
 *     1/s_i - 1/s0 = -2^e q_i / (s0 s_i (s0 + s_i)),   q_i = <M̃_i, x̃ + X̃_i> / d,
 *
 * in which nothing nearly equal is subtracted. With coefficients every row has its own s0, c_i
 * taking part in it, and keeps its direction: c'_i = c_i s / s0_i and x' = g x̃ / s, s the root mean
 * square of x̃; where a bias, a stretch or a row of length 0 forbids that, the tokens are levelled.
 * scratch: [2 d].
 */
void rs_residual_norm(const rs_residual *r, const rs_norm_op *op, const double *gain,
                      const double *bias, double *scratch);

/* ---- activations (14.3) ---- */

/* What a row of differences needs to know of the row y that all tokens share. */
typedef struct rs_act_base {
    const double *y;     /* [n] */
    const double *value; /* act(y) */
    const double *slope; /* act'(y) */
} rs_act_base;
/* value, slope [n] of the activation at y [n]. */
void rs_act_values(double *value, double *slope, const double *y, int64_t n,
                   rs_activation activation);
/* difference_k = (act(y_k + 2^e dy_k) - act(y_k)) / 2^e; may be dy itself. */
void rs_act_difference(double *difference, const double *dy, const rs_act_base *base, int64_t n,
                       int64_t e, rs_activation activation);

/* ---- one head whose base rows are all the same (14.2) ---- */

/*
 * Keys and values of one head less those of the key `star`, which has the largest weight p_j =
 * softmax(r)_j; where p is one key's almost alone, what is left has its digits all the same
 * (docs/theory/corrections.md, 14).
 */
typedef struct rs_shared_head {
    int64_t keys, dim, value_dim;
    const double *r; /* [keys] logits that all queries share */
    double *lp, *p;  /* [keys] ln p, p; p_star is exact in 1 - p_star too */
    double *k;       /* [keys, dim] K_j - K_star */
    double *c;       /* [keys, value_dim] V_j - Σ p V */
    double *mean;    /* [value_dim] Σ p V - V_star */
    int64_t star;
    double second; /* the largest ln p_j but for star's */
} rs_shared_head;
/* Fills lp, p, star and second from r. */
void rs_shared_weights(rs_shared_head *head);
/* Fills k, c and mean from rows of keys and values with leading dimensions ldk and ldv. */
void rs_shared_centre(rs_shared_head *head, const double *k, int64_t ldk, const double *v,
                      int64_t ldv);

/*
 * Turns a row of logits E_ij (those of query i beyond r, less that of key star) into the row of
 * Δ_ij = softmax(r + E_i)_j - p_j, in place, times 2^shift. Returns the largest ln|Δ_ij| but for
 * star's, without the shift, when `logarithms`; else 0 (then |E| <= 2 and shift = 0 take the short
 * way).
 */
double rs_shared_row(double *row, const rs_shared_head *head, int64_t shift, bool logarithms);

#endif
