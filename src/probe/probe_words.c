/* probe_words.c: a relative residual in words, and what the residual precision has to say of its
 * own. */
#include "probe/probe_parts.h"

#include <math.h>
#include <stddef.h>
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

/* The first state, or mixer's output, with a sample that the count at that place of a row is of. */
static const rs_token_row *first_row(const rs_measured *m, size_t count)
{
    for (size_t i = 0; i < m->n_tokens; i++)
        if (*(const int64_t *)(const void *)((const char *)&m->tokens[i] + count))
            return &m->tokens[i];
    return NULL;
}

static rs_status outside_doubles(rs_result *result, const rs_probed *v, rs_error *err)
{
    const rs_token_row *row = first_row(v->measured, offsetof(rs_token_row, outside));
    char message[400], place[RS_PROBE_PLACE];
    if (!row) return RS_OK;
    snprintf(message, sizeof message,
             "%s: first %s the size of the tokens leaves the range of doubles in %lld of %lld "
             "samples: norm_fro and what goes with it is null or 0 there, log10_norm_fro and the "
             "other logarithms are exact",
             v->name, rs_probe_place(place, row), (long long)row->outside, (long long)row->samples);
    return add_finding(result, "size_beyond_doubles", v, row, row->mean.log10_norm_fro, message,
                       NULL, err);
}

rs_status rs_probe_residual_findings(rs_result *result, const rs_probed *v, rs_error *err)
{
    const rs_measured *m = v->measured;
    const rs_token_row *equal = first_row(m, offsetof(rs_token_row, equal));
    const rs_token_row *beyond = first_row(m, offsetof(rs_token_row, beyond));
    char message[500], place[RS_PROBE_PLACE];
    RS_TRY(outside_doubles(result, v, err));
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
             "equal values, or an activation or a mixer below every double; its size is not known, "
             "and its logarithm is null",
             v->name, rs_probe_place(place, beyond), (long long)beyond->beyond,
             (long long)beyond->samples);
    return add_finding(
        result, "residual_beyond_exponents", v, beyond, (double)beyond->beyond, message,
        "its logarithm triples from layer to layer: go on from the last state that has one", err);
}
