/*
 * trials_kernels.h: the loops of batched trials, one table for each instruction set.
 *
 * States lie turned, [features, ld]: tokens side by side, so that vectors run over tokens and
 * weights are read number by number as they were drawn, forward and back. `lanes` numbers of a row
 * are worked on, a multiple of RS_TRIALS_PAD; rows begin on boundaries of 64 bytes, ld is such a
 * multiple too. Lanes behind the last token hold zeros. Private to trials_*.c.
 */
#ifndef RS_PREDICT_TRIALS_KERNELS_H
#define RS_PREDICT_TRIALS_KERNELS_H

#include "linalg/activation.h"

#include <stdbool.h>
#include <stdint.h>

enum { RS_TRIALS_PAD = 8 };

/* c[i] (+)= sum over p of a[i*a_row + p*a_term] b[p], rows of `lanes` numbers. */
typedef struct rs_trials_product {
    double *c;
    int64_t ldc;
    const double *a;
    int64_t a_row, a_term;
    const double *b;
    int64_t ldb;
    int64_t m, k, lanes;
    bool adds;
} rs_trials_product;

/* A block of a turned matrix. */
typedef struct rs_trials_block {
    double *x;
    int64_t rows, ld, lanes;
} rs_trials_block;

/* Numbers beside a block, which may be those of fewer lanes: its lane j has lane j modulo `period`. */
typedef struct rs_trials_beside {
    const double *x;
    int64_t ld, period; /* a multiple of RS_TRIALS_PAD */
} rs_trials_beside;

/* What a state of n tokens says of itself. */
typedef struct rs_trials_measured {
    double square;   /* ‖X‖_F² */
    double sum;      /* ‖1ᵀX‖² */
    double residual; /* ‖X − 1x̄ᵀ‖_F² */
    double apart;    /* the same of tokens divided by their lengths; NaN: one has none */
} rs_trials_measured;

typedef struct rs_trials_kernels {
    const char *level;
    void (*product)(const rs_trials_product *of);
    void (*widen)(double *out, const float *in, int64_t n);
    /* x <- gain (x − mean)/sqrt(var + eps), or gain x/sqrt(mean square + eps), of each lane; inverse
     * [lanes]: what it was multiplied by. The gain is not 0 */
    void (*norm)(const rs_trials_block *x, double *inverse, bool centred, double eps, double gain);
    /* d <- derivative by what the norm read; y: what it gave; inverse [y->period] */
    void (*norm_back)(const rs_trials_block *d, const rs_trials_beside *y, const double *inverse,
                      bool centred, double gain);
    /* x <- skip x + scale y, skip and scale [lanes] */
    void (*combine)(const rs_trials_block *x, const double *y, const double *skip,
                    const double *scale);
    /* y <- factor x, of the same ld; factor [lanes] */
    void (*scale)(double *y, const rs_trials_block *x, const double *factor);
    /* Each lane is a query, rows are keys: x <- softmax over rows. −infinity: a key that is not
     * seen. sums [lanes]: of squares of what it gives. */
    void (*softmax)(const rs_trials_block *x, double *sums);
    /* Variance of each lane over the rows that are not −infinity. */
    void (*variance)(double *out, const rs_trials_block *x);
    /* d <- factor p (d − sum over rows of p d) */
    void (*softmax_back)(const rs_trials_block *d, const rs_trials_beside *p, double factor);
    /* h <- φ(u), of count numbers; slope <- φ'(u); either may be NULL. */
    void (*activate)(double *h, double *slope, const double *u, int64_t count, rs_activation kind);
    /* x <- x y */
    void (*times)(const rs_trials_block *x, const rs_trials_beside *y);
    /* out[j*ld + i] = in[i*ld_in + j], i < rows, j < cols */
    void (*turn)(double *out, int64_t ld, const double *in, int64_t ld_in, int64_t rows,
                 int64_t cols);
    /* of `tokens` lanes, at least 1 */
    void (*measure)(rs_trials_measured *out, const rs_trials_block *x, int64_t tokens);
    double (*square)(const rs_trials_block *x);
    /* y [rows, ld] <- x less the mean of its `tokens` lanes, means [rows]; lanes behind are 0 */
    void (*centre)(double *y, int64_t ld, double *means, const rs_trials_block *x, int64_t tokens);
    /* sum over all numbers of x y */
    double (*inner)(const rs_trials_block *x, const double *y);
} rs_trials_kernels;

extern const rs_trials_kernels rs_trials_kernels_plain;
#if defined(__x86_64__)
extern const rs_trials_kernels rs_trials_kernels_avx2, rs_trials_kernels_avx512;
#endif
/* All that this processor can run, ended by NULL; the last is the one taken. */
const rs_trials_kernels *const *rs_trials_kernel_tables(void);
const rs_trials_kernels *rs_trials_kernels_here(void);
/* Test hook: takes this table from now on; NULL: the last again. Not while trials run. */
void rs_trials_kernels_use(const rs_trials_kernels *table);

#endif
