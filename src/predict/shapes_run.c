/* shapes_run.c: what becomes of each shape, by theory and drawn, as a table and an answer. */
#include "predict/shapes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- running ---- */

static const rs_shape_said unsaid = {RS_PREDICT_UNKNOWN, NAN, NAN, NAN, NAN, NAN, NAN};

static rs_shape_said said_of(const rs_forecast *f)
{
    const rs_forecast_row *last = &f->rows[f->n_layers];
    return (rs_shape_said){.verdict = f->found.verdict,
                           .rho = last->rho,
                           .apart = last->apart,
                           .growth = rs_forecast_growth(f),
                           .growth_back = rs_forecast_growth_back(f),
                           .ratio = rs_forecast_least_ratio(f),
                           .keys = rs_forecast_least_keys(f)};
}

/* Draws a shape; where memory does not hold it, it says so. */
static rs_status draw(rs_budget_shape *s, const rs_design *design, const rs_forecast *theory,
                      const rs_predict_run *run, int32_t trials, rs_error *err)
{
    rs_predict_run own = {.options = run->options,
                          .design = design,
                          .forecast = *theory,
                          .settings = run->settings,
                          .context = run->context};
    rs_error why;
    rs_status status = rs_design_trials(&own.trials, design, trials, run->options->after_final_norm,
                                        run->context, &why);
    if (status == RS_E_MEMORY_LIMIT) {
        snprintf(s->why, sizeof s->why, "not drawn: %.140s", why.what);
        return RS_OK;
    }
    if (status != RS_OK) {
        *err = why;
        return status;
    }
    status = rs_forecast_trials(&own.measured, own.trials, &run->settings, err);
    if (status == RS_OK) {
        s->drawn = said_of(&own.measured);
        rs_predict_gap gap = rs_predict_widest_gap(&own);
        if (gap.quantity) s->gap = gap.errors;
    }
    rs_forecast_free(&own.measured);
    rs_trials_free(own.trials);
    return status;
}

static rs_status run_shape(rs_budget_shape *s, const rs_predict_run *run, int32_t trials,
                           rs_error *err)
{
    rs_design design = {0};
    rs_forecast theory;
    rs_error why;
    bool made;
    s->theory = s->drawn = unsaid;
    if (isnan(s->parameters)) return RS_OK;
    json_t *json = rs_shape_file(run, s, err);
    if (!json) return err->status;
    RS_TRY(rs_predict_try(&design, &theory, &made, &why, run, json, err));
    rs_status status = RS_OK;
    if (!made) {
        snprintf(s->why, sizeof s->why, "%.150s", why.what);
    } else {
        s->theory = said_of(&theory);
        if (trials > 0) status = draw(s, &design, &theory, run, trials, err);
    }
    rs_forecast_free(&theory);
    rs_design_close(&design);
    return status;
}

rs_status rs_shapes_run(rs_shapes *shapes, const rs_predict_run *run, rs_error *err)
{
    for (size_t i = 0; i < shapes->n; i++) {
        RS_TRY(rs_check_cancelled(run->context, err));
        RS_TRY(run_shape(&shapes->list[i], run, shapes->trials, err));
        rs_progress(run->context, "budget", i + 1, shapes->n, "shapes");
    }
    return RS_OK;
}

/* ---- the table ---- */

typedef struct shape_row {
    int64_t depth, width, parameters;
    const char *verdict, *verdict_theory;
    double rho, rho_theory, apart, apart_theory, growth, growth_theory, back, back_theory;
    double ratio, ratio_theory, keys, keys_theory, gap, time;
    const char *why;
} shape_row;

#define SHAPE(...) RS_COLUMN(shape_row, __VA_ARGS__)
static const rs_column shape_columns[] = {
    SHAPE(depth, "depth", NULL, "layers", "field depth of the architecture", NULL),
    SHAPE(width, "width", NULL, NULL, "field d_model of the architecture", NULL),
    SHAPE(parameters, "parameters", NULL, NULL, "numbers that are stored and trained", NULL),
    SHAPE(verdict, "verdict", NULL, NULL, "of networks that were drawn", NULL),
    SHAPE(verdict_theory, "verdict_theory", NULL, NULL, "by theory", "predicted"),
    SHAPE(rho, "rho", "ρ", NULL, "behind the last layer, drawn", NULL),
    SHAPE(rho_theory, "rho_theory", "ρ, theory", NULL, "behind the last layer", "predicted"),
    SHAPE(apart, "log10_one_minus_rho", "log (1 − ρ)", "decades", "behind the last layer", NULL),
    SHAPE(apart_theory, "log10_one_minus_rho_theory", "log (1 − ρ), theory", "decades",
          "behind the last layer", "predicted"),
    SHAPE(growth, "log10_growth", "growth", "decades", "log₁₀ ‖X^L‖²/‖X⁰‖²", NULL),
    SHAPE(growth_theory, "log10_growth_theory", "growth, theory", "decades", "log₁₀ ‖X^L‖²/‖X⁰‖²",
          "predicted"),
    SHAPE(back, "log10_growth_back", "growth back", "decades", "log₁₀ ‖∂L/∂X⁰‖²/‖∂L/∂X^L‖²", NULL),
    SHAPE(back_theory, "log10_growth_back_theory", "growth back, theory", "decades",
          "log₁₀ ‖∂L/∂X⁰‖²/‖∂L/∂X^L‖²", "predicted"),
    SHAPE(ratio, "ratio_gQ_gV", "gQ/gV", NULL, "of the layer where it is least, drawn", NULL),
    SHAPE(ratio_theory, "ratio_gQ_gV_theory", "gQ/gV, theory", NULL,
          "of the layer where it is least", "predicted"),
    SHAPE(keys, "effective_keys", "effective keys", NULL,
          "1/E ΣA² of the layer where it is least, drawn", NULL),
    SHAPE(keys_theory, "effective_keys_theory", "effective keys, theory", NULL,
          "1/E ΣA² of the layer where it is least", "predicted"),
    SHAPE(gap, "gap_errors", NULL, NULL,
          "the widest gap between theory and networks that were drawn, in standard errors; of few "
          "trials so many as are as rare under a normal law",
          NULL),
    SHAPE(time, "time_ratio", NULL, NULL,
          "operations of a pass over those of the architecture as it is", NULL),
    SHAPE(why, "why", NULL, NULL, "why a shape has no numbers, or was not drawn", NULL),
};
enum { SHAPE_COLUMNS = sizeof shape_columns / sizeof *shape_columns };
const rs_table_kind rs_predict_budget_kind = {"predict", "budget", {RS_PART(shape_columns)}};

static shape_row row_of(const rs_budget_shape *s, double operations)
{
    const rs_shape_said *t = &s->theory, *d = &s->drawn;
    bool made = !isnan(s->parameters);
    return (shape_row){.depth = s->depth,
                       .width = made ? s->width : -1,
                       .parameters = made ? (int64_t)s->parameters : -1,
                       .verdict = rs_predict_verdict_known(d->verdict),
                       .verdict_theory = rs_predict_verdict_known(t->verdict),
                       .rho = d->rho,
                       .rho_theory = t->rho,
                       .apart = d->apart,
                       .apart_theory = t->apart,
                       .growth = d->growth,
                       .growth_theory = t->growth,
                       .back = d->growth_back,
                       .back_theory = t->growth_back,
                       .ratio = rs_from_decades(d->ratio),
                       .ratio_theory = rs_from_decades(t->ratio),
                       .keys = d->keys,
                       .keys_theory = t->keys,
                       .gap = s->gap,
                       .time = s->operations / operations,
                       .why = s->why[0] ? s->why : NULL};
}

static rs_status add_figure(rs_result *result, bool drawn, rs_error *err)
{
    static const char *const keys[] = {"depth"};
    rs_lines lines = {.table = "budget",
                      .x = {"depth", "layers, at equal parameters"},
                      .y = {"log10_one_minus_rho_theory", "log10 (1 − ρ)"},
                      .keys = {keys, 1},
                      .log_x = true};
    if (drawn) {
        lines.first = "theory";
        lines.more[0] = (rs_figure_curve){.field = "log10_one_minus_rho", .title = "drawn"};
    }
    return rs_result_add_figure(result, "budget", "1 − ρ over shapes of equal size", NULL,
                                rs_figure_lines(&lines), err);
}

rs_status rs_shapes_table(rs_result *result, const rs_shapes *shapes, const rs_predict_run *run,
                          rs_error *err)
{
    rs_table *table;
    double operations = rs_trials_cost(run->design->network, run->design->input.n);
    RS_TRY(rs_result_add_table(result, "budget", "Depth against width",
                               "One row a shape of nearly as many parameters, the heads as many; "
                               "by theory, and drawn.",
                               shape_columns, SHAPE_COLUMNS, &table, err));
    rs_table_show_first(table, shapes->trials > 0
                                   ? "depth,width,parameters,verdict,rho,log10_one_minus_rho,"
                                     "log10_growth,ratio_gQ_gV,effective_keys,verdict_theory"
                                   : "depth,width,parameters,verdict_theory,rho_theory,"
                                     "log10_one_minus_rho_theory,log10_growth_theory,"
                                     "ratio_gQ_gV_theory,effective_keys_theory");
    for (size_t i = 0; i < shapes->n; i++) {
        const shape_row row = row_of(&shapes->list[i], operations);
        RS_TRY(rs_table_append(table, &row, err));
    }
    return add_figure(result, shapes->trials > 0, err);
}

/* ---- the answer ---- */

/* Networks that were drawn count before theory: narrow ones are not what it is made for. */
static const rs_shape_said *best_known(const rs_budget_shape *s)
{
    return s->drawn.verdict != RS_PREDICT_UNKNOWN ? &s->drawn : &s->theory;
}

static const rs_budget_shape *most_apart(const rs_shapes *shapes)
{
    const rs_budget_shape *most = NULL;
    for (size_t i = 0; i < shapes->n; i++) {
        const rs_budget_shape *s = &shapes->list[i];
        if (isnan(best_known(s)->apart)) continue;
        if (!most || best_known(s)->apart > best_known(most)->apart) most = s;
    }
    return most;
}

static const rs_budget_shape *deepest(const rs_shapes *shapes, rs_predict_verdict verdict)
{
    const rs_budget_shape *found = NULL;
    for (size_t i = 0; i < shapes->n; i++)
        if (best_known(&shapes->list[i])->verdict == verdict) found = &shapes->list[i];
    return found;
}

/* "16 × 72 (1 − ρ 0.52)". */
static const char *name_shape(char out[64], const rs_budget_shape *s)
{
    double apart = best_known(s)->apart;
    if (fabs(apart) < 4)
        snprintf(out, 64, "%lld × %lld (1 − ρ %.2g)", (long long)s->depth, (long long)s->width,
                 pow(10, apart));
    else
        snprintf(out, 64, "%lld × %lld (1 − ρ 10^%.1f)", (long long)s->depth, (long long)s->width,
                 apart);
    return out;
}

void rs_shapes_answer(rs_predict_answer *a, const rs_shapes *shapes)
{
    const rs_budget_shape *most = most_apart(shapes),
                          *healthy = deepest(shapes, RS_PREDICT_HEALTHY),
                          *slow = deepest(shapes, RS_PREDICT_SLOW);
    char text[64];
    *a = (rs_predict_answer){.number = RS_PREDICT_ANSWERS + 1,
                             .question = "budget",
                             .asks = "what depth and width do so many parameters have best?",
                             .value = healthy ? (double)healthy->depth : NAN};
    size_t size = sizeof a->answer;
    if (!most) {
        snprintf(a->answer, size, "not known: neither theory nor trials say what becomes of any");
        return;
    }
    size_t used =
        (size_t)snprintf(a->answer, size, "of %zu shapes%s %s is most apart", shapes->n,
                         shapes->trials > 0 ? "" : ", by theory alone,", name_shape(text, most));
    if (healthy && healthy != most)
        used += (size_t)snprintf(a->answer + used, size - used, ", healthy to %s",
                                 name_shape(text, healthy));
    else if (!healthy)
        used += (size_t)snprintf(a->answer + used, size - used, ", none is healthy");
    if (slow && (!healthy || slow->depth > healthy->depth))
        snprintf(a->answer + used, size - used, ", slow to %s", name_shape(text, slow));
}
