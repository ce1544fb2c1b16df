/*
 * test_token_residual.c: the measures of X = 1x + 2^e M against their definitions in thousands of
 * digits (tests/oracle/make_residual_measures_golden.py), and their corners.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/residual.h"
#include "measures/token_measures.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const rs_token_options options = {.spectral = true, .epsilon = 0x1p-53};

static rs_token_measures measure(const rs_token_residual *x, rs_centre centre)
{
    rs_token_measures out;
    rs_error err;
    rs_token_options own = options;
    own.centre = centre;
    double *plain = malloc((size_t)(x->n * x->d) * sizeof *plain);
    void *workspace = malloc(rs_token_residual_workspace(x->n, x->d, &own));
    rs_token_residual whole = *x;
    double power = rs_power_of_two(x->exponent);
    for (int64_t i = 0; i < x->n * x->d; i++)
        plain[i] = x->base[i % x->d] + power * x->residual[i];
    whole.plain = plain;
    assert_int_equal(rs_token_measure_residual(&out, &whole, &own, workspace, &err), RS_OK);
    free(workspace);
    free(plain);
    return out;
}

static double *numbers_of(const json_t *list)
{
    double *out = malloc(json_array_size(list) * sizeof *out);
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = json_number_value(json_array_get(list, i));
    return out;
}

#define FIELD(name, tolerance)                                                                     \
    {                                                                                              \
#name, offsetof(rs_token_measures, name), tolerance                                        \
    }
static const struct {
    const char *name;
    size_t offset;
    double tolerance; /* relative */
} fields[] = {
    FIELD(norm_fro, 1e-14),
    FIELD(residual_fro, 1e-14),
    FIELD(relative_residual, 1e-14),
    FIELD(residual_1inf, 1e-14),
    FIELD(relative_residual_1inf, 1e-14),
    FIELD(row_normalised_mu, 1e-13),
    /* 1e-16 beside what separates the rows, at least 1e-5 of them */
    FIELD(rank1_residual, 1e-9),
    FIELD(one_minus_cosine, 1e-13),
    FIELD(mean_cosine, 1e-13),
    FIELD(diameter, 1e-14),
    FIELD(effective_rank, 1e-8),
    FIELD(stable_rank, 1e-10),
    FIELD(stable_rank_gram, 1e-10),
    FIELD(numerical_rank, 0),
    FIELD(log10_residual_fro, 1e-14),
    FIELD(log10_relative_residual, 1e-14),
    FIELD(log10_residual_1inf, 1e-14),
    FIELD(log10_relative_residual_1inf, 1e-14),
    FIELD(log10_one_minus_cosine, 1e-13),
    FIELD(log10_diameter, 1e-14),
};

static int compare(const json_t *c, const rs_token_measures *found)
{
    int wrong = 0;
    const json_t *expected = json_object_get(c, "expected");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *number = json_object_get(expected, fields[i].name);
        double value, truth = json_number_value(number);
        memcpy(&value, (const char *)found + fields[i].offset, sizeof value);
        if (!number) continue;
        bool logarithm = strncmp(fields[i].name, "log10_", 6) == 0;
        double size = logarithm ? fmax(fabs(truth), 1) : fabs(truth);
        if (fabs(value - truth) <= fields[i].tolerance * size) continue;
        if (fabs(truth) < 1e-300 && fabs(value) < 1e-300) continue;
        /* one feature: all tokens point the same way, up to the residual's last bit */
        if (truth == 0 && fabs(value) < 1e-12 * found->relative_residual) continue;
        print_error("%lldx%lld, e = %lld: %s is %.17g, should be %.17g (%.2g)\n",
                    (long long)json_integer_value(json_object_get(c, "n")),
                    (long long)json_integer_value(json_object_get(c, "d")),
                    (long long)json_integer_value(json_object_get(c, "e")), fields[i].name, value,
                    truth, fabs(value - truth) / size);
        wrong++;
    }
    return wrong;
}

static void agrees_with_definitions(void **state)
{
    (void)state;
    char path[512];
    int wrong = 0;
    snprintf(path, sizeof path, "%s/residual_measures.json", RS_TEST_DATA);
    json_t *cases = json_load_file(path, 0, NULL);
    assert_true(json_array_size(cases) >= 40);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        double *x = numbers_of(json_object_get(c, "x")), *m = numbers_of(json_object_get(c, "m"));
        rs_token_residual sample = {.base = x,
                                    .residual = m,
                                    .exponent = json_integer_value(json_object_get(c, "e")),
                                    .n = json_integer_value(json_object_get(c, "n")),
                                    .d = json_integer_value(json_object_get(c, "d"))};
        rs_token_measures found = measure(&sample, RS_CENTRE_MEAN);
        assert_false(found.at_floor);
        assert_false(found.equal);
        wrong += compare(c, &found);
        free(x);
        free(m);
    }
    json_decref(cases);
    assert_int_equal(wrong, 0);
}

/* Other centres move with the scale: what is measured at 2^0 is 2^e times as much there. */
static void other_centres_scale(void **state)
{
    (void)state;
    static const double x[3] = {4, -2, 1}, zero[3] = {0};
    static const double m[12] = {.75, .5, -.25, -.5, .125, .5, -.125, -.5, .25, -.125, -.125, -.5};
    for (int c = RS_CENTRE_MEDIAN; c <= RS_CENTRE_LP; c++) {
        rs_token_residual here = {.base = zero, .residual = m, .exponent = 0, .n = 4, .d = 3};
        rs_token_residual there = {.base = x, .residual = m, .exponent = -700, .n = 4, .d = 3};
        rs_token_measures a = measure(&here, (rs_centre)c), b = measure(&there, (rs_centre)c);
        assert_true(fabs(ldexp(a.residual_1inf, -700) / b.residual_1inf - 1) < 1e-14);
        assert_true(fabs(b.log10_residual_1inf - log10(a.residual_1inf) + 700 * log10(2)) < 1e-12);
    }
}

/* n tokens of two features, at s = 0 and without rounding. */
static rs_token_residual tokens(const double *base, const double *m, int64_t exponent, int64_t n)
{
    return (rs_token_residual){.base = base, .residual = m, .exponent = exponent, .n = n, .d = 2};
}

static rs_token_measures of(rs_token_residual x)
{
    return measure(&x, RS_CENTRE_MEAN);
}

/* Nothing shared, nothing apart, nothing counted, one token, NaN. */
static void corners(void **state)
{
    (void)state;
    static const double zero[2] = {0}, x[2] = {3, 4}, bad[2] = {NAN, 1};
    static const double m[4] = {.5, -.75, -.5, .75}, none[4] = {0};
    rs_token_measures r = of(tokens(zero, m, -50, 2));
    assert_true(r.relative_residual == 1 && r.mean_cosine == -1 && r.rank1_residual < 1e-15);
    assert_true(fabs(r.norm_fro / ldexp(sqrt(2 * .8125), -50) - 1) < 1e-15);
    assert_true(fabs(r.log10_residual_fro - log10(r.norm_fro)) < 1e-14);
    assert_true(r.log10_relative_residual == 0);
    /* the base too may be below every double: what is beside it is not known */
    r = of(tokens(zero, m, -5000, 2));
    assert_true(isnan(r.relative_residual) && isnan(r.log10_relative_residual) && r.norm_fro == 0);
    assert_true(fabs(r.log10_residual_fro + 5000 * log10(2) - log10(sqrt(2 * .8125))) < 1e-9);
    r = of(tokens(x, none, 0, 2));
    assert_true(r.equal && !r.beyond && r.residual_fro == 0 && r.relative_residual == 0);
    assert_true(isnan(r.log10_residual_fro) && r.norm_fro == sqrt(50) && r.diameter == 0);
    assert_true(r.effective_rank == 1 && r.numerical_rank == 1 && isnan(r.log10_one_minus_cosine));
    r = of(tokens(zero, none, 0, 2));
    assert_true(r.equal && r.norm_fro == 0 && isnan(r.relative_residual));
    r = of(tokens(x, m, RS_EXPONENT_LEAST, 2));
    assert_true(r.beyond && !r.equal && r.residual_fro == 0 && isnan(r.log10_relative_residual));
    assert_true(isnan(r.log10_one_minus_cosine) && r.mean_cosine == 1);
    r = of(tokens(x, none, 0, 1));
    assert_true(r.equal && isnan(r.mean_cosine) && r.norm_fro == 5);
    r = of(tokens(bad, none, 0, 1));
    assert_true(r.first_nonfinite == 0 && isnan(r.relative_residual));
}

/* A scale of X moves what has its size, by its logarithm beyond the doubles, and nothing else. */
static void scales(void **state)
{
    (void)state;
    static const double x[2] = {.75, -.5}, zero[2] = {0};
    static const double m[8] = {.5, -.75, -.25, .75, -.5, .25, .25, -.25};
    static const int64_t exponents[] = {0, -3, -40, -4000}, by[] = {-3, 700, 5000, -5000};
    for (int bare = 0; bare < 2; bare++)
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 4; k++) {
                rs_token_residual here = tokens(bare ? zero : x, m, bare ? 0 : exponents[i], 4);
                rs_token_residual there = here;
                there.scale = by[k];
                rs_token_measures a = of(here), b = of(there);
                double up = (double)by[k] * log10(2);
                assert_true(a.relative_residual == b.relative_residual);
                assert_true(a.mean_cosine == b.mean_cosine && a.effective_rank == b.effective_rank);
                assert_true(a.row_normalised_mu == b.row_normalised_mu);
                assert_true(fabs(b.log10_norm_fro - log10(a.norm_fro) - up) < 1e-11);
                assert_true(fabs(b.log10_residual_fro - a.log10_residual_fro - up) < 1e-11);
                assert_true(fabs(b.log10_diameter - a.log10_diameter - up) < 1e-11);
                assert_true(b.norm_fro == ldexp(a.norm_fro, (int)by[k]));
                assert_true(a.log10_relative_residual == b.log10_relative_residual);
            }
}

/* A residual of which an eighth may be rounding is at the floor, and one of 0 is none that equal
 * tokens prove. */
static void floors(void **state)
{
    (void)state;
    static const double x[2] = {3, 4}, none[4] = {0}, m[4] = {.5, -.75, -.5, .75};
    rs_token_residual some = tokens(x, m, -50, 2), nothing = tokens(x, none, 0, 2);
    assert_false(of(some).at_floor);
    some.rounding = 0.12;
    assert_false(of(some).at_floor);
    some.rounding = 0.13;
    assert_true(of(some).at_floor);
    assert_true(of(nothing).equal);
    nothing.rounding = 1;
    assert_true(of(nothing).at_floor && !of(nothing).equal);
}

/* A row of zeros is the sample's rounding here: it has no direction, as where it is exactly 0. */
static void rounded_zero_rows(void **state)
{
    (void)state;
    static const double third[2] = {1. / 3, -2. / 3};
    double m[8] = {.5, .25, -.25, .5, -1. / 3, 2. / 3, 0, 0};
    for (int k = 0; k < 2; k++)
        m[6 + k] = -m[k] - m[2 + k] - m[4 + k];
    m[4] += 3 * 0x1p-53;
    m[5] -= 0x1p-52;
    rs_token_measures found = of(tokens(third, m, 0, 4));
    double plain[8];
    for (int i = 0; i < 8; i++)
        plain[i] = i / 2 == 2 ? 0 : third[i % 2] + m[i];
    void *room = malloc(rs_token_workspace(4, 2, &options));
    rs_token_measures exact;
    rs_error err;
    assert_int_equal(rs_token_measure_f64(&exact, plain, 4, 2, 2, &options, room, &err), RS_OK);
    free(room);
    assert_true(fabs(found.mean_cosine - exact.mean_cosine) < 1e-14);
    assert_true(fabs(found.one_minus_cosine - exact.one_minus_cosine) < 1e-14);
    assert_true(fabs(found.row_normalised_mu - exact.row_normalised_mu) < 1e-14);
    assert_true(fabs(found.relative_residual - exact.relative_residual) < 1e-14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_definitions),
                                       cmocka_unit_test(other_centres_scale),
                                       cmocka_unit_test(scales),
                                       cmocka_unit_test(rounded_zero_rows),
                                       cmocka_unit_test(floors),
                                       cmocka_unit_test(corners)};
    return cmocka_run_group_tests_name("token_residual", tests, NULL, NULL);
}
