/* lambda_facts.c: what the theorems on λ need to know of one layer (lambda.h 3). */
#include "base/memory.h"
#include "linalg/vector.h"
#include "proof/lambda_arcs.h"
#include "proof/lambda_check.h"
#include "proof/lambda_moments.h"

#define UNIT_ROW_TOLERANCE 1e-9

static bool all_equal(const double *values, int64_t d, double wanted)
{
    for (int64_t j = 0; values && j < d; j++) {
        if (values[j] != wanted) return false;
    }
    return true;
}

/* Multiplies a span by a power of two; outwards where the result leaves the range. */
static rs_span scaled(rs_span span, int exponent)
{
    return rs_span_widen(ldexp(span.low, exponent), ldexp(span.high, exponent));
}

static rs_span length_of(const rs_lambda_loaded *row, int64_t d)
{
    if (row->zero) return rs_span_of(0);
    double relative = rs_rounding(rs_dot_roundings(d) + 4) + row->error;
    rs_span length = scaled(rs_span_about(row->norm, relative, 0), row->exponent);
    length.low = fmax(length.low, 0);
    return length;
}

/* The length of a row that is known to `error`. */
static rs_span off_by(rs_span length, double error)
{
    if (error == 0) return length;
    rs_span off = rs_span_of(error);
    return (rs_span){fmax(0, rs_span_sub(length, off).low), rs_span_add(length, off).high};
}

/* ‖x − √d rn(x)‖/√d from above: what the row's mean is (LayerNorm takes it away) and what its
 * length over √d, `size`, differs from 1. */
static double unit_off(const double *x, int64_t d, bool centre, rs_span size)
{
    double mean = 0, largest = 0;
    for (int64_t j = 0; centre && j < d; j++)
        largest = fmax(largest, fabs(x[j]));
    if (centre)
        mean = fabs(rs_sum(x, d)) / (double)d + rs_rounding(rs_dot_roundings(d) + 4) * largest;
    double off = fmax(fabs(size.high - 1), fabs(1 - size.low));
    return isfinite(off) ? (mean + off) * (1 + 0x1p-40) : (double)INFINITY; /* of 5 (C10) */
}

static void add_row(rs_lambda_facts *out, const rs_lambda_layer *layer, int64_t i, double *scratch)
{
    int64_t d = layer->d;
    bool centre = layer->norm.kind == RS_LAMBDA_LAYERNORM;
    const double *x = layer->input + i * layer->input_ld;
    const double *o = layer->branch + i * layer->branch_ld;
    rs_span root = rs_span_sqrt(rs_span_of((double)d));

    rs_lambda_loaded loaded = rs_lambda_load_row(scratch, o, d, false);
    rs_span branch = off_by(length_of(&loaded, d), layer->branch_error);
    out->row_gain = fmax(out->row_gain, rs_span_div(branch, root).high);
    if (centre) loaded = rs_lambda_load_row(scratch, o, d, true);
    branch = off_by(length_of(&loaded, d), layer->branch_error);
    out->largest_branch = fmax(out->largest_branch, branch.high);
    loaded = rs_lambda_load_row(scratch, x, d, centre);
    rs_span input = length_of(&loaded, d);
    double off = unit_off(x, d, centre, rs_span_div(input, root));
    out->unit_off = fmax(out->unit_off, off);
    if (!(off <= UNIT_ROW_TOLERANCE)) out->unit_rows = false;
    out->smallest_row = fmin(out->smallest_row, input.low);
    rs_span constant = rs_span_mul(rs_span_sqrt(rs_span_of(layer->norm.epsilon)), root);
    rs_span ratio_branch = rs_span_div(branch, input),
            ratio_constant = rs_span_div(constant, input);
    rs_span ratio =
        rs_span_sqrt(rs_span_add(rs_span_square(ratio_branch), rs_span_square(ratio_constant)));
    out->row_ratio = fmax(out->row_ratio, input.low > 0 ? ratio.high : (double)INFINITY);
}

/* rn(x)diag g of row i; its error over the largest gain. */
static double unit_row(double *to, const rs_lambda_layer *layer, int64_t i)
{
    bool centre = layer->norm.kind == RS_LAMBDA_LAYERNORM;
    const double *gain = layer->norm.kind == RS_LAMBDA_NO_NORM ? NULL : layer->norm.gain;
    rs_lambda_loaded row =
        rs_lambda_load_row(to, layer->input + i * layer->input_ld, layer->d, centre);
    for (int64_t j = 0; j < layer->d; j++) {
        to[j] = row.norm > 0 ? to[j] / row.norm : 0;
        if (gain) to[j] *= gain[j];
    }
    if (!(row.norm > 0)) return 1;
    return fmin(2, 2 * row.error + rs_rounding(rs_dot_roundings(layer->d) + 16));
}

/* μ(rn(X)diag g)/√n from below. The mean's own rounding δ adds n‖δ‖² to the sum of squares; the
 * rows' errors E_i move μ by at most √ΣE_i². 2^-20 covers that stored rows are divided by computed
 * norms, and the sum of the E_i²; 2^-50 a root and a product (docs/certificates.md, C10). */
static void find_unit_diversity(rs_lambda_facts *out, const rs_lambda_layer *layer, double *mean,
                                double *row)
{
    int64_t n = layer->n, d = layer->d;
    double errors = 0, square = 0, count = (double)n;
    for (int64_t j = 0; j < d; j++)
        mean[j] = 0;
    for (int64_t i = 0; i < n; i++) {
        double error = unit_row(row, layer, i);
        errors += error * error;
        for (int64_t j = 0; j < d; j++)
            mean[j] += row[j];
    }
    for (int64_t j = 0; j < d; j++)
        mean[j] /= count;
    for (int64_t i = 0; i < n; i++) {
        unit_row(row, layer, i);
        for (int64_t j = 0; j < d; j++)
            row[j] -= mean[j];
        square += rs_dot(row, row, d);
    }
    double gain = out->largest_gain * (1 + 0x1p-20);
    double shift = rs_rounding(n + 4) * gain;
    square -= square * rs_rounding(n + rs_dot_roundings(d) + 8) + count * shift * shift;
    double off = gain * (sqrt(errors) + 4 * RS_LAMBDA_ROUNDOFF * sqrt(count));
    double mu = rs_down(sqrt(fmax(square, 0)) * (1 - 0x1p-50) - off * (1 + 0x1p-20));
    rs_span root = rs_span_sqrt(rs_span_of(count));
    out->unit_diversity = fmax(0, rs_span_div(rs_span_of(mu), root).low);
}

rs_status rs_lambda_facts_of(rs_lambda_facts *out, const rs_lambda_layer *layer, rs_error *err)
{
    const rs_lambda_norm *norm = &layer->norm;
    RS_TRY(rs_lambda_check_layer(layer, err));
    *out = (rs_lambda_facts){.n = layer->n,
                             .d = layer->d,
                             .smallest_row = (double)INFINITY,
                             .largest_gain = 1,
                             .normed = norm->kind != RS_LAMBDA_NO_NORM,
                             .unit_gain = all_equal(norm->gain, layer->d, 1),
                             .zero_bias = all_equal(norm->bias, layer->d, 0),
                             .zero_epsilon = norm->epsilon == 0,
                             .unit_rows = true};
    double *scratch = rs_malloc((size_t)layer->d, 4 * sizeof *scratch);
    if (!scratch) return rs_fail_memory(err, "the rows of a layer", 0);
    rs_lambda_moments moments;
    rs_lambda_measure_moments(&moments, layer, scratch);
    rs_span size = rs_span_mul(rs_span_of((double)layer->n), rs_span_of((double)layer->d));
    rs_span input = rs_span_sqrt(rs_span_div(moments.alpha, size));
    rs_span branch = rs_span_sqrt(rs_span_div(moments.gamma, size));
    out->diversity = fmax(scaled(input, moments.scale_x).low, 0);
    out->diversity_most = scaled(input, moments.scale_x).high;
    rs_span root = rs_span_sqrt(rs_span_of((double)layer->d));
    double off =
        layer->branch_error > 0 ? rs_span_div(rs_span_of(layer->branch_error), root).high : 0;
    rs_span diversity = moments.gamma.high == 0 ? rs_span_of(0) : scaled(branch, moments.scale_o);
    out->branch_diversity = off_by(diversity, off).high;
    if (moments.equal) out->diversity = out->diversity_most = 0;
    for (int64_t i = 0; i < layer->n; i++)
        add_row(out, layer, i, scratch);
    if (norm->gain && out->normed) out->largest_gain = 0;
    for (int64_t j = 0; norm->gain && out->normed && j < layer->d; j++)
        out->largest_gain = fmax(out->largest_gain, fabs(norm->gain[j]));
    find_unit_diversity(out, layer, scratch, scratch + layer->d);
    rs_free(scratch);
    return RS_OK;
}
