/* attention_ranks.c: ranks of mixing matrices from all of their singular values. */
#include "measures/attention_ranks.h"

#include "base/random.h"
#include "linalg/blas.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The share of Σσ² that energy_rank asks for. */
#define ENERGY 0.9

rs_matrix_ranks rs_matrix_ranks_none(void)
{
    return (rs_matrix_ranks){NAN, NAN, NAN, NAN};
}

rs_matrix_ranks rs_matrix_ranks_of(const double *sigma, int64_t n, double size, bool single)
{
    rs_matrix_ranks out = {NAN, NAN, NAN, 0};
    double least = (double)n * (single ? (double)FLT_EPSILON : DBL_EPSILON) * size;
    double sum = 0, squares = 0, entropy = 0, so_far = 0;
    for (int64_t i = 0; i < n; i++) {
        double share =
            sigma[0] > 0 ? sigma[i] / sigma[0] : 0; /* squares neither over- nor underflow */
        out.numerical += sigma[i] > least;
        sum += share;
        squares += share * share;
    }
    if (!(sum > 0)) return out;
    out.stable = squares;
    for (int64_t i = 0; i < n; i++) {
        double p = sigma[i] / sigma[0] / sum;
        if (p > 0) entropy -= p * log(p);
    }
    out.effective = exp(entropy);
    for (int64_t i = 0; i < n && isnan(out.energy); i++) {
        so_far += sigma[i] / sigma[0] * (sigma[i] / sigma[0]);
        if (so_far >= ENERGY * squares) out.energy = (double)(i + 1);
    }
    return out;
}

rs_visible_keys rs_visible_keys_of(int64_t i, int64_t n, bool causal, int64_t window)
{
    rs_visible_keys k = {0, causal ? i : n - 1};
    if (window > 0 && i - window + 1 > 0) k.low = i - window + 1;
    if (window > 0 && k.high - i > window - 1) k.high = i + window - 1;
    return k;
}

/* ---- decompositions ---- */

typedef struct ranking {
    int64_t n;
    double *matrix; /* [n, n], which LAPACK destroys */
    double *sigma;  /* [n] */
    double *work;
    lapack_int *integers;
    lapack_int work_size;
} ranking;

static lapack_int work_size(int64_t n)
{
    double size = 0, unused = 0;
    lapack_int none = 0, m = (lapack_int)n;
    LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', m, m, &unused, m, &unused, &unused, 1, &unused, 1,
                        &size, -1, &none);
    return size >= 1 && size < (double)INT32_MAX ? (lapack_int)size : -1;
}

static ranking take_ranking(int64_t n, rs_workspace *space)
{
    ranking r = {.n = n, .work_size = work_size(n)};
    r.matrix = rs_workspace_take(space, (size_t)n, (size_t)n * sizeof *r.matrix);
    r.sigma = rs_workspace_doubles(space, n);
    r.integers = rs_workspace_take(space, (size_t)n, 8 * sizeof *r.integers);
    r.work =
        rs_workspace_take(space, r.work_size < 0 ? SIZE_MAX : (size_t)r.work_size, sizeof *r.work);
    return r;
}

void rs_matrix_ranks_space(int64_t n, rs_workspace *space)
{
    (void)take_ranking(n, space);
}

static bool decompose(ranking *r)
{
    lapack_int n = (lapack_int)r->n;
    double unused = 0;
    return LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', n, n, r->matrix, n, r->sigma, &unused, 1,
                               &unused, 1, r->work, r->work_size, r->integers) == 0;
}

/* Of a copy of `a`. */
static bool decompose_copy(ranking *r, double sigma[2], const double *a)
{
    memcpy(r->matrix, a, (size_t)r->n * (size_t)r->n * sizeof *a);
    if (!decompose(r)) return false;
    sigma[0] = r->sigma[0];
    sigma[1] = r->n > 1 ? r->sigma[1] : 0;
    return true;
}

bool rs_matrix_ranks_measure(rs_matrix_ranks *out, double sigma[2], const double *a, int64_t n,
                             rs_workspace *space)
{
    ranking r = take_ranking(n, space);
    *out = rs_matrix_ranks_none();
    if (!decompose_copy(&r, sigma, a)) return false;
    *out = rs_matrix_ranks_of(r.sigma, n, sigma[0], false);
    return true;
}

static void take_uniform_away(ranking *r, bool causal, int64_t window)
{
    for (int64_t i = 0; i < r->n; i++) {
        rs_visible_keys k = rs_visible_keys_of(i, r->n, causal, window);
        double even = 1 / (double)(k.high - k.low + 1);
        for (int64_t j = k.low; j <= k.high; j++)
            r->matrix[i * r->n + j] -= even;
    }
}

static bool measure(rs_attention_ranks *out, ranking *r, const double *a, bool causal,
                    int64_t window, bool single)
{
    double sigma[2];
    if (!decompose_copy(r, sigma, a)) return false;
    out->sigma1 = sigma[0];
    out->sigma2 = sigma[1];
    out->whole = rs_matrix_ranks_of(r->sigma, r->n, out->sigma1, single);
    memcpy(r->matrix, a, (size_t)r->n * (size_t)r->n * sizeof *a);
    take_uniform_away(r, causal, window);
    if (!decompose(r)) return false;
    out->centred = rs_matrix_ranks_of(r->sigma, r->n, fmax(out->sigma1, r->sigma[0]), single);
    return true;
}

bool rs_attention_ranks_measure(rs_attention_ranks *out, const double *a, int64_t n, bool causal,
                                int64_t window, bool single, rs_workspace *space)
{
    ranking r = take_ranking(n, space);
    *out = (rs_attention_ranks){rs_matrix_ranks_none(), rs_matrix_ranks_none(), NAN, NAN};
    return measure(out, &r, a, causal, window, single);
}

/* ---- the null ---- */

static double *take_null(ranking *r, int64_t n, rs_workspace *space)
{
    *r = take_ranking(n, space);
    return rs_workspace_take(space, (size_t)n, (size_t)n * sizeof(double));
}

size_t rs_attention_ranks_null_room(int64_t n)
{
    rs_workspace space = {0};
    ranking r;
    if (n < 1 || n > INT32_MAX / 2) return SIZE_MAX;
    (void)take_null(&r, n, &space);
    return space.used;
}

static void draw_attention(double *a, int64_t n, double deviation, bool causal, int64_t window,
                           rs_random *random)
{
    memset(a, 0, (size_t)(n * n) * sizeof *a);
    for (int64_t i = 0; i < n; i++) {
        rs_visible_keys k = rs_visible_keys_of(i, n, causal, window);
        double *row = a + i * n, most = -INFINITY, sum = 0;
        rs_random_normals(random, row + k.low, (size_t)(k.high - k.low + 1));
        for (int64_t j = k.low; j <= k.high; j++)
            most = fmax(most, row[j] *= deviation);
        for (int64_t j = k.low; j <= k.high; j++)
            sum += row[j] = exp(row[j] - most);
        for (int64_t j = k.low; j <= k.high; j++)
            row[j] /= sum;
    }
}

static void add_ranks(rs_matrix_ranks *sum, const rs_matrix_ranks *one, int draws)
{
    sum->effective += one->effective / draws;
    sum->stable += one->stable / draws;
    sum->energy += one->energy / draws;
    sum->numerical += one->numerical / draws;
}

bool rs_attention_ranks_null(rs_attention_ranks *out, double variance, int64_t n, bool causal,
                             int64_t window, int draws, uint64_t seed, uint64_t stream, void *room)
{
    ranking r;
    rs_workspace space = {.base = room};
    double *a = take_null(&r, n, &space);
    rs_random random = rs_random_new(seed, stream);
    *out = (rs_attention_ranks){rs_matrix_ranks_none(), rs_matrix_ranks_none(), NAN, NAN};
    if (!(variance >= 0 && variance <= DBL_MAX)) return true;
    rs_attention_ranks sum = {0};
    for (int t = 0; t < draws; t++) {
        rs_attention_ranks one;
        draw_attention(a, n, sqrt(variance), causal, window, &random);
        if (!measure(&one, &r, a, causal, window, false)) return false;
        add_ranks(&sum.whole, &one.whole, draws);
        add_ranks(&sum.centred, &one.centred, draws);
        sum.sigma1 += one.sigma1 / draws;
        sum.sigma2 += one.sigma2 / draws;
    }
    *out = sum;
    return true;
}
