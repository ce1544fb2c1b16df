/* series_tables.c: tables series, checkpoints, trends, findings_changed and not_compared. */
#include "scan/series_parts.h"

#include "report/findings.h"

#include <math.h>
#include <stdlib.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* The columns that say which checkpoint, of a struct with members path and step. */
#define WHICH(type)                                                                                \
    {.name = "path", RS_CELL(type, path), .formula = "the checkpoint"},                            \
    {                                                                                              \
        .name = "step", RS_CELL(type, step),                                                       \
        .formula = "the number that its name ends in; null where names give no order"              \
    }

/* ---- series ---- */

enum { MEANS = 13 };

/* A row of table series. */
typedef struct series_cells {
    const char *path;
    rs_scan_keys keys;
    int64_t step, position, heads, dead;
    double of[MEANS], lowest, spread;
} series_cells;

/* A mean over heads of the column of table heads that has its name. */
#define MEAN(index, name_, formula_, provenance_)                                                  \
    {                                                                                              \
        .name = name_, RS_CELL(series_cells, of[index]), .formula = formula_,                      \
        .provenance = provenance_                                                                  \
    }

static const rs_column series_columns[] = {
    WHICH(series_cells),
    {.name = "stack", RS_CELL(series_cells, keys.stack)},
    {.name = "attention", RS_CELL(series_cells, keys.attention)},
    {.name = "layer", RS_CELL(series_cells, keys.layer), .formula = "from 0"},
    {.name = "product", RS_CELL(series_cells, keys.product)},
    {.name = "position",
     RS_CELL(series_cells, position),
     .formula = "place of the checkpoint among those that were read, from 1"},
    {.name = "heads",
     RS_CELL(series_cells, heads),
     .formula =
         "products that effective_rank_ratio is the mean over: those that have a rank, and those "
         "that had one in an earlier checkpoint and are all zero"},
    {.name = "heads_dead",
     RS_CELL(series_cells, dead),
     .formula = "of them, those that are all zero"},
    {.name = "effective_rank_ratio_min",
     RS_CELL(series_cells, lowest),
     .formula = "least over the heads of effective_rank / effective_rank_null; 0 where one died"},
    {.name = "effective_rank_ratio_spread",
     RS_CELL(series_cells, spread),
     .provenance = "predicted",
     .formula = "standard deviation of effective_rank_ratio, a mean over heads, of random factors "
                "of these "
                "shapes; heads that share keys or values vary together"},
};
static const rs_column series_means[MEANS] = {
    MEAN(0, "effective_rank", "mean over heads of exp(−Σ p ln p), p = σ/Σσ", NULL),
    MEAN(1, "effective_rank_null", "mean over heads of what random factors of the shape have",
         "predicted"),
    MEAN(2, "effective_rank_ratio",
         "mean over heads of effective_rank / effective_rank_null: 1 is what random weights have; "
         "a head "
         "that had a rank in an earlier checkpoint and is all zero counts as 0",
         NULL),
    MEAN(3, "stable_rank", "mean over heads of Σσ² / σ₁²", NULL),
    MEAN(4, "stable_rank_null", "mean over heads of what random factors of the shape have",
         "predicted"),
    MEAN(5, "participation_ratio", "mean over heads of (Σσ²)² / Σσ⁴", NULL),
    MEAN(6, "energy_rank", "mean over heads of the least k with Σ_{i≤k} σ² ≥ 0.95 Σσ²", NULL),
    MEAN(7, "pseudo_rank",
         "mean over heads of the least k with Σ_{i≤k} σ ≥ 0.95 Σσ, over the inner width", NULL),
    MEAN(8, "numerical_rank", "mean over heads of the number of σ > max(rows, cols)·ε·σ₁", NULL),
    MEAN(9, "spectral_norm", "mean over heads of σ₁", NULL),
    MEAN(10, "frobenius_norm", "mean over heads of sqrt(Σσ²)", NULL),
    MEAN(11, "nuclear_excess", "mean over heads of gap / H", NULL),
    MEAN(12, "balance_score", "mean over heads of β: 1 when AᵀA = BᵀB", NULL),
};
const rs_table_kind rs_series_kind = {
    "scan", "series", {RS_PART(series_columns), RS_PART(series_means)}};

rs_status rs_series_row(rs_series *s, const rs_series_entry *entry, const rs_head *heads, size_t n,
                        const rs_series_ratio *ratio, rs_error *err)
{
    enum { RATIO = 2 }; /* its place in series_means */
    double of[RS_HEAD_MEASURES][3];
    rs_measure_statistics(of, heads, n);
    series_cells row = {.path = entry->path,
                        .keys = rs_scan_keys_of(heads->product, heads->product->head),
                        .step = entry->step,
                        .position = (int64_t)s->n_read + 1,
                        .heads = ratio->heads,
                        .dead = ratio->dead,
                        .lowest = ratio->lowest,
                        .spread = ratio->spread};
    for (size_t i = 0; i < MEANS; i++)
        row.of[i] = of[rs_measure_index(series_means[i].name)][0];
    row.of[RATIO] = ratio->mean;
    return rs_table_append(s->series, &row, err);
}

/* ---- checkpoints ---- */

/* A row of table checkpoints. */
typedef struct checkpoint_cells {
    const char *path, *family, *dtype, *verdict, *reason;
    int64_t step, position, layers, d_model, heads, kv_heads, d_head, parameters, products,
        warnings;
    double of[RS_SERIES_KINDS], lowest;
} checkpoint_cells;

static const rs_column checkpoint_columns[] = {
    WHICH(checkpoint_cells),
    {.name = "position",
     RS_CELL(checkpoint_cells, position),
     .formula = "place among those that were read, from 1; null: it was skipped"},
    {.name = "qk",
     RS_CELL(checkpoint_cells, of[RS_PRODUCT_QK]),
     .formula = "mean effective_rank_ratio of its query-key products, those that died as 0"},
    {.name = "ov",
     RS_CELL(checkpoint_cells, of[RS_PRODUCT_OV]),
     .formula = "the same of its value-output products"},
    {.name = "cb",
     RS_CELL(checkpoint_cells, of[RS_PRODUCT_CB]),
     .formula = "the same of its state-space C-B products"},
    {.name = "io",
     RS_CELL(checkpoint_cells, of[RS_PRODUCT_IO]),
     .formula = "the same of its state-space in-out products"},
    {.name = "lowest",
     RS_CELL(checkpoint_cells, lowest),
     .formula = "lowest effective_rank_ratio of all its products"},
    {.name = "verdict",
     RS_CELL(checkpoint_cells, verdict),
     .formula = "code of what scan says of it by itself"},
    {.name = "warnings",
     RS_CELL(checkpoint_cells, warnings),
     .formula = "cases that scan warns of, or calls critical"},
    {.name = "products", RS_CELL(checkpoint_cells, products), .formula = "rows of scan's heads"},
    {.name = "family", RS_CELL(checkpoint_cells, family)},
    {.name = "dtype", RS_CELL(checkpoint_cells, dtype), .formula = "type of most stored numbers"},
    {.name = "layers", RS_CELL(checkpoint_cells, layers)},
    {.name = "d_model", RS_CELL(checkpoint_cells, d_model)},
    {.name = "heads", RS_CELL(checkpoint_cells, heads)},
    {.name = "kv_heads", RS_CELL(checkpoint_cells, kv_heads)},
    {.name = "d_head", RS_CELL(checkpoint_cells, d_head)},
    {.name = "parameters", RS_CELL(checkpoint_cells, parameters)},
    {.name = "reason",
     RS_CELL(checkpoint_cells, reason),
     .formula = "why it was skipped; null where it was read"},
};
const rs_table_kind rs_series_checkpoints_kind = {
    "scan", "checkpoints", {RS_PART(checkpoint_columns)}};

static void add_ratios(checkpoint_cells *row, const rs_series_read *read)
{
    row->lowest = read->lowest; /* infinite is null, too */
    for (size_t k = 0; k < RS_SERIES_KINDS; k++)
        row->of[k] = read->kinds[k].heads > 0 ? read->kinds[k].sum / read->kinds[k].heads : NAN;
}

static int64_t warnings_of(const rs_result *scan)
{
    int64_t n = 0;
    for (size_t i = 0; i < rs_result_finding_count(scan); i++)
        n += rs_result_finding_at(scan, i)->severity >= RS_WARN;
    return n;
}

static void describe(checkpoint_cells *row, const rs_series_read *read)
{
    const rs_model *m = read->model;
    row->family = m->family;
    row->dtype = m->stored.dtype;
    row->layers = m->layers;
    row->d_model = m->d_model;
    row->heads = m->heads;
    row->kv_heads = m->kv_heads;
    row->d_head = m->d_head;
    row->parameters = (int64_t)m->stored.parameters;
    row->products = (int64_t)read->heads->n;
    row->verdict = rs_result_verdict(read->scan)->code;
    row->warnings = warnings_of(read->scan);
    add_ratios(row, read);
}

rs_status rs_series_list_row(rs_series *s, const rs_series_entry *entry, const rs_series_read *read,
                             const rs_error *why, rs_error *err)
{
    checkpoint_cells row = {.path = entry->path, .step = entry->step, .lowest = NAN};
    if (read) {
        row.position = (int64_t)s->n_read + 1;
        describe(&row, read);
    } else {
        rs_columns_clear(checkpoint_columns, COUNT(checkpoint_columns), &row);
        row.path = entry->path;
        row.step = entry->step;
        row.reason = why->what;
    }
    return rs_table_append(s->checkpoints, &row, err);
}

/* ---- findings_changed ---- */

/* A row of table findings_changed. */
typedef struct changed_cells {
    const char *path, *change;
    int64_t step;
    rs_case_cells of;
} changed_cells;

static const rs_column changed_columns[] = {
    WHICH(changed_cells),
    {.name = "change",
     RS_CELL(changed_cells, change),
     .formula = "came: this checkpoint has it and the one before has not; went: the other way"},
    RS_CASE_COLUMNS(changed_cells),
};
const rs_table_kind rs_series_changed_kind = {
    "scan", "findings_changed", {RS_PART(changed_columns)}};

static rs_status list_changes(rs_series *s, const rs_series_entry *entry, const char *change,
                              const rs_result *has, const rs_result *has_not, rs_error *err)
{
    for (size_t i = 0; i < rs_result_finding_count(has); i++) {
        const rs_finding *f = rs_result_finding_at(has, i);
        if (rs_finding_is_routine(f) || rs_finding_is_in(f, has_not)) continue;
        const changed_cells row = {
            .path = entry->path, .step = entry->step, .change = change, .of = rs_case_of(f)};
        RS_TRY(rs_table_append(s->changed, &row, err));
    }
    return RS_OK;
}

rs_status rs_series_changes(rs_series *s, const rs_series_entry *entry, const rs_result *before,
                            const rs_result *now, rs_error *err)
{
    RS_TRY(list_changes(s, entry, "came", now, before, err));
    return list_changes(s, entry, "went", before, now, err);
}

/* ---- trends ---- */

/* A row of table trends. */
typedef struct trend_cells {
    rs_scan_keys keys;
    const char *trend;
    int64_t checkpoints, highest_step, since_step;
    const char *since_path;
    double first, highest, lowest, last, fall, swing, noise, chance;
} trend_cells;

static const rs_column trend_columns[] = {
    {.name = "stack", RS_CELL(trend_cells, keys.stack)},
    {.name = "attention", RS_CELL(trend_cells, keys.attention)},
    {.name = "layer", RS_CELL(trend_cells, keys.layer), .formula = "from 0"},
    {.name = "product", RS_CELL(trend_cells, keys.product)},
    {.name = "trend",
     RS_CELL(trend_cells, trend),
     .formula = "falls, rises or holds: docs/series.md has the rule"},
    {.name = "first",
     RS_CELL(trend_cells, first),
     .formula = "effective_rank_ratio (mean over heads) in the first checkpoint that has it"},
    {.name = "highest", RS_CELL(trend_cells, highest), .formula = "the highest of them"},
    {.name = "lowest", RS_CELL(trend_cells, lowest), .formula = "the lowest of them"},
    {.name = "last",
     RS_CELL(trend_cells, last),
     .formula = "in the last checkpoint; null where it has none"},
    {.name = "fall",
     RS_CELL(trend_cells, fall),
     .formula = "1 − last / highest; 1: all heads died"},
    {.name = "since_step",
     RS_CELL(trend_cells, since_step),
     .formula =
         "falls: step of the last checkpoint that is as high as the highest, within the larger "
         "of noise and a tenth of the way from the highest to the last; rises: as low as the "
         "lowest; null where it holds"},
    {.name = "since_path", RS_CELL(trend_cells, since_path), .formula = "path of that checkpoint"},
    {.name = "highest_step", RS_CELL(trend_cells, highest_step), .formula = "step of the highest"},
    {.name = "swing",
     RS_CELL(trend_cells, swing),
     .formula =
         "the largest climb from one checkpoint to a later one, which a fall must be 1.5 times as "
         "large as; where it rises the largest drop"},
    {.name = "noise",
     RS_CELL(trend_cells, noise),
     .formula = "how far it goes up and down of itself (docs/series.md)"},
    {.name = "chance",
     RS_CELL(trend_cells, chance),
     .provenance = "predicted",
     .formula = "3 standard deviations of the difference of two random models' ratios"},
    {.name = "checkpoints",
     RS_CELL(trend_cells, checkpoints),
     .formula = "checkpoints in which a head of it has a rank, or died"},
};
const rs_table_kind rs_series_trends_kind = {"scan", "trends", {RS_PART(trend_columns)}};

static int by_fall(const void *a, const void *b)
{
    const rs_series_cell *x = *(const rs_series_cell *const *)a,
                         *y = *(const rs_series_cell *const *)b;
    if (isnan(x->trend.fall) != isnan(y->trend.fall)) return isnan(x->trend.fall) ? 1 : -1;
    if (x->trend.fall > y->trend.fall || x->trend.fall < y->trend.fall)
        return x->trend.fall > y->trend.fall ? -1 : 1;
    return x < y ? -1 : x > y;
}

static rs_status add_trend(rs_table *table, const rs_series *s, const rs_series_cell *c,
                           rs_error *err)
{
    const rs_trend *t = &c->trend;
    const rs_series_entry *since = t->kind == RS_TREND_HOLDS ? NULL : s->read[c->at[t->since]];
    const trend_cells row = {.keys = rs_scan_keys_of(&c->place, -1),
                             .trend = rs_trend_name(t->kind),
                             .checkpoints = (int64_t)c->n,
                             .first = c->ratios[0],
                             .highest = c->ratios[t->highest],
                             .lowest = c->ratios[t->lowest],
                             .last = rs_series_is_current(s, c) ? c->ratios[c->n - 1] : NAN,
                             .fall = t->fall,
                             .highest_step = s->read[c->at[t->highest]]->step,
                             .since_step = since ? since->step : RS_NULL_INT,
                             .since_path = since ? since->path : NULL,
                             .swing = t->swing,
                             .noise = t->noise,
                             .chance = t->chance};
    return rs_table_append(table, &row, err);
}

static rs_status trend_table(rs_series *s, rs_error *err)
{
    rs_table *table;
    size_t n = 0;
    RS_TRY(
        rs_result_add_table(s->result, "trends", "Trends",
                            "Each layer's products over the whole series, the one that fell most "
                            "first",
                            trend_columns, COUNT(trend_columns), &table, err));
    rs_table_show_first(table, "stack,attention,layer,product,trend,first,highest,last,fall,"
                               "since_step");
    rs_table_show_few(table, 12);
    const rs_series_cell **sorted = rs_malloc(s->n_cells, sizeof *sorted);
    if (!sorted) return rs_fail_memory(err, "trends", s->n_cells * sizeof *sorted);
    for (size_t i = 0; i < s->n_cells; i++)
        if (s->cells[i].n > 0) sorted[n++] = &s->cells[i];
    if (n > 1) qsort(sorted, n, sizeof *sorted, by_fall);
    rs_status status = RS_OK;
    for (size_t i = 0; i < n && status == RS_OK; i++)
        status = add_trend(table, s, sorted[i], err);
    rs_free(sorted);
    return status;
}

/* ---- not_compared ---- */

/* A row of table not_compared. */
typedef struct apart_cells {
    const char *path, *reason;
    rs_scan_keys keys;
    int64_t step, checkpoints;
} apart_cells;

static const rs_column apart_columns[] = {
    WHICH(apart_cells),
    {.name = "stack", RS_CELL(apart_cells, keys.stack)},
    {.name = "attention", RS_CELL(apart_cells, keys.attention)},
    {.name = "layer", RS_CELL(apart_cells, keys.layer), .formula = "from 0"},
    {.name = "product", RS_CELL(apart_cells, keys.product)},
    {.name = "checkpoints",
     RS_CELL(apart_cells, checkpoints),
     .formula = "checkpoints that have the product"},
    {.name = "reason",
     RS_CELL(apart_cells, reason),
     .formula = "what is different in this checkpoint, the first of its kind"},
};
const rs_table_kind rs_series_apart_kind = {"scan", "not_compared", {RS_PART(apart_columns)}};

static rs_status add_apart(rs_table *table, const rs_series *s, const rs_series_cell *c,
                           size_t place, const char *reason, rs_error *err)
{
    if (place == SIZE_MAX) return RS_OK;
    const apart_cells row = {.path = s->read[place]->path,
                             .step = s->read[place]->step,
                             .keys = rs_scan_keys_of(&c->place, -1),
                             .checkpoints = (int64_t)c->had,
                             .reason = reason};
    return rs_table_append(table, &row, err);
}

static rs_status apart_table(rs_series *s, rs_error *err)
{
    rs_table *table;
    bool any = false;
    for (size_t i = 0; i < s->n_cells; i++)
        any |= s->cells[i].lacks != SIZE_MAX || s->cells[i].other != SIZE_MAX;
    if (!any) return RS_OK;
    RS_TRY(rs_result_add_table(s->result, "not_compared", "Not the same in all",
                               "Products that some checkpoints lack or have in another shape",
                               apart_columns, COUNT(apart_columns), &table, err));
    for (size_t i = 0; i < s->n_cells; i++) {
        const rs_series_cell *c = &s->cells[i];
        RS_TRY(add_apart(table, s, c, c->lacks, "it has no such product", err));
        RS_TRY(add_apart(table, s, c, c->other,
                         "another width or number of heads than the first: ranks, as parts of "
                         "chance, are compared all the same",
                         err));
    }
    return RS_OK;
}

rs_status rs_series_end_tables(rs_series *s, rs_error *err)
{
    RS_TRY(trend_table(s, err));
    RS_TRY(apart_table(s, err));
    rs_result_show(s->result, "trends");
    return RS_OK;
}

rs_status rs_series_add_tables(rs_series *s, rs_error *err)
{
    rs_column columns[COUNT(series_columns) + MEANS];
    rs_column *end = rs_columns_within(columns, series_columns, COUNT(series_columns), 0);
    rs_columns_within(end, series_means, MEANS, 0);
    RS_TRY(rs_result_add_table(s->result, "series", "Series",
                               "Each layer's products in each checkpoint, means over their heads",
                               columns, COUNT(columns), &s->series, err));
    rs_table_show_first(s->series,
                        "step,path,stack,attention,layer,product,effective_rank_ratio,"
                        "effective_rank_ratio_min,effective_rank,stable_rank,balance_score");
    RS_TRY(rs_result_add_table(s->result, "checkpoints", "Checkpoints",
                               "What was read, in order, what scan says of each, and what was "
                               "skipped",
                               checkpoint_columns, COUNT(checkpoint_columns), &s->checkpoints,
                               err));
    rs_table_show_first(s->checkpoints, "step,path,qk,ov,cb,io,lowest,verdict,warnings,reason");
    RS_TRY(
        rs_result_add_table(s->result, "findings_changed", "Findings that came or went",
                            "What scan finds in one checkpoint and not in the one before, or the "
                            "other way",
                            changed_columns, COUNT(changed_columns), &s->changed, err));
    rs_table_show_first(s->changed, "step,path,change,severity,code,layer,head,product,message");
    return RS_OK;
}
