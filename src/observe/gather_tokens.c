/* gather_tokens.c: table tokens: each state's measures, sample by sample in parallel, summed
 * in the order of the samples so that the number of threads changes nothing. */
#include "observe/gather.h"

#include "base/sort.h"
#include "linalg/lp_centre.h"
#include "linalg/threads.h"
#include "network/graph.h"

#include <math.h>

/* ---- spreads and sums ---- */

/* Drops what is undefined; returns how many stay. */
static int64_t keep_defined(double *values, int64_t n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(values[i])) values[kept++] = values[i];
    return kept;
}

rs_spread rs_spread_of(double *values, int64_t n)
{
    rs_spread s = {.n = keep_defined(values, n),
                   .mean = NAN,
                   .std = NAN,
                   .min = NAN,
                   .max = NAN,
                   .median = NAN,
                   .geomean = NAN};
    if (s.n == 0) return s;
    rs_sort_doubles(values, s.n);
    double sum = 0, logs = 0, squares = 0;
    for (int64_t i = 0; i < s.n; i++) {
        sum += values[i];
        logs += log(values[i]);
    }
    s.mean = sum / (double)s.n;
    for (int64_t i = 0; i < s.n; i++)
        squares += (values[i] - s.mean) * (values[i] - s.mean);
    if (s.n > 1) s.std = sqrt(squares / (double)(s.n - 1));
    s.min = values[0];
    s.max = values[s.n - 1];
    s.median = 0.5 * (values[(s.n - 1) / 2] + values[s.n / 2]);
    s.geomean = exp(logs / (double)s.n);
    return s;
}

rs_status rs_sums_open(rs_sums *sums, size_t rows, size_t columns, rs_error *err)
{
    size_t cells;
    *sums = (rs_sums){.rows = rows, .columns = columns};
    if (!rs_size_mul(rows, columns, &cells)) return rs_fail_memory(err, "measures", SIZE_MAX);
    sums->sum = rs_calloc(cells, sizeof *sums->sum);
    sums->count = rs_calloc(cells, sizeof *sums->count);
    return sums->sum && sums->count ? RS_OK
                                    : rs_fail_memory(err, "measures", cells * sizeof *sums->sum);
}

void rs_sums_add(rs_sums *sums, size_t row, const double *values)
{
    double *sum = sums->sum + row * sums->columns;
    int64_t *count = sums->count + row * sums->columns;
    for (size_t c = 0; c < sums->columns; c++) {
        if (isnan(values[c])) continue;
        sum[c] += values[c];
        count[c]++;
    }
}

double rs_sums_mean(const rs_sums *sums, size_t row, size_t column)
{
    size_t cell = row * sums->columns + column;
    return sums->count[cell] ? sums->sum[cell] / (double)sums->count[cell] : NAN;
}

void rs_sums_close(rs_sums *sums)
{
    rs_free(sums->sum);
    rs_free(sums->count);
}

/* ---- rows: state 0, then (block_out, mixer_out) of each layer, then the fused read-out ---- */

static size_t row_of(const rs_gather *g, rs_token_site site, int32_t layer)
{
    if (site == RS_TOKEN_SITE_BLOCK_OUT) return layer == 0 ? 0 : 2 * (size_t)layer - 1;
    if (site == RS_TOKEN_SITE_MIXER_OUT) return 2 * (size_t)layer;
    return 2 * (size_t)g->network->n_layers + 1;
}

static const rs_token_site fusion_sites[] = {[RS_FUSION_MAX] = RS_TOKEN_SITE_FUSION_MAX,
                                             [RS_FUSION_CONCAT] = RS_TOKEN_SITE_FUSION_CONCAT,
                                             [RS_FUSION_GATE] = RS_TOKEN_SITE_FUSION_GATE};

static void name_row(rs_gather *g, rs_token_site site, int32_t layer)
{
    g->out->tokens[row_of(g, site, layer)] =
        (rs_token_row){.site = site, .layer = layer, .first_sample = -1, .first_token = -1};
}

static int64_t longest_batch(const rs_gather *g)
{
    const int64_t *begin = g->inputs->begin;
    int64_t most = 0;
    for (int64_t s = 0; s < g->inputs->samples; s += g->capacity) {
        int64_t end = s + g->capacity < g->inputs->samples ? s + g->capacity : g->inputs->samples;
        if (begin[end] - begin[s] > most) most = begin[end] - begin[s];
    }
    return most;
}

/* Whether the row is of what the model's own read-out gives. */
static bool hears_read_out(const rs_gather *g)
{
    rs_fusion fusion = g->options->fusion;
    return fusion != RS_FUSION_NONE && fusion == g->network->read_out.kind;
}

static rs_status open_fusion(rs_gather *g, rs_error *err)
{
    size_t count;
    name_row(g, fusion_sites[g->options->fusion], g->network->n_layers);
    if (hears_read_out(g)) {
        g->listener.tap.sites |= 1u << RS_SITE_READ_OUT;
        return RS_OK;
    }
    int64_t layers = g->options->fusion == RS_FUSION_CONCAT ? g->network->n_layers : 1;
    g->fused_width = g->network->d_model * layers;
    g->fused_rows = longest_batch(g);
    g->fused = rs_size_mul((size_t)g->fused_rows, (size_t)g->fused_width, &count)
                   ? rs_malloc(count, sizeof *g->fused)
                   : NULL;
    return g->fused ? RS_OK : rs_fail_memory(err, "fusion", count * sizeof *g->fused);
}

/* The vector that RS_CENTRE_GRAPH asks for. */
static rs_status find_right(rs_gather *g, rs_error *err)
{
    const char *why;
    int64_t nodes;
    if (g->options->centre != RS_CENTRE_GRAPH) return RS_OK;
    g->right = rs_network_right_vector(g->network, &nodes, &why);
    if (g->right) return RS_OK;
    return rs_fail(err, RS_E_UNSUPPORTED, "--residual-centre graph", "use --residual-centre mean",
                   "this model has no right vector: %s", why);
}

static void take_scratch(rs_gather *g, int64_t longest, bool no_diameter)
{
    const rs_token_options options = {
        .spectral = g->options->spectral, .centre = g->options->centre, .no_diameter = no_diameter};
    int64_t width = g->fused_width > g->network->d_model ? g->fused_width : g->network->d_model;
    size_t bytes = g->precision == RS_PRECISION_RESIDUAL
                       ? rs_token_residual_workspace(longest, width, &options)
                       : rs_token_workspace(longest, width, &options);
    if (bytes > g->listener.scratch_bytes) g->listener.scratch_bytes = bytes;
}

rs_status rs_gather_tokens_open(rs_gather *g, rs_error *err)
{
    RS_TRY(find_right(g, err));
    rs_fusion fusion = g->options->fusion;
    size_t rows = 2 * (size_t)g->network->n_layers + 1 + (fusion != RS_FUSION_NONE), cells;
    g->listener.tap.sites = 1u << RS_SITE_BLOCK_OUT | 1u << RS_SITE_MIXER_OUT;
    g->out->tokens = rs_calloc(rows, sizeof *g->out->tokens);
    g->out->n_tokens = rows;
    g->slots = rs_calloc((size_t)g->capacity, sizeof *g->slots);
    g->residuals = rs_size_mul(rows, (size_t)g->inputs->samples, &cells)
                       ? rs_malloc(cells, sizeof *g->residuals)
                       : NULL;
    g->logarithms = g->residuals ? rs_malloc(cells, sizeof *g->logarithms) : NULL;
    g->marks = g->residuals ? rs_calloc(cells, sizeof *g->marks) : NULL;
    if (!g->out->tokens || !g->slots || !g->marks || !g->logarithms)
        return rs_fail_memory(err, "measures of tokens", cells * sizeof *g->residuals);
    for (size_t i = 0; i < cells; i++)
        g->residuals[i] = g->logarithms[i] = NAN;
    name_row(g, RS_TOKEN_SITE_BLOCK_OUT, 0);
    for (int32_t l = 1; l <= g->network->n_layers; l++) {
        name_row(g, RS_TOKEN_SITE_BLOCK_OUT, l);
        name_row(g, RS_TOKEN_SITE_MIXER_OUT, l);
    }
    if (fusion != RS_FUSION_NONE) RS_TRY(open_fusion(g, err));
    take_scratch(g, rs_gather_longest_pairs(g), false);
    take_scratch(g, g->inputs->longest, true);
    return rs_sums_open(&g->tokens, rows, RS_TOKEN_REALS + RS_TOKEN_LOGS, err);
}

/* ---- measuring ---- */

/* A state as it comes, or the fused one. */
typedef struct matrix {
    rs_precision precision; /* of data */
    const void *data;
    int64_t width;
    const rs_state_view *pair; /* with base and residual; or NULL */
} matrix;

static rs_status measure_pair(rs_gather *g, int64_t s, const rs_state_view *view,
                              const rs_token_options *options, rs_error *err)
{
    int64_t first = view->batch->begin[s] * view->cols;
    const rs_token_residual x = {.base = view->base + s * view->cols,
                                 .residual = view->residual + first,
                                 .exponent = view->exponent[s],
                                 .scale = view->scale[s],
                                 .rounding = view->rounding[s],
                                 .plain = (const double *)view->data + first,
                                 .n = view->batch->begin[s + 1] - view->batch->begin[s],
                                 .d = view->cols};
    return rs_token_measure_residual(&g->slots[s], &x, options,
                                     g->listener.scratch[rs_thread_number()], err);
}

static rs_status measure_sample(rs_gather *g, int64_t s, matrix x, rs_error *err)
{
    const int64_t *begin = g->batch->batch.begin;
    int64_t n = begin[s + 1] - begin[s], first = begin[s] * x.width;
    const rs_token_options options = {.spectral = g->options->spectral,
                                      .centre = g->options->centre,
                                      .right = g->right,
                                      .no_diameter = !rs_measures_pairs(g->options, n),
                                      .epsilon = rs_precision_roundoff(g->precision)};
    void *workspace = g->listener.scratch[rs_thread_number()];
    if (x.pair) return measure_pair(g, s, x.pair, &options, err);
    if (x.precision == RS_PRECISION_F32)
        return rs_token_measure_f32(&g->slots[s], (const float *)x.data + first, n, x.width,
                                    x.width, &options, workspace, err);
    return rs_token_measure_f64(&g->slots[s], (const double *)x.data + first, n, x.width, x.width,
                                &options, workspace, err);
}

/* A little more than the solver aims at, so that what it reached by rounding is no finding. */
static void note_centre(rs_token_row *out, double gap, double epsilon, int64_t sample)
{
    if (!(gap > 2 * fmax(RS_TOKEN_LP_LEAST, RS_TOKEN_LP_GAP * epsilon))) return;
    out->open_centres++;
    if (gap <= out->open_gap) return;
    out->open_gap = gap;
    out->open_sample = sample;
}

static void add_sample(rs_gather *g, size_t row, int64_t s)
{
    rs_token_row *out = &g->out->tokens[row];
    const rs_token_measures *m = &g->slots[s];
    double values[RS_TOKEN_REALS + RS_TOKEN_LOGS];
    int64_t sample = g->batch->first + s;
    rs_measure_values(values, rs_token_columns, RS_TOKEN_REALS + RS_TOKEN_LOGS, m);
    rs_sums_add(&g->tokens, row, values);
    size_t cell = row * (size_t)g->inputs->samples + (size_t)sample;
    g->residuals[cell] = m->relative_residual;
    g->logarithms[cell] = m->log10_relative_residual;
    g->marks[cell] = m->at_floor;
    out->equal += m->equal;
    out->beyond += m->beyond;
    out->outside += isfinite(m->log10_norm_fro) && !(m->norm_fro > 0 && isfinite(m->norm_fro));
    out->samples++;
    out->zero += m->first_nonfinite < 0 && !(m->norm_fro > 0) && isnan(m->log10_norm_fro);
    note_centre(out, m->centre_gap, rs_precision_roundoff(g->precision), sample);
    if (m->first_nonfinite < 0) return;
    if (out->nonfinite++ == 0) {
        out->first_sample = sample;
        out->first_token = m->first_nonfinite;
    }
}

static rs_status measure_row(rs_gather *g, size_t row, matrix x, rs_error *err)
{
    const rs_batch *batch = &g->batch->batch;
    rs_status status = RS_OK;
    rs_error first = {0};
    RS_TRY(rs_check_cancelled(g->context, err));
#pragma omp parallel for schedule(dynamic) num_threads(g->context->threads)
    for (int32_t s = 0; s < batch->samples; s++) {
        rs_error error;
        if (batch->begin[s + 1] == batch->begin[s] || rs_cancelled(g->context)) continue;
        rs_status one = measure_sample(g, s, x, &error);
        if (one != RS_OK) rs_keep_first(&status, &first, one, &error);
    }
    if (status != RS_OK) {
        if (err) *err = first;
        return status;
    }
    RS_TRY(rs_check_cancelled(g->context, err));
    for (int32_t s = 0; s < batch->samples; s++)
        if (batch->begin[s + 1] > batch->begin[s]) add_sample(g, row, s);
    return RS_OK;
}

/* ---- H_1 ... H_L put together where the model does not (docs/theory/signal.md, 5) ---- */

static double entry(const rs_state_view *view, int64_t i)
{
    return view->precision == RS_PRECISION_F32 ? (double)((const float *)view->data)[i]
                                               : ((const double *)view->data)[i];
}

/* max: the larger, entry by entry. gate: untrained weights are equal, so it is the mean. */
static void fuse(rs_gather *g, const rs_state_view *view)
{
    int64_t d = view->cols, count = view->rows * d;
    int32_t layer = g->fused_layers++;
    for (int64_t i = 0; i < count; i++) {
        double value = entry(view, i);
        if (g->options->fusion == RS_FUSION_CONCAT)
            g->fused[i / d * g->fused_width + layer * d + i % d] = value;
        else if (layer == 0)
            g->fused[i] = value;
        else if (g->options->fusion == RS_FUSION_MAX)
            g->fused[i] = value > g->fused[i] || isnan(value) ? value : g->fused[i];
        else
            g->fused[i] += (value - g->fused[i]) / (layer + 1);
    }
}

rs_status rs_gather_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    rs_gather *g = user;
    if (site == RS_SITE_FINAL) return RS_OK;
    rs_token_site where = site == RS_SITE_READ_OUT    ? fusion_sites[g->options->fusion]
                          : site == RS_SITE_BLOCK_OUT ? RS_TOKEN_SITE_BLOCK_OUT
                                                      : RS_TOKEN_SITE_MIXER_OUT;
    if (g->fused && site == RS_SITE_BLOCK_OUT && layer > 0) fuse(g, view);
    matrix x = {.precision = view->precision,
                .data = view->data,
                .width = view->cols,
                .pair = view->base ? view : NULL};
    return measure_row(g, row_of(g, where, layer), x, err);
}

rs_status rs_gather_tokens_end_batch(rs_gather *g, rs_error *err)
{
    if (!g->fused || g->fused_layers == 0) return RS_OK;
    matrix x = {.precision = RS_PRECISION_F64, .data = g->fused, .width = g->fused_width};
    g->fused_layers = 0;
    return measure_row(g, g->out->n_tokens - 1, x, err);
}

static bool rounding(const rs_gather *g, size_t row)
{
    size_t samples = (size_t)g->inputs->samples, defined = 0, marked = 0;
    for (size_t s = row * samples; s < (row + 1) * samples; s++) {
        if (isnan(g->residuals[s])) continue;
        defined++;
        if (g->marks[s] || g->residuals[s] <= g->out->floor) marked++;
    }
    return defined > 0 && marked == defined;
}

void rs_gather_tokens_finish(rs_gather *g)
{
    size_t samples = (size_t)g->inputs->samples;
    g->out->floor = rs_residual_floor(g->precision);
    /* the residual precision knows of each state what of it is rounding */
    for (size_t s = 0; s < samples && !isnan(g->out->floor); s++)
        rs_floor_marks(g->marks + s, g->residuals + s, samples, g->network, g->out->floor);
    for (size_t row = 0; row < g->out->n_tokens; row++) {
        rs_token_row *out = &g->out->tokens[row];
        rs_measure_means(&out->mean, rs_token_columns, RS_TOKEN_REALS + RS_TOKEN_LOGS, &g->tokens,
                         row);
        out->log10_residual = rs_spread_of(g->logarithms + row * samples, g->inputs->samples);
        out->at_floor = rounding(g, row); /* before the spread sorts the residuals */
        out->residual =
            rs_spread_of(g->residuals + row * (size_t)g->inputs->samples, g->inputs->samples);
        out->mean.relative_residual = out->residual.mean;
        out->at_floor |= out->residual.mean <= g->out->floor;
    }
}

void rs_gather_tokens_close(rs_gather *g)
{
    rs_sums_close(&g->tokens);
    rs_free(g->residuals);
    rs_free(g->logarithms);
    rs_free(g->marks);
    rs_free(g->slots);
    rs_free(g->fused);
}
