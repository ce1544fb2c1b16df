/* gram_turned.c: sums over pairs of keys, distance by distance (docs/theory/mean_field.md, 6). */
#include "predict/gram_turned.h"

#include "base/memory.h"
#include "predict/gram_mixing.h"

#include <math.h>

enum { TERMS_MOST = 64 }; /* of a series within RS_GRAM_REACH */

struct rs_gram_turned {
    int64_t n;
    double *part, *weight; /* [n, n]: part_jj' at one distance, and weights of keys */
    double *sums, *moved;  /* [n + 1, n + 1]: prefix sums of weights, and of weights times apart */
    double *pull, *total, *rest, *given, *power; /* [n] each: of pairs (i, i − distance) */
    double *running;                             /* [n + 1, TERMS_MOST] */
    int64_t *from, *to;                          /* [n]: the rows that see a key */
    double *block;
};

rs_status rs_gram_turned_open(rs_gram_turned **out, int64_t n, rs_error *err)
{
    size_t side = (size_t)n + 1, size = side * side;
    size_t all = 4 * size + 5 * side + side * TERMS_MOST;
    rs_gram_turned *t = *out = rs_calloc(1, sizeof *t);
    if (t) t->block = rs_malloc(all, sizeof *t->block);
    if (t) t->from = rs_malloc(2 * side, sizeof *t->from);
    if (!t || !t->block || !t->from) {
        rs_gram_turned_close(t);
        *out = NULL;
        return rs_fail_memory(err, "a Gram matrix", all * sizeof(double));
    }
    t->n = n;
    t->to = t->from + n;
    t->part = t->block;
    t->sums = t->block + size;
    t->moved = t->block + 2 * size;
    t->weight = t->block + 3 * size;
    t->pull = t->block + 4 * size;
    t->total = t->pull + side;
    t->rest = t->total + side;
    t->given = t->rest + side;
    t->power = t->given + side;
    t->running = t->power + side;
    return RS_OK;
}

void rs_gram_turned_close(rs_gram_turned *turned)
{
    if (!turned) return;
    rs_free(turned->block);
    rs_free(turned->from);
    rs_free(turned);
}

/* Rows i and i − distance: part_jj' of all keys, and the pulls of pairs. */
static void set_distance(rs_gram_turned *t, const rs_gram_turned_law *law, int64_t distance)
{
    int64_t n = t->n;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t k = 0; k < n; k++) {
            int64_t apart = distance - (j - k);
            double turn = law->turn[apart < 0 ? -apart : apart];
            t->part[j * n + k] = 1 - turn + turn * law->ratio * law->apart[j * n + k];
        }
    }
    for (int64_t i = distance; i < n; i++)
        t->pull[i - distance] = law->pull[i * n + i - distance];
}

/* The weights of all keys at the middle of the pulls. */
static void set_weights(rs_gram_turned *t, const rs_gram_turned_law *law, double x, double y)
{
    for (int64_t j = 0; j < t->n; j++) {
        for (int64_t k = 0; k < t->n; k++) {
            int64_t at = j * t->n + k;
            t->weight[at] = law->own[j] * law->own[k] * exp(-x * (t->part[at] - y));
        }
    }
}

/* Prefix sums of weights, and of weights times apart; weights then gain a power of part − y. */
static void sum_prefixes(rs_gram_turned *t, const rs_gram_turned_law *law, double y)
{
    int64_t n = t->n, side = n + 1;
    for (int64_t k = 0; k <= n; k++)
        t->sums[k] = t->moved[k] = 0;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0, moved = 0;
        const double *above = t->sums + j * side, *moved_above = t->moved + j * side;
        double *row = t->sums + (j + 1) * side, *moved_row = t->moved + (j + 1) * side;
        row[0] = moved_row[0] = 0;
        for (int64_t k = 0; k < n; k++) {
            double w = t->weight[j * n + k];
            sum += w;
            moved += w * law->apart[j * n + k];
            row[k + 1] = above[k + 1] + sum;
            moved_row[k + 1] = moved_above[k + 1] + moved;
            t->weight[j * n + k] = w * (t->part[j * n + k] - y);
        }
    }
}

/* Over the keys that both rows see. */
static double seen_by(const double *sums, const rs_gram_turned_law *law, int64_t side, int64_t i,
                      int64_t other)
{
    const double *low = sums + law->first[i] * side, *high = sums + law->end[i] * side;
    int64_t from = law->first[other], to = law->end[other];
    return high[to] - high[from] - (low[to] - low[from]);
}

/* About what powers go at a distance, and how many. */
typedef struct series {
    double x, y;
    int terms;
} series;

/* total and rest of all pairs at a distance. */
static bool sum_distance(rs_gram_turned *t, series *s, const rs_gram_turned_law *law,
                         int64_t distance)
{
    int64_t n = t->n, pairs = n - distance;
    set_distance(t, law, distance);
    rs_gram_range parts = rs_gram_range_of(t->part, n * n);
    rs_gram_range pulls = rs_gram_range_of(t->pull, pairs);
    *s = (series){rs_gram_middle(pulls), rs_gram_middle(parts), rs_gram_terms(pulls, parts)};
    set_weights(t, law, s->x, s->y);
    for (int64_t i = 0; i < pairs; i++) {
        t->total[i] = t->rest[i] = 0;
        t->power[i] = 1;
    }
    for (int k = 0; k < s->terms; k++) {
        sum_prefixes(t, law, s->y);
        for (int64_t i = 0; i < pairs; i++) {
            if (k > 0) t->power[i] *= (s->x - t->pull[i]) / k;
            t->total[i] += t->power[i] * seen_by(t->sums, law, n + 1, i + distance, i);
            t->rest[i] += t->power[i] * seen_by(t->moved, law, n + 1, i + distance, i);
        }
    }
    return s->terms > 0;
}

bool rs_gram_turned_gather(double *rest, rs_gram_turned *t, const rs_gram_turned_law *law)
{
    series s;
    for (int64_t distance = 0; distance < t->n; distance++) {
        if (!sum_distance(t, &s, law, distance)) return false;
        for (int64_t i = distance; i < t->n; i++) {
            int64_t k = i - distance;
            rest[i * t->n + k] = rest[k * t->n + i] = t->rest[k] / t->total[k];
        }
    }
    return true;
}

/* ---- back ---- */

/* running[i, k]: Σ over rows before i of given/total (x − pull)^k/k!. */
static void sum_rows(rs_gram_turned *t, const series *s, int64_t distance)
{
    for (int k = 0; k < s->terms; k++)
        t->running[k] = 0;
    for (int64_t i = 0; i < t->n - distance; i++) {
        const double *before = t->running + i * TERMS_MOST;
        double *behind = t->running + (i + 1) * TERMS_MOST, term = t->given[i] / t->total[i];
        for (int k = 0; k < s->terms; k++) {
            behind[k] = before[k] + term;
            term *= (s->x - t->pull[i]) / (k + 1);
        }
    }
}

/* The rows that see a key are one stretch: both bounds of what a row sees grow with the row. */
static void find_rows(rs_gram_turned *t, const rs_gram_turned_law *law)
{
    for (int64_t j = 0; j < t->n; j++) {
        int64_t first = 0;
        while (first < t->n && law->end[first] <= j)
            first++;
        t->from[j] = first;
        while (first < t->n && law->first[first] <= j)
            first++;
        t->to[j] = first;
    }
}

static void add_distance(double *back, rs_gram_turned *t, const rs_gram_turned_law *law,
                         const series *s, int64_t distance)
{
    int64_t n = t->n, pairs = n - distance;
    sum_rows(t, s, distance);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t k = 0; k < n; k++) {
            /* pair i is of the rows i + distance and i */
            int64_t from = t->from[k], to = t->to[k];
            if (t->from[j] - distance > from) from = t->from[j] - distance;
            if (t->to[j] - distance < to) to = t->to[j] - distance;
            if (to > pairs) to = pairs;
            if (from >= to) continue;
            const double *low = t->running + from * TERMS_MOST;
            const double *high = t->running + to * TERMS_MOST;
            double away = t->part[j * n + k] - s->y, sum = 0;
            for (int q = s->terms - 1; q >= 0; q--)
                sum = sum * away + (high[q] - low[q]);
            sum *= law->own[j] * law->own[k] * exp(-s->x * away);
            back[j * n + k] += sum;
            /* the rows the other way round */
            if (distance > 0) back[k * n + j] += sum;
        }
    }
}

/* Of pairs (j, j), whose part is that of the distance. */
static void put_shared(double *shared, const rs_gram_turned *t, const rs_gram_turned_law *law,
                       const series *s, int64_t distance)
{
    int64_t n = t->n;
    for (int64_t k = 0; k + distance < n; k++) {
        int64_t i = k + distance;
        double sum = 0;
        for (int64_t j = law->first[i]; j < law->end[k]; j++)
            sum += law->own[j] * law->own[j] * exp(-t->pull[k] * (t->part[j * n + j] - s->y));
        shared[i * n + k] = sum / t->total[k];
    }
}

bool rs_gram_turned_scatter(double *back, double *shared, rs_gram_turned *t,
                            const rs_gram_turned_law *law, const double *given)
{
    int64_t n = t->n;
    for (int64_t i = 0; i < n * n; i++)
        back[i] = 0;
    find_rows(t, law);
    for (int64_t distance = 0; distance < n; distance++) {
        series s;
        if (!sum_distance(t, &s, law, distance)) return false;
        for (int64_t i = 0; i < n - distance; i++)
            t->given[i] = given[(i + distance) * n + i];
        put_shared(shared, t, law, &s, distance);
        add_distance(back, t, law, &s, distance);
    }
    return true;
}
