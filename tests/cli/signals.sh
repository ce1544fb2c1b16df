#!/bin/sh
# signals.sh: Ctrl-C, termination, and a file that is cut short while it is read: the right exit code and nothing half-written.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not installed"; exit 77; }
rm -rf big && big_model big 24

for signal in INT TERM; do
    rm -f a.json a.html
    "$RANKSCOPE" scan big --json a.json --html a.html >out 2>err &
    pid=$!
    sleep 0.7
    # A background job of a shell without job control ignores SIGINT from the terminal, but not a handler's own.
    kill -$signal $pid
    wait $pid
    code=$?
    [ $code = 130 ] || note_failure "SIG$signal gave exit $code: $(cat err)"
    silent out
    says err "interrupted"
    for output in a.json a.html .*.tmp; do
        [ ! -e "$output" ] || note_failure "SIG$signal left $output behind"
    done
done

"$RANKSCOPE" scan big --json a.json >out 2>err &
pid=$!
sleep 0.5
python3 -c 'import os; os.truncate("big/model.safetensors", 1 << 20)'
wait $pid
code=$?
[ $code = 1 ] || note_failure "a file cut while mapped gave exit $code: $(cat err)"
says err "[truncated-while-mapped]"
silent out
[ ! -e a.json ] || note_failure "a file cut while mapped left an output behind"
rm -rf big
finish
