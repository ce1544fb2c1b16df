/* random.c: Philox draws and the two distributions that the null models need. */
#include "base/random.h"

#include "base/cpu.h"

#include <Random123/philox.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>

rs_random rs_random_new(uint64_t seed, uint64_t stream)
{
    return (rs_random){.seed = seed, .stream = stream};
}

/* The 53 random bits of a place in the stream. */
static inline uint64_t bits_at(const rs_random *random, uint64_t at)
{
    philox4x32_ctr_t counter = {{(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)random->stream,
                                 (uint32_t)(random->stream >> 32)}};
    philox4x32_key_t key = {{(uint32_t)random->seed, (uint32_t)(random->seed >> 32)}};
    philox4x32_ctr_t draw = philox4x32(counter, key);
    return ((uint64_t)draw.v[0] << 32 | draw.v[1]) >> 11;
}

/* Centred in its cell, so that neither 0 nor 1 occurs. */
static inline double centred(uint64_t bits)
{
    return ((double)(int64_t)bits + 0.5) * 0x1p-53;
}

double rs_random_uniform(rs_random *random)
{
    return centred(bits_at(random, random->counter++));
}

/* Box and Muller: two normals of two uniforms. */
static inline double box_muller(double first, double second, double *other)
{
    double radius = sqrt(-2.0 * log(first)), angle = 6.283185307179586476925286766559 * second;
    *other = radius * sin(angle);
    return radius * cos(angle);
}

double rs_random_normal(rs_random *random)
{
    if (random->has_spare) {
        random->has_spare = 0;
        return random->spare;
    }
    double first = rs_random_uniform(random), second = rs_random_uniform(random);
    random->has_spare = 1;
    return box_muller(first, second, &random->spare);
}

/* The loop over places has nothing in it but Philox, so that compilers do several at once; it runs
 * over whole groups of them, some of which may go unused. The bits are whole numbers: the same with vectors
 * of any width. */
enum { GROUP = 8, BLOCK = 8 * GROUP };
typedef void fill(uint64_t bits[BLOCK], const rs_random *from, size_t groups);
#define DEFINE_FILL(name, attribute)                                                               \
    attribute static void name(uint64_t bits[BLOCK], const rs_random *from, size_t groups)         \
    {                                                                                              \
        const rs_random at = *from;                                                                \
        for (size_t i = 0; i < GROUP * groups; i++)                                                \
            bits[i] = bits_at(&at, at.counter + i);                                                \
    }
DEFINE_FILL(fill_plain, )
#if defined(__x86_64__)
DEFINE_FILL(fill_avx2, __attribute__((target("avx2"))))
DEFINE_FILL(fill_avx512, __attribute__((target("avx512f,avx512dq"))))
#endif

/* The one for this processor, chosen at the first use. */
static fill *fill_here(void)
{
    static _Atomic(fill *) chosen;
    fill *found = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (found) return found;
    found = fill_plain;
#if defined(__x86_64__)
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX2) found = fill_avx2;
    if (level == RS_CPU_AVX512) found = fill_avx512;
#endif
    atomic_store_explicit(&chosen, found, memory_order_relaxed);
    return found;
}

void rs_random_normals(rs_random *random, double *out, size_t n)
{
    uint64_t bits[BLOCK];
    if (n > 0 && random->has_spare) *out++ = rs_random_normal(random), n--;
    while (n > 1) {
        size_t some = n < BLOCK ? n & ~(size_t)1 : BLOCK;
        fill_here()(bits, random, (some + GROUP - 1) / GROUP);
        for (size_t i = 0; i < some; i += 2)
            out[i] = box_muller(centred(bits[i]), centred(bits[i + 1]), &out[i + 1]);
        random->counter += some;
        out += some, n -= some;
    }
    if (n > 0) *out = rs_random_normal(random);
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
        bool within = u < 1 - 0.0331 * (x * x) * (x * x); /* their squeeze: then it holds anyway */
        if (within || log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return sqrt(2.0 * d * v * boost);
    }
}
