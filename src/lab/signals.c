/* signals.c: draws, claims about their means, random tokens and matrices. */
#include "lab/signals.h"

#include "base/memory.h"
#include "linalg/gemm.h"
#include "linalg/spectrum.h"

#include <math.h>
#include <string.h>

/* ---- draws ---- */

rs_status rs_draws_run(rs_draws *out, const rs_draws_plan *plan, const rs_context *context,
                       rs_error *err)
{
    size_t count = (size_t)plan->draws * (size_t)plan->cells;
    *out = (rs_draws){plan->draws, plan->cells, rs_calloc(count, sizeof(double))};
    if (!out->of) return rs_fail_memory(err, "an experiment's draws", count * sizeof(double));
    rs_context alone = *context;
    rs_status status = RS_OK;
    rs_error first = {0};
    alone.threads = 1;
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int32_t i = 0; i < plan->draws; i++) {
        rs_error own;
        /* streams of draws: an experiment's own numbers lie far apart */
        rs_random random = rs_random_new(context->seed, plan->stream + (uint64_t)i);
        rs_status made = rs_check_cancelled(context, &own);
        if (made == RS_OK)
            made = plan->one(out->of + (size_t)i * (size_t)plan->cells, plan->of, &random, &alone,
                             &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
    }
    if (status == RS_OK) return RS_OK;
    if (err) *err = first;
    rs_draws_free(out);
    return status;
}

void rs_draws_free(rs_draws *draws)
{
    rs_free(draws->of);
    *draws = (rs_draws){0};
}

uint64_t rs_draw_seed(rs_random *random)
{
    return (uint64_t)(rs_random_uniform(random) * 0x1p53);
}

rs_seen rs_draws_combined(const rs_draws *draws, int32_t first, const double *w, int32_t n)
{
    double sum = 0, square = 0, count = draws->draws;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < draws->draws; i++) {
            double value = 0;
            for (int32_t k = 0; k < n; k++)
                value += w[k] * draws->of[(size_t)i * (size_t)draws->cells + (size_t)(first + k)];
            if (pass == 0)
                sum += value / count;
            else
                square += (value - sum) * (value - sum);
        }
    return (rs_seen){sum, sqrt(square / (count * (count - 1)))};
}

rs_seen rs_draws_seen(const rs_draws *draws, int32_t cell)
{
    const double one = 1;
    return rs_draws_combined(draws, cell, &one, 1);
}

/* ---- claims ---- */

rs_status rs_lab_seen(rs_lab_report *report, const char *text, rs_awaited awaited, double slack,
                      rs_seen seen, rs_error *err)
{
    double tolerance = RS_SEEN_ERRORS * hypot(awaited.error, seen.error) + slack;
    return rs_lab_expect(report, text, awaited.mean, seen.mean, tolerance, err);
}

rs_status rs_lab_seen_published(rs_lab_report *report, const char *text, double published,
                                rs_awaited awaited, rs_seen seen, rs_error *err)
{
    const rs_lab_claim claim = {text,
                                published,
                                awaited.mean,
                                seen.mean,
                                RS_SEEN_ERRORS * hypot(awaited.error, seen.error),
                                false,
                                false};
    return rs_lab_add_claim(report, &claim, err);
}

rs_status rs_lab_seen_cells(rs_lab_report *report, const char *const *names,
                            const rs_awaited *awaited, const rs_draws *draws, int32_t first,
                            int32_t n, rs_error *err)
{
    for (int32_t i = 0; i < n; i++)
        RS_TRY(rs_lab_seen(report, names[i], awaited[i], 0, rs_draws_seen(draws, first + i), err));
    return RS_OK;
}

/* ---- tokens and matrices ---- */

void rs_draw_tokens(double *x, int64_t n, int64_t d, double variance, double rho, rs_random *random)
{
    double common = sqrt(variance * rho), own = sqrt(variance * (1 - rho));
    for (int64_t k = 0; k < d; k++) {
        double shared = common * rs_random_normal(random);
        for (int64_t i = 0; i < n; i++)
            x[i * d + k] = shared + own * rs_random_normal(random);
    }
}

void rs_rows_softmax(double *a, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++) {
        double *row = a + i * cols, most = row[0], sum = 0;
        for (int64_t j = 1; j < cols; j++)
            most = fmax(most, row[j]);
        for (int64_t j = 0; j < cols; j++)
            sum += row[j] = exp(row[j] - most);
        for (int64_t j = 0; j < cols; j++)
            row[j] /= sum;
    }
}

void rs_draw_markov(double *a, int64_t n, double variance, rs_random *random)
{
    rs_draw_gaussian(a, n * n, sqrt(variance), random);
    rs_rows_softmax(a, n, n);
}

void rs_subtract_uniform(double *a, int64_t n)
{
    for (int64_t i = 0; i < n * n; i++)
        a[i] -= 1 / (double)n;
}

void rs_identity(double *a, int64_t n)
{
    for (int64_t i = 0; i < n * n; i++)
        a[i] = i % (n + 1) == 0;
}

rs_status rs_stable_ranks(double ranks[2], const double *x, int64_t rows, int64_t cols,
                          rs_error *err)
{
    size_t count = (size_t)(rows * cols), values = (size_t)(rows < cols ? rows : cols);
    double *copy = rs_malloc(count + values, sizeof *copy), *s = copy + count;
    if (!copy) return rs_fail_memory(err, "singular values", count + values);
    memcpy(copy, x, count * sizeof *copy);
    rs_status status = rs_matrix_spectrum(s, copy, rows, cols, err);
    ranks[0] = ranks[1] = 0;
    for (size_t i = 0; status == RS_OK && i < values; i++) {
        double share = s[i] / s[0] * (s[i] / s[0]);
        ranks[0] += share;
        ranks[1] += share * share;
    }
    rs_free(copy);
    return status;
}

double rs_sum_square(const double *x, int64_t count)
{
    double norm = rs_norm_frobenius(x, count, 1);
    return norm * norm;
}

double rs_apart_square(const double *x, int64_t n, int64_t d)
{
    double sum = 0;
    for (int64_t k = 0; k < d; k++) {
        double mean = 0; /* about the first token: nothing cancels where all are nearly equal */
        for (int64_t i = 0; i < n; i++)
            mean += (x[i * d + k] - x[k]) / (double)n;
        for (int64_t i = 0; i < n; i++) {
            double rest = x[i * d + k] - x[k] - mean;
            sum += rest * rest;
        }
    }
    return sum;
}

rs_status rs_cross_square(double *out, const double *x, int64_t n, int64_t d, rs_error *err)
{
    double *room = rs_malloc((size_t)(n * d + n * n), sizeof *room), *gram = room + n * d;
    if (!room) return rs_fail_memory(err, "tokens", (size_t)(n * d + n * n) * sizeof *room);
    memcpy(room, x, (size_t)(n * d) * sizeof *room);
    rs_rows_centre(room, n, d);
    /* ‖XᵀPX‖ = ‖(PX)(PX)ᵀ‖, which is n×n */
    rs_gemm_f64(RS_AS_IS, RS_TURNED, n, n, d, 1, room, d, room, d, 0, gram, n);
    *out = rs_sum_square(gram, n * n);
    rs_free(room);
    return RS_OK;
}
