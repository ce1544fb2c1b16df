#!/bin/sh
# lab_dong_trained.sh: the experiments of Dong et al. that train, with --quick: their verdicts, and floors, ceilings and tables against an
# independent program (tests/cli/dong_floors.py).
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
for id in dong-sorting dong-convex-hull dong-memorization dong-circle; do
    expect 0 "$RANKSCOPE" lab run "$id" --quick --fail-on critical --threads 1 --json "$id.json" --csv one --html "$id.html"
    [ -s "$id.html" ] || note_failure "$id has no page"
    says "$id.html" '"lead":true'
    says one/claims.csv "rankscope lab run $id --quick"
    says "$id.json" '"code":"quick"'
done
python3 "$RS_SOURCE_DIR/tests/cli/dong_floors.py" . >wrong.txt || note_failure "floors and tables: $(cat wrong.txt)"
# What the paper takes for floors is none.
says dong-sorting.json '"verdict":"differs_from_paper"'
says dong-convex-hull.json '"verdict":"differs_from_paper"'
# Runs side by side are those of one thread.
expect 0 "$RANKSCOPE" lab run dong-circle --quick --threads 1 --csv one
expect 0 "$RANKSCOPE" lab run dong-circle --quick --threads 2 --csv two
for table in claims dong_circle dong_circle_runs; do
    cmp -s "one/$table.csv" "two/$table.csv" || note_failure "$table depends on --threads"
done
finish
