/*
 * xiong_last_layer.c: gradients of the last layer's MLP by depth: constant where norms stand behind the
 * sums, as 1/√L where they stand in front: theorem 1 of Xiong, Yang, He, Zheng, Zheng, Xing, Zhang, Lan,
 * Wang, Liu 2020 (arXiv 2002.04745). The loss is behind the final norm, which divides by the state's
 * size, 1 + 2L in units of the tokens' (docs/theory/mean_field.md, 5).
 */
#include "lab/signals.h"

#include <math.h>
#include <stdio.h>

enum {
    N = 8,
    D = 32,
    DEPTHS = 4,
    PLACES = 2,
    DRAWS = 64,
    QUICK_DRAWS = 40,
    NETWORKS = 2,
    STREAM = 0x78696f6e
};
enum { PRE, POST };
static const int depths[DEPTHS] = {2, 4, 8, 16};
static const char *const names[PLACES] = {"pre-norm", "post-norm"};

/* By place and depth: log10 of the squared gradient of W₂ and of W₁, and of W₂ in front of the final norm. */
enum { DOWN, UP, BEFORE, KINDS, CELLS = PLACES * DEPTHS * KINDS };

/* tests/oracle/lab_signals.py xiong-last-layer: W₂ and W₁, by place, of 2 and 16 layers */
static const rs_awaited awaited[PLACES][4] = {
    {{3.95613, 0.0046}, {3.05787, 0.0043}, {3.06879, 0.0075}, {2.16552, 0.0074}},
    {{4.20043, 0.0048}, {3.30108, 0.0044}, {4.19644, 0.0079}, {3.28771, 0.0089}},
};

static int cell_of(int place, int depth, int kind)
{
    return (place * DEPTHS + depth) * KINDS + kind;
}

static rs_status add_network(double *cells, int place, int at, rs_random *random,
                             const rs_context *context, rs_error *err)
{
    double x[N * D];
    rs_toy toy;
    rs_signal_layer layers[17];
    int last = depths[at] - 1;
    json_t *arch =
        json_pack("{s:i, s:i, s:s, s:s, s:{s:s}}", "depth", depths[at], "d_model", D, "norm",
                  place == PRE ? "pre" : "post", "mlp", "relu", "init", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, rs_draw_seed(random), context, err));
    rs_draw_tokens(x, N, D, 1, 0, random);
    uint64_t seed = rs_draw_seed(random);
    rs_status status = rs_signal_pass(layers, &toy, x, N, seed, false, err);
    cells[DOWN] += log10(layers[last].down) / NETWORKS;
    cells[UP] += log10(layers[last].up) / NETWORKS;
    if (status == RS_OK) status = rs_signal_pass(layers, &toy, x, N, seed, true, err);
    cells[BEFORE] += log10(layers[last].down) / NETWORKS;
    rs_toy_close(&toy);
    return status;
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    (void)of;
    for (int place = 0; place < PLACES; place++)
        for (int at = 0; at < DEPTHS; at++)
            for (int t = 0; t < NETWORKS; t++)
                RS_TRY(add_network(cells + cell_of(place, at, 0), place, at, random, context, err));
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("depth", "layers", "L"),
                  RS_LAB_Y("gradient", "last layer's squared gradient",
                           "of the MLP's second matrix, geometric mean over networks"));
static const rs_table_kind table_kind = {"lab", "xiong_last_layer", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "The last layer's gradient by depth",
    .about =
        "The squared gradient of the last MLP's second matrix by the number of layers: constant "
        "with norms behind the sums, 1/(1 + 2L) with norms in front.",
    .log_x = true,
    .log_y = true,
};

static rs_status draw(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int place = 0; place < PLACES; place++)
        for (int at = 0; at < DEPTHS; at++)
            RS_TRY(rs_lab_curves_add(table, names[place], depths[at],
                                     pow(10, rs_draws_seen(draws, cell_of(place, at, DOWN)).mean),
                                     err));
    double first = pow(10, rs_draws_seen(draws, cell_of(PRE, 0, DOWN)).mean);
    for (int at = 0; at < DEPTHS; at++)
        RS_TRY(rs_lab_curves_compute(table, "pre-norm: 1/(1 + 2L)", depths[at],
                                     first * (1 + 2 * depths[0]) / (1 + 2 * depths[at]), err));
    return RS_OK;
}

/* Slope of ln|dL/dW|² in ln L between the last two depths. */
static rs_seen slope_of(const rs_draws *draws, int place, int kind)
{
    double w[KINDS + 1] = {0};
    w[0] = -1 / log10(2);
    w[KINDS] = 1 / log10(2);
    return rs_draws_combined(draws, cell_of(place, DEPTHS - 2, kind), w, KINDS + 1);
}

static rs_status claim_slopes(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    static const char *const kinds[] = {"W2", "W1"};
    char text[160];
    /* 1/(1 + 2L), not 1/L: what the paper's order leaves out at these depths */
    double law = log(17.0 / 33) / log(2);
    for (int kind = 0; kind < BEFORE; kind++) {
        snprintf(text, sizeof text, "pre-norm, 8 to 16 layers: slope of ln|dL/d%s|^2 in ln L",
                 kinds[kind]);
        /* logarithms of ratios of states: E ln q is not ln E q, by 1/D a block at most */
        RS_TRY(rs_lab_seen(report, text, (rs_awaited){law, 0}, 1.0 / D, slope_of(draws, PRE, kind),
                           err));
        snprintf(text, sizeof text, "post-norm, 8 to 16 layers: 1 + slope of ln|dL/d%s|^2",
                 kinds[kind]);
        rs_seen flat = slope_of(draws, POST, kind);
        RS_TRY(rs_lab_seen_published(report, text, 1, (rs_awaited){1, 0},
                                     (rs_seen){1 + flat.mean, flat.error}, err));
    }
    rs_seen flat = slope_of(draws, PRE, BEFORE);
    RS_TRY(rs_lab_seen(report, "pre-norm, loss in front of the final norm: 1 + slope, W2",
                       (rs_awaited){1, 0}, 0, (rs_seen){1 + flat.mean, flat.error}, err));
    rs_seen pre = slope_of(draws, PRE, DOWN), post = slope_of(draws, POST, DOWN);
    return rs_lab_order(report, "pre-norm falls faster than post-norm, slope by",
                        post.mean - pre.mean, hypot(post.error, pre.error), err);
}

static rs_status write_up(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[160];
    RS_TRY(draw(report, draws, err));
    for (int place = 0; place < PLACES; place++)
        for (int end = 0; end < 2; end++)
            for (int kind = 0; kind < BEFORE; kind++) {
                int at = end ? DEPTHS - 1 : 0;
                snprintf(text, sizeof text, "%s, %d layers: mean log10|dL/d%s|^2, last layer",
                         names[place], depths[at], kind == DOWN ? "W2" : "W1");
                RS_TRY(rs_lab_seen(report, text, awaited[place][end * 2 + kind], 0,
                                   rs_draws_seen(draws, cell_of(place, at, kind)), err));
            }
    return claim_slopes(report, draws, err);
}

static rs_status run_xiong_last_layer(rs_lab_report *report, const rs_lab_options *options,
                                      const rs_context *context, rs_error *err)
{
    const rs_draws_plan plan = {.draws = options->quick ? QUICK_DRAWS : DRAWS,
                                .cells = CELLS,
                                .stream = (uint64_t)STREAM << 32,
                                .one = one_draw};
    rs_draws draws;
    RS_TRY(rs_draws_run(&draws, &plan, context, err));
    rs_status status = write_up(report, &draws, err);
    rs_draws_free(&draws);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "40 draws of 2 networks instead of 64", err);
}

const rs_lab_experiment rs_lab_xiong_last_layer = {
    "xiong-last-layer",
    "The last layer's gradient by depth",
    "Xiong et al. 2020, theorem 1",
    "Squared gradients of the last MLP's matrices behind the final norm by the number of layers, "
    "norms in front and behind. Xiong, Yang, He, Zheng, Zheng, Xing, Zhang, Lan, Wang, Liu, ICML "
    "2020 (arXiv 2002.04745).",
    run_xiong_last_layer,
    "2 s",
    "1 s",
    &table_kind,
    0};
