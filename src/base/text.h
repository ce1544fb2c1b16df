/* text.h: a growing byte buffer, a string-keyed hash, and small text checks. */
#ifndef RS_BASE_TEXT_H
#define RS_BASE_TEXT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* A growing buffer of bytes, always terminated by a NUL that is not counted. A failed append sets
 * `failed` and every later append is ignored, so that a writer checks once at the end.
 * Zero-initialise; rs_buffer_free releases. */
typedef struct rs_buffer {
    char *data;
    size_t length;
    size_t capacity;
    bool failed;
} rs_buffer;

void rs_buffer_free(rs_buffer *buffer);
void rs_buffer_append(rs_buffer *buffer, const char *bytes, size_t length);
void rs_buffer_puts(rs_buffer *buffer, const char *text);
void rs_buffer_printf(rs_buffer *buffer, const char *format, ...) RS_PRINTF(2, 3);

/* Maps strings to int64 values; keys are borrowed (they must outlive the map). Zero-initialise;
 * linear-time, seeded per process start with a fixed odd multiplier plus length mixing (FNV-1a 64
 * then a finaliser), so hostile keys cost O(n) expected. */
typedef struct rs_strmap {
    struct rs_strmap_slot *slots;
    size_t capacity, count;
} rs_strmap;

/* Inserts a key; *existed tells whether it was there, with a value that is left unchanged. False
 * when out of memory. */
bool rs_strmap_insert(rs_strmap *map, const char *key, size_t length, int64_t value, bool *existed);
/* The value of a key, or `absent`. */
int64_t rs_strmap_get(const rs_strmap *map, const char *key, size_t length, int64_t absent);
void rs_strmap_free(rs_strmap *map);

/* Whether two texts are equal; each may be NULL. */
bool rs_text_same(const char *a, const char *b);

/* True when the bytes are well-formed UTF-8 (no surrogates, no overlong forms, nothing above
 * U+10FFFF). */
bool rs_utf8_valid(const char *bytes, size_t length);

#define RS_REPLACEMENT 0xFFFDu

/* How many bytes the next character takes (at least 1; length must be at least 1). *point is its
 * code point, or RS_REPLACEMENT for a byte that is not well-formed UTF-8. */
size_t rs_utf8_next(const char *bytes, size_t length, uint32_t *point);
/* Writes the code point as UTF-8; returns the bytes written (1 to 4). */
size_t rs_utf8_put(char out[4], uint32_t point);

/* Whether a terminal acts on the character, or it hides or reorders the text around it: controls of
 * either range, bidirectional marks and overrides, invisible separators, annotations, tags. */
bool rs_point_is_dangerous(uint32_t point);
/* Makes text that may come from a hostile file safe to print, in place: '?' for what is dangerous
 * and for bytes that are not UTF-8. */
void rs_text_clean(char *text);

/* The known name nearest to `name`; known ends with NULL and holds at least one name. */
const char *rs_nearest_name(const char *name, const char *const *known);

#endif
