/* grid_table.h: what a grid's cells say, as a table and a figure. Private to grid_*.c. */
#ifndef RS_PREDICT_GRID_TABLE_H
#define RS_PREDICT_GRID_TABLE_H

#include "predict/grid.h"

typedef struct rs_grid_row {
    double values[RS_GRID_AXES];
    int64_t places[RS_GRID_AXES];
    const char *verdict, *verdict_theory;
    double apart, apart_theory, growth, growth_theory;
    double first, last, first_theory, last_theory;
    rs_truth at_floor;
    const char *why; /* NULL: it has numbers */
} rs_grid_row;

/* A row at these places of the axes, without numbers. */
void rs_grid_row_clear(rs_grid_row *row, const rs_grid *grid, const int64_t at[RS_GRID_AXES]);
void rs_grid_row_theory(rs_grid_row *row, const rs_forecast *theory);
void rs_grid_row_drawn(rs_grid_row *row, const rs_forecast *measured);

/* Adds table and figure `grid` of rows [n]. drawn: networks were. */
rs_status rs_grid_add(rs_result *result, const rs_grid *grid, const rs_grid_row *rows, int64_t n,
                      bool drawn, rs_error *err);

#endif
