#!/usr/bin/env python3
"""Attack the sentences of probe, scan, certify and paths: is what they say true by the rules of docs/?

Draws architecture files of odd shapes (one layer, one head, one token, width 1, grouped heads, windows, every norm, with
and without skips and MLPs, depth 1 to 96), checkpoints under tests/golden, planted defects, options, variants and
thresholds; runs the program; and recomputes from the tables of the JSON result, by rules written here after docs/ and not
after src/, the verdict (code, severity, value, threshold, and the numbers in its sentence), the findings (which, how
many, the worst, their severity), the nulls of table attention, and whether JSON, text, HTML and exit code agree.
Every violation is printed with its command, which can be run again in the folder that it names.

`families` plants defects in checkpoints under tests/golden, `laws` recomputes what the laws of --init give, `twin` the
nulls of --null random by a second run.

    tests/oracle/attack_verdicts.py build/rankscope --instances 300 --seed 1
    tests/oracle/attack_verdicts.py build/rankscope --seconds 120 --only probe,planted

Needs numpy. Exit status 1 when something was violated.
"""
import argparse
import concurrent.futures
import json
import math
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from verdicts import draws, families, laws, planted, twin  # noqa: E402
from verdicts.case import NUMBER, Case, check_common, check_outputs  # noqa: E402
from verdicts.certify import check_certify  # noqa: E402
from verdicts.paths import check_paths  # noqa: E402
from verdicts.probe import check_probe  # noqa: E402
from verdicts.scan import check_scan  # noqa: E402

CHECKS = {"probe": check_probe, "scan": check_scan, "certify": check_certify, "paths": check_paths}
PLANS = {"families": families, "laws": laws, "twin": twin}


def result_of(program, args, folder):
    """The JSON result of a run (None where it was refused), its exit code, and the beginning of what it said."""
    run = subprocess.run([program] + args + ["--json", "-", "--fail-on", "warn"], cwd=folder, capture_output=True, text=True)
    return (json.loads(run.stdout) if run.returncode in (0, 3) else None), run.returncode, run.stderr[:200]


def attack(program, command, seed, scratch, keep):
    rng = random.Random(f"{command}/{seed}")
    folder = Path(scratch) / f"{command}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    defect = plan = None
    if command in PLANS:
        args, plan = PLANS[command].draw(rng, folder)
    elif command == "planted":
        kind, layer, head, n = planted.plant(rng, folder)
        defect = kind, layer, head
        weights = kind in ("low_rank", "low_rank_ov", "dead")
        args = ["scan", "m"] if weights else ["probe", "m", "--random", "3", "--seq-len", str(n), "--no-spectral"]
    else:
        args = draws.draw(rng, command, folder)
    case = Case(command, folder, args)
    case.result, case.rc, complaint = result_of(program, args, folder)
    if case.result is None:
        case.check(case.rc in (1, 2), f"exit {case.rc}: {complaint}")
        case.check(command not in ("families", "laws"), f"refused: {complaint}")
    else:
        check_common(case)
        if defect:
            planted.check_planted(case, *defect)
        try:
            CHECKS[args[0]](case)
            if plan:
                PLANS[command].check(case, plan, lambda other: result_of(program, other, folder)[0])
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
    parser.add_argument("--only", default="probe,scan,certify,paths,planted,families,laws,twin")
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
