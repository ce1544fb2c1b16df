/* measure_columns.h: a head product as a row of tables heads and groups; its measures are those that
 * table layers sums up. */
#ifndef RS_SCAN_MEASURE_COLUMNS_H
#define RS_SCAN_MEASURE_COLUMNS_H

#include "scan/scan.h"

/* A row. */
typedef struct rs_head_row {
    rs_scan_keys keys;
    rs_head of; /* without a spectrum its measures are null */
    rs_null_model null;
    double effective_rank_ratio;
    const char *corrections;
    rs_list singular_values;
} rs_head_row;
/* What is measured of the head; its keys, corrections and singular values are left empty. */
rs_head_row rs_head_row_of(const rs_head *head);

enum { RS_HEAD_MEASURES = 24 };
extern const rs_column rs_measure_columns[RS_HEAD_MEASURES]; /* of rs_head_row */

/* The place of a measure among them, by the name of its column, which must be one of theirs. */
size_t rs_measure_index(const char *name);

/* Mean, least and largest of each measure over n heads; NaN or infinite where none has a value. */
void rs_measure_statistics(double out[RS_HEAD_MEASURES][3], const rs_head *heads, size_t n);

#endif
