/* certify_tables.c: tables summary, bounds and chains. */
#include "certify/certify_parts.h"

#include <math.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- bounds ---- */

/* Columns in the order of the enum. */
enum {
    SAMPLE,
    LAYER,
    MEASURED,
    LOG_MEASURED,
    CERTIFIED,
    LOG_CERTIFIED,
    PUBLISHED,
    LOG_PUBLISHED,
    PUBLISHED_VALID,
    PREDICTED,
    LOG_PREDICTED,
    RATE_CLASS,
    ENTERING,
    SOURCE,
    CERTIFIED_CONDITIONAL,
    VACUOUS,
    ONE_STEP,
    LOG_ONE_STEP,
    ONE_STEP_CONDITIONAL,
    FROM_INPUT,
    LOG_FROM_INPUT,
    FROM_INPUT_CONDITIONAL,
    LOWER,
    LOG_LOWER,
    LOWER_CONDITIONAL,
    LOWER_BY,
    CERTIFIED_FAILED,
    RESIDUAL_1INF,
    LOG_RESIDUAL_1INF,
    RESIDUAL_FRO,
    RELATIVE_RESIDUAL,
    AT_FLOOR,
    PUBLISHED_FAILED,
    PUBLISHED_LAYER,
    LOG_PUBLISHED_LAYER,
    RECURSION,
    LOG_RECURSION,
    RECURSION_CONDITIONAL,
    RECURSION_LAYER,
    LOG_RECURSION_LAYER,
    RECURSION_LAYER_CONDITIONAL,
    RECURSION_FAILED,
    GAMMA_MIN,
    BETA,
    RANGE_MAX,
    TAU,
    PREDICTION_ERROR,
    PREDICTION_FAILED,
    RATE_MEASURED,
    RATE_PREDICTED,
    RATE_LAW,
    RATE_EVIDENCE,
    COLUMNS
};

#define CONDITIONAL_COLUMN(name)                                                                   \
    RS_BOOL_COLUMN(name "_conditional", "certified",                                               \
                   name " holds if the exact layers apply the mixing matrices that the float64 "   \
                        "pass met, and is not proved (C9)")

static const rs_column bound_columns[COLUMNS] = {
    [SAMPLE] = {.name = "sample", .type = RS_COLUMN_INT, .formula = "from 0"},
    [LAYER] = {.name = "layer", .type = RS_COLUMN_INT, .formula = "block, from 0"},
    [MEASURED] =
        RS_REAL_COLUMN("measured_diameter", "measured",
                       "max ‖X_i − X_j‖₂ of the tokens that leave the layer, float64 pass"),
    [LOG_MEASURED] = RS_REAL_COLUMN("log10_measured", "measured", "log10 of measured_diameter"),
    [CERTIFIED] = RS_REAL_COLUMN(
        "certified_diameter", "certified",
        "least of the proved upper bounds of the diameter that leaves the layer, over "
        "all measured states to start from (docs/certificates.md, C3 to C6)"),
    [LOG_CERTIFIED] = RS_REAL_COLUMN("log10_certified", "certified", "log10 of certified_diameter"),
    [PUBLISHED] =
        RS_REAL_COLUMN("published", "published",
                       "bound of ‖R‖₁,∞ behind the layer as published, from the input: "
                       "(4γβHλ/√d)^((3^l−1)/2) ‖R‖^(3^l), γ the least that this input allows (P2)"),
    [LOG_PUBLISHED] = RS_REAL_COLUMN("log10_published", "published", "log10 of published"),
    [PUBLISHED_VALID] =
        RS_BOOL_COLUMN("published_valid", "published",
                       "every hypothesis of the published theorem holds up to this layer"),
    [PREDICTED] =
        RS_REAL_COLUMN("predicted", "predicted",
                       "diameter behind the layer by the leading-order law from the measured state "
                       "that enters it"),
    [LOG_PREDICTED] = RS_REAL_COLUMN("log10_predicted", "predicted", "log10 of predicted"),
    [RATE_CLASS] = RS_TEXT_COLUMN("rate_class", "measured",
                                  "cubic, linear, causal_half or none; rate_evidence says why"),
    [ENTERING] =
        RS_REAL_COLUMN("entering_diameter", "measured", "diameter of the state that enters"),
    [SOURCE] = {.name = "source_layer",
                .type = RS_COLUMN_INT,
                .provenance = "certified",
                .formula = "certified_diameter starts from the measured state that enters this "
                           "layer"},
    [CERTIFIED_CONDITIONAL] = CONDITIONAL_COLUMN("certified_diameter"),
    [VACUOUS] = RS_BOOL_COLUMN("vacuous", "certified",
                               "certified_diameter says no more than the lengths of the tokens do"),
    [ONE_STEP] = RS_REAL_COLUMN("certified_one_layer", "certified",
                                "bound from the measured state that enters this very layer"),
    [LOG_ONE_STEP] = RS_REAL_COLUMN("log10_certified_one_layer", "certified", NULL),
    [ONE_STEP_CONDITIONAL] = CONDITIONAL_COLUMN("certified_one_layer"),
    [FROM_INPUT] = RS_REAL_COLUMN("certified_from_input", "certified",
                                  "bound from the measured state that enters layer 0"),
    [LOG_FROM_INPUT] = RS_REAL_COLUMN("log10_certified_from_input", "certified", NULL),
    [FROM_INPUT_CONDITIONAL] = CONDITIONAL_COLUMN("certified_from_input"),
    [LOWER] = RS_REAL_COLUMN(
        "certified_at_least", "certified",
        "proved lower bound of the diameter, from the measured state that enters this "
        "layer: the tokens stay at least that far apart"),
    [LOG_LOWER] = RS_REAL_COLUMN("log10_certified_at_least", "certified", NULL),
    [LOWER_CONDITIONAL] = CONDITIONAL_COLUMN("certified_at_least"),
    [LOWER_BY] =
        RS_TEXT_COLUMN("at_least_by", "certified",
                       "skip: C6; enclosure: the float64 pass with all its rounding bounded"),
    [CERTIFIED_FAILED] =
        RS_TEXT_COLUMN("certified_failed", "certified", "why there is no certificate"),
    [RESIDUAL_1INF] =
        RS_REAL_COLUMN("residual_1inf", "measured", "‖X − 1x̄ᵀ‖₁,∞ = √(‖·‖₁‖·‖∞) behind the layer"),
    [LOG_RESIDUAL_1INF] = RS_REAL_COLUMN("log10_residual_1inf", "measured", NULL),
    [RESIDUAL_FRO] = RS_REAL_COLUMN("residual_fro", "measured", "‖X − 1x̄ᵀ‖_F behind the layer"),
    [RELATIVE_RESIDUAL] = RS_REAL_COLUMN("relative_residual", "measured", "‖X − 1x̄ᵀ‖_F/‖X‖_F"),
    [AT_FLOOR] = RS_BOOL_COLUMN("at_floor", "measured", "the measured residual is rounding"),
    [PUBLISHED_FAILED] = RS_TEXT_COLUMN("published_failed", "published",
                                        "the first hypothesis of the published theorem that fails"),
    [PUBLISHED_LAYER] =
        RS_REAL_COLUMN("published_one_layer", "published",
                       "the published bound of this layer alone, from the measured residual "
                       "that enters it: 4γβHλ/√d ‖R‖³ (P1)"),
    [LOG_PUBLISHED_LAYER] = RS_REAL_COLUMN("log10_published_one_layer", "published", NULL),
    [RECURSION] = RS_REAL_COLUMN(
        "recursion", "certified",
        "corrected composite-norm recursion from the input, about the mean (C7, C8), rounded up"),
    [LOG_RECURSION] = RS_REAL_COLUMN("log10_recursion", "certified", NULL),
    [RECURSION_CONDITIONAL] = CONDITIONAL_COLUMN("recursion"),
    [RECURSION_LAYER] =
        RS_REAL_COLUMN("recursion_one_layer", "certified",
                       "the same for this layer alone, with the measured logit ranges and what "
                       "rounding may hide of them"),
    [LOG_RECURSION_LAYER] = RS_REAL_COLUMN("log10_recursion_one_layer", "certified", NULL),
    [RECURSION_LAYER_CONDITIONAL] = CONDITIONAL_COLUMN("recursion_one_layer"),
    [RECURSION_FAILED] =
        RS_TEXT_COLUMN("recursion_failed", "certified", "why the recursion does not apply"),
    [GAMMA_MIN] =
        RS_REAL_COLUMN("gamma_min", "measured",
                       "least γ for which the published chain holds, the largest over heads (at "
                       "most √(n/2))"),
    [BETA] = RS_REAL_COLUMN("beta", "measured", "max_h ‖W_QK‖₁ ‖W_h‖₁,∞"),
    [RANGE_MAX] =
        RS_REAL_COLUMN("range_max", "measured",
                       "max_h max_i range_j E_ij about the mean token; the published lemma asks "
                       "for ≤ 1.256"),
    [TAU] = RS_REAL_COLUMN("mixing_contraction", "measured",
                           "largest over heads of τ(P) = max TV(P_i, P_i')"),
    [PREDICTION_ERROR] = RS_REAL_COLUMN("prediction_error", "predicted", "‖R_pred − R‖_F/‖R‖_F"),
    [PREDICTION_FAILED] =
        RS_TEXT_COLUMN("prediction_failed", "predicted", "why there is no prediction"),
    [RATE_MEASURED] = RS_REAL_COLUMN("rate_measured", "measured",
                                     "relative residual behind the layer over the one before it"),
    [RATE_PREDICTED] =
        RS_REAL_COLUMN("rate_predicted", "predicted",
                       "the same with the predicted residual matrix, values and norms included"),
    [RATE_LAW] = RS_REAL_COLUMN("rate_law", "measured",
                                "|λ₂| of the mixing matrices, the largest over heads"),
    [RATE_EVIDENCE] = RS_TEXT_COLUMN("rate_evidence", "measured", NULL),
};

/* A bound by its logarithm: the plain column is null where it leaves the doubles. */
static void set_log(rs_table *t, size_t row, size_t plain, double log_value)
{
    double value = pow(10, log_value);
    if (value > 0 || log_value == -INFINITY) rs_table_set_real(t, row, plain, value);
    rs_table_set_real(t, row, plain + 1, log_value);
}

/* The same of a proved bound, whose logarithm was rounded up: pow may be a last digit below. */
static void set_log_up(rs_table *t, size_t row, size_t plain, double log_value)
{
    double value = pow(10, log_value);
    set_log(t, row, plain, log_value);
    if (value > 0) rs_table_set_real(t, row, plain, nextafter(value, (double)INFINITY));
}

static double log_of(double x)
{
    return x > 0 ? log10(x) : NAN;
}

/* A proved bound: its own rounding is upwards, pow's is not. */
static void set_upper(rs_table *t, size_t row, size_t plain, size_t twin, const rs_certificate *c)
{
    if (c->failed) return;
    rs_table_set_bool(t, row, twin, c->condition != NULL);
    if (c->upper > 0 || c->log_upper == -INFINITY) rs_table_set_real(t, row, plain, c->upper);
    rs_table_set_real(t, row, plain + 1, c->log_upper);
}

static bool vacuous(const rs_certify_row *r)
{
    const rs_certificate *best = &r->certificate.best;
    return !best->failed && r->out->longest > 0 && best->log_upper >= log10(2 * r->out->longest);
}

static rs_status add_certificates(rs_table *t, size_t row, const rs_certify_row *r, rs_error *err)
{
    const rs_certificate *best = &r->certificate.best, *one = &r->certificate.one_step;
    RS_TRY(rs_table_set_text(t, row, CERTIFIED_FAILED, best->failed, err));
    set_upper(t, row, CERTIFIED, CERTIFIED_CONDITIONAL, best);
    set_upper(t, row, ONE_STEP, ONE_STEP_CONDITIONAL, one);
    set_upper(t, row, FROM_INPUT, FROM_INPUT_CONDITIONAL, &r->certificate.from_input);
    if (best->failed) return RS_OK;
    rs_table_set_int(t, row, SOURCE, best->source);
    rs_table_set_bool(t, row, VACUOUS, vacuous(r));
    if (one->failed) return RS_OK;
    rs_table_set_real(t, row, LOWER, one->lower);
    rs_table_set_bool(t, row, LOWER_CONDITIONAL, one->condition != NULL);
    rs_table_set_real(t, row, LOG_LOWER, one->log_lower);
    return rs_table_set_text(t, row, LOWER_BY,
                             one->lower > 0 ? one->enclosed ? "enclosure" : "skip" : NULL, err);
}

static rs_status add_published(rs_table *t, size_t row, const rs_certify_row *r, rs_error *err)
{
    const rs_published_row *p = &r->published;
    set_log(t, row, PUBLISHED, p->log_depth);
    rs_table_set_bool(t, row, PUBLISHED_VALID, p->failed == NULL);
    RS_TRY(rs_table_set_text(t, row, PUBLISHED_FAILED, p->failed, err));
    set_log(t, row, PUBLISHED_LAYER, p->log_layer);
    set_log_up(t, row, RECURSION, p->log_recursion);
    set_log_up(t, row, RECURSION_LAYER, p->log_recursion_layer);
    if (!isnan(p->log_recursion)) rs_table_set_bool(t, row, RECURSION_CONDITIONAL, false);
    if (!isnan(p->log_recursion_layer))
        rs_table_set_bool(t, row, RECURSION_LAYER_CONDITIONAL, false);
    bool beyond = p->log_recursion == INFINITY || p->log_recursion_layer == INFINITY;
    const char *failed = p->recursion_failed;
    if (!failed && beyond) failed = "the bound is beyond any number";
    RS_TRY(rs_table_set_text(t, row, RECURSION_FAILED, failed, err));
    rs_table_set_real(t, row, GAMMA_MIN, p->gamma_min);
    rs_table_set_real(t, row, BETA, p->beta);
    rs_table_set_real(t, row, RANGE_MAX, p->range);
    return RS_OK;
}

static rs_status add_row(rs_table *t, const rs_certify_row *r, rs_error *err)
{
    size_t row;
    RS_TRY(rs_table_add_row(t, &row, err));
    rs_table_set_int(t, row, SAMPLE, r->sample);
    rs_table_set_int(t, row, LAYER, r->layer);
    rs_table_set_real(t, row, MEASURED, r->out->diameter);
    rs_table_set_real(t, row, LOG_MEASURED, log_of(r->out->diameter));
    rs_table_set_real(t, row, ENTERING, r->in->diameter);
    rs_table_set_real(t, row, RESIDUAL_1INF, r->out->residual_1inf);
    rs_table_set_real(t, row, LOG_RESIDUAL_1INF, log_of(r->out->residual_1inf));
    rs_table_set_real(t, row, RESIDUAL_FRO, r->out->residual_fro);
    rs_table_set_real(t, row, RELATIVE_RESIDUAL, r->out->relative_residual);
    if (r->out->finite) rs_table_set_bool(t, row, AT_FLOOR, r->out->at_floor);
    RS_TRY(add_certificates(t, row, r, err));
    RS_TRY(add_published(t, row, r, err));
    rs_table_set_real(t, row, PREDICTED, r->predicted.diameter);
    rs_table_set_real(t, row, LOG_PREDICTED, log_of(r->predicted.diameter));
    rs_table_set_real(t, row, PREDICTION_ERROR, r->predicted.error);
    RS_TRY(rs_table_set_text(t, row, PREDICTION_FAILED, r->predicted.reason, err));
    rs_table_set_real(t, row, TAU, r->tau);
    rs_table_set_real(t, row, RATE_MEASURED, r->rate.measured);
    rs_table_set_real(t, row, RATE_PREDICTED, r->rate.predicted);
    rs_table_set_real(t, row, RATE_LAW, r->rate.law);
    RS_TRY(rs_table_set_text(t, row, RATE_CLASS, r->rate.class, err));
    return rs_table_set_text(t, row, RATE_EVIDENCE, r->rate.evidence, err);
}

static rs_status bounds(rs_result *result, const rs_certified *c, rs_error *err)
{
    rs_table *t;
    RS_TRY(rs_result_add_table(result, "bounds", "Bounds by sample and layer",
                               "How far apart the tokens of each sample are behind each layer: "
                               "measured, proved, published and predicted",
                               bound_columns, COLUMNS, &t, err));
    for (int64_t i = 0; i < c->samples * c->network->n_layers; i++)
        if (c->rows[i].tokens) RS_TRY(add_row(t, &c->rows[i], err));
    return RS_OK;
}

/* ---- summary: a row a layer ---- */

static const rs_column summary_columns[] = {
    {.name = "layer", .type = RS_COLUMN_INT, .formula = "block, from 0"},
    {.name = "measured",
     .type = RS_COLUMN_REAL,
     .provenance = "measured",
     .formula = "largest diameter that leaves the layer, over the samples"},
    {.name = "at_floor",
     .type = RS_COLUMN_BOOL,
     .provenance = "measured",
     .formula = "what was measured is rounding in the sample with the largest diameter: the proved "
                "bounds may lie below it"},
    {.name = "at_most",
     .type = RS_COLUMN_REAL,
     .provenance = "certified",
     .formula = "certified_diameter, the largest over the samples; null where one has none, or one "
                "that hangs on a condition"},
    {.name = "log10_at_most",
     .type = RS_COLUMN_REAL,
     .provenance = "certified",
     .formula = "log10 of at_most"},
    {.name = "at_least",
     .type = RS_COLUMN_REAL,
     .provenance = "certified",
     .formula = "certified_at_least, the least over the samples; null likewise"},
    {.name = "tau",
     .type = RS_COLUMN_REAL,
     .provenance = "measured",
     .formula = "mixing_contraction, the largest over the samples"},
    {.name = "rate",
     .type = RS_COLUMN_TEXT,
     .provenance = "measured",
     .formula = "rate_class of most samples"},
};

static const char *common_rate(const rs_certified *c, int32_t l)
{
    static const char *const classes[] = {"none", "cubic", "linear", "causal_half"};
    int64_t counts[COUNT(classes)] = {0};
    size_t best = 0;
    for (int64_t s = 0; s < c->samples; s++)
        for (size_t k = 0; k < COUNT(classes); k++) {
            const rs_certify_row *r = &c->rows[s * c->network->n_layers + l];
            counts[k] += r->tokens && strcmp(r->rate.class, classes[k]) == 0;
        }
    for (size_t k = 1; k < COUNT(classes); k++)
        if (counts[k] > counts[best]) best = k;
    return classes[best];
}

static rs_status summary_table(rs_result *result, const rs_certified *c, rs_error *err)
{
    rs_table *t;
    RS_TRY(rs_result_add_table(result, c->options->beside ? "certificate" : "summary",
                               "How far apart the tokens are, and must be",
                               "Token diameter behind each layer: measured, proved to be at most "
                               "and at least; the worst over the samples",
                               summary_columns, COUNT(summary_columns), &t, err));
    for (int32_t l = 0; l < c->network->n_layers; l++) {
        double measured = NAN, log_most = -INFINITY, most = 0, least = INFINITY, tau = NAN;
        size_t row;
        bool any = false, rounding = false, kept = true; /* kept: every sample has a lower bound */
        for (int64_t s = 0; s < c->samples; s++) {
            const rs_certify_row *r = &c->rows[s * c->network->n_layers + l];
            if (!r->tokens) continue;
            any = true;
            if (!(r->out->diameter <= measured)) rounding = r->out->at_floor;
            measured = fmax(measured, r->out->diameter);
            const rs_certificate *best = &r->certificate.best, *one = &r->certificate.one_step;
            log_most = fmax(log_most, best->condition ? INFINITY : best->log_upper);
            most = fmax(most, best->condition ? INFINITY : best->upper);
            if (one->condition || one->failed) kept = false;
            least = fmin(least, one->lower);
            tau = fmax(tau, r->tau);
        }
        RS_TRY(rs_table_add_row(t, &row, err));
        rs_table_set_int(t, row, 0, l);
        if (!any) continue;
        rs_table_set_real(t, row, 1, measured);
        if (isfinite(measured)) rs_table_set_bool(t, row, 2, rounding);
        rs_table_set_real(t, row, 3, most);
        rs_table_set_real(t, row, 4, log_most);
        if (kept) rs_table_set_real(t, row, 5, least);
        rs_table_set_real(t, row, 6, tau);
        RS_TRY(rs_table_set_text(t, row, 7, common_rate(c, l), err));
    }
    return RS_OK;
}

/* ---- chains ---- */

static const rs_column chain_columns[] = {
    {.name = "source_layer",
     .type = RS_COLUMN_INT,
     .formula = "the chain starts from the measured state that enters this layer"},
    {.name = "layer", .type = RS_COLUMN_INT, .formula = "and is carried through this one"},
    {.name = "certified_diameter",
     .type = RS_COLUMN_REAL,
     .provenance = "certified",
     .formula = "upper bound behind it, the largest over the samples"},
    {.name = "log10_certified", .type = RS_COLUMN_REAL, .provenance = "certified"},
    {.name = "log10_weights_only",
     .type = RS_COLUMN_REAL,
     .provenance = "certified",
     .formula =
         "the same with the mixings bounded from the weights, tanh(scale·‖W_QK‖₂δ²/4), where "
         "the logits are bilinear"},
};

static rs_status chains(rs_result *result, const rs_certified *c, rs_error *err)
{
    rs_table *t;
    int32_t layers = c->network->n_layers;
    RS_TRY(
        rs_result_add_table(result, "chains", "Measure until small, then certify",
                            "Certificates from each measured state through all layers behind it; "
                            "the largest over the samples. Null where a sample has none that is "
                            "proved",
                            chain_columns, COUNT(chain_columns), &t, err));
    for (int32_t source = 0; source < layers; source++)
        for (int32_t l = source; l < layers; l++) {
            double value = c->chains[(int64_t)source * layers + l];
            size_t row;
            if (isnan(value)) continue;
            RS_TRY(rs_table_add_row(t, &row, err));
            rs_table_set_int(t, row, 0, source);
            rs_table_set_int(t, row, 1, l);
            set_log_up(t, row, 2, value);
            rs_table_set_real(t, row, 4, c->weight_chains[(int64_t)source * layers + l]);
        }
    return RS_OK;
}

rs_status rs_certify_tables(rs_result *result, const rs_certified *c, rs_error *err)
{
    RS_TRY(summary_table(result, c, err));
    RS_TRY(bounds(result, c, err));
    return chains(result, c, err);
}
