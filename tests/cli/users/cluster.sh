#!/bin/bash
# cluster.sh: no display, no colour, no Unicode, a pipe: what a batch job writes into its log, and its files.
# shellcheck source=tests/cli/lib_users.sh
. "$RS_SOURCE_DIR/tests/cli/lib_users.sh"
model=$RS_SOURCE_DIR/tests/golden/forward/bert
bare=(env -i "PATH=$PATH" LC_ALL=C "OMP_NUM_THREADS=2" "LSAN_OPTIONS=${LSAN_OPTIONS-}")
expect 0 "${bare[@]}" "$RANKSCOPE" probe "$model" --random 2 --seq-len 12 --variants dong --html report.html --csv tables
cp out log
LC_ALL=C grep -q '[^ -~]' log && note_failure "the log has more than plain ASCII: $(LC_ALL=C grep -m1 '[^ -~]' log)"
awk 'length($0) > 80 { exit 1 }' log || note_failure "the log is wider than 80 columns"
if ! { [ -s report.html ] && [ -s tables/tokens.csv ]; }; then note_failure "the files are not there"; fi
sed -n 1p log | grep -q '[a-z].*[.;0-9a-z]$' || note_failure "the first line is no sentence: $(sed -n 1p log)"
expect 0 env TERM=dumb NO_COLOR=1 "$RANKSCOPE" probe "$model" --random 2 --seq-len 12 --color auto
grep -q "$(printf '\033')" out && note_failure "colour where there is to be none"
"${bare[@]}" "$RANKSCOPE" probe "$model" --random 2 --seq-len 12 | head -1 >first # the reader goes away
[ -s first ] || note_failure "nothing comes through a pipe"
"$RANKSCOPE" probe --help >help
if grep -q -- '--png' help; then
    expect 0 "${bare[@]}" "$RANKSCOPE" probe "$model" --random 2 --seq-len 12 --quiet --png figures
    ls figures/*.png >/dev/null 2>&1 || note_failure "no figure without a display"
else
    echo "there is no --png in this build: its part is skipped"
fi
finish
