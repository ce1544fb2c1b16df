/* remedies_run.c: each remedy run, and what it makes better and worse. */
#include "predict/remedies.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- better and worse ---- */

static void add_worse(rs_remedied *r, const char *word)
{
    size_t used = strlen(r->worse_at);
    snprintf(r->worse_at + used, sizeof r->worse_at - used, "%s%s", used ? " " : "", word);
}

/* A question's answer is worse where its number moves by more than a factor of two, the wrong way. */
static void compare(rs_remedied *r, const rs_forecast *now, const rs_forecast *then)
{
    const double twice = log10(2);
    double apart = then->rows[then->n_layers].apart - now->rows[now->n_layers].apart;
    double ratio = fabs(rs_forecast_least_ratio(then)) - fabs(rs_forecast_least_ratio(now));
    double size = fabs(rs_forecast_growth(then)) - fabs(rs_forecast_growth(now));
    double back = fabs(rs_forecast_growth_back(then)) - fabs(rs_forecast_growth_back(now));
    double keys = log10(rs_forecast_least_keys(now) / rs_forecast_least_keys(then));
    if (apart < -twice || then->found.verdict > now->found.verdict) add_worse(r, "apart");
    if (size > twice || back > twice) add_worse(r, "size");
    if (ratio > twice || (isnan(ratio) && isfinite(rs_forecast_least_ratio(now))))
        add_worse(r, "queries");
    if (keys > twice) add_worse(r, "attention");
}

/* Verdicts first, then digits of 1 − ρ, then the balance of gradients. Beyond three decades neither
 * counts for more: nobody trains better with it. */
static double score(const rs_remedied *r)
{
    const double most = 3;
    double apart = isnan(r->apart) ? -most : fmax(r->apart, -most);
    double balance = isnan(r->ratio) ? -most : fmax(-fabs(r->ratio), -most);
    return -10 * (double)r->found.verdict + 2 * apart + balance / 2 - (r->worse_at[0] ? 0.5 : 0);
}

double rs_remedies_score(const rs_forecast *f)
{
    const rs_remedied as_it_is = {.found = f->found,
                                  .apart = f->rows[f->n_layers].apart,
                                  .ratio = rs_forecast_least_ratio(f)};
    return score(&as_it_is);
}

/* ---- running ---- */

/* The file with one remedy; *json NULL: it does not apply. */
static rs_status edit(json_t **json, const rs_predict_run *run, const rs_remedy *remedy,
                      rs_error *err)
{
    bool applies = true;
    *json = json_deep_copy(run->design->json);
    if (!*json) return rs_fail_memory(err, remedy->name, 1);
    rs_status status = remedy->apply(*json, &applies, run, err);
    if (status == RS_OK && applies && !json_equal(*json, run->design->json)) return RS_OK;
    json_decref(*json);
    *json = NULL;
    return status;
}

static void take(rs_remedied *out, const rs_predict_variant *v, const rs_predict_run *run)
{
    const rs_forecast *f = &v->forecast;
    out->found = f->found;
    out->apart = f->rows[f->n_layers].apart;
    out->ratio = rs_forecast_least_ratio(f);
    out->growth = rs_forecast_growth(f);
    out->parameters_ratio = (double)v->design.network->stored.parameters /
                            (double)run->design->network->stored.parameters;
    out->time_ratio = rs_trials_cost(v->design.network, v->design.input.n) /
                      rs_trials_cost(run->design->network, run->design->input.n);
    compare(out, &run->forecast, f);
    out->score = score(out);
}

static int by_score(const void *a, const void *b)
{
    double x = ((const rs_remedied *)a)->score, y = ((const rs_remedied *)b)->score;
    return (x < y) - (x > y);
}

static bool is_named(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = names; p && *p; p += strspn(p, ",")) {
        size_t n = strcspn(p, ",");
        if (n == length && memcmp(p, name, n) == 0) return true;
        p += n;
    }
    return !names || strcmp(names, "all") == 0;
}

static rs_status check_names(const char *names, rs_error *err)
{
    const rs_remedy *remedy;
    if (!names || strcmp(names, "all") == 0) return RS_OK;
    for (const char *p = names; *p; p += strspn(p, ",")) {
        size_t n = strcspn(p, ",");
        RS_TRY(rs_remedy_find(&remedy, p, n, err));
        p += n;
    }
    return RS_OK;
}

/* Those of `names` that apply, in the order of the table. */
static rs_status list_all(rs_predict_variant *variants, rs_remedied *list, size_t *n,
                          const rs_predict_run *run, const char *names, rs_error *err)
{
    const rs_remedy *remedy;
    for (size_t i = 0; (remedy = rs_remedy_at(i)); i++) {
        if (!is_named(names, remedy->name)) continue;
        RS_TRY(edit(&variants[*n].json, run, remedy, err));
        if (variants[*n].json) list[(*n)++] = (rs_remedied){.remedy = remedy};
    }
    return RS_OK;
}

rs_status rs_remedies_run(rs_remedied **out, size_t *n, const rs_predict_run *run,
                          const char *names, rs_error *err)
{
    size_t most = 0, asked = 0;
    *out = NULL;
    *n = 0;
    RS_TRY(check_names(names, err));
    if (!rs_predict_can_change(run)) return RS_OK;
    while (rs_remedy_at(most))
        most++;
    rs_remedied *list = rs_malloc(most, sizeof *list);
    rs_predict_variant *variants = rs_calloc(most, sizeof *variants);
    rs_status status = list && variants ? list_all(variants, list, &asked, run, names, err)
                                        : rs_fail_memory(err, "remedies", most * sizeof *list);
    if (status == RS_OK) status = rs_predict_try_all(variants, asked, run, err);
    for (size_t i = 0; status == RS_OK && i < asked; i++) {
        if (!variants[i].made || variants[i].forecast.found.verdict == RS_PREDICT_UNKNOWN) continue;
        list[*n] = list[i];
        take(&list[(*n)++], &variants[i], run);
    }
    for (size_t i = 0; variants && i < most; i++)
        rs_predict_variant_close(&variants[i]);
    rs_free(variants);
    if (status != RS_OK) {
        rs_free(list);
        return status;
    }
    qsort(list, *n, sizeof *list, by_score);
    *out = list;
    return RS_OK;
}

/* ---- the table ---- */

typedef struct remedy_row {
    const char *name, *says, *verdict;
    double apart, ratio, growth, parameters_ratio, time_ratio;
    const char *worse_at;
} remedy_row;
#define REMEDY(...) RS_COLUMN(remedy_row, __VA_ARGS__)
static const rs_column remedy_columns[] = {
    REMEDY(name, "name", NULL, NULL, "what --remedies takes", NULL),
    REMEDY(says, "says", NULL, NULL, "what it changes", NULL),
    REMEDY(verdict, "verdict", NULL, NULL, "with this one change", "predicted"),
    REMEDY(apart, "log10_one_minus_rho", "log (1 − ρ)", "decades", "behind the last layer",
           "predicted"),
    REMEDY(ratio, "ratio_gQ_gV", "gQ/gV", NULL, "of the layer where it is least", "predicted"),
    REMEDY(growth, "log10_growth", "growth of ‖X‖²", "decades", "log₁₀ ‖X^L‖²/‖X⁰‖²", "predicted"),
    REMEDY(parameters_ratio, "parameters_ratio", NULL, NULL, "its parameters over those without it",
           NULL),
    REMEDY(time_ratio, "time_ratio", NULL, NULL, "operations of a pass over those without it",
           NULL),
    REMEDY(worse_at, "worse_at", NULL, NULL,
           "questions of the first screen whose number moves the wrong way by a factor of 2", NULL),
};
const rs_table_kind rs_predict_remedies_kind = {"predict", "remedies", {RS_PART(remedy_columns)}};

rs_status rs_remedies_table(rs_result *result, const rs_remedied *remedied, size_t n,
                            const rs_predict_run *run, rs_error *err)
{
    rs_table *table;
    const rs_forecast *f = &run->forecast;
    double least = rs_forecast_least_ratio(f);
    RS_TRY(rs_result_add_table(
        result, "remedies", "Remedies",
        "One change of the architecture each, run; the best first. The first "
        "row is the architecture as it is.",
        remedy_columns, sizeof remedy_columns / sizeof *remedy_columns, &table, err));
    rs_table_show_first(table,
                        "name,verdict,log10_one_minus_rho,ratio_gQ_gV,log10_growth,worse_at");
    const remedy_row now = {.name = "as it is",
                            .verdict = rs_predict_verdict_code(f->found.verdict),
                            .apart = f->rows[f->n_layers].apart,
                            .ratio = pow(10, least),
                            .growth = rs_forecast_growth(f),
                            .parameters_ratio = 1,
                            .time_ratio = 1};
    RS_TRY(rs_table_append(table, &now, err));
    for (size_t i = 0; i < n; i++) {
        const rs_remedied *r = &remedied[i];
        const remedy_row row = {r->remedy->name,
                                r->remedy->says,
                                rs_predict_verdict_code(r->found.verdict),
                                r->apart,
                                pow(10, r->ratio),
                                r->growth,
                                r->parameters_ratio,
                                r->time_ratio,
                                r->worse_at[0] ? r->worse_at : NULL};
        RS_TRY(rs_table_append(table, &row, err));
    }
    return RS_OK;
}
