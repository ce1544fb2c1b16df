/*
 * gradients.c: collects the gradients of a network's parameters, and tells them when they are
 * complete.
 *
 * A use is one place of the network that reads a tensor: a member of a branch, of the embedding or of
 * the head. Uses of the same numbers (tied embeddings, repeated layers) have a sum, in the order in
 * which the tensor is stored.
 */
#include "engine/residual.h"
#include "engine/tape.h"

#include "base/memory.h"
#include "network/op_traits.h"

#include <stdlib.h>
#include <string.h>

typedef struct use {
    const void *member; /* of the network; with `part` it says which parameter */
    rs_parameter parameter;
    int64_t shared;      /* which sum its numbers are part of; -1: none */
    int64_t group;       /* of uses that read the same numbers, or some of them */
    void *own;           /* [out, in] pieces, or the sum over batches; NULL: nothing so far */
    int64_t exponent;    /* of own's numbers */
    bool apart, drowned; /* of all that own is the sum of (rs_gradient_view) */
    const char *why;     /* why it is 0 so far; NULL: it is not known to be */
} use;

/* The sum over all uses of one tensor. */
typedef struct shared {
    const rs_tensor *tensor;
    void *sum;        /* [numbers of the tensor]; NULL: nothing so far */
    int64_t exponent; /* of these */
} shared;

struct rs_gradients {
    const rs_network *network;
    const rs_context *context;
    const rs_ops *ops;
    rs_gradient_plan plan;
    const rs_gradient_tap *const *taps;
    size_t n_taps;
    use *uses; /* ordered by (member, part) once all are listed */
    size_t n_uses, room;
    shared *sums;
    size_t n_sums;
    int64_t n_groups;
    bool failed;
};

/* ---- the list of uses ---- */

typedef struct lister {
    rs_gradients *g;
    int32_t layer, branch;
    const char *name;
    rs_role role;
} lister;

static void add_use(lister *at, const void *member, rs_parameter_part part, const rs_tensor *tensor,
                    const rs_dense *map, int64_t out, int64_t in)
{
    rs_gradients *g = at->g;
    bool own = part == RS_OF_SKIP || part == RS_OF_SCALE;
    if ((!tensor && !own) || g->failed) return;
    if (g->n_uses == g->room) {
        size_t room = 2 * g->room + 64;
        use *more = rs_realloc(g->uses, room, sizeof *more);
        if (!more) {
            g->failed = true;
            return;
        }
        g->uses = more, g->room = room;
    }
    rs_gradient_place place = {.ld = in, .out_is_row = true, .run = out, .stride = out};
    if (map) {
        place.first = map->first, place.run = map->run, place.stride = map->stride;
        if (part == RS_OF_WEIGHT) place.ld = map->cols, place.out_is_row = map->out_is_row;
    }
    g->uses[g->n_uses++] = (use){.member = member,
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
    bool embeds = owner == &at->g->network->embedding;
    if (row->role == RS_ROLE_ROPE_DIVISORS) return; /* no weight: frequencies are given */
    if (row->role == RS_ROLE_EMBED_TOKEN || (embeds && row->role == RS_ROLE_EMBED_POSITION) ||
        row->role == RS_ROLE_EMBED_TYPE)
        in = table->width;
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

static void add_branch(lister *at, const rs_branch *branch)
{
    add_outer_norm(at, "before", &branch->before);
    add_list(at, &rs_branch_traits(branch)->weights, branch);
    add_outer_norm(at, "inside", &branch->inside);
    add_outer_norm(at, "after", &branch->after);
    at->name = "branch", at->role = RS_ROLE_UNKNOWN;
    add_use(at, &branch->skip, RS_OF_SKIP, NULL, NULL, 1, 1);
    add_use(at, &branch->scale, RS_OF_SCALE, NULL, NULL, 1, 1);
}

static void list_uses(rs_gradients *g)
{
    const rs_network *network = g->network;
    lister at = {.g = g, .layer = -1, .branch = -1};
    add_list(&at, &rs_embedding_weights, &network->embedding);
    for (at.layer = 0; at.layer < network->n_layers; at.layer++)
        for (at.branch = 0; at.branch < network->layers[at.layer].n_branches; at.branch++)
            add_branch(&at, &network->layers[at.layer].branches[at.branch]);
    at.layer = at.branch = -1;
    add_outer_norm(&at, "final", &network->final_norm);
    add_list(&at, &rs_head_weights, &network->head);
}

/* ---- tensors that several places use ---- */

static int by_tensor(const void *a, const void *b)
{
    const use *x = a, *y = b;
    uintptr_t s = (uintptr_t)x->parameter.tensor, t = (uintptr_t)y->parameter.tensor;
    if (s != t) return s < t ? -1 : 1;
    return x->parameter.place.first < y->parameter.place.first
               ? -1
               : x->parameter.place.first > y->parameter.place.first;
}

static int by_member(const void *a, const void *b)
{
    const use *x = a, *y = b;
    if (x->member != y->member) return (uintptr_t)x->member < (uintptr_t)y->member ? -1 : 1;
    return (int)x->parameter.part - (int)y->parameter.part;
}

/* The first number beyond those of output u. */
static int64_t vector_of(const use *at, int64_t u)
{
    return at->parameter.place.first + u / at->parameter.place.run * at->parameter.place.stride +
           u % at->parameter.place.run;
}

/* Whether two uses of one tensor read some number together. Fused maps interleave: they are compared
 * output by output where both have stretches. */
static bool meet(const use *a, const use *b)
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
static void find_groups(rs_gradients *g, use *uses, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uses[i].group = g->n_groups++;
        for (size_t j = 0; j < i; j++) {
            int64_t from = uses[j].group;
            if (from == uses[i].group || !meet(&uses[i], &uses[j])) continue;
            for (size_t k = 0; k < i; k++)
                if (uses[k].group == from) uses[k].group = uses[i].group;
        }
    }
}

/* uses [n] of one tensor. */
static void find_shared(rs_gradients *g, use *uses, size_t n)
{
    bool any = false;
    find_groups(g, uses, n);
    for (size_t i = 0; i < n; i++) {
        uses[i].parameter.uses = 0;
        for (size_t j = 0; j < n; j++)
            uses[i].parameter.uses += uses[j].group == uses[i].group;
        uses[i].parameter.overlaps = uses[i].parameter.uses > 1;
        if (!uses[i].parameter.overlaps) continue;
        uses[i].shared = (int64_t)g->n_sums;
        any = true;
    }
    if (any) g->sums[g->n_sums++].tensor = uses[0].parameter.tensor;
}

static rs_status list_shared(rs_gradients *g, rs_error *err)
{
    g->sums = rs_calloc(g->n_uses + 1, sizeof *g->sums);
    if (!g->sums) return rs_fail_memory(err, "gradients", g->n_uses * sizeof *g->sums);
    qsort(g->uses, g->n_uses, sizeof *g->uses, by_tensor);
    for (size_t i = 0, end; i < g->n_uses; i = end) {
        for (end = i + 1; end < g->n_uses; end++)
            if (g->uses[end].parameter.tensor != g->uses[i].parameter.tensor) break;
        if (g->uses[i].parameter.tensor) find_shared(g, g->uses + i, end - i);
    }
    qsort(g->uses, g->n_uses, sizeof *g->uses, by_member);
    return RS_OK;
}

/* ---- opening ---- */

static rs_status check_ways(const rs_network *network, const rs_ops *ops, rs_error *err)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            if (branch->scale != 0 && !ops->back->branch[branch->kind].run)
                return rs_fail(err, RS_E_UNSUPPORTED, "gradients", NULL,
                               "layer %d has an op of kind %s, which has no gradients", (int)l,
                               rs_branch_traits(branch)->name);
        }
    return RS_OK;
}

rs_status rs_gradients_open(rs_gradients **out, const rs_network *network, rs_precision precision,
                            const rs_gradient_plan *plan, const rs_gradient_tap *const *taps,
                            size_t n_taps, const rs_context *context, rs_error *err)
{
    *out = NULL;
    RS_TRY(check_ways(network, rs_ops_of(precision), err));
    rs_gradients *g = rs_calloc(1, sizeof *g);
    if (!g) return rs_fail_memory(err, "gradients", sizeof *g);
    g->network = network;
    g->context = context;
    g->ops = rs_ops_of(precision);
    g->plan = *plan;
    g->taps = taps;
    g->n_taps = n_taps;
    list_uses(g);
    rs_status status = g->failed ? rs_fail_memory(err, "gradients", g->room * sizeof *g->uses)
                                 : list_shared(g, err);
    if (status == RS_OK)
        *out = g;
    else
        rs_gradients_close(g);
    return status;
}

void rs_gradients_close(rs_gradients *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->n_uses; i++)
        rs_free(g->uses[i].own);
    for (size_t i = 0; g->sums && i < g->n_sums; i++)
        rs_free(g->sums[i].sum);
    rs_free(g->uses);
    rs_free(g->sums);
    rs_free(g);
}

bool rs_gradients_fit(const rs_gradients *g, const rs_network *network, rs_precision precision)
{
    return g->network == network && g->ops->precision == precision;
}

const rs_gradient_plan *rs_gradients_plan(const rs_gradients *g)
{
    return &g->plan;
}

/* ---- telling ---- */

static int threads_of(const rs_gradients *g)
{
    return g->context->threads > 0 ? g->context->threads : 1;
}

static rs_status tell_view(rs_gradients *g, const rs_gradient_view *view, rs_error *err)
{
    for (size_t i = 0; i < g->n_taps; i++)
        if (g->taps[i]->parameter) RS_TRY(g->taps[i]->parameter(g->taps[i]->user, view, err));
    return RS_OK;
}

/* A room of zeros, in *out unless there is one. */
static rs_status zeros(rs_gradients *g, void **out, int64_t rows, int64_t cols, const char *what,
                       rs_error *err)
{
    size_t count, bytes;
    if (*out) return RS_OK;
    if (!rs_size_mul((size_t)rows, (size_t)cols, &count) ||
        !rs_size_mul(count, g->ops->size, &bytes))
        return rs_fail_memory(err, what, SIZE_MAX);
    *out = rs_calloc(count + 1, g->ops->size);
    if (!*out) return rs_fail_memory(err, what, bytes);
    return RS_OK;
}

/* Has numbers [count] of a sum be multiples of 2^exponent, which only doubles are of another than 0. */
static void rescale(void *sum, int64_t count, int64_t *exponent, int64_t to)
{
    if (*exponent != to) rs_scale_by(sum, count, *exponent - to);
    *exponent = to;
}

/* Adds a view's numbers to a sum at `place`, [count], whose room is `fresh` or has what was added
 * before: the larger exponent is that of both. */
static rs_status add_view(const rs_gradients *g, const rs_gradient_place *place, int64_t count,
                          int64_t *exponent, bool fresh, const rs_gradient_view *view)
{
    if (fresh) *exponent = view->exponent;
    if (view->exponent > *exponent) rescale(place->data, count, exponent, view->exponent);
    double factor = rs_power_of_two(view->exponent - *exponent);
    return factor == 0 ? RS_OK : g->ops->back->accumulate(place, view, factor, threads_of(g));
}

/* Where a use's own numbers are, row by row in the order of its outputs. */
static rs_gradient_place own_place(const use *at)
{
    return (rs_gradient_place){.data = at->own,
                               .ld = at->parameter.in,
                               .out_is_row = true,
                               .run = at->parameter.out,
                               .stride = at->parameter.out};
}

static void describe(const rs_gradients *g, rs_gradient_view *view, const use *at)
{
    view->parameter = &at->parameter;
    view->use = at->shared < 0 ? RS_USE_ALONE : RS_USE_ONE;
    view->precision = g->ops->precision;
    view->out = at->parameter.out;
    view->in = at->parameter.in;
    view->of = (rs_gradients *)(uintptr_t)g;
}

/* Tells a use's complete own gradient, and adds it to the sum that it is part of. */
static rs_status complete(rs_gradients *g, use *at, rs_gradient_view *view, rs_error *err)
{
    describe(g, view, at);
    RS_TRY(tell_view(g, view, err));
    if (at->shared < 0 || view->form == RS_GRADIENT_ZERO || g->plan.apart) return RS_OK;
    shared *sum = &g->sums[at->shared];
    bool fresh = !sum->sum;
    RS_TRY(zeros(g, &sum->sum, sum->tensor->count, 1, sum->tensor->name, err));
    rs_gradient_place place = at->parameter.place;
    place.data = sum->sum;
    return add_view(g, &place, sum->tensor->count, &sum->exponent, fresh, view);
}

static use *find_use(rs_gradients *g, const void *member, rs_parameter_part part)
{
    use key = {.member = member, .parameter = {.part = part}};
    return bsearch(&key, g->uses, g->n_uses, sizeof key, by_member);
}

static rs_status no_use(rs_parameter_part part, rs_error *err)
{
    return rs_fail(err, RS_E_INTERNAL, "gradients", NULL, "part %d of an unknown parameter",
                   (int)part);
}

rs_status rs_gradients_tell(rs_runner *run, const void *member, rs_parameter_part part,
                            rs_gradient_view *view, rs_error *err)
{
    rs_gradients *g = run->tape->into;
    use *at = find_use(g, member, part);
    if (!at) return no_use(part, err);
    view->exponent = run->tape->exponent;
    view->apart = run->tape->apart;
    view->drowned = run->tape->drowned;
    if (!g->plan.several) return complete(g, at, view, err);
    if (view->form == RS_GRADIENT_ZERO) {
        at->why = view->why;
        return RS_OK;
    }
    bool fresh = !at->own;
    describe(g, view, at);
    RS_TRY(zeros(g, &at->own, at->parameter.out, at->parameter.in, at->parameter.name, err));
    at->apart = view->apart && (fresh || at->apart);
    at->drowned = view->drowned || (!fresh && at->drowned);
    rs_gradient_place place = own_place(at);
    return add_view(g, &place, view->out * view->in, &at->exponent, fresh, view);
}

rs_status rs_gradients_tell_zero(rs_runner *run, const rs_branch *branch, const char *why,
                                 rs_error *err)
{
    rs_gradients *g = run->tape->into;
    const char *from = (const char *)branch, *to = (const char *)(branch + 1);
    for (size_t i = 0; i < g->n_uses; i++) {
        use *at = &g->uses[i];
        const char *member = at->member;
        if (member < from || member >= to || !at->parameter.tensor ||
            member == (const char *)&branch->after)
            continue;
        rs_gradient_view view = {.form = RS_GRADIENT_ZERO, .why = why};
        if (g->plan.several)
            at->why = why;
        else
            RS_TRY(complete(g, at, &view, err));
    }
    return RS_OK;
}

rs_status rs_gradients_pieces(rs_runner *run, void **sum, const void *member,
                              rs_parameter_part part, rs_error *err)
{
    rs_gradients *g = run->tape->into;
    use *at = find_use(g, member, part);
    if (!at) return no_use(part, err);
    if (!at->own) at->exponent = run->tape->exponent;
    RS_TRY(zeros(g, &at->own, at->parameter.out, at->parameter.in, at->parameter.name, err));
    rescale(at->own, at->parameter.out * at->parameter.in, &at->exponent, run->tape->exponent);
    *sum = at->own;
    return RS_OK;
}

/* Tells what a use has collected of its own, and gives its room back, or makes it the sum that it is
 * part of where nothing else is there and both have one order. */
static rs_status tell_own(rs_gradients *g, use *at, rs_error *err)
{
    int64_t count = at->parameter.out * at->parameter.in;
    rs_gradient_view view = {.form = RS_GRADIENT_DENSE,
                             .dense = own_place(at),
                             .exponent = at->exponent,
                             .apart = at->apart,
                             .drowned = at->drowned};
    shared *sum = at->shared < 0 || g->plan.apart ? NULL : &g->sums[at->shared];
    bool same = sum && !sum->sum && count == sum->tensor->count && at->parameter.place.out_is_row &&
                at->parameter.place.first == 0 && at->parameter.place.run >= at->parameter.out &&
                at->parameter.place.ld == at->parameter.in;
    if (!same) {
        RS_TRY(complete(g, at, &view, err));
        rs_free(at->own);
        at->own = NULL;
        return RS_OK;
    }
    describe(g, &view, at);
    RS_TRY(tell_view(g, &view, err));
    sum->sum = at->own, sum->exponent = at->exponent;
    at->own = NULL;
    return RS_OK;
}

rs_status rs_gradients_added(rs_runner *run, const void *member, rs_parameter_part part,
                             rs_error *err)
{
    rs_gradients *g = run->tape->into;
    use *at = find_use(g, member, part);
    if (!at) return no_use(part, err);
    if (g->plan.several) return RS_OK;
    RS_TRY(zeros(g, &at->own, at->parameter.out, at->parameter.in, at->parameter.name, err));
    return tell_own(g, at, err);
}

static int64_t numbers_of(const use *at)
{
    return at->parameter.out * at->parameter.in;
}

/* Whether a use stands for its group: the first of those that cover most. */
static bool stands_for_group(const rs_gradients *g, const use *at)
{
    for (const use *other = g->uses; other < g->uses + g->n_uses; other++) {
        if (other->group != at->group || other == at) continue;
        if (numbers_of(other) > numbers_of(at) ||
            (numbers_of(other) == numbers_of(at) && other < at))
            return false;
    }
    return true;
}

/* Tells the sum over all places of a group. */
static rs_status tell_sum(rs_gradients *g, const use *at, rs_error *err)
{
    const shared *sum = &g->sums[at->shared];
    rs_gradient_view view = {
        .form = RS_GRADIENT_DENSE, .dense = at->parameter.place, .exponent = sum->exponent};
    view.dense.data = sum->sum;
    describe(g, &view, at);
    view.use = RS_USE_SUM;
    if (!sum->sum) view.form = RS_GRADIENT_ZERO, view.why = "no place uses it";
    return tell_view(g, &view, err);
}

rs_status rs_gradients_finish(rs_gradients *g, rs_error *err)
{
    for (size_t i = 0; i < g->n_uses && g->plan.several; i++) {
        use *at = &g->uses[i];
        rs_gradient_view view = {.form = RS_GRADIENT_ZERO, .why = at->why};
        if (at->own)
            RS_TRY(tell_own(g, at, err));
        else if (at->why)
            RS_TRY(complete(g, at, &view, err));
    }
    for (size_t i = 0; i < g->n_uses && !g->plan.apart; i++)
        if (g->uses[i].shared >= 0 && stands_for_group(g, &g->uses[i]))
            RS_TRY(tell_sum(g, &g->uses[i], err));
    return RS_OK;
}

rs_status rs_gradients_tell_state(rs_runner *run, int32_t layer, const rs_state *d, rs_error *err)
{
    rs_gradients *g = run->tape->into;
    rs_state_view view;
    RS_TRY(run->ops->view(run, &view, d, err));
    for (size_t i = 0; i < g->n_taps; i++)
        if (g->taps[i]->state) RS_TRY(g->taps[i]->state(g->taps[i]->user, layer, &view, err));
    return RS_OK;
}

rs_status rs_gradients_tell_memory(rs_runner *run, rs_error *err)
{
    rs_gradients *g = run->tape->into;
    const rs_tape *tape = run->tape;
    if (tape->memory_width == 0) return RS_OK;
    for (size_t i = 0; i < g->n_taps; i++)
        if (g->taps[i]->memory)
            RS_TRY(g->taps[i]->memory(g->taps[i]->user, tape->d_memory.data,
                                      run->batch->memory_begin[run->batch->samples],
                                      tape->memory_width, err));
    return RS_OK;
}

/* ---- what a listener asks of a view ---- */

rs_status rs_gradient_squares(double *squares, const rs_gradient_view *view, int64_t parts,
                              bool by_input, rs_error *err)
{
    memset(squares, 0, (size_t)parts * sizeof *squares);
    if (view->form == RS_GRADIENT_ZERO) return RS_OK;
    return view->of->ops->back->squares(squares, view, parts, by_input, threads_of(view->of), err);
}

rs_status rs_gradient_write(void *out, const rs_gradient_view *view, rs_error *err)
{
    (void)err;
    size_t size = view->of->ops->size;
    memset(out, 0, (size_t)(view->out * view->in) * size);
    if (view->form == RS_GRADIENT_ZERO) return RS_OK;
    rs_gradient_place place = {
        .data = out, .ld = view->in, .out_is_row = true, .run = view->out, .stride = view->out};
    return view->of->ops->back->accumulate(&place, view, 1, threads_of(view->of));
}

rs_status rs_gradient_store(void *tensor, const rs_gradient_view *view)
{
    rs_gradient_place place = view->parameter->place;
    place.data = tensor;
    if (view->form == RS_GRADIENT_ZERO) return RS_OK;
    return view->of->ops->back->accumulate(&place, view, rs_power_of_two(view->exponent),
                                           threads_of(view->of));
}
