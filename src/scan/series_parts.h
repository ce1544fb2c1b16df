/* series_parts.h: what the files of a series share. */
#ifndef RS_SCAN_SERIES_PARTS_H
#define RS_SCAN_SERIES_PARTS_H

#include "scan/measure_columns.h"
#include "scan/series.h"
#include "scan/series_trend.h"

enum { RS_SERIES_KINDS = 4 }; /* of rs_product_kind */

/* effective_rank_ratio of a layer's products in one checkpoint: over the heads that have a rank, and, with 0, over
 * those that had one in an earlier checkpoint and are all zero: they died. */
typedef struct rs_series_ratio {
    double mean, lowest; /* NaN: no head counts */
    double spread;       /* standard deviation of the mean by chance; NaN likewise */
    int64_t heads, dead; /* that count; of them all zero */
} rs_series_ratio;

/* A product of one layer, the mean over its heads, at each checkpoint that has it. */
typedef struct rs_series_cell {
    rs_product place; /* stack, attention, layer and kind; the rest is empty */
    size_t n, capacity;
    size_t *at;      /* [n] places of the checkpoints */
    double *ratios;  /* [n] effective_rank_ratio, finite */
    double *spreads; /* [n] its standard deviation by chance */
    bool *ranked; /* [n_ranked] has the head at this place had a rank in any checkpoint so far? */
    bool *count;  /* [n_ranked] does it count in the mean of the checkpoint that is read? */
    size_t n_ranked;
    rs_series_ratio last; /* of the last checkpoint that has it */
    size_t had;           /* checkpoints that have the product, with a spectrum or without */
    size_t lacks;         /* place of the first checkpoint that lacks it; SIZE_MAX: none does */
    size_t other;         /* place of the first in which it has another shape; SIZE_MAX: none */
    int64_t rows, cols, inner, heads; /* as it was first met */
    rs_trend trend;
} rs_series_cell;

/* A checkpoint that was read. */
typedef struct rs_series_read {
    const rs_series_entry *entry;
    rs_result *scan; /* what scan finds in it, without tables */
    rs_heads *heads;
    rs_model *model;
    rs_checkpoint *checkpoint;
    struct {
        double sum, heads; /* of the ratios of all products of the kind, as they count above */
    } kinds[RS_SERIES_KINDS];
    double lowest; /* of all of them; infinite: none */
} rs_series_read;

/* How alike random heads of a shape are that share keys or values. */
typedef struct rs_series_alike {
    int64_t own, shared, inner;
    double correlation;
} rs_series_alike;

/* A series as it is filled. */
typedef struct rs_series {
    const rs_scan_request *request;
    rs_series_list list;
    rs_result *result;
    rs_table *series, *checkpoints, *changed;
    rs_series_cell *cells; /* [n] sorted as they were met */
    size_t n_cells, capacity;
    size_t next;                  /* cell that is looked at first */
    const rs_series_entry **read; /* [n_read] the checkpoints that were read, by place */
    size_t n_read, n_skipped;
    rs_series_alike *alike; /* [n_alike] of shapes that were met */
    size_t n_alike, alike_capacity;
    uint64_t seed;
    rs_result *last; /* what scan finds in the last of them */
    json_t *model;   /* its object of meta */
    rs_error first;  /* why the first that was skipped was */
} rs_series;

/* ---- series_cells.c ---- */

/* Notes the products of the checkpoint at place s->n_read, and writes their rows of table series. */
rs_status rs_series_note(rs_series *s, rs_series_read *read, rs_error *err);
/* Whether the last checkpoint has the product, with a rank or dead. */
bool rs_series_is_current(const rs_series *s, const rs_series_cell *c);
/* Judges every cell once all are read. */
rs_status rs_series_judge(rs_series *s, rs_error *err);
void rs_series_cells_free(rs_series *s);

/* ---- series_spread.c ---- */

/* The standard deviation by chance of the mean ratio of those of n heads that count; NaN where none does. Heads
 * that share their keys (QK) or values (OV) are not independent. */
rs_status rs_series_spread(double *out, rs_series *s, const rs_head *heads, const bool *count,
                           size_t n, rs_error *err);

/* ---- series_tables.c ---- */

rs_status rs_series_add_tables(rs_series *s, rs_error *err);
/* Writes the row of a checkpoint, once noted, in table checkpoints; read NULL: it was skipped, why says for what. */
rs_status rs_series_list_row(rs_series *s, const rs_series_entry *entry, const rs_series_read *read,
                             const rs_error *why, rs_error *err);
rs_status rs_series_row(rs_series *s, const rs_series_entry *entry, const rs_head *heads, size_t n,
                        const rs_series_ratio *ratio, rs_error *err);
/* Tables trends and, where products are not the same in all, not_compared. */
rs_status rs_series_end_tables(rs_series *s, rs_error *err);
/* What came and went from the checkpoint before. */
rs_status rs_series_changes(rs_series *s, const rs_series_entry *entry, const rs_result *before,
                            const rs_result *now, rs_error *err);

/* ---- series_verdict.c, series_figures.c ---- */

rs_status rs_series_findings(rs_series *s, rs_error *err);
rs_status rs_series_verdict(rs_series *s, rs_error *err);
rs_status rs_series_figures(rs_series *s, rs_error *err);

/* "step 1000", or the last name of the path where steps give no order; into text. */
const char *rs_series_when(char *text, size_t size, const rs_series *s,
                           const rs_series_entry *entry);
/* The cell that fell most, of those that fall; NULL: none does. *n (may be NULL): how many do. */
const rs_series_cell *rs_series_fell_most(const rs_series *s, size_t *n);

#endif
