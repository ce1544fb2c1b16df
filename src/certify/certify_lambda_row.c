/* certify_lambda_row.c: calls of lambda.h for one mixer on one sample. */
#include "certify/certify_lambda_parts.h"

#include "base/memory.h"
#include "network/op_traits.h"
#include "proof/lambda_scan.h"
#include "proof/lambda_span.h"

#include <float.h>
#include <math.h>

void rs_lambda_row_clear(rs_lambda_row *row, double lambda)
{
    rs_free(row->intervals);
    *row = (rs_lambda_row){.lambda = lambda,
                           .exact_low = NAN,
                           .exact_high = NAN,
                           .worst = NAN,
                           .worst_kept = NAN,
                           .certified = NAN,
                           .certified_negative = NAN,
                           .kept_now = NAN,
                           .kept_now_error = NAN,
                           .theorem_a = NAN,
                           .theorem_a_layer = NAN,
                           .theorem_b = NAN,
                           .theorem_d = NAN,
                           .eq7 = NAN,
                           .published_both = NAN,
                           .gain = NAN,
                           .smoothing = NAN,
                           .smoothing_published = NAN,
                           .consensus = NAN,
                           .mlp_gain = NAN,
                           .any_demand = NAN,
                           .any_kept = NAN,
                           .theorem_d_kept = NAN,
                           .theorem_d_published = NAN,
                           .eq7_input = NAN,
                           .theorem_c = NAN,
                           .stack_rate = NAN,
                           .fixed_kept = NAN,
                           .mean_share = NAN,
                           .published = NAN};
}

/* What is proved: nothing where a hypothesis fails. */
double rs_lambda_demanded(const rs_lambda_number *n, const char **failed)
{
    if (n->valid && isfinite(n->value)) return n->value;
    *failed = n->valid ? "a branch that some λ is large enough for" : n->failed_hypothesis;
    return NAN;
}

/* The share of the row-normalised μ that theorem D leaves at every depth, rounded down; a drift of
 * more than all leaves nothing. */
static double left_by(const rs_lambda_number *drift, const rs_lambda_facts *facts)
{
    if (!isfinite(drift->value) || !(facts->unit_diversity > 0)) return NAN;
    rs_span share = rs_span_div(rs_span_of(drift->value), rs_span_of(facts->unit_diversity));
    return fmax(0, rs_down(1 - share.high));
}

const char rs_lambda_pre_norm_text[] = "a norm before the branch (pre-norm)";

void rs_lambda_row_depth(rs_lambda_row *row, const rs_lambda_facts *facts, const rs_branch *mixer)
{
    double lambda = mixer->skip;
    rs_lambda_number drift = rs_lambda_theorem_d_drift(facts, facts->row_gain, lambda, false);
    rs_lambda_number printed = rs_lambda_theorem_d_drift(facts, facts->row_gain, lambda, true);
    if (mixer->before.kind == RS_NORM_NONE)
        row->failed_d_kept = rs_lambda_pre_norm_text;
    else if (!drift.valid)
        row->failed_d_kept = drift.failed_hypothesis;
    else if (!(facts->unit_diversity > 0))
        row->failed_d_kept = "the tokens of the input differ";
    if (!row->failed_d_kept) row->theorem_d_kept = left_by(&drift, facts);
    row->theorem_d_published = left_by(&printed, facts);
}

/* What the theorems say of the λ that the model has. */
static void at_own_lambda(rs_lambda_row *row, const rs_lambda_facts *facts,
                          const rs_lambda_wish *wish, const rs_branch *mixer)
{
    rs_lambda_row_depth(row, facts, mixer);
    row->eq7_input = rs_lambda_published_b(facts, wish, mixer->skip);
    if (isnan(row->eq7_input))
        row->failed_eq7_input = "equation 7 at the model's own lambda";
    else if (isinf(row->eq7_input))
        row->failed_eq7_input = "a b that is a double";
}

static void theorems(rs_lambda_row *row, const rs_lambda_facts *facts, const rs_branch *mixer,
                     const rs_lambda_attention_weights *weights, double kept)
{
    rs_lambda_wish wish = {
        .kept = kept,
        .layers = 1,
        .row_gain = facts->row_gain,
        .lipschitz = facts->diversity > 0 ? rs_up(facts->branch_diversity / facts->diversity) : NAN,
        .published = rs_lambda_published_constant(weights, facts->n, fabs(mixer->scale))};
    rs_lambda_number a = rs_lambda_theorem_a(facts, &wish);
    rs_lambda_number layer = rs_lambda_theorem_a_layer(facts, wish.kept);
    rs_lambda_number second = rs_lambda_theorem_b(facts, &wish);
    rs_lambda_number fourth = rs_lambda_theorem_d(facts, &wish);
    rs_lambda_number eq7 = rs_lambda_published_eq7(facts, &wish);
    rs_lambda_number both = rs_lambda_published_both(facts, &wish);
    row->theorem_a = rs_lambda_demanded(&a, &row->failed_a);
    row->theorem_a_layer = rs_lambda_demanded(&layer, &row->failed_a_layer);
    row->theorem_b = rs_lambda_demanded(&second, &row->failed_b);
    row->theorem_d = rs_lambda_demanded(&fourth, &row->failed_d);
    if (mixer->before.kind == RS_NORM_NONE) {
        row->failed_d = rs_lambda_pre_norm_text;
        row->theorem_d = NAN;
    }
    /* published: the number, whether or not it applies */
    row->eq7 = eq7.value;
    row->failed_eq7 = eq7.valid ? NULL : eq7.failed_hypothesis;
    row->published_both = both.value;
    row->published = wish.published;
    at_own_lambda(row, facts, &wish, mixer);
}

/* The half line is found without looking at the value itself; below it a few values, each as costly
 * as a norm of the tokens, find how far down the certain λ reach. */
static const double SEARCH_TOLERANCE = 1e-2;
enum { SEARCH_MOST = 12, SEARCH_STRETCHES = 10 };
/* Of what lies between the half lines. */
static const double PARTITION_TOLERANCE = 5e-2;
enum { PARTITION_MOST = 48 };

/* Joins a neighbour of the same answer. */
static void add_interval(rs_lambda_row *row, rs_lambda_interval interval)
{
    rs_lambda_interval *last = row->n_intervals ? &row->intervals[row->n_intervals - 1] : NULL;
    if (last && last->answer == interval.answer)
        last->high = interval.high;
    else
        row->intervals[row->n_intervals++] = interval;
}

/* kept·μ(X)/√d, rounded up. */
static double wanted(rs_lambda_value input, double kept)
{
    return rs_up(kept * rs_up(input.value + input.error));
}

/* All λ: the two half lines, and what a few values say of what lies between them. */
static rs_status partition(rs_lambda_row *row, const rs_lambda_arcs *arcs, rs_lambda_set *set,
                           double kept, rs_error *err)
{
    rs_lambda_value input = rs_lambda_input_value(arcs);
    double above = row->certified, below = row->certified_negative;
    bool closed = below < above;
    rs_lambda_search search = {wanted(input, kept),
                               closed && isfinite(below) ? below : (double)-INFINITY,
                               closed && isfinite(above) ? above : (double)INFINITY,
                               PARTITION_TOLERANCE,
                               PARTITION_MOST,
                               rs_down(kept * rs_down(input.value - input.error))};
    RS_TRY(rs_lambda_set_find(set, arcs, &search, err));
    row->intervals = rs_malloc(set->n + 2, sizeof *row->intervals);
    if (!row->intervals) return rs_fail_memory(err, "intervals of λ", 0);
    if (isfinite(search.low))
        row->intervals[row->n_intervals++] =
            (rs_lambda_interval){(double)-INFINITY, search.low, RS_LAMBDA_YES};
    for (size_t i = 0; i < set->n; i++)
        add_interval(row, set->intervals[i]);
    if (isfinite(search.high))
        add_interval(row, (rs_lambda_interval){search.high, (double)INFINITY, RS_LAMBDA_YES});
    return RS_OK;
}

/* known: the spread that enters is more than twice its own error. */
static void set_kept_now(rs_lambda_row *row, double share, double error, bool known)
{
    bool told = known && isfinite(share) && isfinite(error) && error >= 0;
    row->kept_now = told ? share : NAN;
    row->kept_now_error = told ? error : NAN;
    if (told) return;
    row->failed_kept = known ? "rounding may be larger than any double"
                             : "the spread that enters is no more than twice its own rounding";
}

static rs_status with_norm(rs_lambda_row *row, const rs_lambda_arcs *arcs, rs_lambda_set *set,
                           double kept, rs_error *err)
{
    rs_lambda_value input = rs_lambda_input_value(arcs);
    double target = wanted(input, kept);
    rs_lambda_half_lines half = rs_lambda_half_line_set(arcs, target, 1e-6);
    rs_lambda_value now = rs_lambda_value_at(arcs, row->lambda);
    row->certified = isfinite(half.positive) ? half.positive : NAN;
    row->certified_negative = isfinite(half.negative) ? half.negative : NAN;
    double share = now.value / input.value;
    /* of 5 roundings, and of the share itself (C10) */
    double error = (now.error + share * input.error) / (input.value - input.error);
    set_kept_now(row, share, error * (1 + 8 * DBL_EPSILON) + 4 * DBL_EPSILON * share,
                 input.value > 2 * input.error);
    if (isnan(row->certified)) row->failed_certified = "no half line of λ was found certain";
    /* from the half line downwards, while the whole of the next stretch is certain */
    for (int i = 0; i < SEARCH_STRETCHES && row->certified > 0.05; i++) {
        double below = 0.6 * row->certified;
        rs_lambda_search search = {target,           below,       row->certified,
                                   SEARCH_TOLERANCE, SEARCH_MOST, NAN};
        RS_TRY(rs_lambda_set_find(set, arcs, &search, err));
        if (isnan(set->all_above) || !(set->all_above < row->certified)) break;
        row->certified = set->all_above;
        if (row->certified > below) break;
    }
    return partition(row, arcs, set, kept, err);
}

/* The same of the sum alone, where the answer is known but for rounding at the two roots. */
static rs_status exact_partition(rs_lambda_row *row, const rs_lambda_quadratic *q, rs_error *err)
{
    row->intervals = rs_malloc(5, sizeof *row->intervals);
    if (!row->intervals) return rs_fail_memory(err, "intervals of λ", 0);
    double ends[] = {(double)-INFINITY, q->low,  q->fails_low,
                     q->fails_high,     q->high, (double)INFINITY};
    static const rs_lambda_answer answers[] = {RS_LAMBDA_YES, RS_LAMBDA_UNKNOWN, RS_LAMBDA_NO,
                                               RS_LAMBDA_UNKNOWN, RS_LAMBDA_YES};
    if (isnan(q->fails_low)) ends[2] = ends[3] = isnan(q->low) ? (double)INFINITY : q->high;
    if (isnan(q->low)) ends[1] = ends[4] = (double)INFINITY;
    for (int i = 0; i < 5; i++)
        if (ends[i] < ends[i + 1])
            add_interval(row, (rs_lambda_interval){ends[i], ends[i + 1], answers[i]});
    return RS_OK;
}

static const char beyond_text[] =
    "the branch is beyond any double times the tokens: nothing is known";

static void without_norm(rs_lambda_row *row, const rs_lambda_quadratic *q)
{
    row->certified = isnan(q->high) ? 0 : isfinite(q->high) ? q->high : NAN;
    row->certified_negative = isnan(q->low) ? 0 : isfinite(q->low) ? q->low : NAN;
    if (isnan(row->certified)) row->failed_certified = beyond_text;
}

/* μ(λX + O)/μ(X) from the sum itself, where the polynomial of λ would cancel. Its error: R is a
 * projection, so it lengthens no error of the sum, of X, or of their column means. */
static void kept_by_sum(rs_lambda_row *row, const rs_lambda_layer *layer, const double *sum)
{
    double before = 0, after = 0, inputs = 0, branches = 0;
    double roundoff = rs_gamma((double)layer->n + 8);
    for (int64_t j = 0; j < layer->d; j++) {
        double mean_x = 0, mean_y = 0;
        for (int64_t i = 0; i < layer->n; i++) {
            double x = layer->input[i * layer->input_ld + j];
            mean_x += x / (double)layer->n;
            mean_y += sum[i * layer->d + j] / (double)layer->n;
        }
        for (int64_t i = 0; i < layer->n; i++) {
            double x = layer->input[i * layer->input_ld + j];
            double o = layer->branch[i * layer->branch_ld + j], y = sum[i * layer->d + j] - mean_y;
            before += (x - mean_x) * (x - mean_x);
            after += y * y;
            inputs += x * x;
            branches += o * o;
        }
    }
    /* of squares the quotient may leave the doubles */
    double kept = sqrt(after) / sqrt(before), own = roundoff * sqrt(inputs);
    double least = sqrt(before) - own;
    double error = roundoff * (fabs(row->lambda) * sqrt(inputs) + sqrt(branches)) + kept * own;
    error += sqrt((double)layer->n) * layer->branch_error;
    error += 1e-150 * sqrt((double)(layer->n * layer->d)); /* squares of less underflow (C10) */
    error = error / least + rs_gamma((double)(layer->n * layer->d) + 8) * kept;
    set_kept_now(row, kept, error, sqrt(before) > 2 * own && before > 1e-280);
}

/* The sum alone, known to branch_error: R lengthens nothing, so that μ is off by √n of it at most,
 * and what is wanted is raised or lowered by as much (L20). */
static rs_status exact_set(rs_lambda_quadratic *out, const rs_lambda_layer *layer,
                           const rs_lambda_facts *facts, double kept, rs_error *err)
{
    RS_TRY(rs_lambda_quadratic_set(out, layer, kept, err));
    if (layer->branch_error == 0 || out->trivial) return RS_OK;
    /* √n ε/μ(X); diversity, μ(X)/√(nd), is rounded down; 2^-40 covers three roundings (C10) */
    double off = layer->branch_error / (facts->diversity * sqrt((double)layer->d)) * (1 + 0x1p-40);
    rs_lambda_quadratic lower;
    RS_TRY(rs_lambda_quadratic_set(&lower, layer, fmax(rs_down(kept - off), 0), err));
    if (!isfinite(off)) { /* nothing is known */
        out->low = -(double)INFINITY;
        out->high = INFINITY;
    } else {
        RS_TRY(rs_lambda_quadratic_set(out, layer, rs_up(kept + off), err));
    }
    out->fails_low = lower.fails_low;
    out->fails_high = lower.fails_high;
    return RS_OK;
}

/* What the weights say of the layer: of the mixer, or of all that share its skip. */
static void set_gains(rs_lambda_row *row, const rs_certify_scene *scene,
                      const rs_certify_gains *gains, int64_t n, int32_t l)
{
    const rs_layer *layer = &scene->network->layers[l];
    const rs_branch *mixer = rs_layer_mixer(layer);
    bool alone = rs_certify_last_on_skip(layer, mixer) == mixer;
    row->mlp_gain = gains->mlps[l].value;
    row->failed_mlp_gain = gains->mlps[l].failed_hypothesis;
    row->gain = alone ? gains->mixers[l] : gains->sums[l].value;
    row->failed_gain =
        alone ? rs_certify_gain_fails(scene->network, l, mixer) : gains->sums[l].failed_hypothesis;
    if (!row->failed_gain && !isfinite(row->gain))
        row->failed_gain = "norms of the weights that are doubles";
    if (alone)
        rs_certify_any_input(row, mixer, gains->plain + gains->head_at[l], n, scene->options->kept);
    else
        row->failed_any = "one branch on the sum";
}

rs_status rs_lambda_row_measure(rs_lambda_row *row, const rs_lambda_layer *layer, const double *sum,
                                double kept, rs_lambda_tools *tools, rs_error *err)
{
    rs_lambda_quadratic quadratic;
    RS_TRY(rs_lambda_facts_of(&row->facts, layer, err));
    RS_TRY(exact_set(&quadratic, layer, &row->facts, kept, err));
    row->exact_low = quadratic.low;
    row->exact_high = quadratic.high;
    row->worst = quadratic.worst;
    row->worst_kept = quadratic.worst_kept;
    if (layer->norm.kind != RS_LAMBDA_NO_NORM)
        row->failed_exact = "no norm after the sum (pre-norm)";
    else if (isinf(quadratic.low) || isinf(quadratic.high))
        row->failed_exact = beyond_text;
    if (layer->norm.kind == RS_LAMBDA_NO_NORM) {
        without_norm(row, &quadratic);
        kept_by_sum(row, layer, sum);
        return exact_partition(row, &quadratic, err);
    }
    RS_TRY(rs_lambda_arcs_set(tools->arcs, layer, err));
    return with_norm(row, tools->arcs, &tools->set, kept, err);
}

rs_status rs_lambda_row_fill(rs_lambda_row *row, const rs_certify_scene *scene,
                             const rs_certify_gains *gains, const rs_lambda_layer *layer,
                             const double *sum, int32_t l, rs_lambda_tools *tools, rs_error *err)
{
    const rs_branch *mixer = rs_layer_mixer(&scene->network->layers[l]);
    rs_lambda_attention_weights weights = rs_certify_attention_weights(gains, scene->network, l);
    double kept = scene->options->kept;
    row->told = true;
    row->failed_c = rs_scalar_text;
    row->failed_stack = rs_scalar_text;
    row->failed_fixed = rs_fixed_text;
    set_gains(row, scene, gains, layer->n, l);
    RS_TRY(rs_lambda_row_measure(row, layer, sum, kept, tools, err));
    theorems(row, &row->facts, mixer, &weights, kept);
    return RS_OK;
}

void rs_lambda_row_leave_out(rs_lambda_row *row)
{
    double *const values[] = {&row->exact_low,          &row->exact_high, &row->certified,
                              &row->certified_negative, &row->kept_now,   &row->kept_now_error};
    struct {
        double *value;
        const char **failed;
    } const theorems[] = {{&row->theorem_a, &row->failed_a},
                          {&row->theorem_a_layer, &row->failed_a_layer},
                          {&row->theorem_b, &row->failed_b},
                          {&row->theorem_d, &row->failed_d},
                          {&row->theorem_d_kept, &row->failed_d_kept}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        *values[i] = NAN;
    row->failed_exact = row->failed_certified = row->failed_kept = row->condition;
    for (size_t i = 0; i < sizeof theorems / sizeof *theorems; i++) {
        if (!isnan(*theorems[i].value)) *theorems[i].failed = row->condition;
        *theorems[i].value = NAN;
    }
    row->theorem_d_published = NAN;
    for (size_t i = 0; i < row->n_intervals; i++)
        row->intervals[i].answer = RS_LAMBDA_UNKNOWN;
    if (!row->n_intervals) return;
    row->intervals[0] =
        (rs_lambda_interval){-(double)INFINITY, (double)INFINITY, RS_LAMBDA_UNKNOWN};
    row->n_intervals = 1;
}
