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
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict

import numpy as np
from safetensors.numpy import load_file, save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from arch_files import drawn_weights, meaning  # noqa: E402

np.seterr(all="ignore")
ROUNDING = 1e-10  # of float64 in a definition; beyond this a ratio is worked out again in long double
EPS = 1e-5


# ---- mixers on batches: tokens (batch, n, d) that come out of the norm, to rows (batch, n, d) ----

def silu(x):
    return x / (1 + np.exp(-x))


def softplus(x):
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 30))))


def rms(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def linear(x, w, b=None):
    y = x @ w.T
    return y if b is None else y + b


def conv(x, w, b=None):
    """Causal; the last column of w acts on the token itself."""
    y, width = np.zeros_like(x), w.shape[1]
    for back in range(min(width, x.shape[1])):
        y[:, back:] += w[:, width - 1 - back] * x[:, :x.shape[1] - back]
    return y if b is None else y + b


def by_stretch(y, groups, w, eps):
    return rms(y.reshape(*y.shape[:-1], groups, -1), eps).reshape(y.shape) * (1 if w is None else w)


def mamba(m, x):
    both = linear(x, m["in"], m.get("in_b"))
    inner = both.shape[-1] // 2
    u, z = silu(conv(both[..., :inner], m["conv"], m.get("conv_b"))), both[..., inner:]
    rank, n = m["step"].shape[1], m["a"].shape[1]
    three = linear(u, m["x"])
    dt, b, c = three[..., :rank], three[..., rank:rank + n], three[..., rank + n:]
    if m.get("three_eps") is not None:
        dt, b, c = (rms(part, m["three_eps"]) * m.get(g, 1) for part, g in ((dt, "dt_g"), (b, "b_g"), (c, "c_g")))
    steps = softplus(linear(dt, m["step"], m["step_b"]))
    h, ys = np.zeros((len(x), inner, n), x.dtype), []
    for t in range(x.shape[1]):
        s = steps[:, t, :, None]
        h = np.exp(-m["a"] * s) * h + s * b[:, t, None, :] * u[:, t, :, None]
        ys.append((h * c[:, t, None, :]).sum(-1) + m["d"] * u[:, t])
    y = np.stack(ys, 1)
    return linear(y * silu(z) if m["gate"] != "none" else y, m["o"], m.get("o_b"))


def finish(m, y, z, groups):
    if z is not None and m["gate"] == "before":
        y = y * silu(z)
    if m["norm"]:
        y = by_stretch(y, groups, m.get("norm_g"), m["norm_eps"])
    if z is not None and m["gate"] == "after":
        y = y * silu(z)
    return linear(y, m["o"], m.get("o_b"))


def mamba2(m, x):
    heads, groups, n = len(m["a"]), m["groups"], m["state"]
    inner = m["o"].shape[1]
    row = linear(x, m["in"], m.get("in_b"))
    z, rest, dt = row[..., :inner], row[..., inner:-heads], row[..., -heads:]
    rest = silu(conv(rest, m["conv"], m.get("conv_b")))
    u = rest[..., :inner].reshape(*x.shape[:2], heads, -1)
    b, c = (np.repeat(part.reshape(*x.shape[:2], groups, n), heads // groups, 2) for part in np.split(rest[..., inner:], 2, -1))
    steps = np.clip(softplus(dt + m["dt_bias"]), *m.get("limits", (0, np.inf)))
    h, ys = np.zeros((len(x), heads, u.shape[-1], n), x.dtype), []
    for t in range(x.shape[1]):
        s = steps[:, t, :, None, None]
        h = np.exp(-m["a"][:, None, None] * s) * h + s * b[:, t, :, None, :] * u[:, t, :, :, None]
        ys.append((h * c[:, t, :, None, :]).sum(-1) + m["d"][:, None] * u[:, t])
    return finish(m, np.stack(ys, 1).reshape(*x.shape[:2], inner), z, groups)


def gated_delta(m, x):
    heads, dim = len(m["a"]), m["state"]
    keys = (m["conv"].shape[0] - m["o"].shape[1]) // (2 * dim)
    q, k, v = np.split(silu(conv(linear(x, m["qkv"]), m["conv"])), [keys * dim, 2 * keys * dim], -1)
    q, k = (part.reshape(*x.shape[:2], keys, dim) for part in (q, k))
    q, k = (np.repeat(part / np.sqrt((part ** 2).sum(-1, keepdims=True) + 1e-6), heads // keys, 2) for part in (q, k))
    q, v = q / np.sqrt(dim), v.reshape(*x.shape[:2], heads, -1)
    decay = np.exp(-m["a"] * softplus(linear(x, m["wa"]) + m["dt_bias"]))
    beta = 1 / (1 + np.exp(-linear(x, m["wb"])))
    s, ys = np.zeros((len(x), heads, dim, v.shape[-1]), x.dtype), []
    for t in range(x.shape[1]):
        s = s * decay[:, t, :, None, None]
        miss = v[:, t] - (s * k[:, t, :, :, None]).sum(2)
        s = s + beta[:, t, :, None, None] * k[:, t, :, :, None] * miss[:, :, None, :]
        ys.append((s * q[:, t, :, :, None]).sum(2))
    y = np.stack(ys, 1).reshape(*x.shape[:2], -1)
    z = linear(x, m["z"]) if "z" in m else None
    return finish(m, y, z, heads)


def linear_matrix(m, x):
    """(batch, heads, n, n)."""
    heads, n = m["heads"], x.shape[1]
    q, k = (linear(x, m[name]) for name in "qk")
    q, k = q.reshape(*x.shape[:2], heads, -1), k.reshape(*x.shape[:2], m["kv_heads"], -1)
    k = np.repeat(k, heads // m["kv_heads"], 2)
    if m["elu"]:
        q, k = (np.where(part > 0, part + 1, np.exp(np.minimum(part, 0))) for part in (q, k))
    mix = np.einsum("bihe,bjhe->bhij", q, k) / m["temperature"]
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    if m["causal"]:
        mix = mix * np.where(j <= i, np.asarray(m["decay"], float)[:, None, None] ** np.maximum(i - j, 0), 0)
    if m["without_self"]:
        mix = mix * (i != j)
    if m["normalised"]:
        total = mix.sum(-1, keepdims=True)
        mix = np.where(total != 0, mix / np.where(total != 0, total, 1), 0)
    return mix


def linear_attention(m, x):
    mix, heads = linear_matrix(m, x), m["heads"]
    if "v" in m:
        v = linear(x, m["v"]).reshape(*x.shape[:2], m["kv_heads"], -1)
        v = np.repeat(v, heads // m["kv_heads"], 2)
    else:
        v = np.repeat(x[:, :, None], heads, 2)
    y = np.einsum("bhij,bjhe->bihe", mix, v)
    if "o" not in m:
        return y.sum(2)
    y = y.reshape(*x.shape[:2], -1)
    return finish(m, y, linear(x, m["z"]) if "z" in m else None, heads)


MIX = {"mamba": mamba, "mamba2": mamba2, "gated_delta": gated_delta, "linear_attention": linear_attention}


def read(l, x):
    """What the mixer reads of raw tokens."""
    if l["norm_kind"] == "none":
        return x
    if l["norm_kind"] == "layernorm":
        x = x - x.mean(-1, keepdims=True)
    return rms(x, l["eps"]) * l.get("g", 1) + l.get("b", 0)


def mixer_rows(l, x):
    return MIX[l["kind"]](l["m"], read(l, x)) * l.get("times", 1)


def mlp_rows(l, x):
    m = l["mlp"]
    x = read(dict(l, g=l.get("mlp_g", 1), b=l.get("mlp_b", 0)), x)
    up = linear(x, m["up"], m.get("up_b"))
    if m["form"] == "swiglu":
        return linear(silu(linear(x, m["gate"], m.get("gate_b"))) * up, m["down"], m.get("down_b"))
    from scipy.special import erf
    act = {"linear": lambda v: v, "relu": lambda v: np.maximum(v, 0), "gelu": lambda v: v * (1 + erf(np.float64(1) * v.astype(float) / np.sqrt(2))) / 2,
           "gelu_tanh": lambda v: v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v ** 3))) / 2}
    return linear(act[m["form"]](up), m["down"], m.get("down_b"))


def wide(x):
    if isinstance(x, dict):
        return {k: wide(v) for k, v in x.items()}
    return x.astype(np.longdouble) if isinstance(x, np.ndarray) and x.dtype == np.float64 else x


# ---- the climb ----

def starts(g, rows, n, d, count):
    """Tokens: Gaussian, equal, one-hot, along rows and singular vectors of first maps, of alternating sign, tiny, huge."""
    rows = np.concatenate([rows, np.linalg.svd(rows, full_matrices=False)[2]]) if len(rows) else rows
    out = []
    for i in range(count):
        kind = i % 8
        x = g.standard_normal((n, d))
        if kind == 1:
            x = np.repeat(x[:1], n, 0)
        if kind == 2:
            x = np.eye(d)[g.integers(d, size=n)] * g.choice((-1, 1), (n, 1))
        if kind in (3, 4) and len(rows):
            x = rows[g.integers(len(rows), size=n if kind == 3 else 1)] * g.choice((-1, 1), (n if kind == 3 else 1, 1)) + 1e-9 * x
        if kind == 5 and len(rows):
            x = rows[[g.integers(len(rows))]] * (-1.0) ** np.arange(n)[:, None] + 1e-9 * x
        if kind == 6:
            x = np.concatenate([np.repeat(x[:1], n - 1, 0), x[-1:]])
        if kind == 7:
            x = x * 10.0 ** g.uniform(-8, 3, (n, 1))
        length = np.sqrt((x * x).mean(-1, keepdims=True)) + 1e-300
        out.append(x / length * 1e4 if kind != 7 else x * 1e2)
    return np.array(out)


def climb(score, x, g, steps, keep=4, children=32):
    """The best of x under random changes of all tokens, one token or one number, and finite-difference ascent."""
    best = score(x)
    order = np.argsort(-best)[:keep]
    x, best = x[order], best[order]
    sizes = np.full(len(x), 0.5)
    n, d = x.shape[1:]
    for step in range(steps):
        length = np.sqrt((x * x).mean(-1, keepdims=True)) + 1e-300
        noise = g.standard_normal((children, len(x), n, d))
        kind = g.integers(4, size=(children, len(x), 1, 1))
        token = g.random((children, len(x), n, 1))
        one = token == token.max(2, keepdims=True)
        coordinate = g.random((children, len(x), n, d))
        single = coordinate == coordinate.max((2, 3), keepdims=True)
        noise = np.where(kind == 0, noise, np.where(kind == 1, noise * one, np.where(kind == 2, noise * single * 2, noise * (coordinate < 0.3))))
        tries = x + noise * length * (sizes[:, None, None] * 2.0 ** g.uniform(-3, 1, (children, len(x), 1, 1)))
        if step % 6 == 5 and n * d <= 72:  # ascent, in steps of many lengths
            for p in range(len(x)):
                delta = 1e-6 * length[p].max()
                slope = np.array(score(x[p] + delta * np.eye(n * d).reshape(-1, n, d)) - best[p]) * length[p].max() / delta
                slope = np.where(np.isfinite(slope), slope, 0).reshape(n, d)
                size = np.sqrt((slope ** 2).mean()) + 1e-300
                tries[:, p] = x[p] + length[p] * slope / size * 2.0 ** np.linspace(2, -14, children)[:, None, None]
        found = np.where(np.isfinite(f := score(tries.reshape(-1, n, d))), f, -1).reshape(children, len(x))
        top = found.argmax(0)
        for p in range(len(x)):
            if found[top[p], p] > best[p]:
                x[p], best[p] = tries[top[p], p], found[top[p], p]
                sizes[p] = min(2, sizes[p] * 1.3)
            else:
                sizes[p] *= 0.8
                if sizes[p] < 1e-5:
                    sizes[p] = 0.5
    i = best.argmax()
    return best[i], x[i]


def climb_gain(rows_of, l, claimed, n, d, g, options, first):
    def score(x):
        return np.sqrt((rows_of(l, x) ** 2).sum(-1)).max(-1) / (np.sqrt(d) * claimed)
    total = 0, None
    for _ in range(options.climbs):
        few = int(g.integers(1, n + 1)) if g.random() < 0.3 else n  # inputs of fewer tokens, too
        found = climb(score, starts(g, first, few, d, options.restarts), g, options.steps)
        total = max(total, found, key=lambda t: t[0])
    if total[0] > 1 - 1e-6:
        lw = wide(l)
        best = max((1.0, 1e30, 1e80), key=lambda far: score(total[1][None] * far)[0])  # epsilon counts for less far out
        x = total[1] * best
        return (np.sqrt((rows_of(lw, x.astype(np.longdouble)[None]) ** 2).sum(-1)).max() / (np.sqrt(np.longdouble(d)) * np.longdouble(claimed))), x
    return total


# ---- theorems ----

def spread(x):
    return np.sqrt(((x - x.mean(-2, keepdims=True)) ** 2).sum((-2, -1)))


def own_norm(l, x):
    """The norm behind the sum, without its bias."""
    if l["norm_kind"] == "layernorm":
        x = x - x.mean(-1, keepdims=True)
    return rms(x, l["eps"]) * l.get("g", 1)


def turned(x, o):
    """Rows of o no longer than 1."""
    return o / np.maximum(1, np.sqrt((o * o).sum(-1, keepdims=True)))


def least_kept(l, x, skip, length, g, steps):
    """The least mu(norm(skip x + O))/mu(x) over rows of O no longer than length."""
    def score(o):
        return -spread(own_norm(l, skip * x + length * turned(x, o))) / spread(x)
    n, d = x.shape
    # towards the mean of the others, of a direction, or of minus the token
    unit = x / (np.sqrt((x * x).sum(-1, keepdims=True)) + 1e-300) * np.sign(skip)
    begin = [unit.mean(0) * 10 - unit, unit[:1] * 10 - unit * 9, -unit, 10 * (unit.mean(0) - unit), *g.standard_normal((12, n, d))]
    for lead in unit[:4]:
        across = lead - unit * (unit * lead).sum(-1, keepdims=True)
        across = across / (np.sqrt((across ** 2).sum(-1, keepdims=True)) + 1e-300)
        t = min(1, length / (abs(skip) * np.sqrt((x * x).sum(-1)).min() + 1e-300))
        begin.append(across * np.sqrt(1 - t * t) - unit * t)
    best, o = climb(score, np.array(begin), g, steps)
    return -best, o


def drift(h, skip, length, g, depths, centred):
    """The least share of mu of the rows' directions that depths of rows no longer than length leave."""
    if centred:
        h = h - h.mean(-1, keepdims=True)

    def nu(y):
        return spread(y / (np.sqrt((y * y).sum(-1, keepdims=True)) + 1e-300))
    least = 1.0
    for trial in range(6):
        y = h.copy()
        for k in range(depths):
            y = skip * y
            unit = y / np.sqrt((y * y).sum(-1, keepdims=True))
            lead = (unit.mean(0), unit[0], unit[-1], g.standard_normal(unit.shape[1]), unit.mean(0) + 0.3 * unit[0], unit.mean(0))[trial]
            if centred:
                lead = lead - lead.mean()
            lead = lead / (np.sqrt((lead ** 2).sum()) + 1e-300)
            across = lead - unit * (unit @ lead)[:, None]
            rest = np.sqrt((across ** 2).sum(-1, keepdims=True))
            across = np.where(rest > 1e-13, across / (rest + 1e-300), 0)
            t = np.minimum(1, length / np.sqrt((y * y).sum(-1, keepdims=True)))
            full = length * (across * np.sqrt(1 - t * t) - unit * t) if trial < 5 else length * across
            # no further than onto the lead itself
            after = y + full
            cos_now, cos_most = (unit @ lead)[:, None], np.sqrt(1 - t * t)
            onto = lead * (y @ lead)[:, None] - y
            y = np.where((cos_now > cos_most) & (np.sqrt((onto ** 2).sum(-1, keepdims=True)) <= length), y + onto, after)
            least = min(least, nu(y) / nu(h))
            if np.abs(y).max() * max(1, abs(skip)) > 1e140:  # squares of lengths must fit
                break
    return least


# ---- instances ----

def some(r, share):
    return r.random() < share


def draw_arch(r, kind):
    heads = r.choice((1, 1, 2, 4))
    depth = r.choice((1, 1, 2, 3))
    a = {"depth": depth, "d_model": r.randint(1, 12), "heads": heads, "d_head": r.choice((1, 1, 2, 3)), "seq_len": r.choice((1, 2, 3, 5, 8)),
         "kv_heads": r.choice([k for k in (1, 2, 4) if heads % k == 0]), "mixer": kind, "norm": r.choice(("pre", "pre", "post", "post", "none", "sandwich")),
         "norm_kind": r.choice(("layernorm", "rmsnorm", "rmsnorm")), "conv": r.choice((1, 2, 4)), "state": r.choice((1, 1, 2, 5)),
         "mlp": r.choice(("none", "none", "linear", "relu", "gelu", "gelu_tanh", "swiglu")), "mlp_width": r.randint(1, 6)}
    a["groups"] = r.choice([k for k in (1, 2, 4) if heads % k == 0])
    a["dt_init"] = r.choice(([0.001, 0.1], [0.5, 2], [1e-6, 30], [1e-12, 1e-9], [20, 60]))
    for name in ("skip_mixer", "skip_mlp"):
        if some(r, 0.6):
            a[name] = r.choice((1.5, -1, 4, -20, 300, -3000, 1e5, 0.5))
    if some(r, 0.3):
        a["branch_mixer"] = r.choice((0.5, -2, 0.01))
    if some(r, 0.6):
        a["gate"] = r.choice(("before", "after", "none"))
    if some(r, 0.6):
        a["inner_norm"] = some(r, 0.7)
    if kind == "linear_attention":
        a.update(mask=r.choice(("none", "causal")), temperature=r.choice((1, 0.3, 10, 300)), feature_map=r.choice(("identity", "elu")),
                 normalised=some(r, 0.3), without_self=some(r, 0.2))
        if a["mask"] == "causal" and some(r, 0.6):
            a["decay"] = r.choice((0, 0.5, 0.9, "retnet", 1))
        if some(r, 0.6):  # theorem C's
            a.update(heads=1, kv_heads=1, groups=1, value_map="identity", inner_norm=False, norm="post", norm_kind=r.choice(("rmsnorm", "rmsnorm", "layernorm")), mlp=r.choice(("none", "none", "relu")))
            a.pop("d_head"), a.pop("gate", None)
            a["init"] = {"wo": "none"}
            if some(r, 0.7):
                a["skip_mixer"] = r.choice((1, -1, 3, 10, -10, 40, -200, 1000))
    laws = a.setdefault("init", {})
    for name in ("wq", "wk", "wv", "wo", "w1", "w2", "win", "wx", "wdt", "conv"):
        if some(r, 0.25) and name not in laws:
            laws[name] = r.choice(("orthogonal", "normal(0, 4/fan_in)", "uniform(-1, 1)", "normal(0.1, 0.5)", "normal(0, 400)", "normal(0, 1e-4)"))
    if some(r, 0.6):
        rho = r.choice((0, 0.5, 0.99, 0.9999999)) if a["d_model"] > 1 else 0
        a["input"] = {"law": "gaussian", "rho": rho, "norm2": r.choice(("d", "d", 1, 1e-4, "100*d", 1e8))}
    return a


def arch_layers(a, w):
    s, layers = meaning(a), []
    kind = s["mixer"][0]
    for l in range(a["depth"]):
        p = f"{l}.0."
        of = {name[len(p):]: x for name, x in w.items() if name.startswith(p)}
        row = {name: of[name].reshape(-1) for name in ("d", "dt_bias") if name in of}
        m = {"o": of.get("o"), "conv": of.get("conv"), "gate": s["gate_of"][kind], "norm": s["inner_norm_of"][kind], "norm_eps": EPS, "state": s["state"],
             **row}
        if "a_log" in of:
            m["a"] = np.exp(of["a_log"].reshape(-1))
        if kind == "mamba":
            m.update({"in": of["in"], "x": of["x"], "step": of["step"], "step_b": of["step.bias"].reshape(-1), "a": m["a"].reshape(-1, s["state"])})
            m["three_eps"] = EPS if m["norm"] else None
        if kind == "mamba2":
            m.update({"in": of["in"], "groups": s["groups"]})
        if kind == "gated_delta":
            m.update(qkv=np.concatenate([of[name] for name in "qkv"]), wa=of["a"], wb=of["b"])
            m.update({"z": of["z"]} if "z" in of else {})
        if kind == "linear_attention":
            m.update({name: of[name] for name in ("q", "k", "v") if name in of}, heads=s["heads"], kv_heads=s["kv_heads"], elu=s["feature_map"] == "elu",
                     temperature=s["temperature"], causal=s["mask"] == "causal", decay=s["decay_of"], without_self=s["without_self"], normalised=s["normalised"])
            m.update({"z": of["gate"]} if "gate" in of else {})
        m = {name: x for name, x in m.items() if x is not None}
        layer = {"kind": kind, "m": m, "norm_kind": s["norm_kind"] if s["norm"] in ("pre", "sandwich") else "none", "eps": EPS, "skip": s["skip_mixer"][l],
                 "branch": s["branch_mixer"][l], "place": s["norm"], "post_kind": s["norm_kind"]}
        q = f"{l}.1."
        if a.get("mlp") != "none":
            layer["mlp"] = {"form": s["mlp"], **{name: w[q + name] for name in ("up", "down", "gate") if q + name in w}}
        layers.append(layer)
    return layers


def first_rows(m):
    return np.concatenate([m[name] for name in ("in", "qkv", "z", "q", "k", "v", "wa", "wb") if name in m])


class Checkpoint:
    """Weights of one family, drawn wild."""

    def __init__(self, r, kind):
        self.r, self.g, self.kind = r, np.random.default_rng(r.randrange(1 << 40)), kind
        self.w, self.layers, self.vocab = {}, [], 11
        self.size, self.tight = r.choice((0.3, 1, 1, 5, 30)), some(r, 0.35)
        self.d = r.randint(1, 12)
        self.eps = r.choice((1e-5, 1e-6, 1e-2, 1.0, 1e-12))
        self.depth = r.randint(1, 3)
        getattr(self, kind)()
        scale = self.size_of(1, 100, 1e-3)
        self.tensor(self.embed, self.g.standard_normal((self.vocab, self.d)) * scale)
        self.tensor(self.last, np.ones(self.d))

    def size_of(self, *choices):
        return self.r.choice(choices)

    def tensor(self, name, x):
        self.w[name] = np.ascontiguousarray(x, dtype=np.float64)
        return self.w[name]

    def map(self, name, out, into, bias=False):
        x = self.g.standard_normal((out, into)) / np.sqrt(into) * self.r.choice((self.size, self.size, 1, 0.1, 20))
        if some(self.r, 0.2):
            x = x * (self.g.random((out, into)) < 0.4)
        if self.tight:  # every map positive, all rows alike: what chains bound step by step is reached all at once
            x = np.abs(x[:1] if "in_proj" in name else x[:1, :1]) * np.ones((out, into))
        self.tensor(name + ".weight", x)
        return x, self.vector(name + ".bias", out, (0.1, 1, 10)) if bias else None

    def vector(self, name, n, sizes):
        x = self.g.standard_normal(n) * self.r.choice(sizes)
        return self.tensor(name, np.abs(x[0]) * np.ones(n) if self.tight else x)

    def gains(self, name, n, less=0):
        x = self.g.standard_normal(n) * self.r.choice((1, 10)) if some(self.r, 0.6) else np.ones(n)
        if some(self.r, 0.3):
            x[self.g.integers(n)] *= 100
        if self.tight:
            x = np.abs(x)
        self.tensor(name, x - less)
        return self.w[name] + less

    def rates(self, name, shape):
        x = self.g.uniform(-2, 2, shape) if some(self.r, 0.5) else self.g.choice((-60, -40, -20, -3, 0, 2, 5), shape).astype(float)
        if self.tight:
            x = x.reshape(-1)[0] * np.ones(shape)
        return np.exp(self.tensor(name, x))

    def kernel(self, name, channels, width, bias):
        x = self.g.standard_normal((channels, 1, width)) * self.r.choice((0.3, 1, 5))
        x = self.tensor(name + ".weight", np.abs(x[:1]) * np.ones(x.shape) if self.tight else x)[:, 0]
        return x, self.vector(name + ".bias", channels, (1,)) if bias else None

    def mamba_core(self, p, inner, n, rank, width, use_bias, conv_bias):
        d, m = self.d, {"gate": "before", "norm": False}
        m["in"], m["in_b"] = self.map(p + "in_proj", 2 * inner, d, use_bias)
        m["conv"], m["conv_b"] = self.kernel(p + "conv1d", inner, width, conv_bias)
        m["x"], _ = self.map(p + "x_proj", rank + 2 * n, inner)
        m["step"], m["step_b"] = self.map(p + "dt_proj", inner, rank, True)
        m["a"] = self.rates(p + "A_log", (inner, n))
        m["d"] = self.vector(p + "D", inner, (0, 1, 10))
        m["o"], m["o_b"] = self.map(p + "out_proj", d, inner, use_bias)
        return m

    def add(self, kind, m, g, **more):
        m = {name: x for name, x in m.items() if x is not None}
        self.layers.append({"kind": kind, "m": m, "norm_kind": "rmsnorm", "eps": self.eps, "g": g, "skip": 1.0, "branch": 1.0, "place": "pre",
                            "post_kind": "rmsnorm", **more})

    def state_space(self, kind):
        r, d = self.r, self.d
        expand = r.choice((1, 2))
        inner, n, rank, width = expand * d, r.choice((1, 2, 4)), r.randint(1, 3), r.randint(1, 4)
        use_bias, conv_bias = some(r, 0.5), some(r, 0.5)
        self.config = dict(model_type=kind, vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, state_size=n, conv_kernel=width, expand=expand,
                           intermediate_size=inner, time_step_rank=rank, use_bias=use_bias, use_conv_bias=conv_bias, hidden_act="silu",
                           layer_norm_epsilon=self.eps, tie_word_embeddings=True, residual_in_fp32=True)
        self.embed, self.last = "backbone.embeddings.weight", "backbone.norm_f.weight"
        return inner, n, rank, width, use_bias, conv_bias

    def mamba(self):
        sizes = self.state_space("mamba")
        for l in range(self.depth):
            p = f"backbone.layers.{l}."
            g = self.gains(p + "norm.weight", self.d)
            self.add("mamba", self.mamba_core(p + "mixer.", *sizes), g)

    def falcon_mamba(self):
        sizes = self.state_space("falcon_mamba")
        self.config["mixer_rms_eps"] = eps = self.r.choice((1e-6, 1e-3, 1.0))
        for l in range(self.depth):
            p = f"backbone.layers.{l}."
            g = self.gains(p + "norm.weight", self.d)
            self.add("mamba", dict(self.mamba_core(p + "mixer.", *sizes), three_eps=eps), g)

    def mamba2(self):
        r, d = self.r, self.d
        groups = r.choice((1, 1, 2))
        heads = groups * r.choice((1, 2))
        dim, n, width = r.randint(1, 3), r.choice((1, 2, 4)), r.randint(1, 4)
        use_bias, conv_bias = some(r, 0.5), some(r, 0.5)
        inner = heads * dim
        limits = r.choice(((0.0, float("inf")), (0.05, 0.5), (1.0, float("inf")), (0.3, 0.3), (0.0, 0.1)))
        self.config = dict(model_type="mamba2", vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, num_heads=heads, head_dim=dim,
                           state_size=n, n_groups=groups, expand=inner / d, conv_kernel=width, use_bias=use_bias, use_conv_bias=conv_bias, hidden_act="silu",
                           layer_norm_epsilon=self.eps, time_step_limit=list(limits), rms_norm=True, tie_word_embeddings=True)
        if inner % d == 0:
            self.config["expand"] = inner // d
        self.embed, self.last = "backbone.embeddings.weight", "backbone.norm_f.weight"
        for l in range(self.depth):
            p = f"backbone.layers.{l}."
            g = self.gains(p + "norm.weight", d)
            self.add("mamba2", self.mamba2_core(p + "mixer.", heads, dim, n, groups, width, use_bias, use_bias, conv_bias, limits, True), g)

    def mamba2_core(self, p, heads, dim, n, groups, width, in_bias, out_bias, conv_bias, limits, norm):
        inner, m = heads * dim, {"gate": "before", "norm": norm, "norm_eps": self.eps, "groups": groups, "state": n, "limits": limits}
        m["in"], m["in_b"] = self.map(p + "in_proj", 2 * inner + 2 * groups * n + heads, self.d, in_bias)
        m["conv"], m["conv_b"] = self.kernel(p + "conv1d", inner + 2 * groups * n, width, conv_bias)
        m["a"] = self.rates(p + "A_log", (heads,))
        m["d"] = self.vector(p + "D", heads, (0, 1, 10))
        m["dt_bias"] = self.vector(p + "dt_bias", heads, (1, 10))
        m["norm_g"] = self.gains(p + "norm.weight", inner) if norm else None
        m["o"], m["o_b"] = self.map(p + "out_proj", self.d, inner, out_bias)
        return m

    def swiglu(self, p, width, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = (self.map(p + name, *size)[0] for name, size in zip(names, ((width, self.d), (width, self.d), (self.d, width))))
        return {"form": "swiglu", "gate": gate, "up": up, "down": down}

    def jamba(self):
        r, d = self.r, self.d
        expand, n, rank, width, mlp = r.choice((1, 2)), r.choice((1, 2, 4)), r.randint(1, 3), r.randint(1, 4), r.randint(1, 5)
        use_bias, conv_bias = some(r, 0.5), some(r, 0.5)
        self.config = dict(model_type="jamba", vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, mamba_d_state=n, mamba_d_conv=width,
                           mamba_expand=expand, mamba_dt_rank=rank, mamba_proj_bias=use_bias, mamba_conv_bias=conv_bias, hidden_act="silu", num_experts=1,
                           rms_norm_eps=self.eps, attn_layer_period=50, attn_layer_offset=49, num_attention_heads=1, num_key_value_heads=1,
                           intermediate_size=mlp, tie_word_embeddings=True)
        self.embed, self.last = "model.embed_tokens.weight", "model.final_layernorm.weight"
        for l in range(self.depth):
            p = f"model.layers.{l}."
            g = self.gains(p + "input_layernorm.weight", d)
            m = dict(self.mamba_core(p + "mamba.", expand * d, n, rank, width, use_bias, conv_bias), three_eps=self.eps,
                     dt_g=self.gains(p + "mamba.dt_layernorm.weight", rank), b_g=self.gains(p + "mamba.b_layernorm.weight", n),
                     c_g=self.gains(p + "mamba.c_layernorm.weight", n))
            self.add("mamba", m, g, mlp_g=self.gains(p + "pre_ff_layernorm.weight", d), mlp=self.swiglu(p + "feed_forward.", mlp))

    def falcon_h1(self):
        """Its attention's W_O is zero, so that the branch is the state-space mixer's."""
        r = self.r
        self.d = d = 2 * r.randint(1, 6)
        groups = r.choice((1, 1, 2))
        heads, dim, n, width, mlp = groups * r.choice((1, 2)), r.randint(1, 3), r.choice((1, 2, 4)), r.randint(1, 4), r.randint(1, 5)
        in_bias, conv_bias, norm, first = some(r, 0.5), some(r, 0.5), some(r, 0.6), some(r, 0.6)
        limits = r.choice(((0.0, float("inf")), (0.05, 0.5), (1.0, float("inf"))))
        self.config = dict(model_type="falcon_h1", vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, num_attention_heads=1,
                           num_key_value_heads=1, head_dim=2, intermediate_size=mlp, mamba_d_ssm=heads * dim, mamba_n_heads=heads, mamba_d_head=dim,
                           mamba_n_groups=groups, mamba_d_state=n, mamba_d_conv=width, mamba_chunk_size=8, mamba_conv_bias=conv_bias,
                           mamba_proj_bias=in_bias, projectors_bias=in_bias, mamba_rms_norm=norm, mamba_norm_before_gate=first, rms_norm_eps=self.eps,
                           hidden_act="silu", time_step_limit=list(limits), tie_word_embeddings=True, attention_bias=False, mlp_bias=False,
                           rope_theta=1e4, max_position_embeddings=64)
        of = (lambda: r.choice((1.0, 0.3, 1.7, -0.6))) if some(r, 0.5) else (lambda: 1.0)
        self.config.update(ssm_in_multiplier=of(), ssm_out_multiplier=of(), ssm_multipliers=[of() for _ in range(5)])
        self.embed, self.last = "model.embed_tokens.weight", "model.final_layernorm.weight"
        for l in range(self.depth):
            p = f"model.layers.{l}."
            g = self.gains(p + "input_layernorm.weight", d)
            for name in "qkv":
                self.map(p + f"self_attn.{name}_proj", 2, d)
            self.tensor(p + "self_attn.o_proj.weight", np.zeros((d, 2)))
            m = self.mamba2_core(p + "mamba.", heads, dim, n, groups, width, in_bias, in_bias, conv_bias, limits, norm)
            m["gate"] = "after" if norm and first else "before"
            m = self.multiplied(m, heads, dim, groups, n)
            self.add("mamba2", m, g, mlp_g=self.gains(p + "pre_ff_layernorm.weight", d), mlp=self.swiglu(p + "feed_forward.", mlp))

    def multiplied(self, m, heads, dim, groups, n):
        """Falcon-H1's multipliers, folded into the maps."""
        c, inner = self.config, heads * dim
        parts = np.repeat(c["ssm_multipliers"], [inner, inner, groups * n, groups * n, heads])
        m["in"] = m["in"] * (c["ssm_in_multiplier"] * parts[:, None])
        m["o"] = m["o"] * c["ssm_out_multiplier"]
        for name, by in (("in_b", parts), ("o_b", c["ssm_out_multiplier"])):
            if m[name] is not None:
                m[name] = m[name] * by
        return m

    def nemotron_h(self):
        r, d = self.r, self.d
        groups = r.choice((1, 1, 2))
        heads, dim, n, width = groups * r.choice((1, 2)), r.randint(1, 3), r.choice((1, 2, 4)), r.randint(1, 4)
        bias, conv_bias, low = some(r, 0.5), some(r, 0.5), r.choice((0.001, 0.3, 2.0))
        self.config = dict(model_type="nemotron_h", vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, mamba_num_heads=heads,
                           mamba_head_dim=dim, ssm_state_size=n, n_groups=groups, conv_kernel=width, chunk_size=8, layer_norm_epsilon=self.eps,
                           use_bias=bias, use_conv_bias=conv_bias, time_step_min=low, layers_block_type=["linear_attention"] * self.depth,
                           num_attention_heads=1, num_key_value_heads=1, head_dim=2, intermediate_size=3, tie_word_embeddings=True,
                           time_step_limit=[0.0, {"__float__": "Infinity"}], mlp_hidden_act="relu2", mamba_hidden_act="silu")
        self.embed, self.last = "backbone.embeddings.weight", "backbone.norm_f.weight"
        for l in range(self.depth):
            p = f"backbone.layers.{l}."
            g = self.gains(p + "norm.weight", d)
            self.add("mamba2", self.mamba2_core(p + "mixer.", heads, dim, n, groups, width, bias, bias, conv_bias, (low, np.inf), True), g)

    def qwen3_5(self):
        r, d = self.r, self.d
        keys = r.choice((1, 2))
        heads, dim, vdim, width, mlp = keys * r.choice((1, 2)), r.choice((1, 2, 4)), r.randint(1, 4), r.randint(1, 4), r.randint(1, 5)
        inner = heads * vdim
        self.config = dict(model_type="qwen3_5_text", vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, num_attention_heads=1,
                           num_key_value_heads=1, head_dim=2, intermediate_size=mlp, linear_conv_kernel_dim=width, linear_key_head_dim=dim,
                           linear_value_head_dim=vdim, linear_num_key_heads=keys, linear_num_value_heads=heads, rms_norm_eps=self.eps, hidden_act="silu",
                           layer_types=["linear_attention"] * self.depth, tie_word_embeddings=True,
                           rope_parameters=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=1.0), max_position_embeddings=64)
        self.embed, self.last = "model.embed_tokens.weight", "model.norm.weight"
        for l in range(self.depth):
            p = f"model.layers.{l}."
            g = self.gains(p + "input_layernorm.weight", d, less=1)
            q, m = p + "linear_attn.", {"gate": "after", "norm": True, "norm_eps": self.eps, "state": dim}
            m["qkv"], _ = self.map(q + "in_proj_qkv", 2 * keys * dim + inner, d)
            m["z"], _ = self.map(q + "in_proj_z", inner, d)
            m["wb"], _ = self.map(q + "in_proj_b", heads, d)
            m["wa"], _ = self.map(q + "in_proj_a", heads, d)
            m["conv"], _ = self.kernel(q + "conv1d", 2 * keys * dim + inner, width, False)
            m["a"] = self.rates(q + "A_log", (heads,))
            m["dt_bias"] = self.tensor(q + "dt_bias", self.g.standard_normal(heads))
            m["norm_g"] = np.tile(self.gains(q + "norm.weight", vdim), heads)
            m["o"], _ = self.map(q + "out_proj", d, inner)
            self.add("gated_delta", m, g, mlp_g=self.gains(p + "post_attention_layernorm.weight", d, less=1), mlp=self.swiglu(p + "mlp.", mlp))


ARCH = ("mamba", "mamba2", "gated_delta", "linear_attention")
KINDS = [f"arch_{name}" for name in ARCH] + ["mamba", "falcon_mamba", "mamba2", "jamba", "falcon_h1", "qwen3_5", "nemotron_h"]


class Refused(Exception):
    pass


class Instance:
    def __init__(self, options, seed, kind, folder):
        self.options, self.seed, self.kind, self.folder = options, seed, kind, folder
        r = random.Random(f"stranger {kind} {seed}")
        self.g = np.random.default_rng([seed, 5])
        self.kept = r.choice((0.9, 0.9, 0.5, 0.99, 0.1))
        self.edit = []
        if kind.startswith("arch_"):
            self.arch = draw_arch(r, kind[5:])
            self.path = os.path.join(folder, "arch.json")
            json.dump(self.arch, open(self.path, "w"))
            self.input = ["--init", "default", "--seed", str(seed), "--random", str(r.choice((1, 2)))]
            try:
                self.layers = arch_layers(self.arch, drawn_weights(options.weights, self.path, seed))
            except RuntimeError as why:
                raise Refused(f"weights: {why}")
        else:
            model = Checkpoint(r, kind)
            self.path, self.layers = os.path.join(folder, "model"), model.layers
            os.makedirs(self.path)
            json.dump(model.config, open(os.path.join(self.path, "config.json"), "w"))
            save_file(model.w, os.path.join(self.path, "model.safetensors"))
            texts = [[r.randrange(model.vocab) for _ in range(r.choice((1, 2, 3, 5, 8, 30) if model.d < 4 else (1, 2, 3, 5, 8)))] for _ in range(r.choice((1, 2)))]
            json.dump(texts, open(os.path.join(folder, "ids.json"), "w"))
            self.input = ["--tokens", os.path.join(folder, "ids.json")]
            if some(r, 0.5):
                skip = r.choice((1.5, -4, 40, -1000, 1e5))
                self.edit = ["--lambda", f"mixer:{skip}"]
                for layer in self.layers:
                    layer["skip"] = skip
            self.change(r)
            if some(r, 0.3):
                self.edit += ["--norm-placement", "post"]
                for layer in self.layers:
                    layer.update(place="post", norm_kind="none")

    def change(self, r):
        """Edits of the command line that take parts of a mixer away."""
        for edit, parts in (("--no-gate", {"gate": "none"}), ("--no-inner-norm", {"norm": False, "three_eps": None})):
            if some(r, 0.15):
                self.edit.append(edit)
                for layer in self.layers:
                    layer["m"].update(parts)

    def run(self, command, *more):
        done = subprocess.run([self.options.program, command, self.path, *self.input, *self.edit, "--threads", "1", "--json", "-", *more],
                              capture_output=True, text=True)
        if done.returncode:
            raise Refused(f"{command}: {done.stderr.strip()[-150:]}")
        return json.loads(done.stdout)

    def command(self):
        return " ".join(["certify", self.path, *self.input, *self.edit, "--kept", repr(self.kept)])


class Attack:
    def __init__(self, options):
        self.options = options
        self.best, self.where, self.count = defaultdict(float), {}, Counter()
        self.nulls, self.refused, self.violations, self.runs = defaultdict(Counter), Counter(), [], 0

    def note(self, it, column, ratio, what, row, limit=1 + 1e-12):
        key = column, it.kind
        self.count[key] += 1
        if not ratio <= self.best[key]:
            self.best[key], self.where[key] = ratio, it.seed
        if not ratio <= limit:
            self.violations.append((column, it.kind, it.seed))
            print(f"VIOLATION {column} {it.kind} seed {it.seed} layer {row['layer']} sample {row['sample']}: ratio {ratio:.15g}; {what}\n    {it.command()}\n"
                  f"    {json.dumps(getattr(it, 'arch', None))}", flush=True)
            if self.options.keep:
                target = os.path.join(self.options.keep, f"{column}.{it.kind}.{it.seed}")
                shutil.copytree(it.folder, target, dirs_exist_ok=True)
                json.dump({"row": row, "ratio": ratio, "command": it.command()}, open(os.path.join(target, "violation.json"), "w"), indent=1)

    def one(self, seed, kind):
        with tempfile.TemporaryDirectory() as folder:
            try:
                it = Instance(self.options, seed, kind, folder)
                taps_at = os.path.join(folder, "taps")
                it.run("probe", "--precision", "f64", "--taps", taps_at)
                result = it.run("certify", "--kept", repr(it.kept))
                fast = it.run("certify", "--kept", repr(it.kept), "--fast")
            except Refused as why:
                self.refused[f"{kind} {str(why).replace(folder, '')}"] += 1
                return
            self.runs += 1
            self.check(it, load_file(taps_at), result["tables"]["lambda"], fast["tables"]["lambda"])

    def check(self, it, taps, rows, fast):
        if "ids.json" in str(it.input):
            lengths = [len(t) for t in json.load(open(it.input[1]))]
        else:
            lengths = [taps["layer.0.block_out"].shape[1]] * len(taps["layer.0.block_out"])
        longest = max(lengths)
        done = set()
        for row, loose in zip(rows, fast):
            l, sample = row["layer"], row["sample"]
            layer, n = it.layers[l], lengths[sample]
            x = taps[f"layer.{l}.block_out"][sample, :n].astype(np.float64)
            o = taps[f"layer.{l + 1}.mixer_out"][sample, :n].astype(np.float64)
            mine = mixer_rows(layer, x[None])[0]
            miss = np.abs(mine - o).max() / (np.abs(mine).max() or 1)
            finite = np.isfinite(mine).all() and np.isfinite(o).all()
            self.count["definition agrees" if miss < 1e-8 else "DEFINITION DIFFERS" if finite else "not finite", it.kind] += 1
            if miss >= 1e-8 and finite:
                if self.count["DEFINITION DIFFERS", it.kind] < 4:
                    print(f"differs {it.kind} {it.seed} layer {l}: {miss:.3g} place {layer['place']}", flush=True)
                continue
            self.conditions(it, row, loose)
            if (l, "gain") not in done:
                done.add((l, "gain"))
                self.gains(it, row, layer, longest, x.shape[1])
            if finite and n > 1 and spread(x) > 0:
                self.reasons(it, loose, layer, x)
                self.theorems(it, row, loose, layer, x, o)

    def conditions(self, it, row, loose):
        for name in row:
            if not name.endswith("_conditional"):
                continue
            base = name[:-12]
            if row[name] is True and row.get(base) is not None:
                print(f"CONDITION {it.kind} {it.seed}: {base} is conditional and shown without --fast", flush=True)
        for base, why in (("weights_only_gain", "weights_only_gain_failed"), ("demanded_by_theorem_a", "theorem_a_failed"),
                          ("demanded_by_theorem_a_layer", "theorem_a_layer_failed"), ("demanded_by_theorem_d", "theorem_d_failed"),
                          ("theorem_d_kept", "theorem_d_kept_failed"), ("theorem_c_kept", "theorem_c_failed"), ("consensus_multiplier", "consensus_failed"),
                          ("mlp_weights_only_gain", "mlp_weights_only_gain_failed")):
            if loose.get(base) is None:
                self.nulls[base][f"{it.kind}: {loose.get(why)}"] += 1
                if not loose.get(why):
                    print(f"NULL WITHOUT REASON {it.kind} {it.seed} layer {row['layer']}: {base}", flush=True)
            elif loose.get(why):
                print(f"REASON BESIDE A VALUE {it.kind} {it.seed} layer {row['layer']}: {base} {loose[why]}", flush=True)
            else:
                self.nulls[base][f"{it.kind}: value, conditional {loose.get(base + '_conditional')}"] += 1

    def reasons(self, it, row, layer, x):
        """A hypothesis that is said to fail must fail."""
        d, gain = x.shape[1], row["weights_only_gain"]
        reason, holds = row["theorem_d_kept_failed"], False
        if reason == "(|lambda| - 1) min|h_i| > B" and gain is not None:
            room = (abs(layer["skip"]) - 1) * np.sqrt((x * x).sum(-1)).min()
            self.note(it, "null theorem_d_kept, room/B", room / (gain * np.sqrt(d)) if gain else 0, f"room {room}, gain {gain}", row, 1 + 1e-9)
        reason = row["theorem_a_layer_failed"]
        if reason and "without the branch" in reason:
            post = dict(layer, norm_kind=layer["post_kind"], eps=0.0)
            self.note(it, "null theorem_a_layer, left/kept", spread(own_norm(post, x)) / (it.kept * spread(x)), "the norm leaves more", row, 1 + 1e-9)
        for column, text, holds in (("theorem_d_failed", "a norm before the branch (pre-norm)", layer["place"] == "pre"),
                                    ("theorem_a_layer_failed", "a norm after the sum (post-norm)", layer["place"] == "post"),
                                    ("theorem_a_failed", "a norm after the sum (post-norm)", layer["place"] == "post"),
                                    ("weights_only_gain_failed", "a norm before the branch: else what it reads has no known length",
                                     layer["place"] in ("pre", "sandwich") or (layer["place"] == "post" and row["layer"] > 0)),
                                    ("weights_only_gain_failed", "no norm inside the branch", layer["place"] != "sandwich"),
                                    ("mlp_weights_only_gain_failed", "one MLP in the layer", "mlp" in layer),
                                    ("mlp_weights_only_gain_failed", "no norm inside the branch", layer["place"] != "sandwich"),
                                    ("consensus_failed", "a causal mixer: M lower triangular", layer["m"].get("causal")),
                                    ("weights_only_gain_failed", "a norm of each head and an output map behind linear attention",
                                     layer["m"].get("norm") and "o" in layer["m"])):
            if row[column] == text and holds:
                print(f"REASON THAT HOLDS {it.kind} {it.seed} layer {row['layer']}: {column} {text}; {layer['place']} {getattr(it, 'arch', '')}", flush=True)
        reason = row["theorem_c_failed"]
        if reason and "one sign" in reason and layer["kind"] == "linear_attention":
            sums = layer["skip"] + layer["branch"] * linear_matrix(layer["m"], x[None])[0, 0].sum(1)
            if (sums > 1e-9).all() or (sums < -1e-9).all():
                print(f"REASON THAT HOLDS {it.kind} {it.seed} layer {row['layer']}: sums {sums}", flush=True)

    def gains(self, it, row, layer, n, d):
        claimed = row["weights_only_gain"]
        if claimed:
            # a post-norm layer reads what a norm gave: any vector of that kind; the first one reads anything
            reads = dict(layer, times=layer["branch"])
            if layer["place"] == "post" and row["layer"] > 0:
                before = it.layers[row["layer"] - 1]
                reads.update(norm_kind=layer["post_kind"], g=before["mlp_g" if "mlp" in before else "g"] if "g" in before else 1)
            ratio, x = climb_gain(mixer_rows, reads, claimed, n, d, it.g, self.options, first_rows(layer["m"]))
            self.note(it, "weights_only_gain", ratio, f"claimed {claimed}, x {x.tolist() if x is not None and ratio > 1 else ''}", row, 1 + 1e-15)
        elif claimed == 0:
            self.note(it, "weights_only_gain is 0", 0.0, "", row)
        claimed = row["mlp_weights_only_gain"]
        if claimed and "mlp" in layer:
            reads = dict(layer)
            if layer["place"] == "post":
                reads.update(norm_kind=layer["post_kind"], mlp_g=layer.get("g", 1))
            ratio, x = climb_gain(mlp_rows, reads, claimed, 1, d, it.g, self.options, layer["mlp"]["up"])
            self.note(it, "mlp_weights_only_gain", ratio, f"claimed {claimed}, x {x.tolist() if x is not None and ratio > 1 else ''}", row, 1 + 1e-14)

    def theorems(self, it, row, loose, layer, x, o):
        options, g, d = self.options, it.g, x.shape[1]
        gain = row["weights_only_gain"]
        length = None if gain is None else gain * np.sqrt(d)
        post = dict(layer, norm_kind=layer["post_kind"])
        for column, layers in (("demanded_by_theorem_a_layer", 1), ("demanded_by_theorem_a", len(it.layers))):
            demanded = loose[column]
            if demanded is None or length is None or not demanded < 1e290:
                continue
            for sign in (1, -1):
                if layers == 1:
                    least, _ = least_kept(post, x, sign * demanded, length, g, options.steps // 2)
                    self.note(it, column, it.kept / least if least else np.inf, f"kept {least} at {sign * demanded}", row, 1 + 1e-9)
        demanded = loose["demanded_by_theorem_d"]
        if demanded is not None and length is not None and demanded < 1e100:
            for sign in (1, -1):
                least = drift(x, sign * demanded, length, g, 60, False)
                self.note(it, "demanded_by_theorem_d", it.kept / least, f"kept {least} at {sign * demanded}", row, 1 + 1e-9)
                if layer["norm_kind"] == "layernorm":  # the directions that LayerNorm reads; the statement is about the rows as they are
                    self.note(it, "(theorem d, rows centred)", it.kept / drift(x, sign * demanded, length, g, 60, True), "", row, np.inf)
        kept = loose["theorem_d_kept"]
        if kept and length is not None:
            least = drift(x, layer["skip"], length, g, 60, False)
            self.note(it, "theorem_d_kept", kept / least, f"kept {kept}, found {least}", row, 1 + 1e-9)
        if layer["kind"] == "linear_attention":
            self.one_matrix(it, row, loose, layer, x)

    def one_matrix(self, it, row, loose, layer, x):
        kept, lead = loose["theorem_c_kept"], loose["consensus_multiplier"]
        if kept is None and lead is None:
            return
        if loose["theorem_c_kept_conditional"] is False:
            print(f"CONDITION {it.kind} {it.seed}: theorem_c_kept is called unconditional", flush=True)
        mix = linear_matrix(layer["m"], x[None])[0, 0]
        skip, w, n = layer["skip"], layer["branch"], len(x)
        post = dict(layer, norm_kind=layer["post_kind"])
        if kept is not None:
            y = own_norm(post, (skip * x + w * mix @ x).astype(np.longdouble))
            self.note(it, "theorem_c_kept (own X)", kept * float(spread(x.astype(np.longdouble))) / float(spread(y)), f"kept {kept}", row, 1 + 1e-9)
            # what LayerNorm takes away before anything else is no part of the statement
            x = x - x.mean(-1, keepdims=True) if layer["post_kind"] == "layernorm" else x
            lengths = np.sqrt((x * x).sum(-1, keepdims=True))

            def score(z):  # any states whose rows are as long and that differ as much: the epsilon is paid at this spread
                z = z - z.mean(-1, keepdims=True) if layer["post_kind"] == "layernorm" else z
                z = z / (np.sqrt((z * z).sum(-1, keepdims=True)) + 1e-300) * lengths
                left = spread(own_norm(post, skip * z + w * (mix @ z))) / spread(z)
                return np.where(spread(z) >= spread(x), kept / left, -1) if kept else spread(z) * 0
            best, _ = climb(score, np.concatenate([x[None] * (1 + 0 * s) + s * it.g.standard_normal((1,) + x.shape) for s in (0, 0.1, 1, 3, 10) * 4]), it.g,
                            self.options.steps // 2)
            self.note(it, "theorem_c_kept (any X)", best, f"kept {kept}", row, 1 + 1e-9)
        if lead is not None:
            self.consensus(it, row, loose, layer, mix, x, lead)

    def consensus(self, it, row, loose, layer, mix, x, lead):
        skip, w, n = layer["skip"], layer["branch"], len(x)
        sums = skip + w * mix.sum(1)
        rates = np.abs((skip + w * np.diag(mix)) / sums)[1:]
        self.note(it, "consensus_multiplier error", abs(rates.max() / lead - 1) if lead else float(rates.max()), f"claimed {lead}, found {rates.max()}", row, 1e-6)
        # small differences, followed through the linear part; tokens of sign sgn(D_i) are turned back, as M turns with its tokens
        d = x.shape[1]
        if d == 1 or lead > 1e6:
            return
        u = it.g.standard_normal(d)
        u = u / np.sqrt(u @ u) * np.sqrt(d)
        y = u + 1e-7 * it.g.standard_normal(x.shape)
        size = [spread(y)]
        for k in range(400):
            z = skip * y + w * mix @ y
            y = np.sign(sums)[:, None] * rms(z, 0)
            size.append(spread(y))
            if size[-1] > 1e-3 or size[-1] < 1e-13:
                break
        one_sign = (sums > 0).all() or (sums < 0).all()
        small = size[-1] < 1e-13 or size[-1] < size[0] * 1e-2
        went = "repelled" if size[-1] > 1e-3 or size[-1] > 100 * size[0] else ("equal" if one_sign else "sign") if small else "undecided"
        self.outcomes = getattr(self, "outcomes", Counter())
        self.outcomes[f"{loose['consensus_outcome']} / simulated {went}" + (f" at {lead:.3f}" if went == "undecided" else "")] += 1

    def show(self):
        print(f"{'column':34} {'kind':22} {'checks':>7} {'largest':>24}  seed")
        for key in sorted(self.count):
            print(f"{key[0]:34} {key[1]:22} {self.count[key]:7} {np.format_float_positional(self.best[key], 20, unique=False, trim='-') if 0.999999 < self.best[key] < 2 else f'{self.best[key]:.6g}':>24}  {self.where.get(key, '')}")
        for why, times in self.refused.most_common(12):
            print(f"refused {times}: {why}")
        for name, times in getattr(self, "outcomes", Counter()).most_common():
            print(f"outcome {times}: {name}")
        if self.options.nulls:
            for column in self.nulls:
                for why, times in sorted(self.nulls[column].items()):
                    print(f"{column}: {times} {why}")


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
