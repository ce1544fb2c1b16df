/*
 * tokenizer.h: text to the token ids that a model was trained on, and back.
 *
 * A tokenizer is data, as its files say: a normaliser, a pre-tokeniser, a model (WordPiece,
 * byte-level BPE, Unigram or BPE of SentencePiece) and a post-processor that adds special tokens.
 * The result equals that of the Hugging Face `tokenizers` package on the same tokenizer.json, id
 * for id; a step this program does not know is refused by its name, never skipped.
 */
#ifndef RS_TEXT_TOKENIZER_H
#define RS_TEXT_TOKENIZER_H

#include "base/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rs_tokenizer rs_tokenizer;

/*
 * Opens the tokenizer of a model: PATH is a directory with tokenizer.json, that file itself, or a
 * GGUF file (its tokenizer.ggml.* keys). RS_E_TOKENIZER_* errors name the file and the JSON path of
 * what is missing or unknown.
 */
rs_status rs_tokenizer_open(rs_tokenizer **out, const char *path, rs_error *err);
void rs_tokenizer_close(rs_tokenizer *tokenizer); /* NULL is fine */
/* Has encoding and decoding end with RS_E_INTERRUPTED once the context is cancelled; its flag must
 * outlive the tokenizer. NULL is fine. */
void rs_tokenizer_watch(rs_tokenizer *tokenizer, const rs_context *context);

/* Opens a tokenizer from the text of a tokenizer.json; `name` is for messages. Fuzz target. */
rs_status rs_tokenizer_parse(rs_tokenizer **out, const char *name, const char *json, size_t length,
                             rs_error *err);

/* A text as tokens. */
typedef struct rs_token_ids {
    int32_t *ids;  /* [n] */
    size_t *begin; /* [n] byte of the text where each token begins */
    size_t *end;   /* [n] byte behind it; = begin for special tokens that were added */
    size_t n;
} rs_token_ids;
void rs_token_ids_free(rs_token_ids *ids);

/*
 * Encodes length bytes of text. Broken UTF-8 is replaced as Python's decode(errors="replace") does
 * (one U+FFFD for each maximal ill-formed part), which is what a reference fed from a file would
 * see. Special tokens spelled out in the text are recognised as the reference does. special:
 * whether the post-processor adds its tokens ([CLS] ... [SEP], <bos>). Linear time in the text for
 * a fixed vocabulary (long words included); regular expressions that take more steps than that end
 * in RS_E_TOKENIZER_LIMIT.
 */
rs_status rs_tokenizer_encode(rs_token_ids *out, const rs_tokenizer *tokenizer, const char *text,
                              size_t length, bool special, rs_error *err);

/*
 * The ids of a text of any length, without special tokens: those that rs_tokenizer_encode gives, by
 * pieces of `piece` bytes (0: 4 MiB) that overlap, so that a long text needs little more memory than
 * its ids. Where two pieces do not agree about their overlap (one word of a megabyte), the whole text
 * is tokenised at once. *ids is freed by rs_free.
 */
rs_status rs_tokenizer_encode_long(int32_t **ids, size_t *n, const rs_tokenizer *tokenizer,
                                   const char *text, size_t length, size_t piece, rs_error *err);

/* How many special tokens the post-processor puts before and after one sequence, and their ids
 * (borrowed). Windows of a long text get these around them. */
void rs_tokenizer_specials(const rs_tokenizer *tokenizer, const int32_t **before, size_t *n_before,
                           const int32_t **after, size_t *n_after);

int64_t rs_tokenizer_vocabulary(const rs_tokenizer *tokenizer); /* largest id + 1 */
/* The text of a token as the vocabulary spells it, or NULL. */
const char *rs_tokenizer_token(const rs_tokenizer *tokenizer, int32_t id);
int32_t rs_tokenizer_id(const rs_tokenizer *tokenizer, const char *token); /* -1: none */
/* Makes the text of n ids, without special tokens when skip_special; NUL-terminated, and freed by
 * the caller by rs_free. */
rs_status rs_tokenizer_decode(char **text, const rs_tokenizer *tokenizer, const int32_t *ids,
                              size_t n, bool skip_special, rs_error *err);

#endif
