/* map.c: --map FILE.json, where a user names the tensors of a model nobody foresaw (docs/map.md).
 */
#include "recognise/builder.h"

#include <string.h>

enum { MOST_ENTRIES = 64 };

static const struct {
    const char *key;
    rs_role role; /* a pattern for this role; 0: something else */
} keys[] = {{"q", RS_ROLE_Q},  {"k", RS_ROLE_K},     {"v", RS_ROLE_V},
            {"o", RS_ROLE_O},  {"qkv", RS_ROLE_QKV}, {"norm", RS_ROLE_NORM_MIXER},
            {"qkv_layout", 0}, {"layout", 0},        {"layers", 0},
            {"heads", 0},      {"kv_heads", 0},      {"head_dim", 0},
            {"norm_kind", 0},  {"rope", 0},          {"rope_dims", 0},
            {"stack", 0},      {"attention", 0}};
enum { N_KEYS = sizeof keys / sizeof *keys };

typedef struct word {
    const char *text;
    int value;
} word;
static const word qkv_layouts[] = {{"rows q|k|v", RS_P_ROWS},
                                   {"columns q|k|v", RS_P_ROWS | RS_P_CONV1D},
                                   {"interleaved", RS_P_INTERLEAVED},
                                   {"grouped", RS_P_GROUPED},
                                   {NULL, 0}};
static const word layouts[] = {{"linear", 0}, {"conv1d", 1}, {NULL, 0}};
static const word norm_kinds[] = {{"layernorm", RS_NORM_LAYERNORM},
                                  {"rmsnorm", RS_NORM_RMSNORM},
                                  {"layernorm+1", RS_NORM_LAYERNORM_PLUS_ONE},
                                  {"rmsnorm+1", RS_NORM_RMSNORM_PLUS_ONE},
                                  {NULL, 0}};
static const word ropes[] = {{"none", RS_ROPE_NONE},
                             {"half", RS_ROPE_HALF_SPLIT},
                             {"interleaved", RS_ROPE_INTERLEAVED},
                             {NULL, 0}};
static const word stacks[] = {{"encoder", 1}, {"decoder", 2}, {NULL, 0}};
static const word attentions[] = {{"self", 1}, {"cross", 2}, {NULL, 0}};

static rs_status bad_map(rs_builder *b, const char *where, const char *hint, const char *what,
                         const char *name)
{
    return rs_fail(b->err, RS_E_MAP_SCHEMA, where, hint, "%s \"%.100s\"", what, name);
}

static rs_status read_word(rs_builder *b, const rs_map_entry *entry, const json_t *object,
                           const char *key, const word *words, int *value, bool *given)
{
    const json_t *json = json_object_get(object, key);
    *given = json != NULL;
    if (!json) return RS_OK;
    char hint[256] = "one of:";
    for (const word *w = words; w->text; w++) {
        if (json_is_string(json) && strcmp(json_string_value(json), w->text) == 0) {
            *value = w->value;
            return RS_OK;
        }
        size_t used = strlen(hint);
        snprintf(hint + used, sizeof hint - used, " \"%s\"", w->text);
    }
    char what[64];
    snprintf(what, sizeof what, "unknown %s", key);
    return bad_map(b, entry->where, hint, what,
                   json_is_string(json) ? json_string_value(json) : "(no text)");
}

static rs_status read_size(rs_builder *b, const rs_map_entry *entry, const json_t *object,
                           const char *key, int64_t *value)
{
    const json_t *json = json_object_get(object, key);
    if (!json) return RS_OK;
    rs_status status = rs_json_size(json, entry->where, key, value, b->err);
    if (status == RS_E_CONFIG_SIZE && b->err) b->err->status = RS_E_MAP_SCHEMA;
    return status == RS_E_CONFIG_SIZE ? RS_E_MAP_SCHEMA : status;
}

static rs_status check_keys(rs_builder *b, const rs_map_entry *entry, const json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        const char *nearest = keys[0].key;
        bool known = false;
        for (size_t i = 0; i < N_KEYS && !known; i++) {
            known = strcmp(name, keys[i].key) == 0;
            if (rs_edit_distance(name, keys[i].key) < rs_edit_distance(name, nearest))
                nearest = keys[i].key;
        }
        if (known) continue;
        char hint[128];
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", nearest);
        return bad_map(b, entry->where, hint, "unknown key", name);
    }
    return RS_OK;
}

static rs_status check_pattern(rs_builder *b, const rs_map_entry *entry, const json_t *object,
                               const char *key)
{
    const json_t *json = json_object_get(object, key);
    if (!json) return RS_OK;
    const char *text = json_string_value(json), *mark = text ? strstr(text, "{i}") : NULL;
    if (mark && !strstr(mark + 1, "{i}")) return RS_OK;
    return bad_map(b, entry->where, "write it like \"blocks.{i}.attn.wq.weight\"",
                   "the layer number must stand once as {i} in", text ? text : key);
}

static rs_status check_patterns(rs_builder *b, const rs_map_entry *entry, const json_t *object)
{
    bool fused = json_object_get(object, "qkv") != NULL, separate = false;
    for (size_t i = 0; i < N_KEYS; i++) {
        if (!keys[i].role) continue;
        RS_TRY(check_pattern(b, entry, object, keys[i].key));
        separate = separate || (i < 3 && json_object_get(object, keys[i].key));
    }
    bool qk = json_object_get(object, "q") && json_object_get(object, "k");
    bool ov = json_object_get(object, "v") && json_object_get(object, "o");
    if (fused && separate) return bad_map(b, entry->where, NULL, "give either q, k, v or", "qkv");
    if (!fused && !qk && !ov)
        return bad_map(b, entry->where, "give q and k, v and o, all four, or qkv and o",
                       "no product can be formed of", "this entry");
    if (fused && !json_object_get(object, "qkv_layout"))
        return bad_map(b, entry->where,
                       "one of: \"rows q|k|v\" \"columns q|k|v\" \"interleaved\" \"grouped\"",
                       "qkv cannot be split without", "qkv_layout");
    return RS_OK;
}

static rs_status read_entry(rs_builder *b, rs_map_entry *entry, const json_t *object)
{
    rs_attention *at = &entry->attention;
    int value = 0;
    bool given;
    if (!json_is_object(object)) return bad_map(b, entry->where, NULL, "must be an", "object");
    RS_TRY(check_keys(b, entry, object));
    RS_TRY(check_patterns(b, entry, object));
    entry->layers = -1;
    RS_TRY(read_size(b, entry, object, "layers", &entry->layers));
    RS_TRY(read_size(b, entry, object, "heads", &at->heads));
    RS_TRY(read_size(b, entry, object, "kv_heads", &at->kv_heads));
    RS_TRY(read_size(b, entry, object, "head_dim", &at->head_dim));
    if (at->heads < 1 || at->heads > 65536)
        return bad_map(b, entry->where, "give the number of query heads, 1 to 65536",
                       "missing or too large:", "heads");
    RS_TRY(read_word(b, entry, object, "qkv_layout", qkv_layouts, &value, &given));
    if (given) entry->qkv_flags = (unsigned)value;
    RS_TRY(read_word(b, entry, object, "layout", layouts, &value, &given));
    entry->conv1d = given ? value != 0 : (entry->qkv_flags & RS_P_CONV1D) != 0;
    if (entry->conv1d && entry->qkv_flags) entry->qkv_flags |= RS_P_CONV1D;
    RS_TRY(read_word(b, entry, object, "norm_kind", norm_kinds, &value, &given));
    if (given) at->norm = at->kv_norm = (rs_norm_kind)value;
    entry->wants_norm = json_object_get(object, "norm") != NULL;
    if (entry->wants_norm && !given)
        return bad_map(b, entry->where, "one of: \"layernorm\" \"rmsnorm\" \"rmsnorm+1\"",
                       "norm needs", "norm_kind");
    RS_TRY(read_word(b, entry, object, "rope", ropes, &value, &given));
    if (given) at->rope = (rs_rope_kind)value;
    int64_t dims = 0;
    RS_TRY(read_size(b, entry, object, "rope_dims", &dims));
    at->rope_dims = (int32_t)dims;
    RS_TRY(read_word(b, entry, object, "stack", stacks, &value, &given));
    if (given) at->stack = value == 1 ? "encoder" : "decoder";
    RS_TRY(read_word(b, entry, object, "attention", attentions, &value, &given));
    at->attention = given && value == 2 ? "cross" : "self";
    return RS_OK;
}

/* The layer number that makes `pattern` the tensor's name, or -1. */
static int32_t layer_of(const char *pattern, const char *name)
{
    const char *mark = strstr(pattern, "{i}");
    size_t n = (size_t)(mark - pattern), digits;
    if (strncmp(name, pattern, n) != 0) return -1;
    name += n;
    digits = strspn(name, "0123456789");
    if (digits < 1 || digits > 9 || (digits > 1 && *name == '0')) return -1;
    int32_t layer = 0;
    for (size_t i = 0; i < digits; i++)
        layer = layer * 10 + (name[i] - '0');
    return strcmp(name + digits, mark + 3) == 0 ? layer : -1;
}

static rs_status match_tensor(rs_builder *b, size_t e, const json_t *object, uint32_t t)
{
    const rs_map_entry *entry = &b->map[e];
    for (size_t i = 0; i < N_KEYS; i++) {
        const char *pattern =
            keys[i].role ? json_string_value(json_object_get(object, keys[i].key)) : NULL;
        int32_t layer = pattern ? layer_of(pattern, b->checkpoint->tensors[t].name) : -1;
        if (layer < 0 || (entry->layers >= 0 && layer >= entry->layers)) continue;
        unsigned flags = keys[i].role == RS_ROLE_QKV ? entry->qkv_flags
                         : entry->conv1d             ? RS_P_CONV1D
                                                     : 0;
        rs_match match = {.tensor = t,
                          .layer = layer,
                          .slot = (uint16_t)(RS_SLOT_MAP + e),
                          .order = (uint8_t)e,
                          .role = (uint8_t)keys[i].role,
                          .part = RS_PART_WEIGHT,
                          .flags = (uint16_t)flags};
        b->model->roles[t].role = keys[i].role;
        b->model->roles[t].layer = layer;
        b->model->roles[t].stack = entry->attention.stack;
        RS_TRY(rs_match_add(b, &match));
    }
    return RS_OK;
}

rs_status rs_map_read(rs_builder *b, const json_t *map, const char *map_path)
{
    size_t n = json_is_array(map) ? json_array_size(map) : 1;
    rs_arena *arena = b->model->arena;
    if (n < 1 || n > MOST_ENTRIES)
        return bad_map(b, map_path, "give an object, or a list of 1 to 64 of them",
                       "wrong number of entries in", map_path);
    b->map = rs_arena_alloc(arena, n, sizeof *b->map);
    if (!b->map) return rs_fail_memory(b->err, "map", 0);
    b->n_map = n;
    for (size_t e = 0; e < n; e++) {
        const json_t *object = json_is_array(map) ? json_array_get(map, e) : map;
        b->map[e].where = rs_arena_printf(arena, "%s: entry %zu", map_path, e);
        if (!b->map[e].where) return rs_fail_memory(b->err, "map", 0);
        RS_TRY(read_entry(b, &b->map[e], object));
        for (size_t t = 0; t < b->checkpoint->n_tensors; t++)
            RS_TRY(match_tensor(b, e, object, (uint32_t)t));
        for (size_t i = 0; i < N_KEYS; i++)
            if (keys[i].role && json_object_get(object, keys[i].key))
                b->map[e].given |= UINT64_C(1) << keys[i].role;
    }
    b->model->guessed = true;
    b->model->family = "custom (--map)";
    return RS_OK;
}

/* ---- sizes out of shapes ---- */

/* The two sides of a projection: its units and the width it reads or writes. */
static rs_status sides(rs_builder *b, const rs_block *block, rs_role role, int64_t *units,
                       int64_t *width, bool *found)
{
    const rs_match *match = rs_block_find(block, role, RS_PART_WEIGHT);
    *found = match != NULL;
    if (!match) return RS_OK;
    const rs_tensor *tensor = &b->checkpoint->tensors[match->tensor];
    if (tensor->rank != 2 || tensor->shape[0] < 1 || tensor->shape[1] < 1 ||
        tensor->count > (int64_t)1 << 46)
        return rs_fail(b->err, RS_E_TENSOR_SHAPE, tensor->name,
                       "--map reads matrices with two dimensions",
                       "has %u dimensions, or one of size 0", (unsigned)tensor->rank);
    bool units_first = !(match->flags & RS_P_CONV1D) != (role == RS_ROLE_O);
    *units = tensor->shape[units_first ? 0 : 1];
    *width = tensor->shape[units_first ? 1 : 0];
    return RS_OK;
}

static rs_status divide(rs_builder *b, const rs_map_entry *entry, int64_t units, int64_t parts,
                        const char *what, int64_t *quotient)
{
    if (parts > 0 && units % parts == 0 && units / parts > 0) {
        *quotient = units / parts;
        return RS_OK;
    }
    return rs_fail(b->err, RS_E_CONFIG_HEADS, entry->where,
                   "correct heads, kv_heads or head_dim in the map",
                   "%lld units of %s cannot be cut into %lld equal parts", (long long)units, what,
                   (long long)parts);
}

static rs_status entry_sizes(rs_builder *b, const rs_map_entry *entry, const rs_block *block,
                             rs_attention *at)
{
    int64_t units = 0, width = 0;
    bool found;
    *at = entry->attention;
    bool cross = strcmp(at->attention, "cross") == 0; /* k and v may read another width */
    if (!at->kv_heads && entry->qkv_flags) at->kv_heads = at->heads;
    RS_TRY(sides(b, block, RS_ROLE_QKV, &units, &width, &found));
    if (found) {
        at->width = at->kv_width = at->out_width = width;
        if (!at->head_dim)
            RS_TRY(divide(b, entry, units, at->heads + 2 * at->kv_heads, "qkv", &at->head_dim));
    }
    RS_TRY(sides(b, block, RS_ROLE_Q, &units, &width, &found));
    if (found) {
        at->width = at->kv_width = at->out_width = width;
        if (!at->head_dim) RS_TRY(divide(b, entry, units, at->heads, "q", &at->head_dim));
    }
    RS_TRY(sides(b, block, RS_ROLE_O, &units, &width, &found));
    if (found) {
        at->out_width = width;
        if (!at->width) at->width = at->kv_width = width;
        RS_TRY(divide(b, entry, units, at->heads, "o", &at->value_dim));
        if (!at->head_dim) at->head_dim = at->value_dim;
    }
    if (!at->value_dim) at->value_dim = at->head_dim;
    RS_TRY(sides(b, block, RS_ROLE_K, &units, &width, &found));
    if (found && cross) at->kv_width = width;
    if (found && !at->kv_heads) RS_TRY(divide(b, entry, units, at->head_dim, "k", &at->kv_heads));
    RS_TRY(sides(b, block, RS_ROLE_V, &units, &width, &found));
    if (found && cross) at->kv_width = width;
    if (found && !at->kv_heads) RS_TRY(divide(b, entry, units, at->value_dim, "v", &at->kv_heads));
    return divide(b, entry, at->heads, at->kv_heads, "heads", &units);
}

static rs_status finish_entry(rs_builder *b, const rs_map_entry *entry, const rs_block *block,
                              rs_attention *at)
{
    if (at->head_dim > INT32_MAX || at->rope_dims > at->head_dim)
        return bad_map(b, entry->where, NULL, "larger than the head:", "rope_dims");
    if (at->rope != RS_ROPE_NONE && !at->rope_dims) at->rope_dims = (int32_t)at->head_dim;
    if (at->rope == RS_ROPE_NONE) at->rope_dims = 0;
    at->gain = rs_block_tensor(b, block, RS_ROLE_NORM_MIXER, RS_PART_WEIGHT);
    if (strcmp(at->attention, "cross") == 0)
        at->kv_norm = RS_NORM_NONE;
    else
        at->kv_gain = at->gain;
    at->scale =
        rs_arena_printf(b->model->arena, "scale 1/sqrt(%lld) left out", (long long)at->head_dim);
    return at->scale ? RS_OK : rs_fail_memory(b->err, "map", 0);
}

/* Every pattern that was given must name a tensor in every layer. */
static rs_status complete(rs_builder *b, const rs_map_entry *entry, const rs_block *block)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        if (!keys[i].role || !(entry->given >> keys[i].role & 1)) continue;
        if (rs_block_find(block, keys[i].role, RS_PART_WEIGHT)) continue;
        return rs_fail(b->err, RS_E_TENSOR_MISSING, entry->where,
                       "check the pattern against the names in the checkpoint",
                       "layer %d has no tensor for \"%s\"", (int)block->layer, keys[i].key);
    }
    return RS_OK;
}

static rs_status build_one(rs_builder *b, const rs_block *block, int32_t *layers)
{
    const rs_map_entry *entry = &b->map[block->slot - RS_SLOT_MAP];
    rs_model *model = b->model;
    rs_attention at;
    RS_TRY(complete(b, entry, block));
    RS_TRY(entry_sizes(b, entry, block, &at));
    RS_TRY(finish_entry(b, entry, block, &at));
    RS_TRY(rs_attention_build(b, block, &at));
    if (strcmp(at.attention, "cross") != 0) ++*layers;
    if (model->heads) return RS_OK;
    model->heads = (int32_t)at.heads;
    model->kv_heads = (int32_t)at.kv_heads;
    model->d_head = at.head_dim;
    model->d_model = at.width;
    return RS_OK;
}

rs_status rs_map_build(rs_builder *b)
{
    int32_t layers = 0;
    for (size_t i = 0; i < b->n_blocks; i++)
        RS_TRY(build_one(b, &b->blocks[i], &layers));
    for (size_t e = 0; e < b->n_map; e++) {
        int64_t found = 0;
        for (size_t i = 0; i < b->n_blocks; i++)
            found += b->blocks[i].slot == RS_SLOT_MAP + e;
        if (found && (b->map[e].layers < 0 || found == b->map[e].layers)) continue;
        return rs_fail(b->err, RS_E_TENSOR_MISSING, b->map[e].where,
                       "check the patterns against the names in the checkpoint",
                       "its patterns name tensors in %lld layers; %lld are asked for",
                       (long long)found, (long long)(b->map[e].layers < 0 ? 1 : b->map[e].layers));
    }
    b->model->layers = b->model->depth = layers;
    return rs_notes_say(&b->model->notes, b->err, RS_INFO, "custom_map", NULL,
                        "tensors were named by %s", b->map[0].where);
}
