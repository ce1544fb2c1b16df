/* random_bert.c: BERT-base at its random start. */
#include "lab/random_bert.h"

#include "base/memory.h"

enum { WIDTH = 768, HEADS = 12 };

static json_t *bert_base(int32_t layers)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f}", "model_type",
                     "bert", "vocab_size", RS_LAB_BERT_VOCABULARY, "hidden_size", WIDTH,
                     "num_hidden_layers", (int)layers, "num_attention_heads", HEADS,
                     "intermediate_size", 4 * WIDTH, "max_position_embeddings", 512,
                     "type_vocab_size", 2, "hidden_act", "gelu", "layer_norm_eps", 1e-12,
                     "initializer_range", 0.02);
}

rs_status rs_lab_bert_open(rs_lab_bert *bert, int32_t layers, uint64_t seed,
                           const rs_context *context, rs_error *err)
{
    bert->init = NULL;
    bert->network = NULL;
    RS_TRY(rs_input_draw_sequence(&bert->inputs, bert->begin, bert->ids, RS_LAB_BERT_TOKENS, WIDTH,
                                  RS_LAB_BERT_VOCABULARY, RS_LAB_BERT_PADDING, seed, err));
    json_t *config = bert_base(layers);
    if (!config) return rs_fail_memory(err, "BERT's configuration", 1);
    rs_status status = rs_init_open(&bert->init, NULL, seed, err);
    if (status == RS_OK) {
        rs_init_set_threads(bert->init, context->threads);
        status = rs_network_from_config(&bert->network, config, "BERT-base", bert->init, err);
    }
    json_decref(config);
    if (status != RS_OK) rs_lab_bert_close(bert);
    return status;
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
