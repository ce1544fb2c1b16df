/* gather_attention.c: table attention. The engine hands over matrices from its worker
 * threads; each has a place of its own, and a batch is summed in the order of its samples when it
 * is over. Matrices of other branches than the layer's mixer, such as those of cross-attention,
 * which are not square, are left out. */
#include "observe/gather.h"

#include "network/op_traits.h"

#include <math.h>

/* Behind the columns that the table shows: sums of ln(spectral_gap), of the entropy's ratio, and of
 * what uniform attention would measure. */
enum {
    LOG_GAP = RS_ATTENTION_REALS,
    ENTROPY_RATIO,
    NULLS,
    SUM_COLUMNS = NULLS + RS_ATTENTION_NULLS
};

static rs_status open_rows(rs_gather *g, rs_error *err)
{
    const rs_network *network = g->network;
    size_t rows = 0;
    g->head_row = rs_calloc((size_t)network->n_layers + 1, sizeof *g->head_row);
    if (!g->head_row) return rs_fail_memory(err, "measures of attention", 0);
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        g->head_row[l] = rows;
        rows += mixer ? (size_t)rs_branch_heads(mixer) : 0;
    }
    g->head_row[network->n_layers] = rows;
    g->out->attention = rs_calloc(rows, sizeof *g->out->attention);
    if (!g->out->attention)
        return rs_fail_memory(err, "measures of attention", rows * sizeof *g->out->attention);
    g->out->n_attention = rows;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (size_t row = g->head_row[l]; row < g->head_row[l + 1]; row++)
            g->out->attention[row] = (rs_attention_row){
                .layer = l, .head = (int32_t)(row - g->head_row[l]), .gap_min = NAN};
    return RS_OK;
}

rs_status rs_gather_attention_open(rs_gather *g, rs_error *err)
{
    size_t places;
    RS_TRY(open_rows(g, err));
    if (!rs_size_mul(g->out->n_attention, (size_t)g->capacity, &places))
        return rs_fail_memory(err, "measures of attention", SIZE_MAX);
    g->heads = rs_calloc(places, sizeof *g->heads);
    g->seen = rs_calloc(places, sizeof *g->seen);
    g->nulls = rs_calloc(places, sizeof *g->nulls);
    if (!g->heads || !g->seen || !g->nulls)
        return rs_fail_memory(err, "measures of attention", places * sizeof *g->heads);
    size_t bytes = rs_attention_workspace(rs_gather_longest_pairs(g));
    if (bytes > g->listener.scratch_bytes) g->listener.scratch_bytes = bytes;
    return rs_sums_open(&g->attention, g->out->n_attention, SUM_COLUMNS, err);
}

bool rs_gather_wants_attention(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const rs_gather *g = user;
    (void)head;
    return rs_is_mixer(g->network, layer, branch) &&
           rs_branch_heads(&g->network->layers[layer].branches[branch]) > 0;
}

bool rs_gather_wants_sample(void *user, int32_t sample)
{
    const rs_gather *g = user;
    const int64_t *begin = g->batch->batch.begin;
    return rs_measures_pairs(g->options, begin[sample + 1] - begin[sample]);
}

rs_status rs_gather_attention(void *user, const rs_attention_view *v, rs_error *err)
{
    rs_gather *g = user;
    if (!rs_is_mixer(g->network, v->layer, v->branch)) return RS_OK;
    RS_TRY(rs_check_cancelled(g->context, err));
    size_t place =
        (g->head_row[v->layer] + (size_t)v->head) * (size_t)g->capacity + (size_t)v->sample;
    void *workspace = g->listener.scratch[v->thread];
    bool ranks = rs_measures_ranks(g->options, v->n);
    g->seen[place] = true;
    /* Uniform weights are the null of a softmax. */
    if (v->probabilities)
        rs_attention_null_of(&g->nulls[place], v->n, v->causal, v->window);
    else
        rs_attention_no_null(&g->nulls[place]);
    if (v->precision == RS_PRECISION_F32)
        return rs_attention_measure_f32(&g->heads[place], v->mixing, v->probabilities, v->logits,
                                        v->n, v->ld, v->causal, v->window, ranks, workspace, err);
    return rs_attention_measure_f64(&g->heads[place], v->mixing, v->probabilities, v->logits, v->n,
                                    v->ld, v->causal, v->window, ranks, workspace, err);
}

static void add_head(rs_gather *g, size_t row, size_t place)
{
    rs_attention_row *out = &g->out->attention[row];
    const rs_attention_measures *m = &g->heads[place];
    const rs_attention_null *null = &g->nulls[place];
    double values[SUM_COLUMNS];
    rs_measure_values(values, rs_attention_columns, RS_ATTENTION_REALS, m);
    values[LOG_GAP] = log(m->spectral_gap); /* NaN where an edited matrix has |λ₂| > 1 */
    values[ENTROPY_RATIO] = null->entropy > 0 ? m->entropy / null->entropy : NAN;
    rs_measure_values(values + NULLS, rs_attention_null_columns, RS_ATTENTION_NULLS, null);
    rs_sums_add(&g->attention, row, values);
    out->samples++;
    out->unconverged += !m->converged && !isnan(m->entropy);
    if (!isnan(m->spectral_gap)) out->gap_min = fmin(out->gap_min, m->spectral_gap);
}

void rs_gather_attention_end_batch(rs_gather *g)
{
    for (size_t row = 0; row < g->out->n_attention; row++)
        for (int64_t s = 0; s < g->capacity; s++) {
            size_t place = row * (size_t)g->capacity + (size_t)s;
            if (g->seen[place]) add_head(g, row, place);
            g->seen[place] = false;
        }
}

/* Rows of a softmax that is cut to a lower rank need not sum to 1: 1 is no eigenvalue then, and what two
 * rows have in common no share of their weight. */
static bool is_cut(const rs_gather *g, const rs_attention_row *row)
{
    const rs_branch *mixer = rs_layer_mixer(&g->network->layers[row->layer]);
    const rs_attention_op *op = mixer ? rs_branch_attention(mixer) : NULL;
    return op && rs_attention_is_cut(op);
}

void rs_gather_attention_finish(rs_gather *g)
{
    for (size_t row = 0; row < g->out->n_attention; row++) {
        rs_attention_row *out = &g->out->attention[row];
        rs_measure_means(&out->mean, rs_attention_columns, RS_ATTENTION_REALS, &g->attention, row);
        out->gap_geomean = exp(rs_sums_mean(&g->attention, row, LOG_GAP));
        if (is_cut(g, out))
            out->mean.spectral_gap = out->mean.dobrushin = out->gap_min = out->gap_geomean = NAN;
        out->entropy_ratio = rs_sums_mean(&g->attention, row, ENTROPY_RATIO);
        rs_measure_means_from(&out->null, rs_attention_null_columns, RS_ATTENTION_NULLS,
                              &g->attention, row, NULLS);
        out->null.logit_variance *= rs_logit_variance_drawn(g->network, g->out, out->layer);
    }
}

void rs_gather_attention_close(rs_gather *g)
{
    rs_sums_close(&g->attention);
    rs_free(g->heads);
    rs_free(g->seen);
    rs_free(g->nulls);
    rs_free(g->head_row);
}
