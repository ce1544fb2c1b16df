/*
 * make_sample.c: writes a report over made-up numbers in the shape of a scan, for the browser test
 * and for looking at the page. Usage: make_sample OUTPUT.html LAYERS HEADS [OUTPUT.json]
 *
 * The numbers follow simple formulas of layer, head and product, so that run.mjs can tell what a
 * sorted column has to begin with. Head 5 of layer 3 is the collapsed one.
 */
#include "report/figures.h"
#include "report/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INNER = 32, MANY_CURVES = 400 };

static const rs_column head_columns[] = {
    {.name = "stack", .type = RS_COLUMN_TEXT},
    {.name = "attention", .type = RS_COLUMN_TEXT},
    {.name = "layer", .type = RS_COLUMN_INT, .formula = "counted from 0"},
    {.name = "head", .type = RS_COLUMN_INT, .formula = "query head, counted from 0"},
    {.name = "product", .type = RS_COLUMN_TEXT, .formula = "qk: W_Q W_K\xE1\xB5\x80; ov: W_V W_O"},
    {.name = "inner", .type = RS_COLUMN_INT, .formula = "inner dimension r of the product"},
    {.name = "spectral_norm", .type = RS_COLUMN_REAL, .formula = "\xCF\x83\xE2\x82\x81"},
    {.name = "frobenius_norm",
     .type = RS_COLUMN_REAL,
     .formula = "\xE2\x80\x96\xC2\xB7\xE2\x80\x96_F"},
    {.name = "stable_rank",
     .type = RS_COLUMN_REAL,
     .formula = "\xE2\x80\x96\xC2\xB7\xE2\x80\x96_F\xC2\xB2 / "
                "\xCF\x83\xE2\x82\x81\xC2\xB2"},
    {.name = "effective_rank",
     .type = RS_COLUMN_REAL,
     .title = "effective rank",
     .formula =
         "exp(\xE2\x88\x92\xCE\xA3 p ln p), p = \xCF\x83/\xCE\xA3\xCF\x83 (Roy and Vetterli)"},
    {.name = "participation_ratio",
     .type = RS_COLUMN_REAL,
     .formula = "(\xCE\xA3\xCF\x83\xC2\xB2)\xC2\xB2 / "
                "\xCE\xA3\xCF\x83\xE2\x81\xB4"},
    {.name = "energy_rank", .type = RS_COLUMN_INT, .formula = "least k with 95 % of the energy"},
    {.name = "pseudo_rank",
     .type = RS_COLUMN_REAL,
     .formula = "least k with 95 % of \xCE\xA3\xCF\x83, over r"},
    {.name = "numerical_rank",
     .type = RS_COLUMN_INT,
     .formula = "number of \xCF\x83 above rounding"},
    {.name = "condition", .type = RS_COLUMN_REAL, .formula = "\xCF\x83\xE2\x82\x81 / \xCF\x83_k"},
    {.name = "balance", .type = RS_COLUMN_REAL, .formula = "0 when balanced"},
    {.name = "effective_rank_null",
     .type = RS_COLUMN_REAL,
     .title = "effective rank of random factors",
     .formula = "mean for Gaussian factors of this shape",
     .provenance = "predicted"},
    {.name = "stable_rank_null",
     .type = RS_COLUMN_REAL,
     .title = "stable rank of random factors",
     .formula = "mean for Gaussian factors of this shape",
     .provenance = "predicted"},
    {.name = "corrections", .type = RS_COLUMN_TEXT},
    {.name = "singular_values", .type = RS_COLUMN_VECTOR, .formula = "descending"},
};
enum { HEAD_COLUMNS = sizeof head_columns / sizeof *head_columns };

static const char *const products[] = {"qk", "ov"};

static void stop_on(rs_status status, const rs_error *err)
{
    if (status == RS_OK) return;
    fprintf(stderr, "make_sample: %s: %s\n", err->where, err->what);
    exit(1);
}

/* A geometric spectrum; the smaller `decay`, the lower the rank. */
static double decay_of(int layer, int head, int product)
{
    if (layer == 3 && head == 5 && product == 0) return 0.35;
    return 0.86 + 0.1 * fabs(sin(0.7 * layer + 1.9 * head + product)) - 0.001 * layer;
}

static void spectrum(double sigma[INNER], double decay, double scale)
{
    for (int i = 0; i < INNER; i++)
        sigma[i] = scale * pow(decay, i);
}

static void fill_head(rs_table *t, int layer, int head, int product, bool vectors, rs_error *err)
{
    double sigma[INNER], sum = 0, square = 0, fourth = 0, entropy = 0;
    spectrum(sigma, decay_of(layer, head, product), 4 + sin(layer + head));
    for (int i = 0; i < INNER; i++)
        sum += sigma[i], square += sigma[i] * sigma[i], fourth += pow(sigma[i], 4);
    for (int i = 0; i < INNER; i++)
        entropy -= sigma[i] / sum * log(sigma[i] / sum);
    size_t row;
    stop_on(rs_table_add_row(t, &row, err), err);
    stop_on(rs_table_set_text(t, row, 0, "encoder", err), err);
    stop_on(rs_table_set_text(t, row, 1, "self", err), err);
    rs_table_set_int(t, row, 2, layer);
    rs_table_set_int(t, row, 3, head);
    stop_on(rs_table_set_text(t, row, 4, products[product], err), err);
    rs_table_set_int(t, row, 5, INNER);
    const double reals[][2] = {
        {6, sigma[0]},
        {7, sqrt(square)},
        {8, square / (sigma[0] * sigma[0])},
        {9, exp(entropy)},
        {10, square * square / fourth},
        {12, exp(entropy) / INNER},
        {14, layer == 1 && head == 2 ? (double)NAN : sigma[0] / sigma[INNER - 1]},
        {15, 0.2 + 0.1 * cos(head)},
        {16, 19.5},
        {17, 9.25},
    };
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        rs_table_set_real(t, row, (size_t)reals[i][0], reals[i][1]);
    rs_table_set_int(t, row, 11, (int64_t)exp(entropy));
    rs_table_set_int(t, row, 13, INNER);
    stop_on(rs_table_set_text(t, row, 18, "scale", err), err);
    if (vectors) stop_on(rs_table_set_vector(t, row, 19, sigma, INNER, err), err);
}

static void add_heads(rs_result *r, int layers, int heads, rs_error *err)
{
    rs_table *t;
    stop_on(rs_result_add_table(r, "heads", "Heads",
                                "One row for each layer, head and product. The columns that end in "
                                "_null are what random factors of the same shape give.",
                                head_columns, HEAD_COLUMNS, &t, err),
            err);
    for (int layer = 0; layer < layers; layer++)
        for (int head = 0; head < heads; head++)
            for (int product = 0; product < 2; product++)
                fill_head(t, layer, head, product, layers * heads <= MANY_CURVES, err);
}

static void add_curves(rs_result *r, int layers, int heads, rs_error *err)
{
    static const rs_column columns[] = {
        {.name = "layer", .type = RS_COLUMN_INT},
        {.name = "head", .type = RS_COLUMN_INT},
        {.name = "product", .type = RS_COLUMN_TEXT},
        {.name = "index", .type = RS_COLUMN_INT},
        {.name = "sigma_normalised",
         .type = RS_COLUMN_REAL,
         .formula = "\xCF\x83\xE1\xB5\xA2 / \xCF\x83\xE2\x82\x81"},
        {.name = "null_low",
         .type = RS_COLUMN_REAL,
         .bound = RS_BOUND_LOWER,
         .provenance = "predicted"},
        {.name = "null_high",
         .type = RS_COLUMN_REAL,
         .bound = RS_BOUND_UPPER,
         .provenance = "predicted"},
    };
    rs_table *t;
    stop_on(rs_result_add_table(r, "curves", "Singular value curves", NULL, columns, 7, &t, err),
            err);
    for (int k = 0; k < layers * heads * 2; k++) {
        int product = k % 2, head = k / 2 % heads, layer = k / 2 / heads;
        double sigma[INNER];
        if (layers * heads > MANY_CURVES && head % 64) continue;
        spectrum(sigma, decay_of(layer, head, product), 1);
        for (int i = 0; i < INNER; i++) {
            size_t row;
            stop_on(rs_table_add_row(t, &row, err), err);
            rs_table_set_int(t, row, 0, layer);
            rs_table_set_int(t, row, 1, head);
            stop_on(rs_table_set_text(t, row, 2, products[product], err), err);
            rs_table_set_int(t, row, 3, i + 1);
            rs_table_set_real(t, row, 4, sigma[i]);
            rs_table_set_real(t, row, 5, pow(1 - i / 34.0, 1.3) * 0.93);
            rs_table_set_real(t, row, 6, pow(1 - i / 36.0, 1.1));
        }
    }
}

static void add_balance(rs_result *r, int layers, int heads, rs_error *err)
{
    static const rs_column columns[] = {
        {.name = "layer", .type = RS_COLUMN_INT},
        {.name = "head", .type = RS_COLUMN_INT},
        {.name = "index", .type = RS_COLUMN_INT},
        {.name = "q_norm2",
         .type = RS_COLUMN_REAL,
         .formula = "\xE2\x80\x96q\xE1\xB5\xA2\xE2\x80\x96\xC2\xB2"},
        {.name = "k_norm2",
         .type = RS_COLUMN_REAL,
         .formula = "\xE2\x80\x96k\xE1\xB5\xA2\xE2\x80\x96\xC2\xB2"},
        {.name = "null_low",
         .type = RS_COLUMN_REAL,
         .bound = RS_BOUND_LOWER,
         .provenance = "predicted"},
        {.name = "null_high",
         .type = RS_COLUMN_REAL,
         .bound = RS_BOUND_UPPER,
         .provenance = "predicted"},
    };
    rs_table *t;
    stop_on(rs_result_add_table(r, "balance", "Balance of the factors", NULL, columns, 7, &t, err),
            err);
    int step = layers * heads > MANY_CURVES ? 64 : 1;
    for (int k = 0; k < layers * heads; k += step)
        for (int i = 0; i < 8; i++) {
            size_t row;
            double q = exp(sin(1.3 * k + i) - 0.2 * i), k2 = q * exp(0.35 * cos(2.1 * k + 5 * i));
            stop_on(rs_table_add_row(t, &row, err), err);
            rs_table_set_int(t, row, 0, k / heads);
            rs_table_set_int(t, row, 1, k % heads);
            rs_table_set_int(t, row, 2, i + 1);
            rs_table_set_real(t, row, 3, q);
            rs_table_set_real(t, row, 4, k2);
            rs_table_set_real(t, row, 5, q * 0.8);
            rs_table_set_real(t, row, 6, q / 0.8);
        }
}

enum { STATES = 13, VARIANTS = 4 };

/* Four curves and the published one of each; in two panels. */
static void add_states(rs_result *r, rs_error *err)
{
    static const rs_column columns[] = {
        {.name = "variant", .type = RS_COLUMN_TEXT},
        {.name = "precision", .type = RS_COLUMN_TEXT},
        {.name = "layer", .type = RS_COLUMN_INT},
        {.name = "residual", .type = RS_COLUMN_REAL},
        {.name = "least", .type = RS_COLUMN_REAL},
        {.name = "most", .type = RS_COLUMN_REAL},
        {.name = "published", .type = RS_COLUMN_REAL, .provenance = "published"},
    };
    static const char *const variants[VARIANTS] = {"san", "san+mlp", "san+skip", "full"};
    static const char *const precisions[] = {"f32", "f64"};
    rs_table *t;
    stop_on(rs_result_add_table(r, "states", "States", NULL, columns, 7, &t, err), err);
    for (int k = 0; k < 2 * VARIANTS * STATES; k++) {
        int layer = k % STATES, variant = k / STATES % VARIANTS, precision = k / STATES / VARIANTS;
        double y = pow(10, -layer * (0.05 + 0.11 * (VARIANTS - variant) + 0.1 * precision));
        size_t row;
        stop_on(rs_table_add_row(t, &row, err), err);
        stop_on(rs_table_set_text(t, row, 0, variants[variant], err), err);
        stop_on(rs_table_set_text(t, row, 1, precisions[precision], err), err);
        rs_table_set_int(t, row, 2, layer);
        rs_table_set_real(t, row, 3, y);
        rs_table_set_real(t, row, 4, 0.8 * y);
        rs_table_set_real(t, row, 5, 1.2 * y);
        rs_table_set_real(t, row, 6, y * pow(10, 0.04 * layer));
    }
}

static void add_state_figure(rs_result *r, rs_error *err)
{
    static const char *const keys[] = {"variant", "precision"};
    const rs_lines lines = {
        .table = "states",
        .x = {"layer", "state (0 enters the first block)"},
        .y = {"residual", "relative residual"},
        .low = {"least", NULL},
        .high = {"most", NULL},
        .colour = {"variant", NULL},
        .more = {{.field = "published", .title = "published", .published = true}},
        .facets = {&keys[1], 1},
        .keys = {keys, 2},
        .x_whole = true,
        .log_y = true,
        .y_rule = 1e-4,
        .y_rule_label = "rounding floor"};
    stop_on(rs_result_add_figure(r, "states", "How tokens draw together", "Made up.",
                                 rs_figure_lines(&lines), err),
            err);
}

/* A curve of nine points from -4 to 4, a bound from below under eight of them, 0 in the middle. */
static void add_bounds(rs_result *r, rs_error *err)
{
    static const rs_column columns[] = {{.name = "x", .type = RS_COLUMN_REAL},
                                        {.name = "y", .type = RS_COLUMN_REAL},
                                        {.name = "least", .type = RS_COLUMN_REAL}};
    const rs_lines lines = {.table = "bounds",
                            .x = {"x", "x"},
                            .y = {"y", "y"},
                            .more = {{.field = "least", .title = "at least", .dots = true}},
                            .x_rule = 3.5,
                            .x_rule_label = "published demand",
                            .x_shade = 2.5,
                            .x_shade_label = "proved here"};
    rs_table *t;
    stop_on(rs_result_add_table(r, "bounds", "Bounds", NULL, columns, 3, &t, err), err);
    for (int k = -4; k <= 4; k++) {
        size_t row;
        stop_on(rs_table_add_row(t, &row, err), err);
        rs_table_set_real(t, row, 0, k);
        rs_table_set_real(t, row, 1, 1 + 0.1 * k);
        rs_table_set_real(t, row, 2, 0.1 * abs(k));
    }
    stop_on(rs_result_add_figure(r, "bounds", "What is proved", "Made up.", rs_figure_lines(&lines),
                                 err),
            err);
}

static void add_summary(rs_result *r, int layers, rs_error *err)
{
    static const rs_column columns[] = {
        {.name = "product", .type = RS_COLUMN_TEXT},
        {.name = "heads", .type = RS_COLUMN_INT},
        {.name = "effective_rank_mean", .type = RS_COLUMN_REAL},
        {.name = "effective_rank_min", .type = RS_COLUMN_REAL},
        {.name = "low", .type = RS_COLUMN_INT, .formula = "heads below half of what chance gives"},
        {.name = "healthy", .type = RS_COLUMN_BOOL},
    };
    rs_table *t;
    stop_on(rs_result_add_table(r, "summary", "Summary", NULL, columns, 6, &t, err), err);
    for (int product = 0; product < 2; product++) {
        size_t row;
        stop_on(rs_table_add_row(t, &row, err), err);
        stop_on(rs_table_set_text(t, row, 0, products[product], err), err);
        rs_table_set_int(t, row, 1, layers * 12);
        rs_table_set_real(t, row, 2, 14.25 + product);
        rs_table_set_real(t, row, 3, product ? 11.5 : 2.0625);
        rs_table_set_int(t, row, 4, product ? 0 : 1);
        rs_table_set_bool(t, row, 5, product == 1);
    }
}

/* Two layers of two heads: a path along the skip, one through either head of layer 1, the second a
 * thousandth of the first, and one through a head of both. */
static void add_edges(rs_result *r, rs_error *err)
{
    enum { SKIP = -1, ENTERS = -1 };
    static const rs_column columns[] = {
        {.name = "kind", .type = RS_COLUMN_TEXT},   {.name = "layer", .type = RS_COLUMN_INT},
        {.name = "lane", .type = RS_COLUMN_INT},    {.name = "to_layer", .type = RS_COLUMN_INT},
        {.name = "to_lane", .type = RS_COLUMN_INT}, {.name = "strength", .type = RS_COLUMN_REAL},
    };
    static const struct {
        const char *kind;
        int at[4];
        double strength;
    } rows[] = {
        {"no head", {ENTERS, SKIP, 0, SKIP}, 1}, {"no head", {0, SKIP, 1, SKIP}, 1},
        {"no head", {1, SKIP, 2, SKIP}, 1},      {"one head", {0, SKIP, 1, 0}, 0},
        {"one head", {1, 0, 2, SKIP}, 0},        {"one head", {0, SKIP, 1, 1}, -3},
        {"one head", {1, 1, 2, SKIP}, -3},       {"several heads", {ENTERS, SKIP, 0, 1}, -1},
        {"several heads", {0, 1, 1, 0}, -1},
    };
    static const char *const keys[] = {"kind", "layer", "lane", "to_layer", "to_lane"};
    const rs_edges edges = {.table = "edges",
                            .x = {"layer", "layer"},
                            .y = {"lane", "head"},
                            .x2 = {"to_layer", NULL},
                            .y2 = {"to_lane", NULL},
                            .width = {"strength", "strength"},
                            .colour = {"kind", NULL},
                            .n_x = 2,
                            .n_y = 2,
                            .x_first = "in",
                            .x_last = "out",
                            .y_first = "skip",
                            .keys = {keys, 5}};
    rs_table *t;
    stop_on(rs_result_add_table(r, "edges", "Edges", NULL, columns, 6, &t, err), err);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        size_t row;
        stop_on(rs_table_add_row(t, &row, err), err);
        stop_on(rs_table_set_text(t, row, 0, rows[k].kind, err), err);
        for (size_t c = 0; c < 4; c++)
            if (rows[k].at[c] >= 0) rs_table_set_int(t, row, c + 1, rows[k].at[c]);
        rs_table_set_real(t, row, 5, rows[k].strength);
    }
    stop_on(rs_result_add_figure(r, "lattice", "Paths through a lattice", "Made up.",
                                 rs_figure_edges(&edges), err),
            err);
}

static void add_figures(rs_result *r, int layers, int heads, rs_error *err)
{
    static const rs_figure_field measures[] = {{"effective_rank", "effective rank"},
                                               {"stable_rank", "stable rank"},
                                               {"participation_ratio", "participation ratio"},
                                               {"condition", "condition number"}};
    static const char *const keys[] = {"stack", "attention", "layer", "head", "product"};
    static const char *const curve_keys[] = {"layer", "head", "product"};
    static const char *const point_keys[] = {"layer", "head", "index"};
    const rs_heatmap heatmap = {.table = "heads",
                                .x = {"head", "head"},
                                .y = {"layer", "layer"},
                                .measures = measures,
                                .n_measures = 4,
                                .facets = {&keys[4], 1},
                                .keys = {keys, 5},
                                .n_x = (size_t)heads,
                                .n_y = (size_t)layers};
    const rs_scatter scatter = {.table = "balance",
                                .x = {"q_norm2", "squared norm of query row"},
                                .y = {"k_norm2", "squared norm of key row"},
                                .low = {"null_low", NULL},
                                .high = {"null_high", NULL},
                                .colour = {"layer", "layer"},
                                .keys = {point_keys, 3},
                                .log_x = true,
                                .log_y = true,
                                .diagonal = true};
    stop_on(
        rs_result_add_figure(r, "heatmap", "Rank of every head",
                             "One cell a head. Dark cells have low values; grey cells have none.",
                             rs_figure_heatmap(&heatmap), err),
        err);
    stop_on(
        rs_result_add_figure(r, "spectra", "Singular values",
                             "Singular values of every head divided by the largest. The grey band "
                             "is where random factors of this shape lie (5 to 95 %).",
                             rs_figure_spectrum_curves("curves", (rs_figure_names){curve_keys, 2},
                                                       (rs_figure_names){curve_keys, 3},
                                                       (rs_figure_field){"product", "product"}),
                             err),
        err);
    stop_on(rs_result_add_figure(r, "balance", "Balance of query and key",
                                 "Squared norms of matching rows of the two factors. Weight decay "
                                 "pulls them to the dashed line; the grey band is chance.",
                                 rs_figure_scatter(&scatter), err),
            err);
}

static void add_findings(rs_result *r, int layers, rs_error *err)
{
    rs_finding low = {
        .severity = RS_CRITICAL,
        .code = "qk_low_rank",
        .layer = 3,
        .head = 5,
        .value = 1.99,
        .threshold = 9.75,
        .table = "heads",
        .product = "qk",
        .stack = "encoder",
        .attention = "self",
        .message = "The effective rank 1.99 of this head is below half of the 19.5 that random "
                   "factors of its shape give.",
        .hint = "Look at its singular values; a lower weight decay on attention keeps the rank."};
    stop_on(rs_result_add_finding(r, &low, err), err);
    for (int i = 0; i < 60; i++) {
        rs_finding dead = low;
        dead.severity = i < 5 ? RS_WARN : RS_INFO;
        dead.code = i < 6 ? "dead_head" : "unknown_tensor";
        dead.layer = i < 6 ? i % layers : RS_NULL_INT;
        dead.head = i < 6 ? i : RS_NULL_INT;
        dead.value = i < 6 ? 0.01 * i : (double)NAN;
        dead.threshold = i < 6 ? 0.1 : (double)NAN;
        dead.product = i < 6 ? "ov" : NULL;
        if (i >= 6) dead.table = dead.stack = dead.attention = dead.hint = NULL;
        dead.message =
            i < 6 ? "The norm is far below that of the other heads of the layer."
                  : "Tensor <script>alert(1)</script> has no known role \xE2\x80\xA8 here.";
        stop_on(rs_result_add_finding(r, &dead, err), err);
    }
}

static void add_meta(rs_result *r, int layers, int heads, rs_error *err)
{
    stop_on(rs_result_set_meta(r, "model",
                               json_pack("{s:s,s:i,s:i,s:i,s:i,s:i,s:s,s:[s]}", "family", "bert",
                                         "layers", layers, "d_model", 384, "heads", heads, "d_head",
                                         32, "parameters", 22713216, "dtype", "F32", "files",
                                         "model.safetensors"),
                               err),
            err);
    stop_on(rs_result_set_meta(
                r, "args", json_pack("{s:s,s:b}", "path", "models/all-MiniLM-L6-v2", "spectra", 1),
                err),
            err);
    stop_on(rs_result_set_meta(r, "started", json_string("2026-01-02T03:04:05Z"), err), err);
    stop_on(rs_result_set_meta(r, "seconds", json_real(0.25), err), err);
    stop_on(rs_result_set_meta(r, "machine",
                               json_pack("{s:s,s:i,s:{s:s,s:s,s:n}}", "cpu", "sample", "threads", 2,
                                         "blas", "name", "OpenBLAS", "core", "SkylakeX", "gflops"),
                               err),
            err);
}

static void save(const char *path, rs_status written, const rs_buffer *bytes, rs_error *err)
{
    stop_on(written, err);
    stop_on(rs_output_write(path, bytes->data, bytes->length, NULL, err), err);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: make_sample OUTPUT.html LAYERS HEADS [OUTPUT.json]\n");
        return 2;
    }
    rs_error err = {0};
    int layers = atoi(argv[2]), heads = atoi(argv[3]);
    rs_result *r = rs_result_new("scan");
    if (!r) return 1;
    add_meta(r, layers, heads, &err);
    add_summary(r, layers, &err);
    add_heads(r, layers, heads, &err);
    add_curves(r, layers, heads, &err);
    add_balance(r, layers, heads, &err);
    add_states(r, &err);
    add_state_figure(r, &err);
    add_bounds(r, &err);
    add_edges(r, &err);
    add_figures(r, layers, heads, &err);
    add_findings(r, layers, &err);
    stop_on(rs_result_group_findings(r, &err), &err);
    rs_buffer html = {0}, json = {0};
    save(argv[1], rs_write_html(&html, r, &err), &html, &err);
    if (argc > 4) save(argv[4], rs_write_json(&json, r, &err), &json, &err);
    rs_buffer_free(&html);
    rs_buffer_free(&json);
    const char *columns = getenv("RS_SAMPLE_TERMINAL"); /* also as text, that many columns wide */
    if (columns) {
        rs_buffer out = {0};
        const rs_terminal terminal = {.width = atoi(columns),
                                      .color = getenv("RS_COLOR") != NULL,
                                      .unicode = !getenv("RS_ASCII"),
                                      .tables = getenv("RS_TABLE")};
        stop_on(rs_write_terminal(&out, r, &terminal, &err), &err);
        fwrite(out.data, 1, out.length, stdout);
        rs_buffer_free(&out);
    }
    rs_result_free(r);
    return 0;
}
