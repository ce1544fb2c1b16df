/* certify_scalar.c: theorem C and the sign rule for mixers of one matrix whose value map is a number:
 * linear attention of one head in architecture files, with the matrices that the pass applied. */
#include "certify/certify_gather.h"

#include "base/memory.h"
#include "network/op_traits.h"
#include "proof/lambda_scalar.h"

#include <math.h>
#include <string.h>

/* Beyond this many tokens Q − I costs more than the pass. */
enum { MOST_TOKENS = 512 };

/* Why neither is asked for; NULL: they are. */
static const char *scalar_fails(const rs_certify_scene *scene, int32_t l, const rs_branch *mixer)
{
    const rs_layer *layer = &scene->network->layers[l];
    const rs_linear_op *op = mixer->kind == RS_BRANCH_LINEAR ? &mixer->linear : NULL;
    const rs_branch *next = mixer + 1, *end = layer->branches + layer->n_branches;
    if (!op || op->heads != 1 || op->v.weight || op->o.weight || op->gate.weight ||
        op->norm.kind != RS_NORM_NONE)
        return "linear attention of one head whose values are the tokens";
    if (mixer->after.kind == RS_NORM_NONE || mixer->before.kind != RS_NORM_NONE ||
        mixer->inside.kind != RS_NORM_NONE)
        return "a norm after the sum alone (post-norm)";
    if (next < end && next->joins) return "one branch on the sum";
    return scene->inputs->longest > MOST_TOKENS ? "at most 512 tokens" : NULL;
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
    return rs_certify_room_for(&scalar->mixing, scene->capacity * n, n, err);
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

rs_status rs_scalar_row(rs_lambda_row *row, const rs_certify_scalar *scalar,
                        const rs_lambda_layer *layer, int64_t s, int32_t l, rs_error *err)
{
    const rs_branch *mixer = rs_layer_mixer(&scalar->scene->network->layers[l]);
    rs_lambda_theorem_c c;
    rs_lambda_sign_rule rule;
    rs_lambda_facts facts;
    row->failed_c = scalar_fails(scalar->scene, l, mixer);
    if (row->failed_c) return RS_OK;
    rs_lambda_scalar_layer given = {.mixing = matrix_of(scalar, s),
                                    .n = layer->n,
                                    .ld = layer->n,
                                    .value = mixer->scale,
                                    .lambda = mixer->skip,
                                    .epsilon = layer->norm.epsilon};
    RS_TRY(rs_lambda_facts_of(&facts, layer, err));
    RS_TRY(rs_lambda_theorem_c_of(&c, &given, &facts, err));
    row->failed_c = c.kept.failed_hypothesis;
    if (c.kept.valid) row->theorem_c = fmax(0, c.kept.value);
    /* the matrix is that of these tokens: linear to first order about equal ones (L27) */
    RS_TRY(rs_lambda_sign_rule_of(&rule, &given, 1, true, err));
    row->failed_consensus = rule.failed_hypothesis;
    row->consensus = rule.rate;
    if (!rule.failed_hypothesis) row->outcome = rs_lambda_outcome_name(rule.outcome);
    if (!scalar->scene->options->rigorous || isnan(row->theorem_c)) return RS_OK;
    row->theorem_c = NAN;
    row->failed_c = "the exact layer applies the mixing matrices that the float64 pass met";
    return RS_OK;
}

void rs_scalar_close(rs_certify_scalar *scalar)
{
    rs_free(scalar->mixing.data);
}
