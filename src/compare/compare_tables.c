/* compare_tables.c: tables summary, layers, heads, not_compared and models. */
#include "compare/compare_parts.h"
#include "scan/measure_columns.h"

#include <math.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- three columns of one measure: in A, in B, and what it grew by ---- */

static const char *const endings[3] = {"_a", "_b", "_change"};

rs_status rs_compare_three(rs_column *out, const rs_column *columns, size_t n, size_t at,
                           rs_arena *arena, rs_error *err)
{
    for (size_t c = 0; c < n; c++)
        for (size_t e = 0; e < 3; e++, out++) {
            const rs_column *of = &columns[c];
            *out = (rs_column){.name = rs_arena_printf(arena, "%s%s", of->name, endings[e]),
                               .type = RS_COLUMN_REAL,
                               .member = RS_MEMBER_REAL,
                               .unit = of->unit,
                               .formula = of->formula,
                               .provenance = of->provenance,
                               .at = at + (3 * c + e) * sizeof(double)};
            if (!out->name) return rs_fail_memory(err, "columns", 0);
        }
    return RS_OK;
}

void rs_compare_set(double out[3], double a, double b)
{
    out[0] = a;
    out[1] = b;
    out[2] = b - a;
}

/* ---- heads ---- */

/* A row of table heads. */
typedef struct head_cells {
    const char *path;
    rs_scan_keys keys;
    int64_t rows_a, cols_a, inner_a, rows_b, cols_b, inner_b;
    const char *moved;
    rs_change change;
    double of[RS_HEAD_MEASURES][3];
    const char *reason;
} head_cells;

static const rs_column head_keys[] = {
    RS_COMPARE_PATH(head_cells),
    {.name = "stack",
     RS_CELL(head_cells, keys.stack),
     .formula = "encoder or decoder, where a model has both"},
    {.name = "attention",
     RS_CELL(head_cells, keys.attention),
     .formula = "self, cross or positional; null for state-space layers"},
    {.name = "layer", RS_CELL(head_cells, keys.layer), .formula = "from 0"},
    {.name = "head", RS_CELL(head_cells, keys.head), .formula = "query head, from 0"},
    {.name = "product",
     RS_CELL(head_cells, keys.product),
     .formula = "qk = W_Q W_Kᵀ, ov = W_V W_O; state-space: cb = W_C W_Bᵀ, io = W_in W_out"},
    {.name = "moved",
     RS_CELL(head_cells, moved),
     .formula = "same: bit for bit; rounding: change_norm is at most 2 change_floor; changed; null "
                "where no change is measured (reason)"},
    {.name = "change_norm",
     RS_CELL(head_cells, change.norm),
     .formula = "‖W_A − W_B‖_F, W the product"},
    {.name = "change_relative",
     RS_CELL(head_cells, change.relative),
     .title = "relative change",
     .formula = "‖W_A − W_B‖_F / ‖W_A‖_F"},
    {.name = "change_floor",
     RS_CELL(head_cells, change.floor),
     .formula = "what rounding the stored numbers may do to change_norm: root of the expected "
                "square, errors uniform within half a step of the stored type"},
    {.name = "change_effective_rank",
     RS_CELL(head_cells, change.effective_rank),
     .title = "effective rank of the change",
     .formula = "exp(−Σ p ln p), p = σ/Σσ of W_A − W_B; null where nothing changed"},
    {.name = "change_effective_rank_null",
     RS_CELL(head_cells, change.null),
     .provenance = "predicted",
     .formula = "mean over random Gaussian factors as wide inside as both products together"},
    {.name = "change_stable_rank",
     RS_CELL(head_cells, change.stable_rank),
     .formula = "Σσ² / σ₁² of W_A − W_B"},
    {.name = "subspace",
     RS_CELL(head_cells, change.subspace),
     .formula = "k, leading directions that the overlaps are of: --subspace, or A's effective rank "
                "rounded up; at most the lesser numerical rank"},
    {.name = "overlap_left",
     RS_CELL(head_cells, change.left.overlap),
     .title = "overlap, left",
     .formula = "‖U_AᵀU_B‖_F² / k, U the k leading left singular vectors of each: 1 for equal "
                "subspaces, 0 for orthogonal ones"},
    {.name = "overlap_left_null",
     RS_CELL(head_cells, change.left.chance),
     .provenance = "predicted",
     .formula = "k/rows: mean over random subspaces"},
    {.name = "overlap_left_spread",
     RS_CELL(head_cells, change.left.spread),
     .provenance = "predicted",
     .formula = "their standard deviation, (1 − k/m) sqrt(2 / ((m − 1)(m + 2))), m = rows"},
    {.name = "overlap_right",
     RS_CELL(head_cells, change.right.overlap),
     .title = "overlap, right",
     .formula = "‖V_AᵀV_B‖_F² / k, V the k leading right singular vectors of each"},
    {.name = "overlap_right_null",
     RS_CELL(head_cells, change.right.chance),
     .provenance = "predicted",
     .formula = "k/cols: mean over random subspaces"},
    {.name = "overlap_right_spread",
     RS_CELL(head_cells, change.right.spread),
     .provenance = "predicted",
     .formula = "their standard deviation, as on the left, m = cols"},
};
static const rs_column head_tail[] = {
    {.name = "rows_a", RS_CELL(head_cells, rows_a), .formula = "rows of A's product"},
    {.name = "cols_a", RS_CELL(head_cells, cols_a), .formula = "columns of A's product"},
    {.name = "inner_a", RS_CELL(head_cells, inner_a), .formula = "the head's width in A"},
    {.name = "rows_b", RS_CELL(head_cells, rows_b), .formula = "rows of B's product"},
    {.name = "cols_b", RS_CELL(head_cells, cols_b), .formula = "columns of B's product"},
    {.name = "inner_b", RS_CELL(head_cells, inner_b), .formula = "the head's width in B"},
    {.name = "reason",
     RS_CELL(head_cells, reason),
     .formula = "why no change is measured; null where one is"},
};
const rs_table_kind rs_compare_heads_kind = {
    "compare",
    "heads",
    {RS_PART(head_keys),
     {rs_measure_columns, RS_HEAD_MEASURES, "_a|_b|_change"},
     RS_PART(head_tail)}};

static rs_status add_head(rs_table *table, const char *path, const rs_product_pair *pair,
                          rs_error *err)
{
    const rs_product *p = pair->a->product;
    head_cells cells = {.path = path,
                        .keys = rs_scan_keys_of(p, p->head),
                        .rows_a = pair->a->rows,
                        .cols_a = pair->a->cols,
                        .inner_a = pair->a->inner,
                        .rows_b = pair->b->rows,
                        .cols_b = pair->b->cols,
                        .inner_b = pair->b->inner,
                        .moved = rs_moved_name(pair->change.moved),
                        .change = pair->change,
                        .reason = pair->reason};
    const rs_head_row a = rs_head_row_of(pair->a), b = rs_head_row_of(pair->b);
    for (size_t c = 0; c < RS_HEAD_MEASURES; c++)
        rs_compare_set(cells.of[c], rs_column_value(&rs_measure_columns[c], &a),
                       rs_column_value(&rs_measure_columns[c], &b));
    return rs_table_append(table, &cells, err);
}

static rs_status head_table(rs_result *result, const rs_comparison *all, size_t n, rs_error *err)
{
    rs_column columns[COUNT(head_keys) + 3 * RS_HEAD_MEASURES + COUNT(head_tail)];
    memcpy(columns, head_keys, sizeof head_keys);
    RS_TRY(rs_compare_three(columns + COUNT(head_keys), rs_measure_columns, RS_HEAD_MEASURES,
                            offsetof(head_cells, of), rs_result_arena(result), err));
    memcpy(columns + COUNT(head_keys) + 3 * RS_HEAD_MEASURES, head_tail, sizeof head_tail);
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "heads", "Heads",
                               "Every product that both have: what its measures are in A and in B, "
                               "how far it moved, and how far its leading directions agree",
                               columns, COUNT(columns), &table, err));
    rs_table_show_first(table,
                        "path,stack,attention,layer,head,product,change_relative,overlap_left,"
                        "overlap_right,overlap_left_null,effective_rank_a,effective_rank_b,"
                        "effective_rank_ratio_change,change_effective_rank,moved");
    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < all[c].pairs.n; i++)
            if (all[c].pairs.items[i].a && all[c].pairs.items[i].b)
                RS_TRY(add_head(table, all[c].b->path, &all[c].pairs.items[i], err));
    return RS_OK;
}

/* ---- layers and summary: means over pairs ---- */

enum { RATIO, RANK, STABLE, NORM, BALANCE, MEANS };

/* What is summed over some pairs; afterwards means. */
typedef struct sums {
    int64_t heads, changed, measured, overlapping;
    double of[MEANS][3];
    double relative, most, left, left_null, left_spread, right, right_null, right_spread;
    int64_t most_layer, most_head;
} sums;

static void add_three(double out[3], double a, double b)
{
    out[0] += a;
    out[1] += b;
}

static void add_change(sums *s, const rs_product_pair *pair)
{
    const rs_change *c = &pair->change;
    if (pair->reason || isnan(c->relative)) return;
    s->measured++;
    s->changed += c->moved == RS_MOVED_CHANGED;
    s->relative += c->relative;
    if (!(c->relative > s->most) && s->measured > 1) return;
    s->most = c->relative;
    s->most_layer = pair->a->product->layer;
    s->most_head = pair->a->product->head;
}

static void add_overlap(sums *s, const rs_product_pair *pair)
{
    const rs_change *c = &pair->change;
    if (pair->reason || isnan(c->left.overlap) || isnan(c->right.overlap)) return;
    s->overlapping++;
    s->left += c->left.overlap;
    s->left_null += c->left.chance;
    s->left_spread += c->left.spread * c->left.spread;
    s->right += c->right.overlap;
    s->right_null += c->right.chance;
    s->right_spread += c->right.spread * c->right.spread;
}

static void add_pair(sums *s, const rs_product_pair *pair)
{
    const rs_head *a = pair->a, *b = pair->b;
    if (!a || !b) return;
    add_change(s, pair);
    add_overlap(s, pair);
    if (isnan(rs_compare_ratio(a)) || isnan(rs_compare_ratio(b))) return;
    s->heads++;
    add_three(s->of[RATIO], rs_compare_ratio(a), rs_compare_ratio(b));
    add_three(s->of[RANK], a->measures.effective_rank, b->measures.effective_rank);
    add_three(s->of[STABLE], a->measures.stable_rank, b->measures.stable_rank);
    add_three(s->of[NORM], a->measures.frobenius_norm, b->measures.frobenius_norm);
    add_three(s->of[BALANCE], a->pair.balance_score, b->pair.balance_score);
}

/* A mean's spread is that of one over the root of their number: the heads are told apart by chance. */
static void finish(sums *s)
{
    double heads = s->heads ? (double)s->heads : NAN,
           measured = s->measured ? (double)s->measured : NAN,
           over = s->overlapping ? (double)s->overlapping : NAN;
    for (size_t i = 0; i < MEANS; i++)
        rs_compare_set(s->of[i], s->of[i][0] / heads, s->of[i][1] / heads);
    s->relative /= measured;
    double *const means[] = {&s->left, &s->left_null, &s->right, &s->right_null};
    for (size_t i = 0; i < COUNT(means); i++)
        *means[i] /= over;
    s->left_spread = sqrt(s->left_spread) / over;
    s->right_spread = sqrt(s->right_spread) / over;
    if (s->measured) return;
    s->most = NAN;
    s->most_layer = s->most_head = s->changed = RS_NULL_INT;
}

/* A row of tables layers and summary. */
typedef struct mean_cells {
    const char *path;
    rs_scan_keys keys;
    sums s;
    double left_low, left_high;
} mean_cells;

#define THREE(index, name_, formula_)                                                              \
    {.name = name_ "_a", RS_CELL(mean_cells, s.of[index][0]), .formula = formula_ ", in A"},       \
        {.name = name_ "_b", RS_CELL(mean_cells, s.of[index][1]), .formula = formula_ ", in B"},   \
    {                                                                                              \
        .name = name_ "_change", RS_CELL(mean_cells, s.of[index][2]),                              \
        .formula = "the second minus the first"                                                    \
    }

static const rs_column mean_columns[] = {
    {.name = "heads",
     RS_CELL(mean_cells, s.heads),
     .formula = "products with a spectrum in A and in B"},
    THREE(RATIO, "effective_rank_ratio", "mean of effective_rank / effective_rank_null"),
    THREE(RANK, "effective_rank", "mean over the heads"),
    THREE(STABLE, "stable_rank", "mean over the heads"),
    THREE(NORM, "frobenius_norm", "mean over the heads"),
    THREE(BALANCE, "balance_score", "mean over the heads"),
    {.name = "changed",
     RS_CELL(mean_cells, s.changed),
     .formula = "products that moved further than rounding may move them"},
    {.name = "change_relative",
     RS_CELL(mean_cells, s.relative),
     .title = "relative change",
     .formula = "mean of ‖W_A − W_B‖_F / ‖W_A‖_F"},
    {.name = "change_relative_max",
     RS_CELL(mean_cells, s.most),
     .title = "largest relative change",
     .formula = "the largest of them"},
    {.name = "most_changed_layer",
     RS_CELL(mean_cells, s.most_layer),
     .formula = "layer of the largest relative change"},
    {.name = "most_changed_head", RS_CELL(mean_cells, s.most_head), .formula = "head of it"},
    {.name = "overlap_left",
     RS_CELL(mean_cells, s.left),
     .title = "overlap, left",
     .formula = "mean of ‖U_AᵀU_B‖_F² / k"},
    {.name = "overlap_right",
     RS_CELL(mean_cells, s.right),
     .title = "overlap, right",
     .formula = "mean of ‖V_AᵀV_B‖_F² / k"},
    {.name = "overlap_left_null",
     RS_CELL(mean_cells, s.left_null),
     .title = "overlap by chance",
     .provenance = "predicted",
     .formula = "mean of k/rows"},
    {.name = "overlap_right_null",
     RS_CELL(mean_cells, s.right_null),
     .provenance = "predicted",
     .formula = "mean of k/cols"},
    {.name = "overlap_left_spread",
     RS_CELL(mean_cells, s.left_spread),
     .provenance = "predicted",
     .formula = "standard deviation of overlap_left of random subspaces"},
    {.name = "overlap_right_spread",
     RS_CELL(mean_cells, s.right_spread),
     .provenance = "predicted",
     .formula = "the same on the right"},
};
static const rs_column layer_keys[] = {
    RS_COMPARE_PATH(mean_cells),
    {.name = "stack", RS_CELL(mean_cells, keys.stack)},
    {.name = "attention", RS_CELL(mean_cells, keys.attention)},
    {.name = "layer", RS_CELL(mean_cells, keys.layer), .formula = "from 0"},
    {.name = "product", RS_CELL(mean_cells, keys.product)},
};
static const rs_column layer_tail[] = {
    {.name = "overlap_low",
     RS_CELL(mean_cells, left_low),
     .provenance = "predicted",
     .formula = "overlap_left_null − 2 overlap_left_spread"},
    {.name = "overlap_high",
     RS_CELL(mean_cells, left_high),
     .provenance = "predicted",
     .formula = "overlap_left_null + 2 overlap_left_spread"},
};
static const rs_column summary_keys[] = {
    RS_COMPARE_PATH(mean_cells),
    {.name = "stack", RS_CELL(mean_cells, keys.stack)},
    {.name = "attention", RS_CELL(mean_cells, keys.attention)},
    {.name = "product", RS_CELL(mean_cells, keys.product)},
};
const rs_table_kind rs_compare_layers_kind = {"compare",
                                              "layers",
                                              {RS_PART(layer_keys), RS_PART(mean_columns),
                                               RS_PART(layer_tail)}},
                    rs_compare_summary_kind = {
                        "compare", "summary", {RS_PART(summary_keys), RS_PART(mean_columns)}};

static rs_status add_means(rs_table *table, const rs_comparison *c, size_t first, bool by_layer,
                           rs_error *err)
{
    const rs_product *p = c->pairs.items[first].a->product;
    mean_cells cells = {.path = c->b->path, .keys = rs_scan_keys_of(p, p->head)};
    for (size_t i = first; i < c->pairs.n; i++) {
        const rs_product_pair *pair = &c->pairs.items[i];
        if (!pair->a) continue;
        bool here =
            by_layer ? rs_same_cell(p, pair->a->product) : rs_same_kind(p, pair->a->product);
        if (here) add_pair(&cells.s, pair);
    }
    finish(&cells.s);
    cells.left_low = fmax(cells.s.left_null - 2 * cells.s.left_spread, 0);
    cells.left_high = cells.s.left_null + 2 * cells.s.left_spread;
    if (isnan(cells.s.left_null)) cells.left_low = NAN;
    return rs_table_append(table, &cells, err);
}

/* A row for each kind of product that both have; with by_layer, of each layer. */
static rs_status add_all_means(rs_table *table, const rs_comparison *c, bool by_layer,
                               rs_error *err)
{
    const rs_product_pair *pairs = c->pairs.items;
    for (size_t i = 0; i < c->pairs.n; i++) {
        bool seen = !pairs[i].a || !pairs[i].b;
        for (size_t j = i; j-- > 0 && !seen;) {
            if (!pairs[j].b) continue;
            const rs_product *p = pairs[i].a->product, *q = pairs[j].a->product;
            seen = by_layer ? rs_same_cell(p, q) : rs_same_kind(p, q);
        }
        if (!seen) RS_TRY(add_means(table, c, i, by_layer, err));
    }
    return RS_OK;
}

static rs_status mean_tables(rs_result *result, const rs_comparison *all, size_t n, rs_error *err)
{
    rs_column columns[COUNT(layer_keys) + COUNT(mean_columns) + COUNT(layer_tail)], *end;
    rs_table *summary, *layers;
    end = rs_columns_within(columns, summary_keys, COUNT(summary_keys), 0);
    end = rs_columns_within(end, mean_columns, COUNT(mean_columns), 0);
    RS_TRY(rs_result_add_table(result, "summary", "Summary",
                               "Each kind of product over all layers and heads that both have",
                               columns, (size_t)(end - columns), &summary, err));
    rs_table_show_first(summary,
                        "path,stack,attention,product,heads,effective_rank_ratio_a,"
                        "effective_rank_ratio_b,changed,change_relative,"
                        "change_relative_max,overlap_left,overlap_right,overlap_left_null");
    end = rs_columns_within(columns, layer_keys, COUNT(layer_keys), 0);
    end = rs_columns_within(end, mean_columns, COUNT(mean_columns), 0);
    end = rs_columns_within(end, layer_tail, COUNT(layer_tail), 0);
    RS_TRY(rs_result_add_table(result, "layers", "Layers",
                               "Each layer and product: means over the heads that both have",
                               columns, (size_t)(end - columns), &layers, err));
    rs_table_show_first(layers, "path,stack,attention,layer,product,heads,effective_rank_ratio_a,"
                                "effective_rank_ratio_b,change_relative,overlap_left,overlap_right,"
                                "overlap_left_null");
    for (size_t c = 0; c < n; c++) {
        RS_TRY(add_all_means(summary, &all[c], false, err));
        RS_TRY(add_all_means(layers, &all[c], true, err));
    }
    return RS_OK;
}

/* ---- what is not compared ---- */

/* A row of table not_compared. */
typedef struct missing_cells {
    const char *path, *which;
    rs_scan_keys keys;
    int64_t heads;
    const char *reason;
} missing_cells;

static const rs_column missing_columns[] = {
    RS_COMPARE_PATH(missing_cells),
    {.name = "which",
     RS_CELL(missing_cells, which),
     .formula = "whose products they are: a, b or both"},
    {.name = "stack", RS_CELL(missing_cells, keys.stack)},
    {.name = "attention", RS_CELL(missing_cells, keys.attention)},
    {.name = "layer", RS_CELL(missing_cells, keys.layer), .formula = "from 0"},
    {.name = "product", RS_CELL(missing_cells, keys.product)},
    {.name = "heads", RS_CELL(missing_cells, heads), .formula = "products of this layer and kind"},
    {.name = "reason", RS_CELL(missing_cells, reason), .formula = "why they are not compared"},
};
const rs_table_kind rs_compare_missing_kind = {
    "compare", "not_compared", {RS_PART(missing_columns)}};

static const rs_product *product_of(const rs_product_pair *pair)
{
    return pair->a ? pair->a->product : pair->b->product;
}

static rs_status add_missing(rs_table *table, const rs_comparison *c, rs_error *err)
{
    const rs_product_pair *pairs = c->pairs.items;
    for (size_t i = 0, n; i < c->pairs.n; i += n) {
        const rs_product *p = product_of(&pairs[i]);
        n = 1;
        if (!pairs[i].reason) continue;
        while (i + n < c->pairs.n && pairs[i + n].reason == pairs[i].reason &&
               rs_same_cell(p, product_of(&pairs[i + n])))
            n++;
        const missing_cells cells = {.path = c->b->path,
                                     .which = !pairs[i].b   ? "a"
                                              : !pairs[i].a ? "b"
                                                            : "both",
                                     .keys = rs_scan_keys_of(p, p->head),
                                     .heads = (int64_t)n,
                                     .reason = pairs[i].reason};
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

static rs_status missing_table(rs_result *result, const rs_comparison *all, size_t n, rs_error *err)
{
    bool any = false;
    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < all[c].pairs.n; i++)
            any |= all[c].pairs.items[i].reason != NULL;
    if (!any) return RS_OK;
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "not_compared", "Not compared",
                               "Products without a counterpart of their shape, and why",
                               missing_columns, COUNT(missing_columns), &table, err));
    rs_table_show_first(table, "path,which,stack,attention,layer,product,heads,reason");
    for (size_t c = 0; c < n; c++)
        RS_TRY(add_missing(table, &all[c], err));
    return RS_OK;
}

/* ---- models ---- */

/* A row of table models. */
typedef struct model_cells {
    const char *path, *family, *dtype;
    int64_t layers, d_model, heads, kv_heads, d_head, parameters, products;
    const char *verdict;
} model_cells;

static const rs_column model_columns[] = {
    {.name = "path",
     RS_CELL(model_cells, path),
     .formula = "A, the first, and behind it those that are compared with it"},
    {.name = "family", RS_CELL(model_cells, family)},
    {.name = "dtype", RS_CELL(model_cells, dtype), .formula = "type of most stored numbers"},
    {.name = "layers", RS_CELL(model_cells, layers)},
    {.name = "d_model", RS_CELL(model_cells, d_model)},
    {.name = "heads", RS_CELL(model_cells, heads)},
    {.name = "kv_heads", RS_CELL(model_cells, kv_heads)},
    {.name = "d_head", RS_CELL(model_cells, d_head)},
    {.name = "parameters", RS_CELL(model_cells, parameters)},
    {.name = "products", RS_CELL(model_cells, products), .formula = "products that scan measures"},
    {.name = "verdict", RS_CELL(model_cells, verdict), .formula = "what scan says of it by itself"},
};
const rs_table_kind rs_compare_models_kind = {"compare", "models", {RS_PART(model_columns)}};

static rs_status add_model(rs_table *table, const rs_compared *c, rs_error *err)
{
    const rs_model *m = c->model;
    const rs_verdict *verdict = rs_result_verdict(c->scan);
    const model_cells cells = {.path = c->path,
                               .family = m->family,
                               .dtype = m->stored.dtype,
                               .layers = m->layers,
                               .d_model = m->d_model,
                               .heads = m->heads,
                               .kv_heads = m->kv_heads,
                               .d_head = m->d_head,
                               .parameters = (int64_t)m->stored.parameters,
                               .products = (int64_t)c->heads->n,
                               .verdict = verdict ? verdict->answer : NULL};
    return rs_table_append(table, &cells, err);
}

static rs_status model_table(rs_result *result, const rs_comparison *all, size_t n, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "models", "Models", "What is compared", model_columns,
                               COUNT(model_columns), &table, err));
    RS_TRY(add_model(table, all[0].a, err));
    for (size_t c = 0; c < n; c++)
        RS_TRY(add_model(table, all[c].b, err));
    return RS_OK;
}

rs_status rs_compare_tables(rs_result *result, const rs_comparison *all, size_t n, rs_error *err)
{
    RS_TRY(mean_tables(result, all, n, err));
    RS_TRY(model_table(result, all, n, err));
    RS_TRY(head_table(result, all, n, err));
    return missing_table(result, all, n, err);
}
