/* certify_stretch.c: S of the published theorem (docs/certificates_lambda.md, L10, L14), what the
 * value map C_V of a mixer stretches by at most, and whether the mixer is M X C_V and no more. */
#include "certify/certify_lambda_parts.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "network/op_traits.h"

#include <math.h>

/* The value and output maps of a mixer whose heads each apply a matrix of their own. */
typedef struct value_maps {
    const rs_dense *v, *o;
    int32_t heads, value_heads;
} value_maps;

/* False: its kind has no such maps. */
static bool maps_of(value_maps *out, const rs_branch *mixer)
{
    if (mixer->kind == RS_BRANCH_LINEAR) {
        const rs_linear_op *op = &mixer->linear;
        *out = (value_maps){&op->v, &op->o, op->heads, op->v.weight ? op->kv_heads : 1};
        return true;
    }
    if (mixer->kind == RS_BRANCH_GRAPH) {
        const rs_graph_op *op = &mixer->graph;
        *out = (value_maps){&op->v, &op->o, op->heads, op->value_heads};
        return true;
    }
    return false;
}

/* ‖W‖₂ of a map; `absent` without one. */
static rs_status map_norm(double *out, const rs_dense *map, double absent, rs_error *err)
{
    size_t count;
    *out = absent;
    if (!map->weight) return RS_OK;
    if (!rs_size_mul((size_t)map->out, (size_t)map->in, &count))
        return rs_fail_memory(err, "weights", SIZE_MAX);
    double *w = rs_malloc(count, sizeof *w);
    if (!w) return rs_fail_memory(err, "weights", count * sizeof *w);
    rs_status status = rs_dense_rows(w, NULL, map, 0, map->out, err);
    if (status == RS_OK) status = rs_spectral_bound(out, w, map->out, map->in, err);
    rs_free(w);
    return status;
}

/* Heads that are added up without a map have (1 1 … 1) for it, of norm √heads. */
static rs_status stretch_of_maps(double *out, const value_maps *maps, rs_error *err)
{
    rs_lambda_attention_weights weights = {.heads = maps->heads, .kv_heads = maps->value_heads};
    RS_TRY(map_norm(&weights.value_norm, maps->v, 1, err));
    RS_TRY(map_norm(&weights.output_norm, maps->o, sqrt((double)maps->heads), err));
    *out = rs_lambda_value_gain(&weights);
    return RS_OK;
}

rs_status rs_certify_stretch(double *out, const rs_certify_gains *gains, const rs_network *network,
                             int32_t l, rs_error *err)
{
    const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
    value_maps maps;
    *out = NAN;
    if (!mixer || mixer->scale == 0) return RS_OK;
    if (rs_branch_plain_attention(mixer)) {
        rs_lambda_attention_weights weights = rs_certify_attention_weights(gains, network, l);
        *out = rs_lambda_value_gain(&weights);
    } else if (maps_of(&maps, mixer)) {
        RS_TRY(stretch_of_maps(out, &maps, err));
    } else if (!rs_branch_attention(mixer)) {
        *out = 1; /* as the paper takes state-space mixers: C_V = I */
    }
    *out *= fabs(mixer->scale);
    return RS_OK;
}

/* Why the op gives more than M X C_V; NULL: it does not. */
static const char *op_adds_more(const rs_branch *mixer, const rs_branch_norms *norms)
{
    static const char more[] =
        "a mixer that adds M X C_V alone: no gate, convolution or activation";
    static const char biases[] = "no biases of values and outputs";
    value_maps maps;
    if (rs_branch_plain_attention(mixer)) {
        bool biased = norms->o_bias > 0;
        for (int32_t h = 0; h < norms->n_heads; h++)
            biased = biased || norms->heads[h].v_bias > 0;
        return biased ? biases : NULL;
    }
    if (!maps_of(&maps, mixer)) return more;
    if (mixer->kind == RS_BRANCH_LINEAR &&
        (mixer->linear.gate.weight || mixer->linear.norm.kind != RS_NORM_NONE))
        return more;
    return maps.v->bias || maps.o->bias ? biases : NULL;
}

const char *rs_certify_adds_more(const rs_network *network, const rs_weight_norms *norms, int32_t l)
{
    const rs_layer *layer = &network->layers[l];
    const rs_branch *mixer = rs_layer_mixer(layer);
    if (mixer->before.kind != RS_NORM_NONE || mixer->inside.kind != RS_NORM_NONE)
        return "no norm before or inside the branch";
    for (int32_t b = 0; b < layer->n_branches; b++)
        if (&layer->branches[b] != mixer && layer->branches[b].scale != 0)
            return "no other branch in the layer";
    return op_adds_more(mixer, &norms->layers[l].branches[mixer - layer->branches]);
}
