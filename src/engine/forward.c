/* forward.c: the walk over a description: layer by layer, branch by branch, telling the taps. */
#include "engine/tape.h"

#include "base/memory.h"
#include "linalg/threads.h"
#include "network/op_traits.h"

static const rs_ops *const rows[RS_PRECISIONS] = {&rs_ops_f32, &rs_ops_f64, &rs_ops_residual};

const rs_ops *rs_ops_of(rs_precision precision)
{
    return rows[precision];
}

size_t rs_precision_size(rs_precision precision)
{
    return rows[precision]->size;
}

double rs_precision_roundoff(rs_precision precision)
{
    return rows[precision]->roundoff;
}

/* NULL: the precision does not run it. */
static rs_op_run *op_of(const rs_ops *ops, const rs_branch *branch)
{
    if (ops->branch[branch->kind]) return ops->branch[branch->kind];
    return rs_ops_f64.branch[branch->kind] ? ops->any : NULL;
}

/* Not every precision need have every kind of op. */
static rs_status check_ops(const rs_network *network, const rs_ops *ops, rs_error *err)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            if (branch->scale != 0 && !op_of(ops, branch))
                return rs_fail(err, RS_E_UNSUPPORTED, "--precision", "take --precision f64",
                               "layer %d has an op of kind %s, which this precision does not run",
                               (int)l, rs_branch_traits(branch)->name);
            const rs_attention_op *op = rs_branch_attention(branch);
            if (op && branch->scale != 0 && rs_attention_is_cut(op) &&
                ops->precision == RS_PRECISION_RESIDUAL)
                return rs_fail(err, RS_E_UNSUPPORTED, "--attention-rank", "take --precision f64",
                               "rows of attention cut to a lower rank do not sum to 1, which "
                               "--precision residual stands on");
            if (op && op->gate.weight && branch->scale != 0 && !ops->gated_attention)
                return rs_fail(err, RS_E_UNSUPPORTED, "--precision", "take --precision f64",
                               "layer %d has an attention with gates, which this precision does "
                               "not run",
                               (int)l);
        }
    return RS_OK;
}

rs_status rs_runner_open(rs_runner **out, const rs_network *network, rs_weights *weights,
                         const rs_context *context, rs_error *err)
{
    *out = NULL;
    const rs_ops *ops = rs_ops_of(rs_weights_precision(weights));
    RS_TRY(rs_network_check(network, err));
    RS_TRY(check_ops(network, ops, err));
    rs_runner *run = rs_calloc(1, sizeof *run);
    if (!run) return rs_fail_memory(err, "runner", sizeof *run);
    run->ops = ops;
    run->network = network;
    run->weights = weights;
    run->context = context;
    run->changes = rs_weights_changes(weights);
    run->threads = context->threads > 0 ? context->threads : 1;
    run->thread_rooms = rs_calloc((size_t)run->threads, sizeof *run->thread_rooms);
    if (!run->thread_rooms) {
        rs_run_release(run);
        return rs_fail_memory(err, "runner", (size_t)context->threads * sizeof(rs_work_buffer));
    }
    *out = run;
    return RS_OK;
}

void rs_runner_close(rs_runner *runner)
{
    if (runner) rs_run_release(runner);
}

uint64_t rs_runner_peak(const rs_runner *runner)
{
    return runner->peak;
}

double rs_runner_flops(const rs_runner *runner)
{
    return runner->flops;
}

/* ---- taps ---- */

static rs_status tell(rs_runner *run, rs_site site, int32_t layer, const rs_state *state,
                      rs_error *err)
{
    rs_state_view view;
    bool made = false;
    for (size_t i = 0; i < run->n_taps; i++) {
        const rs_tap *tap = run->taps[i];
        if (!tap->state || !(tap->sites >> site & 1u)) continue;
        if (!made) RS_TRY(run->ops->view(run, &view, state, err));
        made = true;
        RS_TRY(tap->state(tap->user, site, layer, &view, err));
    }
    return RS_OK;
}

static unsigned moments_of(const rs_tap *tap)
{
    return tap->branch ? tap->moments : 0;
}

static bool wants_moment(const rs_runner *run, rs_moment moment)
{
    return run->moments >> moment & 1u;
}

static rs_status tell_branch(rs_runner *run, int32_t branch, rs_moment moment,
                             const rs_state *state, rs_error *err)
{
    rs_state_view view;
    if (!wants_moment(run, moment)) return RS_OK;
    const rs_branch *at = &run->network->layers[run->layer].branches[branch];
    bool normed = moment == RS_MOMENT_ADDED && at->inside.kind != RS_NORM_NONE;
    RS_TRY((normed ? run->ops->view_added : run->ops->view)(run, &view, state, err));
    for (size_t i = 0; i < run->n_taps; i++) {
        const rs_tap *tap = run->taps[i];
        if (moments_of(tap) >> moment & 1u)
            RS_TRY(tap->branch(tap->user, run->layer, branch, moment, &view, err));
    }
    return RS_OK;
}

static bool wants_matrix(const rs_runner *run, const rs_tap *tap, int32_t sample, int32_t head)
{
    return tap->attention && (!tap->wants_sample || tap->wants_sample(tap->user, sample)) &&
           (!tap->wants_attention ||
            tap->wants_attention(tap->user, run->layer, run->branch, head));
}

bool rs_run_wants_matrix(const rs_runner *run, int32_t sample, int32_t head)
{
    for (size_t i = 0; i < run->n_taps; i++)
        if (wants_matrix(run, run->taps[i], sample, head)) return true;
    return false;
}

int64_t rs_run_longest_matrix(const rs_runner *run, int32_t heads)
{
    const int64_t *begin = run->batch->begin;
    int64_t longest = 0;
    for (int32_t s = 0; s < run->batch->samples; s++) {
        int64_t n = begin[s + 1] - begin[s];
        for (int32_t h = 0; h < heads && n > longest; h++)
            if (rs_run_wants_matrix(run, s, h)) longest = n;
    }
    return longest;
}

rs_status rs_run_tell_matrix(const rs_runner *run, const rs_attention_view *matrix, rs_error *err)
{
    rs_attention_view view = *matrix;
    view.layer = run->layer;
    view.branch = run->branch;
    view.thread = rs_thread_number();
    for (size_t i = 0; i < run->n_taps; i++) {
        const rs_tap *tap = run->taps[i];
        if (!wants_matrix(run, tap, view.sample, view.head)) continue;
        view.logits = tap->wants_logits ? matrix->logits : NULL;
        RS_TRY(tap->attention(tap->user, &view, err));
    }
    return RS_OK;
}

static bool wants_mixing(const rs_runner *run, const rs_tap *tap)
{
    return tap->mixing &&
           (!tap->wants_mixing || tap->wants_mixing(tap->user, run->layer, run->branch));
}

bool rs_run_wants_mixing(const rs_runner *run)
{
    for (size_t i = 0; i < run->n_taps; i++)
        if (wants_mixing(run, run->taps[i])) return true;
    return false;
}

rs_status rs_run_tell_mixing(const rs_runner *run, const rs_mixing_numbers *of, int32_t matrices,
                             rs_error *err)
{
    const int64_t *begin = run->batch->begin;
    rs_mixing_view view = {.layer = run->layer, .branch = run->branch, .matrices = matrices};
    for (int32_t s = 0; s < run->batch->samples; s++) {
        view.sample = s;
        view.n = begin[s + 1] - begin[s];
        view.of = of + (int64_t)s * matrices;
        for (size_t i = 0; view.n > 0 && i < run->n_taps; i++)
            if (wants_mixing(run, run->taps[i]))
                RS_TRY(run->taps[i]->mixing(run->taps[i]->user, &view, err));
    }
    return RS_OK;
}

static bool wants_logits(const rs_runner *run)
{
    for (size_t i = 0; i < run->n_taps; i++)
        if (run->taps[i]->logits) return true;
    return false;
}

/* For each piece BLAS copies the whole decoder, which pays from some 64 rows on: a large
 * vocabulary's logits may take an eighth of what its decoder does. */
int64_t rs_logits_rows(const rs_dense *decoder, rs_precision precision)
{
    enum { PIECE_BYTES = 1 << 25, LEAST_PIECE = 16, MOST_PIECE = 256 };
    int64_t row = (int64_t)rs_precision_size(precision) * decoder->out;
    int64_t piece = PIECE_BYTES / (row > 0 ? row : 1), eighth = decoder->in / 8;
    if (eighth > MOST_PIECE) eighth = MOST_PIECE;
    if (piece < eighth) piece = eighth;
    return piece > LEAST_PIECE ? piece : LEAST_PIECE;
}

/* ---- the walk ---- */

static bool layer_joins(const rs_layer *layer)
{
    for (int32_t b = 1; b < layer->n_branches; b++)
        if (layer->branches[b].joins) return true;
    return false;
}

/* out = op(before(what the branch reads)) */
static rs_status run_op(rs_runner *run, const rs_layer *layer, int32_t b, const rs_state *in,
                        rs_error *err)
{
    const rs_branch *branch = &layer->branches[b];
    if (branch->before.kind != RS_NORM_NONE) {
        rs_norm_kept *kept = run->record ? &run->record->before : NULL;
        if (kept) kept->rows = 0;
        RS_TRY(run->ops->norm(run, &run->normed, in, &branch->before, kept, err));
        in = &run->normed;
    }
    RS_TRY(tell_branch(run, b, RS_MOMENT_OP_IN, in, err));
    RS_TRY(op_of(run->ops, branch)(run, &run->branch_out, in, branch, err));
    if (rs_run_picks(run) && run->branch_out.rows == run->rows)
        run->ops->pick(run, &run->branch_out);
    if (run->drop.on && !run->spares) run->ops->drop(run, &run->branch_out, RS_DROP_OUTPUT);
    return tell_branch(run, b, RS_MOMENT_OP_OUT, &run->branch_out, err);
}

/* The sum that a layer's last norm reads, where the tape keeps it in place of what the norm makes of it. */
static rs_status keep_sum(rs_runner *run, rs_error *err)
{
    return run->ops->copy(run, &run->tape->states[run->layer + 1], &run->x, err);
}

/* The steps behind the op at once, but where somebody asks for what is between them. out NULL: the
 * branch adds nothing. */
static rs_status combine_branch(rs_runner *run, const rs_branch *branch, int32_t b, rs_state *out,
                                rs_error *err)
{
    unsigned steps = RS_COMBINE_ALL;
    bool keeps = b + 1 == run->network->layers[run->layer].n_branches &&
                 rs_tape_has_sum(run, run->layer + 1);
    if (out && wants_moment(run, RS_MOMENT_ADDED)) {
        RS_TRY(rs_run_combine(run, out, branch, RS_COMBINE_INSIDE, err));
        RS_TRY(tell_branch(run, b, RS_MOMENT_ADDED, out, err));
        steps &= ~(unsigned)RS_COMBINE_INSIDE;
    }
    if (keeps || wants_moment(run, RS_MOMENT_SUM)) {
        RS_TRY(rs_run_combine(run, out, branch, steps & ~(unsigned)RS_COMBINE_AFTER, err));
        RS_TRY(tell_branch(run, b, RS_MOMENT_SUM, &run->x, err));
        if (keeps) RS_TRY(keep_sum(run, err));
        steps = RS_COMBINE_AFTER;
    }
    RS_TRY(rs_run_combine(run, out, branch, steps, err));
    return tell_branch(run, b, RS_MOMENT_OUT, &run->x, err);
}

rs_status rs_run_check_files(const rs_network *network, rs_error *err)
{
    const rs_checkpoint *checkpoint = network->checkpoint;
    for (size_t i = 0; checkpoint && i < checkpoint->n_files; i++)
        RS_TRY(rs_mapping_check(checkpoint->files[i].mapping, err));
    return RS_OK;
}

/* Whether some tap asks for what the mixers of a layer give. */
static bool wants_mixed(const rs_runner *run)
{
    for (size_t i = 0; i < run->n_taps; i++)
        if (run->taps[i]->state && run->taps[i]->sites >> RS_SITE_MIXER_OUT & 1u) return true;
    return false;
}

/* Branches of the layer that mix the same tokens and are run; *last: the last of them. */
static int32_t mixers_run(const rs_layer *layer, int32_t *last)
{
    int32_t n = 0;
    for (int32_t b = 0; b < layer->n_branches; b++)
        if (layer->branches[b].scale != 0 && rs_layer_mixes_with(layer, b)) *last = b, n++;
    return n;
}

/* Tells what the mixers of a layer give: of several, which share a skip, the sum, each with its
 * scale relative to the first one's. out: of branch b. */
static rs_status tell_mixed(rs_runner *run, const rs_layer *layer, int32_t b, const rs_state *out,
                            rs_error *err)
{
    int32_t last = 0, first = 0, n = mixers_run(layer, &last);
    if (!rs_layer_mixes_with(layer, b) || !wants_mixed(run)) return RS_OK;
    if (n == 1) return tell(run, RS_SITE_MIXER_OUT, run->layer + 1, out, err);
    while (layer->branches[first].scale == 0 || !rs_layer_mixes_with(layer, first))
        first++;
    const rs_branch sum = {.skip = 1,
                           .scale = layer->branches[b].scale / layer->branches[first].scale};
    if (b == first)
        RS_TRY(run->ops->copy(run, &run->mixed, out, err));
    else
        RS_TRY(run->ops->combine(run, &run->mixed, &run->branch_out, &sum, RS_COMBINE_SUM, err));
    if (b < last) return RS_OK;
    return tell(run, RS_SITE_MIXER_OUT, run->layer + 1, &run->mixed, err);
}

/* The running state is what the branch reads. */
static rs_status record_in(rs_runner *run, int32_t b, rs_error *err)
{
    rs_tape *tape = run->tape;
    run->record = rs_tape_record(tape, run->layer, b);
    if (b == 0) return RS_OK;
    return run->ops->copy(run, &run->record->in, &run->x, err);
}

/* Runs the op of a branch that adds nothing, unheard: what it gives says how the loss depends on the
 * branch's scale. A branch that cannot run leaves nothing. */
static rs_status run_unheard(rs_runner *run, const rs_layer *layer, int32_t b, const rs_state *in,
                             rs_error *err)
{
    const rs_branch *branch = &layer->branches[b];
    size_t taps = run->n_taps;
    unsigned moments = run->moments;
    rs_error unused = {0};
    if (!op_of(run->ops, branch) ||
        rs_branch_traits(branch)->check(branch, run->network->d_model, "", &unused) != RS_OK)
        return RS_OK;
    run->n_taps = 0, run->moments = 0;
    rs_status status = run_op(run, layer, b, in, err);
    run->n_taps = taps, run->moments = moments;
    return status;
}

/* Runs what a branch does, apart from its sum, and has its record keep what the way back needs. */
static rs_status record_op(rs_runner *run, const rs_layer *layer, int32_t b, const rs_state *in,
                           rs_error *err)
{
    const rs_branch *branch = &layer->branches[b];
    rs_record *record = run->record;
    run->branch_out.rows = record->out.rows = record->added.rows = 0;
    record->keeps = run->ops->back->branch[branch->kind].keeps;
    rs_status status =
        branch->scale != 0 ? run_op(run, layer, b, in, err) : run_unheard(run, layer, b, in, err);
    record->keeps = 0;
    RS_TRY(status);
    if (run->branch_out.rows == 0) return RS_OK;
    if (rs_tape_keeps_out(run, branch))
        RS_TRY(run->ops->copy(run, &record->out, &run->branch_out, err));
    if (branch->inside.kind == RS_NORM_NONE || branch->scale != 0) return RS_OK;
    RS_TRY(rs_run_combine(run, &run->branch_out, branch, RS_COMBINE_INSIDE, err));
    return run->ops->copy(run, &record->added, &run->branch_out, err);
}

/* As combine_branch, whose numbers it has bit for bit. */
static rs_status record_combine(rs_runner *run, const rs_branch *branch, int32_t b, rs_state *out,
                                rs_error *err)
{
    rs_record *record = run->record;
    if (out) {
        RS_TRY(rs_run_combine(run, out, branch, RS_COMBINE_INSIDE, err));
        if (branch->inside.kind != RS_NORM_NONE)
            RS_TRY(run->ops->copy(run, &record->added, out, err));
        RS_TRY(tell_branch(run, b, RS_MOMENT_ADDED, out, err));
    }
    RS_TRY(rs_run_combine(run, out, branch, RS_COMBINE_SUM, err));
    RS_TRY(tell_branch(run, b, RS_MOMENT_SUM, &run->x, err));
    if (branch->after.kind != RS_NORM_NONE) RS_TRY(run->ops->copy(run, &record->sum, &run->x, err));
    RS_TRY(rs_run_combine(run, out, branch, RS_COMBINE_AFTER, err));
    return tell_branch(run, b, RS_MOMENT_OUT, &run->x, err);
}

/* Whether a layer that runs once more ends at the op of branch b, of which only the record is read. */
static bool ends_at_op(const rs_runner *run, const rs_layer *layer, int32_t b)
{
    return run->tape && run->tape->reruns && b + 1 == layer->n_branches &&
           !rs_tape_keeps_out(run, &layer->branches[b]);
}

static rs_status run_branch(rs_runner *run, const rs_layer *layer, int32_t b, rs_error *err)
{
    const rs_branch *branch = &layer->branches[b];
    const rs_state *in = branch->joins && b > 0 ? &run->joined : &run->x;
    rs_state *out = branch->scale != 0 ? &run->branch_out : NULL;
    bool records = rs_tape_records(run);
    RS_TRY(rs_check_cancelled(run->context, err));
    if (records) RS_TRY(record_in(run, b, err));
    RS_TRY(tell_branch(run, b, RS_MOMENT_IN, &run->x, err));
    if (ends_at_op(run, layer, b)) {
        run->spares = true;
        rs_status status = record_op(run, layer, b, in, err);
        run->spares = false, run->record = NULL;
        return status;
    }
    if (records)
        RS_TRY(record_op(run, layer, b, in, err));
    else if (out)
        RS_TRY(run_op(run, layer, b, in, err));
    if (rs_run_picks(run)) run->ops->pick(run, &run->x);
    if (out) RS_TRY(tell_mixed(run, layer, b, out, err));
    rs_status status = records ? record_combine(run, branch, b, out, err)
                               : combine_branch(run, branch, b, out, err);
    run->record = NULL;
    return status;
}

rs_status rs_run_layer(rs_runner *run, rs_error *err)
{
    const rs_layer *layer = &run->network->layers[run->layer];
    if (run->tape && !run->tape->reruns && !rs_tape_has_sum(run, run->layer))
        RS_TRY(run->ops->copy(run, &run->tape->states[run->layer], &run->x, err));
    if (layer_joins(layer)) RS_TRY(run->ops->copy(run, &run->joined, &run->x, err));
    for (int32_t b = run->branch = 0; b < layer->n_branches; run->branch = ++b)
        RS_TRY(run_branch(run, layer, b, err));
    return rs_run_check_files(run->network, err);
}

/* The running state becomes what is read of those behind all layers. */
static rs_status read_states(rs_runner *run, rs_error *err)
{
    RS_TRY(run->ops->read_out(run, &run->x, err));
    RS_TRY(tell(run, RS_SITE_READ_OUT, run->network->n_layers, &run->x, err));
    return run->tape ? run->ops->copy(run, &run->tape->read, &run->x, err) : RS_OK;
}

rs_status rs_run_network(rs_runner *run, bool with_head, rs_error *err)
{
    const rs_network *network = run->network;
    RS_TRY(run->ops->embed(run, &run->x, err));
    if (run->drop.on && !run->batch->states) run->ops->drop(run, &run->x, RS_DROP_EMBEDDING);
    RS_TRY(tell(run, RS_SITE_BLOCK_OUT, 0, &run->x, err));
    for (run->layer = 0; run->layer < network->n_layers; run->layer++) {
        RS_TRY(rs_run_layer(run, err));
        run->passed += network->layers[run->layer].n_branches;
        RS_TRY(tell(run, RS_SITE_BLOCK_OUT, run->layer + 1, &run->x, err));
        if (run->reads) RS_TRY(run->ops->keep(run, &run->x, run->layer, err));
    }
    if (run->tape) RS_TRY(run->ops->copy(run, &run->tape->states[run->layer], &run->x, err));
    if (run->reads) RS_TRY(read_states(run, err));
    if (network->final_norm.kind != RS_NORM_NONE) {
        rs_norm_kept *kept = run->tape ? &run->tape->final : NULL;
        if (kept) kept->rows = 0;
        RS_TRY(run->ops->norm(run, &run->x, &run->x, &network->final_norm, kept, err));
    }
    RS_TRY(tell(run, RS_SITE_FINAL, network->n_layers, &run->x, err));
    if (with_head && wants_logits(run) && network->head.decoder.weight)
        RS_TRY(run->ops->head(run, &run->x, err));
    RS_TRY(rs_run_check_files(network, err));
    return rs_check_cancelled(run->context, err);
}

/* Where the weights have changed since they were made. */
static void forget_rotations(rs_runner *run)
{
    uint64_t changes = rs_weights_changes(run->weights);
    if (run->changes == changes) return;
    for (int i = 0; i < RS_ROTATIONS; i++)
        run->rotations[i].n = 0;
    run->changes = changes;
}

rs_status rs_run_begin(rs_runner *runner, const rs_batch *batch, const rs_tap *const *taps,
                       size_t n_taps, rs_error *err)
{
    RS_TRY(rs_batch_check(runner->network, batch, err));
    if (batch->points) RS_TRY(rs_points_check(runner, batch, err));
    RS_TRY(rs_drop_open(&runner->drop, batch->dropout, err));
    if (runner->drop.on && (!runner->ops->drop || batch->points))
        return rs_fail(err, RS_E_UNSUPPORTED, "dropout", "take --precision f64 or f32",
                       "dropout in the residual precision, or with points of a sweep");
    runner->batch = batch;
    runner->passed = 0;
    runner->taps = taps;
    runner->n_taps = n_taps;
    runner->moments = 0;
    for (size_t i = 0; i < n_taps; i++)
        runner->moments |= moments_of(taps[i]);
    runner->picks = -1;
    runner->flops = 0;
    runner->rows = batch->begin[batch->samples];
    runner->longest = 0;
    for (int32_t s = 0; s < batch->samples; s++)
        if (batch->begin[s + 1] - batch->begin[s] > runner->longest)
            runner->longest = batch->begin[s + 1] - batch->begin[s];
    forget_rotations(runner);
    return RS_OK;
}

void rs_run_end(rs_runner *runner)
{
    runner->batch = NULL;
    runner->taps = NULL;
    runner->n_taps = 0;
    runner->record = NULL;
}

rs_status rs_runner_run(rs_runner *runner, const rs_batch *batch, const rs_tap *const *taps,
                        size_t n_taps, rs_error *err)
{
    RS_TRY(rs_run_begin(runner, batch, taps, n_taps, err));
    rs_tape_close(runner); /* nobody goes back */
    rs_status status = rs_run_plan_read_out(runner, false, err);
    if (status == RS_OK) status = rs_run_network(runner, true, err);
    rs_run_end(runner);
    return status;
}
