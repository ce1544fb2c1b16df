/* lambda_moments.c: sums over the centred rows of one layer, with bounds on their rounding. */
#include "proof/lambda_moments.h"

#include "linalg/vector.h"
#include "proof/lambda_check.h"

/* Column means of the scaled matrix, in sums of n terms. */
static void column_means(double *mean, const double *matrix, int64_t n, int64_t d, int64_t ld,
                         double factor)
{
    for (int64_t j = 0; j < d; j++)
        mean[j] = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < d; j++)
            mean[j] += matrix[i * ld + j] * factor;
    }
    for (int64_t j = 0; j < d; j++)
        mean[j] /= (double)n;
}

static bool rows_equal(const double *matrix, int64_t n, int64_t d, int64_t ld)
{
    for (int64_t i = 1; i < n; i++) {
        for (int64_t j = 0; j < d; j++) {
            if (matrix[i * ld + j] != matrix[j]) return false;
        }
    }
    return true;
}

/*
 * Sums over rows centred by means that are themselves rounded. With δ = true mean − mean used,
 * Σ(x − m)(o − m') = ⟨RX, RO⟩ + n δ_x·δ_o, and |δ_x|_j ≤ γ Σ_i|x_ij|/n, which Cauchy turns into
 * n‖δ_x‖² ≤ γ²‖X‖_F².
 */
void rs_lambda_measure_moments(rs_lambda_moments *out, const rs_lambda_layer *layer,
                               double *scratch)
{
    int64_t n = layer->n, d = layer->d;
    double *mean_x = scratch, *mean_o = scratch + d, *row_x = scratch + 2 * d,
           *row_o = scratch + 3 * d;
    double alpha = 0, beta = 0, gamma = 0, raw_x = 0, raw_o = 0;

    out->equal = rows_equal(layer->input, n, d, layer->input_ld);
    bool equal_branch = rows_equal(layer->branch, n, d, layer->branch_ld);
    out->scale_x = rs_lambda_exponent(layer->input, n, d, layer->input_ld);
    out->scale_o = rs_lambda_exponent(layer->branch, n, d, layer->branch_ld);
    /* Powers of two: the products are exact, or lost below the range. */
    double factor_x = ldexp(1, -out->scale_x), factor_o = ldexp(1, -out->scale_o);
    column_means(mean_x, layer->input, n, d, layer->input_ld, factor_x);
    column_means(mean_o, layer->branch, n, d, layer->branch_ld, factor_o);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < d; j++) {
            double x = layer->input[i * layer->input_ld + j] * factor_x;
            double o = layer->branch[i * layer->branch_ld + j] * factor_o;
            raw_x += x * x;
            raw_o += o * o;
            row_x[j] = x - mean_x[j];
            row_o[j] = o - mean_o[j];
        }
        alpha += rs_dot(row_x, row_x, d);
        beta += rs_dot(row_x, row_o, d);
        gamma += rs_dot(row_o, row_o, d);
    }
    double sums = rs_rounding(rs_dot_roundings(d) + n + 8), means = rs_rounding(n + 4) * 1.01;
    /* The scaling may push entries below the range: at most 2^-1074 each,
     * against a largest of 1. */
    double lost = (double)(n * d) * 0x1p-1000;
    double shift_x = means * means * raw_x + lost, shift_o = means * means * raw_o + lost;
    out->alpha = rs_span_about(alpha, sums, shift_x);
    out->gamma = rs_span_about(gamma, sums, shift_o);
    out->beta = rs_span_about(beta, 0, sums * sqrt(alpha * gamma) + sqrt(shift_x * shift_o));
    if (out->equal) out->alpha = rs_span_of(0);
    if (equal_branch) out->gamma = rs_span_of(0);
    if (out->equal || equal_branch) out->beta = rs_span_of(0);
    out->alpha.low = fmax(out->alpha.low, 0);
    out->gamma.low = fmax(out->gamma.low, 0);
    out->alpha_middle = out->equal ? 0 : alpha;
    out->beta_middle = out->equal || equal_branch ? 0 : beta;
    out->gamma_middle = equal_branch ? 0 : gamma;
}
