/* gradient_states.h: what test_gradients_states.c draws, and float's gradients against double's. Include
 * behind cmocka.h. */
#ifndef RS_TEST_GRADIENT_STATES_H
#define RS_TEST_GRADIENT_STATES_H

#include "delta_builder.h"
#include "gradient_support.h"
#include "linear_builder.h"

static inline rs_branch s4d_drawn(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_S4D);
    s4d_of(b, &branch.s4d, d);
    return branch;
}

static inline rs_branch recurrence_drawn(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_RECURRENCE);
    recurrence_of(b, &branch.recurrence, d);
    return branch;
}

/* One mixer on a state of width d, over two texts of n tokens. */
static inline built *wide_new(draw_mixer *mixer, uint64_t seed, int64_t d, int64_t n)
{
    built *b = calloc(1, sizeof *b);
    b->random = rs_random_new(seed, 79);
    b->dtype = RS_F32;
    b->network = (rs_network){.family = "drawn", .d_model = d, .layers = b->layers, .n_layers = 1};
    b->network.embedding.width = d;
    b->network.embedding.scale = 1;
    b->layers[0].n_branches = 1;
    b->layers[0].branches[0] = mixer(b, d);
    b->batch = (rs_batch){.samples = 2, .begin = b->begin};
    b->begin[1] = n;
    b->begin[2] = 2 * n;
    b->states = malloc((size_t)(2 * n * d) * sizeof *b->states);
    for (int64_t i = 0; i < 2 * n * d; i++)
        b->states[i] = rs_random_normal(&b->random);
    b->batch.states = b->states;
    return b;
}

/* The number of parameters whose gradients in float are not those in double to 1e-4 of the gradient's
 * norm, and of the largest one's rounding; without norms around the mixers, which at a width of one or
 * two leave nothing but rounding of what passes them. */
static inline int check_single(const char *name, const rs_network *network, const rs_batch *batch,
                               uint64_t seed)
{
    int32_t *targets = malloc(((size_t)batch->begin[batch->samples] + 1) * sizeof *targets);
    rs_random random = rs_random_new(seed, 78);
    gradient_case c = {.name = name, .batch = batch, .loose = loose_new(network)};
    double losses[2], largest = 0;
    int wrong = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t k = 0; k < network->layers[l].n_branches; k++) {
            rs_branch *branch = &c.loose->network.layers[l].branches[k];
            branch->before = branch->after = (rs_norm_op){0};
        }
    c.loss = draw_loss(network, batch, targets, &random);
    told_all *wide = gradients_of(&c, RS_PRECISION_F64, &losses[0]);
    told_all *narrow = gradients_of(&c, RS_PRECISION_F32, &losses[1]);
    assert_int_equal(wide->n, narrow->n);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < wide->n; i++) {
            const told *a = &wide->items[i], *b = &narrow->items[i];
            double norm = 0, apart = 0;
            for (int64_t k = 0; k < a->parameter.out * a->parameter.in; k++) {
                norm += a->values[k] * a->values[k];
                apart += (a->values[k] - b->values[k]) * (a->values[k] - b->values[k]);
            }
            if (pass == 0) largest = fmax(largest, sqrt(norm));
            if (pass == 0 || sqrt(apart) <= 1e-4 * sqrt(norm) + 1e-6 * largest) continue;
            print_error("%s: layer %d %s part %d: float is %.3g off at norm %.3g\n", name,
                        a->parameter.layer, a->parameter.name, (int)a->parameter.part, sqrt(apart),
                        sqrt(norm));
            wrong++;
        }
    told_free(wide);
    told_free(narrow);
    loose_free(c.loose);
    free(targets);
    return wrong;
}

/* ---- what is held constant ---- */

/* One mixer without norms, skip and biases, whose loss is half the square of what it gives; *all becomes
 * its gradients while `hold` is constant. */
static inline loose *held_new(told_all **all, double *loss, const rs_network *network,
                              const rs_batch *batch, unsigned hold)
{
    gradient_case c = {.name = "held", .batch = batch, .loose = loose_new(network)};
    rs_branch *branch = &c.loose->network.layers[0].branches[0];
    const rs_weight_list *list = &rs_branch_traits(branch)->weights;
    c.loose->network.n_layers = 1;
    branch->before = branch->after = (rs_norm_op){0};
    branch->skip = 0;
    for (size_t i = 0; i < list->n; i++) {
        rs_dense *map = rs_weight_map_to_fill(&list->rows[i], branch);
        rs_conv_op *conv = rs_weight_conv_to_fill(&list->rows[i], branch);
        if (map) map->bias = NULL;
        if (conv) conv->bias = NULL;
    }
    c.plan.hold = hold;
    c.loss = (rs_loss){.kind = RS_LOSS_SQUARE, .weight = 1, .at_state = true};
    *all = gradients_of(&c, RS_PRECISION_F64, loss);
    return c.loose;
}

/* Sum over outputs from .. to-1 of the parameters of that name of <gradient, parameter>: where the result
 * is linear in them, <derivative by the result, result>, twice a squared loss. to < 0: all outputs. */
static inline double held_share(loose *l, const told_all *all, const char *name, int64_t from,
                                int64_t to)
{
    gradient_case c = {.loose = l};
    double sum = 0;
    for (int k = 0; k < all->n; k++) {
        const rs_parameter *p = &all->items[k].parameter;
        if (strcmp(p->name, name) != 0) continue;
        for (int64_t u = from; u < (to < 0 ? p->out : to); u++)
            for (int64_t i = 0; i < p->in; i++)
                sum += all->items[k].values[u * p->in + i] * *parameter_entry(&c, p, u, i);
    }
    return sum;
}

/* Whether outputs from .. to-1 of the parameters of that name have the gradient 0. */
static inline bool held_zero(const told_all *all, const char *name, int64_t from, int64_t to)
{
    for (int k = 0; k < all->n; k++) {
        const rs_parameter *p = &all->items[k].parameter;
        if (strcmp(p->name, name) != 0) continue;
        for (int64_t j = from * p->in; j < (to < 0 ? p->out : to) * p->in; j++)
            if (all->items[k].values[j] != 0) return false;
    }
    return true;
}

static inline void held_is(double share, double loss)
{
    if (!(fabs(share - 2 * loss) <= 1e-10 * (1e-10 + loss)))
        fail_msg("a linear share of %.17g, not %.17g", share, 2 * loss);
}

#endif
