/* gram.c: Gram matrices and the balance of a pair of them. */
#include "linalg/gram.h"

#include "linalg/blas.h"

#include <math.h>

void rs_gram_add_rows(double *x, const double *tile, int64_t r, int64_t k, int64_t ld)
{
    if (r == 0 || k == 0) return;
    cblas_dsyrk(CblasRowMajor, CblasUpper, CblasNoTrans, (blasint)r, (blasint)k, 1.0, tile,
                (blasint)ld, 1.0, x, (blasint)r);
}

void rs_gram_add_cols(double *x, const double *tile, int64_t k, int64_t r, int64_t ld)
{
    if (r == 0 || k == 0) return;
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
    double xx = 0, yy = 0, xy = 0, qq = 0, trace_x = 0, trace_y = 0;
    for (int64_t i = 0; i < r; i++) {
        const double *xi = x + i * r, *yi = y + i * r;
        trace_x += xi[i];
        trace_y += yi[i];
        for (int64_t j = 0; j < r; j++) {
            double q = xi[j] - yi[j];
            xx += xi[j] * xi[j];
            yy += yi[j] * yi[j];
            xy += xi[j] * yi[j];
            qq += q * q;
        }
    }
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
