#!/bin/bash
# places.sh: outputs that are no plain files, and files that no output may replace.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf model out_dir ./*.json ./*.html log arch full .*.tmp && tiny_model model
is_json() { python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$1" || note_failure "$1 is no JSON"; }

# ---- descriptors are themselves: appended to when they were opened so ----
for name in /dev/stdout /dev/fd/1 /proc/self/fd/1 linked; do
    ln -sf /dev/stdout linked
    echo before >log
    "$RANKSCOPE" scan model --json "$name" >>log 2>err || note_failure "--json $name >>log exited $?: $(cat err)"
    [ "$(head -1 log)" = before ] || note_failure "--json $name >>log replaced the log"
    sed 1d log >a.json && is_json a.json
done
echo before >log
"$RANKSCOPE" scan model --json /dev/stderr 2>>log >out || note_failure "--json /dev/stderr: exit $?"
[ "$(head -1 log)" = before ] || note_failure "--json /dev/stderr 2>>log replaced the log"
"$RANKSCOPE" scan model --json /dev/fd/7 7>>log >out 2>err || note_failure "--json /dev/fd/7: exit $?"
[ "$(head -1 log)" = before ] || note_failure "--json /dev/fd/7 7>>log replaced the log"
"$RANKSCOPE" scan model --json /dev/stdout 2>err | cat >a.json
is_json a.json
"$RANKSCOPE" scan model --json >(cat >a.json) --quiet 2>err || note_failure "--json >(cat): $(cat err)"
wait $!
is_json a.json
expect 1 "$RANKSCOPE" scan model --json /dev/fd/9
says err "[write-failed]"
expect 2 "$RANKSCOPE" scan model --json - --html /dev/stdout
says err "carries one result"
silent out
# The descriptors of another process are no names to write to either: what they lead to is appended to.
if [ -e /proc/$$/fd/1 ]; then
    echo before >log
    exec 8>>log
    expect 0 "$RANKSCOPE" scan model --json "/proc/$$/fd/8" --quiet
    exec 8>&-
    [ "$(head -1 log)" = before ] || note_failure "a descriptor of another process was replaced"
    sed 1d log >a.json && is_json a.json
fi

# ---- no file gets the number of a standard descriptor that is closed ----
echo '{"depth": 2, "d_model": 16, "heads": 2, "seq_len": 8, "mlp_width": 32}' >arch
mv arch arch.json
"$RANKSCOPE" probe arch.json --random 2 --taps want.safetensors --quiet || note_failure "probe --taps: exit $?"
for closed in '0<&-' '2>&-' '0<&- 2>&-' '0<&- 1>&- 2>&-'; do
    eval "\"\$RANKSCOPE\" probe arch.json --random 2 --taps got.safetensors --progress always --quiet $closed"
    cmp -s want.safetensors got.safetensors || note_failure "--taps differs with $closed"
    rm -f got.safetensors
done
"$RANKSCOPE" scan model --json - >&- 2>err && note_failure "a result written to a closed standard output was lost, exit 0"
says err "[write-failed]"

# ---- what lies in the model's folder is an input, read or not ----
echo '[]' >model/tokenizer_config.json
echo 'a b' >model/merges.txt
echo notes >model/README.md
echo 'layer,note' >model/heads.csv
mkdir -p model/1_Pooling blobs && echo '{}' >model/1_Pooling/config.json
echo vocabulary >blobs/v && ln -sf ../blobs/v model/vocab.txt
echo other >unrelated.json && ln -f unrelated.json model/linked.txt
cp model/model.safetensors model/pytorch_model.bin
: >model/empty
before=$(find -L model blobs -type f -exec cksum {} + | sort)
for target in tokenizer_config.json merges.txt README.md vocab.txt 1_Pooling/config.json ../blobs/v ../unrelated.json pytorch_model.bin empty; do
    for option in json html; do
        expect 2 "$RANKSCOPE" scan model --$option model/$target
        says err "[would-overwrite-input]"
    done
    expect 2 "$RANKSCOPE" probe model --random 1 --seq-len 4 --output model/$target --quiet
    says err "[would-overwrite-input]"
    expect 2 "$RANKSCOPE" scan model/model.safetensors --json model/$target
    says err "[would-overwrite-input]"
done
expect 2 "$RANKSCOPE" scan model --csv model
says err "[would-overwrite-input]"
[ "$before" = "$(find -L model blobs -type f -exec cksum {} + | sort)" ] || note_failure "a file of the model's folder was changed"
rm -f model/heads.csv model/linked.txt unrelated.json

# What rankscope wrote there itself is replaced, by each of its writers: the same command runs twice.
for _ in 1 2; do
    expect 0 "$RANKSCOPE" scan model --json model/a.json --html model/a.html --csv model --quiet
    expect 0 "$RANKSCOPE" probe model --random 1 --seq-len 4 --output model/o.safetensors.out --taps model/t.safetensors.out --quiet
    expect 0 "$RANKSCOPE" probe model --random 1 --seq-len 4 --csv model/tables --quiet
    expect 0 "$RANKSCOPE" certify model --random 1 --seq-len 4 --csv model/certified --json model/a.json --quiet
done
# A table of another command is no such file, and the message does not say whose it is.
expect 2 "$RANKSCOPE" certify model --random 1 --seq-len 4 --csv model/tables --quiet
says err "[would-overwrite-input]"
says err "model/tables/summary.csv: this file is in the model's folder and is no earlier result of this kind"
# Elsewhere any file is.
echo mine >a.json
expect 0 "$RANKSCOPE" scan model --json a.json --quiet
is_json a.json
# An architecture file is no folder.
echo mine >a.json
expect 0 "$RANKSCOPE" probe arch.json --random 1 --json a.json --quiet

# ---- files whose size is 0 although they have bytes ----
if [ -r /proc/self/status ]; then
    expect 2 "$RANKSCOPE" probe model --tokens /proc/self/status
    says err "[unreadable]"
    says err "size is 0"
fi
finish
