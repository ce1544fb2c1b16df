/* arch_write.c: an architecture as JSON: what was given, what was left to defaults, and the numbers
 * of the network, which training may have changed. */
#include "network/op_traits.h"
#include "network/saved.h"

#include <math.h>
#include <string.h>

/* Whole numbers are written without a point. */
static json_t *write_real(double value)
{
    bool whole = value == floor(value) && fabs(value) < 1e15 && !(value == 0 && signbit(value));
    return whole ? json_integer((json_int_t)value) : json_real(value);
}

/* What a file that is silent means. "gate" and "inner_norm" are not among it: their defaults are the
 * mixer's. */
static json_t *defaults(const rs_arch *arch)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:n, s:s, s:b, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:I, "
        "s:i, s:i, s:i, s:i, s:s, s:s, s:b, s:b, s:[f, f], s:n, s:n, s:n, s:s, s:b, "
        "s:s, s:s}",
        "depth", (json_int_t)arch->depth, "d_model", (json_int_t)arch->d_model, "heads",
        (json_int_t)arch->heads, "kv_heads", (json_int_t)arch->kv_heads, "d_head",
        (json_int_t)arch->d_head, "seq_len", (json_int_t)arch->seq_len, "vocab", "mixer",
        "attention", "share_layers", 0, "attention", "softmax", "mask", "none", "temperature", 1,
        "positions", "none", "norm", "pre", "norm_kind", "layernorm", "mlp", "gelu", "mlp_width",
        (json_int_t)arch->mlp_width, "state", 16, "groups", 1, "conv", 4, "decay", 1, "value_map",
        "free", "feature_map", "identity", "normalised", 0, "without_self", 0, "dt_init", 1e-3, 0.1,
        "rows", "embed", "outputs", "norm_affine", "none", "bias", 0, "block", "sequential",
        "fusion", "none");
}

/* ---- numbers of the network ---- */

static const rs_branch *branch_of(const rs_network *network, int64_t layer, bool mlp)
{
    const rs_layer *at = &network->layers[layer];
    for (int32_t b = 0; b < at->n_branches; b++)
        if ((rs_branch_mlp(&at->branches[b]) != NULL) == mlp) return &at->branches[b];
    return NULL;
}

static rs_status not_finite(const char *field, int64_t layer, rs_error *err)
{
    return rs_fail(err, RS_E_TENSOR_VALUE, field, NULL,
                   "its number of layer %lld is not finite: no file can hold it", (long long)layer);
}

/* What a layer's mixer divides its logits by; `silent` of one that has none, and where a schedule of
 * training that begins at 0 has made it infinite, which no file can hold. */
static double temperature_of(const rs_branch *mixer, double silent)
{
    double own = NAN;
    if (mixer && mixer->kind == RS_BRANCH_ATTENTION) own = mixer->attention.temperature;
    if (mixer && mixer->kind == RS_BRANCH_LINEAR) own = mixer->linear.temperature;
    if (mixer && mixer->kind == RS_BRANCH_GRAPH && !mixer->graph.matrix)
        own = mixer->graph.temperature;
    return isfinite(own) ? own : silent;
}

/* One number where all layers have the same, else a list. */
static void write_temperature(json_t *out, const rs_arch *arch, const rs_network *network)
{
    json_t *list = json_array();
    double first = 1;
    bool same = true;
    for (int32_t l = 0; l < network->n_layers; l++) {
        double value = temperature_of(branch_of(network, l, false), arch->temperature[l]);
        if (l == 0) first = value;
        same = same && value == first;
        json_array_append_new(list, write_real(value));
    }
    json_object_set_new(out, "temperature", same ? write_real(first) : json_incref(list));
    json_decref(list);
}

/* silent: of layers without such a branch. */
static rs_status write_strengths(json_t *out, const char *field, const rs_network *network,
                                 bool mlp, bool skip, const double *silent, rs_error *err)
{
    json_t *list = json_array();
    rs_status status = RS_OK;
    for (int64_t l = 0; l < network->n_layers && status == RS_OK; l++) {
        const rs_branch *branch = branch_of(network, l, mlp);
        double value = !branch ? silent[l] : skip ? branch->skip : branch->scale;
        if (isfinite(value))
            json_array_append_new(list, write_real(value));
        else
            status = not_finite(field, l, err);
    }
    json_object_set_new(out, field, list); /* only now: without memory for it the list is freed */
    return status;
}

static void mix_given(double mix[3], const rs_arch *arch, int64_t layer)
{
    const double all[3] = {arch->mix_identity, arch->mix_softmax, arch->mix_uniform};
    memcpy(mix, arch->layer_mix ? arch->layer_mix[layer] : all, sizeof all);
}

/* Attention's three gains, where they are no longer those of the file. */
static rs_status write_gains(json_t *out, const rs_arch *arch, const rs_network *network,
                             rs_error *err)
{
    const char *kind = json_string_value(json_object_get(out, "attention"));
    bool changed = kind && strcmp(kind, "shaped") == 0; /* formulas become numbers */
    json_t *list = json_array();
    for (int64_t l = 0; l < network->n_layers; l++) {
        const rs_branch *branch = branch_of(network, l, false);
        const rs_attention_op *op = branch ? rs_branch_attention(branch) : NULL;
        double given[3], mix[3];
        mix_given(given, arch, l);
        memcpy(mix, given, sizeof mix);
        if (op) {
            mix[0] = op->mix_identity;
            mix[1] = op->mix_softmax;
            mix[2] = op->mix_uniform;
        }
        json_t *gains = json_array();
        for (int i = 0; i < 3; i++) {
            changed = changed || mix[i] != given[i];
            if (!isfinite(mix[i])) {
                json_decref(gains);
                json_decref(list);
                return not_finite("shaped", l, err);
            }
            json_array_append_new(gains, write_real(mix[i]));
        }
        json_array_append_new(list, gains);
    }
    if (changed) {
        json_object_set_new(out, "attention", json_string("shaped"));
        json_object_set(out, "shaped", list);
        json_object_del(out, "rescale");
    }
    json_decref(list);
    return RS_OK;
}

static rs_status write_numbers(json_t *out, const rs_arch *arch, const rs_network *network,
                               rs_error *err)
{
    RS_TRY(write_strengths(out, "skip_mixer", network, false, true, arch->skip_mixer, err));
    RS_TRY(write_strengths(out, "skip_mlp", network, true, true, arch->skip_mlp, err));
    RS_TRY(write_strengths(out, "branch_mixer", network, false, false, arch->branch_mixer, err));
    RS_TRY(write_strengths(out, "branch_mlp", network, true, false, arch->branch_mlp, err));
    write_temperature(out, arch, network);
    return write_gains(out, arch, network, err);
}

rs_status rs_arch_write(json_t **out, const json_t *given, const rs_arch *arch,
                        const rs_network *network, const char *graph, rs_error *err)
{
    int64_t failures = rs_memory_failures();
    json_t *json = *out = defaults(arch);
    json_object_update(json, (json_t *)(uintptr_t)given);
    if (json_object_get(given, "graph")) {
        json_t *own = json_copy(json_object_get(given, "graph"));
        json_object_set_new(own, "file", json_string(graph));
        json_object_set_new(json, "graph", own);
    }
    rs_status status = write_numbers(json, arch, network, err);
    if (status == RS_OK) status = rs_memory_check(failures, "an architecture", err);
    if (status == RS_OK) return RS_OK;
    json_decref(json);
    *out = NULL;
    return status;
}
