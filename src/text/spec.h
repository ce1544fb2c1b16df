/* spec.h: reading the settings of one step of a tokenizer.json, with its JSON path in every
 * message. */
#ifndef RS_TEXT_SPEC_H
#define RS_TEXT_SPEC_H

#include "text/json_index.h"
#include "text/pattern.h"

/* A value of the file and where it stands. */
typedef struct rs_spec {
    const rs_json_index *json;
    uint32_t value;
    char path[160]; /* such as "pre_tokenizer.pretokenizers[1]" */
} rs_spec;

/* Fails with RS_E_TOKENIZER_SCHEMA at spec.key ("": at the value itself). */
rs_status rs_spec_fail(const rs_spec *spec, const char *key, rs_error *err, const char *format, ...)
    RS_PRINTF(4, 5);
/* Fails with RS_E_TOKENIZER_UNKNOWN: the type is none of those of a `what`, such as
 * "normalizer". */
rs_status rs_spec_unknown(const rs_spec *spec, const char *what, const char *type, rs_error *err);

/* Finds a member, to be read in turn; false when it is absent or null. */
bool rs_spec_member(rs_spec *member, const rs_spec *spec, const char *key);
/* Makes a spec of element i of an array, which begins with node `value`. */
void rs_spec_element(rs_spec *element, const rs_spec *array, uint32_t value, size_t i);

/* Read a member of a type. `required`: an absent one is an error; otherwise *out stays as it is. */
rs_status rs_spec_bool(bool *out, const rs_spec *spec, const char *key, bool required,
                       rs_error *err);
rs_status rs_spec_integer(int64_t *out, const rs_spec *spec, const char *key, bool required,
                          rs_error *err);
rs_status rs_spec_text(const char **text, size_t *length, const rs_spec *spec, const char *key,
                       bool required, rs_error *err);
/* Copies a text, NUL-terminated; the caller frees it by rs_free. *out is NULL when absent. */
rs_status rs_spec_copy(char **out, size_t *length, const rs_spec *spec, const char *key,
                       bool required, rs_error *err);
/* Reads a text of one character. */
rs_status rs_spec_character(char out[4], size_t *length, const rs_spec *spec, const char *key,
                            rs_error *err);
/* Reads a pattern: {"String": "..."} or {"Regex": "..."}. */
rs_status rs_spec_pattern(rs_pattern **out, const rs_spec *spec, const char *key, rs_error *err);

/* Reads the "type" of a step, a text of at most 63 bytes. */
rs_status rs_spec_type(char type[64], const rs_spec *spec, rs_error *err);

/* What is done with each step. */
typedef rs_status rs_spec_visit(void *user, const rs_spec *spec, const char *type, rs_error *err);
/* Calls `one` for a step, or, when its type is Sequence, for each step in spec.`list`, however deep
 * they are nested (the JSON reader has a limit). */
rs_status rs_spec_flatten(const rs_spec *spec, const char *list, rs_spec_visit *one, void *user,
                          rs_error *err);

#endif
