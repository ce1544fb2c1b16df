/* test_lambda_scan.c: bounds of rows from weights alone, theorem C and the sign rule against
 * 60-digit arithmetic (tests/oracle/make_lambda_scan_golden.py), and the instances at which the
 * literature's forms of them are false (docs/theory/corrections.md, 21 to 26). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lambda_support.h"
#include "proof/lambda_scalar.h"
#include "proof/lambda_scan.h"

#include <float.h>

/* ---- against 60 digits ---- */

static json_t *golden;

static int load_golden(void **state)
{
    json_error_t problem;
    (void)state;
    golden = json_load_file(RS_TEST_DATA "/lambda/scan.json", 0, &problem);
    return golden ? 0 : 1;
}

static int free_golden(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static long double exact(const json_t *item, const char *key)
{
    const json_t *pair = json_object_get(item, key);
    return (long double)json_number_value(json_array_get(pair, 0)) +
           (long double)json_number_value(json_array_get(pair, 1));
}

static bool known(const json_t *item, const char *key)
{
    return json_is_array(json_object_get(item, key));
}

/* Rounded up, and by no more than `most` of it and the least of all doubles. */
static void is_just_above(const char *what, double got, long double truth, double most)
{
    long double room = fabsl(truth) * (long double)most + 1e-323L;
    if (!((long double)got >= truth && (long double)got <= truth + room))
        fail_msg("%s: %.17g, exact %.20Lg", what, got, truth);
}

/* Space for the entries of one case. */
enum { MOST = 64 };

static const double *numbers(double out[MOST], const json_t *item, const char *key)
{
    const json_t *array = json_object_get(item, key);
    assert_true(json_array_size(array) <= MOST);
    for (size_t i = 0; i < json_array_size(array); i++)
        out[i] = json_number_value(json_array_get(array, i));
    return out;
}

/* T25: the bound for A = −1, Δ = ln 2, which T24's row sum .693 + .347 + … stays below. */
static void the_row_sum_has_its_closed_form(void **state)
{
    (void)state;
    is_near("T25", rs_lambda_row_sum(1, log(2), 0), 1.386294361120, 1e-12);
}

static void row_sums_are_rounded_up(void **state)
{
    size_t i;
    const json_t *item;
    (void)state;
    json_array_foreach(json_object_get(golden, "row_sums"), i, item)
    {
        double bound = rs_lambda_row_sum(expected_of(item, "rate"), expected_of(item, "step"),
                                         integer_of(item, "tokens"));
        is_just_above("row sum", bound, exact(item, "bound"), 1e-15);
        assert_true((long double)bound >= exact(item, "attained"));
    }
    assert_true(i >= 45);
}

static void scalars_are_rounded_to_the_safe_side(void **state)
{
    size_t i;
    const json_t *item;
    (void)state;
    json_array_foreach(json_object_get(golden, "scalars"), i, item)
    {
        double x = expected_of(item, "x");
        is_just_above("softplus", rs_lambda_step_most(x, 0, INFINITY), exact(item, "softplus"),
                      1e-15);
        is_just_above("silu", rs_lambda_silu_most(fabs(x)), exact(item, "silu"), 1e-15);
        if (!known(item, "exp")) continue;
        double rate = rs_lambda_rate_least(x);
        long double truth = exact(item, "exp");
        if (!((long double)rate <= truth && (long double)rate >= truth * (1 - 1e-15L)))
            fail_msg("exp(%g): %.17g, exact %.20Lg", x, rate, truth);
    }
    assert_true(i >= 40);
}

static void channels_are_rounded_up(void **state)
{
    size_t i;
    const json_t *item;
    (void)state;
    json_array_foreach(json_object_get(golden, "channels"), i, item)
    {
        double rate[MOST], b[MOST], c[MOST], b_gain[MOST], c_gain[MOST];
        rs_lambda_channel channel = {.state = integer_of(item, "state"),
                                     .rate = numbers(rate, item, "rate"),
                                     .b = {numbers(b, item, "b"), numbers(b_gain, item, "b_gain"),
                                           expected_of(item, "b_length")},
                                     .c = {numbers(c, item, "c"), numbers(c_gain, item, "c_gain"),
                                           expected_of(item, "c_length")},
                                     .step_most = expected_of(item, "step"),
                                     .skip = expected_of(item, "skip"),
                                     .tokens = integer_of(item, "tokens")};
        is_just_above("channel", rs_lambda_channel_sum(&channel), exact(item, "bound"), 1e-13);
    }
    assert_true(i >= 30);
}

static const rs_lambda_facts plain_facts = {.n = 2,
                                            .d = 2,
                                            .diversity = 1,
                                            .diversity_most = 1,
                                            .unit_diversity = 1,
                                            .smallest_row = 1,
                                            .largest_gain = 1,
                                            .normed = true,
                                            .unit_gain = true,
                                            .zero_bias = true,
                                            .zero_epsilon = true,
                                            .unit_rows = true};

static rs_lambda_scalar_layer layer_at(double m[MOST], const json_t *item, int64_t n)
{
    return (rs_lambda_scalar_layer){.mixing = numbers(m, item, "m"),
                                    .n = n,
                                    .ld = n,
                                    .value = expected_of(item, "value"),
                                    .lambda = expected_of(item, "lambda")};
}

static void theorem_c_is_rounded_to_the_safe_side(void **state)
{
    size_t i;
    const json_t *item;
    int valid = 0;
    (void)state;
    json_array_foreach(json_object_get(golden, "theorem_c"), i, item)
    {
        double m[MOST];
        rs_lambda_scalar_layer layer = layer_at(m, item, integer_of(item, "n"));
        rs_lambda_theorem_c found;
        OK(rs_lambda_theorem_c_of(&found, &layer, &plain_facts, &err));
        assert_int_equal(found.kept.valid, known(item, "kept"));
        if (!known(item, "stretch")) {
            assert_true(isnan(found.kept.value) && isnan(found.stretch));
            continue;
        }
        is_just_above("c_Q", found.stretch, exact(item, "stretch"), 1e-12);
        long double lipschitz = exact(item, "lipschitz");
        assert_true((long double)found.lipschitz >= lipschitz);
        assert_true((long double)found.lipschitz <= lipschitz * (1 + 1e-8L) + 1e-14L);
        if (!known(item, "kept")) continue;
        valid++;
        long double kept = exact(item, "kept");
        assert_true((long double)found.kept.value <= kept);
        assert_true((long double)found.kept.value >= kept - 1e-7L * (1 + fabsl(kept)));
    }
    assert_true(valid >= 10);
}

/* Whether a constant that is 5 % too small makes some golden share too large. */
static bool found_out(rs_lambda_constant which)
{
    size_t i;
    const json_t *item;
    bool found = false;
    rs_lambda_scale_constant(which, 0.95);
    json_array_foreach(json_object_get(golden, "theorem_c"), i, item)
    {
        double m[MOST];
        rs_lambda_scalar_layer layer = layer_at(m, item, integer_of(item, "n"));
        rs_lambda_theorem_c c;
        OK(rs_lambda_theorem_c_of(&c, &layer, &plain_facts, &err));
        bool valid = known(item, "kept") && exact(item, "kept") > 0.01L;
        found = found || (valid && (long double)c.kept.value > exact(item, "kept"));
    }
    rs_lambda_scale_constant(which, 1);
    return found;
}

static void constants_of_theorem_c_are_tested_by_value(void **state)
{
    (void)state;
    assert_true(found_out(RS_LAMBDA_THEOREM_C_STRETCH));
    assert_true(found_out(RS_LAMBDA_THEOREM_C_LIPSCHITZ));
}

static void the_sign_rule_has_three_outcomes(void **state)
{
    size_t i, k;
    const json_t *item, *part;
    int met[4] = {0};
    (void)state;
    json_array_foreach(json_object_get(golden, "sign_rule"), i, item)
    {
        double m[4][MOST];
        rs_lambda_scalar_layer layers[4];
        const json_t *parts = json_object_get(item, "layers");
        json_array_foreach(parts, k, part) layers[k] = layer_at(m[k], part, integer_of(item, "n"));
        rs_lambda_sign_rule rule;
        OK(rs_lambda_sign_rule_of(&rule, layers, (int64_t)json_array_size(parts), false, &err));
        assert_null(rule.failed_hypothesis);
        is_near("rate", rule.rate, expected_of(item, "rate"), 1e-12);
        assert_string_equal(rs_lambda_outcome_name(rule.outcome), text_of(item, "outcome"));
        met[rule.outcome]++;
    }
    assert_true(met[RS_LAMBDA_EQUAL] && met[RS_LAMBDA_EQUAL_UP_TO_SIGN] && met[RS_LAMBDA_REPELLED]);
}

/* ---- docs/theory/corrections.md, 21 ---- */

/* 1 − exp(−x) cancels: as printed the bound is 2.22 times too small at x = 5e-17, where 1 − e^−x in
 * doubles is 2^-53, and infinite at a = e^−40, where the sum of 5000 steps of 0.1 is 500. */
static void a_small_rate_does_not_cancel(void **state)
{
    (void)state;
    double x = 5e-17, step = 0.1, rate = x / step;
    double exact_bound = step / x, printed = step / 1.1102230246251565e-16;
    assert_true(rs_lambda_row_sum(rate, step, 0) >= exact_bound * (1 - 1e-15));
    assert_true(rs_lambda_row_sum(rate, step, 0) > 2.2 * printed);
    is_near("5000 tokens", rs_lambda_row_sum(rs_lambda_rate_least(-40), 0.1, 5000), 500, 1e-15);
    is_near("any tokens", rs_lambda_row_sum(rs_lambda_rate_least(-40), 0.1, 0), 2.3538526683702e17,
            1e-13);
    is_near("A = 0", rs_lambda_row_sum(0, 0.1, 5000), 500, 1e-15);
    assert_true(isinf(rs_lambda_row_sum(0, 0.1, 0)));
    assert_true(isinf(rs_lambda_row_sum(-1, 0.1, 0)) && isinf(rs_lambda_row_sum(NAN, 0.1, 5)));
    assert_true(isinf(rs_lambda_row_sum(1, NAN, 5)));
    assert_true(rs_lambda_row_sum(1, 0, 5) == 0);
    assert_true(rs_lambda_rate_least(-1e5) == 0 && isnan(rs_lambda_rate_least(NAN)));
    is_near("T25", rs_lambda_row_sum(1, log(2), 0), 1.386294361120, 1e-12);
}

/* ---- 22 ---- */

/* time_step_limit (1, infinity), softplus at most .1, a = 1: row sums reach 1.58198, which the
 * bound of the unclamped step, 1.0508, is below. */
static void steps_pass_through_their_limits(void **state)
{
    (void)state;
    double before = log(expm1(0.1));
    double step = rs_lambda_step_most(before, 1, INFINITY);
    assert_true(step == 1);
    is_near("clamped", rs_lambda_row_sum(1, step, 0), 1.5819767068693265, 1e-14);
    is_near("unclamped", rs_lambda_row_sum(1, rs_lambda_step_most(before, 0, INFINITY), 0), 1.0508,
            1e-4);
    assert_true(rs_lambda_step_most(INFINITY, 0, 0.5) == 0.5);
    assert_true(isnan(rs_lambda_step_most(NAN, 0, 0.5)));
}

/* ---- 24 ---- */

/* Σ_j|M_ij| where B_j may be any vector of length √n times w: what the page bounds by n max_s|w_s|
 * g_s. */
static long double turning_sum(const double *rate, const double *gain, double step, int tokens)
{
    long double sum = 0;
    for (int j = 0; j < tokens; j++) {
        long double square = 0; /* of Σ_s C_s w_s E_js over s, C = (1, 1), ‖C‖ = √2 */
        for (int s = 0; s < 2; s++) {
            long double part = (long double)gain[s] * expl(-(long double)(rate[s] * step * j));
            square += part * part;
        }
        sum += (long double)step * sqrtl(2) * sqrtl(square); /* B_j along it, ‖B_j‖ = √2 */
    }
    return sum;
}

static double normed_channel(const double *rate, const double *gain, double step)
{
    double most[2] = {sqrt(2) * gain[0] * (1 + 1e-15), sqrt(2) * gain[1] * (1 + 1e-15)};
    double plain[2] = {sqrt(2) * (1 + 1e-15), sqrt(2) * (1 + 1e-15)};
    rs_lambda_channel channel = {.state = 2,
                                 .rate = rate,
                                 .b = {most, gain, plain[0]},
                                 .c = {plain, NULL, plain[0]},
                                 .step_most = step};
    return rs_lambda_channel_sum(&channel);
}

/* With gains of one size the page's n max_s|w_s| g_s is attained (B = C = √n e_s, s the slowest
 * state). With gains of different sizes it is false: B_j may turn from the fast state to the slow
 * one, 1.35 times as much here; the length of (w_s g_s)_s holds. */
static void normed_keys_may_turn(void **state)
{
    (void)state;
    const double rate[2] = {100, 1e-3}, even[2] = {1, 1}, uneven[2] = {100, 1e-3};
    double step = 1e-3, slow = rs_lambda_row_sum(rate[1], step, 0);
    double fast = rs_lambda_row_sum(rate[0], step, 0);
    is_near("one size", normed_channel(rate, even, step), 2 * slow, 1e-13);
    double page = 2 * fmax(uneven[0] * fast, uneven[1] * slow);
    long double truth = turning_sum(rate, uneven, step, 4000000);
    double claimed = normed_channel(rate, uneven, step);
    print_message("docs/theory/corrections.md, 24: true/page %.4Lf, true/claimed %.4Lf\n",
                  truth / (long double)page, truth / (long double)claimed);
    assert_true(truth > 1.3L * (long double)page);
    assert_true(truth <= (long double)claimed);
}

/* ---- 23 ---- */

/* Norm, then gate: what silu(25) multiplies, the norm of W_out diag w does not know. */
static void a_gate_behind_the_norm_counts(void **state)
{
    (void)state;
    double gate = rs_lambda_silu_most(25);
    rs_lambda_rows before = {.map_norm = 1}, behind = {.map_norm = gate};
    rs_lambda_number page = rs_lambda_gain_normed(&before, 16, 4, 1);
    rs_lambda_number own = rs_lambda_gain_normed(&behind, 16, 4, 1);
    is_near("gate before", page.value, 2, 1e-14);
    double row = 4 * 25 / (1 + exp(-25)); /* √16 times the gate along the longest direction */
    assert_true(row / 2 > 24.9 * page.value && row / 2 <= own.value * (1 + 1e-15));
    rs_lambda_rows unknown = {.map_norm = INFINITY};
    assert_false(rs_lambda_gain_normed(&unknown, 16, 4, 1).valid);
    unknown.map_norm = NAN;
    assert_false(rs_lambda_gain_normed(&unknown, 16, 4, 1).valid);
    rs_lambda_rows biased = {.map_norm = 3, .length = 2, .bias = 4};
    is_near("rows", rs_lambda_gain_rows(&biased, 4, -0.5).value, 2.5, 1e-14);
}

/* ---- 25 ---- */

static void rates_are_products_of_rows(void **state)
{
    (void)state;
    /* λ = 1, w = 1: |g_i| = (1 + m_ii)/(1 + s_i) = .9, .1 and .1, .9 */
    double near = 1 / 0.9 - 1, far = 9;
    double odd[9] = {0, 0, 0, near, 0, 0, far, 0, 0}, even[9] = {0, 0, 0, far, 0, 0, near, 0, 0};
    rs_lambda_scalar_layer layers[4];
    for (int k = 0; k < 4; k++)
        layers[k] = (rs_lambda_scalar_layer){
            .mixing = k % 2 ? even : odd, .n = 3, .ld = 3, .value = 1, .lambda = 1};
    rs_lambda_sign_rule rule;
    OK(rs_lambda_sign_rule_of(&rule, layers, 4, false, &err));
    is_near("four layers", rule.rate, 0.0081, 1e-12);
    OK(rs_lambda_sign_rule_of(&rule, layers, 1, false, &err));
    is_near("one layer", rule.rate, 0.9, 1e-12);
    /* local and asymptotic: one layer stretches differences 9.19-fold while the rate is .923 */
    const double m[9] = {0, 0, 0, 0.5, 0, 0, -10, 10.1, 0.2};
    rs_lambda_scalar_layer wild = {.mixing = m, .n = 3, .ld = 3, .value = 1, .lambda = 1};
    OK(rs_lambda_sign_rule_of(&rule, &wild, 1, false, &err));
    is_near("rate", rule.rate, 0.923, 1e-3);
    assert_int_equal(rule.outcome, RS_LAMBDA_EQUAL);
    assert_int_equal(rule.row, 2);
    rs_lambda_theorem_c c; /* and it is not certified to keep, or to lose, anything */
    OK(rs_lambda_theorem_c_of(&c, &wild, &plain_facts, &err));
    assert_false(c.kept.valid);
}

/* ---- 26 ---- */

/* λ = −.75, y₂ = −y₁: μ' = 0, where the formula without its hypothesis on signs keeps .5206 μ. */
static void antipodal_tokens_merge_and_theorem_c_is_silent(void **state)
{
    (void)state;
    const double m[4] = {0.6, 0, 0.1, 1.1};
    rs_lambda_scalar_layer layer = {.mixing = m, .n = 2, .ld = 2, .value = 1, .lambda = -0.75};
    rs_lambda_theorem_c c;
    OK(rs_lambda_theorem_c_of(&c, &layer, &plain_facts, &err));
    assert_false(c.kept.valid);
    assert_string_equal(c.kept.failed_hypothesis,
                        "rows of lambda I + w M whose sums have one sign");
    /* y₁ = 1, y₂ = −1: both rows turn the same way */
    assert_true(-0.75 + 0.6 < 0 && 0.1 - (-0.75 + 1.1) < 0);
    rs_lambda_sign_rule rule;
    OK(rs_lambda_sign_rule_of(&rule, &layer, 1, false, &err));
    assert_int_equal(rule.outcome, RS_LAMBDA_EQUAL_UP_TO_SIGN);
    layer.lambda = -9; /* all below 0 is as good as all above */
    OK(rs_lambda_theorem_c_of(&c, &layer, &plain_facts, &err));
    assert_true(c.kept.valid && c.kept.value > 0.5);
    layer.lambda = -0.6; /* a row that cancels is named */
    OK(rs_lambda_theorem_c_of(&c, &layer, &plain_facts, &err));
    assert_false(c.kept.valid);
    assert_int_equal(c.singular_row, 0);
}

/* The two-token example: a rank of one from λ = −3/2 on, by sign below −1. */
static void two_tokens_have_three_outcomes(void **state)
{
    (void)state;
    const double m[4] = {1, 0, 1, 1};
    const struct {
        double lambda;
        rs_lambda_outcome outcome;
    } cases[] = {
        {1, RS_LAMBDA_EQUAL},       {-0.9, RS_LAMBDA_EQUAL},  {-1.25, RS_LAMBDA_EQUAL_UP_TO_SIGN},
        {-1.6, RS_LAMBDA_REPELLED}, {-3, RS_LAMBDA_REPELLED}, {-1.5, RS_LAMBDA_UNDECIDED}};
    rs_lambda_sign_rule rule;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_lambda_scalar_layer layer = {m, 2, 2, 1, cases[i].lambda, 0};
        OK(rs_lambda_sign_rule_of(&rule, &layer, 1, true, &err));
        assert_int_equal(rule.outcome, cases[i].outcome);
        is_near("rate", rule.rate, fabs((1 + cases[i].lambda) / (2 + cases[i].lambda)), 1e-12);
    }
    rs_lambda_scalar_layer singular[2] = {{m, 2, 2, 1, 1, 0}, {m, 2, 2, 1, -2, 0}};
    OK(rs_lambda_sign_rule_of(&rule, singular, 2, true, &err));
    assert_non_null(rule.failed_hypothesis);
    assert_int_equal(rule.singular_layer, 1);
    assert_int_equal(rule.singular_row, 1);
    assert_int_equal(rule.outcome, RS_LAMBDA_UNDECIDED);
}

/* ---- hypotheses ---- */

static void hypotheses_are_named(void **state)
{
    (void)state;
    const double m[4] = {0.1, 0.2, 0.1, 0.1};
    rs_lambda_scalar_layer layer = {m, 2, 2, 1, 9, 0};
    rs_lambda_sign_rule rule;
    rs_lambda_theorem_c c;
    OK(rs_lambda_sign_rule_of(&rule, &layer, 1, false, &err));
    assert_string_equal(rule.failed_hypothesis, "a causal mixer: M lower triangular");
    rs_lambda_facts facts = plain_facts;
    OK(rs_lambda_theorem_c_of(&c, &layer, &facts, &err));
    assert_true(c.kept.valid);
    double without = c.kept.value;
    layer.epsilon = 1e-5;
    OK(rs_lambda_theorem_c_of(&c, &layer, &facts, &err));
    assert_true(c.kept.valid && c.kept.value < without && c.kept.value > without - 1e-4);
    layer.epsilon = 0;
    facts = plain_facts, facts.unit_gain = false;
    OK(rs_lambda_theorem_c_of(&c, &layer, &facts, &err));
    assert_string_equal(c.kept.failed_hypothesis, "every norm gain is 1");
    facts = plain_facts, facts.normed = false;
    OK(rs_lambda_theorem_c_of(&c, &layer, &facts, &err));
    assert_false(c.kept.valid);
    const double broken[4] = {NAN, 0, 0, 0};
    layer.mixing = broken;
    assert_int_equal(rs_lambda_theorem_c_of(&c, &layer, &plain_facts, &err), RS_E_INPUT_FORMAT);
    OK(rs_lambda_sign_rule_of(&rule, &layer, 1, false, &err));
    assert_non_null(rule.failed_hypothesis);
}

/* The facts that theorems take from a gain alone. */
static void a_gain_stands_for_the_branch(void **state)
{
    (void)state;
    const double x[4] = {3, 4, 0, 10};
    rs_lambda_layer layer = layer_of(x, NULL, 2, 2, RS_LAMBDA_RMSNORM);
    layer.norm.epsilon = 0.5;
    rs_lambda_facts facts;
    OK(rs_lambda_facts_by_gain(&facts, &layer, 2, &err));
    is_near("gain", facts.row_gain, 2, 0);
    is_near("branch", facts.largest_branch, 2 * sqrt(2), 1e-14);
    is_near("ratio", facts.row_ratio, sqrt(8 + 1) / 5, 1e-14);
    is_near("row", facts.smallest_row, 5, 1e-14);
    const double zero[4] = {3, 4, 0, 0};
    layer.input = zero;
    OK(rs_lambda_facts_by_gain(&facts, &layer, 2, &err));
    assert_true(isinf(facts.row_ratio));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_sums_are_rounded_up),
        cmocka_unit_test(the_row_sum_has_its_closed_form),
        cmocka_unit_test(scalars_are_rounded_to_the_safe_side),
        cmocka_unit_test(channels_are_rounded_up),
        cmocka_unit_test(theorem_c_is_rounded_to_the_safe_side),
        cmocka_unit_test(constants_of_theorem_c_are_tested_by_value),
        cmocka_unit_test(the_sign_rule_has_three_outcomes),
        cmocka_unit_test(a_small_rate_does_not_cancel),
        cmocka_unit_test(steps_pass_through_their_limits),
        cmocka_unit_test(normed_keys_may_turn),
        cmocka_unit_test(a_gate_behind_the_norm_counts),
        cmocka_unit_test(rates_are_products_of_rows),
        cmocka_unit_test(antipodal_tokens_merge_and_theorem_c_is_silent),
        cmocka_unit_test(two_tokens_have_three_outcomes),
        cmocka_unit_test(hypotheses_are_named),
        cmocka_unit_test(a_gain_stands_for_the_branch),
    };
    return cmocka_run_group_tests(tests, load_golden, free_golden);
}
