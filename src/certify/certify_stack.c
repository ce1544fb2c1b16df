/* certify_stack.c: what the weights say of all branches of a network, for statements about the
 * whole of it (docs/certificates_lambda.md, L29 and L10). */
#include "certify/certify_lambda_parts.h"

#include "base/memory.h"
#include "network/op_traits.h"
#include "proof/lambda_span.h"

#include <math.h>

/* What one layer says. */
typedef struct layer_bounds {
    double gains[RS_BRANCHES_MAX];
    const char *failed;
    bool mixes;
    double stretch, published;
} layer_bounds;

/* The hypotheses of L29 that need no weights; NULL: they hold. */
static const char *branch_fails(const rs_branch *branch)
{
    if (branch->after.kind != RS_NORM_NONE) return "no norm behind a sum (pre-norm)";
    if (branch->scale != 0 && branch->before.kind == RS_NORM_NONE &&
        branch->inside.kind == RS_NORM_NONE)
        return "a norm before or inside every branch (pre-norm)";
    return NULL;
}

/* S and S C_M of the layer's mixer; room: 2 doubles a head. */
static rs_status published_of(layer_bounds *out, const rs_certify_scene *scene, int32_t l,
                              double *room, double *scratch, rs_error *err)
{
    const rs_network *network = scene->network;
    const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
    const rs_attention_op *op = mixer ? rs_branch_plain_attention(mixer) : NULL;
    out->mixes = mixer && mixer->scale != 0;
    if (!out->mixes || !op) return rs_certify_stretch(&out->stretch, NULL, network, l, err);
    int32_t b = (int32_t)(mixer - network->layers[l].branches);
    double *read = room + op->heads;
    rs_certify_attention_gain(room, read, network, scene->norms, l, b, scratch);
    const rs_lambda_attention_weights weights = {.head_norm = read,
                                                 .heads = op->heads,
                                                 .kv_heads = op->kv_heads,
                                                 .stacked_norm = NAN,
                                                 .value_norm = NAN,
                                                 .output_norm = NAN};
    double scale = fabs(mixer->scale);
    out->stretch = rs_lambda_value_gain(&weights) * scale;
    if (!rs_layer_unproved(&network->layers[l])) /* else its C_M is more than attention's */
        out->published = rs_lambda_published_constant(&weights, scene->inputs->longest, scale);
    return RS_OK;
}

/* L29: behind a norm inside the branch rows are no longer than √d before its gain γ and bias β, whatever
 * the op gave: ‖o‖ ≤ |α|(√d max|γ| + ‖β‖). */
static rs_lambda_number inside_gain(const rs_branch *branch, int64_t d, double *scratch)
{
    rs_gain_norms norm;
    if (branch->inside.dim != d)
        return (rs_lambda_number){NAN, false,
                                  "a norm inside the branch of all its outputs at once"};
    rs_gain_norms_of(&norm, scratch, &branch->inside);
    double bias = rs_up(norm.bias / rs_down(sqrt((double)d)));
    double gain = rs_times_up(rs_up(norm.largest + bias), fabs(branch->scale));
    bool known = isfinite(gain);
    return (rs_lambda_number){gain, known, known ? NULL : "norms of the weights that are doubles"};
}

static rs_status branch_gain(rs_lambda_number *out, const rs_certify_scene *scene, int32_t l,
                             int32_t b, double *scratch, rs_error *err)
{
    const rs_branch *branch = &scene->network->layers[l].branches[b];
    if (branch->scale == 0 || branch->inside.kind == RS_NORM_NONE)
        return rs_certify_branch_gain(out, scene, l, b, scratch, err);
    *out = inside_gain(branch, scene->network->d_model, scratch);
    return RS_OK;
}

/* failed: the stack's hypotheses fail already, and no gain is wanted. */
static rs_status bound_layer(layer_bounds *out, const rs_certify_scene *scene, int32_t l,
                             const char *failed, rs_error *err)
{
    const rs_network *network = scene->network;
    const rs_layer *layer = &network->layers[l];
    size_t heads = 1, d = (size_t)network->d_model;
    *out = (layer_bounds){.failed = failed, .stretch = NAN, .published = NAN};
    for (int32_t b = 0; b < layer->n_branches; b++)
        heads += (size_t)rs_branch_proved_heads(&layer->branches[b]);
    double *room = rs_malloc(2 * heads + d, sizeof *room);
    if (!room) return rs_fail_memory(err, "gains of branches", 2 * heads + d);
    rs_status status = rs_check_cancelled(scene->context, err);
    if (status == RS_OK) status = published_of(out, scene, l, room, room + 2 * heads, err);
    for (int32_t b = 0; b < layer->n_branches && status == RS_OK && !out->failed; b++) {
        rs_lambda_number gain;
        status = branch_gain(&gain, scene, l, b, room, err);
        if (status == RS_OK && !gain.valid) out->failed = gain.failed_hypothesis;
        if (status == RS_OK) out->gains[b] = gain.value;
    }
    rs_free(room);
    return status;
}

/* Adds a layer; a NaN of a mixer is larger than any number. */
static void add_layer(rs_stack_bounds *out, double **gain, const layer_bounds *of,
                      const rs_layer *layer)
{
    if (!out->failed) out->failed = of->failed;
    for (int32_t b = 0; b < layer->n_branches; b++)
        *(*gain)++ = of->gains[b];
    if (!of->mixes) return;
    if (!(of->stretch <= out->stretch) && !isnan(out->stretch)) out->stretch = of->stretch;
    if (!(of->published <= out->published) && !isnan(out->published))
        out->published = of->published;
}

/* failed: a hypothesis that fails for all of them. */
static rs_status bound_layers(rs_stack_bounds *out, const rs_certify_scene *scene,
                              const char *failed, layer_bounds *layers, rs_error *err)
{
    const rs_network *network = scene->network;
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
    double *gain = out->gains;
    bool mixes = false;
#pragma omp parallel for num_threads(scene->context->threads) schedule(dynamic)
    for (int32_t l = 0; l < network->n_layers; l++) {
        rs_error error = {0};
        rs_status status = bound_layer(&layers[l], scene, l, failed, &error);
        if (status != RS_OK) rs_keep_first(&kept, &kept_error, status, &error);
    }
    if (kept != RS_OK && err) *err = kept_error;
    if (kept != RS_OK) return kept;
    out->failed = failed;
    out->stretch = out->published = 0;
    for (int32_t l = 0; l < network->n_layers; l++) {
        add_layer(out, &gain, &layers[l], &network->layers[l]);
        mixes = mixes || layers[l].mixes;
    }
    if (!mixes) out->stretch = out->published = NAN;
    return RS_OK;
}

/* The first hypothesis that fails of a branch. Where one does, the mixers of `lean` are all that is
 * left to ask for, for equation 7: no other branch's weights are measured. */
static const char *stack_fails(rs_network *lean)
{
    const char *failed = NULL;
    for (int32_t l = 0; l < lean->n_layers; l++)
        for (int32_t b = 0; b < lean->layers[l].n_branches && !failed; b++)
            failed = branch_fails(&lean->layers[l].branches[b]);
    for (int32_t l = 0; l < lean->n_layers && failed; l++)
        for (int32_t b = 0; b < lean->layers[l].n_branches; b++) {
            rs_branch *branch = &lean->layers[l].branches[b];
            if (!rs_branch_traits(branch)->mixes) branch->scale = 0;
        }
    return failed;
}

rs_status rs_certify_stack(rs_stack_bounds *out, const rs_network *network, const rs_inputs *inputs,
                           const rs_context *context, rs_error *err)
{
    rs_weight_norms *norms = NULL;
    rs_network *lean = NULL;
    layer_bounds *layers = rs_calloc((size_t)network->n_layers + 1, sizeof *layers);
    if (!layers) return rs_fail_memory(err, "gains of branches", sizeof *layers);
    rs_status status = rs_network_copy(&lean, network, err);
    const char *failed = status == RS_OK ? stack_fails(lean) : NULL;
    if (status == RS_OK) status = rs_weight_norms_open(&norms, lean, context, err);
    const rs_certify_scene scene = {
        .network = lean, .norms = norms, .inputs = inputs, .context = context};
    if (status == RS_OK) status = bound_layers(out, &scene, failed, layers, err);
    rs_weight_norms_close(norms);
    rs_network_close(lean);
    rs_free(layers);
    return status;
}
