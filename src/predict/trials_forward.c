/* trials_forward.c: batched trials on their way forward. */
#include "predict/trials_batch.h"

#include <math.h>
#include <string.h>

/* Where a trial is. */
typedef struct walk {
    const rs_trials_batch *batch;
    const rs_trials_room *room;
    const rs_trials_kernels *kernels;
    double *const *numbers;
    int32_t trial, layer, chains;
    int64_t lanes; /* of the chains that are still on their way */
} walk;

/* The numbers of a chain's deepest cell. */
static double *row_of(const walk *w, int32_t chain)
{
    return w->numbers[w->batch->chains[chain]] + (int64_t)w->layer * RS_TRIALS_QUANTITIES;
}

static void copy_rows(double *out, const double *in, int64_t rows, const walk *w)
{
    for (int64_t c = 0; c < rows; c++)
        memcpy(out + c * w->batch->ld, in + c * w->batch->ld, (size_t)w->lanes * sizeof *out);
}

static rs_trials_block block_of(double *x, int64_t rows, const rs_trials_batch *batch,
                                int64_t lanes)
{
    return (rs_trials_block){x, rows, batch->ld, lanes};
}

/* out = W in, of weights that are drawn here unless a layer before has drawn them. */
static void map(double *out, const walk *w, const rs_trials_map *of, const double *in)
{
    float *drawn = w->room->drawn + of->at;
    if (of->draws) rs_trials_draw_map(drawn, of, w->batch->context->seed, w->trial);
    w->kernels->widen(w->room->panel, drawn, of->out * of->in);
    w->kernels->product(&(rs_trials_product){.c = out,
                                             .ldc = w->batch->ld,
                                             .a = w->room->panel,
                                             .a_row = of->in,
                                             .a_term = 1,
                                             .b = in,
                                             .ldb = w->batch->ld,
                                             .m = of->out,
                                             .k = of->in,
                                             .lanes = w->lanes});
}

static void norm(double *x, double *inverse, const walk *w, const rs_trials_norm *of)
{
    rs_trials_block block = block_of(x, w->batch->plan->d, w->batch, w->lanes);
    w->kernels->norm(&block, inverse, of->centred, of->eps, of->gain);
}

/* ---- attention ---- */

static void hide(double *logits, const rs_trials_batch *batch, const rs_trials_branch *branch)
{
    int64_t n = batch->n;
    if (!branch->causal && branch->window <= 0) return;
    for (int64_t j = 0; j < n; j++) {
        rs_trials_span seen = rs_trials_queries(branch, n, j);
        double *row = logits + j * batch->np;
        for (int64_t i = 0; i < seen.first; i++)
            row[i] = -INFINITY;
        for (int64_t i = seen.end; i < n; i++)
            row[i] = -INFINITY;
    }
}

/* Mean over the rows that count. */
static double mean_of(const double *lanes, const rs_trials_batch *batch,
                      const rs_trials_branch *branch)
{
    double sum = 0;
    if (branch->causal || branch->window > 0) return lanes[batch->n - 1];
    for (int64_t i = 0; i < batch->n; i++)
        sum += lanes[i];
    return sum / (double)batch->n;
}

/* p = the softmax of one head of a chain; returns nothing of a head but its numbers. */
static void attend(double *p, double numbers[2], const walk *w, const rs_trials_branch *branch,
                   const rs_trials_dial *dial, const double *q, const double *k)
{
    const rs_trials_batch *batch = w->batch;
    int64_t n = batch->n, np = batch->np;
    rs_trials_block block = {p, n, np, np};
    double *lanes = w->room->lane;
    w->kernels->product(&(rs_trials_product){.c = p,
                                             .ldc = np,
                                             .a = k,
                                             .a_row = 1,
                                             .a_term = batch->ld,
                                             .b = q,
                                             .ldb = batch->ld,
                                             .m = n,
                                             .k = branch->head_dim,
                                             .lanes = np});
    for (int64_t i = 0; i < np; i++)
        lanes[i] = dial->logit;
    w->kernels->scale(p, &block, lanes);
    hide(p, batch, branch);
    w->kernels->variance(lanes, &block);
    numbers[1] = mean_of(lanes, batch, branch);
    w->kernels->softmax(&block, lanes);
    numbers[0] = mean_of(lanes, batch, branch);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = n; i < np; i++)
            p[j * np + i] = 0;
}

/* Without a softmax its matrix is the same for every head. */
static double concentration(const double *m, const walk *w, const rs_trials_branch *branch)
{
    int64_t n = w->batch->n, np = w->batch->np;
    double *lanes = w->room->lane;
    for (int64_t i = 0; i < n; i++) {
        lanes[i] = 0;
        for (int64_t j = 0; j < n; j++)
            lanes[i] += m[j * np + i] * m[j * np + i];
    }
    return mean_of(lanes, w->batch, branch);
}

/* out [.., ld] += or = the head's matrix times its values. */
static void mix(double *out, const walk *w, const rs_trials_branch *branch, const double *m,
                const double *v, bool adds)
{
    w->kernels->product(&(rs_trials_product){.c = out,
                                             .ldc = w->batch->ld,
                                             .a = v,
                                             .a_row = w->batch->ld,
                                             .a_term = 1,
                                             .b = m,
                                             .ldb = w->batch->np,
                                             .m = branch->value_dim,
                                             .k = w->batch->n,
                                             .lanes = w->batch->np,
                                             .adds = adds});
}

static void attend_chain(double *out, const walk *w, const rs_trials_branch *branch, int32_t b,
                         int32_t chain)
{
    const rs_trials_batch *batch = w->batch;
    const rs_trials_dial *dial = &rs_trials_chain(batch, chain)->layers[w->layer].branches[b].dial;
    const double *record = w->room->record;
    int64_t first = chain * batch->np, group = branch->heads / branch->kv_heads;
    double sums[2] = {0, 0};
    for (int64_t h = 0; h < branch->heads; h++) {
        const double *q = record + branch->projected[0] + h * branch->head_dim * batch->ld + first;
        const double *k =
            record + branch->projected[1] + h / group * branch->head_dim * batch->ld + first;
        const double *v =
            record + branch->projected[2] + h / group * branch->value_dim * batch->ld + first;
        double *p = rs_trials_softmax(batch, w->room, branch, chain, h), numbers[2];
        attend(p, numbers, w, branch, dial, q, k);
        const double *m = rs_trials_mixing(w->room->square, batch, branch, dial, p);
        if (dial->softmax == 0) numbers[0] = concentration(m, w, branch);
        int64_t at = branch->merged ? 0 : h * branch->value_dim * batch->ld;
        mix(out + at + first, w, branch, m, v, branch->merged && h > 0);
        sums[0] += numbers[0];
        sums[1] += numbers[1];
    }
    if (dial->scale == 0) return; /* it is as if it did not run */
    double *row = row_of(w, chain), heads = (double)branch->heads;
    rs_trials_add(&row[RS_TRIALS_CONCENTRATION], sums[0] / heads);
    if (dial->softmax != 0) rs_trials_add(&row[RS_TRIALS_LOGIT], sums[1] / heads);
}

static void attention(double *out, const walk *w, const rs_trials_branch *branch, int32_t b)
{
    double *record = w->room->record, *in = record + branch->in;
    double *mixed = branch->merged ? out : record + branch->mixed;
    for (int i = 0; i < 3; i++)
        map(record + branch->projected[i], w, &branch->maps[i], in);
    for (int32_t chain = 0; chain < w->chains; chain++)
        attend_chain(mixed, w, branch, b, chain);
    if (!branch->merged) map(out, w, &branch->maps[RS_TRIALS_O], mixed);
}

/* ---- MLP ---- */

static void mlp(double *out, const walk *w, const rs_trials_branch *branch)
{
    double *record = w->room->record, *in = record + branch->in, *h = w->room->h;
    const rs_trials_map *up = &branch->maps[RS_TRIALS_W_UP],
                        *gate = &branch->maps[RS_TRIALS_W_GATE];
    double *u = record + branch->projected[0], *g = record + branch->projected[1];
    map(u, w, up, in);
    if (gate->out) map(g, w, gate, in);
    for (int64_t c = 0; c < up->out; c++) {
        int64_t at = c * w->batch->ld;
        w->kernels->activate(h + at, NULL, (gate->out ? g : u) + at, w->lanes, branch->activation);
        for (int64_t i = 0; gate->out && i < w->lanes; i++)
            h[at + i] *= u[at + i];
    }
    map(out, w, &branch->maps[RS_TRIALS_W_DOWN], h);
}

/* ---- layers ---- */

static void run_branch(const walk *w, int32_t b)
{
    const rs_trials_branch *branch = &w->batch->plan->layers[w->layer].branches[b];
    const rs_trials_room *room = w->room;
    int64_t d = w->batch->plan->d;
    double *record = room->record;
    copy_rows(record + branch->in, room->x, d, w);
    if (branch->before.on)
        norm(record + branch->in, record + branch->before_inverse, w, &branch->before);
    if (branch->mlp)
        mlp(room->y, w, branch);
    else
        attention(room->y, w, branch, b);
    if (branch->inside.on) {
        norm(room->y, record + branch->inside_inverse, w, &branch->inside);
        copy_rows(record + branch->inside_out, room->y, d, w);
    }
    for (int32_t c = 0; c < w->chains; c++)
        rs_trials_set_dials(room->skip + c * w->batch->np, room->scale + c * w->batch->np,
                            rs_trials_chain(w->batch, c), w->layer, b, w->batch->np);
    rs_trials_block state = block_of(room->x, d, w->batch, w->lanes);
    w->kernels->combine(&state, room->y, room->skip, room->scale);
    if (!branch->after.on) return;
    norm(room->x, record + branch->after_inverse, w, &branch->after);
    copy_rows(record + branch->after_out, room->x, d, w);
}

/* The states of the chains. */
static void measure(const walk *w)
{
    const rs_trials_batch *batch = w->batch;
    for (int32_t chain = 0; chain < w->chains; chain++) {
        rs_trials_measured measured;
        rs_trials_block block =
            block_of(w->room->x + chain * batch->np, batch->plan->d, batch, batch->np);
        w->kernels->measure(&measured, &block, batch->n);
        rs_trials_put_state(row_of(w, chain), &measured, batch->n);
    }
}

/* Keeps the last states of cells that end here, where the loss reads a norm of them. */
static void leave(const walk *w)
{
    const rs_trials_batch *batch = w->batch;
    if (!rs_trials_normed(batch)) return;
    for (int32_t f = 0; f < batch->n_fans; f++) {
        const rs_trials_fan *fan = &batch->fans[f];
        for (int32_t i = 0; i < fan->count; i++) {
            int32_t chain = fan->chain + (fan->shared ? 0 : i);
            double *to = rs_trials_fan_of(batch, w->room, f) + i * batch->np;
            const double *from = w->room->x + chain * batch->np;
            if (batch->cells[fan->first + i]->n_layers != w->layer) continue;
            for (int64_t c = 0; c < batch->plan->d; c++)
                memcpy(to + c * batch->ld_back, from + c * batch->ld,
                       (size_t)batch->np * sizeof *to);
        }
    }
}

/* What a chain's deepest cell has found is the others' too; of their last row the states. */
static void hand_on(const walk *w, const rs_trials_fan *fan)
{
    for (int32_t i = 0; i < fan->count; i++) {
        int32_t cell = fan->first + i, deepest = w->batch->chains[fan->chain];
        size_t rows = (size_t)w->batch->cells[cell]->n_layers * RS_TRIALS_QUANTITIES;
        double *to = w->numbers[cell], *from = w->numbers[deepest];
        if (!fan->shared || cell == deepest) continue;
        memcpy(to, from, rows * sizeof *to);
        for (int q = RS_TRIALS_SQUARE; q <= RS_TRIALS_COSINE_APART; q++)
            to[rows + (size_t)q] = from[rows + (size_t)q];
    }
}

/* Chains of more than so many layers. */
static int32_t chains_beyond(const rs_trials_batch *batch, int32_t layers)
{
    int32_t chains = 0;
    while (chains < batch->n_chains && rs_trials_chain(batch, chains)->n_layers > layers)
        chains++;
    return chains;
}

rs_status rs_trials_forward(double *const *numbers, const rs_trials_batch *batch,
                            const rs_trials_room *room, int32_t trial, rs_error *err)
{
    walk w = {.batch = batch,
              .room = room,
              .kernels = batch->kernels,
              .numbers = numbers,
              .trial = trial,
              .chains = batch->n_chains};
    for (;; w.layer++) {
        RS_TRY(rs_check_cancelled(batch->context, err));
        measure(&w); /* those that end here too */
        leave(&w);
        if (w.layer == batch->plan->n_layers) break;
        w.chains = chains_beyond(batch, w.layer);
        w.lanes = w.chains * batch->np;
        for (int32_t b = 0; b < batch->plan->layers[w.layer].n_branches; b++)
            run_branch(&w, b);
    }
    for (int32_t f = 0; f < batch->n_fans; f++)
        hand_on(&w, &batch->fans[f]);
    return RS_OK;
}
