/* krylov_process.h: what lanczos.c and arnoldi.c share: a basis that grows by one vector a step. */
#ifndef RS_LINALG_KRYLOV_PROCESS_H
#define RS_LINALG_KRYLOV_PROCESS_H

#include "linalg/workspace.h"

#include <stdbool.h>

/* The basis. */
typedef struct rs_krylov_basis {
    int64_t n, most;
    const double *locked; /* unit vector (n) that every vector is kept orthogonal to, or NULL */
    double *vectors;      /* [most + 1, n] */
    double *overlap;      /* [most + 1] */
    double *next;         /* [n] the candidate for the next vector */
} rs_krylov_basis;

void rs_krylov_take_basis(rs_krylov_basis *basis, int64_t n, int64_t most, rs_workspace *space);

/* Sets vector 0, the same for every call, with a part in every direction. False when nothing is
 * left (n = 1 and locked). */
bool rs_krylov_begin(rs_krylov_basis *basis);

/* next −= V(Vᵀnext) over the first `count` vectors and the locked one, twice. h (count, or NULL)
 * gathers what was removed. */
void rs_krylov_orthogonalise(rs_krylov_basis *basis, int64_t count, double *h);

/* Sets vector `at` to next/‖next‖; returns the norm, or 0 when it is no more than `smallest`: the
 * space is then exhausted. */
double rs_krylov_append(rs_krylov_basis *basis, int64_t at, double smallest);

/* to = Σ_j weight_j v_j over the first `count` vectors. */
void rs_krylov_combine(double *to, const rs_krylov_basis *basis, const double *weight,
                       int64_t count);

double rs_krylov_norm(const double *a, int64_t n);

void rs_lanczos_space(int64_t n, rs_workspace *space);
void rs_arnoldi_space(int64_t n, rs_workspace *space);

#endif
