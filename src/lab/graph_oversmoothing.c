/*
 * graph_oversmoothing.c: linear message passing Y <- skip Y + M Y W over a few fixed graphs, M =
 * D^-1/2 A D^-1/2: the distance of the tokens to multiples of u = D^1/2 1 falls by at most lambda
 * sigma(W) a layer, lambda the second largest magnitude of an eigenvalue of M (Oono, Suzuki,
 * arXiv 1905.10947; docs/theory/graph.md, 2).
 */
#include "lab/toy.h"

#include "base/memory.h"
#include "measures/token_measures.h"

#include <lapacke.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    NODES = 12,
    PAIRS = NODES * NODES,
    WIDTH = 5,
    STATE = NODES * WIDTH,
    LAYERS = 30,
    GRAPHS = 5,
    DRAWS = 400,
    QUICK_DRAWS = 100
};
enum { CHORDS, STAR, CLIQUES, RANDOM, BARE_RING }; /* all but the last with loops */
static const char *const graph_names[GRAPHS] = {"ring with chords", "star", "two cliques", "random",
                                                "ring without loops"};

/* tests/oracle/lab_expected.py, W = I: lambda; the fall from state 29 to 30; log10 of the distance to
 * multiples of u over the norm; the same to the mean, as it is; log10 with skip 1, about u; log10 of
 * D^-1 A about the mean. */
enum { RATE, FALL, ABOUT_U, ABOUT_MEAN, WITH_SKIP, WALK, NUMBERS };
static const double expected[GRAPHS][NUMBERS] = {
    {0.835027967242447, 0.834732225806445, -2.269979225907, 0.071538097246867, -1.012843009972,
     -2.314353970565},
    {0.500000000000000, 0.499999771720227, -8.165311244843, 0.336586276989481, -2.882574297977,
     -8.481931970398},
    {0.957646084166751, 0.957646084166751, -0.465634255235, 0.343384613258485, -0.240624848293,
     -0.461468827683},
    {0.786607578114712, 0.786607207687929, -2.921543759722, 0.171677849714131, -1.264196504349,
     -2.971167845347},
    {1.000000000000000, 0.999803574364871, -0.064734429391, 0.861520409948472, -0.731968273100,
     -0.064734429391},
};

typedef struct smoothing {
    double numbers[GRAPHS][NUMBERS];
    double own[GRAPHS][LAYERS + 1], mean[GRAPHS][LAYERS + 1]; /* relative residuals */
    double annulled; /* least relative residual about u with skip -1 */
    double largest;  /* ratio of a layer to lambda sigma(W), random W */
    double
        attained; /* of the eigenvector of lambda, W = I: how far from 1, over all graphs the most */
    int64_t draws;
} smoothing;

/* ---- graphs ---- */

static void join(double *a, int i, int j)
{
    a[i * NODES + j] = a[j * NODES + i] = 1;
}

static void make_graph(double *a, int graph)
{
    static const int chords[3][2] = {{0, 4}, {2, 9}, {5, 11}};
    memset(a, 0, PAIRS * sizeof *a);
    for (int i = 0; i < NODES; i++) {
        if (graph != BARE_RING) join(a, i, i);
        if (graph == CHORDS || graph == BARE_RING) join(a, i, (i + 1) % NODES);
        if (graph == STAR) join(a, 0, i);
        for (int j = 0; graph == CLIQUES && j < i; j++)
            if (i / 6 == j / 6) join(a, i, j);
        for (int j = i + 1; graph == RANDOM && j < NODES; j++)
            if (rs_lab_hash(60, (uint32_t)(i * NODES + j)) < 0.3 * 4294967296.0) join(a, i, j);
    }
    for (int c = 0; graph == CHORDS && c < 3; c++)
        join(a, chords[c][0], chords[c][1]);
    if (graph == CLIQUES) join(a, 5, 6);
}

static void roots_of_degrees(double *u, const double *a)
{
    for (int i = 0; i < NODES; i++) {
        u[i] = 0;
        for (int j = 0; j < NODES; j++)
            u[i] += a[i * NODES + j];
        u[i] = sqrt(u[i]);
    }
}

static void make_tokens(double *x)
{
    for (uint32_t i = 0; i < STATE; i++)
        x[i] = rs_lab_hash(61, i) / 2147483648.0 - 1;
}

/* ---- distances ---- */

/* The relative residual of probe's table tokens; u NULL: about the mean. */
static rs_status relative(double *out, const double *x, const double *u, rs_error *err)
{
    const rs_token_options options = {
        .centre = u ? RS_CENTRE_GRAPH : RS_CENTRE_MEAN, .epsilon = 0x1p-53, .right = u};
    rs_token_measures measures;
    void *workspace = rs_malloc(rs_token_workspace(NODES, WIDTH, &options), 1);
    if (!workspace) return rs_fail_memory(err, "an experiment", 1);
    rs_status status =
        rs_token_measure_f64(&measures, x, NODES, WIDTH, WIDTH, &options, workspace, err);
    rs_free(workspace);
    *out = measures.relative_residual;
    return status;
}

/* ||X - u u'X/|u|^2||_F by plain sums. */
static double distance(const double *x, const double *u)
{
    double square = 0, sum = 0;
    for (int i = 0; i < NODES; i++)
        square += u[i] * u[i];
    for (int k = 0; k < WIDTH; k++) {
        double along = 0;
        for (int i = 0; i < NODES; i++)
            along += u[i] * x[i * WIDTH + k] / square;
        for (int i = 0; i < NODES; i++) {
            double rest = x[i * WIDTH + k] - u[i] * along;
            sum += rest * rest;
        }
    }
    return sqrt(sum);
}

/* ---- runs ---- */

static rs_status open_layers(rs_toy *toy, int32_t depth, double skip, const rs_context *context,
                             rs_error *err)
{
    return rs_toy_open(toy,
                       json_pack("{s:i, s:i, s:s, s:f, s:s, s:{s:s, s:s}}", "depth", (int)depth,
                                 "d_model", WIDTH, "norm", "none", "skip_mixer", skip, "mlp",
                                 "none", "init", "wv", "identity", "wo", "none"),
                       0, context, err);
}

/* Relative residuals of all states, about u and about the mean (both may be NULL); matrix: the
 * engine's own, or NULL. */
static rs_status pass_messages(double *about_u, double *about_mean, double *matrix, const double *a,
                               rs_graph_form form, double skip, const rs_context *context,
                               rs_error *err)
{
    double x[STATE], u[NODES];
    rs_toy toy;
    rs_toy_trace trace;
    make_tokens(x);
    roots_of_degrees(u, a);
    RS_TRY(open_layers(&toy, LAYERS, skip, context, err));
    rs_status status = rs_toy_mix(&toy, a, NODES, form, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, NODES, true, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    if (matrix) memcpy(matrix, rs_toy_mixing(&trace, 0, 0, 0), PAIRS * sizeof *matrix);
    for (int32_t l = 0; l <= LAYERS && status == RS_OK; l++) {
        if (about_u) status = relative(&about_u[l], rs_toy_state(&trace, l, 0), u, err);
        if (about_mean && status == RS_OK)
            status = relative(&about_mean[l], rs_toy_state(&trace, l, 0), NULL, err);
    }
    rs_toy_trace_free(&trace);
    return status;
}

/* The eigenvalue of second largest magnitude, and its eigenvector [NODES]. */
static rs_status second_eigenvalue(double *lambda, double *vector, const double *matrix,
                                   rs_error *err)
{
    double v[PAIRS], w[NODES], work[8 * NODES];
    memcpy(v, matrix, sizeof v);
    lapack_int info = LAPACKE_dsyev_work(LAPACK_COL_MAJOR, 'V', 'L', NODES, v, NODES, w, work,
                                         sizeof work / sizeof *work);
    if (info != 0)
        return rs_fail(err, RS_E_LAPACK, "graph-oversmoothing", NULL, "dsyev: %d", (int)info);
    int at = w[NODES - 2] >= -w[0] ? NODES - 2 : 0; /* ascending; the last is 1 */
    *lambda = fabs(w[at]);
    memcpy(vector, v + at * NODES, NODES * sizeof *vector);
    return RS_OK;
}

/* The distance behind one layer of weights w over that before it, over lambda sigma(w). */
static rs_status one_ratio(double *ratio, rs_toy *toy, const double *x, const double *u,
                           const double *w, double lambda, rs_error *err)
{
    rs_toy_trace trace;
    RS_TRY(rs_toy_set(toy, rs_toy_values(toy, 0), w, NULL, err));
    rs_weights_changed(toy->weights);
    RS_TRY(rs_toy_run(&trace, toy, x, 1, NODES, false, err));
    *ratio = distance(rs_toy_state(&trace, 1, 0), u) / distance(x, u) /
             (lambda * rs_norm_spectral(w, WIDTH, WIDTH));
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* Random tokens and weights, and the tokens that attain the bound. */
static rs_status ratios(smoothing *s, rs_toy *toy, const double *u, const double *vector,
                        double lambda, uint64_t seed, rs_error *err)
{
    double x[STATE], w[WIDTH * WIDTH], ratio = NAN;
    rs_random random = rs_random_new(seed, 0x6772617068);
    for (int64_t i = 0; i < s->draws; i++) {
        rs_draw_gaussian(x, STATE, 1, &random);
        rs_draw_gaussian(w, WIDTH * WIDTH, 1 / sqrt(WIDTH), &random);
        RS_TRY(one_ratio(&ratio, toy, x, u, w, lambda, err));
        s->largest = fmax(s->largest, ratio);
    }
    for (int i = 0; i < STATE; i++)
        x[i] = vector[i / WIDTH] + u[i / WIDTH];
    for (int i = 0; i < WIDTH * WIDTH; i++)
        w[i] = i % (WIDTH + 1) == 0;
    RS_TRY(one_ratio(&ratio, toy, x, u, w, lambda, err));
    s->attained = fmax(s->attained, fabs(ratio - 1));
    return RS_OK;
}

static rs_status measure_graph(smoothing *s, int graph, const rs_context *context, rs_error *err)
{
    double a[PAIRS], matrix[PAIRS], vector[NODES], u[NODES], rest[LAYERS + 1];
    double *found = s->numbers[graph], *own = s->own[graph], *mean = s->mean[graph];
    make_graph(a, graph);
    roots_of_degrees(u, a);
    RS_TRY(pass_messages(own, mean, matrix, a, RS_GRAPH_SYMMETRIC, 0, context, err));
    RS_TRY(second_eigenvalue(&found[RATE], vector, matrix, err));
    /* the norm along u stays, so this is the fall of the distance too, but for its last share */
    double size = sqrt(1 - own[LAYERS] * own[LAYERS]),
           before = sqrt(1 - own[LAYERS - 1] * own[LAYERS - 1]);
    found[FALL] = own[LAYERS] / size * before / own[LAYERS - 1];
    found[ABOUT_U] = log10(own[LAYERS]);
    found[ABOUT_MEAN] = mean[LAYERS];
    RS_TRY(pass_messages(rest, NULL, NULL, a, RS_GRAPH_SYMMETRIC, 1, context, err));
    found[WITH_SKIP] = log10(rest[LAYERS]);
    RS_TRY(pass_messages(rest, NULL, NULL, a, RS_GRAPH_SYMMETRIC, -1, context, err));
    for (int l = 1; l <= LAYERS; l++)
        s->annulled = fmin(s->annulled, rest[l]);
    RS_TRY(pass_messages(NULL, rest, NULL, a, RS_GRAPH_ROW, 0, context, err));
    found[WALK] = log10(rest[LAYERS]);
    rs_toy toy;
    RS_TRY(open_layers(&toy, 1, 0, context, err));
    rs_status status = rs_toy_mix(&toy, a, NODES, RS_GRAPH_SYMMETRIC, err);
    if (status == RS_OK)
        status = ratios(s, &toy, u, vector, found[RATE], context->seed + (uint64_t)graph, err);
    rs_toy_close(&toy);
    return status;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_STATE, RS_LAB_Y("relative_residual", "residual over norm",
                             "|X - u u'X/|u|^2|_F/|X|_F, u the roots of the degrees; u = 1 where "
                             "the series says mean"));
static const rs_table_kind table_kind = {"lab", "graph_oversmoothing", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Message passing ends at multiples of the roots of the degrees",
    .about = "Relative residual by state of linear message passing without skip, W = I, over five "
             "graphs of 12 nodes in symmetric form, about multiples of u = D^1/2 1; and, for the "
             "star, about the mean, which never sees the collapse. A ring of even length without "
             "loops has the eigenvalue -1 and does not collapse.",
    .log_y = true,
};

static rs_status claim_graph(rs_lab_report *report, const smoothing *s, int graph, rs_error *err)
{
    static const struct {
        const char *text;
        double tolerance;
    } rows[NUMBERS] = {
        [RATE] = {"second largest |eigenvalue|", 1e-12},
        [FALL] = {"fall of the distance to multiples of u in layer 30", 1e-6},
        [ABOUT_U] = {"log10 of residual over norm about u, state 30", 1e-6},
        [ABOUT_MEAN] = {"residual over norm about the mean, state 30", 1e-9},
        [WITH_SKIP] = {"log10 of residual over norm about u, skip 1, state 30", 1e-9},
        [WALK] = {"D^-1 A: log10 of residual over norm about the mean, state 30", 1e-6},
    };
    char text[140];
    for (int c = 0; c < NUMBERS; c++) {
        snprintf(text, sizeof text, "%s: %s", graph_names[graph], rows[c].text);
        RS_TRY((c == RATE ? rs_lab_compute : rs_lab_expect)(
            report, text, expected[graph][c], s->numbers[graph][c], rows[c].tolerance, err));
    }
    return RS_OK;
}

static rs_status write_up(rs_lab_report *report, const smoothing *s, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int g = 0; g < GRAPHS; g++) {
        for (int l = 0; l <= LAYERS; l++)
            RS_TRY(rs_lab_curves_add(table, graph_names[g], l, s->own[g][l], err));
        for (int l = 0; g == STAR && l <= LAYERS; l++)
            RS_TRY(rs_lab_curves_add(table, "star, about the mean", l, s->mean[g][l], err));
        RS_TRY(claim_graph(report, s, g, err));
    }
    RS_TRY(rs_lab_expect(report, "all graphs, skip -1, which annuls u: least residual over norm", 1,
                         s->annulled, 1e-9, err));
    RS_TRY(rs_lab_at_most(report,
                          "random tokens and weights: largest ratio of a layer to its bound",
                          s->largest, 1 + 1e-12, err));
    return rs_lab_at_most(report,
                          "tokens along the second eigenvector, W = I: how far the ratio is from 1",
                          s->attained, 1e-12, err);
}

static rs_status run_graph_oversmoothing(rs_lab_report *report, const rs_lab_options *options,
                                         const rs_context *context, rs_error *err)
{
    smoothing *s = rs_calloc(1, sizeof *s);
    if (!s) return rs_fail_memory(err, "an experiment", sizeof *s);
    s->draws = options->quick ? QUICK_DRAWS : DRAWS;
    s->annulled = INFINITY;
    rs_status status = RS_OK;
    for (int g = 0; g < GRAPHS && status == RS_OK; g++)
        status = measure_graph(s, g, context, err);
    if (status == RS_OK) status = write_up(report, s, err);
    rs_free(s);
    RS_TRY(status);
    return options->quick ? rs_lab_say_quick(report, "100 random layers a graph, not 400", err)
                          : RS_OK;
}

const rs_lab_experiment rs_lab_graph_oversmoothing = {
    "graph-oversmoothing",
    "Graphs over-smooth by the same law",
    "Oono, Suzuki 2020; docs/theory/graph.md, 2",
    "Linear message passing over five graphs of 12 nodes in symmetric form: the distance to "
    "multiples of the roots of the degrees falls by at most lambda_2 sigma(W) a layer, at that "
    "rate "
    "in the end where W = I; about the mean there is nothing to see; a skip of 1 slows it, a ring "
    "without loops and a skip of -1 hold it apart. After Oono, Suzuki, Graph neural networks "
    "exponentially lose expressive power for node classification, ICLR 2020 (arXiv 1905.10947).",
    run_graph_oversmoothing,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
