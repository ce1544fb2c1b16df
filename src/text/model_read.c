/* model_read.c: the "model" of a tokenizer.json. */
#include "base/memory.h"
#include "text/model_parts.h"

#include <string.h>

/* Ids may leave holes, but not so many that the table by id outgrows the file. */
enum { HOLES_PER_TOKEN = 16, FREE_HOLES = 65536, MOST_IDS = 1 << 28 };

static rs_status bad_vocabulary(const rs_spec *spec, rs_error *err, const char *what, size_t length,
                                const char *token)
{
    return rs_fail(err, RS_E_TOKENIZER_VOCABULARY, spec->json->name, "the file is damaged",
                   "%s: token '%.*s' %s", spec->path, length < 60 ? (int)length : 60, token, what);
}

/* ---- {"token": id} ---- */

static rs_status count_ids(size_t *n_ids, const rs_spec *vocab, rs_error *err)
{
    const rs_json_index *json = vocab->json;
    const rs_json_node *object = &json->nodes[vocab->value];
    int64_t most = (int64_t)object->length * HOLES_PER_TOKEN + FREE_HOLES, largest = -1;
    if (most > MOST_IDS) most = MOST_IDS;
    for (uint32_t at = vocab->value + 1; at < object->next; at = rs_json_next(json, at + 1)) {
        int64_t id;
        const rs_json_node *key = &json->nodes[at];
        if (!rs_json_integer(json, at + 1, &id) || id < 0)
            return bad_vocabulary(vocab, err, "has no whole number from 0 on as its id",
                                  key->length, key->text);
        if (id >= most)
            return bad_vocabulary(vocab, err, "has an id far above the number of tokens",
                                  key->length, key->text);
        if (id > largest) largest = id;
    }
    *n_ids = (size_t)(largest + 1);
    return RS_OK;
}

static rs_status read_map(rs_vocabulary *vocabulary, const rs_spec *spec, rs_error *err)
{
    rs_spec vocab;
    if (!rs_spec_member(&vocab, spec, "vocab") ||
        spec->json->nodes[vocab.value].kind != RS_JSON_OBJECT)
        return rs_spec_fail(spec, "vocab", err, "must be an object of tokens and ids");
    const rs_json_index *json = spec->json;
    const rs_json_node *object = &json->nodes[vocab.value];
    size_t n_ids = 0;
    RS_TRY(count_ids(&n_ids, &vocab, err));
    RS_TRY(rs_vocabulary_init(vocabulary, object->length, n_ids, err));
    for (uint32_t at = vocab.value + 1; at < object->next; at = rs_json_next(json, at + 1)) {
        int64_t id = 0;
        rs_json_integer(json, at + 1, &id);
        RS_TRY(rs_vocabulary_add(vocabulary, json->nodes[at].text, json->nodes[at].length,
                                 (int32_t)id, json->name, err));
    }
    return RS_OK;
}

/* The id of a token that a member names; -1 when the member is absent. */
static rs_status named_token(int32_t *id, const rs_spec *spec, const char *key, bool required,
                             const rs_vocabulary *vocabulary, rs_error *err)
{
    const char *text = NULL;
    size_t length = 0;
    *id = -1;
    RS_TRY(rs_spec_text(&text, &length, spec, key, required, err));
    if (text) *id = rs_vocabulary_find(vocabulary, text, length);
    return RS_OK;
}

/* ---- WordPiece ---- */

static rs_status read_wordpiece(rs_text_model *model, const rs_spec *spec, rs_error *err)
{
    model->encode = rs_wordpiece_encode;
    model->max_characters = 100;
    RS_TRY(read_map(&model->vocabulary, spec, err));
    if (model->vocabulary.longest > RS_WORDPIECE_LONGEST)
        return rs_spec_fail(spec, "vocab", err, "a token has %u bytes; at most %d are supported",
                            model->vocabulary.longest, RS_WORDPIECE_LONGEST);
    RS_TRY(named_token(&model->unknown, spec, "unk_token", true, &model->vocabulary, err));
    RS_TRY(rs_spec_integer(&model->max_characters, spec, "max_input_chars_per_word", false, err));
    return rs_spec_copy(&model->prefix, &model->prefix_length, spec, "continuing_subword_prefix",
                        true, err);
}

/* ---- BPE ---- */

/* "left right", or ["left", "right"]. */
static rs_status read_merge(rs_text_model *model, const rs_spec *merges, uint32_t at, size_t rank,
                            rs_error *err)
{
    const rs_json_index *json = merges->json;
    const rs_json_node *node = &json->nodes[at], *pair = node + 1;
    if (node->kind == RS_JSON_ARRAY && node->length == 2 && pair[0].kind == RS_JSON_STRING &&
        pair[1].kind == RS_JSON_STRING)
        return rs_bpe_add_merge(model, pair[0].text, pair[0].length, pair[1].text, pair[1].length,
                                rank, json->name, err);
    const char *blank = node->kind == RS_JSON_STRING ? memchr(node->text, ' ', node->length) : NULL;
    size_t left = blank ? (size_t)(blank - node->text) : 0;
    if (!blank || memchr(blank + 1, ' ', node->length - left - 1))
        return rs_fail(err, RS_E_TOKENIZER_VOCABULARY, json->name, "the file is damaged",
                       "%s[%zu] is no pair of tokens", merges->path, rank);
    return rs_bpe_add_merge(model, node->text, left, blank + 1, node->length - left - 1, rank,
                            json->name, err);
}

static rs_status read_merges(rs_text_model *model, const rs_spec *spec, rs_error *err)
{
    rs_spec merges;
    const rs_json_index *json = spec->json;
    if (!rs_spec_member(&merges, spec, "merges") || json->nodes[merges.value].kind != RS_JSON_ARRAY)
        return rs_spec_fail(spec, "merges", err, "must be a list of pairs of tokens");
    const rs_json_node *array = &json->nodes[merges.value];
    if (!rs_pair_map_reserve(&model->merges, array->length))
        return rs_fail_memory(err, "the merges of the vocabulary", array->length);
    size_t rank = 0;
    for (uint32_t at = merges.value + 1; at < array->next; at = rs_json_next(json, at))
        RS_TRY(read_merge(model, &merges, at, rank++, err));
    return RS_OK;
}

static rs_status read_bpe(rs_text_model *model, const rs_spec *spec, rs_error *err)
{
    uint32_t dropout = rs_json_member(spec->json, spec->value, "dropout");
    double chance = 0;
    model->encode = rs_bpe_encode;
    if (dropout != RS_JSON_ABSENT && (!rs_json_real(spec->json, dropout, &chance) || chance != 0))
        return rs_spec_fail(spec, "dropout", err, "must be null or 0: ids would be random");
    RS_TRY(read_map(&model->vocabulary, spec, err));
    RS_TRY(named_token(&model->unknown, spec, "unk_token", false, &model->vocabulary, err));
    RS_TRY(rs_spec_copy(&model->prefix, &model->prefix_length, spec, "continuing_subword_prefix",
                        false, err));
    RS_TRY(rs_spec_copy(&model->suffix, &model->suffix_length, spec, "end_of_word_suffix", false,
                        err));
    RS_TRY(rs_spec_bool(&model->fuse_unknown, spec, "fuse_unk", false, err));
    RS_TRY(rs_spec_bool(&model->byte_fallback, spec, "byte_fallback", false, err));
    RS_TRY(rs_spec_bool(&model->whole_words, spec, "ignore_merges", false, err));
    RS_TRY(read_merges(model, spec, err));
    rs_text_model_find_bytes(model);
    rs_bpe_find_cuts(model);
    return RS_OK;
}

/* ---- Unigram: [["token", score], ...], the place being the id ---- */

static rs_status read_scores(rs_text_model *model, const rs_spec *vocab, rs_error *err)
{
    const rs_json_index *json = vocab->json;
    const rs_json_node *array = &json->nodes[vocab->value];
    RS_TRY(rs_vocabulary_init(&model->vocabulary, array->length, array->length, err));
    model->path_scores = rs_calloc(array->length, sizeof *model->path_scores);
    if (!model->path_scores) return rs_fail_memory(err, "the vocabulary", array->length);
    int32_t id = 0;
    for (uint32_t at = vocab->value + 1; at < array->next; at = rs_json_next(json, at), id++) {
        const rs_json_node *pair = &json->nodes[at];
        if (pair->kind != RS_JSON_ARRAY || pair->length != 2 || pair[1].kind != RS_JSON_STRING ||
            !rs_json_real(json, at + 2, &model->path_scores[id]))
            return rs_fail(err, RS_E_TOKENIZER_VOCABULARY, json->name, "the file is damaged",
                           "%s[%d] is no pair of a token and a score", vocab->path, id);
        RS_TRY(rs_vocabulary_put(&model->vocabulary, pair[1].text, pair[1].length, id, json->name,
                                 err));
    }
    return RS_OK;
}

static rs_status read_unigram(rs_text_model *model, const rs_spec *spec, rs_error *err)
{
    rs_spec vocab;
    int64_t unknown = -1;
    model->encode = rs_unigram_encode;
    if (!rs_spec_member(&vocab, spec, "vocab") ||
        spec->json->nodes[vocab.value].kind != RS_JSON_ARRAY)
        return rs_spec_fail(spec, "vocab", err, "must be a list of tokens and scores");
    RS_TRY(rs_spec_integer(&unknown, spec, "unk_id", false, err));
    if (unknown < -1 || unknown >= (int64_t)spec->json->nodes[vocab.value].length)
        return rs_spec_fail(spec, "unk_id", err, "is no id of the vocabulary");
    RS_TRY(rs_spec_bool(&model->byte_fallback, spec, "byte_fallback", false, err));
    RS_TRY(read_scores(model, &vocab, err));
    model->unknown = (int32_t)unknown;
    rs_text_model_find_bytes(model);
    return rs_unigram_build(model, err);
}

/* ---- any ---- */

/* Files of before 2021 do not name the type; only these members tell. */
static const struct {
    const char *type, *sign;
    rs_status (*read)(rs_text_model *model, const rs_spec *spec, rs_error *err);
} kinds[] = {
    {"BPE", "merges", read_bpe},
    {"WordPiece", "continuing_subword_prefix", read_wordpiece},
    {"Unigram", "unk_id", read_unigram},
};

static rs_status find_kind(size_t *kind, const rs_spec *spec, rs_error *err)
{
    size_t n = sizeof kinds / sizeof *kinds;
    bool typed = rs_json_member(spec->json, spec->value, "type") != RS_JSON_ABSENT;
    char type[64] = "(none)";
    if (typed) RS_TRY(rs_spec_type(type, spec, err));
    for (*kind = 0; *kind < n; ++*kind)
        if (typed ? strcmp(type, kinds[*kind].type) == 0
                  : rs_json_member(spec->json, spec->value, kinds[*kind].sign) != RS_JSON_ABSENT)
            return RS_OK;
    return rs_spec_unknown(spec, "model", type, err);
}

rs_status rs_text_model_read(rs_text_model **out, const rs_spec *spec, rs_error *err)
{
    size_t kind;
    rs_vocabulary none = {0};
    *out = NULL;
    RS_TRY(find_kind(&kind, spec, err));
    rs_text_model *model = rs_text_model_new(&none);
    if (!model) return rs_fail_memory(err, "the tokenizer", sizeof *model);
    rs_status status = kinds[kind].read(model, spec, err);
    if (status == RS_OK && model->vocabulary.count == 0)
        status = rs_spec_fail(spec, "vocab", err, "is empty");
    if (status != RS_OK) {
        rs_text_model_free(model);
        return status;
    }
    *out = model;
    return RS_OK;
}
