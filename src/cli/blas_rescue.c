/*
 * blas_rescue.c: OpenBLAS picks its kernel by CPU model number and falls back to a much slower one
 * on processors newer than it (docs/design.md, 6: 5 times slower with Prescott). The kernel cannot
 * be changed once the library is loaded, so the program sets OPENBLAS_CORETYPE and starts itself
 * once more.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

static const char MARK[] = "RANKSCOPE_BLAS_RESCUED";

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
    const char *core = rs_better_blas_core();
    char path[4096];
    if (!core || getenv(MARK) || !own_path(path, sizeof path)) return;
    if (setenv("OPENBLAS_CORETYPE", core, 1) != 0 || setenv(MARK, core, 1) != 0) return;
    execv(path, argv);
    /* Still here: go on with the slow kernel, which doctor will point out. */
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv(MARK);
}
