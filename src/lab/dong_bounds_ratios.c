/*
 * dong_bounds_ratios.c: one attention layer against the bounds of docs/theory/collapse.md, 3,
 * 4 and 8, and layers that climb towards them: random ones stay far below, and a constant that is
 * wrong by a few per cent would not be seen.
 */
#include "lab/dong_bounds.h"

#include <float.h>
#include <math.h>

double rs_bound_growth(double rho)
{
    return rho < 1e-9 ? 2 : expm1(rho) / rho + expm1(2 * rho) / (2 * rho);
}

/* ---- ratios ---- */

static double over(double value, double bound)
{
    return bound > DBL_MIN ? value / bound : 0;
}

/* One head: |R'| over c |W_QK|_1 |W_V| |R|³/sqrt(d), c = 4 gamma (with the least gamma that is 2
 * sqrt(sum of ranges * largest) |W_V| |R|), 4 and sqrt(K). */
static void one_head(double *ratio, const rs_one_layer *a, const double *tracked)
{
    double size = rs_norm_composite(a->residual, a->n, a->d);
    double values = rs_norm_composite(a->values[0], a->d, a->d), sum = 0;
    double base =
        rs_norm_columns(a->qk[0], a->d, a->d) * values * size * size * size / sqrt((double)a->d);
    double after = rs_norm_composite(tracked, a->n, a->d), range = rs_one_layer_range(a, 0);
    for (int64_t i = 0; i < a->n; i++)
        sum += a->range[0][i];
    ratio[RS_BOUND_GAMMA] = over(after, 2 * sqrt(sum * range) * values * size);
    ratio[RS_BOUND_PAPER] = over(after, 4 * base);
    ratio[RS_BOUND_REPAIRED] = over(after, sqrt(rs_bound_growth(range)) * base);
}

/* Column and row norms apart, q = |R|_1 |R|_inf. */
static double several_heads(const rs_one_layer *a, const double *tracked)
{
    double q = rs_norm_columns(a->residual, a->n, a->d) * rs_norm_rows(a->residual, a->n, a->d);
    double columns = 0, rows = 0, root = sqrt((double)a->d);
    for (int32_t h = 0; h < a->heads; h++) {
        double qk = rs_norm_columns(a->qk[h], a->d, a->d) / root;
        columns += rs_bound_growth(rs_one_layer_range(a, h)) * qk *
                   rs_norm_columns(a->values[h], a->d, a->d);
        rows += qk * rs_norm_rows(a->values[h], a->d, a->d);
    }
    double after = rs_norm_columns(tracked, a->n, a->d) * rs_norm_rows(tracked, a->n, a->d);
    return over(after, columns * rows * q * q * q);
}

/* The diameter theorem. The tokens' rounding is taken off: x is of size 1. */
static double diameter(const rs_one_layer *a, const double *y)
{
    double before = rs_rows_diameter(a->tokens, a->n, a->d), bound = 0;
    for (int32_t h = 0; h < a->heads; h++) {
        double s = rs_norm_spectral(a->qk[h], a->d, a->d) * before * before / sqrt((double)a->d);
        bound += rs_norm_spectral(a->values[h], a->d, a->d) * tanh(s / 4) * before;
    }
    return over(rs_rows_diameter(y, a->n, a->d) - 1e-13 * (1 + rs_norm_rows(y, a->n, a->d)), bound);
}

rs_status rs_bound_ratios(double ratio[RS_BOUND_KINDS], rs_one_layer *layer,
                          const rs_context *context, rs_error *err)
{
    rs_toy_trace trace;
    double tracked[RS_ONE_MATRIX];
    RS_TRY(rs_one_layer_run(&trace, layer, context, err));
    rs_one_layer_tracked(tracked, layer, &trace);
    ratio[RS_BOUND_GAMMA] = ratio[RS_BOUND_PAPER] = ratio[RS_BOUND_REPAIRED] = 0;
    if (layer->heads == 1) one_head(ratio, layer, tracked);
    ratio[RS_BOUND_HEADS] = several_heads(layer, tracked);
    ratio[RS_BOUND_DIAMETER] = diameter(layer, rs_toy_state(&trace, 1, 0));
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* ---- climbing ---- */

/* A layer and what it is completed from. */
typedef struct point {
    rs_one_layer a;
    double g[RS_ONE_HEADS][RS_ONE_WIDTH];
} point;

/* A step of random size in about a fifth of the numbers; now and then one becomes 0. */
static void step_numbers(double *numbers, int64_t count, double size, rs_random *random)
{
    double share = fmax(0.2, 2 / (double)count);
    for (int64_t i = 0; i < count; i++)
        if (rs_random_uniform(random) < share) numbers[i] += size * rs_random_normal(random);
    if (rs_random_uniform(random) < 0.03) numbers[rs_pick_between(random, 0, count - 1)] = 0;
}

/* R of composite norm 1, and changes of the logits within the hypothesis. */
static void normalise_point(point *p)
{
    rs_one_layer *a = &p->a;
    double size = rs_norm_composite(a->residual, a->n, a->d);
    for (int64_t i = 0; i < a->n * a->d; i++)
        a->residual[i] /= fmax(size, DBL_MIN);
    rs_one_layer_complete(a, p->g);
    for (int32_t h = 0; h < a->heads; h++) {
        double range = rs_one_layer_range(a, h), wanted = fmin(fmax(range, 1e-3), 1.256);
        for (int64_t i = 0; i < a->d * a->d; i++)
            a->qk[h][i] *= wanted / fmax(range, DBL_MIN);
    }
    rs_one_layer_complete(a, p->g);
}

static void move(point *p, rs_random *random)
{
    rs_one_layer *a = &p->a;
    double size = 0.5 * pow(10, -2 * rs_random_uniform(random));
    step_numbers(a->residual, a->n * a->d, size, random);
    for (int32_t h = 0; h < a->heads; h++) {
        step_numbers(a->qk[h], a->d * a->d, size, random);
        step_numbers(a->values[h], a->d * a->d, size, random);
        step_numbers(p->g[h], a->d, size, random);
    }
    normalise_point(p);
}

rs_status rs_bound_climb(double *best, rs_bound_kind kind, const rs_one_draw *shape, int steps,
                         rs_random *random, const rs_context *context, rs_error *err)
{
    point at = {.g = {{0}}};
    *best = 0;
    rs_one_layer_draw(&at.a, shape, random);
    for (int64_t k = 0; k < at.a.d; k++)
        at.a.mean[k] = 0; /* it only adds to the queries' bias, which is free */
    normalise_point(&at);
    for (int i = 0; i < steps; i++) {
        double ratio[RS_BOUND_KINDS];
        point next = at;
        if (i > 0) move(&next, random);
        RS_TRY(rs_bound_ratios(ratio, &next.a, context, err));
        if (!(ratio[kind] >= *best)) continue;
        *best = ratio[kind];
        at = next;
    }
    return RS_OK;
}

rs_status rs_bound_hashed(double ratio[RS_BOUND_KINDS], int32_t heads, const rs_context *context,
                          rs_error *err)
{
    rs_one_layer a;
    rs_one_layer_hashed(&a, heads);
    return rs_bound_ratios(ratio, &a, context, err);
}
