/*
 * test_observe.c: one pass over inputs with several listeners: each hears every sample once and in
 * the order given, whatever the size of the batches; scratch is there and belongs to a call; what a
 * listener refuses ends the pass; a single batch and a continuation say what a runner says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "network/arch.h"
#include "observe/pass.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { SAMPLES = 7, D = 8, HEADS = 2, LAYERS = 2, LONGEST = 6, VOCABULARY = 11 };
enum { SCRATCH = 1000, NEW = 4, THREADS = 3 };

static const int64_t lengths[SAMPLES] = {3, 0, 6, 1, 0, 0, 4};

typedef struct scene {
    rs_init *init;
    rs_network *network;
    int64_t begin[SAMPLES + 1];
    int32_t ids[SAMPLES * LONGEST];
    rs_inputs inputs;
} scene;

static void open_scene(scene *s)
{
    rs_error err = {0};
    json_t *arch = json_pack("{s:i, s:i, s:i, s:i, s:s}", "depth", LAYERS, "d_model", D, "heads",
                             HEADS, "vocab", VOCABULARY, "mask", "causal");
    *s = (scene){.inputs = {.kind = "tokens", .samples = SAMPLES, .longest = LONGEST}};
    assert_non_null(arch);
    assert_int_equal(rs_init_open(&s->init, NULL, 1, &err), RS_OK);
    if (rs_network_from_arch(&s->network, arch, "test", s->init, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    json_decref(arch);
    for (int i = 0; i < SAMPLES; i++) {
        s->begin[i + 1] = s->begin[i] + lengths[i];
        for (int64_t j = s->begin[i]; j < s->begin[i + 1]; j++)
            s->ids[j] = (int32_t)((3 * j + 1) % VOCABULARY);
    }
    s->inputs.begin = s->begin;
    s->inputs.ids = s->ids;
    s->inputs.d_model = D;
}

static void close_scene(scene *s)
{
    rs_network_close(s->network);
    rs_init_close(s->init);
}

/* ---- a listener ---- */

enum fault { NONE, AT_BEGIN, AT_STATE, AT_BRANCH, AT_END };

typedef struct heard {
    rs_listener listener;
    const scene *scene;
    const rs_input_batch *batch; /* NULL: none runs */
    double last[SAMPLES * LONGEST * D];
    int samples[SAMPLES]; /* how often heads of the first layer were told of it */
    int batches, states;
    int *order, place; /* of this listener among those of a pass */
    enum fault fault;
} heard;

static rs_status refuse(const heard *h, enum fault here, rs_error *err)
{
    return h->fault == here ? rs_fail(err, RS_E_CONFIG_SIZE, "test", NULL, "refused") : RS_OK;
}

static rs_status begin(void *user, const rs_input_batch *batch, rs_error *err)
{
    heard *h = user;
    assert_null(h->batch);
    assert_true(batch->batch.begin[batch->batch.samples] > 0);
    h->batch = batch;
    h->batches++;
    return refuse(h, AT_BEGIN, err);
}

static rs_status end(void *user, rs_error *err)
{
    heard *h = user;
    assert_non_null(h->batch);
    h->batch = NULL;
    return refuse(h, AT_END, err);
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    heard *h = user;
    (void)site;
    assert_ptr_equal(view->batch, &h->batch->batch);
    assert_int_equal(*h->order, h->place);
    *h->order = h->place + 1;
    h->states++;
    for (int t = 0; t < THREADS; t++) /* all of it may be written */
        memset(h->listener.scratch[t], h->place, SCRATCH);
    if (layer == LAYERS)
        memcpy(h->last + h->scene->begin[h->batch->first] * D, view->data,
               (size_t)(view->rows * D) * sizeof(double));
    return refuse(h, AT_STATE, err);
}

static rs_status on_branch(void *user, int32_t layer, int32_t branch, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    (void)layer, (void)branch, (void)view;
    assert_int_equal(moment, RS_MOMENT_SUM);
    return refuse(user, AT_BRANCH, err);
}

static bool wants(void *user, int32_t layer, int32_t branch, int32_t head)
{
    (void)user;
    return layer == 0 && branch == 0 && head == 1;
}

static rs_status on_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    heard *h = user;
    unsigned char *scratch = h->listener.scratch[view->thread];
    (void)err;
    assert_int_equal(view->layer + view->branch, 0);
    assert_int_equal(view->head, 1);
    memset(scratch, view->sample, SCRATCH);
    for (volatile int wait = 0; wait < 1000; wait++)
        ;
    for (int i = 0; i < SCRATCH; i++)
        assert_int_equal(scratch[i], view->sample);
#pragma omp atomic
    h->samples[h->batch->first + view->sample]++;
    return RS_OK;
}

static void open_heard(heard *h, const scene *s, int *order, int place)
{
    *h = (heard){.scene = s, .order = order, .place = place};
    h->listener = (rs_listener){.tap = {.user = h,
                                        .sites = 1u << RS_SITE_BLOCK_OUT,
                                        .state = on_state,
                                        .moments = 1u << RS_MOMENT_SUM,
                                        .branch = on_branch,
                                        .wants_attention = wants,
                                        .attention = on_attention},
                                .begin = begin,
                                .end = end,
                                .scratch_bytes = place ? SCRATCH : 1};
}

static rs_status clock_order(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                             rs_error *err)
{
    (void)site, (void)layer, (void)view, (void)err;
    *(int *)user = 0;
    return RS_OK;
}

/* Two listeners, the second asking for more scratch, and one that ends a round. */
static rs_status observe(heard h[2], const scene *s, int64_t batch, int threads,
                         rs_pass_account *account, rs_error *err)
{
    int order = 0;
    const rs_context context = {.threads = threads};
    rs_listener last = {
        .tap = {.user = &order, .sites = 1u << RS_SITE_BLOCK_OUT, .state = clock_order}};
    rs_listener *listeners[] = {&h[0].listener, &h[1].listener, &last};
    const rs_pass_plan plan = {
        .network = s->network,
        .inputs = &s->inputs,
        .precision = RS_PRECISION_F64,
        .capacity = rs_pass_capacity(s->network, RS_PRECISION_F64, &s->inputs, batch, &context),
        .phase = "test"};
    for (int i = 0; i < 2; i++) {
        enum fault fault = h[i].fault;
        open_heard(&h[i], s, &order, i);
        h[i].fault = fault;
    }
    return rs_observe_pass(account, &plan, listeners, 3, &context, err);
}

/* ---- statements ---- */

static void batches_change_nothing(void **state)
{
    (void)state;
    scene s;
    static heard whole[2], h[2];
    rs_pass_account account;
    open_scene(&s);
    assert_int_equal(observe(whole, &s, 0, THREADS, &account, NULL), RS_OK);
    assert_int_equal(whole[0].batches, 1);
    assert_true(account.peak_bytes > 0 && account.flops > 0 && account.seconds >= 0);
    for (int64_t batch = 1; batch <= SAMPLES + 1; batch++) {
        assert_int_equal(observe(h, &s, batch, THREADS, NULL, NULL), RS_OK);
        for (int i = 0; i < 2; i++) {
            int expected = 0;
            for (int64_t k = 0; k < SAMPLES; k += batch) {
                int64_t to = k + batch < SAMPLES ? k + batch : SAMPLES;
                expected += s.begin[to] > s.begin[k];
            }
            assert_int_equal(h[i].batches, expected);
            assert_int_equal(h[i].states, expected * (LAYERS + 1));
            assert_null(h[i].listener.scratch); /* the pass is over */
            for (int k = 0; k < SAMPLES; k++)
                assert_int_equal(h[i].samples[k], lengths[k] > 0);
            for (int64_t k = 0; k < s.begin[SAMPLES] * D; k++)
                assert_true(fabs(h[i].last[k] - whole[0].last[k]) <= 1e-12);
        }
    }
    close_scene(&s);
}

static void a_refusal_ends_the_pass(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    for (int i = 0; i < 2; i++)
        for (enum fault fault = AT_BEGIN; fault <= AT_END; fault++) {
            static heard h[2];
            rs_error err = {0};
            h[i].fault = fault;
            h[1 - i].fault = NONE;
            assert_int_equal(observe(h, &s, 3, THREADS, NULL, &err), RS_E_CONFIG_SIZE);
            assert_string_equal(err.what, "refused");
            assert_int_equal(h[0].batches, 1);
            assert_null(h[0].listener.scratch);
        }
    close_scene(&s);
}

/* ---- a batch, and prompts ---- */

static rs_status keep_last(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                           rs_error *err)
{
    (void)site, (void)err;
    if (layer == LAYERS)
        memcpy(user, view->data, (size_t)(view->rows * view->cols) * sizeof(double));
    return RS_OK;
}

static void a_batch_is_a_pass_of_one(void **state)
{
    (void)state;
    scene s;
    static heard h[2];
    double last[LONGEST * D];
    const int64_t first = 2, one[] = {0, lengths[2]};
    const rs_context context = {.threads = 1};
    const rs_tap tap = {.user = last, .sites = 1u << RS_SITE_BLOCK_OUT, .state = keep_last};
    rs_weights *weights;
    open_scene(&s);
    const rs_batch batch = {.samples = 1, .begin = one, .ids = s.ids + s.begin[first]};
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 20, NULL), RS_OK);
    assert_int_equal(rs_observe_batch(s.network, weights, &batch, &tap, &context, NULL), RS_OK);
    assert_int_equal(observe(h, &s, 1, THREADS, NULL, NULL), RS_OK);
    /* heads that somebody looks at are mixed in another order */
    for (int64_t i = 0; i < LONGEST * D; i++)
        assert_true(fabs(last[i] - h[0].last[s.begin[first] * D + i]) <= 1e-12);
    rs_weights_close(weights);
    close_scene(&s);
}

typedef struct continued {
    int64_t samples[SAMPLES];
    int32_t ids[SAMPLES][NEW];
    int n;
} continued;

static rs_status on_ids(void *user, int64_t sample, const int32_t *ids, rs_error *err)
{
    continued *c = user;
    (void)err;
    c->samples[c->n] = sample;
    memcpy(c->ids[c->n++], ids, sizeof c->ids[0]);
    return RS_OK;
}

static void continuations_follow_their_prompts(void **state)
{
    (void)state;
    scene s;
    continued c = {0};
    rs_weights *weights;
    rs_runner *runner;
    const rs_context context = {.threads = 1};
    /* Texts whose first windows are samples 0 to 3. */
    rs_input_text texts[4] = {{.first = 0}, {.first = 1}, {.first = 2}, {.first = 3}};
    open_scene(&s);
    s.inputs.texts = texts;
    s.inputs.n_texts = 4;
    if (!s.network->head.next_token) fail_msg("the test's network predicts nothing");
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 20, NULL), RS_OK);
    assert_int_equal(
        rs_observe_continuations(s.network, weights, &s.inputs, NEW, on_ids, &c, &context, NULL),
        RS_OK);
    assert_int_equal(c.n, 3); /* 0, 2 and 3 have tokens; the others are no prompts */
    assert_int_equal(rs_runner_open(&runner, s.network, weights, &context, NULL), RS_OK);
    for (int i = 0; i < c.n; i++) {
        int32_t expected[NEW];
        int64_t at = c.samples[i], begin[] = {0, lengths[at]};
        const rs_batch prompt = {.samples = 1, .begin = begin, .ids = s.ids + s.begin[at]};
        assert_int_equal(at, i == 0 ? 0 : i + 1);
        assert_int_equal(rs_generate(expected, runner, &prompt, NEW, NULL), RS_OK);
        assert_memory_equal(expected, c.ids[i], sizeof expected);
    }
    rs_runner_close(runner);
    rs_weights_close(weights);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_change_nothing),
        cmocka_unit_test(a_refusal_ends_the_pass),
        cmocka_unit_test(a_batch_is_a_pass_of_one),
        cmocka_unit_test(continuations_follow_their_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
