/*
 * test_residual_golden.c: the residual precision against plain passes in thousands of digits
 * (tests/oracle/make_residual_golden.py): every state's mean, residual and exponent.
 *
 * The bound is that of docs/theory/collapse.md, 14.5: a layer triples the relative error of R, so
 * after l layers it is at most 10·3^l·u·(1 + max|logit|) in the largest norm; log10 max|R| keeps
 * its digits. State-space mixers are worked out in plain numbers: 1e-10 of R, and of its logarithm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "engine/forward.h"
#include "engine/residual.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 40 };

typedef struct golden {
    const char *name;
    rs_checkpoint *file;
    json_t *description;
    rs_network network;
    rs_layer layers[LAYERS_MAX];
    const double *input;
    int64_t n, d;
    double logit;
    bool plain; /* some op has no form of its own */
    /* what was found */
    int wrong, states;
    double worst, worst_bound, worst_log;
    int threads;
} golden;

static const rs_tensor *find(const golden *g, const char *prefix, const char *part)
{
    char name[200];
    snprintf(name, sizeof name, "%s.%s", prefix, part);
    return rs_checkpoint_find(g->file, name);
}

static const rs_tensor *find_part(const golden *g, const char *prefix, const char *map,
                                  const char *part)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s", map, part);
    return find(g, prefix, name);
}

static rs_dense dense(const golden *g, const char *prefix, const char *map)
{
    const rs_tensor *weight = find_part(g, prefix, map, "weight");
    rs_dense out = {0};
    if (!weight) return out;
    out.weight = weight;
    out.rows = out.out = out.run = out.stride = weight->shape[0];
    out.cols = out.in = weight->shape[1];
    out.out_is_row = true;
    out.bias = find_part(g, prefix, map, "bias");
    return out;
}

static const char *text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static int64_t whole(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static bool flag(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static rs_norm_op norm(const golden *g, const char *prefix, const char *place, const char *kind,
                       int64_t dim)
{
    static const char *const kinds[] = {"none", "layernorm", "rmsnorm", "rmsnorm_plus_one"};
    rs_norm_op op = {.dim = dim, .eps = 1e-5};
    for (int k = 0; k < 4; k++)
        if (strcmp(kinds[k], kind) == 0) op.kind = (rs_norm_kind)k;
    op.gain = find_part(g, prefix, place, "gain");
    op.bias = find_part(g, prefix, place, "bias");
    return op;
}

static rs_attention_op attention(const golden *g, const char *prefix, const json_t *b)
{
    const json_t *rope = json_object_get(b, "rope"), *mix = json_object_get(b, "mix");
    rs_attention_op op = {.heads = (int32_t)whole(b, "heads"),
                          .kv_heads = (int32_t)whole(b, "kv_heads"),
                          .head_dim = whole(b, "head_dim"),
                          .value_dim = whole(b, "value_dim"),
                          .q = dense(g, prefix, "q"),
                          .k = dense(g, prefix, "k"),
                          .v = dense(g, prefix, "v"),
                          .o = dense(g, prefix, "o"),
                          .scale = number(b, "qk_scale"),
                          .softcap = number(b, "softcap"),
                          .temperature = number(b, "temperature"),
                          .causal = flag(b, "causal"),
                          .window = whole(b, "window")};
    op.q_norm = norm(g, prefix, "q_norm", text(b, "q_norm"), whole(b, "norm_dim_q"));
    op.k_norm = norm(g, prefix, "k_norm", text(b, "k_norm"), whole(b, "norm_dim_k"));
    op.mix_identity = json_number_value(json_array_get(mix, 0));
    op.mix_softmax = json_number_value(json_array_get(mix, 1));
    op.mix_uniform = json_number_value(json_array_get(mix, 2));
    if (json_is_object(rope))
        op.rope = (rs_rope_op){.kind = flag(rope, "interleaved") ? RS_ROPE_INTERLEAVED
                                                                 : RS_ROPE_HALF_SPLIT,
                               .law = RS_ROPE_PLAIN,
                               .dims = (int32_t)whole(rope, "dims"),
                               .theta = number(rope, "theta"),
                               .factor = 1,
                               .attention_factor = 1};
    if (flag(b, "relative")) {
        op.relative.r = dense(g, prefix, "r");
        op.relative.content_bias = find(g, prefix, "content");
        op.relative.position_bias = find(g, prefix, "position");
    }
    op.distance_bias = find(g, prefix, "distance");
    op.distance_reach = whole(b, "reach");
    return op;
}

static rs_conv_op conv(const golden *g, const char *prefix)
{
    const rs_tensor *weight = find_part(g, prefix, "conv", "weight");
    return (rs_conv_op){.channels = weight->shape[0],
                        .width = weight->shape[2],
                        .weight = weight,
                        .bias = find_part(g, prefix, "conv", "bias")};
}

static rs_ssd_op ssd(const golden *g, const char *prefix, const json_t *b)
{
    static const char *const gates[] = {
        [RS_GATE_BEFORE_NORM] = "before", [RS_GATE_AFTER_NORM] = "after", [RS_GATE_NONE] = "none"};
    rs_ssd_op op = {.heads = (int32_t)whole(b, "heads"),
                    .groups = (int32_t)whole(b, "groups"),
                    .head_dim = whole(b, "head_dim"),
                    .state = whole(b, "state"),
                    .in = dense(g, prefix, "in"),
                    .conv = conv(g, prefix),
                    .dt_bias = find(g, prefix, "dt_bias"),
                    .a_log = find(g, prefix, "a_log"),
                    .d = find(g, prefix, "d"),
                    .step_most = INFINITY,
                    .norm = norm(g, prefix, "norm", text(b, "norm"), 0),
                    .norm_groups = whole(b, "groups"),
                    .o = dense(g, prefix, "o")};
    op.norm.dim = op.heads * op.head_dim;
    for (int i = 0; i < 3; i++)
        if (strcmp(gates[i], text(b, "gate")) == 0) op.gate = (rs_gate_place)i;
    return op;
}

static rs_s6_op s6(const golden *g, const char *prefix, const json_t *b)
{
    return (rs_s6_op){.inner = whole(b, "inner"),
                      .state = whole(b, "state"),
                      .rank = whole(b, "rank"),
                      .in = dense(g, prefix, "in"),
                      .x = dense(g, prefix, "x"),
                      .step = dense(g, prefix, "step"),
                      .conv = conv(g, prefix),
                      .a_log = find(g, prefix, "a_log"),
                      .d = find(g, prefix, "d"),
                      .gated = flag(b, "gated"),
                      .o = dense(g, prefix, "o")};
}

static rs_branch branch(golden *g, const char *prefix, const json_t *b)
{
    rs_branch out = {.before = norm(g, prefix, "before", text(b, "before"), g->d),
                     .inside = norm(g, prefix, "inside", text(b, "inside"), g->d),
                     .after = norm(g, prefix, "after", text(b, "after"), g->d),
                     .skip = number(b, "skip"),
                     .scale = number(b, "scale"),
                     .joins = flag(b, "joins")};
    if (strcmp(text(b, "kind"), "attention") == 0) {
        out.attention = attention(g, prefix, b);
        return out;
    }
    if (text(b, "kind")[0] == 's') {
        bool is_ssd = strcmp(text(b, "kind"), "ssd") == 0;
        out.kind = is_ssd ? RS_BRANCH_SSD : RS_BRANCH_S6;
        if (is_ssd)
            out.ssd = ssd(g, prefix, b);
        else
            out.s6 = s6(g, prefix, b);
        g->plain = true;
        return out;
    }
    out.kind = RS_BRANCH_MLP;
    out.mlp = (rs_mlp_op){.up = dense(g, prefix, "up"),
                          .gate = dense(g, prefix, "gate"),
                          .down = dense(g, prefix, "down"),
                          .width = whole(b, "width")};
    static const char *const acts[] = {"linear",     "relu", "gelu", "gelu_tanh",
                                       "quick_gelu", "silu", "tanh", "relu2"};
    for (int a = 0; a < RS_ACT_COUNT; a++)
        if (strcmp(acts[a], text(b, "act")) == 0) out.mlp.activation = (rs_activation)a;
    return out;
}

static void build(golden *g)
{
    const json_t *layers = json_object_get(g->description, "layers");
    g->network = (rs_network){.family = "golden", .d_model = g->d, .layers = g->layers};
    g->network.n_layers = (int32_t)json_array_size(layers);
    assert_true(g->network.n_layers <= LAYERS_MAX);
    for (int32_t l = 0; l < g->network.n_layers; l++) {
        const json_t *branches = json_array_get(layers, (size_t)l);
        g->layers[l].n_branches = (int32_t)json_array_size(branches);
        for (int32_t b = 0; b < g->layers[l].n_branches; b++) {
            char prefix[40];
            snprintf(prefix, sizeof prefix, "l%d.b%d", (int)l, (int)b);
            g->layers[l].branches[b] = branch(g, prefix, json_array_get(branches, (size_t)b));
        }
    }
}

/* ---- comparing ---- */

static const rs_tensor *state_tensor(const golden *g, int32_t layer, const char *part)
{
    char name[60];
    snprintf(name, sizeof name, "state.%d.%s", (int)layer, part);
    const rs_tensor *tensor = rs_checkpoint_find(g->file, name);
    assert_non_null(tensor);
    return tensor;
}

static double entry(const rs_tensor *tensor, int64_t i)
{
    double value;
    rs_tensor_decode_f64(&value, tensor, i, 1);
    return value;
}

/* fmax that keeps what is no number. */
static double more(double a, double b)
{
    return isnan(b) || b > a ? b : a;
}

static double largest(const double *a, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(a[i]));
    return most;
}

static int64_t count_of(const golden *g, int32_t layer, const char *part)
{
    char name[60];
    snprintf(name, sizeof name, "state.%d.%s", (int)layer, part);
    const rs_tensor *tensor = rs_checkpoint_find(g->file, name);
    return tensor ? ((const int64_t *)(const void *)tensor->data)[0] : 0;
}

/* What of a state is wrong. */
typedef struct errors {
    double residual, base; /* beside those of the state */
    double log;            /* of its residual */
    bool log_fine;
} errors;

static errors errors_of(const golden *g, int32_t layer, const rs_state_view *view)
{
    const rs_tensor *m = state_tensor(g, layer, "residual"), *x = state_tensor(g, layer, "base");
    int64_t scale = count_of(g, layer, "scale"), exponent = count_of(g, layer, "exponent");
    int64_t up = view->scale[0] - scale, by = view->exponent[0] + up - exponent;
    double error = 0, size = 0, base = 0, base_size = 0;
    if (by < -100 || by > 100 || up < -2000 || up > 2000) {
        print_error("%s, state %d: exponent %lld for %lld\n", g->name, (int)layer,
                    (long long)(view->exponent[0] + view->scale[0]), (long long)(exponent + scale));
        return (errors){.residual = 1, .base = 1};
    }
    for (int64_t i = 0; i < g->n * g->d; i++) {
        error = more(error, fabs(ldexp(view->residual[i], (int)by) - entry(m, i)));
        size = fmax(size, fabs(entry(m, i)));
    }
    for (int64_t i = 0; i < g->d; i++) {
        base = more(base, fabs(ldexp(view->base[i], (int)up) - entry(x, i)));
        base_size = fmax(base_size, fabs(entry(x, i)));
    }
    base_size = fmax(base_size, ldexp(size, exponent < -2000 ? -2000 : (int)exponent));
    if (size == 0) return (errors){.residual = error, .base = base / base_size, .log_fine = true};
    double log_found = (double)(view->exponent[0] + view->scale[0]) * M_LN2 +
                       log(largest(view->residual, g->n * g->d));
    double log_true = (double)(exponent + scale) * M_LN2 + log(size);
    /* the error of a small logarithm is that of R itself */
    double log_error = fabs(log_found - log_true) / fmax(1, fabs(log_true));
    /* beyond 1e6 nats the error of R itself is nothing beside the logarithm */
    return (errors){.residual = error / size,
                    .base = base / base_size,
                    .log = log_error,
                    .log_fine = fabs(log_true) < 1e6 || log_error <= 1e-15};
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    (void)site, (void)err;
    golden *g = user;
    errors e = errors_of(g, layer, view);
    double bound = g->plain ? 1e-10 : 10 * pow(3, layer) * 0x1p-53 * (1 + g->logit);
    g->states++;
    if (e.residual / bound > g->worst_bound)
        g->worst = e.residual, g->worst_bound = e.residual / bound;
    g->worst_log = fmax(g->worst_log, e.log);
    if (e.residual <= bound && e.base <= 1e-11 && e.log_fine) return RS_OK;
    print_error("%s, state %d: residual wrong by %.3g of it, base by %.3g; over %.3g\n", g->name,
                (int)layer, e.residual, e.base, bound);
    g->wrong++;
    return RS_OK;
}

static void run(golden *g)
{
    rs_context context = {.threads = g->threads};
    rs_error err = {0};
    rs_weights *weights;
    rs_runner *runner = NULL;
    int64_t begin[] = {0, g->n};
    rs_batch batch = {.samples = 1, .begin = begin, .states = g->input};
    rs_tap tap = {.user = g, .sites = 1u << RS_SITE_BLOCK_OUT, .state = on_state};
    const rs_tap *taps[] = {&tap};
    if (rs_weights_open(&weights, RS_PRECISION_RESIDUAL, UINT64_MAX, &err) != RS_OK ||
        rs_runner_open(&runner, &g->network, weights, &context, &err) != RS_OK ||
        rs_runner_run(runner, &batch, taps, 1, &err) != RS_OK)
        fail_msg("%s: %s: %s", g->name, err.where, err.what);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

/* The description is JSON in a tensor of bytes. */
static json_t *describe(const golden *g)
{
    const rs_tensor *bytes = rs_checkpoint_find(g->file, "network");
    assert_non_null(bytes);
    return json_loadb((const char *)bytes->data, (size_t)bytes->count, 0, NULL);
}

static int one_case(const char *file_name)
{
    golden g = {.name = file_name, .threads = 2};
    char path[512];
    rs_error err;
    rs_checkpoint_options options = {0};
    snprintf(path, sizeof path, "%s/residual/%s", RS_TEST_DATA, file_name);
    assert_int_equal(rs_checkpoint_open(&g.file, path, &options, &err), RS_OK);
    g.description = describe(&g);
    assert_non_null(g.description);
    g.d = whole(g.description, "d");
    const rs_tensor *input = rs_checkpoint_find(g.file, "input");
    double *states = malloc((size_t)input->count * sizeof *states);
    rs_tensor_decode_f64(states, input, 0, input->count);
    g.input = states;
    g.n = input->shape[0];
    g.logit = entry(rs_checkpoint_find(g.file, "largest_logit"), 0);
    build(&g);
    run(&g);
    assert_int_equal(g.states, g.network.n_layers + 1);
    if (getenv("RS_SHOW"))
        print_message("%-36s rel. err %.1e (%.2g of the bound), log %.1e\n", g.name, g.worst,
                      g.worst_bound, g.worst_log);
    free(states);
    json_decref(g.description);
    rs_checkpoint_close(g.file);
    return g.wrong;
}

static void agrees_with_thousands_of_digits(void **state)
{
    (void)state;
    char path[512];
    int cases = 0, wrong = 0;
    snprintf(path, sizeof path, "%s/residual", RS_TEST_DATA);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *item; (item = readdir(folder));) {
        if (!strstr(item->d_name, ".safetensors")) continue;
        wrong += one_case(item->d_name);
        cases++;
    }
    closedir(folder);
    assert_true(cases >= 65);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_thousands_of_digits)};
    return cmocka_run_group_tests_name("residual_golden", tests, NULL, NULL);
}
