/* krylov_process.c: the growing orthonormal basis of lanczos.c and arnoldi.c. */
#include "linalg/krylov_process.h"

#include "base/random.h"
#include "linalg/krylov.h"
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

void rs_krylov_take_basis(rs_krylov_basis *basis, int64_t n, int64_t most, rs_workspace *space)
{
    basis->n = n;
    basis->most = most;
    basis->vectors =
        rs_workspace_take(space, (size_t)(most + 1), (size_t)n * sizeof *basis->vectors);
    basis->overlap = rs_workspace_doubles(space, most + 1);
    basis->next = rs_workspace_doubles(space, n);
}

double rs_krylov_norm(const double *a, int64_t n)
{
    return sqrt(rs_dot(a, a, n));
}

bool rs_krylov_begin(rs_krylov_basis *basis)
{
    /* Another start than the one that led to the locked vector: where every vector is an
     * eigenvector it led to itself. */
    rs_random random = rs_random_new(basis->locked ? 1951 : 1965, (uint64_t)basis->n);
    for (int64_t i = 0; i < basis->n; i++)
        basis->next[i] = rs_random_uniform(&random) - 0.5;
    double before = rs_krylov_norm(basis->next, basis->n);
    rs_krylov_orthogonalise(basis, 0, NULL);
    return rs_krylov_append(basis, 0, 1e-6 * before) > 0;
}

void rs_krylov_orthogonalise(rs_krylov_basis *basis, int64_t count, double *h)
{
    int64_t n = basis->n;
    /* Twice is enough (Kahan and Parlett; Giraud et al., Numer. Math. 101, 2005). */
    for (int pass = 0; pass < 2; pass++) {
        if (basis->locked) {
            double along = -rs_dot(basis->locked, basis->next, n);
            rs_add_transposed(basis->next, basis->locked, &along, 1, n, n);
        }
        if (count == 0) continue;
        rs_multiply(basis->overlap, basis->vectors, basis->next, count, n, n);
        for (int64_t j = 0; j < count; j++)
            basis->overlap[j] = -basis->overlap[j];
        rs_add_transposed(basis->next, basis->vectors, basis->overlap, count, n, n);
        for (int64_t j = 0; h && j < count; j++)
            h[j] = pass == 0 ? -basis->overlap[j] : h[j] - basis->overlap[j];
    }
}

double rs_krylov_append(rs_krylov_basis *basis, int64_t at, double smallest)
{
    double length = rs_krylov_norm(basis->next, basis->n);
    if (!(length > smallest)) return 0;
    double *to = basis->vectors + at * basis->n;
    for (int64_t i = 0; i < basis->n; i++)
        to[i] = basis->next[i] / length;
    return length;
}

void rs_krylov_combine(double *to, const rs_krylov_basis *basis, const double *weight,
                       int64_t count)
{
    rs_multiply_transposed(to, basis->vectors, weight, count, basis->n, basis->n);
}

void rs_krylov_space(int64_t n, rs_workspace *space)
{
    rs_workspace lanczos = *space, arnoldi = *space;
    rs_lanczos_space(n, &lanczos);
    rs_arnoldi_space(n, &arnoldi);
    *space = lanczos.used > arnoldi.used ? lanczos : arnoldi;
}
