/* heads.h: the spectrum and rank measures of every head product of a model (docs/contract.md, table
 * `heads`). */
#ifndef RS_SCAN_HEADS_H
#define RS_SCAN_HEADS_H

#include "base/context.h"
#include "linalg/gram.h"
#include "linalg/measures.h"
#include "linalg/null_model.h"
#include "products/factor.h"
#include "recognise/model.h"

typedef struct rs_heads_options {
    rs_fold fold;
    double tolerance; /* of numerical_rank, relative to σ₁; NaN: max(rows, cols)·ε of the tensors'
                         dtype */
    int32_t first_layer, last_layer; /* inclusive; 0 and INT32_MAX for all */
} rs_heads_options;

/* All that is known of one product (or of the stacked product of a group of query heads). */
typedef struct rs_head {
    const rs_product *product;
    bool stacked; /* a row of table `groups`: factors summed over the query heads of a kv head */
    int64_t rows, cols, inner, k;
    double *sigma; /* k values, descending; NULL when the weights are not finite */
    rs_measures measures;
    rs_gram_pair pair;
    double gap, gap_low, gap_high, nuclear_excess;
    double noise_floor; /* quantised weights: estimated norm of the rounding noise in the product;
                           NaN otherwise */
    int64_t rank_above_noise; /* singular values above it; -1 when there is none */
    double self_check;        /* |tr(XY) − Σσ²| / (‖X‖_F‖Y‖_F) */
    bool by_factors; /* the Grams could not carry it: pivoted QR and Jacobi (or the dense product)
                        were used */
    const rs_null_model *null;
    double *norms_a,
        *norms_b;      /* squared norms of the vectors (inner values): the diagonals of X and Y */
    int64_t nonfinite; /* entries that are NaN or infinite, in both factors */
} rs_head;

/* A weight tensor whose products are left empty: entries that are not finite, or (count 0) so large
 * or small that their fourth powers leave the double range. */
typedef struct rs_nonfinite {
    const rs_tensor *tensor;
    int64_t count, row, col; /* in the factors that use it; the first one's place */
    double largest;          /* magnitude of the largest finite entry */
    int32_t layer;
} rs_nonfinite;

typedef struct rs_heads {
    rs_head *items; /* in the order of model->products */
    size_t n;
    rs_head *groups; /* stacked products of grouped-query stacks, by layer, product, kv head */
    size_t n_groups;
    rs_nonfinite *nonfinite;
    size_t n_nonfinite, nonfinite_capacity;
    double worst_check; /* largest self_check */
    size_t n_by_factors;
    struct rs_null_entry *nulls; /* by shape */
    size_t n_nulls, nulls_capacity;
    rs_arena *arena;
} rs_heads;

/* Measures every product of the model in the chosen layers. Memory beside the result: a few r×r
 * matrices per factor of a layer. */
rs_status rs_heads_measure(rs_heads **out, const rs_model *model, const rs_heads_options *options,
                           const rs_context *context, rs_error *err);
void rs_heads_free(rs_heads *heads);

#endif
