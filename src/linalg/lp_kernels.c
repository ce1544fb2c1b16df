/* lp_kernels.c: each loop written once and compiled for every processor and for AVX2 with FMA. */
#include "linalg/lp_kernels.h"

#include "base/cpu.h"

#include <math.h>

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

INLINE bool median_move(double *restrict median, const double *restrict points, const int64_t *rows,
                        const double *restrict weights, int64_t m, int64_t ld, int64_t columns)
{
    double below[RS_LP_COLUMNS] = {0}, above[RS_LP_COLUMNS] = {0};
    double down[RS_LP_COLUMNS], up[RS_LP_COLUMNS], half = 0;
    for (int64_t k = 0; k < RS_LP_COLUMNS; k++) {
        down[k] = -INFINITY;
        up[k] = INFINITY;
    }
    for (int64_t j = 0; j < m; j++) {
        const double *restrict row = points + rows[j] * ld;
        double w = weights[rows[j]];
        half += 0.5 * w;
        for (int64_t k = 0; k < columns; k++) {
            double p = row[k], c = median[k];
            bool less = p<c, more = p> c;
            below[k] += less ? w : 0;
            above[k] += more ? w : 0;
            double low = less ? p : -INFINITY, high = more ? p : INFINITY;
            down[k] = low > down[k] ? low : down[k];
            up[k] = high < up[k] ? high : up[k];
        }
    }
    int64_t moved = 0;
    /* Rounding of the sums must not send a median to and fro between two entries. */
    half *= 1 + 1e-14;
    for (int64_t k = 0; k < columns; k++) {
        bool left = below[k] > half, right = above[k] > half;
        moved += left | right;
        median[k] = left ? down[k] : right ? up[k] : median[k];
    }
    return moved == 0;
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
