/* factor.h: the numbers behind one factor of a head product (rs_factor): its Gram, accumulated tile
 * by tile, or the whole of it. */
#ifndef RS_PRODUCTS_FACTOR_H
#define RS_PRODUCTS_FACTOR_H

#include "recognise/model.h"

/* Which corrections of docs/formats.md, 4 are applied to the stored weights. */
typedef struct rs_fold {
    bool norms;  /* --fold-norms: γ of the norm before it, LayerNorm's centring, QK-norm gains */
    bool biases; /* --with-bias: the bias as one more feature */
} rs_fold;

/* The number of features after folding: one more with a bias. */
int64_t rs_factor_features(const rs_factor *factor, rs_fold fold);
/* True when both factors hold the same vectors, as grouped keys and values do. */
bool rs_factor_same(const rs_factor *a, const rs_factor *b);

/* The memory that Grams are computed in, kept from one call to the next: grows as needed. Starts as
 * zero; rs_free(values) at the end. */
typedef struct rs_tile {
    double *values;
    size_t capacity;
} rs_tile;

/*
 * X = AᵀA of up to `n` factors at once (grams[i]: r_i×r_i, row-major, both triangles), in float64
 * from the stored rows. Factors taken as columns of one tensor are given together so that a tile of
 * rows is decoded once. *fragile (per factor) tells that a correction cancelled most of an entry,
 * so that the Gram should not be trusted.
 */
rs_status rs_factor_grams(double *const *grams, bool *fragile, const rs_factor *const *factors,
                          size_t n, rs_fold fold, rs_tile *tile, rs_error *err);

/* Writes the whole factor as a row-major matrix [rs_factor_features, inner], corrections applied
 * exactly. */
rs_status rs_factor_read(double *out, const rs_factor *factor, rs_fold fold, rs_error *err);

/* The same matrix turned, [inner, rs_factor_features]: each vector is a row. Faster where no corrections
 * are asked for. */
rs_status rs_factor_read_vectors(double *out, const rs_factor *factor, rs_fold fold, rs_error *err);

/* What a look at every element of a factor finds. */
typedef struct rs_factor_census {
    int64_t nonfinite; /* NaN or infinite elements */
    int64_t row, col;  /* place of the first of them, in the tensor's view as a matrix */
    double largest;    /* magnitude of the largest finite element */
} rs_factor_census;
rs_status rs_factor_examine(rs_factor_census *census, const rs_factor *factor, rs_error *err);

/* The mean squared quantisation step over the factor's elements, corrections left out; 0 for types
 * that have none. */
double rs_factor_step_squared(const rs_factor *factor);

/* How many of the factors, from the first on, a task should take together: 1, or more where they
 * are columns of one tensor that fit into a tile. */
size_t rs_factor_bundle(const rs_factor *const *factors, size_t n);

#endif
