/*
 * certify_recommend_layers.c: a λ for each layer, from one λ for all that keeps enough.
 *
 * The smallest change that raises a smooth function by so much goes along its gradient. So first the
 * changes are tilted, a few times, towards what a run with a tenth of each taken back says of it;
 * then each layer goes back as near to its own λ as the others allow. Only what was run counts.
 */
#include "certify/certify_recommend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TENTHS = 10,
    TILTS = 4,  /* how much of the change goes along the gradient: quarters */
    SCALES = 8, /* how much of its size is left */
    ROUNDS = 4
};
#define BACK 0.1 /* of a layer's change, taken back to see what it does */
#define SCALE_STEP 0.05
#define WORTH 0.995 /* a tilt must make the change smaller than this of what it was */

/* Lists of λ that are run side by side. */
typedef struct lists {
    double *lambdas; /* [n, layers] */
    double *relative;
    double *pull; /* [layers] what a layer's λ does to relative μ; 0 at least */
} lists;

static rs_status open_lists(lists *p, const rs_recommending *w, rs_error *err)
{
    size_t layers = (size_t)w->layers, points = (size_t)w->mixers + 1;
    if (points < TILTS * SCALES) points = TILTS * SCALES;
    p->lambdas = rs_arena_alloc(w->arena, points * layers, sizeof *p->lambdas);
    p->relative = rs_arena_alloc(w->arena, points, sizeof *p->relative);
    p->pull = rs_arena_alloc(w->arena, layers, sizeof *p->pull);
    return p->lambdas && p->relative && p->pull ? RS_OK : rs_fail_memory(err, "recommendation", 0);
}

/* λ at a change from the own one, in four digits of the change. */
static double few_digits(double own, double change)
{
    char text[40];
    snprintf(text, sizeof text, "%.4g", change);
    double rounded = strtod(text, NULL);
    if (rounded == 0) return own;
    snprintf(text, sizeof text, "%.12g", own + rounded);
    return strtod(text, NULL) + 0.0; /* never -0 */
}

/* n lists like the candidate's. */
static void copy_lists(lists *p, const rs_recommending *w, const rs_recommended *r, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t l = 0; l < w->layers; l++)
            p->lambdas[(int64_t)i * w->layers + l] = r->layers[l].lambda;
}

static rs_status run_lists(lists *p, const rs_recommending *w, int32_t n, rs_error *err)
{
    return rs_recommend_sweep(p->relative, w, p->lambdas, n, err);
}

/* Σ(λ − own λ)² over the layers that have one. */
static double size_of(const rs_recommending *w, const double *lambdas)
{
    double squares = 0;
    for (int32_t l = 0; l < w->layers; l++)
        if (!isnan(w->own[l])) squares += (lambdas[l] - w->own[l]) * (lambdas[l] - w->own[l]);
    return squares;
}

/* ---- along the gradient ---- */

/* Fills `pull`, of root mean square 1; false: nothing pulls. */
static rs_status find_pull(bool *any, lists *p, const rs_recommending *w, const rs_recommended *r,
                           rs_error *err)
{
    int32_t n = 0;
    double squares = 0;
    copy_lists(p, w, r, w->mixers + 1);
    for (int32_t l = 0; l < w->layers; l++)
        if (!isnan(w->own[l]))
            p->lambdas[(int64_t)n++ * w->layers + l] -= BACK * (r->layers[l].lambda - w->own[l]);
    RS_TRY(run_lists(p, w, n + 1, err));
    for (int32_t l = 0, i = 0; l < w->layers; l++) {
        p->pull[l] = 0;
        if (isnan(w->own[l])) continue;
        double change = fabs(r->layers[l].lambda - w->own[l]),
               pull = (p->relative[n] - p->relative[i++]) / change;
        if (change > 0 && pull > 0 && isfinite(pull)) p->pull[l] = pull;
        squares += p->pull[l] * p->pull[l];
    }
    *any = squares > 0;
    for (int32_t l = 0; *any && l < w->layers; l++)
        p->pull[l] /= sqrt(squares / w->mixers);
    return RS_OK;
}

/* Writes the list of a tilt and a scale. */
static void tilt_list(double *lambdas, const lists *p, const rs_recommending *w,
                      const rs_recommended *r, double size, double tilt, double scale)
{
    for (int32_t l = 0; l < w->layers; l++) {
        double change = r->layers[l].lambda - w->own[l];
        double along = copysign(size * p->pull[l], change);
        lambdas[l] = isnan(change)
                         ? (double)NAN
                         : few_digits(w->own[l], scale * ((1 - tilt) * change + tilt * along));
    }
}

/* Takes the smallest of the tilted changes that keep enough; *better: it is smaller. */
static rs_status tilt_once(bool *better, rs_recommended *r, lists *p, const rs_recommending *w,
                           rs_error *err)
{
    double *now = rs_arena_alloc(w->arena, (size_t)w->layers, sizeof *now);
    const double *best = NULL;
    if (!now) return rs_fail_memory(err, "recommendation", 0);
    for (int32_t l = 0; l < w->layers; l++)
        now[l] = r->layers[l].lambda;
    RS_TRY(find_pull(better, p, w, r, err));
    if (!*better) return RS_OK;
    double squares = size_of(w, now), size = sqrt(squares / w->mixers);
    for (int32_t i = 0; i < TILTS * SCALES; i++)
        tilt_list(p->lambdas + (int64_t)i * w->layers, p, w, r, size,
                  (1 + i / SCALES) / (double)TILTS, 1 - SCALE_STEP * (i % SCALES));
    RS_TRY(run_lists(p, w, TILTS * SCALES, err));
    for (int32_t i = 0; i < TILTS * SCALES; i++) {
        const double *list = p->lambdas + (int64_t)i * w->layers;
        if (!rs_recommend_enough(w, p->relative[i])) continue;
        if (size_of(w, list) < (best ? size_of(w, best) : WORTH * WORTH * squares)) best = list;
    }
    *better = best != NULL;
    for (int32_t l = 0; best && l < w->layers; l++)
        r->layers[l].lambda = best[l];
    return RS_OK;
}

/* ---- back towards the own λ ---- */

/* A layer, and what is left at the end when it alone goes back to its own λ. */
typedef struct need {
    int32_t layer;
    double relative;
} need;

/* Those that need the change least come first. */
static int by_need(const void *a, const void *b)
{
    const need *x = a, *y = b;
    if (x->relative != y->relative) return x->relative > y->relative ? -1 : 1;
    return x->layer < y->layer ? -1 : x->layer > y->layer;
}

static rs_status order_layers(need *needs, lists *p, const rs_recommending *w,
                              const rs_recommended *r, rs_error *err)
{
    int32_t n = 0;
    copy_lists(p, w, r, w->mixers);
    for (int32_t l = 0; l < w->layers; l++)
        if (!isnan(w->own[l])) {
            p->lambdas[(int64_t)n * w->layers + l] = w->own[l];
            needs[n++].layer = l;
        }
    RS_TRY(run_lists(p, w, n, err));
    for (int32_t i = 0; i < n; i++)
        needs[i].relative = isnan(p->relative[i]) ? -1 : p->relative[i];
    qsort(needs, (size_t)n, sizeof *needs, by_need);
    return RS_OK;
}

/* Brings one layer as near to its own λ as the others allow, in tenths of the way and then in
 * hundredths. */
static rs_status bring_back(rs_recommended *r, int32_t l, lists *p, const rs_recommending *w,
                            rs_error *err)
{
    double far = r->layers[l].lambda, own = w->own[l], low = 0, step = 1.0 / TENTHS;
    if (far == own) return RS_OK;
    for (int round = 0; round < 2; round++, step /= TENTHS) {
        copy_lists(p, w, r, TENTHS);
        for (int32_t i = 0; i < TENTHS; i++)
            p->lambdas[(int64_t)i * w->layers + l] =
                few_digits(own, (low + i * step) * (far - own));
        RS_TRY(run_lists(p, w, TENTHS, err));
        int32_t i = 0;
        while (i < TENTHS && !rs_recommend_enough(w, p->relative[i]))
            i++;
        if (i < TENTHS) r->layers[l].lambda = p->lambdas[(int64_t)i * w->layers + l];
        if (round == 0 && i == 0) break;
        low += (i - 1) * step;
    }
    return RS_OK;
}

rs_status rs_recommend_each(rs_recommending *w, const rs_recommended *one, rs_error *err)
{
    rs_recommended *r = &w->of[RS_RECOMMEND_LAYERS];
    need *needs = rs_arena_alloc(w->arena, (size_t)w->mixers, sizeof *needs);
    lists p = {0};
    bool better = true;
    if (!needs) return rs_fail_memory(err, "recommendation", 0);
    RS_TRY(open_lists(&p, w, err));
    for (int32_t l = 0; l < w->layers; l++)
        r->layers[l].lambda = one->layers[l].lambda;
    for (int round = 0; round < ROUNDS && better; round++)
        RS_TRY(tilt_once(&better, r, &p, w, err));
    RS_TRY(order_layers(needs, &p, w, r, err));
    for (int32_t i = 0; i < w->mixers; i++)
        RS_TRY(bring_back(r, needs[i].layer, &p, w, err));
    RS_TRY(rs_recommend_run(r, w, err));
    r->found = rs_recommend_enough(w, r->relative);
    if (!r->found)
        r->failed = "points of a sweep keep it and a run by itself does not: rounding decides";
    return RS_OK;
}
