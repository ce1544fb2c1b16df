/* test_maps.c: what --attention-maps keeps (src/observe/maps.c): matrices of the first text that has tokens, whatever the batches,
 * and that no other is formed for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mixer_builder.h"

#include "observe/store.h"

enum { LONG = 300, WIDTH = 6 };
static const rs_map_choice choices[] = {{.layer = 0, .head = 0}, {.layer = 1, .head = 0}};

/* Two layers of mixers on texts of those lengths. */
static built *texts_new(draw_mixer *mixer, int32_t samples, const int64_t *lengths)
{
    built *b = calloc(1, sizeof *b);
    b->random = rs_random_new(12, 3);
    b->dtype = RS_F32;
    b->network =
        (rs_network){.family = "drawn", .d_model = WIDTH, .layers = b->layers, .n_layers = 2};
    b->network.embedding.width = WIDTH;
    for (int l = 0; l < 2; l++)
        b->layers[l] = (rs_layer){.branches = {mixer(b, WIDTH)}, .n_branches = 1};
    for (int32_t s = 0; s < samples; s++)
        b->begin[s + 1] = b->begin[s] + lengths[s];
    int64_t count = b->begin[samples] * WIDTH;
    b->states = malloc((size_t)count * sizeof *b->states);
    for (int64_t i = 0; i < count; i++)
        b->states[i] = rs_random_normal(&b->random);
    b->batch = (rs_batch){.samples = samples, .begin = b->begin, .states = b->states};
    return b;
}

/* The runner's peak of memory. */
static uint64_t run_tap(const rs_tap *tap, const built *b)
{
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    rs_context context = {.threads = 2};
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 28, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, &b->network, weights, &context, &err), RS_OK);
    if (rs_runner_run(runner, &b->batch, &tap, 1, &err) != RS_OK) fail_msg("%s", err.what);
    uint64_t peak = rs_runner_peak(runner);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return peak;
}

static uint64_t run_keeper(rs_map_keeper *keeper, const built *b)
{
    rs_error err = {0};
    rs_input_batch batch = {.batch = b->batch};
    assert_int_equal(keeper->listener.begin(keeper, &batch, &err), RS_OK);
    return run_tap(&keeper->listener.tap, b);
}

/* Matrices of head 0 and sample 1, four tokens. */
typedef double heard_maps[2][16];

static rs_status hear_map(void *user, const rs_attention_view *view, rs_error *err)
{
    (void)err;
    const double *m = view->mixing;
    for (int64_t i = 0; i < 16 && view->sample == 1 && view->head == 0; i++)
        (*(heard_maps *)user)[view->layer][i] = m[i / 4 * view->ld + i % 4];
    return RS_OK;
}

static rs_branch plain_attention_of(built *b, int64_t d)
{
    return branch_of(b, d, RS_BRANCH_ATTENTION, false);
}

static void first_text_with_tokens(void **state)
{
    (void)state;
    static draw_mixer *const mixers[] = {state_space_of, plain_attention_of};
    for (int t = 0; t < 2; t++) {
        built *b = texts_new(mixers[t], 3, (const int64_t[]){0, 4, LONG});
        built *next = texts_new(mixers[t], 1, (const int64_t[]){7});
        rs_map_keeper *keeper;
        rs_error err = {0};
        heard_maps all;
        run_tap(&(rs_tap){.user = &all, .attention = hear_map}, b);
        assert_int_equal(rs_map_keeper_open(&keeper, choices, 2, &b->network, &err), RS_OK);
        run_keeper(keeper, b);
        run_keeper(keeper, next);
        for (int m = 0; m < 2; m++) {
            assert_int_equal(keeper->maps[m].n, 4);
            for (int i = 0; i < 16; i++) /* heads whose matrix nobody asks for round otherwise */
                assert_true(fabs(keeper->maps[m].weight[i] - all[m][i]) < 1e-13);
        }
        rs_map_keeper_close(keeper);
        built_free(b);
        built_free(next);
    }
}

/* A matrix of the long text has 300^2 numbers; that of the short one, which is kept, 16. */
static void other_texts_are_not_formed(void **state)
{
    (void)state;
    built *b = texts_new(ssd_of, 2, (const int64_t[]){4, LONG});
    rs_map_keeper *keeper;
    rs_error err = {0};
    rs_tap silent = {0};
    assert_int_equal(rs_map_keeper_open(&keeper, choices, 2, &b->network, &err), RS_OK);
    uint64_t kept = run_keeper(keeper, b), none = run_tap(&silent, b);
    assert_true(kept < none + LONG * LONG * sizeof(double) / 10);
    rs_map_keeper_close(keeper);
    built_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_text_with_tokens),
        cmocka_unit_test(other_texts_are_not_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
