/* lab.c: the registry of experiments, and the table that all of them share. */
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const rs_lab_experiment *const rs_lab_experiments[] = {
    &rs_lab_dong_depth_init,  &rs_lab_dong_perturbation_lemma,
    &rs_lab_causal_half_law,  &rs_lab_relative_position_linear_rate,
    &rs_lab_equiangular_ode,  &rs_lab_dobrushin_mask,
    &rs_lab_lambda_attention, &rs_lab_dong_skip_lower_bound,
    &rs_lab_dong_layernorm,   &rs_lab_dong_mlp,
    &rs_lab_dong_bounds,      &rs_lab_dong_doubly_exponential,
    &rs_lab_dong_paths,       &rs_lab_dong_ensemble,
};
const size_t rs_lab_n_experiments = sizeof rs_lab_experiments / sizeof *rs_lab_experiments;

/* ---- claims ---- */

static const rs_column claim_columns[] = {
    {"experiment", RS_COLUMN_TEXT, "experiment", NULL, NULL, NULL},
    {"claim", RS_COLUMN_TEXT, "claim", NULL, NULL, NULL},
    {"published", RS_COLUMN_REAL, "published", NULL, "the number in the paper's figure or table",
     "published"},
    {"expected", RS_COLUMN_REAL, "expected", NULL,
     "the number of an independent calculation under the same settings", "predicted"},
    {"measured", RS_COLUMN_REAL, "measured", NULL, "this run", "measured"},
    {"computed", RS_COLUMN_REAL, "computed", NULL, "this run, by a formula: nothing was measured",
     "predicted"},
    {"tolerance", RS_COLUMN_REAL, "tolerance", NULL,
     "how far measured (or computed) may be from them (or how large it may be)", NULL},
    {"verdict", RS_COLUMN_TEXT, "verdict", NULL,
     "fail: not as expected; differs_from_paper: as expected, but not as published", NULL},
};
enum {
    EXPERIMENT,
    CLAIM,
    PUBLISHED,
    EXPECTED,
    MEASURED,
    COMPUTED,
    TOLERANCE,
    VERDICT,
    CLAIM_COLUMNS
};

static bool leaves(double measured, double reference, double tolerance)
{
    return !isnan(reference) && !(fabs(measured - reference) <= tolerance);
}

const char *rs_lab_verdict(const rs_lab_claim *claim)
{
    if (!isfinite(claim->measured)) return "fail";
    if (claim->at_most) return claim->measured <= claim->tolerance ? "pass" : "fail";
    if (leaves(claim->measured, claim->expected, claim->tolerance)) return "fail";
    return leaves(claim->measured, claim->published, claim->tolerance) ? "differs_from_paper"
                                                                       : "pass";
}

static rs_status add_finding(rs_lab_report *report, const rs_lab_claim *claim, const char *verdict,
                             rs_error *err)
{
    bool failed = strcmp(verdict, "fail") == 0;
    char message[400];
    snprintf(message, sizeof message, "%s: %s: %s %.4g, %s %.4g (tolerance %.2g)",
             report->experiment, claim->text, claim->computed ? "computed" : "measured",
             claim->measured,
             failed && claim->at_most ? "at most"
             : failed                 ? "expected"
                                      : "published",
             failed && claim->at_most ? claim->tolerance
             : failed                 ? claim->expected
                                      : claim->published,
             claim->tolerance);
    rs_finding finding = {.severity = failed ? RS_CRITICAL : RS_WARN,
                          .code = failed ? "claim_failed" : "differs_from_paper",
                          .layer = RS_NULL_INT,
                          .head = RS_NULL_INT,
                          .value = claim->measured,
                          .threshold = claim->tolerance,
                          .message = message,
                          .hint = failed ? "report this with --json: the program or this machine's "
                                           "arithmetic is wrong"
                                         : "the experiment's page in docs/lab.md says why",
                          .table = "claims"};
    return rs_result_add_finding(report->result, &finding, err);
}

/* ---- statements ---- */

enum { STATEMENT, STATUS, CLAIMS, SHOWN_BY, VERDICT_COLUMNS };

static rs_status open_verdicts(rs_lab_report *report, rs_error *err)
{
    static const rs_column columns[VERDICT_COLUMNS] = {
        {"statement", RS_COLUMN_TEXT, "statement", NULL, NULL, NULL},
        {"status", RS_COLUMN_TEXT, "status", NULL,
         "correct: all claims about it pass; false: one differs from the paper; open: one fails, "
         "or none ran",
         NULL},
        {"claims", RS_COLUMN_INT, "claims", NULL, "about it, in table claims", NULL},
        {"shown_by", RS_COLUMN_TEXT, "shown by", NULL, NULL, NULL},
    };
    return rs_result_add_table(report->result, "dong_verdicts",
                               "Dong, Cordonnier, Loukas 2021, statement by statement",
                               "What stands of each statement that the experiments of this run are "
                               "about: it follows from their claims.",
                               columns, VERDICT_COLUMNS, &report->verdicts, err);
}

static rs_status set_status(rs_lab_report *report, rs_error *err)
{
    const char *status = report->fails > 0 || report->claimed == 0 ? "open"
                         : report->differ > 0                      ? "false"
                                                                   : "correct";
    rs_table_set_int(report->verdicts, report->statement, CLAIMS, report->claimed);
    return rs_table_set_text(report->verdicts, report->statement, STATUS, status, err);
}

static rs_status count_claim(rs_lab_report *report, const char *verdict, rs_error *err)
{
    report->claimed++;
    report->differ += strcmp(verdict, "differs_from_paper") == 0;
    report->fails += strcmp(verdict, "fail") == 0;
    return set_status(report, err);
}

rs_status rs_lab_statement(rs_lab_report *report, const char *statement, rs_error *err)
{
    report->stating = statement != NULL;
    report->claimed = report->differ = report->fails = 0;
    if (!statement) return RS_OK;
    if (!report->verdicts) RS_TRY(open_verdicts(report, err));
    RS_TRY(rs_table_add_row(report->verdicts, &report->statement, err));
    RS_TRY(rs_table_set_text(report->verdicts, report->statement, STATEMENT, statement, err));
    RS_TRY(
        rs_table_set_text(report->verdicts, report->statement, SHOWN_BY, report->experiment, err));
    return set_status(report, err);
}

rs_status rs_lab_add_claim(rs_lab_report *report, const rs_lab_claim *claim, rs_error *err)
{
    size_t row = 0;
    const char *verdict = rs_lab_verdict(claim);
    rs_table *table = report->claims;
    RS_TRY(rs_table_add_row(table, &row, err));
    RS_TRY(rs_table_set_text(table, row, EXPERIMENT, report->experiment, err));
    RS_TRY(rs_table_set_text(table, row, CLAIM, claim->text, err));
    rs_table_set_real(table, row, PUBLISHED, claim->published);
    rs_table_set_real(table, row, EXPECTED, claim->expected);
    rs_table_set_real(table, row, MEASURED, claim->computed ? NAN : claim->measured);
    rs_table_set_real(table, row, COMPUTED, claim->computed ? claim->measured : NAN);
    rs_table_set_real(table, row, TOLERANCE, claim->tolerance);
    RS_TRY(rs_table_set_text(table, row, VERDICT, verdict, err));
    if (report->stating) RS_TRY(count_claim(report, verdict, err));
    return strcmp(verdict, "pass") == 0 ? RS_OK : add_finding(report, claim, verdict, err);
}

/* ---- running ---- */

static rs_status unknown(const char *id, rs_error *err)
{
    const char *nearest = rs_lab_experiments[0]->id;
    for (size_t i = 1; i < rs_lab_n_experiments; i++)
        if (rs_edit_distance(id, rs_lab_experiments[i]->id) < rs_edit_distance(id, nearest))
            nearest = rs_lab_experiments[i]->id;
    char hint[160];
    snprintf(hint, sizeof hint, "did you mean \"%s\"? 'rankscope lab list' shows all", nearest);
    return rs_fail(err, RS_E_NOT_FOUND, id, hint, "there is no experiment of that name");
}

rs_status rs_lab_run(rs_result *result, const char *id, const rs_lab_options *options,
                     const rs_context *context, rs_error *err)
{
    bool all = strcmp(id, "all") == 0, found = false;
    rs_lab_report report = {.result = result};
    RS_TRY(rs_result_add_table(result, "claims", "Claims",
                               "What was published, what an independent calculation gives, and "
                               "what this run measured.",
                               claim_columns, CLAIM_COLUMNS, &report.claims, err));
    for (size_t i = 0; i < rs_lab_n_experiments; i++) {
        const rs_lab_experiment *experiment = rs_lab_experiments[i];
        if (!all && strcmp(id, experiment->id) != 0) continue;
        found = true;
        report.experiment = experiment->id;
        RS_TRY(experiment->run(&report, options, context, err));
        RS_TRY(rs_lab_statement(&report, NULL, err));
    }
    return found ? RS_OK : unknown(id, err);
}

rs_status rs_lab_list(rs_result *result, rs_error *err)
{
    static const rs_column columns[] = {
        {"id", RS_COLUMN_TEXT, "id", NULL, NULL, NULL},
        {"title", RS_COLUMN_TEXT, "title", NULL, NULL, NULL},
        {"source", RS_COLUMN_TEXT, "source", NULL, NULL, NULL},
        {"about", RS_COLUMN_TEXT, "about", NULL, NULL, NULL},
    };
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(result, "experiments", "Experiments",
                               "Run one with 'rankscope lab run ID'.", columns,
                               sizeof columns / sizeof *columns, &table, err));
    for (size_t i = 0; i < rs_lab_n_experiments; i++) {
        const rs_lab_experiment *e = rs_lab_experiments[i];
        const char *texts[] = {e->id, e->title, e->source, e->about};
        size_t row = 0;
        RS_TRY(rs_table_add_row(table, &row, err));
        for (size_t c = 0; c < 4; c++)
            RS_TRY(rs_table_set_text(table, row, c, texts[c], err));
    }
    return RS_OK;
}
