/*
 * certify_chain.c: certificates of whole chains of layers, "measure until small, then certify"
 * (docs/certificates.md, C3 to C6 and C9).
 *
 * A chain starts in a measured state, taken as exact, and is carried branch by branch: `hi` and
 * `lo` enclose the diameter of the exact trajectory, `deviation` bounds how far it is from the
 * computed one. The scalars are balls, so that bounds of any size are proved ones.
 */
#include "certify/certify.h"

#include "base/memory.h"
#include "linalg/ball.h"
#include "network/op_traits.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct chain {
    const rs_certify_pass *pass;
    const rs_weight_norms *norms;
    const rs_chain_options *options;
    int64_t sample;
    arb_t hi, lo, op, read, factor, other; /* read: of what the layer's first branch read */
    double deviation, read_deviation;
    bool enclosed;
    const char *condition, *failed;
    rs_head_bound *heads;
    double *slack;
} chain;

static void chain_init(chain *c)
{
    arb_init(c->hi);
    arb_init(c->lo);
    arb_init(c->op);
    arb_init(c->read);
    arb_init(c->factor);
    arb_init(c->other);
}

static void chain_clear(chain *c)
{
    arb_clear(c->hi);
    arb_clear(c->lo);
    arb_clear(c->op);
    arb_clear(c->read);
    arb_clear(c->factor);
    arb_clear(c->other);
}

/* ---- parts of a branch ---- */

/* Of the computed rows, of which the exact ones have the bound: two rows are no further apart than
 * their lengths, either. .000001 and 1e-9 cover the products, the sum is one operation more under
 * what C9 raises it by (docs/certificates.md, C10). */
static double computed_diameter(const arb_t bound, double deviation, double longest)
{
    return fmin(rs_ball_upper(bound) + 2.000001 * deviation, 2 * longest * (1 + 1e-9));
}

/* A norm: bound and deviation behind it. */
static void pass_norm(chain *c, arb_t bound, double *deviation, const rs_norm_op *norm,
                      const rs_gain_norms *gain, double least_std, double longest)
{
    double low;
    if (norm->kind == RS_NORM_NONE) return;
    *deviation = rs_exact_norm(&low, norm, gain, least_std, longest, *deviation);
    if (!isfinite(*deviation) && !c->failed)
        c->failed = "a norm without epsilon reads tokens that rounding may have made constant";
    rs_norm_bound_ball(bound, bound, gain->largest, low, &c->options->constants);
}

static void attention(chain *c, const rs_exact_branch *at, const rs_certify_head *heads,
                      double *deviation)
{
    const rs_attention_op *op = &at->branch->attention;
    bool bilinear = !rs_branch_traits(at->branch)->not_bilinear(at->branch);
    double scale = fabs(op->scale / op->temperature) * (1 + 4 * DBL_EPSILON); /* of 1 (C10) */
    double weight = (fabs(op->mix_identity) + fabs(op->mix_softmax) + fabs(op->mix_uniform)) *
                    (1 + 8 * DBL_EPSILON); /* of 2 (C10) */
    double diameter = computed_diameter(c->op, *deviation, at->seen->longest_op_in);
    *deviation = rs_exact_attention(c->slack, &c->condition, at, diameter, *deviation);
    for (int32_t h = 0; h < at->norms->n_heads; h++) {
        const rs_head_norms *head = &at->norms->heads[h];
        double tau = heads[h].tau * (1 + rs_gamma((double)at->tokens + 4)) + c->slack[h];
        c->heads[h] = (rs_head_bound){
            .qk_norm = bilinear ? rs_times_up(scale, head->qk.two) : NAN,
            .value_norm = head->w.two,
            .measured = c->options->weights_only && bilinear ? NAN : fmin(tau, weight),
            .identity = fabs(op->mix_identity),
            .softmax = fabs(op->mix_softmax)};
    }
    rs_attention_bound_ball(c->op, c->op, c->heads, at->norms->n_heads, &c->options->constants);
}

static void mlp(chain *c, const rs_exact_branch *at, double *deviation)
{
    double lipschitz;
    *deviation = rs_exact_mlp(at, &lipschitz, &c->options->constants, *deviation);
    if (arb_is_zero(c->op)) return;
    rs_ball_set(c->other, lipschitz);
    arb_mul(c->op, c->op, c->other, RS_BALL_BITS);
    rs_ball_keep_upper(c->op);
}

/* lo' and hi' of skip·X + scale·op. */
static void add_skip(chain *c, const rs_branch *branch, bool joined)
{
    rs_ball_set(c->other, fabs(branch->scale));
    arb_mul(c->op, c->op, c->other, RS_BALL_BITS);
    rs_ball_keep_upper(c->op);
    if (!joined && !arb_is_zero(c->hi)) {
        arb_div(c->factor, c->op, c->hi, RS_BALL_BITS);
        rs_ball_keep_upper(c->factor);
        rs_skip_lower_ball(c->lo, branch->skip, c->factor);
    } else { /* the branch read another state: the two diameters are not in proportion */
        rs_ball_set(c->other, fabs(branch->skip));
        arb_mul(c->lo, c->lo, c->other, RS_BALL_BITS);
        arb_sub(c->lo, c->lo, c->op, RS_BALL_BITS);
        rs_ball_keep_lower(c->lo);
        if (!arb_is_positive(c->lo)) arb_zero(c->lo);
    }
    rs_ball_set(c->other, fabs(branch->skip));
    if (branch->skip == 0)
        arb_zero(c->hi);
    else
        arb_mul(c->hi, c->hi, c->other, RS_BALL_BITS);
    arb_add(c->hi, c->hi, c->op, RS_BALL_BITS);
    rs_ball_keep_upper(c->hi);
}

/* The theorem of the op's own kind; an op that has none fails the chain with its reason. */
static void run_op(chain *c, const rs_exact_branch *at, const rs_certify_head *heads,
                   double *deviation)
{
    if (!c->failed) c->failed = rs_branch_unproved(at->branch);
    if (rs_branch_mlp(at->branch)) mlp(c, at, deviation);
    if (!rs_branch_plain_attention(at->branch)) return;
    if (at->branch->attention.cross) c->failed = "cross-attention reads other tokens";
    if (at->seen->empty_rows) c->failed = "tokens that see no key";
    attention(c, at, heads, deviation);
}

static void run_branch(chain *c, int32_t l, int32_t b)
{
    const rs_branch *branch = &c->pass->network->layers[l].branches[b];
    const rs_branch_norms *norms = &c->norms->layers[l].branches[b];
    const rs_certify_branch *seen = rs_pass_branch(c->pass, c->sample, l, b);
    rs_exact_branch at = {branch, norms, seen, c->pass->tokens[c->sample]};
    bool joined = branch->joins && b > 0;
    double inner = joined ? c->read_deviation : c->deviation;
    arb_set(c->op, joined ? c->read : c->hi);
    if (branch->scale != 0) {
        pass_norm(c, c->op, &inner, &branch->before, &norms->before, seen->before_std,
                  seen->longest_read);
        run_op(c, &at, rs_pass_heads(c->pass, c->sample, l, b), &inner);
        pass_norm(c, c->op, &inner, &branch->inside, &norms->inside, seen->inside_std,
                  seen->longest_op_out);
    } else {
        arb_zero(c->op);
        inner = 0;
    }
    add_skip(c, branch, joined);
    c->deviation = rs_deviation_sum(branch->skip, c->deviation, seen->longest_in, branch->scale,
                                    inner, rs_exact_longest(&at));
    if (!isfinite(c->deviation) && !c->failed)
        c->failed = "rounding may move the tokens by more than any double";
    if (branch->after.kind == RS_NORM_NONE) return;
    pass_norm(c, c->hi, &c->deviation, &branch->after, &norms->after, seen->after_std,
              seen->longest_sum);
    arb_zero(c->lo); /* a norm may take the very direction away in which tokens differ */
}

/* ---- chains ---- */

static void start_chain(chain *c, int32_t source)
{
    const rs_certify_state *state = rs_pass_state(c->pass, c->sample, source);
    double d = (double)c->pass->network->d_model;
    /* d + 8 roundings where there are d + 2, for those of this line; squares of less than 1e-150
     * underflow (docs/certificates.md, C10) */
    double own = rs_gamma(d + 8), tiny = state->equal ? 0 : 1e-150;
    rs_ball_set(c->hi, state->equal ? 0 : state->diameter * (1 + own) + tiny);
    rs_ball_set(c->lo, fmax(0, state->diameter * (1 - own) - tiny));
    c->deviation = 0;
    c->enclosed = false;
    c->condition = NULL;
    c->failed = state->finite ? NULL : "the state that enters is not finite";
    /* What rounding made equal is not equal: the state before it is the one to start from. */
    if (state->equal && !rs_pass_state(c->pass, c->sample, 0)->equal)
        c->failed = "the tokens that enter are equal in float64, though not at the input";
}

/* What tells the tokens of such a state apart is rounding, which may hide what does so in truth:
 * what follows from it says something of the layer, nothing of the input. */
static bool is_rounding(const chain *c, int32_t source)
{
    return source > 0 && rs_pass_state(c->pass, c->sample, source)->at_floor;
}

/* The measured state that leaves a layer, widened by what the pass may have got wrong. */
static void enclose(chain *c, int32_t l)
{
    const rs_certify_state *state = rs_pass_state(c->pass, c->sample, l + 1);
    if (c->failed || !isfinite(c->deviation)) return;
    double low = rs_deviation_diameter(state->diameter, c->pass->network->d_model, c->deviation);
    rs_ball_set(c->other, low);
    if (!(low > 0) || !rs_ball_less(c->lo, c->other)) return;
    arb_set(c->lo, c->other);
    c->enclosed = true;
}

static rs_certificate told(const chain *c, int32_t source)
{
    rs_certificate t = {.source = source,
                        .log_upper = INFINITY,
                        .upper = INFINITY,
                        .log_lower = -INFINITY,
                        .condition = c->condition,
                        .enclosed = c->enclosed,
                        .failed = c->failed};
    if (!t.failed && c->options->rigorous) t.failed = t.condition;
    if (t.failed) return t;
    t.log_upper = rs_ball_log10_upper(c->hi);
    t.upper = rs_ball_upper(c->hi);
    t.log_lower = rs_ball_log10_lower(c->lo);
    t.lower = fmax(0, rs_ball_lower(c->lo));
    return t;
}

static void run_layer(chain *c, int32_t l)
{
    const rs_layer *layer = &c->pass->network->layers[l];
    arb_set(c->read, c->hi);
    c->read_deviation = c->deviation;
    if (!c->failed) c->failed = rs_layer_unproved(layer);
    for (int32_t b = 0; b < layer->n_branches; b++)
        run_branch(c, l, b);
    const rs_certify_state *out = rs_pass_state(c->pass, c->sample, l + 1);
    if (!out->finite && !c->failed) c->failed = "a state of the pass is not finite";
}

/* What is proved before what hangs on a condition; of two alike, the smaller bound. */
static bool better(const rs_certificate *a, const rs_certificate *b)
{
    if (a->failed || b->failed) return !a->failed;
    if (!a->condition != !b->condition) return !a->condition;
    return a->log_upper < b->log_upper;
}

static void keep_largest(double *largest, double value)
{
    if (!(value <= *largest)) *largest = value; /* NaN: none yet */
}

static void run_chain(chain *c, rs_certify_layer *out, double *chains, int32_t source)
{
    int32_t layers = c->pass->network->n_layers;
    int32_t reached = source; /* the first layer behind which nothing is proved for this sample */
    start_chain(c, source);
    if (c->failed && out) out[source].one_step = told(c, source);
    for (int32_t l = source; l < layers && !c->failed; l++) {
        run_layer(c, l);
        c->enclosed = false;
        if (l == source) enclose(c, l);
        rs_certificate t = told(c, source);
        if (out && l == source) out[l].one_step = t;
        if (out && source == 0) out[l].from_input = t;
        if (out && t.failed && out[l].best.failed) out[l].best.failed = t.failed;
        if (is_rounding(c, source)) break;
        if (out && better(&t, &out[l].best)) out[l].best = t;
        if (chains)
            keep_largest(chains + (int64_t)source * layers + l,
                         t.condition ? INFINITY : t.log_upper);
        reached = l + 1;
    }
    /* the largest over the samples is not known where one has none */
    for (int32_t l = reached; chains && l < layers; l++)
        keep_largest(chains + (int64_t)source * layers + l, INFINITY);
}

void rs_certify_chains(rs_certify_layer *out, double *chains, const rs_certify_pass *pass,
                       const rs_weight_norms *norms, int64_t s, const rs_chain_options *options,
                       rs_head_bound *heads, double *slack)
{
    chain c = {.pass = pass,
               .norms = norms,
               .options = options,
               .sample = s,
               .heads = heads,
               .slack = slack};
    rs_certificate none = {.log_upper = INFINITY,
                           .upper = INFINITY,
                           .log_lower = -INFINITY,
                           .failed = "a state before it has no certificate"};
    chain_init(&c);
    for (int32_t l = 0; l < pass->network->n_layers; l++)
        if (out) out[l] = (rs_certify_layer){none, none, none};
    for (int32_t source = 0; source < pass->network->n_layers; source++)
        run_chain(&c, out, chains, source);
    chain_clear(&c);
}
