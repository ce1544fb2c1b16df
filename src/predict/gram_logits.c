/*
 * gram_logits.c: the way back through queries and keys under a mask (docs/theory/mean_field.md, 6).
 *
 * Of the rows i ≥ i' the derivatives by logits of keys j and j' have covariance
 *
 *     D_jj' = B_ii' g t (δ_jj' − 1/m)/(m − 1)  over the m keys that both see,
 *
 * g the keys' mean gap, t = M − (m_i + m_i')M + M² (i = i': M − 2m₃ + E(ΣA²)²): each of its rows sums to 0,
 * as the derivatives by the logits of one softmax do. A query's token gains Σ_jj' D_jj' K_jj', a key's
 * Σ_ii' D_jj' K_ii', both times the turn of rotary positions at (i − i') − (j − j').
 */
#include "predict/gram_logits.h"

#include "linalg/gemm.h"
#include "predict/gram_kernels.h"

/* One pair of rows, i >= k. */
typedef struct pair {
    int64_t i, k;
    int64_t first, end; /* keys that both see */
    double t, t_kappa;  /* without and with what tokens of finite width have in common */
    double turned;      /* turn at i − k, and its mean over different keys */
    double turned_mean;
} pair;

static double turn_at(const rs_gram_logits *l, int64_t distance)
{
    return l->turn ? l->turn[distance < 0 ? -distance : distance] : 1;
}

/* means[m]: of the turn at `distance` from j − j', over different keys of m that stand in a row. */
static void set_means(const rs_gram_logits *l, int64_t distance)
{
    double sum = 0, near = 0; /* of all pairs so far, and of the last key with those before it */
    l->means[0] = l->means[1] = 1;
    for (int64_t m = 2; m <= l->read->n; m++) {
        near += turn_at(l, distance - (m - 1)) + turn_at(l, distance + (m - 1));
        sum += near;
        l->means[m] = sum / ((double)m * (double)(m - 1));
    }
}

static pair pair_of(const rs_gram_logits *l, int64_t i, int64_t k)
{
    int64_t n = l->read->n;
    pair p = {.i = i, .k = k, .first = l->first[i], .end = l->end[k]};
    double both = l->shared[i * n + k];
    p.t =
        both - (i == k ? l->tail[i] : (l->shared[i * n + i] + l->shared[k * n + k] - both) * both);
    p.t_kappa = p.t + l->kappa * (1 - both);
    p.turned = turn_at(l, i - k);
    p.turned_mean = l->turn ? l->means[p.end > p.first ? p.end - p.first : 0] : 1;
    return p;
}

/* Mean of the tokens' squares that a row sees. */
static double mean_square(const rs_gram_logits *l, int64_t first, int64_t end)
{
    return (l->squares[end] - l->squares[first]) / (double)(end - first);
}

/* Σ_jj' D_jj' K_jj' over B_ii', in units of gaps. */
static double of_query(const rs_gram_logits *l, const pair *p)
{
    double gap = l->gaps[p->k];
    double own = l->ratio * l->gaps[p->i] * gap * l->uneven[p->k] * p->t_kappa * p->turned;
    if (!l->turn) return own;
    /* what all keys have in common no longer drops out where positions turn it */
    double common = mean_square(l, p->first, p->end) - l->ratio * gap;
    return own + common * gap * p->t * (p->turned - p->turned_mean);
}

/* diagonal[f, e], off[f, e] + what each key of f … e, and each two of them, gain. */
static void note_keys(double *diagonal, double *off, const pair *p, double amount)
{
    double m = (double)(p->end - p->first);
    if (m < 2) return;
    *diagonal += amount / m;
    *off -= amount / (m * (m - 1));
}

/* a[x, y] = Σ of a[f, e] over f <= x and e >= y. */
static void sum_spans(double *a, int64_t n)
{
    for (int64_t x = 0; x < n; x++) {
        double sum = 0;
        for (int64_t y = n - 1; y >= 0; y--) {
            sum += a[x * n + y];
            a[x * n + y] = sum + (x > 0 ? a[(x - 1) * n + y] : 0);
        }
    }
}

static void add_spans(double *back, const rs_gram_logits *l, double scale)
{
    int64_t n = l->read->n;
    sum_spans(l->diagonal, n);
    sum_spans(l->off, n);
    for (int64_t j = 0; j < n; j++) {
        back[j * n + j] += scale * l->diagonal[j * n + j];
        for (int64_t k = 0; k < j; k++) {
            double sum = scale * l->off[k * n + j];
            back[j * n + k] += sum;
            back[k * n + j] += sum;
        }
    }
}

/* The pairs of rows at one distance that see keys low <= high are a stretch: from … to of the earlier
 * row. */
static void add_distance(double *back, const rs_gram_logits *l, int64_t distance, double scale)
{
    int64_t n = l->read->n, from = 0;
    for (int64_t high = 0; high < n; high++) {
        while (from < n && l->end[from] <= high)
            from++;
        int64_t to = from;
        for (int64_t low = 0; low <= high; low++) {
            while (to < n - distance && l->first[to + distance] <= low)
                to++;
            if (to <= from) continue;
            if (low == high) {
                double sum = l->diagonal[to] - l->diagonal[from];
                back[low * n + low] += scale * sum * turn_at(l, distance);
            } else {
                /* the rows either way round: half of the sum each */
                double sum = (l->off[to] - l->off[from]) / 2;
                sum *= turn_at(l, distance - (high - low)) + turn_at(l, distance + (high - low));
                back[high * n + low] += scale * sum;
                back[low * n + high] += scale * sum;
            }
        }
    }
}

static bool sees_from_start(const rs_gram_logits *l)
{
    for (int64_t i = 0; i < l->read->n; i++) {
        if (l->first[i] != 0) return false;
    }
    return true;
}

/* Where rows see all keys from the first on, what two keys gain at a distance goes by the higher one
 * alone: noted for all distances, it is one product with the turns. */
static void note_distance(double *back, const rs_gram_logits *l, int64_t distance, double scale)
{
    int64_t n = l->read->n, from = 0;
    for (int64_t high = 0; high < n; high++) {
        while (from < n - distance && l->end[from] <= high)
            from++;
        double diagonal = l->diagonal[n - distance] - l->diagonal[from];
        back[high * n + high] += scale * diagonal * turn_at(l, distance);
        l->noted[high * n + distance] = (l->off[n - distance] - l->off[from]) / 2;
    }
}

static void add_noted(double *back, const rs_gram_logits *l, double scale)
{
    int64_t n = l->read->n;
    for (int64_t d = 0; d < n; d++) {
        for (int64_t apart = 0; apart < n; apart++)
            l->turns[d * n + apart] = turn_at(l, d - apart) + turn_at(l, d + apart);
    }
    rs_gemm_f64(RS_AS_IS, RS_AS_IS, n, n, n, scale, l->noted, n, l->turns, n, 0, l->sums, n);
    for (int64_t high = 0; high < n; high++) {
        for (int64_t low = 0; low < high; low++) {
            back[high * n + low] += l->sums[high * n + high - low];
            back[low * n + high] += l->sums[high * n + high - low];
        }
    }
}

/* Each row sees the keys up to itself. */
static bool is_causal(const rs_gram_logits *l)
{
    for (int64_t i = 0; i < l->read->n; i++) {
        if (l->first[i] != 0 || l->end[i] != i + 1) return false;
    }
    return true;
}

/* Where that is so and nothing turns: rows k <= i both see the keys up to k. */
static double through_prefixes(double *back, const rs_gram_logits *l, const double *given,
                               double scale)
{
    int64_t n = l->read->n;
    const double *square = l->read->square, *gaps = l->gaps, *uneven = l->uneven;
    double *keys = l->diagonal, *own = l->off, all = 0; /* [n]: of keys; M of a row with itself */
    double ratio = l->ratio, kappa = l->kappa;
    for (int64_t i = 0; i < n; i++) {
        keys[i] = 0;
        own[i] = l->shared[i * n + i];
    }
    for (int64_t i = 0; i < n; i++) {
        const double *shared = l->shared + i * n, *gap = l->read->gap + i * n, *row = given + i * n;
        double own_i = own[i], square_i = square[i], gap_i = ratio * gaps[i], sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t k = 0; k <= i; k++) {
            double both = shared[k], tail = k < i ? (own_i + own[k] - both) * both : l->tail[i];
            double t = both - tail, twice = k < i ? 2 : 1;
            double product = (square_i + square[k]) / 2 - ratio * gap[k];
            double query = row[k] * gap_i * gaps[k] * uneven[k] * (t + kappa * (1 - both));
            sum += twice * product * query;
            keys[k] += twice * row[k] * product * gaps[k] * t;
            back[i * n + k] += scale * query;
        }
        all += sum;
    }
    /* what a key, and two keys, gain of all rows that see them */
    double diagonal = 0, off = 0;
    for (int64_t j = n - 1; j >= 0; j--) {
        double m = (double)(j + 1);
        diagonal += j > 0 ? keys[j] / m : 0;
        off -= j > 0 ? keys[j] / (m * (m - 1)) : 0;
        back[j * n + j] += scale * diagonal;
        for (int64_t k = 0; k < j; k++)
            back[j * n + k] += scale * off;
    }
    rs_gram_mirror(back, n, n);
    return all > 0 ? all : 0;
}

double rs_gram_through_logits(double *back, const rs_gram_logits *l, const double *given,
                              double scale)
{
    int64_t n = l->read->n;
    double sum = 0;
    if (!l->turn && is_causal(l)) return through_prefixes(back, l, given, scale);
    bool noted = l->turn && sees_from_start(l);
    for (int64_t i = 0; i < n * n; i++)
        l->diagonal[i] = l->off[i] = 0;
    l->squares[0] = 0;
    for (int64_t j = 0; j < n; j++)
        l->squares[j + 1] = l->squares[j] + l->read->square[j];
    for (int64_t distance = 0; distance < n; distance++) {
        double diagonal = 0, off = 0, twice = distance > 0 ? 2 : 1;
        if (l->turn) set_means(l, distance);
        for (int64_t k = 0; k + distance < n; k++) {
            int64_t i = k + distance;
            if (l->turn) {
                l->diagonal[k] = diagonal;
                l->off[k] = off;
            }
            if (l->first[i] >= l->end[k]) continue;
            pair p = pair_of(l, i, k);
            double product = rs_gram_state_product(l->read, l->ratio, i, k);
            double query = given[i * n + k] * of_query(l, &p);
            double key = twice * given[i * n + k] * product * l->gaps[k] * p.t;
            sum += twice * product * query;
            back[i * n + k] += scale * query;
            if (distance > 0) back[k * n + i] += scale * query;
            int64_t at = p.first * n + p.end - 1;
            note_keys(l->turn ? &diagonal : &l->diagonal[at], l->turn ? &off : &l->off[at], &p,
                      key);
        }
        if (!l->turn) continue;
        l->diagonal[n - distance] = diagonal;
        l->off[n - distance] = off;
        if (noted)
            note_distance(back, l, distance, scale);
        else
            add_distance(back, l, distance, scale);
    }
    if (noted) add_noted(back, l, scale);
    if (!l->turn) add_spans(back, l, scale);
    return sum > 0 ? sum : 0;
}
