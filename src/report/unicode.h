/* unicode.h: walking UTF-8 that may be broken, and how wide text stands in a terminal. */
#ifndef RS_REPORT_UNICODE_H
#define RS_REPORT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#define RS_REPLACEMENT 0xFFFDu

/* The bytes that the next character takes (at least 1; length must be at least 1). *point is its
 * code point, or RS_REPLACEMENT for a byte that is not well-formed UTF-8. */
size_t rs_utf8_next(const char *bytes, size_t length, uint32_t *point);

/* Writes the code point as UTF-8; returns the bytes written (1 to 4). */
size_t rs_utf8_put(char out[4], uint32_t point);

/* Columns of a terminal: 2 for wide East Asian characters and emoji, otherwise 1. Combining marks
 * count as 1, so that a width is never too small. */
int rs_width_of(uint32_t point);
int rs_text_width(const char *text, size_t length);

#endif
