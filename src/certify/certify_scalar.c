/* certify_scalar.c: theorem C, the sign rule and the S-lemma for mixers of one matrix whose value map
 * is a number, linear attention and graphs of one head in architecture files, with the matrices that
 * the pass applied. */
#include "certify/certify_gather.h"

#include "base/memory.h"
#include "network/graph.h"
#include "network/op_traits.h"
#include "proof/lambda_fixed.h"
#include "proof/lambda_scalar.h"

#include <math.h>
#include <string.h>

/* Beyond this many tokens Q − I and the S-lemma cost more than the pass. */
enum { MOST_TOKENS = 512 };

const char rs_scalar_text[] = "linear attention or a graph of one head whose values are the tokens";
const char rs_fixed_text[] = "a mixing matrix that no token has a say in";

/* The matrix is a part of the model: no token has a say in it. */
static bool is_fixed(const rs_branch *mixer)
{
    return mixer->kind == RS_BRANCH_GRAPH && mixer->graph.graph->form != RS_GRAPH_ATTENTION;
}

/* One matrix, and the tokens themselves for values. */
static bool is_scalar(const rs_branch *mixer)
{
    const rs_linear_op *linear = &mixer->linear;
    const rs_graph_op *graph = &mixer->graph;
    if (mixer->kind == RS_BRANCH_GRAPH)
        return graph->heads == 1 && !graph->v.weight && !graph->o.weight;
    return mixer->kind == RS_BRANCH_LINEAR && linear->heads == 1 && !linear->v.weight &&
           !linear->o.weight && !linear->gate.weight && linear->norm.kind == RS_NORM_NONE;
}

/* Why nothing is said of a mixer; NULL: it is. */
static const char *scalar_fails(const rs_certify_scene *scene, int32_t l, const rs_branch *mixer)
{
    const rs_layer *layer = &scene->network->layers[l];
    const rs_branch *next = mixer + 1, *end = layer->branches + layer->n_branches;
    if (!is_scalar(mixer)) return rs_scalar_text;
    if (mixer->before.kind != RS_NORM_NONE || mixer->inside.kind != RS_NORM_NONE)
        return "no norm before or inside the branch";
    if (next < end && next->joins) return "one branch on the sum";
    return scene->inputs->longest > MOST_TOKENS ? "at most 512 tokens" : NULL;
}

/* The same of theorem C and the sign rule, and of the S-lemma. */
static const char *normed_fails(const rs_certify_scene *scene, int32_t l, const rs_branch *mixer)
{
    if (is_scalar(mixer) && mixer->after.kind == RS_NORM_NONE)
        return "a norm after the sum alone (post-norm)";
    return scalar_fails(scene, l, mixer);
}

static const char *fixed_fails(const rs_certify_scene *scene, int32_t l, const rs_branch *mixer)
{
    if (!is_fixed(mixer)) return rs_fixed_text;
    if (mixer->after.kind != RS_NORM_NONE) return "no norm after the sum";
    return scalar_fails(scene, l, mixer);
}

bool rs_scalar_wants(const rs_certify_scalar *scalar, int32_t l, int32_t b)
{
    const rs_layer *layer = &scalar->scene->network->layers[l];
    return &layer->branches[b] == rs_layer_mixer(layer) &&
           !scalar_fails(scalar->scene, l, &layer->branches[b]);
}

rs_status rs_scalar_begin(rs_certify_scalar *scalar, int32_t l, int32_t b, rs_error *err)
{
    const rs_certify_scene *scene = scalar->scene;
    int64_t n = scene->inputs->longest;
    if (!rs_scalar_wants(scalar, l, b)) return RS_OK;
    RS_TRY(rs_certify_room_for(&scalar->mixing, scene->capacity * n, n, err));
    RS_TRY(rs_certify_room_for(&scalar->walks, scene->capacity, 2 * n, err));
    if (!scalar->walk) scalar->walk = rs_calloc((size_t)scene->capacity, sizeof *scalar->walk);
    return scalar->walk ? RS_OK : rs_fail_memory(err, "table lambda", (size_t)scene->capacity);
}

/* The matrix of sample s of the batch. */
static double *matrix_of(const rs_certify_scalar *scalar, int64_t s)
{
    int64_t n = scalar->scene->inputs->longest;
    return scalar->mixing.data + s * n * n;
}

void rs_scalar_mixing(const rs_certify_scalar *scalar, const rs_attention_view *view)
{
    double *to = matrix_of(scalar, view->sample);
    for (int64_t i = 0; i < view->n; i++)
        memcpy(to + i * view->n, (const double *)view->mixing + i * view->ld,
               (size_t)view->n * sizeof *to);
}

/* The sign rule from the first layer to this one: each must have been nothing but such a mixer. */
static void follow_stack(rs_lambda_row *row, const rs_certify_scalar *scalar,
                         const rs_lambda_scalar_layer *given, int64_t s, int32_t l)
{
    const rs_network *network = scalar->scene->network;
    const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
    rs_lambda_sign_walk *walk = &scalar->walk[s];
    double *numbers = scalar->walks.data + 2 * s * scalar->scene->inputs->longest;
    if (l == 0) rs_lambda_sign_begin(walk, given->n, numbers, (signed char *)(numbers + given->n));
    row->failed_stack = "layers of such a mixer alone, from the first on";
    if (walk->layers != l || network->layers[l].n_branches != 1) return;
    rs_lambda_sign_step(walk, given, !is_fixed(mixer));
    row->failed_stack = walk->rule.failed_hypothesis;
    row->stack_rate = walk->rule.rate;
    if (!row->failed_stack) row->stack_outcome = rs_lambda_outcome_name(walk->rule.outcome);
}

static rs_status fill_normed(rs_lambda_row *row, const rs_certify_scalar *scalar,
                             const rs_lambda_scalar_layer *given, bool fixed, rs_error *err)
{
    rs_lambda_theorem_c c;
    rs_lambda_sign_rule rule;
    RS_TRY(rs_lambda_theorem_c_of(&c, given, &row->facts, err));
    row->failed_c = c.kept.failed_hypothesis;
    if (c.kept.valid) row->theorem_c = fmax(0, c.kept.value);
    row->theorem_c_hangs = !fixed;
    /* linear attention's matrix is that of these tokens: linear to first order about equal ones
     * (L27) */
    RS_TRY(rs_lambda_sign_rule_of(&rule, given, 1, !fixed, err));
    row->failed_consensus = rule.failed_hypothesis;
    row->consensus = rule.rate;
    if (!rule.failed_hypothesis) row->outcome = rs_lambda_outcome_name(rule.outcome);
    if (fixed || !scalar->scene->options->rigorous || isnan(row->theorem_c)) return RS_OK;
    row->theorem_c = NAN;
    row->failed_c = "the exact layer applies the mixing matrices that the float64 pass met";
    return RS_OK;
}

static rs_status fill_fixed(rs_lambda_row *row, const rs_lambda_layer *layer,
                            const rs_lambda_scalar_layer *given, rs_error *err)
{
    rs_lambda_number kept;
    double share;
    RS_TRY(rs_lambda_mean_share(&share, layer, &row->facts, err));
    row->failed_fixed = "tokens that differ by more than rounding";
    if (!isfinite(share)) return RS_OK;
    RS_TRY(rs_lambda_fixed_kept(&kept, given, share, err));
    row->failed_fixed = kept.failed_hypothesis;
    row->mean_share = share;
    row->fixed_kept = kept.value;
    return RS_OK;
}

rs_status rs_scalar_row(rs_lambda_row *row, const rs_certify_scalar *scalar,
                        const rs_lambda_layer *layer, int64_t s, int32_t l, rs_error *err)
{
    const rs_certify_scene *scene = scalar->scene;
    const rs_branch *mixer = rs_layer_mixer(&scene->network->layers[l]);
    row->failed_c = normed_fails(scene, l, mixer);
    row->failed_fixed = fixed_fails(scene, l, mixer);
    row->failed_stack = row->failed_c;
    if (scalar_fails(scene, l, mixer)) return RS_OK;
    rs_lambda_scalar_layer given = {.mixing = matrix_of(scalar, s),
                                    .n = layer->n,
                                    .ld = layer->n,
                                    .value = mixer->scale,
                                    .lambda = mixer->skip,
                                    .epsilon = layer->norm.epsilon};
    if (!row->failed_c) {
        follow_stack(row, scalar, &given, s, l);
        RS_TRY(fill_normed(row, scalar, &given, is_fixed(mixer), err));
    }
    return row->failed_fixed ? RS_OK : fill_fixed(row, layer, &given, err);
}

void rs_scalar_close(rs_certify_scalar *scalar)
{
    rs_free(scalar->mixing.data);
    rs_free(scalar->walks.data);
    rs_free(scalar->walk);
}
