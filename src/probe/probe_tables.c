/* probe_tables.c: tables summary, tokens, attention, loss and attention_maps. */
#include "observe/store.h"
#include "probe/probe.h"
#include "probe/probe_ranks.h"

#include <math.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- tokens ---- */

/* A row of table tokens. */
typedef struct token_cells {
    const char *variant, *site;
    rs_truth at_floor;
    rs_token_row of;
} token_cells;

static const rs_column token_keys[] = {
    {.name = "variant",
     RS_CELL(token_cells, variant),
     .formula = "the intervention: see --variants"},
    {.name = "layer",
     RS_CELL(token_cells, of.layer),
     .formula = "state l: 0 is what enters the first block, l what leaves block number l"},
    {.name = "site",
     RS_CELL(token_cells, site),
     .formula = "block_out: the state; mixer_out: what the mixer's output map gives, its bias "
                "included, before a norm of that output (Gemma 2 and 3), the branch's scale and "
                "the skip; fusion_*: the states of all blocks read together"},
};
static const rs_column token_tail[] = {
    {.name = "at_floor",
     RS_CELL(token_cells, at_floor),
     .formula =
         "relative_residual is rounding: no more than the floor of the precision (8 units of "
         "roundoff), or what later layers made of such a residual (until one layer "
         "multiplies it by more than 16); of the mean, or of every sample; --precision residual: "
         "an eighth of it or more may be rounding of a mixer worked out in plain numbers"},
    {.name = "relative_residual_std",
     RS_CELL(token_cells, of.residual.std),
     .formula = "standard deviation over the samples (n − 1)"},
    {.name = "relative_residual_min",
     RS_CELL(token_cells, of.residual.min),
     .formula = "least over the samples"},
    {.name = "relative_residual_max",
     RS_CELL(token_cells, of.residual.max),
     .formula = "largest over the samples"},
    {.name = "relative_residual_median",
     RS_CELL(token_cells, of.residual.median),
     .formula = "median over the samples"},
    {.name = "relative_residual_geomean",
     RS_CELL(token_cells, of.residual.geomean),
     .formula = "geometric mean over the samples: the mean is set by the slowest of them"},
};

/* Behind them, in the residual precision. */
static const rs_column log_tail[] = {
    {.name = "log10_relative_residual_min",
     RS_CELL(token_cells, of.log10_residual.min),
     .formula = "least over the samples"},
    {.name = "log10_relative_residual_max",
     RS_CELL(token_cells, of.log10_residual.max),
     .formula = "largest over the samples"},
};
const rs_table_kind rs_probe_tokens_kind = {
    "probe",
    "tokens",
    {RS_PART(token_keys), RS_PART(rs_token_columns), RS_PART(token_tail), RS_PART(log_tail)}};

static rs_status add_token_row(rs_table *table, const char *variant, const rs_token_row *r,
                               rs_error *err)
{
    const token_cells cells = {.variant = variant,
                               .site = rs_token_site_name(r->site),
                               .at_floor = r->residual.n ? r->at_floor : RS_UNKNOWN,
                               .of = *r};
    return rs_table_append(table, &cells, err);
}

static rs_status token_table(rs_result *result, const rs_probed *variants, size_t n, bool logs,
                             rs_error *err)
{
    enum { MEASURES = offsetof(token_cells, of.mean) };
    rs_column
        columns[COUNT(token_keys) + COUNT(rs_token_columns) + COUNT(token_tail) + COUNT(log_tail)],
        *end = rs_columns_within(columns, token_keys, COUNT(token_keys), 0);
    end = rs_columns_within(end, rs_token_columns, RS_TOKEN_REALS, MEASURES);
    end = rs_columns_within(end, token_tail, COUNT(token_tail), 0);
    if (logs) {
        end = rs_columns_within(end, rs_token_columns + RS_TOKEN_REALS, RS_TOKEN_LOGS, MEASURES);
        end = rs_columns_within(end, log_tail, COUNT(log_tail), 0);
    }
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "tokens", "Tokens by layer",
                               "How far apart the tokens of a sample are in each state, mean over "
                               "the samples. Layer 0 is what enters the first block; the last "
                               "state is before the final norm",
                               columns, (size_t)(end - columns), &table, err));
    rs_table_show_first(table,
                        "variant,layer,site,relative_residual,log10_relative_residual,mean_cosine,"
                        "effective_rank,at_floor");
    for (size_t v = 0; v < n; v++)
        for (size_t i = 0; i < variants[v].measured->n_tokens; i++)
            if (variants[v].measured->tokens[i].samples)
                RS_TRY(
                    add_token_row(table, variants[v].name, &variants[v].measured->tokens[i], err));
    return RS_OK;
}

/* ---- attention ---- */

/* A row of table attention. */
typedef struct attention_cells {
    const char *variant;
    rs_attention_row of;
} attention_cells;

static const rs_column attention_keys[] = {
    {.name = "variant", RS_CELL(attention_cells, variant)},
    {.name = "layer",
     RS_CELL(attention_cells, of.layer),
     .formula = "block, from 0, as tensor names count"},
    {.name = "head", RS_CELL(attention_cells, of.head), .formula = "from 0"},
};
static const rs_column attention_tail[] = {
    {.name = "entropy_ratio",
     RS_CELL(attention_cells, of.entropy_ratio),
     .title = "entropy, of its maximum",
     .formula = "entropy / mean over rows of ln(visible keys): 1 all keys alike, 0 one key each"},
    {.name = "spectral_gap_min",
     RS_CELL(attention_cells, of.gap_min),
     .formula = "least spectral_gap over the samples"},
    {.name = "spectral_gap_geomean",
     RS_CELL(attention_cells, of.gap_geomean),
     .formula = "geometric mean of spectral_gap over the samples"},
};
const rs_table_kind rs_probe_attention_kind = {
    "probe",
    "attention",
    {RS_PART(attention_keys), RS_PART(rs_attention_columns), RS_PART(attention_tail),
     RS_PART(rs_attention_null_columns)}};

static rs_status attention_table(rs_result *result, const rs_probed *variants, size_t n,
                                 rs_error *err)
{
    rs_column columns[COUNT(attention_keys) + RS_ATTENTION_REALS + COUNT(attention_tail) +
                      RS_ATTENTION_NULLS],
        *end = rs_columns_within(columns, attention_keys, COUNT(attention_keys), 0);
    end = rs_columns_within(end, rs_attention_columns, RS_ATTENTION_REALS,
                            offsetof(attention_cells, of.mean));
    end = rs_columns_within(end, attention_tail, COUNT(attention_tail), 0);
    rs_columns_within(end, rs_attention_null_columns, RS_ATTENTION_NULLS,
                      offsetof(attention_cells, of.null));
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "attention", "Attention heads",
                               "The matrix that each head applies to its values, mean over the "
                               "samples; ..._null: what attention that tells no key from another "
                               "gives. Layers and heads count from 0",
                               columns, COUNT(columns), &table, err));
    rs_table_show_first(
        table, "variant,layer,head,entropy_ratio,first_token_weight,self_weight,spectral_gap,"
               "lambda2,logit_variance");
    for (size_t v = 0; v < n; v++)
        for (size_t i = 0; i < variants[v].measured->n_attention; i++) {
            const attention_cells cells = {variants[v].name, variants[v].measured->attention[i]};
            if (cells.of.samples) RS_TRY(rs_table_append(table, &cells, err));
        }
    return RS_OK;
}

/* ---- rollout ---- */

/* A row of table rollout. */
typedef struct rollout_cells {
    const char *variant, *form;
    rs_rollout_row of;
} rollout_cells;

static const rs_column rollout_columns[] = {
    {.name = "variant", RS_CELL(rollout_cells, variant)},
    {.name = "layer",
     RS_CELL(rollout_cells, of.layer),
     .formula = "last layer of the product, from 0; it stands on the left"},
    {.name = "form",
     RS_CELL(rollout_cells, form),
     .formula = "mean: the heads' mean matrix A of each layer; rollout: ½(A + I)"},
    {.name = "sigma2_over_sigma1",
     RS_CELL(rollout_cells, of.sigma_ratio),
     .title = "σ₂/σ₁",
     .formula =
         "of the product, mean over the samples: 0 all tokens would be equal but for factors"},
    {.name = "effective_rank",
     RS_CELL(rollout_cells, of.effective_rank),
     .formula = "exp(−Σ p ln p), p = σ/Σσ of the product, mean over the samples"},
};
const rs_table_kind rs_probe_rollout_kind = {"probe", "rollout", {RS_PART(rollout_columns)}};

static rs_status rollout_table(rs_result *result, const rs_probed *variants, size_t n,
                               rs_error *err)
{
    static const char *const forms[RS_ROLLOUT_FORMS] = {
        [RS_ROLLOUT_MEAN] = "mean", [RS_ROLLOUT_HALF] = "rollout"};
    rs_table *table = NULL;
    for (size_t v = 0; v < n; v++)
        for (size_t i = 0; i < variants[v].measured->n_rollout; i++) {
            const rs_rollout_row *row = &variants[v].measured->rollout[i];
            const rollout_cells cells = {variants[v].name, forms[row->form], *row};
            if (!table)
                RS_TRY(rs_result_add_table(result, "rollout", "Attention alone, layer upon layer",
                                           "The product of the layers' mean matrices: what would "
                                           "be left of the tokens if heads only mixed them",
                                           rollout_columns, COUNT(rollout_columns), &table, err));
            RS_TRY(rs_table_append(table, &cells, err));
        }
    return RS_OK;
}

/* ---- loss ---- */

/* A row of table loss. */
typedef struct loss_cells {
    const char *variant;
    int64_t tokens;
    double nll, perplexity;
} loss_cells;

static const rs_column loss_columns[] = {
    {.name = "variant", RS_CELL(loss_cells, variant)},
    {.name = "tokens", RS_CELL(loss_cells, tokens), .formula = "tokens that were predicted"},
    {.name = "nll",
     RS_CELL(loss_cells, nll),
     .unit = "nats",
     .formula = "mean of −ln p(next token | the tokens before it in its window)"},
    {.name = "perplexity", RS_CELL(loss_cells, perplexity), .formula = "exp(nll)"},
};
const rs_table_kind rs_probe_loss_kind = {"probe", "loss", {RS_PART(loss_columns)}};

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
        const loss_cells cells = {variants[v].name, m->scored, m->nll, exp(m->nll)};
        if (m->scored) RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

/* ---- attention_maps ---- */

/* A row of table attention_maps. */
typedef struct map_cells {
    const char *variant;
    int64_t query, key;
    int32_t layer, head;
    double weight;
} map_cells;

static const rs_column map_columns[] = {
    {.name = "variant", RS_CELL(map_cells, variant)},
    {.name = "layer", RS_CELL(map_cells, layer)},
    {.name = "head", RS_CELL(map_cells, head)},
    {.name = "query", RS_CELL(map_cells, query), .formula = "position of the token that looks"},
    {.name = "key", RS_CELL(map_cells, key), .formula = "position of the token it takes from"},
    {.name = "weight", RS_CELL(map_cells, weight), .formula = "A_ij, applied to the values"},
};
const rs_table_kind rs_probe_maps_kind = {"probe", "attention_maps", {RS_PART(map_columns)}};

static rs_status add_map(rs_table *table, const char *variant, const rs_map_choice *choice,
                         const rs_kept_map *map, rs_error *err)
{
    for (int64_t i = 0; i < map->n * map->n; i++) {
        const map_cells cells = {variant,       i / map->n,   i % map->n,
                                 choice->layer, choice->head, map->weight[i]};
        RS_TRY(rs_table_append(table, &cells, err));
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

/* A row of table summary. */
typedef struct summary_cells {
    const char *variant;
    rs_decay decay;
    int32_t worst_layer;
    double enters, leaves, mean_cosine, effective_rank, log10_enters, log10_leaves;
} summary_cells;

static const rs_column summary_columns[] = {
    {.name = "variant", RS_CELL(summary_cells, variant)},
    {.name = "enters",
     RS_CELL(summary_cells, enters),
     .formula = "relative residual of what enters the first block"},
    {.name = "leaves",
     RS_CELL(summary_cells, leaves),
     .formula = "relative residual of what leaves the last block"},
    {.name = "a_layer",
     RS_CELL(summary_cells, decay.per_layer),
     .formula = "factor a layer: (leaves / enters)^(1/layers), up to the first state at the floor"},
    {.name = "worst",
     RS_CELL(summary_cells, decay.worst),
     .formula = "least ratio of the relative residuals of two states in a row"},
    {.name = "worst_layer",
     RS_CELL(summary_cells, worst_layer),
     .formula = "the layer that loses so much, from 0"},
    {.name = "mean_cosine",
     RS_CELL(summary_cells, mean_cosine),
     .formula = "between the tokens that leave the last block"},
    {.name = "effective_rank",
     RS_CELL(summary_cells, effective_rank),
     .formula = "of what leaves the last block"},
    {.name = "equal_after",
     RS_CELL(summary_cells, decay.floor_from),
     .formula = "layers after which the tokens are equal as far as the precision can tell: their "
                "relative residual is rounding; null: never"},
    /* the residual precision's */
    {.name = "log10_enters",
     RS_CELL(summary_cells, log10_enters),
     .formula = "mean over the samples"},
    {.name = "log10_leaves",
     RS_CELL(summary_cells, log10_leaves),
     .formula = "mean over the samples"},
    {.name = "log10_a_layer",
     RS_CELL(summary_cells, decay.log10_per_layer),
     .formula = "(log10_leaves − log10_enters) / layers"},
    {.name = "log10_worst",
     RS_CELL(summary_cells, decay.log10_worst),
     .formula = "least difference of the logarithms of two states in a row"},
};
const rs_table_kind rs_probe_summary_kind = {"probe", "summary", {RS_PART(summary_columns)}};
enum { SUMMARY_LOGS = 4 };

double rs_probe_log10(const rs_token_row *row)
{
    double own = row->mean.log10_relative_residual;
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
        if (isnan(rs_probe_log10(row))) continue; /* zero, or beyond; a later bias may end that */
        d.last = row;
        if (d.floor_from < 0 && row->at_floor) d.floor_from = l;
        /* NaN: both are zero. */
        if (!isnan(ratio) && (d.floor_from < 0 || d.floor_from == l)) {
            d.steps = l;
            d.log10_per_layer = (rs_probe_log10(row) - rs_probe_log10(first)) / l;
            bool next = before->layer == l - 1; /* no state without a residual lies between */
            if (next && (isnan(d.log10_worst) || ratio < d.log10_worst))
                d.log10_worst = ratio, d.worst_at = l;
        }
        before = row;
    }
    if (!d.steps) d.log10_per_layer = NAN;
    d.per_layer = pow(10, d.log10_per_layer);
    d.worst = pow(10, d.log10_worst);
    return d;
}

static rs_status add_summary(rs_table *table, const rs_probed *v, rs_error *err)
{
    summary_cells cells;
    rs_columns_clear(summary_columns, COUNT(summary_columns), &cells);
    cells.variant = v->name;
    rs_decay decay = rs_probe_decay(v->measured, v->network->n_layers);
    if (decay.first) {
        const rs_token_row *last =
            rs_measured_row(v->measured, RS_TOKEN_SITE_BLOCK_OUT, v->network->n_layers);
        cells.decay = decay;
        cells.worst_layer = decay.worst_at - 1;
        cells.enters = decay.first->residual.mean;
        cells.leaves = last->residual.mean;
        cells.mean_cosine = last->mean.mean_cosine;
        cells.effective_rank = last->mean.effective_rank;
        cells.log10_enters = rs_probe_log10(decay.first);
        cells.log10_leaves = rs_probe_log10(last);
    }
    return rs_table_append(table, &cells, err);
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
        RS_TRY(add_summary(table, &variants[v], err));
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
    RS_TRY(rollout_table(result, variants, n, err));
    RS_TRY(rs_probe_rank_table(result, variants, n, options, err));
    RS_TRY(rs_probe_mixing(result, variants, n, err));
    RS_TRY(loss_table(result, variants, n, err));
    return map_table(result, variants, n, err);
}
