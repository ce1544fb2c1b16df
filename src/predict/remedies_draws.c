/* remedies_draws.c: remedies by trials (docs/theory/mean_field.md, 12): what they change is drawn from the
 * random numbers of what they change it from, so that the difference has a smaller error than either. */
#include "predict/remedies_draws.h"

#include <math.h>

/* Operations of one architecture's trials: with three remedies and the architecture as it is some 4 s on two
 * cores. */
static const double most_operations = 2.5e10;
enum { UNASKED = 3, TWIN_WIDTH = 256, LEAST_TRIALS = 4, MOST_TRIALS = 100 };

/* ---- how many, of what ---- */

static int32_t trials_within(double operations, const rs_design *design)
{
    double trials = operations / rs_trials_cost(design->network, design->input.n);
    return (int32_t)fmin(fmax(trials, LEAST_TRIALS), MOST_TRIALS);
}

/* The architecture itself where its trials are few enough or it was asked for, else a twin. */
static rs_status choose(rs_remedy_draws *d, double operations, rs_error *err)
{
    const rs_predict_options *options = d->run->options;
    const rs_design *design = d->run->design;
    double wanted = options->trials > 0 ? (double)options->trials : LEAST_TRIALS;
    d->size = rs_design_twin_size(design, design->arch->d_model, operations / wanted);
    if (!options->full_size && rs_twin_is_narrower(d->size, design)) {
        d->size = rs_design_twin_size(design, TWIN_WIDTH, operations / wanted);
        RS_TRY(rs_design_twin(&d->twin, design, d->size, err));
        design = &d->twin;
    } else {
        d->size.d_model = design->arch->d_model;
    }
    d->trials = options->trials > 0 ? (int32_t)options->trials : trials_within(operations, design);
    return RS_OK;
}

rs_status rs_remedy_draws_open(rs_remedy_draws *out, const rs_predict_run *run, int32_t networks,
                               bool asked, rs_error *err)
{
    *out = (rs_remedy_draws){.run = run, .first = -1};
    bool many = !asked && networks > UNASKED;
    return choose(out, most_operations * (many ? (UNASKED + 1) / (networks + 1.0) : 1), err);
}

void rs_remedy_draws_close(rs_remedy_draws *d)
{
    for (int way = 0; way < 2; way++) {
        rs_trials_free(d->base[way]);
        rs_forecast_free(&d->before[way]);
    }
    rs_design_close(&d->twin);
    *d = (rs_remedy_draws){.first = -1};
}

/* ---- the architecture as it is ---- */

static rs_status keep_base(rs_remedy_draws *d, rs_trials *trials, rs_error *err)
{
    int way = trials->batched;
    d->base[way] = trials;
    if (d->first < 0) d->first = way;
    return rs_forecast_trials(&d->before[way], trials, &d->run->settings, err);
}

/* Trials that the run has of the same network, the first of which are the ones that are wanted. */
static bool has_run(const rs_remedy_draws *d, rs_trials_way way)
{
    const rs_trials *trials = d->run->trials;
    if (!trials || d->run->twin.network || d->twin.network || trials->trials < d->trials)
        return false;
    return way == RS_TRIALS_EITHER || trials->batched == (way == RS_TRIALS_BATCHED);
}

static rs_status draw_base(rs_remedy_draws *d, rs_trials_way way, rs_error *err)
{
    const rs_predict_run *run = d->run;
    const rs_design *design = d->twin.network ? &d->twin : run->design;
    rs_trials *trials;
    if (has_run(d, way))
        RS_TRY(rs_trials_first(&trials, run->trials, d->trials, run->design->input.n, err));
    else
        RS_TRY(rs_design_trials_by(&trials, design, d->trials, way, run->options->after_final_norm,
                                   run->context, err));
    return keep_base(d, trials, err);
}

/* ---- errors ---- */

/* What numbers are taken of; apart: of the tokens, which may be those of all layers. */
typedef struct seen {
    const rs_trials *trials, *apart;
    const rs_forecast *forecast;
} seen;

/* By how much one trial moves a number. */
static double pull(const seen *s, rs_remedy_number number, int32_t trial)
{
    const rs_trials *t = s->trials;
    int32_t last = t->n_layers, worst;
    switch (number) {
    case RS_REMEDY_APART:
        return rs_trials_pull_apart(s->apart, trial, last);
    case RS_REMEDY_RATIO:
        worst = rs_forecast_worst(s->forecast);
        return worst < 0 ? NAN
                         : rs_trials_pull(t, trial, worst, RS_TRIALS_QUERY) -
                               rs_trials_pull(t, trial, worst, RS_TRIALS_VALUE);
    case RS_REMEDY_GROWTH:
        return rs_trials_pull(t, trial, last, RS_TRIALS_SQUARE) -
               rs_trials_pull(t, trial, 0, RS_TRIALS_SQUARE);
    case RS_REMEDY_BACK:
        return rs_trials_pull(t, trial, 0, RS_TRIALS_STATE) -
               rs_trials_pull(t, trial, last, RS_TRIALS_STATE);
    case RS_REMEDY_NUMBERS:
        break;
    }
    return NAN;
}

/* Standard error of a number, or with `before` of the change of it, from the trials that have both. */
static double error_of(const seen *then, const seen *before, rs_remedy_number number)
{
    double sum = 0, square = 0;
    int32_t n = 0;
    for (int32_t t = 0; t < then->trials->trials; t++) {
        double by = pull(then, number, t) - (before ? pull(before, number, t) : 0);
        if (!isfinite(by)) continue;
        sum += by;
        square += by * by;
        n++;
    }
    if (n < 2) return NAN;
    return sqrt(fmax(square - sum * sum / n, 0) / (n - 1.0) / n);
}

/* ---- with a remedy ---- */

static void fill(rs_remedied *r, const seen *before, const seen *then)
{
    r->measured = true;
    r->before = rs_remedy_side_of(before->forecast);
    r->drawn = rs_remedy_side_of(then->forecast);
    for (int i = 0; i < RS_REMEDY_NUMBERS; i++) {
        r->error[i] = error_of(then, NULL, (rs_remedy_number)i);
        r->change_error[i] = error_of(then, before, (rs_remedy_number)i);
    }
    /* where one of the two is hidden the other is compared with what it is at most */
    if (isnan(r->drawn.apart) && !isnan(r->drawn.most))
        r->change_error[RS_REMEDY_APART] = error_of(before, NULL, RS_REMEDY_APART);
    else if (isnan(r->before.apart) && !isnan(r->before.most))
        r->change_error[RS_REMEDY_APART] = r->error[RS_REMEDY_APART];
}

static seen seen_of_base(const rs_remedy_draws *d, int way)
{
    return (seen){d->base[way], d->base[way], &d->before[way]};
}

/* The networks as they are, their states read side by side. */
static rs_status draw_fused(rs_remedied *r, rs_remedy_draws *d, rs_error *err)
{
    const rs_forecast_settings *settings = &d->run->settings;
    rs_trials *fused;
    rs_forecast f, of_tokens;
    if (d->first < 0) RS_TRY(draw_base(d, RS_TRIALS_EITHER, err));
    const seen before = seen_of_base(d, d->first);
    RS_TRY(rs_trials_fused(&fused, before.trials, d->run->design->input.n, err));
    rs_status status = rs_forecast_trials(&f, before.trials, settings, err);
    if (status == RS_OK) {
        status = rs_forecast_trials(&of_tokens, fused, settings, err);
        for (int32_t l = 0; l <= f.n_layers && status == RS_OK; l++) {
            f.rows[l].rho = of_tokens.rows[l].rho;
            f.rows[l].apart = of_tokens.rows[l].apart;
            f.rows[l].most = of_tokens.rows[l].most;
        }
        if (status == RS_OK) {
            f.lost_from = of_tokens.lost_from;
            rs_forecast_free(&of_tokens);
            status = rs_forecast_judge(&f, &settings->thresholds, err);
        }
        const seen then = {before.trials, fused, &f};
        if (status == RS_OK) fill(r, &before, &then);
        if (status == RS_OK) r->drawn.ratio = r->before.ratio; /* of the same layers */
        rs_forecast_free(&f);
    }
    rs_trials_free(fused);
    return status;
}

static rs_status draw_edited(rs_remedied *r, rs_remedy_draws *d, const rs_design *edited,
                             rs_error *err)
{
    const rs_predict_run *run = d->run;
    rs_trials *trials;
    rs_forecast f;
    RS_TRY(rs_design_trials(&trials, edited, d->trials, run->options->after_final_norm,
                            run->context, err));
    int way = trials->batched;
    rs_status status = rs_forecast_trials(&f, trials, &run->settings, err);
    if (status == RS_OK) {
        if (!d->base[way]) status = draw_base(d, way ? RS_TRIALS_BATCHED : RS_TRIALS_ENGINE, err);
        if (status == RS_OK) {
            const seen before = seen_of_base(d, way), then = {trials, trials, &f};
            fill(r, &before, &then);
        }
        rs_forecast_free(&f);
    }
    rs_trials_free(trials);
    return status;
}

rs_status rs_remedy_draw(rs_remedied *r, rs_remedy_draws *d, const rs_design *edited, rs_error *err)
{
    rs_design twin;
    if (r->remedy->fuses) return draw_fused(r, d, err);
    if (!d->twin.network) return draw_edited(r, d, edited, err);
    rs_status status = rs_design_twin(&twin, edited, d->size, err);
    if (status == RS_OK) status = draw_edited(r, d, &twin, err);
    rs_design_close(&twin);
    return status;
}

void rs_remedy_draws_now(rs_remedies *out, const rs_remedy_draws *d)
{
    if (d->first < 0) return;
    const seen now = seen_of_base(d, d->first);
    out->trials = d->trials;
    out->width = d->size.d_model;
    out->twin = d->twin.network != NULL;
    out->now = rs_remedy_side_of(now.forecast);
    for (int i = 0; i < RS_REMEDY_NUMBERS; i++)
        out->now_error[i] = error_of(&now, NULL, (rs_remedy_number)i);
}
