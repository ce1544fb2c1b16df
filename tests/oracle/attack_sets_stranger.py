#!/usr/bin/env python3
"""Attacks what tables `lambda` and `intervals` of `rankscope certify` claim of one input, of every mixer; written from docs alone.

attack_sets_stranger.py build/rankscope ARCH_WEIGHTS [--instances N] [--seed S] [--only KIND,KIND] [--keep DIR] [--seconds T]

ARCH_WEIGHTS is built from tests/oracle/arch_weights.c. The branch O on a skip (of parallel branches the sum) is worked out from the tapped
float64 state X by the definitions, in long double, and each claim about lambda X + O is tried at the ends of its set, inside and far out:
intervals, exact ends, half lines, kept_now, theorems A, B and D of either sign (also for branches no longer than this one), and the share
that a fixed matrix keeps of every X whose mean is small (L28). What is marked conditional is tried twice: for the branch of the pass, number for
number, and for the exact one with room for the rounding of a pass. With --climb some instances are climbed from.
"""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attack_stranger.instances_of_sets import KINDS  # noqa: E402
from attack_stranger.run_sets import SetAttack  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("weights")
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--steps", type=int, default=12, help="of each climb over branches")
    parser.add_argument("--climb", type=int, default=0, help="steps of each climb over weights and states")
    parser.add_argument("--every", type=int, default=10, help="of so many instances one is climbed from")
    parser.add_argument("--kinds", action="store_true", help="count each column's claims by kind")
    parser.add_argument("--far", type=int, default=5, help="show so many cases of fixed_mixing_kept that the climb stays far from")
    parser.add_argument("--keep", help="folder for instances that break a claim")
    options = parser.parse_args()
    attack, began, kinds = SetAttack(options), time.time(), options.only.split(",")
    seed = options.seed
    while seed < options.seed + options.instances and time.time() - began < options.seconds:
        attack.one(seed, kinds[seed % len(kinds)])
        seed += 1
    attack.show()
    print(f"seeds {options.seed} to {seed - 1}, {attack.runs} runs, {time.time() - began:.0f} s, {len(attack.violations)} violations")
    return 1 if attack.violations else 0


if __name__ == "__main__":
    sys.exit(main())
