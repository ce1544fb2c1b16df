/* certify_recommend.c: `certify --recommend KEPT` from beginning to end. */
#include "certify/certify_recommend.h"

#include "network/op_traits.h"
#include "report/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FURTHEST 1e6 /* the largest |λ| that is tried */
/* Decades that a state may grow by through its skips: of the 308 that doubles have, the rest is for
 * what enters and what branches add. */
#define MOST_DECADES 280

const char *rs_recommend_kind_name(rs_recommend_kind kind)
{
    static const char *const names[] = {[RS_RECOMMEND_NONE] = "none",
                                        [RS_RECOMMEND_POSITIVE] = "one λ, positive side",
                                        [RS_RECOMMEND_NEGATIVE] = "one λ, negative side",
                                        [RS_RECOMMEND_LAYERS] = "per layer"};
    return names[kind];
}

/* ---- what there is to change ---- */

/* λ of each layer's first mixer that has a skip, as --lambda would change it. */
static void read_own(rs_recommending *w)
{
    const rs_network *network = w->scene->network;
    double sum = 0, least = INFINITY, most = -INFINITY;
    for (int32_t l = 0; l < w->layers; l++) {
        const rs_layer *layer = &network->layers[l];
        w->own[l] = NAN;
        w->branches += (size_t)layer->n_branches;
        for (int32_t b = layer->n_branches - 1; b >= 0; b--)
            if (rs_recommend_is_mixer(&layer->branches[b])) w->own[l] = layer->branches[b].skip;
        if (isnan(w->own[l])) continue;
        w->mixers++;
        sum += w->own[l];
        least = fmin(least, w->own[l]);
        most = fmax(most, w->own[l]);
    }
    w->centre = least == most ? least : sum / (w->mixers ? w->mixers : 1);
}

static rs_status refuse(const char *hint, const char *what, rs_error *err)
{
    return rs_fail(err, RS_E_BAD_OPTION, "--recommend", hint, "%s", what);
}

static rs_status check_scene(const rs_recommending *w, rs_error *err)
{
    const rs_edit *edit = &w->scene->options->edit;
    if (edit->no_skip || edit->no_mixer_skip)
        return refuse("say --lambda 0 or --lambda mixer:0 (and --no-mlp) instead",
                      "it changes skips that --no-skip or the variant has taken away", err);
    if (w->scene->inputs->memory)
        return rs_fail(err, RS_E_UNSUPPORTED, "--recommend", NULL,
                       "a search runs many λ in one pass, which reads no other model's states");
    if (w->mixers == 0) return refuse(NULL, "this network has no mixer with a skip", err);
    return RS_OK;
}

/* The largest |λ| that is tried: float64 must hold the product of λ over the layers. */
static rs_status set_limit(rs_recommending *w, rs_error *err)
{
    double *lambdas = rs_arena_alloc(w->arena, (size_t)w->layers, sizeof *lambdas);
    double *room = rs_arena_alloc(w->arena, w->branches, sizeof *room);
    if (!lambdas || !room) return rs_fail_memory(err, "recommendation", 0);
    w->limit = FURTHEST * 1.25;
    do {
        w->limit /= 1.25;
        for (int32_t l = 0; l < w->layers; l++)
            lambdas[l] = isnan(w->own[l]) ? (double)NAN : w->limit;
    } while (w->limit > 1 && rs_recommend_decades(w, lambdas, room) > MOST_DECADES);
    return RS_OK;
}

static rs_status open_scene(rs_recommending *w, rs_error *err)
{
    const rs_certify_scene *scene = w->scene;
    w->layers = scene->network->n_layers;
    w->arena = rs_arena_new();
    if (!w->arena) return rs_fail_memory(err, "recommendation", 0);
    w->own = rs_arena_alloc(w->arena, (size_t)w->layers, sizeof *w->own);
    if (!w->own) return rs_fail_memory(err, "recommendation", 0);
    read_own(w);
    RS_TRY(check_scene(w, err));
    for (int64_t s = 0; s < scene->inputs->samples; s++)
        w->samples += scene->inputs->begin[s + 1] > scene->inputs->begin[s];
    for (int k = 0; k < RS_RECOMMEND_KINDS; k++) {
        w->of[k].layers = rs_arena_alloc(w->arena, (size_t)w->layers, sizeof *w->of[k].layers);
        if (!w->of[k].layers) return rs_fail_memory(err, "recommendation", 0);
        w->of[k].lambda = w->of[k].falls_short = w->of[k].logits = w->of[k].loss = NAN;
    }
    RS_TRY(rs_weights_open(&w->weights, RS_PRECISION_F64, rs_weight_limit(scene->context), err));
    return set_limit(w, err);
}

/* ---- what a candidate costs ---- */

/* The words that make it: "mixer:1.5", or one number a layer. */
static rs_status name_option(rs_recommended *r, const rs_recommending *w, rs_error *err)
{
    size_t size = 8 + (size_t)w->layers * (RS_NUMBER_SIZE + 1), used = 0;
    char *text = rs_arena_alloc(w->arena, size, 1), number[RS_NUMBER_SIZE];
    if (!text) return rs_fail_memory(err, "recommendation", size);
    used = (size_t)snprintf(text, size, "mixer:");
    for (int32_t l = 0; l < w->layers; l++) {
        double lambda = isnan(r->lambda) ? r->layers[l].lambda : r->lambda;
        rs_number_format(number, isnan(lambda) ? 0 : lambda); /* 0: the layer has no mixer */
        used += (size_t)snprintf(text + used, size - used, "%s%s", l ? "," : "", number);
        if (!isnan(r->lambda)) break;
    }
    r->option = text;
    return RS_OK;
}

static void measure_change(rs_recommended *r, const rs_recommending *w)
{
    double squares = 0;
    for (int32_t l = 0; l < w->layers; l++) {
        if (isnan(w->own[l])) continue;
        double change = r->layers[l].lambda - w->own[l];
        squares += change * change;
        r->most_change = fmax(r->most_change, fabs(change));
    }
    r->change = sqrt(squares / w->mixers);
}

static rs_status price(rs_recommended *r, const rs_recommending *w, rs_error *err)
{
    measure_change(r, w);
    RS_TRY(name_option(r, w, err));
    RS_TRY(rs_recommend_logits(r, w, err));
    return rs_recommend_prove(r, w, err);
}

/* ---- all in turn ---- */

static rs_status measure_own(rs_recommending *w, rs_error *err)
{
    rs_recommended *own = &w->of[RS_RECOMMEND_NONE];
    own->tried = true;
    own->lambda = w->centre;
    for (int32_t l = 0; l < w->layers; l++) {
        own->layers[l].lambda = w->own[l];
        if (!isnan(w->own[l]) && w->own[l] != w->centre) own->lambda = NAN; /* they differ */
    }
    RS_TRY(rs_recommend_run(own, w, err));
    own->found = rs_recommend_enough(w, own->relative);
    if (w->scene->network->head.decoder.weight) own->logits = 0;
    if (!own->found) own->failed = "it keeps less than is asked for";
    if (isnan(own->relative))
        own->failed =
            "a sample has no relative μ behind the last layer: 'rankscope probe' says why";
    return rs_recommend_prove(own, w, err);
}

static rs_status recommend_all(rs_recommending *w, rs_error *err)
{
    const rs_recommended *own = &w->of[RS_RECOMMEND_NONE], *nearest = NULL;
    RS_TRY(open_scene(w, err));
    RS_TRY(measure_own(w, err));
    if (own->found || w->samples == 0) return RS_OK;
    RS_TRY(rs_recommend_one(w, err));
    for (int k = RS_RECOMMEND_POSITIVE; k <= RS_RECOMMEND_NEGATIVE; k++) {
        rs_recommended *r = &w->of[k];
        if (!r->found) continue;
        RS_TRY(price(r, w, err));
        if (!nearest || r->change < nearest->change) nearest = r;
    }
    w->of[RS_RECOMMEND_LAYERS].tried = true;
    w->of[RS_RECOMMEND_LAYERS].failed = "there is no one λ to start from";
    if (!nearest) return RS_OK;
    w->of[RS_RECOMMEND_LAYERS].failed = NULL;
    RS_TRY(rs_recommend_each(w, nearest, err));
    return w->of[RS_RECOMMEND_LAYERS].found ? price(&w->of[RS_RECOMMEND_LAYERS], w, err) : RS_OK;
}

rs_status rs_certify_recommend(rs_result *result, const rs_certify_scene *scene, rs_error *err)
{
    rs_recommending w = {.scene = scene, .kept = scene->options->recommend};
    rs_status status = recommend_all(&w, err);
    if (status == RS_OK) status = rs_recommend_tables(result, &w, err);
    rs_weights_close(w.weights);
    rs_arena_free(w.arena);
    return status;
}
