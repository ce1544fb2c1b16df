/* words_predictions.c: the codes of findings about architectures before they are trained. */
#include "report/words_lists.h"

#define RS_CODES RS_WORD_FINDING

static const rs_word predictions[] = {
    PREDICT("embedding_swamped", "info",
            "what enters the first block is so small that its output hides it: the states behind "
            "it hold hardly anything of the embedding",
            "‖X‖² behind the first block > 100 · what entered (--threshold embedding_ratio=X)",
            "larger embeddings (a norm behind them, or times √d), or smaller outputs of branches"),
    PREDICT("condensed_attention", "warn",
            "attention is condensed before training: a row puts most of its weight on one key",
            "E ΣA² > 0.5 + 0.5/n: half way from uniform to one key (--threshold condensed=X)",
            "smaller query and key weights, or a temperature above 1"),
    PREDICT("vanishing_qk_gradient", "warn",
            "the query weights of a layer get next to no gradient at the start (Noci et al. 2022)",
            "gQ/gV < 1e-6, squared norms",
            "branches × 1/√L, or the temperature that the answer on queries names"),
    PREDICT("verdict_differs", "warn",
            "theory and the networks that were drawn have different verdicts; the number is their "
            "widest gap in standard errors",
            "both have one, not the same, and trials have it of all layers",
            "more --trials; the answer on trust names the assumption"),
    PREDICT(
        "recommendation", "info",
        "the best change of table remedies that makes no other answer worse; the number is 1 − ρ "
        "with it",
        "the verdict is not healthy, and a change helps by more than chance",
        "write what the hint says into the architecture file"),
    PREDICT(
        "trials_overflow", "warn", "some trials left the range of float64",
        "a state or a derivative of a trial is not finite, or a state is 0 that theory says is not",
        "theory's log10 columns go on; a norm or smaller branches keep states in range"),
};

const rs_word_list rs_words_of_predictions[] = {RS_WORDS(predictions), {NULL, 0}};
