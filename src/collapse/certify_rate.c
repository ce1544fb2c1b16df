/* certify_rate.c: which law of collapse a layer follows on a sample, with the evidence
 * (dong2021.md 2.9, 6.4). Measured and predicted, not certified. */
#include "collapse/certify_parts.h"

#include <math.h>

/* How well the law has to give the next residual matrix, and how near a rate is to 1/2. */
static const double AGREES = 0.25, NEAR_HALF = 0.05, SHRINKS = 0.95;

static double largest_second(const rs_certify_pass *pass, int64_t s, int32_t l)
{
    const rs_branch *mixer = rs_layer_mixer(&pass->network->layers[l]);
    const rs_layer *layer = &pass->network->layers[l];
    double most = NAN;
    const rs_certify_head *heads = rs_pass_heads(pass, s, l, mixer - layer->branches);
    for (int32_t h = 0; h < mixer->attention.heads; h++)
        most = fmax(most, heads[h].second);
    return most;
}

static rs_rate linear(const rs_certify_pass *pass, int64_t s, int32_t l, rs_rate rate,
                      const rs_certify_prediction *predicted)
{
    const rs_branch *mixer = rs_layer_mixer(&pass->network->layers[l]);
    bool causal = mixer->attention.causal;
    rate.law = largest_second(pass, s, l);
    if (isnan(rate.law)) {
        rate.evidence = "no eigenvalue of the mixing matrices was found";
        return rate;
    }
    bool half = causal && fabs(rate.law - 0.5) <= NEAR_HALF;
    if (half && (predicted->error <= AGREES || predicted->reason)) {
        rate.class = "causal_half";
        rate.evidence = predicted->reason
                            ? "causal mixing matrices whose second eigenvalue is near 1/2"
                            : "the causal linear law gives the next residual matrix";
        return rate;
    }
    rate.class = "linear";
    rate.evidence = causal
                        ? "causal mask: the second eigenvalue of the mixing matrices"
                        : "positions in the logits: the second eigenvalue of the mixing matrices";
    return rate;
}

rs_rate rs_certify_rate(const rs_certify_pass *pass, int64_t s, int32_t l)
{
    const rs_layer *layer = &pass->network->layers[l];
    const rs_certify_state *in = rs_pass_state(pass, s, l), *out = rs_pass_state(pass, s, l + 1);
    const rs_certify_prediction *predicted = &pass->predictions[s * pass->network->n_layers + l];
    rs_rate rate = {.class = "none",
                    .measured = out->relative_residual / in->relative_residual,
                    .law = NAN,
                    .evidence = "the tokens do not draw together here"};
    const rs_branch *mixer = rs_layer_mixer(layer);
    if (in->equal || in->diameter == 0) {
        rate.measured = NAN;
        rate.evidence = "the tokens are equal already";
    } else if (!in->finite || !out->finite) {
        rate.measured = NAN;
        rate.evidence = "not finite";
    } else if (in->at_floor) {
        rate.measured = NAN;
        rate.evidence = "the entering residual is rounding";
    } else if (!mixer || mixer->scale == 0) {
        rate.evidence = "no attention in this layer";
    } else if (mixer->skip != 0) {
        rate.evidence = rate.measured < SHRINKS
                            ? "the skip carries the residual; it shrinks beside "
                              "the mean all the same"
                            : "the skip carries the residual";
    } else if (!predicted->reason && predicted->error <= AGREES &&
               !rs_not_bilinear(&mixer->attention)) {
        rate.class = "cubic";
        rate.evidence = "the cubic law gives the next residual matrix";
    } else if (out->at_floor && !rs_not_bilinear(&mixer->attention)) {
        rate.evidence = "the residual falls to rounding within this layer";
    } else if (rs_not_bilinear(&mixer->attention) && !mixer->attention.cross &&
               rate.measured < SHRINKS) {
        rate = linear(pass, s, l, rate, predicted);
    } else if (rate.measured < SHRINKS) {
        rate.evidence = "the residual shrinks, by no law of small residuals";
    }
    return rate;
}
