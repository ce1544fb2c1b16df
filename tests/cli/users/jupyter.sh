#!/bin/bash
# jupyter.sh: the JSON's tables and figures in a notebook: pandas and Altair where they are there, the standard library in any case.
# shellcheck source=tests/cli/lib_users.sh
. "$RS_SOURCE_DIR/tests/cli/lib_users.sh"
expect 0 "$RANKSCOPE" probe "$RS_SOURCE_DIR/tests/golden/forward/bert" --random 4 --seq-len 12 --variants all --quiet --json - --seed 3
cp out result.json
python3 - <<'END' || note_failure "the tables and figures"
import json
result = json.load(open("result.json"))
tables = {name: rows for name, rows in result["tables"].items() if rows}
assert {"summary", "tokens", "attention", "findings"} <= set(tables), sorted(tables)
for name, rows in tables.items():
    assert all(list(row) == list(rows[0]) for row in rows), name
assert result["figures"], "no figure"
for name, figure in result["figures"].items():
    assert figure["$schema"].startswith("https://vega.github.io/schema/vega-lite/"), name
try:
    import pandas
    frame = pandas.DataFrame(tables["tokens"])
    assert frame["relative_residual"].dtype == "float64" and set(frame["variant"]) >= {"full", "san"}
except ImportError:
    print("pandas is not here: its part is skipped")
try:
    import altair
    for figure in result["figures"].values():
        altair.Chart.from_dict(figure)
except ImportError:
    print("altair is not here: its part is skipped")
END
finish
