/* predict_tables.c: what is known of each state and layer, as tables. */
#include "predict/predict_parts.h"

#include <math.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- forward ---- */

typedef struct forward_row {
    int64_t layer;
    double f2_theory, c_theory, rho_theory;
    double log10_f2_theory, log10_apart_theory;
    double keys_theory, logit_theory;
    double f2, f2_se, c, c_se, rho, rho_se, cosine, log10_cosine_apart;
    double residual, log10_residual, log10_f2, log10_f2_low, log10_f2_high;
    double log10_apart, log10_apart_low, log10_apart_high, keys, logit;
    rs_truth at_floor;
    const char *formula, *note;
} forward_row;

#define FORWARD(...) RS_COLUMN(forward_row, __VA_ARGS__)
static const rs_column forward_columns[] = {
    FORWARD(layer, "layer", NULL, NULL,
            "the state in front of this layer; the last row is what "
            "leaves the last one, before the final norm",
            NULL),
    FORWARD(f2_theory, "F2_theory", "‖X‖², theory", NULL, "E ‖X‖_F²", "predicted"),
    FORWARD(c_theory, "C_theory", "‖1ᵀX‖², theory", NULL, "E ‖1ᵀX‖²", "predicted"),
    FORWARD(rho_theory, "rho_theory", "ρ, theory", NULL, "(E C/E F2 − 1)/(n − 1)", "predicted"),
    FORWARD(log10_f2_theory, "log10_F2_theory", "log ‖X‖², theory", "decades", "log₁₀ E ‖X‖_F²",
            "predicted"),
    FORWARD(log10_apart_theory, "log10_one_minus_rho_theory", "log (1 − ρ), theory", "decades",
            "log₁₀(1 − ρ)", "predicted"),
    FORWARD(keys_theory, "effective_keys_theory", "effective keys, theory", NULL,
            "1/E ΣA²; under a mask of the last row", "predicted"),
    FORWARD(logit_theory, "logit_std_theory", "logits' deviation, theory", NULL,
            "s, standard deviation of a logit; over a row's keys it is s √(1 − ρ)", "predicted"),
    FORWARD(f2, "F2", "‖X‖²", NULL, "mean over trials of ‖X‖_F²", NULL),
    FORWARD(f2_se, "F2_se", NULL, NULL, "its standard error", NULL),
    FORWARD(c, "C", "‖1ᵀX‖²", NULL, "mean over trials of ‖1ᵀX‖²", NULL),
    FORWARD(c_se, "C_se", NULL, NULL, "its standard error", NULL),
    FORWARD(rho, "rho", "ρ", NULL, "(mean C/mean F2 − 1)/(n − 1)", NULL),
    FORWARD(rho_se, "rho_se", NULL, NULL, "its standard error, by the delta method over pairs",
            NULL),
    FORWARD(cosine, "mean_cosine", NULL, NULL, "mean cosine of pairs of tokens, over trials", NULL),
    FORWARD(log10_cosine_apart, "log10_one_minus_cosine", "log (1 − cosine)", "decades",
            "mean over trials of log₁₀(1 − mean cosine)", NULL),
    FORWARD(residual, "relative_residual", NULL, NULL, "mean over trials of ‖X − 1x̄ᵀ‖_F/‖X‖_F",
            NULL),
    FORWARD(log10_residual, "log10_relative_residual", "log relative residual", "decades",
            "mean over trials of its logarithm", NULL),
    FORWARD(log10_f2, "log10_F2", "log ‖X‖²", "decades", "mean over trials of log₁₀ ‖X‖_F²", NULL),
    FORWARD(log10_f2_low, "log10_F2_low", NULL, "decades", "a tenth of the trials lies below",
            NULL),
    FORWARD(log10_f2_high, "log10_F2_high", NULL, "decades", "a tenth of the trials lies above",
            NULL),
    FORWARD(log10_apart, "log10_one_minus_rho", "log (1 − ρ)", "decades",
            "log₁₀ of 1 − rho; where a few draws rule it, mean over trials of its logarithm", NULL),
    FORWARD(
        log10_apart_low, "log10_one_minus_rho_low", NULL, "decades",
        "log₁₀ n‖X − 1x̄ᵀ‖²/((n − 1)‖X‖²), 1 − ρ of one sample: a tenth of the trials lies below",
        NULL),
    FORWARD(log10_apart_high, "log10_one_minus_rho_high", NULL, "decades",
            "a tenth of the trials lies above", NULL),
    FORWARD(keys, "effective_keys", NULL, NULL,
            "1/mean ΣA² over trials, heads and rows; under a mask of the last row", NULL),
    FORWARD(logit, "logit_std", "logits' deviation", NULL,
            "standard deviation of a row's logits over the keys that it sees", NULL),
    FORWARD(at_floor, "at_floor", NULL, NULL,
            "rounding of float64 hides 1 − ρ of a trial here, and columns that follow from it have "
            "no number",
            NULL),
    FORWARD(formula, "formula", NULL, NULL, "which formula made the theory's numbers", NULL),
    FORWARD(note, "theory_note", "note", NULL, "why theory has no number, or what to doubt", NULL),
};
const rs_table_kind rs_predict_forward_kind = {"predict", "forward", {RS_PART(forward_columns)}};

static double decades_of(double number)
{
    return number > 0 ? log10(number) : NAN;
}

/* A twin's sums over channels are not those of the network: they stay null. */
static void measure_forward(forward_row *out, const rs_predict_run *run, int32_t l)
{
    const rs_trials_row *row = &run->trials->rows[l];
    const rs_trials_stat *of = row->of;
    const double decade = log(10);
    out->at_floor = row->lost > 0;
    out->rho = row->rho;
    out->rho_se = row->rho_se;
    out->cosine = of[RS_TRIALS_COSINE].mean;
    out->log10_cosine_apart = of[RS_TRIALS_COSINE_APART].log_mean / decade;
    out->residual = of[RS_TRIALS_RELATIVE].mean;
    out->log10_residual = of[RS_TRIALS_RELATIVE].log_mean / decade;
    out->log10_apart = run->measured.rows[l].apart;
    out->log10_apart_low = decades_of(of[RS_TRIALS_APART].low);
    out->log10_apart_high = decades_of(of[RS_TRIALS_APART].high);
    out->keys = run->measured.rows[l].keys;
    out->logit = run->measured.rows[l].deviation;
    if (run->twin.network) return;
    out->f2 = of[RS_TRIALS_SQUARE].mean;
    out->f2_se = of[RS_TRIALS_SQUARE].se;
    out->c = of[RS_TRIALS_SUM].mean;
    out->c_se = of[RS_TRIALS_SUM].se;
    out->log10_f2 = of[RS_TRIALS_SQUARE].log_mean / decade;
    out->log10_f2_low = decades_of(of[RS_TRIALS_SQUARE].low);
    out->log10_f2_high = decades_of(of[RS_TRIALS_SQUARE].high);
}

static forward_row forward_of(const rs_predict_run *run, int32_t l)
{
    const rs_forecast_row *row = &run->forecast.rows[l];
    const rs_theory_row *theory = &run->theory[l];
    forward_row out;
    rs_columns_clear(forward_columns, COUNT(forward_columns), &out);
    out.layer = l;
    out.f2_theory = rs_from_decades(row->square);
    out.c_theory = rs_from_decades(row->sum);
    out.rho_theory = row->rho;
    out.log10_f2_theory = row->square;
    out.log10_apart_theory = row->apart;
    out.keys_theory = row->keys;
    out.logit_theory = row->deviation;
    out.formula = rs_formula_text(theory->forward);
    if (run->trials) measure_forward(&out, run, l);
    return out;
}

/* ---- backward ---- */

typedef struct backward_row {
    int64_t layer;
    double value[4], log10_value[4]; /* of Q, K, V, O, by theory */
    double mean[4], se[4], log10_mean[4];
    double log10_state, ratio, log10_state_measured, ratio_measured, ratio_low, ratio_high;
    rs_truth at_floor;
    const char *formula, *note;
} backward_row;

#define MEASURED(member_, index_, name_, title_, unit_, formula_)                                  \
    {                                                                                              \
        .name = name_, .type = RS_COLUMN_REAL, .member = RS_MEMBER_REAL,                           \
        .at = offsetof(backward_row, member_) + (index_) * sizeof(double), .title = title_,        \
        .unit = unit_, .formula = formula_                                                         \
    }
#define GRADIENT(index_, letter_)                                                                  \
    {.name = "g" letter_ "_theory",                                                                \
     .type = RS_COLUMN_REAL,                                                                       \
     .member = RS_MEMBER_REAL,                                                                     \
     .at = offsetof(backward_row, value) + (index_) * sizeof(double),                              \
     .title = "g" letter_ ", theory",                                                              \
     .formula = "E ‖∂L/∂W_" letter_ "‖_F²",                                                        \
     .provenance = "predicted"},                                                                   \
        {.name = "log10_g" letter_ "_theory",                                                      \
         .type = RS_COLUMN_REAL,                                                                   \
         .member = RS_MEMBER_REAL,                                                                 \
         .at = offsetof(backward_row, log10_value) + (index_) * sizeof(double),                    \
         .title = "log g" letter_ ", theory",                                                      \
         .unit = "decades",                                                                        \
         .formula = "log₁₀ E ‖∂L/∂W_" letter_ "‖_F²",                                              \
         .provenance = "predicted"},                                                               \
        MEASURED(mean, index_, "g" letter_, "g" letter_, NULL,                                     \
                 "mean over trials of ‖∂L/∂W_" letter_ "‖_F²"),                                    \
        MEASURED(se, index_, "g" letter_ "_se", NULL, NULL, "its standard error"),                 \
        MEASURED(log10_mean, index_, "log10_g" letter_, "log g" letter_, "decades",                \
                 "mean over trials of its logarithm")
#define BACKWARD(...) RS_COLUMN(backward_row, __VA_ARGS__)
static const rs_column backward_columns[] = {
    BACKWARD(layer, "layer", NULL, NULL, "counted from 0", NULL),
    GRADIENT(0, "Q"),
    GRADIENT(1, "K"),
    GRADIENT(2, "V"),
    GRADIENT(3, "O"),
    BACKWARD(log10_state, "log10_dX_theory", "log ‖∂L/∂X‖², theory", "decades",
             "log₁₀ E ‖∂L/∂X‖_F² of the state in front of this layer", "predicted"),
    BACKWARD(ratio, "ratio_gQ_gV_theory", "gQ/gV, theory", NULL, "E gQ/E gV", "predicted"),
    BACKWARD(log10_state_measured, "log10_dX", "log ‖∂L/∂X‖²", "decades",
             "mean over trials of log₁₀ ‖∂L/∂X‖_F²", NULL),
    BACKWARD(ratio_measured, "ratio_gQ_gV", "gQ/gV", NULL,
             "of means over trials; where a few draws rule one, of geometric means", NULL),
    BACKWARD(ratio_low, "ratio_gQ_gV_low", NULL, NULL,
             "gQ/gV of one trial: a tenth of the trials lies below", NULL),
    BACKWARD(ratio_high, "ratio_gQ_gV_high", NULL, NULL, "a tenth of the trials lies above", NULL),
    BACKWARD(at_floor, "at_floor", NULL, NULL,
             "rounding of float64 hides 1 − ρ of a trial in front of this layer: gQ and gK, which "
             "follow from it, have no number",
             NULL),
    BACKWARD(formula, "formula", NULL, NULL, "which formula made the theory's numbers", NULL),
    BACKWARD(note, "theory_note", "note", NULL, "why theory has no number, or what to doubt", NULL),
};
const rs_table_kind rs_predict_backward_kind = {"predict", "backward", {RS_PART(backward_columns)}};

static void measure_backward(backward_row *out, const rs_predict_run *run, int32_t l)
{
    const rs_trials_stat *of = run->trials->rows[l].of;
    static const rs_trials_quantity quantities[] = {RS_TRIALS_QUERY, RS_TRIALS_KEY, RS_TRIALS_VALUE,
                                                    RS_TRIALS_OUTPUT};
    const double decade = log(10);
    out->at_floor = run->trials->rows[l].lost > 0;
    out->ratio_measured = rs_from_decades(rs_forecast_ratio(&run->measured, l));
    out->ratio_low = of[RS_TRIALS_QUERY_VALUE].low;
    out->ratio_high = of[RS_TRIALS_QUERY_VALUE].high;
    if (!run->twin.network) out->log10_state_measured = of[RS_TRIALS_STATE].log_mean / decade;
    for (int i = 0; i < 4 && !run->twin.network; i++) {
        out->mean[i] = of[quantities[i]].mean;
        out->se[i] = of[quantities[i]].se;
        out->log10_mean[i] = of[quantities[i]].log_mean / decade;
    }
}

static backward_row backward_of(const rs_predict_run *run, int32_t l)
{
    const rs_forecast_row *row = &run->forecast.rows[l];
    const double decades[] = {row->query, row->key, row->value, row->output};
    backward_row out;
    rs_columns_clear(backward_columns, COUNT(backward_columns), &out);
    out.layer = l;
    out.log10_state = row->state;
    out.ratio = rs_from_decades(rs_forecast_ratio(&run->forecast, l));
    out.formula = rs_formula_text(run->theory[l].backward);
    for (int i = 0; i < 4; i++) {
        out.value[i] = rs_from_decades(decades[i]);
        out.log10_value[i] = decades[i];
    }
    if (run->trials) measure_backward(&out, run, l);
    return out;
}

rs_status rs_predict_tables(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    rs_table *forward, *backward;
    RS_TRY(rs_result_add_table(result, "forward", "States",
                               "Squared norms and correlation of the tokens, state by state.",
                               forward_columns, COUNT(forward_columns), &forward, err));
    RS_TRY(rs_result_add_table(result, "backward", "Gradients",
                               "Squared norms of the derivatives of ⟨G, X⟩, G of N(0, 1), by each "
                               "layer's weights.",
                               backward_columns, COUNT(backward_columns), &backward, err));
    rs_table_show_first(forward, "layer,rho_theory,rho,log10_one_minus_rho_theory,"
                                 "log10_F2_theory,log10_F2,effective_keys_theory,logit_std_theory");
    rs_table_show_first(backward, "layer,log10_gQ_theory,log10_gV_theory,ratio_gQ_gV_theory,"
                                  "log10_dX_theory");
    for (int32_t l = 0; l <= run->forecast.n_layers; l++) {
        forward_row row = forward_of(run, l);
        RS_TRY(rs_predict_note(&row.note, run, l, rs_result_arena(result), err));
        RS_TRY(rs_table_append(forward, &row, err));
    }
    for (int32_t l = 0; l < run->forecast.n_layers; l++) {
        backward_row row = backward_of(run, l);
        RS_TRY(rs_predict_note(&row.note, run, l, rs_result_arena(result), err));
        RS_TRY(rs_table_append(backward, &row, err));
    }
    return RS_OK;
}
