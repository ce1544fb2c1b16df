/*
 * safetensors_scan.h: a cursor over strict JSON text (RFC 8259), for the safetensors header. It
 * builds no tree: the caller asks for what its schema expects. All failures name the byte of the
 * file; unless said otherwise their status is RS_E_ST_HEADER_JSON.
 */
#ifndef RS_CHECKPOINT_SAFETENSORS_SCAN_H
#define RS_CHECKPOINT_SAFETENSORS_SCAN_H

#include "base/memory.h"
#include "base/text.h"

enum {
    RS_JSON_SCAN_DEPTH = 4,     /* objects and arrays inside each other; the schema needs 3 */
    RS_JSON_SCAN_KEYS = 1000000 /* keys of one object that are remembered; bounds the memory */
};

/* The cursor. */
typedef struct rs_json_scan {
    const char *text; /* valid UTF-8 */
    size_t length, at;
    unsigned depth;
    rs_buffer scratch; /* a string with escapes, decoded; the caller frees it at the end */
    rs_arena *arena;   /* holds keys that must be remembered */
    const char *path;
    rs_error *err;
} rs_json_scan;

/* A decoded string: inside the text, or in scratch until the next string is read. */
typedef struct rs_slice {
    const char *data;
    size_t length;
    bool in_scratch;
} rs_slice;

rs_status rs_json_scan_fail(const rs_json_scan *p, rs_status status, const char *format, ...)
    RS_PRINTF(3, 4);
/* Fails with "NAME expected". */
rs_status rs_json_scan_expected(const rs_json_scan *p, const char *name);
rs_status rs_json_scan_no_memory(const rs_json_scan *p);

/* The next byte that is not white space, not consumed; 0 at the end (a NUL byte is no token). */
char rs_json_scan_peek(rs_json_scan *p);
/* Consumes the byte `wanted`; `name` is what the message calls it. */
rs_status rs_json_scan_expect(rs_json_scan *p, char wanted, const char *name);
/* Consumes '{' or '['; RS_E_JSON_DEPTH where that is too deep. */
rs_status rs_json_scan_enter(rs_json_scan *p, char bracket, const char *name);
/* Steps to the next member of the object entered, up to its key; at the end *more is false and the
 * brace is consumed. */
rs_status rs_json_scan_member(rs_json_scan *p, bool first, bool *more, rs_slice *key);
rs_status rs_json_scan_element(rs_json_scan *p, bool first, bool *more);

rs_status rs_json_scan_string(rs_json_scan *p, rs_slice *string, const char *name);
/* Reads a whole number; RS_E_JSON_INTEGER for one that is negative, has a '.' or an exponent, or is
 * above 2^64-1. */
rs_status rs_json_scan_u64(rs_json_scan *p, uint64_t *value, const char *name);
/* Consumes true, false or null when it is what comes next. */
bool rs_json_scan_word(rs_json_scan *p, const char *word);
/* Checks any value and passes over it. Errors: RS_E_JSON_DEPTH, RS_E_JSON_DUPLICATE_KEY. */
rs_status rs_json_scan_value(rs_json_scan *p);

bool rs_json_scan_same(const rs_slice *key, const char *name);
/* Remembers a key of an object; RS_E_JSON_DUPLICATE_KEY when it was there, RS_E_ST_HEADER_JSON when
 * there are more than RS_JSON_SCAN_KEYS. */
rs_status rs_json_scan_unique(rs_json_scan *p, rs_strmap *seen, const rs_slice *key);

#endif
