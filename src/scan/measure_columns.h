/* measure_columns.h: the measures of a head product as a list of columns, which the tables heads,
 * groups and layers share with the figures. */
#ifndef RS_SCAN_MEASURE_COLUMNS_H
#define RS_SCAN_MEASURE_COLUMNS_H

#include "report/result.h"
#include "scan/heads.h"

/* One measure as a column. */
typedef struct rs_measure_column {
    rs_column column;
    double (*get)(const rs_head *head); /* the value, whole numbers too; NaN: none */
    bool aggregated;                    /* table layers has its _mean, _min and _max */
} rs_measure_column;

extern const rs_measure_column rs_measure_columns[];
extern const size_t rs_n_measure_columns;

#endif
