/* words_proofs.c: the codes of findings of certify, paths, lab, tokenize and doctor. */
#include "report/words_lists.h"

#define RS_CODES RS_WORD_FINDING

static const rs_word bounds[] = {
    CERTIFY("apart_summary", "info",
            "layers behind which the tokens are proved to be apart, and how far; or that there is "
            "none",
            "the lower bound is positive in every sample", NULL),
    CERTIFY("certified_collapse", "warn",
            "the tokens are proved to come together: from which layer on, and to what",
            "in every sample the upper bound is below a tenth of what its tokens entered apart",
            "table lambda has the skip strengths that provably keep them apart"),
    CERTIFY("conditional_collapse", "info",
            "what would follow of collapse if the condition held on which the bound hangs", NULL,
            NULL),
    CERTIFY("conditional", "info", "which numbers hang on a condition, and on which", NULL,
            "without --fast they are left out"),
    CERTIFY("bound_vacuous", "info",
            "layers where the upper bound says no more than the tokens' lengths do: spectral norms "
            "of trained models are large",
            NULL, NULL),
    CERTIFY("no_certificate", "info", "layers where nothing is proved, and why", NULL, NULL),
    CERTIFY("collapse_rate", "info", "layers whose residual follows a law, and which", NULL, NULL),
    CERTIFY("hypothesis_violated", "info",
            "which hypothesis of the published theorem fails; nothing certified rests on it", NULL,
            NULL),
    CERTIFY("zero_residual", "info", "one token, equal tokens, or tokens equal in float64", NULL,
            NULL),
    CERTIFY("lambda_summary", "info",
            "the skip strength that is proved enough for all layers and samples",
            "every |λ| from there on keeps the share A of the spread (--kept A, 0.9)", NULL),
    CERTIFY("lambda_conditional", "info", "how many cases of table lambda hang on a condition",
            NULL, NULL),
    CERTIFY(
        "lambda_recommended", "info",
        "the nearest skip strengths of the mixers that a search found to keep the tokens apart, "
        "checked by a run, with their price; or that no change is needed",
        "relative residual behind the last layer ≥ KEPT (--recommend KEPT)",
        "table recommendation has the words for --lambda"),
    CERTIFY("lambda_out_of_reach", "warn",
            "no skip strength of the search keeps what --recommend asks for",
            "relative residual behind the last layer < KEPT at each λ that was run",
            "ask for less"),
    CERTIFY("proof_steps", "info",
            "which lines of the published proof of the cubic bound are false of the heads of "
            "--steps; or why the proof does not speak of a head",
            "--steps is given", "table proof has every line, and what repairs it"),
    CERTIFY("bound_overflow", "info",
            "bounds that leave the range of float64: their logarithms "
            "stand beside the nulls",
            NULL, NULL),
};

static const rs_word paths[] = {
    PATHS("path_identity", "info", "all paths together are the output, and to which error",
          "always", NULL),
    PATHS("shortest_path_dominance", "info",
          "short paths make the output: the least length whose paths make the last state to a "
          "tenth, and that it is below half of the attentions",
          "cumulative_error ≤ 0.1 at a length < half of the attentions", NULL),
    PATHS("short_paths", "info",
          "the same least length where it is no less than half of the attentions", NULL, NULL),
    PATHS("sources_share", "info", "how much of the output comes from MLPs and biases", NULL, NULL),
    PATHS("path_residuals", "info", "how far apart long paths alone leave the tokens", NULL, NULL),
    PATHS("truncated_model", "info", "the least length whose model agrees with the whole one",
          "90 % top-1 agreement", NULL),
    PATHS("code_semantics", "info", "--semantics code: what came of the published code's paths",
          NULL, NULL),
    PATHS("no_attention", "info", "the model has no attention: there are no paths", NULL, NULL),
    PATHS("no_path", "info", "a branch without skip cuts the embedding off", NULL, NULL),
    PATHS("zero_output", "warn", "the last state is zero: no share of it exists", NULL, NULL),
    PATHS("no_tokens", "warn", "no sample has a token", NULL, NULL),
    PATHS("cancelling_terms", "warn",
          "the terms are much larger than their sum: numbers relative to it have lost as many "
          "digits",
          "terms more than 10⁸ times the output", NULL),
    PATHS("lesion_heads", "info",
          "--lesions: the heads without which the last state's relative residual moves most, and "
          "without which the loss rises most",
          "the model has a head that can be left out", NULL),
    PATHS("lesion_sets", "info",
          "--lesions: what heads left out together cost against the sum of what each costs alone: "
          "as much where paths work independently",
          "there is a loss, and there are two heads", NULL),
    PATHS("lesion_no_loss", "info", "--lesions: why lesions have no loss", NULL, NULL),
    PATHS("lesion_no_heads", "info", "--lesions: why no head was left out", NULL, NULL),
    PATHS("lesion_not_finite", "warn",
          "lesions whose last state holds NaN or infinity: their cells are null", NULL, NULL),
    PATHS("vanished_paths", "info",
          "single paths whose mixing matrices multiply to exactly zero, as centred attention does "
          "where attention is uniform: they have no rank1_distance",
          NULL, NULL),
};

static const rs_word others[] = {
    LAB("claim_failed", "critical",
        "a claim is not as expected: this program, or its expectation, is wrong",
        "measured and expected differ by more than the tolerance", "report it with the JSON"),
    LAB("differs_from_paper", "warn",
        "a claim is as an independent calculation has it, and not as published",
        "measured agrees with expected, not with published", "docs/lab.md says why"),
    LAB("training_runs", "info",
        "what an experiment of many runs trains, and how long that takes where nothing else runs",
        NULL, "--db FILE keeps finished runs, --seeds N trains fewer"),
    LAB("quick", "info", "--quick: what was left out", NULL, "run without --quick"),
    LAB("not_measured", "info", "a published number that this run does not measure, and why", NULL,
        NULL),
    LAB("model_unused", "warn",
        "a model that --model named and that has no published curve, or is "
        "the second of its family",
        "model_type is not bert, albert or xlnet", "name one of each: the figure has these three"),
    TOKENIZE("long_text", "info", "a text of more than 100 tokens: how it begins", NULL,
             "--table ids shows them all"),
    DOCTOR("blas_ok", "info", "matrix products run as fast as they should",
           "single-threaded sgemm reaches at least 50 % of the processor's peak", NULL),
    DOCTOR("blas_slow", "warn", "matrix products are slow on this machine",
           "single-threaded sgemm reaches less than 50 % of the processor's peak",
           "try OPENBLAS_CORETYPE=Haswell, Zen or SkylakeX; on a busy machine measure again"),
    DOCTOR("blas_kernel", "warn",
           "OpenBLAS runs an older processor's kernel; the variable to set is named", NULL,
           "set OPENBLAS_CORETYPE as the finding says"),
    DOCTOR("machine_busy", "warn", "what was measured contradicts itself: something else runs",
           "runs of one product differ by more than 25 %, or a figure is above 105 % of the "
           "measured peak",
           "measure again when nothing else runs"),
    FILES("note", "info, warn", "what a reader of a file had to say and has no code of its own",
          NULL, NULL),
};

const rs_word_list rs_words_of_proofs[] = {
    RS_WORDS(bounds), RS_WORDS(paths), RS_WORDS(others), {NULL, 0}};
