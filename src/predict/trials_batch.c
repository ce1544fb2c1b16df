/* trials_batch.c: memory of batched trials, and what forward and back share. */
#include "predict/trials_batch.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A thread's room: beyond it the engine runs them, which keeps one layer's tape where it must. */
static const uint64_t most_bytes = UINT64_C(1) << 30;

/* ---- sizes ---- */

static int64_t padded(int64_t count)
{
    return (count + RS_TRIALS_PAD - 1) / RS_TRIALS_PAD * RS_TRIALS_PAD;
}

/* Takes `count` numbers of a thread's record. */
static int64_t take(rs_trials_batch *batch, int64_t count)
{
    int64_t at = batch->record;
    batch->record += padded(count);
    return at;
}

static void place_norm(int64_t *out, int64_t *inverse, rs_trials_batch *batch,
                       const rs_trials_norm *norm)
{
    if (!norm->on) return;
    if (out) *out = take(batch, batch->plan->d * batch->ld);
    *inverse = take(batch, batch->ld);
}

static void place_branch(rs_trials_batch *batch, rs_trials_branch *branch)
{
    int64_t heads = branch->heads * batch->n_chains;
    branch->in = take(batch, batch->plan->d * batch->ld);
    place_norm(NULL, &branch->before_inverse, batch, &branch->before);
    place_norm(&branch->inside_out, &branch->inside_inverse, batch, &branch->inside);
    place_norm(NULL, &branch->after_inverse, batch, &branch->after);
    for (int i = 0; i < (branch->mlp ? RS_TRIALS_W_DOWN : 3); i++)
        branch->projected[i] = take(batch, branch->maps[i].out * batch->ld);
    if (branch->mlp) return;
    branch->probabilities = take(batch, heads * batch->n * batch->np);
    if (!branch->merged) branch->mixed = take(batch, branch->maps[RS_TRIALS_O].in * batch->ld);
}

/* What `after` gives is what the next branch reads, where that has no norm in front; lanes of cells that
 * end there are not written by it. */
static void place_after(rs_trials_batch *batch, rs_trials_branch *branch,
                        const rs_trials_branch *next)
{
    if (!branch->after.on) return;
    branch->after_out =
        next && !next->before.on ? next->in : take(batch, batch->plan->d * batch->ld);
}

static void place_records(rs_trials_batch *batch)
{
    rs_trials_plan *plan = batch->plan;
    rs_trials_branch *last = NULL;
    batch->record = 0;
    for (int32_t l = 0; l < plan->n_layers; l++)
        for (int32_t b = 0; b < plan->layers[l].n_branches; b++) {
            rs_trials_branch *branch = &plan->layers[l].branches[b];
            place_branch(batch, branch);
            if (last) place_after(batch, last, branch);
            last = branch;
        }
    if (last) place_after(batch, last, NULL);
}

/* A part of a thread's room. */
typedef struct part {
    double **at;
    int64_t count;
} part;

/* Each at its place behind `used` numbers of `memory`; NULL: counts alone. */
static int64_t place_parts(const part *parts, size_t n, int64_t used, double *memory)
{
    for (size_t i = 0; i < n; i++) {
        if (memory) *parts[i].at = memory + used;
        used += padded(parts[i].count);
    }
    return used;
}

static int64_t place_grams(rs_trials_room *room, const rs_trials_batch *batch, int64_t used,
                           double *memory)
{
    int64_t head = batch->n * batch->np;
    rs_trials_gram *all[2 * RS_TRIALS_CHAINS + 1];
    for (int c = 0; c < RS_TRIALS_CHAINS; c++) {
        all[2 * c] = &room->read[c];
        all[2 * c + 1] = &room->inner[c];
    }
    all[2 * batch->n_chains] = &room->given;
    for (int i = 0; i <= 2 * batch->n_chains; i++) {
        const part parts[] = {{&all[i]->of, head}, {&all[i]->lean, batch->np}};
        used = place_parts(parts, sizeof parts / sizeof *parts, used, memory);
    }
    return used;
}

/* All parts of a thread's room. */
static int64_t place_room(rs_trials_room *room, const rs_trials_batch *batch, double *memory)
{
    const rs_trials_plan *plan = batch->plan;
    int64_t rows = plan->rows, ld = batch->ld, back = batch->ld_back, np = batch->np;
    int64_t head = batch->n * np, chains = batch->n_chains, wide = padded(rows);
    int64_t lanes = ld > back ? ld : back;
    const part parts[] = {
        {&room->panel, plan->widest},
        {&room->picked, batch->request->ends ? plan->widest : 0},
        {&room->record, batch->record},
        {&room->x, plan->d * ld},
        {&room->y, rows * ld},
        {&room->h, rows * ld},
        {&room->skip, lanes},
        {&room->scale, lanes},
        {&room->lane, np},
        {&room->square, head},
        {&room->mixing, chains * plan->heads * head},
        {&room->keys, chains * rows * np},
        {&room->slope, rows * ld},
        {&room->active, rows * ld},
        {&room->fans, batch->n_fans * plan->d * back},
        {&room->added, rows * back},
        {&room->heads, rows * back},
        {&room->back[0], rows * back},
        {&room->back[1], rows * back},
        {&room->back[2], rows * back},
        {&room->back_in, plan->d * back},
        {&room->logits, batch->n * back},
        {&room->turned, batch->n * back},
        {&room->centred, rows * np},
        {&room->means, rows},
        {&room->across, batch->n * wide},
        {&room->product, RS_TRIALS_PAD * wide},
    };
    int64_t used = place_parts(parts, sizeof parts / sizeof *parts, 0, memory);
    return place_grams(room, batch, used, memory);
}

/* Lanes of so many cells side by side: rows a power of two apart would share few lines of the nearest
 * cache. */
static int64_t lanes_of(int64_t np, int32_t cells)
{
    int64_t lanes = np * cells;
    return cells > 1 && lanes % 32 == 0 ? lanes + RS_TRIALS_PAD : lanes;
}

rs_status rs_trials_batch_plan(rs_trials_batch *batch, uint64_t *bytes, rs_error *err)
{
    int32_t widest = 0;
    for (int32_t f = 0; f < batch->n_fans; f++)
        if (batch->fans[f].count > widest) widest = batch->fans[f].count;
    batch->ld = lanes_of(batch->np, batch->n_chains);
    batch->ld_back = lanes_of(batch->np, widest);
    place_records(batch);
    rs_trials_room none;
    *bytes = (uint64_t)place_room(&none, batch, NULL) * sizeof(double) +
             (uint64_t)batch->plan->weights * sizeof(float);
    if (*bytes <= most_bytes) return RS_OK;
    return rs_fail(err, RS_E_MEMORY_LIMIT, "trials", "run them through the engine",
                   "a batched trial would take %" PRIu64 " MiB a thread", *bytes >> 20);
}

rs_status rs_trials_room_open(rs_trials_room *room, const rs_trials_batch *batch, rs_error *err)
{
    size_t count = (size_t)place_room(room, batch, NULL), weights = (size_t)batch->plan->weights;
    *room = (rs_trials_room){.memory = rs_calloc(count, sizeof(double)),
                             .drawn = rs_malloc(weights, sizeof(float))};
    if (!room->memory || !room->drawn) {
        rs_trials_room_close(room);
        return rs_fail_memory(err, "trials", count * sizeof(double));
    }
    place_room(room, batch, room->memory);
    return RS_OK;
}

void rs_trials_room_close(rs_trials_room *room)
{
    rs_free(room->memory);
    rs_free(room->drawn);
    *room = (rs_trials_room){0};
}

void rs_trials_set_dials(double *skip, double *scale, const rs_trials_plan *plan, int32_t l,
                         int32_t b, int64_t np)
{
    const rs_trials_dial *dial = &plan->layers[l].branches[b].dial;
    for (int64_t i = 0; i < np; i++) {
        skip[i] = dial->skip;
        scale[i] = dial->scale;
    }
}

/* ---- masks ---- */

rs_trials_span rs_trials_keys(const rs_trials_branch *branch, int64_t n, int64_t i)
{
    rs_trials_span keys = {0, branch->causal ? i + 1 : n};
    int64_t reach = branch->window;
    if (reach <= 0) return keys;
    if (i - reach + 1 > 0) keys.first = i - reach + 1;
    if (!branch->causal && i + reach < n) keys.end = i + reach;
    return keys;
}

rs_trials_span rs_trials_queries(const rs_trials_branch *branch, int64_t n, int64_t j)
{
    rs_trials_span queries = {branch->causal ? j : 0, n};
    int64_t reach = branch->window;
    if (reach <= 0) return queries;
    if (!branch->causal && j - reach + 1 > 0) queries.first = j - reach + 1;
    if (j + reach < n) queries.end = j + reach;
    return queries;
}

const double *rs_trials_mixing(double *out, const rs_trials_batch *batch,
                               const rs_trials_branch *branch, const rs_trials_dial *dial,
                               const double *p)
{
    int64_t n = batch->n, np = batch->np;
    if (dial->identity == 0 && dial->softmax == 1 && dial->uniform == 0) return p;
    for (int64_t i = 0; i < n * np; i++)
        out[i] = dial->softmax * p[i];
    for (int64_t i = 0; i < n; i++) {
        rs_trials_span keys = rs_trials_keys(branch, n, i);
        double share = dial->uniform / (double)(keys.end - keys.first);
        for (int64_t j = keys.first; j < keys.end; j++)
            out[j * np + i] -= share;
        out[i * np + i] += dial->identity;
    }
    return out;
}

double *rs_trials_softmax(const rs_trials_batch *batch, const rs_trials_room *room,
                          const rs_trials_branch *branch, int32_t chain, int64_t head)
{
    int64_t size = batch->n * batch->np;
    return room->record + branch->probabilities + (chain * branch->heads + head) * size;
}

/* ---- a trial ---- */

void rs_trials_put_state(double *row, const rs_trials_measured *measured, int64_t n)
{
    double pairs = (double)(n - 1);
    row[RS_TRIALS_SQUARE] = measured->square;
    row[RS_TRIALS_SUM] = measured->sum;
    row[RS_TRIALS_RESIDUAL] = measured->residual;
    if (!(measured->square > 0)) return;
    row[RS_TRIALS_RELATIVE] = sqrt(measured->residual / measured->square);
    if (n < 2) return;
    row[RS_TRIALS_APART] = (double)n * (measured->residual / measured->square) / pairs;
    row[RS_TRIALS_COSINE_APART] = measured->apart / pairs;
    row[RS_TRIALS_COSINE] = 1 - measured->apart / pairs;
}

/* x [d, ld]: the sample, the same for every chain. */
static rs_status draw_input(double *x, const rs_trials_batch *batch, int32_t trial, rs_error *err)
{
    int64_t n = batch->n, d = batch->plan->d;
    double *states = rs_malloc((size_t)(n * d), sizeof *states);
    if (!states) return rs_fail_memory(err, "a sample", (size_t)(n * d) * sizeof *states);
    rs_status status =
        rs_trials_input(states, d, &batch->request->input, batch->context->seed, trial, err);
    for (int64_t c = 0; c < d && status == RS_OK; c++)
        for (int64_t i = 0; i < batch->ld; i++) {
            int64_t token = i < batch->np * batch->n_chains ? i % batch->np : n;
            x[c * batch->ld + i] = token < n ? states[token * d + c] : 0;
        }
    rs_free(states);
    return status;
}

rs_status rs_trials_batch_run(double *const *numbers, const rs_trials_batch *batch,
                              rs_trials_room *room, int32_t trial, rs_error *err)
{
    RS_TRY(draw_input(room->x, batch, trial, err));
    RS_TRY(rs_trials_forward(numbers, batch, room, trial, err));
    return rs_trials_back(numbers, batch, room, trial, err);
}
