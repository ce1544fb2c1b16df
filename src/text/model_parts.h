/* model_parts.h: what WordPiece, BPE and Unigram share; nobody else needs it. */
#ifndef RS_TEXT_MODEL_PARTS_H
#define RS_TEXT_MODEL_PARTS_H

#include "text/steps.h"

/* A symbol of a word in the making: a stretch of it and its neighbours. */
typedef struct rs_symbol {
    uint32_t begin, length; /* length 0: it was merged into the one before */
    int32_t previous, next; /* -1: there is none */
    int32_t id;             /* -1: it is no token of its own */
} rs_symbol;

/* A pair of symbols that could be merged; the one of smallest order is the next. */
typedef struct rs_candidate {
    uint64_t order; /* priority, then position of the left symbol */
    int32_t id;     /* token that both make together */
} rs_candidate;

/* The end of the best path to a place in the text. */
typedef struct rs_path_end {
    double score;
    uint32_t begin; /* where its last token begins; RS_NO_PATH: the place cannot be reached */
    int32_t id;
} rs_path_end;
#define RS_NO_PATH UINT32_MAX

/* The most bytes of a token that WordPiece looks for. */
enum { RS_WORDPIECE_LONGEST = 1024 };

/* What one call of encode needs of its own. */
struct rs_text_model_work {
    rs_symbol *symbols;
    size_t n_symbols, symbol_capacity;
    rs_candidate *heap;
    size_t n_heap, heap_capacity;
    rs_path_end *paths;
    size_t path_capacity;
    rs_buffer word; /* holds a character with prefix and suffix */
    struct rs_word_cache *cache;
};

/* A model of any kind; the parts of other kinds stay zero. */
struct rs_text_model {
    rs_vocabulary vocabulary;
    int32_t unknown; /* id of the unknown token; -1: there is none */
    rs_status (*encode)(rs_text_model_tokens *out, const rs_text_model *model,
                        rs_text_model_work *work, const char *text, size_t length, rs_error *err);
    /* WordPiece, BPE */
    char *prefix; /* what pieces that continue a word begin with; NULL: nothing */
    size_t prefix_length;
    char *suffix; /* what the last piece of a word ends with; NULL: nothing */
    size_t suffix_length;
    int64_t max_characters; /* WordPiece: longer words are unknown */
    /* BPE */
    rs_pair_map merges; /* from (left id, right id) to rank << 32 | id of both together */
    bool fuse_unknown, byte_fallback, whole_words;
    float *scores; /* [n_ids] merging goes by these; NULL: by rank */
    /* A word may be cut before "▁" when it stands behind a byte that no token has before it: no
     * merge can cross there. cuts: the cutting is allowed at all. */
    bool cuts;
    bool before_mark[256];
    /* Unigram */
    rs_trie trie;
    double *path_scores; /* [n_ids] logarithms of the tokens' probabilities */
    double unknown_score;
    int32_t byte_ids[256]; /* ids of <0x00> to <0xFF>; -1: there is no such token */
};

/* Fills byte_ids. */
void rs_text_model_find_bytes(rs_text_model *model);

/* Makes an empty model that takes the vocabulary over. NULL: out of memory, and it is freed. */
rs_text_model *rs_text_model_new(rs_vocabulary *vocabulary);

rs_status rs_wordpiece_encode(rs_text_model_tokens *out, const rs_text_model *model,
                              rs_text_model_work *work, const char *text, size_t length,
                              rs_error *err);
rs_status rs_bpe_encode(rs_text_model_tokens *out, const rs_text_model *model,
                        rs_text_model_work *work, const char *text, size_t length, rs_error *err);
rs_status rs_unigram_encode(rs_text_model_tokens *out, const rs_text_model *model,
                            rs_text_model_work *work, const char *text, size_t length,
                            rs_error *err);

/* bpe.c: adds a merge of that rank, given by the texts of its sides. */
rs_status rs_bpe_add_merge(rs_text_model *model, const char *left, size_t left_length,
                           const char *right, size_t right_length, size_t rank, const char *where,
                           rs_error *err);
/* bpe.c: works out where words may be cut. */
void rs_bpe_find_cuts(rs_text_model *model);
/* unigram.c: builds the trie and works out the score of the unknown token. */
rs_status rs_unigram_build(rs_text_model *model, rs_error *err);

#endif
