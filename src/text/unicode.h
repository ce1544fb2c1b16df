/* unicode.h: what tokenizers ask of a character, and the four normal forms of aligned texts. */
#ifndef RS_TEXT_UNICODE_H
#define RS_TEXT_UNICODE_H

#include "text/aligned.h"

/* Code points from first to last. */
typedef struct rs_char_range {
    uint32_t first, last;
} rs_char_range;

/* A class of characters. */
typedef struct rs_char_class {
    const rs_char_range *ranges; /* ascending */
    size_t n;
} rs_char_class;

/* The classes that there are tables of. */
typedef enum rs_char_class_id {
    RS_CHAR_CONTROL,
    RS_CHAR_ACCENT,
    RS_CHAR_MARK,
    RS_CHAR_PUNCTUATION,
    RS_CHAR_NUMERIC,
    RS_CHAR_UNDECOMPOSED
} rs_char_class_id;

extern const rs_char_class rs_char_classes[]; /* unicode_tables.c */

bool rs_char_in(rs_char_class_id id, uint32_t point);
/* Whether Unicode counts the character as White_Space. */
bool rs_char_is_space(uint32_t point);
/* Whether the character is in the blocks that BERT puts blanks around. */
bool rs_char_is_cjk(uint32_t point);
/* Writes the lower case of one character by itself; returns how many characters it is: 1 or 2. */
size_t rs_char_lower(uint32_t out[2], uint32_t point);

/* Unicode's normal forms. */
typedef enum rs_text_form { RS_NFD, RS_NFKD, RS_NFC, RS_NFKC } rs_text_form;

/* A character waiting to be put in order, and the bytes it came from. */
typedef struct rs_decomposed {
    uint32_t point;
    uint32_t class; /* canonical combining class */
    uint32_t from, to;
} rs_decomposed;

/* Room for a run of characters. Zero-initialise; rs_free items and spare. */
typedef struct rs_form_work {
    rs_decomposed *items, *spare;
    size_t n, capacity, spare_capacity;
} rs_form_work;

/* Appends `in` in a normal form, in linear time: marks are sorted by counting. */
rs_status rs_normal_form(rs_aligned *out, const rs_aligned *in, rs_text_form form,
                         rs_form_work *work, rs_error *err);

#endif
