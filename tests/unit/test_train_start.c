/* test_train_start.c: what a task file's "start" puts into weights, and what it is refused for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train_learner.h"

#include "base/memory.h"
#include "train/groups.h"

#include <math.h>
#include <unistd.h>

static const char model[] =
    "{'depth': 2, 'd_model': 8, 'heads': 2, 'mlp_width': 12, 'norm_affine': "
    "'gain'}";

static const rs_trained *item_of(const trial *t, const char *name)
{
    for (int64_t i = 0; i < t->learner.trained.n; i++)
        if (strcmp(t->learner.trained.names[i].name, name) == 0)
            return &t->learner.trained.items[i];
    fail_msg("there is no %s", name);
    return NULL;
}

static double number_of(const trial *t, const rs_trained *item, int64_t i)
{
    return t->learner.trained.size == sizeof(float) ? (double)((const float *)item->weight)[i]
                                                    : ((const double *)item->weight)[i];
}

/* Words and expressions choose, as groups do; what is not chosen stays as it was drawn. */
static void test_laws(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        char more[300];
        snprintf(
            more, sizeof more,
            "'start': {'norm': 'normal(0.5, 0)', 'mlp': 'zero', 'mixer\\\\.q\\\\.': 'identity',"
            " 'layers\\\\.0\\\\.mixer\\\\.k': 'normal(0, 1/fan_in)'}, 'precision': '%s'",
            wide ? "f64" : "f32");
        trial plain, t;
        open_trial(&plain, model, wide ? "'precision': 'f64'" : "'precision': 'f32'", 1);
        open_trial(&t, model, more, 1);
        double squares = 0;
        for (int64_t i = 0; i < 64; i++) {
            for (int l = 0; l < 2; l++) {
                char name[40];
                snprintf(name, sizeof name, "layers.%d.mixer.q.weight", l);
                assert_true(number_of(&t, item_of(&t, name), i) == (i / 8 == i % 8));
            }
            double drawn = number_of(&t, item_of(&t, "layers.0.mixer.k.weight"), i);
            assert_true(drawn != number_of(&plain, item_of(&plain, "layers.0.mixer.k.weight"), i));
            squares += drawn * drawn / 64;
        }
        assert_true(squares > 0.5 / 8 && squares < 2.0 / 8);
        for (int64_t k = 0; k < t.learner.trained.n; k++) {
            const rs_trained *item = &t.learner.trained.items[k];
            const rs_trained_name *name = &t.learner.trained.names[k];
            bool chosen = strstr(name->name, "mixer.q") || strstr(name->name, "layers.0.mixer.k");
            for (int64_t i = 0; i < item->count; i++) {
                double value = number_of(&t, item, i);
                if (name->words & RS_GROUP_NORM)
                    assert_true(value == 0.5);
                else if (name->words & RS_GROUP_MLP)
                    assert_true(value == 0);
                else if (!chosen)
                    assert_true(value == number_of(&plain, &plain.learner.trained.items[k], i));
            }
        }
        run_batch(&t); /* the network reads them there */
        close_trial(&plain);
        close_trial(&t);
    }
}

/* Numbers of the network are chosen as tensors are. */
static void test_skips(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, model, "'trainable': ['skips'], 'start': {'mixer\\\\.skip': 'normal(0.25, 0)'}",
               1);
    assert_true(t.learner.network->layers[1].branches[0].skip == 0.25);
    assert_true(t.learner.network->layers[1].branches[1].skip == 1);
    close_trial(&t);
}

static void test_files(void **state)
{
    (void)state;
    double numbers[64];
    float single[64];
    for (int i = 0; i < 64; i++)
        numbers[i] = sin(i), single[i] = (float)cos(i);
    write_npy("q.npy", "<f8", "8, 8", numbers, sizeof numbers);
    write_npy("k.npy", "<f4", "8, 8", single, sizeof single);
    trial t;
    open_trial(&t, model,
               "'start': {'0\\\\.mixer\\\\.q': 'q.npy', '1\\\\.mixer\\\\.k': 'k.npy'}, "
               "'precision': 'f64', 'optimizer': {'frozen': ['0\\\\.mixer\\\\.q']}",
               1);
    run_steps(&t, 2);
    for (int i = 0; i < 64; i++) /* frozen: still the file's, every digit */
        assert_true(number_of(&t, item_of(&t, "layers.0.mixer.q.weight"), i) == numbers[i]);
    close_trial(&t);
    open_trial(&t, model, "'start': {'1\\\\.mixer\\\\.k': 'k.npy'}", 1);
    for (int i = 0; i < 64; i++)
        assert_true(number_of(&t, item_of(&t, "layers.1.mixer.k.weight"), i) == (double)single[i]);
    close_trial(&t);
}

static void refuses(const char *start, rs_status wanted, const char *what)
{
    char text[500];
    snprintf(text, sizeof text,
             "{'task': 'associative-recall', 'model': {'depth': 1, 'd_model': 8}, 'start': %s}",
             start);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    json_t *json = json_loads(text, 0, NULL);
    rs_error err = {0};
    rs_train_settings *settings = NULL;
    const rs_context context = {.threads = 1};
    assert_int_equal(rs_train_settings_read(&settings, json, "here", NULL, 0, &err), RS_OK);
    json_decref(json);
    rs_learner learner;
    assert_int_equal(rs_learner_open(&learner, settings, &settings->shape, &context, &err), wanted);
    if (what && !strstr(err.what, what)) fail_msg("%s: %s", start, err.what);
    rs_train_settings_close(settings);
}

static void test_refusals(void **state)
{
    (void)state;
    double numbers[64] = {0};
    numbers[5] = NAN;
    write_npy("nan.npy", "<f8", "8, 8", numbers, sizeof numbers);
    write_npy("flat.npy", "<f8", "64, ", numbers, sizeof numbers);
    refuses("{'wq': 'zero'}", RS_E_TASK_SCHEMA, "no tensor's name matches");
    refuses("{'mlp': 'zeros'}", RS_E_TASK_SCHEMA, "zeros");
    refuses("{'mlp': 'normal(0)'}", RS_E_TASK_SCHEMA, "normal");
    refuses("{'mlp': 'normal(0, -1)'}", RS_E_TASK_SCHEMA, "negative");
    refuses("{'mixer\\\\.q': 'nan.npy'}", RS_E_TASK_SCHEMA, "number 5 is not finite");
    refuses("{'mixer\\\\.q': 'flat.npy'}", RS_E_TASK_SCHEMA, "layers.0.mixer.q.weight");
    refuses("{'mixer\\\\.q': 'none.npy'}", RS_E_NOT_FOUND, NULL);
}

/* Each request for memory is refused in turn. */
static void test_memory(void **state)
{
    (void)state;
    float single[64] = {0};
    write_npy("k.npy", "<f4", "8, 8", single, sizeof single);
    static const char text[] =
        "{\"task\": \"associative-recall\", \"model\": {\"depth\": 1, \"d_model\": 8},"
        " \"start\": {\"mlp\": \"zero\", \"mixer\\\\.k\": \"k.npy\"}}";
    json_t *json = json_loads(text, 0, NULL);
    rs_error err = {0};
    rs_train_settings *settings = NULL;
    const rs_context context = {.threads = 1};
    assert_int_equal(rs_train_settings_read(&settings, json, "here", NULL, 0, &err), RS_OK);
    json_decref(json);
    rs_learner learner;
    rs_status status = RS_E_NO_MEMORY;
    int64_t k = 0;
    while (status != RS_OK) {
        assert_int_equal(status, RS_E_NO_MEMORY);
        rs_memory_fail_at(++k);
        status = rs_learner_open(&learner, settings, &settings->shape, &context, &err);
        rs_memory_fail_at(0);
    }
    assert_true(k > 50);
    rs_learner_close(&learner);
    rs_train_settings_close(settings);
}

/* Files are written to a folder of the test's own. */
static int go_apart(void **state)
{
    static char folder[] = "/tmp/rankscope-start-XXXXXX";
    *state = mkdtemp(folder);
    return *state && chdir(folder) == 0 ? 0 : -1;
}

static int come_back(void **state)
{
    static const char *const names[] = {"q.npy", "k.npy", "nan.npy", "flat.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)unlink(names[i]);
    return chdir("/") == 0 ? rmdir(*state) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_laws), cmocka_unit_test(test_skips),
                                       cmocka_unit_test(test_files), cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, go_apart, come_back);
}
