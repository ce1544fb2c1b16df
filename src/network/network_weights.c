/* network_weights.c: the weights of a network, each checked for type and shape before it is used,
 * or drawn. */
#include "network/network_build.h"

#include <stdio.h>
#include <string.h>

const rs_module_pattern *rs_net_pattern(const rs_net_builder *nb, rs_role role)
{
    for (size_t l = 0; l < 5 && nb->b->family->patterns[l]; l++)
        for (const rs_module_pattern *row = nb->b->family->patterns[l]; row->module; row++)
            if (row->role == role && row->slot == RS_SLOT_MAIN) return row;
    return NULL;
}

/* The recognised tensors of a layer (-1: outside layers); an empty block when there are none.
 * Blocks are sorted by layer within the main stack. */
static rs_block block_of(const rs_net_builder *nb, int32_t layer)
{
    const rs_builder *b = nb->b;
    size_t low = 0, high = b->n_blocks;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->blocks[middle].layer < layer)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < b->n_blocks && b->blocks[low].layer == layer && b->blocks[low].slot == RS_SLOT_MAIN)
        return b->blocks[low];
    return (rs_block){.layer = layer, .slot = RS_SLOT_MAIN};
}

bool rs_net_has(const rs_net_builder *nb, rs_role role, int32_t layer)
{
    if (nb->init) return rs_net_pattern(nb, role) != NULL;
    rs_block block = block_of(nb, layer);
    return rs_block_find(&block, role, RS_PART_WEIGHT) ||
           rs_block_find(&block, role, RS_PART_PACKED);
}

const rs_tensor *rs_net_stored_tensor(const rs_net_builder *nb, rs_role role, rs_part part,
                                      int32_t layer)
{
    rs_block block = block_of(nb, layer);
    return nb->init ? NULL : rs_block_tensor(nb->b, &block, role, part);
}

rs_net_bias rs_net_bias_of(const rs_net_builder *nb, const char *field)
{
    if (nb->gguf) return RS_BIAS_IF_THERE; /* its metadata does not say */
    return rs_net_flag(nb, field) ? RS_BIAS_YES : RS_BIAS_NO;
}

static void note_missing(rs_net_builder *nb, rs_role role, bool bias, int32_t layer)
{
    char name[256] = "?";
    if (nb->n_missing++ >= RS_NET_SHOWN) return;
    bool known = rs_expected_name(nb->b, RS_SLOT_MAIN, role, layer, name);
    char *ending = strrchr(name, '.');
    bool plain = role == RS_ROLE_SSM_A || role == RS_ROLE_SSM_D || role == RS_ROLE_SSM_DT_BIAS;
    if (known && plain && ending && strcmp(ending, ".weight") == 0) *ending = 0; /* no modules */
    if (known && bias && ending && strcmp(ending, ".weight") == 0)
        snprintf(ending, sizeof name - (size_t)(ending - name), ".bias");
    if (known)
        rs_buffer_printf(&nb->missing, "%s%s", nb->n_missing > 1 ? ", " : "", name);
    else
        rs_buffer_printf(&nb->missing, "%s%s of layer %d", nb->n_missing > 1 ? ", " : "",
                         rs_role_name(role), (int)layer);
}

rs_status rs_net_missing(rs_net_builder *nb)
{
    if (!nb->n_missing) return RS_OK;
    if (nb->missing.failed) return rs_fail_memory(nb->err, "network", 0);
    return rs_fail(nb->err, RS_E_TENSOR_MISSING, nb->b->checkpoint->path,
                   "the download is incomplete, or the configuration belongs to another checkpoint",
                   "%zu %s that a %s forward pass needs %s absent: %s%s", nb->n_missing,
                   nb->n_missing == 1 ? "tensor" : "tensors", nb->network->family,
                   nb->n_missing == 1 ? "is" : "are", nb->missing.data,
                   nb->n_missing > RS_NET_SHOWN ? ", ..." : "");
}

/* Shapes may differ by axes of length one (conv1d, [1, positions, width]) but not in order. */
static bool same_shape(const rs_tensor *tensor, uint32_t rank, const int64_t *shape)
{
    uint32_t t = 0, s = 0;
    for (;;) {
        while (t < tensor->rank && tensor->shape[t] == 1)
            t++;
        while (s < rank && shape[s] == 1)
            s++;
        if (t == tensor->rank || s == rank) return t == tensor->rank && s == rank;
        if (tensor->shape[t++] != shape[s++]) return false;
    }
}

rs_status rs_net_tensor(rs_net_builder *nb, rs_role role, rs_part part, int32_t layer,
                        uint32_t rank, const int64_t *shape, const rs_tensor **out)
{
    rs_builder *b = nb->b;
    *out = NULL;
    if (nb->init) {
        const rs_module_pattern *row = rs_net_pattern(nb, role);
        bool out_is_row = !(row && row->flags & (RS_P_CONV1D | RS_P_XLNET));
        return rs_init_tensor(out, nb->init, role, part == RS_PART_BIAS, layer, rank, shape,
                              out_is_row, nb->err);
    }
    rs_block block = block_of(nb, layer);
    rs_weight weight = {0};
    if (part == RS_PART_WEIGHT) {
        RS_TRY(rs_weight_find(b, &block, role, &weight));
    } else {
        weight.tensor = rs_block_tensor(b, &block, role, part);
    }
    if (!weight.tensor) {
        note_missing(nb, role, part == RS_PART_BIAS, layer);
        return RS_OK;
    }
    if (!same_shape(weight.tensor, rank, shape)) RS_TRY(rs_weight_shape(b, &weight, rank, shape));
    if (!weight.scale && !rs_dtype_is_weight(weight.tensor->dtype))
        RS_TRY(rs_vector_shape(b, weight.tensor, weight.tensor->count));
    *out = weight.tensor;
    return RS_OK;
}

/* The bias of a map: `units` entries. */
static rs_status find_bias(rs_net_builder *nb, rs_role role, int32_t layer, int64_t units,
                           rs_net_bias bias, const rs_tensor **out)
{
    *out = NULL;
    if (bias == RS_BIAS_NO) return RS_OK;
    rs_block block = block_of(nb, layer), first = block_of(nb, 0);
    /* one of the first layer means that all layers have one */
    if (bias == RS_BIAS_IF_THERE && !rs_block_find(&block, role, RS_PART_BIAS) &&
        !(layer > 0 && rs_block_find(&first, role, RS_PART_BIAS)))
        return RS_OK;
    return rs_net_tensor(nb, role, RS_PART_BIAS, layer, 1, &units, out);
}

/* An FP8 weight's scale and the blocks it is for. */
static rs_status find_scale(rs_net_builder *nb, rs_role role, int32_t layer, uint32_t rank,
                            const int64_t *shape, rs_dense *dense)
{
    if (nb->init || !dense->weight) return RS_OK;
    rs_block block = block_of(nb, layer);
    rs_weight weight;
    RS_TRY(rs_weight_find(nb->b, &block, role, &weight));
    if (!weight.scale) return RS_OK;
    RS_TRY(rs_weight_shape(nb->b, &weight, rank, shape));
    dense->scale = weight.scale;
    dense->scale_block_rows = weight.block_rows;
    dense->scale_block_cols = weight.block_cols;
    return RS_OK;
}

rs_dense rs_net_map(const rs_net_builder *nb, rs_role role, int64_t in, int64_t out)
{
    const rs_module_pattern *row = rs_net_pattern(nb, role);
    unsigned flags = row ? row->flags : 0;
    /* XLNet's maps are all stored [width, heads, head_dim], the output's too */
    bool rows = !(flags & RS_P_CONV1D) && (!(flags & RS_P_XLNET) || role == RS_ROLE_O);
    return (rs_dense){.rows = rows ? out : in,
                      .cols = rows ? in : out,
                      .out_is_row = rows,
                      .in = in,
                      .out = out,
                      .run = out,
                      .stride = out};
}

rs_status rs_net_fill_map(rs_net_builder *nb, rs_role role, int32_t layer, int64_t heads,
                          rs_net_bias bias, rs_dense *map)
{
    const rs_module_pattern *row = rs_net_pattern(nb, role);
    int64_t shape[3] = {map->rows, map->cols};
    uint32_t rank = 2;
    if (row && row->flags & RS_P_XLNET) {
        shape[1] = heads;
        shape[2] = map->cols / heads;
        rank = 3;
    }
    RS_TRY(rs_net_tensor(nb, role, RS_PART_WEIGHT, layer, rank, shape, &map->weight));
    RS_TRY(find_scale(nb, role, layer, rank, shape, map));
    return find_bias(nb, role, layer, map->out, bias, &map->bias);
}

rs_status rs_net_dense(rs_net_builder *nb, rs_role role, int32_t layer, int64_t in, int64_t out,
                       rs_net_bias bias, rs_dense *dense)
{
    *dense = rs_net_map(nb, role, in, out);
    return rs_net_fill_map(nb, role, layer, 1, bias, dense);
}

rs_norm_op rs_net_norm_of(const rs_net_builder *nb, int64_t dim)
{
    return (rs_norm_op){.kind = nb->b->family->norm, .dim = dim, .eps = nb->eps};
}

const rs_tensor *rs_net_stored_gain(const rs_net_builder *nb, rs_role role, int32_t layer)
{
    return nb->gguf ? rs_net_stored_tensor(nb, role, RS_PART_WEIGHT, layer) : NULL;
}

/* A gain of all heads; GGUF stores it in rows, one a group. */
static rs_status fill_gain(rs_net_builder *nb, rs_role role, int32_t layer, rs_norm_op *norm)
{
    const rs_tensor *gain = rs_net_stored_gain(nb, role, layer);
    int64_t rows = gain && gain->rank == 2 && role == RS_ROLE_SSM_NORM ? gain->shape[0] : 0;
    int64_t shape[2] = {norm->dim, 1};
    if (rows > 0 && norm->dim % rows == 0) shape[0] = rows, shape[1] = norm->dim / rows;
    return rs_net_tensor(nb, role, RS_PART_WEIGHT, layer, shape[1] > 1 ? 2 : 1, shape, &norm->gain);
}

rs_status rs_net_fill_norm(rs_net_builder *nb, rs_role role, int32_t layer, rs_norm_op *norm)
{
    const rs_ssm_forward *ssm = nb->forward->ssm;
    if (nb->b->family->facts & RS_FACT_BARE_NORM) return RS_OK;
    if (ssm && ssm->bare_inner_norms && role >= RS_ROLE_SSM_DT_NORM && role <= RS_ROLE_SSM_C_NORM &&
        !rs_net_stored_gain(nb, role, layer))
        return RS_OK;
    /* Gains are drawn as 1, and 1 + w is drawn as w = 0: the same map. */
    if (nb->init && norm->kind == RS_NORM_RMSNORM_PLUS_ONE) norm->kind = RS_NORM_RMSNORM;
    RS_TRY(fill_gain(nb, role, layer, norm));
    if (norm->kind != RS_NORM_LAYERNORM) return RS_OK;
    return rs_net_tensor(nb, role, RS_PART_BIAS, layer, 1, &norm->dim, &norm->bias);
}

rs_status rs_net_norm(rs_net_builder *nb, rs_role role, int32_t layer, int64_t dim,
                      rs_norm_op *norm)
{
    *norm = rs_net_norm_of(nb, dim);
    return rs_net_fill_norm(nb, role, layer, norm);
}
