/* test_probe.c: whole probes of small models against transformers and NumPy
 * (tests/oracle/make_probe_golden.py), and what must not change a number: batches, threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/command.h"
#include "api/probe_path.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/rs_probe_XXXXXX";
static char tokens_path[64], output_path[64], taps_path[64];

static json_t *golden(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, RS_TEST_DATA "/probe/%s.json", name);
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    return json;
}

static rs_probe_request request_for(const char *name, char *path, size_t size)
{
    snprintf(path, size, RS_TEST_DATA "/forward/%s", name);
    rs_probe_request request = {.path = path};
    rs_probe_defaults(&request.options);
    request.options.source.tokens = tokens_path;
    request.options.measure.precision = RS_PRECISION_F64;
    request.options.measure.loss = true;
    return request;
}

static rs_result *run(const rs_probe_request *request, int threads)
{
    rs_error err = {0};
    rs_context context = {.threads = threads};
    rs_result *result = rs_result_new("probe");
    if (rs_probe_path(result, rs_result_files(result), request, &context, &err) != RS_OK ||
        rs_place_outputs(result, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

static void put_samples(const json_t *expected)
{
    assert_int_equal(json_dump_file(json_object_get(expected, "samples"), tokens_path, 0), 0);
}

/* The row whose columns `layer` and `other` have these values. */
static size_t row_at(const rs_table *table, int64_t layer, const char *other, const json_t *value)
{
    int l = rs_table_find_column(table, "layer"), o = rs_table_find_column(table, other);
    for (size_t row = 0; row < rs_table_rows(table); row++) {
        if (rs_table_int(table, row, (size_t)l) != layer) continue;
        if (json_is_string(value)
                ? strcmp(rs_table_text(table, row, (size_t)o), json_string_value(value)) == 0
                : rs_table_int(table, row, (size_t)o) == json_integer_value(value))
            return row;
    }
    fail_msg("no row for layer %lld", (long long)layer);
    return 0;
}

static void near(const char *name, double got, const json_t *expected, double tolerance)
{
    if (json_is_null(expected)) {
        assert_true(isnan(got));
        return;
    }
    double value = json_number_value(expected);
    if (!(fabs(got - value) <= tolerance * fmax(1, fabs(value))))
        fail_msg("%s is %.15g, expected %.15g", name, got, value);
}

static void compare_table(const rs_result *result, const json_t *expected, const char *name,
                          const char *other, double tolerance)
{
    const rs_table *table = rs_result_table(result, name);
    assert_non_null(table);
    const json_t *rows = json_object_get(expected, name);
    assert_int_equal(rs_table_rows(table), json_array_size(rows));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *want = json_array_get(rows, i);
        size_t row = row_at(table, json_integer_value(json_object_get(want, "layer")), other,
                            json_object_get(want, other));
        const char *key;
        json_t *value;
        json_object_foreach(want, key, value)
        {
            int column = rs_table_find_column(table, key);
            assert_true(column >= 0);
            if (json_is_real(value) || json_is_null(value))
                near(key, rs_table_real(table, row, (size_t)column), value, tolerance);
        }
    }
}

static void compare_case(const char *name, double tolerance, rs_precision precision)
{
    char path[512];
    json_t *expected = golden(name);
    put_samples(expected);
    rs_probe_request request = request_for(name, path, sizeof path);
    request.options.measure.precision = precision;
    rs_result *result = run(&request, 2);
    compare_table(result, expected, "tokens", "site", tolerance);
    compare_table(result, expected, "attention", "head", tolerance);
    const json_t *loss = json_object_get(expected, "loss");
    const rs_table *table = rs_result_table(result, "loss");
    assert_true(!loss == !table);
    if (loss) {
        assert_int_equal(rs_table_int(table, 0, 1),
                         json_integer_value(json_object_get(loss, "tokens")));
        near("nll", rs_table_real(table, 0, 2), json_object_get(loss, "nll"), tolerance);
        near("perplexity", rs_table_real(table, 0, 3), json_object_get(loss, "perplexity"),
             tolerance);
    }
    rs_result_free(result);
    json_decref(expected);
}

static void test_golden(void **state)
{
    (void)state;
    compare_case("llama", 1e-9, RS_PRECISION_F64);
    compare_case("bert", 1e-9, RS_PRECISION_F64);
}

static void test_generate(void **state)
{
    (void)state;
    char path[512];
    size_t n;
    json_t *expected = golden("llama");
    put_samples(expected);
    rs_probe_request request = request_for("llama", path, sizeof path);
    request.options.generate = 6;
    rs_result *result = run(&request, 1);
    const rs_table *table = rs_result_table(result, "generate");
    assert_non_null(table);
    assert_int_equal(rs_table_rows(table), 4); /* the sample without tokens has no prompt */
    const double *ids = rs_table_vector(table, 0, 2, &n);
    const json_t *want = json_object_get(expected, "generated");
    assert_int_equal(n, 6);
    for (size_t i = 0; i < n; i++)
        assert_int_equal((int)ids[i], json_integer_value(json_array_get(want, i)));
    rs_result_free(result);
    json_decref(expected);
}

/* However samples are grouped and shared out, the numbers are the same; BLAS may sum in another
 * order for another shape. */
static void test_batches_and_threads(void **state)
{
    (void)state;
    char path[512];
    json_t *expected = golden("bert");
    put_samples(expected);
    rs_probe_request request = request_for("bert", path, sizeof path);
    rs_result *whole = run(&request, 1);
    const struct {
        int64_t batch;
        int threads;
    } ways[] = {{1, 1}, {3, 2}, {100, 2}};
    for (size_t i = 0; i < 3; i++) {
        request.options.measure.batch = ways[i].batch;
        rs_result *other = run(&request, ways[i].threads);
        const char *const tables[] = {"tokens", "attention"};
        for (size_t t = 0; t < 2; t++) {
            const rs_table *x = rs_result_table(whole, tables[t]);
            const rs_table *y = rs_result_table(other, tables[t]);
            for (size_t row = 0; row < rs_table_rows(x); row++)
                for (size_t c = 3; c < rs_table_columns(x); c++) {
                    if (rs_table_column(x, c)->type != RS_COLUMN_REAL) continue;
                    double u = rs_table_real(x, row, c), v = rs_table_real(y, row, c);
                    assert_true((isnan(u) && isnan(v)) || fabs(u - v) <= 1e-9 * (1 + fabs(u)));
                }
        }
        rs_result_free(other);
    }
    rs_result_free(whole);
    json_decref(expected);
}

/* ---- output and taps, read back by our own reader ---- */

static const rs_tensor *tensor(const rs_checkpoint *file, const char *name, int64_t a, int64_t b,
                               int64_t c)
{
    const rs_tensor *t = rs_checkpoint_find(file, name);
    assert_non_null(t);
    assert_int_equal(t->rank, c ? 3 : 2);
    assert_int_equal(t->shape[0], a);
    assert_int_equal(t->shape[1], b);
    if (c) assert_int_equal(t->shape[2], c);
    return t;
}

static void test_files(void **state)
{
    (void)state;
    char path[512];
    rs_error err;
    rs_checkpoint *file;
    rs_checkpoint_options how = {0};
    json_t *expected = golden("llama");
    put_samples(expected);
    rs_probe_request request = request_for("llama", path, sizeof path);
    rs_map_choice maps[] = {{1, 0}};
    request.options.output = output_path;
    request.options.taps = taps_path;
    request.options.maps = maps;
    request.options.n_maps = 1;
    request.options.measure.batch = 2;
    rs_result *result = run(&request, 2);

    assert_int_equal(rs_checkpoint_open(&file, output_path, &how, &err), RS_OK);
    double mask[40], logits[23];
    rs_tensor_decode_f64(mask, tensor(file, "attention_mask", 5, 8, 0), 0, 40);
    const json_t *samples = json_object_get(expected, "samples");
    for (size_t s = 0; s < 5; s++)
        for (size_t i = 0; i < 8; i++)
            assert_true(mask[8 * s + i] ==
                        (i < json_array_size(json_array_get(samples, s)) ? 1 : 0));
    const rs_tensor *t = tensor(file, "logits", 5, 8, 23);
    assert_int_equal(t->dtype, RS_F64);
    /* Row 5 of sample 0 gives the first id of the greedy continuation; padding is zero. */
    rs_tensor_decode_f64(logits, t, 5 * 23, 23);
    int best = 0;
    for (int i = 1; i < 23; i++)
        if (logits[i] > logits[best]) best = i;
    assert_int_equal(best,
                     json_integer_value(json_array_get(json_object_get(expected, "generated"), 0)));
    rs_tensor_decode_f64(logits, t, 6 * 23, 23);
    for (int i = 0; i < 23; i++)
        assert_true(logits[i] == 0);
    rs_checkpoint_close(file);

    assert_int_equal(rs_checkpoint_open(&file, taps_path, &how, &err), RS_OK);
    t = rs_checkpoint_find(file, "layer.0.block_out");
    assert_non_null(t);
    /* Sample 2 has one token, and its state follows the eight places of two others. */
    double *row = malloc((size_t)t->shape[2] * sizeof *row), sum = 0;
    rs_tensor_decode_f64(row, t, 2 * 8 * t->shape[2], t->shape[2]);
    for (int64_t i = 0; i < t->shape[2]; i++)
        sum += row[i] * row[i];
    assert_true(sum > 0);
    free(row);
    t = tensor(file, "layer.2.attention.0", 5, 8, 8);
    double weights[64];
    rs_tensor_decode_f64(weights, t, 0, 64);
    for (int i = 0; i < 6; i++) {
        double total = 0;
        for (int j = 0; j < 8; j++) {
            total += weights[8 * i + j];
            if (j > i) assert_true(weights[8 * i + j] == 0);
        }
        assert_true(fabs(total - 1) < 1e-12);
    }
    assert_non_null(rs_checkpoint_find(file, "layer.2.mixer_out"));
    assert_null(rs_checkpoint_find(file, "layer.0.mixer_out"));
    rs_checkpoint_close(file);
    rs_result_free(result);
    json_decref(expected);
    unlink(output_path);
    unlink(taps_path);
}

/* ---- states read together, against the stored states ---- */

enum { FUSION_LAYERS = 2, FUSION_LENGTH = 8 };

/* ‖R‖/‖X‖ of sample s, fused from the states of `file` in plain loops. */
static double fused_residual(const rs_checkpoint *file, rs_fusion fusion, int64_t s, int64_t n)
{
    double states[FUSION_LAYERS][FUSION_LENGTH * 64], fused[FUSION_LENGTH * 128];
    int64_t d = 0, width;
    for (int l = 0; l < FUSION_LAYERS; l++) {
        char name[40];
        snprintf(name, sizeof name, "layer.%d.block_out", l + 1);
        const rs_tensor *t = rs_checkpoint_find(file, name);
        assert_non_null(t);
        d = t->shape[2];
        assert_true(d <= 64 && t->shape[1] == FUSION_LENGTH);
        rs_tensor_decode_f64(states[l], t, s * FUSION_LENGTH * d, n * d);
    }
    width = fusion == RS_FUSION_CONCAT ? 2 * d : d;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++) {
            double a = states[0][i * d + j], b = states[1][i * d + j];
            fused[i * width + j] = fusion == RS_FUSION_CONCAT ? a
                                   : fusion == RS_FUSION_MAX  ? fmax(a, b)
                                                              : (a + b) / 2;
            if (fusion == RS_FUSION_CONCAT) fused[i * width + d + j] = b;
        }
    double residual = 0, norm = 0;
    for (int64_t j = 0; j < width; j++) {
        double mean = 0;
        for (int64_t i = 0; i < n; i++)
            mean += fused[i * width + j] / (double)n;
        for (int64_t i = 0; i < n; i++) {
            residual += pow(fused[i * width + j] - mean, 2);
            norm += pow(fused[i * width + j], 2);
        }
    }
    return sqrt(residual / norm);
}

static void test_fusion(void **state)
{
    (void)state;
    char path[512];
    rs_error err;
    json_t *expected = golden("llama");
    const json_t *samples = json_object_get(expected, "samples");
    put_samples(expected);
    const rs_fusion ways[] = {RS_FUSION_CONCAT, RS_FUSION_MAX, RS_FUSION_GATE};
    const rs_token_site sites[] = {RS_TOKEN_SITE_FUSION_CONCAT, RS_TOKEN_SITE_FUSION_MAX,
                                   RS_TOKEN_SITE_FUSION_GATE};
    for (size_t w = 0; w < 3; w++) {
        rs_probe_request request = request_for("llama", path, sizeof path);
        request.options.edit.fusion = ways[w];
        request.options.taps = taps_path;
        request.options.measure.batch = 2;
        rs_result *result = run(&request, 2);
        rs_checkpoint *file;
        rs_checkpoint_options how = {0};
        assert_int_equal(rs_checkpoint_open(&file, taps_path, &how, &err), RS_OK);
        double sum = 0, count = 0;
        for (size_t s = 0; s < json_array_size(samples); s++) {
            int64_t n = (int64_t)json_array_size(json_array_get(samples, s));
            if (n == 0) continue;
            sum += fused_residual(file, ways[w], (int64_t)s, n);
            count++;
        }
        const rs_table *table = rs_result_table(result, "tokens");
        size_t row = rs_table_rows(table) - 1;
        assert_string_equal(rs_table_text(table, row, 2), rs_token_site_name(sites[w]));
        int column = rs_table_find_column(table, "relative_residual");
        assert_true(fabs(rs_table_real(table, row, (size_t)column) - sum / count) < 1e-12);
        rs_checkpoint_close(file);
        rs_result_free(result);
        unlink(taps_path);
    }
    json_decref(expected);
}

/* ---- refusals, and failing memory ---- */

static void refuse(const char *text, rs_status status, const char *what)
{
    char path[512];
    rs_error err = {0};
    rs_context context = {.threads = 1};
    FILE *f = fopen(tokens_path, "w");
    fputs(text, f);
    fclose(f);
    rs_probe_request request = request_for("bert", path, sizeof path);
    rs_result *result = rs_result_new("probe");
    assert_int_equal(rs_probe_path(result, rs_result_files(result), &request, &context, &err),
                     status);
    if (!strstr(err.what, what)) fail_msg("'%s' does not say '%s'", err.what, what);
    rs_result_free(result);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("", RS_E_EMPTY_FILE, "empty");
    refuse("[]", RS_E_INPUT_FORMAT, "no list of samples");
    refuse("[[]]", RS_E_INPUT_FORMAT, "without tokens");
    refuse("[[1, 2], 3]", RS_E_INPUT_FORMAT, "sample 1");
    refuse("[[1, 2.5]]", RS_E_INPUT_FORMAT, "sample 0, position 1");
    refuse("[[1, 2], [3, 23]]", RS_E_TOKEN_RANGE, "sample 1, position 1: id 23");
    refuse("[[-1]]", RS_E_TOKEN_RANGE, "id -1");
    refuse("[[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]]", RS_E_TOO_LONG, "sample 0: 15 tokens");
    refuse("garbage", RS_E_INPUT_FORMAT, "NumPy's mark");
}

static void test_memory(void **state)
{
    (void)state;
    char path[512];
    json_t *expected = golden("llama");
    put_samples(expected);
    rs_probe_request request = request_for("llama", path, sizeof path);
    rs_map_choice maps[] = {{0, 0}};
    request.options.maps = maps;
    request.options.n_maps = 1;
    request.options.output = output_path;
    request.options.taps = taps_path;
    request.options.generate = 1;
    request.options.variants = "full,san";
    rs_context context = {.threads = 1};
    rs_error err;
    int64_t failures = 0;
    for (int64_t n = 1;; n += n < 60 ? 1 : 17) {
        rs_result *result = rs_result_new("probe");
        rs_memory_fail_at(n);
        rs_status status = rs_probe_path(result, rs_result_files(result), &request, &context, &err);
        rs_memory_fail_at(0);
        rs_result_free(result);
        if (status == RS_OK) break;
        assert_int_equal(status, RS_E_NO_MEMORY);
        assert_int_not_equal(access(output_path, F_OK), 0); /* no file from a run that failed */
        failures++;
    }
    assert_true(failures > 60);
    unlink(output_path);
    unlink(taps_path);
    json_decref(expected);
}

static void test_spread(void **state)
{
    (void)state;
    double values[] = {4, NAN, 1, 16};
    rs_spread s = rs_spread_of(values, 4);
    assert_int_equal(s.n, 3);
    assert_true(s.mean == 7 && s.min == 1 && s.max == 16 && s.median == 4);
    assert_true(fabs(s.geomean - 4) < 1e-12 && fabs(s.std - sqrt(63)) < 1e-12);
    double none[] = {NAN};
    s = rs_spread_of(none, 1);
    assert_true(s.n == 0 && isnan(s.mean) && isnan(s.median));
    double zero[] = {0, 1};
    s = rs_spread_of(zero, 2);
    assert_true(s.geomean == 0 && s.median == 0.5);
}

/* Frequencies of the first ids against 1/(id + 2.7), normalised over the vocabulary: within five
 * standard deviations. The first samples do not depend on how many are drawn. */
static void test_random_ids(void **state)
{
    (void)state;
    enum { SAMPLES = 200, N = 100, VOCABULARY = 1000 };
    static int32_t ids[SAMPLES * N], fewer[N];
    double total = 0;
    int64_t counts[VOCABULARY] = {0};
    rs_error err;
    assert_int_equal(rs_input_draw_ids(ids, SAMPLES, N, VOCABULARY, -1, 7, &err), RS_OK);
    assert_int_equal(rs_input_draw_ids(fewer, 1, N, VOCABULARY, -1, 7, &err), RS_OK);
    assert_memory_equal(ids, fewer, sizeof fewer);
    for (int i = 0; i < VOCABULARY; i++)
        total += 1 / (i + 2.7);
    for (int i = 0; i < SAMPLES * N; i++) {
        assert_true(ids[i] >= 0 && ids[i] < VOCABULARY);
        counts[ids[i]]++;
    }
    for (int i = 0; i < 20; i++) {
        double p = 1 / (i + 2.7) / total, mean = p * SAMPLES * N, std = sqrt(mean * (1 - p));
        assert_true(fabs((double)counts[i] - mean) < 5 * std);
    }
    assert_int_equal(rs_input_draw_ids(fewer, 1, N, VOCABULARY, -1, 8, &err), RS_OK);
    assert_memory_not_equal(ids, fewer, sizeof fewer);
    /* Without id 3 the others keep their order: the same draw over one rank less. */
    static int32_t without[SAMPLES * N], shorter[SAMPLES * N];
    assert_int_equal(rs_input_draw_ids(without, SAMPLES, N, VOCABULARY, 3, 7, &err), RS_OK);
    assert_int_equal(rs_input_draw_ids(shorter, SAMPLES, N, VOCABULARY - 1, -1, 7, &err), RS_OK);
    for (int i = 0; i < SAMPLES * N; i++)
        assert_int_equal(without[i], shorter[i] + (shorter[i] >= 3));
}

static int open_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return 1;
    snprintf(tokens_path, sizeof tokens_path, "%s/tokens.json", folder);
    snprintf(output_path, sizeof output_path, "%s/output.safetensors", folder);
    snprintf(taps_path, sizeof taps_path, "%s/taps.safetensors", folder);
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    unlink(tokens_path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread),     cmocka_unit_test(test_golden),
        cmocka_unit_test(test_generate),   cmocka_unit_test(test_batches_and_threads),
        cmocka_unit_test(test_files),      cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_fusion),     cmocka_unit_test(test_memory),
        cmocka_unit_test(test_random_ids),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
