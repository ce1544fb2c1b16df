/* design_likeness.c: see design_likeness.h. */
#include "predict/design_likeness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What an architecture file says of norms. */
typedef struct placement {
    const char *name;
    bool before, inside, after, final;
} placement;
static const placement placements[] = {{"none", false, false, false, false},
                                       {"pre", true, false, false, true},
                                       {"post", false, false, true, false},
                                       {"sandwich", true, true, false, true}};

static const struct {
    rs_gauss_kind kind;
    bool gated;
    const char *name;
} activations[] = {{RS_GAUSS_LINEAR, false, "linear"},
                   {RS_GAUSS_RELU, false, "relu"},
                   {RS_GAUSS_GELU, false, "gelu"},
                   {RS_GAUSS_GELU_TANH, false, "gelu_tanh"},
                   {RS_GAUSS_SILU, true, "swiglu"}};

static const char *place_of(const rs_theory_network *net)
{
    for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
        const placement *at = &placements[p];
        bool same = net->final_norm.on == at->final;
        for (int32_t b = 0; b < net->layers[0].n_branches; b++) {
            const rs_theory_branch *branch = &net->layers[0].branches[b];
            same = same && branch->before.on == at->before && branch->inside.on == at->inside &&
                   branch->after.on == at->after;
        }
        if (same) return at->name;
    }
    return NULL;
}

static const char *activation_of(const rs_theory_mlp *mlp)
{
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (activations[i].kind == mlp->kind && activations[i].gated == mlp->gated)
            return activations[i].name;
    return NULL;
}

static bool same_branch(const rs_theory_branch *a, const rs_theory_branch *b)
{
    const rs_theory_attention *x = &a->attention, *y = &b->attention;
    const rs_theory_mlp *u = &a->mlp, *v = &b->mlp;
    bool norms = a->before.on == b->before.on && a->inside.on == b->inside.on &&
                 a->after.on == b->after.on && a->before.gain == b->before.gain &&
                 a->inside.gain == b->inside.gain && a->after.gain == b->after.gain;
    bool maps = x->queries == y->queries && x->keys == y->keys && x->values == y->values &&
                x->output == y->output && x->logit == y->logit && u->up == v->up &&
                u->gate == v->gate && u->down == v->down;
    return norms && maps && a->is_mlp == b->is_mlp && a->skip == b->skip && a->scale == b->scale &&
           x->causal == y->causal && x->window == y->window && x->pairs == y->pairs &&
           x->still == y->still && u->kind == v->kind && u->gated == v->gated;
}

/* Layers of one kind, attention and then an MLP, without what no file says. */
static bool is_plain(const rs_theory_network *net)
{
    const rs_theory_layer *first = &net->layers[0];
    if (net->n_layers < 1 || first->n_branches < 1 || first->n_branches > 2) return false;
    for (int32_t l = 0; l < net->n_layers; l++) {
        const rs_theory_layer *layer = &net->layers[l];
        if (layer->n_branches != first->n_branches) return false;
        for (int32_t b = 0; b < layer->n_branches; b++)
            if (layer->branches[b].refused || layer->branches[b].is_mlp != (b == 1) ||
                !same_branch(&layer->branches[b], &first->branches[b]))
                return false;
    }
    return !first->branches[0].attention.merged && first->branches[0].before.gain == 1 &&
           first->branches[0].after.gain == 1;
}

/* Frequencies of base 10000, all pairs of a head. */
static bool is_plain_rope(const rs_theory_attention *a)
{
    for (int32_t t = 0; t < a->pairs; t++) {
        double plain = pow(10000, -(double)t / a->pairs);
        if (fabs(a->frequencies[t] - plain) > 1e-5 * plain) return false;
    }
    return a->still == 0;
}

static bool put_law(json_t *init, const char *name, double variance, int64_t fan_in)
{
    char text[64];
    snprintf(text, sizeof text, "normal(0, %.17g)", variance / (double)fan_in);
    return json_object_set_new(init, name, json_string(variance > 0 ? text : "zero")) == 0;
}

static bool put_number(json_t *json, const char *name, double value)
{
    return json_object_set_new(json, name, json_real(value)) == 0;
}

static bool put_size(json_t *json, const char *name, int64_t value)
{
    return json_object_set_new(json, name, json_integer((json_int_t)value)) == 0;
}

static bool put_word(json_t *json, const char *name, const char *word)
{
    return json_object_set_new(json, name, json_string(word)) == 0;
}

static bool put_attention(json_t *json, json_t *init, const rs_theory_branch *branch,
                          const rs_attention_op *op, int64_t width)
{
    const rs_theory_attention *a = &branch->attention;
    char mask[32] = "none";
    if (a->window > 0) snprintf(mask, sizeof mask, "sliding:%lld", (long long)a->window);
    bool put = put_size(json, "heads", op->heads) && put_size(json, "kv_heads", op->kv_heads) &&
               put_size(json, "d_head", op->head_dim) &&
               put_word(json, "mask", a->causal && a->window <= 0 ? "causal" : mask) &&
               put_word(json, "positions", a->pairs > 0 ? "rope" : "none") &&
               put_number(json, "temperature", 1 / sqrt(a->logit)) &&
               put_number(json, "skip_mixer", branch->skip) &&
               put_number(json, "branch_mixer", branch->scale);
    return put && put_law(init, "wq", a->queries, width) && put_law(init, "wk", a->keys, width) &&
           put_law(init, "wv", a->values, width) && put_law(init, "wo", a->output, op->o.in);
}

static bool put_mlp(json_t *json, json_t *init, const rs_theory_branch *branch, const rs_mlp_op *op,
                    int64_t width)
{
    const rs_theory_mlp *m = &branch->mlp;
    bool put =
        put_word(json, "mlp", activation_of(m)) && put_size(json, "mlp_width", op->down.in) &&
        put_number(json, "skip_mlp", branch->skip) && put_number(json, "branch_mlp", branch->scale);
    put = put && put_law(init, "w1", m->up, width) && put_law(init, "w2", m->down, op->down.in);
    return put && (!m->gated || put_law(init, "wg", m->gate, width));
}

static bool put_all(json_t *json, const rs_design *d, const char *place)
{
    const rs_theory_network *net = rs_theory_model_network(d->theory);
    const rs_layer *layer = &d->network->layers[0];
    const rs_theory_layer *theory = &net->layers[0];
    const rs_norm_op *norm = &layer->branches[0].before;
    if (norm->kind == RS_NORM_NONE) norm = &layer->branches[0].after;
    bool rms = norm->kind == RS_NORM_RMSNORM || norm->kind == RS_NORM_RMSNORM_PLUS_ONE;
    json_t *init = json_object(), *input = json_object();
    bool put = json_object_set_new(json, "init", init) == 0 &&
               json_object_set_new(json, "input", input) == 0 &&
               put_size(json, "depth", net->n_layers) && put_size(json, "d_model", net->d) &&
               put_size(json, "seq_len", net->n) && put_word(json, "norm", place) &&
               put_word(json, "norm_kind", rms ? "rmsnorm" : "layernorm") &&
               put_number(input, "rho", d->input.rho) && put_number(input, "norm2", d->input.norm2);
    put = put && put_attention(json, init, &theory->branches[0],
                               rs_branch_attention(&layer->branches[0]), net->d);
    if (theory->n_branches == 1) return put && put_word(json, "mlp", "none");
    return put &&
           put_mlp(json, init, &theory->branches[1], rs_branch_mlp(&layer->branches[1]), net->d);
}

rs_status rs_design_likeness(json_t **out, const rs_design *d, rs_error *err)
{
    const rs_theory_network *net = rs_theory_model_network(d->theory);
    *out = NULL;
    if (d->checkpoint || !is_plain(net)) return RS_OK;
    const rs_theory_attention *a = &net->layers[0].branches[0].attention;
    const char *place = place_of(net);
    bool mlp = net->layers[0].n_branches == 2;
    if (!place || !(a->logit > 0) || !is_plain_rope(a) || (a->window > 0 && !a->causal) ||
        a->identity != 0 || a->softmax != 1 || a->uniform != 0 ||
        (mlp && !activation_of(&net->layers[0].branches[1].mlp)))
        return RS_OK;
    json_t *json = json_object();
    if (json && put_all(json, d, place)) {
        *out = json;
        return RS_OK;
    }
    json_decref(json);
    return rs_fail_memory(err, d->name, 1);
}
