/*
 * dobrushin_mask.c: how fast attention collapses under a mask (Wu, Ajorlou, Wang, Jegelka,
 * Jadbabaie 2024, arXiv 2405.18781; docs/theory/collapse.md, 11).
 *
 * The mask is a graph: key j reaches query i where i sees j. Let some token reach all others in r
 * steps, and let every visible entry of every P be at least e. Then any r layers in a row have a
 * product with a column of entries of at least e^r, so that its Dobrushin coefficient (the largest
 * total variation between two rows) is at most 1 - e^r: tokens approach each other at least by that
 * factor every r layers. The sparser the mask, the larger r.
 */
#include "lab/toy.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 16, WIDTH = 8, LAYERS = 24, MASKS = 5, SQUARE = TOKENS * TOKENS };
enum { DRAWN, UNIFORM, WEIGHTS };

typedef struct mask {
    const char *name, *text; /* in tables; in an architecture file */
    bool causal;
    int64_t window; /* 0: none; not causal: |i - j| < window */
    int reach;      /* expected (tests/oracle/lab_expected.py) */
    double uniform; /* and the coefficient of LAYERS layers of uniform attention */
} mask;
static const mask masks[MASKS] = {
    {"causal", "causal", true, 0, 1, 8.93699492e-07},
    {"band |i - j| < 4", "none", false, 4, 3, 0.126587124},
    {"sliding, 4 wide", "sliding:4", true, 4, 5, 0.000262355882},
    {"band |i - j| < 2", "none", false, 2, 8, 0.89104348},
    {"sliding, 2 wide", "sliding:2", true, 2, 15, 0.846271873},
};

typedef struct collapse {
    int reach;
    double least;                   /* smallest visible entry of any P */
    double coefficient[LAYERS + 1]; /* of the product of the first l layers */
    double window_worst;            /* largest coefficient of r layers in a row less 1 - e^r */
    double tokens_worst;            /* largest diameter of X_l over coefficient * diameter of X_0 */
    double astray;                  /* largest entry of X_l - product X_0, l the last state */
    double attained;                /* the same ratio of tokens made for uniform attention: 1 */
} collapse;

static bool sees(const mask *m, int i, int j)
{
    if (m->causal && j > i) return false;
    return !m->window || (m->causal ? i - j < m->window : llabs(i - j) < m->window);
}

/* Steps that token c needs to reach all, breadth first over the entries of P that are not 0; TOKENS
 * when it does not. */
static int steps_from(const double *p, int c)
{
    int depth[TOKENS], queue[TOKENS], head = 0, tail = 0, last = 0;
    for (int i = 0; i < TOKENS; i++)
        depth[i] = -1;
    depth[c] = 0;
    queue[tail++] = c;
    while (head < tail) {
        int j = queue[head++];
        last = depth[j];
        for (int i = 0; i < TOKENS; i++)
            if (depth[i] < 0 && p[i * TOKENS + j] > 0) {
                depth[i] = depth[j] + 1;
                queue[tail++] = i;
            }
    }
    return tail == TOKENS ? last : TOKENS;
}

static int reach_of(const double *p)
{
    int least = TOKENS;
    for (int c = 0; c < TOKENS; c++) {
        int steps = steps_from(p, c);
        if (steps < least) least = steps;
    }
    return least;
}

/* ---- measuring ---- */

static void multiply_in(double *product, const double *p)
{
    double next[SQUARE];
    rs_small_product(next, p, product, TOKENS, TOKENS, TOKENS);
    memcpy(product, next, sizeof next);
}

static void set_identity(double *a)
{
    for (int i = 0; i < SQUARE; i++)
        a[i] = i % (TOKENS + 1) == 0;
}

static void look(collapse *c, const mask *m, const rs_toy_trace *trace)
{
    double product[SQUARE], start = rs_rows_diameter(rs_toy_state(trace, 0, 0), TOKENS, WIDTH);
    c->least = 1;
    for (int32_t l = 0; l < LAYERS; l++)
        for (int i = 0; i < SQUARE; i++)
            if (sees(m, i / TOKENS, i % TOKENS))
                c->least = fmin(c->least, rs_toy_mixing(trace, l, 0, 0)[i]);
    set_identity(product);
    c->coefficient[0] = 1;
    for (int32_t l = 0; l < LAYERS; l++) {
        multiply_in(product, rs_toy_mixing(trace, l, 0, 0));
        double tau = c->coefficient[l + 1] = rs_rows_variation(product, TOKENS, TOKENS);
        double apart = rs_rows_diameter(rs_toy_state(trace, l + 1, 0), TOKENS, WIDTH);
        /* rounding of the states, whose entries are of the size of the first ones */
        c->tokens_worst = fmax(c->tokens_worst, (apart - 1e-14 * start) / (tau * start));
    }
    double moved[TOKENS * WIDTH];
    rs_small_product(moved, product, rs_toy_state(trace, 0, 0), TOKENS, TOKENS, WIDTH);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        c->astray = fmax(c->astray, fabs(moved[i] - rs_toy_state(trace, LAYERS, 0)[i]));
    c->window_worst = -1;
    for (int32_t from = 0; from + c->reach <= LAYERS; from++) {
        set_identity(product);
        for (int32_t l = from; l < from + c->reach; l++)
            multiply_in(product, rs_toy_mixing(trace, l, 0, 0));
        c->window_worst = fmax(c->window_worst, rs_rows_variation(product, TOKENS, TOKENS) -
                                                    (1 - pow(c->least, c->reach)));
    }
}

/* Tokens +-1 by which of the two rows of the product that differ most has the larger entry: uniform
 * attention, which does not see tokens, brings them to exactly its coefficient times their
 * distance. */
static void extremal_tokens(double *x, const double *product)
{
    int a = 0, b = 1;
    double most = 0;
    for (int i = 0; i < TOKENS; i++)
        for (int k = 0; k < i; k++) {
            double pair[2 * TOKENS];
            memcpy(pair, product + i * TOKENS, TOKENS * sizeof *pair);
            memcpy(pair + TOKENS, product + k * TOKENS, TOKENS * sizeof *pair);
            double variation = rs_rows_variation(pair, 2, TOKENS);
            if (variation <= most) continue;
            most = variation;
            a = i;
            b = k;
        }
    memset(x, 0, TOKENS * WIDTH * sizeof *x);
    for (int j = 0; j < TOKENS; j++)
        x[j * WIDTH] = product[a * TOKENS + j] > product[b * TOKENS + j] ? 1 : -1;
}

static rs_status run_mask(rs_toy_trace *out, const mask *m, int weights, const double *x,
                          uint64_t seed, const rs_context *context, rs_error *err)
{
    rs_toy toy;
    json_t *arch = json_pack(
        "{s:i, s:i, s:s, s:f, s:s, s:s, s:s, s:{s:s, s:s}}", "depth", LAYERS, "d_model", WIDTH,
        "norm", "none", "skip_mixer", 0.0, "mlp", "none", "mask", m->text, "attention",
        weights == UNIFORM ? "uniform" : "softmax", "init", "wv", "identity", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, seed, context, err));
    for (int32_t l = 0; l < LAYERS; l++)
        rs_toy_attention(&toy, l)->window = m->window;
    rs_status status = rs_toy_run(out, &toy, x, 1, TOKENS, true, err);
    rs_toy_close(&toy);
    return status;
}

/* The diameter of extremal tokens after all layers over coefficient and diameter at first. */
static rs_status extremal(double *ratio, const mask *m, const double *product, uint64_t seed,
                          const rs_context *context, rs_error *err)
{
    double x[TOKENS * WIDTH];
    rs_toy_trace trace;
    extremal_tokens(x, product);
    RS_TRY(run_mask(&trace, m, UNIFORM, x, seed, context, err));
    *ratio = rs_rows_diameter(rs_toy_state(&trace, LAYERS, 0), TOKENS, WIDTH) /
             (rs_rows_variation(product, TOKENS, TOKENS) * rs_rows_diameter(x, TOKENS, WIDTH));
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static rs_status measure_collapse(collapse *c, const mask *m, int weights, uint64_t seed,
                                  const rs_context *context, rs_error *err)
{
    double x[TOKENS * WIDTH];
    rs_random random = rs_random_new(seed, 0x646f6272);
    rs_draw_gaussian(x, TOKENS * WIDTH, 1, &random);
    rs_toy_trace trace;
    RS_TRY(run_mask(&trace, m, weights, x, seed, context, err));
    c->reach = reach_of(rs_toy_mixing(&trace, 0, 0, 0));
    look(c, m, &trace);
    double product[SQUARE];
    set_identity(product);
    for (int32_t l = 0; l < LAYERS; l++)
        multiply_in(product, rs_toy_mixing(&trace, l, 0, 0));
    rs_toy_trace_free(&trace);
    return weights == UNIFORM ? extremal(&c->attained, m, product, seed, context, err) : RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("layer", "layers multiplied",
                                 "the product is of the first so many layers' matrices"),
                  RS_LAB_Y("dobrushin", "Dobrushin coefficient of the product",
                           "largest total variation between two rows of P^l ... P^1"));
static const rs_table_kind table_kind = {"lab", "dobrushin_mask", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "The sparser the mask, the slower the collapse",
    .about = "Dobrushin's coefficient of the product of the first l attention matrices (the "
             "largest total variation between two rows), 16 tokens, random weights, by mask; and "
             "the published bound (1 - e^r)^(l/r) of the mask for which it is lowest: those of the "
             "others lie between it and 1.",
    .log_y = true,
    .y_floor = 1e-15,
};

static rs_status claim_mask(rs_lab_report *report, const mask *m, const collapse *drawn,
                            const collapse *uniform, rs_error *err)
{
    char text[120];
    snprintf(text, sizeof text, "%s: steps in which a token reaches all", m->name);
    RS_TRY(rs_lab_expect(report, text, m->reach, drawn->reach, 0, err));
    snprintf(text, sizeof text, "%s: coefficient, 24 layers, uniform attention", m->name);
    RS_TRY(rs_lab_expect(report, text, m->uniform, uniform->coefficient[LAYERS],
                         1e-8 * m->uniform + 1e-15, err));
    snprintf(text, sizeof text, "%s: diameter over coefficient * diameter, extremal tokens",
             m->name);
    return rs_lab_expect(report, text, 1, uniform->attained, 1e-8, err);
}

/* Worst over all masks and both kinds of weights: products of stochastic matrices round by about
 * 1e-16 an entry and layer. */
static rs_status claim_bounds(rs_lab_report *report, collapse all[MASKS][WEIGHTS], rs_error *err)
{
    double window = -1, tokens = 0, astray = 0;
    int inversions = 0;
    for (int m = 0; m < MASKS; m++)
        for (int w = 0; w < WEIGHTS; w++) {
            window = fmax(window, all[m][w].window_worst);
            tokens = fmax(tokens, all[m][w].tokens_worst);
            astray = fmax(astray, all[m][w].astray);
        }
    static const int families[][2] = {{0, 2}, {2, 4}, {1, 3}}; /* same shape, narrower */
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (int w = 0; w < WEIGHTS; w++)
            inversions += all[families[i][1]][w].coefficient[LAYERS] <=
                          all[families[i][0]][w].coefficient[LAYERS];
    /* uniform causal attention attains it: r = 1, e = 1/16 */
    RS_TRY(rs_lab_expect(report, "r layers: largest coefficient less its bound 1 - e^r", 0, window,
                         1e-13, err));
    RS_TRY(rs_lab_at_most(report,
                          "W_V = I: last state less the product of all matrices times the "
                          "first, largest entry",
                          astray, 1e-13, err));
    RS_TRY(rs_lab_at_most(report, "largest diameter of X_l / (coefficient * diameter of X_0)",
                          tokens, 1 + 1e-9, err));
    return rs_lab_at_most(report, "narrower masks (larger r) that collapse faster", inversions, 0,
                          err);
}

/* Wu et al. 2024: 1 - e^r for every r whole layers among the first so many. */
static double published_bound(const collapse *c, int layers)
{
    return exp(layers / c->reach * log1p(-pow(c->least, c->reach)));
}

/* The published bound of one mask is drawn, the lowest: the others hide between it and 1. */
static int lowest_bound(collapse all[MASKS][WEIGHTS])
{
    int lowest = 0;
    for (int m = 1; m < MASKS; m++)
        if (published_bound(&all[m][DRAWN], LAYERS) < published_bound(&all[lowest][DRAWN], LAYERS))
            lowest = m;
    return lowest;
}

static rs_status add_curves(rs_lab_report *report, collapse all[MASKS][WEIGHTS], rs_error *err)
{
    static const char source[] = "Wu et al. 2024: their bound, with r and e of the matrices drawn";
    rs_table *table = NULL;
    char bound[80];
    int lowest = lowest_bound(all);
    snprintf(bound, sizeof bound, "%s, published bound", masks[lowest].name);
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int m = 0; m < MASKS; m++) {
        for (int l = 0; l <= LAYERS; l++)
            RS_TRY(rs_lab_curves_add(table, masks[m].name, l, all[m][DRAWN].coefficient[l], err));
        for (int l = 0; m == lowest && l <= LAYERS; l++)
            RS_TRY(rs_lab_curves_publish(table, source, bound, l,
                                         published_bound(&all[m][DRAWN], l), err));
    }
    return RS_OK;
}

static rs_status write_up(rs_lab_report *report, collapse all[MASKS][WEIGHTS], rs_error *err)
{
    RS_TRY(add_curves(report, all, err));
    for (int m = 0; m < MASKS; m++)
        RS_TRY(claim_mask(report, &masks[m], &all[m][DRAWN], &all[m][UNIFORM], err));
    return claim_bounds(report, all, err);
}

static rs_status run_dobrushin_mask(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    collapse all[MASKS][WEIGHTS] = {0};
    for (int m = 0; m < MASKS; m++)
        for (int w = 0; w < WEIGHTS; w++)
            RS_TRY(measure_collapse(&all[m][w], &masks[m], w, context->seed, context, err));
    return write_up(report, all, err);
}

const rs_lab_experiment rs_lab_dobrushin_mask = {
    "dobrushin-mask",
    "Masks as graphs",
    "Wu et al. 2024",
    "Attention without skips under five masks: in how many steps a token reaches all others, the "
    "bound 1 - e^r on r layers, and the exact Dobrushin coefficient of the product of all "
    "attention "
    "matrices; sparser masks collapse more slowly. After Wu, Ajorlou, Wang, Jegelka, Jadbabaie, "
    "NeurIPS 2024 (arXiv 2405.18781).",
    run_dobrushin_mask,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
