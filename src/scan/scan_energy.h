/* scan_energy.h: the parts of --energy: the stored matrices one by one, and which products may take
 * the place of their two factors. */
#ifndef RS_SCAN_SCAN_ENERGY_H
#define RS_SCAN_SCAN_ENERGY_H

#include "scan/heads.h"

/* One stored matrix of a layer, W_Q for instance: the factors of all its heads side by side. */
typedef struct rs_stored_matrix {
    const rs_product *product; /* first product that uses it: says stack, attention and layer */
    const char *name; /* "W_Q", "W_K", "W_V", "W_O", "W_R"; "W_C", "W_B", "W_in", "W_out" */
    const rs_factor **factors;
    size_t n_factors, capacity;
    int64_t rows, cols, k; /* features, all heads' units, and the smaller of the two */
    int64_t numbers;       /* numbers that are stored */
    double *sigma;         /* [k] descending; NULL when an entry is not finite */
} rs_stored_matrix;

/* The matrices behind the measured products. */
typedef struct rs_stored_matrices {
    rs_stored_matrix *items; /* [n] sorted by layer; each stored number is in one of them */
    size_t n, capacity;
} rs_stored_matrices;

/* scan_energy_matrices.c: finds the matrices behind the measured products, and their spectra. On
 * failure, too, *out is to be freed. */
rs_status rs_stored_matrices_measure(rs_stored_matrices *out, const rs_model *model,
                                     const rs_heads *heads, rs_fold fold, const rs_context *context,
                                     rs_error *err);
void rs_stored_matrices_free(rs_stored_matrices *matrices);

/* How many numbers of the checkpoint a factor is made of: with --with-bias its biases, too. */
int64_t rs_factor_numbers(const rs_factor *factor, rs_fold fold);

/* True when two factors are the same vectors of one tensor, whatever acts on them. */
bool rs_factor_stored_alike(const rs_factor *a, const rs_factor *b);

/* scan_energy_feasible.c: whether a product may take the place of its two factors, and if not, or
 * if that is not known, for which *reason. */
typedef enum rs_feasible { RS_FEASIBLE_NO, RS_FEASIBLE_YES, RS_FEASIBLE_UNKNOWN } rs_feasible;
rs_feasible rs_product_feasible(const char **reason, const rs_model *model,
                                const rs_product *product, rs_fold fold);

#endif
