/*
 * gram_mlp.c: maps of activations pair by pair (docs/theory/mean_field.md, 6).
 *
 * ReLU and linear maps are homogeneous and serve tokens of any size. The others are taken at the middle
 * of the tokens' variances, and their E φ² follows a power of the variance between there and both ends.
 */
#include "predict/gram_mlp.h"

#include "predict/ln.h"

#define UNEQUAL_MOST 4.0 /* largest square over the least, for maps that are not homogeneous */

static bool is_homogeneous(const rs_theory_mlp *op)
{
    return op->kind == RS_GAUSS_LINEAR || op->kind == RS_GAUSS_RELU;
}

/* ln E φ² as a square of ln q: at the middle, and its two slopes to the ends. */
typedef struct power_law {
    double middle, ln_square; /* ln q and ln E φ² there */
    double reach, below, above;
} power_law;

static double ln_square_at(rs_activation_map *map, double ln_q, bool *has)
{
    rs_activation_moments m = {0};
    *has = *has && rs_activation_map_at(map, ln_q);
    if (*has) rs_activation_map_moments(&m, map, -INFINITY);
    return m.ln_square;
}

/* Leaves the map at the middle. */
static bool make_law(power_law *law, rs_activation_map *map, const rs_theory_mlp *op,
                     const rs_gram_state *read)
{
    double ln_gain = log(op->gated ? op->gate : op->up), unequal = rs_gram_state_unequal(read);
    bool has = true;
    *law = (power_law){.reach = log(unequal) / 2};
    law->middle = fmax(read->ln_square + ln_gain - law->reach, -RS_LN_MOST);
    if (!(unequal < UNEQUAL_MOST) && !is_homogeneous(op)) return false;
    if (law->reach > 1e-13) {
        law->above = ln_square_at(map, law->middle + law->reach, &has);
        law->below = ln_square_at(map, law->middle - law->reach, &has);
    }
    law->ln_square = ln_square_at(map, law->middle, &has);
    if (law->reach > 1e-13) {
        law->above = (law->above - law->ln_square) / law->reach;
        law->below = (law->ln_square - law->below) / law->reach;
    }
    return has;
}

/* ln E φ² of a token with square `square`, largest 1. */
static double ln_square_of(const power_law *law, double square)
{
    double from = log(square) + law->reach;
    double slope = (law->above + law->below) / 2, bend = law->above - law->below;
    if (law->reach <= 1e-13) return law->ln_square;
    return law->ln_square + from * slope + from * from / law->reach * bend / 2;
}

/* ln(1 − correlation) of two tokens: the gap less what their sizes differ by. */
static double ln_apart_of(const rs_gram_state *read, double ratio, int64_t i, int64_t j)
{
    double product = read->square[i] * read->square[j], gap = read->gap[i * read->n + j];
    if (read->square[i] != read->square[j]) {
        double a = sqrt(read->square[i]), b = sqrt(read->square[j]);
        gap -= (a - b) * (a - b) / 2 / ratio;
    }
    if (read->ln_gap == -INFINITY || !(gap > 0)) return -INFINITY;
    if (product != 1) gap /= sqrt(product);
    return fmin(log(gap) + read->ln_gap - read->ln_square, log(2));
}

/*
 * What a pair's outputs differ by, over e^law.ln_square and, gated, the largest square: with E φ² = f_i,
 * f_j, E φφ = f and K of `up`, (f_i + f_j)/2 − f, or (f_i q_i + f_j q_j)/2 − f K, by parts that are small
 * where tokens are alike.
 */
static double gap_of(const rs_activation_map *map, const power_law *law, const rs_theory_mlp *op,
                     const rs_gram_state *read, double ratio, int64_t i, int64_t j)
{
    rs_activation_moments m;
    double q_i = read->square[i], q_j = read->square[j];
    rs_activation_map_moments(&m, map, ln_apart_of(read, ratio, i, j));
    double a = exp((ln_square_of(law, q_i) - law->ln_square) / 2);
    double b = exp((ln_square_of(law, q_j) - law->ln_square) / 2);
    double lost = a * b * exp(m.ln_gap - m.ln_square);
    if (!op->gated) return lost + (a - b) * (a - b) / 2;
    double gap = ratio * read->gap[i * read->n + j];
    double own_i = a * (a - b) + lost, own_j = b * (b - a) + lost; /* f_i − f, f_j − f */
    return a * b * m.cosine * gap + (own_i * q_i + own_j * q_j) / 2;
}

/* ---- ReLU and linear maps, straight from the gaps ---- */

/* What tokens' sizes differ by, in the unit of gaps. */
static double moved_of(const rs_gram_state *read, double ratio, int64_t i, int64_t j)
{
    double away = sqrt(read->square[i]) - sqrt(read->square[j]);
    return away != 0 ? away * away / 2 / ratio : 0;
}

/* 1 − correlation of two tokens. */
static double apart_of(const rs_gram_state *read, double ratio, int64_t i, int64_t j)
{
    double gap = read->gap[i * read->n + j] - moved_of(read, ratio, i, j);
    double apart = gap * ratio / sqrt(read->square[i] * read->square[j]);
    return apart > 0 ? fmin(apart, 2) : 0;
}

static bool is_direct(const rs_theory_mlp *op)
{
    return is_homogeneous(op) && !op->gated;
}

static void run_direct(rs_gram_state *out, const rs_theory_mlp *op, const rs_gram_state *read)
{
    int64_t n = read->n;
    double ratio = rs_gram_state_ratio(read);
    double gain = log(op->up) + log(op->down) - (op->kind == RS_GAUSS_RELU ? log(2) : 0);
    rs_gram_state_copy(out, read);
    out->ln_square = rs_ln_times(out->ln_square, gain);
    out->ln_gap = rs_ln_times(out->ln_gap, gain);
    if (op->kind == RS_GAUSS_LINEAR || read->ln_gap == -INFINITY) return;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            double moved = moved_of(read, ratio, i, j), kept = read->gap[i * n + j] - moved;
            double shrunk = rs_relu_gap_ratio(apart_of(read, ratio, i, j));
            double gap = moved + (kept > 0 ? kept * shrunk : 0);
            out->gap[i * n + j] = out->gap[j * n + i] = gap;
        }
    }
    rs_gram_state_scale(out);
}

static void run_direct_back(double *factors, const rs_theory_mlp *op, const rs_gram_state *read)
{
    static const double PI = 3.14159265358979323846;
    int64_t n = read->n;
    double ratio = rs_gram_state_ratio(read), gain = op->up * op->down;
    bool relu = op->kind == RS_GAUSS_RELU;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double angle = relu && i != j ? rs_relu_angle(apart_of(read, ratio, i, j)) : 0;
            double factor = relu ? (PI - angle) / (2 * PI) : 1;
            factors[i * n + j] = factors[j * n + i] = gain * factor;
        }
    }
}

/* ---- all of them ---- */

bool rs_gram_mlp(rs_gram_state *out, rs_activation_map *map, const rs_theory_mlp *op,
                 const rs_gram_state *read)
{
    int64_t n = read->n;
    double ratio = rs_gram_state_ratio(read);
    power_law law;
    if (is_direct(op)) {
        run_direct(out, op, read);
        return true;
    }
    if (!make_law(&law, map, op, read)) return false;
    double scale = log(op->down) + law.ln_square;
    if (op->gated) scale = rs_ln_times(scale, log(op->up) + read->ln_square);
    if (read->ln_square == -INFINITY && op->kind != RS_GAUSS_SIGMOID) scale = -INFINITY;
    /* gaps in a unit of their own, which is that of the tokens' correlations */
    double unit = read->ln_gap == -INFINITY ? 0 : read->ln_gap - read->ln_square;
    out->ln_square = scale;
    out->ln_gap = rs_ln_times(scale, unit);
    for (int64_t i = 0; i < n; i++) {
        double square = exp(ln_square_of(&law, read->square[i]) - law.ln_square);
        out->square[i] = op->gated ? square * read->square[i] : square;
        out->gap[i * n + i] = 0;
        for (int64_t j = 0; j < i; j++) {
            double gap = gap_of(map, &law, op, read, ratio, i, j);
            out->gap[i * n + j] = out->gap[j * n + i] = gap > 0 && ratio > 0 ? gap / ratio : 0;
        }
    }
    rs_gram_state_scale(out);
    return true;
}

void rs_gram_mlp_back(double *factors, rs_activation_map *map, const rs_theory_mlp *op,
                      const rs_gram_state *read)
{
    int64_t n = read->n;
    double ratio = rs_gram_state_ratio(read);
    power_law law;
    if (is_direct(op)) {
        run_direct_back(factors, op, read);
        return;
    }
    make_law(&law, map, op, read);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            rs_activation_moments m;
            rs_activation_map_moments(&m, map, i == j ? -INFINITY : ln_apart_of(read, ratio, i, j));
            double factor = op->up * op->down * m.slope_both;
            if (op->gated) {
                double product = exp(read->ln_square) * rs_gram_state_product(read, ratio, i, j);
                factor =
                    op->gate * factor * product + op->up * op->down * exp(m.ln_square) * m.cosine;
            }
            factors[i * n + j] = factors[j * n + i] = factor;
        }
    }
}
