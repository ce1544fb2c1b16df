/* kernels.c: which table of kernels runs here: the widest that the processor has, or what
 * RS_KERNELS asks for (plain, vector). */
#include "engine/kernels.h"

#include "base/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const rs_kernels_f32 *const *rs_kernels_f32_tables(size_t *n)
{
    static const rs_kernels_f32 *const all[] = {
        &rs_kernels_f32_plain,
        &rs_kernels_f32_vector,
#if defined(__x86_64__)
        &rs_kernels_f32_avx2,
        &rs_kernels_f32_avx512,
#endif
    };
    *n = 2;
#if defined(__x86_64__)
    rs_cpu_level level = rs_cpu_vector_level();
    *n += level == RS_CPU_AVX512 ? 2 : level == RS_CPU_AVX2;
#endif
    return all;
}

static const rs_kernels_f32 *choose_kernels(void)
{
    size_t n;
    const char *asked = getenv("RS_KERNELS");
    if (asked && strcmp(asked, "plain") == 0) return &rs_kernels_f32_plain;
    if (asked && strcmp(asked, "vector") == 0) return &rs_kernels_f32_vector;
    const rs_kernels_f32 *const *all = rs_kernels_f32_tables(&n);
    return all[n - 1];
}

const rs_kernels_f32 *rs_kernels_f32_here(void)
{
    static _Atomic(const rs_kernels_f32 *) chosen;
    const rs_kernels_f32 *table = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!table) {
        table = choose_kernels();
        atomic_store_explicit(&chosen, table, memory_order_release);
    }
    return table;
}

const rs_kernels_f64 *rs_kernels_f64_here(void)
{
    return &rs_kernels_f64_plain;
}
