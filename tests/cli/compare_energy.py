#!/usr/bin/env python3
"""compare_energy.py RESULT.json GOLDEN.json: tables energy and energy_totals against an oracle's rows. Standard library only."""
import json
import sys


def key(row):
    return (row["layer"], row["matrix"], row["product"], row["head"], row["energy"])


PAIRS = {"W_Q": "qk", "W_K": "qk", "W_V": "ov", "W_O": "ov"}


def saved_by(rows, way):
    """What the rows of one energy save: matrix by matrix, product by product, or by what is better for each pair of factors."""
    pairs = {}
    for row in rows:
        of = pairs.setdefault((row["layer"], row["product"] or PAIRS[row["matrix"]]), {"matrices": 0, "products": 0})
        of["matrices" if row["matrix"] else "products"] += row["parameters_saved"]
    return sum(max(of.values()) if way == "best" else of[way] for of in pairs.values())


def costs(tables, check):
    """Table costs: a row for each product, in the order of its share, k·(rows + cols) where that is less and can be done."""
    rows = {key(row): row for row in tables["energy"] if row["product"]}
    check("rows of costs", len(tables["costs"]), len(rows))
    last = None
    for row in tables["costs"]:
        of = rows[key({**row, "matrix": None})]
        cost = of["parameters"] - (of["parameters_saved"] or 0)
        check("cost", row["cost"], cost)
        check("share", row["share"], cost / of["parameters"])
        check("rank", row["rank"], of["rank"])
        if last and (last["energy"], last["product"]) == (row["energy"], row["product"]):
            check("place", row["place"], last["place"] + 1)
            check("dearest first", float(row["share"] <= last["share"]), 1)
        else:
            check("first place", row["place"], 1)
        last = row


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
        saved = saved_by(mine, total["way"])
        check("stored", total["parameters"], stored)
        check("saved", total["parameters_saved"], saved)
        check("share", total["share"], saved / stored)
        if not 0 <= total["parameters_saved"] <= total["parameters"]:
            print(f"saves {total['parameters_saved']} of {total['parameters']}")
            bad += 1
        print(f"energy {total['energy']}: {total['way']} save {total['parameters_saved']} of {total['parameters']}")
    costs(tables, check)
    print(f"{len(golden)} rows compared, {bad} differences")
    return 1 if bad else 0


sys.exit(main())
