/*
 * certify_radius_scan.h: mixers whose matrix is M_ij = (q_i·k_j) step_j times the decays of tokens
 * j+1 .. i, one number a token and head, with radii, linear in the length (docs/certificates.md, C11).
 */
#ifndef RS_CERTIFY_CERTIFY_RADIUS_SCAN_H
#define RS_CERTIFY_CERTIFY_RADIUS_SCAN_H

#include "certify/certify_radius.h"

/* A number and its radius. */
typedef struct rs_known {
    double value, radius;
} rs_known;

/* A vector: an upper bound of its computed length, and its radius (2-norm). */
typedef struct rs_sized {
    double length, radius;
} rs_sized;
/* Of x [n], whose entries have these radii. */
static inline rs_sized rs_sized_of(const double *x, const double *radius, int64_t n)
{
    return (rs_sized){rs_radius_length(x, n), rs_radius_length(radius, n)};
}

/* A token's step at one head, and by how much the state decays. */
typedef struct rs_token_step {
    rs_known step, decay;
} rs_token_step;

/* Vectors of tokens: that of row i and place p (a head or a group) at x + i ld + p times its length;
 * sizes [rows, places]. */
typedef struct rs_radius_vectors {
    const double *x;
    int64_t ld;
    rs_sized *sizes;
} rs_radius_vectors;

typedef struct rs_radius_scan {
    int64_t heads, groups; /* head h has queries and keys of group h / (heads/groups) */
    int64_t dim, state;    /* of values, of queries and keys */
    rs_radius_vectors queries, keys, values; /* a place a group, a group, a head */
    rs_token_step *steps;                    /* [rows, heads] */
    const double *d;                         /* [heads] added to the diagonal */
    double *y;                               /* [rows, heads*dim] */
    double *y_radius;                        /* [rows, heads] of each head's vector (2-norm) */
    /* of a chunk of n rows from row i on: [groups, n, CHUNK] q_i·k_j, at i*groups*CHUNK */
    double *products;
    double *carried;        /* [heads, state, dim] of the sample that goes on */
    double *carried_radius; /* [heads] 2-norm over both */
    double *work;           /* [threads, ..] */
} rs_radius_scan;

/* Makes all that is pointed to but not const; sizes are set, and queries, keys and values where the
 * caller has them. */
rs_status rs_radius_scan_open(rs_radius_scan *scan, rs_arena *arena, int64_t rows, int threads,
                              rs_error *err);
/* How many doubles that takes; only the numbers of heads and so on are read. */
double rs_radius_scan_size(const rs_radius_scan *scan, double rows, int threads);
/* Mixes the rows of some parts, which follow one another; sizes and steps are there. */
void rs_radius_scan_run(rs_radius_scan *scan, const rs_states_part *parts, int64_t n_parts,
                        const rs_context *context);

#endif
