/* probe_relevance_findings.c: whether relevance is conserved, and what it says. */
#include "probe/probe_parts.h"

#include "base/memory.h"
#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MESSAGE = 600 };

/* What is said of one variant. */
typedef struct told {
    rs_result *result;
    const rs_probed *v;
    const rs_relevance *r;
    rs_precision precision;
    double tolerance;
} told;

/* ---- leaks ---- */

static bool leaks(const told *t, const rs_relevance_cut *cut)
{
    return !(cut->deviation <= t->tolerance);
}

/* The sample and cut of the largest deviation; a NaN is larger than any. */
static const rs_explained *worst(const told *t, int32_t *layer)
{
    const rs_explained *found = NULL;
    double most = -1;
    for (size_t i = 0; i < t->r->n; i++)
        for (int32_t l = 0; l <= t->v->network->n_layers; l++) {
            double off = t->r->samples[i].cuts[l].deviation;
            if (isnan(off)) off = (double)INFINITY;
            if (off <= most) continue;
            most = off, *layer = l, found = &t->r->samples[i];
        }
    return found;
}

/* The cut at which a sample's way back first leaks, from the last on. */
static int32_t first_leak(const told *t, const rs_explained *e)
{
    int32_t l = t->v->network->n_layers;
    while (l > 0 && !leaks(t, &e->cuts[l]))
        l--;
    return l;
}

static const char *reason_of(const told *t, const rs_relevance_cut *cut)
{
    if (!isfinite(cut->size)) return "a state or a derivative there is not finite";
    if (t->precision == RS_PRECISION_F32) return "float32 has lost it to rounding";
    return "a state there lies beyond what the norms or products behind it can hold in doubles";
}

static rs_status leak(const told *t, rs_error *err)
{
    int32_t at = 0;
    const rs_explained *e = worst(t, &at);
    char message[MESSAGE];
    if (!e || !leaks(t, &e->cuts[at])) return RS_OK;
    int32_t first = first_leak(t, e);
    const rs_relevance_cut *cut = &e->cuts[first];
    snprintf(message, sizeof message,
             "%s: relevance of sample %lld does not add up to what is explained, %.6g: in front of "
             "layer %d it is %.2g off, in units of its terms, above %.2g; on the way back that is "
             "the first: %s",
             t->v->name, (long long)e->sample, e->explained, (int)first, cut->deviation,
             t->tolerance, reason_of(t, cut));
    rs_finding f =
        rs_finding_of(rs_probe_is_itself(t->v->name) ? RS_WARN : RS_INFO, "relevance_leaks");
    f.variant = t->v->name;
    f.layer = first;
    f.value = cut->deviation;
    f.threshold = t->tolerance;
    f.message = message;
    f.hint = t->precision == RS_PRECISION_F32 ? "run with --precision f64"
                                              : "look at nonfinite_activation and table tokens";
    f.table = "conservation";
    return rs_result_add_finding(t->result, &f, err);
}

/* ---- the sentence ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of values [n] that are numbers, which it reorders; NaN: there is none. */
static double median_of(double *values, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i])) values[kept++] = values[i];
    if (kept == 0) return NAN;
    qsort(values, kept, sizeof *values, by_value);
    return 0.5 * (values[(kept - 1) / 2] + values[kept / 2]);
}

/* What a curve's steps but the ends sum to: of outputs where tokens are put in, of distances where
 * they are taken out. */
static double curve_score(const told *t, rs_removal_method method, rs_removal_order order)
{
    const rs_removal_curve *curve = &t->r->removal.of[method][order];
    double sum = 0;
    for (int step = 1; step + 1 < RS_REMOVAL_STEPS; step++)
        sum += order == RS_REMOVAL_INSERT ? curve->output[step] : curve->distance[step];
    return sum / (double)(RS_REMOVAL_STEPS - 2) / (double)curve->samples;
}

static void say_curves(char *text, size_t size, const told *t)
{
    text[0] = '\0';
    if (t->r->removal.of[RS_REMOVAL_RELEVANCE][0].samples == 0) return;
    double in[2], out[2];
    const rs_removal_method methods[] = {RS_REMOVAL_RELEVANCE, RS_REMOVAL_RANDOM};
    for (int i = 0; i < 2; i++) {
        in[i] = curve_score(t, methods[i], RS_REMOVAL_INSERT);
        out[i] = curve_score(t, methods[i], RS_REMOVAL_REMOVE);
    }
    bool beats[] = {in[0] > in[1], out[0] < out[1]};
    snprintf(text, size,
             "; it %s: put in by it they make %.4g on average (random %.4g), taken out by it they "
             "move it by %.3g (random %.3g)",
             beats[0] && beats[1]   ? "beats a random order of tokens"
             : beats[0] || beats[1] ? "beats a random order of tokens in one of two ways"
                                    : "does not beat a random order of tokens",
             in[0], in[1], out[0], out[1]);
}

static void say_profiles(char *text, size_t size, double cosine)
{
    text[0] = '\0';
    if (isnan(cosine)) return;
    snprintf(
        text, size,
        "; the profiles over tokens of a sample's two ends have cosine %.3g at the input%s", cosine,
        cosine > 0.99 ? ": whichever is explained, the same tokens count, as when tokens collapse"
                      : "");
}

/* share: what biases absorb in the median sample; NaN where no sample has a finite one. */
static void say_biases(char *text, size_t size, const told *t, double share)
{
    bool nothing = true;
    for (size_t i = 0; i < t->r->n; i++)
        nothing = nothing && t->r->samples[i].explained == 0;
    if (nothing)
        snprintf(text, size, "what is explained is 0, of which biases have no share");
    else if (isnan(share))
        snprintf(text, size, "in no sample is what biases absorb a finite share of it");
    else
        snprintf(text, size, "biases absorb %.3g of it in the median sample", share);
}

/* values: [2, samples] room. */
static rs_status say_summary(const told *t, double *values, rs_error *err)
{
    char message[2 * MESSAGE], absorbed[100], profiles[200], curves[300];
    int32_t at = 0;
    const rs_explained *e = worst(t, &at);
    size_t n = t->r->n;
    double *cosines = values, *biases = values + n;
    if (!e) return RS_OK;
    for (size_t i = 0; i < n; i++) {
        const rs_explained *one = &t->r->samples[i];
        cosines[i] = one->cuts[0].cosine;
        biases[i] = one->cuts[0].biases / one->explained;
    }
    double deviation = e->cuts[at].deviation, share = median_of(biases, n);
    say_biases(absorbed, sizeof absorbed, t, share);
    say_profiles(profiles, sizeof profiles, median_of(cosines, n));
    say_curves(curves, sizeof curves, t);
    snprintf(
        message, sizeof message,
        "variant %s: relevance %s what is explained at every cut, to %.1g of its terms; %s%s%s",
        t->v->name, leaks(t, &e->cuts[at]) ? "does not add up to" : "adds up to", deviation,
        absorbed, profiles, curves);
    rs_finding f = rs_finding_of(RS_INFO, "relevance_summary");
    f.variant = t->v->name;
    f.value = deviation;
    f.threshold = t->tolerance;
    f.message = message;
    f.table = "conservation";
    return rs_result_add_finding(t->result, &f, err);
}

static rs_status summary(const told *t, rs_error *err)
{
    double *values = rs_malloc(2 * t->r->n + 1, sizeof *values);
    if (!values) return rs_fail_memory(err, "relevance", 2 * t->r->n * sizeof *values);
    rs_status status = say_summary(t, values, err);
    rs_free(values);
    return status;
}

/* ---- what is not there ---- */

static rs_status say_left_out(rs_result *result, const char *message, rs_error *err)
{
    rs_finding f = rs_finding_of(RS_INFO, "removal_left_out");
    f.message = message;
    f.table = "relevance";
    return rs_result_add_finding(result, &f, err);
}

static rs_status left_out(rs_result *result, const rs_probed *v, const rs_inputs *in,
                          int32_t stand_in, rs_error *err)
{
    const rs_removal *removal = &v->relevance->removal;
    int64_t samples = removal->of[RS_REMOVAL_RANDOM][0].samples;
    if (!in->ids)
        return say_left_out(result,
                            "there is no table removal: the inputs are no token ids, so nothing "
                            "can stand for a token that is taken out",
                            err);
    if (stand_in < 0)
        return say_left_out(result,
                            "there is no table removal: no tokenizer names [UNK], [MASK] or "
                            "padding, and the configuration has no pad_token_id, to stand for a "
                            "token that is taken out",
                            err);
    if (samples == 0)
        return say_left_out(result, "there is no table removal: every sample is one token", err);
    if (removal->of[RS_REMOVAL_ROLLOUT][0].samples == samples) return RS_OK;
    return say_left_out(
        result,
        rs_rollout_heads(v->network) > 0
            ? "table removal has no rollout of samples of more than 512 tokens"
            : "table removal has no rollout: a layer mixes by something other than self-attention",
        err);
}

rs_status rs_probe_relevance_findings(rs_result *result, const rs_probed *variants, size_t n,
                                      const rs_probe_options *options, const rs_inputs *inputs,
                                      int32_t stand_in, rs_error *err)
{
    rs_precision precision = options->measure.precision;
    for (size_t v = 0; v < n; v++) {
        const told t = {result, &variants[v], variants[v].relevance, precision,
                        rs_relevance_tolerance(precision)};
        RS_TRY(summary(&t, err));
        RS_TRY(leak(&t, err));
    }
    return left_out(result, &variants[rs_probe_main_variant(variants, n)], inputs, stand_in, err);
}
