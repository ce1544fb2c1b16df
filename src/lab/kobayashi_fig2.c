/*
 * kobayashi_fig2.c: figure 2 of Kobayashi, Akram, von Oswald (NeurIPS 2024, arXiv 2410.23819): weight
 * decay on the attention of a small transformer that learns associative recall, and the rank of its
 * head products; and the same network with one matrix in place of each product, whose rank decay does
 * not lower (docs/theory/weight_decay.md).
 */
#include "lab/toy.h"
#include "lab/training.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    DECAYS = 5,
    CONTROLS = 2,
    SEEDS = 3,
    STEPS = 4000,
    CONTROL_STEPS = 2500,
    QUICK_STEPS = 600,
    EVERY = 50,
    LOGS = STEPS / EVERY + 1,
    PRODUCTS = 4, /* ov and qk of the first layer, of the second */
    TAIL = 5,     /* logs at the end that are averaged */
    WIDTH = 64,
    HEADS = 2,
    INNER = WIDTH / HEADS
};
static const double decays[DECAYS] = {0, 0.1, 0.3, 1, 3}, rate = 2e-3;
static const int controlled[CONTROLS] = {2, 3}, /* decays 0.3 and 1 */
    quick_decays[2] = {0, 3};
static const char *const product_names[PRODUCTS] = {"value-output, layer 1", "query-key, layer 1",
                                                    "value-output, layer 2", "query-key, layer 2"};

/* A run; means over heads. */
typedef struct recall {
    bool made;
    int logs;
    double steps[LOGS], accuracy[LOGS];
    double pseudo[PRODUCTS]
                 [LOGS]; /* singular values that hold 95 % of their sum, of the inner width */
    double count[PRODUCTS][LOGS]; /* and how many these are */
    double effective[PRODUCTS][LOGS];
    double imbalance[PRODUCTS][LOGS]; /* |X - Y| of the factors' Grams */
} recall;

typedef struct recalls {
    recall of[SEEDS][DECAYS], control[SEEDS][CONTROLS];
    int seeds, steps;
    bool quick;
} recalls;

/* ---- one matrix in place of each product ---- */

/* One head's out [WIDTH, WIDTH] = A^T B, A and B [INNER, WIDTH] with the entries that the factors begin
 * with: of variance 1/fan_in, which is 1/WIDTH for all four. */
static void draw_product(float *out, rs_random *random)
{
    double a[INNER * WIDTH], b[INNER * WIDTH], product[WIDTH * WIDTH] = {0};
    rs_draw_gaussian(a, INNER * WIDTH, 1 / sqrt(WIDTH), random);
    rs_draw_gaussian(b, INNER * WIDTH, 1 / sqrt(WIDTH), random);
    for (int k = 0; k < INNER; k++)
        for (int i = 0; i < WIDTH; i++)
            for (int j = 0; j < WIDTH; j++)
                product[i * WIDTH + j] += a[k * WIDTH + i] * b[k * WIDTH + j];
    for (int i = 0; i < WIDTH * WIDTH; i++)
        out[i] = (float)product[i];
}

static void set_identity(float *out)
{
    for (int i = 0; i < WIDTH * WIDTH; i++)
        out[i] = i / WIDTH == i % WIDTH;
}

/* Queries are W_K^T W_Q x, keys are the tokens, values W_O W_V x: heads of full width. */
static rs_status start_unfactored(void *user, rs_learner *learner, rs_error *err)
{
    const uint64_t *seed = user;
    rs_random random = rs_random_new(*seed, 0x636f6e74726f6cu);
    for (int layer = 0; layer < 2; layer++) {
        char name[40];
        float *of[3];
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "layers.%d.mixer.%c.weight", layer, "qkv"[k]);
            of[k] = rs_lab_weight(learner, name);
            if (!of[k]) return rs_fail(err, RS_E_INTERNAL, name, NULL, "there is no such weight");
        }
        for (int head = 0; head < HEADS; head++) {
            int64_t at = (int64_t)head * WIDTH * WIDTH;
            draw_product(of[0] + at, &random);
            set_identity(of[1] + at);
            draw_product(of[2] + at, &random);
        }
    }
    return RS_OK;
}

/* ---- runs ---- */

static void write_task(char *text, size_t size, int decay, bool unfactored, int steps,
                       uint64_t seed)
{
    /* logits are divided by sqrt(32) as those of the factored heads are */
    snprintf(text, size,
             "{'task': 'associative-recall', 'steps': %d, 'seed': %llu, 'log_every': %d, "
             "'rank_every': %d, %s"
             " 'optimizer': {'weight_decay': {'default': 0.1, 'attention': %g, 'norm': 0}%s}}",
             steps, (unsigned long long)seed, EVERY, EVERY,
             unfactored ? "'model': {'d_head': 64, 'temperature': 0.70710678118654752, 'init': "
                          "{'wo': 'none'}},"
                        : "",
             decays[decay], unfactored ? ", 'frozen': ['mixer\\\\.k']" : "");
}

static void see_ranks(recall *r, const rs_result *result)
{
    const rs_table *ranks = rs_result_table(result, "ranks");
    int log = 0;
    for (size_t i = 0, n = rs_table_rows(ranks); i < n; i++) {
        double step = rs_lab_cell(ranks, i, "step");
        while (log + 1 < r->logs && r->steps[log] < step)
            log++;
        int product = 2 * (int)rs_lab_cell(ranks, i, "layer") +
                      (strcmp(rs_lab_cell_text(ranks, i, "product"), "qk") == 0);
        r->pseudo[product][log] += rs_lab_cell(ranks, i, "pseudo_rank") / HEADS;
        r->count[product][log] += rs_lab_cell(ranks, i, "pseudo_count") / HEADS;
        r->effective[product][log] += rs_lab_cell(ranks, i, "effective_rank") / HEADS;
        r->imbalance[product][log] += rs_lab_cell(ranks, i, "q_norm") / HEADS;
    }
}

static rs_status learn(recall *r, int decay, bool unfactored, int steps, uint64_t seed,
                       const rs_context *context, rs_error *err)
{
    char text[600];
    rs_result *result = NULL;
    const rs_lab_prepare prepare = {&seed, start_unfactored};
    write_task(text, sizeof text, decay, unfactored, steps, seed);
    RS_TRY(rs_lab_train(&result, text, unfactored ? &prepare : NULL, context, err));
    const rs_table *log = rs_result_table(result, "log");
    for (size_t i = 0; i < rs_table_rows(log) && r->logs < LOGS; i++) {
        r->steps[r->logs] = rs_lab_cell(log, i, "step");
        r->accuracy[r->logs++] = rs_lab_cell(log, i, "accuracy");
    }
    see_ranks(r, result);
    r->made = true;
    rs_result_free(result);
    return RS_OK;
}

/* Run i of all; false: --quick leaves it out. */
static bool wanted(const recalls *all, int i)
{
    int kind = i % (DECAYS + CONTROLS);
    return !all->quick || kind == quick_decays[0] || kind == quick_decays[1];
}

static rs_status learn_all(recalls *all, const rs_context *context, rs_error *err)
{
    rs_status status = RS_OK;
    rs_error first = {0};
    RS_TRY(rs_check_cancelled(context, err));
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int i = 0; i < (DECAYS + CONTROLS) * all->seeds; i++) {
        rs_error own = {0};
        int kind = i % (DECAYS + CONTROLS), seed = i / (DECAYS + CONTROLS), c = kind - DECAYS;
        if (!wanted(all, i)) continue;
        rs_status made =
            learn(c < 0 ? &all->of[seed][kind] : &all->control[seed][c],
                  c < 0 ? kind : controlled[c], c >= 0, c < 0 ? all->steps : CONTROL_STEPS,
                  context->seed + (uint64_t)seed, context, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

/* ---- what is seen of a run ---- */

static double at_step(const recall *r, const double *values, double step)
{
    for (int i = 0; i < r->logs; i++)
        if (r->steps[i] >= step) return values[i];
    return NAN;
}

/* The mean of the last logs up to a step. */
static double tail(const recall *r, const double *values, int step)
{
    int end = step / EVERY + 1;
    double sum = 0;
    for (int i = end > r->logs ? r->logs - TAIL : end - TAIL; i < end && i < r->logs; i++)
        sum += values[i] / TAIL;
    return sum;
}

/* From step 1000 on. */
static double late_mean(const recall *r, const double *values)
{
    double sum = 0, n = 0;
    for (int i = 0; i < r->logs; i++)
        if (r->steps[i] >= 1000) sum += values[i], n++;
    return sum / n;
}

/* The slope a step of ln |X - Y| of the first layer's value-output products over steps 100 to 600, by
 * least squares. */
static double slope(const recall *r)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < r->logs; i++) {
        double t = r->steps[i], value = log(r->imbalance[0][i]);
        if (t < 100 || t > 600) continue;
        n++, x += t, y += value, xx += t * t, xy += t * value;
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

static double first_above(const recall *r, double accuracy)
{
    for (int i = 0; i < r->logs; i++)
        if (r->accuracy[i] > accuracy) return r->steps[i];
    return INFINITY;
}

/* ---- claims ---- */

/* The one of the values that is farthest from `from`. */
static double farthest(const double *values, int n, double from)
{
    double worst = values[0];
    for (int i = 1; i < n; i++)
        if (fabs(values[i] - from) > fabs(worst - from)) worst = values[i];
    return worst;
}

static rs_status claim_learning(rs_lab_report *report, const recalls *all, rs_error *err)
{
    for (int k = 0; k < DECAYS; k++) {
        double latest = 0;
        char text[120];
        for (int s = 0; s < all->seeds; s++)
            if (all->of[s][k].made) latest = fmax(latest, first_above(&all->of[s][k], 0.99));
        snprintf(text, sizeof text, "decay %g: accuracy above 0.99 at step, latest seed",
                 decays[k]);
        if (all->of[0][k].made) RS_TRY(rs_lab_at_most(report, text, latest, 800, err));
    }
    return RS_OK;
}

static rs_status claim_slopes(rs_lab_report *report, const recalls *all, rs_error *err)
{
    for (int k = 1; k < 4; k++) {
        double over[SEEDS], law = -2 * rate * decays[k];
        char text[160];
        if (!all->of[0][k].made) continue;
        for (int s = 0; s < all->seeds; s++)
            over[s] = slope(&all->of[s][k]) - slope(&all->of[s][0]);
        snprintf(text, sizeof text,
                 "decay %g: slope of ln|Q|, steps 100 to 600, less that of decay 0, farthest seed",
                 decays[k]);
        RS_TRY(rs_lab_expect(report, text, law, farthest(over, all->seeds, law), 0.1 * fabs(law),
                             err));
    }
    return RS_OK;
}

static rs_status claim_ranges(rs_lab_report *report, const recalls *all, rs_error *err)
{
    static const struct {
        int decay;
        double middle, half;
    } ranges[] = {{0, 0.815, 0.065}, {3, 0.35, 0.15}};
    for (int k = 0; k < 2; k++) {
        double ranks[SEEDS];
        char text[160];
        for (int s = 0; s < all->seeds; s++) {
            const recall *r = &all->of[s][ranges[k].decay];
            ranks[s] = at_step(r, r->pseudo[0], 2000);
        }
        snprintf(text, sizeof text, "decay %g: pseudo-rank at step 2000, farthest seed",
                 decays[ranges[k].decay]);
        RS_TRY(rs_lab_expect(report, text, ranges[k].middle,
                             farthest(ranks, all->seeds, ranges[k].middle), ranges[k].half, err));
    }
    return RS_OK;
}

static rs_status claim_orders(rs_lab_report *report, const recalls *all, rs_error *err)
{
    for (int k = 1; k < DECAYS; k++) {
        double by[SEEDS];
        char text[160];
        for (int s = 0; s < all->seeds; s++) {
            const recall *low = &all->of[s][k - 1], *high = &all->of[s][k];
            by[s] = late_mean(low, low->pseudo[0]) - late_mean(high, high->pseudo[0]);
        }
        const rs_lab_spread d = rs_lab_spread_of(by, all->seeds);
        snprintf(text, sizeof text,
                 "pseudo-rank from step 1000 on: decay %g has less than decay %g, by", decays[k],
                 decays[k - 1]);
        RS_TRY(rs_lab_order(report, text, d.mean, rs_lab_order_error(d), err));
    }
    return RS_OK;
}

/* Logs from step 1000 on at which the mean over seeds of one decay is not below that of the one before;
 * ties: or is the same. */
static double out_of_order(const recalls *all, bool effective, bool ties, int from)
{
    double wrong = 0;
    for (int i = 1000 / EVERY; i < LOGS; i++)
        for (int k = from + 1; k < DECAYS; k++) {
            double by = 0;
            for (int s = 0; s < all->seeds; s++) {
                const recall *low = &all->of[s][k - 1], *high = &all->of[s][k];
                by += effective ? low->effective[0][i] - high->effective[0][i]
                                : low->pseudo[0][i] - high->pseudo[0][i];
            }
            wrong += ties ? by < -1e-9 : by < 1e-9;
        }
    return wrong;
}

/* Pseudo-ranks are counted in whole singular values: decays 0 and 0.1 tie at first. */
static rs_status claim_strict(rs_lab_report *report, const recalls *all, rs_error *err)
{
    RS_TRY(rs_lab_at_most(report,
                          "pseudo-rank, mean of seeds: logs from step 1000 on against the order",
                          out_of_order(all, false, true, 0), 0, err));
    RS_TRY(rs_lab_at_most(report,
                          "the same of decays 0.1 to 3, strictly: logs that are out of order",
                          out_of_order(all, false, false, 1), 0, err));
    return rs_lab_at_most(report,
                          "effective rank, strictly, all decays: logs that are out of order",
                          out_of_order(all, true, false, 0), 0, err);
}

static rs_status claim_control(rs_lab_report *report, const recalls *all, int c, int product,
                               rs_error *err)
{
    double by[SEEDS], rise[SEEDS];
    char text[160];
    for (int s = 0; s < all->seeds; s++) {
        const recall *two = &all->of[s][controlled[c]], *one = &all->control[s][c];
        double end = tail(one, one->count[product], CONTROL_STEPS);
        by[s] = end - tail(two, two->count[product], CONTROL_STEPS);
        rise[s] = end - one->count[product][0];
    }
    const rs_lab_spread d = rs_lab_spread_of(by, all->seeds),
                        up = rs_lab_spread_of(rise, all->seeds);
    snprintf(text, sizeof text, "decay %g, %s: one matrix keeps more singular values, by",
             decays[controlled[c]], product_names[product]);
    RS_TRY(rs_lab_order(report, text, d.mean, rs_lab_order_error(d), err));
    snprintf(text, sizeof text, "decay %g, %s: one matrix has more than at its start, by",
             decays[controlled[c]], product_names[product]);
    return rs_lab_order(report, text, up.mean, rs_lab_order_error(up), err);
}

static rs_status claim_all(rs_lab_report *report, const recalls *all, rs_error *err)
{
    RS_TRY(claim_learning(report, all, err));
    RS_TRY(claim_slopes(report, all, err));
    if (all->quick) return RS_OK;
    RS_TRY(claim_ranges(report, all, err));
    RS_TRY(claim_orders(report, all, err));
    RS_TRY(claim_strict(report, all, err));
    for (int c = 0; c < CONTROLS; c++)
        for (int p = 0; p < PRODUCTS; p++)
            RS_TRY(claim_control(report, all, c, p, err));
    return RS_OK;
}

/* ---- the figure and the control's table ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_WHOLE("step", "step", "steps that were made"),
    RS_LAB_Y("pseudo_rank", "pseudo-rank",
             "singular values of the first layer's value-output products that hold 95 % of their "
             "sum, divided by the inner width, or by the width where there is one matrix"));
static const rs_table_kind table_kind = {"lab", "kobayashi_fig2", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Weight decay and the rank of attention",
    .about =
        "The pseudo-rank of the first layer's value-output products while associative recall "
        "is learnt, mean over heads and seeds, by weight decay on attention; and of one matrix "
        "in place of each product.",
};

static rs_status draw_run(rs_table *table, const recalls *all, int kind, rs_error *err)
{
    int c = kind - DECAYS;
    const recall *first = c < 0 ? &all->of[0][kind] : &all->control[0][c];
    char series[64];
    snprintf(series, sizeof series, c < 0 ? "decay %g" : "decay %g, one matrix",
             decays[c < 0 ? kind : controlled[c]]);
    for (int i = 0; first->made && i < first->logs; i++) {
        double mean = 0;
        for (int s = 0; s < all->seeds; s++)
            mean += (c < 0 ? all->of[s][kind] : all->control[s][c]).pseudo[0][i] / all->seeds;
        RS_TRY(rs_lab_curves_add(table, series, first->steps[i], mean, err));
    }
    return RS_OK;
}

static rs_status draw_all(rs_lab_report *report, const recalls *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int kind = 0; kind < DECAYS + CONTROLS; kind++)
        RS_TRY(draw_run(table, all, kind, err));
    return RS_OK;
}

/* A row of table kobayashi_fig2_ends. */
typedef struct end_cells {
    double decay, accuracy, pseudo, effective, count, control_start, control;
    const char *product;
} end_cells;

static const rs_column end_columns[] = {
    RS_COLUMN(end_cells, product, "product", "product", NULL, "which, and of which layer", NULL),
    RS_COLUMN(end_cells, decay, "decay", "decay", NULL, "of attention's maps", NULL),
    RS_COLUMN(end_cells, accuracy, "accuracy", "accuracy", NULL, "running mean at the end",
              "measured"),
    RS_COLUMN(end_cells, pseudo, "pseudo_rank", "pseudo-rank", NULL,
              "mean of the last five logs, of heads and of seeds", "measured"),
    RS_COLUMN(end_cells, effective, "effective_rank", "effective rank", NULL, "the same mean",
              "measured"),
    RS_COLUMN(end_cells, count, "count", "singular values, step 2500", NULL,
              "how many hold 95 % of their sum: mean of the five logs up to step 2500", "measured"),
    RS_COLUMN(end_cells, control_start, "one_matrix_start", "one matrix, start", NULL,
              "the same of one matrix in place of the product, at its start", "measured"),
    RS_COLUMN(end_cells, control, "one_matrix", "one matrix, step 2500", NULL,
              "and up to step 2500", "measured"),
};
const rs_table_kind rs_lab_kobayashi_ends_kind = {
    "lab", "kobayashi_fig2_ends", {RS_PART(end_columns)}};

static rs_status add_end(rs_table *table, const recalls *all, int product, int k, rs_error *err)
{
    end_cells e = {.decay = decays[k],
                   .product = product_names[product],
                   .control_start = NAN,
                   .control = NAN};
    int c = k == controlled[0] ? 0 : k == controlled[1] ? 1 : -1;
    if (c >= 0 && all->control[0][c].made) e.control_start = e.control = 0;
    for (int s = 0; s < all->seeds; s++) {
        const recall *r = &all->of[s][k], *one = c < 0 ? NULL : &all->control[s][c];
        e.accuracy += r->accuracy[r->logs - 1] / all->seeds;
        e.pseudo += tail(r, r->pseudo[product], STEPS) / all->seeds;
        e.effective += tail(r, r->effective[product], STEPS) / all->seeds;
        e.count += tail(r, r->count[product], CONTROL_STEPS) / all->seeds;
        if (!one || !one->made) continue;
        e.control_start += one->count[product][0] / all->seeds;
        e.control += tail(one, one->count[product], CONTROL_STEPS) / all->seeds;
    }
    return rs_table_append(table, &e, err);
}

static rs_status add_ends(rs_lab_report *report, const recalls *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(
        rs_result_add_table(report->result, rs_lab_kobayashi_ends_kind.name,
                            "Ranks at the end, with factors and without",
                            "Singular values that hold 95 % of their sum, of products and of one "
                            "matrix in place of each.",
                            end_columns, sizeof end_columns / sizeof *end_columns, &table, err));
    for (int product = 0; product < PRODUCTS; product++)
        for (int k = 0; k < DECAYS; k++)
            if (all->of[0][k].made) RS_TRY(add_end(table, all, product, k, err));
    return RS_OK;
}

/* ---- the whole ---- */

static rs_status run_kobayashi_fig2(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    recalls *all = rs_calloc(1, sizeof *all);
    if (!all) return rs_fail_memory(err, "an experiment", sizeof *all);
    all->quick = options->quick;
    all->seeds = rs_lab_seeds(options, SEEDS);
    all->steps = options->quick ? QUICK_STEPS : STEPS;
    rs_status status = learn_all(all, context, err);
    if (status == RS_OK) status = draw_all(report, all, err);
    if (status == RS_OK) status = add_ends(report, all, err);
    if (status == RS_OK) status = claim_all(report, all, err);
    int seeds = all->seeds;
    rs_free(all);
    if (status != RS_OK) return status;
    if (!options->quick) return rs_lab_say_seeds(report, seeds, SEEDS, err);
    return rs_lab_say_quick(report,
                            "2 decays instead of 5, 1 seed instead of 3, 600 steps of 4000, and "
                            "left out orders, ranks at step 2000 and the control",
                            err);
}

const rs_lab_experiment rs_lab_kobayashi_fig2 = {
    "kobayashi-fig2",
    "Weight decay and the rank of attention",
    "Kobayashi et al. 2024, figure 2",
    "A small transformer learns associative recall under decay 0 to 3 on its attention: the rank "
    "of "
    "head products falls, and factors balance at the rate 2 x rate x decay. With one matrix in "
    "place "
    "of each product decay lowers no rank. After Kobayashi, Akram, von Oswald, NeurIPS 2024 (arXiv "
    "2410.23819).",
    run_kobayashi_fig2,
    "240 s",
    "8 s",
    &table_kind,
    0};
