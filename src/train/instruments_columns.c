/* instruments_columns.c: tables ranks and layers: what each number of a reading is. */
#include "train/instruments.h"

#define RANK(member_, title_, formula_)                                                            \
    RS_COLUMN(rs_rank_row, member_, #member_, title_, NULL, formula_, NULL)
#define CHANCE(member_, title_, formula_)                                                          \
    RS_COLUMN(rs_rank_row, member_, #member_, title_, NULL, formula_, "predicted")

static const char by_chance[] = "mean over random Gaussian factors of this shape";

static const rs_column ranks[] = {
    RANK(step, NULL, "steps made before it was measured"),
    RANK(layer, NULL, "from 0; a layer whose weights are another's has no row"),
    RANK(head, NULL,
         "from 0: query head; of ov without W_O the value head, of cb the group, of gated_delta's "
         "qk the key head"),
    RANK(product, NULL,
         "qk = W_Q W_Kᵀ, ov = W_V W_O (the one that is there alone); state-space: cb = W_C W_Bᵀ, "
         "io = W_in W_out"),
    RANK(inner, NULL, "width of the head: columns of A and of B"),
    RANK(pseudo_rank, "pseudo-rank",
         "least k with Σ_{i≤k} σ ≥ 0.95 Σσ, divided by the inner width"),
    CHANCE(pseudo_rank_null, "pseudo-rank by chance", by_chance),
    RANK(pseudo_count, "pseudo-rank, count", "least k with Σ_{i≤k} σ ≥ 0.95 Σσ"),
    RANK(effective_rank, "effective rank", "exp(−Σ p ln p), p = σ/Σσ (Roy & Vetterli 2007)"),
    CHANCE(effective_rank_null, "effective rank by chance", by_chance),
    RANK(stable_rank, "stable rank", "Σσ² / σ₁²"),
    CHANCE(stable_rank_null, "stable rank by chance", by_chance),
    RANK(q_norm, "‖Q‖", "‖AᵀA − BᵀB‖_F"),
    RANK(q_relative, "‖Q‖, relative", "‖AᵀA − BᵀB‖_F / sqrt(‖AᵀA‖_F ‖BᵀB‖_F)"),
    RANK(half_norm, "H", "½(‖A‖_F² + ‖B‖_F²)"),
    RANK(nuclear_norm, "nuclear norm", "Σσ"),
    RANK(gap, "gap", "H − ‖ABᵀ‖_*"),
    RANK(balance_score, "balance score",
         "β: 1 when AᵀA = BᵀB, 0 for a random rotation of one against the other"),
    RANK(contraction, "contraction of Q", "‖Q‖ divided by that of the first reading"),
    CHANCE(contraction_expected, "contraction by decay",
           "exp(−2 Σ ηλ) of the steps since the first reading, η the rate and λ the decay of the "
           "factors; heavy ball: divided by 1 − β in the exponent; null for Adam with L2"),
    RANK(balance_residual, "balance residual",
         "by how much Q behind the step differs from what its law says, divided by ‖AᵀA‖ + ‖BᵀB‖"),
    RANK(balance_law, "balance law",
         "gradient (SGD), momentum (heavy ball), or update, where factors have biases, norms, "
         "rotations, rates of their own, or Adam's steps"),
};
const rs_table_kind rs_train_ranks_kind = {"train", "ranks", {RS_PART(ranks)}};

#define LAYER(member_, title_, unit_, formula_)                                                    \
    RS_COLUMN(rs_layer_row, member_, #member_, title_, unit_, formula_, NULL)

static const rs_column layers[] = {
    LAYER(step, NULL, NULL, "steps made before it was measured"),
    LAYER(layer, NULL, NULL, "from 0; null for what enters the first"),
    LAYER(relative_residual, "relative residual", NULL,
          "‖X − 1x̄ᵀ‖_F/‖X‖_F of what leaves the layer, x̄ the mean token; mean over the samples of "
          "the probe batch"),
    LAYER(mean_cosine, "mean cosine", NULL,
          "mean cosine of two different tokens of what leaves the layer; mean over samples"),
    LAYER(entropy, "attention entropy", "nats",
          "−Σ_j P_ij ln P_ij, mean over rows, heads and samples; null for mixers without "
          "probabilities"),
    LAYER(entropy_share, "attention entropy, of uniform", NULL,
          "entropy divided by that of uniform attention over the keys that a row sees: ln n "
          "without a mask"),
    LAYER(logit_max, "largest logit", NULL,
          "largest logit of attention among visible keys, over heads and samples"),
    LAYER(g_q, "gQ", NULL,
          "squared Frobenius norm of the training loss's derivative by W_Q, before clipping and "
          "without the product penalty's"),
    LAYER(g_k, "gK", NULL, "the same by W_K"),
    LAYER(g_v, "gV", NULL, "the same by W_V"),
    LAYER(g_o, "gO", NULL, "the same by W_O"),
    LAYER(ratio_q_v, "gQ/gV", NULL, "ratio of squared norms"),
    LAYER(ratio_k_v, "gK/gV", NULL, "ratio of squared norms"),
    LAYER(update_ratio, "update of weights", NULL,
          "norm of what the step changed in the layer, divided by the norm of its weights that are "
          "trained (not frozen)"),
    LAYER(rate_q, "effective rate of Q", NULL,
          "mean over entries of η/(√v̂ + ε) behind the step; η itself for SGD and heavy ball"),
    LAYER(rate_k, "effective rate of K", NULL, "the same of W_K"),
    LAYER(rate_v, "effective rate of V", NULL, "the same of W_V"),
    LAYER(mixer_skip, "λ of the mixer", NULL, "skip strength of the mixer's branch"),
    LAYER(mixer_scale, "α of the mixer", NULL, "residual scale of the mixer's branch"),
    LAYER(mlp_skip, "λ of the MLP", NULL, "skip strength of the MLP's branch"),
    LAYER(mlp_scale, "α of the MLP", NULL, "residual scale of the MLP's branch"),
    LAYER(identity, "gain of the identity", NULL,
          "attention applies identity·I + softmax·P − uniform·C"),
    LAYER(softmax, "gain of the softmax", NULL,
          "attention applies identity·I + softmax·P − uniform·C"),
    LAYER(uniform, "gain of the uniform matrix", NULL,
          "attention applies identity·I + softmax·P − uniform·C"),
};
const rs_table_kind rs_train_layers_kind = {"train", "layers", {RS_PART(layers)}};
