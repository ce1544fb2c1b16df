/*
 * signals.h: what experiments on signal propagation share: numbers of many draws with their standard
 * errors and the claims about them; random tokens and attention matrices; and one pass of a toy there
 * and back, by layer (docs/theory/mean_field.md).
 */
#ifndef RS_LAB_SIGNALS_H
#define RS_LAB_SIGNALS_H

#include "lab/toy.h"

/* ---- draws ---- */

/* Numbers of independent draws. */
typedef struct rs_draws {
    int32_t draws, cells;
    double *of; /* [draws, cells] */
} rs_draws;

/* Fills the cells of one draw, which has random numbers of its own; of: the experiment's. */
typedef rs_status rs_draw_one(double *cells, const void *of, rs_random *random,
                              const rs_context *context, rs_error *err);

/* Runs draws on all threads: the same numbers for any number of them. stream: the experiment's own.
 * On failure there is nothing to free. */
typedef struct rs_draws_plan {
    int32_t draws, cells;
    uint64_t stream;
    rs_draw_one *one;
    const void *of;
} rs_draws_plan;
rs_status rs_draws_run(rs_draws *out, const rs_draws_plan *plan, const rs_context *context,
                       rs_error *err);
void rs_draws_free(rs_draws *draws);
/* A seed of networks, of a draw's own numbers. */
uint64_t rs_draw_seed(rs_random *random);

/* A mean over draws and its standard error. */
typedef struct rs_seen {
    double mean, error;
} rs_seen;
rs_seen rs_draws_seen(const rs_draws *draws, int32_t cell);
/* Of the sum of w[i] times cell first + i, i < n: a slope, a difference. */
rs_seen rs_draws_combined(const rs_draws *draws, int32_t first, const double *w, int32_t n);

/* ---- claims ---- */

/* A number that is expected: 1 with error 0 where a theorem has it exactly, else mean and standard
 * error of another program's draws (tests/oracle/lab_signals.py). */
typedef struct rs_awaited {
    double mean, error;
} rs_awaited;

/* How many standard errors of the difference a mean may be off: of a normal law beyond that lies
 * 6e-7. Draws are at least RS_DRAWS_LEAST, so that their own deviation is known to a fifth. */
enum { RS_SEEN_ERRORS = 5, RS_DRAWS_LEAST = 16 };

/* Claims that what is seen is what is awaited, within RS_SEEN_ERRORS standard errors of both and
 * `slack`, a bound on what the statement leaves out (0: it leaves out nothing). */
rs_status rs_lab_seen(rs_lab_report *report, const char *text, rs_awaited awaited, double slack,
                      rs_seen seen, rs_error *err);
/* The same of a number that the paper has printed, too. */
rs_status rs_lab_seen_published(rs_lab_report *report, const char *text, double published,
                                rs_awaited awaited, rs_seen seen, rs_error *err);
/* Claims of each cell from `first` on that it is what is awaited [n]; names [n]. */
rs_status rs_lab_seen_cells(rs_lab_report *report, const char *const *names,
                            const rs_awaited *awaited, const rs_draws *draws, int32_t first,
                            int32_t n, rs_error *err);

/* ---- tokens and matrices ---- */

/* Gaussian tokens x [n, d] of entries' variance `variance` and correlation rho >= 0. */
void rs_draw_tokens(double *x, int64_t n, int64_t d, double variance, double rho,
                    rs_random *random);
/* Softmax of every row of a [rows, cols], in place. */
void rs_rows_softmax(double *a, int64_t rows, int64_t cols);
/* a [n, n]: softmaxes of independent N(0, variance) logits. */
void rs_draw_markov(double *a, int64_t n, double variance, rs_random *random);
void rs_subtract_uniform(double *a, int64_t n); /* a -= 11ᵀ/n */
void rs_identity(double *a, int64_t n);
/* ‖X‖_F²/‖X‖₂² and Σs⁴/s₁⁴ of x [rows, cols]. */
rs_status rs_stable_ranks(double ranks[2], const double *x, int64_t rows, int64_t cols,
                          rs_error *err);
double rs_sum_square(const double *x, int64_t count);
double rs_apart_square(const double *x, int64_t n, int64_t d); /* ‖PX‖_F², P = I − 11ᵀ/n */
/* ‖XᵀPX‖_F² */
rs_status rs_cross_square(double *out, const double *x, int64_t n, int64_t d, rs_error *err);

/* ---- there and back ---- */

enum { RS_SIGNAL_LAYERS = 64 };

/* The state in front of a layer (at the end: behind the last), and squared norms of the layer's
 * gradients. */
typedef struct rs_signal_layer {
    double square, apart; /* ‖X‖_F², ‖PX‖_F² */
    double cosine;        /* mean over pairs of tokens */
    double query, key, value, up, down;
    double state; /* ‖∂L/∂X‖_F² */
} rs_signal_layer;

/* One pass of the toy on x [n, d_model], forward and back from L = ⟨G, X⟩, G of N(0, 1) by `seed`, X the
 * last layer's output (at_state) or what the final norm makes of it. layers: [n_layers + 1]. */
rs_status rs_signal_pass(rs_signal_layer *layers, rs_toy *toy, const double *x, int64_t n,
                         uint64_t seed, bool at_state, rs_error *err);
/* ρ of a state by its sums: (‖1ᵀX‖²/‖X‖² − 1)/(n − 1). */
double rs_signal_rho(const rs_signal_layer *layer, int64_t n);

#endif
