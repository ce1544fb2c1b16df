/*
 * test_hybrid.c: layers of another make: a state-space mixer beside an attention (Falcon-H1), MLPs
 * alone (Nemotron-H), maps with multipliers, and configurations that say otherwise than tensors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/forward.h"
#include "network/edit.h"
#include "network/op_traits.h"
#include "network_cases.h"

#include <math.h>

enum { ROWS = 9, WIDTH = 16, LAYERS = 5 };

/* What a pass over ids told: rows of nine tokens, two samples. */
typedef struct heard {
    double mixed[LAYERS][ROWS * WIDTH], in[LAYERS][3][ROWS * WIDTH], out[LAYERS + 1][ROWS * WIDTH];
    double op[LAYERS][3][ROWS * WIDTH];
    bool told[LAYERS];
} heard;

static void keep(double *to, const rs_state_view *view)
{
    assert_int_equal(view->rows * view->cols, ROWS * WIDTH);
    for (int64_t i = 0; i < ROWS * WIDTH; i++)
        to[i] = view->precision == RS_PRECISION_F32 ? (double)((const float *)view->data)[i]
                                                    : ((const double *)view->data)[i];
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    heard *h = user;
    (void)err;
    assert_true(layer <= LAYERS);
    if (site == RS_SITE_BLOCK_OUT) {
        keep(h->out[layer], view);
        return RS_OK;
    }
    assert_true(layer > 0);
    assert_false(h->told[layer - 1]);
    h->told[layer - 1] = true;
    keep(h->mixed[layer - 1], view);
    return RS_OK;
}

static rs_status on_branch(void *user, int32_t layer, int32_t branch, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    heard *h = user;
    (void)err;
    keep(moment == RS_MOMENT_IN ? h->in[layer][branch] : h->op[layer][branch], view);
    return RS_OK;
}

static void listen(heard *h, const rs_network *network, rs_precision precision)
{
    static const int32_t ids[ROWS] = {3, 5, 1, 7, 9, 2, 4, 8, 11};
    static const int64_t begin[] = {0, 5, ROWS};
    const rs_batch batch = {.samples = 2, .begin = begin, .ids = ids};
    const rs_context context = {.threads = 1};
    const rs_tap tap = {.user = h,
                        .sites = 1u << RS_SITE_BLOCK_OUT | 1u << RS_SITE_MIXER_OUT,
                        .state = on_state,
                        .moments = 1u << RS_MOMENT_IN | 1u << RS_MOMENT_OP_OUT,
                        .branch = on_branch};
    const rs_tap *taps[] = {&tap};
    rs_weights *weights;
    rs_runner *runner = NULL;
    rs_error err = {0};
    memset(h, 0, sizeof *h);
    if (rs_weights_open(&weights, precision, UINT64_MAX, &err) != RS_OK ||
        rs_runner_open(&runner, network, weights, &context, &err) != RS_OK ||
        rs_runner_run(runner, &batch, taps, 1, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

/* A stored case under a changed configuration. */
static rs_network *open_changed(rs_checkpoint **checkpoint, const char *name, const char *change)
{
    rs_network *network;
    rs_error err = {0};
    *checkpoint = open_case(name);
    overlay((*checkpoint)->config, change);
    if (rs_network_open(&network, *checkpoint, &err) != RS_OK)
        fail_msg("%s %s: %s: %s", name, change, err.where, err.what);
    return network;
}

static const char *note_of(const rs_network *network, const char *code)
{
    for (size_t i = 0; i < network->notes.n; i++)
        if (strcmp(network->notes.items[i].code, code) == 0) return network->notes.items[i].message;
    return NULL;
}

/* ---- side by side ---- */

static double gap(const double *sum, const double *after, const double *before, double skip,
                  double scale)
{
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < ROWS * WIDTH; i++) {
        double added = (after[i] - skip * before[i]) / scale;
        worst = fmax(worst, fabs(sum[i] - added));
        largest = fmax(largest, fabs(after[i]));
    }
    return worst / largest;
}

/* mixer_out is all that is added to the skip: what the MLP reads less λ times what entered. */
static void mixers_side_by_side_add_up(void **state)
{
    (void)state;
    static const struct {
        double skip, scale;
    } trials[] = {{1, 1}, {0.5, 1}, {1, 0.3}, {0, -2}};
    rs_checkpoint *checkpoint;
    rs_network *network = open_changed(&checkpoint, "falcon_h1", "{}");
    static heard h;
    assert_non_null(strstr(note_of(network, "two_mixers"), "Mamba-2"));
    for (size_t t = 0; t < sizeof trials / sizeof *trials; t++) {
        for (int32_t l = 0; l < network->n_layers; l++) {
            rs_branch *branches = network->layers[l].branches;
            assert_int_equal(network->layers[l].n_branches, 3);
            assert_ptr_equal(rs_layer_mixer(&network->layers[l]), &branches[0]);
            assert_true(rs_layer_mixes_with(&network->layers[l], 1));
            assert_false(rs_layer_mixes_with(&network->layers[l], 2));
            branches[0].skip = trials[t].skip;
            branches[0].scale = branches[1].scale = trials[t].scale;
        }
        for (int wide = 0; wide < 2; wide++) {
            listen(&h, network, wide ? RS_PRECISION_F64 : RS_PRECISION_F32);
            for (int32_t l = 0; l < network->n_layers; l++) {
                assert_true(h.told[l]);
                double off =
                    gap(h.mixed[l], h.in[l][2], h.in[l][0], trials[t].skip, trials[t].scale);
                if (!(off < (wide ? 1e-14 : 1e-5)))
                    fail_msg("trial %zu, layer %d: off by %g", t, (int)l, off);
            }
        }
    }
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

/* Of two of which one is not run, the other's alone is told. */
static void one_of_two_is_told_alone(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint;
    static heard h;
    for (int off = 0; off < 2; off++) {
        rs_network *network = open_changed(&checkpoint, "falcon_h1_norm", "{}");
        for (int32_t l = 0; l < network->n_layers; l++)
            network->layers[l].branches[off].scale = 0;
        listen(&h, network, RS_PRECISION_F64);
        for (int32_t l = 0; l < network->n_layers; l++) {
            assert_true(h.told[l]);
            assert_memory_equal(h.mixed[l], h.op[l][1 - off], sizeof h.mixed[l]);
        }
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
}

/* No certificate is of the attention alone where another mixer is added to the same skip. */
static void nothing_is_proved_of_half_a_sum(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint;
    rs_network *network = open_changed(&checkpoint, "falcon_h1", "{}");
    rs_layer *layer = &network->layers[0];
    assert_non_null(strstr(rs_layer_unproved(layer), "no theorem"));
    layer->branches[1].scale = 0;
    assert_non_null(strstr(rs_layer_unproved(layer), "multipliers"));
    assert_non_null(strstr(rs_branch_unproved(&layer->branches[2]), "multipliers"));
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
    network = open_changed(&checkpoint, "falcon_h1_gate_first", "{}"); /* all multipliers are 1 */
    layer = &network->layers[0];
    assert_non_null(strstr(rs_layer_unproved(layer), "no theorem"));
    layer->branches[1].scale = 0;
    assert_null(rs_layer_unproved(layer));
    assert_null(rs_branch_unproved(&layer->branches[2]));
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

/* ---- alone ---- */

static void edit_with(rs_network *network, const char *option, const char *value)
{
    rs_edit edit;
    rs_error err = {0};
    rs_edit_init(&edit);
    assert_int_equal(rs_edit_option(&edit, option, value, &err), RS_OK);
    if (rs_edit_apply(network, &edit, &err) != RS_OK) fail_msg("--%s: %s", option, err.what);
}

static void layers_without_a_mixer(void **state)
{
    (void)state;
    static const bool mixes[LAYERS] = {true, false, true, false, true};
    rs_checkpoint *checkpoint;
    rs_network *network = open_changed(&checkpoint, "nemotron_h", "{}");
    static heard h;
    listen(&h, network, RS_PRECISION_F64);
    for (int32_t l = 0; l < LAYERS; l++) {
        assert_int_equal(network->layers[l].n_branches, 1);
        assert_int_equal(rs_layer_mixer(&network->layers[l]) != NULL, mixes[l]);
        assert_int_equal(h.told[l], mixes[l]);
    }
    assert_int_equal(network->layers[2].branches[0].attention.rope.kind, RS_ROPE_NONE);
    assert_int_equal(network->layers[1].branches[0].mlp.activation, RS_ACT_RELU2);
    assert_null(network->layers[1].branches[0].mlp.gate.weight);
    edit_with(network, "lambda", "mixer:0.25");
    for (int32_t l = 0; l < LAYERS; l++)
        assert_true(network->layers[l].branches[0].skip == (mixes[l] ? 0.25 : 1));
    edit_with(network, "no-mlp", NULL);
    listen(&h, network, RS_PRECISION_F64);
    for (int32_t l = 0; l < LAYERS; l++) {
        assert_int_equal(network->layers[l].n_branches, mixes[l]);
        if (!mixes[l]) assert_memory_equal(h.out[l + 1], h.out[l], sizeof h.out[l]);
    }
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

/* ---- multipliers ---- */

/* Each number of the configuration changes something, and twice the number twice the factor. */
static void every_multiplier_counts(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "{}",
        "{\"embedding_multiplier\":3.4}",
        "{\"key_multiplier\":1.6}",
        "{\"attention_in_multiplier\":2.6}",
        "{\"attention_out_multiplier\":1.4}",
        "{\"ssm_in_multiplier\":2.4}",
        "{\"ssm_out_multiplier\":0.9}",
        "{\"mlp_multipliers\":[2.8,0.55]}",
        "{\"mlp_multipliers\":[1.4,1.1]}",
        "{\"ssm_multipliers\":[1.8,1.1,1.35,0.65,0.75]}",
        "{\"ssm_multipliers\":[0.9,2.2,1.35,0.65,0.75]}",
        "{\"ssm_multipliers\":[0.9,1.1,2.7,0.65,0.75]}",
        "{\"ssm_multipliers\":[0.9,1.1,1.35,1.3,0.75]}",
        "{\"ssm_multipliers\":[0.9,1.1,1.35,0.65,1.5]}",
    };
    enum { TRIALS = sizeof changes / sizeof *changes };
    static heard all[TRIALS];
    for (size_t t = 0; t < TRIALS; t++) {
        rs_checkpoint *checkpoint;
        rs_network *network = open_changed(&checkpoint, "falcon_h1", changes[t]);
        listen(&all[t], network, RS_PRECISION_F64);
        for (size_t e = 0; e < t; e++)
            if (memcmp(all[e].out[1], all[t].out[1], sizeof all[t].out[1]) == 0)
                fail_msg("%s gives what %s gives", changes[t], changes[e]);
        assert_true(network->head.scale == 0.6);
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
}

/* ---- what configurations say ---- */

static void a_stored_norm_is_run(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint;
    rs_network *network = open_changed(&checkpoint, "falcon_h1_norm", "{\"mamba_rms_norm\":false}");
    const rs_ssd_op *op = &network->layers[0].branches[1].ssd;
    assert_true(op->norm.kind == RS_NORM_RMSNORM && op->gate == RS_GATE_AFTER_NORM);
    assert_non_null(strstr(note_of(network, "gated_norm"), "mamba_rms_norm is false"));
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

static void limits_of_steps(void **state)
{
    (void)state;
    static const struct {
        const char *name, *change;
        double least, most;
        bool noted;
    } trials[] = {
        {"falcon_h1", "{\"time_step_limit\":[0.25,\"Infinity\"]}", 0.25, INFINITY, false},
        {"falcon_h1", "{\"time_step_limit\":[0.25,{\"__float__\":\"Infinity\"}]}", 0.25, INFINITY,
         false},
        {"falcon_h1", "{\"time_step_limit\":[0.25,\"inf\"]}", 0.25, INFINITY, false},
        {"falcon_h1", "{\"time_step_limit\":[0.001,0.5]}", 0.001, 0.5, false},
        {"falcon_h1", "{\"time_step_limit\":null}", 0, INFINITY, false},
        {"nemotron_h", "{\"time_step_min\":0.25}", 0.25, INFINITY, false},
        {"nemotron_h", "{\"mamba_dt_min\":0.125,\"time_step_min\":0.25}", 0.125, INFINITY, false},
        {"nemotron_h", "{\"time_step_limit\":[0.5,0.75]}", 0.001, INFINITY, true},
    };
    for (size_t t = 0; t < sizeof trials / sizeof *trials; t++) {
        rs_checkpoint *checkpoint;
        rs_network *network = open_changed(&checkpoint, trials[t].name, trials[t].change);
        int32_t branch = network->layers[0].n_branches == 3;
        const rs_ssd_op *op = &network->layers[0].branches[branch].ssd;
        if (op->step_least != trials[t].least || op->step_most != trials[t].most)
            fail_msg("%s %s: %g to %g", trials[t].name, trials[t].change, op->step_least,
                     op->step_most);
        assert_int_equal(note_of(network, "unread_setting") != NULL, trials[t].noted);
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
}

/* Mamba-2's numbers at initialisation: the laws of modules of transformers 5.23. */
static void drawn_mixers(void **state)
{
    (void)state;
    const struct {
        const char *name;
        bool steps; /* dt_bias is drawn */
        double out; /* the largest entry of the output map; NaN: it is normal */
    } trials[] = {{"falcon_h1", false, NAN},
                  {"bamba", false, NAN},
                  {"granite_hybrid", false, NAN},
                  {"nemotron_h", true, 1 / sqrt(20 * LAYERS)},
                  {"mamba2", true, 1 / sqrt(24)}};
    for (size_t t = 0; t < sizeof trials / sizeof *trials; t++) {
        rs_checkpoint *checkpoint = open_case(trials[t].name);
        rs_network *network;
        rs_init *init;
        rs_error err = {0};
        double most = 0, std = 0, x;
        assert_int_equal(rs_init_open(&init, NULL, 3, &err), RS_OK);
        assert_int_equal(rs_network_from_config(&network, checkpoint->config, "c", init, &err),
                         RS_OK);
        const rs_layer *layer = &network->layers[0];
        const rs_branch *branch = &layer->branches[layer->n_branches == 3];
        assert_int_equal(branch->kind, RS_BRANCH_SSD);
        const rs_tensor *o = branch->ssd.o.weight, *dt = branch->ssd.dt_bias;
        for (int64_t i = 0; i < o->count; i++) {
            rs_tensor_decode_f64(&x, o, i, 1);
            most = fmax(most, fabs(x));
            std += x * x / (double)o->count;
        }
        if (isnan(trials[t].out))
            assert_true(fabs(sqrt(std) / 0.02 - 1) < 0.2);
        else
            assert_true(most <= trials[t].out * (1 + 1e-6) && most > 0.95 * trials[t].out);
        for (int64_t i = 0; i < dt->count; i++) {
            rs_tensor_decode_f64(&x, dt, i, 1);
            double step = log1p(exp(x));
            assert_true(trials[t].steps ? step > 0.99e-3 && step < 0.101 : x == 1);
        }
        rs_network_close(network);
        rs_init_close(init);
        rs_checkpoint_close(checkpoint);
    }
}

/* OLMo Hybrid without a list: every fourth layer has attention, of fewer the last, and no other field
 * says which (OlmoHybridConfig of transformers 5.23). */
static void olmo_hybrid_without_a_list(void **state)
{
    (void)state;
    static const char *const expected[] = {"da", "dda", "ddda", "dddad", "dddaddda"};
    for (size_t t = 0; t < sizeof expected / sizeof *expected; t++) {
        rs_checkpoint *checkpoint = open_case("olmo_hybrid");
        json_t *config = json_deep_copy(checkpoint->config);
        rs_network *network;
        rs_init *init;
        rs_error err = {0};
        size_t layers = strlen(expected[t]);
        json_object_del(config, "layer_types");
        json_object_set_new(config, "full_attention_interval", json_integer(2));
        json_object_set_new(config, "num_hidden_layers", json_integer((json_int_t)layers));
        assert_int_equal(rs_init_open(&init, NULL, 3, &err), RS_OK);
        assert_int_equal(rs_network_from_config(&network, config, "c", init, &err), RS_OK);
        assert_int_equal(network->n_layers, layers);
        for (size_t l = 0; l < layers; l++)
            assert_int_equal(network->layers[l].branches[0].kind,
                             expected[t][l] == 'a' ? RS_BRANCH_ATTENTION : RS_BRANCH_DELTA);
        rs_network_close(network);
        rs_init_close(init);
        rs_checkpoint_close(checkpoint);
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixers_side_by_side_add_up),
        cmocka_unit_test(one_of_two_is_told_alone),
        cmocka_unit_test(nothing_is_proved_of_half_a_sum),
        cmocka_unit_test(layers_without_a_mixer),
        cmocka_unit_test(every_multiplier_counts),
        cmocka_unit_test(a_stored_norm_is_run),
        cmocka_unit_test(limits_of_steps),
        cmocka_unit_test(drawn_mixers),
        cmocka_unit_test(olmo_hybrid_without_a_list),
    };
    return cmocka_run_group_tests_name("hybrid", tests, NULL, NULL);
}
