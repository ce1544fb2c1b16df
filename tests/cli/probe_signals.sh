#!/bin/sh
# probe_signals.sh: Ctrl-C and termination of a long probe: exit 130, nothing on standard output, no file half-written.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
echo '{"depth": 60, "d_model": 256, "heads": 4, "seq_len": 256, "mlp_width": 512}' >deep.json
for signal in INT TERM; do
    rm -f ./*.safetensors a.json a.html
    "$RANKSCOPE" probe deep.json --random 400 --variants all --output o.safetensors --taps t.safetensors --json a.json --html a.html \
        --progress always >out 2>err &
    pid=$!
    waited=0
    while [ "$waited" -lt 100 ] && ! grep -q tokens err 2>/dev/null; do
        sleep 0.1
        waited=$((waited + 1))
    done
    sleep 0.5
    kill -$signal $pid || note_failure "the run was over before the signal"
    wait $pid
    code=$?
    [ $code = 130 ] || note_failure "SIG$signal gave exit $code: $(cat err)"
    silent out
    says err "interrupted"
    for output in o.safetensors t.safetensors a.json a.html ./*.tmp .*.tmp; do
        [ ! -e "$output" ] || note_failure "SIG$signal left $output behind"
    done
done
rm -f ./*.safetensors
finish
