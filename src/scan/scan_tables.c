/* scan_tables.c: tables heads, groups, layers, summary and tensors. */
#include "scan/measure_columns.h"

#include "base/sort.h"
#include "scan/scan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *rs_product_name(rs_product_kind kind)
{
    static const char *const names[] = {"qk", "ov", "cb", "io"};
    return names[kind];
}

const char *rs_product_title(rs_product_kind kind)
{
    static const char *const titles[] = {"query-key", "value-output", "state-space C-B",
                                         "state-space in-out"};
    return titles[kind];
}

double rs_median(double *values, size_t n)
{
    rs_sort_doubles(values, (int64_t)n);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* ---- heads and groups ---- */

enum { KEYS = 8 };
static const rs_column head_keys[KEYS] = {
    {.name = "stack",
     .type = RS_COLUMN_TEXT,
     .formula = "encoder or decoder, where a model has both"},
    {.name = "attention",
     .type = RS_COLUMN_TEXT,
     .formula = "self, cross or positional; null for state-space layers"},
    {.name = "layer", .type = RS_COLUMN_INT, .formula = "from 0"},
    {.name = "head",
     .type = RS_COLUMN_INT,
     .formula = "query head, from 0; in table groups the key/value head; for cb the group (see "
                "corrections)"},
    {.name = "product",
     .type = RS_COLUMN_TEXT,
     .formula = "qk = W_Q W_Kᵀ, ov = W_V W_O; state-space: cb = W_C W_Bᵀ, io = W_in W_out"},
    {.name = "rows", .type = RS_COLUMN_INT, .formula = "rows of the product A Bᵀ"},
    {.name = "cols", .type = RS_COLUMN_INT, .formula = "columns of the product"},
    {.name = "inner", .type = RS_COLUMN_INT, .formula = "columns of A and B: the head's width"},
};
static const rs_column corrections_column = {
    .name = "corrections",
    .type = RS_COLUMN_TEXT,
    .formula = "what acts on the product in the model and was applied or left out here"};
static const rs_column values_column = {.name = "singular_values",
                                        .type = RS_COLUMN_VECTOR,
                                        .title = "singular values",
                                        .formula = "σ, descending"};

/* What the options did to this product, behind what the model said. */
static const char *corrections_of(const rs_head *head, rs_fold fold, char *text, size_t size)
{
    const rs_factor *factors[2] = {&head->product->a, &head->product->b};
    bool norm = false, bias = false, inner = false;
    for (int i = 0; i < 2; i++) {
        norm |= factors[i]->norm != RS_NORM_NONE;
        inner |= factors[i]->inner_gain != NULL;
        bias |= factors[i]->bias != NULL;
    }
    bool qk = head->product->kind == RS_PRODUCT_QK;
    const char *base = head->product->corrections ? head->product->corrections : "";
    int n = snprintf(text, size, "%s", base);
    const struct {
        bool present, applied;
        const char *name;
    } parts[] = {{norm, fold.norms, "norm gain"},
                 {inner, fold.norms, qk ? "QK-norm gains" : "inner norm gains"},
                 {bias, fold.biases, "bias"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && n >= 0 && (size_t)n < size; i++)
        if (parts[i].present)
            n += snprintf(text + n, size - (size_t)n, "%s%s %s", n ? "; " : "", parts[i].name,
                          parts[i].applied ? "folded in" : "left out");
    return text;
}

static void set_measure(rs_table *table, size_t row, size_t column, rs_column_type type,
                        double value)
{
    if (type == RS_COLUMN_REAL)
        rs_table_set_real(table, row, column, value);
    else if (!isnan(value))
        rs_table_set_int(table, row, column, (int64_t)value);
}

rs_status rs_scan_add_row(rs_table *table, size_t *row, const rs_product *p, int64_t head,
                          rs_error *err)
{
    RS_TRY(rs_table_add_row(table, row, err));
    RS_TRY(rs_table_set_text(table, *row, 0, p->stack, err));
    RS_TRY(rs_table_set_text(table, *row, 1, p->attention, err));
    rs_table_set_int(table, *row, 2, p->layer);
    rs_table_set_int(table, *row, 3, head);
    return rs_table_set_text(table, *row, 4, rs_product_name(p->kind), err);
}

rs_status rs_scan_add_cell(rs_table *table, size_t *row, const rs_product *p, rs_error *err)
{
    RS_TRY(rs_table_add_row(table, row, err));
    RS_TRY(rs_table_set_text(table, *row, 0, p->stack, err));
    RS_TRY(rs_table_set_text(table, *row, 1, p->attention, err));
    rs_table_set_int(table, *row, 2, p->layer);
    return rs_table_set_text(table, *row, 3, rs_product_name(p->kind), err);
}

static rs_status add_head_row(rs_table *table, const rs_head *head, const rs_scan_options *options,
                              rs_error *err)
{
    size_t row;
    int64_t number = head->stacked ? head->product->kv_head : head->product->head;
    RS_TRY(rs_scan_add_row(table, &row, head->product, number, err));
    rs_table_set_int(table, row, 5, head->rows);
    rs_table_set_int(table, row, 6, head->cols);
    rs_table_set_int(table, row, 7, head->inner);
    for (size_t c = 0; c < rs_n_measure_columns; c++)
        set_measure(table, row, KEYS + c, rs_measure_columns[c].column.type,
                    rs_measure_columns[c].get(head));
    char text[512];
    size_t last = KEYS + rs_n_measure_columns;
    RS_TRY(rs_table_set_text(table, row, last,
                             corrections_of(head, options->heads.fold, text, sizeof text), err));
    if (options->spectra && head->sigma)
        RS_TRY(rs_table_set_vector(table, row, last + 1, head->sigma, (size_t)head->k, err));
    return RS_OK;
}

static rs_status head_table(rs_result *result, const char *name, const char *title,
                            const char *about, const rs_head *heads, size_t n,
                            const rs_scan_options *options, rs_error *err)
{
    size_t n_columns = KEYS + rs_n_measure_columns + 1 + options->spectra;
    rs_column *columns = rs_calloc(n_columns, sizeof *columns);
    if (!columns) return rs_fail_memory(err, name, n_columns * sizeof *columns);
    memcpy(columns, head_keys, sizeof head_keys);
    for (size_t c = 0; c < rs_n_measure_columns; c++)
        columns[KEYS + c] = rs_measure_columns[c].column;
    columns[KEYS + rs_n_measure_columns] = corrections_column;
    if (options->spectra) columns[n_columns - 1] = values_column;
    rs_table *table;
    rs_status status =
        rs_result_add_table(result, name, title, about, columns, n_columns, &table, err);
    rs_free(columns);
    for (size_t i = 0; i < n && status == RS_OK; i++)
        status = add_head_row(table, &heads[i], options, err);
    return status;
}

/* ---- layers ---- */

bool rs_same_cell(const rs_product *a, const rs_product *b)
{
    return a->layer == b->layer && a->kind == b->kind && a->stack == b->stack &&
           a->attention == b->attention;
}

/* The statistics of one column over heads[0..n): mean, min, max; NaN when none has a value. */
static void statistics(double out[3], const rs_head *heads, size_t n,
                       const rs_measure_column *column)
{
    double sum = 0, least = INFINITY, most = -INFINITY;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        double value = column->get(&heads[i]);
        if (isnan(value)) continue;
        sum += value;
        count++;
        least = fmin(least, value);
        most = fmax(most, value);
    }
    out[0] = count ? sum / (double)count : NAN;
    out[1] = count ? least : NAN;
    out[2] = count ? most : NAN;
}

static const char *const suffixes[3] = {"_mean", "_min", "_max"};

static rs_status layer_columns(rs_column *columns, rs_arena *arena, rs_error *err)
{
    static const rs_column keys[] = {
        {.name = "stack", .type = RS_COLUMN_TEXT},
        {.name = "attention", .type = RS_COLUMN_TEXT},
        {.name = "layer", .type = RS_COLUMN_INT},
        {.name = "product", .type = RS_COLUMN_TEXT},
        {.name = "heads", .type = RS_COLUMN_INT, .formula = "rows of table heads in this cell"}};
    memcpy(columns, keys, sizeof keys);
    size_t at = sizeof keys / sizeof *keys;
    for (size_t c = 0; c < rs_n_measure_columns; c++)
        for (int s = 0; s < 3; s++, at++) {
            columns[at] = rs_measure_columns[c].column;
            columns[at].type = RS_COLUMN_REAL;
            columns[at].name =
                rs_arena_printf(arena, "%s%s", rs_measure_columns[c].column.name, suffixes[s]);
            columns[at].title = NULL;
            if (!columns[at].name) return rs_fail_memory(err, "layers", 0);
        }
    return RS_OK;
}

static rs_status add_layer_row(rs_table *table, const rs_head *heads, size_t n, rs_error *err)
{
    const rs_product *p = heads->product;
    size_t row;
    RS_TRY(rs_scan_add_cell(table, &row, p, err));
    rs_table_set_int(table, row, 4, (int64_t)n);
    for (size_t c = 0; c < rs_n_measure_columns; c++) {
        double values[3];
        statistics(values, heads, n, &rs_measure_columns[c]);
        for (size_t s = 0; s < 3; s++)
            rs_table_set_real(table, row, 5 + 3 * c + s, values[s]);
    }
    return RS_OK;
}

static rs_status layer_table(rs_result *result, const rs_heads *heads, rs_error *err)
{
    size_t n_columns = 5 + 3 * rs_n_measure_columns;
    rs_column *columns = rs_calloc(n_columns, sizeof *columns);
    rs_status status = columns ? layer_columns(columns, rs_result_arena(result), err)
                               : rs_fail_memory(err, "layers", n_columns * sizeof *columns);
    rs_table *table = NULL;
    if (status == RS_OK)
        status =
            rs_result_add_table(result, "layers", "Layers",
                                "Each layer and product: mean, least and largest over its heads",
                                columns, n_columns, &table, err);
    rs_free(columns);
    for (size_t i = 0; i < heads->n && status == RS_OK;) {
        size_t n = 1;
        while (i + n < heads->n &&
               rs_same_cell(heads->items[i].product, heads->items[i + n].product))
            n++;
        status = add_layer_row(table, heads->items + i, n, err);
        i += n;
    }
    return status;
}

rs_status rs_scan_head_tables(rs_result *result, const rs_heads *heads,
                              const rs_scan_options *options, rs_error *err)
{
    RS_TRY(layer_table(result, heads, err));
    RS_TRY(head_table(result, "heads", "Heads",
                      "Every head's products: norms, ranks, balance, and what chance would give",
                      heads->items, heads->n, options, err));
    if (heads->n_groups == 0) return RS_OK;
    return head_table(result, "groups", "Groups",
                      "Grouped queries: the products of all query heads that share a key/value "
                      "head, stacked; weight decay acts "
                      "on these",
                      heads->groups, heads->n_groups, options, err);
}

/* ---- summary ---- */

static const rs_column summary_columns[] = {
    {.name = "stack", .type = RS_COLUMN_TEXT},
    {.name = "attention", .type = RS_COLUMN_TEXT},
    {.name = "product", .type = RS_COLUMN_TEXT},
    {.name = "heads", .type = RS_COLUMN_INT},
    {.name = "effective_rank", .type = RS_COLUMN_REAL, .formula = "mean over heads"},
    {.name = "by_chance",
     .type = RS_COLUMN_REAL,
     .provenance = "predicted",
     .formula = "mean effective rank of random factors of these shapes"},
    {.name = "ratio",
     .type = RS_COLUMN_REAL,
     .formula = "mean of effective_rank / effective_rank_null"},
    {.name = "lowest", .type = RS_COLUMN_REAL, .formula = "lowest such ratio"},
    {.name = "at", .type = RS_COLUMN_TEXT, .formula = "layer.head of the lowest ratio"},
    {.name = "stable_rank", .type = RS_COLUMN_REAL, .formula = "mean over heads"},
    {.name = "balance_score", .type = RS_COLUMN_REAL, .formula = "mean over heads"},
};

bool rs_same_kind(const rs_product *a, const rs_product *b)
{
    return a->kind == b->kind && a->stack == b->stack && a->attention == b->attention;
}

static rs_status add_summary_row(rs_table *table, const rs_heads *heads, const rs_product *kind,
                                 rs_error *err)
{
    double effective = 0, chance = 0, ratio = 0, stable = 0, beta = 0, lowest = INFINITY;
    const rs_product *at = NULL;
    double count = 0;
    for (size_t i = 0; i < heads->n; i++) {
        const rs_head *h = &heads->items[i];
        if (!rs_same_kind(h->product, kind) || !h->sigma || isnan(h->measures.effective_rank))
            continue;
        double this_ratio = h->measures.effective_rank / h->null->effective_rank;
        effective += h->measures.effective_rank;
        chance += h->null->effective_rank;
        ratio += this_ratio;
        stable += h->measures.stable_rank;
        beta += h->pair.balance_score;
        count++;
        if (this_ratio < lowest) lowest = this_ratio, at = h->product;
    }
    size_t row;
    RS_TRY(rs_table_add_row(table, &row, err));
    RS_TRY(rs_table_set_text(table, row, 0, kind->stack, err));
    RS_TRY(rs_table_set_text(table, row, 1, kind->attention, err));
    RS_TRY(rs_table_set_text(table, row, 2, rs_product_name(kind->kind), err));
    rs_table_set_int(table, row, 3, (int64_t)count);
    if (!at) return RS_OK;
    const double means[] = {effective, chance, ratio};
    for (size_t i = 0; i < 3; i++)
        rs_table_set_real(table, row, 4 + i, means[i] / count);
    rs_table_set_real(table, row, 7, lowest);
    char place[32];
    snprintf(place, sizeof place, "%d.%d", (int)at->layer, (int)at->head);
    RS_TRY(rs_table_set_text(table, row, 8, place, err));
    rs_table_set_real(table, row, 9, stable / count);
    rs_table_set_real(table, row, 10, beta / count);
    return RS_OK;
}

rs_status rs_scan_summary(rs_result *result, const rs_heads *heads, const rs_scan_options *options,
                          rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, options->summary ? options->summary : "summary",
                               options->summary ? "Summary of the weights" : "Summary",
                               "Each kind of product over all layers and heads", summary_columns,
                               sizeof summary_columns / sizeof *summary_columns, &table, err));
    for (size_t i = 0; i < heads->n; i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++)
            seen = rs_same_kind(heads->items[j].product, heads->items[i].product);
        if (!seen) RS_TRY(add_summary_row(table, heads, heads->items[i].product, err));
    }
    return RS_OK;
}

/* ---- tensors ---- */

static const rs_column tensor_columns[] = {
    {.name = "tensor", .type = RS_COLUMN_TEXT},
    {.name = "file", .type = RS_COLUMN_TEXT},
    {.name = "dtype", .type = RS_COLUMN_TEXT},
    {.name = "shape", .type = RS_COLUMN_TEXT},
    {.name = "role", .type = RS_COLUMN_TEXT},
    {.name = "status", .type = RS_COLUMN_TEXT, .formula = "analysed, decoded only, or refused"},
    {.name = "reason", .type = RS_COLUMN_TEXT},
};

static void shape_text(char *text, size_t size, const rs_tensor *tensor)
{
    int n = snprintf(text, size, "[");
    for (uint32_t d = 0; d < tensor->rank && n >= 0 && (size_t)n < size; d++)
        n += snprintf(text + n, size - (size_t)n, "%s%lld", d ? "," : "",
                      (long long)tensor->shape[d]);
    if (n >= 0 && (size_t)n < size) snprintf(text + n, size - (size_t)n, "]");
}

static void mark(bool *used, const rs_model *model, const rs_tensor *tensor)
{
    if (tensor) used[tensor - model->checkpoint->tensors] = true;
}

void rs_scan_mark_used(bool *used, const rs_model *model, const rs_heads *heads, rs_fold fold)
{
    for (size_t i = 0; i < heads->n; i++) {
        const rs_factor *factors[2] = {&heads->items[i].product->a, &heads->items[i].product->b};
        for (size_t f = 0; f < 2; f++) {
            mark(used, model, factors[f]->tensor);
            mark(used, model, factors[f]->scale);
            mark(used, model, fold.biases ? factors[f]->bias : NULL);
            mark(used, model, fold.norms ? factors[f]->gain : NULL);
            mark(used, model, fold.norms ? factors[f]->inner_gain : NULL);
            mark(used, model, fold.norms && fold.biases ? factors[f]->gain_bias : NULL);
        }
    }
}

/* Status and reason of a tensor in this run: the model knows what it is for, the options what was
 * read. */
static void status_of(const char *out[2], const rs_tensor_role *role, bool used)
{
    bool analysed = strcmp(role->status, "analysed") == 0;
    out[0] = used ? "analysed" : analysed ? "decoded only" : role->status;
    out[1] = used ? "" : analysed ? "outside the layers of this run" : role->reason;
}

rs_status rs_scan_tensors(rs_result *result, const rs_model *model, const bool *used, rs_error *err)
{
    const rs_checkpoint *checkpoint = model->checkpoint;
    rs_table *table;
    RS_TRY(rs_result_add_table(
        result, "tensors", "Tensors", "Every tensor of the checkpoint and what was done with it",
        tensor_columns, sizeof tensor_columns / sizeof *tensor_columns, &table, err));
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        const rs_tensor *tensor = &checkpoint->tensors[i];
        const rs_tensor_role *role = &model->roles[i];
        char shape[400], dtype[32];
        const char *status[2];
        status_of(status, role, used[i]);
        shape_text(shape, sizeof shape, tensor);
        if (tensor->dtype == RS_DTYPE_UNKNOWN)
            snprintf(dtype, sizeof dtype, "type %d", (int)tensor->type_id);
        else
            snprintf(dtype, sizeof dtype, "%s", rs_dtype_info(tensor->dtype)->name);
        const char *cells[] = {tensor->name, rs_tensor_file(checkpoint, tensor), dtype,
                               shape,        rs_role_name(role->role),           status[0],
                               status[1]};
        size_t row;
        RS_TRY(rs_table_add_row(table, &row, err));
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            RS_TRY(rs_table_set_text(table, row, c, cells[c], err));
    }
    return RS_OK;
}
