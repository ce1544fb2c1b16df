/* dong_proof_lines.h: the lines of the proof of the cubic bound in both norms (proof/steps.h), as
 * claims of dong-perturbation-lemma. */
#ifndef RS_LAB_DONG_PROOF_LINES_H
#define RS_LAB_DONG_PROOF_LINES_H

#include "lab/one_layer.h"
#include "proof/steps.h"

/* What was met, by line and norm; NaN: nothing. */
typedef struct rs_proof_lines {
    double published[RS_LINES][RS_STEP_NORMS]; /* largest left/right where the line is proved */
    double repaired[RS_LINES][RS_STEP_NORMS];  /* largest left/right of the repaired line */
    int64_t refuted; /* proved lines, or repaired ones, that do not hold */
} rs_proof_lines;
void rs_proof_lines_open(rs_proof_lines *lines);
/* The layer's one head. */
rs_status rs_proof_lines_add(rs_proof_lines *lines, const rs_one_layer *layer,
                             const rs_context *context, rs_error *err);
/* The claims, of layers drawn, of the layer from a hash, and of 40 tokens. */
rs_status rs_proof_lines_claim(rs_lab_report *report, const rs_proof_lines *lines,
                               const rs_context *context, rs_error *err);

#endif
