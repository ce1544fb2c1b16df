/* probe_words.c: a relative residual in words, and what the residual precision has to say of its
 * own. */
#include "probe/probe_parts.h"

#include <math.h>
#include <stdio.h>

const char *rs_probe_power(char text[RS_PROBE_POWER], double value, double log10)
{
    enum { RANGE = 300 }; /* behind it doubles end */
    if (isfinite(log10) && fabs(log10) > RANGE)
        snprintf(text, RS_PROBE_POWER, "10^%.7g", log10);
    else
        snprintf(text, RS_PROBE_POWER, "%.3g", value);
    return text;
}

const char *rs_probe_place(char text[RS_PROBE_PLACE], const rs_token_row *row)
{
    int layer = (int)row->layer - 1;
    if (row->layer == 0)
        snprintf(text, RS_PROBE_PLACE, "before layer 0");
    else if (row->site == RS_TOKEN_SITE_MIXER_OUT)
        snprintf(text, RS_PROBE_PLACE, "in what the mixer of layer %d gives", layer);
    else if (row->site == RS_TOKEN_SITE_BLOCK_OUT)
        snprintf(text, RS_PROBE_PLACE, "after layer %d", layer);
    else
        snprintf(text, RS_PROBE_PLACE, "in all states read together");
    return text;
}

static rs_status add_finding(rs_result *result, const char *code, const rs_probed *v,
                             const rs_token_row *row, double value, const char *message,
                             const char *hint, rs_error *err)
{
    rs_finding f = rs_finding_of(RS_INFO, code);
    f.variant = v->name;
    f.layer = row->layer > 0 ? row->layer - 1 : RS_NULL_INT;
    f.value = value;
    f.message = message;
    f.hint = hint;
    f.table = "tokens";
    return rs_result_add_finding(result, &f, err);
}

/* The first state, or mixer's output, in which some sample has lost its residual. */
static const rs_token_row *first_row(const rs_measured *m, bool beyond)
{
    for (size_t i = 0; i < m->n_tokens; i++)
        if (beyond ? m->tokens[i].beyond : m->tokens[i].equal) return &m->tokens[i];
    return NULL;
}

rs_status rs_probe_residual_findings(rs_result *result, const rs_probed *v, rs_error *err)
{
    const rs_measured *m = v->measured;
    const rs_token_row *equal = first_row(m, false), *beyond = first_row(m, true);
    char message[500], place[RS_PROBE_PLACE];
    if (equal) {
        snprintf(message, sizeof message,
                 "%s: the residual is exactly zero in %lld of %lld samples %s: %s%s; its logarithm "
                 "does not exist and is left out of the means",
                 v->name, (long long)equal->equal, (long long)equal->samples,
                 rs_probe_place(place, equal), "the tokens of such a sample are equal",
                 m->singles ? ", as those of a sample of one token always are" : "");
        RS_TRY(add_finding(result, "residual_exactly_zero", v, equal, (double)equal->equal, message,
                           NULL, err));
    }
    if (!beyond) return RS_OK;
    snprintf(message, sizeof message,
             "%s: first %s the residual of %lld of %lld samples is not zero but too small to be "
             "counted: below 2^-2^61, or what attention leaves that is all but sure of keys of "
             "equal values, or an activation below every double; its size is not known, and its "
             "logarithm is null",
             v->name, rs_probe_place(place, beyond), (long long)beyond->beyond,
             (long long)beyond->samples);
    return add_finding(
        result, "residual_beyond_exponents", v, beyond, (double)beyond->beyond, message,
        "its logarithm triples from layer to layer: go on from the last state that has one", err);
}
