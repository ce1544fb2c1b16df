/* words_training.c: the codes of findings about training runs. */
#include "report/words_lists.h"

#define RS_CODES RS_WORD_FINDING

static const rs_word alarms[] = {
    TRAIN(
        "token_collapse", "warn, critical once it has lasted",
        "the tokens of the probe batch leave the last layer as nearly one vector: what a token "
        "says of itself is all that a loss can use; healthy runs dip while they learn how often "
        "tokens come",
        "relative_residual of the last layer < 0.05 at two logs in a row (alarms.token_collapse); "
        "critical after max(200, 2 warm-up) steps (alarms.hold)",
        "norm in front of the branches, skips of 1, branches scaled by 1/√layers, a longer "
        "warm-up or a lower rate"),
    TRAIN("vanishing_qk_gradient", "warn, critical once it has lasted",
          "the query weights of a layer get next to no gradient: its attention stays what it is "
          "while the values learn (Noci et al. 2022)",
          "‖∂L/∂W_Q‖ < 1e-3 ‖∂L/∂W_V‖, gQ/gV < 1e-6, at two logs in a row "
          "(alarms.vanishing_qk_gradient); critical after max(200, 2 warm-up) steps (alarms.hold)",
          "look at the tokens in front of that layer, or scale branches by 1/√layers; steps of SGD "
          "and heavy ball hang on the size of gradients, Adam's do not"),
    TRAIN("qk_rank_loss", "warn",
          "the query-key products of a layer have lost directions. By itself no proof of harm; "
          "published as harmful for language models",
          "mean effective rank over its heads < 0.6 · the null and < 0.6 · its own maximum so far, "
          "at two logs in a row (alarms.qk_rank_loss)",
          "where the loss suffers too, take the attention matrices out of weight decay or lower it "
          "there"),
    TRAIN("ov_rank_loss", "warn", "the same of the value-output products",
          "as for qk_rank_loss (alarms.ov_rank_loss)", "as for qk_rank_loss"),
    TRAIN("context_unused", "critical",
          "a language model tells how often tokens come and nothing of their context: its loss is "
          "the entropy of single tokens, and its tokens have collapsed",
          "|loss − unigram entropy| ≤ 0.03 nats for max(200, 2 warm-up) steps while token_collapse "
          "rings (alarms.context_unused, alarms.hold)",
          "stop the run, and cure token_collapse"),
    TRAIN("loss_spike", "warn", "the loss of batches is far above its running mean",
          "batch loss > 3 · running mean at two logs in a row (alarms.loss_spike)",
          "a lower rate, a longer warm-up, clipping; look at the largest logits of attention"),
    TRAIN("nonfinite_loss", "critical", "the loss is NaN or infinite, and the run ends", "always",
          "go on from the last good checkpoint with a lower rate or with clipping; f64 shows "
          "whether rounding is to blame"),
    TRAIN("training_data", "info",
          "what was made of the user's data: how large the sets are, and what was left out",
          "data from files", NULL),
};

const rs_word_list rs_words_of_training[] = {RS_WORDS(alarms), {NULL, 0}};
