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

#include "certify_claims.h"

#include <jansson.h>

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

/* Rows of attention that is cut to a lower rank need not sum to 1, what every bound rests on. */
static void nothing_of_attention_cut_to_a_rank(void **state)
{
    (void)state;
    rs_error err;
    rs_result *result;
    rs_certify_request request = request_for(RS_TEST_DATA "/forward/bert");
    put(tokens_path, "[[1,2,3,4]]");
    assert_int_equal(rs_edit_option(&request.options.edit, "attention-rank", "2", &err), RS_OK);
    assert_int_equal(try(&result, &request, 1, &err), RS_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "lower rank"));
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
        cmocka_unit_test(edits),
        cmocka_unit_test(nothing_of_attention_cut_to_a_rank),
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
