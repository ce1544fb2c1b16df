/* compare_figures.c: ranks and overlaps by layer, every head at a glance, the tokens. */
#include "compare/compare_parts.h"
#include "report/figures.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *const facets[] = {"product", "stack", "attention", "path"};
static const char *const layer_keys[] = {"path", "stack", "attention", "layer", "product"};
static const char *const head_keys[] = {"path", "stack", "attention", "layer", "head", "product"};

static rs_status ranks(rs_result *result, rs_error *err)
{
    const rs_lines lines = {.table = "layers",
                            .x = {"layer", "layer"},
                            .y = {"effective_rank_ratio_a", "effective rank, of chance"},
                            .first = "A",
                            .more = {{.field = "effective_rank_ratio_b", .title = "B"}},
                            .facets = {facets, COUNT(facets)},
                            .keys = {layer_keys, COUNT(layer_keys)},
                            .x_whole = true,
                            .y_rule = 1,
                            .y_rule_label = "chance"};
    return rs_result_add_figure(
        result, "ranks", "Effective rank by layer, in A and in B",
        "Mean over the heads that both have, as a part of what random weights "
        "of the same shape have.",
        rs_figure_lines(&lines), err);
}

static rs_status overlaps(rs_result *result, rs_error *err)
{
    const rs_lines lines = {.table = "layers",
                            .x = {"layer", "layer"},
                            .y = {"overlap_left", "overlap of leading directions"},
                            .low = {"overlap_low", "chance, low"},
                            .high = {"overlap_high", "chance, high"},
                            .band_label = "chance on the left, 2 standard deviations",
                            .first = "left",
                            .more = {{.field = "overlap_right", .title = "right"}},
                            .facets = {facets, COUNT(facets)},
                            .keys = {layer_keys, COUNT(layer_keys)},
                            .x_whole = true};
    return rs_result_add_figure(
        result, "overlaps", "Do the leading directions stay?",
        "Mean squared cosine between the leading singular subspaces of A and "
        "of B: 1 where they are the same, in the band where they agree as "
        "random ones do.",
        rs_figure_lines(&lines), err);
}

static const rs_figure_field heat_measures[] = {
    {"change_relative", "relative change"},
    {"effective_rank_ratio_change", "change of effective rank, of chance"},
    {"effective_rank_change", "change of effective rank"},
    {"overlap_left", "overlap, left"},
    {"overlap_right", "overlap, right"},
    {"change_effective_rank", "effective rank of the change"},
    {"frobenius_norm_change", "change of the Frobenius norm"},
    {"nuclear_excess_change", "change of the nuclear excess"},
    {"balance_score_change", "change of the balance score"},
};

static rs_status heads(rs_result *result, const rs_comparison *all, size_t n, rs_error *err)
{
    int32_t most_head = 0, most_layer = 0;
    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < all[c].pairs.n; i++) {
            if (!all[c].pairs.items[i].a) continue;
            const rs_product *p = all[c].pairs.items[i].a->product;
            if (p->head > most_head) most_head = p->head;
            if (p->layer > most_layer) most_layer = p->layer;
        }
    const rs_heatmap map = {.table = "heads",
                            .x = {"head", "head"},
                            .y = {"layer", "layer"},
                            .measures = heat_measures,
                            .n_measures = COUNT(heat_measures),
                            .facets = {facets, COUNT(facets)},
                            .keys = {head_keys, COUNT(head_keys)},
                            .n_x = (size_t)most_head + 1,
                            .n_y = (size_t)most_layer + 1};
    return rs_result_add_figure(result, "heads", "What changed, head by head",
                                "One cell a head; choose the measure. Grey where nothing could be "
                                "measured: table heads says why.",
                                rs_figure_heatmap(&map), err);
}

static rs_status tokens(rs_result *result, rs_error *err)
{
    static const char *const token_facets[] = {"site", "path"};
    static const char *const token_keys[] = {"path", "site", "layer"};
    const rs_lines lines = {.table = "tokens",
                            .x = {"layer", "state"},
                            .y = {"relative_residual_a", "relative residual"},
                            .first = "A",
                            .more = {{.field = "relative_residual_b", .title = "B"}},
                            .facets = {token_facets, COUNT(token_facets)},
                            .keys = {token_keys, COUNT(token_keys)},
                            .log_y = true,
                            .x_whole = true};
    return rs_result_add_figure(
        result, "tokens", "Do the tokens stay apart, in A and in B?",
        "Relative residual of each state: 0 when all tokens of a sample are "
        "the same vector.",
        rs_figure_lines(&lines), err);
}

/* A terminal draws the ranks, where one pair of curves says it all. */
static void curve(rs_result *result, const rs_comparison *all, size_t n)
{
    static const rs_curve ranks_of_qk = {
        .table = "layers",
        .title = "effective rank of query-key products, of chance, by layer",
        .x = "layer",
        .x_title = "layer",
        .y = {{.column = "effective_rank_ratio_a", .label = "A"},
              {.column = "effective_rank_ratio_b", .label = "B"}},
        .only = "product",
        .only_text = "qk"};
    bool plain = n == 1;
    for (size_t i = 0; i < all[0].pairs.n; i++) {
        const rs_product_pair *pair = &all[0].pairs.items[i];
        plain = plain && (!pair->a || (!pair->a->product->stack));
    }
    if (plain) rs_result_show_curve(result, &ranks_of_qk);
}

rs_status rs_compare_figures(rs_result *result, const rs_comparison *all, size_t n, rs_error *err)
{
    bool any = false;
    for (size_t c = 0; c < n; c++)
        any |= all[c].pairs.both > 0;
    if (any) {
        RS_TRY(ranks(result, err));
        RS_TRY(overlaps(result, err));
        RS_TRY(heads(result, all, n, err));
        curve(result, all, n);
    }
    return rs_result_table(result, "tokens") ? tokens(result, err) : RS_OK;
}
