/* gram_kernels.c: which loops over pairs of tokens run here. */
#include "predict/gram_kernels.h"

#include "base/cpu.h"

#include <stddef.h>

const rs_gram_kernels *const *rs_gram_kernel_tables(void)
{
#if defined(__x86_64__)
    static const rs_gram_kernels *const three[] = {&rs_gram_kernels_plain, &rs_gram_kernels_avx2,
                                                   &rs_gram_kernels_avx512, NULL};
    static const rs_gram_kernels *const two[] = {&rs_gram_kernels_plain, &rs_gram_kernels_avx2,
                                                 NULL};
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX512) return three;
    if (level == RS_CPU_AVX2) return two;
#endif
    static const rs_gram_kernels *const one[] = {&rs_gram_kernels_plain, NULL};
    return one;
}

static const rs_gram_kernels *chosen;

void rs_gram_kernels_use(const rs_gram_kernels *table)
{
    chosen = table;
}

const rs_gram_kernels *rs_gram_kernels_here(void)
{
    const rs_gram_kernels *const *table = rs_gram_kernel_tables();
    if (chosen) return chosen;
    while (table[1])
        table++;
    return *table;
}

void rs_gram_mirror(double *a, int64_t n, int64_t ld)
{
    enum { TILE = 8 };
    for (int64_t i = 0; i < n; i += TILE) {
        for (int64_t j = 0; j <= i; j += TILE) {
            for (int64_t r = i; r < i + TILE && r < n; r++) {
                for (int64_t c = j; c < j + TILE && c < r; c++)
                    a[c * ld + r] = a[r * ld + c];
            }
        }
    }
}
