/* test_graph_residual.c: residuals about multiples of a vector of the tokens (RS_CENTRE_GRAPH) against
 * sums in long double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "property.h"

#include "measures/token_measures.h"

#include <float.h>

enum { TOKENS = 32, WIDTH = 9 };

/* What the definitions give. */
typedef struct sums {
    long double fro, composite, norm;
} sums;

static sums by_definition(const double *x, const double *u, int64_t n, int64_t d)
{
    long double square = 0, c[WIDTH] = {0}, rows = 0, columns[WIDTH] = {0}, column = 0;
    sums out = {0, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        square += (long double)u[i] * u[i];
        for (int64_t k = 0; k < d; k++)
            c[k] += (long double)u[i] * x[i * d + k];
    }
    for (int64_t i = 0; i < n; i++) {
        long double row = 0;
        for (int64_t k = 0; k < d; k++) {
            long double rest = x[i * d + k] - u[i] * c[k] / square;
            out.fro += rest * rest;
            out.norm += (long double)x[i * d + k] * x[i * d + k];
            row += fabsl(rest);
            columns[k] += fabsl(rest);
        }
        rows = fmaxl(rows, row);
    }
    for (int64_t k = 0; k < d; k++)
        column = fmaxl(column, columns[k]);
    out.fro = sqrtl(out.fro);
    out.norm = sqrtl(out.norm);
    out.composite = sqrtl(rows) * sqrtl(column);
    return out;
}

static rs_token_measures measure(const double *x, const double *u, int64_t n, int64_t d,
                                 rs_centre centre)
{
    rs_token_options options = {.centre = centre, .epsilon = DBL_EPSILON / 2, .right = u};
    void *workspace = malloc(rs_token_workspace(n, d, &options) + 64);
    rs_token_measures got;
    rs_error err;
    assert_int_equal(rs_token_measure_f64(&got, x, n, d, d, &options, workspace, &err), RS_OK);
    free(workspace);
    return got;
}

/* At every scale of doubles, down to states that are u c but for the last bits. */
static void drawn_states(void **state)
{
    (void)state;
    for (int t = property_start(400, 77); property_next(&t);) {
        rs_random random = property_random();
        int64_t n = 1 + (int64_t)(rs_random_uniform(&random) * 20), d = 1 + t % WIDTH;
        double u[TOKENS], x[TOKENS * WIDTH], apart = pow(10, -14 * rs_random_uniform(&random));
        double scale = pow(10, 240 * rs_random_uniform(&random) - 120);
        for (int64_t i = 0; i < n; i++)
            u[i] = i && rs_random_uniform(&random) < 0.2
                       ? 0
                       : sqrt(1 + floor(5 * rs_random_uniform(&random)));
        for (int64_t k = 0; k < d; k++) {
            double c = rs_random_normal(&random);
            for (int64_t i = 0; i < n; i++)
                x[i * d + k] = scale * (u[i] * c + apart * rs_random_normal(&random));
        }
        sums want = by_definition(x, u, n, d);
        rs_token_measures got = measure(x, u, n, d, RS_CENTRE_GRAPH);
        double rounding = 8 * DBL_EPSILON * (double)want.norm;
        assert_true(fabs(got.residual_fro - (double)want.fro) <= rounding);
        assert_true(fabs(got.relative_residual - (double)(want.fro / want.norm)) <=
                    8 * DBL_EPSILON);
        assert_true(fabs(got.residual_1inf - (double)want.composite) <= 4 * rounding);
        property_worst(got.relative_residual);
        for (int64_t i = 0; i < n; i++)
            u[i] = 1.7; /* with equal entries it is the mean's */
        rs_token_measures own = measure(x, u, n, d, RS_CENTRE_GRAPH);
        rs_token_measures mean = measure(x, NULL, n, d, RS_CENTRE_MEAN);
        assert_true(fabs(own.relative_residual - mean.relative_residual) <= 8 * DBL_EPSILON);
        assert_true(own.diameter == mean.diameter);
        assert_true(own.row_normalised_mu == mean.row_normalised_mu);
    }
    property_holds(1 + 4 * DBL_EPSILON);
}

/* Multiples of u themselves leave rounding, and that is marked. */
static void multiples_are_at_the_floor(void **state)
{
    (void)state;
    const double u[] = {sqrt(12), sqrt(2), sqrt(2), sqrt(3)}, c[] = {0.3, -1.7};
    double x[8];
    for (int i = 0; i < 8; i++)
        x[i] = u[i / 2] * c[i % 2];
    rs_token_measures own = measure(x, u, 4, 2, RS_CENTRE_GRAPH);
    rs_token_measures mean = measure(x, NULL, 4, 2, RS_CENTRE_MEAN);
    assert_true(own.at_floor && own.relative_residual < 1e-15);
    assert_true(!mean.at_floor && mean.relative_residual > 0.3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_states),
        cmocka_unit_test(multiples_are_at_the_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
