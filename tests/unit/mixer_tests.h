/* mixer_tests.h: tests that every kind of mixer without a softmax is given: drawn ones against the
 * definitions, and a checkpoint whose rates overflow. Include behind cmocka.h. */
#ifndef RS_TEST_MIXER_TESTS_H
#define RS_TEST_MIXER_TESTS_H

#include "mixer_reference.h"
#include "property.h"

/* The state of a test. */
typedef struct drawn_kind {
    draw_mixer *draw;
} drawn_kind;

/* ---- against the definitions ---- */

/* The engine against the plain loops in both precisions, and on three threads against one. */
static inline void check_drawn(draw_mixer *mixer, int instances)
{
    for (int t = property_start(instances, 1000); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = mixers_new(seed, seed % 10 ? 40 : 200, mixer);
        heard exact, single, threads;
        run_engine(&exact, b, RS_PRECISION_F64, 1, true);
        compare_all(&exact, b, ref_mixer, 1e-11, seed);
        run_engine(&single, b, RS_PRECISION_F32, 1, seed % 2);
        compare_all(&single, b, ref_mixer, 3e-4, seed);
        run_engine(&threads, b, RS_PRECISION_F64, 3, seed % 2);
        is_same(&exact, &threads, b, seed);
        heard_free(&exact);
        heard_free(&single);
        heard_free(&threads);
        built_free(b);
    }
    property_holds(1);
}

static void drawn_mixers(void **state)
{
    check_drawn(((const drawn_kind *)*state)->draw, 150);
}

/* Texts longer than a panel, beside short ones: what is carried is what alone gives. */
static void long_texts(void **state)
{
    const drawn_kind *kind = *state;
    for (int t = property_start(12, 500); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = mixers_new(seed, 5000, kind->draw);
        heard all, whole;
        run_engine(&all, b, RS_PRECISION_F64, 2, false);
        rs_batch together = b->batch;
        for (int32_t s = 0; s < together.samples; s++) {
            int64_t from = together.begin[s], n = together.begin[s + 1] - from,
                    d = b->network.d_model;
            b->batch = (rs_batch){.samples = 1, .begin = b->begin, .states = b->states + from * d};
            int64_t begin[8];
            memcpy(begin, b->begin, sizeof begin);
            b->begin[0] = 0, b->begin[1] = n;
            run_engine(&whole, b, RS_PRECISION_F64, 1, false);
            for (int32_t l = 0; l <= b->network.n_layers && n; l++)
                is_near(all.states[l] + from * d, whole.states[l], (size_t)(n * d), 1e-12, seed,
                        "long");
            memcpy(b->begin, begin, sizeof begin);
            heard_free(&whole);
        }
        b->batch = together;
        heard_free(&all);
        built_free(b);
    }
    property_holds(1);
}

/* Numbers of one sample, infinite ones too, change no other: the states of the others are, bit for
 * bit, those beside an ordinary sample, and as many as those alone. */
static void ragged_batches(void **state)
{
    const drawn_kind *kind = *state;
    static const double poison[] = {NAN, INFINITY, 1e300, -1e30};
    for (int t = property_start(60, 3000); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = mixers_new(seed, seed % 4 ? 70 : 2200, kind->draw);
        int64_t d = b->network.d_model, from = b->begin[1], all = b->begin[b->batch.samples];
        heard before, after;
        run_engine(&before, b, RS_PRECISION_F64, 2, false);
        for (int64_t i = 0; i < from * d; i++)
            b->states[i] = poison[seed % 4];
        run_engine(&after, b, RS_PRECISION_F64, 2, false);
        for (int32_t l = 0; l <= b->network.n_layers; l++)
            if (memcmp(before.states[l] + from * d, after.states[l] + from * d,
                       (size_t)((all - from) * d) * sizeof(double)) != 0)
                fail_msg("seed %d: a sample leaks into another behind layer %d", (int)seed, (int)l);
        heard_free(&before);
        heard_free(&after);
        built_free(b);
    }
    property_holds(1);
}

static inline bool is_odd(void *user, int32_t sample)
{
    (void)user;
    return sample % 2 == 1;
}

/* Whoever asks for some samples alone is told their matrices, the same ones, and no other; the states
 * stay what they are. */
static void matrices_of_some_samples(void **state)
{
    const drawn_kind *kind = *state;
    int64_t told = 0;
    for (int t = property_start(40, 7100); property_next(&t);) {
        static heard all, odd;
        uint64_t seed = property_seed();
        rs_precision precision = seed % 2 ? RS_PRECISION_F32 : RS_PRECISION_F64;
        built *b = mixers_new(seed, 90, kind->draw);
        run_engine_for(&all, b, precision, 2, true, NULL);
        run_engine_for(&odd, b, precision, 2, true, is_odd);
        assert_memory_equal(all.states[b->network.n_layers], odd.states[b->network.n_layers],
                            (size_t)(b->begin[b->batch.samples] * b->network.d_model) *
                                sizeof(double));
        for (int l = 0; l < 2; l++)
            for (int s = 0; s < 4; s++)
                for (int h = 0; h < 210; h++) {
                    const double *whole = all.matrices[l][s][h], *own = odd.matrices[l][s][h];
                    int64_t n = s < b->batch.samples ? b->begin[s + 1] - b->begin[s] : 0;
                    assert_true((own != NULL) == (whole && s % 2 == 1));
                    if (own) assert_memory_equal(whole, own, (size_t)(n * n) * sizeof *own);
                    told += own != NULL;
                }
        heard_free(&all);
        heard_free(&odd);
        built_free(b);
    }
    property_holds(1);
    assert_true(told > 0);
}

/* ---- what a checkpoint may hold ---- */

/* One mixer on n states of width d, drawn. */
static inline built *alone_new(draw_mixer *mixer, uint64_t seed, int64_t d, int64_t n)
{
    built *b = calloc(1, sizeof *b);
    b->random = rs_random_new(seed, 7);
    b->dtype = RS_F32;
    b->network = (rs_network){.family = "drawn", .d_model = d, .layers = b->layers, .n_layers = 1};
    b->network.embedding.width = d;
    b->layers[0].n_branches = 1;
    b->layers[0].branches[0] = mixer(b, d);
    b->begin[1] = n;
    b->states = malloc((size_t)(n * d) * sizeof *b->states);
    for (int64_t i = 0; i < n * d; i++)
        b->states[i] = rs_random_normal(&b->random);
    b->batch = (rs_batch){.samples = 1, .begin = b->begin, .states = b->states};
    return b;
}

/* A rate that overflows is named, where 0 times infinity would be NaN. a_log: the weight of b that says it. */
static inline void check_overflow(built *b, const rs_tensor **a_log)
{
    *a_log = tensor(b, RS_F32, (*a_log)->count, 5000, 0);
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    rs_context context = {.threads = 1};
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F32, 1 << 20, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, &b->network, weights, &context, &err), RS_OK);
    assert_int_equal(rs_runner_run(runner, &b->batch, NULL, 0, &err), RS_E_TENSOR_VALUE);
    assert_string_equal(err.where, "drawn");
    rs_runner_close(runner);
    rs_weights_close(weights);
    built_free(b);
}

/* Those of one kind; in a list of cmocka's, whose state is a drawn_kind. */
#define MIXER_TESTS(kind)                                                                          \
    cmocka_unit_test_prestate(drawn_mixers, kind), cmocka_unit_test_prestate(long_texts, kind),    \
        cmocka_unit_test_prestate(ragged_batches, kind),                                           \
        cmocka_unit_test_prestate(matrices_of_some_samples, kind)

#endif
