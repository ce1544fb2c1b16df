/* certify_tables.c: tables summary, bounds and chains. */
#include "certify/certify_parts.h"

#include <math.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- bounds ---- */

/* A bound and its logarithm to base 10; the plain number is null where it leaves the doubles. */
typedef struct logged {
    double plain, log;
    rs_truth conditional; /* unknown: there is no bound */
} logged;

/* A row of table bounds. */
typedef struct bound_cells {
    rs_certify_row of;
    rs_certify_state in, out;
    logged certified, one_step, from_input, lower;
    logged published, published_layer, recursion, recursion_layer;
    double log_measured, log_residual_1inf, log_predicted;
    rs_truth at_floor, vacuous;
    bool published_valid;
    int32_t source;
    const char *lower_by, *recursion_failed;
} bound_cells;

#define COLUMN(member, name, kind, formula)                                                        \
    RS_CERTIFY_COLUMN(bound_cells, member, name, kind, formula)
#define BOUND(member, name, side, formula)                                                         \
    RS_CERTIFY_BOUND(bound_cells, member, name, side, formula)
#define TWIN(member, name)                                                                         \
    COLUMN(member.conditional, name "_conditional", "certified",                                   \
           name " holds if the exact layers apply the mixing matrices that the float64 pass met, " \
                "and is not proved (C9)")

static const rs_column bound_columns[] = {
    {.name = "sample", RS_CELL(bound_cells, of.sample), .formula = "from 0"},
    {.name = "layer", RS_CELL(bound_cells, of.layer), .formula = "block, from 0"},
    COLUMN(out.diameter, "measured_diameter", "measured",
           "max ‖X_i − X_j‖₂ of the tokens that leave the layer, float64 pass"),
    COLUMN(log_measured, "log10_measured", "measured", "log10 of measured_diameter"),
    BOUND(certified.plain, "certified_diameter", UPPER,
          "least of the proved upper bounds of the diameter that leaves the layer, over "
          "all measured states to start from (docs/certificates.md, C3 to C6)"),
    BOUND(certified.log, "log10_certified", UPPER, "log10 of certified_diameter"),
    COLUMN(published.plain, "published", "published",
           "bound of ‖R‖₁,∞ behind the layer as published, from the input: "
           "(4γβHλ/√d)^((3^l−1)/2) ‖R‖^(3^l), γ the least that this input allows (P2)"),
    COLUMN(published.log, "log10_published", "published", "log10 of published"),
    COLUMN(published_valid, "published_valid", "published",
           "every hypothesis of the published theorem holds up to this layer"),
    COLUMN(of.predicted.diameter, "predicted", "predicted",
           "diameter behind the layer by the leading-order law from the measured state "
           "that enters it"),
    COLUMN(log_predicted, "log10_predicted", "predicted", "log10 of predicted"),
    COLUMN(of.rate.class, "rate_class", "measured",
           "cubic, linear, causal_half or none; rate_evidence says why"),
    COLUMN(in.diameter, "entering_diameter", "measured", "diameter of the state that enters"),
    COLUMN(source, "source_layer", "certified",
           "certified_diameter starts from the measured state that enters this "
           "layer"),
    TWIN(certified, "certified_diameter"),
    COLUMN(vacuous, "vacuous", "certified",
           "certified_diameter says no more than the lengths of the tokens do"),
    BOUND(one_step.plain, "certified_one_layer", UPPER,
          "bound from the measured state that enters this very layer"),
    BOUND(one_step.log, "log10_certified_one_layer", UPPER, NULL),
    TWIN(one_step, "certified_one_layer"),
    BOUND(from_input.plain, "certified_from_input", UPPER,
          "bound from the measured state that enters layer 0"),
    BOUND(from_input.log, "log10_certified_from_input", UPPER, NULL),
    TWIN(from_input, "certified_from_input"),
    BOUND(lower.plain, "certified_at_least", LOWER,
          "proved lower bound of the diameter, from the measured state that enters this "
          "layer: the tokens stay at least that far apart"),
    BOUND(lower.log, "log10_certified_at_least", LOWER, NULL),
    TWIN(lower, "certified_at_least"),
    COLUMN(
        lower_by, "at_least_by", "certified",
        "skip: C6; enclosure: the float64 pass with all its rounding bounded; mixer: kept_now of "
        "table lambda, in layers of mixers alone"),
    COLUMN(of.certificate.best.failed, "certified_failed", "certified",
           "why there is no certificate"),
    COLUMN(out.residual_1inf, "residual_1inf", "measured",
           "‖X − 1x̄ᵀ‖₁,∞ = √(‖·‖₁‖·‖∞) behind the layer"),
    COLUMN(log_residual_1inf, "log10_residual_1inf", "measured", NULL),
    COLUMN(out.residual_fro, "residual_fro", "measured", "‖X − 1x̄ᵀ‖_F behind the layer"),
    COLUMN(out.relative_residual, "relative_residual", "measured", "‖X − 1x̄ᵀ‖_F/‖X‖_F"),
    COLUMN(at_floor, "at_floor", "measured", "the measured residual is rounding"),
    COLUMN(of.published.failed, "published_failed", "published",
           "the first hypothesis of the published theorem that fails"),
    COLUMN(published_layer.plain, "published_one_layer", "published",
           "the published bound of this layer alone, from the measured residual "
           "that enters it: 4γβHλ/√d ‖R‖³ (P1)"),
    COLUMN(published_layer.log, "log10_published_one_layer", "published", NULL),
    BOUND(recursion.plain, "recursion", UPPER,
          "corrected composite-norm recursion from the input, about the mean (C7, C8), rounded up"),
    BOUND(recursion.log, "log10_recursion", UPPER, NULL),
    TWIN(recursion, "recursion"),
    BOUND(recursion_layer.plain, "recursion_one_layer", UPPER,
          "the same for this layer alone, with the measured logit ranges and what "
          "rounding may hide of them"),
    BOUND(recursion_layer.log, "log10_recursion_one_layer", UPPER, NULL),
    TWIN(recursion_layer, "recursion_one_layer"),
    COLUMN(recursion_failed, "recursion_failed", "certified", "why the recursion does not apply"),
    COLUMN(of.published.gamma_min, "gamma_min", "measured",
           "least γ for which the published chain holds, the largest over heads (at "
           "most √(n/2))"),
    COLUMN(of.published.beta, "beta", "measured", "max_h ‖W_QK‖₁ ‖W_h‖₁,∞"),
    COLUMN(of.published.range, "range_max", "measured",
           "max_h max_i range_j E_ij about the mean token; the published lemma asks "
           "for ≤ 1.256"),
    COLUMN(of.tau, "mixing_contraction", "measured",
           "largest over heads of τ(P) = max TV(P_i, P_i')"),
    BOUND(of.mlp.lipschitz, "mlp_lipschitz", UPPER,
          "the MLP moves no two rows that are no longer than these tokens' apart by more than this "
          "factor: ‖W_up‖₂‖W_down‖₂ L of the activation (C5), without its skip and strength"),
    COLUMN(of.mlp.stretch, "mlp_stretch", "measured",
           "the largest factor met between two tokens of the sample; those closer than 1e-6 of the "
           "longest row are left out; null where rounding could be a thousandth of it, as beside "
           "biases far longer than the tokens"),
    COLUMN(of.predicted.error, "prediction_error", "predicted", "‖R_pred − R‖_F/‖R‖_F"),
    COLUMN(of.predicted.reason, "prediction_failed", "predicted", "why there is no prediction"),
    COLUMN(of.rate.measured, "rate_measured", "measured",
           "relative residual behind the layer over the one before it"),
    COLUMN(of.rate.predicted, "rate_predicted", "predicted",
           "the same with the predicted residual matrix, values and norms included"),
    COLUMN(of.rate.law, "rate_law", "measured",
           "|λ₂| of the mixing matrices, the largest over heads"),
    COLUMN(of.rate.evidence, "rate_evidence", "measured", NULL),
};
const rs_table_kind rs_certify_bounds_kind = {"certify", "bounds", {RS_PART(bound_columns)}};

/* A bound by its logarithm. */
static void set_log(logged *bound, double log_value)
{
    double value = pow(10, log_value);
    if (value > 0 || log_value == -INFINITY) bound->plain = value;
    bound->log = log_value;
}

/* The same of a proved bound, whose logarithm was rounded up: pow may be a last digit below. */
static void set_log_up(logged *bound, double log_value)
{
    double value = pow(10, log_value);
    set_log(bound, log_value);
    if (value > 0) bound->plain = nextafter(value, (double)INFINITY);
}

static double log_of(double x)
{
    return x > 0 ? log10(x) : NAN;
}

/* A proved bound: its own rounding is upwards, pow's is not. */
static void set_upper(logged *bound, const rs_certificate *c)
{
    if (c->failed) return;
    bound->conditional = c->condition != NULL;
    if (c->upper > 0 || c->log_upper == -INFINITY) bound->plain = c->upper;
    bound->log = c->log_upper;
}

static bool vacuous(const rs_certify_row *r)
{
    const rs_certificate *best = &r->certificate.best;
    return !best->failed && r->out->longest > 0 && best->log_upper >= log10(2 * r->out->longest);
}

static void set_certificates(bound_cells *cells, const rs_certify_row *r)
{
    const rs_certificate *best = &r->certificate.best, *one = &r->certificate.one_step;
    set_upper(&cells->certified, best);
    set_upper(&cells->one_step, one);
    set_upper(&cells->from_input, &r->certificate.from_input);
    if (!r->apart.failed) {
        cells->lower = (logged){r->apart.lower, r->apart.log_lower, r->apart.condition != NULL};
        cells->lower_by = r->apart.by;
    }
    if (best->failed) return;
    cells->source = best->source;
    cells->vacuous = vacuous(r);
}

static void set_published(bound_cells *cells, const rs_published_row *p)
{
    set_log(&cells->published, p->log_depth);
    cells->published_valid = p->failed == NULL;
    set_log(&cells->published_layer, p->log_layer);
    set_log_up(&cells->recursion, p->log_recursion);
    set_log_up(&cells->recursion_layer, p->log_recursion_layer);
    if (!isnan(p->log_recursion)) cells->recursion.conditional = false;
    if (!isnan(p->log_recursion_layer)) cells->recursion_layer.conditional = false;
    bool beyond = p->log_recursion == INFINITY || p->log_recursion_layer == INFINITY;
    cells->recursion_failed = p->recursion_failed;
    if (!cells->recursion_failed && beyond)
        cells->recursion_failed = "the bound is beyond any number";
}

static rs_status add_row(rs_table *t, const rs_certify_row *r, rs_error *err)
{
    bound_cells cells;
    rs_columns_clear(bound_columns, COUNT(bound_columns), &cells);
    cells.of = *r;
    cells.in = *r->in;
    cells.out = *r->out;
    cells.log_measured = log_of(r->out->diameter);
    cells.log_residual_1inf = log_of(r->out->residual_1inf);
    cells.log_predicted = log_of(r->predicted.diameter);
    if (r->out->finite) cells.at_floor = r->out->at_floor;
    set_certificates(&cells, r);
    set_published(&cells, &r->published);
    return rs_table_append(t, &cells, err);
}

static rs_status bounds(rs_result *result, const rs_certified *c, rs_error *err)
{
    rs_table *t;
    RS_TRY(rs_result_add_table(result, "bounds", "Bounds by sample and layer",
                               "How far apart the tokens of each sample are behind each layer: "
                               "measured, proved, published and predicted",
                               bound_columns, COUNT(bound_columns), &t, err));
    rs_table_show_first(t, "sample,layer,measured_diameter,certified_at_least,certified_diameter,"
                           "log10_certified,predicted,published_valid,rate_class");
    for (int64_t i = 0; i < c->samples * c->network->n_layers; i++)
        if (c->rows[i].tokens) RS_TRY(add_row(t, &c->rows[i], err));
    return RS_OK;
}

/* ---- summary: a row a layer ---- */

/* A row of table summary. */
typedef struct summary_cells {
    int32_t layer;
    double measured, at_most, log_at_most, at_least, tau;
    rs_truth at_floor;
    const char *rate;
} summary_cells;

#define SUMMARY(member, name, kind, formula)                                                       \
    RS_CERTIFY_COLUMN(summary_cells, member, name, kind, formula)
#define SUMMARY_BOUND(member, name, side, formula)                                                 \
    RS_CERTIFY_BOUND(summary_cells, member, name, side, formula)

static const rs_column summary_columns[] = {
    {.name = "layer", RS_CELL(summary_cells, layer), .formula = "block, from 0"},
    SUMMARY(measured, "measured", "measured",
            "largest diameter that leaves the layer, over the samples"),
    SUMMARY(at_floor, "at_floor", "measured",
            "what was measured is rounding in the sample with the largest diameter: the proved "
            "bounds may lie below it"),
    SUMMARY_BOUND(
        at_most, "at_most", UPPER,
        "certified_diameter, the largest over the samples; null where one has none, or one "
        "that hangs on a condition"),
    SUMMARY_BOUND(log_at_most, "log10_at_most", UPPER, "log10 of at_most"),
    SUMMARY_BOUND(at_least, "at_least", LOWER,
                  "certified_at_least, the least over the samples; null likewise"),
    SUMMARY(tau, "tau", "measured", "mixing_contraction, the largest over the samples"),
    SUMMARY(rate, "rate", "measured", "rate_class of most samples"),
};
const rs_table_kind rs_certify_summary_kind = {"certify", "summary", {RS_PART(summary_columns)}};

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

/* The worst over the samples. */
static void set_summary(summary_cells *cells, const rs_certified *c, int32_t l)
{
    bool any = false, rounding = false, kept = true; /* kept: every sample has a lower bound */
    double measured = NAN, log_most = -INFINITY, most = 0, least = INFINITY, tau = NAN;
    for (int64_t s = 0; s < c->samples; s++) {
        const rs_certify_row *r = &c->rows[s * c->network->n_layers + l];
        if (!r->tokens) continue;
        any = true;
        if (!(r->out->diameter <= measured)) rounding = r->out->at_floor;
        measured = fmax(measured, r->out->diameter);
        const rs_certificate *best = &r->certificate.best;
        log_most = fmax(log_most, best->condition ? INFINITY : best->log_upper);
        most = fmax(most, best->condition ? INFINITY : best->upper);
        if (r->apart.condition || r->apart.failed) kept = false;
        least = fmin(least, r->apart.lower);
        tau = fmax(tau, r->tau);
    }
    if (!any) return;
    cells->measured = measured;
    if (isfinite(measured)) cells->at_floor = rounding;
    cells->at_most = most;
    cells->log_at_most = log_most;
    if (kept) cells->at_least = least;
    cells->tau = tau;
    cells->rate = common_rate(c, l);
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
        summary_cells cells;
        rs_columns_clear(summary_columns, COUNT(summary_columns), &cells);
        cells.layer = l;
        set_summary(&cells, c, l);
        RS_TRY(rs_table_append(t, &cells, err));
    }
    return RS_OK;
}

/* ---- chains ---- */

/* A row of table chains. */
typedef struct chain_cells {
    int32_t source, layer;
    logged certified;
    double weights_only;
} chain_cells;

#define CHAIN(member, name, formula) RS_CERTIFY_BOUND(chain_cells, member, name, UPPER, formula)

static const rs_column chain_columns[] = {
    {.name = "source_layer",
     RS_CELL(chain_cells, source),
     .formula = "the chain starts from the measured state that enters this layer"},
    {.name = "layer", RS_CELL(chain_cells, layer), .formula = "and is carried through this one"},
    CHAIN(certified.plain, "certified_diameter",
          "upper bound behind it, the largest over the samples"),
    CHAIN(certified.log, "log10_certified", NULL),
    CHAIN(weights_only, "log10_weights_only",
          "the same with the mixings bounded from the weights, tanh(scale·‖W_QK‖₂δ²/4), where the "
          "logits are bilinear"),
};
const rs_table_kind rs_certify_chains_kind = {"certify", "chains", {RS_PART(chain_columns)}};

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
            int64_t at = (int64_t)source * layers + l;
            chain_cells cells = {source, l, {NAN, NAN, RS_UNKNOWN}, c->weight_chains[at]};
            if (isnan(c->chains[at])) continue;
            set_log_up(&cells.certified, c->chains[at]);
            RS_TRY(rs_table_append(t, &cells, err));
        }
    return RS_OK;
}

rs_status rs_certify_tables(rs_result *result, const rs_certified *c, rs_error *err)
{
    RS_TRY(summary_table(result, c, err));
    RS_TRY(bounds(result, c, err));
    return chains(result, c, err);
}
