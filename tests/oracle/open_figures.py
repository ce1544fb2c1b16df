#!/usr/bin/env python3
"""Opens every figure of results as a notebook does: Altair reads the specification, vl-convert draws it, and what it drew is not empty.

    python3 tests/oracle/open_figures.py RESULT.json [RESULT.json ...]
    python3 tests/oracle/open_figures.py --program build/rankscope      makes results of its own first

Each figure is taken from the JSON as it is: data included, nothing beside it. Exit status 1: one cannot be opened, or is empty.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import altair
import vl_convert

ROOT = pathlib.Path(__file__).resolve().parents[2]
BERT = str(ROOT / "tests/golden/forward/bert")
RUNS = {
    "scan": ["scan", BERT, "--spectra", "--matrices", "all"],
    "probe": ["probe", BERT, "--random", "3", "--seq-len", "9", "--variants", "dong", "--scan", "--certify", "--attention-maps", "0:0"],
    "residual": ["probe", BERT, "--random", "2", "--seq-len", "9", "--variants", "all", "--precision", "residual"],
    "certify": ["certify", BERT, "--random", "3", "--seq-len", "9"],
    "paths": ["paths", BERT, "--random", "2", "--seq-len", "9", "--paths", "20"],
    "lab": ["lab", "run", "all", "--quick"],
}


def marks(svg):
    """The drawn marks: paths and texts inside groups that Vega names by their role."""
    return len(re.findall(r"<path[^>]* d=\"M[^\"]+\"", svg)) + svg.count("<image ")


def open_figure(name, spec):
    """What is wrong with a figure; None: nothing."""
    values = spec.get("data", {}).get("values")
    layers = spec.get("layer", [])
    if values is None and not any("values" in layer.get("data", {}) for layer in layers) and "datasets" not in spec:
        return "has no data of its own"
    chart = altair.Chart.from_dict(spec)  # validates against Vega-Lite's schema
    svg = vl_convert.vegalite_to_svg(json.dumps(chart.to_dict(validate=False)), vl_version="6.1")
    drawn = marks(svg)
    return None if drawn > 3 else f"draws {drawn} marks"


def check(path):
    result = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    failures = 0
    for name, spec in result["figures"].items():
        try:
            wrong = open_figure(name, spec)
        except Exception as problem:  # whatever the packages raise is a figure that a notebook cannot open
            wrong = f"{type(problem).__name__}: {str(problem)[:300]}"
        failures += wrong is not None
        print(f"{result['command']}: {name}: {wrong or 'opens'}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*")
    parser.add_argument("--program")
    args = parser.parse_args()
    failures = sum(check(path) for path in args.results)
    if args.program:
        with tempfile.TemporaryDirectory() as folder:
            for name, words in RUNS.items():
                path = f"{folder}/{name}.json"
                subprocess.run([args.program, *words, "--quiet", "--json", path], check=True)
                failures += check(path)
    sys.exit(failures > 0)


main()
