/* probe_tables.c: tables summary, tokens, attention, loss and attention_maps. */
#include "observe/store.h"
#include "probe/probe.h"

#include <math.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- tokens ---- */

static const rs_column token_keys[] = {
    {.name = "variant", .type = RS_COLUMN_TEXT, .formula = "the intervention: see --variants"},
    {.name = "layer",
     .type = RS_COLUMN_INT,
     .formula = "state l: 0 is what enters the first block, l what leaves block number l"},
    {.name = "site",
     .type = RS_COLUMN_TEXT,
     .formula = "block_out: the state; mixer_out: what the mixer's output map gives, its bias "
                "included, before a norm of that output (Gemma 2 and 3), the branch's scale and "
                "the skip; fusion_*: the states of all blocks read together"},
};
static const rs_column token_tail[] = {
    {.name = "at_floor",
     .type = RS_COLUMN_BOOL,
     .formula =
         "relative_residual is rounding: no more than the floor of the precision (8 units of "
         "roundoff), or what later layers made of such a residual (until one layer "
         "multiplies it by more than 16); of the mean, or of every sample"},
    {.name = "relative_residual_std",
     .type = RS_COLUMN_REAL,
     .formula = "standard deviation over the samples (n − 1)"},
    {.name = "relative_residual_min", .type = RS_COLUMN_REAL, .formula = "least over the samples"},
    {.name = "relative_residual_max",
     .type = RS_COLUMN_REAL,
     .formula = "largest over the samples"},
    {.name = "relative_residual_median",
     .type = RS_COLUMN_REAL,
     .formula = "median over the samples"},
    {.name = "relative_residual_geomean",
     .type = RS_COLUMN_REAL,
     .formula = "geometric mean over the samples: the mean is set by the slowest of them"},
};

/* Behind them, in the residual precision. */
static const rs_column log_tail[] = {
    {.name = "log10_relative_residual_min",
     .type = RS_COLUMN_REAL,
     .formula = "least over the samples"},
    {.name = "log10_relative_residual_max",
     .type = RS_COLUMN_REAL,
     .formula = "largest over the samples"},
};

static void set_logs(rs_table *table, size_t row, size_t c, const rs_token_row *r)
{
    for (size_t i = 0; i < RS_TOKEN_LOGS; i++)
        rs_table_set_real(table, row, c++, r->log10[i]);
    rs_table_set_real(table, row, c++, r->log10_residual.min);
    rs_table_set_real(table, row, c, r->log10_residual.max);
}

static rs_status add_token_row(rs_table *table, const char *variant, const rs_token_row *r,
                               bool logs, rs_error *err)
{
    size_t row, c = COUNT(token_keys);
    RS_TRY(rs_table_add_row(table, &row, err));
    RS_TRY(rs_table_set_text(table, row, 0, variant, err));
    rs_table_set_int(table, row, 1, r->layer);
    RS_TRY(rs_table_set_text(table, row, 2, rs_token_site_name(r->site), err));
    for (size_t i = 0; i < RS_TOKEN_REALS; i++)
        rs_table_set_real(table, row, c++, r->mean[i]);
    if (r->residual.n) rs_table_set_bool(table, row, c, r->at_floor);
    const rs_spread *s = &r->residual;
    const double spread[] = {s->std, s->min, s->max, s->median, s->geomean};
    for (size_t i = 0; i < COUNT(spread); i++)
        rs_table_set_real(table, row, ++c, spread[i]);
    if (logs) set_logs(table, row, c + 1, r);
    return RS_OK;
}

static rs_status token_table(rs_result *result, const rs_probed *variants, size_t n, bool logs,
                             rs_error *err)
{
    enum { PLAIN = COUNT(token_keys) + RS_TOKEN_REALS + COUNT(token_tail) };
    rs_column columns[PLAIN + RS_TOKEN_LOGS + COUNT(log_tail)];
    memcpy(columns, token_keys, sizeof token_keys);
    memcpy(columns + COUNT(token_keys), rs_token_columns, sizeof rs_token_columns);
    memcpy(columns + COUNT(token_keys) + RS_TOKEN_REALS, token_tail, sizeof token_tail);
    memcpy(columns + PLAIN, rs_token_logs, sizeof rs_token_logs);
    memcpy(columns + PLAIN + RS_TOKEN_LOGS, log_tail, sizeof log_tail);
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "tokens", "Tokens by layer",
                               "How far apart the tokens of a sample are in each state, mean over "
                               "the samples. Layer 0 is what enters the first block; the last "
                               "state is before the final norm",
                               columns, logs ? COUNT(columns) : PLAIN, &table, err));
    for (size_t v = 0; v < n; v++)
        for (size_t i = 0; i < variants[v].measured->n_tokens; i++)
            if (variants[v].measured->tokens[i].samples)
                RS_TRY(add_token_row(table, variants[v].name, &variants[v].measured->tokens[i],
                                     logs, err));
    return RS_OK;
}

/* ---- attention ---- */

static const rs_column attention_keys[] = {
    {.name = "variant", .type = RS_COLUMN_TEXT},
    {.name = "layer", .type = RS_COLUMN_INT, .formula = "block, from 0, as tensor names count"},
    {.name = "head", .type = RS_COLUMN_INT, .formula = "from 0"},
};
static const rs_column attention_tail[] = {
    {.name = "entropy_ratio",
     .type = RS_COLUMN_REAL,
     .title = "entropy, of its maximum",
     .formula = "entropy / mean over rows of ln(visible keys): 1 all keys alike, 0 one key each"},
    {.name = "spectral_gap_min",
     .type = RS_COLUMN_REAL,
     .formula = "least spectral_gap over the samples"},
    {.name = "spectral_gap_geomean",
     .type = RS_COLUMN_REAL,
     .formula = "geometric mean of spectral_gap over the samples"},
};

static rs_status add_attention_row(rs_table *table, const char *variant, const rs_attention_row *r,
                                   rs_error *err)
{
    size_t row, c = COUNT(attention_keys);
    RS_TRY(rs_table_add_row(table, &row, err));
    RS_TRY(rs_table_set_text(table, row, 0, variant, err));
    rs_table_set_int(table, row, 1, r->layer);
    rs_table_set_int(table, row, 2, r->head);
    for (size_t i = 0; i < RS_ATTENTION_REALS; i++)
        rs_table_set_real(table, row, c++, r->mean[i]);
    const double tail[] = {r->entropy_ratio, r->gap_min, r->gap_geomean};
    for (size_t i = 0; i < COUNT(tail); i++)
        rs_table_set_real(table, row, c++, tail[i]);
    return RS_OK;
}

static rs_status attention_table(rs_result *result, const rs_probed *variants, size_t n,
                                 rs_error *err)
{
    rs_column columns[COUNT(attention_keys) + RS_ATTENTION_REALS + COUNT(attention_tail)];
    memcpy(columns, attention_keys, sizeof attention_keys);
    memcpy(columns + COUNT(attention_keys), rs_attention_columns, sizeof rs_attention_columns);
    memcpy(columns + COUNT(attention_keys) + RS_ATTENTION_REALS, attention_tail,
           sizeof attention_tail);
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "attention", "Attention heads",
                               "The matrix that each head applies to its values, mean over the "
                               "samples. Layers and heads count from 0",
                               columns, COUNT(columns), &table, err));
    for (size_t v = 0; v < n; v++)
        for (size_t i = 0; i < variants[v].measured->n_attention; i++)
            if (variants[v].measured->attention[i].samples)
                RS_TRY(add_attention_row(table, variants[v].name,
                                         &variants[v].measured->attention[i], err));
    return RS_OK;
}

/* ---- loss ---- */

static const rs_column loss_columns[] = {
    {.name = "variant", .type = RS_COLUMN_TEXT},
    {.name = "tokens", .type = RS_COLUMN_INT, .formula = "tokens that were predicted"},
    {.name = "nll",
     .type = RS_COLUMN_REAL,
     .unit = "nats",
     .formula = "mean of −ln p(next token | the tokens before it in its window)"},
    {.name = "perplexity", .type = RS_COLUMN_REAL, .formula = "exp(nll)"},
};

static rs_status loss_table(rs_result *result, const rs_probed *variants, size_t n, rs_error *err)
{
    bool any = false;
    for (size_t v = 0; v < n; v++)
        any |= variants[v].measured->scored > 0;
    if (!any) return RS_OK;
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "loss", "Next-token loss",
                               "How well each variant predicts the next token, inside each window",
                               loss_columns, COUNT(loss_columns), &table, err));
    for (size_t v = 0; v < n; v++) {
        const rs_measured *m = variants[v].measured;
        size_t row;
        if (!m->scored) continue;
        RS_TRY(rs_table_add_row(table, &row, err));
        RS_TRY(rs_table_set_text(table, row, 0, variants[v].name, err));
        rs_table_set_int(table, row, 1, m->scored);
        rs_table_set_real(table, row, 2, m->nll);
        rs_table_set_real(table, row, 3, exp(m->nll));
    }
    return RS_OK;
}

/* ---- attention_maps ---- */

static const rs_column map_columns[] = {
    {.name = "variant", .type = RS_COLUMN_TEXT},
    {.name = "layer", .type = RS_COLUMN_INT},
    {.name = "head", .type = RS_COLUMN_INT},
    {.name = "query", .type = RS_COLUMN_INT, .formula = "position of the token that looks"},
    {.name = "key", .type = RS_COLUMN_INT, .formula = "position of the token it takes from"},
    {.name = "weight", .type = RS_COLUMN_REAL, .formula = "A_ij, applied to the values"},
};

static rs_status add_map(rs_table *table, const char *variant, const rs_map_choice *choice,
                         const rs_kept_map *map, rs_error *err)
{
    for (int64_t i = 0; i < map->n * map->n; i++) {
        size_t row;
        RS_TRY(rs_table_add_row(table, &row, err));
        RS_TRY(rs_table_set_text(table, row, 0, variant, err));
        rs_table_set_int(table, row, 1, choice->layer);
        rs_table_set_int(table, row, 2, choice->head);
        rs_table_set_int(table, row, 3, i / map->n);
        rs_table_set_int(table, row, 4, i % map->n);
        rs_table_set_real(table, row, 5, map->weight[i]);
    }
    return RS_OK;
}

static rs_status map_table(rs_result *result, const rs_probed *variants, size_t n, rs_error *err)
{
    rs_table *table = NULL;
    for (size_t v = 0; v < n; v++)
        for (size_t m = 0; variants[v].maps && m < variants[v].maps->n; m++) {
            if (!table)
                RS_TRY(rs_result_add_table(
                    result, "attention_maps", "Attention matrices",
                    "The heads of --attention-maps on the first sample, at most its first 64 "
                    "tokens",
                    map_columns, COUNT(map_columns), &table, err));
            RS_TRY(add_map(table, variants[v].name, &variants[v].maps->choices[m],
                           &variants[v].maps->maps[m], err));
        }
    return RS_OK;
}

/* ---- summary: a row a variant ---- */

static const rs_column summary_columns[] = {
    {.name = "variant", .type = RS_COLUMN_TEXT},
    {.name = "enters",
     .type = RS_COLUMN_REAL,
     .formula = "relative residual of what enters the first block"},
    {.name = "leaves",
     .type = RS_COLUMN_REAL,
     .formula = "relative residual of what leaves the last block"},
    {.name = "a_layer",
     .type = RS_COLUMN_REAL,
     .formula = "factor a layer: (leaves / enters)^(1/layers), up to the first state at the floor"},
    {.name = "worst",
     .type = RS_COLUMN_REAL,
     .formula = "least ratio of the relative residuals of two states in a row"},
    {.name = "at", .type = RS_COLUMN_INT, .formula = "the state it leads to"},
    {.name = "mean_cosine",
     .type = RS_COLUMN_REAL,
     .formula = "between the tokens that leave the last block"},
    {.name = "effective_rank", .type = RS_COLUMN_REAL, .formula = "of what leaves the last block"},
    {.name = "floor_from",
     .type = RS_COLUMN_INT,
     .formula = "first state at the rounding floor; null: none"},
    /* the residual precision's */
    {.name = "log10_enters", .type = RS_COLUMN_REAL, .formula = "mean over the samples"},
    {.name = "log10_leaves", .type = RS_COLUMN_REAL, .formula = "mean over the samples"},
    {.name = "log10_a_layer",
     .type = RS_COLUMN_REAL,
     .formula = "(log10_leaves − log10_enters) / layers"},
    {.name = "log10_worst",
     .type = RS_COLUMN_REAL,
     .formula = "least difference of the logarithms of two states in a row"},
};
enum { SUMMARY_LOGS = 4 };

double rs_probe_log10(const rs_token_row *row)
{
    double own = row->log10[RS_TOKEN_LOG_RELATIVE];
    if (isnan(own) && row->beyond) return NAN;
    return isnan(own) ? log10(row->residual.mean) : own;
}

rs_decay rs_probe_decay(const rs_measured *m, int32_t layers)
{
    const rs_token_row *first = rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, 0), *before = first;
    rs_decay d = {.first = first,
                  .last = first,
                  .worst = NAN,
                  .log10_worst = NAN,
                  .worst_at = -1,
                  .floor_from = -1};
    if (!first || first->at_floor) d.floor_from = first ? 0 : -1;
    for (int32_t l = 1; first && l <= layers; l++) {
        const rs_token_row *row = rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, l);
        double ratio = rs_probe_log10(row) - rs_probe_log10(before);
        if (isnan(rs_probe_log10(row))) break;
        d.last = row;
        if (d.floor_from < 0 && row->at_floor) d.floor_from = l;
        /* NaN: both are zero. */
        if (!isnan(ratio) && (d.floor_from < 0 || d.floor_from == l)) {
            d.steps = l;
            d.log10_per_layer = (rs_probe_log10(row) - rs_probe_log10(first)) / l;
            if (isnan(d.log10_worst) || ratio < d.log10_worst)
                d.log10_worst = ratio, d.worst_at = l;
        }
        before = row;
    }
    if (!d.steps) d.log10_per_layer = NAN;
    d.per_layer = pow(10, d.log10_per_layer);
    d.worst = pow(10, d.log10_worst);
    return d;
}

static rs_status add_summary(rs_table *table, const rs_probed *v, bool logs, rs_error *err)
{
    size_t row;
    rs_decay d = rs_probe_decay(v->measured, v->network->n_layers);
    RS_TRY(rs_table_add_row(table, &row, err));
    RS_TRY(rs_table_set_text(table, row, 0, v->name, err));
    if (!d.first) return RS_OK;
    const rs_token_row *last =
        rs_measured_row(v->measured, RS_TOKEN_SITE_BLOCK_OUT, v->network->n_layers);
    const double reals[] = {d.first->residual.mean, last->residual.mean, d.per_layer, d.worst};
    for (size_t i = 0; i < COUNT(reals); i++)
        rs_table_set_real(table, row, 1 + i, reals[i]);
    if (d.worst_at >= 0) rs_table_set_int(table, row, 5, d.worst_at);
    rs_table_set_real(table, row, 6, last->mean[RS_TOKEN_MEAN_COSINE]);
    rs_table_set_real(table, row, 7, last->mean[RS_TOKEN_EFFECTIVE_RANK]);
    if (d.floor_from >= 0) rs_table_set_int(table, row, 8, d.floor_from);
    const double logarithms[SUMMARY_LOGS] = {rs_probe_log10(d.first), rs_probe_log10(last),
                                             d.log10_per_layer, d.log10_worst};
    for (size_t i = 0; i < SUMMARY_LOGS && logs; i++)
        rs_table_set_real(table, row, 9 + i, logarithms[i]);
    return RS_OK;
}

static rs_status summary_table(rs_result *result, const rs_probed *variants, size_t n, bool logs,
                               rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "summary", "Do the tokens collapse?",
                               "Relative residual ‖X − 1x̄ᵀ‖/‖X‖ of the tokens: 0 when all are "
                               "equal; mean over the samples",
                               summary_columns, COUNT(summary_columns) - (logs ? 0 : SUMMARY_LOGS),
                               &table, err));
    for (size_t v = 0; v < n; v++)
        RS_TRY(add_summary(table, &variants[v], logs, err));
    return RS_OK;
}

rs_status rs_probe_tables(rs_result *result, const rs_probed *variants, size_t n,
                          const rs_probe_options *options, rs_error *err)
{
    bool logs = options->measure.precision == RS_PRECISION_RESIDUAL;
    if (options->measure.tokens) {
        RS_TRY(summary_table(result, variants, n, logs, err));
        RS_TRY(token_table(result, variants, n, logs, err));
    }
    if (options->measure.attention) RS_TRY(attention_table(result, variants, n, err));
    RS_TRY(loss_table(result, variants, n, err));
    return map_table(result, variants, n, err);
}
