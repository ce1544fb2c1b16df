/*
 * arnoldi.c: the eigenvalue of largest modulus by Arnoldi's method,
 *
 *   A V = V H + h_{m+1,m} v_{m+1} e_mᵀ,   H upper Hessenberg.
 *
 * With y a unit eigenvector of H for θ, the Ritz pair has the residual h_{m+1,m} |y_m|. A start
 * vector with a part in every direction does not miss the largest eigenvalue; of a multiple one it
 * sees a single copy, which is all that is asked for here (the locked vector finds the next).
 */
#include "linalg/blas.h"
#include "linalg/krylov.h"
#include "linalg/krylov_process.h"
#include "linalg/vector.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { FIRST_CHECK = 8, MOST_STEPS = 300, ATTEMPTS = 2 };
/* Moduli closer than this to the largest are left to the direct route. */
#define CLUSTER 0.999
/* Products before the first step of each attempt. */
static const int POWERS[ATTEMPTS] = {24, 240};

/* Steps beyond which the direct route costs less: the Hessenberg matrix is then half of A. */
static int64_t most_steps(int64_t n)
{
    int64_t most = n <= 64 ? n : 32 + n / 4;
    return most < MOST_STEPS ? most : MOST_STEPS;
}

typedef struct process {
    rs_krylov_basis v;
    const double *a;
    double tolerance; /* relative residual */
    int64_t n, m;
    double *h;     /* [most, most + 1]: column j of H is row j */
    double *small; /* [most, most] what dhseqr may destroy */
    double *real, *imaginary, *vector, *work, *column;
    lapack_int *integers;
} process;

static void take_process(process *s, int64_t n, rs_workspace *space)
{
    int64_t most = most_steps(n);
    s->n = n;
    rs_krylov_take_basis(&s->v, n, most, space);
    s->h = rs_workspace_doubles(space, most * (most + 1));
    s->small = rs_workspace_doubles(space, most * most);
    s->real = rs_workspace_doubles(space, most);
    s->imaginary = rs_workspace_doubles(space, most);
    s->vector = rs_workspace_doubles(space, 2 * most);
    s->column = rs_workspace_doubles(space, most);
    s->work = rs_workspace_doubles(space, most * (most + 2) + 11 * most);
    s->integers = rs_workspace_take(space, (size_t)(4 * most), sizeof *s->integers);
}

void rs_arnoldi_space(int64_t n, rs_workspace *space)
{
    process s;
    take_process(&s, n, space);
}

/* Column j of H and v_{j+1}; false when the space is exhausted. */
static bool step_process(process *s, int64_t j, double smallest)
{
    int64_t n = s->n;
    double *h = s->h + j * (s->v.most + 1);
    rs_multiply(s->v.next, s->a, s->v.vectors + j * n, n, n, n);
    rs_krylov_orthogonalise(&s->v, j + 1, h);
    h[j + 1] = rs_krylov_append(&s->v, j + 1, smallest);
    return h[j + 1] > 0;
}

/* H (m×m) column by column into s->small. */
static void copy_hessenberg(process *s)
{
    for (int64_t j = 0; j < s->m; j++) {
        const double *h = s->h + j * (s->v.most + 1);
        for (int64_t i = 0; i < s->m; i++)
            s->small[j * s->m + i] = i <= j + 1 ? h[i] : 0;
    }
}

/* The index of H's eigenvalue of largest modulus (of a pair the first), or −1. */
static int64_t largest_ritz(process *s)
{
    lapack_int m = (lapack_int)s->m;
    double unused = 0;
    copy_hessenberg(s);
    if (LAPACKE_dhseqr_work(LAPACK_COL_MAJOR, 'E', 'N', m, 1, m, s->small, m, s->real, s->imaginary,
                            &unused, 1, s->work, 11 * m) != 0)
        return -1;
    int64_t best = 0;
    for (int64_t j = 1; j < s->m; j++)
        if (hypot(s->real[j], s->imaginary[j]) > hypot(s->real[best], s->imaginary[best])) best = j;
    return best > 0 && s->imaginary[best] < 0 ? best - 1 : best;
}

/* s->vector: a unit eigenvector of H for eigenvalue `at` by inverse iteration (real part, then
 * imaginary part). */
static bool ritz_vector(process *s, int64_t at)
{
    lapack_int m = (lapack_int)s->m, columns = s->imaginary[at] != 0 ? 2 : 1, found = 0;
    lapack_logical *select = s->integers;
    lapack_int *failed = s->integers + s->m;
    copy_hessenberg(s);
    memset(select, 0, (size_t)s->m * sizeof *select);
    select[at] = 1;
    double unused = 0;
    lapack_int info = LAPACKE_dhsein_work(LAPACK_COL_MAJOR, 'R', 'Q', 'N', select, m, s->small, m,
                                          s->real, s->imaginary, &unused, 1, s->vector, m, columns,
                                          &found, s->work, failed, failed + s->m);
    if (info != 0 || found != columns) return false;
    double length = rs_krylov_norm(s->vector, columns * s->m);
    if (!(length > 0)) return false;
    for (int64_t i = 0; i < columns * s->m; i++)
        s->vector[i] /= length;
    return true;
}

/*
 * Whether another Ritz value that is not the conjugate of `at` is nearly as large. In a cluster the
 * start vector's part along the largest eigenvector may be so much smaller than those along its
 * neighbours that a neighbour passes the residual test first.
 */
static bool clustered(const process *s, int64_t at)
{
    double top = hypot(s->real[at], s->imaginary[at]);
    for (int64_t j = 0; j < s->m; j++) {
        bool same = j == at || (j == at + 1 && s->imaginary[at] > 0);
        if (!same && hypot(s->real[j], s->imaginary[j]) > CLUSTER * top) return true;
    }
    return false;
}

/* Sets the eigenvalue; true when its residual is small enough or H is complete. */
static bool check_value(process *s, rs_eigenvalue *out, double *x, bool complete)
{
    int64_t at = largest_ritz(s);
    if (at < 0) return false;
    out->real = s->real[at];
    out->imaginary = s->imaginary[at];
    out->modulus = hypot(out->real, out->imaginary);
    bool pair = out->imaginary != 0;
    if (complete && (!x || pair)) return true;
    if (!complete && clustered(s, at)) return false;
    if (!ritz_vector(s, at)) return complete && !x;
    double last = hypot(s->vector[s->m - 1], pair ? s->vector[2 * s->m - 1] : 0);
    double residual = s->h[(s->m - 1) * (s->v.most + 1) + s->m] * last;
    if (!complete && !(residual <= s->tolerance * out->modulus)) return false;
    if (x && !pair) rs_krylov_combine(x, &s->v, s->vector, s->m);
    return true;
}

/*
 * Replaces the start vector x by a multiple of A^k x. A product alone costs a third of a step with
 * its orthogonalisation, and damps what is small, so that fewer steps and a smaller H do. Where the
 * powers vanish (A nilpotent on x) the last vector that did not is kept.
 */
static void amplify(process *s, int powers, double smallest)
{
    int64_t n = s->n;
    for (int k = 0; k < powers; k++) {
        rs_multiply(s->v.next, s->a, s->v.vectors, n, n, n);
        rs_krylov_orthogonalise(&s->v, 0, NULL);
        if (rs_krylov_append(&s->v, 0, smallest) == 0) return;
    }
}

/* One attempt: steps from the start vector until the test is passed or the space is full. */
static void attempt_iteration(process *s, rs_eigenvalue *out, double *x, double smallest)
{
    int64_t next_check = FIRST_CHECK;
    s->m = 0;
    for (bool more = true; more && !out->converged && s->m < s->v.most;) {
        more = step_process(s, s->m, smallest);
        s->m++;
        out->steps++;
        bool complete = !more || s->m == s->n;
        if (!complete && s->m < s->v.most && s->m < next_check) continue;
        next_check = s->m + 4 + s->m / 4;
        out->converged = check_value(s, out, x, complete);
    }
}

void rs_largest_eigenvalue(rs_eigenvalue *out, double *x, const double *a, int64_t n,
                           const double *locked, double tolerance, rs_workspace *space)
{
    process s = {.a = a, .v.locked = locked, .tolerance = tolerance};
    take_process(&s, n, space);
    *out = (rs_eigenvalue){0};
    if (!rs_krylov_begin(&s.v)) {
        out->converged = true;
        return;
    }
    double smallest = (double)n * DBL_EPSILON * rs_krylov_norm(a, n * n);
    for (int attempt = 0; attempt < ATTEMPTS && !out->converged; attempt++) {
        amplify(&s, POWERS[attempt], smallest);
        attempt_iteration(&s, out, x, smallest);
    }
}
