/* spec.h: reading the settings of one step of a tokenizer.json, with its JSON path in every
 * message. */
#ifndef RS_TEXT_SPEC_H
#define RS_TEXT_SPEC_H

#include "text/json_index.h"
#include "text/pattern.h"

typedef struct rs_spec {
    const rs_json_index *json;
    uint32_t value;
    char path[160]; /* "pre_tokenizer.pretokenizers[1]" */
} rs_spec;

/* RS_E_TOKENIZER_SCHEMA at spec.key ("" for the value itself). */
rs_status rs_spec_fail(const rs_spec *spec, const char *key, rs_error *err, const char *format, ...)
    RS_PRINTF(4, 5);
/* RS_E_TOKENIZER_UNKNOWN: a type or value that is not known; `what` as "normalizer". */
rs_status rs_spec_unknown(const rs_spec *spec, const char *what, const char *type, rs_error *err);

/* A member, to be read in turn; present is false when it is absent or null. */
bool rs_spec_member(rs_spec *member, const rs_spec *spec, const char *key);
/* Element i of an array that begins with node `value`. */
void rs_spec_element(rs_spec *element, const rs_spec *array, uint32_t value, size_t i);

/* Members by type. `required`: an absent one is an error; otherwise *out stays as it is. */
rs_status rs_spec_bool(bool *out, const rs_spec *spec, const char *key, bool required,
                       rs_error *err);
rs_status rs_spec_integer(int64_t *out, const rs_spec *spec, const char *key, bool required,
                          rs_error *err);
rs_status rs_spec_text(const char **text, size_t *length, const rs_spec *spec, const char *key,
                       bool required, rs_error *err);
/* The same, copied and NUL-terminated (rs_free). *out is NULL when absent. */
rs_status rs_spec_copy(char **out, size_t *length, const rs_spec *spec, const char *key,
                       bool required, rs_error *err);
/* One character, as UTF-8. */
rs_status rs_spec_character(char out[4], size_t *length, const rs_spec *spec, const char *key,
                            rs_error *err);
/* {"String": "..."} or {"Regex": "..."}. */
rs_status rs_spec_pattern(rs_pattern **out, const rs_spec *spec, const char *key, rs_error *err);

/* The "type" of a step, as text of at most 63 bytes. */
rs_status rs_spec_type(char type[64], const rs_spec *spec, rs_error *err);

/*
 * Calls `one` for a step, or, when its type is Sequence, for each step in spec.`list`, however
 * deep they are nested (the JSON reader has a limit).
 */
typedef rs_status rs_spec_visit(void *user, const rs_spec *spec, const char *type, rs_error *err);
rs_status rs_spec_flatten(const rs_spec *spec, const char *list, rs_spec_visit *one, void *user,
                          rs_error *err);

#endif
