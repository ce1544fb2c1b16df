/*
 * json_index.h: a JSON text as an index of its values, without an object for each of them.
 *
 * A tokenizer.json is a few settings and up to a million short strings and numbers. One array of
 * nodes (16 bytes each) in the order of the text is enough to walk it; strings stay where they are
 * in the text unless an escape has to be resolved.
 *
 *   node    what          text, length                      next
 *   object  '{'           -, number of members              behind its last member
 *   array   '['           -, number of elements             behind its last element
 *   key     a string      its bytes                         its value
 *   other   as it says    its bytes (strings: unescaped)    the next sibling
 */
#ifndef RS_TEXT_JSON_INDEX_H
#define RS_TEXT_JSON_INDEX_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of values. */
typedef enum rs_json_kind {
    RS_JSON_NULL,
    RS_JSON_FALSE,
    RS_JSON_TRUE,
    RS_JSON_NUMBER,
    RS_JSON_STRING,
    RS_JSON_ARRAY,
    RS_JSON_OBJECT
} rs_json_kind;

/* A value or a key; the table above says what it holds. */
typedef struct rs_json_node {
    const char *text;
    uint32_t length;
    uint32_t kind : 3;
    uint32_t next : 29;
} rs_json_node;

/* An index of a text. */
typedef struct rs_json_index {
    const char *name; /* name of the file, for messages; borrowed */
    rs_json_node *nodes;
    size_t n, capacity;
    char *unescaped; /* strings that had escapes, resolved; NULL when there were none */
} rs_json_index;

enum { RS_JSON_ABSENT = 0 }; /* node 0 is the top value: no member can be it */

/*
 * Indexes text[0..length), which must outlive the index. Strict JSON (RFC 8259): the text is UTF-8,
 * keys of an object differ (checked here for objects of at most 64 members; a longer one is a
 * vocabulary, whose reader checks). Errors: RS_E_EMPTY_FILE, RS_E_LFS_POINTER, RS_E_UNSUPPORTED
 * (over 512 MiB), RS_E_JSON_SYNTAX, RS_E_JSON_DEPTH (over 100), RS_E_JSON_DUPLICATE_KEY,
 * RS_E_NO_MEMORY; messages name line and column.
 */
rs_status rs_json_index_build(rs_json_index *index, const char *name, const char *text,
                              size_t length, rs_error *err);
void rs_json_index_free(rs_json_index *index);

/* The value of a member, RS_JSON_ABSENT when the object has none of that name (or is no object). A
 * member that is null counts as absent. */
uint32_t rs_json_member(const rs_json_index *index, uint32_t object, const char *key);

/* The node behind a value: its next sibling, or the end of what contains it. */
static inline uint32_t rs_json_next(const rs_json_index *index, uint32_t value)
{
    return index->nodes[value].next;
}

/* Whether a value is the string `text`. */
bool rs_json_is(const rs_json_index *index, uint32_t value, const char *text);
/* Reads a whole number that fits in int64, or a real one; false when the value is none. */
bool rs_json_integer(const rs_json_index *index, uint32_t value, int64_t *out);
bool rs_json_real(const rs_json_index *index, uint32_t value, double *out);

#endif
