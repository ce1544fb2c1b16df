/* certify_findings.c: the certificates in words. */
#include "base/memory.h"
#include "certify/certify_words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef rs_certify_words words;

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

int32_t rs_words_count(const bool *marked, int32_t n)
{
    int32_t total = 0;
    for (int32_t l = 0; l < n; l++)
        total += marked[l];
    return total;
}

/* "layer 3" or "layers 0-2, 5". */
void rs_words_layers(char *text, size_t size, const bool *marked, int32_t n)
{
    char list[200];
    list_layers(list, sizeof list, marked, n);
    snprintf(text, size, "layer%s %s", rs_words_count(marked, n) == 1 ? "" : "s", list);
}

const rs_certify_row *rs_words_row(const words *w, int64_t s, int32_t l)
{
    return &w->c->rows[s * w->layers + l];
}

rs_status rs_words_say(words *w, rs_severity severity, const char *code, int64_t layer,
                       double value, const char *message, const char *hint)
{
    rs_finding f = rs_finding_of(severity, code);
    f.layer = layer;
    f.value = value;
    f.message = message;
    f.hint = hint;
    f.table = "bounds";
    return rs_result_add_finding(w->result, &f, w->err);
}

/* Why rows hang on a condition, each reason once: they are named apart from what is proved. */
static const char *condition_reason(const rs_certify_row *r)
{
    const rs_certify_layer *c = &r->certificate;
    if (!c->one_step.failed && c->one_step.condition) return c->one_step.condition;
    return !c->best.failed ? c->best.condition : NULL;
}

static rs_status vacuous(words *w)
{
    char layers[240], message[500];
    for (int32_t l = 0; l < w->layers; l++) {
        w->marked[l] = false;
        for (int64_t s = 0; s < w->c->samples; s++) {
            const rs_certify_row *r = rs_words_row(w, s, l);
            const rs_certificate *best = &r->certificate.best;
            if (r->tokens && !best->failed && r->out->longest > 0 &&
                best->log_upper >= log10(2 * r->out->longest))
                w->marked[l] = true;
        }
    }
    if (!rs_words_count(w->marked, w->layers)) return RS_OK;
    rs_words_layers(layers, sizeof layers, w->marked, w->layers);
    snprintf(
        message, sizeof message,
        "%s: how far apart the tokens are at most is not bounded usefully for some sample: the "
        "bound is above what their lengths alone allow, as the weights' norms are large; what "
        "is proved of the least is not touched",
        layers);
    return rs_words_say(w, RS_INFO, "bound_vacuous", RS_NULL_INT, NAN, message, NULL);
}

/* ---- hypotheses ---- */

/* Each reason once, with the layers where it is given. */
static rs_status each_reason(words *w, const char *(*reason)(const rs_certify_row *row),
                             rs_severity severity, const char *code, const char *what,
                             const char *hint)
{
    for (int32_t l = 0; l < w->layers; l++)
        for (int64_t s = 0; s < w->c->samples; s++) {
            const rs_certify_row *r = rs_words_row(w, s, l);
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
                    const rs_certify_row *other = rs_words_row(w, i, k);
                    if (other->tokens && reason(other) && strcmp(reason(other), why) == 0)
                        w->marked[k] = true;
                }
            }
            rs_words_layers(layers, sizeof layers, w->marked, w->layers);
            snprintf(message, sizeof message, "%s: %s: %s", layers, what, why);
            RS_TRY(rs_words_say(w, severity, code, RS_NULL_INT, NAN, message, hint));
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
                const rs_certify_row *r = rs_words_row(w, s, l);
                total += r->tokens > 0;
                if (!r->tokens || strcmp(r->rate.class, laws[k].class) != 0) continue;
                w->marked[l] = true;
                cases++;
            }
        }
        if (!cases) continue;
        rs_words_layers(layers, sizeof layers, w->marked, w->layers);
        snprintf(message, sizeof message, "%s (%lld of %lld cases): %s", layers, (long long)cases,
                 (long long)total, laws[k].words);
        RS_TRY(rs_words_say(w, RS_INFO, "collapse_rate", RS_NULL_INT, NAN, message, NULL));
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
    return rs_words_say(w, RS_INFO, "bound_overflow", RS_NULL_INT, NAN, message, NULL);
}

static rs_status all(words *w)
{
    RS_TRY(rs_words_apart(w));
    RS_TRY(rs_words_collapse(w));
    RS_TRY(each_reason(w, certificate_reason, RS_INFO, "no_certificate", "no upper bound", NULL));
    RS_TRY(each_reason(w, condition_reason, RS_INFO, "conditional",
                       "not proved, but true if the exact layers apply the mixing matrices that "
                       "the float64 pass met",
                       "columns ..._conditional mark such numbers; without --fast they are left "
                       "out"));
    RS_TRY(vacuous(w));
    RS_TRY(rates(w));
    RS_TRY(each_reason(w, published_reason, RS_INFO, "hypothesis_violated",
                       "outside the published theorem, on which nothing here rests",
                       "columns published... show its number for comparison"));
    RS_TRY(each_reason(w, zero_reason, RS_INFO, "zero_residual", "no residual", NULL));
    RS_TRY(each_reason(w, finite_reason, RS_CRITICAL, "nonfinite_activation", "no numbers", NULL));
    RS_TRY(overflow(w));
    return w->c->options->beside ? RS_OK : rs_words_verdict(w);
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
