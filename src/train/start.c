/* start.c: gives chosen tensors the numbers of a law or of a file. */
#include "train/start.h"

#include "base/memory.h"
#include "checkpoint/npy.h"
#include "network/init.h"
#include "train/groups.h"

#include <math.h>
#include <string.h>

/* Draws of a start are no draws of the model's own. */
static const uint64_t own_stream = 0x7374617274000000u;

/* What numbers are put into: a tensor, or one number of the network. */
typedef struct target {
    rs_trained *item;
    const rs_tensor *tensor; /* NULL: a number */
    const char *name, *where;
    size_t size;
    int32_t number; /* its place in the list */
} target;

static void put(const target *to, int64_t i, double value)
{
    if (to->size == sizeof(float))
        ((float *)to->item->weight)[i] = (float)value;
    else
        ((double *)to->item->weight)[i] = value;
}

/* ---- a file ---- */

static bool has_shape(const target *to, const rs_npy *array)
{
    if (!to->tensor) return array->count == 1;
    bool same = array->rank == to->tensor->rank;
    for (uint32_t k = 0; same && k < array->rank; k++)
        same = array->shape[k] == to->tensor->shape[k];
    return same;
}

static rs_status take_array(const target *to, const rs_npy *array, const char *path, rs_error *err)
{
    if (rs_npy_is_whole(array) || !has_shape(to, array))
        return rs_fail(err, RS_E_TASK_SCHEMA, path,
                       "save an array of float32 or float64 with the tensor's own shape",
                       "\"start\": the array is not what %s is, %lld numbers", to->name,
                       (long long)to->item->count);
    for (int64_t i = 0; i < array->count; i++) {
        double value;
        rs_npy_reals(&value, array, i, 1);
        if (!isfinite(value))
            return rs_fail(err, RS_E_TASK_SCHEMA, path, NULL,
                           "\"start\": number %lld is not finite", (long long)i);
        put(to, i, value);
    }
    return RS_OK;
}

static rs_status start_from_file(const target *to, const char *path, rs_error *err)
{
    rs_mapping *file = NULL;
    rs_npy array;
    RS_TRY(rs_mapping_open(&file, path, err));
    rs_status status = rs_npy_parse(&array, path, file->data, file->size, err);
    if (status == RS_OK) status = take_array(to, &array, path, err);
    if (status == RS_OK) status = rs_mapping_check(file, err);
    rs_mapping_close(file);
    return status;
}

/* ---- a law ---- */

/* The law is that of a role which has no other one; tensors differ by their place in the list. */
static rs_status draw(const target *to, rs_init *init, const char *law, rs_error *err)
{
    static const int64_t one = 1;
    const rs_tensor *drawn = NULL;
    rs_error why = {0};
    rs_status status = rs_init_set_role(init, RS_ROLE_Q, law, to->where, &why);
    if (status == RS_OK)
        status = rs_init_tensor(&drawn, init, RS_ROLE_Q, false, to->number,
                                to->tensor ? to->tensor->rank : 1,
                                to->tensor ? to->tensor->shape : &one, true, &why);
    if (status == RS_E_BAD_OPTION || status == RS_E_EXPRESSION)
        return rs_fail(err, RS_E_TASK_SCHEMA, to->where,
                       why.hint[0] ? why.hint : "give a law or the path of a .npy file",
                       "\"start\" of %s: %.200s", to->name, why.what);
    if (status != RS_OK) {
        if (err) *err = why;
        return status;
    }
    for (int64_t i = 0; i < to->item->count; i++) {
        float value;
        memcpy(&value, drawn->data + (size_t)i * sizeof value, sizeof value);
        put(to, i, (double)value);
    }
    return RS_OK;
}

static rs_status start_by_law(const target *to, const rs_trained_list *list,
                              const rs_train_settings *s, const char *law, rs_error *err)
{
    rs_init *init = NULL;
    RS_TRY(rs_init_open(&init, NULL, (uint64_t)s->seed ^ own_stream, err));
    rs_init_set_default(init, 0.02, 0.02, list->network->d_model, list->network->n_layers);
    rs_status status = draw(to, init, law, err);
    rs_init_close(init);
    return status;
}

/* ---- which ---- */

static bool is_file(const char *from)
{
    size_t n = strlen(from);
    return n > 4 && strcmp(from + n - 4, ".npy") == 0;
}

static rs_status start_item(rs_trained_list *list, int64_t i, const char *from,
                            const rs_train_settings *s, rs_error *err)
{
    const target to = {.item = &list->items[i],
                       .tensor = list->places[i].tensor,
                       .name = list->names[i].name,
                       .where = s->path,
                       .size = list->size,
                       .number = (int32_t)i};
    return is_file(from) ? start_from_file(&to, from, err) : start_by_law(&to, list, s, from, err);
}

static rs_status start_items(rs_trained_list *list, rs_groups *groups, const rs_train_settings *s,
                             rs_error *err)
{
    for (int64_t i = 0; i < list->n; i++) {
        double chosen;
        RS_TRY(rs_groups_find(&chosen, groups, list->names[i].name, list->names[i].words, -1, err));
        if (chosen >= 0) RS_TRY(start_item(list, i, s->start.items[(int64_t)chosen].from, s, err));
    }
    RS_TRY(rs_groups_check(groups, err));
    rs_trained_hand_over(list);
    return RS_OK;
}

rs_status rs_train_start(rs_trained_list *list, const rs_train_settings *s, rs_error *err)
{
    int64_t n = s->start.n;
    if (n == 0) return RS_OK;
    rs_group_value *values = rs_malloc((size_t)n, sizeof *values);
    if (!values) return rs_fail_memory(err, "groups", (size_t)n * sizeof *values);
    for (int64_t k = 0; k < n; k++)
        values[k] = (rs_group_value){s->start.items[k].select, (double)k};
    rs_groups *groups = NULL;
    rs_status status = rs_groups_new(&groups, values, n, s->path, "start", err);
    if (status == RS_OK) status = start_items(list, groups, s, err);
    rs_groups_free(groups);
    rs_free(values);
    return status;
}
