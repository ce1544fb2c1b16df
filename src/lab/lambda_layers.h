/*
 * lambda_layers.h: a figure of how far apart tokens are behind every layer, one line a point of a
 * sweep: what lambda-figure-1 and lambda-figure-3 share beyond lambda_figures.h.
 */
#ifndef RS_LAB_LAMBDA_LAYERS_H
#define RS_LAB_LAMBDA_LAYERS_H

#include "lab/lambda_figures.h"

enum { RS_LAYER_LINES_MOST = 10, RS_LAYER_LINES_STATES = 4 };
/* The layers behind which claims are made. */
extern const int32_t rs_layer_lines_states[RS_LAYER_LINES_STATES];

/* The lines of a figure; each has a skip strength or a setting of switches of its own. */
typedef struct rs_layer_lines {
    const char *id;  /* of the experiment */
    uint64_t stream; /* of the tokens */
    const rs_lab_curves *curves;
    int32_t n;
    bool by_setting;
    const char *const *series;               /* [n] names of the lines */
    const char *claims[RS_LAYER_LINES_MOST]; /* how a claim begins: "skip strength -20" */
    /* tests/oracle/lab_lambda_figures.py: residual over norm behind those layers, mean and standard
     * deviation over draws; and of one network whose numbers are a hash of their index. */
    const double (*expected)[RS_LAYER_LINES_STATES][2];
    const double (*hashed)[RS_LAYER_LINES_STATES];
} rs_layer_lines;

/* What a line has behind a layer. */
double rs_layer_lines_left(const rs_layer_lines *lines, const rs_strengths_states *states,
                           int32_t line, int32_t layer);
/* Draws the lines of random Mamba-2 layers, and claims what the oracle has of them. spec: the sweep. */
rs_status rs_layer_lines_draw(rs_lab_report *report, const rs_layer_lines *lines,
                              const rs_sweep_spec *spec, const rs_lab_options *options,
                              const rs_context *context, rs_error *err);
/* Draws those of states that a model has had. */
rs_status rs_layer_lines_show(rs_lab_report *report, const rs_layer_lines *lines,
                              const rs_strengths_states *states, rs_error *err);

#endif
