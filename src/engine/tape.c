/* tape.c: records of branches: their memory, and how much of it a pass will take. */
#include "engine/tape.h"

#include "base/memory.h"

#include <math.h>

rs_record *rs_tape_record(rs_tape *tape, int32_t layer, int32_t branch)
{
    int64_t first = tape->recompute ? 0 : (int64_t)layer * RS_BRANCHES_MAX;
    return &tape->records[first + branch];
}

const rs_state *rs_tape_in(rs_tape *tape, int32_t layer, int32_t branch)
{
    return branch == 0 ? &tape->states[layer] : &rs_tape_record(tape, layer, branch)->in;
}

static int64_t records_of(const rs_tape *tape)
{
    return (tape->recompute ? 1 : (int64_t)tape->layers) * RS_BRANCHES_MAX;
}

bool rs_tape_records(const rs_runner *run)
{
    const rs_tape *tape = run->tape;
    return tape && (!tape->recompute || tape->reruns || run->layer + 1 == tape->layers);
}

/* Whether some branch of a layer ends in a norm, and is the last. */
static bool ends_in_norm(const rs_layer *layer)
{
    return layer->n_branches > 0 &&
           layer->branches[layer->n_branches - 1].after.kind != RS_NORM_NONE;
}

bool rs_tape_has_sum(const rs_runner *run, int32_t layer)
{
    const rs_tape *tape = run->tape;
    if (!tape || !tape->recompute || layer == 0 || layer == tape->layers) return false;
    return ends_in_norm(&run->network->layers[layer - 1]);
}

/* Whether the derivative by a branch's scale is found without what the op gave: the way back divides
 * by the scale, and a tiny one could have drowned what it divides. */
static bool scale_is_found(const rs_branch *branch, const rs_back_ops *back)
{
    return back->branch[branch->kind].without_out && fabs(branch->scale) >= 0x1p-20;
}

static bool keeps_out(const rs_branch *branch, const rs_back_ops *back, unsigned numbers)
{
    if (branch->inside.kind != RS_NORM_NONE) return true;
    return !(numbers & RS_NUMBERS_NO_SCALES) && !scale_is_found(branch, back);
}

bool rs_tape_keeps_out(const rs_runner *run, const rs_branch *branch)
{
    return keeps_out(branch, run->ops->back, rs_gradients_plan(run->tape->into)->numbers);
}

static void give(rs_runner *run, rs_work_buffer *store)
{
    rs_kept_give(run->context->kept, store->data);
    run->held -= store->bytes;
    *store = (rs_work_buffer){0};
}

void rs_tape_close(rs_runner *run)
{
    rs_tape *tape = run->tape;
    if (!tape) return;
    rs_state *states[] = {&tape->d,      &tape->d_joined, &tape->d_out, &tape->d_in,
                          &tape->picked, &tape->spread,   &tape->read,  &tape->below};
    for (int i = 0; i < RS_ROOMS; i++)
        give(run, &tape->again.kept[i]);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        give(run, &states[i]->store);
    give(run, &tape->d_memory);
    give(run, &tape->final.store);
    for (int32_t l = 0; tape->states && l <= tape->layers; l++)
        give(run, &tape->states[l].store);
    for (int64_t r = 0; tape->records && r < records_of(tape); r++) {
        rs_record *record = &tape->records[r];
        rs_state *parts[] = {&record->in, &record->out, &record->added, &record->sum};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            give(run, &parts[i]->store);
        give(run, &record->before.store);
        for (int i = 0; i < RS_ROOMS; i++)
            give(run, &record->kept[i]);
    }
    rs_free(tape->states);
    rs_free(tape->records);
    rs_free(tape);
    run->tape = NULL;
    run->record = NULL;
}

rs_status rs_tape_open(rs_runner *run, const rs_gradient_plan *plan, rs_error *err)
{
    int32_t layers = run->network->n_layers;
    rs_tape *tape = run->tape;
    if (tape && tape->recompute == plan->recompute) {
        tape->hold = plan->hold;
        tape->exponent = 0, tape->apart = tape->drowned = false; /* those of the last pass */
        return RS_OK;
    }
    rs_tape_close(run);
    tape = rs_calloc(1, sizeof *tape);
    if (!tape) return rs_fail_memory(err, "tape", sizeof *tape);
    *tape = (rs_tape){.recompute = plan->recompute, .hold = plan->hold, .layers = layers};
    run->tape = tape;
    tape->states = rs_calloc((size_t)layers + 1, sizeof *tape->states);
    tape->records = rs_calloc((size_t)records_of(tape) + 1, sizeof *tape->records);
    if (tape->states && tape->records) return RS_OK;
    rs_tape_close(run);
    return rs_fail_memory(err, "tape", ((size_t)layers + 1) * sizeof *tape->states);
}

uint64_t rs_runner_tape(const rs_runner *run)
{
    const rs_tape *tape = run->tape;
    uint64_t bytes = 0;
    if (!tape) return 0;
    bytes += tape->read.store.bytes + tape->below.store.bytes + tape->final.store.bytes;
    for (int32_t l = 0; l <= tape->layers; l++)
        bytes += tape->states[l].store.bytes;
    for (int64_t r = 0; r < records_of(tape); r++) {
        const rs_record *record = &tape->records[r];
        bytes += record->in.store.bytes + record->out.store.bytes + record->added.store.bytes +
                 record->sum.store.bytes + record->before.store.bytes;
        for (int i = 0; i < RS_ROOMS; i++)
            bytes += record->kept[i].bytes;
    }
    for (int i = 0; i < RS_ROOMS; i++)
        bytes += tape->again.kept[i].bytes;
    return bytes;
}

enum { RECORD_STATES = 4, RECORD_PARTS = RECORD_STATES + 1 + RS_ROOMS };

/* Bytes of a room of a branch's record for each row. */
static double room_bytes(const rs_back_ops *back, const rs_branch *branch, int i, size_t size)
{
    const rs_way_back *way = &back->branch[branch->kind];
    bool kept = way->row_bytes && way->keeps >> i & 1u;
    return kept ? way->row_bytes(branch, (rs_room)i, size) : 0;
}

/* Bytes of each part of a branch's record for each row: its states, what its norm keeps, its rooms. */
static void record_parts(double *parts, const rs_branch *branch, bool first, int64_t d,
                         const rs_ops *ops, unsigned numbers)
{
    const bool there[RECORD_STATES] = {!first, keeps_out(branch, ops->back, numbers),
                                       branch->inside.kind != RS_NORM_NONE,
                                       branch->after.kind != RS_NORM_NONE};
    for (int i = 0; i < RECORD_STATES; i++)
        parts[i] = there[i] ? (double)d * (double)ops->size : 0;
    parts[RECORD_STATES] = branch->before.kind != RS_NORM_NONE ? (double)ops->norm_bytes : 0;
    for (int i = 0; i < RS_ROOMS; i++)
        parts[RECORD_STATES + 1 + i] = room_bytes(ops->back, branch, i, ops->size);
}

/* What the records of place b in a layer take: one for each layer, or one for all, each part of which
 * is as large as some layer needs. */
static double place_bytes(const rs_network *network, const rs_ops *ops, int32_t b,
                          const rs_gradient_plan *plan)
{
    double most[RECORD_PARTS] = {0}, parts[RECORD_PARTS], all = 0, shared = 0;
    for (int32_t l = 0; l < network->n_layers; l++) {
        if (b >= network->layers[l].n_branches) continue;
        record_parts(parts, &network->layers[l].branches[b], b == 0, network->d_model, ops,
                     plan->numbers);
        for (int i = 0; i < RECORD_PARTS; i++) {
            all += parts[i];
            most[i] = parts[i] > most[i] ? parts[i] : most[i];
        }
    }
    for (int i = 0; i < RECORD_PARTS; i++)
        shared += most[i];
    return plan->recompute ? shared : all;
}

/* What the record that is filled again takes: of each room as much as some branch needs. */
static double again_bytes(const rs_network *network, const rs_ops *ops)
{
    double most[RS_ROOMS] = {0}, sum = 0;
    for (int32_t l = 0; l < network->n_layers && ops->back->again; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++)
            for (int i = 0; i < RS_ROOMS; i++) {
                const rs_branch *branch = &network->layers[l].branches[b];
                double bytes = room_bytes(ops->back->again, branch, i, ops->size);
                most[i] = bytes > most[i] ? bytes : most[i];
            }
    for (int i = 0; i < RS_ROOMS; i++)
        sum += most[i];
    return sum;
}

uint64_t rs_tape_bytes(const rs_network *network, rs_precision precision,
                       const rs_gradient_plan *plan, int64_t rows)
{
    const rs_ops *ops = rs_ops_of(precision);
    int32_t states = network->n_layers + 1 + (network->read_out.kind != RS_FUSION_NONE);
    for (int32_t l = 0; l + 1 < network->n_layers && plan->recompute; l++)
        if (ends_in_norm(&network->layers[l])) {
            states++; /* the sum that changes places with a state */
            break;
        }
    double row = (double)network->d_model * (double)ops->size * (double)states;
    for (int32_t b = 0; b < RS_BRANCHES_MAX; b++)
        row += place_bytes(network, ops, b, plan);
    row += again_bytes(network, ops);
    if (network->final_norm.kind != RS_NORM_NONE) row += (double)ops->norm_bytes;
    return (uint64_t)(row * (double)rows);
}

bool rs_softmax_is_centred(const rs_attention_op *op, int64_t keys)
{
    int64_t behind = op->causal ? 0 : op->window - 1; /* keys behind a query that it sees */
    int64_t seen = op->window > 0 ? op->window - 1 + RS_TILE_QUERIES + behind : keys;
    bool edited = op->mix_identity != 0 || op->mix_softmax != 1 || op->mix_uniform != 0;
    return edited || keys <= RS_TILE_KEYS || seen <= RS_TILE_KEYS;
}
