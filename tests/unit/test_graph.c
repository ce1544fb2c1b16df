/* test_graph.c: mixers with a given matrix against plain loops over all pairs of tokens, against
 * NumPy (tests/oracle/make_graph_golden.py), their right vectors and the residual about them, and
 * what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"
#include "forward_reference.h"
#include "property.h"

#include "base/memory.h"
#include "measures/token_measures.h"
#include "network/arch.h"
#include "network/graph.h"
#include "network/op_traits.h"

#include <float.h>

enum { LAYERS = 2, MOST_SAMPLES = 3, MOST_HEADS = 6 };

/* ---- drawn graphs ---- */

typedef struct drawn {
    built *b;
    rs_arena *arena;
    const rs_graph *graph;
    double *a; /* [n, n] */
    int64_t n;
} drawn;

static rs_status read_row(void *user, double *row, int64_t i, rs_error *err)
{
    const drawn *g = user;
    (void)err;
    memcpy(row, g->a + i * g->n, (size_t)g->n * sizeof *row);
    return RS_OK;
}

static rs_status build_graph(drawn *g, rs_graph_form form, rs_error *err)
{
    const rs_graph_source source = {
        .name = "drawn.npy", .nodes = g->n, .read_row = read_row, .user = g};
    return rs_graph_build(&g->graph, g->arena, NULL, &source, form, err);
}

/* Few edges and many, one node, a node without edges. */
static void draw_weights(drawn *g, rs_graph_form form)
{
    double density = chance(g->b, 0.5) ? 0.08 : 0.7;
    int64_t n = g->n, lonely = chance(g->b, 0.3) ? draw(g->b, 0, n - 1) : -1;
    g->a = calloc((size_t)(n * n), sizeof *g->a);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double w = chance(g->b, density) ? rs_random_normal(&g->b->random) : 0;
            if (form != RS_GRAPH_GIVEN) w = fabs(w);
            if (form == RS_GRAPH_SYMMETRIC && j < i) w = g->a[j * n + i];
            g->a[i * n + j] = i == lonely || (form == RS_GRAPH_SYMMETRIC && j == lonely) ? 0 : w;
        }
    if (n == 1 || lonely != 0) g->a[0] = 0.25; /* some edge there is */
    if (n > 1 && lonely == 0) g->a[n + 1] = 0.25;
}

static rs_branch drawn_branch(drawn *g, int64_t d)
{
    built *b = g->b;
    rs_branch branch = {.kind = RS_BRANCH_GRAPH, .skip = chance(b, 0.5) ? 0.5 : 0, .scale = 1};
    if (chance(b, 0.5)) branch.before = norm_of(b, d);
    branch.graph =
        (rs_graph_op){.graph = g->graph, .matrix = g->graph->matrix, .heads = 1, .value_heads = 1};
    rs_graph_op *op = &branch.graph;
    bool merged = chance(b, 0.4), identity = chance(b, 0.4);
    if (g->graph->form == RS_GRAPH_ATTENTION) {
        op->key_heads = (int32_t)draw(b, 1, 2);
        op->heads = op->key_heads * (int32_t)draw(b, 1, 3);
        op->value_heads = chance(b, 0.5) ? op->key_heads : 1;
        op->head_dim = draw(b, 1, 7);
        op->scale = 1 / sqrt((double)op->head_dim);
        op->temperature = chance(b, 0.5) ? 1 : 0.3;
        op->q = dense_of(b, d, op->heads * op->head_dim, chance(b, 0.3));
        op->k = dense_of(b, d, op->key_heads * op->head_dim, chance(b, 0.3));
    }
    if (identity && !merged && op->heads > 1 && d % op->heads == 0)
        op->value_heads = op->heads;
    else if (identity)
        op->value_heads = 1;
    op->value_dim = merged ? d : identity ? d / op->value_heads : draw(b, 1, 9);
    if (!identity) op->v = dense_of(b, d, op->value_heads * op->value_dim, chance(b, 0.3));
    if (!merged) op->o = dense_of(b, op->heads * op->value_dim, d, chance(b, 0.3));
    return branch;
}

static drawn drawn_new(uint64_t seed, rs_graph_form form)
{
    drawn g = {.b = calloc(1, sizeof(built)), .arena = rs_arena_new()};
    rs_error err;
    built *b = g.b;
    b->random = rs_random_new(seed, 91);
    b->dtype = chance(b, 0.5) ? RS_F32 : RS_F64;
    g.n = chance(b, 0.1) ? 1 : chance(b, 0.1) ? draw(b, 250, 300) : draw(b, 2, 40);
    draw_weights(&g, form);
    if (build_graph(&g, form, &err) != RS_OK) fail_msg("%s", err.what);
    int64_t d = draw(b, 1, 12);
    b->network =
        (rs_network){.family = "drawn", .d_model = d, .layers = b->layers, .n_layers = LAYERS};
    b->network.embedding.width = d;
    for (int32_t l = 0; l < LAYERS; l++) {
        b->layers[l].n_branches = 1;
        b->layers[l].branches[0] = drawn_branch(&g, d);
    }
    b->batch = (rs_batch){.samples = (int32_t)draw(b, 1, MOST_SAMPLES), .begin = b->begin};
    for (int32_t s = 0; s < b->batch.samples; s++)
        b->begin[s + 1] = b->begin[s] + (chance(b, 0.2) ? 0 : g.n);
    int64_t count = b->begin[b->batch.samples] * d;
    b->states = malloc((size_t)(count + 1) * sizeof *b->states);
    for (int64_t i = 0; i < count; i++)
        b->states[i] = rs_random_normal(&b->random);
    b->batch.states = b->states;
    return g;
}

static void drawn_free(drawn *g)
{
    rs_arena_free(g->arena);
    free(g->a);
    built_free(g->b);
}

/* ---- the definitions ---- */

/* m: [n, n] of head h. q, k: what the maps give of the sample's tokens. */
static void ref_matrix(double *m, const drawn *g, const rs_graph_op *op, int32_t h, const double *q,
                       const double *k)
{
    int64_t n = g->n, dim = op->head_dim;
    int32_t group = op->key_heads ? h / (op->heads / op->key_heads) : 0;
    for (int64_t i = 0; i < n; i++) {
        double row = 0, largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++) {
            double column = 0, dot = 0;
            row = 0;
            for (int64_t t = 0; t < n; t++) {
                row += g->a[i * n + t];
                column += g->a[j * n + t];
            }
            for (int64_t c = 0; c < dim && q; c++)
                dot += q[(i * op->heads + h) * dim + c] * k[(j * op->key_heads + group) * dim + c];
            double w = g->a[i * n + j], *out = &m[i * n + j];
            *out = w;
            if (w == 0) continue;
            if (g->graph->form == RS_GRAPH_ROW) *out = w / row;
            if (g->graph->form == RS_GRAPH_SYMMETRIC) *out = w / sqrt(row * column);
            if (q) *out = dot * op->scale / op->temperature;
            largest = fmax(largest, *out);
        }
        for (int64_t j = 0; j < n && q; j++)
            if (g->a[i * n + j] != 0) sum += m[i * n + j] = exp(m[i * n + j] - largest);
        for (int64_t j = 0; j < n && q; j++)
            if (g->a[i * n + j] != 0) m[i * n + j] /= sum;
    }
}

/* y: [n, d] of one sample; matrices: [heads, n, n]. */
static void ref_graph(double *y, double *matrices, const drawn *g, const rs_graph_op *op,
                      const double *x, int64_t d)
{
    int64_t n = g->n, dim = op->value_dim, inner = op->heads * dim;
    double *q = op->q.weight ? ref_dense_rows(x, n, &op->q) : NULL;
    double *k = op->k.weight ? ref_dense_rows(x, n, &op->k) : NULL;
    double *v = op->v.weight ? ref_dense_rows(x, n, &op->v) : NULL;
    double *mixed = calloc((size_t)(n * inner), sizeof *mixed);
    const double *values = v ? v : x;
    for (int32_t h = 0; h < op->heads; h++) {
        double *m = matrices + h * n * n;
        int32_t group = h / (op->heads / op->value_heads);
        ref_matrix(m, g, op, h, q, k);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t c = 0; c < dim; c++)
                    mixed[i * inner + h * dim + c] +=
                        m[i * n + j] * values[(j * op->value_heads + group) * dim + c];
    }
    for (int64_t i = 0; i < n; i++) {
        memset(y + i * d, 0, (size_t)d * sizeof *y);
        if (op->o.weight) ref_dense(y + i * d, mixed + i * inner, &op->o);
        for (int64_t c = 0; c < inner && !op->o.weight; c++)
            y[i * d + c % dim] += mixed[i * inner + c];
    }
    double *used[] = {q, k, v, mixed};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
}

/* ---- what the engine tells ---- */

typedef struct heard {
    double *states[LAYERS + 1];
    double *matrices[LAYERS][MOST_SAMPLES][MOST_HEADS];
    bool causal;
} heard;

static double *as_double(const void *data, bool single, int64_t count)
{
    double *copy = malloc(((size_t)count + 1) * sizeof *copy);
    for (int64_t i = 0; i < count; i++)
        copy[i] = single ? (double)((const float *)data)[i] : ((const double *)data)[i];
    return copy;
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    (void)site, (void)err;
    ((heard *)user)->states[layer] =
        as_double(view->data, view->precision == RS_PRECISION_F32, view->rows * view->cols);
    return RS_OK;
}

static rs_status on_matrix(void *user, const rs_attention_view *view, rs_error *err)
{
    double **place = &((heard *)user)->matrices[view->layer][view->sample][view->head];
    (void)err;
    assert_true(!view->probabilities && view->n == view->keys && view->ld == view->n && !*place);
    assert_true(view->causal == ((heard *)user)->causal);
    *place = as_double(view->mixing, view->precision == RS_PRECISION_F32, view->n * view->n);
    return RS_OK;
}

static heard run_engine(const rs_network *network, const rs_batch *batch, rs_precision precision,
                        int threads, bool matrices)
{
    heard h = {.causal = rs_branch_traits(&network->layers[0].branches[0])
                             ->causal(&network->layers[0].branches[0])};
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    rs_context context = {.threads = threads};
    rs_tap tap = {.user = &h, .sites = 1u << RS_SITE_BLOCK_OUT, .state = on_state};
    if (matrices) tap.attention = on_matrix;
    const rs_tap *taps[] = {&tap};
    assert_int_equal(rs_weights_open(&weights, precision, 1 << 28, &err), RS_OK);
    if (rs_runner_open(&runner, network, weights, &context, &err) != RS_OK)
        fail_msg("%s", err.what);
    if (rs_runner_run(runner, batch, taps, 1, &err) != RS_OK) fail_msg("%s", err.what);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return h;
}

static void heard_free(heard *h)
{
    for (int l = 0; l <= LAYERS; l++)
        free(h->states[l]);
    for (int l = 0; l < LAYERS; l++)
        for (int s = 0; s < MOST_SAMPLES; s++)
            for (int i = 0; i < MOST_HEADS; i++)
                free(h->matrices[l][s][i]);
}

static void is_near(const double *a, const double *b, int64_t count, double tolerance,
                    const char *what)
{
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(b[i]));
    for (int64_t i = 0; i < count; i++)
        worst = fmax(worst, isfinite(a[i]) ? fabs(a[i] - b[i]) : INFINITY);
    if (worst > tolerance * largest) fail_msg("%s off by %g of %g", what, worst, largest);
}

/* The reference continues from the engine's own states. */
static void compare(const heard *h, const drawn *g, double tolerance)
{
    const built *b = g->b;
    int64_t d = b->network.d_model, n = g->n;
    double *m = malloc((size_t)(MOST_HEADS * n * n) * sizeof *m);
    double *x = malloc((size_t)(n * d) * sizeof *x), *y = malloc((size_t)(n * d) * sizeof *y);
    for (int32_t l = 0; l < LAYERS; l++)
        for (int32_t s = 0; s < b->batch.samples; s++) {
            const rs_branch *branch = &b->layers[l].branches[0];
            int64_t from = b->begin[s] * d;
            if (b->begin[s + 1] == b->begin[s]) continue;
            memcpy(x, h->states[l] + from, (size_t)(n * d) * sizeof *x);
            ref_norm_rows(x, n, d, &branch->before);
            ref_graph(y, m, g, &branch->graph, x, d);
            for (int64_t i = 0; i < n * d; i++)
                y[i] += branch->skip * h->states[l][from + i];
            is_near(h->states[l + 1] + from, y, n * d, tolerance, "state");
            for (int32_t i = 0; h->matrices[l][s][0] && i < branch->graph.heads; i++)
                is_near(h->matrices[l][s][i], m + i * n * n, n * n, tolerance, "matrix");
        }
    free(m);
    free(x);
    free(y);
}

static void drawn_graphs(void **state)
{
    (void)state;
    int sparse = 0, dense = 0, lonely = 0;
    for (int t = property_start(240, 2000); property_next(&t);) {
        drawn g = drawn_new(property_seed(), (rs_graph_form)(t % RS_GRAPH_FORMS));
        const rs_network *network = &g.b->network;
        heard exact = run_engine(network, &g.b->batch, RS_PRECISION_F64, 1, true);
        heard single = run_engine(network, &g.b->batch, RS_PRECISION_F32, 2, t % 2);
        heard threads = run_engine(network, &g.b->batch, RS_PRECISION_F64, 3, t % 2);
        compare(&exact, &g, 1e-12);
        compare(&single, &g, 3e-5);
        size_t bytes = (size_t)(g.b->begin[g.b->batch.samples] * network->d_model) * sizeof(double);
        for (int l = 0; l <= LAYERS; l++)
            assert_memory_equal(exact.states[l], threads.states[l], bytes);
        sparse += g.graph->row_begin != NULL;
        dense += g.graph->row_begin == NULL;
        lonely += g.graph->isolated > 0;
        heard_free(&exact);
        heard_free(&single);
        heard_free(&threads);
        drawn_free(&g);
    }
    assert_true(sparse > 40 && dense > 40 && lonely > 40);
    property_holds(1);
}

/* ---- what the description says ---- */

/* Each statement of the row against the matrix itself. */
static void what_is_said(void **state)
{
    (void)state;
    int known = 0, distributions = 0, lower = 0;
    for (int t = property_start(300, 9000); property_next(&t);) {
        drawn g = drawn_new(property_seed(), (rs_graph_form)(t % RS_GRAPH_FORMS));
        const rs_branch *branch = &g.b->layers[0].branches[0];
        const rs_op_traits *traits = rs_branch_traits(branch);
        int64_t n = g.n, d = g.b->network.d_model, nodes = 0;
        double *m = malloc((size_t)(MOST_HEADS * n * n) * sizeof *m);
        double *x = malloc((size_t)(n * d) * sizeof *x), *y = malloc((size_t)(n * d) * sizeof *y);
        for (int64_t i = 0; i < n * d; i++)
            x[i] = rs_random_normal(&g.b->random);
        ref_graph(y, m, &g, &branch->graph, x, d);
        const char *why;
        const double *u = rs_network_right_vector(&g.b->network, &nodes, &why);
        double c = NAN, sum = traits->row_sum(branch);
        bool causal = true;
        for (int64_t i = 0; i < n; i++) {
            double image = 0, row = 0, least = 0;
            for (int64_t j = 0; j < n; j++) {
                if (j > i && m[i * n + j] != 0) causal = false;
                image += u ? m[i * n + j] * u[j] : 0;
                row += m[i * n + j];
                least = fmin(least, m[i * n + j]);
            }
            if (u && u[i] == 0) assert_true(fabs(image) <= 1e-11);
            if (u && u[i] != 0 && isnan(c)) c = image / u[i];
            if (u && u[i] != 0)
                assert_true(fabs(image - c * u[i]) <= 1e-11 * fmax(1, fabs(c * u[i])));
            if (!isnan(sum)) assert_true(fabs(row - sum) <= 1e-12 * fmax(1, fabs(sum)));
            if (!traits->not_stochastic(branch)) assert_true(least >= 0 && fabs(row - 1) < 1e-12);
        }
        assert_true(traits->causal(branch) == causal);
        assert_true(traits->tokens(branch) == n && !u == (g.graph->right == NULL));
        /* collapse is known of every symmetric graph, and of row-stochastic ones without lonely nodes */
        if (g.graph->form == RS_GRAPH_SYMMETRIC) assert_true(u && fabs(c - 1) < 1e-11);
        if (g.graph->form <= RS_GRAPH_ATTENTION && !g.graph->isolated) assert_non_null(u);
        known += u != NULL;
        lower += causal;
        distributions += !traits->not_stochastic(branch);
        free(m);
        free(x);
        free(y);
        drawn_free(&g);
    }
    assert_true(known > 60 && distributions > 40 && lower > 2);
    property_holds(1);
}

/* A sample of another length than the graph is refused, an empty one is not. */
static void other_lengths(void **state)
{
    (void)state;
    drawn g = drawn_new(3, RS_GRAPH_ROW);
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    rs_context context = {.threads = 1};
    const int64_t begin[] = {0, g.n, 2 * g.n + 1};
    double *x = calloc((size_t)((2 * g.n + 1) * g.b->network.d_model), sizeof *x);
    const rs_batch batch = {.samples = 2, .begin = begin, .states = x};
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 20, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, &g.b->network, weights, &context, &err), RS_OK);
    assert_int_equal(rs_runner_run(runner, &batch, NULL, 0, &err), RS_E_INPUT_SHAPE);
    assert_non_null(strstr(err.where, "sample 1"));
    assert_non_null(strstr(err.what, "the mixing matrix of layer 0 is given"));
    rs_runner_close(runner);
    rs_weights_close(weights);
    free(x);
    drawn_free(&g);
}

/* ---- refusals of numbers ---- */

static void bad_numbers(void **state)
{
    (void)state;
    const struct {
        double a[4];
        rs_graph_form form;
        const char *what;
    } rows[] = {
        {{0, 1, NAN, 0}, RS_GRAPH_ROW, "entry (1, 0) is nan"},
        {{0, INFINITY, 1, 0}, RS_GRAPH_GIVEN, "entry (0, 1) is inf"},
        {{0, -1, 1, 0}, RS_GRAPH_ROW, "no weights below 0"},
        {{0, -1, -1, 0}, RS_GRAPH_SYMMETRIC, "no weights below 0"},
        {{0, -1, 1, 0}, RS_GRAPH_ATTENTION, "no weights below 0"},
        {{0, 1, 2, 0}, RS_GRAPH_SYMMETRIC, "the same weight across the diagonal"},
        {{0, 1, 0, 0}, RS_GRAPH_SYMMETRIC, "the same weight across the diagonal"},
        {{0, 0, 0, 0}, RS_GRAPH_ROW, "the graph has no edges"},
        {{DBL_MAX, DBL_MAX, 1, 0}, RS_GRAPH_ROW, "more than a double holds"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        drawn g = {.arena = rs_arena_new(), .n = 2, .a = malloc(sizeof rows[i].a)};
        rs_error err;
        memcpy(g.a, rows[i].a, sizeof rows[i].a);
        assert_int_equal(build_graph(&g, rows[i].form, &err), RS_E_TENSOR_VALUE);
        assert_null(g.graph);
        assert_string_equal(err.where, "drawn.npy");
        if (!strstr(err.what, rows[i].what)) fail_msg("%s", err.what);
        rs_arena_free(g.arena);
        free(g.a);
    }
}

/* ---- NumPy ---- */

static double generated(uint32_t tag, uint32_t k)
{
    uint32_t h = (k + 1) * 2654435761u + tag * 2246822519u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    h *= 3266489917u;
    h ^= h >> 16;
    return (double)h / 2147483648.0 - 1;
}

static void generate_weights(const rs_network *network, const rs_init *init)
{
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_graph_op *op = &network->layers[l].branches[0].graph;
        const rs_dense *maps[] = {&op->q, &op->k, &op->v, &op->o};
        for (uint32_t w = 0; w < 4; w++) {
            float *out = maps[w]->weight ? rs_init_numbers(init, maps[w]->weight) : NULL;
            for (uint32_t i = 0; out && i < maps[w]->weight->count; i++)
                out[i] = (float)(1 / sqrt((double)maps[w]->in) *
                                 generated(100 + 10 * (uint32_t)l + w, i));
        }
    }
}

static void is_list(const double *found, const json_t *list, int64_t count, const char *what)
{
    double expected[1024];
    assert_int_equal(json_array_size(list), count);
    for (int64_t i = 0; i < count; i++)
        expected[i] = json_number_value(json_array_get(list, (size_t)i));
    is_near(found, expected, count, 1e-13, what);
}

static void golden_case(const json_t *item)
{
    rs_init *init;
    rs_network *network;
    rs_error err;
    double x[64];
    assert_int_equal(rs_init_open(&init, NULL, 1, &err), RS_OK);
    if (rs_network_from_arch(&network, json_object_get(item, "arch"),
                             RS_TEST_DATA "/graph/cases.json", init, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    generate_weights(network, init);
    int64_t n = network->layers[0].branches[0].graph.graph->nodes, d = network->d_model;
    const int64_t begin[] = {0, n};
    for (int64_t i = 0; i < n * d; i++)
        x[i] = (double)(float)generated(1, (uint32_t)i);
    const rs_batch batch = {.samples = 1, .begin = begin, .states = x};
    heard h = run_engine(network, &batch, RS_PRECISION_F64, 2, true);
    const json_t *states = json_object_get(item, "states"), *ms = json_object_get(item, "matrices");
    for (int l = 0; l < LAYERS; l++)
        is_list(h.states[l + 1], json_array_get(states, (size_t)l), n * d, "state");
    for (size_t i = 0; i < json_array_size(ms); i++)
        is_list(h.matrices[0][0][i], json_array_get(ms, i), n * n, "matrix");
    const char *why;
    const double *u = rs_network_right_vector(network, &n, &why);
    const json_t *right = json_object_get(item, "right");
    assert_true((u == NULL) == json_is_null(right));
    if (u) {
        rs_token_options options = {
            .centre = RS_CENTRE_GRAPH, .epsilon = DBL_EPSILON / 2, .right = u};
        void *workspace = malloc(rs_token_workspace(n, d, &options) + 64);
        rs_token_measures got;
        is_list(u, right, n, "right vector");
        assert_int_equal(
            rs_token_measure_f64(&got, h.states[LAYERS], n, d, d, &options, workspace, &err),
            RS_OK);
        double fro = json_number_value(json_object_get(item, "residual_fro"));
        double composite = json_number_value(json_object_get(item, "residual_1inf"));
        assert_true(fabs(got.residual_fro - fro) <= 1e-13 * got.norm_fro);
        assert_true(fabs(got.residual_1inf - composite) <= 1e-13 * got.norm_1inf);
        free(workspace);
    }
    heard_free(&h);
    rs_network_close(network);
    rs_init_close(init);
}

static void golden(void **state)
{
    (void)state;
    json_t *cases = json_load_file(RS_TEST_DATA "/graph/cases.json", 0, NULL);
    assert_true(json_array_size(cases) > 60);
    for (size_t i = 0; i < json_array_size(cases); i++)
        golden_case(json_array_get(cases, i));
    json_decref(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_graphs),  cmocka_unit_test(what_is_said),
        cmocka_unit_test(other_lengths), cmocka_unit_test(bad_numbers),
        cmocka_unit_test(golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
