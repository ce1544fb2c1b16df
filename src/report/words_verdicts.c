/* words_verdicts.c: the words that rows and whole results say as their verdict. */
#include "report/words_lists.h"

#define VERDICT(name_, commands_, severity_, see_, meaning_, rule_, todo_)                         \
    {                                                                                              \
        .name = name_, .kind = RS_WORD_VERDICT, .commands = commands_, .severity = severity_,      \
        .see = see_, .meaning = meaning_, .rule = rule_, .todo = todo_                             \
    }
#define SCAN(code, severity, meaning, rule, todo)                                                  \
    VERDICT(code, "scan", severity, "docs/scan.md", meaning, rule, todo)
#define LAB(code, severity, meaning, rule, todo)                                                   \
    VERDICT(code, "lab", severity, "docs/lab.md", meaning, rule, todo)
#define DOCTOR(code, severity, meaning, rule, todo)                                                \
    VERDICT(code, "doctor", severity, "docs/design.md", meaning, rule, todo)

static const rs_word scan[] = {
    SCAN("nonfinite_weights", "critical", "weights hold NaN or infinity",
         "there is a finding of that code", "go back to an earlier checkpoint"),
    SCAN("self_check_failed", "critical", "a spectrum is not to be trusted",
         "there is a finding of that code", "report the checkpoint"),
    SCAN("lost_rank", "warn",
         "products have lost rank: how many, and where; the number is the lowest ratio of all",
         "a query-key or value-output product has effective_rank < 0.5 · effective_rank_null "
         "(--threshold qk_low_rank=X,ov_low_rank=X)",
         "--table findings lists them; --energy 0.9,0.99 says what factorising them saves"),
    SCAN("dead_heads", "warn", "no product has lost rank, but some are all but zero",
         "there is a finding dead_head", "--table findings lists them"),
    SCAN("full_rank", "info", "no product has lost rank and none is dead", "neither of these",
         "'rankscope probe' measures whether the tokens stay apart"),
    SCAN("no_spectrum", "info", "no product could be measured", NULL, NULL),
};

#define PROBE(code, severity, meaning, rule, todo)                                                 \
    VERDICT(code, "probe", severity, "docs/probe.md", meaning, rule, todo)
static const rs_word probe[] = {
    PROBE("nonfinite", "critical", "the run is not to be used", "a state holds NaN or infinity",
          "finding nonfinite_activation names the layer and the weight"),
    PROBE("undefined", "info", "nothing can be said of these inputs",
          "no relative residual exists: no two tokens, states of zeros", NULL),
    PROBE("compared", "info", "which variant leaves the tokens furthest apart",
          "several variants were run and none is full", NULL),
    PROBE(
        "collapse", "warn, critical, info",
        "the tokens become nearly equal; critical below 1e-3 or at the rounding floor, a note for "
        "an edited model",
        "a state's relative residual is below 0.1 (--threshold token_collapse=X)",
        "--variants dong says what would hold them apart"),
    PROBE("slow", "info", "the tokens draw together over the depth, and are still apart",
          "what leaves the last layer is less than 0.5 of what enters the first (--threshold "
          "slow_collapse=X)",
          NULL),
    PROBE("healthy", "info", "the tokens stay apart", "none of these", NULL),
};

static const rs_word lab[] = {
    LAB("claims_fail", "critical", "claims are not as expected", "a claim's verdict is fail",
        "report them with --json"),
    LAB("claims_differ", "info",
        "all claims are as expected, and some differ from the paper, as expected",
        "none fails, one differs_from_paper", NULL),
    LAB("claims_hold", "info", "all claims hold; the number of them is the threshold",
        "none fails, none differs", NULL),
    LAB("experiments", "info", "lab list: what there is", "always", NULL),
};

/* Column verdict of lab's table claims. */
static const rs_word claims[] = {
    LAB("pass", NULL, "a claim holds as published and as expected",
        "measured (or computed) lies within the tolerance of both", NULL),
    LAB("fail", NULL, "a claim is not as expected: this program, or its expectation, is wrong",
        "measured lies outside the tolerance of expected, or above a bound", "report it"),
    LAB("differs_from_paper", NULL,
        "a claim is as an independent calculation has it, and not as published",
        "measured agrees with expected, not with published", "docs/lab.md says why"),
};

static const rs_word machine[] = {
    DOCTOR("machine_busy", "warn",
           "nothing is called fine, nor slow: what was measured contradicts itself",
           "runs of one product differ by more than 25 %, or a figure is above 105 % of the "
           "measured peak",
           "measure again when nothing else runs"),
    DOCTOR("blas_kernel", "warn", "OpenBLAS runs an older processor's kernel",
           "there is a better one for this processor", "set OPENBLAS_CORETYPE as it says"),
    DOCTOR("blas_slow", "warn", "matrix products are slow on this machine",
           "one thread's sgemm is below 50 % of the peak",
           "try OPENBLAS_CORETYPE=Haswell, Zen or SkylakeX"),
    DOCTOR("blas_ok", "info", "matrix products run as fast as they should", "none of these", NULL),
    VERDICT("tokens", "tokenize", "info", "docs/tokenize.md",
            "how many tokens the text has, and which special ones are among them", "always", NULL),
    VERDICT("explained", "explain", "info", "docs/words.md",
            "a word was found; the number counts meanings", "always, with a word", NULL),
    VERDICT("listed", "explain", "info", "docs/words.md", "all names, and how many there are",
            "always, without a word", NULL),
};

const rs_word_list rs_words_of_verdicts[] = {RS_WORDS(scan),   RS_WORDS(probe),   RS_WORDS(lab),
                                             RS_WORDS(claims), RS_WORDS(machine), {NULL, 0}};
