/*
 * test_san_batch.c: many small attention networks. Oracle: the same map in long double by its
 * definition, with libm's exponential.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/random.h"
#include "engine/san_batch.h"
#include "engine/san_kernels.h"
#include "property.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* x [n, d] through one layer of weights [4, d, d]. */
static void layer(long double *x, const double *weights, const rs_san_batch *b)
{
    int64_t n = b->n, d = b->d, width = d / b->heads;
    long double *parts[3], *mixed = calloc((size_t)(n * d), sizeof *mixed);
    for (int m = 0; m < 3; m++) {
        parts[m] = calloc((size_t)(n * d), sizeof **parts);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < d; j++)
                for (int64_t k = 0; k < d; k++)
                    parts[m][i * d + j] += x[i * d + k] * weights[(m * d + k) * d + j];
    }
    for (int64_t h = 0; h < b->heads; h++)
        for (int64_t i = 0; i < n; i++) {
            long double logits[64], top = -INFINITY, sum = 0;
            for (int64_t j = 0; j < n; j++) {
                logits[j] = 0;
                for (int64_t k = h * width; k < (h + 1) * width; k++)
                    logits[j] += parts[0][i * d + k] * parts[1][j * d + k];
                logits[j] /= sqrtl((long double)width);
                top = fmaxl(top, logits[j]);
            }
            for (int64_t j = 0; j < n; j++)
                sum += logits[j] = expl(logits[j] - top);
            for (int64_t k = h * width; k < (h + 1) * width; k++)
                for (int64_t j = 0; j < n; j++)
                    mixed[i * d + k] += logits[j] / sum * parts[2][j * d + k];
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++) {
            long double out = (long double)b->skip * x[i * d + j];
            for (int64_t k = 0; k < d; k++)
                out += mixed[i * d + k] * weights[(3 * d + k) * d + j];
            parts[0][i * d + j] = out;
        }
    memcpy(x, parts[0], (size_t)(n * d) * sizeof *x);
    for (int m = 0; m < 3; m++)
        free(parts[m]);
    free(mixed);
}

static void residual_of(double *residual, double *norm, const long double *x, int64_t n, int64_t d)
{
    long double apart = 0, all = 0;
    for (int64_t k = 0; k < d; k++) {
        long double mean = 0;
        for (int64_t i = 0; i < n; i++)
            mean += x[i * d + k] / (long double)n;
        for (int64_t i = 0; i < n; i++) {
            apart += (x[i * d + k] - mean) * (x[i * d + k] - mean);
            all += x[i * d + k] * x[i * d + k];
        }
    }
    *residual = (double)sqrtl(apart);
    *norm = (double)sqrtl(all);
}

static double *normals(int64_t n, double factor, rs_random *random)
{
    double *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = factor * rs_random_normal(random);
    return x;
}

static void check_shape(const rs_san_batch *b, double spread, rs_random *random)
{
    rs_context context = {.threads = 2};
    rs_error err;
    int64_t size = b->n * b->d, per = 4 * b->d * b->d, states = b->layers + 1;
    double *weights = normals(b->networks * b->layers * per, spread / sqrt((double)b->d), random);
    double *inputs = normals(b->networks * size, 1, random);
    double *residual = malloc((size_t)(b->networks * states) * sizeof *residual);
    double *norm = malloc((size_t)(b->networks * states) * sizeof *norm);
    double *final = malloc((size_t)(b->networks * size) * sizeof *final);
    long double *x = malloc((size_t)size * sizeof *x);
    assert_int_equal(rs_san_batch_apply(residual, norm, final, weights, inputs, b, &context, &err),
                     RS_OK);
    for (int64_t net = 0; net < b->networks; net++) {
        for (int64_t i = 0; i < size; i++)
            x[i] = inputs[net * size + i];
        for (int64_t l = 0; l < states; l++) {
            double r, m;
            if (l > 0) layer(x, weights + (net * b->layers + l - 1) * per, b);
            residual_of(&r, &m, x, b->n, b->d);
            assert_true(fabs(norm[net * states + l] - m) <= 1e-12 * m);
            assert_true(fabs(residual[net * states + l] - r) <= 1e-12 * m);
        }
        for (int64_t i = 0; i < size; i++)
            assert_true(fabs(final[net * size + i] - (double)x[i]) <=
                        1e-12 * norm[net * states + b->layers]);
    }
    free(weights);
    free(inputs);
    free(residual);
    free(norm);
    free(final);
    free(x);
}

static void agrees_with_its_definition(void **state)
{
    (void)state;
    rs_random random = rs_random_new(7, 1);
    const rs_san_batch shapes[] = {
        {3, 3, 32, 32, 4, 1, 0}, {2, 3, 1, 1, 1, 1, 0},    {2, 2, 5, 3, 3, 1, 0.5},
        {2, 2, 7, 12, 2, 1, 1},  {2, 2, 13, 18, 3, 1, -2}, {3, 0, 4, 4, 2, 1, 0},
        {0, 3, 4, 4, 2, 1, 0},   {1, 2, 33, 40, 5, 1, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_shape(&shapes[i], 1, &random);
        check_shape(&shapes[i], 3, &random); /* sharp attention */
    }
}

enum { C = RS_SAN_COLUMNS };

/* Exponentials, from every table of kernels, against libm. */
static void exponentials_are_accurate(void **state)
{
    (void)state;
    const rs_san_kernels *tables[] = {
        &rs_san_kernels_plain,
#if defined(__x86_64__)
        &rs_san_kernels_avx2,
#endif
    };
    rs_cpu_level level = rs_cpu_vector_level();
    size_t usable =
        level == RS_CPU_AVX2 || level == RS_CPU_AVX512 ? sizeof tables / sizeof *tables : 1;
    for (size_t t = 0; t < usable; t++)
        for (int round = property_start(3000, 3000000); property_next(&round);) {
            rs_random random = property_random();
            double x[7][C], e[7][C], inverse[C];
            int64_t n = 1 + round % 7;
            double spread = round % 3 == 0 ? 1e-3 : round % 3 == 1 ? 10 : 1000;
            for (int64_t i = 0; i < n * C; i++)
                x[i / C][i % C] = e[i / C][i % C] = spread * rs_random_uniform(&random);
            tables[t]->exponentiate(e[0], inverse, n);
            for (int c = 0; c < C; c++) {
                double expected = 0, top = -INFINITY;
                for (int64_t i = 0; i < n; i++)
                    top = fmax(top, x[i][c]);
                for (int64_t i = 0; i < n; i++) {
                    double exact = exp2(x[i][c] - top);
                    expected += exact;
                    assert_true(fabs(e[i][c] - exact) <= 4 * 0x1p-53 * exact);
                }
                assert_true(fabs(1 / inverse[c] - expected) <= 1e-15 * expected);
            }
        }
    double far[4][C] = {{0}, {-1e4}, {-1e300}, {-INFINITY}}, inverse[C];
    rs_san_kernels_plain.exponentiate(far[0], inverse, 4);
    assert_true(far[0][0] == 1 && far[1][0] >= 0 && far[1][0] < 1e-300 && far[2][0] < 1e-300 &&
                far[3][0] < 1e-300 && inverse[0] == 1 && inverse[1] == 0.25);
}

static void a_seed_means_its_networks(void **state)
{
    (void)state;
    rs_san_batch b = {50, 4, 16, 16, 2, 1, 0};
    enum { STATES = 50 * 5 };
    double residual[3][STATES], norm[3][STATES];
    rs_error err;
    for (int run = 0; run < 3; run++) {
        rs_context context = {.threads = run == 1 ? 3 : 1, .seed = run == 2 ? 5 : 4};
        assert_int_equal(rs_san_batch_run(residual[run], norm[run], NULL, &b, &context, &err),
                         RS_OK);
    }
    assert_memory_equal(residual[0], residual[1], sizeof residual[0]);
    assert_memory_equal(norm[0], norm[1], sizeof norm[0]);
    assert_true(residual[0][0] != residual[2][0]);
    /* ‖X^0‖² of 256 N(0, 1): mean 256, standard deviation of the mean over 50 networks 3.2 */
    double mean = 0;
    for (int net = 0; net < 50; net++)
        mean += norm[0][net * 5] * norm[0][net * 5] / 50;
    assert_true(fabs(mean - 256) < 16);
    for (int i = 5; i < STATES; i++)
        assert_true(i % 5 != 4 || residual[0][i] < 1e-3 * norm[0][i]); /* they collapse */
}

static void senseless_sizes_are_refused(void **state)
{
    (void)state;
    const rs_san_batch shapes[] = {{1, 1, 0, 4, 2, 1, 0},    {1, 1, 4, 4, 3, 1, 0},
                                   {1, -1, 4, 4, 2, 1, 0},   {-1, 1, 4, 4, 2, 1, 0},
                                   {1, 1, 4, 4, 0, 1, 0},    {1, 1, 4, 4, 2, NAN, 0},
                                   {1, 1, 5000, 4, 2, 1, 0}, {1, 1, 4, 4, 2, 1, INFINITY}};
    double residual[2], norm[2];
    rs_context context = {.threads = 1};
    rs_error err;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        assert_int_equal(rs_san_batch_run(residual, norm, NULL, &shapes[i], &context, &err),
                         RS_E_CONFIG_SIZE);
    rs_san_batch good = {1, 1, 4, 4, 2, 1, 0};
    rs_memory_fail_at(1);
    assert_int_equal(rs_san_batch_run(residual, norm, NULL, &good, &context, &err), RS_E_NO_MEMORY);
    rs_memory_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_its_definition),
        cmocka_unit_test(exponentials_are_accurate),
        cmocka_unit_test(a_seed_means_its_networks),
        cmocka_unit_test(senseless_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
