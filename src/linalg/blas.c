/* blas.c: facts about the BLAS we run on. */
#include "linalg/blas.h"

#include <strings.h>

const char *rs_blas_core(void)
{
    return openblas_get_corename();
}

const char *rs_blas_config(void)
{
    return openblas_get_config();
}

/* The vector level a kernel name stands for; names not listed are older x86 kernels (SSE). */
static rs_cpu_level level_of(const char *core)
{
    static const struct {
        const char *core;
        rs_cpu_level level;
    } kernels[] = {
        {"SkylakeX", RS_CPU_AVX512},
        {"Cooperlake", RS_CPU_AVX512},
        {"SapphireRapids", RS_CPU_AVX512},
        {"Haswell", RS_CPU_AVX2},
        {"Zen", RS_CPU_AVX2},
        {"Excavator", RS_CPU_AVX2},
        {"Sandybridge", RS_CPU_AVX},
        {"Bulldozer", RS_CPU_AVX},
        {"Piledriver", RS_CPU_AVX},
        {"Steamroller", RS_CPU_AVX},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcasecmp(kernels[i].core, core) == 0) return kernels[i].level;
    return RS_CPU_SSE;
}

const char *rs_blas_better_core(const char *chosen, rs_cpu_level level, bool amd)
{
    /* AMD's AVX-512 does as well with the AVX2 kernel of OpenBLAS 0.3.21. */
    if (level == RS_CPU_AVX512 && amd) level = RS_CPU_AVX2;
    if (level == RS_CPU_NEON || level_of(chosen) >= level) return NULL;
    if (level == RS_CPU_AVX512) return "SkylakeX";
    if (level == RS_CPU_AVX2) return amd ? "Zen" : "Haswell";
    return level == RS_CPU_AVX ? "Sandybridge" : NULL;
}
