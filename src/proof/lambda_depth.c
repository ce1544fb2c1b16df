/* lambda_depth.c: the tokens behind a stack of branches (lambda_depth.h, statement L29). */
#include "proof/lambda_depth.h"

#include "base/memory.h"
#include "proof/lambda_check.h"
#include "proof/lambda_moments.h"

/* ‖X 2^-exponent‖_F² of rows of d numbers. */
static rs_span square_of(const double *x, int64_t n, int64_t d, int64_t ld, int exponent)
{
    double square = 0, factor = ldexp(1, -exponent);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++) {
            double scaled = x[i * ld + j] * factor;
            square += scaled * scaled;
        }
    /* the scaling may push entries below the range: at most 2^-1074 each, against a largest of 1 */
    double lost = (double)n * (double)d * 0x1p-1000;
    rs_span sum = rs_span_about(square, rs_rounding(n * d + 4), lost);
    sum.low = fmax(sum.low, 0);
    return sum;
}

rs_status rs_lambda_entering_of(rs_lambda_entering *out, const double *x, int64_t n, int64_t d,
                                int64_t ld, rs_error *err)
{
    const rs_lambda_layer layer = {
        .input = x, .branch = x, .n = n, .d = d, .input_ld = ld, .branch_ld = ld};
    RS_TRY(rs_lambda_check_layer(&layer, err));
    double *scratch = rs_malloc((size_t)d, 4 * sizeof *scratch);
    if (!scratch) return rs_fail_memory(err, "tokens that enter", (size_t)d * sizeof *scratch);
    rs_lambda_moments moments;
    rs_lambda_measure_moments(&moments, &layer, scratch);
    rs_free(scratch);
    rs_span square = square_of(x, n, d, ld, moments.scale_x);
    rs_span size = rs_span_sqrt(
        rs_span_div(square, rs_span_mul(rs_span_of((double)n), rs_span_of((double)d))));
    *out = (rs_lambda_entering){0, 0};
    if (!(square.low > 0)) return RS_OK;
    out->relative = fmin(1, fmax(0, rs_span_sqrt(rs_span_div(moments.alpha, square)).low));
    out->size = fmax(0, rs_down(ldexp(size.low, moments.scale_x)));
    return RS_OK;
}

/* One branch more: the product of |λ| from below, and the reach. */
static double add_branch(double reach, double *product, double gain, double skip)
{
    *product = fmax(0, rs_down(*product * fabs(skip)));
    if (gain == 0) return reach;
    return rs_up(reach + rs_up(gain / *product));
}

void rs_lambda_depth_reach(double *reach, const rs_lambda_stack *stack)
{
    double product = 1;
    reach[0] = 0;
    for (int64_t k = 0; k < stack->branches; k++)
        reach[k + 1] = add_branch(reach[k], &product, stack->gain[k], stack->skip[k]);
}

/* √(1 − x²) of x in [0, 1]: (1 − x)(1 + x) does not cancel. */
static rs_span cosine_of(rs_span x)
{
    rs_span one = rs_span_of(1);
    return rs_span_sqrt(rs_span_mul(rs_span_sub(one, x), rs_span_add(one, x)));
}

/* sin(asin ρ − asin t) = ρ√(1 − t²) − t√(1 − ρ²), t = reach/size. It grows with ρ and falls with t,
 * so that ρ rounded down and t rounded up are the worst case. */
rs_lambda_left rs_lambda_depth_left(double reach, const rs_lambda_entering *entering)
{
    rs_lambda_left left = {0, entering->relative > 0 ? 0 : (double)NAN};
    if (!(entering->relative > 0) || !(entering->size > 0)) return left;
    rs_span rho = rs_span_of(entering->relative), turn = rs_span_of(0);
    if (reach > 0) turn = rs_span_div(rs_span_of(reach), rs_span_of(entering->size));
    turn = rs_span_of(rs_span_constant(turn, RS_LAMBDA_DEPTH).high);
    if (!(turn.high < entering->relative)) return left;
    rs_span sine =
        rs_span_sub(rs_span_mul(rho, cosine_of(turn)), rs_span_mul(turn, cosine_of(rho)));
    left.relative = fmax(0, sine.low);
    left.kept = fmax(0, rs_span_div(rs_span_of(left.relative), rho).low);
    return left;
}

/* ---- the half line ---- */

static bool keeps(const rs_lambda_stack *stack, const rs_lambda_depth_wish *wish, double size)
{
    double product = 1, reach = 0;
    bool any = false;
    for (int64_t k = 0; k < stack->branches; k++)
        reach = add_branch(reach, &product, stack->gain[k], wish->swept[k] ? size : stack->skip[k]);
    for (int64_t s = 0; s < wish->samples; s++) {
        if (!(wish->entering[s].relative > 0)) continue;
        if (!(rs_lambda_depth_left(reach, &wish->entering[s]).kept >= wish->kept)) return false;
        any = true;
    }
    return any;
}

/* Only ever lowers `high` to what keeps() has proved: that a larger size keeps no less is L29, not
 * a property of its rounding. */
double rs_lambda_depth_demand(const rs_lambda_stack *stack, const rs_lambda_depth_wish *wish)
{
    double low = 0, high = 0x1p-64;
    while (!keeps(stack, wish, high)) {
        low = high;
        high *= 2;
        if (high > 0x1p400) return (double)INFINITY;
    }
    for (int step = 0; step < 100; step++) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) break;
        if (keeps(stack, wish, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}
