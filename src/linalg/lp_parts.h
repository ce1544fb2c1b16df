/* lp_parts.h: what the files of the smallest ℓ1 ball share. */
#ifndef RS_LINALG_LP_PARTS_H
#define RS_LINALG_LP_PARTS_H

#include "linalg/lp_centre.h"

/* The problem, centred and scaled, and the best that is known of it. */
typedef struct rs_lp_ball {
    int64_t n, d;
    double *points; /* [n, d] */
    double *best;   /* [d] the centre of the smallest ball so far */
    double tolerance;
    rs_lp_centre found;
} rs_lp_ball;

/* Whether radius − lower ≤ tolerance · radius. */
bool rs_lp_closed(const rs_lp_ball *ball);
/* Offers a centre, which is kept if its ball is the smallest so far. Returns its radius; distances
 * [n] of the points may be NULL. */
double rs_lp_offer_centre(rs_lp_ball *ball, const double *x, double *distances);
/* Offers a lower bound, which is kept if it is the largest so far. */
void rs_lp_offer_lower(rs_lp_ball *ball, double value);

/* lp_smooth.c: the quick way, which stops when closed or when it makes no more progress. */
void rs_lp_smooth_space(int64_t n, int64_t d, rs_workspace *space);
void rs_lp_smooth(rs_lp_ball *ball, rs_workspace space);

/* lp_interior.c: the way to any accuracy that float64 allows, a hundred times slower. */
void rs_lp_interior_space(int64_t n, int64_t d, rs_workspace *space);
void rs_lp_interior(rs_lp_ball *ball, rs_workspace space);

#endif
