/* backward.c: the way back over a description: layer by layer, branch by branch, from a loss to what
 * entered the first layer (docs/theory/gradients.md, 1). */
#include "engine/tape.h"

#include "network/op_traits.h"

/* Tells the derivative by a branch's skip or scale: <d, a>, `a` being what the number multiplies. */
static rs_status back_number(rs_runner *run, const double *member, rs_parameter_part part,
                             const rs_state *a, rs_error *err)
{
    double sum = 0;
    int64_t exponent = 0;
    const rs_back_ops *back = run->ops->back;
    if (a && a->rows > 0) RS_TRY(back->dot(run, &sum, &exponent, &run->tape->d, a, err));
    run->tape->exponent = exponent;
    rs_status status = rs_gradients_tell_number(run, member, part, sum, err);
    run->tape->exponent = 0;
    return status;
}

/* *out: the derivative by what a branch's op gave; d itself where nothing stands between. */
static rs_status back_out(rs_runner *run, const rs_state **out, const rs_branch *branch,
                          rs_error *err)
{
    rs_tape *tape = run->tape;
    const rs_back_ops *back = run->ops->back;
    *out = &tape->d;
    if (branch->scale == 1 && branch->inside.kind == RS_NORM_NONE && !run->drop.on) return RS_OK;
    *out = &tape->d_out;
    RS_TRY(back->scaled(run, &tape->d_out, &tape->d, branch->scale, err));
    if (branch->inside.kind != RS_NORM_NONE)
        RS_TRY(back->norm(run, &tape->d_out, &run->record->out, &tape->d_out, &branch->inside, NULL,
                          err));
    if (run->drop.on) run->ops->drop(run, &tape->d_out, RS_DROP_OUTPUT);
    return RS_OK;
}

/* d_in = d by what the branch read, through its op and the norms around it. */
static rs_status back_op(rs_runner *run, const rs_branch *branch, const rs_state *in, rs_error *err)
{
    rs_tape *tape = run->tape;
    const rs_back_ops *back = run->ops->back;
    const rs_state *d_out;
    RS_TRY(back_out(run, &d_out, branch, err));
    if (rs_run_picks(run) && !back->branch[branch->kind].takes_picked) {
        RS_TRY(back->spread(run, &tape->spread, d_out, err));
        d_out = &tape->spread;
    }
    const rs_state *read = in;
    rs_norm_kept *kept = &run->record->before;
    if (branch->before.kind != RS_NORM_NONE) {
        RS_TRY(run->ops->norm(run, &run->normed, in, &branch->before, kept, err));
        read = &run->normed;
    }
    run->record->keeps = back->branch[branch->kind].keeps;
    RS_TRY(back->branch[branch->kind].run(run, &tape->d_in, d_out, read, branch, err));
    run->record->keeps = 0;
    if (branch->before.kind == RS_NORM_NONE) return RS_OK;
    rs_status status = back->norm(run, &tape->d_in, in, &tape->d_in, &branch->before, kept, err);
    kept->rows = 0;
    return status;
}

/* *x of all rows becomes that of the picked ones, where the branch picks. */
static rs_status pick_again(rs_runner *run, const rs_state **x, rs_error *err)
{
    if (!rs_run_picks(run)) return RS_OK;
    RS_TRY(run->ops->copy(run, &run->tape->picked, *x, err));
    run->ops->pick(run, &run->tape->picked);
    *x = &run->tape->picked;
    return RS_OK;
}

static void swap_states(rs_state *a, rs_state *b)
{
    rs_state spare = *a;
    *a = *b;
    *b = spare;
}

/* The derivative by the running state in front of a branch that picks, of all rows. */
static rs_status spread_derivative(rs_runner *run, rs_error *err)
{
    rs_tape *tape = run->tape;
    if (!rs_run_picks(run)) return RS_OK;
    RS_TRY(run->ops->back->spread(run, &tape->spread, &tape->d, err));
    swap_states(&tape->d, &tape->spread);
    return RS_OK;
}

static rs_status add_joined(rs_runner *run, rs_error *err)
{
    rs_tape *tape = run->tape;
    if (tape->joined) return run->ops->back->add(run, &tape->d_joined, &tape->d_in, err);
    tape->joined = true;
    return run->ops->copy(run, &tape->d_joined, &tape->d_in, err);
}

/* Tells the derivative by a branch's skip, where it is wanted; x: what it reads. */
static rs_status back_skip(rs_runner *run, const rs_branch *branch, const rs_state *x,
                           rs_error *err)
{
    if (rs_gradients_plan(run->tape->into)->numbers & RS_NUMBERS_NO_SKIPS) return RS_OK;
    RS_TRY(pick_again(run, &x, err));
    return back_number(run, &branch->skip, RS_OF_SKIP, x, err);
}

/* Tells the derivative by a branch's scale, where it is wanted, of what the branch adds; d still stands
 * behind the branch. */
static rs_status back_scale(rs_runner *run, const rs_branch *branch, rs_error *err)
{
    const rs_record *record = run->record;
    if (rs_gradients_plan(run->tape->into)->numbers & RS_NUMBERS_NO_SCALES) return RS_OK;
    if (rs_tape_keeps_out(run, branch))
        return back_number(run, &branch->scale, RS_OF_SCALE,
                           record->added.rows > 0 ? &record->added : &record->out, err);
    return rs_gradients_tell_number(run, &branch->scale, RS_OF_SCALE,
                                    run->tape->out_dot / branch->scale, err);
}

static rs_status back_branch(rs_runner *run, const rs_layer *layer, int32_t b, rs_error *err)
{
    rs_tape *tape = run->tape;
    const rs_back_ops *back = run->ops->back;
    const rs_branch *branch = &layer->branches[b];
    rs_record *record = run->record = rs_tape_record(tape, run->layer, b);
    bool joins = branch->joins && b > 0;
    const rs_state *x = rs_tape_in(tape, run->layer, b);
    RS_TRY(rs_check_cancelled(run->context, err));
    if (branch->after.kind != RS_NORM_NONE)
        RS_TRY(back->norm(run, &tape->d, &record->sum, &tape->d, &branch->after, NULL, err));
    RS_TRY(back_skip(run, branch, x, err));
    if (branch->scale != 0)
        RS_TRY(back_op(run, branch, joins ? &tape->states[run->layer] : x, err));
    else
        RS_TRY(rs_gradients_tell_zero(run, branch, "its residual scale is 0", err));
    RS_TRY(back_scale(run, branch, err));
    RS_TRY(back->scaled(run, &tape->d, &tape->d, branch->skip, err));
    RS_TRY(spread_derivative(run, err));
    run->record = NULL;
    if (branch->scale == 0) return RS_OK;
    return joins ? add_joined(run, err) : back->add(run, &tape->d, &tape->d_in, err);
}

/* The state that the layer reads comes into its place, of the sum that stood there, which goes below;
 * the sum that the layer's own last norm read, and stood below, comes into its record. */
static rs_status unfold_state(rs_runner *run, rs_error *err)
{
    rs_tape *tape = run->tape;
    int32_t here = run->layer, last;
    rs_state *state = &tape->states[here];
    if (rs_tape_has_sum(run, here + 1)) {
        last = run->network->layers[here].n_branches - 1;
        swap_states(&rs_tape_record(tape, here, last)->sum, &tape->below);
    }
    if (!rs_tape_has_sum(run, here)) return RS_OK;
    swap_states(state, &tape->below);
    const rs_layer *lower = &run->network->layers[here - 1];
    RS_TRY(run->ops->copy(run, &run->x, &tape->below, err));
    RS_TRY(run->ops->combine(run, &run->x, NULL, &lower->branches[lower->n_branches - 1],
                             RS_COMBINE_AFTER, err));
    return run->ops->copy(run, state, &run->x, err);
}

/* Runs the layer forward once more, unheard, into the one layer's records. */
static rs_status recompute(rs_runner *run, rs_error *err)
{
    size_t taps = run->n_taps;
    unsigned moments = run->moments;
    RS_TRY(run->ops->copy(run, &run->x, &run->tape->states[run->layer], err));
    run->n_taps = 0, run->moments = 0;
    run->tape->reruns = true;
    rs_status status = rs_run_layer(run, err);
    run->tape->reruns = false;
    run->n_taps = taps, run->moments = moments;
    return status;
}

static rs_status back_branches(rs_runner *run, rs_error *err)
{
    const rs_layer *layer = &run->network->layers[run->layer];
    rs_tape *tape = run->tape;
    RS_TRY(unfold_state(run, err));
    /* the last layer's records still stand from the way forward */
    if (tape->recompute && run->layer + 1 < tape->layers) RS_TRY(recompute(run, err));
    tape->joined = false;
    for (int32_t b = layer->n_branches - 1; b >= 0; b--) {
        run->branch = b;
        RS_TRY(back_branch(run, layer, b, err));
    }
    return tape->joined ? run->ops->back->add(run, &tape->d, &tape->d_joined, err) : RS_OK;
}

static rs_status back_layer(rs_runner *run, rs_error *err)
{
    rs_weights_hold(run->weights);
    rs_status status = back_branches(run, err);
    rs_weights_release(run->weights);
    return status;
}

/* The head forms it from all its outputs of a row, and tells them. */
static bool is_of_rows(rs_loss_kind kind)
{
    return kind == RS_LOSS_TARGETS || kind == RS_LOSS_SHARES || kind == RS_LOSS_SQUARED ||
           kind == RS_LOSS_HINGE;
}

static bool is_of_head(rs_loss_kind kind)
{
    return is_of_rows(kind) || kind == RS_LOSS_OUTPUT;
}

static rs_status back_read_out(rs_runner *run, rs_error *err)
{
    rs_weights_hold(run->weights);
    rs_status status = run->ops->back->read_out(run, &run->tape->d, err);
    rs_weights_release(run->weights);
    return status;
}

/* d by the last layer's output; of a read-out, as it alone was read. run->x is the final state. */
static rs_status back_loss(rs_runner *run, double *loss, const rs_loss *wanted, rs_error *err)
{
    const rs_back_ops *back = run->ops->back;
    rs_tape *tape = run->tape;
    const rs_state *last = tape->read_back ? &tape->read : &tape->states[tape->layers];
    const rs_norm_op *norm = &run->network->final_norm;
    bool behind = norm->kind != RS_NORM_NONE;
    if (is_of_head(wanted->kind)) {
        rs_weights_hold(run->weights);
        rs_status status = (wanted->kind == RS_LOSS_OUTPUT ? back->output : back->head)(
            run, loss, &tape->d, &run->x, wanted, err);
        rs_weights_release(run->weights);
        RS_TRY(status);
    } else {
        behind = behind && !wanted->at_state;
        RS_TRY(back->seed(run, loss, &tape->d, behind ? &run->x : last, wanted, err));
    }
    if (behind) RS_TRY(back->norm(run, &tape->d, last, &tape->d, norm, &tape->final, err));
    return tape->read_back ? back_read_out(run, err) : RS_OK;
}

static rs_status back_network(rs_runner *run, double *loss, const rs_loss *wanted, rs_error *err)
{
    rs_tape *tape = run->tape;
    tape->memory_width = 0;
    RS_TRY(back_loss(run, loss, wanted, err));
    RS_TRY(rs_gradients_tell_state(run, tape->layers, &tape->d, err));
    for (run->layer = tape->layers - 1; run->layer >= 0; run->layer--) {
        RS_TRY(back_layer(run, err));
        if (tape->read_back && run->layer > 0)
            run->ops->back->add_read(run, &tape->d, run->layer - 1);
        RS_TRY(rs_gradients_tell_memory(run, err));
        RS_TRY(rs_gradients_tell_state(run, run->layer, &tape->d, err));
    }
    if (run->drop.on && !run->batch->states) run->ops->drop(run, &tape->d, RS_DROP_EMBEDDING);
    if (!run->batch->states) RS_TRY(run->ops->back->embed(run, &tape->d, err));
    RS_TRY(rs_run_check_files(run->network, err));
    return rs_check_cancelled(run->context, err);
}

/* Targets are there, and outputs of the head. */
static rs_status check_targets(const rs_runner *run, const rs_batch *batch, const rs_loss *wanted,
                               rs_error *err)
{
    bool values = wanted->kind == RS_LOSS_SHARES || wanted->kind == RS_LOSS_SQUARED;
    int64_t outputs = run->network->head.decoder.out;
    if (!run->network->head.decoder.weight)
        return rs_fail(err, RS_E_UNSUPPORTED, "--loss", "take --loss random or --loss norm2",
                       "the network has no head that gives logits");
    if (!(wanted->smoothing >= 0 && wanted->smoothing < 1))
        return rs_fail(err, RS_E_BAD_OPTION, "label_smoothing", "give a number from 0 to below 1",
                       "label smoothing of %g", wanted->smoothing);
    if (values ? !wanted->values : !wanted->targets)
        return rs_fail(err, RS_E_INTERNAL, "targets", "please report this", "a loss without any");
    if (wanted->kind == RS_LOSS_HINGE && outputs == 1) outputs = 2; /* its sign */
    for (int64_t i = 0; i < batch->begin[batch->samples] && !values; i++)
        if (wanted->targets[i] >= outputs)
            return rs_fail(err, RS_E_TOKEN_RANGE, "targets", NULL,
                           "row %lld has target %d, the head gives %lld outputs", (long long)i,
                           wanted->targets[i], (long long)run->network->head.decoder.out);
    return RS_OK;
}

/* The last branch of the last layer that mixes tokens, where what stands behind it works on rows and
 * nothing in the layer reads what it read; -1: there is none. */
static int32_t picking_branch(const rs_network *network)
{
    int32_t found = -1;
    if (network->n_layers == 0) return -1;
    const rs_layer *layer = &network->layers[network->n_layers - 1];
    for (int32_t b = 0; b < layer->n_branches; b++) {
        if (layer->branches[b].joins) return -1;
        if (rs_branch_traits(&layer->branches[b])->mixes) found = b;
    }
    return found >= 0 && layer->branches[found].scale != 0 ? found : -1;
}

/* Nobody is told states, matrices or outputs, of which some would be missing. */
static bool none_listens(const rs_runner *run, const rs_gradients *gradients)
{
    for (size_t i = 0; i < run->n_taps; i++)
        if (run->taps[i]->state || run->taps[i]->branch || run->taps[i]->logits ||
            run->taps[i]->attention)
            return false;
    return !gradients || !rs_gradients_tell_states(gradients);
}

bool rs_row_counts(const rs_loss *wanted, int64_t i)
{
    bool values = wanted->kind == RS_LOSS_SHARES || wanted->kind == RS_LOSS_SQUARED;
    return values ? !wanted->counted || wanted->counted[i] : wanted->targets[i] >= 0;
}

/* Has the rows picked that have a target, where they are few enough to be worth it. */
static rs_status pick_rows(rs_runner *run, const rs_loss *wanted, const rs_gradients *gradients,
                           rs_error *err)
{
    int64_t n = 0;
    bool can = is_of_rows(wanted->kind) && run->ops->pick && none_listens(run, gradients);
    int32_t branch = picking_branch(run->network);
    for (int64_t i = 0; i < run->rows && can; i++)
        n += rs_row_counts(wanted, i);
    if (!can || branch < 0 || n == 0 || 8 * n >= 7 * run->rows) return RS_OK;
    const rs_batch *batch = run->batch;
    size_t count = (size_t)n + (size_t)batch->samples + 1;
    RS_TRY(rs_run_grow(run, &run->picked_store, count, sizeof(int64_t), "targets", err));
    int64_t *picked = run->picked_store.data, *begin = picked + n, k = 0;
    for (int32_t s = 0; s < batch->samples; s++) {
        begin[s] = k;
        for (int64_t i = batch->begin[s]; i < batch->begin[s + 1]; i++)
            if (rs_row_counts(wanted, i)) picked[k++] = i;
    }
    begin[batch->samples] = k;
    run->picked = picked, run->picked_begin = begin, run->n_picked = n, run->picks = branch;
    return RS_OK;
}

static rs_status check_wanted(const rs_runner *run, const rs_batch *batch, const rs_loss *wanted,
                              const rs_gradients *gradients, rs_error *err)
{
    if (!rs_gradients_fit(gradients, run->network, run->ops->precision))
        return rs_fail(err, RS_E_INTERNAL, "gradients", NULL, "they are of another network");
    if (batch->points)
        return rs_fail(err, RS_E_UNSUPPORTED, "points", "run the points one by one",
                       "gradients of several points of a sweep in one pass");
    if ((wanted->kind == RS_LOSS_OUTPUT || wanted->kind == RS_LOSS_LENGTH) &&
        !run->ops->back->output)
        return rs_fail(err, RS_E_UNSUPPORTED, "--precision", "take --precision f64 or f32",
                       "this precision explains no single outputs");
    return is_of_head(wanted->kind) ? check_targets(run, batch, wanted, err) : RS_OK;
}

rs_status rs_runner_gradient(double *loss, rs_runner *runner, const rs_batch *batch,
                             const rs_loss *wanted, rs_gradients *gradients,
                             const rs_tap *const *taps, size_t n_taps, rs_error *err)
{
    double unused = 0;
    RS_TRY(rs_run_begin(runner, batch, taps, n_taps, err));
    rs_status status = check_wanted(runner, batch, wanted, gradients, err);
    bool read = is_of_head(wanted->kind) || !wanted->at_state;
    if (status == RS_OK) status = pick_rows(runner, wanted, gradients, err);
    if (status == RS_OK) status = rs_run_plan_read_out(runner, read, err);
    if (status == RS_OK) status = rs_tape_open(runner, rs_gradients_plan(gradients), err);
    if (status == RS_OK) {
        runner->tape->into = gradients;
        runner->tape->read_back = runner->reads && read;
        status = rs_run_network(runner, !is_of_rows(wanted->kind), err);
    }
    if (status == RS_OK) status = back_network(runner, loss ? loss : &unused, wanted, err);
    rs_run_end(runner);
    return status;
}

static rs_status run_loss(rs_runner *run, double *loss, const rs_loss *wanted, rs_error *err)
{
    RS_TRY(check_targets(run, run->batch, wanted, err));
    RS_TRY(pick_rows(run, wanted, NULL, err));
    RS_TRY(rs_run_plan_read_out(run, true, err));
    RS_TRY(rs_run_network(run, false, err));
    rs_weights_hold(run->weights);
    rs_status status = run->ops->back->head(run, loss, NULL, &run->x, wanted, err);
    rs_weights_release(run->weights);
    return status;
}

rs_status rs_runner_loss(double *loss, rs_runner *runner, const rs_batch *batch,
                         const rs_loss *wanted, const rs_tap *const *taps, size_t n_taps,
                         rs_error *err)
{
    bool plain = runner->ops->precision != RS_PRECISION_RESIDUAL;
    if (!plain || !is_of_rows(wanted->kind) || batch->points)
        return rs_fail(err, RS_E_UNSUPPORTED, "loss", "take --precision f64 or f32",
                       "a loss alone is the head's, in f32 or f64, of no points of a sweep");
    RS_TRY(rs_run_begin(runner, batch, taps, n_taps, err));
    rs_tape *tape = runner->tape; /* which is kept for the next way back */
    runner->tape = NULL;
    rs_status status = run_loss(runner, loss, wanted, err);
    runner->tape = tape;
    rs_run_end(runner);
    return status;
}
