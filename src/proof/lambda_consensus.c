/*
 * lambda_consensus.c: does collapse attract at this λ (lambda.h 5; statement L17, a prediction).
 *
 * Around n equal tokens u, u a left eigenvector of W with the real eigenvalue w_1, the layer
 * rn(λY + PYW) acts on small differences E ⟂ u as (λE + PEW)/|λ + w_1|. Its eigenvalues on
 * differences are (λ + w_k p_i)/|λ + w_1|: u splits w_1 off W, and the constant vector splits one
 * eigenvalue 1 off P. LayerNorm works within the features that sum to 0: W there is CWC, C = I −
 * 11ᵀ/d, and one eigenvalue 0 belongs to the direction 1.
 */
#include "base/memory.h"
#include "linalg/blas.h"
#include "proof/lambda_check.h"
#include "proof/lambda_span.h"

#include <inttypes.h>

/* W, or CWC under LayerNorm. */
static void copy_values(double *to, const rs_lambda_consensus *given)
{
    int64_t d = given->d;
    for (int64_t i = 0; i < d * d; i++)
        to[i] = given->value_matrix[i];
    for (int pass = 0; pass < 2 && given->norm.kind == RS_LAMBDA_LAYERNORM; pass++) {
        int64_t along = pass ? d : 1, across = pass ? 1 : d;
        for (int64_t i = 0; i < d; i++) {
            double mean = 0;
            for (int64_t j = 0; j < d; j++)
                mean += to[i * across + j * along] / (double)d;
            for (int64_t j = 0; j < d; j++)
                to[i * across + j * along] -= mean;
        }
    }
}

typedef struct eigenvalues {
    double *real, *imaginary;
    int64_t n;
} eigenvalues;

/* Takes the one closest to (value, 0) out. */
static void drop_closest(eigenvalues *all, double value)
{
    int64_t closest = 0;
    for (int64_t i = 1; i < all->n; i++) {
        if (hypot(all->real[i] - value, all->imaginary[i]) <
            hypot(all->real[closest] - value, all->imaginary[closest]))
            closest = i;
    }
    all->n--;
    all->real[closest] = all->real[all->n];
    all->imaginary[closest] = all->imaginary[all->n];
}

/* Where |λ + w| is largest: the direction that a power iteration with λ + W turns to. */
static int64_t dominant(const eigenvalues *values, double lambda)
{
    int64_t best = 0;
    for (int64_t k = 1; k < values->n; k++) {
        if (hypot(lambda + values->real[k], values->imaginary[k]) >
            hypot(lambda + values->real[best], values->imaginary[best]))
            best = k;
    }
    return best;
}

static double largest_multiplier(const eigenvalues *values, const eigenvalues *mixing,
                                 double lambda, double own)
{
    double largest = 0;
    for (int64_t k = 0; k < values->n; k++) {
        for (int64_t i = 0; i < mixing->n; i++) {
            double a = values->real[k], b = values->imaginary[k];
            double p = mixing->real[i], q = mixing->imaginary[i];
            largest = fmax(largest, hypot(lambda + (a * p - b * q), a * q + b * p));
        }
    }
    return largest / fabs(lambda + own);
}

static const char *failed_hypothesis(const rs_lambda_consensus *given)
{
    int64_t directions = given->d - (given->norm.kind == RS_LAMBDA_LAYERNORM);
    if (given->norm.kind == RS_LAMBDA_NO_NORM) return "a norm after the sum (post-norm)";
    if (given->heads != 1) return "one attention head";
    for (int64_t j = 0; given->norm.gain && j < given->d; j++) {
        if (given->norm.gain[j] != 1) return "every norm gain is 1";
    }
    for (int64_t j = 0; given->norm.bias && j < given->d; j++) {
        if (given->norm.bias[j] != 0) return "every norm bias is 0";
    }
    if (given->n < 2) return "at least two tokens";
    if (directions < 2) return "at least two directions that tokens can differ in";
    return NULL;
}

static rs_status find_consensus(rs_lambda_number *out, const rs_lambda_consensus *given,
                                eigenvalues *values, eigenvalues *mixing, double *matrix,
                                double *work, rs_error *err)
{
    copy_values(matrix, given);
    lapack_int size = (lapack_int)given->d;
    /* The transpose, which a row-major matrix is to LAPACK, has the same eigenvalues. */
    lapack_int info =
        LAPACKE_dgeev_work(LAPACK_COL_MAJOR, 'N', 'N', size, matrix, size, values->real,
                           values->imaginary, NULL, 1, NULL, 1, work, 4 * size);
    if (info != 0)
        return rs_fail(err, RS_E_LAPACK, "consensus multiplier", NULL,
                       "the eigenvalues of a %" PRId64 "x%" PRId64
                       " value matrix did not converge (dgeev %d)",
                       given->d, given->d, (int)info);
    if (given->norm.kind == RS_LAMBDA_LAYERNORM) drop_closest(values, 0);
    for (int64_t i = 0; i < given->n; i++) {
        mixing->real[i] = given->mixing_real[i];
        mixing->imaginary[i] = given->mixing_imaginary ? given->mixing_imaginary[i] : 0;
    }
    drop_closest(mixing, 1);
    int64_t best = dominant(values, given->lambda);
    double own = values->real[best];
    if (values->imaginary[best] != 0 || given->lambda + own == 0) {
        out->failed_hypothesis = "the eigenvalue of lambda + W of largest modulus is real, not 0";
        return RS_OK;
    }
    values->n--;
    values->real[best] = values->real[values->n];
    values->imaginary[best] = values->imaginary[values->n];
    *out = (rs_lambda_number){largest_multiplier(values, mixing, given->lambda, own), true, NULL};
    return RS_OK;
}

rs_status rs_lambda_consensus_multiplier(rs_lambda_number *out, const rs_lambda_consensus *given,
                                         rs_error *err)
{
    *out = (rs_lambda_number){NAN, false, failed_hypothesis(given)};
    if (out->failed_hypothesis) return RS_OK;
    size_t square;
    if (given->d > INT32_MAX / 4 || !rs_size_mul((size_t)given->d, (size_t)given->d, &square))
        return rs_fail(err, RS_E_INTERNAL, "consensus multiplier", NULL,
                       "a value matrix of width %" PRId64, given->d);
    for (size_t i = 0; i < square; i++) {
        if (!isfinite(given->value_matrix[i]))
            return rs_fail(err, RS_E_INPUT_FORMAT, "value matrix", NULL,
                           "entry %g at row %zu, column %zu", given->value_matrix[i],
                           i / (size_t)given->d, i % (size_t)given->d);
    }
    for (int64_t i = 0; i < given->n; i++) {
        double imaginary = given->mixing_imaginary ? given->mixing_imaginary[i] : 0;
        if (!isfinite(given->mixing_real[i]) || !isfinite(imaginary) || !isfinite(given->lambda))
            return rs_fail(err, RS_E_INPUT_FORMAT, "mixing matrix", NULL,
                           "eigenvalue %" PRId64 " is %g + %gi at skip strength %g", i,
                           given->mixing_real[i], imaginary, given->lambda);
    }
    double *matrix = rs_malloc(square, sizeof *matrix);
    double *parts = rs_malloc(3 * (size_t)given->d + (size_t)given->n, 2 * sizeof *parts);
    rs_status status = RS_OK;
    if (matrix && parts) {
        double *work = parts + 2 * given->d, *mixing_parts = work + 4 * given->d;
        eigenvalues values = {parts, parts + given->d, given->d};
        eigenvalues mixing = {mixing_parts, mixing_parts + given->n, given->n};
        status = find_consensus(out, given, &values, &mixing, matrix, work, err);
    } else {
        status = rs_fail_memory(err, "the eigenvalues of a value matrix", square * sizeof *matrix);
    }
    rs_free(matrix);
    rs_free(parts);
    return status;
}
