/*
 * output.h: a file of known size that is written in pieces, in any order, and appears whole or not
 * at all: what rs_output_write (result.h) does, for what is too large to hold.
 */
#ifndef RS_REPORT_OUTPUT_H
#define RS_REPORT_OUTPUT_H

#include "report/result.h"

/* Whether writing to both paths would leave one file: the same name in the same folder, however it
 * is spelled, or one file by two names. False for devices and pipes, which keep what they get, and
 * where a folder is not there. */
bool rs_output_same(const char *a, const char *b);

typedef struct rs_output rs_output;

/* Prepares PATH, `size` bytes of zeros under a temporary name beside it. Errors: RS_E_WRITE (PATH
 * is a folder, a device or a pipe; no permission; no space), RS_E_OVERWRITES_INPUT. */
rs_status rs_output_open(rs_output **out, const char *path, uint64_t size, const rs_file_id *inputs,
                         size_t n_inputs, rs_error *err);
/* Bytes [offset, offset + length) of the file, which must lie inside it. */
rs_status rs_output_put(rs_output *output, uint64_t offset, const void *bytes, size_t length,
                        rs_error *err);
/* Flushes and renames; the output is closed in any case. */
rs_status rs_output_commit(rs_output *output, rs_error *err);
/* Closes and removes what was written; NULL is fine. */
void rs_output_discard(rs_output *output);

#endif
