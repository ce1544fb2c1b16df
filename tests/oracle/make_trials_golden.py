"""Monte Carlo trials of src/predict/trials.h in PyTorch: the same draws (written anew from the description in trials_draw.h), forward in
plain products, back by autograd, float64.

    .venv/bin/python tests/oracle/make_trials_golden.py

Writes tests/golden/predict/trials.json: for each case the architecture, the sample's law, and the numbers of two trials by layer.
"""
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "predict" / "trials.json"
SEED = 11
TRIALS = 2
f32 = np.float32


def philox(counter, seed, rounds):
    """counter: four arrays of 32-bit words."""
    c = [np.asarray(w, np.uint64) for w in np.broadcast_arrays(*counter)]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(rounds):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        k0, k1 = (np.uint64(k) for k in keys)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & low]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def unit(words):
    return ((words >> np.uint64(1)).astype(np.int64).astype(f32) + f32(0.5)) * f32(2.0 ** -31)


def box_muller(first, second, offset, factor):
    """float32 all the way, in the order of the C text."""
    bits = unit(first).view(np.uint32)
    exponent_bits = (bits + np.uint32(0x3F800000 - 0x3F3504F3)) & np.uint32(0xFF800000)
    exponent = ((exponent_bits >> np.uint32(23)).astype(np.int32) - 127).astype(f32)
    m = (bits - exponent_bits + np.uint32(0x3F800000)).view(f32)
    s = (m - f32(1)) / (m + f32(1))
    q = s * s
    series = f32(1) + q * (f32(1) / f32(3) + q * (f32(1) / f32(5) + q * (f32(1) / f32(7))))
    radius = f32(factor) * np.sqrt(exponent * f32(-1.386294361) - f32(4) * s * series)
    x = ((second & np.uint64(0x3FFFFFFF)).astype(np.int64).astype(f32) * f32(2.0 ** -30) - f32(0.5)) * f32(1.570796327)
    q = x * x
    sine = x * (f32(1) + q * (f32(-1) / f32(6) + q * (f32(1) / f32(120) + q * (f32(-1) / f32(5040)))))
    cosine = f32(1) + q * (f32(-0.5) + q * (f32(1) / f32(24) + q * (f32(-1) / f32(720) + q * (f32(1) / f32(40320)))))
    quarter, half = (second >> np.uint64(30)) & np.uint64(1) == 1, second >> np.uint64(31) == 1
    a, b = np.where(quarter, -sine, cosine), np.where(quarter, cosine, sine)
    a, b = np.where(half, -a, a), np.where(half, -b, b)
    return f32(offset) + radius * a, f32(offset) + radius * b


def normals(trial, role, layer, count, mean=0.0, deviation=1.0):
    chunks = (count + 255) // 256
    w = philox((np.arange(64 * chunks), trial, role, layer), SEED, 7)
    pairs = [box_muller(w[i], w[i + 1], mean, deviation) for i in (0, 2)]
    parts = [pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]]
    return np.stack([p.reshape(chunks, 64) for p in parts], 1).reshape(-1)[:count].astype(np.float64)


def trial_seed(trial):
    mask = (1 << 64) - 1
    x = (SEED + (trial + 1) * 0x9E3779B97F4A7C15) & mask
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & mask
    return x ^ x >> 31


def loss_row(seed, row, d):
    """src/base/random.h: 53-bit uniforms in Box-Muller pairs."""
    at = np.arange(d + d % 2)
    w = philox((at, 0, row, 0), seed, 10)
    u = (((w[0] << np.uint64(32) | w[1]) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0 ** -53
    radius, angle = np.sqrt(-2 * np.log(u[0::2])), 2 * math.pi * u[1::2]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)[:d]


def sample(trial, n, d, norm2, rho):
    x = normals(trial, 1 << 20, 0, n * d).reshape(n, d)
    u = normals(trial, (1 << 20) + 1, 0, d)
    u /= np.linalg.norm(u)
    if rho > 0:
        x = x - np.outer(x @ u, u)
    x = math.sqrt(1 - rho) * x / np.linalg.norm(x, axis=1, keepdims=True) + math.sqrt(rho) * u
    return x * math.sqrt(norm2) / np.linalg.norm(x, axis=1, keepdims=True)


ACTIVATIONS = {"relu": torch.relu, "gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"), "linear": lambda t: t}


def norm(kind, x):
    if kind == "rmsnorm":
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5)
    return F.layer_norm(x, x.shape[-1:], eps=1e-5)


class Network:
    def __init__(self, arch, trial):
        a = self.arch = arch
        d, heads, width = a["d_model"], a["heads"], a["mlp_width"]
        self.kv, self.dim = a.get("kv_heads", heads), a.get("d_head", d // heads)
        self.merged = a.get("init", {}).get("wo") == "none"
        self.values = d if self.merged else self.dim
        shapes = [("q", 0, heads * self.dim, d), ("k", 1, self.kv * self.dim, d), ("v", 2, self.kv * self.values, d)]
        if not self.merged:
            shapes.append(("o", 3, d, heads * self.dim))
        if a["mlp"] != "none":
            shapes += [("up", 68, width, d), ("down", 70, d, width)] + ([("gate", 69, width, d)] if a["mlp"] == "swiglu" else [])
        self.layers = []
        for l in range(a["depth"]):
            w = {}
            for name, role, out, inner in shapes:
                variance = (2 if name == "up" and a["mlp"] == "relu" else 1) / inner
                numbers = normals(trial, role, l, out * inner, 0, math.sqrt(variance))
                w[name] = torch.tensor(numbers.reshape(out, inner), requires_grad=True)
            self.layers.append(w)

    def attention(self, w, x, told):
        a, n = self.arch, x.shape[0]
        heads = a["heads"]
        q, k, v = x @ w["q"].T, x @ w["k"].T, x @ w["v"].T
        seen = torch.ones(n, n, dtype=torch.bool)
        if a.get("mask") == "causal":
            seen = seen.tril()
        keys, logit, parts = 0, 0, []
        for h in range(heads):
            g = h // (heads // self.kv)
            s = q[:, h * self.dim:(h + 1) * self.dim] @ k[:, g * self.dim:(g + 1) * self.dim].T / math.sqrt(self.dim)
            p = torch.softmax(s.masked_fill(~seen, -math.inf), -1)
            rows = [n - 1] if a.get("mask") == "causal" else range(n)
            keys += sum((p[i] ** 2).sum() for i in rows) / len(rows) / heads
            logit += sum(s[i][seen[i]].var(unbiased=False) for i in rows) / len(rows) / heads
            parts.append(p @ v[:, g * self.values:(g + 1) * self.values])
        told["keys"], told["logits"] = keys.item(), logit.item()
        return sum(parts) if self.merged else torch.cat(parts, 1) @ w["o"].T

    def mlp(self, w, x):
        if self.arch["mlp"] == "swiglu":
            return (F.silu(x @ w["gate"].T) * (x @ w["up"].T)) @ w["down"].T
        return ACTIVATIONS[self.arch["mlp"]](x @ w["up"].T) @ w["down"].T

    def run(self, x, after):
        a, kind = self.arch, self.arch.get("norm_kind", "layernorm")
        states, told = [x], []
        for w in self.layers:
            told.append({})
            for op in [lambda t: self.attention(w, t, told[-1])] + ([lambda t: self.mlp(w, t)] if a["mlp"] != "none" else []):
                y = op(norm(kind, x) if a["norm"] in ("pre", "sandwich") else x)
                x = x + (norm(kind, y) if a["norm"] == "sandwich" else y)
                if a["norm"] == "post":
                    x = norm(kind, x)
            states.append(x)
        final = a["norm"] in ("pre", "sandwich") and after
        return states, told, norm(kind, x) if final else x


def numbers(case, trial):
    arch, n, d = case["arch"], case["n"], case["arch"]["d_model"]
    network = Network(arch, trial)
    x = torch.tensor(sample(trial, n, d, case["norm2"], case["rho"]), requires_grad=True)
    states, told, last = network.run(x, case["after"])
    for s in states[1:]:
        s.retain_grad()
    g = torch.tensor(np.stack([loss_row(trial_seed(trial), i, d) for i in range(n)]))
    (last * g).sum().backward()
    rows = []
    for l, s in enumerate(states):
        t = s.detach()
        row = {"F2": t.square().sum(), "C": t.sum(0).square().sum(), "residual": (t - t.mean(0)).square().sum(), "dX": s.grad.square().sum()}
        if n > 1:
            c = F.normalize(t) @ F.normalize(t).T
            row["cosine"] = (c.sum() - c.trace()) / (n * (n - 1))
        row = {k: v.item() for k, v in row.items()}
        if l < len(told):
            row.update(told[l])
            names = {"q": "gQ", "k": "gK", "v": "gV", "o": "gO", "up": "gUp", "gate": "gGate", "down": "gDown"}
            row.update({names[k]: w.grad.square().sum().item() for k, w in network.layers[l].items()})
        rows.append(row)
    return rows


BASE = {"depth": 2, "d_model": 12, "heads": 3, "seq_len": 6, "norm": "post", "mlp": "relu", "mlp_width": 17}
CASES = [
    dict(arch=BASE, n=6, norm2=12, rho=0.2, after=False),
    dict(arch={**BASE, "norm": "pre", "mlp": "swiglu", "kv_heads": 1, "d_head": 5, "mask": "causal", "seq_len": 11}, n=11, norm2=4, rho=0.05, after=True),
    dict(arch={**BASE, "norm": "sandwich", "norm_kind": "rmsnorm", "mlp": "gelu", "depth": 3, "seq_len": 20}, n=20, norm2=30, rho=0, after=True),
    dict(arch={**BASE, "norm": "none", "mlp": "gelu_tanh", "init": {"wo": "none"}, "seq_len": 3}, n=3, norm2=2, rho=0.7, after=False),
    dict(arch={**BASE, "norm": "post", "mlp": "none", "depth": 4, "heads": 1, "seq_len": 1}, n=1, norm2=5, rho=0, after=False),
]


def main():
    torch.set_num_threads(1)
    cases = [{**case, "seed": SEED, "trials": [numbers(case, t) for t in range(TRIALS)]} for case in CASES]
    GOLDEN.write_text(json.dumps(cases, indent=0) + "\n")


main()
