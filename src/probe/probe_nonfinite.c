/* probe_nonfinite.c: where a NaN or an infinity first appears in a pass, and whether a weight of
 * that layer brings it. */
#include "probe/probe_parts.h"

#include <math.h>
#include <stdio.h>

/* True when the tensor holds a NaN or an infinity. Such a search happens once, after a pass that
 * went wrong: a plain loop over small pieces does. */
static bool is_bad(const rs_tensor *tensor)
{
    enum { PIECE = 256 };
    double values[PIECE];
    if (!tensor || !rs_dtype_decodable(tensor->dtype)) return false;
    for (int64_t i = 0; i < tensor->count; i += PIECE) {
        int64_t n = tensor->count - i < PIECE ? tensor->count - i : PIECE;
        rs_tensor_decode_f64(values, tensor, i, n);
        for (int64_t j = 0; j < n; j++)
            if (!isfinite(values[j])) return true;
    }
    return false;
}

static const rs_tensor *bad_of(const rs_tensor *const *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_bad(tensors[i])) return tensors[i];
    return NULL;
}

#define BAD_OF(...)                                                                                \
    bad_of((const rs_tensor *const[]){__VA_ARGS__},                                                \
           sizeof((const rs_tensor *const[]){__VA_ARGS__}) / sizeof(const rs_tensor *))

static const rs_tensor *bad_in_branch(const rs_branch *b)
{
    const rs_attention_op *a = &b->attention;
    const rs_mlp_op *m = &b->mlp;
    const rs_tensor *bad = BAD_OF(b->before.gain, b->before.bias);
    if (!bad && b->kind == RS_BRANCH_ATTENTION)
        bad = BAD_OF(a->q.weight, a->q.bias, a->k.weight, a->k.bias, a->v.weight, a->v.bias,
                     a->o.weight, a->o.bias, a->q_norm.gain, a->k_norm.gain, a->relative.r.weight,
                     a->relative.content_bias, a->relative.position_bias, a->distance_bias);
    if (!bad && b->kind == RS_BRANCH_MLP)
        bad = BAD_OF(m->up.weight, m->up.bias, m->gate.weight, m->gate.bias, m->down.weight,
                     m->down.bias);
    return bad ? bad : BAD_OF(b->inside.gain, b->inside.bias, b->after.gain, b->after.bias);
}

static const rs_tensor *bad_in_state(const rs_network *network, int32_t state)
{
    const rs_embedding_op *e = &network->embedding;
    if (state == 0)
        return BAD_OF(e->tokens, e->positions, e->types, e->norm.gain, e->norm.bias,
                      e->projection.weight, e->projection.bias, e->patch.weight, e->patch.bias,
                      e->class_token);
    const rs_layer *layer = &network->layers[state - 1];
    const rs_tensor *bad = NULL;
    for (int32_t b = 0; b < layer->n_branches && !bad; b++)
        bad = bad_in_branch(&layer->branches[b]);
    return bad;
}

/* In the order of the pass: the mixer's output comes before the state behind it. */
static const rs_token_row *first_bad(const rs_measured *m)
{
    const rs_token_row *first = NULL;
    for (size_t i = 0; i < m->n_tokens; i++) {
        const rs_token_row *row = &m->tokens[i];
        if (row->nonfinite == 0) continue;
        bool sooner = !first || row->layer < first->layer ||
                      (row->layer == first->layer && row->site == RS_TOKEN_SITE_MIXER_OUT);
        if (sooner && (!first || row->layer <= first->layer)) first = row;
    }
    return first;
}

rs_status rs_probe_nonfinite(rs_result *result, const rs_probed *v, rs_error *err)
{
    const rs_token_row *row = first_bad(v->measured);
    if (!row) return RS_OK;
    const rs_tensor *tensor = bad_in_state(v->network, row->layer);
    char message[900], place[64] = "the embedding", cause[400];
    if (row->layer > 0)
        snprintf(place, sizeof place, "layer %d (%s)", (int)row->layer - 1,
                 rs_token_site_name(row->site));
    if (tensor)
        snprintf(cause, sizeof cause, "tensor %.300s holds NaN or infinite weights", tensor->name);
    else
        snprintf(cause, sizeof cause,
                 "its weights are finite, so the values left the range of "
                 "the precision or came in with the input");
    snprintf(message, sizeof message,
             "%s: NaN or infinite values first appear in %s, in %lld of %lld samples, first at "
             "sample %lld, token %lld; %s; "
             "the means leave such samples out, and are null where none is left",
             v->name, place, (long long)row->nonfinite, (long long)v->measured->samples,
             (long long)row->first_sample, (long long)row->first_token, cause);
    rs_finding f = {.severity = RS_CRITICAL,
                    .code = "nonfinite_activation",
                    .variant = v->name,
                    .layer = row->layer > 0 ? row->layer - 1 : RS_NULL_INT,
                    .head = RS_NULL_INT,
                    .value = (double)row->nonfinite,
                    .threshold = 0,
                    .message = message,
                    .hint = tensor ? "the checkpoint is damaged or training diverged: go back to "
                                     "an earlier one"
                                   : "try --precision f64: if it is finite there, float32 "
                                     "overflows",
                    .table = "summary"};
    return rs_result_add_finding(result, &f, err);
}
