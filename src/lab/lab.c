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
    &rs_lab_dong_paths,
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
    {"tolerance", RS_COLUMN_REAL, "tolerance", NULL,
     "how far measured may be from them (or how large it may be)", NULL},
    {"verdict", RS_COLUMN_TEXT, "verdict", NULL,
     "fail: not as expected; differs_from_paper: as expected, but not as published", NULL},
};
enum { EXPERIMENT, CLAIM, PUBLISHED, EXPECTED, MEASURED, TOLERANCE, VERDICT, CLAIM_COLUMNS };

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
    snprintf(message, sizeof message, "%s: %s: measured %.4g, %s %.4g (tolerance %.2g)",
             report->experiment, claim->text, claim->measured,
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
    rs_table_set_real(table, row, MEASURED, claim->measured);
    rs_table_set_real(table, row, TOLERANCE, claim->tolerance);
    RS_TRY(rs_table_set_text(table, row, VERDICT, verdict, err));
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
