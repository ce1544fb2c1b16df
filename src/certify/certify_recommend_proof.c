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

/* The listeners of a candidate's network. */
typedef struct proving {
    rs_certify_scene scene;
    rs_network *network;
    rs_certify_hearing heard;
} proving;

static rs_status hear_network(proving *p, const rs_recommended *r, const rs_recommending *w,
                              rs_error *err)
{
    RS_TRY(rs_recommend_candidate(&p->network, r, w, err));
    p->scene = *w->scene;
    p->scene.network = p->network; /* the norms are of weights alone */
    RS_TRY(rs_certify_hearing_open(&p->heard, &p->scene, false, err));
    RS_TRY(rs_certify_hear(&p->heard, w->weights, err));
    RS_TRY(rs_certify_mark_floor(p->heard.pass, err));
    return rs_certify_lambda_finish(p->heard.lambda, err);
}

rs_status rs_recommend_prove(rs_recommended *r, const rs_recommending *w, rs_error *err)
{
    proving p = {.network = NULL};
    rs_status status = hear_network(&p, r, w, err);
    r->cases = r->proved = 0;
    for (int32_t l = 0; status == RS_OK && l < w->layers; l++)
        if (!isnan(w->own[l])) take_layer(r, l, p.heard.lambda);
    rs_certify_hearing_close(&p.heard);
    rs_network_close(p.network);
    return status;
}
