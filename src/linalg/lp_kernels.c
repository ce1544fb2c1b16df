/* lp_kernels.c: each loop written once and compiled for every processor and for AVX2 with FMA. */
#include "linalg/lp_kernels.h"

#include "base/cpu.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE double smooth_row(const rs_lp_row *row, int64_t d)
{
    const float *restrict p = row->p, *restrict x = row->x, *restrict y = row->y;
    float *restrict slope = row->slope, *restrict damp = row->damp, *restrict total = row->sum;
    float square = row->width * row->width, weight = row->weight;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < d; k++) {
        float r = p[k] - x[k], h = sqrtf(r * r + square), inverse = 1 / h;
        float s = r * inverse, room = weight - y[k] * s;
        float one = (room > 0 ? room : 0) * inverse;
        slope[k] = s;
        damp[k] = one;
        total[k] += one;
        sum += (double)h;
    }
    return sum;
}

INLINE void step_row(float *restrict y, const float *restrict slope, const float *restrict damp,
                     const float *restrict step, float weight, float limit, int64_t d)
{
    for (int64_t k = 0; k < d; k++) {
        float v = slope[k] * weight - damp[k] * step[k];
        v = v > limit ? limit : v;
        y[k] = v < -limit ? -limit : v;
    }
}

INLINE void product(float *restrict to, const float *restrict a, const float *restrict b, int64_t d)
{
    for (int64_t k = 0; k < d; k++)
        to[k] = a[k] * b[k];
}

INLINE void add(float *restrict to, const float *restrict a, float factor, int64_t d)
{
    for (int64_t k = 0; k < d; k++)
        to[k] += factor * a[k];
}

/* Four columns at a time; where registers are narrower the compiler splits them. */
typedef double lanes __attribute__((vector_size(32)));
typedef int64_t bits __attribute__((vector_size(32)));
enum { WIDTH = 4, PARTS = RS_LP_COLUMNS / WIDTH };

/* The entries of a where the mask is set, those of b elsewhere. */
#define BLEND(mask, a, b) ((lanes)(((bits)(a) & (mask)) | ((bits)(b) & ~(mask))))

INLINE bool median_move(double *median, const double *points, const int64_t *rows,
                        const double *weights, int64_t m, int64_t ld, int64_t columns)
{
    const lanes zero = {0};
    lanes c[PARTS] = {{0}}, below[PARTS] = {{0}}, above[PARTS] = {{0}}, down[PARTS], up[PARTS];
    double half = 0;
    size_t bytes = (size_t)columns * sizeof *median;
    memcpy(c, median, bytes);
    for (int part = 0; part < PARTS; part++) {
        down[part] = zero - INFINITY;
        up[part] = zero + INFINITY;
    }
    for (int64_t j = 0; j < m; j++) {
        lanes p[PARTS] = {{0}}, w = zero + weights[rows[j]];
        memcpy(p, points + rows[j] * ld, columns == RS_LP_COLUMNS ? sizeof p : bytes);
        half += 0.5 * weights[rows[j]];
        for (int part = 0; part < PARTS; part++) {
            bits less = p[part]<c[part], more = p[part]> c[part];
            below[part] += (lanes)((bits)w & less);
            above[part] += (lanes)((bits)w & more);
            bits higher = less & (p[part] > down[part]), lower = more & (p[part] < up[part]);
            down[part] = BLEND(higher, p[part], down[part]);
            up[part] = BLEND(lower, p[part], up[part]);
        }
    }
    /* Rounding of the sums must not send a median to and fro between two entries. */
    half *= 1 + 1e-14;
    bits moved = {0};
    for (int part = 0; part < PARTS; part++) {
        bits left = below[part] > zero + half, right = above[part] > zero + half;
        moved |= left | right;
        c[part] = BLEND(left, down[part], BLEND(right, up[part], c[part]));
    }
    memcpy(median, c, bytes);
    return (moved[0] | moved[1] | moved[2] | moved[3]) == 0;
}

#define DEFINE_SET(suffix, attribute)                                                              \
    attribute static double smooth_row_##suffix(const rs_lp_row *row, int64_t d)                   \
    {                                                                                              \
        return smooth_row(row, d);                                                                 \
    }                                                                                              \
    attribute static void step_row_##suffix(float *y, const float *slope, const float *damp,       \
                                            const float *step, float weight, float limit,          \
                                            int64_t d)                                             \
    {                                                                                              \
        step_row(y, slope, damp, step, weight, limit, d);                                          \
    }                                                                                              \
    attribute static void product_##suffix(float *to, const float *a, const float *b, int64_t d)   \
    {                                                                                              \
        product(to, a, b, d);                                                                      \
    }                                                                                              \
    attribute static void add_##suffix(float *to, const float *a, float factor, int64_t d)         \
    {                                                                                              \
        add(to, a, factor, d);                                                                     \
    }                                                                                              \
    attribute static bool median_move_##suffix(double *median, const double *points,               \
                                               const int64_t *rows, const double *weights,         \
                                               int64_t m, int64_t ld, int64_t columns)             \
    {                                                                                              \
        return median_move(median, points, rows, weights, m, ld, columns);                         \
    }

DEFINE_SET(plain, )
#if defined(__x86_64__)
DEFINE_SET(avx2, __attribute__((target("avx2,fma"))))

static bool wide(void)
{
    rs_cpu_level level = rs_cpu_vector_level();
    return level == RS_CPU_AVX2 || level == RS_CPU_AVX512;
}
#define CHOOSE(name) (wide() ? name##_avx2 : name##_plain)
#else
#define CHOOSE(name) name##_plain
#endif

double rs_lp_smooth_row(const rs_lp_row *row, int64_t d)
{
    return CHOOSE(smooth_row)(row, d);
}

void rs_lp_step_row(float *y, const float *slope, const float *damp, const float *step,
                    float weight, float limit, int64_t d)
{
    CHOOSE(step_row)(y, slope, damp, step, weight, limit, d);
}

void rs_lp_product(float *to, const float *a, const float *b, int64_t d)
{
    CHOOSE(product)(to, a, b, d);
}

void rs_lp_add(float *to, const float *a, float factor, int64_t d)
{
    CHOOSE(add)(to, a, factor, d);
}

bool rs_lp_median_move(double *median, const double *points, const int64_t *rows,
                       const double *weights, int64_t m, int64_t ld, int64_t columns)
{
    return CHOOSE(median_move)(median, points, rows, weights, m, ld, columns);
}
