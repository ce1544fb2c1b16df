#!/bin/sh
# lab.sh: what the laboratory lists, refuses and finds. The experiment runs with random weights: it needs no download.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"

expect 0 "$RANKSCOPE" lab list
says out "dong-depth-init"
for words in "" "show" "run" "list all" "run dong-depth-init twice"; do
    # shellcheck disable=SC2086  # several words
    expect 2 "$RANKSCOPE" lab $words
    silent out
done
expect 2 "$RANKSCOPE" lab run dong-depth-int
says err "did you mean"
says err "[not-found]"
expect 2 "$RANKSCOPE" scan --quick
says err "no such option"

# Every claim holds or is known to differ from the paper; none fails.
expect 0 "$RANKSCOPE" lab run dong-depth-init --quick --fail-on critical --json result.json --html page.html
says out "differs_from_paper"
says out "SAN: relative residual of state 2"
says result.json '"command":"lab"'
says result.json '"experiment":"dong-depth-init"'
says result.json '"code":"quick"'
[ -s page.html ] || note_failure "no page was written"

expect 0 "$RANKSCOPE" lab run dong-paths --quick --fail-on warn --json paths.json
says out "toy model of path strength"
says paths.json '"verdict":"pass"'
says paths.json '"code":"not_measured"'
finish
