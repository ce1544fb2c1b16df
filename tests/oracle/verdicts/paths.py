"""The verdict of paths, by docs/paths.md."""
import numpy as np


def check_paths(case):
    result, verdict = case.result, case.result["verdict"]
    lengths = result["tables"].get("lengths") or []
    if verdict["code"] not in ("short", "middle", "long", "beyond") or not lengths:
        return
    samples = {r["sample"] for r in lengths if r["sample"] is not None}
    by_length = {}
    for r in lengths:
        if r["sample"] is not None and r["cumulative_error"] is not None and r["length"] is not None:
            by_length.setdefault(r["length"], []).append(r["cumulative_error"])
    longest = verdict["threshold"] * 2 if verdict["code"] != "beyond" else None
    for pool in (np.mean, np.max):
        reached = [k for k, errors in sorted(by_length.items()) if len(errors) == len(samples) and pool(errors) <= 0.1]
        least = reached[0] if reached else None
        if verdict["code"] == "beyond":
            fine = least is None
        else:
            want = None if least is None else "short" if least < longest / 2 else "long" if least == longest else "middle"
            fine = want == verdict["code"] and verdict["value"] == least
        if fine:
            break
    case.check(fine, f"{verdict['code']} at {verdict['value']}: least length by the rule {least} of {longest}")
    case.check("100% of all" not in verdict["answer"] or verdict["value"] == longest, "all of the paths, and not the longest: " + verdict["answer"])
    case.check(not (verdict["code"] == "long" and longest == 1 and "long paths" in verdict["answer"] and "1 heads" in verdict["answer"]),
               "1 heads")
