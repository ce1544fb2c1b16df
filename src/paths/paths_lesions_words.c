/* paths_lesions_words.c: lesions as a table and in words. */
#include "paths/paths_lesions.h"

#include "base/memory.h"
#include "network/op_traits.h"
#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- numbers ---- */

static double loss_of(const rs_lesion *l)
{
    return l->scored && l->finite ? l->nll / (double)l->scored : NAN;
}

static double residual_of(const rs_lesion *l)
{
    return l->residuals && l->finite ? l->residual / (double)l->residuals : NAN;
}

static double rise_of(const rs_lesions *all, const rs_lesion *l)
{
    return loss_of(l) - loss_of(&all->items[0]);
}

/* The lesion of one head alone. */
static const rs_lesion *single_of(const rs_lesions *all, size_t head)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->items[i].kind == RS_LESION_HEAD && all->items[i].heads[0] == head)
            return &all->items[i];
    return NULL;
}

/* Of several heads: what each costs alone, added up. */
static double single_rises(const rs_lesions *all, const rs_lesion *l)
{
    double sum = 0;
    if (l->n == 0 || l->kind == RS_LESION_HEAD) return NAN;
    for (size_t i = 0; i < l->n; i++) {
        const rs_lesion *one = single_of(all, l->heads[i]);
        sum += one ? rise_of(all, one) : NAN;
    }
    return sum;
}

/* ---- the table ---- */

/* A row of table lesions. */
typedef struct lesion_cells {
    const char *kind, *members;
    int64_t layer, head, draw, heads;
    double nll, rise, singles, residual, change, state_error;
} lesion_cells;

static const rs_column lesion_columns[] = {
    RS_COLUMN(lesion_cells, kind, "kind", "left out", NULL,
              "none: the model as it is; head; attention (other mixers: mixer) or mlp: that branch "
              "gives 0; heads: several at once",
              NULL),
    RS_COLUMN(lesion_cells, layer, "layer", "layer", NULL, "0 .. L-1", NULL),
    RS_COLUMN(lesion_cells, head, "head", "head", NULL, NULL, NULL),
    RS_COLUMN(lesion_cells, heads, "heads", "heads", NULL, "how many heads are left out", NULL),
    RS_COLUMN(lesion_cells, draw, "draw", "draw", NULL, "of several heads drawn at random", NULL),
    RS_COLUMN(lesion_cells, nll, "nll", "loss", "nats", "mean -ln p(next token)", "measured"),
    RS_COLUMN(lesion_cells, rise, "loss_rise", "rise of the loss", "nats",
              "nll - nll of the model as it is", "measured"),
    RS_COLUMN(lesion_cells, singles, "single_rises", "sum of single rises", "nats",
              "sum of loss_rise over the heads left out, each alone", "measured"),
    RS_COLUMN(lesion_cells, residual, "residual_ratio", "residual ratio", NULL,
              "|X - mean of rows|_F / |X|_F of the last state, mean over samples", "measured"),
    RS_COLUMN(lesion_cells, change, "residual_change", "change of the residual", NULL,
              "residual_ratio - residual_ratio of the model as it is", "measured"),
    RS_COLUMN(lesion_cells, state_error, "state_rel_error", "error of the state", NULL,
              "|f(Y) - f(X)|_F / |f(X)|_F, f the final norm, mean over samples", "measured"),
    RS_COLUMN(lesion_cells, members, "members", "heads left out", NULL, "layer:head", NULL),
};
const rs_table_kind rs_paths_lesions_kind = {"paths", "lesions", {RS_PART(lesion_columns)}};

static const char *kind_name(const rs_paths_run *run, const rs_lesion *l)
{
    static const char *const names[] = {"none", "head", "mixer", "mlp", "heads"};
    if (l->kind == RS_LESION_MIXER) {
        const rs_branch *branch = &run->network->layers[l->layer].branches[l->branch];
        const rs_attention_op *op = rs_branch_attention(branch);
        if (op) return op->cross ? "cross_attention" : "attention";
    }
    return names[l->kind];
}

/* "0:3 2:11"; NULL: there are none. */
static rs_status write_members(char **out, const rs_lesions *all, const rs_lesion *l, rs_error *err)
{
    enum { ROOM = 24 }; /* of a pair of int32 */
    size_t used = 0;
    *out = NULL;
    if (l->n == 0) return RS_OK;
    char *text = rs_arena_alloc(all->arena, l->n, ROOM);
    if (!text) return rs_fail_memory(err, "lesions", l->n * ROOM);
    for (size_t i = 0; i < l->n; i++)
        used +=
            (size_t)snprintf(text + used, l->n * ROOM - used, "%s%d:%d", i ? " " : "",
                             (int)all->heads[l->heads[i]].layer, (int)all->heads[l->heads[i]].head);
    *out = text;
    return RS_OK;
}

static rs_status lesion_row(rs_table *table, const rs_paths_run *run, const rs_lesion *l,
                            rs_error *err)
{
    const rs_lesions *all = run->lesions;
    char *members;
    bool one = l->kind == RS_LESION_HEAD;
    RS_TRY(write_members(&members, all, l, err));
    const lesion_cells cells = {
        .kind = kind_name(run, l),
        .members = members,
        .layer = l->layer < 0 ? RS_NULL_INT : l->layer,
        .head = one ? all->heads[l->heads[0]].head : RS_NULL_INT,
        .draw = l->draw < 0 ? RS_NULL_INT : l->draw,
        .heads = (int64_t)l->n,
        .nll = loss_of(l),
        .rise = rise_of(all, l),
        .singles = single_rises(all, l),
        .residual = residual_of(l),
        .change = residual_of(l) - residual_of(&all->items[0]),
        .state_error = l->samples && l->finite ? l->state_error / (double)l->samples : NAN};
    return rs_table_append(table, &cells, err);
}

static rs_status write_table(const rs_paths_run *run, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(
        run->result, "lesions", "The model without its parts",
        "Each head (W_O,h = 0, biases stay), mixer and MLP left out alone, and heads at random "
        "together; over all samples. The first row is the model as it is.",
        lesion_columns, COUNT(lesion_columns), &table, err));
    rs_table_show_first(table, "kind,layer,head,heads,loss_rise,single_rises,residual_ratio,"
                               "residual_change");
    for (size_t i = 0; i < run->lesions->n && run->n_samples; i++)
        RS_TRY(lesion_row(table, run, &run->lesions->items[i], err));
    const rs_lesions *l = run->lesions;
    return rs_result_set_meta(run->result, "lesion_layers",
                              json_pack("{s:I, s:I, s:I, s:I}", "run", (json_int_t)l->layers_run,
                                        "whole_passes", (json_int_t)l->layers_whole, "single_run",
                                        (json_int_t)l->single_layers_run, "single_whole_passes",
                                        (json_int_t)l->single_layers_whole),
                              err);
}

/* Single heads, layers against heads. */
static rs_status draw_map(const rs_paths_run *run, rs_error *err)
{
    static const rs_figure_field measures[] = {{"residual_change", "change of the residual"},
                                               {"loss_rise", "rise of the loss"},
                                               {"state_rel_error", "error of the state"}};
    static const char *const keys[] = {"layer", "head"};
    int32_t most = 0;
    for (size_t i = 0; i < run->lesions->n_heads; i++)
        if (run->lesions->heads[i].head > most) most = run->lesions->heads[i].head;
    rs_heatmap map = {.table = "lesions",
                      .x = {"head", "head"},
                      .y = {"layer", "layer"},
                      .measures = measures,
                      .n_measures = COUNT(measures),
                      .keys = {keys, COUNT(keys)},
                      .n_x = (size_t)most + 1,
                      .n_y = (size_t)run->network->n_layers};
    if (run->lesions->n_heads == 0) return RS_OK;
    return rs_result_add_figure(run->result, "lesions", "Which heads the model needs",
                                "One cell a head that is left out alone; choose the measure. Where "
                                "the residual falls without it, the head held the tokens apart.",
                                rs_figure_heatmap(&map), err);
}

/* ---- words ---- */

static rs_status tell(const rs_paths_run *run, rs_severity severity, const char *code, double value,
                      const rs_lesion_head *head, const char *message, const char *hint,
                      rs_error *err)
{
    rs_finding f = rs_finding_of(severity, code);
    f.value = value;
    f.message = message;
    f.hint = hint;
    f.table = "lesions";
    if (head) f.layer = head->layer, f.head = head->head;
    return rs_result_add_finding(run->result, &f, err);
}

enum { TOLD = 3 };

typedef double measure_fn(const rs_lesions *all, const rs_lesion *l);

static double moved(const rs_lesions *all, const rs_lesion *l)
{
    return residual_of(l) - residual_of(&all->items[0]);
}

static double distance(const rs_lesions *all, const rs_lesion *l)
{
    return fabs(moved(all, l));
}

/* The single heads with the largest measure, which is above 0, the largest first; returns how many. */
static size_t largest(const rs_lesion *top[TOLD], const rs_lesions *all, measure_fn *measure)
{
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++) {
        const rs_lesion *l = &all->items[i];
        if (l->kind != RS_LESION_HEAD || !(measure(all, l) > 0)) continue;
        size_t at = n < TOLD ? n++ : TOLD;
        for (; at > 0 && measure(all, l) > measure(all, top[at - 1]); at--)
            if (at < TOLD) top[at] = top[at - 1];
        if (at < TOLD) top[at] = l;
    }
    return n;
}

/* "5:3 (+0.0123), 4:1 (-0.01)" */
static void name_heads(char *text, size_t size, const rs_lesions *all, const rs_lesion **top,
                       size_t n, measure_fn *measure)
{
    size_t used = 0;
    for (size_t i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d:%d (%+.3g)", i ? ", " : "",
                                 (int)all->heads[top[i]->heads[0]].layer,
                                 (int)all->heads[top[i]->heads[0]].head, measure(all, top[i]));
}

static rs_status tell_heads(const rs_paths_run *run, rs_error *err)
{
    const rs_lesions *all = run->lesions;
    const rs_lesion *top[TOLD], *first = NULL;
    char message[600], names[200];
    size_t used, n = largest(top, all, distance);
    double value = NAN;
    if (n == 0)
        used = (size_t)snprintf(message, sizeof message,
                                "no single head (layer:head) moves the last state's residual");
    else {
        name_heads(names, sizeof names, all, top, n, moved);
        used = (size_t)snprintf(message, sizeof message,
                                "the last state's relative residual, %.3g, moves most without the "
                                "heads (layer:head) %s",
                                residual_of(&all->items[0]), names);
        first = top[0], value = moved(all, first);
    }
    n = largest(top, all, rise_of);
    if (n > 0) {
        name_heads(names, sizeof names, all, top, n, rise_of);
        snprintf(message + used, sizeof message - used, "; the loss, %.4g, rises most without %s",
                 loss_of(&all->items[0]), names);
        first = top[0], value = rise_of(all, first);
    }
    return tell(run, RS_INFO, "lesion_heads", value, first ? &all->heads[first->heads[0]] : NULL,
                message, "--ablate L:H runs the model without them", err);
}

/* Heads left out together against each alone: of the largest sets that were drawn. */
static rs_status tell_sets(const rs_paths_run *run, rs_error *err)
{
    const rs_lesions *all = run->lesions;
    char message[400];
    double rise = 0, singles = 0;
    size_t n = 0, size = 0;
    for (size_t i = 0; i < all->n; i++) { /* sizes ascend; all heads at once are no draw */
        const rs_lesion *l = &all->items[i];
        if (l->kind != RS_LESION_HEADS || (l->n == all->n_heads && size > 0)) continue;
        if (l->n != size) rise = singles = 0, n = 0, size = l->n;
        rise += rise_of(all, l), singles += single_rises(all, l), n++;
    }
    if (n == 0 || isnan(rise) || isnan(singles)) return RS_OK;
    rise /= (double)n, singles /= (double)n;
    snprintf(message, sizeof message,
             "%zu of %zu heads left out together move the loss by %+.3g (mean of %zu draw%s); what "
             "each of them does alone adds up to %+.3g",
             size, all->n_heads, rise, n, n == 1 ? "" : "s", singles);
    return tell(run, RS_INFO, "lesion_sets", rise, NULL, message, NULL, err);
}

static const char *why_no_loss(const rs_paths_run *run)
{
    if (run->options->no_logits) return "--no-loss leaves the head out";
    if (!run->network->head.decoder.weight) return "the model has no output head";
    if (!run->network->head.next_token) return "the model's head does not predict the next token";
    if (!run->inputs->ids) return "the inputs are no tokens";
    return "no sample has a next token";
}

static rs_status tell_no_heads(const rs_paths_run *run, rs_error *err)
{
    char message[300];
    const char *why = "no mixer runs", *name = NULL;
    for (int32_t l = 0; l < run->network->n_layers && !name; l++) {
        const rs_branch *mixer = rs_layer_mixer(&run->network->layers[l]);
        if (!mixer || mixer->scale == 0 || rs_branch_ablatable(mixer, &why) > 0) continue;
        name = rs_branch_traits(mixer)->name;
    }
    snprintf(message, sizeof message, "no head was left out: %s%s%s", name ? name : "",
             name ? ": " : "", why);
    return tell(run, RS_INFO, "lesion_no_heads", NAN, NULL, message, NULL, err);
}

static rs_status tell_infinite(const rs_paths_run *run, rs_error *err)
{
    char message[200];
    size_t bad = 0;
    for (size_t i = 0; i < run->lesions->n; i++)
        bad += !run->lesions->items[i].finite;
    if (bad == 0) return RS_OK;
    snprintf(message, sizeof message,
             "the last state of %zu of %zu lesions holds NaN or infinity: their numbers are null",
             bad, run->lesions->n);
    return tell(run, RS_WARN, "lesion_not_finite", (double)bad, NULL, message, NULL, err);
}

rs_status rs_lesions_tell(const rs_paths_run *run, rs_error *err)
{
    RS_TRY(write_table(run, err));
    if (run->n_samples == 0) return RS_OK;
    RS_TRY(draw_map(run, err));
    RS_TRY(tell_infinite(run, err));
    if (run->lesions->n_heads > 0)
        RS_TRY(tell_heads(run, err));
    else
        RS_TRY(tell_no_heads(run, err));
    RS_TRY(tell_sets(run, err));
    if (!isnan(loss_of(&run->lesions->items[0]))) return RS_OK;
    char message[200];
    snprintf(message, sizeof message, "lesions have no loss: %s", why_no_loss(run));
    return tell(run, RS_INFO, "lesion_no_loss", NAN, NULL, message, NULL, err);
}
