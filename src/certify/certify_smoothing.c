/* certify_smoothing.c: the over-smoothing factor of a post-norm block on one sample (L18), with the
 * exact layer's mixings and stds (C9). */
#include "certify/certify_lambda.h"

#include "network/op_traits.h"

#include <math.h>

/* Lower bounds of what the exact rows' two norms divide by, from the tapped state on (C9). */
static void exact_stds(double *std1, double *std2, double *slack, const char **condition,
                       const rs_weight_norms *norms, const rs_certify_pass *pass, int64_t s,
                       int32_t l)
{
    const rs_branch *mixer = &pass->network->layers[l].branches[0], *mlp = mixer + 1;
    const rs_branch_norms *a = &norms->layers[l].branches[0], *m = a + 1;
    const rs_certify_branch *first = rs_pass_branch(pass, s, l, 0), *second = first + 1;
    rs_exact_branch at = {mixer, a, first, pass->tokens[s]}, last = {mlp, m, second, at.tokens};
    double off = rs_exact_added(slack, condition, &at);
    off = rs_deviation_sum(mixer->skip, 0, first->longest_in, mixer->scale, off,
                           rs_exact_longest(&at));
    off = rs_exact_norm(std1, &mixer->after, &a->after, first->after_std, first->longest_sum, off);
    double lipschitz, inner = rs_exact_mlp(&last, &lipschitz, &rs_bounds_exact, off);
    off = rs_deviation_sum(mlp->skip, off, second->longest_in, mlp->scale, inner,
                           rs_exact_longest(&last));
    rs_exact_norm(std2, &mlp->after, &m->after, second->after_std, second->longest_sum, off);
}

void rs_certify_smoothing(rs_lambda_row *row, const rs_weight_norms *norms,
                          const rs_certify_pass *pass, int64_t s, int32_t l, double *work)
{
    const rs_layer *layer = &pass->network->layers[l];
    const rs_branch *mixer = &layer->branches[0], *mlp = &layer->branches[1];
    row->failed_smoothing = "no block of one attention and one MLP";
    if (layer->n_branches != 2 || !rs_branch_plain_attention(mixer) || !rs_branch_mlp(mlp)) return;
    const rs_branch_norms *a = &norms->layers[l].branches[0];
    const rs_branch_norms *m = &norms->layers[l].branches[1];
    const rs_certify_head *heads = rs_pass_heads(pass, s, l, 0);
    const rs_attention_op *op = &mixer->attention;
    bool bare = mixer->before.kind == RS_NORM_NONE && mixer->inside.kind == RS_NORM_NONE &&
                mlp->before.kind == RS_NORM_NONE && mlp->inside.kind == RS_NORM_NONE && !mlp->joins;
    double *mixing = work, *lengths = mixing + a->n_heads, *slack = lengths + a->n_heads;
    double std1, std2;
    const char *condition = NULL;
    exact_stds(&std1, &std2, slack, &condition, norms, pass, s, l);
    /* rows of P, and with them RP, are off by slack; 1e-12 covers the product, and `centred` has
     * room for the sum (docs/certificates.md, C10) */
    for (int32_t h = 0; h < a->n_heads; h++)
        mixing[h] = heads[h].centred + sqrt((double)pass->tokens[s]) * slack[h] * (1 + 1e-12);
    double slope = rs_bounds_exact.lipschitz[mlp->mlp.activation];
    rs_lambda_block block = {
        .post_norm = bare && mixer->after.kind != RS_NORM_NONE && mlp->after.kind != RS_NORM_NONE,
        .row_stochastic = !rs_branch_traits(mixer)->not_stochastic(mixer) && !op->cross,
        .relu = mlp->mlp.activation == RS_ACT_RELU,
        .activation_lipschitz = isfinite(slope) && !mlp->mlp.gate.weight ? slope : NAN,
        .mixing_norm = mixing,
        .head_norm = lengths,
        .heads = a->n_heads,
        .up_norm = m->mlp.up_two,
        .down_norm = m->mlp.down_two,
        .gain1 = a->after.largest,
        .gain2 = m->after.largest,
        .unit_gains = a->after.plain && m->after.plain,
        .std1 = std1,
        .std2 = std2,
        .skip_mixer = mixer->skip,
        .skip_mlp = mlp->skip,
        .scale_mixer = mixer->scale,
        .scale_mlp = mlp->scale};
    for (int32_t h = 0; h < a->n_heads; h++)
        lengths[h] = a->heads[h].w.two;
    rs_lambda_number v = rs_lambda_over_smoothing(&block);
    rs_lambda_number published = rs_lambda_over_smoothing_published(&block);
    row->smoothing = v.valid && !condition ? v.value : NAN;
    row->smoothing_published = published.value;
    row->failed_smoothing = condition ? condition : v.valid ? NULL : v.failed_hypothesis;
}
