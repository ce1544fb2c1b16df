/* lambda_gains.c: bounds on a branch from its weights alone, and what follows from them for any
 * input (lambda.h 4, 6 and 7; statements L12 to L16, L18 and L19). */
#include "proof/lambda_span.h"

#include <stddef.h>

static rs_lambda_number no_number(const char *failed)
{
    return (rs_lambda_number){NAN, false, failed};
}

static rs_span root_of(int64_t count)
{
    return rs_span_sqrt(rs_span_of((double)count));
}

/* Σ_h a_h b_h, b NULL: 1. */
static rs_span sum_products(const double *a, const double *b, int64_t count)
{
    rs_span sum = rs_span_of(0);
    for (int64_t h = 0; h < count; h++)
        sum = rs_span_add(sum, rs_span_mul(rs_span_of(a[h]), rs_span_of(b ? b[h] : 1)));
    return sum;
}

/* The smaller; a NaN is no bound. */
static double least(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : fmin(a, b);
}

rs_lambda_number rs_lambda_gain_attention(const rs_lambda_attention_weights *weights, int64_t d,
                                          double branch_scale)
{
    rs_span heads = root_of(weights->heads);
    double bound = NAN;

    if (weights->head_norm) bound = sum_products(weights->head_norm, NULL, weights->heads).high;
    if (!isnan(weights->stacked_norm))
        bound = least(bound, rs_span_mul(heads, rs_span_of(weights->stacked_norm)).high);
    if (!isnan(weights->value_norm) && !isnan(weights->output_norm)) {
        rs_span product =
            rs_span_mul(rs_span_of(weights->value_norm), rs_span_of(weights->output_norm));
        bound = least(bound, rs_span_mul(heads, product).high);
    }
    if (isnan(bound) || isnan(weights->bias_norm))
        return no_number("bounds on the norms of W_V and W_O");
    rs_span bias = rs_span_div(rs_span_of(weights->bias_norm), root_of(d));
    rs_span gain =
        rs_span_mul(rs_span_add(rs_span_of(bound), bias), rs_span_of(fabs(branch_scale)));
    return (rs_lambda_number){rs_span_constant(gain, RS_LAMBDA_GAIN_ATTENTION).high, true, NULL};
}

/*
 * ‖W_d φ(a)‖ ≤ ‖W_d‖‖a‖ with a = W_u x' + b; gated ‖W_d(φ(g) ∘ u)‖ ≤ ‖W_d‖ max_k|g_k| ‖u‖. x' is
 * the normalised token, of norm at most √d before the gain.
 */
rs_lambda_number rs_lambda_gain_mlp(const rs_lambda_mlp_weights *weights, int64_t d,
                                    double branch_scale)
{
    if (!weights->bounded_by_identity) return no_number("|phi(x)| <= |x| for the activation");
    rs_span root = root_of(d);
    rs_span inner = rs_span_add(rs_span_mul(root, rs_span_of(weights->up_norm)),
                                rs_span_of(weights->up_bias_norm));
    rs_lambda_constant constant = weights->gated ? RS_LAMBDA_GAIN_GATED : RS_LAMBDA_GAIN_MLP;
    if (weights->gated) {
        rs_span gate = rs_span_add(rs_span_mul(root, rs_span_of(weights->gate_row_norm)),
                                   rs_span_of(weights->gate_bias_max));
        inner = rs_span_mul(inner, gate);
    }
    rs_span length = rs_span_add(rs_span_mul(rs_span_of(weights->down_norm), inner),
                                 rs_span_of(weights->down_bias_norm));
    rs_span gain = rs_span_mul(rs_span_div(length, root), rs_span_of(fabs(branch_scale)));
    double value = rs_span_constant(gain, constant).high;
    if (isnan(gain.low) || isinf(value))
        return no_number("bounds on the norms of the MLP's weights");
    return (rs_lambda_number){value, true, NULL};
}

double rs_lambda_value_gain(const rs_lambda_attention_weights *weights)
{
    double bound = NAN;
    if (!isnan(weights->value_norm) && !isnan(weights->output_norm)) {
        rs_span groups = rs_span_sqrt(
            rs_span_div(rs_span_of((double)weights->heads), rs_span_of((double)weights->kv_heads)));
        rs_span product =
            rs_span_mul(rs_span_of(weights->value_norm), rs_span_of(weights->output_norm));
        bound = rs_span_constant(rs_span_mul(groups, product), RS_LAMBDA_VALUE_GAIN).high;
    }
    if (weights->head_norm)
        bound = least(bound, sum_products(weights->head_norm, NULL, weights->heads).high);
    return bound;
}

double rs_lambda_mixing_bound(int64_t n)
{
    rs_span count = rs_span_of((double)n), two = rs_span_of(2);
    rs_span square = rs_span_div(count, two);
    if (n % 2) square = rs_span_sub(square, rs_span_div(rs_span_of(1), rs_span_mul(two, count)));
    if (n <= 1) return 0;
    return rs_span_constant(rs_span_sqrt(square), RS_LAMBDA_MIXING_BOUND).high;
}

double rs_lambda_attention_lipschitz(const rs_lambda_attention_weights *weights, int64_t n,
                                     const double *mixing_norm, double branch_scale)
{
    if (!weights->head_norm) return NAN;
    rs_span sum = sum_products(weights->head_norm, mixing_norm, weights->heads);
    if (!mixing_norm) sum = rs_span_mul(sum, rs_span_of(rs_lambda_mixing_bound(n)));
    return rs_span_mul(sum, rs_span_of(fabs(branch_scale))).high;
}

double rs_lambda_published_constant(const rs_lambda_attention_weights *weights, int64_t n,
                                    double branch_scale)
{
    rs_span gain = rs_span_of(rs_lambda_value_gain(weights));
    if (isnan(gain.low)) return NAN;
    return rs_span_mul(rs_span_mul(root_of(n), gain), rs_span_of(fabs(branch_scale))).high;
}

double rs_lambda_kept_any_input(const rs_lambda_attention_weights *weights, int64_t n,
                                const double *mixing_norm, double branch_scale, double lambda)
{
    double lipschitz = rs_lambda_attention_lipschitz(weights, n, mixing_norm, branch_scale);
    if (isnan(lipschitz)) return NAN;
    rs_span lost = rs_span_constant(rs_span_of(lipschitz), RS_LAMBDA_ANY_INPUT);
    return rs_span_sub(rs_span_of(fabs(lambda)), lost).low;
}

double rs_lambda_demand_any_input(const rs_lambda_attention_weights *weights, int64_t n,
                                  const double *mixing_norm, double branch_scale, double kept)
{
    double lipschitz = rs_lambda_attention_lipschitz(weights, n, mixing_norm, branch_scale);
    if (isnan(lipschitz)) return NAN;
    rs_span lost = rs_span_constant(rs_span_of(lipschitz), RS_LAMBDA_ANY_INPUT);
    return rs_span_add(rs_span_of(kept), lost).high;
}

/* g1 g2 (|λ2| + |α2| L s1 s2)(|λ1| + |α1| Σ √λ_h s_h)/(σ1 σ2). */
static double over_smoothing(const rs_lambda_block *block, double lipschitz)
{
    rs_span mixer = sum_products(block->mixing_norm, block->head_norm, block->heads);
    mixer = rs_span_add(rs_span_of(fabs(block->skip_mixer)),
                        rs_span_mul(rs_span_of(fabs(block->scale_mixer)), mixer));
    rs_span mlp = rs_span_mul(rs_span_of(block->up_norm), rs_span_of(block->down_norm));
    mlp = rs_span_mul(mlp, rs_span_of(lipschitz));
    mlp = rs_span_add(rs_span_of(fabs(block->skip_mlp)),
                      rs_span_mul(rs_span_of(fabs(block->scale_mlp)), mlp));
    rs_span gains = rs_span_mul(rs_span_of(block->gain1), rs_span_of(block->gain2));
    rs_span stds = rs_span_mul(rs_span_of(block->std1), rs_span_of(block->std2));
    rs_span factor = rs_span_div(rs_span_mul(rs_span_mul(mixer, mlp), gains), stds);
    return rs_span_constant(factor, RS_LAMBDA_OVER_SMOOTHING).high;
}

typedef struct hypothesis {
    bool holds;
    const char *text;
} hypothesis;

static const char *first_failed(const hypothesis *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!list[i].holds) return list[i].text;
    }
    return NULL;
}

static const char *block_hypothesis(const rs_lambda_block *block)
{
    const hypothesis list[] = {
        {block->post_norm, "a norm after both sums (post-norm)"},
        {block->row_stochastic, "attention weights that sum to 1 in every row"},
        {block->mixing_norm && block->head_norm && block->heads > 0, "bounds for every head"},
        {block->std1 > 0 && block->std2 > 0, "no token that is constant where a norm reads it"},
    };
    return first_failed(list, sizeof list / sizeof list[0]);
}

rs_lambda_number rs_lambda_over_smoothing(const rs_lambda_block *block)
{
    const char *failed = block_hypothesis(block);
    if (failed) return no_number(failed);
    if (!(block->activation_lipschitz >= 0)) return no_number("a Lipschitz activation");
    return (rs_lambda_number){over_smoothing(block, block->activation_lipschitz), true, NULL};
}

rs_lambda_number rs_lambda_over_smoothing_published(const rs_lambda_block *block)
{
    const char *failed = block_hypothesis(block);
    if (failed) return no_number(failed);
    rs_lambda_block printed = *block;
    printed.gain1 = printed.gain2 = printed.skip_mixer = printed.skip_mlp = 1;
    printed.scale_mixer = printed.scale_mlp = 1;
    const hypothesis list[] = {
        {block->relu, "the activation is ReLU"},
        {block->unit_gains, "every norm gain is 1"},
        {fabs(block->skip_mixer) == 1 && fabs(block->skip_mlp) == 1, "every skip strength is 1"},
        {fabs(block->scale_mixer) <= 1 && fabs(block->scale_mlp) <= 1,
         "every branch scale is at most 1"},
    };
    failed = first_failed(list, sizeof list / sizeof list[0]);
    return (rs_lambda_number){over_smoothing(&printed, 1), !failed, failed};
}
