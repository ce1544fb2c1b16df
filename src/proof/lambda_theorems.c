/* lambda_theorems.c: the smallest |λ| that each theorem demands (lambda.h 3, statements L6 to L10).
 *
 * Angles never appear: 2 sin(½ asin t) = √(2(1 − √(1 − t²))) = t√(2/(1 + √(1 − t²))) and sin(2 asin
 * s) = 2s√(1 − s²), so that every bound is made of operations that IEEE 754 rounds correctly. */
#include "proof/lambda_span.h"

#include <stddef.h>

/* ---- hypotheses ---- */

typedef enum needs {
    NEEDS_NORM = 1,
    NEEDS_NO_NORM = 2,
    NEEDS_PLAIN_NORM = 4, /* gain 1, bias 0, ε = 0 */
    NEEDS_UNIT_ROWS = 8,
    NEEDS_NO_ZERO_ROW = 16,
} needs;

static const char *failed_hypothesis(const rs_lambda_facts *facts, unsigned wanted)
{
    const struct {
        unsigned need;
        bool holds;
        const char *text;
    } table[] = {
        {NEEDS_NORM, facts->normed, "a norm after the sum (post-norm)"},
        {NEEDS_NO_NORM, !facts->normed, "no norm after the sum (pre-norm)"},
        {NEEDS_PLAIN_NORM, facts->unit_gain, "every norm gain is 1"},
        {NEEDS_PLAIN_NORM, facts->zero_bias, "every norm bias is 0"},
        {NEEDS_PLAIN_NORM, facts->zero_epsilon, "the norm's epsilon is 0"},
        {NEEDS_UNIT_ROWS, facts->unit_rows, "every token of the input has norm sqrt(d)"},
        {NEEDS_NO_ZERO_ROW, facts->smallest_row > 0, "no token of the input is zero"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if ((table[i].need & wanted) && !table[i].holds) return table[i].text;
    }
    return NULL;
}

static rs_lambda_number number(double value, const char *failed)
{
    return (rs_lambda_number){value, !failed && !isnan(value), failed};
}

static rs_lambda_number no_number(const char *failed)
{
    return (rs_lambda_number){NAN, false, failed};
}

static const char wish_text[] = "0 < kept < 1 and at least one layer";
static const char diverse_text[] = "the tokens of the input differ";
static const char gain_text[] = "a bound on the branch's rows";
static const char spare_text[] = "the norm without the branch leaves more than kept of mu(X)";

static bool wish_holds(const rs_lambda_wish *wish)
{
    return wish->kept > 0 && wish->kept < 1 && wish->layers >= 1;
}

/* `from` less kept^K·`of`: how far the diversity may fall. */
static rs_span allowance(const rs_lambda_wish *wish, double from, double of)
{
    rs_span left = rs_span_power(rs_span_of(wish->kept), wish->layers);
    return rs_span_sub(rs_span_of(from), rs_span_mul(left, rs_span_of(of)));
}

/* ---- the smallest λ at which a condition that only gets easier certainly holds ---- */

typedef struct condition {
    bool (*holds)(const struct condition *self, double lambda); /* certainly */
    double start;                                               /* below it the condition fails */
    double gain, factor, kept, allowed;
    double off, spread; /* unit_off; over the diversity */
} condition;

static double smallest(const condition *wanted)
{
    double low = wanted->start, high = fmax(2 * low, 0x1p-1000); /* any start: holds() proves */
    while (!wanted->holds(wanted, high)) {
        low = high;
        high *= 2;
        if (isinf(high)) return (double)INFINITY;
    }
    for (int step = 0; step < 2200; step++) {
        double middle = low > 0 && high > 4 * low ? sqrt(low) * sqrt(high) : low + (high - low) / 2;
        if (middle <= low || middle >= high) break;
        if (wanted->holds(wanted, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* ---- theorem A ---- */

/* c/(2s√(1 − s²) − off): the |λ| at which κ(c/|λ| + off) is 2s. */
static double demand_for_drift(double gain, rs_span half_drift, double off,
                               rs_lambda_constant constant)
{
    rs_span rest = rs_span_sub(rs_span_of(1), rs_span_square(half_drift));
    rs_span sine = rs_span_mul(rs_span_mul(rs_span_of(2), half_drift), rs_span_sqrt(rest));
    if (off > 0) sine = rs_span_sub(sine, rs_span_of(off));
    if (!(sine.low > 0)) return (double)INFINITY;
    return rs_span_constant(rs_span_div(rs_span_of(gain), sine), constant).high;
}

rs_lambda_number rs_lambda_theorem_a(const rs_lambda_facts *facts, const rs_lambda_wish *wish)
{
    if (!wish_holds(wish)) return no_number(wish_text);
    if (!(wish->row_gain >= 0)) return no_number(gain_text);
    const char *failed = failed_hypothesis(facts, NEEDS_NORM | NEEDS_PLAIN_NORM | NEEDS_UNIT_ROWS);
    if (!(facts->diversity > 0)) return no_number(diverse_text);
    /* rows of norm √d to unit_off: the theorem is about √d rn(X), and the rest joins the branch */
    rs_span spare =
        allowance(wish, fmin(facts->unit_diversity, facts->diversity_most), facts->diversity_most);
    if (!(spare.low > 0)) return no_number(failed ? failed : spare_text);
    rs_span half = rs_span_div(spare, rs_span_of(2 * (double)wish->layers));
    half.low = fmin(half.low, 0.70710678); /* κ ≤ √2: beyond a right angle nothing is known */
    half.high = fmin(half.high, 0.70710679);
    double value = demand_for_drift(wish->row_gain, half, facts->unit_off, RS_LAMBDA_THEOREM_A);
    return isinf(value) ? no_number(failed ? failed : spare_text) : number(value, failed);
}

rs_lambda_number rs_lambda_theorem_a_layer(const rs_lambda_facts *facts, double kept)
{
    rs_lambda_wish wish = {.kept = kept, .layers = 1};
    const char *failed = failed_hypothesis(facts, NEEDS_NORM | NEEDS_NO_ZERO_ROW);
    if (failed) return no_number(failed);
    if (!wish_holds(&wish)) return no_number(wish_text);
    if (!(facts->unit_diversity > 0)) return no_number(diverse_text);
    /* what the norm alone leaves beyond the wanted share of μ(X) is what the turn may take */
    rs_span wanted = rs_span_mul(rs_span_of(kept), rs_span_of(facts->diversity_most));
    rs_span spare = rs_span_sub(rs_span_of(facts->unit_diversity), wanted);
    if (!(spare.low > 0)) return no_number(spare_text);
    rs_span half = rs_span_div(spare, rs_span_mul(rs_span_of(2), rs_span_of(facts->largest_gain)));
    /* A drift of √2 is the most that one right angle makes; beyond it the bound says nothing. */
    half.low = fmin(half.low, 0.70710678);
    half.high = fmin(half.high, 0.70710679);
    return number(demand_for_drift(facts->row_ratio, half, 0, RS_LAMBDA_THEOREM_A_LAYER), NULL);
}

/* ---- theorem B ---- */

/* a + b·λ. */
static rs_span more(double a, double b, double lambda)
{
    rs_span sum = rs_span_of(a);
    return b > 0 ? rs_span_add(sum, rs_span_mul(rs_span_of(b), rs_span_of(lambda))) : sum;
}

/* 1 − L/√(λ² − c²) ≥ kept(1 + c/λ), where c and L have what rows miss of norm √d added to them:
 * that much of λX counts as a part of the branch. */
static bool theorem_b_holds(const condition *self, double lambda)
{
    rs_span at = rs_span_of(lambda), one = rs_span_of(1);
    rs_span gain = more(self->gain, self->off, lambda);
    rs_span root = rs_span_sqrt(rs_span_mul(rs_span_sub(at, gain), rs_span_add(at, gain)));
    if (!(root.low > 0)) return false;
    rs_span lipschitz =
        rs_span_constant(more(self->factor, self->spread, lambda), RS_LAMBDA_THEOREM_B_LIPSCHITZ);
    rs_span left = rs_span_sub(one, rs_span_div(lipschitz, root));
    rs_span stretch = rs_span_constant(rs_span_div(gain, at), RS_LAMBDA_THEOREM_B_STRETCH);
    rs_span right = rs_span_mul(rs_span_of(self->kept), rs_span_add(one, stretch));
    return left.low >= right.high;
}

rs_lambda_number rs_lambda_theorem_b(const rs_lambda_facts *facts, const rs_lambda_wish *wish)
{
    if (!wish_holds(wish)) return no_number(wish_text);
    if (!(wish->row_gain >= 0)) return no_number(gain_text);
    if (!(wish->lipschitz >= 0)) return no_number("a bound on mu(O)/mu(X)");
    const char *failed = failed_hypothesis(facts, NEEDS_NORM | NEEDS_PLAIN_NORM | NEEDS_UNIT_ROWS);
    if (!(facts->unit_diversity > 0)) return no_number(failed ? failed : diverse_text);
    /* of √d rn(X), the state that the theorem is about: μ(X) is `ratio` times as large at most */
    rs_span ratio = rs_span_of(1), spread = rs_span_of(0);
    if (facts->unit_off > 0) {
        rs_span unit = rs_span_of(facts->unit_diversity);
        ratio.high = fmax(1, rs_span_div(rs_span_of(facts->diversity_most), unit).high);
        spread = rs_span_div(rs_span_of(facts->unit_off), unit);
    }
    condition wanted = {.holds = theorem_b_holds,
                        .start = wish->row_gain,
                        .gain = wish->row_gain,
                        .factor = rs_span_mul(rs_span_of(wish->lipschitz), ratio).high,
                        .kept = rs_span_mul(rs_span_of(wish->kept), ratio).high,
                        .off = facts->unit_off,
                        .spread = spread.high};
    double value = smallest(&wanted);
    return isinf(value) ? no_number(failed ? failed : spare_text) : number(value, failed);
}

/* ---- theorem D ---- */

/* s·b/((|λ| − 1) − b), b = B/q, s the chord over the sine of the largest angle. */
static double drift_forever(double ratio, double lambda, bool published)
{
    rs_span b = rs_span_of(ratio), at = rs_span_of(lambda), one = rs_span_of(1);
    rs_span denominator = rs_span_sub(rs_span_sub(at, one), b);
    if (!(denominator.low > 0)) return (double)INFINITY;
    rs_span chord = rs_span_sqrt(rs_span_of(2));
    if (!published) {
        rs_span sine = rs_span_div(b, at);
        rs_span cosine = rs_span_sqrt(rs_span_sub(one, rs_span_square(sine)));
        chord = rs_span_sqrt(rs_span_div(rs_span_of(2), rs_span_add(one, cosine)));
    }
    rs_span drift = rs_span_div(rs_span_mul(chord, b), denominator);
    return rs_span_constant(drift, RS_LAMBDA_THEOREM_D).high;
}

static bool theorem_d_holds(const condition *self, double lambda)
{
    return drift_forever(self->factor, lambda, false) <= self->allowed;
}

/* B/q = c√d/min‖h_i‖, rounded up. */
static double branch_ratio(const rs_lambda_facts *facts, double row_gain)
{
    rs_span root = rs_span_sqrt(rs_span_of((double)facts->d));
    rs_span branch = rs_span_mul(rs_span_of(row_gain), root);
    return rs_span_div(branch, rs_span_of(facts->smallest_row)).high;
}

rs_lambda_number rs_lambda_theorem_d(const rs_lambda_facts *facts, const rs_lambda_wish *wish)
{
    const char *failed = failed_hypothesis(facts, NEEDS_NO_NORM | NEEDS_NO_ZERO_ROW);
    if (!wish_holds(wish)) return no_number(wish_text);
    if (!(wish->row_gain >= 0)) return no_number(gain_text);
    if (!(facts->smallest_row > 0)) return no_number(failed);
    if (!(facts->unit_diversity > 0)) return no_number(diverse_text);
    condition wanted = {.holds = theorem_d_holds,
                        .start = 1,
                        .factor = branch_ratio(facts, wish->row_gain),
                        .allowed =
                            allowance(wish, facts->unit_diversity, facts->unit_diversity).low};
    return number(smallest(&wanted), failed);
}

rs_lambda_number rs_lambda_theorem_d_drift(const rs_lambda_facts *facts, double row_gain,
                                           double lambda, bool published)
{
    const char *failed = failed_hypothesis(facts, NEEDS_NO_NORM | NEEDS_NO_ZERO_ROW);
    if (!(row_gain >= 0)) return no_number(gain_text);
    if (!(facts->smallest_row > 0)) return no_number(failed);
    double drift = drift_forever(branch_ratio(facts, row_gain), fabs(lambda), published);
    if (isinf(drift)) return (rs_lambda_number){drift, false, "(|lambda| - 1) min|h_i| > B"};
    return number(drift, failed);
}

/* ---- as published (arXiv 2410.10609, theorem 4.1) ---- */

static const char *published_hypothesis(const rs_lambda_wish *wish)
{
    if (!wish_holds(wish)) return wish_text;
    if (!(wish->published >= 0)) return "a bound S C_M on the branch";
    return NULL;
}

static const unsigned published_needs = NEEDS_NORM | NEEDS_PLAIN_NORM | NEEDS_UNIT_ROWS;

rs_lambda_number rs_lambda_published_eq7(const rs_lambda_facts *facts, const rs_lambda_wish *wish)
{
    const char *failed = published_hypothesis(wish);
    if (failed) return no_number(failed);
    rs_span one = rs_span_of(1), root = rs_span_of(wish->kept), a = rs_span_square(root);
    rs_span sum = rs_span_mul(rs_span_add(a, root), rs_span_of(wish->published));
    rs_span value = rs_span_div(sum, rs_span_sub(one, a));
    return number(rs_span_constant(value, RS_LAMBDA_PUBLISHED).high,
                  failed_hypothesis(facts, published_needs));
}

rs_lambda_number rs_lambda_published_both(const rs_lambda_facts *facts, const rs_lambda_wish *wish)
{
    const char *failed = published_hypothesis(wish);
    if (failed) return no_number(failed);
    if (!(facts->diversity > 0)) return no_number(diverse_text);
    rs_span one = rs_span_of(1), a = rs_span_square(rs_span_of(wish->kept));
    rs_span c = rs_span_of(wish->published), rest = rs_span_sub(one, a);
    rs_span p =
        rs_span_mul(rs_span_square(rs_span_of(facts->diversity)), rs_span_power(a, wish->layers));
    rs_span linear = rs_span_add(rs_span_mul(p, a), one);
    rs_span product = rs_span_mul(rs_span_mul(rs_span_square(p), a), rest);
    rs_span root = rs_span_sqrt(rs_span_add(rs_span_square(linear), product));
    rs_span value = rs_span_mul(c, rs_span_div(rs_span_add(linear, root), rs_span_mul(p, rest)));
    return number(rs_span_constant(value, RS_LAMBDA_PUBLISHED).high,
                  failed_hypothesis(facts, published_needs));
}

double rs_lambda_published_b(const rs_lambda_facts *facts, const rs_lambda_wish *wish,
                             double lambda)
{
    double a = wish->kept * wish->kept, size = (double)facts->n * (double)facts->d;
    double sum = wish->published + fabs(lambda);
    double difference = lambda * lambda - a * sum * sum;
    if (!(difference > 0)) return NAN;
    double grown = pow(a, -(double)wish->layers);
    return grown * 2 * fabs(lambda) * size * wish->published / difference;
}
