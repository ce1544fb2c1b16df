/* probe_verdict.c: the probe in words: which layer loses how much, and which component holds the
 * tokens apart. */
#include "collapse/probe_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rs_status add(rs_result *result, const char *code, const char *variant, int64_t layer,
                     double value, const char *message, const char *hint, rs_error *err)
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

static void describe_end(char *text, size_t size, const rs_decay *d, const rs_probe_measured *m,
                         const rs_probe_options *options)
{
    if (d->floor_from >= 0)
        snprintf(text, size, "reaches the rounding floor of %s (%.2g) at state %d",
                 rs_probe_precision_name(options->measure.precision), m->floor, (int)d->floor_from);
    else
        snprintf(text, size, "is %.3g after %d layers", d->last->residual.mean,
                 (int)d->last->layer);
}

static rs_status describe(rs_result *result, const rs_probed *v, const rs_probe_options *options,
                          rs_error *err)
{
    const rs_probe_measured *m = v->measured;
    rs_decay d = rs_probe_decay(m, v->network->n_layers);
    if (!d.first || isnan(d.first->residual.mean) || d.steps == 0) return RS_OK;
    char message[500], end[128], loss[128] = "no layer loses any of it";
    describe_end(end, sizeof end, &d, m, options);
    if (d.worst < 1) {
        const rs_token_row *before = rs_probe_row(m, RS_PROBE_BLOCK_OUT, d.worst_at - 1);
        const rs_token_row *after = rs_probe_row(m, RS_PROBE_BLOCK_OUT, d.worst_at);
        snprintf(loss, sizeof loss, "layer %d loses most (%.3g to %s%.3g, factor %.3g)",
                 (int)d.worst_at - 1, before->residual.mean, after->at_floor ? "at most " : "",
                 after->at_floor ? m->floor : after->residual.mean, d.worst);
    }
    snprintf(message, sizeof message,
             "variant %s: the tokens' relative residual enters with %.3g and %s, a factor %.3g a "
             "layer; %s",
             v->name, d.first->residual.mean, end, d.per_layer, loss);
    return add(result, "residual_summary", v->name, d.worst_at >= 0 ? d.worst_at - 1 : RS_NULL_INT,
               d.per_layer, message, NULL, err);
}

/* ---- the variants against each other ---- */

static const rs_probed *find(const rs_probed *variants, size_t n, const char *name)
{
    for (size_t v = 0; v < n; v++)
        if (strcmp(variants[v].name, name) == 0) return &variants[v];
    return NULL;
}

/* What leaves the last block; NaN: unknown. Where it is rounding, the most that it can be. */
static double leaves(const rs_probed *v)
{
    if (!v) return NAN;
    rs_decay d = rs_probe_decay(v->measured, v->network->n_layers);
    if (!d.last || d.last->layer != v->network->n_layers) return NAN;
    return fmax(d.last->residual.mean, v->measured->floor);
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
    const rs_token_row *last = rs_probe_row(v->measured, RS_PROBE_BLOCK_OUT, v->network->n_layers);
    return last && last->at_floor;
}

/* "0.51", or "at most 4.8e-07 (rounding)". */
static const char *shown(char *text, size_t size, double value, const rs_probed *v)
{
    bool rounding = leaves_rounding(v);
    snprintf(text, size, "%s%.3g%s", rounding ? "at most " : "", value,
             rounding ? " (rounding)" : "");
    return text;
}

static rs_status compare(rs_result *result, const rs_probed *variants, size_t n, rs_error *err)
{
    enum { ROWS = sizeof comparisons / sizeof *comparisons };
    char list[600] = "", text[900], with_text[48], without_text[48];
    size_t used = 0;
    int best = -1;
    double most = 1;
    bool at_floor = false;
    for (int i = 0; i < ROWS; i++) {
        const rs_probed *with = find(variants, n, comparisons[i].with);
        const rs_probed *without = find(variants, n, comparisons[i].without);
        double a = leaves(with), b = leaves(without);
        if (isnan(a) || isnan(b)) continue;
        /* Of two roundings neither is more than the other. */
        if (a / b > most && !leaves_rounding(with))
            most = a / b, best = i, at_floor = leaves_rounding(without);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s: %s with, %s without",
                                 used ? "; " : "", comparisons[i].component,
                                 shown(with_text, sizeof with_text, a, with),
                                 shown(without_text, sizeof without_text, b, without));
    }
    if (!used) return RS_OK;
    if (best >= 0)
        snprintf(text, sizeof text,
                 "%s holds the tokens apart: %s%.3g times the relative residual leaves the last "
                 "block (%s)",
                 comparisons[best].component, at_floor ? "at least " : "", most, list);
    else
        snprintf(text, sizeof text,
                 "no component alone keeps the tokens further apart (relative residual that leaves "
                 "the last block; %s)",
                 list);
    return add(result, "component_summary", NULL, RS_NULL_INT, most, text, NULL, err);
}

/* An intervention of the user's own, against the model as it is. */
static rs_status compare_with_full(rs_result *result, const rs_probed *variants, size_t n,
                                   rs_error *err)
{
    static const char *const named = " full san san+mlp san+skip pure ";
    double full = leaves(find(variants, n, "full"));
    for (size_t v = 0; v < n && !isnan(full); v++) {
        char spaced[80], message[300], text[48];
        double value = leaves(&variants[v]);
        snprintf(spaced, sizeof spaced, " %.70s ", variants[v].name);
        if (strstr(named, spaced) || isnan(value)) continue;
        snprintf(message, sizeof message,
                 "variant %.80s: a relative residual of %s leaves the last block, against %.3g for "
                 "the model as it is",
                 variants[v].name, shown(text, sizeof text, value, &variants[v]), full);
        RS_TRY(add(result, "variant_summary", variants[v].name, RS_NULL_INT, value / full, message,
                   NULL, err));
    }
    return RS_OK;
}

rs_status rs_probe_verdict(rs_result *result, const rs_probed *variants, size_t n,
                           const rs_probe_options *options, rs_error *err)
{
    if (!options->measure.tokens) return RS_OK;
    RS_TRY(compare(result, variants, n, err));
    size_t first = rs_probe_main_variant(variants, n);
    RS_TRY(describe(result, &variants[first], options, err));
    for (size_t v = 0; v < n; v++)
        if (v != first) RS_TRY(describe(result, &variants[v], options, err));
    RS_TRY(compare_with_full(result, variants, n, err));
    if (n > 1) return RS_OK;
    return add(result, "one_variant", NULL, RS_NULL_INT, NAN,
               "one variant was run, so nothing tells which component holds the tokens apart",
               "run --variants dong: the model without skips, without MLP, without both", err);
}
