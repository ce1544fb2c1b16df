/* compare_parts.h: what the files of this room share. */
#ifndef RS_COMPARE_COMPARE_PARTS_H
#define RS_COMPARE_COMPARE_PARTS_H

#include "compare/compare.h"

/* ---- compare_change.c: two products of equal shape ---- */

/* How far a product moved, from its bits on. */
typedef enum rs_moved {
    RS_MOVED_UNKNOWN,  /* it has no counterpart of its shape, or numbers that are not finite */
    RS_MOVED_SAME,     /* bit for bit the same factors */
    RS_MOVED_ROUNDING, /* no further than rounding the stored numbers may move it */
    RS_MOVED_CHANGED
} rs_moved;
const char *rs_moved_name(rs_moved moved); /* NULL where it is unknown */

/* One side of two products: how far the spaces of their leading singular vectors agree. */
typedef struct rs_overlap_side {
    double overlap, chance, spread; /* NaN: there is none */
} rs_overlap_side;

/* What changed from one product to its counterpart. Reals are NaN where there is nothing to say. */
typedef struct rs_change {
    rs_moved moved;
    double norm;           /* ‖W_A − W_B‖_F */
    double relative;       /* norm / ‖W_A‖_F */
    double floor;          /* what rounding the stored numbers may do to `norm` */
    double effective_rank; /* of W_A − W_B */
    double stable_rank;
    double null;      /* effective rank of random factors of this shape and both inner widths */
    int64_t subspace; /* directions that the overlaps are of; -1: none */
    rs_overlap_side left, right;
} rs_change;

/* Memory that changes are measured in, one a thread. Starts as zero. */
typedef struct rs_change_room {
    double *values;
    size_t capacity;
} rs_change_room;
void rs_change_room_close(rs_change_room *room);

/* Bytes that a thread takes for two products. */
double rs_change_bytes(const rs_head *a, const rs_head *b);

/* Both have a spectrum and the same rows and columns. subspace: as rs_compare_options has it. `null` is
 * left NaN: it is drawn elsewhere. */
rs_status rs_change_measure(rs_change *out, const rs_head *a, const rs_head *b, rs_fold fold,
                            int64_t subspace, rs_change_room *room, rs_error *err);

/* ---- compare_heads.c: whose counterpart is whose ---- */

/* A product and its counterpart; one of them is NULL where there is none. */
typedef struct rs_product_pair {
    const rs_head *a, *b;
    const char *reason; /* why there is no change of it: a literal; NULL: there is */
    rs_change change;
} rs_product_pair;

/* One checkpoint beside the first. */
typedef struct rs_pairs {
    rs_product_pair
        *items; /* [n] by the products of the first; behind them those of the other alone */
    size_t n;
    size_t both; /* pairs that have both products */
} rs_pairs;

/* ---- what is compared ---- */

/* A checkpoint that is open, and what scan finds in it. */
typedef struct rs_compared {
    const char *path;
    rs_checkpoint *checkpoint;
    rs_model *model;
    rs_heads *heads;
    rs_result *scan;  /* its findings alone */
    rs_result *probe; /* tables and findings of a probe; NULL: it was not run */
    int32_t *ids;     /* [n_ids] ids that it was run on; NULL: none, or not run */
    int64_t n_ids, vocabulary;
} rs_compared;

/* One comparison. */
typedef struct rs_comparison {
    const rs_compared *a, *b;
    rs_pairs pairs;
    /* set by rs_compare_findings */
    size_t came[RS_CRITICAL + 1], went; /* findings, by severity, in B alone; in A alone */
    const rs_finding *worst;            /* of what came the first of the severest; NULL: none */
    size_t fell;                        /* products that lost rank */
    const rs_product_pair *fell_most;   /* or NULL */
} rs_comparison;

/* Pairs the products and measures their changes. */
rs_status rs_pairs_measure(rs_pairs *out, const rs_heads *a, const rs_heads *b,
                           const rs_compare_options *options, rs_null_cache *nulls,
                           const rs_context *context, rs_error *err);
void rs_pairs_free(rs_pairs *pairs);

/* ---- columns ---- */

/* The first column of every table of comparisons. */
#define RS_COMPARE_PATH(type)                                                                      \
    {                                                                                              \
        .name = "path", RS_CELL(type, path),                                                       \
        .formula = "B, which is compared with A, the first PATH"                                   \
    }
/* Makes three columns of each of n columns: NAME_a, NAME_b and NAME_change, of cells double [n][3] that
 * begin `at` bytes into the row. */
rs_status rs_compare_three(rs_column *out, const rs_column *columns, size_t n, size_t at,
                           rs_arena *arena, rs_error *err);
void rs_compare_set(double out[3], double a, double b);

/* effective_rank / effective_rank_null; NaN: no spectrum. */
double rs_compare_ratio(const rs_head *head);

/* ---- parts, one file each ---- */

/* compare_tables.c: summary, layers, heads, not_compared, models */
rs_status rs_compare_tables(rs_result *result, const rs_comparison *all, size_t n, rs_error *err);
/* compare_tokens.c: runs a model, and what the two did: tables tokens and loss, where both ran. The
 * reason why one did not is a finding. */
rs_status rs_compare_run(rs_compared *model, rs_result *result, rs_input_files *inputs,
                         const rs_compare_request *request, const rs_context *context,
                         rs_error *err);
rs_status rs_compare_tokens(rs_result *result, const rs_comparison *all, size_t n, rs_error *err);
/* compare_findings.c: table findings_changed, and the findings that a person should act on. */
rs_status rs_compare_findings(rs_result *result, rs_comparison *all, size_t n,
                              const rs_compare_options *options, rs_error *err);
/* compare_verdict.c */
rs_status rs_compare_verdict(rs_result *result, const rs_comparison *all, size_t n,
                             const rs_compare_options *options, rs_error *err);
/* compare_figures.c */
rs_status rs_compare_figures(rs_result *result, const rs_comparison *all, size_t n, rs_error *err);

#endif
