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

#endif
