/* arch_read.h: what the files that read ARCH.json share; private to arch_read*.c. */
#ifndef RS_NETWORK_ARCH_READ_H
#define RS_NETWORK_ARCH_READ_H

#include "network/arch.h"

/* A JSON object whose fields are read into `arch`. */
typedef struct rs_arch_reader {
    rs_arch *arch;
    const json_t *json;
    rs_error *err;
} rs_arch_reader;

/* A word that a field may have, and what it means; lists end with name NULL. */
typedef struct rs_arch_word {
    const char *name;
    int value;
} rs_arch_word;

/* The refusal of a field whose value is of another kind than `wanted` says. */
rs_status rs_arch_bad_value(const rs_arch_reader *r, const char *field, const char *wanted,
                            const json_t *value);
/* The word `text` of a field, or a refusal that names the nearest one. */
rs_status rs_arch_find_word(int *value, const rs_arch_reader *r, const char *field,
                            const char *text, const rs_arch_word *words);

/* These leave *value as it is where the file does not have the field: a word; a whole number from 1
 * to `most`; true or false. */
rs_status rs_arch_read_word(int *value, const rs_arch_reader *r, const char *field,
                            const rs_arch_word *words);
rs_status rs_arch_read_size(int64_t *value, const rs_arch_reader *r, const char *field,
                            int64_t most);
rs_status rs_arch_read_flag(bool *value, const rs_arch_reader *r, const char *field);
/* Refuses a field of `object` that is not among the names `known` (the last NULL), saying the nearest;
 * inside: " in \"FIELD\"", or "". */
rs_status rs_arch_check_names(const rs_arch_reader *r, const json_t *object,
                              const char *const *known, const char *inside);

/* arch_read_mixers.c: the mixer of each layer, behind the sizes; the fields of state-space mixers,
 * behind that; and those of linear attention and of values, behind the mask. */
rs_status rs_arch_read_mixer(const rs_arch_reader *r);
rs_status rs_arch_read_states(const rs_arch_reader *r);
rs_status rs_arch_read_linear(const rs_arch_reader *r);

/* arch_read_ends.c: behind the block: what enters the first layer and what leaves the last. */
rs_status rs_arch_read_ends(const rs_arch_reader *r);

#endif
