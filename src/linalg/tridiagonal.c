/*
 * tridiagonal.c: the square-root-free QL iteration on four tridiagonal matrices side by side.
 *
 * Each lane of a vector holds one matrix as records (d_0, b_0, d_1, b_1, ...): diagonal and squared
 * entry beside it, with one record more behind. A lane asks for sweeps one after the other; all
 * lanes step together until the shortest of their sweeps ends, its lane decides what comes next,
 * and so on. What a lane computes does not depend on its neighbours.
 */
#include "linalg/tridiagonal.h"

#include "base/sort.h"
#include "linalg/blas.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LANES = 4, SWEEPS_A_ROW = 30 };
typedef double pair __attribute__((vector_size(2 * sizeof(double)))); /* of lanes */
typedef int64_t mask __attribute__((vector_size(2 * sizeof(int64_t))));

static const double EPS = DBL_EPSILON / 2;

/* Where one matrix stands. Rows lo...hi are the block at hand, of which those before l are done. */
typedef struct lane {
    const rs_tridiagonal *item; /* NULL: the lane is idle */
    double *z;                  /* [2n + 2] records */
    int64_t n, next, lo, hi, l, m;
    int64_t left; /* steps until the sweep ends; those from row m - 1 down to row l */
    int64_t sweeps;
    double sigma, gamma, p; /* of the sweep about to begin */
} lane;

/* The variables of two sweeps under way; r and the old c and gamma live for one step. */
typedef struct sweep {
    pair sigma, gamma, p, c, s;
} sweep;

typedef enum verdict { SWEEP, DONE, GIVE_UP } verdict;

/* ---- one matrix ---- */

static void load(lane *t, const rs_tridiagonal *item)
{
    t->item = item;
    t->n = item->n;
    t->next = t->sweeps = 0;
    t->l = 0;
    t->hi = -1; /* no block yet */
    for (int64_t i = 0; i < t->n; i++) {
        t->z[2 * i] = item->d[i];
        t->z[2 * i + 1] = i + 1 < t->n ? item->e[i] : 0;
    }
}

static void reverse(double *z, int64_t lo, int64_t hi)
{
    for (int64_t i = 2 * lo, j = 2 * hi; i < j; i++, j--) { /* a palindrome of d and b */
        double kept = z[i];
        z[i] = z[j];
        z[j] = kept;
    }
}

/* Finds the next block that does not split. Its squares must be far from both ends of the range:
 * these are the bounds beyond which dsterf rescales. */
static verdict open_block(lane *t)
{
    double *z = t->z;
    double largest, most = sqrt(1 / DBL_MIN) / 3, least = sqrt(DBL_MIN) / (EPS * EPS);
    do {
        if (t->next >= t->n) return DONE;
        int64_t m = t->lo = t->next;
        while (m < t->n - 1 &&
               !(fabs(z[2 * m + 1]) <= (sqrt(fabs(z[2 * m])) * sqrt(fabs(z[2 * m + 2]))) * EPS))
            m++;
        z[2 * m + 1] = 0;
        t->hi = m;
        t->next = m + 1;
        largest = 0;
        for (int64_t i = 2 * t->lo; i <= 2 * m; i++)
            if (fabs(z[i]) > largest) largest = fabs(z[i]);
    } while (t->hi == t->lo || largest == 0);
    if (!(largest >= least && largest <= most)) return GIVE_UP;
    for (int64_t i = t->lo; i < t->hi; i++)
        z[2 * i + 1] *= z[2 * i + 1];
    if (fabs(z[2 * t->hi]) < fabs(z[2 * t->lo])) reverse(z, t->lo, t->hi);
    t->l = t->lo;
    return SWEEP;
}

/* The last rows of the unfinished part that do not split from row l. */
static int64_t find_end(lane *t)
{
    double *z = t->z;
    int64_t m = t->l;
    while (m < t->hi && !(z[2 * m + 1] <= EPS * EPS * fabs(z[2 * m] * z[2 * m + 2])))
        m++;
    z[2 * m + 1] = 0;
    return m;
}

/* The eigenvalues of [a b; b c], the larger in magnitude first. */
static void two_by_two(double *first, double *second, double a, double b, double c)
{
    double sum = a + c, difference = fabs(a - c), twice = fabs(b + b), root;
    double large = fabs(a) > fabs(c) ? a : c, small = fabs(a) > fabs(c) ? c : a;
    if (difference > twice)
        root = difference * sqrt(1 + (twice / difference) * (twice / difference));
    else if (difference < twice)
        root = twice * sqrt(1 + (difference / twice) * (difference / twice));
    else
        root = twice * sqrt(2.0);
    *first = 0.5 * (sum < 0 ? sum - root : sum + root);
    *second = sum != 0 ? (large / *first) * small - (b / *first) * b : -0.5 * root;
}

/* √(x² + 1) */
static double hypotenuse(double x)
{
    double a = fabs(x), large = a > 1 ? a : 1, small = a > 1 ? 1 : a;
    return small == 0 ? large : large * sqrt(1 + (small / large) * (small / large));
}

/* Wilkinson's shift from the two first rows, and what the sweep starts with. */
static void begin_sweep(lane *t)
{
    const double *z = t->z + 2 * t->l;
    double root = sqrt(z[1]), sigma = (z[2] - z[0]) / (2 * root), r = hypotenuse(sigma);
    t->sigma = z[0] - root / (sigma + copysign(r, sigma));
    t->gamma = t->z[2 * t->m] - t->sigma;
    t->p = t->gamma * t->gamma;
    t->left = t->m - t->l;
    t->sweeps++;
}

/* Splits off what has converged until a sweep is due. */
static verdict advance(lane *t)
{
    double *z = t->z;
    for (;;) {
        while (t->l > t->hi) {
            if (t->sweeps >= SWEEPS_A_ROW * t->n) return GIVE_UP;
            verdict v = open_block(t);
            if (v != SWEEP) return v;
        }
        t->m = find_end(t);
        if (t->m == t->l + 1)
            two_by_two(&z[2 * t->l], &z[2 * t->m], z[2 * t->l], sqrt(z[2 * t->l + 1]), z[2 * t->m]);
        if (t->m > t->l + 1) break;
        t->l = t->m + 1;
    }
    if (t->sweeps >= SWEEPS_A_ROW * t->n) return GIVE_UP;
    begin_sweep(t);
    return SWEEP;
}

static rs_status finish(const lane *t, verdict v, rs_error *err)
{
    const rs_tridiagonal *item = t->item;
    if (v == GIVE_UP) { /* the matrix itself is as it was */
        lapack_int info = LAPACKE_dsterf_work((lapack_int)item->n, item->d, item->e);
        if (info == 0) return RS_OK;
        return rs_fail(err, RS_E_LAPACK, "eigenvalues", NULL, "dsterf gave up (info %d)",
                       (int)info);
    }
    for (int64_t i = 0; i < t->n; i++)
        item->d[i] = t->z[2 * i];
    rs_sort_doubles(item->d, item->n);
    return RS_OK;
}

/* ---- all lanes ---- */

/* Two lanes a row up: from row i, whose records are at a and b. */
static inline void step(sweep *w, double *a, double *b)
{
    pair square = {a[1], b[1]}, alpha = {a[0], b[0]};
    pair r = w->p + square, above = w->s * r, old_c = w->c, old_gamma = w->gamma;
    w->c = w->p / r;
    w->s = square / r;
    w->gamma = w->c * (alpha - w->sigma) - w->s * old_gamma;
    pair moved = old_gamma + (alpha - w->gamma);
    pair quotient = (w->gamma * w->gamma) / w->c, product = old_c * square;
    mask divided = w->c != 0;
    w->p = (pair)((divided & (mask)quotient) | (~divided & (mask)product));
    a[2] = moved[0], b[2] = moved[1];
    a[3] = above[0], b[3] = above[1];
}

/* Steps every lane `steps` rows up. rows[j] is the record of lane j's row. */
static void step_together(sweep now[LANES / 2], double *const rows[LANES], int64_t steps)
{
    double *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
    sweep first = now[0], second = now[1];
    for (int64_t i = 0; i > -2 * steps; i -= 2) {
        step(&first, a + i, b + i);
        step(&second, c + i, d + i);
    }
    now[0] = first;
    now[1] = second;
}

static void enter(sweep *now, int j, const lane *t)
{
    now[j / 2].sigma[j % 2] = t->sigma;
    now[j / 2].gamma[j % 2] = t->gamma;
    now[j / 2].p[j % 2] = t->p;
    now[j / 2].c[j % 2] = 1;
    now[j / 2].s[j % 2] = 0;
}

/* An idle lane runs along on a matrix of ones. */
static void rest(lane *t, int64_t rows)
{
    for (int64_t i = 0; i < 2 * rows + 2; i++)
        t->z[i] = 1;
    t->item = NULL;
    t->sigma = t->gamma = 0;
    t->p = 1;
    t->l = 0;
    t->left = rows;
}

typedef struct queue {
    const rs_tridiagonal *items;
    size_t next, count;
    int64_t rows; /* of the largest */
} queue;

/* Gives lane j its next sweep: of its matrix, or of the next one that needs any. */
static rs_status refill(sweep *now, int j, lane *t, queue *q, rs_error *err)
{
    for (;;) {
        if (t->item) {
            verdict v = advance(t);
            if (v == SWEEP) break;
            RS_TRY(finish(t, v, err));
        }
        if (q->next == q->count) {
            rest(t, q->rows);
            break;
        }
        load(t, &q->items[q->next++]);
    }
    enter(now, j, t);
    return RS_OK;
}

static int64_t shortest(const lane *all, bool *busy)
{
    int64_t steps = all[0].left;
    *busy = false;
    for (int j = 0; j < LANES; j++) {
        *busy = *busy || all[j].item;
        if (all[j].left < steps) steps = all[j].left;
    }
    return steps;
}

static void end_sweep(const sweep *now, int j, lane *t)
{
    const sweep *w = &now[j / 2];
    t->z[2 * t->l + 1] = w->s[j % 2] * w->p[j % 2];
    t->z[2 * t->l] = w->sigma[j % 2] + w->gamma[j % 2];
}

size_t rs_tridiagonal_work(int64_t n)
{
    return (size_t)(LANES * (2 * n + 2));
}

rs_status rs_tridiagonal_eigenvalues(const rs_tridiagonal *items, size_t count, double *work,
                                     rs_error *err)
{
    queue q = {.items = items, .count = count};
    lane all[LANES] = {{0}};
    sweep now[LANES / 2];
    bool busy;
    for (size_t i = 0; i < count; i++)
        if (items[i].n > q.rows) q.rows = items[i].n;
    for (int j = 0; j < LANES; j++) {
        all[j].z = work + j * (2 * q.rows + 2);
        RS_TRY(refill(now, j, &all[j], &q, err));
    }
    for (int64_t steps = shortest(all, &busy); busy; steps = shortest(all, &busy)) {
        double *rows[LANES];
        for (int j = 0; j < LANES; j++)
            rows[j] = all[j].z + 2 * (all[j].l + all[j].left - 1);
        step_together(now, rows, steps);
        for (int j = 0; j < LANES; j++) {
            all[j].left -= steps;
            if (all[j].left > 0) continue;
            end_sweep(now, j, &all[j]);
            RS_TRY(refill(now, j, &all[j], &q, err));
        }
    }
    return RS_OK;
}
