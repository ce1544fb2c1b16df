/*
 * guess.c: a model nobody has a table for, whose tensors have names that somebody else's have, too.
 *
 * Guessed is only what names can tell: which tensors are q, k, v and o. Head counts come from the
 * config under any of their usual names; a fused tensor is never guessed, since its order does not
 * show. Names do not tell which units rotate together and in which layers, what a norm multiplies
 * by and what it stands before, whether queries and keys are normalised, and by what scores are
 * scaled: nothing is printed that would depend on it.
 */
#include "recognise/builder.h"

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
    bool other; /* the family itself calls them another tower */
} votes;

typedef struct choice {
    const rs_family *family;
    votes best, others[PREFIXES]; /* others: prefixes that would do, too */
    size_t n_others;
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
    return role == RS_ROLE_Q || role == RS_ROLE_K || role == RS_ROLE_V || role == RS_ROLE_O;
}

/* Lets every name vote for what may stand before it. */
static void vote(const rs_lookup *index, const char *name, votes list[PREFIXES], size_t *n)
{
    bool other = false;
    for (const char *rest = name; rest; rest = strchr(rest, '.') ? strchr(rest, '.') + 1 : NULL) {
        int64_t numbers[4];
        size_t n_numbers;
        rs_part part;
        const rs_module_pattern *row = rs_lookup_find(index, rest, numbers, &n_numbers, &part);
        other = other || (rest == name && row && row->role == RS_ROLE_OTHER);
        if (!row || !of_product(row->role) || part != RS_PART_WEIGHT) continue;
        votes *box = ballot(list, n, name, (size_t)(rest - name));
        if (box) box->n++, box->roles[row->role]++, box->other = other;
        return;
    }
}

/* Names count only if some product can be made of them. */
static bool sufficient(const votes *v)
{
    return (v->roles[RS_ROLE_Q] && v->roles[RS_ROLE_K]) ||
           (v->roles[RS_ROLE_V] && v->roles[RS_ROLE_O]);
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
    size_t most = n;
    for (size_t i = 0; i < n; i++)
        if (sufficient(&list[i]) && !list[i].other &&
            list[i].n > (most < n ? list[most].n : best->best.n))
            most = i;
    if (most == n) return status;
    *best = (choice){.family = family, .best = list[most]};
    for (size_t i = 0; i < n; i++)
        if (i != most && sufficient(&list[i])) best->others[best->n_others++] = list[i];
    return status;
}

static rs_status consider_all(rs_builder *b, choice *best)
{
    static const rs_family *const lists[] = {rs_families_decoder, rs_families_bert,
                                             rs_families_vision_audio, NULL};
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
        "query_key_value", "qkv_proj",       "Wqkv",           "wqkv",   "c_attn",
        "attn_qkv",        "in_proj_weight", "attn.qkv",       "W_pack", "kv_a_proj",
        "to_qkv",          "qkv.",           ".in_proj.weight"};
    for (size_t t = 0; t < b->checkpoint->n_tensors; t++)
        for (size_t i = 0; i < sizeof opaque / sizeof *opaque; i++)
            if (strstr(b->checkpoint->tensors[t].name, opaque[i]))
                return rs_fail(b->err, RS_E_UNSUPPORTED, b->checkpoint->tensors[t].name,
                               "say how with --map FILE.json (qkv, qkv_layout, heads)",
                               "cannot split this fused tensor: model type %s is not known, and "
                               "the order of its parts does not show in its shape",
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

/* Attention behind other prefixes, as a second tower has it, is named and left. */
static rs_status tell_others(rs_builder *b, const choice *best)
{
    rs_buffer text = {0};
    for (size_t i = 0; i < best->n_others; i++)
        rs_buffer_printf(&text, "%s%zu behind \"%.*s\"", i ? ", " : "", best->others[i].n,
                         (int)best->others[i].length, best->others[i].text);
    rs_status status =
        !best->n_others ? RS_OK
        : text.failed   ? rs_fail_memory(b->err, "model", 0)
                        : rs_notes_say(&b->model->notes, b->err, RS_WARN, "other_stack",
                                       "name them with --map FILE.json",
                                       "other tensors look like attention, too, and were not read: "
                                         "%s",
                                       text.data);
    rs_buffer_free(&text);
    return status;
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
    if (!gguf) {
        guess->dialect = any_field;
        guess->defaults = NULL;
    }
    guess->rope = RS_ROPE_NONE;
    guess->facts &= ~(unsigned)RS_FACT_PRE_NORM;
    b->model->guessed = b->guessing = true;
    b->family = guess;
    b->fields.dialect = guess->dialect;
    b->fields.defaults = guess->defaults;
    RS_TRY(rs_match_all(b));
    RS_TRY(tell_others(b, &best));
    return rs_notes_say(
        &b->model->notes, b->err, RS_WARN, "guessed_family",
        "check the head counts; --map FILE.json states everything explicitly",
        "model type %s is not known; %zu tensor names%s%s look like %s's, and its heads were cut "
        "out as such. Names do not tell its positions, norms and scale: table planes is left out, "
        "--fold-norms folds nothing, and the scale of scores is not judged",
        type ? type : "(none)", best.best.n, *b->prefixes[0] ? " behind " : "", b->prefixes[0],
        best.family->name);
}
