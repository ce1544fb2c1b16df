/* lambda_matrices.h: small matrices and tokens made of free numbers, in long double. Include behind
 * cmocka.h. */
#ifndef RS_TEST_LAMBDA_MATRICES_H
#define RS_TEST_LAMBDA_MATRICES_H

#include "lambda_cases.h"

/* x rows of norm √d through W (d×d, row vectors) of the trial; its spectral norm in long double. */
static inline void take_matrix(real *w, trial *t, int rows, int cols)
{
    real left[MAX_D], right[MAX_D], noise = (real)take_scale(t, 1e-4, 3);
    for (int i = 0; i < rows; i++)
        left[i] = (real)take(t);
    for (int j = 0; j < cols; j++)
        right[j] = (real)take(t);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < cols; j++)
            w[i * cols + j] = left[i] * right[j] + noise * (real)take(t);
    }
}

/* ‖W‖₂ from above by at most 1e-3: the Frobenius norm of (W Wᵀ)^(2^11), to that power. */
static inline double spectral_norm(const real *w, int rows, int cols)
{
    real a[MAX_D * MAX_D] = {0}, b[MAX_D * MAX_D];
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < rows; j++) {
            for (int k = 0; k < cols; k++)
                a[i * rows + j] += w[i * cols + k] * w[j * cols + k];
        }
    }
    real logarithm = 0, power = 1;
    for (int step = 0; step < 11; step++) {
        real size = 0;
        for (int i = 0; i < rows * rows; i++)
            size += a[i] * a[i];
        size = sqrtl(size);
        if (size == 0) return 0;
        logarithm += power * logl(size);
        for (int i = 0; i < rows * rows; i++)
            a[i] /= size;
        memset(b, 0, sizeof b);
        for (int i = 0; i < rows; i++) {
            for (int k = 0; k < rows; k++) {
                for (int j = 0; j < rows; j++)
                    b[i * rows + j] += a[i * rows + k] * a[k * rows + j];
            }
        }
        memcpy(a, b, sizeof a);
        power /= 2;
    }
    return (double)expl(logarithm / 2) * (1 + 1e-14);
}

static inline void times(real *y, const real *x, const real *w, int rows, int cols)
{
    for (int j = 0; j < cols; j++) {
        y[j] = 0;
        for (int i = 0; i < rows; i++)
            y[j] += x[i] * w[i * cols + j];
    }
}

static inline real length_of(const real *y, int d)
{
    real sum = 0;
    for (int j = 0; j < d; j++)
        sum += y[j] * y[j];
    return sqrtl(sum);
}

static inline void take_token(real *x, trial *t, int d)
{
    for (int j = 0; j < d; j++)
        x[j] = (real)take(t);
    real size = length_of(x, d) / sqrtl((real)d);
    for (int j = 0; j < d; j++)
        x[j] /= size;
}

#endif
