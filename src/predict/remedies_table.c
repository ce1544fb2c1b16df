/* remedies_table.c: table and figure of remedies: before, after, and the price. */
#include "predict/remedies.h"

#include <math.h>

typedef struct remedy_row {
    const char *name, *says, *verdict, *verdict_theory;
    double apart, apart_se, apart_before, change, change_se, apart_theory;
    double ratio, ratio_se, ratio_before, ratio_theory;
    double growth, growth_before, growth_theory, back, back_before, back_theory;
    const char *worse_at, *at_init;
    double parameters_ratio, time_ratio;
    int64_t place, trials, width;
    const char *note;
} remedy_row;
#define REMEDY(...) RS_COLUMN(remedy_row, __VA_ARGS__)
static const rs_column remedy_columns[] = {
    REMEDY(name, "name", NULL, NULL, "what --remedies takes", NULL),
    REMEDY(says, "says", NULL, NULL, "what it changes", NULL),
    REMEDY(verdict, "verdict", NULL, NULL, "with this one change, of networks that were drawn",
           NULL),
    REMEDY(verdict_theory, "verdict_theory", NULL, NULL, "with this one change, by theory",
           "predicted"),
    REMEDY(
        apart, "log10_one_minus_rho", "log (1 − ρ)", "decades",
        "log₁₀(1 − ρ) behind the last layer, as table forward has it; of a fusion, of the states "
        "of all layers side by side",
        NULL),
    REMEDY(apart_se, "log10_one_minus_rho_se", NULL, "decades", "its standard error", NULL),
    REMEDY(apart_before, "log10_one_minus_rho_before", "before", "decades",
           "the same without the change, of the same random draws", NULL),
    REMEDY(change, "change", NULL, "decades", "log10_one_minus_rho less log10_one_minus_rho_before",
           NULL),
    REMEDY(change_se, "change_se", NULL, "decades", "its standard error, over pairs of trials",
           NULL),
    REMEDY(apart_theory, "log10_one_minus_rho_theory", "log (1 − ρ), theory", "decades",
           "behind the last layer", "predicted"),
    REMEDY(ratio, "ratio_gQ_gV", "gQ/gV", NULL, "of the layer where it is least", NULL),
    REMEDY(ratio_se, "ratio_gQ_gV_se", NULL, NULL, "its standard error", NULL),
    REMEDY(ratio_before, "ratio_gQ_gV_before", "gQ/gV before", NULL,
           "the same without the change, of the same random draws", NULL),
    REMEDY(ratio_theory, "ratio_gQ_gV_theory", "gQ/gV, theory", NULL,
           "of the layer where it is least", "predicted"),
    REMEDY(growth, "log10_growth", "growth of ‖X‖²", "decades", "log₁₀ ‖X^L‖²/‖X⁰‖²", NULL),
    REMEDY(growth_before, "log10_growth_before", NULL, "decades", "the same without the change",
           NULL),
    REMEDY(growth_theory, "log10_growth_theory", "growth of ‖X‖², theory", "decades",
           "log₁₀ ‖X^L‖²/‖X⁰‖²", "predicted"),
    REMEDY(back, "log10_growth_back", "growth of ‖∂L/∂X‖²", "decades", "log₁₀ ‖∂L/∂X⁰‖²/‖∂L/∂X^L‖²",
           NULL),
    REMEDY(back_before, "log10_growth_back_before", NULL, "decades", "the same without the change",
           NULL),
    REMEDY(back_theory, "log10_growth_back_theory", "growth of ‖∂L/∂X‖², theory", "decades",
           "log₁₀ ‖∂L/∂X⁰‖²/‖∂L/∂X^L‖²", "predicted"),
    REMEDY(worse_at, "worse_at", NULL, NULL,
           "questions of the first screen whose number moves the wrong way by a factor of 2, of "
           "trials by more than twice the standard error of the change",
           NULL),
    REMEDY(at_init, "at_init", NULL, NULL, "what becomes of the function that is there at first",
           NULL),
    REMEDY(parameters_ratio, "parameters_ratio", NULL, NULL, "its parameters over those without it",
           NULL),
    REMEDY(time_ratio, "time_ratio", NULL, NULL, "operations of a pass over those without it",
           NULL),
    REMEDY(place, "place", NULL, NULL, "from 1, the best; 0: the architecture as it is", NULL),
    REMEDY(trials, "trials", NULL, NULL, "networks that were drawn", NULL),
    REMEDY(width, "width", NULL, NULL,
           "of what was drawn; where it is less than d_model, of a narrower twin", NULL),
    REMEDY(note, "note", NULL, NULL, "why a remedy has no numbers, or none to compare", NULL),
};
enum { COLUMNS = sizeof remedy_columns / sizeof *remedy_columns };
const rs_table_kind rs_predict_remedies_kind = {"predict", "remedies", {RS_PART(remedy_columns)}};

static void put_theory(remedy_row *row, const rs_remedy_side *theory)
{
    row->verdict_theory = rs_predict_verdict_known(theory->found.verdict);
    row->apart_theory = theory->apart;
    row->ratio_theory = rs_from_decades(theory->ratio);
    row->growth_theory = theory->growth;
    row->back_theory = theory->back;
}

static void put_drawn(remedy_row *row, const rs_remedy_side *drawn,
                      const double error[RS_REMEDY_NUMBERS], const rs_remedies *all)
{
    row->verdict = rs_predict_verdict_known(drawn->found.verdict);
    row->apart = drawn->apart;
    row->apart_se = error[RS_REMEDY_APART];
    row->ratio = rs_from_decades(drawn->ratio);
    row->ratio_se = row->ratio * log(10) * error[RS_REMEDY_RATIO];
    row->growth = drawn->growth;
    row->back = drawn->back;
    row->trials = all->trials;
    row->width = all->width;
}

static void put_before(remedy_row *row, const rs_remedied *r)
{
    row->apart_before = r->before.apart;
    row->ratio_before = rs_from_decades(r->before.ratio);
    row->growth_before = r->before.growth;
    row->back_before = r->before.back;
    row->change = r->drawn.apart - r->before.apart;
    if (!isnan(row->change)) row->change_se = r->change_error[RS_REMEDY_APART];
}

static remedy_row row_of(const rs_remedied *r, const rs_remedies *all)
{
    remedy_row row;
    rs_columns_clear(remedy_columns, COLUMNS, &row);
    row.name = r->remedy->name;
    row.says = r->remedy->says;
    row.at_init = r->remedy->at_init;
    row.note = r->note[0] ? r->note : NULL;
    row.place = r - all->list + 1;
    if (!r->made) return row;
    put_theory(&row, &r->theory);
    if (r->measured) {
        put_drawn(&row, &r->drawn, r->error, all);
        put_before(&row, r);
    }
    row.worse_at = r->worse_at[0] ? r->worse_at : NULL;
    row.parameters_ratio = r->parameters_ratio;
    row.time_ratio = r->time_ratio;
    return row;
}

static remedy_row row_of_now(const rs_predict_run *run)
{
    remedy_row row;
    const rs_remedies *all = run->remedies;
    const rs_remedy_side theory = rs_remedy_side_of(&run->forecast);
    rs_columns_clear(remedy_columns, COLUMNS, &row);
    row.name = "as it is";
    row.place = 0;
    put_theory(&row, &theory);
    if (all->trials) put_drawn(&row, &all->now, all->now_error, all);
    row.parameters_ratio = row.time_ratio = 1;
    return row;
}

/* 1 − ρ with each remedy, beside what it was. */
static rs_status add_figure(rs_result *result, bool drawn, rs_error *err)
{
    static const char *const keys[] = {"name"};
    rs_lines lines = {.table = "remedies",
                      .x = {"place", "place in table remedies"},
                      .y = {"log10_one_minus_rho_theory", "log10 (1 − ρ)"},
                      .keys = {keys, 1},
                      .x_whole = true,
                      .first = "with it, theory"};
    if (drawn) {
        lines.more[0] = (rs_figure_curve){.field = "log10_one_minus_rho", .title = "with it"};
        lines.more[1] = (rs_figure_curve){.field = "log10_one_minus_rho_before",
                                          .title = "without, same draws"};
    }
    return rs_result_add_figure(result, "remedies", "1 − ρ behind the last layer, by remedy", NULL,
                                rs_figure_lines(&lines), err);
}

rs_status rs_remedies_table(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    rs_table *table;
    const rs_remedies *all = run->remedies;
    bool drawn = all->trials > 0;
    RS_TRY(rs_result_add_table(result, "remedies", "Remedies",
                               "One change of the architecture each, run: before, after and the "
                               "price; the best first. The first row is the architecture as it is.",
                               remedy_columns, COLUMNS, &table, err));
    rs_table_show_first(table, drawn ? "name,verdict,log10_one_minus_rho,change,change_se,"
                                       "log10_one_minus_rho_theory,ratio_gQ_gV,worse_at"
                                     : "name,verdict_theory,log10_one_minus_rho_theory,"
                                       "ratio_gQ_gV_theory,log10_growth_theory,worse_at");
    const remedy_row now = row_of_now(run);
    RS_TRY(rs_table_append(table, &now, err));
    for (size_t i = 0; i < all->n; i++) {
        const remedy_row row = row_of(&all->list[i], all);
        RS_TRY(rs_table_append(table, &row, err));
    }
    return add_figure(result, drawn, err);
}
