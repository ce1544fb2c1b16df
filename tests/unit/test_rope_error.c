/*
 * test_rope_error.c: C9 of rotary positions: angles of every law with wild parameters against long
 * double, what they make of whole rows of attention weights, and YaRN's factor on cos and sin,
 * which multiplies queries and keys. Where long double has no more digits than double there is no
 * oracle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "certify/certify.h"
#include "property.h"

#include <float.h>
#include <math.h>

enum { LAWS = 5, INSTANCES = 20000, TOKENS = 5, DIM = 4 };

static double pick(rs_random *random, double least, double most)
{
    return least * pow(most / least, rs_random_uniform(random));
}

static rs_rope_op draw_rope(rs_random *random, int t)
{
    rs_rope_op rope = {.kind = RS_ROPE_HALF_SPLIT,
                       .law = (rs_rope_law)(t % LAWS),
                       .dims = DIM,
                       .theta = pick(random, 1.001, 1e8),
                       .factor = pick(random, 1e-6, 1e4),
                       .low_freq_factor = 1,
                       .high_freq_factor = pick(random, 1.01, 100),
                       .beta_fast = pick(random, 8, 64),
                       .beta_slow = pick(random, 0.1, 4),
                       .attention_factor = pick(random, 0.1, 1e4),
                       .original_positions = 2 + (int64_t)pick(random, 1, 4000),
                       .truncate = t % 3 != 0};
    return rope;
}

static long double clamp(long double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static long double turns(const rs_rope_op *r, long double by)
{
    const long double pi = 3.14159265358979323846264338327950288L;
    return r->dims * logl((long double)r->original_positions / (by * 2 * pi)) /
           (2 * logl((long double)r->theta));
}

/* The laws as src/network/rope.c has them in words. */
static long double exact_frequency(const rs_rope_op *r, int64_t n, int t)
{
    const long double pi = 3.14159265358979323846264338327950288L;
    long double theta = r->theta, positions = (long double)r->original_positions;
    if (r->law == RS_ROPE_DYNAMIC && n > r->original_positions)
        theta *= powl((long double)r->factor * (long double)n / positions - (r->factor - 1.0L),
                      (long double)r->dims / (r->dims - 2));
    long double f = powl(theta, -2.0L * t / r->dims);
    if (r->law == RS_ROPE_LINEAR) return f / r->factor;
    if (r->law == RS_ROPE_LLAMA3) {
        long double kept = clamp((positions * f / (2 * pi) - r->low_freq_factor) /
                                 ((long double)r->high_freq_factor - r->low_freq_factor));
        return (1 - kept) * f / r->factor + kept * f;
    }
    if (r->law == RS_ROPE_YARN) {
        long double low = turns(r, r->beta_fast), high = turns(r, r->beta_slow);
        if (r->truncate) low = floorl(low), high = ceill(high);
        low = fmaxl(low, 0), high = fminl(high, r->dims - 1);
        if (low == high) high += 0.001L;
        long double ramp = clamp((t - low) / (high - low));
        return f / r->factor * ramp + f * (1 - ramp);
    }
    return f;
}

static void angles(void **state)
{
    (void)state;
    double worst[LAWS] = {0};
    int known = 0;
    if (LDBL_MANT_DIG <= DBL_MANT_DIG) skip();
    for (int t = property_start(INSTANCES, 71000000); property_next(&t);) {
        rs_random random = property_random();
        rs_rope_op rope = draw_rope(&random, t);
        int64_t n = 2 + (int64_t)pick(&random, 1, 1e6);
        double inverse[DIM / 2], factor, rate = rs_rope_angle_rate(&rope, n);
        rs_rope_frequencies(inverse, &factor, &rope, n);
        if (!isfinite(rate)) continue;
        known++;
        for (int k = 0; k < DIM / 2; k++) {
            double angle = (double)(n - 1) * inverse[k];
            long double off = fabsl(angle - (long double)(n - 1) * exact_frequency(&rope, n, k));
            double ratio = (double)(off / ((long double)(n - 1) * rate));
            if (!(ratio <= 1)) fail_msg("law %d, pair %d: ratio %g", (int)rope.law, k, ratio);
            worst[rope.law] = fmax(worst[rope.law], ratio);
        }
    }
    for (int law = 0; law < LAWS; law++) {
        print_message("  law %d: largest ratio %.4f\n", law, worst[law]);
        assert_true(worst[law] > 0.001);
    }
    assert_true(known > INSTANCES * 3 / 4);
}

/* Rows of weights over keys 0 .. n−1, in T's arithmetic; queries and keys lie `apart` positions. */
#define ROWS(NAME, T, COS, SIN, EXP)                                                               \
    static void NAME(T *p, double(*q)[DIM], double(*k)[DIM], const T *angle_per, T gain, T s,      \
                     int64_t apart)                                                                \
    {                                                                                              \
        for (int i = 0; i < TOKENS; i++) {                                                         \
            T logit[TOKENS], most = -(T)INFINITY, sum = 0;                                         \
            for (int j = 0; j < TOKENS; j++) {                                                     \
                logit[j] = 0;                                                                      \
                for (int c = 0; c < DIM / 2; c++) {                                                \
                    T a = (T)(i * apart) * angle_per[c], b = (T)(j * apart) * angle_per[c];        \
                    T ca = COS(a) * gain, sa = SIN(a) * gain, cb = COS(b) * gain,                  \
                      sb = SIN(b) * gain;                                                          \
                    T q0 = q[i][c] * ca - q[i][c + DIM / 2] * sa;                                  \
                    T q1 = q[i][c + DIM / 2] * ca + q[i][c] * sa;                                  \
                    T k0 = k[j][c] * cb - k[j][c + DIM / 2] * sb;                                  \
                    T k1 = k[j][c + DIM / 2] * cb + k[j][c] * sb;                                  \
                    logit[j] += q0 * k0 + q1 * k1;                                                 \
                }                                                                                  \
                logit[j] *= s;                                                                     \
                most = logit[j] > most ? logit[j] : most;                                          \
            }                                                                                      \
            for (int j = 0; j < TOKENS; j++)                                                       \
                sum += p[i * TOKENS + j] = EXP(logit[j] - most);                                   \
            for (int j = 0; j < TOKENS; j++)                                                       \
                p[i * TOKENS + j] /= sum;                                                          \
        }                                                                                          \
    }
ROWS(computed_rows, double, cos, sin, exp)
ROWS(exact_rows, long double, cosl, sinl, expl)

/* Queries and keys share a large part, so that rounding of long vectors meets small logit
 * differences. What a row of weights may miss (a half of its slack) against what it does miss. */
static void weights(void **state)
{
    (void)state;
    double worst = 0, worst_scaled = 0;
    if (LDBL_MANT_DIG <= DBL_MANT_DIG) skip();
    for (int t = property_start(INSTANCES, 72000000); property_next(&t);) {
        rs_random random = property_random();
        rs_rope_op rope = draw_rope(&random, t);
        double q[TOKENS][DIM], k[TOKENS][DIM], longest = 0, inverse[DIM / 2], gain;
        double size = pick(&random, 1e-3, 1e3), common = pick(&random, 1, 1e3);
        int64_t apart = 1 + (int64_t)pick(&random, 1, 1e5), n = (TOKENS - 1) * apart + 1;
        rs_rope_frequencies(inverse, &gain, &rope, n);
        double s = 1 / (gain * gain * size * size * common);
        for (int i = 0; i < TOKENS; i++) {
            double square_q = 0, square_k = 0;
            for (int c = 0; c < DIM; c++) {
                q[i][c] = size * rs_random_normal(&random);
                k[i][c] = size * (common + rs_random_normal(&random));
                square_q += q[i][c] * q[i][c], square_k += k[i][c] * k[i][c];
            }
            longest = fmax(longest, sqrt(fmax(square_q, square_k)) * (1 + 1e-14));
        }
        double p[TOKENS * TOKENS], slack;
        long double exact[TOKENS * TOKENS], frequency[DIM / 2];
        for (int c = 0; c < DIM / 2; c++)
            frequency[c] = exact_frequency(&rope, n, c);
        computed_rows(p, q, k, inverse, gain, s, apart);
        exact_rows(exact, q, k, frequency, (long double)gain, (long double)s, apart);
        /* the maps are the identity: what is read are queries and keys themselves */
        rs_head_norms head = {.qk = {.left_two = 1, .right_two = 1}, .w = {.two = 1}};
        rs_branch_norms norms = {.heads = &head, .n_heads = 1};
        rs_attention_op op = {.heads = 1,
                              .kv_heads = 1,
                              .head_dim = DIM,
                              .value_dim = DIM,
                              .rope = rope,
                              .scale = s,
                              .temperature = 1,
                              .mix_softmax = 1};
        rs_op_site site = {.longest = longest,
                           .diameter = 2 * longest,
                           .dim = DIM,
                           .tokens = TOKENS,
                           .turn = (double)(n - 1) * rs_rope_angle_rate(&rope, n) + 0x1p-46};
        if (rs_mixing_unbounded(&op, site.turn)) continue;
        rs_deviation_attention(&slack, &op, &norms, &site);
        for (int i = 0; i < TOKENS; i++) {
            long double off = 0;
            for (int j = 0; j < TOKENS; j++)
                off += fabsl(p[i * TOKENS + j] - exact[i * TOKENS + j]) / 2;
            double ratio = (double)off / (slack / 2);
            if (!(ratio <= 1)) fail_msg("law %d, row %d: ratio %g", (int)rope.law, i, ratio);
            worst = fmax(worst, ratio);
            if (rope.law == RS_ROPE_YARN && gain > 100) worst_scaled = fmax(worst_scaled, ratio);
        }
    }
    print_message("  weights: largest ratio %.4f, with a large YaRN factor %.4f\n", worst,
                  worst_scaled);
    assert_true(worst > 1e-3 && worst_scaled > 1e-4);
}

/* By value: the range is s·af²·|q||k|·4δ(1 + δ/2) where nothing else is uncertain; t a quarter. */
static void main_term(void **state)
{
    (void)state;
    rs_head_norms head = {.qk = {.left_two = 2, .right_two = 3}, .w = {.two = 1}};
    rs_branch_norms norms = {.heads = &head, .n_heads = 1};
    rs_attention_op op = {
        .heads = 1,
        .kv_heads = 1,
        .head_dim = 4,
        .value_dim = 4,
        .rope = {.kind = RS_ROPE_HALF_SPLIT, .law = RS_ROPE_YARN, .dims = 4, .attention_factor = 3},
        .scale = 0.5,
        .temperature = 1,
        .mix_softmax = 1};
    rs_op_site site = {.longest = 0.1, .diameter = 0.2, .dim = 4, .tokens = 3, .turn = 0.02};
    /* a frequency of 1: 64 units for the power (raised by 1 %),
     * two for its product with a position */
    rs_rope_op plain = {.kind = RS_ROPE_HALF_SPLIT, .dims = 4, .theta = 1e4};
    assert_true(fabs(rs_rope_angle_rate(&plain, 8) / ((1.01 * 64 + 2) * 0x1p-53) - 1) < 1e-9);
    double slack, sizes = 0.5 * 9 * 0.2 * 0.3, turned = 4 * sizes * 0.02 * 1.01;
    rs_deviation_attention(&slack, &op, &norms, &site);
    assert_true(fabs(slack / (2 * turned / 4) - 1) < 1e-10);
    site.turn = 1.5;
    assert_non_null(rs_mixing_unbounded(&op, site.turn));
    assert_true(isinf(rs_deviation_attention(&slack, &op, &norms, &site)));
    site.given = true;
    assert_true(isfinite(rs_deviation_attention(&slack, &op, &norms, &site)) && slack < 1e-13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angles),
        cmocka_unit_test(weights),
        cmocka_unit_test(main_term),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
