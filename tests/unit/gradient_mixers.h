/* gradient_mixers.h: gradients of drawn networks of one mixer. Include behind cmocka.h and the builders,
 * whose helpers are called as gradient_support.h's types are. */
#ifndef RS_TEST_GRADIENT_MIXERS_H
#define RS_TEST_GRADIENT_MIXERS_H

#include "gradient_support.h"
#include "mixer_builder.h"
#include "property.h"

static inline double norm_of_all(const double *values, const double *less, size_t n)
{
    double square = 0;
    for (size_t i = 0; i < n; i++)
        square += (values[i] - (less ? less[i] : 0)) * (values[i] - (less ? less[i] : 0));
    return sqrt(square);
}

/* The number of parameters of which two runs tell gradients further apart than `bound` of their
 * norms, rounding of the largest gradient aside; one that is not finite is such. shaken: of a third
 * run, of which they may be as far off; or NULL. */
static inline int further_apart(const char *name, const told_all *a, const told_all *b,
                                const told_all *shaken, double bound)
{
    double largest = 0;
    int wrong = 0;
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        const rs_parameter *p = &a->items[i].parameter;
        largest = fmax(largest, norm_of_all(a->items[i].values, NULL, (size_t)(p->out * p->in)));
    }
    for (int i = 0; i < a->n; i++) {
        const rs_parameter *p = &a->items[i].parameter;
        size_t n = (size_t)(p->out * p->in);
        double norm = norm_of_all(a->items[i].values, NULL, n);
        double apart = norm_of_all(a->items[i].values, b->items[i].values, n);
        double slack = shaken ? norm_of_all(a->items[i].values, shaken->items[i].values, n) : 0;
        if (apart <= bound * (norm + 0.01 * largest) + slack) continue;
        print_error("%s: layer %d %s part %d: gradients of norm %g are %g apart\n", name, p->layer,
                    p->name, (int)p->part, norm, apart);
        wrong++;
    }
    return wrong;
}

/* All gradients of a drawn loss. */
static inline told_all *gradients_in(const built *b, rs_precision precision, unsigned hold)
{
    int64_t rows = b->batch.begin[b->batch.samples];
    rs_random random = rs_random_new(5, 79);
    int32_t *targets = malloc(((size_t)rows + 1) * sizeof *targets);
    gradient_case c = {.name = "drawn", .batch = &b->batch, .plan = {.hold = hold}, .threads = 1};
    double loss;
    c.loose = loose_new(&b->network);
    c.loss = draw_loss(&b->network, &b->batch, targets, &random);
    told_all *all = gradients_of(&c, precision, &loss);
    loose_free(c.loose);
    free(targets);
    return all;
}

/* Holds float32 against float64 to 1e-4, and where that asks for more than norms of few numbers can
 * give, to what float64 makes of states that are shaken by some roundings of float32. */
static inline int narrow_agrees(const char *name, built *b)
{
    rs_random random = rs_random_new(6, 79);
    int64_t count = b->batch.begin[b->batch.samples] * b->network.d_model;
    told_all *wide = gradients_in(b, RS_PRECISION_F64, 0);
    told_all *narrow = gradients_in(b, RS_PRECISION_F32, 0);
    for (int64_t i = 0; i < count; i++)
        b->states[i] *= 1 + 0x1p-18 * rs_random_normal(&random);
    told_all *shaken = gradients_in(b, RS_PRECISION_F64, 0);
    int wrong = further_apart(name, wide, narrow, shaken, 1e-4);
    told_free(wide);
    told_free(narrow);
    told_free(shaken);
    return wrong;
}

/* Holds `n` networks of a mixer against differences, and float32 against float64; some are of texts of
 * up to `longest` tokens. */
static inline void agree(const char *name, draw_mixer *mixer, int n, uint64_t seed, int64_t longest)
{
    for (int t = property_start(n, seed); property_next(&t);) {
        built *b = mixers_new(property_seed(), t % 4 == 0 ? longest : 20, mixer);
        if (b->begin[b->batch.samples] > 0) {
            assert_int_equal(check_network(name, &b->network, &b->batch, 1, property_seed()), 0);
            if (b->network.d_model > 3) /* norms of fewer numbers leave rounding alone */
                assert_int_equal(narrow_agrees(name, b), 0);
        }
        built_free(b);
    }
    property_holds(1);
}

#endif
