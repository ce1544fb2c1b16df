/*
 * test_residual.c: the residual precision on networks drawn at random: it agrees with float64 where
 * float64 has digits, equal tokens stay exactly equal, threads change nothing, memory may fail; and
 * its pure functions at their corners. Its digits where float64 has none are
 * test_residual_golden.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "residual_support.h"

/* All numbers that a pass tells, one behind the other. */
typedef struct told {
    kept_numbers kept;
    bool settled; /* every residual is centred and in [1/2, 1), or 0 */
    bool equal;   /* every residual is 0 */
    int64_t least;
} told;

static void check_sample(told *t, const rs_state_view *view, int32_t s)
{
    int64_t first = view->batch->begin[s], n = view->batch->begin[s + 1] - first, d = view->cols;
    const double *m = view->residual + first * d;
    double most = 0;
    if (n == 0) return;
    for (int64_t k = 0; k < d; k++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += m[i * d + k];
        t->settled &= fabs(sum) < 1e-15 * (double)(n * n);
    }
    for (int64_t i = 0; i < n * d; i++)
        most = fmax(most, fabs(m[i]));
    t->settled &= most == 0 || (most >= .5 && most < 1);
    t->equal &= most == 0;
    if (view->exponent[s] < t->least) t->least = view->exponent[s];
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    (void)site, (void)layer, (void)err;
    told *t = user;
    keep_numbers(&t->kept, view->data, view->rows * view->cols);
    for (int32_t s = 0; s < view->batch->samples && view->base; s++)
        check_sample(t, view, s);
    return RS_OK;
}

static rs_status on_logits(void *user, int64_t first, const rs_state_view *view, rs_error *err)
{
    (void)first, (void)err;
    keep_numbers(&((told *)user)->kept, view->data, view->rows * view->cols);
    return RS_OK;
}

static rs_status pass(told *t, const built *b, rs_precision precision, int threads, bool attention,
                      rs_error *err)
{
    rs_tap tap = {.user = t,
                  .sites = 1u << RS_SITE_BLOCK_OUT | 1u << RS_SITE_MIXER_OUT | 1u << RS_SITE_FINAL,
                  .state = on_state,
                  .wants_logits = attention,
                  .attention = attention ? keep_matrix : NULL,
                  .logits = b->network.head.decoder.weight ? on_logits : NULL};
    t->kept.n = 0, t->settled = t->equal = true, t->least = 0;
    return pass_with(&tap, b, precision, threads, err);
}

static told first, second;

static void run(told *t, const built *b, rs_precision precision, int threads, bool attention)
{
    rs_error err;
    if (pass(t, b, precision, threads, attention, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
}

/* A residual that is not small costs float64 no digits either. */
static void agrees_with_float64(void **state)
{
    (void)state;
    double worst = 0;
    for (int t = property_start(400, 1); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = built_new(seed, LONGEST);
        run(&first, b, RS_PRECISION_F64, 1, true);
        run(&second, b, RS_PRECISION_RESIDUAL, 1, true);
        assert_true(second.settled);
        assert_int_equal(first.kept.n, second.kept.n);
        for (size_t i = 0; i < first.kept.n; i++) {
            double error = fabs(first.kept.values[i] - second.kept.values[i]) /
                           fmax(first.kept.sizes[i], 1e-3);
            worst = fmax(worst, error);
            if (!(error < 1e-9))
                fail_msg("%.17g and %.17g", first.kept.values[i], second.kept.values[i]);
        }
        built_free(b);
    }
    if (getenv("RS_SHOW")) print_message("worst %.2g\n", worst);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    for (int t = property_start(40, 500); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = built_new(seed, LONGEST);
        run(&first, b, RS_PRECISION_RESIDUAL, 1, false);
        run(&second, b, RS_PRECISION_RESIDUAL, 3, false);
        assert_same_numbers(&first.kept, &second.kept);
        built_free(b);
    }
}

/* One token repeated, and one token: whatever the network, equal tokens leave it equal. Positions
 * of the keys that cross-attention reads are the only thing that can tell queries apart. */
static void equal_tokens_stay_equal(void **state)
{
    (void)state;
    for (int t = property_start(100, 600); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = built_new(seed, LONGEST);
        int64_t d = b->network.d_model, rows = b->begin[b->batch.samples];
        if (!b->images && !b->memory) {
            free(b->states);
            b->states = malloc((size_t)(rows * d + 1) * sizeof *b->states);
            for (int64_t i = 0; i < rows * d; i++)
                b->states[i] = sin(1 + (double)(i % d));
            b->batch.states = b->states;
            run(&first, b, RS_PRECISION_RESIDUAL, 1, seed % 2);
            assert_true(first.equal);
        }
        built_free(b);
    }
}

static void survives_lack_of_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 800; seed < 808; seed++) {
        built *b = built_new(seed, LONGEST);
        rs_error err;
        run(&first, b, RS_PRECISION_RESIDUAL, 1, true);
        for (int64_t n = 1;; n++) {
            rs_memory_fail_at(n);
            rs_status status = pass(&second, b, RS_PRECISION_RESIDUAL, 1, true, &err);
            rs_memory_fail_at(0);
            if (status == RS_OK) break;
            assert_int_equal(status, RS_E_NO_MEMORY);
            assert_true(n < 200);
        }
        assert_same_numbers(&first.kept, &second.kept);
        built_free(b);
    }
}

/* Weights that are no numbers, give states that are none; huge ones stay numbers;
 * nothing crashes. */
static void carries_what_is_no_number(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, 1e300};
    for (int t = property_start(60, 900); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = built_new(seed, LONGEST);
        int64_t rows = b->begin[b->batch.samples], d = b->network.d_model, count = rows * d;
        if (!b->images && rows > 0) {
            free(b->states);
            b->states = malloc((size_t)count * sizeof *b->states);
            for (int64_t i = 0; i < count; i++)
                b->states[i] = i == count / 2 || seed % 5 == 0 ? bad[seed % 3] : 1;
            b->batch.states = b->states;
            run(&second, b, RS_PRECISION_RESIDUAL, 1, seed % 2);
            bool finite = true;
            for (size_t i = 0; i < (size_t)count; i++)
                finite &= isfinite(second.kept.values[i]);
            assert_true(finite == (seed % 3 == 2));
        }
        built_free(b);
    }
}

/* ---- below what is counted ---- */

static void stops_counting(void **state)
{
    (void)state;
    built *b = chain_new(bare_attention_of, 60, 1);
    run(&first, b, RS_PRECISION_RESIDUAL, 1, true);
    assert_true(first.least == RS_EXPONENT_LEAST && first.settled && !first.equal);
    /* and a norm, an MLP and a skip of a residual beyond */
    for (int32_t l = 55; l < 60; l++) {
        rs_branch *mixer = &b->network.layers[l].branches[0];
        mixer->skip = -1e300;
        mixer->after = (rs_norm_op){.kind = RS_NORM_LAYERNORM, .dim = 4, .eps = 1e-12};
        mixer->before = mixer->after;
    }
    run(&first, b, RS_PRECISION_RESIDUAL, 1, true);
    assert_true(first.settled && !first.equal);
    chain_free(b);
}

/* ---- pure functions ---- */

static double plain_act(double x, rs_activation a)
{
    double value, slope;
    rs_act_values(&value, &slope, &x, 1, a);
    return value;
}

/* act(y + d) - act(y) in long double, from the definitions. */
static long double true_act(long double x, rs_activation a)
{
    long double u = 0.797884560802865355879892119868763737L * (x + 0.044715L * x * x * x);
    switch (a) {
    case RS_ACT_RELU:
        return x > 0 ? x : 0;
    case RS_ACT_GELU:
        return 0.5L * x * erfcl(-x * 0.707106781186547524400844362104849039L);
    case RS_ACT_GELU_TANH:
        return x / (1 + expl(-2 * u));
    case RS_ACT_QUICK_GELU:
        return x / (1 + expl(-1.702L * x));
    case RS_ACT_SILU:
        return x / (1 + expl(-x));
    case RS_ACT_TANH:
        return tanhl(x);
    case RS_ACT_RELU2:
        return x > 0 ? x * x : 0;
    case RS_ACT_SIN:
        return sinl(x);
    case RS_ACT_SIGMOID:
        return 1 / (1 + expl(-x));
    default:
        return x;
    }
}

static void differences_of_activations(void **state)
{
    (void)state;
    for (int a = 0; a < RS_ACT_COUNT; a++)
        for (double y = -9; y <= 9; y += 0.37)
            for (double d = 1e-4; d < 10; d *= 1.7)
                for (int sign = -1; sign <= 1; sign += 2) {
                    rs_activation act = (rs_activation)a;
                    double value, slope, found, dy = sign * d;
                    rs_act_values(&value, &slope, &y, 1, act);
                    assert_true(fabsl((long double)value - true_act(y, act)) <
                                4e-16L * (1 + fabsl(true_act(y, act))));
                    rs_act_base base = {&y, &value, &slope};
                    for (int e = 0; e >= -20; e -= 20) {
                        double up = ldexp(dy, -e);
                        rs_act_difference(&found, &up, &base, 1, e, act);
                        long double truth =
                            true_act((long double)y + (long double)dy, act) - true_act(y, act);
                        /* a share of the steepest slope times d, and long double's own rounding */
                        long double bound = 2e-15L * (long double)d * (1 + fabsl((long double)y)) +
                                            2e-19L * (1 + (long double)(y * y));
                        if (fabsl((long double)ldexp(found, e) - truth) > bound)
                            fail_msg("%s(%g + %g): %.17g, not %.17Lg", rs_activation_name(act), y,
                                     dy, ldexp(found, e), truth);
                    }
                }
}

/* Where 2^e is nothing beside y the slope is left; max(0, y) knows its corner at any size. */
static void differences_far_below(void **state)
{
    (void)state;
    static const double y[4] = {0.3, -0.3, 0, 1e-200}, dy[4] = {0.5, 0.5, -0.5, -0.9};
    double value[4], slope[4], found[4];
    static const int64_t far[] = {-100, -1074, -4000, RS_EXPONENT_LEAST};
    for (int a = 0; a < RS_ACT_COUNT; a++) {
        rs_act_values(value, slope, y, 4, (rs_activation)a);
        for (int k = 0; k < 4; k++)
            assert_true(value[k] == plain_act(y[k], (rs_activation)a));
        rs_act_base base = {y, value, slope};
        for (int i = 0; i < 4; i++) {
            rs_act_difference(found, dy, &base, 2, far[i], (rs_activation)a);
            assert_true(found[0] == slope[0] * dy[0] && found[1] == slope[1] * dy[1]);
        }
    }
    rs_act_values(value, slope, y, 4, RS_ACT_RELU);
    rs_act_base base = {y, value, slope};
    rs_act_difference(found, dy, &base, 4, -4000, RS_ACT_RELU);
    assert_true(found[2] == 0 && found[3] == -0.9);
    rs_act_difference(found, dy, &base, 4, -666, RS_ACT_RELU); /* 0.9 2^-666 < 1e-200 */
    assert_true(found[3] == -0.9 && found[0] == 0.5 && found[1] == 0);
    rs_act_difference(found, dy, &base, 4, -100, RS_ACT_RELU);
    assert_true(found[3] == -ldexp(1e-200, 100));
}

static void norms_and_sums(void **state)
{
    (void)state;
    double x[2] = {0, 0}, m[6] = {.5, -.25, .25, .5, -.75, -.25}, scratch[4];
    int64_t e = -100000;
    rs_residual r = {.x = x, .m = m, .e = &e, .n = 3, .d = 2};
    rs_norm_op op = {.kind = RS_NORM_RMSNORM, .dim = 2};
    /* nothing shared and eps 0: the direction is all there is */
    rs_residual_norm(&r, &op, NULL, NULL, scratch);
    rs_residual_settle(&r, scratch);
    double row[6];
    rs_residual_plain(row, &r, 0);
    assert_true(fabs(row[0] - sqrt(2) * .5 / sqrt(.3125)) < 1e-15 && e < 3);
    /* λ of any size: the products never leave the range */
    double bx[2] = {1, 2}, bm[4] = {.5, .75, -.5, -.75}, cx[2] = {3, 4}, cm[4] = {.5, 0, -.5, 0};
    int64_t be = -3, ce = -5000;
    rs_residual b = {.x = bx, .m = bm, .e = &be, .n = 2, .d = 2};
    rs_residual c = {.x = cx, .m = cm, .e = &ce, .n = 2, .d = 2};
    rs_residual_combine(&b, &c, 0, -1e300);
    rs_residual_settle(&b, scratch);
    assert_true(bx[0] == -3e300 && be == -5000 + 996 && bm[0] == -.5 * ldexp(1e300, -996));
    rs_residual_combine(&b, NULL, 0, 1);
    assert_true(rs_all_zero(bm, 4) && rs_all_zero(bx, 2) && be == 0);
    double zero[4] = {0}, dx[2] = {1, 1};
    int64_t de = 0;
    rs_residual d = {.x = dx, .m = zero, .e = &de, .n = 2, .d = 2};
    rs_residual_combine(&d, &c, 1, 1); /* equal tokens plus others */
    rs_residual_settle(&d, scratch);
    assert_true(de == -5000 && zero[0] == .5 && dx[0] == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_float64),
                                       cmocka_unit_test(threads_change_nothing),
                                       cmocka_unit_test(equal_tokens_stay_equal),
                                       cmocka_unit_test(survives_lack_of_memory),
                                       cmocka_unit_test(carries_what_is_no_number),
                                       cmocka_unit_test(stops_counting),
                                       cmocka_unit_test(differences_of_activations),
                                       cmocka_unit_test(differences_far_below),
                                       cmocka_unit_test(norms_and_sums)};
    return cmocka_run_group_tests_name("residual", tests, NULL, NULL);
}
