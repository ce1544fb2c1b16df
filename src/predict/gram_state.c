/* gram_state.c: sums and norms of tokens that differ in size (docs/theory/mean_field.md, 6). */
#include "predict/gram_state.h"

#include "base/memory.h"
#include "predict/gram_kernels.h"
#include "predict/ln.h"

#include <string.h>

rs_status rs_gram_state_open(rs_gram_state *out, int64_t n, rs_error *err)
{
    size_t size = (size_t)n * (size_t)n + 2 * (size_t)n;
    *out = (rs_gram_state){.n = n};
    out->square = rs_calloc(size, sizeof *out->square);
    if (!out->square) return rs_fail_memory(err, "a Gram matrix", size * sizeof *out->square);
    out->gap = out->square + n;
    out->root = out->gap + n * n;
    return RS_OK;
}

void rs_gram_state_close(rs_gram_state *state)
{
    rs_free(state->square);
}

void rs_gram_state_copy(rs_gram_state *to, const rs_gram_state *from)
{
    to->ln_square = from->ln_square;
    to->ln_gap = from->ln_gap;
    memcpy(to->square, from->square, (size_t)(from->n * (from->n + 1)) * sizeof *to->square);
}

static double take_largest(double *a, int64_t size, double enough)
{
    double range[2];
    rs_gram_kernels_here()->range(range, a, size);
    double largest = range[1];
    if (!(largest > 0)) return -INFINITY;
    if (largest >= enough && largest <= 1) return 0;
    /* the inverse of a subnormal number is none */
    double first = largest < 1e-300 ? 1e300 : 1, share = 1 / (first * largest);
    for (int64_t i = 0; i < size; i++)
        a[i] = a[i] * first * share;
    return log(largest);
}

void rs_gram_state_scale(rs_gram_state *state)
{
    state->ln_square = rs_ln_times(state->ln_square, take_largest(state->square, state->n, 1));
    state->ln_gap = rs_ln_times(state->ln_gap, take_largest(state->gap, state->n * state->n, 1e-6));
}

void rs_gram_state_start(rs_gram_state *state, double ln_square, double rho)
{
    int64_t n = state->n;
    state->ln_square = ln_square;
    state->ln_gap = ln_square + log(1 - rho);
    for (int64_t i = 0; i < n; i++) {
        state->square[i] = 1;
        for (int64_t j = 0; j < n; j++)
            state->gap[i * n + j] = i == j ? 0 : 1;
    }
}

static void add_scaled(double *a, double *ln_a, double ln_kept, const double *b, double ln_b,
                       int64_t size)
{
    double kept = rs_ln_times(*ln_a, ln_kept), high = fmax(kept, ln_b);
    double of_a = high == -INFINITY ? 0 : exp(kept - high);
    double of_b = high == -INFINITY ? 0 : exp(ln_b - high);
    for (int64_t i = 0; i < size; i++)
        a[i] = of_a * a[i] + of_b * b[i];
    *ln_a = high;
}

void rs_gram_state_add(rs_gram_state *state, double ln_kept, const rs_gram_state *added,
                       double ln_added)
{
    int64_t n = state->n;
    add_scaled(state->square, &state->ln_square, ln_kept, added->square,
               rs_ln_times(added->ln_square, ln_added), n);
    add_scaled(state->gap, &state->ln_gap, ln_kept, added->gap,
               rs_ln_times(added->ln_gap, ln_added), n * n);
    rs_gram_state_scale(state);
}

/*
 * With f_i for each token, the gap becomes √(f_i f_j) gap + (√f_i − √f_j)(√f_i q_i − √f_j q_j)/2. The
 * second part is a product of two small differences.
 */
static void multiply_squares(rs_gram_state *state, const double *factor)
{
    int64_t n = state->n;
    double ratio = state->ln_gap == -INFINITY ? 0 : exp(state->ln_square - state->ln_gap);
    for (int64_t i = 0; i < n; i++)
        state->root[i] = sqrt(factor[i]);
    for (int64_t i = 0; i < n; i++) {
        double a = state->root[i], whole = a * state->square[i], *row = state->gap + i * n;
        for (int64_t j = 0; j < i; j++) {
            double b = state->root[j];
            double moved = (a - b) * (whole - b * state->square[j]) / 2;
            double gap = a * b * row[j] + (moved != 0 ? ratio * moved : 0);
            row[j] = gap > 0 ? gap : 0;
        }
    }
    rs_gram_mirror(state->gap, n, n);
    for (int64_t i = 0; i < n; i++)
        state->square[i] *= factor[i];
}

void rs_gram_state_norm(rs_gram_state *state, double *factor, double *ln_factor,
                        const rs_theory_norm *norm)
{
    double eps = norm->eps > 0 ? exp(log(norm->eps) - state->ln_square) : 0;
    bool left = norm->on && !norm->annihilates && state->ln_square != -INFINITY;
    *ln_factor = left ? log(norm->gain) - state->ln_square : 0;
    for (int64_t i = 0; i < state->n; i++)
        factor[i] = left ? 1 / (state->square[i] + eps) : norm->annihilates ? 0 : 1;
    if (!norm->on) return;
    multiply_squares(state, factor);
    state->ln_square = rs_ln_times(state->ln_square, *ln_factor);
    state->ln_gap = rs_ln_times(state->ln_gap, *ln_factor);
    rs_gram_state_scale(state);
}

double rs_gram_state_ratio(const rs_gram_state *state)
{
    return exp(rs_ln_times(state->ln_gap, -state->ln_square));
}

void rs_gram_state_sums(rs_gram_sums *out, const rs_gram_state *state)
{
    const rs_gram_kernels *kernels = rs_gram_kernels_here();
    double n = (double)state->n, squares = kernels->sum(state->square, state->n);
    double gaps = kernels->sum(state->gap, state->n * state->n);
    out->ln_squares = rs_ln_times(state->ln_square, log(squares));
    double ln_gaps = rs_ln_times(state->ln_gap, log(gaps));
    /* Σ_ij K = n Σ q − Σ gap */
    out->ln_all = rs_ln_less(out->ln_squares + log(n), ln_gaps);
    out->ln_apart = ln_gaps - out->ln_squares - log(n - 1);
}

double rs_gram_state_unequal(const rs_gram_state *state)
{
    double least = state->square[0], most = least;
    for (int64_t i = 1; i < state->n; i++) {
        least = fmin(least, state->square[i]);
        most = fmax(most, state->square[i]);
    }
    return most / least;
}
