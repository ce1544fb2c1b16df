/*
 * test_gradients_chunked.c: gradients of mixers that are scanned in chunks: Mamba-2, linear attention. Drawn networks of each are held against central
 * differences of a loss that the test computes from the forward pass, texts of one token and of more
 * than two chunks among them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "linear_builder.h"

#include "gradient_mixers.h"

static void agrees_with_differences_ssd(void **state)
{
    (void)state;
    agree("Mamba-2", ssd_of, 64, 20000, 220);
}

/* Decays that a difference can step away from on both sides. */
static rs_branch linear_drawn(built *b, int64_t d)
{
    static const double some[] = {0.5, 0.97, 0.03, 0.8, 0.98, 0.985};
    rs_branch branch = around_of(b, d, RS_BRANCH_LINEAR);
    linear_of(b, &branch.linear, d);
    for (int32_t h = 0; branch.linear.decay && h < branch.linear.heads; h++)
        ((double *)(uintptr_t)branch.linear.decay->data)[h] = some[draw(b, 0, 5)];
    if (chance(b, 0.5) && branch.linear.norm.kind != RS_NORM_NONE)
        branch.linear.norm.gain = tensor(b, RS_F32, branch.linear.norm.dim, 1, 0.2);
    return branch;
}

static void agrees_with_differences_linear(void **state)
{
    (void)state;
    agree("linear attention", linear_drawn, 128, 21000, 220);
}

/* At decays of 0 and 1 a difference cannot step to both sides: gradients there are those close by. */
static void ends_of_decays_are_limits(void **state)
{
    static const double ends[2][2] = {{0, 1e-9}, {1, 1 - 1e-9}};
    (void)state;
    for (int t = property_start(60, 22500); property_next(&t);) {
        told_all *all[2];
        built *b = mixers_new(property_seed(), t % 8 == 0 ? 150 : 20, linear_drawn);
        for (int k = 0; k < 2; k++) {
            for (int32_t l = 0; l < b->network.n_layers; l++) {
                const rs_linear_op *op = &b->layers[l].branches[0].linear;
                double end = ends[own_decay_cancels(op, 1) || t % 2 == 0][k];
                for (int32_t h = 0; op->decay && h < op->heads; h++)
                    ((double *)(uintptr_t)op->decay->data)[h] = end;
            }
            all[k] = gradients_in(b, RS_PRECISION_F64, 0);
        }
        assert_int_equal(further_apart("ends of decays", all[0], all[1], NULL, 1e-5), 0);
        told_free(all[0]);
        told_free(all[1]);
        built_free(b);
    }
    property_holds(1);
}

/* Also of decays so small that entries of the matrix underflow. */
static void gradients_of_small_decays_are_finite(void **state)
{
    (void)state;
    for (int t = property_start(60, 22600); property_next(&t);) {
        built *b = mixers_new(property_seed(), t % 8 == 0 ? 150 : 20, linear_drawn);
        for (int32_t l = 0; l < b->network.n_layers; l++) {
            rs_linear_op *op = &b->layers[l].branches[0].linear;
            if (op->causal) op->decay = decays_of(b, op);
        }
        told_all *all = gradients_in(b, RS_PRECISION_F64, 0);
        assert_int_equal(further_apart("small decays", all, all, NULL, 0), 0);
        told_free(all);
        built_free(b);
    }
    property_holds(1);
}

/* A gate that is held has no gradient, and what stands behind and beside it has the same. */
static void held_gates_have_no_gradient(void **state)
{
    int gates = 0;
    (void)state;
    for (int t = property_start(60, 22700); property_next(&t);) {
        built *b = mixers_new(property_seed(), 20, linear_drawn);
        b->network.n_layers = 1;
        told_all *free_one = gradients_in(b, RS_PRECISION_F64, 0);
        told_all *held = gradients_in(b, RS_PRECISION_F64, RS_HOLD_GATE);
        for (int i = 0; i < held->n; i++) {
            const rs_parameter *p = &held->items[i].parameter;
            size_t n = (size_t)(p->out * p->in);
            bool gate = strcmp(p->name, "gate") == 0;
            if (strcmp(p->name, "before") == 0) continue;
            gates += gate && norm_of_all(free_one->items[i].values, NULL, n) > 0;
            assert_true(norm_of_all(held->items[i].values, gate ? NULL : free_one->items[i].values,
                                    n) == 0);
        }
        told_free(free_one);
        told_free(held);
        built_free(b);
    }
    assert_true(gates > 0);
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_differences_ssd),
        cmocka_unit_test(agrees_with_differences_linear),
        cmocka_unit_test(ends_of_decays_are_limits),
        cmocka_unit_test(gradients_of_small_decays_are_finite),
        cmocka_unit_test(held_gates_have_no_gradient),
    };
    return cmocka_run_group_tests_name("gradients_chunked", tests, NULL, NULL);
}
