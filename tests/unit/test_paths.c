/*
 * test_paths.c: whole results of `rankscope paths` against the enumeration of every path
 * (tests/oracle/make_paths_golden.py), the code's semantics against NumPy, corners, and what
 * happens without memory. test_paths_sums.c is about the sums themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "paths_support.h"

/* ---- against the enumeration ---- */

static void compare_matrices(const char *name, const double *got, const json_t *expected,
                             int64_t count, int32_t lengths)
{
    assert_int_equal(json_array_size(expected), lengths);
    for (int32_t k = 0; k < lengths; k++) {
        const json_t *list = json_array_get(expected, (size_t)k);
        assert_int_equal(json_array_size(list), count);
        for (int64_t i = 0; i < count; i++)
            near(name, "an entry of a sum", got[k * count + i], json_array_get(list, (size_t)i),
                 1e-12);
    }
}

static void compare_sums(const char *name, const opened *o, const json_t *expected)
{
    int32_t ids[16];
    int64_t begin[2] = {0, json_integer_value(json_object_get(expected, "n"))};
    const json_t *list = json_object_get(expected, "ids");
    for (int64_t i = 0; i < begin[1]; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    const rs_batch batch = {.samples = 1, .begin = begin, .ids = ids};
    rs_path_plan *plan = plan_of(o->network, -1);
    rs_path_sums *sums = sums_of(o, &batch, plan, NULL, 2);
    int32_t lengths = plan->longest + 1;
    assert_int_equal(sums->d, json_integer_value(json_object_get(expected, "d")));
    compare_matrices(name, sums->embedding, json_object_get(expected, "embedding"),
                     sums->n * sums->d, lengths);
    compare_matrices(name, sums->source, json_object_get(expected, "source"), sums->n * sums->d,
                     lengths);
    assert_true(sums->identity.output_error < 1e-14);
    rs_path_sums_close(sums);
    rs_path_plan_close(plan);
}

static void compare_length(const char *name, const rs_result *result, int64_t s, const json_t *want)
{
    static const struct {
        const char *column, *object, *key;
    } reals[] = {{"contribution_fro", "embedding", "fro"},
                 {"residual_ratio", "embedding", "residual"},
                 {"residual_ratio_1inf", "embedding", "residual_1inf"},
                 {"source_fro", "source", "fro"},
                 {"source_residual_ratio", "source", "residual"},
                 {"projection", NULL, "projection"},
                 {"source_projection", NULL, "source_projection"},
                 {"cumulative_error", NULL, "cumulative_error"},
                 {"cumulative_error_sources", NULL, "cumulative_error_sources"}};
    int64_t k = json_integer_value(json_object_get(want, "length"));
    const rs_table *table = rs_result_table(result, "lengths");
    size_t row = row_of(table, "length", s, k);
    assert_int_equal(whole(table, row, "count"),
                     json_integer_value(json_object_get(want, "count")));
    near(name, "log10_count", pow(10, cell(table, row, "log10_count")),
         json_object_get(want, "count"), 1e-12);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        const json_t *object = reals[i].object ? json_object_get(want, reals[i].object) : want;
        near(name, reals[i].column, cell(table, row, reals[i].column),
             json_object_get(object, reals[i].key), 1e-11);
    }
}

static void compare_paths(const char *name, const rs_result *result, int64_t s, const json_t *want)
{
    static const char *const measures[] = {"contribution_fro", "residual_ratio", "rank1_distance",
                                           "rank1_distance_1inf"};
    int64_t k = json_integer_value(json_object_get(want, "length"));
    const rs_table *table = rs_result_table(result, "paths");
    size_t row = row_of(table, "length", s, k);
    assert_int_equal(whole(table, row, "exhaustive"), 1);
    assert_int_equal(whole(table, row, "paths"),
                     json_integer_value(json_object_get(want, "count")));
    for (size_t m = 0; m < 4; m++) {
        char median[64];
        /* Where P has two equal largest singular values (length 0: the identity), its best rank one
         * is not unique, and only the Frobenius distance is determined. */
        if (m == 3 && k == 0) continue;
        /* A power iteration knows the singular vector to the root of what it knows the value to. */
        double tolerance = m == 3 ? 1e-6 : m == 2 ? 1e-9 : 1e-11;
        snprintf(median, sizeof median, "%s_median", measures[m]);
        near(name, measures[m], cell(table, row, measures[m]),
             json_array_get(json_object_get(want, "path_mean"), m), tolerance);
        near(name, median, cell(table, row, median),
             json_array_get(json_object_get(want, "path_median"), m), tolerance);
    }
}

static void compare_outcome(const char *name, const rs_result *result, int64_t s,
                            const json_t *want)
{
    const char *key;
    json_t *value;
    int64_t k = json_integer_value(json_object_get(want, "length"));
    const rs_table *table = rs_result_table(result, "truncated");
    size_t row = row_of(table, "max_length", s, k);
    json_object_foreach(json_object_get(want, "outcome"), key, value)
        near(name, key, cell(table, row, key), value, 1e-10);
}

static void compare_case(const char *name)
{
    char path[512];
    opened o;
    snprintf(path, sizeof path, RS_TEST_DATA "/paths/%s.json", name);
    json_t *json = json_load_file(path, 0, NULL), *ids = json_array();
    assert_non_null(json);
    const json_t *samples = json_object_get(json, "samples");
    assert_true(open_model(&o, name));
    for (size_t s = 0; s < json_array_size(samples); s++) {
        const json_t *sample = json_array_get(samples, s);
        compare_sums(name, &o, sample);
        json_array_append(ids, json_object_get(sample, "ids"));
    }
    close_model(&o);
    assert_int_equal(json_dump_file(ids, tokens_path, 0), 0);
    rs_paths_options options;
    rs_paths_defaults(&options);
    options.paths = 1000;
    options.by_layer = true;
    rs_result *result = run_paths(name, &options, 2);
    assert_true(json_number_value(json_object_get(rs_result_meta(result), "identity_error")) <
                1e-13);
    for (size_t s = 0; s < json_array_size(samples); s++) {
        const json_t *sample = json_array_get(samples, s), *lengths, *layers;
        lengths = json_object_get(sample, "lengths");
        for (size_t k = 0; k < json_array_size(lengths); k++) {
            compare_length(name, result, (int64_t)s, json_array_get(lengths, k));
            compare_paths(name, result, (int64_t)s, json_array_get(lengths, k));
            compare_outcome(name, result, (int64_t)s, json_array_get(lengths, k));
        }
        layers = json_object_get(sample, "injected");
        const rs_table *table = rs_result_table(result, "sources");
        for (size_t l = 0; l < json_array_size(layers); l++) {
            size_t row = row_of(table, "layer", (int64_t)s, (int64_t)l);
            near(name, "contribution of a layer's sources", cell(table, row, "contribution_fro"),
                 json_array_get(layers, l), 1e-11);
            near(name, "their projection", cell(table, row, "projection"),
                 json_array_get(json_object_get(sample, "injected_projection"), l), 1e-11);
        }
    }
    rs_result_free(result);
    json_decref(ids);
    json_decref(json);
}

static void agrees_with_enumeration(void **state)
{
    (void)state;
    static const char *const names[] = {"bert", "gpt2", "llama", "gemma2", "gpt_neox"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare_case(names[i]);
}

/* ---- corners ---- */

/* Lengths beyond the longest path, samples without tokens, single tokens, repeated tokens. */
static void corners(void **state)
{
    (void)state;
    rs_paths_options options;
    rs_paths_defaults(&options);
    options.max_length = 50;
    put_tokens("[[], [3], [4, 4, 4, 4], [5, 2]]");
    rs_result *result = run_paths("llama", &options, 2);
    const rs_table *table = rs_result_table(result, "lengths");
    assert_int_equal(rs_table_rows(table), 3 * 3);
    for (int64_t k = 0; k <= 2; k++) {
        size_t row = row_of(table, "length", 1, k);
        assert_true(cell(table, row, "residual_ratio") == 0); /* one token is its own mean */
    }
    assert_int_equal(rs_table_rows(rs_result_table(result, "truncated")), 4 * 4);
    rs_result_free(result);
    options.max_length = 0;
    options.paths = 0;
    result = run_paths("llama", &options, 2);
    assert_int_equal(rs_table_rows(rs_result_table(result, "lengths")), 3);
    assert_null(rs_result_table(result, "paths"));
    rs_result_free(result);
}

/* All single-head chains of a model, against NumPy. */
static void compare_code(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, RS_TEST_DATA "/paths/%s.json", name);
    json_t *json = json_load_file(path, 0, NULL), *ids = json_array();
    assert_non_null(json);
    const json_t *samples = json_object_get(json, "samples");
    for (size_t s = 0; s < json_array_size(samples); s++)
        json_array_append(ids, json_object_get(json_array_get(samples, s), "ids"));
    assert_int_equal(json_dump_file(ids, tokens_path, 0), 0);
    rs_paths_options options;
    rs_paths_defaults(&options);
    options.semantics = RS_PATHS_CODE;
    options.paths = 1000;
    rs_result *result = run_paths(name, &options, 2);
    const rs_table *lengths = rs_result_table(result, "lengths");
    const rs_table *combined = rs_result_table(result, "combined");
    const rs_table *paths = rs_result_table(result, "paths");
    for (size_t s = 0; s < json_array_size(samples); s++) {
        const json_t *rows = json_object_get(json_array_get(samples, s), "code");
        assert_true(json_array_size(rows) > 0);
        for (size_t k = 0; k < json_array_size(rows); k++) {
            const json_t *want = json_array_get(rows, k);
            const json_t *size = json_object_get(want, "combined");
            const json_t *means = json_object_get(want, "path_mean");
            size_t row = row_of(lengths, "length", (int64_t)s, (int64_t)k);
            near(name, "norm of the combined state", cell(lengths, row, "contribution_fro"),
                 json_object_get(size, "fro"), 1e-10);
            near(name, "its residual", cell(lengths, row, "residual_ratio"),
                 json_object_get(size, "residual"), 1e-10);
            row = row_of(paths, "length", (int64_t)s, (int64_t)k);
            static const char *const measures[] = {"contribution_fro", "residual_ratio",
                                                   "rank1_distance"};
            for (size_t m = 0; m < 3; m++)
                near(name, measures[m], cell(paths, row, measures[m]), json_array_get(means, m),
                     1e-9);
            row = row_of(combined, "length", (int64_t)s, (int64_t)k);
            const char *key;
            json_t *value;
            json_object_foreach(json_object_get(want, "outcome"), key, value)
                near(name, key, cell(combined, row, key), value, 1e-9);
        }
    }
    rs_result_free(result);
    json_decref(ids);
    json_decref(json);
}

static void code_agrees_with_numpy(void **state)
{
    (void)state;
    compare_code("bert");
    compare_code("gpt2");
}

static void code_semantics(void **state)
{
    (void)state;
    rs_paths_options options;
    rs_paths_defaults(&options);
    options.semantics = RS_PATHS_CODE;
    options.paths = 3;
    put_tokens("[[5, 2, 9, 1], [7, 7, 3]]");
    rs_result *result = run_paths("bert", &options, 2), *again = run_paths("bert", &options, 1);
    const rs_table *table = rs_result_table(result, "combined");
    assert_non_null(table);
    assert_null(rs_result_table(result, "truncated"));
    assert_true(json_is_null(json_object_get(rs_result_meta(result), "identity_error")));
    assert_string_equal(json_string_value(json_object_get(rs_result_meta(result), "semantics")),
                        "code");
    assert_true(cell(table, row_of(table, "length", 0, RS_NULL_INT), "state_rel_error") == 0);
    const rs_table *lengths = rs_result_table(result, "lengths");
    const rs_table *other = rs_result_table(again, "lengths");
    for (size_t row = 0; row < rs_table_rows(lengths); row++) {
        /* A row of plain LayerNorm has length sqrt(d v/(v + 1e-5)) <= sqrt(d); d = 15. */
        double n = whole(lengths, row, "sample") == 0 ? 4 : 3, fro;
        fro = cell(lengths, row, "contribution_fro");
        assert_true(fro <= sqrt(15 * n) * (1 + 1e-12) && fro > 0.9 * sqrt(15 * n));
        assert_true(fabs(fro - cell(other, row, "contribution_fro")) <= 1e-12 * fro);
        assert_true(isnan(cell(lengths, row, "cumulative_error")));
    }
    rs_result_free(result);
    rs_result_free(again);
}

static void survives_without_memory(void **state)
{
    (void)state;
    char path[] = RS_TEST_DATA "/forward/gemma2";
    put_tokens("[[5, 2, 9]]");
    for (int semantics = 0; semantics < 2; semantics++) {
        int64_t at = 1;
        for (bool done = false; !done; at += 1 + at / 60) {
            rs_error err = {0};
            rs_context context = {.threads = 1};
            rs_result *result = rs_result_new("paths");
            rs_paths_request request = {.path = path};
            rs_paths_defaults(&request.options);
            request.options.source.tokens = tokens_path;
            request.options.by_layer = semantics == 0;
            request.options.semantics = (rs_path_semantics)semantics;
            request.options.paths = 2;
            rs_memory_fail_at(at);
            rs_status status =
                rs_paths_path(result, rs_result_files(result), &request, &context, &err);
            rs_memory_fail_at(0);
            done = status == RS_OK;
            if (!done && status != RS_E_NO_MEMORY)
                fail_msg("request %lld: %s: %s", (long long)at, err.where, err.what);
            rs_result_free(result);
        }
        assert_true(at > 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_enumeration), cmocka_unit_test(corners),
        cmocka_unit_test(code_agrees_with_numpy), cmocka_unit_test(code_semantics),
        cmocka_unit_test(survives_without_memory)};
    int file = mkstemp(tokens_path);
    if (file >= 0) close(file);
    int failed = cmocka_run_group_tests_name("paths", tests, NULL, NULL);
    unlink(tokens_path);
    return failed;
}
