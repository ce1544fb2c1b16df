/* vocabulary.c: the hash of tokens, pairs of ids, and the trie. */
#include "text/vocabulary.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* The finaliser of MurmurHash3: spreads what FNV leaves in the high bits. */
static uint64_t finish_hash(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 33);
}

static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t h = RS_HASH_START;
    for (size_t i = 0; i < length; i++)
        h = rs_hash_byte(h, text[i]);
    return h;
}

/* ---- tokens ---- */

rs_status rs_vocabulary_init(rs_vocabulary *vocabulary, size_t count, size_t n_ids, rs_error *err)
{
    size_t slots = 16;
    *vocabulary = (rs_vocabulary){.n_ids = n_ids};
    while (slots / 2 < count)
        slots *= 2;
    vocabulary->mask = slots - 1;
    vocabulary->slots = rs_calloc(slots, sizeof *vocabulary->slots);
    vocabulary->tokens = rs_calloc(n_ids, sizeof *vocabulary->tokens);
    vocabulary->arena = rs_arena_new();
    if (vocabulary->slots && vocabulary->tokens && vocabulary->arena) return RS_OK;
    rs_vocabulary_free(vocabulary);
    return rs_fail_memory(err, "the vocabulary", count * sizeof(uint64_t));
}

void rs_vocabulary_free(rs_vocabulary *vocabulary)
{
    rs_free(vocabulary->slots);
    rs_free(vocabulary->tokens);
    rs_arena_free(vocabulary->arena);
    *vocabulary = (rs_vocabulary){0};
}

/* The slot that holds the text, or the free one where it belongs. */
static uint64_t *slot_of(const rs_vocabulary *vocabulary, const char *text, size_t length,
                         uint64_t hash)
{
    for (size_t i = (size_t)hash & vocabulary->mask;; i = (i + 1) & vocabulary->mask) {
        uint64_t slot = vocabulary->slots[i];
        if (!slot) return &vocabulary->slots[i];
        if (slot >> 32 != hash >> 32) continue;
        const rs_token *token = &vocabulary->tokens[(uint32_t)slot - 1];
        if (token->length == length && memcmp(token->text, text, length) == 0)
            return &vocabulary->slots[i];
    }
}

static rs_status add_token(rs_vocabulary *vocabulary, const char *text, size_t length, int32_t id,
                           bool replace, const char *where, rs_error *err)
{
    rs_token *token = &vocabulary->tokens[id];
    int shown = length < 60 ? (int)length : 60;
    if (token->text)
        return rs_fail(err, RS_E_TOKENIZER_VOCABULARY, where, "the file is damaged",
                       "id %d belongs to two tokens, '%s' and '%.*s'", id, token->text, shown,
                       text);
    uint64_t hash = finish_hash(hash_of(text, length));
    uint64_t *slot = slot_of(vocabulary, text, length, hash);
    if (*slot && !replace)
        return rs_fail(err, RS_E_TOKENIZER_VOCABULARY, where, "the file is damaged",
                       "token '%.*s' has two ids, %u and %d", shown, text, (uint32_t)*slot - 1, id);
    char *copy = rs_arena_strndup(vocabulary->arena, text, length);
    if (!copy) return rs_fail_memory(err, "the vocabulary", length);
    *token = (rs_token){.text = copy, .length = (uint32_t)length, .plain = true};
    *slot = (hash >> 32) << 32 | (uint32_t)(id + 1);
    vocabulary->count++;
    if (length > vocabulary->longest) vocabulary->longest = (uint32_t)length;
    return RS_OK;
}

rs_status rs_vocabulary_add(rs_vocabulary *vocabulary, const char *text, size_t length, int32_t id,
                            const char *where, rs_error *err)
{
    return add_token(vocabulary, text, length, id, false, where, err);
}

rs_status rs_vocabulary_put(rs_vocabulary *vocabulary, const char *text, size_t length, int32_t id,
                            const char *where, rs_error *err)
{
    return add_token(vocabulary, text, length, id, true, where, err);
}

int32_t rs_vocabulary_find_hashed(const rs_vocabulary *vocabulary, const char *text, size_t length,
                                  uint64_t hash)
{
    uint64_t slot = *slot_of(vocabulary, text, length, finish_hash(hash));
    return slot ? (int32_t)((uint32_t)slot - 1) : -1;
}

int32_t rs_vocabulary_find(const rs_vocabulary *vocabulary, const char *text, size_t length)
{
    return rs_vocabulary_find_hashed(vocabulary, text, length, hash_of(text, length));
}

int32_t rs_vocabulary_find_byte(const rs_vocabulary *vocabulary, unsigned char byte)
{
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", byte);
    return rs_vocabulary_find(vocabulary, name, 6);
}

/* ---- pairs ---- */

struct rs_pair_slot {
    uint64_t key; /* plus one, so that 0 is a free slot: the largest key is never used */
    uint64_t value;
};

static uint64_t key_of(uint32_t a, uint32_t b)
{
    return ((uint64_t)a << 32 | b) + 1;
}

static struct rs_pair_slot *pair_slot(const rs_pair_map *map, uint64_t key)
{
    size_t mask = map->capacity - 1;
    for (size_t i = (size_t)finish_hash(key) & mask;; i = (i + 1) & mask)
        if (map->slots[i].key == key || map->slots[i].key == 0) return &map->slots[i];
}

static bool resize(rs_pair_map *map, size_t capacity)
{
    rs_pair_map bigger = {.capacity = capacity, .count = map->count};
    bigger.slots = rs_calloc(capacity, sizeof *bigger.slots);
    if (!bigger.slots) return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key) *pair_slot(&bigger, map->slots[i].key) = map->slots[i];
    rs_free(map->slots);
    *map = bigger;
    return true;
}

bool rs_pair_map_reserve(rs_pair_map *map, size_t n)
{
    size_t capacity = 16;
    while (capacity / 2 <= n)
        capacity *= 2;
    return capacity <= map->capacity || resize(map, capacity);
}

bool rs_pair_map_set(rs_pair_map *map, uint32_t a, uint32_t b, uint64_t value)
{
    if (map->count >= map->capacity / 2 && !resize(map, map->capacity ? map->capacity * 2 : 16))
        return false;
    struct rs_pair_slot *slot = pair_slot(map, key_of(a, b));
    if (!slot->key) map->count++;
    *slot = (struct rs_pair_slot){key_of(a, b), value};
    return true;
}

bool rs_pair_map_get(const rs_pair_map *map, uint32_t a, uint32_t b, uint64_t *value)
{
    if (!map->capacity) return false;
    const struct rs_pair_slot *slot = pair_slot(map, key_of(a, b));
    *value = slot->value;
    return slot->key != 0;
}

void rs_pair_map_free(rs_pair_map *map)
{
    rs_free(map->slots);
    *map = (rs_pair_map){0};
}

/* ---- trie ---- */

static bool new_node(rs_trie *trie)
{
    if (!RS_GROW(trie->values, trie->n, trie->capacity)) return false;
    trie->values[trie->n++] = RS_TRIE_NONE;
    return true;
}

uint32_t rs_trie_step(const rs_trie *trie, uint32_t node, char c)
{
    uint64_t child;
    return rs_pair_map_get(&trie->edges, node, (unsigned char)c, &child) ? (uint32_t)child : 0;
}

bool rs_trie_add(rs_trie *trie, const char *key, size_t length, int32_t value, bool replace)
{
    if (trie->n == 0 && !new_node(trie)) return false;
    uint32_t node = 0;
    for (size_t i = 0; i < length; i++) {
        uint32_t child = rs_trie_step(trie, node, key[i]);
        if (!child) {
            child = (uint32_t)trie->n;
            if (!new_node(trie) ||
                !rs_pair_map_set(&trie->edges, node, (unsigned char)key[i], child))
                return false;
        }
        node = child;
    }
    if (replace || trie->values[node] == RS_TRIE_NONE) trie->values[node] = value;
    return true;
}

void rs_trie_free(rs_trie *trie)
{
    rs_pair_map_free(&trie->edges);
    rs_free(trie->values);
    *trie = (rs_trie){0};
}
