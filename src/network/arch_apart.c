/*
 * arch_apart.c: tokens whose correlation is below 0.
 *
 * A group of m unit vectors whose sum has the squared length m (1 - t) has the mean correlation
 * -t/(m - 1): with an orthonormal frame q_0 .. q_(m-1) of uniform direction and H the m×(m-1)
 * isometry onto what sums to 0 (Helmert's),
 *
 *     x_k = sqrt(1 + t/(m-1)) Σ_j H_kj q_j + sqrt((1-t)/m) q_0,   <x_k, x_l> = -t/(m-1), k ≠ l,
 *
 * at t = 1 a regular simplex, which needs m - 1 directions only. n tokens are cut into groups at random
 * with one t = -rho (n-1): pairs of different groups have the mean 0, and all pairs together
 * -t Σ_g m_g/(n (n-1)) = rho.
 */
#include "network/arch_input.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A frame costs m² d. */
enum { WIDEST_GROUP = 128 };

/* So near to 1 t is 1, whatever rounding the formula -1/(n-1) met. */
static const double rounding = 1e-12;

static double apart_of(double rho, int64_t n)
{
    double t = -rho * (double)(n - 1);
    return fabs(t - 1) <= rounding ? 1 : t;
}

rs_status rs_arch_input_check(const rs_arch *arch, rs_error *err)
{
    int64_t n = arch->seq_len, d = arch->rows ? arch->rows : arch->d_model;
    double rho = arch->input_rho, t = apart_of(rho, n);
    if (t > 1)
        return rs_fail(err, RS_E_ARCH_SCHEMA, arch->path,
                       "write \"rho\": \"-1/(n-1)\", or fewer tokens",
                       "\"rho\" is %.9g; of %lld tokens the mean correlation is -1/(n-1) = %.9g at "
                       "least",
                       rho, (long long)n, -1 / (double)(n - 1));
    if (d > 1 || n == 1 || rho == 0 || rho == 1 || (t == 1 && n % 2 == 0)) return RS_OK;
    return rs_fail(
        err, RS_E_ARCH_SCHEMA, arch->path,
        "write 0, 1, or \"-1/(n-1)\" for an even number of tokens",
        "\"rho\" is %.9g; 0 or 1 for %s is needed: tokens of one number and equal length "
        "are that number or its negative",
        rho, arch->rows ? "rows of \"width\" 1" : "\"d_model\" 1");
}

/* ---- groups ---- */

/* How many groups n tokens of d numbers make: of two tokens at least, and of so many directions at
 * most, but for three in a plane. */
static int64_t groups_of(int64_t n, int64_t d, double t)
{
    int64_t most = d + (t == 1);
    if (most > WIDEST_GROUP) most = WIDEST_GROUP;
    int64_t groups = (n + most - 1) / most;
    return groups > n / 2 && n > 1 ? n / 2 : groups;
}

/* q: [m, d] becomes orthonormal rows of the same span; twice, so that rounding leaves nothing. */
static void make_frame(double *q, int64_t m, int64_t d)
{
    for (int64_t k = 0; k < m; k++) {
        for (int64_t j = 0; j < k; j++)
            rs_input_orthogonalise(q + k * d, q + j * d, d);
        rs_input_scale(q + k * d, 1, d);
    }
}

/* x += factor q, [d]. */
static void add_direction(double *x, const double *q, double factor, int64_t d)
{
    for (int64_t i = 0; i < d; i++)
        x[i] += factor * q[i];
}

/* Tokens x_order[0] .. x_order[m-1] of x, from the frame q: [m, d], or [m - 1, d] where t is 1. */
static void regular(double *x, const int64_t *order, const double *q, int64_t m, int64_t d,
                    double t)
{
    double wide = m > 1 ? sqrt(1 + t / (double)(m - 1)) : 0;
    for (int64_t j = 1; j < m; j++) { /* Helmert's column j: j times 1, then -j */
        double unit = wide / sqrt((double)j * (double)(j + 1));
        for (int64_t k = 0; k < j; k++)
            add_direction(x + order[k] * d, q + (j - 1) * d, unit, d);
        add_direction(x + order[j] * d, q + (j - 1) * d, -(double)j * unit, d);
    }
    for (int64_t k = 0; k < m && t < 1; k++)
        add_direction(x + order[k] * d, q + (m - 1) * d, sqrt((1 - t) / (double)m), d);
}

/* Three in a plane, whose sum is as long as t wants it: one along q_0, two beside it. */
static void three(double *x, const int64_t *order, const double *q, double t)
{
    double along = (sqrt(3 * (1 - t)) - 1) / 2, beside = sqrt(1 - along * along);
    add_direction(x + order[0] * 2, q, 1, 2);
    for (int k = 1; k < 3; k++) {
        add_direction(x + order[k] * 2, q, along, 2);
        add_direction(x + order[k] * 2, q + 2, k == 1 ? beside : -beside, 2);
    }
}

/* ---- all tokens ---- */

typedef struct place {
    double key;
    int64_t token;
} place;

static int by_key(const void *left, const void *right)
{
    const place *a = left, *b = right;
    return (a->key > b->key) - (a->key < b->key);
}

/* The tokens in an order drawn at random. places: [n]. */
static void shuffle(int64_t *order, double *keys, place *places, const rs_draw *stream, int64_t n)
{
    rs_draw_normal_f64(keys, stream, n, 0, 1, 1);
    for (int64_t k = 0; k < n; k++)
        places[k] = (place){keys[k], k};
    qsort(places, (size_t)n, sizeof *places, by_key);
    for (int64_t k = 0; k < n; k++)
        order[k] = places[k].token;
}

/* directions: [n, d] normals. */
static void place_groups(double *x, double *directions, const int64_t *order, int64_t n, int64_t d,
                         double t)
{
    int64_t groups = groups_of(n, d, t);
    for (int64_t g = 0; g < groups; g++) {
        int64_t first = g * n / groups, m = (g + 1) * n / groups - first;
        double *q = directions + first * d;
        int64_t rows = t == 1 ? m - 1 : m;
        make_frame(q, rows < d ? rows : d, d);
        if (rows > d)
            three(x, order + first, q, t);
        else
            regular(x, order + first, q, m, d, t);
    }
}

rs_status rs_arch_input_apart(double *states, const rs_arch *arch, const rs_draw *stream,
                              rs_error *err)
{
    int64_t n = arch->seq_len, d = arch->rows ? arch->rows : arch->d_model;
    double *directions = rs_malloc((size_t)n, (size_t)d * sizeof *directions);
    double *keys = rs_malloc((size_t)n, sizeof *keys);
    int64_t *order = rs_malloc((size_t)n, sizeof *order);
    place *places = rs_malloc((size_t)n, sizeof *places);
    rs_draw next = *stream;
    rs_status status = RS_OK;
    if (directions && keys && order && places) {
        rs_draw_normal_f64(directions, &next, n * d, 0, 1, 1);
        next.stream[0]++;
        shuffle(order, keys, places, &next, n);
        memset(states, 0, (size_t)(n * d) * sizeof *states);
        place_groups(states, directions, order, n, d, apart_of(arch->input_rho, n));
        for (int64_t k = 0; k < n; k++) /* to the last bit */
            rs_input_scale(states + k * d, sqrt(arch->input_norm2), d);
    } else {
        status = rs_fail_memory(err, "an input", (size_t)n * (size_t)d * sizeof *directions);
    }
    rs_free(directions);
    rs_free(keys);
    rs_free(order);
    rs_free(places);
    return status;
}
