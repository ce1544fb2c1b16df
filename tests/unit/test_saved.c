/* test_saved.c: names of a network's tensors, and what a saved network is when it is opened again:
 * the numbers that training may have changed, wherever they are kept. tests/cli/saved.sh has what
 * commands say of such folders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arch_support.h"

#include "network/names.h"
#include "network/op_traits.h"
#include "network/saved.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- names ---- */

static rs_names *names_of(const rs_network *network)
{
    rs_names *names;
    rs_error err;
    assert_int_equal(rs_names_open(&names, network, &err), RS_OK);
    return names;
}

static void listed(const char *arch, const char *const *expected)
{
    built b = good(arch);
    rs_names *names = names_of(b.network);
    size_t n = 0;
    uint64_t numbers = 0;
    for (; expected[n]; n++) {
        assert_true(n < names->n);
        assert_string_equal(names->rows[n].name, expected[n]);
        assert_ptr_equal(rs_names_find(names, names->rows[n].tensor), &names->rows[n]);
        numbers += (uint64_t)names->rows[n].tensor->count;
    }
    assert_int_equal(names->n, n);
    assert_int_equal(numbers, b.network->stored.parameters);
    const rs_tensor other = {.name = "other"};
    assert_null(rs_names_find(names, &other));
    rs_names_close(names);
    unbuild(&b);
}

static void names_in_order(void **state)
{
    (void)state;
    listed("{\"depth\": 1, \"d_model\": 4, \"vocab\": 3, \"positions\": \"learned\"}",
           (const char *const[]){
               "embed.tokens.weight", "embed.positions.weight", "layers.0.mixer.q.weight",
               "layers.0.mixer.k.weight", "layers.0.mixer.v.weight", "layers.0.mixer.o.weight",
               "layers.0.mlp.up.weight", "layers.0.mlp.down.weight", "head.weight", NULL});
    /* shared layers once; slopes of ALiBi are no weights */
    listed("{\"depth\": 3, \"d_model\": 4, \"share_layers\": true, \"positions\": \"alibi\", "
           "\"mlp\": \"swiglu\"}",
           (const char *const[]){"layers.0.mixer.q.weight", "layers.0.mixer.k.weight",
                                 "layers.0.mixer.v.weight", "layers.0.mixer.o.weight",
                                 "layers.0.mlp.up.weight", "layers.0.mlp.gate.weight",
                                 "layers.0.mlp.down.weight", NULL});
    /* absent maps are none either */
    listed("{\"depth\": 1, \"d_model\": 4, \"mlp\": \"none\", \"bias\": true, \"init\": {\"wv\": "
           "\"identity\", \"wo\": \"identity\"}}",
           (const char *const[]){"layers.0.mixer.q.weight", "layers.0.mixer.q.bias",
                                 "layers.0.mixer.k.weight", "layers.0.mixer.k.bias", NULL});
    listed("{\"depth\": 2, \"d_model\": 4, \"mixer\": [\"s4d\", \"mamba\"], \"mlp\": \"none\"}",
           (const char *const[]){"layers.0.mixer.log_step", "layers.0.mixer.log_decay",
                                 "layers.0.mixer.frequency", "layers.0.mixer.c", "layers.0.mixer.d",
                                 "layers.0.mixer.out.weight", "layers.0.mixer.out_gate.weight",
                                 "layers.1.mixer.in.weight", "layers.1.mixer.conv.weight",
                                 "layers.1.mixer.x.weight", "layers.1.mixer.dt.weight",
                                 "layers.1.mixer.dt.bias", "layers.1.mixer.a_log",
                                 "layers.1.mixer.d", "layers.1.mixer.out.weight", NULL});
}

/* Norms with gains, biases of maps, a tied head: of networks that are put together by hand. */
static void parts_and_twins(void **state)
{
    (void)state;
    built b = good("{\"depth\": 1, \"d_model\": 4, \"vocab\": 3, \"norm\": \"sandwich\"}");
    rs_network *n = b.network;
    rs_tensor extra[6] = {{.name = "extra"}};
    for (size_t i = 0; i < 6; i++)
        extra[i] = (rs_tensor){.name = "extra", .count = 4};
    rs_branch *mixer = &n->layers[0].branches[0], *mlp = &n->layers[0].branches[1];
    mixer->before.gain = &extra[0];
    mixer->attention.q.bias = &extra[1];
    mlp->inside.bias = &extra[2];
    mlp->after.gain = &extra[3];
    n->final_norm.gain = &extra[4];
    n->head.decoder.weight = n->embedding.tokens;
    n->head.decoder.bias = &extra[5];
    const struct {
        const char *name;
        bool gain, bias;
        rs_role role;
        int32_t layer, branch;
    } expected[] = {
        {"layers.0.mixer.norm_before.gain", true, false, RS_ROLE_UNKNOWN, 0, 0},
        {"layers.0.mixer.q.bias", false, true, RS_ROLE_Q, 0, 0},
        {"layers.0.mlp.norm_inside.bias", true, true, RS_ROLE_UNKNOWN, 0, 1},
        {"layers.0.mlp.norm_after.gain", true, false, RS_ROLE_UNKNOWN, 0, 1},
        {"final_norm.gain", true, false, RS_ROLE_UNKNOWN, -1, -1},
        {"head.bias", false, true, RS_ROLE_LM_HEAD, -1, -1},
    };
    rs_names *names = names_of(n);
    for (size_t i = 0; i < 6; i++) {
        const rs_named_tensor *row = rs_names_find(names, &extra[i]);
        assert_non_null(row);
        assert_string_equal(row->name, expected[i].name);
        assert_int_equal(row->gain, expected[i].gain);
        assert_int_equal(row->bias, expected[i].bias);
        assert_int_equal(row->role, expected[i].role);
        assert_int_equal(row->layer, expected[i].layer);
        assert_int_equal(row->branch, expected[i].branch);
    }
    assert_string_equal(rs_names_find(names, n->embedding.tokens)->name, "embed.tokens.weight");
    for (size_t i = 0; i < names->n; i++)
        assert_string_not_equal(names->rows[i].name, "head.weight");
    rs_names_close(names);
    unbuild(&b);
}

/* ---- there and back ---- */

typedef struct folder {
    char path[64], weights[96], config[96];
} folder;

static folder new_folder(void)
{
    folder f = {.path = "/tmp/rankscope-saved-XXXXXX"};
    assert_non_null(mkdtemp(f.path));
    snprintf(f.weights, sizeof f.weights, "%s/model.safetensors", f.path);
    snprintf(f.config, sizeof f.config, "%s/config.json", f.path);
    return f;
}

static void remove_folder(const folder *f)
{
    unlink(f->weights);
    unlink(f->config);
    assert_int_equal(rmdir(f->path), 0);
}

static rs_save_request request_of(const folder *f, const built *b, const json_t *arch)
{
    return (rs_save_request){.folder = f->path,
                             .network = b->network,
                             .arch = arch,
                             .arch_path = "ARCH.json",
                             .dtype = RS_F64};
}

static void opened(rs_checkpoint **checkpoint, rs_network **network, const folder *f)
{
    rs_error err;
    if (rs_checkpoint_open(checkpoint, f->path, &(rs_checkpoint_options){0}, &err) != RS_OK ||
        rs_network_open(network, *checkpoint, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
}

/* Skips, factors and gains come back to the bit, also those that no decimal of 15 digits has. */
static void strengths_and_gains(void **state)
{
    (void)state;
    static const char text[] = "{\"depth\": 3, \"d_model\": 4, \"skip_mixer\": \"1/(l+1)\", "
                               "\"mixer\": [\"attention\", \"mamba2\", \"attention\"]}";
    for (int share = 0; share < 2; share++) {
        const char *from = share ? "{\"depth\": 3, \"d_model\": 4, \"share_layers\": true}" : text;
        built b = good(from);
        json_t *arch = json_loads(from, 0, NULL);
        for (int32_t l = 0; l < 3; l++)
            for (int32_t i = 0; i < 2; i++) {
                rs_branch *branch = &b.network->layers[l].branches[i];
                branch->skip = 1 / (3.0 + l + 7 * i);
                branch->scale = l == 1 ? 0 : -sqrt(2.0 + l + 5 * i);
                if (branch->kind != RS_BRANCH_ATTENTION) continue;
                branch->attention.mix_identity = exp(-l);
                branch->attention.mix_softmax = 1 + 0x1p-52;
                branch->attention.mix_uniform = 0.1 * l;
            }
        folder f = new_folder();
        rs_error err;
        const rs_save_request request = request_of(&f, &b, arch);
        if (rs_network_save(&request, &err) != RS_OK) fail_msg("%s: %s", err.where, err.what);
        rs_checkpoint *checkpoint;
        rs_network *again;
        opened(&checkpoint, &again, &f);
        for (int32_t l = 0; l < 3; l++)
            for (int32_t i = 0; i < 2; i++) {
                const rs_branch *x = &b.network->layers[l].branches[i];
                const rs_branch *y = &again->layers[l].branches[i];
                assert_int_equal(x->kind, y->kind);
                assert_true(x->skip == y->skip && x->scale == y->scale);
                if (x->kind != RS_BRANCH_ATTENTION) continue;
                assert_true(x->attention.mix_identity == y->attention.mix_identity &&
                            x->attention.mix_softmax == y->attention.mix_softmax &&
                            x->attention.mix_uniform == y->attention.mix_uniform);
            }
        rs_network_close(again);
        rs_checkpoint_close(checkpoint);
        b.network->layers[1].branches[0].skip = NAN;
        assert_int_equal(rs_network_save(&request, &err), RS_E_TENSOR_VALUE);
        assert_string_equal(err.where, "skip_mixer");
        remove_folder(&f);
        json_decref(arch);
        unbuild(&b);
    }
}

/* What a list, a formula or a trainer has made of temperatures comes back to the bit; what is the same in
 * all layers is one number, and what no file can hold is the architecture's own. */
static void temperatures(void **state)
{
    (void)state;
    static const char text[] = "{\"depth\": 3, \"d_model\": 4, \"temperature\": \"sqrt(l+1/3)\", "
                               "\"mixer\": [\"attention\", \"linear_attention\", \"mamba2\"]}";
    for (int way = 0; way < 3; way++) {
        built b = good(text);
        json_t *arch = json_loads(text, 0, NULL);
        double *first = &b.network->layers[0].branches[0].attention.temperature,
               *second = &b.network->layers[1].branches[0].linear.temperature;
        if (way == 1) *first = INFINITY;
        if (way == 2) *first = *second = sqrt(2 + 1.0 / 3); /* mamba2 has none: the formula's */
        folder f = new_folder();
        rs_error err;
        const rs_save_request request = request_of(&f, &b, arch);
        if (rs_network_save(&request, &err) != RS_OK) fail_msg("%s: %s", err.where, err.what);
        rs_checkpoint *checkpoint;
        rs_network *again;
        opened(&checkpoint, &again, &f);
        const json_t *kept =
            json_object_get(json_object_get(checkpoint->config, "arch"), "temperature");
        assert_int_equal(json_array_size(kept), way == 2 ? 0 : 3);
        assert_true(json_is_real(kept) == (way == 2));
        assert_true(again->layers[0].branches[0].attention.temperature ==
                    (way == 1 ? sqrt(1.0 / 3) : *first));
        assert_true(again->layers[1].branches[0].linear.temperature == *second);
        rs_network_close(again);
        rs_checkpoint_close(checkpoint);
        remove_folder(&f);
        json_decref(arch);
        unbuild(&b);
    }
}

/* A trainer's numbers are elsewhere than the network's. */
static const void *own_numbers(void *user, const rs_tensor *tensor)
{
    static const double numbers[] = {0.1, -2, 1e-300, 4, 5, 6, 7, 8, 9, 10, 11, 12.5};
    const rs_network *network = user;
    return tensor == network->embedding.tokens ? numbers : NULL;
}

static void numbers_of_a_trainer(void **state)
{
    (void)state;
    static const char text[] = "{\"depth\": 1, \"d_model\": 4, \"vocab\": 3}";
    built b = good(text);
    json_t *arch = json_loads(text, 0, NULL),
           *more = json_pack("{s:i, s:s}", "step", 7, "model_type", "never");
    folder f = new_folder();
    rs_error err;
    rs_save_request request = request_of(&f, &b, arch);
    request.numbers = own_numbers;
    request.user = b.network;
    request.more = more;
    assert_int_equal(rs_network_save(&request, &err), RS_OK);
    rs_checkpoint *checkpoint;
    rs_network *again;
    opened(&checkpoint, &again, &f);
    double x[12], y[16], z[16];
    rs_tensor_decode_f64(x, again->embedding.tokens, 0, 12);
    assert_memory_equal(x, own_numbers(b.network, b.network->embedding.tokens), sizeof x);
    rs_tensor_decode_f64(y, again->layers[0].branches[0].attention.q.weight, 0, 16);
    rs_tensor_decode_f64(z, b.network->layers[0].branches[0].attention.q.weight, 0, 16);
    assert_memory_equal(y, z, sizeof y);
    assert_true(rs_is_saved(checkpoint->config));
    assert_int_equal(json_integer_value(json_object_get(checkpoint->config, "step")), 7);
    assert_int_equal(again->stored.parameters, b.network->stored.parameters);
    assert_string_equal(again->stored.dtype, "F64");
    rs_network_close(again);
    rs_checkpoint_close(checkpoint);
    remove_folder(&f);
    json_decref(arch);
    json_decref(more);
    unbuild(&b);
}

/* A set of outputs that the caller places: nothing is there before, and nothing after it is undone. */
static void outputs_that_wait(void **state)
{
    (void)state;
    static const char text[] = "{\"depth\": 1, \"d_model\": 4}";
    built b = good(text);
    json_t *arch = json_loads(text, 0, NULL);
    folder f = new_folder();
    rs_error err;
    rs_outputs outputs = {0};
    char what[256];
    rs_save_request request = request_of(&f, &b, arch);
    request.outputs = &outputs;
    assert_int_equal(rs_network_save(&request, &err), RS_OK);
    assert_int_not_equal(access(f.weights, F_OK), 0);
    rs_outputs_undo(&outputs, what, sizeof what);
    assert_int_not_equal(access(f.config, F_OK), 0);
    assert_int_equal(rs_network_save(&request, &err), RS_OK);
    assert_int_equal(rs_outputs_place(&outputs, &err), RS_OK);
    rs_outputs_keep(&outputs);
    assert_int_equal(access(f.weights, F_OK), 0);
    assert_int_equal(access(f.config, F_OK), 0);
    remove_folder(&f);
    json_decref(arch);
    unbuild(&b);
}

/* ---- in memory ---- */

static rs_status count_gradient(void *user, const rs_gradient_data *gradient)
{
    assert_non_null(strstr(gradient->name, "weight"));
    ++*(int *)user;
    return RS_OK;
}

/* A session of its tensors and configuration: gradients of all weights, none of ALiBi's slopes. */
static void in_a_session(void **state)
{
    (void)state;
    static const char text[] = "{\"depth\": 1, \"d_model\": 4, \"vocab\": 3, \"positions\": "
                               "\"alibi\", \"mask\": \"causal\"}";
    static const int32_t ids[] = {0, 1, 2, 1};
    built b = good(text);
    json_t *arch = json_loads(text, 0, NULL);
    rs_names *names = names_of(b.network);
    rs_tensor_data tensors[16];
    for (size_t i = 0; i < names->n; i++)
        tensors[i] = (rs_tensor_data){.name = names->rows[i].name,
                                      .dtype = "F32",
                                      .rank = (int)names->rows[i].tensor->rank,
                                      .shape = names->rows[i].tensor->shape,
                                      .data = names->rows[i].tensor->data};
    char config[256];
    snprintf(config, sizeof config, "{\"model_type\": \"rankscope\", \"arch\": %s}", text);
    rs_error err;
    rs_session *session;
    assert_int_equal(rs_session_open(&session, NULL, &err), RS_OK);
    if (rs_session_tensors(session, tensors, names->n, config, NULL, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    rs_gradients_settings settings;
    rs_gradients_settings_init(&settings, sizeof settings);
    settings.run.ids = ids;
    settings.run.ids_samples = 1;
    settings.run.ids_length = 4;
    settings.precision = RS_PRECISION_F64;
    int told = 0;
    if (rs_session_gradients(NULL, session, &settings, count_gradient, &told, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    assert_int_equal(told, names->n);
    assert_int_equal(rs_session_tensors(session, tensors, names->n - 1, config, NULL, &err),
                     RS_E_TENSOR_MISSING);
    rs_session_close(session);
    rs_names_close(names);
    json_decref(arch);
    unbuild(&b);
}

/* Each request for memory refused, alone and with all behind it: an error and no file, or a network
 * that is whole. */
static rs_status save_and_open(const built *b, const json_t *arch, const folder *f, rs_error *err)
{
    const rs_save_request request = request_of(f, b, arch);
    rs_checkpoint *checkpoint;
    rs_network *network;
    rs_model *model;
    RS_TRY(rs_network_save(&request, err));
    RS_TRY(rs_checkpoint_open(&checkpoint, f->path, &(rs_checkpoint_options){0}, err));
    rs_status status = rs_network_open_with_model(&network, &model, checkpoint, err);
    if (status == RS_OK) {
        assert_int_equal(network->stored.parameters, b->network->stored.parameters);
        assert_int_equal(model->n_products, 4);
        rs_model_close(model);
        rs_network_close(network);
    }
    rs_checkpoint_close(checkpoint);
    return status;
}

static void memory_that_ends(void **state)
{
    (void)state;
    static const char text[] =
        "{\"depth\": 2, \"d_model\": 4, \"vocab\": 3, \"mixer\": [\"attention\", \"mamba\"], "
        "\"attention\": \"shaped\", \"shaped\": [[1, 2, 3], [4, 5, 6]]}";
    built b = good(text);
    json_t *arch = json_loads(text, 0, NULL);
    void (*const refuse[])(int64_t) = {rs_memory_fail_at, rs_memory_fail_once};
    for (size_t how = 0; how < 2; how++) {
        rs_status status = RS_E_NO_MEMORY;
        for (int64_t i = 1; status != RS_OK; i++) {
            folder f = new_folder();
            rs_error err = {0};
            int64_t blocks = rs_memory_blocks(), requests = rs_memory_requests();
            refuse[how](i);
            status = save_and_open(&b, arch, &f, &err);
            bool reached = rs_memory_requests() - requests >= i;
            rs_memory_fail_at(0);
            if (status != RS_OK && status != RS_E_NO_MEMORY)
                fail_msg("request %lld: %s: %s", (long long)i, err.where, err.what);
            assert_int_equal(rs_memory_blocks(), blocks);
            assert_true(status == RS_OK || reached);
            if (status == RS_OK && reached) status = RS_E_NO_MEMORY; /* not needed after all */
            unlink(f.weights), unlink(f.config);
            assert_int_equal(rmdir(f.path), 0); /* nothing else was left */
        }
    }
    json_decref(arch);
    unbuild(&b);
}

int main(void)
{
    rs_memory_watch_json();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_in_order),       cmocka_unit_test(parts_and_twins),
        cmocka_unit_test(strengths_and_gains),  cmocka_unit_test(temperatures),
        cmocka_unit_test(numbers_of_a_trainer), cmocka_unit_test(outputs_that_wait),
        cmocka_unit_test(memory_that_ends),     cmocka_unit_test(in_a_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
