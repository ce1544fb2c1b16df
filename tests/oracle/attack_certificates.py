#!/usr/bin/env python3
"""Attacks every column that `rankscope certify` labels certified: looks for instances in which exact arithmetic contradicts it.

    python3 tests/oracle/attack_certificates.py --quick
    python3 tests/oracle/attack_certificates.py --instances 100000 --seed 7 [--family bert ...] [--column kept_now ...] [--keep DIR]

Checkpoints of many families are written with random weights, states and configurations, mild and wild; build/rankscope (RANKSCOPE names another)
certifies them; attack/model.py works the same layers out in balls of 320 bits, from the same float64 states, and every claim of the tables and
sentences is compared. A share of the instances is climbed from: small changes that bring a claim closer to the truth are kept. Values that are
marked conditional are counted apart. Exit status 1: a claim is false; --keep writes such instances, with the command that shows them.
The ratio of a column is what it claims over what is true, or the other way round where it bounds from above: beyond 1 it is false.
"""

import argparse
import collections
import itertools
import json
import pathlib
import shutil
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import climb, columns, draw, findings, run, scenarios  # noqa: E402


class Tally:
    def __init__(self):
        self.count, self.violations = collections.Counter(), collections.Counter()
        self.runs = 0
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
            print(f"{key[0]:44} {key[1]:9} {self.count[key]:10} {self.violations[key]:10} {self.largest[key]:13.10g}  {self.where.get(key)}")


def one(inst, seed, tally, folder, keep, notes, rigorous):
    """Runs and checks one instance; violations are written to keep/."""
    inst.write(folder)
    taps = run.states(folder, inst)
    if not columns.finite(taps):
        return []
    truth, out = columns.Truth(inst, taps), []
    tally.runs += 1
    for mode in ("default", "rigorous")[:1 + (rigorous or tally.runs % 5 == 0)]:
        result = run.certificates(folder, inst, mode == "rigorous")
        columns.same_states(truth, result)
        claims = itertools.chain(columns.check(truth, result, mode == "rigorous", np.random.default_rng(1)),
                                 findings.check(truth, result, mode == "rigorous"))
        for name, ratio, violated, what in claims:
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
                    command = ["rankscope", "certify", inst.path(), *inst.arguments(), "--kept", repr(inst.kept), *([] if mode == "rigorous" else ["--fast"])]
                    (target / "violation.json").write_text(json.dumps({"command": command, "column": name, "ratio": ratio, **what}, indent=1))
    return out


TARGETS = [("certified_diameter", "certified_one_layer", "certified_from_input"), ("certified_at_least", "room of enclosure"), ("recursion", "recursion_one_layer", "published"),
           ("lambda_exact_low", "lambda_exact_high"), ("kept_now",), ("lambda_certified", "lambda_certified_negative"),
           ("demanded_by_theorem_a", "demanded_by_theorem_a_layer", "demanded_by_theorem_b", "demanded_by_theorem_d"), ("weights_only_gain", "mlp_weights_only_gain"),
           ("demanded_for_any_input", "kept_for_any_input"), ("theorem_d_kept",),
           ("over_smoothing_v",), ("answer_yes",), ("answer_no",)]


class Attack:
    def __init__(self, options):
        self.options, self.tally, self.notes, self.refused = options, Tally(), collections.Counter(), collections.Counter()
        self.folder, self.runs = tempfile.mkdtemp(), 0

    def measure(self, inst, name):
        self.runs += 1
        try:
            return one(inst, name, self.tally, self.folder, self.options.keep, self.notes, self.options.rigorous)
        except run.Refused as e:
            self.refused[str(e)[-160:]] += 1
            return []

    def start(self, rng, seed):
        """A random instance: of a family, or built for one weakness."""
        names = self.options.family
        name = names[seed % len(names)]
        return name, scenarios.SCENARIOS[name](rng) if name in scenarios.SCENARIOS else draw.draw(rng, name)

    def step(self, seed):
        rng = np.random.default_rng([seed, 11])
        name, inst = self.start(rng, seed)
        if rng.random() < self.options.climb:
            targets = [t for t in TARGETS if not self.options.column or set(t) & set(self.options.column)]
            wanted = targets[rng.integers(len(targets))]
            count = itertools.count()
            climb.climb(rng, inst, wanted, lambda i: self.measure(i, f"{name} {seed}.{next(count)}"), self.options.steps)
        else:
            self.measure(inst, f"{name} {seed}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few minutes")
    parser.add_argument("--instances", type=int, default=2000, help="until each column that the rows of table bounds fill has so many")
    parser.add_argument("--seconds", type=float, help="or until so much time has passed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--family", nargs="*", default=draw.FAMILIES + list(scenarios.SCENARIOS), help="families and scenarios, in turn")
    parser.add_argument("--column", nargs="*", help="climb for these alone")
    parser.add_argument("--climb", type=float, default=0.3, help="share of instances that are climbed from")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rigorous", action="store_true", help="both modes for every instance (else --rigorous for one in five)")
    parser.add_argument("--more", type=int, default=1, help="times as many samples a run (families, bare, clean_post_norm, tight_gelu)")
    parser.add_argument("--keep", help="folder for instances that break a claim")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.instances = 120, 10**9
    draw.more = options.more
    attack, began, seed = Attack(options), time.time(), options.seed
    print(f"seed {options.seed}, program {run.PROGRAM}", flush=True)
    try:
        while attack.tally.count["certified_one_layer", "default"] < options.instances and not (options.seconds and time.time() - began > options.seconds):
            attack.step(seed)
            seed += 1
    except KeyboardInterrupt:
        print("interrupted")
    attack.tally.show()
    for text, count in attack.refused.most_common(5):
        print(f"refused {count} times: {text}")
    broken = sum(attack.tally.violations.values())
    print(f"seeds {options.seed} to {seed - 1}, {attack.runs} runs, {time.time() - began:.0f} s, {broken} violations")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
