/* optimiser_f32.c: steps of optimisers in float. */
#include "train/optimiser_parts.h"

#include "base/cpu.h"
#include "linalg/blas.h"

#include <math.h>

#define REAL float
#define ROOT sqrtf
#define GEMM cblas_sgemm
#define OPS rs_optimiser_f32
#include "train/optimiser_real.inc"

const rs_optimiser_ops *const *rs_optimiser_f32_tables(size_t *n)
{
    static const rs_optimiser_ops *const tables[] = {
        &rs_optimiser_f32,
#if defined(__x86_64__)
        &rs_optimiser_f32_avx2,
        &rs_optimiser_f32_avx512,
#endif
    };
    *n = 1;
#if defined(__x86_64__)
    rs_cpu_level level = rs_cpu_vector_level();
    *n = level == RS_CPU_AVX512 ? 3 : level == RS_CPU_AVX2 ? 2 : 1;
#endif
    return tables;
}
