/* words_verdicts.c: the words that rows and whole results say as their verdict. */
#include "report/words_lists.h"

#define RS_CODES RS_WORD_VERDICT

static const rs_word scan[] = {
    SCAN("nonfinite_weights", "critical", "weights of the products hold NaN or infinity",
         "there is a finding of that code", "go back to an earlier checkpoint"),
    SCAN("self_check_failed", "critical", "a spectrum is not to be trusted",
         "there is a finding of that code", "report the checkpoint"),
    SCAN("lost_rank", "warn",
         "products have lost rank: how many, and where; the numbers are the ratio of the one that "
         "lost most, and its threshold",
         "a query-key or value-output product has effective_rank < 0.5 · effective_rank_null "
         "(--threshold qk_low_rank=X,ov_low_rank=X)",
         "--table findings lists them; --energy 0.9,0.99 says what factorising them saves"),
    SCAN("dead_heads", "warn", "no product has lost rank, but some are all but zero",
         "there is a finding dead_head", "--table findings lists them"),
    SCAN("full_rank", "info", "no product has lost rank and none is dead", "neither of these",
         "'rankscope probe' measures whether the tokens stay apart"),
    SCAN("no_spectrum", "info", "no product could be measured", NULL, NULL),
};

/* Of several checkpoints, in the order in which they are tried; one that is critical in the last of them
 * comes first, what scan warns of there behind a rank that falls. */
static const rs_word series[] = {
    SERIES(
        "rank_falls", "warn",
        "the rank of layers' products falls from checkpoint to checkpoint: which, since when, and "
        "how; the numbers are the share that the one that fell most lost, and the threshold",
        "there is a finding of that code", "--table trends shows all"),
    SERIES("ranks_hold", "info",
           "no layer's rank falls, and scan warns of nothing in the last "
           "checkpoint",
           "none of these", "--table trends shows every layer"),
};

/* In the order in which they are tried. */
static const rs_word compare[] = {
    COMPARE("nothing_in_common", "warn", "the two have no product of one layer, head and kind",
            NULL, "table not_compared lists them"),
    COMPARE("findings_came", "warn, critical",
            "what scan, or probe where the models were run, warn of in B and not in A",
            "table findings_changed has a row that came, of severity warn or critical",
            "--table findings_changed lists what came and went"),
    COMPARE("rank_fell", "warn", "products lost a good part of their effective rank",
            "there is a finding of that code", "--table layers shows where"),
    COMPARE("ranks_alone", "info",
            "the models differ in width: ranks are compared, directions cannot be", NULL,
            "--table layers has both, layer by layer"),
    COMPARE("no_spectrum", "info", "no product has a spectrum in both", NULL, NULL),
    COMPARE("same", "info", "every product that both have is the same, bit for bit",
            "moved is same in all rows of table heads", NULL),
    COMPARE("rounding", "info",
            "no product changed by more than the rounding of its stored numbers; its factors may "
            "have turned against each other",
            "moved is same or rounding in all rows of table heads", NULL),
    COMPARE("changed", "info",
            "products changed: how many, how far, and what became of their ranks", "none of these",
            "--table layers shows where"),
};

/* In the order in which they are tried. */
static const rs_word probe[] = {
    PROBE("nonfinite", "critical", "the pass holds NaN or infinity", "a state is not finite",
          "finding nonfinite_activation names the weight"),
    PROBE("attention_rank", "info",
          "which of the ranks that were tried is the least that keeps the loss, without a head the "
          "last state",
          "--attention-rank; 0.01 (--threshold attention_rank=X) is the share that it may rise by",
          "table attention_ranks has every entry"),
    PROBE("undefined", "info", "nothing can be said of the tokens",
          "no two tokens; or no state collapsed, and leaves / enters does not exist (states of "
          "zeros)",
          "give samples of at least two different tokens"),
    PROBE("compared", "info", "which of several variants leaves the tokens furthest apart",
          "variants without full", "add full: the model as it is"),
    PROBE(
        "collapse", "warn, critical, info",
        "the tokens become nearly equal; critical below 1e-3 or at the rounding floor, a note for "
        "an edited model",
        "a state's relative_residual < 0.1 (--threshold token_collapse=X)",
        "--variants dong shows what would hold them apart"),
    PROBE("slow", "info", "the tokens draw together, but do not become nearly equal",
          "leaves / enters < 0.5 (--threshold slow_collapse=X)",
          "--variants dong shows what holds them apart"),
    PROBE("healthy", "info", "the tokens do not collapse", "none of these",
          "--variants dong shows what holds them apart"),
};

static const rs_word certify[] = {
    CERTIFY("nonfinite", "critical", "the pass holds NaN or infinity: nothing is proved",
            "tokens that leave a layer are not finite", "'rankscope probe' names the weight"),
    CERTIFY("undefined", "info", "there is nothing to prove",
            "no sample has two tokens that differ as they enter", NULL),
    CERTIFY("collapse", "warn", "the tokens provably draw together",
            "behind the last layer those of every sample are proved to be within a tenth of what "
            "entered",
            "table lambda has the skip that keeps them apart"),
    CERTIFY("partly_apart", "info", "some layers provably keep the tokens apart",
            "certified_at_least > 0 in every sample, in some layers", NULL),
    CERTIFY("apart", "info", "every layer provably keeps the tokens apart",
            "the same in every layer, and behind the last at least a tenth of the diameter that "
            "entered the first is left, in every sample",
            NULL),
    CERTIFY("distinct", "info", "the tokens provably stay different, but little is left",
            "the same in every layer, and less than a tenth is left",
            "'rankscope probe --variants dong' shows what draws them together"),
    CERTIFY("not_proved", "info", "no layer is proved to keep the tokens apart", "none of these",
            "table lambda has the skip that would be enough"),
};

static const rs_word paths[] = {
    PATHS("undefined", "warn, info", "there is no output to share out among paths",
          "no tokens, or a last state of zeros", "'rankscope probe' shows where states vanish"),
    PATHS("code", "info", "--semantics code: the length whose paths come nearest to the model",
          NULL, NULL),
    PATHS("no_attention", "info", "no self-attention runs", NULL, NULL),
    PATHS("no_path", "info", "no path leads from the embedding to the output", NULL, NULL),
    PATHS("short", "info", "short paths make the output",
          "the least length whose cumulative_error is at most 0.1 is below half of the attentions",
          "--table truncated: what the model loses with them alone"),
    PATHS("middle", "info", "paths of middle length are needed",
          "that length is half of the attentions or more", NULL),
    PATHS("long", "info", "paths of all lengths are needed", "it is all of the attentions", NULL),
    PATHS("beyond", "info", "the paths that were told apart do not make the output",
          "no such length up to --max-length", "a larger --max-length"),
};

static const rs_word lab[] = {
    LAB("claims_fail", "critical", "claims are not as expected", "a claim's verdict is fail",
        "report them with --json"),
    LAB("claims_differ", "info",
        "no claim fails, and some differ from the paper: as expected, where column expected has a "
        "number",
        "none fails, one differs_from_paper", NULL),
    LAB("claims_hold", "info",
        "no claim fails and none differs from the paper: all hold, but for orderings that show no "
        "difference and what was skipped; the number of all is the threshold",
        "none fails, none differs, not all are skipped", NULL),
    LAB("claims_skipped", "info", "no claim could be judged: what they are about is not there",
        "all are skipped", "column reason of table claims says what is missing"),
    LAB("experiments", "info", "lab list: what there is", "always", NULL),
};

/* Column verdict of lab's table claims. */
static const rs_word claims[] = {
    LAB("pass", NULL, "a claim holds as published and as expected",
        "measured (or computed) lies within the tolerance of both", NULL),
    LAB("fail", NULL, "a claim is not as expected: this program, or its expectation, is wrong",
        "measured lies outside the tolerance of expected, or above a bound", "report it"),
    LAB("differs_from_paper", NULL,
        "a claim is not as published; where an independent calculation was made it is as that has "
        "it",
        "measured lies outside the tolerance of published, and not of expected where it has a "
        "number; of an ordering: it is the other way round",
        "docs/lab.md says why"),
    LAB("no_difference", NULL, "an ordering that the draws of this run do not show",
        "the difference lies within twice its standard error (of two to four seeds times t/1.96), "
        "which column tolerance has",
        "leave out --quick and --seeds: more draws and seeds are run"),
    LAB("skipped", NULL, "a claim that was not judged: what it is about is not there",
        "a claim about trained weights, and those of the run are random; or what it needs is "
        "missing",
        "column reason says what; lab run --model PATH judges those about trained models"),
};

static const rs_word train[] = {
    TRAIN("trained", "info; the worst alarm's",
          "a run made all its steps; the number is the running mean of its loss",
          "no alarm of --stop-on rang, and all was finite",
          "'rankscope scan DIR' reads what was learned"),
    TRAIN("stopped", "critical", "an alarm of --stop-on ended a run; exit code 3",
          "the alarm rang (--stop-on, stop_on of the task)",
          "table findings names it; --resume goes on, with --set stop_on=[]"),
    TRAIN("planned", "info", "what a run would be; the number is the seconds that it would take",
          "--dry-run", "leave out --dry-run"),
};

/* In the order in which they are tried. */
static const rs_word predict[] = {
    PREDICT("unknown", "info", "theory has no number for some layer, and nothing was drawn",
            "column theory_note says why",
            "'rankscope probe ARCH.json --random 8' measures one draw"),
    PREDICT("explosion", "critical", "states or gradients grow or shrink by decades",
            "‖X‖² or ‖∂L/∂X‖² moves by more than 3 decades over the second half of the depth "
            "(--threshold explosion_decades=X)",
            "a norm, or branches × 1/√L"),
    PREDICT(
        "doubly_exponential", "critical",
        "1 − ρ falls faster in every block than in the one before: its logarithm grows by a "
        "factor",
        "log₁₀(1 − ρ) × 1.5 or more in each of the last two blocks, and 1 − ρ < 0.1 behind both "
        "(doubly_factor, doubly_below)",
        "skips"),
    PREDICT("exponential", "warn, critical",
            "tokens collapse exponentially with depth; critical where less than 0.01 of 1 − ρ is "
            "left, or nothing enters (ρ = 1)",
            "1 − ρ falls below half of what it was, with an exponent of 1.5 or more "
            "(halving, power_exponent, critical_below)",
            "table remedies"),
    PREDICT("slow", "info", "tokens draw together as a power of the depth",
            "1 − ρ falls below half of what it was, otherwise", "table remedies"),
    PREDICT("healthy", "info", "tokens stay apart", "none of these", NULL),
    PREDICT("explained", "info", "the architecture with every field; the number is none",
            "--explain", "leave out --explain"),
    PREDICT("listed", "info", "what architectures have names", "--preset list", "--preset NAME"),
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
    TOKENIZE("tokens", "info",
             "how many tokens the text has, and which special ones are among them", "always", NULL),
    EXPLAIN("explained", "info", "a word was found; the number counts meanings",
            "always, with a word", NULL),
    EXPLAIN("listed", "info", "what there is to explain, and how much", "always, without a word",
            NULL),
};

const rs_word_list rs_words_of_verdicts[] = {
    RS_WORDS(scan),  RS_WORDS(series),  RS_WORDS(probe),   RS_WORDS(certify),
    RS_WORDS(paths), RS_WORDS(compare), RS_WORDS(lab),     RS_WORDS(claims),
    RS_WORDS(train), RS_WORDS(predict), RS_WORDS(machine), {NULL, 0}};
