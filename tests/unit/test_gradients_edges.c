/*
 * test_gradients_edges.c: derivatives by what enters a network (states, memory), what a tape takes,
 * and what the way back must withstand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mapping.h"
#include "gradient_support.h"
#include "mixer_builder.h"
#include "property.h"

#include <unistd.h>

/* A pass forward and back, and what it told. */
typedef struct way {
    gradient_case c;
    int32_t *targets;
    double *entered, *memory; /* derivatives by what enters the first layer, and by the memory */
    volatile sig_atomic_t cancel;
    bool cancels;
    told_all *all;
    int64_t memory_width;
    rs_context context;
    uint64_t tape;
    double loss;
} way;

static rs_status hear_entering(void *user, int32_t layer, const rs_state_view *view, rs_error *err)
{
    way *w = user;
    (void)err;
    if (w->cancels) w->cancel = 1;
    if (layer > 0) return RS_OK;
    size_t count = (size_t)(view->rows * view->cols);
    w->entered = malloc((count + 1) * sizeof *w->entered);
    memcpy(w->entered, view->data, count * sizeof *w->entered);
    return RS_OK;
}

static rs_status hear_memory(void *user, const double *gradient, int64_t rows, int64_t width,
                             rs_error *err)
{
    way *w = user;
    (void)err;
    w->memory_width = width;
    free(w->memory); /* told behind every layer, the last time complete */
    w->memory = malloc((size_t)(rows * width + 1) * sizeof *w->memory);
    memcpy(w->memory, gradient, (size_t)(rows * width) * sizeof *w->memory);
    return RS_OK;
}

static rs_status keep_told(void *user, const rs_gradient_view *view, rs_error *err)
{
    return keep_gradient(((way *)user)->all, view, err);
}

static rs_status go(way *w, rs_error *err)
{
    gradient_case *c = &w->c;
    rs_gradient_tap tap = {
        .user = w, .parameter = keep_told, .state = hear_entering, .memory = hear_memory};
    const rs_gradient_tap *taps[] = {&tap};
    rs_gradients *gradients;
    w->context = (rs_context){.threads = 2, .cancel = &w->cancel};
    w->all = calloc(1, sizeof *w->all);
    assert_int_equal(rs_weights_open(&c->weights, RS_PRECISION_F64, 1 << 28, err), RS_OK);
    assert_int_equal(rs_runner_open(&c->runner, &c->loose->network, c->weights, &w->context, err),
                     RS_OK);
    assert_int_equal(rs_gradients_open(&gradients, &c->loose->network, RS_PRECISION_F64, &c->plan,
                                       taps, 1, &w->context, err),
                     RS_OK);
    rs_status status =
        rs_runner_gradient(&w->loss, c->runner, c->batch, &c->loss, gradients, NULL, 0, err);
    if (status == RS_OK) status = rs_gradients_finish(gradients, err);
    w->tape = rs_runner_tape(c->runner);
    rs_gradients_close(gradients);
    return status;
}

static way *way_new(const built *b, uint64_t seed)
{
    way *w = calloc(1, sizeof *w);
    int64_t rows = b->begin[b->batch.samples];
    rs_random random = rs_random_new(seed, 79);
    w->targets = malloc((size_t)(rows + 1) * sizeof *w->targets);
    w->c = (gradient_case){.name = "drawn", .batch = &b->batch, .loose = loose_new(&b->network)};
    w->c.loss = draw_loss(&b->network, &b->batch, w->targets, &random);
    return w;
}

static void way_free(way *w)
{
    rs_runner_close(w->c.runner);
    rs_weights_close(w->c.weights);
    loose_free(w->c.loose);
    told_free(w->all);
    free(w->entered);
    free(w->memory);
    free(w->targets);
    free(w);
}

/* The slope of the loss where x [n] moves along v, by differences of two steps. */
static bool slope_along(way *w, double *x, const double *v, size_t n, double *slope)
{
    double slopes[2];
    for (int k = 0; k < 2; k++) {
        double h = k ? 1e-4 : 2e-4, losses[4];
        const double steps[] = {h, -h, 2 * h, -2 * h};
        for (int s = 0; s < 4; s++) {
            for (size_t i = 0; i < n; i++)
                x[i] += steps[s] * v[i];
            losses[s] = loss_of(&w->c);
            for (size_t i = 0; i < n; i++)
                x[i] -= steps[s] * v[i];
        }
        slopes[k] = (8 * (losses[0] - losses[1]) - (losses[2] - losses[3])) / (12 * h);
    }
    *slope = slopes[1];
    return fabs(slopes[0] - slopes[1]) <= 1e-7 * (1 + fabs(slopes[1])); /* no kink between */
}

static int by_input(way *w, const double *given, const double *gradient, size_t n, uint64_t seed,
                    int *compared)
{
    rs_random random = rs_random_new(seed, 80);
    double *x = (double *)(uintptr_t)given, *v = malloc((n + 1) * sizeof *v), dot = 0, slope;
    for (size_t i = 0; i < n; i++)
        dot += gradient[i] * (v[i] = rs_random_normal(&random));
    bool smooth = n > 0 && slope_along(w, x, v, n, &slope);
    free(v);
    *compared += smooth;
    return smooth && !(fabs(slope - dot) <= 1e-6 * (1 + fabs(dot)));
}

static void by_states_and_memory(void **state)
{
    (void)state;
    int compared = 0;
    for (int t = property_start(150, 7000); property_next(&t);) {
        built *b = built_new(property_seed(), 10);
        if (b->batch.memory || b->batch.states) {
            way *w = way_new(b, property_seed());
            rs_error err = {0};
            assert_int_equal(go(w, &err), RS_OK);
            size_t rows = (size_t)b->begin[b->batch.samples];
            if (b->batch.states)
                assert_int_equal(by_input(w, b->states, w->entered,
                                          rows * (size_t)b->network.d_model, property_seed(),
                                          &compared),
                                 0);
            if (w->memory)
                assert_int_equal(
                    by_input(w, b->memory, w->memory,
                             (size_t)(b->memory_begin[b->batch.samples] * w->memory_width),
                             property_seed(), &compared),
                    0);
            way_free(w);
        }
        built_free(b);
    }
    property_holds(1);
    assert_true(compared >= 20);
}

/* What is said beforehand is what the records hold, but for what texts' lengths and memory decide. */
static void tape_is_foreseen(void **state)
{
    (void)state;
    int compared = 0;
    for (int t = property_start(80, 8000); property_next(&t);) {
        built *b = built_new(property_seed(), 12);
        bool other = b->batch.memory != NULL;
        for (int32_t l = 0; l < b->network.n_layers; l++)
            for (int32_t i = 0; i < b->layers[l].n_branches; i++) {
                const rs_attention_op *op = rs_branch_attention(&b->layers[l].branches[i]);
                other = other || (op && op->relative.r.weight);
            }
        way *w = way_new(b, property_seed());
        rs_error err = {0};
        w->c.plan.recompute = t % 2;
        assert_int_equal(go(w, &err), RS_OK);
        int64_t rows = b->begin[b->batch.samples];
        uint64_t foreseen = rs_tape_bytes(&w->c.loose->network, RS_PRECISION_F64, &w->c.plan, rows);
        if (!other && rows > 0) {
            compared++;
            assert_true(w->tape <= foreseen);
            if (!w->c.plan.recompute) assert_int_equal(w->tape, foreseen);
        }
        way_free(w);
        built_free(b);
    }
    property_holds(1);
    assert_true(compared >= 40);
}

static void is_cancelled(void **state)
{
    (void)state;
    built *b = built_new(8003, 12);
    way *w = way_new(b, 1);
    rs_error err = {0};
    w->cancels = true; /* behind the last layer's output: in the way back */
    assert_int_equal(go(w, &err), RS_E_INTERRUPTED);
    way_free(w);
    built_free(b);
}

/* A network of one attention whose tokens are `x` [n, 4]. */
static way *one_attention(built *b, int64_t n, double size, bool constant)
{
    int64_t d = 4;
    *b = (built){.random = rs_random_new(5, 5), .dtype = RS_F64};
    b->network = (rs_network){.family = "drawn", .d_model = d, .layers = b->layers, .n_layers = 1};
    b->network.embedding.width = d;
    b->network.embedding.scale = 1;
    rs_branch branch = {.kind = RS_BRANCH_ATTENTION, .skip = 1, .scale = 1};
    branch.attention = (rs_attention_op){.heads = 1,
                                         .kv_heads = 1,
                                         .head_dim = d,
                                         .value_dim = d,
                                         .scale = 1,
                                         .temperature = 1,
                                         .mix_softmax = 1};
    rs_dense *maps[] = {&branch.attention.q, &branch.attention.k, &branch.attention.v,
                        &branch.attention.o};
    for (int i = 0; i < 4; i++)
        *maps[i] = (rs_dense){.weight = tensor(b, RS_F64, d * d, 0, i < 2 ? size : 1),
                              .rows = d,
                              .cols = d,
                              .out_is_row = true,
                              .in = d,
                              .out = d,
                              .run = d,
                              .stride = d};
    b->layers[0].n_branches = 1;
    b->layers[0].branches[0] = branch;
    b->begin[1] = n;
    b->states = malloc((size_t)(n * d) * sizeof *b->states);
    for (int64_t i = 0; i < n * d; i++)
        b->states[i] =
            constant ? b->states[i % d] = 1.0 + (double)(i % d) : rs_random_normal(&b->random);
    b->batch = (rs_batch){.samples = 1, .begin = b->begin, .states = b->states};
    way *w = way_new(b, 1);
    w->c.loss = (rs_loss){.kind = RS_LOSS_SQUARE, .weight = 1, .at_state = true};
    return w;
}

static double largest_told(const way *w, const char *name)
{
    double most = 0;
    for (int i = 0; i < w->all->n; i++) {
        const told *t = &w->all->items[i];
        for (int64_t k = 0; strcmp(t->parameter.name, name) == 0 && t->parameter.tensor &&
                            k < t->parameter.out * t->parameter.in;
             k++)
            most = isfinite(t->values[k]) ? fmax(most, fabs(t->values[k])) : INFINITY;
    }
    return most;
}

/* Logits of 1e300: attention picks one key, of equal keys each has its share, and nothing is NaN. */
static void huge_logits(void **state)
{
    (void)state;
    rs_error err = {0};
    for (int constant = 0; constant < 2; constant++) {
        built *b = calloc(1, sizeof *b);
        way *w = one_attention(b, 5, 1e150, constant);
        assert_int_equal(go(w, &err), RS_OK);
        assert_true(isfinite(w->loss) && isfinite(largest_told(w, "v")));
        assert_true(largest_told(w, "v") > 0 && isfinite(largest_told(w, "q")));
        /* The values' gradient is sum over rows of P^T dY x^T: of equal keys each P is 1/5, so that it
         * is what small logits give. */
        double share = largest_told(w, "v");
        way_free(w);
        built_free(b);
        if (!constant) continue;
        b = calloc(1, sizeof *b);
        w = one_attention(b, 5, 1e-150, true);
        assert_int_equal(go(w, &err), RS_OK);
        assert_true(fabs(largest_told(w, "v") - share) <= 1e-12 * share);
        way_free(w);
        built_free(b);
    }
}

/* The derivative by a residual scale near 0 is what it is at 0: the way back finds it without the
 * branch's output, from what it multiplied by the scale, and a scale of 1e-320 leaves few digits of that. */
static void scales_near_zero(void **state)
{
    (void)state;
    const double scales[] = {0, 1e-320, -1e-320, 0x1p-21, -0x1p-19, 0x1p-19};
    double first = 0;
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++)
        for (int recompute = 0; recompute < 2; recompute++) {
            built *b = calloc(1, sizeof *b);
            way *w = one_attention(b, 5, 1, false);
            rs_error err = {0};
            double found = NAN;
            w->c.plan.recompute = recompute;
            /* the loose copy is the test's own */
            ((rs_layer *)(void *)w->c.loose->network.layers)->branches[0].scale = scales[k];
            assert_int_equal(go(w, &err), RS_OK);
            for (int i = 0; i < w->all->n; i++)
                if (w->all->items[i].parameter.part == RS_OF_SCALE)
                    found = w->all->items[i].values[0];
            if (k == 0) first = found;
            assert_true(fabs(first) > 1e-3);
            assert_true(fabs(found - first) <= 200 * fabs(scales[k]) + 1e-13 * fabs(first));
            way_free(w);
            built_free(b);
        }
}

/* ---- a softmax that gives nearly all to one key ---- */

enum { N = 5, D = 4 };

/* out [N, D] = x [N, D] W^T, W stored by rows. */
static void map_plainly(long double out[N][D], long double x[N][D], const rs_dense *map)
{
    const double *w = (const double *)(const void *)map->weight->data;
    for (int i = 0; i < N; i++)
        for (int u = 0; u < D; u++) {
            out[i][u] = 0;
            for (int c = 0; c < D; c++)
                out[i][u] += (long double)w[u * D + c] * x[i][c];
        }
}

/* Row i of P, and of dS from dP, without a difference of large numbers. */
static void softmax_plainly(long double p[N], long double ds[N], const long double s[N],
                            const long double dp[N])
{
    int star = 0;
    long double sum = 0, along = 0;
    for (int j = 0; j < N; j++)
        star = s[j] > s[star] ? j : star;
    for (int j = 0; j < N; j++)
        sum += p[j] = expl(s[j] - s[star]);
    for (int j = 0; j < N; j++)
        p[j] /= sum, along += p[j] * (dp[j] - dp[star]);
    for (int j = 0; j < N; j++)
        ds[j] = p[j] * (dp[j] - dp[star] - along);
}

/* The gradient by the queries' map, [D, D], of |X + O(P V)|^2 / 2. */
static void queries_plainly(long double g[D][D], const rs_attention_op *op, const double *states)
{
    long double x[N][D], q[N][D], k[N][D], v[N][D], mixed[N][D] = {{0}}, y[N][D], s[N][N], p[N][N];
    long double none[N] = {0}, ds[N][N], d_mixed[N][D], dq[N][D] = {{0}};
    const double *o = (const double *)(const void *)op->o.weight->data;
    for (int i = 0; i < N * D; i++)
        x[i / D][i % D] = states[i];
    map_plainly(q, x, &op->q), map_plainly(k, x, &op->k), map_plainly(v, x, &op->v);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            s[i][j] = 0;
            for (int c = 0; c < D; c++)
                s[i][j] += q[i][c] * k[j][c];
        }
        softmax_plainly(p[i], ds[i], s[i], none);
        for (int j = 0; j < N; j++)
            for (int c = 0; c < D; c++)
                mixed[i][c] += p[i][j] * v[j][c];
    }
    map_plainly(y, mixed, &op->o);
    for (int i = 0; i < N; i++) {
        long double dp[N] = {0};
        for (int c = 0; c < D; c++) {
            d_mixed[i][c] = 0;
            for (int u = 0; u < D; u++)
                d_mixed[i][c] += (y[i][u] + x[i][u]) * (long double)o[u * D + c];
        }
        for (int j = 0; j < N; j++)
            for (int c = 0; c < D; c++)
                dp[j] += d_mixed[i][c] * v[j][c];
        softmax_plainly(p[i], ds[i], s[i], dp);
        for (int j = 0; j < N; j++)
            for (int c = 0; c < D; c++)
                dq[i][c] += ds[i][j] * k[j][c];
    }
    for (int u = 0; u < D; u++)
        for (int c = 0; c < D; c++) {
            g[u][c] = 0;
            for (int i = 0; i < N; i++)
                g[u][c] += dq[i][u] * x[i][c];
        }
}

/* The weights of the other keys go down to 1e-20: what queries get goes down with them, with all of
 * its digits. */
static void nearly_one_hot(void **state)
{
    (void)state;
    rs_error err = {0};
    double least = 1;
    for (double size = 1; size < 24; size += 1) {
        built *b = calloc(1, sizeof *b);
        way *w = one_attention(b, N, size, false);
        long double g[D][D];
        double norm = 0, off = 0;
        queries_plainly(g, &b->layers[0].branches[0].attention, b->states);
        assert_int_equal(go(w, &err), RS_OK);
        for (int i = 0; i < w->all->n; i++) {
            const told *t = &w->all->items[i];
            for (int e = 0; strcmp(t->parameter.name, "q") == 0 && e < D * D; e++) {
                norm += (double)(g[e / D][e % D] * g[e / D][e % D]);
                off += pow(t->values[e] - (double)g[e / D][e % D], 2);
            }
        }
        if (!(sqrt(off) <= 1e-10 * sqrt(norm)))
            fail_msg("size %g: off by %.3g of %.3g", size, sqrt(off), sqrt(norm));
        least = fmin(least, sqrt(norm));
        way_free(w);
        built_free(b);
    }
    assert_true(least < 1e-6);
}

/* ---- norms that have nothing to divide by ---- */

static void zero_gain(const rs_norm_op *norm)
{
    if (norm->kind == RS_NORM_NONE || !norm->gain) return;
    memset((uint8_t *)(uintptr_t)norm->gain->data, 0, (size_t)norm->gain->bytes);
}

/* Gains of 0: nothing divides by one, and what is behind it still has its gradient. */
static void gains_of_zero(void **state)
{
    (void)state;
    for (int t = property_start(60, 9000); property_next(&t);) {
        built *b = built_new(property_seed(), 12);
        for (int32_t l = 0; l < b->network.n_layers; l++)
            for (int32_t k = 0; k < b->layers[l].n_branches; k++) {
                const rs_branch *branch = &b->layers[l].branches[k];
                const rs_norm_op *norms[] = {&branch->before, &branch->inside, &branch->after};
                zero_gain(norms[(l + k) % 3]);
                if (branch->kind == RS_BRANCH_ATTENTION) zero_gain(&branch->attention.k_norm);
            }
        if (property_seed() % 4 == 0) zero_gain(&b->network.final_norm);
        assert_int_equal(check_network("gains of 0", &b->network, &b->batch, 1, property_seed()),
                         0);
        built_free(b);
    }
    property_holds(1);
}

/* Rows of equal numbers under a LayerNorm without eps are 0/0, forward and back: that is no number, and
 * ends nothing. With an eps they are 0, and nothing goes back from there. */
static void constant_rows(void **state)
{
    (void)state;
    rs_error err = {0};
    for (int with_eps = 0; with_eps < 2; with_eps++) {
        built *b = calloc(1, sizeof *b);
        way *w = one_attention(b, 5, 1, false);
        for (int i = 0; i < 20; i++)
            b->states[i] = 3 + i / 4;
        w->c.loose->network.layers[0].branches[0].before =
            (rs_norm_op){.kind = RS_NORM_LAYERNORM, .dim = 4, .eps = with_eps ? 1e-5 : 0};
        assert_int_equal(go(w, &err), RS_OK);
        assert_int_equal(isfinite(w->loss) != 0, with_eps);
        assert_int_equal(isfinite(largest_told(w, "v")) != 0, with_eps);
        if (with_eps) assert_true(largest_told(w, "v") == 0 && largest_told(w, "q") == 0);
        for (int i = 0; i < 20 && with_eps; i++)
            assert_true(isfinite(w->entered[i]));
        way_free(w);
        built_free(b);
    }
}

/* ---- a file that is cut short on the way back ---- */

static rs_status cut_short(void *user, int32_t layer, const rs_state_view *view, rs_error *err)
{
    (void)layer, (void)view, (void)err;
    assert_int_equal(ftruncate(*(const int *)user, 0), 0);
    return RS_OK;
}

static void weights_cut_short(void **state)
{
    (void)state;
    enum { PAGES = 1 << 18 };
    rs_checkpoint_file file = {.name = (char *)"weights"};
    rs_checkpoint checkpoint = {.files = &file, .n_files = 1};
    built *b = calloc(1, sizeof *b);
    way *w = one_attention(b, 5, 1, false);
    rs_network *network = &w->c.loose->network;
    rs_tensor *queries = (rs_tensor *)(uintptr_t)network->layers[0].branches[0].attention.q.weight;
    const uint8_t *own = queries->data;
    char path[] = "/tmp/rankscope-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, own, queries->bytes) == (ssize_t)queries->bytes);
    assert_int_equal(ftruncate(fd, PAGES), 0);
    assert_int_equal(rs_mapping_open(&file.mapping, path, NULL), RS_OK);
    rs_guard_install();
    queries->data = file.mapping->data;
    network->checkpoint = &checkpoint;
    const rs_gradient_tap tap = {.user = &fd, .state = cut_short}, *taps[] = {&tap};
    rs_gradients *gradients;
    rs_weights *weights;
    rs_runner *runner;
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 28, NULL), RS_OK);
    assert_int_equal(rs_runner_open(&runner, network, weights, &w->context, NULL), RS_OK);
    assert_int_equal(rs_gradients_open(&gradients, network, RS_PRECISION_F64, &w->c.plan, taps, 1,
                                       &w->context, NULL),
                     RS_OK);
    assert_int_equal(
        rs_runner_gradient(NULL, runner, w->c.batch, &w->c.loss, gradients, NULL, 0, NULL),
        RS_E_TRUNCATED_WHILE_MAPPED);
    rs_gradients_close(gradients);
    rs_runner_close(runner);
    rs_weights_close(weights);
    rs_mapping_close(file.mapping);
    close(fd);
    unlink(path);
    queries->data = own;
    network->checkpoint = NULL;
    w->all = calloc(1, sizeof *w->all); /* nothing was told */
    way_free(w);
    built_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_states_and_memory), cmocka_unit_test(tape_is_foreseen),
        cmocka_unit_test(is_cancelled),         cmocka_unit_test(huge_logits),
        cmocka_unit_test(scales_near_zero),     cmocka_unit_test(nearly_one_hot),
        cmocka_unit_test(gains_of_zero),        cmocka_unit_test(constant_rows),
        cmocka_unit_test(weights_cut_short),
    };
    return cmocka_run_group_tests_name("gradients_edges", tests, NULL, NULL);
}
