/*
 * kobayashi_fig3.c: figure 3 of Kobayashi, Akram, von Oswald (NeurIPS 2024, arXiv 2410.23819) at the
 * size of a toy: the rank of head products, layer by layer, in a language model and in a vision
 * transformer by the weight decay of their attention, all else decaying alike.
 */
#include "lab/language.h"
#include "lab/runs.h"
#include "lab/toy.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DECAYS = 4, QUICK_DECAYS = 2, SEEDS = 3, LAYERS = 4, PRODUCTS = 2, MEASURES = 2 };
enum { PLACES = LAYERS * PRODUCTS * MEASURES, EVERY = 250, QUICK_STEPS = 100 };

static const double decays[DECAYS] = {0, 0.1, 0.3, 1}, quick_decays[QUICK_DECAYS] = {0, 1};
static const char *const product_names[PRODUCTS] = {"query-key", "value-output"},
                         *const measure_names[MEASURES] = {"pseudo-rank", "effective rank"};

#define DECAY(decay)                                                                               \
    {                                                                                              \
        "decay " decay, "", RS_LANGUAGE_DECAYS(decay, "0.1"), "",                                  \
        {                                                                                          \
            2e-3                                                                                   \
        }                                                                                          \
    }
static const rs_lab_recipe recipes[DECAYS] = {DECAY("0"), DECAY("0.1"), DECAY("0.3"), DECAY("1")},
                           quick_recipes[QUICK_DECAYS] = {DECAY("0"), DECAY("1")};

/* ---- what is seen of a run ---- */

static int place_of(int layer, int product, int measure)
{
    return (layer * PRODUCTS + product) * MEASURES + measure;
}

/* Means over heads at the end. */
static void see(rs_grid_run *run, const rs_result *result)
{
    static const char *const columns[MEASURES] = {"pseudo_rank", "effective_rank"};
    const rs_table *ranks = rs_result_table(result, "ranks");
    size_t rows = ranks ? rs_table_rows(ranks) : 0;
    double sum[PLACES] = {0}, n[PLACES] = {0};
    double last = rows > 0 ? rs_lab_cell(ranks, rows - 1, "step") : 0;
    for (size_t i = 0; i < rows; i++) {
        int layer = (int)rs_lab_cell(ranks, i, "layer");
        int product = strcmp(rs_lab_cell_text(ranks, i, "product"), "ov") == 0;
        if (rs_lab_cell(ranks, i, "step") < last || layer >= LAYERS) continue;
        for (int m = 0; m < MEASURES; m++) {
            int at = place_of(layer, product, m);
            sum[at] += rs_lab_cell(ranks, i, columns[m]);
            n[at]++;
        }
    }
    for (int k = 0; k < PLACES; k++)
        run->seen[k] = sum[k] / n[k];
}

/* ---- the two models ---- */

typedef struct model {
    const char *name, *fields;
    int steps;
    bool there; /* its data are */
    char *task;
    rs_lab_grid grid;
} model;
enum { LANGUAGE, VISION, MODELS };

static rs_status write_images(char **out, const rs_lab_data *data, rs_error *err)
{
    size_t x = 6 * strlen(data->x) + 9, y = 6 * strlen(data->y) + 9, size = x + y + 300;
    char *quoted = rs_malloc(x + y, 1);
    *out = rs_malloc(size, 1);
    if (!quoted || !*out) {
        rs_free(quoted);
        return rs_fail_memory(err, "a task", size);
    }
    (void)rs_lab_data_quote(quoted, x, data->x);
    (void)rs_lab_data_quote(quoted + x, y, data->y);
    snprintf(*out, size,
             "'task': 'image', 'data': {'x': '%s', 'y': '%s', 'patch': 2, 'shuffle': true, "
             "'eval_share': 0.2}, 'batch': 32, 'schedule': {'kind': 'cosine', 'warmup': 100, "
             "'last': 0.1}",
             quoted, quoted + x);
    rs_free(quoted);
    return RS_OK;
}

static rs_status open_model(model *m, int which, const rs_lab_report *report,
                            const rs_lab_options *options, rs_error *err)
{
    static const struct {
        const char *name, *fields;
        int steps;
    } of[MODELS] = {
        {"language", "'depth': 4, 'd_model': 48, 'heads': 4, 'mlp_width': 96", 1500},
        {"vision", "'depth': 4, 'd_model': 48, 'heads': 4, 'mlp_width': 96", 1500},
    };
    const rs_lab_data *data = options->data;
    *m = (model){.name = of[which].name, .there = which == LANGUAGE || (data && data->x)};
    if (!m->there) return RS_OK;
    RS_TRY(which == LANGUAGE ? rs_lab_language(&m->task, data, err)
                             : write_images(&m->task, data, err));
    m->grid = (rs_lab_grid){.experiment = report->experiment,
                            .kept = options->kept,
                            .data = !data               ? 0
                                    : which == LANGUAGE ? data->text_print
                                                        : data->images_print,
                            .task = m->task,
                            .model = of[which].fields,
                            .recipes = options->quick ? quick_recipes : recipes,
                            .n_recipes = options->quick ? QUICK_DECAYS : DECAYS,
                            .seeds = rs_lab_seeds(options, SEEDS),
                            .steps = options->quick ? QUICK_STEPS : of[which].steps,
                            .every = options->quick ? QUICK_STEPS : EVERY,
                            .n_seen = PLACES,
                            .see = see};
    return RS_OK;
}

static void close_model(model *m)
{
    rs_lab_grid_close(&m->grid);
    rs_free(m->task);
}

static const double *decays_of(const model *m)
{
    return m->grid.n_recipes == DECAYS ? decays : quick_decays;
}

/* A number over those seeds that did not diverge; *n gains how many these are. */
static rs_lab_spread place_spread(const model *m, int decay, int place, int *n)
{
    double values[SEEDS];
    *n = 0;
    for (int s = 0; s < m->grid.seeds; s++) {
        const rs_grid_run *run = rs_lab_grid_run(&m->grid, decay, 0, s);
        if (isnan(run->diverged)) values[(*n)++] = run->seen[place];
    }
    return *n > 0 ? rs_lab_spread_of(values, *n) : (rs_lab_spread){NAN, NAN, 0};
}

/* ---- tables and the figure ---- */

typedef struct layer_cells {
    const char *model, *product;
    double decay, pseudo, pseudo_error, effective, effective_error;
    int64_t layer, seed, runs, diverged;
} layer_cells;

#define COLUMN(member, name, title, formula)                                                       \
    RS_COLUMN(layer_cells, member, name, title, NULL, formula, "measured")
static const rs_column layer_columns[] = {
    RS_COLUMN(layer_cells, model, "model", "model", NULL, "language or vision", NULL),
    RS_COLUMN(layer_cells, product, "product", "product", NULL, "query-key or value-output", NULL),
    RS_COLUMN(layer_cells, decay, "decay", "decay", NULL, "of attention's maps", NULL),
    RS_COLUMN(layer_cells, layer, "layer", "layer", NULL, "from 0", NULL),
    COLUMN(pseudo, "pseudo_rank", "pseudo-rank",
           "singular values that hold 95 % of their sum over the head's width, at the end, mean "
           "over heads and seeds"),
    COLUMN(pseudo_error, "pseudo_rank_error", "its error", "standard error over seeds"),
    COLUMN(effective, "effective_rank", "effective rank", "the same mean"),
    COLUMN(effective_error, "effective_rank_error", "its error", "standard error over seeds"),
    RS_COLUMN(layer_cells, runs, "runs", "runs", NULL, "a seed each", NULL),
    COLUMN(diverged, "diverged", "diverged",
           "of them: the loss or a gradient was no number; the means are of the others"),
};
const rs_table_kind rs_lab_fig3_layers_kind = {
    "lab", "kobayashi_fig3_layers", {RS_PART(layer_columns)}};

/* The same numbers, run by run: what differences are made of. */
static const rs_column seed_columns[] = {
    RS_COLUMN(layer_cells, model, "model", "model", NULL, "language or vision", NULL),
    RS_COLUMN(layer_cells, product, "product", "product", NULL, "query-key or value-output", NULL),
    RS_COLUMN(layer_cells, decay, "decay", "decay", NULL, "of attention's maps", NULL),
    RS_COLUMN(layer_cells, layer, "layer", "layer", NULL, "from 0", NULL),
    RS_COLUMN(layer_cells, seed, "seed", "seed", NULL, "of weights and data, from --seed on", NULL),
    COLUMN(pseudo, "pseudo_rank", "pseudo-rank", "at the end, mean over heads; null: it diverged"),
    COLUMN(effective, "effective_rank", "effective rank", "the same mean"),
};
const rs_table_kind rs_lab_fig3_seeds_kind = {
    "lab", "kobayashi_fig3_seeds", {RS_PART(seed_columns)}};

static rs_status add_row(rs_table *table, const model *m, int decay, int product, int layer,
                         rs_error *err)
{
    int n = 0;
    const rs_lab_spread p = place_spread(m, decay, place_of(layer, product, 0), &n),
                        e = place_spread(m, decay, place_of(layer, product, 1), &n);
    const layer_cells cells = {.model = m->name,
                               .product = product_names[product],
                               .decay = decays_of(m)[decay],
                               .layer = layer,
                               .pseudo = p.mean,
                               .pseudo_error = p.error,
                               .effective = e.mean,
                               .effective_error = e.error,
                               .runs = m->grid.seeds,
                               .diverged = rs_lab_grid_diverged(&m->grid, decay)};
    return rs_table_append(table, &cells, err);
}

static rs_status add_layers(rs_lab_report *report, const model *models, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(
        report->result, rs_lab_fig3_layers_kind.name, "Ranks by layer",
        "Of head products at the end of training, by the decay of attention; "
        "all else decays by 0.1, norms by 0.",
        layer_columns, sizeof layer_columns / sizeof *layer_columns, &table, err));
    for (int k = 0; k < MODELS * PRODUCTS; k++) {
        const model *m = &models[k / PRODUCTS];
        for (int decay = 0; m->there && decay < m->grid.n_recipes; decay++)
            for (int layer = 0; layer < LAYERS; layer++)
                RS_TRY(add_row(table, m, decay, k % PRODUCTS, layer, err));
    }
    return RS_OK;
}

static rs_status add_seeds(rs_lab_report *report, const model *models, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(report->result, rs_lab_fig3_seeds_kind.name,
                               "Ranks by layer and seed", "Of each run, at its end.", seed_columns,
                               sizeof seed_columns / sizeof *seed_columns, &table, err));
    for (int k = 0; k < MODELS * PRODUCTS * LAYERS; k++) {
        const model *m = &models[k / LAYERS / PRODUCTS];
        int product = k / LAYERS % PRODUCTS, layer = k % LAYERS;
        for (int i = 0; m->there && i < m->grid.n_recipes * m->grid.seeds; i++) {
            int decay = i / m->grid.seeds, seed = i % m->grid.seeds;
            const double *of = rs_lab_grid_run(&m->grid, decay, 0, seed)->seen;
            const layer_cells cells = {.model = m->name,
                                       .product = product_names[product],
                                       .decay = decays_of(m)[decay],
                                       .layer = layer,
                                       .seed = seed,
                                       .pseudo = of[place_of(layer, product, 0)],
                                       .effective = of[place_of(layer, product, 1)]};
            RS_TRY(rs_table_append(table, &cells, err));
        }
    }
    return RS_OK;
}

const rs_table_kind rs_lab_fig3_runs_kind = {
    "lab", "kobayashi_fig3_runs", {{rs_lab_run_columns, RS_LAB_RUN_COLUMNS, NULL}}};
const rs_table_kind rs_lab_fig3_vision_runs_kind = {
    "lab", "kobayashi_fig3_vision_runs", {{rs_lab_run_columns, RS_LAB_RUN_COLUMNS, NULL}}};

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_WHOLE("layer", "layer", "from 0"),
    RS_LAB_Y("pseudo_rank", "pseudo-rank",
             "singular values that hold 95 % of their sum over the head's width, mean over heads "
             "and seeds"));
static const rs_table_kind table_kind = {"lab", "kobayashi_fig3", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Ranks of attention by layer and decay",
    .about =
        "The pseudo-rank of head products at the end of training, layer by layer, by the decay "
        "of attention, mean over heads and seeds.",
};

static rs_status draw(rs_lab_report *report, const model *models, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int k = 0; k < MODELS * PRODUCTS; k++) {
        const model *m = &models[k / PRODUCTS];
        for (int decay = 0; m->there && decay < m->grid.n_recipes; decay++)
            for (int layer = 0; layer < LAYERS; layer++) {
                char series[80];
                int n = 0;
                const rs_lab_spread p =
                    place_spread(m, decay, place_of(layer, k % PRODUCTS, 0), &n);
                snprintf(series, sizeof series, "%s, %s, decay %g", m->name,
                         product_names[k % PRODUCTS], decays_of(m)[decay]);
                if (n > 0) RS_TRY(rs_lab_curves_add(table, series, layer, p.mean, err));
            }
    }
    return RS_OK;
}

/* ---- claims ---- */

/* The mean over layers that decay takes from a seed's run without any. */
static double taken(const model *m, int decay, int seed, int product, int measure)
{
    double sum = 0;
    for (int layer = 0; layer < LAYERS; layer++) {
        int at = place_of(layer, product, measure);
        sum += (rs_lab_grid_run(&m->grid, 0, 0, seed)->seen[at] -
                rs_lab_grid_run(&m->grid, decay, 0, seed)->seen[at]) /
               LAYERS;
    }
    return sum;
}

/* Of seeds at which neither run diverged. */
static rs_status claim_taken(rs_lab_report *report, const model *m, int decay, int product,
                             int measure, rs_error *err)
{
    double by[SEEDS];
    char text[160];
    int n = 0;
    snprintf(text, sizeof text, "%s, %s: %s that decay %g takes, mean of layers", m->name,
             product_names[product], measure_names[measure],
             m->there ? decays_of(m)[decay] : decays[decay]);
    const rs_lab_claim absent = {text, NAN, NAN, NAN, NAN, false, false};
    if (!m->there)
        return rs_lab_skip_claim(report, &absent, "no images: --data NAMEx.npy has them", err);
    for (int s = 0; s < m->grid.seeds; s++)
        if (isnan(rs_lab_grid_run(&m->grid, 0, 0, s)->diverged) &&
            isnan(rs_lab_grid_run(&m->grid, decay, 0, s)->diverged))
            by[n++] = taken(m, decay, s, product, measure);
    if (n == 0) return rs_lab_skip_claim(report, &absent, "every seed diverged", err);
    const rs_lab_spread d = rs_lab_spread_of(by, n);
    return rs_lab_order_published(report, text, d.mean, rs_lab_order_error(d), err);
}

static rs_status claim_model(rs_lab_report *report, const model *m, bool quick, rs_error *err)
{
    for (int decay = 1; decay < (quick ? QUICK_DECAYS : DECAYS); decay++)
        for (int k = 0; k < PRODUCTS * MEASURES; k++)
            RS_TRY(claim_taken(report, m, decay, k / MEASURES, k % MEASURES, err));
    return RS_OK;
}

/* Of all runs the largest loss on data of its own over the first one: all have learnt. */
static rs_status claim_learning(rs_lab_report *report, const model *m, rs_error *err)
{
    char text[120];
    double worst = 0, diverged = 0;
    for (int decay = 0; decay < m->grid.n_recipes; decay++) {
        diverged += rs_lab_grid_diverged(&m->grid, decay);
        for (int s = 0; s < m->grid.seeds; s++) {
            const rs_grid_run *run = rs_lab_grid_run(&m->grid, decay, 0, s);
            if (isnan(run->diverged)) worst = fmax(worst, run->eval_loss / run->loss[0]);
        }
    }
    snprintf(text, sizeof text, "%s: runs that diverged", m->name);
    RS_TRY(rs_lab_at_most_where(report, m->grid.data == 0, text, diverged, 0, err));
    snprintf(text, sizeof text, "%s: loss at the end over that at the start, worst run", m->name);
    return rs_lab_at_most_where(report, m->grid.data == 0, text, worst, 0.8, err);
}

/* ---- the whole ---- */

static rs_status report_model(rs_lab_report *report, const model *m, const rs_lab_options *options,
                              const char *runs, rs_error *err)
{
    if (m->there) {
        RS_TRY(rs_lab_grid_table(report, &m->grid, runs, 1, err));
        RS_TRY(claim_learning(report, m, err));
    }
    bool one_seed = m->there && options->quick; /* which shows no order */
    return one_seed ? RS_OK : claim_model(report, m, options->quick, err);
}

static rs_status report_all(rs_lab_report *report, const model *models,
                            const rs_lab_options *options, rs_error *err)
{
    RS_TRY(draw(report, models, err));
    RS_TRY(add_layers(report, models, err));
    RS_TRY(add_seeds(report, models, err));
    RS_TRY(report_model(report, &models[LANGUAGE], options, rs_lab_fig3_runs_kind.name, err));
    return report_model(report, &models[VISION], options, rs_lab_fig3_vision_runs_kind.name, err);
}

static rs_status run_kobayashi_fig3(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    model models[MODELS] = {{0}};
    rs_status status = RS_OK;
    for (int k = 0; k < MODELS && status == RS_OK; k++) { /* wrong data are told before training */
        status = open_model(&models[k], k, report, options, err);
        if (status == RS_OK) status = rs_lab_grid_try(&models[k].grid, context, err);
    }
    for (int k = 0; k < MODELS && status == RS_OK; k++)
        if (models[k].there) status = rs_lab_grid_train(&models[k].grid, context, err);
    if (status == RS_OK) status = report_all(report, models, options, err);
    if (status == RS_OK)
        status = rs_lab_say_runs(report, MODELS, &models->grid, sizeof *models, options->quick,
                                 SEEDS, err);
    int seeds = models[LANGUAGE].grid.seeds;
    for (int k = 0; k < MODELS; k++)
        close_model(&models[k]);
    if (status != RS_OK) return status;
    if (!options->quick) return rs_lab_say_seeds(report, seeds, SEEDS, err);
    return rs_lab_say_quick(report, "2 of 4 decays, 1 seed of 3, 100 steps of 1500, and no orders",
                            err);
}

const rs_lab_experiment rs_lab_kobayashi_fig3 = {
    "kobayashi-fig3",
    "Ranks of attention by layer and decay",
    "Kobayashi et al. 2024, figure 3",
    "Four layers learn a source with copies from far back, or the text that --data names, under "
    "decay 0 to 1 of their attention, three seeds; and the images that --data names: the rank of "
    "head products layer by layer. After Kobayashi, Akram, von Oswald, NeurIPS 2024 (arXiv "
    "2410.23819).",
    run_kobayashi_fig3,
    "240 s",
    "4 s",
    &table_kind,
    0};
