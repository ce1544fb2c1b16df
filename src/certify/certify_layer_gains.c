/* certify_layer_gains.c: what all branches that share one skip can add together, from their
 * weights: parallel branches are summed. */
#include "certify/certify_lambda_parts.h"

#include "base/memory.h"
#include "network/op_traits.h"
#include "proof/lambda_span.h"

#include <math.h>

static rs_lambda_number no_number(const char *failed)
{
    return (rs_lambda_number){NAN, false, failed};
}

/* ---- one branch ---- */

static rs_status attention_gain(rs_lambda_number *out, const rs_certify_scene *scene, int32_t l,
                                int32_t b, double *scratch, rs_error *err)
{
    const rs_branch *branch = &scene->network->layers[l].branches[b];
    size_t heads = (size_t)scene->norms->layers[l].branches[b].n_heads;
    *out = no_number(rs_branch_unproved(branch));
    if (!rs_branch_plain_attention(branch)) return RS_OK;
    double *read = rs_malloc(heads + 1, 2 * sizeof *read);
    if (!read) return rs_fail_memory(err, "table lambda", heads * sizeof *read);
    *out =
        rs_certify_attention_gain(read, read + heads, scene->network, scene->norms, l, b, scratch);
    rs_free(read);
    return RS_OK;
}

rs_status rs_certify_branch_gain(rs_lambda_number *out, const rs_certify_scene *scene, int32_t l,
                                 int32_t b, double *scratch, rs_error *err)
{
    const rs_network *network = scene->network;
    const rs_branch *branch = &network->layers[l].branches[b];
    if (branch->scale == 0) {
        *out = (rs_lambda_number){0, true, NULL};
        return RS_OK;
    }
    if (rs_branch_attention(branch)) return attention_gain(out, scene, l, b, scratch, err);
    if (!rs_branch_mlp(branch))
        return rs_certify_mixer_gain(out, network, l, b, scene->inputs->longest, err);
    *out = rs_certify_mlp_gain(network, scene->norms, l, b, scratch);
    return RS_OK;
}

/* ---- a layer ---- */

const rs_branch *rs_certify_last_on_skip(const rs_layer *layer, const rs_branch *mixer)
{
    const rs_branch *last = mixer, *end = layer->branches + layer->n_branches;
    while (last + 1 < end && last[1].joins && last[1].skip == 1 && last->after.kind == RS_NORM_NONE)
        last++;
    return last;
}

/* The mixer and those behind it that read the same tokens: X ← λX + o, then X ← λ'X + o' for each
 * that joins, so that what came before is multiplied by the later skips. */
static rs_status sum_of(rs_lambda_number *out, const rs_certify_scene *scene, int32_t l,
                        double *scratch, rs_error *err)
{
    const rs_layer *layer = &scene->network->layers[l];
    const rs_branch *mixer = rs_layer_mixer(layer);
    rs_span sum = rs_span_of(0);
    *out = no_number("a mixer");
    if (!mixer) return RS_OK;
    for (int32_t b = (int32_t)(mixer - layer->branches); b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        rs_lambda_number one;
        if (branch != mixer && !branch->joins) break;
        if (branch != mixer && (branch - 1)->after.kind != RS_NORM_NONE) {
            *out = no_number("no norm between branches that share a skip");
            return RS_OK;
        }
        RS_TRY(rs_certify_branch_gain(&one, scene, l, b, scratch, err));
        if (!one.valid) {
            *out = one;
            return RS_OK;
        }
        if (branch != mixer) sum = rs_span_mul(sum, rs_span_of(fabs(branch->skip)));
        sum = rs_span_add(sum, rs_span_of(one.value));
        if (branch == mixer) sum.high = one.value; /* 0 + c */
    }
    *out = (rs_lambda_number){sum.high, isfinite(sum.high), NULL};
    if (!out->valid) *out = no_number("norms of the weights that are doubles");
    return RS_OK;
}

rs_status rs_certify_sum_gains(rs_certify_gains *gains, const rs_certify_scene *scene,
                               rs_error *err)
{
    const rs_network *network = scene->network;
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel for num_threads(scene->context->threads) schedule(dynamic)
    for (int32_t l = 0; l < network->n_layers; l++) {
        rs_error error = {0};
        gains->sums[l] = no_number("a mixer without softmax");
        const rs_layer *layer = &network->layers[l];
        const rs_branch *mixer = rs_layer_mixer(layer);
        bool alone = !mixer || rs_certify_last_on_skip(layer, mixer) == mixer;
        if (alone && !rs_layer_unproved(layer)) continue;
        rs_status status = rs_check_cancelled(scene->context, &error);
        double *scratch = rs_malloc((size_t)network->d_model + 1, sizeof *scratch);
        if (status == RS_OK && !scratch) status = rs_fail_memory(&error, "table lambda", 0);
        if (status == RS_OK) status = sum_of(&gains->sums[l], scene, l, scratch, &error);
        rs_free(scratch);
        if (status != RS_OK) rs_keep_first(&kept, &kept_error, status, &error);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}
