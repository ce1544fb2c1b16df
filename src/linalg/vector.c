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

typedef float floats __attribute__((vector_size(16)));

INLINE void widen_body(double *restrict out, const float *restrict a, int64_t n)
{
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        floats x;
        memcpy(&x, a + i, sizeof x);
        lanes wide = __builtin_convertvector(x, lanes);
        memcpy(out + i, &wide, sizeof wide);
    }
    for (; i < n; i++)
        out[i] = (double)a[i];
}

/* Σ a_i² of floats. */
INLINE double squares_body(const float *a, int64_t n)
{
    lanes sum[CHAINS] = {{0}};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP)
        for (int c = 0; c < CHAINS; c++) {
            floats x;
            memcpy(&x, a + i + c * WIDTH, sizeof x);
            lanes wide = __builtin_convertvector(x, lanes);
            sum[c] += wide * wide;
        }
    double rest = 0;
    for (; i < n; i++)
        rest += (double)a[i] * (double)a[i];
    lanes total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return ((total[0] + total[1]) + (total[2] + total[3])) + rest;
}

/*
 * ln x of four positive numbers: x = 2^e m with √½ ≤ m < √2, ln m = 2 artanh(s), s = (m − 1)/(m +
 * 1), by the series of artanh, whose remainder for |s| ≤ 0.172 lies below 1e-17. Subnormal numbers
 * come out as about −709, which times themselves is nothing.
 */
INLINE void logarithm(lanes *out, const lanes *in)
{
    const lanes x = *in;
    const bits half = (bits){0x3fe6a09e667f3bcd, 0x3fe6a09e667f3bcd, 0x3fe6a09e667f3bcd,
                             0x3fe6a09e667f3bcd}; /* √½ */
    const bits mantissa = (bits){0} + 0xfffffffffffff;
    /* The exponent by which x exceeds √½, and x scaled by it into [√½, √2). */
    bits above = ((bits)x - half) & ~mantissa;
    lanes m = (lanes)((bits)x - above);
    /* Exponents fit a double's low mantissa bits: adding 2⁵² + 2⁵¹ makes integers of them. */
    bits shifted = (above >> 52) + (bits)((lanes){0} + 0x1.8p52);
    lanes e = (lanes)shifted - 0x1.8p52;
    lanes s = (m - 1) / (m + 1), t = s * s, sum = (lanes){0} + 1.0 / 21;
    for (int k = 19; k >= 3; k -= 2)
        sum = sum * t + 1.0 / k;
    *out = e * 0x1.62e42fefa3800p-1 + (2 * s + (2 * s * t * sum + e * 0x1.ef35793c76730p-45));
}

/* sum −= a ln a of four numbers, 0 for those that are not positive. */
INLINE void add_entropy(lanes *sum, const lanes *in)
{
    const lanes a = *in;
    lanes log_a;
    const lanes zero = {0}, one = zero + 1;
    bits positive = a > zero;
    lanes safe = (lanes)(((bits)a & positive) | ((bits)one & ~positive));
    logarithm(&log_a, &safe);
    *sum -= (lanes)((bits)(a * log_a) & positive);
}

INLINE double entropy_body(const double *a, const double *b, int64_t n)
{
    lanes sum[2] = {{0}};
    (void)b;
    for (int64_t i = 0; i < n; i += WIDTH) {
        lanes x = {0};
        int64_t count = n - i < WIDTH ? n - i : WIDTH;
        if (count == WIDTH)
            memcpy(&x, a + i, sizeof x);
        else
            for (int64_t k = 0; k < count; k++)
                x[k] = a[i + k];
        add_entropy(&sum[i / WIDTH % 2], &x);
    }
    lanes total = sum[0] + sum[1];
    return (total[0] + total[1]) + (total[2] + total[3]);
}

/* y_i = Σ_j A_ij x_j, four rows at a time. */
INLINE void rows_body(double *y, const double *a, const double *x, int64_t m, int64_t n, int64_t ld)
{
    int64_t i = 0;
    for (; i + WIDTH <= m; i += WIDTH) {
        lanes sum[WIDTH] = {{0}};
        double rest[WIDTH] = {0};
        int64_t j = 0;
        for (; j + WIDTH <= n; j += WIDTH) {
            lanes v;
            memcpy(&v, x + j, sizeof v);
            for (int r = 0; r < WIDTH; r++) {
                lanes row;
                memcpy(&row, a + (i + r) * ld + j, sizeof row);
                sum[r] += row * v;
            }
        }
        for (; j < n; j++)
            for (int r = 0; r < WIDTH; r++)
                rest[r] += a[(i + r) * ld + j] * x[j];
        for (int r = 0; r < WIDTH; r++)
            y[i + r] = ((sum[r][0] + sum[r][1]) + (sum[r][2] + sum[r][3])) + rest[r];
    }
    for (; i < m; i++)
        y[i] = dot_body(a + i * ld, x, n);
}

/* y_j += Σ_i x_i A_ij, four rows at a time. */
INLINE void columns_body(double *restrict y, const double *restrict a, const double *restrict x,
                         int64_t m, int64_t n, int64_t ld)
{
    int64_t i = 0;
    for (; i + WIDTH <= m; i += WIDTH) {
        const double *p = a + i * ld, *q = p + ld, *r = q + ld, *s = r + ld;
        const double xp = x[i], xq = x[i + 1], xr = x[i + 2], xs = x[i + 3];
        for (int64_t j = 0; j < n; j++)
            y[j] += (p[j] * xp + q[j] * xq) + (r[j] * xr + s[j] * xs);
    }
    for (; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            y[j] += x[i] * a[i * ld + j];
}

/* The fused passes of vector.h. */
INLINE void sums_body(double *restrict absolute, double *restrict offset, double *restrict scaled,
                      const double *restrict row, const double *restrict first, double factor,
                      int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        absolute[k] += scalar_absolute(row[k]);
        offset[k] += row[k] - first[k];
        scaled[k] += factor * row[k];
    }
}

INLINE void rests_body(double *restrict rest, double *restrict absolute, double *restrict spread,
                       double *restrict left, const double *restrict row,
                       const rs_row_centres *centres, int64_t n)
{
    const double *restrict first = centres->first, *restrict offset = centres->offset;
    const double *restrict scaled = centres->scaled;
    const double factor = centres->factor;
    for (int64_t k = 0; k < n; k++) {
        double r = (row[k] - first[k]) - offset[k], e = factor * row[k] - scaled[k];
        rest[k] = r;
        absolute[k] += scalar_absolute(r);
        spread[k] = e;
        left[k] += e;
    }
}

typedef void sums_function(double *restrict absolute, double *restrict offset,
                           double *restrict scaled, const double *restrict row,
                           const double *restrict first, double factor, int64_t n);
typedef void rests_function(double *restrict rest, double *restrict absolute,
                            double *restrict spread, double *restrict left,
                            const double *restrict row, const rs_row_centres *centres, int64_t n);
typedef void product_function(double *y, const double *a, const double *x, int64_t m, int64_t n,
                              int64_t ld);
typedef double sum_function(const double *a, const double *b, int64_t n);
typedef struct sum_set {
    sum_function *sum, *absolute, *dot, *distance_1, *distance_squared, *entropy;
    product_function *rows, *columns;
    sums_function *row_sums;
    rests_function *row_rests;
    double (*squares)(const float *a, int64_t n);
    void (*widen)(double *restrict out, const float *restrict a, int64_t n);
} sum_set;

#define DEFINE_COPY(suffix, attribute, name)                                                       \
    attribute static double name##_##suffix(const double *a, const double *b, int64_t n)           \
    {                                                                                              \
        return name##_body(a, b, n);                                                               \
    }
#define DEFINE_PRODUCT(suffix, attribute, name)                                                    \
    attribute static void name##_##suffix(double *y, const double *a, const double *x, int64_t m,  \
                                          int64_t n, int64_t ld)                                   \
    {                                                                                              \
        name##_body(y, a, x, m, n, ld);                                                            \
    }
#define DEFINE_FUSED(suffix, attribute)                                                            \
    attribute static double squares_##suffix(const float *a, int64_t n)                            \
    {                                                                                              \
        return squares_body(a, n);                                                                 \
    }                                                                                              \
    attribute static void widen_##suffix(double *restrict out, const float *restrict a, int64_t n) \
    {                                                                                              \
        widen_body(out, a, n);                                                                     \
    }                                                                                              \
    attribute static void row_sums_##suffix(                                                       \
        double *restrict absolute, double *restrict offset, double *restrict scaled,               \
        const double *restrict row, const double *restrict first, double factor, int64_t n)        \
    {                                                                                              \
        sums_body(absolute, offset, scaled, row, first, factor, n);                                \
    }                                                                                              \
    attribute static void row_rests_##suffix(double *restrict rest, double *restrict absolute,     \
                                             double *restrict spread, double *restrict left,       \
                                             const double *restrict row,                           \
                                             const rs_row_centres *centres, int64_t n)             \
    {                                                                                              \
        rests_body(rest, absolute, spread, left, row, centres, n);                                 \
    }
#define DEFINE_SET(suffix, attribute)                                                              \
    DEFINE_COPY(suffix, attribute, sum)                                                            \
    DEFINE_COPY(suffix, attribute, absolute)                                                       \
    DEFINE_COPY(suffix, attribute, dot)                                                            \
    DEFINE_COPY(suffix, attribute, distance_1)                                                     \
    DEFINE_COPY(suffix, attribute, distance_squared)                                               \
    DEFINE_COPY(suffix, attribute, entropy)                                                        \
    DEFINE_PRODUCT(suffix, attribute, rows)                                                        \
    DEFINE_PRODUCT(suffix, attribute, columns)                                                     \
    DEFINE_FUSED(suffix, attribute)                                                                \
    static const sum_set set_##suffix = {                                                          \
        sum_##suffix,        absolute_##suffix,         dot_##suffix,                              \
        distance_1_##suffix, distance_squared_##suffix, entropy_##suffix,                          \
        rows_##suffix,       columns_##suffix,          row_sums_##suffix,                         \
        row_rests_##suffix,  squares_##suffix,          widen_##suffix};

DEFINE_SET(plain, )
#if defined(__x86_64__)
DEFINE_SET(avx2, __attribute__((target("avx2"))))
#endif

/* The set in use; NULL until the first use. */
static _Atomic(const sum_set *) in_use;

void rs_vector_use_plain(bool plain)
{
    atomic_store_explicit(&in_use, plain ? &set_plain : NULL, memory_order_relaxed);
}

/* The set for this processor, chosen at the first use. */
static const sum_set *chosen(void)
{
    const sum_set *set = atomic_load_explicit(&in_use, memory_order_relaxed);
    if (set) return set;
    set = &set_plain;
#if defined(__x86_64__)
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX2 || level == RS_CPU_AVX512) set = &set_avx2;
#endif
    atomic_store_explicit(&in_use, set, memory_order_relaxed);
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

double rs_sum_squares(const float *a, int64_t n)
{
    return chosen()->squares(a, n);
}

void rs_widen(double *out, const float *a, int64_t n)
{
    chosen()->widen(out, a, n);
}

double rs_entropy(const double *a, int64_t n)
{
    return chosen()->entropy(a, a, n);
}

void rs_multiply(double *y, const double *a, const double *x, int64_t m, int64_t n, int64_t ld)
{
    chosen()->rows(y, a, x, m, n, ld);
}

void rs_multiply_transposed(double *y, const double *a, const double *x, int64_t m, int64_t n,
                            int64_t ld)
{
    memset(y, 0, (size_t)n * sizeof *y);
    chosen()->columns(y, a, x, m, n, ld);
}

void rs_add_transposed(double *y, const double *a, const double *x, int64_t m, int64_t n,
                       int64_t ld)
{
    chosen()->columns(y, a, x, m, n, ld);
}

void rs_row_sums(double *absolute, double *offset, double *scaled, const double *row,
                 const double *first, double factor, int64_t n)
{
    chosen()->row_sums(absolute, offset, scaled, row, first, factor, n);
}

void rs_row_rests(double *rest, double *absolute, double *spread, double *left, const double *row,
                  const rs_row_centres *centres, int64_t n)
{
    chosen()->row_rests(rest, absolute, spread, left, row, centres, n);
}
