/*
 * blas_rescue.c: OpenBLAS picks its kernel by CPU model number and falls back to a much slower one
 * on processors newer than it (DESIGN.md: 5 times slower with Prescott). The kernel cannot be
 * changed once the library is loaded, so the program sets OPENBLAS_CORETYPE and starts itself once
 * more.
 */
#include "cli/cli.h"

#include "base/cpu.h"
#include "linalg/blas.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

static const char MARK[] = "RANKSCOPE_BLAS_RESCUED";

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

const char *cli_better_blas_core(void)
{
#if defined(__x86_64__)
    if (getenv("OPENBLAS_CORETYPE")) return NULL;
    rs_cpu_level here = rs_cpu_vector_level(), chosen = level_of(rs_blas_core());
    /* A processor of AMD with AVX-512 does as well with the AVX2 kernel of 0.3.21. */
    if (here == RS_CPU_AVX512 && rs_cpu_is_amd()) here = RS_CPU_AVX2;
    if (chosen >= here) return NULL;
    if (here == RS_CPU_AVX512) return "SkylakeX";
    if (here == RS_CPU_AVX2) return rs_cpu_is_amd() ? "Zen" : "Haswell";
    return here == RS_CPU_AVX ? "Sandybridge" : NULL;
#else
    return NULL;
#endif
}

static bool own_path(char *path, size_t size)
{
#if defined(__APPLE__)
    uint32_t length = (uint32_t)size;
    return _NSGetExecutablePath(path, &length) == 0;
#else
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length <= 0 || (size_t)length >= size - 1) return false;
    path[length] = 0;
    return true;
#endif
}

void cli_rescue_blas(char **argv)
{
    const char *core = cli_better_blas_core();
    char path[4096];
    if (!core || getenv(MARK) || !own_path(path, sizeof path)) return;
    if (setenv("OPENBLAS_CORETYPE", core, 1) != 0 || setenv(MARK, core, 1) != 0) return;
    execv(path, argv);
    /* Still here: go on with the slow kernel, which doctor will point out. */
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv(MARK);
}

const char *cli_rescued_core(void)
{
    return getenv(MARK);
}
