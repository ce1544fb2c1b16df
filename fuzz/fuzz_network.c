/*
 * fuzz_network.c: configurations as networks. The first byte chooses where weights come from: a
 * small checkpoint (LLaMA-, BERT-like) or draws. Of drawn models sizes are brought down first, so
 * that a run costs no memory to speak of; what is wrong about them stays wrong.
 */
#include "../tests/unit/model_fixture.h"
#include "network/op_traits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LAYER "encoder.layer.%."
#define AFFINE(name, out, in) LAYER name ".weight F32 " out " " in, LAYER name ".bias F32 " out
static const char *const whole_bert[] = {"embeddings.word_embeddings.weight F32 11 16",
                                         "embeddings.position_embeddings.weight F32 8 16",
                                         "embeddings.token_type_embeddings.weight F32 2 16",
                                         "embeddings.LayerNorm.gamma F32 16",
                                         "embeddings.LayerNorm.beta F32 16",
                                         AFFINE("attention.self.query", "16", "16"),
                                         AFFINE("attention.self.key", "16", "16"),
                                         AFFINE("attention.self.value", "16", "16"),
                                         AFFINE("attention.output.dense", "16", "16"),
                                         LAYER "attention.output.LayerNorm.weight F32 16",
                                         LAYER "attention.output.LayerNorm.bias F32 16",
                                         AFFINE("intermediate.dense", "8", "16"),
                                         AFFINE("output.dense", "16", "8"),
                                         LAYER "output.LayerNorm.weight F32 16",
                                         LAYER "output.LayerNorm.bias F32 16",
                                         NULL};

enum { LARGEST = 40, PAIRS = 64 };

static json_t *smaller(const json_t *value)
{
    if (json_is_integer(value) && json_integer_value(value) > LARGEST)
        return json_integer(json_integer_value(value) % LARGEST + 1);
    if (json_is_real(value) && json_real_value(value) > LARGEST && json_real_value(value) < 1e12)
        return json_real(json_real_value(value) / 1e12);
    if (json_is_object(value)) {
        json_t *object = json_object();
        const char *key;
        json_t *item;
        json_object_foreach((json_t *)value, key, item)
            json_object_set_new(object, key, smaller(item));
        return object;
    }
    if (json_is_array(value)) {
        json_t *list = json_array();
        for (size_t i = 0; i < json_array_size(value); i++)
            json_array_append_new(list, smaller(json_array_get(value, i)));
        return list;
    }
    return json_incref((json_t *)value);
}

typedef struct default_size {
    const char *key;
    int size;
} default_size;

static void bound_by(json_t *config, const default_size *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!json_object_get(config, sizes[i].key))
            json_object_set_new(config, sizes[i].key, json_integer(sizes[i].size));
}

/* Defaults that a fuzzer's configuration would leave at sizes of real models. */
static void bound(json_t *config)
{
    static const default_size own[] = {{"depth", 2},   {"d_model", 8}, {"heads", 2},
                                       {"seq_len", 6}, {"vocab", 11},  {"mlp_width", 6}};
    static const default_size sizes[] = {{"vocab_size", 11},         {"hidden_size", 8},
                                         {"num_hidden_layers", 2},   {"num_attention_heads", 2},
                                         {"intermediate_size", 6},   {"max_position_embeddings", 9},
                                         {"num_key_value_heads", 1}, {"head_dim", 4},
                                         {"embedding_size", 3},      {"d_inner", 6},
                                         {"hidden_dim", 6},          {"n_positions", 9},
                                         {"image_size", 8},          {"patch_size", 4},
                                         {"num_channels", 1}};
    bound_by(config, sizes, sizeof sizes / sizeof *sizes);
    json_t *arch = json_object_get(config, "arch");
    if (json_is_object(arch)) bound_by(arch, own, sizeof own / sizeof *own);
}

static void check_dense(const rs_dense *dense)
{
    if (!dense->weight) return;
    int64_t units = dense->out_is_row ? dense->rows : dense->cols;
    int64_t last = dense->first + (dense->out - 1) / dense->run * dense->stride +
                   (dense->out - 1) % dense->run;
    if (dense->rows * dense->cols != dense->weight->count || dense->first < 0 || last >= units ||
        dense->in != (dense->out_is_row ? dense->cols : dense->rows))
        abort();
    if (dense->bias && dense->bias->count != units) abort();
}

static void check(const rs_network *network)
{
    check_dense(&network->embedding.projection);
    check_dense(&network->embedding.patch);
    check_dense(&network->head.transform);
    check_dense(&network->head.decoder);
    if (network->n_layers < 1 || network->d_model < 1) abort();
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_layer *layer = &network->layers[l];
        if (layer->n_branches < 1) abort();
        for (int32_t i = 0; i < layer->n_branches; i++) {
            const rs_branch *branch = &layer->branches[i];
            const rs_attention_op *op = rs_branch_attention(branch);
            const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
            for (size_t k = 0; k < weights->n; k++) {
                const rs_dense *map = rs_weight_map(&weights->rows[k], branch);
                if (map) check_dense(map);
            }
            if (branch->before.gain && branch->before.gain->count != network->d_model) abort();
            if (!op || op->rope.kind == RS_ROPE_NONE) continue;
            double inverse[PAIRS], factor;
            if (op->rope.dims % 2 || op->rope.dims > op->head_dim) abort();
            if (op->rope.dims <= 2 * PAIRS) rs_rope_frequencies(inverse, &factor, &op->rope, 100);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const *const kinds[] = {fixture_llama, whole_bert};
    if (size < 1) return 0;
    bool draw = data[0] % 3 == 2;
    json_t *json = NULL;
    rs_error err;
    if (rs_config_parse(&json, "config.json", (const char *)data + 1, size - 1, &err) != RS_OK)
        return 0;
    rs_network *network = NULL;
    if (draw) {
        json_t *config = smaller(json);
        rs_init *init;
        bound(config);
        if (rs_init_open(&init, NULL, 1, &err) != RS_OK) abort();
        if (rs_network_from_config(&network, config, "config.json", init, &err) == RS_OK)
            check(network);
        rs_network_close(network);
        rs_init_close(init);
        json_decref(config);
        json_decref(json);
        return 0;
    }
    rs_checkpoint *checkpoint = fixture_make(RS_FORMAT_SAFETENSORS, NULL, kinds[data[0] % 3], 2);
    if (!checkpoint) abort();
    checkpoint->config = json;
    if (rs_network_open(&network, checkpoint, &err) == RS_OK) check(network);
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
    return 0;
}
