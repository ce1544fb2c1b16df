/* predict_findings.c: what of an architecture a person should know beside its verdict. */
#include "predict/remedies.h"

#include <math.h>
#include <stdio.h>

double rs_predict_embedding_ratio(const rs_predict_run *run)
{
    const rs_forecast *f = &run->forecast;
    return f->n_layers < 1 ? NAN : f->rows[1].square - f->rows[0].square;
}

/* Embeddings so small that the first block's output hides them. */
static rs_status find_swamped(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    double decades = rs_predict_embedding_ratio(run),
           most = run->options->thresholds.embedding_ratio;
    char message[160], factor[32];
    if (!(decades > log10(most))) return RS_OK;
    snprintf(message, sizeof message,
             "The first block multiplies ‖X‖² by %s: what entered is "
             "hardly left in the states behind it.",
             rs_predict_power(factor, decades));
    rs_finding finding = rs_finding_of(RS_INFO, "embedding_swamped");
    finding.layer = 0;
    finding.value = pow(10, decades);
    finding.threshold = most;
    finding.message = message;
    finding.hint = "larger embeddings (a norm behind them, or times sqrt(d)) or smaller outputs of "
                   "the branches (\"branch_mixer\": \"1/sqrt(L)\")";
    finding.table = "forward";
    return rs_result_add_finding(result, &finding, err);
}

bool rs_predict_condensed(double keys, const rs_predict_run *run)
{
    double part = run->options->thresholds.condensed, n = (double)run->design->input.n;
    return n > 1 && 1 / keys > part + (1 - part) / n;
}

static rs_status find_condensed(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    const rs_forecast *f = &run->forecast;
    double bound = run->options->thresholds.condensed;
    char message[160];
    for (int32_t l = 0; l < f->n_layers; l++) {
        if (!rs_predict_condensed(f->rows[l].keys, run)) continue;
        snprintf(message, sizeof message,
                 "Attention of layer %d has %.2f effective keys: it is condensed before training.",
                 (int)l, f->rows[l].keys);
        rs_finding finding = rs_finding_of(RS_WARN, "condensed_attention");
        finding.layer = l;
        finding.value = 1 / f->rows[l].keys;
        finding.threshold = bound;
        finding.message = message;
        finding.hint = "smaller query and key weights, or a temperature above 1";
        finding.table = "forward";
        RS_TRY(rs_result_add_finding(result, &finding, err));
    }
    return RS_OK;
}

/* What makes it so small in this layer, where that is no matter of depth. */
static const char *vanishing_hint(const rs_predict_run *run, int32_t l)
{
    const rs_theory_layer *layer = &rs_theory_model_network(run->design->theory)->layers[l];
    if (run->design->input.n == 1)
        return "one token sees itself alone: whatever queries and keys are, attention is the same";
    if (run->forecast.rows[l].apart == -INFINITY)
        return "its tokens are equal: whatever queries and keys are, attention gives the same; let "
               "tokens differ (\"input\": {\"rho\": 0})";
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_theory_branch *branch = &layer->branches[b];
        if (branch->is_mlp || branch->refused) continue;
        if (branch->attention.keys == 0) return "W_K = 0 gives queries no gradient until keys move";
        if (branch->attention.softmax == 0)
            return "the softmax has no share in this attention until training gives it one";
    }
    return "branches times 1/sqrt(L); the answer on queries says whether a temperature helps";
}

static rs_status find_vanishing(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    const rs_forecast *f = &run->forecast;
    char message[160], part[32];
    for (int32_t l = 0; l < f->n_layers; l++) {
        double ratio = rs_forecast_ratio(f, l);
        if (!(ratio < -6)) continue;
        snprintf(message, sizeof message,
                 "Queries of layer %d have %s of the values' squared gradient.", (int)l,
                 isfinite(ratio) ? rs_predict_power(part, ratio) : "exactly none");
        rs_finding finding = rs_finding_of(RS_WARN, "vanishing_qk_gradient");
        finding.layer = l;
        finding.value = pow(10, ratio);
        finding.threshold = 1e-6;
        finding.message = message;
        finding.hint = vanishing_hint(run, l);
        finding.table = "backward";
        RS_TRY(rs_result_add_finding(result, &finding, err));
    }
    return RS_OK;
}

/* Theory and trials each have a verdict. */
static rs_status find_difference(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    rs_predict_verdict theory = run->forecast.found.verdict, measured = run->measured.found.verdict;
    char message[200];
    bool said = theory != RS_PREDICT_UNKNOWN && measured != RS_PREDICT_UNKNOWN;
    /* what the states above the rounding floor say is of fewer layers */
    bool same_layers = !run->measured.found.to_floor;
    if (!run->trials || !said || theory == measured || !same_layers) return RS_OK;
    const rs_predict_gap gap = rs_predict_widest_gap(run);
    snprintf(message, sizeof message, "Theory says %s, %d networks that were drawn say %s.",
             rs_predict_verdict_code(theory), (int)run->trials->trials,
             rs_predict_verdict_code(measured));
    rs_finding finding = rs_finding_of(RS_WARN, "verdict_differs");
    finding.message = message;
    finding.value = gap.quantity ? gap.errors : NAN;
    finding.hint = gap.assumption ? gap.assumption : "take more trials";
    finding.table = "forward";
    return rs_result_add_finding(result, &finding, err);
}

static rs_status find_overflow(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    const rs_trials *t = run->trials;
    char message[200];
    if (!t || t->left_forward + t->left_back == 0) return RS_OK;
    bool forward = t->left_forward > 0;
    snprintf(
        message, sizeof message,
        "%d of %d trials left the range of float64 %son the way %s, first at layer %d; numbers "
        "behind it are of the others.",
        (int)(forward ? t->left_forward : t->left_back), (int)t->trials,
        t->left_below ? "below " : "", forward ? "forward" : "back",
        (int)(forward ? t->left_layer : t->left_back_layer));
    rs_finding finding = rs_finding_of(RS_WARN, "trials_overflow");
    finding.layer = forward ? t->left_layer : t->left_back_layer;
    finding.message = message;
    finding.hint = "theory's log10 columns go on; a norm or smaller branches keep states in range";
    finding.table = "forward";
    return rs_result_add_finding(result, &finding, err);
}

/* The first change that helps and makes no other answer worse; NULL: there is none. */
static const rs_remedied *best_change(const rs_predict_run *run)
{
    for (size_t i = 0; run->remedies && i < run->remedies->n; i++) {
        const rs_remedied *r = &run->remedies->list[i];
        if (r->made && !r->worse_at[0] && rs_remedy_helps(r, rs_predict_changing(run))) return r;
    }
    return NULL;
}

static rs_status recommend(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    const rs_remedied *best = best_change(run);
    char message[240], was[48], is[48];
    if (!best) return RS_OK;
    const rs_remedy_side before = rs_remedy_before(best, rs_predict_changing(run)),
                         then = rs_remedy_then(best);
    rs_predict_verdict now = before.found.verdict;
    bool collapsed = now > RS_PREDICT_HEALTHY && then.found.verdict <= now;
    bool unnamed = now == RS_PREDICT_UNKNOWN && isnan(before.apart) && isfinite(then.apart) &&
                   (!isnan(before.most) || before.growth == -INFINITY);
    if (!collapsed && !unnamed) return RS_OK;
    snprintf(message, sizeof message, "%s makes it %s: 1 − ρ %s → %s, %s.", best->remedy->name,
             rs_predict_verdict_code(then.found.verdict), rs_remedy_say_apart(was, &before),
             rs_remedy_say_apart(is, &then),
             best->measured && !best->beyond ? "of networks that were drawn" : "by theory");
    rs_finding finding = rs_finding_of(RS_INFO, "recommendation");
    finding.message = message;
    finding.value = pow(10, then.apart);
    finding.threshold = pow(10, before.apart);
    finding.hint = best->remedy->says;
    finding.table = "remedies";
    return rs_result_add_finding(result, &finding, err);
}

rs_status rs_predict_findings(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    RS_TRY(find_swamped(result, run, err));
    RS_TRY(find_condensed(result, run, err));
    RS_TRY(find_vanishing(result, run, err));
    RS_TRY(find_difference(result, run, err));
    RS_TRY(find_overflow(result, run, err));
    return recommend(result, run, err);
}
