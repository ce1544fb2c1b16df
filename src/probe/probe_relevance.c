/* probe_relevance.c: tables relevance, conservation and removal (docs/probe.md, Relevance). */
#include "probe/probe_parts.h"

#include "report/figures.h"

#include <math.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- tokens ---- */

/* A row of table relevance. */
typedef struct relevance_cells {
    const char *variant;
    int64_t sample, token;
    int32_t id;
    const char *text;
    double gradient_input, relevance;
} relevance_cells;

static const rs_column relevance_columns[] = {
    {.name = "variant", RS_CELL(relevance_cells, variant)},
    {.name = "sample", RS_CELL(relevance_cells, sample), .formula = "from 0"},
    {.name = "token", RS_CELL(relevance_cells, token), .formula = "place in the sample, from 0"},
    {.name = "id", RS_CELL(relevance_cells, id), .formula = "null: the inputs are no ids"},
    {.name = "text",
     RS_CELL(relevance_cells, text),
     .formula = "as the vocabulary spells it; null: the model has no tokenizer"},
    {.name = "gradient_input",
     RS_CELL(relevance_cells, gradient_input),
     .title = "gradient × input",
     .formula = "⟨x_t, ∂f/∂x_t⟩, x_t what enters the first layer, f what is explained"},
    {.name = "relevance",
     RS_CELL(relevance_cells, relevance),
     .formula = "the same with mixing matrices, norms' factors, φ(a)/a and gates held constant"},
};
const rs_table_kind rs_probe_relevance_kind = {"probe", "relevance", {RS_PART(relevance_columns)}};

static rs_status add_sample(rs_table *table, const rs_probed *v, const rs_explained *e,
                            const rs_inputs *in, const rs_tokenizer *tokenizer, rs_error *err)
{
    for (int64_t row = in->begin[e->sample]; row < in->begin[e->sample + 1]; row++) {
        int32_t id = in->ids ? in->ids[row] : -1;
        const relevance_cells cells = {v->name,
                                       e->sample,
                                       row - in->begin[e->sample],
                                       id,
                                       tokenizer && id >= 0 ? rs_tokenizer_token(tokenizer, id)
                                                            : NULL,
                                       v->relevance->gradient_input[row],
                                       v->relevance->relevance[row]};
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

static rs_status tokens_figure(rs_result *result, const rs_inputs *in, rs_error *err)
{
    static const char *const keys[] = {"variant", "sample", "token"}, *const facets[] = {"variant"};
    static const rs_figure_field measures[] = {{"relevance", "relevance"},
                                               {"gradient_input", "gradient × input"}};
    enum { MOST_CELLS = 4096 };
    if (in->begin[in->samples] > MOST_CELLS) return RS_OK;
    rs_heatmap heatmap = {.table = "relevance",
                          .x = {"token", "token"},
                          .y = {"sample", "sample"},
                          .measures = measures,
                          .n_measures = COUNT(measures),
                          .facets = {facets, COUNT(facets)},
                          .keys = {keys, COUNT(keys)},
                          .n_x = (size_t)in->longest,
                          .n_y = (size_t)in->samples};
    return rs_result_add_figure(result, "relevance", "Relevance of tokens",
                                "What of the explained output each token is responsible for; with "
                                "what biases absorb, a sample's cells add up to that output.",
                                rs_figure_heatmap(&heatmap), err);
}

static rs_status tokens(rs_result *result, const rs_probed *variants, size_t n, const rs_inputs *in,
                        const rs_tokenizer *tokenizer, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "relevance", "Relevance",
                               "What of the explained output each token is responsible for",
                               relevance_columns, COUNT(relevance_columns), &table, err));
    for (size_t v = 0; v < n; v++)
        for (size_t i = 0; i < variants[v].relevance->n; i++)
            RS_TRY(add_sample(table, &variants[v], &variants[v].relevance->samples[i], in,
                              tokenizer, err));
    return tokens_figure(result, in, err);
}

/* ---- cuts ---- */

/* A row of table conservation. */
typedef struct conservation_cells {
    const char *variant;
    int64_t sample;
    int32_t layer, output;
    int64_t row;
    double explained, bias_share, memory_share;
    rs_relevance_cut of;
} conservation_cells;

static const rs_column conservation_columns[] = {
    {.name = "variant", RS_CELL(conservation_cells, variant)},
    {.name = "sample", RS_CELL(conservation_cells, sample), .formula = "from 0"},
    {.name = "layer",
     RS_CELL(conservation_cells, layer),
     .formula = "the cut in front of this layer; the number of layers: behind the last"},
    {.name = "sum",
     RS_CELL(conservation_cells, of.sum),
     .title = "relevance of all tokens",
     .formula = "Σ_t ⟨x_t, g_t⟩ at the cut"},
    {.name = "bias_share",
     RS_CELL(conservation_cells, bias_share),
     .formula = "Σ b ∂f/∂b over the biases above the cut, over f"},
    {.name = "memory_share",
     RS_CELL(conservation_cells, memory_share),
     .formula =
         "⟨memory, ∂f/∂memory⟩ as layers above the cut read it, over f; null: no layer does"},
    {.name = "deviation",
     RS_CELL(conservation_cells, of.deviation),
     .formula = "|sum + biases + memory − f| over the sizes of all terms: rounding"},
    {.name = "profile_cosine",
     RS_CELL(conservation_cells, of.cosine),
     .formula = "cosine between the tokens' relevance for this output at the explained token and "
                "at the sample's other end; null: one token"},
    {.name = "effective_tokens",
     RS_CELL(conservation_cells, of.effective),
     .formula = "(Σ_t ‖g_t‖)² / Σ_t ‖g_t‖²: how many tokens carry the derivative"},
    {.name = "explained_token",
     RS_CELL(conservation_cells, row),
     .formula = "place of the token whose output is explained"},
    {.name = "output",
     RS_CELL(conservation_cells, output),
     .formula = "which output of the head; null: the network has none"},
    {.name = "explained",
     RS_CELL(conservation_cells, explained),
     .formula = "f: that output; without a head the length of the token's final state"},
};
const rs_table_kind rs_probe_conservation_kind = {
    "probe", "conservation", {RS_PART(conservation_columns)}};

static rs_status cuts(rs_result *result, const rs_probed *variants, size_t n, bool memory,
                      rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "conservation", "Conservation of relevance",
                               "At every cut, tokens' relevance and what biases absorb add up to "
                               "what is explained",
                               conservation_columns, COUNT(conservation_columns), &table, err));
    for (size_t v = 0; v < n; v++)
        for (size_t i = 0; i < variants[v].relevance->n; i++) {
            const rs_explained *e = &variants[v].relevance->samples[i];
            for (int32_t l = 0; l <= variants[v].network->n_layers; l++) {
                const rs_relevance_cut *cut = &e->cuts[l];
                const conservation_cells cells = {variants[v].name,
                                                  e->sample,
                                                  l,
                                                  e->output,
                                                  e->row,
                                                  e->explained,
                                                  cut->biases / e->explained,
                                                  memory ? cut->memory / e->explained : NAN,
                                                  *cut};
                RS_TRY(rs_table_append(table, &cells, err));
            }
        }
    rs_table_show_first(table,
                        "variant,sample,layer,sum,bias_share,profile_cosine,effective_tokens");
    return RS_OK;
}

/* ---- removal ---- */

/* A row of table removal. */
typedef struct removal_cells {
    const char *variant, *method, *order;
    double fraction, output, distance;
    int64_t samples;
} removal_cells;

static const rs_column removal_columns[] = {
    {.name = "variant", RS_CELL(removal_cells, variant)},
    {.name = "method",
     RS_CELL(removal_cells, method),
     .formula = "what orders the tokens: relevance, gradient_input, rollout (of attention: product "
                "of (A + I)/2), random"},
    {.name = "order",
     RS_CELL(removal_cells, order),
     .formula = "insert: the largest first, into a text of stand-ins; remove: the least in size "
                "first, a stand-in for each"},
    {.name = "fraction",
     RS_CELL(removal_cells, fraction),
     .formula = "share of the tokens that are in, or out"},
    {.name = "output",
     RS_CELL(removal_cells, output),
     .formula = "mean over samples of what is explained"},
    {.name = "distance",
     RS_CELL(removal_cells, distance),
     .formula = "mean over samples of its distance from that of the whole text"},
    {.name = "samples", RS_CELL(removal_cells, samples)},
};
const rs_table_kind rs_probe_removal_kind = {"probe", "removal", {RS_PART(removal_columns)}};

static rs_status removal_figure(rs_result *result, rs_error *err)
{
    static const char *const keys[] = {"variant", "method", "order", "fraction"};
    static const char *const facets[] = {"variant", "order"};
    rs_lines lines = {.table = "removal",
                      .x = {"fraction", "share of the tokens"},
                      .y = {"output", "what is explained"},
                      .colour = {"method", "method"},
                      .facets = {facets, COUNT(facets)},
                      .keys = {keys, COUNT(keys)}};
    return rs_result_add_figure(
        result, "removal", "Tokens put in and taken out",
        "What is explained, as tokens are put into a text of stand-ins, the most relevant first "
        "(insert), or taken out, the least relevant first (remove). A method that knows what "
        "counts stays above the random order.",
        rs_figure_lines(&lines), err);
}

static rs_status add_curve(rs_table *table, const char *variant, const rs_removal *removal,
                           rs_removal_method method, rs_removal_order order, rs_error *err)
{
    const rs_removal_curve *curve = &removal->of[method][order];
    double samples = (double)curve->samples;
    for (int step = 0; step < RS_REMOVAL_STEPS && curve->samples > 0; step++) {
        const removal_cells cells = {variant,
                                     rs_removal_method_name(method),
                                     rs_removal_order_name(order),
                                     step / (double)(RS_REMOVAL_STEPS - 1),
                                     curve->output[step] / samples,
                                     curve->distance[step] / samples,
                                     curve->samples};
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

static rs_status removal(rs_result *result, const rs_probed *variants, size_t n, rs_error *err)
{
    rs_table *table;
    if (variants[0].relevance->removal.of[RS_REMOVAL_RANDOM][0].samples == 0) return RS_OK;
    RS_TRY(rs_result_add_table(result, "removal", "Tokens put in and taken out",
                               "How what is explained follows the tokens that a method names",
                               removal_columns, COUNT(removal_columns), &table, err));
    for (size_t v = 0; v < n; v++)
        for (int m = 0; m < RS_REMOVAL_METHODS; m++)
            for (int o = 0; o < RS_REMOVAL_ORDERS; o++)
                RS_TRY(add_curve(table, variants[v].name, &variants[v].relevance->removal,
                                 (rs_removal_method)m, (rs_removal_order)o, err));
    return removal_figure(result, err);
}

rs_status rs_probe_relevance(rs_result *result, const rs_probed *variants, size_t n,
                             const rs_inputs *inputs, const rs_tokenizer *tokenizer, rs_error *err)
{
    RS_TRY(cuts(result, variants, n, inputs->memory != NULL, err));
    RS_TRY(removal(result, variants, n, err));
    return tokens(result, variants, n, inputs, tokenizer, err);
}
