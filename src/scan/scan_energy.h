/* scan_energy.h: the parts of --energy: the stored matrices one by one, and which products may take
 * the place of their two factors. */
#ifndef RS_SCAN_SCAN_ENERGY_H
#define RS_SCAN_SCAN_ENERGY_H

#include "scan/scan.h"

/* Whether a product may take the place of its two factors. */
typedef enum rs_feasible { RS_FEASIBLE_NO, RS_FEASIBLE_YES, RS_FEASIBLE_UNKNOWN } rs_feasible;

/* One stored matrix of a layer, W_Q for instance: the factors of all its heads side by side. */
typedef struct rs_stored_matrix {
    const rs_product *product; /* first product that uses it: says stack, attention and layer */
    const char *name; /* "W_Q", "W_K", "W_V", "W_O", "W_R"; "W_C", "W_B", "W_in", "W_out" */
    const rs_factor **factors;
    size_t n_factors, capacity;
    int64_t rows, cols, k; /* features, all heads' units, and the smaller of the two */
    int64_t numbers;       /* numbers that are stored */
    double *sigma;         /* [k] descending; NULL when an entry is not finite */
    double *weighed;       /* [k] the same of X W, X what it reads; NULL: X is not known */
} rs_stored_matrix;

/* A product that may take the place of its two factors: of grouped queries all that share a key/value
 * head, which are replaced together. */
typedef struct rs_replaceable {
    const rs_head *head; /* one that has a spectrum */
    int64_t numbers;     /* stored numbers behind it */
    rs_feasible feasible;
    const char *reason;
    double *weighed; /* [head->k] singular values of X A Bᵀ; NULL: X is not known */
} rs_replaceable;

/* The matrices behind the measured products, and those of the products that are replaced as one. */
typedef struct rs_stored_matrices {
    rs_stored_matrix *items; /* [n] sorted by layer; each stored number is in one of them */
    size_t n, capacity;
    rs_replaceable *products; /* [n_products] in the order of the heads */
    size_t n_products;
    const rs_checkpoint *checkpoint;
} rs_stored_matrices;

/* scan_energy_matrices.c: finds the matrices behind the measured products, and their spectra; `seen`
 * [n_seen] says what they read. On failure, too, *out is to be freed. */
rs_status rs_stored_matrices_measure(rs_stored_matrices *out, const rs_model *model,
                                     const rs_heads *heads, rs_fold fold,
                                     const rs_activations *seen, size_t n_seen,
                                     const rs_context *context, rs_error *err);
void rs_stored_matrices_free(rs_stored_matrices *matrices);

/* Writes such a matrix, all its factors side by side, [rows, cols], row-major; rows that a factor lacks
 * are zero. */
rs_status rs_stored_matrix_read(double *matrix, const rs_stored_matrix *m, rs_fold fold,
                                rs_error *err);

/* ---- scan_energy_weighed.c: what the matrices read (docs/scan.md) ---- */

/* The Gram of X where the matrix M [rows, cols] of stored vectors is applied as x M; of (x Mᵀ) where
 * what it writes is known instead: W_O, whose vectors are what it reads. NULL: not known. */
const rs_activations *rs_activations_of(const rs_activations *seen, size_t n_seen,
                                        const rs_factor *factor, bool output);
/* The Gram of what the matrix writes, X M: [n, n] with *n = cols, or rows where it is W_O; the
 * caller's. *gram NULL: not known. */
rs_status rs_written_gram(double **gram, int64_t *n, const rs_stored_matrix *m,
                          const rs_activations *seen, size_t n_seen, rs_error *err);
/* True where the leading vectors of that Gram stand to the left of M: of W_O and W_out, whose stored vectors
 * are what they read. */
bool rs_writes_rows(const rs_stored_matrix *m);
/* Factors with the Grams of the two sides of a product, which are stacked over a group, weighed where
 * its X is known: ra [*ka, r], rb [*kb, r] in one piece of memory that begins at ra, the caller's. */
typedef struct rs_sides {
    double *ra, *rb;
    int64_t ka, kb, r;
} rs_sides;
rs_status rs_product_sides(rs_sides *out, const rs_head *head, const rs_activations *x,
                           rs_error *err);
/* The leading singular values of the product, [k]. */
rs_status rs_sides_spectrum(double *sigma, int64_t k, const rs_sides *sides, rs_error *err);
/* What the first side of a product reads; NULL: not known. */
const rs_activations *rs_activations_by(const rs_activations *seen, size_t n_seen,
                                        const rs_product *product);

/* How many numbers of the checkpoint a factor is made of: with --with-bias its biases, too. */
int64_t rs_factor_numbers(const rs_factor *factor, rs_fold fold);

/* True when two factors are the same vectors of one tensor, whatever acts on them. */
bool rs_factor_stored_alike(const rs_factor *a, const rs_factor *b);

/* scan_energy_feasible.c: whether a product may take the place of its two factors, and if not, or
 * if that is not known, for which *reason. */
rs_feasible rs_product_feasible(const char **reason, const rs_model *model,
                                const rs_product *product, rs_fold fold);

/* ---- scan_energy_best.c: what is cut, and how ---- */

/* The rank that a spectrum needs for an energy, and what is saved by two factors of that rank. */
typedef struct rs_cut {
    int64_t rank,
        saved;    /* rank 0: a zero matrix; saved: of the numbers that are stored, may be below 0 */
    double error; /* ‖M − M_k‖_F / ‖M‖_F; NaN for a zero matrix */
} rs_cut;
rs_cut rs_cut_of(const double *sigma, int64_t k, double energy, int64_t rows, int64_t cols,
                 int64_t numbers);
/* The same of a matrix, and of a product that may take its factors' place (saved is 0 where it may not),
 * weighed where that is asked and their X is known. */
rs_cut rs_matrix_cut(const rs_stored_matrix *m, double energy, bool weighed);
rs_cut rs_product_cut(const rs_replaceable *r, double energy, bool weighed);

/* A matrix or a product that is replaced by factors of a lower rank; one of the two is NULL. */
typedef struct rs_chosen {
    const rs_stored_matrix *matrix;
    const rs_replaceable *product;
    int64_t rank, saved;
    bool weighed; /* the truncation is that of X M */
} rs_chosen;

/* Chooses for each pair of factors of a layer (queries and keys, values and outputs) the way that saves
 * more, matrix by matrix or product by product, of equals the matrices: only what saves is among them, zero
 * matrices with rank 0. The caller frees *out. */
rs_status rs_energy_choose(rs_chosen **out, size_t *n, const rs_stored_matrices *all, double energy,
                           bool weighed, rs_error *err);
int64_t rs_chosen_saved(const rs_chosen *chosen, size_t n);

/* ---- scan_costs.c: table costs ---- */
rs_status rs_scan_costs(rs_result *result, const rs_stored_matrices *all,
                        const rs_scan_options *options, rs_error *err);

#endif
