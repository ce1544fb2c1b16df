/* lambda_quadratic.c: the exact set of λ without a norm after the sum (lambda.h 1, statement L1).
 *
 * ‖R(λX + O)‖² = αλ² + 2βλ + γ is a parabola. With b = β/α and C = γ/α − kept², the λ that fall
 * short are those between the roots of λ² + 2bλ + C. All three numbers are enclosed, and the
 * enclosure is solved at the corner that is worst for the claim. */
#include "base/memory.h"
#include "proof/lambda_check.h"
#include "proof/lambda_moments.h"

/* The roots of λ² + 2bλ + C, enclosed: the larger in magnitude first, the other as C divided by it.
 * False when there is certainly none; `real` tells whether there certainly are two. */
static bool roots(rs_span *first, rs_span *second, bool *real, double b, double c)
{
    rs_span half = rs_span_of(b), square = rs_span_square(half);
    rs_span discriminant = rs_span_sub(square, rs_span_of(c));
    if (discriminant.high < 0) return false;
    *real = discriminant.low > 0;
    rs_span root = rs_span_sqrt(discriminant);
    rs_span large = b > 0 ? rs_span_sub(rs_span_of(-b), root) : rs_span_add(rs_span_of(-b), root);
    rs_span small = rs_span_div(rs_span_of(c), large);
    /* Near a double root the quotient may be wider than −2b − large. */
    rs_span other = rs_span_sub(rs_span_mul(rs_span_of(-2), half), large);
    small.low = fmax(small.low, other.low);
    small.high = fmin(small.high, other.high);
    *first = b > 0 ? large : small;
    *second = b > 0 ? small : large;
    return true;
}

/* Where λ² + 2bλ + C < 0 cannot be excluded (outer) or is certain (inner), cut to one side of 0. */
static rs_span between(double b, double c, bool outer, bool positive)
{
    rs_span first, second, none = {NAN, NAN};
    bool real = false;
    if (!roots(&first, &second, &real, b, c) || (!outer && !real)) return none;
    rs_span found = outer ? (rs_span){first.low, second.high} : (rs_span){first.high, second.low};
    if (positive) found.low = fmax(found.low, 0);
    if (!positive) found.high = fmin(found.high, 0);
    return found.low <= found.high ? found : none;
}

static rs_span hull(rs_span a, rs_span b)
{
    if (isnan(a.low)) return b;
    if (isnan(b.low)) return a;
    return (rs_span){fmin(a.low, b.low), fmax(a.high, b.high)};
}

static double unscale(double value, int exponent, bool upwards)
{
    double result = ldexp(value, exponent);
    if (ldexp(result, -exponent) == value) return result;
    return upwards ? rs_up(result) : rs_down(result);
}

static rs_span rescaled(rs_span a, int exponent)
{
    return (rs_span){unscale(a.low, exponent, false), unscale(a.high, exponent, true)};
}

enum { MOST_SHIFT = 480 };

static void solve_quadratic(rs_lambda_quadratic *out, const rs_lambda_moments *m, double kept)
{
    int exponent = m->scale_o - m->scale_x; /* between the scales of γ/α and of λ² */
    /* λ = its scaled value times 2^shift: neither kept² nor γ/α may leave the range of doubles. */
    int shift = exponent < -MOST_SHIFT  ? -MOST_SHIFT
                : exponent > MOST_SHIFT ? MOST_SHIFT
                                        : exponent;
    int rest_of = exponent - shift;
    /* kept² in the scale of γ/α. */
    rs_span wanted = rs_span_square(rs_span_constant(rs_span_of(kept), RS_LAMBDA_QUADRATIC));
    wanted =
        (rs_span){unscale(wanted.low, -2 * shift, false), unscale(wanted.high, -2 * shift, true)};
    rs_span b = rescaled(rs_span_div(m->beta, m->alpha), rest_of);
    rs_span c = rs_span_sub(rescaled(rs_span_div(m->gamma, m->alpha), 2 * rest_of), wanted);
    /* For λ ≥ 0 a smaller b is worse, for λ ≤ 0 a larger one. */
    rs_span outer = hull(between(b.low, c.low, true, true), between(b.high, c.low, true, false));
    rs_span inner =
        hull(between(b.high, c.high, false, true), between(b.low, c.high, false, false));
    /* λ = 0 meets it when C ≥ 0; a root that only touches 0 from outside rounding is no failure. */
    if (!isnan(outer.low) && outer.low == outer.high && c.low >= 0) outer = (rs_span){NAN, NAN};

    out->low = unscale(outer.low, shift, false);
    out->high = unscale(outer.high, shift, true);
    out->fails_low = unscale(inner.low, shift, true);
    out->fails_high = unscale(inner.high, shift, false);
    bool zero_serves = isnan(outer.low) || c.low >= 0 || outer.low > 0 || outer.high < 0;
    out->smallest = zero_serves ? 0 : -out->low < out->high ? out->low : out->high;
    if (isinf(out->smallest)) out->smallest = NAN;
    double b_middle = m->beta_middle / m->alpha_middle;
    double rest = m->gamma_middle / m->alpha_middle - b_middle * b_middle;
    out->worst = ldexp(-b_middle, exponent);
    out->worst_kept = ldexp(sqrt(fmax(rest, 0)), exponent);
    if (isnan(outer.low))
        out->margin = 0;
    else if (isnan(inner.low))
        out->margin = 0.5 * (out->high - out->low);
    else
        out->margin = 0.5 * fmax(out->fails_low - out->low, out->high - out->fails_high);
}

rs_status rs_lambda_quadratic_set(rs_lambda_quadratic *out, const rs_lambda_layer *layer,
                                  double kept, rs_error *err)
{
    *out = (rs_lambda_quadratic){.low = NAN,
                                 .high = NAN,
                                 .fails_low = NAN,
                                 .fails_high = NAN,
                                 .worst = NAN,
                                 .worst_kept = NAN,
                                 .opposition = NAN};
    RS_TRY(rs_lambda_check_layer(layer, err));
    RS_TRY(rs_lambda_check_kept(kept, (double)INFINITY, err));
    double *scratch = rs_malloc((size_t)layer->d, 4 * sizeof *scratch);
    if (!scratch) return rs_fail_memory(err, "the centred rows of a layer", 0);
    rs_lambda_moments m;
    rs_lambda_measure_moments(&m, layer, scratch);
    rs_free(scratch);

    out->alpha = ldexp(m.alpha_middle, 2 * m.scale_x);
    out->beta = ldexp(m.beta_middle, m.scale_x + m.scale_o);
    out->gamma = ldexp(m.gamma_middle, 2 * m.scale_o);
    double product = sqrt(m.alpha_middle) * sqrt(m.gamma_middle);
    if (product > 0) out->opposition = fmax(-1, fmin(1, m.beta_middle / product));
    out->trivial = m.equal;
    if (!m.equal) solve_quadratic(out, &m, kept);
    return RS_OK;
}
