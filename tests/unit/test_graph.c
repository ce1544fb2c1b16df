/* test_graph.c: mixers with a given matrix against plain loops over all pairs of tokens, against
 * NumPy (tests/oracle/make_graph_golden.py), their right vectors and the residual about them, and
 * what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph_reference.h"

#include "measures/token_measures.h"
#include "network/arch.h"
#include "network/op_traits.h"

#include <float.h>

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
