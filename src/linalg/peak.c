/*
 * peak.c: measured peak of fused multiply-add, and of GEMM beside it.
 *
 * The peak loop keeps twelve independent accumulators in registers (two units times a latency of
 * four to five cycles need ten) and touches no memory, so it is what the vector units can do at the
 * clock they hold under this load.
 */
#include "linalg/peak.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { ROUNDS = 2000000, ACCUMULATORS = 12, REPEATS = 3 };

/* Each kernel does ROUNDS rounds of ACCUMULATORS fused multiply-adds and returns the lanes of a
 * vector (so that the caller can count) through *lanes, and a value that depends on all of them. */
typedef double kernel(int *lanes);

#define PEAK_KERNEL(name, attribute, vector, zero, set, fma, width, extract)                       \
    attribute static double name(int *lanes)                                                       \
    {                                                                                              \
        vector a[ACCUMULATORS], x = set(0.5), y = set(1.0);                                        \
        for (int i = 0; i < ACCUMULATORS; i++)                                                     \
            a[i] = zero;                                                                           \
        for (long round = 0; round < ROUNDS; round++)                                              \
            for (int i = 0; i < ACCUMULATORS; i++)                                                 \
                a[i] = fma;                                                                        \
        for (int i = 1; i < ACCUMULATORS; i++)                                                     \
            a[0] = a[0] + a[i];                                                                    \
        *lanes = width;                                                                            \
        return (double)extract;                                                                    \
    }

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma"), optimize("unroll-loops")))
#define AVX512 __attribute__((target("avx512f"), optimize("unroll-loops")))
#if defined(__clang__)
#undef AVX2
#undef AVX512
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
#endif
PEAK_KERNEL(avx2_f32, AVX2, __m256, _mm256_setzero_ps(), _mm256_set1_ps,
            _mm256_fmadd_ps(a[i], x, y), 8, a[0][0])
PEAK_KERNEL(avx2_f64, AVX2, __m256d, _mm256_setzero_pd(), _mm256_set1_pd,
            _mm256_fmadd_pd(a[i], x, y), 4, a[0][0])
PEAK_KERNEL(avx512_f32, AVX512, __m512, _mm512_setzero_ps(), _mm512_set1_ps,
            _mm512_fmadd_ps(a[i], x, y), 16, a[0][0])
PEAK_KERNEL(avx512_f64, AVX512, __m512d, _mm512_setzero_pd(), _mm512_set1_pd,
            _mm512_fmadd_pd(a[i], x, y), 8, a[0][0])
#elif defined(__aarch64__)
#define NEON
PEAK_KERNEL(neon_f32, NEON, float32x4_t, vdupq_n_f32(0), vdupq_n_f32, vfmaq_f32(y, a[i], x), 4,
            a[0][0])
PEAK_KERNEL(neon_f64, NEON, float64x2_t, vdupq_n_f64(0), vdupq_n_f64, vfmaq_f64(y, a[i], x), 2,
            a[0][0])
#endif
#define PLAIN
#define SAME(v) (v)
PEAK_KERNEL(plain_f32, PLAIN, float, 0, (float)SAME, a[i] * x + y, 1, a[0])
PEAK_KERNEL(plain_f64, PLAIN, double, 0, SAME, a[i] * x + y, 1, a[0])

static double peak(kernel *run, int threads)
{
    double best = 0;
    volatile double sink = 0;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        int lanes = 1;
        double begin = rs_seconds();
#pragma omp parallel num_threads(threads)
        {
            int mine;
            double value = run(&mine);
#pragma omp critical(rs_peak)
            {
                lanes = mine;
                sink = sink + value;
            }
        }
        double rate = 2e-9 * ROUNDS * ACCUMULATORS * lanes * threads / (rs_seconds() - begin);
        if (rate > best) best = rate;
    }
    return best;
}

static kernel *kernel_for(bool f64)
{
    rs_cpu_level level = rs_cpu_vector_level();
#if defined(__x86_64__)
    if (level == RS_CPU_AVX512) return f64 ? avx512_f64 : avx512_f32;
    if (level == RS_CPU_AVX2) return f64 ? avx2_f64 : avx2_f32;
#elif defined(__aarch64__)
    if (level == RS_CPU_NEON) return f64 ? neon_f64 : neon_f32;
#endif
    (void)level;
    return f64 ? plain_f64 : plain_f32;
}

double rs_peak_fma_f32(int threads)
{
    return peak(kernel_for(false), threads);
}

double rs_peak_fma_f64(int threads)
{
    return peak(kernel_for(true), threads);
}

/* The rate of one more run joins those before; the first run of all warms up and is not told. */
static void take_run(rs_gemm_rate *rate, double gflops)
{
    double worst = rate->gflops > 0 ? rate->gflops * (1 - rate->spread) : gflops;
    if (gflops > rate->gflops) rate->gflops = gflops;
    if (gflops < worst) worst = gflops;
    rate->spread = 1 - worst / rate->gflops;
}

/* One template for both precisions. */
#define RATE(name, type, gemm)                                                                     \
    rs_status name(rs_gemm_rate *rate, int n, int threads, rs_error *err)                          \
    {                                                                                              \
        size_t count = (size_t)n * (size_t)n;                                                      \
        type *a = rs_malloc(3 * count, sizeof *a), *b, *c;                                         \
        if (!a) return rs_fail_memory(err, "matrix multiplication", 3 * count * sizeof *a);        \
        b = a + count, c = b + count;                                                              \
        for (size_t i = 0; i < 3 * count; i++)                                                     \
            a[i] = (type)((double)((i * 2654435761u) % 1000) * 1e-3 - 0.5);                        \
        rs_thread_counts before = rs_threads_lend(threads);                                        \
        *rate = (rs_gemm_rate){0, 0};                                                              \
        for (int repeat = 0; repeat <= REPEATS; repeat++) {                                        \
            double begin = rs_seconds();                                                           \
            gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);      \
            double gflops = 2e-9 * n * n * n / (rs_seconds() - begin);                             \
            if (repeat > 0) take_run(rate, gflops);                                                \
        }                                                                                          \
        rs_threads_restore(before);                                                                \
        rs_free(a);                                                                                \
        return RS_OK;                                                                              \
    }

RATE(rs_rate_sgemm, float, cblas_sgemm)
RATE(rs_rate_dgemm, double, cblas_dgemm)

rs_status rs_rate_gemm_shape(rs_gemm_rate *rate, int64_t m, int64_t n, int64_t k, int threads,
                             rs_error *err)
{
    size_t count = (size_t)(m * k + n * k + m * n);
    float *a = rs_malloc(count, sizeof *a);
    if (!a) return rs_fail_memory(err, "matrix multiplication", count * sizeof *a);
    float *b = a + m * k, *c = b + n * k;
    for (size_t i = 0; i < count; i++)
        a[i] = (float)((double)((i * 2654435761u) % 1000) * 1e-3 - 0.5);
    rs_thread_counts before = rs_threads_lend(threads);
    *rate = (rs_gemm_rate){0, 0};
    for (int repeat = 0; repeat <= REPEATS; repeat++) {
        double begin = rs_seconds();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)m, (blasint)n, (blasint)k, 1,
                    a, (blasint)k, b, (blasint)k, 0, c, (blasint)n);
        double gflops = 2e-9 * (double)m * (double)n * (double)k / (rs_seconds() - begin);
        if (repeat > 0) take_run(rate, gflops);
    }
    rs_threads_restore(before);
    rs_free(a);
    return RS_OK;
}
