#!/usr/bin/env python3
"""Climbs inputs against what `rankscope certify` claims of state-space mixers for every input; written from docs alone.

attack_gains_stranger.py build/rankscope ARCH_WEIGHTS [--instances N] [--seed S] [--only KIND,KIND] [--keep DIR] [--seconds T]

ARCH_WEIGHTS is built from tests/oracle/arch_weights.c. Kinds are mixers of architecture files (arch_mamba, ...) and families of
checkpoints, written here with wild weights (mamba, falcon_mamba, mamba2, jamba, falcon_h1, qwen3_5, nemotron_h). Each mixer is worked out anew
from its definition (docs/theory/ssm.md); an instance whose branch does not agree with the program's own tap is reported as such, so
that no attack runs on another function than the one the claim is about. Then inputs are climbed for weights_only_gain and
mlp_weights_only_gain, branches for theorems A and D, states for theorem C, and small differences are followed for the consensus.
Prints the largest true/claimed of each column and kind (beyond 1 the claim is false), every violation, and why columns were null.
"""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attack_stranger.checks_gains import Attack  # noqa: E402
from attack_stranger.instances import KINDS  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("weights")
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--climbs", type=int, default=2, help="restarted so many times a column")
    parser.add_argument("--restarts", type=int, default=64, help="first inputs of each climb")
    parser.add_argument("--nulls", action="store_true", help="count why columns are null")
    parser.add_argument("--keep", help="folder for instances that break a claim")
    options = parser.parse_args()
    attack, began, kinds = Attack(options), time.time(), options.only.split(",")
    seed = options.seed
    while seed < options.seed + options.instances and time.time() - began < options.seconds:
        attack.one(seed, kinds[seed % len(kinds)])
        seed += 1
    attack.show()
    print(f"seeds {options.seed} to {seed - 1}, {attack.runs} instances, {time.time() - began:.0f} s, {len(attack.violations)} violations")
    sys.exit(1 if attack.violations else 0)


if __name__ == "__main__":
    main()
