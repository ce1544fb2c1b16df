/*
 * families_vision_audio.c: ViT, DeiT, Whisper, and the two towers of CLIP and SigLIP.
 *
 * Names after transformers 5.23, whose checkpoints keep the old names on disk while the modules in
 * memory have new ones: both are listed. Whisper's encoder_attn reads the encoder's output, which
 * has just left the encoder's final norm.
 */
#include "recognise/family.h"

const rs_field_row rs_dialect_whisper[] = {{RS_FIELD_WIDTH, "d_model"},
                                           {RS_FIELD_WIDTH, "hidden_size"},
                                           {RS_FIELD_ENCODER_LAYERS, "encoder_layers"},
                                           {RS_FIELD_ENCODER_HEADS, "encoder_attention_heads"},
                                           {RS_FIELD_DECODER_LAYERS, "decoder_layers"},
                                           {RS_FIELD_DECODER_HEADS, "decoder_attention_heads"},
                                           {RS_FIELD_COUNT, NULL}};

static const rs_module_pattern vit[] = {
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
static const rs_module_pattern whisper[] = {
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

/* One tower of CLIP or SigLIP. */
#define TOWER(at, slot)                                                                            \
    {at "encoder.layers.#.self_attn.q_proj", RS_ROLE_Q, slot, 0},                                  \
        {at "encoder.layers.#.self_attn.k_proj", RS_ROLE_K, slot, 0},                              \
        {at "encoder.layers.#.self_attn.v_proj", RS_ROLE_V, slot, 0},                              \
        {at "encoder.layers.#.self_attn.out_proj", RS_ROLE_O, slot, 0},                            \
        {at "encoder.layers.#.layer_norm1", RS_ROLE_NORM_MIXER, slot, 0},                          \
        {at "encoder.layers.#.layer_norm2", RS_ROLE_NORM_MLP, slot, 0},                            \
        {at "encoder.layers.#.mlp.fc1", RS_ROLE_MLP_UP, slot, 0},                                  \
        {at "encoder.layers.#.mlp.fc2", RS_ROLE_MLP_DOWN, slot, 0},                                \
        {at "embeddings.token_embedding", RS_ROLE_EMBED_TOKEN, slot, RS_P_OPTIONAL},               \
        {at "embeddings.position_embedding", RS_ROLE_EMBED_POSITION, slot, RS_P_OPTIONAL},         \
        {at "embeddings.position_ids", RS_ROLE_BUFFER, slot, RS_P_OPTIONAL},                       \
        {at "embeddings.class_embedding", RS_ROLE_EMBED_CLASS, slot, RS_P_OPTIONAL},               \
        {at "embeddings.patch_embedding", RS_ROLE_EMBED_PATCH, slot, RS_P_OPTIONAL},               \
        {at "pre_layrnorm", RS_ROLE_NORM_EMBED, slot, RS_P_OPTIONAL},                              \
        {at "pre_layernorm", RS_ROLE_NORM_EMBED, slot, RS_P_OPTIONAL},                             \
        {at "post_layernorm", RS_ROLE_NORM_FINAL, slot, RS_P_OPTIONAL},                            \
        {at "final_layer_norm", RS_ROLE_NORM_FINAL, slot, RS_P_OPTIONAL},                          \
        {at "head", RS_ROLE_HEAD_OTHER, slot, RS_P_OPTIONAL},                                      \
    {                                                                                              \
        at "head.*", RS_ROLE_HEAD_OTHER, slot, RS_P_OPTIONAL                                       \
    }
#define TOWER_HEADS(slot)                                                                          \
    {"logit_*", RS_ROLE_OTHER, slot, RS_P_OPTIONAL},                                               \
        {"text_projection", RS_ROLE_HEAD_OTHER, slot, RS_P_OPTIONAL},                              \
        {"visual_projection", RS_ROLE_HEAD_OTHER, slot, RS_P_OPTIONAL},                            \
        {"classifier", RS_ROLE_HEAD_OTHER, slot, RS_P_OPTIONAL},                                   \
        {"box_head.*", RS_ROLE_HEAD_OTHER, slot, RS_P_OPTIONAL},                                   \
        {"class_head.*", RS_ROLE_HEAD_OTHER, slot, RS_P_OPTIONAL},                                 \
        {"objectness_head.*", RS_ROLE_HEAD_OTHER, slot, RS_P_OPTIONAL},                            \
        {"layer_norm", RS_ROLE_HEAD_OTHER, slot, RS_P_OPTIONAL},                                   \
        {"decoder.*", RS_ROLE_HEAD_OTHER, slot, RS_P_OPTIONAL},                                    \
    {                                                                                              \
        NULL, RS_ROLE_UNKNOWN, RS_SLOT_MAIN, 0                                                     \
    }
static const rs_module_pattern two_towers[] = {TOWER("text_model.", RS_SLOT_ENCODER),
                                               TOWER("vision_model.", RS_SLOT_DECODER),
                                               TOWER_HEADS(RS_SLOT_MAIN)};
static const rs_module_pattern one_tower[] = {TOWER("", RS_SLOT_MAIN), TOWER_HEADS(RS_SLOT_MAIN)};
static const rs_field_row tower_dialect[] = {{RS_FIELD_WIDTH, "hidden_size"},
                                             {RS_FIELD_LAYERS, "num_hidden_layers"},
                                             {RS_FIELD_HEADS, "num_attention_heads"},
                                             {RS_FIELD_ENCODER_LAYERS, "num_hidden_layers"},
                                             {RS_FIELD_ENCODER_HEADS, "num_attention_heads"},
                                             {RS_FIELD_DECODER_LAYERS, "num_hidden_layers"},
                                             {RS_FIELD_DECODER_HEADS, "num_attention_heads"},
                                             {RS_FIELD_COUNT, NULL}};
#define TOWER_SIZES(width, heads)                                                                  \
    {RS_FIELD_WIDTH, width}, {RS_FIELD_LAYERS, 12}, {RS_FIELD_HEADS, heads},                       \
        {RS_FIELD_ENCODER_LAYERS, 12}, {RS_FIELD_ENCODER_HEADS, heads},                            \
        {RS_FIELD_DECODER_LAYERS, 12}, {RS_FIELD_DECODER_HEADS, heads},                            \
    {                                                                                              \
        RS_FIELD_COUNT, 0                                                                          \
    }
static const rs_field_default tower_512[] = {TOWER_SIZES(512, 8)};
static const rs_field_default tower_768[] = {TOWER_SIZES(768, 12)};
static const char *const two_prefixes[] = {"clip.", "siglip.", "owlvit.", "owlv2.", "model.", NULL};
static const char *const one_prefixes[] = {"text_model.", "vision_model.", NULL};

#define TOWERS(name_, types_, patterns_, prefixes_)                                                \
    .name = (name_), .types = (types_), .dialect = tower_dialect, .patterns = {(patterns_)},       \
    .prefixes = (prefixes_), .norm = RS_NORM_LAYERNORM, .facts = RS_FACT_PRE_NORM
#define TEXT_AND_VISION(text_)                                                                     \
    .towers = {[RS_SLOT_ENCODER] = {"text", "text_config", (text_)},                               \
               [RS_SLOT_DECODER] = {"vision", "vision_config", tower_768}}

static const char *const vit_prefixes[] = {"vit.", "deit.", NULL};
static const char *const whisper_prefixes[] = {"model.", NULL};

const rs_family rs_families_vision_audio[] = {
    {.name = "vit",
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
    {TOWERS("clip", "clip metaclip_2 clipseg owlvit owlv2", two_towers, two_prefixes),
     TEXT_AND_VISION(tower_512)},
    {TOWERS("siglip", "siglip siglip2", two_towers, two_prefixes), TEXT_AND_VISION(tower_768)},
    {TOWERS("clip_text", "clip_text_model metaclip_2_text_model", one_tower, one_prefixes),
     .defaults = tower_512},
    {TOWERS("clip_vision", "clip_vision_model metaclip_2_vision_model", one_tower, one_prefixes),
     .defaults = tower_768},
    {TOWERS("siglip_text", "siglip_text_model siglip2_text_model", one_tower, one_prefixes),
     .defaults = tower_768},
    {TOWERS("siglip_vision", "siglip_vision_model siglip2_vision_model", one_tower, one_prefixes),
     .defaults = tower_768},
    {.name = NULL}};
