#!/usr/bin/env python3
"""compare_change.py RESULT.json NAME ASKED: table heads of a comparison of tests/golden/compare/base with NAME, against NumPy's SVDs of the
whole products there (compare.json) to 1e-10. ASKED: the number given to --subspace, 0 for none. Standard library only."""
import json
import os
import sys

result, name, asked = json.load(open(sys.argv[1])), sys.argv[2], int(sys.argv[3])
golden = json.load(open(os.path.join(os.environ["RS_SOURCE_DIR"], "tests/golden/compare/compare.json")))[name]
rows = {(r["layer"], r["head"], r["product"]): r for r in result["tables"]["heads"]}
columns = {"norm": "change_norm", "relative": "change_relative", "effective_rank": "change_effective_rank",
           "stable_rank": "change_stable_rank", "left": "overlap_left", "right": "overlap_right", "k": "subspace"}
bad = seen = 0
for want in golden:
    if want["asked"] != asked:
        continue
    row = rows[want["layer"], want["head"], want["product"]]
    seen += 1
    for key, column in columns.items():
        got = row[column]
        # NumPy forms the products first, so a change of 1e-9 has seven digits there
        limit = 1e-10 if name != "tiny" else 1e-6
        if got is None or not abs(got - want[key]) <= limit * abs(want[key]):
            print(f"{name} {row['layer']} {row['head']} {row['product']} {column}: {got!r}, expected {want[key]!r}")
            bad += 1
    m = row["rows_a"]
    chance, spread = want["k"] / m, (1 - want["k"] / m) * (2 / ((m - 1) * (m + 2))) ** 0.5
    if abs(row["overlap_left_null"] - chance) > 1e-15 or abs(row["overlap_left_spread"] - spread) > 1e-15:
        print(f"chance of k = {want['k']}, m = {m}: {row['overlap_left_null']!r}, {row['overlap_left_spread']!r}")
        bad += 1
print(f"{name}: {seen} rows, {bad} differ")
sys.exit(1 if bad or not seen else 0)
