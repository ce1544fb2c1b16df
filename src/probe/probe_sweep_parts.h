/*
 * probe_sweep_parts.h: a sweep in the making. probe_sweep.c runs the points, probe_sweep_proof.c says
 * what is proved of them, probe_sweep_tables.c shows it.
 */
#ifndef RS_PROBE_PROBE_SWEEP_PARTS_H
#define RS_PROBE_PROBE_SWEEP_PARTS_H

#include "observe/stack.h"
#include "observe/sweep.h"
#include "probe/probe_parts.h"
#include "probe/probe_sweep.h"

/* One point: a λ with one setting of the switches. */
typedef struct rs_sweep_point {
    double lambda;
    bool gate, norm;
    rs_precision precision;
    rs_swept_state *states; /* [layers + 1] */
    rs_lambda_left *proved; /* [layers + 1] of all samples: relative is the mean, kept the least */
} rs_sweep_point;

/* The points of one setting of the switches, which are one network. */
typedef struct rs_sweep_setting {
    rs_edit edit; /* without λ */
    rs_network *network;
    double *skip;           /* [branches, n] of all points */
    rs_sweep_point *points; /* [n] */
    const char *failed;     /* why nothing is proved of its points; NULL: something is */
    double from; /* every |λ| from here on keeps what is wished for; NaN: none is known to */
    double eq7;  /* |λ| that the published equation 7 asks for; NaN: it has no number */
    const char *eq7_from, *eq7_failed; /* what its norms are from; why there are none */
} rs_sweep_setting;

typedef struct rs_sweeping {
    rs_result *result;
    const rs_network *network;
    rs_weights *weights;
    const rs_inputs *inputs;
    const rs_probe_options *options;
    const rs_measured *own; /* what the model with the options' edits measured; NULL: not run */
    const rs_context *context;
    rs_sweep_spec spec;
    rs_arena *arena;
    rs_sweep_setting settings[4];
    size_t n_settings, branches;
    int32_t layers;
    int64_t moved[RS_PRECISIONS];                /* points that run in each precision */
    rs_lambda_entering *entering[RS_PRECISIONS]; /* [samples] each; NULL: not asked yet */
    rs_pass_account account;
} rs_sweeping;

/* probe_sweep.c: the network of a setting at one λ. */
rs_status rs_sweep_network(rs_network **out, const rs_sweeping *w, const rs_sweep_setting *s,
                           double lambda, rs_error *err);
/* Weights of a precision: those of the probe; NULL: a pass opens its own. */
rs_weights *rs_sweep_weights(const rs_sweeping *w, rs_precision precision);
/* probe_sweep_proof.c: fills in what is proved of points and settings, and what equation 7 asks. */
rs_status rs_sweep_prove(rs_sweeping *w, rs_error *err);
/* probe_sweep_tables.c: adds tables, finding and figure. */
rs_status rs_sweep_tables(const rs_sweeping *w, rs_error *err);

#endif
