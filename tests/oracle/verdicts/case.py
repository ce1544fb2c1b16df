"""One run of the program, and what its result owes whichever command made it."""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
SEVERITY = {"info": 0, "warn": 1, "critical": 2}
DEFAULTS = {"token_collapse": 0.1, "slow_collapse": 0.5, "attention_sink": 0.5, "uniform_attention": 0.98,
            "condensed_attention": 0.05, "low_rank_attention": 0.25, "qk_low_rank": 0.5, "ov_low_rank": 0.5, "dead_head": 0.05,
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
        for plural in re.finditer(r"\b1 (?:more |other |further )?(layers|heads|samples|tokens|paths|cases|products|rows|states|bounds)\b", text):
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
