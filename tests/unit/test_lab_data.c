/* test_lab_data.c: the user's data in experiments: which files they are, how their names stand in a task,
 * and that kept runs belong to their bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/kept_runs.h"
#include "lab/language.h"
#include "lab/runs.h"

#include "base/memory.h"
#include "train_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static rs_status open_list(rs_lab_data *data, const char *list, rs_error *err)
{
    rs_input_files files = {0};
    rs_status status = rs_lab_data_open(data, list, &files, err);
    rs_input_files_free(&files);
    return status;
}

static void files_are_told_apart(void **state)
{
    (void)state;
    rs_lab_data data;
    rs_error err;
    write_file("lab text.txt", "text");
    write_file("lab_x.npy", "images");
    write_file("lab_y.npy", "labels");
    assert_int_equal(open_list(&data, "lab_x.npy,lab text.txt", &err), RS_OK);
    assert_string_equal(data.text, "lab text.txt");
    assert_string_equal(data.x, "lab_x.npy");
    assert_string_equal(data.y, "lab_y.npy");
    assert_true(data.text_print != 0 && data.images_print != 0);
    assert_true(data.text_print != data.images_print);
    rs_lab_data_close(&data);
    assert_int_equal(open_list(&data, "lab text.txt", &err), RS_OK);
    assert_null(data.x);
    uint64_t before = data.text_print;
    assert_true(data.images_print == 0);
    rs_lab_data_close(&data);
    write_file("lab text.txt", "next");
    assert_int_equal(open_list(&data, "lab text.txt", &err), RS_OK);
    assert_true(before != 0 && data.text_print != 0 && data.text_print != before);
    rs_lab_data_close(&data);
}

static void lists_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *list, *says;
        rs_status status;
    } cases[] = {
        {"", "empty", RS_E_USAGE},
        {"lab text.txt,", "empty", RS_E_USAGE},
        {"lab text.txt,lab text.txt", "texts", RS_E_USAGE},
        {"lab_x.npy,lab_x.npy", "images", RS_E_USAGE},
        {"lab_y.npy", "x.npy", RS_E_USAGE},
        {"lab absent.txt", "", RS_E_NOT_FOUND},
        {"lab_absent_x.npy", "", RS_E_NOT_FOUND},
        {".", "", RS_E_UNREADABLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_lab_data data;
        rs_error err = {0};
        assert_int_equal(open_list(&data, cases[i].list, &err), cases[i].status);
        assert_non_null(strstr(err.what, cases[i].says));
        rs_lab_data_close(&data);
    }
    rs_lab_data data; /* images whose labels are not there */
    rs_error err;
    unlink("lab_y.npy");
    assert_int_equal(open_list(&data, "lab_x.npy", &err), RS_E_NOT_FOUND);
    rs_lab_data_close(&data);
}

/* A name is read back from JSON as it was, whatever stands in it. */
static void names_survive_a_task(void **state)
{
    (void)state;
    static const char *const names[] = {"plain.txt", "it's a \"text\".txt", "a\\b\tc", "ünï.txt",
                                        ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char quoted[200], text[300];
        json_error_t wrong;
        assert_true(rs_lab_data_quote(quoted, sizeof quoted, names[i]));
        assert_null(strpbrk(quoted, "'\""));
        snprintf(text, sizeof text, "[\"%s\"]", quoted);
        json_t *json = json_loads(text, 0, &wrong);
        assert_non_null(json);
        assert_string_equal(json_string_value(json_array_get(json, 0)), names[i]);
        json_decref(json);
    }
    char little[12];
    assert_false(rs_lab_data_quote(little, sizeof little, "longer than this"));
}

/* The source without data, the text with it; both train. */
static void languages_train(void **state)
{
    (void)state;
    static char text_path[] = "lab \"it's\".txt";
    rs_lab_data data = {.text = text_path};
    const rs_lab_data *const cases[] = {NULL, &(rs_lab_data){0}, &data};
    char words[6001];
    for (size_t i = 0; i + 1 < sizeof words; i++)
        words[i] = "ab cd"[i * i % 5];
    words[sizeof words - 1] = 0;
    write_file(text_path, words);
    for (int i = 0; i < 3; i++) {
        const rs_context context = {.threads = 1};
        rs_error err;
        rs_result *result = NULL;
        char *fields = NULL, text[2000];
        assert_int_equal(rs_lab_language(&fields, cases[i], &err), RS_OK);
        snprintf(text, sizeof text,
                 "{%s, 'steps': 1, 'model': {'depth': 1, 'd_model': 8, 'heads': 1, 'mlp_width': 8},"
                 " 'optimizer': {'lr': 1e-3" RS_LANGUAGE_DECAYS("0.5", "0.25") "}}",
                 fields);
        assert_int_equal(rs_lab_train(&result, text, NULL, &context, &err), RS_OK);
        const rs_language_marks marks = rs_lab_language_marks(result);
        assert_true(marks.unigram > 0);
        assert_true(i < 2 ? marks.source < marks.unigram : isnan(marks.source));
        rs_result_free(result);
        rs_free(fields);
    }
}

/* Runs on other data are other runs, though the task is the same. */
static void kept_runs_belong_to_the_data(void **state)
{
    (void)state;
    static const rs_lab_recipe recipe = {"only", "", "", "", {1e-3}};
    rs_lab_grid grid = {.task = "'task': 'reversal', 'data': {'length': 4, 'eval': 4}, 'batch': 2",
                        .model = "'d_model': 8, 'mlp_width': 8, 'depth': 1",
                        .recipes = &recipe,
                        .n_recipes = 1,
                        .seeds = 1,
                        .steps = 2,
                        .every = 1,
                        .experiment = "none"};
    const rs_context context = {.threads = 1};
    rs_error err;
    unlink("lab_data.db");
    assert_int_equal(rs_kept_runs_open(&grid.kept, "lab_data.db", &err), RS_OK);
    for (uint64_t data = 0; data < 2; data++) {
        grid.data = data;
        assert_int_equal(rs_lab_grid_train(&grid, &context, &err), RS_OK);
        double kept[4 + 3 * 3] = {0};
        const char *const task =
            "{'task': 'reversal', 'data': {'length': 4, 'eval': 4}, 'batch': 2, 'model': "
            "{'d_model': 8, 'mlp_width': 8, 'depth': 1}, 'steps': 2, 'seed': 0, 'log_every': 1, "
            "'eval_every': 2, 'rank_every': 2, 'optimizer': {'lr': 0.001}}";
        static const char *const names[] = {"none", "none, data 0000000000000001"};
        for (int name = 0; name < 2; name++)
            assert_int_equal(rs_kept_runs_find(grid.kept, names[name], task, kept, 13),
                             (uint64_t)name <= data);
        rs_lab_grid_close(&grid);
    }
    rs_kept_runs_close(grid.kept);
}

static void nothing_is_trained(void *user, const char *phase, uint64_t done, uint64_t total,
                               const char *unit)
{
    (void)user, (void)total, (void)unit;
    if (done > 0) fail_msg("%s: a run was trained", phase);
}

/* Images that cannot be trained on are refused before hundreds of other runs are. */
static void wrong_images_are_told_first(void **state)
{
    (void)state;
    static const char *const ids[] = {"kobayashi-fig3", "lambda-table1-small"};
    static float images[6 * 7 * 9];
    const int64_t labels[6] = {0, 1, 0, 1, 0, 1};
    const rs_context context = {.threads = 1, .progress = nothing_is_trained};
    write_npy("odd_x.npy", "<f4", "6, 7, 9", images, sizeof images);
    write_npy("odd_y.npy", "<i8", "6,", labels, sizeof labels);
    for (size_t i = 0; i < 2; i++) {
        rs_lab_data data;
        rs_error err = {0};
        rs_result *result = rs_result_new("lab");
        assert_int_equal(open_list(&data, "odd_x.npy", &err), RS_OK);
        const rs_lab_options options = {.data = &data};
        assert_int_equal(rs_lab_run(result, ids[i], &options, &context, &err), RS_E_TASK_SCHEMA);
        assert_non_null(strstr(err.what, "images of 7 x 9"));
        rs_lab_data_close(&data);
        rs_result_free(result);
    }
    unlink("odd_x.npy");
    unlink("odd_y.npy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_are_told_apart),
                                       cmocka_unit_test(lists_are_refused),
                                       cmocka_unit_test(names_survive_a_task),
                                       cmocka_unit_test(languages_train),
                                       cmocka_unit_test(kept_runs_belong_to_the_data),
                                       cmocka_unit_test(wrong_images_are_told_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
