/* names.c: names of a network's stored tensors, found by walking its lists of weights. */
#include "network/names.h"

#include "base/memory.h"
#include "network/op_traits.h"
#include "recognise/builder.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 160, SHOWN = 20 };

/* ---- the walk: every member that holds a tensor, with its name ---- */

/* A place in the network that holds a tensor. */
typedef struct place {
    const rs_tensor **slot;
    char name[NAME_SIZE];
    rs_role role;
    int32_t layer, branch;
    bool gain, bias;
} place;

typedef rs_status place_visit(void *user, const place *at, rs_error *err);

typedef struct walk {
    place_visit *visit;
    void *user;
    char prefix[64]; /* "layers.0.mixer." */
    int32_t layer, branch;
    rs_error *err;
} walk;

static rs_status tell(const walk *w, const rs_tensor **slot, rs_role role, const char *row,
                      const char *end, bool gain, bool bias)
{
    if (!*slot || (*slot)->fixed) return RS_OK;
    place at = {.slot = slot,
                .role = role,
                .layer = w->layer,
                .branch = w->branch,
                .gain = gain,
                .bias = bias};
    snprintf(at.name, sizeof at.name, "%s%.60s%s", w->prefix, row, end);
    for (char *c = at.name; *c; c++)
        *c = *c == ' ' ? '_' : (char)tolower((unsigned char)*c);
    return w->visit(w->user, &at, w->err);
}

static rs_status walk_map(const walk *w, rs_dense *map, rs_role role, const char *name)
{
    RS_TRY(tell(w, &map->weight, role, name, ".weight", false, false));
    RS_TRY(tell(w, &map->scale, role, name, ".weight_scale", false, false));
    return tell(w, &map->bias, role, name, ".bias", false, true);
}

static rs_status walk_norm(const walk *w, rs_norm_op *norm, rs_role role, const char *name)
{
    RS_TRY(tell(w, &norm->gain, role, name, ".gain", true, false));
    return tell(w, &norm->bias, role, name, ".bias", true, true);
}

static rs_status walk_conv(const walk *w, rs_conv_op *conv, rs_role role, const char *name)
{
    RS_TRY(tell(w, &conv->weight, role, name, ".weight", false, false));
    RS_TRY(tell(w, &conv->more[0], role, name, ".weight_1", false, false));
    RS_TRY(tell(w, &conv->more[1], role, name, ".weight_2", false, false));
    return tell(w, &conv->bias, role, name, ".bias", false, true);
}

/* numbers: what ends the name of plain numbers. */
static rs_status walk_list(const walk *w, const rs_weight_list *list, void *owner,
                           const char *numbers)
{
    for (size_t i = 0; i < list->n; i++) {
        const rs_weight_row *row = &list->rows[i];
        void *member = (char *)owner + row->offset;
        switch (row->form) {
        case RS_WEIGHT_MAP:
            RS_TRY(walk_map(w, member, row->role, row->name));
            break;
        case RS_WEIGHT_NORM:
            RS_TRY(walk_norm(w, member, row->role, row->name));
            break;
        case RS_WEIGHT_CONV:
            RS_TRY(walk_conv(w, member, row->role, row->name));
            break;
        case RS_WEIGHT_NUMBERS:
            RS_TRY(tell(w, member, row->role, row->name, numbers, false, false));
            break;
        }
    }
    return RS_OK;
}

/* "mixer", "mlp", "cross", or the word of a mixer that stands beside the first. */
static const char *place_of(const rs_layer *layer, const rs_branch *branch)
{
    const rs_op_traits *traits = rs_branch_traits(branch);
    if (branch == rs_layer_mixer(layer)) return "mixer";
    if (!traits->mixes) return "mlp";
    return traits->reads_memory(branch) ? "cross" : traits->word;
}

static rs_status walk_branch(walk *w, rs_layer *layer, int32_t b)
{
    rs_branch *branch = &layer->branches[b];
    w->branch = b;
    snprintf(w->prefix, sizeof w->prefix, "layers.%d.%.30s.", (int)layer->stored,
             place_of(layer, branch));
    RS_TRY(walk_norm(w, &branch->before, RS_ROLE_UNKNOWN, "norm_before"));
    RS_TRY(walk_list(w, &rs_branch_traits(branch)->weights, branch, ""));
    RS_TRY(walk_norm(w, &branch->inside, RS_ROLE_UNKNOWN, "norm_inside"));
    return walk_norm(w, &branch->after, RS_ROLE_UNKNOWN, "norm_after");
}

/* The head's decoder is the head. */
static rs_status walk_head(walk *w, rs_head_op *head)
{
    RS_TRY(walk_map(w, &head->decoder, RS_ROLE_LM_HEAD, "head"));
    for (size_t i = 0; i < rs_head_weights.n; i++) {
        const rs_weight_row *row = &rs_head_weights.rows[i];
        if (row->offset == offsetof(rs_head_op, decoder)) continue;
        const rs_weight_list one = {row, 1};
        snprintf(w->prefix, sizeof w->prefix, "head.");
        RS_TRY(walk_list(w, &one, head, "_of_outputs"));
    }
    return RS_OK;
}

static rs_status walk_network(rs_network *network, place_visit *visit, void *user, rs_error *err)
{
    walk w = {.visit = visit, .user = user, .layer = -1, .branch = -1, .err = err};
    snprintf(w.prefix, sizeof w.prefix, "embed.");
    RS_TRY(walk_list(&w, &rs_embedding_weights, &network->embedding, ".weight"));
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            w.layer = l;
            RS_TRY(walk_branch(&w, &network->layers[l], b));
        }
    w.layer = w.branch = -1;
    w.prefix[0] = 0;
    RS_TRY(walk_list(&w, &rs_read_out_weights, &network->read_out, ""));
    RS_TRY(walk_norm(&w, &network->final_norm, RS_ROLE_UNKNOWN, "final_norm"));
    return walk_head(&w, &network->head);
}

/* ---- the list ---- */

static int by_address(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)(*(const rs_named_tensor *const *)left)->tensor;
    uintptr_t b = (uintptr_t)(*(const rs_named_tensor *const *)right)->tensor;
    return (a > b) - (a < b);
}

/* What is gathered: a map from names to rows, for tensors that several layers share. */
typedef struct gathering {
    rs_names *names;
    rs_strmap seen;
} gathering;

static rs_status add_row(void *user, const place *at, rs_error *err)
{
    gathering *g = user;
    rs_names *names = g->names;
    bool existed = false;
    const char *name = rs_arena_strdup(names->arena, at->name);
    if (!name || !rs_strmap_insert(&g->seen, name, strlen(name), (int64_t)names->n, &existed))
        return rs_fail_memory(err, "names of tensors", NAME_SIZE);
    if (existed) return RS_OK;
    if (!RS_GROW(names->rows, names->n, names->capacity))
        return rs_fail_memory(err, "names of tensors", sizeof *names->rows);
    names->rows[names->n++] = (rs_named_tensor){.name = name,
                                                .tensor = *at->slot,
                                                .role = at->role,
                                                .layer = at->layer,
                                                .branch = at->branch,
                                                .gain = at->gain,
                                                .bias = at->bias};
    return RS_OK;
}

/* Of a tensor that stands in two places under two names (tied embeddings) the first counts. */
static void drop_twins(rs_names *names)
{
    size_t kept = 0;
    for (size_t i = 1; i < names->n; i++)
        if (names->by_tensor[i]->tensor == names->by_tensor[i - 1]->tensor) {
            bool later = names->by_tensor[i] > names->by_tensor[i - 1];
            size_t row = (size_t)(names->by_tensor[later ? i : i - 1] - names->rows);
            names->rows[row].name = NULL;
            if (later) names->by_tensor[i] = names->by_tensor[i - 1];
        }
    for (size_t i = 0; i < names->n; i++)
        if (names->rows[i].name) names->rows[kept++] = names->rows[i];
    names->n = kept;
}

static void sort_rows(rs_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        names->by_tensor[i] = &names->rows[i];
    if (names->n) qsort(names->by_tensor, names->n, sizeof *names->by_tensor, by_address);
}

static rs_status gather(rs_names *names, const rs_network *network, rs_error *err)
{
    gathering g = {.names = names};
    /* The walk hands out members to be written to; this visitor reads them. */
    rs_status status = walk_network((rs_network *)(uintptr_t)network, add_row, &g, err);
    rs_strmap_free(&g.seen);
    RS_TRY(status);
    names->by_tensor = rs_calloc(names->n + 1, sizeof *names->by_tensor);
    if (!names->by_tensor)
        return rs_fail_memory(err, "names of tensors", names->n * sizeof *names->by_tensor);
    sort_rows(names);
    drop_twins(names);
    sort_rows(names);
    return RS_OK;
}

rs_status rs_names_open(rs_names **out, const rs_network *network, rs_error *err)
{
    *out = NULL;
    rs_names *names = rs_calloc(1, sizeof *names);
    if (!names) return rs_fail_memory(err, "names of tensors", sizeof *names);
    names->arena = rs_arena_new();
    rs_status status = names->arena ? gather(names, network, err)
                                    : rs_fail_memory(err, "names of tensors", sizeof *names);
    if (status == RS_OK)
        *out = names;
    else
        rs_names_close(names);
    return status;
}

void rs_names_close(rs_names *names)
{
    if (!names) return;
    rs_arena_free(names->arena);
    rs_free(names->by_tensor);
    rs_free(names->rows);
    rs_free(names);
}

const rs_named_tensor *rs_names_find(const rs_names *names, const rs_tensor *tensor)
{
    const rs_named_tensor wanted = {.tensor = tensor}, *key = &wanted;
    const rs_named_tensor **found =
        names->n ? bsearch(&key, names->by_tensor, names->n, sizeof *names->by_tensor, by_address)
                 : NULL;
    return found ? *found : NULL;
}

/* ---- a checkpoint's tensors in their places ---- */

typedef struct binding {
    const rs_checkpoint *checkpoint;
    bool *used; /* [n_tensors] */
    rs_buffer missing;
    size_t n_missing;
} binding;

static void shape_text(char text[96], const rs_tensor *tensor)
{
    size_t used = (size_t)snprintf(text, 96, "[");
    for (uint32_t i = 0; i < tensor->rank && used < 70; i++)
        used += (size_t)snprintf(text + used, 96 - used, "%s%lld", i ? ", " : "",
                                 (long long)tensor->shape[i]);
    snprintf(text + used, 96 - used, "]");
}

static rs_status check_tensor(const rs_tensor *stored, const rs_tensor *wanted, rs_error *err)
{
    bool same = stored->rank == wanted->rank;
    for (uint32_t i = 0; same && i < stored->rank; i++)
        same = stored->shape[i] == wanted->shape[i];
    if (!same) {
        char found[96], asked[96];
        shape_text(found, stored);
        shape_text(asked, wanted);
        return rs_fail(err, RS_E_TENSOR_SHAPE, stored->name,
                       "the configuration belongs to another checkpoint, or one is damaged",
                       "has shape %s; \"arch\" asks for %s", found, asked);
    }
    if (rs_dtype_is_weight(stored->dtype)) return RS_OK;
    return rs_fail(err, RS_E_TENSOR_DTYPE, stored->name, "store it as F32 or F64",
                   "its type %s is no plain floating point", rs_dtype_info(stored->dtype)->name);
}

static rs_status bind_place(void *user, const place *at, rs_error *err)
{
    binding *b = user;
    const rs_tensor *stored = rs_checkpoint_find(b->checkpoint, at->name);
    if (!stored) {
        if (b->n_missing++ < SHOWN)
            rs_buffer_printf(&b->missing, "%s%s", b->n_missing > 1 ? ", " : "", at->name);
        return RS_OK;
    }
    b->used[stored - b->checkpoint->tensors] = true;
    /* A tensor that several layers share is in its place after the first. */
    RS_TRY(check_tensor(stored, *at->slot, err));
    *at->slot = stored;
    return RS_OK;
}

static rs_status refuse_missing(const binding *b, rs_error *err)
{
    if (b->missing.failed) return rs_fail_memory(err, "names of tensors", b->missing.length);
    if (!b->n_missing) return RS_OK;
    return rs_fail(err, RS_E_TENSOR_MISSING, b->checkpoint->path,
                   "the configuration belongs to another checkpoint, or this one is not whole",
                   "%zu %s that \"arch\" asks for %s not there: %s%s", b->n_missing,
                   b->n_missing == 1 ? "tensor" : "tensors", b->n_missing == 1 ? "is" : "are",
                   b->missing.data, b->n_missing > SHOWN ? ", ..." : "");
}

static rs_status refuse_others(const binding *b, rs_error *err)
{
    const char *first = NULL;
    size_t n = 0;
    for (size_t t = 0; t < b->checkpoint->n_tensors; t++)
        if (!b->used[t] && !n++) first = b->checkpoint->tensors[t].name;
    if (!n) return RS_OK;
    return rs_fail(err, RS_E_TENSOR_NAME, b->checkpoint->path,
                   "the configuration belongs to another checkpoint",
                   "%zu %s no part of the network that \"arch\" says, such as %.128s", n,
                   n == 1 ? "tensor is" : "tensors are", first);
}

/* What is stored, as it is stored; the type is that of most numbers. */
static void count_stored(rs_network *network, const rs_checkpoint *checkpoint)
{
    uint64_t by_type[RS_DTYPE_COUNT] = {0}, all = 0;
    int most = network->stored.dtype ? -1 : RS_F32;
    for (size_t t = 0; t < checkpoint->n_tensors; t++) {
        by_type[checkpoint->tensors[t].dtype] += (uint64_t)checkpoint->tensors[t].count;
        all += (uint64_t)checkpoint->tensors[t].count;
    }
    for (int d = 0; d < RS_DTYPE_COUNT; d++)
        if (by_type[d] > (most >= 0 ? by_type[most] : 0)) most = d;
    network->stored.parameters = all;
    if (most >= 0) network->stored.dtype = rs_dtype_info((rs_dtype)most)->name;
}

rs_status rs_names_bind(rs_network *network, const rs_checkpoint *checkpoint, rs_error *err)
{
    binding b = {.checkpoint = checkpoint};
    b.used = rs_calloc(checkpoint->n_tensors + 1, sizeof *b.used);
    if (!b.used) return rs_fail_memory(err, "names of tensors", checkpoint->n_tensors);
    rs_status status = walk_network(network, bind_place, &b, err);
    if (status == RS_OK) status = refuse_missing(&b, err);
    if (status == RS_OK) status = refuse_others(&b, err);
    if (status == RS_OK) count_stored(network, checkpoint);
    rs_buffer_free(&b.missing);
    rs_free(b.used);
    return status;
}
