/* measures.h: every rank measure of a spectrum (docs/contract.md, table `heads`;
 * docs/theory/products.md, 5). */
#ifndef RS_LINALG_MEASURES_H
#define RS_LINALG_MEASURES_H

#include <stdint.h>

/* The measures of k singular values sigma (descending, >= 0) of a rows×cols matrix that is a
 * product over `inner`. Ratios of a zero matrix are NaN (written as null). */
typedef struct rs_measures {
    double spectral_norm;       /* σ₁ */
    double frobenius_norm;      /* sqrt(Σσ²) */
    double nuclear_norm;        /* Σσ */
    double stable_rank;         /* Σσ²/σ₁² */
    double effective_rank;      /* exp(−Σ p ln p), p = σ/Σσ (Roy & Vetterli 2007) */
    double participation_ratio; /* (Σσ²)²/Σσ⁴ */
    int64_t energy_rank;        /* least k: Σ_{i<=k} σ² >= 0.95 Σσ² (1 − 1e-12) */
    double pseudo_rank;     /* least k: Σ_{i<=k} σ >= 0.95 Σσ (1 − 1e-12), divided by inner */
    int64_t numerical_rank; /* #{σ > tolerance·σ₁} */
    double condition;       /* σ₁/σ_k, NaN when σ_k is below that threshold */
} rs_measures;

/* Computes them. tolerance: max(rows, cols)·ε, or the user's --tol. */
void rs_measures_of(rs_measures *out, const double *sigma, int64_t k, int64_t inner,
                    double tolerance);
/* The least k with Σ_{i<=k} σ² >= fraction·Σσ²·(1 − 1e-12); 0 for a zero matrix. */
int64_t rs_energy_rank(const double *sigma, int64_t k, double fraction);

#endif
