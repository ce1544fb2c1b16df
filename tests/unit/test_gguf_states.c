/*
 * test_gguf_states.c: state-space models and hybrids in GGUF. Each of tests/golden/forward that has a
 * model.gguf and a model.safetensors holds the same numbers twice, under llama.cpp's names and under
 * those of transformers (tests/oracle/gguf_states.py): they are one network. Files that say one thing
 * and store another are refused by name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_catch.h"
#include "network_cases.h"

#include <dirent.h>

/* ---- twins ---- */

enum { NEW = 6 };

static void generate(int32_t out[NEW], const rs_network *network, const input *in)
{
    const rs_context context = {.threads = 1};
    const int64_t begin[] = {0, in->begin[1]};
    const rs_batch prompt = {.samples = 1, .begin = begin, .ids = in->ids};
    rs_weights *weights;
    rs_runner *runner;
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, UINT64_MAX, NULL), RS_OK);
    assert_int_equal(rs_runner_open(&runner, network, weights, &context, NULL), RS_OK);
    assert_int_equal(rs_generate(out, runner, &prompt, NEW, NULL), RS_OK);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

static rs_network *open_twin(const char *path, rs_checkpoint **checkpoint)
{
    rs_checkpoint_options options = {0};
    rs_network *network = NULL;
    rs_error err = {0};
    if (rs_checkpoint_open(checkpoint, path, &options, &err) != RS_OK ||
        rs_network_open(&network, *checkpoint, &err) != RS_OK)
        fail_msg("%s: %s: %s", path, err.where, err.what);
    return network;
}

/* How many matrices of the two differ by more than rounding. */
static int differences(const char *name, const catch *a, const catch *b)
{
    int wrong = 0;
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const found *x = &a->items[i], *y = &b->items[i];
        double worst = 0, largest = 0;
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->count, y->count);
        for (int64_t k = 0; k < x->count; k++) {
            worst = fmax(worst, fabs(x->values[k] - y->values[k]));
            largest = fmax(largest, fabs(y->values[k]));
        }
        if (worst <= 1e-12 * largest && largest > 0) continue;
        print_error("%s: %s: %.3g of the largest\n", name, x->name, worst / largest);
        wrong++;
    }
    return wrong;
}

static int one_pair(const char *name)
{
    static catch two[2];
    char path[512];
    int32_t ids[2][NEW];
    rs_checkpoint *golden;
    rs_checkpoint_options options = {0};
    input in;
    snprintf(path, sizeof path, "%s/forward/%s/golden.safetensors", RS_TEST_DATA, name);
    assert_int_equal(rs_checkpoint_open(&golden, path, &options, NULL), RS_OK);
    read_input(&in, golden);
    for (int i = 0; i < 2; i++) {
        rs_checkpoint *checkpoint;
        snprintf(path, sizeof path, "%s/forward/%s%s", RS_TEST_DATA, name, i ? "" : "/model.gguf");
        rs_network *network = open_twin(path, &checkpoint);
        run(network, RS_PRECISION_F64, &in, &two[i]);
        generate(ids[i], network, &in);
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
    int wrong = differences(name, &two[0], &two[1]);
    if (memcmp(ids[0], ids[1], sizeof ids[0]) != 0) {
        print_error("%s: continued otherwise\n", name);
        wrong++;
    }
    forget(&two[0]), forget(&two[1]);
    free(in.ids);
    rs_checkpoint_close(golden);
    return wrong;
}

/* What scan forms of the two: the same products of the same layers and heads. */
static int other_products(const char *name)
{
    rs_checkpoint *checkpoints[2];
    rs_model *models[2];
    char path[512];
    rs_checkpoint_options options = {0};
    rs_error err = {0};
    int wrong = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/forward/%s%s", RS_TEST_DATA, name, i ? "" : "/model.gguf");
        assert_int_equal(rs_checkpoint_open(&checkpoints[i], path, &options, NULL), RS_OK);
        if (rs_model_open(&models[i], checkpoints[i], NULL, NULL, &err) != RS_OK)
            fail_msg("%s: %s: %s", path, err.where, err.what);
    }
    assert_int_equal(models[0]->n_products, models[1]->n_products);
    assert_int_equal(models[0]->n_rests, models[1]->n_rests);
    assert_memory_equal(&models[0]->steps, &models[1]->steps, sizeof models[0]->steps);
    for (size_t i = 0; i < models[0]->n_products; i++) {
        const rs_product *a = &models[0]->products[i], *b = &models[1]->products[i];
        wrong += a->kind != b->kind || a->layer != b->layer || a->head != b->head ||
                 a->kv_head != b->kv_head || a->rope_dims != b->rope_dims;
    }
    if (wrong) print_error("%s: %d products\n", name, wrong);
    for (int i = 0; i < 2; i++) {
        rs_model_close(models[i]);
        rs_checkpoint_close(checkpoints[i]);
    }
    return wrong;
}

static bool there(const char *name, const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/forward/%s/%s", RS_TEST_DATA, name, file);
    FILE *opened = fopen(path, "rb");
    if (opened) fclose(opened);
    return opened;
}

static void twins_are_one_network(void **state)
{
    (void)state;
    char path[512];
    int pairs = 0, wrong = 0;
    snprintf(path, sizeof path, "%s/forward", RS_TEST_DATA);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!there(entry->d_name, "model.gguf") || !there(entry->d_name, "model.safetensors"))
            continue;
        wrong += one_pair(entry->d_name);
        wrong += other_products(entry->d_name);
        pairs++;
    }
    closedir(folder);
    assert_true(pairs >= 17);
    assert_int_equal(wrong, 0);
}

/* ---- metadata that lies ---- */

static void lies_are_named(void **state)
{
    (void)state;
    static const trial trials[] = {
        {"mamba2_gguf", "{\"mamba2.ssm.time_step_rank\":5}", RS_E_CONFIG_HEADS, "no multiple"},
        {"mamba2_gguf", "{\"mamba2.ssm.time_step_rank\":3}", RS_E_CONFIG_HEADS, "3 state-space"},
        {"mamba2_gguf", "{\"mamba2.ssm.group_count\":1}", RS_E_TENSOR_SHAPE, "blk.0.ssm_in"},
        {"mamba2_gguf", "{\"mamba2.ssm.state_size\":6}", RS_E_TENSOR_SHAPE, "blk.0.ssm_in"},
        {"mamba2_gguf", "{\"mamba2.ssm.conv_kernel\":3}", RS_E_TENSOR_SHAPE, "blk.0.ssm_conv1d"},
        {"mamba2_gguf", "{\"mamba2.ssm.inner_size\":null}", RS_E_CONFIG_SCHEMA,
         "mamba2.ssm.inner_size"},
        {"mamba2_gguf", "{\"mamba2.ssm.conv_kernel\":null}", RS_E_CONFIG_SCHEMA,
         "mamba2.ssm.conv_kernel"},
        {"mamba2_gguf", "{\"mamba2.ssm.group_count\":null}", RS_OK, NULL}, /* in_proj says it */
        {"mamba_gguf", "{\"mamba.ssm.time_step_rank\":4}", RS_E_TENSOR_SHAPE, "blk.0.ssm_x"},
        {"mamba_gguf", "{\"mamba.attention.head_count\":null}", RS_OK, NULL},
        {"mamba_gguf", "{\"mamba.ssm.dt_b_c_rms\":1}", RS_E_CONFIG_SCHEMA, "dt_b_c_rms"},
        {"jamba_gguf", "{\"jamba.attention.head_count\":null}", RS_E_CONFIG_SCHEMA,
         "jamba.attention.head_count"},
        {"jamba_gguf", "{\"jamba.attention.head_count_kv\":[2,2,0]}", RS_E_CONFIG_LAYERS,
         "layer 0"},
        {"jamba_gguf", "{\"jamba.attention.head_count_kv\":[0,0,0]}", RS_E_CONFIG_SIZE, "layer 1"},
        {"jamba_gguf", "{\"jamba.feed_forward_length\":[18,17,18]}", RS_E_TENSOR_SHAPE,
         "blk.1.ffn"},
        {"jamba_gguf", "{\"jamba.feed_forward_length\":[18,18,18]}", RS_OK, NULL},
        {"granite_hybrid_gguf", "{\"granitehybrid.rope.scaling.finetuned\":0}", RS_E_CONFIG_SCHEMA,
         "rope_finetuned"},
        {"bamba_gguf", "{\"granitehybrid.rope.dimension_count\":6}", RS_E_UNSUPPORTED, "half of"},
        {"jamba_gguf", "{\"jamba.attention.head_count_kv\":[0,2]}", RS_E_CONFIG_LAYERS,
         "jamba.attention.head_count_kv has 2 entries for 3 blocks"},
        {"nemotron_h_gguf", "{\"nemotron_h.attention.head_count_kv\":[0,0,2,0]}",
         RS_E_CONFIG_LAYERS, "has 4 entries for 3 blocks"},
        {"nemotron_h_gguf", "{\"nemotron_h.feed_forward_length\":[0,10]}", RS_E_CONFIG_LAYERS,
         "nemotron_h.feed_forward_length has 2 entries"},
        {"nemotron_h_gguf", "{\"nemotron_h.feed_forward_length\":[10,10,0]}", RS_E_CONFIG_LAYERS,
         "feed_forward_length says that layer 0 has an MLP alone"},
        {"nemotron_h_gguf", "{\"nemotron_h.feed_forward_length\":[0,0,0]}", RS_E_CONFIG_LAYERS,
         "layer 1 has a state-space mixer"},
        {"nemotron_h_gguf", "{\"nemotron_h.feed_forward_length\":10}", RS_OK, NULL},
        {"nemotron_h_gguf", "{\"nemotron_h.feed_forward_length\":null}", RS_E_CONFIG_SCHEMA,
         "nemotron_h.feed_forward_length"},
        {"nemotron_h_gguf", "{\"nemotron_h.attention.head_count_kv\":[2,0,2]}", RS_E_CONFIG_LAYERS,
         "layer 0 has attention"},
        {"nemotron_h_gguf", "{\"nemotron_h.attention.head_count_kv\":2}", RS_OK, NULL},
        {"nemotron_h_gguf", "{\"nemotron_h.attention.key_length\":4}", RS_E_TENSOR_SHAPE,
         "blk.2.attn_q"},
        {"nemotron_h_gguf", "{\"nemotron_h.ssm.inner_size\":16}", RS_E_TENSOR_SHAPE,
         "blk.0.ssm_in"},
        {"nemotron_h_gguf", "{\"nemotron_h.ssm.conv_kernel\":null}", RS_E_CONFIG_SCHEMA,
         "nemotron_h.ssm.conv_kernel"},
        {"lfm2_gguf", "{\"lfm2.shortconv.l_cache\":null}", RS_E_CONFIG_SCHEMA,
         "lfm2.shortconv.l_cache"},
        {"lfm2_gguf", "{\"lfm2.shortconv.l_cache\":4}", RS_E_TENSOR_SHAPE, "blk.0.shortconv.conv"},
        {"lfm2_gguf", "{\"lfm2.attention.head_count_kv\":[0,2,0,0]}", RS_E_CONFIG_LAYERS,
         "lfm2.attention.head_count_kv has 4 entries for 3 blocks"},
        {"lfm2_gguf", "{\"lfm2.attention.head_count_kv\":[2,2,0]}", RS_E_CONFIG_LAYERS,
         "layer 0 has attention"},
        {"lfm2_gguf", "{\"lfm2.attention.head_count_kv\":[0,0,0]}", RS_E_CONFIG_SIZE, "layer 1"},
        {"lfm2_gguf", "{\"lfm2.attention.sliding_window\":8}", RS_E_UNSUPPORTED,
         "attention.sliding_window"},
        {"lfm2_gguf", "{\"lfm2.attention.causal\":false}", RS_E_UNSUPPORTED, "attention.causal"},
        {"lfm2_gguf", "{\"lfm2.feed_forward_length\":23}", RS_E_TENSOR_SHAPE, "blk.0.ffn"},
        {"lfm2_gguf", "{\"lfm2.block_count\":null}", RS_E_CONFIG_SCHEMA, "lfm2.block_count"},
        {"lfm2_gguf", "{\"lfm2.embedding_length\":null}", RS_E_CONFIG_SCHEMA,
         "lfm2.embedding_length"},
        {"qwen3_5_gguf", "{\"qwen35.ssm.inner_size\":null}", RS_E_CONFIG_SCHEMA,
         "qwen35.ssm.inner_size"},
        {"qwen3_5_gguf", "{\"qwen35.ssm.state_size\":null}", RS_E_CONFIG_SCHEMA,
         "qwen35.ssm.state_size"},
        {"qwen3_5_gguf", "{\"qwen35.ssm.inner_size\":25}", RS_E_CONFIG_HEADS,
         "ssm.inner_size (25) is no multiple"},
        {"qwen3_5_gguf", "{\"qwen35.ssm.inner_size\":28}", RS_E_TENSOR_SHAPE, "blk.0.attn_qkv"},
        {"qwen3_5_gguf", "{\"qwen35.ssm.group_count\":3}", RS_E_CONFIG_HEADS, "over 3 key heads"},
        {"qwen3_5_gguf", "{\"qwen35.ssm.group_count\":1}", RS_E_TENSOR_SHAPE, "blk.0.attn_qkv"},
        {"qwen3_5_gguf", "{\"qwen35.ssm.time_step_rank\":\"4\"}", RS_E_CONFIG_SIZE,
         "ssm.time_step_rank"},
        {"qwen3_5_gguf", "{\"qwen35.full_attention_interval\":3}", RS_E_CONFIG_LAYERS,
         "full_attention_interval says that layer 1 has a state-space mixer"},
        {"qwen3_5_gguf", "{\"qwen35.full_attention_interval\":null}", RS_E_CONFIG_LAYERS,
         "layer 1"}, /* each 4th, as llama.cpp has it */
        {"qwen3_5_gguf", "{\"qwen35.attention.recurrent_layers\":[true,false,true]}", RS_OK, NULL},
        {"qwen3_5_gguf", "{\"qwen35.attention.recurrent_layers\":[true,true,true]}",
         RS_E_CONFIG_LAYERS, "attention.recurrent_layers says that layer 1"},
        {"qwen3_5_gguf", "{\"qwen35.attention.recurrent_layers\":[true]}", RS_E_CONFIG_LAYERS,
         "qwen35.attention.recurrent_layers has 1 entries for 3 blocks"},
        {"qwen3_5_gguf", "{\"qwen35.nextn_predict_layers\":1}", RS_OK, NULL},
        {"qwen3_5_gguf", "{\"qwen35.nextn_predict_layers\":0}", RS_OK, NULL},
        {"qwen3_5_gguf", "{\"qwen35.nextn_predict_layers\":3}", RS_E_CONFIG_LAYERS,
         "nextn_predict_layers is 3"},
        {"qwen3_5_gguf", "{\"qwen35.nextn_predict_layers\":-1}", RS_E_CONFIG_SIZE,
         "nextn_predict_layers"},
        {"qwen3_5_gguf", "{\"qwen35.attention.key_length\":6}", RS_E_CONFIG_HEADS, "gates"},
        {"qwen3_5_gguf", "{\"qwen35.rope.dimension_count\":16}", RS_E_CONFIG_SIZE, "rotary"},
        {"falcon_h1_gguf", "{\"falcon-h1.ssm.group_count\":4}", RS_E_TENSOR_SHAPE, "blk.0.ssm_in"},
        {"falcon_h1_gguf", "{\"falcon-h1.ssm.time_step_rank\":null}", RS_E_CONFIG_SCHEMA,
         "falcon-h1.ssm.time_step_rank"},
        {"falcon_h1_gguf", "{\"falcon-h1.attention.head_count\":null}", RS_E_CONFIG_SCHEMA,
         "falcon-h1.attention.head_count"},
        {"falcon_h1_gguf", "{\"falcon-h1.attention.head_count_kv\":[2,2,2]}", RS_E_CONFIG_LAYERS,
         "has 3 entries for 2 blocks"},
        {"falcon_h1_gguf", "{\"falcon-h1.feed_forward_length\":11}", RS_E_TENSOR_SHAPE,
         "blk.0.ffn"},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        rs_checkpoint *checkpoint = open_case(trials[i].name);
        rs_network *network = NULL;
        rs_error err = {0};
        overlay(checkpoint->config, trials[i].change);
        check_status(&trials[i], rs_network_open(&network, checkpoint, &err), &err);
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
}

/* The multipliers of Granite, and what stands in for those that a file does not name. */
static void granite_multiplies(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint = open_case("granite_hybrid_gguf");
    rs_network *network;
    rs_error err = {0};
    assert_int_equal(json_object_del(checkpoint->config, "granitehybrid.attention.scale"), 0);
    assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_OK);
    const rs_branch *mixer = rs_layer_mixer(&network->layers[1]);
    assert_true(mixer->attention.scale == 0.5); /* 1/sqrt(16 / 4 heads) */
    assert_int_equal(mixer->attention.rope.kind, RS_ROPE_NONE);
    assert_true(mixer->scale == (double)0.4F);
    assert_true(network->embedding.scale == 3);
    assert_true(network->head.scale == 0.5);
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

/* ---- norms of dt, B and C ---- */

enum { GAINS = 6, WIDEST = 5 };

/* The case "mamba_gguf" with those norms: by its flag, which have no gains, or by stored gains. */
static void with_inner_norms(catch *all, bool flag, const float *gain)
{
    static const char *const names[] = {"ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"};
    char spelled[GAINS][64];
    int64_t shapes[GAINS];
    static const int32_t ids[] = {1, 2, 3, 4};
    input in = {.batch = {.samples = 1, .begin = in.begin}, .begin = {0, 4}};
    rs_checkpoint *checkpoint = open_case("mamba_gguf");
    rs_tensor *stored = checkpoint->tensors;
    size_t n = checkpoint->n_tensors;
    rs_tensor *more = calloc(n + GAINS, sizeof *more);
    rs_network *network;
    rs_error err = {0};
    assert_non_null(more);
    memcpy(more, stored, n * sizeof *more);
    for (int i = 0; i < GAINS; i++) {
        snprintf(spelled[i], sizeof spelled[i], "blk.%d.%s.weight", i / 3, names[i % 3]);
        shapes[i] = i % 3 ? WIDEST : 3;
        more[n + (size_t)i] = *rs_checkpoint_find(checkpoint, "output_norm.weight");
        rs_tensor *tensor = &more[n + (size_t)i];
        tensor->name = spelled[i];
        tensor->shape = &shapes[i];
        tensor->count = shapes[i];
        tensor->bytes = (size_t)shapes[i] * sizeof *gain;
        tensor->data = (const unsigned char *)gain;
    }
    overlay(checkpoint->config, flag ? "{\"mamba.ssm.dt_b_c_rms\":true}" : "{}");
    overlay(checkpoint->config, "{\"mamba.attention.layer_norm_rms_epsilon\":1e-6}");
    checkpoint->tensors = more;
    if (gain) checkpoint->n_tensors += GAINS;
    in.batch.ids = ids;
    if (rs_network_open(&network, checkpoint, &err) != RS_OK) fail_msg("%s", err.what);
    run(network, RS_PRECISION_F64, &in, all);
    rs_network_close(network);
    checkpoint->tensors = stored;
    checkpoint->n_tensors = n;
    rs_checkpoint_close(checkpoint);
    free(more);
}

/* Gains that are stored are used, whatever the flag says: ones are the norms without gains. */
static void stored_gains_count(void **state)
{
    (void)state;
    static const float ones[WIDEST] = {1, 1, 1, 1, 1}, twos[WIDEST] = {2, 2, 2, 2, 2};
    static catch bare, gained, plain, doubled, both;
    with_inner_norms(&bare, true, NULL);
    with_inner_norms(&gained, false, ones);
    with_inner_norms(&plain, false, NULL);
    with_inner_norms(&doubled, false, twos);
    with_inner_norms(&both, true, twos);
    assert_int_equal(differences("ones", &gained, &bare), 0);
    assert_int_equal(differences("flag and gains", &both, &doubled), 0);
    const found *a = &gained.items[1], *b = &plain.items[1], *c = &doubled.items[1];
    assert_string_equal(a->name, "state.1");
    assert_memory_not_equal(a->values, b->values, (size_t)a->count * sizeof *a->values);
    assert_memory_not_equal(a->values, c->values, (size_t)a->count * sizeof *a->values);
    forget(&bare), forget(&gained), forget(&plain), forget(&doubled), forget(&both);
}

/* ---- rates ---- */

/* Runs the case with that number as the first of ssm_a in layer 0; says where it fails. */
static rs_status with_rate(const char *name, float rate, rs_error *err)
{
    static const int32_t ids[] = {1, 2, 3};
    static const int64_t begin[] = {0, 3};
    const rs_context context = {.threads = 1};
    const rs_batch batch = {.samples = 1, .begin = begin, .ids = ids};
    rs_checkpoint *checkpoint = open_case(name);
    rs_network *network;
    rs_weights *weights;
    rs_runner *runner;
    unsigned char *copy = NULL;
    for (size_t t = 0; t < checkpoint->n_tensors; t++) {
        rs_tensor *tensor = &checkpoint->tensors[t];
        if (strcmp(tensor->name, "blk.0.ssm_a") != 0) continue;
        copy = malloc(tensor->bytes);
        assert_non_null(copy);
        memcpy(copy, tensor->data, tensor->bytes);
        memcpy(copy, &rate, sizeof rate);
        tensor->data = copy;
    }
    assert_non_null(copy);
    assert_int_equal(rs_network_open(&network, checkpoint, err), RS_OK);
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, UINT64_MAX, NULL), RS_OK);
    assert_int_equal(rs_runner_open(&runner, network, weights, &context, NULL), RS_OK);
    rs_status status = rs_runner_run(runner, &batch, NULL, 0, err);
    rs_runner_close(runner);
    rs_weights_close(weights);
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
    free(copy);
    return status;
}

/* A file whose A_log was never made -exp(A_log) has rates above 0. */
static void rates_above_zero_are_named(void **state)
{
    (void)state;
    static const char *const names[] = {"mamba_gguf", "mamba2_gguf", "qwen3_5_gguf"};
    static const struct {
        float rate;
        rs_status status;
    } rates[] = {{0.5F, RS_E_TENSOR_VALUE},
                 {INFINITY, RS_E_TENSOR_VALUE},
                 {NAN, RS_E_TENSOR_VALUE},
                 {-INFINITY, RS_E_TENSOR_VALUE},
                 {0, RS_OK},
                 {-0.0F, RS_OK},
                 {-1e30F, RS_OK},
                 {1e-30F, RS_E_TENSOR_VALUE}};
    for (size_t n = 0; n < 3; n++)
        for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
            rs_error err = {0};
            rs_status status = with_rate(names[n], rates[i].rate, &err);
            if (status != rates[i].status)
                fail_msg("%s with %g: %s", names[n], (double)rates[i].rate, rs_status_name(status));
            if (status != RS_OK) assert_string_equal(err.where, "blk.0.ssm_a");
        }
}

/* What a file leaves to its reader is said, once. */
static void what_is_not_stored_is_told(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"nemotron_h_gguf", "time_step_min): 0.001"},
                                           {"falcon_h1_gguf", "mamba_norm_before_gate"},
                                           {"mamba2_gguf", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_checkpoint *checkpoint = open_case(cases[i][0]);
        rs_network *network;
        int told = 0;
        assert_int_equal(rs_network_open(&network, checkpoint, NULL), RS_OK);
        for (size_t n = 0; n < network->notes.n; n++) {
            const rs_note *note = &network->notes.items[n];
            if (strcmp(note->code, "unstored_setting") != 0) continue;
            assert_non_null(strstr(note->message, cases[i][1]));
            told++;
        }
        assert_int_equal(told, cases[i][1] != NULL);
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
    }
}

/* Blocks that guess tokens further on are neither run nor scanned. */
static void blocks_that_guess_are_left(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint = open_case("qwen3_5_gguf");
    rs_network *network;
    rs_model *model;
    bool told = false;
    overlay(checkpoint->config, "{\"qwen35.nextn_predict_layers\":1}");
    assert_int_equal(rs_network_open(&network, checkpoint, NULL), RS_OK);
    assert_int_equal(network->n_layers, 2);
    for (size_t n = 0; n < network->notes.n; n++)
        told = told || (strcmp(network->notes.items[n].code, "extra_layers") == 0 &&
                        network->notes.items[n].severity == RS_INFO);
    assert_true(told);
    assert_int_equal(rs_model_open(&model, checkpoint, NULL, NULL, NULL), RS_OK);
    assert_int_equal(model->layers, 2);
    rs_model_close(model);
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

/* Mixtures of experts are read, not run; what llama.cpp has no architecture for is not known. */
static void other_architectures_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *architecture, *says;
        rs_status status;
    } trials[] = {
        {"nemotron_h_gguf", "nemotron_h_moe", "mixtures of experts are not built",
         RS_E_UNSUPPORTED},
        {"qwen3_5_gguf", "qwen35moe", "mixtures of experts are not built", RS_E_UNSUPPORTED},
        {"lfm2_gguf", "lfm2moe", "mixtures of experts are not built", RS_E_UNSUPPORTED},
        {"nemotron_h_gguf", "olmo_hybrid", "architecture olmo_hybrid", RS_E_FAMILY_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        rs_checkpoint *checkpoint = open_case(trials[i].name);
        rs_network *network = NULL;
        rs_error err = {0};
        json_object_set_new(checkpoint->config, "general.architecture",
                            json_string(trials[i].architecture));
        assert_int_equal(rs_network_open(&network, checkpoint, &err), trials[i].status);
        if (!strstr(err.what, trials[i].says)) fail_msg("%s: %s", trials[i].architecture, err.what);
        rs_checkpoint_close(checkpoint);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(twins_are_one_network),
                                       cmocka_unit_test(lies_are_named),
                                       cmocka_unit_test(granite_multiplies),
                                       cmocka_unit_test(stored_gains_count),
                                       cmocka_unit_test(rates_above_zero_are_named),
                                       cmocka_unit_test(what_is_not_stored_is_told),
                                       cmocka_unit_test(blocks_that_guess_are_left),
                                       cmocka_unit_test(other_architectures_are_named)};
    return cmocka_run_group_tests_name("gguf_states", tests, NULL, NULL);
}
