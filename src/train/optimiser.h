/*
 * optimiser.h: steps of gradient descent over a list of tensors (docs/train.md, Optimisers).
 *
 * The order of operations is that of torch.optim with foreach=False, so that runs can be compared
 * with PyTorch's number by number. Every entry is updated by itself, and sums over entries (norms)
 * are made of chunks that do not hang on the number of threads: so the weights are the same bits for
 * any number of them.
 */
#ifndef RS_TRAIN_OPTIMISER_H
#define RS_TRAIN_OPTIMISER_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* With lr the step's rate times the tensor's factor and wd its decay: */
typedef enum rs_optimiser_kind {
    RS_OPTIMISER_SGD,        /* x -= lr (g + wd x) */
    RS_OPTIMISER_HEAVY_BALL, /* m = beta m + g + wd x; x -= lr m */
    RS_OPTIMISER_ADAM,       /* Adam of g + wd x: the decay is coupled (L2) */
    RS_OPTIMISER_ADAMW       /* x *= 1 - lr wd; then Adam of g */
} rs_optimiser_kind;

typedef struct rs_optimiser_rule {
    rs_optimiser_kind kind;
    double betas[2]; /* Adam's; of the heavy ball betas[0] is the momentum */
    double eps;      /* Adam's, added to the root */
} rs_optimiser_rule;

/* A tensor that is trained. The arrays are the caller's, float or double by the precision. */
typedef struct rs_trained {
    void *weight, *gradient; /* [count] */
    int64_t count;
    double rate;  /* factor of the learning rate */
    double decay; /* wd above */
    bool frozen;  /* it is left as it is, and its gradient counts in no norm */
} rs_trained;

typedef struct rs_optimiser rs_optimiser;

/* Its state begins at zero. precision: RS_PRECISION_F32 or F64. The items are copied, what they
 * point to is borrowed. Errors: RS_E_UNSUPPORTED (another precision), RS_E_NO_MEMORY. */
rs_status rs_optimiser_new(rs_optimiser **out, const rs_optimiser_rule *rule,
                           rs_precision precision, const rs_trained *items, int64_t n,
                           rs_error *err);
void rs_optimiser_free(rs_optimiser *optimiser); /* NULL is fine */

/* The norm of all gradients, and of each where norms [n] is not NULL (0 of a frozen tensor). NaN and
 * infinity come through. */
double rs_optimiser_norm(double *norms, rs_optimiser *optimiser, int threads);

/* What the next step multiplies gradients by: min(1, most / (norm + 1e-6)), of the norm of all of
 * them or of each tensor's own. Gradients themselves stay as they are. Returns the norm of all
 * before. most = infinity: nothing is clipped. */
typedef enum rs_clip_kind { RS_CLIP_ALL, RS_CLIP_EACH } rs_clip_kind;
double rs_optimiser_clip(rs_optimiser *optimiser, rs_clip_kind kind, double most, int threads);

/* One step with this learning rate. */
void rs_optimiser_step(rs_optimiser *optimiser, double lr, int threads);

/* What a step did to a tensor. */
typedef struct rs_optimiser_change {
    double change, weight; /* squared norms: of what it changed, and of what was there before */
    double scale;          /* what it multiplied the gradient by, to clip it */
    double rate;           /* with the tensor's factor */
} rs_optimiser_change;
/* Has the next step alone fill changes [n], zeros of a frozen tensor. It does to the weights what it
 * would do anyway. */
void rs_optimiser_watch(rs_optimiser *optimiser, rs_optimiser_change *changes);

/* For checkpoints: how many steps were made, and state array `which` (0, 1) of an item, [count]
 * numbers of the precision; NULL: there is none. */
int64_t *rs_optimiser_steps(rs_optimiser *optimiser);
void *rs_optimiser_state(rs_optimiser *optimiser, int64_t item, int which);
int rs_optimiser_states(rs_optimiser_kind kind); /* arrays an item has: 0, 1 or 2 */

/* out [n] += by m / (sqrt(v) + eps) in double: Adam's states m and v of an item's entries from `first` on. */
void rs_optimiser_add_direction(double *out, const rs_optimiser *optimiser, int64_t item,
                                int64_t first, int64_t n, double by, double eps);

/* The mean over a tensor's entries of what Adam multiplies its averaged gradient by,
 * lr / (sqrt(v / (1 - beta2^t)) + eps); lr itself (times the factor) for the others and before the
 * first step. */
double rs_optimiser_effective(const rs_optimiser *optimiser, int64_t item, double lr);

/* A factor of a product A B^T: d vectors of r numbers, stored [d, r], or [r, d] where transposed. */
typedef struct rs_product_factor {
    const void *weight;
    void *gradient;
    int64_t d, ld; /* ld: of both arrays */
    bool transposed;
} rs_product_factor;
/*
 * Adds to both gradients that of (mu/2) |A B^T|_F^2 = (mu/2) tr(A^T A B^T B), which are mu A B^T B
 * and mu B A^T A (docs/theory/products.md), and returns the penalty. No d by d matrix is made.
 * work: 2 r^2 numbers of the precision. BLAS is held to one thread by the caller.
 */
double rs_product_penalty(const rs_product_factor *a, const rs_product_factor *b, int64_t r,
                          double mu, rs_precision precision, void *work);

#endif
