#!/bin/sh
# outputs.sh: results appear whole or not at all, inputs are never overwritten, standard output is what was asked for.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf model out_dir twice ./*.json ./*.html .*.tmp && tiny_model model
before=$(cksum model/*)

expect 0 "$RANKSCOPE" scan model --json - --table heads
python3 -c 'import json,sys; json.load(open("out"))' || note_failure "--json - is no JSON"
expect 0 "$RANKSCOPE" scan model --json a.json --csv out_dir --html a.html --quiet
silent out
silent err
for table in summary heads layers tensors spectra balance; do
    [ -s "out_dir/$table.csv" ] || note_failure "no out_dir/$table.csv"
done
python3 - <<'END' || failures=$((failures + 1))
import csv, json
result = json.load(open("a.json"), parse_constant=lambda c: (_ for _ in ()).throw(ValueError(c)))
for key in ("rankscope", "command", "args", "started", "seconds", "machine", "model", "tables", "figures", "findings"):
    assert key in result, key
for key in ("family", "layers", "d_model", "heads", "kv_heads", "d_head", "parameters", "dtype", "files"):
    assert key in result["model"], key
assert result["machine"]["blas"]["gflops"] is None
for name, rows in result["tables"].items():
    lines = list(csv.DictReader(open(f"out_dir/{name}.csv", newline="")))
    assert len(lines) == len(rows), name
    for line, row in zip(lines, rows):
        assert list(line) == list(row), name
        for key, value in row.items():
            if isinstance(value, float):
                assert float(line[key]) == value, (name, key)
wanted = """stack attention layer head product rows cols inner spectral_norm frobenius_norm nuclear_norm stable_rank effective_rank
participation_ratio energy_rank pseudo_rank numerical_rank condition nuclear_excess balance half_norm gap gap_low gap_high
balance_score null_nuclear_ratio effective_rank_null pseudo_rank_null stable_rank_null corrections""".split()
missing = set(wanted) - set(result["tables"]["heads"][0])
assert not missing, missing
page = open("a.html", encoding="utf-8").read()
assert page.lstrip().lower().startswith("<!doctype html"), page[:40]
END

# A full disk: exit 1, no file left behind, nothing printed.
if [ -c /dev/full ]; then
    expect 1 "$RANKSCOPE" scan model --json /dev/full
    silent out
    says err "[write-failed]"
fi
(
    ulimit -f 1
    "$RANKSCOPE" scan model --html big.html >out 2>err
    echo $? >code
)
[ "$(cat code)" = 1 ] || note_failure "a file over the size limit gave exit $(cat code)"
[ ! -e big.html ] || note_failure "a partial big.html was left"
for left in .*.tmp ./*~; do
    [ ! -e "$left" ] || note_failure "a temporary file was left: $left"
done
expect 1 "$RANKSCOPE" scan model --json no/such/folder/a.json
says err "[write-failed]"

# Inputs are refused as outputs, under any name.
for target in model/model.safetensors model/config.json; do
    expect 2 "$RANKSCOPE" scan model --json "$target"
    says err "[would-overwrite-input]"
done
ln -sf model/model.safetensors link.json
expect 2 "$RANKSCOPE" scan model --json link.json
rm link.json
[ "$before" = "$(cksum model/*)" ] || note_failure "an input was changed"

# Two outputs that are one file are refused before anything is read, however the file is spelled.
mkdir -p twice/inner
ln -sf inner twice/linked
ln -sf target.json twice/dangling.json
ln -sf nowhere/else.json twice/lost.json
one_file() { # FIRST SECOND: as --json and --html
    expect 2 "$RANKSCOPE" scan model --json "$1" --html "$2"
    silent out
    says err "is to be written by --json already"
}
one_file a.txt ./a.txt
one_file twice/inner/a.txt "$PWD/twice/linked/../inner//a.txt"
one_file twice/inner/a.txt twice/linked/a.txt
one_file twice/dangling.json twice/target.json
echo old >twice/first && ln -f twice/first twice/second
one_file twice/first twice/second
[ "$(cat twice/first)" = old ] || note_failure "a refused request changed a file"
expect 2 "$RANKSCOPE" scan model --csv twice --json ./twice/heads.csv
says err "is to be written by --csv already"
expect 2 "$RANKSCOPE" scan model --csv twice/ --json twice
says err "is to be written by --csv already"
expect 0 "$RANKSCOPE" scan model --csv twice --json twice/hats.csv --html twice/inner/hats.csv --quiet
expect 0 "$RANKSCOPE" scan model --json /dev/null --html /dev/null --quiet
rm -rf twice

# The terminal table: 80 columns, no colour codes in a pipe, plain ASCII in the C locale.
expect 0 env LC_ALL=C "$RANKSCOPE" scan model --table all
LC_ALL=C grep -q "$(printf '[\200-\377]')" out && note_failure "bytes above 127 in the C locale"
grep -q "$(printf '\033')" out && note_failure "colour codes in a pipe"
awk 'length($0) > 80 { exit 1 }' out || note_failure "lines over 80 columns"
expect 0 "$RANKSCOPE" scan model --color always
grep -q "$(printf '\033')" out || note_failure "no colour codes with --color always"

# --fail-on
expect 0 "$RANKSCOPE" scan model --quiet --fail-on critical
expect 3 "$RANKSCOPE" scan model --quiet --fail-on warn --threshold qk_low_rank=1.5
expect 0 "$RANKSCOPE" scan model --quiet --fail-on warn --threshold qk_low_rank=0,ov_low_rank=0,dead_head=0
finish
