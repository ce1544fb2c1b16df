/* unicode.h: how wide text stands in a terminal. */
#ifndef RS_REPORT_UNICODE_H
#define RS_REPORT_UNICODE_H

#include "base/text.h"

/* The columns that a character takes in a terminal: 2 for wide East Asian characters and emoji,
 * otherwise 1. Combining marks count as 1, so that a width is never too small. */
int rs_width_of(uint32_t point);
int rs_text_width(const char *text, size_t length);

#endif
