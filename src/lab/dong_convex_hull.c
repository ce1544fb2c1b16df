/*
 * dong_convex_hull.c: the convex-hull experiment of Dong, Cordonnier, Loukas 2021, section 4: which of
 * ten points are vertices, and what paths of each length through the trained model are worth.
 */
#include "lab/dong_lengths.h"

static const rs_column point_columns[] = RS_LENGTHS_POINTS;
static const rs_table_kind table_kind = {"lab", "dong_convex_hull", {RS_PART(point_columns)}};
const rs_table_kind rs_lab_dong_hull_lengths_kind = {
    "lab", "dong_convex_hull_lengths", {RS_PART(rs_lengths_columns)}};
const rs_table_kind rs_lab_dong_hull_runs_kind = {
    "lab", "dong_convex_hull_runs", {RS_PART(rs_lengths_run_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Convex hull: accuracy by length of path",
    .about = "Share of points that paths of each length label right by themselves, as the released "
             "code evaluates them (code), as the theorem has them (theorem), and of all up to a "
             "length with biases (up to), beside answers that need no attention.",
};

/* By tests/cli/dong_floors.py: Efron's identity and Buchta's area of the hull. */
static const double commoner = 0.596214864;

static const rs_lengths_task task = {
    .task = "convex-hull",
    .more = "",
    .quick_more = "",
    .rates = {"1e-5", "1e-3"},
    .seeds = 3,
    .steps = 6680,
    .quick_steps = 120,
    .asked = {.paths = 5, .samples = 300},
    .quick_samples = 50,
    .floor = 0.596214864,
    .published_model = 0.9,
    .published_shortest = 0.65,
    .lengths = &rs_lab_dong_hull_lengths_kind,
    .runs = &rs_lab_dong_hull_runs_kind,
    .curves = &curves,
};

static rs_status claim_floors(rs_lab_report *report, uint64_t seed, rs_error *err)
{
    rs_task_floors drawn;
    double mark;
    RS_TRY(rs_lengths_mark(&mark, "convex-hull", "commoner label", err));
    RS_TRY(rs_lab_compute(report, "floor: in closed form", commoner, mark, 1e-8, err));
    RS_TRY(rs_lengths_draw_floors(&drawn, "convex-hull", false, seed, err));
    return rs_lengths_claim(report, "floor: the commoner label, 100000 samples", 0.54, commoner,
                            drawn.constant, 0.003, err);
}

static rs_status run_dong_convex_hull(rs_lab_report *report, const rs_lab_options *options,
                                      const rs_context *context, rs_error *err)
{
    rs_lengths all;
    RS_TRY(rs_lengths_run_all(&all, report, &task, options, context, err));
    RS_TRY(claim_floors(report, context->seed, err));
    return rs_lengths_say(&all, report,
                          "1 seed instead of 3, 120 steps of 6680, evaluated 50 samples of 300, "
                          "and left out what was published",
                          err);
}

const rs_lab_experiment rs_lab_dong_convex_hull = {
    "dong-convex-hull",
    "Convex hull, by length of path",
    "Dong et al. 2021, section 4.2, convex hull",
    "A model of six attentions learns which of ten points are vertices of their hull, at the "
    "published learning rate and at a hundred times that: how often paths of each length are right "
    "by themselves, as the "
    "released code evaluates them and as the theorem has them, beside what needs no attention. "
    "After Dong, Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404).",
    run_dong_convex_hull,
    "250 s",
    "4 s",
    &table_kind,
    0};
