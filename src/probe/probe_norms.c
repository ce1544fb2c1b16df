/* probe_norms.c: finding norm_decay_only: the tokens' unnormalised spread falls because their norms
 * do, not because they draw together (docs/theory/ssm.md, 11). */
#include "probe/probe_parts.h"

#include <math.h>
#include <stdio.h>

/* The spread has fallen below this share of what entered. */
static const double fallen = 0.1;

/* The logarithm to base 10 of ‖R‖_F of a state. */
static double log_spread(const rs_token_row *row)
{
    double own = row->mean.log10_residual_fro;
    return isnan(own) ? log10(row->mean.residual_fro) : own;
}

/* Whether a number that does not depend on scale keeps at least `share` of what entered; one that
 * was not measured says nothing. */
static bool keeps(double entered, double now, double share)
{
    return isnan(entered) || now >= share * entered;
}

static bool apart(const rs_token_row *first, const rs_token_row *row, double share)
{
    const rs_token_measures *a = &first->mean, *b = &row->mean;
    return b->relative_residual >= share * a->relative_residual &&
           b->row_normalised_mu >= share * a->row_normalised_mu &&
           keeps(a->rank1_residual, b->rank1_residual, share);
}

/* The state behind a layer whose spread is least; NULL: none has one. */
static const rs_token_row *least_spread(const rs_probed *v)
{
    const rs_token_row *least = NULL;
    for (int32_t l = 1; l <= v->network->n_layers; l++) {
        const rs_token_row *row = rs_measured_row(v->measured, RS_TOKEN_SITE_BLOCK_OUT, l);
        if (!row || !isfinite(log_spread(row)) || isnan(row->mean.relative_residual)) continue;
        if (!least || log_spread(row) < log_spread(least)) least = row;
    }
    return least;
}

rs_status rs_probe_norms(rs_result *result, const rs_probed *v, const rs_probe_options *options,
                         rs_error *err)
{
    const rs_token_row *first = rs_measured_row(v->measured, RS_TOKEN_SITE_BLOCK_OUT, 0);
    const rs_token_row *row = least_spread(v);
    double share = options->thresholds.slow_collapse;
    if (!first || !row || !(first->mean.relative_residual > 0)) return RS_OK;
    double fall = log_spread(row) - log_spread(first);
    if (!(fall <= log10(fallen)) || !apart(first, row, share)) return RS_OK;
    char message[500], number[RS_PROBE_POWER], place[RS_PROBE_PLACE];
    snprintf(
        message, sizeof message,
        "%s: the tokens' spread \xe2\x80\x96R\xe2\x80\x96_F is %s of what entered %s, but only "
        "because their norms fall: relative residual %.3g (%.3g entered), row-normalised "
        "\xce\xbc %.3g (%.3g)",
        v->name, rs_probe_power(number, pow(10, fall), fall), rs_probe_place(place, row),
        row->mean.relative_residual, first->mean.relative_residual, row->mean.row_normalised_mu,
        first->mean.row_normalised_mu);
    rs_finding f = rs_finding_of(RS_INFO, "norm_decay_only");
    f.variant = v->name;
    f.layer = row->layer - 1;
    f.value = pow(10, fall);
    f.threshold = fallen;
    f.message = message;
    f.table = "tokens";
    f.cases = "variants";
    return rs_result_add_finding(result, &f, err);
}
