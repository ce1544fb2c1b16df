/* probe_undefined.c: why a column is null or leaves samples out: a zero state has no ratios, one
 * token no cosine, one sample no standard deviation, a long sample no measures of pairs of tokens. */
#include "probe/probe_parts.h"

#include "network/op_traits.h"

#include <stdio.h>
#include <string.h>

static rs_finding note(const char *code, rs_severity severity, const char *variant)
{
    rs_finding f = rs_finding_of(severity, code);
    f.variant = variant;
    f.table = "tokens";
    return f;
}

/* ---- states that are zero ---- */

/* In the order of the pass, which is not that of the table: a mixer's output comes first. */
static bool sooner(const rs_token_row *a, const rs_token_row *b)
{
    return !b || a->layer < b->layer ||
           (a->layer == b->layer && a->site == RS_TOKEN_SITE_MIXER_OUT && b->site != a->site);
}

static rs_status zero_states(rs_result *result, const rs_probed *v, rs_error *err)
{
    const rs_measured *m = v->measured;
    const rs_token_row *first = NULL;
    size_t rows = 0;
    char message[600], more[64] = "", place[RS_PROBE_PLACE];
    for (size_t i = 0; i < m->n_tokens; i++) {
        if (m->tokens[i].zero == 0) continue;
        if (sooner(&m->tokens[i], first)) first = &m->tokens[i];
        rows++;
    }
    if (!first) return RS_OK;
    if (rows > 1)
        snprintf(more, sizeof more, ", and so it is in %zu more row%s", rows - 1,
                 rows == 2 ? "" : "s");
    snprintf(message, sizeof message,
             "%s: every entry %s is zero in %lld of %lld samples%s: nothing divided by its size is "
             "defined there; %s",
             v->name, rs_probe_place(place, first), (long long)first->zero,
             (long long)first->samples, more,
             first->zero < first->samples ? "the means are over the other samples"
                                          : "relative residual, cosine and ranks are null");
    rs_finding f = note("zero_state", RS_WARN, v->name);
    if (first->layer > 0) f.layer = first->layer - 1;
    f.value = (double)first->zero;
    f.message = message;
    f.hint = first->layer == 0 ? "these tokens' embeddings are zero: padding ids usually are"
                               : "usual before training when output weights start at zero; in a "
                                 "trained model a layer that gives nothing is dead";
    return rs_result_add_finding(result, &f, err);
}

/* ---- columns that these inputs cannot fill: the same for all variants ---- */

static void append_part(char *text, size_t size, const char *part)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? "; " : "", part);
}

static bool any_is_cut(const rs_probed *variants, size_t n)
{
    for (size_t v = 0; v < n; v++)
        if (variants[v].edit && rs_edit_cuts_attention(variants[v].edit)) return true;
    return false;
}

static rs_status columns(rs_result *result, const rs_probed *variants, size_t n,
                         const rs_probe_options *options, rs_error *err)
{
    const rs_measured *m = variants[0].measured;
    char message[1000] = "", part[200];
    if (m->singles && m->singles == m->samples)
        append_part(
            message, sizeof message,
            "every sample is one token, which has no other to compare with: mean_cosine and "
            "one_minus_cosine are null, the relative residual is 0 whatever the model does");
    else if (m->singles) {
        snprintf(part, sizeof part,
                 "%lld of %lld samples are one token, which has no other to compare with: "
                 "mean_cosine and one_minus_cosine are over the other samples",
                 (long long)m->singles, (long long)m->samples);
        append_part(message, sizeof message, part);
    }
    if (m->samples == 1)
        append_part(message, sizeof message,
                    "there is one sample, so relative_residual_std, which takes two, is null");
    if (!options->measure.spectral)
        append_part(message, sizeof message,
                    "rank1_residual and the ranks are null, as --no-spectral asks");
    if (m->unranked && m->n_attention) {
        snprintf(
            part, sizeof part,
            "%lld of %lld samples have more than %d tokens: ranks of table attention, and table "
            "rollout, are without them; --quadratic measures them all",
            (long long)m->unranked, (long long)m->samples, (int)RS_RANK_TOKENS);
        append_part(message, sizeof message, part);
    }
    if (options->measure.attention && any_is_cut(variants, n))
        append_part(message, sizeof message,
                    "rows of attention of lower rank do not sum to 1: spectral_gap and dobrushin "
                    "of such variants are null, and they have no null of ranks");
    if (!message[0]) return RS_OK;
    rs_finding f = note("undefined_columns", RS_INFO, NULL);
    f.message = message;
    return rs_result_add_finding(result, &f, err);
}

/* ---- what costs the square of a sample's length ---- */

/* Whether softmax attention has rows in table mixing, which are read off its matrices. */
static bool mixes_by_softmax(const rs_probed *v)
{
    for (size_t i = 0; i < v->measured->n_mixing; i++) {
        const rs_mixing_row *row = &v->measured->mixing[i];
        if (rs_branch_attention(&v->network->layers[row->layer].branches[row->branch])) return true;
    }
    return false;
}

static rs_status quadratic(rs_result *result, const rs_probed *v, const rs_probe_options *options,
                           rs_error *err)
{
    const rs_measured *m = v->measured;
    char message[600], who[100];
    bool all = m->left_out == m->samples;
    bool logs = options->measure.precision == RS_PRECISION_RESIDUAL;
    if (!m->left_out) return RS_OK;
    snprintf(who, sizeof who, "%lld of %lld samples have", (long long)m->left_out,
             (long long)m->samples);
    snprintf(message, sizeof message,
             "%s more than %d tokens, and what costs the square of that number is left out: "
             "diameter%s %s",
             m->samples == 1 ? "the sample has" : who, (int)RS_QUADRATIC_TOKENS,
             logs ? " and log10_diameter" : "",
             all    ? logs ? "are null" : "is null"
             : logs ? "are over the other samples"
                    : "is over the other samples");
    if (m->n_attention)
        append_part(message, sizeof message,
                    all ? "table attention has no row" : "so is table attention");
    if (mixes_by_softmax(v))
        append_part(message, sizeof message,
                    all ? "softmax attention has no row in table mixing"
                        : "so is softmax attention in table mixing");
    append_part(message, sizeof message, "--quadratic measures all of it");
    rs_finding f = note("quadratic_left_out", RS_INFO, NULL);
    f.value = (double)m->left_out;
    f.message = message;
    return rs_result_add_finding(result, &f, err);
}

rs_status rs_probe_undefined(rs_result *result, const rs_probed *variants, size_t n,
                             const rs_probe_options *options, rs_error *err)
{
    for (size_t v = 0; v < n; v++)
        RS_TRY(zero_states(result, &variants[v], err));
    RS_TRY(quadratic(result, &variants[0], options, err));
    return columns(result, variants, n, options, err);
}
