/*
 * dong_ensemble.c: the cubic law over a thousand random networks instead of one.
 *
 * Near equal tokens a layer without skip maps the residual to a cubic of it
 * (docs/theory/collapse.md, 9), so over networks the logarithm of the next residual rises three
 * times as fast as that of the present one. With a skip the same networks lose a factor a layer.
 * Float64 sees three layers of the fall.
 */
#include "lab/toy.h"

#include "base/memory.h"
#include "base/sort.h"
#include "engine/san_batch.h"

#include <math.h>
#include <stdio.h>

enum { NETWORKS = 1000, QUICK_NETWORKS = 200, LAYERS = 12, STATES = LAYERS + 1, KINDS = 2 };
enum { BARE, SKIP };
enum { SHOWN = 3 }; /* last state of the bare networks that float64 can tell from rounding */

static const char *const kind_names[KINDS] = {"no skip", "skip 1"};

/* Medians of log10 of the relative residual over 4000 networks of tests/oracle/lab_expected.py, and
 * its deviation over networks. */
static const struct {
    int kind, state;
    double median, deviation;
} expected[] = {
    {BARE, 1, -0.08919, 0.0357}, {BARE, 2, -1.42817, 0.223},  {BARE, 3, -6.0505, 0.634},
    {SKIP, 1, -0.01293, 0.0047}, {SKIP, 12, -0.62387, 0.238},
};
static const double expected_slope = 3.102, slope_deviation = 0.0097 * 63.2; /* sqrt(4000) */

typedef struct ensemble {
    int64_t networks;
    double *residual[KINDS], *norm[KINDS]; /* [networks, STATES] */
    double *sorted;                        /* [networks] */
} ensemble;

static void close_ensemble(ensemble *e)
{
    for (int k = 0; k < KINDS; k++) {
        rs_free(e->residual[k]);
        rs_free(e->norm[k]);
    }
    rs_free(e->sorted);
}

static rs_status open_ensemble(ensemble *e, int64_t networks, rs_error *err)
{
    *e = (ensemble){.networks = networks};
    e->sorted = rs_malloc((size_t)networks, sizeof *e->sorted);
    bool made = e->sorted;
    for (int k = 0; k < KINDS; k++) {
        e->residual[k] = rs_malloc((size_t)networks * STATES, sizeof(double));
        e->norm[k] = rs_malloc((size_t)networks * STATES, sizeof(double));
        made = made && e->residual[k] && e->norm[k];
    }
    return made ? RS_OK : rs_fail_memory(err, "networks", (size_t)networks * STATES * 8);
}

/* Quantile q of the relative residual of a state. */
static double quantile(const ensemble *e, int kind, int state, double q)
{
    for (int64_t i = 0; i < e->networks; i++)
        e->sorted[i] = e->residual[kind][i * STATES + state] / e->norm[kind][i * STATES + state];
    rs_sort_doubles(e->sorted, e->networks);
    return e->sorted[(int64_t)(q * (double)(e->networks - 1))];
}

/* Least-squares slope of log |R| of state + 1 over log |R| of state, over networks. */
static double slope(const ensemble *e, int state)
{
    double n = (double)e->networks, x = 0, y = 0, xx = 0, xy = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < e->networks; i++) {
            double a = log(e->residual[BARE][i * STATES + state]);
            double b = log(e->residual[BARE][i * STATES + state + 1]);
            if (pass == 0) {
                x += a / n;
                y += b / n;
            } else {
                xx += (a - x) * (a - x);
                xy += (a - x) * (b - y);
            }
        }
    return xy / xx;
}

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_STATE, RS_LAB_Y("relative_residual", "relative residual",
                             "|X - 1x|_F/|X|_F, x the mean token: a quantile over the networks"));
static const rs_table_kind table_kind = {"lab", "dong_ensemble", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Collapse over random networks",
    .about =
        "Relative residual (Frobenius) by state over random networks of four heads, 32 tokens and "
        "32 features, in float64: median, and the 5 % and 95 % quantiles. Without skips all fall "
        "doubly exponentially into rounding.",
    .log_y = true,
    .y_floor = 1e-17,
};

static rs_status draw_curves(rs_lab_report *report, const ensemble *e, rs_error *err)
{
    static const struct {
        const char *name;
        double q;
    } bands[] = {{"median", 0.5}, {"5 %", 0.05}, {"95 %", 0.95}};
    rs_table *table = NULL;
    char series[64];
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int k = 0; k < KINDS; k++)
        for (size_t b = 0; b < sizeof bands / sizeof *bands; b++)
            for (int l = 0; l < STATES; l++) {
                snprintf(series, sizeof series, "%s, %s", kind_names[k], bands[b].name);
                RS_TRY(rs_lab_curves_add(table, series, l, quantile(e, k, l, bands[b].q), err));
            }
    return RS_OK;
}

/* A median of N numbers of deviation s errs by 1.25 s/sqrt(N); four of that, theirs included. */
static double tolerance_of(double deviation, int64_t networks)
{
    return 4 * 1.25 * deviation * sqrt(1 / (double)networks + 1.0 / 4000);
}

static rs_status write_up(rs_lab_report *report, const ensemble *e, rs_error *err)
{
    char text[120];
    RS_TRY(draw_curves(report, e, err));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        snprintf(text, sizeof text, "%s: log10 of the median relative residual of state %d",
                 kind_names[expected[i].kind], expected[i].state);
        RS_TRY(rs_lab_expect(report, text, expected[i].median,
                             log10(quantile(e, expected[i].kind, expected[i].state, 0.5)),
                             tolerance_of(expected[i].deviation, e->networks), err));
    }
    RS_TRY(rs_lab_expect(
        report, "slope of log |R| of state 3 over that of state 2, over networks (law: to 3)",
        expected_slope, slope(e, SHOWN - 1),
        4 * slope_deviation * sqrt(1 / (double)e->networks + 1.0 / 4000), err));
    return rs_lab_at_most(report, "no skip: the largest relative residual of state 5, all networks",
                          quantile(e, BARE, 5, 1), 1e-12, err);
}

static rs_status run_dong_ensemble(rs_lab_report *report, const rs_lab_options *options,
                                   const rs_context *context, rs_error *err)
{
    ensemble e;
    rs_status status = open_ensemble(&e, options->quick ? QUICK_NETWORKS : NETWORKS, err);
    for (int k = 0; k < KINDS && status == RS_OK; k++) {
        const rs_san_batch batch = {e.networks, LAYERS, 32, 32, 4, 1, k == SKIP ? 1 : 0};
        status = rs_san_batch_run(e.residual[k], e.norm[k], NULL, &batch, context, err);
    }
    if (status == RS_OK) status = write_up(report, &e, err);
    close_ensemble(&e);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "200 networks instead of 1000", err);
}

const rs_lab_experiment rs_lab_dong_ensemble = {
    "dong-ensemble",
    "A thousand random networks",
    "Dong, Cordonnier, Loukas 2021, theorem 2.3",
    "A thousand random attention networks of 12 layers, with and without skips, in float64: how "
    "fast "
    "tokens become equal, by how much networks differ, and the cubic law read off them.",
    run_dong_ensemble,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
