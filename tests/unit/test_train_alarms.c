/* test_train_alarms.c: every alarm on made-up logs: at which step it rings, at which it is critical,
 * when it ends, and that a run that is taken up again rings the same ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "train/alarms.h"

#include <math.h>
#include <string.h>

enum { LAYERS = 3, HEADS = 2 };

/* A run of which nothing is wrong, until a test changes its numbers. */
typedef struct run {
    rs_alarms *alarms;
    rs_rank_row ranks[2 * LAYERS * HEADS];
    rs_layer_row layers[LAYERS + 1];
    double loss, batch_loss;
    const rs_alarm_event *events;
    size_t n;
    bool no_target;
} run;

static const rs_alarm_limits defaults = {.token_collapse = 0.05,
                                         .vanishing_qk_gradient = 1e-3,
                                         .qk_rank_loss = 0.6,
                                         .ov_rank_loss = 0.6,
                                         .context_unused = 0.03,
                                         .loss_spike = 3,
                                         .hold = 200};

static void open_run(run *r, int64_t warmup, double unigram)
{
    rs_error err = {0};
    const rs_alarm_rules rules = {
        .limits = defaults, .warmup = warmup, .layers = LAYERS, .unigram_entropy = unigram};
    *r = (run){.loss = 2, .batch_loss = 2.1};
    assert_int_equal(rs_alarms_open(&r->alarms, &rules, &err), RS_OK);
    for (int l = 0; l <= LAYERS; l++)
        r->layers[l] = (rs_layer_row){
            .layer = l - 1, .relative_residual = 0.8, .ratio_q_v = l ? 0.1 : (double)NAN};
    for (int k = 0; k < 2 * LAYERS * HEADS; k++)
        r->ranks[k] = (rs_rank_row){.layer = k / (2 * HEADS),
                                    .head = k % HEADS,
                                    .product = k / HEADS % 2 ? "ov" : "qk",
                                    .effective_rank = 20,
                                    .effective_rank_null = 25};
}

static void close_run(run *r)
{
    rs_alarms_close(r->alarms);
}

static void feed(run *r, int64_t step, bool read)
{
    const rs_instrument_reading reading = {.step = step,
                                           .ranks = r->ranks,
                                           .n_ranks = 2 * LAYERS * HEADS,
                                           .layers = r->layers,
                                           .n_layers = LAYERS + 1};
    const rs_alarm_loss loss = {r->loss, r->batch_loss, !r->no_target};
    r->events = rs_alarms_feed(&r->n, r->alarms, step, &loss, read ? &reading : NULL);
}

static void quiet(run *r, int64_t step)
{
    feed(r, step, true);
    if (r->n) fail_msg("step %d: %s", (int)step, r->events[0].message);
}

static void rings(run *r, int64_t step, rs_alarm_kind kind, rs_severity severity, int32_t layer)
{
    feed(r, step, true);
    assert_int_equal(r->n, 1);
    assert_int_equal(r->events->kind, kind);
    assert_int_equal(r->events->severity, severity);
    assert_int_equal(r->events->step, step);
    assert_int_equal(r->events->layer, layer);
    assert_int_equal(rs_alarms_state(r->alarms, kind, layer), severity);
    assert_true(strlen(r->events->message) > 30 && strlen(r->events->hint) > 30);
}

static void set_residual(run *r, double value)
{
    r->layers[LAYERS].relative_residual = value;
}

static void set_ranks(run *r, int layer, const char *product, double first, double second)
{
    for (int k = 0; k < 2 * LAYERS * HEADS; k++)
        if (r->ranks[k].layer == layer && strcmp(r->ranks[k].product, product) == 0)
            r->ranks[k].effective_rank = r->ranks[k].head ? second : first;
}

/* ---- the table, row by row ---- */

static void test_healthy(void **state)
{
    (void)state;
    run r;
    open_run(&r, 100, 2);
    for (int64_t step = 0; step <= 2000; step += 10)
        quiet(&r, step);
    for (int k = 0; k < RS_ALARMS; k++) {
        assert_int_equal(rs_alarms_state(r.alarms, (rs_alarm_kind)k, 0), RS_INFO);
        assert_int_equal(rs_alarm_find(rs_alarm_code((rs_alarm_kind)k)), k);
    }
    assert_int_equal(rs_alarm_find("no_such_code"), RS_ALARMS);
    close_run(&r);
}

/* The second log in a row warns, the first that is 200 steps behind the first is critical. */
static void test_token_collapse(void **state)
{
    (void)state;
    run r;
    open_run(&r, 0, NAN);
    quiet(&r, 0);
    set_residual(&r, 0.05); /* not below */
    quiet(&r, 10);
    quiet(&r, 20);
    set_residual(&r, 0.049);
    quiet(&r, 30);
    rings(&r, 40, RS_ALARM_TOKEN_COLLAPSE, RS_WARN, -1);
    assert_true(r.events->value == 0.049 && r.events->threshold == 0.05);
    for (int64_t step = 50; step < 230; step += 10)
        quiet(&r, step);
    rings(&r, 230, RS_ALARM_TOKEN_COLLAPSE, RS_CRITICAL, -1);
    assert_non_null(strstr(r.events->message, "for 200 steps"));
    quiet(&r, 240);
    /* it ends, and begins again */
    set_residual(&r, 0.06);
    quiet(&r, 250);
    assert_int_equal(rs_alarms_state(r.alarms, RS_ALARM_TOKEN_COLLAPSE, -1), RS_INFO);
    set_residual(&r, 0.01);
    quiet(&r, 260);
    rings(&r, 270, RS_ALARM_TOKEN_COLLAPSE, RS_WARN, -1);
    close_run(&r);
}

/* A gap between two logs is none in a row; a log that says nothing is no gap. */
static void test_gaps(void **state)
{
    (void)state;
    run r;
    open_run(&r, 0, NAN);
    set_residual(&r, 0.01);
    quiet(&r, 10);
    set_residual(&r, 0.2);
    quiet(&r, 20);
    set_residual(&r, 0.01);
    quiet(&r, 30);
    set_residual(&r, NAN);
    quiet(&r, 40);
    feed(&r, 45, false);
    assert_int_equal(r.n, 0);
    set_residual(&r, 0.01);
    rings(&r, 50, RS_ALARM_TOKEN_COLLAPSE, RS_WARN, -1);
    feed(&r, 300, false); /* long enough, but nobody looked */
    assert_int_equal(r.n, 0);
    rings(&r, 310, RS_ALARM_TOKEN_COLLAPSE, RS_CRITICAL, -1);
    close_run(&r);
}

/* Two logs that are far apart: the second is a warning and critical, and says the latter. */
static void test_rare_logs(void **state)
{
    (void)state;
    run r;
    open_run(&r, 0, NAN);
    set_residual(&r, 0.01);
    quiet(&r, 0);
    rings(&r, 500, RS_ALARM_TOKEN_COLLAPSE, RS_CRITICAL, -1);
    close_run(&r);
}

/* A long warm-up holds what is critical back. */
static void test_warmup(void **state)
{
    (void)state;
    run r;
    open_run(&r, 150, NAN);
    set_residual(&r, 0.01);
    quiet(&r, 100);
    rings(&r, 150, RS_ALARM_TOKEN_COLLAPSE, RS_WARN, -1);
    for (int64_t step = 200; step < 400; step += 50)
        quiet(&r, step);
    rings(&r, 400, RS_ALARM_TOKEN_COLLAPSE, RS_CRITICAL, -1);
    close_run(&r);
}

static void test_vanishing(void **state)
{
    (void)state;
    run r;
    open_run(&r, 0, NAN);
    r.layers[2].ratio_q_v = 1.01e-6; /* of squares: 1.005e-3 of norms */
    quiet(&r, 0);
    quiet(&r, 50);
    r.layers[2].ratio_q_v = 0.99e-6;
    quiet(&r, 100);
    rings(&r, 150, RS_ALARM_VANISHING_QK_GRADIENT, RS_WARN, 1);
    assert_true(fabs(r.events->value - 9.9499e-4) < 1e-7 && r.events->threshold == 1e-3);
    r.layers[3].ratio_q_v = 0; /* another layer has an alarm of its own */
    quiet(&r, 200);
    rings(&r, 250, RS_ALARM_VANISHING_QK_GRADIENT, RS_WARN, 2);
    rings(&r, 300, RS_ALARM_VANISHING_QK_GRADIENT, RS_CRITICAL, 1);
    r.layers[2].ratio_q_v = 1;
    rings(&r, 400, RS_ALARM_VANISHING_QK_GRADIENT, RS_CRITICAL, 2);
    assert_int_equal(rs_alarms_state(r.alarms, RS_ALARM_VANISHING_QK_GRADIENT, 1), RS_INFO);
    assert_int_equal(rs_alarms_state(r.alarms, RS_ALARM_VANISHING_QK_GRADIENT, 7), RS_INFO);
    close_run(&r);
}

/* Below both the null's share and its own: a layer that starts low is not one that falls. */
static void test_rank_loss(void **state)
{
    (void)state;
    static const struct {
        const char *product;
        rs_alarm_kind kind;
    } cases[] = {{"qk", RS_ALARM_QK_RANK_LOSS}, {"ov", RS_ALARM_OV_RANK_LOSS}};
    for (int c = 0; c < 2; c++) {
        run r;
        open_run(&r, 0, NAN);
        const char *product = cases[c].product;
        set_ranks(&r, 1, product, 8, 8); /* .32 of the null, its own maximum */
        quiet(&r, 0);
        quiet(&r, 10);
        set_ranks(&r, 1, product, 5, 5); /* .625 of it */
        quiet(&r, 20);
        quiet(&r, 30);
        set_ranks(&r, 1, product, 4, 5.4); /* a mean of 4.7: .5875 */
        quiet(&r, 40);
        rings(&r, 50, cases[c].kind, RS_WARN, 1);
        assert_true(fabs(r.events->value - 4.7) < 1e-12);
        assert_true(fabs(r.events->threshold - 4.8) < 1e-12);
        assert_non_null(strstr(r.events->message, "no proof of harm"));
        for (int64_t step = 60; step < 2000; step += 50)
            quiet(&r, step); /* never critical */
        /* a head without a rank is left out of the mean; a layer without any says nothing */
        set_ranks(&r, 1, product, NAN, 8);
        quiet(&r, 2000);
        assert_int_equal(rs_alarms_state(r.alarms, cases[c].kind, 1), RS_INFO);
        set_ranks(&r, 1, product, NAN, NAN);
        quiet(&r, 2010);
        /* above the null's share whatever its maximum was */
        set_ranks(&r, 0, product, 40, 40);
        quiet(&r, 2020);
        set_ranks(&r, 0, product, 16, 16);
        quiet(&r, 2030);
        quiet(&r, 2040);
        set_ranks(&r, 0, product, 14.9, 14.9);
        quiet(&r, 2050);
        rings(&r, 2060, cases[c].kind, RS_WARN, 0);
        assert_true(fabs(r.events->threshold - 15) < 1e-12);
        close_run(&r);
    }
}

static void test_context_unused(void **state)
{
    (void)state;
    run r;
    open_run(&r, 0, 2.5);
    r.loss = r.batch_loss = 2.52; /* at the unigrams' entropy, its tokens apart */
    for (int64_t step = 0; step <= 400; step += 50)
        quiet(&r, step);
    set_residual(&r, 0.01);
    quiet(&r, 450);
    rings(&r, 500, RS_ALARM_TOKEN_COLLAPSE, RS_WARN, -1); /* from here on it counts */
    quiet(&r, 550);
    quiet(&r, 600);
    rings(&r, 650, RS_ALARM_TOKEN_COLLAPSE, RS_CRITICAL, -1);
    rings(&r, 700, RS_ALARM_CONTEXT_UNUSED, RS_CRITICAL, -1);
    assert_true(r.events->value == 2.52 && r.events->threshold == 2.5);
    quiet(&r, 750);
    r.loss = 2.54;
    quiet(&r, 800);
    assert_int_equal(rs_alarms_state(r.alarms, RS_ALARM_CONTEXT_UNUSED, -1), RS_INFO);
    r.loss = 2.47; /* 0.03 below still is within */
    for (int64_t step = 850; step < 1050; step += 50)
        quiet(&r, step);
    rings(&r, 1050, RS_ALARM_CONTEXT_UNUSED, RS_CRITICAL, -1);
    close_run(&r);

    open_run(&r, 0, NAN); /* no language model */
    r.loss = r.batch_loss = 2.5;
    set_residual(&r, 0.01);
    quiet(&r, 0);
    rings(&r, 50, RS_ALARM_TOKEN_COLLAPSE, RS_WARN, -1);
    rings(&r, 200, RS_ALARM_TOKEN_COLLAPSE, RS_CRITICAL, -1);
    for (int64_t step = 250; step < 2000; step += 50)
        quiet(&r, step);
    close_run(&r);
}

static void test_loss_spike(void **state)
{
    (void)state;
    run r;
    open_run(&r, 0, NAN);
    r.batch_loss = 6; /* three times, not more */
    quiet(&r, 0);
    quiet(&r, 1);
    r.batch_loss = 6.01;
    quiet(&r, 2);
    rings(&r, 3, RS_ALARM_LOSS_SPIKE, RS_WARN, -1);
    assert_true(r.events->threshold == 6);
    for (int64_t step = 4; step < 600; step += 50)
        quiet(&r, step);
    r.batch_loss = 2;
    quiet(&r, 700);
    r.batch_loss = 9;
    feed(&r, 701, false); /* losses need no reading */
    feed(&r, 702, false);
    assert_int_equal(r.n, 1);
    close_run(&r);
}

static void test_nonfinite(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int c = 0; c < 6; c++) {
        run r;
        open_run(&r, 0, NAN);
        quiet(&r, 0);
        *(c % 2 ? &r.loss : &r.batch_loss) = bad[c / 2];
        rings(&r, 10, RS_ALARM_NONFINITE_LOSS, RS_CRITICAL, -1);
        assert_non_null(strstr(r.events->message, c < 2 ? "not a number" : "infinite"));
        quiet(&r, 20);
        close_run(&r);
    }
}

/* A batch without a target says nothing of the loss: no number is no NaN, and a spike goes on. */
static void test_no_target(void **state)
{
    (void)state;
    run r;
    open_run(&r, 0, NAN);
    quiet(&r, 0);
    r.batch_loss = 100 * r.loss;
    quiet(&r, 10);
    double was = r.batch_loss;
    r.batch_loss = NAN, r.no_target = true;
    quiet(&r, 20);
    r.batch_loss = was, r.no_target = false;
    rings(&r, 30, RS_ALARM_LOSS_SPIKE, RS_WARN, -1);
    close_run(&r);
}

/* Attention to one token has no gradient to vanish. */
static void test_single(void **state)
{
    (void)state;
    run r;
    open_run(&r, 0, NAN);
    rs_alarms_close(r.alarms);
    const rs_alarm_rules rules = {.limits = {.vanishing_qk_gradient = 1e-3, .loss_spike = 3},
                                  .layers = LAYERS,
                                  .single = true};
    rs_error err = {0};
    assert_int_equal(rs_alarms_open(&r.alarms, &rules, &err), RS_OK);
    r.layers[1].ratio_q_v = r.layers[3].ratio_q_v = 0;
    quiet(&r, 0);
    quiet(&r, 10);
    close_run(&r);
}

/* Several at once, each with a finding that has its code. */
static void test_findings(void **state)
{
    (void)state;
    run r;
    open_run(&r, 0, NAN);
    set_residual(&r, 0.001);
    r.layers[1].ratio_q_v = r.layers[3].ratio_q_v = 0;
    set_ranks(&r, 2, "ov", 20, 20);
    quiet(&r, 0);
    set_ranks(&r, 2, "ov", 2, 2);
    feed(&r, 10, true);
    assert_int_equal(r.n, 3);
    feed(&r, 20, true);
    assert_int_equal(r.n, 1);
    rs_finding f = rs_alarm_finding(r.events, 1);
    assert_string_equal(f.code, "ov_rank_loss");
    assert_string_equal(f.table, "ranks");
    assert_int_equal(f.layer, 2);
    assert_int_equal(f.thing, 3);
    assert_int_equal(f.severity, RS_WARN);
    assert_true(f.message == r.events->message && f.hint == r.events->hint);
    close_run(&r);
    open_run(&r, 0, NAN);
    r.loss = NAN;
    rings(&r, 0, RS_ALARM_NONFINITE_LOSS, RS_CRITICAL, -1);
    f = rs_alarm_finding(r.events, 4);
    assert_true(f.layer == RS_NULL_INT && !f.table && isnan(f.threshold) && f.thing == 4);
    close_run(&r);
}

/* ---- taking a run up again ---- */

/* A step of a run that has a bit of everything. */
static void shake(run *r, int64_t step)
{
    rs_random random = rs_random_new(11, (uint64_t)step / 80); /* lasts for some logs */
    set_residual(r, rs_random_uniform(&random) < 0.7 ? 0.01 : 0.5);
    for (int l = 1; l <= LAYERS; l++)
        r->layers[l].ratio_q_v = rs_random_uniform(&random) < 0.5 ? 1e-8 : 1;
    for (int k = 0; k < 2 * LAYERS * HEADS; k++)
        r->ranks[k].effective_rank = 4 + 30 * rs_random_uniform(&random);
    r->loss = 2 + 0.04 * rs_random_uniform(&random);
    r->batch_loss = rs_random_uniform(&random) < 0.3 ? 10 : 2;
}

static void test_resume(void **state)
{
    (void)state;
    size_t all = 0;
    for (int64_t cut = 0; cut <= 1600; cut += 80) {
        run whole, part;
        rs_error err = {0};
        open_run(&whole, 20, 2);
        open_run(&part, 20, 2);
        for (int64_t step = 0; step < 1600; step += 20) {
            if (step == cut) {
                json_t *saved = rs_alarms_save(part.alarms);
                char *text = json_dumps(saved, JSON_REAL_PRECISION(17));
                json_decref(saved);
                close_run(&part);
                open_run(&part, 20, 2);
                saved = json_loads(text, 0, NULL);
                assert_int_equal(rs_alarms_load(part.alarms, saved, "state", &err), RS_OK);
                json_decref(saved);
                rs_memory_free_json(text);
            }
            shake(&whole, step);
            shake(&part, step);
            feed(&whole, step, step % 40 == 0);
            feed(&part, step, step % 40 == 0);
            assert_int_equal(whole.n, part.n);
            for (size_t k = 0; k < whole.n; k++)
                assert_memory_equal(&whole.events[k], &part.events[k], sizeof whole.events[k]);
            all += whole.n;
        }
        close_run(&whole);
        close_run(&part);
    }
    assert_true(all > 300);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "{\"states\": [], \"most\": []}",
        "{\"states\": 3, \"most\": [1, 1, 1, 1, 1, 1]}",
    };
    run r;
    open_run(&r, 0, NAN);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        rs_error err = {0};
        json_t *json = json_loads(bad[k], 0, NULL);
        assert_int_equal(rs_alarms_load(r.alarms, json, "state", &err), RS_E_CONFIG_SCHEMA);
        json_decref(json);
    }
    json_t *saved = rs_alarms_save(r.alarms);
    rs_error err = {0};
    json_array_set_new(json_array_get(json_object_get(saved, "states"), 2), 2, json_integer(9));
    assert_int_equal(rs_alarms_load(r.alarms, saved, "state", &err), RS_E_CONFIG_SCHEMA);
    json_decref(saved);
    close_run(&r);
}

static void test_memory(void **state)
{
    (void)state;
    const rs_alarm_rules rules = {.limits = defaults, .layers = LAYERS, .unigram_entropy = NAN};
    int64_t blocks = rs_memory_blocks();
    for (int64_t n = 1; n <= 4; n++) {
        rs_alarms *alarms = NULL;
        rs_error err = {0};
        rs_memory_fail_at(n);
        assert_int_equal(rs_alarms_open(&alarms, &rules, &err), RS_E_NO_MEMORY);
        rs_memory_fail_at(0);
        assert_null(alarms);
        assert_int_equal(rs_memory_blocks(), blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy),    cmocka_unit_test(test_token_collapse),
        cmocka_unit_test(test_gaps),       cmocka_unit_test(test_rare_logs),
        cmocka_unit_test(test_warmup),     cmocka_unit_test(test_vanishing),
        cmocka_unit_test(test_rank_loss),  cmocka_unit_test(test_context_unused),
        cmocka_unit_test(test_loss_spike), cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_findings),   cmocka_unit_test(test_no_target),
        cmocka_unit_test(test_single),     cmocka_unit_test(test_resume),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
