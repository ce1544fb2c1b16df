/*
 * gather_mixing.c: table mixing. Mixers tell norm, row sums and decays of their matrices without
 * forming them; those of softmax attention are read where they are formed. A mixer that has a matrix
 * for each channel has one row a layer.
 */
#include "observe/gather.h"

#include "network/op_traits.h"

#include <math.h>

/* What is averaged over the samples; decay and half-life follow from the mean logarithm. */
#define AVERAGED(name_) RS_COLUMN(rs_mixing_measures, name_, #name_, NULL, NULL, NULL, NULL)
static const rs_column averaged[] = {AVERAGED(frobenius), AVERAGED(log_decay), AVERAGED(delta_mean),
                                     AVERAGED(share_of_d)};
enum { AVERAGES = sizeof averaged / sizeof *averaged };

static bool mixes(const rs_branch *branch)
{
    const rs_op_traits *traits = rs_branch_traits(branch);
    return traits->mixes && !traits->reads_memory(branch);
}

/* Softmax attention has to form its matrices for this table: where table attention does so anyway,
 * or where this one is asked for. */
static bool is_measured(const rs_measure_options *options, const rs_branch *branch)
{
    return mixes(branch) &&
           (!rs_branch_attention(branch) || options->attention || options->mixing == RS_MIXING_ALL);
}

static size_t rows_of(const rs_branch *branch)
{
    return rs_branch_traits(branch)->by_channel ? 1 : (size_t)rs_branch_heads(branch);
}

bool rs_mixing_is_asked(const rs_network *network, const rs_measure_options *options)
{
    if (options->mixing != RS_MIXING_TOLD) return options->mixing == RS_MIXING_ALL;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            if (mixes(branch) && !rs_branch_attention(branch)) return true;
        }
    return false;
}

size_t rs_mixing_rows(const rs_network *network, const rs_measure_options *options)
{
    size_t rows = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            if (is_measured(options, branch)) rows += rows_of(branch);
        }
    return rows;
}

static void name_rows(rs_gather *g)
{
    rs_mixing_row *row = g->out->mixing;
    for (int32_t l = 0; l < g->network->n_layers; l++) {
        g->mixing_first[l] = (size_t)(row - g->out->mixing);
        for (int32_t b = 0; b < g->network->layers[l].n_branches; b++) {
            const rs_branch *branch = &g->network->layers[l].branches[b];
            if (!is_measured(g->options, branch)) continue;
            for (size_t h = 0; h < rows_of(branch); h++)
                *row++ =
                    (rs_mixing_row){.layer = l,
                                    .branch = b,
                                    .head = rs_branch_traits(branch)->by_channel ? -1 : (int32_t)h,
                                    .mixer = rs_branch_traits(branch)->word,
                                    .mean = rs_mixing_none(),
                                    .frobenius_most = NAN};
        }
    }
    g->mixing_first[g->network->n_layers] = g->out->n_mixing;
}

rs_status rs_gather_mixing_open(rs_gather *g, rs_error *err)
{
    size_t rows = rs_mixing_rows(g->network, g->options), places;
    if (!rs_size_mul(rows, (size_t)g->capacity, &places))
        return rs_fail_memory(err, "measures of mixing", SIZE_MAX);
    g->mixing_first = rs_calloc((size_t)g->network->n_layers + 1, sizeof *g->mixing_first);
    g->out->mixing = rs_calloc(rows, sizeof *g->out->mixing);
    g->mixed = rs_calloc(places, sizeof *g->mixed);
    if (!g->mixing_first || !g->out->mixing || !g->mixed)
        return rs_fail_memory(err, "measures of mixing", places * sizeof *g->mixed);
    g->out->n_mixing = rows;
    name_rows(g);
    return rs_sums_open(&g->mixing, rows, AVERAGES, err);
}

/* The place of a sample in the first row of a branch; NULL: the branch has none. */
static rs_mixed *place_of(rs_gather *g, int32_t layer, int32_t branch, int32_t sample)
{
    for (size_t row = g->mixing_first[layer]; row < g->mixing_first[layer + 1]; row++)
        if (g->out->mixing[row].branch == branch)
            return &g->mixed[row * (size_t)g->capacity + (size_t)sample];
    return NULL;
}

bool rs_gather_wants_mixing(void *user, int32_t layer, int32_t branch)
{
    return place_of(user, layer, branch, 0) != NULL;
}

/* ---- what mixers tell ---- */

/* The mean over matrices in the sense of the root of the mean square, for what is a norm. */
static rs_mixed measures_of(const rs_mixing_numbers *of, int32_t matrices, int64_t n)
{
    rs_mixing_measures m = rs_mixing_none();
    double square = 0, most = 0, mixed = 0, skips = 0, decay = 0, step = 0;
    for (int32_t k = 0; k < matrices; k++) {
        square += of[k].square;
        if (!(of[k].square <= most) && !isnan(most)) most = of[k].square;
        mixed += of[k].mixed_square;
        skips += (double)n * of[k].skip * of[k].skip;
        decay += of[k].log_decay;
        step += of[k].step;
        rs_mixing_widen(&m, of[k].row_sum_least, of[k].row_sum_most);
    }
    m.frobenius = sqrt(square / matrices);
    m.log_decay = decay / matrices;
    m.delta_mean = step / matrices;
    m.share_of_d = skips / (skips + mixed);
    return (rs_mixed){m, sqrt(most), true};
}

rs_status rs_gather_mixing(void *user, const rs_mixing_view *v, rs_error *err)
{
    rs_gather *g = user;
    rs_mixed *place = place_of(g, v->layer, v->branch, v->sample);
    const rs_branch *branch = &g->network->layers[v->layer].branches[v->branch];
    (void)err;
    if (!place) return RS_OK;
    if (rs_branch_traits(branch)->by_channel) {
        *place = measures_of(v->of, v->matrices, v->n);
        return RS_OK;
    }
    for (int32_t h = 0; h < v->matrices; h++)
        place[h * g->capacity] = measures_of(v->of + h, 1, v->n);
    return RS_OK;
}

void rs_gather_mixing_matrix(rs_gather *g, const rs_attention_view *v)
{
    const rs_branch *branch = &g->network->layers[v->layer].branches[v->branch];
    rs_mixed *place = place_of(g, v->layer, v->branch, v->sample);
    if (!place || !rs_branch_attention(branch)) return;
    rs_mixing_measures m =
        rs_mixing_of_matrix(v->mixing, v->precision != RS_PRECISION_F32, v->n, v->ld, v->causal);
    place[v->head * g->capacity] = (rs_mixed){m, m.frobenius, true};
}

/* ---- over the samples ---- */

static void add_sample(rs_gather *g, size_t row, const rs_mixed *sample)
{
    const rs_mixing_measures *m = &sample->of;
    rs_mixing_row *out = &g->out->mixing[row];
    double values[AVERAGES];
    if (out->samples == 0) out->frobenius_most = sample->most;
    if (!(sample->most <= out->frobenius_most) && !isnan(out->frobenius_most))
        out->frobenius_most = sample->most;
    rs_measure_values(values, averaged, AVERAGES, m);
    rs_sums_add(&g->mixing, row, values);
    rs_mixing_widen(&out->mean, m->row_sum_min, m->row_sum_max);
    out->samples++;
}

void rs_gather_mixing_end_batch(rs_gather *g)
{
    for (size_t row = 0; row < g->out->n_mixing; row++)
        for (int64_t s = 0; s < g->capacity; s++) {
            rs_mixed *place = &g->mixed[row * (size_t)g->capacity + (size_t)s];
            if (place->seen) add_sample(g, row, place);
            place->seen = false;
        }
}

void rs_gather_mixing_finish(rs_gather *g)
{
    for (size_t row = 0; row < g->out->n_mixing; row++) {
        rs_mixing_row *out = &g->out->mixing[row];
        rs_measure_means(&out->mean, averaged, AVERAGES, &g->mixing, row);
        rs_mixing_decay(&out->mean);
    }
}

void rs_gather_mixing_close(rs_gather *g)
{
    rs_sums_close(&g->mixing);
    rs_free(g->mixed);
    rs_free(g->mixing_first);
}
