/* lp_simplex.h: small concave quadratic programmes over the simplex, by an active-set method. */
#ifndef RS_LINALG_LP_SIMPLEX_H
#define RS_LINALG_LP_SIMPLEX_H

#include "linalg/workspace.h"

#include <stdbool.h>

/* A programme and its workspace. */
typedef struct rs_lp_simplex {
    double *curve;   /* [m, m] M, symmetric, positive semidefinite */
    double *gain;    /* [m] f */
    double *weights; /* [m] the answer, and before it the guess */
    double *factor;  /* [m, m] Cholesky factor of M of the rows with weight */
    double *right;   /* [2, m] */
    int64_t *kept;   /* [m] the rows with weight */
} rs_lp_simplex;

/* Takes what problems of up to n need from `space`. */
void rs_lp_simplex_take(rs_lp_simplex *simplex, int64_t n, rs_workspace *space);

/*
 * weights = argmax of ⟨f, w⟩ − ½ wᵀMw over w ≥ 0, Σw = 1, starting from the weights given, which
 * must be of that kind. False when M cannot be factorised or the sets do not settle; the weights
 * are on the simplex all the same.
 */
bool rs_lp_simplex_solve(rs_lp_simplex *simplex, int64_t m);

#endif
