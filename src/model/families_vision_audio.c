/*
 * families_vision_audio.c: ViT, DeiT, Whisper.
 *
 * Names after transformers 5.23, whose checkpoints keep the old names on disk while the modules in
 * memory have new ones: both are listed. Whisper's encoder_attn reads the encoder's output, which
 * has just left the encoder's final norm.
 */
#include "model/family.h"

const rs_field_row rs_dialect_whisper[] = {{RS_FIELD_WIDTH, "d_model"},
                                           {RS_FIELD_WIDTH, "hidden_size"},
                                           {RS_FIELD_ENCODER_LAYERS, "encoder_layers"},
                                           {RS_FIELD_ENCODER_HEADS, "encoder_attention_heads"},
                                           {RS_FIELD_DECODER_LAYERS, "decoder_layers"},
                                           {RS_FIELD_DECODER_HEADS, "decoder_attention_heads"},
                                           {RS_FIELD_COUNT, NULL}};

static const rs_pattern vit[] = {
    {"embeddings.cls_token", RS_ROLE_EMBED_CLASS, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"embeddings.mask_token", RS_ROLE_EMBED_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"embeddings.distillation_token", RS_ROLE_EMBED_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"embeddings.position_embeddings", RS_ROLE_EMBED_POSITION, RS_SLOT_MAIN, 0},
    {"embeddings.patch_embeddings.projection", RS_ROLE_EMBED_PATCH, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.attention.attention.query", RS_ROLE_Q, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.attention.attention.key", RS_ROLE_K, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.attention.attention.value", RS_ROLE_V, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.attention.output.dense", RS_ROLE_O, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.intermediate.dense", RS_ROLE_MLP_UP, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.output.dense", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.layernorm_before", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, 0},
    {"encoder.layer.#.layernorm_after", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, 0},
    {"layers.#.attention.q_proj", RS_ROLE_Q, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.attention.k_proj", RS_ROLE_K, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.attention.v_proj", RS_ROLE_V, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.attention.o_proj", RS_ROLE_O, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mlp.fc1", RS_ROLE_MLP_UP, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.mlp.fc2", RS_ROLE_MLP_DOWN, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.layernorm_before", RS_ROLE_NORM_MIXER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layers.#.layernorm_after", RS_ROLE_NORM_MLP, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"layernorm", RS_ROLE_NORM_FINAL, RS_SLOT_MAIN, 0},
    {"pooler*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"classifier*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"cls_classifier*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"distillation_classifier*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {"decoder.*", RS_ROLE_HEAD_OTHER, RS_SLOT_MAIN, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

#define STACK(at, slot)                                                                            \
    {at "self_attn.q_proj", RS_ROLE_Q, slot, 0}, {at "self_attn.k_proj", RS_ROLE_K, slot, 0},      \
        {at "self_attn.v_proj", RS_ROLE_V, slot, 0},                                               \
        {at "self_attn.out_proj", RS_ROLE_O, slot, 0},                                             \
        {at "self_attn_layer_norm", RS_ROLE_NORM_MIXER, slot, 0},                                  \
        {at "fc1", RS_ROLE_MLP_UP, slot, 0}, {at "fc2", RS_ROLE_MLP_DOWN, slot, 0},                \
    {                                                                                              \
        at "final_layer_norm", RS_ROLE_NORM_MLP, slot, 0                                           \
    }
static const rs_pattern whisper[] = {
    {"encoder.conv1", RS_ROLE_EMBED_OTHER, RS_SLOT_ENCODER, RS_P_OPTIONAL},
    {"encoder.conv2", RS_ROLE_EMBED_OTHER, RS_SLOT_ENCODER, RS_P_OPTIONAL},
    {"encoder.embed_positions", RS_ROLE_EMBED_POSITION, RS_SLOT_ENCODER, RS_P_OPTIONAL},
    {"encoder.layer_norm", RS_ROLE_NORM_FINAL, RS_SLOT_ENCODER, RS_P_OPTIONAL},
    STACK("encoder.layers.#.", RS_SLOT_ENCODER),
    {"decoder.embed_tokens", RS_ROLE_EMBED_TOKEN, RS_SLOT_DECODER, 0},
    {"decoder.embed_positions", RS_ROLE_EMBED_POSITION, RS_SLOT_DECODER, RS_P_OPTIONAL},
    {"decoder.layer_norm", RS_ROLE_NORM_FINAL, RS_SLOT_DECODER, RS_P_OPTIONAL},
    STACK("decoder.layers.#.", RS_SLOT_DECODER),
    {"decoder.layers.#.encoder_attn.q_proj", RS_ROLE_Q, RS_SLOT_CROSS, 0},
    {"decoder.layers.#.encoder_attn.k_proj", RS_ROLE_K, RS_SLOT_CROSS, 0},
    {"decoder.layers.#.encoder_attn.v_proj", RS_ROLE_V, RS_SLOT_CROSS, 0},
    {"decoder.layers.#.encoder_attn.out_proj", RS_ROLE_O, RS_SLOT_CROSS, 0},
    {"decoder.layers.#.encoder_attn_layer_norm", RS_ROLE_NORM_CROSS, RS_SLOT_CROSS, 0},
    {"proj_out", RS_ROLE_LM_HEAD, RS_SLOT_DECODER, RS_P_OPTIONAL},
    {NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0}};

static const char *const vit_prefixes[] = {"vit.", "deit.", NULL};
static const char *const whisper_prefixes[] = {"model.", NULL};

const rs_family rs_families_vision_audio[] = {{.name = "vit",
                                               .types = "vit",
                                               .dialect = rs_dialect_common,
                                               .patterns = {vit},
                                               .prefixes = vit_prefixes,
                                               .norm = RS_NORM_LAYERNORM,
                                               .facts = RS_FACT_PRE_NORM | RS_FACT_GUESS,
                                               .forward = &rs_forward_vit},
                                              {.name = "deit",
                                               .types = "deit",
                                               .dialect = rs_dialect_common,
                                               .patterns = {vit},
                                               .prefixes = vit_prefixes,
                                               .norm = RS_NORM_LAYERNORM,
                                               .facts = RS_FACT_PRE_NORM},
                                              {.name = "whisper",
                                               .types = "whisper",
                                               .dialect = rs_dialect_whisper,
                                               .patterns = {whisper},
                                               .prefixes = whisper_prefixes,
                                               .norm = RS_NORM_LAYERNORM,
                                               .facts = RS_FACT_PRE_NORM | RS_FACT_GUESS},
                                              {.name = NULL}};
