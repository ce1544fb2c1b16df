"""The verdict and the findings of scan, by docs/scan.md."""
import re

import numpy as np

from .case import NUMBER


def check_scan(case):
    result, verdict = case.result, case.result["verdict"]
    heads, rows = result["tables"]["heads"], result["tables"]["findings"]
    lost = []
    for product in "qk", "ov":
        limit = case.threshold(product + "_low_rank")
        mine = [r for r in heads if r["product"] == product and r["effective_rank"] is not None]
        low = [r for r in mine if r["effective_rank"] < limit * r["effective_rank_null"]]
        seen = [r for r in rows if r["code"] == product + "_low_rank"]
        case.check(len(low) == len(seen), f"{product}_low_rank: {len(seen)} rows, by the rule {len(low)}")
        lost += [(r, limit) for r in low]
    dead = [r for r in rows if r["code"] == "dead_head"]
    codes = {r["code"] for r in rows}
    if "nonfinite_weights" in codes or "self_check_failed" in codes:
        return
    want = "lost_rank" if lost else "dead_heads" if dead else "full_rank"
    case.check(verdict["code"] == want, f"code {verdict['code']}, by the rule {want}")
    if want == "lost_rank":
        case.check(verdict["value"] < verdict["threshold"], f"lost_rank: value {verdict['value']}, threshold {verdict['threshold']}")
        case.check(any(abs(r["effective_rank_ratio"] - verdict["value"]) < 1e-12 and limit == verdict["threshold"]
                       for r, limit in lost), "lost_rank: value and threshold are of no product that has lost rank")
        check_lost_sentence(case, lost)
    if want == "dead_heads":
        case.check(verdict["value"] == dead[0]["value"], f"dead_heads: names {verdict['value']}, the weakest is {dead[0]['value']}")
        for r in dead:
            mine = [h for h in heads if all(h[key] == r[key] for key in ("layer", "product", "stack"))
                    and (h["attention"] or "self") == (r["attention"] or "self")]
            if not mine:
                continue
            median = np.median([h["frobenius_norm"] for h in mine])
            case.check(r["value"] < case.threshold("dead_head") * median * (1 + 1e-12) or r["value"] == 0,
                       f"dead_head: {r['value']}, median {median}")
    if want == "full_rank":
        match = re.search(rf"the (\d+) have ({NUMBER}) % .* the lowest ({NUMBER}) %", verdict["answer"])
        ratios = [r["effective_rank_ratio"] for r in heads if r["effective_rank_ratio"] is not None]
        if match:
            case.check(int(match[1]) == len(ratios), f"full_rank: {match[1]} products, counted {len(ratios)}")
            case.check(abs(float(match[2]) - 100 * np.mean(ratios)) <= 1.01, f"full_rank: {match[2]} %, mean {np.mean(ratios)}")


def check_lost_sentence(case, lost):
    answer, heads = case.result["verdict"]["answer"], case.result["tables"]["heads"]
    for match in re.finditer(r"(\d+) of (\d+) (?:(\w+) )?(query-key|value-output) products? ha(?:s|ve) lost rank: ([^;]*?)[.;]", answer + ";"):
        product = "qk" if match[4] == "query-key" else "ov"
        stack = match[3] if match[3] in ("text", "vision", "encoder", "decoder") else None
        mine = [r for r, _ in lost if r["product"] == product and (stack is None or r["stack"] == stack)]
        every = [r for r in heads if r["product"] == product and r["effective_rank"] is not None
                 and (stack is None or r["stack"] == stack)]
        if match[3] and not stack or len({r["attention"] for r in every}) > 1:
            continue
        case.check(int(match[1]) == len(mine) and int(match[2]) == len(every), f"{match[0]!r}: counted {len(mine)} of {len(every)}")
        kinds = {}
        for layer in sorted({r["layer"] for r in mine}):
            count = sum(r["layer"] == layer for r in mine)
            whole = count == sum(r["layer"] == layer for r in every)
            kinds.setdefault("all" if whole else "one" if count == 1 else "several", []).append(layer)
        for kind, layers in re.findall(r"(all|one|several)(?: of| each in| in) layers? ([\d, and-]+)", match[5]):
            named = []
            for low, high in re.findall(r"(\d+)(?:-(\d+))?", layers):
                named += range(int(low), int(high or low) + 1)
            case.check(sorted(named) == kinds.get(kind), f"{kind} of layers {named}, by the rule {kinds}")
