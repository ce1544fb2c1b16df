/* instruments_gradients.c: the gradients that a step is made of, what it changes, and the numbers of
 * the network that may be trained (docs/train.md, Instruments). */
#include "train/instruments_parts.h"

#include "network/op_traits.h"

#include <math.h>

/* ---- squared norms of gradients ---- */

/* Eight sums side by side, so that compilers may keep them in vectors. */
static double squares_f32(const float *x, int64_t n)
{
    double part[8] = {0}, sum = 0;
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int j = 0; j < 8; j++)
            part[j] += (double)x[k + j] * (double)x[k + j];
    for (; k < n; k++)
        sum += (double)x[k] * (double)x[k];
    for (int j = 0; j < 8; j++)
        sum += part[j];
    return sum;
}

static double squares_f64(const double *x, int64_t n)
{
    double part[8] = {0}, sum = 0;
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int j = 0; j < 8; j++)
            part[j] += x[k + j] * x[k + j];
    for (; k < n; k++)
        sum += x[k] * x[k];
    for (int j = 0; j < 8; j++)
        sum += part[j];
    return sum;
}

static double squares_of(const rs_trained_list *list, const void *numbers, int64_t first, int64_t n)
{
    return list->size == sizeof(float) ? squares_f32((const float *)numbers + first, n)
                                       : squares_f64((const double *)numbers + first, n);
}

/* Of the outputs of a map alone, where its tensor holds others too. */
static double squares_of_map(const rs_trained_list *list, const rs_dense *map, const void *gradient)
{
    if (map->in * map->out == map->rows * map->cols)
        return squares_of(list, gradient, 0, map->rows * map->cols);
    double sum = 0;
    for (int64_t u = 0; u < map->out;) {
        int64_t at = map->first + u / map->run * map->stride + u % map->run;
        int64_t n = map->run - u % map->run;
        if (n > map->out - u) n = map->out - u;
        if (map->out_is_row) sum += squares_of(list, gradient, at * map->cols, n * map->cols);
        for (int64_t row = 0; row < map->rows && !map->out_is_row; row++)
            sum += squares_of(list, gradient, row * map->cols + at, n);
        u += n;
    }
    return sum;
}

/* Adds what one more mixer of a layer has to a number that NaN says is not there yet. */
static void add_to(double *sum, double value)
{
    if (isnan(value)) return;
    *sum = isnan(*sum) ? value : *sum + value;
}

static double square_of_mixer(const rs_instruments *i, const rs_watched_mixer *mixer, int which)
{
    const rs_trained_list *list = &i->learner->trained;
    int64_t item = mixer->items[which];
    if (item < 0 || list->items[item].frozen) return NAN;
    return squares_of_map(list, mixer->maps[which], list->items[item].gradient);
}

void rs_instruments_hear_loss(rs_instruments *i)
{
    rs_trained_end(&i->learner->trained.sink);
#pragma omp parallel for num_threads(i->context->threads) schedule(dynamic)
    for (size_t k = 0; k < RS_MAPS * i->n_mixers; k++) {
        rs_watched_mixer *mixer = &i->mixers[k / RS_MAPS];
        mixer->squares[k % RS_MAPS] = square_of_mixer(i, mixer, (int)(k % RS_MAPS));
    }
    i->heard = true;
}

static void set_gradients(rs_instruments *i)
{
    if (!i->heard) rs_instruments_hear_loss(i);
    i->heard = false;
    for (size_t k = 0; k < i->n_mixers; k++) {
        const rs_watched_mixer *mixer = &i->mixers[k];
        rs_layer_row *row = &i->layers[mixer->layer + 1];
        double *const squares[RS_MAPS] = {&row->g_q, &row->g_k, &row->g_v, &row->g_o};
        for (int m = 0; m < RS_MAPS; m++)
            add_to(squares[m], mixer->squares[m]);
    }
    for (int32_t l = 0; l <= i->network->n_layers; l++) {
        rs_layer_row *row = &i->layers[l];
        row->ratio_q_v = row->g_v > 0 ? row->g_q / row->g_v : NAN;
        row->ratio_k_v = row->g_v > 0 ? row->g_k / row->g_v : NAN;
    }
}

/* ---- the network's own numbers ---- */

static void set_numbers(rs_layer_row *row, const rs_layer *layer)
{
    const rs_branch *mixer = rs_layer_mixer(layer);
    const rs_attention_op *op = mixer ? rs_branch_attention(mixer) : NULL;
    if (mixer) row->mixer_skip = mixer->skip, row->mixer_scale = mixer->scale;
    for (int32_t b = 0; b < layer->n_branches; b++)
        if (rs_branch_mlp(&layer->branches[b]))
            row->mlp_skip = layer->branches[b].skip, row->mlp_scale = layer->branches[b].scale;
    if (!op) return;
    row->identity = op->mix_identity;
    row->softmax = op->mix_softmax;
    row->uniform = op->mix_uniform;
}

void rs_instruments_gradients(rs_instruments *i)
{
    set_gradients(i);
    for (int32_t l = 0; l < i->network->n_layers; l++)
        set_numbers(&i->layers[l + 1], &i->network->layers[l]);
}

/* ---- what a step changed ---- */

static void set_update_ratios(rs_instruments *i)
{
    const rs_trained_list *list = &i->learner->trained;
    double all = 0, weights = 0;
    for (int64_t k = 0; k < list->n; k++)
        all += i->changes[k].change, weights += i->changes[k].weight;
    i->update_ratio = weights > 0 ? sqrt(all / weights) : NAN;
    for (int32_t l = 0; l < i->network->n_layers; l++) {
        double change = 0, weight = 0;
        for (int64_t k = 0; k < list->n; k++)
            if (list->places[k].layer == l)
                change += i->changes[k].change, weight += i->changes[k].weight;
        i->layers[l + 1].update_ratio = weight > 0 ? sqrt(change / weight) : NAN;
    }
}

static double rate_of(const rs_learner *learner, int64_t item)
{
    if (item < 0 || learner->trained.items[item].frozen) return NAN;
    return rs_optimiser_effective(learner->optimiser, item, learner->rate);
}

/* Of several mixers in a layer the first one's. */
static void set_rates(rs_instruments *i)
{
    enum { RATES = 3 };
#pragma omp parallel for num_threads(i->context->threads) schedule(dynamic)
    for (size_t k = 0; k < RATES * i->n_mixers; k++) {
        rs_watched_mixer *mixer = &i->mixers[k / RATES];
        mixer->numbers[k % RATES] = rate_of(i->learner, mixer->items[k % RATES]);
    }
    for (size_t k = 0; k < i->n_mixers; k++) {
        const rs_watched_mixer *mixer = &i->mixers[k];
        rs_layer_row *row = &i->layers[mixer->layer + 1];
        double *const rates[RATES] = {&row->rate_q, &row->rate_k, &row->rate_v};
        for (int m = 0; m < RATES; m++)
            if (isnan(*rates[m])) *rates[m] = mixer->numbers[m];
    }
}

void rs_instruments_updates(rs_instruments *i)
{
    set_update_ratios(i);
    set_rates(i);
}
