/*
 * test_deviation.c: C9: two states that are close stay within the bound behind a norm, an MLP,
 * attention and a sum; and so does τ, and so do stds. The perturbations are far above rounding, so
 * the loops of bounds_layer.h are exact enough to compare with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bounds_layer.h"
#include "certify/certify.h"
#include "property.h"

enum { INSTANCES = 100000 };

/* y = x + e, |e| at most `size`, often exactly. */
static void perturb(double *y, const double *x, int d, double size, rs_random *random)
{
    double e[16], norm = 0;
    for (int k = 0; k < d; k++)
        e[k] = rs_random_normal(random), norm += e[k] * e[k];
    norm = sqrt(norm) / (rs_random_uniform(random) < 0.5 ? 1 : rs_random_uniform(random));
    for (int k = 0; k < d; k++)
        y[k] = x[k] + size * e[k] / norm;
}

static void norms(void **state)
{
    (void)state;
    double worst = 0;
    for (int t = property_start(INSTANCES, 31000000); property_next(&t);) {
        rs_random random = property_random();
        int d = 2 + (int)(rs_random_uniform(&random) * 5);
        bool centred = t % 2;
        double x[6], y[6], g[6], largest = 0, size = pick(&random, 1e-6, 0.3);
        double eps = t % 3 ? 0 : pick(&random, 1e-6, 1), low;
        for (int k = 0; k < d; k++) {
            x[k] = rs_random_normal(&random);
            g[k] = t % 5 ? 1 : rs_random_normal(&random);
            largest = fmax(largest, fabs(g[k]));
        }
        perturb(y, x, d, size, &random);
        rs_norm_site site = {
            largest, 0,  layer_std(x, d, eps, centred) * (1 - 1e-14), length(x, d) * (1 + 1e-14),
            d,       eps};
        double bound = rs_deviation_norm(&low, &site, size * (1 + 1e-14));
        assert_true(layer_std(y, d, eps, centred) >= low * (1 - 1e-13));
        layer_norm(x, d, g, eps, centred);
        layer_norm(y, d, g, eps, centred);
        if (isfinite(bound) && low > 1e-4) worst = property_worst(distance(x, y, d) / bound);
    }
    print_message("  norms: largest ratio %.4f\n", worst);
    property_holds(1);
    assert_true(worst > 0.9);
    double low;
    rs_norm_site flat = {1, 0, 0.1, 1, 4, 0};
    assert_true(isinf(rs_deviation_norm(&low, &flat, 1)) && low == 0);
}

static void mlps(void **state)
{
    (void)state;
    double worst = 0;
    for (int t = property_start(INSTANCES, 32000000); property_next(&t);) {
        rs_random random = property_random();
        small_mlp m;
        double x[WIDTH], y[WIDTH], fx[WIDTH], fy[WIDTH], size = pick(&random, 1e-6, 1);
        draw_mlp(&m, &random);
        for (int k = 0; k < m.d; k++)
            x[k] = rs_random_normal(&random);
        perturb(y, x, m.d, size, &random);
        run_mlp(fx, x, &m);
        run_mlp(fy, y, &m);
        rs_branch_norms norms = {.mlp = mlp_bound(&m)};
        norms.up_fro = length(m.up, m.width * m.d) + 1e-12;
        norms.gate_fro = length(m.gate, m.width * m.d) + 1e-12;
        norms.down_fro = length(m.down, m.width * m.d) + 1e-12;
        norms.up_bias = length(m.b, m.width);
        norms.gate_bias = length(m.bg, m.width);
        double longest = (length(x, m.d) + size) * (1 + 1e-12);
        rs_op_site site = {.longest = longest, .deviation = size * (1 + 1e-14), .dim = m.d};
        rs_mlp_op op = {.activation = (rs_activation)m.activation, .width = m.width};
        double lipschitz = rs_mlp_lipschitz(&norms.mlp, longest, &rs_bounds_exact);
        double bound = rs_deviation_mlp(&op, &norms, &site, lipschitz, &rs_bounds_exact);
        worst = property_worst(distance(fx, fy, m.d) / bound);
    }
    print_message("  MLPs: largest ratio %.4f\n", worst);
    property_holds(1);
    assert_true(worst > 0.5);
}

/* Σ_h P_h X W_h, absolute; tau [heads]. */
static void attend(double *y, double *tau, const small_layer *l)
{
    memset(y, 0, sizeof(double) * TOKENS * WIDTH);
    for (int h = 0; h < l->heads; h++) {
        double p[TOKENS * TOKENS], rows[TOKENS], mean[TOKENS];
        rs_mixing_contraction got;
        mixing(p, l, h);
        rs_mixing_contraction_of(&got, p, NULL, l->n, l->n, l->n, rows, mean);
        tau[h] = got.tau;
        for (int i = 0; i < l->n; i++)
            for (int j = 0; j < l->n; j++)
                for (int k = 0; k < l->d; k++)
                    for (int c = 0; c < l->d; c++)
                        y[i * l->d + c] +=
                            p[i * l->n + j] * l->x[j * l->d + k] * l->w[h][k * l->d + c];
    }
}

static void attention(void **state)
{
    (void)state;
    double worst = 0, worst_tau = 0;
    for (int t = property_start(INSTANCES, 33000000); property_next(&t);) {
        rs_random random = property_random();
        small_layer l, near;
        draw_layer(&l, &random, false);
        l.causal = t % 3 == 0;
        near = l;
        double size = pick(&random, 1e-6, 1), longest = 0, slack[HEADS];
        for (int i = 0; i < l.n; i++) {
            perturb(near.x + i * l.d, l.x + i * l.d, l.d, size, &random);
            longest = fmax(longest, length(l.x + i * l.d, l.d));
        }
        rs_head_norms heads[HEADS] = {0};
        for (int h = 0; h < l.heads; h++) { /* W_Q = W_QK, W_K = I, W_V = W_h, W_O = I */
            double identity = sqrt(l.d) * (1 + 1e-15);
            heads[h].qk.left_two = two_norm(l.qk[h], l.d, l.d);
            heads[h].qk.left_fro = length(l.qk[h], l.d * l.d) + 1e-12;
            heads[h].qk.right_two = 1;
            heads[h].qk.right_fro = identity;
            heads[h].q_bias = length(l.key_bias[h], l.d);
            heads[h].w.two = heads[h].w.left_two = two_norm(l.w[h], l.d, l.d);
            heads[h].w.left_fro = length(l.w[h], l.d * l.d) + 1e-12;
            heads[h].w.right_two = 1;
            heads[h].w.right_fro = identity;
        }
        rs_branch_norms norms = {.heads = heads, .n_heads = l.heads};
        rs_attention_op op = {.heads = l.heads,
                              .kv_heads = l.heads,
                              .head_dim = l.d,
                              .value_dim = l.d,
                              .causal = l.causal,
                              .scale = 1,
                              .temperature = 1,
                              .mix_softmax = 1};
        rs_op_site site = {.longest = longest * (1 + 1e-14),
                           .deviation = size * (1 + 1e-14),
                           .diameter = diameter(l.x, l.n, l.d) * (1 + 1e-14),
                           .dim = l.d,
                           .tokens = l.n};
        double bound = rs_deviation_attention(slack, &op, &norms, &site);
        double y[TOKENS * WIDTH], other[TOKENS * WIDTH], tau[HEADS], other_tau[HEADS], most = 0;
        attend(y, tau, &l);
        attend(other, other_tau, &near);
        for (int i = 0; i < l.n; i++)
            most = fmax(most, distance(y + i * l.d, other + i * l.d, l.d));
        worst = fmax(worst, most / bound);
        property_worst(most / bound);
        for (int h = 0; h < l.heads; h++)
            worst_tau = fmax(worst_tau, (other_tau[h] - tau[h]) / slack[h]);
        property_worst(worst_tau);
        op.q_norm.kind = RS_NORM_RMSNORM; /* its inside is not seen */
        assert_true(isinf(rs_deviation_attention(slack, &op, &norms, &site)));
    }
    print_message("  attention: largest ratio %.4f, of tau %.4f\n", worst, worst_tau);
    property_holds(1);
    assert_true(worst > 0.3 && worst_tau > 0.2);
}

/* Where lengths leave the doubles nothing is known, and that is +∞, never NaN. */
static void unknown(void **state)
{
    (void)state;
    double slack, low;
    rs_head_norms heads[] = {{.w = {.two = 5, .left_two = 1, .left_fro = 1, .right_two = 1}},
                             {.v_bias = 1}}; /* the second reads nothing: 0·∞ */
    rs_attention_op op = {.heads = 1,
                          .kv_heads = 1,
                          .head_dim = 4,
                          .value_dim = 4,
                          .scale = 1,
                          .temperature = 1,
                          .mix_softmax = 1};
    rs_op_site site = {.longest = INFINITY, .diameter = INFINITY, .dim = 4, .tokens = 3};
    for (int h = 0; h < 2; h++) {
        rs_branch_norms norms = {.heads = &heads[h], .n_heads = 1};
        assert_true(rs_deviation_attention(&slack, &op, &norms, &site) == INFINITY);
    }
    rs_branch_norms mlp = {.mlp = {.activation = RS_ACT_RELU, .down_two = 2}};
    rs_mlp_op mlp_op = {.activation = RS_ACT_RELU, .width = 4};
    assert_true(rs_deviation_mlp(&mlp_op, &mlp, &site, 0, &rs_bounds_exact) == INFINITY);
    assert_true(rs_deviation_sum(0, INFINITY, 1, 1, 1, 1) == INFINITY);
    rs_norm_site norm = {.least_std = 1, .longest = INFINITY, .dim = 4, .epsilon = 1e-5};
    assert_true(rs_deviation_norm(&low, &norm, 0) == INFINITY);
}

/* A map's own rounding is there however far the rows may have moved: where W_V·W_O = 0 and f' = 0
 * nothing else is left of it, and a difference of two large bounds would lose it. */
static void rounding_stays(void **state)
{
    (void)state;
    double slack, far[] = {0, 1, 1e20};
    rs_head_norms head = {.w = {.left_two = 1, .left_fro = 1, .right_two = 1, .right_fro = 1},
                          .v_bias = 1};
    rs_branch_norms attention = {.heads = &head, .n_heads = 1};
    rs_attention_op op = {.heads = 1,
                          .kv_heads = 1,
                          .head_dim = 4,
                          .value_dim = 4,
                          .scale = 1,
                          .temperature = 1,
                          .mix_softmax = 1};
    rs_branch_norms mlp = {.mlp = {.activation = RS_ACT_RELU,
                                   .up_two = 1,
                                   .down_two = 1,
                                   .gate_two = 1,
                                   .up_row = 1,
                                   .gate_row = 1},
                           .up_fro = 1,
                           .gate_fro = 1};
    double least[3] = {0};
    for (int i = 0; i < 3; i++) {
        rs_op_site site = {.longest = 1, .deviation = far[i], .dim = 4, .tokens = 3};
        double bounds[3] = {rs_deviation_attention(&slack, &op, &attention, &site)};
        for (int gated = 0; gated < 2; gated++) {
            rs_mlp_op mlp_op = {.activation = RS_ACT_RELU, .width = 4};
            mlp.mlp.gated = gated != 0;
            bounds[1 + gated] = rs_deviation_mlp(&mlp_op, &mlp, &site, 0, &rs_bounds_exact);
        }
        for (int k = 0; k < 3; k++) {
            least[k] = i ? least[k] : bounds[k];
            assert_true(least[k] >= 6 * 0x1p-53 && bounds[k] >= least[k]);
        }
    }
}

static void sums(void **state)
{
    (void)state;
    double bound = rs_deviation_sum(-2, 0.5, 1, 3, 0.25, 1);
    assert_true(bound >= 1.75 && bound < 1.75 * (1 + 1e-11));
    bound = rs_deviation_sum(1, 0, 8, 1, 0, 8); /* rounding alone: at least u of the result */
    assert_true(bound >= 16 * 0x1p-53 && bound < 1e-14);
}

/* The main terms by value, where rounding is nothing beside them: a search does not see 5 % of a
 * bound that is loose. */
static void main_terms(void **state)
{
    (void)state;
    double low;
    rs_norm_site norm = {.largest_gain = 3, .least_std = 2, .longest = 1e-9, .dim = 4};
    double bound = rs_deviation_norm(&low, &norm, 0.4); /* σ − ε/√d = 1.8 */
    assert_true(fabs(low / 1.8 - 1) < 1e-12 && fabs(bound / (3 * 0.4 / 1.8) - 1) < 1e-10);

    /* a deviation as large as the rows: √ε is left, and rows are no longer than g√d
     * (docs/theory/corrections.md, 2) */
    norm.epsilon = 0.04, norm.least_std = 1;
    bound = rs_deviation_norm(&low, &norm, 5);
    assert_true(fabs(low / 0.2 - 1) < 1e-12 && fabs(bound / (2 * 3 * 2) - 1) < 1e-10);
    bound = rs_deviation_norm(&low, &norm, 0.05);
    assert_true(fabs(low / 0.975 - 1) < 1e-12 && fabs(bound / (3 * 0.05 / 0.975) - 1) < 1e-10);

    /* tokens 0 and 1 that may both be 0.1 nearer to each other */
    assert_true(fabs(rs_deviation_diameter(1, 4, 0.1) / 0.8 - 1) < 1e-6);
    assert_true(rs_deviation_diameter(1, 4, 0.1) <= 0.8);

    rs_branch_norms norms = {.mlp = {.activation = RS_ACT_RELU, .up_two = 1, .down_two = 2}};
    rs_mlp_op mlp_op = {.activation = RS_ACT_RELU, .width = 4};
    rs_op_site site = {.longest = 1, .deviation = 0.01, .diameter = 0.1, .dim = 4, .tokens = 3};
    bound = rs_deviation_mlp(&mlp_op, &norms, &site, 2, &rs_bounds_exact);
    assert_true(fabs(bound / 0.02 - 1) < 1e-10);

    /* ‖W_Q‖ = 2, ‖W_K‖ = 3, ‖W_h‖ = 5, ‖x‖ ≤ 1, ε = .01, δ = .1: the range is
     * 2ε(3δ + 2·3ε) + 2(2 + 2ε)3ε; t = range/4, slack 2t, deviation 5(tδ + ε) */
    rs_head_norms head = {.qk = {.left_two = 2, .right_two = 3}, .w = {.two = 5, .right_two = 1}};
    rs_attention_op op = {.heads = 1,
                          .kv_heads = 1,
                          .head_dim = 4,
                          .value_dim = 4,
                          .scale = 1,
                          .temperature = 1,
                          .mix_softmax = 1};
    double slack, tv = 0.25 * (0.02 * (0.3 + 0.06) + 2 * 2.02 * 0.03);
    norms = (rs_branch_norms){.heads = &head, .n_heads = 1};
    bound = rs_deviation_attention(&slack, &op, &norms, &site);
    assert_true(fabs(slack / (2 * tv) - 1) < 1e-10);
    assert_true(fabs(bound / (5 * (tv * 0.1 + 0.01)) - 1) < 1e-10);

    /* QK-norm of gains 2 and 3 over d = 4, ε = 1: queries 4 and keys 6 long, their deviations
     * 2·2ε/1 and 3·3ε/1; no key may be left out, so that the range is that of two entries */
    op.q_norm = op.k_norm = (rs_norm_op){.kind = RS_NORM_RMSNORM, .dim = 4, .eps = 1};
    norms.q_norm = (rs_gain_norms){.largest = 2};
    norms.k_norm = (rs_gain_norms){.largest = 3};
    site.deviation = 1e-4;
    double q = 2 * 2e-4, k = 3 * 3e-4;
    tv = 0.25 * 2 * (q * (6 + 2 * k) + (4 + q) * k);
    rs_deviation_attention(&slack, &op, &norms, &site);
    assert_true(fabs(slack / (2 * tv) - 1) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),          cmocka_unit_test(mlps),    cmocka_unit_test(attention),
        cmocka_unit_test(sums),           cmocka_unit_test(unknown), cmocka_unit_test(main_terms),
        cmocka_unit_test(rounding_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
