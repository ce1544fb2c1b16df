/* bidiagonalise.c: Householder reflections from both sides, whose two updates are made at once. */
#include "linalg/bidiagonalise.h"

#include "linalg/vector.h"

#include <math.h>

/* x [n] becomes v with v_0 = 1, and *beta what is left of x: (I - tau v v^T) x = beta e_0. Returns tau, 0
 * where the squares behind x_0 sum up to `least` at most and are left out. */
static double reflect(double *beta, double *x, int64_t n, double least)
{
    double alpha = x[0], tail = rs_dot(x + 1, x + 1, n - 1), tau = 0;
    *beta = alpha;
    if (tail > least) {
        *beta = -copysign(sqrt(alpha * alpha + tail), alpha);
        double factor = 1 / (alpha - *beta); /* of one sign: nothing cancels */
        tau = (*beta - alpha) / *beta;
        for (int64_t k = 1; k < n; k++)
            x[k] *= factor;
    }
    x[0] = 1;
    return tau;
}

/* One step's reflections: of the columns by v, of the rows by u; w = M v, z = M^T u, and so on. */
typedef struct pair {
    double *v, *w, *u, *z;
    double left, right; /* tau of either */
} pair;

/* m [k, k] with ld is what is left of the matrix, stored as the rows that its columns are; p->v [k + 1],
 * whose first entry belongs to what is done. m -= left w v^T + right u z^T. */
static void update(double *m, int64_t ld, int64_t k, const pair *p)
{
    const double *restrict v = p->v + 1, *restrict z = p->z;
    for (int64_t j = 0; j < k; j++) {
        double a = p->left * p->w[j], b = p->right * p->u[j];
        double *restrict row = m + j * ld;
        for (int64_t c = 0; c < k; c++)
            row[c] -= a * v[c] + b * z[c];
    }
}

double rs_bidiagonalise_least(double largest)
{
    return largest * largest * 0x1p-208; /* numbers of 2^-104 of the largest */
}

void rs_bidiagonalise(double *d, double *e, double *matrix, int64_t n, double largest, double *work)
{
    double least = rs_bidiagonalise_least(largest);
    pair p = {.w = work, .u = work + n, .z = work + 2 * n};
    for (int64_t i = 0; i < n; i++) {
        int64_t k = n - i - 1;
        double *below = matrix + (i + 1) * n + i; /* column i of the rows behind row i */
        p.v = matrix + i * n + i;
        p.left = reflect(&d[i], p.v, k + 1, least);
        if (k == 0) return;
        rs_multiply(p.w, below, p.v, k, k + 1, n);
        for (int64_t j = 0; j < k; j++)
            p.u[j] = below[j * n] - p.left * p.w[j];
        p.right = reflect(&e[i], p.u, k, least);
        /* z = (M - left w v^T)^T u */
        rs_multiply_transposed(p.z, below + 1, p.u, k, k, n);
        double along = p.left * rs_dot(p.w, p.u, k);
        for (int64_t c = 0; c < k; c++)
            p.z[c] -= along * p.v[c + 1];
        update(below + 1, n, k, &p);
    }
}
