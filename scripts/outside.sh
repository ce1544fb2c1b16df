#!/bin/sh
# outside.sh: checks that the command line is a guest of the library: src/cli includes its own headers, the public one and the C library's.
set -eu
cd "$(dirname "$0")/.."

# Headers of C17 and POSIX, and the one by which macOS tells a program's own path.
libc='assert ctype errno fcntl float langinfo limits locale math poll signal stdarg stdbool stddef stdint stdio stdlib string strings
sys/ioctl sys/stat sys/types sys/wait time unistd mach-o/dyld'

grep -n '^ *# *include' src/cli/*.[ch] | awk -v libc="$libc" '
    BEGIN { n = split(libc, name, /[ \n]+/); for (i = 1; i <= n; i++) known["<" name[i] ".h>"] = 1 }
    {
        header = $0
        sub(/.*include */, "", header)
        if (header == "\"rankscope.h\"" || header ~ /^"cli\/[a-z_]*\.h"$/ || header in known) next
        print "outside: " $0
        wrong++
    }
    END { exit wrong ? 1 : 0 }' || {
    echo "outside: the command line may use rankscope.h, its own headers and the C library's alone" >&2
    exit 1
}
