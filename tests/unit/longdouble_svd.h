/*
 * longdouble_svd.h: an oracle for singular values: plain one-sided Jacobi in 80-bit (or wider) long
 * double on the explicit product, sharing no code with the library.
 */
#ifndef RS_TEST_LONGDOUBLE_SVD_H
#define RS_TEST_LONGDOUBLE_SVD_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* sigma: cols values, descending, of w (rows×cols, row-major, overwritten), rows >= cols. */
static inline void oracle_svd(double *sigma, long double *w, int64_t rows, int64_t cols)
{
    for (int sweep = 0; sweep < 60; sweep++) {
        long double worst = 0;
        for (int64_t p = 0; p < cols; p++)
            for (int64_t q = p + 1; q < cols; q++) {
                long double a = 0, b = 0, c = 0;
                for (int64_t i = 0; i < rows; i++) {
                    long double x = w[i * cols + p], y = w[i * cols + q];
                    a += x * x, b += y * y, c += x * y;
                }
                if (c == 0) continue;
                long double size = fabsl(c) / sqrtl(a * b);
                if (size > worst) worst = size;
                if (size < 1e-19L) continue;
                long double zeta = (b - a) / (2 * c);
                long double t = (zeta >= 0 ? 1 : -1) / (fabsl(zeta) + sqrtl(1 + zeta * zeta));
                long double cs = 1 / sqrtl(1 + t * t), sn = cs * t;
                for (int64_t i = 0; i < rows; i++) {
                    long double x = w[i * cols + p], y = w[i * cols + q];
                    w[i * cols + p] = cs * x - sn * y;
                    w[i * cols + q] = sn * x + cs * y;
                }
            }
        if (worst < 1e-18L) break;
    }
    for (int64_t j = 0; j < cols; j++) {
        long double s = 0;
        for (int64_t i = 0; i < rows; i++)
            s += w[i * cols + j] * w[i * cols + j];
        sigma[j] = (double)sqrtl(s);
    }
    for (int64_t i = 1; i < cols; i++)
        for (int64_t j = i; j > 0 && sigma[j] > sigma[j - 1]; j--) {
            double swap = sigma[j];
            sigma[j] = sigma[j - 1];
            sigma[j - 1] = swap;
        }
}

/* σ(A Bᵀ), a: m×r, b: n×r row-major; sigma: min(m, n) values. */
static inline void oracle_product_svd(double *sigma, const double *a, int64_t m, const double *b,
                                      int64_t n, int64_t r)
{
    int64_t rows = m >= n ? m : n, cols = m >= n ? n : m;
    long double *w = malloc((size_t)(rows * cols) * sizeof *w);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            long double sum = 0;
            const double *u = m >= n ? a + i * r : b + i * r, *v = m >= n ? b + j * r : a + j * r;
            for (int64_t l = 0; l < r; l++)
                sum += (long double)u[l] * v[l];
            w[i * cols + j] = sum;
        }
    oracle_svd(sigma, w, rows, cols);
    free(w);
}

#endif
