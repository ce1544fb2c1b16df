/* memory.c: checked allocation, a failure hook for tests, arenas. */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int_fast64_t requests;
static atomic_int_fast64_t fail_at; /* request number from which all fail; 0 = never */

bool rs_size_mul(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

bool rs_size_add(size_t a, size_t b, size_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

void rs_memory_fail_at(int64_t n)
{
    atomic_store(&fail_at, n > 0 ? atomic_load(&requests) + n : 0);
}

int64_t rs_memory_requests(void)
{
    return atomic_load(&requests);
}

static bool refused(void)
{
    int64_t number = atomic_fetch_add(&requests, 1) + 1;
    int64_t limit = atomic_load(&fail_at);
    return limit > 0 && number >= limit;
}

void *rs_malloc(size_t n, size_t size)
{
    size_t bytes;
    if (refused() || !rs_size_mul(n, size, &bytes)) return NULL;
    void *block = NULL;
    if (posix_memalign(&block, 64, bytes ? bytes : 1) != 0) return NULL;
    return block;
}

void *rs_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (!rs_size_mul(n, size, &bytes)) return NULL;
    void *block = rs_malloc(n, size);
    if (block) memset(block, 0, bytes);
    return block;
}

void *rs_realloc(void *block, size_t n, size_t size)
{
    size_t bytes;
    if (refused() || !rs_size_mul(n, size, &bytes)) return NULL;
    return realloc(block, bytes ? bytes : 1);
}

void rs_free(void *block)
{
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
