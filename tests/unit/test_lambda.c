/* test_lambda.c: skip certificates against 50-digit arithmetic
 * (tests/oracle/make_lambda_golden.py), closed forms of the sets, the known
 * false statements of the literature,
 * hostile inputs and lost memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "lambda_support.h"
#include "property.h"

#include <float.h>

/* ---- against 50 digits ---- */

typedef struct golden {
    const json_t *json;
    rs_lambda_layer layer;
    double *x, *o, *gain;
    bool generic;
} golden;

static double *numbers_of(const json_t *array)
{
    size_t n = json_array_size(array);
    double *out = malloc((n + 1) * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        out[i] = json_number_value(json_array_get(array, i));
    return out;
}

static long double sum_of(const json_t *pair)
{
    return (long double)json_number_value(json_array_get(pair, 0)) +
           (long double)json_number_value(json_array_get(pair, 1));
}

static golden read_case(const json_t *json)
{
    golden g = {.json = json};
    const json_t *gain = json_object_get(json, "gain");
    g.x = numbers_of(json_object_get(json, "x"));
    g.o = numbers_of(json_object_get(json, "o"));
    g.gain = json_is_array(gain) ? numbers_of(gain) : NULL;
    bool rms = strcmp(text_of(json, "norm"), "rmsnorm") == 0;
    g.layer = layer_of(g.x, g.o, integer_of(json, "n"), integer_of(json, "d"),
                       rms ? RS_LAMBDA_RMSNORM : RS_LAMBDA_LAYERNORM);
    g.layer.norm.gain = g.gain;
    g.layer.norm.epsilon = expected_of(json, "epsilon");
    g.generic = strcmp(text_of(json, "law"), "generic") == 0;
    return g;
}

static void each_case(void (*check)(const golden *g))
{
    json_t *cases = load_cases(RS_TEST_DATA "/lambda/layers.json", 20);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        golden g = read_case(json_array_get(cases, i));
        check(&g);
        free(g.x);
        free(g.o);
        free(g.gain);
    }
    json_decref(cases);
}

static void check_values(const golden *g)
{
    rs_lambda_arcs *arcs = arcs_of(&g->layer);
    const json_t *lambdas = json_object_get(g->json, "lambdas");
    const json_t *values = json_object_get(g->json, "values");
    for (size_t k = 0; k < json_array_size(lambdas); k++) {
        double lambda = json_number_value(json_array_get(lambdas, k));
        long double truth = sum_of(json_array_get(values, k));
        rs_lambda_value found = rs_lambda_value_at(arcs, lambda);
        if (!(fabsl((long double)found.value - truth) <= (long double)found.error))
            fail_msg("%s at %g: %.17g +- %g, truth %.17Lg", text_of(g->json, "law"), lambda,
                     found.value, found.error, truth);
        if (g->generic) assert_true(found.error < 1e-12);

        /* Targets within 1e-12 of the value: never the wrong answer; decided where d is small. */
        for (int side = -1; side <= 1 && truth > 0; side += 2) {
            double target = (double)(truth * (1 + side * 1e-12L));
            rs_lambda_set set = {0};
            rs_lambda_search search = {target, lambda, lambda, 1e-9, 0, NAN};
            OK(rs_lambda_set_find(&set, arcs, &search, &err));
            rs_lambda_answer answer = answer_at(&set, lambda);
            assert_int_not_equal(answer, side < 0 ? RS_LAMBDA_NO : RS_LAMBDA_YES);
            if (g->generic && g->layer.n * g->layer.d < 20 && fabs(lambda) < 1e6)
                assert_int_not_equal(answer, RS_LAMBDA_UNKNOWN);
            rs_lambda_set_free(&set);
        }
    }
    long double input = sum_of(json_object_get(g->json, "input"));
    rs_lambda_value found = rs_lambda_input_value(arcs);
    assert_true(fabsl((long double)found.value - input) <= (long double)found.error);
    rs_lambda_arcs_close(arcs);
}

static void values_lie_within_their_error(void **state)
{
    (void)state;
    each_case(check_values);
}

/* kept a hair below and above what λ = 1.75 keeps: 1.75 must not be on the wrong side. */
static void check_boundary(const golden *g, const json_t *expected)
{
    long double truth = sum_of(json_object_get(expected, "kept_at_1.75"));
    for (int side = -1; side <= 1; side += 2) {
        double kept = (double)(truth * (1 + side * 1e-12L));
        rs_lambda_quadratic set;
        OK(rs_lambda_quadratic_set(&set, &g->layer, kept, &err));
        bool yes = isnan(set.low) || 1.75 <= set.low || 1.75 >= set.high;
        bool no = set.fails_low <= 1.75 && 1.75 <= set.fails_high;
        if (side < 0 ? no : yes) fail_msg("%s: wrong within 1e-12", text_of(g->json, "law"));
        if (g->generic) assert_true(side < 0 ? yes : no);
    }
}

static void check_quadratic(const golden *g)
{
    const json_t *expected = json_object_get(g->json, "quadratic");
    rs_lambda_quadratic set;
    OK(rs_lambda_quadratic_set(&set, &g->layer, expected_of(g->json, "kept"), &err));
    assert_int_equal(set.trivial, json_is_true(json_object_get(expected, "trivial")));
    if (set.trivial) return;
    is_near("worst", set.worst, expected_of(expected, "worst"), 1e-9);
    assert_near("worst_kept", set.worst_kept, expected_of(expected, "worst_kept"), 1e-9, 1e-9);
    is_near("opposition", set.opposition, expected_of(expected, "opposition"), 1e-9);
    const json_t *low = json_object_get(expected, "low"), *high = json_object_get(expected, "high");
    if (json_is_null(low)) {
        assert_true(isnan(set.fails_low));
        assert_true(isnan(set.low));
        assert_true(set.smallest == 0);
    } else {
        long double first = sum_of(low), second = sum_of(high);
        assert_true((long double)set.low <= first && (long double)set.high >= second);
        assert_true((long double)set.fails_low >= first && (long double)set.fails_high <= second);
        assert_true((double)(second - first) * 1e-6 > set.margin);
        bool inside = first < 0 && second > 0;
        double nearest = fabs(set.low) < fabs(set.high) ? set.low : set.high;
        assert_true(set.smallest == (inside ? nearest : 0));
    }
    check_boundary(g, expected);
}

static void the_quadratic_set_encloses_its_roots(void **state)
{
    (void)state;
    each_case(check_quadratic);
}

/* side −1: rounded down; +1: rounded up. */
static void check_fact(const golden *g, const char *name, double got, int side)
{
    const json_t *pair = json_object_get(json_object_get(g->json, "facts"), name);
    if (!json_is_array(pair)) return;
    long double truth = sum_of(pair);
    bool right = side < 0 ? (long double)got <= truth : (long double)got >= truth;
    bool near = fabsl((long double)got - truth) <=
                1e-6L * fabsl(truth); /* tokens equal to 1e-6 lose as much */
    if (!right || !near)
        fail_msg("%s %s: %.17g, truth %.17Lg", text_of(g->json, "law"), name, got, truth);
}

static void check_facts(const golden *g)
{
    rs_lambda_facts facts;
    OK(rs_lambda_facts_of(&facts, &g->layer, &err));
    check_fact(g, "diversity", facts.diversity, -1);
    check_fact(g, "diversity", facts.diversity_most, 1);
    check_fact(g, "branch_diversity", facts.branch_diversity, 1);
    check_fact(g, "row_gain", facts.row_gain, 1);
    check_fact(g, "row_ratio", facts.row_ratio, 1);
    check_fact(g, "smallest_row", facts.smallest_row, -1);
    check_fact(g, "largest_branch", facts.largest_branch, 1);
    check_fact(g, "unit_diversity", facts.unit_diversity, -1);
    const json_t *known = json_object_get(json_object_get(g->json, "facts"), "row_ratio");
    if (json_is_null(known)) assert_true(isinf(facts.row_ratio));
}

static void facts_are_rounded_to_the_safe_side(void **state)
{
    (void)state;
    each_case(check_facts);
}

/* ---- closed forms ---- */

/* T4 to T9. RMSNorm over √d is the unit row. */
static void the_swapped_pair_has_its_closed_forms(void **state)
{
    (void)state;
    rs_lambda_layer layer = layer_of(IDENTITY, SWAP, 2, 2, RS_LAMBDA_RMSNORM);
    rs_lambda_quadratic set;
    OK(rs_lambda_quadratic_set(&set, &layer, 0.5, &err));
    is_near("alpha", set.alpha, 1, 1e-15);
    is_near("beta", set.beta, -1, 1e-15);
    is_near("gamma", set.gamma, 1, 1e-15);
    is_near("low", set.low, 0.5, 1e-13);
    is_near("high", set.high, 1.5, 1e-13);
    assert_true(set.smallest == 0);
    is_near("worst", set.worst, 1, 1e-15);
    is_near("opposition", set.opposition, -1, 1e-15);

    rs_lambda_arcs *arcs = arcs_of(&layer);
    is_near("T6", rs_lambda_value_at(arcs, 5).value, 4 / sqrt(26), 1e-14);
    rs_lambda_half_lines half = rs_lambda_half_line_set(arcs, 0.5, 1e-14);
    is_near("T8", half.positive, 15 / sqrt(31), 1e-11);
    assert_true(half.positive >= 15 / sqrt(31));
    rs_lambda_search search = {0.5, -INFINITY, INFINITY, 1e-11, 0, NAN};
    rs_lambda_set found = {0};
    OK(rs_lambda_set_find(&found, arcs, &search, &err));
    is_near("T9", found.all_above, (4 + sqrt(7)) / 3, 1e-10);
    assert_true(found.all_above >= (4 + sqrt(7)) / 3);
    /* T7: what the half line's chord leaves at λ = 5 */
    half = rs_lambda_half_line_set(arcs, 1 - 2 * sqrt(2) * sin(atan(0.2) / 2), 1e-14);
    is_near("T7", 1 - 2 * sqrt(2) * sin(atan(0.2) / 2), 0.721293528535, 1e-11);
    is_near("T7", half.positive, 5, 1e-10);
    assert_int_equal(answer_at(&found, 1), RS_LAMBDA_NO);
    assert_int_equal(answer_at(&found, 1e300), RS_LAMBDA_YES);
    rs_lambda_set_free(&found);
    rs_lambda_arcs_close(arcs);
}

/* T32: rows of unequal length that are parallel. The norm makes them equal, though the spread times
 * the least of its factors is .4714. */
static void parallel_rows_become_equal(void **state)
{
    (void)state;
    const double z[] = {1, 0, 3, 0}, zero[4] = {0};
    rs_lambda_layer layer = layer_of(z, zero, 2, 2, RS_LAMBDA_RMSNORM);
    rs_lambda_arcs *arcs = arcs_of(&layer);
    is_near("T32", rs_lambda_input_value(arcs).value * sqrt(2) / 3, 0.471404520791, 1e-11);
    rs_lambda_value now = rs_lambda_value_at(arcs, 1);
    assert_true(now.value <= now.error && now.error < 1e-13);
    rs_lambda_arcs_close(arcs);
}

/* y_i ∝ u(λI + m_iW)^−1 with m = (1, −1): one layer takes all of μ at whatever λ the tokens were made
 * for (src/lab/one_layer_collapse.c). Nothing is certified to keep any of it there. */
static void a_total_collapse_is_certified_by_nothing(void **state)
{
    (void)state;
    for (double lambda = 3; lambda < 2000; lambda *= 4) {
        double x[6], o[6], square = lambda * lambda + 1;
        for (int i = 0; i < 2; i++) {
            double m = i ? -1 : 1, *y = x + 3 * i, length = 0;
            y[0] = 0.6 * lambda / square, y[1] = -0.6 * m / square, y[2] = 0.8 / (lambda + m / 2);
            for (int j = 0; j < 3; j++)
                length += y[j] * y[j] / 3;
            for (int j = 0; j < 3; j++)
                y[j] /= sqrt(length);
            o[3 * i] = -m * y[1], o[3 * i + 1] = m * y[0], o[3 * i + 2] = m * y[2] / 2;
        }
        rs_lambda_layer layer = layer_of(x, o, 2, 3, RS_LAMBDA_RMSNORM);
        rs_lambda_arcs *arcs = arcs_of(&layer);
        rs_lambda_value before = rs_lambda_input_value(arcs),
                        now = rs_lambda_value_at(arcs, lambda);
        assert_true(before.value > 0.3 / lambda && now.value - now.error <= 0);
        double target = 1e-6 * before.value;
        rs_lambda_search search = {target, -INFINITY, INFINITY, 1e-3, 0, NAN};
        rs_lambda_set found = {0};
        OK(rs_lambda_set_find(&found, arcs, &search, &err));
        assert_true(answer_at(&found, lambda) != RS_LAMBDA_YES);
        assert_true(rs_lambda_half_line_set(arcs, target, 1e-9).positive > lambda);
        rs_lambda_facts facts;
        OK(rs_lambda_facts_of(&facts, &layer, &err));
        rs_lambda_wish wish = {.kept = 1e-6,
                               .layers = 1,
                               .row_gain = facts.row_gain,
                               .lipschitz = facts.branch_diversity / facts.diversity,
                               .published = 1};
        rs_lambda_number a = rs_lambda_theorem_a(&facts, &wish);
        rs_lambda_number b = rs_lambda_theorem_b(&facts, &wish);
        rs_lambda_number one = rs_lambda_theorem_a_layer(&facts, 1e-6);
        assert_true(!a.valid || a.value > lambda);
        assert_true(!b.valid || b.value > lambda);
        assert_true(!one.valid || one.value > lambda);
        rs_lambda_set_free(&found);
        rs_lambda_arcs_close(arcs);
    }
}

/* T19, T20: P = [[1, 0], [½, ½]], W = I, λ = 2. */
static void a_causal_pair_has_its_closed_forms(void **state)
{
    (void)state;
    const double branch[] = {1, 0, 0.5, 0.5};
    rs_lambda_layer layer = layer_of(IDENTITY, branch, 2, 2, RS_LAMBDA_RMSNORM);
    rs_lambda_quadratic set;
    OK(rs_lambda_quadratic_set(&set, &layer, 2.5, &err));
    is_near("T19", set.high, 2, 1e-13);
    rs_lambda_arcs *arcs = arcs_of(&layer);
    is_near("T20", rs_lambda_value_at(arcs, 2).value, sqrt(1 - 1 / sqrt(26)), 1e-14);
    rs_lambda_arcs_close(arcs);
}

/* ---- statements known to be false as published ---- */

/* docs/theory/corrections.md, 1: with A_1 by cancellation every λ ≥ 1 + 3e-13 would be certified
 * for 0.99. */
static void a_row_that_nearly_cancels_is_not_lost(void **state)
{
    (void)state;
    const double x[] = {1, 0, 0, 1}, o[] = {-1, 1e-9, 0, 1};
    rs_lambda_layer layer = layer_of(x, o, 2, 2, RS_LAMBDA_RMSNORM);
    rs_lambda_arcs *arcs = arcs_of(&layer);
    rs_lambda_value there = rs_lambda_value_at(arcs, 1 + 3e-13);
    assert_near("value", there.value, 3e-4 / sqrt(2), 0.01, there.error);
    assert_true(there.value + there.error < 0.01);
    rs_lambda_half_lines half = rs_lambda_half_line_set(arcs, 0.99, 1e-15);
    assert_true(half.positive > 1 + 1e-8);
    rs_lambda_set set = {0};
    rs_lambda_search search = {0.99, 0.5, 2, 1e-13, 0, NAN};
    OK(rs_lambda_set_find(&set, arcs, &search, &err));
    assert_int_not_equal(answer_at(&set, 1 + 3e-13), RS_LAMBDA_YES);
    rs_lambda_set_free(&set);
    rs_lambda_arcs_close(arcs);
}

/* docs/theory/corrections.md, 3: gain (1, .01), tokens at ±0.3 rad, no branch: a norm alone loses
 * μ, whatever λ. */
static void a_gain_can_collapse_without_a_branch(void **state)
{
    (void)state;
    const double r = sqrt(2), gain[] = {1, 0.01}, zero[4] = {0};
    const double x[] = {r * cos(0.3), 0.01 * r * sin(0.3), r * cos(0.3), -0.01 * r * sin(0.3)};
    rs_lambda_layer layer = layer_of(x, zero, 2, 2, RS_LAMBDA_RMSNORM);
    layer.norm.gain = gain;
    rs_lambda_arcs *arcs = arcs_of(&layer);
    assert_near("before", rs_lambda_input_value(arcs).value * r, 0.00591, 0, 5e-6);
    assert_near("after", rs_lambda_value_at(arcs, 1e6).value * r, 0.0000619, 0, 5e-8);
    rs_lambda_set set = {0};
    rs_lambda_search search = {
        0.5 * rs_lambda_input_value(arcs).value, 1e-3, INFINITY, 1e-6, 0, NAN};
    OK(rs_lambda_set_find(&set, arcs, &search, &err));
    assert_int_equal(set.n, 1);
    assert_int_equal(set.intervals[0].answer, RS_LAMBDA_NO);
    rs_lambda_set_free(&set);
    rs_lambda_arcs_close(arcs);

    /* λ = 1e-3, ε = 1e-5, no branch: rows of norm √d shrink by 0.3015. */
    const double y[] = {r, 0, 0, r};
    layer = layer_of(y, zero, 2, 2, RS_LAMBDA_RMSNORM);
    layer.norm.epsilon = 1e-5;
    arcs = arcs_of(&layer);
    assert_near("epsilon", rs_lambda_value_at(arcs, 1e-3).value, 0.3015, 0, 5e-5);
    rs_lambda_arcs_close(arcs);
    rs_lambda_facts facts;
    OK(rs_lambda_facts_of(&facts, &layer, &err));
    assert_false(facts.zero_epsilon);
    assert_true(facts.unit_rows);
}

/* ---- hostile inputs ---- */

static void degenerate_layers_have_an_answer(void **state)
{
    (void)state;
    const double same[] = {1, 2, 1, 2}, zero[4] = {0};
    rs_lambda_layer layer = layer_of(same, IDENTITY, 2, 2, RS_LAMBDA_LAYERNORM);
    layer.norm.epsilon = 1e-5;
    rs_lambda_quadratic quadratic;
    OK(rs_lambda_quadratic_set(&quadratic, &layer, 0.5, &err));
    assert_true(quadratic.trivial && isnan(quadratic.low) && quadratic.smallest == 0);
    /* Nothing at all: each norm's output is 0, or undefined where ε is 0. */
    layer = layer_of(zero, zero, 2, 2, RS_LAMBDA_RMSNORM);
    rs_lambda_arcs *arcs = arcs_of(&layer);
    assert_true(rs_lambda_value_at(arcs, 1).error >= 1);
    layer.norm.epsilon = 1e-5;
    OK(rs_lambda_arcs_set(arcs, &layer, &err));
    assert_true(rs_lambda_value_at(arcs, 1).value == 0);
    assert_true(rs_lambda_value_at(arcs, 1).error < 1e-13);
    assert_true(isinf(rs_lambda_value_at(arcs, NAN).error));
    /* One token: μ is 0, so that a positive target is met nowhere and 0 everywhere. */
    layer = layer_of(IDENTITY, SWAP, 1, 2, RS_LAMBDA_RMSNORM);
    OK(rs_lambda_arcs_set(arcs, &layer, &err));
    rs_lambda_set set = {0};
    rs_lambda_search search = {0.1, -INFINITY, INFINITY, 1e-6, 0, NAN};
    OK(rs_lambda_set_find(&set, arcs, &search, &err));
    assert_true(set.n == 1 && set.intervals[0].answer == RS_LAMBDA_NO && isnan(set.smallest));
    search.target = 0;
    OK(rs_lambda_set_find(&set, arcs, &search, &err));
    assert_true(set.n == 1 && set.intervals[0].answer == RS_LAMBDA_YES && set.smallest == 0);
    search.target = NAN;
    assert_int_equal(rs_lambda_set_find(&set, arcs, &search, &err), RS_E_INTERNAL);
    rs_lambda_set_free(&set);
    layer.norm.kind = RS_LAMBDA_NO_NORM;
    assert_int_equal(rs_lambda_arcs_set(arcs, &layer, &err), RS_E_UNSUPPORTED);
    rs_lambda_arcs_close(arcs);
}

/* Entries near the ends of float64: no overflow, and no wrong answer. */
static void extreme_scales_are_survived(void **state)
{
    (void)state;
    static const double scales[] = {1e300, 1e-300, 5e-324, 1};
    for (size_t a = 0; a < 4; a++) {
        for (size_t b = 0; b < 4; b++) {
            double x[4], o[4];
            for (int k = 0; k < 4; k++) {
                x[k] = scales[a] * IDENTITY[k];
                o[k] = scales[b] * SWAP[k];
            }
            rs_lambda_layer layer = layer_of(x, o, 2, 2, RS_LAMBDA_RMSNORM);
            rs_lambda_quadratic quadratic;
            OK(rs_lambda_quadratic_set(&quadratic, &layer, 0.5, &err));
            assert_false(quadratic.trivial);
            rs_lambda_facts facts;
            OK(rs_lambda_facts_of(&facts, &layer, &err));
            rs_lambda_arcs *arcs = arcs_of(&layer);
            rs_lambda_value at = rs_lambda_value_at(arcs, 0);
            assert_true(fabs(at.value - 1) <= at.error);
            at = rs_lambda_value_at(arcs, 1e300);
            double shrink = scales[b] / scales[a] / 1e300; /* μ = |1 − t|/√(1 + t²) */
            double truth = shrink < 1e10 ? fabs(1 - shrink) / sqrt(1 + shrink * shrink) : 1;
            assert_true(fabs(at.value - truth) <= at.error + 1e-12);
            rs_lambda_set set = {0};
            rs_lambda_search search = {0.5, -INFINITY, INFINITY, 1e-6, 0, NAN};
            OK(rs_lambda_set_find(&set, arcs, &search, &err));
            assert_int_not_equal(answer_at(&set, 0), RS_LAMBDA_NO);
            rs_lambda_set_free(&set);
            rs_lambda_arcs_close(arcs);
        }
    }
}

static void what_is_not_finite_is_reported(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        double x[4] = {1, 0, 0, 1}, o[4] = {0}, gain[2] = {1, 1};
        rs_lambda_layer layer = layer_of(x, o, 2, 2, RS_LAMBDA_RMSNORM);
        layer.norm.gain = gain;
        if (k == 0) x[3] = NAN;
        if (k == 1) o[2] = INFINITY;
        if (k == 2) gain[1] = -INFINITY;
        if (k == 3) layer.norm.epsilon = -1;
        rs_lambda_quadratic quadratic;
        rs_lambda_facts facts;
        rs_lambda_arcs *arcs;
        OK(rs_lambda_arcs_open(&arcs, &err));
        assert_int_equal(rs_lambda_quadratic_set(&quadratic, &layer, 0.5, &err), RS_E_INPUT_FORMAT);
        assert_int_equal(rs_lambda_facts_of(&facts, &layer, &err), RS_E_INPUT_FORMAT);
        assert_int_equal(rs_lambda_arcs_set(arcs, &layer, &err), RS_E_INPUT_FORMAT);
        if (k == 0) assert_non_null(strstr(err.what, "token 1, feature 1"));
        if (k == 1) assert_non_null(strstr(err.what, "token 1, feature 0"));
        rs_lambda_arcs_close(arcs);
    }
    rs_lambda_layer empty = layer_of(IDENTITY, SWAP, 0, 2, RS_LAMBDA_RMSNORM);
    rs_lambda_quadratic quadratic;
    assert_int_equal(rs_lambda_quadratic_set(&quadratic, &empty, 0.5, &err), RS_E_INTERNAL);
    empty.n = 2;
    assert_int_equal(rs_lambda_quadratic_set(&quadratic, &empty, NAN, &err), RS_E_INTERNAL);
}

enum { ROWS = 38, WIDE = 8 };

/* μ of rows, and of LayerNorm with one gain of λX + O, in long double. */
static long double spread(const long double *y)
{
    long double total = 0;
    for (int j = 0; j < WIDE; j++) {
        long double mean = 0;
        for (int i = 0; i < ROWS; i++)
            mean += y[i * WIDE + j] / ROWS;
        for (int i = 0; i < ROWS; i++)
            total += (y[i * WIDE + j] - mean) * (y[i * WIDE + j] - mean);
    }
    return sqrtl(total);
}

static long double kept_at(const rs_lambda_layer *layer, double gain, double lambda)
{
    long double x[ROWS * WIDE], y[ROWS * WIDE];
    for (int i = 0; i < ROWS; i++) {
        long double *row = y + i * WIDE, mean = 0, square = 0;
        for (int j = 0; j < WIDE; j++) {
            x[i * WIDE + j] = layer->input[i * WIDE + j];
            row[j] = (long double)lambda * layer->input[i * WIDE + j] + layer->branch[i * WIDE + j];
            mean += row[j] / WIDE;
        }
        for (int j = 0; j < WIDE; j++)
            square += (row[j] - mean) * (row[j] - mean) / WIDE;
        for (int j = 0; j < WIDE; j++)
            row[j] = gain * (row[j] - mean) / sqrtl(square + (long double)layer->norm.epsilon);
    }
    return spread(y) / spread(x);
}

/* Tokens that differ by a few units of roundoff, so that μ(X) is known to less than itself: no λ is
 * refuted, for how little has to be kept is not known. */
static void a_spread_that_drowns_in_rounding_refutes_nothing(void **state)
{
    (void)state;
    const double kept = 0.9, gain = 1e-6;
    double x[ROWS * WIDE], o[ROWS * WIDE], gains[WIDE], base[WIDE];
    int drowned = 0, enough = 0;
    for (int t = property_start(400, 29000000); property_next(&t);) {
        rs_random random = property_random();
        double size = pow(10, -11 + 5 * rs_random_uniform(&random));
        for (int j = 0; j < WIDE; j++)
            base[j] = rs_random_normal(&random), gains[j] = gain;
        for (int i = 0; i < ROWS * WIDE; i++) {
            x[i] = 1 + floor(8 * rs_random_uniform(&random)) * 0x1p-52;
            o[i] = base[i % WIDE] + size * rs_random_normal(&random);
        }
        rs_lambda_layer layer = layer_of(x, o, ROWS, WIDE, RS_LAMBDA_LAYERNORM);
        layer.norm.gain = gains;
        layer.norm.epsilon = 1e-12;
        rs_lambda_arcs *arcs = arcs_of(&layer);
        rs_lambda_value input = rs_lambda_input_value(arcs);
        rs_lambda_search search = {
            kept * (input.value + input.error), -INFINITY, INFINITY, 5e-2, 48,
            kept * (input.value - input.error)};
        rs_lambda_set set = {0};
        OK(rs_lambda_set_find(&set, arcs, &search, &err));
        drowned += input.value <= input.error;
        for (size_t i = 0; i < set.n; i++) {
            double low = fmax(set.intervals[i].low, -100), high = fmin(set.intervals[i].high, 100);
            long double share = kept_at(&layer, gain, 0.5 * (low + high));
            enough += share >= (long double)kept;
            if (set.intervals[i].answer == RS_LAMBDA_NO && low < high)
                assert_true(share < (long double)kept);
        }
        rs_lambda_set_free(&set);
        rs_lambda_arcs_close(arcs);
    }
    print_message("  %d inputs drown, %d intervals keep enough\n", drowned, enough);
    assert_true(drowned > 20 && enough > 20);
}

/* Tokens that differ by 1e-9 beside branches of up to 1e120: what is said of an interval holds at
 * its ends and between them, though rates of rows leave the doubles. */
static void branches_of_any_size_keep_every_answer_true(void **state)
{
    (void)state;
    double x[ROWS * WIDE], o[ROWS * WIDE];
    int yes = 0;
    if (LDBL_MAX_EXP <= DBL_MAX_EXP) skip();
    for (int t = property_start(300, 31000000); property_next(&t);) {
        rs_random random = property_random();
        double size = pow(10, 0.5 * (t % 300));
        for (int i = 0; i < ROWS * WIDE; i++) {
            x[i] = 1 + i % WIDE + 1e-9 * rs_random_normal(&random);
            o[i] = size * rs_random_normal(&random);
        }
        double apart = t % 3 ? pow(10, -14 * rs_random_uniform(&random)) : 0;
        for (int i = WIDE; i < ROWS * WIDE; i++) /* rows that the branch makes alike */
            o[i] = o[i % WIDE] + apart * o[i];
        rs_lambda_layer layer = layer_of(x, o, ROWS, WIDE, RS_LAMBDA_LAYERNORM);
        rs_lambda_arcs *arcs = arcs_of(&layer);
        rs_lambda_value input = rs_lambda_input_value(arcs);
        rs_lambda_search search = {0.9 * (input.value + input.error), -INFINITY, INFINITY, 5e-2, 48,
                                   0.9 * (input.value - input.error)};
        rs_lambda_set set = {0};
        OK(rs_lambda_set_find(&set, arcs, &search, &err));
        for (size_t i = 0; i < set.n; i++) {
            double low = fmax(set.intervals[i].low, -1e290);
            double high = fmin(set.intervals[i].high, 1e290);
            double points[] = {0.5 * low + 0.5 * high, fmin(fmax(0, low), high),
                               0.75 * low + 0.25 * high};
            for (int k = 0; k < 3; k++) {
                long double share = kept_at(&layer, 1, points[k]);
                bool is_yes = set.intervals[i].answer == RS_LAMBDA_YES;
                bool is_no = set.intervals[i].answer == RS_LAMBDA_NO;
                if ((is_yes && share < 0.89L) || (is_no && share > 0.91L))
                    fail_msg("branch %g, [%g, %g] at %g: keeps %Lg", size, low, high, points[k],
                             share);
                yes += is_yes;
            }
        }
        rs_lambda_set_free(&set);
        rs_lambda_arcs_close(arcs);
    }
    assert_true(yes > 20);
}

/* Rows that differ in length alone, by 1e-12: directions are the same, so that no λ of a norm
 * behind the sum keeps what tells them apart; and rows of norm √d that are not centred, which
 * LayerNorm makes equal. */
static void theorems_speak_of_directions(void **state)
{
    (void)state;
    double nearly[8], uncentred[] = {1, 1, -1, -1};
    rs_lambda_facts facts;
    rs_lambda_wish wish = {.kept = 0.9, .layers = 1, .row_gain = 1, .lipschitz = 1};
    for (int i = 0; i < 8; i++)
        nearly[i] = (i % 2 ? 1 : -1) * (1 + i / 2 * 1e-12);
    rs_lambda_layer layer = layer_of(nearly, SWAP, 4, 2, RS_LAMBDA_RMSNORM);
    double branch[8] = {1, 0, 0, 1, 1, 0, 0, 1};
    layer.branch = branch;
    OK(rs_lambda_facts_of(&facts, &layer, &err));
    assert_true(facts.diversity > 0);
    assert_true(isnan(rs_lambda_theorem_a(&facts, &wish).value));
    assert_true(isnan(rs_lambda_theorem_b(&facts, &wish).value));
    layer = layer_of(uncentred, SWAP, 2, 2, RS_LAMBDA_LAYERNORM);
    OK(rs_lambda_facts_of(&facts, &layer, &err));
    assert_false(facts.unit_rows);
    assert_false(rs_lambda_theorem_a(&facts, &wish).valid);
    assert_false(rs_lambda_theorem_b(&facts, &wish).valid);
}

static rs_status everything(void)
{
    rs_lambda_layer layer = layer_of(IDENTITY, SWAP, 2, 2, RS_LAMBDA_RMSNORM);
    rs_lambda_quadratic quadratic;
    rs_lambda_facts facts;
    rs_lambda_arcs *arcs = NULL;
    rs_lambda_set set = {0};
    rs_lambda_search search = {0.5, -10, 10, 1e-6, 0, NAN};
    const double mixing[] = {1, 0.5};
    rs_lambda_consensus given = {.mixing_real = mixing,
                                 .n = 2,
                                 .value_matrix = IDENTITY,
                                 .d = 2,
                                 .lambda = 2,
                                 .heads = 1,
                                 .norm = {.kind = RS_LAMBDA_RMSNORM}};
    rs_lambda_number number;
    rs_status status = rs_lambda_quadratic_set(&quadratic, &layer, 0.5, &err);
    if (status == RS_OK) status = rs_lambda_facts_of(&facts, &layer, &err);
    if (status == RS_OK) status = rs_lambda_arcs_open(&arcs, &err);
    if (status == RS_OK) status = rs_lambda_arcs_set(arcs, &layer, &err);
    if (status == RS_OK) status = rs_lambda_set_find(&set, arcs, &search, &err);
    if (status == RS_OK) status = rs_lambda_consensus_multiplier(&number, &given, &err);
    rs_lambda_set_free(&set);
    rs_lambda_arcs_close(arcs);
    return status;
}

static void lost_memory_is_reported_wherever_it_happens(void **state)
{
    (void)state;
    int64_t before = rs_memory_requests();
    OK(everything());
    int64_t requests = rs_memory_requests() - before;
    assert_true(requests >= 8);
    for (int64_t k = 1; k <= requests; k++) {
        rs_memory_fail_at(k);
        rs_status status = everything();
        rs_memory_fail_at(0);
        assert_int_equal(status, RS_E_NO_MEMORY);
    }
    OK(everything());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_lie_within_their_error),
        cmocka_unit_test(the_quadratic_set_encloses_its_roots),
        cmocka_unit_test(facts_are_rounded_to_the_safe_side),
        cmocka_unit_test(the_swapped_pair_has_its_closed_forms),
        cmocka_unit_test(a_causal_pair_has_its_closed_forms),
        cmocka_unit_test(a_row_that_nearly_cancels_is_not_lost),
        cmocka_unit_test(a_gain_can_collapse_without_a_branch),
        cmocka_unit_test(parallel_rows_become_equal),
        cmocka_unit_test(a_total_collapse_is_certified_by_nothing),
        cmocka_unit_test(degenerate_layers_have_an_answer),
        cmocka_unit_test(extreme_scales_are_survived),
        cmocka_unit_test(a_spread_that_drowns_in_rounding_refutes_nothing),
        cmocka_unit_test(branches_of_any_size_keep_every_answer_true),
        cmocka_unit_test(theorems_speak_of_directions),
        cmocka_unit_test(what_is_not_finite_is_reported),
        cmocka_unit_test(lost_memory_is_reported_wherever_it_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
