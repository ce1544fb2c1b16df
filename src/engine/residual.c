/* residual.c: splitting, settling, levelling, adding and norming of X = 2^s (c xᵀ + 2^e M). */
#include "engine/residual.h"

#include <math.h>
#include <string.h>

/* NULL: all are 1. */
static double *coefficients(const rs_residual *r)
{
    return r->uneven && *r->uneven ? r->c : NULL;
}

double rs_power_of_two(int64_t e)
{
    return e < -1100 ? 0 : ldexp(1, e > 1100 ? 1100 : (int)e);
}

bool rs_all_zero(const double *a, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (a[i] != 0) return false;
    return true;
}

/* Four maxima side by side. */
double rs_largest(const double *a, int64_t count)
{
    double most[4] = {0}, rest = 0, wrong = 0;
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int k = 0; k < 4; k++) {
            double v = fabs(a[i + k]);
            most[k] = v > most[k] ? v : most[k];
            wrong += v - v;
        }
    for (; i < count; i++) {
        rest = fmax(rest, fabs(a[i]));
        wrong += a[i] - a[i];
    }
    if (wrong != 0) return (double)INFINITY;
    return fmax(fmax(fmax(most[0], most[1]), fmax(most[2], most[3])), rest);
}

int64_t rs_exponent_of(double most)
{
    int k = 0;
    if (most > 0 && isfinite(most)) frexp(most, &k);
    return k;
}

/* Brings max|M| into [1/2, 1). */
static void normalise_rows(const rs_residual *r)
{
    int64_t count = r->n * r->d;
    if (rs_all_zero(r->m, count)) {
        *r->e = 0;
        return;
    }
    int64_t k = rs_exponent_of(rs_largest(r->m, count));
    if (k != 0) {
        rs_scale_by(r->m, count, -k);
        *r->e += k;
    }
    rs_residual_clamp(r);
}

/* rows -= their mean, which is first + offset: the differences from the first row are exact where
 * rows are nearly equal, so that equal rows leave exactly 0. */
static void centre_rows(double *rows, int64_t n, int64_t d, double *first, double *offset)
{
    memcpy(first, rows, (size_t)d * sizeof *first);
    memset(offset, 0, (size_t)d * sizeof *offset);
    for (int64_t i = 1; i < n; i++)
        for (int64_t k = 0; k < d; k++)
            offset[k] += rows[i * d + k] - first[k];
    for (int64_t k = 0; k < d; k++)
        offset[k] /= (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < d; k++)
            rows[i * d + k] = (rows[i * d + k] - first[k]) - offset[k];
}

void rs_residual_split(const rs_residual *out, const double *rows, double *scratch)
{
    double *first = scratch, *offset = scratch + out->d;
    if (out->n == 0) return;
    memcpy(out->m, rows, (size_t)(out->n * out->d) * sizeof *rows);
    centre_rows(out->m, out->n, out->d, first, offset);
    for (int64_t k = 0; k < out->d; k++)
        out->x[k] = first[k] + offset[k];
    *out->e = 0;
    if (out->uneven) *out->uneven = 0;
    if (out->scale) *out->scale = 0;
    if (out->rounding) *out->rounding = 0;
    normalise_rows(out);
    rs_residual_rescale(out);
}

/* The same against c: rows -= c (first + offset)ᵀ, `first` from the row with the largest c. False
 * where all of c is 0. */
static bool project_rows(double *rows, const double *c, int64_t n, int64_t d, double *first,
                         double *offset)
{
    int64_t most = 0;
    double square = 0;
    for (int64_t i = 1; i < n; i++)
        if (fabs(c[i]) > fabs(c[most])) most = i;
    if (c[most] == 0) return false;
    for (int64_t i = 0; i < n; i++)
        square += c[i] / c[most] * (c[i] / c[most]);
    for (int64_t k = 0; k < d; k++)
        first[k] = rows[most * d + k] / c[most];
    memset(offset, 0, (size_t)d * sizeof *offset);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < d; k++)
            offset[k] += c[i] / c[most] * (i == most ? 0 : rows[i * d + k] - c[i] * first[k]);
    for (int64_t k = 0; k < d; k++)
        offset[k] /= square * c[most];
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < d; k++)
            rows[i * d + k] =
                (i == most ? 0 : rows[i * d + k] - c[i] * first[k]) - c[i] * offset[k];
    return true;
}

static bool all_the_same(const double *c, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (c[i] != c[0]) return false;
    return true;
}

/* The mean of c less c_0, which is exact where coefficients are nearly equal. */
static double mean_beyond_first(const double *c, int64_t n)
{
    double offset = 0;
    for (int64_t i = 1; i < n; i++)
        offset += c[i] - c[0];
    return offset / (double)n;
}

/* ---- how much of it is rounding ---- */

static double frobenius(const double *a, int64_t count)
{
    double square = 0;
    for (int64_t i = 0; i < count; i++)
        square += a[i] * a[i];
    return sqrt(square);
}

/* How much of factor 2^up M, in the Frobenius norm, may be rounding; of M = 0, what rounding of the
 * tokens that share x would be, times 2^-e. */
static double rounding_of(const rs_residual *r, double factor, double aligned, int64_t e)
{
    int64_t count = r->n * r->d;
    if (!r->rounding || *r->rounding == 0 || factor == 0) return 0;
    if (!rs_all_zero(r->m, count)) return *r->rounding * fabs(aligned) * frobenius(r->m, count);
    return 0x1p-53 * sqrt((double)r->n) * frobenius(r->x, r->d) * fabs(factor) *
           rs_power_of_two(-e);
}

static void share_rounding(const rs_residual *r, double rounding)
{
    if (!r->rounding) return;
    double size = rounding > 0 ? frobenius(r->m, r->n * r->d) : 0;
    *r->rounding = rounding == 0 ? 0 : rounding < size ? rounding / size : 1;
}

void rs_residual_level(const rs_residual *r, double *scratch)
{
    const double *c = coefficients(r);
    if (!c || r->n == 0) return;
    double offset = mean_beyond_first(c, r->n);
    if (!all_the_same(c, r->n)) {
        int64_t e = *r->e > 0 ? *r->e : 0;
        double down = rs_power_of_two(-e);
        double rounding = rounding_of(r, 1, rs_power_of_two(*r->e - e), e);
        rs_scale_by(r->m, r->n * r->d, *r->e - e);
        for (int64_t i = 0; i < r->n; i++)
            for (int64_t k = 0; k < r->d; k++)
                r->m[i * r->d + k] += ((c[i] - c[0]) - offset) * down * r->x[k];
        *r->e = e;
        share_rounding(r, rounding);
    }
    for (int64_t k = 0; k < r->d; k++)
        r->x[k] *= c[0] + offset;
    *r->uneven = 0;
    rs_residual_settle(r, scratch);
}

void rs_residual_settle(const rs_residual *r, double *scratch)
{
    double *first = scratch, *offset = scratch + r->d;
    if (r->n == 0) return;
    const double *c = coefficients(r);
    if (c && (all_the_same(c, r->n) || !project_rows(r->m, c, r->n, r->d, first, offset))) {
        rs_residual_level(r, scratch);
        return;
    }
    if (!c) centre_rows(r->m, r->n, r->d, first, offset);
    double power = rs_power_of_two(*r->e);
    for (int64_t k = 0; k < r->d && power != 0; k++) {
        double mean = first[k] + offset[k];
        if (mean != 0) r->x[k] += power * mean;
    }
    normalise_rows(r);
    rs_residual_rescale(r);
}

void rs_residual_plain(double *rows, const rs_residual *r, int64_t up)
{
    double half = rs_power_of_two(*r->e / 2), rest = rs_power_of_two(*r->e - *r->e / 2);
    const double *c = coefficients(r);
    for (int64_t i = 0; i < r->n && !c; i++)
        for (int64_t k = 0; k < r->d; k++)
            rows[i * r->d + k] = r->x[k] + r->m[i * r->d + k] * half * rest;
    for (int64_t i = 0; i < r->n && c; i++)
        for (int64_t k = 0; k < r->d; k++)
            rows[i * r->d + k] = c[i] * r->x[k] + r->m[i * r->d + k] * half * rest;
    if (r->scale) up += *r->scale;
    if (up != 0) rs_scale_by(rows, r->n * r->d, up);
}

/* ---- skip and branch ---- */

/* factor = fraction · 2^k, so that no product overflows */
static double part_of(double factor, int64_t *e)
{
    int k = 0;
    double fraction = frexp(factor, &k);
    *e += k;
    return fraction;
}

static void scale_base(double *x, int64_t d, double factor)
{
    for (int64_t k = 0; k < d; k++)
        x[k] = factor == 0 ? 0 : factor * x[k];
}

/* x = skip x + scale y where the two have one s. */
static void add_residuals(const rs_residual *x, const rs_residual *y, double skip, double scale)
{
    int64_t count = x->n * x->d, ex = *x->e, ey = y ? *y->e : 0;
    bool no_x = skip == 0 || rs_all_zero(x->m, count);
    bool no_y = !y || scale == 0 || rs_all_zero(y->m, count);
    double a = no_x ? 0 : part_of(skip, &ex), b = no_y ? 0 : part_of(scale, &ey);
    int64_t e = no_x && no_y ? 0 : no_x ? ey : no_y || ex > ey ? ex : ey;
    a *= rs_power_of_two(ex - e);
    b *= rs_power_of_two(ey - e);
    double rounding = rounding_of(x, skip, a, e) + (y ? rounding_of(y, scale, b, e) : 0);
    scale_base(x->x, x->d, skip);
    for (int64_t k = 0; k < x->d && y; k++)
        x->x[k] += scale * y->x[k];
    *x->e = e;
    for (int64_t i = 0; i < count && no_y; i++)
        x->m[i] = no_x ? 0 : a * x->m[i];
    for (int64_t i = 0; i < count && !no_y; i++)
        x->m[i] = (no_x ? 0 : a * x->m[i]) + b * y->m[i];
    share_rounding(x, rounding);
}

void rs_residual_combine(const rs_residual *x, const rs_residual *y, double skip, double scale)
{
    if (y) rs_residual_meet(x, y, skip, scale);
    add_residuals(x, y, skip, scale);
}

/* ---- norms ---- */

static double mean_of(const double *a, int64_t n)
{
    double sum[4] = {0};
    for (int64_t i = 0; i < n; i++)
        sum[i & 3] += a[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) / (double)n;
}

typedef struct stretch {
    const rs_norm_op *op;
    const double *gain, *bias;
    double one;            /* added to the gain */
    double *centred;       /* [dim] x̃ */
    double *row;           /* [dim] M̃_i */
    double power, inverse; /* 2^e, and 2^-e for a base without length */
    double s0;
    double own_eps;    /* of tokens 2^s times as small */
    double scale, eps; /* of x̃ and M̃ where their squares would leave the range, and of ε then */
    double down;       /* what the tokens are still to be multiplied by before the bias is added */
    double lost;       /* Σ (u s0 / s_i)² over rows that are nearly nothing beside the base */
} stretch;

static double gain_of(const stretch *s, int64_t k)
{
    return s->gain ? s->one + s->gain[k] : 1;
}

static void subtract_mean(double *out, const double *in, const stretch *s)
{
    double mean = s->op->kind == RS_NORM_LAYERNORM ? mean_of(in, s->op->dim) : 0;
    for (int64_t k = 0; k < s->op->dim; k++)
        out[k] = (in[k] - mean) * s->scale;
}

static double mean_square(const double *a, int64_t count)
{
    double square[4] = {0};
    for (int64_t k = 0; k < count; k++)
        square[k & 3] += a[k] * a[k];
    return ((square[0] + square[1]) + (square[2] + square[3])) / (double)count;
}

/* The row's base is s->centred. A row that is nearly nothing beside it is a difference of two numbers,
 * of which the norm shows how they were rounded. */
static void norm_row(stretch *s, double *m)
{
    int64_t dim = s->op->dim;
    double length[4] = {0}, product[4] = {0};
    subtract_mean(s->row, m, s);
    for (int64_t k = 0; k < dim; k++) {
        double y = s->centred[k] + s->power * s->row[k];
        length[k & 3] += y * y;
        product[k & 3] += s->row[k] * (s->centred[k] + y);
    }
    double square = ((length[0] + length[1]) + (length[2] + length[3])) / (double)dim;
    double q = ((product[0] + product[1]) + (product[2] + product[3])) / (double)dim;
    double si = sqrt(square + s->eps);
    if (si < 0x1p-10 * s->s0) s->lost += 0x1p-106 * (s->s0 / si) * (s->s0 / si);
    double turn = q / (si * (s->s0 + si)) / s->s0;
    for (int64_t k = 0; k < dim; k++)
        m[k] = gain_of(s, k) * (s->row[k] / si - s->centred[k] * turn);
}

/* The base has no length, and eps is 0: what is left of a row is its direction. */
static void norm_row_alone(stretch *s, double *m)
{
    int64_t dim = s->op->dim;
    double square = 0;
    subtract_mean(s->row, m, s);
    for (int64_t k = 0; k < dim; k++)
        square += s->row[k] * s->row[k];
    double si = sqrt(square / (double)dim);
    for (int64_t k = 0; k < dim; k++)
        m[k] = si > 0 ? gain_of(s, k) * s->row[k] / si * s->inverse : 0;
}

static void norm_stretch(const rs_residual *r, stretch *s, int64_t at)
{
    int64_t dim = s->op->dim;
    s->scale = 1;
    subtract_mean(s->centred, r->x + at, s);
    double mean = mean_square(s->centred, dim);
    if (!isfinite(mean)) {
        s->scale = 0x1p-600;
        subtract_mean(s->centred, r->x + at, s);
        mean = mean_square(s->centred, dim);
    }
    s->eps = s->scale * s->scale * s->own_eps;
    s->s0 = sqrt(mean + s->eps);
    for (int64_t i = 0; i < r->n; i++)
        (s->s0 == 0 ? norm_row_alone : norm_row)(s, r->m + i * r->d + at);
    for (int64_t k = 0; k < dim; k++) {
        double y = s->s0 == 0 ? 0 : gain_of(s, k) * (s->centred[k] / s->s0);
        r->x[at + k] = s->bias ? y * s->down + s->bias[k] : y;
    }
}

/* Row i's share of the direction is c_i x̃, which fills s->centred for norm_row. */
static void norm_shared_row(stretch *s, const double *centred, double c, double *m)
{
    for (int64_t k = 0; k < s->op->dim; k++)
        s->centred[k] = c * centred[k];
    norm_row(s, m);
}

/*
 * With coefficients, over whole rows. True when it is done; false when the tokens must be levelled
 * first.
 */
static bool norm_directions(const rs_residual *r, stretch *s, double *c)
{
    int64_t dim = s->op->dim;
    s->scale = 1;
    s->eps = s->own_eps;
    subtract_mean(s->centred, r->x, s);
    double length = sqrt(mean_square(s->centred, dim));
    if (!isfinite(length) || length == 0) return false;
    for (int64_t i = 0; i < r->n; i++) {
        double square = c[i] * length * c[i] * length + s->eps;
        if (square == 0 || !isfinite(square)) return false;
    }
    memcpy(r->x, s->centred, (size_t)dim * sizeof *r->x);
    for (int64_t i = 0; i < r->n; i++) {
        double own = fabs(c[i]) * length;
        s->s0 = sqrt(own * own + s->eps);
        norm_shared_row(s, r->x, c[i], r->m + i * dim);
        /* c / s0 · length, in which a small eps does not round */
        c[i] = own == 0 ? 0 : copysign(1 / sqrt(1 + s->eps / own / own), c[i]);
    }
    for (int64_t k = 0; k < dim; k++)
        r->x[k] = gain_of(s, k) * (r->x[k] / length);
    return true;
}

/*
 * Tokens 2^s times as large have an eps 2^-2s times as large. Where nothing but eps is left under
 * the root, the norm divides by its square root, whatever s: returns how many powers of two are left
 * to multiply the result by (14.7).
 */
static int64_t scale_of_norm(const rs_residual *r, stretch *s)
{
    enum { FAR = 70 };
    int64_t scale = r->scale ? *r->scale : 0, least = rs_exponent_of(s->op->eps) / 2 - FAR;
    int64_t left = s->op->eps > 0 && scale < least ? scale - least : 0;
    scale -= left;
    s->own_eps = s->op->eps * rs_power_of_two(-scale) * rs_power_of_two(-scale);
    return left;
}

void rs_residual_norm(const rs_residual *r, const rs_norm_op *op, const double *gain,
                      const double *bias, double *scratch)
{
    if (op->kind == RS_NORM_NONE) return;
    stretch s = {.op = op,
                 .gain = gain,
                 .bias = bias,
                 .one = op->kind == RS_NORM_RMSNORM_PLUS_ONE,
                 .centred = scratch,
                 .row = scratch + op->dim,
                 .power = rs_power_of_two(*r->e),
                 .inverse = 1,
                 .down = 1};
    bool whole = op->dim == r->d;
    double *c = coefficients(r);
    int64_t left = scale_of_norm(r, &s);
    if (c && whole && !bias && norm_directions(r, &s, c)) {
        if (r->scale) *r->scale = left;
        return;
    }
    if (c) {
        rs_residual_level(r, scratch);
        left = scale_of_norm(r, &s);
    }
    s.power = rs_power_of_two(*r->e);
    if (!whole) s.inverse = rs_power_of_two(-*r->e);
    if (bias) s.down = rs_power_of_two(left);
    for (int64_t at = 0; at < r->d; at += op->dim)
        norm_stretch(r, &s, at);
    if (whole && s.s0 == 0) *r->e = 0;
    if (s.lost > 0 && r->rounding) {
        double size = frobenius(r->m, r->n * r->d), own = sqrt(s.lost * (double)op->dim);
        share_rounding(r, *r->rounding * size + own * rs_power_of_two(-*r->e));
    }
    if (bias) *r->e += left, left = 0;
    if (r->scale) *r->scale = left;
}
