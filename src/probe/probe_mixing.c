/* probe_mixing.c: table mixing, what the matrices of every mixer say of themselves. */
#include "probe/probe_parts.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* A row of table mixing. */
typedef struct mixing_cells {
    const char *variant;
    rs_mixing_row of;
} mixing_cells;

static const rs_column mixing_columns[] = {
    {.name = "variant", RS_CELL(mixing_cells, variant)},
    {.name = "layer",
     RS_CELL(mixing_cells, of.layer),
     .formula = "block, from 0, as tensor names count"},
    {.name = "branch",
     RS_CELL(mixing_cells, of.branch),
     .formula = "from 0: which of the layer's branches mixes so"},
    {.name = "mixer",
     RS_CELL(mixing_cells, of.mixer),
     .formula = "its kind, as architecture files call it"},
    {.name = "head",
     RS_CELL(mixing_cells, of.head),
     .formula = "from 0; null: the mixer has a matrix for each channel, and the row is of all "
                "channels: norms their root mean square, row sums their range, logarithms of "
                "decays and steps their mean"},
    {.name = "frobenius",
     RS_CELL(mixing_cells, of.mean.frobenius),
     .title = "‖M‖_F",
     .formula = "‖M‖_F of the matrix M (n×n) that is applied to the values, the skip inside the "
                "mixer included; mean over the samples"},
    {.name = "row_sum_min",
     RS_CELL(mixing_cells, of.mean.row_sum_min),
     .formula = "least sum of a row of M, over the rows of all samples: where all rows sum to one "
                "number, equal tokens stay equal"},
    {.name = "row_sum_max",
     RS_CELL(mixing_cells, of.mean.row_sum_max),
     .formula = "largest sum of a row of M, over the rows of all samples"},
    {.name = "decay",
     RS_CELL(mixing_cells, of.mean.decay),
     .formula = "geometric mean, over tokens, samples and states, of the factor by which a token "
                "lets what came before decay; null where the mixer has none"},
    {.name = "half_life",
     RS_CELL(mixing_cells, of.mean.half_life),
     .unit = "tokens",
     .formula = "−ln 2 / ln decay; null where nothing decays"},
    {.name = "delta_mean",
     RS_CELL(mixing_cells, of.mean.delta_mean),
     .title = "mean Δ",
     .formula = "mean step Δ over tokens and samples; null where the mixer has none"},
    {.name = "share_of_d",
     RS_CELL(mixing_cells, of.mean.share_of_d),
     .title = "share of D",
     .formula = "n d² / (n d² + ‖M − dI‖_F²), d the skip D inside the mixer: 1 where it mixes "
                "nothing; null where it has none; mean over the samples"},
};
const rs_table_kind rs_probe_mixing_kind = {"probe", "mixing", {RS_PART(mixing_columns)}};

rs_status rs_probe_mixing(rs_result *result, const rs_probed *variants, size_t n, rs_error *err)
{
    rs_table *table = NULL;
    for (size_t v = 0; v < n; v++)
        for (size_t i = 0; i < variants[v].measured->n_mixing; i++) {
            const mixing_cells cells = {variants[v].name, variants[v].measured->mixing[i]};
            if (!cells.of.samples) continue;
            if (!table)
                RS_TRY(rs_result_add_table(
                    result, "mixing", "Mixers",
                    "The matrix M that each head of a mixer applies to its values, attention or "
                    "not: its size, what its rows sum to, and how far it reaches back",
                    mixing_columns, COUNT(mixing_columns), &table, err));
            RS_TRY(rs_table_append(table, &cells, err));
        }
    if (table)
        rs_table_show_first(table, "variant,layer,mixer,head,frobenius,row_sum_min,row_sum_max,"
                                   "half_life,share_of_d");
    return RS_OK;
}
