/* test_lambda_properties.c: every certified inequality of proof/lambda.h about one input (those
 * of weights alone: test_lambda_gains.c) against long double, on random and hill-climbed instances:
 * none may be violated, the search must get close to equality where a statement is tight, and a
 * constant that is 5 % off must be found out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lambda_properties.h"
#include "proof/lambda_arcs.h"

static rs_error err;
static rs_lambda_arcs *arcs;

static bool set_arcs(const rs_lambda_layer *layer)
{
    return rs_lambda_arcs_set(arcs, layer, &err) == RS_OK;
}

/* ---- L1: the exact set without norm ---- */

static double quadratic_ratio(trial *t)
{
    made_layer m;
    make_layer(&m, t, false);
    double kept = take_between(t, 0, 1.5), where = take(t), share = take_between(t, 0, 1);
    rs_lambda_quadratic set;
    if (rs_lambda_quadratic_set(&set, &m.layer, kept, &err) != RS_OK || isnan(set.low)) return NAN;
    real wanted = (real)kept * mu_of_doubles(m.x, t->n, t->d);
    bool fails = !isnan(set.fails_low) && where > 0;
    double yes = where > -0.5 ? set.high : where > -1 ? set.low : set.high + exp(take(t));
    double no = set.fails_low + share * (set.fails_high - set.fails_low);
    if (share > 0.75) no = set.fails_low;
    real lambda = (real)(fails ? no : yes), value = mu_after(&m.layer, lambda);
    double slack = oracle_slack(&m.layer, lambda, fails ? wanted : value);
    return (double)(fails ? value / wanted : wanted / value) - slack;
}

/* ---- L2: the value and its error ---- */

static double value_ratio(trial *t)
{
    made_layer m;
    make_layer(&m, t, false);
    make_norm(&m, t, false);
    if (!set_arcs(&m.layer)) return NAN;
    double lambda = take(t) * take_scale(t, 1e-3, 1e3);
    rs_lambda_value found = rs_lambda_value_at(arcs, lambda);
    real truth = mu_after(&m.layer, (real)lambda);
    return (double)fabsl((real)found.value - truth) / (found.error + (double)truth * 1e-18);
}

/* ---- L20: a branch that is known to an error ---- */

/* Moves every row by at most `error`. */
static void move_rows(made_layer *m, trial *t, double error)
{
    for (int i = 0; i < t->n; i++) {
        double push[MAX_D], square = 1e-300;
        for (int j = 0; j < t->d; j++) {
            push[j] = take(t);
            square += push[j] * push[j];
        }
        for (int j = 0; j < t->d; j++)
            m->o[i * t->d + j] += error * push[j] / sqrt(square);
    }
}

static double known_branch_ratio(trial *t)
{
    made_layer given, truth;
    make_layer(&given, t, false);
    double error = take_scale(t, 1e-9, 1), kept = take_between(t, 0, 1.5);
    double lambda = take(t) * take_scale(t, 1e-2, 1e2);
    truth = given;
    truth.layer.input = truth.x;
    truth.layer.branch = truth.o;
    move_rows(&truth, t, error);
    double most = 1; /* adding rounds, too */
    for (int k = 0; k < t->n * t->d; k++)
        most = fmax(most, fabs(given.o[k]));
    given.layer.branch_error = error * (1 + 1e-9) + 1e-15 * most;
    rs_lambda_facts about, exact;
    if (rs_lambda_facts_of(&about, &given.layer, &err) != RS_OK ||
        rs_lambda_facts_of(&exact, &truth.layer, &err) != RS_OK)
        return 2;
    double diversity = (double)(mu_of_doubles(truth.o, t->n, t->d) / sqrtl(t->n * t->d));
    double facts =
        fmax(exact.row_gain / about.row_gain, fmax(exact.largest_branch / about.largest_branch,
                                                   diversity / about.branch_diversity)) -
        1e-13;
    /* the sum alone: what is asked of the given one is more by √n of the error */
    rs_lambda_quadratic set;
    real before = mu_of_doubles(given.x, t->n, t->d);
    double raised = kept + sqrt(t->n) * given.layer.branch_error / (double)before;
    if (rs_lambda_quadratic_set(&set, &given.layer, raised, &err) != RS_OK) return NAN;
    real sum = isfinite(set.high) ? mu_after(&truth.layer, (real)set.high) : INFINITY;
    double exact_ratio = (double)((real)kept * before / sum) - 1e-12;
    make_norm(&given, t, false);
    truth.layer.norm = given.layer.norm;
    if (!set_arcs(&given.layer)) return NAN;
    rs_lambda_value found = rs_lambda_value_at(arcs, lambda);
    double off = (double)fabsl((real)found.value - mu_after(&truth.layer, (real)lambda));
    return fmax(facts, fmax(exact_ratio, off / (found.error + 1e-15)));
}

/* ---- L3: half lines ---- */

static double half_line_ratio(trial *t)
{
    made_layer m;
    make_layer(&m, t, false);
    make_norm(&m, t, false);
    if (!set_arcs(&m.layer)) return NAN;
    int sign = take(t) > 0 ? 1 : -1;
    double lambda = take(t) * take_scale(t, 1e-2, 1e3),
           beyond = fabs(take(t)) * take_scale(t, 1e-3, 10);
    if (take(t) > 0) beyond = 0;
    rs_span limit = rs_lambda_limit(arcs, sign);
    double distance = rs_lambda_limit_distance(arcs, lambda, sign);
    real there = mu_after(&m.layer, (real)lambda + sign * (real)beyond);
    real off = fmaxl((real)limit.low - there, there - (real)limit.high);
    return (double)(off / (real)distance) - ORACLE;
}

/* ---- L4, L5: brackets ---- */

static double bracket_ratio(trial *t, bool second)
{
    made_layer m;
    make_layer(&m, t, false);
    make_norm(&m, t, false);
    if (!set_arcs(&m.layer)) return NAN;
    double middle = take(t) * take_scale(t, 1e-1, 1e2);
    double width = take_scale(t, 1e-4, 10) * fmax(0.1, fabs(middle));
    double share = take_between(t, -1.2, 1.2);
    share = fmax(-1, fmin(1, share));
    rs_lambda_bracket bracket;
    rs_lambda_bracket_of(&bracket, arcs, middle - width, middle + width, middle, NAN);
    rs_span span = second ? bracket.second : bracket.first;
    real at = mu_after(&m.layer, (real)middle + (real)(share * width));
    real centre = mu_after(&m.layer, (real)middle);
    real above =
        at > centre && at > (real)span.high ? 2 : (at - centre) / ((real)span.high - centre);
    real below = at < centre && at < (real)span.low ? 2 : (centre - at) / (centre - (real)span.low);
    if (span.low <= 0) below = 0;
    return (double)fmaxl(above, below);
}

static double first_bracket_ratio(trial *t)
{
    return bracket_ratio(t, false);
}

static double second_bracket_ratio(trial *t)
{
    return bracket_ratio(t, true);
}

/* ---- the partition: no label may be wrong ---- */

static int64_t incomplete; /* searches that reached their limit: tokens equal to 1e-5 or so */

static double set_ratio(trial *t)
{
    made_layer m;
    make_layer(&m, t, false);
    make_norm(&m, t, false);
    if (!set_arcs(&m.layer)) return NAN;
    double limit = (double)mu_after(&m.layer, 1e9L), target = take_between(t, 0.2, 1.2) * limit;
    rs_lambda_search search = {target, -INFINITY, INFINITY, 1e-6, 0, NAN};
    if (take(t) > 1) search.low = -3, search.high = 7;
    rs_lambda_set set = {0};
    if (rs_lambda_set_find(&set, arcs, &search, &err) != RS_OK) return 2;
    double worst = 0;
    incomplete += !set.complete;
    for (size_t i = 0; i < set.n; i++) {
        const rs_lambda_interval *in = &set.intervals[i];
        if (i && in->low != set.intervals[i - 1].high) worst = 2;
        if (in->answer == RS_LAMBDA_UNKNOWN) continue;
        double low = fmax(in->low, fmin(2 * in->high, -1e6));
        double high = fmin(in->high, fmax(2 * in->low, 1e6));
        for (int k = 0; k < 4; k++) {
            double at = k == 0 ? low : k == 1 ? high : low + uniform() * (high - low);
            real value = mu_after(&m.layer, (real)at);
            bool yes = in->answer == RS_LAMBDA_YES;
            real above = yes ? (real)target : value, below = yes ? value : (real)target;
            worst = fmax(worst, (double)((above - 1e-17L) / below));
        }
    }
    rs_lambda_set_free(&set);
    return worst - ORACLE;
}

/* ---- L6, L7: theorem A ---- */

static double theorem_a_ratio(trial *t)
{
    made_layer m;
    make_layer(&m, t, true);
    m.layer.norm.kind = RS_LAMBDA_RMSNORM;
    rs_lambda_facts facts;
    if (rs_lambda_facts_of(&facts, &m.layer, &err) != RS_OK) return NAN;
    rs_lambda_wish wish = {
        .kept = take_between(t, 0.02, 0.99), .layers = 1, .row_gain = facts.row_gain};
    rs_lambda_number demanded = rs_lambda_theorem_a(&facts, &wish);
    if (!demanded.valid) return NAN;
    real lambda = (real)demanded.value * (take(t) > 0 ? 1 : -1);
    real before = mu_of_doubles(m.x, t->n, t->d) / sqrtl((real)t->d);
    return (double)((real)wish.kept * before / mu_after(&m.layer, lambda)) - ORACLE;
}

static double theorem_a_layer_ratio(trial *t)
{
    made_layer m;
    make_layer(&m, t, false);
    make_norm(&m, t, take(t) > 0);
    rs_lambda_facts facts;
    if (rs_lambda_facts_of(&facts, &m.layer, &err) != RS_OK) return NAN;
    double kept = take_between(t, 0.02, 0.99);
    rs_lambda_number demanded = rs_lambda_theorem_a_layer(&facts, kept);
    if (!demanded.valid || demanded.value > 1e12) return NAN;
    real lambda = (real)demanded.value * (take(t) > 0 ? 1 : -1) * (take(t) > 0 ? 1 : 3);
    real wanted = (real)kept * mu_of_doubles(m.x, t->n, t->d) / sqrtl((real)t->d);
    return (double)(wanted / mu_after(&m.layer, lambda)) - ORACLE;
}

/* ---- L8: theorem B ---- */

static double theorem_b_ratio(trial *t)
{
    made_layer m;
    make_layer(&m, t, true);
    m.layer.norm.kind = RS_LAMBDA_RMSNORM;
    rs_lambda_facts facts;
    if (rs_lambda_facts_of(&facts, &m.layer, &err) != RS_OK || !(facts.diversity > 1e-4))
        return NAN;
    rs_lambda_wish wish = {.kept = take_between(t, 0.02, 0.99),
                           .layers = 1,
                           .row_gain = facts.row_gain,
                           .lipschitz = facts.branch_diversity / facts.diversity};
    rs_lambda_number demanded = rs_lambda_theorem_b(&facts, &wish);
    if (!demanded.valid) return NAN;
    real lambda = (real)demanded.value * (take(t) > 0 ? 1 : -1);
    real before = mu_of_doubles(m.x, t->n, t->d) / sqrtl((real)t->d);
    return (double)((real)wish.kept * before / mu_after(&m.layer, lambda)) - 1e-12;
}

/* ---- L9: theorem D ---- */

static double theorem_d_ratio(trial *t)
{
    made_layer m;
    make_layer(&m, t, false);
    double lambda = 1 + take_scale(t, 1e-2, 10), sign = take(t) > 0 ? 1 : -1,
           gain = take_scale(t, 1e-3, 1);
    rs_lambda_facts facts;
    if (rs_lambda_facts_of(&facts, &m.layer, &err) != RS_OK) return NAN;
    rs_lambda_number drift = rs_lambda_theorem_d_drift(&facts, gain, sign * lambda, false);
    if (!drift.valid || drift.value > 1) return NAN;
    int n = t->n, d = t->d, depth = 60;
    real h[MAX_N * MAX_D], unit[MAX_N * MAX_D], bound = (real)gain * sqrtl((real)d) * (1 - 1e-15L);
    for (int k = 0; k < n * d; k++)
        h[k] = (real)m.x[k];
    real toward = take(t) > -1 ? 1 : -1, flip = 1;
    for (int k = 0; k <= depth; k++) {
        real mean[MAX_D] = {0};
        for (int i = 0; i < n; i++) {
            real square = 0;
            for (int j = 0; j < d; j++)
                square += h[i * d + j] * h[i * d + j];
            for (int j = 0; j < d; j++) {
                unit[i * d + j] = h[i * d + j] / sqrtl(square);
                mean[j] += unit[i * d + j];
            }
        }
        if (k == depth) break;
        flip = (real)sign; /* after the sign that λ brings */
        for (int i = 0; i < n; i++) {
            /* Push along the part of the mean that is orthogonal to the token. */
            real push[MAX_D], along = 0, square = 0;
            for (int j = 0; j < d; j++)
                along += mean[j] * unit[i * d + j];
            for (int j = 0; j < d; j++) {
                push[j] = mean[j] - along * unit[i * d + j];
                square += push[j] * push[j];
            }
            for (int j = 0; j < d; j++) {
                real o = square > 0 ? toward * flip * bound * push[j] / sqrtl(square) : 0;
                h[i * d + j] = (real)(sign * lambda) * h[i * d + j] + o;
            }
        }
    }
    real before = (real)facts.unit_diversity, after = mu_of(unit, n, d) / sqrtl((real)n);
    return (double)((before - after) / (real)drift.value) - 1e-13;
}

/* ---- all of them ---- */

static const property properties[] = {
    {"L1 quadratic set", quadratic_ratio, 680, 250, 0.999999, RS_LAMBDA_QUADRATIC, 0.95},
    {"L2 value and its error", value_ratio, 600, 200, 1e-4, 0, 0},
    {"L3 half lines", half_line_ratio, 300, 400, 0.95, RS_LAMBDA_HALF_LINE, 0.95},
    {"L4 first-order bracket", first_bracket_ratio, 300, 400, 0.95, RS_LAMBDA_ARC_FIRST_ORDER,
     0.95},
    {"L5 second-order bracket", second_bracket_ratio, 340, 400, 0.95, RS_LAMBDA_ARC_SECOND_ORDER,
     0.95},
    {"L3-L5 partition", set_ratio, 1500, 4, 0.99, 0, 0},
    {"L6 theorem A", theorem_a_ratio, 300, 400, 0.99, RS_LAMBDA_THEOREM_A, 0.95},
    {"L7 theorem A, one layer", theorem_a_layer_ratio, 640, 400, 0.99, RS_LAMBDA_THEOREM_A_LAYER,
     0.95},
    {"L8 theorem B", theorem_b_ratio, 300, 400, 0.99, RS_LAMBDA_THEOREM_B_LIPSCHITZ, 0.95},
    {"L8 theorem B, stretch", theorem_b_ratio, 40, 400, 0.99, RS_LAMBDA_THEOREM_B_STRETCH, 0.95},
    {"L9 theorem D", theorem_d_ratio, 300, 420, 0.95, RS_LAMBDA_THEOREM_D, 0.95},
    {"L20 branch known to an error", known_branch_ratio, 300, 400, 0.9, 0, 0},
};
enum { PROPERTIES = sizeof properties / sizeof properties[0] };

static void no_certified_inequality_is_violated(void **state)
{
    (void)state;
    no_property_is_violated(properties, PROPERTIES);
    assert_true(incomplete <= property_count(75)); /* of 7500, at some 30 λ each */
}

static void constants_off_by_five_per_cent_are_found_out(void **state)
{
    (void)state;
    each_wrong_constant_is_found_out(properties, PROPERTIES);
}

static int open_arcs(void **state)
{
    (void)state;
    return rs_lambda_arcs_open(&arcs, &err) == RS_OK ? 0 : -1;
}

static int close_arcs(void **state)
{
    (void)state;
    rs_lambda_arcs_close(arcs);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_certified_inequality_is_violated),
        cmocka_unit_test(constants_off_by_five_per_cent_are_found_out),
    };
    return cmocka_run_group_tests(tests, open_arcs, close_arcs);
}
