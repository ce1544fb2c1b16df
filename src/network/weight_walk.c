/* weight_walk.c: the weights outside of layers as lists, and the walks over all lists. */
#include "network/op_traits.h"

int64_t rs_embedding_source(const rs_embedding_op *op)
{
    return op->map.weight ? op->map.in : op->width;
}

bool rs_embedding_reads_rows(const rs_embedding_op *op)
{
    return op->rows > 0 || op->tokens;
}

static int64_t token_entries(const void *owner)
{
    const rs_embedding_op *op = owner;
    return op->vocabulary * rs_embedding_source(op);
}

static int64_t position_entries(const void *owner)
{
    const rs_embedding_op *op = owner;
    return op->n_positions * op->width;
}

static int64_t row_entries(const void *owner)
{
    return ((const rs_embedding_op *)owner)->width;
}

static int64_t logit_entries(const void *owner)
{
    return ((const rs_head_op *)owner)->decoder.out;
}

static const rs_weight_row embedding_rows[] = {
    {"tokens", RS_WEIGHT_NUMBERS, offsetof(rs_embedding_op, tokens), RS_ROLE_EMBED_TOKEN,
     token_entries},
    {"map", RS_WEIGHT_MAP, offsetof(rs_embedding_op, map), RS_ROLE_EMBED_PROJECTION, NULL},
    {"map_out", RS_WEIGHT_MAP, offsetof(rs_embedding_op, map_out), RS_ROLE_EMBED_PROJECTION, NULL},
    {"positions", RS_WEIGHT_NUMBERS, offsetof(rs_embedding_op, positions), RS_ROLE_EMBED_POSITION,
     position_entries},
    {"types", RS_WEIGHT_NUMBERS, offsetof(rs_embedding_op, types), RS_ROLE_EMBED_TYPE, row_entries},
    {"norm", RS_WEIGHT_NORM, offsetof(rs_embedding_op, norm), RS_ROLE_NORM_EMBED, NULL},
    {"projection", RS_WEIGHT_MAP, offsetof(rs_embedding_op, projection), RS_ROLE_EMBED_PROJECTION,
     NULL},
    {"patch", RS_WEIGHT_MAP, offsetof(rs_embedding_op, patch), RS_ROLE_EMBED_PATCH, NULL},
    {"class_token", RS_WEIGHT_NUMBERS, offsetof(rs_embedding_op, class_token), RS_ROLE_EMBED_CLASS,
     row_entries},
};

static const rs_weight_row read_out_rows[] = {
    {"fusion", RS_WEIGHT_MAP, offsetof(rs_read_out_op, map), RS_ROLE_HEAD_FUSION, NULL},
};

static const rs_weight_row head_rows[] = {
    {"transform", RS_WEIGHT_MAP, offsetof(rs_head_op, transform), RS_ROLE_HEAD_TRANSFORM, NULL},
    {"norm", RS_WEIGHT_NORM, offsetof(rs_head_op, norm), RS_ROLE_NORM_HEAD, NULL},
    {"decoder", RS_WEIGHT_MAP, offsetof(rs_head_op, decoder), RS_ROLE_LM_HEAD, NULL},
    {"bias", RS_WEIGHT_NUMBERS, offsetof(rs_head_op, bias), RS_ROLE_HEAD_BIAS, logit_entries},
};

const rs_weight_list rs_embedding_weights = RS_WEIGHT_LIST(embedding_rows);
const rs_weight_list rs_read_out_weights = RS_WEIGHT_LIST(read_out_rows);
const rs_weight_list rs_head_weights = RS_WEIGHT_LIST(head_rows);

static const void *member_of(const rs_weight_row *row, const void *owner)
{
    return (const char *)owner + row->offset;
}

const rs_dense *rs_weight_map(const rs_weight_row *row, const void *owner)
{
    const rs_dense *dense = member_of(row, owner);
    return row->form == RS_WEIGHT_MAP && dense->weight ? dense : NULL;
}

static void *member_to_fill(const rs_weight_row *row, rs_weight_form form, void *owner)
{
    return row->form == form ? (char *)owner + row->offset : NULL;
}

rs_dense *rs_weight_map_to_fill(const rs_weight_row *row, void *owner)
{
    return member_to_fill(row, RS_WEIGHT_MAP, owner);
}

rs_norm_op *rs_weight_norm_to_fill(const rs_weight_row *row, void *owner)
{
    return member_to_fill(row, RS_WEIGHT_NORM, owner);
}

rs_conv_op *rs_weight_conv_to_fill(const rs_weight_row *row, void *owner)
{
    return member_to_fill(row, RS_WEIGHT_CONV, owner);
}

const rs_tensor *rs_weight_numbers(const rs_weight_row *row, const void *owner)
{
    if (row->form != RS_WEIGHT_NUMBERS) return NULL;
    return *(const rs_tensor *const *)member_of(row, owner);
}

/* ---- walks ---- */

static bool tell(rs_tensor_visit *visit, void *user, const rs_tensor *tensor)
{
    return tensor && visit(user, tensor);
}

static bool walk_map(const rs_dense *map, rs_tensor_visit *visit, void *user)
{
    return map->weight && (visit(user, map->weight) || tell(visit, user, map->scale) ||
                           tell(visit, user, map->bias));
}

static bool walk_norm(const rs_norm_op *norm, rs_tensor_visit *visit, void *user)
{
    return tell(visit, user, norm->gain) || tell(visit, user, norm->bias);
}

static bool walk_conv(const rs_conv_op *conv, rs_tensor_visit *visit, void *user)
{
    return tell(visit, user, conv->weight) || tell(visit, user, conv->more[0]) ||
           tell(visit, user, conv->more[1]) || tell(visit, user, conv->bias);
}

static bool walk_row(const rs_weight_row *row, const void *owner, rs_tensor_visit *visit,
                     void *user)
{
    switch (row->form) {
    case RS_WEIGHT_MAP:
        return walk_map(member_of(row, owner), visit, user);
    case RS_WEIGHT_NORM:
        return walk_norm(member_of(row, owner), visit, user);
    case RS_WEIGHT_CONV:
        return walk_conv(member_of(row, owner), visit, user);
    case RS_WEIGHT_NUMBERS:
        return tell(visit, user, rs_weight_numbers(row, owner));
    }
    return false;
}

static bool walk_list(const rs_weight_list *list, const void *owner, rs_tensor_visit *visit,
                      void *user)
{
    for (size_t i = 0; i < list->n; i++)
        if (walk_row(&list->rows[i], owner, visit, user)) return true;
    return false;
}

bool rs_embedding_walk(const rs_embedding_op *embedding, rs_tensor_visit *visit, void *user)
{
    return walk_list(&rs_embedding_weights, embedding, visit, user);
}

bool rs_branch_walk(const rs_branch *branch, rs_tensor_visit *visit, void *user)
{
    return walk_norm(&branch->before, visit, user) ||
           walk_list(&rs_branch_traits(branch)->weights, branch, visit, user) ||
           walk_norm(&branch->inside, visit, user) || walk_norm(&branch->after, visit, user);
}

bool rs_branch_walk_run(const rs_branch *branch, rs_tensor_visit *visit, void *user)
{
    return branch->scale != 0 ? rs_branch_walk(branch, visit, user)
                              : walk_norm(&branch->after, visit, user);
}

bool rs_network_walk(const rs_network *network, rs_tensor_visit *visit, void *user)
{
    if (rs_embedding_walk(&network->embedding, visit, user)) return true;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++)
            if (rs_branch_walk(&network->layers[l].branches[b], visit, user)) return true;
    return walk_list(&rs_read_out_weights, &network->read_out, visit, user) ||
           walk_norm(&network->final_norm, visit, user) ||
           walk_list(&rs_head_weights, &network->head, visit, user);
}
