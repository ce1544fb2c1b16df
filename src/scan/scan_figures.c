/* scan_figures.c: the figures of a scan and the two tables that exist for them: spectra (curves by
 * layer) and balance (units). */
#include "report/figures.h"
#include "scan/scan.h"

#include <math.h>

enum { MOST_POINTS = 64, MOST_UNITS = 4000 };

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *const cell_keys[] = {"stack", "attention", "layer", "product"};
static const char *const head_keys[] = {"stack", "attention", "layer", "head", "product"};
static const char *const kind_facets[] = {"product", "stack", "attention"};

/* ---- spectra: σ_i/σ₁ of each layer and product, over its heads ---- */

/* A row of table spectra. */
typedef struct spectra_cells {
    rs_scan_keys keys;
    int64_t index;
    double mean, least, most, null_low, null_high;
} spectra_cells;

static const rs_column spectra_columns[] = {
    {.name = "stack", RS_CELL(spectra_cells, keys.stack)},
    {.name = "attention", RS_CELL(spectra_cells, keys.attention)},
    {.name = "layer", RS_CELL(spectra_cells, keys.layer)},
    {.name = "product", RS_CELL(spectra_cells, keys.product)},
    {.name = "index",
     RS_CELL(spectra_cells, index),
     .formula = "i, from 1; long spectra are thinned to 64 points"},
    {.name = "sigma_normalised",
     RS_CELL(spectra_cells, mean),
     .title = "σ_i / σ₁",
     .formula = "mean over the layer's heads of σ_i / σ₁"},
    {.name = "least", RS_CELL(spectra_cells, least), .formula = "least over the heads"},
    {.name = "most", RS_CELL(spectra_cells, most), .formula = "largest over the heads"},
    {.name = "null_low",
     RS_CELL(spectra_cells, null_low),
     .provenance = "predicted",
     .formula = "5 % quantile of σ_i / σ₁ over random Gaussian factors of this shape"},
    {.name = "null_high",
     RS_CELL(spectra_cells, null_high),
     .provenance = "predicted",
     .formula = "95 % quantile of the same"},
};
const rs_table_kind rs_scan_spectra_kind = {"scan", "spectra", {RS_PART(spectra_columns)}};

/* The band has null->k points (fewer than k beyond 512): the one at the same relative place. */
static double band_at(const rs_null_model *null, const double *band, int64_t i, int64_t k)
{
    if (null->k == 0) return NAN;
    int64_t j = k > 1 ? i * (null->k - 1) / (k - 1) : 0;
    return band[j];
}

static rs_status add_point(rs_table *table, const rs_head *heads, size_t n, int64_t i,
                           rs_error *err)
{
    double sum = 0, least = INFINITY, most = 0;
    size_t count = 0;
    for (size_t h = 0; h < n; h++) {
        if (!heads[h].sigma || i >= heads[h].k || !(heads[h].sigma[0] > 0)) continue;
        double value = heads[h].sigma[i] / heads[h].sigma[0];
        sum += value;
        least = fmin(least, value);
        most = fmax(most, value);
        count++;
    }
    if (count == 0) return RS_OK;
    const spectra_cells cells = {
        .keys = rs_scan_keys_of(heads->product, heads->product->head),
        .index = i + 1,
        .mean = sum / (double)count,
        .least = least,
        .most = most,
        .null_low = band_at(heads->null, heads->null->band_low, i, heads->k),
        .null_high = band_at(heads->null, heads->null->band_high, i, heads->k)};
    return rs_table_append(table, &cells, err);
}

static rs_status add_curve(rs_table *table, const rs_head *heads, size_t n, rs_error *err)
{
    int64_t k = heads->k, points = k < MOST_POINTS ? k : MOST_POINTS;
    for (int64_t j = 0; j < points; j++)
        RS_TRY(add_point(table, heads, n, points > 1 ? j * (k - 1) / (points - 1) : 0, err));
    return RS_OK;
}

static rs_status spectra_table(rs_result *result, const rs_heads *heads, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "spectra", "Spectra by layer",
                               "Singular values relative to the largest, over a layer's heads",
                               spectra_columns, COUNT(spectra_columns), &table, err));
    for (size_t i = 0; i < heads->n;) {
        size_t n = 1;
        while (i + n < heads->n &&
               rs_same_cell(heads->items[i].product, heads->items[i + n].product))
            n++;
        RS_TRY(add_curve(table, heads->items + i, n, err));
        i += n;
    }
    return RS_OK;
}

/* ---- balance: ‖a_i‖² against ‖b_i‖² of single head units ---- */

/* A row of table balance. */
typedef struct balance_cells {
    rs_scan_keys keys;
    int64_t unit;
    double norm_a, norm_b, null_low, null_high;
} balance_cells;

static const rs_column balance_columns[] = {
    {.name = "stack", RS_CELL(balance_cells, keys.stack)},
    {.name = "attention", RS_CELL(balance_cells, keys.attention)},
    {.name = "layer", RS_CELL(balance_cells, keys.layer)},
    {.name = "head", RS_CELL(balance_cells, keys.head)},
    {.name = "product", RS_CELL(balance_cells, keys.product)},
    {.name = "unit", RS_CELL(balance_cells, unit), .formula = "unit of the head, from 0"},
    {.name = "norm_a",
     RS_CELL(balance_cells, norm_a),
     .title = "‖a_i‖²",
     .formula = "squared norm of unit i in W_Q (qk) or W_V (ov)"},
    {.name = "norm_b",
     RS_CELL(balance_cells, norm_b),
     .title = "‖b_i‖²",
     .formula = "squared norm of unit i in W_K (qk) or W_O (ov)"},
    {.name = "null_low",
     RS_CELL(balance_cells, null_low),
     .provenance = "predicted",
     .formula = "norm_a (1 − 1.96 sqrt(2/rows + 2/cols)): below this random factors of equal scale "
                "fall in 2.5 % of cases"},
    {.name = "null_high",
     RS_CELL(balance_cells, null_high),
     .provenance = "predicted",
     .formula = "norm_a (1 + 1.96 sqrt(2/rows + 2/cols))"},
};
const rs_table_kind rs_scan_balance_kind = {"scan", "balance", {RS_PART(balance_columns)}};

static rs_status add_unit(rs_table *table, const rs_head *head, int64_t unit, rs_error *err)
{
    const rs_product *p = head->product;
    double a = head->norms_a[unit], b = head->norms_b[unit];
    double spread = 1.96 * sqrt(2.0 / (double)head->rows + 2.0 / (double)head->cols);
    const balance_cells cells = {.keys = rs_scan_keys_of(p, p->head),
                                 .unit = unit,
                                 .norm_a = a,
                                 .norm_b = b,
                                 .null_low = spread < 1 ? a * (1 - spread) : NAN,
                                 .null_high = a * (1 + spread)};
    return rs_table_append(table, &cells, err);
}

/* Every unit of small models; of large ones an even choice of about MOST_UNITS. */
static rs_status balance_table(rs_result *result, const rs_heads *heads, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "balance", "Balance of the factors",
                               "Squared norms of single head units in the two factors (an even "
                               "choice of about 4000 in large models)",
                               balance_columns, COUNT(balance_columns), &table, err));
    int64_t total = 0, seen = 0;
    for (size_t i = 0; i < heads->n; i++)
        total += heads->items[i].sigma ? heads->items[i].inner : 0;
    int64_t step = total / MOST_UNITS + 1;
    for (size_t i = 0; i < heads->n; i++)
        for (int64_t unit = 0; heads->items[i].sigma && unit < heads->items[i].inner; unit++)
            if (seen++ % step == 0) RS_TRY(add_unit(table, &heads->items[i], unit, err));
    return RS_OK;
}

/* ---- the figures ---- */

static const rs_figure_field heat_measures[] = {
    {"effective_rank_ratio", "effective rank, of chance"},
    {"effective_rank", "effective rank"},
    {"stable_rank", "stable rank"},
    {"participation_ratio", "participation ratio"},
    {"energy_rank", "energy rank (95 %)"},
    {"pseudo_rank", "pseudo-rank (95 % of mass)"},
    {"numerical_rank", "numerical rank"},
    {"nuclear_excess", "nuclear excess"},
    {"balance_score", "balance score"},
    {"spectral_norm", "spectral norm"},
    {"frobenius_norm", "Frobenius norm"},
    {"condition", "condition"},
};

static rs_status heatmap(rs_result *result, const rs_heads *heads, rs_error *err)
{
    int32_t most_head = 0, least_layer = INT32_MAX, most_layer = 0;
    for (size_t i = 0; i < heads->n; i++) {
        const rs_product *p = heads->items[i].product;
        if (p->head > most_head) most_head = p->head;
        if (p->layer > most_layer) most_layer = p->layer;
        if (p->layer < least_layer) least_layer = p->layer;
    }
    rs_heatmap map = {.table = "heads",
                      .x = {"head", "head"},
                      .y = {"layer", "layer"},
                      .measures = heat_measures,
                      .n_measures = COUNT(heat_measures),
                      .facets = {kind_facets, COUNT(kind_facets)},
                      .keys = {head_keys, COUNT(head_keys)},
                      .n_x = (size_t)most_head + 1,
                      .n_y = (size_t)(most_layer - least_layer) + 1};
    return rs_result_add_figure(result, "heads", "Every head at a glance",
                                "One cell a head; choose the measure. 'Of chance' compares with "
                                "random weights of the same shape: "
                                "well below 1 the head has lost rank.",
                                rs_figure_heatmap(&map), err);
}

static rs_status curves(rs_result *result, rs_error *err)
{
    static const char *const layers[] = {"stack", "attention", "layer"};
    rs_plot plot = rs_figure_spectrum_curves("spectra", (rs_figure_names){layers, COUNT(layers)},
                                             (rs_figure_names){cell_keys, COUNT(cell_keys)},
                                             (rs_figure_field){"product", "product"});
    plot.of.lines.y.title = "σ_i / σ₁"; /* of all heads: the text below says so */
    plot.of.lines.y_floor = 0;
    return rs_result_add_figure(result, "spectra", "Singular values by layer",
                                "One panel a layer, one line a product: singular values relative "
                                "to the largest, mean over the layer's heads. The grey bands are "
                                "what random weights of the same shapes give; a curve that falls "
                                "away below its band has lost directions.",
                                plot, err);
}

static rs_status scatter(rs_result *result, rs_error *err)
{
    rs_scatter points = {.table = "balance",
                         .x = {"norm_a", "‖a_i‖² (query or value unit)"},
                         .y = {"norm_b", "‖b_i‖² (key or output unit)"},
                         .low = {"null_low", "chance, 2.5 %"},
                         .high = {"null_high", "chance, 97.5 %"},
                         .band_label = "chance, 95 % of units",
                         .colour = {"layer", "layer"},
                         .facets = {kind_facets, COUNT(kind_facets)},
                         .keys = {head_keys, COUNT(head_keys)},
                         .log_x = true,
                         .log_y = true,
                         .diagonal = true};
    return rs_result_add_figure(result, "balance", "Are the two factors balanced?",
                                "Weight decay drives the units of both factors to equal norms (the "
                                "diagonal). Points inside the "
                                "band prove nothing: random factors of equal scale lie there too.",
                                rs_figure_scatter(&points), err);
}

rs_status rs_scan_figures(rs_result *result, const rs_heads *heads, rs_error *err)
{
    RS_TRY(spectra_table(result, heads, err));
    RS_TRY(balance_table(result, heads, err));
    RS_TRY(heatmap(result, heads, err));
    RS_TRY(curves(result, err));
    return scatter(result, err);
}
