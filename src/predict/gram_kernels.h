/*
 * gram_kernels.h: the loops over pairs of tokens, one table for each instruction set.
 *
 * Symmetric matrices [n, ld] come and go by their lower triangles; ld is a multiple of RS_GRAM_PAD, and
 * what lies behind the diagonal of a row is read and written up to the next such multiple. Private to
 * gram_*.c.
 */
#ifndef RS_PREDICT_GRAM_KERNELS_H
#define RS_PREDICT_GRAM_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

enum { RS_GRAM_PAD = 8 };

/*
 * Sums over prefixes of both indices, of a matrix that is raised by a power at a time:
 *
 *     S_m[i, k] = Σ_{j ≤ i, l ≤ k} side(i, j) side(k, l) weight[j, l] raised[j, l]^m
 *     total     = Σ_{m < powers} along^m/m! S_m          next = Σ_{m < powers} along^m/m! S_{m+1}
 *
 * with side(i, j) = Σ_{p < sides} out[p][i] in[p][j]; out[0] and in[0] are 1.
 */
typedef struct rs_gram_powers {
    int64_t n, ld;
    double *total, *next; /* next: NULL, or [n, ld] */
    const double *weight, *raised, *along;
    const double *out, *in; /* [sides, ld] */
    int powers, sides;
    double *columns; /* [powers + 1, sides, ld] */
    double *running; /* [powers + 1, sides, 2 RS_GRAM_PAD] */
} rs_gram_powers;

/*
 * Rows i and i − distance, i ≥ distance, each of which sees the keys up to itself: of keys j, k ≤ n − 1 −
 * distance, part = 1 − turn[distance − j + k] alike[j, k] and weight = own_j own_k exp(−x (part − y)).
 * Both rows see a pair of keys from i = max(j, k + distance) on: its bucket is i − distance.
 */
typedef struct rs_gram_turning {
    int64_t n, ld, distance;
    const double *alike, *apart; /* [n, ld], whole */
    const double *turn;          /* 1 − n … n − 1 + RS_GRAM_PAD of it are there */
    const double *own;           /* [ld] */
    double x, y;
    int powers;
    double *sums, *moved;  /* [powers, ld]; moved: NULL, or what apart is summed to */
    double *rows;          /* [2 powers, RS_GRAM_PAD] */
    const double *running; /* [powers, ld] */
} rs_gram_turning;

typedef struct rs_gram_kernels {
    const char *level;
    void (*powers)(const rs_gram_powers *of);
    /* The least and the largest of a, count > 0, and the sum. */
    void (*range)(double range[2], const double *a, int64_t count);
    double (*sum)(const double *a, int64_t count);
    /* weight[i, k] = own_i own_k exp(−rate apart[i, k]); −rate apart <= 709 */
    void (*weigh)(double *weight, const double *apart, double rate, const double *own, int64_t n,
                  int64_t ld);
    /* The least and the largest part of a distance. */
    void (*turned_range)(double range[2], const rs_gram_turning *of);
    /* sums[m][b] = Σ weight (part − y)^m of bucket b, moved[m][b] the same times apart */
    void (*turned_sums)(const rs_gram_turning *of);
    /* back[j, k] += factor weight Σ_m running[m][bucket] (part − y)^m, back [n, ld] */
    void (*turned_back)(double *back, const rs_gram_turning *of, double factor);
    /* out[i] = Σ_k c[k] T_k(slope root_i + shift) by Chebyshev's polynomials, count a multiple of
     * RS_GRAM_PAD */
    void (*series)(double *out, const double *root, int64_t count, const double *c, int terms,
                   double slope, double shift);
} rs_gram_kernels;

extern const rs_gram_kernels rs_gram_kernels_plain;
#if defined(__x86_64__)
extern const rs_gram_kernels rs_gram_kernels_avx2, rs_gram_kernels_avx512;
#endif
/* All that this processor can run, ended by NULL; the last is the one taken. */
const rs_gram_kernels *const *rs_gram_kernel_tables(void);
const rs_gram_kernels *rs_gram_kernels_here(void);
/* Test hook: takes this table from now on; NULL: the last again. Not while theory runs. */
void rs_gram_kernels_use(const rs_gram_kernels *table);

/* The upper triangle of a [n, ld] from its lower one. */
void rs_gram_mirror(double *a, int64_t n, int64_t ld);

#endif
