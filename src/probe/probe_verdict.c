/* probe_verdict.c: do the tokens collapse? One sentence, and the rule that gives it
 * (docs/probe.md, Verdict). */
#include "probe/probe_parts.h"
#include "probe/probe_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER = 700 };

typedef struct question {
    const rs_probed *variants;
    size_t n;
    const rs_probed *main;
    const rs_probe_options *options;
    rs_decay decay;
    rs_leaving leaves;
    double share; /* of the relative residual that entered, what leaves; NaN: unknown */
} question;

typedef struct answer {
    char text[ANSWER];
    rs_verdict verdict;
} answer;

/* A share in percent, with digits enough that what is short of all does not print as all, nor what
 * is more than none as none. */
static const char *percent(char text[RS_PROBE_POWER], double share)
{
    double value = 100 * share;
    int digits = 2;
    do
        snprintf(text, RS_PROBE_POWER, "%.*g", digits, value);
    while (digits++ < 6 && value != 100 && strcmp(text, "1e+02") == 0);
    if (strcmp(text, "1e+02") == 0) snprintf(text, RS_PROBE_POWER, "100");
    if (value > 100) snprintf(text, RS_PROBE_POWER, "%.0f", value);
    return text;
}

/* A relative residual with two digits, or more where two would hide what it is compared with. */
static const char *brief(char text[RS_PROBE_POWER], const rs_token_row *row, double threshold)
{
    double value = row->residual.mean, log10 = rs_probe_log10(row);
    if (isfinite(log10) && fabs(log10) > 300) return rs_probe_power(text, value, log10);
    for (int digits = 2; digits <= 17; digits++) {
        snprintf(text, RS_PROBE_POWER, "%.*g", digits, value);
        if ((strtod(text, NULL) < threshold) == (value < threshold)) break;
    }
    return text;
}

static void set(answer *a, rs_severity severity, const char *code, double value, double threshold,
                const char *next)
{
    a->verdict = (rs_verdict){.answer = a->text,
                              .code = code,
                              .severity = (int)severity,
                              .value = value,
                              .threshold = threshold,
                              .next = next};
}

static const char *const compare_next =
    "add --variants dong: the model without skip, without MLP and without both shows which of them "
    "holds the tokens apart";

static bool compared(const question *q)
{
    return rs_probe_find(q->variants, q->n, "san") != NULL;
}

/* ---- the answers, in the order in which they are tried ---- */

static bool nonfinite(answer *a, const question *q)
{
    char place[RS_PROBE_PLACE];
    const rs_token_row *bad = rs_probe_first_bad(q->main->measured);
    if (!bad) return false;
    snprintf(a->text, ANSWER,
             "Not known: the pass is not finite. NaN or infinite values first appear %s, in %lld "
             "of %lld samples.",
             rs_probe_place(place, bad), (long long)bad->nonfinite,
             (long long)q->main->measured->samples);
    set(a, RS_CRITICAL, "nonfinite", (double)bad->nonfinite, 0,
        q->options->measure.precision == RS_PRECISION_F32
            ? "finding nonfinite_activation names the weight; --precision f64 tells whether it is "
              "overflow"
            : "finding nonfinite_activation names the weight, if one brings them");
    return true;
}

static bool ranks(answer *a, const question *q)
{
    double value;
    if (!rs_probe_rank_answer(a->text, ANSWER, &value, q->variants, q->n, q->options)) return false;
    set(a, RS_INFO, "attention_rank", value, q->options->thresholds.attention_rank,
        "table attention_ranks has every entry; columns ..._rank of table attention how many "
        "directions each head has");
    return true;
}

static bool not_known(answer *a, const char *why, const char *next)
{
    snprintf(a->text, ANSWER, "Not known: %s.", why);
    set(a, RS_INFO, "undefined", NAN, NAN, next);
    return true;
}

/* Samples that have no two tokens. */
static bool alone(answer *a, const question *q)
{
    const rs_measured *m = q->main->measured;
    if (m->samples > 0 && m->singles < m->samples) return false;
    return not_known(a,
                     m->samples == 0
                         ? "no sample has a token"
                         : "every sample is one token, which has no other to be equal to",
                     "give samples of at least two different tokens");
}

/* What no ratio can be formed of, behind the states that collapsed: those have an answer. */
static bool undefined(answer *a, const question *q)
{
    if (isfinite(q->share)) return false;
    return not_known(a, "no share of what entered is left: states are zero, or none entered",
                     "table tokens, and finding zero_state, say where");
}

/* Whether more is left of the tokens behind a than behind b: of rounding nothing is. */
static bool further(rs_leaving a, rs_leaving b)
{
    if (a.rounding || b.rounding) return !a.rounding && b.rounding;
    return a.log10 > b.log10;
}

/* "san", or of those behind which as much is left "san and san+skip"; how many. */
static size_t name_equals(char *text, size_t size, const question *q, rs_leaving high)
{
    size_t n = 0, used = 0;
    text[0] = 0;
    for (size_t v = 0; v < q->n; v++) {
        rs_leaving leaves = rs_probe_leaves(&q->variants[v]);
        if (isnan(leaves.log10) || further(high, leaves)) continue;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", n ? " and " : "",
                                     q->variants[v].name);
        n++;
    }
    return n;
}

/* Full, where one of the list is it, else nobody is the model: they are compared with one another. */
static bool among_variants(answer *a, const question *q)
{
    rs_leaving high = {NAN, NAN, false}, low = high;
    const char *least = NULL;
    char best[RS_PROBE_POWER], worst[RS_PROBE_POWER], most[300];
    size_t known = 0;
    if (q->n < 2 || rs_probe_is_itself(q->main->name)) return false;
    for (size_t v = 0; v < q->n; v++) {
        rs_leaving leaves = rs_probe_leaves(&q->variants[v]);
        if (isnan(leaves.log10)) continue;
        if (!known || further(leaves, high)) high = leaves;
        if (!known || further(low, leaves)) low = leaves, least = q->variants[v].name;
        known++;
    }
    size_t equals = name_equals(most, sizeof most, q, high);
    rs_probe_power(best, high.value, high.log10);
    rs_probe_power(worst, low.value, low.log10);
    if (known == 0)
        snprintf(a->text, ANSWER,
                 "Of %zu variants none can be told from another: behind the last layer the tokens "
                 "of each have no relative residual; table tokens has where it ends.",
                 q->n);
    else if (known == 1)
        snprintf(a->text, ANSWER,
                 "Of %zu variants a relative residual leaves %s alone: %s%s; behind the others "
                 "none exists.",
                 q->n, most, high.rounding ? "at most " : "", best);
    else if (!further(high, low))
        snprintf(a->text, ANSWER,
                 "Of %zu variants none keeps the tokens further apart than another: a relative "
                 "residual of %s%s leaves each%s.",
                 q->n, high.rounding ? "at most " : "", best, known < q->n ? " that has one" : "");
    else
        snprintf(a->text, ANSWER,
                 "Of %zu variants %s keep%s the tokens furthest apart: a relative residual of %s "
                 "leaves %s, and %s%s leaves %s.",
                 q->n, most, equals == 1 ? "s" : "", best, equals == 1 ? "it" : "each",
                 low.rounding ? "at most " : "", worst, least);
    set(a, RS_INFO, "compared", high.value, NAN, "add full to the list: the model as it is");
    return true;
}

/* "the tokens are equal before the first layer"; exact: not even rounding tells them apart. */
static void say_equal(char *text, size_t size, const question *q, int layer, bool exact)
{
    int layers = (int)q->main->network->n_layers;
    if (layer == 0)
        snprintf(text, size, "the tokens are equal before the first layer");
    else if (exact)
        snprintf(text, size, "after %d of %d layers the tokens are exactly equal", layer, layers);
    else
        snprintf(text, size, "after %d of %d layers the tokens are equal as far as %s can tell",
                 layer, layers, rs_probe_precision_name(q->options->measure.precision));
}

/* ", and 0.02 after all 12"; or where states behind the last residual have none, why. */
static void say_end(char *text, size_t size, const question *q, const rs_token_row *row)
{
    const rs_token_row *last = q->decay.last;
    char number[RS_PROBE_POWER];
    int layers = (int)q->main->network->n_layers, layer = (int)last->layer;
    double limit = q->options->thresholds.token_collapse;
    const char *joint = last->residual.mean >= limit ? "though" : "and";
    size_t used = 0;
    text[0] = 0;
    brief(number, last, limit);
    if (last != row && layer == layers && layers == 1)
        used = (size_t)snprintf(text, size, ", %s %s after it", joint, number);
    else if (last != row && layer == layers)
        used = (size_t)snprintf(text, size, ", %s %s after all %d", joint, number, layers);
    else if (last != row)
        used = (size_t)snprintf(text, size, ", %s %s after %d", joint, number, layer);
    if (layer == layers) return;
    const rs_token_row *next =
        rs_measured_row(q->main->measured, RS_TOKEN_SITE_BLOCK_OUT, layer + 1);
    snprintf(text + used, size - used, "; behind that %s",
             next->beyond  ? "it is too small to be counted"
             : next->equal ? "the tokens are exactly equal"
                           : "the states are zero");
}

static void say_fall(char *text, size_t size, const question *q, const rs_token_row *row)
{
    double limit = q->options->thresholds.token_collapse;
    char enters[RS_PROBE_POWER], reached[RS_PROBE_POWER], end[120];
    brief(enters, q->decay.first, limit);
    brief(reached, row, limit);
    say_end(end, sizeof end, q, row);
    if (isnan(q->decay.first->residual.mean))
        snprintf(text, size, "their relative residual is %s after %d layer%s%s", reached,
                 (int)row->layer, row->layer == 1 ? "" : "s", end);
    else if (row->layer == 0)
        snprintf(text, size, "their relative residual is %s before the first layer%s", reached,
                 end);
    else
        snprintf(text, size, "their relative residual falls from %s to %s after %d layer%s%s",
                 enters, reached, (int)row->layer, row->layer == 1 ? "" : "s", end);
}

static bool collapse(answer *a, const question *q)
{
    const rs_token_row *row = rs_probe_collapsed(q->main, q->options);
    char what[300];
    if (!row) return false;
    bool exact = row->equal == row->samples && row->residual.mean == 0;
    int equal_from = exact ? (int)row->layer : (int)q->decay.floor_from;
    if (q->decay.floor_from >= 0 || exact)
        say_equal(what, sizeof what, q, equal_from, exact);
    else
        say_fall(what, sizeof what, q, row);
    snprintf(a->text, ANSWER, "Yes: %s.", what);
    set(a, rs_probe_how_bad(q->main), "collapse", rs_probe_lowest(q->main)->residual.mean,
        q->options->thresholds.token_collapse,
        equal_from == 0 || (equal_from < 0 && row->layer == 0)
            ? "no layer does this: give samples of different tokens, or look at the embedding"
        : compared(q)
            ? "rankscope certify names the skip strengths that keep them apart, and of which sign"
            : compare_next);
    return true;
}

static bool slow(answer *a, const question *q)
{
    double limit = q->options->thresholds.slow_collapse;
    char enters[RS_PROBE_POWER], leaves[RS_PROBE_POWER], cosine[64] = "", keeper[300];
    const rs_token_row *last = q->decay.last;
    bool rounding = q->leaves.rounding; /* a --threshold below the floor is not known to be met */
    if (!(q->share < limit)) return false;
    rs_probe_keeper(keeper, sizeof keeper, q->variants, q->n, q->options);
    if (!isnan(last->mean.mean_cosine))
        snprintf(cosine, sizeof cosine, ", mean cosine %.2g", last->mean.mean_cosine);
    if (rounding)
        rs_probe_power(leaves, q->leaves.value, q->leaves.log10);
    else
        brief(leaves, last, q->options->thresholds.token_collapse);
    snprintf(a->text, ANSWER, "Slowly: %s \xe2\x86\x92 %s%s in %d layer%s%s%s.",
             brief(enters, q->decay.first, q->options->thresholds.token_collapse),
             rounding ? "at most " : "", leaves, (int)last->layer, last->layer == 1 ? "" : "s",
             cosine, keeper);
    set(a, RS_INFO, "slow", q->share, limit,
        compared(q) ? "table tokens has every layer; --residual-scale and --lambda try other sums"
                    : compare_next);
    return true;
}

static bool healthy(answer *a, const question *q)
{
    char share[RS_PROBE_POWER], keeper[300];
    int layers = (int)q->decay.last->layer;
    rs_probe_keeper(keeper, sizeof keeper, q->variants, q->n, q->options);
    snprintf(a->text, ANSWER, "No. After %d layer%s %s %% of the spread is left%s.", layers,
             layers == 1 ? "" : "s", percent(share, q->share), keeper);
    set(a, RS_INFO, "healthy", q->share, q->options->thresholds.slow_collapse,
        compared(q) ? NULL : compare_next);
    return true;
}

rs_status rs_probe_verdict(rs_result *result, const rs_probed *variants, size_t n,
                           const rs_probe_options *options, rs_error *err)
{
    static bool (*const answers[])(answer *, const question *) = {
        nonfinite, ranks, alone, among_variants, collapse, undefined, slow, healthy};
    if (!options->measure.tokens) return RS_OK;
    const rs_probed *main = &variants[rs_probe_main_variant(variants, n)];
    question q = {.variants = variants, .n = n, .main = main, .options = options};
    answer a;
    q.decay = rs_probe_decay(main->measured, main->network->n_layers);
    q.leaves = rs_probe_leaves(main);
    q.share = q.decay.first ? q.leaves.value / q.decay.first->residual.mean : (double)NAN;
    if (options->measure.precision == RS_PRECISION_RESIDUAL && q.decay.first)
        q.share = pow(10, q.leaves.log10 - rs_probe_log10(q.decay.first));
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (answers[i](&a, &q)) return rs_result_set_verdict(result, &a.verdict, err);
    return RS_OK;
}
