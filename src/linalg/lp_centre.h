/*
 * lp_centre.h: the centre of the smallest ℓ1 ball that holds n points.
 */
#ifndef RS_LINALG_LP_CENTRE_H
#define RS_LINALG_LP_CENTRE_H

#include "linalg/workspace.h"

/* What is known of the smallest ball. */
typedef struct rs_lp_centre {
    double radius; /* max_i ‖X_i − x‖₁ of the centre that was found: at least the smallest radius */
    double lower; /* value of a feasible point of the dual: at most that, up to rounding */
    int iterations;
} rs_lp_centre;

/* Adds what rs_lp_centre_find takes from `space`. */
void rs_lp_centre_space(int64_t n, int64_t d, rs_workspace *space);

/* The least tolerance that rounding lets every matrix reach. */
#define RS_LP_TOLERANCE 1e-9

/*
 * x (d) = argmin max_i ‖X_i − x‖₁: the centre that minimises the induced ∞-norm of X − 1x
 * (docs/theory/tokens.md, 1). points: n×d, row-major, finite, n, d ≥ 1. The minimum is unique, the
 * minimiser often not: this is one within the tolerance. Stops when radius − lower ≤ tolerance ·
 * radius. *Computed*, with both bounds of its own accuracy, which are taken in float64 and hold
 * wherever it stops: it never fails; when rounding or the limit of steps ends it early, the bounds
 * are further apart than was asked. For tolerances of 1e-6 and more lp_smooth.c does nearly all
 * matrices, in 10 to 50 steps that cost O(m²d + m³) and a pass over X, m the rows near the surface;
 * below, and for the few that it leaves open, lp_interior.c takes up to 250 steps of O(n²d + n³).
 */
void rs_lp_centre_find(double *x, rs_lp_centre *result, const double *points, int64_t n, int64_t d,
                       double tolerance, rs_workspace *space);

#endif
