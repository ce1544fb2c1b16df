/* test_lab_experiments.c: every experiment of the laboratory with --quick: its claims hold, each of
 * them could fail, and running out of memory or being interrupted ends it cleanly. (dong-depth-init
 * runs in tests/cli/lab.sh alone: it takes ten seconds.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "lab/one_layer.h"
#include "sanitized.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXPERIMENT,
    CLAIM,
    PUBLISHED,
    EXPECTED,
    MEASURED,
    COMPUTED,
    ORDERING,
    TOLERANCE,
    VERDICT,
    REASON
};

static const rs_lab_experiment *skipped(void)
{
    return &rs_lab_dong_depth_init;
}

/* Training runs, of some hundred steps each with --quick. */
static bool trains(const rs_lab_experiment *experiment)
{
    static const rs_lab_experiment *const of[] = {
        &rs_lab_kobayashi_fig2,     &rs_lab_alarms,
        &rs_lab_noci_fig1_training, &rs_lab_noci_fig5_adam,
        &rs_lab_noci_table1_small,  &rs_lab_dong_sorting,
        &rs_lab_dong_convex_hull,   &rs_lab_dong_memorization,
        &rs_lab_dong_circle,        &rs_lab_product_penalty,
        &rs_lab_gap_training,       &rs_lab_skipless_train,
        &rs_lab_kobayashi_fig3,     &rs_lab_kobayashi_table1_small,
        &rs_lab_dong_ensembles,     &rs_lab_lambda_table1_small,
        &rs_lab_fusion_train,
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i] == experiment) return true;
    return false;
}

/* Hundreds or thousands of small networks and matrices are drawn, by rs_draws_run; gap-width-collapse, which
 * draws so, too, stands for them where memory fails. */
static bool draws(const rs_lab_experiment *experiment)
{
    static const rs_lab_experiment *const of[] = {
        &rs_lab_gap_fixed_dk,     &rs_lab_softmax_moment,   &rs_lab_oversmoothing_bound,
        &rs_lab_shaped_sde,       &rs_lab_noci_lemma_3_2,   &rs_lab_noci_hyperparameters,
        &rs_lab_noci_theorem_3_3, &rs_lab_xiong_last_layer, &rs_lab_sas_at_init,
        &rs_lab_noci_fig1,        &rs_lab_dong_lipschitz,   &rs_lab_dong_heads,
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i] == experiment) return true;
    return false;
}

/* BERT-base is drawn, hundreds of stacks of 64 layers run, or networks are trained: too large for a
 * walk of failing allocations, and for sanitizers twice over. */
static bool large(const rs_lab_experiment *experiment)
{
    return experiment == &rs_lab_dong_mlp || experiment == &rs_lab_dong_doubly_exponential ||
           experiment == &rs_lab_lambda_attention || experiment == &rs_lab_lambda_figure_1 ||
           experiment == &rs_lab_lambda_figure_2 || experiment == &rs_lab_lambda_figure_3 ||
           experiment == &rs_lab_gap_bert_init || experiment == &rs_lab_kobayashi_theorems ||
           experiment == &rs_lab_gqa_balance || experiment == &rs_lab_rope_planes ||
           draws(experiment) || trains(experiment);
}

static rs_status run_one(rs_result **out, const char *id, int threads,
                         const volatile sig_atomic_t *cancel, rs_error *err)
{
    *out = rs_result_new("lab");
    if (!*out) return RS_E_NO_MEMORY;
    rs_context context = {.threads = threads, .cancel = cancel};
    rs_lab_options options = {.quick = true};
    return rs_lab_run(*out, id, &options, &context, err);
}

/* The claim of a row, with another number measured. */
static const char *verdict_of(const rs_table *claims, size_t row, double measured)
{
    double published = rs_table_real(claims, row, PUBLISHED);
    double expected = rs_table_real(claims, row, EXPECTED);
    const rs_lab_claim claim = {"",
                                published,
                                expected,
                                measured,
                                rs_table_real(claims, row, TOLERANCE),
                                isnan(published) && isnan(expected),
                                false};
    return rs_lab_verdict(&claim);
}

/* Nothing is measured, and it says why; a claim that was judged gives no reason. */
static bool was_skipped(const rs_table *claims, size_t row)
{
    bool skips = strcmp(rs_table_text(claims, row, VERDICT), "skipped") == 0;
    assert_true(skips == (rs_table_text(claims, row, REASON) != NULL));
    if (skips) assert_true(isnan(rs_table_real(claims, row, MEASURED)));
    return skips;
}

/* An order over one seed, which has no spread: it shows no difference, whatever was measured. */
static bool has_no_spread(const rs_table *claims, size_t row)
{
    if (isfinite(rs_table_real(claims, row, TOLERANCE))) return false;
    assert_string_equal(rs_table_text(claims, row, VERDICT), "no_difference");
    return true;
}

/* Just outside of what the claim allows. */
static void can_fail(const rs_table *claims, size_t row)
{
    double expected = rs_table_real(claims, row, EXPECTED);
    double published = rs_table_real(claims, row, PUBLISHED);
    double tolerance = rs_table_real(claims, row, TOLERANCE);
    bool at_most = isnan(published) && isnan(expected);
    double beyond = 1.05 * fabs(tolerance) + 1e-12;
    if (!isnan(expected)) beyond += 4 * DBL_EPSILON * fabs(expected); /* a step that is not lost */
    assert_true(isfinite(tolerance));
    /* a tolerance as large as the number would let it vanish; logarithms are negative, and 0 leaves
     * room for rounding alone */
    if (expected > 0) assert_true(tolerance < expected);
    if (expected == 0) assert_true(tolerance <= 1e-9);
    /* a formula's number is not a measured one */
    assert_true(isnan(rs_table_real(claims, row, MEASURED)) !=
                isnan(rs_table_real(claims, row, COMPUTED)));
    assert_string_equal(verdict_of(claims, row, NAN), "fail");
    if (at_most) {
        assert_string_equal(verdict_of(claims, row, tolerance + beyond), "fail");
        return;
    }
    if (isnan(expected)) { /* only the paper's own number can refute it */
        assert_string_equal(verdict_of(claims, row, published + beyond), "differs_from_paper");
        assert_string_equal(verdict_of(claims, row, published - beyond), "differs_from_paper");
        return;
    }
    assert_string_equal(verdict_of(claims, row, expected + beyond), "fail");
    assert_string_equal(verdict_of(claims, row, expected - beyond), "fail");
    /* where the paper is known to be wrong, its own number fails */
    if (strcmp(rs_table_text(claims, row, VERDICT), "differs_from_paper") == 0)
        assert_string_equal(verdict_of(claims, row, published), "fail");
}

static void claims_hold_and_can_fail(void **state)
{
    (void)state;
    if (RS_THREAD_SANITIZER) return; /* of one thread */
    for (size_t i = 0; i < rs_lab_n_experiments; i++) {
        const rs_lab_experiment *e = rs_lab_experiments[i];
        if (e == skipped()) continue;
        rs_result *result = NULL;
        rs_error err;
        assert_int_equal(run_one(&result, e->id, 1, NULL, &err), RS_OK);
        const rs_table *claims = rs_result_table(result, "claims");
        if (rs_table_rows(claims) < 3) fail_msg("%s has %zu claims", e->id, rs_table_rows(claims));
        for (size_t row = 0; row < rs_table_rows(claims); row++) {
            if (strcmp(rs_table_text(claims, row, VERDICT), "fail") == 0)
                fail_msg("%s: %s: measured %.9g, computed %.9g, expected %.9g, tolerance %.3g",
                         e->id, rs_table_text(claims, row, CLAIM),
                         rs_table_real(claims, row, MEASURED), rs_table_real(claims, row, COMPUTED),
                         rs_table_real(claims, row, EXPECTED),
                         rs_table_real(claims, row, TOLERANCE));
            assert_string_equal(rs_table_text(claims, row, EXPERIMENT), e->id);
            if (!was_skipped(claims, row) && !has_no_spread(claims, row)) can_fail(claims, row);
        }
        assert_int_equal(rs_result_count_findings(result, RS_CRITICAL), 0);
        /* its figure is over a table of its own that has rows */
        assert_true(rs_result_figure_count(result) >= 1);
        const rs_table *drawn = rs_result_table(result, rs_result_figure_name(result, 0));
        assert_non_null(drawn);
        assert_true(rs_table_rows(drawn) > 3);
        /* and `explain` knows that table, with just these columns */
        assert_string_equal(rs_table_name(drawn), e->table->name);
        assert_int_equal(rs_table_columns(drawn), e->table->parts[0].n);
        rs_result_free(result);
    }
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static const char *const ids[] = {"dong-bounds",     "relative-position-linear-rate",
                                      "lambda-figure-3", "kobayashi-fig1",
                                      "kobayashi-fig5",  "gap-width-collapse",
                                      "sas-at-init",     "dong-heads"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        rs_result *one = NULL, *three = NULL;
        rs_error err;
        assert_int_equal(run_one(&one, ids[i], 1, NULL, &err), RS_OK);
        assert_int_equal(run_one(&three, ids[i], 3, NULL, &err), RS_OK);
        const rs_table *a = rs_result_table(one, "claims"), *b = rs_result_table(three, "claims");
        for (size_t row = 0; row < rs_table_rows(a); row++)
            for (size_t column = MEASURED; column <= COMPUTED; column++) {
                double x = rs_table_real(a, row, column), y = rs_table_real(b, row, column);
                assert_true(x == y || (isnan(x) && isnan(y)));
            }
        rs_result_free(one);
        rs_result_free(three);
    }
}

static void an_interruption_ends_each(void **state)
{
    (void)state;
    volatile sig_atomic_t cancel = 1;
    for (size_t i = 0; i < rs_lab_n_experiments; i++) {
        rs_result *result = NULL;
        rs_error err;
        assert_int_equal(run_one(&result, rs_lab_experiments[i]->id, 1, &cancel, &err),
                         RS_E_INTERRUPTED);
        rs_result_free(result);
    }
}

/* All of the first requests fail in turn, and points spread over the others. */
static void memory_may_end_anywhere(void **state)
{
    (void)state;
    enum { FIRST = 12, SPREAD = RS_ADDRESS_SANITIZER ? 3 : 12 };
    if (RS_THREAD_SANITIZER) return; /* of one thread */
    for (size_t i = 0; i < rs_lab_n_experiments; i++) {
        const rs_lab_experiment *e = rs_lab_experiments[i];
        if (e == skipped() || large(e)) continue;
        rs_result *result = NULL;
        rs_error err;
        int64_t before = rs_memory_requests();
        assert_int_equal(run_one(&result, e->id, 1, NULL, &err), RS_OK);
        rs_result_free(result);
        int64_t n = rs_memory_requests() - before;
        for (int64_t k = 0; k < FIRST + SPREAD; k++) {
            int64_t at = k < FIRST ? k + 1 : n - (n - FIRST) * (k - FIRST) / SPREAD;
            rs_memory_fail_at(at);
            rs_status status = run_one(&result, e->id, 1, NULL, &err);
            rs_memory_fail_at(0);
            assert_int_equal(status, RS_E_NO_MEMORY);
            rs_result_free(result);
        }
    }
}

/* ---- what experiments are made of ---- */

static void norms_of_small_matrices(void **state)
{
    (void)state;
    static const double a[6] = {1, -2, 3, -4, 5, -6}; /* 2 x 3 */
    assert_true(rs_norm_columns(a, 2, 3) == 9);
    assert_true(rs_norm_rows(a, 2, 3) == 15);
    assert_float_equal(rs_norm_composite(a, 2, 3), sqrt(135), 1e-14);
    assert_float_equal(rs_norm_frobenius(a, 2, 3), sqrt(91), 1e-14);
    /* numpy.linalg.norm(a, 2) */
    assert_float_equal(rs_norm_spectral(a, 2, 3), 9.508032000695724, 1e-13);
    assert_float_equal(rs_rows_diameter(a, 2, 3), sqrt(25 + 49 + 81), 1e-14);
    static const double p[6] = {0.5, 0.5, 0, 0.25, 0.25, 0.5};
    assert_true(rs_rows_variation(p, 2, 3) == 0.5);
    double c[6];
    memcpy(c, a, sizeof c);
    rs_rows_centre(c, 2, 3);
    static const double centred[6] = {2.5, -3.5, 4.5, -2.5, 3.5, -4.5};
    assert_memory_equal(c, centred, sizeof c);
}

/* P X W for two tokens of one feature, by hand. */
static void a_layer_is_what_it_says(void **state)
{
    (void)state;
    rs_one_layer a = {.n = 2, .d = 1, .heads = 2, .residual = {0.5, -0.25}, .mean = {2}};
    a.qk[0][0] = 0.75;
    a.qk[1][0] = -1.5;
    a.values[0][0] = 3;
    a.values[1][0] = -0.5;
    double g[RS_ONE_HEADS][RS_ONE_WIDTH] = {{1.25}, {-0.5}};
    rs_one_layer_complete(&a, g);
    rs_toy_trace trace;
    rs_context context = {.threads = 1};
    rs_error err;
    assert_int_equal(rs_one_layer_run(&trace, &a, &context, &err), RS_OK);
    double tracked[RS_ONE_MATRIX];
    rs_one_layer_tracked(tracked, &a, &trace);
    for (int i = 0; i < 2; i++) {
        double y = 0, rest = 0;
        for (int h = 0; h < 2; h++) {
            double r = a.residual[i], gap = a.residual[0] - a.residual[1];
            double logit = gap * (g[h][0] + a.qk[h][0] * r), base = gap * g[h][0];
            double p = 1 / (1 + exp(-logit)), p0 = 1 / (1 + exp(-base));
            assert_float_equal(rs_toy_mixing(&trace, 0, 0, h)[2 * i], p, 1e-14);
            assert_float_equal(a.base[h][0], p0, 1e-14);
            assert_float_equal(a.range[h][i], fabs(a.qk[h][0] * r * gap), 1e-14);
            y += a.values[h][0] * (2.5 * p + 1.75 * (1 - p));
            rest += a.values[h][0] * (p - p0) * gap;
        }
        assert_float_equal(rs_toy_state(&trace, 1, 0)[i], y, 1e-13);
        assert_float_equal(tracked[i], rest, 1e-13);
    }
    rs_toy_trace_free(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_of_small_matrices),   cmocka_unit_test(a_layer_is_what_it_says),
        cmocka_unit_test(an_interruption_ends_each), cmocka_unit_test(claims_hold_and_can_fail),
        cmocka_unit_test(threads_change_nothing),    cmocka_unit_test(memory_may_end_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
