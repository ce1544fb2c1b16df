/* laws.c: asymptotic laws of 1 − ρ, and their read-outs (docs/theory/mean_field.md, 7). */
#include "predict/laws.h"

#include "predict/softmax_moments.h"

#include <math.h>

rs_status rs_mlp_gains(double *gain, double *persistence, const rs_theory_mlp *mlp, rs_error *err)
{
    rs_activation_map *map = NULL;
    rs_activation_moments m;
    *gain = *persistence = NAN;
    RS_TRY(rs_activation_map_open(&map, mlp->kind, err));
    if (rs_activation_map_at(map, log(mlp->gated ? mlp->gate : mlp->up))) {
        rs_activation_map_moments(&m, map, -INFINITY);
        double square = exp(m.ln_square);
        *gain = mlp->down * square * (mlp->gated ? mlp->up : 1);
        /* both factors of a gated product persist: v_g E φ'² and E φ² */
        double slope = mlp->gated ? mlp->up * (mlp->gate * m.slope + square) : mlp->up * m.slope;
        *persistence = mlp->down * slope / *gain;
    }
    rs_activation_map_close(map);
    return RS_OK;
}

double rs_law_post_norm_decades(const rs_block_gains *gains)
{
    return (log1p(gains->mixer) + log1p(gains->mlp) - log1p(gains->mlp * gains->persistence)) /
           log(10);
}

double rs_law_pre_norm_exponent(const rs_block_gains *gains)
{
    return (gains->mixer + gains->mlp * (1 - gains->persistence)) / (gains->mixer + gains->mlp);
}

double rs_law_attention_step(double e, double deviation, double n)
{
    double c = deviation * deviation * e;
    double gap = exp(rs_softmax_annealed_ln_gap(n, c, log(c) + log(e)));
    return e * gap / (1 - e + e * rs_softmax_annealed(n, c));
}

double rs_law_attention_small(double e, double deviation, double n)
{
    return deviation * deviation * e * e * e * (n - 1) / (n * n);
}

static double slope_of(double rho, double n, double mixer, double mlp)
{
    double e = 1 - rho;
    return mixer * (1 + (n - 1) * rho) / n * e + mlp * e * (1 - rs_relu_gap_ratio(e));
}

double rs_law_scaled_limit(double rho0, double n, double mixer, double mlp)
{
    enum { STEPS = 4000 }; /* of Runge and Kutta's fourth order */
    double rho = rho0, h = 1.0 / STEPS;
    for (int i = 0; i < STEPS; i++) {
        double a = slope_of(rho, n, mixer, mlp), b = slope_of(rho + h / 2 * a, n, mixer, mlp);
        double c = slope_of(rho + h / 2 * b, n, mixer, mlp);
        double d = slope_of(rho + h * c, n, mixer, mlp);
        rho = fmin(rho + h / 6 * (a + 2 * b + 2 * c + d), 1);
    }
    return rho;
}

double rs_law_condensation(double n)
{
    return sqrt(2 * log(n));
}

double rs_law_condensed_part(double deviation, double n)
{
    double part = 1 - rs_law_condensation(n) / deviation;
    return part > 0 ? part : 0;
}

double rs_law_variance_of(double second, double n)
{
    rs_softmax_moments moments;
    double low = -40, high = 60; /* ln c */
    if (!(second > 1 / n && second < 1)) return NAN;
    for (int i = 0; i < 80; i++) {
        double middle = (low + high) / 2;
        rs_softmax_moments_of(&moments, n, exp(middle));
        if (moments.excess < n * second - 1)
            low = middle;
        else
            high = middle;
    }
    return exp((low + high) / 2);
}
