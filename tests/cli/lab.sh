#!/bin/sh
# lab.sh: what the laboratory lists, refuses and finds. The experiment runs with random weights: it needs no download.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"

expect 0 "$RANKSCOPE" lab list
says out "dong-depth-init"
# A line for each of name, times and title, none wider than 80 columns; the source on demand.
[ "$(grep -c '^[a-z][a-z0-9.-]*  .* [0-9]* s  *[0-9<][ 0-9]* s  *[A-Z]' out)" = 70 ] || note_failure "lab list has no line an experiment"
says out "Causal attention: 1/2 a layer"
says out "Skip strengths 1, trained and 0"
awk 'length($0) > 80 { exit 1 }' out || note_failure "lab list is wider than 80 columns"
for words in "" "show" "run" "list all" "run dong-depth-init twice"; do
    # shellcheck disable=SC2086  # several words
    expect 2 "$RANKSCOPE" lab $words
    silent out
done
expect 2 "$RANKSCOPE" lab run dong-depth-int
says err "did you mean"
says err "[not-found]"
expect 2 "$RANKSCOPE" lab run kobayashi-fig2 --seeds 0
says err "--seeds: 0 leaves nothing to do"
expect 2 "$RANKSCOPE" lab list --db runs.db
says err "a list trains nothing"
expect 2 "$RANKSCOPE" lab list --data text.txt
says err "a list trains nothing"
expect 2 "$RANKSCOPE" lab run dong-paths --data text.txt
says err "has data of its own"
expect 2 "$RANKSCOPE" lab run kobayashi-fig3 --quick --data digits.npy
says err "does not end in x.npy"
expect 2 "$RANKSCOPE" lab run kobayashi-fig3 --quick --data absent.txt
says err "absent.txt"
echo "a text of a few words" >text.txt
expect 2 "$RANKSCOPE" lab run lambda-table1-small --quick --data text.txt
says err "trains on images, and \"text.txt\" would be a text"
: >digits_x.npy
: >digits_y.npy
expect 2 "$RANKSCOPE" lab run skipless-train --quick --data digits_x.npy
says err "trains on a text, and \"digits_x.npy\" are images"
expect 1 "$RANKSCOPE" lab run noci-fig5-adam --quick --db absent/runs.db
says err "absent/runs.db"
expect 0 "$RANKSCOPE" lab run noci-fig5-adam --quick --db runs.db --csv first
expect 0 "$RANKSCOPE" lab run noci-fig5-adam --quick --db runs.db --csv again
cmp first/claims.csv again/claims.csv || note_failure "runs that were kept give other claims"
expect 2 "$RANKSCOPE" scan --quick
says err "no such option"

# Of all experiments every claim holds or is known to differ from the paper; none fails.
expect 0 "$RANKSCOPE" lab run all --quick --fail-on critical --json result.json --html page.html --csv tables --svg pictures
says out "differs_from_paper"
says out "SAN: relative residual of state 2"
says result.json "share of layers where an entry fails"
says result.json '"command":"lab"'
says result.json '"code":"quick"'
"$RANKSCOPE" lab list --csv list >list.txt || note_failure "the list could not be written"
for id in dong-depth-init dong-depth-pretrained dong-perturbation-lemma causal-half-law relative-position-linear-rate equiangular-ode dobrushin-mask \
    lambda-attention dong-skip-lower-bound dong-layernorm dong-mlp dong-lipschitz dong-heads dong-bounds dong-doubly-exponential dong-paths dong-ensemble dong-ensembles \
    dong-sorting dong-convex-hull dong-memorization dong-circle \
    graph-oversmoothing ssm-homogeneity ssm-rank-one-without-mu one-layer-collapse \
    lambda-minus-three-halves consensus-threshold gate-reinjects lti-with-and-without-norm lrp-conservation \
    lambda-theorem-4.3 lambda-theorem-4.1 lambda-figure-1 lambda-figure-2 lambda-figure-3 lambda-table1-small \
    kobayashi-fig1 kobayashi-fig2 kobayashi-fig3 kobayashi-table1-small kobayashi-fig4 kobayashi-fig5 kobayashi-theorems certificate-global-minimum \
    gqa-balance rope-planes heavy-ball-root product-penalty alarms \
    gap-width-collapse gap-fixed-dk gap-bert-init centred-identities oversmoothing-bound shaped-sde espa sas-at-init \
    softmax-moment noci-fig1 noci-lemma-3.2 noci-theorem-3.3 noci-hyperparameters xiong-last-layer \
    noci-fig1-training noci-fig5-adam noci-table1-small gap-training skipless-train fusion-train; do
    says list.txt "$id"
    says result.json "\"experiment\":\"$id\""
    table=$(printf '%s' "$id" | tr .- __)
    [ -s "tables/$table.csv" ] || note_failure "$id left no table $table"
    says page.html "\"$table\""
    says tables/claims.csv "rankscope lab run $id --quick"
done
[ -s page.html ] || note_failure "no page was written"
# What is published is drawn beside ours, with the papers' numbers, and docs/lab.md says where there is none.
python3 "$RS_SOURCE_DIR/tests/cli/published_curves.py" result.json pictures "$RS_SOURCE_DIR/docs/lab.md" ||
    note_failure "the published curves"

expect 0 "$RANKSCOPE" lab run dong-paths --quick --fail-on warn --json paths.json
says out "toy model of path strength"
says paths.json '"verdict":"pass"'
says paths.json '"code":"not_measured"'
# One alone leaves the others' tables out; the same seed gives the same claims for any number of threads.
expect 0 "$RANKSCOPE" lab run dong-bounds --quick --seed 5 --threads 1 --csv one
expect 0 "$RANKSCOPE" lab run dong-bounds --quick --seed 5 --threads 2 --csv two
[ ! -e one/dong_mlp.csv ] || note_failure "dong-bounds left a table of dong-mlp"
# What stands of a statement is said by the experiment that shows it, and by all of them together.
says one/dong_verdicts.csv 'cubic bound with gamma",correct'
[ "$(grep -c dong-bounds one/dong_verdicts.csv)" = "$(($(wc -l <one/dong_verdicts.csv) - 1))" ] ||
    note_failure "dong-bounds speaks for other experiments"
[ "$(wc -l <tables/dong_verdicts.csv)" = 27 ] || note_failure "not all statements stand in run all"
if grep -q ",open," tables/dong_verdicts.csv; then note_failure "a statement is open"; fi
says tables/dong_verdicts.csv 'entry by entry",false'
cmp -s one/claims.csv two/claims.csv || note_failure "claims depend on --threads"
expect 0 "$RANKSCOPE" lab run causal-half-law --quiet --json -
says out '"verdict":"pass"'
# Tolerances of the published curve are those of the independent calculation, whatever this run's spread is.
expect 0 "$RANKSCOPE" lab run dong-depth-init --quick --fail-on critical --csv init
awk -F, '/state [012], float32/ { printf "%.2g ", $(NF - 3) }' init/claims.csv >tolerances.txt
says tolerances.txt "0.069 0.0045 5.1e-07"
# ALBERT and XLNet are those of an independent program.
python3 "$RS_SOURCE_DIR/tests/cli/depth_golden.py" init "$RS_SOURCE_DIR/tests/golden/lab/depth_init.json" 2 >wrong.txt ||
    note_failure "ALBERT or XLNet at initialisation: $(cat wrong.txt)"
finish
