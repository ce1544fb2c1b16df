/*
 * test_certify_listeners.c: what `certify` keeps of a pass is about the rows that the engine has:
 * lengths and stds lie on the safe side of those of the moments told, in long double, and close to
 * them; skip strengths are of what the pass adds and sums; and its listeners say the same beside
 * others as alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "certify/certify_gather.h"
#include "network/op_traits.h"
#include "observe/measure.h"
#include "property.h"

#include <string.h>

enum { SAMPLES = 5, D = 16, LAYERS = 3 };

static const int64_t lengths[SAMPLES] = {6, 0, 3, 1, 5};

typedef struct scene {
    rs_init *init;
    rs_network *network;
    int64_t begin[SAMPLES + 1];
    double states[16 * D];
    rs_inputs inputs;
} scene;

/* Post-norm, pre-norm, sandwiches; both norms; scales and skips of all signs. */
static void open_scene(scene *s, uint64_t seed)
{
    static const char *const norms[] = {"none", "pre", "post", "sandwich"};
    static const char *const kinds[] = {"layernorm", "rmsnorm"};
    static const double factors[] = {1, -0.7, 0, 2.5};
    rs_random random = property_random();
    rs_error err = {0};
    json_t *arch =
        json_pack("{s:i, s:i, s:i, s:s, s:s, s:f, s:f, s:f, s:f}", "depth", LAYERS, "d_model", D,
                  "heads", 2, "norm", norms[seed % 4], "norm_kind", kinds[seed / 4 % 2],
                  "skip_mixer", factors[seed / 8 % 4], "skip_mlp", factors[seed / 32 % 4],
                  "branch_mixer", factors[seed / 16 % 4], "branch_mlp", factors[seed / 2 % 4]);
    *s = (scene){.inputs = {.kind = "random", .samples = SAMPLES, .longest = 6, .empty = 1}};
    assert_non_null(arch);
    assert_int_equal(rs_init_open(&s->init, NULL, seed, &err), RS_OK);
    if (rs_network_from_arch(&s->network, arch, "test", s->init, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    json_decref(arch);
    for (int i = 0; i < SAMPLES; i++)
        s->begin[i + 1] = s->begin[i] + lengths[i];
    for (int64_t i = 0; i < s->begin[SAMPLES] * D; i++)
        s->states[i] = rs_random_normal(&random);
    s->inputs.begin = s->begin;
    s->inputs.states = s->states;
    s->inputs.d_model = D;
}

static void close_scene(scene *s)
{
    rs_network_close(s->network);
    rs_init_close(s->init);
}

/* ---- the rows themselves ---- */

typedef struct truth {
    rs_listener listener;
    const rs_network *network;
    rs_certify_pass *pass;
    const rs_input_batch *batch;
    int checked;
} truth;

static long double length_of(const double *x)
{
    long double sum = 0;
    for (int k = 0; k < D; k++)
        sum += (long double)x[k] * x[k];
    return sqrtl(sum);
}

static long double std_of(const double *x, const rs_norm_op *norm)
{
    long double mean = 0, sum = 0;
    for (int k = 0; k < D && norm->kind == RS_NORM_LAYERNORM; k++)
        mean += (long double)x[k] / D;
    for (int k = 0; k < D; k++)
        sum += (x[k] - mean) * (x[k] - mean);
    return sqrtl(sum / D + norm->eps);
}

/* No less than the longest row, and little more. */
static void check_length(double kept, const double *x, int64_t n)
{
    long double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmaxl(most, length_of(x + i * D));
    if (n == 0) return;
    assert_true(kept >= most);
    property_worst((double)((kept - most) / fmaxl(most, 1e-100L) * 1e12L));
}

/* No more than the least std, and little less. */
static void check_std(double kept, const double *x, int64_t n, const rs_norm_op *norm)
{
    long double least = INFINITY;
    if (norm->kind == RS_NORM_NONE || n == 0) return;
    for (int64_t i = 0; i < n; i++)
        least = fminl(least, std_of(x + i * D, norm));
    assert_true(kept <= least);
    property_worst((double)((least - kept) / least * 1e12L));
}

static rs_status on_branch(void *user, int32_t l, int32_t b, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    truth *t = user;
    const rs_branch *branch = &t->network->layers[l].branches[b];
    (void)err;
    for (int32_t s = 0; s < view->batch->samples; s++) {
        const rs_certify_branch *kept = rs_pass_branch(t->pass, t->batch->first + s, l, b);
        const double *x = (const double *)view->data + view->batch->begin[s] * D;
        int64_t n = rs_batch_rows(t->batch, s);
        switch (moment) {
        case RS_MOMENT_IN:
            check_length(kept->longest_in, x, n);
            check_std(kept->before_std, x, n, &branch->before);
            break;
        case RS_MOMENT_OP_IN:
            check_length(kept->longest_op_in, x, n);
            break;
        case RS_MOMENT_OP_OUT:
            check_length(kept->longest_op_out, x, n);
            check_std(kept->inside_std, x, n, &branch->inside);
            break;
        default:
            check_std(kept->after_std, x, n, &branch->after);
            if (branch->after.kind != RS_NORM_NONE) check_length(kept->longest_sum, x, n);
        }
        t->checked++;
    }
    return RS_OK;
}

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    (void)err;
    ((truth *)user)->batch = batch;
    return RS_OK;
}

static void what_is_kept_is_of_the_engines_rows(void **state)
{
    (void)state;
    for (int i = property_start(128, 0); property_next(&i);) {
        scene s;
        rs_certify_gather *gather;
        const rs_context context = {.threads = 2};
        open_scene(&s, property_seed());
        const rs_certify_scene at = {.network = s.network,
                                     .inputs = &s.inputs,
                                     .context = &context,
                                     .capacity = 2,
                                     .widest = s.inputs.longest};
        assert_int_equal(rs_certify_gather_open(&gather, &at, NULL), RS_OK);
        truth t = {.network = s.network, .pass = rs_certify_gather_pass(gather)};
        t.listener = (rs_listener){.tap = {.user = &t,
                                           .moments = 1u << RS_MOMENT_IN | 1u << RS_MOMENT_OP_IN |
                                                      1u << RS_MOMENT_OP_OUT | 1u << RS_MOMENT_SUM,
                                           .branch = on_branch},
                                   .begin = begin_batch};
        rs_listener *listeners[] = {rs_certify_gather_listener(gather), &t.listener};
        const rs_pass_plan plan = {.network = s.network,
                                   .inputs = &s.inputs,
                                   .precision = RS_PRECISION_F64,
                                   .capacity = 2,
                                   .phase = "test"};
        assert_int_equal(rs_observe_pass(NULL, &plan, listeners, 2, &context, NULL), RS_OK);
        assert_true(t.checked >= 2 * SAMPLES * LAYERS);
        rs_certify_gather_close(gather);
        close_scene(&s);
    }
    property_holds(1); /* 1e-12 of the number */
}

/* ---- skip strengths ---- */

/* What the mixer of the running layer reads, adds (its scale included) and sums up to. */
typedef struct mixer_rows {
    rs_listener listener;
    const rs_network *network;
    const rs_input_batch *batch;
    double x[SAMPLES][LAYERS][6 * D], added[SAMPLES][LAYERS][6 * D], sum[SAMPLES][LAYERS][6 * D];
} mixer_rows;

static rs_status on_mixer(void *user, int32_t l, int32_t b, rs_moment moment,
                          const rs_state_view *view, rs_error *err)
{
    mixer_rows *m = user;
    (void)err;
    if (!rs_is_mixer(m->network, l, b)) return RS_OK;
    for (int32_t s = 0; s < view->batch->samples; s++) {
        int64_t at = m->batch->first + s, n = rs_batch_rows(m->batch, s);
        double *to = moment == RS_MOMENT_IN      ? m->x[at][l]
                     : moment == RS_MOMENT_ADDED ? m->added[at][l]
                                                 : m->sum[at][l];
        memcpy(to, (const double *)view->data + view->batch->begin[s] * D,
               (size_t)(n * D) * sizeof *to);
    }
    return RS_OK;
}

static rs_status begin_mixer(void *user, const rs_input_batch *batch, rs_error *err)
{
    (void)err;
    ((mixer_rows *)user)->batch = batch;
    return RS_OK;
}

/* Of the rows less their mean: a·b, summed. */
static long double centred_product(const double *a, const double *b, int64_t n)
{
    long double sum = 0;
    for (int k = 0; k < D; k++) {
        long double mean_a = 0, mean_b = 0;
        for (int64_t i = 0; i < n; i++) {
            mean_a += (long double)a[i * D + k] / n;
            mean_b += (long double)b[i * D + k] / n;
        }
        for (int64_t i = 0; i < n; i++)
            sum += (a[i * D + k] - mean_a) * (b[i * D + k] - mean_b);
    }
    return sum;
}

static void check_row(const rs_lambda_row *row, const mixer_rows *m, int64_t s, int32_t l)
{
    const rs_branch *mixer = rs_layer_mixer(&m->network->layers[l]);
    const double *x = m->x[s][l], *added = m->added[s][l];
    int64_t n = lengths[s];
    if (!row->told) return;
    long double alpha = centred_product(x, x, n);
    if (!(alpha > 0 && centred_product(added, added, n) > 0)) return;
    long double worst = -mixer->scale * centred_product(x, added, n) / alpha;
    long double of_input = 0, of_added = 0; /* with their means, which cancel */
    for (int64_t k = 0; k < n * D; k++) {
        of_input += (long double)x[k] * x[k];
        of_added += (long double)added[k] * added[k];
    }
    long double size = fabs(mixer->scale) * sqrtl(of_input) / alpha * sqrtl(of_added);
    property_worst((double)(fabsl(row->worst - worst) / size * 1e11L));
    if (mixer->after.kind != RS_NORM_NONE || isnan(row->kept_now)) return;
    long double kept = sqrtl(centred_product(m->sum[s][l], m->sum[s][l], n) / alpha);
    property_worst((double)(fabsl(row->kept_now - kept) / (row->kept_now_error + 1e-300L)));
}

static void skip_strengths_are_of_what_the_pass_adds(void **state)
{
    (void)state;
    static mixer_rows m;
    int told = 0;
    for (int i = property_start(128, 0); property_next(&i);) {
        scene s;
        rs_certify_gather *gather;
        rs_certify_lambda *lambda;
        rs_certify_options options;
        rs_weight_norms *norms;
        const rs_context context = {.threads = 2};
        open_scene(&s, property_seed());
        rs_certify_defaults(&options);
        assert_int_equal(rs_weight_norms_open(&norms, s.network, &context, NULL), RS_OK);
        const rs_certify_scene at = {.network = s.network,
                                     .norms = norms,
                                     .inputs = &s.inputs,
                                     .options = &options,
                                     .context = &context,
                                     .capacity = 2,
                                     .widest = s.inputs.longest};
        assert_int_equal(rs_certify_gather_open(&gather, &at, NULL), RS_OK);
        assert_int_equal(rs_certify_lambda_open(&lambda, &at, rs_certify_gather_pass(gather), NULL),
                         RS_OK);
        m = (mixer_rows){.network = s.network};
        m.listener = (rs_listener){
            .tap = {.user = &m,
                    .moments = 1u << RS_MOMENT_IN | 1u << RS_MOMENT_ADDED | 1u << RS_MOMENT_SUM,
                    .branch = on_mixer},
            .begin = begin_mixer};
        rs_listener *listeners[] = {rs_certify_gather_listener(gather),
                                    rs_certify_lambda_listener(lambda), &m.listener};
        const rs_pass_plan plan = {.network = s.network,
                                   .inputs = &s.inputs,
                                   .precision = RS_PRECISION_F64,
                                   .capacity = 2,
                                   .phase = "test"};
        assert_int_equal(rs_observe_pass(NULL, &plan, listeners, 3, &context, NULL), RS_OK);
        for (int64_t k = 0; k < SAMPLES; k++)
            for (int32_t l = 0; l < LAYERS; l++) {
                const rs_lambda_row *row = rs_certify_lambda_row(lambda, k, l);
                check_row(row, &m, k, l);
                told += row->told;
            }
        rs_certify_lambda_close(lambda);
        rs_certify_gather_close(gather);
        rs_weight_norms_close(norms);
        close_scene(&s);
    }
    assert_true(told > 128);
    property_holds(1);
}

/* ---- beside others ---- */

/* The result as text. */
static char *text_of(const rs_result *result)
{
    rs_buffer text = {0};
    assert_int_equal(rs_write_json(&text, result, NULL), RS_OK);
    assert_false(text.failed);
    return text.data;
}

static void listeners_beside_others_say_the_same(void **state)
{
    (void)state;
    for (int i = property_start(32, 0); property_next(&i);) {
        scene s;
        rs_certify_options options;
        rs_certifying *certifying;
        rs_weights *weights;
        rs_measured *measured;
        rs_measure_options measures;
        rs_listener *listeners[RS_CERTIFY_LISTENERS];
        const rs_context context = {.threads = 2};
        open_scene(&s, property_seed());
        rs_certify_defaults(&options);
        options.batch = 2;
        rs_measure_defaults(&measures);
        measures.precision = RS_PRECISION_F64;
        measures.batch = 2;
        rs_result *alone = rs_result_new("certify"), *beside = rs_result_new("certify");
        assert_int_equal(rs_certify(alone, s.network, &s.inputs, &options, &context, NULL), RS_OK);
        assert_int_equal(
            rs_certify_open(&certifying, s.network, &s.inputs, &options, &context, NULL), RS_OK);
        rs_certify_listeners(listeners, certifying);
        assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 24, NULL), RS_OK);
        assert_int_equal(rs_measure_network(&measured, s.network, weights, &s.inputs, &measures,
                                            listeners, RS_CERTIFY_LISTENERS, &context, NULL),
                         RS_OK);
        assert_int_equal(rs_certify_finish(beside, certifying, NULL), RS_OK);
        char *expected = text_of(alone), *found = text_of(beside);
        assert_string_equal(found, expected);
        rs_free(expected);
        rs_free(found);
        rs_measured_free(measured);
        rs_weights_close(weights);
        rs_certify_close(certifying);
        rs_result_free(alone);
        rs_result_free(beside);
        close_scene(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_of_the_engines_rows),
        cmocka_unit_test(skip_strengths_are_of_what_the_pass_adds),
        cmocka_unit_test(listeners_beside_others_say_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
