/*
 * gguf.h: what the three files of the GGUF reader share; nobody else needs it.
 *
 *   gguf_metadata.c   the cursor over the mapped bytes, and the key-value pairs as a JSON object
 *   gguf.c            the header, the tensor list, and where the data lie
 *   gguf_split.c      one file, or a set of NAME-0000i-of-0000N.gguf
 */
#ifndef RS_CHECKPOINT_GGUF_H
#define RS_CHECKPOINT_GGUF_H

#include "checkpoint/checkpoint.h"

#define RS_GGUF_PARTIAL_HINT                                                                       \
    "the file may be a partial download: compare its size with the original and fetch it again"

#define RS_GGUF_ALIGNMENT_KEY "general.alignment"

/* A reading position in a mapped file. */
typedef struct rs_gguf_cursor {
    const uint8_t *data;
    size_t size, at; /* at <= size always */
    const char *path;
} rs_gguf_cursor;

static inline size_t rs_gguf_left(const rs_gguf_cursor *cursor)
{
    return cursor->size - cursor->at;
}

/* Take the next n bytes, or the little-endian number made of them. Errors: RS_E_GGUF_EOF, with
 * `what` naming the field. */
rs_status rs_gguf_take(rs_gguf_cursor *cursor, const uint8_t **bytes, size_t n, const char *what,
                       rs_error *err);
rs_status rs_gguf_u32(rs_gguf_cursor *cursor, uint32_t *value, const char *what, rs_error *err);
rs_status rs_gguf_u64(rs_gguf_cursor *cursor, uint64_t *value, const char *what, rs_error *err);
/* Takes a string: a u64 length and as many bytes, left where they are. Errors: RS_E_GGUF_EOF,
 * RS_E_GGUF_STRING (over 1 GiB, or longer than what is left). */
rs_status rs_gguf_string(rs_gguf_cursor *cursor, const char **bytes, size_t *length,
                         const char *what, rs_error *err);

/* How many bytes of `text` fit in a message, cut between characters. */
int rs_gguf_shown(const char *text, size_t length);

/* Reads n key-value pairs into a new JSON object (see rs_checkpoint.config). Errors:
 * RS_E_GGUF_{EOF,STRING,KEY,VALUE_TYPE,ARRAY}, RS_E_GGUF_ALIGNMENT (its value is no u32),
 * RS_E_NO_MEMORY. */
rs_status rs_gguf_metadata(json_t **metadata, rs_gguf_cursor *cursor, uint64_t n, rs_error *err);

/* Reads file `file` of the checkpoint: appends its tensors and hands its metadata to the caller. */
rs_status rs_gguf_read_part(rs_checkpoint *checkpoint, uint32_t file, json_t **metadata,
                            rs_error *err);
/* Takes over a part's metadata: that of file 0 becomes the config, others are dropped. */
void rs_gguf_keep(rs_checkpoint *checkpoint, uint32_t file, json_t *metadata);

#endif
