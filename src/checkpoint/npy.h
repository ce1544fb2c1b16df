/*
 * npy.h: NumPy's .npy files as arrays.
 *
 *   offset  bytes  what
 *   0       6      93 'N' 'U' 'M' 'P' 'Y'
 *   6       2      version: 1.0, 2.0 or 3.0
 *   8       2 | 4  length H of the header, little-endian (2 bytes in version 1)
 *   ..      H      a Python dictionary as text: 'descr', 'fortran_order', 'shape'; blanks; newline
 *   ..      rest   the elements, row-major
 *
 * Only what the program needs is read: uint8 and little-endian int32, int64, float32 and float64 in
 * C order. All else is refused by name, with what to call in NumPy to convert it. The file must end with its
 * last element.
 */
#ifndef RS_CHECKPOINT_NPY_H
#define RS_CHECKPOINT_NPY_H

#include "base/mapping.h"

enum { RS_NPY_MAX_RANK = 8 };

/* The types of elements that are read. */
typedef enum rs_npy_type {
    RS_NPY_I32,
    RS_NPY_I64,
    RS_NPY_F32,
    RS_NPY_F64,
    RS_NPY_U8,
    RS_NPY_TYPES
} rs_npy_type;

/* An array inside a file. */
typedef struct rs_npy {
    rs_npy_type type;
    uint32_t rank;
    int64_t shape[RS_NPY_MAX_RANK];
    int64_t count;       /* product of shape; 1 for rank 0 */
    const uint8_t *data; /* the elements, at any alignment, inside the bytes given */
} rs_npy;

const char *rs_npy_type_name(rs_npy_type type); /* "int32", ... */
bool rs_npy_is_whole(const rs_npy *array);      /* of an integer type */

/* Reads a file that lies in memory; `path` is for messages. Errors: RS_E_EMPTY_FILE,
 * RS_E_INPUT_FORMAT. Fuzz target. */
rs_status rs_npy_parse(rs_npy *out, const char *path, const uint8_t *bytes, size_t length,
                       rs_error *err);

/* Converts elements [first, first+count); the type must be an integer type for integers, a floating
 * one for reals. Thread safe. */
void rs_npy_integers(int64_t *out, const rs_npy *array, int64_t first, int64_t count);
void rs_npy_reals(double *out, const rs_npy *array, int64_t first, int64_t count);

#endif
