"""The verdict and the bounds of certify, by docs/certify.md."""
import re

from .case import NUMBER


def check_certify(case):
    result, verdict = case.result, case.result["verdict"]
    bounds = result["tables"]["bounds"]
    last = max(r["layer"] for r in bounds)
    samples = sorted({r["sample"] for r in bounds})
    at = {(r["sample"], r["layer"]): r for r in bounds}
    entered = {s: at[s, 0]["entering_diameter"] for s in samples}
    live = [s for s in samples if entered[s]]
    rows = result["tables"]["findings"]
    codes = {r["code"] for r in rows}
    for r in rows:
        if r["code"] == "nonfinite_activation":
            case.check(r["severity"] == "critical", "nonfinite_activation is a note in certify; docs: critical")
            case.check(verdict["code"] == "nonfinite", "nonfinite_activation, verdict " + verdict["code"])
    if verdict["code"] == "nonfinite":
        return
    case.check((verdict["code"] == "collapse") <= ("certified_collapse" in codes), "verdict collapse, no certified_collapse")
    if verdict["code"] == "collapse":
        for s in live:
            r = at[s, last]
            if r["certified_diameter"] is not None:
                case.check(r["certified_diameter"] <= 0.1 * entered[s] * (1 + 1e-9) and not r["certified_diameter_conditional"],
                           f"collapse: sample {s} is bounded by {r['certified_diameter']} of {entered[s]}")
    match = re.search(rf"behind layer (\d+) at least ({NUMBER}) of the ({NUMBER}) that entered is left \(measured: ({NUMBER})\)",
                      verdict["answer"])
    if match and live:
        layer = int(match[1])
        shares = {s: at[s, layer]["certified_at_least"] / entered[s] for s in live
                  if at[s, layer]["certified_at_least"] is not None and at[s, layer]["certified_at_least"] > 0
                  and not at[s, layer]["at_floor"]}
        if shares:
            least = min(shares, key=shares.get)
            case.check(abs(verdict["value"] / shares[least] - 1) < 1e-9,
                       f"{verdict['code']}: value {verdict['value']}, least share of a sample {shares[least]}")
            case.check((verdict["value"] >= 0.1) == (shares[least] >= 0.1), "apart, and a sample keeps less than a tenth")
    summary = {r["layer"]: r for r in result["tables"]["summary"]}
    for layer, r in summary.items():
        low = [at[s, layer]["certified_at_least"] for s in samples]
        if None not in low and not any(at[s, layer]["certified_at_least_conditional"] for s in samples) and r["at_least"] is not None:
            case.check(abs(r["at_least"] - min(low)) <= 1e-12 * abs(min(low)) or min(low) == 0, f"summary layer {layer}: at_least")
    for r in bounds:
        low, high, seen = r["certified_at_least"], r["certified_diameter"], r["measured_diameter"]
        if low and high and not r["certified_diameter_conditional"] and not r["certified_at_least_conditional"] and not r["at_floor"]:
            case.check(low <= seen * (1 + 1e-6) and high >= seen * (1 - 1e-6), f"bounds: {low} <= {seen} <= {high} fails")
