/* closed_forms.c: Noci et al. 2022, lemmas 3.2 to 3.5 and theorem 3.6, and what follows from them
 * (docs/theory/mean_field.md, 1). */
#include "predict/closed_forms.h"

#include "predict/ln.h"

double rs_noci_ln_c(const rs_noci *noci, double layers)
{
    return layers * (log1p(noci->mixer) + log1p(noci->mlp)) + log(noci->c0);
}

/* ln((1 + mixer)^layers − 1) */
static double ln_grown(const rs_noci *noci, double layers)
{
    double growth = layers * log1p(noci->mixer);
    return growth > 700 ? growth : log(expm1(growth));
}

double rs_noci_ln_f(const rs_noci *noci, double layers)
{
    double lifted = ln_grown(noci, layers) + log(noci->c0) - log(noci->n);
    return layers * log1p(noci->mlp) + rs_ln_add(lifted, log(noci->f0));
}

double rs_noci_rho(const rs_noci *noci, double layers)
{
    double ratio = exp(rs_noci_ln_c(noci, layers) - rs_noci_ln_f(noci, layers));
    return (ratio - 1) / (noci->n - 1);
}

double rs_noci_rho_limit(const rs_noci *noci, double rate)
{
    double n = noci->n, sum = expm1(rate) * noci->c0 + n * noci->f0;
    return n * exp(rate) * noci->c0 / ((n - 1) * sum) - 1 / (n - 1);
}

/* C/(nF) follows a logistic map: it is b at depth l where (1 + mixer)^l = b (1 − b0)/(b0 (1 − b)). */
int64_t rs_noci_depth_to(const rs_noci *noci, double target)
{
    double n = noci->n, from = noci->c0 / (n * noci->f0), to = (1 + (n - 1) * target) / n;
    if (from >= to) return 0;
    if (!(from > 0) || !(to < 1) || !(noci->mixer > 0)) return -1;
    double layers = log(to * (1 - from) / (from * (1 - to))) / log1p(noci->mixer);
    return (int64_t)ceil(layers * (1 - 1e-14));
}

double rs_noci_local_value(double d, double n, double sum_square)
{
    return d * sum_square / n;
}

double rs_noci_local_query(double d, double n, double f, double cross_square, double keys,
                           double values)
{
    return values * keys * d / (n * n) * f * cross_square;
}

double rs_noci_gaussian_value(double d, double n, double variance, double rho)
{
    return variance * d * d * (1 + rho * (n - 1));
}

double rs_noci_gaussian_query(double d, double n, double variance, double rho)
{
    return variance * variance * variance * (n - 1) / n * (1 - rho) * (1 - rho) * d * (n + d);
}

double rs_noci_gaussian_query_exact(double d, double n, double variance, double rho)
{
    double third = (n * d + 4 * (1 - rho)) / (n * d);
    return third * rs_noci_gaussian_query(d, n, variance, rho);
}

double rs_noci_temperature(double d, double n, double variance, double rho)
{
    return sqrt(rs_noci_gaussian_value(d, n, variance, rho) /
                rs_noci_gaussian_query(d, n, variance, rho));
}

double rs_noci_network_ln_value(const rs_noci *noci, double d, double mean_square, double layers)
{
    return log(noci->mixer) + log(noci->n) + log(d) + log(mean_square) +
           (layers - 1) * log1p(noci->mixer) + layers * log1p(noci->mlp);
}

double rs_noci_network_ln_query(const rs_noci *noci, double d, double cross_square, double keys,
                                double values, double layers)
{
    double n = noci->n, lifted = ln_grown(noci, layers - 1) + log(noci->c0) - log(n);
    return log(noci->mixer) + log(keys) + log(values) + log(d) - 2 * log(n) + log(cross_square) +
           rs_ln_add(log(noci->f0), lifted);
}
