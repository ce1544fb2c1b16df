#!/bin/sh
# blas_rescue.sh: an OpenBLAS that chose a slow kernel is told a better one, once; a choice of the user's is left alone.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || { echo "the kernels have other names here"; exit 77; }
grep -q avx2 /proc/cpuinfo || { echo "this processor has no better kernel"; exit 77; }
[ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || { echo "a sanitizer's runtime must be loaded first"; exit 77; }

# An OpenBLAS that thinks the processor is old, until it is told; or that chooses SHIM_CORE.
cat >shim.c <<'END'
#include <stdlib.h>
char *openblas_get_corename(void);
char *openblas_get_corename(void)
{
    const char *told = getenv("OPENBLAS_CORETYPE");
    const char *chosen = getenv("SHIM_CORE");
    return (char *)(told ? told : chosen ? chosen : "Prescott");
}
END
cc -shared -fPIC -o shim.so shim.c || { echo "no C compiler"; exit 77; }
unset OPENBLAS_CORETYPE
expect 0 env LD_PRELOAD="$PWD/shim.so" "$RANKSCOPE" doctor --json -
says out "set by rankscope"
core=$(sed -n 's/.*"core":"\([A-Za-z]*\)".*/\1/p' out | head -1)
grep -q '"core":"\(Zen\|Haswell\|SkylakeX\)"' out || note_failure "the kernel is still the slow one"
expect 0 env LD_PRELOAD="$PWD/shim.so" OPENBLAS_CORETYPE=Nehalem "$RANKSCOPE" doctor --json -
says out "set by OPENBLAS_CORETYPE"
says out '"core":"Nehalem"'
expect 0 env LD_PRELOAD="$PWD/shim.so" SHIM_CORE="$core" "$RANKSCOPE" doctor --table machine
says out "chosen by OpenBLAS"
says out "vector instructions"
finish
