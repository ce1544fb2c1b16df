/*
 * lambda_table1_small.c: table 1 of Arangath Joseph, Sieber, Zeilinger, Amo Alonso (ICLR 2025, arXiv
 * 2410.10609) at the size of a toy: two layers of attention, linear attention, Mamba and Mamba-2 whose
 * skip strength is 1, is trained, or is 0, on recall (MQAR) and on the user's images. The published
 * cells are single runs; here are seeds, and every way has a grid of learning rates, of which it is
 * seen how much trains.
 */
#include "lab/lambda_table1.h"
#include "lab/runs.h"
#include "lab/toy.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MQAR, IMAGES, TASKS };
enum { FIXED, TRAINED, NONE, WAYS };
enum { SEEDS = 5, RATES = RS_LAB_RATES, IMAGE_STEPS = 400, QUICK_STEPS = 60, EVERY = 20 };
/* What is seen of a run: its strengths at the end, and batches far above the running mean. */
enum { SPIKES = RS_TABLE1_LAYERS, SEEN };
static const double trains = 0.5; /* an accuracy above it is not chance, in either task */
static const double spike = 1.5;  /* a batch's loss over the running mean */

static const char *const task_names[TASKS] = {"MQAR", "images"}, *const way_names[WAYS] = {
                                                                     "1", "trained", "0"};

/* Signs of what training the strength changed, as published: MQAR and LRA Image; 0: not at hand. */
static const int published[TASKS][RS_TABLE1_MIXERS] = {{-1, 0, 1, 1}, {1, -1, 0, -1}};

/* ---- grids ---- */

typedef struct cell {
    bool there; /* its data are */
    char *task, *model;
    rs_lab_recipe ways[WAYS];
    rs_lab_grid grid;
} cell;

typedef struct table1 {
    cell of[TASKS][RS_TABLE1_MIXERS];
    int seeds;
    bool quick;
} table1;

static void see(rs_grid_run *run, const rs_result *result)
{
    const rs_table *layers = rs_result_table(result, "layers"),
                   *log = rs_result_table(result, "log");
    for (size_t i = 0; layers && i < rs_table_rows(layers); i++) { /* later steps stand behind */
        int layer = (int)rs_lab_cell(layers, i, "layer");
        double strength = rs_lab_cell(layers, i, "mixer_skip");
        if (layer >= 0 && layer < RS_TABLE1_LAYERS && !isnan(strength)) run->seen[layer] = strength;
    }
    run->seen[SPIKES] = 0;
    for (size_t i = 0; log && i < rs_table_rows(log); i++)
        run->seen[SPIKES] +=
            rs_lab_cell(log, i, "batch_loss") > spike * rs_lab_cell(log, i, "loss");
}

static rs_status write_images(char **out, const rs_lab_data *data, rs_error *err)
{
    static const char format[] = "'task': 'image', 'data': {'x': '%s', 'y': '%s', 'patch': 2, "
                                 "'at': 'last', 'shuffle': true, 'eval_share': 0.2}, %s";
    size_t x = 6 * strlen(data->x) + 9, y = 6 * strlen(data->y) + 9;
    size_t size = x + y + sizeof format + strlen(rs_table1_training);
    char *quoted = rs_malloc(x + y, 1);
    *out = rs_malloc(size, 1);
    if (!quoted || !*out) {
        rs_free(quoted);
        return rs_fail_memory(err, "a task", size);
    }
    (void)rs_lab_data_quote(quoted, x, data->x);
    (void)rs_lab_data_quote(quoted + x, y, data->y);
    snprintf(*out, size, format, quoted, quoted + x, rs_table1_training);
    rs_free(quoted);
    return RS_OK;
}

static rs_status write_recall(char **out, const rs_table1_mixer *mixer, rs_error *err)
{
    static const char format[] = "'task': 'mqar', 'data': {%s}, %s";
    size_t size = sizeof format + strlen(mixer->data) + strlen(rs_table1_training);
    *out = rs_malloc(size, 1);
    if (!*out) return rs_fail_memory(err, "a task", size);
    snprintf(*out, size, format, mixer->data, rs_table1_training);
    return RS_OK;
}

static rs_status write_model(char **out, const rs_table1_mixer *mixer, bool images, rs_error *err)
{
    static const char format[] = "'depth': %d, 'd_model': 32, %s%s";
    const char *mlp = images ? ", 'mlp': 'gelu', 'mlp_width': 64" : "";
    size_t size = sizeof format + strlen(mixer->model) + strlen(mlp) + 10;
    *out = rs_malloc(size, 1);
    if (!*out) return rs_fail_memory(err, "a task", size);
    snprintf(*out, size, format, RS_TABLE1_LAYERS, mixer->model, mlp);
    return RS_OK;
}

static void set_ways(cell *c, bool quick)
{
    static const double rates[RATES] = {1e-3, 3e-3, 1e-2, 3e-2};
    for (int way = 0; way < WAYS; way++) {
        c->ways[way] =
            (rs_lab_recipe){.name = way_names[way],
                            .model = way == NONE ? ", 'skip_mixer': 0" : ", 'skip_mixer': 1",
                            .optimizer = rs_table1_optimiser,
                            .task = way == TRAINED ? ", 'trainable': ['skips']" : ""};
        for (int r = 0; r < RATES; r++)
            c->ways[way].rates[r] = quick ? (r == 0 ? 3e-3 : 0) : rates[r];
    }
}

static rs_status open_cell(cell *c, const table1 *t, int task, int mixer,
                           const rs_lab_report *report, const rs_lab_options *options,
                           rs_error *err)
{
    const rs_table1_mixer *of = &rs_table1_mixers[mixer];
    const rs_lab_data *data = options->data;
    bool images = task == IMAGES;
    c->there = !images || (data && data->x);
    if (!c->there) return RS_OK;
    RS_TRY(images ? write_images(&c->task, data, err) : write_recall(&c->task, of, err));
    RS_TRY(write_model(&c->model, of, images, err));
    set_ways(c, t->quick);
    c->grid = (rs_lab_grid){.experiment = report->experiment,
                            .kept = options->kept,
                            .data = images ? data->images_print : 0,
                            .task = c->task,
                            .model = c->model,
                            .recipes = c->ways,
                            .n_recipes = WAYS,
                            .seeds = t->seeds,
                            .steps = t->quick ? QUICK_STEPS
                                     : images ? IMAGE_STEPS
                                              : of->steps,
                            .every = EVERY,
                            .n_seen = SEEN,
                            .see = see};
    return RS_OK;
}

static void close_table(table1 *t)
{
    for (int k = 0; k < TASKS * RS_TABLE1_MIXERS; k++) {
        cell *c = &t->of[k / RS_TABLE1_MIXERS][k % RS_TABLE1_MIXERS];
        rs_lab_grid_close(&c->grid);
        rs_free(c->task);
        rs_free(c->model);
    }
    rs_free(t);
}

/* ---- what became of a way ---- */

/* Share of right answers of a run; one that diverged has learnt nothing. */
static double accuracy_of(const cell *c, int way, int rate, int seed)
{
    const rs_grid_run *run = rs_lab_grid_run(&c->grid, way, rate, seed);
    return isnan(run->diverged) ? run->eval_accuracy : 0;
}

typedef struct outcome {
    int rate; /* the best: largest mean accuracy */
    double accuracy[SEEDS], strength[RS_TABLE1_LAYERS][SEEDS];
    double trains[SEEDS], spikes[SEEDS]; /* over rates: share that trains; mean number a run */
} outcome;

static outcome outcome_of(const cell *c, int way)
{
    int rates = rs_lab_grid_rates(&c->grid, way);
    outcome o = {.rate = rs_lab_grid_best(&c->grid, way, 0, trains)};
    for (int s = 0; s < c->grid.seeds; s++) {
        const rs_grid_run *best = rs_lab_grid_run(&c->grid, way, o.rate, s);
        double made = 0;
        o.accuracy[s] = accuracy_of(c, way, o.rate, s);
        for (int l = 0; l < RS_TABLE1_LAYERS; l++)
            o.strength[l][s] = best->seen[l];
        for (int r = 0; r < rates; r++) {
            const rs_grid_run *run = rs_lab_grid_run(&c->grid, way, r, s);
            o.trains[s] += (accuracy_of(c, way, r, s) > trains) / (double)rates;
            if (!isnan(run->diverged)) continue;
            o.spikes[s] += run->seen[SPIKES];
            made++;
        }
        o.spikes[s] = made > 0 ? o.spikes[s] / made : (double)NAN;
    }
    return o;
}

/* ---- tables and the figure ---- */

typedef struct way_cells {
    const char *task, *mixer, *way;
    double rate, accuracy, error, strength[RS_TABLE1_LAYERS], strength_error[RS_TABLE1_LAYERS];
    double trains, spikes;
    int64_t runs, diverged;
} way_cells;

#define WAY(member, name, title, formula, provenance)                                              \
    RS_COLUMN(way_cells, member, name, title, NULL, formula, provenance)
static const rs_column way_columns[] = {
    WAY(task, "task", "task", "MQAR or images", NULL),
    WAY(mixer, "mixer", "mixer", "of both layers", NULL),
    WAY(way, "skip", "skip strength", "1, trained from 1 on (a number a layer), or 0", NULL),
    WAY(rate, "learning_rate", "best rate", "of those tried: largest mean accuracy", NULL),
    WAY(accuracy, "accuracy", "accuracy", "on data of its own at the end, mean over seeds",
        "measured"),
    WAY(error, "accuracy_error", "its error", "standard error over seeds", "measured"),
    WAY(strength[0], "skip_0", "λ of layer 0", "at the end, mean over seeds", "measured"),
    WAY(strength_error[0], "skip_0_error", "its error", "standard error over seeds", "measured"),
    WAY(strength[1], "skip_1", "λ of layer 1", "at the end, mean over seeds", "measured"),
    WAY(strength_error[1], "skip_1_error", "its error", "standard error over seeds", "measured"),
    WAY(trains, "trains", "share that trains",
        "runs of all rates and seeds whose accuracy ends above 0.5", "measured"),
    WAY(spikes, "spikes", "spikes a run",
        "logged batches whose loss is above 1.5 times the running mean, mean over runs that did "
        "not diverge",
        "measured"),
    WAY(runs, "runs", "runs", "of all rates and seeds", NULL),
    WAY(diverged, "diverged", "diverged",
        "of them: the loss or a gradient was no number; accuracy 0", "measured"),
};
const rs_table_kind rs_lab_lambda_ways_kind = {"lab", "lambda_table1_ways", {RS_PART(way_columns)}};

static rs_status add_way(rs_table *table, const cell *c, int task, int mixer, int way,
                         rs_error *err)
{
    const outcome o = outcome_of(c, way);
    int seeds = c->grid.seeds;
    const rs_lab_spread a = rs_lab_spread_of(o.accuracy, seeds);
    way_cells cells = {.task = task_names[task],
                       .mixer = rs_table1_mixers[mixer].name,
                       .way = way_names[way],
                       .rate = c->ways[way].rates[o.rate],
                       .accuracy = a.mean,
                       .error = a.error,
                       .trains = rs_lab_spread_of(o.trains, seeds).mean,
                       .spikes = rs_lab_spread_of(o.spikes, seeds).mean,
                       .runs = rs_lab_grid_rates(&c->grid, way) * seeds,
                       .diverged = rs_lab_grid_diverged(&c->grid, way)};
    for (int l = 0; l < RS_TABLE1_LAYERS; l++) {
        const rs_lab_spread strength = rs_lab_spread_of(o.strength[l], seeds);
        cells.strength[l] = strength.mean;
        cells.strength_error[l] = way == TRAINED ? strength.error : 0;
    }
    return rs_table_append(table, &cells, err);
}

static rs_status add_ways(rs_lab_report *report, const table1 *t, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(report->result, rs_lab_lambda_ways_kind.name, "Skip strengths",
                               "What each mixer came to with skips of 1, trained ones and none, at "
                               "the best of its rates.",
                               way_columns, sizeof way_columns / sizeof *way_columns, &table, err));
    for (int task = 0; task < TASKS; task++)
        for (int mixer = 0; mixer < RS_TABLE1_MIXERS; mixer++)
            for (int way = 0; way < WAYS && t->of[task][mixer].there; way++)
                RS_TRY(add_way(table, &t->of[task][mixer], task, mixer, way, err));
    return RS_OK;
}

typedef struct run_cells {
    const char *task, *mixer, *way;
    double rate, accuracy, strength[RS_TABLE1_LAYERS], spikes, diverged;
    int64_t seed;
} run_cells;

#define RUN(member, name, title, formula, provenance)                                              \
    RS_COLUMN(run_cells, member, name, title, NULL, formula, provenance)
static const rs_column run_columns[] = {
    RUN(task, "task", "task", "MQAR or images", NULL),
    RUN(mixer, "mixer", "mixer", "of both layers", NULL),
    RUN(way, "skip", "skip strength", "1, trained from 1 on, or 0", NULL),
    RUN(rate, "learning_rate", "rate", "learning rate", NULL),
    RUN(seed, "seed", "seed", "of weights and data, from --seed on", NULL),
    RUN(accuracy, "accuracy", "accuracy", "on data of its own at the end", "measured"),
    RUN(strength[0], "skip_0", "λ of layer 0", "at the end", "measured"),
    RUN(strength[1], "skip_1", "λ of layer 1", "at the end", "measured"),
    RUN(spikes, "spikes", "spikes", "logged batches whose loss is above 1.5 times the running mean",
        "measured"),
    RUN(diverged, "diverged", "diverged", "step at which the loss or a gradient was no number",
        "measured"),
};
const rs_table_kind rs_lab_lambda_runs_kind = {"lab", "lambda_table1_runs", {RS_PART(run_columns)}};

static rs_status add_cell_runs(rs_table *table, const cell *c, int task, int mixer, rs_error *err)
{
    int each = RATES * c->grid.seeds;
    for (int i = 0; i < WAYS * each; i++) {
        int way = i / each, rate = i % each / c->grid.seeds, seed = i % c->grid.seeds;
        const rs_grid_run *run = rs_lab_grid_run(&c->grid, way, rate, seed);
        if (!run->made) continue;
        const run_cells cells = {.task = task_names[task],
                                 .mixer = rs_table1_mixers[mixer].name,
                                 .way = way_names[way],
                                 .rate = c->ways[way].rates[rate],
                                 .seed = seed,
                                 .accuracy = run->eval_accuracy,
                                 .strength = {run->seen[0], run->seen[1]},
                                 .spikes = run->seen[SPIKES],
                                 .diverged = run->diverged};
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

static rs_status add_runs(rs_lab_report *report, const table1 *t, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(report->result, rs_lab_lambda_runs_kind.name, "All runs",
                               "Every run; those that diverged are rows like any other.",
                               run_columns, sizeof run_columns / sizeof *run_columns, &table, err));
    for (int task = 0; task < TASKS; task++)
        for (int mixer = 0; mixer < RS_TABLE1_MIXERS; mixer++)
            if (t->of[task][mixer].there)
                RS_TRY(add_cell_runs(table, &t->of[task][mixer], task, mixer, err));
    return RS_OK;
}

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X("learning_rate", "learning rate", "that was tried"),
    RS_LAB_Y("accuracy", "accuracy",
             "share of right answers on data of its own at the end, mean over seeds"));
static const rs_table_kind table_kind = {"lab", "lambda_table1_small", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Skip strengths 1, trained and 0",
    .about = "The accuracy by learning rate of two layers with skips of strength 1, trained ones "
             "and none, mean over seeds; a run that diverged counts as 0.",
    .log_x = true,
};

static rs_status draw_way(rs_table *table, const cell *c, int task, int mixer, int way,
                          rs_error *err)
{
    char series[80];
    snprintf(series, sizeof series, "%s, %s, λ %s", task_names[task], rs_table1_mixers[mixer].name,
             way_names[way]);
    for (int rate = 0; rate < rs_lab_grid_rates(&c->grid, way); rate++) {
        double mean = 0;
        for (int s = 0; s < c->grid.seeds; s++)
            mean += accuracy_of(c, way, rate, s) / c->grid.seeds;
        RS_TRY(rs_lab_curves_add(table, series, c->ways[way].rates[rate], mean, err));
    }
    return RS_OK;
}

static rs_status draw(rs_lab_report *report, const table1 *t, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int task = 0; task < TASKS; task++)
        for (int mixer = 0; mixer < RS_TABLE1_MIXERS; mixer++)
            for (int way = 0; way < WAYS && t->of[task][mixer].there; way++)
                RS_TRY(draw_way(table, &t->of[task][mixer], task, mixer, way, err));
    return RS_OK;
}

/* ---- gradients at the start ---- */

enum { STRENGTHS = 4 };
static const double strengths[STRENGTHS] = {0, 0.5, 1, 2};

typedef struct starts {
    rs_table1_gradients of[RS_TABLE1_MIXERS][STRENGTHS][SEEDS];
} starts;

typedef struct start_cells {
    const char *mixer;
    double strength, g[RS_TABLE1_PARTS], q_v, q_v_error;
    int64_t seed, layer;
} start_cells;

#define START(member, name, title, formula, provenance)                                            \
    RS_COLUMN(start_cells, member, name, title, NULL, formula, provenance)
static const rs_column start_columns[] = {
    START(seed, "seed", "seed", "of weights and data, from --seed on", NULL), /* of one network */
    START(mixer, "mixer", "mixer", "of both layers, before training on MQAR", NULL),
    START(strength, "skip", "skip strength", "of both layers", NULL),
    START(layer, "layer", "layer", "from 0", NULL),
    START(g[RS_TABLE1_Q], "log10_g_q", "log10 gQ",
          "squared norm of the loss's derivative by W_Q; by the map to C", "measured"),
    START(g[RS_TABLE1_K], "log10_g_k", "log10 gK", "the same by W_K; by the map to B", "measured"),
    START(g[RS_TABLE1_V], "log10_g_v", "log10 gV",
          "the same by W_V; by the map to what the states are fed", "measured"),
    START(g[RS_TABLE1_STEP], "log10_g_step", "log10 of the step's",
          "the same by the map to the step Δ; null of attention", "measured"),
    START(q_v, "log10_ratio_g_q_g_v", "log10 gQ/gV", "difference of the two", "measured"),
    START(q_v_error, "log10_ratio_error", "its error", "standard error over seeds", "measured"),
};
const rs_table_kind rs_lab_lambda_starts_kind = {
    "lab",
    "lambda_table1_gradients",
    {{start_columns + 1, sizeof start_columns / sizeof *start_columns - 1, NULL}}};
const rs_table_kind rs_lab_lambda_seed_starts_kind = {
    "lab", "lambda_table1_seed_gradients", {RS_PART(start_columns)}};

static rs_status look_all(starts *out, int seeds, const rs_context *context, rs_error *err)
{
    for (int mixer = 0; mixer < RS_TABLE1_MIXERS; mixer++)
        for (int k = 0; k < STRENGTHS; k++)
            for (int s = 0; s < seeds; s++) {
                RS_TRY(rs_check_cancelled(context, err));
                RS_TRY(rs_table1_look(&out->of[mixer][k][s], &rs_table1_mixers[mixer], strengths[k],
                                      context->seed + (uint64_t)s, context, err));
            }
    return RS_OK;
}

/* Means of the n seeds from `first` on. */
static rs_status add_start(rs_table *table, const starts *all, int mixer, int strength, int layer,
                           int first, int n, rs_error *err)
{
    start_cells cells = {.mixer = rs_table1_mixers[mixer].name,
                         .strength = strengths[strength],
                         .seed = first,
                         .layer = layer};
    double ratio[SEEDS];
    for (int s = 0; s < n; s++) {
        const double *g = all->of[mixer][strength][first + s].squared[layer];
        for (int part = 0; part < RS_TABLE1_PARTS; part++)
            cells.g[part] += log10(g[part]) / n;
        ratio[s] = log10(g[RS_TABLE1_Q] / g[RS_TABLE1_V]);
    }
    const rs_lab_spread q_v = rs_lab_spread_of(ratio, n);
    cells.q_v = q_v.mean;
    cells.q_v_error = q_v.error;
    return rs_table_append(table, &cells, err);
}

/* each: a row a seed; else a row of their means. */
static rs_status add_starts(rs_lab_report *report, const starts *all, int seeds, bool each,
                            rs_error *err)
{
    rs_table *table = NULL;
    const rs_table_kind *kind = each ? &rs_lab_lambda_seed_starts_kind : &rs_lab_lambda_starts_kind;
    RS_TRY(rs_result_add_table(report->result, kind->name,
                               each ? "Gradients, seed by seed" : "Gradients at the start",
                               "What queries, keys and values would learn from before anything is "
                               "learnt, by skip strength; of state-space layers C, B, what they "
                               "are fed, and the step.",
                               kind->parts[0].columns, kind->parts[0].n, &table, err));
    for (int k = 0; k < RS_TABLE1_MIXERS * STRENGTHS * RS_TABLE1_LAYERS; k++) {
        int layer = k % RS_TABLE1_LAYERS, strength = k / RS_TABLE1_LAYERS % STRENGTHS,
            mixer = k / RS_TABLE1_LAYERS / STRENGTHS;
        for (int first = 0; first < (each ? seeds : 1); first++)
            RS_TRY(add_start(table, all, mixer, strength, layer, first, each ? 1 : seeds, err));
    }
    return RS_OK;
}

/* ---- claims ---- */

/* A difference over seeds of which nothing was published: it is said whichever way it goes. */
static rs_status claim_either(rs_lab_report *report, const char *up, const char *down,
                              const double *by, int seeds, rs_error *err)
{
    const rs_lab_spread d = rs_lab_spread_of(by, seeds);
    return rs_lab_order(report, d.mean < 0 ? down : up, fabs(d.mean), rs_lab_order_error(d), err);
}

/* Of the last layer: the decades by which queries, beside values, get more with a skip of 1. */
static rs_status claim_start(rs_lab_report *report, const starts *all, int mixer, int seeds,
                             rs_error *err)
{
    double by[SEEDS];
    char up[160], down[160];
    const char *name = rs_table1_mixers[mixer].name;
    for (int s = 0; s < seeds; s++) {
        const double *one = all->of[mixer][2][s].squared[RS_TABLE1_LAYERS - 1],
                     *none = all->of[mixer][0][s].squared[RS_TABLE1_LAYERS - 1];
        by[s] = log10(one[RS_TABLE1_Q] / one[RS_TABLE1_V]) -
                log10(none[RS_TABLE1_Q] / none[RS_TABLE1_V]);
    }
    snprintf(up, sizeof up, "%s: log10 gQ/gV of the last layer, λ 1 above λ 0 by", name);
    snprintf(down, sizeof down, "%s: log10 gQ/gV of the last layer, λ 0 above λ 1 by", name);
    return claim_either(report, up, down, by, seeds, err);
}

static rs_status skip_images(rs_lab_report *report, const char *text, rs_error *err)
{
    const rs_lab_claim claim = {text, NAN, NAN, NAN, NAN, false, false};
    return rs_lab_skip_claim(report, &claim, "no images: --data NAMEx.npy has them", err);
}

static rs_status claim_none(rs_lab_report *report, const cell *c, const char *name, rs_error *err)
{
    char text[160];
    double by[SEEDS];
    snprintf(text, sizeof text, "%s: accuracy that λ 0 loses against λ 1, best rates", name);
    if (!c->there) return skip_images(report, text, err);
    const outcome one = outcome_of(c, FIXED), none = outcome_of(c, NONE);
    for (int s = 0; s < c->grid.seeds; s++)
        by[s] = one.accuracy[s] - none.accuracy[s];
    const rs_lab_spread d = rs_lab_spread_of(by, c->grid.seeds);
    return rs_lab_order_published(report, text, d.mean, rs_lab_order_error(d), err);
}

static rs_status claim_trained(rs_lab_report *report, const cell *c, const char *name, int sign,
                               rs_error *err)
{
    char up[160], down[160];
    double by[SEEDS];
    snprintf(up, sizeof up, "%s: accuracy that a trained λ gains, best rates%s", name,
             sign > 0 ? " (published: it gains)" : "");
    snprintf(down, sizeof down, "%s: accuracy that a trained λ loses, best rates%s", name,
             sign < 0 ? " (published: it loses)" : "");
    if (!c->there) return skip_images(report, sign < 0 ? down : up, err);
    const outcome one = outcome_of(c, FIXED), learnt = outcome_of(c, TRAINED);
    for (int s = 0; s < c->grid.seeds; s++)
        by[s] = learnt.accuracy[s] - one.accuracy[s];
    if (sign == 0) return claim_either(report, up, down, by, c->grid.seeds, err);
    const rs_lab_spread d = rs_lab_spread_of(by, c->grid.seeds);
    return rs_lab_order_published(report, sign < 0 ? down : up, sign * d.mean,
                                  rs_lab_order_error(d), err);
}

static rs_status claim_stability(rs_lab_report *report, const cell *c, const char *name,
                                 rs_error *err)
{
    char up[160], down[160];
    double by[SEEDS];
    snprintf(up, sizeof up, "%s: share of rates that train, more with a trained λ by", name);
    snprintf(down, sizeof down, "%s: share of rates that train, fewer with a trained λ by", name);
    if (!c->there) return skip_images(report, up, err);
    const outcome one = outcome_of(c, FIXED), learnt = outcome_of(c, TRAINED);
    for (int s = 0; s < c->grid.seeds; s++)
        by[s] = learnt.trains[s] - one.trains[s];
    return claim_either(report, up, down, by, c->grid.seeds, err);
}

/* Where strength 1 reaches all, or nothing, there is nothing to compare: that there is room on both sides. */
static rs_status claim_hard(rs_lab_report *report, const cell *c, const char *name, rs_error *err)
{
    char text[160];
    const outcome one = outcome_of(c, FIXED);
    const rs_lab_spread a = rs_lab_spread_of(one.accuracy, c->grid.seeds);
    snprintf(text, sizeof text, "%s: accuracy of λ 1 at its best rate, away from 0 and 1 by", name);
    return rs_lab_order(report, text, fmin(a.mean, 1 - a.mean), rs_lab_order_error(a), err);
}

static rs_status claim_cell(rs_lab_report *report, const table1 *t, int task, int mixer,
                            rs_error *err)
{
    const cell *c = &t->of[task][mixer];
    char name[60];
    snprintf(name, sizeof name, "%s, %s", task_names[task], rs_table1_mixers[mixer].name);
    if (task == MQAR) RS_TRY(claim_hard(report, c, name, err));
    RS_TRY(claim_none(report, c, name, err));
    RS_TRY(claim_trained(report, c, name, published[task][mixer], err));
    return claim_stability(report, c, name, err);
}

/* ---- the whole ---- */

static rs_status report_all(rs_lab_report *report, const table1 *t, const starts *all, int looks,
                            rs_error *err)
{
    RS_TRY(draw(report, t, err));
    RS_TRY(add_ways(report, t, err));
    RS_TRY(add_starts(report, all, looks, false, err));
    RS_TRY(add_starts(report, all, looks, true, err));
    RS_TRY(add_runs(report, t, err));
    for (int mixer = 0; mixer < RS_TABLE1_MIXERS; mixer++)
        RS_TRY(claim_start(report, all, mixer, looks, err));
    for (int task = 0; task < TASKS && !t->quick; task++) /* one seed shows no order */
        for (int mixer = 0; mixer < RS_TABLE1_MIXERS; mixer++)
            RS_TRY(claim_cell(report, t, task, mixer, err));
    return RS_OK;
}

/* The user's images are opened before anything is trained. */
static rs_status open_all(table1 *t, const rs_lab_report *report, const rs_lab_options *options,
                          const rs_context *context, rs_error *err)
{
    for (int task = 0; task < TASKS; task++)
        for (int mixer = 0; mixer < RS_TABLE1_MIXERS; mixer++)
            RS_TRY(open_cell(&t->of[task][mixer], t, task, mixer, report, options, err));
    return rs_lab_grid_try(&t->of[IMAGES][0].grid, context, err);
}

static rs_status train_all(table1 *t, const rs_context *context, rs_error *err)
{
    for (int task = 0; task < TASKS; task++)
        for (int mixer = 0; mixer < RS_TABLE1_MIXERS; mixer++) {
            cell *c = &t->of[task][mixer];
            if (c->there) RS_TRY(rs_lab_grid_train(&c->grid, context, err));
        }
    return RS_OK;
}

static rs_status run_lambda_table1_small(rs_lab_report *report, const rs_lab_options *options,
                                         const rs_context *context, rs_error *err)
{
    table1 *t = rs_calloc(1, sizeof *t);
    starts *all = rs_calloc(1, sizeof *all);
    rs_status status =
        t && all ? RS_OK : rs_fail_memory(err, "an experiment", sizeof *t + sizeof *all);
    int looks = options->seeds > 0 && options->seeds < SEEDS ? (int)options->seeds : SEEDS;
    int seeds = rs_lab_seeds(options, SEEDS);
    if (status == RS_OK) t->seeds = seeds, t->quick = options->quick;
    if (status == RS_OK) status = open_all(t, report, options, context, err);
    if (status == RS_OK) status = look_all(all, looks, context, err);
    if (status == RS_OK) status = train_all(t, context, err);
    if (status == RS_OK) status = report_all(report, t, all, looks, err);
    if (status == RS_OK)
        status = rs_lab_say_runs(report, TASKS * RS_TABLE1_MIXERS, &t->of[0][0].grid,
                                 sizeof t->of[0][0], options->quick, SEEDS, err);
    if (t) close_table(t);
    rs_free(all);
    if (status != RS_OK) return status;
    if (!options->quick) return rs_lab_say_seeds(report, seeds, SEEDS, err);
    return rs_lab_say_quick(report,
                            "1 rate of 4, 1 seed of 5, 60 steps of 200 to 500, and no orders but "
                            "those of gradients",
                            err);
}

const rs_lab_experiment rs_lab_lambda_table1_small = {
    "lambda-table1-small",
    "Skip strengths 1, trained and 0",
    "Arangath Joseph et al. 2025, table 1",
    "Two layers of attention, linear attention, Mamba and Mamba-2 learn MQAR, and the images that "
    "--data names, with skips of strength 1, trained ones and none: four learning rates, five "
    "seeds, and gradients at the start by strength. After Arangath Joseph, Sieber, Zeilinger, Amo "
    "Alonso, ICLR 2025 (arXiv 2410.10609).",
    run_lambda_table1_small,
    "320 s",
    "3 s",
    &table_kind,
    0};
