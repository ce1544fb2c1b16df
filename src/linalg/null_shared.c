/*
 * null_shared.c: how alike the effective ranks of random products are that share a factor (see null_model.h).
 *
 * With B = Q Rᵀ or its mirror image, and A's rows turned alike, the singular values of A Bᵀ are those of G Tᵀ: T is
 * the k×k triangle of B, k = min(shared, r), with max(shared, r) degrees of freedom, and G an own×k Gaussian matrix,
 * of which the triangle does where own >= k.
 */
#include "linalg/null_model.h"

#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/measures.h"

#include <math.h>

enum { LARGEST = 16, DRAWS = 1024, PRODUCTS = 4 };

typedef struct room {
    double *t, *g, *sigma, *lapack; /* k×k, k×k, k */
    int64_t k, rows, lapack_size;
    double own;
} room;

static rs_status one_rank(double *rank, const room *w, rs_random *random, rs_error *err)
{
    rs_measures m;
    blasint rows = (blasint)w->rows, k = (blasint)w->k;
    if (w->own >= (double)w->k)
        rs_bartlett(w->g, w->k, w->own, random);
    else
        rs_random_normals(random, w->g, (size_t)(w->rows * w->k));
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasUpper, CblasTrans, CblasNonUnit, rows, k, 1.0, w->t,
                k, w->g, k);
    lapack_int info = LAPACKE_dgesvd_work(LAPACK_COL_MAJOR, 'N', 'N', (lapack_int)k,
                                          (lapack_int)rows, w->g, (lapack_int)k, w->sigma, NULL, 1,
                                          NULL, 1, w->lapack, (lapack_int)w->lapack_size);
    if (info != 0)
        return rs_fail(err, RS_E_LAPACK, "null model", NULL, "dgesvd gave up (info %d)", (int)info);
    rs_measures_of(&m, w->sigma, w->rows, w->k, 0.0);
    *rank = m.effective_rank;
    return RS_OK;
}

/* The correlation within draws, from the variances of their means and inside them (one-way analysis of variance). */
static rs_status correlate(double *out, const room *w, double dof, rs_random *random, rs_error *err)
{
    double mean_of_means = 0, squares = 0, inside = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        double ranks[PRODUCTS], mean = 0;
        rs_bartlett(w->t, w->k, dof, random);
        for (int i = 0; i < PRODUCTS; i++) {
            RS_TRY(one_rank(&ranks[i], w, random, err));
            mean += ranks[i] / PRODUCTS;
        }
        for (int i = 0; i < PRODUCTS; i++)
            inside += (ranks[i] - mean) * (ranks[i] - mean);
        double step = mean - mean_of_means; /* Welford's recurrence */
        mean_of_means += step / (draw + 1);
        squares += step * (mean - mean_of_means);
    }
    double between = PRODUCTS * squares / (DRAWS - 1);
    inside /= DRAWS * (PRODUCTS - 1);
    double all = between + (PRODUCTS - 1) * inside;
    *out = all > 1e-24 ? fmin(fmax((between - inside) / all, 0), 1) : 0;
    return RS_OK;
}

rs_status rs_null_correlation(double *out, int64_t own, int64_t shared, int64_t r, uint64_t seed,
                              rs_error *err)
{
    *out = 0;
    if (own <= 0 || shared <= 0 || r <= 0) return RS_OK;
    double shape[3] = {(double)own, (double)shared, (double)r},
           least = fmin(shape[0], fmin(shape[1], shape[2]));
    for (int i = 0; i < 3 && least > LARGEST; i++)
        shape[i] = round(shape[i] * LARGEST / least);
    int64_t k = (int64_t)fmin(shape[1], shape[2]), square = k * k;
    room w = {.k = k,
              .own = shape[0],
              .rows = shape[0] < (double)k ? (int64_t)shape[0] : k,
              .lapack_size = square + 64 * k + 64};
    w.t = rs_malloc((size_t)(2 * square + k + w.lapack_size), sizeof *w.t);
    if (!w.t) return rs_fail_memory(err, "null model", (size_t)square * sizeof *w.t);
    w.g = w.t + square;
    w.sigma = w.g + square;
    w.lapack = w.sigma + k;
    uint64_t stream = (uint64_t)shape[0] * 0x9e3779b97f4a7c15u ^
                      (uint64_t)shape[1] * 0xc2b2ae3d27d4eb4fu ^ (uint64_t)shape[2] ^ 1u << 31;
    rs_random random = rs_random_new(seed, stream);
    rs_status status = correlate(out, &w, fmax(shape[1], shape[2]), &random, err);
    rs_free(w.t);
    return status;
}
