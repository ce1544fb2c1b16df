/* gram.c: Gram matrices and the balance of a pair of them. */
#include "linalg/gram.h"

#include "linalg/blas.h"
#include "linalg/gemm.h"
#include "linalg/vector.h"

#include <math.h>

/* Rows and columns up to which a whole product by our own kernels takes less than half of one by BLAS. */
enum { SMALL = 64 };

void rs_gram_add_rows(double *x, const double *tile, int64_t r, int64_t k, int64_t ld)
{
    if (r == 0 || k == 0) return;
    if (r <= SMALL) {
        rs_gemm_gram_f64(false, r, k, tile, ld, x);
        return;
    }
    cblas_dsyrk(CblasRowMajor, CblasUpper, CblasNoTrans, (blasint)r, (blasint)k, 1.0, tile,
                (blasint)ld, 1.0, x, (blasint)r);
}

void rs_gram_add_cols(double *x, const double *tile, int64_t k, int64_t r, int64_t ld)
{
    if (r == 0 || k == 0) return;
    if (r <= SMALL) {
        rs_gemm_gram_f64(true, r, k, tile, ld, x);
        return;
    }
    cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, (blasint)r, (blasint)k, 1.0, tile,
                (blasint)ld, 1.0, x, (blasint)r);
}

void rs_gram_symmetrise(double *x, int64_t r)
{
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < i; j++)
            x[i * r + j] = x[j * r + i];
}

bool rs_gram_finite(const double *x, int64_t r)
{
    double sum = 0;
    for (int64_t i = 0; i < r; i++)
        sum += x[i * r + i] - x[i * r + i]; /* NaN when an entry is NaN or infinite */
    return sum == 0;
}

void rs_gram_compare(rs_gram_pair *out, const double *x, const double *y, int64_t r)
{
    int64_t n = r * r;
    double xx = rs_dot(x, x, n), yy = rs_dot(y, y, n), xy = rs_dot(x, y, n);
    double qq = rs_distance_squared(x, y, n), trace_x = 0, trace_y = 0;
    for (int64_t i = 0; i < n; i += r + 1)
        trace_x += x[i], trace_y += y[i];
    *out = (rs_gram_pair){
        .trace_x = trace_x,
        .trace_y = trace_y,
        .norm_x = sqrt(xx),
        .norm_y = sqrt(yy),
        .norm_q = sqrt(qq),
        .trace_xy = xy,
        .half_norm = 0.5 * (trace_x + trace_y),
        .balance = sqrt(qq) / (sqrt(xx) + sqrt(yy)),
    };
    double spread = xx + yy - 2.0 * trace_x * trace_y / (double)r;
    out->isotropic = spread < 1e-14 * trace_x * trace_y;
    out->balance_score = out->isotropic ? 1.0 : 1.0 - qq / spread;
}
