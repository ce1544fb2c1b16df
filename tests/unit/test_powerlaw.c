/* test_powerlaw.c: the power-law and Marchenko-Pastur fits, against closed forms and against
 * WeightWatcher itself (tests/oracle/make_weightwatcher_golden.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "linalg/powerlaw.h"
#include "property.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_relative(const char *what, double got, double expected, double tolerance)
{
    if (isnan(expected) && isnan(got)) return;
    double allowed = tolerance * fmax(fabs(expected), 1e-30);
    if (fabs(got - expected) <= allowed) return;
    fail_msg("%s: got %.17g, expected %.17g", what, got, expected);
}

/* x_i = exp(i/10), i = 0 .. 49: the sum of log ratios of the whole is 50·49/20, so alpha is
 * 1 + 20/49, and no shorter tail has a smaller distance. */
static void exponential_spacing_has_closed_form(void **state)
{
    (void)state;
    double x[50];
    for (int i = 0; i < 50; i++)
        x[i] = exp(i / 10.0);
    rs_powerlaw fit;
    rs_powerlaw_fit(&fit, x, 50);
    assert_relative("alpha", fit.alpha, 1.0 + 20.0 / 49.0, 1e-13);
    assert_relative("sigma", fit.sigma, 20.0 / 49.0 / sqrt(50.0), 1e-13);
    assert_relative("D", fit.D, 0.1603650519024405, 1e-12);
    assert_relative("xmin", fit.xmin, 1.0, 1e-15);
    assert_relative("xmax", fit.xmax, exp(4.9), 1e-15);
    assert_int_equal(fit.tail, 50);
}

/* Under 20 values: 1 + (n - 1)/sum. With exp(i/10), n = 6: 1 + 5/1.5. */
static void small_samples_are_bias_corrected(void **state)
{
    (void)state;
    double x[6];
    for (int i = 0; i < 6; i++)
        x[i] = 3.0 * exp(i / 10.0);
    rs_powerlaw fit;
    rs_powerlaw_fit(&fit, x, 6);
    assert_relative("alpha", fit.alpha, 1.0 + 5.0 / 1.5, 1e-12);
    assert_relative("sigma", fit.sigma, 5.0 / 1.5 / sqrt(6.0), 1e-12);
    assert_int_equal(fit.tail, 6);
}

static void no_spread_is_no_fit(void **state)
{
    (void)state;
    double x[40];
    for (int i = 0; i < 40; i++)
        x[i] = 2.0;
    for (int64_t n = 0; n <= 40; n++) {
        rs_powerlaw fit;
        rs_powerlaw_fit(&fit, x, n);
        assert_true(isnan(fit.alpha) && isnan(fit.xmin));
        assert_int_equal(fit.tail, 0);
    }
}

/* The definition word by word, without recurrence or pruning. */
static void reference_fit(rs_powerlaw *out, const double *x, int n)
{
    *out = (rs_powerlaw){NAN, 2.0, NAN, NAN, NAN, 0};
    for (int i = 0; i + 1 < n; i++) {
        double sum = 0.0, tail = n - i, largest = 0.0;
        for (int j = i; j < n; j++)
            sum += log(x[j] / x[i]);
        double alpha = 1.0 + tail / sum;
        if (!(sum > 0.0)) continue;
        for (int j = i; j < n; j++) {
            double law = 1.0 - pow(x[j] / x[i], 1.0 - alpha);
            largest = fmax(largest, fabs(law - (j - i) / tail));
        }
        if (largest < out->D) *out = (rs_powerlaw){alpha, largest, NAN, x[i], x[n - 1], n - i};
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*seed >> 11) + 0.5) * 0x1p-53;
}

/* Branch and bound must choose what the full scan chooses: on power laws, uniforms, lognormals, two
 * clusters, and with repeated values. */
static void pruned_scan_equals_full_scan(void **state)
{
    (void)state;
    static double x[700];
    for (int trial = property_start(120, 11000000); property_next(&trial);) {
        uint64_t seed = property_bits();
        int n = 20 + (int)(uniform(&seed) * (trial % 10 == 0 ? 680 : 180));
        for (int i = 0; i < n; i++) {
            double u = uniform(&seed), v = uniform(&seed);
            switch (trial % 5) {
            case 0:
                x[i] = 0.3 * pow(u, -1.0 / 1.5);
                break;
            case 1:
                x[i] = u;
                break;
            case 2:
                x[i] = exp(2.0 * sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
                break;
            case 3:
                x[i] = v < 0.3 ? 1.0 + 1e-3 * u : 50.0 + u;
                break;
            default:
                x[i] = ceil(10.0 * u) + (v < 0.5 ? 0.0 : v);
                break;
            }
        }
        qsort(x, (size_t)n, sizeof *x, ascending);
        rs_powerlaw fit, expected;
        rs_powerlaw_fit(&fit, x, n);
        reference_fit(&expected, x, n);
        assert_relative("D", fit.D, expected.D, 1e-11);
        assert_relative("xmin", fit.xmin, expected.xmin, 0.0);
        assert_relative("alpha", fit.alpha, expected.alpha, 1e-11);
    }
}

/* ---- WeightWatcher ---- */

typedef struct column {
    const char *name;
    size_t offset;
    double tolerance; /* relative */
} column;

/* The fit of the Marchenko-Pastur variance stops at 1e-4, so its columns carry fewer digits. */
static const column REALS[] = {
    {"alpha", offsetof(rs_weightwatcher, alpha), 1e-11},
    {"D", offsetof(rs_weightwatcher, D), 1e-11},
    {"sigma", offsetof(rs_weightwatcher, sigma), 1e-11},
    {"xmin", offsetof(rs_weightwatcher, xmin), 1e-13},
    {"xmax", offsetof(rs_weightwatcher, xmax), 1e-13},
    {"alpha_weighted", offsetof(rs_weightwatcher, alpha_weighted), 1e-11},
    {"log_alpha_norm", offsetof(rs_weightwatcher, log_alpha_norm), 1e-11},
    {"log_norm", offsetof(rs_weightwatcher, log_norm), 1e-12},
    {"entropy", offsetof(rs_weightwatcher, entropy), 1e-7},
    {"norm", offsetof(rs_weightwatcher, norm), 1e-12},
    {"spectral_norm", offsetof(rs_weightwatcher, spectral_norm), 1e-13},
    {"stable_rank", offsetof(rs_weightwatcher, stable_rank), 1e-12},
    {"mp_softrank", offsetof(rs_weightwatcher, mp_softrank), 1e-9},
    {"Q", offsetof(rs_weightwatcher, Q), 1e-15},
};

static const column COUNTS[] = {
    {"num_pl_spikes", offsetof(rs_weightwatcher, num_pl_spikes), 0},
    {"num_spikes", offsetof(rs_weightwatcher, num_spikes), 0},
    {"matrix_rank", offsetof(rs_weightwatcher, matrix_rank), 0},
    {"rank_loss", offsetof(rs_weightwatcher, rank_loss), 0},
    {"N", offsetof(rs_weightwatcher, N), 0},
    {"M", offsetof(rs_weightwatcher, M), 0},
};

/* What WeightWatcher printed; NaN where it printed nothing finite or, for a failed fit, where its
 * -1 is the fit's failure (powerlaw.h, difference 1). */
static double golden_real(json_t *columns, const char *name, bool fit_failed, bool bulk_failed)
{
    static const char *const OF_FIT[] = {
        "alpha", "D", "sigma", "xmin", "xmax", "alpha_weighted", "log_alpha_norm"};
    for (size_t i = 0; fit_failed && i < sizeof OF_FIT / sizeof *OF_FIT; i++) {
        if (strcmp(name, OF_FIT[i]) == 0) return NAN;
    }
    if (bulk_failed && strcmp(name, "mp_softrank") == 0) return NAN;
    json_t *value = json_object_get(columns, name);
    assert_non_null(value);
    if (strcmp(name, "sigma") == 0 && json_number_value(value) < 0.0) { /* difference 9 */
        double n = json_number_value(json_object_get(columns, "num_pl_spikes"));
        assert_true(n < 8.0);
        return (json_number_value(json_object_get(columns, "alpha")) - 1.0) / sqrt(n);
    }
    return json_is_null(value) ? (double)NAN : json_number_value(value);
}

static void check_case(json_t *item)
{
    json_t *columns = json_object_get(item, "columns"), *array = json_object_get(item, "sigma");
    const char *name = json_string_value(json_object_get(item, "name"));
    size_t k = json_array_size(array);
    double *sigma = malloc((k + 1) * sizeof *sigma);
    assert_non_null(sigma);
    for (size_t i = 0; i < k; i++)
        sigma[i] = json_number_value(json_array_get(array, i));
    rs_weightwatcher got;
    int64_t rows = json_integer_value(json_object_get(item, "rows"));
    int64_t cols = json_integer_value(json_object_get(item, "cols"));
    assert_int_equal(rs_weightwatcher_of(&got, sigma, (int64_t)k, rows, cols, NULL), RS_OK);

    bool fit_failed = json_number_value(json_object_get(columns, "D")) == -1.0;
    bool bulk_failed = json_number_value(json_object_get(columns, "sigma_mp")) == -1.0;
    char what[200];
    for (size_t i = 0; i < sizeof REALS / sizeof *REALS; i++) {
        double value;
        memcpy(&value, (char *)&got + REALS[i].offset, sizeof value);
        snprintf(what, sizeof what, "%s, %s", name, REALS[i].name);
        assert_relative(what, value, golden_real(columns, REALS[i].name, fit_failed, bulk_failed),
                        REALS[i].tolerance);
    }
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        int64_t value;
        memcpy(&value, (char *)&got + COUNTS[i].offset, sizeof value);
        snprintf(what, sizeof what, "%s, %s", name, COUNTS[i].name);
        assert_relative(what, (double)value,
                        json_number_value(json_object_get(columns, COUNTS[i].name)), 0.0);
    }
    const char *warning = json_string_value(json_object_get(columns, "warning"));
    assert_string_equal(got.warning, fit_failed ? "" : warning);
    free(sigma);
}

static void agrees_with_weightwatcher(void **state)
{
    (void)state;
    json_error_t problem;
    json_t *cases = json_load_file(RS_TEST_DATA "/weightwatcher.json", 0, &problem);
    if (!cases) fail_msg("%s", problem.text);
    assert_true(json_array_size(cases) >= 20);
    size_t index;
    json_t *item;
    json_array_foreach(cases, index, item) check_case(item);
    json_decref(cases);
}

/* Eigenvalues placed at the quantiles of the law itself: the fitted edges must be the law's, up to
 * the width 0.1 of the density kernel. */
static void bulk_of_marchenko_pastur_quantiles(void **state)
{
    (void)state;
    enum { K = 1000, STEPS = 200000 };
    static double lambda[K];
    double ratio = 4.0, low = 0.25, high = 2.25, mass = 0.0;
    int next = 0;
    for (int i = 0; i < STEPS && next < K; i++) {
        double x = low + (high - low) * (i + 0.5) / STEPS;
        mass +=
            ratio * sqrt((high - x) * (x - low)) / (6.283185307179586 * x) * (high - low) / STEPS;
        while (next < K && mass >= (next + 0.5) / K)
            lambda[next++] = 7.0 * x;
    }
    while (next < K)
        lambda[next++] = 7.0 * high;
    rs_mp_fit fit;
    assert_int_equal(rs_marchenko_pastur_fit(&fit, lambda, K, 4 * K, K, NULL), RS_OK);
    assert_relative("bulk_max", fit.bulk_max, high, 0.03);
    assert_relative("bulk_min", fit.bulk_min, low, 0.03);
    assert_int_equal(fit.spikes, 0);
    for (int i = 0; i < 5; i++)
        lambda[K - 1 - i] = 7.0 * (10.0 - i);
    assert_int_equal(rs_marchenko_pastur_fit(&fit, lambda, K, K, 4 * K, NULL), RS_OK);
    assert_int_equal(fit.spikes, 5);
}

static void empty_and_zero_spectra(void **state)
{
    (void)state;
    rs_weightwatcher got;
    assert_int_equal(rs_weightwatcher_of(&got, NULL, 0, 0, 5, NULL), RS_OK);
    assert_true(isnan(got.alpha) && isnan(got.Q));
    assert_int_equal(got.num_spikes, -1);
    assert_int_equal(got.N, 5);
    double zeros[3] = {0, 0, 0};
    assert_int_equal(rs_weightwatcher_of(&got, zeros, 3, 3, 4, NULL), RS_OK);
    assert_true(isnan(got.alpha) && isnan(got.entropy) && isnan(got.stable_rank));
    assert_int_equal(got.matrix_rank, 0);
    assert_int_equal(got.rank_loss, 3);
    assert_int_equal(got.num_spikes, -1);
    /* Squares that overflow or vanish must not trap or loop. */
    double huge[3] = {1e200, 1e199, 1.0}, tiny[3] = {1e-200, 1e-201, 1e-300};
    assert_int_equal(rs_weightwatcher_of(&got, huge, 3, 3, 4, NULL), RS_OK);
    assert_int_equal(rs_weightwatcher_of(&got, tiny, 3, 3, 4, NULL), RS_OK);
}

static void survives_allocation_failure(void **state)
{
    (void)state;
    double sigma[30];
    for (int i = 0; i < 30; i++)
        sigma[i] = 3.0 / (i + 1);
    rs_weightwatcher got;
    rs_error err;
    int failures = 0;
    for (int64_t at = 1;; at++) {
        rs_memory_fail_at(at);
        rs_status status = rs_weightwatcher_of(&got, sigma, 30, 30, 60, &err);
        rs_memory_fail_at(0);
        if (status == RS_OK) break;
        assert_int_equal(status, RS_E_NO_MEMORY);
        failures++;
    }
    assert_int_equal(failures, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_spacing_has_closed_form),
        cmocka_unit_test(small_samples_are_bias_corrected),
        cmocka_unit_test(no_spread_is_no_fit),
        cmocka_unit_test(pruned_scan_equals_full_scan),
        cmocka_unit_test(agrees_with_weightwatcher),
        cmocka_unit_test(bulk_of_marchenko_pastur_quantiles),
        cmocka_unit_test(empty_and_zero_spectra),
        cmocka_unit_test(survives_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
