/*
 * test_bounds.c: the inequalities of docs/certificates.md against small layers worked out by plain
 * loops: random and hill-climbing searches for a violation, the extremal cases where a statement is
 * tight, the counterexamples to what was published, and every constant made 5 % smaller.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bounds_layer.h"
#include "property.h"

#include <float.h>

/* C1 as the chain uses it: in balls, from above. */
static double tv_bound(double range, const rs_bound_constants *c)
{
    arb_t at, out;
    arb_init(at);
    arb_init(out);
    arb_set_d(at, range);
    rs_tv_bound_ball(out, at, c);
    double bound = rs_ball_upper(out);
    arb_clear(out);
    arb_clear(at);
    return bound;
}

/* ---- exact values ---- */

static void constants(void **state)
{
    (void)state;
    const rs_bound_constants *c = &rs_bounds_exact;
    /* mpmath: root of e^x = 1 + 2x, −1/2 − W_{−1}(−1/(2√e)), up to which the published lemma holds
     */
    const double threshold = 1.25643120862616967698;
    assert_true(exp(threshold - 1e-9) < 1 + 2 * (threshold - 1e-9));
    assert_true(exp(threshold + 1e-9) > 1 + 2 * (threshold + 1e-9));
    assert_true(rs_perturbation_constant(0, c) == 2);
    assert_true(fabs(rs_perturbation_constant(1e-9, c) - 2) < 1e-8);
    assert_true(fabs(rs_perturbation_constant(1.256, c) - 6.509657834931581) < 1e-14);
    assert_true(fabs(sqrt(rs_perturbation_constant(1.9733, c)) - 4) < 1e-3);
    assert_true(isinf(rs_perturbation_constant(1e4, c)));
    assert_true(c->published_range == 1.256 && c->published_range < threshold);
    assert_true(fabs(rs_published_layer(0, 1, 1, 1, 1, 1, c) - log10(4)) < 1e-15);
    assert_true(fabs(rs_centre_factor(4, c) - 1.5) < 1e-15);
    assert_true(fabs(tv_bound(3, c) - tanh(0.75)) < 1e-15);
}

/* (4β)^{(3^L−1)/2} r^{3^L} by repeated r ← 4βr³. */
static void depth_formula(void **state)
{
    (void)state;
    for (double factor = -1.3; factor < 1; factor += 0.37)
        for (double r = -2; r < 1; r += 0.29) {
            double log_r = r;
            for (int64_t l = 1; l <= 12; l++) {
                log_r = factor + 3 * log_r;
                double got = rs_published_depth(r, factor, l);
                assert_true(fabs(got - log_r) <= 1e-12 * fmax(1, fabs(log_r)) * 100);
            }
        }
    assert_true(isinf(rs_published_depth(-INFINITY, 0.5, 3)));
    assert_true(isinf(rs_published_depth(1, 2, 700)));
}

/* docs/theory/corrections.md, 10: √(n/2) is attained by R = I, W_QK's first row e_1 − e_2, row i
 * e_{i+1}, last row 0. */
static void gamma_extremal(void **state)
{
    (void)state;
    for (int n = 3; n <= 64; n *= 2) {
        double sum = 0, most = 0, column = 0;
        for (int j = 0; j < n; j++) {
            double total = j == 0 ? 1 : j == 1 ? 1 : 0; /* row 0 */
            for (int i = 1; i < n - 1; i++)
                total += j == i + 1;
            column = fmax(column, total);
        }
        for (int i = 0; i < n; i++) {
            double range = i == 0 ? 2 : i < n - 1 ? 1 : 0;
            sum += range;
            most = fmax(most, range);
        }
        double gamma = rs_gamma_min(sum, most, 1, 1, 1, column);
        assert_true(fabs(gamma - sqrt(n / 2.0)) < 1e-12);
    }
    assert_true(isnan(rs_gamma_min(0, 0, 1, 0, 0, 1)));
}

/* ---- C1: total variation ---- */

static double tv_ratio(const double *z, int n, const rs_bound_constants *c)
{
    double p[8], q[8], low = INFINITY, high = -INFINITY, tv = 0;
    for (int j = 0; j < n; j++) {
        p[j] = z[j];
        q[j] = z[j] + z[n + j];
        low = fmin(low, z[n + j]);
        high = fmax(high, z[n + j]);
    }
    softmax(p, n);
    softmax(q, n);
    for (int j = 0; j < n; j++)
        tv += 0.5 * fabs(p[j] - q[j]);
    double bound = tv_bound(high - low, c);
    return tv < 1e-12 ? 0 : tv / bound;
}

static void total_variation(void **state)
{
    (void)state;
    double worst = 0, climbed = 0;
    for (int i = property_start(120000, 11000000); property_next(&i);) {
        rs_random random = property_random();
        double z[16];
        int n = 2 + (int)(rs_random_uniform(&random) * 6);
        double base = pick(&random, 0.1, 5), step = pick(&random, 0.01, 20);
        for (int j = 0; j < 2 * n; j++)
            z[j] = rs_random_normal(&random) * (j < n ? base : step);
        worst = property_worst(tv_ratio(z, n, &rs_bounds_exact));
    }
    property_holds(1 + 1e-9);
    for (int c = property_start(3, 23000000); property_next(&c);) {
        rs_random random = property_random();
        int n = 2 + c % 3;
        double z[16] = {0};
        for (int j = 0; j < 2 * n; j++)
            z[j] = rs_random_normal(&random);
        double best = tv_ratio(z, n, &rs_bounds_exact), size = 0.7;
        for (int t = 0; t < 20000; t++) {
            double y[16];
            for (int j = 0; j < 2 * n; j++)
                y[j] = z[j] +
                       (rs_random_uniform(&random) < 0.4 ? size : 0) * rs_random_normal(&random);
            double r = tv_ratio(y, n, &rs_bounds_exact);
            if (r > best) best = r, memcpy(z, y, sizeof z);
            if (t % 1000 == 999) size *= 0.7;
        }
        climbed = property_worst(best);
    }
    print_message("  C1: largest ratio %.9f (climbed %.12f)\n", worst, climbed);
    property_holds(1 + 1e-9);
    assert_true(climbed > 0.999999);
}

/* Two entries ± D/4: equality. A share 5 % smaller fails there. */
static void total_variation_tight(void **state)
{
    (void)state;
    rs_bound_constants small = rs_bounds_exact;
    small.range_share *= 0.95;
    for (double range = 0.1; range < 8; range += 0.1) {
        double z[4] = {range / 4, -range / 4, -range / 2, range / 2};
        assert_true(fabs(tv_ratio(z, 2, &rs_bounds_exact) - 1) < 1e-12);
        assert_true(tv_ratio(z, 2, &small) > 1.0001);
    }
}

/* The balls enclose: never below the truth at 300 bits, where float64 is below in some cases. */
static void total_variation_rigorous(void **state)
{
    (void)state;
    int plain_wrong = 0;
    double gap = 0;
    arb_t range, exact, got;
    arb_init(range);
    arb_init(exact);
    arb_init(got);
    for (int i = property_start(20000, 12000000); property_next(&i);) {
        rs_random random = property_random();
        double x = pick(&random, 1e-30, 50);
        arb_set_d(range, x);
        rs_tv_bound_ball(got, range, &rs_bounds_exact);
        arb_mul_2exp_si(exact, range, -2);
        arb_tanh(exact, exact, 300);
        arb_set_d(range, rs_ball_upper(got));
        assert_true(arb_ge(range, exact));
        double plain = tanh(x * 0.25);
        arb_set_d(range, plain);
        plain_wrong += arb_lt(range, exact);
        gap = fmax(gap, rs_ball_upper(got) / plain - 1);
    }
    arb_clear(got);
    arb_clear(exact);
    arb_clear(range);
    assert_true(plain_wrong > 1000); /* float64 alone would be on the wrong side that often */
    assert_true(gap < 1e-12);
}

/* ---- K(ρ), P1: Σ_i |P_ij − p_j| ≤ p_j ‖E‖₁ K(ρ) ---- */

static void perturbation_sum(void **state)
{
    (void)state;
    double worst = 0;
    int published_worse = 0;
    for (int t = property_start(100000, 13000000); property_next(&t);) {
        rs_random random = property_random();
        int n = 2 + (int)(rs_random_uniform(&random) * 5);
        double e[36], p[6], rows[36], range = 0, one = 0, size = pick(&random, 1e-3, 4);
        for (int j = 0; j < n; j++)
            p[j] = rs_random_normal(&random) * 3;
        for (int i = 0; i < n * n; i++)
            e[i] = rs_random_normal(&random) * size * (rs_random_uniform(&random) < 0.5);
        for (int i = 0; i < n; i++) {
            double low = INFINITY, high = -INFINITY;
            for (int j = 0; j < n; j++) {
                rows[i * n + j] = p[j] + e[i * n + j];
                low = fmin(low, e[i * n + j]);
                high = fmax(high, e[i * n + j]);
            }
            softmax(rows + i * n, n);
            range = fmax(range, high - low);
        }
        softmax(p, n);
        for (int j = 0; j < n; j++) {
            double column = 0;
            for (int i = 0; i < n; i++)
                column += fabs(e[i * n + j]);
            one = fmax(one, column);
        }
        for (int j = 0; j < n && one > 0; j++) {
            double sum = 0;
            for (int i = 0; i < n; i++)
                sum += fabs(rows[i * n + j] - p[j]);
            double ratio = sum / (p[j] * one * rs_perturbation_constant(range, &rs_bounds_exact));
            worst = property_worst(ratio);
        }
        if (range <= 1.256)
            for (int i = 0; i < n * n; i++) /* the published lemma, entry by entry */
                published_worse += rows[i] > p[i % n] * (1 + 2 * range) * (1 + 1e-12);
    }
    print_message("  K: largest ratio %.4f\n", worst);
    property_holds(1 + 1e-9);
    assert_int_equal(published_worse, 0);
    /* at 1.2566 the lemma fails: a token of vanishing weight lifted by D */
    double p = 1e-9, d = 1.2566, lifted = p * exp(d) / (1 - p + p * exp(d));
    assert_true(lifted / p > 1 + 2 * d);
}

/* The entrywise step PR ≤ (I + 2D)1pᵀR is false for signed R: R = (1, −1), W = −0.3. */
static void signed_step_fails(void **state)
{
    (void)state;
    double e[4] = {-0.3, 0.3, 0.3, -0.3}, r[2] = {1, -1}, range = 0.6;
    softmax(e, 2);
    softmax(e + 2, 2);
    double first = e[0] * r[0] + e[1] * r[1], second = e[2] * r[0] + e[3] * r[1];
    assert_true(fabs(first + 0.2913) < 1e-4 && fabs(second - 0.2913) < 1e-4);
    assert_true(second > 0 /* the right side, pᵀR = 0 */);
    for (int i = 0; i < 2; i++) /* repaired with absolute values: 2 D pᵀ|R| */
        assert_true(fabs(i ? second : first) <= 2 * range * 1);
}

/* ---- τ ---- */

static void contraction(void **state)
{
    (void)state;
    for (int t = property_start(5000, 14000000); property_next(&t);) {
        rs_random random = property_random();
        int n = 1 + (int)(rs_random_uniform(&random) * 12);
        double m[144], distance[12], mean[12], brute = 0;
        int64_t empty = 0;
        bool hole[12];
        for (int i = 0; i < n; i++) {
            hole[i] = rs_random_uniform(&random) < 0.1;
            empty += hole[i];
            for (int j = 0; j < n; j++)
                m[i * n + j] = hole[i] ? 0 : rs_random_normal(&random) * 3;
            if (!hole[i]) softmax(m + i * n, n);
        }
        for (int i = 0; i < n; i++)
            for (int k = 0; k < i; k++) {
                double tv = 0;
                for (int j = 0; j < n; j++)
                    tv += 0.5 * fabs(m[i * n + j] - m[k * n + j]);
                if (!hole[i] && !hole[k]) brute = fmax(brute, tv);
            }
        rs_mixing_contraction got;
        rs_mixing_contraction_of(&got, m, NULL, n, n, n, distance, mean);
        assert_int_equal(got.empty_rows, empty);
        assert_true(fabs(got.tau - brute) < 1e-15 * 8);
    }
    double broken[4] = {0.5, 0.5, NAN, 0.5}, distance[2], mean[2];
    rs_mixing_contraction got;
    rs_mixing_contraction_of(&got, broken, NULL, 2, 2, 2, distance, mean);
    assert_true(isnan(got.tau));
}

/* ---- norms ---- */

static void norm_factor(void **state)
{
    (void)state;
    rs_bound_constants small = rs_bounds_exact;
    small.norm_factor *= 0.95;
    double worst = 0, worst_small = 0;
    for (int t = property_start(100000, 15000000); property_next(&t);) {
        rs_random random = property_random();
        int d = 2 + (int)(rs_random_uniform(&random) * 5);
        bool centred = rs_random_uniform(&random) < 0.5;
        double x[6], y[6], g[6],
            eps = rs_random_uniform(&random) < 0.5 ? 0 : pick(&random, 1e-8, 1);
        double largest = 0, size = pick(&random, 1e-4, 3);
        for (int k = 0; k < d; k++) {
            x[k] = rs_random_normal(&random);
            y[k] = x[k] + size * rs_random_normal(&random);
            g[k] = rs_random_normal(&random) * (t % 3 == 0 ? 0.01 : 1);
            if (t % 2) g[k] = 1;
            largest = fmax(largest, fabs(g[k]));
        }
        if (t % 5 == 0) /* nearly parallel lengths, opposite: the tight direction */
            for (int k = 0; k < d; k++)
                y[k] = k == 0 ? x[k] * (1 + size) : x[k];
        double before = distance(x, y, d);
        double sx = layer_std(x, d, eps, centred), sy = layer_std(y, d, eps, centred);
        layer_norm(x, d, g, eps, centred);
        layer_norm(y, d, g, eps, centred);
        double after = distance(x, y, d);
        if (!(before > 1e-9) || !(fmin(sx, sy) > 1e-6)) continue;
        double ratio = after / bound_norm(before, largest, fmin(sx, sy), &rs_bounds_exact);
        worst = property_worst(ratio);
        worst_small = fmax(worst_small, after / bound_norm(before, largest, fmin(sx, sy), &small));
    }
    print_message("  C4: largest ratio %.6f\n", worst);
    property_holds(1 + 1e-9);
    assert_true(worst > 0.999 && worst_small > 1.01); /* tight: 5 % less is violated */
    assert_true(isinf(bound_norm(1, 1, 0, &rs_bounds_exact)));
    assert_true(bound_norm(0, 1, 0, &rs_bounds_exact) == 0);
}

/* ---- Lipschitz constants ---- */

static void lipschitz_constants(void **state)
{
    (void)state;
    for (int a = 0; a < RS_ACT_COUNT; a++) {
        double most = 0, listed = rs_bounds_exact.lipschitz[a];
        if (isinf(listed)) continue;
        for (double x = -12; x < 12; x += 1e-4) {
            double slope = (activation_of(x + 5e-5, a) - activation_of(x - 5e-5, a)) / 1e-4;
            most = fmax(most, fabs(slope));
        }
        if (fabs(most - listed) > 2e-8 || most > listed * (1 + 1e-9))
            fail_msg("%s: steepest slope %.10f, listed %.10f", rs_activation_name((rs_activation)a),
                     most, listed);
    }
}

static void mlp_lipschitz(void **state)
{
    (void)state;
    double worst = 0;
    for (int t = property_start(100000, 16000000); property_next(&t);) {
        rs_random random = property_random();
        small_mlp mlp;
        double x[4], y[4], fx[4], fy[4], longest = 0;
        draw_mlp(&mlp, &random);
        for (int k = 0; k < mlp.d; k++) {
            x[k] = rs_random_normal(&random);
            y[k] = x[k] + pick(&random, 1e-3, 2) * rs_random_normal(&random);
        }
        longest = fmax(length(x, mlp.d), length(y, mlp.d));
        run_mlp(fx, x, &mlp);
        run_mlp(fy, y, &mlp);
        rs_mlp_bound bound = mlp_bound(&mlp);
        double lipschitz = rs_mlp_lipschitz(&bound, longest * (1 + 1e-12), &rs_bounds_exact);
        double before = distance(x, y, mlp.d);
        if (before < 1e-9) continue;
        worst = property_worst(distance(fx, fy, mlp.d) / (lipschitz * before));
    }
    print_message("  C5: largest ratio %.4f\n", worst);
    property_holds(1 + 1e-9);
    /* tight for one neuron at the steepest point */
    rs_mlp_bound one = {.activation = RS_ACT_GELU, .up_two = 1, .down_two = 1};
    assert_true(fabs(rs_mlp_lipschitz(&one, 1, &rs_bounds_exact) - 1.12890415) < 1e-12);
    /* relu²: slope 2|x| where the tokens are */
    rs_mlp_bound square = {.activation = RS_ACT_RELU2, .up_two = 1, .down_two = 1, .up_row = 1};
    assert_true(fabs(rs_mlp_lipschitz(&square, 3, &rs_bounds_exact) - 6) < 1e-12);
    /* products below the doubles are no zeros */
    rs_mlp_bound tiny = {.activation = RS_ACT_SILU, .up_two = 1e-200, .down_two = 1e-200};
    assert_true(rs_mlp_lipschitz(&tiny, 1, &rs_bounds_exact) > 0);
    tiny.gated = true, tiny.gate_two = tiny.gate_row = tiny.up_row = 1e-200;
    assert_true(rs_mlp_lipschitz(&tiny, 1, &rs_bounds_exact) > 0);
    tiny.down_two = 0;
    assert_true(rs_mlp_lipschitz(&tiny, 1, &rs_bounds_exact) == 0);
}

/* ---- C3: the diameter theorem ---- */

static void diameter_theorem(void **state)
{
    (void)state;
    double worst = 0, climbed = 0, biased = 0;
    for (int t = property_start(100000, 17000000); property_next(&t);) {
        rs_random random = property_random();
        small_layer layer;
        draw_layer(&layer, &random, t % 4 == 3);
        double ratio = layer_ratio(&layer, &rs_bounds_exact);
        worst = property_worst(ratio);
        if (layer.heads > 1) biased = fmax(biased, ratio);
    }
    property_holds(1 + 1e-9);
    for (int t = property_start(12, 24000000); property_next(&t);) {
        rs_random random = property_random();
        climbed = property_worst(climb_layer(&random, 3000, &rs_bounds_exact));
    }
    print_message("  C3: largest ratio %.6f (several heads %.6f, climbed %.6f)\n", worst, biased,
                  climbed);
    property_holds(1 + 1e-9);
    assert_true(climbed > 0.98);
}

/* n = 2, tokens ±u/2, u a top eigenvector of a symmetric W_QK, W_V = I: equality. In balls the
 * bound is never below the truth at 300 bits, within 1e-12 of it; float64 by itself often is. */
static void diameter_tight(void **state)
{
    (void)state;
    int plain_wrong = 0, small_wrong = 0;
    double widest = 0;
    rs_bound_constants small = rs_bounds_exact;
    small.range_share *= 0.95;
    for (int t = property_start(4000, 18000000); property_next(&t);) {
        rs_random random = property_random();
        double k = pick(&random, 1e-6, 10), delta = pick(&random, 1e-8, 2),
               w = pick(&random, .1, 3);
        extremal_pair pair = extremal(k, delta, w, &rs_bounds_exact);
        assert_false(pair.bound_below);
        assert_true(pair.gap < 1e-12);
        widest = fmax(widest, pair.gap);
        plain_wrong += pair.plain_below;
        small_wrong += extremal(k, delta, w, &small).bound_below;
    }
    assert_true(plain_wrong > 200);
    assert_int_equal(small_wrong, property_count(4000));
    /* edited attention aI + bP by value: ‖W_h‖(|a| + |b| tanh(qk δ²/4))δ */
    rs_head_bound edited = {
        .qk_norm = 2, .value_norm = 3, .measured = NAN, .identity = 0.5, .softmax = 2};
    double edge = bound_attention(1, &edited, 1, &rs_bounds_exact);
    assert_true(fabs(edge / (3 * (0.5 + 2 * tanh(0.5))) - 1) < 1e-12);
}

/* docs/theory/corrections.md, 4: positions and soft-capping break the bilinear statement; τ of the
 * mixing holds. */
static void positions_break_the_bilinear_form(void **state)
{
    (void)state;
    /* two tokens (3, ±.05), RoPE of angle π between positions, W_QK = I, W_V = I */
    double x[2][2] = {{3, 0.05}, {3, -0.05}}, a[4], delta = 0.1;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            double turn = i == j ? 1 : -1; /* rotation by π(i − j) */
            a[i * 2 + j] = turn * (x[i][0] * x[j][0] + x[i][1] * x[j][1]);
        }
    softmax(a, 2);
    softmax(a + 2, 2);
    double after = fabs(a[0] - a[2]) * 0.1;
    double bilinear = tanh(delta * delta / 4) * delta;
    assert_true(after > 0.0999 && bilinear < 3e-4);
    rs_mixing_contraction got;
    double rows[2], mean[2];
    rs_mixing_contraction_of(&got, a, NULL, 2, 2, 2, rows, mean);
    assert_true(after <= got.tau * delta * (1 + 1e-12));
    /* soft-cap 50, b_K = (0, 1e4): one feature 0 and the large bias in the other */
    rs_head_bound head = {.qk_norm = NAN, .value_norm = 1, .measured = got.tau, .softmax = 1};
    assert_true(after <= bound_attention(delta, &head, 1, &rs_bounds_exact) * (1 + 1e-12));
    head.measured = NAN; /* neither known: nothing is proved */
    assert_true(isinf(bound_attention(delta, &head, 1, &rs_bounds_exact)));
}

/* Causal masks: the first token sees itself alone. */
static void causal_masks_need_tau(void **state)
{
    (void)state;
    double bilinear_worst = 0;
    for (int t = property_start(20000, 19000000); property_next(&t);) {
        rs_random random = property_random();
        small_layer layer;
        draw_layer(&layer, &random, false);
        layer.causal = true;
        property_worst(layer_ratio_by_tau(&layer));
        bilinear_worst = fmax(bilinear_worst, layer_ratio(&layer, &rs_bounds_exact));
    }
    property_holds(1 + 1e-9);
    assert_true(bilinear_worst > 2); /* the bilinear statement is false there */
}

/* ---- C6: from below ---- */

/* The interval [lo, hi] through layers with a skip holds the diameter. */
static void skip_interval(void **state)
{
    (void)state;
    int64_t positive = 0;
    double tight = 0;
    for (int t = property_start(100000, 20000000); property_next(&t);) {
        rs_random random = property_random();
        small_layer layer;
        draw_layer(&layer, &random, false);
        double skip = (rs_random_uniform(&random) < 0.5 ? 1 : -1) * pick(&random, 0.05, 3);
        interval got = skip_bounds(&layer, skip, &rs_bounds_exact);
        double after = skip_diameter(&layer, skip);
        double room = 1e-12 * (got.hi + layer.scale_of_values);
        assert_true(after <= got.hi + room && after >= got.lo - room);
        if (got.lo > 0) positive++, tight = fmax(tight, got.lo / after);
    }
    print_message("  C6: %lld instances with a positive bound from below, largest ratio %.6f\n",
                  (long long)positive, tight);
    assert_true(positive > 10000 && tight > 0.999);
}

/* docs/theory/corrections.md, 5: n = 2, d = 1, W_QK = 4, δ₀ = .1: 28 layers reach .741, then W = −2
 * gives 0. "Decays at worst algebraically, never zero" is false; the interval says so. */
static void skip_can_reach_zero(void **state)
{
    (void)state;
    double delta = 0.1, lo = 0.1, hi = 0.1;
    for (int l = 0; l < 29; l++) {
        double w = l < 27 ? 2 : l == 27 ? 0.254 : -2;
        rs_head_bound head = {.qk_norm = 4, .value_norm = fabs(w), .measured = NAN, .softmax = 1};
        interval next = carry(lo, hi, 1, &head, &rs_bounds_exact);
        delta = fabs(delta + w * tanh(4 * delta * delta / 4) * delta);
        lo = next.lo, hi = next.hi;
        assert_true(delta <= hi * (1 + 1e-12) && delta >= lo - 1e-12);
        if (l == 27) assert_true(fabs(delta - 0.741) < 2e-3);
    }
    assert_true(delta < 2e-2);
    assert_true(lo == 0);
    /* w tanh(δ²) = 1 exactly: the diameter vanishes, and the bound allows it */
    double w = 2, zero = sqrt(atanh(0.5));
    rs_head_bound head = {.qk_norm = 4, .value_norm = w, .measured = NAN, .softmax = 1};
    assert_true(fabs(zero - w * tanh(zero * zero) * zero) < 1e-15);
    assert_true(carry(zero, zero, 1, &head, &rs_bounds_exact).lo < 1e-12);
}

/* ---- C7, C8 ---- */

static void recursion(void **state)
{
    (void)state;
    double worst = 0, skips = 0;
    for (int t = property_start(100000, 21000000); property_next(&t);) {
        rs_random random = property_random();
        small_layer layer;
        draw_layer(&layer, &random, false);
        double skip = t % 2 ? rs_random_normal(&random) : 0;
        double ratio = recursion_ratio(&layer, skip, &rs_bounds_exact);
        worst = property_worst(ratio);
        if (t % 2) skips = fmax(skips, ratio);
    }
    print_message("  C7: largest ratio %.4f (with a skip %.4f)\n", worst, skips);
    property_holds(1 + 1e-9);
    assert_true(skips > 0.95);
    /* loose without a skip: the constant by its value */
    rs_bound_constants small = rs_bounds_exact;
    small.perturbation_factor *= 0.95;
    rs_head_sums head = {.qk_one = 1, .w_one = 1, .w_inf = 1, .range = NAN};
    rs_recursion_step step = {&head, 1, 0, 1, 1, 1};
    double exact = rs_recursion_bound(-20, &step, &rs_bounds_exact);
    assert_true(fabs(exact - (-60 + log10(2))) < 1e-9);
    assert_true(fabs(rs_recursion_bound(-20, &step, &small) - exact) > 0.01);
    /* the range that the weights allow, 2 |W_QK|_1 q = 1/2 at q = 1/4: q' = K(1/2) q^3 */
    double k = expm1(0.5) / 0.5 + expm1(1) / 1;
    double quarter = rs_recursion_bound(log10(0.25), &step, &rs_bounds_exact);
    assert_true(fabs(quarter - log10(k / 64)) < 1e-9);
    /* rounded up, and by no more than is said */
    assert_true(quarter > log10(k / 64) && quarter < log10(k / 64) + 2e-11);
    head = (rs_head_sums){.qk_one = 1e-200, .w_one = 1e-200, .w_inf = 1e-200, .range = NAN};
    /* not 0, whose log is −∞ */
    assert_true(rs_recursion_bound(0, &step, &rs_bounds_exact) >= -800);
}

/* docs/theory/corrections.md, 12: X = (1,0,0,0), W = 0, λ = 1: median centre 1, mean-centred
 * 1.125. */
static void centre_matters(void **state)
{
    (void)state;
    double mean_one = 0.75 + 3 * 0.25, mean_inf = 0.75;
    double about_median = 1, about_mean = sqrt(mean_one * mean_inf);
    assert_true(fabs(about_mean * about_mean - 1.125) < 1e-15);
    assert_true(about_mean > about_median);
    assert_true(about_mean <= rs_centre_factor(4, &rs_bounds_exact) * about_median);
    double worst = 0;
    for (int t = property_start(100000, 22000000); property_next(&t);) {
        rs_random random = property_random();
        worst = property_worst(centre_ratio(&random, &rs_bounds_exact));
    }
    property_holds(1 + 1e-12);
    assert_true(worst > 0.8);
    /* its tight case: one column, one row far out, about the median 0 */
    int n = 1000;
    double ratio = sqrt((1 - 1.0 / n + (n - 1.0) / n) * (1 - 1.0 / n));
    assert_true(ratio <= rs_centre_factor(n, &rs_bounds_exact));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants),
        cmocka_unit_test(depth_formula),
        cmocka_unit_test(gamma_extremal),
        cmocka_unit_test(total_variation),
        cmocka_unit_test(total_variation_tight),
        cmocka_unit_test(total_variation_rigorous),
        cmocka_unit_test(perturbation_sum),
        cmocka_unit_test(signed_step_fails),
        cmocka_unit_test(contraction),
        cmocka_unit_test(norm_factor),
        cmocka_unit_test(lipschitz_constants),
        cmocka_unit_test(mlp_lipschitz),
        cmocka_unit_test(diameter_theorem),
        cmocka_unit_test(diameter_tight),
        cmocka_unit_test(positions_break_the_bilinear_form),
        cmocka_unit_test(causal_masks_need_tau),
        cmocka_unit_test(skip_interval),
        cmocka_unit_test(skip_can_reach_zero),
        cmocka_unit_test(recursion),
        cmocka_unit_test(centre_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
