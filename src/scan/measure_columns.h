/* measure_columns.h: the measures of a head as a table of columns, so that heads, groups, layers
 * and figures share one list. */
#ifndef RS_SCAN_MEASURE_COLUMNS_H
#define RS_SCAN_MEASURE_COLUMNS_H

#include "report/result.h"
#include "scan/heads.h"

typedef struct rs_measure_column {
    rs_column column;
    double (*get)(const rs_head *head); /* NaN = null; integers as doubles */
    bool aggregated;                    /* has _mean _min _max in table layers */
} rs_measure_column;

extern const rs_measure_column rs_measure_columns[];
extern const size_t rs_n_measure_columns;

#endif
