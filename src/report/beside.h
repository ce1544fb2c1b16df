/*
 * beside.h: results of one command for several models become one: each table has all rows, with column
 * `path` first; figures are overlaid, or have a panel a model; a table `models` says what each is and what
 * its own verdict is.
 */
#ifndef RS_REPORT_BESIDE_H
#define RS_REPORT_BESIDE_H

#include "report/result.h"

/* Fills an empty result from n > 0 parts, none of them sealed, of the paths. The parts are used up, on
 * failure too. RS_E_INTERNAL where a part has no verdict. */
rs_status rs_results_beside(rs_result *result, rs_result **parts, const char *const *paths,
                            size_t n, rs_error *err);

/* The columns of table models, whatever the command. */
enum { RS_BESIDE_COLUMNS = 11 };
extern const rs_column rs_beside_columns[RS_BESIDE_COLUMNS];

#endif
