/* test_predict_gram.c: masked networks against sums over all weights of pairs of rows
 * (tests/oracle/make_predict_golden.py), and against the recursion without masks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "predict/activation_curve.h"
#include "predict/gram_kernels.h"
#include "predict/gram_mixing.h"
#include "predict/theory_run.h"
#include "predict_support.h"
#include "property.h"

static same_layers same;
static rs_theory_row rows[LAYERS_MOST + 1], others[LAYERS_MOST + 1];
static const rs_theory_settings annealed = {.annealed = true}, plain_settings;

/* ---- sums by tables ---- */

enum { N = 21 };
/* Who sees whom: keys up to itself, all alike or by rates and sizes; or by any numbers. */
typedef enum mask { ALIKE, RATED, TILTED, MASKS } mask;
typedef struct instance {
    mask mask;
    double pull[N * N], apart[N * N], tilt[N * N], given[N * N];
    double rate[N], size[N];
} instance;

static void draw(instance *x, rs_random *random)
{
    /* pulls of all sizes, and of nearly one size */
    double reach = 20 * rs_random_uniform(random), least = rs_random_uniform(random);
    double wide = rs_random_uniform(random) < 0.5 ? 0.01 : 0.7;
    if (rs_random_uniform(random) < 0.3) least = 0.999;
    x->mask = (mask)(rs_random_uniform(random) * MASKS);
    for (int i = 0; i < N; i++) {
        x->rate[i] = 2 + wide * rs_random_uniform(random);
        x->size[i] = -wide * rs_random_uniform(random);
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            bool sees = x->mask == TILTED ? abs(i - j) < 4 : j <= i;
            double tilt = x->mask == TILTED  ? 0.5 + rs_random_uniform(random)
                          : x->mask == RATED ? exp(x->rate[i] * x->size[j])
                                             : 1;
            x->tilt[i * N + j] = sees ? tilt : 0;
            if (j > i) continue;
            x->pull[i * N + j] = x->pull[j * N + i] =
                reach * (least + (1 - least) * rs_random_uniform(random));
            x->apart[i * N + j] = x->apart[j * N + i] = rs_random_uniform(random);
            if (i == j) x->apart[i * N + i] = x->mask == RATED ? 0.2 - x->size[i] : 0;
            x->given[i * N + j] = x->given[j * N + i] = rs_random_uniform(random);
        }
    }
}

/* Row i and row k by definition: their mean of apart, what a key has in common with itself, and their
 * part of what goes back. */
static double by_definition(double *shared, double *back, const instance *x, int i, int k)
{
    double total = 0, rest = 0;
    *shared = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int j = 0; j < N; j++) {
            for (int l = 0; l < N; l++) {
                double w = x->tilt[i * N + j] * x->tilt[k * N + l] *
                           exp(-x->pull[i * N + k] * x->apart[j * N + l]);
                if (pass == 1) back[j * N + l] += w / total * x->given[i * N + k];
                if (pass == 1) *shared += j == l ? w / total : 0;
                if (pass == 1) continue;
                total += w;
                rest += w * x->apart[j * N + l];
            }
        }
    }
    return rest / total;
}

static void check_instance(rs_gram_mixing *mixing, const instance *x, bool keeps)
{
    double rest[N * N], back[N * N], total[N * N], expected[N * N] = {0}, shared;
    rs_gram_law law = {.pull = x->pull, .apart = x->apart, .total = keeps ? total : NULL};
    if (x->mask == TILTED) law.tilt = x->tilt;
    if (x->mask == RATED) {
        law.rate = x->rate;
        law.size = x->size;
        assert_true(rs_gram_is_split(x->rate, x->size, N));
    }
    assert_true(rs_gram_gather(rest, mixing, &law));
    assert_true(rs_gram_scatter(back, mixing, &law, x->given));
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) {
            double mean = by_definition(&shared, expected, x, i, k);
            assert_near("rest", rest[i * N + k], mean, 1e-11, 1e-13);
            if (k > i) continue;
            assert_near("shared", rs_gram_shared(mixing, &law, i, k), shared, 1e-11, 1e-13);
        }
    }
    for (int i = 0; i < N * N; i++)
        assert_near("back", back[i], expected[i], 1e-11, 1e-12);
}

static void tables_sum_as_weights_do(void **state)
{
    (void)state;
    rs_gram_mixing *mixing = NULL;
    OK(rs_gram_mixing_open(&mixing, N, &err));
    for (int t = property_start(40, 7); property_next(&t);) {
        rs_random random = property_random();
        instance x;
        draw(&x, &random);
        for (const rs_gram_kernels *const *table = rs_gram_kernel_tables(); *table; table++) {
            rs_gram_kernels_use(*table);
            check_instance(mixing, &x, t % 2);
        }
    }
    property_holds(1);
    rs_gram_kernels_use(NULL);
    double pull[N * N], apart[N * N], rest[N * N];
    for (int i = 0; i < N * N; i++)
        pull[i] = apart[i] = 40.0 * i / N / N;
    rs_gram_law wide = {.pull = pull, .apart = apart};
    assert_false(rs_gram_gather(rest, mixing, &wide));
    assert_false(rs_gram_scatter(rest, mixing, &wide, apart));
    rs_gram_mixing_close(mixing);
}

/* ---- polynomials of activations ---- */

static void curves_are_the_maps(void **state)
{
    (void)state;
    enum { PAIRS = 40 };
    static const double squares[] = {1e-6, 0.3, 1, 20};
    static const double ranges[][2] = {
        {0, 1}, {0.6, 1.2}, {0.9, 0.9}, {1e-9, 1e-3}, {1, 1 + 1e-13}};
    double root[PAIRS], gaps[PAIRS], slopes[PAIRS];
    int fitted = 0;
    for (int k = 0; k < RS_GAUSS_KINDS * 4 * 5; k++) {
        rs_gauss_kind kind = (rs_gauss_kind)(k / 20);
        const double *range = ranges[k % 5];
        rs_activation_map *map = NULL;
        rs_activation_curve curve;
        OK(rs_activation_map_open(&map, kind, &err));
        assert_true(rs_activation_map_at(map, log(squares[k / 5 % 4])));
        for (int i = 0; i < PAIRS; i++)
            root[i] = range[0] + (range[1] - range[0]) * i / (PAIRS - 1);
        if (rs_activation_curve_fit(&curve, map, range[0], range[1])) {
            double gap, both, gap_most = 0, both_most = 0;
            fitted++;
            for (int i = 0; i < PAIRS; i++) {
                rs_activation_curve_at(&gap, &both, map, root[i]);
                gap_most = fmax(gap_most, gap);
                both_most = fmax(both_most, fabs(both));
            }
            for (const rs_gram_kernels *const *table = rs_gram_kernel_tables(); *table; table++) {
                rs_gram_kernels_use(*table);
                rs_activation_curve_gaps(gaps, &curve, root, PAIRS);
                rs_activation_curve_slopes(slopes, &curve, root, PAIRS);
                for (int i = 0; i < PAIRS; i++) {
                    rs_activation_curve_at(&gap, &both, map, root[i]);
                    assert_near("gap", gaps[i], gap, 0, 3e-13 * gap_most);
                    assert_near("both", slopes[i], both, 0, 3e-13 * both_most);
                }
            }
        }
        rs_activation_map_close(map);
    }
    rs_gram_kernels_use(NULL);
    assert_true(fitted >= RS_GAUSS_KINDS * 4 * 5 * 3 / 4);
}

/* ---- networks ---- */

static void check_case(const json_t *item)
{
    set_case(&same, item);
    OK(rs_theory_run(rows, &same.network, &annealed, &err));
    double d = (double)same.network.d;
    for (size_t l = 0; l <= (size_t)same.network.n_layers; l++) {
        is_near_ln("squares", rows[l].ln_square, d * cell(item, "forward", l, 0), 1e-10);
        is_near_ln("sum", rows[l].ln_sum, d * cell(item, "forward", l, 1), 1e-10);
    }
    /* E ΣA³ comes from a table here, and with it what comes back through logits */
    for (size_t l = 0; l < (size_t)same.network.n_layers; l++) {
        double value = cell(item, "backward", l, 0), query = cell(item, "backward", l, 2);
        bool last = l + 1 == (size_t)same.network.n_layers;
        is_near_ln("gV", rows[l].ln_value, value, last ? 1e-10 : 1e-6);
        is_near_ln("gO", rows[l].ln_output,
                   value * expected_of(item, "vv") / expected_of(item, "vo"), last ? 1e-10 : 1e-6);
        is_near_ln("dX", rows[l].ln_state, d * cell(item, "backward", l, 1), 1e-6);
        is_near_ln("gQ", rows[l].ln_query, query, 5e-6);
        is_near_ln("gK", rows[l].ln_key, query * expected_of(item, "vq") / expected_of(item, "vk"),
                   5e-6);
    }
}

static void masked_networks_are_sums_over_weights(void **state)
{
    (void)state;
    for (const rs_gram_kernels *const *table = rs_gram_kernel_tables(); *table; table++) {
        rs_gram_kernels_use(*table);
        check_golden("gram.json", check_case);
    }
    rs_gram_kernels_use(NULL);
}

/* A window that hides nothing is no mask: both recursions say the same. */
static void without_a_mask_both_recursions_agree(void **state)
{
    (void)state;
    static const char *const places[] = {"none", "pre", "post", "sandwich"};
    static const rs_gauss_kind kinds[] = {RS_GAUSS_RELU, RS_GAUSS_GELU, RS_GAUSS_SILU,
                                          RS_GAUSS_LINEAR};
    int whole = 0;
    for (int k = 0; k < 16; k++) {
        rs_theory_layer layer = plain_layer();
        layer.branches[0].scale = layer.branches[1].scale = 0.6;
        layer.branches[0].attention.uniform = k % 2 ? 0 : 0.3;
        layer.branches[1].mlp.kind = kinds[k / 4];
        layer.branches[1].mlp.gated = kinds[k / 4] == RS_GAUSS_SILU;
        for (int b = 0; b < 2; b++)
            set_norms(&layer.branches[b], places[k % 4], 1e-4);
        set_same(&same, &layer, 4, 9, 1 << 20);
        same.network.rho0 = 0.2;
        same.network.ln_square0 = -0.5;
        OK(rs_theory_run(others, &same.network, &(rs_theory_settings){.rough = true}, &err));
        for (int l = 0; l < 4; l++)
            same.layers[l].branches[0].attention.window = 9;
        OK(rs_theory_run(rows, &same.network, &plain_settings, &err));
        bool rough = false;
        for (int l = 0; l <= 4; l++) {
            /* ĉ/c comes from a table here; condensed attention is annealed, which it is not there */
            double most = rough ? 0.02 : 1e-5;
            assert_near("square", rows[l].ln_square, others[l].ln_square, 0, most);
            assert_near("apart", rows[l].ln_apart, others[l].ln_apart, 0, most);
            assert_near("sum", rows[l].ln_sum, others[l].ln_sum, 0, most);
            rough = rough || others[l].rough;
        }
        if (rough) continue; /* its gradients are of other states */
        whole++;
        is_near("keys", rows[0].keys, others[0].keys, 1e-5);
        for (int l = 0; l <= 4; l++) {
            if (isnan(others[l].ln_state)) continue;
            assert_near("dX", rows[l].ln_state, others[l].ln_state, 0, 1e-4);
            if (l == 4) continue;
            assert_near("gQ", rows[l].ln_query, others[l].ln_query, 0, 1e-4);
            assert_near("gK", rows[l].ln_key, others[l].ln_key, 0, 1e-4);
            assert_near("gV", rows[l].ln_value, others[l].ln_value, 0, 1e-4);
            assert_int_equal(rows[l].query, RS_FORMULA_GRAM_QUERIES);
        }
    }
    assert_true(whole >= 4);
}

static void collapse_is_followed_below_the_doubles(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    for (int b = 0; b < 2; b++)
        set_norms(&layer.branches[b], "post", 0);
    layer.branches[0].attention.causal = true;
    set_same(&same, &layer, 150, 8, 64);
    OK(rs_theory_run(rows, &same.network, &plain_settings, &err));
    for (int l = 0; l < 150; l++) {
        /* e falls in every layer, by a factor that changes slowly, down to rounding of norms */
        double fall = rows[l].ln_apart - rows[l + 1].ln_apart;
        assert_true(fall > 0 && isfinite(rows[l].ln_value));
        if (l > 10 && rows[l].ln_apart > log(1e-24))
            assert_near("fall", fall, rows[l - 1].ln_apart - rows[l].ln_apart, 0.05, 0);
    }
    assert_true(rows[150].ln_apart < log(1e-20));
}

static void refusals_of_masks(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    rs_theory_attention *op = &layer.branches[0].attention;
    op->causal = true;
    op->logit = 1e6;
    set_same(&same, &layer, 3, 8, 8);
    OK(rs_theory_run(rows, &same.network, &plain_settings, &err));
    assert_true(strstr(rows[1].note, "condensed") && isnan(rows[3].ln_square));
    op->logit = 0;
    layer.branches[1].mlp.kind = RS_GAUSS_TANH;
    layer.branches[1].mlp.up = 1;
    layer.branches[0].skip = 0; /* the first row keeps its size, the last is an eighth of it */
    set_same(&same, &layer, 3, 8, 8);
    OK(rs_theory_run(rows, &same.network, &plain_settings, &err));
    assert_true(strstr(rows[1].note, "differ too much in size") != NULL);
    layer.branches[1].refused = "no reason";
    set_same(&same, &layer, 3, 8, 8);
    OK(rs_theory_run(rows, &same.network, &plain_settings, &err));
    assert_string_equal(rows[0].note, "no reason");
    /* one token needs no mask */
    layer = plain_layer();
    layer.branches[0].attention.causal = true;
    set_same(&same, &layer, 2, 1, 8);
    OK(rs_theory_run(rows, &same.network, &plain_settings, &err));
    assert_true(isfinite(rows[0].ln_value) && rows[0].ln_query == -INFINITY);
}

static void equal_tokens_and_scale_zero(void **state)
{
    (void)state;
    rs_theory_layer layer = plain_layer();
    layer.branches[0].attention.causal = true;
    set_same(&same, &layer, 3, 6, 8);
    same.network.rho0 = 1;
    OK(rs_theory_run(rows, &same.network, &plain_settings, &err));
    assert_true(rows[3].ln_apart == -INFINITY && rows[3].rho == 1);
    layer.branches[0].scale = layer.branches[1].scale = 0;
    set_same(&same, &layer, 3, 6, 8);
    OK(rs_theory_run(rows, &same.network, &plain_settings, &err));
    is_near_ln("dX", rows[0].ln_state, 48, 1e-14);
    assert_true(rows[0].ln_value == -INFINITY && rows[0].ln_query == -INFINITY);
    assert_near("rho", rows[3].rho, 0, 0, 1e-14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_sum_as_weights_do),
        cmocka_unit_test(curves_are_the_maps),
        cmocka_unit_test(masked_networks_are_sums_over_weights),
        cmocka_unit_test(without_a_mask_both_recursions_agree),
        cmocka_unit_test(collapse_is_followed_below_the_doubles),
        cmocka_unit_test(refusals_of_masks),
        cmocka_unit_test(equal_tokens_and_scale_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
