#!/bin/sh
# threads.sh: numbers of threads are set in src/linalg/threads.c alone, and every parallel region of src/ says how many it takes.
set -eu
cd "$(dirname "$0")/.."
failed=0
if grep -rnE '(openblas|omp)_set_num_threads *\(' --include='*.[ch]' --include='*.inc' src bench | grep -v '^src/linalg/threads\.c:'; then
    echo "threads: only src/linalg/threads.c sets numbers of threads" >&2
    failed=1
fi
# A directive ends where no backslash continues it.
directives() {
    sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$1" | grep '#pragma omp parallel'
}
grep -rlE '#pragma omp parallel' src | {
    silent=0
    while read -r file; do
        directives "$file" | grep -v 'num_threads(' || continue
        echo "threads: a parallel region of $file does not say how many threads it takes" >&2
        silent=1
    done
    exit $silent
} || failed=1
exit $failed
