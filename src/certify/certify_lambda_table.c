/* certify_lambda_table.c: table lambda and what it says in words. */
#include "certify/certify_lambda.h"
#include "certify/certify_parts.h"

/* A row of table lambda. */
typedef struct lambda_cells {
    int64_t sample;
    int32_t layer;
    bool conditional, unconditional; /* the twin of what was measured; of what the weights give */
    rs_lambda_by_weights hangs;      /* of theorems A and D */
    rs_lambda_row of;
} lambda_cells;

#define COLUMN(member, name, kind, formula)                                                        \
    RS_CERTIFY_COLUMN(lambda_cells, of.member, name, kind, formula)
/* UPPER: λ from there on suffice, so that a larger one does too. */
#define BOUND(member, name, side, formula)                                                         \
    RS_CERTIFY_BOUND(lambda_cells, of.member, name, side, formula)
#define TWIN_FORMULA(name)                                                                         \
    name " holds if the exact branch is as the float64 pass met it (of attention its mixing "      \
         "matrices), and is not proved"
#define TWIN(member, name)                                                                         \
    RS_CERTIFY_COLUMN(lambda_cells, member, name "_conditional", "certified", TWIN_FORMULA(name))
/* Null where the number itself is. */
#define TWIN_OF(number, member, name)                                                              \
    RS_CERTIFY_TWIN(lambda_cells, member, of.number, name "_conditional", "certified",             \
                    TWIN_FORMULA(name))

static const rs_column columns[] = {
    {.name = "sample", RS_CELL(lambda_cells, sample), .formula = "from 0"},
    {.name = "layer", RS_CELL(lambda_cells, layer), .formula = "block, from 0; its mixer"},
    BOUND(exact_low, "lambda_exact_low", LOWER,
          "without the norm of the sum: every λ ≤ this keeps the wanted fraction of "
          "μ(X); null with lambda_exact_high and no reason beside them: every λ "
          "does (L1)"),
    /* null without a reason is an answer, too: every λ */
    TWIN(conditional, "lambda_exact_low"),
    BOUND(exact_high, "lambda_exact_high", UPPER, "and every λ ≥ this"),
    TWIN(conditional, "lambda_exact_high"),
    COLUMN(worst, "lambda_worst", "measured",
           "−β/α: the λ at which the sum, before any norm, keeps least of μ(X)"),
    COLUMN(worst_kept, "worst_kept", "measured", "and the fraction that it keeps there"),
    COLUMN(failed_exact, "lambda_exact_failed", "certified",
           "hypothesis that fails here: behind a norm of the sum lambda_exact_low and "
           "_high speak of the sum that enters it, not of the layer; or why "
           "nothing is known"),
    BOUND(certified, "lambda_certified", UPPER,
          "with the norm of the sum: every λ ≥ this keeps the wanted fraction (L3); "
          "models without one: lambda_exact_high"),
    TWIN_OF(certified, conditional, "lambda_certified"),
    BOUND(certified_negative, "lambda_certified_negative", LOWER, "and every λ ≤ this"),
    TWIN_OF(certified_negative, conditional, "lambda_certified_negative"),
    COLUMN(failed_certified, "lambda_certified_failed", "certified",
           "why there is no lambda_certified"),
    COLUMN(lambda, "lambda", "measured", "the skip strength that the model has"),
    COLUMN(kept_now, "kept_now", "measured",
           "μ behind the mixer over μ before it, at the model's own λ"),
    BOUND(kept_now_error, "kept_now_error", UPPER, "|kept_now − truth| is at most this"),
    TWIN_OF(kept_now_error, conditional, "kept_now_error"),
    COLUMN(failed_kept, "kept_now_failed", "certified",
           "why kept_now and kept_now_error are not known"),
    COLUMN(at_floor, "at_floor", "measured",
           "the tokens that enter differ by rounding alone: lambda_summary leaves the row out"),
    BOUND(
        theorem_a, "demanded_by_theorem_a", UPPER,
        "|λ| from there on suffices (L6; mixers without softmax: by weights_only_gain, here and in "
        "the theorems below, L25)"),
    TWIN_OF(theorem_a, hangs.a, "demanded_by_theorem_a"),
    COLUMN(failed_a, "theorem_a_failed", "certified", "hypothesis that fails here"),
    BOUND(
        theorem_a_layer, "demanded_by_theorem_a_layer", UPPER,
        "with any gain, bias and epsilon, for one layer: every λ of at least this size keeps A of "
        "μ(X) (L7)"),
    TWIN_OF(theorem_a_layer, hangs.a_layer, "demanded_by_theorem_a_layer"),
    COLUMN(failed_a_layer, "theorem_a_layer_failed", "certified", "hypothesis that fails here"),
    BOUND(theorem_b, "demanded_by_theorem_b", UPPER, "L8"),
    TWIN_OF(theorem_b, conditional, "demanded_by_theorem_b"),
    COLUMN(failed_b, "theorem_b_failed", "certified", "hypothesis that fails here"),
    BOUND(theorem_d, "demanded_by_theorem_d", UPPER,
          "pre-norm blocks: of the row-normalised μ, at every depth of a stack whose "
          "branches are no longer than this one on this input (L9)"),
    TWIN_OF(theorem_d, hangs.d, "demanded_by_theorem_d"),
    COLUMN(failed_d, "theorem_d_failed", "certified", "hypothesis that fails here"),
    COLUMN(published_both, "demanded_by_eq7_and_input", "published",
           "equation 7 together with its condition on the input (L10)"),
    COLUMN(eq7, "demanded_by_eq7", "published",
           "|λ| > S C_M (a + √a)/(1 − a) as published; not enough alone"),
    COLUMN(failed_eq7, "eq7_failed", "published", "hypothesis that fails here"),
    BOUND(
        gain, "weights_only_gain", UPPER,
        "c: ‖o_i‖ ≤ c√d for every input, from the weights alone (L12); mixers without softmax: of "
        "as many tokens as the longest sample at most (L21 to L25)"),
    TWIN_OF(gain, unconditional, "weights_only_gain"),
    COLUMN(failed_gain, "weights_only_gain_failed", "certified", "hypothesis that fails here"),
    COLUMN(consensus, "consensus_multiplier", "predicted",
           "below 1 collapse attracts locally (L17)"),
    COLUMN(failed_consensus, "consensus_failed", "predicted", "hypothesis that fails here"),
    COLUMN(
        outcome, "consensus_outcome", "predicted",
        "causal mixers with a number for value map: equal, equal up to sign (rank one, μ stays), "
        "repelled: where nearly equal tokens go; undecided (L27)"),
    COLUMN(stack_rate, "consensus_stack", "predicted",
           "of the layers up to this one, all such mixers: the largest product of a token's "
           "multipliers; below 1 collapse attracts (L27)"),
    COLUMN(stack_outcome, "consensus_stack_outcome", "predicted",
           "and where nearly equal tokens have gone by then"),
    COLUMN(failed_stack, "consensus_stack_failed", "predicted", "hypothesis that fails here"),
    BOUND(theorem_c, "theorem_c_kept", LOWER,
          "mixers with a number for value map: the fraction of μ(X) that the model's own λ keeps "
          "behind the mixer, at least; 0: nothing is known (theorem C, L26)"),
    TWIN_OF(theorem_c, of.theorem_c_hangs, "theorem_c_kept"),
    COLUMN(failed_c, "theorem_c_failed", "certified", "hypothesis that fails here"),
    BOUND(
        fixed_kept, "fixed_mixing_kept", LOWER,
        "given matrices with a number for value map, without norms: the fraction of μ(X) that the "
        "model's own λ keeps, at least, of every X whose mean token has no larger a share than "
        "this one's (S-lemma, L28)"),
    TWIN_OF(fixed_kept, unconditional, "fixed_mixing_kept"),
    COLUMN(mean_share, "mean_share", "measured", "√n‖x̄‖/μ(X) of what enters, rounded up (L28)"),
    COLUMN(failed_fixed, "fixed_mixing_failed", "certified", "hypothesis that fails here"),
    BOUND(smoothing, "over_smoothing_v", UPPER,
          "μ behind the block ≤ v μ before it, with gains, Lipschitz constant and "
          "scales as they are (L18)"),
    TWIN_OF(smoothing, unconditional, "over_smoothing_v"),
    COLUMN(smoothing_published, "over_smoothing_published", "published",
           "v as published: ReLU, gains and skips 1"),
    COLUMN(failed_smoothing, "over_smoothing_failed", "certified", "hypothesis that fails here"),
    BOUND(mlp_gain, "mlp_weights_only_gain", UPPER,
          "c: what the layer's MLP adds has ‖o_i‖ ≤ c√d for every input, "
          "from the weights alone (L13)"),
    TWIN_OF(mlp_gain, unconditional, "mlp_weights_only_gain"),
    COLUMN(failed_mlp_gain, "mlp_weights_only_gain_failed", "certified",
           "hypothesis that fails here"),
    BOUND(any_demand, "demanded_for_any_input", UPPER,
          "without norms: every λ of at least this size keeps the wanted "
          "fraction of μ(X), whatever the sample's number of tokens holds "
          "and whatever the attention weights are (L19)"),
    TWIN_OF(any_demand, unconditional, "demanded_for_any_input"),
    BOUND(any_kept, "kept_for_any_input", LOWER,
          "and the fraction that the model's own λ keeps, at least; 0: "
          "nothing is known (L19)"),
    TWIN_OF(any_kept, unconditional, "kept_for_any_input"),
    COLUMN(failed_any, "any_input_failed", "certified", "hypothesis that fails here"),
    BOUND(theorem_d_kept, "theorem_d_kept", LOWER,
          "pre-norm blocks: the fraction of the row-normalised μ that the "
          "model's own λ leaves, at least, at every depth of a stack whose "
          "branches are no longer than this one on this input (L9)"),
    TWIN_OF(theorem_d_kept, hangs.d_kept, "theorem_d_kept"),
    COLUMN(theorem_d_published, "theorem_d_kept_published", "published",
           "the same with √2 for the chord, as printed"),
    COLUMN(failed_d_kept, "theorem_d_kept_failed", "certified", "hypothesis that fails here"),
    COLUMN(eq7_input, "eq7_input", "published",
           "b: beside equation 7 the theorem asks for μ(X)² ≥ b; at the "
           "model's own λ (L10)"),
    COLUMN(failed_eq7_input, "eq7_input_failed", "published", "why there is no b: what fails here"),
};
const rs_table_kind rs_certify_lambda_kind = {"certify", "lambda", {RS_PART(columns)}};

/* ---- intervals ---- */

/* A row of table intervals. */
typedef struct interval_cells {
    int64_t sample;
    int32_t layer;
    double low, high;
    const char *answer;
    bool conditional;
} interval_cells;

static const rs_column interval_columns[] = {
    {.name = "sample", RS_CELL(interval_cells, sample), .formula = "from 0"},
    {.name = "layer", RS_CELL(interval_cells, layer), .formula = "block, from 0; its mixer"},
    /* inwards: what is decided is decided of every λ between the ends that are shown */
    RS_CERTIFY_BOUND(interval_cells, low, "low", UPPER, "lower end of the λ; null: no end"),
    RS_CERTIFY_BOUND(interval_cells, high, "high", LOWER, "upper end; null: no end"),
    RS_CERTIFY_COLUMN(interval_cells, answer, "answer", "certified",
                      "yes: every λ of the interval keeps the wanted fraction; no: none does; "
                      "unknown: rounding or a limit on the search left it open (L1, L3 to L5)"),
    RS_CERTIFY_COLUMN(interval_cells, conditional, "answer_conditional", "certified",
                      TWIN_FORMULA("answer")),
};
const rs_table_kind rs_certify_intervals_kind = {
    "certify", "intervals", {RS_PART(interval_columns)}};

static rs_status add_intervals(rs_table *t, int64_t s, int32_t l, const rs_lambda_row *r,
                               rs_error *err)
{
    static const char *const answers[] = {
        [RS_LAMBDA_YES] = "yes", [RS_LAMBDA_NO] = "no", [RS_LAMBDA_UNKNOWN] = "unknown"};
    for (size_t i = 0; i < r->n_intervals; i++) {
        const rs_lambda_interval *interval = &r->intervals[i];
        const interval_cells cells = {s,
                                      l,
                                      interval->low,
                                      interval->high,
                                      answers[interval->answer],
                                      r->condition && interval->answer != RS_LAMBDA_UNKNOWN};
        RS_TRY(rs_table_append(t, &cells, err));
    }
    return RS_OK;
}

static rs_status intervals_table(rs_result *result, const rs_certify_lambda *lambda, rs_error *err)
{
    rs_table *t;
    RS_TRY(rs_result_add_table(
        result, "intervals", "Every skip strength, decided or not",
        "For the mixer of each layer, on each sample: the λ that keep the wanted fraction of μ(X) "
        "behind it (with the norm of the sum where there is one), those that do not, and those "
        "that "
        "are open",
        interval_columns, sizeof interval_columns / sizeof *interval_columns, &t, err));
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
                            columns, sizeof columns / sizeof *columns, &t, err));
    rs_table_show_first(t,
                        "sample,layer,lambda,kept_now,worst_kept,lambda_certified,lambda_exact_low,"
                        "lambda_exact_high");
    for (int64_t s = 0; s < rs_certify_lambda_samples(lambda); s++)
        for (int32_t l = 0; l < rs_certify_lambda_network(lambda)->n_layers; l++) {
            const rs_lambda_row *row = rs_certify_lambda_row(lambda, s, l);
            const rs_lambda_by_weights *by = &row->by_weights;
            bool hangs = row->condition != NULL;
            const lambda_cells cells = {.sample = s,
                                        .layer = l,
                                        .conditional = hangs,
                                        .hangs = {hangs && !by->a, hangs && !by->a_layer,
                                                  hangs && !by->d, hangs && !by->d_kept},
                                        .of = *row};
            if (row->told) RS_TRY(rs_table_append(t, &cells, err));
        }
    return intervals_table(result, lambda, err);
}
