/* test_predict_verdict.c: each threshold of the verdict from both sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "predict/forecast.h"
#include "predict/verdict.h"
#include "predict_support.h"

enum { DEPTH = 4 };

static rs_predict_found judge(const double *apart, const double *square, const double *state)
{
    rs_predict_found found;
    rs_predict_columns columns = {
        .n_layers = DEPTH, .log10_apart = apart, .log10_square = square, .log10_state = state};
    rs_predict_judge(&found, &columns, &rs_predict_defaults);
    return found;
}

static const double flat[DEPTH + 1] = {2, 2, 2, 2, 2};

static void expect(const double *apart, rs_predict_verdict verdict, rs_predict_severity severity)
{
    rs_predict_found found = judge(apart, flat, NULL);
    if (found.verdict != verdict || found.severity != severity)
        fail_msg("%s (%d) instead of %s", rs_predict_verdict_code(found.verdict),
                 (int)found.severity, rs_predict_verdict_code(verdict));
}

static void falls_are_told_apart(void **state)
{
    (void)state;
    /* e_L just above and below e_0/2 */
    expect((double[]){0, 0, 0, -0.2, -0.30}, RS_PREDICT_HEALTHY, RS_PREDICT_INFO);
    expect((double[]){0, -0.1, -0.2, -0.25, -0.31}, RS_PREDICT_SLOW, RS_PREDICT_INFO);
    /* p = (fall over the second half)/log₁₀ 2 at 1.5 */
    expect((double[]){0, -0.2, -0.4, -0.6, -0.85}, RS_PREDICT_SLOW, RS_PREDICT_INFO);
    expect((double[]){0, -0.2, -0.4, -0.6, -0.86}, RS_PREDICT_EXPONENTIAL, RS_PREDICT_WARN);
    expect((double[]){0, -0.5, -1, -1.5, -1.99}, RS_PREDICT_EXPONENTIAL, RS_PREDICT_WARN);
    expect((double[]){0, -0.5, -1, -1.5, -2.01}, RS_PREDICT_EXPONENTIAL, RS_PREDICT_CRITICAL);
    /* log₁₀ e times 1.5 in both of the last blocks, e below 0.1 in both */
    expect((double[]){0, -0.3, -0.8, -1.21, -1.82}, RS_PREDICT_DOUBLY_EXPONENTIAL,
           RS_PREDICT_CRITICAL);
    expect((double[]){0, -0.3, -0.8, -1.19, -1.82}, RS_PREDICT_EXPONENTIAL, RS_PREDICT_WARN);
    expect((double[]){0, -0.3, -0.5, -0.99, -1.82}, RS_PREDICT_EXPONENTIAL, RS_PREDICT_WARN);
    expect((double[]){0.1, 0.1, 0.1, -1.1, -1.8}, RS_PREDICT_EXPONENTIAL, RS_PREDICT_WARN);
    expect((double[]){0, -9, -1e30, -1e299, -4.3e299}, RS_PREDICT_DOUBLY_EXPONENTIAL,
           RS_PREDICT_CRITICAL);
    rs_predict_found found = judge((double[]){0, -0.2, -0.4, -0.6, -0.86}, flat, NULL);
    is_near("exponent", found.exponent, 0.46 / log10(2), 1e-14);
}

static void equal_tokens_are_critical(void **state)
{
    (void)state;
    static const double equal[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    rs_predict_found found = judge(equal, flat, NULL);
    assert_int_equal(found.verdict, RS_PREDICT_EXPONENTIAL);
    assert_int_equal(found.severity, RS_PREDICT_CRITICAL);
    assert_true(found.equal_from_start && isnan(found.exponent));
}

static void explosions_come_first(void **state)
{
    (void)state;
    static const double level[] = {0, 0, 0, 0, 0}, before[] = {-9, -3, 2, 2, 2};
    static const double up[] = {0, 0, 0, 1, 3.1}, down[] = {0, 0, 0, -1, -3.1};
    static const double not_yet[] = {0, 0, 0, 1, 2.9}, none[] = {NAN, NAN, NAN, NAN, NAN};
    assert_int_equal(judge(level, up, none).verdict, RS_PREDICT_EXPLOSION);
    assert_int_equal(judge(level, flat, down).verdict, RS_PREDICT_EXPLOSION);
    assert_int_equal(judge(level, flat, down).severity, RS_PREDICT_CRITICAL);
    assert_int_equal(judge(level, not_yet, not_yet).verdict, RS_PREDICT_HEALTHY);
    assert_int_equal(judge(level, before, NULL).verdict, RS_PREDICT_HEALTHY);
    is_near("decades", judge(level, not_yet, down).decades, 3.1, 1e-14);
    assert_int_equal(judge(none, flat, NULL).verdict, RS_PREDICT_UNKNOWN);
    assert_int_equal(judge(level, none, NULL).verdict, RS_PREDICT_UNKNOWN);
}

/* Behind the layers that float64 holds apart the word is theirs, where it is one of collapse. */
static void hidden_states_have_the_word_of_those_before(void **state)
{
    (void)state;
    static const struct {
        double apart[7];
        int32_t lost_from;
        double most;
        rs_predict_verdict verdict;
    } cases[] = {
        {{0, -0.19, -5.05, -20.4, NAN, NAN, NAN}, 4, -28, RS_PREDICT_DOUBLY_EXPONENTIAL},
        {{0, -6, -12, -18, -24, NAN, NAN}, 5, -28, RS_PREDICT_EXPONENTIAL},
        {{0, NAN, NAN, NAN, NAN, NAN, NAN}, 1, -28, RS_PREDICT_UNKNOWN},
        {{0, -0.1, NAN, NAN, NAN, NAN, NAN}, 2, -28, RS_PREDICT_UNKNOWN},
        {{0, -6, -12, -18, -24, NAN, NAN}, 5, -0.3, RS_PREDICT_UNKNOWN},
        {{-INFINITY, NAN, NAN, NAN, NAN, NAN, NAN}, 1, -28, RS_PREDICT_EXPONENTIAL},
    };
    static const double level[7] = {2, 2, 2, 2, 2, 2, 2};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rs_predict_columns columns = {.n_layers = 6,
                                            .log10_apart = cases[i].apart,
                                            .log10_square = level,
                                            .lost_from = cases[i].lost_from,
                                            .log10_most = cases[i].most};
        rs_predict_found found;
        rs_predict_judge(&found, &columns, &rs_predict_defaults);
        assert_int_equal(found.verdict, cases[i].verdict);
        bool named = cases[i].verdict != RS_PREDICT_UNKNOWN;
        assert_int_equal(found.severity, named ? RS_PREDICT_CRITICAL : RS_PREDICT_INFO);
        assert_true(named || found.to_floor);
    }
}

static void one_block_has_no_exponent(void **state)
{
    (void)state;
    rs_predict_found found;
    static const double apart[] = {0, -5};
    rs_predict_columns one = {.n_layers = 1, .log10_apart = apart, .log10_square = flat};
    rs_predict_judge(&found, &one, &rs_predict_defaults);
    assert_true(isnan(found.exponent));
    assert_int_equal(found.verdict, RS_PREDICT_SLOW);
    one.n_layers = 0;
    rs_predict_judge(&found, &one, &rs_predict_defaults);
    assert_int_equal(found.verdict, RS_PREDICT_HEALTHY);
}

static void thresholds_have_names(void **state)
{
    (void)state;
    rs_predict_thresholds t = rs_predict_defaults;
    size_t n = 0;
    for (; rs_predict_threshold_name(n); n++)
        OK(rs_predict_threshold_set(&t, rs_predict_threshold_name(n), 7 + (double)n, &err));
    assert_int_equal(n, 8);
    assert_true(t.explosion_decades == 7 && t.halving == 8 && t.power_exponent == 9);
    assert_true(t.doubly_factor == 10 && t.doubly_below == 11 && t.critical_below == 12);
    assert_true(t.embedding_ratio == 13 && t.condensed == 14);
    assert_int_equal(rs_predict_threshold_set(&t, "halfing", 1, &err), RS_E_BAD_OPTION);
    assert_int_equal(rs_predict_threshold_set(&t, "halving", 0, &err), RS_E_BAD_OPTION);
    assert_int_equal(rs_predict_threshold_set(&t, "halving", NAN, &err), RS_E_BAD_OPTION);
    assert_string_equal(rs_predict_verdict_code(RS_PREDICT_SLOW), "slow");
    assert_string_equal(rs_predict_verdict_code((rs_predict_verdict)99), "unknown");
}

/* ---- the networks of the literature, unmasked, n = 128, d = 512, MLP width 4d ---- */

static same_layers same;
static rs_theory_row rows[LAYERS_MOST + 1];

/* Xavier's 2/(fan_in + fan_out) times fan_in. */
static rs_theory_layer xavier_layer(const char *place)
{
    rs_theory_layer layer = plain_layer();
    layer.branches[1].mlp.up = 2 / 5.0;
    layer.branches[1].mlp.down = 8 / 5.0;
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], place, 1e-5);
    return layer;
}

static rs_predict_found judged(int32_t depth)
{
    rs_forecast f;
    OK(rs_forecast_of(&f, rows, depth, &rs_predict_defaults, &err));
    rs_predict_found found = f.found;
    rs_forecast_free(&f);
    return found;
}

static rs_predict_found verdict_of(const rs_theory_layer *layer, int32_t depth, double rho)
{
    rs_theory_settings settings = {0};
    set_same(&same, layer, depth, 128, 512);
    same.network.rho0 = rho;
    OK(rs_theory_run(rows, &same.network, &settings, &err));
    return judged(depth);
}

static void is_verdict(const char *name, rs_predict_found found, rs_predict_verdict verdict,
                       rs_predict_severity severity)
{
    if (found.verdict != verdict || found.severity != severity)
        fail_msg("%s: %s (%d)", name, rs_predict_verdict_code(found.verdict), (int)found.severity);
}

static void known_networks_have_known_verdicts(void **state)
{
    (void)state;
    rs_theory_layer layer = xavier_layer("post");
    is_verdict("post-norm-xavier-6", verdict_of(&layer, 6, 0), RS_PREDICT_EXPONENTIAL,
               RS_PREDICT_WARN);
    is_verdict("post-norm-xavier-18", verdict_of(&layer, 18, 0), RS_PREDICT_EXPONENTIAL,
               RS_PREDICT_CRITICAL);
    is_verdict("post-norm-xavier-96", verdict_of(&layer, 96, 0), RS_PREDICT_EXPONENTIAL,
               RS_PREDICT_CRITICAL);
    double gain = pow(8 * 1000.0, -0.5); /* variance of (8L)^−¼ */
    layer.branches[0].skip = layer.branches[1].skip = pow(2 * 1000.0, 0.25);
    layer.branches[0].attention.values = layer.branches[0].attention.output = gain;
    layer.branches[1].mlp.up *= gain;
    layer.branches[1].mlp.down *= gain;
    is_verdict("deepnet-1000", verdict_of(&layer, 1000, 0), RS_PREDICT_HEALTHY, RS_PREDICT_INFO);
    layer = xavier_layer("pre");
    is_verdict("pre-norm-96", verdict_of(&layer, 96, 0), RS_PREDICT_SLOW, RS_PREDICT_INFO);
    layer = xavier_layer("none");
    layer.branches[0].scale = layer.branches[1].scale = 0;
    is_verdict("rezero-64", verdict_of(&layer, 64, 0), RS_PREDICT_HEALTHY, RS_PREDICT_INFO);
    layer = plain_layer(); /* fan-in */
    layer.branches[0].attention.merged = true;
    layer.branches[0].attention.output = 1;
    is_verdict("no-norm-32", verdict_of(&layer, 32, 0), RS_PREDICT_EXPLOSION, RS_PREDICT_CRITICAL);
    layer.branches[0].scale = layer.branches[1].scale = 1 / sqrt(32);
    is_verdict("no-norm-32, 1/sqrt(L)", verdict_of(&layer, 32, 0), RS_PREDICT_HEALTHY,
               RS_PREDICT_INFO);
    layer = plain_layer();
    layer.n_branches = 1;
    layer.branches[0].skip = 0;
    layer.branches[0].attention.merged = true;
    layer.branches[0].attention.output = 1;
    is_verdict("attention-only-6", verdict_of(&layer, 6, 0), RS_PREDICT_DOUBLY_EXPONENTIAL,
               RS_PREDICT_CRITICAL);
    for (int k = 0; k < 2; k++) {
        layer = plain_layer();
        for (int b = 0; b < 2; b++) {
            set_norms(&layer.branches[b], "pre", 1e-5);
            layer.branches[b].scale = k ? 1 / 64.0 : 1 / 8.0;
        }
        rs_predict_found found = verdict_of(&layer, 64, 0);
        assert_true(found.verdict == RS_PREDICT_HEALTHY || found.verdict == RS_PREDICT_SLOW);
    }
}

/* 0.02 for all maps, width 768. */
static rs_theory_layer normal_layer(const char *place, double width)
{
    rs_theory_layer layer = plain_layer();
    rs_theory_attention *a = &layer.branches[0].attention;
    a->queries = a->keys = a->values = a->output = 4e-4 * width;
    layer.branches[1].mlp =
        (rs_theory_mlp){.kind = RS_GAUSS_GELU, .up = 4e-4 * width, .down = 16e-4 * width};
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], place, 1e-12);
    return layer;
}

static void published_initialisations(void **state)
{
    (void)state;
    rs_theory_layer layer = normal_layer("post", 768);
    is_verdict("bert-base", verdict_of(&layer, 12, 1 / 3.0), RS_PREDICT_HEALTHY, RS_PREDICT_INFO);
    layer = normal_layer("post", 2 * 768);
    is_verdict("bert-base, twice as wide", verdict_of(&layer, 12, 1 / 3.0), RS_PREDICT_EXPONENTIAL,
               RS_PREDICT_WARN);
    layer = normal_layer("pre", 768);
    is_verdict("vit-b16", verdict_of(&layer, 12, 0), RS_PREDICT_HEALTHY, RS_PREDICT_INFO);
    /* causal, residual outputs over √24, token and position of 0.02² each */
    layer.branches[0].attention.causal = true;
    layer.branches[0].attention.output /= 24;
    layer.branches[1].mlp.down /= 24;
    rs_predict_found found;
    rs_theory_settings settings = {0};
    set_same(&same, &layer, 12, 128, 768);
    same.network.ln_square0 = log(8e-4);
    OK(rs_theory_run(rows, &same.network, &settings, &err));
    found = judged(12);
    is_verdict("gpt2", found, RS_PREDICT_SLOW, RS_PREDICT_INFO);
}

/* llama-2-7b at 32 tokens: 0.02 for all, rotary, RMSNorm, SwiGLU. */
static void rotary_initialisation(void **state)
{
    (void)state;
    enum { PAIRS = 64 };
    double frequencies[PAIRS], gain = 4e-4 * 4096;
    for (int t = 0; t < PAIRS; t++)
        frequencies[t] = pow(1e4, -t / 64.0);
    rs_theory_layer layer = plain_layer();
    rs_theory_attention *a = &layer.branches[0].attention;
    a->queries = a->keys = a->values = a->output = gain;
    a->causal = true;
    a->pairs = PAIRS;
    a->frequencies = frequencies;
    layer.branches[1].mlp = (rs_theory_mlp){
        .kind = RS_GAUSS_SILU, .gated = true, .up = gain, .gate = gain, .down = 4e-4 * 11008};
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "pre", 1e-5);
    rs_predict_found found;
    rs_theory_settings settings = {0};
    set_same(&same, &layer, 32, 32, 4096);
    same.network.ln_square0 = log(4e-4);
    OK(rs_theory_run(rows, &same.network, &settings, &err));
    found = judged(32);
    is_verdict("llama-2-7b", found, RS_PREDICT_HEALTHY, RS_PREDICT_INFO);
    assert_int_equal(rows[32].forward, RS_FORMULA_GRAM_TURNED);
    assert_true(rows[1].ln_square - rows[0].ln_square > log(rs_predict_defaults.embedding_ratio));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(falls_are_told_apart),
        cmocka_unit_test(equal_tokens_are_critical),
        cmocka_unit_test(explosions_come_first),
        cmocka_unit_test(one_block_has_no_exponent),
        cmocka_unit_test(hidden_states_have_the_word_of_those_before),
        cmocka_unit_test(thresholds_have_names),
        cmocka_unit_test(known_networks_have_known_verdicts),
        cmocka_unit_test(published_initialisations),
        cmocka_unit_test(rotary_initialisation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
