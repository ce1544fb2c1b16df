/* gram_points.h: where an exponential is tabulated, and polynomials through what is found there
 * (docs/theory/mean_field.md, 6). */
#ifndef RS_PREDICT_GRAM_POINTS_H
#define RS_PREDICT_GRAM_POINTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rs_gram_range {
    double low, high;
} rs_gram_range;
rs_gram_range rs_gram_range_of(const double *a, int64_t size);
double rs_gram_middle(rs_gram_range range);

/* Chebyshev points of x at which exp(−x y) is tabulated for y in a range of its own. With z the product
 * of half their ranges a polynomial of degree m − 1 is wrong by 2 (z/2)^m/m!. */
enum { RS_GRAM_POINTS_MOST = 40 };
typedef struct rs_gram_points {
    int count;
    bool enough; /* the error is rounding's */
    double half; /* of the range */
    double x[RS_GRAM_POINTS_MOST];
    double weight[RS_GRAM_POINTS_MOST]; /* 1/Π_(j ≠ k) (x_k − x_j)/half */
} rs_gram_points;
rs_gram_points rs_gram_points_over(rs_gram_range x, rs_gram_range y);

/* Lagrange's polynomial k at x, and all of them. */
double rs_gram_share(const rs_gram_points *points, int k, double x);
void rs_gram_shares(double *shares, const rs_gram_points *points, double x);

#endif
