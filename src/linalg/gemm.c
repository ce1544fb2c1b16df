/* gemm.c: which kernels multiply here, and products on the thread that calls. */
#include "linalg/gemm.h"

#include "base/cpu.h"
#include "linalg/gemm_kernels.h"
#include "linalg/gemm_rooms.h"

#include <stdatomic.h>

const rs_gemm_kernels *const *rs_gemm_tables(void)
{
    static const rs_gemm_kernels *const tables[] = {
        &rs_gemm_vector,
#if defined(__x86_64__)
        &rs_gemm_avx2,
        &rs_gemm_avx512,
#endif
        NULL,
    };
    static const rs_gemm_kernels *const first[] = {&rs_gemm_vector, NULL};
#if defined(__x86_64__)
    static const rs_gemm_kernels *const two[] = {&rs_gemm_vector, &rs_gemm_avx2, NULL};
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX512) return tables;
    if (level == RS_CPU_AVX2) return two;
#endif
    (void)tables;
    return first;
}

static _Atomic(const rs_gemm_kernels *) chosen;

void rs_gemm_use(const rs_gemm_kernels *table)
{
    atomic_store_explicit(&chosen, table, memory_order_release);
}

const rs_gemm_kernels *rs_gemm_kernels_here(void)
{
    const rs_gemm_kernels *table = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!table) {
        const rs_gemm_kernels *const *all = rs_gemm_tables();
        while (all[1])
            all++;
        table = *all;
        atomic_store_explicit(&chosen, table, memory_order_release);
    }
    return table;
}

#define DEFINE(suffix, real)                                                                       \
    /* where there is no room: a small one, which takes fewer columns at a time */                 \
    static __attribute__((noinline)) void in_stack_##suffix(const rs_product_of_##suffix *of)      \
    {                                                                                              \
        real small[GEMM_DEPTH * (GEMM_ROWS + 32)] __attribute__((aligned(64)));                    \
        rs_gemm_kernels_here()->suffix(of, small, sizeof small / sizeof *small);                   \
    }                                                                                              \
                                                                                                   \
    /* A product, in this thread's room or in a small one. */                                      \
    static void multiply_##suffix(const rs_product_of_##suffix *of)                                \
    {                                                                                              \
        void *room = rs_gemm_take_room(RS_GEMM_OWN);                                               \
        if (!room) {                                                                               \
            in_stack_##suffix(of);                                                                 \
            return;                                                                                \
        }                                                                                          \
        rs_gemm_kernels_here()->suffix(of, room, RS_GEMM_ROOM / sizeof(real));                     \
        rs_gemm_leave_room(RS_GEMM_OWN);                                                           \
    }                                                                                              \
                                                                                                   \
    void rs_gemm_##suffix(rs_gemm_side turn_a, rs_gemm_side turn_b, int64_t m, int64_t n,          \
                          int64_t k, real alpha, const real *a, int64_t lda, const real *b,        \
                          int64_t ldb, real beta, real *c, int64_t ldc)                            \
    {                                                                                              \
        rs_product_of_##suffix of = {.m = m,                                                       \
                                     .n = n,                                                       \
                                     .k = k,                                                       \
                                     .a = a,                                                       \
                                     .b = b,                                                       \
                                     .a_row = turn_a == RS_TURNED ? 1 : lda,                       \
                                     .a_col = turn_a == RS_TURNED ? lda : 1,                       \
                                     .b_row = turn_b == RS_TURNED ? 1 : ldb,                       \
                                     .b_col = turn_b == RS_TURNED ? ldb : 1,                       \
                                     .alpha = alpha,                                               \
                                     .beta = beta,                                                 \
                                     .c = c,                                                       \
                                     .ldc = ldc};                                                  \
        if (m <= 0 || n <= 0) return;                                                              \
        if (k <= 0) {                                                                              \
            for (int64_t i = 0; i < m; i++)                                                        \
                for (int64_t j = 0; j < n; j++)                                                    \
                    c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];                        \
            return;                                                                                \
        }                                                                                          \
        multiply_##suffix(&of);                                                                    \
    }

DEFINE(f32, float)
DEFINE(f64, double)

void rs_gemm_gram_f64(bool turned, int64_t r, int64_t k, const double *t, int64_t ld, double *x)
{
    int64_t row = turned ? 1 : ld, term = turned ? ld : 1;
    const rs_product_of_f64 of = {.m = r,
                                  .n = r,
                                  .k = k,
                                  .a = t,
                                  .b = t,
                                  .a_row = row,
                                  .a_col = term,
                                  .b_row = term,
                                  .b_col = row,
                                  .alpha = 1,
                                  .beta = 1,
                                  .c = x,
                                  .ldc = r,
                                  .upper = true};
    if (r > 0 && k > 0) multiply_f64(&of);
}
