#!/bin/sh
# terminal.sh: what a terminal shows of the tables: rows and columns that were asked for, lines that nobody has to put together.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
unset COLUMNS
rm -rf model && tiny_model model

# Everything that shapes the text leaves the files whole.
expect 0 "$RANKSCOPE" scan model --csv whole --json whole.json
expect 0 "$RANKSCOPE" scan model --table heads --where product=qk --sort effective_rank --top 3 --columns layer,head,effective_rank \
    --csv shaped --json shaped.json
diff -r whole shaped >differs.txt || note_failure "--where changes the CSV: $(head -3 differs.txt)"
says out "(heads, 3 of 16 rows)"
says out "layer  head  effective_rank"
# The three largest of the CSV, in order.
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["product"] == "qk" { print $at["effective_rank"], $at["layer"], $at["head"] }' \
    whole/heads.csv | sort -rg | head -3 | awk '{ printf "%s %s %.4g\n", $2, $3, $1 }' >wanted.txt
awk '/^layer  head  effective_rank/ { n = 3; next } n-- > 0 { print $1, $2, $3 }' out >got.txt
cmp -s wanted.txt got.txt || note_failure "not the three largest: $(cat got.txt), not $(cat wanted.txt)"

# A mistyped name is answered with its neighbour, before anything goes to standard output or into a file.
answered() { # TEXT OPTION VALUE
    expect 2 "$RANKSCOPE" scan model --table heads --csv none "$2" "$3"
    silent out
    says err "error: $2: "
    says err "$1"
    [ ! -e none ] || [ -z "$(ls none)" ] || note_failure "files were left after $2 $3"
}
answered "'effective_rank'" --columns efective_rank
answered "'head'" --sort heat
answered "'product'" --where prodct=qk
answered "'qk'" --where product=kq
answered "holds numbers" --where layer=first
answered "holds texts" --where 'product<qk'
answered "is no condition" --where layer~1
answered "'down' is no order" --sort layer:down
answered "did you mean 'heads'?" --table haeds
answered "at least 1" --top 0
answered "'-1' is not allowed" --top -1
answered "at least 1" --top -1
answered "at least 1" --top 1.5
answered "is too large" --top 99999999999999999999
answered "several columns" --sort layer,head
answered "an empty name" --columns layer,,head
answered "an empty condition" --where layer=1,
answered "one '='" --where layer==1
expect 2 "$RANKSCOPE" scan model --columns pseudo_rank
says err "--table heads has it"

# No table is torn into blocks: the names of its columns stand once, and rows are whole in a pipe and on narrow terminals.
for width in 40 80 120 300; do
    for table in heads layers tensors planes groups balance; do
        expect 0 env LC_ALL=C "COLUMNS=$width" "$RANKSCOPE" scan model --table $table
        [ "$(grep -c '^layer ' out)" -le 1 ] || [ "$width" = 40 ] || note_failure "$table at $width columns has several headers"
        if grep -q '\.\.[a-z]' out; then note_failure "$table at $width: a name is cut"; fi
        awk -v w="$width" 'length($0) > w && NF > 2 { exit 1 }' out || note_failure "$table is wider than $width columns"
    done
done
expect 0 env LC_ALL=C "$RANKSCOPE" scan model --table tensors
cut -d, -f1 whole/tensors.csv | tail -n +2 >names.txt
while read -r name; do says out "$name"; done <names.txt
expect 0 "$RANKSCOPE" scan model --table heads --wide
[ "$(awk '/^stack.*spectral_norm/ { print NF; exit }' out)" -ge 30 ] || note_failure "--wide leaves columns out"

# Few rows of many columns: a line a value.
expect 0 env LC_ALL=C COLUMNS=60 "$RANKSCOPE" scan model --table layers --top 1
grep -q '^effective_rank_mean  ' out || note_failure "no line a value"

# Pictures: a curve each, in braille or ASCII, no line wider than the terminal; none beside tables that were asked for.
for command in probe certify paths; do
    for width in 60 80 120; do
        expect 0 env LC_ALL=C TERM=dumb NO_COLOR=1 "COLUMNS=$width" "$RANKSCOPE" $command model --random 2 --seq-len 16
        grep -Eq '^ *[0-9.e+-]+ \|' out || note_failure "$command draws no curve at $width columns"
        awk -v w="$width" 'length($0) > w { exit 1 }' out || note_failure "$command is wider than $width columns"
        LC_ALL=C grep -q '[^ -~]' out && note_failure "$command writes more than ASCII"
    done
    expect 0 env LC_ALL=C.UTF-8 "$RANKSCOPE" $command model --random 2 --seq-len 16
    grep -Eq '^ *[0-9.e+-]+ │' out || note_failure "$command draws no curve with Unicode"
    if grep -q "$(printf '\033')" out; then note_failure "$command colours a pipe"; fi
    expect 0 env LC_ALL=C "$RANKSCOPE" $command model --random 2 --seq-len 16 --table summary
    if grep -Eq '^ *[0-9.e+-]+ \|' out; then note_failure "$command draws beside --table"; fi
done
expect 0 env LC_ALL=C "$RANKSCOPE" scan model
says out "Effective rank against chance"

# Claims: the verdict before its claim, the numbers beside it, and how many hold.
expect 0 env LC_ALL=C "$RANKSCOPE" lab run causal-half-law
grep -Eq '^pass causal, W_V orthogonal: the same ratio \(law: 1/2\) +0\.5  0\.5 \+- 0\.0001$' out || note_failure "no claim on a line: $(cat out)"
says out "pass 4 of 4 claims hold"
expect 0 env LC_ALL=C.UTF-8 "$RANKSCOPE" lab run causal-half-law
says out "✓ 4 of 4 claims hold"

# Every table that a result has can be asked for by name.
named() {
    expect 0 "$RANKSCOPE" "$@" --quiet --json named.json
    python3 -c "import json; print(','.join(json.load(open('named.json'))['tables']))" >names
    expect 0 "$RANKSCOPE" "$@" --table "$(cat names)"
}
named scan model --energy 0.9 --matrices all --spectra
named probe model --random 2 --seq-len 9 --variants dong --scan --certify --attention-maps 0:0
named certify model --random 2 --seq-len 9
named paths model --random 2 --seq-len 9 --paths 5
named lab list
named lab run all --quick
named doctor
named explain layer
named explain
finish
