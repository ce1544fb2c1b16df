/* residual_support.h: a pass of a drawn network with one tap, and the numbers that it keeps of it, for
 * tests of the residual precision. Include behind cmocka.h. */
#ifndef RS_TEST_RESIDUAL_SUPPORT_H
#define RS_TEST_RESIDUAL_SUPPORT_H

#include "forward_builder.h"
#include "property.h"

#include "base/memory.h"
#include "engine/residual.h"

#include <stdio.h>

enum { KEPT = 1 << 17, LONGEST = 21 };

/* Numbers of matrices one behind the other, each beside the largest of its matrix. */
typedef struct kept_numbers {
    double values[KEPT], sizes[KEPT];
    size_t n;
} kept_numbers;

static inline void keep_numbers(kept_numbers *kept, const double *values, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(values[i]));
    for (int64_t i = 0; i < n && kept->n < KEPT; i++, kept->n++)
        kept->values[kept->n] = values[i], kept->sizes[kept->n] = most;
}

/* user: what begins with kept_numbers. */
static inline rs_status keep_matrix(void *user, const rs_attention_view *view, rs_error *err)
{
    (void)err;
    if (view->thread == 0) keep_numbers(user, view->mixing, view->n * view->keys);
    return RS_OK;
}

static inline rs_status pass_with(const rs_tap *tap, const built *b, rs_precision precision,
                                  int threads, rs_error *err)
{
    rs_context context = {.threads = threads};
    rs_weights *weights = NULL;
    rs_runner *runner = NULL;
    const rs_tap *taps[] = {tap};
    rs_status status = rs_weights_open(&weights, precision, UINT64_MAX, err);
    if (status == RS_OK) status = rs_runner_open(&runner, &b->network, weights, &context, err);
    if (status == RS_OK) status = rs_runner_run(runner, &b->batch, taps, 1, err);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return status;
}

static inline void assert_same_numbers(const kept_numbers *a, const kept_numbers *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->values, b->values, a->n * sizeof *a->values);
}

/* ---- one branch, many times ---- */

/* `layers` times the same branch on n tokens that differ by `spread`; free with chain_free. */
static inline built *chain_new(rs_branch (*branch)(built *, int64_t), int32_t layers, double spread)
{
    enum { D = 4, N = 6 };
    built *b = calloc(1, sizeof *b);
    b->random = rs_random_new(11, 3);
    b->dtype = RS_F64;
    b->network = (rs_network){.family = "chain", .d_model = D, .n_layers = layers};
    b->network.layers = calloc((size_t)layers, sizeof *b->network.layers);
    rs_branch one = branch(b, D);
    for (int32_t l = 0; l < layers; l++)
        b->network.layers[l] = (rs_layer){.branches = {one}, .n_branches = 1};
    b->batch = (rs_batch){.samples = 1, .begin = b->begin};
    b->begin[1] = N;
    b->states = malloc(N * D * sizeof *b->states);
    for (int64_t i = 0; i < N * D; i++)
        b->states[i] = sin(1 + (double)(i % D)) + spread * rs_random_normal(&b->random);
    b->batch.states = b->states;
    return b;
}

static inline void chain_free(built *b)
{
    free(b->network.layers);
    built_free(b);
}

/* Attention without positions, whose residual is that of its tokens cubed. */
static inline rs_branch bare_attention_of(built *b, int64_t d)
{
    rs_branch branch = {.kind = RS_BRANCH_ATTENTION, .scale = 1};
    branch.attention = (rs_attention_op){.heads = 2,
                                         .kv_heads = 2,
                                         .head_dim = d / 2,
                                         .value_dim = d / 2,
                                         .q = dense_of(b, d, d, true),
                                         .k = dense_of(b, d, d, true),
                                         .v = dense_of(b, d, d, true),
                                         .o = dense_of(b, d, d, true),
                                         .scale = 0.6,
                                         .temperature = 1,
                                         .mix_softmax = 1};
    return branch;
}

#endif
