/*
 * test_families_golden.c: tiny models written by transformers (and by gguf for the GGUF twins),
 * opened, cut into factors, multiplied out, and compared with singular values that NumPy found from
 * the modules' own weights (tests/oracle/make_family_golden.py, make_kin_golden.py,
 * make_family_gguf_golden.py). What turns, by what scores are scaled and what is folded is compared
 * with what the forward pass did, where expected.json says it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "products/factor.h"
#include "recognise/model.h"

#include <dirent.h>
#include <lapacke.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The m×r matrix of a factor, row-major. */
static double *factor_matrix(const rs_factor *f)
{
    double *whole = malloc((size_t)(f->rows * f->cols) * sizeof *whole);
    double *out = malloc((size_t)(f->features * f->inner) * sizeof *out);
    assert_true(whole && out);
    assert_int_equal(f->rows * f->cols, f->tensor->count);
    assert_true(f->first >= 0 && f->first + f->inner <= (f->vector_is_row ? f->rows : f->cols));
    assert_int_equal(f->features, f->vector_is_row ? f->cols : f->rows);
    rs_tensor_decode_f64(whole, f->tensor, 0, f->tensor->count);
    for (int64_t i = 0; i < f->inner; i++)
        for (int64_t j = 0; j < f->features; j++)
            out[j * f->inner + i] = f->vector_is_row ? whole[(f->first + i) * f->cols + j]
                                                     : whole[j * f->cols + f->first + i];
    free(whole);
    return out;
}

/* Swapped factors have the same singular values, but not the same norms. */
static void compare_norm(const rs_factor *f, const json_t *expected)
{
    double *matrix = factor_matrix(f), sum = 0, want = json_number_value(expected);
    for (int64_t i = 0; i < f->features * f->inner; i++)
        sum += matrix[i] * matrix[i];
    free(matrix);
    if (!(want > 0 && fabs(sqrt(sum) - want) <= 1e-9 * want))
        fail_msg("factor in %s from %lld: norm %.12g, not %.12g", f->tensor->name,
                 (long long)f->first, sqrt(sum), want);
}

/* The norm before a projection: its kind and what it multiplies by, as the forward pass showed. */
static void compare_gain(const rs_factor *f, const json_t *expected)
{
    const char *kind = json_string_value(json_array_get(expected, 0));
    double want = json_number_value(json_array_get(expected, 1)), sum = 0;
    assert_string_equal(f->norm == RS_NORM_NONE ? "none"
                        : f->norm == RS_NORM_LAYERNORM || f->norm == RS_NORM_LAYERNORM_PLUS_ONE
                            ? "layernorm"
                            : "rmsnorm",
                        kind ? kind : "none");
    if (!kind) return;
    for (int64_t i = 0; i < f->features; i++) {
        double gain = 1;
        if (f->gain) rs_tensor_decode_f64(&gain, f->gain, i, 1);
        if (f->norm == RS_NORM_RMSNORM_PLUS_ONE || f->norm == RS_NORM_LAYERNORM_PLUS_ONE) gain += 1;
        sum += gain * gain;
    }
    if (!(fabs(sqrt(sum) - want) <= 1e-4 * want))
        fail_msg("gain before %s: norm %.9g, not %.9g", f->tensor->name, sqrt(sum), want);
}

/* Singular values of A Bᵀ, formed in full; a is m×r, b is n×r, both are freed. */
static size_t singular_values(double *a, double *b, int64_t m, int64_t n, int64_t r,
                              double **values)
{
    double *product = calloc((size_t)(m * n), sizeof *product);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t t = 0; t < r; t++)
                product[i * n + j] += a[i * r + t] * b[j * r + t];
    size_t k = (size_t)(m < n ? m : n);
    *values = malloc(k * sizeof **values);
    double *superb = malloc(k * sizeof *superb);
    assert_int_equal(LAPACKE_dgesvd(LAPACK_ROW_MAJOR, 'N', 'N', (int)m, (int)n, product, (int)n,
                                    *values, NULL, 1, NULL, 1, superb),
                     0);
    free(superb);
    free(product);
    free(a);
    free(b);
    return k;
}

/* The factor with --fold-norms. */
static double *folded(const rs_factor *f)
{
    double *out = malloc((size_t)(f->features * f->inner) * sizeof *out);
    assert_non_null(out);
    assert_int_equal(rs_factor_read(out, f, (rs_fold){.norms = true}, &(rs_error){0}), RS_OK);
    return out;
}

static bool same_text(const char *text, const json_t *json)
{
    return text ? json_is_string(json) && strcmp(text, json_string_value(json)) == 0
                : json_is_null(json);
}

static const json_t *find_expected(const json_t *list, const rs_product *p)
{
    static const char *const kinds[] = {"qk", "ov", "cb", "io"};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *e = json_array_get(list, i);
        if (same_text(p->stack, json_object_get(e, "stack")) &&
            same_text(p->attention, json_object_get(e, "attention")) &&
            strcmp(kinds[p->kind], json_string_value(json_object_get(e, "kind"))) == 0 &&
            json_integer_value(json_object_get(e, "layer")) == p->layer &&
            json_integer_value(json_object_get(e, "head")) == p->head)
            return e;
    }
    fail_msg("no expected %s of layer %d head %d", kinds[p->kind], p->layer, p->head);
    return NULL;
}

static void compare_values(const char *name, const rs_product *p, const json_t *sv, double *a,
                           double *b, double relative)
{
    double *values, scale = json_number_value(json_array_get(sv, 0));
    size_t k = singular_values(a, b, p->a.features, p->b.features, p->a.inner, &values);
    assert_true(json_array_size(sv) <= k && scale > 0);
    for (size_t i = 0; i < k; i++) {
        double want = i < json_array_size(sv) ? json_number_value(json_array_get(sv, i)) : 0;
        if (!(fabs(values[i] - want) <= relative * scale))
            fail_msg("%s layer %d head %d kind %d: value %zu is %.9g, not %.9g", name, p->layer,
                     p->head, (int)p->kind, i, values[i], want);
    }
    free(values);
}

/* What table planes, column corrections and finding dead_head rest on. */
static void compare_facts(const char *name, const rs_product *p, const json_t *expected)
{
    static const char *const kinds[] = {"none", "half-split", "interleaved"};
    const json_t *rope = json_object_get(expected, "rope"), *pairs = json_array_get(rope, 0);
    const char *want = pairs ? json_string_value(pairs) : "none";
    json_int_t dims = json_integer_value(json_array_get(rope, 1));
    if (strcmp(kinds[p->rope], want) != 0 || (pairs && p->rope_dims != dims))
        fail_msg("%s layer %d: %s, %d units turn; not %s, %d", name, p->layer, kinds[p->rope],
                 p->rope_dims, want, (int)dims);
    double scale = json_number_value(json_object_get(expected, "scale")), said = 1;
    const char *text = strstr(p->corrections, "scale 1/sqrt(");
    if (text)
        said = 1 / sqrt(strtod(text + strlen("scale 1/sqrt("), NULL));
    else if (strncmp(p->corrections, "scale ", 6) == 0)
        said = strtod(p->corrections + 6, NULL);
    if (!(fabs(said - scale) <= 1e-5 * scale))
        fail_msg("%s: %s; scores are multiplied by %g", name, p->corrections, scale);
    assert_int_equal(p->qk_norm, json_is_true(json_object_get(expected, "qk_norm")));
    assert_int_equal(strstr(p->corrections, "QK-norm") != NULL, p->qk_norm);
}

static void compare(const char *name, const rs_product *p, const json_t *expected)
{
    compare_norm(&p->a, json_object_get(expected, "a"));
    compare_norm(&p->b, json_object_get(expected, "b"));
    compare_gain(&p->a, json_array_get(json_object_get(expected, "gains"), 0));
    compare_gain(&p->b, json_array_get(json_object_get(expected, "gains"), 1));
    assert_int_equal(p->a.features, json_integer_value(json_object_get(expected, "rows")));
    assert_int_equal(p->b.features, json_integer_value(json_object_get(expected, "cols")));
    assert_int_equal(p->a.inner, p->b.inner);
    compare_values(name, p, json_object_get(expected, "sv"), factor_matrix(&p->a),
                   factor_matrix(&p->b), 1e-6);
    const json_t *fold = json_object_get(expected, "fold"); /* gains seen in float32 */
    if (fold) compare_values(name, p, fold, folded(&p->a), folded(&p->b), 1e-4);
    assert_non_null(p->corrections);
    if (json_object_get(expected, "rope")) compare_facts(name, p, expected);
}

static const char *message_of(const rs_model *model, const char *code)
{
    for (size_t i = 0; i < model->notes.n; i++)
        if (strcmp(model->notes.items[i].code, code) == 0) return model->notes.items[i].message;
    return NULL;
}

/* A guess names the layers that do not fit, and claims neither rotation nor scale. */
static void check_guess(const char *name, const rs_model *model, const json_t *left_out)
{
    char layers[64] = "(";
    for (size_t i = 0; i < json_array_size(left_out); i++)
        snprintf(layers + strlen(layers), sizeof layers - strlen(layers), "%s%d", i ? ", " : "",
                 (int)json_integer_value(json_array_get(left_out, i)));
    const char *message = message_of(model, "layer_left_out");
    if ((message != NULL) != (json_array_size(left_out) > 0) ||
        (message && !strstr(message, layers)))
        fail_msg("%s: layers %s are left out, not %s", name, layers, message ? message : "none");
    assert_non_null(message_of(model, "guessed_family"));
    for (size_t i = 0; i < model->n_products; i++) {
        assert_int_equal(model->products[i].rope, RS_ROPE_NONE);
        assert_null(strstr(model->products[i].corrections, "sqrt"));
    }
}

static void check_folder(const char *kind, const char *name)
{
    char path[512];
    rs_checkpoint *checkpoint;
    rs_model *model = NULL;
    rs_error err = {0};
    snprintf(path, sizeof path, "%s/%s/%s/expected.json", RS_TEST_DATA, kind, name);
    json_t *expected = json_load_file(path, 0, NULL);
    assert_non_null(expected);
    bool gguf = strcmp(kind, "families_gguf") == 0;
    snprintf(path, sizeof path, "%s/%s/%s%s", RS_TEST_DATA, kind, name, gguf ? "/model.gguf" : "");
    if (rs_checkpoint_open(&checkpoint, path, &(rs_checkpoint_options){0}, &err) != RS_OK ||
        rs_model_open(&model, checkpoint, NULL, NULL, &err) != RS_OK)
        fail_msg("%s: %s: %s; %s", name, err.where, err.what, err.hint);
    assert_int_equal(model->guessed, strcmp(kind, "guesses") == 0);
    const json_t *products = json_object_get(expected, "products");
    for (size_t i = 0; i < model->n_products; i++)
        compare(name, &model->products[i], find_expected(products, &model->products[i]));
    if (model->n_products != json_array_size(products))
        fail_msg("%s: %zu products, %zu expected", name, model->n_products,
                 json_array_size(products));
    if (model->guessed) check_guess(name, model, json_object_get(expected, "left_out"));
    for (size_t i = 0; i < model->notes.n && !model->guessed; i++) {
        const rs_note *note = &model->notes.items[i];
        /* only ALBERT has these: 6 layers, 2 groups of 2 blocks */
        if (strcmp(note->code, "shared_layers") == 0)
            assert_non_null(
                strstr(note->message, "layers 0-1 at depths 0-5; layers 2-3 at depths 6-11"));
        else if (strcmp(note->code, "product_not_formed") == 0)
            assert_string_equal(name, "diffllama");
        else if (strcmp(note->code, "rope_form") != 0)
            fail_msg("%s: %s: %s", name, note->code, note->message);
    }
    rs_model_close(model);
    rs_checkpoint_close(checkpoint);
    json_decref(expected);
}

static size_t check_all(const char *kind)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", RS_TEST_DATA, kind);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    size_t n = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.') {
            check_folder(kind, entry->d_name);
            n++;
        }
    closedir(folder);
    return n;
}

static void families_of_transformers(void **state)
{
    (void)state;
    assert_true(check_all("families") >= 88);
}

static void models_that_stay_guesses(void **state)
{
    (void)state;
    assert_true(check_all("guesses") >= 2);
}

static void families_of_gguf(void **state)
{
    (void)state;
    assert_true(check_all("families_gguf") >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(families_of_transformers),
                                       cmocka_unit_test(models_that_stay_guesses),
                                       cmocka_unit_test(families_of_gguf)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
