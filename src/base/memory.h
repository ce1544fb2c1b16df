/*
 * memory.h: the one place that asks the system for memory.
 *
 * All of rankscope's own memory goes through these functions, so that sizes are overflow-checked
 * once, peak use is known, and a test can make the n-th request fail (rs_memory_fail_at).
 */
#ifndef RS_BASE_MEMORY_H
#define RS_BASE_MEMORY_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* A block of n*size bytes aligned to 64 (uninitialised; zeroed by rs_calloc); NULL when that
 * overflows or memory is out. n*size = 0 gives a unique pointer. */
void *rs_malloc(size_t n, size_t size);
void *rs_calloc(size_t n, size_t size);
/* Grows or shrinks a block; on failure the old block stays. */
void *rs_realloc(void *block, size_t n, size_t size);
void rs_free(void *block);
char *rs_strdup(const char *text);

/* Test hook: makes the n-th request from now fail (1 = the next one), and all after it; 0 switches
 * it off. */
void rs_memory_fail_at(int64_t n);
/* Test hook: makes the n-th request alone fail, so that what it leaves damaged unseen reaches the
 * end. */
void rs_memory_fail_once(int64_t n);
/* The number of requests since the process began: how far a walk of failures has to go. */
int64_t rs_memory_requests(void);
/* The number of blocks that were requested and not yet freed. */
int64_t rs_memory_blocks(void);

/*
 * The sticky flag: how many requests of this thread have failed since it began, whoever made them:
 * rankscope, PCRE2 (text/pattern.c) or jansson (once rs_memory_watch_json has run). jansson does
 * not report every failure of its own: a member that could not be added is absent (for its parser
 * see json_parse.h). So whoever finishes a piece of work compares the number with what
 * it was before: rs_memory_check is RS_E_NO_MEMORY where it has grown.
 */
int64_t rs_memory_failures(void);
rs_status rs_memory_check(int64_t failures_before, const char *what, rs_error *err);
/* For requests that go through other functions than those above: rs_memory_allowed is false where
 * this one is to fail, rs_memory_note is told how it ended (NULL: it failed), rs_memory_forget that
 * a block was freed. */
bool rs_memory_allowed(void);
void *rs_memory_note(void *block);
void rs_memory_forget(const void *block);

/*
 * Has jansson's allocations counted (memory_json.c). Its functions, the host program's own where it
 * has set some, are wrapped, not replaced: blocks come from where they came from before. Once a
 * process, whoever calls first; thread safe.
 */
void rs_memory_watch_json(void);
/* Frees a text that json_dumps made. */
void rs_memory_free_json(char *text);

/*
 * An arena: many small blocks with one lifetime. Not thread safe. Blocks are aligned to 16 bytes
 * and never freed singly.
 */
typedef struct rs_arena rs_arena;
rs_arena *rs_arena_new(void); /* NULL when out of memory */
void rs_arena_free(rs_arena *arena);
/* Zeroed memory, or a copy of a text; NULL when out of memory or n*size overflows. */
void *rs_arena_alloc(rs_arena *arena, size_t n, size_t size);
char *rs_arena_strdup(rs_arena *arena, const char *text);
char *rs_arena_strndup(rs_arena *arena, const char *text, size_t length);
char *rs_arena_printf(rs_arena *arena, const char *format, ...) RS_PRINTF(2, 3);

/* *product = a*b, *sum = a+b; false when it does not fit. */
bool rs_size_mul(size_t a, size_t b, size_t *product);
bool rs_size_add(size_t a, size_t b, size_t *sum);

/*
 * Grows an array held as (pointer, count, capacity) so that one more element fits; doubles. Returns
 * false when out of memory (the array is unchanged).  RS_GROW(list->items, list->n, list->capacity)
 */
bool rs_grow(void **items, size_t count, size_t *capacity, size_t element_size);
#define RS_GROW(items, count, capacity)                                                            \
    rs_grow((void **)&(items), (count), &(capacity), sizeof *(items))

#endif
