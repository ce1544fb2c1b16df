#!/usr/bin/env python3
"""Tries table `ssm` of scan (docs/scan.md) on random checkpoints of state-space families.

attack_scan_ssm.py build/rankscope [--instances N] [--seed S] [--only NAME,NAME]

Each instance draws a model of attack_families.py (and Zamba 2), puts random steps into its configuration (least, largest, floor,
limits; also the older names of Nemotron-H, fields that are absent, infinity in its spellings), and makes every cell again in NumPy
from the stored tensors. Expected values at initialisation are integrals over the law of the extreme of n log-uniform steps by
adaptive quadrature, where nothing is cut for one step also the closed form by E1.
"""
import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict

import numpy as np
import torch
import transformers as T
from safetensors.numpy import load_file
from scipy.integrate import quad
from scipy.special import exp1

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attack_families as F  # noqa: E402
from double_models import randomise  # noqa: E402

WORST = defaultdict(float)


def zamba2(r):
    heads, groups = r.choice((2, 4)), r.choice((1, 2))
    return T.Zamba2ForCausalLM, T.Zamba2Config(
        vocab_size=23, hidden_size=16, num_hidden_layers=4, mamba_d_state=r.randint(1, 6), mamba_d_conv=4, mamba_expand=2,
        n_mamba_heads=heads, mamba_headdim=32 // heads, mamba_ngroups=groups, num_attention_heads=2, num_key_value_heads=2,
        intermediate_size=8, hybrid_layer_ids=[1, 3], layers_block_type=["mamba", "hybrid", "mamba", "hybrid"], num_mem_blocks=1,
        adapter_rank=2, chunk_size=4, pad_token_id=0)


FAMILIES = {n: F.FAMILIES[n] for n in ("mamba", "falcon_mamba", "mamba2", "bamba", "jamba", "granite_hybrid", "falcon_h1", "nemotron_h")}
FAMILIES["zamba2"] = zamba2
LIMITED = ("mamba2", "bamba", "granite_hybrid", "falcon_h1")  # time_step_limit; docs/scan.md
MINIMUM = ("zamba2", "nemotron_h")


def draw_steps(r, name, written):
    """Random steps in the configuration; returns least, largest, floor and limits as docs/scan.md has them."""
    low, high, floor = 0.001, 0.1, 1e-4
    for key in ("time_step_min", "time_step_max", "time_step_floor", "time_step_limit", "mamba_dt_min", "mamba_dt_max", "mamba_dt_limit",
                "mamba_dt_init_floor"):
        written.pop(key, None)
    if r.random() < 0.6:
        low = r.choice((1e-5, 0.001, 0.02, 0.7))
        high = low * r.choice((1.0, 1.5, 100.0))
        written["time_step_min"], written["time_step_max"] = low, high
    if r.random() < 0.5:
        floor = written["time_step_floor"] = r.choice((1e-4, 0.003, 0.05))
    least, most = 0.0, math.inf
    if r.random() < 0.6:
        given = r.choice(((0.0, math.inf), (0.002, 0.05), (0.01, math.inf), (0.0, 0.03), (0.3, 0.3)))
        written["time_step_limit"] = [given[0], r.choice((math.inf, {"__float__": "Infinity"})) if given[1] == math.inf else given[1]]
        if name in LIMITED:
            least, most = given
    if name in MINIMUM:
        least, most = low, math.inf
    if name == "nemotron_h" and r.random() < 0.3:
        for key, old in (("time_step_min", "mamba_dt_min"), ("time_step_max", "mamba_dt_max"), ("time_step_floor", "mamba_dt_init_floor")):
            if key in written:
                written[old] = written.pop(key)
    return low, high, floor, least, most


def expected(law, g, n, greatest):
    """E g(step) of the extreme of n steps, log-uniform and then cut."""
    low, high, floor, least, most = law

    def cut(step):
        return min(max(max(step, floor), least), most)
    if low == high:
        return g(cut(low))
    span = math.log(high / low)

    def at(u):  # the extreme's quantile
        return cut(low * math.exp(span * (u ** (1 / n) if greatest else -math.expm1(math.log(u) / n) if u > 0 else 1.0)))
    marks = sorted({t for t in (math.log(x / low) / span for x in (floor, least, most) if 0 < x < math.inf) if 0 < t < 1})
    points = sorted(t ** n if greatest else (1 - t) ** n for t in marks)
    edges = [0.0, *points, 1.0]
    edges = sorted(set(edges) | {10.0 ** -k for k in range(1, 16)})
    return sum(quad(lambda u: g(at(u)), a, b, epsabs=1e-15, epsrel=1e-13, limit=200)[0] for a, b in zip(edges, edges[1:]))


def cells(law, a, dt, d, head):
    """One row: a [channels, states], dt and d [channels]."""
    steps = np.clip(np.where(dt > 20, dt, np.log1p(np.exp(np.minimum(dt, 20)))), law[3], law[4])
    decay = np.exp(a * steps[:, None])
    n, fast, slow = (1, head + 1, head + 1) if head is not None else (len(a), a.shape[1], 1)
    least = expected(law, lambda s: math.exp(-fast * s), n, True)
    return dict(decay_min=decay.min(), decay_max=decay.max(), delta_rest=steps.mean(), d_mean=np.abs(d).mean(), d_max=np.abs(d).max(),
                decay_min_null=least, decay_max_null=expected(law, lambda s: math.exp(-slow * s), n, False) if head is None else least,
                delta_rest_null=expected(law, lambda s: s, 1, False), d_mean_null=1.0, d_max_null=1.0)


def wanted(folder, law):
    weights = {k: v.astype(np.float64) for k, v in load_file(os.path.join(folder, "model.safetensors")).items()}
    rows = {}
    for key in (k for k in weights if k.endswith(".A_log")):
        base = key[:-len("A_log")]
        layer = int(key.split("layers.")[1].split(".")[0])
        a, d = -np.exp(weights[key]), weights[base + "D"]
        if a.ndim == 2:
            rows[layer, None] = cells(law, a, weights[base + "dt_proj.bias"], d, None)
        else:
            for h in range(len(a)):
                rows[layer, h] = cells(law, a[h].reshape(1, 1), weights[base + "dt_bias"][[h]], d[[h]], h)
    return rows


def attack(program, name, seed, folder):
    r = random.Random(f"scan{name}{seed}")
    cls, config, *edit = FAMILIES[name](r)
    model = cls(config)
    randomise(model, seed, r.choice((0.1, 1.0, 5.0)))
    model.save_pretrained(folder)
    path = os.path.join(folder, "config.json")
    written = json.load(open(path))
    if edit:
        edit[0](written)
    law = draw_steps(r, name, written)
    json.dump(written, open(path, "w"))
    done = subprocess.run([program, "scan", folder, "--threads", "1", "--json", "-", "--quiet"], capture_output=True, text=True)
    if done.returncode:
        return "refused: " + done.stderr.strip(), []
    found = {(row["layer"], row["head"]): row for row in json.loads(done.stdout)["tables"].get("ssm", [])}
    rows = wanted(folder, law)
    if set(found) != set(rows):
        return None, [f"rows {sorted(map(str, found))}, not {sorted(map(str, rows))}"]
    if law[0] < law[1] and law[2] <= law[0] and (law[3] <= law[0]) and law[4] >= law[1]:
        for (layer, head), row in rows.items():
            if head is not None:
                closed = (exp1((head + 1) * law[0]) - exp1((head + 1) * law[1])) / math.log(law[1] / law[0])
                assert abs(closed - row["decay_min_null"]) < 1e-11, (closed, row)
    wrong = []
    for key, row in rows.items():
        for column, value in row.items():
            got = found[key][column]
            error = abs(got - value) / max(abs(value), 1e-300) if got is not None else math.inf
            if error <= (1e-9 if column.endswith("_null") else 1e-12):
                WORST[column] = max(WORST[column], error)
            else:
                wrong.append(f"layer {key[0]} head {key[1]} {column}: {got}, not {value}; law {law}")
    return None, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(FAMILIES))
    args = parser.parse_args()
    T.logging.set_verbosity_error()
    T.logging.disable_progress_bar()
    torch.set_num_threads(1)
    failed = 0
    for name in args.only.split(","):
        refused, differ = 0, 0
        for seed in range(args.seed, args.seed + args.instances):
            folder = tempfile.mkdtemp()
            no, wrong = attack(args.program, name, seed, folder)
            refused += bool(no)
            differ += bool(wrong)
            if no or wrong:
                print(f"{name} {seed}: {no or '; '.join(wrong[:2])}", flush=True)
            shutil.rmtree(folder)
        failed += differ
        print(f"{name}: {args.instances} instances, {refused} refused, {differ} differ", flush=True)
    print("worst: " + ", ".join(f"{k} {v:.1e}" for k, v in sorted(WORST.items())))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
