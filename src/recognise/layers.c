/* layers.c: which layers there should be, which there are, and the products of each. */
#include "recognise/builder.h"

#include <string.h>

enum { MOST_LAYERS = 100000, MOST_LISTED = 4096 };
enum {
    ATTENTION = RS_LAYER_ATTENTION,
    SSM = RS_LAYER_SSM,
    NEITHER = RS_LAYER_NEITHER,
    EXPERTS = RS_LAYER_EXPERTS
};

/* ---- what the config says of a layer ---- */

static int kind_of_word(const char *word)
{
    static const struct {
        const char *word;
        int kind;
    } words[] = {{"attention", ATTENTION},
                 {"full_attention", ATTENTION},
                 {"sliding_attention", ATTENTION},
                 {"mamba", SSM},
                 {"mamba2", SSM},
                 {"linear_attention", SSM}, /* what transformers 5 calls Mamba layers */
                 {"conv", SSM},
                 {"hybrid", ATTENTION | SSM},
                 {"mlp", NEITHER},
                 {"moe", NEITHER | EXPERTS}};
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i].word) == 0) return words[i].kind;
    return 0;
}

/* Letters of hybrid_override_pattern. */
static int kind_of_letter(char letter)
{
    switch (letter) {
    case 'M':
        return SSM;
    case '*':
        return ATTENTION;
    case '-':
        return NEITHER;
    case 'E':
        return NEITHER | EXPERTS;
    default:
        return 0;
    }
}

/* What a field says of a layer. */
typedef struct said {
    int kind;
    const char *field;
} said;

static said by_indices(const json_t *list, const char *field, int32_t layer)
{
    said all = {SSM, field};
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == layer) all.kind = ATTENTION;
    return all;
}

/* Of a family whose files may leave the list out (OLMo Hybrid). */
static said by_fours(const rs_builder *b, int32_t layer)
{
    bool found = false;
    int64_t layers = 0;
    bool known =
        rs_fields_find(&b->fields, RS_FIELD_LAYERS, -1, &layers, &found, &(rs_error){0}) == RS_OK;
    bool last = known && found && layers < 4 && layer == layers - 1;
    return (said){layer % 4 == 3 || last ? ATTENTION : SSM, "num_hidden_layers"};
}

/* GGUF: whether a layer is recurrent, or how many key/value heads it has and how wide its MLP is.
 * Without such heads a layer has no attention; whether it has a mixer its tensors say, but for a
 * family whose layers are an MLP or a mixer. */
static said by_gguf_lists(const rs_builder *b, int32_t layer)
{
    static const char *const keys[][2] = {
        {"attention.recurrent_layers", "recurrent_layers"},
        {"attention.head_count_kv", "num_key_value_heads"},
        {"feed_forward_length", "intermediate_size"},
    };
    const rs_fields *f = &b->fields;
    const json_t *entries[3];
    for (size_t i = 0; i < 3; i++) {
        const json_t *list = rs_fields_key(f, keys[i][f->prefix ? 0 : 1]);
        entries[i] = json_array_get(list, (size_t)layer);
    }
    if (entries[0]) {
        bool recurrent = json_is_true(entries[0]) || json_integer_value(entries[0]) == 1;
        return (said){recurrent ? SSM : ATTENTION, keys[0][0]};
    }
    if (!entries[1]) return (said){0, NULL};
    bool heads = json_integer_value(entries[1]) > 0, mlp = json_integer_value(entries[2]) > 0;
    if (!b->family->forward || !b->family->forward->one_branch || !entries[2])
        return (said){heads ? ATTENTION : 0, keys[1][0]};
    return (said){heads ? ATTENTION : mlp ? NEITHER : SSM, keys[mlp && !heads ? 2 : 1][0]};
}

/* Hybrids say which layer is which in half a dozen ways; kind 0 when none of them does. */
static said kind_in_config(const rs_builder *b, int32_t layer)
{
    static const char *const lists[] = {"layers_block_type", "layer_types"};
    const rs_fields *f = &b->fields;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *list = rs_fields_key(f, lists[i]);
        if (!json_is_array(list)) continue;
        const char *word = json_string_value(json_array_get(list, (size_t)layer));
        return (said){kind_of_word(word), lists[i]};
    }
    if (b->family->facts & RS_FACT_LAST_ATTENDS) return by_fours(b, layer);
    const char *pattern = rs_fields_text(f, "hybrid_override_pattern");
    if (pattern && strnlen(pattern, (size_t)layer + 1) > (size_t)layer)
        return (said){kind_of_letter(pattern[layer]), "hybrid_override_pattern"};
    static const char *const indices[] = {"attn_layer_indices", "full_attn_idxs"};
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
        const json_t *list = rs_fields_key(f, indices[i]);
        if (json_is_array(list) && json_array_size(list) <= MOST_LISTED)
            return by_indices(list, indices[i], layer);
    }
    said listed = by_gguf_lists(b, layer);
    if (listed.field) return listed;
    json_int_t period = json_integer_value(rs_fields_key(f, "attn_layer_period"));
    json_int_t offset = json_integer_value(rs_fields_key(f, "attn_layer_offset"));
    if (period > 0) return (said){layer % period == offset ? ATTENTION : SSM, "attn_layer_period"};
    period = json_integer_value(rs_fields_key(f, "full_attention_interval"));
    if (period > 0)
        return (said){(layer + 1) % period == 0 ? ATTENTION : SSM, "full_attention_interval"};
    return (said){0, "layer_types"}; /* none of them */
}

int rs_layer_parts(const rs_builder *b, int32_t layer, const char **field)
{
    unsigned facts = b->family->facts;
    *field = NULL;
    if (facts & RS_FACT_BOTH) return ATTENTION | SSM;
    if (facts & RS_FACT_HYBRID) {
        said all = kind_in_config(b, layer);
        *field = all.field;
        return all.kind;
    }
    return b->family->ssm ? SSM : ATTENTION;
}

static int kind_of_layer(const rs_builder *b, int32_t layer)
{
    const char *field;
    int kind = rs_layer_parts(b, layer, &field);
    return kind == SSM && !b->family->ssm ? NEITHER : kind; /* no products are formed of it */
}

static int kind_of_tensors(const rs_block *block)
{
    static const rs_role attention[] = {RS_ROLE_QKV, RS_ROLE_Q, RS_ROLE_K, RS_ROLE_V, RS_ROLE_O};
    static const rs_role ssm[] = {RS_ROLE_SSM_IN, RS_ROLE_SSM_X, RS_ROLE_SSM_OUT};
    int kind = 0;
    for (size_t i = 0; i < block->n; i++) {
        if (block->matches[i].part != RS_PART_WEIGHT && block->matches[i].part != RS_PART_PACKED)
            continue;
        for (size_t r = 0; r < sizeof attention / sizeof *attention; r++)
            if (block->matches[i].role == attention[r]) kind |= ATTENTION;
        for (size_t r = 0; r < sizeof ssm / sizeof *ssm; r++)
            if (block->matches[i].role == ssm[r]) kind |= SSM;
    }
    return kind;
}

/* ---- absent tensors ---- */

/* Writes a row's name with layer numbers in place of its '#', as this checkpoint would spell it. */
static void spell(const rs_builder *b, const rs_module_pattern *row, int32_t layer, char name[256])
{
    int64_t numbers[2] = {layer, 0};
    if (row->flags & RS_P_NESTED && b->inner_group > 0) {
        numbers[0] = layer / b->inner_group;
        numbers[1] = layer % b->inner_group;
    }
    size_t used = 0, n = 0;
    if (layer >= 0) used = (size_t)snprintf(name, 256, "%.60s", b->prefix ? b->prefix : "");
    for (const char *c = row->module; *c && used < 200; c++)
        if (*c == '#')
            used += (size_t)snprintf(name + used, 256 - used, "%lld", (long long)numbers[n++ % 2]);
        else
            name[used++] = *c;
    snprintf(name + used, 256 - used, "%s", row->flags & RS_P_XLNET ? "" : ".weight");
}

bool rs_expected_name(const rs_builder *b, unsigned slot, rs_role role, int32_t layer,
                      char name[256])
{
    for (size_t l = 0; l < 5 && b->family->patterns[l]; l++)
        for (const rs_module_pattern *row = b->family->patterns[l]; row->module; row++) {
            if (row->role != role || row->slot != slot) continue;
            spell(b, row, layer, name);
            return true;
        }
    return false;
}

static void note_missing(rs_builder *b, const char *name)
{
    if (b->n_missing++ < 20)
        rs_buffer_printf(&b->missing, "%s%s", b->n_missing > 1 ? ", " : "", name);
}

static rs_status absent(rs_builder *b, unsigned slot, int32_t layer, rs_role role)
{
    char name[256] = "?";
    rs_expected_name(b, slot, role, layer, name);
    if (b->partial || b->model->guessed) {
        note_missing(b, name);
        return RS_OK;
    }
    return rs_fail(b->err, RS_E_TENSOR_MISSING, name,
                   "the download is incomplete, or the configuration names more layers than there "
                   "are",
                   "layer %d needs this tensor, and the checkpoint has none (%s)", (int)layer,
                   b->checkpoint->path);
}

rs_status rs_layers_missing(rs_builder *b, const rs_block *block, rs_role role)
{
    return absent(b, block->slot, block->layer, role);
}

/* What a layer of that kind lacks when it has nothing of its mixer at all. */
static rs_status mixer_absent(rs_builder *b, unsigned slot, int32_t layer, int lacking)
{
    if (lacking & ATTENTION && b->family->facts & RS_FACT_TIED_ATTENTION) lacking &= ~ATTENTION;
    if (lacking & ATTENTION) {
        const bool *seen = b->seen[slot];
        return absent(b, slot, layer,
                      seen[RS_ROLE_QKV] && !seen[RS_ROLE_Q] ? RS_ROLE_QKV : RS_ROLE_Q);
    }
    return lacking & SSM ? absent(b, slot, layer, RS_ROLE_SSM_IN) : RS_OK;
}

/* Tensors outside products whose absence is only worth a remark. */
static bool in_products(rs_role role)
{
    return role == RS_ROLE_Q || role == RS_ROLE_K || role == RS_ROLE_V || role == RS_ROLE_O ||
           role == RS_ROLE_QKV || role == RS_ROLE_R || role == RS_ROLE_SSM_IN ||
           role == RS_ROLE_SSM_X || role == RS_ROLE_SSM_OUT;
}

static void remark_absent(rs_builder *b, const rs_block *block)
{
    if (b->model->guessed) return; /* what an unknown model should have is not known */
    bool experts = rs_block_find(block, RS_ROLE_MOE_EXPERT, RS_PART_WEIGHT);
    for (size_t l = 0; l < 5 && b->family->patterns[l]; l++)
        for (const rs_module_pattern *row = b->family->patterns[l]; row->module; row++) {
            char name[256];
            bool layered = strchr(row->module, '#') != NULL;
            bool mlp = row->role >= RS_ROLE_MLP_UP && row->role <= RS_ROLE_MLP_DOWN;
            if (row->slot != (rs_slot)block->slot || layered != (block->layer >= 0) ||
                row->flags & RS_P_OPTIONAL || in_products(row->role) || (mlp && experts))
                continue;
            if (rs_block_find(block, row->role, RS_PART_WEIGHT) ||
                rs_block_find(block, row->role, RS_PART_PACKED))
                continue;
            if (rs_expected_name(b, block->slot, row->role, block->layer, name))
                note_missing(b, name);
        }
}

/* Attention of which the checkpoint holds one product and has no tensors at all for the other. */
static rs_status tell_unpaired(rs_builder *b)
{
    static const struct {
        rs_role one, two;
        const char *product;
    } pairs[] = {{RS_ROLE_Q, RS_ROLE_K, "QK"}, {RS_ROLE_V, RS_ROLE_O, "OV"}};
    if (b->family->facts & RS_FACT_PAIRED_VALUES)
        RS_TRY(rs_notes_say(&b->model->notes, b->err, RS_WARN, "product_not_formed", NULL,
                            "OV products are not reported: what W_O reads is a difference of two "
                            "attentions over the values of two heads, which no one head's W_V and "
                            "W_O give"));
    for (int slot = 0; slot < RS_SLOT_MAP; slot++)
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
            const bool *seen = b->seen[slot];
            bool one = seen[pairs[i].one] || seen[RS_ROLE_QKV];
            bool two = seen[pairs[i].two] || (seen[RS_ROLE_QKV] && pairs[i].two == RS_ROLE_K);
            bool any = seen[RS_ROLE_Q] || seen[RS_ROLE_K] || seen[RS_ROLE_V] || seen[RS_ROLE_O];
            if ((one && two) || !(any || seen[RS_ROLE_QKV])) continue;
            RS_TRY(rs_notes_say(&b->model->notes, b->err, RS_WARN, "product_not_formed",
                                "name the other tensor with --map FILE.json",
                                "%s products are not reported: the checkpoint has no tensor known "
                                "as %s",
                                pairs[i].product, rs_role_name(one ? pairs[i].two : pairs[i].one)));
        }
    return RS_OK;
}

static rs_status tell_missing(rs_builder *b)
{
    RS_TRY(tell_unpaired(b));
    if (b->missing.failed) return rs_fail_memory(b->err, "model", 0);
    if (b->n_skipped_layers)
        RS_TRY(rs_notes_say(&b->model->notes, b->err, RS_INFO, "extra_layers", NULL,
                            "%zu groups of tensors belong to layers beyond those the configuration "
                            "names; they are decoded only",
                            b->n_skipped_layers));
    if (!b->n_missing) return RS_OK;
    return rs_notes_say(&b->model->notes, b->err, RS_INFO, "missing_tensor", NULL,
                        "%zu tensors that this family usually has are absent: %s%s", b->n_missing,
                        b->missing.data, b->n_missing > 20 ? ", ..." : "");
}

/* ---- the walk ---- */

/* Not one tensor that a product could use: model.c then lists what there is instead. */
static bool nothing_seen(const rs_builder *b)
{
    for (int slot = 0; slot < RS_SLOT_MAP; slot++)
        for (int role = 0; role < RS_ROLE_COUNT; role++)
            if (b->seen[slot][role] && in_products((rs_role)role)) return false;
    return true;
}

/* Says which depths run which blocks: at depth i of `applied` stands group floor(i·groups/applied),
 * all of its blocks in order. */
static rs_status note_depth_use(rs_builder *b, int64_t applied, int64_t groups)
{
    rs_buffer text = {0};
    int64_t inner = b->inner_group, first = 0;
    for (int64_t g = 0; g < groups && g < 20; g++) {
        int64_t next = ((g + 1) * applied + groups - 1) / groups;
        rs_buffer_printf(&text, "%slayer%s %lld", g ? "; " : "", inner > 1 ? "s" : "",
                         (long long)(g * inner));
        if (inner > 1) rs_buffer_printf(&text, "-%lld", (long long)(g * inner + inner - 1));
        rs_buffer_printf(&text, " at depths %lld-%lld", (long long)(first * inner),
                         (long long)(next * inner - 1));
        first = next;
    }
    if (groups > 20) rs_buffer_puts(&text, "; …");
    bool noted = !text.failed && rs_notes_add(&b->model->notes, RS_INFO, "shared_layers", NULL,
                                              "blocks are shared and reported once each: %s",
                                              text.data ? text.data : "");
    rs_buffer_free(&text);
    return noted ? RS_OK : rs_fail_memory(b->err, "model", 0);
}

static rs_status count_layers(rs_builder *b, int32_t counts[RS_SLOT_MAP])
{
    static const rs_field fields[RS_SLOT_MAP] = {RS_FIELD_LAYERS, RS_FIELD_ENCODER_LAYERS,
                                                 RS_FIELD_DECODER_LAYERS, RS_FIELD_DECODER_LAYERS};
    bool used[RS_SLOT_MAP] = {false};
    for (size_t l = 0; l < 5 && b->family->patterns[l]; l++)
        for (const rs_module_pattern *row = b->family->patterns[l]; row->module; row++)
            if (in_products(row->role)) used[row->slot] = true;
    rs_model *model = b->model;
    for (int slot = 0; slot < RS_SLOT_MAP; slot++) {
        counts[slot] = 0;
        bool any =
            b->seen[slot][RS_ROLE_Q] || b->seen[slot][RS_ROLE_V] || b->seen[slot][RS_ROLE_SSM_IN];
        if (!used[slot] || (b->model->guessed && !any)) continue;
        int64_t n;
        rs_fields_enter(&b->fields, b->family, (unsigned)slot);
        RS_TRY(rs_fields_need(&b->fields, fields[slot], -1, &n, b->err));
        if (!model->d_model)
            RS_TRY(rs_fields_need(&b->fields, RS_FIELD_WIDTH, 0, &model->d_model, b->err));
        if (n > MOST_LAYERS)
            return rs_fail(b->err, RS_E_CONFIG_LAYERS, b->fields.path,
                           "correct the configuration, or download it again",
                           "says that the model has %lld layers; at most %d are believed",
                           (long long)n, MOST_LAYERS);
        counts[slot] = (int32_t)n;
        if (slot != RS_SLOT_CROSS) model->layers += (int32_t)n;
    }
    model->depth = model->layers;
    if (!(b->family->facts & RS_FACT_SHARED_LAYERS)) return RS_OK;
    int64_t groups;
    RS_TRY(rs_fields_need(&b->fields, RS_FIELD_LAYER_GROUPS, -1, &groups, b->err));
    if (groups > MOST_LAYERS || b->inner_group > MOST_LAYERS ||
        groups * b->inner_group > MOST_LAYERS || model->layers * b->inner_group > INT32_MAX)
        return rs_fail(b->err, RS_E_CONFIG_LAYERS, b->fields.path, NULL,
                       "says that the model has %lld groups of %lld layers; at most %d are "
                       "believed",
                       (long long)groups, (long long)b->inner_group, MOST_LAYERS);
    int64_t applied = model->layers;
    model->depth = (int32_t)(model->layers * b->inner_group);
    model->layers = counts[RS_SLOT_MAIN] = (int32_t)(groups * b->inner_group);
    return note_depth_use(b, applied, groups);
}

static rs_status build_attention(rs_builder *b, const rs_block *block)
{
    rs_attention at;
    RS_TRY(rs_attention_sizes(b, block, &at));
    RS_TRY(rs_attention_build(b, block, &at));
    if (b->model->heads) return RS_OK;
    b->model->heads = (int32_t)at.heads;
    b->model->kv_heads = (int32_t)at.kv_heads;
    b->model->d_head = at.head_dim;
    return RS_OK;
}

/* A layer whose shapes are not those that the configuration asks for forms no product; the others
 * do. (Shapes are checked before the first product of a layer is formed.) */
static rs_status unless_odd(rs_builder *b, const rs_block *block, rs_status status)
{
    if (status != RS_E_TENSOR_SHAPE) return status;
    for (size_t i = 0; i < block->n; i++)
        if (in_products((rs_role)block->matches[i].role) &&
            !b->model->roles[block->matches[i].tensor].status)
            b->model->roles[block->matches[i].tensor].reason =
                "its layer is left out: see finding layer_left_out";
    if (!b->n_odd) b->odd = *b->err;
    if (b->n_odd++ < 20)
        rs_buffer_printf(&b->odd_layers, "%s%d", b->n_odd > 1 ? ", " : "", (int)block->layer);
    return RS_OK;
}

static rs_status tell_odd(rs_builder *b)
{
    if (b->odd_layers.failed) return rs_fail_memory(b->err, "model", 0);
    if (!b->n_odd) return RS_OK;
    *b->err = b->odd;
    if (!b->model->n_products) return RS_E_TENSOR_SHAPE;
    return rs_notes_say(&b->model->notes, b->err, RS_WARN, "layer_left_out", b->odd.hint,
                        "%zu layer%s left out, because shapes are not those that the configuration "
                        "asks for (%s%s): first %s, which %s",
                        b->n_odd, b->n_odd == 1 ? " is" : "s are", b->odd_layers.data,
                        b->n_odd > 20 ? ", ..." : "", b->odd.where, b->odd.what);
}

static rs_status build_block(rs_builder *b, const rs_block *block)
{
    rs_fields_enter(&b->fields, b->family, block->slot);
    int found = kind_of_tensors(block), wanted = kind_of_layer(b, block->layer);
    if (wanted & (ATTENTION | SSM) && wanted & ~found)
        RS_TRY(mixer_absent(b, block->slot, block->layer, wanted & ~found));
    if (found & ATTENTION) RS_TRY(unless_odd(b, block, build_attention(b, block)));
    if (found & SSM && b->family->ssm) RS_TRY(unless_odd(b, block, rs_ssm_build(b, block)));
    remark_absent(b, block);
    return RS_OK;
}

/* Layers [from, to) of which no tensor at all was found. */
static rs_status skip_layers(rs_builder *b, unsigned slot, int32_t from, int32_t to)
{
    for (int32_t layer = from; layer < to; layer++) {
        int wanted = kind_of_layer(b, layer);
        if (wanted & NEITHER) continue;
        RS_TRY(mixer_absent(b, slot, layer, wanted ? wanted : b->family->ssm ? SSM : ATTENTION));
    }
    return RS_OK;
}

rs_status rs_layers_build(rs_builder *b)
{
    int32_t counts[RS_SLOT_MAP], next[RS_SLOT_MAP] = {0};
    bool top = false;
    if (nothing_seen(b)) return RS_OK;
    RS_TRY(count_layers(b, counts));
    if (!b->model->d_model)
        RS_TRY(rs_fields_need(&b->fields, RS_FIELD_WIDTH, 0, &b->model->d_model, b->err));
    for (size_t i = 0; i < b->n_blocks; i++) {
        const rs_block *block = &b->blocks[i];
        if (block->layer < 0) {
            remark_absent(b, block);
            top = top || block->slot == RS_SLOT_MAIN;
            continue;
        }
        if (block->layer >= counts[block->slot]) {
            b->n_skipped_layers++;
            continue;
        }
        RS_TRY(skip_layers(b, block->slot, next[block->slot], block->layer));
        RS_TRY(build_block(b, block));
        next[block->slot] = block->layer + 1;
    }
    for (unsigned slot = 0; slot < RS_SLOT_MAP; slot++)
        RS_TRY(skip_layers(b, slot, next[slot], counts[slot]));
    if (!top) remark_absent(b, &(rs_block){.layer = -1, .slot = RS_SLOT_MAIN});
    RS_TRY(tell_odd(b));
    return tell_missing(b);
}
