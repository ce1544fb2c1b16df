/* test_lambda_depth.c: what stays of the tokens behind a whole stack of branches (L29), against
 * closed forms and, on random and hill-climbed instances, long double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lambda_properties.h"
#include "lambda_support.h"
#include "proof/lambda_depth.h"

/* ---- L29: a stack of branches ---- */

/* Unit rows of the direction in which X, at the angle asin ρ from equal rows, gets closest to them
 * when it is moved by t of its length: sin(α − β) M − cos(α − β) D, M and D its mean part and its
 * differences over their lengths, sin α = ρ, sin β = t. */
static void push_together(real *push, const double *x, int n, int d, real reach)
{
    real mean[MAX_D] = {0}, mean_size = 0, spread = 0, size = 0;
    for (int j = 0; j < d; j++) {
        for (int i = 0; i < n; i++)
            mean[j] += (real)x[i * d + j] / n;
        mean_size += n * mean[j] * mean[j];
        for (int i = 0; i < n; i++)
            spread += ((real)x[i * d + j] - mean[j]) * ((real)x[i * d + j] - mean[j]);
    }
    mean_size = sqrtl(mean_size), spread = sqrtl(spread), size = hypotl(mean_size, spread);
    real turned = atan2l(spread, mean_size) - asinl(fminl(1, reach / size));
    for (int i = 0; i < n; i++) {
        real square = 0;
        for (int j = 0; j < d; j++) {
            real *p = &push[i * d + j];
            *p = sinl(turned) * mean[j] / (mean_size + 1e-30L) -
                 cosl(turned) * ((real)x[i * d + j] - mean[j]) / (spread + 1e-30L);
            square += *p * *p;
        }
        for (int j = 0; j < d; j++)
            push[i * d + j] /= sqrtl(square) + 1e-30L;
    }
}

static double depth_ratio(trial *t)
{
    enum { MOST = 5 };
    made_layer m;
    make_layer(&m, t, false);
    int n = t->n, d = t->d;
    int64_t branches = 1 + (int64_t)take_between(t, 0, MOST - 1e-6);
    double gain[MOST], skip[MOST], reach[MOST + 1];
    double sizes = take_scale(t, 1e-3, 1);
    for (int k = 0; k < branches; k++) {
        gain[k] = sizes * take_scale(t, 1e-2, 10);
        skip[k] = take_scale(t, 0.2, 20) * (take(t) > 0 ? 1 : -1);
    }
    const rs_lambda_stack stack = {gain, skip, branches};
    rs_lambda_entering in;
    rs_lambda_depth_reach(reach, &stack);
    if (rs_lambda_entering_of(&in, m.x, n, d, d, &err) != RS_OK) return NAN;
    rs_lambda_left left = rs_lambda_depth_left(reach[branches], &in);
    if (!(left.relative > 0) || in.relative - left.relative < 1e-6) return NAN;
    real push[MAX_N * MAX_D], h[MAX_N * MAX_D], sign = 1, square = 0;
    real stray = take(t) > 1 ? (real)take(t) : 0, root = sqrtl((real)d) * (1 - 1e-15L);
    push_together(push, m.x, n, d, (real)reach[branches] * sqrtl((real)(n * d)));
    for (int k = 0; k < n * d; k++)
        h[k] = (real)m.x[k];
    for (int k = 0; k < branches; k++) {
        sign *= skip[k] < 0 ? -1 : 1;
        for (int i = 0; i < n; i++) {
            real o[MAX_D], length = 0;
            for (int j = 0; j < d; j++) {
                o[j] = push[i * d + j] + stray * (real)take(t);
                length += o[j] * o[j];
            }
            for (int j = 0; j < d; j++)
                h[i * d + j] =
                    (real)skip[k] * h[i * d + j] +
                    (length > 0 ? sign * (real)gain[k] * root * o[j] / sqrtl(length) : 0);
        }
    }
    for (int k = 0; k < n * d; k++)
        square += h[k] * h[k];
    real after = mu_of(h, n, d) / sqrtl(square), before = (real)in.relative;
    return (double)((before - after) / (before - (real)left.relative)) - 1e-11;
}

/* The half line keeps what it was asked for at its beginning, and less a little before it. */
static void a_half_line_begins_where_its_bound_is_met(void **state)
{
    (void)state;
    for (int t = property_start(400, 2806); property_next(&t);) {
        rs_random random = property_random();
        enum { BRANCHES = 4, SAMPLES = 3 };
        double gain[BRANCHES], skip[BRANCHES], reach[BRANCHES + 1], x[6 * SAMPLES];
        bool swept[BRANCHES];
        rs_lambda_entering in[SAMPLES];
        for (int k = 0; k < BRANCHES; k++) {
            gain[k] = exp(rs_random_normal(&random));
            skip[k] = 1 + fabs(rs_random_normal(&random));
            swept[k] = k == 0 || rs_random_normal(&random) > 0;
        }
        for (int k = 0; k < 6 * SAMPLES; k++)
            x[k] = rs_random_normal(&random) + (k % 2);
        for (int s = 0; s < SAMPLES; s++)
            OK(rs_lambda_entering_of(&in[s], x + 6 * s, 3, 2, 2, &err));
        const rs_lambda_stack stack = {gain, skip, BRANCHES};
        const rs_lambda_depth_wish wish = {swept, in, SAMPLES, 0.9};
        double from = rs_lambda_depth_demand(&stack, &wish), before = 1;
        assert_true(isfinite(from));
        for (int step = 0; step < 4; step++) {
            double factors[] = {1 - 1e-9, 1, 1.5, 1e6}, least = 1;
            for (int k = 0; k < BRANCHES; k++)
                if (swept[k]) skip[k] = (k % 2 ? -1 : 1) * from * factors[step];
            rs_lambda_depth_reach(reach, &stack);
            for (int s = 0; s < SAMPLES; s++)
                least = fmin(least, rs_lambda_depth_left(reach[BRANCHES], &in[s]).kept);
            if (step == 0)
                assert_true(least < wish.kept);
            else
                assert_true(least >= wish.kept && (step == 1 || least >= before));
            before = least;
        }
    }
}

/* Angles: ρ = sin(π/6) and t = sin(π/12) leave sin(π/12); what undoes all of it leaves 0. */
static void stacks_have_their_closed_forms(void **state)
{
    (void)state;
    const double gain[] = {0.25, 0.25, 0}, skip[] = {2, -0.5, 0}, wide[] = {1e200, 1e200, 1e-300};
    double reach[4];
    rs_lambda_depth_reach(reach, &(rs_lambda_stack){gain, skip, 3});
    is_near("first", reach[1], 0.125, 1e-15);
    is_near("second", reach[2], 0.375, 1e-15); /* |2 · −½| = 1 */
    is_near("a branch that adds nothing", reach[3], 0.375, 1e-15);
    rs_lambda_depth_reach(reach, &(rs_lambda_stack){gain, wide, 2});
    assert_true(reach[2] > 0 && reach[2] < 1e-200); /* |λ| beyond the doubles */
    const rs_lambda_entering in = {0.5, 2};
    double turn = 2 * sin(0.26179938779914943654);
    is_near("turned by half", rs_lambda_depth_left(turn, &in).relative, turn / 2, 1e-13);
    is_near("share", rs_lambda_depth_left(turn, &in).kept, turn, 1e-13);
    is_near("nothing moves", rs_lambda_depth_left(0, &in).kept, 1, 1e-14);
    assert_true(rs_lambda_depth_left(1, &in).relative == 0);
    assert_true(rs_lambda_depth_left(INFINITY, &in).kept == 0); /* behind λ = 0 */
    const double equal[] = {1, 2, 1, 2}, apart[] = {3e-200, 0, -3e-200, 0};
    rs_lambda_entering of;
    OK(rs_lambda_entering_of(&of, equal, 2, 2, 2, &err));
    assert_true(of.relative == 0 && isnan(rs_lambda_depth_left(0, &of).kept));
    is_near("size", of.size, sqrt(2.5), 1e-14);
    OK(rs_lambda_entering_of(&of, apart, 2, 2, 2, &err));
    is_near("all of it differs", of.relative, 1, 1e-14);
    is_near("small", of.size, 3e-200 / sqrt(2), 1e-14);
    const bool none[] = {false, false, false};
    const rs_lambda_depth_wish wish = {none, &in, 1, 0.9};
    assert_true(isinf(rs_lambda_depth_demand(&(rs_lambda_stack){gain, skip, 3}, &wish)));
}

static const property properties[] = {
    {"L29 stack of branches", depth_ratio, 360, 450, 0.999, RS_LAMBDA_DEPTH, 0.95},
};
enum { PROPERTIES = sizeof properties / sizeof properties[0] };

static void no_certified_inequality_is_violated(void **state)
{
    (void)state;
    no_property_is_violated(properties, PROPERTIES);
}

static void a_constant_off_by_five_per_cent_is_found_out(void **state)
{
    (void)state;
    each_wrong_constant_is_found_out(properties, PROPERTIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_certified_inequality_is_violated),
        cmocka_unit_test(a_constant_off_by_five_per_cent_is_found_out),
        cmocka_unit_test(a_half_line_begins_where_its_bound_is_met),
        cmocka_unit_test(stacks_have_their_closed_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
