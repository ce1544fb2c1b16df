/* kobayashi_factors.c: gradient descent on two small factors, and what is seen of them. */
#include "lab/kobayashi_factors.h"

#include "base/random.h"
#include "lab/toy.h"
#include "linalg/gram.h"
#include "linalg/spectrum.h"

#include <math.h>

enum { N = RS_FACTORS_N, SIZE = RS_FACTORS_SIZE, STREAM = 0x0b5, TAG_A = 401, TAG_B = 402 };

const double rs_factors_target[N] = {1, 0.8, 0.6, 0.4, 0.2};

/* ---- starts ---- */

void rs_factors_hash(rs_factors *f)
{
    double scale = sqrt(0.6); /* uniform in (-scale, scale): of variance 1/5 */
    for (uint32_t i = 0; i < SIZE; i++) {
        f->a[i] = scale * (rs_lab_hash(TAG_A, i) / 2147483648.0 - 1);
        f->b[i] = scale * (rs_lab_hash(TAG_B, i) / 2147483648.0 - 1);
    }
}

void rs_factors_draw(rs_factors *f, uint64_t seed, uint64_t draw)
{
    rs_random random = rs_random_new(seed, (uint64_t)STREAM << 32 ^ draw);
    rs_draw_gaussian(f->a, SIZE, 1 / sqrt(N), &random);
    rs_draw_gaussian(f->b, SIZE, 1 / sqrt(N), &random);
}

/* ---- descent ---- */

static void product(double *w, const rs_factors *f)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += f->a[i * N + k] * f->b[j * N + k];
            w[i * N + j] = sum;
        }
}

/* Gradients by both factors: G B + decay A and G^T A + decay B, G = 2c (A B^T - D). */
static void gradients(double *by_a, double *by_b, const rs_factors *f)
{
    double g[SIZE];
    product(g, f);
    for (int i = 0; i < N; i++)
        g[i * N + i] -= rs_factors_target[i];
    for (int i = 0; i < SIZE; i++) {
        by_a[i] = f->decay * f->a[i];
        by_b[i] = f->decay * f->b[i];
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++) {
                by_a[i * N + k] += 2 * f->c * g[i * N + j] * f->b[j * N + k];
                by_b[j * N + k] += 2 * f->c * g[i * N + j] * f->a[i * N + k];
            }
}

static void move(rs_factors *f, const double *by_a, const double *by_b)
{
    for (int i = 0; i < SIZE; i++) {
        f->a[i] -= f->rate * by_a[i];
        f->b[i] -= f->rate * by_b[i];
    }
}

void rs_factors_run(rs_factors *f, int steps)
{
    double by_a[SIZE], by_b[SIZE];
    for (int t = 0; t < steps; t++) {
        gradients(by_a, by_b, f);
        move(f, by_a, by_b);
    }
}

/* out = A^T A - B^T B. */
static void balance(double *out, const double *a, const double *b)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[k * N + i] * a[k * N + j] - b[k * N + i] * b[k * N + j];
            out[i * N + j] = sum;
        }
}

double rs_factors_step_balance(rs_factors *f)
{
    double by_a[SIZE], by_b[SIZE], before[SIZE], after[SIZE], forcing[SIZE], worst = 0;
    gradients(by_a, by_b, f);
    balance(before, f->a, f->b);
    balance(forcing, by_a, by_b);
    move(f, by_a, by_b);
    balance(after, f->a, f->b);
    for (int i = 0; i < SIZE; i++)
        worst = fmax(worst, fabs(after[i] - (1 - 2 * f->rate * f->decay) * before[i] -
                                 f->rate * f->rate * forcing[i]));
    return worst;
}

/* ---- what is seen ---- */

rs_status rs_factors_see(rs_factors_seen *seen, const rs_factors *f, rs_error *err)
{
    double w[SIZE], x[SIZE] = {0}, y[SIZE] = {0};
    rs_gram_pair pair;
    product(w, f);
    RS_TRY(rs_matrix_spectrum(seen->sigma, w, N, N, err));
    rs_gram_add_cols(x, f->a, N, N, N);
    rs_gram_add_cols(y, f->b, N, N, N);
    rs_gram_symmetrise(x, N);
    rs_gram_symmetrise(y, N);
    rs_gram_compare(&pair, x, y, N);
    seen->nuclear = 0;
    for (int i = 0; i < N; i++)
        seen->nuclear += seen->sigma[i];
    seen->norms = pair.trace_x + pair.trace_y;
    seen->gap = pair.half_norm - seen->nuclear;
    seen->imbalance = pair.norm_q;
    return RS_OK;
}

/* Least squares of a line, point by point. */
typedef struct line {
    double n, x, y, xx, xy;
} line;

static void add_point(line *l, double x, double y)
{
    l->n++;
    l->x += x;
    l->y += y;
    l->xx += x * x;
    l->xy += x * y;
}

static double slope_of(const line *l)
{
    return (l->n * l->xy - l->x * l->y) / (l->n * l->xx - l->x * l->x);
}

rs_status rs_factors_fit(rs_factors_slopes *slopes, rs_factors *f, rs_error *err)
{
    enum { FIRST = 300, LAST = 900, EVERY = 10, MIDDLE = (FIRST + LAST) / 2 };
    const double least_imbalance = 1e-10, least_gap = 1e-11; /* below is rounding */
    line imbalance = {0}, gap = {0};
    bool gap_seen = true;
    rs_factors_run(f, FIRST);
    for (int t = FIRST; t <= LAST; t += EVERY) {
        rs_factors_seen seen;
        RS_TRY(rs_factors_see(&seen, f, err));
        if (seen.imbalance > least_imbalance)
            add_point(&imbalance, t - MIDDLE, log(seen.imbalance));
        gap_seen = gap_seen && seen.gap > least_gap;
        if (gap_seen) add_point(&gap, t - MIDDLE, log(seen.gap));
        rs_factors_run(f, EVERY);
    }
    slopes->imbalance = slope_of(&imbalance);
    slopes->gap = slope_of(&gap);
    return RS_OK;
}

/* ---- what the laws say ---- */

/* What is left of a mode, below 0 where nothing is; decays are tenths, so 0 is found by rounding. */
static double left(double c, double decay, int mode)
{
    double s = rs_factors_target[mode] - decay / (2 * c);
    return fabs(s) < 1e-12 ? 0 : s;
}

double rs_factors_soft(double c, double decay, int mode)
{
    return fmax(left(c, decay, mode), 0);
}

bool rs_factors_critical(double c, double decay, int mode)
{
    return left(c, decay, mode) == 0;
}

double rs_factors_least_dead(double c, double decay)
{
    double least = left(c, decay, N - 1);
    return least < 0 ? rs_factors_target[N - 1] : (double)NAN;
}
