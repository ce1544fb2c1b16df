/* test_predict_laws.c: closed forms, laws of depth, gaps in width, kept kernels and shaped attention
 * against the 59 numbers that tests/oracle/make_predict_golden.py works out with 50 digits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <float.h>

#include "measures/attention_measures.h"
#include "measures/token_measures.h"
#include "predict/closed_forms.h"
#include "predict/forecast.h"
#include "predict/gap_laws.h"
#include "predict/kept_signal.h"
#include "predict/laws.h"
#include "predict/shaped.h"
#include "predict/softmax_moments.h"
#include "predict_support.h"
#include "proof/lambda.h"

static json_t *golden;
static int checked;

static int open_golden(void **state)
{
    (void)state;
    golden = load_golden("vectors.json");
    return 0;
}

static int close_golden(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static void vector_is(const char *name, double got)
{
    const json_t *value = json_object_get(golden, name);
    if (!json_is_number(value)) fail_msg("there is no %s", name);
    is_near(name, got, json_number_value(value), 1e-10);
    checked++;
}

static void entry_is(const char *name, size_t i, double got)
{
    const json_t *value = json_array_get(json_object_get(golden, name), i);
    if (!json_is_number(value)) fail_msg("there is no %s, %zu", name, i);
    assert_near(name, got, json_number_value(value), 1e-10, 1e-15);
    if (i == 0) checked++;
}

static void matrix_is(const char *name, const double *got, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++)
            assert_near(name, got[i * columns + j], cell(golden, name, i, j), 1e-10, 1e-15);
    }
    checked++;
}

/* ---- what is measured ---- */

static void measures_of_given_tokens(void)
{
    static const double x[] = {1, 2, 3, 4, 5, 9};
    rs_token_options options = {.spectral = true, .epsilon = DBL_EPSILON / 2};
    rs_token_measures m;
    void *workspace = malloc(rs_token_workspace(3, 2, &options));
    assert_non_null(workspace);
    OK(rs_token_measure_f64(&m, x, 3, 2, 2, &options, workspace, &err));
    free(workspace);
    double f = m.norm_fro * m.norm_fro, c = 3 * (f - m.residual_fro * m.residual_fro);
    vector_is("dM", m.residual_fro);
    vector_is("dM_pairwise", m.residual_fro);
    vector_is("C", c);
    vector_is("F2", f);
    vector_is("rho_bar", c / (3 * f));
    vector_is("rho", (c / f - 1) / 2);
    vector_is("relres", m.relative_residual);
    vector_is("mean_cos", m.mean_cosine);
    vector_is("sr_X", m.stable_rank);
    vector_is("sr_Sigma", m.stable_rank_gram);
}

static void measures_of_given_attention(void)
{
    double a[4], centred[4];
    for (size_t i = 0; i < 4; i++) {
        a[i] = cell(golden, "softmax2", i / 2, i % 2);
        centred[i] = a[i] - 0.5;
    }
    static const double logits[] = {0, 0.69314718055994531, 1.0986122886681098, 0};
    double made[4];
    for (int i = 0; i < 4; i++)
        made[i] = 1 / (1 + exp(logits[i ^ 1] - logits[i]));
    matrix_is("softmax2", made, 2, 2);
    static const double expanding[] = {1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0};
    double causal[16] = {0};
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j <= i; j++)
            causal[i * 4 + j] = 1.0 / (i + 1);
    }
    rs_attention_measures m, of_centred, of_expanding, of_causal;
    void *w = malloc(rs_attention_workspace(4));
    assert_non_null(w);
    OK(rs_attention_measure_f64(&m, a, a, NULL, 2, 2, false, 0, false, w, &err));
    OK(rs_attention_measure_f64(&of_centred, centred, a, NULL, 2, 2, false, 0, false, w, &err));
    OK(rs_attention_measure_f64(&of_expanding, expanding, expanding, NULL, 4, 4, false, 0, false, w,
                                &err));
    OK(rs_attention_measure_f64(&of_causal, causal, causal, NULL, 4, 4, true, 0, false, w, &err));
    free(w);
    entry_is("softmax2_sv", 0, m.sigma1);
    entry_is("softmax2_sv", 1, m.sigma2);
    entry_is("softmax2_eig", 0, m.spectral_gap + m.lambda2);
    entry_is("softmax2_eig", 1, -m.lambda2);
    entry_is("softmax2_centered_eig", 0, of_centred.lambda2);
    entry_is("softmax2_centered_eig", 1, -m.lambda2);
    vector_is("softmax2_centered_s1", of_centred.sigma1);
    vector_is("softmax2_dobrushin", m.dobrushin);
    vector_is("softmax2_entropy", m.entropy);
    vector_is("shi_lambda_max", of_expanding.centred_norm_squared);
    entry_is("causal_uniform_4", 0, rs_gap_causal_square(4));
    entry_is("causal_uniform_4", 1, of_causal.sigma1);
    /* s = ½ is the largest of all products of weights, h = 2 heads */
    double norms[] = {0.5, 0.5};
    rs_lambda_block block = {.post_norm = true,
                             .row_stochastic = true,
                             .relu = true,
                             .activation_lipschitz = 1,
                             .mixing_norm = norms,
                             .head_norm = norms,
                             .heads = 2,
                             .up_norm = 0.5,
                             .down_norm = 0.5,
                             .gain1 = 1,
                             .gain2 = 1,
                             .unit_gains = true,
                             .std1 = 1.2,
                             .std2 = 1.5,
                             .skip_mixer = 1,
                             .skip_mlp = 1,
                             .scale_mixer = 1,
                             .scale_mlp = 1};
    vector_is("shi_v", rs_lambda_over_smoothing_published(&block).value);
    /* a mean weighted by the softmax of (0, ln 2, ln 3) */
    vector_is("gate_fusion", (1 * 1.0 + 10 * 2.0 + 100 * 3.0) / 6);
}

/* ---- what is predicted ---- */

static void closed_forms(void)
{
    rs_noci small = {.n = 4, .f0 = 4, .c0 = 4, .mixer = 1, .mlp = 1};
    vector_is("noci_C", exp(rs_noci_ln_c(&small, 3)));
    vector_is("noci_F2", exp(rs_noci_ln_f(&small, 3)));
    vector_is("noci_rho", rs_noci_rho(&small, 3));
    vector_is("noci_rho_inf_1", rs_noci_rho_limit(&small, 1));
    vector_is("noci_rho_inf_4", rs_noci_rho_limit(&small, 4));
    rs_noci scaled = {.n = 16, .f0 = 1024, .c0 = 1024, .mixer = 1 / 12.0, .mlp = 1 / 12.0};
    vector_is("noci_rho_finite", rs_noci_rho(&scaled, 12));
    scaled.mixer = 1;
    vector_is("noci_depth_to_rho", (double)rs_noci_depth_to(&scaled, 0.9));
    vector_is("noci_gradV_local", rs_noci_local_value(2, 3, 8));
    vector_is("noci_gradQ_local", rs_noci_local_query(2, 3, 4, 10 / 9.0, 0.5, 0.5));
    vector_is("noci_eq_gradV", rs_noci_gaussian_value(64, 16, 1, 0.25));
    vector_is("noci_eq_gradQ", rs_noci_gaussian_query(64, 16, 1, 0.25));
    vector_is("gradQ_exact", rs_noci_gaussian_query_exact(64, 16, 1, 0.25));
    vector_is("tau_match", rs_noci_temperature(64, 16, 1, 0.25));
    vector_is("net_gradV", exp(rs_noci_network_ln_value(&small, 8, 0.25, 3)));
    small.mlp = 0;
    vector_is("net_gradQ", exp(rs_noci_network_ln_query(&small, 8, 6, 0.125, 0.125, 3)));
}

static void gaps_and_kernels(void)
{
    double a[16];
    vector_is("markov_sigma2", rs_gap_sigma2(0.69314718055994531));
    vector_is("markov_s2", rs_gap_second(1, 400));
    vector_is("kq_s2_T1024_k64", rs_gap_second_keys(0.25, 1024, 64));
    vector_is("kq_s2_T512_k512", rs_gap_second_keys(0.01, 512, 512));
    vector_is("kq_s2_T4096_k64", rs_gap_second_keys(0.25, 4096, 64));
    vector_is("sr_Sigma_width", rs_gap_stable_rank_gram(1, 400, 1, 1));
    for (int layer = 1; layer <= 3; layer++) {
        char name[32];
        snprintf(name, sizeof name, "fix_sr_Sigma_l%d", layer);
        vector_is(name, rs_gap_fixed_rank_gram(2 * layer));
        snprintf(name, sizeof name, "fix_sr_X_l%d", layer);
        vector_is(name, rs_gap_fixed_rank(2 * layer));
    }
    entry_is("grad_T", 0, exp(rs_gap_ln_gradient(1, 100, 2)));
    entry_is("grad_T", 1, exp(rs_gap_fixed_ln_gradient(1, 100, 2)));
    assert_true(rs_uspa_attention(a, 4, 0.2, 0.5));
    matrix_is("uspa_A", a, 4, 4);
    assert_true(rs_espa_attention(a, 4, 1, 0.5));
    matrix_is("espa_A", a, 4, 4);
    for (int32_t l = 1; l <= 4; l++)
        entry_is("espa_schedule", (size_t)l - 1, rs_espa_rate(l, 4, 0.005));
}

static void shaped_and_predicted(void)
{
    static const double v[] = {1, 0.2, 0.2, 1};
    rs_shaped shaped = {.m = 2, .gamma2 = 0.5, .tau0 = 1};
    double drift[4];
    rs_shaped_drift(drift, &shaped, v);
    matrix_is("shaped_drift_m2", drift, 2, 2);
    vector_is("shaped_diffusion", rs_shaped_noise(&shaped, v, 0, 0, 0, 0));
    vector_is("shaped_relu_nu", rs_shaped_relu_drift(0, -1, 0.2));
    vector_is("kappa_half", 1 - 0.5 * rs_relu_gap_ratio(0.5));
    vector_is("phi", rs_softmax_annealed(16, 1));
    vector_is("cubic_step", rs_law_attention_step(0.1, 1, 16));
    vector_is("cubic_small", rs_law_attention_small(1e-6, 0.5, 16));
}

static void all_vectors_come_out(void **state)
{
    (void)state;
    checked = 0;
    measures_of_given_tokens();
    measures_of_given_attention();
    closed_forms();
    gaps_and_kernels();
    shaped_and_predicted();
    assert_int_equal(checked, 59);
    assert_int_equal(json_object_size(golden), 59);
}

/* ---- laws of depth ---- */

static void decades_and_exponents(void **state)
{
    (void)state;
    static const struct {
        rs_theory_mlp mlp;
        double gain, persistence, decades, exponent;
    } rows[] = {
        {{.kind = RS_GAUSS_RELU, .up = 2, .down = 1}, 1, 1, .3010, .500},
        {{.kind = RS_GAUSS_GELU, .up = 1, .down = 1}, .4252, 1.0720, .2918, .680},
        {{.kind = RS_GAUSS_SILU, .gated = true, .up = 1, .gate = 1, .down = 1},
         .3558,
         2.0666,
         .1939,
         .458},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rs_block_gains gains = {.mixer = 1};
        OK(rs_mlp_gains(&gains.mlp, &gains.persistence, &rows[i].mlp, &err));
        assert_near("gain", gains.mlp, rows[i].gain, 0, 5e-5);
        assert_near("persistence", gains.persistence, rows[i].persistence, 0, 5e-5);
        assert_near("decades", rs_law_post_norm_decades(&gains), rows[i].decades, 0, 5e-5);
        assert_near("exponent", rs_law_pre_norm_exponent(&gains), rows[i].exponent, 0, 5e-4);
    }
    rs_block_gains far;
    OK(rs_mlp_gains(&far.mlp, &far.persistence,
                    &(rs_theory_mlp){.kind = RS_GAUSS_TANH, .up = 1e9, .down = 1}, &err));
    assert_true(isnan(far.mlp) && isnan(far.persistence));
}

static same_layers same;
static rs_theory_row rows[LAYERS_MOST + 1];

/* The recursion falls as its laws say. */
static void recursions_obey_their_laws(void **state)
{
    (void)state;
    rs_theory_settings settings = {0};
    rs_theory_layer layer = plain_layer();
    layer.branches[1].mlp.kind = RS_GAUSS_GELU;
    layer.branches[1].mlp.up = 1;
    rs_block_gains gains = {.mixer = 1};
    OK(rs_mlp_gains(&gains.mlp, &gains.persistence, &layer.branches[1].mlp, &err));
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "post", 0);
    set_same(&same, &layer, 200, 16, 64);
    OK(rs_theory_run(rows, &same.network, &settings, &err));
    double decades = (rows[150].ln_apart - rows[200].ln_apart) / 50 / log(10);
    is_near("post-norm", decades, rs_law_post_norm_decades(&gains), 1e-10);
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "pre", 0);
    set_same(&same, &layer, 1000, 16, 64);
    OK(rs_theory_run(rows, &same.network, &settings, &err));
    rs_forecast f;
    OK(rs_forecast_of(&f, rows, 1000, &rs_predict_defaults, &err));
    assert_near("pre-norm", f.found.exponent, rs_law_pre_norm_exponent(&gains), 0.03, 0);
    int32_t depth = rs_forecast_depth_to(&f, 0.9);
    assert_true(depth > 0 && f.rows[depth].rho >= 0.9 && f.rows[depth - 1].rho < 0.9);
    assert_int_equal(rs_forecast_depth_to(&f, 1), -1);
    f.rows[2].rho = NAN;
    assert_int_equal(rs_forecast_depth_to(&f, 0.9), -1);
    rs_forecast_free(&f);
}

static void scaled_depth_has_a_limit(void **state)
{
    (void)state;
    is_near("attention and MLP", rs_law_scaled_limit(0, 16, 1, 1), .413709285747, 1e-11);
    is_near("attention alone", rs_law_scaled_limit(0, 16, 1, 0), .096977903676, 1e-11);
    rs_noci noci = {.n = 16, .f0 = 1024, .c0 = 1024};
    is_near("theorem 3.6", rs_law_scaled_limit(0, 16, 1, 0), rs_noci_rho_limit(&noci, 1), 1e-12);
    is_near("equal tokens", rs_law_scaled_limit(1, 16, 2, 3), 1, 1e-15);
}

static void condensation(void **state)
{
    (void)state;
    is_near("landmark", rs_law_condensation(1024), sqrt(20 * log(2)), 1e-15);
    is_near("above", rs_law_condensed_part(2 * sqrt(20 * log(2)), 1024), 0.5, 1e-14);
    assert_true(rs_law_condensed_part(1, 1024) == 0);
    for (double c = 1e-6; c < 1e4; c *= 20) {
        rs_softmax_moments m;
        rs_softmax_moments_of(&m, 100, c);
        if (m.second < 0.98) is_near("variance", rs_law_variance_of(m.second, 100), c, 1e-7);
    }
    assert_true(isnan(rs_law_variance_of(0.01, 100)) && isnan(rs_law_variance_of(1, 100)));
}

static void depth_to_a_correlation(void **state)
{
    (void)state;
    for (double target = 0.05; target < 1; target += 0.1) {
        rs_noci noci = {.n = 16, .f0 = 1, .c0 = 1.5, .mixer = 0.3, .mlp = 0.7};
        int64_t depth = rs_noci_depth_to(&noci, target);
        assert_true(rs_noci_rho(&noci, (double)depth) >= target);
        assert_true(depth == 0 || rs_noci_rho(&noci, (double)depth - 1) < target);
    }
    rs_noci still = {.n = 16, .f0 = 1, .c0 = 0, .mixer = 0.3};
    assert_int_equal(rs_noci_depth_to(&still, 0.5), -1);
    still.c0 = 2;
    assert_int_equal(rs_noci_depth_to(&still, 1), -1);
    assert_true(rs_noci_ln_f(&still, 1e6) > 1e5);
}

/* ---- kernels and shaped attention ---- */

static void kernels_are_carried(void **state)
{
    (void)state;
    enum { T = 7 };
    double a[T * T], kernel[T * T], next[T * T];
    for (int law = 0; law < 2; law++) {
        static const double steps[2][4] = {{0, 0.1, 0.5, 0.9}, {INFINITY, 3, 0.7, 0.02}};
        for (int i = 0; i < T * T; i++)
            kernel[i] = i / T == i % T;
        for (int l = 1; l < 4; l++) {
            double from = steps[law][l - 1], to = steps[law][l];
            assert_true(law ? rs_espa_attention(a, T, from, to)
                            : rs_uspa_attention(a, T, from, to));
            for (int i = 0; i < T * T; i++) {
                next[i] = 0;
                assert_true(a[i] >= -1e-15);
                for (int k = 0; k < T * T; k++)
                    next[i] += a[i / T * T + k / T] * kernel[k] * a[i % T * T + k % T];
            }
            for (int i = 0; i < T * T; i++) {
                int apart = abs(i / T - i % T);
                double expected = law ? exp(-to * apart) : apart ? to : 1;
                assert_near("kernel", next[i], expected, 0, 1e-14);
                kernel[i] = next[i];
            }
        }
    }
    assert_false(rs_uspa_attention(a, T, 0.5, 1));
    assert_false(rs_uspa_attention(a, T, -0.5, 0));
    assert_false(rs_espa_attention(a, T, 0.5, 0.6));
    assert_false(rs_espa_attention(a, T, 0.5, 0));
}

static void shaped_paths_follow_drift_and_noise(void **state)
{
    (void)state;
    static const double v0[] = {1, 0.2, 0.2, 1};
    rs_shaped shaped = {.m = 2, .gamma2 = 0.5, .tau0 = 1};
    double median[4], again[4];
    int32_t exploded = -1;
    /* early on medians move by the drift, and by noise of 1/√paths */
    rs_shaped_run run = {.time = 0.02, .steps = 4, .paths = 40000, .seed = 3};
    OK(rs_shaped_paths(median, &exploded, &shaped, v0, &run, &err));
    assert_int_equal(exploded, 0);
    double error = 1.2533 * sqrt(1.5 * 0.02 / 40000) + 0.02 * 0.02;
    assert_near("correlation", median[1], 0.2 + 0.02 * 0.016, 0, 4 * error);
    OK(rs_shaped_paths(again, &exploded, &shaped, v0, &run, &err));
    assert_memory_equal(median, again, sizeof median);
    run = (rs_shaped_run){.time = 4, .steps = 400, .paths = 300, .seed = 1};
    shaped.tau0 = 0.2;
    OK(rs_shaped_paths(median, &exploded, &shaped, v0, &run, &err));
    assert_true(exploded > 0 && exploded <= 300);
    shaped.gamma2 = 0;
    OK(rs_shaped_paths(median, &exploded, &shaped, v0, &run, &err));
    assert_true(exploded == 0 && median[0] == 1 && median[1] == 0.2);
    static const double no_covariance[] = {1, 2, 2, 1};
    assert_int_equal(rs_shaped_paths(median, &exploded, &shaped, no_covariance, &run, &err),
                     RS_E_BAD_OPTION);
    run.paths = 0;
    assert_int_equal(rs_shaped_paths(median, &exploded, &shaped, v0, &run, &err), RS_E_BAD_OPTION);
    run.paths = 1;
    shaped.m = 65;
    assert_int_equal(rs_shaped_paths(median, &exploded, &shaped, v0, &run, &err), RS_E_BAD_OPTION);
    shaped.m = 2;
    shaped.tau0 = 0;
    assert_int_equal(rs_shaped_paths(median, &exploded, &shaped, v0, &run, &err), RS_E_BAD_OPTION);
}

static void laws_of_width(void **state)
{
    (void)state;
    is_near("s1", rs_gap_first(1, 100), sqrt(1.01), 1e-15);
    is_near("lambda2", rs_gap_eigenvalue(1, 400), 0.05, 1e-15);
    is_near("stable rank", rs_gap_stable_rank(1), 2, 1e-15);
    is_near("later layers", rs_gap_stable_rank_gram(1, 50, 1, 2) - 1, 5.0 / 125000, 1e-10);
    is_near("first gradient", exp(rs_gap_ln_gradient(1, 100, 1)), 200, 1e-12);
    /* three factors: 27/256 and 4·(27/256)² */
    is_near("three factors", rs_gap_fixed_rank(3), 27.0 / 256, 1e-14);
    is_near("three factors", rs_gap_fixed_rank_gram(3), 4 * 27.0 / 256 * 27 / 256, 1e-14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_vectors_come_out),
        cmocka_unit_test(decades_and_exponents),
        cmocka_unit_test(recursions_obey_their_laws),
        cmocka_unit_test(scaled_depth_has_a_limit),
        cmocka_unit_test(condensation),
        cmocka_unit_test(depth_to_a_correlation),
        cmocka_unit_test(kernels_are_carried),
        cmocka_unit_test(shaped_paths_follow_drift_and_noise),
        cmocka_unit_test(laws_of_width),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
