/*
 * test_arch_theory.c: networks of architecture files against the mean-field recursion of Noci et
 * al. 2022 (Lemmas 3.4 and 3.5, docs/theory/signal.md, 1), which is exact in expectation for
 * uniform attention and a linear MLP. With skips s and branches a of mixer and MLP, n tokens, and v
 * the variance factor of the value path:
 *
 *     E C'  = (s1² + v a1²) (s2² + a2²) C            C  = |1ᵀX|²
 *     E F2' = (s2² + a2²) (s1² F2 + v a1² C / n)     F2 = |X|_F²
 *
 * So the input law, the laws of weights, skips, branches, the merged output and the engine are
 * checked together. Tolerance: five standard errors over the trials; seeds are fixed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/forward.h"
#include "network/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH = 3, TOKENS = 6, WIDTH = 16, TRIALS = 400 };

typedef struct sums {
    double f2[DEPTH + 1], c[DEPTH + 1];
} sums;

static rs_status add_up(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                        rs_error *err)
{
    (void)site, (void)err;
    sums *s = user;
    const double *x = view->data;
    s->f2[layer] = s->c[layer] = 0;
    for (int64_t k = 0; k < view->cols; k++) {
        double column = 0;
        for (int64_t i = 0; i < view->rows; i++) {
            double value = x[i * view->cols + k];
            column += value;
            s->f2[layer] += value * value;
        }
        s->c[layer] += column * column;
    }
    return RS_OK;
}

static rs_status run(sums *s, const rs_network *network, const double *states, rs_error *err)
{
    int64_t begin[] = {0, TOKENS};
    rs_batch batch = {.samples = 1, .begin = begin, .states = states};
    rs_context context = {.threads = 1};
    rs_tap tap = {.user = s, .sites = 1u << RS_SITE_BLOCK_OUT, .state = add_up};
    const rs_tap *taps[] = {&tap};
    rs_weights *weights = NULL;
    rs_runner *runner = NULL;
    RS_TRY(rs_weights_open(&weights, RS_PRECISION_F64, UINT64_MAX, err));
    rs_status status = rs_runner_open(&runner, network, weights, &context, err);
    if (status == RS_OK) status = rs_runner_run(runner, &batch, taps, 1, err);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return status;
}

static rs_status trial(sums *s, const json_t *json, uint64_t seed, rs_error *err)
{
    double states[TOKENS * WIDTH];
    rs_arch *arch = NULL;
    rs_init *init = NULL;
    rs_network *network = NULL;
    RS_TRY(rs_arch_read(&arch, json, "arch", err));
    assert_int_equal(arch->seq_len * arch->d_model, TOKENS * WIDTH);
    rs_status status = rs_arch_input(states, arch, seed, 0, err);
    rs_arch_close(arch);
    if (status == RS_OK) status = rs_init_open(&init, NULL, seed, err);
    if (status == RS_OK) status = rs_network_from_arch(&network, json, "arch", init, err);
    if (status == RS_OK) status = run(s, network, states, err);
    rs_network_close(network);
    rs_init_close(init);
    return status;
}

typedef struct law {
    const char *text; /* of the file, behind sizes */
    double rho, s1, a1, v, s2, a2;
} law;

static void assert_mean(const law *l, const char *what, int layer, double sum, double square,
                        double theory)
{
    double mean = sum / TRIALS, error = sqrt(fmax(0, square / TRIALS - mean * mean) / TRIALS);
    if (!(fabs(mean - theory) <= 5 * error + 1e-12 * theory))
        fail_msg("%s: %s of state %d: %g +- %g, theory %g", l->text, what, layer, mean, error,
                 theory);
}

static void check(const law *l)
{
    char text[512];
    snprintf(text, sizeof text, "{\"depth\": %d, \"d_model\": %d, \"seq_len\": %d, %s}", DEPTH,
             WIDTH, TOKENS, l->text);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    sums total = {{0}, {0}}, squares = {{0}, {0}};
    for (uint64_t t = 0; t < TRIALS; t++) {
        sums s;
        rs_error err;
        if (trial(&s, json, t, &err) != RS_OK) fail_msg("%s: %s", text, err.what);
        for (int i = 0; i <= DEPTH; i++) {
            total.f2[i] += s.f2[i];
            total.c[i] += s.c[i];
            squares.f2[i] += s.f2[i] * s.f2[i];
            squares.c[i] += s.c[i] * s.c[i];
        }
    }
    json_decref(json);
    double n = TOKENS, f2 = n * WIDTH, c = f2 * (1 + (n - 1) * l->rho);
    double mixer = l->v * l->a1 * l->a1, mlp = l->s2 * l->s2 + l->a2 * l->a2;
    for (int i = 0; i <= DEPTH; i++) {
        assert_mean(l, "F2", i, total.f2[i], squares.f2[i], f2);
        assert_mean(l, "C", i, total.c[i], squares.c[i], c);
        f2 = mlp * (l->s1 * l->s1 * f2 + mixer * c / n);
        c *= (l->s1 * l->s1 + mixer) * mlp;
    }
}

static void uniform_attention_follows_the_recursion(void **state)
{
    (void)state;
#define PLAIN "\"norm\": \"none\", \"attention\": \"uniform\", "
    static const law laws[] = {
        {PLAIN "\"mlp\": \"linear\", \"mlp_width\": 16", 0, 1, 1, 1, 1, 1},
        {PLAIN "\"mlp\": \"linear\", \"branch_mixer\": \"1/sqrt(L)\", \"branch_mlp\": 0.5, "
               "\"input\": {\"rho\": 0.3}",
         0.3, 1, 0.57735026918962576, 1, 1, 0.5},
        {PLAIN "\"mlp\": \"none\", \"skip_mixer\": 0.5, \"input\": {\"rho\": 0.5}", 0.5, 0.5, 1, 1,
         1, 0},
        {PLAIN "\"mlp\": \"linear\", \"skip_mixer\": 0, \"skip_mlp\": 0, \"heads\": 4, "
               "\"input\": {\"rho\": 0.2}",
         0.2, 0, 1, 1, 0, 1},
        /* W_O merged into W_V: four heads add four independent values */
        {PLAIN "\"mlp\": \"none\", \"heads\": 4, \"init\": {\"wo\": \"none\"}", 0, 1, 1, 4, 1, 0},
        {PLAIN "\"mlp\": \"none\", \"init\": {\"wv\": \"normal(0, 3/d)\", \"wo\": \"orthogonal\"}",
         0, 1, 1, 3, 1, 0},
        {PLAIN "\"mlp\": \"none\", \"init\": {\"wv\": \"uniform(-1, 1)\", \"wo\": \"none\"}", 0, 1,
         1, 16 / 3.0, 1, 0},
        /* the same attention by another road: without queries the softmax is uniform */
        {"\"norm\": \"none\", \"mlp\": \"linear\", \"init\": {\"wq\": \"zero\"}", 0, 1, 1, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++)
        check(&laws[i]);
}

/* Where the softmax is uniform, P - C is zero and aI + bP - cC is aI + (b - c)C. */
static void mixtures_without_queries(void **state)
{
    (void)state;
#define BARE                                                                                       \
    "\"norm\": \"none\", \"mlp\": \"none\", \"init\": {\"wq\": \"zero\", \"wo\": \"none\"}, "
    static const law laws[] = {
        {BARE "\"attention\": \"centred\", \"skip_mixer\": 0.5", 0, 0.5, 0, 1, 1, 0},
        {BARE "\"attention\": \"rescaled\", \"rescale\": 0.7", 0, 1, 1, 1, 1, 0},
        /* 2 X W_V: norms grow by 4 in expectation, as a skip of 2 would make them */
        {BARE "\"attention\": \"shaped\", \"shaped\": [2, 1, 1], \"skip_mixer\": 0", 0, 2, 0, 1, 1,
         0},
    };
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++)
        check(&laws[i]);
}

/* ---- norms whose outputs are scaled ---- */

static rs_status keep(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                      rs_error *err)
{
    (void)site, (void)err;
    memcpy((double *)user + layer * TOKENS * WIDTH, view->data, TOKENS * WIDTH * sizeof(double));
    return RS_OK;
}

/* Every norm before an op of layer l has the gain 1/sqrt(l+1), to float64. */
static rs_status scale_norms(rs_network *network)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            rs_norm_op *norm = &network->layers[l].branches[b].before;
            rs_tensor *tensor = rs_arena_alloc(network->arena, 1, sizeof *tensor);
            double *gain = rs_arena_alloc(network->arena, WIDTH, sizeof *gain);
            if (!tensor || !gain) return RS_E_NO_MEMORY;
            for (int i = 0; i < WIDTH; i++)
                gain[i] = 1 / sqrt(l + 1.0);
            *tensor = *norm->gain;
            tensor->dtype = RS_F64;
            tensor->data = (const uint8_t *)gain;
            tensor->bytes = WIDTH * sizeof *gain;
            norm->gain = tensor;
        }
    return RS_OK;
}

/* States [DEPTH + 1, TOKENS, WIDTH] of a file with the weights of one seed. */
static void states_of(double *out, const char *text, bool scaled)
{
    double states[TOKENS * WIDTH];
    rs_error err;
    json_t *json = json_loads(text, 0, NULL);
    rs_arch *arch;
    rs_init *init;
    rs_network *network;
    rs_weights *weights;
    rs_runner *runner;
    int64_t begin[] = {0, TOKENS};
    const rs_batch batch = {.samples = 1, .begin = begin, .states = states};
    const rs_context context = {.threads = 1};
    rs_tap tap = {.user = out, .sites = 1u << RS_SITE_BLOCK_OUT, .state = keep};
    const rs_tap *taps[] = {&tap};
    assert_int_equal(rs_arch_read(&arch, json, "arch", &err), RS_OK);
    assert_int_equal(rs_arch_input(states, arch, 3, 0, &err), RS_OK);
    assert_int_equal(rs_init_open(&init, NULL, 3, &err), RS_OK);
    assert_int_equal(rs_network_from_arch(&network, json, "arch", init, &err), RS_OK);
    if (scaled) assert_int_equal(scale_norms(network), RS_OK);
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, UINT64_MAX, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, network, weights, &context, &err), RS_OK);
    assert_int_equal(rs_runner_run(runner, &batch, taps, 1, &err), RS_OK);
    rs_runner_close(runner);
    rs_weights_close(weights);
    rs_network_close(network);
    rs_init_close(init);
    rs_arch_close(arch);
    json_decref(json);
}

static double largest_gap(const double *a, const double *b)
{
    double most = 0;
    for (int i = 0; i < (DEPTH + 1) * TOKENS * WIDTH; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

/* LayerNorm scaling (Sun et al. 2025) multiplies what a norm in front of a branch gives by 1/sqrt(l+1).
 * Of ReLU and linear maps the branch's output is times that, its logits times the square: factors of
 * branches and temperatures say it exactly, as preset layernorm-scaling-48 does; not of GELU. */
static void scaled_norms_are_scaled_branches(void **state)
{
    (void)state;
    static const struct {
        const char *mlp, *temperature;
        bool same;
    } cases[] = {{"relu", "\"l+1\"", true},
                 {"linear", "\"l+1\"", true},
                 {"none", "[1, 2, 3]", true},
                 {"relu", "1", false},
                 {"gelu", "\"l+1\"", false}};
    static const char sizes[] = "\"depth\": 3, \"d_model\": 16, \"heads\": 4, \"seq_len\": 6, "
                                "\"init\": {\"wq\": \"normal(0, 4/fan_in)\"}";
    static double scaled[(DEPTH + 1) * TOKENS * WIDTH], branches[(DEPTH + 1) * TOKENS * WIDTH];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, "{%s, \"mlp\": \"%s\", \"norm_affine\": \"gain\"}", sizes,
                 cases[i].mlp);
        states_of(scaled, text, true);
        snprintf(text, sizeof text,
                 "{%s, \"mlp\": \"%s\", \"branch_mixer\": \"1/sqrt(l+1)\", \"branch_mlp\": "
                 "\"1/sqrt(l+1)\", \"temperature\": %s}",
                 sizes, cases[i].mlp, cases[i].temperature);
        states_of(branches, text, false);
        double gap = largest_gap(scaled, branches);
        if (cases[i].same ? !(gap < 1e-12) : !(gap > 1e-3))
            fail_msg("%s, temperature %s: states differ by %g", cases[i].mlp, cases[i].temperature,
                     gap);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_attention_follows_the_recursion),
        cmocka_unit_test(mixtures_without_queries),
        cmocka_unit_test(scaled_norms_are_scaled_branches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
