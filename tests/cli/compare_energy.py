#!/usr/bin/env python3
"""compare_energy.py RESULT.json GOLDEN.json: tables energy and energy_totals against an oracle's rows. Standard library only."""
import json
import sys


def key(row):
    return (row["layer"], row["matrix"], row["product"], row["head"], row["energy"])


def main():
    tables, golden = json.load(open(sys.argv[1]))["tables"], json.load(open(sys.argv[2]))["energy"]
    rows = {key(row): row for row in tables["energy"]}
    bad = 0

    def check(what, got, want):
        nonlocal bad
        if got is None or abs(got - want) > 1e-9 * abs(want):
            print(f"{what}: {got!r}, expected {want!r}")
            bad += 1

    if len(rows) != len(tables["energy"]) or set(rows) != {key(row) for row in golden}:
        print(f"{len(tables['energy'])} rows, expected {len(golden)}: {sorted(set(rows) ^ {key(row) for row in golden}, key=str)[:5]}")
        return 1
    for want in golden:
        for column in ("rank", "relative_error", "parameters", "parameters_saved", "feasible"):
            check(f"{key(want)} {column}", rows[key(want)][column], want[column])
        if not rows[key(want)]["reason"]:
            print(f"{key(want)} has no reason")
            bad += 1
    for total in tables["energy_totals"]:
        mine = [row for row in golden if row["energy"] == total["energy"]]
        stored = sum(row["parameters"] for row in mine if row["matrix"])
        saved = sum(row["parameters_saved"] for row in mine if bool(row["matrix"]) == (total["way"] == "matrices"))
        check("stored", total["parameters"], stored)
        check("saved", total["parameters_saved"], saved)
        check("share", total["share"], saved / stored)
        if not 0 <= total["parameters_saved"] <= total["parameters"]:
            print(f"saves {total['parameters_saved']} of {total['parameters']}")
            bad += 1
        print(f"energy {total['energy']}: {total['way']} save {total['parameters_saved']} of {total['parameters']}")
    print(f"{len(golden)} rows compared, {bad} differences")
    return 1 if bad else 0


sys.exit(main())
