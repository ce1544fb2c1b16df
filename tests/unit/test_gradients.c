/*
 * test_gradients.c: gradients of drawn networks of attention and MLPs, held against
 * central differences of a loss that the test computes from the forward pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gradient_support.h"
#include "mixer_builder.h"
#include "property.h"

static rs_branch mlp_drawn(built *b, int64_t d)
{
    return branch_of(b, d, RS_BRANCH_MLP, false);
}

static void agrees_with_differences_mlp(void **state)
{
    (void)state;
    for (int t = property_start(40, 100); property_next(&t);) {
        built *b = mixers_new(property_seed(), 20, mlp_drawn);
        assert_int_equal(check_network("mlp", &b->network, &b->batch, 2, property_seed()), 0);
        built_free(b);
    }
    property_holds(1);
}

/* Networks of attention and MLPs: every position law, edits, memory, images, heads. */
static void agrees_with_differences(void **state)
{
    (void)state;
    for (int t = property_start(200, 5000); property_next(&t);) {
        built *b = built_new(property_seed(), 12);
        assert_int_equal(check_network("drawn", &b->network, &b->batch, 1, property_seed()), 0);
        built_free(b);
    }
    property_holds(1);
}

/* Texts of more than one block of queries and of keys. */
static void agrees_with_differences_long(void **state)
{
    (void)state;
    for (int t = property_start(6, 6000); property_next(&t);) {
        built *b = built_new(property_seed(), 400);
        assert_int_equal(check_network("long", &b->network, &b->batch, 1, property_seed()), 0);
        built_free(b);
    }
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_differences_mlp),
        cmocka_unit_test(agrees_with_differences),
        cmocka_unit_test(agrees_with_differences_long),
    };
    return cmocka_run_group_tests_name("gradients", tests, NULL, NULL);
}
