/* trials_squares.c: squares of gradients by weights, of batched trials: ‖Xᵀ D‖².
 *
 * With tokens about their means, X = 1x̄ᵀ + E and D = 1d̄ᵀ + F:
 *     n² |x̄|² |d̄|² + 2 n Σ_i (x̄·e_i)(d̄·f_i) + <E Eᵀ, F Fᵀ>,
 * n by n matrices in place of in by out; about the means, for squares of nearly equal tokens, or of
 * derivatives that sum to 0, would be differences of large numbers. */
#include "predict/trials_back.h"

void rs_trials_forget(rs_trials_gram *grams)
{
    for (int c = 0; c < RS_TRIALS_CHAINS; c++)
        grams[c].known = false;
}

/* Of one cell's x. */
static void fill_gram(const rs_trials_walk *w, rs_trials_gram *gram, const rs_trials_block *x)
{
    int64_t n = w->batch->n, np = w->batch->np;
    rs_trials_room *room = w->room;
    rs_trials_product product = {.b = room->centred, .ldb = np, .k = x->rows, .lanes = np};
    w->kernels->centre(room->centred, np, room->means, x, n);
    product.c = gram->of;
    product.ldc = np;
    product.a = room->centred;
    product.a_row = 1;
    product.a_term = np;
    product.m = n;
    w->kernels->product(&product);
    product.c = gram->lean;
    product.a = room->means;
    product.a_term = 1;
    product.m = 1;
    w->kernels->product(&product);
    gram->mean_square = 0;
    for (int64_t c = 0; c < x->rows; c++)
        gram->mean_square += room->means[c] * room->means[c];
    gram->known = true;
}

/* The square by both Gram matrices. */
static double square_of_grams(const rs_trials_walk *w, const rs_trials_gram *x,
                              const rs_trials_gram *d)
{
    int64_t np = w->batch->np;
    double n = (double)w->batch->n, along = 0;
    rs_trials_block first = {x->of, w->batch->n, np, np};
    for (int64_t i = 0; i < w->batch->n; i++)
        along += x->lean[i] * d->lean[i];
    double sum =
        n * n * x->mean_square * d->mean_square + 2 * n * along + w->kernels->inner(&first, d->of);
    return sum < 0 ? 0 : sum; /* rounding; a NaN stays */
}

/* The square of the matrix itself, a few rows at a time: for more tokens than inputs. */
static double square_of_rows(const rs_trials_walk *w, const rs_trials_map *of, const double *x,
                             const double *d)
{
    int64_t ld = w->batch->ld, n = w->batch->n;
    int64_t wide = (of->out + RS_TRIALS_PAD - 1) / RS_TRIALS_PAD * RS_TRIALS_PAD;
    double *across = w->room->across, sum = 0;
    w->kernels->turn(across, wide, d, w->batch->ld_back, of->out, n);
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

/* Whether a cell's square is asked for: of all maps, or at both ends alone (rs_trials_request). */
static bool is_asked(const rs_trials_walk *w, int32_t cell, rs_trials_quantity quantity)
{
    bool end = w->layer == 0 || w->layer == rs_trials_plan_of(w, cell)->n_layers - 1;
    if (!w->batch->request->ends) return true;
    return end && (quantity == RS_TRIALS_QUERY || quantity == RS_TRIALS_VALUE);
}

/* Of one cell: x what the map read, d the derivative by what it gave. */
static double square_of(const rs_trials_walk *w, const rs_trials_map *map, rs_trials_gram *gram,
                        double *x, double *d)
{
    const rs_trials_block read = {x, map->in, w->batch->ld, w->batch->np},
                          given = {d, map->out, w->batch->ld_back, w->batch->np};
    if (w->batch->n >= map->in) return square_of_rows(w, map, x, d);
    if (!gram->known) fill_gram(w, gram, &read);
    fill_gram(w, &w->room->given, &given);
    return square_of_grams(w, gram, &w->room->given);
}

void rs_trials_squares(const rs_trials_walk *w, int count, const rs_trials_map *const *maps,
                       const rs_trials_quantity *quantities, rs_trials_gram *grams, double *states,
                       double *const *d)
{
    int64_t np = w->batch->np;
    for (int32_t cell = 0; cell < w->cells; cell++) {
        int32_t state = rs_trials_state(w, cell);
        double *x = rs_trials_lanes(w, states) + state * np;
        for (int i = 0; i < count; i++)
            if (is_asked(w, cell, quantities[i]))
                rs_trials_add(rs_trials_number_of(w, cell, quantities[i]),
                              square_of(w, maps[i], &grams[state], x, d[i] + cell * np));
    }
}
