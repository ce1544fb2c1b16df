/* probe_verdict.c: the probe in words: which layer loses how much, and which component holds the
 * tokens apart. */
#include "probe/probe_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rs_status add_finding(rs_result *result, const char *code, const char *variant,
                             int64_t layer, double value, const char *message, const char *hint,
                             rs_error *err)
{
    rs_finding f = {.severity = RS_INFO,
                    .code = code,
                    .variant = variant,
                    .layer = layer,
                    .head = RS_NULL_INT,
                    .value = value,
                    .threshold = NAN,
                    .message = message,
                    .hint = hint,
                    .table = "summary"};
    return rs_result_add_finding(result, &f, err);
}

/* ---- one variant: how its tokens fare ---- */

static const char *power_of(char text[RS_PROBE_POWER], const rs_token_row *row)
{
    return rs_probe_power(text, row->residual.mean, rs_probe_log10(row));
}

/* "layer 3 loses most (0.5 to 0.01, factor 0.02)" */
static void describe_worst(char *text, size_t size, const rs_decay *d, const rs_measured *m)
{
    char from[RS_PROBE_POWER], to[RS_PROBE_POWER], factor[RS_PROBE_POWER];
    const rs_token_row *before = rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, d->worst_at - 1);
    const rs_token_row *after = rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, d->worst_at);
    if (after->at_floor)
        rs_probe_power(to, m->floor, NAN);
    else
        power_of(to, after);
    snprintf(text, size, "layer %d loses most (%s to %s%s, factor %s)", (int)d->worst_at - 1,
             power_of(from, before), after->at_floor ? "at most " : "", to,
             rs_probe_power(factor, d->worst, d->log10_worst));
}

static void describe_end(char *text, size_t size, const rs_decay *d, const rs_measured *m,
                         const rs_probe_options *options)
{
    char number[RS_PROBE_POWER];
    if (d->floor_from >= 0)
        snprintf(text, size, "reaches the rounding floor of %s (%.2g) at state %d",
                 rs_probe_precision_name(options->measure.precision), m->floor, (int)d->floor_from);
    else
        snprintf(text, size, "is %s after %d layers", power_of(number, d->last),
                 (int)d->last->layer);
}

static rs_status describe(rs_result *result, const rs_probed *v, const rs_probe_options *options,
                          rs_error *err)
{
    const rs_measured *m = v->measured;
    rs_decay d = rs_probe_decay(m, v->network->n_layers);
    if (!d.first || isnan(d.first->residual.mean) || d.steps == 0) return RS_OK;
    char enters[RS_PROBE_POWER], factor[RS_PROBE_POWER];
    char message[500], end[128], loss[160] = "no layer loses any of it";
    describe_end(end, sizeof end, &d, m, options);
    if (d.worst < 1) describe_worst(loss, sizeof loss, &d, m);
    snprintf(message, sizeof message,
             "variant %s: the tokens' relative residual enters with %s and %s, a factor %s a "
             "layer; %s",
             v->name, power_of(enters, d.first), end,
             rs_probe_power(factor, d.per_layer, d.log10_per_layer), loss);
    return add_finding(result, "residual_summary", v->name,
                       d.worst_at >= 0 ? d.worst_at - 1 : RS_NULL_INT, d.per_layer, message, NULL,
                       err);
}

/* ---- the variants against each other ---- */

static const rs_probed *find_variant(const rs_probed *variants, size_t n, const char *name)
{
    for (size_t v = 0; v < n; v++)
        if (strcmp(variants[v].name, name) == 0) return &variants[v];
    return NULL;
}

/* What leaves the last block, and its logarithm; NaN: unknown. Where it is rounding, the most that
 * it can be. */
typedef struct leaving {
    double value, log10;
} leaving;

static leaving leaves(const rs_probed *v)
{
    if (!v) return (leaving){NAN, NAN};
    rs_decay d = rs_probe_decay(v->measured, v->network->n_layers);
    if (!d.last || d.last->layer != v->network->n_layers) return (leaving){NAN, NAN};
    double floor = v->measured->floor; /* NaN: fmax takes the other */
    return (leaving){fmax(d.last->residual.mean, floor),
                     fmax(rs_probe_log10(d.last), log10(floor))};
}

/* Each row: with the component, without it, and its name. */
static const struct {
    const char *with, *without, *component;
} comparisons[] = {
    {"san+skip", "san", "the skip around the mixer"},
    {"san+mlp", "san", "the MLP with its own skip"},
    {"san", "pure", "the norm"},
};

static bool leaves_rounding(const rs_probed *v)
{
    const rs_token_row *last =
        rs_measured_row(v->measured, RS_TOKEN_SITE_BLOCK_OUT, v->network->n_layers);
    return last && last->at_floor;
}

/* "0.51", or "at most 4.8e-07 (rounding)". */
static const char *shown(char *text, size_t size, leaving x, const rs_probed *v)
{
    char number[RS_PROBE_POWER];
    bool rounding = leaves_rounding(v);
    snprintf(text, size, "%s%s%s", rounding ? "at most " : "",
             rs_probe_power(number, x.value, x.log10), rounding ? " (rounding)" : "");
    return text;
}

static rs_status compare_variants(rs_result *result, const rs_probed *variants, size_t n,
                                  rs_error *err)
{
    enum { ROWS = sizeof comparisons / sizeof *comparisons };
    char list[600] = "", text[900], with_text[64], without_text[64], times[RS_PROBE_POWER];
    size_t used = 0;
    int best = -1;
    double most = 0; /* a logarithm */
    bool at_floor = false;
    for (int i = 0; i < ROWS; i++) {
        const rs_probed *with = find_variant(variants, n, comparisons[i].with);
        const rs_probed *without = find_variant(variants, n, comparisons[i].without);
        leaving a = leaves(with), b = leaves(without);
        if (isnan(a.log10) || isnan(b.log10)) continue;
        /* Of two roundings neither is more than the other. */
        if (a.log10 - b.log10 > most && !leaves_rounding(with))
            most = a.log10 - b.log10, best = i, at_floor = leaves_rounding(without);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s: %s with, %s without",
                                 used ? "; " : "", comparisons[i].component,
                                 shown(with_text, sizeof with_text, a, with),
                                 shown(without_text, sizeof without_text, b, without));
    }
    if (!used) return RS_OK;
    if (best >= 0)
        snprintf(text, sizeof text,
                 "%s holds the tokens apart: %s%s times the relative residual leaves the last "
                 "block (%s)",
                 comparisons[best].component, at_floor ? "at least " : "",
                 rs_probe_power(times, pow(10, most), most), list);
    else
        snprintf(text, sizeof text,
                 "no component alone keeps the tokens further apart (relative residual that leaves "
                 "the last block; %s)",
                 list);
    return add_finding(result, "component_summary", NULL, RS_NULL_INT, pow(10, most), text, NULL,
                       err);
}

/* An intervention of the user's own, against the model as it is. */
static rs_status compare_with_full(rs_result *result, const rs_probed *variants, size_t n,
                                   rs_error *err)
{
    static const char *const named = " full san san+mlp san+skip pure ";
    leaving full = leaves(find_variant(variants, n, "full"));
    for (size_t v = 0; v < n && !isnan(full.log10); v++) {
        char spaced[80], message[300], text[64], other[RS_PROBE_POWER];
        leaving x = leaves(&variants[v]);
        snprintf(spaced, sizeof spaced, " %.70s ", variants[v].name);
        if (strstr(named, spaced) || isnan(x.log10)) continue;
        snprintf(message, sizeof message,
                 "variant %.80s: a relative residual of %s leaves the last block, against %s for "
                 "the model as it is",
                 variants[v].name, shown(text, sizeof text, x, &variants[v]),
                 rs_probe_power(other, full.value, full.log10));
        RS_TRY(add_finding(result, "variant_summary", variants[v].name, RS_NULL_INT,
                           pow(10, x.log10 - full.log10), message, NULL, err));
    }
    return RS_OK;
}

rs_status rs_probe_verdict(rs_result *result, const rs_probed *variants, size_t n,
                           const rs_probe_options *options, rs_error *err)
{
    if (!options->measure.tokens) return RS_OK;
    RS_TRY(compare_variants(result, variants, n, err));
    size_t first = rs_probe_main_variant(variants, n);
    RS_TRY(describe(result, &variants[first], options, err));
    for (size_t v = 0; v < n; v++)
        if (v != first) RS_TRY(describe(result, &variants[v], options, err));
    RS_TRY(compare_with_full(result, variants, n, err));
    if (n > 1) return RS_OK;
    return add_finding(
        result, "one_variant", NULL, RS_NULL_INT, NAN,
        "one variant was run, so nothing tells which component holds the tokens apart",
        "run --variants dong: the model without skips, without MLP, without both", err);
}
