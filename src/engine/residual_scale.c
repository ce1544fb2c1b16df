/*
 * residual_scale.c: the size of X = 2^s (c xᵀ + 2^e M) where it leaves the range of doubles
 * (docs/theory/collapse.md, 14.7), and how much of M may be rounding (14.8).
 */
#include "engine/residual.h"

#include <math.h>
#include <string.h>

/* a 2^e in two steps, for 2^e alone may be no double where the product is one. */
static double times_power(double a, int64_t e)
{
    return a == 0 ? 0 : a * rs_power_of_two(e / 2) * rs_power_of_two(e - e / 2);
}

void rs_scale_by(double *a, int64_t count, int64_t e)
{
    if (e > 2000) {
        for (int64_t i = 0; i < count; i++)
            a[i] = times_power(a[i], e);
        return;
    }
    double half = rs_power_of_two(e / 2), rest = rs_power_of_two(e - e / 2);
    for (int64_t i = 0; i < count; i++)
        a[i] = a[i] * half * rest;
}

/* Weights raise a residual by less than 2^40 in any number of layers there can be. */
void rs_residual_clamp(const rs_residual *r)
{
    if (*r->e < RS_EXPONENT_LEAST + ((int64_t)1 << 40)) *r->e = RS_EXPONENT_LEAST;
}

static int64_t scale_of(const rs_residual *r)
{
    return r->scale ? *r->scale : 0;
}

/* The exponent of the larger of x and 2^e M; x is finite and one of them not 0. */
static int64_t relative_size(const rs_residual *r)
{
    double top = rs_largest(r->x, r->d);
    int64_t size = top > 0 ? rs_exponent_of(top) : INT64_MIN;
    if (*r->e > size && !rs_all_zero(r->m, r->n * r->d)) return *r->e;
    return size;
}

int64_t rs_residual_size(const rs_residual *r)
{
    if (!isfinite(rs_largest(r->x, r->d))) return 1024;
    int64_t size = relative_size(r);
    return size == INT64_MIN ? size : size + scale_of(r);
}

void rs_residual_shift(const rs_residual *r, int64_t scale)
{
    int64_t by = *r->scale - scale;
    if (by == 0) return;
    for (int64_t k = 0; k < r->d; k++)
        r->x[k] = times_power(r->x[k], by);
    bool counted = *r->e > RS_EXPONENT_LEAST && !rs_all_zero(r->m, r->n * r->d);
    if (counted) *r->e += by;
    *r->scale = scale;
    rs_residual_clamp(r);
}

void rs_residual_fold(const rs_residual *r)
{
    if (r->scale) rs_residual_shift(r, 0);
}

void rs_residual_rescale(const rs_residual *r)
{
    if (!r->scale || !isfinite(rs_largest(r->x, r->d))) return;
    int64_t size = rs_residual_size(r);
    bool alone = *r->scale == 0 && rs_all_zero(r->x, r->d); /* M has an exponent of its own */
    if (size == INT64_MIN || alone || (size >= -RS_SCALE_FREE && size <= RS_SCALE_FREE))
        rs_residual_fold(r);
    else
        rs_residual_shift(r, size);
}

void rs_residual_lose(const rs_residual *r)
{
    for (int64_t k = 0; k < r->d && r->n > 0; k++)
        r->m[(r->n - 1) * r->d + k] = 1;
    *r->e = RS_EXPONENT_LOST;
}

void rs_residual_set_scale(const rs_residual *r, int64_t degree, int64_t by)
{
    int64_t most = degree > 0 ? RS_SCALE_MOST / degree : RS_SCALE_MOST;
    if (!r->scale) return;
    if (by > most || by < -most) {
        for (int64_t k = 0; k < r->d; k++)
            r->x[k] = by > 0 ? (double)INFINITY : 0;
        memset(r->m, 0, (size_t)(r->n * r->d) * sizeof *r->m);
        *r->e = *r->scale = 0;
        if (by < 0) rs_residual_lose(r);
        return;
    }
    *r->scale = degree * by;
}

/* With what it is multiplied by. */
static int64_t size_in_sum(const rs_residual *r, double factor)
{
    int64_t size = factor == 0 ? INT64_MIN : rs_residual_size(r);
    return size == INT64_MIN ? size : size + rs_exponent_of(fabs(factor));
}

void rs_residual_meet(const rs_residual *x, const rs_residual *y, double skip, double scale)
{
    if (!x->scale || !y->scale || *x->scale == *y->scale) return;
    int64_t of_x = size_in_sum(x, skip), of_y = size_in_sum(y, scale);
    int64_t size = of_x > of_y ? of_x : of_y;
    if (size >= -RS_SCALE_FREE && size <= RS_SCALE_FREE) size = 0;
    if (size == INT64_MIN) size = 0;
    rs_residual_shift(x, size);
    rs_residual_shift(y, size);
}

/* |a 2^-k|² */
static double square_of(const double *a, int64_t count, int64_t k)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double value = times_power(a[i], -k);
        sum += value * value;
    }
    return sum;
}

double rs_residual_share(const rs_residual *r)
{
    int64_t size = relative_size(r);
    if (size == INT64_MIN) return 0;
    double base = (double)r->n * square_of(r->x, r->d, size);
    double rest = square_of(r->m, r->n * r->d, size - *r->e);
    return sqrt(rest / (base + rest));
}

void rs_residual_round(const rs_residual *r, double error)
{
    double share = rs_residual_share(r);
    bool shared = !rs_all_zero(r->x, r->d);
    if (!r->rounding) return;
    *r->rounding = 0;
    if (r->n < 2 || (share == 0 && !shared)) return;
    *r->rounding = share > error ? error / share : 1;
}
