#!/bin/bash
# researcher.sh: one claim of the lab, varied, and its CSV read elsewhere (by pandas where it is there).
# shellcheck source=tests/cli/lib_users.sh
. "$RS_SOURCE_DIR/tests/cli/lib_users.sh"
expect 0 "$RANKSCOPE" lab list
says out "causal-half-law"
for seed in 0 7; do
    expect 0 "$RANKSCOPE" lab run causal-half-law --seed "$seed" --csv "seed-$seed" --json "$seed.json"
    says out "4 of 4 claims hold."
    verdict "$seed.json" claims_hold "4 of 4"
done
python3 - <<'END' || note_failure "the CSV files"
import csv
with open("seed-0/claims.csv", newline="") as a, open("seed-7/claims.csv", newline="") as b:
    first, second = list(csv.DictReader(a)), list(csv.DictReader(b))
assert [r["claim"] for r in first] == [r["claim"] for r in second] and {r["verdict"] for r in first + second} == {"pass"}
assert any(r["measured"] != s["measured"] for r, s in zip(first, second)), "another seed changes nothing"
try:
    import pandas
except ImportError:
    print("pandas is not here: its part is skipped")
else:
    table = pandas.read_csv("seed-0/claims.csv")
    assert list(table["verdict"]) == ["pass"] * 4 and table["measured"].dtype == "float64", table
END
finish
