/* verdict.c: thresholds of the verdict, and the word they give (docs/theory/mean_field.md, 11). */
#include "predict/verdict.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const rs_predict_thresholds rs_predict_defaults = {
    .explosion_decades = 3,
    .halving = 0.5,
    .power_exponent = 1.5,
    .doubly_factor = 1.5,
    .doubly_below = 0.1,
    .critical_below = 0.01,
    .embedding_ratio = 100,
    .condensed = 0.5,
};

/* A threshold's name, and where it is. */
static const struct {
    const char *name;
    size_t offset;
} members[] = {
#define MEMBER(name)                                                                               \
    {                                                                                              \
#name, offsetof(rs_predict_thresholds, name)                                               \
    }
    MEMBER(explosion_decades), MEMBER(halving),      MEMBER(power_exponent),
    MEMBER(doubly_factor),     MEMBER(doubly_below), MEMBER(critical_below),
    MEMBER(embedding_ratio),   MEMBER(condensed),
#undef MEMBER
};

const char *rs_predict_threshold_name(size_t i)
{
    return i < sizeof members / sizeof *members ? members[i].name : NULL;
}

rs_status rs_predict_threshold_set(rs_predict_thresholds *t, const char *name, double value,
                                   rs_error *err)
{
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (strcmp(members[i].name, name) != 0) continue;
        if (!(value > 0) || !isfinite(value))
            return rs_fail(err, RS_E_BAD_OPTION, name, NULL, "a threshold is a number above 0");
        memcpy((char *)t + members[i].offset, &value, sizeof value);
        return RS_OK;
    }
    return rs_fail(err, RS_E_BAD_OPTION, name,
                   "there are explosion_decades, halving, power_exponent, "
                   "doubly_factor, doubly_below, critical_below, embedding_ratio, condensed",
                   "there is no such threshold");
}

const char *rs_predict_verdict_code(rs_predict_verdict verdict)
{
    static const char *const codes[RS_PREDICT_COUNT] = {
        "unknown", "healthy", "slow", "exponential", "doubly_exponential", "explosion"};
    return (unsigned)verdict < RS_PREDICT_COUNT ? codes[verdict] : codes[0];
}

const char *rs_predict_verdict_known(rs_predict_verdict verdict)
{
    return verdict == RS_PREDICT_UNKNOWN ? NULL : rs_predict_verdict_code(verdict);
}

/* How far a column moves over the second half, in decades; 0 where it is not known. */
static double moved(const double *column, int32_t n_layers)
{
    if (!column) return 0;
    double by = fabs(column[n_layers] - column[n_layers / 2]);
    return isnan(by) ? 0 : by;
}

/* Logarithms of the theory stop there, and e falls on. */
#define BOTTOM (-4e299)

/* e below the bound, and log₁₀ e the factor times what it was, in each of the last two blocks. */
static bool falls_doubly(const rs_predict_columns *in, const rs_predict_thresholds *t)
{
    for (int32_t l = in->n_layers - 1; l <= in->n_layers; l++) {
        if (l < 1) return false;
        double now = in->log10_apart[l], before = in->log10_apart[l - 1];
        bool grown = now <= t->doubly_factor * before || now <= BOTTOM;
        /* from above 1 to below it a logarithm does not grow, it changes its sign */
        if (!(now < log10(t->doubly_below)) || !grown || !(before < 0)) return false;
    }
    return true;
}

/* Of a power law over the second half of the depth. */
static double exponent_of(const rs_predict_columns *in)
{
    int32_t depth = in->n_layers, half = depth / 2;
    if (depth < 2) return NAN;
    return (in->log10_apart[half] - in->log10_apart[depth]) / log10((double)depth / half);
}

static rs_predict_verdict fall_of(rs_predict_found *out, const rs_predict_columns *in,
                                  const rs_predict_thresholds *t)
{
    int32_t depth = in->n_layers;
    double first = in->log10_apart[0], last = in->log10_apart[depth];
    if (falls_doubly(in, t)) return RS_PREDICT_DOUBLY_EXPONENTIAL;
    if (!(last < first + log10(t->halving))) return RS_PREDICT_HEALTHY;
    return out->exponent >= t->power_exponent ? RS_PREDICT_EXPONENTIAL : RS_PREDICT_SLOW;
}

/* Of the last states no more is known than that their tokens are equal but for rounding: the word is that
 * of the layers in front of them, where it is one of collapse. */
static rs_predict_verdict fall_to_floor(rs_predict_found *out, const rs_predict_columns *in,
                                        const rs_predict_thresholds *t)
{
    rs_predict_columns known = {.n_layers = in->lost_from - 1, .log10_apart = in->log10_apart};
    rs_predict_found found = {.exponent = NAN};
    out->to_floor = true;
    out->exponent = NAN;
    if (known.n_layers < 2 || !(in->log10_most < log10(t->critical_below)))
        return RS_PREDICT_UNKNOWN;
    found.exponent = exponent_of(&known);
    rs_predict_verdict fall = fall_of(&found, &known, t);
    return fall >= RS_PREDICT_EXPONENTIAL ? fall : RS_PREDICT_UNKNOWN;
}

static rs_predict_severity severity_of(const rs_predict_found *found, double last,
                                       const rs_predict_thresholds *t)
{
    if (found->verdict < RS_PREDICT_EXPONENTIAL) return RS_PREDICT_INFO;
    bool equal = found->equal_from_start || found->to_floor;
    bool warns = found->verdict == RS_PREDICT_EXPONENTIAL && !equal;
    return warns && !(last < log10(t->critical_below)) ? RS_PREDICT_WARN : RS_PREDICT_CRITICAL;
}

void rs_predict_judge(rs_predict_found *out, const rs_predict_columns *in,
                      const rs_predict_thresholds *t)
{
    int32_t depth = in->n_layers;
    double last = in->log10_apart[depth];
    *out = (rs_predict_found){.exponent = exponent_of(in)};
    out->decades = fmax(moved(in->log10_square, depth), moved(in->log10_state, depth));
    bool hidden = in->lost_from > 0;
    if (isnan(in->log10_apart[0]) || (isnan(last) && !hidden) || isnan(in->log10_square[depth]))
        return;
    out->equal_from_start = in->log10_apart[0] == -INFINITY;
    if (out->decades > t->explosion_decades)
        out->verdict = RS_PREDICT_EXPLOSION;
    else if (out->equal_from_start)
        out->verdict = RS_PREDICT_EXPONENTIAL;
    else
        out->verdict = hidden ? fall_to_floor(out, in, t) : fall_of(out, in, t);
    out->severity = severity_of(out, last, t);
}
