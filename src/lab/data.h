/*
 * data.h: the user's own data, which experiments that train take in place of drawn ones: a text, and
 * images with their labels.
 */
#ifndef RS_LAB_DATA_H
#define RS_LAB_DATA_H

#include "report/result.h"

/* Files that --data named. */
typedef struct rs_lab_data {
    char *text; /* UTF-8; NULL: none */
    char *x,
        *y; /* .npy of images, and of their labels: x.npy of its name become y.npy; NULL: none */
    /* A number of the bytes of each, 0 without: kept runs are of these alone. */
    uint64_t text_print, images_print;
} rs_lab_data;

/* Sorts PATH[,PATH]: a name that ends in .npy is of images, any other of a text, one of each at most;
 * all are read once. `files` gains them. Whatever it returns, *out is to be closed. Errors: RS_E_USAGE,
 * those of reading files. */
rs_status rs_lab_data_open(rs_lab_data *out, const char *list, rs_input_files *files,
                           rs_error *err);
void rs_lab_data_close(rs_lab_data *data);

/* Writes a path as JSON has it, in the apostrophes that tasks of experiments stand in (training.h); false:
 * `size` is too small. */
bool rs_lab_data_quote(char *out, size_t size, const char *path);

#endif
