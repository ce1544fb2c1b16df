/* gram.h: r×r Gram matrices accumulated in float64 from tiles of a factor, and what follows from a
 * pair of them. */
#ifndef RS_LINALG_GRAM_H
#define RS_LINALG_GRAM_H

#include <stdbool.h>
#include <stdint.h>

/* X += T Tᵀ, upper triangle. tile: r×k, row-major with leading dimension ld; its rows are the
 * vectors. */
void rs_gram_add_rows(double *x, const double *tile, int64_t r, int64_t k, int64_t ld);
/* X += TᵀT, upper triangle. tile: k×r, row-major with leading dimension ld; its columns are the
 * vectors. */
void rs_gram_add_cols(double *x, const double *tile, int64_t k, int64_t r, int64_t ld);
/* Copies the upper triangle to the lower one. */
void rs_gram_symmetrise(double *x, int64_t r);

/* Whether no vector has an entry that is NaN or infinite: its square would be on the diagonal. */
bool rs_gram_finite(const double *x, int64_t r);

/* What a pair of Grams X = AᵀA, Y = BᵀB says without a spectrum (docs/theory/products.md, 2 and
 * 3). */
typedef struct rs_gram_pair {
    double trace_x, trace_y; /* ‖A‖_F², ‖B‖_F² */
    double norm_x, norm_y;   /* ‖X‖_F, ‖Y‖_F */
    double norm_q;           /* ‖X − Y‖_F */
    double trace_xy;         /* tr(XY) = ‖ABᵀ‖_F² */
    double half_norm;        /* H = (tr X + tr Y)/2 */
    double balance;          /* ‖X−Y‖_F / (‖X‖_F + ‖Y‖_F); NaN when both are zero */
    /* β = 1 − ‖X−Y‖² / (‖X‖² + ‖Y‖² − 2 trX trY / r); NaN when both are zero. */
    double balance_score;
    bool isotropic; /* β's denominator vanishes: any rotation of Y looks the same, β is set to 1 */
} rs_gram_pair;
void rs_gram_compare(rs_gram_pair *out, const double *x, const double *y, int64_t r);

#endif
