/* memory_json.c: jansson's requests, counted with our own. */
#include "base/memory.h"

#include <jansson.h>
#include <pthread.h>

static json_malloc_t allocate;
static json_free_t release;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *watched(size_t bytes)
{
    return rs_memory_note(rs_memory_allowed() ? allocate(bytes) : NULL);
}

static void unwatched(void *block)
{
    rs_memory_forget(block);
    release(block);
}

static void watch(void)
{
    json_get_alloc_funcs(&allocate, &release);
    json_set_alloc_funcs(watched, unwatched);
}

void rs_memory_watch_json(void)
{
    pthread_once(&once, watch);
}

void rs_memory_free_json(char *text)
{
    json_malloc_t ignored;
    json_free_t free_text;
    json_get_alloc_funcs(&ignored, &free_text);
    if (text) free_text(text);
}
