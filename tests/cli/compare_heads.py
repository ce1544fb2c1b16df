#!/usr/bin/env python3
"""compare_heads.py RESULT.json GOLDEN.json: table heads against an oracle's rows. Standard library only.

Floats agree to 1e-9 relative (gap and its relatives: relative to half_norm, since they cancel); `condition` and other values that hang
on the smallest singular value to 1e-6; integers and nulls exactly.
"""
import json
import sys

LOOSE = {"condition": 1e-6}
OF_HALF_NORM = {"gap", "gap_low", "gap_high"}
ABSOLUTE = {"nuclear_excess": 1e-10, "balance_score": 1e-10}


def close(key, got, want, row):
    if want is None or got is None or isinstance(want, (str, int)):
        return got == want
    if key in ABSOLUTE:
        return abs(got - want) <= ABSOLUTE[key]
    scale = row["half_norm"] if key in OF_HALF_NORM else abs(want)
    return abs(got - want) <= LOOSE.get(key, 1e-9) * scale


def aggregates(tables):
    """Tables layers and summary, worked out again from table heads: the number of cells that disagree."""
    bad = 0
    cells, kinds = {}, {}
    for head in tables["heads"]:
        kind = (head["stack"], head["attention"], head["product"])
        kinds.setdefault(kind, []).append(head)
        cells.setdefault((*kind, head["layer"]), []).append(head)

    def check(what, got, want):
        nonlocal bad
        if not abs(got - want) <= 1e-12 * abs(want) + 1e-15:
            print(f"{what}: {got!r}, expected {want!r}")
            bad += 1

    for row in tables["layers"]:
        heads = cells.pop((row["stack"], row["attention"], row["product"], row["layer"]))
        check("heads of a layer", row["heads"], len(heads))
        for key, got in row.items():
            measure, _, kind = key.rpartition("_")
            values = [head[measure] for head in heads if head.get(measure) is not None] if kind in ("mean", "min", "max") else []
            if values:
                check(f"layers {row['layer']} {key}", got, {"mean": sum(values) / len(values), "min": min(values), "max": max(values)}[kind])
    for row in tables["summary"]:
        heads = kinds.pop((row["stack"], row["attention"], row["product"]))
        ratios = [head["effective_rank"] / head["effective_rank_null"] for head in heads]
        worst = heads[ratios.index(min(ratios))]
        check("summary ratio", row["ratio"], sum(ratios) / len(ratios))
        check("summary lowest", row["lowest"], min(ratios))
        for key, measure in (("effective_rank", "effective_rank"), ("by_chance", "effective_rank_null"), ("stable_rank", "stable_rank"),
                             ("balance_score", "balance_score")):
            check(f"summary {key}", row[key], sum(head[measure] for head in heads) / len(heads))
        if (row["lowest_layer"], row["lowest_head"]) != (worst["layer"], worst["head"]):
            print(f"summary lowest: {row['lowest_layer']}, {row['lowest_head']}")
            bad += 1
    return bad + len(cells) + len(kinds)


def main():
    result, golden = (json.load(open(path)) for path in sys.argv[1:3])
    rows = {(r["layer"], r["head"], r["product"]): r for r in result["tables"]["heads"]}
    bad = 0
    for want in golden["heads"]:
        place = (want["layer"], want["head"], want["product"])
        got = rows.pop(place, None)
        if got is None:
            print(f"no row for {place}")
            bad += 1
            continue
        for key, value in want.items():
            if not close(key, got[key], value, want):
                print(f"{place} {key}: {got[key]!r}, expected {value!r}")
                bad += 1
    if rows:
        print(f"{len(rows)} rows that the oracle does not have")
        bad += 1
    bad += aggregates(result["tables"])
    check = result["self_check"]["largest_relative_error"]
    if not check < 1e-12:
        print(f"self-check tr(XY) = sum of squares misses by {check}")
        bad += 1
    print(f"{len(golden['heads'])} heads compared, {bad} differences; self-check {check:.1e}")
    return 1 if bad else 0


sys.exit(main())
