#!/bin/sh
# fuzz.sh SECONDS [TARGET...]: runs each libFuzzer target for SECONDS, from its seeds (fuzz/corpus/TARGET.tar.gz) and past crashers.
#   New inputs that reach new code stay in build-fuzz/corpus/TARGET; a crasher goes to fuzz/regressions/TARGET, where
#   'make test' replays it from then on. Exit 1 when a target crashed, leaked, hung or ate its memory.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
if [ $# -eq 0 ]; then
    for source in fuzz/fuzz_*.c; do
        [ ! -f "$source" ] || set -- "$@" "$(basename "$source" .c | sed 's/^fuzz_//')"
    done
fi
[ $# -gt 0 ] || { echo "fuzz: there are no targets" >&2; exit 1; }
failed=
for target in "$@"; do
    found=build-fuzz/corpus/$target
    mkdir -p "$found" "fuzz/regressions/$target" "build-fuzz/seeds/$target"
    scripts/corpus.sh unpack build-fuzz/seeds "$target"
    dictionary=
    [ ! -f "fuzz/$target.dict" ] || dictionary=-dict=fuzz/$target.dict
    echo "fuzz $target: $seconds s"
    # shellcheck disable=SC2086 # no dictionary, no word
    OMP_NUM_THREADS=1 ASAN_OPTIONS=strict_string_checks=1:allocator_may_return_null=1 \
        "build-fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        $dictionary -artifact_prefix="fuzz/regressions/$target/" "$found" "build-fuzz/seeds/$target" \
        "fuzz/regressions/$target" >"build-fuzz/$target.log" 2>&1 || failed="$failed $target"
    grep -E '^(Done|stat::(number_of_executed_units|average_exec_per_sec|peak_rss_mb))|ERROR|SUMMARY|Test unit' \
        "build-fuzz/$target.log" || true
done
find fuzz/regressions -type d -empty -delete
[ -z "$failed" ] || { echo "fuzz: failed:$failed; the inputs are in fuzz/regressions, the logs in build-fuzz" >&2; exit 1; }
echo "fuzz: $# targets, $seconds s each: no crash, no leak, no hang"
