/* paths_verdict.c: which paths make the output? One sentence, and the rule that gives it
 * (docs/paths.md, Verdict). */
#include "paths/paths_parts.h"

#include <math.h>
#include <stdio.h>

static rs_status answer(const rs_paths_run *run, rs_severity severity, const char *code,
                        double value, double threshold, const char *text, const char *next,
                        rs_error *err)
{
    const rs_verdict verdict = {.answer = text,
                                .code = code,
                                .severity = (int)severity,
                                .value = value,
                                .threshold = threshold,
                                .next = next};
    return rs_result_set_verdict(run->result, &verdict, err);
}

/* A relative error in percent; one below the limit does not print as the limit. */
static const char *percent(char text[32], double error)
{
    snprintf(text, 32, "%.2g", 100 * error);
    if (error < RS_PATH_CLOSE && 100 * error > 9.95) snprintf(text, 32, "%.4g", 100 * error);
    return text;
}

static rs_status answer_length(const rs_paths_run *run, int32_t k, rs_error *err)
{
    char text[400], left[32], share[32], number[96];
    int32_t deepest = run->plan->deepest;
    double error = rs_paths_mean(run, k).cumulative_error;
    bool few = 2 * k < deepest, all = k == deepest;
    double log10_share = rs_paths_log10_share(run->plan, k);
    rs_paths_power(share, sizeof share, log10_share);
    snprintf(number, sizeof number, "%s of all by number", share);
    if (log10_share == -INFINITY)
        snprintf(number, sizeof number, "all from MLPs and biases, none from the embedding");
    if (all)
        snprintf(text, sizeof text,
                 "Only the long paths complete the output: all lengths up to %d head%s are needed.",
                 (int)deepest, deepest == 1 ? "" : "s");
    else
        snprintf(text, sizeof text,
                 "%s: those through at most %d of %d head%s, %s, give it but for "
                 "%s %%.",
                 few ? "Short paths make the output" : "Paths of middle length make the output",
                 (int)k, (int)deepest, deepest == 1 ? "" : "s", number, percent(left, error));
    return answer(run, RS_INFO,
                  all   ? "long"
                  : few ? "short"
                        : "middle",
                  k, deepest / 2.0, text,
                  isnan(rs_paths_mean(run, k).top1)
                      ? NULL
                      : "--table truncated: what the model loses with short paths alone",
                  err);
}

/* The published code's paths are networks of their own: how near the nearest come. */
static rs_status answer_code(const rs_paths_run *run, rs_error *err)
{
    char text[300];
    int32_t best = -1;
    for (int32_t k = 0; k <= run->plan->longest; k++) {
        double error = rs_paths_mean(run, k).state_error;
        if (isnan(error)) continue;
        if (best < 0 || error < rs_paths_mean(run, best).state_error) best = k;
    }
    if (best < 0)
        return answer(run, RS_INFO, "undefined", NAN, NAN,
                      "Not known: no path of the published code's kind has a finite state.", NULL,
                      err);
    snprintf(text, sizeof text,
             "The published code's paths of %d head%s come nearest to the model: its last state is "
             "off by %.2g (relative).",
             (int)best, best == 1 ? "" : "s", rs_paths_mean(run, best).state_error);
    return answer(run, RS_INFO, "code", rs_paths_mean(run, best).state_error, NAN, text,
                  "without --semantics code the paths sum to the output", err);
}

rs_status rs_paths_verdict(const rs_paths_run *run, rs_error *err)
{
    char text[300];
    if (run->n_samples == 0)
        return answer(run, RS_WARN, "undefined", NAN, NAN, "Not known: no sample has a token.",
                      "give samples with tokens", err);
    if (run->options->semantics == RS_PATHS_CODE) return answer_code(run, err);
    if (!isfinite(rs_paths_mean(run, 0).projection))
        return answer(run, RS_WARN, "undefined", 0, NAN,
                      "Not known: the state that leaves the last layer is zero, with nothing to "
                      "share out among paths.",
                      "'rankscope probe' shows where the states vanish", err);
    if (run->plan->deepest == 0)
        return answer(run, RS_INFO, "no_attention", 0, NAN,
                      "The only path is that of the skips: no self-attention runs.", NULL, err);
    if (run->plan->log_total == -INFINITY)
        return answer(run, RS_INFO, "no_path", 0, NAN,
                      "No path leads from the embedding to the output: all of it comes from MLPs "
                      "and biases.",
                      "'rankscope probe --variants dong' shows what that does to the tokens", err);
    int32_t k = rs_paths_enough(run);
    if (k >= 0) return answer_length(run, k, err);
    double error = rs_paths_mean(run, run->plan->longest).cumulative_error;
    snprintf(text, sizeof text,
             "Longer paths than were told apart: those through at most %d of %d head%s leave the "
             "output by %.2g (relative).",
             (int)run->plan->longest, (int)run->plan->deepest, run->plan->deepest == 1 ? "" : "s",
             error);
    return answer(run, RS_INFO, "beyond", error, RS_PATH_CLOSE, text,
                  "a larger --max-length tells more lengths apart", err);
}
