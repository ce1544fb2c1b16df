/*
 * bidiagonal.c: dqds on four or eight bidiagonal matrices side by side.
 *
 * A lane holds one matrix as the array (q_1, q'_1, e_1, e'_1, q_2, ...) of the squared entries: a
 * transform maps (q, e) to (q', e') (pp = 0) or back (pp = 1), less a shift tau, and the sum of the
 * shifts is sigma. Names and the order of operations follow the literature, so that results are
 * LAPACK's to the last bit.
 */
#include "linalg/bidiagonal.h"

#include "base/sort.h"
#include "linalg/blas.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LANES = 8, TRANSFORMS_A_ROW = 100 };
typedef double pair __attribute__((vector_size(2 * sizeof(double)))); /* of lanes */
typedef int64_t mask __attribute__((vector_size(2 * sizeof(int64_t))));

static const double TOLERANCE = 100 * DBL_EPSILON;
static const double NEGLIGIBLE = (100 * DBL_EPSILON) * (100 * DBL_EPSILON);

/* fmin and fmax are calls, for the sake of NaN. */
static inline double lesser(double a, double b)
{
    return a < b ? a : b;
}

static inline double greater(double a, double b)
{
    return a > b ? a : b;
}

/* Least d of a transform: of all rows, without the last one, without the last two; and the last
 * three d. */
typedef struct minima {
    double all, but_one, but_two, last, last_but_one, last_but_two;
} minima;

/* Where one matrix stands. Rows are those of the block at hand, which does not split, from 1 on (as
 * in the literature): 1...end have not converged. Before it are `above` rows of other blocks. */
typedef struct lane {
    const rs_bidiagonal *item; /* NULL: the lane is idle */
    double *values;            /* [n + 1] what has converged, of row i at i */
    double *whole; /* [4n + 1], and what transforms of longer blocks pass over; [0] is not used */
    double *z;     /* = whole + 4 above */
    int64_t n, above, end, end_before;
    int64_t tries;         /* transforms that the block may still take */
    int pp, kind;          /* kind of the shift, as in Working Note 155 */
    double scale, largest; /* entries are scaled by scale / largest */
    double sigma, sigma_low, tau, q_most, damping;
    minima d;
    int64_t left; /* rows of the transform under way but for the last two */
} lane;

typedef enum verdict { TRANSFORM, DONE, GIVE_UP } verdict;

/* ---- one matrix ---- */

/* The squared entries, scaled so that they are far from both ends of the range. */
static verdict load(lane *t, const rs_bidiagonal *item)
{
    int64_t n = item->n;
    double *z = t->whole, beside = 0;
    *t = (lane){.item = item, .values = t->values, .whole = z, .z = z, .n = n, .end = n};
    if (n < 3) return GIVE_UP;
    for (int64_t i = 0; i < n; i++)
        t->largest = greater(t->largest, fabs(item->d[i]));
    for (int64_t i = 0; i + 1 < n; i++)
        beside = greater(beside, fabs(item->e[i]));
    t->largest = greater(t->largest, beside);
    if (!(beside > 0 && t->largest > 1e-140 && t->largest < 1e140)) return GIVE_UP;
    t->scale = sqrt(DBL_EPSILON / DBL_MIN);
    double factor = t->scale / t->largest;
    memset(z, 0, (size_t)(4 * n + 1) * sizeof *z);
    for (int64_t i = 0; i < n; i++) {
        double q = fabs(item->d[i]) * factor, e = i + 1 < n ? item->e[i] * factor : 0;
        z[4 * i + 1] = q * q;
        z[4 * i + 3] = e * e;
    }
    return z[1] * 1.5 < z[4 * n - 3] ? GIVE_UP : TRANSFORM; /* it would be flipped */
}

/* Two transforms without a shift and Li's test: does the matrix split? */
static verdict settle(lane *t)
{
    double *z = t->z;
    for (int pp = 0; pp < 2; pp++) {
        double d = z[4 * t->n + pp - 3];
        for (int64_t i = 4 * (t->n - 1) + pp; i >= 4 + pp; i -= 4) {
            if (z[i - 1] <= NEGLIGIBLE * d) return GIVE_UP;
            d = z[i - 3] * (d / (d + z[i - 1]));
        }
        d = z[pp + 1];
        for (int64_t i = 4 + pp; i <= 4 * (t->n - 1) + pp; i += 4) {
            double sum = d + z[i - 1];
            z[i - 2 * pp - 2] = sum;
            if (z[i - 1] <= NEGLIGIBLE * d || !(DBL_MIN * z[i + 1] < sum) ||
                !(DBL_MIN * sum < z[i + 1]))
                return GIVE_UP;
            double ratio = z[i + 1] / sum;
            z[i - 2 * pp] = z[i - 1] * ratio;
            d *= ratio;
        }
        z[4 * t->n - pp - 2] = d;
    }
    return TRANSFORM;
}

/* The last block of the rows 1...above + end that does not split, and its first shift, where the q
 * are much larger than the e. */
static verdict open_block(lane *t)
{
    double *z = t->whole;
    int64_t last = t->above + t->end, i = 4 * last;
    t->sigma_low = 0;
    t->sigma = last == t->n ? 0 : -z[i - 1];
    if (t->sigma < 0) return GIVE_UP;
    double e_most = 0, q_least = z[i - 3];
    t->q_most = q_least;
    for (; i >= 8 && z[i - 5] > 0; i -= 4) {
        if (q_least >= 4 * e_most) {
            q_least = lesser(q_least, z[i - 3]);
            e_most = greater(e_most, z[i - 5]);
        }
        t->q_most = greater(t->q_most, z[i - 7] + z[i - 5]);
    }
    t->above = i / 4 - 1;
    t->end = last - t->above;
    t->z = z += 4 * t->above;
    t->pp = 0;
    t->tries = TRANSFORMS_A_ROW * t->end;
    t->d.all = -greater(0, q_least - 2 * sqrt(q_least) * sqrt(e_most));
    if (t->end < 3) return TRANSFORM;
    double d = z[1], least = d;
    int64_t row = 1;
    for (i = 5; i <= 4 * t->end - 3; i += 4) {
        d = z[i] * (d / (d + z[i - 2]));
        if (d > least) continue;
        least = d;
        row = (i + 3) / 4;
    }
    bool flips = (row - 1) * 2 < t->end - row && least <= 0.5 * z[4 * t->end - 3];
    return flips ? GIVE_UP : TRANSFORM;
}

/* The eigenvalues of the last two rows. */
static void last_two(lane *t)
{
    double *last = t->z + 4 * t->end + t->pp - 3, *first = last - 4, e = last[-2];
    if (*last > *first) {
        double kept = *last;
        *last = *first;
        *first = kept;
    }
    double half = 0.5 * ((*first - *last) + e);
    if (e > *last * NEGLIGIBLE && half != 0) {
        double s = *last * (e / half);
        s = s <= half ? *last * (e / (half * (1 + sqrt(1 + s / half))))
                      : *last * (e / (half + sqrt(half) * sqrt(half + s)));
        double sum = *first + (s + e);
        *last *= *first / sum;
        *first = sum;
    }
    t->values[t->above + t->end - 1] = *first + t->sigma;
    t->values[t->above + t->end] = *last + t->sigma;
    t->end -= 2;
}

/* Takes off the rows that have converged. */
static void deflate(lane *t)
{
    double *z = t->z;
    while (t->end > 0) {
        int64_t i = 4 * t->end + t->pp;
        if (t->end == 1 || (t->end > 2 && !(z[i - 5] > NEGLIGIBLE * (t->sigma + z[i - 3]) &&
                                            z[i - 2 * t->pp - 4] > NEGLIGIBLE * z[i - 7]))) {
            t->values[t->above + t->end] = z[i - 3] + t->sigma;
            t->end--;
        } else if (t->end == 2 || !(z[i - 9] > NEGLIGIBLE * t->sigma &&
                                    z[i - 2 * t->pp - 8] > NEGLIGIBLE * z[i - 11])) {
            last_two(t);
        } else {
            return;
        }
    }
}

/* ---- the shift: a lower bound of the least eigenvalue, or nearly one ---- */

/* Adds the products ratio·z_i/z_{i-2}·... from row i upwards to *sum, until they no longer matter
 * or *sum exceeds `most`. False where one of them grows: there is no bound. */
static bool add_products(double *sum, double ratio, const double *z, int64_t i, int pp, double most,
                         bool two)
{
    for (; i >= 3 + pp && ratio != 0; i -= 4) {
        double before = two ? ratio : 0;
        if (z[i] > z[i - 2]) return false;
        ratio *= z[i] / z[i - 2];
        *sum += ratio;
        if (100 * greater(ratio, before) < *sum || most < *sum) return true;
    }
    return true;
}

static const double FAR = 0.563; /* 9/16: how large a sum of products may be */

/* s = gamma (1 - √a) / (1 + a), the bound from a Rayleigh quotient's residual; else s stays. */
static double rayleigh(double s, double gamma, double sum)
{
    sum *= 1.05;
    return sum < FAR ? gamma * (1 - sqrt(sum)) / (1 + sum) : s;
}

/* The least d is the last one or the one before. */
static double shift_at_end(lane *t, const double *z, int64_t i)
{
    const minima *d = &t->d;
    double b1 = sqrt(z[i - 3]) * sqrt(z[i - 5]), b2 = sqrt(z[i - 7]) * sqrt(z[i - 9]),
           a2 = z[i - 7] + z[i - 5];
    if (d->all == d->last && d->but_one == d->last_but_one) {
        double gap2 = d->but_two - a2 - d->but_two * 0.25;
        double gap1 =
            gap2 > 0 && gap2 > b2 ? a2 - d->last - (b2 / gap2) * b2 : a2 - d->last - (b1 + b2);
        t->kind = gap1 > 0 && gap1 > b1 ? -2 : -3;
        if (t->kind == -2) return greater(d->last - (b1 / gap1) * b1, 0.5 * d->all);
        double s = d->last > b1 ? d->last - b1 : 0;
        if (a2 > b1 + b2) s = lesser(s, a2 - (b1 + b2));
        return greater(s, 0.333 * d->all);
    }
    t->kind = -4;
    double s = 0.25 * d->all, sum = 0, gamma = d->last;
    int64_t from = i - 9, np = i - 2 * t->pp;
    if (d->all != d->last) {
        gamma = d->last_but_one;
        if (z[np - 4] > z[np - 2]) return t->tau;
        sum = z[np - 4] / z[np - 2];
        from = i - 13;
        i -= 4;
    }
    if (z[i - 5] > z[i - 7]) return t->tau;
    double ratio = z[i - 5] / z[i - 7];
    sum += ratio;
    if (!add_products(&sum, ratio, z, from, t->pp, FAR, true)) return t->tau;
    return rayleigh(s, gamma, sum);
}

/* The least d is the last but two. */
static double shift_before_end(lane *t, const double *z, int64_t i)
{
    int64_t np = i - 2 * t->pp;
    double b1 = z[np - 2], b2 = z[np - 6];
    t->kind = -5;
    if (z[np - 8] > b2 || z[np - 4] > b1) return t->tau;
    double sum = (z[np - 8] / b2) * (1 + z[np - 4] / b1);
    double s = 0.25 * t->d.all, gamma = t->d.last_but_two;
    if (t->end - 1 <= 2) return sum < FAR ? gamma * (1 - sqrt(sum)) / (1 + sum) : s;
    double ratio = z[i - 13] / z[i - 15];
    sum += ratio;
    if (!add_products(&sum, ratio, z, i - 17, t->pp, FAR, true)) return t->tau;
    return rayleigh(s, gamma, sum);
}

static double shift_unknown(lane *t)
{
    t->damping = t->kind == -6    ? t->damping + 0.333 * (1 - t->damping)
                 : t->kind == -18 ? 0.25 * 0.333
                                  : 0.25;
    t->kind = -6;
    return t->damping * t->d.all;
}

/* One row has just converged. */
static double shift_after_one(lane *t, const double *z, int64_t i)
{
    const minima *d = &t->d;
    if (d->but_one != d->last_but_one || d->but_two != d->last_but_two) {
        t->kind = -9;
        return (d->but_one == d->last_but_one ? 0.5 : 0.25) * d->but_one;
    }
    t->kind = -7;
    double s = 0.333 * d->but_one;
    if (z[i - 5] > z[i - 7]) return t->tau;
    double ratio = z[i - 5] / z[i - 7], sum = ratio;
    if (!add_products(&sum, ratio, z, i - 9, t->pp, INFINITY, true)) return t->tau;
    double b = sqrt(1.05 * sum), a = d->but_one / (1 + b * b), gap = 0.5 * d->but_two - a;
    if (gap > 0 && gap > b * a) return greater(s, a * (1 - 1.01 * a * (b / gap) * b));
    t->kind = -8;
    return greater(s, a * (1 - 1.01 * b));
}

/* Two rows have just converged. */
static double shift_after_two(lane *t, const double *z, int64_t i)
{
    const minima *d = &t->d;
    if (d->but_two != d->last_but_two || !(2 * z[i - 5] < z[i - 7])) {
        t->kind = -11;
        return 0.25 * d->but_two;
    }
    t->kind = -10;
    double s = 0.333 * d->but_two;
    if (z[i - 5] > z[i - 7]) return t->tau;
    double ratio = z[i - 5] / z[i - 7], sum = ratio;
    if (!add_products(&sum, ratio, z, i - 9, t->pp, INFINITY, false)) return t->tau;
    double b = sqrt(1.05 * sum), a = d->but_two / (1 + b * b);
    double gap = z[i - 7] + z[i - 9] - sqrt(z[i - 11]) * sqrt(z[i - 9]) - a;
    if (gap > 0 && gap > b * a) return greater(s, a * (1 - 1.01 * a * (b / gap) * b));
    return greater(s, a * (1 - 1.01 * b));
}

static double shift(lane *t)
{
    const double *z = t->z;
    const minima *d = &t->d;
    int64_t i = 4 * t->end + t->pp, converged = t->end_before - t->end;
    if (d->all <= 0) {
        t->kind = -1;
        return -d->all;
    }
    if (converged == 1) return shift_after_one(t, z, i);
    if (converged == 2) return shift_after_two(t, z, i);
    if (converged > 2) {
        t->kind = -12;
        return 0;
    }
    if (d->all == d->last || d->all == d->last_but_one) return shift_at_end(t, z, i);
    if (d->all == d->last_but_two) return shift_before_end(t, z, i);
    return shift_unknown(t);
}

/* ---- from one transform to the next ---- */

/* The variables of two transforms under way: d of the row at hand, and below which it counts as 0
 * (for a shift of 0); the least d and the least e until now. */
typedef struct transform {
    pair d, tau, zero, d_least, e_least, rows;
} transform;

static void begin(transform *now, int j, lane *t)
{
    double zero = DBL_EPSILON * (t->sigma + t->tau), q = t->z[1 + t->pp];
    if (t->tau < zero * 0.5) t->tau = 0;
    t->left = t->end - 3;
    t->tries--;
    now[j / 2].d[j % 2] = now[j / 2].d_least[j % 2] = q - t->tau;
    now[j / 2].tau[j % 2] = t->tau;
    now[j / 2].zero[j % 2] = t->tau != 0 ? -INFINITY : zero;
    now[j / 2].e_least[j % 2] = t->z[5 + t->pp];
    now[j / 2].rows[j % 2] = (double)t->left;
}

/* A row near the end, where it matters that no product underflows. i: 4 × row − pp. */
static double row_alone(const lane *t, int64_t i, double d)
{
    double *z = t->z, *from = z + i + 2 * t->pp - 1;
    z[i - 2] = d + from[0];
    z[i] = from[2] * (from[0] / z[i - 2]);
    return from[2] * (d / z[i - 2]) - t->tau;
}

static void finish_transform(const transform *now, int j, lane *t)
{
    const transform *w = &now[j / 2];
    minima *d = &t->d;
    int64_t i = 4 * (t->end - 2) - t->pp;
    d->last_but_two = w->d[j % 2];
    d->but_two = w->d_least[j % 2];
    d->last_but_one = row_alone(t, i, d->last_but_two);
    d->but_one = lesser(d->but_two, d->last_but_one);
    d->last = row_alone(t, i + 4, d->last_but_one);
    d->all = lesser(d->but_one, d->last);
    t->z[i + 6] = d->last;
    t->z[4 * t->end - t->pp] = w->e_least[j % 2];
}

/* Whether the transform stands; else a smaller shift is chosen for another try. */
static bool judge(lane *t)
{
    minima *d = &t->d;
    double *z = t->z + 4 * (t->end - 1) - t->pp;
    if (d->all >= 0) return true;
    if (d->but_one > 0 && z[0] < TOLERANCE * (t->sigma + d->last_but_one) &&
        fabs(d->last) < TOLERANCE * t->sigma) {
        z[2] = 0; /* converged, hidden by a negative last d */
        d->all = 0;
        return true;
    }
    if (t->kind < -22) { /* failed twice */
        t->tau = 0;
    } else if (d->but_one > 0) { /* a late failure gives an excellent shift */
        t->tau = (t->tau + d->all) * (1 - 2 * DBL_EPSILON);
        t->kind -= 11;
    } else {
        t->tau *= 0.25;
        t->kind -= 12;
    }
    return false;
}

/* sigma += tau, with what rounding leaves kept beside it. */
static void add_shift(lane *t)
{
    double sum;
    if (t->tau < t->sigma) {
        t->sigma_low += t->tau;
        sum = t->sigma + t->sigma_low;
        t->sigma_low -= sum - t->sigma;
    } else {
        sum = t->sigma + t->tau;
        t->sigma_low = t->sigma - (sum - t->tau) + t->sigma_low;
    }
    t->sigma = sum;
}

/* Every second transform: where some e may be negligible, looks which, and leaves the rows above the
 * last such one for later, with sigma in the place of that e. */
static void split(lane *t)
{
    double *z = t->z, *last = z + 4 * t->end;
    if (t->pp != 0 || t->end < 4) return;
    if (!(last[0] <= NEGLIGIBLE * t->q_most || last[-1] <= NEGLIGIBLE * t->sigma)) return;
    double e_least = z[3], e_before = z[4];
    int64_t rows = 0;
    t->q_most = z[1];
    for (int64_t i = 4; i <= 4 * (t->end - 3); i += 4) {
        bool negligible = z[i] <= NEGLIGIBLE * z[i - 3] || z[i - 1] <= NEGLIGIBLE * t->sigma;
        if (negligible) {
            z[i - 1] = -t->sigma;
            rows = i / 4;
        }
        t->q_most = negligible ? 0 : greater(t->q_most, z[i + 1]);
        e_least = negligible ? z[i + 3] : lesser(e_least, z[i - 1]);
        e_before = negligible ? z[i + 4] : lesser(e_before, z[i]);
    }
    last[-1] = e_least;
    last[0] = e_before;
    t->above += rows;
    t->end -= rows;
    t->z += 4 * rows;
}

/* Takes off what has converged and chooses the shift of the next transform. */
static verdict prepare(lane *t)
{
    for (;;) {
        if (t->tries <= 0) return GIVE_UP;
        t->end_before = t->end;
        deflate(t);
        if (t->end > 0) break;
        if (t->above == 0) return DONE;
        verdict v = open_block(t);
        if (v != TRANSFORM) return v;
    }
    const double *z = t->z;
    bool flippable = t->d.all <= 0 || t->end < t->end_before;
    if (flippable && 1.5 * z[1 + t->pp] < z[4 * t->end + t->pp - 3]) return GIVE_UP;
    t->tau = shift(t);
    return TRANSFORM;
}

static verdict start(lane *t, const rs_bidiagonal *item)
{
    verdict v = load(t, item);
    if (v == TRANSFORM) v = settle(t);
    if (v == TRANSFORM) v = open_block(t);
    return v == TRANSFORM ? prepare(t) : v;
}

static verdict advance(lane *t)
{
    if (isnan(t->d.last)) return GIVE_UP;
    if (!judge(t)) return TRANSFORM; /* once more */
    add_shift(t);
    t->pp = 1 - t->pp;
    split(t);
    return prepare(t);
}

static rs_status finish(const lane *t, verdict v, rs_error *err)
{
    const rs_bidiagonal *item = t->item;
    lapack_int n = (lapack_int)item->n, info = 0;
    if (v == GIVE_UP) { /* the matrix itself is as it was */
        if (n > 0)
            info = LAPACKE_dbdsqr_work(LAPACK_COL_MAJOR, 'U', n, 0, 0, 0, item->d, item->e, NULL, 1,
                                       NULL, 1, NULL, 1, t->whole);
        if (info == 0) return RS_OK;
        return rs_fail(err, RS_E_LAPACK, "singular values", NULL, "dbdsqr gave up (info %d)",
                       (int)info);
    }
    double factor = t->largest / t->scale;
    rs_sort_doubles(t->values + 1, t->n);
    for (int64_t i = 0; i < t->n; i++)
        item->d[i] = sqrt(t->values[t->n - i]) * factor;
    return RS_OK;
}

/* ---- all lanes ---- */

/* Row `at` of two lanes: from (q, e) at a and b to (q', e') at a_out and b_out. Of a lane that has no such
 * row what is written lies behind its block, and nothing else changes. */
static inline void row(transform *w, pair at, const double *a, const double *b, double *a_out,
                       double *b_out)
{
    pair e = {a[0], b[0]}, q = {a[2], b[2]};
    pair sum = w->d + e, ratio = q / sum, next = w->d * ratio - w->tau, e_next = e * ratio;
    mask here = at < w->rows, kept = ~(next < w->zero) & here;
    w->d = (pair)((kept & (mask)next) | (~here & (mask)w->d));
    mask less = w->d < w->d_least, fewer = (e_next < w->e_least) & here;
    w->d_least = (pair)((less & (mask)w->d) | (~less & (mask)w->d_least));
    w->e_least = (pair)((fewer & (mask)e_next) | (~fewer & (mask)w->e_least));
    a_out[0] = sum[0], b_out[0] = sum[1];
    a_out[2] = e_next[0], b_out[2] = e_next[1];
}

static void transform_together(transform now[LANES / 2], const lane *all, int lanes, int64_t rows)
{
    double *in[LANES], *out[LANES];
    for (int j = 0; j < lanes; j++) {
        in[j] = all[j].z + 3 + all[j].pp;
        out[j] = all[j].z + 2 - all[j].pp;
    }
    transform first = now[0], second = now[1], third = now[2], fourth = now[3];
    pair at = {0, 0};
    for (int64_t i = 0; i < 4 * rows && lanes == LANES; i += 4, at += 1) {
        row(&first, at, in[0] + i, in[1] + i, out[0] + i, out[1] + i);
        row(&second, at, in[2] + i, in[3] + i, out[2] + i, out[3] + i);
        row(&third, at, in[4] + i, in[5] + i, out[4] + i, out[5] + i);
        row(&fourth, at, in[6] + i, in[7] + i, out[6] + i, out[7] + i);
    }
    for (int64_t i = 0; i < 4 * rows && lanes < LANES; i += 4, at += 1) {
        row(&first, at, in[0] + i, in[1] + i, out[0] + i, out[1] + i);
        row(&second, at, in[2] + i, in[3] + i, out[2] + i, out[3] + i);
    }
    now[0] = first, now[1] = second, now[2] = third, now[3] = fourth;
}

typedef struct queue {
    const rs_bidiagonal *items;
    size_t next, count;
    int64_t rows; /* of the largest */
} queue;

/* An idle lane takes part in no row. */
static void rest(lane *t)
{
    *t = (lane){.values = t->values, .whole = t->whole, .z = t->whole, .end = 3};
}

/* Gives lane j its next transform: of its matrix, or of the next one that needs any. */
static rs_status refill(transform *now, int j, lane *t, queue *q, rs_error *err)
{
    verdict v = t->item ? advance(t) : DONE;
    while (v != TRANSFORM) {
        if (t->item) RS_TRY(finish(t, v, err));
        if (q->next == q->count) {
            rest(t);
            break;
        }
        v = start(t, &q->items[q->next++]);
    }
    begin(now, j, t);
    return RS_OK;
}

/* Rows of the longest transform; busy: whether there is any. */
static int64_t most_rows(const lane *all, int lanes, bool *busy)
{
    int64_t rows = 0;
    *busy = false;
    for (int j = 0; j < lanes; j++) {
        *busy = *busy || all[j].item;
        if (all[j].left > rows) rows = all[j].left;
    }
    return rows;
}

size_t rs_bidiagonal_work(int64_t n)
{
    return (size_t)(LANES * (n + 1 + 8 * n + 8));
}

rs_status rs_bidiagonal_values(const rs_bidiagonal *items, size_t count, double *work,
                               rs_error *err)
{
    queue q = {.items = items, .count = count};
    lane all[LANES] = {{0}};
    transform now[LANES / 2];
    memset(now, 0, sizeof now);
    int lanes = count > LANES / 2 ? LANES : LANES / 2;
    bool busy;
    for (size_t i = 0; i < count; i++)
        if (items[i].n > q.rows) q.rows = items[i].n;
    for (int j = 0; j < lanes; j++) {
        all[j].values = work + j * (9 * q.rows + 9);
        all[j].whole = all[j].values + q.rows + 1;
        memset(all[j].whole, 0, (size_t)(8 * q.rows + 8) * sizeof *work);
        RS_TRY(refill(now, j, &all[j], &q, err));
    }
    for (int64_t rows = most_rows(all, lanes, &busy); busy; rows = most_rows(all, lanes, &busy)) {
        transform_together(now, all, lanes, rows);
        for (int j = 0; j < lanes; j++) {
            if (all[j].item) finish_transform(now, j, &all[j]);
            if (all[j].item || q.next < q.count) RS_TRY(refill(now, j, &all[j], &q, err));
        }
    }
    return RS_OK;
}
