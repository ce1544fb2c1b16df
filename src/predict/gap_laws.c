/* gap_laws.c: the laws of docs/theory/mean_field.md, 8. */
#include "predict/gap_laws.h"

#include <math.h>

double rs_gap_sigma2(double logit_variance)
{
    return expm1(logit_variance);
}

double rs_gap_first(double sigma2, double tokens)
{
    return sqrt(1 + sigma2 / tokens);
}

double rs_gap_second(double sigma2, double tokens)
{
    return 2 * sqrt(sigma2 / tokens);
}

double rs_gap_eigenvalue(double sigma2, double tokens)
{
    return sqrt(sigma2 / tokens);
}

/* The right edge of the squared singular values of two Gaussian factors, T×d_k and d_k×T. */
double rs_gap_second_keys(double logit_variance, double tokens, double d_k)
{
    double shape = d_k / tokens;
    double psi = (sqrt(shape * shape + 8 * shape) - shape) / (4 * shape);
    double edge = (1 + psi) * (1 + shape * psi) * (1 + shape * psi) / psi;
    return sqrt(logit_variance * edge / d_k);
}

double rs_gap_stable_rank(double sigma2)
{
    return 1 + sigma2;
}

double rs_gap_stable_rank_gram(double sigma2, double tokens, double gamma, int layer)
{
    if (layer == 1) return 1 + (2 + gamma) * sigma2 * sigma2 / tokens;
    return 1 + (2 * layer + 1) * pow(sigma2, 2 * layer) * pow(tokens, 1 - 2 * layer);
}

/* 1/edge of the Fuss-Catalan law of so many factors, (s + 1)^(s + 1)/s^s. */
static double inverse_edge(double s)
{
    return exp(s * log(s) - (s + 1) * log(s + 1));
}

double rs_gap_fixed_rank(int factors)
{
    return inverse_edge(factors);
}

/* its second moment is s + 1 */
double rs_gap_fixed_rank_gram(int factors)
{
    return (factors + 1) * inverse_edge(factors) * inverse_edge(factors);
}

double rs_gap_ln_gradient(double sigma2, double tokens, int layers)
{
    return layers * log(tokens) + (layers == 1 ? log1p(sigma2) : 0);
}

double rs_gap_fixed_ln_gradient(double sigma2, double tokens, int layers)
{
    return layers * log(sigma2) + log(tokens);
}

double rs_gap_causal_square(int tokens)
{
    double sum = 0;
    for (int i = tokens; i >= 1; i--)
        sum += 1.0 / i;
    return sum;
}
