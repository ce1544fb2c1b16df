/* paths_measures.c: the size of a contribution, and how far a product of mixing matrices is from
 * rank one. */
#include "paths/paths_parts.h"

#include "base/memory.h"
#include "linalg/blas.h"
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

static double safe_scale(double most)
{
    if (!(most > 0) || !isfinite(most) || (most > 0x1p-300 && most < 0x1p300)) return 1;
    int exponent = -ilogb(most);
    return ldexp(1, exponent < 1000 ? exponent : 1000);
}

double rs_path_scale(const double *a, int64_t count)
{
    return safe_scale(largest(a, count));
}

double rs_path_dot(const double *a, const double *b, int64_t count, double scale)
{
    double sum = 0;
    if (scale == 1) return rs_dot(a, b, count);
    for (int64_t i = 0; i < count; i++)
        sum += (scale * a[i]) * (scale * b[i]);
    return sum;
}

/* ---- numbers that are none ---- */

rs_status rs_path_check_finite(const double *state, int64_t count, int32_t layer, const char *op,
                               rs_error *err)
{
    char where[64] = "the embedding";
    int64_t bad = 0;
    for (int64_t i = 0; i < count; i++)
        bad += !isfinite(state[i]);
    if (bad == 0) return RS_OK;
    if (layer >= 0)
        snprintf(where, sizeof where, "layer %d%s%s%s", (int)layer, op ? " (" : "", op ? op : "",
                 op ? ")" : "");
    return rs_fail(
        err, RS_E_NOT_FINITE, where,
        "'rankscope probe' tells whether a weight brings them; if none does, weaken what "
        "grows the state (--lambda, --residual-scale) or stop before it (--depth)",
        "%lld of %lld numbers that leave it are NaN or infinite in float64, so there is "
        "no output to share out among paths",
        (long long)bad, (long long)count);
}

/* ---- the identity ---- */

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
        missing += rs_path_dot(sum, sum, n, scale);
    }
    return missing;
}

rs_path_identity rs_path_identity_of(const rs_path_sums *s)
{
    int64_t count = s->n * s->d, all = (s->longest + 2) * count;
    double most = fmax(largest(s->embedding, all), largest(s->source, all)), terms = 0;
    double scale = safe_scale(fmax(most, largest(s->output, count)));
    for (int32_t k = 0; k < s->longest + 2; k++)
        terms +=
            sqrt(rs_path_dot(s->embedding + k * count, s->embedding + k * count, count, scale)) +
            sqrt(rs_path_dot(s->source + k * count, s->source + k * count, count, scale));
    double missing = sqrt(missing_squares(s, scale));
    double output = sqrt(rs_path_dot(s->output, s->output, count, scale));
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
 * The leading right singular vector of P by power iteration on PᵀP. What is reported,
 * sqrt(‖P‖² − ‖Pv‖²), is stationary in v: its error is of second order. Where σ₂ is so close to σ₁
 * that the iteration does not end (false), LAPACK finds the vector.
 */
enum { MOST_STEPS = 500 };

static rs_status leading_by_svd(double *u, double *v, const double *p, int64_t n, rs_error *err)
{
    double *a = rs_malloc((size_t)(n * n + 2 * n), sizeof *a);
    if (!a) return rs_fail_memory(err, "rank of paths", (size_t)(n * n) * sizeof *a);
    memcpy(a, p, (size_t)(n * n) * sizeof *a);
    /* P by rows is its transpose by columns: the left vectors of that are the right ones of P */
    lapack_int info = LAPACKE_dgesvd(LAPACK_COL_MAJOR, 'O', 'N', (lapack_int)n, (lapack_int)n, a,
                                     (lapack_int)n, a + n * n, NULL, 1, NULL, 1, a + n * n + n);
    memcpy(v, a, (size_t)n * sizeof *v);
    rs_free(a);
    if (info != 0)
        return rs_fail(err, RS_E_LAPACK, "rank of paths", NULL, "dgesvd gave up (info %d)",
                       (int)info);
    rs_multiply(u, p, v, n, n, n);
    return RS_OK;
}

static bool leading(double *u, double *v, const double *p, int64_t n)
{
    double sigma = 0;
    bool done = false;
    for (int64_t i = 0; i < n; i++)
        v[i] = 1 + 0.1 * sin((double)(i + 1)); /* no symmetry that a mixing matrix could have */
    for (int step = 0; step < MOST_STEPS; step++) {
        double before = sigma, norm = sqrt(rs_dot(v, v, n));
        for (int64_t i = 0; i < n; i++)
            v[i] /= norm;
        rs_multiply(u, p, v, n, n, n);
        sigma = sqrt(rs_dot(u, u, n));
        done = !(sigma > 0) || fabs(sigma - before) <= 1e-15 * sigma;
        if (done) break;
        for (int64_t i = 0; i < n; i++)
            u[i] /= sigma; /* v is then of the size of P, not of its square */
        rs_multiply_transposed(v, p, u, n, n, n);
    }
    double norm = sqrt(rs_dot(v, v, n));
    for (int64_t i = 0; i < n && norm > 0; i++)
        v[i] /= norm;
    rs_multiply(u, p, v, n, n, n);
    return done;
}

/* p: of a size whose squares are in the range of a double. room: 5n zeros. */
static rs_status measure_rank1(rs_rank1_distance *out, const double *p, int64_t n, double *room,
                               rs_error *err)
{
    double *u = room, *v = room + n, *rest = room + 2 * n, squares = 0, left_squares = 0;
    composite whole = {.columns = room + 3 * n}, left = {.columns = room + 4 * n};
    if (!leading(u, v, p, n)) RS_TRY(leading_by_svd(u, v, p, n, err));
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
    return RS_OK;
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
    rs_status status = measure_rank1(out, scaled ? scaled : p, n, room, err);
    rs_free(scaled);
    rs_free(room);
    return status;
}
