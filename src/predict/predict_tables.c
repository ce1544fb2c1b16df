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
            "standard deviation of a row's logits", "predicted"),
    FORWARD(formula, "formula", NULL, NULL, "which formula made the theory's numbers", NULL),
    FORWARD(note, "theory_note", "note", NULL, "why theory has no number, or what to doubt", NULL),
};
const rs_table_kind rs_predict_forward_kind = {"predict", "forward", {RS_PART(forward_columns)}};

/* 10^x; NaN where a double has no such number, or the quantity is not known. */
static double from_decades(double x)
{
    double value = pow(10, x);
    return isfinite(value) && (value > 0 || x == -INFINITY) ? value : NAN;
}

static forward_row forward_of(const rs_predict_run *run, int32_t l)
{
    const rs_forecast_row *row = &run->forecast.rows[l];
    const rs_theory_row *theory = &run->theory[l];
    return (forward_row){.layer = l,
                         .f2_theory = from_decades(row->square),
                         .c_theory = from_decades(row->sum),
                         .rho_theory = row->rho,
                         .log10_f2_theory = row->square,
                         .log10_apart_theory = row->apart,
                         .keys_theory = row->keys,
                         .logit_theory = row->deviation,
                         .formula = rs_formula_text(theory->forward),
                         .note = row->note};
}

/* ---- backward ---- */

typedef struct backward_row {
    int64_t layer;
    double value[4], log10_value[4]; /* of Q, K, V, O */
    double log10_state, ratio;
    const char *formula, *note;
} backward_row;

#define GRADIENT(index_, letter_)                                                                  \
    {.name = "g" letter_ "_theory",                                                                \
     .type = RS_COLUMN_REAL,                                                                       \
     .member = RS_MEMBER_REAL,                                                                     \
     .at = offsetof(backward_row, value) + (index_) * sizeof(double),                              \
     .title = "g" letter_ ", theory",                                                              \
     .formula = "E ‖∂L/∂W_" letter_ "‖_F²",                                                        \
     .provenance = "predicted"},                                                                   \
    {                                                                                              \
        .name = "log10_g" letter_ "_theory", .type = RS_COLUMN_REAL, .member = RS_MEMBER_REAL,     \
        .at = offsetof(backward_row, log10_value) + (index_) * sizeof(double),                     \
        .title = "log g" letter_ ", theory", .unit = "decades",                                    \
        .formula = "log₁₀ E ‖∂L/∂W_" letter_ "‖_F²", .provenance = "predicted"                     \
    }
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
    BACKWARD(formula, "formula", NULL, NULL, "which formula made the theory's numbers", NULL),
    BACKWARD(note, "theory_note", "note", NULL, "why theory has no number, or what to doubt", NULL),
};
const rs_table_kind rs_predict_backward_kind = {"predict", "backward", {RS_PART(backward_columns)}};

static backward_row backward_of(const rs_predict_run *run, int32_t l)
{
    const rs_forecast_row *row = &run->forecast.rows[l];
    const double decades[] = {row->query, row->key, row->value, row->output};
    backward_row out = {.layer = l,
                        .log10_state = row->state,
                        .ratio = from_decades(rs_forecast_ratio(&run->forecast, l)),
                        .formula = rs_formula_text(run->theory[l].backward),
                        .note = row->note};
    for (int i = 0; i < 4; i++) {
        out.value[i] = from_decades(decades[i]);
        out.log10_value[i] = decades[i];
    }
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
    rs_table_show_first(forward, "layer,rho_theory,log10_one_minus_rho_theory,log10_F2_theory,"
                                 "effective_keys_theory,logit_std_theory");
    rs_table_show_first(backward, "layer,log10_gQ_theory,log10_gV_theory,ratio_gQ_gV_theory,"
                                  "log10_dX_theory");
    for (int32_t l = 0; l <= run->forecast.n_layers; l++) {
        const forward_row row = forward_of(run, l);
        RS_TRY(rs_table_append(forward, &row, err));
    }
    for (int32_t l = 0; l < run->forecast.n_layers; l++) {
        const backward_row row = backward_of(run, l);
        RS_TRY(rs_table_append(backward, &row, err));
    }
    return RS_OK;
}
