/* certify_findings.c: the certificates in words. */
#include "base/memory.h"
#include "certify/certify_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- lists of layers ---- */

/* "0-2, 5" of the marked layers. */
static void list_layers(char *text, size_t size, const bool *marked, int32_t n)
{
    size_t used = 0;
    text[0] = 0;
    for (int32_t l = 0; l < n; l++) {
        int32_t end = l;
        if (!marked[l]) continue;
        while (end + 1 < n && marked[end + 1])
            end++;
        if (used + 40 > size) {
            snprintf(text + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, end > l ? "%s%d-%d" : "%s%d",
                                 used ? ", " : "", (int)l, (int)end);
        l = end;
    }
}

static int32_t count(const bool *marked, int32_t n)
{
    int32_t total = 0;
    for (int32_t l = 0; l < n; l++)
        total += marked[l];
    return total;
}

/* "layer 3" or "layers 0-2, 5". */
static void name_layers(char *text, size_t size, const bool *marked, int32_t n)
{
    char list[200];
    list_layers(list, sizeof list, marked, n);
    snprintf(text, size, "layer%s %s", count(marked, n) == 1 ? "" : "s", list);
}

typedef struct words {
    rs_result *result;
    const rs_certified *c;
    int32_t layers;
    bool *marked; /* [layers] workspace */
    rs_error *err;
} words;

static const rs_certify_row *row_of(const words *w, int64_t s, int32_t l)
{
    return &w->c->rows[s * w->layers + l];
}

static rs_status say_finding(words *w, rs_severity severity, const char *code, int64_t layer,
                             double value, const char *message, const char *hint)
{
    rs_finding f = {.severity = severity,
                    .code = code,
                    .layer = layer,
                    .head = RS_NULL_INT,
                    .value = value,
                    .threshold = NAN,
                    .message = message,
                    .hint = hint,
                    .table = "bounds"};
    return rs_result_add_finding(w->result, &f, w->err);
}

/* A bound of any size, by its logarithm. */
static const char *shown(char text[32], double log_value)
{
    if (log_value > -5 && log_value < 6)
        snprintf(text, 32, "%.3g", pow(10, log_value));
    else if (log_value == -INFINITY)
        snprintf(text, 32, "0");
    else
        snprintf(text, 32, "10^%.6g", log_value);
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
    const rs_certificate *one = &r->certificate.one_step;
    return !one->failed && !one->condition && one->lower > 0 && !r->in->at_floor;
}

static rs_status apart(words *w)
{
    double least = INFINITY, worst = INFINITY;
    int32_t at = -1;
    bool enclosed = false, some = false; /* some: others' tokens enter equal */
    for (int32_t l = 0; l < w->layers; l++) {
        bool any = false, all = true;
        for (int64_t s = 0; s < w->c->samples; s++) {
            const rs_certify_row *r = row_of(w, s, l);
            any = any || counts(r);
            all = all && (!counts(r) || proved_apart(r));
        }
        w->marked[l] = any && all;
        for (int64_t s = 0; w->marked[l] && s < w->c->samples; s++) {
            const rs_certify_row *r = row_of(w, s, l);
            const rs_certificate *one = &r->certificate.one_step;
            some = some || (r->tokens > 0 && !counts(r));
            if (!counts(r)) continue;
            enclosed = enclosed || one->enclosed;
            least = fmin(least, one->lower);
            if (one->lower / r->in->diameter < worst) worst = one->lower / r->in->diameter, at = l;
        }
    }
    char layers[240], message[700];
    name_layers(layers, sizeof layers, w->marked, w->layers);
    if (at < 0)
        return say_finding(w, RS_INFO, "apart_summary", RS_NULL_INT, NAN,
                           "no layer is proved to keep its tokens apart in every sample",
                           "table lambda says which skip would");
    snprintf(message, sizeof message,
             "%s provably keep%s the tokens apart: from the tokens that were measured to enter, "
             "two tokens of every sample%s leave at least %.3g apart (layer %d keeps least of what "
             "entered, %.3g of it)%s",
             layers, count(w->marked, w->layers) == 1 ? "s" : "",
             some ? " in which they do not enter equal" : "", least, (int)at, worst,
             enclosed ? "; proved by bounding all rounding of the pass" : "");
    return say_finding(w, RS_INFO, "apart_summary", at, worst, message, NULL);
}

/* Why rows hang on a condition, each reason once: they are named apart from what is proved. */
static const char *condition_reason(const rs_certify_row *r)
{
    const rs_certify_layer *c = &r->certificate;
    if (!c->one_step.failed && c->one_step.condition) return c->one_step.condition;
    return !c->best.failed ? c->best.condition : NULL;
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
        const rs_certify_row *r = row_of(w, s, l), *first = row_of(w, s, 0);
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
        const rs_certificate *best = &row_of(w, s, w->layers - 1)->certificate.best;
        if (best->source > source) source = best->source;
    }
    text[0] = 0;
    if (source > 0)
        snprintf(text, size,
                 ", from the float64 states on that entered layers up to %d, taken as they are",
                 (int)source);
}

static rs_status collapse(words *w)
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
        return say_finding(w, RS_INFO, "conditional_collapse", from, last, message,
                           "finding conditional says why that is a condition");
    }
    snprintf(message, sizeof message,
             "collapse is certified: from layer %d on the tokens of every sample are proved to be "
             "within a tenth of what entered, and behind layer %d within %s of each other%s",
             (int)from, (int)w->layers - 1, shown(bound, last), start);
    return say_finding(w, RS_WARN, "certified_collapse", from, last, message,
                       "a skip around the attention, or a λ of table lambda, keeps them apart");
}

static rs_status vacuous(words *w)
{
    char layers[240], message[500];
    for (int32_t l = 0; l < w->layers; l++) {
        w->marked[l] = false;
        for (int64_t s = 0; s < w->c->samples; s++) {
            const rs_certify_row *r = row_of(w, s, l);
            const rs_certificate *best = &r->certificate.best;
            if (r->tokens && !best->failed && r->out->longest > 0 &&
                best->log_upper >= log10(2 * r->out->longest))
                w->marked[l] = true;
        }
    }
    if (!count(w->marked, w->layers)) return RS_OK;
    name_layers(layers, sizeof layers, w->marked, w->layers);
    snprintf(message, sizeof message,
             "%s: the upper bound proves nothing for some sample, it is above what the lengths of "
             "the tokens allow (the weights' norms are too large for their diameter)",
             layers);
    return say_finding(w, RS_INFO, "bound_vacuous", RS_NULL_INT, NAN, message, NULL);
}

/* ---- hypotheses ---- */

/* Each reason once, with the layers where it is given. */
static rs_status each_reason(words *w, const char *(*reason)(const rs_certify_row *row),
                             const char *code, const char *what, const char *hint)
{
    for (int32_t l = 0; l < w->layers; l++)
        for (int64_t s = 0; s < w->c->samples; s++) {
            const rs_certify_row *r = row_of(w, s, l);
            const char *why = r->tokens ? reason(r) : NULL;
            bool said = false;
            char layers[240], message[600];
            for (int64_t i = 0; why && i < w->c->samples * w->layers && !said; i++) {
                const rs_certify_row *before = &w->c->rows[i];
                bool earlier = before->layer < l || (before->layer == l && before->sample < s);
                const char *other = before->tokens && earlier ? reason(before) : NULL;
                said = other && strcmp(other, why) == 0;
            }
            if (!why || said) continue;
            for (int32_t k = 0; k < w->layers; k++) {
                w->marked[k] = false;
                for (int64_t i = 0; i < w->c->samples; i++) {
                    const rs_certify_row *other = row_of(w, i, k);
                    if (other->tokens && reason(other) && strcmp(reason(other), why) == 0)
                        w->marked[k] = true;
                }
            }
            name_layers(layers, sizeof layers, w->marked, w->layers);
            snprintf(message, sizeof message, "%s: %s: %s", layers, what, why);
            RS_TRY(say_finding(w, RS_INFO, code, RS_NULL_INT, NAN, message, hint));
        }
    return RS_OK;
}

static const char *published_reason(const rs_certify_row *r)
{
    return r->published.failed;
}

static const char *certificate_reason(const rs_certify_row *r)
{
    return r->certificate.best.failed;
}

static const char *zero_reason(const rs_certify_row *r)
{
    return r->tokens == 1 ? "a sample of one token has no residual"
           : r->in->equal && r->in->finite && !r->equal_input
               ? "all tokens of a sample are equal in float64, though not at the input: what is "
                 "left between them is below rounding"
           : r->in->equal && r->in->finite
               ? "all tokens of a sample are the same, and stay so: the residual is exactly 0, "
                 "its logarithm null"
               : NULL;
}

static const char *finite_reason(const rs_certify_row *r)
{
    return r->out->finite ? NULL : "the tokens that leave it are not finite";
}

/* ---- rates ---- */

static rs_status rates(words *w)
{
    static const struct {
        const char *class, *words;
    } laws[] = {{"cubic", "the residual is cubed: collapse there is doubly exponential"},
                {"linear",
                 "the residual shrinks by a linear law (a causal mask or positions), never "
                 "doubly exponentially; rate_measured has the factor"},
                {"causal_half", "half of the residual is left, as measured and by the law of a "
                                "causal mask over small logits"}};
    for (size_t k = 0; k < sizeof laws / sizeof *laws; k++) {
        char layers[240], message[500];
        int64_t cases = 0, total = 0;
        for (int32_t l = 0; l < w->layers; l++) {
            w->marked[l] = false;
            for (int64_t s = 0; s < w->c->samples; s++) {
                const rs_certify_row *r = row_of(w, s, l);
                total += r->tokens > 0;
                if (!r->tokens || strcmp(r->rate.class, laws[k].class) != 0) continue;
                w->marked[l] = true;
                cases++;
            }
        }
        if (!cases) continue;
        name_layers(layers, sizeof layers, w->marked, w->layers);
        snprintf(message, sizeof message, "%s (%lld of %lld cases): %s", layers, (long long)cases,
                 (long long)total, laws[k].words);
        RS_TRY(say_finding(w, RS_INFO, "collapse_rate", RS_NULL_INT, NAN, message, NULL));
    }
    return RS_OK;
}

/* ---- nulls ---- */

static rs_status overflow(words *w)
{
    int64_t beyond = 0, none = 0;
    for (int64_t i = 0; i < w->c->samples * w->layers; i++) {
        const rs_certify_row *r = &w->c->rows[i];
        double logs[] = {r->published.log_depth, r->published.log_layer,
                         r->certificate.best.log_upper, r->published.log_recursion};
        for (size_t k = 0; r->tokens && k < sizeof logs / sizeof *logs; k++) {
            beyond += isfinite(logs[k]) && fabs(logs[k]) > 307;
            none += logs[k] == INFINITY;
        }
    }
    char message[300];
    if (!beyond && !none) return RS_OK;
    size_t used = 0;
    if (beyond)
        used = (size_t)snprintf(message, sizeof message,
                                "%lld %s the range of doubles: the plain column is null (or 0), "
                                "column log10_... holds %s",
                                (long long)beyond, beyond == 1 ? "bound leaves" : "bounds leave",
                                beyond == 1 ? "it" : "them");
    if (none)
        snprintf(message + used, sizeof message - used, "%s%lld %s beyond any number and null",
                 beyond ? "; " : "", (long long)none,
                 beyond ? (none == 1 ? "more is" : "more are")
                        : (none == 1 ? "bound is" : "bounds are"));
    return say_finding(w, RS_INFO, "bound_overflow", RS_NULL_INT, NAN, message, NULL);
}

static rs_status all(words *w)
{
    RS_TRY(apart(w));
    RS_TRY(collapse(w));
    RS_TRY(each_reason(w, certificate_reason, "no_certificate", "no certificate", NULL));
    RS_TRY(each_reason(w, condition_reason, "conditional",
                       "not proved, but true if the exact layers apply the mixing matrices that "
                       "the float64 pass met",
                       "columns ..._conditional mark such numbers; --rigorous leaves them out"));
    RS_TRY(vacuous(w));
    RS_TRY(rates(w));
    RS_TRY(each_reason(w, published_reason, "hypothesis_violated",
                       "the published theorem does not apply",
                       "the columns still show its number"));
    RS_TRY(each_reason(w, zero_reason, "zero_residual", "no residual", NULL));
    RS_TRY(each_reason(w, finite_reason, "nonfinite_activation", "no numbers", NULL));
    return overflow(w);
}

rs_status rs_certify_findings(rs_result *result, const rs_certified *c, rs_error *err)
{
    words w = {.result = result, .c = c, .layers = c->network->n_layers, .err = err};
    if (w.layers == 0) return RS_OK;
    w.marked = rs_malloc((size_t)w.layers, sizeof *w.marked);
    if (!w.marked) return rs_fail_memory(err, "findings", 0);
    rs_status status = all(&w);
    rs_free(w.marked);
    return status;
}
