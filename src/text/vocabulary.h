/* vocabulary.h: tokens and their ids, and the tables that models look things up in. */
#ifndef RS_TEXT_VOCABULARY_H
#define RS_TEXT_VOCABULARY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A token of a vocabulary. */
typedef struct rs_token {
    const char *text; /* in the vocabulary's arena, NUL-terminated; NULL: no token has this id */
    uint32_t length;
    bool plain; /* the model may make it out of text (not a control token of a GGUF file) */
} rs_token;

/* Tokens by id and, in a hash table, by text. */
typedef struct rs_vocabulary {
    rs_token *tokens; /* [n_ids] in the order of ids */
    size_t n_ids;     /* largest id + 1 */
    size_t count;     /* number of tokens */
    uint32_t longest; /* bytes of the longest token */
    uint64_t *slots;  /* [mask+1] upper half of the hash, id + 1; 0: free */
    size_t mask;
    struct rs_arena *arena;
} rs_vocabulary;

/* Makes room for `count` tokens with ids below n_ids. Errors: RS_E_NO_MEMORY. */
rs_status rs_vocabulary_init(rs_vocabulary *vocabulary, size_t count, size_t n_ids, rs_error *err);
void rs_vocabulary_free(rs_vocabulary *vocabulary);

/* Adds a token, which is copied. Errors: RS_E_TOKENIZER_VOCABULARY when the text or the id (which
 * is below n_ids) is there already; `where` names the file. */
rs_status rs_vocabulary_add(rs_vocabulary *vocabulary, const char *text, size_t length, int32_t id,
                            const char *where, rs_error *err);
/* Adds a token that may share its text with others: the last of them is found by it (Unigram). */
rs_status rs_vocabulary_put(rs_vocabulary *vocabulary, const char *text, size_t length, int32_t id,
                            const char *where, rs_error *err);

/* The id of a text; -1: there is none. */
int32_t rs_vocabulary_find(const rs_vocabulary *vocabulary, const char *text, size_t length);

/* The hash of a text can be had byte by byte: h = RS_HASH_START; h = rs_hash_byte(h, c) ... */
#define RS_HASH_START 0xcbf29ce484222325u
static inline uint64_t rs_hash_byte(uint64_t h, char c)
{
    return (h ^ (unsigned char)c) * 0x100000001b3u; /* FNV-1a */
}
/* The id of a text whose hash is known; -1: there is none. */
int32_t rs_vocabulary_find_hashed(const rs_vocabulary *vocabulary, const char *text, size_t length,
                                  uint64_t hash);

/* The id of the token <0xXX> for a byte; -1: there is none. */
int32_t rs_vocabulary_find_byte(const rs_vocabulary *vocabulary, unsigned char byte);

/* A hash table from pairs of 32-bit numbers to 64-bit values. Zero-initialise. */
typedef struct rs_pair_map {
    struct rs_pair_slot *slots;
    size_t capacity, count;
} rs_pair_map;

/* Sets the value of (a, b); a later one replaces an earlier. False when out of memory. */
bool rs_pair_map_set(rs_pair_map *map, uint32_t a, uint32_t b, uint64_t value);
bool rs_pair_map_get(const rs_pair_map *map, uint32_t a, uint32_t b, uint64_t *value);
/* Makes room for n pairs, so that no growing is needed; false when out of memory. */
bool rs_pair_map_reserve(rs_pair_map *map, size_t n);
void rs_pair_map_free(rs_pair_map *map);

enum { RS_TRIE_NONE = -1 }; /* the value of a node where no key ends */
/* A trie over bytes whose root is node 0. Zero-initialise. */
typedef struct rs_trie {
    rs_pair_map edges; /* from (node, byte) to the child */
    int32_t *values;   /* [n] values of the keys that end at each node */
    size_t n, capacity;
} rs_trie;

/* Adds a key; where it is there already, its value changes only with `replace`. False when out of
 * memory. */
bool rs_trie_add(rs_trie *trie, const char *key, size_t length, int32_t value, bool replace);
/* The child of a node; 0: there is none. */
uint32_t rs_trie_step(const rs_trie *trie, uint32_t node, char c);
void rs_trie_free(rs_trie *trie);

#endif
