/* measure_cases.h: the matrices of tests/oracle/make_measures_golden.py, bit for bit, and reading
 * their expected measures. Include behind cmocka.h. */
#ifndef RS_TEST_MEASURE_CASES_H
#define RS_TEST_MEASURE_CASES_H

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline double next_entry(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 32) * 0x1p-32 - 0.5;
}

/* Uniform numbers in (−1/2, 1/2); freed by the caller. */
static inline double *entries(int64_t count, uint64_t seed)
{
    double *out = malloc(((size_t)count + 1) * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < count; i++)
        out[i] = next_entry(&seed);
    return out;
}

static inline json_t *load_cases(const char *path, size_t least)
{
    json_error_t problem;
    json_t *cases = json_load_file(path, 0, &problem);
    if (!cases) fail_msg("%s", problem.text);
    assert_true(json_array_size(cases) >= least);
    return cases;
}

static inline int64_t integer_of(const json_t *item, const char *key)
{
    return json_integer_value(json_object_get(item, key));
}

static inline const char *text_of(const json_t *item, const char *key)
{
    const char *text = json_string_value(json_object_get(item, key));
    return text ? text : "";
}

/* The expected number, NaN where the oracle has none. */
static inline double expected_of(const json_t *item, const char *key)
{
    const json_t *value = json_object_get(item, key);
    return value ? json_number_value(value) : NAN;
}

/* Fails with both numbers unless |got − expected| ≤ relative·|expected| + absolute, or both are
 * NaN. */
static inline void assert_near(const char *what, double got, double expected, double relative,
                               double absolute)
{
    if (isnan(got) && isnan(expected)) return;
    if (!(fabs(got - expected) <= relative * fabs(expected) + absolute))
        fail_msg("%s: got %.17g, expected %.17g", what, got, expected);
}

#endif
