/*
 * scan_matrices.c: table `matrices` (--matrices all|REGEX): every 2-D weight by our measures and by
 * WeightWatcher's.
 *
 * The Gram of a matrix's short side is accumulated tile by tile, so a large embedding never stands
 * in memory as doubles; its eigenvalues are σ². Only where the smallest of them has drowned (σ_k <
 * 1e-5 σ₁) is the matrix decoded whole for a bidiagonal SVD. Matrices are spread over threads; of
 * large ones only as many are measured at a time as find room.
 */
#include "linalg/gram.h"
#include "linalg/measures.h"
#include "linalg/powerlaw.h"
#include "linalg/spectrum.h"
#include "linalg/threads.h"
#include "products/factor.h"
#include "scan/scan.h"

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LARGE = 4608
}; /* short side from which memory says how many matrices are measured at a time */

typedef struct item {
    const rs_tensor *tensor;
    const rs_tensor_role *role;
    rs_factor view; /* the whole matrix; vectors along its short side */
    int64_t k;
    double *sigma;           /* k values; NULL when not finite */
    rs_factor_census census; /* taken when it is not */
    rs_measures measures;
    rs_weightwatcher ww;
} item;

/* A row of table matrices. */
typedef struct matrix_cells {
    const char *tensor, *role;
    int64_t rows, cols;
    int32_t layer;
    double log_norm;
    rs_measures of;
    rs_weightwatcher ww;
} matrix_cells;

static const rs_column columns[] = {
    {.name = "tensor", RS_CELL(matrix_cells, tensor)},
    {.name = "layer", RS_CELL(matrix_cells, layer)},
    {.name = "role", RS_CELL(matrix_cells, role)},
    {.name = "rows", RS_CELL(matrix_cells, rows)},
    {.name = "cols", RS_CELL(matrix_cells, cols)},
    {.name = "spectral_norm", RS_CELL(matrix_cells, of.spectral_norm), .formula = "σ₁"},
    {.name = "frobenius_norm", RS_CELL(matrix_cells, of.frobenius_norm), .formula = "sqrt(Σσ²)"},
    {.name = "log_norm", RS_CELL(matrix_cells, log_norm), .formula = "log10 Σσ²"},
    {.name = "stable_rank", RS_CELL(matrix_cells, of.stable_rank), .formula = "Σσ² / σ₁²"},
    {.name = "effective_rank",
     RS_CELL(matrix_cells, of.effective_rank),
     .formula = "exp(−Σ p ln p), p = σ/Σσ"},
    {.name = "numerical_rank",
     RS_CELL(matrix_cells, of.numerical_rank),
     .formula = "number of σ > max(rows, cols)·ε·σ₁, ε of the stored dtype"},
    {.name = "alpha",
     RS_CELL(matrix_cells, ww.alpha),
     .formula = "WeightWatcher: power-law exponent of the tail of λ = σ² (Clauset's fit)"},
    {.name = "D",
     RS_CELL(matrix_cells, ww.D),
     .formula = "WeightWatcher: Kolmogorov-Smirnov distance of that fit"},
    {.name = "sigma",
     RS_CELL(matrix_cells, ww.sigma),
     .formula = "WeightWatcher: standard error (alpha − 1)/sqrt(n of the tail)"},
    {.name = "xmin",
     RS_CELL(matrix_cells, ww.xmin),
     .formula = "WeightWatcher: where the tail begins"},
    {.name = "xmax", RS_CELL(matrix_cells, ww.xmax), .formula = "WeightWatcher: largest λ"},
    {.name = "alpha_weighted",
     RS_CELL(matrix_cells, ww.alpha_weighted),
     .formula = "WeightWatcher: alpha · log10 λ_max"},
    {.name = "log_alpha_norm",
     RS_CELL(matrix_cells, ww.log_alpha_norm),
     .formula = "WeightWatcher: log10 Σ λ^alpha"},
    {.name = "num_pl_spikes",
     RS_CELL(matrix_cells, ww.num_pl_spikes),
     .formula = "WeightWatcher: eigenvalues in the fitted tail"},
    {.name = "entropy",
     RS_CELL(matrix_cells, ww.entropy),
     .formula = "WeightWatcher: −Σ q ln q / ln(matrix_rank), q = λ/Σλ"},
    {.name = "matrix_rank",
     RS_CELL(matrix_cells, ww.matrix_rank),
     .formula = "WeightWatcher: σ above σ₁·max(N, M)·ε of float64"},
    {.name = "rank_loss",
     RS_CELL(matrix_cells, ww.rank_loss),
     .formula = "WeightWatcher: M − matrix_rank"},
    {.name = "ww_norm", RS_CELL(matrix_cells, ww.norm), .formula = "WeightWatcher: Σλ"},
    {.name = "ww_spectral_norm",
     RS_CELL(matrix_cells, ww.spectral_norm),
     .formula = "WeightWatcher: λ_max = σ₁²"},
    {.name = "num_spikes",
     RS_CELL(matrix_cells, ww.num_spikes),
     .formula = "WeightWatcher: λ above the fitted Marchenko-Pastur edge"},
    {.name = "mp_softrank",
     RS_CELL(matrix_cells, ww.mp_softrank),
     .formula = "WeightWatcher: fitted Marchenko-Pastur edge / λ_max"},
    {.name = "Q", RS_CELL(matrix_cells, ww.Q), .formula = "N/M"},
    {.name = "N", RS_CELL(matrix_cells, ww.N), .formula = "longer side"},
    {.name = "M", RS_CELL(matrix_cells, ww.M), .formula = "shorter side"},
    {.name = "warning",
     RS_CELL(matrix_cells, ww.warning),
     .formula = "WeightWatcher: over-trained (alpha < 2) or under-trained (alpha > 6)"},
};
const rs_table_kind rs_scan_matrices_kind = {"scan", "matrices", {RS_PART(columns)}};

/* ---- choosing ---- */

static bool is_weight(const rs_tensor *tensor, const rs_tensor_role *role)
{
    return tensor->rank == 2 && tensor->count > 0 && rs_dtype_decodable(tensor->dtype) &&
           role->role != RS_ROLE_BUFFER && role->role != RS_ROLE_ROPE_TABLE &&
           role->role != RS_ROLE_QUANT_SCALE && tensor->shape[0] <= INT32_MAX &&
           tensor->shape[1] <= INT32_MAX;
}

/* The block scales of an FP8 tensor, as the model found them. */
static const rs_factor *scaled_view(const rs_model *model, const rs_tensor *tensor)
{
    for (size_t i = 0; i < model->n_products; i++) {
        const rs_product *p = &model->products[i];
        if (p->a.tensor == tensor && p->a.scale) return &p->a;
        if (p->b.tensor == tensor && p->b.scale) return &p->b;
    }
    return NULL;
}

static void make_view(item *it, const rs_model *model)
{
    int64_t rows = it->tensor->shape[0], cols = it->tensor->shape[1];
    bool tall = rows >= cols;
    it->view = (rs_factor){.tensor = it->tensor,
                           .rows = rows,
                           .cols = cols,
                           .vector_is_row = !tall,
                           .inner = tall ? cols : rows,
                           .features = tall ? rows : cols};
    const rs_factor *scaled = scaled_view(model, it->tensor);
    if (scaled) {
        it->view.scale = scaled->scale;
        it->view.scale_block_rows = scaled->scale_block_rows;
        it->view.scale_block_cols = scaled->scale_block_cols;
    }
    it->k = it->view.inner;
}

static int costlier_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    double cx = (double)x->k * (double)x->k * (double)x->view.features;
    double cy = (double)y->k * (double)y->k * (double)y->view.features;
    return (cx < cy) - (cx > cy);
}

static int by_tensor(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static rs_status choose_items(item **items, size_t *n, const rs_model *model,
                              const rs_scan_options *options, rs_error *err)
{
    regex_t pattern;
    bool all = strcmp(options->matrices, "all") == 0;
    int code = all ? 0 : regcomp(&pattern, options->matrices, REG_EXTENDED | REG_NOSUB);
    if (code != 0) {
        char why[200];
        regerror(code, &pattern, why, sizeof why);
        return rs_fail(err, RS_E_BAD_OPTION, "--matrices",
                       "give 'all', 'attention' or an extended regular expression",
                       "'%s' is no regular expression: %s", options->matrices, why);
    }
    const rs_checkpoint *checkpoint = model->checkpoint;
    *items = rs_calloc(checkpoint->n_tensors, sizeof **items);
    *n = 0;
    for (size_t i = 0; i < checkpoint->n_tensors && *items; i++) {
        const rs_tensor *tensor = &checkpoint->tensors[i];
        const rs_tensor_role *role = &model->roles[i];
        bool in_range = role->layer < 0 || (role->layer >= options->heads.first_layer &&
                                            role->layer <= options->heads.last_layer);
        if (!in_range || !is_weight(tensor, role) ||
            (!all && regexec(&pattern, tensor->name, 0, NULL, 0) != 0))
            continue;
        item *it = &(*items)[(*n)++];
        *it = (item){.tensor = tensor, .role = role};
        make_view(it, model);
    }
    if (!all) regfree(&pattern);
    if (!*items) return rs_fail_memory(err, "matrices", checkpoint->n_tensors * sizeof **items);
    if (*n == 0) {
        rs_free(*items);
        *items = NULL;
        return rs_fail(err, RS_E_BAD_OPTION, "--matrices", "list the names with --table tensors",
                       "no 2-D weight matches '%s'", options->matrices);
    }
    return RS_OK;
}

/* ---- one matrix ---- */

/* σ from the eigenvalues of the Gram; *enough tells whether its smallest are still meaningful. */
static rs_status by_gram(item *it, bool *enough, rs_error *err)
{
    size_t k = (size_t)it->k;
    double *gram = rs_malloc(k * k, sizeof *gram),
           *work = rs_malloc(k + rs_eigenvalue_work(it->k), sizeof *work);
    const rs_factor *view = &it->view;
    rs_tile tile = {0};
    bool fragile;
    rs_status status = gram && work
                           ? rs_factor_grams(&gram, &fragile, &view, 1, (rs_fold){0}, &tile, err)
                           : rs_fail_memory(err, it->tensor->name, k * k * sizeof *gram);
    rs_free(tile.values);
    if (status == RS_OK && !rs_gram_finite(gram, it->k)) {
        /* Squares of finite float64 weights may leave the range: then the SVD, which rescales,
         * decides. */
        status = rs_factor_examine(&it->census, view, err);
        if (status == RS_OK && it->census.nonfinite) {
            rs_free(it->sigma);
            it->sigma = NULL;
        }
    } else if (status == RS_OK) {
        status = rs_symmetric_eigenvalues(work, gram, it->k, work + k, err);
        for (size_t i = 0; i < k && status == RS_OK; i++)
            it->sigma[i] = sqrt(fmax(work[k - 1 - i], 0.0));
        *enough =
            status == RS_OK && it->sigma[0] > 1e-100 && !(it->sigma[k - 1] < 1e-5 * it->sigma[0]);
    }
    rs_free(gram);
    rs_free(work);
    return status;
}

static rs_status by_svd(item *it, rs_error *err)
{
    rs_factor view = it->view;
    int64_t m = view.features, n = view.inner;
    double *matrix = rs_malloc((size_t)m, (size_t)n * sizeof *matrix);
    if (!matrix)
        return rs_fail_memory(err, it->tensor->name, (size_t)m * (size_t)n * sizeof *matrix);
    rs_status status = rs_factor_read(matrix, &view, (rs_fold){0}, err);
    if (status == RS_OK) status = rs_matrix_spectrum(it->sigma, matrix, m, n, err);
    rs_free(matrix);
    return status;
}

static rs_status measure_item(item *it, const rs_scan_options *options, rs_error *err)
{
    it->sigma = rs_malloc((size_t)it->k, sizeof *it->sigma);
    if (!it->sigma) return rs_fail_memory(err, it->tensor->name, (size_t)it->k * sizeof *it->sigma);
    bool enough = false;
    RS_TRY(by_gram(it, &enough, err));
    if (!it->sigma) return RS_OK;
    if (!enough) RS_TRY(by_svd(it, err));
    int64_t rows = it->view.rows, cols = it->view.cols;
    double tolerance = isnan(options->heads.tolerance) ? (double)(rows > cols ? rows : cols) *
                                                             rs_dtype_epsilon(it->tensor->dtype)
                                                       : options->heads.tolerance;
    rs_measures_of(&it->measures, it->sigma, it->k, it->k, tolerance);
    return rs_weightwatcher_of(&it->ww, it->sigma, it->k, rows, cols, err);
}

/* ---- all of them ---- */

/* The Gram matrix of the largest, or of as many smaller ones as are measured at a time. */
static rs_status check_memory(const item *items, size_t n, const rs_context *context, rs_error *err)
{
    double most = 0, small = 0;
    size_t at_once = 0;
    for (size_t i = 0; i < n; i++) { /* costliest first */
        double bytes = (double)items[i].k * (double)items[i].k * sizeof(double);
        if (items[i].k >= LARGE)
            most = fmax(most, bytes);
        else if (at_once++ < (size_t)context->threads)
            small += bytes;
    }
    rs_budget budget = {0};
    rs_budget_add(&budget, "matrices", fmax(most, small));
    return rs_budget_check(&budget, context->memory, "--matrices",
                           "choose fewer, or say how much it may take: --memory SIZE", err);
}

/* Threads that may measure the first of these large matrices at the same time, each with a Gram
 * matrix or the whole matrix. */
static int threads_for(const item *items, size_t n, const rs_context *context)
{
    double most = 0;
    for (size_t i = 0; i < n && i < (size_t)context->threads; i++) {
        double k = (double)items[i].k, longer = (double)items[i].view.features;
        most = fmax(most, sizeof(double) * k * (k + longer));
    }
    return rs_budget_threads(most, context->memory, context->threads);
}

/* items[begin..end) of n in all */
static rs_status measure_some(item *items, size_t begin, size_t end, size_t n, int threads,
                              const rs_scan_options *options, const rs_context *context,
                              rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (size_t i = begin; i < end; i++) {
        if (rs_cancelled(context)) continue;
        rs_error error;
        rs_status status = measure_item(&items[i], options, &error);
        rs_keep_first(&kept, &kept_error, status, &error);
        if (rs_thread_number() == 0) rs_progress(context, "matrices", i, n, "matrices");
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept == RS_OK ? rs_check_cancelled(context, err) : kept;
}

static rs_status measure_all(item *items, size_t n, const rs_model *model,
                             const rs_scan_options *options, const rs_context *context,
                             rs_error *err)
{
    qsort(items, n, sizeof *items, costlier_first);
    size_t large = 0; /* how many it takes until no large one is left */
    for (size_t i = 0; i < n; i++)
        if (items[i].k >= LARGE) large = i + 1;
    RS_TRY(check_memory(items, n, context, err));
    for (size_t done = 0; done < n;) {
        int threads =
            done < large ? threads_for(items + done, large - done, context) : context->threads;
        size_t end = done < large ? done + (size_t)threads : n;
        if (end > large && done < large) end = large;
        RS_TRY(measure_some(items, done, end, n, threads, options, context, err));
        done = end;
    }
    for (size_t i = 0; i < n; i++)
        RS_TRY(rs_tensor_check(model->checkpoint, items[i].tensor, err));
    return RS_OK;
}

/* ---- rows ---- */

static rs_status add_row(rs_table *table, const item *it, rs_error *err)
{
    matrix_cells cells;
    rs_columns_clear(columns, sizeof columns / sizeof *columns, &cells);
    cells.tensor = it->tensor->name;
    cells.layer = it->role->layer;
    cells.role = rs_role_name(it->role->role);
    cells.rows = it->view.rows;
    cells.cols = it->view.cols;
    if (it->sigma) {
        cells.of = it->measures;
        cells.log_norm = 2.0 * log10(it->measures.frobenius_norm);
        cells.ww = it->ww;
    }
    return rs_table_append(table, &cells, err);
}

static rs_status nonfinite_finding(rs_result *result, const item *it, rs_error *err)
{
    const rs_factor_census *census = &it->census;
    char message[700];
    snprintf(message, sizeof message,
             "tensor %.300s: %lld entries are NaN or infinite, the first at row %lld, column %lld",
             it->tensor->name, (long long)census->nonfinite, (long long)census->row,
             (long long)census->col);
    rs_finding finding = rs_finding_of(RS_CRITICAL, "nonfinite_weights");
    finding.layer = it->role->layer >= 0 ? it->role->layer : RS_NULL_INT;
    finding.value = (double)census->nonfinite;
    finding.threshold = 0;
    finding.message = message;
    finding.hint = "the checkpoint is damaged or training diverged: go back to an earlier one";
    finding.table = "matrices";
    return rs_result_add_finding(result, &finding, err);
}

static rs_status fill_table(rs_result *result, const item *items, size_t n, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(
        result, "matrices", "Matrices",
        "Every chosen 2-D weight; the columns from alpha on by WeightWatcher's definitions",
        columns, sizeof columns / sizeof *columns, &table, err));
    rs_table_show_first(table,
                        "tensor,layer,role,rows,cols,effective_rank,stable_rank,alpha,log_norm");
    for (size_t i = 0; i < n; i++) {
        RS_TRY(add_row(table, &items[i], err));
        if (!items[i].sigma) RS_TRY(nonfinite_finding(result, &items[i], err));
    }
    return RS_OK;
}

rs_status rs_scan_matrices(rs_result *result, bool *used, const rs_model *model,
                           const rs_scan_options *options, const rs_context *context, rs_error *err)
{
    item *items;
    size_t n;
    RS_TRY(choose_items(&items, &n, model, options, err));
    rs_status status = measure_all(items, n, model, options, context, err);
    if (status == RS_OK) {
        qsort(items, n, sizeof *items, by_tensor);
        status = fill_table(result, items, n, err);
    }
    for (size_t i = 0; i < n; i++) {
        used[items[i].tensor - model->checkpoint->tensors] = true;
        rs_free(items[i].sigma);
    }
    rs_free(items);
    return status;
}
