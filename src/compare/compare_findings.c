/*
 * compare_findings.c: what a person should act on.
 *
 * What scan and probe find in B and not in A came, and is a finding here under its own code; what they
 * find in A alone went. Both are listed in table findings_changed; what both have is not said again.
 */
#include "base/memory.h"
#include "compare/compare_parts.h"
#include "report/findings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what came and went ---- */

/* A row of table findings_changed. */
typedef struct changed_cells {
    const char *path, *change;
    rs_case_cells of;
} changed_cells;

static const rs_column changed_columns[] = {
    RS_COMPARE_PATH(changed_cells),
    {.name = "change",
     RS_CELL(changed_cells, change),
     .formula = "came: B alone has it; went: A alone had it"},
    RS_CASE_COLUMNS(changed_cells),
};
const rs_table_kind rs_compare_changed_kind = {
    "compare", "findings_changed", {RS_PART(changed_columns)}};

static rs_status list_case(rs_table *table, const char *path, const char *change,
                           const rs_finding *f, rs_error *err)
{
    const changed_cells cells = {.path = path, .change = change, .of = rs_case_of(f)};
    return rs_table_append(table, &cells, err);
}

/* The case as a finding of its own: of several checkpoints it says which. */
static rs_status say_came(rs_result *result, const rs_finding *f, const char *path, bool several,
                          rs_error *err)
{
    char message[1500];
    rs_finding own = *f;
    snprintf(message, sizeof message, "%.200s%s%.1200s", several ? path : "", several ? ": " : "",
             f->message);
    own.message = message;
    own.of = 0;
    if (own.table && !rs_result_table(result, own.table)) own.table = "findings_changed";
    return rs_result_add_finding(result, &own, err);
}

static rs_status list_came(rs_table *table, rs_result *result, const rs_result *a,
                           const rs_result *b, rs_comparison *c, bool several, rs_error *err)
{
    for (size_t i = 0; i < rs_result_finding_count(b); i++) {
        const rs_finding *f = rs_result_finding_at(b, i);
        if (rs_finding_is_routine(f) || (a && rs_finding_is_in(f, a))) continue;
        RS_TRY(list_case(table, c->b->path, "came", f, err));
        RS_TRY(say_came(result, f, c->b->path, several, err));
        c->came[f->severity]++;
        if (!c->worst || f->severity > c->worst->severity) c->worst = f;
    }
    return RS_OK;
}

static rs_status list_went(rs_table *table, const rs_result *a, const rs_result *b,
                           rs_comparison *c, rs_error *err)
{
    for (size_t i = 0; i < rs_result_finding_count(a); i++) {
        const rs_finding *f = rs_result_finding_at(a, i);
        if (rs_finding_is_routine(f) || (b && rs_finding_is_in(f, b))) continue;
        RS_TRY(list_case(table, c->b->path, "went", f, err));
        c->went++;
    }
    return RS_OK;
}

static rs_status say_went(rs_result *result, const char *path, size_t n, rs_error *err)
{
    char message[400];
    if (n == 0) return RS_OK;
    snprintf(message, sizeof message, "%zu finding%s of the first %s gone in %.200s", n,
             n == 1 ? "" : "s", n == 1 ? "is" : "are", path);
    rs_finding f = rs_finding_of(RS_INFO, "findings_went");
    f.value = (double)n;
    f.table = "findings_changed";
    f.message = message;
    return rs_result_add_finding(result, &f, err);
}

static rs_status findings_of(rs_table *table, rs_result *result, rs_comparison *c, bool several,
                             rs_error *err)
{
    const rs_compared *a = c->a, *b = c->b;
    RS_TRY(list_came(table, result, a->scan, b->scan, c, several, err));
    RS_TRY(list_went(table, a->scan, b->scan, c, err));
    if (a->probe && b->probe) {
        RS_TRY(list_came(table, result, a->probe, b->probe, c, several, err));
        RS_TRY(list_went(table, a->probe, b->probe, c, err));
    }
    return say_went(result, b->path, c->went, err);
}

/* ---- what became of ranks and directions ---- */

static rs_status rank_moved(rs_result *result, const rs_product_pair *pair, rs_comparison *c,
                            const rs_compare_thresholds *t, bool several, rs_error *err)
{
    double a = rs_compare_ratio(pair->a), b = rs_compare_ratio(pair->b);
    double share = b / a - 1;
    bool fell = -share > t->rank_fell, rose = share > t->rank_rose;
    if (!fell && !rose) return RS_OK;
    if (fell && (!c->fell_most ||
                 share < rs_compare_ratio(c->fell_most->b) / rs_compare_ratio(c->fell_most->a) - 1))
        c->fell_most = pair;
    c->fell += fell;
    char message[700], where[96];
    snprintf(message, sizeof message,
             "%.200s%s%s: the %s product's effective rank %s from %.3g %% to %.3g %% of chance "
             "(%.3g to %.3g)",
             several ? c->b->path : "", several ? ": " : "",
             rs_scan_place(where, sizeof where, pair->a->product, true),
             rs_product_title(pair->a->product->kind), fell ? "fell" : "rose", 100 * a, 100 * b,
             pair->a->measures.effective_rank, pair->b->measures.effective_rank);
    rs_finding f = rs_scan_finding_for(pair->a->product, fell ? RS_WARN : RS_INFO,
                                       fell ? "rank_fell" : "rank_rose");
    f.cases = "products";
    f.value = share;
    f.threshold = fell ? -t->rank_fell : t->rank_rose;
    f.worst = fell ? "fell most" : "rose most";
    f.message = message;
    f.hint = fell ? "in training: lower or drop weight decay on the attention matrices; 'rankscope "
                    "scan' of the later checkpoint says where it stands"
                  : NULL;
    return rs_result_add_finding(result, &f, err);
}

/* Whether an overlap is what chance gives. */
static bool by_chance(const rs_overlap_side *o, double spreads)
{
    return o->spread > 0 && fabs(o->overlap - o->chance) <= spreads * o->spread;
}

static rs_status turned_away(rs_result *result, const rs_product_pair *pair, const rs_comparison *c,
                             const rs_compare_thresholds *t, bool several, rs_error *err)
{
    const rs_change *change = &pair->change;
    if (pair->reason || !by_chance(&change->left, t->turned_away) ||
        !by_chance(&change->right, t->turned_away))
        return RS_OK;
    char message[700], where[96];
    snprintf(message, sizeof message,
             "%.200s%s%s: the %lld leading directions of the %s product agree as random ones do "
             "(left %.3f, right %.3f; chance %.3f and %.3f)",
             several ? c->b->path : "", several ? ": " : "",
             rs_scan_place(where, sizeof where, pair->a->product, true),
             (long long)change->subspace, rs_product_title(pair->a->product->kind),
             change->left.overlap, change->right.overlap, change->left.chance,
             change->right.chance);
    rs_finding f = rs_scan_finding_for(pair->a->product, RS_INFO, "turned_away");
    f.cases = "products";
    f.value = change->left.overlap;
    f.threshold = change->left.chance;
    f.message = message;
    f.hint = "of checkpoints of one run that is a head learnt anew; of two models heads of one "
             "number need not do the same work";
    return rs_result_add_finding(result, &f, err);
}

/* ---- what is not compared ---- */

static rs_status say_missing(rs_result *result, const rs_comparison *c, rs_error *err)
{
    size_t a = 0, b = 0, apart = 0;
    for (size_t i = 0; i < c->pairs.n; i++) {
        const rs_product_pair *pair = &c->pairs.items[i];
        a += !pair->b;
        b += !pair->a;
        apart += pair->a && pair->b && pair->reason;
    }
    if (a + b + apart == 0) return RS_OK;
    char message[900];
    int length = snprintf(message, sizeof message, "%.200s: %zu products are compared", c->b->path,
                          c->pairs.both - apart);
    const struct {
        size_t n;
        const char *what;
    } rest[] = {{a, "of the first have no counterpart"},
                {b, "of the other have none in the first"},
                {apart, "are compared by their ranks alone"}};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (rest[i].n)
            length += snprintf(message + length, sizeof message - (size_t)length, "; %zu %s",
                               rest[i].n, rest[i].what);
    rs_finding f = rs_finding_of(RS_INFO, "not_compared");
    f.value = (double)(a + b + apart);
    f.table = "not_compared";
    f.message = message;
    f.hint = "table not_compared names them and the reason";
    return rs_result_add_finding(result, &f, err);
}

static rs_status notes_of(rs_result *result, const rs_compared *c, rs_error *err)
{
    RS_TRY(rs_result_add_notes(result, &c->checkpoint->notes, err));
    return rs_result_add_notes(result, &c->model->notes, err);
}

rs_status rs_compare_findings(rs_result *result, rs_comparison *all, size_t n,
                              const rs_compare_options *options, rs_error *err)
{
    rs_table *table;
    bool several = n > 1;
    RS_TRY(rs_result_add_table(result, "findings_changed", "Findings that came or went",
                               "What scan, and probe where the models were run, find in one of the "
                               "two alone",
                               changed_columns, sizeof changed_columns / sizeof *changed_columns,
                               &table, err));
    for (size_t c = 0; c < n; c++) {
        RS_TRY(findings_of(table, result, &all[c], several, err));
        for (size_t i = 0; i < all[c].pairs.n; i++) {
            const rs_product_pair *pair = &all[c].pairs.items[i];
            if (!pair->a || !pair->b) continue;
            RS_TRY(rank_moved(result, pair, &all[c], &options->thresholds, several, err));
            RS_TRY(turned_away(result, pair, &all[c], &options->thresholds, several, err));
        }
        RS_TRY(say_missing(result, &all[c], err));
        if (c == 0) RS_TRY(notes_of(result, all[c].a, err));
        RS_TRY(notes_of(result, all[c].b, err));
    }
    return RS_OK;
}
