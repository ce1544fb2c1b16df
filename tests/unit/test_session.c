/* test_session.c: a session over tensors in memory gives what a scan of their files gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sanitized.h"
#include "session_support.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rs_result *scan(rs_session *session)
{
    rs_scan_settings settings;
    rs_result *result;
    rs_error err;
    rs_scan_settings_init(&settings, sizeof settings);
    settings.spectra = true;
    if (rs_session_scan(&result, session, &settings, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

/* ---- results, bit for bit ---- */

static void check_list(const rs_list *a, const rs_list *b)
{
    assert_int_equal(a->n, b->n);
    if (a->n) assert_memory_equal(a->values, b->values, a->n * sizeof *a->values);
}

static void check_column(const rs_result *a, const rs_result *b, const char *table,
                         const char *column)
{
    rs_column_data x, y;
    rs_error err;
    assert_int_equal(rs_result_column(&x, a, table, column, &err), RS_OK);
    assert_int_equal(rs_result_column(&y, b, table, column, &err), RS_OK);
    assert_int_equal(x.type, y.type);
    assert_int_equal(x.rows, y.rows);
    for (size_t i = 0; i < x.rows; i++) {
        if (x.real) assert_memory_equal(&x.real[i], &y.real[i], sizeof(double));
        if (x.integer) assert_int_equal(x.integer[i], y.integer[i]);
        if (x.list) check_list(&x.list[i], &y.list[i]);
        if (!x.text) continue;
        assert_int_equal(x.text[i] == NULL, y.text[i] == NULL);
        if (x.text[i]) assert_string_equal(x.text[i], y.text[i]);
    }
}

static void check_same(const rs_result *a, const rs_result *b)
{
    assert_int_equal(rs_result_table_count(a), rs_result_table_count(b));
    for (size_t t = 0; t < rs_result_table_count(a); t++) {
        const char *table = rs_result_table_name(a, t);
        assert_string_equal(table, rs_result_table_name(b, t));
        assert_int_equal(rs_result_column_count(a, table), rs_result_column_count(b, table));
        for (size_t c = 0; c < rs_result_column_count(a, table); c++) {
            const char *column = rs_result_column_name(a, table, c);
            if (strcmp(table, "tensors") == 0 && strcmp(column, "file") == 0) continue;
            check_column(a, b, table, column);
        }
    }
}

static const char *const models[] = {"families/bert", "families/gpt2", "families/granite",
                                     "families/gemma3_text", "families/falcon_mamba"};
enum { MODELS = sizeof models / sizeof *models };

static void gives_what_a_scan_of_the_files_gives(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODELS; m++) {
        char path[512];
        rs_error err;
        rs_result *from_file;
        rs_scan_settings settings;
        held h = hold(models[m]);
        rs_session *session = open_session(2, &h);
        snprintf(path, sizeof path, RS_TEST_DATA "/%s", models[m]);
        rs_scan_settings_init(&settings, sizeof settings);
        settings.call.threads = 1;
        settings.spectra = true;
        assert_int_equal(rs_scan_checkpoint(&from_file, path, &settings, &err), RS_OK);
        for (int again = 0; again < 2; again++) {
            rs_result *result = scan(session);
            check_same(from_file, result);
            rs_result_free(result);
        }
        rs_result_free(from_file);
        rs_session_close(session);
        let_go(&h);
    }
}

/* ---- what runs the model ---- */

static size_t find(const held *h, const char *part)
{
    size_t i = 0;
    while (i < h->n && !strstr(h->tensors[i].name, part))
        i++;
    assert_true(i < h->n);
    return i;
}

static const int32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};

static void give_ids(rs_run_settings *run)
{
    run->ids = ids;
    run->ids_samples = 2;
    run->ids_length = 6;
}

static void runs_what_the_files_run(void **state)
{
    (void)state;
    rs_error err;
    held h = hold("families/bert");
    rs_session *session = open_session(1, &h);
    const char *path = RS_TEST_DATA "/families/bert";
    rs_probe_settings probe;
    rs_certify_settings certify;
    rs_paths_settings paths;
    rs_probe_settings_init(&probe, sizeof probe);
    rs_certify_settings_init(&certify, sizeof certify);
    rs_paths_settings_init(&paths, sizeof paths);
    give_ids(&probe.run);
    give_ids(&certify.run);
    give_ids(&paths.run);
    probe.call.threads = certify.call.threads = paths.call.threads = 1;
    probe.variants = "dong";
    for (int again = 0; again < 2; again++) {
        rs_result *a[3] = {0}, *b[3] = {0};
        assert_int_equal(rs_probe_checkpoint(&a[0], path, &probe, &err), RS_OK);
        assert_int_equal(rs_certify_checkpoint(&a[1], path, &certify, &err), RS_OK);
        assert_int_equal(rs_paths_checkpoint(&a[2], path, &paths, &err), RS_OK);
        assert_int_equal(rs_session_probe(&b[0], session, &probe, &err), RS_OK);
        assert_int_equal(rs_session_certify(&b[1], session, &certify, &err), RS_OK);
        assert_int_equal(rs_session_paths(&b[2], session, &paths, &err), RS_OK);
        for (int i = 0; i < 3; i++) {
            check_same(a[i], b[i]);
            rs_result_free(a[i]);
            rs_result_free(b[i]);
        }
    }
    rs_session_close(session);
    let_go(&h);
}

static double last_residual(rs_session *session)
{
    rs_probe_settings probe;
    rs_column_data column;
    rs_result *result;
    rs_error err;
    rs_probe_settings_init(&probe, sizeof probe);
    give_ids(&probe.run);
    assert_int_equal(rs_session_probe(&result, session, &probe, &err), RS_OK);
    assert_int_equal(rs_result_column(&column, result, "tokens", "relative_residual", &err), RS_OK);
    double last = column.real[column.rows - 1];
    rs_result_free(result);
    return last;
}

/* Weights that were decoded in one call are not remembered in the next. */
static void a_pass_sees_the_weights_of_now(void **state)
{
    (void)state;
    held h = hold("families/bert");
    size_t v = find(&h, "layer.0.attention.self.value.weight");
    rs_session *session = open_session(1, &h);
    double before = last_residual(session);
    float *values = (float *)(void *)h.copies[v];
    for (int64_t i = 0; i < h.checkpoint->tensors[v].count; i++)
        values[i] *= -3;
    double after = last_residual(session);
    assert_true(after != before);
    rs_session *fresh = open_session(1, &h);
    assert_true(last_residual(fresh) == after);
    rs_session_close(fresh);
    rs_session_close(session);
    let_go(&h);
}

static void what_memory_does_not_have_is_refused(void **state)
{
    (void)state;
    held h = hold("families/bert");
    rs_session *session = open_session(1, &h);
    rs_probe_settings probe;
    rs_result *result;
    rs_error err;
    rs_probe_settings_init(&probe, sizeof probe);
    assert_int_equal(rs_session_probe(&result, session, &probe, &err), RS_E_USAGE); /* no input */
    give_ids(&probe.run);
    probe.run.init = "default";
    assert_int_equal(rs_session_probe(&result, session, &probe, &err), RS_E_USAGE);
    probe.run.init = NULL;
    probe.run.random = 1;
    assert_int_equal(rs_session_probe(&result, session, &probe, &err), RS_E_USAGE); /* two inputs */
    probe.run.random = 0;
    probe.run.ids_length = 0;
    assert_int_equal(rs_session_probe(&result, session, &probe, &err), RS_E_INPUT_FORMAT);
    probe.run.ids_length = -1;
    assert_int_equal(rs_session_probe(&result, session, &probe, &err), RS_E_BAD_OPTION);
    probe.run.ids = NULL;
    probe.run.ids_length = 0;
    probe.run.text = RS_TEST_DATA "/families/bert/config.json";
    assert_int_equal(rs_session_probe(&result, session, &probe, &err), RS_E_UNSUPPORTED);
    assert_null(result);
    rs_session_close(session);
    let_go(&h);
}

/* ---- values that change, gaps between them ---- */

static double first_norm(rs_session *session)
{
    rs_column_data column;
    rs_error err;
    rs_result *result = scan(session);
    assert_int_equal(rs_result_column(&column, result, "heads", "frobenius_norm", &err), RS_OK);
    assert_true(column.rows > 0 && column.real);
    double norm = column.real[0];
    rs_result_free(result);
    return norm;
}

static void reads_what_the_values_are_now(void **state)
{
    (void)state;
    held h = hold("families/bert");
    size_t q = find(&h, "layer.0.attention.self.query.weight");
    assert_string_equal(h.tensors[q].dtype, "F32");
    rs_session *session = open_session(1, &h);
    double before = first_norm(session);
    float *values = (float *)(void *)h.copies[q];
    for (int64_t i = 0; i < h.checkpoint->tensors[q].count; i++)
        values[i] *= 2; /* exact */
    assert_true(first_norm(session) == 2 * before);
    rs_session_close(session);
    let_go(&h);
}

/* The tensor stored the other way round, told by its strides, and two elements apart. */
static void gaps_change_nothing(void **state)
{
    (void)state;
    held h = hold("families/bert");
    rs_session *plain = open_session(1, &h);
    double expected = first_norm(plain);
    size_t q = find(&h, "layer.0.attention.self.query.weight");
    const rs_tensor *t = &h.checkpoint->tensors[q];
    int64_t rows = t->shape[0], cols = t->shape[1], strides[] = {2, 2 * rows};
    float *apart = calloc((size_t)(2 * rows * cols), sizeof *apart);
    assert_non_null(apart);
    const float *values = (const float *)(const void *)h.copies[q];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            apart[i * strides[0] + j * strides[1]] = values[i * cols + j];
    h.tensors[q].data = apart;
    h.tensors[q].strides = strides;
    rs_session *session = open_session(1, &h);
    assert_true(first_norm(session) == expected);
    for (int64_t i = 0; i < 2 * rows * cols; i++)
        apart[i] *= 2;
    assert_true(first_norm(session) == 2 * expected);
    free(apart);
    rs_session_close(session);
    rs_session_close(plain);
    let_go(&h);
}

/* ---- callbacks ---- */

typedef struct heard {
    int progress, until;
} heard;

static void count_progress(void *user, const char *phase, uint64_t done, uint64_t total,
                           const char *unit)
{
    heard *h = user;
    assert_true(phase && unit && done <= total);
    h->progress++;
}

static bool stop_later(void *user)
{
    heard *h = user;
    return h->progress >= h->until;
}

static void progress_is_told_and_can_end_the_call(void **state)
{
    (void)state;
    held h = hold("families/bert");
    rs_session *session;
    rs_session_settings settings;
    rs_scan_settings how;
    rs_result *result;
    rs_error err;
    heard ears = {.until = 1};
    rs_session_settings_init(&settings, sizeof settings);
    settings.call.progress = count_progress;
    settings.call.cancel = stop_later;
    settings.call.user = &ears;
    rs_scan_settings_init(&how, sizeof how);
    assert_int_equal(rs_session_open(&session, &settings, &err), RS_OK);
    assert_int_equal(rs_session_tensors(session, h.tensors, h.n, h.config, NULL, &err), RS_OK);
    assert_int_equal(rs_session_scan(&result, session, &how, &err), RS_E_INTERRUPTED);
    assert_null(result);
    assert_int_equal(ears.progress, 1);
    ears.until = 1 << 30;
    assert_int_equal(rs_session_scan(&result, session, &how, &err), RS_OK);
    assert_true(ears.progress > 1);
    rs_result_free(result);
    rs_session_close(session);
    let_go(&h);
}

/* ---- what no caller should give ---- */

static void wrong_settings_are_refused(void **state)
{
    (void)state;
    rs_error err;
    rs_session *session = (rs_session *)&err;
    rs_session_settings settings;
    assert_int_equal(rs_session_open(NULL, NULL, &err), RS_E_USAGE);
    rs_session_settings_init(&settings, sizeof settings);
    settings.size++;
    assert_int_equal(rs_session_open(&session, &settings, &err), RS_E_USAGE);
    assert_null(session);
    settings.size = 0;
    assert_int_equal(rs_session_open(&session, &settings, &err), RS_E_USAGE);
    rs_session_settings_init(&settings, sizeof settings);
    settings.call.threads = -1;
    assert_int_equal(rs_session_open(&session, &settings, &err), RS_E_BAD_OPTION);
    assert_string_equal(err.where, "threads");
    settings.call.threads = 1 << 30;
    settings.size = sizeof settings.size; /* an earlier header: threads are not looked at */
    assert_int_equal(rs_session_open(&session, &settings, &err), RS_OK);
    rs_session_close(session);
    rs_session_close(NULL);
    rs_session_settings_init(NULL, 8);
}

static const int64_t square[] = {4, 4}, negative[] = {4, -4},
                     huge[] = {INT64_MAX / 2, INT64_MAX / 2};
static const float zeros[16];
static const int64_t wide[] = {8, 1};
static const struct {
    rs_tensor_data tensor;
    rs_status status;
} wrong[] = {
    {{NULL, "F32", 2, square, NULL, zeros}, RS_E_USAGE},
    {{"w", NULL, 2, square, NULL, zeros}, RS_E_TENSOR_DTYPE},
    {{"w", "float32", 2, square, NULL, zeros}, RS_E_TENSOR_DTYPE},
    {{"w", "F32", -1, square, NULL, zeros}, RS_E_ST_RANK},
    {{"w", "F32", 17, square, NULL, zeros}, RS_E_ST_RANK},
    {{"w", "F32", 2, NULL, NULL, zeros}, RS_E_USAGE},
    {{"w", "F32", 2, negative, NULL, zeros}, RS_E_ST_OVERFLOW},
    {{"w", "F32", 2, huge, NULL, zeros}, RS_E_ST_OVERFLOW},
    {{"w", "F32", 2, square, NULL, NULL}, RS_E_USAGE},
    {{"w", "Q8_0", 2, square, NULL, zeros}, RS_E_TENSOR_DTYPE},
    {{"w", "F4", 2, square, wide, zeros}, RS_E_TENSOR_DTYPE},
};

static void wrong_tensors_are_refused(void **state)
{
    (void)state;
    rs_error err;
    rs_session *session;
    rs_result *result;
    rs_scan_settings how;
    rs_scan_settings_init(&how, sizeof how);
    assert_int_equal(rs_session_open(&session, NULL, &err), RS_OK);
    assert_int_equal(rs_session_scan(&result, session, &how, &err), RS_E_USAGE);
    assert_int_equal(rs_session_tensors(session, NULL, 1, NULL, NULL, &err), RS_E_USAGE);
    assert_int_equal(rs_session_tensors(NULL, NULL, 0, NULL, NULL, &err), RS_E_USAGE);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rs_status status = rs_session_tensors(session, &wrong[i].tensor, 1, NULL, NULL, &err);
        if (status != wrong[i].status) fail_msg("%zu: %s, %s", i, err.where, err.what);
    }
    rs_tensor_data twice[] = {{"w", "F32", 2, square, NULL, zeros},
                              {"w", "F32", 2, square, NULL, zeros}};
    assert_int_equal(rs_session_tensors(session, twice, 2, NULL, NULL, &err),
                     RS_E_DUPLICATE_TENSOR);
    assert_int_equal(rs_session_tensors(session, twice, 1, NULL, NULL, &err), RS_E_CONFIG_MISSING);
    assert_int_equal(rs_session_tensors(session, twice, 1, "{", NULL, &err), RS_E_JSON_SYNTAX);
    assert_int_equal(rs_session_scan(&result, session, &how, &err), RS_E_USAGE);
    rs_session_close(session);
}

static void columns_that_are_not_there(void **state)
{
    (void)state;
    rs_error err;
    rs_column_data column;
    held h = hold("families/bert");
    rs_session *session = open_session(1, &h);
    rs_result *result = scan(session);
    assert_int_equal(rs_result_column(&column, result, "heads", "no", &err), RS_E_NOT_FOUND);
    assert_int_equal(rs_result_column(&column, result, "no", "layer", &err), RS_E_NOT_FOUND);
    assert_int_equal(rs_result_column(NULL, result, "heads", "layer", &err), RS_E_USAGE);
    assert_int_equal(rs_result_column(&column, NULL, "heads", "layer", &err), RS_E_USAGE);
    assert_int_equal(rs_result_column_count(result, "no"), 0);
    assert_null(rs_result_column_name(result, "heads", 10000));
    assert_null(rs_result_table_name(result, 10000));
    rs_result_free(result);
    rs_session_close(session);
    let_go(&h);
}

/* ---- again and again, and side by side ---- */

#if defined(__GLIBC__) && !RS_ADDRESS_SANITIZER && !RS_THREAD_SANITIZER
/* What malloc has handed out and, behind it, the pages that the process has in memory. */
static void take_stock(size_t stock[2])
{
    struct mallinfo2 info = mallinfo2();
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %zu", &stock[1]), 1);
    fclose(file);
    stock[0] = info.uordblks + info.hblkhd;
}
#endif

static void memory_does_not_grow(void **state)
{
    (void)state;
#if defined(__GLIBC__) && !RS_ADDRESS_SANITIZER && !RS_THREAD_SANITIZER
    enum { CALLS = 10000, LEAST_BLOCK = 32, PAGES = 64 };
    size_t before[2], after[2];
    held h = hold("families/bert");
    rs_session *session = open_session(1, &h);
    for (int i = 0; i < 20; i++)
        rs_result_free(scan(session));
    take_stock(before);
    for (int i = 0; i < CALLS; i++)
        rs_result_free(scan(session));
    take_stock(after);
    assert_true(after[0] < before[0] + LEAST_BLOCK * CALLS / 4); /* its own caches may grow */
    assert_true(after[1] <= before[1] + PAGES);
    rs_session_close(session);
    let_go(&h);
#else
    skip();
#endif
}

static void *scan_often(void *given)
{
    held h = hold(given);
    rs_session *session = open_session(2, &h);
    rs_result *first = scan(session);
    for (int i = 0; i < 5; i++) {
        rs_result *next = scan(session);
        check_same(first, next);
        rs_result_free(next);
    }
    rs_result_free(first);
    rs_session_close(session);
    let_go(&h);
    return NULL;
}

static void two_sessions_in_two_threads(void **state)
{
    (void)state;
    pthread_t threads[2];
    char name[2][64];
    for (int i = 0; i < 2; i++) {
        snprintf(name[i], sizeof name[i], "%s", models[i]);
        assert_int_equal(pthread_create(&threads[i], NULL, scan_often, name[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_what_a_scan_of_the_files_gives),
        cmocka_unit_test(runs_what_the_files_run),
        cmocka_unit_test(a_pass_sees_the_weights_of_now),
        cmocka_unit_test(what_memory_does_not_have_is_refused),
        cmocka_unit_test(reads_what_the_values_are_now),
        cmocka_unit_test(gaps_change_nothing),
        cmocka_unit_test(progress_is_told_and_can_end_the_call),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(wrong_tensors_are_refused),
        cmocka_unit_test(columns_that_are_not_there),
        cmocka_unit_test(memory_does_not_grow),
        cmocka_unit_test(two_sessions_in_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
