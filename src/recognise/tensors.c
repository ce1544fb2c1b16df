/* tensors.c: what is told about every tensor, whether a product uses it or not. */
#include "recognise/builder.h"

#include <stdio.h>
#include <string.h>

size_t rs_tensors_list(const rs_builder *b, bool unknown_only, rs_buffer *names)
{
    size_t n = 0;
    for (size_t t = 0; t < b->checkpoint->n_tensors; t++) {
        if (unknown_only && b->model->roles[t].role != RS_ROLE_UNKNOWN) continue;
        if (n++ < 20)
            rs_buffer_printf(names, "%s%.128s", n > 1 ? ", " : "", b->checkpoint->tensors[t].name);
    }
    if (n > 20) rs_buffer_puts(names, ", ...");
    return n;
}

static rs_status note_unknown(rs_builder *b)
{
    rs_buffer names = {0};
    size_t n = rs_tensors_list(b, true, &names);
    rs_status status = names.failed ? rs_fail_memory(b->err, "model", 0) : RS_OK;
    if (n && status == RS_OK)
        status = rs_notes_say(&b->model->notes, b->err, RS_INFO, "unknown_tensor",
                              "if they belong to attention, name them with --map FILE.json",
                              "%zu %s no known name of family %s: %s", n,
                              n == 1 ? "tensor has" : "tensors have", b->model->family, names.data);
    rs_buffer_free(&names);
    return status;
}

static rs_status describe(rs_builder *b, size_t t)
{
    const rs_tensor *tensor = &b->checkpoint->tensors[t];
    rs_tensor_role *role = &b->model->roles[t];
    if (role->status) return RS_OK;
    role->status = "decoded only";
    bool norm = role->role >= RS_ROLE_Q_NORM && role->role <= RS_ROLE_NORM_HEAD;
    if (b->guessing && norm)
        role->reason = "norm weight: what it multiplies by is not known in a guess";
    else if (!role->reason)
        role->reason = b->n_map && role->role == RS_ROLE_UNKNOWN ? "not named by --map"
                                                                 : rs_role_reason(role->role);
    if (rs_dtype_decodable(tensor->dtype)) return RS_OK;
    role->status = "refused";
    const char *type = rs_dtype_info(tensor->dtype)->name;
    role->reason = tensor->type_id >= 0
                       ? rs_arena_printf(b->model->arena, "type %s (GGUF type %d) is not decoded",
                                         type, (int)tensor->type_id)
                       : rs_arena_printf(b->model->arena, "type %s is not decoded", type);
    return role->reason ? RS_OK : rs_fail_memory(b->err, "model", 0);
}

/* Tables that modules of transformers keep beside their weights, by the end of their names: where
 * no family has named a tensor (--map), too, they are no parameters. */
static bool is_table(const char *name)
{
    static const char *const endings[] = {"inv_freq", "masked_bias", "rope_freqs.weight"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t m = strlen(endings[i]);
        if (n >= m && strcmp(name + n - m, endings[i]) == 0) return true;
    }
    return false;
}

/* Integers are indices, masks and packed codes; alone 8-bit ones of a known role are weights, whose
 * scales lie beside them. */
static bool holds_parameters(const rs_tensor *tensor, rs_role role)
{
    static const rs_dtype others[] = {RS_BOOL, RS_U8,  RS_I16, RS_U16,    RS_I32,
                                      RS_U32,  RS_I64, RS_U64, RS_F8_E8M0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (tensor->dtype == others[i]) return false;
    if (role == RS_ROLE_UNKNOWN) return tensor->dtype != RS_I8 && !is_table(tensor->name);
    return rs_role_counts(role);
}

void rs_tensors_count(rs_stored *stored, const rs_builder *b)
{
    uint64_t by_type[RS_DTYPE_COUNT] = {0};
    rs_dtype most = RS_DTYPE_UNKNOWN;
    *stored = (rs_stored){.file_type = rs_gguf_file_type(b->checkpoint)};
    for (size_t t = 0; t < b->checkpoint->n_tensors; t++) {
        const rs_tensor *tensor = &b->checkpoint->tensors[t];
        if (!holds_parameters(tensor, b->model->roles[t].role)) continue;
        stored->parameters += (uint64_t)tensor->count;
        by_type[tensor->dtype] += (uint64_t)tensor->count;
    }
    for (int d = 0; d < RS_DTYPE_COUNT; d++)
        if (by_type[d] > by_type[most]) most = (rs_dtype)d;
    stored->dtype = rs_dtype_info(most)->name;
}

rs_status rs_tensors_describe(rs_builder *b)
{
    for (size_t t = 0; t < b->checkpoint->n_tensors; t++)
        RS_TRY(describe(b, t));
    rs_tensors_count(&b->model->stored, b);
    return b->n_map ? RS_OK : note_unknown(b);
}
