/* turning.c: which layers rotate queries and keys, and which have windows, where a configuration
 * says it layer by layer. */
#include "recognise/builder.h"

#include <string.h>

/* "LLLG": local and global layers in turn, the last one of a model always global. */
static bool lettered(const rs_builder *b, const char *letters, int32_t layer)
{
    int64_t layers = 0;
    bool found;
    size_t n = strlen(letters);
    rs_status status =
        rs_fields_find(&b->fields, RS_FIELD_LAYERS, -1, &layers, &found, &(rs_error){0});
    if (status != RS_OK || !n || layer == layers - 1) return false;
    return letters[(size_t)layer % n] == 'L';
}

bool rs_layer_windowed(const rs_builder *b, int32_t layer)
{
    const rs_fields *f = &b->fields;
    const json_t *types = rs_fields_key(f, "layer_types");
    if (json_is_array(types)) {
        const char *type = json_string_value(json_array_get(types, (size_t)layer));
        return type && strcmp(type, "sliding_attention") == 0;
    }
    const json_t *pattern = rs_fields_key(f, "sliding_window_pattern");
    if (json_is_string(pattern)) return lettered(b, json_string_value(pattern), layer);
    json_int_t period = json_is_integer(pattern) ? json_integer_value(pattern)
                                                 : (json_int_t)b->family->window_period;
    return period > 0 && (layer + 1) % period != 0;
}

/* 1 where the layer rotates; a list that is absent or empty leaves out each n-th. */
static bool listed(const rs_builder *b, int32_t layer)
{
    const rs_fields *f = &b->fields;
    const json_t *list = rs_fields_key(f, "no_rope_layers");
    if (json_array_size(list)) return json_integer_value(json_array_get(list, (size_t)layer)) != 0;
    const json_t *interval = rs_fields_key(f, "no_rope_layer_interval");
    json_int_t n = json_is_integer(interval) ? json_integer_value(interval) : 4;
    return n < 1 || (layer + 1) % n != 0;
}

static bool windowed_or_without_windows(const rs_builder *b, int32_t layer)
{
    bool without = json_is_null(json_object_get(b->fields.object, "sliding_window"));
    return without || rs_layer_windowed(b, layer);
}

bool rs_layer_turns(const rs_builder *b, int32_t layer)
{
    static bool (*const rules[])(const rs_builder *,
                                 int32_t) = {[RS_TURN_LISTED] = listed,
                                             [RS_TURN_WINDOWS] = rs_layer_windowed,
                                             [RS_TURN_ANY_WINDOWS] = windowed_or_without_windows};
    return b->family->turning == RS_TURN_ALL || rules[b->family->turning](b, layer);
}
