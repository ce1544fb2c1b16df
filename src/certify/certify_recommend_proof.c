/* certify_recommend_proof.c: what each mixer provably keeps at recommended λ, as table lambda has
 * it. */
#include "certify/certify_parts.h"
#include "certify/certify_recommend.h"

#include <math.h>

/* What is certified of a mixer on a sample: it keeps at least this. Returns why there is none. */
static const char *proved_of(double *at_least, const rs_lambda_row *row)
{
    *at_least = NAN;
    if (row->nonfinite) return "what enters or is added is not finite";
    if (row->condition) return row->condition;
    if (row->at_floor) return "the tokens that enter differ by rounding alone";
    if (row->failed_kept) return row->failed_kept;
    if (!isfinite(row->kept_now) || !(row->kept_now_error >= 0) || !isfinite(row->kept_now_error))
        return "no bound of its rounding is known";
    *at_least = fmax(nextafter(row->kept_now - row->kept_now_error, -INFINITY), 0);
    return NULL;
}

static void take_layer(rs_recommended *r, int32_t l, const rs_certify_lambda *lambda)
{
    rs_recommend_layer *layer = &r->layers[l];
    bool any = false;
    layer->proved = layer->kept = NAN;
    layer->unproved = NULL;
    for (int64_t s = 0; s < rs_certify_lambda_samples(lambda); s++) {
        const rs_lambda_row *row = rs_certify_lambda_row(lambda, s, l);
        double at_least;
        if (!row->told && !row->nonfinite) continue; /* a token, or tokens that are all the same */
        const char *why = proved_of(&at_least, row);
        any = true;
        r->cases++;
        r->proved += !why;
        if (why && !layer->unproved) layer->unproved = why;
        layer->proved = fmin(layer->proved, at_least);
        layer->kept = fmin(layer->kept, row->kept_now);
    }
    if (layer->unproved) layer->proved = NAN;
    if (!any) layer->unproved = "in no sample two tokens differ as they enter its mixer";
}

/* The listeners that table lambda needs, over a network of its own. */
typedef struct proving {
    rs_certify_scene scene;
    rs_network *network;
    rs_certify_gather *gather;
    rs_certify_lambda *lambda;
} proving;

static rs_status hear_network(proving *p, const rs_recommended *r, const rs_recommending *w,
                              rs_error *err)
{
    double *lambdas = rs_arena_alloc(w->arena, (size_t)w->layers, sizeof *lambdas);
    if (!lambdas) return rs_fail_memory(err, "recommendation", 0);
    for (int32_t l = 0; l < w->layers; l++)
        lambdas[l] = r->layers[l].lambda;
    RS_TRY(rs_recommend_network(&p->network, w, lambdas, err));
    p->scene = *w->scene;
    p->scene.network = p->network; /* the norms are of weights alone */
    RS_TRY(rs_certify_gather_open(&p->gather, &p->scene, err));
    rs_certify_pass *pass = rs_certify_gather_pass(p->gather);
    RS_TRY(rs_certify_lambda_open(&p->lambda, &p->scene, pass, err));
    rs_listener *listeners[] = {rs_certify_gather_listener(p->gather),
                                rs_certify_lambda_listener(p->lambda)};
    const rs_pass_plan plan = {.network = p->network,
                               .inputs = p->scene.inputs,
                               .precision = RS_PRECISION_F64,
                               .weights = w->weights,
                               .capacity = p->scene.capacity,
                               .phase = "certify"};
    RS_TRY(rs_observe_pass(NULL, &plan, listeners, 2, p->scene.context, err));
    RS_TRY(rs_certify_mark_floor(pass, err));
    return rs_certify_lambda_finish(p->lambda, err);
}

rs_status rs_recommend_prove(rs_recommended *r, const rs_recommending *w, rs_error *err)
{
    proving p = {0};
    rs_status status = hear_network(&p, r, w, err);
    r->cases = r->proved = 0;
    for (int32_t l = 0; status == RS_OK && l < w->layers; l++)
        if (!isnan(w->own[l])) take_layer(r, l, p.lambda);
    rs_certify_lambda_close(p.lambda);
    rs_certify_gather_close(p.gather);
    rs_network_close(p.network);
    return status;
}
