/*
 * noci_fig5_adam.c: figure 5 of Noci et al. (NeurIPS 2022, arXiv 2206.03126): how much faster than
 * values Adam moves queries and keys, whose gradients are the smaller: its effective learning rates
 * eta/(sqrt(v) + eps) by layer, in the published setting, and with branches times 1/sqrt(L).
 */
#include "lab/runs.h"
#include "lab/toy.h"

#include <math.h>
#include <stdio.h>

enum { LAYERS = 5, RATES = 3, SEEDS = 5, STEPS = 200, QUICK_STEPS = 60, EVERY = 10 };
enum { QUERIES, KEYS, VALUES };
enum { POST, SCALED, RECIPES };
static const char *const columns[RATES] = {"rate_q", "rate_k", "rate_v"};
static const char *const names[RATES] = {"queries", "keys", "values"};

static const rs_lab_recipe recipes[RECIPES] = {
    {"as published", "", "", "", {1e-2}},
    {"1/sqrt(L)", ", 'branch_mixer': '1/sqrt(L)', 'branch_mlp': '1/sqrt(L)'", "", "", {1e-2}},
};

/* seen [LAYERS, RATES]: the mean over logs of log10 of a layer's effective rates; at the last one no
 * step follows, and there are none. */
static void see_rates(rs_grid_run *run, const rs_result *result)
{
    const rs_table *layers = rs_result_table(result, "layers");
    double counts[LAYERS * RATES] = {0};
    for (int k = 0; k < LAYERS * RATES; k++)
        run->seen[k] = 0;
    for (size_t i = 0; layers && i < rs_table_rows(layers); i++)
        for (int r = 0; r < RATES; r++) {
            double layer = rs_lab_cell(layers, i, "layer"),
                   rate = rs_lab_cell(layers, i, columns[r]);
            if (!(layer >= 0) || !(rate > 0)) continue;
            run->seen[(int)layer * RATES + r] += log10(rate);
            counts[(int)layer * RATES + r]++;
        }
    for (int k = 0; k < LAYERS * RATES; k++)
        run->seen[k] /= counts[k];
}

/* By how many decades a layer's rate is above that of its values. */
static double above(const rs_grid_run *run, int layer, int rate)
{
    return run->seen[layer * RATES + rate] - run->seen[layer * RATES + VALUES];
}

/* ---- the figure ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_WHOLE("layer", "layer", "counted from 0"),
    RS_LAB_Y("rate", "effective learning rate",
             "mean over entries of eta/(sqrt(v) + eps), geometric mean over steps and seeds"));
static const rs_table_kind table_kind = {"lab", "noci_fig5_adam", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Adam's effective learning rates",
    .about = "What Adam multiplies the gradients of queries, keys and values by, layer by layer, "
             "while the order of 20 digits is learnt.",
    .log_y = true,
};

static rs_status draw(rs_lab_report *report, const rs_lab_grid *grid, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int r = 0; r < grid->n_recipes; r++)
        for (int of = 0; of < RATES; of++)
            for (int layer = 0; layer < LAYERS; layer++) {
                double mean = 0;
                char series[64];
                for (int s = 0; s < grid->seeds; s++)
                    mean += rs_lab_grid_run(grid, r, 0, s)->seen[layer * RATES + of] / grid->seeds;
                snprintf(series, sizeof series, "%s, %s", names[of], grid->recipes[r].name);
                RS_TRY(rs_lab_curves_add(table, series, layer, pow(10, mean), err));
            }
    return RS_OK;
}

/* ---- claims ---- */

static rs_status claim_order(rs_lab_report *report, const char *text, const double *by, int seeds,
                             rs_error *err)
{
    const rs_lab_spread d = rs_lab_spread_of(by, seeds);
    return rs_lab_order(report, text, d.mean, rs_lab_order_error(d), err);
}

static rs_status claim_rate(rs_lab_report *report, const rs_lab_grid *grid, int of, rs_error *err)
{
    double last[SEEDS], growth[SEEDS], lessened[SEEDS], least = INFINITY;
    char text[120];
    for (int s = 0; s < grid->seeds; s++) {
        const rs_grid_run *post = rs_lab_grid_run(grid, POST, 0, s),
                          *scaled = rs_lab_grid_run(grid, SCALED, 0, s);
        last[s] = above(post, LAYERS - 1, of);
        growth[s] = last[s] - above(post, 0, of);
        lessened[s] = last[s] - above(scaled, LAYERS - 1, of);
        for (int layer = 0; layer < LAYERS; layer++)
            least = fmin(least, above(post, layer, of));
    }
    snprintf(text, sizeof text, "%s: rate below that of values, most, any layer (decades)",
             names[of]);
    RS_TRY(rs_lab_at_most(report, text, -least, 0, err));
    if (grid->seeds == 1) {
        snprintf(text, sizeof text, "%s: that of the first layer over the last one's (decades)",
                 names[of]);
        return rs_lab_at_most(report, text, -growth[0], -0.5, err);
    }
    snprintf(text, sizeof text, "%s: rate above that of values, last layer (decades)", names[of]);
    RS_TRY(claim_order(report, text, last, grid->seeds, err));
    snprintf(text, sizeof text, "%s: that grows from the first layer on, by", names[of]);
    RS_TRY(claim_order(report, text, growth, grid->seeds, err));
    snprintf(text, sizeof text, "%s: of it 1/sqrt(L) takes off, last layer (decades)", names[of]);
    return claim_order(report, text, lessened, grid->seeds, err);
}

/* ---- the whole ---- */

static rs_status run_noci_fig5_adam(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    bool quick = options->quick;
    rs_lab_grid grid = {.experiment = report->experiment,
                        .kept = options->kept,
                        .task = "'task': 'reversal'",
                        .model = "'depth': 5",
                        .recipes = recipes,
                        .n_recipes = RECIPES,
                        .seeds = rs_lab_seeds(options, SEEDS),
                        .steps = quick ? QUICK_STEPS : STEPS,
                        .every = EVERY,
                        .n_seen = LAYERS * RATES,
                        .see = see_rates};
    rs_status status = rs_lab_grid_train(&grid, context, err);
    if (status == RS_OK) status = draw(report, &grid, err);
    if (status == RS_OK) status = claim_rate(report, &grid, QUERIES, err);
    if (status == RS_OK) status = claim_rate(report, &grid, KEYS, err);
    rs_lab_grid_close(&grid);
    if (status != RS_OK) return status;
    if (!quick) return rs_lab_say_seeds(report, grid.seeds, SEEDS, err);
    return rs_lab_say_quick(report, "1 seed of 5, 60 steps of 200, and no orders", err);
}

const rs_lab_experiment rs_lab_noci_fig5_adam = {
    "noci-fig5-adam",
    "Adam's effective learning rates",
    "Noci et al. 2022, figure 5",
    "Five post-norm layers of one head, 16 wide, learn to reverse 20 digits by Adam at 0.01, as "
    "published: eta/(sqrt(v) + eps) of queries, keys and values by layer, five seeds; and with "
    "branches times 1/sqrt(L). After Noci, Anagnostidis, Biggio, Orvieto, Singh, Lucchi, NeurIPS "
    "2022 (arXiv 2206.03126).",
    run_noci_fig5_adam,
    "15 s",
    "1 s",
    &table_kind,
    0};
