/*
 * toy.h: what experiments are made of: small networks described by an architecture file, with
 * weights drawn or given, run by the engine (in float64) on given tokens, every state kept; norms
 * of small matrices; a table of curves with its figure.
 */
#ifndef RS_LAB_TOY_H
#define RS_LAB_TOY_H

#include "base/random.h"
#include "engine/forward.h"
#include "lab/lab.h"
#include "network/arch.h"
#include "network/graph.h"
#include "report/figures.h"

/* ---- networks ---- */

/* A small network and its weights. */
typedef struct rs_toy {
    rs_init *init;
    rs_network *network; /* may be edited between runs */
    rs_weights *weights;
    rs_precision precision;
    rs_context context; /* of one thread: toys are too small to share */
} rs_toy;

/* Builds a toy. arch: an architecture (arch.h), taken over; NULL means that memory was out when it
 * was made. On failure there is nothing to close. */
rs_status rs_toy_open(rs_toy *toy, json_t *arch, uint64_t seed, const rs_context *context,
                      rs_error *err);
void rs_toy_close(rs_toy *toy);
/* Sets another precision than float64, before the first run. */
rs_status rs_toy_precision(rs_toy *toy, rs_precision precision, rs_error *err);

rs_attention_op *rs_toy_attention(rs_toy *toy, int32_t layer);
/* Gives every layer the mixer X -> M X W_V in place of its attention, of one head without W_O, whose
 * W_V it keeps: M from a [n, n] by its form (not attention). rs_toy_values is that map. */
rs_status rs_toy_mix(rs_toy *toy, const double *a, int64_t n, rs_graph_form form, rs_error *err);
/* The same for layers first, first + step, ...; may be called again. */
rs_status rs_toy_mix_some(rs_toy *toy, int32_t first, int32_t step, const double *a, int64_t n,
                          rs_graph_form form, rs_error *err);
rs_dense *rs_toy_values(rs_toy *toy, int32_t layer);
/* Sets the weights of a map: Y = X w, w [dense->in, dense->out] row-major, as theory writes it
 * (dense is one of the toy's). With b (may be NULL) [dense->out]: Y = X w + 1 b. Copied. */
rs_status rs_toy_set(rs_toy *toy, rs_dense *dense, const double *w, const double *b, rs_error *err);
/* Makes a tensor of numbers [rows, cols] that lives as long as the toy. */
rs_status rs_toy_tensor(const rs_tensor **out, rs_toy *toy, const double *numbers, int64_t rows,
                        int64_t cols, rs_error *err);

/* What a run leaves. R stands for a state's residual. */
typedef struct rs_toy_trace {
    int32_t layers, heads;
    int64_t samples, n, d;
    double *states;     /* [layers + 1, samples, n, d]; in the residual precision 2^-exponent R */
    int64_t *exponents; /* [layers + 1, samples] in the residual precision; else NULL */
    double *norms;      /* [layers + 1, samples] |X|_F in the residual precision; else NULL */
    double *mixing;     /* [layers, samples, heads, n, n], or NULL */
} rs_toy_trace;

/* Runs the toy on x [samples, n, d]. attention: mixing matrices are kept, too. On failure there is
 * nothing to free. */
rs_status rs_toy_run(rs_toy_trace *trace, rs_toy *toy, const double *x, int64_t samples, int64_t n,
                     bool attention, rs_error *err);
void rs_toy_trace_free(rs_toy_trace *trace);
/* The state behind `layer` layers of a sample: [n, d]. */
double *rs_toy_state(const rs_toy_trace *trace, int32_t layer, int64_t sample);
/* The mixing matrix of a head: [n, n]; layers count from 0. */
double *rs_toy_mixing(const rs_toy_trace *trace, int32_t layer, int64_t sample, int32_t head);

/* ---- small matrices, row-major [rows, cols] ---- */

double rs_norm_columns(const double *a, int64_t rows, int64_t cols); /* largest column sum, |.|_1 */
double rs_norm_rows(const double *a, int64_t rows, int64_t cols);    /* largest row sum, |.|_inf */
double rs_norm_composite(const double *a, int64_t rows, int64_t cols); /* sqrt of their product */
double rs_norm_frobenius(const double *a, int64_t rows, int64_t cols);
/* The largest singular value; NaN when LAPACK or memory fails. */
double rs_norm_spectral(const double *a, int64_t rows, int64_t cols);
/* The largest Euclidean distance between two rows. */
double rs_rows_diameter(const double *a, int64_t rows, int64_t cols);
/* Dobrushin's coefficient of a row-stochastic matrix: the largest total variation between two
 * rows. */
double rs_rows_variation(const double *a, int64_t rows, int64_t cols);
/* Subtracts from every row the mean row. */
void rs_rows_centre(double *a, int64_t rows, int64_t cols);
/* c = a b: a [m, k], b [k, n]. */
void rs_small_product(double *c, const double *a, const double *b, int64_t m, int64_t k, int64_t n);
/* A hash of tag and index: programs in other languages (tests/oracle/lab_expected.py) have the same
 * numbers. */
uint32_t rs_lab_hash(uint32_t tag, uint32_t index);
/* Fills out [count] with draws from N(0, scale²). */
void rs_draw_gaussian(double *out, int64_t count, double scale, rs_random *random);

/* ---- claims in short ---- */

/* Claims that what is measured is what an independent calculation gives. */
rs_status rs_lab_expect(rs_lab_report *report, const char *text, double expected, double measured,
                        double tolerance, rs_error *err);
/* Claims that of a formula's number, which is not measured. */
rs_status rs_lab_compute(rs_lab_report *report, const char *text, double expected, double computed,
                         double tolerance, rs_error *err);
rs_status rs_lab_at_most(rs_lab_report *report, const char *text, double measured, double bound,
                         rs_error *err);
/* Notes that --quick did less; `what` says what ("2000 draws instead of 20000"). */
rs_status rs_lab_say_quick(rs_lab_report *report, const char *what, rs_error *err);

/* ---- curves: one table, one figure ---- */

/* A point of a curve: a row of a table of curves. */
typedef struct rs_lab_point {
    const char *series;
    double x, y;
    const char *origin, *source;
} rs_lab_point;

/* A column of x or y, whose numbers may be whole. */
#define RS_LAB_NUMBER(member_, type_, name_, title_, formula_, provenance_)                        \
    {                                                                                              \
        .name = name_, .type = type_, .member = RS_MEMBER_REAL,                                    \
        .at = offsetof(rs_lab_point, member_), .title = title_, .formula = formula_,               \
        .provenance = provenance_                                                                  \
    }
#define RS_LAB_X(name_, title_, formula_)                                                          \
    RS_LAB_NUMBER(x, RS_COLUMN_REAL, name_, title_, formula_, NULL)
#define RS_LAB_X_WHOLE(name_, title_, formula_)                                                    \
    RS_LAB_NUMBER(x, RS_COLUMN_INT, name_, title_, formula_, NULL)
#define RS_LAB_X_STATE                                                                             \
    RS_LAB_X_WHOLE("layer", "state (0 enters the first layer)",                                    \
                   "layers that the tokens have passed")
#define RS_LAB_Y(name_, title_, formula_)                                                          \
    RS_LAB_NUMBER(y, RS_COLUMN_REAL, name_, title_, formula_, "as origin says")

/* The columns of a table of curves: an array that its kind names, for rs_explain. */
#define RS_LAB_POINTS(x_, y_)                                                                      \
    {                                                                                              \
        RS_COLUMN(rs_lab_point, series, "series", "series", NULL, "which curve of the figure",     \
                  NULL),                                                                           \
            x_, y_,                                                                                \
            RS_COLUMN(rs_lab_point, origin, "origin", "origin", NULL,                              \
                      "measured, computed by a formula, or published", NULL),                      \
            RS_COLUMN(rs_lab_point, source, "source", "source", NULL,                              \
                      "of what was published: the paper, and how its numbers were had", NULL),     \
    }

/* What a table of curves and its figure show. */
typedef struct rs_lab_curves {
    const rs_table_kind *kind; /* the experiment's; its columns are RS_LAB_POINTS */
    const char *title, *about;
    bool log_x, log_y;
    double y_floor; /* with log_y, nothing below this is drawn: it is rounding */
} rs_lab_curves;

/* Adds a table with columns series, x, y, origin, source, and its figure. Strings are borrowed:
 * literals. */
rs_status rs_lab_curves_open(rs_table **out, rs_lab_report *report, const rs_lab_curves *curves,
                             rs_error *err);
rs_status rs_lab_curves_add(rs_table *table, const char *series, double x, double y, rs_error *err);
/* Adds a point that a formula of ours gave. */
rs_status rs_lab_curves_compute(rs_table *table, const char *series, double x, double y,
                                rs_error *err);
/* Adds a point of a published curve: a number of the paper, or its law with numbers put in. source
 * says which ("Dong et al. 2021, figure, read from its vector form"). The rows of a published curve
 * stand behind those of the curve that it is about, whose colour it then has, lighter. */
rs_status rs_lab_curves_publish(rs_table *table, const char *source, const char *series, double x,
                                double y, rs_error *err);

#endif
