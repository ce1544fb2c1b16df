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

/* How products are measured, and of which layers. */
typedef struct rs_heads_options {
    rs_fold fold;
    double tolerance; /* singular values below it times σ₁ do not count in numerical_rank; NaN:
                         max(rows, cols)·ε of the tensors' dtype */
    int32_t first_layer, last_layer; /* both are measured; 0 and INT32_MAX: all layers */
    rs_null_cache *nulls; /* null models that outlive the call; NULL: drawn for this call alone */
} rs_heads_options;

/* All that is known of one product (or of the stacked product of a group of query heads). */
typedef struct rs_head {
    const rs_product *product;
    bool stacked; /* row of table `groups`: factors are summed over a kv head's query heads */
    int64_t rows, cols, inner, k;
    double *sigma; /* k values, descending; NULL when the weights are not finite */
    rs_measures measures;
    rs_gram_pair pair;
    double gap, gap_low, gap_high, nuclear_excess;
    double noise_floor; /* estimated norm of the rounding noise of quantised weights; NaN: none */
    int64_t rank_above_noise; /* singular values above noise_floor; -1: there is no floor */
    double self_check;        /* |tr(XY) − Σσ²| / (‖X‖_F‖Y‖_F) */
    bool by_factors; /* the spectrum is from pivoted QR and Jacobi or the dense product, because the
                        Grams could not carry it */
    const rs_null_model *null;
    double *norms_a, *norms_b; /* [inner] squared norms of the vectors: the diagonals of X and Y */
    int64_t nonfinite;         /* NaN and infinite entries in both factors */
} rs_head;

/* A weight tensor whose products are left empty: entries that are not finite, or (count 0) so large
 * or small that their fourth powers leave the double range. */
typedef struct rs_nonfinite {
    const rs_tensor *tensor;
    int64_t count, row, col; /* such entries in the factors that use it; place of the first */
    double largest;          /* magnitude of the largest finite entry */
    int32_t layer;
} rs_nonfinite;

/* The measured products of a model. */
typedef struct rs_heads {
    rs_head *items; /* [n] in the order of model->products */
    size_t n;
    rs_head *groups; /* [n_groups] stacked products, sorted by layer, product, kv head */
    size_t n_groups;
    rs_nonfinite *nonfinite;
    size_t n_nonfinite, nonfinite_capacity;
    double worst_check; /* largest self_check of all */
    size_t n_by_factors;
    rs_null_cache nulls; /* models that this call drew, where the options bring no cache */
    rs_arena *arena;
} rs_heads;

/* Measures every product of the model in the chosen layers. Beside the result it holds an r×r matrix
 * for each factor of a layer, or of as many layers as fit into 32 MiB. */
rs_status rs_heads_measure(rs_heads **out, const rs_model *model, const rs_heads_options *options,
                           const rs_context *context, rs_error *err);
void rs_heads_free(rs_heads *heads);

#endif
