#!/usr/bin/env python3
"""Attacks every column that `rankscope certify` labels certified: looks for instances in which exact arithmetic contradicts it.

    python3 tests/oracle/attack_certificates.py --quick
    python3 tests/oracle/attack_certificates.py --instances 100000 --seed 7 [--family bert ...] [--column kept_now ...] [--keep DIR]
"""

import argparse
import collections
import json
import pathlib
import shutil
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import columns, draw, run  # noqa: E402


class Tally:
    def __init__(self):
        self.count, self.violations = collections.Counter(), collections.Counter()
        self.largest, self.where = collections.defaultdict(float), {}

    def add(self, mode, name, ratio, violated, seed):
        key = name, mode
        self.count[key] += 1
        self.violations[key] += bool(violated)
        if ratio > self.largest[key]:
            self.largest[key], self.where[key] = ratio, seed

    def show(self):
        print(f"{'column':44} {'mode':9} {'instances':>10} {'violations':>10} {'largest':>13}  seed")
        for key in sorted(self.count):
            print(f"{key[0]:44} {key[1]:9} {self.count[key]:10} {self.violations[key]:10} {self.largest[key]:13.9g}  {self.where.get(key)}")


def one(inst, seed, tally, folder, keep, notes):
    """Runs and checks one instance; violations are written to keep/."""
    inst.write(folder)
    taps = run.states(folder, inst)
    if not columns.finite(taps):
        return []
    truth, out = columns.Truth(inst, taps), []
    for mode in ("default", "rigorous"):
        result = run.certificates(folder, inst, mode == "rigorous")
        columns.same_states(truth, result)
        for name, ratio, violated, what in columns.check(truth, result, mode == "rigorous", np.random.default_rng(1)):
            tally.add(mode, name, ratio, violated, seed)
            out.append((name, mode, ratio, violated, what))
    bad = [o for o in out if o[3]]
    if bad:
        for name, mode, ratio, _, what in bad:
            if notes[name, mode] < 3:
                notes[name, mode] += 1
                print(f"violated: {name} ({mode}) by {ratio:.6g} in {seed}: {json.dumps(what)}", flush=True)
                if keep:
                    target = pathlib.Path(keep) / f"{name}.{mode}.{str(seed).replace(' ', '_')}"
                    shutil.copytree(folder, target, dirs_exist_ok=True)
                    command = ["rankscope", "certify", ".", *inst.arguments(), "--kept", repr(inst.kept), *(["--rigorous"] if mode == "rigorous" else [])]
                    (target / "violation.json").write_text(json.dumps({"command": command, "column": name, "ratio": ratio, **what}, indent=1))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--instances", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--family", nargs="*", default=draw.FAMILIES)
    parser.add_argument("--column", nargs="*")
    parser.add_argument("--keep")
    options = parser.parse_args()
    tally, notes, began, seed = Tally(), collections.Counter(), time.time(), options.seed
    refused = collections.Counter()
    folder = tempfile.mkdtemp()
    while True:
        family = options.family[seed % len(options.family)]
        inst = draw.draw(np.random.default_rng([seed, 11]), family)
        try:
            one(inst, f"{family} {seed}", tally, folder, options.keep, notes)
        except run.Refused as e:
            refused[str(e)[-160:]] += 1
        seed += 1
        if min((tally.count[k] for k in tally.count if k[0] == "certified_one_layer"), default=0) >= options.instances:
            break
    tally.show()
    for text, count in refused.most_common(10):
        print(f"refused {count} times: {text}")
    print(f"{seed - options.seed} runs, {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
