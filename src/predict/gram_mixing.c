/* gram_mixing.c: sums over pairs of keys by tables of the exponential (docs/theory/mean_field.md, 6). */
#include "predict/gram_mixing.h"

#include "base/memory.h"
#include "linalg/gemm.h"
#include "predict/gram_points.h"

#include <math.h>

struct rs_gram_mixing {
    int64_t n;
    /* [n, n] each: a table and its sums, half a product, totals, Π(x − x_k), what is given over its
     * total, and the shares of a point */
    double *table, *sums, *half, *total, *product, *ratio, *share;
    double *block;
};

rs_status rs_gram_mixing_open(rs_gram_mixing **out, int64_t n, rs_error *err)
{
    enum { MATRICES = 7 };
    size_t size = (size_t)n * (size_t)n;
    rs_gram_mixing *m = *out = rs_calloc(1, sizeof *m);
    if (m) m->block = rs_malloc(size, MATRICES * sizeof *m->block);
    if (!m || !m->block) {
        rs_gram_mixing_close(m);
        *out = NULL;
        return rs_fail_memory(err, "a Gram matrix", size * MATRICES * sizeof(double));
    }
    m->n = n;
    double **matrices[MATRICES] = {&m->table,   &m->sums,  &m->half, &m->total,
                                   &m->product, &m->ratio, &m->share};
    for (size_t i = 0; i < MATRICES; i++)
        *matrices[i] = m->block + i * size;
    return RS_OK;
}

void rs_gram_mixing_close(rs_gram_mixing *mixing)
{
    if (mixing) rs_free(mixing->block);
    rs_free(mixing);
}

/* Π (x − x_k)/half, of the lower triangle as all below. */
static void set_products(rs_gram_mixing *m, const double *x, const rs_gram_points *p)
{
    for (int64_t i = 0; i < m->n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double product = 1;
            for (int k = 0; k < p->count && p->count > 1; k++)
                product *= (x[i * m->n + j] - p->x[k]) / p->half;
            m->product[i * m->n + j] = product;
        }
    }
}

/* Lagrange's polynomial k at all x. */
static void set_shares(rs_gram_mixing *m, const double *x, const rs_gram_points *p, int k)
{
    for (int64_t i = 0; i < m->n; i++) {
        for (int64_t j = i * m->n; j <= i * m->n + i; j++) {
            double from = (x[j] - p->x[k]) / p->half;
            if (p->count == 1)
                m->share[j] = 1;
            else if (fabs(from) > 1e-9)
                m->share[j] = m->product[j] * p->weight[k] / from;
            else
                m->share[j] = rs_gram_share(p, k, x[j]);
        }
    }
}

static void add_shares(const rs_gram_mixing *m, double *out)
{
    for (int64_t i = 0; i < m->n; i++) {
        for (int64_t j = i * m->n; j <= i * m->n + i; j++)
            out[j] += m->sums[j] * m->share[j];
    }
}

static void mirror(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++)
            a[j * n + i] = a[i * n + j];
    }
}

/* ---- sums over keys ---- */

/* sums[i, i'] = Σ_{j ≤ i, j' ≤ i'} a[j, j'], a symmetric. */
static void sum_prefixes(double *sums, const double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double row = 0;
        for (int64_t k = 0; k <= i; k++) {
            row += a[i * n + k];
            double above = i == 0 ? 0 : k < i ? sums[(i - 1) * n + k] : sums[i * n + i - 1];
            sums[i * n + k] = row + above;
            sums[k * n + i] = sums[i * n + k];
        }
    }
}

/* sums[j, j'] = Σ_{i ≥ j, i' ≥ j'} a[i, i'], a symmetric. */
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

/* sums = T a Tᵀ of the keys that rows see, or Tᵀ a T of the rows that see keys. */
static void sum_seen(rs_gram_mixing *m, double *sums, const double *a, const double *tilt,
                     bool rows)
{
    int64_t n = m->n;
    if (!tilt) {
        if (rows)
            sum_prefixes(sums, a, n);
        else
            sum_suffixes(sums, a, n);
        return;
    }
    rs_gemm_side first = rows ? RS_AS_IS : RS_TURNED, second = rows ? RS_TURNED : RS_AS_IS;
    rs_gemm_f64(first, RS_AS_IS, n, n, n, 1, tilt, n, a, n, 0, m->half, n);
    rs_gemm_f64(RS_AS_IS, second, n, n, n, 1, m->half, n, tilt, n, 0, sums, n);
}

/* table = exp(−x (y − centre)) times `times`, symmetric. */
static void tabulate(rs_gram_mixing *m, double x, const double *y, double centre,
                     const double *times)
{
    int64_t n = m->n;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k <= i; k++) {
            double value = exp(-x * (y[i * n + k] - centre));
            if (times) value *= times[i * n + k];
            m->table[i * n + k] = m->table[k * n + i] = value;
        }
    }
}

static void clear(double *a, int64_t size)
{
    for (int64_t i = 0; i < size; i++)
        a[i] = 0;
}

/* total = Σ_jj' of weights that do not yet sum to 1, and the same of apart where rest is given. */
static bool sum_totals(double *rest, rs_gram_mixing *m, const rs_gram_law *law)
{
    int64_t n = m->n, size = n * n;
    rs_gram_range pulls = rs_gram_range_of(law->pull, size),
                  parts = rs_gram_range_of(law->apart, size);
    rs_gram_points p = rs_gram_points_over(pulls, parts);
    if (!p.enough) return false;
    set_products(m, law->pull, &p);
    clear(m->total, size);
    if (rest) clear(rest, size);
    for (int k = 0; k < p.count; k++) {
        set_shares(m, law->pull, &p, k);
        tabulate(m, p.x[k], law->apart, rs_gram_middle(parts), NULL);
        sum_seen(m, m->sums, m->table, law->tilt, true);
        add_shares(m, m->total);
        if (!rest) continue;
        for (int64_t i = 0; i < size; i++)
            m->table[i] *= law->apart[i];
        sum_seen(m, m->sums, m->table, law->tilt, true);
        add_shares(m, rest);
    }
    mirror(m->total, n);
    return true;
}

bool rs_gram_gather(double *rest, rs_gram_mixing *mixing, const rs_gram_law *law)
{
    if (!sum_totals(rest, mixing, law)) return false;
    mirror(rest, mixing->n);
    for (int64_t i = 0; i < mixing->n * mixing->n; i++)
        rest[i] /= mixing->total[i];
    return true;
}

bool rs_gram_scatter(double *back, rs_gram_mixing *mixing, const rs_gram_law *law,
                     const double *given)
{
    int64_t size = mixing->n * mixing->n;
    rs_gram_range pulls = rs_gram_range_of(law->pull, size),
                  parts = rs_gram_range_of(law->apart, size);
    if (!sum_totals(NULL, mixing, law)) return false;
    for (int64_t i = 0; i < size; i++)
        mixing->ratio[i] = given[i] / mixing->total[i];
    rs_gram_points p = rs_gram_points_over(parts, pulls);
    set_products(mixing, law->apart, &p);
    clear(back, size);
    double centre = rs_gram_middle(parts), common = rs_gram_middle(pulls);
    for (int k = 0; k < p.count; k++) {
        /* exp(−(pull − common)(apart − centre)) at apart = x_k */
        tabulate(mixing, p.x[k] - centre, law->pull, common, mixing->ratio);
        sum_seen(mixing, mixing->sums, mixing->table, law->tilt, false);
        set_shares(mixing, law->apart, &p, k);
        add_shares(mixing, back);
    }
    mirror(back, mixing->n);
    for (int64_t i = 0; i < size; i++)
        back[i] *= exp(-common * (law->apart[i] - centre));
    return true;
}
