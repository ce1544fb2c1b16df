/* lambda_check.c: see lambda_check.h; and the factors that tests put on constants. */
#include "proof/lambda_check.h"

#include "base/memory.h"
#include "linalg/vector.h"
#include "proof/lambda_span.h"

#include <inttypes.h>

static rs_status check_matrix(const char *name, const double *matrix, int64_t n, int64_t d,
                              int64_t ld, rs_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0; /* of zeros, unless an entry is not finite */
        for (int64_t j = 0; j < d; j++)
            sum += 0 * matrix[i * ld + j];
        if (sum == 0) continue;
        int64_t j = 0;
        while (isfinite(matrix[i * ld + j]))
            j++;
        return rs_fail(err, RS_E_INPUT_FORMAT, name,
                       "a state that is not finite has no certificate; see rankscope probe for "
                       "where it first appears",
                       "entry %g at token %" PRId64 ", feature %" PRId64 ", counted from 0",
                       matrix[i * ld + j], i, j);
    }
    return RS_OK;
}

rs_status rs_lambda_check_layer(const rs_lambda_layer *layer, rs_error *err)
{
    const rs_lambda_norm *norm = &layer->norm;
    int64_t n = layer->n, d = layer->d;
    size_t entries;
    if (n < 1 || d < 1 || layer->input_ld < d || layer->branch_ld < d || !layer->input ||
        !layer->branch || !rs_size_mul((size_t)n, (size_t)d, &entries) ||
        entries > SIZE_MAX / 2 / sizeof(double))
        return rs_fail(err, RS_E_INTERNAL, "skip certificate", NULL,
                       "a layer of %" PRId64 " tokens and %" PRId64
                       " features with leading dimensions %" PRId64 ", %" PRId64,
                       n, d, layer->input_ld, layer->branch_ld);
    RS_TRY(check_matrix("skip input X", layer->input, n, d, layer->input_ld, err));
    RS_TRY(check_matrix("branch output O", layer->branch, n, d, layer->branch_ld, err));
    if (norm->gain) RS_TRY(check_matrix("norm gain", norm->gain, 1, d, d, err));
    if (norm->bias) RS_TRY(check_matrix("norm bias", norm->bias, 1, d, d, err));
    if (!(norm->epsilon >= 0) || !isfinite(norm->epsilon))
        return rs_fail(err, RS_E_INPUT_FORMAT, "norm epsilon",
                       "epsilon must be a finite number that is not negative", "epsilon is %g",
                       norm->epsilon);
    return RS_OK;
}

rs_status rs_lambda_check_kept(double kept, double limit, rs_error *err)
{
    if (kept >= 0 && kept < limit) return RS_OK;
    return rs_fail(err, RS_E_INTERNAL, "skip certificate", NULL,
                   "the fraction to keep is %g; it must be finite and not negative", kept);
}

int rs_lambda_exponent(const double *matrix, int64_t n, int64_t d, int64_t ld)
{
    double total = 0;
    int exponent = 0;
    for (int64_t i = 0; i < n; i++)
        total += rs_sum_absolute(matrix + i * ld, d) * 0x1p-60;
    if (isinf(total)) return 1000;
    if (total == 0) { /* zero, or too small for the factor above */
        for (int64_t i = 0; i < n; i++)
            total += rs_sum_absolute(matrix + i * ld, d);
        if (total > 0) return -1000;
        return 0;
    }
    (void)frexp(total, &exponent);
    exponent += 60;
    return exponent > 1000 ? 1000 : exponent < -1000 ? -1000 : exponent;
}

/* One less than the factor, so that zero initialisation means 1. */
static double mutation[RS_LAMBDA_CONSTANT_COUNT];

void rs_lambda_scale_constant(rs_lambda_constant which, double factor)
{
    mutation[which] = factor - 1;
}

double rs_lambda_constant_factor(rs_lambda_constant which)
{
    return 1 + mutation[which];
}
