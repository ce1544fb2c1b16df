/*
 * gram_mixing.c: sums over pairs of keys by powers (docs/theory/mean_field.md, 6).
 *
 * With pull = x + dx and apart = y + dy about the middles of their ranges,
 *
 *     exp(−pull dy) = exp(−x dy) Σ_m (−dx)^m/m! dy^m
 *
 * so that one sum over keys a power serves all pairs of rows, and on the way back one sum over rows a
 * power serves all pairs of keys. With z the largest |dx dy| the digits lost are those of e^{2z}.
 */
#include "predict/gram_mixing.h"

#include "base/memory.h"
#include "linalg/gemm.h"

#include <math.h>

struct rs_gram_mixing {
    int64_t n;
    /* [n, n] each: what is summed, its sums, half a product, totals, (−dx)^m/m! */
    double *table, *sums, *half, *total, *power;
    double middle; /* of apart, in the totals */
    double *block;
};

rs_status rs_gram_mixing_open(rs_gram_mixing **out, int64_t n, rs_error *err)
{
    enum { MATRICES = 5 };
    size_t size = (size_t)n * (size_t)n;
    rs_gram_mixing *m = *out = rs_calloc(1, sizeof *m);
    if (m) m->block = rs_malloc(size, MATRICES * sizeof *m->block);
    if (!m || !m->block) {
        rs_gram_mixing_close(m);
        *out = NULL;
        return rs_fail_memory(err, "a Gram matrix", size * MATRICES * sizeof(double));
    }
    m->n = n;
    double **matrices[MATRICES] = {&m->table, &m->sums, &m->half, &m->total, &m->power};
    for (size_t i = 0; i < MATRICES; i++)
        *matrices[i] = m->block + i * size;
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
    rs_gram_range r = {a[0], a[0]};
    for (int64_t i = 1; i < size; i++) {
        r.low = a[i] < r.low ? a[i] : r.low;
        r.high = a[i] > r.high ? a[i] : r.high;
    }
    return r;
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

/* ---- sums over keys ---- */

/* sums[i, i'] = Σ_{j ≤ i, j' ≤ i'} a[j, j'] for i' <= i, a symmetric. */
static void sum_prefixes(double *sums, const double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double row = 0;
        for (int64_t k = 0; k <= i; k++) {
            row += a[i * n + k];
            double above = i == 0 ? 0 : k < i ? sums[(i - 1) * n + k] : sums[i * n + i - 1];
            sums[i * n + k] = row + above;
        }
    }
}

/* sums[j, j'] = Σ_{i ≥ j, i' ≥ j'} a[i, i']. */
static void sum_suffixes(double *sums, const double *a, int64_t n)
{
    for (int64_t j = n - 1; j >= 0; j--) {
        double row = 0;
        for (int64_t k = n - 1; k >= 0; k--) {
            row += a[j * n + k];
            sums[j * n + k] = row + (j + 1 < n ? sums[(j + 1) * n + k] : 0);
        }
    }
}

/* sums = T table Tᵀ of the keys that rows see, or Tᵀ table T of the rows that see keys. */
static void sum_seen(rs_gram_mixing *m, const double *tilt, bool rows)
{
    int64_t n = m->n;
    if (!tilt && rows) sum_prefixes(m->sums, m->table, n);
    if (!tilt && !rows) sum_suffixes(m->sums, m->table, n);
    if (!tilt) return;
    rs_gemm_side first = rows ? RS_AS_IS : RS_TURNED, second = rows ? RS_TURNED : RS_AS_IS;
    rs_gemm_f64(first, RS_AS_IS, n, n, n, 1, tilt, n, m->table, n, 0, m->half, n);
    rs_gemm_f64(RS_AS_IS, second, n, n, n, 1, m->half, n, tilt, n, 0, m->sums, n);
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

static void mirror(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++)
            a[j * n + i] = a[i * n + j];
    }
}

/* total = Σ_jj' of weights that do not yet sum to 1, and the same of apart − middle where rest is
 * given. */
static bool sum_totals(double *rest, rs_gram_mixing *m, const rs_gram_law *law)
{
    int64_t n = m->n, size = n * n;
    rs_gram_range pulls = rs_gram_range_of(law->pull, size);
    rs_gram_range parts = rs_gram_range_of(law->apart, size);
    double x = rs_gram_middle(pulls), y = rs_gram_middle(parts);
    int terms = rs_gram_terms(pulls, parts);
    if (terms == 0) return false;
    m->middle = y;
    for (int64_t i = 0; i < size; i++)
        m->table[i] = exp(-x * (law->apart[i] - y));
    fill(m->total, size, 0);
    fill(m->power, size, 1);
    if (rest) fill(rest, size, 0);
    for (int k = 0; k <= terms; k++) {
        /* one power of apart more than of pull is that of the mean of apart */
        sum_seen(m, law->tilt, true);
        if (rest && k > 0) add_products(rest, m->power, m->sums, n);
        if (k > 0) raise_power(m->power, law->pull, x, -1.0 / k, size);
        add_products(m->total, m->power, m->sums, n);
        raise_power(m->table, law->apart, y, 1, size);
    }
    mirror(m->total, n);
    return true;
}

bool rs_gram_gather(double *rest, rs_gram_mixing *mixing, const rs_gram_law *law)
{
    int64_t n = mixing->n, size = n * n;
    if (!sum_totals(rest, mixing, law)) return false;
    mirror(rest, n);
    double middle = rs_gram_middle(rs_gram_range_of(law->apart, size));
    for (int64_t i = 0; i < size; i++)
        rest[i] = middle + rest[i] / mixing->total[i];
    return true;
}

bool rs_gram_scatter(double *back, rs_gram_mixing *mixing, const rs_gram_law *law,
                     const double *given)
{
    int64_t n = mixing->n, size = n * n;
    rs_gram_range pulls = rs_gram_range_of(law->pull, size);
    rs_gram_range parts = rs_gram_range_of(law->apart, size);
    double x = rs_gram_middle(pulls), y = rs_gram_middle(parts);
    int terms = rs_gram_terms(pulls, parts);
    if (!sum_totals(NULL, mixing, law)) return false;
    for (int64_t i = 0; i < size; i++)
        mixing->table[i] = given[i] / mixing->total[i];
    fill(back, size, 0);
    fill(mixing->power, size, 1);
    for (int k = 0; k < terms; k++) {
        sum_seen(mixing, law->tilt, false);
        if (k > 0) raise_power(mixing->power, law->apart, y, -1.0 / k, size);
        add_products(back, mixing->power, mixing->sums, n);
        raise_power(mixing->table, law->pull, x, 1, size);
    }
    mirror(back, n);
    for (int64_t i = 0; i < size; i++)
        back[i] *= exp(-x * (law->apart[i] - y));
    return true;
}

double rs_gram_shared(const rs_gram_mixing *m, const rs_gram_law *law, int64_t i, int64_t k)
{
    int64_t n = m->n;
    double sum = 0, pull = law->pull[i * n + k], total = m->total[i * n + k];
    /* keys are of one size: their own apart is 0 */
    if (!law->tilt) return (double)((i < k ? i : k) + 1) * exp(pull * m->middle) / total;
    for (int64_t j = 0; j < n; j++) {
        double seen = law->tilt[i * n + j] * law->tilt[k * n + j];
        if (seen > 0) sum += seen * exp(-pull * (law->apart[j * n + j] - m->middle));
    }
    return sum / total;
}
