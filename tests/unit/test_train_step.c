/*
 * test_train_step.c: what a training step is refused for; the masks of dropout; a step without memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "engine/dropout.h"
#include "engine/gradient.h"
#include "network/arch.h"

#include <Random123/philox.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A network of an architecture file, what runs it, and a batch of two samples. */
typedef struct step {
    rs_init *init;
    rs_network *network;
    rs_context context;
    rs_weights *weights;
    rs_runner *runner;
    rs_gradients *gradients;
    int64_t begin[3];
    int32_t ids[12], targets[12];
    double rows[24], values[36];
    rs_batch batch;
    rs_loss loss;
} step;

static const char of_rows[] =
    "{\"depth\": 2, \"d_model\": 6, \"heads\": 3, \"norm\": \"post\", \"norm_affine\": \"both\","
    " \"bias\": true, \"rows\": {\"width\": 2, \"map\": \"mlp\", \"norm\": true}, \"outputs\": 3,"
    " \"positions\": \"learned\", \"seq_len\": 8}";
static const char of_tokens[] = "{\"depth\": 1, \"d_model\": 6, \"vocab\": 5, \"embed\": {\"map\": "
                                "\"linear\"}, \"outputs\": 3}";

static json_t
    *parsed[2]; /* of these, which are read once: jansson's requests are none of a step's */

static int open_files(void **state)
{
    (void)state;
    parsed[0] = json_loads(of_rows, 0, NULL);
    parsed[1] = json_loads(of_tokens, 0, NULL);
    return parsed[0] && parsed[1] ? 0 : -1;
}

static int close_files(void **state)
{
    (void)state;
    json_decref(parsed[0]);
    json_decref(parsed[1]);
    return 0;
}

static rs_status open_step(step *s, const char *text, rs_precision precision, rs_error *err)
{
    const json_t *json = parsed[text == of_tokens];
    *s = (step){.context = {.threads = 2}, .begin = {0, 5, 12}};
    rs_gradient_plan plan = {0};
    rs_status status = rs_init_open(&s->init, NULL, 1, err);
    if (status == RS_OK) status = rs_network_from_arch(&s->network, json, "A", s->init, err);
    if (status == RS_OK) status = rs_weights_open(&s->weights, precision, 1 << 20, err);
    if (status == RS_OK)
        status = rs_runner_open(&s->runner, s->network, s->weights, &s->context, err);
    if (status == RS_OK)
        status = rs_gradients_open(&s->gradients, s->network, precision, &plan, NULL, 0,
                                   &s->context, err);
    for (int i = 0; i < 12; i++)
        s->ids[i] = i % 5, s->targets[i] = i % 4 == 1 ? i % 3 : -1;
    for (int i = 0; i < 24; i++)
        s->rows[i] = sin(i);
    for (int i = 0; i < 36; i++)
        s->values[i] = 1.0 / 3;
    s->batch = (rs_batch){.samples = 2, .begin = s->begin};
    if (text == of_rows)
        s->batch.rows = s->rows;
    else
        s->batch.ids = s->ids;
    s->loss = (rs_loss){.kind = RS_LOSS_TARGETS, .weight = 1, .targets = s->targets};
    return status;
}

static void close_step(step *s)
{
    rs_gradients_close(s->gradients);
    if (s->runner) rs_runner_close(s->runner);
    if (s->weights) rs_weights_close(s->weights);
    rs_network_close(s->network);
    rs_init_close(s->init);
}

static rs_status take(step *s, double *loss, rs_error *err)
{
    return rs_runner_gradient(loss, s->runner, &s->batch, &s->loss, s->gradients, NULL, 0, err);
}

/* ---- refusals ---- */

static void refused(step *s, rs_status expected, const char *where, const char *what)
{
    double loss = 0;
    rs_error err = {0};
    rs_status status = take(s, &loss, &err);
    if (status != expected || strcmp(err.where, where) != 0 || !strstr(err.what, what))
        fail_msg("%s: %s: %s, not %s", rs_status_name(status), err.where, err.what, what);
    assert_true(loss == 0);
}

static void refuses_by_name(void **state)
{
    (void)state;
    static const double rates[] = {-0.1, 1, 2, NAN}, smoothings[] = {-0.1, 1, NAN};
    step s;
    rs_error err = {0};
    assert_int_equal(open_step(&s, of_rows, RS_PRECISION_F64, &err), RS_OK);
    const rs_loss good = s.loss;
    for (size_t i = 0; i < 4; i++) {
        const rs_dropout bad = {.rate = rates[i]};
        s.batch.dropout = &bad;
        refused(&s, RS_E_BAD_OPTION, "dropout", "a rate of ");
    }
    s.batch.dropout = NULL;
    for (size_t i = 0; i < 3; i++) {
        s.loss.smoothing = smoothings[i];
        refused(&s, RS_E_BAD_OPTION, "label_smoothing", "label smoothing of ");
    }
    s.loss = good;
    s.targets[9] = 3;
    refused(&s, RS_E_TOKEN_RANGE, "targets", "row 9 has target 3, the head gives 3 outputs");
    s.loss.kind = RS_LOSS_HINGE;
    refused(&s, RS_E_TOKEN_RANGE, "targets", "row 9 has target 3");
    s.loss.kind = RS_LOSS_SQUARED;
    refused(&s, RS_E_INTERNAL, "targets", "a loss without any");
    s.loss.kind = RS_LOSS_SHARES;
    refused(&s, RS_E_INTERNAL, "targets", "a loss without any");
    s.targets[9] = 0;
    s.loss = good;
    s.batch.rows = NULL;
    s.batch.ids = s.ids;
    refused(&s, RS_E_INPUT_SHAPE, "batch", "the model takes rows of numbers");
    s.batch.ids = NULL;
    s.batch.rows = s.rows;
    s.begin[1] = 1, s.begin[2] = 10;
    refused(&s, RS_E_TOO_LONG, "sample 1", "9 tokens; the model has positions for 8");
    close_step(&s);
    assert_int_equal(open_step(&s, of_tokens, RS_PRECISION_F64, &err), RS_OK);
    s.batch.ids = NULL;
    refused(&s, RS_E_INPUT_SHAPE, "batch", "the model takes token ids");
    close_step(&s);
}

/* A loss alone is the head's. */
static void refuses_a_loss_alone(void **state)
{
    (void)state;
    step s;
    double loss = 0;
    rs_error err = {0};
    assert_int_equal(open_step(&s, of_rows, RS_PRECISION_F64, &err), RS_OK);
    s.loss.kind = RS_LOSS_SQUARE;
    assert_int_equal(rs_runner_loss(&loss, s.runner, &s.batch, &s.loss, NULL, 0, &err),
                     RS_E_UNSUPPORTED);
    s.loss.kind = RS_LOSS_TARGETS;
    s.targets[2] = 7;
    assert_int_equal(rs_runner_loss(&loss, s.runner, &s.batch, &s.loss, NULL, 0, &err),
                     RS_E_TOKEN_RANGE);
    close_step(&s);
    assert_int_equal(open_step(&s, of_rows, RS_PRECISION_RESIDUAL, &err), RS_OK);
    assert_int_equal(rs_runner_loss(&loss, s.runner, &s.batch, &s.loss, NULL, 0, &err),
                     RS_E_UNSUPPORTED);
    close_step(&s);
}

/* ---- masks ---- */

/* Words are those of Random123's Philox at the counters that dropout.h's page says. */
static void words_are_philox(void **state)
{
    (void)state;
    const rs_dropout wanted = {0.25, 0x123456789abcdefu, 0x987654321u, 1 << 20};
    rs_drop drop;
    assert_int_equal(rs_drop_open(&drop, &wanted, NULL), RS_OK);
    philox4x32_ctr_t by_step = {{0x87654321u, 9, 0, 0}};
    philox4x32_key_t seed = {{0x89abcdefu, 0x1234567u}};
    philox4x32_ctr_t first = philox4x32(by_step, seed);
    philox4x32_key_t key = {{first.v[0], first.v[1]}};
    const rs_drop_row row = {RS_DROP_SOFTMAX, 70, 1, 3, 11};
    uint32_t words[300];
    for (int64_t from = 0; from < 90; from += 13) {
        rs_drop_words(words, &drop, &row, from, 300 - from);
        for (int64_t c = from; c < 300; c++) {
            philox4x32_ctr_t at = {{(uint32_t)c / 4, (1u << 20) + 11, 3, 70u << 4 | 1u << 2 | 2u}};
            assert_int_equal(words[c - from], philox4x32(at, key).v[c % 4]);
        }
    }
    assert_int_equal(drop.below, 1u << 30);
    assert_true(drop.keep == 1 / 0.75);
}

static void drops_its_share(void **state)
{
    (void)state;
    static const double rates[] = {0.01, 0.1, 0.5, 0.9};
    enum { N = 1 << 14 };
    uint32_t *words = malloc(N * sizeof *words);
    for (size_t i = 0; i < 4; i++) {
        const rs_dropout wanted = {rates[i], 3, i, 0};
        rs_drop drop;
        int64_t dropped = 0;
        assert_int_equal(rs_drop_open(&drop, &wanted, NULL), RS_OK);
        for (int64_t row = 0; row < 16; row++) {
            rs_drop_words(words, &drop, &(rs_drop_row){RS_DROP_OUTPUT, 0, 0, 0, row}, 0, N);
            for (int k = 0; k < N; k++)
                dropped += words[k] < drop.below;
        }
        double n = 16.0 * N, share = (double)dropped / n;
        assert_true(fabs(share - rates[i]) < 5 * sqrt(rates[i] * (1 - rates[i]) / n));
    }
    free(words);
}

/* The rows of a batch that is cut in two have the masks that they had in one. */
static void masks_do_not_hang_on_the_batch(void **state)
{
    (void)state;
    for (rs_precision p = RS_PRECISION_F32; p <= RS_PRECISION_F64; p++) {
        step s;
        rs_error err = {0};
        double whole = 0, first = 0, second = 0, again = 0, other = 0;
        assert_int_equal(open_step(&s, of_rows, p, &err), RS_OK);
        rs_dropout dropout = {0.3, 8, 2, 40};
        s.batch.dropout = &dropout;
        assert_int_equal(take(&s, &whole, &err), RS_OK);
        assert_int_equal(take(&s, &again, &err), RS_OK);
        assert_true(whole == again);
        const int64_t rest[] = {0, 7};
        s.batch.samples = 1;
        assert_int_equal(take(&s, &first, &err), RS_OK);
        s.batch.begin = rest;
        s.batch.rows += 2 * 5;
        s.loss.targets += 5;
        dropout.first_row += 5;
        assert_int_equal(take(&s, &second, &err), RS_OK);
        assert_true(fabs(first + second - whole) < (p == RS_PRECISION_F64 ? 1e-13 : 1e-5));
        dropout.step++;
        assert_int_equal(take(&s, &other, &err), RS_OK);
        assert_true(fabs(other - second) > 1e-3);
        close_step(&s);
    }
}

/* A rate of 0 changes no bit; a batch without any target has the loss 0. */
static void nothing_is_nothing(void **state)
{
    (void)state;
    step s;
    rs_error err = {0};
    rs_loss_told told = {0};
    const rs_dropout none = {0, 3, 4, 5};
    double loss = 0, dropped = 0, zero = 0;
    assert_int_equal(open_step(&s, of_rows, RS_PRECISION_F32, &err), RS_OK);
    assert_int_equal(take(&s, &loss, &err), RS_OK);
    s.batch.dropout = &none;
    assert_int_equal(take(&s, &dropped, &err), RS_OK);
    assert_true(loss == dropped);
    for (int i = 0; i < 12; i++)
        s.targets[i] = -1;
    s.loss.told = &told;
    assert_int_equal(take(&s, &zero, &err), RS_OK);
    assert_true(zero == 0);
    assert_int_equal(told.targets, 0);
    close_step(&s);
}

static rs_status hear_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    (void)site, (void)layer, (void)err;
    assert_int_equal(view->rows, 12);
    ++*(int *)user;
    return RS_OK;
}

/* Where few rows have a target the others are left out behind the last layer's keys and values, unless
 * somebody listens: of each its query, what it mixes, W_O, W1 and W2, forward and back. */
static void leaves_rows_out(void **state)
{
    (void)state;
    step s;
    rs_error err = {0};
    int heard = 0;
    const rs_tap tap = {.user = &heard, .sites = 1u << RS_SITE_FINAL, .state = hear_state};
    const rs_tap *const taps[] = {&tap};
    double few = 0, all = 0;
    assert_int_equal(open_step(&s, of_rows, RS_PRECISION_F64, &err), RS_OK);
    assert_int_equal(take(&s, &few, &err), RS_OK); /* 3 of 12 rows */
    double flops = rs_runner_flops(s.runner);
    assert_int_equal(
        rs_runner_gradient(&all, s.runner, &s.batch, &s.loss, s.gradients, taps, 1, &err), RS_OK);
    assert_int_equal(heard, 1);
    assert_true(fabs(few - all) < 1e-14);
    double row = 3 * 2.0 * (2 * 6 * 6 + 2 * 6 * 24); /* the head gathers its rows by itself */
    double pairs =
        4 * 5 + 5 * 7; /* left out of samples of 5 and 7, one and two of whose rows count */
    assert_true(fabs(rs_runner_flops(s.runner) - flops - 9 * row - pairs * 3.5 * 2 * 3 * 4) < 1);
    close_step(&s);
}

/* Outputs that are no numbers are never right, and the loss shows them. */
static void nan_is_wrong(void **state)
{
    (void)state;
    static const rs_loss_kind kinds[] = {RS_LOSS_TARGETS, RS_LOSS_SHARES, RS_LOSS_SQUARED,
                                         RS_LOSS_HINGE};
    for (size_t k = 0; k < 4; k++) {
        step s;
        rs_error err = {0};
        rs_loss_told told = {0};
        double loss = 0;
        assert_int_equal(open_step(&s, of_rows, RS_PRECISION_F64, &err), RS_OK);
        for (int i = 0; i < 24; i++)
            s.rows[i] = NAN;
        s.loss.kind = kinds[k];
        s.loss.values = s.values;
        s.loss.told = &told;
        assert_int_equal(take(&s, &loss, &err), RS_OK);
        assert_true(isnan(loss));
        assert_int_equal(told.right, 0);
        close_step(&s);
    }
}

/* ---- memory ---- */

static rs_status whole_step(rs_error *err)
{
    step s;
    double loss = 0;
    const rs_dropout dropout = {0.3, 8, 2, 40};
    rs_status status = open_step(&s, of_rows, RS_PRECISION_F32, err);
    s.batch.dropout = &dropout;
    if (status == RS_OK) status = take(&s, &loss, err);
    if (status == RS_OK) status = rs_runner_loss(&loss, s.runner, &s.batch, &s.loss, NULL, 0, err);
    if (status == RS_OK) status = rs_gradients_finish(s.gradients, err);
    close_step(&s);
    return status;
}

static void without_memory(void **state)
{
    (void)state;
    rs_error err = {0};
    int64_t blocks = rs_memory_blocks(), before = rs_memory_requests();
    assert_int_equal(whole_step(&err), RS_OK);
    int64_t needed = rs_memory_requests() - before;
    assert_true(needed > 60);
    for (int64_t n = 1; n <= needed; n++) {
        err = (rs_error){0};
        rs_memory_fail_at(n);
        rs_status status = whole_step(&err);
        rs_memory_fail_at(0);
        assert_int_equal(status, RS_E_NO_MEMORY);
        assert_int_equal(err.status, RS_E_NO_MEMORY);
        assert_int_equal(rs_memory_blocks(), blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(refuses_a_loss_alone),
        cmocka_unit_test(words_are_philox),
        cmocka_unit_test(drops_its_share),
        cmocka_unit_test(masks_do_not_hang_on_the_batch),
        cmocka_unit_test(nothing_is_nothing),
        cmocka_unit_test(leaves_rows_out),
        cmocka_unit_test(nan_is_wrong),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests_name("training step", tests, open_files, close_files);
}
