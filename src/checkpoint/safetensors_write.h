/*
 * safetensors_write.h: writing a safetensors file (docs/formats.md, 1) whose tensors are known by
 * size before the first of their elements is: the header goes first, elements follow in any order,
 * and what is never written is zero. The file appears whole or not at all.
 */
#ifndef RS_CHECKPOINT_SAFETENSORS_WRITE_H
#define RS_CHECKPOINT_SAFETENSORS_WRITE_H

#include "checkpoint/dtype.h"
#include "report/output.h"

enum { RS_ST_WRITE_RANK = 4 };

/* A tensor that the file will have. */
typedef struct rs_st_plan {
    const char *name;
    rs_dtype dtype; /* RS_F32, RS_F64 or RS_I64 */
    uint32_t rank;
    int64_t shape[RS_ST_WRITE_RANK];
} rs_st_plan;

typedef struct rs_st_writer rs_st_writer;

/* Opens a file whose tensors lie in the order given; put the widest types first, as readers may
 * want elements aligned. Errors: RS_E_UNSUPPORTED (a size that no file has), those of
 * rs_output_open. */
rs_status rs_st_writer_open(rs_st_writer **out, const char *path, const rs_st_plan *tensors,
                            size_t n, const rs_input_files *files, rs_error *err);
/* Writes elements [first, first+count) of tensor number `tensor`, given in its type. */
rs_status rs_st_writer_put(rs_st_writer *writer, size_t tensor, int64_t first, const void *elements,
                           int64_t count, rs_error *err);
/* Both close the writer; discard removes what was written, and takes NULL. */
rs_status rs_st_writer_commit(rs_st_writer *writer, rs_error *err);
void rs_st_writer_discard(rs_st_writer *writer);

#endif
