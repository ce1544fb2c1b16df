/* certify_lambda.c: calls of lambda.h for the mixer of every layer and sample. */
#include "certify/certify_lambda.h"

#include "base/memory.h"
#include "certify/certify_gather.h"
#include "engine/dense_matrix.h"
#include "network/op_traits.h"
#include "proof/lambda_span.h"

#include <float.h>
#include <math.h>
#include <omp.h>

struct rs_certify_lambda {
    const rs_network *network;
    const rs_weight_norms *norms;
    const rs_certify_options *options;
    int64_t samples;
    int threads;
    rs_lambda_row *rows;        /* [samples, layers] */
    double *gains;              /* [layers] weights-only row gain; NaN: none */
    rs_lambda_number *mlps;     /* [layers] the same of the MLPs */
    double **head_norms;        /* [layers] into `all_norms` */
    double *plain_norms;        /* as all_norms, no norm folded in */
    double *all_norms, *vector; /* vector: gain and bias of the norm at hand */
    rs_lambda_arcs **arcs;      /* [threads] */
    rs_lambda_set *sets;        /* [threads] */
};

/* ---- weights ---- */

const rs_norm_op *rs_certify_reads_through(const rs_network *network, int32_t l, int32_t b)
{
    const rs_branch *branch = &network->layers[l].branches[b];
    const rs_norm_op *norm = NULL;
    if (branch->before.kind != RS_NORM_NONE) return &branch->before;
    if (b > 0 && !branch->joins)
        norm = &network->layers[l].branches[b - 1].after;
    else if (l > 0)
        norm = &network->layers[l - 1].branches[network->layers[l - 1].n_branches - 1].after;
    else if (!network->embedding.projection.weight)
        norm = &network->embedding.norm;
    return norm && norm->kind != RS_NORM_NONE ? norm : NULL;
}

static rs_lambda_attention_weights weights_of(const rs_branch *mixer, const rs_branch_norms *norms,
                                              double *head_norm, double bias)
{
    return (rs_lambda_attention_weights){.head_norm = head_norm,
                                         .heads = norms->n_heads,
                                         .kv_heads = rs_branch_attention(mixer)->kv_heads,
                                         .stacked_norm = NAN,
                                         .value_norm = NAN,
                                         .output_norm = NAN,
                                         .bias_norm = bias};
}

/* Why the rows of a mixer are not bounded by its weights alone; NULL: they are (L12). */
static const char *gain_fails(const rs_network *network, int32_t l, const rs_branch *mixer)
{
    if (!rs_branch_attention(mixer)) return "attention: the bound is on its weights";
    if (!rs_certify_reads_through(network, l, (int32_t)(mixer - network->layers[l].branches)))
        return "a norm before the branch: else what it reads has no known length";
    if (rs_branch_traits(mixer)->not_stochastic(mixer))
        return "attention that is not edited: its rows are no distributions";
    return mixer->inside.kind == RS_NORM_NONE ? NULL : "no norm inside the branch";
}

/* The gains of the layers' mixers and the norms of their heads, gains of the norm before folded in:
 * ‖W diag γ‖ ≤ ‖W‖ max|γ|. */
static void measure_weights(rs_certify_lambda *lambda)
{
    const rs_network *network = lambda->network;
    double *next = lambda->all_norms;
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        lambda->gains[l] = NAN;
        lambda->mlps[l] = rs_certify_mlp_gain(network, lambda->norms, l, lambda->vector);
        lambda->head_norms[l] = next;
        if (!mixer || mixer->scale == 0 || !rs_branch_attention(mixer)) continue;
        int32_t b = (int32_t)(mixer - network->layers[l].branches);
        const rs_branch_norms *norms = &lambda->norms->layers[l].branches[b];
        const rs_norm_op *norm = rs_certify_reads_through(network, l, b);
        double largest = 1, bias = 0, carried = norms->o_bias;
        if (norm) {
            rs_gain_norms gain;
            rs_gain_norms_of(&gain, lambda->vector, norm);
            largest = gain.largest, bias = gain.bias;
        }
        for (int32_t h = 0; h < norms->n_heads; h++) {
            lambda->plain_norms[next - lambda->all_norms + h] = norms->heads[h].w.two;
            next[h] = rs_times_up(norms->heads[h].w.two, largest);
            carried += rs_times_up(norms->heads[h].w.two, bias) +
                       rs_times_up(norms->heads[h].w.right_two, norms->heads[h].v_bias);
        }
        /* 1e-12: two roundings a head (docs/certificates.md, C10) */
        rs_lambda_attention_weights w = weights_of(mixer, norms, next, carried * (1 + 1e-12));
        if (!gain_fails(network, l, mixer))
            lambda->gains[l] =
                rs_lambda_gain_attention(&w, network->d_model, fabs(mixer->scale)).value;
        next += norms->n_heads;
    }
}

static size_t all_heads(const rs_network *network)
{
    size_t n = 1;
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        if (mixer) n += (size_t)rs_branch_traits(mixer)->matrices(mixer);
    }
    return n;
}

static rs_status fill_lambda(rs_certify_lambda *lambda, rs_error *err)
{
    size_t layers = (size_t)lambda->network->n_layers, rows;
    if (!rs_size_mul((size_t)lambda->samples, layers, &rows))
        return rs_fail_memory(err, "table lambda", SIZE_MAX);
    lambda->rows = rs_calloc(rows, sizeof *lambda->rows);
    lambda->gains = rs_calloc(layers, sizeof *lambda->gains);
    lambda->mlps = rs_calloc(layers, sizeof *lambda->mlps);
    lambda->head_norms = rs_calloc(layers, sizeof *lambda->head_norms);
    lambda->plain_norms = rs_calloc(all_heads(lambda->network), sizeof(double));
    lambda->all_norms = rs_calloc(all_heads(lambda->network), sizeof(double));
    lambda->vector = rs_calloc((size_t)lambda->network->d_model * 2 + 2, sizeof(double));
    lambda->arcs = rs_calloc((size_t)lambda->threads, sizeof *lambda->arcs);
    lambda->sets = rs_calloc((size_t)lambda->threads, sizeof *lambda->sets);
    if (!lambda->sets || !lambda->rows || !lambda->gains || !lambda->mlps || !lambda->head_norms ||
        !lambda->plain_norms || !lambda->all_norms || !lambda->vector || !lambda->arcs)
        return rs_fail_memory(err, "table lambda", rows * sizeof *lambda->rows);
    for (int t = 0; t < lambda->threads; t++)
        RS_TRY(rs_lambda_arcs_open(&lambda->arcs[t], err));
    measure_weights(lambda);
    return RS_OK;
}

rs_status rs_certify_lambda_open(rs_certify_lambda **out, const rs_network *network,
                                 const rs_weight_norms *norms, const rs_inputs *inputs,
                                 const rs_certify_options *options, int threads, rs_error *err)
{
    rs_certify_lambda *lambda = rs_calloc(1, sizeof *lambda);
    *out = lambda;
    if (!lambda) return rs_fail_memory(err, "table lambda", sizeof *lambda);
    lambda->network = network;
    lambda->norms = norms;
    lambda->options = options;
    lambda->samples = inputs->samples;
    lambda->threads = threads;
    return fill_lambda(lambda, err);
}

void rs_certify_lambda_close(rs_certify_lambda *lambda)
{
    if (!lambda) return;
    for (int t = 0; lambda->arcs && t < lambda->threads; t++)
        rs_lambda_arcs_close(lambda->arcs[t]);
    for (int64_t i = 0; lambda->rows && i < lambda->samples * lambda->network->n_layers; i++)
        rs_free(lambda->rows[i].intervals);
    for (int t = 0; lambda->sets && t < lambda->threads; t++)
        rs_lambda_set_free(&lambda->sets[t]);
    rs_free(lambda->sets);
    rs_free(lambda->arcs);
    rs_free(lambda->rows);
    rs_free(lambda->gains);
    rs_free(lambda->mlps);
    rs_free(lambda->plain_norms);
    rs_free(lambda->head_norms);
    rs_free(lambda->all_norms);
    rs_free(lambda->vector);
    rs_free(lambda);
}

/* ---- one mixer on one sample ---- */

static rs_lambda_norm norm_of(const rs_norm_op *norm, double *gain, double *bias)
{
    rs_lambda_norm out = {.kind = RS_LAMBDA_NO_NORM};
    if (norm->kind == RS_NORM_NONE) return out;
    rs_norm_vectors(gain, bias, norm);
    out.kind = norm->kind == RS_NORM_LAYERNORM ? RS_LAMBDA_LAYERNORM : RS_LAMBDA_RMSNORM;
    out.gain = norm->gain ? gain : NULL;
    out.bias = norm->bias ? bias : NULL;
    out.epsilon = norm->eps;
    return out;
}

static void no_row(rs_lambda_row *row, double lambda)
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
                           .eq7_input = NAN};
}

/* What is proved: nothing where a hypothesis fails. */
static double demand(const rs_lambda_number *n, const char **failed)
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

/* What the theorems say of the λ that the model has. */
static void at_own_lambda(rs_lambda_row *row, const rs_lambda_facts *facts,
                          const rs_lambda_wish *wish, const rs_branch *mixer)
{
    double lambda = mixer->skip;
    rs_lambda_number drift = rs_lambda_theorem_d_drift(facts, facts->row_gain, lambda, false);
    rs_lambda_number printed = rs_lambda_theorem_d_drift(facts, facts->row_gain, lambda, true);
    if (mixer->before.kind == RS_NORM_NONE)
        row->failed_d_kept = "a norm before the branch (pre-norm)";
    else if (!drift.valid)
        row->failed_d_kept = drift.failed_hypothesis;
    else if (!(facts->unit_diversity > 0))
        row->failed_d_kept = "the tokens of the input differ";
    if (!row->failed_d_kept) row->theorem_d_kept = left_by(&drift, facts);
    row->theorem_d_published = left_by(&printed, facts);
    row->eq7_input = rs_lambda_published_b(facts, wish, lambda);
    if (isnan(row->eq7_input))
        row->failed_eq7_input = "equation 7 at the model's own lambda";
    else if (isinf(row->eq7_input))
        row->failed_eq7_input = "a b that is a double";
}

static void theorems(rs_lambda_row *row, const rs_certify_lambda *lambda,
                     const rs_lambda_facts *facts, const rs_branch *mixer, int32_t l)
{
    int32_t b = (int32_t)(mixer - lambda->network->layers[l].branches);
    const rs_branch_norms *norms = &lambda->norms->layers[l].branches[b];
    rs_lambda_attention_weights w = weights_of(mixer, norms, lambda->head_norms[l], 0);
    rs_lambda_wish wish = {
        .kept = lambda->options->kept,
        .layers = 1,
        .row_gain = facts->row_gain,
        .lipschitz = facts->diversity > 0 ? rs_up(facts->branch_diversity / facts->diversity) : NAN,
        .published = rs_lambda_published_constant(&w, facts->n, fabs(mixer->scale))};
    rs_lambda_number a = rs_lambda_theorem_a(facts, &wish);
    rs_lambda_number layer = rs_lambda_theorem_a_layer(facts, wish.kept);
    rs_lambda_number second = rs_lambda_theorem_b(facts, &wish);
    rs_lambda_number fourth = rs_lambda_theorem_d(facts, &wish);
    rs_lambda_number eq7 = rs_lambda_published_eq7(facts, &wish);
    rs_lambda_number both = rs_lambda_published_both(facts, &wish);
    row->theorem_a = demand(&a, &row->failed_a);
    row->theorem_a_layer = demand(&layer, &row->failed_a_layer);
    row->theorem_b = demand(&second, &row->failed_b);
    row->theorem_d = demand(&fourth, &row->failed_d);
    if (mixer->before.kind == RS_NORM_NONE) {
        row->failed_d = "a norm before the branch (pre-norm)";
        row->theorem_d = NAN;
    }
    /* published: the number, whether or not it applies */
    row->eq7 = eq7.value;
    row->failed_eq7 = eq7.valid ? NULL : eq7.failed_hypothesis;
    row->published_both = both.value;
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
static void kept_by_sum(rs_lambda_row *row, const rs_lambda_layer *layer)
{
    double before = 0, after = 0, inputs = 0, branches = 0;
    double roundoff = rs_gamma((double)layer->n + 8);
    for (int64_t j = 0; j < layer->d; j++) {
        double mean_x = 0, mean_y = 0;
        for (int64_t i = 0; i < layer->n; i++) {
            double x = layer->input[i * layer->input_ld + j];
            mean_x += x / (double)layer->n;
            mean_y +=
                (row->lambda * x + layer->branch[i * layer->branch_ld + j]) / (double)layer->n;
        }
        for (int64_t i = 0; i < layer->n; i++) {
            double x = layer->input[i * layer->input_ld + j];
            double o = layer->branch[i * layer->branch_ld + j], y = row->lambda * x + o - mean_y;
            before += (x - mean_x) * (x - mean_x);
            after += y * y;
            inputs += x * x;
            branches += o * o;
        }
    }
    double kept = sqrt(after / before), own = roundoff * sqrt(inputs), least = sqrt(before) - own;
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

static rs_status one(rs_lambda_row *row, const rs_certify_lambda *lambda, rs_lambda_layer *layer,
                     const rs_branch *mixer, int32_t l, rs_lambda_arcs *arcs, rs_lambda_set *set,
                     rs_error *err)
{
    rs_lambda_quadratic quadratic;
    rs_lambda_facts facts;
    double kept = lambda->options->kept;
    row->told = true;
    row->gain = lambda->gains[l];
    row->failed_gain = gain_fails(lambda->network, l, mixer);
    if (!row->failed_gain && !isfinite(row->gain))
        row->failed_gain = "norms of the weights that are doubles";
    row->mlp_gain = lambda->mlps[l].value;
    row->failed_mlp_gain = lambda->mlps[l].failed_hypothesis;
    rs_certify_any_input(row, mixer,
                         lambda->plain_norms + (lambda->head_norms[l] - lambda->all_norms),
                         layer->n, kept);
    RS_TRY(rs_lambda_facts_of(&facts, layer, err));
    RS_TRY(exact_set(&quadratic, layer, &facts, kept, err));
    row->exact_low = quadratic.low;
    row->exact_high = quadratic.high;
    row->worst = quadratic.worst;
    row->worst_kept = quadratic.worst_kept;
    if (layer->norm.kind != RS_LAMBDA_NO_NORM)
        row->failed_exact = "no norm after the sum (pre-norm)";
    else if (isinf(quadratic.low) || isinf(quadratic.high))
        row->failed_exact = beyond_text;
    theorems(row, lambda, &facts, mixer, l);
    if (layer->norm.kind == RS_LAMBDA_NO_NORM) {
        without_norm(row, &quadratic);
        kept_by_sum(row, layer);
        return exact_partition(row, &quadratic, err);
    }
    RS_TRY(rs_lambda_arcs_set(arcs, layer, err));
    return with_norm(row, arcs, set, kept, err);
}

/* How far rows of the exact branch, its scale included, from the tapped state, may be from those of
 * the pass (C9). */
static rs_status branch_error(double *error, rs_lambda_row *row, const rs_certify_gather *g,
                              int64_t s, int32_t l, int32_t b, rs_error *err)
{
    const rs_branch *branch = &g->network->layers[l].branches[b];
    const rs_branch_norms *norms = &g->norms->layers[l].branches[b];
    rs_exact_branch at = {branch, norms, rs_pass_branch(g->pass, g->batch.first + s, l, b),
                          rs_batch_rows(g, s)};
    double *slack = rs_malloc((size_t)norms->n_heads, sizeof *slack);
    if (!slack) return rs_fail_memory(err, "table lambda", 0);
    double off = rs_exact_added(slack, &row->condition, &at);
    rs_free(slack);
    /* the scale's own rounding in 4 DBL_EPSILON, that of this line in 8 (C10) */
    *error = fabs(branch->scale) * (off + 4 * DBL_EPSILON * rs_exact_longest(&at)) *
                 (1 + 8 * DBL_EPSILON) +
             1e-290; /* what underflows */
    if (isnan(*error)) *error = INFINITY;
    return RS_OK;
}

/* --rigorous: what hangs on a condition is left out, for that reason. */
static void leave_out(rs_lambda_row *row)
{
    double *const values[] = {&row->exact_low, &row->exact_high,      &row->certified,
                              &row->kept_now,  &row->kept_now_error,  &row->certified_negative,
                              &row->theorem_a, &row->theorem_a_layer, &row->theorem_b,
                              &row->theorem_d, &row->theorem_d_kept,  &row->theorem_d_published};
    const char **const reasons[] = {&row->failed_exact,     &row->failed_a,     &row->failed_kept,
                                    &row->failed_a_layer,   &row->failed_b,     &row->failed_d,
                                    &row->failed_certified, &row->failed_d_kept};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        *values[i] = NAN;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        *reasons[i] = row->condition;
    for (size_t i = 0; i < row->n_intervals; i++)
        row->intervals[i].answer = RS_LAMBDA_UNKNOWN;
    if (!row->n_intervals) return;
    row->intervals[0] =
        (rs_lambda_interval){-(double)INFINITY, (double)INFINITY, RS_LAMBDA_UNKNOWN};
    row->n_intervals = 1;
}

/* A row of a mixer whose kind has no theorem: nothing is certain but what the layer's MLP may add,
 * and each column says why. */
static void unproved_row(rs_lambda_row *row, const rs_branch *mixer, const char *why,
                         const rs_lambda_number *mlp)
{
    no_row(row, mixer->skip);
    row->told = true;
    row->mlp_gain = mlp->value;
    row->failed_mlp_gain = mlp->failed_hypothesis;
    row->failed_any = row->failed_eq7_input = why;
    row->condition = row->failed_gain = row->failed_eq7 = row->failed_consensus = why;
    leave_out(row);
    row->condition = NULL; /* no number is left that could hang on it */
}

rs_status rs_certify_lambda_branch(rs_certify_gather *g, int32_t l, int32_t b, rs_error *err)
{
    rs_certify_lambda *lambda = g->lambda;
    const rs_layer *layer = &g->network->layers[l];
    const rs_branch *mixer = &layer->branches[b];
    int64_t d = g->network->d_model;
    if (!lambda || mixer != rs_layer_mixer(layer) || mixer->scale == 0) return RS_OK;
    const char *unproved = rs_branch_traits(mixer)->unproved;
    double *gain = lambda->vector, *bias = gain + d;
    rs_lambda_norm norm = norm_of(&mixer->after, gain, bias);
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
    int64_t all = g->batch.batch.begin[g->batch.batch.samples] * d;
    if (mixer->scale != 1) /* what the branch added, its scale included */
        for (int64_t i = 0; i < all; i++)
            g->branch.data[i] *= mixer->scale;
#pragma omp parallel for num_threads(g->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < g->batch.batch.samples; s++) {
        int64_t from = g->batch.batch.begin[s] * d;
        rs_lambda_layer given = {.input = g->state.data + from,
                                 .branch = g->branch.data + from,
                                 .n = rs_batch_rows(g, s),
                                 .d = d,
                                 .input_ld = d,
                                 .branch_ld = d,
                                 .norm = norm};
        rs_lambda_row *row = &lambda->rows[(g->batch.first + s) * lambda->network->n_layers + l];
        rs_error error = {0};
        no_row(row, mixer->skip);
        const rs_certify_state *in = rs_pass_state(g->pass, g->batch.first + s, l);
        row->nonfinite = given.n > 1 && !in->finite;
        if (given.n < 2 || !in->finite || in->equal) continue;
        if (unproved) {
            unproved_row(row, mixer, unproved, &lambda->mlps[l]);
            continue;
        }
        int thread = omp_get_thread_num();
        rs_status status = branch_error(&given.branch_error, row, g, s, l, b, &error);
        if (status == RS_OK)
            status = one(row, lambda, &given, mixer, l, lambda->arcs[thread], &lambda->sets[thread],
                         &error);
        if (status == RS_OK) status = rs_consensus_row(row, g, &given, mixer, s, l, &error);
        if (status == RS_OK && row->condition && lambda->options->rigorous) leave_out(row);
        /* A branch that is not finite: no row, and the findings of the pass say where. */
        if (status == RS_E_INPUT_FORMAT) {
            no_row(row, mixer->skip);
            row->nonfinite = true;
        } else if (status != RS_OK)
            rs_keep_first(&kept, &kept_error, status, &error);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

rs_status rs_certify_lambda_finish(rs_certify_lambda *lambda, const rs_certify_pass *pass,
                                   rs_error *err)
{
    size_t heads = 3 * all_heads(lambda->network);
    double *work = rs_malloc(heads, sizeof *work);
    if (!work) return rs_fail_memory(err, "table lambda", heads * sizeof *work);
    for (int64_t s = 0; s < lambda->samples; s++)
        for (int32_t l = 0; l < lambda->network->n_layers; l++) {
            rs_lambda_row *row = &lambda->rows[s * lambda->network->n_layers + l];
            row->at_floor = rs_pass_state(pass, s, l)->at_floor;
            if (row->at_floor && !row->failed_exact)
                row->failed_exact = "the tokens that enter differ by rounding alone";
            if (row->told) rs_certify_smoothing(row, lambda->norms, pass, s, l, work);
        }
    rs_free(work);
    return RS_OK;
}

int64_t rs_certify_lambda_samples(const rs_certify_lambda *lambda)
{
    return lambda->samples;
}

const rs_lambda_row *rs_certify_lambda_row(const rs_certify_lambda *lambda, int64_t s, int32_t l)
{
    return &lambda->rows[s * lambda->network->n_layers + l];
}

const rs_network *rs_certify_lambda_network(const rs_certify_lambda *lambda)
{
    return lambda->network;
}

double rs_certify_lambda_kept(const rs_certify_lambda *lambda)
{
    return lambda->options->kept;
}
