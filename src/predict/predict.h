/* predict.h: what becomes of an architecture, as a result (docs/predict.md). */
#ifndef RS_PREDICT_PREDICT_H
#define RS_PREDICT_PREDICT_H

#include "base/context.h"
#include "predict/design.h"
#include "predict/verdict.h"
#include "report/result.h"

typedef struct rs_predict_options {
    rs_design_source source;
    bool after_final_norm; /* where the loss <G, X> reads the states */
    const char *remedies;  /* names, or "all"; NULL: all, by theory */
    int64_t trials;        /* below 0: as many as the shape says; 0: none */
    const char *grid;      /* fields and their values (grid.h); NULL: none */
    double budget;         /* parameters of shapes that are compared (shapes.h); 0: none are */
    bool full_size;        /* the network itself is drawn, however large it is */
    bool explain;          /* only the architecture with all its fields */
    rs_predict_thresholds thresholds;
} rs_predict_options;

/* Fills the result. Errors: those of rs_design_open and of rs_theory_run. */
rs_status rs_predict_fill(rs_result *result, const rs_predict_options *options,
                          const rs_context *context, rs_error *err);
/* The presets, as table presets. */
rs_status rs_predict_presets(rs_result *result, rs_error *err);

extern const rs_table_kind rs_predict_answers_kind, rs_predict_forward_kind,
    rs_predict_backward_kind, rs_predict_remedies_kind, rs_predict_grid_kind,
    rs_predict_budget_kind, rs_predict_presets_kind, rs_predict_architecture_kind;

#endif
