/* orthonormal.c: Householder QR with the signs that make it unique. */
#include "linalg/orthonormal.h"

#include "base/memory.h"
#include "linalg/blas.h"

/* Row-major [m, n] is LAPACK's column-major n×m: our rows are its columns. */
static lapack_int factorise(double *vectors, lapack_int m, lapack_int n, double *tau, double *work,
                            lapack_int work_size)
{
    lapack_int info = LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, n, m, vectors, n, tau, work, work_size);
    if (info) return info;
    double *sign = work + work_size; /* [m] of R's diagonal, which dorgqr overwrites */
    for (lapack_int i = 0; i < m; i++)
        sign[i] = vectors[(int64_t)i * n + i] < 0 ? -1 : 1;
    info = LAPACKE_dorgqr_work(LAPACK_COL_MAJOR, n, m, m, vectors, n, tau, work, work_size);
    for (lapack_int i = 0; info == 0 && i < m; i++)
        if (sign[i] < 0) cblas_dscal((blasint)n, -1, vectors + (int64_t)i * n, 1);
    return info;
}

rs_status rs_orthonormal_rows(double *vectors, int64_t m, int64_t n, rs_error *err)
{
    enum { BLOCK = 64 };
    if (m > n || m < 1 || n > INT32_MAX / BLOCK)
        return rs_fail(err, RS_E_INTERNAL, "orthonormal rows", NULL,
                       "%lld vectors of length %lld cannot be orthonormal", (long long)m,
                       (long long)n);
    lapack_int work_size = (lapack_int)m * BLOCK;
    size_t size = (size_t)work_size + 2 * (size_t)m;
    double *work = rs_malloc(size, sizeof *work);
    if (!work) return rs_fail_memory(err, "workspace of a QR factorisation", size * sizeof *work);
    lapack_int info =
        factorise(vectors, (lapack_int)m, (lapack_int)n, work + work_size + m, work, work_size);
    rs_free(work);
    if (info)
        return rs_fail(err, RS_E_LAPACK, "orthonormal rows", NULL, "LAPACK's QR returned %d",
                       (int)info);
    return RS_OK;
}
