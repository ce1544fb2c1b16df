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
    int32_t trial, layer, cells;
    int64_t lanes; /* of the cells that are still on their way */
} walk;

static double *row_of(const walk *w, int32_t cell)
{
    return w->numbers[cell] + (int64_t)w->layer * RS_TRIALS_QUANTITIES;
}

static void copy_rows(double *out, const double *in, int64_t rows, const walk *w)
{
    for (int64_t c = 0; c < rows; c++)
        memcpy(out + c * w->batch->ld, in + c * w->batch->ld, (size_t)w->lanes * sizeof *out);
}

/* out = W in, of weights that are drawn here unless a layer before has drawn them. */
static void map(double *out, const walk *w, const rs_trials_map *of, const double *in)
{
    float *drawn = w->room->drawn + of->at;
    if (of->draws) rs_trials_draw_map(drawn, of, w->batch->seed, w->trial);
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
    rs_trials_block block = rs_trials_block_of(x, w->batch->plan->d, w->batch, w->lanes);
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

/* p = the softmax of one head of a cell; returns nothing of a head but its numbers. */
static void attend(double *p, double numbers[2], const walk *w, const rs_trials_branch *branch,
                   const rs_trials_dial *dial, const double *q, const double *k)
{
    const rs_trials_batch *batch = w->batch;
    int64_t n = batch->n, np = batch->np;
    rs_trials_block block = {p, n, np, np};
    double *lanes = w->room->lane[0];
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
    w->kernels->scale(&block, lanes);
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
    double *lanes = w->room->lane[0];
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

static void attend_cell(double *out, const walk *w, const rs_trials_branch *branch, int32_t b,
                        int32_t cell)
{
    const rs_trials_batch *batch = w->batch;
    const rs_trials_dial *dial = rs_trials_dial_of(batch, cell, w->layer, b);
    const double *record = w->room->record;
    int64_t first = cell * batch->np, group = branch->heads / branch->kv_heads;
    double sums[2] = {0, 0};
    for (int64_t h = 0; h < branch->heads; h++) {
        const double *q = record + branch->projected[0] + h * branch->head_dim * batch->ld + first;
        const double *k =
            record + branch->projected[1] + h / group * branch->head_dim * batch->ld + first;
        const double *v =
            record + branch->projected[2] + h / group * branch->value_dim * batch->ld + first;
        double *p = rs_trials_softmax(batch, w->room, branch, cell, h), numbers[2];
        attend(p, numbers, w, branch, dial, q, k);
        const double *m = rs_trials_mixing(w->room->square[0], batch, branch, dial, p);
        if (dial->softmax == 0) numbers[0] = concentration(m, w, branch);
        int64_t at = branch->merged ? 0 : h * branch->value_dim * batch->ld;
        mix(out + at + first, w, branch, m, v, branch->merged && h > 0);
        sums[0] += numbers[0];
        sums[1] += numbers[1];
    }
    if (dial->scale == 0) return; /* it is as if it did not run */
    double *row = row_of(w, cell), heads = (double)branch->heads;
    rs_trials_add(&row[RS_TRIALS_CONCENTRATION], sums[0] / heads);
    if (dial->softmax != 0) rs_trials_add(&row[RS_TRIALS_LOGIT], sums[1] / heads);
}

static void attention(double *out, const walk *w, const rs_trials_branch *branch, int32_t b)
{
    double *record = w->room->record, *in = record + branch->in;
    double *mixed = branch->merged ? out : record + branch->mixed;
    for (int i = 0; i < 3; i++)
        map(record + branch->projected[i], w, &branch->maps[i], in);
    for (int32_t cell = 0; cell < w->cells; cell++)
        attend_cell(mixed, w, branch, b, cell);
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
    rs_trials_set_dials(w->batch, room, w->layer, b, w->cells);
    rs_trials_block state = rs_trials_block_of(room->x, d, w->batch, w->lanes);
    w->kernels->combine(&state, room->y, room->skip, room->scale);
    if (!branch->after.on) return;
    norm(room->x, record + branch->after_inverse, w, &branch->after);
    copy_rows(record + branch->after_out, room->x, d, w);
}

/* Of cells first .. end-1. */
static void measure(const walk *w, int32_t first, int32_t end)
{
    const rs_trials_batch *batch = w->batch;
    for (int32_t cell = first; cell < end; cell++) {
        rs_trials_measured measured;
        rs_trials_block block =
            rs_trials_block_of(w->room->x + cell * batch->np, batch->plan->d, batch, batch->np);
        w->kernels->measure(&measured, &block, batch->n);
        rs_trials_put_state(row_of(w, cell), &measured, batch->n);
    }
}

void rs_trials_forward(double *const *numbers, const rs_trials_batch *batch,
                       const rs_trials_room *room, int32_t trial)
{
    walk w = {.batch = batch,
              .room = room,
              .kernels = batch->kernels,
              .numbers = numbers,
              .trial = trial,
              .cells = batch->n_cells};
    for (w.layer = 0; w.layer < batch->plan->n_layers; w.layer++) {
        int32_t going = rs_trials_active(batch, w.layer);
        measure(&w, 0, w.cells); /* those that end here too */
        w.cells = going;
        w.lanes = going * batch->np;
        for (int32_t b = 0; b < batch->plan->layers[w.layer].n_branches; b++)
            run_branch(&w, b);
    }
    measure(&w, 0, w.cells);
}
