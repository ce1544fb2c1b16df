/*
 * gradients.c: collects the gradients of a network's parameters, use by use (gradient_uses.h), and
 * tells them when they are complete.
 */
#include "engine/gradient_uses.h"
#include "engine/residual.h"
#include "engine/tape.h"

#include "base/kept_memory.h"
#include "base/memory.h"
#include "network/op_traits.h"

#include <string.h>

struct rs_gradients {
    const rs_network *network;
    const rs_context *context;
    const rs_ops *ops;
    rs_gradient_plan plan;
    const rs_gradient_tap *const *taps;
    size_t n_taps;
    rs_uses uses;
    rs_kept_memory kept; /* where sums are, from one batch to the next */
};

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
            const rs_attention_op *op = rs_branch_attention(branch);
            if (op && rs_attention_is_cut(op))
                return rs_fail(err, RS_E_UNSUPPORTED, "--attention-rank", "leave out --grad",
                               "attention that is cut to a lower rank has no gradients");
        }
    return RS_OK;
}

/* The sigmoid is 1/2 at 0: no number times its argument gives it there. Behind a gate it is that
 * gate's factor. */
static rs_status check_held(const rs_network *network, unsigned hold, rs_error *err)
{
    bool held = hold & RS_HOLD_ACTIVATION;
    for (int32_t l = 0; held && l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            const rs_mlp_op *mlp = branch->scale != 0 ? rs_branch_mlp(branch) : NULL;
            if (mlp && mlp->activation == RS_ACT_SIGMOID && !mlp->gate.weight)
                return rs_fail(err, RS_E_UNSUPPORTED, "relevance",
                               "ask for gradients (--grad), or take an activation that is 0 at 0",
                               "the MLP of layer %d has a sigmoid, and sigmoid(a)/a, which "
                               "relevance holds, is infinite at 0",
                               (int)l);
        }
    return RS_OK;
}

rs_status rs_gradients_open(rs_gradients **out, const rs_network *network, rs_precision precision,
                            const rs_gradient_plan *plan, const rs_gradient_tap *const *taps,
                            size_t n_taps, const rs_context *context, rs_error *err)
{
    *out = NULL;
    RS_TRY(check_ways(network, rs_ops_of(precision), err));
    RS_TRY(check_held(network, plan->hold, err));
    if (plan->hold & RS_HOLD_GATE && network->read_out.kind == RS_FUSION_GATE)
        return rs_fail(err, RS_E_UNSUPPORTED, "relevance", "ask for gradients (--grad)",
                       "the gate of a read-out is not held");
    if (plan->numbers & RS_NUMBERS_SHAPED && precision == RS_PRECISION_RESIDUAL)
        return rs_fail(err, RS_E_UNSUPPORTED, "--precision", "take --precision f64 or f32",
                       "this precision has no derivatives by the gains of shaped attention");
    rs_gradients *g = rs_calloc(1, sizeof *g);
    if (!g) return rs_fail_memory(err, "gradients", sizeof *g);
    g->network = network;
    g->context = context;
    g->ops = rs_ops_of(precision);
    g->plan = *plan;
    g->taps = taps;
    g->n_taps = n_taps;
    rs_status status = rs_uses_open(&g->uses, network, plan->numbers, err);
    if (status == RS_OK)
        *out = g;
    else
        rs_gradients_close(g);
    return status;
}

void rs_gradients_again(rs_gradients *g)
{
    for (size_t i = 0; i < g->uses.n; i++) {
        rs_use *at = &g->uses.all[i];
        rs_kept_give(&g->kept, at->own);
        at->own = NULL, at->exponent = 0, at->apart = at->drowned = false, at->why = NULL;
    }
    for (size_t i = 0; g->uses.sums && i < g->uses.n_sums; i++) {
        rs_use_sum *sum = &g->uses.sums[i];
        rs_kept_give(&g->kept, sum->sum);
        sum->sum = NULL, sum->exponent = 0;
    }
}

void rs_gradients_close(rs_gradients *g)
{
    if (!g) return;
    rs_gradients_again(g);
    rs_kept_close(&g->kept);
    rs_uses_close(&g->uses);
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

bool rs_gradients_tell_states(const rs_gradients *g)
{
    for (size_t i = 0; i < g->n_taps; i++)
        if (g->taps[i]->state) return true;
    return false;
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

/* A room, in *out unless there is one: of zeros, or, where fresh is not NULL, of anything, which *fresh
 * says then. */
static rs_status sum_room(rs_gradients *g, void **out, int64_t rows, int64_t cols, const char *what,
                          bool *fresh, rs_error *err)
{
    size_t count, bytes;
    if (fresh) *fresh = !*out;
    if (*out) return RS_OK;
    if (!rs_size_mul((size_t)rows, (size_t)cols, &count) ||
        !rs_size_mul(count, g->ops->size, &bytes) || bytes > SIZE_MAX - g->ops->size)
        return rs_fail_memory(err, what, SIZE_MAX);
    *out = rs_kept_take(&g->kept, bytes + g->ops->size);
    if (!*out) return rs_fail_memory(err, what, bytes);
    if (!fresh) memset(*out, 0, bytes);
    return RS_OK;
}

/* Such a room for what a use has of its own. */
static rs_status own_room(rs_gradients *g, rs_use *at, bool *fresh, rs_error *err)
{
    const rs_parameter *p = &at->parameter;
    return sum_room(g, &at->own, p->out, p->in, p->name, fresh, err);
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
static rs_gradient_place own_place(const rs_use *at)
{
    return (rs_gradient_place){.data = at->own,
                               .ld = at->parameter.in,
                               .out_is_row = true,
                               .run = at->parameter.out,
                               .stride = at->parameter.out};
}

static void describe(const rs_gradients *g, rs_gradient_view *view, const rs_use *at)
{
    view->parameter = &at->parameter;
    view->use = at->shared < 0 ? RS_USE_ALONE : RS_USE_ONE;
    view->precision = g->ops->precision;
    view->out = at->parameter.out;
    view->in = at->parameter.in;
    view->of = (rs_gradients *)(uintptr_t)g;
}

/* Tells a use's complete own gradient, and adds it to the sum that it is part of. */
static rs_status complete(rs_gradients *g, rs_use *at, rs_gradient_view *view, rs_error *err)
{
    describe(g, view, at);
    RS_TRY(tell_view(g, view, err));
    if (at->shared < 0 || view->form == RS_GRADIENT_ZERO || g->plan.apart) return RS_OK;
    rs_use_sum *sum = &g->uses.sums[at->shared];
    bool fresh = !sum->sum;
    RS_TRY(sum_room(g, &sum->sum, sum->tensor->count, 1, sum->tensor->name, NULL, err));
    rs_gradient_place place = at->parameter.place;
    place.data = sum->sum;
    return add_view(g, &place, sum->tensor->count, &sum->exponent, fresh, view);
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
    rs_use *at = rs_uses_find(&g->uses, member, part);
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
    RS_TRY(own_room(g, at, NULL, err));
    at->apart = view->apart && (fresh || at->apart);
    at->drowned = view->drowned || (!fresh && at->drowned);
    rs_gradient_place place = own_place(at);
    return add_view(g, &place, view->out * view->in, &at->exponent, fresh, view);
}

rs_status rs_gradients_tell_number(rs_runner *run, const double *member, rs_parameter_part part,
                                   double number, rs_error *err)
{
    float single = (float)number;
    rs_gradient_view view = {
        .out = 1,
        .in = 1,
        .form = RS_GRADIENT_DENSE,
        .dense = {.data = run->ops->size == sizeof single ? (void *)&single : (void *)&number,
                  .ld = 1,
                  .out_is_row = true,
                  .run = 1,
                  .stride = 1}};
    return rs_gradients_tell(run, member, part, &view, err);
}

rs_status rs_gradients_tell_zero(rs_runner *run, const rs_branch *branch, const char *why,
                                 rs_error *err)
{
    rs_gradients *g = run->tape->into;
    const char *from = (const char *)branch, *to = (const char *)(branch + 1);
    for (size_t i = 0; i < g->uses.n; i++) {
        rs_use *at = &g->uses.all[i];
        const char *member = at->member;
        if (member < from || member >= to || at->parameter.part == RS_OF_SKIP ||
            at->parameter.part == RS_OF_SCALE || member == (const char *)&branch->after)
            continue;
        rs_gradient_view view = {.form = RS_GRADIENT_ZERO, .why = why};
        if (g->plan.several)
            at->why = why;
        else
            RS_TRY(complete(g, at, &view, err));
    }
    return RS_OK;
}

rs_status rs_gradients_pieces(rs_runner *run, void **sum, bool *fresh, const void *member,
                              rs_parameter_part part, rs_error *err)
{
    rs_gradients *g = run->tape->into;
    rs_use *at = rs_uses_find(&g->uses, member, part);
    if (!at) return no_use(part, err);
    if (!at->own) at->exponent = run->tape->exponent;
    RS_TRY(own_room(g, at, fresh, err));
    rescale(at->own, at->parameter.out * at->parameter.in, &at->exponent, run->tape->exponent);
    *sum = at->own;
    return RS_OK;
}

/* Tells what a use has collected of its own, and gives its room back, or makes it the sum that it is
 * part of where nothing else is there and both have one order. */
static rs_status tell_own(rs_gradients *g, rs_use *at, rs_error *err)
{
    int64_t count = at->parameter.out * at->parameter.in;
    rs_gradient_view view = {.form = RS_GRADIENT_DENSE,
                             .dense = own_place(at),
                             .exponent = at->exponent,
                             .apart = at->apart,
                             .drowned = at->drowned};
    rs_use_sum *sum = at->shared < 0 || g->plan.apart ? NULL : &g->uses.sums[at->shared];
    bool same = sum && !sum->sum && count == sum->tensor->count && at->parameter.place.out_is_row &&
                at->parameter.place.first == 0 && at->parameter.place.run >= at->parameter.out &&
                at->parameter.place.ld == at->parameter.in;
    if (!same) {
        RS_TRY(complete(g, at, &view, err));
        rs_kept_give(&g->kept, at->own);
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
    rs_use *at = rs_uses_find(&g->uses, member, part);
    if (!at) return no_use(part, err);
    if (g->plan.several) return RS_OK;
    RS_TRY(own_room(g, at, NULL, err));
    return tell_own(g, at, err);
}

/* Tells the sum over all places of a group. */
static rs_status tell_sum(rs_gradients *g, const rs_use *at, rs_error *err)
{
    const rs_use_sum *sum = &g->uses.sums[at->shared];
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
    for (size_t i = 0; i < g->uses.n && g->plan.several; i++) {
        rs_use *at = &g->uses.all[i];
        rs_gradient_view view = {.form = RS_GRADIENT_ZERO, .why = at->why};
        if (at->own)
            RS_TRY(tell_own(g, at, err));
        else if (at->why)
            RS_TRY(complete(g, at, &view, err));
    }
    for (size_t i = 0; i < g->uses.n && !g->plan.apart; i++)
        if (g->uses.all[i].shared >= 0 && rs_use_stands_for_group(&g->uses, &g->uses.all[i]))
            RS_TRY(tell_sum(g, &g->uses.all[i], err));
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
    bool product = view->form == RS_GRADIENT_OUTER;
    if (!product) memset(out, 0, (size_t)(view->out * view->in) * view->of->ops->size);
    if (view->form == RS_GRADIENT_ZERO) return RS_OK;
    rs_gradient_place place = {.data = out,
                               .ld = view->in,
                               .out_is_row = true,
                               .run = view->out,
                               .stride = view->out,
                               .fresh = product};
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
