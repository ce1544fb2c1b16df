/*
 * json_text.h: one strict way to read a JSON text. What jansson would let through (depth, a file
 * that stands for a missing one) is refused here, and its failures become statuses with line and
 * column.
 */
#ifndef RS_CHECKPOINT_JSON_TEXT_H
#define RS_CHECKPOINT_JSON_TEXT_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

/* What a text may hold. */
typedef struct rs_json_rules {
    size_t max_depth; /* objects and arrays inside each other */
    bool allow_nul;   /* strings (never keys) may hold \u0000; the caller checks them */
    bool non_finite;  /* bare NaN and infinities, as Python writes them, become {"__float__": "NaN"}
                         and so on */
} rs_json_rules;

/*
 * Parses text[0..length) into *out, owned by the caller. Any JSON value is accepted at the top.
 * Errors: RS_E_EMPTY_FILE, RS_E_LFS_POINTER, RS_E_UNSUPPORTED (over 100 MB), RS_E_JSON_DEPTH,
 * RS_E_JSON_DUPLICATE_KEY, RS_E_JSON_INTEGER (outside int64), RS_E_JSON_SYNTAX, RS_E_NO_MEMORY.
 */
rs_status rs_json_load(json_t **out, const char *path, const char *text, size_t length,
                       const rs_json_rules *rules, rs_error *err);

#endif
