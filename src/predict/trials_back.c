/* trials_back.c: batched trials on their way back, and squares of gradients. */
#include "predict/trials_batch.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

typedef struct walk {
    const rs_trials_batch *batch;
    rs_trials_room *room;
    const rs_trials_kernels *kernels;
    double *const *numbers;
    int32_t layer, cells;
    int64_t lanes;
} walk;

static double *number_of(const walk *w, int32_t cell, rs_trials_quantity quantity)
{
    return w->numbers[cell] + (int64_t)w->layer * RS_TRIALS_QUANTITIES + quantity;
}

/* out (+)= Wᵀ d. */
static void map_back(double *out, const walk *w, const rs_trials_map *of, const double *d,
                     bool adds)
{
    w->kernels->widen(w->room->panel, w->room->drawn + of->at, of->out * of->in);
    w->kernels->product(&(rs_trials_product){.c = out,
                                             .ldc = w->batch->ld,
                                             .a = w->room->panel,
                                             .a_row = 1,
                                             .a_term = of->in,
                                             .b = d,
                                             .ldb = w->batch->ld,
                                             .m = of->in,
                                             .k = of->out,
                                             .lanes = w->lanes,
                                             .adds = adds});
}

static void norm_back(double *d, const walk *w, const rs_trials_norm *of, const double *y,
                      const double *inverse)
{
    rs_trials_block block = rs_trials_block_of(d, w->batch->plan->d, w->batch, w->lanes);
    w->kernels->norm_back(&block, y, inverse, of->centred, of->gain);
}

/* ---- squares of gradients: ‖Xᵀ D‖² ----
 *
 * With tokens about their means, X = 1x̄ᵀ + E and D = 1d̄ᵀ + F:
 *     n² |x̄|² |d̄|² + 2 n Σ_i (x̄·e_i)(d̄·f_i) + <E Eᵀ, F Fᵀ>,
 * n by n matrices in place of in by out; about the means, for squares of nearly equal tokens, or of
 * derivatives that sum to 0, would be differences of large numbers. */

/* Fills Gram matrix `which` of one cell's x [rows, ld]. */
static void fill_gram(const walk *w, int which, double *x, int64_t rows)
{
    int64_t n = w->batch->n, np = w->batch->np;
    rs_trials_room *room = w->room;
    rs_trials_block block = rs_trials_block_of(x, rows, w->batch, np);
    rs_trials_product product = {.b = room->centred, .ldb = np, .k = rows, .lanes = np};
    w->kernels->centre(room->centred, np, room->means, &block, n);
    product.c = room->gram[which];
    product.ldc = np;
    product.a = room->centred;
    product.a_row = 1;
    product.a_term = np;
    product.m = n;
    w->kernels->product(&product);
    product.c = room->lean[which];
    product.a = room->means;
    product.a_term = 1;
    product.m = 1;
    w->kernels->product(&product);
    room->mean_square[which] = 0;
    for (int64_t c = 0; c < rows; c++)
        room->mean_square[which] += room->means[c] * room->means[c];
}

/* The square by both Gram matrices. */
static double square_of_grams(const walk *w)
{
    const rs_trials_room *room = w->room;
    int64_t np = w->batch->np;
    double n = (double)w->batch->n, along = 0;
    rs_trials_block first = {room->gram[0], w->batch->n, np, np};
    for (int64_t i = 0; i < w->batch->n; i++)
        along += room->lean[0][i] * room->lean[1][i];
    double sum = n * n * room->mean_square[0] * room->mean_square[1] + 2 * n * along +
                 w->kernels->inner(&first, room->gram[1]);
    return sum < 0 ? 0 : sum; /* rounding; a NaN stays */
}

/* The square of the matrix itself, a few rows at a time: for more tokens than inputs. */
static double square_of_rows(const walk *w, const rs_trials_map *of, const double *x,
                             const double *d)
{
    int64_t ld = w->batch->ld, n = w->batch->n;
    int64_t wide = (of->out + RS_TRIALS_PAD - 1) / RS_TRIALS_PAD * RS_TRIALS_PAD;
    double *across = w->room->across, sum = 0;
    w->kernels->turn(across, wide, d, ld, of->out, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t o = of->out; o < wide; o++)
            across[i * wide + o] = 0;
    for (int64_t i = 0; i < of->in; i += RS_TRIALS_PAD) {
        int64_t rows = of->in - i < RS_TRIALS_PAD ? of->in - i : RS_TRIALS_PAD;
        w->kernels->product(&(rs_trials_product){.c = w->room->product,
                                                 .ldc = wide,
                                                 .a = x + i * ld,
                                                 .a_row = ld,
                                                 .a_term = 1,
                                                 .b = across,
                                                 .ldb = wide,
                                                 .m = rows,
                                                 .k = n,
                                                 .lanes = wide});
        rs_trials_block block = {w->room->product, rows, wide, wide};
        sum += w->kernels->square(&block);
    }
    return sum;
}

/* Adds the squares of gradients of `count` maps that read x [.., ld], by derivatives d of what they gave. */
static void add_squares(const walk *w, int count, const rs_trials_map *const *maps,
                        const rs_trials_quantity *quantities, double *x, double *const *d)
{
    for (int32_t cell = 0; cell < w->cells; cell++) {
        int64_t first = cell * w->batch->np;
        bool grams = w->batch->n < maps[0]->in;
        if (grams) fill_gram(w, 0, x + first, maps[0]->in);
        for (int i = 0; i < count; i++) {
            double square;
            if (grams) {
                fill_gram(w, 1, d[i] + first, maps[i]->out);
                square = square_of_grams(w);
            } else {
                square = square_of_rows(w, maps[i], x + first, d[i] + first);
            }
            rs_trials_add(number_of(w, cell, quantities[i]), square);
        }
    }
}

/* ---- attention ---- */

/* One head of a cell: first is where its lanes begin; out: derivatives by what heads gave. */
static void head_back(const walk *w, const rs_trials_branch *branch, const rs_trials_dial *dial,
                      int32_t cell, int64_t h, const double *out)
{
    const rs_trials_batch *batch = w->batch;
    rs_trials_room *room = w->room;
    int64_t n = batch->n, np = batch->np, ld = batch->ld, first = cell * np;
    int64_t group = branch->heads / branch->kv_heads, g = h / group;
    int64_t at_q = h * branch->head_dim * ld + first, at_k = g * branch->head_dim * ld + first;
    int64_t at_v = g * branch->value_dim * ld + first;
    const double *q = room->record + branch->projected[0] + at_q;
    double *k = room->record + branch->projected[1] + at_k;
    const double *v = room->record + branch->projected[2] + at_v;
    const double *p = rs_trials_softmax(batch, room, branch, cell, h);
    double *d = room->square[1];
    bool adds = h % group != 0;
    const double *m = rs_trials_mixing(room->square[0], batch, branch, dial, p);
    w->kernels->turn(room->turned[0], np, m, np, n, n);
    rs_trials_product by_values = {.c = room->back[2] + at_v, .ldc = ld, .a = out, .a_row = ld};
    by_values.a_term = 1;
    by_values.b = room->turned[0];
    by_values.ldb = np;
    by_values.m = branch->value_dim;
    by_values.k = n;
    by_values.lanes = np;
    by_values.adds = adds;
    w->kernels->product(&by_values);
    w->kernels->product(&(rs_trials_product){.c = d,
                                             .ldc = np,
                                             .a = v,
                                             .a_row = 1,
                                             .a_term = ld,
                                             .b = out,
                                             .ldb = ld,
                                             .m = n,
                                             .k = branch->value_dim,
                                             .lanes = np});
    rs_trials_block logits = {d, n, np, np},
                    keys = rs_trials_block_of(k, branch->head_dim, batch, np);
    w->kernels->softmax_back(&logits, p, dial->logit * dial->softmax);
    /* each row of d sums to 0, so that keys count about their mean alone */
    w->kernels->centre(room->centred, np, room->means, &keys, n);
    w->kernels->product(&(rs_trials_product){.c = room->back[0] + at_q,
                                             .ldc = ld,
                                             .a = room->centred,
                                             .a_row = np,
                                             .a_term = 1,
                                             .b = d,
                                             .ldb = np,
                                             .m = branch->head_dim,
                                             .k = n,
                                             .lanes = np});
    w->kernels->turn(room->turned[1], np, d, np, n, n);
    w->kernels->product(&(rs_trials_product){.c = room->back[1] + at_k,
                                             .ldc = ld,
                                             .a = q,
                                             .a_row = ld,
                                             .a_term = 1,
                                             .b = room->turned[1],
                                             .ldb = np,
                                             .m = branch->head_dim,
                                             .k = n,
                                             .lanes = np,
                                             .adds = adds});
}

/* room->y: derivatives by what the branch gave; room->back_in: by what it read. */
static void attention_back(const walk *w, const rs_trials_branch *branch, int32_t b)
{
    const rs_trials_map *const maps[] = {&branch->maps[0], &branch->maps[1], &branch->maps[2]};
    const rs_trials_map *const output[] = {&branch->maps[RS_TRIALS_O]};
    static const rs_trials_quantity of_maps[] = {RS_TRIALS_QUERY, RS_TRIALS_KEY, RS_TRIALS_VALUE};
    static const rs_trials_quantity of_output[] = {RS_TRIALS_OUTPUT};
    rs_trials_room *room = w->room;
    double *heads = room->y;
    if (!branch->merged) {
        add_squares(w, 1, output, of_output, room->record + branch->mixed, &room->y);
        heads = room->h;
        map_back(heads, w, output[0], room->y, false);
    }
    for (int32_t cell = 0; cell < w->cells; cell++)
        for (int64_t h = 0; h < branch->heads; h++) {
            int64_t at = branch->merged ? 0 : h * branch->value_dim * w->batch->ld;
            head_back(w, branch, rs_trials_dial_of(w->batch, cell, w->layer, b), cell, h,
                      heads + at + cell * w->batch->np);
        }
    add_squares(w, 3, maps, of_maps, room->record + branch->in, room->back);
    for (int i = 0; i < 3; i++)
        map_back(room->back_in, w, maps[i], room->back[i], i > 0);
}

/* ---- MLP ---- */

/* x <- x y, over the lanes that are on their way. */
static void times(double *x, const double *y, const walk *w, int64_t rows)
{
    for (int64_t c = 0; c < rows; c++)
        for (int64_t i = c * w->batch->ld; i < c * w->batch->ld + w->lanes; i++)
            x[i] *= y[i];
}

static void activate(double *h, double *d, const double *u, const walk *w,
                     const rs_trials_branch *branch)
{
    int64_t ld = w->batch->ld;
    for (int64_t c = 0; c < branch->maps[RS_TRIALS_W_UP].out; c++)
        w->kernels->activate(h ? h + c * ld : NULL, d ? d + c * ld : NULL, u + c * ld, w->lanes,
                             branch->activation);
}

static void mlp_back(const walk *w, const rs_trials_branch *branch)
{
    const rs_trials_map *const maps[] = {&branch->maps[RS_TRIALS_W_UP],
                                         &branch->maps[RS_TRIALS_W_GATE]};
    const rs_trials_map *const down[] = {&branch->maps[RS_TRIALS_W_DOWN]};
    static const rs_trials_quantity of_maps[] = {RS_TRIALS_UP, RS_TRIALS_GATE};
    static const rs_trials_quantity of_down[] = {RS_TRIALS_DOWN};
    rs_trials_room *room = w->room;
    int64_t width = maps[0]->out, ld = w->batch->ld;
    bool gated = maps[1]->out > 0;
    double *u = room->record + branch->projected[0], *g = room->record + branch->projected[1];
    double *active = room->back[2];
    activate(gated ? active : room->h, NULL, gated ? g : u, w, branch);
    if (gated) {
        memcpy(room->h, active, (size_t)(width * ld) * sizeof *active);
        times(room->h, u, w, width);
    }
    add_squares(w, 1, down, of_down, room->h, &room->y);
    map_back(room->back[0], w, down[0], room->y, false);
    if (gated) {
        memcpy(room->back[1], room->back[0], (size_t)(width * ld) * sizeof *active);
        times(room->back[1], u, w, width);
        activate(NULL, room->back[1], g, w, branch);
        times(room->back[0], active, w, width);
    } else {
        activate(NULL, room->back[0], u, w, branch);
    }
    add_squares(w, gated ? 2 : 1, maps, of_maps, room->record + branch->in, room->back);
    for (int i = 0; i < (gated ? 2 : 1); i++)
        map_back(room->back_in, w, maps[i], room->back[i], i > 0);
}

/* ---- layers ---- */

/* room->x: derivatives by the state behind the branch, then by that in front of it. */
static void branch_back(const walk *w, int32_t b)
{
    const rs_trials_branch *branch = &w->batch->plan->layers[w->layer].branches[b];
    rs_trials_room *room = w->room;
    double *record = room->record;
    int64_t d = w->batch->plan->d, ld = w->batch->ld;
    if (branch->after.on)
        norm_back(room->x, w, &branch->after, record + branch->after_out,
                  record + branch->after_inverse);
    rs_trials_set_dials(w->batch, room, w->layer, b, w->cells);
    rs_trials_block state = rs_trials_block_of(room->x, d, w->batch, w->lanes);
    rs_trials_block added = rs_trials_block_of(room->y, d, w->batch, w->lanes);
    memcpy(room->y, room->x, (size_t)(d * ld) * sizeof *room->y);
    w->kernels->scale(&added, room->scale);
    if (branch->inside.on)
        norm_back(room->y, w, &branch->inside, record + branch->inside_out,
                  record + branch->inside_inverse);
    if (branch->mlp)
        mlp_back(w, branch);
    else
        attention_back(w, branch, b);
    if (branch->before.on)
        norm_back(room->back_in, w, &branch->before, record + branch->in,
                  record + branch->before_inverse);
    for (int64_t i = 0; i < ld; i++)
        room->scale[i] = 1;
    w->kernels->combine(&state, room->back_in, room->skip, room->scale);
}

/* room->x = derivatives by the last states. */
static void start(const walk *w, int32_t trial)
{
    const rs_trials_batch *batch = w->batch;
    const rs_trials_norm *last = &batch->plan->final_norm;
    int64_t n = batch->n, d = batch->plan->d, ld = batch->ld;
    uint64_t seed = rs_trials_seed(batch->seed, trial);
    double *x = w->room->x, *inverse = w->room->skip;
    bool normed = last->on && batch->request->after_final_norm;
    if (normed) {
        memcpy(w->room->y, x, (size_t)(d * ld) * sizeof *x);
        rs_trials_block block = rs_trials_block_of(w->room->y, d, batch, w->lanes);
        w->kernels->norm(&block, inverse, last->centred, last->eps, last->gain);
    }
    for (int64_t i = 0; i < n; i++) {
        /* as RS_LOSS_RANDOM draws it */
        rs_random random = rs_random_new(seed, (uint64_t)i);
        rs_random_normals(&random, w->room->means, (size_t)d);
        for (int64_t c = 0; c < d; c++)
            for (int64_t k = i; k < w->lanes; k += batch->np)
                x[c * ld + k] = w->room->means[c];
    }
    for (int64_t c = 0; c < d; c++)
        for (int64_t i = 0; i < ld; i++)
            if (i >= w->lanes || i % batch->np >= n) x[c * ld + i] = 0;
    if (normed) norm_back(x, w, last, w->room->y, inverse);
}

static void measure(const walk *w)
{
    const rs_trials_batch *batch = w->batch;
    for (int32_t cell = 0; cell < w->cells; cell++) {
        rs_trials_block block =
            rs_trials_block_of(w->room->x + cell * batch->np, batch->plan->d, batch, batch->np);
        *number_of(w, cell, RS_TRIALS_STATE) = w->kernels->square(&block);
    }
}

void rs_trials_put_ratios(double *row)
{
    double value = row[RS_TRIALS_VALUE];
    if (!(value > 0)) return;
    row[RS_TRIALS_QUERY_VALUE] = row[RS_TRIALS_QUERY] / value;
    row[RS_TRIALS_KEY_VALUE] = row[RS_TRIALS_KEY] / value;
}

void rs_trials_back(double *const *numbers, const rs_trials_batch *batch, rs_trials_room *room,
                    int32_t trial)
{
    walk w = {.batch = batch,
              .room = room,
              .kernels = batch->kernels,
              .numbers = numbers,
              .layer = batch->plan->n_layers,
              .lanes = batch->np * batch->n_cells};
    start(&w, trial);
    for (;;) {
        /* the cells whose last state, or an earlier one, this is */
        w.cells = rs_trials_active(batch, w.layer - 1);
        w.lanes = w.cells * batch->np;
        measure(&w);
        if (w.layer == 0) return;
        w.layer--;
        for (int32_t b = batch->plan->layers[w.layer].n_branches - 1; b >= 0; b--)
            branch_back(&w, b);
        for (int32_t cell = 0; cell < w.cells; cell++)
            rs_trials_put_ratios(number_of(&w, cell, 0));
    }
}
