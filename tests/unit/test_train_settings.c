/* test_train_settings.c: task files: named tasks with their published settings, overrides, refusals
 * with the nearest name, and that what is written reads back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "network/arch.h"
#include "train/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static rs_train_settings *open_named(const char *name, const char *const *sets, size_t n)
{
    rs_train_settings *s = NULL;
    rs_error err = {0};
    if (rs_train_settings_open(&s, name, sets, n, &err) != RS_OK)
        fail_msg("%s: %s: %s; %s", name, err.where, err.what, err.hint);
    return s;
}

static rs_status read_text(rs_train_settings **s, const char *text, const char *set, rs_error *err)
{
    json_error_t why;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!json) fail_msg("%s: %s", text, why.text);
    *err = (rs_error){0};
    rs_status status = rs_train_settings_read(s, json, "t.json", &set, set ? 1 : 0, err);
    json_decref(json);
    return status;
}

/* weight_decay 7.3. */
static void test_recall(void **state)
{
    (void)state;
    rs_train_settings *s = open_named("associative-recall", NULL, 0);
    assert_string_equal(s->task, "associative-recall");
    assert_true(s->data.keys == 16 && s->data.values == 16 && s->data.pairs == 6 &&
                s->data.queries == 6 && s->data.train == 0);
    assert_true(s->steps == 4000 && s->batch == 32 && s->lr == 2e-3);
    assert_true(s->rule.kind == RS_OPTIMISER_ADAMW && s->rule.eps == 1e-8);
    assert_true(s->rule.betas[0] == 0.9 && s->rule.betas[1] == 0.95);
    assert_true(s->clip == 1 && isinf(s->clip_each) && s->dropout == 0);
    assert_true(s->schedule.kind == RS_SCHEDULE_CONSTANT && s->schedule.warmup == 100);
    assert_true(s->log_every == 50 && s->rank_every == 50);
    assert_true(s->loss == RS_TRAIN_LOSS_CROSS_ENTROPY && s->precision == RS_PRECISION_F32);
    assert_int_equal(s->decays.n, 3);
    assert_string_equal(s->decays.items[0].select, "default");
    assert_true(s->decays.items[0].value == 0.1 && s->decays.items[2].value == 0);
    assert_true(s->shape.n_tok == 18 && s->shape.d_out == 16);
    rs_arch *arch = NULL;
    rs_error err;
    assert_int_equal(rs_arch_read(&arch, s->model, "model", &err), RS_OK);
    assert_true(arch->depth == 2 && arch->d_model == 64 && arch->heads == 2 && arch->d_head == 32);
    assert_true(arch->mlp_width == 128 && arch->mlp == RS_ARCH_MLP_RELU);
    assert_true(arch->vocab == 32 && arch->seq_len == 18 && arch->norm == RS_ARCH_NORM_PRE);
    assert_string_equal(arch->init[RS_ARCH_W1], "normal(0, 1/fan_in)");
    rs_arch_close(arch);
    rs_train_settings_close(s);
}

/* dong2021 3.3, 5; signal_propagation A.8. */
static void test_published(void **state)
{
    (void)state;
    rs_train_settings *s = open_named("sorting", NULL, 0);
    assert_true(s->steps == 2210 && s->batch == 30 && s->lr == 1e-5 && s->dropout == 0.1);
    assert_true(s->rule.kind == RS_OPTIMISER_ADAM && s->decays.n == 0 && s->seed == 2);
    assert_true(s->embed_map == RS_EMBED_LINEAR && s->embed_norm);
    rs_train_settings_close(s);
    s = open_named("convex-hull", NULL, 0);
    assert_true(s->steps == 70 * 334 && s->batch == 30 && s->decays.items[0].value == 1e-3);
    assert_true(s->schedule.factor == 0.91 && s->schedule.n_milestones == 5);
    assert_true(s->schedule.milestones[1] == 30 * 334 && s->embed_width == 84);
    rs_train_settings_close(s);
    s = open_named("memorization", NULL, 0);
    assert_true(s->steps == 50 * 63 && s->batch == 8 && s->lr == 3e-4);
    rs_train_settings_close(s);
    s = open_named("circle", NULL, 0);
    assert_true(s->steps == 70 * 17 && s->loss == RS_TRAIN_LOSS_SQUARED);
    assert_null(json_object_get(s->model, "vocab"));
    rs_train_settings_close(s);
    s = open_named("reversal", NULL, 0);
    assert_true(s->lr == 0.01 && s->rule.betas[1] == 0.999 && s->data.length == 20);
    rs_train_settings_close(s);
}

/* Every named task reads, its model is an architecture, and what is written reads back the same. */
static void test_round_trip(void **state)
{
    (void)state;
    int tasks = 0;
    for (const rs_named_task *task = rs_named_tasks; task->name; task++, tasks++) {
        rs_train_settings *s = open_named(task->name, NULL, 0), *again = NULL;
        rs_arch *arch = NULL;
        rs_error err = {0};
        assert_non_null(s->model);
        if (!s->kind) json_object_set_new(s->model, "vocab", json_integer(100)); /* the data's */
        if (rs_arch_read(&arch, s->model, "model", &err) != RS_OK)
            fail_msg("%s: %s", task->name, err.what);
        rs_arch_close(arch);
        json_t *written = rs_train_settings_write(s);
        assert_non_null(written);
        if (rs_train_settings_read(&again, written, "again", NULL, 0, &err) != RS_OK)
            fail_msg("%s: %s", task->name, err.what);
        json_t *second = rs_train_settings_write(again);
        rs_buffer differences = {0};
        rs_train_settings_differ(&differences, written, second);
        if (differences.length) fail_msg("%s: %s", task->name, differences.data);
        assert_true(json_equal(written, second));
        rs_buffer_free(&differences);
        json_decref(second);
        json_decref(written);
        rs_train_settings_close(again);
        rs_train_settings_close(s);
    }
    assert_int_equal(tasks, 15);
}

static void test_sets(void **state)
{
    (void)state;
    const char *const sets[] = {"optimizer.weight_decay.attention=1",
                                "optimizer.weight_decay.layers\\.0\\.=0.5",
                                "optimizer.lr_factor=0.5",
                                "optimizer.lr_factor.mlp=2",
                                "optimizer.clip=null",
                                "model.mixer=mamba",
                                "model.depth=3",
                                "precision=f64",
                                "data.batches=b.npy",
                                "stop_on=[\"loss_spike\"]"};
    rs_train_settings *s = open_named("associative-recall", sets, 10);
    assert_int_equal(s->decays.n, 4); /* default, attention, norm, and the new one */
    assert_true(s->decays.items[1].value == 1 && s->decays.items[2].value == 0);
    assert_string_equal(s->decays.items[3].select, "layers\\.0\\.");
    assert_int_equal(s->rates.n, 2);
    assert_string_equal(s->rates.items[0].select, "default");
    assert_true(s->rates.items[0].value == 0.5 && s->rates.items[1].value == 2);
    assert_true(isinf(s->clip) && s->precision == RS_PRECISION_F64);
    assert_string_equal(s->data.batches, "b.npy");
    assert_string_equal(s->stop_on.items[0], "loss_spike");
    assert_string_equal(json_string_value(json_object_get(s->model, "mixer")), "mamba");
    assert_int_equal(json_integer_value(json_object_get(s->model, "depth")), 3);
    assert_int_equal(json_integer_value(json_object_get(s->model, "heads")), 2); /* kept */
    rs_train_settings *plain = open_named("associative-recall", NULL, 0);
    json_t *old = rs_train_settings_write(plain), *now = rs_train_settings_write(s);
    rs_buffer out = {0};
    rs_train_settings_differ(&out, old, now);
    assert_non_null(strstr(out.data, "optimizer.weight_decay.attention: 0.1, now 1"));
    assert_non_null(strstr(out.data, "optimizer.weight_decay.layers\\.0\\.: absent, now 0.5"));
    assert_non_null(strstr(out.data, "precision: \"f32\", now \"f64\""));
    assert_null(strstr(out.data, "steps"));
    rs_buffer_free(&out);
    json_decref(old);
    json_decref(now);
    rs_train_settings_close(plain);
    rs_train_settings_close(s);
}

/* Groups in a file are all there are; an override adds to what is there. */
static void test_groups(void **state)
{
    (void)state;
    rs_train_settings *s = NULL;
    rs_error err;
    assert_int_equal(read_text(&s,
                               "{\"task\": \"mqar\", \"optimizer\": {\"weight_decay\":"
                               " {\"norm\": 0}}, \"model\": \"folder/of/a/model\"}",
                               NULL, &err),
                     RS_OK);
    assert_int_equal(s->decays.n, 1);
    assert_string_equal(s->decays.items[0].select, "norm");
    assert_null(s->model);
    assert_string_equal(s->model_path, "folder/of/a/model");
    rs_train_settings_close(s);
    assert_int_equal(read_text(&s,
                               "{\"task\": \"associative-recall\","
                               " \"optimizer\": {\"weight_decay\": 0.3, \"frozen\": [\"norm\"]},"
                               " \"start\": {\"wq$\": \"zero\"}, \"trainable\": [\"skips\"]}",
                               NULL, &err),
                     RS_OK);
    assert_int_equal(s->decays.n, 1);
    json_t *written = rs_train_settings_write(s);
    rs_train_settings *again = NULL;
    assert_int_equal(rs_train_settings_read(&again, written, "again", NULL, 0, &err), RS_OK);
    assert_true(again->decays.n == 1 && again->decays.items[0].value == 0.3);
    rs_train_settings_close(again);
    json_decref(written);
    assert_string_equal(s->frozen.items[0], "norm");
    assert_string_equal(s->start.items[0].from, "zero");
    assert_string_equal(s->trainable.items[0], "skips");
    rs_train_settings_close(s);
    const char *const sets[] = {"optimizer.weight_decay.norm=0", "task=mqar"};
    s = open_named("sorting", sets, 2);
    assert_int_equal(s->decays.n, 2); /* the number of mqar is the default beside it */
    assert_true(s->decays.items[0].value == 0.1 && s->decays.items[1].value == 0);
    assert_string_equal(s->decays.items[0].select, "default");
    rs_train_settings_close(s);
}

static void test_apply(void **state)
{
    (void)state;
    const char *const sets[] = {"optimizer.weight_decay.attention=3", "optimizer.lr_factor.mlp=0.5",
                                "optimizer.frozen=[\"embedding\", \"layers\\\\.1\\\\.wk\"]"};
    static const rs_trained_name names[] = {{"layers.0.wq", RS_GROUP_ATTENTION | RS_GROUP_MIXER},
                                            {"layers.1.wk", RS_GROUP_ATTENTION | RS_GROUP_MIXER},
                                            {"layers.0.norm", RS_GROUP_NORM},
                                            {"layers.0.w1", RS_GROUP_MLP},
                                            {"tokens", RS_GROUP_EMBEDDING}};
    rs_train_settings *s = open_named("associative-recall", sets, 3);
    rs_trained items[5] = {{0}};
    rs_error err;
    assert_int_equal(rs_train_apply_groups(items, names, 5, s, &err), RS_OK);
    static const double decays[] = {3, 3, 0, 0.1, 0.1}, rates[] = {1, 1, 1, 0.5, 1};
    for (int i = 0; i < 5; i++) {
        assert_true(items[i].decay == decays[i] && items[i].rate == rates[i]);
        assert_int_equal(items[i].frozen, i == 1 || i == 4);
    }
    assert_int_equal(rs_train_apply_groups(items, names, 1, s, &err), RS_E_TASK_SCHEMA);
    assert_non_null(strstr(err.what, "\"frozen\" has \"layers"));
    rs_train_settings_close(s);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *set;
        rs_status status;
        const char *what, *hint; /* parts of the message */
    } cases[] = {
        {"{}", NULL, RS_E_TASK_SCHEMA, "which task", "\"sorting\""},
        {"{\"task\": \"sort\"}", NULL, RS_E_TASK_SCHEMA, "no task \"sort\"", "\"sorting\""},
        {"{\"task\": 3}", NULL, RS_E_TASK_SCHEMA, "which task", ""},
        {"{\"task\": \"sorting\", \"step\": 3}", NULL, RS_E_TASK_SCHEMA, "unknown field \"step\"",
         "\"steps\""},
        {"{\"task\": \"sorting\", \"steps\": -1}", NULL, RS_E_TASK_SCHEMA,
         "\"steps\" is -1; a whole number from 0 to 2147483647", ""},
        {"{\"task\": \"sorting\", \"steps\": 1.5}", NULL, RS_E_TASK_SCHEMA, "\"steps\" is 1.5", ""},
        {"{\"task\": \"sorting\", \"batch\": 0}", NULL, RS_E_TASK_SCHEMA, "\"batch\" is 0", ""},
        {"{\"task\": \"sorting\", \"dropout\": 1}", NULL, RS_E_TASK_SCHEMA, "from 0 to below 1",
         ""},
        {"{\"task\": \"sorting\", \"data\": {\"radius\": 1}}", NULL, RS_E_TASK_SCHEMA,
         "unknown field \"radius\" in \"data\" of task sorting", ""},
        {"{\"task\": \"circle\", \"data\": {\"radiu\": 1}}", NULL, RS_E_TASK_SCHEMA, "\"radiu\"",
         "\"radius\""},
        {"{\"task\": \"sorting\", \"data\": []}", NULL, RS_E_TASK_SCHEMA, "an object is needed",
         ""},
        {"{\"task\": \"sorting\", \"data\": {\"length\": 0}}", NULL, RS_E_TASK_SCHEMA,
         "\"length\" is 0", ""},
        {"{\"task\": \"associative-recall\", \"data\": {\"pairs\": 17}}", NULL, RS_E_TASK_SCHEMA,
         "keys differ", ""},
        {"{\"task\": \"entrywise\", \"data\": {\"map\": \"heavyside\"}}", NULL, RS_E_TASK_SCHEMA,
         "\"map\" is \"heavyside\"", "\"heaviside\""},
        {"{\"task\": \"sorting\", \"optimizer\": {\"kind\": \"adamm\"}}", NULL, RS_E_TASK_SCHEMA,
         "there are sgd, heavy_ball, adam, adamw", "\"adam\""},
        {"{\"task\": \"sorting\", \"optimizer\": {\"lr\": \"big\"}}", NULL, RS_E_TASK_SCHEMA,
         "\"lr\" is \"big\"", ""},
        {"{\"task\": \"sorting\", \"optimizer\": {\"betas\": [0.9]}}", NULL, RS_E_TASK_SCHEMA,
         "a list of two numbers", ""},
        {"{\"task\": \"sorting\", \"optimizer\": {\"betas\": [0.9, 1]}}", NULL, RS_E_TASK_SCHEMA,
         "below 1", ""},
        {"{\"task\": \"sorting\", \"optimizer\": {\"clip\": 0}}", NULL, RS_E_TASK_SCHEMA,
         "above 0, or null", ""},
        {"{\"task\": \"sorting\", \"optimizer\": {\"clip\": 1, \"clip_each\": 1}}", NULL,
         RS_E_TASK_SCHEMA, "not by both", "null"},
        {"{\"task\": \"sorting\", \"optimizer\": {\"weight_decay\": {\"norm\": -1}}}", NULL,
         RS_E_TASK_SCHEMA, "\"norm\" is -1", ""},
        {"{\"task\": \"sorting\", \"schedule\": {\"milestones\": [1, -2]}}", NULL, RS_E_TASK_SCHEMA,
         "\"milestones\" is -2", ""},
        {"{\"task\": \"sorting\", \"schedule\": {\"temperature\": {\"end\": 2}}}", NULL,
         RS_E_TASK_SCHEMA, "\"end\" in \"temperature\"", ""},
        {"{\"task\": \"sorting\", \"stop_on\": [\"token_colapse\"]}", NULL, RS_E_TASK_SCHEMA,
         "token_colapse", "\"token_collapse\""},
        {"{\"task\": \"sorting\", \"model\": 3}", NULL, RS_E_TASK_SCHEMA, "an architecture", ""},
        {"{\"task\": \"sorting\", \"model\": {\"vocab\": 5}}", NULL, RS_E_TASK_SCHEMA,
         "\"vocab\" is 5; 10 or more", ""},
        {"{\"task\": \"circle\", \"loss\": \"cross_entropy\"}", NULL, RS_E_TASK_SCHEMA,
         "no cross-entropy", "squared"},
        {"{\"task\": \"circle\", \"embed\": {\"map\": \"none\"}}", NULL, RS_E_TASK_SCHEMA,
         "rows of 2 numbers", "embed"},
        {"{\"task\": \"sorting\", \"start\": {\"wq\": 0}}", NULL, RS_E_TASK_SCHEMA, "\"wq\" is 0",
         ""},
        {"{\"task\": \"sorting\"}", "steps", RS_E_BAD_OPTION, "no '='", "optimizer.lr=0.001"},
        {"{\"task\": \"sorting\"}", "=3", RS_E_BAD_OPTION, "no name", ""},
        {"{\"task\": \"sorting\"}", "optimizer..lr=3", RS_E_BAD_OPTION, "no name", ""},
        {"{\"task\": \"sorting\", \"steps\": 4}", "steps.x=3", RS_E_BAD_OPTION, "no object", ""},
        {"{\"task\": \"sorting\"}", "optimizer.lrr=3", RS_E_TASK_SCHEMA, "\"lrr\"", "\"lr\""},
        {"{\"task\": \"sorting\"}", "task=mqarr", RS_E_TASK_SCHEMA, "\"mqarr\"", "\"mqar\""},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        rs_train_settings *s = NULL;
        rs_error err;
        rs_status status = read_text(&s, cases[c].text, cases[c].set, &err);
        if (status != cases[c].status || !strstr(err.what, cases[c].what) ||
            !strstr(err.hint, cases[c].hint))
            fail_msg("%s: %d: %s; %s", cases[c].text, (int)status, err.what, err.hint);
        assert_null(s);
        if (status == RS_E_TASK_SCHEMA) assert_string_equal(err.where, "t.json");
    }
}

static void test_files(void **state)
{
    (void)state;
    char path[] = "/tmp/rs_task_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    const char text[] = "{\"task\": \"sorting\", \"steps\": 5}\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    rs_train_settings *s = open_named(path, NULL, 0);
    assert_true(s->steps == 5 && s->schedule.steps == 5 && s->batch == 30);
    rs_train_settings_close(s);
    const char bad[] = "{\"task\": ";
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, bad, sizeof bad - 1, 0), sizeof bad - 1);
    close(fd);
    rs_error err;
    assert_int_equal(rs_train_settings_open(&s, path, NULL, 0, &err), RS_E_JSON_SYNTAX);
    unlink(path);
    assert_int_equal(rs_train_settings_open(&s, path, NULL, 0, &err), RS_E_NOT_FOUND);
    assert_int_equal(rs_train_settings_open(&s, "associative", NULL, 0, &err), RS_E_TASK_SCHEMA);
    assert_non_null(strstr(err.hint, "\"associative-recall\""));
}

static void test_memory(void **state)
{
    (void)state;
    const char *const sets[] = {"optimizer.weight_decay.attention=1", "model.heads=4"};
    rs_train_settings_close(open_named("convex-hull", sets, 2));
    int64_t blocks = rs_memory_blocks();
    rs_status status = RS_E_NO_MEMORY;
    for (int64_t n = 1; status != RS_OK; n++) {
        rs_train_settings *s = NULL;
        rs_error err;
        rs_memory_fail_at(n);
        status = rs_train_settings_open(&s, "convex-hull", sets, 2, &err);
        json_t *written = s ? rs_train_settings_write(s) : NULL;
        if (s && !written) status = RS_E_NO_MEMORY;
        rs_memory_fail_at(0);
        json_decref(written);
        rs_train_settings_close(s);
        assert_int_equal(rs_memory_blocks(), blocks);
        if (status != RS_OK) assert_int_equal(status, RS_E_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recall),     cmocka_unit_test(test_published),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_sets),
        cmocka_unit_test(test_groups),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_apply),      cmocka_unit_test(test_files),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
