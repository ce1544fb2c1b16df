/* kobayashi_draws.c: draws of small factors, claims about what they show, and table kobayashi_draws. */
#include "lab/kobayashi_pairs.h"

#include "base/memory.h"
#include "lab/toy.h"
#include "lab/training.h"

#include <math.h>
#include <stdio.h>

int rs_pair_draws(const rs_lab_options *options, int own, int quick)
{
    int draws = options->quick ? quick : own;
    return options->seeds > 0 && options->seeds < draws ? (int)options->seeds : draws;
}

void rs_keep_worst(double *number, double value)
{
    if (!(value <= *number)) *number = value;
}

static rs_status run_draws(double *numbers, int count, int draws, rs_pair_see_draw see,
                           const rs_context *context, rs_error *err)
{
    rs_status status = RS_OK;
    rs_error first = {0};
    RS_TRY(rs_check_cancelled(context, err));
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int draw = 0; draw < draws; draw++) {
        rs_error own;
        rs_random random = rs_random_new(context->seed, 0x7061697273u + (uint64_t)draw);
        rs_status made = rs_check_cancelled(context, &own);
        if (made == RS_OK) made = see(numbers + (ptrdiff_t)draw * count, &random, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

/* ---- table kobayashi_draws ---- */

/* Its row: one number over the draws. */
typedef struct number_cells {
    const char *experiment, *claim;
    int32_t draws;
    double mean, error, least, largest;
} number_cells;

static const rs_column columns[] = {
    RS_COLUMN(number_cells, experiment, "experiment", "experiment", NULL, "its id in lab list",
              NULL),
    RS_COLUMN(number_cells, claim, "claim", "claim", NULL, "as in table claims", NULL),
    RS_COLUMN(number_cells, draws, "draws", "draws", NULL, "how many were run", NULL),
    RS_COLUMN(number_cells, mean, "mean", "mean", NULL, "over the draws", "measured"),
    RS_COLUMN(number_cells, error, "error", "standard error", NULL,
              "of that mean; null of one draw", "measured"),
    RS_COLUMN(number_cells, least, "least", "least", NULL, "of the draws", "measured"),
    RS_COLUMN(number_cells, largest, "largest", "largest", NULL, "of the draws", "measured"),
};
const rs_table_kind rs_lab_kobayashi_draws_kind = {"lab", "kobayashi_draws", {RS_PART(columns)}};

/* Made by the first experiment that has draws. */
static rs_status open_table(rs_lab_report *report, rs_error *err)
{
    if (report->draws) return RS_OK;
    return rs_result_add_table(report->result, rs_lab_kobayashi_draws_kind.name,
                               "Numbers over draws",
                               "What stands behind claims over draws: mean, standard error, range.",
                               columns, sizeof columns / sizeof *columns, &report->draws, err);
}

/* ---- claims ---- */

static number_cells cells_of(const double *values, int draws)
{
    const rs_lab_spread spread = rs_lab_spread_of(values, draws);
    number_cells cells = {.draws = draws,
                          .mean = spread.mean,
                          .error = isfinite(spread.error) ? spread.error : (double)NAN,
                          .least = values[0],
                          .largest = values[0]};
    for (int i = 1; i < draws; i++) {
        cells.least = fmin(cells.least, values[i]);
        cells.largest = fmax(cells.largest, values[i]);
    }
    return cells;
}

static double order_error(const number_cells *of)
{
    double error = isnan(of->error) ? INFINITY : of->error;
    return rs_lab_order_error((rs_lab_spread){of->mean, error, of->draws});
}

static rs_status claim_number(rs_lab_report *report, const rs_pair_claim *claim,
                              const number_cells *of, rs_error *err)
{
    if (isnan(claim->tolerance))
        return rs_lab_order(report, claim->text, of->mean, order_error(of), err);
    if (isnan(claim->expected))
        return rs_lab_at_most(report, claim->text, of->largest, claim->tolerance, err);
    bool low = claim->expected - of->least > of->largest - claim->expected;
    return rs_lab_expect(report, claim->text, claim->expected, low ? of->least : of->largest,
                         claim->tolerance, err);
}

static rs_status claim_all(rs_lab_report *report, const rs_pair_claim *claims, int count,
                           const double *numbers, double *column, int draws, rs_error *err)
{
    RS_TRY(open_table(report, err));
    for (int k = 0; k < count; k++) {
        bool finite = true; /* fmin and fmax would hide a number that is none */
        for (int i = 0; i < draws; i++) {
            column[i] = numbers[i * count + k];
            finite = finite && isfinite(column[i]);
        }
        number_cells cells = cells_of(column, draws);
        if (!finite) cells.least = cells.largest = cells.mean = NAN;
        cells.experiment = report->experiment;
        cells.claim = claims[k].text;
        RS_TRY(rs_table_append(report->draws, &cells, err));
        RS_TRY(claim_number(report, &claims[k], &cells, err));
    }
    return RS_OK;
}

rs_status rs_pair_claims(rs_lab_report *report, const rs_pair_claim *claims, int count, int draws,
                         rs_pair_see_draw see, const rs_context *context, rs_error *err)
{
    size_t values = (size_t)draws * (size_t)(count + 1);
    double *numbers = rs_calloc(values, sizeof *numbers);
    if (!numbers) return rs_fail_memory(err, "draws", values * sizeof *numbers);
    rs_status status = run_draws(numbers, count, draws, see, context, err);
    if (status == RS_OK)
        status = claim_all(report, claims, count, numbers, numbers + (ptrdiff_t)draws * count,
                           draws, err);
    rs_free(numbers);
    return status;
}

rs_status rs_pair_say_draws(rs_lab_report *report, const rs_lab_options *options, int draws,
                            int own, rs_error *err)
{
    char what[60];
    if (!options->quick) return rs_lab_say_seeds(report, draws, own, err);
    snprintf(what, sizeof what, "%d draw%s instead of %d", draws, draws == 1 ? "" : "s", own);
    return rs_lab_say_quick(report, what, err);
}
