/* measure_columns.c: one row a column of table `heads` (docs/contract.md): name, what it is, where
 * it comes from. */
#include "scan/measure_columns.h"

#include <math.h>

#define GET(name, expression)                                                                      \
    static double get_##name(const rs_head *head)                                                  \
    {                                                                                              \
        return head->sigma ? (double)(expression) : NAN;                                           \
    }

GET(spectral_norm, head->measures.spectral_norm)
GET(frobenius_norm, head->measures.frobenius_norm)
GET(nuclear_norm, head->measures.nuclear_norm)
GET(stable_rank, head->measures.stable_rank)
GET(effective_rank, head->measures.effective_rank)
GET(participation_ratio, head->measures.participation_ratio)
GET(energy_rank, head->measures.energy_rank)
GET(pseudo_rank, head->measures.pseudo_rank)
GET(numerical_rank, head->measures.numerical_rank)
GET(condition, head->measures.condition)
GET(nuclear_excess, head->nuclear_excess)
GET(balance, head->pair.balance)
GET(half_norm, head->pair.half_norm)
GET(gap, head->gap)
GET(gap_low, head->gap_low)
GET(gap_high, head->gap_high)
GET(balance_score, head->pair.balance_score)
GET(noise_floor, head->noise_floor)

static double get_effective_rank_ratio(const rs_head *head)
{
    return head->sigma ? head->measures.effective_rank / head->null->effective_rank : NAN;
}

static double get_rank_above_noise(const rs_head *head)
{
    return head->sigma && head->rank_above_noise >= 0 ? (double)head->rank_above_noise : NAN;
}

static double get_null_nuclear_ratio(const rs_head *head)
{
    return head->null->nuclear_ratio;
}

static double get_effective_rank_null(const rs_head *head)
{
    return head->null->effective_rank;
}

static double get_pseudo_rank_null(const rs_head *head)
{
    return head->null->pseudo_rank;
}

static double get_stable_rank_null(const rs_head *head)
{
    return head->null->stable_rank;
}

#define REAL(name_, title_, formula_)                                                              \
    {                                                                                              \
        .column = {.name = #name_, .type = RS_COLUMN_REAL, .title = title_, .formula = formula_},  \
        .get = get_##name_, .aggregated = true                                                     \
    }
#define INT(name_, title_, formula_)                                                               \
    {                                                                                              \
        .column = {.name = #name_, .type = RS_COLUMN_INT, .title = title_, .formula = formula_},   \
        .get = get_##name_, .aggregated = true                                                     \
    }
#define EXPECTED(name_, title_, formula_)                                                          \
    {                                                                                              \
        .column = {.name = #name_,                                                                 \
                   .type = RS_COLUMN_REAL,                                                         \
                   .title = title_,                                                                \
                   .formula = formula_,                                                            \
                   .provenance = "predicted"},                                                     \
        .get = get_##name_, .aggregated = true                                                     \
    }

const rs_measure_column rs_measure_columns[] = {
    REAL(spectral_norm, "spectral norm", "σ₁, the largest singular value of A Bᵀ"),
    REAL(frobenius_norm, "Frobenius norm", "sqrt(Σσ²)"),
    REAL(nuclear_norm, "nuclear norm", "Σσ"),
    REAL(stable_rank, "stable rank", "Σσ² / σ₁²"),
    REAL(effective_rank, "effective rank", "exp(−Σ p ln p), p = σ/Σσ (Roy & Vetterli 2007)"),
    REAL(participation_ratio, "participation ratio", "(Σσ²)² / Σσ⁴"),
    INT(energy_rank, "energy rank", "least k with Σ_{i≤k} σ² ≥ 0.95 Σσ²"),
    REAL(pseudo_rank, "pseudo-rank",
         "least k with Σ_{i≤k} σ ≥ 0.95 Σσ, divided by the inner width"),
    INT(numerical_rank, "numerical rank",
        "number of σ > max(rows, cols)·ε·σ₁ (--tol replaces max·ε)"),
    REAL(condition, "condition", "σ₁/σ_k; null when σ_k is below the numerical-rank threshold"),
    REAL(nuclear_excess, "nuclear excess", "gap / H; 0 at the weight-decay equilibrium"),
    REAL(balance, "imbalance", "‖AᵀA − BᵀB‖_F / (‖AᵀA‖_F + ‖BᵀB‖_F); 0 when balanced"),
    REAL(half_norm, "H", "½(‖A‖_F² + ‖B‖_F²)"),
    REAL(gap, "gap", "H − ‖ABᵀ‖_* = half the squared Bures distance of AᵀA and BᵀB"),
    REAL(gap_low, "gap, lower bound", "‖Q‖_*² / (4(H + ‖ABᵀ‖_*)), Q = AᵀA − BᵀB"),
    REAL(gap_high, "gap, upper bound", "½ ‖Q‖_*, Q = AᵀA − BᵀB"),
    REAL(balance_score, "balance score",
         "β: 1 when AᵀA = BᵀB, 0 for a random rotation of one against the other"),
    EXPECTED(null_nuclear_ratio, "nuclear ratio by chance",
             "‖ABᵀ‖_*/H of random Gaussian factors of this shape"),
    EXPECTED(effective_rank_null, "effective rank by chance",
             "mean over random Gaussian factors of this shape"),
    EXPECTED(pseudo_rank_null, "pseudo-rank by chance",
             "mean over random Gaussian factors of this shape"),
    EXPECTED(stable_rank_null, "stable rank by chance",
             "mean over random Gaussian factors of this shape"),
    REAL(effective_rank_ratio, "effective rank, of chance",
         "effective_rank / effective_rank_null: 1 is what random weights have"),
    REAL(noise_floor, "quantisation noise floor",
         "estimated norm of the rounding noise in A Bᵀ: s_A(√rows ‖B‖₂ + ‖B‖_F) + s_B(√cols ‖A‖₂ + "
         "‖A‖_F), s² = step²/12; "
         "null for weights that are not quantised, and with --fold-norms"),
    INT(rank_above_noise, "rank above noise", "number of σ above noise_floor"),
};

const size_t rs_n_measure_columns = sizeof rs_measure_columns / sizeof *rs_measure_columns;
