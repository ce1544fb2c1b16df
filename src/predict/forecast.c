/* forecast.c: rows of theory as decades, their verdict and what is read out of them. */
#include "predict/forecast.h"

#include "base/memory.h"

#include <math.h>

static const rs_forecast_row unknown = {.square = NAN,
                                        .sum = NAN,
                                        .rho = NAN,
                                        .apart = NAN,
                                        .most = NAN,
                                        .keys = NAN,
                                        .deviation = NAN,
                                        .query = NAN,
                                        .key = NAN,
                                        .value = NAN,
                                        .output = NAN,
                                        .state = NAN};

rs_status rs_forecast_new(rs_forecast *out, int32_t n_layers, rs_error *err)
{
    *out = (rs_forecast){.n_layers = n_layers};
    out->rows = rs_malloc((size_t)n_layers + 1, sizeof *out->rows);
    if (!out->rows) return rs_fail_memory(err, "a forecast", (size_t)n_layers * sizeof *out->rows);
    for (int32_t l = 0; l <= n_layers; l++)
        out->rows[l] = unknown;
    return RS_OK;
}

void rs_forecast_free(rs_forecast *forecast)
{
    rs_free(forecast->rows);
    *forecast = (rs_forecast){0};
}

static rs_forecast_row in_decades(const rs_theory_row *t)
{
    const double decade = log(10);
    return (rs_forecast_row){.square = t->ln_square / decade,
                             .sum = t->ln_sum / decade,
                             .rho = t->rho,
                             .apart = t->ln_apart / decade,
                             .most = NAN,
                             .keys = t->keys,
                             .deviation = t->logit_deviation,
                             .query = t->ln_query / decade,
                             .key = t->ln_key / decade,
                             .value = t->ln_value / decade,
                             .output = t->ln_output / decade,
                             .state = t->ln_state / decade,
                             .note = t->note};
}

rs_status rs_forecast_judge(rs_forecast *f, const rs_predict_thresholds *thresholds, rs_error *err)
{
    size_t n = (size_t)f->n_layers + 1;
    double *columns = rs_malloc(n, 3 * sizeof *columns);
    if (!columns) return rs_fail_memory(err, "a verdict", n * 3 * sizeof *columns);
    for (size_t l = 0; l < n; l++) {
        columns[l] = f->rows[l].apart;
        columns[n + l] = f->rows[l].square;
        columns[2 * n + l] = f->rows[l].state;
    }
    const rs_predict_columns input = {f->n_layers,     columns,      columns + n,
                                      columns + 2 * n, f->lost_from, f->rows[f->n_layers].most};
    rs_predict_judge(&f->found, &input, thresholds);
    rs_free(columns);
    return RS_OK;
}

rs_status rs_forecast_of(rs_forecast *out, const rs_theory_row *theory, int32_t n_layers,
                         const rs_predict_thresholds *thresholds, rs_error *err)
{
    RS_TRY(rs_forecast_new(out, n_layers, err));
    bool rough = false;
    for (int32_t l = 0; l <= n_layers; l++) {
        out->rows[l] = in_decades(&theory[l]);
        out->rows[l].rough = rough;
        rough = rough || theory[l].rough;
    }
    rs_status status = rs_forecast_judge(out, thresholds, err);
    if (status != RS_OK) rs_forecast_free(out);
    return status;
}

rs_status rs_forecast_theory(rs_forecast *out, rs_theory_row *theory, const rs_design *design,
                             const rs_forecast_settings *settings, rs_error *err)
{
    const rs_theory_network *network = rs_theory_model_network(design->theory);
    const rs_theory_settings how = {
        .after_final_norm = settings->after_final_norm, .rough = true, .kept = settings->kept};
    size_t n = (size_t)network->n_layers + 1;
    rs_theory_row *own = theory ? NULL : rs_malloc(n, sizeof *own), *rows = theory ? theory : own;
    *out = (rs_forecast){0};
    if (!rows) return rs_fail_memory(err, "theory", n * sizeof *own);
    rs_status status = rs_theory_run(rows, network, &how, err);
    if (status == RS_OK)
        status = rs_forecast_of(out, rows, network->n_layers, &settings->thresholds, err);
    rs_free(own);
    return status;
}

/* ---- states side by side ---- */

/* log10(10^a + 10^b). */
static double add_decades(double a, double b)
{
    double most = fmax(a, b), least = fmin(a, b);
    if (isnan(a) || isnan(b)) return NAN;
    return most == -INFINITY ? most : most + log10(1 + pow(10, least - most));
}

/* Squared lengths of rows that stand side by side add up, and so do those of their differences: 1 − ρ is
 * Σ q(1 − ρ)/Σ q. */
void rs_forecast_fuse(rs_forecast *f)
{
    double square = -INFINITY, residual = -INFINITY;
    for (int32_t l = 1; l <= f->n_layers; l++) {
        rs_forecast_row *row = &f->rows[l];
        square = add_decades(square, row->square);
        residual = add_decades(residual, row->square + row->apart);
        row->apart = residual - square;
        row->rho = 1 - pow(10, row->apart);
    }
}

/* ---- read-outs ---- */

double rs_from_decades(double decades)
{
    double value = pow(10, decades);
    return isfinite(value) && (value > 0 || decades == -INFINITY) ? value : NAN;
}

double rs_forecast_ratio(const rs_forecast *f, int32_t layer)
{
    const rs_forecast_row *row = &f->rows[layer];
    return row->value == -INFINITY ? NAN : row->query - row->value;
}

int32_t rs_forecast_worst(const rs_forecast *f)
{
    int32_t worst = -1;
    if (f->lost_from > 0 && f->lost_from < f->n_layers) return -1;
    for (int32_t l = 0; l < f->n_layers; l++) {
        double ratio = rs_forecast_ratio(f, l);
        if (isnan(ratio)) continue;
        if (worst < 0 || ratio < rs_forecast_ratio(f, worst)) worst = l;
    }
    return worst;
}

double rs_forecast_least_ratio(const rs_forecast *f)
{
    int32_t worst = rs_forecast_worst(f);
    return worst < 0 ? NAN : rs_forecast_ratio(f, worst);
}

double rs_forecast_least_keys(const rs_forecast *f)
{
    double least = NAN;
    for (int32_t l = 0; l < f->n_layers; l++)
        if (f->rows[l].keys < least || isnan(least)) least = f->rows[l].keys;
    return least;
}

int32_t rs_forecast_depth_to(const rs_forecast *f, double target)
{
    for (int32_t l = 0; l <= f->n_layers; l++) {
        if (isnan(f->rows[l].rho)) return -1;
        if (f->rows[l].rho >= target) return l;
    }
    return -1;
}

double rs_forecast_growth(const rs_forecast *f)
{
    return f->rows[f->n_layers].square - f->rows[0].square;
}

double rs_forecast_growth_back(const rs_forecast *f)
{
    return f->rows[0].state - f->rows[f->n_layers].state;
}
