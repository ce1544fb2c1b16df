/* lab.c: the registry of experiments, and the table that all of them share. */
#include "lab/lab.h"

#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const rs_lab_experiment *const rs_lab_experiments[] = {
    &rs_lab_dong_depth_init,
    &rs_lab_dong_depth_pretrained,
    &rs_lab_dong_perturbation_lemma,
    &rs_lab_causal_half_law,
    &rs_lab_relative_position_linear_rate,
    &rs_lab_equiangular_ode,
    &rs_lab_dobrushin_mask,
    &rs_lab_lambda_attention,
    &rs_lab_dong_skip_lower_bound,
    &rs_lab_dong_layernorm,
    &rs_lab_dong_mlp,
    &rs_lab_dong_lipschitz,
    &rs_lab_dong_heads,
    &rs_lab_dong_bounds,
    &rs_lab_dong_doubly_exponential,
    &rs_lab_dong_paths,
    &rs_lab_dong_ensemble,
    &rs_lab_dong_ensembles,
    &rs_lab_dong_sorting,
    &rs_lab_dong_convex_hull,
    &rs_lab_dong_memorization,
    &rs_lab_dong_circle,
    &rs_lab_graph_oversmoothing,
    &rs_lab_ssm_homogeneity,
    &rs_lab_ssm_rank_one_without_mu,
    &rs_lab_one_layer_collapse,
    &rs_lab_lambda_minus_three_halves,
    &rs_lab_consensus_threshold,
    &rs_lab_gate_reinjects,
    &rs_lab_lti_with_and_without_norm,
    &rs_lab_lrp_conservation,
    &rs_lab_lambda_theorem_4_3,
    &rs_lab_lambda_theorem_4_1,
    &rs_lab_lambda_figure_1,
    &rs_lab_lambda_figure_2,
    &rs_lab_lambda_figure_3,
    &rs_lab_lambda_table1_small,
    &rs_lab_kobayashi_fig1,
    &rs_lab_kobayashi_fig2,
    &rs_lab_kobayashi_fig4,
    &rs_lab_kobayashi_fig5,
    &rs_lab_kobayashi_theorems,
    &rs_lab_certificate_global_minimum,
    &rs_lab_gqa_balance,
    &rs_lab_rope_planes,
    &rs_lab_heavy_ball_root,
    &rs_lab_product_penalty,
    &rs_lab_kobayashi_fig3,
    &rs_lab_kobayashi_table1_small,
    &rs_lab_gap_width_collapse,
    &rs_lab_gap_fixed_dk,
    &rs_lab_gap_bert_init,
    &rs_lab_centred_identities,
    &rs_lab_oversmoothing_bound,
    &rs_lab_shaped_sde,
    &rs_lab_espa,
    &rs_lab_sas_at_init,
    &rs_lab_softmax_moment,
    &rs_lab_noci_fig1,
    &rs_lab_noci_lemma_3_2,
    &rs_lab_noci_theorem_3_3,
    &rs_lab_noci_hyperparameters,
    &rs_lab_xiong_last_layer,
    &rs_lab_noci_fig1_training,
    &rs_lab_noci_fig5_adam,
    &rs_lab_noci_table1_small,
    &rs_lab_gap_training,
    &rs_lab_skipless_train,
    &rs_lab_fusion_train,
    &rs_lab_alarms,
};
const size_t rs_lab_n_experiments = sizeof rs_lab_experiments / sizeof *rs_lab_experiments;

/* ---- claims ---- */

/* A row of table claims. */
typedef struct claim_cells {
    const char *experiment, *verdict;
    rs_lab_claim of;
    double computed;
    bool ordering;
    const char *reason; /* of a claim that was skipped; NULL */
    const char *repeat; /* the command that runs its experiment */
} claim_cells;

static const rs_column claim_columns[] = {
    RS_COLUMN(claim_cells, experiment, "experiment", "experiment", NULL, "its id in lab list",
              NULL),
    RS_COLUMN(claim_cells, of.text, "claim", "claim", NULL, "what is said of a number", NULL),
    RS_COLUMN(claim_cells, of.published, "published", "published", NULL,
              "the number in the paper's figure or table", "published"),
    RS_COLUMN(claim_cells, of.expected, "expected", "expected", NULL,
              "the number of an independent calculation under the same settings", "predicted"),
    RS_COLUMN(claim_cells, of.measured, "measured", "measured", NULL, "this run", "measured"),
    RS_COLUMN(claim_cells, computed, "computed", "computed", NULL,
              "this run, by a formula: nothing was measured", "predicted"),
    RS_COLUMN(
        claim_cells, ordering, "ordering", "ordering", NULL,
        "measured is a difference that should be above tolerance, twice its standard error (of two "
        "to four seeds more: times t(0.975, n - 1)/1.96)",
        NULL),
    RS_COLUMN(claim_cells, of.tolerance, "tolerance", "tolerance", NULL,
              "how far measured (or computed) may be from them (or how large it may be)", NULL),
    RS_COLUMN(
        claim_cells, verdict, "verdict", "verdict", NULL,
        "fail: not as expected; differs_from_paper: not as published, and as expected where there "
        "is "
        "such a number; no_difference: an ordering that is not seen either way; skipped: what the "
        "claim is about is not there",
        NULL),
    RS_COLUMN(claim_cells, reason, "reason", "reason", NULL, "why a claim was skipped", NULL),
    RS_COLUMN(claim_cells, repeat, "repeat", "repeat", NULL,
              "the command that runs its experiment again, alone and with the same seeds", NULL),
};
const rs_table_kind rs_lab_claims_kind = {"lab", "claims", {RS_PART(claim_columns)}};
rs_status rs_lab_open_claims(rs_lab_report *report, rs_error *err)
{
    return rs_result_add_table(report->result, "claims", "Claims",
                               "What was published, what an independent calculation gives, and "
                               "what this run measured.",
                               claim_columns, sizeof claim_columns / sizeof *claim_columns,
                               &report->claims, err);
}

static bool leaves(double measured, double reference, double tolerance)
{
    return !isnan(reference) && !(fabs(measured - reference) <= tolerance);
}

typedef enum claim_outcome { PASS, FAIL, DIFFERS, SAME, SKIPPED } claim_outcome;
static const char *const verdicts[] = {"pass", "fail", "differs_from_paper", "no_difference",
                                       "skipped"};

static claim_outcome outcome_of(const rs_lab_claim *claim)
{
    if (!isfinite(claim->measured)) return FAIL;
    if (claim->at_most) return claim->measured <= claim->tolerance ? PASS : FAIL;
    if (leaves(claim->measured, claim->expected, claim->tolerance)) return FAIL;
    return leaves(claim->measured, claim->published, claim->tolerance) ? DIFFERS : PASS;
}

const char *rs_lab_verdict(const rs_lab_claim *claim)
{
    return verdicts[outcome_of(claim)];
}

/* "measured 0.3, expected 0.5 (tolerance 0.1)" */
static void put_numbers(char *text, size_t size, const claim_cells *cells, bool failed)
{
    const rs_lab_claim *claim = &cells->of;
    bool known = failed && !isnan(claim->expected);
    if (claim->at_most) {
        snprintf(text, size, "measured %.4g, %s %.4g", claim->measured,
                 cells->ordering ? "which should be above" : "at most", claim->tolerance);
        return;
    }
    snprintf(text, size, "%s %.4g, %s %.4g (tolerance %.2g)",
             claim->computed ? "computed" : "measured", claim->measured,
             known ? "expected" : "published", known ? claim->expected : claim->published,
             claim->tolerance);
}

/* cells->of as it was claimed: also what was computed stands in `measured`. */
static rs_status add_finding(rs_lab_report *report, const claim_cells *cells, bool failed,
                             rs_error *err)
{
    const rs_lab_claim *claim = &cells->of;
    char numbers[120], message[400], hint[600];
    put_numbers(numbers, sizeof numbers, cells, failed);
    int used =
        snprintf(message, sizeof message, "%s: %s: %s", report->experiment, claim->text, numbers);
    if (failed && used > 0 && used < (int)sizeof message)
        snprintf(message + used, sizeof message - (size_t)used, ", from seed %llu on",
                 (unsigned long long)report->seed);
    snprintf(hint, sizeof hint,
             "'%.400s' repeats it; report this with --json: the program or this machine's "
             "arithmetic is wrong",
             report->repeat ? report->repeat : report->experiment);
    rs_finding finding = rs_finding_of(failed ? RS_CRITICAL : RS_WARN,
                                       failed ? "claim_failed" : "differs_from_paper");
    finding.value = claim->measured;
    finding.threshold = claim->tolerance;
    finding.message = message;
    finding.hint = failed ? hint : "the experiment's page in docs/lab.md says why";
    finding.table = "claims";
    finding.cases = "claims";
    return rs_result_add_finding(report->result, &finding, err);
}

/* ---- statements ---- */

/* A row of table dong_verdicts. */
typedef struct verdict_cells {
    const char *statement, *status, *shown_by;
    int64_t claims;
} verdict_cells;

static const rs_column verdict_columns[] = {
    RS_COLUMN(verdict_cells, statement, "statement", "statement", NULL, "of the paper", NULL),
    RS_COLUMN(verdict_cells, status, "status", "status", NULL,
              "correct: all claims about it pass; false: one differs from the paper; open: one "
              "fails, "
              "or none ran",
              NULL),
    RS_COLUMN(verdict_cells, claims, "claims", "claims", NULL, "about it, in table claims", NULL),
    RS_COLUMN(verdict_cells, shown_by, "shown_by", "shown by", NULL,
              "the experiment whose claims are counted", NULL),
};
const rs_table_kind rs_lab_verdicts_kind = {"lab", "dong_verdicts", {RS_PART(verdict_columns)}};

static rs_status open_verdicts(rs_lab_report *report, rs_error *err)
{
    return rs_result_add_table(
        report->result, "dong_verdicts", "Dong, Cordonnier, Loukas 2021, statement by statement",
        "What stands of each statement that the experiments of this run are "
        "about: it follows from their claims.",
        verdict_columns, sizeof verdict_columns / sizeof *verdict_columns, &report->verdicts, err);
}

static void count_claim(rs_lab_report *report, claim_outcome outcome)
{
    report->claimed++;
    report->differ += outcome == DIFFERS;
    report->fails += outcome == FAIL;
}

/* Adds the row of the statement that the claims so far were about. */
static rs_status conclude(const rs_lab_report *report, rs_error *err)
{
    const verdict_cells cells = {.statement = report->statement,
                                 .status = report->fails > 0 || report->claimed == 0 ? "open"
                                           : report->differ > 0                      ? "false"
                                                                                     : "correct",
                                 .shown_by = report->experiment,
                                 .claims = report->claimed};
    return rs_table_append(report->verdicts, &cells, err);
}

rs_status rs_lab_statement(rs_lab_report *report, const char *statement, rs_error *err)
{
    if (report->statement) RS_TRY(conclude(report, err));
    report->statement = statement;
    report->claimed = report->differ = report->fails = 0;
    return statement && !report->verdicts ? open_verdicts(report, err) : RS_OK;
}

/* Adds the row, counts it, and says what is amiss. */
static rs_status judge(rs_lab_report *report, claim_cells *cells, claim_outcome outcome,
                       rs_error *err)
{
    claim_cells row = *cells;
    row.experiment = report->experiment;
    row.repeat = report->repeat;
    row.verdict = verdicts[outcome];
    row.computed = NAN;
    if (row.of.computed) {
        row.computed = row.of.measured;
        row.of.measured = NAN;
    }
    if (outcome == SKIPPED) row.of.measured = NAN;
    RS_TRY(rs_table_append(report->claims, &row, err));
    if (report->statement && outcome != SKIPPED) count_claim(report, outcome);
    bool amiss = outcome == FAIL || outcome == DIFFERS;
    return amiss ? add_finding(report, cells, outcome == FAIL, err) : RS_OK;
}

rs_status rs_lab_add_claim(rs_lab_report *report, const rs_lab_claim *claim, rs_error *err)
{
    return judge(report, &(claim_cells){.of = *claim}, outcome_of(claim), err);
}

rs_status rs_lab_at_most_where(rs_lab_report *report, bool known, const char *text, double measured,
                               double bound, rs_error *err)
{
    claim_cells cells = {.of = {text, NAN, NAN, measured, bound, true, false}};
    claim_outcome found = outcome_of(&cells.of);
    if (!known && found == FAIL && isfinite(measured)) found = DIFFERS;
    return judge(report, &cells, found, err);
}

rs_status rs_lab_skip_claim(rs_lab_report *report, const rs_lab_claim *claim, const char *reason,
                            rs_error *err)
{
    return judge(report, &(claim_cells){.of = *claim, .reason = reason}, SKIPPED, err);
}

/* turned: what it is called when the order is the other way round. */
static rs_status order(rs_lab_report *report, const char *text, double difference, double error,
                       claim_outcome turned, rs_error *err)
{
    bool judged = isfinite(difference) && !isnan(error);
    const claim_outcome found = !judged                     ? FAIL
                                : difference > 2 * error    ? PASS
                                : difference < -(2 * error) ? turned
                                                            : SAME;
    claim_cells cells = {.of = {text, NAN, NAN, difference, 2 * error, true, false},
                         .ordering = true};
    return judge(report, &cells, found, err);
}

rs_status rs_lab_order(rs_lab_report *report, const char *text, double difference, double error,
                       rs_error *err)
{
    return order(report, text, difference, error, FAIL, err);
}

rs_status rs_lab_order_published(rs_lab_report *report, const char *text, double difference,
                                 double error, rs_error *err)
{
    return order(report, text, difference, error, DIFFERS, err);
}

/* ---- the verdict ---- */

/* Counts of table claims by verdict. */
typedef struct tally {
    size_t claims, fail, differ, same, skipped; /* same: orderings that show no difference */
    size_t awaited;                             /* of those that differ: as was expected */
    const char *failed;                         /* the first claim that failed */
} tally;

static tally count_claims(const rs_table *claims)
{
    tally t = {.claims = rs_table_rows(claims)};
    size_t verdict = (size_t)rs_table_find_column(claims, "verdict");
    size_t claim = (size_t)rs_table_find_column(claims, "claim");
    size_t expected = (size_t)rs_table_find_column(claims, "expected");
    for (size_t i = 0; i < t.claims; i++) {
        const char *text = rs_table_text(claims, i, verdict);
        bool fails = strcmp(text, "fail") == 0;
        if (fails && !t.failed) t.failed = rs_table_text(claims, i, claim);
        t.fail += fails;
        bool differs = strcmp(text, "differs_from_paper") == 0;
        t.differ += differs;
        t.awaited += differs && !isnan(rs_table_real(claims, i, expected));
        t.same += strcmp(text, "no_difference") == 0;
        t.skipped += strcmp(text, "skipped") == 0;
    }
    return t;
}

/* What stands behind the number of claims that hold. */
static void say_rest(char *text, size_t size, const tally *t)
{
    size_t used = 0;
    text[0] = 0;
    if (t->fail)
        used += (size_t)snprintf(text, size, "; %zu fail%s, the first: %s", t->fail,
                                 t->fail == 1 ? "s" : "", t->failed);
    if (used >= size) return;
    if (t->differ)
        used += (size_t)snprintf(text + used, size - used, "; %zu differ%s from the paper%s",
                                 t->differ, t->differ == 1 ? "s" : "",
                                 t->awaited < t->differ ? "" : ", as expected");
    if (used < size && t->same)
        used += (size_t)snprintf(text + used, size - used, "; %zu show%s no difference", t->same,
                                 t->same == 1 ? "s" : "");
    if (used < size && t->skipped)
        snprintf(text + used, size - used, "; %zu %s skipped: what they are about is not there",
                 t->skipped, t->skipped == 1 ? "was" : "were");
}

static rs_status answer(const rs_lab_report *report, rs_error *err)
{
    char text[500], more[400];
    tally t = count_claims(report->claims);
    size_t hold = t.claims - t.fail - t.differ - t.same - t.skipped;
    say_rest(more, sizeof more, &t);
    snprintf(text, sizeof text, "%zu of %zu claim%s hold%s%s.", hold, t.claims,
             t.claims == 1 ? "" : "s", t.claims == 1 ? "s" : "", more);
    const rs_verdict verdict = {
        .answer = text,
        .code = t.fail                  ? "claims_fail"
                : t.differ              ? "claims_differ"
                : t.skipped == t.claims ? "claims_skipped"
                                        : "claims_hold",
        .severity = t.fail ? RS_CRITICAL : RS_INFO,
        .value = (double)hold,
        .threshold = (double)t.claims,
        .next = t.fail
                    ? "report this with --json: the program or this machine's arithmetic is "
                      "wrong"
                    : "--html FILE draws the figures; docs/lab.md says what each claim is about"};
    return rs_result_set_verdict(report->result, &verdict, err);
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

static rs_status check_models(const rs_lab_experiment *experiment, int32_t models, rs_error *err)
{
    int32_t most = experiment->takes_models;
    if (models <= most) return RS_OK;
    static const char hint[] =
        "lambda-figure-1, -2 and -3, kobayashi-fig4 and dong-ensembles run one model, "
        "dong-depth-pretrained up to three; leave --model out for the "
        "others";
    return most > 0 ? rs_fail(err, RS_E_USAGE, "--model", hint,
                              "the experiment %s runs %d model%s, not %d", experiment->id,
                              (int)most, most == 1 ? "" : "s", (int)models)
                    : rs_fail(err, RS_E_USAGE, "--model", hint,
                              "the experiment %s has networks of its own", experiment->id);
}

const char *rs_lab_takes_data(const rs_lab_experiment *experiment)
{
    static const struct {
        const rs_lab_experiment *experiment;
        const char *takes;
    } of[] = {{&rs_lab_kobayashi_table1_small, "text"},
              {&rs_lab_kobayashi_fig3, "text, images"},
              {&rs_lab_skipless_train, "text"},
              {&rs_lab_lambda_table1_small, "images"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i].experiment == experiment) return of[i].takes;
    return NULL;
}

const rs_lab_experiment *rs_lab_find(const char *id)
{
    for (size_t i = 0; i < rs_lab_n_experiments; i++)
        if (strcmp(id, rs_lab_experiments[i]->id) == 0) return rs_lab_experiments[i];
    return NULL;
}

rs_status rs_lab_check(const char *id, int32_t models, bool data, rs_error *err)
{
    if (strcmp(id, "all") == 0) return RS_OK;
    const rs_lab_experiment *experiment = rs_lab_find(id);
    if (!experiment) return unknown(id, err);
    if (data && !rs_lab_takes_data(experiment))
        return rs_fail(err, RS_E_USAGE, "--data",
                       "kobayashi-table1-small, kobayashi-fig3 and skipless-train train on a text, "
                       "kobayashi-fig3 and lambda-table1-small on images; leave --data out for the "
                       "others",
                       "the experiment %s has data of its own", id);
    return check_models(experiment, models, err);
}

/* That an experiment trains on each kind of what the user named. */
static rs_status check_data(const rs_lab_experiment *experiment, const rs_lab_data *data,
                            rs_error *err)
{
    const char *takes = experiment && data ? rs_lab_takes_data(experiment) : NULL;
    if (takes && data->text && !strstr(takes, "text"))
        return rs_fail(err, RS_E_USAGE, "--data",
                       "images lie in two arrays, digits_x.npy and digits_y.npy: name the first",
                       "%s trains on images, and \"%s\" would be a text", experiment->id,
                       data->text);
    if (takes && data->x && !strstr(takes, "images"))
        return rs_fail(err, RS_E_USAGE, "--data", "name a text",
                       "%s trains on a text, and \"%s\" are images", experiment->id, data->x);
    return RS_OK;
}

/* A path as a shell takes it. */
static void put_path(rs_buffer *text, const char *before, const char *path)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.,:/@%";
    bool quoted = path[strspn(path, plain)] != 0;
    rs_buffer_printf(text, "%s%s", before, quoted ? "'" : "");
    for (const char *c = path; *c; c++)
        rs_buffer_printf(text, *c == '\'' ? "'\\%c'" : "%c", *c);
    rs_buffer_puts(text, quoted ? "'" : "");
}

/* The command that does an experiment alone what it does here. */
static rs_status write_repeat(rs_lab_report *report, const rs_lab_experiment *experiment,
                              const rs_lab_options *options, rs_error *err)
{
    rs_buffer text = {0};
    int32_t models =
        options->n_models < experiment->takes_models ? options->n_models : experiment->takes_models;
    rs_buffer_printf(&text, "rankscope lab run %s%s", experiment->id,
                     options->quick ? " --quick" : "");
    if (report->seed > 0) rs_buffer_printf(&text, " --seed %llu", (unsigned long long)report->seed);
    if (options->seeds > 0) rs_buffer_printf(&text, " --seeds %lld", (long long)options->seeds);
    if (options->data && options->named_data && rs_lab_takes_data(experiment))
        put_path(&text, " --data ", options->named_data);
    for (int32_t m = 0; m < models; m++)
        put_path(&text, m == 0 ? " --model " : ",", options->model[m].path);
    if (models > 0 && options->named_text) put_path(&text, " --text ", options->named_text);
    report->repeat =
        text.failed ? NULL : rs_arena_strdup(rs_result_arena(report->result), text.data);
    rs_buffer_free(&text);
    return report->repeat ? RS_OK : rs_fail_memory(err, "a command", 1);
}

rs_status rs_lab_run(rs_result *result, const char *id, const rs_lab_options *options,
                     const rs_context *context, rs_error *err)
{
    bool all = strcmp(id, "all") == 0;
    rs_lab_report report = {.result = result, .seed = context->seed};
    RS_TRY(rs_lab_check(id, options->n_models, options->data != NULL, err));
    RS_TRY(check_data(rs_lab_find(id), options->data, err));
    RS_TRY(rs_lab_open_claims(&report, err));
    rs_table_lead(report.claims);
    if (all) rs_result_show_curve(result, NULL); /* one experiment's curves would stand for all */
    for (size_t i = 0; i < rs_lab_n_experiments; i++) {
        const rs_lab_experiment *experiment = rs_lab_experiments[i];
        if (!all && strcmp(id, experiment->id) != 0) continue;
        report.experiment = experiment->id;
        RS_TRY(write_repeat(&report, experiment, options, err));
        RS_TRY(experiment->run(&report, options, context, err));
        RS_TRY(rs_lab_statement(&report, NULL, err));
    }
    return answer(&report, err);
}

static const rs_column experiment_columns[] = {
    RS_COLUMN(rs_lab_experiment, id, "id", "id", NULL, "what lab run is given", NULL),
    RS_COLUMN(rs_lab_experiment, title, "title", "title", NULL, "what it is about, in a few words",
              NULL),
    RS_COLUMN(rs_lab_experiment, source, "source", "source", NULL,
              "the paper, and its figure or statement", NULL),
    RS_COLUMN(rs_lab_experiment, about, "about", "about", NULL,
              "what is done, in a sentence or two", NULL),
    RS_COLUMN(rs_lab_experiment, takes, "takes", "takes about", NULL,
              "how long it takes, on two cores", NULL),
    RS_COLUMN(rs_lab_experiment, takes_quick, "quick", "with --quick", NULL,
              "how long it takes with --quick, on two cores", NULL),
    RS_COLUMN(rs_lab_experiment, takes_models, "model", "takes --model", NULL,
              "how many models --model may name, which it runs in place of random weights", NULL),
};
const rs_table_kind rs_lab_experiments_kind = {"lab", "experiments", {RS_PART(experiment_columns)}};

rs_status rs_lab_list(rs_result *result, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(
        result, "experiments", "Experiments", "Run one with 'rankscope lab run ID'.",
        experiment_columns, sizeof experiment_columns / sizeof *experiment_columns, &table, err));
    rs_table_show_first(table, "id,takes,quick,title");
    for (size_t i = 0; i < rs_lab_n_experiments; i++)
        RS_TRY(rs_table_append(table, rs_lab_experiments[i], err));
    char text[160];
    snprintf(text, sizeof text, "%zu experiments can be run here.", rs_lab_n_experiments);
    const rs_verdict verdict = {
        .answer = text,
        .code = "experiments",
        .severity = RS_INFO,
        .value = (double)rs_lab_n_experiments,
        .threshold = NAN,
        .next = "rankscope lab run ID runs one, rankscope lab run all --quick all in short"};
    return rs_result_set_verdict(result, &verdict, err);
}
