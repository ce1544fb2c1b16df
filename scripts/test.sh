#!/bin/sh
# test.sh DIR [CTEST-ARGUMENT...]: runs the tests built in DIR, says why any was skipped, and closes with "N passed, N failed, N skipped".
set -eu
cd "$(dirname "$0")/.."
dir=$1
shift
junit=$(pwd -P)/$dir/junit.xml
rm -f "$junit"

# The real models are fetched once, here; a test that then finds one absent skips itself at once.
for model in minilm gemma3-270m; do
    scripts/fetch_model.sh "$model" >/dev/null || true
done
export RS_OFFLINE=1

# Two tests share a processor, each with threads of its own: one that waits by spinning takes the time that the other needs.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

code=0
ctest --test-dir "$dir" --output-on-failure --no-tests=error --parallel "$(getconf _NPROCESSORS_ONLN)" \
    --output-junit "$junit" "$@" || code=$?
[ -s "$junit" ] || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }

# A test that ctest could not start is "notrun" too: only what asked to be skipped (exit 77) counts as skipped.
awk -v code="$code" '
    function attribute(name) {
        if (!match($0, name "=\"[^\"]*\"")) return ""
        return substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 3)
    }
    /<testcase / { test = attribute(" name"); status = attribute("status"); asked = 0; reason = ""; output = 0 }
    /<skipped / { asked = index($0, "SKIP_RETURN_CODE") > 0 }
    /<system-out>/ { output = 1; sub(/.*<system-out>/, "") }
    output { text = $0; sub(/<\/system-out>.*/, "", text); if (text ~ /[^ \t]/) reason = text }
    /<\/system-out>/ { output = 0 }
    /<\/testcase>/ {
        if (status == "run") passed++
        else if (status == "notrun" && asked) {
            skipped++
            gsub(/&lt;/, "<", reason); gsub(/&gt;/, ">", reason); gsub(/&quot;/, "\"", reason); gsub(/&amp;/, "\\&", reason)
            print "skipped " test ": " reason
        }
        else failed++
    }
    END {
        if (code != 0 && !failed) failed = 1
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed ? 1 : 0
    }' "$junit"
