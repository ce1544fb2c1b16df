/* memory.c: checked allocation, a failure hook for tests, arenas. */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int_fast64_t requests, blocks;
static atomic_int_fast64_t fail_from; /* request number from which they fail; 0 = never */
static atomic_int_fast64_t fail_to;   /* the last that does */
static _Thread_local int64_t failures;

bool rs_size_mul(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

bool rs_size_add(size_t a, size_t b, size_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

static void fail_between(int64_t n, int64_t last)
{
    int64_t now = atomic_load(&requests);
    atomic_store(&fail_to, last == INT64_MAX ? last : now + last);
    atomic_store(&fail_from, n > 0 ? now + n : 0);
}

void rs_memory_fail_at(int64_t n)
{
    fail_between(n, INT64_MAX);
}

void rs_memory_fail_once(int64_t n)
{
    fail_between(n, n);
}

int64_t rs_memory_requests(void)
{
    return atomic_load(&requests);
}

int64_t rs_memory_blocks(void)
{
    return atomic_load(&blocks);
}

int64_t rs_memory_failures(void)
{
    return failures;
}

rs_status rs_memory_check(int64_t failures_before, const char *what, rs_error *err)
{
    return failures == failures_before ? RS_OK : rs_fail_memory(err, what, 0);
}

bool rs_memory_allowed(void)
{
    int64_t number = atomic_fetch_add(&requests, 1) + 1;
    int64_t from = atomic_load(&fail_from);
    return from == 0 || number < from || number > atomic_load(&fail_to);
}

void *rs_memory_note(void *block)
{
    if (block)
        atomic_fetch_add(&blocks, 1);
    else
        failures++;
    return block;
}

void rs_memory_forget(const void *block)
{
    if (block) atomic_fetch_sub(&blocks, 1);
}

static void *aligned(size_t n, size_t size)
{
    size_t bytes;
    void *block = NULL;
    if (!rs_size_mul(n, size, &bytes)) return NULL;
    return posix_memalign(&block, 64, bytes ? bytes : 1) == 0 ? block : NULL;
}

void *rs_malloc(size_t n, size_t size)
{
    return rs_memory_note(rs_memory_allowed() ? aligned(n, size) : NULL);
}

void *rs_calloc(size_t n, size_t size)
{
    void *block = rs_malloc(n, size);
    if (block) memset(block, 0, n * size);
    return block;
}

void *rs_realloc(void *block, size_t n, size_t size)
{
    size_t bytes;
    bool allowed = rs_memory_allowed(), had = block != NULL;
    void *grown =
        allowed && rs_size_mul(n, size, &bytes) ? realloc(block, bytes ? bytes : 1) : NULL;
    if (grown && had) atomic_fetch_sub(&blocks, 1);
    return rs_memory_note(grown);
}

void rs_free(void *block)
{
    rs_memory_forget(block);
    free(block);
}

char *rs_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = rs_malloc(size, 1);
    if (copy) memcpy(copy, text, size);
    return copy;
}

bool rs_grow(void **items, size_t count, size_t *capacity, size_t element_size)
{
    if (count < *capacity) return true;
    size_t wanted = *capacity ? *capacity : 8;
    if (*capacity && !rs_size_mul(*capacity, 2, &wanted)) return false;
    void *grown = rs_realloc(*items, wanted, element_size);
    if (!grown) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

/* ---- arena: a list of chunks, newest first; each at least as large as what is asked for ---- */

#define CHUNK_BYTES ((size_t)64 * 1024)
#define ALIGNMENT ((size_t)16)

typedef struct chunk {
    struct chunk *next;
    size_t used, size; /* bytes of data */
} chunk;

/* A chunk's data begin behind its header, rounded up to the alignment. */
#define CHUNK_HEADER ((sizeof(chunk) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

struct rs_arena {
    chunk *chunks;
};

rs_arena *rs_arena_new(void)
{
    return rs_calloc(1, sizeof(rs_arena));
}

void rs_arena_free(rs_arena *arena)
{
    if (!arena) return;
    for (chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        rs_free(c);
    }
    rs_free(arena);
}

void *rs_arena_alloc(rs_arena *arena, size_t n, size_t size)
{
    size_t bytes, padded;
    if (!rs_size_mul(n, size, &bytes) || !rs_size_add(bytes, ALIGNMENT - 1, &padded)) return NULL;
    padded = padded / ALIGNMENT * ALIGNMENT;
    if (padded == 0) padded = ALIGNMENT;
    chunk *c = arena->chunks;
    if (!c || c->size - c->used < padded) {
        size_t data = padded > CHUNK_BYTES ? padded : CHUNK_BYTES, total;
        if (!rs_size_add(data, CHUNK_HEADER, &total)) return NULL;
        chunk *fresh = rs_malloc(total, 1);
        if (!fresh) return NULL;
        *fresh = (chunk){.next = c, .size = data};
        arena->chunks = c = fresh;
    }
    void *block = (char *)c + CHUNK_HEADER + c->used;
    c->used += padded;
    memset(block, 0, bytes);
    return block;
}

char *rs_arena_strndup(rs_arena *arena, const char *text, size_t length)
{
    size_t size;
    if (!rs_size_add(length, 1, &size)) return NULL;
    char *copy = rs_arena_alloc(arena, size, 1);
    if (copy) memcpy(copy, text, length);
    return copy;
}

char *rs_arena_strdup(rs_arena *arena, const char *text)
{
    return rs_arena_strndup(arena, text, strlen(text));
}

char *rs_arena_printf(rs_arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) return NULL;
    char *text = rs_arena_alloc(arena, (size_t)length + 1, 1);
    if (!text) return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}
