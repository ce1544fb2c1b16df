#!/usr/bin/env python3
"""Attacks column weights_only_gain of `certify` for mixers without softmax (docs/certificates_lambda.md, L21 to L24).

attack_gains.py build/rankscope [--arch-weights ARCH_WEIGHTS] [--instances N] [--seconds S] [--seed S] [--only WORD]

Checkpoints: the small ones of tests/golden/forward, each with its mixers' tensors drawn anew at random sizes, some with the gate or
the inner norms taken away. ARCH_WEIGHTS (attack_mixers.py says how to build it): drawn architecture files too. Of every layer

  - the claimed gain is recomputed by its formulas, written down here a second time: the program's may be above it by rounding only;
  - inputs (rows of norm sqrt(d) before the norm's gain) are climbed for the longest row of the branch, which is never above
    claimed*sqrt(d); the best input of each kind is worked out once more with 40 digits (mpmath).

Prints, for every kind, the largest true/claimed, and claimed/formula; fails with what was above.
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

import mpmath
import numpy as np
from safetensors.numpy import load_file, save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attack_mixers as A  # noqa: E402
import mixer_definitions as D  # noqa: E402

FORWARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "forward")
TEMPLATES = ("mamba", "mamba_biased", "falcon_mamba", "jamba", "mamba2", "mamba2_limits", "bamba", "nemotron_h", "nemotron_h_steps",
             "granite_hybrid", "falcon_h1", "falcon_h1_norm", "falcon_h1_gate_first", "falcon_h1_biased")
WORST, FORMULA, COUNT = defaultdict(float), defaultdict(lambda: [math.inf, -math.inf]), defaultdict(int)


# ---- checkpoints with tensors drawn anew ----

def redraw(r, tensors):
    """Sizes over two decades, gains of norms of unequal size, rates and steps of every kind."""
    g, out = np.random.default_rng(r.randrange(1 << 30)), {}
    for name, x in tensors.items():
        part = name.split(".")[-2] + "." + name.split(".")[-1]
        mixer = any(w in name for w in (".mixer.", ".mamba.", "input_layernorm", ".norm.weight"))
        if not mixer or "down_proj" in name or "up_proj" in name:
            out[name] = x
        elif name.endswith("A_log"):
            out[name] = g.uniform(-8, 4, x.shape).astype(x.dtype)
        elif "norm" in part:
            out[name] = np.exp(g.normal(0, r.choice((0.1, 1.5)), x.shape)).astype(x.dtype)
        elif name.endswith("dt_bias") or "dt_proj.bias" in name:
            out[name] = g.normal(-2, 3, x.shape).astype(x.dtype)
        else:
            out[name] = (g.normal(0, 1, x.shape) * 10.0 ** r.uniform(-2, 0.3)).astype(x.dtype)
    return out


def checkpoint(r, folder):
    name = r.choice(TEMPLATES)
    source = os.path.join(FORWARD, name)
    shutil.copy(os.path.join(source, "config.json"), folder)
    tensors = redraw(r, load_file(os.path.join(source, "model.safetensors")))
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    options = r.choice(([], [], ["--no-inner-norm"], ["--no-gate"]))
    return name, tensors, json.load(open(os.path.join(source, "config.json"))), options


def whole(config, *names, default=None):
    return next((config[n] for n in names if config.get(n) is not None), default)


def real(x):
    return math.inf if x in ("Infinity", {"__float__": "Infinity"}) else float(x)


def layers_of(tensors, config, options):
    """By layer, what its Mamba or Mamba-2 mixer is made of; biases zero where there are none."""
    out = {}
    for name in tensors:
        if not name.endswith(".A_log"):
            continue
        p, l = name[:-5], int(name.split("layers.")[1].split(".")[0])
        get = lambda n, shape=None: tensors[p + n].astype(np.float64) if p + n in tensors else (np.zeros(shape) if shape else None)
        block = p.rsplit(".", 2)[0] + "."
        gamma = next(tensors[block + n].astype(np.float64) for n in ("norm.weight", "input_layernorm.weight") if block + n in tensors)
        w = {"in": get("in_proj.weight"), "out": get("out_proj.weight"), "a": np.exp(get("A_log")), "D": get("D"), "gamma": gamma, "d": len(gamma),
             "gated": "--no-gate" not in options, "kind": "mamba" if get("x_proj.weight") is not None else "mamba2", "attention": 0.0}
        w["in_b"], w["out_b"] = get("in_proj.bias", (len(w["in"]),)), get("out_proj.bias", (len(w["out"]),))
        w["conv"] = get("conv1d.weight")[:, 0, :]
        w["conv_b"] = get("conv1d.bias", (len(w["conv"]),))
        w["eps"] = whole(config, "layer_norm_epsilon", "rms_norm_eps", default=1e-5)
        normed = "--no-inner-norm" not in options
        (s6_of if w["kind"] == "mamba" else ssd_of)(w, get, config, normed)
        if config["model_type"] == "falcon_h1":
            multiply(w, tensors, block, config)
        w["scale"] = abs(config.get("residual_multiplier", 1.0))
        out[l] = w
    return out


def s6_of(w, get, config, normed):
    w["x"], w["dt"], w["dt_b"] = get("x_proj.weight"), get("dt_proj.weight"), get("dt_proj.bias")
    n, rank = w["a"].shape[1], w["dt"].shape[1]
    bare = config["model_type"] == "falcon_mamba"
    norms = [np.ones(k) if bare else get(f"{name}_layernorm.weight") for name, k in (("dt", rank), ("b", n), ("c", n))]
    w["norms"] = norms if normed and norms[0] is not None else None
    w["inner_eps"] = whole(config, "mixer_rms_eps", "rms_norm_eps", default=1e-6)


def ssd_of(w, get, config, normed):
    w["heads"] = len(w["a"])
    inner = w["out"].shape[1]
    w["state"] = whole(config, "state_size", "mamba_d_state", "ssm_state_size")
    w["groups"] = (len(w["conv"]) - inner) // (2 * w["state"])
    w["dt_bias"] = get("dt_bias")
    w["norm"] = get("norm.weight") if normed else None
    if w["norm"] is not None:
        w["norm"] = w["norm"].reshape(-1)
    low, high = (real(x) for x in whole(config, "time_step_limit", default=[0.0, "Infinity"]))
    if config["model_type"] in ("zamba2", "nemotron_h"):
        low, high = whole(config, "time_step_min", "mamba_dt_min", default=0.001), math.inf
    w["limit"] = (low, high)
    w["behind"] = bool(config.get("mamba_norm_before_gate"))


def multiply(w, t, block, c):
    """Falcon-H1: multipliers into the maps; its attention's gain beside it."""
    inner, keys, heads = w["out"].shape[1], w["groups"] * w["state"], w["heads"]
    sizes = (inner, inner, keys, keys, heads)
    w["in"] = w["in"] * (np.repeat(c["ssm_multipliers"], sizes) * c["ssm_in_multiplier"])[:, None]
    w["in_b"] = w["in_b"] * np.repeat(c["ssm_multipliers"], sizes)
    w["out"], w["out_b"] = w["out"] * c["ssm_out_multiplier"], w["out_b"] * c["ssm_out_multiplier"]
    if block + "self_attn.v_proj.weight" not in t:
        return
    v, o = (t[block + f"self_attn.{n}_proj.weight"].astype(np.float64) for n in "vo")
    vb = t.get(block + "self_attn.v_proj.bias", np.zeros(len(v))).astype(np.float64)
    ob = t.get(block + "self_attn.o_proj.bias", np.zeros(len(o))).astype(np.float64)
    many, few = c["num_attention_heads"], c["num_key_value_heads"]
    dim, most = len(v) // few, np.abs(w["gamma"]).max()
    total, carried = 0.0, np.linalg.norm(ob)
    for h in range(many):
        g = h // (many // few)
        oh = o[:, h * dim:(h + 1) * dim]
        total += np.linalg.norm(oh @ v[g * dim:(g + 1) * dim], 2) * most * c["attention_in_multiplier"]
        carried += np.linalg.norm(oh, 2) * np.linalg.norm(vb[g * dim:(g + 1) * dim])
    w["attention"] = (total + carried / math.sqrt(w["d"])) * c["attention_out_multiplier"]


# ---- the formulas ----

def silu(x):
    return x / (1 + np.exp(-np.clip(x, -700, 700)))


def softplus(x):
    return np.where(x > 30, x, np.log1p(np.exp(np.minimum(x, 30))))


def two(m):
    return np.linalg.norm(m, 2)


def read(w, rows):
    m = w["in"][rows] * w["gamma"]
    size = math.sqrt(w["d"]) * np.linalg.norm(m, axis=1)
    b = w["in_b"][rows]
    most = size + np.abs(b)
    return most, size + b, min(math.sqrt(w["d"]) * two(m) + np.linalg.norm(b), np.linalg.norm(most))


def convolved(w, part, channels):
    most, _, length = part
    k, b = w["conv"][channels], w["conv_b"][channels]
    together = (np.abs(k).max(0) * length).sum() + np.linalg.norm(b)
    most = silu(np.abs(k).sum(1) * most + np.abs(b))
    return most, min(together, np.linalg.norm(most))


def row_sum(a, step, tokens):
    x = a * step
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.minimum(tokens * step, np.where(x > 0, step / -np.expm1(-x), np.inf))


def channel_sum(b, c, gains, lengths, g, skip):
    entries = (b * c * g).sum()
    turned = min(np.abs(gains).max() * np.max(g), np.linalg.norm(gains * g))
    return min(entries, lengths[0] * lengths[1] * turned) + abs(skip)


def chain(w, y, z):
    out = w["out"]
    if z is None:
        return min(two(out * y) * math.sqrt(out.shape[1]), two(out) * np.linalg.norm(y))
    gate = silu(z[0])
    return min(two(out * y) * min(z[2], np.linalg.norm(gate)), two(out) * np.linalg.norm(y * gate))


def claimed_s6(w, tokens):
    inner, n = w["a"].shape
    rank = w["dt"].shape[1]
    u, length = convolved(w, read(w, slice(0, inner)), slice(0, inner))
    z = read(w, slice(inner, 2 * inner)) if w["gated"] else None
    parts, most, lengths, gains = (slice(0, rank), slice(rank, rank + n), slice(rank + n, rank + 2 * n)), [], [], []
    for k, s in enumerate(parts):
        m = w["x"][s]
        rows = np.minimum(np.abs(m) @ u, np.linalg.norm(m, axis=1) * length)
        together, gain = min(two(m) * length, np.linalg.norm(rows)), np.ones(len(m))
        if w["norms"]:
            gain = w["norms"][k]
            rows, together = np.abs(gain) * math.sqrt(len(m)), math.sqrt(len(m))
        most.append(rows), lengths.append(together), gains.append(gain)
    before = np.minimum(np.abs(w["dt"]) @ most[0], np.linalg.norm(w["dt"] * gains[0], axis=1) * lengths[0]) + w["dt_b"]
    step = softplus(before)
    y = [u[c] * channel_sum(most[1], most[2], gains[1] * gains[2], lengths[1:], row_sum(w["a"][c], step[c], tokens), w["D"][c])
         for c in range(inner)]
    return chain(w, np.array(y), z)


def claimed_ssd(w, tokens):
    inner, keys, heads, n = w["out"].shape[1], w["groups"] * w["state"], w["heads"], w["state"]
    z = read(w, slice(0, inner)) if w["gated"] else None
    if w["norm"] is not None:
        gate = silu(z[0]) if w["gated"] and w["behind"] else 1
        return math.sqrt(inner) * two(w["out"] * (np.abs(w["norm"]) * gate))
    u, _ = convolved(w, read(w, slice(inner, 2 * inner)), slice(0, inner))
    b, b_length = convolved(w, read(w, slice(2 * inner, 2 * inner + keys)), slice(inner, inner + keys))
    c, c_length = convolved(w, read(w, slice(2 * inner + keys, 2 * inner + 2 * keys)), slice(inner + keys, inner + 2 * keys))
    step = np.clip(softplus(read(w, slice(2 * inner + 2 * keys, None))[1] + w["dt_bias"]), *w["limit"])
    y = u.copy()
    for h in range(heads):
        g = slice(h // (heads // w["groups"]) * n, (h // (heads // w["groups"]) + 1) * n)
        sums = channel_sum(b[g], c[g], np.ones(n), (b_length, c_length), row_sum(w["a"][h], step[h], tokens), w["D"][h])
        y[h * inner // heads:(h + 1) * inner // heads] *= sums
    return chain(w, y, z)


def formula(w, tokens):
    rows = (claimed_s6 if w["kind"] == "mamba" else claimed_ssd)(w, tokens) + np.linalg.norm(w["out_b"])
    return w["scale"] * rows / math.sqrt(w["d"]) + w["attention"]


# ---- the branch itself, of rows x of norm sqrt(d) at most; k: a kind of number of mixer_definitions.py ----

def convolve(k, x, w, channels):
    y = k.zeros(*x.shape) + k.array(w["conv_b"][channels])
    taps = k.array(w["conv"][channels])
    for t in range(len(x)):
        for j in range(taps.shape[1]):
            if t - taps.shape[1] + 1 + j >= 0:
                y[t] += taps[:, j] * x[t - taps.shape[1] + 1 + j]
    return k.silu(y)


def rms(k, x, gain, eps):
    return x / k.sqrt((x * x).sum(-1, keepdims=True) / x.shape[-1] + k.one(eps)) * gain


def branch(k, w, x):
    x = x * k.array(w["gamma"])
    both = x @ k.array(w["in"]).T + k.array(w["in_b"])
    y = (scan_s6 if w["kind"] == "mamba" else scan_ssd)(k, w, both)
    return (y @ k.array(w["out"]).T + k.array(w["out_b"])) * k.one(w["scale"])


def scan_s6(k, w, both):
    inner, n = w["a"].shape
    rank = w["dt"].shape[1]
    u = convolve(k, both[:, :inner], w, slice(0, inner))
    three = u @ k.array(w["x"]).T
    dt, b, c = three[:, :rank], three[:, rank:rank + n], three[:, rank + n:]
    if w["norms"]:
        dt, b, c = (rms(k, part, k.array(g), w["inner_eps"]) for part, g in zip((dt, b, c), w["norms"]))
    step = k.softplus(dt @ k.array(w["dt"]).T + k.array(w["dt_b"]))
    a, h, y = k.array(w["a"]), k.zeros(inner, n), k.zeros(*u.shape)
    for t in range(len(u)):
        h = k.exp(-a * step[t][:, None]) * h + (step[t] * u[t])[:, None] * b[t][None, :]
        y[t] = (h * c[t][None, :]).sum(1) + k.array(w["D"]) * u[t]
    return y * k.silu(both[:, inner:]) if w["gated"] else y


def scan_ssd(k, w, both):
    inner, keys, heads, n = w["out"].shape[1], w["groups"] * w["state"], w["heads"], w["state"]
    z, rest, dt = both[:, :inner], convolve(k, both[:, inner:2 * inner + 2 * keys], w, slice(0, None)), both[:, 2 * inner + 2 * keys:]
    step = k.softplus(dt + k.array(w["dt_bias"]))
    low, high = w["limit"]
    step = np.where(step < low, k.one(low), step)
    step = step if math.isinf(high) else np.where(step > high, k.one(high), step)
    dim, y, a = inner // heads, k.zeros(*z.shape), k.array(w["a"])
    for h in range(heads):
        g = h // (heads // w["groups"]) * n
        state = k.zeros(dim, n)
        for t in range(len(z)):
            u, b, c = rest[t, h * dim:(h + 1) * dim], rest[t, inner + g:inner + g + n], rest[t, inner + keys + g:inner + keys + g + n]
            state = k.exp(-a[[h]] * step[t, h])[0] * state + (step[t, h] * u)[:, None] * b[None, :]
            y[t, h * dim:(h + 1) * dim] = state @ c + k.one(w["D"][h]) * u
    gate = k.silu(z) if w["gated"] else 1
    if w["norm"] is None:
        return y * gate
    before, behind = (1, gate) if w["behind"] else (gate, 1)
    groups = w["groups"]
    y = rms(k, (y * before).reshape(len(y), groups, -1), 1, w["eps"]).reshape(len(y), -1) * k.array(w["norm"])
    return y * behind


# ---- climbing ----

def longest(rows):
    return float(np.sqrt((np.asarray(rows, dtype=np.float64) ** 2).sum(1)).max())


def project(x):
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300) * math.sqrt(x.shape[1])


def climb(r, make, n, d, steps):
    """A walk that only goes up, from the best of a few starts; make(x) gives rows of the branch."""
    g = np.random.default_rng(r.randrange(1 << 30))
    starts = [project(g.normal(size=(n, d))) for _ in range(6)] + [project(np.repeat(g.normal(size=(1, d)), n, 0)) for _ in range(6)]
    with np.errstate(all="ignore"):
        best, x = max(((longest(make(s)), i) for i, s in enumerate(starts)), default=(0, 0))[0], None
        x = max(starts, key=lambda s: longest(make(s)))
        size = 0.5
        for _ in range(steps):
            step = g.normal(size=x.shape) * (g.random((n, 1)) < 0.5) if g.random() < 0.7 else np.repeat(g.normal(size=(1, d)), n, 0)
            y = project(x + size * step)
            found = longest(make(y))
            size = min(2.0, size * 1.5) if found > best else max(1e-4, size * 0.93)
            if found > best:
                best, x = found, y
    return best, x


def program_gains(program, path, options, more=()):
    done = subprocess.run([program, "certify", path, "--random", "1", "--seq-len", "7", "--threads", "1", "--json", "-", *options, *more],
                          capture_output=True, text=True)
    if done.returncode:
        return None
    return {row["layer"]: row for row in json.loads(done.stdout)["tables"]["lambda"]}


def report(kind, ratio, claimed, wanted, told):
    COUNT[kind] += 1
    WORST[kind] = max(WORST[kind], ratio)
    if wanted:
        low, high = FORMULA[kind]
        FORMULA[kind] = [min(low, claimed / wanted), max(high, claimed / wanted)]
    bad = [f"true/claimed {ratio}"] if not ratio <= 1 else []
    if wanted and not (1 - 1e-9 <= claimed / wanted <= 1 + 1e-6):
        bad.append(f"claimed/formula {claimed / wanted}")
    if bad:
        print("WRONG", kind, told, *bad, flush=True)
    return bool(bad)


def in_digits(make, x):
    with mpmath.workdps(40):
        k = D.Kind(mp=mpmath)
        rows = make(k, k.array(x))
        return max(mpmath.sqrt(mpmath.fsum(v * v for v in row)) for row in rows)


def one_checkpoint(args, seed):
    r = random.Random(f"gains{seed}")
    folder, wrong = tempfile.mkdtemp(), False
    try:
        name, tensors, config, options = checkpoint(r, folder)
        if args.only and args.only not in name:
            return False
        rows = program_gains(args.program, folder, options)
        if rows is None:
            return False
        n = 7
        for l, w in layers_of(tensors, config, options).items():
            claimed = rows.get(l, {}).get("weights_only_gain")
            if claimed is None:
                COUNT[f"{name} {options}: null, {rows.get(l, {}).get('weights_only_gain_failed')}"] += 1
                continue
            k = D.Kind(np.float64)
            best, x = climb(r, lambda v: branch(k, w, v), n, w["d"], args.steps)
            if best / (claimed * math.sqrt(w["d"])) > 0.9999:
                best = float(in_digits(lambda kk, v: branch(kk, w, v), x))
            wrong |= report(f"{name} {' '.join(options)}", best / (claimed * math.sqrt(w["d"])), claimed, formula(w, n), f"seed {seed} layer {l}")
    finally:
        shutil.rmtree(folder)
    return wrong


# ---- architecture files ----

def one_arch(args, seed):
    r = random.Random(f"gains-arch{seed}")
    kind = r.choice(("mamba", "mamba2", "gated_delta", "linear_attention"))
    folder, wrong = tempfile.mkdtemp(), False
    try:
        a, _ = A.draw_arch(r, (kind,))
        a.update(norm=r.choice(("pre", "post")), inner_norm=r.choice((True, True, False)), gate=r.choice(("before", "after", "none")), mlp="none", seq_len=7)
        a.pop("vocab", None)
        spec = A.meaning(a)
        path = os.path.join(folder, "arch.json")
        json.dump(a, open(path, "w"))
        rows = program_gains(args.program, path, [], ["--init", "default", "--seed", str(seed)])
        it = object.__new__(A.Instance)
        it.args, it.seed, it.folder = argparse.Namespace(weights=args.arch_weights), seed, folder
        weights = it.weights() if rows else None
        for l, row in (rows or {}).items():
            claimed, stored = row["weights_only_gain"], l % spec["depth"]
            if not claimed:
                COUNT[f"arch {kind}: null, {row['weights_only_gain_failed']}"] += 1
                continue
            own = dict(spec, gate=spec["gate_of"][kind], inner_norm=spec["inner_norm_of"][kind])
            scale = abs(spec["branch_mixer"][stored])

            def make(k, x, own=own, stored=stored):
                layers = D.Layers(own, weights, k)
                layers.note()
                return getattr(layers, kind)(x, f"{stored}.0.")[0]

            k = D.Kind(np.float64)
            best, _ = climb(r, lambda v: make(k, v), 7, spec["d_model"], args.steps // 4)
            word = f"arch {kind} gate {own['gate']} norm {own['inner_norm']}"
            wrong |= report(word, scale * best / (claimed * math.sqrt(spec["d_model"])), claimed, None, f"arch seed {seed} layer {l}")
    except A.Refused:
        pass
    finally:
        shutil.rmtree(folder)
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--arch-weights")
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    args = parser.parse_args()
    args.program = os.path.abspath(args.program)
    wrong = 0
    for seed in range(args.seed, args.seed + args.instances):
        wrong += one_checkpoint(args, seed)
        if args.arch_weights and not args.only:
            wrong += one_arch(args, seed)
    for kind in sorted(COUNT):
        low, high = FORMULA[kind]
        beside = f", claimed/formula - 1 from {low - 1:.1e} to {high - 1:.1e}" if math.isfinite(low) else ""
        print(f"{kind:46s} {COUNT[kind]:5d} layers" + (f", largest true/claimed {WORST[kind]:.4f}{beside}" if kind in WORST else ""))
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
