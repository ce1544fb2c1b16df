/*
 * test_shaped_gains.c: derivatives by the three numbers of what attention applies to its values,
 * identity I + softmax P - uniform C: a loss that is affine in them is held against itself at other
 * numbers, and one token against what the three have in common there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"
#include "gradient_support.h"
#include "property.h"

/* A network of one attention without a norm behind it: <G, X> is affine in its three numbers. */
typedef struct one_attention {
    built *b;
    rs_attention_op *op;
    gradient_case c;
} one_attention;

static bool has_attention(built *b)
{
    for (int32_t l = 0; l < b->network.n_layers; l++)
        for (int32_t i = 0; i < b->layers[l].n_branches; i++)
            if (b->layers[l].branches[i].kind == RS_BRANCH_ATTENTION) {
                b->layers[0].branches[0] = b->layers[l].branches[i];
                return true;
            }
    return false;
}

/* False: the instance has no attention. */
static bool one_open(one_attention *o, uint64_t seed, int64_t longest)
{
    *o = (one_attention){.b = built_new(seed, longest)};
    if (!has_attention(o->b)) {
        built_free(o->b);
        return false;
    }
    rs_branch *branch = &o->b->layers[0].branches[0];
    o->b->network.n_layers = o->b->layers[0].n_branches = 1;
    branch->joins = false;
    branch->inside.kind = branch->after.kind = RS_NORM_NONE;
    branch->scale = 0.8;
    o->c =
        (gradient_case){.name = "one attention",
                        .batch = &o->b->batch,
                        .loss = {.kind = RS_LOSS_RANDOM, .weight = 1, .seed = 3, .at_state = true},
                        .plan = {.numbers = RS_NUMBERS_SHAPED},
                        .threads = 1};
    o->c.loose = loose_new(&o->b->network);
    o->op = &o->c.loose->network.layers[0].branches[0].attention;
    return true;
}

static void one_close(one_attention *o)
{
    loose_free(o->c.loose);
    built_free(o->b);
}

/* What a pass tells of the numbers, and the loss. */
typedef struct found {
    double by[3], loss, size;
} found;

static found found_at(one_attention *o, const double gains[3], rs_precision precision)
{
    found f = {.by = {NAN, NAN, NAN}};
    if (gains) o->op->mix_identity = gains[0];
    if (gains) o->op->mix_softmax = gains[1], o->op->mix_uniform = gains[2];
    told_all *all = gradients_of(&o->c, precision, &f.loss);
    for (int i = 0; i < all->n; i++)
        if (all->items[i].parameter.part >= RS_OF_IDENTITY)
            f.by[all->items[i].parameter.part - RS_OF_IDENTITY] = all->items[i].values[0];
    told_free(all);
    f.size = 1 + fabs(f.loss) + fabs(f.by[0]) + fabs(f.by[1]) + fabs(f.by[2]);
    return f;
}

static const double points[][3] = {{0.7, 1.3, 0.4}, {0, 1, 0}, {1, 0, 0}, {0, 0, -1}, {-2, 0.5, 3}};
enum { POINTS = sizeof points / sizeof *points };

static int differs_from(const found *a, const found *b, double tolerance)
{
    int wrong = 0;
    for (int g = 0; g < 3; g++)
        wrong += !(fabs(a->by[g] - b->by[g]) <= tolerance * (a->size + b->size));
    return wrong;
}

/* The derivatives are the same at all numbers, 0 among them, and the loss moves by them. */
static int check_affine(one_attention *o)
{
    found first = found_at(o, points[0], RS_PRECISION_F64);
    int wrong = 0;
    for (int k = 1; k < POINTS; k++) {
        found f = found_at(o, points[k], RS_PRECISION_F64);
        double moved = 0;
        for (int g = 0; g < 3; g++)
            moved += first.by[g] * (points[k][g] - points[0][g]);
        wrong += differs_from(&first, &f, 1e-11);
        wrong += !(fabs(f.loss - first.loss - moved) <= 1e-11 * (f.size + first.size));
    }
    return wrong;
}

static void are_slopes_of_an_affine_loss(void **state)
{
    (void)state;
    for (int t = property_start(120, 9100); property_next(&t);) {
        one_attention o;
        const rs_dropout dropout = {0.4, property_seed(), 7, 100};
        if (!one_open(&o, property_seed(), t % 20 == 0 ? 400 : 12)) continue;
        if (t % 3 == 0) o.b->batch.dropout = &dropout;
        assert_int_equal(check_affine(&o), 0);
        one_close(&o);
    }
    property_holds(1);
}

/* The matrix is a constant for them anyway; its gradient is not asked for here. */
static void do_not_hang_on_what_is_held(void **state)
{
    (void)state;
    for (int t = property_start(60, 9200); property_next(&t);) {
        one_attention o;
        if (!one_open(&o, property_seed(), t % 20 == 0 ? 400 : 12)) continue;
        const double *gains = points[t % POINTS];
        found free_ones = found_at(&o, gains, RS_PRECISION_F64);
        o.c.plan.hold = RS_HOLD_ATTENTION;
        found held = found_at(&o, gains, RS_PRECISION_F64);
        assert_int_equal(differs_from(&free_ones, &held, 1e-12), 0);
        one_close(&o);
    }
    property_holds(1);
}

/* A token that sees itself alone has P = C = I. */
static void agree_on_one_token(void **state)
{
    (void)state;
    for (int t = property_start(40, 9300); property_next(&t);) {
        one_attention o;
        if (!one_open(&o, property_seed(), 1)) continue;
        found f = found_at(&o, points[t % POINTS], RS_PRECISION_F64);
        bool one = !o.op->cross && !o.b->batch.images;
        if (one) assert_true(fabs(f.by[0] - f.by[1]) <= 1e-13 * f.size);
        if (one) assert_true(fabs(f.by[0] + f.by[2]) <= 1e-13 * f.size);
        one_close(&o);
    }
    property_holds(1);
}

/* The same bits for any number of threads, with recomputation and of one batch that is told at the
 * end, in both precisions. */
static void have_the_same_bits(void **state)
{
    (void)state;
    for (int t = property_start(40, 9400); property_next(&t);) {
        one_attention o;
        if (!one_open(&o, property_seed(), t % 20 == 0 ? 400 : 40)) continue;
        const double *gains = points[t % POINTS];
        const rs_precision precisions[] = {RS_PRECISION_F32, RS_PRECISION_F64};
        for (int p = 0; p < 2; p++) {
            o.c.threads = 1;
            o.c.plan = (rs_gradient_plan){.numbers = RS_NUMBERS_SHAPED};
            found first = found_at(&o, gains, precisions[p]);
            for (int k = 0; k < 4; k++) {
                o.c.threads = 1 + k % 3;
                o.c.plan.recompute = k >= 2;
                o.c.plan.several = k == 1;
                found f = found_at(&o, gains, precisions[p]);
                assert_memory_equal(f.by, first.by, sizeof f.by);
            }
        }
        one_close(&o);
    }
    property_holds(1);
}

/* ---- what is told ---- */

static void count_parts(const told_all *all, int counts[RS_OF_UNIFORM + 1])
{
    memset(counts, 0, (RS_OF_UNIFORM + 1) * sizeof *counts);
    for (int i = 0; i < all->n; i++)
        counts[all->items[i].parameter.part]++;
}

static void are_told_when_asked_for(void **state)
{
    (void)state;
    for (int t = property_start(8, 9500); property_next(&t);) {
        one_attention o;
        if (!one_open(&o, property_seed(), 6)) continue;
        for (unsigned numbers = 0; numbers < 8; numbers++)
            for (int several = 0; several < 2; several++) {
                int counts[RS_OF_UNIFORM + 1];
                double loss;
                o.c.plan.numbers = numbers;
                o.c.plan.several = several;
                told_all *all = gradients_of(&o.c, RS_PRECISION_F32, &loss);
                count_parts(all, counts);
                told_free(all);
                assert_int_equal(counts[RS_OF_SKIP], !(numbers & RS_NUMBERS_NO_SKIPS));
                assert_int_equal(counts[RS_OF_SCALE], !(numbers & RS_NUMBERS_NO_SCALES));
                for (int part = RS_OF_IDENTITY; part <= RS_OF_UNIFORM; part++)
                    assert_int_equal(counts[part], (numbers & RS_NUMBERS_SHAPED) != 0);
            }
        one_close(&o);
    }
    property_holds(1);
}

/* A branch that is not run. */
static void are_zero_behind_a_scale_of_zero(void **state)
{
    (void)state;
    for (int t = property_start(8, 9600); property_next(&t);) {
        one_attention o;
        if (!one_open(&o, property_seed(), 6)) continue;
        o.c.loose->network.layers[0].branches[0].scale = 0;
        found f = found_at(&o, NULL, RS_PRECISION_F64);
        assert_true(f.by[0] == 0 && f.by[1] == 0 && f.by[2] == 0);
        one_close(&o);
    }
    property_holds(1);
}

static void are_refused_in_the_residual_precision(void **state)
{
    (void)state;
    built *b = built_new(1, 6);
    const rs_gradient_plan plan = {.numbers = RS_NUMBERS_SHAPED};
    const rs_context context = {.threads = 1};
    rs_gradients *gradients = NULL;
    rs_error err = {0};
    b->network.n_layers = 0;
    assert_int_equal(rs_gradients_open(&gradients, &b->network, RS_PRECISION_RESIDUAL, &plan, NULL,
                                       0, &context, &err),
                     RS_E_UNSUPPORTED);
    assert_null(gradients);
    built_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_slopes_of_an_affine_loss),
        cmocka_unit_test(do_not_hang_on_what_is_held),
        cmocka_unit_test(agree_on_one_token),
        cmocka_unit_test(have_the_same_bits),
        cmocka_unit_test(are_told_when_asked_for),
        cmocka_unit_test(are_zero_behind_a_scale_of_zero),
        cmocka_unit_test(are_refused_in_the_residual_precision),
    };
    return cmocka_run_group_tests_name("gains of shaped attention", tests, NULL, NULL);
}
