/*
 * probe_sweep.h: skip strengths one after another: what --sweep asks for, as points.
 */
#ifndef RS_PROBE_PROBE_SWEEP_H
#define RS_PROBE_PROBE_SWEEP_H

#include "observe/sweep.h"
#include "probe/probe.h"

/* Which states of a switch a sweep runs. */
typedef enum rs_sweep_switch {
    RS_SWEEP_ON = 1,
    RS_SWEEP_OFF = 2,
    RS_SWEEP_BOTH = 3
} rs_sweep_switch;

/* The most points that one sweep has. */
enum { RS_SWEEP_MOST = 100000 };

/* A sweep as it was asked for. */
typedef struct rs_sweep_spec {
    const char *of; /* "", "mixer:" or "mlp:": whose skips */
    double low, high;
    int32_t n;             /* points from low to high, both included */
    const double *lambdas; /* [n] in place of points between low and high, borrowed; or NULL */
    rs_sweep_switch gate, norm;
    double kept; /* fraction that a half line and equation 7 are to keep */
} rs_sweep_spec;

/* Parses "lambda=[mixer:|mlp:]LOW:HIGH:POINTS[,gate=on|off|both,norm=on|off|both,kept=A]"; one number
 * stands for a sweep of one point, A is 0.9 unless said. RS_E_BAD_OPTION says what is wrong. */
rs_status rs_sweep_parse(rs_sweep_spec *spec, const char *text, rs_error *err);
/* Point i, from 0: lambdas[i], or low + i (high - low)/(n - 1), the ends exact, and 0 where the middle
 * is meant. */
double rs_sweep_lambda(const rs_sweep_spec *spec, int32_t i);

/* probe_sweep.c: runs the points over all inputs. out: [settings, spec->n, layers + 1], settings being
 * gates and norms, gates without norms, norms without gates, neither, as far as spec asks for them.
 * network: as it is; options: its edits, precision and batch are read. weights: of that precision, or
 * NULL. account may be NULL. */
rs_status rs_sweep_states(rs_swept_state *out, rs_pass_account *account, const rs_network *network,
                          rs_weights *weights, const rs_inputs *inputs, const rs_sweep_spec *spec,
                          const rs_probe_options *options, const rs_context *context,
                          rs_error *err);

/* The same, proves what it can of the points, and adds tables sweep and sweep_ends and their figure.
 * account: what all its passes took. network: without the edits of options; weights: of
 * options->measure.precision; own: what the model with those edits measured, or NULL. */
rs_status rs_probe_sweep(rs_result *result, rs_pass_account *account, const rs_network *network,
                         rs_weights *weights, const rs_inputs *inputs,
                         const rs_probe_options *options, const rs_measured *own,
                         const rs_context *context, rs_error *err);

#endif
