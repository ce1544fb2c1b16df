/* network_tensors.c: which tensors a network uses: drawn ones are counted, and those of the
 * checkpoint that it leaves alone are named. */
#include "network/network_build.h"
#include "network/op_traits.h"

#include <stdlib.h>

typedef struct tensor_list {
    const rs_tensor **items;
    size_t n, capacity;
    bool failed;
} tensor_list;

static bool add_tensor(void *user, const rs_tensor *tensor)
{
    tensor_list *list = user;
    if (RS_GROW(list->items, list->n, list->capacity))
        list->items[list->n++] = tensor;
    else
        list->failed = true;
    return list->failed;
}

static int by_address(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t) * (const rs_tensor *const *)left;
    uintptr_t b = (uintptr_t) * (const rs_tensor *const *)right;
    return (a > b) - (a < b);
}

static void gather(tensor_list *list, const rs_network *network)
{
    rs_network_walk(network, add_tensor, list);
    if (list->n) qsort(list->items, list->n, sizeof *list->items, by_address);
}

/* Whether a forward pass that leaves the tensor alone should say so: it belongs to a layer that is
 * run, or nobody knows what it is for. */
static bool expected_to_matter(const rs_net_builder *nb, size_t t)
{
    const rs_tensor_role *role = &nb->b->model->roles[t];
    if (!rs_role_counts(role->role) || role->role == RS_ROLE_OTHER) return false;
    if (role->role == RS_ROLE_UNKNOWN) return true;
    return role->layer >= 0 ? role->layer < nb->stored : role->role == RS_ROLE_NORM_FINAL;
}

static rs_status note_unused(rs_net_builder *nb, const tensor_list *used)
{
    const rs_checkpoint *checkpoint = nb->b->checkpoint;
    rs_buffer names = {0};
    size_t n = 0;
    for (size_t t = 0; t < checkpoint->n_tensors; t++) {
        const rs_tensor *tensor = &checkpoint->tensors[t];
        if (!expected_to_matter(nb, t) ||
            bsearch(&tensor, used->items, used->n, sizeof *used->items, by_address))
            continue;
        if (n++ < RS_NET_SHOWN)
            rs_buffer_printf(&names, "%s%.128s", n > 1 ? ", " : "", tensor->name);
    }
    rs_status status = names.failed ? rs_fail_memory(nb->err, "network", 0) : RS_OK;
    if (n && status == RS_OK)
        status = rs_notes_say(&nb->network->notes, nb->err, RS_WARN, "unused_tensor",
                              "if they matter, the configuration says too little of this model",
                              "%zu %s no part in the forward pass of family %s: %s%s", n,
                              n == 1 ? "tensor plays" : "tensors play", nb->network->family,
                              names.data, n > RS_NET_SHOWN ? ", ..." : "");
    rs_buffer_free(&names);
    return status;
}

static rs_stored drawn(const tensor_list *list)
{
    rs_stored stored = {.dtype = rs_dtype_info(RS_F32)->name};
    for (size_t i = 0; i < list->n; i++)
        if (i == 0 || list->items[i] != list->items[i - 1])
            stored.parameters += (uint64_t)list->items[i]->count;
    return stored;
}

rs_status rs_net_account(rs_net_builder *nb)
{
    tensor_list list = {0};
    gather(&list, nb->network);
    rs_status status = list.failed ? rs_fail_memory(nb->err, "network", 0) : RS_OK;
    if (nb->init)
        nb->network->stored = drawn(&list);
    else
        rs_tensors_count(&nb->network->stored, nb->b);
    if (status == RS_OK && !nb->init) status = note_unused(nb, &list);
    rs_free(list.items);
    return status;
}
