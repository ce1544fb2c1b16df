"""The findings of heads and the nulls of table attention, by docs/probe.md."""
import json
import re

import numpy as np


EDITS = "--center-attention", "--remove-gap", "--uniform-attention", "--shaped", "--attention-rescale"


def attention_limits(case, row):
    """The per-head findings that the table of docs/probe.md raises for this row, before what init drew is taken out."""
    found = {}
    null, ratio, variance = row["logit_variance_null"], row["entropy_ratio"], row["logit_variance"]
    first, first_null = row["first_token_weight"], row["first_token_weight_null"]
    if None not in (first, first_null):
        limit = first_null + case.threshold("attention_sink") * (1 - first_null)
        found["attention_sink"] = first > limit * (1 + 1e-12) + 1e-15
    if ratio is not None:
        beyond_uniform, beyond_condensed = ratio > case.threshold("uniform_attention"), ratio < case.threshold("condensed_attention")
        found["uniform_attention"] = beyond_uniform and (None in (null, variance) or variance < null / 4)
        found["condensed_attention"] = beyond_condensed and (None in (null, variance) or variance > 4 * null)
        found["beyond"] = beyond_uniform or beyond_condensed
    return found


def check_attention(case):
    result = case.result
    table = result["tables"].get("attention") or []
    rows = result["tables"]["findings"]
    drawn = result["model"]["weights"] == "random"
    codes = "attention_sink", "uniform_attention", "condensed_attention"
    if not table:
        return
    names = list(dict.fromkeys(r["variant"] for r in result["tables"]["summary"]))
    variant = "full" if "full" in names else names[0]
    for code in codes + ("untrained_attention",):
        for r in rows:
            if r["code"] == code:
                case.check(r["variant"] == variant, f"{code} of variant {r['variant']}, not {variant}")
    if result["inputs"]["longest"] < 8:
        case.check(not any(r["code"] in codes + ("untrained_attention",) for r in rows), "findings of heads with fewer than 8 tokens")
        return
    if result["inputs"]["shortest"] < 8:
        return
    mine = [r for r in table if r["variant"] == variant]
    edited = any(option in case.args for option in EDITS)
    found = {code: {(r["layer"], r["head"]) for r in rows if r["code"] == code} for code in codes}
    for code in codes:
        want = {(r["layer"], r["head"]) for r in mine if attention_limits(case, r).get(code)}
        if drawn and code != "attention_sink":
            case.check(not found[code], f"{code}: {len(found[code])} heads of a network that nobody trained")
        elif drawn:
            case.check(not found[code], f"{code}: {len(found[code])} heads of a network that nobody trained")
        elif edited and code == "attention_sink":
            case.check(not found[code], f"{code}: {len(found[code])} heads of a matrix that was edited")
        else:
            case.check(found[code] == want, f"{code}: {len(found[code])} heads, by the rule {len(want)}")
    for r in rows:
        if r["code"] != "attention_sink":
            continue
        case.check(r["value"] <= 1 + 1e-6, f"gives {r['value']} of its weight to the first token")
    if drawn:
        for r in rows:
            if r["code"] != "untrained_attention":
                continue
            entropy = [a["entropy_ratio"] for a in mine if a["entropy_ratio"] is not None]
            match = re.search(r"(\d+) of (\d+) heads attend to all tokens alike", r["message"])
            if match:
                count = sum(e > case.threshold("uniform_attention") for e in entropy)
                case.check(int(match[1]) == count and int(match[2]) == len(mine), f"untrained: {match[0]}, counted {count} of {len(mine)}")
            match = re.search(r"(\d+) of (\d+) heads attend to one key each", r["message"])
            if match:
                count = sum(e < case.threshold("condensed_attention") for e in entropy)
                case.check(int(match[1]) == count and int(match[2]) == len(mine), f"untrained: {match[0]}, counted {count} of {len(mine)}")
    check_nulls(case, mine)


def check_nulls(case, rows):
    """The closed forms by simulation: uniform attention over the visible keys of this mask and length, made and measured."""
    folder_file = case.folder / "a.json"
    options = case.args
    if "--null" in options or options[1] != "a.json" or case.result["inputs"]["longest"] != case.result["inputs"]["shortest"]:
        return
    arch = json.loads(folder_file.read_text())
    if arch.get("mixer", "attention") != "attention":  # its rows are no distributions: nothing to compare with
        for column in "entropy_null", "entropy_ratio", "self_weight_null", "first_token_weight_null":
            case.check(all(r[column] is None for r in rows), f"{column} of {arch['mixer']}")
        return
    n = case.result["inputs"]["longest"]
    mask = "none" if "--no-mask" in options else arch["mask"]
    i, j = np.indices((n, n))
    visible = np.ones((n, n), bool) if mask == "none" else j <= i
    if mask.startswith("sliding"):
        visible &= i - j < int(mask.split(":")[1])
    uniform = visible / visible.sum(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(visible, uniform * np.log(uniform), 0).sum(1).mean()
    modulus = np.sort(np.abs(np.diag(uniform) if mask != "none" else np.linalg.eigvals(uniform)))[::-1]
    gap = 1 - modulus[1] if n > 1 else None
    apart = max((0.5 * np.abs(uniform[a] - uniform).sum(1).max() for a in range(n)), default=0)
    want = {"entropy_null": entropy, "self_weight_null": np.diag(uniform).mean(),
            "first_token_weight_null": uniform[visible[:, 0], 0].mean(), "spectral_gap_null": gap, "dobrushin_null": apart}
    for column, value in want.items():
        seen = rows[0][column]
        if seen is None or value is None:
            case.check(value is None or column == "spectral_gap_null" and n == 1, f"{column} is null, simulated {value}")
        else:
            case.check(abs(seen - value) < 1e-9, f"{column}: {seen}, simulated {value}")
    for r in rows:
        if r["entropy_ratio"] is not None and r["entropy"] is not None:
            case.check(abs(r["entropy_ratio"] - r["entropy"] / r["entropy_null"]) < 1e-6, "entropy_ratio")
