/* removal.c: how far an explained output moves as tokens are put into a text of stand-ins, or taken
 * out of the text, by what a method says of them (Ali et al. 2022). */
#include "observe/relevance.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *rs_removal_method_name(rs_removal_method method)
{
    static const char *const names[] = {"relevance", "gradient_input", "rollout", "random"};
    return names[method];
}

const char *rs_removal_order_name(rs_removal_order order)
{
    static const char *const names[] = {"insert", "remove"};
    return names[order];
}

/* ---- orders ---- */

/* A token and what it is sorted by, the least first. */
typedef struct ranked {
    double key;
    int64_t token;
} ranked;

static int by_key(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* Fills order [n]; scores NULL: at random. A NaN is put last. */
static void rank_tokens(ranked *order, const double *scores, rs_removal_order how, int64_t n,
                        uint64_t seed, int64_t sample)
{
    rs_random random = rs_random_new(seed, 2 * (uint64_t)sample + (uint64_t)how);
    for (int64_t i = 0; i < n; i++) {
        double key = !scores                    ? rs_random_uniform(&random)
                     : how == RS_REMOVAL_INSERT ? -scores[i]
                                                : fabs(scores[i]);
        order[i] = (ranked){isnan(key) ? (double)INFINITY : key, i};
    }
    qsort(order, (size_t)n, sizeof *order, by_key);
}

/* ---- texts ---- */

/* Texts of one sample, which run together. */
typedef struct texts {
    rs_inputs inputs;
    int64_t begin[RS_REMOVAL_TEXTS + 1], memory_begin[RS_REMOVAL_TEXTS + 1];
    rs_removal_curve *curve_of[RS_REMOVAL_TEXTS];
    int step_of[RS_REMOVAL_TEXTS];
} texts;

/* Step k of an order: the first round(k n / 10) of it are there (insert), or are not (remove). */
static void write_text(int32_t *ids, const int32_t *own, const ranked *order, int64_t n, int step,
                       rs_removal_order how, int32_t stand_in)
{
    int64_t first = (2 * step * n + RS_REMOVAL_STEPS - 1) / (2 * (RS_REMOVAL_STEPS - 1));
    for (int64_t i = 0; i < n; i++) {
        bool there = (i < first) == (how == RS_REMOVAL_INSERT);
        ids[order[i].token] = there ? own[order[i].token] : stand_in;
    }
}

/* All texts but those of methods that are not there; each of n tokens. */
static void write_texts(texts *t, rs_removal *removal, ranked *order, const rs_relevance_work *w,
                        const rs_inputs *one, int64_t sample,
                        const double *const scores[RS_REMOVAL_METHODS])
{
    int64_t n = one->longest;
    for (rs_removal_method m = 0; m < RS_REMOVAL_METHODS; m++)
        for (rs_removal_order how = 0; how < RS_REMOVAL_ORDERS; how++) {
            if (!scores[m] && m != RS_REMOVAL_RANDOM) continue;
            rank_tokens(order, scores[m], how, n, w->request->seed, sample);
            removal->of[m][how].samples++;
            for (int step = 0; step < RS_REMOVAL_STEPS; step++) {
                int64_t k = t->inputs.samples++;
                write_text(t->inputs.ids + k * n, one->ids, order, n, step, how,
                           w->request->stand_in);
                t->begin[k + 1] = (k + 1) * n;
                t->curve_of[k] = &removal->of[m][how];
                t->step_of[k] = step;
            }
        }
}

/* Every text reads the sample's memory: as many copies. */
static rs_status copy_memory(texts *t, const rs_inputs *one, rs_error *err)
{
    size_t numbers;
    if (!one->memory) return RS_OK;
    numbers = (size_t)(one->memory_begin[1] * one->d_model);
    t->inputs.memory = rs_malloc((size_t)t->inputs.samples * numbers + 1, sizeof(double));
    if (!t->inputs.memory) return rs_fail_memory(err, "removal", numbers * sizeof(double));
    for (int64_t k = 0; k < t->inputs.samples; k++) {
        memcpy(t->inputs.memory + (size_t)k * numbers, one->memory, numbers * sizeof(double));
        t->memory_begin[k + 1] = (k + 1) * one->memory_begin[1];
    }
    t->inputs.memory_begin = t->memory_begin;
    return RS_OK;
}

/* ---- curves ---- */

static void add_values(const texts *t, const double *values, double explained)
{
    for (int64_t k = 0; k < t->inputs.samples; k++) {
        t->curve_of[k]->output[t->step_of[k]] += values[k];
        t->curve_of[k]->distance[t->step_of[k]] += fabs(values[k] - explained);
    }
}

/* The rooms: ids [RS_REMOVAL_TEXTS, n], states [RS_REMOVAL_TEXTS, d_model], values [RS_REMOVAL_TEXTS], order [n]. */
typedef struct rooms {
    double *states, *values;
    ranked *order;
} rooms;

static rs_status run_texts(texts *t, const rooms *r, const rs_relevance_work *w,
                           const rs_inputs *one, const rs_explained *e, rs_error *err)
{
    RS_TRY(copy_memory(t, one, err));
    RS_TRY(rs_final_rows(r->states, w, &t->inputs, e->row, err));
    RS_TRY(rs_head_outputs(r->values, w, r->states, t->inputs.samples, e->output, err));
    add_values(t, r->values, e->explained);
    return RS_OK;
}

rs_status rs_removal_add(rs_removal *removal, const rs_relevance_work *w, const rs_inputs *one,
                         const rs_explained *explained,
                         const double *const scores[RS_REMOVAL_METHODS], rs_error *err)
{
    int64_t n = one->longest;
    size_t d = (size_t)w->network->d_model;
    texts t = {.inputs = {.kind = "tokens", .longest = n, .shortest = n, .d_model = one->d_model}};
    rooms r = {.states = rs_malloc(RS_REMOVAL_TEXTS * d + 1, sizeof *r.states),
               .values = rs_malloc(RS_REMOVAL_TEXTS, sizeof *r.values),
               .order = rs_malloc((size_t)n + 1, sizeof *r.order)};
    t.inputs.ids = rs_malloc(RS_REMOVAL_TEXTS * (size_t)n + 1, sizeof *t.inputs.ids);
    t.inputs.begin = t.begin;
    rs_status status =
        r.states && r.values && r.order && t.inputs.ids
            ? RS_OK
            : rs_fail_memory(err, "removal", RS_REMOVAL_TEXTS * (size_t)n * sizeof(int32_t));
    if (status == RS_OK) {
        write_texts(&t, removal, r.order, w, one, explained->sample, scores);
        status = run_texts(&t, &r, w, one, explained, err);
    }
    rs_free(r.states);
    rs_free(r.values);
    rs_free(r.order);
    rs_free(t.inputs.ids);
    rs_free(t.inputs.memory);
    return status;
}
