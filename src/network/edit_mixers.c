/* edit_mixers.c: gates and norms inside of mixers, and where the norms of blocks stand. */
#include "network/edit_parts.h"

#include "network/op_traits.h"

/* ---- inside of mixers ---- */

typedef bool drop_fn(rs_branch *branch);

/* Whether any branch had something that a function of its row takes away. */
static bool drop_everywhere(const rs_edition *e, size_t offset)
{
    bool any = false;
    for (int32_t l = 0; l < e->network->n_layers; l++)
        for (int32_t b = 0; b < e->network->layers[l].n_branches; b++) {
            rs_branch *branch = &e->network->layers[l].branches[b];
            const char *row = (const char *)rs_branch_traits(branch);
            drop_fn *drop = *(drop_fn *const *)(const void *)(row + offset);
            if (drop && drop(branch)) any = true;
        }
    return any;
}

static rs_status ungroup(const rs_edition *e)
{
    bool any = false;
    for (int32_t l = 0; l < e->network->n_layers; l++)
        for (int32_t b = 0; b < e->network->layers[l].n_branches; b++) {
            rs_branch *branch = &e->network->layers[l].branches[b];
            if (branch->kind != RS_BRANCH_SSD) continue;
            any |= branch->ssd.norm.kind != RS_NORM_NONE && branch->ssd.norm_groups > 1;
            branch->ssd.norm_groups = 1;
        }
    if (any) return RS_OK;
    return rs_edition_note(e, "mamba2_ungrouped",
                           "--compat mamba2-ungrouped changes nothing: no norm of this model is of "
                           "several groups");
}

rs_status rs_edit_mixers(const rs_edition *e)
{
    const rs_edit *edit = e->edit;
    if (edit->mamba2_ungrouped) RS_TRY(ungroup(e));
    if (edit->no_gate && !drop_everywhere(e, offsetof(rs_op_traits, drop_gate)))
        return rs_edition_refuse(e, "--no-gate", NULL,
                                 "this model has no gated mixer (gates of MLPs stay)");
    if (edit->no_inner_norm && !drop_everywhere(e, offsetof(rs_op_traits, drop_inner_norms)))
        return rs_edition_refuse(e, "--no-inner-norm", "--no-norm takes those around the mixers",
                                 "this model has no norm inside of a mixer");
    return RS_OK;
}

/* ---- around branches ---- */

/* The branch behind those that share the skip of branch b: itself and those that join it. */
static int32_t group_end(const rs_layer *layer, int32_t b)
{
    int32_t end = b + 1;
    while (end < layer->n_branches && layer->branches[end].joins)
        end++;
    return end;
}

static bool same_norm(const rs_norm_op *a, const rs_norm_op *b)
{
    return a->kind == b->kind && a->dim == b->dim && a->eps == b->eps && a->gain == b->gain &&
           a->bias == b->bias;
}

static rs_status two_norms(const rs_edition *e)
{
    return rs_edition_refuse(e, "--norm-placement", "leave the norms where they are",
                             "branches that share a skip have norms of their own: one norm cannot "
                             "take their place");
}

/* X <- norm(skip X + op(X)): the norm that all branches from b to end - 1 read through goes behind
 * their sum. */
static rs_status to_post(const rs_edition *e, rs_layer *layer, int32_t b, int32_t end, bool *moved)
{
    rs_branch *first = &layer->branches[b], *last = &layer->branches[end - 1];
    for (int32_t i = b; i < end; i++)
        if (!same_norm(&layer->branches[i].before, &first->before)) return two_norms(e);
    if (first->before.kind == RS_NORM_NONE) return RS_OK;
    if (last->after.kind != RS_NORM_NONE) return two_norms(e);
    last->after = first->before;
    for (int32_t i = b; i < end; i++)
        layer->branches[i].before = (rs_norm_op){.kind = RS_NORM_NONE};
    *moved = true;
    return RS_OK;
}

/* X <- skip X + op(norm(X)): the other way round. */
static rs_status to_pre(const rs_edition *e, rs_layer *layer, int32_t b, int32_t end, bool *moved)
{
    rs_branch *last = &layer->branches[end - 1];
    for (int32_t i = b; i < end - 1; i++)
        if (layer->branches[i].after.kind != RS_NORM_NONE) return two_norms(e);
    if (last->after.kind == RS_NORM_NONE) return RS_OK;
    for (int32_t i = b; i < end; i++) {
        if (layer->branches[i].before.kind != RS_NORM_NONE) return two_norms(e);
        layer->branches[i].before = last->after;
    }
    last->after = (rs_norm_op){.kind = RS_NORM_NONE};
    *moved = true;
    return RS_OK;
}

rs_status rs_edit_placement(const rs_edition *e)
{
    bool moved = false, post = e->edit->placement == RS_PLACEMENT_POST;
    if (e->edit->placement == RS_PLACEMENT_AS_IT_IS) return RS_OK;
    for (int32_t l = 0; l < e->network->n_layers; l++) {
        rs_layer *layer = &e->network->layers[l];
        for (int32_t b = 0, end; b < layer->n_branches; b = end) {
            end = group_end(layer, b);
            RS_TRY(post ? to_post(e, layer, b, end, &moved) : to_pre(e, layer, b, end, &moved));
        }
    }
    if (moved) return RS_OK;
    return rs_edition_note(e, "norm_placement",
                           "--norm-placement changes nothing: no norm of a block stands elsewhere");
}
