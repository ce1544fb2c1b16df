/*
 * gram_mixing.c: sums over pairs of keys by powers (docs/theory/mean_field.md, 6).
 *
 * With pull = x + dx and apart = y + dy about the middles of their ranges,
 *
 *     exp(−pull dy) = exp(−x dy) Σ_m (−dx)^m/m! dy^m
 *
 * so that one sum over keys a power serves all pairs of rows, and on the way back one sum over rows a
 * power serves all pairs of keys. With z the largest |dx dy| the digits lost are those of e^{2z}. Rates
 * and sizes of keys go the same way, row by row: exp(rate size) = exp(a size) Σ_p (rate − a)^p/p! (size −
 * b)^p, but for what is the same for a whole row.
 */
#include "predict/gram_mixing.h"

#include "base/memory.h"
#include "linalg/gemm.h"
#include "predict/gram_kernels.h"

#include <math.h>

enum { SIDES = 16, ROW = 64 }; /* of rates and sizes, at most; numbers that are worked on at once */
#define WEIGHT_REACH 500.0     /* of logarithms of weights about the middle */
#define OWN_REACH 50.0         /* of those of one key's rate and size */

struct rs_gram_mixing {
    int64_t n, ld;
    /* [n, ld] each: weights at the middle of the pulls; dy; −dx; totals; what else is summed; and the
     * same turned about, so that the last row is the first */
    double *weight, *raised, *along, *total, *next, *back_weight, *back_raised, *back_along;
    double *columns, *running;       /* scratch of rs_gram_powers */
    double *own, *rates, *sizes;     /* [ld], and [SIDES, ld]: powers of rates and of sizes */
    double *back_rates, *back_sizes; /* the same, the last token first */
    double *moments;                 /* [n, RS_GRAM_TERMS]: of the keys that two rows share */
    double middle, rate, size, shared_rate; /* of apart, rates, sizes, and pull + both rates */
    int shared_terms;
    double *block;
};

rs_status rs_gram_mixing_open(rs_gram_mixing **out, int64_t n, rs_error *err)
{
    enum { MATRICES = 8 };
    int64_t ld = (n + RS_GRAM_PAD - 1) / RS_GRAM_PAD * RS_GRAM_PAD;
    size_t size = (size_t)n * (size_t)ld, side = (size_t)SIDES * (size_t)ld;
    size_t powers = (size_t)(RS_GRAM_TERMS + 1) * SIDES;
    size_t all = MATRICES * size + 4 * side + (size_t)ld + powers * (size_t)(ld + 2 * RS_GRAM_PAD) +
                 (size_t)ld * RS_GRAM_TERMS;
    rs_gram_mixing *m = *out = rs_calloc(1, sizeof *m);
    if (m) m->block = rs_calloc(all, sizeof *m->block);
    if (!m || !m->block) {
        rs_gram_mixing_close(m);
        *out = NULL;
        return rs_fail_memory(err, "a Gram matrix", all * sizeof(double));
    }
    m->n = n;
    m->ld = ld;
    double **matrices[MATRICES] = {&m->weight, &m->raised,      &m->along,       &m->total,
                                   &m->next,   &m->back_weight, &m->back_raised, &m->back_along};
    for (size_t i = 0; i < MATRICES; i++)
        *matrices[i] = m->block + i * size;
    m->rates = m->block + MATRICES * size;
    m->sizes = m->rates + side;
    m->back_rates = m->sizes + side;
    m->back_sizes = m->back_rates + side;
    m->own = m->back_sizes + side;
    m->columns = m->own + ld;
    m->running = m->columns + powers * (size_t)ld;
    m->moments = m->running + powers * 2 * RS_GRAM_PAD;
    return RS_OK;
}

void rs_gram_mixing_close(rs_gram_mixing *mixing)
{
    if (mixing) rs_free(mixing->block);
    rs_free(mixing);
}

/* ---- ranges and powers ---- */

rs_gram_range rs_gram_range_of(const double *a, int64_t size)
{
    double range[2];
    rs_gram_kernels_here()->range(range, a, size);
    return (rs_gram_range){range[0], range[1]};
}

double rs_gram_middle(rs_gram_range range)
{
    return (range.low + range.high) / 2;
}

int rs_gram_terms(rs_gram_range pull, rs_gram_range part)
{
    double z = (pull.high - pull.low) * (part.high - part.low) / 4, term = 1;
    int terms = 1;
    if (!(z <= RS_GRAM_REACH)) return 0;
    for (; term > 1e-16 * exp(-z); terms++)
        term *= z / terms;
    return terms;
}

bool rs_gram_in_reach(double pull, rs_gram_range part)
{
    return fabs(pull) * (part.high - part.low) / 2 < WEIGHT_REACH;
}

bool rs_gram_is_split(const double *rate, const double *size, int64_t n)
{
    rs_gram_range rates = rs_gram_range_of(rate, n), sizes = rs_gram_range_of(size, n);
    int terms = rs_gram_terms(rates, sizes);
    double reach = fabs(rs_gram_middle(rates)) * (sizes.high - sizes.low) / 2;
    return terms > 0 && terms <= SIDES && reach < OWN_REACH;
}

/* Of what the powers go about, and how many. */
typedef struct series {
    double x, y;
    int terms, sides;
} series;

/* false: not by powers. */
static bool set_series(series *s, rs_gram_mixing *m, const rs_gram_law *law)
{
    rs_gram_range pulls = rs_gram_range_of(law->pull, m->n * m->n);
    rs_gram_range parts = rs_gram_range_of(law->apart, m->n * m->n);
    *s = (series){rs_gram_middle(pulls), rs_gram_middle(parts), rs_gram_terms(pulls, parts), 1};
    m->middle = s->y;
    if (law->rate) {
        rs_gram_range rates = rs_gram_range_of(law->rate, m->n);
        rs_gram_range sizes = rs_gram_range_of(law->size, m->n);
        m->rate = rs_gram_middle(rates);
        m->size = rs_gram_middle(sizes);
        s->sides = rs_gram_terms(rates, sizes);
    }
    return s->terms > 0 && rs_gram_in_reach(s->x, parts);
}

/* ---- matrices ---- */

/* to[i, k] = sign (from[i, k] − middle) of the lower triangle; turned: rows and columns from the end. */
static void place_triangle(double *to, const rs_gram_mixing *m, const double *from, int64_t ld,
                           double middle, double sign, bool turned)
{
    for (int64_t i = 0; i < m->n; i++) {
        const double *row = from + (turned ? m->n - 1 - i : i) * ld;
        double *out = to + i * m->ld;
        if (turned) {
            row += m->n - 1;
            for (int64_t k = 0; k <= i; k++)
                out[k] = sign * (row[-k] - middle);
        } else {
            for (int64_t k = 0; k <= i; k++)
                out[k] = sign * (row[k] - middle);
        }
    }
}

/* ---- sums over keys, a causal mask's ---- */

/* Powers of rates over factorials, and of sizes. */
static void set_sides(rs_gram_mixing *m, const rs_gram_law *law, int sides)
{
    for (int64_t i = 0; i < m->n; i++) {
        m->rates[i] = m->sizes[i] = m->own[i] = 1;
        if (!law->rate) continue;
        double rate = law->rate[i] - m->rate, size = law->size[i] - m->size;
        m->own[i] = exp(m->rate * size);
        for (int s = 1; s < sides; s++) {
            m->rates[s * m->ld + i] = m->rates[(s - 1) * m->ld + i] * rate / s;
            m->sizes[s * m->ld + i] = m->sizes[(s - 1) * m->ld + i] * size;
        }
    }
}

static rs_gram_powers powers_of(const rs_gram_mixing *m, const series *s)
{
    return (rs_gram_powers){.n = m->n,
                            .ld = m->ld,
                            .total = m->total,
                            .weight = m->weight,
                            .raised = m->raised,
                            .along = m->along,
                            .out = m->rates,
                            .in = m->sizes,
                            .powers = s->terms,
                            .sides = s->sides,
                            .columns = m->columns,
                            .running = m->running};
}

static void set_weights(rs_gram_mixing *m, const rs_gram_law *law, const series *s)
{
    place_triangle(m->raised, m, law->apart, m->n, s->y, 1, false);
    set_sides(m, law, s->sides);
    rs_gram_kernels_here()->weigh(m->weight, m->raised, s->x, m->own, m->n, m->ld);
}

/* totals, and sums of apart − middle in `next` where asked for. */
static void sum_prefixes(rs_gram_mixing *m, const rs_gram_law *law, const series *s, bool next)
{
    rs_gram_powers of = powers_of(m, s);
    place_triangle(m->along, m, law->pull, m->n, s->x, -1, false);
    if (next) of.next = m->next;
    rs_gram_kernels_here()->powers(&of);
}

/* [sides, ld] from the last token to the first. */
static void turn_sides(double *to, const double *from, const rs_gram_mixing *m, int sides)
{
    for (int s = 0; s < sides; s++) {
        for (int64_t i = 0; i < m->n; i++)
            to[s * m->ld + i] = from[s * m->ld + m->n - 1 - i];
    }
}

/* back ∘ weight; back has its upper triangle, weight its lower. */
static void weigh_back(double *back, const rs_gram_mixing *m)
{
    enum { TILE = 8 };
    int64_t n = m->n;
    for (int64_t i = 0; i < n; i += TILE) {
        for (int64_t j = 0; j <= i; j += TILE) {
            for (int64_t r = i; r < i + TILE && r < n; r++) {
                for (int64_t c = j; c < j + TILE && c <= r; c++)
                    back[r * n + c] = back[c * n + r] *= m->weight[r * m->ld + c];
            }
        }
    }
}

/* Suffixes of given/total are prefixes from the other end. */
static void sum_suffixes(double *back, rs_gram_mixing *m, const rs_gram_law *law, const series *s,
                         const double *given)
{
    int64_t n = m->n, ld = m->ld;
    for (int64_t i = 0; i < n; i++) {
        const double *total = m->total + (n - 1 - i) * ld + n - 1;
        const double *row = given + (n - 1 - i) * n + n - 1;
        for (int64_t k = 0; k <= i; k++)
            m->back_weight[i * ld + k] = row[-k] / total[-k];
    }
    place_triangle(m->back_raised, m, law->pull, n, s->x, -1, true);
    place_triangle(m->back_along, m, law->apart, n, s->y, 1, true);
    rs_gram_powers of = powers_of(m, s);
    of.total = m->next;
    of.weight = m->back_weight;
    of.raised = m->back_raised;
    of.along = m->back_along;
    /* rates are summed over, sizes are those of what comes out */
    turn_sides(m->back_rates, m->rates, m, s->sides);
    turn_sides(m->back_sizes, m->sizes, m, s->sides);
    of.in = m->back_rates;
    of.out = m->back_sizes;
    rs_gram_kernels_here()->powers(&of);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = i; k < n; k++)
            back[i * n + k] = m->next[(n - 1 - i) * ld + n - 1 - k];
    }
    weigh_back(back, m);
}

/* ---- sums over keys of any mask ---- */

/* The matrices of the other way, [n, n] each. */
typedef struct whole {
    double *table, *sums, *half, *total, *power;
} whole;

static whole whole_of(const rs_gram_mixing *m)
{
    return (whole){m->weight, m->raised, m->along, m->total, m->next};
}

/* sums = T table Tᵀ of the keys that rows see, or Tᵀ table T of the rows that see keys. */
static void sum_seen(const whole *w, const double *tilt, int64_t n, bool rows)
{
    rs_gemm_side first = rows ? RS_AS_IS : RS_TURNED, second = rows ? RS_TURNED : RS_AS_IS;
    rs_gemm_f64(first, RS_AS_IS, n, n, n, 1, tilt, n, w->table, n, 0, w->half, n);
    rs_gemm_f64(RS_AS_IS, second, n, n, n, 1, w->half, n, tilt, n, 0, w->sums, n);
}

static void fill(double *a, int64_t size, double value)
{
    for (int64_t i = 0; i < size; i++)
        a[i] = value;
}

/* a *= factor (b − middle) */
static void raise_power(double *a, const double *b, double middle, double factor, int64_t size)
{
    for (int64_t i = 0; i < size; i++)
        a[i] *= factor * (b[i] - middle);
}

/* out += a b of the lower triangle. */
static void add_products(double *out, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = i * n; k <= i * n + i; k++)
            out[k] += a[k] * b[k];
    }
}

/* total = Σ_jj' of weights that do not yet sum to 1, and the same of apart − middle where rest is
 * given. */
static void sum_totals(double *rest, const rs_gram_mixing *m, const rs_gram_law *law,
                       const series *s)
{
    int64_t n = m->n, size = n * n;
    const whole w = whole_of(m);
    for (int64_t i = 0; i < size; i++)
        w.table[i] = exp(-s->x * (law->apart[i] - s->y));
    fill(w.total, size, 0);
    fill(w.power, size, 1);
    if (rest) fill(rest, size, 0);
    for (int k = 0; k <= s->terms; k++) {
        /* one power of apart more than of pull is that of the mean of apart */
        sum_seen(&w, law->tilt, n, true);
        if (rest && k > 0) add_products(rest, w.power, w.sums, n);
        if (k > 0) raise_power(w.power, law->pull, s->x, -1.0 / k, size);
        add_products(w.total, w.power, w.sums, n);
        raise_power(w.table, law->apart, s->y, 1, size);
    }
    rs_gram_mirror(w.total, n, n);
}

static void sum_back(double *back, const rs_gram_mixing *m, const rs_gram_law *law, const series *s,
                     const double *given)
{
    int64_t n = m->n, size = n * n;
    const whole w = whole_of(m);
    for (int64_t i = 0; i < size; i++)
        w.table[i] = given[i] / w.total[i];
    fill(back, size, 0);
    fill(w.power, size, 1);
    for (int k = 0; k < s->terms; k++) {
        sum_seen(&w, law->tilt, n, false);
        if (k > 0) raise_power(w.power, law->apart, s->y, -1.0 / k, size);
        add_products(back, w.power, w.sums, n);
        raise_power(w.table, law->pull, s->x, 1, size);
    }
    rs_gram_mirror(back, n, n);
    for (int64_t i = 0; i < size; i++)
        back[i] *= exp(-s->x * (law->apart[i] - s->y));
}

/* ---- both ---- */

/* Totals to the caller's triangle, or from there. */
static void move_totals(const rs_gram_mixing *m, const rs_gram_law *law, int64_t ld, bool out)
{
    double *kept = law->total;
    for (int64_t i = 0; kept && i < m->n; kept += ++i) {
        for (int64_t k = 0; k <= i; k++) {
            if (out)
                kept[k] = m->total[i * ld + k];
            else
                m->total[i * ld + k] = kept[k];
        }
    }
    if (!out) rs_gram_mirror(m->total, m->n, ld);
}

bool rs_gram_gather(double *rest, rs_gram_mixing *m, const rs_gram_law *law)
{
    int64_t n = m->n, ld = law->tilt ? n : m->ld;
    const double *sums = law->tilt ? rest : m->next;
    series s;
    if (!set_series(&s, m, law)) return false;
    if (law->tilt) {
        sum_totals(rest, m, law, &s);
    } else {
        set_weights(m, law, &s);
        sum_prefixes(m, law, &s, true);
    }
    move_totals(m, law, ld, true);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k <= i; k++)
            rest[i * n + k] = s.y + sums[i * ld + k] / m->total[i * ld + k];
    }
    rs_gram_mirror(rest, n, n);
    return true;
}

/* Keys that two rows share weigh by one number, pull and both rates: powers of it as well. */
static void set_moments(rs_gram_mixing *m, const rs_gram_law *law)
{
    rs_gram_range rates = rs_gram_range_of(law->rate, m->n);
    rs_gram_range pulls = rs_gram_range_of(law->pull, m->n * m->n);
    rs_gram_range both = {pulls.low + 2 * rates.low, pulls.high + 2 * rates.high};
    m->shared_rate = rs_gram_middle(both);
    m->shared_terms = rs_gram_terms(both, rs_gram_range_of(law->size, m->n));
    for (int64_t j = 0; j < m->n; j++) {
        double size = law->size[j] - m->size, term = exp(m->shared_rate * size);
        for (int p = 0; p < m->shared_terms; p++) {
            double before = j > 0 ? m->moments[p * m->ld + j - 1] : 0;
            m->moments[p * m->ld + j] = before + term;
            term *= size / (p + 1);
        }
    }
}

/* shared[k] times what the keys up to k weigh for rows i and k. */
static void add_shared(double *shared, const rs_gram_mixing *m, const rs_gram_law *law, int64_t i)
{
    const double *pull = law->pull + i * m->n;
    double sum[ROW];
    for (int64_t k = 0; k <= i; k += ROW) {
        int64_t count = i + 1 - k < ROW ? i + 1 - k : ROW;
        for (int64_t j = 0; j < count; j++)
            sum[j] = 0;
        for (int p = m->shared_terms - 1; p >= 0; p--) {
            const double *moment = m->moments + p * m->ld + k;
            for (int64_t j = 0; j < count; j++) {
                double rate = pull[k + j] + law->rate[i] + law->rate[k + j] - m->shared_rate;
                sum[j] = sum[j] * rate + moment[j];
            }
        }
        for (int64_t j = 0; j < count; j++)
            shared[k + j] *= sum[j];
    }
}

/* The same without powers. */
static void add_shared_keys(double *shared, const rs_gram_mixing *m, const rs_gram_law *law,
                            int64_t i)
{
    for (int64_t k = 0; k <= i; k++) {
        double rate = law->pull[i * m->n + k] + law->rate[i] + law->rate[k], sum = 0;
        for (int64_t j = 0; j <= k; j++)
            sum += exp(rate * (law->size[j] - m->size));
        shared[k] *= sum;
    }
}

/* Of all pairs of rows, into `next`. */
static void set_shared(rs_gram_mixing *m, const rs_gram_law *law)
{
    int64_t n = m->n, ld = m->ld;
    /* keys of one size: their own apart is 0 */
    double away = -m->middle;
    if (law->rate) {
        away += law->apart[0] + law->size[0] - m->size;
        set_moments(m, law);
    }
    for (int64_t i = 0; i < n; i++)
        m->own[i] = 1;
    place_triangle(m->along, m, law->pull, n, 0, 1, false);
    rs_gram_kernels_here()->weigh(m->next, m->along, away, m->own, n, ld);
    for (int64_t i = 0; i < n; i++) {
        double *shared = m->next + i * ld;
        if (law->rate && m->shared_terms > 0)
            add_shared(shared, m, law, i);
        else if (law->rate)
            add_shared_keys(shared, m, law, i);
        for (int64_t k = 0; k <= i; k++)
            shared[k] = shared[k] * (law->rate ? 1 : (double)(k + 1)) / m->total[i * ld + k];
    }
}

bool rs_gram_scatter(double *back, rs_gram_mixing *m, const rs_gram_law *law, const double *given)
{
    series s;
    if (!set_series(&s, m, law)) return false;
    if (law->tilt) {
        if (!law->total) sum_totals(NULL, m, law, &s);
        move_totals(m, law, m->n, false);
        sum_back(back, m, law, &s, given);
        return true;
    }
    set_weights(m, law, &s);
    if (!law->total) sum_prefixes(m, law, &s, false);
    move_totals(m, law, m->ld, false);
    sum_suffixes(back, m, law, &s, given);
    set_shared(m, law);
    return true;
}

double rs_gram_shared(const rs_gram_mixing *m, const rs_gram_law *law, int64_t i, int64_t k)
{
    int64_t n = m->n;
    double sum = 0, pull = law->pull[i * n + k];
    if (!law->tilt) return m->next[i * m->ld + k];
    for (int64_t j = 0; j < n; j++) {
        double seen = law->tilt[i * n + j] * law->tilt[k * n + j];
        if (seen > 0) sum += seen * exp(-pull * (law->apart[j * n + j] - m->middle));
    }
    return sum / m->total[i * n + k];
}
