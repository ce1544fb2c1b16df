/* test_mixer_extremes.c: scans at the ends of what steps, rates and lengths may be, against the same
 * recurrences as test_mixer_scan.c: steps that vanish or are huge, states that do not decay or decay
 * at once, 100 000 tokens; and what is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mixer_alone.h"

/* ---- comparing ---- */

static void compare(const struct kind *kind, built *b, bool single, double tolerance,
                    const char *what)
{
    int64_t n = b->begin[1];
    long double *out = malloc((size_t)(n * kind->inner) * sizeof *out);
    double *values = malloc((size_t)(n * kind->inner) * sizeof *values);
    heard h;
    kind->recur(out, values, &b->layers[0].branches[0], b->states, n);
    run_engine(&h, b, single ? RS_PRECISION_F32 : RS_PRECISION_F64, 1, n <= 200);
    double error = error_of(kind, h.states[1], out, n);
    if (!(error <= tolerance))
        fail_msg("%s, %s, f%d: off by %g", kind->name, what, single ? 32 : 64, error);
    for (int i = 0; i < 210 && h.matrices[0][0][i]; i++) /* 0 times infinity is nowhere */
        for (int64_t k = 0; k < n * n; k++)
            assert_true(isfinite(h.matrices[0][0][i][k]));
    heard_free(&h);
    free(out);
    free(values);
}

static const struct kind *kind_of(const char *name)
{
    for (int at = 0; at < KINDS; at++)
        if (strcmp(kinds[at].name, name) == 0) return &kinds[at];
    return NULL;
}

/* All numbers of a tensor that the test made. */
static void fill(const rs_tensor *tensor, double value)
{
    for (int64_t i = 0; i < tensor->count; i++)
        if (tensor->dtype == RS_F64)
            memcpy((uint8_t *)(uintptr_t)tensor->data + 8 * i, &value, 8);
        else
            memcpy((uint8_t *)(uintptr_t)tensor->data + 4 * i, &(float){(float)value}, 4);
}

/* Columns from .. to-1 of all states. */
static void set_columns(built *b, int64_t from, int64_t to, double value)
{
    int64_t d = b->network.d_model;
    for (int64_t i = 0; i < b->begin[1] * d; i++)
        if (i % d >= from && i % d < to) b->states[i] = value;
}

/* What makes steps of about 0, of 1e-9, of softplus(2), of 1e4 and of 1e30; a softplus above 1e30 would
 * leave float32 where it is multiplied. */
static const double before_step[] = {-1e4, -20.7, 2, 1e4, 1e30};
/* Logarithms of rates: none, one that underflows, 1, and a decay that underflows. */
static const double log_rate[] = {-INFINITY, -800, 0, 80};

/* ---- steps and rates ---- */

static void steps_and_rates(const char *name, void (*set)(built *b, double step, double rate))
{
    const struct kind *kind = kind_of(name);
    for (int s = 0; s < 5; s++)
        for (int r = 0; r < 4; r++)
            for (int single = 0; single < 2; single++) {
                char what[80];
                built *b = scan_new(kind, SHORT_MEMORY, s % 2, 130, (uint64_t)(10 * s + r));
                set(b, before_step[s], log_rate[r]);
                snprintf(what, sizeof what, "step %g, rate exp(%g)", before_step[s], log_rate[r]);
                compare(kind, b, single, single ? 1e-5 : 1e-12, what);
                built_free(b);
            }
}

static void set_ssd(built *b, double step, double rate)
{
    set_columns(b, b->network.d_model - HEADS, b->network.d_model, step);
    fill(b->layers[0].branches[0].ssd.a_log, rate);
}

static void set_s6(built *b, double step, double rate)
{
    rs_s6_op *op = &b->layers[0].branches[0].s6;
    op->step = generated_map(b, 0, 2, CHANNELS, 0);
    op->step.bias = generate(b, 0, CHANNELS, 0, step);
    fill(op->a_log, rate);
}

static void set_delta(built *b, double step, double rate)
{
    int64_t a = 2 * GROUPS * STATES + HEADS * DIM;
    set_columns(b, a, a + HEADS, step);
    fill(b->layers[0].branches[0].delta.a_log, rate);
}

static void extreme_steps(void **state)
{
    (void)state;
    steps_and_rates("Mamba-2", set_ssd);
    steps_and_rates("Mamba", set_s6);
    steps_and_rates("gated delta rule", set_delta);
}

/* Limits lift steps that vanish and hold those that are huge: what leaves is what steps of the limit
 * give. */
static void limited_steps(void **state)
{
    (void)state;
    static const double limits[][2] = {{0.001, INFINITY}, {0.001, 0.1}, {0.25, 0.25}};
    const struct kind *kind = kind_of("Mamba-2");
    for (int t = 0; t < 3; t++)
        for (int huge = 0; huge < 2; huge++)
            for (int single = 0; single < 2; single++) {
                double limit = limits[t][huge];
                built *b = scan_new(kind, SHORT_MEMORY, true, 130, 5);
                heard h, same;
                if (isfinite(limit)) { /* softplus(log(expm1(x))) is x */
                    set_columns(b, kind->width - HEADS, kind->width, log(expm1(limit)));
                    if (!single) compare(kind, b, single, 1e-12, "a step of the limit");
                }
                rs_precision precision = single ? RS_PRECISION_F32 : RS_PRECISION_F64;
                run_engine(&same, b, precision, 1, false);
                rs_ssd_op *op = &b->layers[0].branches[0].ssd;
                op->step_least = limits[t][0], op->step_most = limits[t][1];
                if (isfinite(limit))
                    set_columns(b, kind->width - HEADS, kind->width, huge ? 1e4 : -1e4);
                run_engine(&h, b, precision, 1, false);
                is_near(h.states[1], same.states[1], (size_t)(130 * kind->width),
                        single ? 1e-6 : 1e-14, 5, "limited");
                heard_free(&h);
                heard_free(&same);
                built_free(b);
            }
}

/* ---- the others ---- */

static void extreme_holds(void **state)
{
    (void)state;
    static const double steps[] = {-700, -30, 0, 3};
    const struct kind *kind = kind_of("S4D");
    for (int s = 0; s < 4; s++)
        for (int r = 1; r < 4; r++)
            for (int single = 0; single < 2; single++) {
                char what[80];
                built *b = scan_new(kind, SHORT_MEMORY, true, 130, (uint64_t)(s + 10 * r));
                rs_s4d_op *op = &b->layers[0].branches[0].s4d;
                fill(op->log_step, steps[s]);
                fill(op->log_decay, r == 1 ? -20 : log_rate[r]);
                snprintf(what, sizeof what, "step exp(%g), rate %d", steps[s], r);
                compare(kind, b, single, single ? 1e-5 : 1e-12, what);
                built_free(b);
            }
}

static void extreme_gates(void **state)
{
    (void)state;
    static const double biases[] = {-1e4, -90, -40, 0, 40, 90, 1e4};
    const struct kind *kind = kind_of("gated recurrence");
    for (int t = 0; t < 7; t++)
        for (int single = 0; single < 2; single++) {
            built *b = scan_new(kind, LONG_MEMORY, false, 130, (uint64_t)t);
            const rs_tensor *bias = b->layers[0].branches[0].recurrence.gates.bias;
            for (int c = 0; c < CHANNELS; c++)
                ((double *)(uintptr_t)bias->data)[c] = biases[t];
            compare(kind, b, single, single ? 1e-5 : 1e-12, "forget gates shut or open");
            built_free(b);
        }
}

static void extreme_decays(void **state)
{
    (void)state;
    static const double decays[] = {0, 1, 1e-300, 1e-30};
    const struct kind *kind = kind_of("linear attention");
    for (int t = 0; t < 4; t++)
        for (int single = 0; single < 2; single++) {
            built *b = scan_new(kind, SHORT_MEMORY, true, 130, (uint64_t)t);
            fill(b->layers[0].branches[0].linear.decay, decays[t]);
            compare(kind, b, single, single ? 1e-5 : 1e-12, "decays");
            built_free(b);
        }
}

/* ---- lengths ---- */

static void hundred_thousand_tokens(void **state)
{
    (void)state;
    for (int at = 0; at < KINDS; at++) {
        if (kinds[at].no_recurrence) continue;
        built *b = scan_new(&kinds[at], SHORT_MEMORY, true, 100000, (uint64_t)at);
        compare(&kinds[at], b, true, 1e-5, "100 000 tokens");
        built_free(b);
    }
}

static void one_token(void **state)
{
    (void)state;
    for (int at = 0; at < KINDS; at++)
        for (int way = 0; way < 4; way++) {
            built *b = scan_new(&kinds[at], (recall)(way / 2), way % 2, 1, (uint64_t)way);
            compare(&kinds[at], b, way % 2, way % 2 ? 1e-5 : 1e-12, "one token");
            built_free(b);
        }
}

/* ---- refused ---- */

static rs_error refused(built *b, rs_status expected)
{
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    const rs_context context = {.threads = 1};
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F32, 1 << 24, &err), RS_OK);
    rs_status status = rs_runner_open(&runner, &b->network, weights, &context, &err);
    if (status == RS_OK) {
        status = rs_runner_run(runner, &b->batch, NULL, 0, &err);
        rs_runner_close(runner);
    }
    assert_int_equal(status, expected);
    rs_weights_close(weights);
    return err;
}

/* Numbers of which no finite state comes are refused by their tensor, not told as NaN. */
static void infinite_rates(void **state)
{
    (void)state;
    static const double bad[] = {5000, INFINITY, NAN};
    for (int t = 0; t < 3; t++)
        for (int which = 0; which < 5; which++) {
            static const char *const names[] = {"Mamba-2", "Mamba", "gated delta rule", "S4D",
                                                "S4D"};
            built *b = scan_new(kind_of(names[which]), SHORT_MEMORY, true, 3, 1);
            rs_branch *branch = &b->layers[0].branches[0];
            const rs_tensor *tensors[] = {branch->ssd.a_log, branch->s6.a_log, branch->delta.a_log,
                                          branch->s4d.log_decay, branch->s4d.log_step};
            rs_tensor *named = (rs_tensor *)(uintptr_t)tensors[which];
            named->name = "named";
            fill(named, bad[t]);
            assert_string_equal(refused(b, RS_E_TENSOR_VALUE).where, "named");
            built_free(b);
        }
}

static void groups_that_do_not_divide(void **state)
{
    (void)state;
    built *b = scan_new(kind_of("Mamba-2"), SHORT_MEMORY, true, 3, 1);
    b->layers[0].branches[0].ssd.groups = 3;
    assert_non_null(strstr(refused(b, RS_E_CONFIG_HEADS).what, "groups"));
    built_free(b);
    b = scan_new(kind_of("Mamba-2"), SHORT_MEMORY, true, 3, 1);
    b->layers[0].branches[0].ssd.norm_groups = 5;
    assert_non_null(strstr(refused(b, RS_E_CONFIG_SIZE).what, "stretches"));
    built_free(b);
    b = scan_new(kind_of("gated delta rule"), SHORT_MEMORY, true, 3, 1);
    b->layers[0].branches[0].delta.key_heads = 3;
    refused(b, RS_E_CONFIG_HEADS);
    built_free(b);
    b = scan_new(kind_of("linear attention"), SHORT_MEMORY, true, 3, 1);
    b->layers[0].branches[0].linear.kv_heads = 3;
    refused(b, RS_E_CONFIG_HEADS);
    built_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extreme_steps),
        cmocka_unit_test(limited_steps),
        cmocka_unit_test(extreme_holds),
        cmocka_unit_test(extreme_gates),
        cmocka_unit_test(extreme_decays),
        cmocka_unit_test(hundred_thousand_tokens),
        cmocka_unit_test(one_token),
        cmocka_unit_test(infinite_rates),
        cmocka_unit_test(groups_that_do_not_divide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
