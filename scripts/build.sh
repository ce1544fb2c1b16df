#!/bin/sh
# build.sh PRESET [--only TARGET] [--configure] [CMAKE-ARGUMENT...]: configures the preset's folder when that is needed or asked for, then
# builds it, or TARGET alone.
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
target=all
if [ "${1:-}" = --only ]; then
    target=$2
    shift 2
fi
case $preset in
release) dir=build ;;
*) dir=build-$preset ;;
esac
unset MAKEFLAGS MFLAGS MAKELEVEL # the generated build has its own idea of jobs

version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
if [ "${version% *}" -lt 3 ] || { [ "${version% *}" -eq 3 ] && [ "${version#* }" -lt 25 ]; }; then
    echo "rankscope: CMake 3.25 or newer is needed, this is $(cmake --version | sed -n 1p); 'pip install cmake' has a current one" >&2
    exit 1
fi

# A folder that was configured elsewhere (a copied tree) or not to the end is started afresh.
here=$(pwd -P)
if ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$here" "$dir/CMakeCache.txt" 2>/dev/null ||
    { [ ! -f "$dir/build.ninja" ] && [ ! -f "$dir/Makefile" ]; }; then
    fresh=yes
else
    fresh=no
    # Ninja watches CMakeLists.txt, but nobody watches the presets.
    [ -z "$(find CMakePresets.json -newer "$dir/CMakeCache.txt")" ] || set -- --configure "$@"
fi

if [ $fresh = yes ] || [ $# -gt 0 ]; then
    while [ "${1:-}" = --configure ]; do shift; done
    if [ $fresh = yes ]; then
        set -- --fresh "$@"
        ! command -v ninja >/dev/null 2>&1 || set -- -G Ninja "$@"
        if [ "$(uname -s)" = Darwin ]; then # Homebrew keeps these two out of the compiler's default path
            set -- "-DCMAKE_PREFIX_PATH=$(brew --prefix openblas);$(brew --prefix libomp)" \
                "-DOpenMP_ROOT=$(brew --prefix libomp)" "$@"
        fi
    fi
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
        cat "$log" >&2
        echo "rankscope: the build could not be configured; 'make deps' installs what it needs" >&2
        exit 1
    fi
fi
cmake --build "$dir" --target "$target" --parallel "$(getconf _NPROCESSORS_ONLN)"
