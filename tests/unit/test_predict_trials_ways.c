/* test_predict_trials_ways.c: trials against PyTorch, differences, theory, and between their ways; what
 * they do when something fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "trials_support.h"

static const rs_context context = {.threads = 2, .seed = 11};

static rs_trials *run_text(const char *text, rs_trials_request request, const rs_context *with)
{
    drawn *planned;
    rs_trials *trials;
    OK(draw_text(&planned, text, 1, &err));
    request.opener = (rs_trials_opener){open_text, undraw, (void *)(uintptr_t)text};
    OK(rs_trials_run(&trials, planned->network, &request, with, &err));
    undraw(NULL, planned);
    return trials;
}

/* ---- PyTorch (tests/oracle/make_trials_golden.py) ---- */

static const struct {
    const char *name;
    rs_trials_quantity quantity;
} golden_names[] = {{"F2", RS_TRIALS_SQUARE},
                    {"C", RS_TRIALS_SUM},
                    {"residual", RS_TRIALS_RESIDUAL},
                    {"cosine", RS_TRIALS_COSINE},
                    {"keys", RS_TRIALS_CONCENTRATION},
                    {"logits", RS_TRIALS_LOGIT},
                    {"gQ", RS_TRIALS_QUERY},
                    {"gK", RS_TRIALS_KEY},
                    {"gV", RS_TRIALS_VALUE},
                    {"gO", RS_TRIALS_OUTPUT},
                    {"gUp", RS_TRIALS_UP},
                    {"gGate", RS_TRIALS_GATE},
                    {"gDown", RS_TRIALS_DOWN},
                    {"dX", RS_TRIALS_STATE}};

static double real_of(const json_t *item, const char *name)
{
    return json_number_value(json_object_get(item, name));
}

static int check_row(const rs_trials *trials, int32_t t, int32_t l, const json_t *row)
{
    int checked = 0;
    for (size_t i = 0; i < sizeof golden_names / sizeof *golden_names; i++) {
        const json_t *expected = json_object_get(row, golden_names[i].name);
        double number = rs_trials_number(trials, t, l, golden_names[i].quantity);
        if (!expected) {
            assert_true(isnan(number));
            continue;
        }
        double square = rs_trials_number(trials, t, l, RS_TRIALS_SQUARE);
        bool zero = trials->n_layers && golden_names[i].quantity == RS_TRIALS_RESIDUAL;
        if (!alike(number, json_number_value(expected), 1e-9, zero ? 1e-28 * square : 1e-28))
            fail_msg("trial %d layer %d %s: %.17g, not %.17g", t, l, golden_names[i].name, number,
                     json_number_value(expected));
        checked++;
    }
    return checked;
}

static void test_golden(void **state)
{
    (void)state;
    json_error_t problem;
    json_t *cases = json_load_file(RS_TEST_DATA "/predict/trials.json", 0, &problem), *item;
    size_t c;
    int checked = 0;
    assert_non_null(cases);
    json_array_foreach(cases, c, item)
    {
        char *text = json_dumps(json_object_get(item, "arch"), 0);
        const json_t *golden = json_object_get(item, "trials");
        rs_trials_request request =
            request_of((int64_t)real_of(item, "n"), real_of(item, "norm2"), real_of(item, "rho"),
                       (int32_t)json_array_size(golden));
        request.after_final_norm = json_is_true(json_object_get(item, "after"));
        request.way = RS_TRIALS_BATCHED;
        rs_trials *trials = run_text(text, request, &context);
        for (int32_t t = 0; t < trials->trials; t++)
            for (int32_t l = 0; l <= trials->n_layers; l++)
                checked += check_row(trials, t, l,
                                     json_array_get(json_array_get(golden, (size_t)t), (size_t)l));
        rs_trials_free(trials);
        rs_memory_free_json(text);
    }
    json_decref(cases);
    assert_true(checked > 250);
}

/* ---- central differences of the loss, the network written out anew ---- */

enum { N = 3, D = 4, WIDTH = 5, LAYERS = 2 };
typedef struct tiny {
    double w[LAYERS][6][D * WIDTH]; /* q k v o up down, [out, in] */
    double x[N * D], g[N * D];
    double gain[LAYERS][2]; /* of the norm behind each branch */
} tiny;

static void tiny_map(double *out, const double *w, const double *in, int outs, int ins)
{
    for (int i = 0; i < N; i++)
        for (int o = 0; o < outs; o++) {
            out[i * outs + o] = 0;
            for (int c = 0; c < ins; c++)
                out[i * outs + o] += w[o * ins + c] * in[i * ins + c];
        }
}

/* x += y, then LayerNorm. */
static void tiny_post(double *x, const double *y, double gain)
{
    for (int i = 0; i < N; i++) {
        double mean = 0, square = 0;
        for (int c = 0; c < D; c++)
            mean += (x[i * D + c] += y[i * D + c]) / D;
        for (int c = 0; c < D; c++)
            square += (x[i * D + c] - mean) * (x[i * D + c] - mean) / D;
        for (int c = 0; c < D; c++)
            x[i * D + c] = gain * (x[i * D + c] - mean) / sqrt(square + 1e-5);
    }
}

/* Two heads, causal; GELU. */
static double tiny_loss(const tiny *t)
{
    enum { HEAD = D / 2 };
    double x[N * D], q[N * D], k[N * D], v[N * D], mixed[N * D], y[N * D], u[N * WIDTH], loss = 0;
    memcpy(x, t->x, sizeof x);
    for (int l = 0; l < LAYERS; l++) {
        tiny_map(q, t->w[l][0], x, D, D);
        tiny_map(k, t->w[l][1], x, D, D);
        tiny_map(v, t->w[l][2], x, D, D);
        memset(mixed, 0, sizeof mixed);
        for (int h = 0; h < D; h += HEAD)
            for (int i = 0; i < N; i++) {
                double p[N], sum = 0;
                for (int j = 0; j <= i; j++) {
                    p[j] = 0;
                    for (int c = h; c < h + HEAD; c++)
                        p[j] += q[i * D + c] * k[j * D + c] / sqrt(HEAD);
                    sum += p[j] = exp(p[j]);
                }
                for (int j = 0; j <= i; j++)
                    for (int c = h; c < h + HEAD; c++)
                        mixed[i * D + c] += p[j] / sum * v[j * D + c];
            }
        tiny_map(y, t->w[l][3], mixed, D, D);
        tiny_post(x, y, t->gain[l][0]);
        tiny_map(u, t->w[l][4], x, WIDTH, D);
        for (int i = 0; i < N * WIDTH; i++)
            u[i] *= 0.5 * erfc(-u[i] / sqrt(2));
        tiny_map(y, t->w[l][5], u, D, WIDTH);
        tiny_post(x, y, t->gain[l][1]);
    }
    for (int i = 0; i < N * D; i++)
        loss += t->g[i] * x[i];
    return loss;
}

static double tiny_square(tiny *t, double *w, int count)
{
    const double step = 1e-5;
    double sum = 0;
    for (int i = 0; i < count; i++) {
        double was = w[i];
        w[i] = was + step;
        double above = tiny_loss(t);
        w[i] = was - step;
        double slope = (above - tiny_loss(t)) / (2 * step);
        w[i] = was;
        sum += slope * slope;
    }
    return sum;
}

/* Gains of a law that has one number. */
static void set_gains(drawn *planned, const double gain[LAYERS][2])
{
    for (int32_t l = 0; l < LAYERS; l++)
        for (int32_t b = 0; b < 2; b++) {
            rs_norm_op *norm = &planned->network->layers[l].branches[b].after;
            const rs_weight_law law = {.kind = RS_LAW_NORMAL, .mean = gain[l][b]};
            OK(rs_init_tensor_by(&norm->gain, planned->init, RS_ROLE_NORM_MIXER, l, &law, 1,
                                 &norm->dim, &err));
        }
}

static void check_differences(const double gain[LAYERS][2])
{
    static const char text[] = "{\"depth\": 2, \"d_model\": 4, \"heads\": 2, \"seq_len\": 3, "
                               "\"norm\": \"post\", \"mask\": \"causal\", \"mlp\": \"gelu\", "
                               "\"mlp_width\": 5}";
    static const char *const names[] = {"q", "k", "v", "o", "up", "down"};
    static const rs_trials_quantity of[] = {RS_TRIALS_QUERY,  RS_TRIALS_KEY, RS_TRIALS_VALUE,
                                            RS_TRIALS_OUTPUT, RS_TRIALS_UP,  RS_TRIALS_DOWN};
    rs_trials_request request = request_of(N, 4, 0.3, 2);
    request.way = RS_TRIALS_BATCHED;
    rs_trials *trials;
    drawn *planned;
    OK(draw_text(&planned, text, 1, &err));
    set_gains(planned, gain);
    OK(rs_trials_run(&trials, planned->network, &request, &context, &err));
    for (int32_t trial = 0; trial < 2; trial++) {
        tiny t;
        memcpy(t.gain, gain, sizeof t.gain);
        OK(rs_trials_input(t.x, D, &request.input, context.seed, trial, &err));
        for (int i = 0; i < N; i++) {
            rs_random random = rs_random_new(rs_trials_seed(context.seed, trial), (uint64_t)i);
            rs_random_normals(&random, t.g + i * D, D);
        }
        for (int32_t l = 0; l < LAYERS; l++)
            for (int m = 0; m < 6; m++)
                OK(rs_trials_weight(t.w[l][m], planned->network, l, m / 4, names[m], context.seed,
                                    trial, &err));
        for (int32_t l = 0; l < LAYERS; l++)
            for (int m = 0; m < 6; m++) {
                double expected = tiny_square(&t, t.w[l][m], m < 4 ? D * D : D * WIDTH);
                double got = rs_trials_number(trials, trial, l, of[m]);
                if (!alike(got, expected, 1e-6, 1e-12))
                    fail_msg("layer %d %s: %.12g, not %.12g", l, names[m], got, expected);
            }
        double expected = tiny_square(&t, t.x, N * D);
        assert_true(alike(rs_trials_number(trials, trial, 0, RS_TRIALS_STATE), expected, 1e-6, 0));
    }
    undraw(NULL, planned);
    rs_trials_free(trials);
}

static void test_differences(void **state)
{
    (void)state;
    static const double ones[LAYERS][2] = {{1, 1}, {1, 1}},
                        others[LAYERS][2] = {{1.5, 0.6}, {0.01, 40}};
    check_differences(ones);
    check_differences(others);
}

/* ---- both ways, each with its own draws, have the same law ---- */

static void assert_same_law(const rs_trials *a, const rs_trials *b)
{
    for (int32_t l = 0; l <= a->n_layers; l++) {
        const rs_trials_row *x = &a->rows[l], *y = &b->rows[l];
        if (!(fabs(x->rho - y->rho) <= 5 * hypot(x->rho_se, y->rho_se) + 1e-12))
            fail_msg("layer %d: rho %g and %g (%g, %g)", l, x->rho, y->rho, x->rho_se, y->rho_se);
        for (int q = 0; q < RS_TRIALS_QUANTITIES; q++) {
            const rs_trials_stat *s = &x->of[q], *t = &y->of[q];
            assert_int_equal(s->n, t->n);
            if (isnan(s->log_mean) || s->log_mean == -INFINITY) continue;
            if (!(fabs(s->log_mean - t->log_mean) <= 5 * hypot(s->log_se, t->log_se) + 1e-9))
                fail_msg("layer %d %s: %g and %g (%g, %g)", l, quantity_names[q], s->log_mean,
                         t->log_mean, s->log_se, t->log_se);
        }
    }
}

static void test_ways_agree(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"depth\": 3, \"d_model\": 24, \"heads\": 3, \"seq_len\": 8, \"norm\": \"post\", "
        "\"mlp\": \"relu\", \"mlp_width\": 24}",
        "{\"depth\": 2, \"d_model\": 16, \"heads\": 2, \"seq_len\": 6, \"norm\": \"pre\", "
        "\"mlp\": \"gelu\", \"mlp_width\": 32, \"mask\": \"causal\", \"init\": {\"wv\": "
        "\"uniform(-0.3, 0.3)\"}}"};
    for (size_t i = 0; i < 2; i++) {
        rs_trials_request request = request_of(i ? 6 : 8, 16, 0.1, 300);
        request.way = RS_TRIALS_BATCHED;
        rs_trials *batched = run_text(texts[i], request, &context);
        request.way = RS_TRIALS_ENGINE;
        rs_trials *engine = run_text(texts[i], request, &context);
        assert_same_law(batched, engine);
        rs_trials_free(batched);
        rs_trials_free(engine);
    }
}

/* ---- theory ---- */

static void test_theory(void **state)
{
    (void)state;
    static const struct {
        const char *norm, *mlp;
        double rho, d;
    } cases[] = {{"post", "relu", 0, 64},
                 {"pre", "gelu", 0.2, 64},
                 {"pre", "swiglu", -0.02, 96},
                 {"none", "linear", 0.1, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"depth\": 6, \"d_model\": %g, \"heads\": 4, \"seq_len\": 16, \"norm\": "
                 "\"%s\", \"mlp\": \"%s\", \"mlp_width\": %g, \"branch_mixer\": 0.5}",
                 cases[i].d, cases[i].norm, cases[i].mlp, 2 * cases[i].d);
        drawn *planned;
        rs_theory_model *model;
        rs_theory_row rows[7];
        rs_trials_request request = request_of(16, cases[i].d, cases[i].rho, 60);
        OK(draw_text(&planned, text, 3, &err));
        OK(rs_theory_model_open(&model, planned->network, &request.input, &rs_theory_stored, &err));
        OK(rs_theory_run(rows, rs_theory_model_network(model), &(rs_theory_settings){0}, &err));
        rs_trials *trials = run_text(text, request, &context);
        for (int32_t l = 0; l <= 6; l++) {
            const rs_trials_row *row = &trials->rows[l];
            if (!(fabs(row->rho - rows[l].rho) <= 0.03 + 1.5 / cases[i].d + 3 * row->rho_se))
                fail_msg("%s: layer %d: rho %g, theory %g", text, l, row->rho, rows[l].rho);
            double square = row->of[RS_TRIALS_SQUARE].log_mean;
            if (!(fabs(square - rows[l].ln_square) < 0.25))
                fail_msg("%s: layer %d: ln F2 %g, theory %g", text, l, square, rows[l].ln_square);
            double value = row->of[RS_TRIALS_VALUE].log_mean;
            bool missing = isnan(rows[l].ln_value) && i == 3; /* no theory of it without norms */
            if (l < 6 && !missing && !(fabs(value - rows[l].ln_value) < 0.5))
                fail_msg("%s: layer %d: ln gV %g, theory %g", text, l, value, rows[l].ln_value);
        }
        rs_trials_free(trials);
        rs_theory_model_close(model);
        undraw(NULL, planned);
    }
}

/* ---- extremes ---- */

/* It leaves the doubles: counted, and no number of the rest is poisoned. */
static void test_explosion(void **state)
{
    (void)state;
    static const char text[] = "{\"depth\": 40, \"d_model\": 8, \"seq_len\": 4, \"norm\": "
                               "\"none\", \"mlp\": \"linear\", \"mlp_width\": 8, \"branch_mlp\": "
                               "1e9}";
    for (int way = RS_TRIALS_BATCHED; way <= RS_TRIALS_ENGINE; way++) {
        rs_trials_request request = request_of(4, 8, 0, 5);
        request.way = (rs_trials_way)way;
        rs_trials *trials = run_text(text, request, &context);
        assert_int_equal(trials->left_forward, 5);
        assert_true(trials->left_layer > 10 && trials->left_layer < 25);
        for (int32_t l = 0; l <= 40; l++)
            for (int q = 0; q < RS_TRIALS_QUANTITIES; q++) {
                const rs_trials_stat *stat = &trials->rows[l].of[q];
                assert_false(isinf(stat->mean) || isinf(stat->se) || isinf(stat->high));
                assert_false(stat->n > 0 && isnan(stat->mean));
            }
        assert_int_equal(trials->rows[0].of[RS_TRIALS_SQUARE].n, 5);
        assert_int_equal(trials->rows[40].of[RS_TRIALS_SQUARE].n, 0);
        assert_int_equal(trials->rows[trials->left_layer - 1].of[RS_TRIALS_SQUARE].n, 5);
        rs_trials_free(trials);
    }
}

/* ReZero: gradients of weights are exactly 0, and no mean of a logarithm is NaN. */
static void test_zeros(void **state)
{
    (void)state;
    static const char text[] = "{\"depth\": 3, \"d_model\": 8, \"seq_len\": 4, \"norm\": "
                               "\"none\", \"mlp\": \"relu\", \"branch_mixer\": 0, "
                               "\"branch_mlp\": 0}";
    for (int way = RS_TRIALS_BATCHED; way <= RS_TRIALS_ENGINE; way++) {
        rs_trials_request request = request_of(4, 8, 0, 5);
        request.way = (rs_trials_way)way;
        rs_trials *trials = run_text(text, request, &context);
        for (int32_t l = 0; l < 3; l++) {
            const rs_trials_stat *value = &trials->rows[l].of[RS_TRIALS_VALUE];
            assert_true(value->n == 5 && value->zeros == 5 && value->mean == 0 &&
                        value->log_mean == -INFINITY && !value->ruled_by_few);
            assert_int_equal(trials->rows[l].of[RS_TRIALS_QUERY_VALUE].n, 0);
            assert_int_equal(trials->rows[l].of[RS_TRIALS_CONCENTRATION].n, 0);
            assert_true(fabs(trials->rows[l].of[RS_TRIALS_SQUARE].mean - 32) < 1e-10);
        }
        assert_int_equal(trials->left_forward, 0);
        assert_int_equal(trials->left_back, 0);
        rs_trials_free(trials);
    }
}

/* Mixers that the batch does not know, and rotary positions, run through the engine. */
static void test_other_mixers(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"depth\": 2, \"d_model\": 8, \"heads\": 2, \"seq_len\": 6, \"positions\": \"rope\"}",
        "{\"depth\": 2, \"d_model\": 8, \"seq_len\": 6, \"mixer\": \"linear_attention\"}",
        "{\"depth\": 2, \"d_model\": 8, \"heads\": 2, \"seq_len\": 6, \"mixer\": \"mamba2\"}",
        "{\"depth\": 2, \"d_model\": 8, \"seq_len\": 6, \"init\": {\"wv\": \"orthogonal\"}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        rs_trials *trials = run_text(texts[i], request_of(6, 8, 0, 4), &context);
        assert_false(trials->batched);
        assert_int_equal(trials->rows[2].of[RS_TRIALS_SQUARE].n, 4);
        assert_true(trials->rows[0].of[RS_TRIALS_STATE].mean > 0);
        assert_true(trials->rows[0].of[RS_TRIALS_UP].mean > 0);
        assert_int_equal(trials->rows[0].of[RS_TRIALS_VALUE].n, i == 2 ? 0 : 4);
        rs_trials_free(trials);
    }
}

/* ---- how many ---- */

static void test_counts(void **state)
{
    (void)state;
    drawn *d;
    OK(draw_text(&d,
                 "{\"depth\": 3, \"d_model\": 8, \"heads\": 2, \"seq_len\": 5, \"mlp\": "
                 "\"swiglu\", \"mlp_width\": 10}",
                 1, &err));
    /* maps of 4 64 and 3 80 numbers, 5 keys, 2 heads of 4 + 4 */
    assert_true(rs_trials_cost(d->network, 5) == 3.0 * 6 * 5 * (4 * 64 + 3 * 80 + 5 * 2 * 8));
    assert_int_equal(rs_trials_default(d->network, 5), 100);
    assert_int_equal(rs_trials_default(d->network, 1000000), 4);
    int64_t n = 10000;
    double cost = rs_trials_cost(d->network, n);
    assert_true(cost > 3e9 && cost < 7e10);
    assert_int_equal(rs_trials_default(d->network, n), (int32_t)(3e11 / cost));
    undraw(NULL, d);
}

/* ---- failures ---- */

static const char small_text[] = "{\"depth\": 2, \"d_model\": 8, \"heads\": 2, \"seq_len\": 5, "
                                 "\"norm\": \"post\", \"mlp\": \"relu\", \"mlp_width\": 8}";

static void test_refusals(void **state)
{
    (void)state;
    drawn *d;
    rs_trials *trials;
    OK(draw_text(&d, small_text, 1, &err));
    rs_trials_request good = request_of(5, 8, 0, 2), bad;
    bad = good, bad.trials = 0;
    assert_int_equal(rs_trials_run(&trials, d->network, &bad, &context, &err), RS_E_BAD_OPTION);
    assert_null(trials);
    bad = good, bad.input.rho = -0.26;
    assert_int_equal(rs_trials_run(&trials, d->network, &bad, &context, &err), RS_E_BAD_OPTION);
    bad = good, bad.input.rho = NAN;
    assert_int_equal(rs_trials_run(&trials, d->network, &bad, &context, &err), RS_E_BAD_OPTION);
    bad = good, bad.input.norm2 = -1;
    assert_int_equal(rs_trials_run(&trials, d->network, &bad, &context, &err), RS_E_BAD_OPTION);
    bad = good, bad.input.n = 0;
    assert_int_equal(rs_trials_run(&trials, d->network, &bad, &context, &err), RS_E_BAD_OPTION);
    bad = good, bad.way = RS_TRIALS_ENGINE;
    assert_int_equal(rs_trials_run(&trials, d->network, &bad, &context, &err), RS_E_UNSUPPORTED);
    bad = good, bad.laws = false;
    assert_int_equal(rs_trials_run(&trials, d->network, &bad, &context, &err), RS_E_UNSUPPORTED);
    rs_context tight = context;
    tight.memory = rs_memory_bound_of(1000);
    assert_int_equal(rs_trials_run(&trials, d->network, &good, &tight, &err), RS_E_MEMORY_LIMIT);
    undraw(NULL, d);
}

static void test_cancelled(void **state)
{
    (void)state;
    volatile sig_atomic_t cancel = 1;
    rs_context own = {.threads = 2, .seed = 1, .cancel = &cancel};
    drawn *d;
    rs_trials *trials;
    OK(draw_text(&d, small_text, 1, &err));
    rs_trials_request request = request_of(5, 8, 0, 50);
    request.opener = (rs_trials_opener){open_text, undraw, (void *)(uintptr_t)small_text};
    for (int way = RS_TRIALS_BATCHED; way <= RS_TRIALS_ENGINE; way++) {
        request.way = (rs_trials_way)way;
        assert_int_equal(rs_trials_run(&trials, d->network, &request, &own, &err),
                         RS_E_INTERRUPTED);
        assert_null(trials);
    }
    undraw(NULL, d);
}

/* Every request for memory fails once: RS_E_NO_MEMORY, and nothing is left. */
static void test_memory(void **state)
{
    (void)state;
    const rs_context one = {.threads = 1, .seed = 1};
    for (int way = RS_TRIALS_BATCHED; way <= RS_TRIALS_ENGINE; way++) {
        drawn *d;
        rs_trials *trials = NULL;
        OK(draw_text(&d, small_text, 1, &err));
        rs_trials_request request = request_of(5, 8, 0, 1);
        request.way = (rs_trials_way)way;
        request.opener = (rs_trials_opener){open_text, undraw, (void *)(uintptr_t)small_text};
        OK(rs_trials_run(&trials, d->network, &request, &one, &err));
        rs_trials_free(trials);
        int64_t before = rs_memory_blocks(), failed = 0;
        for (int64_t i = 1;; i++) {
            rs_memory_fail_at(i);
            rs_status status = rs_trials_run(&trials, d->network, &request, &one, &err);
            rs_memory_fail_at(0);
            if (status == RS_OK) break;
            failed++;
            if (status != RS_E_NO_MEMORY)
                fail_msg("request %d: %s: %s", (int)i, err.where, err.what);
            assert_null(trials);
            if (rs_memory_blocks() != before) fail_msg("request %d leaks", (int)i);
        }
        rs_trials_free(trials);
        assert_true(failed > 5);
        undraw(NULL, d);
    }
}

int main(void)
{
    rs_memory_watch_json();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_differences),
        cmocka_unit_test(test_ways_agree),   cmocka_unit_test(test_theory),
        cmocka_unit_test(test_explosion),    cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_other_mixers), cmocka_unit_test(test_counts),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
