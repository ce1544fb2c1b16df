/* low_rank.c: singular triplets beyond a rank are left out. */
#include "linalg/low_rank.h"

#include "base/memory.h"
#include "linalg/blas.h"

/* What LAPACK sees is the transpose, [n, m] by columns, with least = min(m, n). */
typedef struct triplets {
    lapack_int m, n, least, work_size;
    double *memory, *u, *sigma, *v, *work; /* u [n, least], v [least, m], by columns */
    lapack_int *integers;
} triplets;

static rs_status open_triplets(triplets *t, int64_t m, int64_t n, rs_error *err)
{
    double size = 0, unused = 0;
    lapack_int none = 0;
    *t = (triplets){.m = (lapack_int)m, .n = (lapack_int)n};
    t->least = (lapack_int)(m < n ? m : n);
    LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'S', t->n, t->m, &unused, t->n, &unused, &unused, t->n,
                        &unused, t->least, &size, -1, &none);
    t->work_size = (lapack_int)size;
    size_t k = (size_t)t->least, numbers = k * ((size_t)m + (size_t)n + 1) + (size_t)size;
    t->memory = rs_malloc(numbers, sizeof *t->memory);
    t->integers = rs_malloc(8 * k, sizeof *t->integers);
    if (!t->memory || !t->integers)
        return rs_fail_memory(err, "a matrix of low rank", numbers * sizeof *t->memory);
    t->u = t->memory;
    t->sigma = t->u + k * (size_t)n;
    t->v = t->sigma + k;
    t->work = t->v + k * (size_t)m;
    return RS_OK;
}

static int64_t rank_for(const double *sigma, int64_t n, int64_t rank, double energy)
{
    double all = 0, so_far = 0;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) /* of the first: their squares neither over- nor underflow */
        all += sigma[i] / sigma[0] * (sigma[i] / sigma[0]);
    while (kept < n && (rank <= 0 || kept < rank) && !(energy > 0 && so_far >= energy * all)) {
        so_far += sigma[kept] / sigma[0] * (sigma[kept] / sigma[0]);
        kept++;
    }
    return kept;
}

static rs_status cut(triplets *t, double *a, int64_t rank, double energy, rs_error *err)
{
    lapack_int info =
        LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'S', t->n, t->m, a, t->n, t->sigma, t->u, t->n, t->v,
                            t->least, t->work, t->work_size, t->integers);
    if (info != 0)
        return rs_fail(err, RS_E_LAPACK, "dgesdd", NULL, "returned %d on a %d x %d matrix",
                       (int)info, (int)t->m, (int)t->n);
    int64_t kept = t->sigma[0] > 0 ? rank_for(t->sigma, t->least, rank, energy) : 0;
    for (int64_t k = 0; k < kept; k++)
        cblas_dscal((blasint)t->n, t->sigma[k], t->u + k * t->n, 1);
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, t->n, t->m, (blasint)kept, 1, t->u, t->n,
                t->v, t->least, 0, a, t->n);
    return RS_OK;
}

rs_status rs_low_rank(double *a, int64_t m, int64_t n, int64_t rank, double energy, rs_error *err)
{
    triplets t;
    if (m < 1 || n < 1 || (!(energy > 0) && (rank <= 0 || rank >= (m < n ? m : n)))) return RS_OK;
    rs_status status = open_triplets(&t, m, n, err);
    if (status == RS_OK) status = cut(&t, a, rank, energy, err);
    rs_free(t.memory);
    rs_free(t.integers);
    return status;
}
