/* emit.h: pieces of JSON text, shared by the JSON and the HTML writer. */
#ifndef RS_REPORT_EMIT_H
#define RS_REPORT_EMIT_H

#include "report/result.h"

/* Writes a quoted JSON string. Bytes that are not UTF-8 become U+FFFD; '<', '>', '&', U+2028 and
 * U+2029 are written as \u escapes, so that the text can stand inside an HTML script element as it
 * is. NULL writes null. */
void rs_emit_string(rs_buffer *out, const char *text);
void rs_emit_real(rs_buffer *out, double value);     /* null when not finite */
void rs_emit_integer(rs_buffer *out, int64_t value); /* null for RS_NULL_INT */
/* Writes "key": with the comma before it unless *first, which it clears. */
void rs_emit_key(rs_buffer *out, const char *key, bool *first);
/* Writes any JSON value, compact, with members in their order of insertion. RS_E_INTERNAL where it
 * is nested deeper than 256. */
rs_status rs_emit_json(rs_buffer *out, const json_t *value, rs_error *err);
/* Writes one cell of a table. */
void rs_emit_cell(rs_buffer *out, const rs_table *table, size_t row, size_t column);

#endif
