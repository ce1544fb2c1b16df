/* test_certify_mixers.c: `certify` of mixers without softmax: what their weights say, what hangs on
 * their rounding, theorem C and the sign rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "certify_claims.h"

#include <jansson.h>

/* Of layers with a state-space mixer nothing is proved of how far tokens are apart, nor of an
 * attention beside one; of a hybrid's other layers what holds of them. What a branch keeps hangs on
 * its rounding: without --fast that of a scan is bounded, that of multiplied maps is not and is left
 * out; what the weights say hangs on nothing. */
static void hybrids(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool some, bounded; /* bounded: no multipliers of its attention's maps */
    } cases[] = {{"falcon_h1", false, false},
                 {"falcon_h1_gate_first", false, true},
                 {"nemotron_h", true, true}};
    put(tokens_path, "[[1,2,3,4,5,6,7],[5,3],[7],[2,2,2,2]]");
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        char path[512];
        bool rigorous = i % 2, some = cases[i / 2].some;
        snprintf(path, sizeof path, RS_TEST_DATA "/forward/%s", cases[i / 2].name);
        rs_certify_request request = request_for(path);
        request.options.rigorous = rigorous;
        rs_result *result = run(&request);
        assert_int_equal(check_bounds(result, cases[i / 2].name) > 0, some);
        check_conditions(result, rigorous);
        assert_non_null(strstr(finding(result, "no_certificate")->message, "no theorem"));
        const rs_table *lambda = rs_result_table(result, "lambda");
        for (size_t row = 0; row < rs_table_rows(lambda); row++) {
            bool left_out = rigorous && !cases[i / 2].bounded;
            if (!some) assert_int_equal(isnan(cell(lambda, row, "kept_now")), left_out);
            if (!some) assert_true(isnan(cell(lambda, row, "kept_for_any_input")));
            if (!some && !rigorous)
                assert_int_equal(whole(lambda, row, "kept_now_error_conditional"), 1);
            assert_true(cell(lambda, row, "weights_only_gain") > 0);
            assert_true(cell(lambda, row, "demanded_by_theorem_d") > 1);
            assert_int_equal(whole(lambda, row, "demanded_by_theorem_d_conditional"), 0);
        }
        rs_result_free(result);
    }
}

/* Layers of one scan and no MLP: what the mixer keeps says how far tokens stay apart at least. With
 * --fast that hangs on the rounding of the scan. */
static void scans_keep_tokens_apart(void **state)
{
    (void)state;
    static const char *const models[] = {"mamba", "mamba2", "falcon_mamba"};
    put(tokens_path, "[[1,2,3,4,5,6,7],[5,3],[7],[2,2,2,2]]");
    for (size_t i = 0; i < 2 * sizeof models / sizeof *models; i++) {
        char path[512];
        bool rigorous = i % 2;
        snprintf(path, sizeof path, RS_TEST_DATA "/forward/%s", models[i / 2]);
        rs_certify_request request = request_for(path);
        request.options.rigorous = rigorous;
        rs_result *result = run(&request);
        check_bounds(result, models[i / 2]);
        check_conditions(result, rigorous);
        const rs_table *bounds = rs_result_table(result, "bounds");
        for (size_t row = 0; row < rs_table_rows(bounds); row++) {
            double most = cell(bounds, row, "measured_diameter");
            double least = cell(bounds, row, "certified_at_least");
            if (!(cell(bounds, row, "entering_diameter") > 0)) continue;
            if (!(least > 0.2 * most && least <= most))
                fail_msg("%s, row %zu: %g of %g", models[i / 2], row, least, most);
            assert_string_equal(text(bounds, row, "at_least_by"), "mixer");
            assert_int_equal(whole(bounds, row, "certified_at_least_conditional"), !rigorous);
        }
        rs_result_free(result);
    }
}

/* ---- gains of mixers without softmax ---- */

/* weights_only_gain of layer 0 and why it is null; theorem A for the layer, and theorem D. */
typedef struct gain_row {
    double gain, theorem_a, theorem_a_layer, theorem_d;
    char failed[120];
} gain_row;

static gain_row gain_of(const char *mixer, const char *norm, const char *more)
{
    char arch[600];
    snprintf(arch, sizeof arch,
             "{\"depth\":1,\"d_model\":8,\"heads\":2,\"d_head\":4,\"state\":3,"
             "\"mlp\":\"none\",\"norm_kind\":\"rmsnorm\",\"mixer\":\"%s\",\"norm\":\"%s\"%s}",
             mixer, norm, more);
    rs_result *result = theory(arch, true);
    const rs_table *lambda = rs_result_table(result, "lambda");
    assert_true(rs_table_rows(lambda) > 0);
    gain_row row = {cell(lambda, 0, "weights_only_gain"),
                    cell(lambda, 0, "demanded_by_theorem_a"),
                    cell(lambda, 0, "demanded_by_theorem_a_layer"),
                    cell(lambda, 0, "demanded_by_theorem_d"),
                    {0}};
    const char *failed = text(lambda, 0, "weights_only_gain_failed");
    if (failed) snprintf(row.failed, sizeof row.failed, "%s", failed);
    check_conditions(result, true);
    rs_result_free(result);
    return row;
}

/* Which mixers have a gain, and what follows from it: theorem D before a norm, theorem A behind
 * one; where there is none, the reason. Orthogonal output maps make gains of 1 a norm's √(inner/d).
 */
static void gains_without_softmax(void **state)
{
    (void)state;
    static const char orthogonal[] = ",\"init\":{\"wo\":\"orthogonal\"}";
    gain_row row = gain_of("mamba2", "pre", orthogonal);
    assert_true(row.gain >= 1 && row.gain < 1 + 1e-6);
    assert_true(row.theorem_d > 1 && isnan(row.theorem_a_layer));
    row = gain_of("mamba2", "none", orthogonal); /* the inner norm alone bounds it */
    assert_true(row.gain >= 1 && row.gain < 1 + 1e-6 && isnan(row.theorem_d));
    row = gain_of("mamba2", "post", orthogonal);
    assert_true(row.gain >= 1 && isnan(row.theorem_d) && isnan(row.theorem_a));
    assert_true(row.theorem_a_layer > 0 || isnan(row.theorem_a_layer));
    row = gain_of("mamba2", "pre", ",\"gate\":\"after\",\"init\":{\"wo\":\"orthogonal\"}");
    assert_true(row.gain > 0 && fabs(row.gain - 1) > 1e-3);
    row = gain_of("mamba2", "none", ",\"gate\":\"after\"");
    assert_non_null(strstr(row.failed, "a norm before the branch"));
    assert_true(gain_of("mamba2", "pre", ",\"inner_norm\":false").gain > 1);
    assert_non_null(
        strstr(gain_of("mamba2", "none", ",\"inner_norm\":false").failed, "a norm before"));
    assert_true(gain_of("mamba", "pre", "").gain > 0);
    assert_true(gain_of("mamba", "pre", ",\"inner_norm\":true").gain > 0);
    assert_non_null(strstr(gain_of("mamba", "none", "").failed, "a norm before the branch"));
    assert_true(gain_of("gated_delta", "pre", "").gain > 0);
    assert_non_null(strstr(gain_of("gated_delta", "pre", ",\"inner_norm\":false").failed, "delta"));
    assert_true(gain_of("linear_attention", "pre", ",\"inner_norm\":true").gain > 0);
    assert_non_null(strstr(gain_of("linear_attention", "pre", "").failed, "linear attention"));
    assert_non_null(strstr(gain_of("short_conv", "pre", "").failed, "no theorem"));
}

/* Theorem C and the sign rule of linear attention whose values are the tokens: what is said is
 * conditional, left out under --rigorous, and null with a reason where a hypothesis fails. */
static void a_scalar_value_map_has_theorem_c(void **state)
{
    (void)state;
    static const char form[] =
        "{\"depth\":2,\"d_model\":8,\"heads\":1,\"d_head\":8,\"seq_len\":5,\"norm\":\"%s\","
        "\"norm_kind\":\"rmsnorm\",\"mlp\":\"none\",\"mixer\":\"linear_attention\",\"mask\":\"%s\","
        "\"value_map\":\"identity\",\"init\":{\"wo\":\"none\"},\"skip_mixer\":%s}";
    static const struct {
        const char *norm, *mask, *skip;
        bool kept, outcome;
    } cases[] = {{"post", "causal", "4000", true, true},
                 {"post", "none", "-4000", true, false},
                 {"post", "causal", "0.001", false, true},
                 {"pre", "causal", "4000", false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int rigorous = 0; rigorous < 2; rigorous++) {
            char arch[600];
            snprintf(arch, sizeof arch, form, cases[i].norm, cases[i].mask, cases[i].skip);
            rs_result *result = theory(arch, rigorous);
            const rs_table *lambda = rs_result_table(result, "lambda");
            double kept = cell(lambda, 0, "theorem_c_kept");
            bool told = cases[i].kept && !rigorous;
            if (told ? !(kept > 0.9 && kept <= 1) : kept > 0) fail_msg("case %zu: %g", i, kept);
            if (told) assert_int_equal(whole(lambda, 0, "theorem_c_kept_conditional"), 1);
            if (isnan(kept)) assert_non_null(text(lambda, 0, "theorem_c_failed"));
            assert_int_equal(text(lambda, 0, "consensus_outcome") != NULL, cases[i].outcome);
            for (size_t row = 0; row < rs_table_rows(lambda); row++) {
                double rate = cell(lambda, row, "consensus_stack");
                const char *far = text(lambda, row, "consensus_stack_outcome");
                assert_int_equal(!isnan(rate), cases[i].outcome);
                assert_int_equal(far != NULL, cases[i].outcome);
                assert_int_equal(text(lambda, row, "consensus_stack_failed") != NULL,
                                 !cases[i].outcome);
                /* one token's product is at most the product of the largest */
                int64_t layer = whole(lambda, row, "layer");
                double own = cell(lambda, row, "consensus_multiplier");
                double before = layer ? cell(lambda, row - 1, "consensus_multiplier") : 1;
                if (!isnan(rate)) assert_true(rate <= before * own * (1 + 1e-12) && rate > 0);
                if (!isnan(rate) && !layer) assert_true(rate == own);
            }
            check_conditions(result, rigorous);
            rs_result_free(result);
        }
}

/* Gains by their formulas, written down a second time (tests/oracle/make_lambda_gains_golden.py):
 * biases, limits of steps, normed B, C and steps, multipliers, a gate behind the norm, no norm, no
 * gate. What is claimed may be larger by rounding alone. */
static void gains_have_their_values(void **state)
{
    (void)state;
    json_error_t problem;
    json_t *cases = json_load_file(RS_TEST_DATA "/lambda/gains.json", 0, &problem), *item;
    size_t i, met = 0;
    put(tokens_path, "[[1,2,3,4,5,6,7],[5,3]]");
    json_array_foreach(cases, i, item)
    {
        char path[512];
        rs_error error;
        const char *edit = json_string_value(json_object_get(item, "edit"));
        const char *model = json_string_value(json_object_get(item, "model"));
        int64_t layer = json_integer_value(json_object_get(item, "layer"));
        double wanted = json_real_value(json_object_get(item, "gain")), found = NAN;
        snprintf(path, sizeof path, RS_TEST_DATA "/forward/%s", model);
        rs_certify_request request = request_for(path);
        if (edit && rs_edit_option(&request.options.edit, edit, NULL, &error) != RS_OK)
            fail_msg("%s", error.what);
        rs_error none = {0};
        rs_result *result;
        if (try(&result, &request, 2, &none) != RS_OK) continue; /* nothing to take away */
        const rs_table *lambda = rs_result_table(result, "lambda");
        for (size_t row = 0; row < rs_table_rows(lambda); row++)
            if (whole(lambda, row, "layer") == layer)
                found = cell(lambda, row, "weights_only_gain");
        if (!(found >= wanted * (1 - 1e-12) && found <= wanted * (1 + 1e-9)))
            fail_msg("%s --%s, layer %d: %.17g, formula %.17g", model, edit ? edit : "", (int)layer,
                     found, wanted);
        rs_result_free(result);
        met++;
    }
    assert_true(met >= 44);
    json_decref(cases);
}

/* A rate of 0 (docs/theory/corrections.md, 21): the bound grows with the tokens, and is there. */
static void gains_grow_with_the_tokens(void **state)
{
    (void)state;
    double last = 0;
    for (int n = 2; n <= 32; n *= 4) {
        char more[120];
        snprintf(more, sizeof more, ",\"inner_norm\":false,\"dt_init\":[1e-6,1e-6],\"seq_len\":%d",
                 n);
        gain_row row = gain_of("mamba2", "pre", more);
        assert_true(row.gain > last);
        last = row.gain;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hybrids),
        cmocka_unit_test(scans_keep_tokens_apart),
        cmocka_unit_test(gains_without_softmax),
        cmocka_unit_test(a_scalar_value_map_has_theorem_c),
        cmocka_unit_test(gains_have_their_values),
        cmocka_unit_test(gains_grow_with_the_tokens),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
