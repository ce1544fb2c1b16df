/*
 * token_diameter.c: the largest distance between two tokens, exactly, at the price of a float32
 * Gram matrix.
 *
 * The inner products g_ij of the centred rows are taken in float32, a block of rows against a block
 * of rows, and ‖R_i‖² in float64. A float32 product of length d errs by at most
 * (d + 4) 2⁻²⁴ ‖R_i‖ ‖R_j‖ (Higham, Accuracy and Stability of Numerical Algorithms, 3.1, plus the
 * rounding of the entries), so a pair whose estimate lies below the best known distance by more
 * than that (twice, for d² = ‖R_i‖² + ‖R_j‖² − 2g) cannot be the one sought; every other pair is
 * worked out from the differences X_i − X_j in float64, where nothing cancels.
 */
#include "linalg/vector.h"
#include "measures/token_matrix.h"

#include <cblas.h>
#include <float.h>
#include <math.h>

/* Rows in a block: its products fit the second-level cache. */
enum { BLOCK = 256 };

typedef struct search {
    const rs_token_matrix *x;
    const double *norms; /* ‖R_i‖ in units of the largest */
    double slack;        /* bound on the error of an estimate of a squared distance */
    double best;         /* largest squared distance so far, same units */
    double distance;     /* and the distance itself */
    double unit;         /* the largest ‖R_i‖ */
    double *left, *right;
} search;

static int64_t block_rows(int64_t n)
{
    return n < BLOCK ? n : BLOCK;
}

typedef struct buffers {
    float *rows; /* [n, d] R/unit */
    float *gram; /* [block, block] */
    double *left, *right, *scaled;
} buffers;

static buffers take_buffers(int64_t n, int64_t d, rs_workspace *space)
{
    buffers b;
    int64_t block = block_rows(n);
    b.rows = rs_workspace_take(space, (size_t)n, (size_t)d * sizeof *b.rows);
    b.gram = rs_workspace_take(space, (size_t)block, (size_t)block * sizeof *b.gram);
    b.left = rs_workspace_doubles(space, d);
    b.right = rs_workspace_doubles(space, d);
    b.scaled = rs_workspace_doubles(space, n);
    return b;
}

void rs_token_diameter_space(int64_t n, int64_t d, rs_workspace *space)
{
    (void)take_buffers(n, d, space);
}

/* The pair's distance from the rows themselves. */
static void weigh(search *s, int64_t i, int64_t j)
{
    rs_token_matrix_row(s->left, s->x, i);
    rs_token_matrix_row(s->right, s->x, j);
    double distance = sqrt(rs_distance_squared(s->left, s->right, s->x->d));
    if (!(distance > s->distance)) return;
    s->distance = distance;
    s->best = (distance / s->unit) * (distance / s->unit);
}

/* One block of products g: rows i0.. against rows j0... */
static void scan_block(search *s, const float *g, int64_t ld, int64_t i0, int64_t rows, int64_t j0,
                       int64_t columns)
{
    double top = -1;
    int64_t top_i = -1, top_j = -1;
    for (int pass = 0; pass < 2; pass++) {
        /* First the block's likely winner, which raises the bar; then whoever passes it. */
        for (int64_t i = 0; i < rows; i++) {
            double own = s->norms[i0 + i] * s->norms[i0 + i];
            int64_t begin = i0 == j0 ? i + 1 : 0;
            for (int64_t j = begin; j < columns; j++) {
                double other = s->norms[j0 + j];
                double estimate = own + other * other - 2 * (double)g[i * ld + j];
                if (pass == 0 && estimate > top) {
                    top = estimate;
                    top_i = i;
                    top_j = j;
                }
                if (pass == 1 && estimate >= s->best - s->slack && (i != top_i || j != top_j))
                    weigh(s, i0 + i, j0 + j);
            }
        }
        if (top_i < 0 || top < s->best - s->slack) return;
        if (pass == 0) weigh(s, i0 + top_i, j0 + top_j);
    }
}

static void fill_rows(float *rows, const rs_token_matrix *x, const rs_token_centre *centre,
                      double unit, double *row)
{
    double inverse = 1 / unit;
    for (int64_t i = 0; i < x->n; i++) {
        rs_token_matrix_row(row, x, i);
        float *to = rows + i * x->d;
        for (int64_t k = 0; k < x->d; k++)
            to[k] = (float)(((row[k] - centre->first[k]) - centre->offset[k]) * inverse);
    }
}

void rs_token_diameter(double *diameter, const rs_token_matrix *x, const rs_token_centre *centre,
                       const double *norms, rs_workspace *space)
{
    int64_t n = x->n, d = x->d, block = block_rows(n);
    buffers b = take_buffers(n, d, space);
    double unit = 0;
    for (int64_t i = 0; i < n; i++)
        unit = fmax(unit, norms[i]);
    *diameter = 0;
    if (!(unit > 0)) return;
    for (int64_t i = 0; i < n; i++)
        b.scaled[i] = norms[i] / unit;
    search s = {.x = x, .norms = b.scaled, .unit = unit, .left = b.left, .right = b.right};
    s.slack = 2 * (double)(d + 8) * (FLT_EPSILON / 2);
    fill_rows(b.rows, x, centre, unit, b.left);
    for (int64_t i0 = 0; i0 < n; i0 += block) {
        int64_t rows = n - i0 < block ? n - i0 : block;
        for (int64_t j0 = i0; j0 < n; j0 += block) {
            int64_t columns = n - j0 < block ? n - j0 : block;
            const float *left = b.rows + i0 * d, *right = b.rows + j0 * d;
            if (i0 == j0)
                cblas_ssyrk(CblasRowMajor, CblasUpper, CblasNoTrans, (blasint)rows, (blasint)d, 1,
                            left, (blasint)d, 0, b.gram, (blasint)block);
            else
                cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)rows,
                            (blasint)columns, (blasint)d, 1, left, (blasint)d, right, (blasint)d, 0,
                            b.gram, (blasint)block);
            scan_block(&s, b.gram, block, i0, rows, j0, columns);
        }
    }
    *diameter = s.distance;
}
