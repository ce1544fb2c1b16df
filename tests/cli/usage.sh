#!/bin/sh
# usage.sh: requests that are wrong: exit 2, a reason on standard error, nothing on standard output.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf model && tiny_model model

refused() { # TEXT ARGUMENTS...
    text=$1
    shift
    expect 2 "$RANKSCOPE" "$@"
    silent out
    says err "rankscope: error: "
    says err "$text"
}
refused "needs a command"
refused "did you mean 'scan'?" scna
refused "no such command" frobnicate
refused "needs an input" scan
refused "other: is a second PATH behind 'model': one checkpoint is taken at a time" paths model other
says err "for path in A B; do rankscope paths \"\$path\"; done"
says err "quote a name that has blanks"
refused "b.txt: is a second PATH behind 'model', and no model" probe model --text a.txt b.txt
says err "each text needs a --text of its own"
refused "--tokens: is given twice, 'a.json' before" probe model --tokens a.json --tokens b.json
says err "put all rows into one file"
refused "takes no input" doctor model
refused "did you mean --spectra?" scan model --spectr
refused "it is one of 'rankscope probe'" scan model --tokens ids.json
refused "weighs the ranks of --energy, which is not given" scan model --text page.txt
refused "'rankscope scan --help' lists the options" scan model --xyzzy
refused "needs an input" scan --
refused "no such option" scan model -x
refused "short ones are -j" scan model -qx
refused "needs a value" scan model -j
refused "did you mean 'always'?" scan model --color alway
refused "did you mean 'heads'?" scan model --table haeds
refused "needs a value" scan model --json
refused "takes no value" scan model --quiet=yes
refused "is not one of none|warn|critical" scan model --fail-on maybe
refused "whole number of at least 1" scan model --threads two
refused "from 1 to 4096" scan model --threads 0
refused "no range of layers" scan model --layers 3-1
refused "no layer in the chosen range" scan model --layers 7
refused "no list of fractions" scan model --energy 0.9,1.5
refused "there is no --csv" scan model --csv-safe
refused "no tolerance" scan model --tol much
refused "cannot read" scan model --threshold low=3
refused "works in float64" scan model --precision residual
refused "no regular expression" scan model --matrices '('
refused "no 2-D weight matches" scan model --matrices nothing_like_it
refused "no table 'hats'" scan model --table hats
refused "no table ''" scan model --table ''
refused "no table ''" scan model --table heads,
refused "cannot read" scan model --threshold ''
refused "cannot read" scan model --threshold dead_head=1,
refused "carries one result" scan model --json - --html -
refused "is too large" scan model --seed 18446744073709551615
refused "[not-found]" scan nowhere
refused "[not-found]" scan model --map nowhere.json
for command in probe certify paths; do # before anything is opened: model has no tokenizer
    refused "one kind of input is enough" $command model --random 1 --text page.txt
    refused "there is nothing to feed the model" $command nowhere
done
expect 0 "$RANKSCOPE" scan model --json - --precision f32
expect 0 "$RANKSCOPE" scan -- model
# Short options, alone and together.
expect 0 "$RANKSCOPE" scan model -q -j short.json -o short.html
silent out
says short.json '"command":"scan"'
says short.html '<html'
expect 0 "$RANKSCOPE" scan model -qjtogether.json
silent out
says together.json '"command":"scan"'
expect 0 "$RANKSCOPE" scan -V
says out "rankscope 0."
expect 0 "$RANKSCOPE" -V
says out "rankscope 0."

# A name that is hostile to terminals: CSI of the second range, a right-to-left override, a tag, a lone byte.
expect 2 env LC_ALL=C.UTF-8 "$RANKSCOPE" scan "$(printf 'no\302\233\342\200\256\363\240\201\201\233\303\251')"
says err "rankscope: error: no????$(printf '\303\251'): "
expect 2 env LC_ALL=C "$RANKSCOPE" scan "$(printf 'no\302\233\303\251')"
says err "rankscope: error: no??: "

# Help fits a terminal of 80 columns, and that of the program one of 24 lines.
expect 0 "$RANKSCOPE" --help
[ "$(wc -l <out)" -le 23 ] || note_failure "--help is $(wc -l <out) lines"
for help in --help 'scan --help' 'probe --help' 'certify --help' 'paths --help' 'compare --help' 'tokenize --help' 'lab --help' 'doctor --help' 'explain --help'; do
    # shellcheck disable=SC2086 # words on purpose
    expect 0 "$RANKSCOPE" $help
    awk 'length($0) > 80 { exit 1 }' out || note_failure "$help is wider than 80 columns: $(awk 'length($0) > 80' out)"
done

# A table that this model cannot have is said, and is no failure.
expect 0 "$RANKSCOPE" scan model --table energy,layers
says err "this model has no table energy"
says out "Layers"
expect 0 "$RANKSCOPE" scan model --quiet --json a.json --threads 2 --seed 9223372036854775807
says a.json '"threads":2'
says a.json '"seed":9223372036854775807'
if [ -c /dev/full ]; then
    for request in "--help" "scan --help" "scan --version"; do
        # shellcheck disable=SC2086  # two words
        "$RANKSCOPE" $request >/dev/full 2>/dev/null && note_failure "'$request' to a full disk exits 0"
    done
fi

# Help and version go to standard output and name every option.
expect 0 "$RANKSCOPE" --version
says out "rankscope 0."
expect 0 "$RANKSCOPE" --help
says out "scan"
expect 0 "$RANKSCOPE" scan --help
for option in json csv csv-safe html table columns sort top where wide verbose threads seed precision progress color quiet fail-on spectra matrices layers tol energy \
    fold-norms with-bias map lenient threshold help version; do
    says out "--$option"
done
for command in scan probe certify paths compare tokenize lab doctor explain; do
    expect 0 "$RANKSCOPE" $command --help
    awk 'length($0) > 80 { exit 1 }' out || note_failure "$command --help has lines over 80 columns"
done
expect 0 "$RANKSCOPE" --completion bash
bash -n out || note_failure "the bash completion is no bash"
expect 0 "$RANKSCOPE" --completion zsh
says out "#compdef rankscope"
expect 0 "$RANKSCOPE" --completion fish
says out "complete -c rankscope"
expect 2 "$RANKSCOPE" --completion powershell
expect 0 "$RANKSCOPE" --man
says out ".TH RANKSCOPE 1"
if command -v man >/dev/null 2>&1; then
    warnings=$(man --warnings -l out 2>&1 >/dev/null)
    [ -z "$warnings" ] || note_failure "the man page: $warnings"
fi
finish
