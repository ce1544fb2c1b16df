/*
 * remedies.h: changes of an architecture that are said to keep tokens apart or gradients in balance,
 * as edits of its file.
 */
#ifndef RS_PREDICT_REMEDIES_H
#define RS_PREDICT_REMEDIES_H

#include "predict/predict_parts.h"

typedef struct rs_remedy {
    const char *name;
    const char *says; /* what is changed, as a reader of an architecture file says it */
    /* Edits the file; *applies is false where it changes nothing, or is not for such an architecture.
     * RS_E_NO_MEMORY. */
    rs_status (*apply)(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err);
} rs_remedy;

/* Remedy i; NULL behind the last. */
const rs_remedy *rs_remedy_at(size_t i);
/* One by name; RS_E_BAD_OPTION names the nearest. */
rs_status rs_remedy_find(const rs_remedy **out, const char *name, size_t length, rs_error *err);

/* What a remedy does. */
typedef struct rs_remedied {
    const rs_remedy *remedy;
    rs_predict_found found;
    double apart, ratio, growth; /* log10(1 − ρ) at the end, least log10(gQ/gV), decades of ‖X‖² */
    double parameters_ratio, time_ratio;
    char worse_at[64]; /* questions of which it makes the answer worse; empty: none */
    double score;      /* the larger, the more it helps; of one architecture only */
} rs_remedied;

/* Runs the remedies of `names` (comma-separated; "all" or NULL: all that apply), best first. */
rs_status rs_remedies_run(rs_remedied **out, size_t *n, const rs_predict_run *run,
                          const char *names, rs_error *err);
/* The score of an architecture as it is, to compare theirs with. */
double rs_remedies_score(const rs_forecast *forecast);
rs_status rs_remedies_table(rs_result *result, const rs_remedied *remedied, size_t n,
                            const rs_predict_run *run, rs_error *err);

#endif
