/* factor.c: a tensor becomes a factor only after its type and its shape have been checked. */
#include "recognise/builder.h"

#include <string.h>

static bool is_float8(rs_dtype dtype)
{
    return dtype == RS_F8_E4M3 || dtype == RS_F8_E5M2 || dtype == RS_F8_E4M3FNUZ ||
           dtype == RS_F8_E5M2FNUZ;
}

static rs_status refuse_type(rs_builder *b, const rs_tensor *tensor, const char *why,
                             const char *hint)
{
    const char *type = rs_dtype_info(tensor->dtype)->name;
    if (tensor->type_id >= 0)
        return rs_fail(b->err, RS_E_TENSOR_DTYPE, tensor->name, hint,
                       "its type %s (GGUF type %d) %s", type, (int)tensor->type_id, why);
    return rs_fail(b->err, RS_E_TENSOR_DTYPE, tensor->name, hint, "its type %s %s", type, why);
}

static rs_status check_type(rs_builder *b, const rs_block *block, rs_role role, rs_weight *weight)
{
    const rs_tensor *tensor = weight->tensor;
    if (rs_dtype_is_weight(tensor->dtype)) return RS_OK;
    bool coded = is_float8(tensor->dtype) || tensor->dtype == RS_I8;
    weight->scale = rs_block_tensor(b, block, role, RS_PART_SCALE);
    if (coded && weight->scale) return RS_OK;
    weight->scale = NULL;
    if (is_float8(tensor->dtype))
        return refuse_type(b, tensor,
                           "needs its scale, and there is no weight_scale_inv or weight_scale "
                           "beside it",
                           "spectra without the scale would be wrong block by block");
    if (rs_block_find(block, role, RS_PART_BUFFER))
        return refuse_type(b, tensor, "is packed by a quantiser (bitsandbytes or the like)",
                           "scan the unquantised checkpoint, or a GGUF of it");
    return refuse_type(b, tensor, "is not decoded, and a head product needs this tensor",
                       "use a checkpoint in F32, F16, BF16 or a supported GGUF type");
}

rs_status rs_weight_find(rs_builder *b, const rs_block *block, rs_role role, rs_weight *weight)
{
    *weight = (rs_weight){.match = rs_block_find(block, role, RS_PART_WEIGHT)};
    if (weight->match) {
        weight->tensor = &b->checkpoint->tensors[weight->match->tensor];
        return check_type(b, block, role, weight);
    }
    const rs_tensor *packed = rs_block_tensor(b, block, role, RS_PART_PACKED);
    if (!packed) return RS_OK;
    return refuse_type(b, packed, "is packed by a quantiser (GPTQ, AWQ or the like)",
                       "scan the unquantised checkpoint, or a GGUF of it");
}

static void shape_text(char text[128], uint32_t rank, const int64_t *shape)
{
    size_t used = 0;
    text[used++] = '[';
    for (uint32_t i = 0; i < rank && used < 100; i++)
        used +=
            (size_t)snprintf(text + used, 128 - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(text + used, 128 - used, "]");
}

static rs_status wrong_shape(rs_builder *b, const rs_tensor *tensor, uint32_t rank,
                             const int64_t *expected)
{
    char wanted[128], found[128];
    shape_text(wanted, rank, expected);
    shape_text(found, tensor->rank, tensor->shape);
    return rs_fail(
        b->err, RS_E_TENSOR_SHAPE, tensor->name,
        b->model->guessed ? "the sizes were guessed from names; state them with --map FILE.json"
                          : "the configuration belongs to another checkpoint, or one is damaged",
        "has shape %s; the %s asks for %s", found, b->n_map ? "map" : "configuration", wanted);
}

static int64_t ceil_div(int64_t a, int64_t d)
{
    return a / d + (a % d != 0);
}

/* Which block of the weight each scale belongs to (docs/formats.md, 3): a grid given by the config,
 * one a row, or one for all. */
static rs_status place_scale(rs_builder *b, rs_weight *weight)
{
    const rs_tensor *scale = weight->scale;
    if (!rs_dtype_is_weight(scale->dtype))
        return refuse_type(b, scale, "is no floating-point scale", NULL);
    weight->block_rows = weight->rows;
    weight->block_cols = weight->cols;
    if (scale->count == 1) return RS_OK;
    if (scale->count == weight->rows && (scale->rank == 1 || scale->shape[scale->rank - 1] == 1)) {
        weight->block_rows = 1;
        return RS_OK;
    }
    int64_t block[2] = {128, 128};
    const json_t *sizes = rs_fields_key(&b->fields, "quantization_config.weight_block_size");
    for (size_t i = 0; i < 2 && json_is_array(sizes); i++)
        RS_TRY(rs_json_size(json_array_get(sizes, i), b->fields.path, "weight_block_size",
                            &block[i], b->err));
    int64_t grid[2] = {ceil_div(weight->rows, block[0]), ceil_div(weight->cols, block[1])};
    if (scale->rank != 2 || scale->shape[0] != grid[0] || scale->shape[1] != grid[1])
        return wrong_shape(b, scale, 2, grid);
    weight->block_rows = block[0];
    weight->block_cols = block[1];
    return RS_OK;
}

rs_status rs_weight_shape(rs_builder *b, rs_weight *weight, uint32_t rank, const int64_t *expected)
{
    const rs_tensor *tensor = weight->tensor;
    if (tensor->rank != rank || memcmp(tensor->shape, expected, rank * sizeof *expected) != 0)
        return wrong_shape(b, tensor, rank, expected);
    weight->rows = expected[0];
    weight->cols = rank == 3 ? expected[1] * expected[2] : expected[1];
    return weight->scale ? place_scale(b, weight) : RS_OK;
}

rs_status rs_vector_shape(rs_builder *b, const rs_tensor *tensor, int64_t count)
{
    if (!tensor) return RS_OK;
    if (!rs_dtype_is_weight(tensor->dtype))
        return refuse_type(b, tensor, "is not decoded, and a norm or bias is kept in it", NULL);
    return tensor->count == count ? RS_OK : wrong_shape(b, tensor, 1, &count);
}

rs_factor rs_factor_make(const rs_weight *weight, bool vector_is_row, int64_t first, int64_t inner)
{
    return (rs_factor){.tensor = weight->tensor,
                       .rows = weight->rows,
                       .cols = weight->cols,
                       .vector_is_row = vector_is_row,
                       .first = first,
                       .inner = inner,
                       .features = vector_is_row ? weight->cols : weight->rows,
                       .scale = weight->scale,
                       .scale_block_rows = weight->block_rows,
                       .scale_block_cols = weight->block_cols};
}

rs_status rs_product_add(rs_builder *b, const rs_product *product)
{
    rs_model *model = b->model;
    if (!RS_GROW(model->products, model->n_products, b->products_capacity))
        return rs_fail_memory(b->err, "model", 0);
    model->products[model->n_products++] = *product;
    const rs_tensor *used[2] = {product->a.tensor, product->b.tensor};
    for (size_t i = 0; i < 2; i++) {
        rs_tensor_role *role = &model->roles[used[i] - b->checkpoint->tensors];
        role->status = "analysed";
        role->reason = "";
    }
    return RS_OK;
}

const char *rs_shared_text(rs_builder *b, int kind, const char *text)
{
    if (b->shared[kind] && strcmp(b->text[kind], text) == 0) return b->shared[kind];
    snprintf(b->text[kind], sizeof b->text[kind], "%s", text);
    return b->shared[kind] = rs_arena_strdup(b->model->arena, b->text[kind]);
}
