/* settings_parts.h: fields of a task file as tables; private to settings*.c. */
#ifndef RS_TRAIN_SETTINGS_PARTS_H
#define RS_TRAIN_SETTINGS_PARTS_H

#include "train/settings.h"

typedef enum rs_field_kind {
    RS_FIELD_WHOLE, /* int64_t from least to most */
    RS_FIELD_REAL,  /* double from least to most */
    RS_FIELD_BELOW, /* double from least to below most */
    RS_FIELD_LIMIT, /* double above 0; null: infinity */
    RS_FIELD_FLAG,
    RS_FIELD_WORD,   /* int: the place in `words` */
    RS_FIELD_TEXT,   /* const char *; null: NULL */
    RS_FIELD_PAIR,   /* double [2] from 0 to below 1 */
    RS_FIELD_WHOLES, /* int64_t [most], and how many behind it */
    RS_FIELD_GROUPS, /* rs_group_list: a number is its default */
    RS_FIELD_TEXTS,  /* rs_text_list; of `words` where there are some */
    RS_FIELD_STARTS, /* rs_start_list */
    RS_FIELD_MODEL,  /* model and model_path */
    RS_FIELD_SECTION
} rs_field_kind;

/* A field; tables end with name NULL. */
typedef struct rs_train_field {
    const char *name;
    rs_field_kind kind;
    size_t offset; /* in rs_train_settings */
    double least, most;
    const char *const *words;
    const struct rs_train_field *fields; /* of a section */
} rs_train_field;

extern const rs_train_field rs_train_fields[], rs_train_data_fields[];
/* The fields of "data" that a task has (names, then NULL); NULL: there is no such task. */
const char *const *rs_train_data_names(const char *task);

typedef struct rs_train_reader {
    rs_train_settings *settings;
    rs_error *err;
} rs_train_reader;

/* Reads an object's fields by a table. only: the names that are allowed, or NULL for all; inside:
 * the name of the object, or "". */
rs_status rs_train_read_fields(const rs_train_reader *r, const json_t *json,
                               const rs_train_field *fields, const char *const *only,
                               const char *inside);
/* Refuses a value that is not what `wanted` says. */
rs_status rs_train_bad_value(const rs_train_reader *r, const char *field, const char *wanted,
                             const json_t *value);

/* What the task's shape says of the loss and of the model: how many tokens there are, and what they
 * are. */
rs_status rs_train_settle(const rs_train_reader *r);

/* settings_merge.c. Puts `top` over `base`, objects member by member but for those of groups, which
 * are put whole; false: out of memory. */
bool rs_train_merge(json_t *base, const json_t *top);
/* Applies one override to `json`. */
rs_status rs_train_set(json_t *json, const char *set, rs_error *err);

/* settings.c: reads a file of JSON. */
rs_status rs_train_parse_file(json_t **out, const char *path, rs_error *err);

#endif
