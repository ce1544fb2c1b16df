/*
 * certify_radius.h: numbers that are carried beside a radius, how far exact ones are from them at
 * most: the steps of a branch that `certify` evaluates once more by itself, to bound what rounding
 * made of the pass (docs/certificates.md, C11).
 *
 * A radius that is NaN or infinite says that nothing is known; it stays so to the end.
 */
#ifndef RS_CERTIFY_CERTIFY_RADIUS_H
#define RS_CERTIFY_CERTIFY_RADIUS_H

#include "base/context.h"
#include "base/memory.h"
#include "network/network.h"

#include <math.h>

/* Unit roundoff; an elementary function's error in its units (C9); what underflow may take from a
 * step (C10); a factor that covers the evaluation of one step's radius, of up to 8109 roundings
 * beside sums that have a γ (C10). */
#define RS_RADIUS_U 0x1p-53
#define RS_RADIUS_FUNCTION (64 * RS_RADIUS_U)
#define RS_RADIUS_TINY 1e-290
#define RS_RADIUS_GROW (1 + 0x1p-40)

/* Upper bound of ‖x‖₂; infinite or NaN where squares leave the doubles. */
double rs_radius_length(const double *x, int64_t n);

/* A block of rows·cols doubles, zeroed. */
rs_status rs_radius_room(double **out, rs_arena *arena, int64_t rows, int64_t cols, rs_error *err);

/* ---- maps ---- */

/* What a map gives of some rows: entry (i, c) of the exact ones is within spread[i] share[c] + own[c]
 * of that of x. */
typedef struct rs_radius_map {
    double *x;                 /* [rows, cols] */
    double *spread, *rounding; /* [rows]; the map's own share of the spread */
    const double *radius;      /* [rows] of the rows that were read, as the caller gave it */
    double *share, *own;       /* [cols] */
    int64_t cols;
} rs_radius_map;
rs_status rs_radius_map_open(rs_radius_map *map, rs_arena *arena, int64_t rows, int64_t cols,
                             rs_error *err);
/* How many doubles that takes; and, for a while, an application of the map or its norm. */
double rs_radius_map_size(double rows, double cols);
double rs_radius_apply_size(const rs_dense *dense, double rows, int threads);
double rs_radius_map_norm_size(const rs_dense *dense);

/* Rows whose exact ones are within a radius, row by row (2-norm). */
typedef struct rs_radius_rows {
    const double *x;      /* [n, ..] with leading dimension ld */
    const double *radius; /* [n] */
    int64_t n, ld;
} rs_radius_rows;
rs_status rs_radius_apply(rs_radius_map *out, const rs_dense *dense, const rs_radius_rows *rows,
                          const rs_context *context, rs_error *err);

/* Upper bound of the map's spectral norm. */
rs_status rs_radius_map_norm(double *two, const rs_dense *dense, rs_error *err);

/* ---- norms and gates ---- */

/* A norm's numbers as doubles. */
typedef struct rs_radius_norm {
    rs_norm_kind kind;
    double eps;
    double *gain, *bias; /* [dim]; bias NULL: the op applies none */
} rs_radius_norm;
rs_status rs_radius_norm_open(rs_radius_norm *out, rs_arena *arena, const rs_norm_op *op,
                              bool biased, rs_error *err);

/* x [n] becomes what the norm makes of it by entries first .. of its gain, and *radius (2-norm)
 * what is known of that. */
void rs_radius_normalise(double *x, double *radius, int64_t n, const rs_radius_norm *norm,
                         int64_t first);

/* x [n] is multiplied by silu(z), z the columns first .. of row i of a map. */
void rs_radius_gate(double *x, double *radius, int64_t n, const rs_radius_map *map, int64_t i,
                    int64_t first);

/* silu(x), and its radius where that of x is `radius`. */
static inline double rs_radius_silu(double x)
{
    double e = exp(-fabs(x));
    return x >= 0 ? x / (1 + e) : x * e / (1 + e);
}
double rs_radius_behind_silu(double silu, double radius);

/* softplus(x), x itself above 20, and its radius. */
double rs_radius_softplus(double *radius, double x);

/* How far exp(l) is from its exact value, for exact numbers within `radius` of l, none of which is
 * above 0; value: exp(l) as computed. */
double rs_radius_behind_exp(double value, double l, double radius);

/* ---- causal convolution and SiLU ---- */

/* Rows of a panel that are one sample's, or a piece of it. */
typedef struct rs_states_part {
    int64_t from, to;
    int64_t sample; /* of the batch */
    bool begins;    /* with the sample's first row */
} rs_states_part;

typedef struct rs_radius_conv {
    const rs_conv_op *op;
    double *kernel, *bias;          /* [width, channels], [channels] */
    double *before, *before_spread; /* [width, channels], [width]: rows before the panel */
    double *x, *radius;             /* [rows, channels] */
} rs_radius_conv;
rs_status rs_radius_conv_open(rs_radius_conv *conv, rs_arena *arena, const rs_conv_op *op,
                              int64_t rows, rs_error *err);
/* How many doubles that takes. */
double rs_radius_conv_size(const rs_conv_op *op, double rows);
/* Of columns first .. of a map's rows; parts follow one another. */
void rs_radius_convolve(rs_radius_conv *conv, const rs_radius_map *map, int64_t first,
                        const rs_states_part *parts, int64_t n_parts, const rs_context *context);

#endif
