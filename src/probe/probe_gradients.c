/* probe_gradients.c: tables gradients and gradient_ratios (docs/probe.md, Gradients). */
#include "probe/probe_parts.h"

#include "report/figures.h"

#include <math.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- gradients ---- */

/* A row of table gradients. */
typedef struct gradient_cells {
    const char *variant, *parameter;
    rs_gradient_row of;
} gradient_cells;

static const rs_column gradient_columns[] = {
    {.name = "variant", RS_CELL(gradient_cells, variant)},
    {.name = "layer",
     RS_CELL(gradient_cells, of.layer),
     .formula = "block, from 0; null: outside of the blocks, or (parameter ends in .sum) the sum "
                "over the places that use one tensor"},
    {.name = "head",
     RS_CELL(gradient_cells, of.head),
     .formula = "from 0, of keys and values the key head; null: the whole parameter"},
    {.name = "parameter",
     RS_CELL(gradient_cells, parameter),
     .formula = "the branch (mixer, mlp, cross) or end (embedding, final, head), its weight, and "
                "which tensor of it: mixer.q.weight, mixer.before.gain, mlp.up.bias; mixer.skip "
                "and mixer.scale are the branch's λ and α"},
    {.name = "norm",
     RS_CELL(gradient_cells, of.norm),
     .formula = "‖∂loss/∂W‖_F, W as it is decoded, in front of what a configuration multiplies it "
                "by"},
    {.name = "rms", RS_CELL(gradient_cells, of.rms), .formula = "norm / sqrt(number of entries)"},
    {.name = "relative",
     RS_CELL(gradient_cells, of.relative),
     .formula = "norm / ‖W‖_F; null where W is 0"},
    {.name = "log10_norm",
     RS_CELL(gradient_cells, of.log10_norm),
     .title = "log10 of the norm",
     .formula = "null where the norm is 0"},
    {.name = "at_floor",
     RS_CELL(gradient_cells, of.at_floor),
     .formula = "of attention's queries and keys: norm <= floor; null: no floor is formed"},
    {.name = "uses",
     RS_CELL(gradient_cells, of.uses),
     .formula = "places of the network that use the tensor"},
    {.name = "floor",
     RS_CELL(gradient_cells, of.floor),
     .formula = "the norm that rounding may give queries and keys: 8 u s |k||v| times the values' "
                "own (keys: |q||v|), u the unit roundoff, s the scale of the logits, lengths those "
                "of the first tokens; in the residual precision, where nothing is subtracted, "
                "8 (u + the share of the tokens' residual that may be rounding) times norm"},
    {.name = "log10_floor",
     RS_CELL(gradient_cells, of.log10_floor),
     .title = "log10 of the floor",
     .formula = "null where there is none, or it is 0"},
    {.name = "log10_rms",
     RS_CELL(gradient_cells, of.log10_rms),
     .title = "log10 of rms",
     .formula = "null where it is 0"},
    {.name = "log10_relative",
     RS_CELL(gradient_cells, of.log10_relative),
     .title = "log10 of relative",
     .formula = "null where it is 0 or there is none"},
};
const rs_table_kind rs_probe_gradients_kind = {"probe", "gradients", {RS_PART(gradient_columns)}};

static rs_status gradients(rs_result *result, const rs_probed *variants, size_t n, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "gradients", "Gradients",
                               "How large the loss's derivative by each parameter is: what can "
                               "learn, and what cannot",
                               gradient_columns, COUNT(gradient_columns), &table, err));
    for (size_t v = 0; v < n; v++) {
        const rs_graded *graded = variants[v].measured->graded;
        for (size_t i = 0; graded && i < graded->n; i++) {
            const gradient_cells cells = {variants[v].name, graded->rows[i].parameter,
                                          graded->rows[i]};
            RS_TRY(rs_table_append(table, &cells, err));
        }
    }
    rs_table_show_first(table, "variant,layer,head,parameter,norm,relative,at_floor");
    return RS_OK;
}

/* ---- ratios ---- */

/* A row of table gradient_ratios. */
typedef struct ratio_cells {
    const char *variant;
    int32_t layer;
    double q_v, k_v;
    double log10_q, log10_k, log10_v;
    double log10_q_v, log10_k_v;
} ratio_cells;

static const rs_column ratio_columns[] = {
    {.name = "variant", RS_CELL(ratio_cells, variant)},
    {.name = "layer", RS_CELL(ratio_cells, layer), .formula = "block, from 0"},
    {.name = "ratio_gQ_gV",
     RS_CELL(ratio_cells, q_v),
     .title = "gQ/gV",
     .formula = "gQ/gV, gX the squared Frobenius norm of the loss's derivative by the mixer's W_X, "
                "all heads together"},
    {.name = "ratio_gK_gV", RS_CELL(ratio_cells, k_v), .title = "gK/gV", .formula = "gK/gV"},
    {.name = "log10_gQ",
     RS_CELL(ratio_cells, log10_q),
     .title = "log10 gQ",
     .formula = "logarithm to base 10 of gQ; null where it is 0"},
    {.name = "log10_gK",
     RS_CELL(ratio_cells, log10_k),
     .title = "log10 gK",
     .formula = "logarithm to base 10 of gK; null where it is 0"},
    {.name = "log10_gV",
     RS_CELL(ratio_cells, log10_v),
     .title = "log10 gV",
     .formula = "logarithm to base 10 of gV; null where it is 0"},
    {.name = "log10_ratio_gQ_gV",
     RS_CELL(ratio_cells, log10_q_v),
     .title = "log10 gQ/gV",
     .formula = "log10_gQ - log10_gV; null where either is 0"},
    {.name = "log10_ratio_gK_gV",
     RS_CELL(ratio_cells, log10_k_v),
     .title = "log10 gK/gV",
     .formula = "log10_gK - log10_gV; null where either is 0"},
};
const rs_table_kind rs_probe_gradient_ratios_kind = {
    "probe", "gradient_ratios", {RS_PART(ratio_columns)}};

static rs_status figure(rs_result *result, rs_error *err)
{
    static const char *const keys[] = {"variant", "layer"}, *const facets[] = {"variant"};
    rs_lines lines = {
        .table = "gradient_ratios",
        .x = {"layer", "layer"},
        .y = {"log10_gQ", "log10 of the squared norm of the gradient"},
        .first = "queries",
        .more = {{.field = "log10_gK", .title = "keys"}, {.field = "log10_gV", .title = "values"}},
        .x_whole = true,
        .facets = {facets, COUNT(facets)},
        .keys = {keys, COUNT(keys)}};
    return rs_result_add_figure(
        result, "gradient_ratios", "What reaches queries, keys and values",
        "Squared Frobenius norm of the loss's derivative by each layer's query, key and value "
        "weights. Where the first two lie far below the third, attention's matrix stays what it "
        "is while the values learn.",
        rs_figure_lines(&lines), err);
}

static rs_status ratios(rs_result *result, const rs_probed *variants, size_t n, rs_error *err)
{
    rs_table *table = NULL;
    for (size_t v = 0; v < n; v++) {
        const rs_graded *graded = variants[v].measured->graded;
        for (size_t i = 0; graded && i < graded->n_ratios; i++) {
            const rs_gradient_ratio *r = &graded->ratios[i];
            const ratio_cells cells = {variants[v].name, r->layer,     r->q_v,
                                       r->k_v,           r->log10_q,   r->log10_k,
                                       r->log10_v,       r->log10_q_v, r->log10_k_v};
            if (!table)
                RS_TRY(rs_result_add_table(
                    result, "gradient_ratios", "Gradients of queries and keys",
                    "Squared norms of the gradients of each layer's queries and keys over that of "
                    "its values",
                    ratio_columns, COUNT(ratio_columns), &table, err));
            RS_TRY(rs_table_append(table, &cells, err));
        }
    }
    return table ? figure(result, err) : RS_OK;
}

rs_status rs_probe_gradients(rs_result *result, const rs_probed *variants, size_t n, rs_error *err)
{
    RS_TRY(gradients(result, variants, n, err));
    return ratios(result, variants, n, err);
}
