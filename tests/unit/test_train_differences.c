/*
 * test_train_differences.c: losses of the head and dropout on drawn networks of every option, held against
 * central differences: a mask is the same for every step of a difference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gradient_support.h"
#include "mixer_builder.h"
#include "property.h"

/* The arrays of a drawn loss. */
typedef struct drawn_loss {
    rs_loss loss;
    int32_t *targets;
    double *values;
    uint8_t *counted;
} drawn_loss;

static void draw_targets(drawn_loss *d, built *b, double share)
{
    int64_t rows = b->batch.begin[b->batch.samples], out = b->network.head.decoder.out;
    int64_t most = out == 1 && d->loss.kind == RS_LOSS_HINGE ? 1 : out - 1;
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        d->counted[i] = chance(b, share);
        d->targets[i] = d->counted[i] ? (int32_t)draw(b, 0, most) : -1;
        for (int64_t c = i * out; c < (i + 1) * out; c++) {
            d->values[c] = rs_random_normal(&b->random);
            if (d->loss.kind == RS_LOSS_SHARES) d->values[c] = fabs(d->values[c]);
            sum += d->values[c];
        }
        for (int64_t c = i * out; c < (i + 1) * out && d->loss.kind == RS_LOSS_SHARES; c++)
            d->values[c] /= chance(b, 0.1) ? 1 : sum;
    }
}

static drawn_loss loss_of_head(built *b)
{
    static const rs_loss_kind kinds[] = {RS_LOSS_TARGETS, RS_LOSS_SHARES, RS_LOSS_SQUARED,
                                         RS_LOSS_HINGE};
    size_t rows = (size_t)b->batch.begin[b->batch.samples] + 1;
    drawn_loss d = {.loss = {.kind = kinds[draw(b, 0, 3)], .weight = 0.3},
                    .targets = calloc(rows, sizeof *d.targets),
                    .values = calloc(rows * (size_t)b->network.head.decoder.out, sizeof *d.values),
                    .counted = calloc(rows, 1)};
    bool all = chance(b, 0.3), smooths = chance(b, 0.4);
    draw_targets(&d, b, all ? 1 : chance(b, 0.5) ? 0.2 : 0.6);
    d.loss.targets = d.targets;
    d.loss.values = d.values;
    if (!all) d.loss.counted = d.counted;
    if (smooths && d.loss.kind <= RS_LOSS_SHARES) d.loss.smoothing = 0.15;
    return d;
}

static int check_step(built *b, uint64_t seed)
{
    const rs_dropout dropout = {0.1 + 0.5 * rs_random_uniform(&b->random), seed, seed / 3, 100};
    if (chance(b, 0.7)) b->batch.dropout = &dropout;
    if (!b->network.head.decoder.weight) draw_head(b);
    drawn_loss d = loss_of_head(b);
    int wrong = check_loss("step", &b->network, &b->batch, &d.loss, 1, seed);
    free(d.targets);
    free(d.values);
    free(d.counted);
    b->batch.dropout = NULL;
    return wrong;
}

/* Networks of attention and MLPs: every position law, edits, memory, images, heads. */
static void agrees_with_differences(void **state)
{
    (void)state;
    for (int t = property_start(160, 7000); property_next(&t);) {
        built *b = built_new(property_seed(), 12);
        assert_int_equal(check_step(b, property_seed()), 0);
        built_free(b);
    }
    property_holds(1);
}

/* Texts of more than one block of queries and of keys. */
static void agrees_with_differences_long(void **state)
{
    (void)state;
    for (int t = property_start(6, 8000); property_next(&t);) {
        built *b = built_new(property_seed(), 400);
        assert_int_equal(check_step(b, property_seed()), 0);
        built_free(b);
    }
    property_holds(1);
}

/* A mixer without probabilities has what it gives dropped. */
static void agrees_with_differences_mixer(void **state)
{
    (void)state;
    for (int t = property_start(20, 9000); property_next(&t);) {
        built *b = mixers_new(property_seed(), 20, s6_of);
        assert_int_equal(check_step(b, property_seed()), 0);
        built_free(b);
    }
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_differences),
        cmocka_unit_test(agrees_with_differences_long),
        cmocka_unit_test(agrees_with_differences_mixer),
    };
    return cmocka_run_group_tests_name("differences of training steps", tests, NULL, NULL);
}
