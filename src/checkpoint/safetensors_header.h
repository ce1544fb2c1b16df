/* safetensors_header.h: the JSON header of a safetensors file as a list of entries; private to the
 * safetensors reader. */
#ifndef RS_CHECKPOINT_SAFETENSORS_HEADER_H
#define RS_CHECKPOINT_SAFETENSORS_HEADER_H

#include "checkpoint/checkpoint.h"

/* What the header says of one tensor. */
typedef struct rs_st_entry {
    const char *name;     /* in the arena */
    const int64_t *shape; /* [rank], in the arena; a size above 2^63-1 appears as negative */
    uint64_t begin, end;  /* data_offsets, unchecked */
    rs_dtype dtype;
    uint32_t rank;
} rs_st_entry;

/* A header. */
typedef struct rs_st_header {
    const char *text; /* the JSON, valid UTF-8, first byte '{' */
    size_t length;
    rs_st_entry *entries; /* in the order of the text; names may repeat */
    size_t n, capacity;
} rs_st_header;

/*
 * Reads the text and fills in entries. Errors: RS_E_ST_HEADER_JSON (syntax, a member missing or of
 * the wrong type), RS_E_JSON_INTEGER (negative, fractional, or above 2^64-1), RS_E_JSON_DEPTH,
 * RS_E_JSON_DUPLICATE_KEY (inside an entry or the metadata), RS_E_ST_METADATA (not strings, or
 * there twice), RS_E_ST_DTYPE, RS_E_ST_RANK, RS_E_TENSOR_NAME, RS_E_TOO_MANY_TENSORS,
 * RS_E_NO_MEMORY.
 */
rs_status rs_st_header_parse(rs_st_header *header, rs_arena *arena, const char *path,
                             rs_error *err);
void rs_st_header_free(rs_st_header *header);

#endif
