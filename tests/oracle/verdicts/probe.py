"""The verdict of probe and its tables summary and components, by docs/probe.md."""
import math
import re

from .attention import check_attention
from .case import EPS, FLOOR, NUMBER


def close(text, value, digits=2):
    """Is text the number value rounded to so many digits?"""
    if value is None:
        return False
    shown = float(text)
    return abs(shown - value) <= 0.51 * 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1) if value else shown == 0


def same(a, b):
    return a is not None and abs(a - b) <= EPS * max(abs(b), 1e-300)


def states(result, variant):
    return sorted((r for r in result["tables"]["tokens"] if r["variant"] == variant and r["site"] == "block_out"),
                  key=lambda r: r["layer"])


def main_variant(result):
    names = list(dict.fromkeys(r["variant"] for r in result["tables"]["summary"]))
    if "full" in names:
        return "full"
    return names[0] if len(names) == 1 else None


def check_probe(case):
    result, verdict = case.result, case.result["verdict"]
    check_attention(case)
    check_summary(case)
    check_components(case)
    check_norms(case)
    variant = main_variant(result)
    if variant is None:
        check_compared(case)
        return
    rows = states(result, variant)
    values = [r["relative_residual"] for r in rows]
    known = [v for v in values if v is not None]
    floor = any(r["at_floor"] for r in rows)
    limit, slow = case.threshold("token_collapse"), case.threshold("slow_collapse")
    bad = [r for r in result["tables"]["findings"] if r["code"] == "nonfinite_activation" and r["variant"] == variant]
    logs = result["run"]["precision"] == "residual"
    one_token = result["inputs"]["longest"] == 1
    collapsed = [i for i, v in enumerate(values) if v is not None and v < limit]
    raised = [r for r in result["tables"]["findings"] if r["code"] == "token_collapse" and r["variant"] == variant]
    if bad:
        want, severity = "nonfinite", "critical"
    elif not known or one_token:
        want, severity = "undefined", "info"
    elif collapsed:
        least = min(known)
        severity = "info" if variant != "full" else "critical" if least < 1e-3 or floor else "warn"
        want = "collapse"
        if not floor and not logs:
            case.check(same(verdict["value"], least), f"collapse: value {verdict['value']}, least {least}")
        case.check(verdict["threshold"] == limit, "collapse: threshold")
    elif None in (values[0], values[-1]) or not values[0]:
        want = severity = None
    else:
        # what is rounding is known to be no more than the floor
        least = max(values[-1], FLOOR.get(result["run"]["precision"], 0)) if rows[-1]["at_floor"] else values[-1]
        ratio = least / values[0]
        if rows[-1]["at_floor"]:
            case.check("at most" in verdict["answer"], f"rounding is told as a number: {verdict['answer']}")
        want, severity = ("slow" if ratio < slow else "healthy"), "info"
        if not logs:
            case.check(same(verdict["value"], ratio), f"{want}: value {verdict['value']}, ratio {ratio}")
        case.check(verdict["threshold"] == slow, f"{want}: threshold {verdict['threshold']}")
    if logs and known and not bad and not one_token and min(known) < limit:
        case.check(verdict["code"] == "collapse", f"code {verdict['code']}, and a state has {min(known)}")
    if want and (not logs or want in ("nonfinite", "undefined")):
        case.check(verdict["code"] == want, f"code {verdict['code']}, by the rule {want}: {verdict['answer']}")
        case.check(verdict["code"] != want or verdict["severity"] == severity,
                   f"severity {verdict['severity']}, by the rule {severity}")
    if verdict["code"] in ("collapse", "slow", "healthy"):
        case.check((verdict["code"] == "collapse") == bool(raised),
                   f"verdict {verdict['code']}, token_collapse of {variant}: {len(raised)} rows")
        case.check(all(r["severity"] == verdict["severity"] for r in raised), "token_collapse and the verdict differ in severity")
    check_probe_sentence(case, variant, rows, collapsed, logs)


def check_probe_sentence(case, variant, rows, collapsed, logs):
    answer, values = case.result["verdict"]["answer"], [r["relative_residual"] for r in rows]
    layers, log_column = len(rows) - 1, "log10_relative_residual"
    answer = re.sub(r"^[a-z]+: ", "", answer)
    if logs:
        if any(r[log_column] is None or r[log_column] < -290 for r in rows):
            return
    floors = [i for i, r in enumerate(rows) if r["at_floor"]]
    match = re.match(rf"No\. After (\d+) layers? ({NUMBER}) % of the spread is left", answer)
    if match:
        share = 10 ** (rows[-1][log_column] - rows[0][log_column]) if logs else values[-1] / values[0]
        case.check(int(match[1]) == layers, "healthy: layers")
        case.check(abs(float(match[2]) - 100 * share) <= 0.6, f"healthy: {match[2]} %")
    match = re.match(rf"Slowly: ({NUMBER}) → ({NUMBER}) in (\d+) layers?, mean cosine ({NUMBER})", answer)
    if match:
        case.check(int(match[3]) == layers and close(match[1], values[0]) and close(match[2], values[-1]), "slow: numbers")
        case.check(close(match[4], rows[-1]["mean_cosine"]), "slow: cosine")
    match = re.match(rf"Yes: their relative residual falls from ({NUMBER}) to ({NUMBER}) after (\d+) layers?"
                     rf"(?:, (?:and|though) ({NUMBER}) after all (\d+))?", answer)
    if match:
        first = int(match[3])
        case.check(not collapsed or first == collapsed[0], f"falls after {first}, by the rule {collapsed[:1]}")
        case.check(close(match[1], values[0]) and close(match[2], values[first]), "falls: numbers")
        case.check(values[first] < values[0], "falls, and does not")
        if match[4]:
            case.check(close(match[4], values[-1]) and int(match[5]) == layers, "falls: last")
            case.check(first != layers, f"says the same state twice: {answer}")
    match = re.match(r"Yes: after (\d+) of (\d+) layers the tokens are equal as far as", answer)
    if match:
        case.check(floors and int(match[1]) == floors[0] and int(match[2]) == layers, f"equal after {match[1]}: {floors[:1]}")
    match = re.match(rf"Yes: their relative residual is ({NUMBER}) before the first layer(?:, (and|though) ({NUMBER}) after)?", answer)
    if match:
        case.check(collapsed and collapsed[0] == 0 and close(match[1], values[0]), "before: numbers")
        end = [v for v in values if v is not None][-1]
        case.check(not match[3] or close(match[3], end), "before: the end")
        case.check(not match[2] or (match[2] == "though") == (end >= case.threshold("token_collapse")), "and, or though")
    case.check(not re.search(r"after 0\b(?!\.)|after all 1\b", answer), answer)


def check_compared(case):
    result, verdict = case.result, case.result["verdict"]
    if verdict["code"] != "compared":
        case.check(verdict["code"] in ("nonfinite", "undefined"), "variants without full: code " + verdict["code"])
        return
    answer = verdict["answer"]
    size = rf"(?:10\^)?{NUMBER}" # as a power of ten where no double holds it
    match = re.match(rf"Of (\d+) variants (.+?) keeps? the tokens furthest apart: a relative residual of (at most )?({size}) "
                     rf"leaves (it|each), and (at most )?({size}) leaves (\S+?)\.$", answer)
    summary = {r["variant"]: r for r in result["tables"]["summary"]}
    if not match:
        known = [r["leaves"] for r in summary.values() if r["leaves"] is not None]
        expected = {0: "none can be told from another", 1: "alone"}.get(len(known), "none keeps")
        case.check(expected in answer, answer)
        return
    named = match[2].split(" and ")
    case.check(match[8] not in named, "compared with itself: " + answer)
    case.check((match[5] == "it") == (len(named) == 1), "it, or each: " + answer)
    if result["run"]["precision"] == "residual":
        return
    case.check(not match[3], "the best is at the floor, and nothing tells which is best: " + answer)
    # state-space mixers part equal tokens again: what counts is the last state
    equal = {n for n in summary if states(result, n)[-1]["at_floor"]}
    best = max((r["leaves"] for n, r in summary.items() if r["leaves"] is not None and n not in equal), default=None)
    case.check(named == [n for n, r in summary.items() if r["leaves"] == best], "not the best: " + answer)


def check_summary(case):
    result = case.result
    if result["run"]["precision"] == "residual":
        return
    for row in result["tables"]["summary"]:
        rows = states(result, row["variant"])
        values = [r["relative_residual"] for r in rows]
        case.check(row["enters"] == values[0] and row["leaves"] == values[-1], f"summary {row['variant']}: enters, leaves")
        first = next((i for i, r in enumerate(rows) if r["at_floor"]), None)
        case.check(row["equal_after"] == first, f"summary {row['variant']}: equal_after {row['equal_after']}, {first}")
        if None in values or not values[0] or first is not None:
            continue
        layers = len(values) - 1
        case.check(abs(row["a_layer"] - (values[-1] / values[0]) ** (1 / layers)) < 1e-9, "summary: a_layer")
        ratios = [b / a for a, b in zip(values, values[1:])]
        case.check(abs(row["worst"] - min(ratios)) < 1e-9 and abs(ratios[row["worst_layer"]] - row["worst"]) < 1e-9,
                   "summary: worst")


def log_spread(row):
    """log10 of residual_fro, None where the row has none."""
    if row.get("log10_residual_fro") is not None:
        return row["log10_residual_fro"]
    return math.log10(row["residual_fro"]) if row["residual_fro"] else None


def norm_decay(rows, share):
    """Finding norm_decay_only of a variant's states by its rule: (layer, share of the spread), or None; "?" where it
    hangs on the last bits."""
    ratios = "relative_residual", "row_normalised_mu", "rank1_residual"
    behind = [r for r in rows if r["layer"] > 0 and log_spread(r) is not None and r["relative_residual"] is not None]
    first = next((r for r in rows if r["layer"] == 0), None)
    if not first or not behind or not first["relative_residual"] or log_spread(first) is None:
        return None
    least = min(behind, key=log_spread)
    fall = log_spread(least) - log_spread(first)
    kept = [(least[k], share * first[k]) for k in ratios if first[k] is not None and least[k] is not None]
    close_calls = [abs(fall + 1) < 1e-9] + [abs(now - limit) <= 1e-9 * limit for now, limit in kept]
    close_calls += [r is not least and log_spread(r) - log_spread(least) < 1e-9 for r in behind]
    if any(close_calls):
        return "?"
    if fall > -1 or any(now < limit for now, limit in kept):
        return None
    return least["layer"] - 1, 10.0 ** fall


def check_norms(case):
    """The spread falls to a tenth, and none of the ratios that know no scale falls with it."""
    found = {}
    for row in case.result["tables"]["findings"]:
        if row["code"] == "norm_decay_only":
            case.check(row["variant"] not in found, f"norm_decay_only twice of {row['variant']}")
            case.check(row["severity"] == "info" and row["threshold"] == 0.1, "norm_decay_only: severity, threshold")
            found[row["variant"]] = row["layer"], row["value"]
    for name in {r["variant"] for r in case.result["tables"]["summary"]}:
        want, got = norm_decay(states(case.result, name), case.threshold("slow_collapse")), found.get(name)
        if want == "?":
            continue
        case.check((want is None) == (got is None), f"norm_decay_only of {name}: {got}, by the rule {want}")
        if want and got:
            case.check(got[0] == want[0], f"norm_decay_only of {name}: layer {got[0]}, by the rule {want[0]}")
            case.check(want[1] < 1e-300 or abs(got[1] / want[1] - 1) < 1e-6,
                       f"norm_decay_only of {name}: value {got[1]}, by the rule {want[1]}")


def check_components(case):
    result = case.result
    mine = [r for r in result["tables"]["findings"] if r["code"] == "component_summary"]
    names = {r["variant"]: r for r in result["tables"]["summary"]}
    case.check(bool(mine) <= ("san" in names), "component_summary without san")
    if not mine or not {"full", "san", "san+mlp", "san+skip"} <= set(names):
        return
    if any(r["leaves"] is None for r in names.values()):
        return
    limit = case.threshold("token_collapse")
    apart = {n: r["leaves"] >= limit and r["equal_after"] is None for n, r in names.items()}
    skip, mlp, both, none = apart["san+skip"], apart["san+mlp"], apart["full"], apart["san"]
    text = mine[0]["message"]
    kinds = {"Neither skip nor MLP is needed": none, "The skip or the MLP alone holds": skip and mlp and not none,
             "The skip holds": skip and not mlp and not none, "The MLP holds": mlp and not skip and not none,
             "Only skip and MLP together": both and not skip and not mlp and not none,
             "Nothing holds": not both}
    for start, true in kinds.items():
        if text.startswith(start):
            case.check(true, f"{text[:60]!r}: apart by variant {apart}")
            break
    else:
        case.check(False, "component_summary of an unknown kind: " + text)
    answer = case.result["verdict"]["answer"]
    if "the skip keeps it" in answer:
        case.check(not mlp, "'the skip keeps it', and the MLP alone does, too")
    case.check(not ("Nothing holds" in text and case.result["verdict"]["code"] == "healthy"),
               "verdict healthy, component_summary 'Nothing holds'")
