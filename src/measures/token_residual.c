/*
 * token_residual.c: the measures of X = 2^s (1xᵀ + 2^e M) (engine/residual.h), whose size, and that
 * of its residual, may be far below every double. X is measured at s = 0, and what has its size is
 * given that of X in the end. Whatever vanishes with the residual is worked out from M and e; beside its
 * plain value, which is 0 below the range, it has a logarithm.
 *
 * Two more things come from the differences:
 *
 *  - where 2^e |M_i| is below SOMEWHAT_NEAR |x|, rows of length 1: U_i = x/|x| + 2^e D_i by the
 *    difference formula of the norm, in which nothing cancels;
 *  - where it is below NEAR |x|, X's singular values: σ₁ = ‖X‖_F and, of the rest, 2^e times those
 *    of M(I - x̂x̂ᵀ), x̂ = x/|x|, exact but for a share of NEAR²: the columns of M have mean zero, so
 *    that the first correction is of second order.
 */
#include "measures/token_measures.h"

#include "engine/residual.h"
#include "linalg/vector.h"
#include "linalg/workspace.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEAR 1e-5
/* Directions are worked out from the differences as long as no row can be 0. */
#define SOMEWHAT_NEAR 0.25
/* A row that small beside the sample's largest entry is its rounding. */
#define NOTHING (64 * DBL_EPSILON / 2)

typedef struct rooms {
    double *x, *m;   /* [d], [n, d] a copy */
    double *base;    /* [d] the base, scaled */
    double *plain;   /* [n, d] X at s = 0 */
    double *scratch; /* [2 d] */
    int64_t e;
    void *inner; /* of rs_token_measure_f64 */
} rooms;

static void take_rooms(rooms *r, int64_t n, int64_t d, const rs_token_options *options,
                       rs_workspace *space)
{
    r->x = rs_workspace_doubles(space, d);
    r->base = rs_workspace_doubles(space, d);
    r->scratch = rs_workspace_doubles(space, 2 * d);
    r->m = rs_workspace_take(space, (size_t)n, (size_t)d * sizeof *r->m);
    r->plain = rs_workspace_take(space, (size_t)n, (size_t)d * sizeof *r->plain);
    r->inner = rs_workspace_take(space, 1, rs_token_workspace(n, d, options));
}

size_t rs_token_residual_workspace(int64_t n, int64_t d, const rs_token_options *options)
{
    rooms r;
    rs_workspace space = {0};
    if (n < 1 || d < 1) return 0;
    if (rs_token_workspace(n, d, options) == SIZE_MAX) return SIZE_MAX;
    take_rooms(&r, n, d, options, &space);
    return space.used;
}

/* log10(a 2^e); NaN for 0. */
static double log10_of(double a, int64_t e)
{
    return a > 0 ? (double)e * 0.30102999566398119521 + log10(a) : NAN;
}

static double scaled(double a, int64_t e)
{
    return a * rs_power_of_two(e / 2) * rs_power_of_two(e - e / 2);
}

/* What the residual alone says, `own` being the measures of M. */
static void residual_parts(rs_token_measures *out, const rs_token_measures *own, int64_t e)
{
    out->residual_fro = scaled(own->residual_fro, e);
    out->residual_1inf = scaled(own->residual_1inf, e);
    out->diameter = scaled(own->diameter, e);
    out->relative_residual = out->relative_residual_1inf = NAN;
    if (out->norm_fro > 0) {
        out->relative_residual = scaled(own->residual_fro / out->norm_fro, e);
        out->relative_residual_1inf = scaled(own->residual_1inf / out->norm_1inf, e);
    }
    out->at_floor = false;
    out->floor = NAN;
    out->equal = !(own->norm_fro > 0);
    out->beyond = !out->equal && e <= RS_EXPONENT_LEAST;
    if (out->beyond) return;
    out->log10_residual_fro = log10_of(own->residual_fro, e);
    out->log10_residual_1inf = log10_of(own->residual_1inf, e);
    out->log10_diameter = log10_of(own->diameter, e);
    if (!(out->norm_fro > 0)) return;
    out->log10_relative_residual = log10_of(own->residual_fro / out->norm_fro, e);
    out->log10_relative_residual_1inf = log10_of(own->residual_1inf / out->norm_1inf, e);
}

/* Norms of 2^-shift X from its plain numbers. columns: [d]. */
static void norms(rs_token_measures *out, const rs_token_residual *x, int64_t shift,
                  double *columns)
{
    double energy = 0, row = 0, column = 0;
    memset(columns, 0, (size_t)x->d * sizeof *columns);
    for (int64_t i = 0; i < x->n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < x->d; k++) {
            double entry = scaled(x->plain[i * x->d + k], -shift);
            energy += entry * entry;
            sum += fabs(entry);
            columns[k] += fabs(entry);
        }
        row = fmax(row, sum);
    }
    for (int64_t k = 0; k < x->d; k++)
        column = fmax(column, columns[k]);
    out->norm_fro = sqrt(energy);
    out->norm_1inf = sqrt(row) * sqrt(column);
}

static void load_rows(rooms *r, const rs_token_residual *x)
{
    memcpy(r->x, x->base, (size_t)x->d * sizeof *r->x);
    memcpy(r->m, x->residual, (size_t)(x->n * x->d) * sizeof *r->m);
    r->e = x->exponent;
}

/* The rows at length √d. */
static void directions(rs_token_measures *out, rooms *r, const rs_token_residual *x)
{
    const rs_norm_op unit = {.kind = RS_NORM_RMSNORM, .dim = x->d};
    double n = (double)x->n, d = (double)x->d;
    rs_residual rows = {.x = r->x, .m = r->m, .e = &r->e, .n = x->n, .d = x->d};
    load_rows(r, x);
    rs_residual_norm(&rows, &unit, NULL, NULL, r->scratch);
    rs_residual_settle(&rows, r->scratch);
    double spread = rs_dot(r->m, r->m, x->n * x->d) / d;
    out->row_normalised_mu = scaled(sqrt(spread / n), r->e);
    if (x->n < 2) return;
    out->one_minus_cosine = scaled(spread / (n - 1), 2 * r->e);
    out->mean_cosine = 1 - out->one_minus_cosine;
    if (!out->beyond) out->log10_one_minus_cosine = log10_of(spread / (n - 1), 2 * r->e);
}

/* M less its part along x; twice, for what rounding left. */
static void take_out(rooms *r, const rs_token_residual *x)
{
    double square = rs_dot(x->base, x->base, x->d);
    load_rows(r, x);
    for (int twice = 0; twice < 2; twice++)
        for (int64_t i = 0; i < x->n; i++) {
            double *row = r->m + i * x->d, share = rs_dot(row, x->base, x->d) / square;
            for (int64_t k = 0; k < x->d; k++)
                row[k] -= share * x->base[k];
        }
}

/* The spectrum is σ₁ = first and the rest, s_i = 2^e σ_i / σ₁ beside 1. */
static rs_status ranks(rs_token_measures *out, rooms *r, const rs_token_residual *x,
                       const rs_token_options *options, rs_error *err)
{
    rs_token_options inner = *options;
    rs_token_measures rest;
    double first = out->norm_fro, sides = (double)(x->n > x->d ? x->n : x->d);
    take_out(r, x);
    /* 0 asks for the matrix's own threshold; 2^e so small that no threshold is too large */
    inner.threshold = fmax(scaled(sides * 2 * options->epsilon * first, -x->exponent), 1e-300);
    inner.centre = RS_CENTRE_MEAN;
    inner.no_diameter = true;
    RS_TRY(rs_token_measure_f64(&rest, r->m, x->n, x->d, x->d, &inner, r->inner, err));
    double fro = rest.norm_fro / first, sum = rest.norm_fro > 0 ? rest.nuclear_norm / first : 0;
    double s = scaled(sum, x->exponent);
    out->rank1_residual = scaled(fro, x->exponent);
    out->stable_rank = 1 + out->rank1_residual * out->rank1_residual;
    out->stable_rank_gram = out->effective_rank = out->numerical_rank = 1;
    if (!(rest.norm_fro > 0)) return RS_OK;
    double t = scaled(rest.norm_fro / sqrt(rest.stable_rank) / first, x->exponent);
    out->stable_rank_gram = 1 + t * t * t * t * rest.stable_rank_gram;
    out->numerical_rank = 1 + rest.numerical_rank;
    /* H = ln(1+s) - s/(1+s) (ln s - H of the rest) */
    if (s > 0)
        out->effective_rank = exp(log1p(s) - s / (1 + s) * (log(s) - log(rest.effective_rank)));
    return RS_OK;
}

/* The longest row of M beside x. */
static double nearness(const rs_token_residual *x)
{
    double most = 0;
    for (int64_t i = 0; i < x->n; i++)
        most = fmax(most, rs_dot(x->residual + i * x->d, x->residual + i * x->d, x->d));
    return scaled(sqrt(most / rs_dot(x->base, x->base, x->d)), x->exponent);
}

static rs_status of_plain(rs_token_measures *out, const double *rows, const rs_token_residual *x,
                          const rs_token_options *options, rooms *r, rs_error *err)
{
    return rs_token_measure_f64(out, rows, x->n, x->d, x->d, options, r->inner, err);
}

/* The base may have been below every double, where 2^e M is too: what it is beside the residual is
 * not known. */
static bool base_is_lost(const rs_token_residual *x)
{
    enum { DEEP = -900 };
    for (int64_t k = 0; k < x->d; k++)
        if (fabs(x->base[k]) >= DBL_MIN) return false;
    return x->exponent < DEEP;
}

/* Nothing is shared: X is 2^e M. */
static rs_status without_base(rs_token_measures *out, const rs_token_measures *own,
                              const rs_token_residual *x, const rs_token_options *options, rooms *r,
                              rs_error *err)
{
    RS_TRY(of_plain(out, x->residual, x, options, r, err));
    double relative = out->relative_residual, other = out->relative_residual_1inf;
    out->log10_norm_fro = log10_of(out->norm_fro, x->exponent);
    out->norm_fro = scaled(out->norm_fro, x->exponent);
    out->norm_1inf = scaled(out->norm_1inf, x->exponent);
    residual_parts(out, own, x->exponent);
    out->relative_residual = relative;
    out->relative_residual_1inf = other;
    out->log10_relative_residual = log10_of(relative, 0);
    out->log10_relative_residual_1inf = log10_of(other, 0);
    out->log10_one_minus_cosine = log10_of(out->one_minus_cosine, 0);
    return RS_OK;
}

/* Bases whose squares leave the range of doubles are measured at another scale: 2^-shift X, whose
 * base is in `base`. */
static int64_t another_scale(rs_token_residual *y, double *base, const rs_token_residual *x)
{
    enum { SAFE = 200 };
    double top = 0;
    int shift = 0;
    for (int64_t k = 0; k < x->d; k++)
        top = fmax(top, fabs(x->base[k]));
    *y = *x;
    if (!isfinite(top) || top == 0) return 0;
    frexp(top, &shift);
    if (abs(shift) < SAFE) return 0;
    for (int64_t k = 0; k < x->d; k++)
        base[k] = scaled(x->base[k], -shift);
    y->base = base;
    y->exponent = x->exponent - shift;
    return shift;
}

/* What has the size of X, of 2^-shift X so far. */
static void give_back(rs_token_measures *out, int64_t shift)
{
    double *sizes[] = {&out->norm_fro, &out->norm_1inf, &out->residual_fro, &out->residual_1inf,
                       &out->diameter};
    double *logs[] = {&out->log10_norm_fro, &out->log10_residual_fro, &out->log10_residual_1inf,
                      &out->log10_diameter};
    for (size_t i = 0; shift && i < sizeof sizes / sizeof *sizes; i++)
        *sizes[i] = scaled(*sizes[i], shift);
    for (size_t i = 0; shift && i < sizeof logs / sizeof *logs; i++)
        *logs[i] += (double)shift * 0.30102999566398119521;
}

/* X at s = 0, with zeros for rows that the sample's rounding cannot tell from them: such a row has no
 * direction (docs/theory/tokens.md, 4). */
static const double *told_rows(rooms *r, const rs_token_residual *x)
{
    double top = 0;
    for (int64_t i = 0; i < x->n * x->d; i++)
        top = fmax(top, fabs(x->base[i % x->d]) + fabs(scaled(x->residual[i], x->exponent)));
    memmove(r->plain, x->plain, (size_t)(x->n * x->d) * sizeof *r->plain);
    for (int64_t i = 0; i < x->n; i++) {
        double *row = r->plain + i * x->d, own = 0;
        for (int64_t k = 0; k < x->d; k++)
            own = fmax(own, fabs(row[k]));
        if (own <= NOTHING * top) memset(row, 0, (size_t)x->d * sizeof *row);
    }
    return r->plain;
}

/* X at s = 0. */
static rs_status measure_unscaled(rs_token_measures *out, rooms *r, const rs_token_residual *x,
                                  const rs_token_options *options, rs_error *err)
{
    rs_token_measures own;
    rs_token_options centre = *options;
    centre.spectral = false;
    RS_TRY(of_plain(&own, x->residual, x, &centre, r, err));
    bool finite = isfinite(rs_sum_absolute(x->base, x->d)) && own.first_nonfinite < 0;
    if (finite && own.norm_fro > 0 && base_is_lost(x)) {
        rs_token_measures_clear(out, NAN);
        out->norm_fro = out->norm_1inf = 0;
        residual_parts(out, &own, x->exponent);
        return RS_OK;
    }
    if (finite && rs_all_zero(x->base, x->d) && own.norm_fro > 0)
        return without_base(out, &own, x, options, r, err);
    rs_token_residual y;
    int64_t shift = another_scale(&y, r->base, x);
    double near = finite && !rs_all_zero(x->base, x->d) ? nearness(&y) : (double)INFINITY;
    if (!(near < NEAR)) {
        RS_TRY(of_plain(out, finite ? told_rows(r, x) : x->plain, x, options, r, err));
        if (out->first_nonfinite >= 0) return RS_OK;
        residual_parts(out, &own, x->exponent);
        out->log10_norm_fro = log10_of(out->norm_fro, 0);
        out->log10_one_minus_cosine = log10_of(out->one_minus_cosine, 0);
        if (near < SOMEWHAT_NEAR) directions(out, r, &y);
        return RS_OK;
    }
    rs_token_measures_clear(out, NAN);
    norms(out, x, shift, r->scratch);
    out->log10_norm_fro = log10_of(out->norm_fro, 0);
    residual_parts(out, &own, y.exponent);
    directions(out, r, &y);
    if (options->spectral) RS_TRY(ranks(out, r, &y, options, err));
    give_back(out, shift);
    return RS_OK;
}

rs_status rs_token_measure_residual(rs_token_measures *out, const rs_token_residual *x,
                                    const rs_token_options *options, void *workspace, rs_error *err)
{
    rooms r;
    rs_workspace space = {.base = workspace};
    rs_token_residual unscaled = *x;
    take_rooms(&r, x->n, x->d, options, &space);
    if (x->scale != 0) {
        int64_t e = x->exponent;
        const rs_residual rows = {
            .x = (double *)x->base, .m = (double *)x->residual, .e = &e, .n = x->n, .d = x->d};
        rs_residual_plain(r.plain, &rows, 0);
        unscaled.plain = r.plain;
    }
    RS_TRY(measure_unscaled(out, &r, &unscaled, options, err));
    give_back(out, x->scale);
    out->at_floor = x->rounding * RS_TOKEN_FLOOR >= 1;
    if (out->at_floor) out->equal = false;
    return RS_OK;
}
