/* probe_components.c: the skip and the MLP, each with and without the other: what holds the tokens
 * apart. */
#include "probe/probe_parts.h"

#include <math.h>
#include <stdio.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* The four models, and how each of them fares. */
typedef struct fare {
    const rs_probed *of; /* NULL: it was not run */
    rs_leaving leaves;
    int32_t equal_after; /* layers behind which all is rounding; -1: there are none */
    bool apart;          /* what leaves is above the threshold of token_collapse */
} fare;

typedef struct quartet {
    fare both, skip, mlp, none;
} quartet;

static fare fare_of(const rs_probed *variants, size_t n, const char *name,
                    const rs_probe_options *options)
{
    fare f = {.of = rs_probe_find(variants, n, name), .equal_after = -1};
    f.leaves = rs_probe_leaves(f.of);
    if (!f.of) return f;
    f.equal_after = rs_probe_decay(f.of->measured, f.of->network->n_layers).floor_from;
    f.apart = f.equal_after < 0 && f.leaves.value >= options->thresholds.token_collapse;
    return f;
}

static quartet quartet_of(const rs_probed *variants, size_t n, const rs_probe_options *options)
{
    return (quartet){.both = fare_of(variants, n, "full", options),
                     .skip = fare_of(variants, n, "san+skip", options),
                     .mlp = fare_of(variants, n, "san+mlp", options),
                     .none = fare_of(variants, n, "san", options)};
}

static bool known(const fare *f)
{
    return f->of && !isnan(f->leaves.log10);
}

/* ---- words ---- */

enum { WORDS = 96 };

/* "equal after 4 layers", "at 0.036 (relative residual) after 6 layers" */
static const char *told(char text[WORDS], const fare *f)
{
    char number[RS_PROBE_POWER];
    if (f->equal_after > 0)
        snprintf(text, WORDS, "equal after %d layer%s", (int)f->equal_after,
                 f->equal_after == 1 ? "" : "s");
    else if (f->equal_after == 0)
        snprintf(text, WORDS, "equal from the start");
    else
        snprintf(text, WORDS, "at %s (relative residual) after %d layer%s",
                 rs_probe_power(number, f->leaves.value, f->leaves.log10),
                 (int)f->of->network->n_layers, f->of->network->n_layers == 1 ? "" : "s");
    return text;
}

/* Two variants' ends in one clause where they are the same. */
static void told_both(char *text, size_t size, const fare *with_mlp, const fare *without)
{
    char a[WORDS], b[WORDS];
    if (!known(with_mlp))
        snprintf(text, size, "without it and the MLP they are %s", told(b, without));
    else if (!known(without) || with_mlp->equal_after == without->equal_after)
        snprintf(text, size, "without it they are %s", told(a, with_mlp));
    else
        snprintf(text, size, "without it they are %s, without the MLP too %s", told(a, with_mlp),
                 told(b, without));
}

/* "The skip holds the tokens apart: without it they are equal after 4 layers; the MLP alone does
 * not hold them." Empty: the variants that tell were not run, or say nothing clear. */
static void say_quartet(char *text, size_t size, const quartet *q)
{
    char a[WORDS], b[WORDS], rest[300];
    text[0] = 0;
    if (!known(&q->none) || (!known(&q->skip) && !known(&q->mlp))) return;
    bool skip = known(&q->skip) && q->skip.apart, mlp = known(&q->mlp) && q->mlp.apart;
    if (q->none.apart)
        snprintf(text, size,
                 "Neither skip nor MLP is needed to hold the tokens apart: without both they are "
                 "%s",
                 told(a, &q->none));
    else if (skip && mlp)
        snprintf(text, size,
                 "The skip or the MLP alone holds the tokens apart: without both they are %s",
                 told(a, &q->none));
    else if (skip && known(&q->mlp)) {
        told_both(rest, sizeof rest, &q->mlp, &q->none);
        snprintf(text, size, "The skip holds the tokens apart: %s; the MLP alone does not", rest);
    } else if (skip)
        snprintf(text, size, "The skip holds the tokens apart: without it and the MLP they are %s",
                 told(a, &q->none));
    else if (mlp)
        snprintf(text, size,
                 "The MLP holds the tokens apart: without it and the skip they are %s%s%s",
                 told(a, &q->none), known(&q->skip) ? ", with the skip alone " : "",
                 known(&q->skip) ? told(b, &q->skip) : "");
    else if (known(&q->both) && q->both.apart)
        snprintf(text, size,
                 "Only skip and MLP together hold the tokens apart: with %s alone they are %s",
                 known(&q->skip) ? "the skip" : "the MLP",
                 told(a, known(&q->skip) ? &q->skip : &q->mlp));
    else
        snprintf(text, size, "Nothing holds the tokens apart: with %s alone they are %s",
                 known(&q->skip) ? "the skip" : "the MLP",
                 told(a, known(&q->skip) ? &q->skip : &q->mlp));
}

void rs_probe_keeper(char *text, size_t size, const rs_probed *variants, size_t n,
                     const rs_probe_options *options)
{
    char a[WORDS];
    quartet q = quartet_of(variants, n, options);
    text[0] = 0;
    if (!known(&q.both) || !q.both.apart || !known(&q.none)) return;
    bool skip = known(&q.skip) && q.skip.apart, mlp = known(&q.mlp) && q.mlp.apart;
    if (q.none.apart)
        snprintf(text, size, "; without skip and MLP they are %s", told(a, &q.none));
    else if (skip && known(&q.mlp) && !mlp)
        snprintf(text, size, "; the skip keeps it: without it the tokens are %s", told(a, &q.mlp));
    else if (mlp && known(&q.skip) && !skip)
        snprintf(text, size, "; the MLP keeps it: without it the tokens are %s", told(a, &q.skip));
    else
        snprintf(text, size, "; without skip and MLP the tokens are %s", told(a, &q.none));
}

/* ---- table components ---- */

/* A row: with the skip, or without it. */
typedef struct component_cells {
    const char *skip;
    double with_mlp, without_mlp, log_with, log_without;
    int32_t equal_with, equal_without;
} component_cells;

#define CELL(member, name, formula)                                                                \
    RS_COLUMN(component_cells, member, name, NULL, NULL, formula, NULL)

static const rs_column columns[] = {
    CELL(skip, "skip", "around the mixer: with (full, san+skip) or without (san+mlp, san)"),
    CELL(with_mlp, "with_mlp",
         "relative residual of what leaves the last layer, the MLP in its place with its skip; "
         "where it is rounding, the most that it can be"),
    CELL(without_mlp, "without_mlp", "the same without the MLP"),
    CELL(equal_with, "equal_after_with_mlp",
         "layers after which the tokens are equal as far as the precision can tell; null: never"),
    CELL(equal_without, "equal_after_without_mlp", "the same without the MLP"),
    /* the residual precision's */
    CELL(log_with, "log10_with_mlp", "log10 of with_mlp"),
    CELL(log_without, "log10_without_mlp", "log10 of without_mlp"),
};
const rs_table_kind rs_probe_components_kind = {"probe", "components", {RS_PART(columns)}};
enum { COMPONENT_LOGS = 2 };

static rs_status add_row(rs_table *table, const char *skip, const fare *with, const fare *without,
                         rs_error *err)
{
    const component_cells cells = {.skip = skip,
                                   .with_mlp = with->leaves.value,
                                   .without_mlp = without->leaves.value,
                                   .log_with = with->leaves.log10,
                                   .log_without = without->leaves.log10,
                                   .equal_with = with->equal_after,
                                   .equal_without = without->equal_after};
    return rs_table_append(table, &cells, err);
}

static rs_status add_components(rs_result *result, const quartet *q, bool logs, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "components", "What holds the tokens apart?",
                               "Relative residual of what leaves the last layer, with and without "
                               "the skip around the mixer and the MLP",
                               columns, COUNT(columns) - (logs ? 0 : COMPONENT_LOGS), &table, err));
    RS_TRY(add_row(table, "with the skip", &q->both, &q->skip, err));
    return add_row(table, "without the skip", &q->mlp, &q->none, err);
}

rs_status rs_probe_components(rs_result *result, const rs_probed *variants, size_t n,
                              const rs_probe_options *options, rs_error *err)
{
    char text[600];
    if (!options->measure.tokens) return RS_OK;
    quartet q = quartet_of(variants, n, options);
    bool logs = options->measure.precision == RS_PRECISION_RESIDUAL;
    if (known(&q.both) && known(&q.skip) && known(&q.mlp) && known(&q.none)) {
        RS_TRY(add_components(result, &q, logs, err));
        rs_result_show_more(result, "components"); /* of numbers that the summary has */
    }
    say_quartet(text, sizeof text, &q);
    if (!text[0]) return RS_OK;
    rs_finding f = rs_finding_of(RS_INFO, "component_summary");
    f.threshold = options->thresholds.token_collapse;
    f.message = text;
    f.table = "components";
    if (!rs_result_table(result, "components")) f.table = "summary";
    return rs_result_add_finding(result, &f, err);
}
