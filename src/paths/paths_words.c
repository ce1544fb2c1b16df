/* paths_words.c: the paths in words, and their figures. */
#include "paths/paths_parts.h"
#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLOSE RS_PATH_CLOSE

/* Terms so much larger than the output have lost half of the digits of a double in it. */
#define CANCELS 1e8

static rs_status tell(rs_result *result, rs_severity severity, const char *code, double value,
                      double threshold, const char *table, const char *message, const char *hint,
                      rs_error *err)
{
    rs_finding f = rs_finding_of(severity, code);
    f.value = value;
    f.threshold = threshold;
    f.message = message;
    f.hint = hint;
    f.table = table;
    return rs_result_add_finding(result, &f, err);
}

/* ---- numbers ---- */

static const char *plural(double count)
{
    return count == 1 ? "" : "s";
}

double rs_paths_log10_share(const rs_path_plan *plan, int32_t length)
{
    double sum = 0;
    for (int32_t k = 0; k <= length; k++)
        sum += exp(plan->log_count[k] - plan->log_total);
    if (sum > 0) return log10(sum);
    return (plan->log_count[length] - plan->log_total) / log(10); /* below every float */
}

/* Mean length of a path drawn uniformly among all: NaN unless all lengths are told apart. */
static double mean_length(const rs_path_plan *plan)
{
    double sum = 0;
    if (plan->longest < plan->deepest) return NAN;
    for (int32_t k = 0; k <= plan->longest; k++)
        sum += k * exp(plan->log_count[k] - plan->log_total);
    return sum;
}

const char *rs_paths_power(char *text, size_t size, double log10_value)
{
    if (log10_value == -INFINITY)
        snprintf(text, size, "none");
    else if (log10_value > -4) {
        double percent = 100 * pow(10, log10_value);
        int digits = 3; /* more where fewer would print what is short of all as all */
        do
            snprintf(text, size, "%.*g%%", digits, percent);
        while (digits++ < 12 && percent < 100 && strncmp(text, "100", 3) == 0);
    } else
        snprintf(text, size, "10^%.1f", log10_value);
    return text;
}

/* ---- the theorem's paths ---- */

static rs_status identity(const rs_paths_run *run, rs_error *err)
{
    char message[300];
    const rs_path_identity *i = &run->identity;
    snprintf(message, sizeof message,
             "the sum over all paths and sources is the output: error %.2g, relative to the sum of "
             "the norms of what is added up; at most %.0e is let through",
             i->error, RS_PATH_IDENTITY);
    return tell(run->result, RS_INFO, "path_identity", i->error, RS_PATH_IDENTITY, NULL, message,
                NULL, err);
}

/* Where terms cancel, numbers relative to the output have fewer digits. */
static rs_status cancelling(const rs_paths_run *run, rs_error *err)
{
    char message[400];
    const rs_path_identity *i = &run->identity;
    if (!(i->cancellation > CANCELS)) return RS_OK;
    snprintf(message, sizeof message,
             "the terms cancel: together their norms are %.2g times that of the output, and their "
             "sum is known to %.2g of the output; what is given relative to the output (errors, "
             "projections) has no more digits than that",
             i->cancellation, i->output_error);
    return tell(run->result, RS_WARN, "cancelling_terms", i->cancellation, CANCELS, "lengths",
                message, "shares are relative to the terms, and keep theirs", err);
}

int32_t rs_paths_enough(const rs_paths_run *run)
{
    for (int32_t k = 0; k <= run->plan->longest; k++)
        if (rs_paths_mean(run, k).cumulative_error <= CLOSE) return k;
    return -1;
}

static rs_status dominance(const rs_paths_run *run, rs_error *err)
{
    char message[500], share[32], typical[96] = "";
    int32_t k = rs_paths_enough(run), deepest = run->plan->deepest;
    double mean = mean_length(run->plan);
    if (deepest == 0)
        return tell(run->result, RS_INFO, "no_attention", 0, NAN, NULL,
                    "no self-attention runs: the only path is that of the skips", NULL, err);
    if (run->plan->log_total == -INFINITY)
        return tell(run->result, RS_INFO, "no_path", 0, NAN, "lengths",
                    "no path leads from the embedding to the output: some branch has no skip and "
                    "no head; all of the output comes from sources",
                    NULL, err);
    if (!isnan(mean))
        snprintf(typical, sizeof typical, "; a path drawn among all takes %.3g head%s on average",
                 mean, plural(mean));
    if (k < 0) {
        snprintf(message, sizeof message,
                 "everything with at most %d head%s leaves the output by %.2g (relative)%s",
                 (int)run->plan->longest, plural(run->plan->longest),
                 rs_paths_mean(run, run->plan->longest).cumulative_error, typical);
        return tell(run->result, RS_INFO, "short_paths",
                    rs_paths_mean(run, run->plan->longest).cumulative_error, CLOSE, "lengths",
                    message, "a larger --max-length tells more lengths apart", err);
    }
    snprintf(message, sizeof message,
             "everything that goes through at most %d of %d head%s makes the last state to %.2g "
             "(relative error); by number these are %s of the embedding's paths%s",
             (int)k, (int)deepest, plural(deepest), rs_paths_mean(run, k).cumulative_error,
             rs_paths_power(share, sizeof share, rs_paths_log10_share(run->plan, k)), typical);
    return tell(run->result, RS_INFO, 2 * k < deepest ? "shortest_path_dominance" : "short_paths",
                rs_paths_mean(run, k).cumulative_error, CLOSE, "lengths", message, NULL, err);
}

static rs_status shares(const rs_paths_run *run, rs_error *err)
{
    char message[600];
    size_t used = 0;
    double embedding = 0, source = 0, projected = 0, source_projected = 0;
    for (int32_t k = 0; k <= run->plan->longest; k++) {
        rs_path_means m = rs_paths_mean(run, k);
        embedding += m.share;
        source += m.source_share;
        projected += m.projection;
        source_projected += m.source_projection;
    }
    used += (size_t)snprintf(message, sizeof message,
                             "of the norms that make the output, %.0f%% is what the embedding "
                             "becomes and %.0f%% what MLPs and biases become; projected on the "
                             "output %.3g and %.3g",
                             100 * embedding, 100 * source, projected, source_projected);
    if (run->plan->longest < run->plan->deepest)
        snprintf(message + used, sizeof message - used,
                 "; the rest goes through more than %d head%s", (int)run->plan->longest,
                 plural(run->plan->longest));
    return tell(run->result, RS_INFO, "sources_share", source, NAN, "lengths", message, NULL, err);
}

/* How uniform long paths are against short ones. */
static rs_status uniformity(const rs_paths_run *run, rs_error *err)
{
    char message[400];
    if (run->plan->longest < 2) return RS_OK;
    rs_path_means one = rs_paths_mean(run, 1), last = rs_paths_mean(run, run->plan->longest);
    if (isnan(one.residual) || isnan(last.residual)) return RS_OK;
    size_t used = (size_t)snprintf(
        message, sizeof message,
        "what paths of one head add has a relative residual of %.3g, what paths of %d heads add "
        "%.3g",
        one.residual, (int)run->plan->longest, last.residual);
    if (!isnan(one.rank1) && !isnan(last.rank1))
        snprintf(message + used, sizeof message - used,
                 "; the single path's mixing is %.2g from rank one with one head, %.2g with %d",
                 one.rank1, last.rank1, (int)run->plan->longest);
    return tell(run->result, RS_INFO, "path_residuals", last.residual, NAN, "lengths", message,
                NULL, err);
}

static rs_status truncated(const rs_paths_run *run, rs_error *err)
{
    char message[400];
    int32_t k = 0, most = run->plan->longest;
    if (isnan(rs_paths_mean(run, 0).top1)) return RS_OK;
    while (k < most && rs_paths_mean(run, k).top1 < 0.9)
        k++;
    rs_path_means own = rs_paths_mean(run, -1), m = rs_paths_mean(run, k);
    size_t used = (size_t)snprintf(message, sizeof message,
                                   "with everything of at most %d head%s the most likely output is "
                                   "the model's for %.0f%% of the tokens",
                                   (int)k, plural(k), 100 * m.top1);
    if (!isnan(own.nll))
        snprintf(message + used, sizeof message - used,
                 "; the loss is then %.3f, the model's %.3f, without any head %.3f", m.nll, own.nll,
                 rs_paths_mean(run, 0).nll);
    return tell(run->result, RS_INFO, "truncated_model", m.top1, 0.9, "truncated", message, NULL,
                err);
}

/* Single paths whose mixing matrices multiply to zero: their distance from rank one is null. */
static rs_status vanished(const rs_paths_run *run, rs_error *err)
{
    enum { RANK1 = 2 };
    char message[400];
    int64_t all = 0, none = 0;
    int32_t first = -1, last = -1;
    for (int32_t k = 0; k <= run->plan->longest && run->set; k++)
        for (size_t i = 0; i < run->n_samples; i++) {
            int64_t n = (int64_t)(run->set->first[k + 1] - run->set->first[k]);
            int64_t defined = run->samples[i].paths[k][RANK1].n;
            all += n;
            none += n - defined;
            if (n == defined) continue;
            if (first < 0) first = k;
            last = k;
        }
    if (none == 0) return RS_OK;
    snprintf(message, sizeof message,
             "%lld of %lld single paths (the shortest has %d head%s, the longest %d) have no "
             "distance from rank one: their mixing matrices multiply to exactly zero in float64; "
             "means and medians leave them out, and are null where none is left",
             (long long)none, (long long)all, (int)first, plural(first), (int)last);
    return tell(run->result, RS_INFO, "vanished_paths", (double)none, 0, "paths", message,
                "centred attention is zero wherever attention is uniform, and on a single token; "
                "norms of states far above 1 divide by more than a double holds",
                err);
}

/* ---- the published code's paths ---- */

static rs_status combined(const rs_paths_run *run, rs_error *err)
{
    char message[500];
    int32_t best = -1;
    double least = INFINITY;
    for (int32_t k = 0; k <= run->plan->longest; k++) {
        rs_path_means m = rs_paths_mean(run, k);
        double score = isnan(m.top1) ? m.state_error : -m.top1;
        if (score < least) least = score, best = k;
    }
    if (best < 0) return RS_OK;
    rs_path_means m = rs_paths_mean(run, best);
    size_t used = (size_t)snprintf(
        message, sizeof message,
        "semantics of the published code: a path is a network of its own, one head a layer with "
        "attention from its own states, a norm behind each, no skip and no MLP; nearest to the "
        "model are %d-head paths, error of the state %.3g",
        (int)best, m.state_error);
    if (!isnan(m.top1))
        snprintf(message + used, sizeof message - used, ", top-1 agreement %.0f%%", 100 * m.top1);
    return tell(run->result, RS_INFO, "code_semantics", best, NAN, "combined", message,
                "these are not the terms of the decomposition, and do not sum to the output", err);
}

rs_status rs_paths_words(const rs_paths_run *run, rs_error *err)
{
    RS_TRY(rs_paths_verdict(run, err));
    if (run->n_samples == 0)
        return tell(run->result, RS_WARN, "no_tokens", 0, NAN, NULL, "no sample has a token", NULL,
                    err);
    RS_TRY(vanished(run, err));
    if (run->options->semantics == RS_PATHS_CODE) return combined(run, err);
    if (!isfinite(rs_paths_mean(run, 0).projection))
        return tell(run->result, RS_WARN, "zero_output", 0, NAN, "lengths",
                    "the state that leaves the last layer is zero: there is nothing to share out "
                    "among paths",
                    "'rankscope probe' shows how the states shrink layer by layer", err);
    RS_TRY(dominance(run, err));
    RS_TRY(shares(run, err));
    RS_TRY(uniformity(run, err));
    RS_TRY(truncated(run, err));
    RS_TRY(cancelling(run, err));
    return identity(run, err);
}

/* ---- figures ---- */

/* floor: of a logarithmic axis (0: as the data have it); negative: the axis is linear. */
static rs_status line_figure(const rs_paths_run *run, const char *name, const char *title,
                             const char *about, const char *table, const char *x,
                             const char *column, const char *axis, double floor, rs_error *err)
{
    static const char *const keys[] = {"sample"};
    const rs_lines lines = {.table = table,
                            .x = {x, "length of the path (heads)"},
                            .y = {column, axis},
                            .colour = {run->n_samples > 1 ? "sample" : NULL, "sample"},
                            .x_whole = true,
                            .keys = {keys, 1},
                            .log_y = floor >= 0,
                            .y_floor = floor};
    return rs_result_add_figure(run->result, name, title, about, rs_figure_lines(&lines), err);
}

rs_status rs_paths_figures(const rs_paths_run *run, rs_error *err)
{
    if (run->n_samples == 0) return RS_OK;
    if (run->options->semantics != RS_PATHS_CODE)
        rs_result_show_curve(run->result, &(rs_curve){.table = "summary",
                                                      .title = "Share of the last state",
                                                      .x = "length",
                                                      .x_title = "length of the path (heads)",
                                                      .y = {{"share", "all paths", false},
                                                            {"source_share", "sources", false}}});
    if (run->options->semantics == RS_PATHS_CODE)
        return line_figure(run, "combined", "The sampled paths of each length as a model",
                           "Relative error of the state behind the final norm.", "combined",
                           "length", "state_rel_error", "error of the state", -1, err);
    RS_TRY(line_figure(run, "contribution", "What paths of each length add",
                       "Norm of the sum over all paths of a length, one line a sample. By number "
                       "almost all paths are long; what they add tells whether they matter.",
                       "lengths", "length", "contribution_fro", "norm of the contribution", 0,
                       err));
    RS_TRY(line_figure(run, "source_contribution", "What sources add, by the heads above them",
                       "Norm of what MLP outputs and biases become along paths with that many "
                       "heads above the place where they enter.",
                       "lengths", "length", "source_fro", "norm of the contribution", 0, err));
    return line_figure(
        run, "cumulative_error", "How much of the output short paths make",
        "Relative error of the sum of everything of at most that length. All lengths "
        "together leave rounding alone, which is not drawn.",
        "lengths", "length", "cumulative_error", "relative error", RS_PATH_IDENTITY, err);
}
