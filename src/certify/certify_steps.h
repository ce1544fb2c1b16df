/* certify_steps.h: the proof of the cubic bound on heads of the model (docs/certify.md, Table
 * proof): a listener keeps what enters their mixers, on the first sample that has tokens, and
 * proof/steps.h works the lines out. */
#ifndef RS_CERTIFY_CERTIFY_STEPS_H
#define RS_CERTIFY_CERTIFY_STEPS_H

#include "certify/certify_gather.h"
#include "proof/steps.h"
#include "report/result.h"

/* One head that was asked for. */
typedef struct rs_proved_head {
    int32_t layer, head;
    const char *failed; /* why there are no numbers; NULL: there are */
    bool masked;        /* keys are hidden from some queries */
    int64_t tokens;
    rs_steps steps;
} rs_proved_head;

typedef struct rs_certify_steps rs_certify_steps;
/* Opens it for the heads of the scene's options. Errors: RS_E_BAD_OPTION for one that there is
 * not. */
rs_status rs_certify_steps_open(rs_certify_steps **out, const rs_certify_scene *scene,
                                rs_error *err);
rs_listener *rs_certify_steps_listener(rs_certify_steps *steps);
/* Behind the pass: works out all heads and adds tables and findings. */
rs_status rs_certify_steps_finish(rs_result *result, rs_certify_steps *steps, rs_error *err);
void rs_certify_steps_close(rs_certify_steps *steps); /* NULL is fine */

/* certify_steps_head.c: whether the proof speaks of a mixer's heads, and a head's numbers. */
const char *rs_steps_unproved(const rs_branch *mixer);
/* x [n, d]: what enters the mixer. Errors: RS_E_NO_MEMORY. */
rs_status rs_steps_read(rs_proved_head *out, const rs_branch *mixer, const double *x, int64_t n,
                        const rs_context *context, rs_error *err);
/* The bytes that it takes. */
double rs_steps_need(const rs_branch *mixer, int64_t n);

/* certify_steps_table.c: tables proof and proof_numbers; certify_steps_words.c: the findings, and a
 * line in plain words. sample: which one it is of. */
rs_status rs_steps_tables(rs_result *result, const rs_proved_head *heads, size_t n, int64_t sample,
                          rs_error *err);
rs_status rs_steps_findings(rs_result *result, const rs_proved_head *heads, size_t n,
                            rs_error *err);
/* What the line says, whatever the head. */
const char *rs_step_meaning(rs_step_line line);
/* What its numbers say. */
void rs_step_here(char *text, size_t size, rs_step_line line, rs_step_norm norm,
                  const rs_step_row *row);
/* Why the row is not told, or a part of it is null; NULL: nothing is. */
const char *rs_step_note(const rs_proved_head *head, rs_step_line line, rs_step_norm norm);

#endif
