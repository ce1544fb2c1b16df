/* measure_columns.c: one row a measure of table `heads` (docs/contract.md): where it is, name, what
 * it is. */
#include "scan/measure_columns.h"

#include <math.h>
#include <string.h>

#define MEASURE(member_, name_, title_, formula_)                                                  \
    RS_COLUMN(rs_head_row, member_, #name_, title_, NULL, formula_, NULL)
#define EXPECTED(member_, name_, title_, formula_)                                                 \
    RS_COLUMN(rs_head_row, null.member_, #name_, title_, NULL, formula_, "predicted")

const rs_column rs_measure_columns[] = {
    MEASURE(of.measures.spectral_norm, spectral_norm, "spectral norm",
            "σ₁, the largest singular value of A Bᵀ"),
    MEASURE(of.measures.frobenius_norm, frobenius_norm, "Frobenius norm", "sqrt(Σσ²)"),
    MEASURE(of.measures.nuclear_norm, nuclear_norm, "nuclear norm", "Σσ"),
    MEASURE(of.measures.stable_rank, stable_rank, "stable rank", "Σσ² / σ₁²"),
    MEASURE(of.measures.effective_rank, effective_rank, "effective rank",
            "exp(−Σ p ln p), p = σ/Σσ (Roy & Vetterli 2007)"),
    MEASURE(of.measures.participation_ratio, participation_ratio, "participation ratio",
            "(Σσ²)² / Σσ⁴"),
    MEASURE(of.measures.energy_rank, energy_rank, "energy rank",
            "least k with Σ_{i≤k} σ² ≥ 0.95 Σσ²"),
    MEASURE(of.measures.pseudo_rank, pseudo_rank, "pseudo-rank",
            "least k with Σ_{i≤k} σ ≥ 0.95 Σσ, divided by the inner width"),
    MEASURE(of.measures.numerical_rank, numerical_rank, "numerical rank",
            "number of σ > max(rows, cols)·ε·σ₁ (--tol replaces max·ε)"),
    MEASURE(of.measures.condition, condition, "condition",
            "σ₁/σ_k; null when σ_k is below the numerical-rank threshold"),
    MEASURE(of.nuclear_excess, nuclear_excess, "nuclear excess",
            "gap / H; 0 at the weight-decay equilibrium"),
    MEASURE(of.pair.balance, balance, "imbalance",
            "‖AᵀA − BᵀB‖_F / (‖AᵀA‖_F + ‖BᵀB‖_F); 0 when balanced"),
    MEASURE(of.pair.half_norm, half_norm, "H", "½(‖A‖_F² + ‖B‖_F²)"),
    MEASURE(of.gap, gap, "gap", "H − ‖ABᵀ‖_* = half the squared Bures distance of AᵀA and BᵀB"),
    MEASURE(of.gap_low, gap_low, "gap, lower bound", "‖Q‖_*² / (4(H + ‖ABᵀ‖_*)), Q = AᵀA − BᵀB"),
    MEASURE(of.gap_high, gap_high, "gap, upper bound", "½ ‖Q‖_*, Q = AᵀA − BᵀB"),
    MEASURE(of.pair.balance_score, balance_score, "balance score",
            "β: 1 when AᵀA = BᵀB, 0 for a random rotation of one against the other"),
    EXPECTED(nuclear_ratio, null_nuclear_ratio, "nuclear ratio by chance",
             "‖ABᵀ‖_*/H of random Gaussian factors of this shape"),
    EXPECTED(effective_rank, effective_rank_null, "effective rank by chance",
             "mean over random Gaussian factors of this shape"),
    EXPECTED(pseudo_rank, pseudo_rank_null, "pseudo-rank by chance",
             "mean over random Gaussian factors of this shape"),
    EXPECTED(stable_rank, stable_rank_null, "stable rank by chance",
             "mean over random Gaussian factors of this shape"),
    MEASURE(effective_rank_ratio, effective_rank_ratio, "effective rank, of chance",
            "effective_rank / effective_rank_null: 1 is what random weights have"),
    MEASURE(
        of.noise_floor, noise_floor, "quantisation noise floor",
        "estimated norm of the rounding noise in A Bᵀ: s_A(√rows ‖B‖₂ + ‖B‖_F) + s_B(√cols ‖A‖₂ + "
        "‖A‖_F), s² = step²/12; "
        "null for weights that are not quantised, and with --fold-norms"),
    MEASURE(of.rank_above_noise, rank_above_noise, "rank above noise",
            "number of σ above noise_floor"),
};

rs_head_row rs_head_row_of(const rs_head *head)
{
    rs_head_row row = {.of = *head};
    if (!head->sigma) rs_columns_clear(rs_measure_columns, RS_HEAD_MEASURES, &row);
    row.null = *head->null;
    row.effective_rank_ratio = row.of.measures.effective_rank / row.null.effective_rank;
    return row;
}

size_t rs_measure_index(const char *name)
{
    size_t i = 0;
    while (i + 1 < RS_HEAD_MEASURES && strcmp(rs_measure_columns[i].name, name) != 0)
        i++;
    return i;
}

void rs_measure_statistics(double out[RS_HEAD_MEASURES][3], const rs_head *heads, size_t n)
{
    size_t count[RS_HEAD_MEASURES] = {0};
    for (size_t c = 0; c < RS_HEAD_MEASURES; c++)
        memcpy(out[c], (const double[3]){0, INFINITY, -INFINITY}, sizeof out[c]);
    for (size_t i = 0; i < n; i++) {
        const rs_head_row row = rs_head_row_of(&heads[i]);
        for (size_t c = 0; c < RS_HEAD_MEASURES; c++) {
            double value = rs_column_value(&rs_measure_columns[c], &row), *of = out[c];
            if (isnan(value)) continue;
            count[c]++;
            of[0] += value;
            of[1] = fmin(of[1], value);
            of[2] = fmax(of[2], value);
        }
    }
    for (size_t c = 0; c < RS_HEAD_MEASURES; c++)
        if (count[c])
            out[c][0] /= (double)count[c];
        else
            out[c][0] = NAN; /* and the others are infinite, which is null too */
}
