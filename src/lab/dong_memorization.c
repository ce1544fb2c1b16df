/*
 * dong_memorization.c: the memorisation experiment of Dong, Cordonnier, Loukas 2021, section 4: a random
 * bit for each word of some texts, and what paths of each length through the trained model are worth.
 */
#include "lab/dong_lengths.h"

static const rs_column point_columns[] = RS_LENGTHS_POINTS;
static const rs_table_kind table_kind = {"lab", "dong_memorization", {RS_PART(point_columns)}};
const rs_table_kind rs_lab_dong_memorization_lengths_kind = {
    "lab", "dong_memorization_lengths", {RS_PART(rs_lengths_columns)}};
const rs_table_kind rs_lab_dong_memorization_runs_kind = {
    "lab", "dong_memorization_runs", {RS_PART(rs_lengths_run_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Memorisation: accuracy by length of path",
    .about = "Share of words whose label paths of each length know by themselves, as the released "
             "code evaluates them (code), as the theorem has them (theorem), and of all up to a "
             "length with biases (up to), beside answers that need no attention.",
};

/* By tests/cli/dong_floors.py: equal words of a text, Zipf's law and lengths of 32 to 64. */
static const double same_word = 0.895009463;

static const rs_lengths_task task = {
    .task = "memorization",
    .more = ", 'data': {'train': 96}",
    .quick_more = ", 'data': {'train': 16}",
    .rates = {"3e-4", "1e-3"},
    .seeds = 3,
    .steps = 600,
    .quick_steps = 20,
    .asked = {.paths = 5, .mlps = true, .samples = 88},
    .quick_samples = 4,
    .floor = 0.5,
    .published_model = 0.85,
    .published_shortest = 0.8,
    .lengths = &rs_lab_dong_memorization_lengths_kind,
    .runs = &rs_lab_dong_memorization_runs_kind,
    .curves = &curves,
};

static rs_status claim_floors(rs_lab_report *report, uint64_t seed, rs_error *err)
{
    rs_task_floors drawn;
    RS_TRY(rs_lengths_draw_floors(&drawn, "memorization", false, seed, err));
    RS_TRY(rs_lab_expect(report, "ceiling: equal words of a text, one answer, 100000 texts",
                         same_word, drawn.ceiling, 0.002, err));
    return rs_lengths_claim(report, "floor: the commoner label, 100000 texts", 0.5, 0.5,
                            drawn.constant, 0.002, err);
}

static rs_status run_dong_memorization(rs_lab_report *report, const rs_lab_options *options,
                                       const rs_context *context, rs_error *err)
{
    rs_lengths all;
    RS_TRY(rs_lengths_run_all(&all, report, &task, options, context, err));
    RS_TRY(claim_floors(report, context->seed, err));
    return rs_lengths_say(&all, report,
                          "1 seed instead of 3, 20 steps of 600, evaluated 4 texts of 88, "
                          "and left out what was published",
                          err);
}

const rs_lab_experiment rs_lab_dong_memorization = {
    "dong-memorization",
    "Memorisation, by length of path",
    "Dong et al. 2021, section 4.2, memorisation",
    "A model of six attentions and MLPs learns a random bit for each word of 96 texts by heart, at "
    "the published learning rate and at 1e-3: how often paths of each length are right by "
    "themselves, as the "
    "released code evaluates them and as the theorem has them, beside what needs no attention. "
    "After Dong, Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404).",
    run_dong_memorization,
    "230 s",
    "5 s",
    &table_kind,
    0};
