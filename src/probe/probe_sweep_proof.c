/*
 * probe_sweep_proof.c: what is proved of a sweep's points and of half lines of λ
 * (docs/certificates_lambda.md, L29), and what the published equation 7 asks for (L10).
 *
 * A stack is bounded by its weights once a setting of the switches. A point's own tokens enter only
 * through the state before the first layer, measured in the precision that the point runs in.
 */
#include "base/memory.h"
#include "linalg/norm_bounds.h"
#include "network/op_traits.h"
#include "probe/probe_sweep_parts.h"

#include <math.h>

static const char no_bounds_text[] = "bounds on the norms of the weights";
static const char no_tokens_text[] = "tokens that are finite";

/* ---- what enters ---- */

/* The tokens that enter a point of this precision, once a sweep. Scales of the residual precision
 * come behind the embedding, which is float64's. */
static rs_status entering_of(const rs_lambda_entering **out, rs_sweeping *w, rs_precision precision,
                             rs_error *err)
{
    if (precision == RS_PRECISION_RESIDUAL) precision = RS_PRECISION_F64;
    rs_lambda_entering **kept = &w->entering[precision];
    if (!*kept) {
        rs_lambda_entering *made =
            rs_arena_alloc(w->arena, (size_t)w->inputs->samples + 1, sizeof *made);
        const rs_pass_plan plan = {.network = w->settings[0].network,
                                   .inputs = w->inputs,
                                   .precision = precision,
                                   .weights = rs_sweep_weights(w, precision),
                                   .phase = "sweep"};
        if (!made) return rs_fail_memory(err, "sweep", 0);
        RS_TRY(rs_observe_entering(made, &plan, w->options->measure.batch, w->context, err));
        *kept = made;
    }
    *out = *kept;
    return RS_OK;
}

/* Over all samples with tokens that are finite; none: NaN. */
static rs_lambda_left left_of(double reach, const rs_lambda_entering *entering, int64_t samples)
{
    rs_lambda_left all = {0, NAN};
    int64_t n = 0;
    for (int64_t s = 0; s < samples; s++) {
        if (isnan(entering[s].relative)) continue;
        rs_lambda_left one = rs_lambda_depth_left(reach, &entering[s]);
        all.relative += one.relative;
        all.kept = fmin(all.kept, one.kept); /* of numbers, where there is one */
        n++;
    }
    /* a sum of n terms and a quotient: n + 1 roundings, of which each takes 2^-53 (C10) */
    all.relative = n ? all.relative / (double)n * (1 - 0x1p-52 * (double)(n + 2)) : (double)NAN;
    return all;
}

/* ---- points ---- */

/* reach: [branches + 1] workspace. */
static rs_status prove_point(rs_sweeping *w, const rs_sweep_setting *s, rs_sweep_point *p,
                             rs_lambda_stack *stack, double *reach, rs_error *err)
{
    const rs_lambda_entering *entering = NULL;
    RS_TRY(entering_of(&entering, w, p->precision, err));
    rs_lambda_depth_reach(reach, stack);
    int64_t at = 0;
    for (int32_t l = 0; l <= w->layers; l++) {
        p->proved[l] = left_of(reach[at], entering, w->inputs->samples);
        if (l < w->layers) at += s->network->layers[l].n_branches;
    }
    return RS_OK;
}

/* Which branches the sweep gives its λ: those that follow it from one value to another. */
static rs_status find_swept(bool *swept, const rs_sweeping *w, const rs_sweep_setting *s,
                            rs_error *err)
{
    rs_network *at[2] = {NULL, NULL};
    rs_status status = RS_OK;
    size_t k = 0;
    for (int i = 0; i < 2 && status == RS_OK; i++)
        status = rs_sweep_network(&at[i], w, s, 2 + i, err);
    for (int32_t l = 0; status == RS_OK && l < w->layers; l++)
        for (int32_t b = 0; b < at[0]->layers[l].n_branches; b++)
            swept[k++] =
                at[0]->layers[l].branches[b].skip == 2 && at[1]->layers[l].branches[b].skip == 3;
    for (int i = 0; i < 2; i++)
        rs_network_close(at[i]);
    return status;
}

/* The half line: of the tokens of each precision that a point runs in. */
static rs_status prove_half_line(const rs_sweeping *w, rs_sweep_setting *s,
                                 const rs_lambda_stack *stack, rs_error *err)
{
    bool *swept = rs_arena_alloc(w->arena, w->branches + 1, sizeof *swept);
    if (!swept) return rs_fail_memory(err, "sweep", 0);
    RS_TRY(find_swept(swept, w, s, err));
    s->from = 0;
    for (int precision = 0; precision < RS_PRECISIONS; precision++) {
        if (!w->entering[precision]) continue;
        const rs_lambda_depth_wish wish = {.swept = swept,
                                           .entering = w->entering[precision],
                                           .samples = w->inputs->samples,
                                           .kept = w->spec.kept};
        s->from = fmax(s->from, rs_lambda_depth_demand(stack, &wish));
    }
    if (isinf(s->from)) s->from = NAN;
    return RS_OK;
}

static rs_status prove_setting(rs_sweeping *w, rs_sweep_setting *s, const double *gains,
                               rs_error *err)
{
    size_t n = (size_t)w->spec.n;
    double *skip = rs_arena_alloc(w->arena, w->branches + 1, sizeof *skip);
    double *reach = rs_arena_alloc(w->arena, w->branches + 1, sizeof *reach);
    if (!skip || !reach) return rs_fail_memory(err, "sweep", 0);
    rs_lambda_stack stack = {gains, skip, (int64_t)w->branches};
    for (size_t i = 0; i < n; i++) {
        for (size_t b = 0; b < w->branches; b++)
            skip[b] = s->skip[b * n + i];
        RS_TRY(prove_point(w, s, &s->points[i], &stack, reach, err));
    }
    if (isnan(s->points[0].proved[0].relative)) s->failed = no_tokens_text;
    return prove_half_line(w, s, &stack, err);
}

/* ---- equation 7 ---- */

/* The largest ‖M‖_F of all mixers on any sample; NaN: one was not measured. */
static double measured_mixing(const rs_network *network, const rs_measured *own)
{
    double most = 0;
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_layer *layer = &network->layers[l];
        const rs_branch *mixer = rs_layer_mixer(layer);
        size_t rows = 0;
        if (!mixer || mixer->scale == 0) continue;
        for (size_t i = 0; i < own->n_mixing; i++) {
            const rs_mixing_row *row = &own->mixing[i];
            if (row->layer != l || row->branch != (int32_t)(mixer - layer->branches)) continue;
            if (row->samples != own->samples || isnan(row->frobenius_most)) return NAN;
            most = fmax(most, row->frobenius_most);
            rows++;
        }
        if (rows == 0) return NAN;
    }
    return most;
}

/* The norms are from the weights, or from the run of the model at its own λ where this setting has
 * its switches. */
static void ask_eq7(const rs_sweeping *w, rs_sweep_setting *s, const rs_stack_bounds *bounds)
{
    const rs_edit *own = &w->options->edit;
    bool itself = s->edit.no_gate == own->no_gate && s->edit.no_norm == own->no_norm;
    rs_lambda_wish wish = {.kept = w->spec.kept, .layers = 1, .published = bounds->published};
    const rs_lambda_facts none = {.n = 0};
    s->eq7_from = "weights";
    if (isnan(wish.published) && w->own && itself) {
        s->eq7_from = "measured";
        wish.published = rs_times_up(bounds->stretch, measured_mixing(s->network, w->own));
    }
    s->eq7 = rs_lambda_published_eq7(&none, &wish).value;
    if (isfinite(s->eq7)) return;
    s->eq7_from = NULL;
    s->eq7_failed = isnan(bounds->stretch) ? "a value map whose norm is known"
                    : !itself ? "mixing matrices that were measured with these switches"
                              : "mixing matrices whose norms were measured";
}

/* ---- all ---- */

static rs_status open_proved(rs_sweeping *w, rs_sweep_setting *s, rs_error *err)
{
    s->from = s->eq7 = NAN;
    for (int32_t i = 0; i < w->spec.n; i++) {
        rs_sweep_point *p = &s->points[i];
        p->proved = rs_arena_alloc(w->arena, (size_t)w->layers + 1, sizeof *p->proved);
        if (!p->proved) return rs_fail_memory(err, "sweep", 0);
        for (int32_t l = 0; l <= w->layers; l++)
            p->proved[l] = (rs_lambda_left){NAN, NAN};
    }
    return RS_OK;
}

rs_status rs_sweep_prove(rs_sweeping *w, rs_error *err)
{
    double *gains = rs_arena_alloc(w->arena, w->branches + 1, sizeof *gains);
    if (!gains) return rs_fail_memory(err, "sweep", 0);
    for (size_t i = 0; i < w->n_settings; i++) {
        rs_sweep_setting *s = &w->settings[i];
        rs_stack_bounds bounds = {.gains = gains, .failed = no_bounds_text, NAN, NAN};
        RS_TRY(open_proved(w, s, err));
        if (w->options->bounds)
            RS_TRY(w->options->bounds(&bounds, s->network, w->inputs, w->context, err));
        s->failed = bounds.failed;
        ask_eq7(w, s, &bounds);
        if (!s->failed) RS_TRY(prove_setting(w, s, gains, err));
    }
    return RS_OK;
}
