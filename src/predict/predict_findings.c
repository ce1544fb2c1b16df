/* predict_findings.c: what of an architecture a person should know beside its verdict. */
#include "predict/predict_parts.h"

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
    char message[160];
    if (!(decades > log10(most))) return RS_OK;
    snprintf(message, sizeof message,
             "The first block multiplies ‖X‖² by 10^%.2g: what entered is "
             "hardly left in the states behind it.",
             decades);
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

static rs_status find_condensed(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    const rs_forecast *f = &run->forecast;
    double bound = run->options->thresholds.condensed;
    char message[160];
    for (int32_t l = 0; l < f->n_layers; l++) {
        /* with one key or two a row is condensed whatever its logits */
        if (run->design->input.n < 3 || !(1 / f->rows[l].keys > bound)) continue;
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

static rs_status find_vanishing(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    const rs_forecast *f = &run->forecast;
    char message[160];
    for (int32_t l = 0; l < f->n_layers; l++) {
        double ratio = rs_forecast_ratio(f, l);
        if (!(ratio < -6)) continue;
        snprintf(message, sizeof message,
                 "Queries of layer %d have 10^%.1f of the values' squared gradient.", (int)l,
                 ratio);
        rs_finding finding = rs_finding_of(RS_WARN, "vanishing_qk_gradient");
        finding.layer = l;
        finding.value = pow(10, ratio);
        finding.threshold = 1e-6;
        finding.message = message;
        finding.hint = "branches times 1/sqrt(L), or a lower temperature";
        finding.table = "backward";
        RS_TRY(rs_result_add_finding(result, &finding, err));
    }
    return RS_OK;
}

rs_status rs_predict_findings(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    RS_TRY(find_swamped(result, run, err));
    RS_TRY(find_condensed(result, run, err));
    return find_vanishing(result, run, err);
}
