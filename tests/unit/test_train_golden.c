/*
 * test_train_golden.c: what a training step asks of the engine (losses of the head, rows of numbers, maps,
 * biases, gains, dropout), held against PyTorch's autograd on the same weights
 * (tests/oracle/make_train_golden.py); and that neither threads, recomputation nor listeners change it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gradient_support.h"
#include "network/arch.h"

#include <jansson.h>

/* One case of the golden file. */
typedef struct golden {
    const json_t *json;
    rs_init *init;
    rs_network *network;
    gradient_case c;
    rs_batch batch;
    rs_dropout dropout;
    rs_loss_told told;
    int64_t *begin;
    int32_t *ids, *targets;
    double *rows, *values;
    uint8_t *counted;
} golden;

static void *zeros_of(size_t n, size_t size)
{
    void *out = calloc(n + 1, size);
    assert_non_null(out);
    return out;
}

static const char *text_of(const json_t *json, const char *name)
{
    return json_string_value(json_object_get(json, name));
}

static double number_of(const json_t *json, const char *name)
{
    return json_number_value(json_object_get(json, name));
}

/* An array of whole numbers; NULL: there is none. */
static int64_t *whole_of(const json_t *json, const char *name, size_t *n)
{
    const json_t *array = json_object_get(json, name);
    if (!array) return NULL;
    *n = json_array_size(array);
    int64_t *out = zeros_of(*n, sizeof *out);
    for (size_t i = 0; i < *n; i++)
        out[i] = json_integer_value(json_array_get(array, i));
    return out;
}

static int32_t *narrow_of(const json_t *json, const char *name)
{
    size_t n;
    int64_t *whole = whole_of(json, name, &n);
    int32_t *out = whole ? zeros_of(n, sizeof *out) : NULL;
    for (size_t i = 0; whole && i < n; i++)
        out[i] = (int32_t)whole[i];
    free(whole);
    return out;
}

/* A list of lists of numbers, one behind the other. */
static double *reals_of(const json_t *json, const char *name)
{
    const json_t *array = json_object_get(json, name);
    if (!array) return NULL;
    size_t n = json_array_size(array), width = json_array_size(json_array_get(array, 0));
    double *out = zeros_of(n * width, sizeof *out);
    for (size_t i = 0; i < n * width; i++)
        out[i] = json_number_value(json_array_get(json_array_get(array, i / width), i % width));
    return out;
}

/* The weights that the script gives a tensor of that name. */
static void fill(double *values, const rs_tensor *tensor)
{
    const char *name = tensor->name;
    bool gain = strstr(name, "norm") && !strstr(name, ".bias");
    int k = 0;
    if (strcmp(name, "sinusoids") == 0) return;
    for (const char *at = name; *at; at++)
        k += (unsigned char)*at;
    for (int64_t i = 0; i < tensor->count; i++)
        values[i] = 0.4 * sin(0.9 + 0.37 * k + 2.399963 * (double)i) + gain;
}

static void open_network(golden *g)
{
    rs_error err = {0};
    assert_int_equal(rs_init_open(&g->init, NULL, 1, &err), RS_OK);
    if (rs_network_from_arch(&g->network, json_object_get(g->json, "arch"), "ARCH.json", g->init,
                             &err) != RS_OK)
        fail_msg("%s: %s", g->c.name, err.what);
    g->c.loose = loose_new(g->network);
    for (int i = 0; i < g->c.loose->n; i++)
        fill(g->c.loose->tensors[i].values, &g->c.loose->tensors[i].to);
}

static rs_loss_kind kind_of(const char *word)
{
    return strcmp(word, "targets") == 0   ? RS_LOSS_TARGETS
           : strcmp(word, "shares") == 0  ? RS_LOSS_SHARES
           : strcmp(word, "squared") == 0 ? RS_LOSS_SQUARED
                                          : RS_LOSS_HINGE;
}

static void open_golden(golden *g, const json_t *json)
{
    const json_t *loss = json_object_get(json, "loss"), *dropout = json_object_get(json, "dropout");
    size_t n = 0, counts = 0;
    *g = (golden){.json = json, .c = {.name = text_of(json, "name"), .directions = 2, .seed = 3}};
    open_network(g);
    g->begin = whole_of(json, "begin", &n);
    g->ids = narrow_of(json, "ids");
    g->rows = reals_of(json, "rows");
    g->targets = narrow_of(loss, "targets");
    g->values = reals_of(loss, "values");
    int64_t *counted = whole_of(loss, "counted", &counts);
    if (counted) g->counted = zeros_of(counts, 1);
    for (size_t i = 0; counted && i < counts; i++)
        g->counted[i] = (uint8_t)counted[i];
    free(counted);
    g->batch =
        (rs_batch){.samples = (int32_t)n - 1, .begin = g->begin, .ids = g->ids, .rows = g->rows};
    if (dropout) {
        g->dropout = (rs_dropout){number_of(dropout, "rate"),
                                  (uint64_t)json_integer_value(json_object_get(dropout, "seed")),
                                  (uint64_t)json_integer_value(json_object_get(dropout, "step")),
                                  json_integer_value(json_object_get(dropout, "first_row"))};
        g->batch.dropout = &g->dropout;
    }
    g->c.batch = &g->batch;
    g->c.loss = (rs_loss){.kind = kind_of(text_of(loss, "kind")),
                          .weight = number_of(loss, "weight"),
                          .targets = g->targets,
                          .values = g->values,
                          .counted = g->counted,
                          .smoothing = number_of(loss, "smoothing"),
                          .told = &g->told};
}

static void close_golden(golden *g)
{
    loose_free(g->c.loose);
    rs_network_close(g->network);
    rs_init_close(g->init);
    free(g->begin);
    free(g->ids);
    free(g->targets);
    free(g->rows);
    free(g->values);
    free(g->counted);
}

/* ---- against PyTorch ---- */

static double largest_of(const json_t *gradients)
{
    const char *name;
    json_t *array;
    double most = 0;
    json_object_foreach((json_t *)(uintptr_t)gradients, name,
                        array) for (size_t i = 0; i < json_array_size(array); i++) most =
        fmax(most, fabs(json_number_value(json_array_get(array, i))));
    return most;
}

/* The number of tensors whose gradient is not the golden one, or is not told, or not known. */
static int compare(const golden *g, const told_all *all, double bound)
{
    const json_t *gradients = json_object_get(g->json, "gradients");
    double slack = bound * largest_of(gradients);
    int wrong = 0;
    size_t found = 0;
    for (int i = 0; i < all->n; i++) {
        const told *t = &all->items[i];
        if (!t->parameter.tensor || t->use == RS_USE_ONE) continue;
        const json_t *expected = json_object_get(gradients, t->parameter.tensor->name);
        int64_t count = t->parameter.out * t->parameter.in;
        double worst = 0;
        if ((int64_t)json_array_size(expected) != count) {
            print_error("%s: %s is not in the golden file\n", g->c.name, t->parameter.tensor->name);
            wrong++;
            continue;
        }
        found++;
        for (int64_t k = 0; k < count; k++)
            worst = fmax(
                worst, fabs(t->values[k] - json_number_value(json_array_get(expected, (size_t)k))));
        if (worst <= slack) continue;
        print_error("%s: %s: off by %.3g\n", g->c.name, t->parameter.tensor->name, worst);
        wrong++;
    }
    if (found != json_object_size(gradients)) {
        print_error("%s: %zu of %zu gradients are told\n", g->c.name, found,
                    json_object_size(gradients));
        wrong++;
    }
    return wrong;
}

static int agrees(golden *g, rs_precision precision)
{
    bool wide = precision != RS_PRECISION_F32;
    double loss, expected = number_of(g->json, "value");
    g->told = (rs_loss_told){0};
    told_all *all = gradients_of(&g->c, precision, &loss);
    int wrong = compare(g, all, wide ? 1e-10 : 1e-5);
    if (!(fabs(loss - expected) <= (wide ? 1e-13 : 1e-5) * (1 + fabs(expected)))) {
        print_error("%s: the loss is %.17g, not %.17g\n", g->c.name, loss, expected);
        wrong++;
    }
    if (g->told.targets != (int64_t)number_of(g->json, "targets") ||
        g->told.right != (int64_t)number_of(g->json, "right")) {
        print_error("%s: %d of %d right\n", g->c.name, (int)g->told.right, (int)g->told.targets);
        wrong++;
    }
    told_free(all);
    return wrong;
}

/* ---- against itself ---- */

static int same_bits(const char *name, const told_all *a, const told_all *b, const char *with)
{
    int wrong = 0;
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        const rs_parameter *p = &a->items[i].parameter;
        size_t bytes = (size_t)(p->out * p->in) * sizeof *a->items[i].values;
        if (memcmp(a->items[i].values, b->items[i].values, bytes) == 0) continue;
        print_error("%s: layer %d %s: other bits with %s\n", name, p->layer, p->name, with);
        wrong++;
    }
    return wrong;
}

static int is_one_whatever(golden *g, rs_precision precision)
{
    static const char *const with[] = {"", "two threads", "three threads", "recomputation"};
    double losses[4];
    told_all *all[4];
    int wrong = 0;
    for (int k = 0; k < 4; k++) {
        g->c.threads = k < 3 ? k + 1 : 2;
        g->c.plan.recompute = k == 3;
        all[k] = gradients_of(&g->c, precision, &losses[k]);
        assert_true(losses[k] == losses[0]);
        if (k > 0) wrong += same_bits(g->c.name, all[0], all[k], with[k]);
    }
    for (int k = 0; k < 4; k++)
        told_free(all[k]);
    g->c.plan.recompute = false;
    return wrong;
}

static rs_status hear_nothing(void *user, int64_t first, const rs_state_view *view, rs_error *err)
{
    (void)first, (void)err;
    *(int64_t *)user += view->rows;
    return RS_OK;
}

/* The loss alone has the bits of the loss with a way back. Where a listener has all logits told, none is
 * left out: products of other sizes may round otherwise. */
static void loss_alone(golden *g, rs_precision precision)
{
    rs_context context = {.threads = 2};
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    int64_t heard = 0;
    const rs_tap tap = {.user = &heard, .logits = hear_nothing};
    const rs_tap *const taps[] = {&tap};
    double loss, alone = 0, listened = 0;
    told_free(gradients_of(&g->c, precision, &loss));
    assert_int_equal(rs_weights_open(&weights, precision, 1 << 28, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, &g->c.loose->network, weights, &context, &err), RS_OK);
    g->told = (rs_loss_told){0};
    assert_int_equal(rs_runner_loss(&alone, runner, &g->batch, &g->c.loss, NULL, 0, &err), RS_OK);
    const rs_loss_told once = g->told;
    assert_int_equal(rs_runner_loss(&listened, runner, &g->batch, &g->c.loss, taps, 1, &err),
                     RS_OK);
    assert_int_equal(heard, g->begin[g->batch.samples]);
    assert_int_equal(g->told.targets, 2 * once.targets);
    assert_int_equal(g->told.right, 2 * once.right);
    assert_true(alone == loss);
    assert_true(fabs(listened - loss) <= (precision == RS_PRECISION_F64 ? 1e-14 : 1e-6) * loss);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

static json_t *read_cases(void)
{
    char path[512];
    json_error_t why;
    snprintf(path, sizeof path, "%s/train/losses.json", RS_TEST_DATA);
    json_t *cases = json_load_file(path, 0, &why);
    if (!cases) fail_msg("%s: %s", path, why.text);
    return cases;
}

static void agrees_with_autograd(void **state)
{
    (void)state;
    json_t *cases = read_cases();
    int wrong = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        golden g;
        open_golden(&g, json_array_get(cases, i));
        for (rs_precision p = RS_PRECISION_F32; p <= RS_PRECISION_F64; p++) {
            wrong += agrees(&g, p);
            wrong += is_one_whatever(&g, p);
            loss_alone(&g, p);
        }
        close_golden(&g);
    }
    assert_true(json_array_size(cases) >= 14);
    json_decref(cases);
    assert_int_equal(wrong, 0);
}

/* The loss in the residual precision, and the refusal of dropout there. */
static void residual_one(golden *g)
{
    rs_context context = {.threads = 2};
    rs_gradient_plan plan = {0};
    rs_weights *weights;
    rs_runner *runner;
    rs_gradients *gradients;
    rs_error err = {0};
    double loss = 0, expected = number_of(g->json, "value");
    const rs_precision precision = RS_PRECISION_RESIDUAL;
    assert_int_equal(rs_weights_open(&weights, precision, 1 << 28, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, &g->c.loose->network, weights, &context, &err), RS_OK);
    assert_int_equal(rs_gradients_open(&gradients, &g->c.loose->network, precision, &plan, NULL, 0,
                                       &context, &err),
                     RS_OK);
    g->told = (rs_loss_told){0};
    rs_status status =
        rs_runner_gradient(&loss, runner, &g->batch, &g->c.loss, gradients, NULL, 0, &err);
    assert_int_equal(status, g->batch.dropout ? RS_E_UNSUPPORTED : RS_OK);
    assert_string_equal(err.where, g->batch.dropout ? "dropout" : "");
    if (status == RS_OK) {
        assert_true(fabs(loss - expected) <= 1e-12 * (1 + fabs(expected)));
        assert_int_equal(g->told.targets, (int64_t)number_of(g->json, "targets"));
        assert_int_equal(g->told.right, (int64_t)number_of(g->json, "right"));
    }
    rs_gradients_close(gradients);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

/* The residual precision has all of it but dropout. */
static void residual_too(void **state)
{
    (void)state;
    json_t *cases = read_cases();
    for (size_t i = 0; i < json_array_size(cases); i++) {
        golden g;
        open_golden(&g, json_array_get(cases, i));
        residual_one(&g);
        close_golden(&g);
    }
    json_decref(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_autograd),
        cmocka_unit_test(residual_too),
    };
    return cmocka_run_group_tests_name("training steps", tests, NULL, NULL);
}
