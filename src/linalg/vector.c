/* vector.c: the sums of vector.h, each written once and compiled for two vector widths. */
#include "linalg/vector.h"

#include "base/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Four doubles; where registers are narrower the compiler splits them, in the same order. */
typedef double lanes __attribute__((vector_size(32)));
typedef int64_t bits __attribute__((vector_size(32)));
enum { WIDTH = 4, CHAINS = 4, STEP = WIDTH * CHAINS };

#define INLINE static inline __attribute__((always_inline))

INLINE double scalar_absolute(double x)
{
    return __builtin_fabs(x);
}

/* One sum: `vector` is the term of four entries x, y; `scalar` that of one. */
#define DEFINE_SUM(name, use_b, vector, scalar)                                                    \
    INLINE double name##_body(const double *a, const double *b, int64_t n)                         \
    {                                                                                              \
        const bits positive = (bits){INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};                  \
        lanes sum[CHAINS] = {{0}};                                                                 \
        int64_t i = 0;                                                                             \
        (void)positive;                                                                            \
        for (; i + STEP <= n; i += STEP) {                                                         \
            for (int c = 0; c < CHAINS; c++) {                                                     \
                lanes x, y = {0};                                                                  \
                memcpy(&x, a + i + c * WIDTH, sizeof x);                                           \
                if (use_b) memcpy(&y, b + i + c * WIDTH, sizeof y);                                \
                sum[c] += (vector);                                                                \
            }                                                                                      \
        }                                                                                          \
        double rest = 0;                                                                           \
        for (; i < n; i++) {                                                                       \
            double x = a[i], y = use_b ? b[i] : 0;                                                 \
            rest += (scalar);                                                                      \
        }                                                                                          \
        lanes total = (sum[0] + sum[1]) + (sum[2] + sum[3]);                                       \
        return ((total[0] + total[1]) + (total[2] + total[3])) + rest;                             \
    }

#define ABSOLUTE(v) ((lanes)((bits)(v)&positive))
DEFINE_SUM(sum, false, x + y, x + y)
DEFINE_SUM(absolute, false, ABSOLUTE(x + y), scalar_absolute(x + y))
DEFINE_SUM(dot, true, x *y, x *y)
DEFINE_SUM(distance_1, true, ABSOLUTE(x - y), scalar_absolute(x - y))
DEFINE_SUM(distance_squared, true, (x - y) * (x - y), (x - y) * (x - y))

typedef double sum_function(const double *a, const double *b, int64_t n);
typedef struct sum_set {
    sum_function *sum, *absolute, *dot, *distance_1, *distance_squared;
} sum_set;

#define DEFINE_COPY(suffix, attribute, name)                                                       \
    attribute static double name##_##suffix(const double *a, const double *b, int64_t n)           \
    {                                                                                              \
        return name##_body(a, b, n);                                                               \
    }
#define DEFINE_SET(suffix, attribute)                                                              \
    DEFINE_COPY(suffix, attribute, sum)                                                            \
    DEFINE_COPY(suffix, attribute, absolute)                                                       \
    DEFINE_COPY(suffix, attribute, dot)                                                            \
    DEFINE_COPY(suffix, attribute, distance_1)                                                     \
    DEFINE_COPY(suffix, attribute, distance_squared)                                               \
    static const sum_set set_##suffix = {sum_##suffix, absolute_##suffix, dot_##suffix,            \
                                         distance_1_##suffix, distance_squared_##suffix};

DEFINE_SET(plain, )
#if defined(__x86_64__)
DEFINE_SET(avx2, __attribute__((target("avx2"))))
#endif

/* The set for this processor, chosen at the first use. */
static const sum_set *chosen(void)
{
    static _Atomic(const sum_set *) kept;
    const sum_set *set = atomic_load_explicit(&kept, memory_order_relaxed);
    if (set) return set;
    set = &set_plain;
#if defined(__x86_64__)
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX2 || level == RS_CPU_AVX512) set = &set_avx2;
#endif
    atomic_store_explicit(&kept, set, memory_order_relaxed);
    return set;
}

double rs_sum(const double *a, int64_t n)
{
    return chosen()->sum(a, a, n);
}

double rs_sum_absolute(const double *a, int64_t n)
{
    return chosen()->absolute(a, a, n);
}

double rs_dot(const double *a, const double *b, int64_t n)
{
    return chosen()->dot(a, b, n);
}

double rs_distance_1(const double *a, const double *b, int64_t n)
{
    return chosen()->distance_1(a, b, n);
}

double rs_distance_squared(const double *a, const double *b, int64_t n)
{
    return chosen()->distance_squared(a, b, n);
}
