/* test_compare.c: rs_compare_checkpoints: what it refuses, what does not change, what does. Numbers are
 * held against NumPy's by tests/cli/compare.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rankscope.h"

#include <math.h>
#include <string.h>

#define GOLDEN RS_TEST_DATA "/compare/"

static rs_result *compare(const char *a, const char *b, void (*set)(rs_compare_settings *s))
{
    rs_compare_settings s;
    rs_result *result;
    rs_error err;
    rs_compare_settings_init(&s, sizeof s);
    s.others = &b;
    s.n_others = 1;
    if (set) set(&s);
    if (rs_compare_checkpoints(&result, a, &s, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

static const double *reals(const rs_result *result, const char *table, const char *column,
                           size_t *n)
{
    rs_column_data data;
    assert_int_equal(rs_result_column(&data, result, table, column, NULL), RS_OK);
    *n = data.rows;
    return data.real;
}

static bool has_table(const rs_result *result, const char *name)
{
    for (size_t i = 0; i < rs_result_table_count(result); i++)
        if (strcmp(rs_result_table_name(result, i), name) == 0) return true;
    return false;
}

/* Every column ..._change of a table is 0 or null. */
static void nothing_changes(const rs_result *result, const char *table)
{
    for (size_t c = 0; c < rs_result_column_count(result, table); c++) {
        const char *name = rs_result_column_name(result, table, c), *end = strstr(name, "_change");
        size_t n;
        if (!end || end[7]) continue;
        const double *values = reals(result, table, name, &n);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++)
            if (!isnan(values[i]) && values[i] != 0) fail_msg("%s: %g", name, values[i]);
    }
}

static void a_checkpoint_and_itself(void **state)
{
    (void)state;
    rs_result *result = compare(GOLDEN "base", GOLDEN "base", NULL);
    size_t n;
    assert_string_equal(rs_result_verdict(result)->code, "same");
    nothing_changes(result, "heads");
    nothing_changes(result, "layers");
    const double *norm = reals(result, "heads", "change_norm", &n);
    const double *left = reals(result, "heads", "overlap_left", &n),
                 *right = reals(result, "heads", "overlap_right", &n);
    assert_int_equal(n, 16);
    for (size_t i = 0; i < n; i++) {
        assert_true(norm[i] == 0);
        assert_true(fabs(left[i] - 1) < 1e-12 && fabs(right[i] - 1) < 1e-12);
    }
    assert_false(has_table(result, "not_compared"));
    assert_int_equal(rs_result_severity(result), 0);
    rs_result_free(result);
}

/* W_Q R and W_K R: products, spectra and directions stay; what hangs on the factors alone moves. */
static void a_rotated_twin(void **state)
{
    (void)state;
    rs_result *result = compare(GOLDEN "base", GOLDEN "rotated", NULL);
    size_t n;
    assert_string_equal(rs_result_verdict(result)->code, "rounding");
    const double *relative = reals(result, "heads", "change_relative", &n),
                 *rank = reals(result, "heads", "effective_rank_change", &n),
                 *balance = reals(result, "heads", "balance_score_change", &n),
                 *left = reals(result, "heads", "overlap_left", &n);
    for (size_t i = 0; i < n; i++) {
        assert_true(relative[i] > 0 && relative[i] < 1e-14);
        assert_true(fabs(rank[i]) < 1e-12 && fabs(balance[i]) < 1e-12);
        assert_true(fabs(left[i] - 1) < 1e-10);
    }
    rs_result_free(result);
}

static void another_depth(void **state)
{
    (void)state;
    rs_result *result = compare(GOLDEN "deep", GOLDEN "base", NULL);
    size_t n;
    rs_column_data layer, which;
    assert_string_equal(rs_result_verdict(result)->code, "same");
    reals(result, "heads", "change_norm", &n);
    assert_int_equal(n, 16);
    assert_int_equal(rs_result_column(&layer, result, "not_compared", "layer", NULL), RS_OK);
    assert_int_equal(rs_result_column(&which, result, "not_compared", "which", NULL), RS_OK);
    assert_int_equal(layer.rows, 2); /* qk and ov of layer 2 */
    for (size_t i = 0; i < layer.rows; i++) {
        assert_int_equal(layer.integer[i], 2);
        assert_string_equal(which.text[i], "a");
    }
    rs_result_free(result);
}

static void another_width_and_family(void **state)
{
    (void)state;
    rs_result *result = compare(GOLDEN "base", RS_TEST_DATA "/families/llama", NULL);
    size_t n;
    assert_string_equal(rs_result_verdict(result)->code, "ranks_alone");
    const double *norm = reals(result, "heads", "change_norm", &n);
    for (size_t i = 0; i < n; i++)
        assert_true(isnan(norm[i]));
    const double *rank = reals(result, "heads", "effective_rank_change", &n);
    for (size_t i = 0; i < n; i++)
        assert_true(!isnan(rank[i]));
    rs_result_free(result);
    result = compare(RS_TEST_DATA "/families/bert", RS_TEST_DATA "/families/mamba2", NULL);
    assert_string_equal(rs_result_verdict(result)->code, "nothing_in_common");
    assert_int_equal(rs_result_severity(result), 1);
    rs_result_free(result);
}

static void with_random_inputs(rs_compare_settings *s)
{
    s->run.random = 2;
    s->run.seq_len = 6;
}

static void on_inputs(void **state)
{
    (void)state;
    rs_result *result =
        compare(RS_TEST_DATA "/forward/llama", RS_TEST_DATA "/forward/llama", with_random_inputs);
    assert_string_equal(rs_result_verdict(result)->code, "same");
    nothing_changes(result, "tokens");
    rs_result_free(result);
    result =
        compare(RS_TEST_DATA "/forward/bert", RS_TEST_DATA "/forward/gpt2", with_random_inputs);
    size_t n;
    const double *a = reals(result, "tokens", "relative_residual_a", &n),
                 *b = reals(result, "tokens", "relative_residual_b", &n);
    assert_true(n >= 3);
    for (size_t i = 0; i < n; i++)
        assert_true(a[i] > 0 && b[i] > 0);
    rs_result_free(result);
}

/* ---- what is refused ---- */

static rs_status refused(const char *a, const char *const *others, size_t n,
                         void (*set)(rs_compare_settings *s))
{
    rs_compare_settings s;
    rs_result *result = NULL;
    rs_error err;
    rs_compare_settings_init(&s, sizeof s);
    s.others = others;
    s.n_others = n;
    if (set) set(&s);
    rs_status status = rs_compare_checkpoints(&result, a, &s, &err);
    assert_null(result);
    return status;
}

static void draw(rs_compare_settings *s)
{
    s->run.init = "default";
}

static void edit(rs_compare_settings *s)
{
    static const rs_intervention no_skip = {"no-skip", NULL};
    s->run.edits = &no_skip;
    s->run.n_edits = 1;
}

static void size_without_inputs(rs_compare_settings *s)
{
    s->run.seq_len = 8;
}

static void negative_subspace(rs_compare_settings *s)
{
    s->subspace = -1;
}

static void bad_tolerance(rs_compare_settings *s)
{
    s->tolerance = NAN;
}

static void no_such_layer(rs_compare_settings *s)
{
    s->first_layer = 7;
}

static void bad_requests(void **state)
{
    static const char *const base[] = {GOLDEN "base"}, *const nowhere[] = {"/nowhere"},
                             *const none[] = {NULL}, *const no_model[] = {RS_TEST_DATA};
    static const struct {
        const char *a;
        const char *const *others;
        size_t n;
        void (*set)(rs_compare_settings *s);
        rs_status status;
    } rows[] = {{GOLDEN "base", NULL, 0, NULL, RS_E_USAGE},
                {GOLDEN "base", NULL, 1, NULL, RS_E_USAGE},
                {GOLDEN "base", none, 1, NULL, RS_E_USAGE},
                {NULL, base, 1, NULL, RS_E_USAGE},
                {"/nowhere", base, 1, NULL, RS_E_NOT_FOUND},
                {GOLDEN "base", nowhere, 1, NULL, RS_E_NOT_FOUND},
                {GOLDEN "base", no_model, 1, NULL, RS_E_NO_CHECKPOINT},
                {GOLDEN "base", base, 1, draw, RS_E_USAGE},
                {GOLDEN "base", base, 1, edit, RS_E_USAGE},
                {GOLDEN "base", base, 1, size_without_inputs, RS_E_USAGE},
                {GOLDEN "base", base, 1, negative_subspace, RS_E_BAD_OPTION},
                {GOLDEN "base", base, 1, bad_tolerance, RS_E_BAD_OPTION},
                {GOLDEN "base", base, 1, no_such_layer, RS_E_NO_PRODUCT}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rs_status status = refused(rows[i].a, rows[i].others, rows[i].n, rows[i].set);
        if (status != rows[i].status)
            fail_msg("row %zu: %s, expected %s", i, rs_status_name(status),
                     rs_status_name(rows[i].status));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_checkpoint_and_itself),
                                       cmocka_unit_test(a_rotated_twin),
                                       cmocka_unit_test(another_depth),
                                       cmocka_unit_test(another_width_and_family),
                                       cmocka_unit_test(on_inputs),
                                       cmocka_unit_test(bad_requests)};
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
