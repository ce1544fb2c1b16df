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

/* radius − lower ≤ tolerance · radius. */
bool rs_lp_closed(const rs_lp_ball *ball);
/* A centre: kept if its ball is the smallest. distances (n) may be NULL. Returns its radius. */
double rs_lp_offer_centre(rs_lp_ball *ball, const double *x, double *distances);
/* A lower bound: kept if it is the largest. */
void rs_lp_offer_lower(rs_lp_ball *ball, double value);

/* lp_smooth.c: quick; stops when closed or when it makes no more progress. */
void rs_lp_smooth_space(int64_t n, int64_t d, rs_workspace *space);
void rs_lp_smooth(rs_lp_ball *ball, rs_workspace space);

/* lp_interior.c: a hundred times slower, to any accuracy that float64 allows. */
void rs_lp_interior_space(int64_t n, int64_t d, rs_workspace *space);
void rs_lp_interior(rs_lp_ball *ball, rs_workspace space);

#endif
