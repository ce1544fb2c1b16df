/* memory_json.c: jansson's requests, counted with our own, and its parser (see json_parse.h). */
#include "base/json_parse.h"
#include "base/memory.h"

#include <pthread.h>
#include <string.h>

/* A text while it is parsed. */
typedef struct source {
    const char *next;
    size_t left;
    size_t largest; /* bytes that the text of a token may ask for at once */
    void *reserve;  /* for that request and the small ones around it; NULL once spent */
    bool refused;
} source;

/* Behind a refusal the parser is told nothing new; what it was told before is at most this long,
 * and needs no more than SPARE bytes beside a token's text. */
#define CHUNK ((size_t)256)
#define SPARE ((size_t)64 * 1024)

static json_malloc_t allocate;
static json_free_t release;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static _Thread_local source *parsed;

/* A block for a request that was refused. Only one too large for a token's text gets none: lists
 * and tables, which may be larger, are checked by jansson. */
static void *anyway(source *s, size_t bytes)
{
    void *block = allocate(bytes);
    s->refused = true;
    if (block || bytes > s->largest) return block;
    rs_free(s->reserve);
    s->reserve = NULL;
    return allocate(bytes);
}

static void *watched(size_t bytes)
{
    void *block = rs_memory_note(rs_memory_allowed() ? allocate(bytes) : NULL);
    if (block || !parsed) return block;
    block = anyway(parsed, bytes);
    return block ? rs_memory_note(block) : NULL;
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

/* ---- the parser ---- */

static size_t string_end(const char *text, size_t length, size_t i)
{
    for (i++; i < length && text[i] != '"'; i++)
        if (text[i] == '\\') i++;
    return i < length ? i + 1 : length;
}

/* At least the length of the longest string, number or word. */
static size_t longest_token(const char *text, size_t length)
{
    size_t longest = 0;
    for (size_t i = 0, from = 0; i < length;) {
        bool string = text[i] == '"';
        if (string) from = i;
        i = string ? string_end(text, length, i) : i + 1;
        if (i - from > longest) longest = i - from;
        if (string || strchr("{}[]:, \t\r\n", text[i - 1])) from = i;
    }
    return longest;
}

static size_t read_chunk(void *to, size_t most, void *from)
{
    source *s = from;
    size_t n = s->left < CHUNK ? s->left : CHUNK;
    if (s->refused) return 0;
    if (n > most) n = most;
    memcpy(to, s->next, n);
    s->next += n;
    s->left -= n;
    return n;
}

json_t *rs_json_parse(const char *text, size_t length, size_t flags, json_error_t *error)
{
    rs_memory_watch_json();
    /* jansson doubles what a token's text has, from 16 bytes. */
    size_t largest = 2 * (longest_token(text, length) + CHUNK);
    source s = {text, length, largest, rs_malloc(largest + SPARE, 1), false};
    if (!s.reserve) return NULL;
    parsed = &s;
    json_t *json = json_load_callback(read_chunk, &s, flags, error);
    parsed = NULL;
    rs_free(s.reserve);
    if (!s.refused) return json;
    json_decref(json);
    return NULL;
}
