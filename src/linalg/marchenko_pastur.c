/*
 * marchenko_pastur.c: the bulk of a spectrum, as WeightWatcher fits it (analyze(mp_fit=True)).
 *
 * Definitions: Marchenko & Pastur (1967) density of WᵀW/N; the quarter circle law for square
 * matrices; kernel density estimate with the triangular kernel; Nelder & Mead (1965) simplex with
 * the usual factors 1, 2, 1/2, 1/2 and a first step of 5 %. The fixed numbers below are
 * WeightWatcher's (read in its source, 0.7.7) and decide num_spikes, so they are kept.
 */
#include "linalg/powerlaw.h"

#include "base/memory.h"

#include <math.h>

enum {
    GRID = 1000,        /* points of the density estimate */
    SIMPLEX_STEPS = 200 /* bound on steps and on evaluations */
};
#define HALF_WIDTH 0.1
#define GRID_MARGIN 0.5       /* beyond the largest value */
#define DENSITY_FLOOR 0.01    /* points with less are left out of the fit */
#define OUTSIDE_RESIDUAL 1000 /* at every point, for a variance whose edges cannot be right */
#define SCAN_FROM 0.05
#define SCAN_TO 2.0
#define SCAN_STEP 0.01
#define SIMPLEX_TOLERANCE 1e-4

static const double PI = 3.14159265358979323846;

/* The density estimate where it exceeds the floor. */
typedef struct density {
    double x[GRID], y[GRID];
    int points;
    double peak;  /* x of the largest y */
    double ratio; /* Q = N/M >= 1 */
} density;

/* values: n, ascending. Returns false when no point is above the floor. */
static bool estimate_density(density *out, const double *values, int64_t n)
{
    double stop = values[n - 1] + GRID_MARGIN, highest = 0.0;
    int64_t from = 0;
    out->points = 0;
    for (int i = 0; i < GRID; i++) {
        double x = stop * ((double)i / (GRID - 1)), sum = 0.0;
        while (from < n && values[from] <= x - HALF_WIDTH)
            from++;
        for (int64_t j = from; j < n && values[j] < x + HALF_WIDTH; j++) {
            sum += 1.0 - fabs(x - values[j]) / HALF_WIDTH;
        }
        double y = sum / ((double)n * HALF_WIDTH);
        if (!(y > DENSITY_FLOOR)) continue;
        out->x[out->points] = x;
        out->y[out->points] = y;
        out->points++;
        if (y > highest) {
            highest = y;
            out->peak = x;
        }
    }
    return out->points > 0;
}

static double square(double x)
{
    return x * x;
}

static double edge(double sigma, double ratio, int sign)
{
    return square(sigma * (1.0 + sign * sqrt(1.0 / ratio)));
}

static double misfit_quarter_circle(const density *data, double sigma)
{
    double sum = 0.0, scale = 1.0 / (PI * sigma * sigma);
    for (int i = 0; i < data->points; i++) {
        double inside = 4.0 - square(data->x[i]);
        double model = inside > 0.0 ? scale * sqrt(inside) : 0.0;
        sum += square(model - data->y[i]);
    }
    return sum;
}

/* Sum of squared residuals of the law with this sigma. */
static double misfit(const density *data, double sigma)
{
    if (data->ratio == 1.0) return misfit_quarter_circle(data, sigma);
    double low = edge(sigma, data->ratio, -1), high = edge(sigma, data->ratio, 1);
    if (high < data->peak || high > data->x[data->points - 1] || low > data->peak) {
        return data->points * square(OUTSIDE_RESIDUAL);
    }
    double sum = 0.0, scale = data->ratio / (2.0 * PI * sigma * sigma);
    for (int i = 0; i < data->points; i++) {
        double x = data->x[i], inside = (high - x) * (x - low);
        double model = inside > 0.0 ? scale / x * sqrt(inside) : 0.0;
        sum += square(model - data->y[i]);
    }
    return sum;
}

/* The best of the evenly spaced candidates around `centre`. */
static double scan(const density *data, double centre)
{
    double start = SCAN_FROM * centre, step = SCAN_STEP * centre;
    int count = (int)ceil((SCAN_TO * centre - start) / step);
    double best = start, least = INFINITY;
    for (int i = 0; i < count; i++) {
        double sigma = start + i * step, value = misfit(data, sigma);
        if (value < least) {
            least = value;
            best = sigma;
        }
    }
    return best;
}

typedef struct vertex {
    double x, value;
} vertex;

/* The vertex that replaces `worst`, or a copy of `worst` when the simplex should shrink. */
static vertex simplex_move(const density *data, vertex good, vertex worst, int *evaluations)
{
    vertex reflected = {2.0 * good.x - worst.x, 0.0};
    reflected.value = misfit(data, reflected.x);
    *evaluations += 2;
    if (reflected.value < good.value) {
        vertex expanded = {3.0 * good.x - 2.0 * worst.x, 0.0};
        expanded.value = misfit(data, expanded.x);
        return expanded.value < reflected.value ? expanded : reflected;
    }
    if (reflected.value < worst.value) {
        vertex outside = {1.5 * good.x - 0.5 * worst.x, 0.0};
        outside.value = misfit(data, outside.x);
        return outside.value <= reflected.value ? outside : worst;
    }
    vertex inside = {0.5 * good.x + 0.5 * worst.x, 0.0};
    inside.value = misfit(data, inside.x);
    return inside.value < worst.value ? inside : worst;
}

/* A simplex of two vertices. */
static double refine(const density *data, double start)
{
    vertex good = {start, misfit(data, start)};
    vertex worst = {start * 1.05, misfit(data, start * 1.05)};
    int evaluations = 2;
    for (int i = 0; i < SIMPLEX_STEPS && evaluations < SIMPLEX_STEPS; i++) {
        if (worst.value < good.value) {
            vertex swap = good;
            good = worst;
            worst = swap;
        }
        if (fabs(worst.x - good.x) <= SIMPLEX_TOLERANCE &&
            fabs(worst.value - good.value) <= SIMPLEX_TOLERANCE) {
            break;
        }
        vertex moved = simplex_move(data, good, worst, &evaluations);
        if (moved.x == worst.x) {
            moved.x = good.x + 0.5 * (worst.x - good.x);
            moved.value = misfit(data, moved.x);
            evaluations++;
        }
        worst = moved;
    }
    return worst.value < good.value ? worst.x : good.x;
}

/* Eigenvalues beyond the upper edge and the width of its Tracy-Widom fluctuation. */
static int64_t count_spikes(const double *scaled, int64_t k, double bulk_max, double ratio,
                            double short_side)
{
    double width = pow(bulk_max, 2.0 / 3.0) * pow(short_side, -2.0 / 3.0) / sqrt(ratio);
    double limit = bulk_max + sqrt(width);
    int64_t count = 0;
    while (count < k && scaled[k - 1 - count] > limit)
        count++;
    return count;
}

static void fit_scaled(rs_mp_fit *out, density *data, double *scaled, int64_t k, int64_t short_side)
{
    double largest = scaled[k - 1];
    double centre = sqrt(largest / square(1.0 + 1.0 / sqrt(data->ratio)));
    bool square_matrix = data->ratio == 1.0;
    for (int64_t i = 0; square_matrix && i < k; i++)
        scaled[i] = sqrt(scaled[i]);
    bool found = estimate_density(data, scaled, k);
    for (int64_t i = 0; square_matrix && i < k; i++)
        scaled[i] = square(scaled[i]);
    if (!found) return;
    out->sigma = refine(data, scan(data, centre));
    out->bulk_max = edge(out->sigma, data->ratio, 1);
    out->bulk_min = edge(out->sigma, data->ratio, -1);
    out->softrank = out->bulk_max / largest;
    out->spikes = count_spikes(scaled, k, out->bulk_max, data->ratio, (double)short_side);
}

rs_status rs_marchenko_pastur_fit(rs_mp_fit *out, const double *lambda, int64_t k, int64_t rows,
                                  int64_t cols, rs_error *err)
{
    *out = (rs_mp_fit){NAN, NAN, NAN, NAN, -1};
    if (k <= 0 || rows <= 0 || cols <= 0) return RS_OK;
    double sum = 0.0;
    for (int64_t i = 0; i < k; i++)
        sum += lambda[i];
    double scale = square(sqrt((double)k) / sqrt(sum));
    if (!(sum > 0.0) || !isfinite(sum) || !isfinite(scale)) return RS_OK;

    int64_t long_side = rows > cols ? rows : cols, short_side = rows > cols ? cols : rows;
    density *data = rs_malloc(1, sizeof *data);
    double *scaled = rs_malloc((size_t)k, sizeof *scaled);
    rs_status status = RS_OK;
    if (!data || !scaled) {
        status =
            rs_fail_memory(err, "density of a spectrum", sizeof *data + (size_t)k * sizeof *scaled);
    } else {
        data->ratio = (double)long_side / (double)short_side;
        for (int64_t i = 0; i < k; i++)
            scaled[i] = lambda[i] * scale;
        fit_scaled(out, data, scaled, k, short_side);
    }
    rs_free(scaled);
    rs_free(data);
    return status;
}
