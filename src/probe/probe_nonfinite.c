/* probe_nonfinite.c: where a NaN or an infinity first appears in a pass, and whether a weight of
 * that layer brings it. */
#include "probe/probe_parts.h"

#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>

/* True when the tensor holds a NaN or an infinity. Such a search happens once, after a pass that
 * went wrong: a plain loop over small pieces does. */
static bool is_bad(const rs_tensor *tensor)
{
    enum { PIECE = 256 };
    double values[PIECE];
    if (!rs_dtype_decodable(tensor->dtype)) return false;
    for (int64_t i = 0; i < tensor->count; i += PIECE) {
        int64_t n = tensor->count - i < PIECE ? tensor->count - i : PIECE;
        rs_tensor_decode_f64(values, tensor, i, n);
        for (int64_t j = 0; j < n; j++)
            if (!isfinite(values[j])) return true;
    }
    return false;
}

static bool find_bad(void *user, const rs_tensor *tensor)
{
    const rs_tensor **found = user;
    if (!is_bad(tensor)) return false;
    *found = tensor;
    return true;
}

/* The first weight, in the order of the pass, that could have brought it into that state; NULL:
 * they are all finite. */
static const rs_tensor *bad_in_state(const rs_network *network, int32_t state)
{
    const rs_tensor *found = NULL;
    const rs_layer *layer = state > 0 ? &network->layers[state - 1] : NULL;
    if (!layer) rs_embedding_walk(&network->embedding, find_bad, &found);
    for (int32_t b = 0; layer && b < layer->n_branches && !found; b++)
        rs_branch_walk_run(&layer->branches[b], find_bad, &found);
    return found;
}

/* In the order of the pass: the mixer's output comes before the state behind it. */
const rs_token_row *rs_probe_first_bad(const rs_measured *m)
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

rs_status rs_probe_nonfinite(rs_result *result, const rs_probed *v, rs_precision precision,
                             rs_error *err)
{
    const rs_token_row *row = rs_probe_first_bad(v->measured);
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
    rs_finding f = rs_finding_of(RS_CRITICAL, "nonfinite_activation");
    f.variant = v->name;
    f.layer = row->layer > 0 ? row->layer - 1 : RS_NULL_INT;
    f.value = (double)row->nonfinite;
    f.threshold = 0;
    f.message = message;
    f.hint = tensor ? "the checkpoint is damaged or training diverged: go back to "
                      "an earlier one"
             : precision == RS_PRECISION_F32
                 ? "try --precision f64: if it is finite there, float32 "
                   "overflows"
                 : "float64 overflows: scale the inputs, or weaken what grows the state";
    f.table = "summary";
    return rs_result_add_finding(result, &f, err);
}
