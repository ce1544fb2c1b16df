"""The sentences of a result: what they call proved has to be true, and never conditional."""

import math
import re

from . import model
from .columns import keeps, number, ratio
from .numbers import Balls as B

PROVED = re.compile(r"\b(provabl[ey]|proved|proven|certified)\b")
DENIED = re.compile(r"\b(no|not|never|nothing|nor|without)\b[^;:.]*?\b(provabl[ey]|proved|proven|certified)\b")


def layers_named(text):
    head = re.match(r"layers? ([0-9, and-]+)", text)
    out = []
    for part in re.findall(r"(\d+)(?:-(\d+))?", head.group(1)) if head else []:
        out += range(int(part[0]), int(part[1] or part[0]) + 1)
    return out


def soft(row, name):
    return bool(row.get(name + "_conditional", row.get("conditional") if name == "certified_diameter" else False))


def apart(truth, finding, tables):
    layers = layers_named(finding["message"])
    rows = [r for r in tables["bounds"] if r["layer"] in layers]
    told = re.search(r"at least ([0-9.e+-]+) apart", finding["message"])
    hangs = any(soft(r, "certified_at_least") for r in rows)
    if hangs:
        yield "finding apart_summary (called proved)", math.inf, True, {"message": finding["message"]}
    if told and rows:
        # tokens that enter equal are left out where the sentence says so
        differ = [r for r in rows if r["entering_diameter"] or "do not enter equal" not in finding["message"]]
        exact = B.smallest([truth.diameter(r["layer"], r["layer"])[r["sample"]] for r in differ])
        claim = number(float(told.group(1))) * number(0.994)  # the sentence rounds to three digits
        yield "finding apart_summary", ratio(claim, exact), bool(claim > exact), {"message": finding["message"], "true": float(exact.mid())}


def collapse(truth, finding, tables):
    text = finding["message"]
    told = re.search(r"behind layer (\d+) within (10\^)?([0-9.e+-]+) of each other", text)
    if not told:
        return
    layer, value = int(told.group(1)), float(told.group(3))
    rows = [r for r in tables["bounds"] if r["layer"] == layer]
    if any(soft(r, "certified_diameter") for r in rows):
        yield "finding certified_collapse (called proved)", math.inf, True, {"message": text}
    if rows:  # a sample without a certificate has its own layer to answer for
        exact = B.largest([truth.diameter(layer if r.get("source_layer") is None else r["source_layer"], layer)[r["sample"]] for r in rows])
        claim = (number(value) * number(10).log()).exp() if told.group(2) else number(value)
        claim = claim * number(1.006)
        yield "finding certified_collapse", ratio(exact, claim), bool(exact > claim), {"message": text, "true": float(exact.mid())}


def enough(truth, finding, tables, rigorous, conditional_cases):
    text, kept = finding["message"], truth.inst.kept
    rows = tables["lambda"]
    marked = any("kept_now_error_conditional" in r for r in rows)
    if rigorous and conditional_cases and not marked:
        yield "finding lambda_summary (called proved)", math.inf, True, {"message": text}
    if finding["value"] is not None:
        every = "for which one was found" not in text
        # the sentence's own digits: they are no less than the number
        printed = float(re.search(r"a skip of λ >= (\S+) is", text).group(1))
        worst, violated = 0.0, printed < finding["value"]
        for r in rows:
            if r["at_floor"] and "not left out" in text:
                continue
            if every or r.get("lambda_certified") is not None and not r.get("lambda_certified_conditional"):
                got, broken = keeps(truth, r["layer"], r["sample"], printed, kept)
                worst, violated = max(worst, got), violated or broken
        yield "finding lambda_summary (its skip)", worst, violated, {"message": text}
    counted = re.search(r"proved enough in (\d+) of (\d+) cases", text)
    if counted:
        can = 0
        for r in rows:
            base = truth.spread(r["layer"])[r["sample"]]
            left = model.spread(truth.mixed(r["layer"])[r["sample"]:r["sample"] + 1])[0]
            can += not left < base * number(kept) and not r.get("kept_now_error_conditional")
        told = int(counted.group(1))
        yield "finding lambda_summary", told / can if can else (math.inf if told else 0.0), told > can, {"message": text, "can": can}


def check(truth, result, rigorous):
    tables = result["tables"]
    cases = sum(f["value"] or 0 for f in result["findings"] if f["code"] == "lambda_conditional")
    rotated = any(layer.mixer.op.q_norm is not None for layer in truth.layers)
    for finding in result["findings"]:
        text = finding["message"]
        if finding["code"] == "lambda_conditional" and "QK-norm" in text and not rotated and "relative" not in text:
            yield "finding lambda_conditional (reason)", math.inf, truth.inst.family != "xlnet", {"message": text}
        if not PROVED.search(DENIED.sub("", text)):
            continue
        if finding["code"] == "apart_summary":
            yield from apart(truth, finding, tables)
        if finding["code"] == "certified_collapse":
            yield from collapse(truth, finding, tables)
        if finding["code"] == "lambda_summary":
            yield from enough(truth, finding, tables, rigorous, cases)
