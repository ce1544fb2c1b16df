/* predict_support.h: golden numbers of mean-field theory (tests/oracle/make_predict_golden.py) and
 * networks made of a case's numbers. Include behind cmocka.h. */
#ifndef RS_TEST_PREDICT_SUPPORT_H
#define RS_TEST_PREDICT_SUPPORT_H

#include "measure_cases.h"
#include "predict/theory.h"

static rs_error err;

#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != RS_OK) fail_msg("%s: %s", err.where, err.what);                        \
    } while (0)

static inline json_t *load_golden(const char *name)
{
    char path[512];
    json_error_t problem;
    snprintf(path, sizeof path, "%s/predict/%s", RS_TEST_DATA, name);
    json_t *golden = json_load_file(path, 0, &problem);
    if (!golden) fail_msg("%s: %s", path, problem.text);
    return golden;
}

/* Each case of a golden file. */
static inline void check_golden(const char *name, void (*check)(const json_t *item))
{
    size_t i;
    json_t *golden = load_golden(name), *item;
    json_array_foreach(golden, i, item) check(item);
    json_decref(golden);
}

static inline void is_near(const char *what, double got, double expected, double relative)
{
    assert_near(what, got, expected, relative, 1e-300);
}

/* exp(got), where that is what the oracle has. */
static inline void is_near_ln(const char *what, double got, double expected, double relative)
{
    is_near(what, exp(got), expected, relative);
}

/* A network whose layers are all alike. */
enum { LAYERS_MOST = 1000 };
typedef struct same_layers {
    rs_theory_layer layers[LAYERS_MOST];
    rs_theory_network network;
} same_layers;

static inline void set_same(same_layers *s, const rs_theory_layer *layer, int32_t depth, int64_t n,
                            int64_t d)
{
    assert_true(depth <= LAYERS_MOST);
    for (int32_t l = 0; l < depth; l++)
        s->layers[l] = *layer;
    s->network = (rs_theory_network){.n = n, .d = d, .layers = s->layers, .n_layers = depth};
}

/* Attention and MLP of variance 1 (ReLU's 2), no norm. */
static inline rs_theory_layer plain_layer(void)
{
    rs_theory_branch mixer = {.skip = 1, .scale = 1};
    rs_theory_branch mlp = {.skip = 1, .scale = 1, .is_mlp = true};
    mixer.attention = (rs_theory_attention){
        .queries = 1, .keys = 1, .values = 1, .output = 1, .logit = 1, .softmax = 1};
    mlp.mlp = (rs_theory_mlp){.kind = RS_GAUSS_RELU, .up = 2, .gate = 1, .down = 1};
    return (rs_theory_layer){.branches = {mixer, mlp}, .n_branches = 2};
}

static inline rs_gauss_kind kind_of(const char *name)
{
    static const char *const names[RS_GAUSS_KINDS] = {
        "linear", "relu", "gelu", "sin", "tanh", "sigmoid", "gelu_tanh", "quick_gelu", "silu"};
    for (int k = 0; k < RS_GAUSS_KINDS; k++) {
        if (strcmp(names[k], name) == 0) return (rs_gauss_kind)k;
    }
    return strcmp(name, "swiglu") == 0 ? RS_GAUSS_SILU : RS_GAUSS_KINDS;
}

static inline void set_norms(rs_theory_branch *branch, const char *place, double eps)
{
    rs_theory_norm on = {.on = true, .eps = eps, .gain = 1}, off = {.gain = 1};
    bool sandwich = strcmp(place, "sandwich") == 0;
    branch->before = sandwich || strcmp(place, "pre") == 0 ? on : off;
    branch->inside = sandwich ? on : off;
    branch->after = strcmp(place, "post") == 0 ? on : off;
}

static inline void set_turns(rs_theory_attention *a, const json_t *item)
{
    static double frequencies[16];
    const json_t *rates = json_object_get(item, "rates");
    a->pairs = (int32_t)json_array_size(rates);
    a->still = (int32_t)integer_of(item, "still");
    for (int32_t t = 0; t < a->pairs; t++)
        frequencies[t] = json_number_value(json_array_get(rates, (size_t)t));
    a->frequencies = frequencies;
}

/* The network of a case of theory.json or gram.json. */
static inline void set_case(same_layers *s, const json_t *item)
{
    rs_theory_layer layer = plain_layer();
    rs_theory_attention *a = &layer.branches[0].attention;
    rs_theory_mlp *mlp = &layer.branches[1].mlp;
    const char *act = text_of(item, "act");
    const json_t *mix = json_object_get(item, "mix");
    layer.branches[0].scale = expected_of(item, "a1");
    layer.branches[1].scale = expected_of(item, "a2");
    for (int b = 0; b < 2; b++) {
        layer.branches[b].skip = expected_of(item, "skip");
        set_norms(&layer.branches[b], text_of(item, "norm"), expected_of(item, "eps"));
    }
    a->queries = expected_of(item, "vq");
    a->keys = expected_of(item, "vk");
    a->values = expected_of(item, "vv");
    a->output = expected_of(item, "vo");
    a->logit = expected_of(item, "logit");
    a->identity = json_number_value(json_array_get(mix, 0));
    a->softmax = json_number_value(json_array_get(mix, 1));
    a->uniform = json_number_value(json_array_get(mix, 2));
    a->causal = json_is_true(json_object_get(item, "causal"));
    a->window = integer_of(item, "window");
    set_turns(a, item);
    if (strcmp(act, "none") == 0)
        layer.n_branches = 1;
    else
        mlp->kind = kind_of(act);
    mlp->gated = strcmp(act, "swiglu") == 0;
    mlp->up = expected_of(item, "v1");
    mlp->gate = expected_of(item, "vg");
    mlp->down = expected_of(item, "v2");
    set_same(s, &layer, (int32_t)integer_of(item, "L"), integer_of(item, "n"),
             integer_of(item, "d"));
    s->network.rho0 = expected_of(item, "rho0");
    s->network.ln_square0 = log(expected_of(item, "q0"));
}

/* Entry `column` of row l of a list of lists. */
static inline double cell(const json_t *item, const char *list, size_t l, size_t column)
{
    const json_t *row = json_array_get(json_object_get(item, list), l);
    return json_number_value(json_array_get(row, column));
}

#endif
