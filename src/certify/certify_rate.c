/* certify_rate.c: which law of collapse a layer follows on a sample, with the evidence
 * (docs/theory/collapse.md, 9 and 10). Measured and predicted, not certified. */
#include "certify/certify_parts.h"

#include "network/op_traits.h"

#include <math.h>

/* How well a law has to give the next residual matrix, and the factor by which it shrinks. */
static const double AGREES = 0.25, NEAR_LAW = 0.125, SHRINKS = 0.95;

static double largest_second(const rs_certify_pass *pass, int64_t s, int32_t l)
{
    const rs_branch *mixer = rs_layer_mixer(&pass->network->layers[l]);
    const rs_layer *layer = &pass->network->layers[l];
    double most = NAN;
    const rs_certify_head *heads = rs_pass_heads(pass, s, l, mixer - layer->branches);
    for (int32_t h = 0; h < rs_branch_proved_heads(mixer); h++)
        most = fmax(most, heads[h].second);
    return most;
}

static bool near(double rate, double law)
{
    return fabs(rate - law) <= NEAR_LAW * law;
}

/* Which linear law the factor that was measured follows. The eigenvalue alone says little: a value
 * matrix turns a layer of second eigenvalue 1/2 into one that keeps 0.06 or 0.86. */
static rs_rate linear(const rs_certify_pass *pass, int64_t s, int32_t l, rs_rate rate,
                      const rs_certify_prediction *predicted)
{
    const rs_branch *mixer = rs_layer_mixer(&pass->network->layers[l]);
    bool causal = rs_branch_traits(mixer)->causal(mixer), matrix = predicted->error <= AGREES;
    rate.law = largest_second(pass, s, l);
    if (causal && near(rate.law, 0.5) && near(rate.measured, 0.5) &&
        (matrix || predicted->reason)) {
        rate.class = "causal_half";
        rate.evidence = matrix ? "half of the residual is left, and the causal linear law gives "
                                 "its matrix"
                               : "half of the residual is left, and the second eigenvalue of the "
                                 "causal mixing matrices is near 1/2";
    } else if (causal && matrix) {
        rate.class = "linear";
        rate.evidence = "the causal linear law gives the next residual matrix; rate_law leaves the "
                        "values out";
    } else if (near(rate.measured, rate.law) && predicted->reason) {
        rate.class = "linear";
        rate.evidence = "the residual shrinks by the second eigenvalue of the mixing matrices";
    } else {
        rate.evidence = isnan(rate.law) ? "no eigenvalue of the mixing matrices was found"
                        : near(rate.measured, rate.law)
                            ? "the residual shrinks as if by the second eigenvalue of the mixing "
                              "matrices, but the causal linear law does not give its matrix"
                            : "the residual shrinks, not by the second eigenvalue of "
                              "the mixing matrices";
    }
    return rate;
}

rs_rate rs_certify_rate(const rs_certify_pass *pass, const rs_certify_prediction *predicted,
                        int64_t s, int32_t l)
{
    const rs_layer *layer = &pass->network->layers[l];
    const rs_certify_state *in = rs_pass_state(pass, s, l), *out = rs_pass_state(pass, s, l + 1);
    rs_rate rate = {.class = "none",
                    .measured = out->relative_residual / in->relative_residual,
                    .predicted = predicted->residual / out->norm_fro / in->relative_residual,
                    .law = NAN,
                    .evidence = "the tokens do not draw together here"};
    const rs_branch *mixer = rs_layer_mixer(layer);
    if (!in->finite || !out->finite) {
        rate.measured = rate.predicted = NAN;
        rate.evidence = "not finite";
    } else if (in->equal || in->diameter == 0) {
        rate.measured = rate.predicted = NAN;
        rate.evidence = "the tokens are equal already";
    } else if (in->at_floor) {
        rate.measured = rate.predicted = NAN;
        rate.evidence = "the entering residual is rounding";
    } else if (!mixer || !rs_branch_plain_attention(mixer) || mixer->scale == 0) {
        rate.evidence = "no attention in this layer";
    } else if (rs_layer_unproved(layer)) {
        rate.evidence = rs_layer_unproved(layer);
    } else if (mixer->skip != 0) {
        rate.evidence = rate.measured < SHRINKS
                            ? "the skip carries the residual; it shrinks beside "
                              "the mean all the same"
                            : "the skip carries the residual";
    } else if (!predicted->reason && predicted->error <= AGREES &&
               !rs_branch_traits(mixer)->not_bilinear(mixer)) {
        rate.class = "cubic";
        rate.evidence = "the cubic law gives the next residual matrix";
    } else if (out->at_floor) {
        rate.evidence = "the residual falls to rounding within this layer";
    } else if (rs_branch_traits(mixer)->not_bilinear(mixer) && rate.measured < SHRINKS) {
        rate = linear(pass, s, l, rate, predicted);
    } else if (rate.measured < SHRINKS) {
        rate.evidence = "the residual shrinks, by no law of small residuals";
    }
    return rate;
}
