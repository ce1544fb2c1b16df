/* added.c: tokens that are looked for in the text itself, before any model sees it. */
#include "base/memory.h"
#include "text/steps.h"

#include <string.h>
#include <utf8proc.h>

/* ---- the list ---- */

const rs_added_token *rs_added_tokens_by_id(const rs_added_tokens *added, int32_t id)
{
    uint64_t at;
    if (id < 0 || !rs_pair_map_get(&added->by_id, (uint32_t)id, 0, &at)) return NULL;
    return &added->items[at];
}

const rs_added_token *rs_added_tokens_by_text(const rs_added_tokens *added, const char *text,
                                              size_t length)
{
    int64_t at = rs_strmap_get(&added->by_text, text, length, -1);
    return at < 0 ? NULL : &added->items[at];
}

rs_status rs_added_tokens_add(rs_added_tokens *added, const rs_added_token *token, const char *text,
                              size_t length, rs_error *err)
{
    bool existed;
    int64_t known = rs_strmap_get(&added->by_text, text, length, -1);
    if (known >= 0) { /* said again: its settings become the new ones */
        rs_added_token *old = &added->items[known];
        rs_added_token fresh = *token;
        fresh.text = old->text;
        fresh.length = old->length;
        *old = fresh;
        return RS_OK;
    }
    if (!RS_GROW(added->items, added->n, added->capacity))
        return rs_fail_memory(err, "added tokens", added->n);
    char *copy = rs_malloc(length + 1, 1);
    if (!copy) return rs_fail_memory(err, "added tokens", length);
    memcpy(copy, text, length);
    copy[length] = 0;
    added->items[added->n] = *token;
    added->items[added->n].text = copy;
    added->items[added->n].length = length;
    added->n++;
    if (!rs_pair_map_set(&added->by_id, (uint32_t)token->id, 0, added->n - 1) ||
        !rs_strmap_insert(&added->by_text, copy, length, (int64_t)added->n - 1, &existed))
        return rs_fail_memory(err, "added tokens", length);
    return RS_OK;
}

void rs_added_tokens_free(rs_added_tokens *added)
{
    for (size_t i = 0; i < added->n; i++) {
        rs_free(added->items[i].text);
        rs_free(added->items[i].normal);
    }
    rs_free(added->items);
    rs_trie_free(&added->raw);
    rs_trie_free(&added->normal);
    rs_pair_map_free(&added->by_id);
    rs_strmap_free(&added->by_text);
    *added = (rs_added_tokens){0};
}

/* ---- reading ---- */

/*
 * The id of an added token: that of its text where it has one, else the next free one behind the
 * vocabulary and the tokens added so far. The reference does so too, whatever the file's "id" says.
 */
static int32_t id_for(const rs_added_tokens *added, const rs_vocabulary *vocabulary,
                      const char *text, size_t length, int32_t largest)
{
    const rs_added_token *known = rs_added_tokens_by_text(added, text, length);
    if (known) return known->id;
    int32_t id = rs_vocabulary_find(vocabulary, text, length);
    if (id >= 0) return id;
    int32_t count = (int32_t)vocabulary->count;
    return largest >= count ? largest + 1 : count;
}

static rs_status read_token(rs_added_tokens *added, const rs_spec *spec,
                            const rs_vocabulary *vocabulary, int32_t *largest, rs_error *err)
{
    rs_added_token token = {0};
    const char *text = NULL;
    size_t length = 0;
    int64_t claimed = 0;
    if (spec->json->nodes[spec->value].kind != RS_JSON_OBJECT)
        return rs_spec_fail(spec, "", err, "must be an object");
    RS_TRY(rs_spec_text(&text, &length, spec, "content", true, err));
    RS_TRY(rs_spec_integer(&claimed, spec, "id", true, err));
    if (claimed < 0 || claimed > UINT32_MAX)
        return rs_spec_fail(spec, "id", err, "must be a whole number of 32 bits from 0 on");
    RS_TRY(rs_spec_bool(&token.special, spec, "special", true, err));
    RS_TRY(rs_spec_bool(&token.normalized, spec, "normalized", true, err));
    RS_TRY(rs_spec_bool(&token.single_word, spec, "single_word", true, err));
    RS_TRY(rs_spec_bool(&token.lstrip, spec, "lstrip", true, err));
    RS_TRY(rs_spec_bool(&token.rstrip, spec, "rstrip", true, err));
    if (length == 0) return RS_OK; /* the reference passes over them */
    token.id = id_for(added, vocabulary, text, length, *largest);
    if (token.id > *largest) *largest = token.id;
    return rs_added_tokens_add(added, &token, text, length, err);
}

rs_status rs_added_tokens_read(rs_added_tokens *added, const rs_spec *spec,
                               const rs_vocabulary *vocabulary, rs_error *err)
{
    const rs_json_index *json = spec->json;
    if (json->nodes[spec->value].kind != RS_JSON_ARRAY)
        return rs_spec_fail(spec, "", err, "must be a list of tokens");
    int32_t largest = -1;
    uint32_t end = rs_json_next(json, spec->value), at = spec->value + 1;
    for (size_t i = 0; at < end; i++, at = rs_json_next(json, at)) {
        rs_spec token;
        rs_spec_element(&token, spec, at, i);
        RS_TRY(read_token(added, &token, vocabulary, &largest, err));
    }
    return RS_OK;
}

/* ---- the tries ---- */

static bool enter(rs_trie *trie, bool first[256], const char *text, size_t length, size_t index)
{
    if (length == 0) return true;
    first[(unsigned char)text[0]] = true;
    return rs_trie_add(trie, text, length, (int32_t)index, false);
}

/* A token that is looked for after normalising is looked for in its own normalised form. */
static rs_status enter_normalized(rs_added_tokens *added, size_t index,
                                  const rs_normal_steps *normal, rs_text_work *work, rs_error *err)
{
    rs_added_token *token = &added->items[index];
    rs_aligned text = {0};
    rs_aligned_repair(&text, token->text, token->length);
    text.limit = work->spare.limit = token->length * 64 + 65536;
    rs_status status = rs_aligned_check(&text, err);
    if (status == RS_OK) status = rs_normal_steps_run(&text, normal, work, err);
    token->normal = status == RS_OK ? rs_malloc(text.n + 1, 1) : NULL;
    if (token->normal) {
        if (text.n > 0) memcpy(token->normal, text.bytes, text.n);
        token->normal[text.n] = 0;
        token->normal_length = text.n;
    }
    if (status == RS_OK && (!token->normal || !enter(&added->normal, added->normal_first,
                                                     token->normal, text.n, index)))
        status = rs_fail_memory(err, "added tokens", token->length);
    rs_aligned_free(&text);
    return status;
}

/* Special tokens first: of two with the same text the first is found. */
rs_status rs_added_tokens_finish(rs_added_tokens *added, const rs_normal_steps *normal,
                                 rs_error *err)
{
    rs_text_work work = {0};
    rs_status status = RS_OK;
    rs_searcher_begin(&work.searcher, added->n, NULL);
    for (int special = 1; special >= 0; special--)
        for (size_t i = 0; i < added->n && status == RS_OK; i++) {
            const rs_added_token *token = &added->items[i];
            if (token->special != special) continue;
            if (token->normalized)
                status = enter_normalized(added, i, normal, &work, err);
            else if (!enter(&added->raw, added->raw_first, token->text, token->length, i))
                status = rs_fail_memory(err, "added tokens", token->length);
        }
    rs_text_work_free(&work);
    return status;
}

/* ---- looking for them ---- */

/* \w of Rust's crate regex: Alphabetic, marks, decimal digits, connectors, joiners. Alphabetic is
 * letters, letter numbers, some marks, and these circled letters. */
static bool is_word(uint32_t point)
{
    static const rs_char_range circled[] = {
        {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
    for (size_t i = 0; i < sizeof circled / sizeof *circled; i++)
        if (point >= circled[i].first && point <= circled[i].last) return true;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
           category == UTF8PROC_CATEGORY_PC || point == 0x200C || point == 0x200D;
}

/* The place where the character before text[at] begins; at > begin. */
static size_t character_before(const char *text, size_t at)
{
    do
        at--;
    while (((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

/* The longest token at text[at], with its end in *stop; NULL when there is none. */
static const rs_added_token *match_at(const rs_added_tokens *added, const rs_trie *trie,
                                      const char *text, size_t at, size_t end, size_t *stop)
{
    const rs_added_token *found = NULL;
    uint32_t node = 0;
    for (size_t i = at; i < end; i++) {
        node = rs_trie_step(trie, node, text[i]);
        if (!node) break;
        if (trie->values[node] == RS_TRIE_NONE) continue;
        found = &added->items[trie->values[node]];
        *stop = i + 1;
    }
    return found;
}

static bool stands_alone(const char *text, size_t begin, size_t end, size_t from, size_t to)
{
    size_t n;
    if (from > begin && is_word(rs_char_at(text + character_before(text, from), &n))) return false;
    return to == end || !is_word(rs_char_at(text + to, &n));
}

/* The blanks around a token that it takes in; not those that an earlier one has. */
static void take_blanks(const rs_added_token *token, const char *text, size_t done, size_t end,
                        size_t *from, size_t *to)
{
    size_t n;
    while (token->lstrip && *from > done) {
        size_t before = character_before(text, *from);
        if (before < done || !rs_char_is_space(rs_char_at(text + before, &n))) break;
        *from = before;
    }
    for (; token->rstrip && *to < end; *to += n)
        if (!rs_char_is_space(rs_char_at(text + *to, &n))) break;
}

rs_status rs_added_tokens_cut(rs_pieces *pieces, const rs_added_tokens *added, bool normal,
                              const char *text, size_t begin, size_t end, rs_error *err)
{
    const rs_trie *trie = normal ? &added->normal : &added->raw;
    const bool *first = normal ? added->normal_first : added->raw_first;
    size_t done = begin, stop = begin;
    for (size_t at = begin; trie->n && at < end;) {
        const rs_added_token *token = NULL;
        if (first[(unsigned char)text[at]]) token = match_at(added, trie, text, at, end, &stop);
        if (!token) {
            at++;
            continue;
        }
        size_t from = at, to = stop;
        at = stop;
        if (token->single_word && !stands_alone(text, begin, end, from, to)) continue;
        if (from < done) continue; /* inside the blanks that the one before has taken in */
        take_blanks(token, text, done, end, &from, &to);
        rs_pieces_add(pieces, done, from, RS_NO_TOKEN);
        rs_pieces_add(pieces, from, to, token->id);
        done = to;
    }
    rs_pieces_add(pieces, done, end, RS_NO_TOKEN);
    return pieces->failed ? rs_fail_memory(err, "splitting a text", pieces->n) : RS_OK;
}
