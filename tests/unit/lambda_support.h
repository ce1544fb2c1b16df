/* lambda_support.h: what the tests of skip certificates share: small layers, their arcs,
 * comparisons. Include behind cmocka.h. */
#ifndef RS_TEST_LAMBDA_SUPPORT_H
#define RS_TEST_LAMBDA_SUPPORT_H

#include "measure_cases.h"
#include "proof/lambda.h"

static rs_error err;

#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != RS_OK) fail_msg("%s: %s", err.where, err.what);                        \
    } while (0)

static inline void is_near(const char *what, double got, double expected, double relative)
{
    assert_near(what, got, expected, relative, 0);
}

static inline rs_lambda_layer layer_of(const double *x, const double *o, int64_t n, int64_t d,
                                       rs_lambda_norm_kind kind)
{
    return (rs_lambda_layer){.input = x,
                             .branch = o,
                             .n = n,
                             .d = d,
                             .input_ld = d,
                             .branch_ld = d,
                             .norm = {.kind = kind}};
}

/* The answer for one λ: UNKNOWN outside the set, too. */
static inline rs_lambda_answer answer_at(const rs_lambda_set *set, double lambda)
{
    rs_lambda_answer found = RS_LAMBDA_UNKNOWN;
    for (size_t i = 0; i < set->n; i++) {
        const rs_lambda_interval *interval = &set->intervals[i];
        bool inside = interval->low <= lambda && lambda <= interval->high;
        if (inside && interval->answer != RS_LAMBDA_UNKNOWN) found = interval->answer;
    }
    return found;
}

static inline rs_lambda_arcs *arcs_of(const rs_lambda_layer *layer)
{
    rs_lambda_arcs *arcs;
    OK(rs_lambda_arcs_open(&arcs, &err));
    OK(rs_lambda_arcs_set(arcs, layer, &err));
    return arcs;
}

static const double IDENTITY[] = {1, 0, 0, 1}, SWAP[] = {0, 1, 1, 0};

#endif
