/*
 * probe_sweep.c: the model at many skip strengths over the same inputs.
 *
 * Points that differ in λ alone run side by side in one pass (engine/forward.h, rs_points). The state
 * of a model that norms what branches read, and not the sum, grows like the product of its |λ|: points
 * whose growth float32 does not hold run in float64, and those beyond it in the residual precision,
 * which carries scales.
 */
#include "probe/probe_sweep.h"

#include "base/memory.h"
#include "probe/probe_sweep_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Decades that a state may grow by through skips alone in a pass of each precision: of the 38 and 308
 * that numbers have, the rest is for what enters and for squares of rows in float32. */
static const double most_growth[RS_PRECISIONS] = {
    [RS_PRECISION_F32] = 30, [RS_PRECISION_F64] = 280, [RS_PRECISION_RESIDUAL] = INFINITY};

/* ---- points ---- */

rs_status rs_sweep_network(rs_network **out, const rs_sweeping *w, const rs_sweep_setting *s,
                           double lambda, rs_error *err)
{
    rs_edit edit = s->edit;
    char text[64];
    snprintf(text, sizeof text, "%s%.17g", w->spec.of, lambda);
    RS_TRY(rs_edit_option(&edit, "lambda", text, err));
    RS_TRY(rs_network_copy(out, w->network, err));
    return rs_edit_apply(*out, &edit, err);
}

/* The precision that was asked for, or the next one that holds the growth. Without norms nothing is
 * known of what branches add, and float64 has room for most of it. */
static rs_precision precision_of(const rs_sweeping *w, double growth, bool norm)
{
    rs_precision precision = w->options->measure.precision;
    if (precision == RS_PRECISION_F32 && !norm) precision = RS_PRECISION_F64;
    while (precision < RS_PRECISION_RESIDUAL && growth > most_growth[precision])
        precision++;
    return precision;
}

/* Writes down the skips of point i, which every λ has where the edit puts it. The setting has the
 * network of the first. */
static rs_status set_point(rs_sweeping *w, rs_sweep_setting *s, int32_t i, rs_error *err)
{
    rs_network *network = i == 0 ? s->network : NULL;
    rs_sweep_point *p = &s->points[i];
    size_t at = 0;
    p->lambda = rs_sweep_lambda(&w->spec, i);
    p->gate = !s->edit.no_gate;
    p->norm = !s->edit.no_norm;
    p->states = rs_arena_alloc(w->arena, (size_t)w->layers + 1, sizeof *p->states);
    rs_status status = p->states ? RS_OK : rs_fail_memory(err, "sweep", 0);
    if (status == RS_OK && !network) status = rs_sweep_network(&network, w, s, p->lambda, err);
    for (int32_t l = 0; status == RS_OK && l < w->layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++)
            s->skip[at++ * (size_t)w->spec.n + (size_t)i] = network->layers[l].branches[b].skip;
    if (status == RS_OK) {
        double growth = rs_stack_decades(network, s->skip + i, w->spec.n);
        p->precision = precision_of(w, growth, p->norm);
        w->moved[p->precision]++;
    }
    if (network != s->network) rs_network_close(network);
    return status;
}

static rs_status open_setting(rs_sweeping *w, bool gate, bool norm, rs_error *err)
{
    rs_sweep_setting *s = &w->settings[w->n_settings];
    size_t cells;
    s->edit = w->options->edit;
    if (!gate) s->edit.no_gate = true;
    if (!norm) s->edit.no_norm = true;
    w->n_settings++; /* close_sweep closes what it has */
    RS_TRY(rs_sweep_network(&s->network, w, s, rs_sweep_lambda(&w->spec, 0), err));
    w->layers = s->network->n_layers;
    w->branches = (size_t)rs_stack_branches(s->network);
    s->points = rs_arena_alloc(w->arena, (size_t)w->spec.n, sizeof *s->points);
    s->skip = rs_size_mul(w->branches, (size_t)w->spec.n, &cells)
                  ? rs_arena_alloc(w->arena, cells, sizeof *s->skip)
                  : NULL;
    if (!s->points || !s->skip) return rs_fail_memory(err, "sweep", cells * sizeof *s->skip);
    for (int32_t i = 0; i < w->spec.n; i++)
        RS_TRY(set_point(w, s, i, err));
    return RS_OK;
}

static rs_status open_settings(rs_sweeping *w, rs_error *err)
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

rs_weights *rs_sweep_weights(const rs_sweeping *w, rs_precision precision)
{
    return precision == w->options->measure.precision ? w->weights : NULL;
}

/* Runs n points of a setting side by side; skips: room for [branches, n]. */
static rs_status run_side_by_side(rs_sweeping *w, const rs_sweep_setting *s,
                                  rs_sweep_point *const *points, int32_t n, double *skips,
                                  rs_error *err)
{
    size_t states = (size_t)w->layers + 1, cells;
    rs_precision precision = points[0]->precision;
    const rs_points side = {.n = n, .skip = skips};
    const rs_pass_plan plan = {.network = s->network,
                               .inputs = w->inputs,
                               .precision = precision,
                               .weights = rs_sweep_weights(w, precision),
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
static rs_status run_alone(rs_sweeping *w, const rs_sweep_setting *s, rs_sweep_point *p,
                           rs_error *err)
{
    rs_network *network = NULL;
    rs_weights *own = NULL, *weights = rs_sweep_weights(w, RS_PRECISION_RESIDUAL);
    rs_measured *measured = NULL;
    rs_measure_options options = {.precision = RS_PRECISION_RESIDUAL,
                                  .tokens = true,
                                  .centre = RS_CENTRE_MEAN,
                                  .batch = w->options->measure.batch,
                                  .phase = "sweep"};
    rs_status status = rs_sweep_network(&network, w, s, p->lambda, err);
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
static rs_status run_precision(rs_sweeping *w, rs_sweep_setting *s, rs_precision precision,
                               rs_error *err)
{
    int32_t n = w->spec.n,
            at_once = rs_sweep_points(s->network, precision, w->inputs, n, w->context);
    rs_sweep_point **points = rs_arena_alloc(w->arena, (size_t)at_once, sizeof *points);
    double *skips = rs_arena_alloc(w->arena, w->branches * (size_t)at_once, sizeof *skips);
    if (!points || !skips) return rs_fail_memory(err, "sweep", 0);
    int32_t some = 0;
    for (int32_t i = 0; i < n; i++) {
        rs_sweep_point *p = &s->points[i];
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

static rs_status run_all(rs_sweeping *w, rs_error *err)
{
    for (size_t i = 0; i < w->n_settings; i++)
        for (int precision = RS_PRECISION_F32; precision <= RS_PRECISION_RESIDUAL; precision++)
            RS_TRY(run_precision(w, &w->settings[i], (rs_precision)precision, err));
    return RS_OK;
}

/* ---- all of it ---- */

static rs_status sweep_all(rs_sweeping *w, rs_error *err)
{
    RS_TRY(open_settings(w, err));
    return run_all(w, err);
}

static void close_sweep(rs_sweeping *w)
{
    for (size_t i = 0; i < w->n_settings; i++)
        rs_network_close(w->settings[i].network);
    rs_arena_free(w->arena);
}

rs_status rs_probe_sweep(rs_result *result, rs_pass_account *account, const rs_network *network,
                         rs_weights *weights, const rs_inputs *inputs,
                         const rs_probe_options *options, const rs_measured *own,
                         const rs_context *context, rs_error *err)
{
    rs_sweeping w = {.result = result,
                     .network = network,
                     .weights = weights,
                     .inputs = inputs,
                     .options = options,
                     .own = own,
                     .context = context};
    rs_status status = rs_sweep_parse(&w.spec, options->sweep, err);
    if (status == RS_OK) status = sweep_all(&w, err);
    if (status == RS_OK) status = rs_sweep_prove(&w, err);
    if (status == RS_OK) status = rs_sweep_tables(&w, err);
    *account = w.account;
    close_sweep(&w);
    return status;
}

rs_status rs_sweep_states(rs_swept_state *out, rs_pass_account *account, const rs_network *network,
                          rs_weights *weights, const rs_inputs *inputs, const rs_sweep_spec *spec,
                          const rs_probe_options *options, const rs_context *context, rs_error *err)
{
    rs_sweeping w = {.network = network,
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
