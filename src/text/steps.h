/*
 * steps.h: the parts that a tokenizer is made of, and what they share while a text goes through.
 *
 *   text -> [raw added tokens] -> normalise -> [normalised added tokens] -> pre-tokenise -> model
 *
 * Each part is a list of steps; a step is a row of a table (name in the file, reader, function).
 */
#ifndef RS_TEXT_STEPS_H
#define RS_TEXT_STEPS_H

#include "base/text.h"
#include "text/aligned.h"
#include "text/pattern.h"
#include "text/spec.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

/* What one call of encode or decode needs of its own. Zero-initialise. */
typedef struct rs_text_work {
    rs_searcher searcher;
    rs_text_spans spans;
    rs_form_work forms;
    rs_aligned spare;
    rs_pieces spare_pieces;
} rs_text_work;
void rs_text_work_free(rs_text_work *work);

/* ---- normalisers ---- */

typedef struct rs_charsmap rs_charsmap;
/* Reads a SentencePiece rule table: base64 of a little-endian u32 (bytes of the trie), the units of
 * a double-array trie, then NUL-terminated texts. Errors: RS_E_TOKENIZER_CHARSMAP,
 * RS_E_NO_MEMORY. */
rs_status rs_charsmap_parse(rs_charsmap **out, const char *base64, size_t length, const char *where,
                            rs_error *err);
/* Reads such a table from the bytes that the base64 stands for. */
rs_status rs_charsmap_new(rs_charsmap **out, const char *bytes, size_t length, const char *where,
                          rs_error *err);
void rs_charsmap_free(rs_charsmap *map);
/* Appends `in` with every rule applied; fails only by out->failed. */
void rs_charsmap_run(rs_aligned *out, const rs_aligned *in, const rs_charsmap *map);

typedef struct rs_normal_step rs_normal_step;
/* One change to a text; fields that its kind does not name stay zero. */
struct rs_normal_step {
    rs_status (*run)(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                     rs_text_work *work, rs_error *err);
    bool clean, cjk, accents, lower; /* BertNormalizer */
    bool left, right;                /* Strip */
    rs_text_form form;
    rs_char_class_id class;
    rs_pattern *pattern; /* Replace */
    char *content;       /* Replace, Prepend */
    size_t length;
    rs_charsmap *map;
};

/* The steps of a normaliser, in order. */
typedef struct rs_normal_steps {
    rs_normal_step *items;
    size_t n, capacity;
} rs_normal_steps;

rs_status rs_normal_steps_read(rs_normal_steps *steps, const rs_spec *spec, rs_error *err);
/* Each appends a step, for tokenizers without a tokenizer.json. */
rs_status rs_normal_steps_bert(rs_normal_steps *steps, rs_error *err);
rs_status rs_normal_steps_replace(rs_normal_steps *steps, const char *from, const char *to,
                                  rs_error *err);
rs_status rs_normal_steps_prepend(rs_normal_steps *steps, const char *content, rs_error *err);
rs_status rs_normal_steps_form(rs_normal_steps *steps, rs_text_form form, rs_error *err);
/* Appends a step that refuses texts which NFC changes: whether the tokenizer `name` puts texts in
 * NFC is not known. */
rs_status rs_normal_steps_settled(rs_normal_steps *steps, const char *name, rs_error *err);
rs_status rs_normal_steps_charsmap(rs_normal_steps *steps, rs_charsmap *map, rs_error *err);
/* Puts text through all steps; the result replaces it. */
rs_status rs_normal_steps_run(rs_aligned *text, const rs_normal_steps *steps, rs_text_work *work,
                              rs_error *err);
void rs_normal_steps_free(rs_normal_steps *steps);

/* ---- pre-tokenisers ---- */

/* When Metaspace puts its mark before a text. */
typedef enum rs_prepend { RS_PREPEND_ALWAYS, RS_PREPEND_FIRST, RS_PREPEND_NEVER } rs_prepend;

typedef struct rs_split_step rs_split_step;
/* One way to cut a text; fields that its kind does not name stay zero. */
struct rs_split_step {
    /* Cuts the pieces of text further, or writes a new text and its pieces into work->spare and
     * work->spare_pieces. */
    rs_status (*run)(rs_aligned *text, rs_pieces *pieces, const rs_split_step *step,
                     rs_text_work *work, rs_error *err);
    bool prefix_space;   /* ByteLevel */
    bool invert;         /* Split */
    bool individual;     /* Digits */
    bool split;          /* Metaspace */
    rs_pattern *pattern; /* Split, and ByteLevel's own when it uses one */
    rs_behaviour behaviour;
    rs_prepend prepend;
    char replacement[4];
    size_t replacement_length;
};

/* The steps of a pre-tokeniser, in order. */
typedef struct rs_split_steps {
    rs_split_step *items;
    size_t n, capacity;
} rs_split_steps;

rs_status rs_split_steps_read(rs_split_steps *steps, const rs_spec *spec, rs_error *err);
rs_status rs_split_steps_bert(rs_split_steps *steps, rs_error *err);
/* Appends a step that cuts at white space, which is left out. */
rs_status rs_split_steps_spaces(rs_split_steps *steps, rs_error *err);
/* Appends a step that makes each match of an expression a piece. */
rs_status rs_split_steps_isolate(rs_split_steps *steps, const char *regex, const char *where,
                                 rs_error *err);
/* Appends a step that makes each digit (`individual`), or each run of them, a piece. */
rs_status rs_split_steps_digits(rs_split_steps *steps, bool individual, rs_error *err);
rs_status rs_split_steps_punctuation(rs_split_steps *steps, rs_behaviour behaviour, rs_error *err);
/* Appends a step that makes each match of the expression a piece, unless it is NULL, and then turns
 * bytes into characters. */
rs_status rs_split_steps_bytes(rs_split_steps *steps, const char *regex, const char *where,
                               rs_error *err);
rs_status rs_split_steps_metaspace(rs_split_steps *steps, rs_prepend prepend, rs_error *err);
rs_status rs_split_steps_run(rs_aligned *text, rs_pieces *pieces, const rs_split_steps *steps,
                             rs_text_work *work, rs_error *err);
void rs_split_steps_free(rs_split_steps *steps);

/* The character that stands for a byte in byte-level BPE. */
uint32_t rs_byte_character(unsigned char byte);
/* The byte that a character stands for; -1: none. */
int rs_character_byte(uint32_t point);

/* ---- models ---- */

/* What a model makes of a piece: an id and the bytes of the piece that it stands for. */
typedef struct rs_text_model_token {
    int32_t id;
    uint32_t begin, bytes;
} rs_text_model_token;

/* A list of these. Zero-initialise. */
typedef struct rs_text_model_tokens {
    rs_text_model_token *items;
    size_t n, capacity;
    bool failed;
} rs_text_model_tokens;
void rs_text_model_tokens_add(rs_text_model_tokens *tokens, int32_t id, size_t begin, size_t bytes);

typedef struct rs_text_model rs_text_model;
typedef struct rs_text_model_work rs_text_model_work; /* scratch memory and a cache of words */

rs_status rs_text_model_read(rs_text_model **out, const rs_spec *spec, rs_error *err);
void rs_text_model_free(rs_text_model *model); /* NULL is fine */
const rs_vocabulary *rs_text_model_vocabulary(const rs_text_model *model);

/* Each makes a model without a tokenizer.json and takes over the vocabulary, on failure too. */
rs_status rs_text_model_wordpiece(rs_text_model **out, rs_vocabulary *vocabulary, int32_t unknown,
                                  rs_error *err);
/* A merge as files spell it: "left right". */
typedef struct rs_merge_text {
    const char *text;
    size_t length;
} rs_merge_text;
rs_status rs_text_model_bpe(rs_text_model **out, rs_vocabulary *vocabulary,
                            const rs_merge_text *merges, size_t n, bool whole_words,
                            const char *where, rs_error *err);
/* scores [n_ids] are taken over: SentencePiece's BPE merges by them, Unigram adds them up. */
rs_status rs_text_model_scored_bpe(rs_text_model **out, rs_vocabulary *vocabulary, float *scores,
                                   int32_t unknown, rs_error *err);
rs_status rs_text_model_unigram(rs_text_model **out, rs_vocabulary *vocabulary, double *scores,
                                int32_t unknown, bool byte_fallback, rs_error *err);

rs_status rs_text_model_work_new(rs_text_model_work **out, rs_error *err);
void rs_text_model_work_free(rs_text_model_work *work);
/* Appends the tokens of one piece. Errors: RS_E_TOKENIZER_TEXT (a character has no token and there
 * is no unknown token), RS_E_NO_MEMORY. */
rs_status rs_text_model_encode(rs_text_model_tokens *out, const rs_text_model *model,
                               rs_text_model_work *work, const char *text, size_t length,
                               rs_error *err);

/* ---- added tokens ---- */

/* A token that is found in texts as it is, before the model sees them. */
typedef struct rs_added_token {
    char *text;
    size_t length;
    char *normal; /* its text after normalising, if it is looked for so; decoding gives this */
    size_t normal_length;
    int32_t id;
    bool special, normalized, single_word, lstrip, rstrip;
} rs_added_token;

/* All of them, ready to be looked for. */
typedef struct rs_added_tokens {
    rs_added_token *items;
    size_t n, capacity;
    rs_trie raw, normal;                    /* tries of both texts; values are indices of items */
    bool raw_first[256], normal_first[256]; /* bytes that some token begins with */
    rs_pair_map by_id;                      /* from (id, 0) to the index of an item */
    rs_strmap by_text;                      /* from a text to the index of an item */
} rs_added_tokens;

/* Reads tokenizer.json's added_tokens, with the ids that the reference gives them. */
rs_status rs_added_tokens_read(rs_added_tokens *added, const rs_spec *spec,
                               const rs_vocabulary *vocabulary, rs_error *err);
rs_status rs_added_tokens_add(rs_added_tokens *added, const rs_added_token *token, const char *text,
                              size_t length, rs_error *err);
/* Builds the tries once all tokens are there. */
rs_status rs_added_tokens_finish(rs_added_tokens *added, const rs_normal_steps *normal,
                                 rs_error *err);
/* Cuts text[begin, end) at the tokens that are looked for raw, or after normalising. */
rs_status rs_added_tokens_cut(rs_pieces *pieces, const rs_added_tokens *added, bool normal,
                              const char *text, size_t begin, size_t end, rs_error *err);
const rs_added_token *rs_added_tokens_by_id(const rs_added_tokens *added, int32_t id);
const rs_added_token *rs_added_tokens_by_text(const rs_added_tokens *added, const char *text,
                                              size_t length);
void rs_added_tokens_free(rs_added_tokens *added);

/* ---- post-processors: ids before and after ---- */

/* A list of ids. Zero-initialise. */
typedef struct rs_ids {
    int32_t *items;
    size_t n, capacity;
} rs_ids;

/* The special tokens around a text. */
typedef struct rs_frame {
    rs_ids before, after;
} rs_frame;
rs_status rs_frame_read(rs_frame *frame, const rs_spec *spec, rs_error *err);
rs_status rs_ids_add(rs_ids *ids, int32_t id, rs_error *err);
void rs_frame_free(rs_frame *frame);

/* ---- decoders ---- */

typedef struct rs_decode_step rs_decode_step;

/* Texts of tokens that are decoded: one after the other in bytes, text i ends at ends[i]. */
typedef struct rs_decoded {
    rs_buffer bytes;
    size_t *ends;
    size_t n, capacity;
    size_t limit; /* most bytes that a step may make */
    bool failed;
} rs_decoded;

/* One change to the texts; fields that its kind does not name stay zero. */
struct rs_decode_step {
    rs_status (*run)(rs_decoded *out, const rs_decoded *in, const rs_decode_step *step,
                     rs_text_work *work, rs_error *err);
    rs_pattern *pattern; /* Replace */
    char *content;       /* Replace, WordPiece's prefix, Strip's character, BPEDecoder's suffix */
    size_t length;
    bool cleanup;  /* WordPiece */
    bool prepends; /* Metaspace */
    int64_t start, stop;
};

/* The steps of a decoder, in order. */
typedef struct rs_decode_steps {
    rs_decode_step *items;
    size_t n, capacity;
} rs_decode_steps;

rs_status rs_decode_steps_read(rs_decode_steps *steps, const rs_spec *spec, rs_error *err);
rs_status rs_decode_steps_bytes(rs_decode_steps *steps, rs_error *err);
rs_status rs_decode_steps_wordpiece(rs_decode_steps *steps, rs_error *err);
rs_status rs_decode_steps_sentencepiece(rs_decode_steps *steps, bool strip_first, rs_error *err);
rs_status rs_decode_steps_run(rs_decoded *texts, const rs_decode_steps *steps, rs_text_work *work,
                              rs_error *err);
void rs_decode_steps_free(rs_decode_steps *steps);
void rs_decoded_end(rs_decoded *texts); /* closes the text that was appended to bytes */
void rs_decoded_free(rs_decoded *texts);

/* ---- the whole ---- */

/* A tokenizer, part by part. */
struct rs_tokenizer {
    char *name;
    rs_normal_steps normal;
    rs_split_steps split;
    rs_text_model *model;
    rs_added_tokens added;
    rs_frame frame;
    rs_decode_steps decode;
    bool decodes; /* there is a decoder; without one tokens are joined by blanks */
    const volatile sig_atomic_t *cancel; /* may be NULL */
};

/* The normal form that a text is brought to before it is cut. */
typedef enum rs_words_form {
    RS_WORDS_RAW, /* nothing */
    RS_WORDS_NFC,
    RS_WORDS_OPEN /* nothing or NFC: texts for which that makes a difference are refused */
} rs_words_form;

/* How texts are cut under one name of tokenizer.ggml.pre. */
typedef struct rs_gguf_words {
    const char *name;
    const struct rs_word_step *steps;
    rs_words_form form;
    bool whole_words; /* a word that is a token is not built by merges (ignore_merges) */
    bool begins;      /* <bos> is added when the file does not say */
} rs_gguf_words;
/* gguf_words.c: finds a name; NULL when it is not known. */
const rs_gguf_words *rs_gguf_words_find(const char *name, size_t length);
rs_status rs_gguf_words_add(rs_tokenizer *tokenizer, const rs_gguf_words *words, const char *where,
                            rs_error *err);

/* tokenizer_gguf.c: reads the keys tokenizer.ggml.* of a mapped GGUF file. */
rs_status rs_tokenizer_read_gguf(rs_tokenizer *tokenizer, const char *path, const uint8_t *data,
                                 size_t size, rs_error *err);

#endif
