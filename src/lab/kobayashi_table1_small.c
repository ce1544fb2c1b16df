/*
 * kobayashi_table1_small.c: table 1 of Kobayashi, Akram, von Oswald (NeurIPS 2024, arXiv 2410.23819) at
 * the size of a toy: the perplexity of a small language model by the weight decay of its attention and
 * by that of its MLPs, and what is gained where the two need not be equal.
 */
#include "lab/language.h"
#include "lab/runs.h"
#include "lab/toy.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DECAYS = 4, CELLS = DECAYS * DECAYS, SEEDS = 5, STEPS = 2000, EVERY = 250 };
enum { QUICK_DECAYS = 2, QUICK_STEPS = 250 };
/* What is seen of a run beside its losses. */
enum { QK_RANK, OV_RANK, UNIGRAM, SOURCE, SEEN };

static const double decays[DECAYS] = {0, 0.1, 0.3, 1}, quick_decays[QUICK_DECAYS] = {0, 1};

#define CELL(attention, mlp)                                                                       \
    {                                                                                              \
        "attention " attention ", MLP " mlp, "", RS_LANGUAGE_DECAYS(attention, mlp), "",           \
        {                                                                                          \
            2e-3                                                                                   \
        }                                                                                          \
    }
#define ROW(attention)                                                                             \
    CELL(attention, "0"), CELL(attention, "0.1"), CELL(attention, "0.3"), CELL(attention, "1")
static const rs_lab_recipe cells[CELLS] = {ROW("0"), ROW("0.1"), ROW("0.3"), ROW("1")};
static const rs_lab_recipe quick_cells[] = {CELL("0", "0"), CELL("0", "1"), CELL("1", "0"),
                                            CELL("1", "1")};

/* Means over layers and heads at the end. */
static void see(rs_grid_run *run, const rs_result *result)
{
    const rs_table *ranks = rs_result_table(result, "ranks");
    const rs_language_marks marks = rs_lab_language_marks(result);
    double sum[2] = {0}, n[2] = {0}, last = 0;
    size_t rows = ranks ? rs_table_rows(ranks) : 0;
    if (rows > 0) last = rs_lab_cell(ranks, rows - 1, "step");
    for (size_t i = 0; i < rows; i++) {
        if (rs_lab_cell(ranks, i, "step") < last) continue;
        int of = strcmp(rs_lab_cell_text(ranks, i, "product"), "qk") == 0 ? QK_RANK : OV_RANK;
        sum[of] += rs_lab_cell(ranks, i, "pseudo_rank");
        n[of]++;
    }
    run->seen[QK_RANK] = sum[QK_RANK] / n[QK_RANK];
    run->seen[OV_RANK] = sum[OV_RANK] / n[OV_RANK];
    run->seen[UNIGRAM] = marks.unigram;
    run->seen[SOURCE] = marks.source;
}

/* ---- cells ---- */

typedef struct table1 {
    rs_lab_grid grid;
    const double *decays; /* [n] of attention and of MLPs */
    int n;
} table1;

static int cell_of(const table1 *t, int attention, int mlp)
{
    return attention * t->n + mlp;
}

/* Nats a letter on data of their own; a run that diverged counts as what it began with (NaN: nothing). */
static double loss_of(const table1 *t, int cell, int seed)
{
    const rs_grid_run *run = rs_lab_grid_run(&t->grid, cell, 0, seed);
    return isnan(run->diverged) ? run->eval_loss : run->logs > 0 ? run->loss[0] : (double)NAN;
}

static rs_lab_spread perplexity_of(const table1 *t, int cell)
{
    double values[SEEDS];
    for (int s = 0; s < t->grid.seeds; s++)
        values[s] = exp(loss_of(t, cell, s));
    return rs_lab_spread_of(values, t->grid.seeds);
}

/* The cell of least mean loss over all seeds but `without` (-1: over all), of all or of those on the
 * diagonal. */
static int best_cell(const table1 *t, bool equal, int without)
{
    int best = 0;
    double least = INFINITY;
    for (int cell = 0; cell < t->n * t->n; cell++) {
        double sum = 0;
        if (equal && cell / t->n != cell % t->n) continue;
        for (int s = 0; s < t->grid.seeds; s++)
            if (s != without) sum += loss_of(t, cell, s);
        if (sum < least) least = sum, best = cell;
    }
    return best;
}

static rs_lab_spread seen_of(const table1 *t, int cell, int what)
{
    double values[SEEDS];
    for (int s = 0; s < t->grid.seeds; s++)
        values[s] = rs_lab_grid_run(&t->grid, cell, 0, s)->seen[what];
    return rs_lab_spread_of(values, t->grid.seeds);
}

/* ---- the table and the figure ---- */

typedef struct cell_cells {
    double attention, mlp, perplexity, error, loss, qk_rank, ov_rank;
    int64_t runs, diverged;
} cell_cells;

#define COLUMN(member, name, title, formula)                                                       \
    RS_COLUMN(cell_cells, member, name, title, NULL, formula, "measured")
static const rs_column cell_columns[] = {
    RS_COLUMN(cell_cells, attention, "attention_decay", "decay of attention", NULL,
              "of W_Q, W_K, W_V, W_O", NULL),
    RS_COLUMN(cell_cells, mlp, "mlp_decay", "decay of MLPs", NULL, "of both matrices", NULL),
    COLUMN(perplexity, "perplexity", "perplexity",
           "exp(loss) on data of its own at the end, mean over seeds"),
    COLUMN(error, "perplexity_error", "its error", "standard error over seeds"),
    COLUMN(loss, "loss", "loss", "nats a letter, mean over seeds"),
    COLUMN(qk_rank, "qk_pseudo_rank", "pseudo-rank, query-key",
           "singular values that hold 95 % of their sum over the head's width, mean over layers, "
           "heads and seeds"),
    COLUMN(ov_rank, "ov_pseudo_rank", "pseudo-rank, value-output", "the same"),
    RS_COLUMN(cell_cells, runs, "runs", "runs", NULL, "a seed each", NULL),
    COLUMN(diverged, "diverged", "diverged",
           "of them: the loss or a gradient was no number; they count as what they began with"),
};
const rs_table_kind rs_lab_table1_cells_kind = {
    "lab", "kobayashi_table1_cells", {RS_PART(cell_columns)}};

static rs_status add_cells(rs_lab_report *report, const table1 *t, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(
        rs_result_add_table(report->result, rs_lab_table1_cells_kind.name, "Perplexity by decay",
                            "Of a small language model, by the decay of its attention and of its "
                            "MLPs; all else decays by 0.1, norms by 0.",
                            cell_columns, sizeof cell_columns / sizeof *cell_columns, &table, err));
    for (int cell = 0; cell < t->n * t->n; cell++) {
        const rs_lab_spread p = perplexity_of(t, cell);
        cell_cells c = {.attention = t->decays[cell / t->n],
                        .mlp = t->decays[cell % t->n],
                        .perplexity = p.mean,
                        .error = p.error,
                        .qk_rank = seen_of(t, cell, QK_RANK).mean,
                        .ov_rank = seen_of(t, cell, OV_RANK).mean,
                        .runs = t->grid.seeds,
                        .diverged = rs_lab_grid_diverged(&t->grid, cell)};
        for (int s = 0; s < t->grid.seeds; s++)
            c.loss += loss_of(t, cell, s) / t->grid.seeds;
        RS_TRY(rs_table_append(table, &c, err));
    }
    return RS_OK;
}

static const rs_column shown[SEEN] = {
    RS_LAB_SEEN(QK_RANK, "qk_pseudo_rank", "pseudo-rank, query-key",
                "at the end, mean over layers and heads"),
    RS_LAB_SEEN(OV_RANK, "ov_pseudo_rank", "pseudo-rank, value-output", "the same"),
    RS_LAB_SEEN(UNIGRAM, "unigram", "single letters", "entropy of how often they come"),
    RS_LAB_SEEN(SOURCE, "source", "the source", "entropy of its next letter; null of a text"),
};
const rs_table_kind rs_lab_table1_runs_kind = {
    "lab",
    "kobayashi_table1_runs",
    {{rs_lab_run_columns, RS_LAB_RUN_COLUMNS, NULL}, RS_PART(shown)}};

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X("attention_decay", "decay of attention", "of W_Q, W_K, W_V, W_O"),
    RS_LAB_Y("perplexity", "perplexity",
             "exp(loss) on data of its own at the end: mean over seeds, and that with twice its "
             "standard error"));
static const rs_table_kind table_kind = {"lab", "kobayashi_table1_small", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Perplexity by decay of attention and of MLPs",
    .about = "The perplexity of a small language model by the decay of its attention, a curve for "
             "each decay of its MLPs, mean over seeds; bars of twice the standard error are curves "
             "of their own.",
};

static rs_status draw(rs_lab_report *report, const table1 *t, rs_error *err)
{
    static const double bars[] = {0, 2, -2};
    static const char *const names[] = {"MLP %g", "MLP %g, above", "MLP %g, below"};
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int mlp = 0; mlp < t->n; mlp++)
        for (int bar = 0; bar < 3; bar++)
            for (int attention = 0; attention < t->n; attention++) {
                const rs_lab_spread p = perplexity_of(t, cell_of(t, attention, mlp));
                char series[40];
                if (bar > 0 && isinf(p.error)) continue;
                snprintf(series, sizeof series, names[bar], t->decays[mlp]);
                RS_TRY(rs_lab_curves_add(table, series, t->decays[attention],
                                         p.mean + (bar > 0 ? bars[bar] * p.error : 0), err));
            }
    return RS_OK;
}

/* ---- claims ---- */

/* Chosen by the other seeds, judged on this one, so that the best of many gains nothing by being
 * picked. */
static rs_status claim_decoupling(rs_lab_report *report, const table1 *t, rs_error *err)
{
    double by[SEEDS];
    for (int s = 0; s < t->grid.seeds; s++) {
        int without = t->grid.seeds > 1 ? s : -1;
        by[s] = exp(loss_of(t, best_cell(t, true, without), s)) -
                exp(loss_of(t, best_cell(t, false, without), s));
    }
    const rs_lab_spread d = rs_lab_spread_of(by, t->grid.seeds);
    return rs_lab_order_published(
        report, "perplexity gained by decays that may differ, both chosen by the other seeds",
        d.mean, rs_lab_order_error(d), err);
}

/* The same MLP decay as the best of equal ones, and none on attention. */
static rs_status claim_omitting(rs_lab_report *report, const table1 *t, rs_error *err)
{
    double by[SEEDS];
    char text[160];
    int equal = best_cell(t, true, -1) / t->n;
    for (int s = 0; s < t->grid.seeds; s++)
        by[s] =
            exp(loss_of(t, cell_of(t, equal, equal), s)) - exp(loss_of(t, cell_of(t, 0, equal), s));
    const rs_lab_spread d = rs_lab_spread_of(by, t->grid.seeds);
    snprintf(text, sizeof text,
             "decay %g of both, the best equal one: perplexity gained without "
             "that of attention",
             t->decays[equal]);
    return rs_lab_order_published(report, text, d.mean, rs_lab_order_error(d), err);
}

/* Over all decays of MLPs: the largest decay of attention against none, of seeds at which no run of
 * either diverged. */
static rs_status claim_rank(rs_lab_report *report, const table1 *t, int what, const char *product,
                            rs_error *err)
{
    double by[SEEDS];
    char text[160];
    int n = 0;
    snprintf(text, sizeof text, "%s: pseudo-rank that decay %g of attention takes", product,
             t->decays[t->n - 1]);
    for (int s = 0; s < t->grid.seeds; s++) {
        by[n] = 0;
        for (int mlp = 0; mlp < t->n; mlp++)
            by[n] += (rs_lab_grid_run(&t->grid, cell_of(t, 0, mlp), 0, s)->seen[what] -
                      rs_lab_grid_run(&t->grid, cell_of(t, t->n - 1, mlp), 0, s)->seen[what]) /
                     t->n;
        n += !isnan(by[n]);
    }
    const rs_lab_claim absent = {text, NAN, NAN, NAN, NAN, false, false};
    if (n == 0) return rs_lab_skip_claim(report, &absent, "every seed diverged", err);
    const rs_lab_spread d = rs_lab_spread_of(by, n);
    return rs_lab_order_published(report, text, d.mean, rs_lab_order_error(d), err);
}

/* Every run knows more than how often letters come, and none more than can be known. */
static rs_status claim_learning(rs_lab_report *report, const table1 *t, rs_error *err)
{
    static const char known[] = "what a reader of the source knows over the least loss of all runs";
    double worst = 0, best = 0, diverged = 0;
    bool made = true; /* the source is known, and so what a run's samples can tell */
    for (int cell = 0; cell < t->n * t->n; cell++) {
        diverged += rs_lab_grid_diverged(&t->grid, cell);
        for (int s = 0; s < t->grid.seeds; s++) {
            const rs_grid_run *run = rs_lab_grid_run(&t->grid, cell, 0, s);
            if (!isnan(run->diverged)) continue;
            worst = fmax(worst, loss_of(t, cell, s) / run->seen[UNIGRAM]);
            best = fmax(best, run->seen[SOURCE] / loss_of(t, cell, s));
            made = made && !isnan(run->seen[SOURCE]);
        }
    }
    bool own = t->grid.data == 0;
    RS_TRY(rs_lab_at_most_where(report, own, "runs that diverged", diverged, 0, err));
    RS_TRY(rs_lab_at_most_where(report, own, "loss over that of letters by themselves, worst run",
                                worst, 1, err));
    const rs_lab_claim claim = {known, NAN, NAN, best, 1, true, false};
    return made ? rs_lab_add_claim(report, &claim, err)
                : rs_lab_skip_claim(report, &claim, "nobody knows what made this text", err);
}

static rs_status claim_all(rs_lab_report *report, const table1 *t, rs_error *err)
{
    RS_TRY(claim_learning(report, t, err));
    if (t->n < DECAYS) return RS_OK; /* --quick: one seed shows no order */
    RS_TRY(claim_decoupling(report, t, err));
    RS_TRY(claim_omitting(report, t, err));
    RS_TRY(claim_rank(report, t, QK_RANK, "query-key", err));
    return claim_rank(report, t, OV_RANK, "value-output", err);
}

/* ---- the whole ---- */

static rs_status report_all(rs_lab_report *report, const table1 *t, bool quick, rs_error *err)
{
    RS_TRY(draw(report, t, err));
    RS_TRY(add_cells(report, t, err));
    RS_TRY(rs_lab_grid_table(report, &t->grid, rs_lab_table1_runs_kind.name, 1, err));
    RS_TRY(claim_all(report, t, err));
    return rs_lab_say_runs(report, 1, &t->grid, 0, quick, SEEDS, err);
}

static rs_status run_kobayashi_table1_small(rs_lab_report *report, const rs_lab_options *options,
                                            const rs_context *context, rs_error *err)
{
    bool quick = options->quick;
    char *task = NULL;
    table1 t = {.decays = quick ? quick_decays : decays, .n = quick ? QUICK_DECAYS : DECAYS};
    RS_TRY(rs_lab_language(&task, options->data, err));
    t.grid = (rs_lab_grid){.experiment = report->experiment,
                           .kept = options->kept,
                           .data = options->data ? options->data->text_print : 0,
                           .task = task,
                           .model = "'depth': 2, 'd_model': 48, 'heads': 2, 'mlp_width': 96",
                           .recipes = quick ? quick_cells : cells,
                           .n_recipes = t.n * t.n,
                           .seeds = rs_lab_seeds(options, SEEDS),
                           .steps = quick ? QUICK_STEPS : STEPS,
                           .every = EVERY,
                           .n_seen = SEEN,
                           .shown = shown,
                           .n_shown = SEEN,
                           .see = see};
    rs_status status = rs_lab_grid_train(&t.grid, context, err);
    if (status == RS_OK) status = report_all(report, &t, quick, err);
    rs_lab_grid_close(&t.grid);
    rs_free(task);
    if (status != RS_OK) return status;
    if (!quick) return rs_lab_say_seeds(report, t.grid.seeds, SEEDS, err);
    return rs_lab_say_quick(report,
                            "4 of 16 pairs of decays, 1 seed of 5, 250 steps of 2000, and no "
                            "orders",
                            err);
}

const rs_lab_experiment rs_lab_kobayashi_table1_small = {
    "kobayashi-table1-small",
    "Perplexity by decay of attention and MLP",
    "Kobayashi et al. 2024, table 1",
    "A small language model learns a source with copies from far back, or the text that --data "
    "names, under decays 0 to 1 of its attention and 0 to 1 of its MLPs, all pairs, five seeds: "
    "what is gained where the two may differ. After Kobayashi, Akram, von Oswald, NeurIPS 2024 "
    "(arXiv 2410.23819).",
    run_kobayashi_table1_small,
    "800 s",
    "6 s",
    &table_kind,
    0};
