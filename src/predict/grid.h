/*
 * grid.h: one architecture over one or two of its fields, cell by cell: --grid
 * depth=1:128,branch_mixer=0:2:21 (docs/predict.md). Cells share their random draws.
 */
#ifndef RS_PREDICT_GRID_H
#define RS_PREDICT_GRID_H

#include "predict/predict_parts.h"

enum { RS_GRID_AXES = 2 };
typedef struct rs_grid_axis {
    char field[48]; /* of ARCH.json; input.rho of an object in it */
    double *values; /* [n] */
    int64_t n;
} rs_grid_axis;
typedef struct rs_grid {
    rs_grid_axis axes[RS_GRID_AXES];
    int n_axes;
} rs_grid;

/* FIELD=LOW:HIGH[:N][,FIELD=...], HIGH and LOW included; N may be left out where both are whole: then each
 * whole number between them is a value. log:LOW:HIGH:N are equal ratios. Of a field of whole numbers
 * the nearest ones are taken, each once. RS_E_BAD_OPTION. */
rs_status rs_grid_parse(rs_grid *out, const char *text, rs_error *err);
void rs_grid_free(rs_grid *grid);

/* Before anything is run. RS_E_BAD_OPTION: it cannot be read, has more cells than may be, or would take more
 * operations, with what it would cost; RS_E_UNSUPPORTED: the run's architecture has no fields. */
rs_status rs_predict_grid_check(const rs_predict_run *run, const char *text, rs_error *err);
/* Runs all cells of a grid that was checked, and adds table and figure `grid`. */
rs_status rs_predict_grid(rs_result *result, const rs_predict_run *run, const char *text,
                          rs_error *err);

#endif
