/* scan_tables.c: tables heads, groups, layers, summary and tensors. */
#include "scan/measure_columns.h"

#include "base/sort.h"

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

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const rs_column head_keys[] = {
    {.name = "stack",
     RS_CELL(rs_head_row, keys.stack),
     .formula = "encoder or decoder, where a model has both"},
    {.name = "attention",
     RS_CELL(rs_head_row, keys.attention),
     .formula = "self, cross or positional; null for state-space layers"},
    {.name = "layer", RS_CELL(rs_head_row, keys.layer), .formula = "from 0"},
    {.name = "head",
     RS_CELL(rs_head_row, keys.head),
     .formula = "query head, from 0; in table groups the key/value head; for cb the group (see "
                "corrections)"},
    {.name = "product",
     RS_CELL(rs_head_row, keys.product),
     .formula = "qk = W_Q W_Kᵀ, ov = W_V W_O; state-space: cb = W_C W_Bᵀ, io = W_in W_out"},
    {.name = "rows", RS_CELL(rs_head_row, of.rows), .formula = "rows of the product A Bᵀ"},
    {.name = "cols", RS_CELL(rs_head_row, of.cols), .formula = "columns of the product"},
    {.name = "inner",
     RS_CELL(rs_head_row, of.inner),
     .formula = "columns of A and B: the head's width"},
};
static const rs_column head_tail[] = {
    {.name = "corrections",
     RS_CELL(rs_head_row, corrections),
     .formula = "what acts on the product in the model and was applied or left out here"},
    {.name = "singular_values",
     RS_CELL(rs_head_row, singular_values),
     .title = "singular values",
     .formula = "σ, descending"},
};
#define HEAD_PARTS                                                                                 \
    {                                                                                              \
        RS_PART(head_keys), RS_PART(rs_measure_columns), RS_PART(head_tail)                        \
    }
const rs_table_kind rs_scan_heads_kind = {"scan", "heads", HEAD_PARTS},
                    rs_scan_groups_kind = {"scan", "groups", HEAD_PARTS};

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

rs_scan_keys rs_scan_keys_of(const rs_product *p, int32_t head)
{
    return (rs_scan_keys){p->stack, p->attention, rs_product_name(p->kind), p->layer, head};
}

static rs_status add_head_row(rs_table *table, const rs_head *head, const rs_scan_options *options,
                              rs_error *err)
{
    const rs_product *p = head->product;
    char text[512];
    rs_head_row row = rs_head_row_of(head);
    row.keys = rs_scan_keys_of(p, head->stacked ? p->kv_head : p->head);
    row.corrections = corrections_of(head, options->heads.fold, text, sizeof text);
    row.singular_values = (rs_list){head->sigma, (size_t)head->k};
    return rs_table_append(table, &row, err);
}

static rs_status head_table(rs_result *result, const char *name, const char *title,
                            const char *about, const rs_head *heads, size_t n,
                            const rs_scan_options *options, rs_error *err)
{
    rs_column columns[COUNT(head_keys) + RS_HEAD_MEASURES + COUNT(head_tail)],
        *end = rs_columns_within(columns, head_keys, COUNT(head_keys), 0);
    end = rs_columns_within(end, rs_measure_columns, RS_HEAD_MEASURES, 0);
    end = rs_columns_within(end, head_tail, COUNT(head_tail) - !options->spectra, 0);
    rs_table *table;
    RS_TRY(rs_result_add_table(result, name, title, about, columns, (size_t)(end - columns), &table,
                               err));
    rs_table_show_first(table,
                        "stack,attention,layer,head,product,effective_rank,effective_rank_null,"
                        "stable_rank,pseudo_rank,nuclear_excess,balance_score");
    for (size_t i = 0; i < n; i++)
        RS_TRY(add_head_row(table, &heads[i], options, err));
    return RS_OK;
}

/* ---- layers ---- */

bool rs_same_cell(const rs_product *a, const rs_product *b)
{
    return a->layer == b->layer && a->kind == b->kind && a->stack == b->stack &&
           a->attention == b->attention;
}

/* A row of table layers. */
typedef struct layer_cells {
    rs_scan_keys keys;
    int64_t heads;
    double of[RS_HEAD_MEASURES][3]; /* mean, min, max over its heads; NaN when none has a value */
} layer_cells;

static rs_status layer_columns(rs_column *columns, rs_arena *arena, rs_error *err)
{
    static const char *const suffixes[3] = {"_mean", "_min", "_max"};
    for (size_t c = 0; c < RS_HEAD_MEASURES; c++)
        for (size_t s = 0; s < 3; s++, columns++) {
            const rs_column *of = &rs_measure_columns[c];
            *columns = (rs_column){RS_CELL(layer_cells, of[0][0]),
                                   .name = rs_arena_printf(arena, "%s%s", of->name, suffixes[s]),
                                   .formula = of->formula, .provenance = of->provenance};
            columns->at += (3 * c + s) * sizeof(double);
            if (!columns->name) return rs_fail_memory(err, "layers", 0);
        }
    return RS_OK;
}

static rs_status add_layer_row(rs_table *table, const rs_head *heads, size_t n, rs_error *err)
{
    const rs_product *p = heads->product;
    layer_cells cells = {.keys = rs_scan_keys_of(p, p->head), .heads = (int64_t)n};
    rs_measure_statistics(cells.of, heads, n);
    return rs_table_append(table, &cells, err);
}

static const rs_column layer_keys[] = {
    {.name = "stack", RS_CELL(layer_cells, keys.stack)},
    {.name = "attention", RS_CELL(layer_cells, keys.attention)},
    {.name = "layer", RS_CELL(layer_cells, keys.layer)},
    {.name = "product", RS_CELL(layer_cells, keys.product)},
    {.name = "heads", RS_CELL(layer_cells, heads), .formula = "rows of table heads in this cell"},
};
const rs_table_kind rs_scan_layers_kind = {
    "scan",
    "layers",
    {RS_PART(layer_keys), {rs_measure_columns, RS_HEAD_MEASURES, "_mean|_min|_max"}}};

static rs_status layer_table(rs_result *result, const rs_heads *heads, rs_error *err)
{
    rs_column columns[COUNT(layer_keys) + 3 * RS_HEAD_MEASURES];
    rs_table *table;
    memcpy(columns, layer_keys, sizeof layer_keys);
    RS_TRY(layer_columns(columns + COUNT(layer_keys), rs_result_arena(result), err));
    RS_TRY(rs_result_add_table(result, "layers", "Layers",
                               "Each layer and product: mean, least and largest over its heads",
                               columns, COUNT(columns), &table, err));
    rs_table_show_first(
        table, "stack,attention,layer,product,heads,effective_rank_mean,effective_rank_min,"
               "effective_rank_null_mean,stable_rank_mean,pseudo_rank_mean,nuclear_excess_mean,"
               "balance_score_mean");
    for (size_t i = 0; i < heads->n;) {
        size_t n = 1;
        while (i + n < heads->n &&
               rs_same_cell(heads->items[i].product, heads->items[i + n].product))
            n++;
        RS_TRY(add_layer_row(table, heads->items + i, n, err));
        i += n;
    }
    return RS_OK;
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

/* A row of table summary. */
typedef struct summary_cells {
    rs_scan_keys keys;
    int64_t heads;
    double effective_rank, by_chance, ratio, lowest, stable_rank, balance_score;
    int64_t lowest_layer, lowest_head;
} summary_cells;

static const rs_column summary_columns[] = {
    {.name = "stack", RS_CELL(summary_cells, keys.stack)},
    {.name = "attention", RS_CELL(summary_cells, keys.attention)},
    {.name = "product", RS_CELL(summary_cells, keys.product)},
    {.name = "heads", RS_CELL(summary_cells, heads)},
    {.name = "effective_rank",
     RS_CELL(summary_cells, effective_rank),
     .formula = "mean over heads"},
    {.name = "by_chance",
     RS_CELL(summary_cells, by_chance),
     .provenance = "predicted",
     .formula = "mean effective rank of random factors of these shapes"},
    {.name = "ratio",
     RS_CELL(summary_cells, ratio),
     .formula = "mean of effective_rank / effective_rank_null"},
    {.name = "lowest", RS_CELL(summary_cells, lowest), .formula = "lowest such ratio"},
    {.name = "lowest_layer",
     RS_CELL(summary_cells, lowest_layer),
     .formula = "layer of the lowest ratio"},
    {.name = "lowest_head",
     RS_CELL(summary_cells, lowest_head),
     .formula = "head of the lowest ratio"},
    {.name = "stable_rank", RS_CELL(summary_cells, stable_rank), .formula = "mean over heads"},
    {.name = "balance_score", RS_CELL(summary_cells, balance_score), .formula = "mean over heads"},
};
const rs_table_kind rs_scan_summary_kind = {"scan", "summary", {RS_PART(summary_columns)}};

bool rs_same_kind(const rs_product *a, const rs_product *b)
{
    return a->kind == b->kind && a->stack == b->stack && a->attention == b->attention;
}

static rs_status add_summary_row(rs_table *table, const rs_heads *heads, const rs_product *kind,
                                 rs_error *err)
{
    summary_cells sums = {.keys = rs_scan_keys_of(kind, kind->head), .lowest = INFINITY};
    const rs_product *at = NULL;
    for (size_t i = 0; i < heads->n; i++) {
        const rs_head *h = &heads->items[i];
        if (!rs_same_kind(h->product, kind) || !h->sigma || isnan(h->measures.effective_rank))
            continue;
        double this_ratio = h->measures.effective_rank / h->null->effective_rank;
        sums.effective_rank += h->measures.effective_rank;
        sums.by_chance += h->null->effective_rank;
        sums.ratio += this_ratio;
        sums.stable_rank += h->measures.stable_rank;
        sums.balance_score += h->pair.balance_score;
        sums.heads++;
        if (this_ratio < sums.lowest) sums.lowest = this_ratio, at = h->product;
    }
    double *const means[] = {&sums.effective_rank, &sums.by_chance, &sums.ratio, &sums.stable_rank,
                             &sums.balance_score};
    for (size_t i = 0; i < COUNT(means); i++)
        *means[i] = at ? *means[i] / (double)sums.heads : NAN;
    sums.lowest_layer = at ? at->layer : RS_NULL_INT;
    sums.lowest_head = at ? at->head : RS_NULL_INT;
    return rs_table_append(table, &sums, err);
}

rs_status rs_scan_summary(rs_result *result, const rs_heads *heads, const rs_scan_options *options,
                          rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, options->summary ? options->summary : "summary",
                               options->summary ? "Summary of the weights" : "Summary",
                               "Each kind of product over all layers and heads", summary_columns,
                               COUNT(summary_columns), &table, err));
    for (size_t i = 0; i < heads->n; i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++)
            seen = rs_same_kind(heads->items[j].product, heads->items[i].product);
        if (!seen) RS_TRY(add_summary_row(table, heads, heads->items[i].product, err));
    }
    return RS_OK;
}

/* ---- tensors ---- */

/* A row of table tensors. */
typedef struct tensor_cells {
    const char *tensor, *file, *dtype, *shape, *role, *status, *reason;
} tensor_cells;

static const rs_column tensor_columns[] = {
    {.name = "tensor", RS_CELL(tensor_cells, tensor)},
    {.name = "file", RS_CELL(tensor_cells, file)},
    {.name = "dtype", RS_CELL(tensor_cells, dtype)},
    {.name = "shape", RS_CELL(tensor_cells, shape)},
    {.name = "role", RS_CELL(tensor_cells, role)},
    {.name = "status",
     RS_CELL(tensor_cells, status),
     .formula = "analysed, decoded only, or refused"},
    {.name = "reason", RS_CELL(tensor_cells, reason)},
};
const rs_table_kind rs_scan_tensors_kind = {"scan", "tensors", {RS_PART(tensor_columns)}};

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
static void set_status(tensor_cells *cells, const rs_tensor_role *role, bool used)
{
    bool analysed = strcmp(role->status, "analysed") == 0;
    cells->status = used ? "analysed" : analysed ? "decoded only" : role->status;
    cells->reason = used ? "" : analysed ? "outside the layers of this run" : role->reason;
}

rs_status rs_scan_tensors(rs_result *result, const rs_model *model, const bool *used, rs_error *err)
{
    const rs_checkpoint *checkpoint = model->checkpoint;
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "tensors", "Tensors",
                               "Every tensor of the checkpoint and what was done with it",
                               tensor_columns, COUNT(tensor_columns), &table, err));
    rs_table_show_first(table, "tensor,dtype,shape,role,status,reason");
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        const rs_tensor *tensor = &checkpoint->tensors[i];
        const rs_tensor_role *role = &model->roles[i];
        char shape[400], dtype[32];
        shape_text(shape, sizeof shape, tensor);
        if (tensor->dtype == RS_DTYPE_UNKNOWN)
            snprintf(dtype, sizeof dtype, "type %d", (int)tensor->type_id);
        else
            snprintf(dtype, sizeof dtype, "%s", rs_dtype_info(tensor->dtype)->name);
        tensor_cells cells = {.tensor = tensor->name,
                              .file = rs_tensor_file(checkpoint, tensor),
                              .dtype = dtype,
                              .shape = shape,
                              .role = rs_role_name(role->role)};
        set_status(&cells, role, used[i]);
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}
