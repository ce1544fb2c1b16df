/*
 * test_gradients_reused.c: a runner and what collects its gradients know nothing of the batch before: run
 * once more, over another one, they give the bits of new ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gradient_support.h"
#include "mixer_builder.h"
#include "property.h"

/* The batch becomes another one, of as many rows. */
static void change(built *b, uint64_t seed)
{
    rs_random random = rs_random_new(seed, 79);
    int64_t rows = b->begin[b->batch.samples];
    for (int64_t i = 0; i < rows && b->ids; i++)
        b->ids[i] = (int32_t)(rs_random_uniform(&random) * (double)b->network.embedding.vocabulary);
    for (int64_t i = 0; i < rows * b->network.d_model && b->states; i++)
        b->states[i] = 3 * rs_random_normal(&random);
}

/* What the second of two batches gives, with runner and gradients of the first. */
static told_all *second_of(const gradient_case *c, rs_precision precision, built *b, uint64_t seed,
                           double *loss)
{
    told_all *first = calloc(1, sizeof *first), *second = calloc(1, sizeof *second);
    rs_gradient_tap tap = {.user = first, .parameter = keep_gradient};
    const rs_gradient_tap *taps[] = {&tap};
    const rs_context context = {.threads = c->threads};
    rs_weights *weights;
    rs_runner *runner;
    rs_gradients *gradients;
    rs_error err = {0};
    const rs_network *network = &c->loose->network;
    assert_int_equal(rs_weights_open(&weights, precision, 1 << 28, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, network, weights, &context, &err), RS_OK);
    assert_int_equal(
        rs_gradients_open(&gradients, network, precision, &c->plan, taps, 1, &context, &err),
        RS_OK);
    for (int k = 0; k < 2; k++) {
        if (k == 1) change(b, seed), tap.user = second;
        *loss = 0;
        rs_gradients_again(gradients);
        assert_int_equal(
            rs_runner_gradient(loss, runner, c->batch, &c->loss, gradients, NULL, 0, &err), RS_OK);
        assert_int_equal(rs_gradients_finish(gradients, &err), RS_OK);
    }
    rs_gradients_close(gradients);
    rs_runner_close(runner);
    rs_weights_close(weights);
    told_free(first);
    return second;
}

static void check(built *b, rs_precision precision, uint64_t seed)
{
    rs_random random = rs_random_new(seed, 80);
    int32_t *targets = malloc((size_t)(b->begin[b->batch.samples] + 1) * sizeof *targets);
    gradient_case c = {.name = "reused",
                       .loose = loose_new(&b->network),
                       .batch = &b->batch,
                       .threads = 1 + (int)(seed % 2),
                       .plan = {.recompute = rs_random_uniform(&random) < 0.3,
                                .several = rs_random_uniform(&random) < 0.3},
                       .loss = draw_loss(&b->network, &b->batch, targets, &random)};
    double losses[2];
    told_all *reused = second_of(&c, precision, b, seed, &losses[0]); /* changes the batch */
    told_all *anew = gradients_of(&c, precision, &losses[1]);
    assert_int_equal(reused->n, anew->n);
    assert_memory_equal(&losses[0], &losses[1], sizeof losses[0]);
    for (int i = 0; i < anew->n; i++) {
        const rs_parameter *p = &anew->items[i].parameter;
        if (memcmp(reused->items[i].values, anew->items[i].values,
                   (size_t)(p->out * p->in) * sizeof(double)) != 0)
            fail_msg("%s of layer %d, part %d: other bits", p->name, p->layer, (int)p->part);
    }
    told_free(reused), told_free(anew);
    loose_free(c.loose);
    free(targets);
}

static void nothing_is_left(void **state)
{
    (void)state;
    for (int t = property_start(240, 810); property_next(&t);) {
        built *b = built_new(property_seed(), 14);
        check(b, t % 3 ? RS_PRECISION_F32 : RS_PRECISION_F64, property_seed());
        built_free(b);
    }
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_left)};
    return cmocka_run_group_tests_name("gradients_reused", tests, NULL, NULL);
}
