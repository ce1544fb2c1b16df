/* gradient_uses.c: lists the places that read each tensor, and which of them read the same numbers. */
#include "engine/gradient_uses.h"

#include "base/memory.h"
#include "network/op_traits.h"

#include <stdlib.h>
#include <string.h>

/* What is being listed. */
typedef struct uses_list {
    const rs_network *network;
    unsigned numbers; /* RS_NUMBERS_... */
    rs_uses *out;
    size_t room;
    int64_t n_groups;
    bool failed;
} uses_list;

/* ---- the list of uses ---- */

typedef struct lister {
    uses_list *list;
    int32_t layer, branch;
    const char *name;
    rs_role role;
} lister;

static void add_use(lister *at, const void *member, rs_parameter_part part, const rs_tensor *tensor,
                    const rs_dense *map, int64_t out, int64_t in)
{
    uses_list *list = at->list;
    if ((!tensor && !rs_part_is_number(part)) || list->failed) return;
    if (list->out->n == list->room) {
        size_t room = 2 * list->room + 64;
        rs_use *more = rs_realloc(list->out->all, room, sizeof *more);
        if (!more) {
            list->failed = true;
            return;
        }
        list->out->all = more, list->room = room;
    }
    rs_gradient_place place = {.ld = in, .out_is_row = true, .run = out, .stride = out};
    if (map) {
        place.first = map->first, place.run = map->run, place.stride = map->stride;
        if (part == RS_OF_WEIGHT) place.ld = map->cols, place.out_is_row = map->out_is_row;
    }
    list->out->all[list->out->n++] = (rs_use){.member = member,
                                              .parameter = {.layer = at->layer,
                                                            .branch = at->branch,
                                                            .name = at->name,
                                                            .part = part,
                                                            .role = at->role,
                                                            .tensor = tensor,
                                                            .map = map,
                                                            .out = out,
                                                            .in = in,
                                                            .place = place,
                                                            .uses = 1},
                                              .shared = -1};
}

static void add_map(lister *at, const rs_dense *map)
{
    if (!map->weight) return;
    if (!map->weight->fixed) /* else it is given, such as an absent W_V of an architecture file */
        add_use(at, map, RS_OF_WEIGHT, map->weight, map, map->out, map->in);
    add_use(at, map, RS_OF_BIAS, map->bias, map, map->out, 1);
}

static void add_norm(lister *at, const rs_norm_op *norm)
{
    if (norm->kind == RS_NORM_NONE) return;
    add_use(at, norm, RS_OF_GAIN, norm->gain, NULL, norm->dim, 1);
    add_use(at, norm, RS_OF_BIAS, norm->bias, NULL, norm->dim, 1);
}

static void add_conv(lister *at, const rs_conv_op *conv)
{
    const rs_tensor *tensors[] = {conv->weight, conv->more[0], conv->more[1]};
    const rs_parameter_part parts[] = {RS_OF_WEIGHT, RS_OF_MORE_1, RS_OF_MORE_2};
    int64_t left = conv->channels;
    for (int t = 0; t < 3 && tensors[t] && left > 0; t++) {
        int64_t n = tensors[t]->count / conv->width;
        n = n < left ? n : left;
        add_use(at, conv, parts[t], tensors[t], NULL, n * conv->width, 1);
        left -= n;
    }
    add_use(at, conv, RS_OF_BIAS, conv->bias, NULL, conv->channels, 1);
}

/* Tables of rows are [rows, width]; other numbers are one vector. */
static void add_numbers(lister *at, const rs_weight_row *row, const void *owner)
{
    const rs_tensor *tensor = rs_weight_numbers(row, owner);
    const void *member = (const char *)owner + row->offset;
    int64_t count = tensor ? row->count(owner) : 0, in = 1;
    const rs_embedding_op *table = owner;
    bool embeds = owner == &at->list->network->embedding;
    if (row->role == RS_ROLE_ROPE_DIVISORS) return; /* no weight: frequencies are given */
    if (embeds && row->role == RS_ROLE_EMBED_POSITION && table->positions_fixed) return;
    if (row->role == RS_ROLE_EMBED_TOKEN || (embeds && row->role == RS_ROLE_EMBED_POSITION) ||
        row->role == RS_ROLE_EMBED_TYPE)
        in = row->role == RS_ROLE_EMBED_TOKEN ? rs_embedding_source(table) : table->width;
    if (row->role == RS_ROLE_EMBED_TYPE && tensor) count = tensor->count; /* all types' rows */
    add_use(at, member, RS_OF_WEIGHT, tensor, NULL, count / (in > 0 ? in : 1), in);
}

static void add_list(lister *at, const rs_weight_list *list, const void *owner)
{
    for (size_t i = 0; i < list->n; i++) {
        const rs_weight_row *row = &list->rows[i];
        const void *member = (const char *)owner + row->offset;
        at->name = row->name, at->role = row->role;
        switch (row->form) {
        case RS_WEIGHT_MAP:
            add_map(at, member);
            break;
        case RS_WEIGHT_NORM:
            add_norm(at, member);
            break;
        case RS_WEIGHT_CONV:
            add_conv(at, member);
            break;
        case RS_WEIGHT_NUMBERS:
            add_numbers(at, row, owner);
            break;
        }
    }
}

static void add_outer_norm(lister *at, const char *name, const rs_norm_op *norm)
{
    at->name = name, at->role = RS_ROLE_UNKNOWN;
    add_norm(at, norm);
}

static void add_own_numbers(lister *at, const rs_branch *branch)
{
    const rs_attention_op *op = rs_branch_attention(branch);
    unsigned numbers = at->list->numbers;
    at->name = "branch", at->role = RS_ROLE_UNKNOWN;
    if (!(numbers & RS_NUMBERS_NO_SKIPS)) add_use(at, &branch->skip, RS_OF_SKIP, NULL, NULL, 1, 1);
    if (!(numbers & RS_NUMBERS_NO_SCALES))
        add_use(at, &branch->scale, RS_OF_SCALE, NULL, NULL, 1, 1);
    if (!op || !(numbers & RS_NUMBERS_SHAPED)) return;
    add_use(at, &op->mix_identity, RS_OF_IDENTITY, NULL, NULL, 1, 1);
    add_use(at, &op->mix_softmax, RS_OF_SOFTMAX, NULL, NULL, 1, 1);
    add_use(at, &op->mix_uniform, RS_OF_UNIFORM, NULL, NULL, 1, 1);
}

static void add_branch(lister *at, const rs_branch *branch)
{
    add_outer_norm(at, "before", &branch->before);
    add_list(at, &rs_branch_traits(branch)->weights, branch);
    add_outer_norm(at, "inside", &branch->inside);
    add_outer_norm(at, "after", &branch->after);
    add_own_numbers(at, branch);
}

static void list_uses(uses_list *list)
{
    const rs_network *network = list->network;
    lister at = {.list = list, .layer = -1, .branch = -1};
    add_list(&at, &rs_embedding_weights, &network->embedding);
    for (at.layer = 0; at.layer < network->n_layers; at.layer++)
        for (at.branch = 0; at.branch < network->layers[at.layer].n_branches; at.branch++)
            add_branch(&at, &network->layers[at.layer].branches[at.branch]);
    at.layer = at.branch = -1;
    add_list(&at, &rs_read_out_weights, &network->read_out);
    add_outer_norm(&at, "final", &network->final_norm);
    add_list(&at, &rs_head_weights, &network->head);
}

/* ---- tensors that several places use ---- */

static int by_tensor(const void *a, const void *b)
{
    const rs_use *x = a, *y = b;
    uintptr_t s = (uintptr_t)x->parameter.tensor, t = (uintptr_t)y->parameter.tensor;
    if (s != t) return s < t ? -1 : 1;
    return x->parameter.place.first < y->parameter.place.first
               ? -1
               : x->parameter.place.first > y->parameter.place.first;
}

static int by_member(const void *a, const void *b)
{
    const rs_use *x = a, *y = b;
    if (x->member != y->member) return (uintptr_t)x->member < (uintptr_t)y->member ? -1 : 1;
    return (int)x->parameter.part - (int)y->parameter.part;
}

/* The first number beyond those of output u. */
static int64_t vector_of(const rs_use *at, int64_t u)
{
    return at->parameter.place.first + u / at->parameter.place.run * at->parameter.place.stride +
           u % at->parameter.place.run;
}

/* Whether two uses of one tensor read some number together. Fused maps interleave: they are compared
 * output by output where both have stretches. */
static bool meet(const rs_use *a, const rs_use *b)
{
    int64_t last_a = vector_of(a, a->parameter.out - 1),
            last_b = vector_of(b, b->parameter.out - 1);
    if (a->parameter.out < 1 || b->parameter.out < 1) return false;
    if (a->parameter.place.first > last_b || b->parameter.place.first > last_a) return false;
    for (int64_t u = 0; u < a->parameter.out; u += a->parameter.place.run) {
        int64_t from = vector_of(a, u), n = a->parameter.out - u;
        int64_t to = from + (n < a->parameter.place.run ? n : a->parameter.place.run);
        for (int64_t v = 0; v < b->parameter.out; v += b->parameter.place.run) {
            int64_t start = vector_of(b, v), m = b->parameter.out - v;
            int64_t end = start + (m < b->parameter.place.run ? m : b->parameter.place.run);
            if (start < to && from < end) return true;
        }
    }
    return false;
}

/* Uses [n] of one tensor fall into groups that read numbers together: the parts of a fused tensor are
 * groups of their own. */
static void find_groups(uses_list *list, rs_use *uses, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uses[i].group = list->n_groups++;
        for (size_t j = 0; j < i; j++) {
            int64_t from = uses[j].group;
            if (from == uses[i].group || !meet(&uses[i], &uses[j])) continue;
            for (size_t k = 0; k < i; k++)
                if (uses[k].group == from) uses[k].group = uses[i].group;
        }
    }
}

/* uses [n] of one tensor. */
static void find_shared(uses_list *list, rs_use *uses, size_t n)
{
    bool any = false;
    find_groups(list, uses, n);
    for (size_t i = 0; i < n; i++) {
        uses[i].parameter.uses = 0;
        for (size_t j = 0; j < n; j++)
            uses[i].parameter.uses += uses[j].group == uses[i].group;
        uses[i].parameter.overlaps = uses[i].parameter.uses > 1;
        if (!uses[i].parameter.overlaps) continue;
        uses[i].shared = (int64_t)list->out->n_sums;
        any = true;
    }
    if (any) list->out->sums[list->out->n_sums++].tensor = uses[0].parameter.tensor;
}

static rs_status list_shared(uses_list *list, rs_error *err)
{
    list->out->sums = rs_calloc(list->out->n + 1, sizeof *list->out->sums);
    if (!list->out->sums)
        return rs_fail_memory(err, "gradients", list->out->n * sizeof *list->out->sums);
    qsort(list->out->all, list->out->n, sizeof *list->out->all, by_tensor);
    for (size_t i = 0, end; i < list->out->n; i = end) {
        for (end = i + 1; end < list->out->n; end++)
            if (list->out->all[end].parameter.tensor != list->out->all[i].parameter.tensor) break;
        if (list->out->all[i].parameter.tensor) find_shared(list, list->out->all + i, end - i);
    }
    qsort(list->out->all, list->out->n, sizeof *list->out->all, by_member);
    return RS_OK;
}

/* ---- opening, finding ---- */

rs_status rs_uses_open(rs_uses *uses, const rs_network *network, unsigned numbers, rs_error *err)
{
    uses_list list = {.network = network, .numbers = numbers, .out = uses};
    *uses = (rs_uses){0};
    list_uses(&list);
    if (list.failed) return rs_fail_memory(err, "gradients", list.room * sizeof *uses->all);
    return list_shared(&list, err);
}

void rs_uses_close(rs_uses *uses)
{
    rs_free(uses->all);
    rs_free(uses->sums);
    *uses = (rs_uses){0};
}

const double *rs_parameter_number(const rs_network *network, const rs_parameter *parameter)
{
    if (!rs_part_is_number(parameter->part)) return NULL;
    const rs_branch *branch = &network->layers[parameter->layer].branches[parameter->branch];
    if (parameter->part == RS_OF_SKIP) return &branch->skip;
    if (parameter->part == RS_OF_SCALE) return &branch->scale;
    const rs_attention_op *op = rs_branch_attention(branch);
    if (!op) return NULL;
    if (parameter->part == RS_OF_IDENTITY) return &op->mix_identity;
    return parameter->part == RS_OF_SOFTMAX ? &op->mix_softmax : &op->mix_uniform;
}

rs_use *rs_uses_find(const rs_uses *uses, const void *member, rs_parameter_part part)
{
    rs_use key = {.member = member, .parameter = {.part = part}};
    return bsearch(&key, uses->all, uses->n, sizeof key, by_member);
}

static int64_t numbers_of(const rs_use *at)
{
    return at->parameter.out * at->parameter.in;
}

bool rs_use_stands_for_group(const rs_uses *uses, const rs_use *at)
{
    for (const rs_use *other = uses->all; other < uses->all + uses->n; other++) {
        if (other->group != at->group || other == at) continue;
        if (numbers_of(other) > numbers_of(at) ||
            (numbers_of(other) == numbers_of(at) && other < at))
            return false;
    }
    return true;
}
