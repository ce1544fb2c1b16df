/* test_predict_network.c: descriptions read as numbers: drawn networks against the laws that they were
 * drawn by, and the reasons of what theory does not cover. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "network/arch.h"
#include "predict/theory_network.h"
#include "predict_support.h"

static rs_network *open_network(const char *text, rs_init **init)
{
    rs_network *network = NULL;
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    OK(rs_init_open(init, NULL, 5, &err));
    OK(rs_network_from_arch(&network, json, "arch", *init, &err));
    json_decref(json);
    return network;
}

static const rs_theory_input input = {.n = 12, .norm2 = 96, .rho = 0.25};

#define SIZES "\"depth\": 3, \"d_model\": 96, \"heads\": 4, \"seq_len\": 12, "

/* Means of 9216 squares and more: 4 % are more than two and a half standard errors. */
#define DRAWN 0.04

static void drawn_weights_are_read(void **state)
{
    (void)state;
    rs_init *init = NULL;
    rs_theory_model *model = NULL;
    rs_network *network = open_network(
        "{" SIZES "\"mlp\": \"swiglu\", \"mlp_width\": 200, \"norm\": \"sandwich\", "
        "\"skip_mixer\": 0.5, \"branch_mlp\": \"1/sqrt(L)\", \"temperature\": 2, "
        "\"init\": {\"wq\": \"normal(0, 3/fan_in)\", \"wk\": \"normal(0, 0.25/fan_in)\", "
        "\"wv\": \"uniform(-1, 1)\", \"wo\": \"zero\", \"w2\": \"normal(0, 5/d)\"}}",
        &init);
    OK(rs_theory_model_open(&model, network, &input, &rs_theory_stored, &err));
    const rs_theory_network *net = rs_theory_model_network(model);
    const rs_theory_branch *mixer = &net->layers[2].branches[0], *mlp = &net->layers[2].branches[1];
    assert_int_equal(net->n_layers, 3);
    assert_true(net->n == 12 && net->d == 96 && net->rho0 == 0.25);
    is_near_ln("norm2", net->ln_square0, 1, 1e-14);
    assert_true(!mixer->refused && !mlp->refused && mixer->before.on && mixer->inside.on);
    assert_true(!mixer->after.on && net->final_norm.on && mixer->before.gain == 1);
    assert_true(mixer->skip == 0.5 && mixer->scale == 1);
    is_near("branch", mlp->scale, 1 / sqrt(3), 1e-15);
    is_near("queries", mixer->attention.queries, 3, DRAWN);
    is_near("keys", mixer->attention.keys, 0.25, DRAWN);
    is_near("values", mixer->attention.values, 32, DRAWN);
    assert_true(mixer->attention.output == 0 && !mixer->attention.merged);
    is_near("temperature", mixer->attention.logit, 0.25, 1e-15);
    assert_true(mlp->is_mlp && mlp->mlp.gated && mlp->mlp.kind == RS_GAUSS_SILU);
    is_near("up", mlp->mlp.up, 1, DRAWN);
    is_near("gate", mlp->mlp.gate, 1, DRAWN);
    is_near("down", mlp->mlp.down, 5 * 200 / 96.0, DRAWN);
    rs_theory_row rows[4];
    OK(rs_theory_run(rows, net, &(rs_theory_settings){0}, &err));
    assert_true(rows[3].forward == RS_FORMULA_MEAN_FIELD && isfinite(rows[3].ln_apart));
    rs_theory_model_close(model);
    rs_network_close(network);
    rs_init_close(init);
}

/* Theory has the layer's own, and one number to the bit where a list repeats it. */
static void every_layer_has_its_temperature(void **state)
{
    (void)state;
    static const char *const texts[] = {"{" SIZES "\"temperature\": [2, \"l+2\", 0.5]}",
                                        "{" SIZES "\"temperature\": 0.3}",
                                        "{" SIZES "\"temperature\": [0.3, \"0.3\", 0.3]}"};
    static const double logits[] = {1 / 4.0, 1 / 9.0, 4};
    rs_theory_row rows[3][4];
    for (int i = 0; i < 3; i++) {
        rs_init *init = NULL;
        rs_theory_model *model = NULL;
        rs_network *network = open_network(texts[i], &init);
        OK(rs_theory_model_open(&model, network, &input, &rs_theory_stored, &err));
        const rs_theory_network *net = rs_theory_model_network(model);
        for (int l = 0; l < 3 && i == 0; l++)
            is_near("logit", net->layers[l].branches[0].attention.logit, logits[l], 1e-15);
        OK(rs_theory_run(rows[i], net, &(rs_theory_settings){0}, &err));
        rs_theory_model_close(model);
        rs_network_close(network);
        rs_init_close(init);
    }
    for (int l = 0; l < 4; l++) {
        assert_true(rows[1][l].rho == rows[2][l].rho);
        assert_true(l == 3 || rows[1][l].ln_query == rows[2][l].ln_query);
        assert_true(l == 3 || rows[1][l].keys == rows[2][l].keys);
    }
}

static void merged_maps_mixtures_and_gains(void **state)
{
    (void)state;
    rs_init *init = NULL;
    rs_theory_model *model = NULL;
    rs_network *network =
        open_network("{" SIZES "\"mask\": \"sliding:4\", \"mlp\": \"gelu\", \"norm\": \"post\", "
                     "\"norm_affine\": \"gain\", \"norm_kind\": \"rmsnorm\", \"attention\": "
                     "\"shaped\", \"init\": {\"wo\": \"none\"}, \"positions\": \"rope\"}",
                     &init);
    OK(rs_theory_model_open(&model, network, &input, &rs_theory_stored, &err));
    const rs_theory_branch *mixer = &rs_theory_model_network(model)->layers[0].branches[0];
    const rs_theory_attention *op = &mixer->attention;
    assert_true(op->merged && op->output == 4 && op->causal && op->window == 4);
    assert_true(op->identity == 1 && op->softmax == 1 && op->uniform == 1);
    assert_true(mixer->after.on && mixer->after.gain == 1 && !mixer->before.on);
    assert_true(op->pairs == 12 && op->still == 0 && op->frequencies[0] == 1);
    rs_theory_model_close(model);
    rs_network_close(network);
    rs_init_close(init);
}

/* Who knows laws alone is not asked about maps that are no weights. */
static rs_status law_of(void *user, double *mean_square, const rs_dense *dense, rs_error *error)
{
    (void)user, (void)error;
    assert_false(dense->weight->fixed);
    *mean_square = 7 / (double)dense->in;
    return RS_OK;
}

static void absent_maps_are_the_identity(void **state)
{
    (void)state;
    rs_init *init = NULL;
    rs_theory_model *model = NULL;
    rs_network *network =
        open_network("{" SIZES "\"skip_mixer\": 0, \"mlp\": \"none\", \"init\": {\"wv\": "
                     "\"identity\", \"wo\": \"identity\"}}",
                     &init);
    const rs_theory_weights laws = {.map = law_of};
    OK(rs_theory_model_open(&model, network, &input, &laws, &err));
    const rs_theory_attention *op =
        &rs_theory_model_network(model)->layers[1].branches[0].attention;
    assert_true(op->values == 1 && op->output == 1 && !op->merged);
    assert_true(op->queries == 7 && op->keys == 7);
    rs_theory_model_close(model);
    rs_network_close(network);
    rs_init_close(init);
}

static const char *reason_of(const char *text, int branch)
{
    static char reason[128];
    rs_init *init = NULL;
    rs_theory_model *model = NULL;
    rs_network *network = open_network(text, &init);
    OK(rs_theory_model_open(&model, network, &input, &rs_theory_stored, &err));
    const char *found = rs_theory_model_network(model)->layers[0].branches[branch].refused;
    snprintf(reason, sizeof reason, "%s", found ? found : "");
    rs_theory_model_close(model);
    rs_network_close(network);
    rs_init_close(init);
    return reason;
}

static void what_is_not_covered_says_why(void **state)
{
    (void)state;
    assert_string_equal(reason_of("{" SIZES "\"positions\": \"alibi\"}", 0),
                        "a bias that depends on the distance");
    assert_string_equal(reason_of("{" SIZES "\"kv_heads\": 2, \"init\": {\"wo\": \"none\"}}", 0),
                        "heads that share values without an output map");
    assert_true(strstr(reason_of("{" SIZES "\"mixer\": \"mamba2\"}", 0), "no mean-field theory"));
    assert_string_equal(reason_of("{" SIZES "\"mlp\": \"gelu_tanh\"}", 1), "");
    assert_string_equal(reason_of("{" SIZES "\"mlp\": \"sin\"}", 1), "");
    assert_string_equal(reason_of("{" SIZES "\"mlp\": \"sigmoid\"}", 1), "");
    assert_string_equal(reason_of("{" SIZES "\"block\": \"parallel\"}", 1),
                        "parallel branches read one state");
    static const char both[] = "{" SIZES "\"skip_mixer\": %d, \"init\": {\"wv\": \"identity\", "
                               "\"wo\": \"%s\"}}";
    char text[256];
    snprintf(text, sizeof text, both, 1, "identity");
    assert_string_equal(reason_of(text, 0), "values and output are the tokens: along the skip");
    snprintf(text, sizeof text, both, 0, "identity");
    assert_string_equal(reason_of(text, 0), "");
    snprintf(text, sizeof text, both, 0, "none");
    assert_string_equal(reason_of(text, 0), "heads whose values are all the tokens");
    snprintf(text, sizeof text, both, 1, "orthogonal");
    assert_string_equal(reason_of(text, 0), "");
}

/* Edits of a description that no architecture file has. */
static void edited_branches_say_why(void **state)
{
    (void)state;
    rs_init *init = NULL;
    rs_network *network = open_network("{" SIZES "\"mlp\": \"gelu\"}", &init);
    rs_branch *mixer = &network->layers[0].branches[0], *mlp = &network->layers[0].branches[1];
    rs_branch kept[2] = {*mixer, *mlp};
    static const char *const reasons[] = {"soft-capped logits", "QK-norm",
                                          "cross-attention",    "a gate",
                                          "lacks a map",        "no map for this activation",
                                          "parallel branches"};
    for (int k = 0; k < 7; k++) {
        rs_theory_model *model = NULL;
        *mixer = kept[0];
        *mlp = kept[1];
        if (k == 0) mixer->attention.softcap = 30;
        if (k == 1) mixer->attention.q_norm.kind = RS_NORM_RMSNORM;
        if (k == 2) mixer->attention.cross = true;
        if (k == 3) mixer->attention.gate = mixer->attention.o;
        if (k == 4) mixer->attention.k.weight = NULL;
        if (k == 5) mlp->mlp.activation = RS_ACT_RELU2;
        if (k == 6) mlp->joins = true;
        OK(rs_theory_model_open(&model, network, &input, &rs_theory_stored, &err));
        const rs_theory_layer *layer = &rs_theory_model_network(model)->layers[0];
        const char *found = layer->branches[k >= 5].refused;
        if (!found || !strstr(found, reasons[k])) fail_msg("%s: %s", reasons[k], found);
        rs_theory_model_close(model);
    }
    rs_network_close(network);
    rs_init_close(init);
}

static rs_status no_variance(void *user, double *mean_square, const rs_dense *dense,
                             rs_error *error)
{
    (void)user, (void)dense;
    *mean_square = 0;
    return rs_fail(error, RS_E_UNSUPPORTED, "a law", NULL, "it has no variance");
}

static void failures_are_handed_on(void **state)
{
    (void)state;
    rs_init *init = NULL;
    rs_theory_model *model = NULL;
    rs_network *network = open_network("{" SIZES "\"mlp\": \"gelu\"}", &init);
    rs_theory_weights weights = {.map = no_variance};
    assert_int_equal(rs_theory_model_open(&model, network, &input, &weights, &err),
                     RS_E_UNSUPPORTED);
    assert_null(model);
    for (int64_t n = 1;; n++) {
        rs_memory_fail_at(n);
        rs_status status = rs_theory_model_open(&model, network, &input, &rs_theory_stored, &err);
        rs_memory_fail_at(0);
        if (status == RS_OK) break;
        assert_int_equal(status, RS_E_NO_MEMORY);
        assert_null(model);
    }
    rs_theory_model_close(model);
    rs_network_close(network);
    rs_init_close(init);
}

/* Without a mask, with one, and with rotary positions. */
static void runs_hand_memory_back(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{" SIZES "\"mlp\": \"swiglu\"}", "{" SIZES "\"mlp\": \"gelu\", \"mask\": \"causal\"}",
        "{" SIZES "\"mlp\": \"relu\", \"mask\": \"causal\", \"positions\": \"rope\"}"};
    for (int t = 0; t < 3; t++) {
        rs_init *init = NULL;
        rs_theory_model *model = NULL;
        rs_network *network = open_network(texts[t], &init);
        OK(rs_theory_model_open(&model, network, &input, &rs_theory_stored, &err));
        const rs_theory_network *net = rs_theory_model_network(model);
        rs_theory_row rows[4];
        int64_t blocks = rs_memory_blocks();
        for (int64_t n = 1;; n++) {
            rs_memory_fail_at(n);
            rs_status status = rs_theory_run(rows, net, &(rs_theory_settings){0}, &err);
            rs_memory_fail_at(0);
            assert_int_equal(rs_memory_blocks(), blocks);
            if (status == RS_OK) break;
            assert_int_equal(status, RS_E_NO_MEMORY);
        }
        assert_true(isfinite(rows[3].ln_apart) && isfinite(rows[0].ln_value));
        rs_theory_model_close(model);
        rs_network_close(network);
        rs_init_close(init);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_weights_are_read),
        cmocka_unit_test(every_layer_has_its_temperature),
        cmocka_unit_test(merged_maps_mixtures_and_gains),
        cmocka_unit_test(absent_maps_are_the_identity),
        cmocka_unit_test(what_is_not_covered_says_why),
        cmocka_unit_test(edited_branches_say_why),
        cmocka_unit_test(failures_are_handed_on),
        cmocka_unit_test(runs_hand_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
