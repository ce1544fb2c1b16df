/* random_bert.c: BERT-base, ALBERT and XLNet at their random start. */
#include "lab/random_bert.h"

#include "base/memory.h"
#include "base/random.h"

enum {
    WIDTH = 768,
    HEADS = 12,
    ALBERT_VOCABULARY = 30000,
    ALBERT_PADDING = 0,
    XLNET_VOCABULARY = 32000,
    XLNET_PADDING = 5
};

static json_t *bert_base(int32_t layers)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f}", "model_type",
                     "bert", "vocab_size", RS_LAB_BERT_VOCABULARY, "hidden_size", WIDTH,
                     "num_hidden_layers", (int)layers, "num_attention_heads", HEADS,
                     "intermediate_size", 4 * WIDTH, "max_position_embeddings", 512,
                     "type_vocab_size", 2, "hidden_act", "gelu", "layer_norm_eps", 1e-12,
                     "initializer_range", 0.02);
}

static json_t *albert_base(int32_t layers)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f}", "model_type",
                     "albert", "vocab_size", ALBERT_VOCABULARY, "embedding_size", 128,
                     "hidden_size", WIDTH, "num_hidden_layers", (int)layers, "num_attention_heads",
                     HEADS, "intermediate_size", 4 * WIDTH, "max_position_embeddings", 512,
                     "type_vocab_size", 2, "hidden_act", "gelu_new", "layer_norm_eps", 1e-12,
                     "initializer_range", 0.02);
}

static json_t *xlnet_base(int32_t layers)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:b, s:s, s:f, s:f}", "model_type",
                     "xlnet", "vocab_size", XLNET_VOCABULARY, "d_model", WIDTH, "n_layer",
                     (int)layers, "n_head", HEADS, "d_inner", 4 * WIDTH, "ff_activation", "gelu",
                     "untie_r", 1, "attn_type", "bi", "layer_norm_eps", 1e-12, "initializer_range",
                     0.02);
}

static const struct {
    const char *name;
    json_t *(*config)(int32_t layers);
    int32_t vocabulary, padding;
} encoders[RS_LAB_ENCODERS] = {
    [RS_LAB_BERT] = {"BERT-base", bert_base, RS_LAB_BERT_VOCABULARY, RS_LAB_BERT_PADDING},
    [RS_LAB_ALBERT] = {"ALBERT-base", albert_base, ALBERT_VOCABULARY, ALBERT_PADDING},
    [RS_LAB_XLNET] = {"XLNet-base", xlnet_base, XLNET_VOCABULARY, XLNET_PADDING},
};

rs_status rs_lab_encoder_open(rs_lab_bert *bert, rs_lab_encoder which, int32_t layers,
                              uint64_t seed, const rs_context *context, rs_error *err)
{
    bert->init = NULL;
    bert->network = NULL;
    RS_TRY(rs_input_draw_sequence(&bert->inputs, bert->begin, bert->ids, RS_LAB_BERT_TOKENS, WIDTH,
                                  encoders[which].vocabulary, encoders[which].padding, seed, err));
    json_t *config = encoders[which].config(layers);
    if (!config) return rs_fail_memory(err, "a network's configuration", 1);
    rs_status status = rs_init_open(&bert->init, NULL, seed, err);
    if (status == RS_OK) {
        rs_init_set_threads(bert->init, context->threads);
        status =
            rs_network_from_config(&bert->network, config, encoders[which].name, bert->init, err);
    }
    json_decref(config);
    if (status != RS_OK) rs_lab_bert_close(bert);
    return status;
}

rs_status rs_lab_bert_open(rs_lab_bert *bert, int32_t layers, uint64_t seed,
                           const rs_context *context, rs_error *err)
{
    return rs_lab_encoder_open(bert, RS_LAB_BERT, layers, seed, context, err);
}

/* Whether one of the first `count` ids is `id`. */
static bool has_id(const rs_lab_bert *bert, int32_t count, int32_t id)
{
    for (int32_t i = 0; i < count; i++)
        if (bert->ids[i] == id) return true;
    return false;
}

int32_t rs_lab_encoder_different(const rs_lab_bert *bert)
{
    int32_t different = 0;
    for (int32_t i = 0; i < RS_LAB_BERT_TOKENS; i++)
        different += !has_id(bert, i, bert->ids[i]);
    return different;
}

void rs_lab_encoder_repeat(rs_lab_bert *bert, rs_lab_encoder which, int32_t different,
                           uint64_t seed)
{
    rs_random random = rs_random_new(seed, 0x696473 + (uint64_t)different);
    for (int32_t i = 0; i < RS_LAB_BERT_TOKENS; i++) {
        int32_t id = i < different ? encoders[which].padding : bert->ids[i - different];
        while (i < different && (id == encoders[which].padding || has_id(bert, i, id)))
            id = (int32_t)(rs_random_uniform(&random) * encoders[which].vocabulary);
        bert->ids[i] = id;
    }
    for (int32_t i = RS_LAB_BERT_TOKENS - 1; i > 0; i--) {
        int32_t j = (int32_t)(rs_random_uniform(&random) * (i + 1)), id = bert->ids[i];
        bert->ids[i] = bert->ids[j];
        bert->ids[j] = id;
    }
}

void rs_lab_bert_close(rs_lab_bert *bert)
{
    rs_network_close(bert->network);
    rs_init_close(bert->init);
}

const double rs_lab_bert_published[RS_LAB_BERT_VARIANTS][RS_LAB_BERT_STATES] = {
    {.6118, .0176, 7.0e-7, 1.9e-7, 1.9e-7, 1.9e-7, 2.0e-7, 1.8e-7, 2.0e-7, 1.9e-7, 1.9e-7, 2.0e-7,
     1.9e-7},
    {.5974, .0174, 8.8e-7, 2.0e-7, 2.0e-7, 2.0e-7, 1.9e-7, 2.0e-7, 2.0e-7, 2.0e-7, 2.0e-7, 2.0e-7,
     1.9e-7},
    {.6072, .5649, .5588, .5651, .5625, .5517, .5290, .5026, .4959, .4874, .4719, .4630, .4489},
    {.5971, .5629, .5351, .5654, .5369, .5292, .4932, .4635, .4393, .4137, .4059, .3645, .3453},
};

const double rs_lab_albert_published[RS_LAB_BERT_VARIANTS][RS_LAB_BERT_STATES] = {
    {.6690, 1.553e-3, 2.2e-7, 1.8e-7, 1.9e-7, 2.0e-7, 2.0e-7, 2.1e-7, 2.0e-7, 2.0e-7, 1.8e-7,
     1.9e-7, 2.0e-7},
    {.5662, 1.084e-3, 2.3e-7, 2.0e-7, 2.0e-7, 2.1e-7, 2.0e-7, 2.0e-7, 2.0e-7, 2.0e-7, 2.0e-7,
     2.1e-7, 1.9e-7},
    {.6420, .6421, .6127, .5461, .4932, .4493, .4120, .3789, .3484, .3207, .2963, .2749, .2555},
    {.6264, .6703, .6098, .5607, .5247, .4632, .4183, .3854, .3593, .3368, .3180, .2892, .2602},
};

const double rs_lab_xlnet_published[RS_LAB_BERT_VARIANTS][RS_LAB_BERT_STATES] = {
    {.9996, 1.496e-3, 5.453e-5, 2.6e-6, 2.5e-7, 2.2e-7, 2.2e-7, 2.2e-7, 2.2e-7, 2.2e-7, 2.2e-7,
     2.2e-7, 2.2e-7},
    {1.0203, 1.655e-3, 4.498e-5, 2.0e-6, 2.3e-7, 2.3e-7, 2.3e-7, 2.2e-7, 2.3e-7, 2.3e-7, 2.2e-7,
     2.3e-7, 2.2e-7},
    {.9976, .9953, .9894, .9896, .9824, .9780, .9731, .9585, .9473, .9436, .9382, .9304, .9272},
    {.9917, .9719, .9902, .9769, .9580, .8910, .8437, .8602, .8493, .8217, .8317, .8300, .7378},
};
