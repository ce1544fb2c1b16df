/*
 * softmax_moments.c: ∫ over t of what n independent lognormals give (docs/theory/mean_field.md, 2).
 *
 * With t = e^u, h(w) = exp(−e^w) and E over m ~ N(0, c):
 *
 *     g0(u) = E h(u+m),   g_k(u) = E e^{k(u+m)} h(u+m),
 *     E Σ A²     = n ∫ g2 g0^{n−1} du,      E Σ A³ = n/2 ∫ g3 g0^{n−1} du,
 *     E (Σ A²)²  = n/6 ∫ (g4 g0 + (n−1) g2²) g0^{n−2} du,
 *     E Σ A² − 1/n = (n−1) ∫ (g2 g0 − g1²) g0^{n−2} du,     1 − E Σ A² = n(n−1) ∫ g1² g0^{n−2} du.
 *
 * All of it is analytic in a strip, so that equal steps converge like exp(−1/step).
 */
#include "predict/softmax_moments.h"

#include "predict/softmax_mesh.h"

#include <math.h>

double rs_softmax_annealed(double n, double x)
{
    return 1 / (1 + (n - 1) * exp(-x));
}

double rs_softmax_annealed_ln_gap(double n, double high, double ln_difference)
{
    double difference = exp(ln_difference), low = high - difference;
    double ln_lost = ln_difference < -700 ? ln_difference : log(-expm1(-difference));
    /* (n−1) (e^{−low} − e^{−high}) over both denominators */
    return log(n - 1) - low + ln_lost - log1p((n - 1) * exp(-high)) - log1p((n - 1) * exp(-low));
}

double rs_softmax_annealed_inverse(double n, double excess)
{
    if (n <= 1) return 0;
    return log1p(excess) - log1p(-excess / (n - 1));
}

static rs_softmax_moments without_spread(double n)
{
    return (rs_softmax_moments){
        .second = 1 / n, .excess = 0, .third = 1 / (n * n), .square = 1 / (n * n), .equal = 0};
}

static rs_softmax_moments without_meaning(void)
{
    return (rs_softmax_moments){NAN, NAN, NAN, NAN, NAN};
}

static rs_softmax_moments one_hot(double n)
{
    return (rs_softmax_moments){1, n - 1, 1, 1, n > 1 ? INFINITY : 0};
}

/* The annealed form at `equal` is `second`, lack = 1 − second: whichever of the two is small keeps its digits. */
static double equal_of(double n, double second, double excess, double lack)
{
    return lack > 0.5 ? rs_softmax_annealed_inverse(n, excess) : log(second * (n - 1) / lack);
}

/* Sums over a mesh. */
typedef struct sums {
    double excess, lack, third, fourth, twice;
} sums;

static rs_softmax_moments moments_from(sums s, double step, double n)
{
    double excess = fmin(n * (n - 1) * step * s.excess, n - 1), lack = n * (n - 1) * step * s.lack;
    double second = lack > 0.5 ? (1 + excess) / n : 1 - lack;
    return (rs_softmax_moments){.second = second,
                                .excess = excess,
                                .third = n / 2 * step * s.third,
                                .square = n / 6 * step * (s.fourth + (n - 1) * s.twice),
                                .equal = equal_of(n, second, excess, lack)};
}

static rs_softmax_moments sum_up(const rs_softmax_mesh *mesh, double n)
{
    sums s = {0};
    for (int i = 0; i < mesh->n; i++) {
        double hidden = mesh->hidden[i], kept = mesh->kept[i];
        double others = n == 2 ? 1 : exp((n - 2) * (hidden < 0.5 ? log1p(-hidden) : log(kept)));
        s.excess += mesh->spread[i] * others;
        s.lack += mesh->paired[i] * others;
        s.third += mesh->third[i] * others * kept;
        s.fourth += mesh->fourth[i] * others * kept;
        s.twice += mesh->second[i] * mesh->second[i] * others;
    }
    return moments_from(s, mesh->step, n);
}

/* The same of `others` = g0^(n − 2), which then gains a power. */
static rs_softmax_moments sum_next(const rs_softmax_mesh *mesh, double *others, double n)
{
    double excess = 0, lack = 0, third = 0, fourth = 0, twice = 0;
#pragma omp simd reduction(+ : excess, lack, third, fourth, twice)
    for (int i = 0; i < mesh->n; i++) {
        double now = others[i], then = now * mesh->kept[i];
        excess += mesh->spread[i] * now;
        lack += mesh->paired[i] * now;
        third += mesh->third[i] * then;
        fourth += mesh->fourth[i] * then;
        twice += mesh->second[i] * mesh->second[i] * now;
        others[i] = then > 1e-280 ? then : 0; /* subnormal numbers are slow */
    }
    return moments_from((sums){excess, lack, third, fourth, twice}, mesh->step, n);
}

/* Where no mesh is needed. */
static bool is_plain(rs_softmax_moments *out, double n, double c)
{
    if (!(n >= 1) || !(c >= 0))
        *out = without_meaning();
    else if (n == 1 || isinf(c))
        *out = one_hot(n);
    else if (c < 1e-300)
        *out = without_spread(n);
    else
        return false;
    return true;
}

void rs_softmax_moments_of(rs_softmax_moments *out, double n, double c)
{
    if (is_plain(out, n, c)) return;
    rs_softmax_mesh mesh;
    rs_softmax_mesh_make(&mesh, n, c);
    *out = sum_up(&mesh, n);
}

void rs_softmax_moments_causal(rs_softmax_moments *out, int64_t n, double c)
{
    rs_softmax_mesh mesh;
    double others[RS_SOFTMAX_MESH_MOST];
    if (n < 1) return;
    bool plain = is_plain(&out[n - 1], (double)n, c);
    mesh.n = 0;
    if (!plain) rs_softmax_mesh_make(&mesh, (double)n, c);
    for (int i = 0; i < mesh.n; i++)
        others[i] = 1;
    for (int64_t i = 0; i < n; i++) {
        if (plain || i == 0)
            is_plain(&out[i], (double)(i + 1), c);
        else
            out[i] = sum_next(&mesh, others, (double)(i + 1));
    }
}
