/*
 * test_gradients_states.c: gradients of drawn mixers with a state, of short convolutions and of graphs,
 * held against central differences of a loss that the test computes from the forward pass, and in float
 * against double.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gradient_states.h"
#include "graph_reference.h"
#include "property.h"

static void agrees(const char *name, draw_mixer *mixer, int instances, int64_t longest)
{
    for (int t = property_start(instances, 100); property_next(&t);) {
        built *b = mixers_new(property_seed(), longest, mixer);
        assert_int_equal(check_network(name, &b->network, &b->batch, 1, property_seed()), 0);
        assert_int_equal(check_single(name, &b->network, &b->batch, property_seed()), 0);
        built_free(b);
    }
    property_holds(1);
}

static void short_convolutions(void **state)
{
    (void)state;
    agrees("short convolution", short_conv_of, 60, 20);
    agrees("short convolution", short_conv_of, 4, 200);
}

static void recurrences(void **state)
{
    (void)state;
    agrees("recurrence", recurrence_drawn, 60, 20);
    agrees("recurrence", recurrence_drawn, 4, 200);
}

static void diagonal_states(void **state)
{
    (void)state;
    agrees("S4D", s4d_drawn, 60, 20);
    agrees("S4D", s4d_drawn, 8, 200);
}

/* More channels than one thread takes at once. */
static void many_channels(void **state)
{
    (void)state;
    for (int t = property_start(4, 400); property_next(&t);) {
        built *b = wide_new(s4d_drawn, property_seed(), 75, 70);
        assert_int_equal(check_network("wide S4D", &b->network, &b->batch, 2, property_seed()), 0);
        built_free(b);
    }
    property_holds(1);
}

/* Half of them as GGUF has them: the rates themselves. */
static rs_branch s6_stored(built *b, int64_t d)
{
    rs_branch branch = s6_of(b, d);
    if (chance(b, 0.5)) return branch;
    rs_s6_op *op = &branch.s6;
    rs_tensor *rates = (rs_tensor *)(uintptr_t)tensor(b, RS_F64, op->inner * op->state, 0, 0);
    for (int64_t i = 0; i < rates->count; i++)
        ((double *)(uintptr_t)rates->data)[i] = -exp(rs_random_normal(&b->random));
    op->a_log = rates;
    op->a_stored = true;
    return branch;
}

static void selected_states(void **state)
{
    (void)state;
    agrees("S6", s6_stored, 60, 20);
    agrees("S6", s6_stored, 4, 200);
}

static void graphs(void **state)
{
    (void)state;
    for (int t = property_start(80, 300); property_next(&t);) {
        drawn g = drawn_new(property_seed(), (rs_graph_form)(property_seed() % RS_GRAPH_FORMS));
        const built *b = g.b;
        assert_int_equal(check_network("graph", &b->network, &b->batch, 1, property_seed()), 0);
        assert_int_equal(check_single("graph", &b->network, &b->batch, property_seed()), 0);
        drawn_free(&g);
    }
    property_holds(1);
}

/* ---- what is held constant ---- */

/* All gates of one mixer are constants: what is left is linear, and gates have no gradient. */
static void check_held(const built *b)
{
    const rs_branch *branch = &b->network.layers[0].branches[0];
    told_all *all;
    double loss;
    loose *l = held_new(&all, &loss, &b->network, &b->batch, RS_HOLD_GATE | RS_HOLD_ACTIVATION);
    const rs_branch *own = &l->network.layers[0].branches[0];
    int64_t n = branch->kind == RS_BRANCH_RECURRENCE   ? branch->recurrence.inner
                : branch->kind == RS_BRANCH_SHORT_CONV ? branch->short_conv.conv.channels
                                                       : branch->s6.inner;
    held_is(held_share(l, all, "out", 0, -1), loss);
    switch (own->kind) {
    case RS_BRANCH_SHORT_CONV:
        held_is(held_share(l, all, "in", 2 * n, 3 * n), loss);
        held_is(held_share(l, all, "conv", 0, -1), loss);
        assert_true(held_zero(all, "in", 0, 2 * n));
        break;
    case RS_BRANCH_RECURRENCE:
        held_is(held_share(l, all, "in", n, 2 * n), loss);
        held_is(held_share(l, all, "conv", 0, -1), loss);
        assert_true(held_zero(all, "in", 0, n) && held_zero(all, "gates", 0, -1));
        break;
    case RS_BRANCH_S4D:
        held_is(held_share(l, all, "C", 0, -1) + held_share(l, all, "D", 0, -1), loss);
        assert_true(held_zero(all, "out gate", 0, -1));
        break;
    default: /* S6 is linear in the map to C, where no norm is behind it, and in D */
        if (own->s6.c_norm.kind == RS_NORM_NONE)
            held_is(held_share(l, all, "x", own->s6.rank + own->s6.state, -1) +
                        held_share(l, all, "D", 0, -1),
                    loss);
        assert_true(held_zero(all, "in", n, 2 * n));
    }
    told_free(all);
    loose_free(l);
}

static void gates_held(void **state)
{
    draw_mixer *const mixers[] = {short_conv_of, recurrence_drawn, s4d_drawn, s6_stored};
    (void)state;
    for (int t = property_start(80, 700); property_next(&t);) {
        built *b = mixers_new(property_seed(), 100, mixers[property_seed() % 4]);
        check_held(b);
        built_free(b);
    }
    property_holds(1);
}

/* The softmax over edges is a constant: queries and keys have no gradient, values a linear share. */
static void edges_held(void **state)
{
    (void)state;
    for (int t = property_start(60, 800); property_next(&t);) {
        drawn g = drawn_new(property_seed(), RS_GRAPH_ATTENTION);
        told_all *all;
        double loss;
        loose *l = held_new(&all, &loss, &g.b->network, &g.b->batch, RS_HOLD_ATTENTION);
        const rs_graph_op *op = &l->network.layers[0].branches[0].graph;
        if (op->v.weight) held_is(held_share(l, all, "v", 0, -1), loss);
        if (op->o.weight) held_is(held_share(l, all, "o", 0, -1), loss);
        assert_true(held_zero(all, "q", 0, -1) && held_zero(all, "k", 0, -1));
        told_free(all);
        loose_free(l);
        drawn_free(&g);
    }
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_convolutions), cmocka_unit_test(recurrences),
        cmocka_unit_test(diagonal_states),    cmocka_unit_test(many_channels),
        cmocka_unit_test(selected_states),    cmocka_unit_test(graphs),
        cmocka_unit_test(gates_held),         cmocka_unit_test(edges_held),
    };
    return cmocka_run_group_tests_name("gradients_states", tests, NULL, NULL);
}
