/* columns.c: one row a column of tables tokens and attention (docs/contract.md): name, what it is,
 * and where it lies in the measures. */
#include "observe/measure.h"

#include <stddef.h>

#define REAL(name_, title_, formula_)                                                              \
    {                                                                                              \
        .name = #name_, .type = RS_COLUMN_REAL, .title = title_, .formula = formula_               \
    }

const rs_column rs_token_columns[RS_TOKEN_REALS] = {
    REAL(norm_fro, "norm", "‖X‖_F, X the tokens of one sample (n×d)"),
    REAL(residual_fro, "residual", "‖R‖_F, R = X − 1xᵀ, x the column mean (--residual-centre)"),
    REAL(relative_residual, "relative residual",
         "‖R‖_F / ‖X‖_F: 1 when tokens have nothing in common, 0 when all are equal"),
    REAL(residual_1inf, "residual, 1-∞ norm", "sqrt(‖R‖₁ ‖R‖∞) (Dong et al. 2021)"),
    REAL(relative_residual_1inf, "relative residual, 1-∞ norm", "‖R‖₁,∞ / ‖X‖₁,∞"),
    REAL(row_normalised_mu, "row-normalised μ",
         "‖U − 1ūᵀ‖_F / sqrt(n), U the tokens scaled to length 1"),
    REAL(rank1_residual, "rank-1 residual",
         "sqrt(Σ_{i≥2} σ²) / sqrt(Σσ²): 0 when all tokens lie on one line"),
    REAL(mean_cosine, "mean cosine", "mean over pairs of tokens of cos(X_i, X_j)"),
    REAL(one_minus_cosine, "1 − mean cosine",
         "the same subtracted from 1, worked out without cancellation"),
    REAL(diameter, "diameter", "max over pairs of tokens of ‖X_i − X_j‖₂"),
    REAL(effective_rank, "effective rank", "exp(−Σ p ln p), p = σ/Σσ (Roy & Vetterli 2007)"),
    REAL(stable_rank, "stable rank", "Σσ² / σ₁²"),
    REAL(stable_rank_gram, "stable rank of XXᵀ", "Σσ⁴ / σ₁⁴"),
    REAL(numerical_rank, "numerical rank", "number of σ > max(n, d)·ε·σ₁, ε of the precision"),
};

static const size_t token_offsets[RS_TOKEN_REALS] = {
    offsetof(rs_token_measures, norm_fro),
    offsetof(rs_token_measures, residual_fro),
    offsetof(rs_token_measures, relative_residual),
    offsetof(rs_token_measures, residual_1inf),
    offsetof(rs_token_measures, relative_residual_1inf),
    offsetof(rs_token_measures, row_normalised_mu),
    offsetof(rs_token_measures, rank1_residual),
    offsetof(rs_token_measures, mean_cosine),
    offsetof(rs_token_measures, one_minus_cosine),
    offsetof(rs_token_measures, diameter),
    offsetof(rs_token_measures, effective_rank),
    offsetof(rs_token_measures, stable_rank),
    offsetof(rs_token_measures, stable_rank_gram),
    offsetof(rs_token_measures, numerical_rank),
};

#define LOG(name_, of_)                                                                            \
    {                                                                                              \
        .name = "log10_" #name_, .type = RS_COLUMN_REAL, .title = "log10 " of_,                    \
        .formula = "mean over the samples of log10 " #name_                                        \
    }

const rs_column rs_token_logs[RS_TOKEN_LOGS] = {
    LOG(residual_fro, "residual"),
    LOG(relative_residual, "relative residual"),
    LOG(residual_1inf, "residual, 1-∞ norm"),
    LOG(relative_residual_1inf, "relative residual, 1-∞ norm"),
    LOG(one_minus_cosine, "(1 − mean cosine)"),
    LOG(diameter, "diameter"),
};

static const size_t log_offsets[RS_TOKEN_LOGS] = {
    offsetof(rs_token_measures, log10_residual_fro),
    offsetof(rs_token_measures, log10_relative_residual),
    offsetof(rs_token_measures, log10_residual_1inf),
    offsetof(rs_token_measures, log10_relative_residual_1inf),
    offsetof(rs_token_measures, log10_one_minus_cosine),
    offsetof(rs_token_measures, log10_diameter),
};

const rs_column rs_attention_columns[RS_ATTENTION_REALS] = {
    {.name = "entropy",
     .type = RS_COLUMN_REAL,
     .unit = "nats",
     .formula = "−Σ_j P_ij ln P_ij, averaged over rows: 0 one key each, ln n all keys alike"},
    REAL(logit_variance, "logit variance",
         "variance of a row's logits over the visible keys, averaged over rows"),
    REAL(spectral_gap, "spectral gap", "1 − |λ₂| of the matrix applied to the values"),
    REAL(sigma1, "σ₁", "largest singular value of the matrix"),
    REAL(sigma2, "σ₂", "second singular value"),
    REAL(lambda2, "|λ₂|", "second largest modulus of the eigenvalues (causal: of the diagonal)"),
    REAL(dobrushin, "Dobrushin coefficient",
         "½ max over pairs of rows of Σ_j |A_ij − A_i'j|: 0 all queries attend alike"),
    REAL(distance_to_uniform, "distance to uniform",
         "‖A − J‖_F, J uniform over the visible keys (11ᵀ/n; causal 1/i)"),
    REAL(self_weight, "weight on itself", "mean of the diagonal"),
    REAL(first_token_weight, "weight on the first token",
         "mean of the first column over the rows that see it"),
    REAL(centred_norm_squared, "‖PA‖₂²",
         "squared norm of (I − 11ᵀ/n)A: below 1 the head pulls tokens together"),
};

static const size_t attention_offsets[RS_ATTENTION_REALS] = {
    offsetof(rs_attention_measures, entropy),
    offsetof(rs_attention_measures, logit_variance),
    offsetof(rs_attention_measures, spectral_gap),
    offsetof(rs_attention_measures, sigma1),
    offsetof(rs_attention_measures, sigma2),
    offsetof(rs_attention_measures, lambda2),
    offsetof(rs_attention_measures, dobrushin),
    offsetof(rs_attention_measures, distance_to_uniform),
    offsetof(rs_attention_measures, self_weight),
    offsetof(rs_attention_measures, first_token_weight),
    offsetof(rs_attention_measures, centred_norm_squared),
};

static void pick(double *values, const void *measures, const size_t *offsets, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = *(const double *)(const void *)((const char *)measures + offsets[i]);
}

void rs_token_values(double values[RS_TOKEN_REALS + RS_TOKEN_LOGS],
                     const rs_token_measures *measures)
{
    pick(values, measures, token_offsets, RS_TOKEN_REALS);
    pick(values + RS_TOKEN_REALS, measures, log_offsets, RS_TOKEN_LOGS);
}

void rs_attention_values(double values[RS_ATTENTION_REALS], const rs_attention_measures *measures)
{
    pick(values, measures, attention_offsets, RS_ATTENTION_REALS);
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
