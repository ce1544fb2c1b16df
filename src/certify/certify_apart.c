/* certify_apart.c: whether the tokens stay apart or draw together, as far as it is proved. */
#include "certify/certify_words.h"
#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef rs_certify_words words;

/* A bound of any size, by its logarithm; of three digits the last rounded up. */
static const char *shown(char text[32], double log_value)
{
    double value = pow(10, log_value);
    if (log_value > -5 && log_value < 6) {
        snprintf(text, 32, "%.3g", value);
        if (strtod(text, NULL) < value)
            snprintf(text, 32, "%.3g", value + pow(10, floor(log_value) - 2));
    } else if (log_value == -INFINITY)
        snprintf(text, 32, "0");
    else
        snprintf(text, 32, "10^%.6g", log_value);
    return text;
}

/* What is proved to be left at least: with four digits, the last rounded down. */
static const char *shown_down(char text[32], double value)
{
    snprintf(text, 32, "%.4g", value);
    if (strtod(text, NULL) > value)
        snprintf(text, 32, "%.4g", value - pow(10, floor(log10(value)) - 3));
    return text;
}

/* ---- what is proved ---- */

/* A row of which something can be said: several tokens, not equal bit for bit as they enter. */
static bool counts(const rs_certify_row *r)
{
    return r->tokens > 1 && !r->in->equal;
}

static bool proved_apart(const rs_certify_row *r)
{
    const rs_certify_least *apart = &r->apart;
    return !apart->failed && !apart->condition && apart->lower > 0 && !r->in->at_floor;
}

/* Marks the layers that are proved to keep the tokens of every sample apart. */
static void mark_apart(words *w)
{
    for (int32_t l = 0; l < w->layers; l++) {
        bool any = false, all = true;
        for (int64_t s = 0; s < w->c->samples; s++) {
            const rs_certify_row *r = rs_words_row(w, s, l);
            any = any || counts(r);
            all = all && (!counts(r) || proved_apart(r));
        }
        w->marked[l] = any && all;
    }
}

/* Of the marked layers. */
typedef struct kept {
    double least;  /* the least that is proved, over layers and samples */
    double worst;  /* the least share of what entered */
    int32_t at;    /* the layer with that share; -1: none is marked */
    bool enclosed; /* some of it from the rounding of the pass */
    bool some;     /* tokens of other samples enter equal */
} kept;

static kept what_is_kept(const words *w)
{
    kept k = {.least = INFINITY, .worst = INFINITY, .at = -1};
    for (int32_t l = 0; l < w->layers; l++)
        for (int64_t s = 0; w->marked[l] && s < w->c->samples; s++) {
            const rs_certify_row *r = rs_words_row(w, s, l);
            k.some = k.some || (r->tokens > 0 && !counts(r));
            if (!counts(r)) continue;
            k.enclosed = k.enclosed || strcmp(r->apart.by, "skip") != 0;
            k.least = fmin(k.least, r->apart.lower);
            if (r->apart.lower / r->in->diameter < k.worst)
                k.worst = r->apart.lower / r->in->diameter, k.at = l;
        }
    return k;
}

/* The worst sample's best bound behind layer l, log10, and the worst of such bounds over what the
 * same sample's tokens entered apart; NaN: none. What hangs on a condition joins where it is asked
 * for, else it bounds nothing. */
typedef struct worst {
    double bound, share;
} worst;

static worst worst_of(const words *w, int32_t l, bool conditional)
{
    worst found = {NAN, NAN};
    for (int64_t s = 0; s < w->c->samples; s++) {
        const rs_certify_row *r = rs_words_row(w, s, l), *first = rs_words_row(w, s, 0);
        const rs_certificate *best = &r->certificate.best;
        /* tokens that differ at the input, whatever rounding made of them since */
        if (r->tokens <= 1 || first->in->equal) continue;
        double bound = best->condition && !conditional ? INFINITY : best->log_upper;
        double share = bound - log10(first->in->diameter);
        found.bound = fmax(found.bound, bound);
        bool known = isfinite(first->in->diameter) && first->in->diameter > 0;
        found.share = fmax(found.share, known ? share : INFINITY);
    }
    return found;
}

/* Every sample's tokens are within a tenth of what they entered apart. */
static bool collapsed(const words *w, int32_t l, bool conditional)
{
    return worst_of(w, l, conditional).share < -1 - 1e-12;
}

/* ", from the float64 states on that entered layers up to 3, taken as they are" */
static void name_source(char *text, size_t size, const words *w)
{
    int32_t source = 0;
    for (int64_t s = 0; s < w->c->samples; s++) {
        const rs_certificate *best = &rs_words_row(w, s, w->layers - 1)->certificate.best;
        if (best->source > source) source = best->source;
    }
    text[0] = 0;
    if (source > 0)
        snprintf(text, size,
                 ", from the float64 states on that entered layers up to %d, taken as they are",
                 (int)source);
}

rs_status rs_words_collapse(words *w)
{
    bool conditional = !collapsed(w, w->layers - 1, false);
    double last = worst_of(w, w->layers - 1, conditional).bound;
    char bound[32], start[120], message[500];
    int32_t from = w->layers - 1;
    if (!collapsed(w, w->layers - 1, conditional)) return RS_OK;
    while (from > 0 && collapsed(w, from - 1, conditional))
        from--;
    name_source(start, sizeof start, w);
    if (conditional) {
        snprintf(message, sizeof message,
                 "if the exact layers apply the mixing matrices that the float64 pass met, the "
                 "tokens of every sample are within a tenth of what entered from layer %d on, and "
                 "behind layer %d within %s of each other%s",
                 (int)from, (int)w->layers - 1, shown(bound, last), start);
        return rs_words_say(w, RS_INFO, "conditional_collapse", from, last, message,
                            "finding conditional says why that is a condition");
    }
    snprintf(message, sizeof message,
             "collapse is certified: from layer %d on the tokens of every sample are proved to be "
             "within a tenth of what entered, and behind layer %d within %s of each other%s",
             (int)from, (int)w->layers - 1, shown(bound, last), start);
    return rs_words_say(w, RS_WARN, "certified_collapse", from, last, message,
                        "a skip around the attention, or a λ of table lambda, keeps them apart");
}

/* That they draw together and that they stay apart are both proved where little is left. */
rs_status rs_words_apart(words *w)
{
    mark_apart(w);
    kept k = what_is_kept(w);
    char layers[240], message[700], least[32];
    rs_words_layers(layers, sizeof layers, w->marked, w->layers);
    if (k.at < 0)
        return rs_words_say(w, RS_INFO, "apart_summary", RS_NULL_INT, NAN,
                            "no layer is proved to keep its tokens apart in every sample",
                            "table lambda says which skip would");
    snprintf(message, sizeof message,
             "%s provably keep%s the tokens %s: from the tokens that were measured to enter, two "
             "tokens of every sample%s leave at least %s apart (layer %d keeps least of what "
             "entered, %.3g of it)%s",
             layers, rs_words_count(w->marked, w->layers) == 1 ? "s" : "",
             collapsed(w, w->layers - 1, false) ? "from being equal, though ever closer" : "apart",
             k.some ? " in which they do not enter equal" : "", shown_down(least, k.least),
             (int)k.at, k.worst, k.enclosed ? "; proved by bounding all rounding of the pass" : "");
    return rs_words_say(w, RS_INFO, "apart_summary", k.at, k.worst, message, NULL);
}

/* ---- the verdict ---- */

/* The share of the diameter that entered the model that is proved to be left behind a row's layer. */
static double share_left(const words *w, const rs_certify_row *r)
{
    return r->apart.lower / rs_words_row(w, r->sample, 0)->in->diameter;
}

/* The last layer of the marked ones, and the sample of which the least share is proved behind it. */
static const rs_certify_row *last_proved(const words *w)
{
    const rs_certify_row *least = NULL;
    for (int32_t l = w->layers - 1; l >= 0 && !least; l--)
        for (int64_t s = 0; w->marked[l] && s < w->c->samples; s++) {
            const rs_certify_row *r = rs_words_row(w, s, l);
            if (!counts(r)) continue;
            if (!least || share_left(w, r) < share_left(w, least)) least = r;
        }
    return least;
}

static bool some_row(const words *w, bool (*is)(const rs_certify_row *))
{
    for (int64_t i = 0; i < w->c->samples * w->layers; i++)
        if (w->c->rows[i].tokens && is(&w->c->rows[i])) return true;
    return false;
}

static bool not_finite(const rs_certify_row *r)
{
    return !r->out->finite;
}

/* Why one row is not proved to keep its tokens apart. */
/* Of a kind of mixer that no theorem is about table lambda may know nothing either. */
static const char *next_step(const words *w, const char *step)
{
    for (int32_t l = 0; l < w->layers; l++)
        if (!w->marked[l] && rs_layer_unproved(&w->c->network->layers[l]))
            return "'rankscope probe' measures what is not proved";
    return step;
}

static const char *why_not(const words *w)
{
    for (int64_t i = 0; i < w->c->samples * w->layers; i++) {
        const rs_certify_row *r = &w->c->rows[i];
        if (!counts(r) || proved_apart(r)) continue;
        if (r->apart.failed) return r->apart.failed;
        if (r->apart.condition) return r->apart.condition;
        if (r->in->at_floor) return "the tokens that enter differ by rounding alone";
    }
    return "what the layers add may be as long as what their skips keep";
}

static rs_status answer(const words *w, rs_severity severity, const char *code, double value,
                        double threshold, const char *text, const char *next)
{
    const rs_verdict verdict = {.answer = text,
                                .code = code,
                                .severity = (int)severity,
                                .value = value,
                                .threshold = threshold,
                                .next = next};
    return rs_result_set_verdict(w->result, &verdict, w->err);
}

static rs_status answer_collapse(words *w)
{
    char text[400], bound[32];
    int32_t from = w->layers - 1;
    double last = worst_of(w, from, false).bound;
    while (from > 0 && collapsed(w, from - 1, false))
        from--;
    snprintf(text, sizeof text,
             "The tokens provably draw together: from layer %d on those of every sample are within "
             "a tenth of what entered, behind layer %d within %s of each other.",
             (int)from, (int)w->layers - 1, shown(bound, last));
    return answer(w, RS_WARN, "collapse", worst_of(w, w->layers - 1, false).share, -1, text,
                  "table lambda has the skip that keeps them apart; --lambda X tries it");
}

/* "Layers 0-5 provably keep the tokens apart: behind layer 5 at least 16.84 of the 18.92 that
 * entered is left (measured: 16.85)." Where less than a tenth is left, nobody would call it so. */
static rs_status answer_apart(words *w, const rs_certify_row *r)
{
    char text[700], layers[240], rest[280] = "", least[32];
    double entered = rs_words_row(w, r->sample, 0)->in->diameter;
    double share = share_left(w, r);
    int32_t proved = rs_words_count(w->marked, w->layers);
    bool all = proved == w->layers, much = share >= 0.1;
    rs_words_layers(layers, sizeof layers, w->marked, w->layers);
    layers[0] = 'L';
    if (!all)
        snprintf(rest, sizeof rest, "; of the other %d it is not proved (%s)",
                 (int)(w->layers - proved), why_not(w));
    snprintf(text, sizeof text,
             "%s provably keep%s the tokens %s: behind layer %d at least %s of the %.4g that "
             "entered is left (measured: %.4g)%s.",
             layers, proved == 1 ? "s" : "", much ? "apart" : "from being equal, little more",
             (int)r->layer, shown_down(least, r->apart.lower), entered, r->out->diameter, rest);
    return answer(w, RS_INFO,
                  !all   ? "partly_apart"
                  : much ? "apart"
                         : "distinct",
                  share, 0.1, text,
                  !all    ? next_step(w, "table lambda has the skip that would be enough")
                  : !much ? "'rankscope probe --variants dong' shows what draws them together"
                          : NULL);
}

rs_status rs_words_verdict(words *w)
{
    char text[500];
    mark_apart(w);
    const rs_certify_row *last = last_proved(w);
    if (some_row(w, not_finite))
        return answer(w, RS_CRITICAL, "nonfinite", NAN, NAN,
                      "Not proved: the pass is not finite, so nothing is known of its tokens.",
                      "'rankscope probe' names the layer and the weight");
    if (!some_row(w, counts))
        return answer(w, RS_INFO, "undefined", NAN, NAN,
                      "Nothing to prove: no sample has two tokens that differ as they enter.",
                      "give samples of at least two different tokens");
    if (collapsed(w, w->layers - 1, false)) return answer_collapse(w);
    if (last) return answer_apart(w, last);
    snprintf(text, sizeof text,
             "Not proved: of no layer is it certain that it keeps the tokens of every sample apart "
             "(%s).",
             why_not(w));
    return answer(w, RS_INFO, "not_proved", NAN, NAN, text,
                  next_step(w, "table lambda has the skip that would be enough; --lambda X tries "
                               "it"));
}
