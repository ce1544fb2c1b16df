#!/bin/sh
# completion.sh: the shells' completions know what the program knows: commands, options, choices, tables, columns, variants,
# experiments.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v bash >/dev/null 2>&1 || { echo "no bash"; exit 77; }
rm -rf model && tiny_model model
expect 0 "$RANKSCOPE" --completion bash
cp out completion.bash
cat >complete.bash <<'END'
. ./completion.bash
COMP_WORDS=(rankscope "$@") COMP_CWORD=$# COMPREPLY=()
_rankscope
printf '%s\n' "${COMPREPLY[@]}"
END

# offers WANTED WORDS...: completing the last of the words offers WANTED (words separated by blanks, and nothing else).
offers() {
    wanted=$1
    shift
    got=$(bash complete.bash "$@" | tr '\n' ' ')
    [ "$got" = "$wanted " ] || note_failure "'$*' is completed by '$got', not '$wanted'"
}
offers "scan" sc
offers "--wide --with-bias" scan model --wi
offers "auto always" scan model --color a
offers "heads" scan model --table he
offers "layers,heads" scan model --table layers,he
offers "layer,corrections" scan model --columns layer,corr
offers "relative_residual_geomean" probe model --sort relative_residual_g
offers "first_token_weight first_token_weight_null first_sample" probe model --where first_
offers "full,san full,san+mlp full,san+skip" probe model --variants full,san
offers "list" lab l
offers "dong-perturbation-lemma dong-paths" lab run dong-p

# Each experiment, and each table and column of real results, is offered.
"$RANKSCOPE" lab list --csv list >/dev/null
bash complete.bash lab run '' | sort >offered.txt
{ cut -d, -f1 list/experiments.csv | tail -n +2; echo all; } | sort >wanted.txt
cmp -s offered.txt wanted.txt || note_failure "experiments: $(diff offered.txt wanted.txt)"
all_tables() { # COMMAND: those of folder tables
    bash complete.bash "$1" model --table '' | sort >offered.txt
    for table in tables/*.csv; do basename "$table" .csv; done | sort >held.txt
    comm -13 offered.txt held.txt >missing.txt
    [ ! -s missing.txt ] || note_failure "tables of $1 that are not offered: $(tr '\n' ' ' <missing.txt)"
    "$RANKSCOPE" explain --quiet --table "$(paste -s -d , held.txt)" >/dev/null 2>err && [ "$1" != explain ] &&
        note_failure "explain takes tables of $1"
}
all_columns() { # COMMAND ARGUMENTS...
    rm -rf tables
    expect 0 "$RANKSCOPE" "$@" --csv tables --quiet
    bash complete.bash "$1" model --columns '' | sort >offered.txt
    head -q -n 1 tables/*.csv | tr ',' '\n' | sort -u | grep . >wanted.txt
    comm -13 offered.txt wanted.txt >missing.txt
    [ ! -s missing.txt ] || note_failure "columns of $1 that are not offered: $(tr '\n' ' ' <missing.txt)"
    all_tables "$1"
    # None of them is refused before there is a result.
    "$RANKSCOPE" "$@" --quiet --columns "$(paste -s -d , wanted.txt)" 2>err || note_failure "$1 refuses a column that it has: $(cat err)"
}
all_columns scan model --spectra --matrices all --energy 0.9
all_columns probe model --random 1 --seq-len 8 --scan --certify
all_columns certify model --random 1 --seq-len 8
all_columns paths model --random 1 --seq-len 8 --sources
all_columns paths model --random 1 --seq-len 8 --semantics code
echo 'one text' >text.txt
all_columns tokenize "$RS_SOURCE_DIR/tests/golden/tokenizer/bert.json" --text text.txt
all_columns explain
# What each experiment adds beside the claims; those that take long are left to the tests of the lab.
for experiment in dong-perturbation-lemma causal-half-law relative-position-linear-rate equiangular-ode dobrushin-mask dong-skip-lower-bound \
    dong-layernorm; do
    rm -rf tables
    expect 0 "$RANKSCOPE" lab run "$experiment" --quick --csv tables --quiet
    [ "$(find tables -name '*.csv' | wc -l)" -gt 2 ] || note_failure "$experiment has no table of its own"
    all_tables lab
done

# The other shells complete the same lines, each by itself, where they are there.
expect 0 "$RANKSCOPE" --completion zsh
mv out _rankscope
says _rankscope "_values -s , name summary layers heads"
says _rankscope "3:experiment:(dong-depth-init"
says _rankscope "'*--text[Feed this text" # may be repeated
expect 0 "$RANKSCOPE" --completion fish
mv out rankscope.fish
says rankscope.fish "-l table -r -f -a '(__fish_append , summary layers heads"
says rankscope.fish "-a 'dong-depth-init"
cat >complete.fish <<'END'
function rankscope; end
source rankscope.fish
while read line
    string join -- ' ' (complete -C $line | string split -f 1 \t | LC_ALL=C sort -u)
end
END
# The lines, and what is offered for each. zsh gives the last word of a list alone, fish and bash the list.
cat >lines.txt <<'END'
rankscope sc|scan
rankscope scan model --wi|--wide --with-bias
rankscope scan model --color a|always auto
rankscope scan model --table he|heads
rankscope scan model --table layers,he|layers,heads
rankscope scan model --columns layer,corr|layer,corrections
rankscope probe model --sort relative_residual_g|relative_residual_geomean
rankscope probe model --table cert|certificate
rankscope probe model --variants full,san|full,san full,san+mlp full,san+skip
rankscope lab l|list
rankscope lab run dong-p|dong-paths dong-perturbation-lemma
rankscope lab run dong-paths --table dobr|dobrushin_mask
END
cut -d'|' -f2 lines.txt >lists.txt
sed -E 's/(^| )[a-z]+,/\1/g' lists.txt >words.txt
others() { # SHELL WANTED COMMAND...: completes the lines, where that shell is here
    shell=$1 wanted=$2
    shift 2
    command -v "$shell" >/dev/null 2>&1 || { echo "no $shell: its completion is not tried"; return; }
    cut -d'|' -f1 lines.txt | HOME=$PWD XDG_CONFIG_HOME=$PWD XDG_DATA_HOME=$PWD TERM=xterm "$@" 2>err | sed 's/ *$//' >got.txt
    cmp -s "$wanted" got.txt || note_failure "$shell completes: $(diff "$wanted" got.txt; cat err)"
}
others fish lists.txt fish --no-config complete.fish
others zsh words.txt zsh -f "$RS_SOURCE_DIR/tests/cli/complete.zsh"
finish
