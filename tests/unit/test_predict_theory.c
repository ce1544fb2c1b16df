/* test_predict_theory.c: networks without masks against the same recursion in (q, p)
 * (tests/oracle/make_predict_golden.py), closed forms, and what a recursion must withstand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "predict/closed_forms.h"
#include "predict/mean_field.h"
#include "predict/theory_run.h"
#include "predict_support.h"

static same_layers same;
static rs_theory_row rows[LAYERS_MOST + 1];
static const rs_theory_settings plain_settings;

/* Formulas as they were published, to leading order in the width. */
static void run_leading(void)
{
    OK(rs_theory_run(rows, &same.network, &(rs_theory_settings){.leading = true}, &err));
}

static void run(void)
{
    OK(rs_theory_run(rows, &same.network, &plain_settings, &err));
}

static void check_case(const json_t *item)
{
    set_case(&same, item);
    run();
    double n = (double)same.network.n, d = (double)same.network.d;
    for (size_t l = 0; l <= (size_t)same.network.n_layers; l++) {
        double q = cell(item, "forward", l, 0), p = cell(item, "forward", l, 1);
        is_near_ln("squared norm", rows[l].ln_square, n * d * q, 1e-10);
        /* the oracle's q − p and q + (n − 1)p lose digits */
        assert_near("sum", exp(rows[l].ln_sum), n * d * (q + (n - 1) * p), 1e-10,
                    n * n * d * q * 1e-13);
        assert_near("apart", exp(rows[l].ln_apart), 1 - p / q, 1e-10, 1e-13);
        assert_near("rho", rows[l].rho, p / q, 1e-10, 1e-13);
    }
    for (size_t l = 0; l < (size_t)same.network.n_layers; l++) {
        is_near_ln("gQ", rows[l].ln_query, cell(item, "backward", l, 0), 1e-9);
        is_near_ln("gV", rows[l].ln_value, cell(item, "backward", l, 1), 1e-10);
        is_near_ln("gO", rows[l].ln_output, cell(item, "backward", l, 2), 1e-10);
        is_near_ln("dX", rows[l].ln_state, n * d * cell(item, "backward", l, 3), 1e-10);
        if (rows[l].ln_query == -INFINITY) continue;
        assert_near("gK", rows[l].ln_key - rows[l].ln_query,
                    log(expected_of(item, "vq") / expected_of(item, "vk")), 0, 1e-12);
    }
}

static void recursion_is_that_of_q_and_p(void **state)
{
    (void)state;
    check_golden("theory.json", check_case);
}

/* L = 6, n = 12, d = 48, pre-norm ReLU: the values of the derivation's own script, whose moments are of
 * variances rounded to six digits. */
static void known_values_come_out(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    layer.branches[0].attention.merged = true;
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "pre", 0);
    set_same(&same, &layer, 6, 12, 48);
    run_leading();
    is_near("rho", rows[6].rho, .593076039, 1e-8);
    is_near_ln("gQ", rows[0].ln_query, 24151.0784, 1e-7);
    is_near_ln("gV", rows[0].ln_value, 45441.1858, 1e-7);
    is_near_ln("gQ", rows[5].ln_query, 957.354392, 1e-7);
    is_near_ln("gV", rows[5].ln_value, 18749.6374, 1e-7);
    assert_true(isnan(rows[0].ln_output)); /* there is no W_O */
    is_near("ratio", exp(rs_theory_ratio(&rows[5])), 957.354392 / 18749.6374, 1e-7);
    assert_true(rows[3].forward == RS_FORMULA_MEAN_FIELD &&
                rows[3].backward == RS_FORMULA_BACKWARD);
    assert_true(strstr(rs_formula_text(rows[3].forward), "mean field") != NULL);
}

/* Where the annealed moments of the literature's form gave .331 and drawn networks .53; and uniform
 * attention with linear MLPs behind norms, where they gave .468 at d = 256: section 4's gap of O(1/d). */
static void published_instances(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    layer.branches[0].attention.logit = 9;
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "pre", 0);
    set_same(&same, &layer, 8, 64, 64);
    run_leading();
    assert_near("wide logits", rows[8].rho, 0.53, 0, 0.005);
    layer = plain_layer();
    layer.branches[0].attention.logit = 0;
    layer.branches[1].mlp.kind = RS_GAUSS_LINEAR;
    layer.branches[1].mlp.up = 1;
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "post", 0);
    set_same(&same, &layer, 4, 16, 64);
    run();
    assert_near("post-norm", rows[4].rho, 0.4839, 0, 5e-5);
}

/* Without queries, with linear MLPs and without norms every number is a closed form. */
static void linear_networks_have_closed_forms(void **state)
{
    (void)state;
    enum { DEPTH = 40 };
    rs_theory_layer layer = plain_layer();
    layer.branches[0].attention.queries = 0;
    layer.branches[0].scale = 0.7;
    layer.branches[1].scale = 0.4;
    layer.branches[1].mlp.kind = RS_GAUSS_LINEAR;
    layer.branches[1].mlp.up = 1;
    for (double rho = -0.125; rho <= 1; rho += 0.28125) {
        set_same(&same, &layer, DEPTH, 9, 20);
        same.network.rho0 = rho;
        run();
        double f0 = 9 * 20, c0 = f0 * (1 + 8 * rho);
        rs_noci noci = {.n = 9, .f0 = f0, .c0 = c0, .mixer = 0.49, .mlp = 0.16};
        for (int32_t l = 0; l <= DEPTH; l++) {
            is_near("F", rows[l].ln_square, rs_noci_ln_f(&noci, l), 1e-13);
            if (rho == -0.125)
                assert_true(rows[l].ln_sum == -INFINITY && rs_noci_ln_c(&noci, l) == -INFINITY);
            else
                assert_near("C", rows[l].ln_sum, rs_noci_ln_c(&noci, l), 1e-13, 1e-13);
            assert_near("rho", rows[l].rho, rs_noci_rho(&noci, l), 0, 1e-13);
            if (l == DEPTH) break;
            double gv = rs_noci_network_ln_value(&noci, 20, c0 / 81, DEPTH);
            if (rho > -0.125) assert_near("gV", rows[l].ln_value, gv, 1e-12, 0);
            assert_true(rows[l].ln_key == -INFINITY);
            assert_int_equal(rows[l].backward, RS_FORMULA_LINEAR_BACKWARD);
        }
        assert_int_equal(rows[DEPTH].forward, RS_FORMULA_LINEAR_FORWARD);
    }
}

/* Attention alone: gQ of Gaussian tokens is the same at every layer, lemma 3.2's at the last. */
static void attention_alone_has_lemma_3_2(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    layer.branches[0].attention.queries = 0;
    layer.branches[0].scale = 1;
    layer.branches[0].skip = 0;
    layer.n_branches = 1;
    set_same(&same, &layer, 1, 16, 64);
    same.network.rho0 = 0.25;
    run();
    is_near_ln("gV", rows[0].ln_value, rs_noci_gaussian_value(64, 16, 1, 0.25), 1e-12);
    is_near_ln("gQ", rows[0].ln_query, rs_noci_gaussian_query(64, 16, 1, 0.25), 1e-12);
}

/* Dong's cubic law far below the doubles, and beyond what logarithms hold. */
static void collapse_is_followed_to_the_end(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    layer.branches[0].skip = 0;
    layer.n_branches = 1;
    set_same(&same, &layer, 1000, 16, 64);
    for (int finite = 0; finite < 2; finite++) {
        double kappa = 1.0 / 64; /* a layer without a skip is all of its tokens' difference */
        if (finite)
            run();
        else
            run_leading();
        for (int32_t l = 0; l < 20; l++) {
            /* e' = s² e³ (n − 1)/n² (1 + nκ) */
            double law = 2 * log(rows[l].logit_deviation) + 3 * rows[l].ln_apart + log(15.0 / 256);
            if (finite) law += log1p(16 * kappa);
            kappa = fmin(kappa + (1 + kappa) / 64, 1);
            if (l >= 5) is_near("cubic law", rows[l + 1].ln_apart, law, 1e-13);
        }
    }
    for (int32_t l = 0; l <= 1000; l++)
        assert_true(isfinite(rows[l].ln_apart) && isfinite(rows[l].ln_square));
    assert_true(rows[1000].ln_apart < -9e299);
}

static void growth_leaves_the_doubles(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    for (int sign = -1; sign <= 1; sign += 2) {
        layer.branches[0].scale = layer.branches[1].scale = sign > 0 ? 1e6 : 1e-6;
        layer.branches[0].skip = layer.branches[1].skip = sign > 0 ? 1 : 1e-6;
        layer.branches[0].attention.queries = 0;
        set_same(&same, &layer, 1000, 8, 8);
        run();
        double decades = (rows[1000].ln_square - rows[0].ln_square) / log(10);
        assert_true(sign * decades > 20000);
        assert_true(isfinite(rows[0].ln_query) && isfinite(rows[0].ln_value));
        assert_true(rows[0].ln_state * sign > 40000);
    }
}

static void equal_and_opposite_tokens_stay_so(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "post", 0);
    set_same(&same, &layer, 12, 16, 32);
    same.network.rho0 = 1;
    run();
    for (int32_t l = 0; l <= 12; l++) {
        assert_true(rows[l].rho == 1 && rows[l].ln_apart == -INFINITY);
        assert_true(l == 12 || (rows[l].ln_query == -INFINITY && isfinite(rows[l].ln_value)));
    }
    /* tokens that sum to 0 do so behind uniform attention and a linear MLP */
    layer = plain_layer();
    layer.branches[0].attention.keys = 0;
    layer.branches[1].mlp.kind = RS_GAUSS_LINEAR;
    set_same(&same, &layer, 12, 16, 32);
    same.network.rho0 = -1.0 / 15;
    run();
    assert_true(rows[12].ln_sum == -INFINITY && rows[0].ln_value == -INFINITY);
    is_near("rho", rows[12].rho, -1.0 / 15, 1e-14);
    assert_true(isnan(rs_theory_ratio(&rows[0])));
}

static void branches_of_scale_zero_have_no_gradient(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    layer.branches[0].scale = layer.branches[1].scale = 0;
    set_same(&same, &layer, 64, 16, 32);
    run();
    for (int32_t l = 0; l < 64; l++) {
        assert_true(rows[l].ln_value == -INFINITY && rows[l].ln_query == -INFINITY);
        is_near_ln("dX", rows[l].ln_state, 16 * 32, 1e-14);
        assert_true(rows[l].rho == 0);
    }
}

static void one_token_and_width_one(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "pre", 0);
    set_same(&same, &layer, 3, 1, 4);
    run();
    for (int32_t l = 0; l < 3; l++) {
        is_near_ln("squares double in each branch", rows[l].ln_square, 4 * (1 + 2 * l), 1e-14);
        assert_true(isnan(rows[l].rho) && rows[l].keys == 1 && rows[l].ln_query == -INFINITY);
        assert_true(isfinite(rows[l].ln_value));
    }
    /* LayerNorm of width 1 leaves nothing, so that branches do nothing */
    for (int b = 0; b < 2; b++)
        layer.branches[b].before.annihilates = true;
    set_same(&same, &layer, 3, 5, 1);
    run();
    assert_true(rows[3].rho == 0 && rows[0].ln_value == -INFINITY);
    is_near_ln("square", rows[3].ln_square, 5, 1e-14);
    /* a state of 0 */
    set_same(&same, &layer, 2, 5, 1);
    same.network.ln_square0 = -INFINITY;
    run();
    assert_true(rows[2].ln_square == -INFINITY && isnan(rows[2].rho));
}

static void condensed_attention_has_no_gradients(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "pre", 0);
    layer.branches[0].attention.logit = 12.25;
    set_same(&same, &layer, 2, 16, 64);
    run_leading();
    assert_int_equal(rows[1].forward, RS_FORMULA_CONDENSED);
    assert_true(rows[0].keys < 2 && isnan(rows[0].ln_value) && isfinite(rows[2].ln_state));
    assert_string_equal(rows[0].note, RS_THEORY_CONDENSED);
    /* the first layer, by its moments */
    double m2, cross;
    rs_softmax_moments m;
    rs_softmax_moments_of(&m, 16, 12.25);
    OK(rs_softmax_cross_moment(&cross, 16, 12.25, 0, &err));
    m2 = m.second;
    double q = 1 + m2, p = cross, relu = rs_relu_gap_ratio(1 - p / q) * (1 - p / q);
    is_near_ln("apart", rows[1].ln_apart, (q - p + relu) / (q + 1), 1e-10);
    rs_theory_settings rough = {.rough = true};
    OK(rs_theory_run(rows, &same.network, &rough, &err));
    assert_int_equal(rows[1].forward, RS_FORMULA_CONDENSED_ROUGH);
    layer.branches[0].attention.logit = 1e12;
    set_same(&same, &layer, 2, 16, 64);
    same.network.rho0 = 0.5;
    run();
    assert_int_equal(rows[1].forward, RS_FORMULA_CONDENSED_ROUGH);
    is_near("s", rows[0].logit_deviation, 1e6, 1e-12);
    assert_true(rows[2].rho > 0 && rows[2].rho < 1);
}

static void refused_layers_say_why(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    set_same(&same, &layer, 4, 8, 8);
    same.layers[2].branches[1].refused = "no reason";
    run();
    assert_true(isfinite(rows[2].ln_square) && isnan(rows[3].ln_square) && isnan(rows[0].ln_value));
    assert_string_equal(rows[4].note, "no reason");
    assert_int_equal(rows[4].forward, RS_FORMULA_NONE);
    /* an activation at a variance that its expansion does not reach */
    layer.branches[1].mlp.kind = RS_GAUSS_TANH;
    layer.branches[0].scale = 1e5;
    set_same(&same, &layer, 2, 8, 8);
    run();
    assert_string_equal(rows[1].note, RS_THEORY_TOO_FAR);
}

static void nonsense_is_named(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    set_same(&same, &layer, 2, 8, 8);
    double *const numbers[] = {
        &same.layers[1].branches[0].attention.queries, &same.layers[1].branches[0].attention.keys,
        &same.layers[1].branches[0].attention.values,  &same.layers[1].branches[0].attention.output,
        &same.layers[1].branches[0].attention.logit,   &same.layers[1].branches[1].mlp.up,
        &same.layers[1].branches[1].mlp.down};
    static const char *const names[] = {"wq", "wk", "wv", "wo", "temperature", "w1", "w2"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double kept = *numbers[i];
        *numbers[i] = i % 2 ? -1 : NAN;
        rs_status status = rs_theory_run(rows, &same.network, &plain_settings, &err);
        assert_int_equal(status, RS_E_BAD_OPTION);
        assert_true(strstr(err.where, names[i]) && strstr(err.where, "layer 1"));
        *numbers[i] = kept;
    }
    same.layers[0].branches[1].mlp.gated = true;
    same.layers[0].branches[1].mlp.gate = -2;
    assert_int_equal(rs_theory_run(rows, &same.network, &plain_settings, &err), RS_E_BAD_OPTION);
    same.layers[0].branches[1].mlp.gated = false;
    static const double rhos[] = {-0.2, 1.01, NAN};
    for (int i = 0; i < 3; i++) {
        same.network.rho0 = rhos[i];
        assert_int_equal(rs_theory_run(rows, &same.network, &plain_settings, &err),
                         RS_E_BAD_OPTION);
        assert_string_equal(err.where, "rho");
    }
    same.network.rho0 = 0;
    same.network.ln_square0 = NAN;
    assert_int_equal(rs_theory_run(rows, &same.network, &plain_settings, &err), RS_E_BAD_OPTION);
    same.network.ln_square0 = 0;
    same.layers[1].branches[0].skip = INFINITY;
    assert_int_equal(rs_theory_run(rows, &same.network, &plain_settings, &err), RS_E_BAD_OPTION);
    same.network.n = 0;
    assert_int_equal(rs_theory_run(rows, &same.network, &plain_settings, &err), RS_E_BAD_OPTION);
}

/* Behind the final norm every layer's gradients are divided by the last states' q. */
static void final_norm_divides_all(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "pre", 0);
    set_same(&same, &layer, 5, 8, 32);
    same.network.final_norm = (rs_theory_norm){.on = true, .gain = 1};
    run();
    double before = rows[0].ln_value, q = rows[5].ln_square - log(8 * 32);
    rs_theory_settings after = {.after_final_norm = true};
    OK(rs_theory_run(rows, &same.network, &after, &err));
    is_near("gV", rows[0].ln_value, before - q, 1e-13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recursion_is_that_of_q_and_p),
        cmocka_unit_test(known_values_come_out),
        cmocka_unit_test(published_instances),
        cmocka_unit_test(linear_networks_have_closed_forms),
        cmocka_unit_test(attention_alone_has_lemma_3_2),
        cmocka_unit_test(collapse_is_followed_to_the_end),
        cmocka_unit_test(growth_leaves_the_doubles),
        cmocka_unit_test(equal_and_opposite_tokens_stay_so),
        cmocka_unit_test(branches_of_scale_zero_have_no_gradient),
        cmocka_unit_test(one_token_and_width_one),
        cmocka_unit_test(condensed_attention_has_no_gradients),
        cmocka_unit_test(refused_layers_say_why),
        cmocka_unit_test(nonsense_is_named),
        cmocka_unit_test(final_norm_divides_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
