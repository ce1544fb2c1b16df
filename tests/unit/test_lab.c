/* test_lab.c: verdicts, the registry, and what is refused. The experiments themselves run in
 * tests/cli/lab.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/lab.h"

#include <math.h>
#include <string.h>

static void verdicts(void **state)
{
    (void)state;
    static const struct {
        rs_lab_claim claim;
        const char *verdict;
    } rows[] = {
        {{"", 1.0, 1.1, 1.05, 0.1, false, false}, "pass"},
        {{"", 1.0, 1.1, 1.2, 0.1, false, false}, "differs_from_paper"},
        {{"", 1.0, 1.1, 1.21, 0.1, false, false}, "fail"},
        {{"", 1.0, 1.1, 0.95, 0.1, false, false},
         "fail"}, /* near the paper, not where it should be */
        {{"", 1.0, NAN, 1.05, 0.1, false, false}, "pass"},
        {{"", 1.0, NAN, 1.2, 0.1, false, false}, "differs_from_paper"},
        {{"", NAN, 1.0, 1.05, 0.1, false, false}, "pass"},
        {{"", NAN, 1.0, 1.2, 0.1, false, false}, "fail"},
        {{"", 1.0, 1.0, NAN, 0.1, false, false}, "fail"},
        {{"", 1.0, 1.0, INFINITY, 0.1, false, false}, "fail"},
        {{"", 1.0, 1.0, 1.0, NAN, false, false}, "fail"}, /* no tolerance to pass by */
        {{"", 5.0, NAN, 0.1, 0.1, true, false}, "pass"},
        {{"", 5.0, NAN, 0.2, 0.1, true, false}, "fail"},
        {{"", 5.0, NAN, NAN, 0.1, true, false}, "fail"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(rs_lab_verdict(&rows[i].claim), rows[i].verdict);
}

/* An ordering is judged by twice its standard error, both ways. */
static void orderings_need_twice_their_error(void **state)
{
    (void)state;
    static const struct {
        double difference, error;
        const char *verdict;
    } rows[] = {
        {2.1, 1, "pass"},           {1.9, 1, "no_difference"}, {0, 0, "no_difference"},
        {-1.9, 1, "no_difference"}, {-2.1, 1, "fail"},         {1, 0, "pass"},
        {NAN, 1, "fail"},           {1, NAN, "fail"},          {1, INFINITY, "no_difference"}};
    enum { ROWS = sizeof rows / sizeof *rows };
    rs_error err;
    rs_result *result = rs_result_new("lab");
    rs_lab_report report = {.result = result, .experiment = "walk"};
    assert_int_equal(rs_lab_open_claims(&report, &err), RS_OK);
    assert_int_equal(rs_lab_statement(&report, "statement", &err), RS_OK);
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(rs_lab_order(&report, "order", rows[i].difference, rows[i].error, &err),
                         RS_OK);
        assert_string_equal(rs_table_text(report.claims, i, 8), rows[i].verdict);
        assert_int_equal(rs_table_int(report.claims, i, 6), 1);
    }
    assert_true(rs_table_real(report.claims, 0, 4) == 2.1);
    assert_true(rs_table_real(report.claims, 0, 7) == 2);
    assert_int_equal(report.claimed, ROWS);
    assert_int_equal(report.fails, 3);
    assert_int_equal(rs_result_finding_count(result), 3); /* of those that fail */
    rs_result_free(result);
}

/* The other way round they differ from the paper, and nothing is wrong with the program. */
static void published_orderings_may_differ(void **state)
{
    (void)state;
    static const struct {
        double difference, error;
        const char *verdict;
    } rows[] = {{2.1, 1, "pass"},
                {-1.9, 1, "no_difference"},
                {-2.1, 1, "differs_from_paper"},
                {NAN, 1, "fail"}};
    rs_error err;
    rs_result *result = rs_result_new("lab");
    rs_lab_report report = {.result = result, .experiment = "walk"};
    assert_int_equal(rs_lab_open_claims(&report, &err), RS_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(
            rs_lab_order_published(&report, "order", rows[i].difference, rows[i].error, &err),
            RS_OK);
        assert_string_equal(rs_table_text(report.claims, i, 8), rows[i].verdict);
    }
    assert_int_equal(rs_result_finding_count(result), 2);
    assert_non_null(strstr(rs_result_finding_at(result, 0)->message, "which should be above 2"));
    rs_result_free(result);
}

static void every_experiment_is_described(void **state)
{
    (void)state;
    rs_result *result = rs_result_new("lab");
    rs_error err;
    assert_int_equal(rs_lab_list(result, &err), RS_OK);
    const rs_table *table = rs_result_table(result, "experiments");
    assert_int_equal(rs_table_rows(table), rs_lab_n_experiments);
    for (size_t i = 0; i < rs_lab_n_experiments; i++) {
        const rs_lab_experiment *e = rs_lab_experiments[i];
        assert_string_equal(rs_table_text(table, i, 0), e->id);
        assert_true(strlen(e->title) > 10 && strlen(e->source) > 10 && strlen(e->about) > 40);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(e->id, rs_lab_experiments[k]->id);
    }
    rs_result_free(result);
}

static void unknown_experiments_are_refused(void **state)
{
    (void)state;
    rs_result *result = rs_result_new("lab");
    rs_context context = {.threads = 1};
    rs_lab_options options = {.quick = true};
    rs_error err;
    assert_int_equal(rs_lab_run(result, "dong-depth-int", &options, &context, &err),
                     RS_E_NOT_FOUND);
    assert_non_null(strstr(err.hint, "did you mean \"dong-depth-init\"?"));
    rs_result_free(result);
}

static void an_interrupted_experiment_stops(void **state)
{
    (void)state;
    rs_result *result = rs_result_new("lab");
    volatile sig_atomic_t cancel = 1;
    rs_context context = {.threads = 1, .cancel = &cancel};
    rs_lab_options options = {.quick = true};
    rs_error err;
    assert_int_equal(rs_lab_run(result, "all", &options, &context, &err), RS_E_INTERRUPTED);
    rs_result_free(result);
}

/* What stands of a statement follows from the claims after it;
 * a formula's number is not measured. */
static void statements_follow_from_claims(void **state)
{
    (void)state;
    enum { CLAIM_MEASURED = 4, CLAIM_COMPUTED, STATUS = 1, CLAIMS, SHOWN_BY };
    static const rs_lab_claim pass = {"pass", NAN, 1, 1, 0.1, false, false};
    static const rs_lab_claim computed = {"computed", NAN, 1, 1, 0.1, false, true};
    static const rs_lab_claim differs = {"differs", 1, 2, 2, 0.1, false, false};
    static const rs_lab_claim fails = {"fails", NAN, 1, 2, 0.1, false, false};
    static const struct {
        const rs_lab_claim *claims[3];
        int64_t n;
        const char *status;
    } rows[] = {
        {{&pass, &computed}, 2, "correct"},
        {{&pass, &differs, &pass}, 3, "false"},
        {{&differs, &fails, &pass}, 3, "open"},
        {{NULL}, 0, "open"},
    };
    rs_error err;
    rs_result *result = rs_result_new("lab");
    rs_lab_report report = {.result = result, .experiment = "walk"};
    assert_int_equal(rs_lab_open_claims(&report, &err), RS_OK);
    assert_int_equal(rs_lab_add_claim(&report, &fails, &err), RS_OK); /* of no statement */
    assert_null(rs_result_table(result, "dong_verdicts"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(rs_lab_statement(&report, "statement", &err), RS_OK);
        for (int64_t k = 0; k < rows[i].n; k++)
            assert_int_equal(rs_lab_add_claim(&report, rows[i].claims[k], &err), RS_OK);
    }
    assert_int_equal(rs_lab_statement(&report, NULL, &err), RS_OK);
    assert_int_equal(rs_lab_add_claim(&report, &fails, &err), RS_OK);
    const rs_table *verdicts = rs_result_table(result, "dong_verdicts");
    assert_int_equal(rs_table_rows(verdicts), sizeof rows / sizeof *rows);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(rs_table_text(verdicts, i, STATUS), rows[i].status);
        assert_int_equal(rs_table_int(verdicts, i, CLAIMS), rows[i].n);
        assert_string_equal(rs_table_text(verdicts, i, SHOWN_BY), "walk");
    }
    assert_true(rs_table_real(report.claims, 1, CLAIM_MEASURED) == 1);
    assert_true(isnan(rs_table_real(report.claims, 1, CLAIM_COMPUTED)));
    assert_true(isnan(rs_table_real(report.claims, 2, CLAIM_MEASURED)));
    assert_true(rs_table_real(report.claims, 2, CLAIM_COMPUTED) == 1);
    rs_result_free(result);
}

/* A claim that cannot be judged is neither held nor failed, and no finding. */
static void a_skipped_claim_says_why(void **state)
{
    (void)state;
    static const rs_lab_claim claim = {"of trained weights", 1, NAN, 1, 0.1, false, false};
    rs_error err;
    rs_result *result = rs_result_new("lab");
    rs_lab_report report = {.result = result, .experiment = "walk"};
    assert_int_equal(rs_lab_open_claims(&report, &err), RS_OK);
    assert_int_equal(rs_lab_skip_claim(&report, &claim, "random weights", &err), RS_OK);
    assert_string_equal(rs_table_text(report.claims, 0, 8), "skipped");
    assert_string_equal(rs_table_text(report.claims, 0, 9), "random weights");
    assert_true(isnan(rs_table_real(report.claims, 0, 4)));
    assert_true(rs_table_real(report.claims, 0, 2) == 1);
    assert_int_equal(rs_result_count_findings(result, RS_INFO), 0);
    rs_result_free(result);
}

/* The command that repeats a claim's experiment has what it was run with, and a failure says it. */
static void a_claim_can_be_repeated(void **state)
{
    (void)state;
    char text[] = "a text's.txt";
    const rs_lab_data data = {.text = text};
    const rs_lab_options full = {.seeds = 2, .data = &data, .named_data = text},
                         quick = {.quick = true};
    const rs_context context = {.threads = 1, .seed = 7}, first = {.threads = 1};
    rs_error err;
    rs_result *result = rs_result_new("lab");
    assert_int_equal(rs_lab_run(result, "dong-bounds", &quick, &first, &err), RS_OK);
    const rs_table *claims = rs_result_table(result, "claims");
    size_t repeat = (size_t)rs_table_find_column(claims, "repeat");
    for (size_t row = 0; row < rs_table_rows(claims); row++)
        assert_string_equal(rs_table_text(claims, row, repeat),
                            "rankscope lab run dong-bounds --quick");
    rs_result_free(result);
    result = rs_result_new("lab");
    assert_int_equal(rs_lab_run(result, "heavy-ball-root", &full, &context, &err), RS_E_USAGE);
    const rs_lab_options seeds = {.seeds = 2};
    assert_int_equal(rs_lab_run(result, "heavy-ball-root", &seeds, &context, &err), RS_OK);
    claims = rs_result_table(result, "claims");
    assert_string_equal(rs_table_text(claims, 0, repeat),
                        "rankscope lab run heavy-ball-root --seed 7 --seeds 2");
    rs_result_free(result);
    /* a failure */
    result = rs_result_new("lab");
    rs_lab_report report = {.result = result,
                            .experiment = "walk",
                            .repeat = "rankscope lab run walk --seed 7",
                            .seed = 7};
    const rs_lab_claim claim = {"text", NAN, 1, 2, 0.5, false, false};
    assert_int_equal(rs_lab_open_claims(&report, &err), RS_OK);
    assert_int_equal(rs_lab_add_claim(&report, &claim, &err), RS_OK);
    const rs_finding *finding = rs_result_finding_at(result, 0);
    assert_non_null(
        strstr(finding->message, "measured 2, expected 1 (tolerance 0.5), from seed 7 on"));
    assert_non_null(strstr(finding->hint, "'rankscope lab run walk --seed 7' repeats it"));
    rs_result_free(result);
}

/* A model, or data, is refused by an experiment that has no use for it, and by none that has. */
static void models_are_offered_where_they_are_taken(void **state)
{
    (void)state;
    rs_error err;
    size_t takers = 0;
    assert_int_equal(rs_lab_check("all", 9, true, &err), RS_OK);
    assert_int_equal(rs_lab_check("lambda-figure-9", 1, true, &err), RS_E_NOT_FOUND);
    for (size_t i = 0; i < rs_lab_n_experiments; i++) {
        const rs_lab_experiment *e = rs_lab_experiments[i];
        assert_int_equal(rs_lab_check(e->id, 0, false, &err), RS_OK);
        assert_int_equal(rs_lab_check(e->id, 0, true, &err),
                         rs_lab_takes_data(e) ? RS_OK : RS_E_USAGE);
        assert_int_equal(rs_lab_check(e->id, e->takes_models, false, &err), RS_OK);
        assert_int_equal(rs_lab_check(e->id, e->takes_models + 1, false, &err), RS_E_USAGE);
        takers += e->takes_models > 0;
    }
    assert_int_equal(takers, 6);
}

static rs_status list_and_claim(rs_error *err)
{
    rs_result *result = rs_result_new("lab");
    if (!result) return RS_E_NO_MEMORY;
    rs_lab_report report = {.result = result, .experiment = "walk"};
    const rs_lab_claim claim = {"text", 1, 1, 2, 0.5, false, false};
    rs_status status = rs_lab_list(result, err);
    if (status == RS_OK) status = rs_lab_open_claims(&report, err);
    if (status == RS_OK) status = rs_lab_add_claim(&report, &claim, err);
    if (status == RS_OK) status = rs_result_group_findings(result, err);
    if (status == RS_OK) {
        assert_string_equal(rs_table_text(report.claims, 0, 8), "fail");
        assert_int_equal(rs_result_count_findings(result, 2), 1);
    }
    rs_result_free(result);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    rs_error err;
    int64_t before = rs_memory_requests();
    assert_int_equal(list_and_claim(&err), RS_OK);
    int64_t n = rs_memory_requests() - before;
    for (int64_t i = 1; i <= n; i++) {
        rs_memory_fail_at(i);
        rs_status status = list_and_claim(&err);
        rs_memory_fail_at(0);
        assert_int_equal(status, RS_E_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orderings_need_twice_their_error),
        cmocka_unit_test(published_orderings_may_differ),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(every_experiment_is_described),
        cmocka_unit_test(unknown_experiments_are_refused),
        cmocka_unit_test(an_interrupted_experiment_stops),
        cmocka_unit_test(statements_follow_from_claims),
        cmocka_unit_test(a_skipped_claim_says_why),
        cmocka_unit_test(a_claim_can_be_repeated),
        cmocka_unit_test(models_are_offered_where_they_are_taken),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
