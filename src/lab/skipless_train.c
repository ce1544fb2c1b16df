/*
 * skipless_train.c: blocks without skips that learn a language of characters beside pre-norm: SAS and SAS-P
 * (He and Hofmann 2023, arXiv 2311.01906), value-skipinit and E-SPA (He, Martens, Zhang, Botev, Brock,
 * Smith, Teh 2023, arXiv 2302.10322), and skipless blocks as they are. docs/theory/mean_field.md, 9, has
 * the kernels of E-SPA.
 */
#include "lab/losses.h"

#include "predict/kept_signal.h"

#include <math.h>
#include <stdio.h>

enum { PRE, PLAIN, SAS, SAS_P, SKIPINIT, ESPA, RECIPES };
enum { DEPTH = 8, LENGTH = 32, HEADS = 2, STEPS = 800, QUICK_STEPS = 150, EVERY = 25 };
enum { LOGS = STEPS / EVERY + 1 };
enum { EXCESS, RESIDUAL, SEEN }; /* what is seen of a run at its end */
static const double near = 0.05, last_rate = 0.2;

#define SIMPLE                                                                                     \
    ", 'attention': 'shaped', 'skip_mixer': 0, 'branch_mlp': '1/sqrt(L)',"                         \
    " 'init': {'wq': 'zero', 'wv': 'identity', 'wo': 'identity'}"
#define TRAINED ", 'trainable': ['shaped']"
#define NO_SKIPS ", 'skip_mixer': 0, 'skip_mlp': 0"
#define RATES                                                                                      \
    {                                                                                              \
        3e-4, 1e-3, 3e-3, 1e-2                                                                     \
    }
#define SHAPED(label, fields, ...)                                                                 \
    {                                                                                              \
        label, fields, ", 'weight_decay': {'default': 0.1, 'norm': 0, 'strength': 0}", TRAINED,    \
            __VA_ARGS__                                                                            \
    }
static const char espa[] = "E-SPA";
static const rs_lab_recipe recipes[RECIPES] = {
    {"pre-norm", "", "", "", RATES},
    {"skipless", NO_SKIPS, "", "", RATES},
    SHAPED("SAS", SIMPLE, RATES),
    SHAPED("SAS-P", SIMPLE ", 'block': 'parallel'", RATES),
    SHAPED("value-skipinit", ", 'attention': 'shaped', 'shaped': [1, 0, 0], 'skip_mixer': 0",
           RATES),
    {espa,
     NO_SKIPS ", 'positions': 'relative', 'init': {'wq': 'zero', 'wv': 'orthogonal', "
              "'wo': 'orthogonal', 'w1': 'orthogonal', 'w2': 'orthogonal'}",
     ", 'frozen': ['distance_bias']", "", RATES},
};
static const rs_lab_recipe quick_recipes[] = {
    {"pre-norm", "", "", "", {1e-2}},
    {"skipless", NO_SKIPS, "", "", {1e-2}},
    SHAPED("SAS", SIMPLE, {1e-2}),
};

/* ---- E-SPA ---- */

/* Logits by distance: those of a row of E-SPA's attention far from where the text begins (its first
 * column alone is other). A softmax takes the row's sum away, the norm behind it would, too. */
static void fill_distances(float *bias, int32_t layer)
{
    enum { N = LENGTH + 1, WIDE = 2 * LENGTH - 1 };
    double a[N * N];
    double from = layer == 1 ? (double)INFINITY : rs_espa_rate(layer - 1, DEPTH, last_rate);
    (void)rs_espa_attention(a, N, from, rs_espa_rate(layer, DEPTH, last_rate));
    for (int h = 0; h < HEADS; h++)
        for (int k = 0; k < LENGTH; k++)
            bias[h * WIDE + LENGTH - 1 + k] = (float)log(a[LENGTH * N + LENGTH - k]);
}

static rs_status start_espa(void *user, rs_learner *learner, rs_error *err)
{
    (void)user;
    for (int layer = 0; layer < DEPTH; layer++) {
        char name[48];
        snprintf(name, sizeof name, "layers.%d.mixer.distance_bias", layer);
        float *bias = rs_lab_weight(learner, name);
        if (!bias) return rs_fail(err, RS_E_INTERNAL, name, NULL, "there is no such weight");
        fill_distances(bias, layer + 1);
    }
    return RS_OK;
}

static const rs_lab_prepare *prepare(const rs_lab_recipe *recipe)
{
    static const rs_lab_prepare start = {NULL, start_espa};
    return recipe->name == espa ? &start : NULL;
}

/* ---- tables and the figure ---- */

static void see(rs_grid_run *run, const rs_result *result)
{
    double residual[LOGS];
    for (int i = 0; i < LOGS; i++)
        residual[i] = NAN;
    rs_lab_last_layer(residual, LOGS, result, "relative_residual");
    run->seen[EXCESS] = run->eval_loss - rs_lab_mark(result, "unigram entropy");
    run->seen[RESIDUAL] = residual[run->logs - 1];
}

const rs_table_kind rs_lab_skipless_ways_kind = {
    "lab", "skipless_train_ways", {{rs_loss_columns, RS_LOSS_COLUMNS, NULL}}};
static const rs_column shown[SEEN] = {
    RS_LAB_SEEN(EXCESS, "excess", "beyond single letters", "eval_loss less the unigram entropy"),
    RS_LAB_SEEN(RESIDUAL, "residual", "residual at the end",
                "relative_residual of the tokens behind the last layer"),
};
const rs_table_kind rs_lab_skipless_runs_kind = {
    "lab", "skipless_train_runs", {{rs_lab_run_columns, RS_LAB_RUN_COLUMNS, NULL}, RS_PART(shown)}};

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps that were made"),
                  RS_LAB_Y("loss", "loss (nats)", "running mean, mean over seeds"));
static const rs_table_kind table_kind = {"lab", "skipless_train", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Eight blocks without skips, and pre-norm",
    .about = "The loss while a small model of characters learns, each way at the best of its "
             "learning rates, mean over seeds.",
};

static rs_status draw(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int r = 0; r < all->grid.n_recipes; r++)
        RS_TRY(rs_losses_draw(table, all, r, err));
    return RS_OK;
}

/* ---- claims ---- */

/* How far the loss of skipless blocks is from the entropy of single characters (how far below, in a text
 * whose end may be of other characters), and the largest residual: of all their runs, at every rate. */
static void see_plain(double *apart, double *residual, const rs_lab_grid *grid)
{
    *apart = *residual = 0;
    for (int rate = 0; rate < rs_lab_grid_rates(grid, PLAIN); rate++)
        for (int s = 0; s < grid->seeds; s++) {
            const rs_grid_run *run = rs_lab_grid_run(grid, PLAIN, rate, s);
            if (!isnan(run->diverged)) continue;
            double excess = run->seen[EXCESS];
            *apart = fmax(*apart, grid->data ? -excess : fabs(excess));
            *residual = fmax(*residual, run->seen[RESIDUAL]);
        }
}

/* Of a text both are what was published of such blocks, that they do not train. That tokens are equal at the end
 * is so of every source: in one whose letters are mostly the same one, small rates leave them apart. */
static rs_status claim_plain(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    double apart, residual;
    bool known = all->grid.data == 0;
    see_plain(&apart, &residual, &all->grid);
    RS_TRY(rs_lab_at_most_where(report, known,
                                known ? "skipless: loss beside the unigram entropy, nats, worst run"
                                      : "skipless: loss below the unigram entropy, nats, worst run",
                                apart, near, err));
    return rs_lab_at_most_where(report, false,
                                "skipless: relative residual behind 8 layers, worst run", residual,
                                near, err);
}

/* Published: as good as pre-norm. */
static rs_status claim_equal(rs_lab_report *report, const rs_losses *all, int recipe, rs_error *err)
{
    char text[120];
    snprintf(text, sizeof text, "%s: loss over that of pre-norm", all->grid.recipes[recipe].name);
    const rs_lab_claim claim = {text, 1,     NAN,  all->way[recipe].of.mean / all->way[PRE].of.mean,
                                0.05, false, false};
    bool nothing = all->way[PRE].of.mean == 0; /* a text of one character */
    return nothing ? rs_lab_skip_claim(report, &claim, "pre-norm leaves no loss at all", err)
                   : rs_lab_add_claim(report, &claim, err);
}

/* Published: SAS, SAS-P and value-skipinit come near pre-norm; E-SPA learns, more slowly. */
static rs_status claim_ways(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    RS_TRY(claim_equal(report, all, SAS, err));
    if (all->grid.n_recipes < RECIPES) return RS_OK;
    RS_TRY(claim_equal(report, all, SAS_P, err));
    RS_TRY(claim_equal(report, all, SKIPINIT, err));
    RS_TRY(rs_losses_order(report, all, "skipless ends with more loss than E-SPA, by", PLAIN, ESPA,
                           err));
    RS_TRY(rs_losses_order(report, all, "E-SPA ends with more loss than pre-norm, by", ESPA, PRE,
                           err));
    RS_TRY(rs_losses_between(report, all, SKIPINIT, SAS, err));
    return rs_losses_between(report, all, SAS_P, SAS, err);
}

/* ---- the whole ---- */

static rs_status report_all(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    RS_TRY(draw(report, all, err));
    RS_TRY(rs_losses_table(report, all, rs_lab_skipless_ways_kind.name, err));
    RS_TRY(rs_lab_grid_table(report, &all->grid, rs_lab_skipless_runs_kind.name, NAN, err));
    RS_TRY(claim_plain(report, all, err));
    return claim_ways(report, all, err);
}

static rs_status write_data(char *out, size_t size, const char *text, rs_error *err)
{
    char quoted[4000];
    if (!text) {
        snprintf(out, size,
                 "'task': 'markov', 'batch': 16, 'data': {'length': %d, 'symbols': 32,"
                 " 'eval': 256}",
                 LENGTH);
        return RS_OK;
    }
    if (!rs_lab_data_quote(quoted, sizeof quoted, text))
        return rs_fail(err, RS_E_USAGE, "data", "give it a shorter path",
                       "the path has more than %zu bytes", sizeof quoted / 6);
    snprintf(out, size,
             "'task': 'char-lm', 'batch': 16, 'data': {'text': '%s', 'length': %d},"
             " 'schedule': {'kind': 'constant', 'warmup': 50}",
             quoted, LENGTH);
    return RS_OK;
}

static rs_status run_skipless_train(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    bool quick = options->quick;
    char data[4200];
    const char *text = options->data ? options->data->text : NULL;
    rs_losses all = {.lost = NAN, .unit = 1};
    RS_TRY(write_data(data, sizeof data, text, err));
    all.grid = (rs_lab_grid){
        .experiment = report->experiment,
        .kept = options->kept,
        .data = text ? options->data->text_print : 0,
        .task = data,
        .model = "'depth': 8, 'd_model': 32, 'heads': 2, 'mask': 'causal', 'norm': 'pre',"
                 " 'norm_affine': 'gain', 'mlp': 'gelu', 'mlp_width': 64",
        .recipes = quick ? quick_recipes : recipes,
        .prepare = prepare,
        .n_recipes = quick ? 3 : RECIPES,
        .seeds = rs_lab_seeds(options, RS_LOSS_SEEDS),
        .steps = quick ? QUICK_STEPS : STEPS,
        .every = EVERY,
        .n_seen = SEEN,
        .shown = shown,
        .n_shown = SEEN,
        .see = see};
    return rs_losses_run(&all, report, options, report_all,
                         "3 ways of 6, 1 rate of 4, 1 seed of 5, 150 steps of 800", context, err);
}

const rs_lab_experiment rs_lab_skipless_train = {
    "skipless-train",
    "Blocks without skips that learn",
    "He and Hofmann 2023; He et al. 2023",
    "Eight blocks of width 32 learn the characters of a seeded source, or of the text that --data "
    "names: pre-norm, SAS, SAS-P, value-skipinit, E-SPA and skipless blocks as they are; four "
    "learning rates each, five seeds, 800 steps. After He, Hofmann, ICLR 2024 (arXiv 2311.01906), "
    "and He, Martens, Zhang, Botev, Brock, Smith, Teh, ICLR 2023 (arXiv 2302.10322).",
    run_skipless_train,
    "500 s",
    "5 s",
    &table_kind,
    0};
