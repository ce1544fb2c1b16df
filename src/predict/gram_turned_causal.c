/*
 * gram_turned_causal.c: sums over pairs of keys, distance by distance, where each row sees the keys up to
 * itself (docs/theory/mean_field.md, 6). Rows i and i − distance see keys j and k from i = max(j, k +
 * distance) on: what a pair of keys weighs goes into one bucket, and rows take sums of buckets.
 */
#include "predict/gram_turned_causal.h"

#include "base/memory.h"
#include "predict/gram_kernels.h"
#include "predict/gram_mixing.h"

#include <math.h>

struct rs_gram_turned_causal {
    int64_t n, ld;
    double *alike, *apart, *weight, *back;  /* [n, ld] */
    double *turn;                           /* [2n + RS_GRAM_PAD], 1 − n first */
    double *own, *pull, *total, *rest;      /* [ld]; the last three of pairs (i, i − distance) */
    double *sums, *moved, *running, *twins; /* [RS_GRAM_TERMS, ld] */
    double *rows;                           /* [2 RS_GRAM_TERMS, RS_GRAM_PAD] */
    double *block;
};

rs_status rs_gram_turned_causal_open(rs_gram_turned_causal **out, int64_t n, rs_error *err)
{
    int64_t ld = (n + RS_GRAM_PAD - 1) / RS_GRAM_PAD * RS_GRAM_PAD;
    size_t side = (size_t)ld, size = (size_t)n * side, terms = RS_GRAM_TERMS * side;
    size_t all = 3 * size + 6 * side + RS_GRAM_PAD + 4 * terms + 2 * RS_GRAM_TERMS * RS_GRAM_PAD;
    rs_gram_turned_causal *t = *out = rs_calloc(1, sizeof *t);
    if (t) t->block = rs_calloc(all, sizeof *t->block);
    if (!t || !t->block) {
        rs_gram_turned_causal_close(t);
        *out = NULL;
        return rs_fail_memory(err, "a Gram matrix", all * sizeof(double));
    }
    t->n = n;
    t->ld = ld;
    t->alike = t->block;
    t->apart = t->alike + size;
    t->back = t->apart + size;
    t->own = t->back + size;
    t->pull = t->own + side;
    t->total = t->pull + side;
    t->rest = t->total + side;
    t->sums = t->rest + side;
    t->moved = t->sums + terms;
    t->running = t->moved + terms;
    t->twins = t->running + terms;
    t->rows = t->twins + terms;
    t->turn = t->rows + 2 * RS_GRAM_TERMS * RS_GRAM_PAD;
    return RS_OK;
}

void rs_gram_turned_causal_close(rs_gram_turned_causal *turned)
{
    if (!turned) return;
    rs_free(turned->block);
    rs_free(turned);
}

/* What is the same for all distances. */
static void place(rs_gram_turned_causal *t, const rs_gram_turned_law *law)
{
    int64_t n = t->n;
    for (int64_t j = 0; j < n; j++) {
        t->own[j] = law->own[j];
        for (int64_t k = 0; k < n; k++) {
            t->apart[j * t->ld + k] = law->apart[j * n + k];
            t->alike[j * t->ld + k] = 1 - law->ratio * law->apart[j * n + k];
        }
    }
    for (int64_t d = 0; d < n; d++)
        t->turn[n - 1 + d] = t->turn[n - 1 - d] = law->turn[d];
}

/* What a distance goes about; false: not by powers. */
static bool set_distance(rs_gram_turning *of, rs_gram_turned_causal *t,
                         const rs_gram_turned_law *law, int64_t distance, bool moved)
{
    const rs_gram_kernels *kernels = rs_gram_kernels_here();
    double range[2];
    for (int64_t i = distance; i < t->n; i++)
        t->pull[i - distance] = law->pull[i * t->n + i - distance];
    *of = (rs_gram_turning){.n = t->n,
                            .ld = t->ld,
                            .distance = distance,
                            .alike = t->alike,
                            .apart = t->apart,
                            .turn = t->turn + t->n - 1,
                            .own = t->own,
                            .sums = t->sums,
                            .moved = moved ? t->moved : NULL,
                            .rows = t->rows,
                            .running = t->running};
    kernels->turned_range(range, of);
    rs_gram_range parts = {range[0], range[1]};
    rs_gram_range pulls = rs_gram_range_of(t->pull, t->n - distance);
    of->x = rs_gram_middle(pulls);
    of->y = rs_gram_middle(parts);
    of->powers = rs_gram_terms(pulls, parts);
    return of->powers > 0 && rs_gram_in_reach(of->x, parts);
}

/* The caller's total of row i and the one `distance` before it. */
static double *total_of(const rs_gram_turned_law *law, int64_t i, int64_t distance)
{
    return law->total + i * (i + 1) / 2 + i - distance;
}

/* out[i] = Σ_m (x − pull)^m/m! times the sum of buckets up to i. */
static void sum_buckets(double *out, const rs_gram_turned_causal *t, const rs_gram_turning *of,
                        const double *buckets)
{
    int64_t pairs = t->n - of->distance;
    for (int64_t i = 0; i < pairs; i++)
        out[i] = 0;
    for (int m = of->powers - 1; m >= 0; m--) {
        double sum = 0;
        for (int64_t i = 0; i < pairs; i++) {
            sum += buckets[m * t->ld + i];
            out[i] = out[i] * (of->x - t->pull[i]) / (m + 1) + sum;
        }
    }
}

bool rs_gram_turned_causal_gather(double *rest, rs_gram_turned_causal *t,
                                  const rs_gram_turned_law *law)
{
    rs_gram_turning of;
    place(t, law);
    for (int64_t distance = 0; distance < t->n; distance++) {
        if (!set_distance(&of, t, law, distance, true)) return false;
        rs_gram_kernels_here()->turned_sums(&of);
        sum_buckets(t->total, t, &of, t->sums);
        sum_buckets(t->rest, t, &of, t->moved);
        for (int64_t i = distance; i < t->n; i++) {
            int64_t k = i - distance;
            if (law->total) *total_of(law, i, distance) = t->total[k];
            rest[i * t->n + k] = rest[k * t->n + i] = t->rest[k] / t->total[k];
        }
    }
    return true;
}

/* running[m, b]: Σ over rows from bucket b on of given/total (x − pull)^m/m!. */
static void sum_rows(rs_gram_turned_causal *t, const rs_gram_turning *of, const double *given)
{
    double sums[RS_GRAM_TERMS] = {0};
    for (int64_t k = t->n - of->distance - 1; k >= 0; k--) {
        double term = given[(k + of->distance) * t->n + k] / t->total[k];
        for (int m = 0; m < of->powers; m++) {
            sums[m] += term;
            t->running[m * t->ld + k] = sums[m];
            term *= (of->x - t->pull[k]) / (m + 1);
        }
    }
}

/*
 * Of pairs (j, j), whose part is 1 − turn alike_jj with the turn of the distance: Σ_j≤k own² exp(v alike_jj)
 * with v = pull turn, by powers of v and alike about the middles of their ranges.
 */
typedef struct twins {
    double v, alike;
    int terms; /* 0: not by powers */
} twins;

static twins set_twins(rs_gram_turned_causal *t, const rs_gram_turned_law *law)
{
    int64_t n = t->n;
    rs_gram_range pull = rs_gram_range_of(law->pull, n * n), alike = {t->alike[0], t->alike[0]};
    for (int64_t j = 1; j < n; j++) {
        alike.low = fmin(alike.low, t->alike[j * t->ld + j]);
        alike.high = fmax(alike.high, t->alike[j * t->ld + j]);
    }
    double most = fmax(fabs(pull.low), fabs(pull.high));
    rs_gram_range v = {-most, most};
    twins w = {rs_gram_middle(v), rs_gram_middle(alike), rs_gram_terms(v, alike)};
    for (int64_t j = 0; j < n; j++) {
        double away = t->alike[j * t->ld + j] - w.alike;
        double term = t->own[j] * t->own[j] * exp(w.v * away);
        for (int m = 0; m < w.terms; m++) {
            t->twins[m * t->ld + j] = term + (j > 0 ? t->twins[m * t->ld + j - 1] : 0);
            term *= away / (m + 1);
        }
    }
    return w;
}

static void put_shared(double *shared, const rs_gram_turned_causal *t,
                       const rs_gram_turned_law *law, const rs_gram_turning *of, const twins *w)
{
    int64_t n = t->n, distance = of->distance;
    double turn = law->turn[distance];
    for (int64_t k = 0; k + distance < n; k++) {
        double v = t->pull[k] * turn, sum = 0;
        for (int m = w->terms - 1; m >= 0; m--)
            sum = sum * (v - w->v) + t->twins[m * t->ld + k];
        for (int64_t j = 0; w->terms == 0 && j <= k; j++)
            sum += t->own[j] * t->own[j] * exp(v * (t->alike[j * t->ld + j] - w->alike));
        sum *= exp(v * w->alike - t->pull[k] * (1 - of->y));
        shared[(k + distance) * n + k] = sum / t->total[k];
    }
}

bool rs_gram_turned_causal_scatter(double *back, double *shared, rs_gram_turned_causal *t,
                                   const rs_gram_turned_law *law, const double *given)
{
    rs_gram_turning of;
    int64_t n = t->n, ld = t->ld;
    place(t, law);
    const twins w = set_twins(t, law);
    for (int64_t i = 0; i < n * ld; i++)
        t->back[i] = 0;
    for (int64_t distance = 0; distance < n; distance++) {
        if (!set_distance(&of, t, law, distance, false)) return false;
        if (law->total) {
            for (int64_t i = distance; i < n; i++)
                t->total[i - distance] = *total_of(law, i, distance);
        } else {
            rs_gram_kernels_here()->turned_sums(&of);
            sum_buckets(t->total, t, &of, t->sums);
        }
        put_shared(shared, t, law, &of, &w);
        sum_rows(t, &of, given);
        /* each distance once more with the rows the other way round */
        rs_gram_kernels_here()->turned_back(t->back, &of, distance > 0 ? 1 : 0.5);
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t k = 0; k <= j; k++)
            back[j * n + k] = back[k * n + j] = t->back[j * ld + k] + t->back[k * ld + j];
    }
    return true;
}
