/* error.h: filling in rs_error, and handing a failure up. */
#ifndef RS_BASE_ERROR_H
#define RS_BASE_ERROR_H

#include "rankscope.h"

#include <stdarg.h>

/* Records that there was no memory for `what`; every allocation reports so. */
rs_status rs_fail_memory(rs_error *err, const char *what, size_t bytes);

/* Keeps the first failure of a parallel loop: *kept and *kept_error stay once they are set. Thread
 * safe. */
void rs_keep_first(rs_status *kept, rs_error *kept_error, rs_status status, const rs_error *error);

/* Hands a failure up unchanged. */
#define RS_TRY(expression)                                                                         \
    do {                                                                                           \
        rs_status rs_try_status_ = (expression);                                                   \
        if (rs_try_status_ != RS_OK) return rs_try_status_;                                        \
    } while (0)

#endif
