/*
 * certify_published.c: the published bounds with their own constants, and the corrected recursion
 * of the composite norm (docs/certificates.md, P1 to P3 and C7), each with the hypothesis that
 * fails.
 */
#include "certify/certify_parts.h"

#include "network/op_traits.h"

#include <math.h>

/* ---- hypotheses ---- */

static bool has_norm(const rs_layer *layer)
{
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        if (branch->before.kind != RS_NORM_NONE || branch->inside.kind != RS_NORM_NONE ||
            branch->after.kind != RS_NORM_NONE)
            return true;
    }
    return false;
}

/* What neither the theorem nor the recursion covers. */
static const char *shape_fails(const rs_layer *layer)
{
    const rs_branch *mixer = rs_layer_mixer(layer);
    if (!mixer || !rs_branch_plain_attention(mixer)) return "no attention in this layer";
    const char *why = rs_branch_traits(mixer)->not_bilinear(mixer);
    if (!why) why = rs_branch_traits(mixer)->not_stochastic(mixer);
    if (why) return why;
    if (has_norm(layer)) return "a norm in the layer";
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        if (rs_branch_traits(branch)->mixes && branch != mixer)
            return "a second mixer in the layer";
        if (branch->joins && b > 0) return "a parallel block";
        const rs_mlp_op *mlp = rs_branch_mlp(branch);
        if (mlp && branch->scale != 0 && (mlp->gate.weight || mlp->activation == RS_ACT_RELU2))
            return "an MLP without a Lipschitz constant on the whole line";
    }
    return NULL;
}

static const char *theorem_fails(const rs_layer *layer)
{
    const char *why = shape_fails(layer);
    if (why) return why;
    const rs_branch *mixer = rs_layer_mixer(layer);
    if (mixer->skip != 0) return "a skip around the attention";
    if (mixer->scale != 0 && mixer->attention.heads > 1)
        return "several heads: the composite norm has no triangle inequality";
    return NULL;
}

/* ---- numbers of one layer ---- */

typedef struct layer_numbers {
    double gamma, beta, range, scale, heads, lipschitz, mlp_one, mlp_inf;
    rs_recursion_step step;
} layer_numbers;

static void mlp_factors(layer_numbers *out, const rs_layer *layer, const rs_layer_norms *norms,
                        const rs_bound_constants *c)
{
    out->mlp_one = out->mlp_inf = 1;
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        const rs_branch_norms *n = &norms->branches[b];
        const rs_mlp_op *mlp = rs_branch_mlp(branch);
        if (!mlp) continue;
        double skip = fabs(branch->skip), slope = fabs(branch->scale);
        if (branch->scale != 0) slope *= c->lipschitz[mlp->activation];
        out->mlp_one *=
            skip + (slope == 0 ? 0 : rs_times_up(slope, rs_times_up(n->up_one, n->down_one)));
        out->mlp_inf *=
            skip + (slope == 0 ? 0 : rs_times_up(slope, rs_times_up(n->up_inf, n->down_inf)));
    }
    out->lipschitz = sqrt(out->mlp_one * out->mlp_inf);
}

static layer_numbers numbers_of(const rs_certify_pass *pass, const rs_weight_norms *norms,
                                int64_t s, int32_t l, rs_head_sums *heads,
                                const rs_bound_constants *c)
{
    const rs_layer *layer = &pass->network->layers[l];
    const rs_branch *mixer = rs_layer_mixer(layer);
    layer_numbers out = {.gamma = NAN, .beta = NAN, .range = NAN, .heads = 1};
    mlp_factors(&out, layer, &norms->layers[l], c);
    out.step = (rs_recursion_step){
        .heads = heads, .skip = 1, .mlp_one = out.mlp_one, .mlp_inf = out.mlp_inf};
    const rs_attention_op *op = mixer ? rs_branch_plain_attention(mixer) : NULL;
    if (!op || mixer->scale == 0) return out;
    int32_t b = (int32_t)(mixer - layer->branches);
    const rs_branch_norms *n = &norms->layers[l].branches[b];
    const rs_certify_head *seen = rs_pass_heads(pass, s, l, b);
    double r = rs_pass_state(pass, s, l)->residual_1inf;
    out.scale = fabs(op->scale / op->temperature);
    out.heads = n->n_heads;
    out.step.n_heads = n->n_heads;
    out.step.skip = fabs(mixer->skip);
    out.step.scale = fabs(mixer->scale);
    for (int32_t h = 0; h < n->n_heads; h++) {
        const rs_head_norms *w = &n->heads[h];
        double gamma = rs_gamma_min(seen[h].sum_ranges, seen[h].range, out.scale, r, r, w->qk.one);
        out.gamma = fmax(out.gamma, gamma);
        out.range = fmax(out.range, seen[h].range);
        out.beta = fmax(out.beta, fabs(mixer->scale) * w->qk.one * sqrt(w->w.one * w->w.inf));
        heads[h] = (rs_head_sums){.qk_one = rs_times_up(out.scale, w->qk.one),
                                  .w_one = w->w.one,
                                  .w_inf = w->w.inf,
                                  .range = NAN};
    }
    return out;
}

/* ---- all layers of a sample ---- */

/* What the theorem carries from layer to layer. */
typedef struct depth {
    double gamma, beta, heads, scale, lipschitz, log_q;
    const char *failed, *recursion_failed;
} depth;

static void widen(depth *to, const layer_numbers *n)
{
    to->gamma = fmax(to->gamma, n->gamma);
    to->beta = fmax(to->beta, n->beta);
    to->heads = fmax(to->heads, n->heads);
    to->scale = fmax(to->scale, n->scale);
    to->lipschitz = fmax(to->lipschitz, n->lipschitz);
}

static double log_of(double x)
{
    return x > 0 ? log10(x) : (double)-INFINITY;
}

/* log10 of ‖R‖₁,∞ of a measured state, rounded up. About the mean that was found, the entries of R
 * are wrong by three roundings of the largest of their column, and the sums by their own. 1e-12:
 * the logarithm's own; 1e-150: what underflows (docs/certificates.md, C10). */
static double log_of_measured(const rs_certify_pass *pass, int64_t s, int32_t l)
{
    const rs_certify_state *state = rs_pass_state(pass, s, l);
    double count = (double)(pass->tokens[s] + pass->network->d_model);
    if (state->equal) return -INFINITY;
    return log10(state->residual_1inf * (1 + rs_gamma(8 * count)) + 1e-150) + 1e-12;
}

/* The exact layer's largest range_j E_ij from the computed one: what each logit may miss (C9: t is
 * a quarter of that and slack at least 2t) counts twice, for the entry and for its column's
 * mean. */
static double exact_range(const rs_certify_head *seen, double slack)
{
    if (!(slack < 2)) return NAN; /* t stopped at 1: the range is not known from it */
    return (seen->range + seen->range_error + 4 * slack) * (1 + 1e-12); /* of 3 (C10) */
}

static void recursion(rs_published_row *row, depth *so_far, layer_numbers *n, rs_head_sums *heads,
                      double *slack, const rs_certify_pass *pass, const rs_weight_norms *norms,
                      int64_t s, int32_t l, const rs_chain_options *options)
{
    const rs_bound_constants *c = &options->constants;
    double centre = log10(rs_centre_factor(pass->tokens[s] > 1 ? pass->tokens[s] : 2, c)) + 1e-12;
    row->log_recursion = row->log_recursion_layer = NAN;
    if (!so_far->recursion_failed) {
        so_far->log_q = rs_recursion_bound(so_far->log_q, &n->step, c);
        row->log_recursion = 0.5 * so_far->log_q + centre;
    }
    if (shape_fails(&pass->network->layers[l])) return;
    const rs_branch *mixer = rs_layer_mixer(&pass->network->layers[l]);
    int32_t b = (int32_t)(mixer - pass->network->layers[l].branches);
    const rs_certify_head *seen = rs_pass_heads(pass, s, l, b);
    rs_exact_branch at = {mixer, &norms->layers[l].branches[b], rs_pass_branch(pass, s, l, b),
                          pass->tokens[s]};
    const char *condition = NULL;
    if (mixer->scale != 0) rs_exact_added(slack, &condition, &at);
    for (int32_t h = 0; h < n->step.n_heads; h++)
        heads[h].range = condition ? NAN : exact_range(&seen[h], slack[h]);
    row->log_recursion_layer =
        0.5 * rs_recursion_bound(2 * log_of_measured(pass, s, l), &n->step, c) + centre;
}

void rs_certify_published(rs_published_row *out, const rs_certify_pass *pass,
                          const rs_weight_norms *norms, int64_t s, rs_head_sums *heads,
                          double *slack, const rs_chain_options *options)
{
    const rs_bound_constants *c = &options->constants;
    double first = rs_pass_state(pass, s, 0)->residual_1inf;
    depth so_far = {.gamma = NAN,
                    .beta = NAN,
                    .heads = 1,
                    .scale = NAN,
                    .lipschitz = 1,
                    .log_q = 2 * log_of_measured(pass, s, 0)};
    for (int32_t l = 0; l < pass->network->n_layers; l++) {
        const rs_layer *layer = &pass->network->layers[l];
        const rs_certify_state *in = rs_pass_state(pass, s, l);
        layer_numbers n = numbers_of(pass, norms, s, l, heads, c);
        const char *shape = shape_fails(layer), *theorem = theorem_fails(layer);
        if (!so_far.failed) so_far.failed = theorem;
        if (!so_far.failed && !(n.range <= c->published_range))
            so_far.failed = "a logit range above 1.256";
        if (!so_far.recursion_failed) so_far.recursion_failed = shape;
        widen(&so_far, &n);
        rs_published_row *row = &out[l];
        *row = (rs_published_row){.gamma_min = n.gamma,
                                  .beta = n.beta,
                                  .range = n.range,
                                  .failed = so_far.failed,
                                  .recursion_failed = so_far.recursion_failed};
        double factor = rs_published_layer(0, so_far.gamma, so_far.beta, so_far.heads, so_far.scale,
                                           so_far.lipschitz, c);
        row->log_depth = rs_published_depth(log_of(first), factor, l + 1);
        row->log_layer = rs_published_layer(log_of(in->residual_1inf), n.gamma, n.beta, n.heads,
                                            n.scale, n.lipschitz, c);
        recursion(row, &so_far, &n, heads, slack, pass, norms, s, l, options);
    }
}
