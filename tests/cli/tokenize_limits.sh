#!/bin/sh
# tokenize_limits.sh: a tokenizer.json whose expression backtracks ends in an error that names it, and Ctrl-C ends it at once.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not installed"; exit 77; }
rm -rf ./*.json ./*.txt
cat >hostile.json <<'END'
{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2}, "merges": []},
 "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?:a|aa|aaa)+$|(?:a+)+b"}, "behavior": "Isolated", "invert": false}}
END
# Each piece of 22 letters stays far below a limit of one match; the text as a whole does not.
python3 -c 'print("aaaaaaaaaaaaaaaaaaaaaac" * 18000)' >text.txt
expect 2 timeout 300 "$RANKSCOPE" tokenize hostile.json --text text.txt --json out.json
says err '[tokenizer-limit]'
says err "'(?:a|aa|aaa)+\$|(?:a+)+b'"
says err 'hostile.json: pre_tokenizer.pattern'
silent out
[ ! -e out.json ] || note_failure "a refused tokenizer left an output behind"

# 30 MB may take 3e9 steps: far more than pass until the signal comes. It is sent when the text has been mapped.
python3 -c 'print("aaaaaaaaaaaaaaaaaaaaaac" * 1300000)' >long.txt
if [ -d /proc/self ]; then
    "$RANKSCOPE" tokenize hostile.json --text long.txt --json out.json >out 2>err &
    pid=$!
    tries=0
    until grep -q long.txt "/proc/$pid/maps" 2>/dev/null || [ $tries = 600 ]; do
        tries=$((tries + 1))
        sleep 0.05
    done
    kill -INT "$pid" || note_failure "tokenize ended before the signal: $(cat err)"
    wait "$pid"
    code=$?
    [ $code = 130 ] || note_failure "SIGINT gave exit $code: $(cat err)"
    says err "interrupted"
    silent out
    [ ! -e out.json ] || note_failure "SIGINT left an output behind"
fi
rm -f long.txt
finish
