/* test_arch_mixers.c: every state-space mixer of an architecture file, from its text to states and
 * mixing matrices, against the plain loops of mixer_reference.h. Their sizes and switches are written
 * here after docs/arch.md; of the network that was built only the drawn numbers are taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mixer_reference.h"

#include "network/arch.h"

/* ---- drawn numbers alone ---- */

/* A map of the drawn matrix, stored [out, in]. */
static rs_dense map_of(const rs_dense *drawn, int64_t in, int64_t out)
{
    assert_true(drawn->weight && drawn->weight->count == in * out);
    return (rs_dense){.weight = drawn->weight,
                      .bias = drawn->bias,
                      .rows = out,
                      .cols = in,
                      .out_is_row = true,
                      .in = in,
                      .out = out,
                      .run = out,
                      .stride = out};
}

static rs_conv_op conv_drawn(const rs_conv_op *drawn, int64_t channels, int64_t width)
{
    assert_true(drawn->weight && drawn->weight->count == channels * width);
    assert_null(drawn->more[0]);
    return (rs_conv_op){channels, width, drawn->weight, drawn->bias, {0}};
}

static rs_norm_op rms_of(int64_t dim)
{
    return (rs_norm_op){RS_NORM_RMSNORM, dim, 1e-5, NULL, NULL};
}

/* ---- what the texts below mean ---- */

enum { D = 10, HEADS = 4, WIDE = 3, INNER = HEADS * WIDE, STATE = 5, CONV = 3, RANK = 1 };

#define SIZES                                                                                      \
    "\"depth\": 2, \"d_model\": 10, \"heads\": 4, \"d_head\": 3, \"state\": 5, \"conv\": 3, "      \
    "\"norm\": \"none\", \"mlp\": \"none\", \"seq_len\": 90, "

static rs_branch mamba(const rs_branch *drawn, bool edited)
{
    const rs_s6_op *of = &drawn->s6;
    rs_branch want = {.kind = RS_BRANCH_S6, .skip = 1, .scale = 1};
    want.s6 = (rs_s6_op){.inner = INNER,
                         .state = STATE,
                         .rank = RANK, /* 10 / 16, rounded up */
                         .gated = !edited,
                         .in = map_of(&of->in, D, 2 * INNER),
                         .conv = conv_drawn(&of->conv, INNER, CONV),
                         .x = map_of(&of->x, INNER, RANK + 2 * STATE),
                         .step = map_of(&of->step, RANK, INNER),
                         .a_log = of->a_log,
                         .d = of->d,
                         .o = map_of(&of->o, INNER, D)};
    if (edited) want.s6.dt_norm = rms_of(RANK);
    if (edited) want.s6.b_norm = want.s6.c_norm = rms_of(STATE);
    return want;
}

static rs_branch mamba2(const rs_branch *drawn, bool edited)
{
    const rs_ssd_op *of = &drawn->ssd;
    int32_t groups = edited ? 2 : 1;
    rs_branch want = {.kind = RS_BRANCH_SSD, .skip = 1, .scale = 1};
    want.ssd = (rs_ssd_op){.heads = HEADS,
                           .groups = groups,
                           .head_dim = WIDE,
                           .state = STATE,
                           .step_most = INFINITY,
                           .gate = edited ? RS_GATE_AFTER_NORM : RS_GATE_BEFORE_NORM,
                           .norm_groups = groups,
                           .norm = rms_of(INNER),
                           .in = map_of(&of->in, D, 2 * INNER + 2 * groups * STATE + HEADS),
                           .conv = conv_drawn(&of->conv, INNER + 2 * groups * STATE, CONV),
                           .dt_bias = of->dt_bias,
                           .a_log = of->a_log,
                           .d = of->d,
                           .o = map_of(&of->o, INNER, D)};
    return want;
}

static rs_branch linear(const rs_branch *drawn, bool edited)
{
    static const double retnet[] = {1 - 1.0 / 32, 1 - 1.0 / 64, 1 - 1.0 / 128, 1 - 1.0 / 256};
    static const int64_t shape[] = {HEADS};
    static const rs_tensor decays = {.name = "retnet",
                                     .dtype = RS_F64,
                                     .rank = 1,
                                     .shape = shape,
                                     .count = HEADS,
                                     .data = (const uint8_t *)retnet,
                                     .bytes = sizeof retnet,
                                     .type_id = -1};
    const rs_linear_op *of = &drawn->linear;
    int32_t keys = edited ? 2 : HEADS;
    rs_branch want = {.kind = RS_BRANCH_LINEAR, .skip = 1, .scale = 1};
    want.linear = (rs_linear_op){.heads = HEADS,
                                 .kv_heads = keys,
                                 .head_dim = WIDE,
                                 .value_dim = WIDE,
                                 .q = map_of(&of->q, D, INNER),
                                 .k = map_of(&of->k, D, keys * WIDE),
                                 .v = map_of(&of->v, D, keys * WIDE),
                                 .o = map_of(&of->o, INNER, D),
                                 .temperature = 1};
    if (!edited) { /* RetNet */
        want.linear.causal = true;
        want.linear.decay = &decays;
        want.linear.norm = rms_of(INNER);
        want.linear.gate = map_of(&of->gate, D, INNER);
        want.linear.place = RS_GATE_AFTER_NORM;
    } else {
        want.linear.feature_map = RS_FEATURE_ELU;
        want.linear.normalised = want.linear.without_self = true;
        want.linear.temperature = 2.5;
    }
    return want;
}

static rs_branch s4d(const rs_branch *drawn, bool edited)
{
    const rs_s4d_op *of = &drawn->s4d;
    (void)edited;
    rs_branch want = {.kind = RS_BRANCH_S4D, .skip = 1, .scale = 1};
    want.s4d = (rs_s4d_op){.channels = D,
                           .pairs = STATE,
                           .log_step = of->log_step,
                           .log_decay = of->log_decay,
                           .frequency = of->frequency,
                           .c = of->c,
                           .d = of->d,
                           .o = map_of(&of->o, D, D),
                           .gate = map_of(&of->gate, D, D)};
    for (int64_t i = 0; i < D * STATE; i++) { /* rates -1/2 + i pi s */
        double real, imaginary;
        rs_tensor_decode_f64(&real, of->log_decay, i, 1);
        rs_tensor_decode_f64(&imaginary, of->frequency, i, 1);
        assert_true(fabs(exp(real) - 0.5) < 1e-7);
        assert_true(fabs(imaginary - M_PI * (double)(i % STATE)) < 1e-6);
    }
    return want;
}

static rs_branch gated_recurrence(const rs_branch *drawn, bool edited)
{
    const rs_recurrence_op *of = &drawn->recurrence;
    rs_branch want = {.kind = RS_BRANCH_RECURRENCE, .skip = 1, .scale = 1};
    want.recurrence = (rs_recurrence_op){.inner = INNER,
                                         .in = map_of(&of->in, D, 2 * INNER),
                                         .conv = conv_drawn(&of->conv, INNER, CONV),
                                         .gates = map_of(&of->gates, INNER, 3 * INNER),
                                         .gated = !edited,
                                         .o = map_of(&of->o, INNER, D)};
    return want;
}

static rs_branch gated_delta(const rs_branch *drawn, bool edited)
{
    const rs_delta_op *of = &drawn->delta;
    int32_t keys = edited ? 2 : HEADS;
    int64_t width = keys * STATE;
    rs_branch want = {.kind = RS_BRANCH_DELTA, .skip = 1, .scale = 1};
    want.delta = (rs_delta_op){.heads = HEADS,
                               .key_heads = keys,
                               .key_dim = STATE,
                               .value_dim = WIDE,
                               .q = map_of(&of->q, D, width),
                               .k = map_of(&of->k, D, width),
                               .v = map_of(&of->v, D, INNER),
                               .b = map_of(&of->b, D, HEADS),
                               .a = map_of(&of->a, D, HEADS),
                               .conv = conv_drawn(&of->conv, 2 * width + INNER, CONV),
                               .activation = RS_ACT_SILU,
                               .a_log = of->a_log,
                               .dt_bias = of->dt_bias,
                               .strength_most = 1,
                               .gate = edited ? RS_GATE_NONE : RS_GATE_AFTER_NORM,
                               .norm = edited ? (rs_norm_op){0} : rms_of(WIDE),
                               .o = map_of(&of->o, INNER, D)};
    if (!edited) want.delta.z = map_of(&of->z, D, INNER);
    return want;
}

static rs_branch short_conv(const rs_branch *drawn, bool edited)
{
    const rs_short_conv_op *of = &drawn->short_conv;
    (void)edited;
    rs_branch want = {.kind = RS_BRANCH_SHORT_CONV, .skip = 1, .scale = 1};
    want.short_conv.in = map_of(&of->in, D, 3 * INNER);
    want.short_conv.conv = conv_drawn(&of->conv, INNER, CONV);
    want.short_conv.o = map_of(&of->o, INNER, D);
    return want;
}

static const struct {
    const char *text;
    rs_branch (*want)(const rs_branch *drawn, bool edited);
    bool edited;
    double skip, scale; /* of both layers */
} files[] = {
    {SIZES "\"mixer\": \"mamba\"", mamba, false, 1, 1},
    {SIZES "\"mixer\": \"mamba\", \"gate\": \"none\", \"inner_norm\": true", mamba, true, 1, 1},
    {SIZES "\"mixer\": \"mamba2\"", mamba2, false, 1, 1},
    {SIZES "\"mixer\": \"mamba2\", \"groups\": 2, \"gate\": \"after\", \"skip_mixer\": 0.5", mamba2,
     true, 0.5, 1},
    {SIZES "\"mixer\": \"linear_attention\", \"mask\": \"causal\", \"decay\": \"retnet\", "
           "\"inner_norm\": true, \"gate\": \"after\"",
     linear, false, 1, 1},
    {SIZES "\"mixer\": \"linear_attention\", \"kv_heads\": 2, \"feature_map\": \"elu\", "
           "\"normalised\": true, \"without_self\": true, \"temperature\": 2.5",
     linear, true, 1, 1},
    {SIZES "\"mixer\": \"s4d\"", s4d, false, 1, 1},
    {SIZES "\"mixer\": \"s4d\", \"share_layers\": true, \"branch_mixer\": 0.25", s4d, false, 1,
     0.25},
    {SIZES "\"mixer\": \"gated_recurrence\"", gated_recurrence, false, 1, 1},
    {SIZES "\"mixer\": \"gated_recurrence\", \"gate\": \"none\"", gated_recurrence, true, 1, 1},
    {SIZES "\"mixer\": \"gated_delta\"", gated_delta, false, 1, 1},
    {SIZES "\"mixer\": \"gated_delta\", \"kv_heads\": 2, \"gate\": \"none\", \"inner_norm\": false",
     gated_delta, true, 1, 1},
    {SIZES "\"mixer\": \"short_conv\"", short_conv, false, 1, 1},
};

/* ---- comparing ---- */

static void scaled(double *y, const rs_branch *branch, const double *x, int64_t n,
                   hear_matrix *hear, void *user)
{
    ref_mixer(y, branch, x, n, hear, user);
    for (int64_t i = 0; i < n * D; i++)
        y[i] *= branch->scale;
}

static void files_to_states(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        built *b = calloc(1, sizeof *b);
        char text[600];
        rs_init *init;
        rs_network *network;
        rs_error err = {0};
        heard h;
        snprintf(text, sizeof text, "{%s}", files[f].text);
        json_t *json = json_loads(text, 0, NULL);
        assert_non_null(json);
        assert_int_equal(rs_init_open(&init, NULL, 7 + f, &err), RS_OK);
        if (rs_network_from_arch(&network, json, "ARCH.json", init, &err) != RS_OK)
            fail_msg("%s: %s", text, err.what);
        json_decref(json);
        assert_int_equal(network->n_layers, 2);
        for (int l = 0; l < 2; l++) {
            b->layers[l].n_branches = 1;
            b->layers[l].branches[0] =
                files[f].want(&network->layers[l].branches[0], files[f].edited);
            b->layers[l].branches[0].skip = files[f].skip;
            b->layers[l].branches[0].scale = files[f].scale;
        }
        b->network = *network; /* the engine runs what was built, the loops what is wanted */
        b->random = rs_random_new(f, 5);
        b->begin[1] = 90, b->begin[2] = 93;
        b->states = malloc(93 * D * sizeof *b->states);
        for (int i = 0; i < 93 * D; i++)
            b->states[i] = rs_random_normal(&b->random);
        b->batch = (rs_batch){.samples = 2, .begin = b->begin, .states = b->states};
        run_engine(&h, b, RS_PRECISION_F64, 2, true);
        compare_all(&h, b, scaled, 1e-12, f);
        heard_free(&h);
        run_engine(&h, b, RS_PRECISION_F32, 1, true);
        compare_all(&h, b, scaled, 1e-5, f);
        heard_free(&h);
        rs_network_close(network);
        rs_init_close(init);
        built_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_to_states)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
