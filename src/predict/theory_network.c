/* theory_network.c: from branches of a description to variances (docs/theory/mean_field.md, 4). */
#include "predict/theory_network.h"

#include "engine/dense_matrix.h"
#include "network/op_traits.h"

#include <math.h>

struct rs_theory_model {
    rs_theory_network network;
    rs_arena *arena;
};

typedef struct reader {
    const rs_network *network;
    const rs_theory_weights *weights;
    rs_arena *arena;
    int64_t n;
} reader;

/* ---- stored weights ---- */

static rs_status stored_map(void *user, double *mean_square, const rs_dense *dense, rs_error *err)
{
    (void)user;
    enum { ROWS = 64 };
    int64_t in = dense->in, at_once = dense->out < ROWS ? dense->out : ROWS;
    double *w = rs_malloc((size_t)in, (size_t)at_once * sizeof *w), sum = 0;
    if (!w) return rs_fail_memory(err, "weights", (size_t)(in * at_once) * sizeof *w);
    rs_status status = RS_OK;
    for (int64_t u = 0; u < dense->out && status == RS_OK; u += at_once) {
        int64_t count = dense->out - u < at_once ? dense->out - u : at_once;
        status = rs_dense_rows(w, NULL, dense, u, count, err);
        for (int64_t i = 0; i < count * in && status == RS_OK; i++)
            sum += w[i] * w[i];
    }
    rs_free(w);
    *mean_square = sum / (double)in / (double)dense->out;
    return status;
}

static rs_status stored_gain(void *user, double *mean_square, const rs_norm_op *norm, rs_error *err)
{
    (void)user;
    double *gain = rs_malloc((size_t)norm->dim, sizeof *gain), sum = 0;
    if (!gain) return rs_fail_memory(err, "a norm's gains", (size_t)norm->dim * sizeof *gain);
    rs_norm_vectors(gain, NULL, norm);
    for (int64_t i = 0; i < norm->dim; i++)
        sum += gain[i] * gain[i];
    rs_free(gain);
    *mean_square = sum / (double)norm->dim;
    return RS_OK;
}

const rs_theory_weights rs_theory_stored = {.map = stored_map, .gain = stored_gain};

/* ---- parts ---- */

/* Variance times fan_in. */
static rs_status read_map(double *out, rs_theory_branch *branch, const reader *r,
                          const rs_dense *dense, rs_error *err)
{
    double mean_square = 0;
    *out = 1; /* of an absent map, which is the identity */
    if (dense->weight->fixed) return RS_OK;
    if (branch->scale != 0 && r->weights->has_mean && r->weights->has_mean(r->weights->user, dense))
        branch->refused = "a law of weights whose mean is not 0";
    RS_TRY(r->weights->map(r->weights->user, &mean_square, dense, err));
    *out = mean_square * (double)dense->in;
    return RS_OK;
}

static rs_status read_norm(rs_theory_norm *out, const reader *r, const rs_norm_op *norm,
                           rs_error *err)
{
    *out = (rs_theory_norm){.gain = 1};
    if (norm->kind == RS_NORM_NONE) return RS_OK;
    bool centred = norm->kind == RS_NORM_LAYERNORM || norm->kind == RS_NORM_LAYERNORM_PLUS_ONE;
    out->on = true;
    out->annihilates = centred && norm->dim == 1;
    out->eps = norm->eps;
    if (norm->gain && r->weights->gain)
        RS_TRY(r->weights->gain(r->weights->user, &out->gain, norm, err));
    return RS_OK;
}

/* What a branch without W_V and W_O adds is no new direction: it stands along the skip, and so do the
 * results of several heads with one another. */
static const char *along_the_tokens(const rs_attention_op *op, double skip)
{
    if (!op->v.weight->fixed || (op->o.weight && !op->o.weight->fixed)) return NULL;
    if (!op->o.weight && op->heads > 1) return "heads whose values are all the tokens";
    return skip != 0 ? "values and output are the tokens: along the skip" : NULL;
}

static const char *not_covered(const rs_attention_op *op, double skip)
{
    if (!op->q.weight || !op->k.weight || !op->v.weight) return "attention lacks a map";
    if (op->cross) return "cross-attention reads other tokens";
    if (op->gate.weight) return "attention has a gate";
    if (op->q_norm.kind != RS_NORM_NONE || op->k_norm.kind != RS_NORM_NONE) return "QK-norm";
    if (op->softcap != 0) return "soft-capped logits";
    if (op->relative.r.weight) return "relative positions";
    if (op->distance_bias) return "a bias that depends on the distance";
    if (!op->o.weight && op->kv_heads != op->heads)
        return "heads that share values without an output map";
    return along_the_tokens(op, skip);
}

static rs_status read_rope(rs_theory_attention *out, const reader *r, const rs_attention_op *op,
                           rs_error *err)
{
    out->pairs = op->rope.dims / 2;
    out->still = (int32_t)(op->head_dim / 2) - out->pairs;
    double factor = 1;
    double *frequencies = rs_arena_alloc(r->arena, (size_t)out->pairs, sizeof *frequencies);
    if (!frequencies) return rs_fail_memory(err, "rotary positions", sizeof *frequencies);
    rs_rope_frequencies(frequencies, &factor, &op->rope, r->n);
    out->frequencies = frequencies;
    return RS_OK;
}

static rs_status read_attention(rs_theory_branch *out, const reader *r, const rs_attention_op *op,
                                rs_error *err)
{
    rs_theory_attention *a = &out->attention;
    const char *reason = not_covered(op, out->skip);
    out->attends = op->q.weight && op->k.weight;
    if (out->attends) RS_TRY(read_map(&a->queries, out, r, &op->q, err));
    if (out->attends) RS_TRY(read_map(&a->keys, out, r, &op->k, err));
    if (reason) out->refused = reason;
    if (reason) return RS_OK;
    RS_TRY(read_map(&a->values, out, r, &op->v, err));
    a->merged = !op->o.weight;
    a->no_values = op->v.weight->fixed;
    a->no_output = !a->merged && op->o.weight->fixed;
    a->output = op->heads;
    if (!a->merged) RS_TRY(read_map(&a->output, out, r, &op->o, err));
    a->logit = op->scale * op->scale * (double)op->head_dim / (op->temperature * op->temperature);
    a->identity = op->mix_identity;
    a->softmax = op->mix_softmax;
    a->uniform = op->mix_uniform;
    a->causal = op->causal;
    a->window = op->window;
    return rs_attention_turns(op) ? read_rope(a, r, op, err) : RS_OK;
}

static rs_status read_mlp(rs_theory_branch *out, const reader *r, const rs_mlp_op *op,
                          rs_error *err)
{
    rs_theory_mlp *mlp = &out->mlp;
    out->is_mlp = true;
    if (!rs_gauss_of_activation(&mlp->kind, op->activation)) {
        out->refused = "no map for this activation";
        return RS_OK;
    }
    mlp->gated = op->gate.weight;
    RS_TRY(read_map(&mlp->up, out, r, &op->up, err));
    if (mlp->gated) RS_TRY(read_map(&mlp->gate, out, r, &op->gate, err));
    return read_map(&mlp->down, out, r, &op->down, err);
}

static rs_status read_branch(rs_theory_branch *out, const reader *r, const rs_branch *branch,
                             rs_error *err)
{
    const rs_attention_op *attention = rs_branch_attention(branch);
    const rs_mlp_op *mlp = rs_branch_mlp(branch);
    out->skip = branch->skip;
    out->scale = branch->scale;
    RS_TRY(read_norm(&out->before, r, &branch->before, err));
    RS_TRY(read_norm(&out->inside, r, &branch->inside, err));
    RS_TRY(read_norm(&out->after, r, &branch->after, err));
    if (attention)
        RS_TRY(read_attention(out, r, attention, err));
    else if (mlp)
        RS_TRY(read_mlp(out, r, mlp, err));
    else
        out->refused =
            rs_arena_printf(r->arena, "no mean-field theory of %s", rs_branch_traits(branch)->name);
    if (!attention && !mlp && !out->refused) return rs_fail_memory(err, "a reason", 64);
    if (branch->joins) out->refused = "parallel branches read one state";
    return RS_OK;
}

/* The weights of a layer before it: states that they made are no independent input of theirs. */
static bool is_repeated(const rs_network *network, size_t l, int32_t most)
{
    if (network->layers[l].stored > most) return false; /* of those before */
    for (size_t k = 0; k < l; k++)
        if (network->layers[k].stored == network->layers[l].stored) return true;
    return false;
}

static void refuse_repeated(rs_theory_layer *layer)
{
    for (int32_t b = 0; b < layer->n_branches; b++) {
        rs_theory_branch *branch = &layer->branches[b];
        if (branch->scale != 0 && !branch->refused) branch->refused = "layers that share weights";
    }
}

static rs_status read_layers(rs_theory_model *model, const reader *r, rs_error *err)
{
    const rs_network *network = r->network;
    size_t n = (size_t)network->n_layers;
    rs_theory_layer *layers = rs_arena_alloc(r->arena, n, sizeof *layers);
    int32_t most = -1;
    if (!layers) return rs_fail_memory(err, "theory", n * sizeof *layers);
    for (size_t l = 0; l < n; l++) {
        const rs_layer *layer = &network->layers[l];
        layers[l].n_branches = layer->n_branches;
        for (int32_t b = 0; b < layer->n_branches; b++)
            RS_TRY(read_branch(&layers[l].branches[b], r, &layer->branches[b], err));
        if (is_repeated(network, l, most)) refuse_repeated(&layers[l]);
        if (layer->stored > most) most = layer->stored;
    }
    model->network.layers = layers;
    model->network.n_layers = network->n_layers;
    return read_norm(&model->network.final_norm, r, &network->final_norm, err);
}

rs_status rs_theory_model_open(rs_theory_model **out, const rs_network *network,
                               const rs_theory_input *input, const rs_theory_weights *weights,
                               rs_error *err)
{
    rs_theory_model *model = *out = rs_calloc(1, sizeof *model);
    if (model) model->arena = rs_arena_new();
    if (!model || !model->arena) {
        rs_theory_model_close(model);
        *out = NULL;
        return rs_fail_memory(err, "theory", sizeof *model);
    }
    reader r = {network, weights, model->arena, input->n};
    model->network.n = input->n;
    model->network.d = network->d_model;
    model->network.rho0 = input->rho;
    model->network.ln_square0 = log(input->norm2) - log((double)network->d_model);
    rs_status status = read_layers(model, &r, err);
    if (status == RS_OK) return RS_OK;
    rs_theory_model_close(model);
    *out = NULL;
    return status;
}

void rs_theory_model_close(rs_theory_model *model)
{
    if (model) rs_arena_free(model->arena);
    rs_free(model);
}

const rs_theory_network *rs_theory_model_network(const rs_theory_model *model)
{
    return &model->network;
}
