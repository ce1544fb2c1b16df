/* paths_measures.c: the size of a contribution, and how far a product of mixing matrices is from
 * rank one. */
#include "collapse/paths_parts.h"

#include "base/memory.h"
#include "linalg/vector.h"

#include <math.h>
#include <stdio.h>
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

static double largest(const double *a, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabs(a[i]) > most ? fabs(a[i]) : most;
    return most;
}

/* A power of two that brings the largest entry near 1 where squares of entries, and their sums,
 * would leave the range. */
static double safe_scale(double most)
{
    if (!(most > 0) || !isfinite(most) || (most > 0x1p-300 && most < 0x1p300)) return 1;
    int exponent = -ilogb(most);
    return ldexp(1, exponent < 1000 ? exponent : 1000);
}

/* ---- numbers that are none ---- */

rs_status rs_path_check_finite(const double *state, int64_t count, int32_t layer,
                               rs_branch_kind kind, rs_error *err)
{
    char where[64] = "the embedding";
    int64_t bad = 0;
    for (int64_t i = 0; i < count; i++)
        bad += !isfinite(state[i]);
    if (bad == 0) return RS_OK;
    static const char *const kinds[] = {" (attention)", " (MLP)", ""};
    if (layer >= 0) snprintf(where, sizeof where, "layer %d%s", (int)layer, kinds[kind]);
    return rs_fail(
        err, RS_E_NOT_FINITE, where,
        "'rankscope probe' tells whether a weight brings them; if none does, weaken what "
        "grows the state (--lambda, --residual-scale) or stop before it (--depth)",
        "%lld of %lld numbers that leave it are NaN or infinite in float64, so there is "
        "no output to share out among paths",
        (long long)bad, (long long)count);
}

/* ---- the identity ---- */

/* Σ (scale x)² */
static double squares_of(const double *x, int64_t count, double scale)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += scale * x[i] * (scale * x[i]);
    return sum;
}

/* Σ (scale (sum of all terms − output))² */
static double missing_squares(const rs_path_sums *s, double scale)
{
    enum { PIECE = 512 };
    int64_t count = s->n * s->d;
    double missing = 0, sum[PIECE];
    for (int64_t from = 0; from < count; from += PIECE) {
        int64_t n = count - from < PIECE ? count - from : PIECE;
        for (int64_t i = 0; i < n; i++)
            sum[i] = -s->output[from + i];
        for (int32_t k = 0; k < s->longest + 2; k++)
            for (int64_t i = 0; i < n; i++)
                sum[i] += s->embedding[k * count + from + i] + s->source[k * count + from + i];
        missing += squares_of(sum, n, scale);
    }
    return missing;
}

rs_path_identity rs_path_identity_of(const rs_path_sums *s)
{
    int64_t count = s->n * s->d, all = (s->longest + 2) * count;
    double most = fmax(largest(s->embedding, all), largest(s->source, all)), terms = 0;
    double scale = safe_scale(fmax(most, largest(s->output, count)));
    for (int32_t k = 0; k < s->longest + 2; k++)
        terms += sqrt(squares_of(s->embedding + k * count, count, scale)) +
                 sqrt(squares_of(s->source + k * count, count, scale));
    double missing = sqrt(missing_squares(s, scale));
    double output = sqrt(squares_of(s->output, count, scale));
    return (rs_path_identity){.error = missing == 0 ? 0 : missing / terms,
                              .output_error = missing == 0 ? 0 : missing / output,
                              .cancellation = terms / output};
}

/* ---- sizes ---- */

rs_status rs_path_size_of(rs_path_size *out, const double *a, int64_t n, int64_t d, rs_error *err)
{
    double *room = rs_calloc((size_t)d, 5 * sizeof *room);
    if (!room) return rs_fail_memory(err, "norms of paths", 5 * (size_t)d * sizeof *room);
    double *offset = room + 2 * d, *rest = room + 3 * d, *row = room + 4 * d;
    double squares = 0, residual = 0, scale = safe_scale(largest(a, n * d));
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

static void leading(double *u, double *v, const double *p, int64_t n)
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
        for (int64_t i = 0; i < n; i++)
            u[i] /= sigma; /* v is then of the size of P, not of its square */
        rs_multiply_transposed(v, p, u, n, n, n);
    }
    double norm = sqrt(rs_dot(v, v, n));
    for (int64_t i = 0; i < n && norm > 0; i++)
        v[i] /= norm;
    rs_multiply(u, p, v, n, n, n);
}

/* p: of a size whose squares are in the range of a double. room: 5n zeros. */
static void measure_rank1(rs_rank1_distance *out, const double *p, int64_t n, double *room)
{
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
}

rs_status rs_rank1_distance_of(rs_rank1_distance *out, const double *p, int64_t n, rs_error *err)
{
    double scale = safe_scale(largest(p, n * n)), *scaled = NULL;
    double *room = rs_calloc((size_t)n, 5 * sizeof *room);
    if (room && scale != 1) scaled = rs_malloc((size_t)(n * n), sizeof *scaled);
    if (!room || (scale != 1 && !scaled)) {
        rs_free(room);
        return rs_fail_memory(err, "rank of paths", 0);
    }
    for (int64_t i = 0; scaled && i < n * n; i++)
        scaled[i] = scale * p[i];
    measure_rank1(out, scaled ? scaled : p, n, room);
    rs_free(scaled);
    rs_free(room);
    return RS_OK;
}
