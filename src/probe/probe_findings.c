/* probe_findings.c: what a person should act on, each with the numbers that triggered it. */
#include "probe/probe.h"
#include "probe/probe_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool rs_probe_is_itself(const char *variant)
{
    return strcmp(variant, "full") == 0;
}

/* ---- tokens ---- */

const rs_token_row *rs_probe_lowest(const rs_probed *v)
{
    const rs_token_row *lowest = NULL;
    for (int32_t l = 0; l <= v->network->n_layers; l++) {
        const rs_token_row *state = rs_measured_row(v->measured, RS_TOKEN_SITE_BLOCK_OUT, l);
        if (!state || isnan(state->residual.mean)) continue;
        if (state->at_floor) return state;
        if (!lowest || state->residual.mean < lowest->residual.mean) lowest = state;
    }
    return lowest;
}

/* A collapse of a model as it is deserves attention; one of a variant is what was looked for. */
rs_severity rs_probe_how_bad(const rs_probed *v)
{
    const rs_token_row *lowest = rs_probe_lowest(v);
    if (!rs_probe_is_itself(v->name) || !lowest) return RS_INFO;
    return lowest->at_floor || lowest->residual.mean < 1e-3 ? RS_CRITICAL : RS_WARN;
}

static const char *percent(char text[RS_PROBE_POWER], const rs_token_row *row)
{
    double power = rs_probe_log10(row) + 2;
    if (power < -300) return rs_probe_power(text, 0, power);
    snprintf(text, RS_PROBE_POWER, "%.2g", 100 * row->residual.mean);
    return text;
}

const rs_token_row *rs_probe_collapsed(const rs_probed *v, const rs_probe_options *options)
{
    const rs_measured *m = v->measured;
    if (m->rows < 2 * m->samples) return NULL; /* one token is always equal to itself */
    for (int32_t l = 0; l <= v->network->n_layers; l++) {
        const rs_token_row *state = rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, l);
        if (state && state->residual.mean < options->thresholds.token_collapse) return state;
    }
    return NULL;
}

static rs_status token_collapse(rs_result *result, const rs_probed *v,
                                const rs_probe_options *options, rs_error *err)
{
    const rs_measured *m = v->measured;
    const rs_token_row *row = rs_probe_collapsed(v, options);
    if (!row) return RS_OK;
    rs_decay d = rs_probe_decay(m, v->network->n_layers);
    char number[RS_PROBE_POWER];
    char message[500], end[160], what[200], place[RS_PROBE_PLACE];
    const rs_token_row *floor =
        d.floor_from < 0 ? NULL : rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, d.floor_from);
    bool exact = row->equal == row->samples && row->residual.mean == 0;
    if (exact)
        snprintf(end, sizeof end, "no layer can part them again");
    else if (floor)
        snprintf(end, sizeof end, "%s and from there on it is at or below the rounding floor of %s",
                 rs_probe_place(place, floor), rs_probe_precision_name(options->measure.precision));
    else
        snprintf(end, sizeof end, "%s is left %s",
                 rs_probe_power(number, d.last->residual.mean, rs_probe_log10(d.last)),
                 rs_probe_place(place, d.last));
    rs_probe_place(place, row);
    if (exact)
        snprintf(what, sizeof what, "exactly equal %s: their relative residual is", place);
    else if (row->at_floor)
        snprintf(what, sizeof what, "equal %s as far as %s can tell: their relative residual is",
                 place, rs_probe_precision_name(options->measure.precision));
    else
        snprintf(what, sizeof what,
                 "close to equal %s, %s %% of their size tells them apart: the relative residual "
                 "is",
                 place, percent(number, row));
    snprintf(message, sizeof message, "%s: the tokens are %s %s, below the threshold %.3g; %s",
             v->name, what, rs_probe_power(number, row->residual.mean, rs_probe_log10(row)),
             options->thresholds.token_collapse, end);
    rs_finding f = rs_finding_of(rs_probe_how_bad(v), "token_collapse");
    f.variant = v->name;
    if (row->layer > 0) f.layer = row->layer - 1;
    f.value = row->residual.mean;
    f.threshold = options->thresholds.token_collapse;
    f.message = message;
    f.hint = row->layer == 0 && (exact || row->at_floor)
                 ? "no layer does this: give samples of different tokens, or look at the embedding"
             : rs_probe_is_itself(v->name)
                 ? "run --variants dong to see which component fails; rankscope certify names the "
                   "skip strengths that keep the tokens apart, and of which sign"
                 : NULL;
    f.table = "summary";
    f.cases = "variants";
    return rs_result_add_finding(result, &f, err);
}

rs_status rs_probe_findings(rs_result *result, const rs_probed *variants, size_t n,
                            const rs_probe_options *options, rs_error *err)
{
    for (size_t v = 0; v < n; v++) {
        RS_TRY(rs_probe_nonfinite(result, &variants[v], options->measure.precision, err));
        RS_TRY(rs_probe_centre(result, &variants[v], err));
        RS_TRY(rs_probe_graph(result, &variants[v], options->measure.centre, err));
    }
    if (options->measure.tokens) RS_TRY(rs_probe_undefined(result, variants, n, options, err));
    for (size_t v = 0; v < n && options->measure.tokens; v++) {
        RS_TRY(token_collapse(result, &variants[v], options, err));
        RS_TRY(rs_probe_norms(result, &variants[v], options, err));
        RS_TRY(rs_probe_residual_findings(result, &variants[v], err));
    }
    /* Of the first variant alone: the others are experiments with it. */
    return options->measure.attention
               ? rs_probe_heads(result, &variants[rs_probe_main_variant(variants, n)], options, err)
               : RS_OK;
}
