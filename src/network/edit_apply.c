/* edit_apply.c: interventions become numbers of the description. */
#include "network/edit_parts.h"

#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

rs_status rs_edition_refuse(const rs_edition *e, const char *option, const char *hint,
                            const char *what)
{
    return rs_fail(e->err, RS_E_BAD_OPTION, option, hint, "%s", what);
}

rs_status rs_edition_note(const rs_edition *e, const char *code, const char *message)
{
    return rs_notes_say(&e->network->notes, e->err, RS_INFO, code, NULL, "%s", message);
}

/* ---- depth ---- */

static rs_status change_depth(const rs_edition *e)
{
    rs_network *network = e->network;
    int32_t from = network->n_layers, to = e->edit->depth;
    if (to == 0 || to == from) return RS_OK;
    if (from == 0)
        return rs_edition_refuse(e, "--depth", NULL, "this network has no layer to repeat");
    if (network->read_out.kind == RS_FUSION_CONCAT)
        return rs_edition_refuse(e, "--depth", "leave it out",
                                 "the read-out has weights for the states of just its layers "
                                 "(\"fusion\": \"concat\")");
    if (to > from) {
        rs_layer *layers = rs_arena_alloc(network->arena, (size_t)to, sizeof *layers);
        if (!layers) return rs_fail_memory(e->err, "repeated layers", (size_t)to * sizeof *layers);
        for (int32_t l = 0; l < to; l++)
            layers[l] = network->layers[l % from];
        network->layers = layers;
    }
    network->n_layers = to;
    return RS_OK;
}

/* ---- skips and scales ---- */

/* One of the pieces between commas or colons; the only one serves all layers. */
static size_t count_pieces(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == ',' || *text == ':';
    return n;
}

static rs_status strength(double *value, const rs_edition *e, const char *list, int32_t layer,
                          const char *option)
{
    static const char *const names[] = {"L", "l", NULL};
    double values[] = {e->network->n_layers, layer};
    const char *at = list;
    char piece[320];
    for (int32_t i = 0; i < layer && at[strcspn(at, ",:")]; i++)
        at += strcspn(at, ",:") + 1;
    size_t n = strcspn(at, ",:"), kept = n < sizeof piece ? n : sizeof piece - 1;
    memcpy(piece, at, kept);
    piece[kept] = 0;
    return rs_expression(value, piece, names, values, option, e->err);
}

static rs_status check_list(const rs_edition *e, const char *list, const char *option)
{
    size_t n = count_pieces(list);
    if (n == 1 || n == (size_t)e->network->n_layers) return RS_OK;
    return rs_fail(e->err, RS_E_BAD_OPTION, option, "give one number, or one a layer",
                   "%zu numbers given; this network has %d layers", n, (int)e->network->n_layers);
}

/* λ of the branches that mix tokens, or of those that do not. A joining branch has no skip of its
 * own: what it is added to is the running sum. */
static rs_status set_skips(const rs_edition *e, bool mixers, const char *list)
{
    if (!list) return RS_OK;
    RS_TRY(check_list(e, list, "--lambda"));
    bool found = false;
    for (int32_t l = 0; l < e->network->n_layers; l++) {
        rs_layer *layer = &e->network->layers[l];
        for (int32_t b = 0; b < layer->n_branches; b++) {
            rs_branch *branch = &layer->branches[b];
            if (rs_branch_traits(branch)->mixes != mixers || branch->joins) continue;
            found = true;
            RS_TRY(strength(&branch->skip, e, list, l, "--lambda"));
        }
    }
    bool for_all = e->edit->mixer_lambda == e->edit->mlp_lambda;
    if (found || for_all) return RS_OK;
    return rs_edition_refuse(
        e, "--lambda", "use --lambda X or --lambda mixer:X",
        mixers ? "this network has no mixer with a skip"
               : "no MLP of this network has a skip of its own (parallel blocks have one "
                 "skip for both branches)");
}

static rs_status scale_branches(const rs_edition *e)
{
    const char *list = e->edit->residual_scale;
    if (!list) return RS_OK;
    RS_TRY(check_list(e, list, "--residual-scale"));
    for (int32_t l = 0; l < e->network->n_layers; l++) {
        rs_layer *layer = &e->network->layers[l];
        for (int32_t b = 0; b < layer->n_branches; b++)
            RS_TRY(strength(&layer->branches[b].scale, e, list, l, "--residual-scale"));
    }
    return RS_OK;
}

static void drop_skips(const rs_edition *e)
{
    const rs_edit *edit = e->edit;
    for (int32_t l = 0; l < e->network->n_layers; l++) {
        rs_layer *layer = &e->network->layers[l];
        for (int32_t b = 0; b < layer->n_branches; b++) {
            rs_branch *branch = &layer->branches[b];
            bool mixer = rs_branch_traits(branch)->mixes;
            if (!branch->joins && (edit->no_skip || (edit->no_mixer_skip && mixer)))
                branch->skip = 0;
        }
    }
}

/* ---- attention ---- */

static void set_if(double *target, double value)
{
    if (!isnan(value)) *target = value;
}

static rs_status edit_attention(const rs_edition *e)
{
    const rs_edit *edit = e->edit;
    bool masks = false, causal = false, any = false;
    for (int32_t l = 0; l < e->network->n_layers; l++) {
        rs_layer *layer = &e->network->layers[l];
        for (int32_t b = 0; b < layer->n_branches; b++) {
            rs_branch *branch = &layer->branches[b];
            if (!rs_branch_attention(branch) || branch->attention.cross) continue;
            rs_attention_op *attention = &branch->attention;
            any = true;
            masks |= attention->causal || attention->window;
            causal |= attention->causal;
            if (edit->no_mask) {
                attention->causal = false;
                attention->window = 0;
            }
            attention->temperature *= edit->temperature;
            set_if(&attention->mix_identity, edit->mix_identity);
            set_if(&attention->mix_softmax, edit->mix_softmax);
            set_if(&attention->mix_uniform, edit->mix_uniform);
            attention->most_rank = edit->attention_rank;
            attention->most_energy = edit->attention_energy;
        }
    }
    bool mixes =
        !isnan(edit->mix_softmax) || edit->temperature != 1 || rs_edit_cuts_attention(edit);
    if (mixes && !any)
        return rs_edition_refuse(e, "attention", NULL,
                                 "this network has no self-attention to edit");
    if (edit->remove_gap && causal && !edit->no_mask)
        return rs_edition_refuse(
            e, "--remove-gap", "use --center-attention, which subtracts 1/i, or --no-mask",
            "attention is causal here, and subtracting 11'/n would show each token what "
            "follows it");
    if (edit->no_mask && causal) e->network->head.next_token = false;
    if (edit->no_mask && !masks)
        return rs_edition_note(e, "no_mask",
                               "--no-mask changes nothing: no attention of this model is masked");
    return RS_OK;
}

/* ---- MLPs ---- */

/* x -> x as a stored map. */
static rs_status identity_map(rs_dense *out, const rs_edition *e)
{
    rs_network *network = e->network;
    int64_t d = network->d_model;
    size_t count;
    rs_tensor *tensor = rs_arena_alloc(network->arena, 1, sizeof *tensor);
    int64_t *shape = rs_arena_alloc(network->arena, 2, sizeof *shape);
    float *data = rs_size_mul((size_t)d, (size_t)d, &count)
                      ? rs_arena_alloc(network->arena, count, sizeof *data)
                      : NULL;
    if (!tensor || !shape || !data)
        return rs_fail_memory(e->err, "an identity map", (size_t)d * sizeof *data);
    for (int64_t i = 0; i < d; i++)
        data[i * d + i] = 1;
    shape[0] = shape[1] = d;
    *tensor = (rs_tensor){.name = "identity",
                          .dtype = RS_F32,
                          .rank = 2,
                          .shape = shape,
                          .count = d * d,
                          .data = (const uint8_t *)data,
                          .bytes = count * sizeof *data,
                          .type_id = -1};
    *out = (rs_dense){.weight = tensor,
                      .rows = d,
                      .cols = d,
                      .out_is_row = true,
                      .in = d,
                      .out = d,
                      .run = d,
                      .stride = d};
    return RS_OK;
}

/* The released code of Dong et al. replaced ALBERT's two linear maps by the identity and left the
 * activation, the skip and the norm: LN(gelu_new(a) + a) (docs/theory/collapse.md, 13). */
static bool leaves_activation(const rs_edition *e)
{
    bool asked = e->edit->dong2021_code && !e->edit->no_skip; /* `pure` is not theirs */
    return asked && e->network->dong2021_code;
}

static rs_status leave_activation(const rs_edition *e)
{
    rs_dense identity;
    RS_TRY(identity_map(&identity, e));
    for (int32_t l = 0; l < e->network->n_layers; l++) {
        rs_layer *layer = &e->network->layers[l];
        for (int32_t b = 0; b < layer->n_branches; b++) {
            if (!rs_branch_mlp(&layer->branches[b])) continue;
            rs_mlp_op *mlp = &layer->branches[b].mlp;
            mlp->up = mlp->down = identity;
            mlp->gate = (rs_dense){0};
            mlp->width = e->network->d_model;
        }
    }
    return rs_edition_note(
        e, "dong2021_code",
        "as in the released code of Dong et al. 2021, ALBERT without its MLP keeps "
        "LN(gelu(a) + a)");
}

static void drop_mlps(rs_layer *layer)
{
    int32_t kept = 0;
    for (int32_t b = 0; b < layer->n_branches; b++)
        if (!rs_branch_mlp(&layer->branches[b])) layer->branches[kept++] = layer->branches[b];
    layer->n_branches = kept;
    layer->branches[0].joins = false; /* nothing is left that it could join */
}

static rs_status edit_mlps(const rs_edition *e)
{
    const rs_edit *edit = e->edit;
    if (edit->no_mlp && leaves_activation(e)) return leave_activation(e);
    for (int32_t l = 0; l < e->network->n_layers; l++) {
        rs_layer *layer = &e->network->layers[l];
        if (edit->no_mlp) drop_mlps(layer);
        for (int32_t b = 0; edit->no_mlp_branch && b < layer->n_branches; b++)
            if (rs_branch_mlp(&layer->branches[b])) layer->branches[b].scale = 0;
    }
    return RS_OK;
}

/* ---- norms ---- */

static rs_status drop_norms(const rs_edition *e)
{
    const rs_norm_op none = {.kind = RS_NORM_NONE};
    bool any = false, inner = false;
    if (!e->edit->no_norm) return RS_OK;
    for (int32_t l = 0; l < e->network->n_layers; l++) {
        rs_layer *layer = &e->network->layers[l];
        for (int32_t b = 0; b < layer->n_branches; b++) {
            rs_branch *branch = &layer->branches[b];
            any |= branch->before.kind || branch->inside.kind || branch->after.kind;
            const rs_attention_op *attention = rs_branch_attention(branch);
            inner |= attention && attention->q_norm.kind;
            branch->before = branch->inside = branch->after = none;
        }
    }
    if (inner)
        RS_TRY(rs_edition_note(
            e, "no_norm",
            "norms of queries and keys stay: they are part of the attention (--no-inner-norm)"));
    if (any) return RS_OK;
    return rs_edition_note(e, "no_norm",
                           "--no-norm changes nothing: no block of this model has a norm");
}

rs_status rs_edit_apply(rs_network *network, const rs_edit *edit, rs_error *err)
{
    rs_edition e = {network, edit, err};
    RS_TRY(change_depth(&e));
    RS_TRY(set_skips(&e, true, edit->mixer_lambda));
    RS_TRY(set_skips(&e, false, edit->mlp_lambda));
    RS_TRY(scale_branches(&e));
    drop_skips(&e);
    RS_TRY(edit_attention(&e));
    RS_TRY(rs_edit_mixers(&e));
    RS_TRY(edit_mlps(&e));
    RS_TRY(drop_norms(&e));
    RS_TRY(rs_edit_ablate(&e));
    return rs_edit_placement(&e);
}
