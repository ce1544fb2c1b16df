/* tensors.c: what is told about every tensor, whether a product uses it or not. */
#include "model/engine.h"

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

static const rs_tensor *embedding(const rs_builder *b)
{
    for (size_t i = 0; i < b->n_matches; i++)
        if (b->matches[i].role == RS_ROLE_EMBED_TOKEN)
            return &b->checkpoint->tensors[b->matches[i].tensor];
    return NULL;
}

/* A head that shares its matrix with the embedding counts once even if the file stores it twice. */
static bool tied_twin(const rs_builder *b, size_t t, const rs_tensor *embed)
{
    const rs_tensor *head = &b->checkpoint->tensors[t];
    return embed && b->model->roles[t].role == RS_ROLE_LM_HEAD && embed->rank == head->rank &&
           embed->count == head->count && rs_fields_true(&b->fields, "tie_word_embeddings");
}

static void count(rs_builder *b)
{
    rs_model *model = b->model;
    uint64_t by_type[RS_DTYPE_COUNT] = {0};
    const rs_tensor *embed = embedding(b);
    for (size_t t = 0; t < b->checkpoint->n_tensors; t++) {
        const rs_tensor *tensor = &b->checkpoint->tensors[t];
        const rs_tensor_role *role = &model->roles[t];
        bool analysed = strcmp(role->status, "analysed") == 0;
        if (analysed) by_type[tensor->dtype] += (uint64_t)tensor->count;
        bool weight = rs_dtype_is_weight(tensor->dtype) ||
                      rs_dtype_info(tensor->dtype)->quantised || analysed;
        if (weight && rs_role_counts(role->role) && !tied_twin(b, t, embed))
            model->parameters += (uint64_t)tensor->count;
    }
    rs_dtype most = RS_DTYPE_UNKNOWN;
    for (int d = 0; d < RS_DTYPE_COUNT; d++)
        if (by_type[d] > by_type[most]) most = (rs_dtype)d;
    model->dtype = rs_dtype_info(most)->name;
}

rs_status rs_tensors_describe(rs_builder *b)
{
    for (size_t t = 0; t < b->checkpoint->n_tensors; t++)
        RS_TRY(describe(b, t));
    count(b);
    return b->n_map ? RS_OK : note_unknown(b);
}
