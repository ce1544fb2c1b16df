/* test_linear.c: linear attention, S4D and the gated recurrence of the engine against their
 * definitions (docs/theory/ssm.md, 5 to 7), written as plain loops over M_ij. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "linear_builder.h"
#include "mixer_tests.h"

/* ---- vectors ---- */

/* lambda_skip_ssm, 7.2: the kernel of S4D and what it makes of the states before GELU. */
static void s4d_vector(void **state)
{
    (void)state;
    built *b = bare_new(3, 2, 5, RS_BRANCH_S4D);
    rs_s4d_op *op = &b->layers[0].branches[0].s4d;
    rs_tensor *step = generate(b, 0, 2, 0, 0), *w = generate(b, 0, 6, 0, 0);
    rs_tensor *c = generate(b, 0, 12, 0, 0);
    ((double *)(uintptr_t)step->data)[0] = log(0.1);
    ((double *)(uintptr_t)step->data)[1] = log(0.05);
    for (uint32_t i = 0; i < 6; i++) {
        ((double *)(uintptr_t)w->data)[i] = M_PI * (i % 3);
        ((double *)(uintptr_t)c->data)[2 * i] = generated(50, i);
        ((double *)(uintptr_t)c->data)[2 * i + 1] = generated(51, i);
    }
    *op = (rs_s4d_op){.channels = 2, .pairs = 3, .log_step = step, .frequency = w, .c = c};
    op->log_decay = generate(b, 0, 6, 0, log(0.5));
    op->d = generate(b, 52, 2, 1, 0);
    op->o = generated_map(b, 1, 2, 2, 0.5);
    op->gate = generated_map(b, 2, 2, 2, 0.5);
    static const double kernel[2][5] = {
        {-0.145943828891, -0.048829556432, 0.029031626991, 0.059675103683, 0.040730047974},
        {-0.071953325469, -0.043844244093, -0.020500101498, -0.003315818044, 0.006904489583}};
    static const double last[] = {-0.317619822262, -0.493337010485};
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, true);
    for (int i = 0; i < 2; i++) {
        double y = 0, found[5];
        for (int j = 0; j < 5; j++) {
            found[4 - j] = h.matrices[0][0][i][20 + j];
            y += found[4 - j] * b->states[2 * j + i];
        }
        found[0] -= generated(52, (uint32_t)i);
        are(found, kernel[i], 5);
        are(&y, &last[i], 1);
    }
    compare_all(&h, b, ref_mixer, 1e-12, 0);
    heard_free(&h);
    built_free(b);
}

/* ---- laws ---- */

/* One head of width 3 on states of that width: identity values, no output map. */
static built *head_new(const double *states, int64_t n)
{
    built *b = bare_new(4, 3, n, RS_BRANCH_LINEAR);
    b->layers[0].branches[0].linear = (rs_linear_op){.heads = 1,
                                                     .kv_heads = 1,
                                                     .head_dim = 3,
                                                     .value_dim = 3,
                                                     .q = generated_map(b, 1, 3, 3, 1),
                                                     .k = generated_map(b, 2, 3, 3, 1),
                                                     .temperature = 1,
                                                     .causal = true};
    if (states) memcpy(b->states, states, (size_t)(3 * n) * sizeof *states);
    return b;
}

/* lambda_skip_ssm, 3.6: M is quadratic in the tokens, so that M V is of degree 3. */
static void degree_three(void **state)
{
    (void)state;
    built *b = head_new(NULL, 100);
    heard once, scaled;
    run_engine(&once, b, RS_PRECISION_F64, 1, false);
    for (int i = 0; i < 300; i++)
        b->states[i] *= 3;
    run_engine(&scaled, b, RS_PRECISION_F64, 1, false);
    for (int i = 0; i < 300; i++)
        once.states[1][i] *= 27;
    is_near(scaled.states[1], once.states[1], 300, 1e-13, 0, "degree");
    heard_free(&once);
    heard_free(&scaled);
    built_free(b);
}

/* A token that sees nothing leaves as 0, divided by its row sum or not; so does a row of numbers
 * that cancel. */
static void rows_of_nothing(void **state)
{
    (void)state;
    static const double tokens[] = {1, 0, 0, -1, 0, 0, 1, 0, 0};
    for (int both = 0; both < 2; both++)
        for (int normalised = 0; normalised < 2; normalised++) {
            built *b = head_new(tokens, both ? 1 : 3);
            rs_linear_op *op = &b->layers[0].branches[0].linear;
            op->causal = !both;
            op->without_self = true;
            op->normalised = normalised;
            heard h;
            run_engine(&h, b, RS_PRECISION_F64, 1, true);
            for (int c = 0; c < 3; c++)
                assert_true(h.states[1][c] == 0 && h.matrices[0][0][0][0] == 0);
            for (int c = 6; c < 9 && normalised && !both; c++) /* keys 1 and -1 sum to 0 */
                assert_true(h.states[1][c] == 0);
            heard_free(&h);
            built_free(b);
        }
}

/* Rows without their own key whose sums underflow, with every decay that a token has passed, but not
 * the quotient: the nearest key's share is 1 or nearly so. A decay of 0 leaves nothing. */
static void far_keys(void **state)
{
    (void)state;
    static const double decays[] = {1e-310, 1e-300, 1e-60, 1e-40, 1e-3, 0.5, 0};
    enum { N = 150 };
    for (int t = 0; t < 14; t++) {
        bool wide = t % 2;
        double decay = decays[t / 2];
        built *b = head_new(NULL, N);
        rs_linear_op *op = &b->layers[0].branches[0].linear;
        op->without_self = op->normalised = true;
        op->feature_map = RS_FEATURE_ELU;
        op->decay = generate(b, 0, 1, 0, decay);
        double *q = ref_dense_rows(b->states, N, &op->q), *k = ref_dense_rows(b->states, N, &op->k);
        double *m = calloc(N * N, sizeof *m), *y = malloc(3 * N * sizeof *y);
        for (int i = 1; i < N && decay > 0; i++) {
            double sum = 0;
            for (int j = 0; j < i; j++) {
                for (int s = 0; s < 3; s++)
                    m[i * N + j] += feature(q[3 * i + s], RS_FEATURE_ELU) *
                                    feature(k[3 * j + s], RS_FEATURE_ELU);
                sum += m[i * N + j] *= pow(decay, i - 1 - j);
            }
            for (int j = 0; j < i; j++)
                m[i * N + j] /= sum;
        }
        ref_apply(y, 3, m, b->states, 3, N, 3);
        heard h;
        run_engine(&h, b, wide ? RS_PRECISION_F64 : RS_PRECISION_F32, 1, true);
        is_near(h.matrices[0][0][0], m, N * N, wide ? 1e-13 : 1e-6, (uint64_t)t, "far matrix");
        is_near(h.states[1], y, 3 * N, wide ? 1e-13 : 1e-6, (uint64_t)t, "far state");
        heard_free(&h);
        built_free(b);
        double *used[] = {q, k, m, y};
        for (size_t i = 0; i < sizeof used / sizeof *used; i++)
            free(used[i]);
    }
}

int main(void)
{
    static drawn_kind kind = {linear_mixer_of};
    const struct CMUnitTest tests[] = {
        MIXER_TESTS(&kind),
        cmocka_unit_test(s4d_vector),
        cmocka_unit_test(degree_three),
        cmocka_unit_test(rows_of_nothing),
        cmocka_unit_test(far_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
