/* test_predict_maps.c: maps of activations against double sums with 30 digits
 * (tests/oracle/make_predict_golden.py), Price's theorem and ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "predict/activation_maps.h"
#include "predict_support.h"

static rs_activation_map *map_at(rs_gauss_kind kind, double q)
{
    rs_activation_map *map = NULL;
    OK(rs_activation_map_open(&map, kind, &err));
    assert_true(rs_activation_map_at(map, log(q)));
    return map;
}

static void maps_are_exact(void **state)
{
    (void)state;
    json_t *golden = load_golden("maps.json");
    size_t i;
    json_t *item;
    json_array_foreach(golden, i, item)
    {
        rs_activation_moments m;
        const char *name = text_of(item, "kind");
        rs_activation_map *map = map_at(kind_of(name), expected_of(item, "q"));
        double square = expected_of(item, "square"), slope = expected_of(item, "slope");
        double gap = expected_of(item, "gap"), slope_gap = expected_of(item, "slope_gap");
        rs_activation_map_moments(&m, map, log(expected_of(item, "e")));
        is_near_ln(name, m.ln_square, square, 1e-12);
        is_near_ln(name, m.ln_gap, gap, 1e-12);
        assert_near(name, m.cosine, 1 - gap / square, 0, 1e-12);
        is_near(name, m.slope, slope, 1e-12);
        assert_near(name, m.slope_both, slope - slope_gap, 0, 1e-12);
        is_near_ln(name, m.ln_slope_gap, slope_gap, 1e-11);
        rs_activation_map_close(map);
    }
    json_decref(golden);
}

static void homogeneous_maps_are_closed(void **state)
{
    (void)state;
    rs_activation_moments m;
    rs_activation_map *map = map_at(RS_GAUSS_RELU, 2);
    rs_activation_map_moments(&m, map, log(0.5));
    is_near("kappa(1/2)", m.cosine, .6089977810442293, 1e-14);
    is_near_ln("square", m.ln_square, 1, 1e-15);
    is_near("both slopes", m.slope_both, 1.0 / 3, 1e-15);
    rs_activation_map_moments(&m, map, log(2));
    assert_near("opposite", m.cosine, 0, 0, 1e-15);
    is_near_ln("opposite slopes", m.ln_slope_gap, 0.5, 1e-15);
    /* far below the doubles: 1 − κ = e, and θ = √(2e) */
    rs_activation_map_moments(&m, map, -3000);
    is_near("gap", m.ln_gap, -3000, 1e-15);
    is_near("angle", m.ln_slope_gap, -1500 + log(2) / 2 - log(2 * 3.14159265358979323846), 1e-15);
    rs_activation_map_close(map);
    map = map_at(RS_GAUSS_LINEAR, 3);
    rs_activation_map_moments(&m, map, log(1.25));
    is_near("linear", m.cosine, -0.25, 1e-15);
    assert_true(m.slope == 1 && m.slope_both == 1 && m.ln_slope_gap == -INFINITY);
    rs_activation_map_close(map);
    /* the series of sin θ − θ cos θ meets the function */
    is_near("series", rs_relu_gap_ratio(0.12242), rs_relu_gap_ratio(0.122415), 1e-5);
    is_near("all of it", rs_relu_gap_ratio(2), 0.5, 1e-15);
}

/* d/dr E φφ = q E φ'φ': gaps are integrals of slopes (Simpson's rule), slope gaps their differences. */
static void gaps_are_integrals_of_slopes(void **state)
{
    (void)state;
    static const double qs[] = {1e-3, 0.7, 9, 25};
    for (int k = 0; k < RS_GAUSS_KINDS * 4; k++) {
        double q = qs[k % 4], sum = 0;
        enum { STEPS = 400 };
        rs_activation_map *map = map_at((rs_gauss_kind)(k / 4), q);
        rs_activation_moments m, end;
        for (int i = 0; i <= STEPS; i++) {
            /* e = x²: ReLU's slope has a root at e = 0 */
            double x = 0.9 * i / STEPS, weight = i == 0 || i == STEPS ? 1 : i % 2 ? 4 : 2;
            rs_activation_map_moments(&m, map, log(x * x));
            assert_near("difference", m.slope - m.slope_both, exp(m.ln_slope_gap), 0, 1e-13);
            sum += weight * 2 * x * m.slope_both * 0.9 / STEPS / 3;
        }
        rs_activation_map_moments(&end, map, 2 * log(0.9));
        is_near("Price's theorem", q * sum, exp(end.ln_gap), 1e-8);
        rs_activation_map_close(map);
    }
}

static void tiny_and_huge_variances(void **state)
{
    (void)state;
    for (int k = RS_GAUSS_GELU; k < RS_GAUSS_KINDS; k++) {
        rs_activation_map *map = NULL;
        rs_activation_moments m;
        OK(rs_activation_map_open(&map, (rs_gauss_kind)k, &err));
        double slope = k == RS_GAUSS_SIN || k == RS_GAUSS_TANH ? 1
                       : k == RS_GAUSS_SIGMOID                 ? 1 / 16.0
                                                               : 0.25;
        assert_true(rs_activation_map_at(map, -30000));
        rs_activation_map_moments(&m, map, -20000);
        is_near("slope at 0", m.slope, slope, 1e-14);
        is_near("gap at 0", m.ln_gap, -50000 + log(slope), 1e-14);
        if (k == RS_GAUSS_SIGMOID)
            is_near_ln("sigmoid at 0", m.ln_square, 0.25, 1e-14);
        else
            is_near("square at 0", m.ln_square, -30000 + log(slope), 1e-14);
        assert_false(rs_activation_map_at(map, NAN));
        bool far = rs_activation_map_at(map, 40000);
        assert_true(far == (k == RS_GAUSS_GELU || k == RS_GAUSS_SIN));
        rs_activation_map_close(map);
    }
    rs_activation_map *map = map_at(RS_GAUSS_GELU, 1e11), *relu = map_at(RS_GAUSS_RELU, 1e11);
    rs_activation_moments m, of_relu;
    rs_activation_map_moments(&m, map, log(0.3));
    rs_activation_map_moments(&of_relu, relu, log(0.3));
    is_near("GELU far out", m.ln_gap, of_relu.ln_gap, 1e-10);
    rs_activation_map_close(map);
    rs_activation_map_close(relu);
}

static void activations_of_networks_have_maps(void **state)
{
    (void)state;
    rs_gauss_kind kind;
    assert_true(rs_gauss_of_activation(&kind, RS_ACT_SILU) && kind == RS_GAUSS_SILU);
    assert_true(rs_gauss_of_activation(&kind, RS_ACT_GELU) && kind == RS_GAUSS_GELU);
    assert_true(rs_gauss_of_activation(&kind, RS_ACT_SIN) && kind == RS_GAUSS_SIN);
    assert_true(rs_gauss_of_activation(&kind, RS_ACT_SIGMOID) && kind == RS_GAUSS_SIGMOID);
    assert_false(rs_gauss_of_activation(&kind, RS_ACT_RELU2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_are_exact),
        cmocka_unit_test(homogeneous_maps_are_closed),
        cmocka_unit_test(gaps_are_integrals_of_slopes),
        cmocka_unit_test(tiny_and_huge_variances),
        cmocka_unit_test(activations_of_networks_have_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
