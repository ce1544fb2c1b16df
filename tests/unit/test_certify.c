/*
 * test_certify.c: `certify` on whole models: every measured diameter lies between its certified
 * bounds whatever the family, edits change what is proved and never make it false, and the corners
 * (one token, equal tokens, huge logits, λ = 0 and huge, 200 layers, memory that ends).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "certify_support.h"

#include <jansson.h>

/* A chain speaks of all samples: null where one has none, no smaller than any that has one. */
static void check_chains(const rs_result *result, const char *name)
{
    const rs_table *chains = rs_result_table(result, "chains");
    const rs_table *bounds = rs_result_table(result, "bounds");
    for (size_t row = 0; row < rs_table_rows(chains); row++) {
        int64_t source = whole(chains, row, "source_layer"), layer = whole(chains, row, "layer");
        double largest = cell(chains, row, "log10_certified");
        if (isnan(largest)) continue;
        for (size_t k = 0; k < rs_table_rows(bounds); k++) {
            int64_t at = whole(bounds, k, "layer");
            if (source > 0 && at == source - 1 && whole(bounds, k, "at_floor") == 1)
                fail_msg("%s: chain from %d although a state is rounding", name, (int)source);
            double from_input = cell(bounds, k, "log10_certified_from_input");
            if (source > 0 || at != layer) continue;
            bool none = isnan(from_input) && cell(bounds, k, "certified_from_input") != 0;
            if (none || largest < from_input - 1e-12)
                fail_msg("%s: chain to %d is not of every sample", name, (int)layer);
        }
    }
}

/* Every measured diameter within what is proved of it; the float64 pass errs by rounding. */
static int64_t check_bounds(const rs_result *result, const char *name)
{
    const rs_table *bounds = rs_result_table(result, "bounds");
    int64_t proved = 0;
    assert_non_null(bounds);
    check_chains(result, name);
    for (size_t row = 0; row < rs_table_rows(bounds); row++) {
        double measured = cell(bounds, row, "measured_diameter");
        double room = 1e-11 * (measured + cell(bounds, row, "entering_diameter") + 1);
        const char *const upper[] = {"certified_one_layer", "certified_from_input",
                                     "certified_diameter"};
        for (size_t k = 0; k < 3; k++) {
            double at_most = cell(bounds, row, upper[k]);
            if (!isnan(at_most) && !(measured <= at_most + room))
                fail_msg("%s, row %zu: %s %g, measured %g", name, row, upper[k], at_most, measured);
            proved += !isnan(at_most);
        }
        double at_least = cell(bounds, row, "certified_at_least");
        if (!isnan(at_least) && !(measured >= at_least - room))
            fail_msg("%s, row %zu: at least %g, measured %g", name, row, at_least, measured);
        double composite = cell(bounds, row, "residual_1inf");
        double recursion = cell(bounds, row, "log10_recursion");
        if (!isnan(recursion) && composite > 1e-10)
            assert_true(log10(composite) <= recursion + 1e-9);
        recursion = cell(bounds, row, "log10_recursion_one_layer");
        if (!isnan(recursion) && composite > 1e-10)
            assert_true(log10(composite) <= recursion + 1e-9);
    }
    return proved;
}

/* Every certified number says whether it hangs on a condition; what does is in no sentence that
 * speaks of proof, and gone under --rigorous. */
static void check_conditions(const rs_result *result, bool rigorous)
{
    static const struct {
        const char *table, *column;
    } twins[] = {{"bounds", "certified_diameter"},
                 {"bounds", "certified_one_layer"},
                 {"bounds", "certified_from_input"},
                 {"bounds", "certified_at_least"},
                 {"bounds", "recursion"},
                 {"bounds", "recursion_one_layer"},
                 {"lambda", "lambda_certified"},
                 {"lambda", "lambda_certified_negative"},
                 {"lambda", "kept_now_error"},
                 {"lambda", "demanded_by_theorem_a"},
                 {"lambda", "demanded_by_theorem_a_layer"},
                 {"lambda", "demanded_by_theorem_b"},
                 {"lambda", "demanded_by_theorem_d"},
                 {"lambda", "weights_only_gain"},
                 {"lambda", "over_smoothing_v"},
                 {"lambda", "mlp_weights_only_gain"},
                 {"lambda", "demanded_for_any_input"},
                 {"lambda", "kept_for_any_input"},
                 {"lambda", "theorem_d_kept"}};
    int64_t conditional = 0, proved = 0;
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        const rs_table *table = rs_result_table(result, twins[i].table);
        char name[80];
        snprintf(name, sizeof name, "%s_conditional", twins[i].column);
        for (size_t row = 0; row < rs_table_rows(table); row++) {
            int64_t twin = whole(table, row, name);
            if (isnan(cell(table, row, twins[i].column))) continue;
            if (twin != 0 && twin != 1) fail_msg("row %zu: no %s", row, name);
            conditional += twin == 1;
            proved += twin == 0 && strcmp(twins[i].table, "bounds") == 0;
        }
    }
    assert_true(!rigorous || conditional == 0);
    if (!conditional || proved) return;
    static const char *const words[] = {"prov", "certif"};
    for (size_t i = 0; i < rs_result_finding_count(result); i++) {
        const rs_finding *f = rs_result_finding_at(result, i);
        bool denies = strstr(f->message, "not proved") || strstr(f->message, "is proved to keep") ||
                      strcmp(f->code, "bound_vacuous") == 0 ||
                      strcmp(f->code, "no_certificate") == 0;
        for (size_t k = 0; k < 2; k++)
            if (!denies && strstr(f->message, words[k])) fail_msg("%s: %s", f->code, f->message);
    }
}

/* ---- families ---- */

static void all_families(void **state)
{
    (void)state;
    static const char *const families[] = {
        "bert",      "albert",      "roberta",      "gpt2",          "gpt_neox",
        "llama",     "qwen2",       "qwen3",        "gemma",         "gemma2",
        "gemma3",    "xlnet",       "opt",          "phi",           "olmo2",
        "falcon",    "granite",     "phi3",         "distilbert",    "mistral",
        "olmo",      "camembert",   "gpt2_scales",  "gemma3_scaled", "llama_old_form",
        "bert_relu", "xlnet_clamp", "qwen2_window", "falcon_new",    "gpt_neox_serial"};
    int met = 0;
    put(tokens_path, "[[1,2,3,4,5,6,7],[5,3],[7],[2,2,2,2]]");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (int rigorous = 0; rigorous < 2; rigorous++) {
            char path[512];
            snprintf(path, sizeof path, RS_TEST_DATA "/forward/%s/config.json", families[i]);
            if (access(path, R_OK) != 0) continue;
            path[strlen(path) - strlen("/config.json")] = 0;
            rs_certify_request request = request_for(path);
            request.options.rigorous = rigorous;
            rs_result *result = run(&request);
            int64_t proved = check_bounds(result, families[i]);
            bool hangs = strncmp(families[i], "xlnet", 5) == 0; /* relative positions */
            check_conditions(result, rigorous);
            assert_true(rigorous && hangs ? proved == 0 : proved > 0);
            assert_true(!hangs || finding(result, rigorous ? "no_certificate" : "conditional"));
            assert_true(!hangs == !finding(result, "lambda_conditional"));
            rs_result_free(result);
            met++;
        }
    assert_true(met >= 48);
}

/* Of layers with a state-space mixer nothing is proved of how far tokens are apart, nor of an
 * attention beside one; of a hybrid's other layers what holds of them. What a branch keeps hangs on
 * its rounding where that has no bound, and is left out under --rigorous; what the weights say is
 * not. */
static void hybrids(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool some;
    } cases[] = {{"falcon_h1", false}, {"falcon_h1_gate_first", false}, {"nemotron_h", true}};
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
            if (!some) assert_int_equal(isnan(cell(lambda, row, "kept_now")), rigorous);
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

static void edits(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
    } options[] = {{"no-skip", NULL},   {"no-mlp", NULL},           {"no-norm", NULL},
                   {"lambda", "2.5"},   {"lambda", "mixer:0"},      {"lambda", "1e6"},
                   {"lambda", "-1"},    {"temperature", "0.01"},    {"temperature", "50"},
                   {"depth", "7"},      {"residual-scale", "0.1"},  {"uniform-attention", NULL},
                   {"shaped", "1,1,1"}, {"attention-rescale", "2"}, {"center-attention", NULL},
                   {"no-mask", NULL}};
    /* gpt_neox: parallel blocks, where the MLP is added to what it did not read */
    static const char *const families[] = {"bert", "gpt2", "llama", "gpt_neox"};
    rs_error err;
    put(tokens_path, "[[1,2,3,4,5,6],[5,3,9,9]]");
    for (size_t f = 0; f < 4; f++)
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
            for (int rigorous = 0; rigorous < 2; rigorous++) {
                char path[512], what[128];
                snprintf(path, sizeof path, RS_TEST_DATA "/forward/%s", families[f]);
                snprintf(what, sizeof what, "%s --%s", families[f], options[i].name);
                rs_certify_request request = request_for(path);
                request.options.rigorous = rigorous;
                assert_int_equal(
                    rs_edit_option(&request.options.edit, options[i].name, options[i].value, &err),
                    RS_OK);
                rs_result *result = run(&request);
                if (check_bounds(result, what) == 0) fail_msg("%s: no bound at all", what);
                rs_result_free(result);
            }
}

/* ---- networks of the theory papers ---- */

static const char pure[] =
    "{\"depth\":6,\"d_model\":16,\"heads\":1,\"kv_heads\":1,\"d_head\":16,\"seq_len\":8,"
    "\"norm\":\"none\",\"skip_mixer\":0,\"branch_mixer\":1,\"mlp\":\"none\","
    "\"init\":{\"wq\":\"normal(0, 0.02)\",\"wk\":\"normal(0, 0.02)\",\"wv\":\"normal(0, 0.05)\","
    "\"wo\":\"normal(0, 0.05)\"}}";

/* One head, no norm, no skip: the published theorem's own ground; all bounds hold, the law is cubic
 * and the chain multiplies the logarithm by three. */
static void pure_attention(void **state)
{
    (void)state;
    for (int rigorous = 0; rigorous < 2; rigorous++) {
        rs_result *result = theory(pure, rigorous);
        const rs_table *bounds = rs_result_table(result, "bounds");
        int cubic = 0, published = 0;
        check_bounds(result, "pure");
        for (size_t row = 0; row < rs_table_rows(bounds); row++) {
            double measured = cell(bounds, row, "log10_residual_1inf");
            bool floor = whole(bounds, row, "at_floor") == 1;
            int64_t source = whole(bounds, row, "source_layer");
            size_t before = row - (size_t)(whole(bounds, row, "layer") - source) - 1;
            if (source > 0) assert_int_equal(whole(bounds, before, "at_floor"), 0);
            if (whole(bounds, row, "published_valid") == 1 && !floor) {
                published++;
                assert_true(measured <=
                            cell(bounds, row, "log10_published") + 1e-9 + log10(2 * (1 - 1.0 / 8)));
            }
            if (strcmp(text(bounds, row, "rate_class"), "cubic") == 0) {
                cubic++;
                assert_true(cell(bounds, row, "prediction_error") < 0.25);
                assert_true(fabs(cell(bounds, row, "log10_predicted") -
                                 cell(bounds, row, "log10_measured")) < 0.1);
            }
        }
        assert_true(cubic >= 3 && published >= 3);
        const rs_table *chains = rs_result_table(result, "chains");
        double through[6] = {0}; /* from the state that enters layer 2 */
        for (size_t row = 0; row < rs_table_rows(chains); row++)
            if (whole(chains, row, "source_layer") == 2)
                through[whole(chains, row, "layer")] = cell(chains, row, "log10_weights_only");
        assert_true(through[5] < -100 && fabs(through[5] - 3 * through[4]) < 3);
        /* what rounding made equal is not proved to be: 10^-1000 is, not 0 */
        for (size_t row = 0; row < rs_table_rows(bounds); row++)
            assert_true(isfinite(cell(bounds, row, "log10_certified")));
        assert_non_null(finding(result, "certified_collapse"));
        rs_result_free(result);
    }
}

static void causal_half(void **state)
{
    (void)state;
    rs_result *result = theory(
        "{\"depth\":12,\"d_model\":8,\"heads\":1,\"kv_heads\":1,\"d_head\":8,\"seq_len\":10,"
        "\"mask\":\"causal\",\"norm\":\"none\",\"skip_mixer\":0,\"branch_mixer\":1,"
        "\"mlp\":\"none\",\"init\":{\"wq\":\"normal(0, 0.0001)\",\"wk\":\"normal(0, 0.0001)\","
        "\"wv\":\"identity\",\"wo\":\"identity\"}}",
        false);
    const rs_table *bounds = rs_result_table(result, "bounds");
    int half = 0;
    check_bounds(result, "causal");
    for (size_t row = 0; row < rs_table_rows(bounds); row++)
        if (strcmp(text(bounds, row, "rate_class"), "causal_half") == 0) {
            half++;
            assert_true(fabs(cell(bounds, row, "rate_law") - 0.5) < 0.0625);
            assert_true(fabs(cell(bounds, row, "rate_measured") - 0.5) < 0.0625);
        }
    assert_true(half > 20);
    assert_non_null(finding(result, "collapse_rate"));
    /* the first row of the mixing matrix is another token's: τ stays far from 0 */
    assert_true(cell(bounds, rs_table_rows(bounds) - 1, "mixing_contraction") > 0.5);
    assert_string_equal(text(bounds, 0, "published_failed"), "causal mask");
    rs_result_free(result);
}

/* A value matrix changes what a causal layer of second eigenvalue 1/2 keeps: only layers that do
 * keep half are called so, and the law that they are said to follow gives the factor. */
static void values_change_the_rate(void **state)
{
    (void)state;
    rs_result *result = theory(
        "{\"depth\":12,\"d_model\":8,\"heads\":1,\"kv_heads\":1,\"d_head\":8,\"seq_len\":10,"
        "\"mask\":\"causal\",\"norm\":\"none\",\"skip_mixer\":0,\"branch_mixer\":1,"
        "\"mlp\":\"none\",\"init\":{\"wq\":\"normal(0, 0.0001)\",\"wk\":\"normal(0, 0.0001)\","
        "\"wv\":\"normal(0, 0.3)\",\"wo\":\"normal(0, 0.3)\"}}",
        false);
    const rs_table *bounds = rs_result_table(result, "bounds");
    int half = 0, linear = 0, far = 0;
    for (size_t row = 0; row < rs_table_rows(bounds); row++) {
        const char *class = text(bounds, row, "rate_class");
        double measured = cell(bounds, row, "rate_measured");
        bool is_half = strcmp(class, "causal_half") == 0, is_linear = strcmp(class, "linear") == 0;
        if (is_half) assert_true(fabs(measured - 0.5) <= 0.0625);
        if (is_half || is_linear) {
            double predicted = cell(bounds, row, "rate_predicted");
            bool by_law = fabs(measured / cell(bounds, row, "rate_law") - 1) <= 0.125;
            assert_true(by_law || fabs(measured / predicted - 1) <= 0.25);
        }
        half += is_half;
        linear += is_linear;
        far += is_linear && fabs(measured - 0.5) > 0.1 &&
               fabs(cell(bounds, row, "rate_law") - 0.5) < 0.05;
    }
    assert_true(half > 0 && linear > 0 && far > 0);
    rs_result_free(result);
}

/* Uniform attention beside a skip of 0.3: an exact layer multiplies every difference by 0.3,
 * float64 makes all tokens equal after some thirty layers. The exact 0.3 of the state that enters
 * is proved, number for number, but of tokens that only rounding tells apart nobody is told that
 * they stay apart. */
static void rounding_keeps_nothing_apart(void **state)
{
    (void)state;
    for (int rigorous = 0; rigorous < 2; rigorous++) {
        rs_result *result = theory(
            "{\"depth\":40,\"d_model\":8,\"heads\":1,\"kv_heads\":1,\"d_head\":8,\"seq_len\":5,"
            "\"attention\":\"uniform\",\"norm\":\"none\",\"mlp\":\"none\",\"skip_mixer\":0.3,"
            "\"branch_mixer\":1,\"init\":{\"wv\":\"identity\",\"wo\":\"identity\"}}",
            rigorous);
        const rs_table *bounds = rs_result_table(result, "bounds");
        int floors = 0, kept = 0, above = 0;
        for (size_t row = 0; row < rs_table_rows(bounds); row++) {
            double measured = cell(bounds, row, "measured_diameter");
            double entering = cell(bounds, row, "entering_diameter");
            double at_least = cell(bounds, row, "certified_at_least");
            bool floor = whole(bounds, row, "at_floor") == 1;
            floors += floor;
            if (isnan(at_least)) continue; /* equal tokens enter */
            assert_true(at_least <= 0.3 * entering * (1 + 1e-12));
            assert_true(at_least >= 0.3 * entering * (1 - 1e-12));
            kept += at_least > 0;
            above += floor && at_least > measured;
        }
        assert_true(floors > 10 && kept > 40);
        assert_true(above > 0);
        const char *said = finding(result, "apart_summary")->message;
        assert_non_null(strstr(said, "provably keep"));
        assert_null(strstr(said, "39"));
        const rs_table *summary = rs_result_table(result, "summary");
        assert_int_equal(whole(summary, 0, "at_floor"), 0);
        assert_int_equal(whole(summary, 39, "at_floor"), 1);
        rs_result_free(result);
    }
}

/* Two samples of which one has collapsed to rounding where the other has not: no chain of the two
 * starts there, and nobody is told that every sample's tokens stay apart. */
static void one_sample_does_not_speak_for_two(void **state)
{
    (void)state;
    put(tokens_path, "[[1,2,3,4,5,6],[4,4,4,4]]"); /* no absolute positions: equal ids are equal */
    rs_certify_request request = request_for(RS_TEST_DATA "/forward/llama");
    rs_result *result = run(&request);
    check_chains(result, "llama");
    assert_non_null(strstr(finding(result, "apart_summary")->message, "do not enter equal"));
    rs_result_free(result);

    result = theory("{\"depth\":12,\"d_model\":16,\"heads\":1,\"kv_heads\":1,\"d_head\":16,"
                    "\"seq_len\":3,\"norm\":\"none\",\"mlp\":\"none\",\"skip_mixer\":0,"
                    "\"branch_mixer\":1,\"init\":{\"wv\":\"identity\",\"wo\":\"identity\"}}",
                    false);
    const rs_table *bounds = rs_result_table(result, "bounds");
    check_chains(result, "uneven");
    int mixed = 0;
    for (int64_t layer = 0; layer < 12; layer++) {
        int floors = 0;
        for (size_t row = 0; row < rs_table_rows(bounds); row++)
            floors += whole(bounds, row, "layer") == layer && whole(bounds, row, "at_floor") == 1;
        mixed += floors > 0 && floors < 3;
    }
    assert_true(mixed > 0); /* or this test tries nothing */
    rs_result_free(result);
}

/* λ large: the skip keeps the tokens apart, from below and by the table of λ. */
static void skips_keep_apart(void **state)
{
    (void)state;
    rs_result *result =
        theory("{\"depth\":4,\"d_model\":8,\"heads\":2,\"kv_heads\":2,\"d_head\":4,\"seq_len\":6,"
               "\"norm\":\"none\",\"skip_mixer\":1,\"branch_mixer\":1,\"mlp\":\"none\","
               "\"init\":{\"wv\":\"normal(0, 0.001)\"}}",
               false);
    const rs_table *bounds = rs_result_table(result, "bounds");
    check_bounds(result, "skip");
    for (size_t row = 0; row < rs_table_rows(bounds); row++) {
        assert_true(cell(bounds, row, "certified_at_least") > 0);
        assert_non_null(text(bounds, row, "at_least_by"));
    }
    assert_non_null(finding(result, "apart_summary"));
    const rs_table *lambda = rs_result_table(result, "lambda");
    assert_true(rs_table_rows(lambda) == rs_table_rows(bounds));
    for (size_t row = 0; row < rs_table_rows(lambda); row++) {
        assert_true(cell(lambda, row, "lambda_certified") <= 1);
        assert_true(cell(lambda, row, "kept_now") >= 0.9);
    }
    rs_result_free(result);
}

/* One head, W = I, uniform attention: differences are kept λ/(λ + 1) times. */
static void consensus(void **state)
{
    (void)state;
    rs_result *result = theory(
        "{\"depth\":1,\"d_model\":8,\"heads\":1,\"kv_heads\":1,\"d_head\":8,\"seq_len\":5,"
        "\"attention\":\"uniform\",\"norm\":\"post\",\"norm_kind\":\"rmsnorm\",\"mlp\":\"none\","
        "\"skip_mixer\":3,\"branch_mixer\":1,\"init\":{\"wv\":\"identity\",\"wo\":\"identity\"}}",
        false);
    const rs_table *lambda = rs_result_table(result, "lambda");
    assert_true(rs_table_rows(lambda) == 3);
    for (size_t row = 0; row < 3; row++)
        assert_true(fabs(cell(lambda, row, "consensus_multiplier") - 0.75) < 1e-6);
    rs_result_free(result);
}

/* ---- corners ---- */

static void corners(void **state)
{
    (void)state;
    static const char *const archs[] = {
        /* logits of 1e4 and more */
        "{\"depth\":3,\"d_model\":8,\"heads\":2,\"kv_heads\":2,\"d_head\":4,\"seq_len\":5,"
        "\"norm\":\"pre\",\"mlp\":\"relu\",\"init\":{\"wq\":\"normal(0, 1e5)\",\"wk\":\"normal(0, "
        "1e5)\"}}",
        /* 200 layers */
        "{\"depth\":200,\"d_model\":4,\"heads\":1,\"kv_heads\":1,\"d_head\":4,\"seq_len\":4,"
        "\"norm\":\"none\",\"skip_mixer\":0,\"branch_mixer\":1,\"mlp\":\"none\"}",
        /* λ = 0 everywhere, values 0: the state is exactly 0 from layer 1 on */
        "{\"depth\":2,\"d_model\":4,\"heads\":1,\"kv_heads\":1,\"d_head\":4,\"seq_len\":4,"
        "\"norm\":\"none\",\"skip_mixer\":0,\"branch_mixer\":1,\"mlp\":\"none\",\"init\":{\"wv\":"
        "\"zero\"}}",
        "{\"depth\":2,\"d_model\":4,\"heads\":1,\"kv_heads\":1,\"d_head\":4,\"seq_len\":1}",
        "{\"depth\":3,\"d_model\":8,\"heads\":2,\"kv_heads\":1,\"d_head\":4,\"seq_len\":6,"
        "\"positions\":\"rope\",\"norm\":\"sandwich\",\"norm_kind\":\"rmsnorm\",\"mlp\":"
        "\"swiglu\"}",
        /* bounds far beyond the doubles */
        "{\"depth\":40,\"d_model\":8,\"heads\":2,\"kv_heads\":2,\"d_head\":4,\"seq_len\":5,"
        "\"norm\":\"none\",\"skip_mixer\":1e10,\"mlp\":\"none\"}",
        "{\"depth\":3,\"d_model\":8,\"heads\":2,\"kv_heads\":2,\"d_head\":4,\"seq_len\":6,"
        "\"positions\":\"alibi\",\"mask\":\"sliding:2\",\"norm\":\"post\",\"mlp\":\"gelu\"}",
    };
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        for (int rigorous = 0; rigorous < 2; rigorous++) {
            rs_result *result = theory(archs[i], rigorous);
            check_bounds(result, archs[i]);
            rs_error err;
            rs_buffer bytes = {0};
            assert_int_equal(rs_write_json(&bytes, result, &err), RS_OK);
            assert_null(strstr(bytes.data, "nan"));
            assert_null(strstr(bytes.data, "inf,"));
            rs_buffer_free(&bytes);
            if (i == 3) assert_non_null(finding(result, "zero_residual"));
            if (i == 5) assert_non_null(finding(result, "bound_overflow"));
            if (i == 2) { /* what follows has no spread: no λ is asked of it, no log of it taken */
                const rs_table *bounds = rs_result_table(result, "bounds");
                assert_true(isnan(cell(bounds, 1, "log10_measured")));
                assert_true(cell(bounds, 1, "certified_diameter") == 0);
                assert_non_null(finding(result, "zero_residual"));
            }
            rs_result_free(result);
        }
}

static void equal_tokens(void **state)
{
    (void)state;
    put(tokens_path, "[[4,4,4,4],[1,2,3,4],[3]]");
    rs_certify_request request = request_for(RS_TEST_DATA "/forward/llama");
    rs_result *result = run(&request); /* no absolute positions: equal ids are equal rows */
    const rs_table *bounds = rs_result_table(result, "bounds");
    for (size_t row = 0; row < rs_table_rows(bounds); row++) {
        bool same = whole(bounds, row, "sample") != 1;
        if (same && whole(bounds, row, "sample") == 2)
            assert_true(cell(bounds, row, "certified_diameter") == 0);
        if (whole(bounds, row, "sample") == 1)
            assert_true(cell(bounds, row, "measured_diameter") > 0);
    }
    assert_non_null(finding(result, "zero_residual"));
    rs_result_free(result);
}

/* Every table with every digit, and what was found in them. */
static void assert_same(const rs_result *one, const rs_result *two, const char *path)
{
    rs_error err;
    assert_int_equal(rs_result_table_count(one), rs_result_table_count(two));
    for (size_t t = 0; t < rs_result_table_count(one); t++) {
        rs_buffer a = {0}, b = {0};
        assert_int_equal(rs_write_csv(&a, rs_result_table_at(one, t), &err), RS_OK);
        assert_int_equal(rs_write_csv(&b, rs_result_table_at(two, t), &err), RS_OK);
        if (a.length != b.length || memcmp(a.data, b.data, a.length) != 0)
            fail_msg("%s: table %s:\n%s\n%s", path, rs_table_name(rs_result_table_at(one, t)),
                     a.data, b.data);
        rs_buffer_free(&a);
        rs_buffer_free(&b);
    }
    assert_int_equal(rs_result_finding_count(one), rs_result_finding_count(two));
    for (size_t i = 0; i < rs_result_finding_count(one); i++)
        assert_string_equal(rs_result_finding_at(one, i)->message,
                            rs_result_finding_at(two, i)->message);
}

static void assert_threads_change_nothing(const rs_certify_request *request)
{
    rs_result *one = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        rs_error err = {0};
        rs_result *result;
        if (try(&result, request, threads, &err) != RS_OK)
            fail_msg("%s: %s: %s", request->path, err.where, err.what);
        if (one) assert_same(one, result, request->path);
        if (!one)
            one = result;
        else
            rs_result_free(result);
    }
    rs_result_free(one);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static const char *const models[] = {"bert", "albert", "gpt2", "llama", "gemma2", "xlnet"};
    put(tokens_path, "[[1,2,3,4,5,6],[5,3,9,9],[1,7,2,8]]");
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char path[512];
        snprintf(path, sizeof path, RS_TEST_DATA "/forward/%s", models[m]);
        rs_certify_request request = request_for(path);
        request.options.rigorous = m == 0;
        assert_threads_change_nothing(&request);
    }
    put(arch_path, /* rows, heads and columns enough for every loop to be shared out */
        "{\"depth\":2,\"d_model\":72,\"heads\":6,\"kv_heads\":3,\"d_head\":12,\"seq_len\":50,"
        "\"positions\":\"rope\",\"norm\":\"pre\",\"norm_kind\":\"rmsnorm\",\"mlp\":\"swiglu\"}");
    rs_certify_request request = request_for(arch_path);
    request.options.source = (rs_input_source){.random = 3};
    assert_threads_change_nothing(&request);
}

/* What shares a matrix product decides the order of its sums: the last bits may differ. */
static void batches_change_the_last_bits_alone(void **state)
{
    (void)state;
    put(tokens_path, "[[1,2,3,4,5,6],[5,3,9,9],[1,7,2,8]]");
    rs_certify_request request = request_for(RS_TEST_DATA "/forward/bert");
    rs_result *all = run(&request);
    request.options.batch = 1;
    rs_result *each = run(&request);
    assert_int_equal(rs_result_table_count(all), rs_result_table_count(each));
    for (size_t t = 0; t < rs_result_table_count(all); t++) {
        const rs_table *a = rs_result_table_at(all, t), *b = rs_result_table_at(each, t);
        assert_int_equal(rs_table_rows(a), rs_table_rows(b));
        for (size_t i = 0; i < rs_table_rows(a) * rs_table_columns(a); i++) {
            size_t row = i / rs_table_columns(a), column = i % rs_table_columns(a);
            if (rs_table_column(a, column)->type != RS_COLUMN_REAL) continue;
            double x = rs_table_real(a, row, column), y = rs_table_real(b, row, column);
            if (!(isnan(x) && isnan(y)) && !(fabs(x - y) <= 1e-12 * fabs(x) + 1e-14))
                fail_msg("%s, row %zu, %s: %.17g and %.17g", rs_table_name(a), row,
                         rs_table_column(a, column)->name, x, y);
        }
    }
    rs_result_free(all);
    rs_result_free(each);
}

/* Fails the n-th request of memory for n = 1, 2, 3, ... until the command gets through. */
static void memory(void **state)
{
    (void)state;
    put(tokens_path, "[[1,2,3],[4,5]]");
    static const char *const models[] = {RS_TEST_DATA "/forward/bert",
                                         RS_TEST_DATA "/forward/gpt2"};
    for (size_t m = 0; m < 2; m++) {
        rs_certify_request request = request_for(models[m]);
        request.options.rigorous = m == 0;
        int64_t step = 1;
        for (int64_t n = 1;; n += step) {
            rs_error err = {0};
            rs_result *result;
            rs_memory_fail_at(n);
            rs_status status = try(&result, &request, 1, &err);
            rs_memory_fail_at(0);
            if (status == RS_OK) {
                rs_result_free(result);
                break;
            }
            assert_int_equal(status, RS_E_NO_MEMORY);
            if (n > 2000) step = 7;
            assert_true(n < 100000);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_families),
        cmocka_unit_test(hybrids),
        cmocka_unit_test(gains_without_softmax),
        cmocka_unit_test(gains_have_their_values),
        cmocka_unit_test(gains_grow_with_the_tokens),
        cmocka_unit_test(a_scalar_value_map_has_theorem_c),
        cmocka_unit_test(edits),
        cmocka_unit_test(pure_attention),
        cmocka_unit_test(causal_half),
        cmocka_unit_test(values_change_the_rate),
        cmocka_unit_test(rounding_keeps_nothing_apart),
        cmocka_unit_test(one_sample_does_not_speak_for_two),
        cmocka_unit_test(skips_keep_apart),
        cmocka_unit_test(consensus),
        cmocka_unit_test(corners),
        cmocka_unit_test(equal_tokens),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(batches_change_the_last_bits_alone),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
