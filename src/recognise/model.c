/* model.c: opening a checkpoint as a model: family, tensors, layers, products, remarks. */
#include "recognise/builder.h"

#include <stdio.h>
#include <string.h>

bool rs_type_listed(const char *types, const char *type)
{
    size_t n = strlen(type);
    for (const char *at = types; n && (at = strstr(at, type)); at++)
        if ((at == types || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

const rs_family *rs_family_find(const rs_checkpoint *checkpoint, const rs_fields *fields,
                                const char *type)
{
    static const rs_family *const lists[] = {rs_families_decoder, rs_families_kin,
                                             rs_families_bert,    rs_families_vision_audio,
                                             rs_families_ssm,     NULL};
    static const rs_family *const gguf[] = {rs_families_gguf, NULL};
    const rs_family *const *list = checkpoint->format == RS_FORMAT_GGUF ? gguf : lists;
    for (; type && *list; list++)
        for (const rs_family *family = *list; family->name; family++)
            if (rs_type_listed(family->types, type) &&
                (!family->when || rs_fields_true(fields, family->when)))
                return family;
    return NULL;
}

/* The original state-spaces configurations carry no model_type. */
static const char *type_without_name(const rs_fields *fields)
{
    const char *layer = rs_fields_text(fields, "ssm_cfg.layer");
    if (!json_is_object(rs_fields_key(fields, "ssm_cfg"))) return NULL;
    return layer && strcmp(layer, "Mamba2") == 0 ? "mamba2" : "mamba";
}

rs_status rs_family_choose(rs_builder *b, const char **type)
{
    const rs_checkpoint *checkpoint = b->checkpoint;
    rs_fields *fields = &b->fields;
    bool gguf = checkpoint->format == RS_FORMAT_GGUF;
    *type = json_string_value(
        json_object_get(checkpoint->config, gguf ? "general.architecture" : "model_type"));
    if (gguf) {
        if (!*type)
            return rs_fail(b->err, RS_E_CONFIG_SCHEMA, fields->path, NULL,
                           "has no general.architecture");
        fields->prefix = rs_arena_printf(b->model->arena, "%s.", *type);
        if (!fields->prefix) return rs_fail_memory(b->err, "model", 0);
    }
    if (!*type) *type = type_without_name(fields);
    b->family = rs_family_find(checkpoint, fields, *type);
    if (!b->family && fields->object != fields->root) {
        const char *inner = json_string_value(json_object_get(fields->object, "model_type"));
        b->family = rs_family_find(checkpoint, fields, inner);
        if (b->family) *type = inner;
    }
    if (b->family && b->family->refusal)
        return rs_fail(b->err, RS_E_UNSUPPORTED, fields->path, NULL, "family %s cannot be read: %s",
                       b->family->name, b->family->refusal);
    return RS_OK;
}

/* Points the fields at the family's spellings. */
static rs_status read_as_family(rs_builder *b)
{
    b->fields.dialect = b->family->dialect;
    b->fields.defaults = b->family->defaults;
    if (b->family->facts & RS_FACT_SHARED_LAYERS)
        return rs_fields_need(&b->fields, RS_FIELD_INNER_GROUP, -1, &b->inner_group, b->err);
    return RS_OK;
}

rs_status rs_family_match(rs_builder *b)
{
    RS_TRY(read_as_family(b));
    return rs_match_all(b);
}

static rs_status find_family(rs_builder *b)
{
    const char *type;
    RS_TRY(rs_family_choose(b, &type));
    return b->family ? rs_family_match(b) : rs_guess(b, type);
}

/* A single file named like "model-00002-of-00005.safetensors": the rest is elsewhere. */
static bool is_lone_shard(const rs_checkpoint *checkpoint)
{
    if (checkpoint->n_files != 1 || !checkpoint->files[0].name) return false;
    const char *of = strstr(checkpoint->files[0].name, "-of-");
    unsigned all;
    return of && sscanf(of, "-of-%5u", &all) == 1 && all > 1;
}

static rs_status no_product(rs_builder *b)
{
    rs_buffer names = {0};
    size_t n = rs_tensors_list(b, false, &names);
    rs_status status =
        names.failed ? rs_fail_memory(b->err, "model", 0)
                     : rs_fail(b->err, RS_E_NO_PRODUCT, b->checkpoint->path,
                               "name its attention tensors with --map FILE.json (docs/map.md)",
                               "no head product can be formed of its %zu tensors (family %s): %s",
                               n, b->model->family, names.data ? names.data : "");
    rs_buffer_free(&names);
    return status;
}

/* The model of tensors that are matched and cut into blocks. */
static rs_status build_matched(rs_builder *b)
{
    b->model->family = b->family->name;
    RS_TRY(rs_layers_build(b));
    if (b->partial)
        RS_TRY(rs_notes_say(&b->model->notes, b->err, RS_WARN, "partial_checkpoint",
                            "open the directory to scan the whole model",
                            "%s is one of several files; only the layers in it were read",
                            b->checkpoint->files[0].name));
    return rs_rope_note(b);
}

static rs_status build_from_config(rs_builder *b)
{
    const rs_checkpoint *checkpoint = b->checkpoint;
    if (!checkpoint->config)
        return rs_fail(
            b->err, RS_E_CONFIG_MISSING, checkpoint->path,
            "put its config.json beside it, or name the tensors with --map FILE.json",
            "there is no config.json, and tensor shapes do not tell the number of heads");
    rs_fields_open(&b->fields, checkpoint);
    b->partial = is_lone_shard(checkpoint);
    RS_TRY(find_family(b));
    RS_TRY(rs_blocks_make(b));
    return build_matched(b);
}

rs_status rs_builder_describe(rs_builder *b)
{
    if (!b->model->n_products) return no_product(b);
    return rs_tensors_describe(b);
}

static rs_status build_model(rs_builder *b, const json_t *map, const char *map_path)
{
    RS_TRY(rs_builder_roles(b));
    if (map) {
        rs_fields_open(&b->fields, b->checkpoint);
        RS_TRY(rs_map_read(b, map, map_path ? map_path : "--map"));
        RS_TRY(rs_blocks_make(b));
        RS_TRY(rs_map_build(b));
    } else {
        RS_TRY(build_from_config(b));
    }
    return rs_builder_describe(b);
}

rs_status rs_builder_open(rs_builder **out, const rs_checkpoint *checkpoint, rs_error *err)
{
    *out = NULL;
    rs_builder *b = rs_calloc(1, sizeof *b);
    rs_model *model = rs_calloc(1, sizeof *model);
    rs_arena *arena = rs_arena_new();
    if (!b || !model || !arena) {
        rs_arena_free(arena);
        rs_free(model);
        rs_free(b);
        return rs_fail_memory(err, "model", 0);
    }
    model->arena = arena;
    model->checkpoint = checkpoint;
    b->model = model;
    b->checkpoint = checkpoint;
    b->err = err ? err : &b->unheard;
    *out = b;
    return RS_OK;
}

rs_status rs_builder_roles(rs_builder *b)
{
    rs_model *model = b->model;
    size_t n = b->checkpoint->n_tensors;
    model->roles = rs_arena_alloc(model->arena, n, sizeof *model->roles);
    if (!model->roles || n > UINT32_MAX) return rs_fail_memory(b->err, "model", 0);
    for (size_t t = 0; t < n; t++)
        model->roles[t].layer = -1;
    return RS_OK;
}

rs_model *rs_builder_close(rs_builder *b)
{
    rs_model *model = b->model;
    rs_buffer_free(&b->missing);
    rs_buffer_free(&b->odd_layers);
    rs_free(b->matches);
    rs_free(b->blocks);
    rs_free(b);
    return model;
}

rs_status rs_model_open(rs_model **out, const rs_checkpoint *checkpoint, const json_t *map,
                        const char *map_path, rs_error *err)
{
    *out = NULL;
    rs_builder *b;
    RS_TRY(rs_builder_open(&b, checkpoint, err));
    rs_status status = build_model(b, map, map_path);
    rs_model *model = rs_builder_close(b);
    if (status != RS_OK) {
        rs_model_close(model);
        return status;
    }
    *out = model;
    return RS_OK;
}

/* *same: the configuration itself names the family that was matched; a network's, with what it
 * leaves to defaults, may name another. */
static rs_status model_of_matches(rs_builder *b, bool *same)
{
    const rs_family *matched = b->family;
    const char *type;
    rs_fields_open(&b->fields, b->checkpoint);
    b->partial = is_lone_shard(b->checkpoint);
    RS_TRY(rs_family_choose(b, &type));
    *same = b->family == matched;
    if (!*same) return RS_OK;
    RS_TRY(read_as_family(b));
    RS_TRY(build_matched(b));
    return rs_builder_describe(b);
}

rs_status rs_builder_model(rs_model **out, rs_builder *b, rs_error *err)
{
    const rs_checkpoint *checkpoint = b->checkpoint;
    bool same = true;
    rs_status status = model_of_matches(b, &same);
    rs_model *model = rs_builder_close(b);
    *out = status == RS_OK && same ? model : NULL;
    if (!*out) rs_model_close(model);
    return same ? status : rs_model_open(out, checkpoint, NULL, NULL, err);
}

void rs_model_close(rs_model *model)
{
    if (!model) return;
    rs_notes_free(&model->notes);
    rs_free(model->products);
    rs_free(model->rests);
    rs_arena_free(model->arena);
    rs_free(model);
}
