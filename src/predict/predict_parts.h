/* predict_parts.h: what the files of the command share. */
#ifndef RS_PREDICT_PREDICT_PARTS_H
#define RS_PREDICT_PREDICT_PARTS_H

#include "predict/forecast.h"
#include "predict/predict.h"

/* An architecture, and what is known of it. */
typedef struct rs_predict_run {
    const rs_predict_options *options;
    const rs_design *design;
    const rs_theory_row *theory; /* [n_layers + 1] */
    rs_forecast forecast;        /* by theory */
    rs_forecast_settings settings;
    const struct rs_remedied *remedied; /* [n_remedied] best first */
    size_t n_remedied;
    const rs_context *context;
} rs_predict_run;

/* predict_tables.c */
rs_status rs_predict_tables(rs_result *result, const rs_predict_run *run, rs_error *err);

/* predict_answers.c: the eight answers of the first screen. */
typedef struct rs_predict_answer {
    int64_t number;
    const char *question, *asks;
    char answer[200];
    double value;
} rs_predict_answer;
enum { RS_PREDICT_ANSWERS = 8 };
rs_status rs_predict_answer_all(rs_predict_answer answers[RS_PREDICT_ANSWERS],
                                const rs_predict_run *run, rs_error *err);

/* predict_depth.c: how far an architecture keeps its verdict. */
typedef struct rs_predict_reach {
    int64_t deepest; /* layers with the same verdict; 0: not known */
    int64_t tried;   /* deepest that was tried */
    bool ends;       /* one more layer has another verdict */
    rs_predict_verdict then;
    const char *why; /* deepest is 0: the reason */
} rs_predict_reach;
rs_status rs_predict_reach_of(rs_predict_reach *out, const rs_predict_run *run, rs_error *err);

/* predict_change.c: the same architecture with one field changed, by theory. *made false: it makes no
 * architecture, for the reason in err, which is then no failure. */
typedef struct rs_predict_field {
    const char *name; /* of ARCH.json */
    double value;
} rs_predict_field;
rs_status rs_predict_changed(rs_forecast *out, bool *made, const rs_predict_run *run,
                             const rs_predict_field *fields, size_t n, rs_error *err);
/* The temperature, over what there is, at which gQ = gV in the mean over layers; NaN: none. */
rs_status rs_predict_balance(double *temperature, const rs_predict_run *run, rs_error *err);

/* predict_findings.c */
rs_status rs_predict_findings(rs_result *result, const rs_predict_run *run, rs_error *err);
/* "11 of 12 layers". */
double rs_predict_embedding_ratio(const rs_predict_run *run);

#endif
