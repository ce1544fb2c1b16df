/*
 * alarms.c: ten ways to train a small language model on a source of known entropies, those that
 * collapse and those that do not: when the alarms of a run rang, and when its loss showed it
 * (docs/train.md, Alarms).
 */
#include "lab/toy.h"
#include "lab/training.h"

#include "base/memory.h"
#include "train/alarms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUNS = 10,
    SEEDS = 3,
    STEPS = 600,
    QUICK_STEPS = 300,
    EVERY = 10,
    LOGS = STEPS / EVERY + 1,
    TAIL = 11, /* logs at the end: the last 100 steps */
    HOLD = 200 /* what alarms.hold is by itself, and twice the warm-up at most */
};
/* A loss this near to the unigram entropy shows nothing of the context; one this far below does. */
static const double near_unigram = 0.05, learns_by = 0.5, collapse_limit = 0.05;

/* How a run differs from the first. */
static const struct {
    const char *name, *model;
    double rate, decay;
    int warmup;
    bool quick;
} recipes[RUNS] = {
    {"pre-norm", "", 2e-3, 0, 50, true},
    {"post-norm, 2 layers", ", 'norm': 'post'", 2e-3, 0, 50, false},
    {"post-norm, 8 layers", ", 'norm': 'post', 'depth': 8", 2e-3, 0, 50, false},
    {"post-norm, 16 layers", ", 'norm': 'post', 'depth': 16", 2e-3, 0, 50, true},
    {"post-norm, 16 layers, no warm-up", ", 'norm': 'post', 'depth': 16", 2e-3, 0, 0, false},
    {"post-norm, 16 layers, 1/sqrt(L)",
     ", 'norm': 'post', 'depth': 16, 'branch_mixer': '1/sqrt(L)', 'branch_mlp': '1/sqrt(L)'", 2e-3,
     0, 50, false},
    {"skipless, 8 layers", ", 'depth': 8, 'skip_mixer': 0, 'skip_mlp': 0", 2e-3, 0, 50, true},
    {"attention decay 0.1", "", 2e-3, 0.1, 50, false},
    {"attention decay 3", "", 2e-3, 3, 50, false},
    {"learning rate x 20", "", 4e-2, 0, 50, false},
};

/* What a run was seen to do. Steps that never came are NaN. */
typedef struct watched {
    bool made;
    double excess;                  /* loss of evaluation - unigram entropy, at the end */
    double steps[LOGS], loss[LOGS]; /* running mean - unigram entropy */
    double residual[LOGS];          /* of what leaves the last layer */
    double stable;                  /* least stable rank, of that of the start */
    double shown;                   /* the loss has been near the unigram for HOLD steps */
    double warned[RS_ALARMS], critical[RS_ALARMS]; /* for the first time */
    int logs;
} watched;

typedef struct watched_all {
    watched of[SEEDS][RUNS];
    int seeds, steps;
    bool quick;
} watched_all;

/* ---- runs ---- */

static void write_task(char *text, size_t size, int run, int steps, uint64_t seed)
{
    snprintf(text, size,
             "{'task': 'markov', 'data': {'length': 32, 'symbols': 32, 'eval': 256},"
             " 'model': {'depth': 2, 'd_model': 32, 'heads': 2, 'mask': 'causal', 'positions': "
             "'learned', 'norm': 'pre', 'norm_affine': 'gain', 'mlp': 'gelu', 'mlp_width': 64%s},"
             " 'steps': %d, 'batch': 16, 'seed': %llu, 'log_every': %d, 'rank_every': %d, "
             "'eval_every': %d,"
             " 'optimizer': {'kind': 'adamw', 'lr': %g, 'betas': [0.9, 0.95], 'clip': 1,"
             " 'weight_decay': {'default': 0.1, 'attention': %g, 'norm': 0}},"
             " 'schedule': {'kind': 'constant', 'warmup': %d}}",
             recipes[run].model, steps, (unsigned long long)seed, EVERY, EVERY, steps,
             recipes[run].rate, recipes[run].decay, recipes[run].warmup);
}

static void see_losses(watched *w, const rs_result *result)
{
    const rs_table *log = rs_result_table(result, "log");
    double unigram = rs_lab_mark(result, "unigram entropy"), since = NAN;
    w->shown = NAN;
    for (size_t i = 0; i < rs_table_rows(log) && w->logs < LOGS; i++) {
        double step = rs_lab_cell(log, i, "step"), loss = rs_lab_cell(log, i, "loss") - unigram;
        w->steps[w->logs] = step, w->loss[w->logs++] = loss;
        if (fabs(loss) > near_unigram) since = NAN;
        if (fabs(loss) <= near_unigram && isnan(since)) since = step;
        if (isnan(w->shown) && step - since >= HOLD) w->shown = step;
        w->excess = rs_lab_cell(log, i, "eval_loss") - unigram;
    }
}

/* The mean over layers, heads and products, by step. */
static void see_stable_ranks(watched *w, const rs_result *result)
{
    const rs_table *ranks = rs_result_table(result, "ranks");
    size_t n = rs_table_rows(ranks);
    double start = 0, sum = 0, count = 0;
    w->stable = 1;
    for (size_t i = 0; i < n; i++) {
        double step = rs_lab_cell(ranks, i, "step"), value = rs_lab_cell(ranks, i, "stable_rank");
        if (!isnan(value)) sum += value, count++;
        if (i + 1 < n && rs_lab_cell(ranks, i + 1, "step") <= step) continue;
        if (step <= 0) start = sum / count;
        w->stable = fmin(w->stable, sum / count / start);
        sum = count = 0;
    }
}

static void see_alarms(watched *w, const rs_result *result)
{
    const rs_table *alarms = rs_result_table(result, "alarms");
    for (int k = 0; k < RS_ALARMS; k++)
        w->warned[k] = w->critical[k] = NAN;
    for (size_t i = 0; i < rs_table_rows(alarms); i++) {
        rs_alarm_kind kind = rs_alarm_find(rs_lab_cell_text(alarms, i, "code"));
        bool critical = strcmp(rs_lab_cell_text(alarms, i, "severity"), "critical") == 0;
        double *first = critical ? w->critical : w->warned;
        if (kind < RS_ALARMS) first[kind] = fmin(first[kind], rs_lab_cell(alarms, i, "step"));
    }
}

static rs_status watch(watched *w, int run, int steps, uint64_t seed, const rs_context *context,
                       rs_error *err)
{
    char text[1200];
    rs_result *result = NULL;
    write_task(text, sizeof text, run, steps, seed);
    RS_TRY(rs_lab_train(&result, text, NULL, context, err));
    see_losses(w, result);
    rs_lab_last_layer(w->residual, LOGS, result, "relative_residual");
    see_stable_ranks(w, result);
    see_alarms(w, result);
    w->made = true;
    rs_result_free(result);
    return RS_OK;
}

/* The deepest first: they take the longest. */
static rs_status watch_all(watched_all *all, const rs_context *context, rs_error *err)
{
    static const int order[RUNS] = {5, 4, 3, 6, 2, 1, 0, 7, 8, 9};
    rs_status status = RS_OK;
    rs_error first = {0};
    RS_TRY(rs_check_cancelled(context, err));
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int i = 0; i < RUNS * all->seeds; i++) {
        rs_error own = {0};
        int run = order[i / all->seeds], seed = i % all->seeds;
        if (all->quick && !recipes[run].quick) continue;
        rs_status made = watch(&all->of[seed][run], run, all->steps, context->seed + (uint64_t)seed,
                               context, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

/* ---- what became of a run ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the last logs: a network whose tokens have collapsed may stir for a few steps. */
static double last_residual(const watched *w)
{
    double last[TAIL];
    memcpy(last, w->residual + w->logs - TAIL, sizeof last);
    qsort(last, TAIL, sizeof *last, by_size);
    return last[TAIL / 2];
}

static bool learns(const watched *w)
{
    return w->excess <= -learns_by;
}

static bool collapsed(const watched *w)
{
    return fabs(w->excess) <= near_unigram && last_residual(w) < collapse_limit;
}

/* The earliest of all alarms; NaN: none rang. */
static double earliest(const double steps[RS_ALARMS])
{
    double first = NAN;
    for (int k = 0; k < RS_ALARMS; k++)
        first = fmin(first, steps[k]);
    return first;
}

/* ---- tables ---- */

/* A row of table alarms_runs; NaN: it never came to that. */
typedef struct run_cells {
    const char *run, *end;
    int64_t seed;
    double excess, residual, stable, shown;
    double collapse_warned, collapse_critical, gradient_warned, gradient_critical, unused;
    double qk_ranks, ov_ranks, spike;
} run_cells;

#define RUN(member, title, formula)                                                                \
    RS_COLUMN(run_cells, member, #member, title, NULL, formula, "measured")
static const rs_column run_columns[] = {
    RS_COLUMN(run_cells, run, "run", "run", NULL, "how it differs from the first", NULL),
    RS_COLUMN(run_cells, seed, "seed", "seed", NULL, "of weights and data", NULL),
    RS_COLUMN(run_cells, end, "end", "end", NULL,
              "learns: half a nat below the unigram entropy; collapsed: within 0.05 nats of it, "
              "with a residual below 0.05; between: neither",
              NULL),
    RUN(excess, "loss - unigram", "loss of evaluation at the end, less the unigram entropy (nats)"),
    RUN(residual, "residual",
        "relative residual behind the last layer, median of the last 100 steps"),
    RUN(stable, "stable rank", "least mean over all products, divided by that of the start"),
    RUN(shown, "loss shows it",
        "step at which the running mean has been within 0.05 nats of the unigram entropy for 200 "
        "steps"),
    RUN(collapse_warned, "tokens, warn", "first step at which token_collapse warned"),
    RUN(collapse_critical, "tokens, critical", "first step at which it was critical"),
    RUN(gradient_warned, "gradient, warn", "first step at which vanishing_qk_gradient warned"),
    RUN(gradient_critical, "gradient, critical", "first step at which it was critical"),
    RUN(unused, "context unused", "first step at which context_unused rang"),
    RUN(qk_ranks, "qk ranks", "first step at which qk_rank_loss warned"),
    RUN(ov_ranks, "ov ranks", "first step at which ov_rank_loss warned"),
    RUN(spike, "spike", "first step at which loss_spike warned"),
};
const rs_table_kind rs_lab_alarm_runs_kind = {"lab", "alarms_runs", {RS_PART(run_columns)}};

static rs_status add_run(rs_table *table, const watched_all *all, int seed, int run, rs_error *err)
{
    const watched *w = &all->of[seed][run];
    const run_cells cells = {.run = recipes[run].name,
                             .end = learns(w)      ? "learns"
                                    : collapsed(w) ? "collapsed"
                                                   : "between",
                             .seed = seed,
                             .excess = w->excess,
                             .residual = last_residual(w),
                             .stable = w->stable,
                             .shown = w->shown,
                             .collapse_warned = w->warned[RS_ALARM_TOKEN_COLLAPSE],
                             .collapse_critical = w->critical[RS_ALARM_TOKEN_COLLAPSE],
                             .gradient_warned = w->warned[RS_ALARM_VANISHING_QK_GRADIENT],
                             .gradient_critical = w->critical[RS_ALARM_VANISHING_QK_GRADIENT],
                             .unused = w->critical[RS_ALARM_CONTEXT_UNUSED],
                             .qk_ranks = w->warned[RS_ALARM_QK_RANK_LOSS],
                             .ov_ranks = w->warned[RS_ALARM_OV_RANK_LOSS],
                             .spike = w->warned[RS_ALARM_LOSS_SPIKE]};
    return rs_table_append(table, &cells, err);
}

static rs_status add_runs(rs_lab_report *report, const watched_all *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(report->result, rs_lab_alarm_runs_kind.name, "Ten ways to train",
                               "What each run came to, when its alarms first rang, and when its "
                               "loss showed it.",
                               run_columns, sizeof run_columns / sizeof *run_columns, &table, err));
    for (int run = 0; run < RUNS; run++)
        for (int seed = 0; seed < all->seeds; seed++)
            if (all->of[seed][run].made) RS_TRY(add_run(table, all, seed, run, err));
    return RS_OK;
}

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps that were made"),
                  RS_LAB_Y("relative_residual", "relative residual behind the last layer",
                           "||X - 1 mean||_F / ||X||_F, mean over the probe batch"));
static const rs_table_kind table_kind = {"lab", "alarms", {RS_PART(point_columns)}};
static const rs_lab_curves residual_curves = {
    .kind = &table_kind,
    .title = "Tokens that collapse",
    .about = "What is left of the tokens' differences behind the last layer, first seed, and where "
             "token_collapse first warned and was first critical.",
    .log_y = true,
    .y_floor = 1e-6,
};
static const rs_column loss_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps that were made"),
                  RS_LAB_Y("excess", "loss - unigram entropy (nats)",
                           "running mean of the loss, less the entropy of single letters"));
const rs_table_kind rs_lab_alarm_losses_kind = {"lab", "alarms_loss", {RS_PART(loss_columns)}};
static const rs_lab_curves loss_curves = {
    .kind = &rs_lab_alarm_losses_kind,
    .title = "What the loss shows",
    .about = "The running mean of the loss, first seed, less the entropy of single letters: runs "
             "that stay at 0 tell how often letters come and nothing of their context.",
};

/* The log of a step; the last where there is none. */
static int log_at(const watched *w, double step)
{
    int i = 0;
    while (i + 1 < w->logs && w->steps[i] < step)
        i++;
    return i;
}

/* Where the alarm first rang: points of two curves of their own. */
static rs_status draw_marks(rs_table *table, const watched_all *all, bool critical, rs_error *err)
{
    for (int run = 0; run < RUNS; run++) {
        const watched *w = &all->of[0][run];
        double step = (critical ? w->critical : w->warned)[RS_ALARM_TOKEN_COLLAPSE];
        if (!w->made || isnan(step)) continue;
        char series[80];
        snprintf(series, sizeof series, "%s: %s", recipes[run].name,
                 critical ? "critical" : "warned");
        RS_TRY(rs_lab_curves_add(table, series, step, w->residual[log_at(w, step)], err));
    }
    return RS_OK;
}

static rs_status draw(rs_lab_report *report, const watched_all *all, bool losses, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, losses ? &loss_curves : &residual_curves, err));
    for (int run = 0; run < RUNS; run++) {
        const watched *w = &all->of[0][run];
        for (int i = 0; w->made && i < w->logs; i++)
            RS_TRY(rs_lab_curves_add(table, recipes[run].name, w->steps[i],
                                     losses ? w->loss[i] : w->residual[i], err));
    }
    if (losses) return RS_OK;
    RS_TRY(draw_marks(table, all, false, err));
    return draw_marks(table, all, true, err);
}

/* ---- claims ---- */

/* Counts and extremes over all runs. */
typedef struct tally {
    double learnt, collapsed, between;  /* runs */
    double false_alarms;                /* runs that learn, with a critical alarm */
    double late_warning, late_critical; /* of collapsed runs: the latest; infinity: never */
    double lead;  /* the least number of steps by which the warning is ahead of the loss */
    double least; /* stable rank that is left of a run that learns */
    double idle;  /* seeds of which no run learns, or none collapses */
    double healthy[SEEDS], dead[SEEDS]; /* stable rank left: means over runs that learn, collapse */
} tally;

static void count_learnt(tally *t, const watched *w)
{
    t->learnt++;
    t->false_alarms += !isnan(earliest(w->critical));
    t->least = fmin(t->least, w->stable);
}

static void count_collapsed(tally *t, const watched *w)
{
    double warned = earliest(w->warned), critical = earliest(w->critical);
    t->collapsed++;
    t->late_warning = fmax(t->late_warning, isnan(warned) ? INFINITY : warned);
    t->late_critical = fmax(t->late_critical, isnan(critical) ? INFINITY : critical);
    if (!isnan(w->shown)) t->lead = fmin(t->lead, w->shown - warned);
}

static tally count_all(const watched_all *all)
{
    tally t = {.lead = INFINITY, .least = INFINITY};
    for (int seed = 0; seed < all->seeds; seed++) {
        double sums[2] = {0}, counts[2] = {0};
        for (int run = 0; run < RUNS; run++) {
            const watched *w = &all->of[seed][run];
            if (!w->made) continue;
            bool good = learns(w), bad = collapsed(w);
            if (good) count_learnt(&t, w);
            if (bad) count_collapsed(&t, w);
            t.between += !good && !bad;
            if (good || bad) sums[bad] += w->stable, counts[bad]++;
        }
        t.idle += counts[0] == 0 || counts[1] == 0;
        t.healthy[seed] = sums[0] / counts[0];
        t.dead[seed] = sums[1] / counts[1];
    }
    return t;
}

/* That stable rank falls in runs that learn, and stays where tokens collapse. */
static rs_status claim_stable_ranks(rs_lab_report *report, const watched_all *all, const tally *t,
                                    rs_error *err)
{
    double by[SEEDS], least = INFINITY;
    for (int seed = 0; seed < all->seeds; seed++) {
        by[seed] = t->dead[seed] - t->healthy[seed];
        least = fmin(least, t->dead[seed]);
    }
    const rs_lab_spread d = rs_lab_spread_of(by, all->seeds);
    RS_TRY(rs_lab_at_most(report, "collapsed runs: share of the stable rank that is lost, mean",
                          1 - least, 0.15, err));
    if (all->quick) return RS_OK;
    RS_TRY(rs_lab_at_most(report, "runs that learn: stable rank that is left of one, least",
                          t->least, 0.5, err));
    return rs_lab_order(report, "stable rank falls further in runs that learn, by", d.mean,
                        rs_lab_order_error(d), err);
}

static rs_status claim_all(rs_lab_report *report, const watched_all *all, rs_error *err)
{
    const tally t = count_all(all);
    RS_TRY(
        rs_lab_at_most(report, "seeds of which no run learns, or none collapses", t.idle, 0, err));
    RS_TRY(
        rs_lab_at_most(report, "runs that neither learn nor collapse", t.between, all->seeds, err));
    RS_TRY(rs_lab_at_most(report, "runs that end 0.5 nat below the unigram: with a critical alarm",
                          t.false_alarms, 0, err));
    RS_TRY(rs_lab_at_most(report, "collapsed runs: latest first warning (step)", t.late_warning, 40,
                          err));
    RS_TRY(rs_lab_at_most(report, "collapsed runs: latest first critical alarm (step)",
                          t.late_critical, 300, err));
    if (!all->quick)
        RS_TRY(rs_lab_order(report,
                            "collapsed runs: steps that a warning is ahead of the loss, least",
                            t.lead, 0, err));
    return claim_stable_ranks(report, all, &t, err);
}

/* ---- the whole ---- */

static rs_status run_alarms(rs_lab_report *report, const rs_lab_options *options,
                            const rs_context *context, rs_error *err)
{
    watched_all *all = rs_calloc(1, sizeof *all);
    if (!all) return rs_fail_memory(err, "an experiment", sizeof *all);
    all->quick = options->quick;
    all->seeds = rs_lab_seeds(options, SEEDS);
    all->steps = options->quick ? QUICK_STEPS : STEPS;
    rs_status status = watch_all(all, context, err);
    if (status == RS_OK) status = draw(report, all, false, err);
    if (status == RS_OK) status = draw(report, all, true, err);
    if (status == RS_OK) status = add_runs(report, all, err);
    if (status == RS_OK) status = claim_all(report, all, err);
    int seeds = all->seeds;
    rs_free(all);
    if (status != RS_OK) return status;
    if (!options->quick) return rs_lab_say_seeds(report, seeds, SEEDS, err);
    return rs_lab_say_quick(report, "3 runs instead of 10, 1 seed instead of 3, 300 steps of 600",
                            err);
}

const rs_lab_experiment rs_lab_alarms = {
    "alarms",
    "When a training run should be looked at",
    "the table of alarms in docs/train.md",
    "Ten runs of a small language model on a source whose entropies are known, three seeds each: "
    "when alarms rang, and when the loss showed it. Pre-norm; post-norm of 2, 8 and 16 layers, "
    "with "
    "warm-up or none, and with branches scaled by 1/sqrt(L); without skips; decay 0.1 and 3 on "
    "attention; a learning rate 20 times too large.",
    run_alarms,
    "200 s",
    "10 s",
    &table_kind,
    0};
