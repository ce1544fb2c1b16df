/* lp_kernels.h: the loops over entries of lp_smooth.c, on one row or on all columns of some rows,
 * compiled for two vector widths. Arrays do not overlap. */
#ifndef RS_LINALG_LP_KERNELS_H
#define RS_LINALG_LP_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* The arrays of one row, [d] each. */
typedef struct rs_lp_row {
    const float *p, *x, *y;
    float *slope, *damp, *sum;
    float width, weight; /* e below; the bound of |y| */
} rs_lp_row;
/* slope = r/h, damp = max(weight − y·slope, 0)/h, sum += damp with r = p − x, h = sqrt(r² + e²).
 * Returns Σ h. */
double rs_lp_smooth_row(const rs_lp_row *row, int64_t d);
/* y = slope·weight − damp·step within ±limit. */
void rs_lp_step_row(float *y, const float *slope, const float *damp, const float *step,
                    float weight, float limit, int64_t d);
/* to = a·b. */
void rs_lp_product(float *to, const float *a, const float *b, int64_t d);
/* to += factor·a. */
void rs_lp_add(float *to, const float *a, float factor, int64_t d);

/*
 * One move of the search for weighted medians in `columns` columns (at most RS_LP_COLUMNS) of the
 * m listed rows: where less than half of all weight lies on either side of median_k, it stays, else
 * it goes to the next entry on the heavy side. Returns whether all of them stay.
 */
enum { RS_LP_COLUMNS = 8 };
bool rs_lp_median_move(double *median, const double *points, const int64_t *rows,
                       const double *weights, int64_t m, int64_t ld, int64_t columns);

#endif
