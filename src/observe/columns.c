/* columns.c: one row a column of tables tokens and attention (docs/contract.md): name, what it is,
 * and where it lies in the measures. */
#include "observe/gather.h"

#define TOKENS(name_, title_, formula_)                                                            \
    RS_COLUMN(rs_token_measures, name_, #name_, title_, NULL, formula_, NULL)
#define LOG(name_, of_)                                                                            \
    RS_COLUMN(rs_token_measures, log10_##name_, "log10_" #name_, "log10 " of_, NULL,               \
              "mean over the samples of log10 " #name_, NULL)
#define ATTENTION(name_, title_, formula_)                                                         \
    RS_COLUMN(rs_attention_measures, name_, #name_, title_, NULL, formula_, NULL)
/* What a number is compared with. */
#define ATTENTION_NULL(name_, formula_)                                                            \
    RS_COLUMN(rs_attention_null, name_, #name_ "_null", NULL, NULL, formula_, "predicted")

const rs_column rs_token_columns[] = {
    TOKENS(norm_fro, "norm", "‖X‖_F, X the tokens of one sample (n×d)"),
    TOKENS(residual_fro, "residual", "‖R‖_F, R = X − 1xᵀ, x the column mean (--residual-centre)"),
    TOKENS(relative_residual, "relative residual",
           "‖R‖_F / ‖X‖_F: 1 when tokens have nothing in common, 0 when all are equal"),
    TOKENS(residual_1inf, "residual, 1-∞ norm", "sqrt(‖R‖₁ ‖R‖∞) (Dong et al. 2021)"),
    TOKENS(relative_residual_1inf, "relative residual, 1-∞ norm", "‖R‖₁,∞ / ‖X‖₁,∞"),
    TOKENS(row_normalised_mu, "row-normalised μ",
           "‖U − 1ūᵀ‖_F / sqrt(n), U the tokens scaled to length 1"),
    TOKENS(rank1_residual, "rank-1 residual",
           "sqrt(Σ_{i≥2} σ²) / sqrt(Σσ²): 0 when all tokens lie on one line"),
    TOKENS(mean_cosine, "mean cosine", "mean over pairs of tokens of cos(X_i, X_j)"),
    TOKENS(one_minus_cosine, "1 − mean cosine",
           "the same subtracted from 1, worked out without cancellation"),
    TOKENS(diameter, "diameter", "max over pairs of tokens of ‖X_i − X_j‖₂"),
    TOKENS(effective_rank, "effective rank", "exp(−Σ p ln p), p = σ/Σσ (Roy & Vetterli 2007)"),
    TOKENS(stable_rank, "stable rank", "Σσ² / σ₁²"),
    TOKENS(stable_rank_gram, "stable rank of XXᵀ", "Σσ⁴ / σ₁⁴"),
    TOKENS(numerical_rank, "numerical rank", "number of σ > max(n, d)·ε·σ₁, ε of the precision"),

    /* in the residual precision */
    LOG(norm_fro, "norm"),
    LOG(residual_fro, "residual"),
    LOG(relative_residual, "relative residual"),
    LOG(residual_1inf, "residual, 1-∞ norm"),
    LOG(relative_residual_1inf, "relative residual, 1-∞ norm"),
    LOG(one_minus_cosine, "(1 − mean cosine)"),
    LOG(diameter, "diameter"),
};

const rs_column rs_attention_columns[] = {
    {.name = "entropy",
     RS_CELL(rs_attention_measures, entropy),
     .unit = "nats",
     .formula = "−Σ_j P_ij ln P_ij, averaged over rows: 0 one key each, ln n all keys alike"},
    ATTENTION(logit_variance, "logit variance",
              "variance of a row's logits over the visible keys, averaged over rows"),
    ATTENTION(spectral_gap, "spectral gap", "1 − |λ₂| of the matrix applied to the values"),
    ATTENTION(sigma1, "σ₁", "largest singular value of the matrix"),
    ATTENTION(sigma2, "σ₂", "second singular value"),
    ATTENTION(lambda2, "|λ₂|",
              "second largest modulus of the eigenvalues (causal: of the diagonal)"),
    ATTENTION(dobrushin, "Dobrushin coefficient",
              "½ max over pairs of rows of Σ_j |A_ij − A_i'j|: 0 all queries attend alike"),
    ATTENTION(distance_to_uniform, "distance to uniform",
              "‖A − J‖_F, J uniform over the visible keys (11ᵀ/n; causal 1/i)"),
    ATTENTION(self_weight, "weight on itself", "mean of the diagonal"),
    ATTENTION(first_token_weight, "weight on the first token",
              "mean of the first column over the rows that see it"),
    ATTENTION(centred_norm_squared, "‖PA‖₂²",
              "squared norm of (I − 11ᵀ/n)A: below 1 the head pulls tokens together"),
    ATTENTION(effective_rank, "effective rank", "exp(−Σ p ln p), p = σ/Σσ of A"),
    ATTENTION(stable_rank, "stable rank", "Σσ² / σ₁² of A"),
    ATTENTION(energy_rank, "rank for 90 % of the energy", "least k with Σ_{i ≤ k} σ² ≥ 0.9 Σσ²"),
    ATTENTION(numerical_rank, "numerical rank", "number of σ > n·ε·σ₁, ε of the precision"),
    ATTENTION(centred_effective_rank, "effective rank of A − U",
              "the same of A − U, U uniform over the visible keys"),
    ATTENTION(centred_stable_rank, "stable rank of A − U", "the same of A − U"),
    ATTENTION(centred_energy_rank, "rank of A − U for 90 % of its energy", "the same of A − U"),
    ATTENTION(centred_numerical_rank, "numerical rank of A − U",
              "number of σ of A − U > n·ε·σ₁, σ₁ the larger of its own and that of A"),
};

const rs_column rs_attention_null_columns[] = {
    ATTENTION_NULL(entropy, "mean over rows of ln(visible keys)"),
    ATTENTION_NULL(logit_variance,
                   "what query and key weights drawn by the model's default law would give on the "
                   "tokens that enter the layer; null where that law is not known"),
    ATTENTION_NULL(spectral_gap,
                   "1 without a mask, 1/2 under a causal one (eigenvalues 1/i); null for windows "
                   "that look both ways"),
    ATTENTION_NULL(dobrushin, "the same of uniform attention over the visible keys"),
    ATTENTION_NULL(self_weight, "mean over rows of 1/(visible keys)"),
    ATTENTION_NULL(first_token_weight,
                   "mean of 1/(visible keys) over the rows that see the first token"),
    ATTENTION_NULL(
        effective_rank,
        "mean of four matrices of independent logits of the head's own variance over the "
        "visible keys; null without a softmax, or where an edit changes its matrix"),
    ATTENTION_NULL(stable_rank, "the same, its stable rank"),
    ATTENTION_NULL(energy_rank, "the same, its rank for 90 % of the energy"),
    ATTENTION_NULL(numerical_rank, "the same, its numerical rank"),
    ATTENTION_NULL(centred_effective_rank, "the same, less U"),
    ATTENTION_NULL(centred_stable_rank, "the same, less U"),
    ATTENTION_NULL(centred_energy_rank, "the same, less U"),
    ATTENTION_NULL(centred_numerical_rank, "the same, less U"),
};

void rs_measure_values(double *values, const rs_column *columns, size_t n, const void *measures)
{
    for (size_t c = 0; c < n; c++)
        values[c] = rs_column_value(&columns[c], measures);
}

void rs_measure_means(void *measures, const rs_column *columns, size_t n, const rs_sums *sums,
                      size_t row)
{
    rs_measure_means_from(measures, columns, n, sums, row, 0);
}

void rs_measure_means_from(void *measures, const rs_column *columns, size_t n, const rs_sums *sums,
                           size_t row, size_t first)
{
    for (size_t c = 0; c < n; c++)
        *(double *)(void *)((char *)measures + columns[c].at) = rs_sums_mean(sums, row, first + c);
}

const char *rs_token_site_name(rs_token_site site)
{
    static const char *const names[RS_TOKEN_SITES] = {[RS_TOKEN_SITE_BLOCK_OUT] = "block_out",
                                                      [RS_TOKEN_SITE_MIXER_OUT] = "mixer_out",
                                                      [RS_TOKEN_SITE_FUSION_MAX] = "fusion_max",
                                                      [RS_TOKEN_SITE_FUSION_CONCAT] =
                                                          "fusion_concat",
                                                      [RS_TOKEN_SITE_FUSION_GATE] = "fusion_gate"};
    return names[site];
}
