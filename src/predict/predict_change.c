/* predict_change.c: one architecture with other words, by theory. */
#include "predict/predict_parts.h"

#include <math.h>

static json_t *number(double value)
{
    bool whole = value == floor(value) && fabs(value) < 1e15;
    return whole ? json_integer((json_int_t)value) : json_real(value);
}

rs_status rs_predict_changed(rs_forecast *out, bool *made, const rs_predict_run *run,
                             const rs_predict_field *fields, size_t n, rs_error *err)
{
    *out = (rs_forecast){0};
    *made = false;
    if (run->design->published || run->design->checkpoint) return RS_OK;
    json_t *json = json_deep_copy(run->design->json);
    bool set = json != NULL;
    for (size_t i = 0; i < n && set; i++)
        set = json_object_set_new(json, fields[i].name, number(fields[i].value)) == 0;
    if (!set) {
        json_decref(json);
        return rs_fail_memory(err, "an architecture", 1);
    }
    rs_design design;
    rs_error why;
    rs_status status = rs_design_of(&design, run->design, json, &why);
    if (status == RS_OK) status = rs_forecast_theory(out, NULL, &design, &run->settings, &why);
    rs_design_close(&design);
    *made = status == RS_OK;
    if (status != RS_OK && err) *err = why;
    return status == RS_E_NO_MEMORY ? status : RS_OK;
}

/* Mean over layers of log10(gQ/gV); NaN: not known. */
static double mean_ratio(const rs_forecast *f)
{
    double sum = 0;
    int32_t n = 0;
    for (int32_t l = 0; l < f->n_layers; l++) {
        double ratio = rs_forecast_ratio(f, l);
        if (!isfinite(ratio)) continue;
        sum += ratio;
        n++;
    }
    return n ? sum / n : NAN;
}

static rs_status ratio_at(double *out, const rs_predict_run *run, double temperature, rs_error *err)
{
    rs_forecast f;
    bool made;
    const rs_predict_field field = {"temperature", temperature};
    *out = NAN;
    RS_TRY(rs_predict_changed(&f, &made, run, &field, 1, err));
    if (made) *out = mean_ratio(&f);
    rs_forecast_free(&f);
    return RS_OK;
}

/* gQ/gV rises as the temperature falls, until attention condenses: bisection on its logarithm. */
rs_status rs_predict_balance(double *temperature, const rs_predict_run *run, rs_error *err)
{
    enum { HALVINGS = 12, STEPS = 10 };
    double now = mean_ratio(&run->forecast);
    const json_t *given =
        run->design->json ? json_object_get(run->design->json, "temperature") : NULL;
    double high = given ? json_number_value(given) : 1, low = high;
    *temperature = NAN;
    if (!isfinite(now) || !(high > 0)) return RS_OK;
    double step = now < 0 ? 0.5 : 2, at = now;
    for (int i = 0; i < HALVINGS && (at < 0) == (now < 0); i++) {
        high = low;
        low *= step;
        RS_TRY(ratio_at(&at, run, low, err));
        if (!isfinite(at)) return RS_OK;
    }
    if ((at < 0) == (now < 0)) return RS_OK;
    for (int i = 0; i < STEPS; i++) {
        double middle = sqrt(low * high);
        RS_TRY(ratio_at(&at, run, middle, err));
        if (!isfinite(at)) return RS_OK;
        if ((at < 0) == (now < 0))
            high = middle;
        else
            low = middle;
    }
    *temperature = sqrt(low * high);
    return RS_OK;
}
