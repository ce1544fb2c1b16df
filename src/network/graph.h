/*
 * graph.h: a mixing matrix M that is given, made from the n x n numbers A of a file
 * (docs/theory/graph.md). A holds weights of edges, A_ij != 0 where token i reads token j; D is
 * diagonal, D_ii = sum_j A_ij.
 *
 *   row         M = D^-1 A             rows sum to 1, where a node has an edge
 *   symmetric   M = D^-1/2 A D^-1/2    A must be symmetric
 *   attention   M = softmax of logits over a node's edges alone, whatever their weights
 *   given       M = A                  entries of any sign
 *
 * Weights are no less than 0 in the first three. A node without edges reads nothing in any form: its
 * row of M is 0. Who wants it to read itself puts a 1 on the diagonal.
 */
#ifndef RS_NETWORK_GRAPH_H
#define RS_NETWORK_GRAPH_H

#include "network/network.h"

/* How M is made. */
typedef enum rs_graph_form {
    RS_GRAPH_ROW,
    RS_GRAPH_SYMMETRIC,
    RS_GRAPH_ATTENTION,
    RS_GRAPH_GIVEN,
    RS_GRAPH_FORMS
} rs_graph_form;
const char *rs_graph_form_name(rs_graph_form form); /* "row", ... */

struct rs_graph {
    rs_graph_form form;
    int64_t nodes;
    int64_t edges;    /* entries of A that are not 0 */
    int64_t isolated; /* nodes without edges */
    /* Few edges: entry e of row i is of column[e], e from row_begin[i] to row_begin[i+1]-1, and
     * `matrix` holds [edges] numbers; many: row_begin is NULL, `matrix` is [nodes, nodes]. Attention
     * always has the edges, and no numbers. */
    const int64_t *row_begin; /* [nodes+1] */
    const int32_t *column;    /* [edges], ascending in each row */
    const rs_tensor *matrix;  /* float64; NULL: attention */
    const double *right; /* [nodes] M right = c right with c != 0: what message passing makes of
                                 the tokens are multiples of it; NULL: not known */
    double row_sum;      /* that all rows have; NaN: they differ */
    bool causal;         /* M_ij = 0 for j > i */
};

/* Where A comes from. */
typedef struct rs_graph_source {
    const char *name; /* of the file, for messages */
    int64_t nodes;
    rs_status (*read_row)(void *user, double *row, int64_t i, rs_error *err); /* row: [nodes] */
    void *user;
} rs_graph_source;

/* Makes the matrix, in the arena. init (may be NULL) says how much memory there is. Errors:
 * RS_E_TENSOR_VALUE for an entry that is not finite, or negative, or has no equal across the
 * diagonal, where the form asks for it, and for weights whose sums leave the doubles;
 * RS_E_MEMORY_LIMIT. */
rs_status rs_graph_build(const rs_graph **out, rs_arena *arena, const rs_init *init,
                         const rs_graph_source *source, rs_graph_form form, rs_error *err);

/* The vector of which all states of this network become multiples when tokens collapse: `right` of
 * its mixers, [*nodes]. NULL where its mixers are no graphs, or not of one such vector; *why says so
 * in words. */
const double *rs_network_right_vector(const rs_network *network, int64_t *nodes, const char **why);

#endif
