/* trials_back.c: batched trials on their way back. */
#include "predict/trials_back.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

typedef rs_trials_walk walk;

static rs_trials_block block_of(double *x, int64_t rows, const walk *w)
{
    return (rs_trials_block){x, rows, w->batch->ld_back, w->lanes};
}

/* What the fan's states say, beside its derivatives. */
static rs_trials_beside beside(const walk *w, double *states)
{
    return (rs_trials_beside){rs_trials_lanes(w, states), w->batch->ld,
                              rs_trials_states(w) * w->batch->np};
}

/* x <- x y, y of states. */
static void times(double *x, const walk *w, int64_t rows, double *y)
{
    const rs_trials_block block = block_of(x, rows, w);
    const rs_trials_beside by = beside(w, y);
    w->kernels->times(&block, &by);
}

/* out (+)= Wᵀ d, W [given, read]. */
static void map_back(double *out, const walk *w, const double *map, int64_t given, int64_t read,
                     const double *d, bool adds)
{
    w->kernels->product(&(rs_trials_product){.c = out,
                                             .ldc = w->batch->ld_back,
                                             .a = map,
                                             .a_row = 1,
                                             .a_term = read,
                                             .b = d,
                                             .ldb = w->batch->ld_back,
                                             .m = read,
                                             .k = given,
                                             .lanes = w->lanes,
                                             .adds = adds});
}

static void norm_back(double *d, const walk *w, const rs_trials_norm *of, int64_t y,
                      int64_t inverse)
{
    double *record = w->room->record;
    const rs_trials_block block = block_of(d, w->batch->plan->d, w);
    const rs_trials_beside gave = beside(w, record + y);
    w->kernels->norm_back(&block, &gave, rs_trials_lanes(w, record + inverse), of->centred,
                          of->gain);
}

/* ---- attention ---- */

/* Of state `state` of the fan. */
static double *mixing_of(const walk *w, const rs_trials_branch *branch, int32_t state, int64_t head)
{
    return w->room->mixing + (state * branch->heads + head) * w->batch->n * w->batch->np;
}

static double *keys_of(const walk *w, const rs_trials_branch *branch, int32_t state, int64_t head)
{
    int64_t rows = branch->maps[RS_TRIALS_K].out;
    return w->room->keys + (state * rows + head * branch->head_dim) * w->batch->np;
}

/* Matrices of heads, turned, and keys about their mean. */
static void prepare_attention(const walk *w, const rs_trials_branch *branch, int32_t b)
{
    const rs_trials_batch *batch = w->batch;
    rs_trials_room *room = w->room;
    int64_t n = batch->n, np = batch->np;
    double *projected = rs_trials_lanes(w, room->record + branch->projected[RS_TRIALS_K]);
    for (int32_t s = 0; s < rs_trials_states(w); s++) {
        const rs_trials_dial *dial = &rs_trials_plan_of(w, s)->layers[w->layer].branches[b].dial;
        for (int64_t h = 0; h < branch->heads; h++) {
            const double *p = rs_trials_softmax(batch, room, branch, w->fan->chain + s, h);
            const double *m = rs_trials_mixing(room->square, batch, branch, dial, p);
            w->kernels->turn(mixing_of(w, branch, s, h), np, m, np, n, n);
        }
        for (int64_t g = 0; g < branch->kv_heads; g++) {
            double *k = projected + g * branch->head_dim * batch->ld + s * np;
            const rs_trials_block keys = {k, branch->head_dim, batch->ld, np};
            w->kernels->centre(keys_of(w, branch, s, g), np, room->means, &keys, n);
        }
    }
}

/* Cells of a fan that have the same states. */
typedef struct run {
    int32_t state, cells;
    int64_t first, lanes;
} run;

/* room->back[2]: by values. out: derivatives by what a head gave, at the fan's first lane. */
static void values_back(const walk *w, const rs_trials_branch *branch, const run *r, int64_t h,
                        const double *out)
{
    int64_t n = w->batch->n, np = w->batch->np, ld = w->batch->ld_back;
    int64_t group = branch->heads / branch->kv_heads;
    double *c = w->room->back[2] + h / group * branch->value_dim * ld;
    for (int64_t at = r->first; at < r->first + r->lanes; at += np)
        w->kernels->product(&(rs_trials_product){.c = c + at,
                                                 .ldc = ld,
                                                 .a = out + at,
                                                 .a_row = ld,
                                                 .a_term = 1,
                                                 .b = mixing_of(w, branch, r->state, h),
                                                 .ldb = np,
                                                 .m = branch->value_dim,
                                                 .k = n,
                                                 .lanes = np,
                                                 .adds = h % group != 0});
}

/* room->logits: derivatives by logits, queries side by side. */
static void logits_back(const walk *w, const rs_trials_branch *branch, const run *r, int32_t b,
                        int64_t h, const double *out)
{
    const rs_trials_batch *batch = w->batch;
    rs_trials_room *room = w->room;
    int64_t n = batch->n, np = batch->np, ld = batch->ld_back;
    int64_t at_v = h / (branch->heads / branch->kv_heads) * branch->value_dim * batch->ld;
    const double *v = room->record + branch->projected[RS_TRIALS_V] + at_v;
    const rs_trials_dial *dial =
        &rs_trials_plan_of(w, (int32_t)(r->first / np))->layers[w->layer].branches[b].dial;
    w->kernels->product(&(rs_trials_product){.c = room->logits + r->first,
                                             .ldc = ld,
                                             .a = v + (w->fan->chain + r->state) * np,
                                             .a_row = 1,
                                             .a_term = batch->ld,
                                             .b = out + r->first,
                                             .ldb = ld,
                                             .m = n,
                                             .k = branch->value_dim,
                                             .lanes = r->lanes});
    const rs_trials_block logits = {room->logits + r->first, n, ld, r->lanes};
    const rs_trials_beside p = {rs_trials_softmax(batch, room, branch, w->fan->chain + r->state, h),
                                np, np};
    w->kernels->softmax_back(&logits, &p, dial->logit * dial->softmax);
}

/* room->back[0], back[1]: by queries and keys. Each row of the logits' derivatives sums to 0, so that keys
 * count about their mean alone. */
static void queries_back(const walk *w, const rs_trials_branch *branch, const run *r, int64_t h)
{
    const rs_trials_batch *batch = w->batch;
    rs_trials_room *room = w->room;
    int64_t n = batch->n, np = batch->np, ld = batch->ld_back, rows = branch->head_dim;
    int64_t group = branch->heads / branch->kv_heads;
    const double *q = room->record + branch->projected[RS_TRIALS_Q] + h * rows * batch->ld;
    rs_trials_product by_queries = {.c = room->back[0] + h * rows * ld + r->first,
                                    .ldc = ld,
                                    .a = keys_of(w, branch, r->state, h / group),
                                    .a_row = np,
                                    .a_term = 1,
                                    .b = room->logits + r->first,
                                    .ldb = ld,
                                    .m = rows,
                                    .k = n,
                                    .lanes = r->lanes};
    w->kernels->product(&by_queries);
    for (int64_t at = r->first; at < r->first + r->lanes; at += np)
        w->kernels->turn(room->turned + at, ld, room->logits + at, ld, n, n);
    rs_trials_product by_keys = by_queries;
    by_keys.c = room->back[1] + h / group * rows * ld + r->first;
    by_keys.a = q + (w->fan->chain + r->state) * np;
    by_keys.a_row = batch->ld;
    by_keys.b = room->turned + r->first;
    by_keys.adds = h % group != 0;
    w->kernels->product(&by_keys);
}

static void heads_back(const walk *w, const rs_trials_branch *branch, const run *r, int32_t b,
                       const double *heads)
{
    for (int64_t h = 0; h < branch->heads; h++) {
        const double *out =
            heads + (branch->merged ? 0 : h * branch->value_dim * w->batch->ld_back);
        values_back(w, branch, r, h, out);
        logits_back(w, branch, r, b, h, out);
        queries_back(w, branch, r, h);
    }
}

/* room->added: derivatives by what the branch gave; room->back_in: by what it read. */
static void attention_back(const walk *w, const rs_trials_branch *branch, int32_t b)
{
    const rs_trials_map *const maps[] = {&branch->maps[0], &branch->maps[1], &branch->maps[2]};
    const rs_trials_map *const output[] = {&branch->maps[RS_TRIALS_O]};
    static const rs_trials_quantity of_maps[] = {RS_TRIALS_QUERY, RS_TRIALS_KEY, RS_TRIALS_VALUE};
    static const rs_trials_quantity of_output[] = {RS_TRIALS_OUTPUT};
    rs_trials_room *room = w->room;
    int32_t states = rs_trials_states(w);
    double *heads = room->added;
    if (!branch->merged) {
        rs_trials_squares(w, 1, output, of_output, room->inner, room->record + branch->mixed,
                          &room->added);
        heads = room->heads;
        map_back(heads, w, w->maps[RS_TRIALS_O], output[0]->out, output[0]->in, room->added, false);
    }
    for (int32_t s = 0; s < states; s++) {
        int32_t cells = w->fan->shared ? w->cells : 1;
        const run r = {s, cells, s * w->batch->np, cells * w->batch->np};
        heads_back(w, branch, &r, b, heads);
    }
    rs_trials_squares(w, 3, maps, of_maps, room->read, room->record + branch->in, room->back);
    for (int i = 0; i < 3; i++)
        map_back(room->back_in, w, w->maps[i], maps[i]->out, maps[i]->in, room->back[i], i > 0);
}

/* ---- MLP ---- */

/* Hidden units of which some token's slope is not 0, in order; returns how many. */
static int64_t find_on(int32_t *on, const double *slope, int64_t rows, int64_t ld, int64_t lanes)
{
    int64_t count = 0;
    for (int64_t c = 0; c < rows; c++) {
        bool any = false;
        for (int64_t i = 0; i < lanes; i++)
            any |= slope[c * ld + i] != 0;
        on[count] = (int32_t)c;
        count += any;
    }
    return count;
}

/* A ReLU's unit that is off for all tokens, as half of them are where tokens are alike, gives nothing
 * back: sums are the same without it. What belongs to the others moves together, and so do slopes. */
static void pick_hidden(walk *w, const rs_trials_branch *branch)
{
    rs_trials_room *room = w->room;
    const rs_trials_map *up = &branch->maps[RS_TRIALS_W_UP],
                        *down = &branch->maps[RS_TRIALS_W_DOWN];
    int64_t ld = w->batch->ld, lanes = rs_trials_states(w) * w->batch->np;
    double *slope = rs_trials_lanes(w, room->slope);
    int32_t *on = (int32_t *)(void *)room->across;
    int64_t count = find_on(on, slope, up->out, ld, lanes);
    if (8 * count > 7 * up->out) return;
    double *rows = room->picked, *columns = room->picked + count * up->in;
    for (int64_t r = 0; r < count; r++) {
        memcpy(rows + r * up->in, w->up + on[r] * up->in, (size_t)up->in * sizeof *rows);
        memmove(slope + r * ld, slope + on[r] * ld, (size_t)lanes * sizeof *slope);
    }
    for (int64_t o = 0; o < down->out; o++)
        for (int64_t r = 0; r < count; r++)
            columns[o * count + r] = w->down[o * down->in + on[r]];
    w->up = rows;
    w->down = columns;
    w->width = count;
}

/* room->slope: φ'; active: of a gate, φ; h: what `down` reads. */
static void prepare_mlp(walk *w, const rs_trials_branch *branch)
{
    rs_trials_room *room = w->room;
    int64_t width = branch->maps[RS_TRIALS_W_UP].out, ld = w->batch->ld;
    int64_t lanes = rs_trials_states(w) * w->batch->np;
    bool gated = branch->maps[RS_TRIALS_W_GATE].out > 0;
    double *u = rs_trials_lanes(w, room->record + branch->projected[RS_TRIALS_W_UP]);
    double *g = rs_trials_lanes(w, room->record + branch->projected[RS_TRIALS_W_GATE]);
    double *h = rs_trials_lanes(w, room->h), *slope = rs_trials_lanes(w, room->slope);
    double *active = rs_trials_lanes(w, room->active);
    for (int64_t at = 0; at < width * ld; at += ld) {
        w->kernels->activate(h + at, slope + at, (gated ? g : u) + at, lanes, branch->activation);
        if (gated) memcpy(active + at, h + at, (size_t)lanes * sizeof *h);
    }
    w->up = w->maps[RS_TRIALS_W_UP];
    w->down = w->maps[RS_TRIALS_W_DOWN];
    w->width = width;
    if (!gated && w->fan->shared && w->batch->request->ends) pick_hidden(w, branch);
    if (!gated) return;
    const rs_trials_block block = {h, width, ld, lanes};
    const rs_trials_beside up = {u, ld, lanes};
    w->kernels->times(&block, &up);
}

static void mlp_back(const walk *w, const rs_trials_branch *branch)
{
    const rs_trials_map *const maps[] = {&branch->maps[RS_TRIALS_W_UP],
                                         &branch->maps[RS_TRIALS_W_GATE]};
    const rs_trials_map *const down[] = {&branch->maps[RS_TRIALS_W_DOWN]};
    static const rs_trials_quantity of_maps[] = {RS_TRIALS_UP, RS_TRIALS_GATE};
    static const rs_trials_quantity of_down[] = {RS_TRIALS_DOWN};
    rs_trials_room *room = w->room;
    int64_t width = w->width, d = maps[0]->in;
    bool gated = maps[1]->out > 0;
    rs_trials_squares(w, 1, down, of_down, room->inner, room->h, &room->added);
    map_back(room->back[0], w, w->down, down[0]->out, width, room->added, false);
    if (gated) {
        size_t bytes = (size_t)(width * w->batch->ld_back) * sizeof(double);
        memcpy(room->back[1], room->back[0], bytes);
        times(room->back[1], w, width, room->record + branch->projected[RS_TRIALS_W_UP]);
        times(room->back[1], w, width, room->slope);
        times(room->back[0], w, width, room->active);
    } else {
        times(room->back[0], w, width, room->slope);
    }
    rs_trials_squares(w, gated ? 2 : 1, maps, of_maps, room->read, room->record + branch->in,
                      room->back);
    map_back(room->back_in, w, w->up, width, d, room->back[0], false);
    if (gated) map_back(room->back_in, w, w->maps[RS_TRIALS_W_GATE], width, d, room->back[1], true);
}

/* ---- layers ---- */

/* What the states of the fan's chains say of a branch. */
static void prepare(walk *w, const rs_trials_branch *branch, int32_t b)
{
    rs_trials_forget(w->room->read);
    rs_trials_forget(w->room->inner);
    if (branch->mlp)
        prepare_mlp(w, branch);
    else
        prepare_attention(w, branch, b);
}

static void set_dials(const walk *w, int32_t b)
{
    int64_t np = w->batch->np;
    for (int32_t c = 0; c < w->cells; c++)
        rs_trials_set_dials(w->room->skip + c * np, w->room->scale + c * np,
                            rs_trials_plan_of(w, c), w->layer, b, np);
}

/* The fan's x: derivatives by the state behind the branch, then by that in front of it. */
static void branch_back(walk *w, const rs_trials_branch *branch, int32_t b)
{
    rs_trials_room *room = w->room;
    const rs_trials_block state = block_of(w->x, w->batch->plan->d, w);
    if (w->fan->opens) prepare(w, branch, b);
    if (branch->after.on)
        norm_back(w->x, w, &branch->after, branch->after_out, branch->after_inverse);
    set_dials(w, b);
    w->kernels->scale(room->added, &state, room->scale);
    if (branch->inside.on)
        norm_back(room->added, w, &branch->inside, branch->inside_out, branch->inside_inverse);
    if (branch->mlp)
        mlp_back(w, branch);
    else
        attention_back(w, branch, b);
    if (branch->before.on)
        norm_back(room->back_in, w, &branch->before, branch->in, branch->before_inverse);
    for (int64_t i = 0; i < w->lanes; i++)
        room->scale[i] = 1;
    w->kernels->combine(&state, room->back_in, room->skip, room->scale);
}

/* Turns to a fan, and its cells of more than so many layers; false: it has none. */
static bool turn_to(walk *w, int32_t fan, int32_t layers)
{
    w->fan = &w->batch->fans[fan];
    w->x = rs_trials_fan_of(w->batch, w->room, fan);
    w->cells = 0;
    while (w->cells < w->fan->count && rs_trials_plan_of(w, w->cells)->n_layers > layers)
        w->cells++;
    w->lanes = w->cells * w->batch->np;
    return w->cells > 0;
}

/* The fan's x = derivatives by the last states. */
static void start(const walk *w, int32_t trial)
{
    const rs_trials_batch *batch = w->batch;
    const rs_trials_norm *last = &batch->plan->final_norm;
    int64_t n = batch->n, d = batch->plan->d, ld = batch->ld_back;
    uint64_t seed = rs_trials_seed(batch->context->seed, trial);
    double *states = w->room->added, *inverse = w->room->skip;
    const rs_trials_block x = block_of(w->x, d, w), block = block_of(states, d, w);
    bool normed = rs_trials_normed(batch);
    if (normed) {
        memcpy(states, w->x, (size_t)(d * ld) * sizeof *states);
        w->kernels->norm(&block, inverse, last->centred, last->eps, last->gain);
    }
    memset(w->x, 0, (size_t)(d * ld) * sizeof *w->x);
    for (int64_t i = 0; i < n; i++) {
        /* as RS_LOSS_RANDOM draws it */
        rs_random random = rs_random_new(seed, (uint64_t)i);
        rs_random_normals(&random, w->room->means, (size_t)d);
        for (int64_t c = 0; c < d; c++)
            for (int64_t k = i; k < w->lanes; k += batch->np)
                w->x[c * ld + k] = w->room->means[c];
    }
    const rs_trials_beside gave = {states, ld, w->lanes};
    if (normed) w->kernels->norm_back(&x, &gave, inverse, last->centred, last->gain);
}

static void measure(const walk *w)
{
    for (int32_t cell = 0; cell < w->cells; cell++) {
        const rs_trials_block block = {w->x + cell * w->batch->np, w->batch->plan->d,
                                       w->batch->ld_back, w->batch->np};
        *rs_trials_number_of(w, cell, RS_TRIALS_STATE) = w->kernels->square(&block);
    }
}

void rs_trials_put_ratios(double *row)
{
    double value = row[RS_TRIALS_VALUE];
    if (!(value > 0)) return;
    row[RS_TRIALS_QUERY_VALUE] = row[RS_TRIALS_QUERY] / value;
    row[RS_TRIALS_KEY_VALUE] = row[RS_TRIALS_KEY] / value;
}

/* The branch's maps in doubles, for all fans. */
static void load(walk *w, const rs_trials_branch *branch)
{
    double *at = w->room->panel;
    for (int i = 0; i < RS_TRIALS_MAPS; i++) {
        int64_t count = branch->maps[i].out * branch->maps[i].in;
        w->maps[i] = at;
        if (count) w->kernels->widen(at, w->room->drawn + branch->maps[i].at, count);
        at += (count + 15) / 16 * 16; /* as rs_trials_plan counts them */
    }
}

static void layer_back(walk *w)
{
    const rs_trials_layer *layer = &w->batch->plan->layers[w->layer];
    for (int32_t b = layer->n_branches - 1; b >= 0; b--) {
        load(w, &layer->branches[b]);
        for (int32_t f = 0; f < w->batch->n_fans; f++)
            if (turn_to(w, f, w->layer)) branch_back(w, &layer->branches[b], b);
    }
    for (int32_t f = 0; f < w->batch->n_fans; f++) {
        turn_to(w, f, w->layer);
        for (int32_t cell = 0; cell < w->cells; cell++)
            rs_trials_put_ratios(rs_trials_number_of(w, cell, 0));
    }
}

rs_status rs_trials_back(double *const *numbers, const rs_trials_batch *batch, rs_trials_room *room,
                         int32_t trial, rs_error *err)
{
    walk w = {.batch = batch,
              .room = room,
              .kernels = batch->kernels,
              .numbers = numbers,
              .layer = batch->plan->n_layers};
    for (int32_t f = 0; f < batch->n_fans; f++)
        if (turn_to(&w, f, -1)) start(&w, trial);
    for (;; w.layer--) {
        RS_TRY(rs_check_cancelled(batch->context, err));
        for (int32_t f = 0; f < batch->n_fans; f++)
            /* the cells whose last state, or an earlier one, this is */
            if (turn_to(&w, f, w.layer - 1)) measure(&w);
        if (w.layer == 0) return RS_OK;
        w.layer--;
        layer_back(&w);
        w.layer++;
    }
}
