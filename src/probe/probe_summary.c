/* probe_summary.c: each variant in a sentence: which layer loses how much. */
#include "probe/probe_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rs_status add_finding(rs_result *result, const char *code, const char *variant,
                             int64_t layer, double value, const char *message, const char *hint,
                             rs_error *err)
{
    rs_finding f = rs_finding_of(RS_INFO, code);
    f.variant = variant;
    f.layer = layer;
    f.value = value;
    f.message = message;
    f.hint = hint;
    f.table = "summary";
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
    bool floor =
        after->at_floor && !isnan(m->floor); /* the residual precision's is a state's own */
    if (floor)
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
    char number[RS_PROBE_POWER], place[RS_PROBE_PLACE];
    if (d->floor_from >= 0 && isnan(m->floor))
        snprintf(text, size, "is no more than rounding of a mixer in plain numbers %s",
                 rs_probe_place(place, rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, d->floor_from)));
    else if (d->floor_from >= 0)
        snprintf(text, size, "reaches the rounding floor of %s (%.2g) %s",
                 rs_probe_precision_name(options->measure.precision), m->floor,
                 rs_probe_place(place, rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, d->floor_from)));
    else
        snprintf(text, size, "is %s after %d layer%s", power_of(number, d->last),
                 (int)d->last->layer, d->last->layer == 1 ? "" : "s");
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

const rs_probed *rs_probe_find(const rs_probed *variants, size_t n, const char *name)
{
    for (size_t v = 0; v < n; v++)
        if (strcmp(variants[v].name, name) == 0) return &variants[v];
    return NULL;
}

rs_leaving rs_probe_leaves(const rs_probed *v)
{
    if (!v) return (rs_leaving){NAN, NAN, false};
    rs_decay d = rs_probe_decay(v->measured, v->network->n_layers);
    if (!d.last || d.last->layer != v->network->n_layers) return (rs_leaving){NAN, NAN, false};
    double floor = v->measured->floor; /* NaN: fmax takes the other */
    return (rs_leaving){fmax(d.last->residual.mean, floor),
                        fmax(rs_probe_log10(d.last), log10(floor)), d.last->at_floor};
}

/* "0.51", or "at most 4.8e-07 (rounding)". */
static const char *shown(char *text, size_t size, rs_leaving x)
{
    char number[RS_PROBE_POWER];
    snprintf(text, size, "%s%s%s", x.rounding ? "at most " : "",
             rs_probe_power(number, x.value, x.log10), x.rounding ? " (rounding)" : "");
    return text;
}

/* An intervention of the user's own, against the model as it is. */
static rs_status compare_with_full(rs_result *result, const rs_probed *variants, size_t n,
                                   rs_error *err)
{
    static const char *const named = " full san san+mlp san+skip pure ";
    rs_leaving full = rs_probe_leaves(rs_probe_find(variants, n, "full"));
    for (size_t v = 0; v < n && !isnan(full.log10); v++) {
        char spaced[80], message[300], text[64], other[64];
        rs_leaving x = rs_probe_leaves(&variants[v]);
        snprintf(spaced, sizeof spaced, " %.70s ", variants[v].name);
        if (strstr(named, spaced) || isnan(x.log10)) continue;
        snprintf(message, sizeof message,
                 "variant %.80s: a relative residual of %s leaves the last block, against %s for "
                 "the model as it is",
                 variants[v].name, shown(text, sizeof text, x), shown(other, sizeof other, full));
        RS_TRY(add_finding(result, "variant_summary", variants[v].name, RS_NULL_INT,
                           pow(10, x.log10 - full.log10), message, NULL, err));
    }
    return RS_OK;
}

rs_status rs_probe_summary(rs_result *result, const rs_probed *variants, size_t n,
                           const rs_probe_options *options, rs_error *err)
{
    if (!options->measure.tokens) return RS_OK;
    for (size_t v = 0; v < n; v++)
        RS_TRY(describe(result, &variants[v], options, err));
    return compare_with_full(result, variants, n, err);
}
