/* certify_hearing.c: the listeners of one float64 pass, opened, heard and closed together: of the
 * model that is certified, and of each one that a recommendation tries. */
#include "certify/certify_gather.h"

rs_status rs_certify_hearing_open(rs_certify_hearing *out, const rs_certify_scene *scene, bool law,
                                  rs_error *err)
{
    *out = (rs_certify_hearing){.scene = scene};
    RS_TRY(rs_certify_gather_open(&out->gather, scene, err));
    out->pass = rs_certify_gather_pass(out->gather);
    if (law) RS_TRY(rs_certify_predict_open(&out->predict, scene, out->pass, err));
    return rs_certify_lambda_open(&out->lambda, scene, out->pass, err);
}

size_t rs_certify_hearing_listeners(rs_listener *out[RS_CERTIFY_LISTENERS],
                                    const rs_certify_hearing *hearing)
{
    size_t n = 0;
    out[n++] = rs_certify_gather_listener(hearing->gather);
    if (hearing->predict) out[n++] = rs_certify_predict_listener(hearing->predict);
    out[n++] = rs_certify_lambda_listener(hearing->lambda);
    return n;
}

rs_status rs_certify_hear(const rs_certify_hearing *hearing, rs_weights *weights, rs_error *err)
{
    const rs_certify_scene *scene = hearing->scene;
    rs_listener *listeners[RS_CERTIFY_LISTENERS + 1];
    const rs_pass_plan plan = {.network = scene->network,
                               .inputs = scene->inputs,
                               .precision = RS_PRECISION_F64,
                               .weights = weights,
                               .capacity = scene->capacity,
                               .phase = "certify"};
    size_t n = rs_certify_hearing_listeners(listeners, hearing);
    if (hearing->guest) listeners[n++] = hearing->guest;
    return rs_observe_pass(NULL, &plan, listeners, n, scene->context, err);
}

void rs_certify_hearing_close(rs_certify_hearing *hearing)
{
    rs_certify_lambda_close(hearing->lambda);
    rs_certify_predict_close(hearing->predict);
    rs_certify_gather_close(hearing->gather);
}
