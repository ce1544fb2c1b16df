#!/usr/bin/env python3
"""sweep_predict.py RANKSCOPE [COUNT [FIRST [SCRATCH]]]: theory against networks that are drawn, over random architectures.

Draws descriptions (width 64 to 512, 8 to 128 tokens, up to 16 layers, every norm, three MLPs, masks, rotary positions, logits of
deviation up to 2), runs `predict` on each and compares every layer of both directions itself: rho, ||X||^2, gV, gQ, dX. A row may
differ by more than the documented amounts only where its theory_note says so. Prints each violation, how often rows had notes, and
the quartiles of theory over measured; exit 1 where a row violates silently. Takes some seconds a description.
"""
import json
import math
import os
import random
import subprocess
import sys
import tempfile


def draw(seed):
    r = random.Random(seed)
    heads = r.choice([1, 2, 4, 8])
    arch = dict(depth=r.randint(1, 16), d_model=r.choice([64, 96, 128, 256, 512]), heads=heads, seq_len=r.choice([8, 16, 24, 32, 64, 128]),
                norm=r.choice(["none", "pre", "post", "sandwich"]), norm_kind=r.choice(["layernorm", "rmsnorm"]),
                mlp=r.choice(["relu", "gelu", "swiglu"]), mask=r.choice(["none", "none", "causal", "causal", "sliding:%d" % r.randint(2, 12)]),
                temperature=round(math.exp(r.uniform(math.log(0.5), math.log(3))), 3))
    if r.random() < 0.25 and (arch["d_model"] // heads) % 2 == 0:
        arch["positions"] = "rope"
    if r.random() < 0.5:
        arch["branch_mixer"] = arch["branch_mlp"] = r.choice(["1/sqrt(L)", 0.5, 0.3, "1/L", "1/sqrt(l+1)"])
    if r.random() < 0.1:
        arch["skip_mixer"] = 0
    if arch["norm"] == "none" and arch["depth"] > 6:
        arch["branch_mixer"] = arch["branch_mlp"] = "1/sqrt(L)"
    arch["input"] = dict(rho=r.choice([0, 0, 0.1, 0.4, 0.8]))
    return arch


def number(row, name):
    value = row.get(name)
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def compare(arch, forward, backward, ratios):
    """Rows that differ by more than is promised, with their notes."""
    bare = arch.get("skip_mixer", 1) == 0
    for row in forward[1:]:
        theory, drawn, se = (number(row, k) for k in ("rho_theory", "rho", "rho_se"))
        if None not in (theory, drawn, se):
            ratios["rho"].append(theory - drawn)
            if abs(theory - drawn) > (0.08 if bare else 0.03) + 1.5 / arch["d_model"] + 3 * se:
                yield "rho", row["layer"], theory, drawn, row["theory_note"]
        a, b, se = (number(row, k) for k in ("F2_theory", "F2", "F2_se"))
        if None not in (a, b, se) and b > 0 and se < 0.3 * b:
            ratios["F2"].append(a / b)
            if abs(math.log(a / b)) > math.log(1.1) + 3 * se / b:
                yield "F2", row["layer"], a, b, row["theory_note"]
    for row in backward:
        apart = number(forward[row["layer"]], "log10_one_minus_rho")
        loose = 3.5 if bare or (apart is not None and apart < -1) else 1.6
        for name, within in (("gV", 1.25), ("gQ", loose)):
            a, b, se = (number(row, name + k) for k in ("_theory", "", "_se"))
            if None in (a, b, se) or b <= 0 or a <= 0 or se > 0.3 * b:
                continue
            ratios[name].append(a / b)
            if abs(math.log(a / b)) > math.log(within) + 3 * se / b:
                yield name, row["layer"], a, b, row["theory_note"]
        a, b = number(row, "log10_dX_theory"), number(row, "log10_dX")
        if None not in (a, b):
            ratios["dX"].append(10 ** (a - b))


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    scratch = sys.argv[4] if len(sys.argv) > 4 else tempfile.mkdtemp()
    ratios = {name: [] for name in ("rho", "F2", "gV", "gQ", "dX")}
    silent = noted = without = 0
    for seed in range(first, first + count):
        arch, path = draw(seed), os.path.join(scratch, "sweep.json")
        with open(path, "w") as out:
            json.dump(arch, out)
        trials = 24 if arch["d_model"] * arch["seq_len"] <= 8192 else 10
        run = subprocess.run([program, "predict", path, "--trials", str(trials), "--remedies", "pre-norm", "--quiet", "--json", "-"],
                             capture_output=True, text=True)
        if run.returncode not in (0, 1):
            print("seed %d: exit %d: %s" % (seed, run.returncode, run.stderr.strip()[-200:]))
            silent += 1
            continue
        tables = json.loads(run.stdout)["tables"]
        without += number(tables["forward"][-1], "rho_theory") is None
        for name, layer, theory, drawn, note in compare(arch, tables["forward"], tables["backward"], ratios):
            noted += note is not None
            silent += note is None
            print("seed %d %s layer %d: theory %.4g drawn %.4g, %s" % (seed, name, layer, theory, drawn, note or "SILENT"), json.dumps(arch), flush=True)
    for name, values in ratios.items():
        values.sort()
        if values:
            print(name, "rows %d, theory %s drawn: least %.3g, quartiles %.3g %.3g %.3g, most %.3g" %
                  (len(values), "-" if name == "rho" else "/", values[0], *(values[len(values) * q // 4] for q in (1, 2, 3)), values[-1]))
    print("%d descriptions, %d without theory at the end, %d rows beyond with a note, %d silent" % (count, without, noted, silent))
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
