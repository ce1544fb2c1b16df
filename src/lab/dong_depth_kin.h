/*
 * dong_depth_kin.h: the other two panels of dong-depth-init, ALBERT and XLNet at initialisation; and
 * the quantity of all panels, of one variant of any network, which dong-depth-pretrained has too.
 */
#ifndef RS_LAB_DONG_DEPTH_KIN_H
#define RS_LAB_DONG_DEPTH_KIN_H

#include "engine/forward.h"
#include "lab/lab.h"

/* A variant of a network, and how it is run. */
typedef struct rs_lab_depth_run {
    const char *variant; /* "san", "san+mlp", "san+skip" or "full" */
    bool code;           /* as the released code ran it (edit.h, dong2021_code) */
    rs_precision precision;
    const char *phase; /* what progress calls it */
} rs_lab_depth_run;

/* Measures |X - 1x|/|X|, x the mean token, in the composite norm, mean over the samples: out [states],
 * state 0 enters the first block. weights: of that precision. */
rs_status rs_lab_depth_states(double *out, int32_t states, const rs_network *network,
                              rs_weights *weights, const rs_inputs *inputs,
                              const rs_lab_depth_run *run, const rs_context *context,
                              rs_error *err);

/* Runs them and adds their tables, figures and claims. */
rs_status rs_lab_depth_kin(rs_lab_report *report, const rs_lab_options *options,
                           const rs_context *context, rs_error *err);

#endif
