/* random.c: Philox draws and the two distributions that the null models need. */
#include "base/random.h"

#include <Random123/philox.h>
#include <math.h>

rs_random rs_random_new(uint64_t seed, uint64_t stream)
{
    return (rs_random){.seed = seed, .stream = stream};
}

/* 53 bits centred in their cells, so that neither 0 nor 1 occurs. */
double rs_random_uniform(rs_random *random)
{
    philox4x32_ctr_t counter = {{(uint32_t)random->counter, (uint32_t)(random->counter >> 32),
                                 (uint32_t)random->stream, (uint32_t)(random->stream >> 32)}};
    philox4x32_key_t key = {{(uint32_t)random->seed, (uint32_t)(random->seed >> 32)}};
    philox4x32_ctr_t draw = philox4x32(counter, key);
    random->counter++;
    uint64_t bits = ((uint64_t)draw.v[0] << 32 | draw.v[1]) >> 11;
    return ((double)bits + 0.5) * 0x1p-53;
}

double rs_random_normal(rs_random *random)
{
    if (random->has_spare) {
        random->has_spare = 0;
        return random->spare;
    }
    double radius = sqrt(-2.0 * log(rs_random_uniform(random)));
    double angle = 6.283185307179586476925286766559 * rs_random_uniform(random);
    random->spare = radius * sin(angle);
    random->has_spare = 1;
    return radius * cos(angle);
}

/* Gamma(dof/2) by Marsaglia & Tsang 2000; below shape 1 through Gamma(shape + 1)·U^(1/shape). */
double rs_random_chi(rs_random *random, double dof)
{
    double shape = 0.5 * dof, boost = 1.0;
    if (shape < 1.0) {
        boost = pow(rs_random_uniform(random), 1.0 / shape);
        shape += 1.0;
    }
    double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x = rs_random_normal(random), v = 1.0 + c * x;
        if (v <= 0.0) continue;
        v = v * v * v;
        double u = rs_random_uniform(random);
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v)) return sqrt(2.0 * d * v * boost);
    }
}
