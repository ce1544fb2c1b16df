#!/bin/sh
# threads.sh: the same seed gives the same numbers for any number of threads: draws bit for bit, sums to 1e-6; another seed does not.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf model && tiny_model model
for threads in 1 2 3 7; do
    expect 0 "$RANKSCOPE" scan model --matrices all --spectra --energy 0.9,0.99 --threads $threads --json $threads.json --quiet
done
expect 0 "$RANKSCOPE" scan model --seed 5 --json seed.json --quiet
python3 - <<'END' || failures=$((failures + 1))
import json
def load(name):
    return json.load(open(f"{name}.json"))["tables"]
first = load(1)
for name in (2, 3, 7):
    for table, rows in load(name).items():
        assert len(rows) == len(first[table])
        for a, b in zip(rows, first[table]):
            for key, value in b.items():
                if isinstance(value, float) and "null" not in key:
                    assert abs(a[key] - value) <= 1e-6 * abs(value) + 1e-12, (table, key, a[key], value)
                elif not isinstance(value, list):
                    assert a[key] == value, (table, key, a[key], value)
other = load("seed")["heads"]
assert any(a["effective_rank_null"] != b["effective_rank_null"] for a, b in zip(other, first["heads"]))
assert all(a["effective_rank"] == b["effective_rank"] for a, b in zip(other, first["heads"]))
END
finish
