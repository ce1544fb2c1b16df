/*
 * guess.c: a model nobody has a table for, whose tensors have names that somebody else's have, too.
 *
 * Guessed is only what names can tell: which tensors are q, k, v and o. Head counts come from the
 * config under any of their usual names; a fused tensor is never guessed, since its order does not
 * show.
 */
#include "model/engine.h"

#include <string.h>

/* Every spelling that is in use; a guess may look anywhere. */
static const rs_field_row any_field[] = {RS_FIELDS_OF_SIZES,
                                         {RS_FIELD_WIDTH, "embed_dim"},
                                         {RS_FIELD_WIDTH, "model_dim"},
                                         {RS_FIELD_KV_HEADS, "n_kv_heads"},
                                         {RS_FIELD_HEAD_DIM, "d_kv"},
                                         {RS_FIELD_ENCODER_LAYERS, "encoder_layers"},
                                         {RS_FIELD_ENCODER_LAYERS, "num_hidden_layers"},
                                         {RS_FIELD_ENCODER_HEADS, "encoder_attention_heads"},
                                         {RS_FIELD_ENCODER_HEADS, "num_attention_heads"},
                                         {RS_FIELD_DECODER_LAYERS, "decoder_layers"},
                                         {RS_FIELD_DECODER_LAYERS, "num_hidden_layers"},
                                         {RS_FIELD_DECODER_HEADS, "decoder_attention_heads"},
                                         {RS_FIELD_DECODER_HEADS, "num_attention_heads"},
                                         {RS_FIELD_COUNT, NULL}};

enum { PREFIXES = 16, SAMPLE = 20000 };

typedef struct votes { /* for one prefix */
    const char *text;
    size_t length, n, roles[RS_ROLE_COUNT];
} votes;

typedef struct choice {
    const rs_family *family;
    votes best;
} choice;

static votes *ballot(votes list[PREFIXES], size_t *n, const char *name, size_t length)
{
    for (size_t i = 0; i < *n; i++)
        if (list[i].length == length && memcmp(list[i].text, name, length) == 0) return &list[i];
    if (*n == PREFIXES) return NULL;
    list[*n] = (votes){.text = name, .length = length};
    return &list[(*n)++];
}

static bool of_product(rs_role role)
{
    return role == RS_ROLE_Q || role == RS_ROLE_K || role == RS_ROLE_V || role == RS_ROLE_O ||
           role == RS_ROLE_SSM_IN || role == RS_ROLE_SSM_X || role == RS_ROLE_SSM_OUT;
}

/* Lets every name vote for what may stand before it. */
static void vote(const rs_lookup *index, const char *name, votes list[PREFIXES], size_t *n)
{
    for (const char *rest = name; rest; rest = strchr(rest, '.') ? strchr(rest, '.') + 1 : NULL) {
        int64_t numbers[4];
        size_t n_numbers;
        rs_part part;
        const rs_pattern *row = rs_lookup_find(index, rest, numbers, &n_numbers, &part);
        if (!row || !of_product(row->role) || part != RS_PART_WEIGHT) continue;
        votes *box = ballot(list, n, name, (size_t)(rest - name));
        if (box) box->n++, box->roles[row->role]++;
        return;
    }
}

/* Names count only if some product can be made of them. */
static bool sufficient(const votes *v, rs_ssm_kind ssm)
{
    bool pair = (v->roles[RS_ROLE_Q] && v->roles[RS_ROLE_K]) ||
                (v->roles[RS_ROLE_V] && v->roles[RS_ROLE_O]);
    bool mixer = v->roles[RS_ROLE_SSM_IN] && v->roles[RS_ROLE_SSM_OUT];
    if (ssm) return mixer && (ssm == RS_SSM_S6) == (v->roles[RS_ROLE_SSM_X] > 0);
    return pair;
}

static rs_status consider(rs_builder *b, const rs_family *family, choice *best)
{
    rs_lookup index;
    votes list[PREFIXES];
    size_t n = 0, sample = b->checkpoint->n_tensors < SAMPLE ? b->checkpoint->n_tensors : SAMPLE;
    rs_status status = rs_lookup_open(&index, family, b->err);
    for (size_t t = 0; status == RS_OK && t < sample; t++)
        vote(&index, b->checkpoint->tensors[t].name, list, &n);
    rs_lookup_close(&index);
    for (size_t i = 0; i < n; i++)
        if (list[i].n > best->best.n && sufficient(&list[i], family->ssm))
            *best = (choice){.family = family, .best = list[i]};
    return status;
}

static rs_status consider_all(rs_builder *b, choice *best)
{
    static const rs_family *const lists[] = {rs_families_decoder, rs_families_bert,
                                             rs_families_vision_audio, rs_families_ssm, NULL};
    static const rs_family *const gguf[] = {rs_families_gguf, NULL};
    const rs_family *const *list = b->checkpoint->format == RS_FORMAT_GGUF ? gguf : lists;
    for (; *list; list++)
        for (const rs_family *family = *list; family->name; family++)
            if (family->facts & RS_FACT_GUESS) RS_TRY(consider(b, family, best));
    return RS_OK;
}

/* Nothing fits: a fused or latent layout is named, all else is listed. */
static rs_status give_up(rs_builder *b, const char *type)
{
    static const char *const opaque[] = {
        "query_key_value", "qkv_proj", "Wqkv",   "wqkv",      "c_attn", "attn_qkv",
        "in_proj_weight",  "attn.qkv", "W_pack", "kv_a_proj", "to_qkv", "qkv."};
    for (size_t t = 0; t < b->checkpoint->n_tensors; t++)
        for (size_t i = 0; i < sizeof opaque / sizeof *opaque; i++)
            if (strstr(b->checkpoint->tensors[t].name, opaque[i]))
                return rs_fail(b->err, RS_E_UNSUPPORTED, b->checkpoint->tensors[t].name,
                               "say how with --map FILE.json (qkv, qkv_layout, heads)",
                               "cannot split this fused tensor: model type %s is not known, and "
                               "its order of q, k and v does not show in its shape",
                               type ? type : "(none)");
    rs_buffer names = {0};
    size_t n = rs_tensors_list(b, false, &names);
    rs_status status =
        names.failed
            ? rs_fail_memory(b->err, "model", 0)
            : rs_fail(b->err, RS_E_FAMILY_UNKNOWN, b->checkpoint->path,
                      strstr(names.data ? names.data : "", ".lora_A.")
                          ? "this is an adapter: merge it into its base model first"
                          : "name its attention tensors with --map FILE.json (docs/map.md)",
                      "model type %s is not known and none of the %zu tensor names is: %s",
                      type ? type : "(none)", n, names.data ? names.data : "");
    rs_buffer_free(&names);
    return status;
}

static bool has_norm_bias(const rs_builder *b)
{
    for (size_t i = 0; i < b->n_matches; i++)
        if (b->matches[i].role == RS_ROLE_NORM_MIXER && b->matches[i].part == RS_PART_BIAS)
            return true;
    return false;
}

static bool says_rope(const rs_fields *fields)
{
    return rs_fields_key(fields, "rope_parameters") || rs_fields_key(fields, "rope_theta") ||
           rs_fields_key(fields, "rope_scaling");
}

rs_status rs_guess(rs_builder *b, const char *type)
{
    choice best = {0};
    RS_TRY(consider_all(b, &best));
    if (!best.family) return give_up(b, type);
    rs_arena *arena = b->model->arena;
    rs_family *guess = &b->guess;
    *guess = *best.family;
    guess->name = rs_arena_printf(arena, "%s-like (guessed)", best.family->name);
    b->prefixes[0] = rs_arena_strndup(arena, best.best.text, best.best.length);
    if (!guess->name || !b->prefixes[0]) return rs_fail_memory(b->err, "model", 0);
    guess->prefixes = b->prefixes;
    bool gguf = b->checkpoint->format == RS_FORMAT_GGUF;
    if (!gguf && !guess->ssm) {
        guess->dialect = any_field;
        guess->defaults = NULL;
    }
    if (gguf || !says_rope(&b->fields)) guess->rope = RS_ROPE_NONE;
    if (!(guess->facts & RS_FACT_GUESS_NORM)) guess->facts &= ~(unsigned)RS_FACT_PRE_NORM;
    guess->facts |= RS_FACT_PARTIAL_ROPE; /* an unknown module may well read it */
    b->model->guessed = true;
    b->family = guess;
    b->fields.dialect = guess->dialect;
    b->fields.defaults = guess->defaults;
    RS_TRY(rs_match_all(b));
    if (!b->seen[RS_SLOT_MAIN][RS_ROLE_NORM_MIXER]) guess->facts &= ~(unsigned)RS_FACT_PRE_NORM;
    if (has_norm_bias(b)) guess->norm = RS_NORM_LAYERNORM;
    return rs_notes_say(
        &b->model->notes, b->err, RS_WARN, "guessed_family",
        "check the head counts; --map FILE.json states everything explicitly",
        "model type %s is not known; %zu tensor names%s%s look like %s's, and it was "
        "read as such%s%s",
        type ? type : "(none)", best.best.n, *b->prefixes[0] ? " behind " : "", b->prefixes[0],
        best.family->name,
        guess->rope == RS_ROPE_NONE ? "; RoPE is taken to be absent"
                                    : "; RoPE is taken to be half-split",
        guess->facts & RS_FACT_PRE_NORM ? "; its norms are taken to stand before q, k, v"
                                        : "; its norms are not interpreted");
}
