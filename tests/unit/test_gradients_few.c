/*
 * test_gradients_few.c: gradients in float of networks whose heads are one kernel's (attention among few
 * keys, whole vectors wide), against those in double, which go tile by tile and stand against differences
 * and autograd elsewhere. Threads and recomputation leave every bit as it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gradient_support.h"
#include "mixer_builder.h"
#include "property.h"

static rs_branch few_drawn(built *b, int64_t d)
{
    static const int64_t lengths[] = {8, 16, 16, 24, 32, 48};
    rs_branch branch = {.kind = RS_BRANCH_ATTENTION, .skip = 1, .scale = 0.7};
    rs_attention_op *op = &branch.attention;
    *op = (rs_attention_op){.heads = (int32_t)draw(b, 1, 4), .temperature = 1, .mix_softmax = 1};
    op->kv_heads = op->heads % 2 == 0 && chance(b, 0.5) ? op->heads / 2 : op->heads;
    op->head_dim = lengths[draw(b, 0, 5)];
    op->value_dim = chance(b, 0.7) ? op->head_dim : lengths[draw(b, 0, 5)];
    op->q = dense_of(b, d, op->heads * op->head_dim, true);
    op->k = dense_of(b, d, op->kv_heads * op->head_dim, true);
    op->v = dense_of(b, d, op->kv_heads * op->value_dim, true);
    op->o = dense_of(b, op->heads * op->value_dim, d, true);
    op->scale = 1 / sqrt((double)op->head_dim);
    if (chance(b, 0.3)) op->temperature = 1.7;
    op->causal = chance(b, 0.6);
    op->window = chance(b, 0.3) ? draw(b, 1, 20) : 0;
    /* what the kernel has not: such heads go tile by tile */
    if (chance(b, 0.1)) op->softcap = 0.5;
    if (chance(b, 0.1)) op->mix_identity = 0.7;
    if (chance(b, 0.1)) op->distance_reach = draw(b, 0, 9);
    if (op->distance_reach > 0)
        op->distance_bias = tensor(b, RS_F32, op->heads * (2 * op->distance_reach + 1), 0, 1);
    return branch;
}

static double norm_of_told(const told *a, const told *b)
{
    double sum = 0;
    for (int64_t i = 0; i < a->parameter.out * a->parameter.in; i++) {
        double x = a->values[i] - (b ? b->values[i] : 0);
        sum += x * x;
    }
    return sqrt(sum);
}

/* Float's distance from double, of what roundings may make it. */
static void compare_precisions(const told_all *single, const told_all *twice)
{
    double largest = 0;
    assert_int_equal(single->n, twice->n);
    for (int i = 0; i < twice->n; i++)
        largest = fmax(largest, norm_of_told(&twice->items[i], NULL));
    for (int i = 0; i < twice->n; i++) {
        double bound = 1e-4 * norm_of_told(&twice->items[i], NULL) + 1e-5 * largest + 1e-30;
        double ratio = norm_of_told(&single->items[i], &twice->items[i]) / bound;
        property_worst(ratio);
        if (!(ratio <= 1))
            fail_msg("%s of layer %d is %.3g times as far off as it may be",
                     twice->items[i].parameter.name, twice->items[i].parameter.layer, ratio);
    }
}

static void same_bits(const told_all *a, const told_all *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        const rs_parameter *p = &a->items[i].parameter;
        assert_memory_equal(a->items[i].values, b->items[i].values,
                            (size_t)(p->out * p->in) * sizeof(double));
    }
}

/* A loss at few rows where there is a head, so that the last layer's queries are these alone. */
static rs_loss loss_drawn(built *b, int32_t *targets)
{
    rs_loss loss = {.kind = RS_LOSS_SQUARE, .weight = 1, .targets = targets};
    if (b->network.head.decoder.weight) loss.kind = RS_LOSS_TARGETS;
    for (int64_t i = 0; i < b->begin[b->batch.samples]; i++)
        targets[i] = b->network.head.decoder.weight && chance(b, 0.3) ? 0 : -1;
    return loss;
}

static void check(built *b)
{
    int32_t *targets = malloc((size_t)(b->begin[b->batch.samples] + 1) * sizeof *targets);
    loose *copy = loose_new(&b->network);
    gradient_case c = {.name = "few",
                       .loose = copy,
                       .batch = &b->batch,
                       .threads = 1,
                       .loss = loss_drawn(b, targets)};
    double loss[4];
    told_all *twice = gradients_of(&c, RS_PRECISION_F64, &loss[0]);
    told_all *single = gradients_of(&c, RS_PRECISION_F32, &loss[1]);
    c.threads = 3;
    told_all *many = gradients_of(&c, RS_PRECISION_F32, &loss[2]);
    c.threads = 1, c.plan.recompute = true;
    told_all *again = gradients_of(&c, RS_PRECISION_F32, &loss[3]);
    compare_precisions(single, twice);
    same_bits(single, many);
    same_bits(single, again);
    assert_true(fabs(loss[1] - loss[0]) <= 3e-5 * (1 + fabs(loss[0])));
    assert_true(loss[2] == loss[1] && loss[3] == loss[1]);
    told_free(twice), told_free(single), told_free(many), told_free(again);
    loose_free(copy);
    free(targets);
}

static void agrees_with_double(void **state)
{
    (void)state;
    for (int t = property_start(150, 800); property_next(&t);) {
        built *b = mixers_new(property_seed(), property_seed() % 4 ? 24 : 70, few_drawn);
        if (chance(b, 0.5))
            b->network.head = (rs_head_op){
                .scale = 1, .decoder = dense_of(b, b->network.d_model, draw(b, 1, 20), true)};
        check(b);
        built_free(b);
    }
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_double)};
    return cmocka_run_group_tests_name("gradients_few", tests, NULL, NULL);
}
