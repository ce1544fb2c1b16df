/*
 * kobayashi_pairs.h: two small factors A (m×r), B (n×r) under a loss and weight decay,
 *
 *     loss(A, B) + (decay/2)(|A|² + |B|²),
 *
 * moved by gradient descent or by gradient flow, and what is seen of them (docs/theory/weight_decay.md).
 * For one head A = W_Qᵀ, B = W_Kᵀ; for a group of heads that share a key A stacks their W_Qᵀ.
 */
#ifndef RS_LAB_KOBAYASHI_PAIRS_H
#define RS_LAB_KOBAYASHI_PAIRS_H

#include "base/random.h"
#include "lab/lab.h"
#include "linalg/gram.h"

enum {
    RS_PAIR_ROWS = 24, /* most of A, */
    RS_PAIR_COLS = 8,  /* of B, */
    RS_PAIR_WIDTH = 8, /* and the largest r */
    RS_PAIR_A = RS_PAIR_ROWS * RS_PAIR_WIDTH,
    RS_PAIR_B = RS_PAIR_COLS * RS_PAIR_WIDTH,
    RS_PAIR_W = RS_PAIR_ROWS * RS_PAIR_COLS,
    RS_PAIR_GRAM = RS_PAIR_WIDTH * RS_PAIR_WIDTH
};

typedef struct rs_factor_pair {
    int64_t m, n, r;
    double a[RS_PAIR_A], b[RS_PAIR_B]; /* [m, r], [n, r] */
} rs_factor_pair;

void rs_pair_draw(rs_factor_pair *p, double scale, rs_random *random);
/* w [m, n] = A Bᵀ. */
void rs_pair_product(double *w, const rs_factor_pair *p);
/* q [r, r] = AᵀA − BᵀB. */
void rs_pair_balance(double *q, const rs_factor_pair *p);

/* ---- losses ---- */

/* A loss: its value; adds its gradients (without decay) to by_a [m, r] and by_b [n, r], which may both
 * be NULL. */
typedef struct rs_pair_loss {
    double (*run)(double *by_a, double *by_b, const rs_factor_pair *p, const void *user);
    const void *user;
} rs_pair_loss;

/* A loss of W = A Bᵀ, entry by entry: convex ones, and one that is not. */
typedef enum rs_matrix_loss_kind {
    RS_MATRIX_SQUARE,   /* (w − d)²/2 */
    RS_MATRIX_LOGISTIC, /* ln(1 + e^(−d w)): convex, no least point of its own */
    RS_MATRIX_WAVY      /* (w − d)²/2 + sin(3w)/2: curvature 1 − 9 sin(3w)/2 */
} rs_matrix_loss_kind;
typedef struct rs_matrix_loss {
    rs_matrix_loss_kind kind;
    int64_t m, n;
    double d[RS_PAIR_W]; /* [m, n] */
} rs_matrix_loss;
extern const char *const rs_matrix_loss_names[3];

/* The loss of w [m, n]; g [m, n], its gradient, may be NULL. */
double rs_matrix_loss_at(double *g, const rs_matrix_loss *loss, const double *w);
/* The same of A Bᵀ; borrows `loss`. */
rs_pair_loss rs_pair_loss_of(const rs_matrix_loss *loss);

/* ---- motion ---- */

/* by_a, by_b: the gradients with decay. Returns their norm. */
double rs_pair_gradient(double *by_a, double *by_b, const rs_factor_pair *p,
                        const rs_pair_loss *loss, double decay);
/* The loss with decay. */
double rs_pair_value(const rs_factor_pair *p, const rs_pair_loss *loss, double decay);
/* Gradient descent until the gradient's norm is at most `least`, for `steps` at most; returns it. */
double rs_pair_descend(rs_factor_pair *p, const rs_pair_loss *loss, double decay, double rate,
                       double least, int64_t steps);

/* A decay in time: mean + swing sin(pace t). */
typedef struct rs_pair_decay {
    double mean, swing, pace;
} rs_pair_decay;
double rs_pair_decay_at(const rs_pair_decay *decay, double t);
double rs_pair_decay_until(const rs_pair_decay *decay, double t); /* its integral from 0 */
/* Gradient flow from time `from` to `to`, by `steps` steps of the classical Runge-Kutta method. */
void rs_pair_flow(rs_factor_pair *p, const rs_pair_loss *loss, const rs_pair_decay *decay,
                  double from, double to, int steps);

/* ---- what is seen ---- */

typedef struct rs_pair_seen {
    double sigma[RS_PAIR_WIDTH]; /* of A Bᵀ, descending, and their sum */
    double nuclear;
    rs_gram_pair grams;     /* of AᵀA and BᵀB */
    double gap;             /* (|A|² + |B|²)/2 − nuclear */
    double bracket[2];      /* around the gap (spectrum.h) */
    double q[RS_PAIR_GRAM]; /* AᵀA − BᵀB */
} rs_pair_seen;
rs_status rs_pair_see(rs_pair_seen *seen, const rs_factor_pair *p, rs_error *err);

/* The singular value decomposition of w [m, n], k = min(m, n) ≤ RS_PAIR_COLS: u [m, k], s [k], vt
 * [k, n]. */
rs_status rs_small_svd(double *u, double *s, double *vt, const double *w, int64_t m, int64_t n,
                       rs_error *err);

/* Descends L(W) + decay |W|_* without factors, W of rank p->r at most, from a random start: W becomes the
 * nuclear norm's proximal map of W − step G, step below 1/curvature. p gets balanced factors of where
 * it ends. */
rs_status rs_pair_minimise_nuclear(rs_factor_pair *p, const rs_matrix_loss *loss, double decay,
                                   double step, rs_random *random, rs_error *err);

/* ---- draws and their claims ---- */

/* Keeps the larger; NaN stays. */
void rs_keep_worst(double *number, double value);

/* What a draw shows: numbers, in the order of the experiment's claims. */
typedef rs_status (*rs_pair_see_draw)(double *numbers, rs_random *random, rs_error *err);

/* A claim about one number over all draws. */
typedef struct rs_pair_claim {
    const char *text;
    double expected; /* the draw that is farthest from it is measured; NaN: the largest is */
    double
        tolerance; /* distance from it, or what the largest is at most; NaN: that the mean is above 0,
                         beyond twice rs_lab_order_error over draws */
} rs_pair_claim;

/* How many draws run: `own`, with --quick `quick`, and no more than --seeds. */
int rs_pair_draws(const rs_lab_options *options, int own, int quick);
/* Runs the draws, side by side; the result depends on seed and draws alone. Adds a claim a number, and
 * the numbers' mean and spread to table kobayashi_draws. */
rs_status rs_pair_claims(rs_lab_report *report, const rs_pair_claim *claims, int count, int draws,
                         rs_pair_see_draw see, const rs_context *context, rs_error *err);
/* Says that --quick or --seeds left draws out, where they did. */
rs_status rs_pair_say_draws(rs_lab_report *report, const rs_lab_options *options, int draws,
                            int own, rs_error *err);

#endif
