/* train.c: a run as a result: its verdict, its figures, and what an end that is no success says. */
#include "train/train.h"

#include "report/figures.h"
#include "train/alarms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const rs_table_kind rs_train_log_kind = {"train", "log", {RS_PART(rs_train_columns)}};

/* ---- an end before the last step ---- */

/* "the checkpoint of step 400 is in DIR". */
static void say_saved(char *out, size_t size, const rs_run_outcome *outcome, const char *folder)
{
    if (!folder)
        snprintf(out, size, "nothing was written: there is no --out");
    else if (outcome->saved < 0)
        snprintf(out, size, "no checkpoint was written before");
    else
        snprintf(out, size, "the checkpoint of step %lld is in %.200s", (long long)outcome->saved,
                 folder);
}

static rs_status fail_not_finite(const rs_run_outcome *outcome, const rs_train_settings *s,
                                 const char *folder, rs_error *err)
{
    char saved[300], hint[480];
    say_saved(saved, sizeof saved, outcome, folder);
    snprintf(hint, sizeof hint, "%s; take a smaller learning rate, a longer warm-up or \"clip\"",
             saved);
    return rs_fail(err, RS_E_NOT_FINITE, s->task, hint,
                   "step %lld: the loss or a gradient is not finite, first in %s",
                   (long long)outcome->step, outcome->blame);
}

/* A word of a command line, as a shell reads it. */
static void say_word(rs_buffer *text, const char *option, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_@%+=:,./-";
    rs_buffer_printf(text, " %s%s", option, option[0] ? " " : "");
    for (const char *c = word; *c; c++) {
        bool letter = (unsigned char)*c >= 0x80; /* of UTF-8 */
        if (!letter && !strchr(plain, *c)) rs_buffer_puts(text, "\\");
        rs_buffer_append(text, c, 1);
    }
}

/* The command that goes on with the run; false: it is too long to be told, or cannot be. */
static bool say_command(rs_buffer *text, const rs_train_settings *s, const rs_train_options *o)
{
    enum { MOST = 300 };
    rs_buffer_puts(text, "rankscope train");
    say_word(text, "", s->path);
    say_word(text, "--out", o->folder);
    for (size_t i = 0; i < o->n_sets; i++)
        say_word(text, "--set", o->sets[i]);
    if (o->stop_on) say_word(text, "--stop-on", o->stop_on);
    rs_buffer_puts(text, " --resume");
    return !text->failed && text->length < MOST && !memchr(text->data, '\n', text->length);
}

static rs_status fail_interrupted(const rs_run_outcome *outcome, const rs_train_settings *s,
                                  const rs_train_options *o, rs_error *err)
{
    char saved[300], hint[700];
    rs_buffer command = {0};
    if (!o->folder)
        return rs_fail(err, RS_E_INTERRUPTED, s->task, "there is no --out", "interrupted");
    say_saved(saved, sizeof saved, outcome, o->folder);
    if (say_command(&command, s, o))
        snprintf(hint, sizeof hint, "%s: '%s' goes on", saved, command.data);
    else
        snprintf(hint, sizeof hint, "%s: the same command with --resume goes on", saved);
    rs_buffer_free(&command);
    return rs_fail(err, RS_E_INTERRUPTED, s->task, hint, "interrupted");
}

/* ---- the verdict ---- */

/* "; alarms: token_collapse (critical), loss_spike (warn)": each code that rang, by its worst. Returns
 * the worst of all. */
static rs_severity say_alarms(char *out, size_t size, const rs_result *result)
{
    rs_severity worst[RS_ALARMS] = {RS_INFO}, all = RS_INFO;
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < rs_result_finding_count(result); i++) {
        const rs_finding *f = rs_result_finding_at(result, i);
        rs_alarm_kind kind = rs_alarm_find(f->code);
        if (kind < RS_ALARMS && f->severity > worst[kind]) worst[kind] = f->severity;
    }
    for (int k = 0; k < RS_ALARMS; k++) {
        if (worst[k] > all) all = worst[k];
        if (worst[k] == RS_INFO || used >= size) continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s (%s)",
                                 used ? ", " : "; alarms: ", rs_alarm_code((rs_alarm_kind)k),
                                 rs_severity_name(worst[k]));
    }
    return all;
}

static rs_status set_verdict(rs_result *result, const rs_run_outcome *outcome,
                             const rs_train_settings *s, const rs_train_options *o, rs_error *err)
{
    char answer[700], accuracy[96] = "", loss[64], alarms[320], next[320];
    rs_severity worst = say_alarms(alarms, sizeof alarms, result);
    if (outcome->end == RS_RUN_STOPPED) worst = RS_CRITICAL;
    bool stopped = outcome->end == RS_RUN_STOPPED;
    if (isfinite(outcome->accuracy))
        snprintf(accuracy, sizeof accuracy, ", accuracy %.4f", outcome->accuracy);
    size_t said = strlen(accuracy);
    if (said && isfinite(outcome->floor))
        snprintf(accuracy + said, sizeof accuracy - said, " (%.4g needs no learning)",
                 outcome->floor);
    snprintf(loss, sizeof loss, "loss %.4g", outcome->loss);
    if (isnan(outcome->loss)) snprintf(loss, sizeof loss, "no batch had a target");
    snprintf(answer, sizeof answer, "%s %s for %lld step%s: %s%s%s%s.", s->task,
             stopped ? "ran, until an alarm stopped it," : "was trained", (long long)outcome->step,
             outcome->step == 1 ? "" : "s", loss, accuracy,
             isnan(outcome->loss) ? "" : " (running means)", alarms);
    snprintf(next, sizeof next, "rankscope scan %.200s reads what was learned",
             o->folder ? o->folder : "");
    const rs_verdict verdict = {.answer = answer,
                                .code = stopped ? "stopped" : "trained",
                                .severity = (int)worst,
                                .value = outcome->loss,
                                .threshold = NAN,
                                .next = o->folder ? next : NULL};
    return rs_result_set_verdict(result, &verdict, err);
}

/* ---- figures ---- */

static const char *const step_keys[] = {"step"};
static const char *const head_facets[] = {"product", "layer"};
static const char *const head_keys[] = {"step", "product", "layer", "head"};
static const char *const layer_keys[] = {"step", "layer"};

/* A figure over table `ranks`, a panel for each product and layer, or over `layers`, a line each. */
typedef struct trajectory {
    const char *column, *title, *about;
    bool ranks, log_y;
} trajectory;

static const trajectory trajectories[] = {
    {"effective_rank", "Effective rank of head products",
     "A line for each head. Column effective_rank_null has what random weights give.", true, false},
    {"pseudo_rank", "Pseudo-rank of head products",
     "Share of the singular values that holds 95 % of their sum.", true, false},
    {"q_norm", "Imbalance of the factors, ‖AᵀA − BᵀB‖",
     "Weight decay drives it to zero; column contraction_expected has by how much.", true, true},
    {"relative_residual", "How far apart the tokens are", "Of the probe batch, behind each layer.",
     false, false},
    {"entropy_share", "Entropy of attention, of that of uniform attention",
     "Means over heads and samples of the probe batch.", false, false},
    {"ratio_q_v", "Gradients of queries, of those of values",
     "Squared norms. Below 1e-6 the queries do not learn.", false, true},
    {"update_ratio", "What a step changes, of the weights", NULL, false, true},
};

static rs_status add_trajectory(rs_result *result, const trajectory *t, rs_error *err)
{
    const rs_lines by_head = {.table = "ranks",
                              .x = {"step", "step"},
                              .y = {t->column, t->title},
                              .colour = {"head", "head"},
                              .facets = {head_facets, 2},
                              .keys = {head_keys, 4},
                              .log_y = t->log_y,
                              .x_whole = true,
                              .small = true};
    const rs_lines by_layer = {.table = "layers",
                               .x = {"step", "step"},
                               .y = {t->column, t->title},
                               .colour = {"layer", "layer"},
                               .keys = {layer_keys, 2},
                               .log_y = t->log_y,
                               .x_whole = true};
    return rs_result_add_figure(result, t->column, t->title, t->about,
                                rs_figure_lines(t->ranks ? &by_head : &by_layer), err);
}

static rs_status add_curves(rs_result *result, bool accuracy, rs_error *err)
{
    const rs_lines loss = {.table = "log",
                           .x = {"step", "step"},
                           .y = {"batch_loss", "loss"},
                           .first = "of the batch",
                           .more = {{.field = "loss", .title = "running mean"},
                                    {.field = "eval_loss", .title = "evaluation"}},
                           .keys = {step_keys, 1},
                           .x_whole = true};
    RS_TRY(rs_result_add_figure(result, "loss", "Loss by step", NULL, rs_figure_lines(&loss), err));
    if (!accuracy) return RS_OK;
    rs_lines right = loss;
    right.y = (rs_figure_field){"batch_accuracy", "accuracy"};
    right.more[0].field = "accuracy";
    right.more[1].field = "eval_accuracy";
    return rs_result_add_figure(result, "accuracy", "Accuracy by step", NULL,
                                rs_figure_lines(&right), err);
}

static rs_status add_figures(rs_result *result, bool accuracy, rs_error *err)
{
    RS_TRY(add_curves(result, accuracy, err));
    for (size_t i = 0; i < sizeof trajectories / sizeof *trajectories; i++) {
        const char *table = trajectories[i].ranks ? "ranks" : "layers";
        if (rs_table_rows(rs_result_table(result, table)) > 0)
            RS_TRY(add_trajectory(result, &trajectories[i], err));
    }
    return RS_OK;
}

static const rs_curve loss_curve = {.table = "log",
                                    .title = "loss by step",
                                    .x = "step",
                                    .x_title = "step",
                                    .y = {{"loss", "running mean", false}}};

rs_status rs_train_fill(rs_result *result, bool *stopped, rs_train_settings *s,
                        const rs_train_options *o, const rs_context *context, rs_error *err)
{
    *stopped = false;
    s->saves = o->folder != NULL;
    if (o->dry_run) return rs_train_plan(result, s, context, err);
    const rs_run_request request = {.settings = s,
                                    .folder = o->folder,
                                    .resume = o->resume,
                                    .result = result,
                                    .listener = o->listener};
    rs_run_outcome outcome;
    RS_TRY(rs_train_run(&outcome, &request, context, err));
    if (outcome.end == RS_RUN_NOT_FINITE) return fail_not_finite(&outcome, s, o->folder, err);
    if (outcome.end == RS_RUN_INTERRUPTED) return fail_interrupted(&outcome, s, o, err);
    *stopped = outcome.end == RS_RUN_STOPPED;
    RS_TRY(set_verdict(result, &outcome, s, o, err));
    RS_TRY(add_figures(result, isfinite(outcome.accuracy), err));
    rs_result_show_curve(result, &loss_curve);
    rs_result_show(result, "log");
    return RS_OK;
}
