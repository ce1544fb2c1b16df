/* error.c: statuses and error texts. */
#include "base/error.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

const char *rs_status_name(rs_status status)
{
    switch (status) {
#define RS_STATUS_CASE(name, number, exit_code, text)                                              \
    case name:                                                                                     \
        return text;
        RS_STATUS_LIST(RS_STATUS_CASE)
#undef RS_STATUS_CASE
    }
    return "unknown-status";
}

int rs_status_exit_code(rs_status status)
{
    switch (status) {
#define RS_STATUS_CASE(name, number, exit_code, text)                                              \
    case name:                                                                                     \
        return exit_code;
        RS_STATUS_LIST(RS_STATUS_CASE)
#undef RS_STATUS_CASE
    }
    return 1;
}

const char *rs_version(void)
{
    return RS_VERSION;
}

/* Copies with a visible cut; never splits a UTF-8 sequence. */
static void put(char *target, size_t size, const char *source)
{
    size_t length = source ? strlen(source) : 0;
    if (length < size) {
        memcpy(target, source ? source : "", length);
        target[length] = 0;
    } else {
        size_t cut = size - 4;
        while (cut > 0 && ((unsigned char)source[cut] & 0xC0) == 0x80)
            cut--;
        memcpy(target, source, cut);
        memcpy(target + cut, "...", 4);
    }
    rs_text_clean(target);
}

rs_status rs_fail(rs_error *err, rs_status status, const char *where, const char *hint,
                  const char *what_format, ...)
{
    if (!err) return status;
    char what[2048];
    va_list arguments;
    va_start(arguments, what_format);
    vsnprintf(what, sizeof what, what_format, arguments);
    va_end(arguments);
    err->status = status;
    put(err->where, sizeof err->where, where);
    put(err->what, sizeof err->what, what);
    put(err->hint, sizeof err->hint, hint);
    return status;
}

rs_status rs_fail_memory(rs_error *err, const char *what, size_t bytes)
{
    if (bytes)
        return rs_fail(err, RS_E_NO_MEMORY, what, "free memory or use a machine with more",
                       "out of memory asking for %zu bytes", bytes);
    return rs_fail(err, RS_E_NO_MEMORY, what, "free memory or use a machine with more",
                   "out of memory");
}

void rs_keep_first(rs_status *kept, rs_error *kept_error, rs_status status, const rs_error *error)
{
    if (status == RS_OK) return;
#pragma omp critical(rs_keep_first)
    if (*kept == RS_OK) {
        *kept = status;
        *kept_error = *error;
    }
}
