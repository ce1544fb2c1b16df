/*
 * shapes.h: one architecture in shapes of equally many parameters, from one wide layer to many narrow
 * ones: --budget (docs/predict.md). Heads stay as many, and so do tokens and vocabulary; what grows with
 * the width keeps its ratio to it.
 */
#ifndef RS_PREDICT_SHAPES_H
#define RS_PREDICT_SHAPES_H

#include "predict/predict_parts.h"

typedef struct rs_shapes rs_shapes;

/* What a forecast says of a shape: NaN where nothing is known, verdict UNKNOWN. */
typedef struct rs_shape_said {
    rs_predict_verdict verdict;
    double rho, apart; /* of the last state; log10(1 − ρ) */
    double growth, growth_back;
    double ratio; /* log10 of the least gQ/gV */
    double keys;  /* fewest effective keys */
} rs_shape_said;

typedef struct rs_shape {
    int64_t depth, width;
    double parameters; /* NaN: it makes no architecture */
    double operations; /* of a trial */
    rs_shape_said theory, drawn;
    double gap;    /* between the two, in standard errors; NaN: nothing to compare */
    char why[160]; /* why it has no numbers, or nothing was drawn; empty: it has */
} rs_shape;

struct rs_shapes {
    rs_shape *list; /* [n] by depth */
    size_t n;
    double parameters; /* asked for */
    int32_t trials;    /* of each shape; 0: none */
    bool more;         /* deeper shapes have so many parameters, too, and are not run */
};

/* Depths 1, 2, 3, 4, 6, 8, 11, … (powers of √2) and the architecture's own, each at the width whose
 * parameters are nearest: a multiple of the heads, of twice them where pairs of a head's numbers are turned. The last depth is the
 * last at which one such multiple has no more than that, or that theory's time allows. Nothing is run.
 * Errors: RS_E_UNSUPPORTED (no architecture file); RS_E_BAD_OPTION: no shape has so few, or so many, or
 * all trials would take too many operations. On failure, too, it is to be freed. */
rs_status rs_shapes_find(rs_shapes *out, const rs_predict_run *run, double parameters,
                         rs_error *err);
void rs_shapes_free(rs_shapes *shapes);

/* The architecture file of a shape; the caller's. NULL: RS_E_NO_MEMORY, in err. */
json_t *rs_shape_file(const rs_predict_run *run, const rs_shape *shape, rs_error *err);
/* Asks theory, and trials, of each. Errors: RS_E_INTERRUPTED, RS_E_NO_MEMORY, those of trials; a shape
 * that memory does not hold says so. */
rs_status rs_shapes_run(rs_shapes *shapes, const rs_predict_run *run, rs_error *err);
/* Adds table and figure `budget`. */
rs_status rs_shapes_table(rs_result *result, const rs_shapes *shapes, const rs_predict_run *run,
                          rs_error *err);
/* Which shape keeps tokens apart best, and which is the deepest that is healthy, as a ninth answer. */
void rs_shapes_answer(rs_predict_answer *out, const rs_shapes *shapes);

#endif
