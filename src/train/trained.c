/* trained.c: the list of what is trained, and where gradients go. */
#include "train/trained.h"

#include "base/memory.h"
#include "network/names.h"
#include "network/op_traits.h"
#include "network/saved.h"

#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

/* What is being listed. */
typedef struct lister {
    rs_trained_list *list;
    const rs_network *network;
    size_t capacity;
    int32_t layer;
    rs_error *err;
} lister;

static rs_status grow(lister *at)
{
    rs_trained_list *list = at->list;
    if ((size_t)list->n < at->capacity) return RS_OK;
    size_t room = 2 * at->capacity + 64;
    rs_trained *items = rs_realloc(list->items, room, sizeof *items);
    if (items) list->items = items;
    rs_trained_place *places = rs_realloc(list->places, room, sizeof *places);
    if (places) list->places = places;
    rs_trained_name *names = rs_realloc(list->names, room, sizeof *names);
    if (names) list->names = names;
    if (!items || !places || !names)
        return rs_fail_memory(at->err, "the list of what is trained", room * sizeof *items);
    at->capacity = room;
    return RS_OK;
}

static rs_status add(lister *at, const rs_trained_place *place, int64_t count, unsigned words,
                     const char *name)
{
    RS_TRY(grow(at));
    rs_trained_list *list = at->list;
    if (!name) return rs_fail_memory(at->err, "a name", 64);
    list->items[list->n] = (rs_trained){.count = count, .rate = 1};
    list->places[list->n] = *place;
    list->names[list->n] = (rs_trained_name){.name = name, .words = words};
    list->n++;
    list->numbers += count;
    return RS_OK;
}

/* Tensors by the names of names.h, or by those that a checkpoint has. */
static rs_status add_tensors(lister *at)
{
    rs_names *names = NULL;
    bool own = at->network->checkpoint && !rs_is_saved(at->network->checkpoint->config);
    RS_TRY(rs_names_open(&names, at->network, at->err));
    rs_status status = RS_OK;
    for (size_t i = 0; i < names->n && status == RS_OK; i++) {
        const rs_named_tensor *row = &names->rows[i];
        const rs_trained_place place = {
            .tensor = (rs_tensor *)(uintptr_t)row->tensor, .role = row->role, .layer = row->layer};
        const char *name = rs_arena_strdup(at->list->arena, own ? row->tensor->name : row->name);
        status = add(at, &place, row->tensor->count,
                     rs_group_words_of(row->role, row->gain, row->bias), name);
    }
    rs_names_close(names);
    return status;
}

static const char *number_name(const lister *at, const rs_branch *branch, const char *name)
{
    return rs_arena_printf(at->list->arena, "layers.%d.%s.%s", (int)at->layer,
                           rs_branch_traits(branch)->mixes ? "mixer" : "mlp", name);
}

static rs_status add_number(lister *at, const rs_branch *branch, double *number,
                            rs_parameter_part part, const char *name)
{
    const rs_trained_place place = {.layer = at->layer, .number = number, .part = part};
    return add(at, &place, 1, RS_GROUP_STRENGTH, number_name(at, branch, name));
}

/* Those of one branch that the list wants. */
static rs_status add_numbers_of(lister *at, rs_branch *branch)
{
    unsigned told = at->list->told;
    rs_attention_op *op = &branch->attention; /* of an attention alone */
    if (!(told & RS_NUMBERS_NO_SKIPS))
        RS_TRY(add_number(at, branch, &branch->skip, RS_OF_SKIP, "skip"));
    if (!(told & RS_NUMBERS_NO_SCALES))
        RS_TRY(add_number(at, branch, &branch->scale, RS_OF_SCALE, "scale"));
    if (!(told & RS_NUMBERS_SHAPED) || !rs_branch_attention(branch)) return RS_OK;
    RS_TRY(add_number(at, branch, &op->mix_identity, RS_OF_IDENTITY, "identity"));
    RS_TRY(add_number(at, branch, &op->mix_softmax, RS_OF_SOFTMAX, "softmax"));
    return add_number(at, branch, &op->mix_uniform, RS_OF_UNIFORM, "uniform");
}

/* The network's own numbers, where the settings have them trained. */
static rs_status add_numbers(lister *at, const rs_train_settings *s)
{
    bool attends = !(at->list->told & RS_NUMBERS_SHAPED);
    for (at->layer = 0; at->layer < at->network->n_layers; at->layer++)
        for (int32_t b = 0; b < at->network->layers[at->layer].n_branches; b++) {
            rs_branch *branch = &at->network->layers[at->layer].branches[b];
            attends = attends || rs_branch_attention(branch);
            RS_TRY(add_numbers_of(at, branch));
        }
    if (attends) return RS_OK;
    return rs_fail(at->err, RS_E_TASK_SCHEMA, s->path, NULL,
                   "\"trainable\" names \"shaped\"; the model has no attention");
}

/* ---- their memory ---- */

/* Whole lines of 64 bytes. */
static size_t room_of(const rs_trained_list *list, int64_t count)
{
    return ((size_t)count * list->size + 63) / 64 * 64;
}

/* The numbers move into the list's memory, and tensors with them. */
static void move_in(rs_trained_list *list, rs_precision precision)
{
    char *values = list->values, *gradients = list->gradients;
    for (int64_t i = 0; i < list->n; i++) {
        rs_trained *item = &list->items[i];
        rs_trained_place *place = &list->places[i];
        rs_tensor *tensor = place->tensor;
        item->weight = values;
        item->gradient = gradients;
        if (!tensor) {
            if (precision == RS_PRECISION_F32)
                *(float *)item->weight = (float)*place->number;
            else
                *(double *)item->weight = *place->number;
        } else {
            if (precision == RS_PRECISION_F32)
                rs_tensor_decode_f32(item->weight, tensor, 0, tensor->count);
            else
                rs_tensor_decode_f64(item->weight, tensor, 0, tensor->count);
            tensor->dtype = precision == RS_PRECISION_F32 ? RS_F32 : RS_F64;
            tensor->data = item->weight;
            tensor->bytes = (uint64_t)tensor->count * list->size;
        }
        values += room_of(list, item->count);
        gradients += room_of(list, item->count);
    }
}

static int by_address(const void *a, const void *b)
{
    const rs_trained_address *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static rs_status take_rooms(rs_trained_list *list, rs_error *err)
{
    for (int64_t i = 0; i < list->n; i++)
        list->bytes += room_of(list, list->items[i].count);
    list->values = rs_calloc(list->bytes + 1, 1);
    list->gradients = rs_calloc(list->bytes + 1, 1);
    list->order = rs_malloc((size_t)list->n + 1, sizeof *list->order);
    list->sink = (rs_trained_sink){.list = list,
                                   .gradients = list->gradients,
                                   .told = rs_calloc((size_t)list->n + 1, sizeof(bool))};
    if (!list->values || !list->gradients || !list->order || !list->sink.told)
        return rs_fail_memory(err, "what is trained", 2 * list->bytes);
    return RS_OK;
}

static void sort_addresses(rs_trained_list *list)
{
    for (int64_t i = 0; i < list->n; i++) {
        const rs_trained_place *place = &list->places[i];
        const void *at = place->tensor ? (const void *)place->tensor : place->number;
        list->order[i] = (rs_trained_address){(uintptr_t)at, i};
    }
    qsort(list->order, (size_t)list->n, sizeof *list->order, by_address);
}

static bool has_word(const rs_text_list *words, const char *word)
{
    for (int64_t i = 0; i < words->n; i++)
        if (strcmp(words->items[i], word) == 0) return true;
    return false;
}

unsigned rs_trained_told(const rs_train_settings *s)
{
    unsigned told = 0;
    if (!has_word(&s->trainable, "skips")) told |= RS_NUMBERS_NO_SKIPS;
    if (!has_word(&s->trainable, "branches")) told |= RS_NUMBERS_NO_SCALES;
    if (has_word(&s->trainable, "shaped")) told |= RS_NUMBERS_SHAPED;
    return told;
}

static rs_status open_list(rs_trained_list *list, rs_network *network, rs_precision precision,
                           const rs_train_settings *s, rs_error *err)
{
    lister at = {.list = list, .network = network, .err = err};
    list->network = network;
    list->size = rs_precision_size(precision);
    list->arena = rs_arena_new();
    if (!list->arena) return rs_fail_memory(err, "names", 64);
    RS_TRY(add_tensors(&at));
    list->told = rs_trained_told(s);
    RS_TRY(add_numbers(&at, s));
    RS_TRY(take_rooms(list, err));
    move_in(list, precision);
    sort_addresses(list);
    return rs_train_apply_groups(list->items, list->names, list->n, s, err);
}

rs_status rs_trained_open(rs_trained_list *out, rs_network *network, rs_precision precision,
                          const rs_train_settings *settings, rs_error *err)
{
    *out = (rs_trained_list){0};
    rs_status status = open_list(out, network, precision, settings, err);
    if (status != RS_OK) rs_trained_close(out);
    return status;
}

void rs_trained_close(rs_trained_list *list)
{
    rs_free(list->items);
    rs_free(list->places);
    rs_free(list->names);
    rs_free(list->order);
    rs_free(list->values);
    rs_free(list->gradients);
    rs_free(list->sink.told);
    rs_arena_free(list->arena);
    *list = (rs_trained_list){0};
}

/* ---- gradients ---- */

static int64_t find(const rs_trained_list *list, const void *address)
{
    int64_t low = 0, high = list->n;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (list->order[mid].at < (uintptr_t)address)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < list->n && list->order[low].at == (uintptr_t)address;
    return found ? list->order[low].item : -1;
}

rs_trained *rs_trained_find(const rs_trained_list *list, const rs_tensor *tensor)
{
    int64_t i = find(list, tensor);
    return i < 0 ? NULL : &list->items[i];
}

rs_status rs_trained_sink_open(rs_trained_sink *out, const rs_trained_list *list, rs_error *err)
{
    *out = (rs_trained_sink){.list = list,
                             .gradients = rs_calloc(list->bytes + 1, 1),
                             .told = rs_calloc((size_t)list->n + 1, sizeof *out->told)};
    if (out->gradients && out->told) return RS_OK;
    rs_trained_sink_close(out);
    return rs_fail_memory(err, "gradients", list->bytes);
}

void rs_trained_sink_close(rs_trained_sink *sink)
{
    rs_free(sink->gradients);
    rs_free(sink->told);
    *sink = (rs_trained_sink){0};
}

void rs_trained_begin(rs_trained_sink *sink)
{
    memset(sink->told, 0, (size_t)sink->list->n * sizeof *sink->told);
}

/* Where an item's gradient is in a sink. */
static void *gradient_in(const rs_trained_sink *sink, int64_t item)
{
    const rs_trained_list *list = sink->list;
    return sink->gradients +
           ((const char *)list->items[item].gradient - (const char *)list->gradients);
}

/* The parameter's numbers are the whole tensor, in its order. */
static bool is_whole(const rs_gradient_view *view, int64_t count)
{
    const rs_gradient_place *place = &view->parameter->place;
    return place->first == 0 && place->out_is_row && place->run >= view->out &&
           place->ld == view->in && view->out * view->in == count;
}

/* The address of the tensor, or of the network's own number, that a parameter is. */
static const void *address_of(const rs_trained_list *list, const rs_parameter *p)
{
    return p->tensor ? (const void *)p->tensor : rs_parameter_number(list->network, p);
}

rs_status rs_trained_take(rs_trained_sink *sink, const rs_gradient_view *view, rs_error *err)
{
    const rs_trained_list *list = sink->list;
    if (view->use == RS_USE_ONE) return RS_OK;
    int64_t i = find(list, address_of(list, view->parameter));
    if (i < 0 || list->items[i].frozen) return RS_OK;
    void *gradient = gradient_in(sink, i);
    bool first = !sink->told[i];
    sink->told[i] = true;
    if (first && is_whole(view, list->items[i].count))
        return rs_gradient_write(gradient, view, err);
    if (first) memset(gradient, 0, (size_t)list->items[i].count * list->size);
    return view->form == RS_GRADIENT_ZERO ? RS_OK : rs_gradient_store(gradient, view);
}

void rs_trained_end(rs_trained_sink *sink)
{
    const rs_trained_list *list = sink->list;
    for (int64_t i = 0; i < list->n; i++) {
        if (!sink->told[i])
            memset(gradient_in(sink, i), 0, (size_t)list->items[i].count * list->size);
        sink->told[i] = true;
    }
}

void rs_trained_hand_over(const rs_trained_list *list)
{
    for (int64_t i = 0; i < list->n; i++) {
        const void *value = list->items[i].weight;
        double *number = list->places[i].number;
        if (number)
            *number = list->size == sizeof(float) ? (double)*(const float *)value
                                                  : *(const double *)value;
    }
}
