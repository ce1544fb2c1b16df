/* test_forward.c: the engine on networks drawn at random, against the formulas of network.h written
 * as plain loops (forward_reference.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"
#include "forward_reference.h"
#include "property.h"

#include "base/memory.h"

#include <omp.h>

/* ---- what was told, by the reference and by the engine ---- */

enum { MAX_TOLD = 4096, THREADS = 4 };

/* Numbers in the order in which the reference tells them; the engine may tell in any. */
typedef struct told {
    struct {
        int32_t kind, layer, head, sample;
        size_t count;
        double *numbers;
    } items[MAX_TOLD];
    int n;
    bool only_even_heads;
} told;

enum { KIND_LOGITS = 100, KIND_PROBABILITIES, KIND_MIXING, KIND_OUTPUT, KIND_CROSS = 100 };

static void told_add(told *t, int32_t kind, int32_t layer, int32_t head, int32_t sample,
                     const void *data, bool f32, size_t count)
{
    double *copy = malloc((count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = f32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
#pragma omp critical(told_add)
    {
        assert_true(t->n < MAX_TOLD);
        t->items[t->n].kind = kind;
        t->items[t->n].layer = layer;
        t->items[t->n].head = head;
        t->items[t->n].sample = sample;
        t->items[t->n].count = count;
        t->items[t->n++].numbers = copy;
    }
}

static void told_free(told *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->items[i].numbers);
    free(t);
}

typedef struct reference {
    told *told;
    const rs_network *network;
    const rs_batch *batch;
} reference;

static void hear_state(void *user, rs_site site, int32_t layer, const double *x)
{
    reference *r = user;
    size_t rows = (size_t)r->batch->begin[r->batch->samples];
    told_add(r->told, (int32_t)site, layer, 0, 0, x, false, rows * (size_t)r->network->d_model);
}

static void hear_head(void *user, int32_t layer, int32_t sample, int32_t head,
                      const ref_head *matrices, int64_t n, int64_t keys, bool cross)
{
    reference *r = user;
    size_t count = (size_t)(n * keys);
    int32_t of = cross ? KIND_CROSS : 0;
    told_add(r->told, of + KIND_LOGITS, layer, head, sample, matrices->logits, false, count);
    told_add(r->told, of + KIND_PROBABILITIES, layer, head, sample, matrices->probabilities, false,
             count);
    told_add(r->told, of + KIND_MIXING, layer, head, sample, matrices->mixing, false, count);
}

static rs_status tap_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                           rs_error *err)
{
    (void)err;
    told_add(user, (int32_t)site, layer, 0, 0, view->data, view->precision == RS_PRECISION_F32,
             (size_t)(view->rows * view->cols));
    return RS_OK;
}

static rs_status tap_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    size_t count = (size_t)(view->n * view->keys);
    int32_t of = view->cross ? KIND_CROSS : 0;
    bool f32 = view->precision == RS_PRECISION_F32;
    (void)err;
    assert_true(view->thread >= 0 && view->thread < THREADS && view->ld == view->keys);
    told_add(user, of + KIND_LOGITS, view->layer, view->head, view->sample, view->logits, f32,
             count);
    told_add(user, of + KIND_PROBABILITIES, view->layer, view->head, view->sample,
             view->probabilities, f32, count);
    told_add(user, of + KIND_MIXING, view->layer, view->head, view->sample, view->mixing, f32,
             count);
    return RS_OK;
}

static bool tap_wants(void *user, int32_t layer, int32_t branch, int32_t head)
{
    (void)layer;
    (void)branch;
    return !((told *)user)->only_even_heads || head % 2 == 0;
}

static rs_status tap_logits(void *user, int64_t first_row, const rs_state_view *view, rs_error *err)
{
    (void)err;
    told_add(user, KIND_OUTPUT, (int32_t)first_row, 0, 0, view->data,
             view->precision == RS_PRECISION_F32, (size_t)(view->rows * view->cols));
    return RS_OK;
}

static rs_tap listening(told *t, bool attention)
{
    rs_tap tap = {.user = t, .sites = ALL_SITES, .state = tap_state, .logits = tap_logits};
    if (attention) tap.attention = tap_attention, tap.wants_attention = tap_wants;
    tap.wants_logits = true;
    return tap;
}

/* ---- comparing ---- */

/* max |a - b| / max |b|; 1e300 when only one is finite. */
static double distance(const double *a, const double *b, size_t count)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(a[i]) != isfinite(b[i])) return 1e300;
        if (!isfinite(b[i])) continue;
        worst = fmax(worst, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    return worst == 0 ? 0 : worst / largest;
}

/* Compares all that the engine told with what the reference told of the same place. */
static void compare(const told *engine, const told *expected, double tolerance, uint64_t seed)
{
    for (int i = 0; i < engine->n; i++) {
        int j = 0;
        while (j < expected->n && (engine->items[i].kind != expected->items[j].kind ||
                                   engine->items[i].layer != expected->items[j].layer ||
                                   engine->items[i].head != expected->items[j].head ||
                                   engine->items[i].sample != expected->items[j].sample))
            j++;
        assert_true(j < expected->n);
        assert_int_equal(engine->items[i].count, expected->items[j].count);
        double d =
            distance(engine->items[i].numbers, expected->items[j].numbers, engine->items[i].count);
        if (!(d <= tolerance))
            print_message("seed %llu: kind %d layer %d head %d sample %d: %g\n",
                          (unsigned long long)seed, engine->items[i].kind, engine->items[i].layer,
                          engine->items[i].head, engine->items[i].sample, d);
        assert_true(d <= tolerance);
    }
}

static told *expect(built *b)
{
    told *t = calloc(1, sizeof *t);
    reference r = {t, &b->network, &b->batch};
    double *last = ref_run(&b->network, &b->batch, hear_state, hear_head, &r);
    if (b->network.head.decoder.weight) {
        int64_t rows = b->begin[b->batch.samples];
        double *logits = ref_logits(&b->network.head, last, rows);
        told_add(t, KIND_OUTPUT, 0, 0, 0, logits, false,
                 (size_t)(rows * b->network.head.decoder.out));
        free(logits);
    }
    free(last);
    return t;
}

typedef struct way {
    rs_precision precision;
    int threads;
    uint64_t limit;
    bool attention, even;
} way;

static told *run_engine(built *b, way how)
{
    told *t = calloc(1, sizeof *t);
    t->only_even_heads = how.even;
    rs_context context = {.threads = how.threads};
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    rs_tap tap = listening(t, how.attention);
    const rs_tap *taps[] = {&tap};
    assert_int_equal(rs_weights_open(&weights, how.precision, how.limit, &err), RS_OK);
    rs_status status = rs_runner_open(&runner, &b->network, weights, &context, &err);
    if (status != RS_OK) print_message("%s: %s\n", err.where, err.what);
    assert_int_equal(status, RS_OK);
    status = rs_runner_run(runner, &b->batch, taps, 1, &err);
    if (status != RS_OK) print_message("%s: %s\n", err.where, err.what);
    assert_int_equal(status, RS_OK);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return t;
}

static void check_seed(uint64_t seed, int64_t longest)
{
    built *b = built_new(seed, longest);
    told *expected = expect(b);
    const way ways[] = {{RS_PRECISION_F64, 1, UINT64_MAX, true, false},
                        {RS_PRECISION_F64, 3, 0, false, false},
                        {RS_PRECISION_F64, 2, 3000, true, true},
                        {RS_PRECISION_F32, 2, 0, true, false},
                        {RS_PRECISION_F32, 4, UINT64_MAX, false, false}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        told *engine = run_engine(b, ways[i]);
        /* some drawn networks norm nearly equal numbers and so multiply any rounding by a thousand:
         * the worst seen are 1e-13 and 5e-5, the same multiple of u */
        compare(engine, expected, ways[i].precision == RS_PRECISION_F64 ? 1e-12 : 2e-4, seed);
        told_free(engine);
    }
    told_free(expected);
    built_free(b);
}

static void test_small(void **state)
{
    (void)state;
    for (int t = property_start(300, 0); property_next(&t);)
        check_seed(property_seed(), 12);
}

/* Texts that need several blocks of queries and of keys. */
static void test_long(void **state)
{
    (void)state;
    for (int t = property_start(4, 1000); property_next(&t);)
        check_seed(property_seed(), 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
