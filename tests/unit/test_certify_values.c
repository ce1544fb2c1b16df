/*
 * test_certify_values.c: `certify` on models whose bounds can be written down, and its intervals of
 * λ against the same models run with those λ.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "certify_support.h"

static void is_near(const char *what, double got, double wanted, double relative)
{
    if (!(fabs(got / wanted - 1) <= relative)) fail_msg("%s: %.15g, not %.15g", what, got, wanted);
}

static const char scaled[] =
    "{\"depth\":1,\"d_model\":8,\"heads\":1,\"kv_heads\":1,\"d_head\":8,\"seq_len\":6,"
    "\"norm\":\"none\",\"skip_mixer\":0,\"branch_mixer\":%s,\"temperature\":200,"
    "\"mlp\":\"none\"}";

/* The published bound is one of the branch times α, and so is what was measured. */
static void a_scaled_branch_has_a_scaled_bound(void **state)
{
    (void)state;
    double bound[2][3];
    for (int k = 0; k < 2; k++) {
        char arch[400];
        snprintf(arch, sizeof arch, scaled, k ? "1000" : "1");
        rs_result *result = theory(arch, false);
        const rs_table *bounds = rs_result_table(result, "bounds");
        for (size_t row = 0; row < 3; row++) {
            assert_int_equal(whole(bounds, row, "published_valid"), 1);
            bound[k][row] = cell(bounds, row, "published");
            assert_true(cell(bounds, row, "residual_1inf") <= 2 * bound[k][row]);
        }
        rs_result_free(result);
    }
    for (size_t row = 0; row < 3; row++)
        is_near("published", bound[1][row], 1000 * bound[0][row], 1e-12);
}

/* A branch of -X beside a skip a little above 1: what is left is known to rounding of X only. */
static void a_sum_that_cancels_is_measured_itself(void **state)
{
    (void)state;
    rs_result *result =
        theory("{\"depth\":1,\"d_model\":4,\"heads\":1,\"kv_heads\":1,\"d_head\":4,"
               "\"seq_len\":5,\"norm\":\"none\",\"skip_mixer\":1.0000000001,"
               "\"branch_mixer\":-1,\"attention\":\"shaped\",\"shaped\":[1,0,0],"
               "\"mlp\":\"none\",\"init\":{\"wv\":\"identity\",\"wo\":\"identity\"}}",
               false);
    const rs_table *lambda = rs_result_table(result, "lambda");
    for (size_t row = 0; row < rs_table_rows(lambda); row++) {
        double kept = cell(lambda, row, "kept_now"), error = cell(lambda, row, "kept_now_error");
        assert_true(error < 1e-13 && fabs(kept - 1e-10) <= error + 1e-16);
        is_near("worst", cell(lambda, row, "lambda_worst"), 1, 1e-12);
        assert_string_equal(text(lambda, row, "theorem_d_failed"),
                            "a norm before the branch (pre-norm)");
    }
    rs_result_free(result);
}

static void consensus_needs_a_fixed_point(void **state)
{
    (void)state;
    rs_result *result =
        theory("{\"depth\":1,\"d_model\":8,\"heads\":1,\"kv_heads\":1,\"d_head\":8,\"seq_len\":5,"
               "\"attention\":\"centred\",\"norm\":\"post\",\"norm_kind\":\"rmsnorm\","
               "\"mlp\":\"none\",\"skip_mixer\":1,\"branch_mixer\":1}",
               false);
    const rs_table *lambda = rs_result_table(result, "lambda");
    assert_string_equal(text(lambda, 0, "consensus_failed"), "rows of P that sum to 1");
    assert_true(isnan(cell(lambda, 0, "consensus_multiplier")));
    rs_result_free(result);
}

/* What a λ keeps when the model is run with it, in each interval that is decided. */
static void intervals_hold_when_run(void **state)
{
    (void)state;
    static const char *const kinds[] = {"none", "post"};
    int refuted = 0;
    for (int kind = 0; kind < 2; kind++) {
        char arch[400], lambda_text[40];
        snprintf(arch, sizeof arch,
                 "{\"depth\":1,\"d_model\":8,\"heads\":2,\"seq_len\":6,\"norm\":\"%s\","
                 "\"skip_mixer\":1,\"branch_mixer\":1,\"mlp\":\"none\","
                 "\"init\":{\"wv\":\"normal(0, 1)\"}}",
                 kinds[kind]);
        rs_result *result = theory(arch, false);
        const rs_table *intervals = rs_result_table(result, "intervals");
        int yes = 0, no = 0;
        double end = NAN;
        for (size_t row = 0; row < rs_table_rows(intervals); row++) {
            double low = cell(intervals, row, "low"), high = cell(intervals, row, "high");
            const char *answer = text(intervals, row, "answer");
            assert_true(isnan(low) ? isnan(end) : low == end); /* none is left out */
            end = high;
            if (strcmp(answer, "unknown") == 0) continue;
            double lambda = isnan(low) && isnan(high) ? 0
                            : isnan(low)              ? high - 0.01
                            : isnan(high)             ? low + 0.01
                                                      : (low + high) / 2;
            snprintf(lambda_text, sizeof lambda_text, "%.17g", lambda);
            rs_certify_request request = request_for(arch_path);
            request.options.source = (rs_input_source){.random = 3};
            request.options.edit.mixer_lambda = lambda_text;
            rs_result *again = run(&request);
            int64_t sample = whole(intervals, row, "sample");
            double kept = cell(rs_result_table(again, "lambda"), (size_t)sample, "kept_now");
            assert_true((kept >= 0.9) == (strcmp(answer, "yes") == 0));
            yes += kept >= 0.9;
            no += kept < 0.9;
            rs_result_free(again);
        }
        assert_true(yes >= 3 && isnan(end));
        refuted += no;
        rs_result_free(result);
    }
    assert_true(refuted >= 3);
}

/* Two tokens, logits 0, causal: rows (1, 0) and (½, ½), τ = ½; λ = −2, α = 1.5, W = I. */
static void a_causal_pair(void **state)
{
    (void)state;
    rs_result *result =
        theory("{\"depth\":2,\"d_model\":4,\"heads\":1,\"kv_heads\":1,\"d_head\":4,\"seq_len\":2,"
               "\"mask\":\"causal\",\"norm\":\"none\",\"skip_mixer\":-2,\"branch_mixer\":1.5,"
               "\"mlp\":\"none\",\"init\":{\"wq\":\"zero\",\"wk\":\"zero\",\"wv\":\"identity\","
               "\"wo\":\"identity\"}}",
               false);
    const rs_table *bounds = rs_result_table(result, "bounds");
    for (size_t row = 0; row < rs_table_rows(bounds); row++) {
        double entering = cell(bounds, row, "entering_diameter");
        is_near("at most", cell(bounds, row, "certified_one_layer"), 2.75 * entering, 1e-7);
        is_near("at least", cell(bounds, row, "certified_at_least"), 1.25 * entering, 1e-7);
        is_near("measured", cell(bounds, row, "measured_diameter"), 1.25 * entering, 1e-12);
    }
    /* L19, any P and X: ‖RPR‖ ≤ √(2/2) and ‖W‖ = 1 leave |λ| − 1.5 */
    const rs_table *lambda = rs_result_table(result, "lambda");
    for (size_t row = 0; row < rs_table_rows(lambda); row++) {
        is_near("L19", cell(lambda, row, "demanded_for_any_input"), 0.9 + 1.5, 1e-7);
        is_near("L19", cell(lambda, row, "kept_for_any_input"), 2 - 1.5, 1e-7);
        assert_true(cell(lambda, row, "kept_for_any_input") <= 0.5);
        assert_true(cell(lambda, row, "kept_for_any_input") <= cell(lambda, row, "kept_now"));
        assert_true(isnan(cell(lambda, row, "eq7_input")));
        assert_string_equal(text(lambda, row, "eq7_input_failed"),
                            "equation 7 at the model's own lambda");
        assert_string_equal(text(lambda, row, "mlp_weights_only_gain_failed"),
                            "one MLP in the layer");
    }
    rs_result_free(result);
}

/* The published b at λ = 100, with S C_M = √n α for W = I: 2|λ| n d S C_M/(a(λ² − a(S C_M +
 * |λ|)²)), a = 0.9². */
static void the_published_condition_on_the_input(void **state)
{
    (void)state;
    rs_result *result =
        theory("{\"depth\":1,\"d_model\":4,\"heads\":1,\"kv_heads\":1,\"d_head\":4,\"seq_len\":2,"
               "\"norm\":\"none\",\"skip_mixer\":100,\"branch_mixer\":1.5,\"mlp\":\"none\","
               "\"init\":{\"wv\":\"identity\",\"wo\":\"identity\"}}",
               false);
    const rs_table *lambda = rs_result_table(result, "lambda");
    double a = 0.81, constant = sqrt(2) * 1.5, sum = constant + 100;
    double b = 2 * 100 * 2 * 4 * constant / (a * (100 * 100 - a * sum * sum));
    for (size_t row = 0; row < rs_table_rows(lambda); row++) {
        is_near("b", cell(lambda, row, "eq7_input"), b, 1e-7);
        assert_null(text(lambda, row, "eq7_input_failed"));
    }
    rs_result_free(result);
}

/* W_u and W_d (and W_g) the identity behind a norm, d = 4: rows of √d come out as rows of √d from
 * ReLU, times the largest gate, √d, from SwiGLU (L13). */
static void identities_in_an_mlp(void **state)
{
    (void)state;
    static const char *const kinds[] = {"relu", "swiglu"};
    for (int gated = 0; gated < 2; gated++) {
        char arch[400];
        snprintf(arch, sizeof arch,
                 "{\"depth\":2,\"d_model\":4,\"heads\":1,\"seq_len\":3,\"norm\":\"pre\",\"mlp\":"
                 "\"%s\",\"mlp_width\":4,\"branch_mlp\":-3,\"init\":{\"w1\":\"identity\",\"w2\":"
                 "\"identity\",\"wg\":\"identity\"}}",
                 kinds[gated]);
        rs_result *result = theory(arch, false);
        const rs_table *lambda = rs_result_table(result, "lambda");
        assert_true(rs_table_rows(lambda) > 0);
        for (size_t row = 0; row < rs_table_rows(lambda); row++) {
            double gain = cell(lambda, row, "mlp_weights_only_gain");
            is_near("L13", gain, gated ? 6 : 3, 1e-7);
            assert_true(gain >= (gated ? 6 : 3));
            assert_string_equal(text(lambda, row, "any_input_failed"),
                                "no norm before, inside or behind the branch");
        }
        rs_result_free(result);
    }
}

/* What theorem D demands for 0.9 is the λ that keeps 0.9; less demands more of the λ, and √2 in
 * the place of its s says less (L9). */
static void theorem_d_keeps_what_it_was_asked_for(void **state)
{
    (void)state;
    static const char pre[] =
        "{\"depth\":1,\"d_model\":8,\"heads\":2,\"seq_len\":5,\"norm\":\"pre\","
        "\"mlp\":\"none\",\"skip_mixer\":%.17g}";
    char arch[400];
    snprintf(arch, sizeof arch, pre, 1.0);
    rs_result *result = theory(arch, false);
    const rs_table *lambda = rs_result_table(result, "lambda");
    assert_string_equal(text(lambda, 0, "theorem_d_kept_failed"), "(|lambda| - 1) min|h_i| > B");
    double demanded[3];
    assert_int_equal(rs_table_rows(lambda), 3);
    for (size_t row = 0; row < 3; row++)
        demanded[row] = cell(lambda, row, "demanded_by_theorem_d");
    rs_result_free(result);
    for (size_t row = 0; row < 3; row++)
        for (int sign = -1; sign <= 1; sign += 2) {
            snprintf(arch, sizeof arch, pre, sign * demanded[row]);
            result = theory(arch, false);
            lambda = rs_result_table(result, "lambda");
            double kept = cell(lambda, row, "theorem_d_kept");
            is_near("L9", kept, 0.9, 1e-12);
            assert_true(cell(lambda, row, "theorem_d_kept_published") < kept);
            rs_result_free(result);
        }
}

/* W_Q, W_K, W_V, W_O, W_u and W_d the identity, d = 4 and so s = ½, ReLU with its own skip. */
static void identities(void **state)
{
    (void)state;
    rs_result *result = theory(
        "{\"depth\":2,\"d_model\":4,\"heads\":1,\"kv_heads\":1,\"d_head\":4,\"seq_len\":3,"
        "\"norm\":\"none\",\"skip_mixer\":0,\"branch_mixer\":1,\"mlp\":\"relu\",\"mlp_width\":4,"
        "\"input\":{\"law\":\"gaussian\",\"rho\":0,\"norm2\":\"0.1\"},"
        "\"init\":{\"wq\":\"identity\",\"wk\":\"identity\",\"wv\":\"identity\","
        "\"wo\":\"identity\",\"w1\":\"identity\",\"w2\":\"identity\"}}",
        false);
    const rs_table *bounds = rs_result_table(result, "bounds");
    const rs_table *chains = rs_result_table(result, "chains");
    double most = 0, centre = 2 * (1 - 1.0 / 3), scale = 0.5, mlp = 1 + 1;
    for (size_t row = 0; row < rs_table_rows(bounds); row++) {
        double entering = cell(bounds, row, "entering_diameter");
        double tau =
            fmin(cell(bounds, row, "mixing_contraction"), tanh(scale * entering * entering / 4));
        is_near("C5, C6", cell(bounds, row, "certified_one_layer"), mlp * tau * entering, 1e-6);
        is_near("beta", cell(bounds, row, "beta"), 1, 1e-12);
        if (whole(bounds, row, "layer") == 0) {
            most = fmax(most, entering);
            continue;
        }
        double r = cell(bounds, row - 1, "residual_1inf"), q = r * r;
        double range = fmin(2 * scale * q, cell(bounds, row, "range_max"));
        double published = 4 * cell(bounds, row, "gamma_min") * scale * mlp * q * r;
        is_near("P1, P3", cell(bounds, row, "published_one_layer"), published, 1e-9);
        double kappa = scale * (expm1(range) / range + expm1(2 * range) / (2 * range));
        double next = q * (kappa * q) * (scale * q) * mlp * mlp;
        is_near("C7, C8", cell(bounds, row, "recursion_one_layer"), sqrt(next) * centre, 1e-8);
    }
    double first = most * tanh(scale * most * most / 4) * mlp;
    is_near("C2", pow(10, cell(chains, 0, "log10_weights_only")), first, 1e-8);
    rs_result_free(result);
}

/* Rows that left an RMSNorm have the root mean square 1: a norm behind a skip of 1 and no branch
 * gives them back, σ = √(1 + ε). */
static void norms_again(void **state)
{
    (void)state;
    rs_result *result =
        theory("{\"depth\":3,\"d_model\":8,\"heads\":1,\"kv_heads\":1,\"d_head\":8,\"seq_len\":4,"
               "\"norm\":\"post\",\"norm_kind\":\"rmsnorm\",\"skip_mixer\":1,\"branch_mixer\":0,"
               "\"mlp\":\"none\"}",
               false);
    const rs_table *bounds = rs_result_table(result, "bounds");
    for (size_t row = 0; row < rs_table_rows(bounds); row++)
        if (whole(bounds, row, "layer") > 0)
            is_near("C4", cell(bounds, row, "certified_one_layer"),
                    cell(bounds, row, "entering_diameter"), 1e-4);
    rs_result_free(result);
}

/* The square of what is kept is no double here, though what is kept is one: λ = 0, a branch of 1e-217
 * beside tokens of 1e100. */
static void a_share_whose_square_vanishes(void **state)
{
    (void)state;
    static const char form[] =
        "{\"depth\":1,\"d_model\":8,\"heads\":1,\"seq_len\":6,\"norm\":\"none\",\"mask\":"
        "\"causal\","
        "\"attention\":\"uniform\",\"skip_mixer\":0,\"branch_mixer\":%s,\"mlp\":\"none\","
        "\"input\":{\"norm2\":\"1e200\"}}";
    double kept[2];
    for (int k = 0; k < 2; k++) {
        char arch[400];
        snprintf(arch, sizeof arch, form, k ? "1e-217" : "1");
        rs_result *result = theory(arch, false);
        kept[k] = cell(rs_result_table(result, "lambda"), 0, "kept_now");
        rs_result_free(result);
    }
    is_near("kept", kept[1], 1e-217 * kept[0], 1e-12);
}

/* Two tokens that pass an MLP alone: it stretches their distance by what is measured of the state
 * behind it; orthogonal maps by 1, of which the bound is no more than rounding above. */
static void an_mlp_stretches_what_it_stretches(void **state)
{
    (void)state;
    static const char form[] =
        "{\"depth\":2,\"d_model\":12,\"mlp_width\":12,\"seq_len\":2,\"norm\":\"none\","
        "\"branch_mixer\":0,\"skip_mlp\":0,\"branch_mlp\":%g,\"mlp\":\"%s\",\"init\":{\"w1\":\"%"
        "s\","
        "\"w2\":\"orthogonal\"}}";
    static const struct {
        const char *mlp, *law;
        double scale, most; /* most: the Lipschitz constant; 0: of no closed form */
    } cases[] = {{"linear", "orthogonal", 3, 1},
                 {"relu", "orthogonal", 0.5, 1},
                 {"gelu", "orthogonal", 1, 1.12890415},
                 {"relu", "normal(0, 1)", 2, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char arch[400];
        snprintf(arch, sizeof arch, form, cases[k].scale, cases[k].mlp, cases[k].law);
        rs_result *result = theory(arch, true);
        const rs_table *bounds = rs_result_table(result, "bounds");
        assert_int_equal(rs_table_rows(bounds), 6);
        for (size_t row = 0; row < 6; row++) {
            double most = cell(bounds, row, "mlp_lipschitz"),
                   met = cell(bounds, row, "mlp_stretch");
            double factor = cell(bounds, row, "measured_diameter") /
                            cell(bounds, row, "entering_diameter") / cases[k].scale;
            is_near("mlp_stretch", met, factor, 1e-12);
            assert_true(met <= most);
            if (cases[k].most > 0) is_near("mlp_lipschitz", most, cases[k].most, 1e-6);
            if (k == 0) is_near("mlp_stretch", met, 1, 1e-6);
        }
        rs_result_free(result);
    }
}

/* Neither is there without an MLP; with one token there is no distance, and the bound stands. */
static void an_mlp_that_moves_nothing_apart(void **state)
{
    (void)state;
    static const char *const archs[] = {
        "{\"depth\":1,\"d_model\":4,\"seq_len\":3,\"mlp\":\"none\"}",
        "{\"depth\":1,\"d_model\":4,\"seq_len\":3,\"mlp\":\"gelu\",\"branch_mlp\":0}",
        "{\"depth\":1,\"d_model\":4,\"seq_len\":1,\"mlp\":\"gelu\"}"};
    for (size_t k = 0; k < 3; k++) {
        rs_result *result = theory(archs[k], true);
        const rs_table *bounds = rs_result_table(result, "bounds");
        assert_true(isnan(cell(bounds, 0, "mlp_stretch")));
        assert_true(isnan(cell(bounds, 0, "mlp_lipschitz")) == (k < 2));
        rs_result_free(result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scaled_branch_has_a_scaled_bound),
        cmocka_unit_test(a_sum_that_cancels_is_measured_itself),
        cmocka_unit_test(consensus_needs_a_fixed_point),
        cmocka_unit_test(intervals_hold_when_run),
        cmocka_unit_test(a_causal_pair),
        cmocka_unit_test(the_published_condition_on_the_input),
        cmocka_unit_test(identities_in_an_mlp),
        cmocka_unit_test(theorem_d_keeps_what_it_was_asked_for),
        cmocka_unit_test(identities),
        cmocka_unit_test(norms_again),
        cmocka_unit_test(a_share_whose_square_vanishes),
        cmocka_unit_test(an_mlp_stretches_what_it_stretches),
        cmocka_unit_test(an_mlp_that_moves_nothing_apart),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
