/*
 * activation_curve.h: an activation's moments over a range of correlations, as polynomials, so that all
 * pairs of tokens are asked about at once (docs/theory/mean_field.md, 3).
 *
 * They are fitted over the root of e = 1 − r, where ReLU's kernel, too, is analytic at r = 1.
 */
#ifndef RS_PREDICT_ACTIVATION_CURVE_H
#define RS_PREDICT_ACTIVATION_CURVE_H

#include "predict/activation_maps.h"

enum { RS_CURVE_MOST = 128 };

typedef struct rs_activation_curve {
    int terms;
    double slope, shift;        /* x = slope √e + shift, −1 to 1 */
    double gap[RS_CURVE_MOST];  /* (E φ² − E φφ)/(e E φ²) by Chebyshev's polynomials of x */
    double both[RS_CURVE_MOST]; /* E φ'φ' */
} rs_activation_curve;

/* Of the map as it stands, for √e from low to high. false: it takes more terms than there is room for.
 * Errors are below 1e-14 of the largest value. */
bool rs_activation_curve_fit(rs_activation_curve *out, const rs_activation_map *map, double low,
                             double high);

/* The two numbers at one root, from the map itself. */
void rs_activation_curve_at(double *gap, double *both, const rs_activation_map *map, double root);

/* Its values at roots of e, in place; room for count rounded up to RS_GRAM_PAD. */
void rs_activation_curve_gaps(double *out, const rs_activation_curve *curve, const double *root,
                              int64_t count);
void rs_activation_curve_slopes(double *out, const rs_activation_curve *curve, const double *root,
                                int64_t count);

#endif
