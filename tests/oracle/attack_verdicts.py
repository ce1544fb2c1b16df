#!/usr/bin/env python3
"""Attack the sentences of probe, scan, certify and paths: is what they say true by the rules of docs/?

Draws architecture files of odd shapes (one layer, one head, one token, width 1, grouped heads, windows, every norm, with
and without skips and MLPs, depth 1 to 96), checkpoints under tests/golden, planted defects, options, variants and
thresholds; runs the program; and recomputes from the tables of the JSON result, by rules written here after docs/ and not
after src/, the verdict (code, severity, value, threshold, and the numbers in its sentence), the findings (which, how
many, the worst, their severity), the nulls of table attention, and whether JSON, text, HTML and exit code agree.
Every violation is printed with its command, which can be run again in the folder that it names.

    tests/oracle/attack_verdicts.py build/rankscope --instances 300 --seed 1
    tests/oracle/attack_verdicts.py build/rankscope --seconds 120 --only probe,planted

Needs numpy. Exit status 1 when something was violated.
"""
import argparse
import concurrent.futures
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
SEVERITY = {"info": 0, "warn": 1, "critical": 2}
DEFAULTS = {"token_collapse": 0.1, "slow_collapse": 0.5, "attention_sink": 0.5, "uniform_attention": 0.98,
            "condensed_attention": 0.05, "qk_low_rank": 0.5, "ov_low_rank": 0.5, "dead_head": 0.05,
            "decay_equilibrium": 0.9}
EPS = 1e-9
FLOOR = {"f32": 8 * 2.0**-24, "f64": 8 * 2.0**-53}


class Case:
    """One run of the program and what was found wrong with it."""

    def __init__(self, command, folder, args):
        self.command, self.folder, self.args, self.wrong = command, folder, args, []
        self.result = self.rc = None

    def check(self, fine, what):
        if not fine:
            self.wrong.append(what)

    def threshold(self, code):
        for part in (self.result["args"].get("threshold") or "").split(","):
            if part.startswith(code + "="):
                return float(part.split("=")[1])
        return DEFAULTS[code]


# ---------------------------------------------------------------- draws

def draw_architecture(rng, deepest=96):
    heads = rng.choice([1, 1, 2, 3, 4, 6, 8])
    kv_heads = rng.choice([k for k in range(1, heads + 1) if heads % k == 0])
    d_head = rng.choice([1, 2, 3, 4, 8, 16, 32, 64, 128])
    width = heads * d_head if rng.random() < 0.6 and heads * d_head <= 256 else rng.choice([1, 2, 3, 5, 8, 16, 64, 128])
    depth = rng.choice([1, 1, 2, 3, 4, 6, 8, 12, 24, 48, 96]) if width <= 64 else rng.choice([1, 2, 3, 6, 12])
    arch = {"depth": min(depth, deepest), "d_model": width, "heads": heads, "kv_heads": kv_heads, "d_head": d_head,
            "seq_len": rng.choice([1, 2, 3, 5, 7, 8, 9, 16, 32, 64]),
            "norm": rng.choice(["pre", "post", "none", "sandwich"]), "norm_kind": rng.choice(["layernorm", "rmsnorm"]),
            "mlp": rng.choice(["none", "linear", "relu", "gelu", "gelu_tanh", "swiglu"]),
            "mask": rng.choice(["none", "causal", "sliding:%d" % rng.choice([1, 2, 3, 5, 20])]),
            "attention": rng.choice(["softmax"] * 6 + ["uniform", "centred", "shaped", "rescaled"]),
            "temperature": rng.choice([1, 1, 1, 0.1, 0.01, 10, 100])}
    for field in "skip_mixer", "skip_mlp", "branch_mixer", "branch_mlp":
        if rng.random() < 0.3:
            arch[field] = rng.choice([0, 0.5, -0.5, 1.5, 3, "1/sqrt(L)", "1/L"])
    if rng.random() < 0.3:
        arch["vocab"] = rng.choice([2, 10, 100])
    if arch.get("vocab") and rng.random() < 0.5:
        arch["positions"] = "learned"
    elif rng.random() < 0.3:
        arch["positions"] = rng.choice((["rope"] if d_head % 2 == 0 else []) + ["alibi", "relative"])
    if not arch.get("vocab") and rng.random() < 0.4:
        arch["input"] = {"law": "gaussian", "rho": rng.choice([0, 1] if width == 1 else [0, 0.5, 0.9, 0.999, 1]),
                         "norm2": rng.choice(["d", "1", "100*d"])}
    if rng.random() < 0.15:
        arch["init"] = {rng.choice(["wq", "wk", "wv", "wo"]):
                        rng.choice(["orthogonal", "normal(0, 25/fan_in)", "uniform(-0.1, 0.1)", "zero"])}
    return arch


def draw_probe_options(rng):
    options = []
    if rng.random() < 0.5:
        options += ["--variants", rng.choice([
            "dong", "dong", "dong", "all", "full", "san", "pure", "full,san", "san,full", "full,half=lambda:0.5", "san,pure",
            "full,san+skip", "x=no-norm,y=no-mlp", "full,a=no-skip,b=no-mlp", "full,san,san+mlp", "san,san+skip,pure"])]
    if rng.random() < 0.2:
        options += rng.choice([["--no-skip"], ["--no-mlp"], ["--no-norm"], ["--no-mask"], ["--lambda", "0.5"],
                               ["--lambda", "mixer:0"], ["--residual-scale", "1/sqrt(L)"], ["--temperature", "0.01"],
                               ["--depth", "5"], ["--no-mlp-branch"], ["--center-attention"], ["--uniform-attention"]])
    if rng.random() < 0.3:
        options += ["--threshold", rng.choice([
            "token_collapse=0.5", "token_collapse=0.01", "token_collapse=0.9,slow_collapse=0.9", "slow_collapse=0.99",
            "slow_collapse=0.1", "uniform_attention=0.5", "condensed_attention=0.5", "attention_sink=0.1",
            "attention_sink=0", "token_collapse=1", "token_collapse=0.000000001"])]
    if rng.random() < 0.35:
        options += ["--precision", rng.choice(["f64", "residual"])]
    if "--no-attention" not in options and rng.random() < 0.15:
        options += ["--null", "random"]
    if rng.random() < 0.5:
        options.append("--no-spectral")
    return options


def checkpoints():
    """Folders of golden models that are read with a config.json; their text or image inputs are drawn."""
    return sorted(p for kind in ("families", "forward") for p in (GOLDEN / kind).iterdir()
                  if (p / "config.json").exists() and list(p.glob("*.safetensors")))


def draw(rng, command, folder):
    seed = ["--seed", str(rng.randrange(1000)), "--threads", "1"]
    if command == "scan":
        args = ["scan", str(rng.choice(checkpoints()))] + (["--fold-norms"] if rng.random() < 0.3 else [])
        if rng.random() < 0.7:
            args += ["--threshold", rng.choice([
                "qk_low_rank=0.99", "ov_low_rank=0.99", "qk_low_rank=0.9,ov_low_rank=0.95", "dead_head=0.9", "dead_head=1",
                "decay_equilibrium=0.1", "qk_low_rank=1.2", "ov_low_rank=0.97,dead_head=0.95"])]
        return args + seed
    if command == "probe" and rng.random() < 0.25:
        args = ["probe", str(rng.choice(checkpoints())), "--random", str(rng.choice([1, 2, 4])), "--seq-len",
                str(rng.choice([1, 2, 6, 8, 12]))]
        return args + draw_probe_options(rng) + seed
    arch = draw_architecture(rng, 96 if command == "probe" else 12)
    (folder / "a.json").write_text(json.dumps(arch))
    args = [command, "a.json", "--init", "default", "--random", str(rng.choice([1, 1, 2, 3, 5]))]
    if command == "probe":
        args += draw_probe_options(rng)
    else:
        args += rng.choice([[], [], [], ["--no-mlp"], ["--no-norm"], ["--lambda", "mixer:0"], ["--no-skip"],
                            ["--lambda", "3"], ["--lambda", "0.1"], ["--no-mlp", "--no-norm"]])
    if command == "certify" and rng.random() < 0.3:
        args.append("--fast")
    if command == "paths" and rng.random() < 0.3:
        args += ["--max-length", str(rng.choice([0, 1, 2, 3]))]
    return args + seed


# ---------------------------------------------------------------- what every result owes

def beyond(value, threshold):
    """docs/contract.md: the larger of value and threshold over the smaller; None where that has no number."""
    if value is None or threshold is None or value == 0 or threshold == 0 or value * threshold < 0:
        return None
    return max(abs(value), abs(threshold)) / min(abs(value), abs(threshold))


def check_common(case):
    result = case.result
    rows, findings = result["tables"].get("findings", []), result["findings"]
    for finding in findings:
        mine = [r for r in rows if r["code"] == finding["code"]]
        name = "finding " + finding["code"]
        case.check(len(mine) == finding["count"], f"{name}: count {finding['count']}, {len(mine)} rows")
        if not mine:
            continue
        case.check(SEVERITY[finding["severity"]] == max(SEVERITY[r["severity"]] for r in mine), name + ": severity")
        first = mine[0]
        for field in "layer", "head", "value", "threshold":
            case.check(first[field] == finding[field], f"{name}: {field} is not that of the first row")
        order = [(-SEVERITY[r["severity"]], -(r["beyond"] or 0)) for r in mine if r["value"] != 0]
        case.check(all(a[0] <= b[0] and (a[0] < b[0] or a[1] <= b[1] * (1 - 1e-12)) for a, b in zip(order, order[1:])),
                   name + ": rows are not ordered by severity and beyond")
        for r in mine:
            want = beyond(r["value"], r["threshold"])
            if want is not None and r["beyond"] is not None:
                case.check(abs(r["beyond"] / want - 1) < 1e-6, name + f": beyond {r['beyond']}, want {want}")
    codes = {f["code"] for f in findings}
    case.check({r["code"] for r in rows} == codes, "table findings and findings differ in codes")
    verdict = result["verdict"]
    worst = max([SEVERITY[verdict["severity"]]] + [SEVERITY[f["severity"]] for f in findings])
    case.check(case.rc == (3 if worst >= 1 else 0), f"--fail-on warn: exit {case.rc}, worst severity {worst}")
    texts = [verdict["answer"]] + [r["message"] for r in rows]
    for text in texts:
        for plural in re.finditer(r"\b1 (layers|heads|samples|tokens|paths|cases|products|rows|states|bounds)\b", text):
            before = text[:plural.start()]
            if not re.search(r"[\d.,]$|(of|to|all|-) $", before):
                case.check(False, f"plural: {text[max(0, plural.start() - 40):plural.end()]!r}")
        for bad in "nan", "inf ", "-inf", "(null)", "--  ":
            case.check(not re.search(r"(?<![a-z])" + re.escape(bad) + r"(?![a-z])", text), f"{bad!r} in {text[:80]!r}")


def check_outputs(case, program, args):
    """Text and HTML must open with the same sentence."""
    answer = case.result["verdict"]["answer"]
    run = subprocess.run([program] + args, cwd=case.folder, capture_output=True, text=True)
    head = " ".join(run.stdout.split())
    case.check(head.lstrip("▲✖! ").startswith(" ".join(answer.split())), "text does not open with the answer: " + head[:120])
    run = subprocess.run([program] + args + ["--html", "-"], cwd=case.folder, capture_output=True, text=True)
    page = run.stdout
    for entity, char in ("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&quot;", '"'), ("&amp;", "&"):
        page = page.replace(entity, char)
    case.check(answer in page, "the HTML report does not hold the answer")


# ---------------------------------------------------------------- probe

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
    case.check(not re.search(r"after 0 |after all 1\b", answer), answer)


def check_compared(case):
    result, verdict = case.result, case.result["verdict"]
    if verdict["code"] != "compared":
        case.check(verdict["code"] in ("nonfinite", "undefined"), "variants without full: code " + verdict["code"])
        return
    answer = verdict["answer"]
    size = rf"(?:10\^)?{NUMBER}" # as a power of ten where no double holds it
    match = re.match(rf"Of (\d+) variants (\S+) keeps the tokens furthest apart: a relative residual of (at most )?({size}) "
                     rf"leaves it, and (at most )?({size}) leaves (\S+?)\.$", answer)
    summary = {r["variant"]: r for r in result["tables"]["summary"]}
    if not match:
        known = [r["leaves"] for r in summary.values() if r["leaves"] is not None]
        case.check("alone" in answer and len(known) == 1 or "none keeps" in answer and len(known) > 1, answer)
        return
    case.check(match[2] != match[7], "compared with itself: " + answer)
    if result["run"]["precision"] == "residual":
        return
    case.check(not match[3], "the best is at the floor, and nothing tells which is best: " + answer)
    best = max((r["leaves"] for r in summary.values() if r["leaves"] is not None and r["equal_after"] is None), default=None)
    case.check(summary[match[2]]["leaves"] == best, "not the best: " + answer)
    ties = [n for n, r in summary.items() if r["leaves"] == best]
    case.check(len(ties) == 1, f"{ties} tie: {answer}")


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
        found["uniform_attention"] = beyond_uniform and (null is None or variance < null / 4)
        found["condensed_attention"] = beyond_condensed and (null is None or variance > 4 * null)
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
    found = {code: {(r["layer"], r["head"]) for r in rows if r["code"] == code} for code in codes}
    for code in codes:
        want = {(r["layer"], r["head"]) for r in mine if attention_limits(case, r).get(code)}
        if drawn and code != "attention_sink":
            case.check(not found[code], f"{code}: {len(found[code])} heads of a network that nobody trained")
        elif drawn:
            case.check(not found[code], f"{code}: {len(found[code])} heads of a network that nobody trained")
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


# ---------------------------------------------------------------- scan

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


# ---------------------------------------------------------------- certify

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


# ---------------------------------------------------------------- paths

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


# ---------------------------------------------------------------- planted defects

def write_safetensors(path, tensors):
    header, offset, blobs = {}, 0, []
    for name, array in tensors.items():
        blob = np.ascontiguousarray(array, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def plant(rng, folder):
    """A GPT-2 as it is drawn (normal(0, 0.02)), with one defect in one head: returns what was done and where."""
    heads, d_head, layers, vocab, n = rng.choice([2, 4, 6]), rng.choice([16, 32, 64]), rng.choice([1, 2, 4]), 300, 64
    width = heads * d_head
    draw_from = np.random.default_rng(rng.randrange(2**32))
    normal = lambda *shape: draw_from.normal(0, 0.02, shape)
    config = {"model_type": "gpt2", "n_layer": layers, "n_head": heads, "n_embd": width, "n_positions": n, "vocab_size": vocab,
              "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}
    tensors = {"wte.weight": normal(vocab, width), "wpe.weight": normal(n, width), "ln_f.weight": np.ones(width),
               "ln_f.bias": np.zeros(width)}
    for layer in range(layers):
        p = f"h.{layer}."
        for norm in "ln_1", "ln_2":
            tensors[p + norm + ".weight"], tensors[p + norm + ".bias"] = np.ones(width), np.zeros(width)
        for name, a, b in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width), ("mlp.c_fc", width, 4 * width),
                           ("mlp.c_proj", 4 * width, width)):
            tensors[p + name + ".weight"], tensors[p + name + ".bias"] = normal(a, b), np.zeros(b)
    kind = rng.choice(["none", "condensed", "uniform", "sink", "low_rank", "low_rank_ov", "dead"])
    layer, head = rng.randrange(layers), rng.randrange(heads)
    weight, bias = tensors[f"h.{layer}.attn.c_attn.weight"], tensors[f"h.{layer}.attn.c_attn.bias"]
    q, k, v = (slice(i * width + head * d_head, i * width + (head + 1) * d_head) for i in range(3))
    if kind == "condensed":
        weight[:, q] *= 60
        weight[:, k] *= 60
    elif kind == "uniform":
        weight[:, q] *= 0.05
        weight[:, k] *= 0.05
    elif kind == "sink":  # every query asks for a direction that position 0 alone has
        direction = draw_from.normal(0, 1, width)
        direction -= direction.mean()
        tensors["wpe.weight"][0] += 4 * direction
        unit = draw_from.normal(0, 1, d_head)
        bias[q] = 3 * unit
        weight[:, k] += np.outer(direction / np.linalg.norm(direction), unit)
    elif kind == "low_rank":
        weight[:, q] = normal(width, 1) @ draw_from.normal(0, 1, (1, d_head))
    elif kind == "low_rank_ov":
        weight[:, v] = normal(width, 1) @ draw_from.normal(0, 1, (1, d_head))
    elif kind == "dead":
        weight[:, v] *= 1e-3
    folder.joinpath("m").mkdir()
    folder.joinpath("m", "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "m" / "model.safetensors", tensors)
    return kind, layer, head, n


def check_planted(case, kind, layer, head):
    rows = case.result["tables"]["findings"]
    want = {"condensed": "condensed_attention", "uniform": "uniform_attention", "sink": "attention_sink",
            "low_rank": "qk_low_rank", "low_rank_ov": "ov_low_rank", "dead": "dead_head"}
    seen = {(r["code"], r["layer"], r["head"]) for r in rows if r["code"] in want.values() and r["layer"] is not None}
    if kind != "none":
        case.check((want[kind], layer, head) in seen, f"planted {kind} in layer {layer}, head {head}: found {sorted(seen)}")
    extra = {s for s in seen if s[1:] != (layer, head) and s[0] != "attention_sink"}
    allowed = kind in ("sink",)
    case.check(allowed or not extra, f"planted {kind} in layer {layer}, head {head}: heads that were drawn are found, too: {sorted(extra)}")


# ---------------------------------------------------------------- the runs

CHECKS = {"probe": check_probe, "scan": check_scan, "certify": check_certify, "paths": check_paths}


def attack(program, command, seed, scratch, keep):
    rng = random.Random(f"{command}/{seed}")
    folder = Path(scratch) / f"{command}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    planted = None
    if command == "planted":
        kind, layer, head, n = plant(rng, folder)
        planted = kind, layer, head
        weights = kind in ("low_rank", "low_rank_ov", "dead")
        args = ["scan", "m"] if weights else ["probe", "m", "--random", "3", "--seq-len", str(n), "--no-spectral"]
    else:
        args = draw(rng, command, folder)
    case = Case(command, folder, args)
    run = subprocess.run([program] + args + ["--json", "-", "--fail-on", "warn"], cwd=folder, capture_output=True, text=True)
    case.rc = run.returncode
    if run.returncode not in (0, 3):
        case.check(run.returncode in (1, 2), f"exit {run.returncode}: {run.stderr[:200]}")
    else:
        case.result = json.loads(run.stdout)
        check_common(case)
        if planted:
            check_planted(case, *planted)
        try:
            CHECKS[args[0]](case)
        except (TypeError, KeyError, ValueError, ZeroDivisionError) as error:
            line = error.__traceback__.tb_next
            while line.tb_next:
                line = line.tb_next
            case.check(False, f"this script fails in line {line.tb_lineno}: {error!r}")
        if rng.random() < 0.1:
            check_outputs(case, program, args)
    if not case.wrong and not keep:
        shutil.rmtree(folder)
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--instances", type=int, default=200, help="runs of each kind")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, help="the first instance's number")
    parser.add_argument("--only", default="probe,scan,certify,paths,planted")
    parser.add_argument("--keep", help="a folder that keeps the instances")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    program, begin = str(Path(options.program).resolve()), time.time()
    scratch = options.keep or tempfile.mkdtemp(prefix="attack_verdicts_")
    ran, refused, violated = {}, 0, 0
    kinds = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for command in options.only.split(","):
            for start in range(options.seed, options.seed + options.instances, 20):
                if time.time() - begin > options.seconds:
                    break
                seeds = range(start, min(start + 20, options.seed + options.instances))
                for case in pool.map(lambda s: attack(program, command, s, scratch, options.keep), seeds):
                    ran[command] = ran.get(command, 0) + 1
                    refused += case.result is None
                    if case.wrong:
                        violated += 1
                        print(f"\n{case.folder}: {' '.join(case.args)}")
                        for what in case.wrong[:6]:
                            print("   ", what)
                            key = command + ": " + re.sub(NUMBER, "#", what)[:70]
                            kinds[key] = kinds.get(key, 0) + 1
    print(f"\n{ran} instances, {refused} refused, {violated} with a violation, {time.time() - begin:.0f} s")
    for key, count in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"{count:6} {key}")
    if not violated and not options.keep:
        shutil.rmtree(scratch)
    return 1 if violated else 0


if __name__ == "__main__":
    sys.exit(main())
