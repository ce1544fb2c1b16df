/*
 * families_bert.c: post-norm text encoders: BERT and its kin, DistilBERT, ALBERT, XLNet.
 *
 * Names and layouts after the modules of transformers 5.23 (bert, roberta, distilbert, albert,
 * xlnet); see docs/formats.md, 5.1 to 5.3.
 */
#include "recognise/family.h"

static const rs_module_pattern bert[] = {
    {"embeddings.word_embeddings", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"embeddings.position_embeddings", RS_ROLE_EMBED_POSITION, RS_SLOT_MAIN, 0},
    {"embeddings.token_type_embeddings", RS_ROLE_EMBED_TYPE, RS_SLOT_MAIN, 0},
    {"embeddings.LayerNorm", RS_ROLE_NORM_EMBED, RS_SLOT_MAIN, 0},
    {"embeddings.position_ids", RS_ROLE_BUFFER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"embeddings.token_type_ids", RS_ROLE_BUFFER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"encoder.layer.#.attention.self.query", RS_ROLE_Q, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.attention.self.key", RS_ROLE_K, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.attention.self.value", RS_ROLE_V, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.attention.self.distance_embedding", RS_ROLE_EMBED_POSITION, RS_SLOT_MAIN,
     RS_P_OPTIONAL},
    {"encoder.layer.#.attention.output.dense", RS_ROLE_O, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.attention.output.LayerNorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.intermediate.dense", RS_ROLE_MLP_UP, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.output.dense", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.output.LayerNorm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* Attention to an encoder's output, where BERT is a decoder. */
#define BERT_CROSS "encoder.layer.#.crossattention."
static const rs_module_pattern bert_cross[] = {
    {BERT_CROSS "self.query", RS_ROLE_CROSS_Q, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {BERT_CROSS "self.key", RS_ROLE_CROSS_K, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {BERT_CROSS "self.value", RS_ROLE_CROSS_V, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {BERT_CROSS "output.dense", RS_ROLE_CROSS_O, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {BERT_CROSS "output.LayerNorm", RS_ROLE_NORM_CROSS, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* Heads of masked language models: transform, norm, decoder (usually the embedding), bias. */
#define MLM(dense, norm, decoder, bias)                                                            \
    {                                                                                              \
        {dense, RS_ROLE_HEAD_TRANSFORM, RS_SLOT_MAIN, RS_P_OPTIONAL},                              \
            {norm, RS_ROLE_NORM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},                                \
            {decoder, RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},                               \
            {bias, RS_ROLE_HEAD_BIAS, RS_SLOT_MAIN, RS_P_OPTIONAL},                                \
        {                                                                                          \
            NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0                                                 \
        }                                                                                          \
    }
static const rs_module_pattern bert_head[] =
    MLM("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
        "cls.predictions.decoder", "cls.predictions");
static const rs_module_pattern roberta_head[] =
    MLM("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head");
static const rs_module_pattern albert_head[] =
    MLM("predictions.dense", "predictions.LayerNorm", "predictions.decoder", "predictions");
/* Its decoder has the bias. */
static const rs_module_pattern distilbert_head[] =
    MLM("vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias");
static const rs_module_pattern xlnet_head[] = {
    {"lm_loss", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

/* Task heads of any encoder: named, never analysed. */
static const rs_module_pattern heads[] = {
    {"pooler*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"cls.*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"classifier*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"pre_classifier*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"qa_outputs*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"vocab_*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"predictions.*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"sop_classifier*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"lm_head*", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"lm_loss*", RS_ROLE_LM_HEAD, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"sequence_summary*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"logits_proj*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"start_logits*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"end_logits*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"answer_class*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

static const rs_module_pattern distilbert[] = {
    {"embeddings.word_embeddings", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"embeddings.position_embeddings", RS_ROLE_EMBED_POSITION, RS_SLOT_MAIN, 0},
    {"embeddings.LayerNorm", RS_ROLE_NORM_EMBED, RS_SLOT_MAIN, 0},
    {"embeddings.position_ids", RS_ROLE_BUFFER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"transformer.layer.#.attention.q_lin", RS_ROLE_Q, RS_SLOT_MAIN, 0},
    {"transformer.layer.#.attention.k_lin", RS_ROLE_K, RS_SLOT_MAIN, 0},
    {"transformer.layer.#.attention.v_lin", RS_ROLE_V, RS_SLOT_MAIN, 0},
    {"transformer.layer.#.attention.out_lin", RS_ROLE_O, RS_SLOT_MAIN, 0},
    {"transformer.layer.#.sa_layer_norm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"transformer.layer.#.ffn.lin1", RS_ROLE_MLP_UP, RS_SLOT_MAIN, 0},
    {"transformer.layer.#.ffn.lin2", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},
    {"transformer.layer.#.output_layer_norm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

#define ALBERT "encoder.albert_layer_groups.#.albert_layers.#."
static const rs_module_pattern albert[] = {
    {"embeddings.word_embeddings", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"embeddings.position_embeddings", RS_ROLE_EMBED_POSITION, RS_SLOT_MAIN, 0},
    {"embeddings.token_type_embeddings", RS_ROLE_EMBED_TYPE, RS_SLOT_MAIN, 0},
    {"embeddings.LayerNorm", RS_ROLE_NORM_EMBED, RS_SLOT_MAIN, 0},
    {"embeddings.position_ids", RS_ROLE_BUFFER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"encoder.embedding_hidden_mapping_in", RS_ROLE_EMBED_PROJECTION, RS_SLOT_MAIN, 0},
    {ALBERT "attention.query", RS_ROLE_Q, RS_SLOT_MAIN, RS_P_NESTED},
    {ALBERT "attention.key", RS_ROLE_K, RS_SLOT_MAIN, RS_P_NESTED},
    {ALBERT "attention.value", RS_ROLE_V, RS_SLOT_MAIN, RS_P_NESTED},
    {ALBERT "attention.dense", RS_ROLE_O, RS_SLOT_MAIN, RS_P_NESTED},
    {ALBERT "attention.LayerNorm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, RS_P_NESTED},
    {ALBERT "ffn", RS_ROLE_MLP_UP, RS_SLOT_MAIN, RS_P_NESTED},
    {ALBERT "ffn_output", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, RS_P_NESTED},
    {ALBERT "full_layer_layer_norm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, RS_P_NESTED},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

static const rs_module_pattern xlnet[] = {
    {"word_embedding", RS_ROLE_EMBED_TOKEN, RS_SLOT_MAIN, 0},
    {"mask_emb", RS_ROLE_EMBED_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layer.#.rel_attn.q", RS_ROLE_Q, RS_SLOT_MAIN, RS_P_XLNET},
    {"layer.#.rel_attn.k", RS_ROLE_K, RS_SLOT_MAIN, RS_P_XLNET},
    {"layer.#.rel_attn.v", RS_ROLE_V, RS_SLOT_MAIN, RS_P_XLNET},
    {"layer.#.rel_attn.o", RS_ROLE_O, RS_SLOT_MAIN, RS_P_XLNET},
    {"layer.#.rel_attn.r", RS_ROLE_R, RS_SLOT_MAIN, RS_P_XLNET},
    {"layer.#.rel_attn.r_w_bias", RS_ROLE_CONTENT_BIAS, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layer.#.rel_attn.r_r_bias", RS_ROLE_POSITION_BIAS, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layer.#.rel_attn.r_s_bias", RS_ROLE_SEGMENT_BIAS, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layer.#.rel_attn.seg_embed", RS_ROLE_SEGMENT_EMBED, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layer.#.rel_attn.layer_norm", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"layer.#.ff.layer_1", RS_ROLE_MLP_UP, RS_SLOT_MAIN, 0},
    {"layer.#.ff.layer_2", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},
    {"layer.#.ff.layer_norm", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

static const rs_field_default albert_defaults[] = {
    {RS_FIELD_LAYER_GROUPS, 1}, {RS_FIELD_INNER_GROUP, 1}, {RS_FIELD_COUNT, 0}};

static const char *const bert_prefixes[] = {
    "bert.", "roberta.", "electra.", "camembert.", "xlm-roberta.", "model.", "0.auto_model.", NULL};
static const char *const distilbert_prefixes[] = {"distilbert.", "0.auto_model.", NULL};
static const char *const albert_prefixes[] = {"albert.", "0.auto_model.", NULL};
static const char *const xlnet_prefixes[] = {"transformer.", NULL};

const rs_family rs_families_bert[] = {{.name = "bert",
                                       .types = "bert",
                                       .dialect = rs_dialect_common,
                                       .patterns = {bert, bert_cross, bert_head, heads},
                                       .prefixes = bert_prefixes,
                                       .norm = RS_NORM_LAYERNORM,
                                       .facts = RS_FACT_GUESS,
                                       .forward = &rs_forward_bert},
                                      {.name = "roberta",
                                       .types = "roberta xlm-roberta camembert",
                                       .dialect = rs_dialect_common,
                                       .patterns = {bert, bert_cross, roberta_head, heads},
                                       .prefixes = bert_prefixes,
                                       .norm = RS_NORM_LAYERNORM,
                                       .forward = &rs_forward_roberta},
                                      {.name = "distilbert",
                                       .types = "distilbert",
                                       .dialect = rs_dialect_common,
                                       .patterns = {distilbert, distilbert_head, heads},
                                       .prefixes = distilbert_prefixes,
                                       .norm = RS_NORM_LAYERNORM,
                                       .facts = RS_FACT_GUESS,
                                       .forward = &rs_forward_distilbert},
                                      {.name = "albert",
                                       .types = "albert",
                                       .dialect = rs_dialect_common,
                                       .defaults = albert_defaults,
                                       .patterns = {albert, albert_head, heads},
                                       .prefixes = albert_prefixes,
                                       .norm = RS_NORM_LAYERNORM,
                                       .facts = RS_FACT_SHARED_LAYERS,
                                       .forward = &rs_forward_albert},
                                      {.name = "xlnet",
                                       .types = "xlnet",
                                       .dialect = rs_dialect_common,
                                       .patterns = {xlnet, xlnet_head, heads},
                                       .prefixes = xlnet_prefixes,
                                       .norm = RS_NORM_LAYERNORM,
                                       .forward = &rs_forward_xlnet},
                                      {.name = NULL}};
