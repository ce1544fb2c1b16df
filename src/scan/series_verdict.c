/* series_verdict.c: the answer of a series, whether ranks fall, and what a person should act on. */
#include "scan/series_parts.h"

#include "checkpoint/open.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *rs_series_when(char *text, size_t size, const rs_series *s,
                           const rs_series_entry *entry)
{
    if (s->list.steps && entry->step >= 0)
        snprintf(text, size, "step %lld", (long long)entry->step);
    else
        snprintf(text, size, "%.200s", rs_path_name(entry->path));
    return text;
}

/* ---- numbers on the way ---- */

/* "99", "4.3": a share in percent. */
static void say_percent(rs_buffer *text, double share)
{
    rs_buffer_printf(text, 100 * share >= 10 ? "%.0f" : "%.2g", 100 * share);
}

/* "98 (step 100) → " where the way begins lower than at the highest. */
static void say_highest(rs_buffer *text, const rs_series *s, const rs_series_cell *c)
{
    char when[256];
    double highest = c->ratios[c->trend.highest];
    if (round(100 * highest) == round(100 * c->ratios[c->trend.since])) return;
    say_percent(text, highest);
    rs_buffer_printf(text, " (%s) → ",
                     rs_series_when(when, sizeof when, s, s->read[c->at[c->trend.highest]]));
}

/* "99 → 89 → 43 %", from where it begins to fall; of many some, evenly. */
static void say_way(rs_buffer *text, const rs_series_cell *c)
{
    enum { MOST_SAID = 5 };
    size_t steps = c->n - 1 - c->trend.since, said = steps < MOST_SAID ? steps + 1 : MOST_SAID;
    for (size_t i = 0; i < said; i++) {
        if (i > 0) rs_buffer_puts(text, " → ");
        say_percent(text, c->ratios[c->trend.since + i * steps / (said - 1)]);
    }
    rs_buffer_puts(text, " %");
}

/* "layer 5's QK rank" */
static void say_rank(rs_buffer *text, const rs_series_cell *c)
{
    static const char *const names[] = {"QK", "OV", "C-B", "in-out"};
    char where[96];
    rs_buffer_printf(text, "%s's %s rank", rs_scan_place(where, sizeof where, &c->place, false),
                     names[c->place.kind]);
}

/* "layer 5's QK rank falls since step 1000: 99 → 89 → 43 % of chance"; the highest comes first where it was
 * higher than that before. */
static void say_fall(rs_buffer *text, const rs_series *s, const rs_series_cell *c)
{
    char when[256];
    say_rank(text, c);
    rs_buffer_printf(text, " falls since %s: ",
                     rs_series_when(when, sizeof when, s, s->read[c->at[c->trend.since]]));
    say_highest(text, s, c);
    say_way(text, c);
    rs_buffer_puts(text, " of chance");
    if (c->last.dead > 0)
        rs_buffer_printf(text, " (%lld of %lld heads are all zero)", (long long)c->last.dead,
                         (long long)c->last.heads);
}

/* ---- findings ---- */

static size_t followed(const rs_series *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_cells; i++)
        n += s->cells[i].n > 0;
    return n;
}

static rs_status find_fall(rs_series *s, const rs_series_cell *c, rs_error *err)
{
    rs_buffer text = {0};
    if (c->n == 0 || c->trend.kind != RS_TREND_FALLS) return RS_OK;
    say_fall(&text, s, c);
    rs_finding f = rs_scan_finding_for(&c->place, RS_WARN, "rank_falls");
    f.head = RS_NULL_INT;
    f.table = "trends";
    f.value = -c->trend.fall;
    f.threshold = -s->request->options.thresholds.rank_falls;
    f.cases = "layers' products";
    f.worst = "fell most";
    f.of = (int64_t)followed(s);
    f.message = text.data;
    f.hint = "'rankscope compare' of where it begins and the last says which heads";
    rs_status status = text.failed ? rs_fail_memory(err, "findings", 0)
                                   : rs_result_add_finding(s->result, &f, err);
    rs_buffer_free(&text);
    return status;
}

/* What scan finds in the last checkpoint stands for the series: that is where the run is. */
static rs_status find_of_last(rs_series *s, rs_error *err)
{
    for (size_t i = 0; i < rs_result_finding_count(s->last); i++) {
        rs_finding f = *rs_result_finding_at(s->last, i);
        if (f.table && !rs_result_table(s->result, f.table)) f.table = NULL;
        RS_TRY(rs_result_add_finding(s->result, &f, err));
    }
    return RS_OK;
}

static rs_status find_apart(rs_series *s, rs_error *err)
{
    size_t lacking = 0, other = 0;
    char message[200];
    for (size_t i = 0; i < s->n_cells; i++) {
        lacking += s->cells[i].lacks != SIZE_MAX;
        other += s->cells[i].other != SIZE_MAX;
    }
    if (lacking + other == 0) return RS_OK;
    snprintf(message, sizeof message,
             "of %zu layers' products some checkpoints lack %zu, and have %zu in another shape",
             s->n_cells, lacking, other);
    rs_finding f = rs_finding_of(RS_INFO, "not_in_all");
    f.value = (double)(lacking + other);
    f.table = "not_compared";
    f.message = message;
    f.hint = "table not_compared names them and the first checkpoint that differs";
    return rs_result_add_finding(s->result, &f, err);
}

rs_status rs_series_findings(rs_series *s, rs_error *err)
{
    for (size_t i = 0; i < s->n_cells; i++)
        RS_TRY(find_fall(s, &s->cells[i], err));
    RS_TRY(find_apart(s, err));
    return find_of_last(s, err);
}

/* ---- the verdict ---- */

/* "6 checkpoints, step 500 to step 3000" */
static void say_extent(rs_buffer *text, const rs_series *s)
{
    char first[256], last[256];
    rs_buffer_printf(text, "%zu checkpoints, %s to %s", s->n_read,
                     rs_series_when(first, sizeof first, s, s->read[0]),
                     rs_series_when(last, sizeof last, s, s->read[s->n_read - 1]));
}

/* What scan says of the last checkpoint. */
static void say_last(rs_buffer *text, rs_verdict *v, const rs_series *s)
{
    const rs_verdict *last = rs_result_verdict(s->last);
    char when[256];
    rs_buffer_printf(text, "%s: %s", rs_series_when(when, sizeof when, s, s->read[s->n_read - 1]),
                     last->answer);
    v->code = last->code;
    v->severity = last->severity;
    v->value = last->value;
    v->threshold = last->threshold;
    v->next = last->next;
}

static void say_falls(rs_buffer *text, rs_verdict *v, const rs_series *s,
                      const rs_series_cell *most, size_t n)
{
    if (n > 1)
        rs_buffer_printf(text,
                         "%zu of %zu layers' products lose rank over %zu checkpoints, most of "
                         "all ",
                         n, followed(s), s->n_read);
    say_fall(text, s, most);
    rs_buffer_puts(text, ".");
    v->code = "rank_falls";
    v->severity = RS_WARN;
    v->value = -most->trend.fall;
    v->threshold = -s->request->options.thresholds.rank_falls;
    v->next = "--table trends shows all; 'rankscope compare' of two says which heads";
}

/* Means of first and last over the cells, and the one that is furthest below its highest. */
static void say_holds(rs_buffer *text, rs_verdict *v, const rs_series *s)
{
    double first = 0, last = 0;
    const rs_series_cell *least = NULL;
    size_t n = 0, rising = 0;
    for (size_t i = 0; i < s->n_cells; i++) {
        const rs_series_cell *c = &s->cells[i];
        if (!rs_series_is_current(s, c)) continue;
        n++;
        first += c->ratios[0];
        last += c->ratios[c->n - 1];
        rising += c->trend.kind == RS_TREND_RISES;
        if (!least || c->trend.fall > least->trend.fall) least = c;
    }
    v->code = n ? "ranks_hold" : "no_spectrum";
    v->next =
        "--table trends shows every layer; 'rankscope compare' of two checkpoints what changed";
    if (n == 0) {
        rs_buffer_puts(text, "No product has a spectrum in the last checkpoint.");
        return;
    }
    rs_buffer_puts(text, "No layer's rank falls over ");
    say_extent(text, s);
    rs_buffer_puts(text, ": on average ");
    say_percent(text, first / (double)n);
    rs_buffer_puts(text, " % of chance's effective rank became ");
    say_percent(text, last / (double)n);
    rs_buffer_puts(text, " %; furthest below its highest is ");
    say_rank(text, least);
    rs_buffer_printf(text, ", by %.2g %%", 100 * least->trend.fall);
    if (rising) rs_buffer_printf(text, "; %zu of %zu rise", rising, n);
    rs_buffer_puts(text, ".");
    v->value = -least->trend.fall;
    v->threshold = -s->request->options.thresholds.rank_falls;
}

rs_status rs_series_verdict(rs_series *s, rs_error *err)
{
    size_t n;
    const rs_series_cell *most = rs_series_fell_most(s, &n);
    const rs_verdict *last = rs_result_verdict(s->last);
    rs_buffer text = {0};
    rs_verdict v = {.severity = RS_INFO, .value = NAN, .threshold = NAN};
    if (last->severity < RS_CRITICAL && most) {
        say_falls(&text, &v, s, most, n);
    } else if (last->severity >= RS_WARN) {
        if (last->severity == RS_CRITICAL)
            rs_buffer_puts(&text, "At ");
        else
            rs_buffer_printf(&text, "No layer's rank falls over %zu checkpoints, but at ",
                             s->n_read);
        say_last(&text, &v, s);
    } else {
        say_holds(&text, &v, s);
    }
    v.answer = text.data;
    rs_status status =
        text.failed ? rs_fail_memory(err, "verdict", 0) : rs_result_set_verdict(s->result, &v, err);
    rs_buffer_free(&text);
    return status;
}
