/* null_model.c: the random baseline of a head product (see null_model.h). */
#include "linalg/null_model.h"

#include "base/memory.h"
#include "base/sort.h"
#include "linalg/blas.h"
#include "linalg/measures.h"
#include "linalg/spectrum.h"

#include <math.h>
#include <string.h>

enum { LARGEST_K = 512 };

/* Trials so that the mean's error is small beside the spread over heads, at about constant cost;
 * the spread of every measure shrinks as 1/k, so larger shapes need fewer. */
static int64_t trials_for(int64_t k)
{
    if (k <= 16) return 1024;
    if (k <= 32) return 256;
    if (k <= 64) return 64;
    return k <= 128 ? 24 : 8;
}

void rs_bartlett(double *u, int64_t k, double dof, rs_random *random)
{
    for (int64_t i = 0; i < k; i++) {
        memset(u + i * k, 0, (size_t)i * sizeof *u);
        u[i * k + i] = rs_random_chi(random, dof - (double)i);
        rs_random_normals(random, u + i * k + i + 1, (size_t)(k - i - 1));
    }
}

/* Quantiles over trials of σ_i/σ₁. ratios: k×trials, row-major; rows are sorted in place. */
static void band(rs_null_model *out, double *ratios)
{
    int64_t t = out->trials;
    int64_t low = t < 20 ? 0 : (int64_t)floor(0.05 * (double)(t - 1));
    int64_t high = t < 20 ? t - 1 : (int64_t)ceil(0.95 * (double)(t - 1));
    for (int64_t i = 0; i < out->k; i++) {
        rs_sort_doubles(ratios + i * t, t);
        out->band_low[i] = ratios[i * t + low];
        out->band_high[i] = ratios[i * t + high];
    }
}

/* Trials whose singular values are found together. */
enum { TOGETHER = 8 };

typedef struct workspace {
    double *ux, *uy, *sigma, *beside, *work, *ratios; /* sigma, beside: [TOGETHER, k] */
    rs_squares squares;
} workspace;

/* A product, which is to become bidiagonal. */
static rs_status draw_one(rs_bidiagonal *out, workspace *w, int64_t k, double p, double q,
                          rs_random *random, rs_error *err)
{
    rs_bartlett(w->ux, k, p, random);
    rs_bartlett(w->uy, k, q, random);
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasUpper, CblasTrans, CblasNonUnit, (blasint)k,
                (blasint)k, 1.0, w->uy, (blasint)k, w->ux, (blasint)k);
    return rs_squares_add(&w->squares, out, w->ux, w->work, err);
}

static void add_trial(rs_null_model *sum, workspace *w, const double *sigma, int64_t trial,
                      double inner, double half_norm)
{
    int64_t k = sum->k;
    rs_measures m;
    rs_measures_of(&m, sigma, k, k, 0.0);
    sum->nuclear_ratio += m.nuclear_norm / half_norm;
    sum->effective_rank += m.effective_rank;
    sum->effective_rank_spread += m.effective_rank * m.effective_rank; /* squares, until the end */
    sum->stable_rank += m.stable_rank;
    sum->participation_ratio += m.participation_ratio;
    sum->pseudo_rank += m.pseudo_rank * (double)k / inner;
    sum->energy_rank += (double)m.energy_rank;
    for (int64_t i = 0; i < k; i++)
        w->ratios[i * sum->trials + trial] = sigma[i] / sigma[0];
}

static void sort_three(double v[3])
{
    rs_sort_doubles(v, 3);
}

static rs_status draw(rs_null_model *out, workspace *w, const double shape[3], double inner,
                      double half_norm, uint64_t seed, rs_error *err)
{
    uint64_t stream = (uint64_t)shape[0] * 0x9e3779b97f4a7c15u ^
                      (uint64_t)shape[1] * 0xc2b2ae3d27d4eb4fu ^ (uint64_t)shape[2];
    rs_random random = rs_random_new(seed, stream);
    rs_bidiagonal items[TOGETHER];
    for (int64_t t = 0, n; t < out->trials; t += n) {
        n = out->trials - t < TOGETHER ? out->trials - t : TOGETHER;
        for (int64_t i = 0; i < n; i++) {
            items[i] = (rs_bidiagonal){
                .n = out->k, .d = w->sigma + i * out->k, .e = w->beside + i * out->k};
            RS_TRY(draw_one(&items[i], w, out->k, shape[1], shape[2], &random, err));
        }
        rs_squares_finish(&w->squares);
        RS_TRY(rs_bidiagonal_values(items, (size_t)n, w->work, err));
        for (int64_t i = 0; i < n; i++)
            add_trial(out, w, items[i].d, t + i, inner, half_norm);
    }
    band(out, w->ratios);
    return RS_OK;
}

/* The standard deviation of n numbers, from their sum and that of their squares. */
static double spread_of(double sum, double squares, double n)
{
    return n > 1 ? sqrt(fmax(0, squares - sum * sum / n) / (n - 1)) : NAN;
}

rs_status rs_null_model_new(rs_null_model *out, int64_t m, int64_t n, int64_t r, uint64_t seed,
                            rs_error *err)
{
    *out = (rs_null_model){.nuclear_ratio = NAN,
                           .effective_rank = NAN,
                           .stable_rank = NAN,
                           .participation_ratio = NAN,
                           .effective_rank_spread = NAN,
                           .pseudo_rank = NAN,
                           .energy_rank = NAN};
    if (m <= 0 || n <= 0 || r <= 0) return RS_OK;
    double shape[3] = {(double)m, (double)n, (double)r}, shrink = 1.0;
    sort_three(shape);
    if (shape[0] > LARGEST_K) shrink = LARGEST_K / shape[0];
    for (int i = 0; i < 3; i++)
        shape[i] = shrink < 1.0 ? round(shape[i] * shrink) : shape[i];
    int64_t k = (int64_t)shape[0];
    *out = (rs_null_model){.trials = trials_for(k), .k = k};
    size_t square = (size_t)(k * k);
    size_t work = rs_squares_work(k), other = rs_bidiagonal_work(k);
    workspace w = {.ux = rs_malloc(square, sizeof(double)),
                   .uy = rs_malloc(square, sizeof(double)),
                   .sigma = rs_malloc(TOGETHER * (size_t)k, sizeof(double)),
                   .beside = rs_malloc(TOGETHER * (size_t)k, sizeof(double)),
                   .work = rs_malloc(work > other ? work : other, sizeof(double)),
                   .ratios = rs_malloc((size_t)(k * out->trials), sizeof(double)),
                   .squares = {.room = rs_malloc(rs_squares_room(k), sizeof(double))}};
    out->band_low = rs_malloc((size_t)k, sizeof(double));
    out->band_high = rs_malloc((size_t)k, sizeof(double));
    rs_status status;
    if (!w.ux || !w.uy || !w.sigma || !w.beside || !w.work || !w.ratios || !w.squares.room ||
        !out->band_low || !out->band_high)
        status = rs_fail_memory(err, "null model", square * sizeof(double));
    else
        status = draw(out, &w, shape, (double)r * shrink,
                      0.5 * (double)(m + n) * (double)r * shrink * shrink, seed, err);
    rs_free(w.ux);
    rs_free(w.uy);
    rs_free(w.sigma);
    rs_free(w.beside);
    rs_free(w.work);
    rs_free(w.ratios);
    rs_free(w.squares.room);
    if (status != RS_OK) {
        rs_null_model_free(out);
        return status;
    }
    double mean = 1.0 / (double)out->trials, grow = mean / shrink;
    out->effective_rank_spread =
        spread_of(out->effective_rank, out->effective_rank_spread, (double)out->trials) / shrink;
    out->nuclear_ratio *= mean;
    out->pseudo_rank *= mean;
    out->effective_rank *= grow;
    out->stable_rank *= grow;
    out->participation_ratio *= grow;
    out->energy_rank *= grow;
    return RS_OK;
}

void rs_null_model_free(rs_null_model *model)
{
    rs_free(model->band_low);
    rs_free(model->band_high);
    model->band_low = model->band_high = NULL;
}
