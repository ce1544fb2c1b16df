/*
 * test_gradients_residual.c: the way back in the residual precision: against textbook formulas in thousands of digits
 * (tests/oracle/make_residual_gradient_golden.py), against float64's where that has its digits, and by the law that
 * the gradients of queries and keys follow (docs/theory/gradients.md, 8).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/gradient.h"
#include "engine/residual.h"
#include "residual_golden.h"

#include <dirent.h>

enum { NAME = 64, PARTS = 9, PARAMETERS = 4000 };

/* What was told of a parameter: norms 2^exponent, the whole and then its heads'. */
typedef struct heard {
    char name[NAME];
    double norms[PARTS];
    int64_t exponent;
    int parts;
    bool apart, drowned;
    const char *why;
} heard;

typedef struct pass {
    const rs_network *network;
    rs_loss loss;
    rs_batch batch;
    int threads;
    bool recompute;
    double value;
    heard *all; /* [PARAMETERS] */
    int n;
} pass;

static const char *part_name(rs_parameter_part part)
{
    static const char *const names[] = {
        [RS_OF_WEIGHT] = "weight", [RS_OF_BIAS] = "bias",    [RS_OF_GAIN] = "gain",
        [RS_OF_MORE_1] = "more1",  [RS_OF_MORE_2] = "more2", [RS_OF_SKIP] = "skip",
        [RS_OF_SCALE] = "scale"};
    return names[part];
}

static int heads_of(const pass *p, const rs_parameter *q, bool *by_input)
{
    const rs_branch *branch = &p->network->layers[q->layer].branches[q->branch];
    *by_input = q->role == RS_ROLE_O;
    if (branch->kind != RS_BRANCH_ATTENTION || q->part != RS_OF_WEIGHT) return 1;
    const rs_attention_op *op = &branch->attention;
    if (q->role == RS_ROLE_Q || q->role == RS_ROLE_O) return op->heads;
    return q->role == RS_ROLE_K || q->role == RS_ROLE_V ? op->kv_heads : 1;
}

static rs_status hear(void *user, const rs_gradient_view *view, rs_error *err)
{
    pass *p = user;
    const rs_parameter *q = view->parameter;
    bool by_input;
    int heads = heads_of(p, q, &by_input);
    assert_true(p->n < PARAMETERS && heads < PARTS);
    heard *h = &p->all[p->n++];
    *h = (heard){.parts = 1 + heads,
                 .exponent = view->exponent,
                 .apart = view->apart,
                 .drowned = view->drowned};
    if (view->form == RS_GRADIENT_ZERO) h->why = view->why;
    if (q->part == RS_OF_SKIP || q->part == RS_OF_SCALE)
        snprintf(h->name, NAME, "l%d.b%d.%s", q->layer, q->branch, part_name(q->part));
    else
        snprintf(h->name, NAME, "l%d.b%d.%s.%s", q->layer, q->branch, q->name, part_name(q->part));
    assert_int_equal(rs_gradient_squares(h->norms + 1, view, heads, by_input, err), RS_OK);
    for (int i = 1; i <= heads; i++) {
        h->norms[0] += h->norms[i];
        h->norms[i] = sqrt(h->norms[i]);
    }
    h->norms[0] = sqrt(h->norms[0]);
    return RS_OK;
}

/* Batches of one sample each where there are several. */
static rs_status try_run(pass *p, rs_precision precision, bool one_by_one, rs_error *err)
{
    rs_context context = {.threads = p->threads};
    rs_weights *weights = NULL;
    rs_runner *runner = NULL;
    rs_gradients *gradients = NULL;
    const rs_gradient_tap tap = {.user = p, .parameter = hear}, *taps[] = {&tap};
    const rs_gradient_plan plan = {.recompute = p->recompute, .several = one_by_one};
    p->n = 0, p->value = 0;
    rs_status status = rs_weights_open(&weights, precision, UINT64_MAX, err);
    if (status == RS_OK) status = rs_runner_open(&runner, p->network, weights, &context, err);
    if (status == RS_OK)
        status =
            rs_gradients_open(&gradients, p->network, precision, &plan, taps, 1, &context, err);
    for (int32_t s = 0; status == RS_OK && s < (one_by_one ? p->batch.samples : 1); s++) {
        rs_batch part = p->batch;
        rs_loss loss = p->loss;
        int64_t begin[] = {0, p->batch.begin[s + 1] - p->batch.begin[s]};
        if (one_by_one) {
            part.samples = 1, part.begin = begin;
            part.states += p->batch.begin[s] * p->network->d_model;
            loss.first_row = p->batch.begin[s];
        }
        status = rs_runner_gradient(&p->value, runner, &part, &loss, gradients, NULL, 0, err);
    }
    if (status == RS_OK) status = rs_gradients_finish(gradients, err);
    rs_gradients_close(gradients);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return status;
}

static void run(pass *p, rs_precision precision, bool one_by_one)
{
    rs_error err = {0};
    if (try_run(p, precision, one_by_one, &err) != RS_OK) fail_msg("%s: %s", err.where, err.what);
}

static pass open_pass(const golden *g, rs_loss_kind kind, uint64_t seed, const int64_t *begin)
{
    pass p = {.network = &g->network,
              .loss = {.kind = kind, .weight = 1, .at_state = true, .seed = seed},
              .batch = {.samples = 1, .begin = begin, .states = g->input},
              .threads = 2};
    p.all = malloc(PARAMETERS * sizeof *p.all);
    return p;
}

static const heard *find_heard(const pass *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->all[i].name, name) == 0) return &p->all[i];
    fail_msg("nothing was told of %s", name);
    return NULL;
}

static const heard *of_layer(const pass *p, int layer, const char *rest)
{
    char name[NAME];
    snprintf(name, sizeof name, "l%d.b0.%s", layer, rest);
    return find_heard(p, name);
}

/* ---- thousands of digits ---- */

static double error_of(double norm, int64_t exponent, const json_t *stored)
{
    double mantissa = json_number_value(json_array_get(stored, 0));
    int64_t by = exponent - json_integer_value(json_array_get(stored, 1));
    if (by > 1000 || by < -1000) return INFINITY;
    return fabs(ldexp(norm, (int)by) / mantissa - 1);
}

/* A layer triples the relative error of what tells tokens apart, as in test_residual_golden.c; gradients of queries and
 * keys have it twice. */
static double bound_of(const char *key, const json_t *one)
{
    double logit = json_number_value(json_object_get(one, "logit"));
    /* in front of a norm the derivative by a strength is 0 but for ε: a difference, for float64 as well */
    if (strstr(key, ".scale")) return 1e-8;
    return 40 * pow(3, atoi(key + 1)) * 0x1p-53 * (1 + logit);
}

static int compare_case(const json_t *one, uint64_t seed, double *deepest)
{
    const char *name = json_string_value(json_object_get(one, "name")), *key;
    bool square = strcmp(json_string_value(json_object_get(one, "loss")), "norm2") == 0;
    bool covered = strcmp(name, "flat_distance") != 0;
    char file[80];
    json_t *norms;
    golden g;
    int wrong = 0;
    double worst = 0;
    snprintf(file, sizeof file, "%s.safetensors", name);
    open_golden(&g, file);
    const int64_t begin[] = {0, g.n};
    pass p = open_pass(&g, square ? RS_LOSS_SQUARE : RS_LOSS_RANDOM, seed, begin);
    run(&p, RS_PRECISION_RESIDUAL, false);
    json_object_foreach(json_object_get(one, "norms"), key, norms)
    {
        const heard *h = find_heard(&p, key);
        bool asks = strstr(key, ".q.") || strstr(key, ".k.");
        assert_int_equal(h->apart, asks && covered);
        if (asks && !covered) continue;
        double bound = bound_of(key, one);
        for (size_t i = 0; i < json_array_size(norms); i++) {
            double error = error_of(h->norms[i], h->exponent, json_array_get(norms, i));
            worst = fmax(worst, error / bound);
            if (error <= bound) continue;
            print_error("%s, %s, part %zu: wrong by %.3g, over %.3g\n", name, key, i, error, bound);
            wrong++;
        }
        if (asks) *deepest = fmin(*deepest, (double)h->exponent * log10(2));
    }
    if (getenv("RS_SHOW")) print_message("%-24s %.2g of the bound\n", name, worst);
    free(p.all);
    close_golden(&g);
    return wrong;
}

static void agrees_with_thousands_of_digits(void **state)
{
    (void)state;
    char path[512];
    size_t i;
    json_t *one;
    double deepest = 0;
    int wrong = 0;
    snprintf(path, sizeof path, "%s/residual_gradients.json", RS_TEST_DATA);
    json_t *all = json_load_file(path, 0, NULL), *cases = json_object_get(all, "cases");
    assert_true(json_array_size(cases) >= 15);
    json_array_foreach(cases, i, one)
    {
        wrong += compare_case(one, (uint64_t)whole(all, "seed"), &deepest);
    }
    json_decref(all);
    assert_int_equal(wrong, 0);
    assert_true(deepest < -1400);
}

/* ---- float64 ---- */

/* Of the first layers, where tokens still differ. */
static int compare_plain(const char *file)
{
    golden g;
    int wrong = 0;
    open_golden(&g, file);
    g.network.n_layers = g.network.n_layers < 2 ? g.network.n_layers : 2;
    const int64_t begin[] = {0, g.n};
    pass a = open_pass(&g, RS_LOSS_RANDOM, 3, begin), b = open_pass(&g, RS_LOSS_RANDOM, 3, begin);
    run(&a, RS_PRECISION_F64, false);
    run(&b, RS_PRECISION_RESIDUAL, false);
    assert_int_equal(a.n, b.n);
    double most = 0;
    for (int i = 0; i < a.n; i++)
        most = fmax(most, a.all[i].norms[0]);
    for (int i = 0; i < a.n; i++) {
        const heard *h = find_heard(&b, a.all[i].name);
        double norm = h->norms[0];
        rs_scale_by(&norm, 1, h->exponent);
        if (fabs(norm - a.all[i].norms[0]) <= 1e-8 * a.all[i].norms[0] + 1e-12 * most) continue;
        print_error("%s, %s: %.17g, by float64 %.17g\n", file, h->name, norm, a.all[i].norms[0]);
        wrong++;
    }
    if (!(fabs(a.value - b.value) <= 1e-10 * (1 + fabs(a.value)))) wrong++;
    free(a.all), free(b.all);
    close_golden(&g);
    return wrong;
}

static void agrees_with_float64(void **state)
{
    (void)state;
    char path[512];
    int wrong = 0, cases = 0;
    snprintf(path, sizeof path, "%s/residual", RS_TEST_DATA);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *item; (item = readdir(folder));) {
        bool beyond = strncmp(item->d_name, "scale_", 6) == 0 ||
                      strncmp(item->d_name, "extreme", 7) == 0 ||
                      strcmp(item->d_name, "mamba2_lambda.safetensors") == 0;
        if (!strstr(item->d_name, ".safetensors") || beyond) continue;
        wrong += compare_plain(item->d_name);
        cases++;
    }
    closedir(folder);
    assert_true(cases >= 45);
    assert_int_equal(wrong, 0);
}

/* ---- the law ---- */

typedef struct residuals {
    double log10_of[LAYERS_MAX + 1];
} residuals;

static rs_status hear_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    (void)site, (void)err;
    ((residuals *)user)->log10_of[layer] = (double)view->exponent[0] * log10(2);
    return RS_OK;
}

static residuals residuals_of(const golden *g)
{
    residuals out;
    rs_context context = {.threads = 1};
    rs_error err = {0};
    rs_weights *weights;
    rs_runner *runner;
    const int64_t begin[] = {0, g->n};
    rs_batch batch = {.samples = 1, .begin = begin, .states = g->input};
    rs_tap tap = {.user = &out, .sites = 1u << RS_SITE_BLOCK_OUT, .state = hear_state};
    const rs_tap *taps[] = {&tap};
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_RESIDUAL, UINT64_MAX, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, &g->network, weights, &context, &err), RS_OK);
    assert_int_equal(rs_runner_run(runner, &batch, taps, 1, &err), RS_OK);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return out;
}

/* Both gradients are of second order in the residual that enters the layer, the values' of none. */
static void follows_the_residual_squared(void **state)
{
    (void)state;
    golden g;
    open_golden(&g, "deep.safetensors");
    const int64_t begin[] = {0, g.n};
    residuals r = residuals_of(&g);
    pass p = open_pass(&g, RS_LOSS_RANDOM, 5, begin);
    run(&p, RS_PRECISION_RESIDUAL, false);
    double last = 0;
    for (int l = 4; l < g.network.n_layers; l++) {
        const heard *v = of_layer(&p, l, "v.weight");
        double values = log10(v->norms[0]) + (double)v->exponent * log10(2);
        for (int k = 0; k < 2; k++) {
            const heard *h = of_layer(&p, l, k ? "k.weight" : "q.weight");
            double log10_norm = log10(h->norms[0]) + (double)h->exponent * log10(2);
            double expected = 2 * r.log10_of[l];
            assert_true(h->apart && h->norms[0] > 0);
            assert_true(fabs(log10_norm - values - expected) <= 4 + 1e-14 * fabs(expected));
            last = log10_norm;
        }
        assert_true(fabs(values) < 10);
    }
    assert_true(last < -1e15);
    free(p.all);
    close_golden(&g);
}

/* ---- the same numbers ---- */

static void same_bits(const pass *a, const pass *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        const heard *h = find_heard(b, a->all[i].name);
        assert_int_equal(h->exponent, a->all[i].exponent);
        assert_memory_equal(h->norms, a->all[i].norms, (size_t)h->parts * sizeof *h->norms);
    }
}

static void near(const pass *a, const pass *b, double by)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        const heard *h = find_heard(b, a->all[i].name);
        double norm = h->norms[0];
        if (strstr(h->name, ".k.bias")) continue;
        rs_scale_by(&norm, 1, h->exponent - a->all[i].exponent);
        assert_int_equal(h->apart, a->all[i].apart);
        if (fabs(norm - a->all[i].norms[0]) <= by * a->all[i].norms[0]) continue;
        fail_msg("%s: %.17g for %.17g", h->name, norm, a->all[i].norms[0]);
    }
}

/* Three samples whose residuals differ by hundreds of powers of ten, one of them a single token. */
static void does_not_hang_on_how_it_is_run(void **state)
{
    (void)state;
    golden g;
    open_golden(&g, "heads_biases.safetensors");
    const int64_t begin[] = {0, g.n, g.n + 1, 2 * g.n + 1};
    double *states = malloc((size_t)(begin[3] * g.d) * sizeof *states);
    for (int64_t i = 0; i < begin[3]; i++)
        for (int64_t k = 0; k < g.d; k++) {
            const double *row = g.input + i % g.n * g.d;
            states[i * g.d + k] = i <= g.n ? row[k] : g.input[k] + 1e-12 * (row[k] - g.input[k]);
        }
    pass a = open_pass(&g, RS_LOSS_RANDOM, 9, begin), b = open_pass(&g, RS_LOSS_RANDOM, 9, begin);
    a.batch.samples = b.batch.samples = 3;
    a.batch.states = b.batch.states = states;
    a.threads = 1;
    run(&a, RS_PRECISION_RESIDUAL, false);
    for (b.threads = 1; b.threads <= 3; b.threads++) {
        b.recompute = b.threads == 3;
        run(&b, RS_PRECISION_RESIDUAL, false);
        same_bits(&a, &b);
    }
    run(&b, RS_PRECISION_RESIDUAL, true);
    near(&a, &b, 1e-11);
    assert_true(of_layer(&a, 5, "q.weight")->exponent < -700);
    free(states), free(a.all), free(b.all);
    close_golden(&g);
}

/* ---- ends ---- */

static void bias_of_keys_is_told_to_be_zero(void **state)
{
    (void)state;
    golden g;
    open_golden(&g, "heads_biases.safetensors");
    const int64_t begin[] = {0, g.n};
    pass p = open_pass(&g, RS_LOSS_RANDOM, 1, begin);
    run(&p, RS_PRECISION_RESIDUAL, false);
    assert_non_null(of_layer(&p, 0, "k.bias")->why);
    assert_non_null(strstr(of_layer(&p, 0, "k.bias")->why, "all logits of a query alike"));
    assert_null(of_layer(&p, 0, "q.bias")->why);
    free(p.all);
    close_golden(&g);
}

/* Below a matrix whose rows sum to 0, derivatives sum to 0 over the tokens, and what queries and keys get is of an order
 * that rounding has. */
static void says_where_it_loses_digits(void **state)
{
    (void)state;
    golden g;
    open_golden(&g, "one_head.safetensors");
    const int64_t begin[] = {0, g.n};
    int last = g.network.n_layers - 1;
    g.layers[last].branches[0].attention.mix_uniform = 1;
    for (int skips = 0; skips < 2; skips++) {
        pass p = open_pass(&g, RS_LOSS_RANDOM, 1, begin);
        g.layers[last].branches[0].skip = skips;
        run(&p, RS_PRECISION_RESIDUAL, false);
        assert_true(of_layer(&p, last, "q.weight")->apart);
        assert_false(of_layer(&p, last, "q.weight")->drowned);
        assert_int_equal(of_layer(&p, 0, "v.weight")->drowned, !skips);
        assert_int_equal(of_layer(&p, last - 1, "q.weight")->apart, skips);
        assert_int_equal(of_layer(&p, 0, "k.weight")->apart, skips);
        free(p.all);
    }
    close_golden(&g);
}

/* What relevance explains is refused, by name. */
static void refuses_single_outputs(void **state)
{
    (void)state;
    golden g;
    open_golden(&g, "one_head.safetensors");
    const int64_t begin[] = {0, g.n};
    int32_t targets[64] = {0};
    const rs_loss_kind kinds[] = {RS_LOSS_OUTPUT, RS_LOSS_LENGTH};
    for (int i = 0; i < 2; i++) {
        rs_error err = {0};
        pass p = open_pass(&g, kinds[i], 1, begin);
        p.loss.targets = targets;
        assert_int_equal(try_run(&p, RS_PRECISION_RESIDUAL, false, &err), RS_E_UNSUPPORTED);
        assert_non_null(strstr(err.what, "single outputs"));
        free(p.all);
    }
    close_golden(&g);
}

/* Equal tokens, and one alone, give queries and keys nothing, exactly; the loss's size may leave the doubles. */
static void equal_tokens_give_nothing(void **state)
{
    (void)state;
    golden g;
    open_golden(&g, "one_head.safetensors");
    const int64_t begin[] = {0, g.n}, alone[] = {0, 1};
    double *states = malloc((size_t)(g.n * g.d) * sizeof *states);
    for (int64_t i = 0; i < g.n * g.d; i++)
        states[i] = g.input[i % g.d] * 1e-200;
    for (int single = 0; single < 2; single++) {
        pass p = open_pass(&g, RS_LOSS_SQUARE, 1, single ? alone : begin);
        p.batch.states = states;
        run(&p, RS_PRECISION_RESIDUAL, false);
        for (int l = 0; l < g.network.n_layers; l++) {
            assert_true(of_layer(&p, l, "q.weight")->norms[0] == 0);
            assert_true(of_layer(&p, l, "k.weight")->norms[0] == 0);
            const heard *v = of_layer(&p, l, "v.weight");
            assert_true(v->norms[0] > 0 && v->exponent < -1000);
        }
        assert_true(p.value == 0);
        free(p.all);
    }
    free(states);
    close_golden(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_thousands_of_digits),
                                       cmocka_unit_test(agrees_with_float64),
                                       cmocka_unit_test(follows_the_residual_squared),
                                       cmocka_unit_test(does_not_hang_on_how_it_is_run),
                                       cmocka_unit_test(bias_of_keys_is_told_to_be_zero),
                                       cmocka_unit_test(says_where_it_loses_digits),
                                       cmocka_unit_test(refuses_single_outputs),
                                       cmocka_unit_test(equal_tokens_give_nothing)};
    return cmocka_run_group_tests_name("gradients_residual", tests, NULL, NULL);
}
