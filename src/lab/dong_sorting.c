/*
 * dong_sorting.c: the sorting experiment of Dong, Cordonnier, Loukas 2021, section 4: letters of a
 * short sequence in order, and what paths of each length through the trained model are worth.
 */
#include "lab/dong_lengths.h"

#include <math.h>

static const rs_column point_columns[] = RS_LENGTHS_POINTS;
static const rs_table_kind table_kind = {"lab", "dong_sorting", {RS_PART(point_columns)}};
const rs_table_kind rs_lab_dong_sorting_lengths_kind = {
    "lab", "dong_sorting_lengths", {RS_PART(rs_lengths_columns)}};
const rs_table_kind rs_lab_dong_sorting_runs_kind = {
    "lab", "dong_sorting_runs", {RS_PART(rs_lengths_run_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Sorting: accuracy by length of path",
    .about = "Share of letters that paths of each length put right by themselves, as the released "
             "code evaluates them (code), as the theorem has them (theorem), and of all up to a "
             "length with biases (up to), beside answers that need no attention.",
};

/* Order statistics, by tests/cli/dong_floors.py. */
static const double by_place = 0.338817535, by_letter = 0.3869332425;

static const rs_lengths_task task = {
    .task = "sorting",
    .more = "",
    .quick_more = "",
    .rates = {"1e-5", "1e-3"},
    .seeds = 5,
    .steps = 2210,
    .quick_steps = 200,
    .asked = {.paths = 5, .places = true, .samples = 200},
    .quick_samples = 50,
    .floor = 0.338817535,
    .published_model = 0.98,
    .published_shortest = 0.6,
    .lengths = &rs_lab_dong_sorting_lengths_kind,
    .runs = &rs_lab_dong_sorting_runs_kind,
    .curves = &curves,
};

static rs_status claim_floors(rs_lab_report *report, uint64_t seed, rs_error *err)
{
    rs_task_floors drawn;
    double mark;
    const rs_task_data *data = &rs_task_find("sorting")->data;
    RS_TRY(rs_lengths_mark(&mark, "sorting", "best letter for each place", err));
    RS_TRY(rs_lab_compute(report, "floor: in closed form", by_place, mark, 1e-8, err));
    RS_TRY(rs_lengths_draw_floors(&drawn, "sorting", true, seed, err));
    /* 800 000 letters that are not independent within a sample: four of their standard errors */
    RS_TRY(rs_lengths_claim(report, "floor: the commonest letter of each place, 100000 samples",
                            0.1, by_place, drawn.constant, 0.003, err));
    RS_TRY(rs_lab_compute(report, "the best answer by a letter and its place", by_letter,
                          rs_sorted_alone(data->length, data->symbols), 1e-8, err));
    return rs_lab_expect(report, "the same, counted in 100000 samples", by_letter, drawn.alone,
                         0.003, err);
}

static rs_status run_dong_sorting(rs_lab_report *report, const rs_lab_options *options,
                                  const rs_context *context, rs_error *err)
{
    rs_lengths all;
    RS_TRY(rs_lengths_run_all(&all, report, &task, options, context, err));
    RS_TRY(claim_floors(report, context->seed, err));
    return rs_lengths_say(&all, report,
                          "1 seed instead of 5, 200 steps of 2210, evaluated 50 samples of 200, "
                          "and left out what was published",
                          err);
}

const rs_lab_experiment rs_lab_dong_sorting = {
    "dong-sorting",
    "Sorting, by length of path",
    "Dong et al. 2021, section 4.2, sorting",
    "A model of six attentions learns to sort eight letters of ten, at the published learning rate "
    "and at a hundred times that: how often paths of each length are right by themselves, as the "
    "released code evaluates them and as the theorem has them, beside what needs no attention. "
    "After Dong, Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404).",
    run_dong_sorting,
    "50 s",
    "2 s",
    &table_kind,
    0};
