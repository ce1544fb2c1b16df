/*
 * lambda_figures.h: what lambda-figure-1, -2 and -3 share: the figures of Arangath Joseph, Sieber,
 * Zeilinger, Amo Alonso 2025 (arXiv 2410.10609) on skip strengths, which edit trained models; of a
 * model that is given, or of stacks of random Mamba-2 layers in its place. Both run at many skip
 * strengths by the sweep that `probe --sweep` is (probe/probe_sweep.h).
 */
#ifndef RS_LAB_LAMBDA_FIGURES_H
#define RS_LAB_LAMBDA_FIGURES_H

#include "lab/toy.h"
#include "probe/probe_sweep.h"

enum {
    RS_STRENGTHS_SIZE = 64, /* layers, tokens and features of a stand-in */
    RS_STRENGTHS_DRAWS = 16,
    RS_STRENGTHS_QUICK_DRAWS = 8,
    RS_STRENGTHS_ORACLE_DRAWS = 256 /* at least: tests/oracle/lab_lambda_figures.py */
};

/* ---- random weights ---- */

/* Opens a stack of Mamba-2 layers (8 heads of 16 channels, 16 states, gate before the inner norm) whose
 * weights are drawn as the published models' are at first; norm: "pre" or "post". Every eps is 1e-12. */
rs_status rs_strengths_mamba2(rs_toy *toy, const char *norm, uint64_t seed,
                              const rs_context *context, rs_error *err);
/* Gives such a stack the weights that are a hash of their index. */
rs_status rs_strengths_hash_weights(rs_toy *toy, rs_error *err);
/* Draws tokens of length sqrt(d) that share a part of deviation 0.5: x [RS_STRENGTHS_SIZE,
 * RS_STRENGTHS_SIZE]. */
void rs_strengths_tokens(double *x, rs_random *random);
void rs_strengths_hash_tokens(double *x);
/* The seed of a draw, from 0. */
uint64_t rs_strengths_seed(const rs_context *context, int32_t draw);

/* ---- sweeps ---- */

/* How far apart tokens stay at every point of a sweep (rs_sweep_states). */
typedef struct rs_strengths_states {
    rs_sweep_spec spec;
    bool no_inner_norm; /* norms inside of mixers go */
    rs_pass_account account;
    int32_t settings, layers;
    rs_swept_state *states; /* [settings, spec.n, layers + 1] */
} rs_strengths_states;
/* Each sets `states`, which rs_strengths_close frees; `spec` says what is swept. */
rs_status rs_strengths_run_toy(rs_strengths_states *states, rs_toy *toy, const double *x,
                               int64_t tokens, rs_error *err);
rs_status rs_strengths_run_model(rs_strengths_states *states, const rs_lab_model *model,
                                 const rs_context *context, rs_error *err);
void rs_strengths_close(rs_strengths_states *states);
/* The residual over the norm behind a layer, mean over samples; NaN where it is not defined. */
double rs_strengths_left(const rs_strengths_states *states, int32_t setting, int32_t point,
                         int32_t layer);
/* Whether a model has gates that can be taken away. */
bool rs_strengths_gated(const rs_network *network);

/* ---- claims ---- */

/* Claims that the mean over draws is that of the oracle, within four standard deviations of the
 * difference of both means, and `rounding`. expected: mean and deviation of one draw. */
rs_status rs_strengths_expect(rs_lab_report *report, const char *text, const double expected[2],
                              double mean, int32_t draws, double rounding, rs_error *err);
/* Claims of a trained model what was published. reason: why it cannot be judged; NULL: it can, unless
 * the measured number is none. Counts a claim that was skipped. */
typedef struct rs_strengths_judge {
    rs_lab_report *report;
    const char *reason;
    int32_t skipped;
} rs_strengths_judge;
/* Random weights, or a model whose weights are. */
rs_strengths_judge rs_strengths_judge_of(rs_lab_report *report, const rs_lab_model *model);
rs_status rs_strengths_published(rs_strengths_judge *judge, const char *text, double published,
                                 double measured, double tolerance, rs_error *err);
/* Says what was skipped, and on what a model was run. */
rs_status rs_strengths_say(rs_strengths_judge *judge, const rs_lab_options *options, rs_error *err);

#endif
