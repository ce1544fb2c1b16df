/*
 * lanczos.c: the largest singular value by Golub and Kahan's bidiagonalisation (SIAM J. Numer.
 * Anal. 2, 1965):
 *
 *   A V = U B,   Aᵀ U = V Bᵀ + β_{m+1} v_{m+1} e_mᵀ,   B upper bidiagonal (α_j, β_{j+1})
 *
 * Only V is kept and reorthogonalised: that is enough for the large singular values (Simon and Zha,
 * SIAM J. Sci. Comput. 21, 2000). With p the eigenvector of the tridiagonal BBᵀ for θ², the Ritz
 * triple has the residual β_{m+1} |p_m|.
 */
#include "linalg/blas.h"
#include "linalg/krylov.h"
#include "linalg/krylov_process.h"
#include "linalg/vector.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { FIRST_CHECK = 6, CHECK_EVERY = 4, MOST_STEPS = 300 };
/* Below this residual the gap between Ritz values is believed. A cluster wider than it cannot hide:
 * a vector mixed from its members would have a larger residual. */
#define RESIDUAL_CEILING 1e-8

typedef struct process {
    rs_krylov_basis v;
    const double *a;
    double tolerance;     /* relative, of σ */
    int64_t n, m;         /* m: vectors so far */
    double *alpha, *beta; /* beta[j] joins columns j − 1 and j of B */
    double *u;            /* [n] */
    double *diagonal, *off, *values, *p, *work;
    lapack_int *integers;
} process;

static void take_process(process *s, int64_t n, rs_workspace *space)
{
    int64_t most = n < MOST_STEPS ? n : MOST_STEPS;
    s->n = n;
    rs_krylov_take_basis(&s->v, n, most, space);
    double **small[] = {&s->alpha, &s->beta, &s->diagonal, &s->off, &s->values, &s->p};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        *small[i] = rs_workspace_doubles(space, most + 1);
    s->u = rs_workspace_doubles(space, n);
    s->work = rs_workspace_doubles(space, 5 * most);
    s->integers = rs_workspace_take(space, (size_t)(5 * most), sizeof *s->integers);
}

void rs_lanczos_space(int64_t n, rs_workspace *space)
{
    process s;
    take_process(&s, n, space);
}

/* Step j: α_j, β_{j+1} and v_{j+1}; false when the space is exhausted. */
static bool step_process(process *s, int64_t j, double smallest)
{
    int64_t n = s->n;
    double *u = s->v.next;
    rs_multiply(u, s->a, s->v.vectors + j * n, n, n, n);
    for (int64_t i = 0; j > 0 && i < n; i++)
        u[i] -= s->beta[j] * s->u[i];
    memcpy(s->u, u, (size_t)n * sizeof *u);
    s->alpha[j] = rs_krylov_norm(s->u, s->n);
    if (!(s->alpha[j] > smallest)) {
        /* A maps v_j into what is already spanned: B has a zero singular value, and is complete. */
        s->alpha[j] = s->beta[j + 1] = 0;
        return false;
    }
    for (int64_t i = 0; i < s->n; i++)
        s->u[i] /= s->alpha[j];
    rs_multiply_transposed(s->v.next, s->a, s->u, n, n, n);
    rs_krylov_orthogonalise(&s->v, j + 1, NULL);
    s->beta[j + 1] = rs_krylov_append(&s->v, j + 1, smallest);
    return s->beta[j + 1] > 0;
}

/* The two largest eigenvalues of BBᵀ (ascending in values) and the eigenvector p of the largest;
 * m > 1. */
static bool small_problem(process *s)
{
    lapack_int m = (lapack_int)s->m, found = 0, blocks = 0, failed = 0;
    lapack_int *block = s->integers, *split = block + m, *work = split + m;
    for (int64_t j = 0; j < s->m; j++) {
        double beta = j + 1 < s->m ? s->beta[j + 1] : 0;
        s->diagonal[j] = s->alpha[j] * s->alpha[j] + beta * beta;
        s->off[j] = beta * (j + 1 < s->m ? s->alpha[j + 1] : 0);
    }
    if (LAPACKE_dstebz_work('I', 'B', m, 0, 0, m - 1, m, 0, s->diagonal, s->off, &found, &blocks,
                            s->values, block, split, s->work, work) != 0 ||
        found != 2)
        return false;
    /* dstebz orders by block: bring the largest last. */
    if (s->values[0] > s->values[1]) {
        double value = s->values[0];
        lapack_int its_block = block[0];
        s->values[0] = s->values[1];
        s->values[1] = value;
        block[0] = block[1];
        block[1] = its_block;
    }
    return LAPACKE_dstein_work(LAPACK_COL_MAJOR, m, s->diagonal, s->off, 1, s->values + 1,
                               block + 1, split, s->p, m, s->work, work, &failed) == 0;
}

/* Sets sigma and tells whether it is good enough. */
static bool check_values(process *s, rs_singular *out, bool vector)
{
    double left = s->beta[s->m];
    if (s->m == 1) {
        s->p[0] = 1;
        out->sigma = s->alpha[0];
        return left == 0;
    }
    if (!small_problem(s)) return false;
    double sigma = out->sigma = sqrt(fmax(s->values[1], 0));
    double residual = left * fabs(s->p[s->m - 1]);
    if (residual <= s->tolerance * sigma) return true;
    double gap = sigma - sqrt(fmax(s->values[0], 0));
    return !vector && residual <= RESIDUAL_CEILING * sigma &&
           residual * residual <= 0.1 * s->tolerance * sigma * gap;
}

/* v = V q, q = Bᵀp normalised. */
static void right_vector(const process *s, double *v)
{
    double *q = s->values;
    for (int64_t j = 0; j < s->m; j++)
        q[j] = s->alpha[j] * s->p[j] + (j > 0 ? s->beta[j] * s->p[j - 1] : 0);
    double length = rs_krylov_norm(q, s->m);
    for (int64_t j = 0; j < s->m; j++)
        q[j] = length > 0 ? q[j] / length : (double)(j == 0);
    rs_krylov_combine(v, &s->v, q, s->m);
}

void rs_largest_singular(rs_singular *out, double *v, const double *a, int64_t n,
                         const double *locked, bool vector, double tolerance, rs_workspace *space)
{
    process s = {.a = a, .v.locked = locked, .tolerance = tolerance};
    take_process(&s, n, space);
    *out = (rs_singular){0};
    if (!rs_krylov_begin(&s.v)) {
        out->converged = true;
        return;
    }
    double smallest = (double)n * DBL_EPSILON * rs_krylov_norm(a, n * n);
    for (bool more = true; more && !out->converged && s.m < s.v.most;) {
        more = step_process(&s, s.m, smallest);
        s.m++;
        bool last = !more || s.m == s.v.most;
        if (!last && (s.m < FIRST_CHECK || (s.m - FIRST_CHECK) % CHECK_EVERY != 0)) continue;
        out->converged = check_values(&s, out, vector) || !more || s.m == n;
    }
    out->steps = s.m;
    if (vector && out->converged) right_vector(&s, v);
}
