#!/bin/bash
# signals.sh: interruption, a terminal that goes away, and files that change while they are read: the right exit code, and all outputs or
# none. gate.py holds the program in its work, pipes that nobody reads hold it in its writing: no clock decides.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
if [ "$(uname)" != Linux ] || ! command -v python3 >/dev/null 2>&1; then
    echo "needs Linux and python3"
    exit 77
fi
rm -rf big model link ./*.json ./*.html ./*.safetensors tables pipe .*.tmp
big_model big 2 && tiny_model model
gate="python3 $RS_SOURCE_DIR/tests/cli/gate.py"
echo '{"depth": 8, "d_model": 64, "heads": 4, "seq_len": 64, "mlp_width": 128}' >deep.json

# gated CODE ACTION... -- COMMAND...
gated() {
    wanted=$1
    shift
    $gate "$@"
    [ "$(cat code)" = "$wanted" ] || note_failure "'$*' gave exit $(cat code), expected $wanted: $(cat err)"
}
nothing_left() {
    for output in "$@" .*.tmp; do
        [ ! -e "$output" ] || note_failure "$output was left behind"
    done
}
scan_all() { gated "$@" -- "$RANKSCOPE" scan big --json a.json --html a.html --csv tables --progress always; }
probe_all() {
    gated "$@" -- "$RANKSCOPE" probe deep.json --random 60 --batch 1 --variants full,san --output o.safetensors --taps t.safetensors \
        --json a.json --html a.html --progress always
}

# ---- at work ----
for signal in INT TERM; do
    scan_all 130 $signal
    silent out
    says err "interrupted; nothing was written"
    nothing_left a.json a.html tables
    probe_all 130 $signal
    silent out
    says err "interrupted; nothing was written"
    nothing_left a.json a.html o.safetensors t.safetensors
done
for signal in HUP QUIT; do
    number=$(kill -l $signal)
    (ulimit -c 0; probe_all $((128 + number)) $signal; exit $failures) || failures=$((failures + 1))
    silent out
    nothing_left a.json a.html o.safetensors t.safetensors
done
# Whoever started it under nohup keeps it running.
(trap '' HUP; probe_all 0 HUP; exit $failures) || failures=$((failures + 1))
for output in a.json a.html o.safetensors t.safetensors; do
    [ -s $output ] || note_failure "a hangup that is ignored cost $output"
done
rm -f a.json a.html ./*.safetensors

# ---- while writing: the reader of one output never reads; another has got its name already ----
# blocked CODE SIGNAL...: a.json is there as long as the program waits for its reader, then it must be as before.
blocked() {
    wanted=$1
    shift
    rm -f pipe && mkfifo pipe
    exec 9<>pipe
    (ulimit -c 0; exec "$RANKSCOPE" scan model --json a.json --html pipe --quiet) >out 2>err 9<&- &
    pid=$!
    while kill -0 $pid 2>/dev/null && ! grep -q rankscope a.json 2>/dev/null; do sleep 0.01; done
    # Once it waits for the pipe, a signal interrupts that; one that comes before is seen when it does.
    for signal in "$@"; do kill -"$signal" $pid; done
    wait $pid
    got=$?
    [ $got = "$wanted" ] || note_failure "signals $* to a blocked write gave exit $got, expected $wanted: $(cat err)"
    exec 9<&-
    nothing_left
}
for code_signal in "130 TERM" "130 INT" "129 HUP" "131 QUIT"; do
    # shellcheck disable=SC2086  # two words
    set -- $code_signal
    rm -f a.json
    blocked "$@"
    [ ! -e a.json ] || note_failure "SIG$2 left a.json of two outputs"
    echo mine >a.json
    blocked "$@"
    [ "$(cat a.json)" = mine ] || note_failure "SIG$2 did not bring the old a.json back"
done
rm -f a.json

# A reader that goes away: of an output, then there is none; of the text for people, then the files stay.
"$RANKSCOPE" scan model --json a.json --html - 2>err | true
[ "${PIPESTATUS[0]}" = 141 ] || note_failure "a closed pipe under --html - gave exit ${PIPESTATUS[0]}"
silent err
nothing_left a.json
"$RANKSCOPE" scan model --json a.json --table all 2>err | true
[ -s a.json ] || note_failure "a reader of the summary that left took a.json away: $(cat err)"
silent err
rm -f a.json

# Two outputs of which one cannot be written: neither.
if [ -c /dev/full ]; then
    for way in "--json a.json --html /dev/full" "--json /dev/full --html a.json" "--csv tables --json /dev/full"; do
        # shellcheck disable=SC2086  # words
        expect 1 "$RANKSCOPE" scan model $way
        silent out
        says err "nothing was written"
        nothing_left a.json tables
    done
    "$RANKSCOPE" scan model --html a.html --json - >/dev/full 2>err && note_failure "a full standard output gave exit 0"
    says err "nothing was written"
    nothing_left a.html
fi

# ---- files that change while they are read ----
# The time of a file moves in steps: what is written now must be later than the model.
settle() {
    while touch tick && [ "$(stat -c %z tick)" = "$(stat -c %z big/model.safetensors)" ]; do :; done
    rm tick
}
settle
changed() { # STATUS COMMAND-THAT-CHANGES-IT
    gated 1 "$2" -- "$RANKSCOPE" scan big --json a.json --progress always
    grep -qE "\[($1)\]" err || note_failure "after '$2': $(cat err)"
    silent out
    nothing_left a.json
    rm -rf big && big_model big 2
    settle
}
changed "truncated-while-mapped|changed-while-read" "truncate -s 1048576 big/model.safetensors"
changed changed-while-read "truncate -s -10 big/model.safetensors"
changed changed-while-read "printf x | dd of=big/model.safetensors bs=1 seek=100000 conv=notrunc status=none"
changed changed-while-read "cp big/config.json big/new && mv big/new big/model.safetensors"
changed changed-while-read "rm big/model.safetensors"
gated 0 "ln big/model.safetensors link" -- "$RANKSCOPE" scan big --json a.json --progress always
says a.json '"code":"file_touched"'
rm -rf big link
finish
