/* probe_figures.c: the figures of a probe. */
#include "observe/store.h"
#include "probe/probe_parts.h"
#include "report/figures.h"

#include <math.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *const token_keys[] = {"variant", "site"};
static const char *const head_keys[] = {"variant", "layer", "head"};

/* The terminal's curves: the states behind whole blocks. */
static void show_curve(rs_result *result, const char *column, const char *title, double floor)
{
    rs_result_show_curve(result, &(rs_curve){.table = "tokens",
                                             .title = title,
                                             .x = "layer",
                                             .x_title = "state (0 enters the first block)",
                                             .y = {{.column = column}},
                                             .series = "variant",
                                             .only = "site",
                                             .only_text = "block_out",
                                             .floor = floor});
}

/* Where there is no floor the logarithms are drawn: they go where no double does. */
static rs_status logarithms(rs_result *result, rs_error *err)
{
    static const char *const facets[] = {"site"};
    rs_lines lines = {.table = "tokens",
                      .x = {"layer", "layers passed"},
                      .y = {"log10_relative_residual", "log10 of the relative residual"},
                      .low = {"log10_relative_residual_min", NULL},
                      .high = {"log10_relative_residual_max", NULL},
                      .colour = {"variant", "variant"},
                      .x_whole = true,
                      .facets = {facets, COUNT(facets)},
                      .keys = {token_keys, COUNT(token_keys)}};
    show_curve(result, "log10_relative_residual", "log10 of the relative residual", 0);
    return rs_result_add_figure(
        result, "residual", "How the tokens draw together, layer by layer",
        "log10 of the tokens' relative residual, mean over the samples; the band reaches from the "
        "least sample to the largest. A straight line down is exponential collapse, one that bends "
        "down ever more steeply, its height tripling from layer to layer, is doubly exponential.",
        rs_figure_lines(&lines), err);
}

static rs_status residuals(rs_result *result, double floor, rs_error *err)
{
    static const char *const facets[] = {"site"};
    if (isnan(floor)) return logarithms(result, err);
    rs_lines lines = {.table = "tokens",
                      .x = {"layer", "layers passed"},
                      .y = {"relative_residual", "relative residual ‖R‖/‖X‖ (0: all tokens equal)"},
                      .low = {"relative_residual_min", NULL},
                      .high = {"relative_residual_max", NULL},
                      .colour = {"variant", "variant"},
                      .x_whole = true,
                      .facets = {facets, COUNT(facets)},
                      .keys = {token_keys, COUNT(token_keys)},
                      .log_y = true,
                      .y_floor = floor / 100,
                      .y_rule = floor,
                      .y_rule_label = "rounding floor"};
    show_curve(result, "relative_residual", "Relative residual of the tokens", floor / 100);
    return rs_result_add_figure(
        result, "residual", "How the tokens draw together, layer by layer",
        "Relative residual of the tokens, mean over the samples; the band reaches from the least "
        "sample to the largest. A straight line down is exponential collapse, one that bends down "
        "is doubly exponential. At the dashed line the pass cannot tell the tokens apart.",
        rs_figure_lines(&lines), err);
}

static const rs_figure_field heat_measures[] = {
    {"spectral_gap", "spectral gap"},
    {"entropy_ratio", "entropy, of its maximum"},
    {"entropy", "entropy (nats)"},
    {"first_token_weight", "weight on the first token"},
    {"self_weight", "weight on itself"},
    {"lambda2", "|λ₂|"},
    {"sigma2", "σ₂"},
    {"sigma1", "σ₁"},
    {"dobrushin", "Dobrushin coefficient"},
    {"distance_to_uniform", "distance to uniform"},
    {"logit_variance", "logit variance"},
    {"centred_norm_squared", "‖PA‖₂²"},
};

static rs_status head_map(rs_result *result, const rs_probed *variants, size_t n, rs_error *err)
{
    static const char *const facets[] = {"variant"};
    int32_t most_head = 0, most_layer = 0;
    for (size_t v = 0; v < n; v++)
        for (size_t i = 0; i < variants[v].measured->n_attention; i++) {
            const rs_attention_row *row = &variants[v].measured->attention[i];
            if (row->head > most_head) most_head = row->head;
            if (row->layer > most_layer) most_layer = row->layer;
        }
    rs_heatmap map = {.table = "attention",
                      .x = {"head", "head"},
                      .y = {"layer", "layer"},
                      .measures = heat_measures,
                      .n_measures = COUNT(heat_measures),
                      .facets = {facets, COUNT(facets)},
                      .keys = {head_keys, COUNT(head_keys)},
                      .n_x = (size_t)most_head + 1,
                      .n_y = (size_t)most_layer + 1};
    return rs_result_add_figure(result, "attention", "Every head's mixing at a glance",
                                "One cell a head; choose the measure. A spectral gap near 1 or an "
                                "entropy near its maximum averages the tokens; a gap near 0 leaves "
                                "some direction alone.",
                                rs_figure_heatmap(&map), err);
}

static rs_status matrices(rs_result *result, const rs_table *table, rs_error *err)
{
    static const rs_figure_field measures[] = {{"weight", "weight"}};
    static const char *const keys[] = {"variant", "layer", "head", "query", "key"};
    static const char *const facets[] = {"variant", "layer", "head"};
    size_t n = 1;
    for (size_t row = 0; row < rs_table_rows(table); row++)
        if ((size_t)rs_table_int(table, row, 3) + 1 > n)
            n = (size_t)rs_table_int(table, row, 3) + 1;
    rs_heatmap map = {.table = "attention_maps",
                      .x = {"key", "key"},
                      .y = {"query", "query"},
                      .measures = measures,
                      .n_measures = 1,
                      .facets = {facets, COUNT(facets)},
                      .keys = {keys, COUNT(keys)},
                      .n_x = n,
                      .n_y = n};
    return rs_result_add_figure(result, "attention_maps", "Attention matrices",
                                "Each panel is one head (variant, layer, head) on the first "
                                "sample: rows are queries, columns the keys they take from.",
                                rs_figure_heatmap(&map), err);
}

rs_status rs_probe_figures(rs_result *result, const rs_probed *variants, size_t n,
                           const rs_probe_options *options, rs_error *err)
{
    if (options->measure.tokens) RS_TRY(residuals(result, variants[0].measured->floor, err));
    const rs_table *heads = rs_result_table(result, "attention");
    if (heads && rs_table_rows(heads) > 0) RS_TRY(head_map(result, variants, n, err));
    const rs_table *table = rs_result_table(result, "attention_maps");
    return table ? matrices(result, table, err) : RS_OK;
}
