/* trials_kernels.c: which loops of batched trials run here. */
#include "predict/trials_kernels.h"

#include "base/cpu.h"

#include <stddef.h>

const rs_trials_kernels *const *rs_trials_kernel_tables(void)
{
#if defined(__x86_64__)
    static const rs_trials_kernels *const three[] = {
        &rs_trials_kernels_plain, &rs_trials_kernels_avx2, &rs_trials_kernels_avx512, NULL};
    static const rs_trials_kernels *const two[] = {&rs_trials_kernels_plain,
                                                   &rs_trials_kernels_avx2, NULL};
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX512) return three;
    if (level == RS_CPU_AVX2) return two;
#endif
    static const rs_trials_kernels *const one[] = {&rs_trials_kernels_plain, NULL};
    return one;
}

static const rs_trials_kernels *chosen;

void rs_trials_kernels_use(const rs_trials_kernels *table)
{
    chosen = table;
}

const rs_trials_kernels *rs_trials_kernels_here(void)
{
    const rs_trials_kernels *const *table = rs_trials_kernel_tables();
    if (chosen) return chosen;
    while (table[1])
        table++;
    return *table;
}
