/* model_fixture.h: checkpoints without data, built from lists of names, types and shapes and the
 * text of a configuration. Include behind cmocka.h. */
#ifndef RS_TEST_MODEL_FIXTURE_H
#define RS_TEST_MODEL_FIXTURE_H

#include "recognise/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline rs_dtype fixture_dtype(const char *name)
{
    for (int d = 0; d < RS_DTYPE_COUNT; d++)
        if (strcmp(rs_dtype_info((rs_dtype)d)->name, name) == 0) return (rs_dtype)d;
    return RS_DTYPE_UNKNOWN;
}

/* One line: "name TYPE size size ...". Every '%' in the name becomes `layer`. False when out of
 * memory. */
static inline bool fixture_add(rs_checkpoint *checkpoint, const char *line, int layer)
{
    char text[512], name[512] = "", type[32];
    int used = 0;
    snprintf(text, sizeof text, "%s", line);
    char *space = strchr(text, ' ');
    *space++ = 0;
    for (const char *c = text; *c; c++) {
        size_t n = strlen(name);
        if (*c == '%')
            snprintf(name + n, sizeof name - n, "%d", layer);
        else
            snprintf(name + n, sizeof name - n, "%c", *c);
    }
    if (sscanf(space, "%31s%n", type, &used) != 1) return false;
    int64_t *shape = rs_arena_alloc(checkpoint->arena, 8, sizeof *shape);
    rs_tensor tensor = {.name = rs_arena_strdup(checkpoint->arena, name),
                        .dtype = fixture_dtype(type),
                        .shape = shape,
                        .count = 1,
                        .data = (const uint8_t *)"",
                        .type_id = checkpoint->format == RS_FORMAT_GGUF ? 99 : -1};
    if (!shape || !tensor.name) return false;
    for (char *rest = space + used, *end;; rest = end) {
        long long size = strtoll(rest, &end, 10);
        if (end == rest) break;
        shape[tensor.rank++] = size;
        tensor.count *= size;
    }
    return rs_checkpoint_add(checkpoint, &tensor, NULL) == RS_OK;
}

/* Lines with a '%' are added once a layer, the others once. NULL when out of memory. */
static inline rs_checkpoint *fixture_make(rs_format format, const char *config,
                                          const char *const *lines, int layers)
{
    rs_checkpoint *checkpoint = rs_checkpoint_new(format, "fixture");
    if (!checkpoint) return NULL;
    if (config) checkpoint->config = json_loads(config, 0, NULL);
    checkpoint->config_path = rs_strdup("config.json");
    bool good = checkpoint->config_path != NULL;
    for (const char *const *line = lines; *line && good; line++)
        for (int layer = 0; good && layer < (strchr(*line, '%') ? layers : 1); layer++)
            good = fixture_add(checkpoint, *line, layer);
    if (good) return checkpoint;
    rs_checkpoint_close(checkpoint);
    return NULL;
}

/* LLaMA with 4 heads, 2 key/value heads, width 16. */
static const char *const fixture_llama[] = {"model.embed_tokens.weight F32 11 16",
                                            "model.norm.weight F32 16",
                                            "lm_head.weight F32 11 16",
                                            "model.layers.%.input_layernorm.weight F32 16",
                                            "model.layers.%.post_attention_layernorm.weight F32 16",
                                            "model.layers.%.self_attn.q_proj.weight BF16 16 16",
                                            "model.layers.%.self_attn.k_proj.weight BF16 8 16",
                                            "model.layers.%.self_attn.v_proj.weight BF16 8 16",
                                            "model.layers.%.self_attn.o_proj.weight BF16 16 16",
                                            "model.layers.%.mlp.gate_proj.weight BF16 8 16",
                                            "model.layers.%.mlp.up_proj.weight BF16 8 16",
                                            "model.layers.%.mlp.down_proj.weight BF16 16 8",
                                            NULL};
/* Without the closing brace, so that a test can append fields. */
#define FIXTURE_LLAMA                                                                              \
    "{\"model_type\":\"llama\",\"hidden_size\":16,\"num_hidden_layers\":2,"                        \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2"

static const char *const fixture_bert[] = {
    "embeddings.word_embeddings.weight F32 11 16",
    "embeddings.position_embeddings.weight F32 8 16",
    "embeddings.token_type_embeddings.weight F32 2 16",
    "embeddings.LayerNorm.gamma F32 16",
    "embeddings.LayerNorm.beta F32 16",
    "embeddings.position_ids I64 1 8",
    "encoder.layer.%.attention.self.query.weight F32 16 16",
    "encoder.layer.%.attention.self.query.bias F32 16",
    "encoder.layer.%.attention.self.key.weight F32 16 16",
    "encoder.layer.%.attention.self.key.bias F32 16",
    "encoder.layer.%.attention.self.value.weight F32 16 16",
    "encoder.layer.%.attention.self.value.bias F32 16",
    "encoder.layer.%.attention.output.dense.weight F32 16 16",
    "encoder.layer.%.attention.output.dense.bias F32 16",
    "encoder.layer.%.attention.output.LayerNorm.weight F32 16",
    "encoder.layer.%.intermediate.dense.weight F32 8 16",
    "encoder.layer.%.output.dense.weight F32 16 8",
    "encoder.layer.%.output.LayerNorm.weight F32 16",
    NULL};
#define FIXTURE_BERT                                                                               \
    "{\"model_type\":\"bert\",\"hidden_size\":16,\"num_hidden_layers\":2,"                         \
    "\"num_attention_heads\":4"

/* Mamba-2 with width 8, 4 heads of 4, 2 groups, state 5: in_proj has 16+16+10+10+4 rows. */
static const char *const fixture_mamba2[] = {"backbone.embeddings.weight F32 11 8",
                                             "backbone.norm_f.weight F32 8",
                                             "backbone.layers.%.norm.weight F32 8",
                                             "backbone.layers.%.mixer.in_proj.weight F32 56 8",
                                             "backbone.layers.%.mixer.conv1d.weight F32 36 1 4",
                                             "backbone.layers.%.mixer.A_log F32 4",
                                             "backbone.layers.%.mixer.D F32 4",
                                             "backbone.layers.%.mixer.dt_bias F32 4",
                                             "backbone.layers.%.mixer.norm.weight F32 16",
                                             "backbone.layers.%.mixer.out_proj.weight F32 8 16",
                                             NULL};
#define FIXTURE_MAMBA2                                                                             \
    "{\"model_type\":\"mamba2\",\"hidden_size\":8,\"num_hidden_layers\":2,\"state_size\":5,"       \
    "\"num_heads\":4,\"head_dim\":4,\"n_groups\":2,\"time_step_limit\":[0,{\"__float__\":"         \
    "\"Infinity\"}]"

#endif
