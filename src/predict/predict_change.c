/* predict_change.c: one architecture with other words, by theory. */
#include "base/budget.h"
#include "linalg/threads.h"
#include "predict/predict_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *rs_predict_fixed_because(const rs_predict_run *run)
{
    return run->design->checkpoint ? "measured weights are of these layers and sizes alone; --init "
                                     "default asks of others"
                                   : "only an architecture file can be changed";
}

static json_t *number(double value)
{
    bool whole = value == floor(value) && fabs(value) < 1e15;
    return whole ? json_integer((json_int_t)value) : json_real(value);
}

static bool set_field(json_t *json, const rs_predict_field *field)
{
    const char *dot = strchr(field->name, '.');
    if (!dot) return json_object_set_new(json, field->name, number(field->value)) == 0;
    char outer[64];
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - field->name), field->name);
    if (!json_object_get(json, outer) && json_object_set_new(json, outer, json_object()) != 0)
        return false;
    return json_object_set_new(json_object_get(json, outer), dot + 1, number(field->value)) == 0;
}

json_t *rs_predict_edit(const rs_predict_run *run, const rs_predict_field *fields, size_t n,
                        rs_error *err)
{
    json_t *json = json_deep_copy(run->design->json);
    bool set = json != NULL;
    for (size_t i = 0; i < n && set; i++)
        set = set_field(json, &fields[i]);
    if (set) return json;
    json_decref(json);
    rs_fail_memory(err, "an architecture", 1);
    return NULL;
}

rs_status rs_predict_check_need(const rs_design *design, const rs_context *context, rs_error *err)
{
    const rs_theory_need need = rs_theory_need_of(rs_theory_model_network(design->theory));
    rs_budget budget = {0};
    rs_budget_add(&budget, "Gram matrices of theory", need.bytes);
    RS_TRY(rs_budget_check(&budget, context->memory, "theory",
                           "take fewer tokens (--seq-len) or layers", err));
    if (need.operations > RS_PREDICT_MOST_THEORY)
        return rs_fail(err, RS_E_BAD_OPTION, "theory", "fewer tokens (--seq-len) or layers",
                       "theory of %" PRId64 " tokens in %d layers would take %.1e operations; at "
                       "most %.0e are run",
                       design->input.n, (int)design->network->n_layers, need.operations,
                       RS_PREDICT_MOST_THEORY);
    return RS_OK;
}

static rs_status try_with(rs_design *design, rs_forecast *out, bool *made, rs_error *why,
                          const rs_predict_run *run, const rs_forecast_settings *settings,
                          json_t *json)
{
    *out = (rs_forecast){0};
    rs_status status = rs_design_of(design, run->design, json, why);
    if (status == RS_OK) status = rs_predict_check_need(design, run->context, why);
    if (status == RS_OK) status = rs_forecast_theory(out, NULL, design, settings, why);
    *made = status == RS_OK;
    if (!*made) rs_design_close(design);
    return status == RS_E_NO_MEMORY || status == RS_E_INTERRUPTED ? status : RS_OK;
}

rs_status rs_predict_try(rs_design *design, rs_forecast *out, bool *made, rs_error *why,
                         const rs_predict_run *run, json_t *json, rs_error *err)
{
    rs_status status = try_with(design, out, made, why, run, &run->settings, json);
    if (status != RS_OK) *err = *why;
    return status;
}

static void try_one(rs_predict_variant *v, const rs_predict_run *run)
{
    rs_forecast_settings settings = run->settings;
    json_t *json = v->json;
    settings.kept = run->kept ? run->kept[rs_thread_number()] : NULL;
    v->status = rs_check_cancelled(run->context, &v->why);
    if (v->status != RS_OK || !json) return;
    v->json = NULL;
    v->status = try_with(&v->design, &v->forecast, &v->made, &v->why, run, &settings, json);
}

rs_status rs_predict_try_all(rs_predict_variant *variants, size_t n, const rs_predict_run *run,
                             rs_error *err)
{
    const rs_theory_need need = rs_theory_need_of(rs_theory_model_network(run->design->theory));
    int threads = rs_budget_threads(need.bytes, run->context->memory, run->context->threads);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < n; i++)
        try_one(&variants[i], run);
    for (size_t i = 0; i < n; i++) {
        if (variants[i].status == RS_OK) continue;
        *err = variants[i].why;
        return variants[i].status;
    }
    return RS_OK;
}

void rs_predict_variant_close(rs_predict_variant *v)
{
    json_decref(v->json);
    rs_forecast_free(&v->forecast);
    rs_design_close(&v->design);
}

/* A forecast alone of another file, which it takes over; NULL: there was no memory for it. */
static rs_status ask(rs_forecast *out, bool *made, const rs_predict_run *run, json_t *json,
                     rs_error *err)
{
    rs_design design = {0};
    rs_error why;
    if (!json) return err->status;
    rs_status status = rs_predict_try(&design, out, made, &why, run, json, err);
    rs_design_close(&design);
    return status;
}

rs_status rs_predict_changed(rs_forecast *out, bool *made, const rs_predict_run *run,
                             const rs_predict_field *fields, size_t n, rs_error *err)
{
    *out = (rs_forecast){0};
    *made = false;
    if (!rs_predict_can_change(run)) return RS_OK;
    return ask(out, made, run, rs_predict_edit(run, fields, n, err), err);
}

bool rs_predict_too_many(const rs_predict_run *run, double runs)
{
    const rs_theory_need need = rs_theory_need_of(rs_theory_model_network(run->design->theory));
    return runs * need.operations > RS_PREDICT_MOST_CHANGES;
}

/* ---- temperatures ---- */

bool rs_predict_one_temperature(double *out, const rs_predict_run *run)
{
    const rs_arch *arch = run->design->arch;
    *out = arch ? arch->temperature[0] : 1;
    for (int64_t l = 1; arch && l < arch->depth; l++)
        if (arch->temperature[l] != *out) return false;
    return true;
}

rs_status rs_predict_temper(json_t *json, const rs_predict_run *run, double factor, rs_error *err)
{
    const rs_arch *arch = run->design->arch;
    double one;
    bool alike = rs_predict_one_temperature(&one, run);
    json_t *value = alike ? number(factor * one) : json_array();
    bool set = value != NULL;
    for (int64_t l = 0; l < arch->depth && set && !alike; l++)
        set = json_array_append_new(value, number(factor * arch->temperature[l])) == 0;
    set = json_object_set_new(json, "temperature", value) == 0 && set;
    return set ? RS_OK : rs_fail_memory(err, "temperature", 1);
}

/* Mean over layers of log10(gQ/gV), n of which are known; NaN: none. */
static double mean_ratio(const rs_forecast *f, int32_t *known)
{
    double sum = 0;
    int32_t n = 0;
    for (int32_t l = 0; l < f->n_layers; l++) {
        double ratio = rs_forecast_ratio(f, l);
        if (!isfinite(ratio)) continue;
        sum += ratio;
        n++;
    }
    *known = n;
    return n ? sum / n : NAN;
}

/* With every layer's temperature times a factor. NaN where attention of a layer condenses that has a
 * ratio as it is: the mean of the others is another quantity. */
static rs_status ratio_at(double *out, const rs_predict_run *run, double factor, rs_error *err)
{
    rs_forecast f = {0};
    bool made = false;
    *out = NAN;
    if (!rs_predict_can_change(run)) return RS_OK;
    json_t *json = rs_predict_edit(run, NULL, 0, err);
    if (json && rs_predict_temper(json, run, factor, err) != RS_OK) {
        json_decref(json);
        json = NULL;
    }
    RS_TRY(ask(&f, &made, run, json, err));
    int32_t before, after = 0;
    mean_ratio(&run->forecast, &before);
    double mean = made ? mean_ratio(&f, &after) : NAN;
    if (after >= before) *out = mean;
    rs_forecast_free(&f);
    return RS_OK;
}

/* gQ/gV goes as the inverse square of the temperature while logits are small: that is the first guess,
 * and secants of the logarithms follow, half-way back from where attention condenses. What was nearest to
 * 0 is told. */
rs_status rs_predict_balance(rs_predict_run *run, rs_error *err)
{
    enum { STEPS = RS_PREDICT_BALANCE_STEPS };
    const double near = 0.02, farthest = 2; /* decades, of the ratio and of the temperature */
    int32_t known;
    double value = mean_ratio(&run->forecast, &known), slope = -2, at = 0, edge = NAN;
    run->temper = 1;
    run->balance = value;
    if (rs_predict_too_many(run, STEPS)) return RS_OK;
    for (int i = 0; i < STEPS && isfinite(value) && fabs(value) > near; i++) {
        double next = at - value / slope, then;
        next = fmin(fmax(next, -farthest), farthest);
        if (fabs(next - at) > 1) next = at + (next > at ? 1 : -1);
        if ((next - at) / (edge - at) >= 1) next = (at + edge) / 2; /* false where none is known */
        RS_TRY(ratio_at(&then, run, pow(10, next), err));
        if (!isfinite(then)) {
            edge = next;
            continue;
        }
        if (next != at) slope = (then - value) / (next - at);
        at = next;
        value = then;
        if (fabs(value) < fabs(run->balance)) {
            run->balance = value;
            run->temper = pow(10, at);
        }
        if (!(slope < -0.1)) break;
    }
    return RS_OK;
}
