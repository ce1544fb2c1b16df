/*
 * fusion_train.c: what a masked language model of twelve post-norm blocks gains where its head reads the
 * states of all layers in the place of the last one (Shi, Gao, Yao, Li, Xiong, Jiang, Kwok 2022, arXiv
 * 2202.08625): side by side through a map, by their largest entries, by a gate (docs/theory/signal.md, 5).
 */
#include "lab/losses.h"

#include "measures/token_measures.h"
#include "train/feed.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAST, CONCAT, MAX, GATE, RECIPES };
enum { DEPTH = 12, WIDTH = 32, LENGTH = 24, STEPS = 800, QUICK_STEPS = 100, EVERY = 50 };
enum { LOOKED_AT = 64 }; /* samples, of which the tokens are looked at */
/* What is seen of a run at its end. */
enum { RESIDUAL, COSINE, LAST_RESIDUAL, ABOVE_FLOOR, WRITTEN_OUT, SEEN };
static const double near = 0.05, rounding = 1e-5;

#define RATES                                                                                      \
    {                                                                                              \
        1e-3, 3e-3, 1e-2                                                                           \
    }
static const rs_lab_recipe recipes[RECIPES] = {
    {"last layer", "", "", "", RATES},
    {"concat", ", 'fusion': 'concat'", "", "", RATES},
    {"max", ", 'fusion': 'max'", "", "", RATES},
    {"gate", ", 'fusion': 'gate'", "", "", RATES},
};
static const rs_lab_recipe quick_recipes[RECIPES] = {
    {"last layer", "", "", "", {3e-3}},
    {"concat", ", 'fusion': 'concat'", "", "", {3e-3}},
    {"max", ", 'fusion': 'max'", "", "", {3e-3}},
    {"gate", ", 'fusion': 'gate'", "", "", {3e-3}},
};
/* BERT draws maps of width 768 with a deviation of 0.02: 0.31 over the width. */
#define SMALL "'normal(0, 0.3/fan_in)'"
static const char model[] =
    "'depth': 12, 'd_model': 32, 'heads': 2, 'mask': 'none', 'positions': 'relative', 'norm': "
    "'post',"
    " 'norm_affine': 'both', 'bias': true, 'mlp': 'gelu', 'mlp_width': 64, 'init': {'wq': " SMALL
    ", 'wk': " SMALL ", 'wv': " SMALL ", 'wo': " SMALL ", 'w1': " SMALL ", 'w2': " SMALL "}";
static const char task[] =
    "'task': 'markov', 'batch': 16, 'data': {'length': 24, 'symbols': 16, 'hidden': 0.25,"
    " 'eval': 512}, 'schedule': {'kind': 'cosine', 'warmup': 100, 'last': 0.1}";
static const char optimizer[] =
    ", 'clip': 1, 'weight_decay': {'default': 0.01, 'norm': 0, 'bias': 0}";

/* ---- what the head reads at the end ---- */

/* Of the samples that are looked at: means over them, of the tokens of each, of what the head reads; and
 * how far that is from the same written out of the states, over its largest number. */
typedef struct looking {
    const rs_read_out_op *op;
    const float *weights; /* of concat and gate */
    float *states;        /* [DEPTH, rows, WIDTH] behind the layers */
    int64_t rows;
    void *space;
    double residual, cosine, apart, largest;
} looking;

static rs_status hear_tokens(looking *at, const rs_state_view *view, rs_error *err)
{
    const rs_token_options options = {.no_diameter = true,
                                      .epsilon = rs_precision_roundoff(view->precision)};
    const int64_t *begin = view->batch->begin;
    for (int32_t s = 0; s < view->batch->samples; s++) {
        rs_token_measures measures;
        const float *x = (const float *)view->data + begin[s] * view->cols;
        RS_TRY(rs_token_measure_f32(&measures, x, begin[s + 1] - begin[s], view->cols, view->cols,
                                    &options, at->space, err));
        at->residual += measures.relative_residual / view->batch->samples;
        at->cosine += measures.mean_cosine / view->batch->samples;
    }
    return RS_OK;
}

/* <w, H_layer> of a row. */
static double read_by(const looking *at, const float *w, int layer, int64_t row)
{
    const float *x = at->states + (layer * at->rows + row) * WIDTH;
    double sum = 0;
    for (int c = 0; c < WIDTH; c++)
        sum += (double)w[c] * (double)x[c];
    return sum;
}

/* out [WIDTH]: the read-out of a row by its formula (docs/theory/signal.md, 5). */
static void write_out(double *out, const looking *at, int64_t row)
{
    double gate[DEPTH], sum = 0;
    for (int l = 0; l < DEPTH && at->op->kind == RS_FUSION_GATE; l++)
        sum += gate[l] = exp(read_by(at, at->weights, l, row));
    for (int c = 0; c < WIDTH; c++) {
        out[c] = at->op->kind == RS_FUSION_MAX ? -INFINITY : 0;
        for (int l = 0; l < DEPTH; l++) {
            double x = (double)at->states[(l * at->rows + row) * WIDTH + c];
            if (at->op->kind == RS_FUSION_CONCAT)
                out[c] += read_by(at, at->weights + (c * DEPTH + l) * WIDTH, l, row);
            else if (at->op->kind == RS_FUSION_GATE)
                out[c] += gate[l] / sum * x;
            else
                out[c] = fmax(out[c], x);
        }
    }
}

static void compare_rows(looking *at, const float *read)
{
    double out[WIDTH];
    for (int64_t row = 0; row < at->rows; row++) {
        write_out(out, at, row);
        for (int c = 0; c < WIDTH; c++) {
            at->apart = fmax(at->apart, fabs(out[c] - (double)read[row * WIDTH + c]));
            at->largest = fmax(at->largest, fabs(out[c]));
        }
    }
}

static rs_status hear(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                      rs_error *err)
{
    looking *at = user;
    if (site == RS_SITE_FINAL) return hear_tokens(at, view, err);
    if (site == RS_SITE_READ_OUT)
        compare_rows(at, view->data);
    else if (layer > 0)
        memcpy(at->states + (layer - 1) * at->rows * WIDTH, view->data,
               (size_t)(at->rows * WIDTH) * sizeof *at->states);
    return RS_OK;
}

static rs_status run_looked_at(looking *at, const rs_learner *learner, const rs_feed *feed,
                               rs_error *err)
{
    const rs_token_options options = {.no_diameter = true};
    const rs_tap tap = {.user = at,
                        .sites =
                            1u << RS_SITE_FINAL | 1u << RS_SITE_READ_OUT | 1u << RS_SITE_BLOCK_OUT,
                        .state = hear};
    const rs_tap *const taps[] = {&tap};
    rs_runner *runner = NULL;
    size_t bytes = rs_token_workspace(LENGTH, WIDTH, &options);
    at->op = &learner->network->read_out;
    at->weights = rs_lab_weight(learner, "fusion.weight");
    at->rows = feed->batch.begin[feed->batch.samples];
    at->space = rs_malloc(bytes, 1);
    at->states = rs_malloc((size_t)(DEPTH * at->rows * WIDTH), sizeof *at->states);
    rs_status status =
        at->space && at->states ? RS_OK : rs_fail_memory(err, "an experiment", bytes);
    if (status == RS_OK)
        status = rs_runner_open(&runner, learner->network, learner->weights, learner->context, err);
    if (status == RS_OK) status = rs_runner_run(runner, &feed->batch, taps, 1, err);
    rs_runner_close(runner);
    rs_free(at->space);
    rs_free(at->states);
    return status;
}

/* Of samples that training never sees. */
static rs_status look(rs_grid_run *run, rs_learner *learner, rs_train_task *of, rs_error *err)
{
    const rs_task_shape *shape = rs_task_sizes(of);
    rs_task_batch batch = {0};
    rs_feed feed = {0};
    looking at = {0};
    rs_status status = rs_task_batch_new(&batch, shape, LOOKED_AT, err);
    if (status == RS_OK) status = rs_task_fill(&batch, of, RS_TASK_PROBE, 0, err);
    if (status == RS_OK) status = rs_feed_open(&feed, shape, LOOKED_AT, false, err);
    if (status == RS_OK) {
        rs_feed_pack(&feed, &batch);
        status = run_looked_at(&at, learner, &feed, err);
    }
    rs_feed_close(&feed);
    rs_task_batch_free(&batch);
    run->seen[RESIDUAL] = at.residual;
    run->seen[COSINE] = at.cosine;
    run->seen[WRITTEN_OUT] = at.largest > 0 ? at.apart / at.largest : 0;
    return status;
}

static void see(rs_grid_run *run, const rs_result *result)
{
    double residual[STEPS / EVERY + 1];
    for (int i = 0; i < STEPS / EVERY + 1; i++)
        residual[i] = NAN;
    rs_lab_last_layer(residual, STEPS / EVERY + 1, result, "relative_residual");
    run->seen[LAST_RESIDUAL] = residual[run->logs - 1];
    run->seen[ABOVE_FLOOR] =
        run->eval_loss - rs_lab_mark(result, "entropy between both neighbours");
}

/* ---- tables and the figure ---- */

/* A row of the table of tokens. */
typedef struct token_cells {
    const char *recipe;
    double rate, residual, residual_error, cosine, last;
} token_cells;

#define CELL(member, name, title, formula)                                                         \
    RS_COLUMN(token_cells, member, name, title, NULL, formula, "measured")
static const rs_column token_columns[] = {
    RS_COLUMN(token_cells, recipe, "recipe", "recipe", NULL, "what the head reads", NULL),
    RS_COLUMN(token_cells, rate, "learning_rate", "best rate", NULL,
              "of those tried: least loss, mean over seeds", NULL),
    CELL(residual, "relative_residual", "relative residual",
         "‖X − 1x̄ᵀ‖_F/‖X‖_F of what the head reads, at the end, mean over 64 samples and seeds"),
    CELL(residual_error, "relative_residual_error", "its error",
         "standard error over seeds; null of one seed"),
    CELL(cosine, "mean_cosine", "mean cosine", "of two different tokens of it, likewise"),
    CELL(last, "last_residual", "residual of the last state",
         "the same of the last layer's output, over the 8 samples of the instruments"),
};
const rs_table_kind rs_lab_fusion_tokens_kind = {
    "lab", "fusion_train_tokens", {RS_PART(token_columns)}};
const rs_table_kind rs_lab_fusion_ways_kind = {
    "lab", "fusion_train_ways", {{rs_loss_columns, RS_LOSS_COLUMNS, NULL}}};
const rs_table_kind rs_lab_fusion_runs_kind = {
    "lab", "fusion_train_runs", {{rs_lab_run_columns, RS_LAB_RUN_COLUMNS, NULL}}};

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps that were made"),
                  RS_LAB_Y("loss", "loss (nats)", "running mean, mean over seeds"));
static const rs_table_kind table_kind = {"lab", "fusion_train", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Heads that read all layers, and the last one",
    .about =
        "The loss while twelve post-norm blocks learn to tell hidden letters, by what the head "
        "reads, each at the best of its learning rates, mean over seeds.",
};

/* A number of a recipe's runs at its best rate, or by how much it is above that of another recipe (below
 * 0: of none), over seeds. */
static rs_lab_spread seen_of(const rs_losses *all, int recipe, int beside, int number)
{
    double values[RS_LOSS_SEEDS];
    for (int s = 0; s < all->grid.seeds; s++) {
        values[s] = rs_lab_grid_run(&all->grid, recipe, all->way[recipe].rate, s)->seen[number];
        if (beside >= 0)
            values[s] -=
                rs_lab_grid_run(&all->grid, beside, all->way[beside].rate, s)->seen[number];
    }
    return rs_lab_spread_of(values, all->grid.seeds);
}

static rs_status add_tokens(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(report->result, rs_lab_fusion_tokens_kind.name, "Tokens at the end",
                               "How far apart the tokens are that the head reads, each way at the "
                               "best of its rates.",
                               token_columns, sizeof token_columns / sizeof *token_columns, &table,
                               err));
    for (int r = 0; r < RECIPES; r++) {
        const rs_lab_spread residual = seen_of(all, r, -1, RESIDUAL);
        const token_cells cells = {.recipe = all->grid.recipes[r].name,
                                   .rate = all->grid.recipes[r].rates[all->way[r].rate],
                                   .residual = residual.mean,
                                   .residual_error = all->grid.seeds > 1 ? residual.error : NAN,
                                   .cosine = rs_losses_mean(all, r, COSINE),
                                   .last = rs_losses_mean(all, r, LAST_RESIDUAL)};
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

static rs_status draw(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int r = 0; r < RECIPES; r++)
        RS_TRY(rs_losses_draw(table, all, r, err));
    return RS_OK;
}

/* ---- claims ---- */

/* By how much what the head reads is farther apart than the last layer's, at equal rates: mean over them,
 * seed by seed. */
static rs_lab_spread apart_at_equal_rates(const rs_losses *all, int recipe)
{
    double by[RS_LOSS_SEEDS];
    int rates = rs_lab_grid_rates(&all->grid, recipe);
    for (int s = 0; s < all->grid.seeds; s++) {
        by[s] = 0;
        for (int rate = 0; rate < rates; rate++)
            by[s] += (rs_lab_grid_run(&all->grid, recipe, rate, s)->seen[RESIDUAL] -
                      rs_lab_grid_run(&all->grid, LAST, rate, s)->seen[RESIDUAL]) /
                     rates;
    }
    return rs_lab_spread_of(by, all->grid.seeds);
}

/* Of a run that diverged there is nothing to see. */
static rs_status order_apart(rs_lab_report *report, const char *text, rs_lab_spread apart,
                             rs_error *err)
{
    const rs_lab_claim claim = {text, NAN, NAN, NAN, NAN, true, false};
    if (isnan(apart.mean))
        return rs_lab_skip_claim(report, &claim, "a run diverged, and left no tokens", err);
    return rs_lab_order_published(report, text, apart.mean, apart.error, err);
}

/* Published: what is fused does better, and its tokens are more diverse. */
static rs_status claim_fused(rs_lab_report *report, const rs_losses *all, int recipe, rs_error *err)
{
    char text[160];
    const char *name = all->grid.recipes[recipe].name;
    snprintf(text, sizeof text, "the last layer alone ends with more loss than %s, by", name);
    RS_TRY(rs_losses_order(report, all, text, LAST, recipe, err));
    snprintf(
        text, sizeof text,
        "%s: relative residual of what the head reads above the last layer's, at equal rates, by",
        name);
    RS_TRY(order_apart(report, text, apart_at_equal_rates(all, recipe), err));
    snprintf(text, sizeof text, "%s: the same, each at its best rate, by", name);
    return order_apart(report, text, seen_of(all, recipe, LAST, RESIDUAL), err);
}

/* The largest of a number over all runs of recipes first to last that did not diverge. */
static double most_of(const rs_lab_grid *grid, int first, int last, int number, double factor)
{
    double most = NAN;
    for (int r = first; r <= last; r++)
        for (int rate = 0; rate < rs_lab_grid_rates(grid, r); rate++)
            for (int s = 0; s < grid->seeds; s++) {
                const rs_grid_run *run = rs_lab_grid_run(grid, r, rate, s);
                if (isnan(run->diverged)) most = fmax(most, factor * run->seen[number]);
            }
    return most;
}

/* What is known: the read-outs are their formulas; and no reader of the other letters is below what both
 * neighbours leave, but by chance of the evaluation set. Of all runs. */
static rs_status claim_known(rs_lab_report *report, const rs_lab_grid *grid, rs_error *err)
{
    for (int r = CONCAT; r < RECIPES; r++) {
        char text[120];
        snprintf(text, sizeof text,
                 "%s: what the head reads beside its formula, over the largest, worst run",
                 grid->recipes[r].name);
        const rs_lab_claim claim = {text,     NAN,  NAN,  most_of(grid, r, r, WRITTEN_OUT, 1),
                                    rounding, true, false};
        RS_TRY(rs_lab_add_claim(report, &claim, err));
    }
    const rs_lab_claim claim = {
        "loss below what both neighbours leave of a letter, nats, most of any run",
        NAN,
        NAN,
        most_of(grid, LAST, GATE, ABOVE_FLOOR, -1),
        near,
        true,
        false};
    return rs_lab_add_claim(report, &claim, err);
}

/* ---- the whole ---- */

static rs_status report_all(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    RS_TRY(draw(report, all, err));
    RS_TRY(rs_losses_table(report, all, rs_lab_fusion_ways_kind.name, err));
    RS_TRY(add_tokens(report, all, err));
    RS_TRY(rs_lab_grid_table(report, &all->grid, rs_lab_fusion_runs_kind.name, NAN, err));
    RS_TRY(claim_known(report, &all->grid, err));
    if (all->grid.steps < STEPS) return RS_OK; /* --quick: one seed shows no order */
    for (int r = CONCAT; r < RECIPES; r++)
        RS_TRY(claim_fused(report, all, r, err));
    RS_TRY(rs_losses_between(report, all, CONCAT, GATE, err));
    return rs_losses_between(report, all, MAX, GATE, err);
}

static rs_status run_fusion_train(rs_lab_report *report, const rs_lab_options *options,
                                  const rs_context *context, rs_error *err)
{
    bool quick = options->quick;
    rs_lab_recipe own[RECIPES];
    rs_losses all = {.lost = NAN, .unit = 1};
    memcpy(own, quick ? quick_recipes : recipes, sizeof own);
    for (int r = 0; r < RECIPES; r++)
        own[r].optimizer = optimizer;
    all.grid = (rs_lab_grid){.experiment = report->experiment,
                             .kept = options->kept,
                             .task = task,
                             .model = model,
                             .recipes = own,
                             .n_recipes = RECIPES,
                             .seeds = rs_lab_seeds(options, RS_LOSS_SEEDS),
                             .steps = quick ? QUICK_STEPS : STEPS,
                             .every = EVERY,
                             .n_seen = SEEN,
                             .see = see,
                             .look = look};
    return rs_losses_run(&all, report, options, report_all,
                         "1 rate of 3, 1 seed of 5, 100 steps of 800", context, err);
}

const rs_lab_experiment rs_lab_fusion_train = {
    "fusion-train",
    "Heads that read all layers, trained",
    "Shi et al. 2022",
    "Twelve post-norm blocks of width 32 learn to tell hidden letters, a quarter, of a seeded "
    "source; the head "
    "reads the last state, or the states of all layers side by side, by their largest entries, by "
    "a gate; three learning rates each, five seeds, 800 steps; how far apart the tokens are that "
    "it "
    "reads. After Shi, Gao, Yao, Li, Xiong, Jiang, Kwok, ICLR 2022 (arXiv 2202.08625).",
    run_fusion_train,
    "300 s",
    "4 s",
    &table_kind,
    0};
