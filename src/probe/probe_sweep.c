/*
 * probe_sweep.c: the model at many skip strengths over the same inputs: tables sweep and sweep_ends.
 *
 * Points that differ in λ alone run side by side in one pass (engine/forward.h, rs_points). The state
 * of a model that norms what branches read, and not the sum, grows like the product of its |λ|: points
 * whose growth float32 does not hold run in float64, and those beyond it in the residual precision,
 * which carries scales.
 */
#include "probe/probe_sweep.h"

#include "base/memory.h"
#include "observe/sweep.h"
#include "probe/probe_parts.h"
#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Decades that a state may grow by through skips alone in a pass of each precision: of the 38 and 308
 * that numbers have, the rest is for what enters and for squares of rows in float32. */
static const double most_growth[RS_PRECISIONS] = {
    [RS_PRECISION_F32] = 30, [RS_PRECISION_F64] = 280, [RS_PRECISION_RESIDUAL] = INFINITY};

/* One point: a λ with one setting of the switches. */
typedef struct point {
    double lambda;
    bool gate, norm;
    rs_precision precision;
    rs_swept_state *states; /* [layers + 1] */
} point;

/* The points of one setting of the switches, which are one network. */
typedef struct setting {
    rs_edit edit; /* without λ */
    rs_network *network;
    double *skip;  /* [branches, n] of all points */
    point *points; /* [n] */
} setting;

typedef struct sweeping {
    rs_result *result;
    const rs_network *network;
    rs_weights *weights;
    const rs_inputs *inputs;
    const rs_probe_options *options;
    const rs_context *context;
    rs_sweep_spec spec;
    rs_arena *arena;
    setting settings[4];
    size_t n_settings, branches;
    int32_t layers;
    int64_t moved[RS_PRECISIONS]; /* points that run in each precision */
    rs_pass_account account;
} sweeping;

/* ---- points ---- */

/* The network of a setting at one λ. */
static rs_status network_at(rs_network **out, const sweeping *w, const setting *s, double lambda,
                            rs_error *err)
{
    rs_edit edit = s->edit;
    char text[64];
    snprintf(text, sizeof text, "%s%.17g", w->spec.of, lambda);
    RS_TRY(rs_edit_option(&edit, "lambda", text, err));
    RS_TRY(rs_network_copy(out, w->network, err));
    return rs_edit_apply(*out, &edit, err);
}

/* The most decades by which skips alone make the state of a network grow on its way. */
static double growth_of(const rs_network *network)
{
    double now = 0, most = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            now += log10(fmax(fabs(branch->skip), 1e-300));
            if (now < 0 || branch->after.kind != RS_NORM_NONE) now = 0;
            if (now > most) most = now;
        }
    return most;
}

/* The precision that was asked for, or the next one that holds the growth. Without norms nothing is
 * known of what branches add, and float64 has room for most of it. */
static rs_precision precision_of(const sweeping *w, const rs_network *network, bool norm)
{
    rs_precision precision = w->options->measure.precision;
    double growth = growth_of(network);
    if (precision == RS_PRECISION_F32 && !norm) precision = RS_PRECISION_F64;
    while (precision < RS_PRECISION_RESIDUAL && growth > most_growth[precision])
        precision++;
    return precision;
}

/* Writes down the skips of point i, which every λ has where the edit puts it. The setting has the
 * network of the first. */
static rs_status set_point(sweeping *w, setting *s, int32_t i, rs_error *err)
{
    rs_network *network = i == 0 ? s->network : NULL;
    point *p = &s->points[i];
    size_t at = 0;
    p->lambda = rs_sweep_lambda(&w->spec, i);
    p->gate = !s->edit.no_gate;
    p->norm = !s->edit.no_norm;
    p->states = rs_arena_alloc(w->arena, (size_t)w->layers + 1, sizeof *p->states);
    rs_status status = p->states ? RS_OK : rs_fail_memory(err, "sweep", 0);
    if (status == RS_OK && !network) status = network_at(&network, w, s, p->lambda, err);
    for (int32_t l = 0; status == RS_OK && l < w->layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++)
            s->skip[at++ * (size_t)w->spec.n + (size_t)i] = network->layers[l].branches[b].skip;
    if (status == RS_OK) {
        p->precision = precision_of(w, network, p->norm);
        w->moved[p->precision]++;
    }
    if (network != s->network) rs_network_close(network);
    return status;
}

static size_t branches_of(const rs_network *network)
{
    size_t n = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        n += (size_t)network->layers[l].n_branches;
    return n;
}

static rs_status open_setting(sweeping *w, bool gate, bool norm, rs_error *err)
{
    setting *s = &w->settings[w->n_settings];
    size_t cells;
    s->edit = w->options->edit;
    if (!gate) s->edit.no_gate = true;
    if (!norm) s->edit.no_norm = true;
    w->n_settings++; /* close_sweep closes what it has */
    RS_TRY(network_at(&s->network, w, s, rs_sweep_lambda(&w->spec, 0), err));
    w->layers = s->network->n_layers;
    w->branches = branches_of(s->network);
    s->points = rs_arena_alloc(w->arena, (size_t)w->spec.n, sizeof *s->points);
    s->skip = rs_size_mul(w->branches, (size_t)w->spec.n, &cells)
                  ? rs_arena_alloc(w->arena, cells, sizeof *s->skip)
                  : NULL;
    if (!s->points || !s->skip) return rs_fail_memory(err, "sweep", cells * sizeof *s->skip);
    for (int32_t i = 0; i < w->spec.n; i++)
        RS_TRY(set_point(w, s, i, err));
    return RS_OK;
}

static rs_status open_settings(sweeping *w, rs_error *err)
{
    w->arena = rs_arena_new();
    if (!w->arena) return rs_fail_memory(err, "sweep", 0);
    static const rs_sweep_switch ways[] = {RS_SWEEP_ON, RS_SWEEP_OFF};
    for (size_t g = 0; g < COUNT(ways); g++)
        for (size_t n = 0; n < COUNT(ways); n++)
            if (w->spec.gate & ways[g] && w->spec.norm & ways[n])
                RS_TRY(open_setting(w, ways[g] == RS_SWEEP_ON, ways[n] == RS_SWEEP_ON, err));
    return RS_OK;
}

/* ---- runs ---- */

/* Weights of a precision: those of the probe, or a pass's own. */
static rs_weights *weights_of(const sweeping *w, rs_precision precision)
{
    return precision == w->options->measure.precision ? w->weights : NULL;
}

/* Runs n points of a setting side by side; skips: room for [branches, n]. */
static rs_status run_side_by_side(sweeping *w, const setting *s, point *const *points, int32_t n,
                                  double *skips, rs_error *err)
{
    size_t states = (size_t)w->layers + 1, cells;
    rs_precision precision = points[0]->precision;
    const rs_points side = {.n = n, .skip = skips};
    const rs_pass_plan plan = {.network = s->network,
                               .inputs = w->inputs,
                               .precision = precision,
                               .weights = weights_of(w, precision),
                               .points = &side,
                               .phase = "sweep"};
    for (size_t b = 0; b < w->branches; b++)
        for (int32_t i = 0; i < n; i++)
            skips[b * (size_t)n + (size_t)i] =
                s->skip[b * (size_t)w->spec.n + (size_t)(points[i] - s->points)];
    rs_swept_state *out =
        rs_size_mul((size_t)n, states, &cells) ? rs_malloc(cells, sizeof *out) : NULL;
    if (!out) return rs_fail_memory(err, "sweep", cells * sizeof *out);
    rs_pass_account account = {0};
    rs_status status =
        rs_observe_sweep(out, &account, &plan, w->options->measure.batch, w->context, err);
    rs_pass_account_add(&w->account, &account);
    for (int32_t i = 0; status == RS_OK && i < n; i++)
        for (size_t l = 0; l < states; l++)
            points[i]->states[l] = out[(size_t)i * states + l];
    rs_free(out);
    return status;
}

/* Runs a point by itself in the residual precision. */
static rs_status run_alone(sweeping *w, const setting *s, point *p, rs_error *err)
{
    rs_network *network = NULL;
    rs_weights *own = NULL, *weights = weights_of(w, RS_PRECISION_RESIDUAL);
    rs_measured *measured = NULL;
    rs_measure_options options = {.precision = RS_PRECISION_RESIDUAL,
                                  .tokens = true,
                                  .centre = RS_CENTRE_MEAN,
                                  .batch = w->options->measure.batch,
                                  .phase = "sweep"};
    rs_status status = network_at(&network, w, s, p->lambda, err);
    if (status == RS_OK && !weights) {
        status = rs_weights_open(&own, RS_PRECISION_RESIDUAL, rs_weight_limit(w->context), err);
        weights = own;
    }
    if (status == RS_OK)
        status = rs_measure_network(&measured, network, weights, w->inputs, &options, NULL, 0,
                                    w->context, err);
    for (int32_t l = 0; status == RS_OK && l <= w->layers; l++) {
        const rs_token_row *row = rs_measured_row(measured, RS_TOKEN_SITE_BLOCK_OUT, l);
        p->states[l] = (rs_swept_state){.relative = row->mean.relative_residual,
                                        .log10_relative = row->mean.log10_relative_residual,
                                        .mu = row->mean.residual_fro,
                                        .log10_mu = row->mean.log10_residual_fro,
                                        .samples = row->samples};
    }
    if (status == RS_OK) rs_pass_account_add(&w->account, &measured->account);
    rs_measured_free(measured);
    rs_weights_close(own);
    rs_network_close(network);
    return status;
}

/* All points of a setting that run in one precision, as many at once as memory allows. */
static rs_status run_precision(sweeping *w, setting *s, rs_precision precision, rs_error *err)
{
    int32_t n = w->spec.n,
            at_once = rs_sweep_points(s->network, precision, w->inputs, n, w->context);
    point **points = rs_arena_alloc(w->arena, (size_t)at_once, sizeof *points);
    double *skips = rs_arena_alloc(w->arena, w->branches * (size_t)at_once, sizeof *skips);
    if (!points || !skips) return rs_fail_memory(err, "sweep", 0);
    int32_t some = 0;
    for (int32_t i = 0; i < n; i++) {
        point *p = &s->points[i];
        if (p->precision == precision && precision == RS_PRECISION_RESIDUAL)
            RS_TRY(run_alone(w, s, p, err));
        else if (p->precision == precision)
            points[some++] = p;
        if (some && (some == at_once || i == n - 1)) {
            RS_TRY(run_side_by_side(w, s, points, some, skips, err));
            some = 0;
        }
    }
    return RS_OK;
}

static rs_status run_all(sweeping *w, rs_error *err)
{
    for (size_t i = 0; i < w->n_settings; i++)
        for (int precision = RS_PRECISION_F32; precision <= RS_PRECISION_RESIDUAL; precision++)
            RS_TRY(run_precision(w, &w->settings[i], (rs_precision)precision, err));
    return RS_OK;
}

/* ---- tables ---- */

/* A row of tables sweep and sweep_ends. */
typedef struct sweep_cells {
    double lambda;
    const char *gate, *norm;
    int64_t layer;
    double relative, log10_relative, mu, log10_mu;
    const char *precision, *line;
} sweep_cells;

#define POINT_COLUMNS                                                                              \
    {.name = "lambda",                                                                             \
     RS_CELL(sweep_cells, lambda),                                                                 \
     .title = "λ",                                                                                 \
     .formula = "skip strength: the state becomes λ times itself plus the branch"},                \
        {.name = "gate",                                                                           \
         RS_CELL(sweep_cells, gate),                                                               \
         .formula = "off: without the gates of gated mixers"},                                     \
    {                                                                                              \
        .name = "norm", RS_CELL(sweep_cells, norm), .formula = "off: without the norms of blocks"  \
    }
#define SPREAD_COLUMNS                                                                             \
    {.name = "relative_residual",                                                                  \
     RS_CELL(sweep_cells, relative),                                                               \
     .formula = "μ(X)/‖X‖_F of the state behind the layer; mean over the samples"},                \
        {.name = "log10_relative_residual",                                                        \
         RS_CELL(sweep_cells, log10_relative),                                                     \
         .formula = "mean over the samples of log10 μ(X)/‖X‖_F"},                                  \
        {.name = "mu",                                                                             \
         RS_CELL(sweep_cells, mu),                                                                 \
         .title = "μ",                                                                             \
         .formula = "μ(X) = ‖X − 11ᵀX/n‖_F; mean over the samples"},                               \
    {                                                                                              \
        .name = "log10_mu", RS_CELL(sweep_cells, log10_mu),                                        \
        .formula = "mean over the samples of log10 μ(X), which may be beyond every double"        \
    }

static const rs_column sweep_columns[] = {
    POINT_COLUMNS,
    {.name = "layer",
     RS_CELL(sweep_cells, layer),
     .formula = "number of the state; 0 enters the first block"},
    SPREAD_COLUMNS,
};
const rs_table_kind rs_probe_sweep_kind = {"probe", "sweep", {RS_PART(sweep_columns)}};

static const rs_column end_columns[] = {
    POINT_COLUMNS,
    SPREAD_COLUMNS,
    {.name = "precision",
     RS_CELL(sweep_cells, precision),
     .formula = "what the point was run in: |λ|^layers may need more than was asked for"},
    {.name = "line", RS_CELL(sweep_cells, line), .formula = "gate and norm in a word, for figures"},
};
const rs_table_kind rs_probe_sweep_ends_kind = {"probe", "sweep_ends", {RS_PART(end_columns)}};

static sweep_cells cells_of(const point *p, int32_t layer)
{
    static const char *const lines[] = {"no gate, no norm", "no gate", "no norm", "as it is"};
    const rs_swept_state *x = &p->states[layer];
    return (sweep_cells){.lambda = p->lambda,
                         .gate = p->gate ? "on" : "off",
                         .norm = p->norm ? "on" : "off",
                         .layer = layer,
                         .relative = x->relative,
                         .log10_relative = x->log10_relative,
                         .mu = x->mu,
                         .log10_mu = x->log10_mu,
                         .precision = rs_probe_precision_name(p->precision),
                         .line = lines[(p->gate ? 1 : 0) + (p->norm ? 2 : 0)]};
}

static rs_status add_rows(const sweeping *w, rs_table *sweep, rs_table *ends, rs_error *err)
{
    for (size_t i = 0; i < w->n_settings; i++)
        for (int32_t k = 0; k < w->spec.n; k++) {
            const point *p = &w->settings[i].points[k];
            for (int32_t l = 0; l <= w->layers; l++) {
                const sweep_cells cells = cells_of(p, l);
                RS_TRY(rs_table_append(sweep, &cells, err));
            }
            const sweep_cells cells = cells_of(p, w->layers);
            RS_TRY(rs_table_append(ends, &cells, err));
        }
    return RS_OK;
}

static rs_status add_tables(const sweeping *w, rs_error *err)
{
    rs_table *sweep, *ends;
    RS_TRY(rs_result_add_table(w->result, "sweep", "Skip strengths, layer by layer",
                               "How far apart the tokens are behind every layer, at every skip "
                               "strength λ",
                               sweep_columns, COUNT(sweep_columns), &sweep, err));
    RS_TRY(rs_result_add_table(w->result, "sweep_ends", "Skip strengths",
                               "How far apart the tokens are behind the last layer, at every skip "
                               "strength λ",
                               end_columns, COUNT(end_columns), &ends, err));
    rs_table_show_first(ends, "lambda,gate,norm,relative_residual,log10_mu,precision");
    return add_rows(w, sweep, ends, err);
}

static rs_status add_figure(const sweeping *w, rs_error *err)
{
    static const char *const keys[] = {"lambda", "gate", "norm"};
    rs_lines lines = {.table = "sweep_ends",
                      .x = {"lambda", "skip strength λ"},
                      .y = {"relative_residual", "relative residual ‖R‖/‖X‖ behind the last layer"},
                      .colour = {"line", "model"},
                      .keys = {keys, COUNT(keys)}};
    if (w->spec.n < 2) return RS_OK;
    rs_result_show_curve(w->result, &(rs_curve){.table = "sweep_ends",
                                                .title = "Relative residual behind the last layer",
                                                .x = "lambda",
                                                .x_title = "skip strength",
                                                .y = {{.column = "relative_residual"}},
                                                .series = "line"});
    return rs_result_add_figure(
        w->result, "sweep", "What a skip strength keeps",
        "Relative residual behind the last layer against the skip strength λ: 0 where all tokens "
        "are equal. Each point is one run; between points nothing is known.",
        rs_figure_lines(&lines), err);
}

/* Points that ran in more than was asked for. */
static rs_status say_precision(const sweeping *w, rs_error *err)
{
    char message[300];
    rs_precision asked = w->options->measure.precision;
    int64_t wide = asked == RS_PRECISION_F32 ? w->moved[RS_PRECISION_F64] : 0;
    int64_t carried = asked < RS_PRECISION_RESIDUAL ? w->moved[RS_PRECISION_RESIDUAL] : 0;
    if (wide + carried == 0) return RS_OK;
    snprintf(message, sizeof message,
             "of %lld points of the sweep %lld ran in float64 and %lld in the residual precision: "
             "the state grows like the product of |λ| over the layers, or has no norm to hold it",
             (long long)((int64_t)w->n_settings * w->spec.n), (long long)wide, (long long)carried);
    rs_finding f = rs_finding_of(RS_INFO, "sweep_precision");
    f.value = (double)(wide + carried);
    f.message = message;
    f.hint = "column precision of table sweep_ends says which";
    f.table = "sweep_ends";
    return rs_result_add_finding(w->result, &f, err);
}

/* ---- all of it ---- */

static rs_status sweep_all(sweeping *w, rs_error *err)
{
    RS_TRY(open_settings(w, err));
    return run_all(w, err);
}

static void close_sweep(sweeping *w)
{
    for (size_t i = 0; i < w->n_settings; i++)
        rs_network_close(w->settings[i].network);
    rs_arena_free(w->arena);
}

static rs_status tell_all(const sweeping *w, rs_error *err)
{
    RS_TRY(add_tables(w, err));
    RS_TRY(say_precision(w, err));
    return add_figure(w, err);
}

rs_status rs_probe_sweep(rs_result *result, rs_pass_account *account, const rs_network *network,
                         rs_weights *weights, const rs_inputs *inputs,
                         const rs_probe_options *options, const rs_context *context, rs_error *err)
{
    sweeping w = {.result = result,
                  .network = network,
                  .weights = weights,
                  .inputs = inputs,
                  .options = options,
                  .context = context};
    rs_status status = rs_sweep_parse(&w.spec, options->sweep, err);
    if (status == RS_OK) status = sweep_all(&w, err);
    if (status == RS_OK) status = tell_all(&w, err);
    *account = w.account;
    close_sweep(&w);
    return status;
}

rs_status rs_sweep_states(rs_swept_state *out, rs_pass_account *account, const rs_network *network,
                          rs_weights *weights, const rs_inputs *inputs, const rs_sweep_spec *spec,
                          const rs_probe_options *options, const rs_context *context, rs_error *err)
{
    sweeping w = {.network = network,
                  .weights = weights,
                  .inputs = inputs,
                  .options = options,
                  .context = context,
                  .spec = *spec};
    rs_status status = sweep_all(&w, err);
    size_t states = (size_t)w.layers + 1;
    for (size_t i = 0; status == RS_OK && i < w.n_settings; i++)
        for (int32_t k = 0; k < spec->n; k++, out += states)
            memcpy(out, w.settings[i].points[k].states, states * sizeof *out);
    if (account) *account = w.account;
    close_sweep(&w);
    return status;
}
