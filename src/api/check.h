/* check.h: checks of what callers of rankscope.h hand in. */
#ifndef RS_API_CHECK_H
#define RS_API_CHECK_H

#include "base/error.h"

/* The largest sizes that may be asked for: what is made of them does not overflow. */
enum { RS_MOST_THREADS = 4096, RS_MOST_COUNT = 1 << 30 };

/* Fails with RS_E_USAGE where the pointer is NULL. */
rs_status rs_check_pointer(const void *pointer, const char *name, rs_error *err);
/* The same for an array of n elements; of none the pointer may be NULL. */
rs_status rs_check_array(const void *array, size_t n, const char *name, rs_error *err);

/* A field of settings, an enumeration too, and what it may be. */
typedef struct rs_range {
    const char *name;
    int64_t value, least, most;
} rs_range;

/* Fails with RS_E_BAD_OPTION and the field's name where a value is out of its range. */
rs_status rs_check_ranges(const rs_range *ranges, size_t n, rs_error *err);
#define RS_CHECK_RANGES(ranges, err)                                                               \
    rs_check_ranges((ranges), sizeof(ranges) / sizeof *(ranges), (err))

/* Checks heads: at most 64, none of them negative. name: of the field. */
rs_status rs_check_heads(const rs_map_choice *heads, size_t n, const char *name, rs_error *err);

/* Checks inputs behind the first: none is NULL, and a session (lent) has none. */
rs_status rs_check_others(const char *const *others, size_t n, bool lent, rs_error *err);

/* Checks files of text: none is NULL, and there is not one beside several. */
rs_status rs_check_texts(const char *text, const char *const *texts, size_t n, rs_error *err);
rs_status rs_check_call(const rs_call_settings *call, rs_error *err);
rs_status rs_check_run(const rs_run_settings *run, rs_error *err);

/* A code that thresholds may have, and the place of its value. */
typedef struct rs_known_threshold {
    const char *code;
    double *value;
} rs_known_threshold;

/* Puts thresholds in their places; RS_E_BAD_OPTION for other codes and for values below 0. */
rs_status rs_take_thresholds(const rs_known_threshold *known, size_t n_known,
                             const rs_threshold *thresholds, size_t n, rs_error *err);

/* Whether writing to two paths, each may be NULL, would leave one file: RS_E_BAD_OPTION names the
 * second field. */
rs_status rs_check_two_files(const char *path, const char *other, const char *name,
                             const char *other_name, rs_error *err);

#endif
