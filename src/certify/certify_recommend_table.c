/* certify_recommend_table.c: tables recommendation and recommendation_layers, and what they say in
 * words. */
#include "certify/certify_parts.h"
#include "certify/certify_recommend.h"
#include "report/number.h"

#include <math.h>
#include <stdio.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- a row a candidate ---- */

typedef struct cells {
    const char *candidate, *option, *failed;
    bool keeps;
    double lambda, change, most_change, falls_short, relative, log10_norm, log10_growth, share,
        logits, loss, loss_change;
    int64_t cases, proved;
} cells;

#define MEASURED(member, name, formula) RS_CERTIFY_COLUMN(cells, member, name, "measured", formula)
static const rs_column columns[] = {
    {.name = "candidate",
     RS_CELL(cells, candidate),
     .formula = "none: the model as it is; one λ for all mixers, above (positive side) or below "
                "the own one; a λ per layer"},
    MEASURED(keeps, "keeps_enough",
             "a run at these λ by itself has relative μ ≥ KEPT behind the last layer"),
    MEASURED(lambda, "lambda", "λ of all mixers; null: they differ, or none was found"),
    {.name = "option", RS_CELL(cells, option), .formula = "what --lambda takes to run it"},
    MEASURED(change, "change", "root mean square of λ − own λ over the layers with a mixer"),
    MEASURED(most_change, "largest_change", "the largest |λ − own λ|"),
    MEASURED(falls_short, "falls_short_at",
             "the nearest λ towards the own one that was run and keeps less than KEPT"),
    MEASURED(relative, "relative_residual",
             "μ(X)/‖X‖_F behind the last layer; mean over the samples"),
    MEASURED(log10_norm, "log10_norm", "log10 of the samples' mean ‖X‖_F behind the last layer"),
    MEASURED(log10_growth, "log10_growth", "the same less that of what enters the first layer"),
    MEASURED(share, "branch_share",
             "‖αO‖_F/‖λX + αO‖_F of the mixers; mean over samples and layers"),
    MEASURED(logits, "logits_change", "‖Z − Z_own‖_F/‖Z_own‖_F of all samples' logits Z"),
    MEASURED(loss, "loss", "mean of −ln p of the next token"),
    MEASURED(loss_change, "loss_change", "loss less that of the model as it is"),
    RS_CERTIFY_COLUMN(cells, cases, "mixers", "measured",
                      "mixers times samples whose entering tokens differ"),
    RS_CERTIFY_COLUMN(cells, proved, "mixers_certified", "certified",
                      "of those: it is certified what fraction of μ(X) is left behind the mixer at "
                      "these λ; relative μ behind the last layer is not"),
    MEASURED(failed, "failed", "why there is no such candidate"),
};
const rs_table_kind rs_certify_recommendation_kind = {
    "certify", "recommendation", {RS_PART(columns)}};

static cells cells_of(const rs_recommending *w, rs_recommend_kind kind)
{
    const rs_recommended *r = &w->of[kind];
    cells c = {.candidate = rs_recommend_kind_name(kind),
               .failed = r->failed,
               .lambda = NAN,
               .change = NAN,
               .most_change = NAN,
               .falls_short = NAN,
               .relative = NAN,
               .log10_norm = NAN,
               .log10_growth = NAN,
               .share = NAN,
               .logits = NAN,
               .loss = NAN,
               .loss_change = NAN,
               .cases = RS_NULL_INT,
               .proved = RS_NULL_INT};
    if (!r->found && kind != RS_RECOMMEND_NONE) return c;
    c.keeps = r->found;
    c.option = r->option;
    c.lambda = r->lambda;
    c.change = r->change;
    c.most_change = r->most_change;
    c.falls_short = r->falls_short;
    c.relative = r->relative;
    c.log10_norm = r->log10_norm;
    c.log10_growth = r->log10_growth;
    c.share = r->share;
    c.logits = r->logits;
    c.loss = r->loss;
    c.loss_change = r->loss - w->of[RS_RECOMMEND_NONE].loss;
    c.cases = r->cases;
    c.proved = r->proved;
    return c;
}

static rs_status candidates_table(rs_result *result, const rs_recommending *w, rs_error *err)
{
    rs_table *t;
    RS_TRY(rs_result_add_table(
        result, "recommendation", "Skip strengths that would do",
        "The smallest changes of the mixers' λ that a search found to keep the wanted relative μ "
        "behind the last layer, each checked by a float64 run, and what they cost",
        columns, COUNT(columns), &t, err));
    rs_table_show_first(t, "candidate,option,relative_residual,change,log10_growth,logits_change");
    for (int k = 0; k < RS_RECOMMEND_KINDS; k++) {
        const cells c = cells_of(w, (rs_recommend_kind)k);
        if (w->of[k].tried) RS_TRY(rs_table_append(t, &c, err));
    }
    return RS_OK;
}

/* ---- a row a candidate and layer ---- */

typedef struct layer_cells {
    const char *candidate;
    int32_t layer;
    double own, relative_own;
    rs_recommend_layer of;
} layer_cells;

#define LAYER(member, name, formula)                                                               \
    RS_CERTIFY_COLUMN(layer_cells, member, name, "measured", formula)
static const rs_column layer_columns[] = {
    {.name = "candidate", RS_CELL(layer_cells, candidate), .formula = "as in table recommendation"},
    {.name = "layer", RS_CELL(layer_cells, layer), .formula = "block, from 0; its mixer"},
    LAYER(own, "lambda_own", "the skip strength that the model has; null: no mixer with a skip"),
    LAYER(of.lambda, "lambda", "the skip strength recommended"),
    LAYER(relative_own, "relative_residual_own",
          "μ(X)/‖X‖_F behind the layer, of the model as it is; mean over the samples"),
    LAYER(of.relative, "relative_residual", "the same at the recommended λ"),
    LAYER(of.share, "branch_share", "‖αO‖_F/‖λX + αO‖_F of the mixer; mean over the samples"),
    LAYER(of.kept, "kept", "μ behind the mixer over μ before it, in the sample that keeps least"),
    RS_CERTIFY_BOUND(layer_cells, of.proved, "kept_certified", LOWER,
                     "the exact layer keeps at least this of μ of the state that enters, in every "
                     "sample (kept_now less its error, table lambda)"),
    RS_CERTIFY_COLUMN(layer_cells, of.unproved, "kept_certified_failed", "certified",
                      "why there is no such number"),
};
const rs_table_kind rs_certify_recommendation_layers_kind = {
    "certify", "recommendation_layers", {RS_PART(layer_columns)}};

static rs_status layers_table(rs_result *result, const rs_recommending *w, rs_error *err)
{
    rs_table *t;
    RS_TRY(rs_result_add_table(result, "recommendation_layers", "And layer by layer",
                               "λ of each layer's mixer, own and recommended, what is left behind "
                               "the layer, and what is certified of the mixer",
                               layer_columns, COUNT(layer_columns), &t, err));
    for (int k = 0; k < RS_RECOMMEND_KINDS; k++)
        for (int32_t l = 0; w->of[k].tried && l < w->layers; l++) {
            const layer_cells c = {.candidate = rs_recommend_kind_name((rs_recommend_kind)k),
                                   .layer = l,
                                   .own = w->own[l],
                                   .relative_own = w->of[RS_RECOMMEND_NONE].layers[l].relative,
                                   .of = w->of[k].layers[l]};
            if (w->of[k].found || k == RS_RECOMMEND_NONE) RS_TRY(rs_table_append(t, &c, err));
        }
    return RS_OK;
}

/* ---- in words ---- */

typedef char number[RS_NUMBER_SIZE];

static const char *brief(number out, double value)
{
    if (isfinite(value))
        rs_number_brief(out, value, 4);
    else
        snprintf(out, sizeof(number), "none");
    return out;
}

static rs_status say(rs_result *result, rs_severity severity, const char *code, double value,
                     const rs_recommending *w, const char *message, const char *hint, rs_error *err)
{
    rs_finding f = rs_finding_of(severity, code);
    f.value = value;
    f.threshold = w->kept;
    f.message = message;
    f.hint = hint;
    f.table = "recommendation";
    return rs_result_add_finding(result, &f, err);
}

static rs_status say_found(rs_result *result, const rs_recommending *w, const rs_recommended *best,
                           const char *hint, rs_error *err)
{
    const rs_recommended *own = &w->of[RS_RECOMMEND_NONE], *one = w->of,
                         *each = &w->of[RS_RECOMMEND_LAYERS];
    char message[1000];
    number kept, now, then, change, growth, share, text;
    int used = snprintf(message, sizeof message,
                        "to keep %s of relative μ behind the last layer (as it is %s): ",
                        brief(kept, w->kept), brief(now, own->relative));
    for (int k = RS_RECOMMEND_POSITIVE, n = 0; k <= RS_RECOMMEND_NEGATIVE; k++)
        if (one[k].found)
            used += snprintf(message + used, sizeof message - (size_t)used,
                             "%sλ = %s for all mixers (from %s)", n++ ? " or " : "",
                             brief(then, one[k].lambda), brief(text, w->centre));
    if (each->found)
        used += snprintf(message + used, sizeof message - (size_t)used,
                         "; a λ per layer changes them by %s in the root mean square, not %s",
                         brief(change, each->change), brief(text, best->change));
    used += snprintf(message + used, sizeof message - (size_t)used,
                     "; at the nearer λ ‖X‖_F grows by %s decades over the layers instead of %s, "
                     "branches are %s of the sums",
                     brief(growth, best->log10_growth), brief(text, own->log10_growth),
                     brief(share, best->share));
    if (isfinite(best->logits))
        used += snprintf(message + used, sizeof message - (size_t)used,
                         ", logits change by %s of their size", brief(text, best->logits));
    if (isfinite(best->loss))
        used +=
            snprintf(message + used, sizeof message - (size_t)used, ", the loss goes from %s to %s",
                     brief(now, own->loss), brief(then, best->loss));
    snprintf(message + used, sizeof message - (size_t)used,
             "; found by search and checked by a run, which proves nothing of other inputs; what a "
             "mixer keeps is certified in %lld of %lld cases",
             (long long)best->proved, (long long)best->cases);
    return say(result, RS_INFO, "lambda_recommended", best->lambda, w, message, hint, err);
}

static rs_status say_words(rs_result *result, const rs_recommending *w, rs_error *err)
{
    const rs_recommended *own = &w->of[RS_RECOMMEND_NONE], *best = NULL;
    char message[400], hint[200];
    number kept, now, limit;
    for (int k = RS_RECOMMEND_POSITIVE; k <= RS_RECOMMEND_NEGATIVE; k++)
        if (w->of[k].found && (!best || w->of[k].change < best->change)) best = &w->of[k];
    brief(kept, w->kept), brief(now, own->relative), brief(limit, w->limit);
    if (best) {
        snprintf(hint, sizeof hint,
                 "'--lambda %s' runs it; column option of table recommendation has the others",
                 best->option);
        return say_found(result, w, best, hint, err);
    }
    if (own->found) {
        snprintf(message, sizeof message,
                 "%s of relative μ is left behind the last layer, no less than the %s asked for: "
                 "no change of the skip strengths is needed",
                 now, kept);
        return say(result, RS_INFO, "lambda_recommended", own->relative, w, message, NULL, err);
    }
    if (!w->of[RS_RECOMMEND_POSITIVE].tried) return RS_OK; /* no sample has a token */
    snprintf(message, sizeof message,
             "no one λ of the search, up to |λ| = %s on either side, keeps %s of relative μ behind "
             "the last layer (as it is %s)",
             limit, kept, now);
    return say(
        result, RS_WARN, "lambda_out_of_reach", own->relative, w, message,
        "ask for less: relative μ of what enters is state 0 of 'rankscope probe --table tokens'",
        err);
}

rs_status rs_recommend_tables(rs_result *result, const rs_recommending *w, rs_error *err)
{
    RS_TRY(candidates_table(result, w, err));
    RS_TRY(layers_table(result, w, err));
    return say_words(result, w, err);
}
