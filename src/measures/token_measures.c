/*
 * token_measures.c: the measures that two sweeps over the rows give; what needs pairs of tokens or
 * the spectrum is in token_diameter.c and token_spectrum.c.
 *
 * The first sweep takes the norms and the column sums of X, of X less its first row, and of the
 * unit rows; the second takes everything about the residuals once their centres are known. X is
 * read from where it is, a row at a time.
 */
#include "measures/token_measures.h"

#include "linalg/lp_centre.h"
#include "linalg/vector.h"
#include "measures/token_matrix.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Entries of magnitude outside 2^±SAFE_EXPONENT are scaled;
 * LARGEST_SCALE keeps the factor finite. */
enum { SAFE_EXPONENT = 200, LARGEST_SCALE = 1000 };

/* A row whose sum of squares is below this may have lost entries to underflow. */
static const double small_square = 0x1p-900;

void rs_token_matrix_row(double *row, const rs_token_matrix *x, int64_t i)
{
    if (x->single) {
        rs_widen(row, x->single + i * x->ld, x->d);
        return;
    }
    const double *from = x->wide + i * x->ld;
    for (int64_t k = 0; k < x->d; k++)
        row[k] = from[k] * x->scale;
}

/* The place of 1/‖X_i‖ of a row that takes its direction from unit_row. */
#define SMALL_ROW (-1.0)

/* Everything that the two sweeps add up. */
typedef struct sweep {
    double *first;   /* [d] row 0 */
    double *offset;  /* [d] centre less row 0 */
    double *unit;    /* [d] mean of the non-zero rows, each scaled to length 1 */
    double *rest;    /* [d] what the rounding of `unit` left */
    double *column;  /* [d] absolute column sums */
    double *row;     /* [d] */
    double *work;    /* [d] a row of R */
    double *spread;  /* [d] a row of U − ū */
    double *ignored; /* [d] takes the place of `rest` for a zero row */
    double *inverse; /* [n] 1/‖X_i‖, 0 for a zero row, SMALL_ROW for one whose square underflows */
    double *norms; /* [n] ‖X_i − centre‖ */
    double energy; /* ‖X‖_F² */
    double norm_1, norm_inf;
    int64_t nonzero;        /* rows that are not zero */
    double residual_energy; /* ‖R‖_F² */
    double residual_1, residual_inf;
    double unit_energy; /* ‖U − ū‖_F² over the non-zero rows */
} sweep;

static void take_sweep(sweep *s, int64_t n, int64_t d, rs_workspace *space)
{
    *s = (sweep){0};
    double **vectors[] = {&s->first, &s->offset, &s->unit,   &s->rest,   &s->column,
                          &s->row,   &s->work,   &s->spread, &s->ignored};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        *vectors[i] = rs_workspace_doubles(space, d);
    s->inverse = rs_workspace_doubles(space, n);
    s->norms = rs_workspace_doubles(space, n);
}

static double largest(const double *a, int64_t n)
{
    double best = 0;
    for (int64_t i = 0; i < n; i++)
        best = a[i] > best ? a[i] : best;
    return best;
}

/* Sets unit [d] to a row scaled to length 1, whatever its size; false: the row is zero. */
static bool unit_row(double *unit, const double *row, int64_t d)
{
    double top = 0, length;
    for (int64_t k = 0; k < d; k++)
        top = fmax(top, fabs(row[k]));
    if (top == 0) return false;
    int exponent = ilogb(top);
    for (int64_t k = 0; k < d; k++)
        unit[k] = scalbn(row[k], -exponent);
    length = sqrt(rs_dot(unit, unit, d));
    for (int64_t k = 0; k < d; k++)
        unit[k] /= length;
    return true;
}

/* The factor that scales s->row to length 1, 0 for a zero row. A row of a small square gives s->unit
 * its direction here. */
static double first_unit(sweep *s, double square, int64_t d)
{
    if (square >= small_square) return 1 / sqrt(square);
    if (!unit_row(s->spread, s->row, d)) return 0;
    for (int64_t k = 0; k < d; k++)
        s->unit[k] += s->spread[k];
    return SMALL_ROW;
}

/* Makes s->spread that of s->row, which has a small square, and adds it to s->rest. */
static void second_unit(sweep *s, int64_t d)
{
    unit_row(s->spread, s->row, d);
    for (int64_t k = 0; k < d; k++) {
        s->spread[k] -= s->unit[k];
        s->rest[k] += s->spread[k];
    }
}

static void first_sweep(sweep *s, const rs_token_matrix *x)
{
    int64_t n = x->n, d = x->d;
    rs_token_matrix_row(s->first, x, 0);
    memset(s->offset, 0, (size_t)d * sizeof *s->offset);
    memset(s->unit, 0, (size_t)d * sizeof *s->unit);
    memset(s->column, 0, (size_t)d * sizeof *s->column);
    for (int64_t i = 0; i < n; i++) {
        rs_token_matrix_row(s->row, x, i);
        double square = rs_dot(s->row, s->row, d);
        s->inverse[i] = first_unit(s, square, d);
        s->nonzero += s->inverse[i] != 0;
        s->energy += square;
        s->norm_inf = fmax(s->norm_inf, rs_sum_absolute(s->row, d));
        rs_row_sums(s->column, s->offset, s->unit, s->row, s->first, fmax(s->inverse[i], 0), d);
    }
    s->norm_1 = largest(s->column, d);
    for (int64_t k = 0; k < d; k++) {
        s->offset[k] /= (double)n;
        s->unit[k] /= (double)(s->nonzero ? s->nonzero : 1);
    }
}

static void second_sweep(sweep *s, const rs_token_matrix *x)
{
    int64_t n = x->n, d = x->d;
    memset(s->column, 0, (size_t)d * sizeof *s->column);
    memset(s->rest, 0, (size_t)d * sizeof *s->rest);
    memset(s->ignored, 0, (size_t)d * sizeof *s->ignored);
    rs_row_centres centres = {s->first, s->offset, s->unit, 0};
    for (int64_t i = 0; i < n; i++) {
        rs_token_matrix_row(s->row, x, i);
        /* A zero row has no direction: with factor 0 its spread is −unit, which does not count. */
        centres.factor = fmax(s->inverse[i], 0);
        double *left = s->inverse[i] > 0 ? s->rest : s->ignored;
        rs_row_rests(s->work, s->column, s->spread, left, s->row, &centres, d);
        double square = rs_dot(s->work, s->work, d);
        s->norms[i] = sqrt(square);
        s->residual_energy += square;
        s->residual_inf = fmax(s->residual_inf, rs_sum_absolute(s->work, d));
        if (s->inverse[i] == SMALL_ROW) second_unit(s, d);
        if (s->inverse[i] != 0) s->unit_energy += rs_dot(s->spread, s->spread, d);
    }
    s->residual_1 = largest(s->column, d);
    /* Σ‖u_i − c‖² is least at the mean; c differs from it by rest/m. */
    double shift = s->nonzero ? rs_dot(s->rest, s->rest, d) / (double)s->nonzero : 0;
    s->unit_energy = fmax(s->unit_energy - shift, 0);
}

/* What the unit rows say: all of it from ‖ū‖² and ‖U − ū‖². */
static void unit_measures(rs_token_measures *out, const sweep *s, const rs_token_matrix *x)
{
    double m = (double)s->nonzero, n = (double)x->n;
    double mean = rs_dot(s->unit, s->unit, x->d);
    if (s->nonzero == 0) return;
    /* Zero rows pull the mean of all n rows towards 0: the spread between the two groups. */
    out->row_normalised_mu = sqrt((s->unit_energy + m * (n - m) / n * mean) / n);
    if (s->nonzero < 2) return;
    out->mean_cosine = (m * mean - 1) / (m - 1);
    out->one_minus_cosine = s->unit_energy / (m - 1);
}

static void residual_measures(rs_token_measures *out, const sweep *s, double scale)
{
    double composite = sqrt(s->norm_1) * sqrt(s->norm_inf);
    double residual = sqrt(s->residual_1) * sqrt(s->residual_inf);
    out->norm_fro = sqrt(s->energy) / scale;
    out->residual_fro = sqrt(s->residual_energy) / scale;
    out->residual_1inf = residual / scale;
    out->norm_1inf = composite / scale;
    if (!(s->energy > 0)) return;
    out->relative_residual = sqrt(s->residual_energy / s->energy);
    out->relative_residual_1inf = residual / composite;
    out->at_floor = out->relative_residual <= out->floor;
}

/* Exponent bits all set: infinity or NaN. A count, because a loop that stops is not vectorised. */
static bool row_finite(const float *row, int64_t d)
{
    uint32_t found = 0;
    for (int64_t k = 0; k < d; k++) {
        uint32_t word;
        memcpy(&word, row + k, sizeof word);
        found |= (uint32_t)((word & 0x7f800000u) == 0x7f800000u);
    }
    return found == 0;
}

/* Finds the first row with a NaN or infinity and the largest magnitude, which float32 data need not
 * know: its squares are in range. */
static double examine(int64_t *first_nonfinite, const rs_token_matrix *x, double *row)
{
    double top = 0;
    *first_nonfinite = -1;
    if (x->single) {
        for (int64_t i = 0; i < x->n && *first_nonfinite < 0; i++)
            if (!row_finite(x->single + i * x->ld, x->d)) *first_nonfinite = i;
        return 1;
    }
    for (int64_t i = 0; i < x->n; i++) {
        rs_token_matrix_row(row, x, i);
        /* A NaN fails every comparison. */
        bool finite = true;
        for (int64_t k = 0; k < x->d; k++) {
            double magnitude = fabs(row[k]);
            finite &= magnitude <= DBL_MAX;
            top = magnitude > top ? magnitude : top;
        }
        if (finite) continue;
        *first_nonfinite = i;
        return NAN;
    }
    return top;
}

static double scale_of(double top)
{
    if (!(top > 0)) return 1;
    int exponent = ilogb(top);
    if (exponent > -SAFE_EXPONENT && exponent < SAFE_EXPONENT) return 1;
    return ldexp(1, exponent < -LARGEST_SCALE ? LARGEST_SCALE : -exponent);
}

static void take_all(sweep *s, int64_t n, int64_t d, const rs_token_options *options,
                     rs_workspace *space)
{
    take_sweep(s, n, d, space);
    size_t mark = space->used, most = mark;
    if (!options->no_diameter) rs_token_diameter_space(n, d, space);
    most = space->used > most ? space->used : most;
    space->used = mark;
    if (options->spectral) rs_token_spectrum_space(n, d, space);
    most = space->used > most ? space->used : most;
    space->used = mark;
    if (options->centre == RS_CENTRE_MEDIAN) rs_workspace_doubles(space, 8 * n);
    if (options->centre == RS_CENTRE_LP) {
        rs_workspace_doubles(space, n * d);
        rs_lp_centre_space(n, d, space);
    }
    most = space->used > most ? space->used : most;
    space->used = most;
}

size_t rs_token_workspace(int64_t n, int64_t d, const rs_token_options *options)
{
    sweep s;
    rs_workspace space = {0};
    if (n < 1 || d < 1) return 0;
    if (n > INT32_MAX || d > INT32_MAX) return SIZE_MAX;
    take_all(&s, n, d, options, &space);
    return space.used;
}

/* Replaces the mean by the centre of the smallest ℓ1 ball; returns how far apart the bounds of its
 * radius are, relative to it. Stored entries know the radius to a few units of roundoff. */
static double lp_centre(sweep *s, const rs_token_matrix *x, double epsilon, rs_workspace space)
{
    double *rows = rs_workspace_doubles(&space, x->n * x->d);
    for (int64_t i = 0; i < x->n; i++) {
        double *row = rows + i * x->d;
        rs_token_matrix_row(row, x, i);
        for (int64_t k = 0; k < x->d; k++)
            row[k] -= s->first[k];
    }
    rs_lp_centre result;
    double tolerance = fmax(RS_TOKEN_LP_LEAST, RS_TOKEN_LP_GAP * epsilon);
    rs_lp_centre_find(s->offset, &result, rows, x->n, x->d, tolerance, &space);
    return result.radius > 0 ? (result.radius - result.lower) / result.radius : 0;
}

/* Replaces what the second sweep took by the residual X − u c, c = Xᵀu/‖u‖². Multiples of a token
 * whose entry of u is the largest are taken off first: what is left is small where tokens are nearly
 * multiples of u, so the mean of it loses nothing there. */
static void right_residuals(sweep *s, const rs_token_matrix *x, const double *u)
{
    int64_t n = x->n, d = x->d, pivot = 0;
    double square = rs_dot(u, u, n);
    for (int64_t i = 1; i < n; i++)
        if (fabs(u[i]) > fabs(u[pivot])) pivot = i;
    rs_token_matrix_row(s->work, x, pivot);
    for (int64_t k = 0; k < d; k++)
        s->spread[k] = s->work[k] / u[pivot];
    memset(s->column, 0, (size_t)d * sizeof *s->column);
    memset(s->rest, 0, (size_t)d * sizeof *s->rest);
    for (int64_t i = 0; i < n; i++) {
        rs_token_matrix_row(s->row, x, i);
        for (int64_t k = 0; k < d; k++)
            s->rest[k] += u[i] / square * (s->row[k] - u[i] * s->spread[k]);
    }
    s->residual_energy = s->residual_inf = 0;
    for (int64_t i = 0; i < n; i++) {
        rs_token_matrix_row(s->row, x, i);
        for (int64_t k = 0; k < d; k++) {
            s->work[k] = (s->row[k] - u[i] * s->spread[k]) - u[i] * s->rest[k];
            s->column[k] += fabs(s->work[k]);
        }
        s->residual_energy += rs_dot(s->work, s->work, d);
        s->residual_inf = fmax(s->residual_inf, rs_sum_absolute(s->work, d));
    }
    s->residual_1 = largest(s->column, d);
}

/* Replaces the mean by the centre that was asked for. */
static void choose_centre(rs_token_measures *out, sweep *s, const rs_token_matrix *x,
                          const rs_token_options *options, rs_workspace space)
{
    if (options->centre == RS_CENTRE_LP) out->centre_gap = lp_centre(s, x, options->epsilon, space);
    if (options->centre != RS_CENTRE_MEDIAN) return;
    double *columns = rs_workspace_doubles(&space, 8 * x->n);
    rs_token_median(s->offset, x, s->first, columns);
}

void rs_token_measures_clear(rs_token_measures *out, double floor)
{
    *out = (rs_token_measures){.norm_fro = NAN,
                               .residual_fro = NAN,
                               .relative_residual = NAN,
                               .residual_1inf = NAN,
                               .relative_residual_1inf = NAN,
                               .row_normalised_mu = NAN,
                               .rank1_residual = NAN,
                               .mean_cosine = NAN,
                               .one_minus_cosine = NAN,
                               .diameter = NAN,
                               .effective_rank = NAN,
                               .stable_rank = NAN,
                               .stable_rank_gram = NAN,
                               .numerical_rank = NAN,
                               .norm_1inf = NAN,
                               .nuclear_norm = NAN,
                               .log10_norm_fro = NAN,
                               .log10_residual_fro = NAN,
                               .log10_relative_residual = NAN,
                               .log10_residual_1inf = NAN,
                               .log10_relative_residual_1inf = NAN,
                               .log10_one_minus_cosine = NAN,
                               .log10_diameter = NAN,
                               .floor = floor,
                               .first_nonfinite = -1};
}

static rs_status measure_tokens(rs_token_measures *out, rs_token_matrix *x,
                                const rs_token_options *options, void *workspace, rs_error *err)
{
    if (x->n < 1 || x->d < 1 || x->ld < x->d || x->n > INT32_MAX || x->d > INT32_MAX) {
        return rs_fail(err, RS_E_INTERNAL, "token measures", NULL,
                       "a token matrix of %lld x %lld with leading dimension %lld", (long long)x->n,
                       (long long)x->d, (long long)x->ld);
    }
    rs_token_measures_clear(out, RS_TOKEN_FLOOR * options->epsilon);
    sweep s;
    rs_workspace space = {.base = workspace};
    take_sweep(&s, x->n, x->d, &space);
    /* squares of floats are in the range of doubles: where their sum is, every float is finite */
    if (x->wide) x->scale = scale_of(examine(&out->first_nonfinite, x, s.row));
    if (out->first_nonfinite >= 0) return RS_OK;
    first_sweep(&s, x);
    if (!isfinite(s.energy)) examine(&out->first_nonfinite, x, s.row);
    if (out->first_nonfinite >= 0) return RS_OK;
    choose_centre(out, &s, x, options, space);
    second_sweep(&s, x);
    if (options->centre == RS_CENTRE_GRAPH) right_residuals(&s, x, options->right);
    residual_measures(out, &s, x->scale);
    unit_measures(out, &s, x);
    if (!options->no_diameter) {
        rs_workspace rest = space;
        rs_token_diameter(&out->diameter, x, &(rs_token_centre){s.first, s.offset}, s.norms, &rest);
        out->diameter /= x->scale;
    }
    if (!options->spectral || !(s.energy > 0)) return RS_OK;
    return rs_token_spectrum(out, x, options, &space, err);
}

rs_status rs_token_measure_f32(rs_token_measures *out, const float *x, int64_t n, int64_t d,
                               int64_t ld, const rs_token_options *options, void *workspace,
                               rs_error *err)
{
    rs_token_matrix matrix = {.single = x, .n = n, .d = d, .ld = ld, .scale = 1};
    return measure_tokens(out, &matrix, options, workspace, err);
}

rs_status rs_token_measure_f64(rs_token_measures *out, const double *x, int64_t n, int64_t d,
                               int64_t ld, const rs_token_options *options, void *workspace,
                               rs_error *err)
{
    rs_token_matrix matrix = {.wide = x, .n = n, .d = d, .ld = ld, .scale = 1};
    return measure_tokens(out, &matrix, options, workspace, err);
}
