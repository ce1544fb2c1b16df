/*
 * test_gradients_delta.c: gradients of the gated delta rule: drawn networks held against central
 * differences of a loss that the test computes from the forward pass, texts of one token and of more
 * than two chunks among them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "delta_builder.h"

#include "gradient_mixers.h"

static rs_branch delta_drawn(built *b, int64_t d)
{
    rs_branch branch = delta_of(b, d);
    branch.delta.tiled = chance(b, 0.3);
    if (chance(b, 0.5)) /* memories longer than a chunk */
        branch.delta.dt_bias = tensor(b, RS_F32, branch.delta.heads, -6, 1);
    return branch;
}

static void agrees_with_differences(void **state)
{
    (void)state;
    agree("delta rule", delta_drawn, 72, 22000, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_differences),
    };
    return cmocka_run_group_tests_name("gradients_delta", tests, NULL, NULL);
}
