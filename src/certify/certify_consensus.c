/* certify_consensus.c: the consensus multiplier of one-head post-norm mixers: eigenvalues of P and
 * W (lambda.h). */
#include "certify/certify_gather.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "linalg/blas.h"
#include "network/op_traits.h"

#include <math.h>
#include <string.h>

/* Beyond this many tokens or features the eigenvalues cost more than the pass. */
enum { MOST_EIGENVALUES = 512 };

/* Why the multiplier is not asked for; NULL: it is. */
static const char *consensus_fails(const rs_certify_scene *at, int32_t l, const rs_branch *mixer)
{
    const rs_attention_op *op = rs_branch_plain_attention(mixer);
    if (!op) return "a plain self-attention";
    const rs_branch_norms *norms =
        &at->norms->layers[l].branches[mixer - at->network->layers[l].branches];
    if (op->heads != 1) return "one head";
    if (mixer->after.kind == RS_NORM_NONE || mixer->before.kind != RS_NORM_NONE) return "post-norm";
    if (mixer->inside.kind != RS_NORM_NONE || op->cross) return "a plain self-attention";
    if (!(fabs(rs_branch_traits(mixer)->row_sum(mixer) - 1) <= 1e-12))
        return "rows of P that sum to 1";
    if (norms->o_bias > 0 || norms->heads[0].v_bias > 0) return "no biases of values and outputs";
    if (at->inputs->longest > MOST_EIGENVALUES || at->network->d_model > MOST_EIGENVALUES)
        return "at most 512 tokens and features";
    return NULL;
}

/* W = W_V W_O as a map of row vectors, its branch's scale included: [d, d]. */
static rs_status read_values(rs_certify_consensus *c, const rs_branch *mixer, rs_error *err)
{
    const rs_attention_op *op = rs_branch_plain_attention(mixer);
    int64_t d = c->scene->network->d_model, inner = op->value_dim;
    RS_TRY(rs_certify_room_for(&c->value_matrix, d + 2 * inner, d, err));
    double *w = c->value_matrix.data, *v = w + d * d, *o = v + inner * d;
    RS_TRY(rs_dense_rows(v, NULL, &op->v, 0, inner, err));
    if (op->o.weight) RS_TRY(rs_dense_rows(o, NULL, &op->o, 0, d, err));
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++) {
            double sum = op->o.weight ? 0 : v[j * d + i];
            for (int64_t k = 0; k < inner && op->o.weight; k++)
                sum += v[k * d + i] * o[j * inner + k];
            w[i * d + j] = mixer->scale * sum;
        }
    return RS_OK;
}

rs_status rs_consensus_begin(rs_certify_consensus *c, int32_t l, int32_t b, rs_error *err)
{
    const rs_certify_scene *scene = c->scene;
    const rs_branch *mixer = &scene->network->layers[l].branches[b];
    if (consensus_fails(scene, l, mixer)) return RS_OK;
    RS_TRY(rs_certify_room_for(&c->eigenvalues, scene->capacity, 2 * scene->inputs->longest, err));
    return read_values(c, mixer, err);
}

/* Real parts of the eigenvalues of sample s; the imaginary ones stand `longest` behind. */
static double *eigenvalues_of(const rs_certify_consensus *c, int64_t s)
{
    return c->eigenvalues.data + s * 2 * c->scene->inputs->longest;
}

rs_status rs_consensus_mixing(const rs_certify_consensus *c, const rs_attention_view *view,
                              double *work, rs_error *err)
{
    const rs_branch *mixer = &c->scene->network->layers[view->layer].branches[view->branch];
    int64_t n = view->n;
    if (consensus_fails(c->scene, view->layer, mixer)) return RS_OK;
    double *real = eigenvalues_of(c, view->sample);
    for (int64_t i = 0; i < n; i++)
        memcpy(work + i * n, (const double *)view->mixing + i * view->ld, (size_t)n * sizeof *work);
    for (int64_t i = 0; i < n * n; i++)
        if (!isfinite(work[i])) {
            real[0] = NAN;
            return RS_OK;
        }
    /* the transpose has the same eigenvalues */
    if (LAPACKE_dgeev(LAPACK_COL_MAJOR, 'N', 'N', (lapack_int)n, work, (lapack_int)n, real,
                      real + c->scene->inputs->longest, NULL, 1, NULL, 1) != 0)
        return rs_fail(err, RS_E_LAPACK, "consensus", NULL,
                       "eigenvalues of a mixing matrix of %lld tokens were not found",
                       (long long)n);
    return RS_OK;
}

rs_status rs_consensus_row(rs_lambda_row *row, const rs_certify_consensus *c,
                           const rs_lambda_layer *layer, int64_t s, int32_t l, rs_error *err)
{
    const rs_branch *mixer = rs_layer_mixer(&c->scene->network->layers[l]);
    row->failed_consensus = consensus_fails(c->scene, l, mixer);
    if (row->failed_consensus) return RS_OK;
    const double *real = eigenvalues_of(c, s);
    rs_lambda_consensus given = {.mixing_real = real,
                                 .mixing_imaginary = real + c->scene->inputs->longest,
                                 .n = layer->n,
                                 .value_matrix = c->value_matrix.data,
                                 .d = layer->d,
                                 .lambda = mixer->skip,
                                 .heads = 1,
                                 .norm = layer->norm};
    rs_lambda_number found;
    if (isnan(real[0])) return RS_OK;
    RS_TRY(rs_lambda_consensus_multiplier(&found, &given, err));
    row->consensus = found.value;
    row->failed_consensus = found.valid ? NULL : found.failed_hypothesis;
    return RS_OK;
}

void rs_consensus_close(rs_certify_consensus *c)
{
    rs_free(c->eigenvalues.data);
    rs_free(c->value_matrix.data);
}
