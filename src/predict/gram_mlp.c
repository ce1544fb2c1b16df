/*
 * gram_mlp.c: maps of activations pair by pair (docs/theory/mean_field.md, 6).
 *
 * ReLU and linear maps are homogeneous and serve tokens of any size. The others are taken at the middle
 * of the tokens' variances, and their E φ² follows a power of the variance between there and both ends.
 */
#include "predict/gram_mlp.h"

#include "predict/activation_curve.h"
#include "predict/gram_kernels.h"
#include "predict/gram_mixing.h"
#include "predict/ln.h"

#define UNEQUAL_MOST 4.0 /* largest square over the least, for maps that are not homogeneous */

static bool is_homogeneous(const rs_theory_mlp *op)
{
    return op->kind == RS_GAUSS_LINEAR || op->kind == RS_GAUSS_RELU;
}

/* ---- a power of the variance ---- */

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

static double middle_of(const rs_theory_mlp *op, const rs_gram_state *read, double reach)
{
    double ln_gain = log(op->gated ? op->gate : op->up);
    return fmax(read->ln_square + ln_gain - reach, -RS_LN_MOST);
}

/* Leaves the map at the middle. */
static bool make_law(power_law *law, rs_activation_map *map, const rs_theory_mlp *op,
                     const rs_gram_state *read)
{
    double unequal = rs_gram_state_unequal(read);
    bool has = true;
    *law = (power_law){.reach = log(unequal) / 2};
    law->middle = middle_of(op, read, law->reach);
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

/* ---- pairs of tokens ---- */

/* Pairs i > j, row by row, in the caller's room. */
typedef struct pairs {
    int64_t count;
    double *root;       /* √(1 − correlation) */
    double *value;      /* of a curve there */
    double *size, *own; /* [n]: √square; √(E φ² of a token over that at the middle) */
    double low, high;   /* of root */
} pairs;

static int64_t padded(int64_t count)
{
    return (count + RS_GRAM_PAD - 1) / RS_GRAM_PAD * RS_GRAM_PAD;
}

size_t rs_gram_mlp_room(int64_t n)
{
    return (size_t)(2 * padded(n * (n - 1) / 2 + 1) + 2 * padded(n));
}

/* e of the tokens' directions: the gap less what their sizes differ by. */
static void set_pairs(pairs *p, const rs_gram_state *read, double ratio, double *room)
{
    int64_t n = read->n, at = 0;
    *p = (pairs){.count = n * (n - 1) / 2, .root = room};
    p->value = p->root + padded(p->count + 1);
    p->size = p->value + padded(p->count + 1);
    p->own = p->size + padded(n);
    for (int64_t i = 0; i < n; i++)
        p->size[i] = sqrt(read->square[i]);
    for (int64_t i = 0; i < n; at += i, i++) {
        const double *gap = read->gap + i * n;
        double a = p->size[i];
        for (int64_t j = 0; j < i; j++) {
            double away = a - p->size[j];
            double e = (gap[j] * ratio - away * away / 2) / (a * p->size[j]);
            e = e > 0 ? e : 0;
            p->root[at + j] = sqrt(e < 2 ? e : 2);
        }
    }
    for (; at < padded(p->count + 1); at++)
        p->root[at] = p->count > 0 ? p->root[0] : 0;
    rs_gram_range range =
        p->count > 0 ? rs_gram_range_of(p->root, p->count) : (rs_gram_range){0, 0};
    p->low = range.low;
    p->high = range.high;
}

/* 1 − (E φφ)/(E φ²) over e, of every pair, or E φ'φ'. */
static void ask_pairs(pairs *p, const rs_activation_map *map, bool slopes)
{
    rs_activation_curve curve;
    if (rs_activation_curve_fit(&curve, map, p->low, p->high)) {
        if (slopes)
            rs_activation_curve_slopes(p->value, &curve, p->root, p->count);
        else
            rs_activation_curve_gaps(p->value, &curve, p->root, p->count);
        return;
    }
    for (int64_t k = 0; k < p->count; k++) {
        double gap, both;
        rs_activation_curve_at(&gap, &both, map, p->root[k]);
        p->value[k] = slopes ? both : gap;
    }
}

/* ---- ReLU and linear maps: tokens of any size ---- */

static bool is_direct(const rs_theory_mlp *op)
{
    return is_homogeneous(op) && !op->gated;
}

/* Straight from the gaps, whose unit may be nothing beside that of squares. */
static void run_direct(rs_gram_state *out, rs_activation_map *map, const rs_theory_mlp *op,
                       const rs_gram_state *read, double *room)
{
    int64_t n = read->n, at = 0;
    double ratio = rs_gram_state_ratio(read);
    double gain = log(op->up) + log(op->down) - (op->kind == RS_GAUSS_RELU ? log(2) : 0);
    pairs p;
    rs_gram_state_copy(out, read);
    out->ln_square = rs_ln_times(out->ln_square, gain);
    out->ln_gap = rs_ln_times(out->ln_gap, gain);
    if (op->kind == RS_GAUSS_LINEAR || read->ln_gap == -INFINITY) return;
    rs_activation_map_at(map, 0);
    set_pairs(&p, read, ratio, room);
    ask_pairs(&p, map, false);
    for (int64_t i = 0; i < n; at += i, i++) {
        double *gap = out->gap + i * n;
        for (int64_t j = 0; j < i; j++) {
            double away = p.size[i] - p.size[j];
            double moved = away != 0 ? away * away / 2 / ratio : 0, kept = gap[j] - moved;
            gap[j] = moved + (kept > 0 ? kept * p.value[at + j] : 0);
        }
    }
    rs_gram_mirror(out->gap, n, n);
    rs_gram_state_scale(out);
}

/* ---- all of them ---- */

/* What a token's E φ² is beside that at the middle, by its root. */
static void set_own(pairs *p, const power_law *law, const rs_gram_state *read)
{
    for (int64_t i = 0; i < read->n; i++)
        p->own[i] = exp((ln_square_of(law, read->square[i]) - law->ln_square) / 2);
}

/*
 * What pairs' outputs differ by, over e^law.ln_square and, gated, the largest square: with E φ² = f_i,
 * f_j, E φφ = f and K of `up`, (f_i + f_j)/2 − f, or (f_i q_i + f_j q_j)/2 − f K, by parts that are small
 * where tokens are alike.
 */
static void run_pairs(rs_gram_state *out, const pairs *p, const rs_theory_mlp *op,
                      const rs_gram_state *read, double ratio)
{
    int64_t n = read->n, at = 0;
    for (int64_t i = 0; i < n; at += i, i++) {
        double a = p->own[i], q_i = read->square[i];
        out->gap[i * n + i] = 0;
        for (int64_t j = 0; j < i; j++) {
            double b = p->own[j], q_j = read->square[j], apart = p->root[at + j] * p->root[at + j];
            double cosine = 1 - apart * p->value[at + j], lost = a * b * apart * p->value[at + j];
            double own_i = a * (a - b) + lost, own_j = b * (b - a) + lost; /* f_i − f, f_j − f */
            double gap = lost + (a - b) * (a - b) / 2;
            if (op->gated)
                gap =
                    a * b * cosine * ratio * read->gap[i * n + j] + (own_i * q_i + own_j * q_j) / 2;
            out->gap[i * n + j] = gap > 0 && ratio > 0 ? gap / ratio : 0;
        }
    }
    rs_gram_mirror(out->gap, n, n);
}

bool rs_gram_mlp(rs_gram_state *out, rs_activation_map *map, const rs_theory_mlp *op,
                 const rs_gram_state *read, double *room)
{
    double ratio = rs_gram_state_ratio(read);
    power_law law;
    pairs p;
    if (is_direct(op)) {
        run_direct(out, map, op, read, room);
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
    set_pairs(&p, read, ratio, room);
    set_own(&p, &law, read);
    for (int64_t i = 0; i < read->n; i++)
        out->square[i] = p.own[i] * p.own[i] * (op->gated ? read->square[i] : 1);
    ask_pairs(&p, map, false);
    run_pairs(out, &p, op, read, ratio);
    rs_gram_state_scale(out);
    return true;
}

/* ---- back ---- */

void rs_gram_mlp_back(double *factors, rs_activation_map *map, const rs_theory_mlp *op,
                      const rs_gram_state *read, double *room)
{
    int64_t n = read->n, at = 0;
    double ratio = rs_gram_state_ratio(read), squares = exp(read->ln_square);
    double gain = op->up * op->down;
    rs_activation_moments one;
    pairs p;
    double reach = log(rs_gram_state_unequal(read)) / 2;
    rs_activation_map_at(map, is_direct(op) ? 0 : middle_of(op, read, reach));
    rs_activation_map_moments(&one, map, -INFINITY);
    set_pairs(&p, read, ratio, room);
    double share = op->gated ? gain * exp(one.ln_square) : 0;
    if (op->gated) { /* the cosines */
        ask_pairs(&p, map, false);
        for (int64_t i = 0; i < n; at += i, i++) {
            for (int64_t j = 0; j < i; j++)
                factors[i * n + j] =
                    share * (1 - p.root[at + j] * p.root[at + j] * p.value[at + j]);
        }
    }
    ask_pairs(&p, map, true);
    at = 0;
    for (int64_t i = 0; i < n; at += i, i++) {
        for (int64_t j = 0; j < i; j++) {
            double slope = gain * p.value[at + j];
            double product = squares * rs_gram_state_product(read, ratio, i, j);
            factors[i * n + j] =
                op->gated ? factors[i * n + j] + op->gate * slope * product : slope;
        }
        factors[i * n + i] = gain * one.slope_both;
        if (op->gated)
            factors[i * n + i] = share + op->gate * gain * one.slope_both * squares *
                                             rs_gram_state_product(read, ratio, i, i);
    }
    rs_gram_mirror(factors, n, n);
}
