/* test_predict_trials.c: batched trials against the engine on the same weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "predict/trials_kernels.h"
#include "trials_support.h"

static const rs_context context = {.threads = 2, .seed = 11};

/* Runs the text both ways and compares every number. */
static void compare(const char *text, rs_trials_request request)
{
    drawn *planned;
    rs_trials *batched, *engine;
    same_weights same = {text, NULL, context.seed};
    OK(draw_text(&planned, text, 1, &err));
    const char *why = rs_trials_not_batched(planned->network, request.input.n);
    if (why) fail_msg("%s: %s", text, why);
    request.way = RS_TRIALS_BATCHED;
    OK(rs_trials_run(&batched, planned->network, &request, &context, &err));
    request.way = RS_TRIALS_ENGINE;
    request.opener = (rs_trials_opener){open_same, undraw, &same};
    OK(rs_trials_run(&engine, planned->network, &request, &context, &err));
    assert_true(batched->batched);
    assert_false(engine->batched);
    assert_same_numbers(batched, engine, 1e-10, text);
    rs_trials_free(batched);
    rs_trials_free(engine);
    undraw(NULL, planned);
}

static void test_plain_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t n;
        double rho;
        bool after;
    } cases[] = {
        {"{\"depth\": 3, \"d_model\": 16, \"seq_len\": 8, \"norm\": \"post\", \"mlp\": \"relu\", "
         "\"mlp_width\": 24, \"heads\": 4}",
         8, 0.2, false},
        {"{\"depth\": 1, \"d_model\": 1, \"seq_len\": 1, \"norm\": \"none\", \"mlp\": \"linear\", "
         "\"mlp_width\": 1}",
         1, 0, false},
        {"{\"depth\": 2, \"d_model\": 24, \"heads\": 6, \"kv_heads\": 2, \"d_head\": 5, "
         "\"seq_len\": 19, \"mask\": \"causal\", \"norm\": \"pre\", \"norm_kind\": \"rmsnorm\", "
         "\"mlp\": \"swiglu\", \"mlp_width\": 31}",
         19, -0.03, true},
        {"{\"depth\": 2, \"d_model\": 12, \"heads\": 3, \"seq_len\": 20, \"mask\": \"sliding:4\", "
         "\"norm\": \"sandwich\", \"mlp\": \"gelu\", \"mlp_width\": 10}",
         20, 1, true},
        {"{\"depth\": 3, \"d_model\": 9, \"heads\": 2, \"d_head\": 3, \"seq_len\": 40, \"norm\": "
         "\"pre\", \"mlp\": \"gelu_tanh\", \"mlp_width\": 7, \"init\": {\"wo\": \"none\"}}",
         40, 0.5, false},
        {"{\"depth\": 2, \"d_model\": 8, \"seq_len\": 5, \"attention\": \"centred\", \"norm\": "
         "\"none\", \"mlp\": \"none\", \"skip_mixer\": 0.5, \"branch_mixer\": \"1/(l+1)\", "
         "\"temperature\": 0.3}",
         5, 0, false},
        {"{\"depth\": 2, \"d_model\": 8, \"seq_len\": 7, \"attention\": \"uniform\", \"mask\": "
         "\"causal\", \"norm\": \"post\", \"mlp\": \"relu\"}",
         7, 0, true},
        {"{\"depth\": 3, \"d_model\": 10, \"heads\": 2, \"seq_len\": 6, \"share_layers\": true, "
         "\"norm\": \"pre\", \"mlp\": \"relu\", \"branch_mlp\": [1, 0, 2], \"init\": {\"wq\": "
         "\"uniform(-0.3, 0.5)\", \"wk\": \"zero\", \"w2\": \"identity\"}}",
         6, 0.1, true},
        {"{\"depth\": 3, \"d_model\": 12, \"heads\": 3, \"seq_len\": 7, \"norm\": \"pre\", "
         "\"mlp\": \"relu\", \"temperature\": [0.2, \"l+L\", 1e-3]}",
         7, 0.1, false},
        {"{\"depth\": 3, \"d_model\": 12, \"heads\": 2, \"seq_len\": 6, \"share_layers\": true, "
         "\"mask\": \"causal\", \"norm\": \"post\", \"mlp\": \"none\", \"temperature\": "
         "\"1/(l+1)\"}",
         6, 0.2, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_trials_request request = request_of(cases[i].n, 3, cases[i].rho, 3);
        request.after_final_norm = cases[i].after;
        compare(cases[i].text, request);
    }
}

/* ---- random shapes ---- */

static uint32_t random_state = 1;

static int pick(int n)
{
    random_state = random_state * 1664525U + 1013904223U;
    return (int)((random_state >> 8) % (uint32_t)n);
}

static const char *one_of(const char *const *words, int n)
{
    return words[pick(n)];
}

static void write_random(char *text, size_t size, int64_t *n)
{
    static const char *const norms[] = {"none", "pre", "post", "sandwich"};
    static const char *const kinds[] = {"layernorm", "rmsnorm"};
    static const char *const mlps[] = {"none", "linear", "relu", "gelu", "gelu_tanh", "swiglu"};
    static const char *const masks[] = {"none", "none", "causal", "sliding:3"};
    static const char *const laws[] = {"softmax", "softmax", "centred", "uniform", "shaped"};
    static const char *const inits[] = {"", "\"wo\": \"none\"", "\"wv\": \"uniform(-0.4, 0.4)\"",
                                        "\"wq\": \"normal(0.1, 2/fan_in)\""};
    int kv = 1 + pick(3), heads = kv * (1 + pick(3));
    *n = 1 + pick(pick(4) ? 12 : 40);
    snprintf(text, size,
             "{\"depth\": %d, \"d_model\": %d, \"heads\": %d, \"kv_heads\": %d, \"d_head\": %d, "
             "\"seq_len\": %d, \"norm\": \"%s\", \"norm_kind\": \"%s\", \"mlp\": \"%s\", "
             "\"mlp_width\": %d, \"mask\": \"%s\", \"attention\": \"%s\", \"temperature\": "
             "\"%g/(1+%d*l)\", "
             "\"skip_mixer\": %g, \"branch_mlp\": \"%g/(l+1)\", \"init\": {%s}}",
             1 + pick(4), 2 + pick(40), heads, kv, 1 + pick(9), (int)*n, one_of(norms, 4),
             one_of(kinds, 2), one_of(mlps, 6), 1 + pick(50), one_of(masks, 4), one_of(laws, 5),
             0.5 + 0.25 * pick(4), (int)(*n % 3), 0.25 * (1 + pick(5)), 0.5 * pick(4),
             one_of(inits, 4));
}

static void test_random_shapes(void **state)
{
    (void)state;
    for (int i = 0; i < 120; i++) {
        char text[1024];
        int64_t n;
        write_random(text, sizeof text, &n);
        static const double rhos[] = {0, 0.3, 1, -0.02, -0.999};
        double rho = rhos[pick(5)];
        if (rho < 0) rho = n > 1 ? fmax(rho, -1) / ((double)n - 1) : 0;
        rs_trials_request request = request_of(n, 0.5 + pick(20), rho, 2);
        request.after_final_norm = pick(2);
        compare(text, request);
    }
}

/* ---- the same bits ---- */

static void assert_same_bits(const rs_trials *a, const rs_trials *b)
{
    assert_int_equal(a->n_layers, b->n_layers);
    size_t count = (size_t)a->trials * (size_t)(a->n_layers + 1) * RS_TRIALS_QUANTITIES;
    assert_memory_equal(a->numbers, b->numbers, count * sizeof *a->numbers);
    assert_memory_equal(&a->rows[a->n_layers].rho, &b->rows[a->n_layers].rho, sizeof(double));
}

static const char post_norm[] = "{\"depth\": 3, \"d_model\": 20, \"heads\": 2, \"seq_len\": 9, "
                                "\"norm\": \"post\", \"mlp\": \"relu\", \"mlp_width\": 30}";

static void test_threads(void **state)
{
    (void)state;
    rs_trials_request request = request_of(9, 20, 0.1, 7);
    request.opener = (rs_trials_opener){open_text, undraw, (void *)(uintptr_t)post_norm};
    for (int way = RS_TRIALS_BATCHED; way <= RS_TRIALS_ENGINE; way++) {
        rs_trials *first = NULL;
        drawn *planned;
        request.way = (rs_trials_way)way;
        OK(draw_text(&planned, post_norm, 1, &err));
        for (int threads = 1; threads <= 3; threads++) {
            rs_context own = {.threads = threads, .seed = 5};
            rs_trials *trials;
            OK(rs_trials_run(&trials, planned->network, &request, &own, &err));
            if (first) assert_same_bits(first, trials);
            if (first)
                rs_trials_free(trials);
            else
                first = trials;
        }
        rs_trials_free(first);
        undraw(NULL, planned);
    }
}

/* Cells that share draws have the bits that they have alone, whatever their depths and dials are. */
static void test_cells(void **state)
{
    (void)state;
    enum { CELLS = 21 };
    drawn *planned[CELLS];
    const rs_network *networks[CELLS];
    rs_trials *together[CELLS], *alone;
    rs_trials_request request = request_of(9, 20, 0.1, 3);
    for (int i = 0; i < CELLS; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"depth\": %d, \"d_model\": %d, \"heads\": 2, \"seq_len\": 9, \"norm\": "
                 "\"%s\", \"mlp\": \"gelu\", \"mlp_width\": 11, \"skip_mixer\": %g, "
                 "\"branch_mlp\": \"%d/sqrt(L)\", \"temperature\": \"%g+l/8\"}",
                 1 + (i * 5) % 7, i == 3 ? 14 : 12, i % 2 ? "pre" : "post", 0.1 * i, i % 4,
                 1 + 0.2 * (i % 3));
        OK(draw_text(&planned[i], text, 1, &err));
        networks[i] = planned[i]->network;
    }
    OK(rs_trials_run_cells(together, networks, CELLS, &request, &context, &err));
    for (int i = 0; i < CELLS; i++) {
        OK(rs_trials_run(&alone, networks[i], &request, &context, &err));
        assert_same_bits(alone, together[i]);
        rs_trials_free(alone);
        rs_trials_free(together[i]);
        undraw(NULL, planned[i]);
    }
}

/* ---- cells of several depths ---- */

enum { DEPTHS = 7, OTHERS = 3, FAMILY = DEPTHS * OTHERS };

/* Each depth with each of the others' words, a few in an order of their own; words: with a %g. */
static void open_family(drawn *planned[FAMILY], const rs_network *networks[FAMILY],
                        const char *words)
{
    for (int i = 0; i < FAMILY; i++) {
        char text[1024], own[768];
        const char *percent = strstr(words, "%g");
        snprintf(own, sizeof own, "%.*s%g%s", (int)(percent - words), words,
                 0.5 + 0.5 * (i / DEPTHS), percent + 2);
        snprintf(text, sizeof text, "{\"depth\": %d, %s}", 1 + (i % DEPTHS * 4) % 9, own);
        OK(draw_text(&planned[i], text, 1, &err));
        networks[i] = planned[i]->network;
    }
}

/* Runs them together with so many threads and bytes, and each alone. */
static void compare_family(const char *words, rs_trials_request request, int threads,
                           uint64_t bytes)
{
    drawn *planned[FAMILY];
    const rs_network *networks[FAMILY];
    rs_trials *together[FAMILY], *alone;
    rs_context own = context;
    own.threads = threads;
    own.memory = (rs_memory_bound){bytes, "the test", true};
    open_family(planned, networks, words);
    OK(rs_trials_run_cells(together, networks, FAMILY, &request, &own, &err));
    for (int i = 0; i < FAMILY; i++) {
        OK(rs_trials_run(&alone, networks[i], &request, &context, &err));
        assert_same_bits(alone, together[i]);
        rs_trials_free(alone);
        rs_trials_free(together[i]);
        undraw(NULL, planned[i]);
    }
}

static const struct {
    const char *words;
    int64_t n;
} families[] = {
    {"\"d_model\": 12, \"heads\": 3, \"seq_len\": 16, \"norm\": \"post\", \"mlp\": \"relu\", "
     "\"mlp_width\": 20, \"branch_mixer\": %g",
     16},
    {"\"d_model\": 12, \"heads\": 4, \"kv_heads\": 2, \"seq_len\": 9, \"norm\": \"pre\", \"mlp\": "
     "\"swiglu\", \"mask\": \"causal\", \"branch_mlp\": \"%g/(l+1)\"",
     9},
    {"\"d_model\": 10, \"heads\": 2, \"seq_len\": 20, \"norm\": \"sandwich\", \"mlp\": \"gelu\", "
     "\"attention\": \"shaped\", \"init\": {\"wo\": \"none\"}, \"temperature\": %g",
     20},
    {"\"d_model\": 8, \"heads\": 2, \"seq_len\": 5, \"share_layers\": true, \"norm\": \"pre\", "
     "\"mlp\": \"none\", \"skip_mixer\": %g",
     5},
    {"\"d_model\": 8, \"heads\": 2, \"seq_len\": 40, \"norm\": \"post\", \"mlp\": \"gelu_tanh\", "
     "\"mask\": \"sliding:3\", \"branch_mlp\": %g",
     40},
    {"\"d_model\": 1, \"heads\": 1, \"seq_len\": 1, \"norm\": \"none\", \"mlp\": \"linear\", "
     "\"mlp_width\": 1, \"branch_mixer\": %g",
     1},
    {"\"d_model\": 8, \"seq_len\": 16, \"norm\": \"pre\", \"mlp\": \"relu\", \"branch_mixer\": "
     "\"%g/sqrt(L)\"",
     16},
};

static void test_depths_share_states(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (int after = 0; after < 2; after++) {
            rs_trials_request request = request_of(families[i].n, 3, 0.1, 3);
            request.after_final_norm = after;
            /* more threads than trials have fewer chains each */
            compare_family(families[i].words, request, after ? 5 : 2, 0);
        }
}

/* Where memory is short there are fewer chains at a time, and where it holds none, an error. */
static void test_depths_in_little_memory(void **state)
{
    (void)state;
    rs_trials_request request = request_of(16, 3, 0.1, 2);
    compare_family(families[0].words, request, 2, 700000);
    drawn *planned[FAMILY];
    const rs_network *networks[FAMILY];
    rs_trials *together[FAMILY];
    rs_context own = context;
    own.memory = (rs_memory_bound){1000, "the test", true};
    open_family(planned, networks, families[0].words);
    assert_int_equal(rs_trials_run_cells(together, networks, FAMILY, &request, &own, &err),
                     RS_E_MEMORY_LIMIT);
    for (int i = 0; i < FAMILY; i++) {
        assert_null(together[i]);
        undraw(NULL, planned[i]);
    }
}

/* Of derivatives by weights the two that a grid reads, at both ends; all else is as it was. */
static void assert_ends(const rs_trials *ends, const rs_trials *all)
{
    for (int32_t t = 0; t < all->trials; t++)
        for (int32_t l = 0; l <= all->n_layers; l++)
            for (int q = 0; q < RS_TRIALS_QUANTITIES; q++) {
                double x = rs_trials_number(all, t, l, (rs_trials_quantity)q);
                double y = rs_trials_number(ends, t, l, (rs_trials_quantity)q);
                bool weights = q >= RS_TRIALS_QUERY && q <= RS_TRIALS_KEY_VALUE;
                bool kept =
                    q == RS_TRIALS_QUERY || q == RS_TRIALS_VALUE || q == RS_TRIALS_QUERY_VALUE;
                if (weights && !(kept && (l == 0 || l + 1 >= all->n_layers))) x = NAN;
                assert_true(x == y || (isnan(x) && isnan(y)));
            }
}

/* Tokens that are alike leave hidden units out, too. */
static void test_ends(void **state)
{
    (void)state;
    for (size_t f = 0; f < 2 * sizeof families / sizeof *families; f++) {
        drawn *planned[FAMILY];
        const rs_network *networks[FAMILY];
        rs_trials *all[FAMILY], *ends[FAMILY];
        rs_trials_request request = request_of(families[f / 2].n, 3, f % 2 ? 1 : 0.1, 2);
        open_family(planned, networks, families[f / 2].words);
        OK(rs_trials_run_cells(all, networks, FAMILY, &request, &context, &err));
        request.ends = true;
        OK(rs_trials_run_cells(ends, networks, FAMILY, &request, &context, &err));
        for (int i = 0; i < FAMILY; i++) {
            assert_ends(ends[i], all[i]);
            rs_trials_free(all[i]);
            rs_trials_free(ends[i]);
            undraw(NULL, planned[i]);
        }
    }
}

/* A draw does not depend on depth: the first layers of a deeper network without gradients. */
static void test_depth_shares_draws(void **state)
{
    (void)state;
    drawn *shallow, *deep;
    double a[12 * 12], b[12 * 12];
    OK(draw_text(&shallow, "{\"depth\": 2, \"d_model\": 12, \"mlp\": \"relu\"}", 1, &err));
    OK(draw_text(&deep, "{\"depth\": 5, \"d_model\": 12, \"skip_mlp\": 0.5, \"mlp\": \"none\"}", 1,
                 &err));
    OK(rs_trials_weight(a, shallow->network, 1, 0, "v", 3, 4, &err));
    OK(rs_trials_weight(b, deep->network, 1, 0, "v", 3, 4, &err));
    assert_memory_equal(a, b, sizeof a);
    OK(rs_trials_weight(b, deep->network, 2, 0, "v", 3, 4, &err));
    assert_true(memcmp(a, b, sizeof a) != 0);
    assert_int_equal(rs_trials_weight(b, deep->network, 1, 1, "up", 3, 4, &err), RS_E_UNSUPPORTED);
    undraw(NULL, shallow);
    undraw(NULL, deep);
}

/* Every instruction set's loops agree. */
static void test_tables(void **state)
{
    (void)state;
    for (const rs_trials_kernels *const *table = rs_trials_kernel_tables(); *table; table++) {
        rs_trials_kernels_use(*table);
        test_plain_shapes(state);
        random_state = 77;
        for (int i = 0; i < 10; i++) {
            char text[1024];
            int64_t n;
            write_random(text, sizeof text, &n);
            compare(text, request_of(n, 3, 0, 1));
        }
    }
    rs_trials_kernels_use(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_shapes),
        cmocka_unit_test(test_random_shapes),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_depths_share_states),
        cmocka_unit_test(test_depths_in_little_memory),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_depth_shares_draws),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
