/* paths_measures.c: the size of a contribution, and how far a product of mixing matrices is from
 * rank one. */
#include "collapse/paths.h"

#include "base/memory.h"
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

/* sqrt of (largest absolute column sum × largest absolute row sum); columns: d zeros. */
typedef struct composite {
    double *columns;
    double largest_row;
} composite;

static void add_row(composite *c, const double *row, int64_t d)
{
    double sum = 0;
    for (int64_t i = 0; i < d; i++) {
        c->columns[i] += fabs(row[i]);
        sum += fabs(row[i]);
    }
    if (sum > c->largest_row) c->largest_row = sum;
}

static double composite_norm(const composite *c, int64_t d)
{
    double most = 0;
    for (int64_t i = 0; i < d; i++)
        most = c->columns[i] > most ? c->columns[i] : most;
    return sqrt(most) * sqrt(c->largest_row);
}

/* The centre is first row + mean of the differences from it: exact where the rows are nearly
 * equal. */
static void centre_of(double *offset, const double *a, int64_t n, int64_t d)
{
    memset(offset, 0, (size_t)d * sizeof *offset);
    for (int64_t i = 1; i < n; i++)
        for (int64_t c = 0; c < d; c++)
            offset[c] += a[i * d + c] - a[c];
    for (int64_t c = 0; c < d; c++)
        offset[c] /= (double)n;
}

/* A power of two that brings the largest entry near 1 where squares would leave the range. */
static double safe_scale(const double *a, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(a[i]));
    if (!(most > 0) || !isfinite(most) || (most > 0x1p-300 && most < 0x1p300)) return 1;
    int exponent = -ilogb(most);
    return ldexp(1, exponent < 1000 ? exponent : 1000);
}

rs_status rs_path_size_of(rs_path_size *out, const double *a, int64_t n, int64_t d, rs_error *err)
{
    double *room = rs_calloc((size_t)d, 5 * sizeof *room);
    if (!room) return rs_fail_memory(err, "norms of paths", 5 * (size_t)d * sizeof *room);
    double *offset = room + 2 * d, *rest = room + 3 * d, *row = room + 4 * d;
    double squares = 0, residual = 0, scale = safe_scale(a, n * d);
    composite whole = {.columns = room}, left = {.columns = room + d};
    centre_of(offset, a, n, d);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < d; c++) {
            row[c] = scale * a[i * d + c];
            rest[c] = scale * ((a[i * d + c] - a[c]) - offset[c]);
        }
        squares += rs_dot(row, row, d);
        residual += rs_dot(rest, rest, d);
        add_row(&whole, row, d);
        add_row(&left, rest, d);
    }
    *out = (rs_path_size){.fro = sqrt(squares) / scale, .residual = NAN, .residual_1inf = NAN};
    if (squares > 0) {
        out->residual = sqrt(residual / squares);
        out->residual_1inf = composite_norm(&left, d) / composite_norm(&whole, d);
    }
    rs_free(room);
    return RS_OK;
}

/*
 * The leading right singular vector of P by power iteration on PᵀP. Where σ₂ is close to σ₁ the
 * vector converges slowly, but what is reported, sqrt(‖P‖² − ‖Pv‖²), is stationary in v: its error
 * is of second order.
 */
enum { MOST_STEPS = 500 };

static double leading(double *u, double *v, const double *p, int64_t n)
{
    double sigma = 0;
    for (int64_t i = 0; i < n; i++)
        v[i] = 1 + 0.1 * sin((double)(i + 1)); /* no symmetry that a mixing matrix could have */
    for (int step = 0; step < MOST_STEPS; step++) {
        double before = sigma, norm = sqrt(rs_dot(v, v, n));
        for (int64_t i = 0; i < n; i++)
            v[i] /= norm;
        rs_multiply(u, p, v, n, n, n);
        sigma = sqrt(rs_dot(u, u, n));
        if (!(sigma > 0) || fabs(sigma - before) <= 1e-15 * sigma) break;
        rs_multiply_transposed(v, p, u, n, n, n);
    }
    double norm = sqrt(rs_dot(v, v, n));
    for (int64_t i = 0; i < n && norm > 0; i++)
        v[i] /= norm;
    rs_multiply(u, p, v, n, n, n);
    return sqrt(rs_dot(u, u, n));
}

rs_status rs_rank1_distance_of(rs_rank1_distance *out, const double *p, int64_t n, rs_error *err)
{
    double *room = rs_calloc((size_t)n, 5 * sizeof *room);
    if (!room) return rs_fail_memory(err, "rank of paths", 5 * (size_t)n * sizeof *room);
    double *u = room, *v = room + n, *rest = room + 2 * n, squares = 0, left_squares = 0;
    composite whole = {.columns = room + 3 * n}, left = {.columns = room + 4 * n};
    leading(u, v, p, n);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++)
            rest[j] = p[i * n + j] - u[i] * v[j];
        squares += rs_dot(p + i * n, p + i * n, n);
        left_squares += rs_dot(rest, rest, n);
        add_row(&whole, p + i * n, n);
        add_row(&left, rest, n);
    }
    *out = (rs_rank1_distance){NAN, NAN};
    if (squares > 0) {
        out->fro = sqrt(left_squares / squares);
        out->composite = composite_norm(&left, n) / composite_norm(&whole, n);
    }
    rs_free(room);
    return RS_OK;
}
