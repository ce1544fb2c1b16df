/* certify_lambda_table.c: table lambda and what it says in words. */
#include "certify/certify_lambda.h"
#include "certify/certify_parts.h"

#include <math.h>
#include <stdio.h>

enum {
    SAMPLE,
    LAYER,
    EXACT_LOW,
    EXACT_LOW_CONDITIONAL,
    EXACT_HIGH,
    EXACT_HIGH_CONDITIONAL,
    WORST,
    WORST_KEPT,
    EXACT_FAILED,
    CERTIFIED,
    CERTIFIED_CONDITIONAL,
    CERTIFIED_NEGATIVE,
    CERTIFIED_NEGATIVE_CONDITIONAL,
    CERTIFIED_FAILED,
    OWN,
    KEPT_NOW,
    KEPT_NOW_ERROR,
    KEPT_NOW_ERROR_CONDITIONAL,
    KEPT_NOW_FAILED,
    THEOREM_A,
    THEOREM_A_CONDITIONAL,
    THEOREM_A_FAILED,
    THEOREM_A_LAYER,
    THEOREM_A_LAYER_CONDITIONAL,
    THEOREM_A_LAYER_FAILED,
    THEOREM_B,
    THEOREM_B_CONDITIONAL,
    THEOREM_B_FAILED,
    THEOREM_D,
    THEOREM_D_CONDITIONAL,
    THEOREM_D_FAILED,
    PUBLISHED_BOTH,
    EQ7,
    EQ7_FAILED,
    GAIN,
    GAIN_CONDITIONAL,
    GAIN_FAILED,
    CONSENSUS,
    CONSENSUS_FAILED,
    SMOOTHING,
    SMOOTHING_CONDITIONAL,
    SMOOTHING_PUBLISHED,
    SMOOTHING_FAILED,
    MLP_GAIN,
    MLP_GAIN_CONDITIONAL,
    MLP_GAIN_FAILED,
    ANY_DEMAND,
    ANY_DEMAND_CONDITIONAL,
    ANY_KEPT,
    ANY_KEPT_CONDITIONAL,
    ANY_FAILED,
    D_KEPT,
    D_KEPT_CONDITIONAL,
    D_KEPT_PUBLISHED,
    D_KEPT_FAILED,
    EQ7_INPUT,
    EQ7_INPUT_FAILED,
    COLUMNS
};

#define CONDITIONAL_COLUMN(name)                                                                   \
    RS_BOOL_COLUMN(name "_conditional", "certified",                                               \
                   name " holds if the exact layer applies the mixing matrices that the float64 "  \
                        "pass met, and is not proved")

static const rs_column columns[COLUMNS] = {
    [SAMPLE] = {.name = "sample", .type = RS_COLUMN_INT, .formula = "from 0"},
    [LAYER] = {.name = "layer", .type = RS_COLUMN_INT, .formula = "block, from 0; its mixer"},
    [EXACT_LOW] =
        RS_REAL_COLUMN("lambda_exact_low", "certified",
                       "without the norm of the sum: every λ ≤ this keeps the wanted fraction of "
                       "μ(X); null with lambda_exact_high and no reason beside them: every λ "
                       "does (L1)"),
    [EXACT_LOW_CONDITIONAL] = CONDITIONAL_COLUMN("lambda_exact_low"),
    [EXACT_HIGH] = RS_REAL_COLUMN("lambda_exact_high", "certified", "and every λ ≥ this"),
    [EXACT_HIGH_CONDITIONAL] = CONDITIONAL_COLUMN("lambda_exact_high"),
    [WORST] = RS_REAL_COLUMN("lambda_worst", "measured",
                             "−β/α: the λ at which the sum, before any norm, keeps least of μ(X)"),
    [WORST_KEPT] = RS_REAL_COLUMN("worst_kept", "measured", "and the fraction that it keeps there"),
    [EXACT_FAILED] =
        RS_TEXT_COLUMN("lambda_exact_failed", "certified",
                       "hypothesis that fails here: behind a norm of the sum lambda_exact_low and "
                       "_high speak of the sum that enters it, not of the layer; or why "
                       "nothing is known"),
    [CERTIFIED] =
        RS_REAL_COLUMN("lambda_certified", "certified",
                       "with the norm of the sum: every λ ≥ this keeps the wanted fraction (L3); "
                       "models without one: lambda_exact_high"),
    [CERTIFIED_CONDITIONAL] = CONDITIONAL_COLUMN("lambda_certified"),
    [CERTIFIED_NEGATIVE] =
        RS_REAL_COLUMN("lambda_certified_negative", "certified", "and every λ ≤ this"),
    [CERTIFIED_NEGATIVE_CONDITIONAL] = CONDITIONAL_COLUMN("lambda_certified_negative"),
    [CERTIFIED_FAILED] =
        RS_TEXT_COLUMN("lambda_certified_failed", "certified", "why there is no lambda_certified"),
    [OWN] = RS_REAL_COLUMN("lambda", "measured", "the skip strength that the model has"),
    [KEPT_NOW] = RS_REAL_COLUMN("kept_now", "measured",
                                "μ behind the mixer over μ before it, at the model's own λ"),
    [KEPT_NOW_ERROR] =
        RS_REAL_COLUMN("kept_now_error", "certified", "|kept_now − truth| is at most this"),
    [KEPT_NOW_ERROR_CONDITIONAL] = CONDITIONAL_COLUMN("kept_now_error"),
    [KEPT_NOW_FAILED] = RS_TEXT_COLUMN("kept_now_failed", "certified",
                                       "why kept_now and kept_now_error are not known"),
    [THEOREM_A] =
        RS_REAL_COLUMN("demanded_by_theorem_a", "certified", "|λ| from there on suffices (L6)"),
    [THEOREM_A_CONDITIONAL] = CONDITIONAL_COLUMN("demanded_by_theorem_a"),
    [THEOREM_A_FAILED] =
        RS_TEXT_COLUMN("theorem_a_failed", "certified", "hypothesis that fails here"),
    [THEOREM_A_LAYER] = RS_REAL_COLUMN(
        "demanded_by_theorem_a_layer", "certified",
        "with any gain, bias and epsilon, for one layer: every λ of at least this size keeps A of "
        "μ(X) (L7)"),
    [THEOREM_A_LAYER_CONDITIONAL] = CONDITIONAL_COLUMN("demanded_by_theorem_a_layer"),
    [THEOREM_A_LAYER_FAILED] =
        RS_TEXT_COLUMN("theorem_a_layer_failed", "certified", "hypothesis that fails here"),
    [THEOREM_B] = RS_REAL_COLUMN("demanded_by_theorem_b", "certified", "L8"),
    [THEOREM_B_CONDITIONAL] = CONDITIONAL_COLUMN("demanded_by_theorem_b"),
    [THEOREM_B_FAILED] =
        RS_TEXT_COLUMN("theorem_b_failed", "certified", "hypothesis that fails here"),
    [THEOREM_D] =
        RS_REAL_COLUMN("demanded_by_theorem_d", "certified",
                       "pre-norm blocks: of the row-normalised μ, at every depth of a stack whose "
                       "branches are no longer than this one on this input (L9)"),
    [THEOREM_D_CONDITIONAL] = CONDITIONAL_COLUMN("demanded_by_theorem_d"),
    [THEOREM_D_FAILED] =
        RS_TEXT_COLUMN("theorem_d_failed", "certified", "hypothesis that fails here"),
    [PUBLISHED_BOTH] = RS_REAL_COLUMN("demanded_by_eq7_and_input", "published",
                                      "equation 7 together with its condition on the input (L10)"),
    [EQ7] = RS_REAL_COLUMN("demanded_by_eq7", "published",
                           "|λ| > S C_M (a + √a)/(1 − a) as published; not enough alone"),
    [EQ7_FAILED] = RS_TEXT_COLUMN("eq7_failed", "published", "hypothesis that fails here"),
    [GAIN] = RS_REAL_COLUMN("weights_only_gain", "certified",
                            "c: ‖o_i‖ ≤ c√d for every input, from the weights alone (L12)"),
    [GAIN_CONDITIONAL] = CONDITIONAL_COLUMN("weights_only_gain"),
    [GAIN_FAILED] =
        RS_TEXT_COLUMN("weights_only_gain_failed", "certified", "hypothesis that fails here"),
    [CONSENSUS] = RS_REAL_COLUMN("consensus_multiplier", "predicted",
                                 "below 1 collapse attracts locally (L17)"),
    [CONSENSUS_FAILED] =
        RS_TEXT_COLUMN("consensus_failed", "predicted", "hypothesis that fails here"),
    [SMOOTHING] =
        RS_REAL_COLUMN("over_smoothing_v", "certified",
                       "μ behind the block ≤ v μ before it, with gains, Lipschitz constant and "
                       "scales as they are (L18)"),
    [SMOOTHING_CONDITIONAL] = CONDITIONAL_COLUMN("over_smoothing_v"),
    [SMOOTHING_PUBLISHED] = RS_REAL_COLUMN("over_smoothing_published", "published",
                                           "v as published: ReLU, gains and skips 1"),
    [SMOOTHING_FAILED] =
        RS_TEXT_COLUMN("over_smoothing_failed", "certified", "hypothesis that fails here"),
    [MLP_GAIN] = RS_REAL_COLUMN("mlp_weights_only_gain", "certified",
                                "c: what the layer's MLP adds has ‖o_i‖ ≤ c√d for every input, "
                                "from the weights alone (L13)"),
    [MLP_GAIN_CONDITIONAL] = CONDITIONAL_COLUMN("mlp_weights_only_gain"),
    [MLP_GAIN_FAILED] =
        RS_TEXT_COLUMN("mlp_weights_only_gain_failed", "certified", "hypothesis that fails here"),
    [ANY_DEMAND] = RS_REAL_COLUMN("demanded_for_any_input", "certified",
                                  "without norms: every λ of at least this size keeps the wanted "
                                  "fraction of μ(X), whatever the sample's number of tokens holds "
                                  "and whatever the attention weights are (L19)"),
    [ANY_DEMAND_CONDITIONAL] = CONDITIONAL_COLUMN("demanded_for_any_input"),
    [ANY_KEPT] = RS_REAL_COLUMN("kept_for_any_input", "certified",
                                "and the fraction that the model's own λ keeps, at least; 0: "
                                "nothing is known (L19)"),
    [ANY_KEPT_CONDITIONAL] = CONDITIONAL_COLUMN("kept_for_any_input"),
    [ANY_FAILED] = RS_TEXT_COLUMN("any_input_failed", "certified", "hypothesis that fails here"),
    [D_KEPT] = RS_REAL_COLUMN("theorem_d_kept", "certified",
                              "pre-norm blocks: the fraction of the row-normalised μ that the "
                              "model's own λ leaves, at least, at every depth of a stack whose "
                              "branches are no longer than this one on this input (L9)"),
    [D_KEPT_CONDITIONAL] = CONDITIONAL_COLUMN("theorem_d_kept"),
    [D_KEPT_PUBLISHED] = RS_REAL_COLUMN("theorem_d_kept_published", "published",
                                        "the same with √2 for the chord, as printed"),
    [D_KEPT_FAILED] =
        RS_TEXT_COLUMN("theorem_d_kept_failed", "certified", "hypothesis that fails here"),
    [EQ7_INPUT] = RS_REAL_COLUMN("eq7_input", "published",
                                 "b: beside equation 7 the theorem asks for μ(X)² ≥ b; at the "
                                 "model's own λ (L10)"),
    [EQ7_INPUT_FAILED] =
        RS_TEXT_COLUMN("eq7_input_failed", "published", "why there is no b: what fails here"),
};

static rs_status add_row(rs_table *t, int64_t s, int32_t l, const rs_lambda_row *r, rs_error *err)
{
    size_t row;
    const size_t twins[] = {CERTIFIED,       CERTIFIED_NEGATIVE, KEPT_NOW_ERROR, THEOREM_A,
                            THEOREM_A_LAYER, THEOREM_B,          THEOREM_D,      D_KEPT};
    bool conditional = r->condition != NULL;
    const struct {
        size_t column;
        double value;
    } reals[] = {{EXACT_LOW, r->exact_low},
                 {EXACT_HIGH, r->exact_high},
                 {WORST, r->worst},
                 {WORST_KEPT, r->worst_kept},
                 {CERTIFIED, r->certified},
                 {CERTIFIED_NEGATIVE, r->certified_negative},
                 {OWN, r->lambda},
                 {KEPT_NOW, r->kept_now},
                 {KEPT_NOW_ERROR, r->kept_now_error},
                 {THEOREM_A, r->theorem_a},
                 {THEOREM_A_LAYER, r->theorem_a_layer},
                 {THEOREM_B, r->theorem_b},
                 {THEOREM_D, r->theorem_d},
                 {PUBLISHED_BOTH, r->published_both},
                 {EQ7, r->eq7},
                 {GAIN, r->gain},
                 {CONSENSUS, r->consensus},
                 {SMOOTHING, r->smoothing},
                 {SMOOTHING_PUBLISHED, r->smoothing_published},
                 {MLP_GAIN, r->mlp_gain},
                 {ANY_DEMAND, r->any_demand},
                 {ANY_KEPT, r->any_kept},
                 {D_KEPT, r->theorem_d_kept},
                 {D_KEPT_PUBLISHED, r->theorem_d_published},
                 {EQ7_INPUT, r->eq7_input}};
    const struct {
        size_t column;
        const char *text;
    } texts[] = {{EXACT_FAILED, r->failed_exact},
                 {CERTIFIED_FAILED, r->failed_certified},
                 {KEPT_NOW_FAILED, r->failed_kept},
                 {THEOREM_A_FAILED, r->failed_a},
                 {THEOREM_A_LAYER_FAILED, r->failed_a_layer},
                 {THEOREM_B_FAILED, r->failed_b},
                 {THEOREM_D_FAILED, r->failed_d},
                 {EQ7_FAILED, r->failed_eq7},
                 {GAIN_FAILED, r->failed_gain},
                 {CONSENSUS_FAILED, r->failed_consensus},
                 {SMOOTHING_FAILED, r->failed_smoothing},
                 {MLP_GAIN_FAILED, r->failed_mlp_gain},
                 {ANY_FAILED, r->failed_any},
                 {D_KEPT_FAILED, r->failed_d_kept},
                 {EQ7_INPUT_FAILED, r->failed_eq7_input}};
    RS_TRY(rs_table_add_row(t, &row, err));
    rs_table_set_int(t, row, SAMPLE, s);
    rs_table_set_int(t, row, LAYER, l);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        rs_table_set_real(t, row, reals[i].column, reals[i].value);
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        if (isfinite(rs_table_real(t, row, twins[i])))
            rs_table_set_bool(t, row, twins[i] + 1, conditional);
    /* null without a reason is an answer, too: every λ */
    rs_table_set_bool(t, row, EXACT_LOW_CONDITIONAL, conditional);
    rs_table_set_bool(t, row, EXACT_HIGH_CONDITIONAL, conditional);
    const size_t unconditional[] = {GAIN, SMOOTHING, MLP_GAIN, ANY_DEMAND, ANY_KEPT};
    for (size_t i = 0; i < sizeof unconditional / sizeof *unconditional; i++)
        if (isfinite(rs_table_real(t, row, unconditional[i])))
            rs_table_set_bool(t, row, unconditional[i] + 1, false);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        RS_TRY(rs_table_set_text(t, row, texts[i].column, texts[i].text, err));
    return RS_OK;
}

static rs_status add_intervals(rs_table *t, int64_t s, int32_t l, const rs_lambda_row *r,
                               rs_error *err)
{
    static const char *const answers[] = {
        [RS_LAMBDA_YES] = "yes", [RS_LAMBDA_NO] = "no", [RS_LAMBDA_UNKNOWN] = "unknown"};
    for (size_t i = 0; i < r->n_intervals; i++) {
        size_t row;
        RS_TRY(rs_table_add_row(t, &row, err));
        rs_table_set_int(t, row, 0, s);
        rs_table_set_int(t, row, 1, l);
        if (isfinite(r->intervals[i].low)) rs_table_set_real(t, row, 2, r->intervals[i].low);
        if (isfinite(r->intervals[i].high)) rs_table_set_real(t, row, 3, r->intervals[i].high);
        RS_TRY(rs_table_set_text(t, row, 4, answers[r->intervals[i].answer], err));
        rs_table_set_bool(t, row, 5, r->condition && r->intervals[i].answer != RS_LAMBDA_UNKNOWN);
    }
    return RS_OK;
}

static rs_status intervals_table(rs_result *result, const rs_certify_lambda *lambda, rs_error *err)
{
    static const rs_column of_intervals[] = {
        {.name = "sample", .type = RS_COLUMN_INT, .formula = "from 0"},
        {.name = "layer", .type = RS_COLUMN_INT, .formula = "block, from 0; its mixer"},
        RS_REAL_COLUMN("low", "certified", "lower end of the λ; null: no end"),
        RS_REAL_COLUMN("high", "certified", "upper end; null: no end"),
        RS_TEXT_COLUMN("answer", "certified",
                       "yes: every λ of the interval keeps the wanted fraction; no: none does; "
                       "unknown: rounding or a limit on the search left it open (L1, L3 to L5)"),
        CONDITIONAL_COLUMN("answer"),
    };
    rs_table *t;
    RS_TRY(rs_result_add_table(
        result, "intervals", "Every skip strength, decided or not",
        "For the mixer of each layer, on each sample: the λ that keep the wanted fraction of μ(X) "
        "behind it (with the norm of the sum where there is one), those that do not, and those "
        "that "
        "are open",
        of_intervals, sizeof of_intervals / sizeof *of_intervals, &t, err));
    for (int64_t s = 0; s < rs_certify_lambda_samples(lambda); s++)
        for (int32_t l = 0; l < rs_certify_lambda_network(lambda)->n_layers; l++)
            RS_TRY(add_intervals(t, s, l, rs_certify_lambda_row(lambda, s, l), err));
    return RS_OK;
}

rs_status rs_certify_lambda_table(rs_result *result, const rs_certify_lambda *lambda, rs_error *err)
{
    rs_table *t;
    RS_TRY(
        rs_result_add_table(result, "lambda", "Skip strengths that keep the tokens apart",
                            "For the mixer of each layer, on each sample: which λ certainly keep "
                            "the wanted fraction of μ(X) = ‖X − 1x̄ᵀ‖_F, and what the theorems "
                            "would demand",
                            columns, COLUMNS, &t, err));
    for (int64_t s = 0; s < rs_certify_lambda_samples(lambda); s++)
        for (int32_t l = 0; l < rs_certify_lambda_network(lambda)->n_layers; l++) {
            const rs_lambda_row *row = rs_certify_lambda_row(lambda, s, l);
            if (row->told) RS_TRY(add_row(t, s, l, row, err));
        }
    return intervals_table(result, lambda, err);
}
