#!/usr/bin/env python3
"""depth_golden.py TABLES GOLDEN NETWORKS: ALBERT and XLNet at initialisation, tables of dong-depth-init, beside transformers' own classes.

Every state of every variant lies within four standard deviations of a mean over NETWORKS networks and the golden's, of one network as the
golden has it; what float64 rounds away is left out."""
import csv
import json
import math
import sys

golden, networks, wrong = json.load(open(sys.argv[2], encoding="utf-8")), int(sys.argv[3]), []
wide = 4 * math.sqrt(1 / networks + 1 / golden["draws"])
for name in ("albert", "xlnet"):
    rows = list(csv.DictReader(open(f"{sys.argv[1]}/dong_depth_{name}.csv", encoding="utf-8")))
    for variant, known in golden[name].items():
        series = f"{name}, {variant}".replace(", code", ", their code")
        states = {int(r["layer"]): float(r["relative_residual_1inf"]) for r in rows if r["series"] == series}
        if sorted(states) != list(range(13)):
            wrong.append(f"{series}: states {sorted(states)}")
        for state, measured in states.items():
            mean, deviation = known["mean"][state], known["std"][state]
            if mean > 1e-13 and abs(measured - mean) > wide * deviation + 1e-3 * mean:
                wrong.append(f"{series}, state {state}: {measured}, of transformers {mean} with {deviation}")
for state in (1, 2, 3):
    rows = csv.DictReader(open(f"{sys.argv[1]}/dong_depth_ids.csv", encoding="utf-8"))
    for row in rows:
        known = golden["xlnet_ids"][row["ids"]]
        mean, deviation = known["mean"][state], known["std"][state]
        if row["series"] == f"state {state}" and abs(float(row["relative_residual_1inf"]) - mean) > wide * deviation:
            wrong.append(f"{row['ids']} ids, state {state}: {row['relative_residual_1inf']}, of transformers {mean} with {deviation}")
print("\n".join(wrong))
sys.exit(bool(wrong))
