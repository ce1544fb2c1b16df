/* match.c: tensor names to roles. A name costs a few hash lookups, so that a million of them are
 * read in a second. */
#include "recognise/builder.h"

#include <stdlib.h>
#include <string.h>

/* Endings of a module's tensors. */
static const struct {
    const char *text;
    rs_part part;
} suffixes[] = {
    {".weight", RS_PART_WEIGHT},
    {".bias", RS_PART_BIAS},
    {".gamma", RS_PART_WEIGHT}, /* LayerNorm in old TensorFlow-born files */
    {".beta", RS_PART_BIAS},
    {".weight_scale_inv", RS_PART_SCALE},
    {".weight_scale", RS_PART_SCALE},
    {".qweight", RS_PART_PACKED},
    {".weight_packed", RS_PART_PACKED},
    {".qzeros", RS_PART_BUFFER},
    {".scales", RS_PART_BUFFER},
    {".g_idx", RS_PART_BUFFER},
    {".weight_zero_point", RS_PART_BUFFER},
    {".weight_shape", RS_PART_BUFFER},
    {".weight_g_idx", RS_PART_BUFFER},
    {".input_scale", RS_PART_BUFFER},
    {".SCB", RS_PART_BUFFER},
    {".weight_format", RS_PART_BUFFER},
    {".weight.absmax", RS_PART_BUFFER},
    {".weight.nested_absmax", RS_PART_BUFFER},
    {".weight.quant_map", RS_PART_BUFFER},
    {".weight.nested_quant_map", RS_PART_BUFFER},
    {".weight.quant_state.bitsandbytes__nf4", RS_PART_BUFFER},
    {".weight.quant_state.bitsandbytes__fp4", RS_PART_BUFFER},
};

enum { LONGEST = 256 };

rs_status rs_lookup_open(rs_lookup *index, const rs_family *family, rs_error *err)
{
    *index = (rs_lookup){.family = family};
    for (size_t l = 0; l < 5 && family->patterns[l]; l++)
        for (const rs_module_pattern *row = family->patterns[l]; row->module; row++) {
            bool existed;
            if (index->n_rows == sizeof index->rows / sizeof *index->rows) return RS_OK;
            index->rows[index->n_rows] = row;
            if (!rs_strmap_insert(&index->map, row->module, strlen(row->module),
                                  (int64_t)index->n_rows++, &existed))
                return rs_fail_memory(err, "model", 0);
        }
    return RS_OK;
}

void rs_lookup_close(rs_lookup *index)
{
    rs_strmap_free(&index->map);
}

/* Writes '#' for each component that is a plain number below 2^31. */
static size_t normalise_name(char *out, const char *name, int64_t numbers[4], size_t *n_numbers)
{
    size_t length = 0;
    *n_numbers = 0;
    for (const char *c = name; *c && length < LONGEST - 1;) {
        size_t n = strcspn(c, ".");
        int64_t value = 0;
        bool number = n > 0 && n <= 9 && (c[0] != '0' || n == 1);
        for (size_t i = 0; number && i < n; i++) {
            number = c[i] >= '0' && c[i] <= '9';
            value = value * 10 + (c[i] - '0');
        }
        if (number && *n_numbers < 4) {
            numbers[(*n_numbers)++] = value;
            out[length++] = '#';
        } else {
            size_t room = LONGEST - 1 - length, take = n < room ? n : room;
            memcpy(out + length, c, take);
            length += take;
        }
        c += n;
        if (*c == '.') {
            if (length < LONGEST - 1) out[length++] = '.';
            c++;
        }
    }
    out[length] = 0;
    return length;
}

static const rs_module_pattern *lookup(const rs_lookup *index, const char *name, size_t length)
{
    int64_t row = rs_strmap_get(&index->map, name, length, -1);
    return row < 0 ? NULL : index->rows[row];
}

static bool ends_with(const char *text, size_t length, const char *ending)
{
    size_t n = strlen(ending);
    return length > n && memcmp(text + length - n, ending, n) == 0;
}

const rs_module_pattern *rs_lookup_find(const rs_lookup *index, const char *name,
                                        int64_t numbers[4], size_t *n_numbers, rs_part *part)
{
    char text[LONGEST];
    size_t length = normalise_name(text, name, numbers, n_numbers);
    *part = RS_PART_WEIGHT;
    const rs_module_pattern *row = lookup(index, text, length);
    if (row) return row;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (!ends_with(text, length, suffixes[i].text)) continue;
        row = lookup(index, text, length - strlen(suffixes[i].text));
        if (!row) continue;
        *part = suffixes[i].part;
        return row;
    }
    for (size_t i = 0; i < index->n_rows; i++) {
        size_t n = strlen(index->rows[i]->module);
        if (index->rows[i]->module[n - 1] != '*' || length < n - 1) continue;
        if (memcmp(index->rows[i]->module, text, n - 1) == 0) {
            for (size_t s = 0; s < sizeof suffixes / sizeof *suffixes; s++)
                if (ends_with(text, length, suffixes[s].text)) *part = suffixes[s].part;
            return index->rows[i];
        }
    }
    return NULL;
}

const char *rs_stack_name(const rs_family *family, unsigned slot)
{
    static const char *const usual[RS_SLOT_MAP] = {NULL, "encoder", "decoder", "decoder"};
    if (slot >= RS_SLOT_MAP) return NULL;
    return family->towers[slot].name ? family->towers[slot].name : usual[slot];
}

rs_status rs_match_add(rs_builder *b, const rs_match *match)
{
    if (!RS_GROW(b->matches, b->n_matches, b->matches_capacity))
        return rs_fail_memory(b->err, "model", 0);
    b->matches[b->n_matches++] = *match;
    return RS_OK;
}

/* The row for a full name: as it stands, then behind each optional prefix. */
static const rs_module_pattern *find_pattern(const rs_lookup *index, const char *name,
                                             int64_t numbers[4], size_t *n_numbers, rs_part *part,
                                             const char **before)
{
    const rs_module_pattern *row = rs_lookup_find(index, name, numbers, n_numbers, part);
    *before = "";
    for (const char *const *prefix = index->family->prefixes; !row && prefix && *prefix; prefix++) {
        size_t n = strlen(*prefix);
        *before = *prefix;
        if (strncmp(name, *prefix, n) == 0)
            row = rs_lookup_find(index, name + n, numbers, n_numbers, part);
    }
    return row;
}

static rs_status match_one(rs_builder *b, const rs_lookup *index, uint32_t t)
{
    const rs_tensor *tensor = &b->checkpoint->tensors[t];
    int64_t numbers[4];
    size_t n_numbers;
    rs_part part;
    const char *prefix;
    const rs_module_pattern *row =
        find_pattern(index, tensor->name, numbers, &n_numbers, &part, &prefix);
    if (!row) return RS_OK;
    if (strchr(row->module, '#') && !b->prefix) b->prefix = prefix;
    if (row->flags & RS_P_MLA)
        return rs_fail(b->err, RS_E_UNSUPPORTED, tensor->name,
                       "rankscope reads no multi-head latent attention",
                       "latent attention (q_a_proj, q_b_proj, kv_a_proj_with_mqa, kv_b_proj) keeps "
                       "q and k as products of factors with norms between them");
    int64_t layer = -1;
    if (strchr(row->module, '#') && n_numbers)
        layer = row->flags & RS_P_NESTED && n_numbers > 1 ? numbers[0] * b->inner_group + numbers[1]
                                                          : numbers[0];
    if (layer > INT32_MAX) return RS_OK;
    rs_role role = part == RS_PART_BIAS ? rs_role_bias(row->role) : row->role;
    if (part == RS_PART_SCALE || part == RS_PART_BUFFER) role = RS_ROLE_QUANT_SCALE;
    rs_match match = {.tensor = t,
                      .layer = (int32_t)layer,
                      .slot = (uint16_t)row->slot,
                      .order = row->slot >= RS_SLOT_DECODER,
                      .role = (uint8_t)row->role,
                      .part = (uint8_t)part,
                      .flags = (uint16_t)row->flags};
    b->model->roles[t].role = role;
    b->model->roles[t].layer = (int32_t)layer;
    b->model->roles[t].stack = rs_stack_name(b->family, row->slot);
    if (part == RS_PART_WEIGHT || part == RS_PART_PACKED) b->seen[row->slot][row->role] = true;
    return rs_match_add(b, &match);
}

rs_status rs_match_all(rs_builder *b)
{
    rs_lookup index;
    rs_status status = rs_lookup_open(&index, b->family, b->err);
    for (size_t t = 0; status == RS_OK && t < b->checkpoint->n_tensors; t++)
        status = match_one(b, &index, (uint32_t)t);
    rs_lookup_close(&index);
    return status;
}

static int compare_names(const void *left, const void *right)
{
    const rs_match *a = left, *b = right;
#define BY(member)                                                                                 \
    if (a->member != b->member) return a->member < b->member ? -1 : 1
    BY(order);
    BY(layer);
    BY(slot);
    BY(role);
    BY(part);
    BY(tensor);
#undef BY
    return 0;
}

rs_status rs_blocks_make(rs_builder *b)
{
    if (b->n_matches) qsort(b->matches, b->n_matches, sizeof *b->matches, compare_names);
    for (size_t i = 0; i < b->n_matches; i++) {
        const rs_match *match = &b->matches[i];
        rs_block *last = b->n_blocks ? &b->blocks[b->n_blocks - 1] : NULL;
        if (last && last->layer == match->layer && last->slot == match->slot) {
            last->n++;
            continue;
        }
        if (!RS_GROW(b->blocks, b->n_blocks, b->blocks_capacity))
            return rs_fail_memory(b->err, "model", 0);
        b->blocks[b->n_blocks++] =
            (rs_block){.matches = match, .n = 1, .layer = match->layer, .slot = match->slot};
    }
    return RS_OK;
}

const rs_match *rs_block_find(const rs_block *block, rs_role role, rs_part part)
{
    for (size_t i = 0; i < block->n; i++)
        if (block->matches[i].role == role && block->matches[i].part == part)
            return &block->matches[i];
    return NULL;
}

const rs_tensor *rs_block_tensor(const rs_builder *b, const rs_block *block, rs_role role,
                                 rs_part part)
{
    const rs_match *match = rs_block_find(block, role, part);
    return match ? &b->checkpoint->tensors[match->tensor] : NULL;
}

const rs_tensor *rs_top_tensor(const rs_builder *b, rs_slot slot, rs_role role, rs_part part)
{
    for (size_t i = 0; i < b->n_blocks && b->blocks[i].layer == -1; i++) /* they come first */
        if (b->blocks[i].slot == slot) return rs_block_tensor(b, &b->blocks[i], role, part);
    return NULL;
}
