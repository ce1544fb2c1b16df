/* ssm_null.c: what a state-space mixer's decay and step are expected to be at initialisation
 * (docs/scan.md, table ssm). */
#include "scan/scan.h"

#include <math.h>

/* The step at the quantile u of the law, as the mixer would use it. */
static double step_at(const rs_step_law *law, double u)
{
    double step = fmax(law->low * exp(u * log(law->high / law->low)), law->floor);
    return fmin(fmax(step, law->least), law->most);
}

/* One that is drawn n times, at the place s of the extreme: with v = exp(-s) uniform in (0, 1), the
 * quantile of the greatest is v^(1/n), of the least 1 - v^(1/n). */
typedef struct extreme {
    const rs_step_law *law;
    double rate, n;
    bool greatest;
} extreme;

static double integrand(const extreme *e, double s)
{
    double step = step_at(e->law, e->greatest ? exp(-s / e->n) : -expm1(-s / e->n));
    return (e->rate != 0 ? exp(-e->rate * step) : step) * exp(-s);
}

/* Where the step leaves the value x, as a place s in [0, end]. */
static double kink(const extreme *e, double x, double end)
{
    double u = log(x / e->law->low) / log(e->law->high / e->law->low);
    if (!(u > 0)) return e->greatest ? end : 0;
    if (!(u < 1)) return e->greatest ? 0 : end;
    return fmin(-e->n * (e->greatest ? log(u) : log1p(-u)), end);
}

/* Gauss-Legendre with eight nodes in each of 96 panels. */
static double between(const extreme *e, double from, double to)
{
    static const double nodes[4] = {0.18343464249564980, 0.52553240991632899, 0.79666647741362674,
                                    0.96028985649753623},
                        weights[4] = {0.36268378337836198, 0.31370664587788729, 0.22238103445337447,
                                      0.10122853629037626};
    enum { PANELS = 96 };
    double sum = 0, half = (to - from) / (2 * PANELS);
    if (!(to > from)) return 0;
    for (int p = 0; p < PANELS; p++) {
        double centre = from + (2 * p + 1) * half;
        for (int i = 0; i < 4; i++)
            sum += weights[i] * (integrand(e, centre - half * nodes[i]) +
                                 integrand(e, centre + half * nodes[i]));
    }
    return sum * half;
}

double rs_ssm_expected(const rs_step_law *law, double rate, double n, bool greatest)
{
    const double end = 40; /* exp(-40) is nothing beside 1 in float64 */
    extreme e = {law, rate, n, greatest};
    double lower = fmax(law->floor, law->least), upper = law->most;
    if (isnan(law->low + law->high + law->floor + law->least)) return NAN;
    if (law->high == law->low) return integrand(&e, 0);
    double one = kink(&e, lower, end), two = kink(&e, upper, end);
    double first = fmin(one, two), second = fmax(one, two);
    return between(&e, 0, first) + between(&e, first, second) + between(&e, second, end);
}
