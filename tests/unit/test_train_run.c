/* test_train_run.c: runs that train, from their settings to their last checkpoint: broken off and taken
 * up again, ended by an alarm or a number that is not finite, in a folder or in none, and where memory is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "train/run.h"
#include "train/saver.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char small[] =
    "{'task': 'reversal', 'data': {'length': 5, 'symbols': 4}, 'steps': 24, 'batch': 3, "
    "'log_every': 4,"
    " 'rank_every': 8, 'eval_every': 12, 'every_checkpoint': 6, 'keep': 2, 'trainable': ['skips'],"
    " 'model': {'depth': 2, 'd_model': 8, 'heads': 2, 'mlp_width': 6},"
    " 'optimizer': {'kind': 'adamw', 'lr': 0.02, 'clip': 1}}";

static rs_train_settings *read_settings(const char *text, const char *const *sets, size_t n)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *c = copy; *c; c++)
        if (*c == '\'') *c = '"';
    json_error_t wrong;
    rs_error err = {0};
    rs_train_settings *settings = NULL;
    json_t *json = json_loads(copy, 0, &wrong);
    if (!json) fail_msg("%s", wrong.text);
    if (rs_train_settings_read(&settings, json, "test", sets, n, &err) != RS_OK)
        fail_msg("%s: %s %s", err.where, err.what, err.hint);
    json_decref(json);
    free(copy);
    return settings;
}

/* A folder of the test's own, empty. */
static void fresh_folder(char out[256], const char *name)
{
    char command[600];
    snprintf(out, 256, "run_%s_%ld", name, (long)getpid());
    snprintf(command, sizeof command, "rm -rf '%s'", out);
    assert_int_equal(system(command), 0);
}

static void remove_folder(const char *folder)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* A listener that stops the run behind a step. */
typedef struct stopper {
    volatile sig_atomic_t stop;
    int64_t at;
    int logs;
} stopper;

static void count_log(void *user, const rs_train_row *row, const char *alarm)
{
    stopper *s = user;
    (void)alarm;
    s->logs++;
    if (s->at >= 0 && row->step >= s->at) s->stop = 1;
}

static rs_status run_it(rs_run_outcome *out, rs_train_settings *settings, const char *folder,
                        bool resume, int threads, stopper *s, rs_result *result, rs_error *err)
{
    const rs_run_listener listener = {.user = s, .logged = s ? count_log : NULL};
    const rs_context context = {.threads = threads, .cancel = s ? &s->stop : NULL};
    const rs_run_request request = {.settings = settings,
                                    .folder = folder,
                                    .resume = resume,
                                    .result = result,
                                    .listener = &listener};
    return rs_train_run(out, &request, &context, err);
}

static void assert_ran(rs_status status, const rs_error *err)
{
    if (status != RS_OK) fail_msg("%s: %s %s", err->where, err->what, err->hint);
}

/* All numbers of the newest checkpoint's two files. */
static void assert_same_weights(const char *a, const char *b)
{
    static const char *const files[] = {"model.safetensors",
                                        "checkpoints/step-000000024/training.safetensors"};
    for (int i = 0; i < 2; i++) {
        rs_checkpoint *x = NULL, *y = NULL;
        char path[400];
        rs_error err = {0};
        snprintf(path, sizeof path, "%s/%s", a, files[i]);
        assert_ran(rs_checkpoint_open(&x, path, NULL, &err), &err);
        snprintf(path, sizeof path, "%s/%s", b, files[i]);
        assert_ran(rs_checkpoint_open(&y, path, NULL, &err), &err);
        assert_int_equal(x->n_tensors, y->n_tensors);
        assert_true(x->n_tensors > 10);
        for (size_t t = 0; t < x->n_tensors; t++) {
            const rs_tensor *other = rs_checkpoint_find(y, x->tensors[t].name);
            assert_non_null(other);
            assert_int_equal(x->tensors[t].bytes, other->bytes);
            if (memcmp(x->tensors[t].data, other->data, other->bytes) != 0)
                fail_msg("%s of %s differs", x->tensors[t].name, b);
        }
        rs_checkpoint_close(x);
        rs_checkpoint_close(y);
    }
}

static void test_resumed(void **state)
{
    (void)state;
    char whole[256], cut[256];
    rs_error err = {0};
    rs_run_outcome out;
    rs_train_settings *settings = read_settings(small, NULL, 0);
    fresh_folder(whole, "whole");
    fresh_folder(cut, "cut");
    assert_ran(run_it(&out, settings, whole, false, 1, NULL, NULL, &err), &err);
    assert_int_equal(out.end, RS_RUN_DONE);
    assert_int_equal(out.step, 24);
    assert_int_equal(out.saved, 24);
    for (int64_t at = 0; at <= 20; at += 4) { /* broken off at each log in turn */
        stopper s = {.at = at};
        assert_ran(run_it(&out, settings, cut, true, 1 + (int)(at / 4 % 3), &s, NULL, &err), &err);
        assert_int_equal(out.end, RS_RUN_INTERRUPTED);
        assert_int_equal(out.step, at + 1);
        assert_int_equal(out.saved, at + 1);
    }
    stopper s = {.at = -1};
    assert_ran(run_it(&out, settings, cut, true, 2, &s, NULL, &err), &err);
    assert_int_equal(out.end, RS_RUN_DONE);
    assert_int_equal(out.first, 21);
    assert_int_equal(s.logs, 1);
    assert_same_weights(whole, cut);
    assert_int_equal(run_it(&out, settings, cut, false, 1, NULL, NULL, &err),
                     RS_E_OVERWRITES_INPUT);
    rs_train_settings_close(settings);
    static const char *const other[] = {"optimizer.lr=0.03"};
    settings = read_settings(small, other, 1);
    assert_int_equal(run_it(&out, settings, cut, true, 1, NULL, NULL, &err), RS_E_TASK_SCHEMA);
    assert_non_null(strstr(err.what, "optimizer.lr"));
    rs_train_settings_close(settings);
    remove_folder(whole);
    remove_folder(cut);
}

/* ---- checkpoints of a program that did not have a field ---- */

static const char circle[] = "{'task': 'circle', 'steps': 6, 'every_checkpoint': 3, 'batch': 2, "
                             "'model': {'d_model': 8}, 'log_every': 2, 'rank_every': 0, "
                             "'optimizer': {'lr': 0.01}}";

/* Takes a member out of an object of the settings that a checkpoint was made with. */
static void forget_field(const char *folder, int step, const char *object, const char *member)
{
    char path[400];
    json_error_t wrong;
    snprintf(path, sizeof path, "%s/checkpoints/step-%09d/state.json", folder, step);
    json_t *state = json_load_file(path, 0, &wrong);
    if (!state) fail_msg("%s: %s", path, wrong.text);
    json_t *inside = json_object_get(json_object_get(state, "settings"), object);
    assert_int_equal(json_object_del(inside, member), 0);
    assert_int_equal(json_dump_file(state, path, 0), 0);
    json_decref(state);
}

/* A circle's run of before `data.lag`: it goes on as it would have without a break, and not with a lag. */
static void test_fields_of_later_programs(void **state)
{
    (void)state;
    static const char *const lag[] = {"data.lag=30"}, *const names[] = {"later_whole", "later_cut"};
    char folders[2][256], path[700];
    rs_error err = {0};
    rs_run_outcome out;
    rs_train_settings *plain = read_settings(circle, NULL, 0),
                      *lagged = read_settings(circle, lag, 1);
    rs_checkpoint *saved[2];
    for (int i = 0; i < 2; i++)
        fresh_folder(folders[i], names[i]);
    assert_ran(run_it(&out, plain, folders[0], false, 1, NULL, NULL, &err), &err);
    stopper s = {.at = 2};
    assert_ran(run_it(&out, plain, folders[1], false, 1, &s, NULL, &err), &err);
    assert_int_equal(out.saved, 3);
    forget_field(folders[1], 3, "data", "lag");
    assert_int_equal(run_it(&out, lagged, folders[1], true, 1, NULL, NULL, &err), RS_E_TASK_SCHEMA);
    assert_non_null(strstr(err.what, "data.lag: 0, now 30"));
    assert_ran(run_it(&out, plain, folders[1], true, 1, NULL, NULL, &err), &err);
    assert_true(out.first == 3 && out.end == RS_RUN_DONE);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/model.safetensors", folders[i]);
        assert_ran(rs_checkpoint_open(&saved[i], path, NULL, &err), &err);
    }
    assert_true(saved[0]->n_tensors > 5);
    for (size_t t = 0; t < saved[0]->n_tensors; t++) {
        const rs_tensor *one = &saved[0]->tensors[t],
                        *other = rs_checkpoint_find(saved[1], one->name);
        assert_non_null(other);
        assert_memory_equal(one->data, other->data, one->bytes);
    }
    for (int i = 0; i < 2; i++)
        rs_checkpoint_close(saved[i]);
    /* a network without a field is another one */
    forget_field(folders[1], 6, "model", "norm_affine");
    assert_int_equal(run_it(&out, plain, folders[1], true, 1, NULL, NULL, &err), RS_E_TASK_SCHEMA);
    assert_non_null(strstr(err.what, "model.norm_affine: absent, now \"both\""));
    rs_train_settings_close(plain);
    rs_train_settings_close(lagged);
    for (int i = 0; i < 2; i++)
        remove_folder(folders[i]);
}

/* A folder in which a run goes on is another run's no more. */
static void test_locked(void **state)
{
    (void)state;
    char folder[256];
    rs_error err = {0};
    rs_run_outcome out;
    rs_train_settings *settings = read_settings(small, NULL, 0);
    rs_learner learner = {.settings = settings};
    rs_saver *first = NULL, *second = NULL;
    fresh_folder(folder, "locked");
    assert_ran(rs_saver_open(&first, folder, &learner, 1, &err), &err);
    assert_int_equal(rs_saver_open(&second, folder, &learner, 1, &err), RS_E_OVERWRITES_INPUT);
    assert_null(second);
    assert_int_equal(run_it(&out, settings, folder, true, 1, NULL, NULL, &err),
                     RS_E_OVERWRITES_INPUT);
    assert_string_equal(err.what, "another run writes to this folder");
    rs_saver_close(first);
    assert_ran(run_it(&out, settings, folder, true, 1, NULL, NULL, &err), &err);
    rs_train_settings_close(settings);
    remove_folder(folder);
}

/* The skips are trained: they leave 1, and the folder has them. */
static void test_trained_numbers(void **state)
{
    (void)state;
    char folder[256], path[400];
    rs_error err = {0};
    rs_run_outcome out;
    rs_train_settings *settings = read_settings(small, NULL, 0);
    rs_checkpoint *saved = NULL;
    fresh_folder(folder, "skips");
    assert_ran(run_it(&out, settings, folder, false, 1, NULL, NULL, &err), &err);
    assert_ran(rs_checkpoint_open(&saved, folder, NULL, &err), &err);
    const json_t *skips = json_object_get(json_object_get(saved->config, "arch"), "skip_mixer");
    assert_int_equal(json_array_size(skips), 2);
    double first = json_number_value(json_array_get(skips, 0));
    assert_true(first != 1 && fabs(first - 1) < 0.5);
    rs_checkpoint_close(saved);
    snprintf(path, sizeof path, "%s/checkpoints/step-000000024/training.safetensors", folder);
    assert_ran(rs_checkpoint_open(&saved, path, NULL, &err), &err);
    const rs_tensor *skip = rs_checkpoint_find(saved, "layers.0.mixer.skip");
    assert_non_null(skip);
    float number;
    memcpy(&number, skip->data, sizeof number);
    assert_true((double)number == first);
    rs_checkpoint_close(saved);
    rs_train_settings_close(settings);
    remove_folder(folder);
}

static void test_ends(void **state)
{
    (void)state;
    rs_error err = {0};
    rs_run_outcome out;
    static const char *const wild[] = {"optimizer.kind=sgd", "optimizer.lr=1000000",
                                       "optimizer.clip=null", "model.norm=none"};
    rs_train_settings *settings = read_settings(small, wild, 4);
    assert_ran(run_it(&out, settings, NULL, false, 1, NULL, NULL, &err), &err);
    assert_int_equal(out.end, RS_RUN_NOT_FINITE);
    assert_true(out.step > 0 && out.blame[0]);
    rs_train_settings_close(settings);
    /* uniform attention without a skip: every token leaves the first layer as their mean */
    static const char *const flat[] = {"model.skip_mixer=0", "model.attention=uniform",
                                       "stop_on=[\"token_collapse\"]", "rank_every=1",
                                       "trainable=[]"};
    settings = read_settings(small, flat, 5);
    rs_result *result = rs_result_new("train");
    assert_non_null(result);
    assert_ran(run_it(&out, settings, NULL, false, 1, NULL, result, &err), &err);
    assert_int_equal(out.end, RS_RUN_STOPPED);
    assert_int_equal(out.step, 1); /* the second log in a row */
    assert_true(rs_result_finding_count(result) > 0);
    assert_int_equal(rs_table_rows(rs_result_table(result, "alarms")),
                     rs_result_finding_count(result));
    rs_result_free(result);
    rs_train_settings_close(settings);
}

/* The same findings, text by text. */
static void assert_same_findings(const rs_result *a, const rs_result *b)
{
    assert_int_equal(rs_result_finding_count(a), rs_result_finding_count(b));
    for (size_t i = 0; i < rs_result_finding_count(a); i++) {
        const rs_finding *x = rs_result_finding_at(a, i), *y = rs_result_finding_at(b, i);
        assert_string_equal(x->code, y->code);
        assert_string_equal(x->message, y->message);
        assert_string_equal(x->hint, y->hint);
        assert_int_equal(x->severity, y->severity);
        assert_int_equal(x->layer, y->layer);
        assert_true(x->value == y->value || (isnan(x->value) && isnan(y->value)));
        assert_true(x->threshold == y->threshold || (isnan(x->threshold) && isnan(y->threshold)));
    }
    assert_int_equal(rs_result_group_count(a), rs_result_group_count(b));
    for (size_t i = 0; i < rs_result_group_count(a); i++) {
        const rs_finding_group *x = rs_result_group_at(a, i), *y = rs_result_group_at(b, i);
        assert_int_equal(x->count, y->count);
        assert_string_equal(x->message, y->message);
    }
}

static rs_result *run_for_result(rs_train_settings *settings, const char *folder, stopper *s)
{
    rs_error err = {0};
    rs_run_outcome out;
    rs_result *result = rs_result_new("train");
    assert_non_null(result);
    assert_ran(run_it(&out, settings, folder, true, 1, s, result, &err), &err);
    assert_ran(rs_result_seal(result, &err), &err);
    return result;
}

/* What rang before a break is a finding of the run that goes on, and of one that was done. */
static void test_alarms_before_a_break(void **state)
{
    (void)state;
    char whole[256], cut[256];
    static const char *const flat[] = {"model.skip_mixer=0",
                                       "model.attention=uniform",
                                       "rank_every=1",
                                       "log_every=1",
                                       "alarms={\"hold\": 9}",
                                       "trainable=[]",
                                       "steps=15"};
    rs_train_settings *settings = read_settings(small, flat, 7);
    fresh_folder(whole, "rang");
    fresh_folder(cut, "ringing");
    rs_result *wanted = run_for_result(settings, whole, NULL);
    assert_true(rs_result_finding_count(wanted) >= 2);
    assert_int_equal(rs_result_finding_at(wanted, 0)->severity, RS_CRITICAL);
    for (int64_t at = 2; at <= 11; at += 3) {
        stopper s = {.at = at};
        rs_result_free(run_for_result(settings, cut, &s));
    }
    for (int again = 0; again < 2; again++) {
        rs_result *got = run_for_result(settings, cut, NULL);
        assert_same_findings(wanted, got);
        rs_result_free(got);
    }
    rs_result_free(wanted);
    rs_train_settings_close(settings);
    remove_folder(whole);
    remove_folder(cut);
}

/* Two batches of half the size are a batch: their gradients are averaged. */
static void test_accumulated(void **state)
{
    (void)state;
    rs_error err = {0};
    rs_run_outcome one, two;
    static const char *const sets[] = {"precision=f64", "accumulate=2", "trainable=[]",
                                       "data.train=6",  "batch=3",      "steps=3"};
    static const char *const whole[] = {"precision=f64", "trainable=[]", "data.train=6", "batch=6",
                                        "steps=3"};
    rs_train_settings *settings = read_settings(small, sets, 6);
    assert_ran(run_it(&two, settings, NULL, false, 1, NULL, NULL, &err), &err);
    rs_train_settings_close(settings);
    settings = read_settings(small, whole, 5);
    assert_ran(run_it(&one, settings, NULL, false, 1, NULL, NULL, &err), &err);
    rs_train_settings_close(settings);
    assert_true(fabs(one.loss - two.loss) < 1e-12);
}

/* A temperature that begins at 0 and is raised: finite, the same behind a break, and in the folder what
 * attention is at the end. */
static void test_temperature(void **state)
{
    (void)state;
    char whole[256], cut[256];
    rs_error err = {0};
    rs_run_outcome out;
    static const char *const sets[] = {
        "schedule.temperature={\"start\": 0, \"final\": 2, \"steps\": 20}", "precision=f64",
        "trainable=[]"};
    rs_train_settings *settings = read_settings(small, sets, 3);
    rs_checkpoint *saved = NULL;
    fresh_folder(whole, "warm");
    fresh_folder(cut, "warmed");
    assert_ran(run_it(&out, settings, whole, false, 1, NULL, NULL, &err), &err);
    assert_int_equal(out.end, RS_RUN_DONE);
    stopper s = {.at = 12};
    assert_ran(run_it(&out, settings, cut, true, 1, &s, NULL, &err), &err);
    assert_int_equal(out.end, RS_RUN_INTERRUPTED);
    assert_ran(run_it(&out, settings, cut, true, 1, NULL, NULL, &err), &err);
    assert_same_weights(whole, cut);
    assert_ran(rs_checkpoint_open(&saved, whole, NULL, &err), &err);
    const json_t *arch = json_object_get(saved->config, "arch");
    assert_true(json_number_value(json_object_get(arch, "temperature")) == 0.5);
    rs_checkpoint_close(saved);
    rs_train_settings_close(settings);
    remove_folder(whole);
    remove_folder(cut);
}

/* Each request for memory refused in turn: an error or the whole run, and nothing stays behind. */
static void test_memory(void **state)
{
    (void)state;
    char folder[256];
    static const char *const sets[] = {"steps=3", "log_every=1", "rank_every=2", "eval_every=0",
                                       "every_checkpoint=2"};
    rs_train_settings *settings = read_settings(small, sets, 5);
    rs_error err = {0};
    rs_run_outcome out;
    fresh_folder(folder, "memory");
    assert_ran(run_it(&out, settings, folder, false, 1, NULL, NULL, &err), &err);
    int64_t before = rs_memory_requests();
    fresh_folder(folder, "memory");
    assert_ran(run_it(&out, settings, folder, false, 1, NULL, NULL, &err), &err);
    int64_t requests = rs_memory_requests() - before, refused = 0;
    for (int64_t n = 1; n <= requests; n += 1 + n / 12) {
        int64_t blocks = rs_memory_blocks();
        fresh_folder(folder, "memory");
        rs_memory_fail_at(n);
        rs_status status = run_it(&out, settings, folder, false, 1, NULL, NULL, &err);
        rs_memory_fail_at(0);
        refused += status != RS_OK;
        if (status != RS_OK && status != RS_E_NO_MEMORY)
            fail_msg("request %ld: %s: %s", (long)n, err.where, err.what);
        if (rs_memory_blocks() != blocks)
            fail_msg("request %ld: %ld blocks stay", (long)n, (long)(rs_memory_blocks() - blocks));
    }
    assert_true(refused > 20);
    remove_folder(folder);
    rs_train_settings_close(settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resumed),     cmocka_unit_test(test_fields_of_later_programs),
        cmocka_unit_test(test_locked),      cmocka_unit_test(test_trained_numbers),
        cmocka_unit_test(test_ends),        cmocka_unit_test(test_accumulated),
        cmocka_unit_test(test_temperature), cmocka_unit_test(test_alarms_before_a_break),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
