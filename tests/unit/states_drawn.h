/* states_drawn.h: branches with state-space mixers, drawn with all that certify_exact_states.c has to
 * bound. Include behind cmocka.h. */
#ifndef RS_TEST_STATES_DRAWN_H
#define RS_TEST_STATES_DRAWN_H

#include "states_exact.h"

/* Rates as GGUF files store them. */
static inline const rs_tensor *negatives(built *b, int64_t count)
{
    rs_tensor *t = generate(b, 0, count, 0, 0);
    for (int64_t i = 0; i < count; i++)
        ((double *)(uintptr_t)t->data)[i] = -2 * rs_random_uniform(&b->random);
    return t;
}

static inline rs_branch drawn_ssd(built *b, int64_t d)
{
    rs_branch branch = ssd_of(b, d);
    if (chance(b, 0.3)) branch.inside = norm_of(b, d);
    branch.ssd.a_stored = chance(b, 0.2);
    if (branch.ssd.a_stored) branch.ssd.a_log = negatives(b, branch.ssd.heads);
    /* steps about the threshold of the softplus */
    if (chance(b, 0.1)) branch.ssd.dt_bias = tensor(b, RS_F32, branch.ssd.heads, 20, 1);
    return branch;
}

static inline rs_branch drawn_s6(built *b, int64_t d)
{
    rs_branch branch = s6_of(b, d);
    rs_s6_op *op = &branch.s6;
    if (chance(b, 0.3)) branch.inside = norm_of(b, d);
    if (chance(b, 0.1))
        op->step.bias =
            tensor(b, RS_F32, op->step.out_is_row ? op->step.rows : op->step.cols, 20, 1);
    if (!chance(b, 0.2)) return branch;
    op->a_stored = true;
    op->a_log = negatives(b, op->inner * op->state);
    return branch;
}

/* One layer; now and then longer than a panel. */
static inline built *instance(uint64_t seed, int64_t longest, draw_mixer *draw_branch)
{
    built *b = mixers_new(seed, longest, draw_branch);
    b->network.n_layers = 1;
    return b;
}

#endif
