/*
 * kobayashi_line.h: two weights and their distance from the line w1 + 2 w2 = 2, squared, minimised by
 * AdamW or by Adam with coupled L2, the weights themselves or as w_i = a_i b_i
 * (docs/theory/weight_decay.md, 4 to 6).
 */
#ifndef RS_LAB_KOBAYASHI_LINE_H
#define RS_LAB_KOBAYASHI_LINE_H

#include "base/context.h"
#include "train/optimiser.h"

#include <stdbool.h>

enum { RS_LINE_DIRECT, RS_LINE_FACTORED, RS_LINE_PANELS };
enum { RS_LINE_MOST_STARTS = 8, RS_LINE_SHOWN = 18, RS_LINE_SETTINGS = 5 };

/* A setting: Adam's eps and AdamW's decay; the coupled L2 beside it is eps decay. */
typedef struct rs_line_setting {
    double eps, decay;
} rs_line_setting;
extern const rs_line_setting rs_line_settings[RS_LINE_SETTINGS];

/* The steps at which weights are kept: 300, the table's 60 000 and the last, 120 000, among them. */
extern const int rs_line_steps[RS_LINE_SHOWN];
enum { RS_LINE_EARLY = 4, RS_LINE_TABLE = 15, RS_LINE_LAST = RS_LINE_SHOWN - 1 };

/* (w1, w2) at those steps, by panel and start. */
typedef struct rs_line_path {
    double w[RS_LINE_PANELS][RS_LINE_SHOWN][RS_LINE_MOST_STARTS][2];
    double theta[RS_LINE_PANELS][4]; /* what start 0 ends at: w, or a and b */
} rs_line_path;

/* Runs both panels from `starts` starts: the first is (1.5, 1.2), a = (1.3, 1.1), the others are drawn
 * from the seed. kind: RS_OPTIMISER_ADAM or _ADAMW. */
rs_status rs_line_run(rs_line_path *path, const rs_line_setting *setting, rs_optimiser_kind kind,
                      int starts, const rs_context *context, rs_error *err);

/* What a fixed point of either optimiser solves, with the squared distance times `share`. */
typedef struct rs_line_equation {
    rs_line_setting setting;
    rs_optimiser_kind kind;
    int panel;
    double share;
} rs_line_equation;
/* Newton's method on it from theta (2 or 4 numbers), which becomes the root. Returns the largest
 * entry of what is left of the equation. */
double rs_line_newton(double *theta, const rs_line_equation *equation);
/* (w1, w2) of a root. */
void rs_line_weights(double w[2], const double *theta, int panel);

/* ---- gradients with noise ---- */

/* n weights (of (x - 1)^2/2 each), or n pairs of the line, under AdamW with noise of deviation
 * `noise` in each gradient. */
typedef struct rs_line_noise {
    bool line;
    double noise;
    rs_line_setting setting;
} rs_line_noise;

/* The strength of L2 that they behave as if under, -E gradient/E weight, of each of the two weights
 * (of a line) or of the one; and the standard error of the one. */
typedef struct rs_line_strength {
    double of[2], error;
} rs_line_strength;
rs_status rs_line_run_noise(rs_line_strength *strength, const rs_line_noise *noise, int n,
                            uint64_t stream, const rs_context *context, rs_error *err);

#endif
