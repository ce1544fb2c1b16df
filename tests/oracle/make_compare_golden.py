#!/usr/bin/env python3
"""Writes tests/golden/compare/: small LLaMA checkpoints in float64 and compare.json, what changed between them by NumPy.

Every product W_Q W_K^T and W_V W_O is formed whole and decomposed by numpy.linalg.svd: norm, effective and stable rank of the
difference, and ||U_A^T U_B||^2/k of the k leading vectors on both sides. The pairs: moved (every weight), tiny (the same by 1e-9),
keys (W_K alone), rotated (W_Q R, W_K R and W_V R, R^T W_O of every key/value head: the products stay), narrow (heads of another
width), deep (one layer more), ssm (a Mamba whose product is smaller than its
factors).

Re-run with the versions of requirements.txt:  python tests/oracle/make_compare_golden.py
"""

import json
import pathlib
import struct

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "compare"
D, HEADS, KV, DIM, LAYERS = 24, 4, 2, 5, 2


def draw(rng, layers=LAYERS, dim=DIM):
    shapes = {"q": (HEADS * dim, D), "k": (KV * dim, D), "v": (KV * dim, D), "o": (D, HEADS * dim)}
    return {f"model.layers.{layer}.self_attn.{m}_proj.weight": rng.standard_normal(shape)
            for layer in range(layers) for m, shape in shapes.items()}


def save(name, weights, layers=LAYERS, dim=DIM):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "llama", "hidden_size": D, "num_hidden_layers": layers, "num_attention_heads": HEADS,
              "num_key_value_heads": KV, "head_dim": dim, "intermediate_size": 8, "vocab_size": 11}
    (folder / "config.json").write_text(json.dumps(config) + "\n")
    header, at, data = {}, 0, b""
    for key, value in weights.items():
        raw = np.ascontiguousarray(value, "<f8").tobytes()
        header[key] = {"dtype": "F64", "shape": list(value.shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def nudged_mamba(rng):
    """A copy of tests/golden/forward/falcon_mamba whose matrices moved, as the float32 that they are stored in."""
    source, folder = OUT.parent / "forward" / "falcon_mamba", OUT / "ssm"
    folder.mkdir(exist_ok=True)
    raw = bytearray((source / "model.safetensors").read_bytes())
    size = struct.unpack("<Q", raw[:8])[0]
    before, after = {}, {}
    for key, entry in json.loads(raw[8:8 + size]).items():
        if key == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        weights = np.frombuffer(bytes(raw[begin:end]), "<f4").reshape(entry["shape"])
        moved = weights
        if weights.ndim == 2:
            moved = (weights + 0.4 * weights.std() * rng.standard_normal(weights.shape)).astype("<f4")
        raw[begin:end] = np.ascontiguousarray(moved).tobytes()
        before[key], after[key] = weights.astype(float), moved.astype(float)
    (folder / "config.json").write_bytes((source / "config.json").read_bytes())
    (folder / "model.safetensors").write_bytes(raw)
    return before, after


def in_out(weights, layer):
    """W_in W_out of the part of the input that the states see."""
    inside, outside = (next(w for key, w in weights.items() if f"layers.{layer}.mixer.{name}_proj.weight" in key) for name in ("in", "out"))
    return inside[:len(inside) // 2].T @ outside.T


def products(weights, layer, head, dim):
    q, k, v, o = (weights[f"model.layers.{layer}.self_attn.{m}_proj.weight"] for m in "qkvo")
    own, group = slice(head * dim, (head + 1) * dim), slice(head * KV // HEADS * dim, (head * KV // HEADS + 1) * dim)
    return {"qk": q[own].T @ k[group], "ov": v[group].T @ o[:, own].T}


def effective_rank(sigma):
    p = sigma[sigma > 0] / sigma.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def compared(a, b, asked):
    ua, sa, va = np.linalg.svd(a)
    ub, sb, vb = np.linalg.svd(b)
    rank = min((s > 24 * 2**-52 * s[0]).sum() for s in (sa, sb))
    k = int(min(asked or np.ceil(effective_rank(sa)), rank))
    s = np.linalg.svd(a - b, compute_uv=False)
    return {"norm": float(np.sqrt((s * s).sum())), "relative": float(np.linalg.norm(s) / np.linalg.norm(sa)),
            "effective_rank": effective_rank(s), "stable_rank": float((s * s).sum() / s[0] ** 2), "k": k,
            "left": float(np.linalg.norm(ua[:, :k].T @ ub[:, :k]) ** 2 / k),
            "right": float(np.linalg.norm(va[:k] @ vb[:k].T) ** 2 / k)}


def rotated(weights, rng):
    out = dict(weights)
    for layer in range(LAYERS):
        names = {m: f"model.layers.{layer}.self_attn.{m}_proj.weight" for m in "qkvo"}
        q, k, v, o = (out[names[m]].copy() for m in "qkvo")
        for g in range(KV):
            turns = [np.linalg.qr(rng.standard_normal((DIM, DIM)))[0] for _ in range(2)]
            group = slice(g * DIM, (g + 1) * DIM)
            k[group], v[group] = turns[0].T @ k[group], turns[1].T @ v[group]
            for h in range(g * HEADS // KV, (g + 1) * HEADS // KV):
                own = slice(h * DIM, (h + 1) * DIM)
                q[own], o[:, own] = turns[0].T @ q[own], o[:, own] @ turns[1]
        out.update({names["q"]: q, names["k"]: k, names["v"]: v, names["o"]: o})
    return out


def main():
    rng = np.random.default_rng(20)
    base = draw(rng)
    noise = draw(rng)
    others = {"moved": {key: w + 0.4 * noise[key] for key, w in base.items()},
              "tiny": {key: w + 1e-9 * noise[key] for key, w in base.items()},
              "keys": {key: w + (0.5 * noise[key] if ".k_proj" in key else 0) for key, w in base.items()},
              "rotated": rotated(base, rng),
              "narrow": draw(rng, dim=3),
              "deep": {**base, **{key: w for key, w in draw(rng, layers=3).items() if ".layers.2." in key}}}
    save("base", base)
    rows = {}
    for name, weights in others.items():
        layers, dim = (3 if name == "deep" else LAYERS), (3 if name == "narrow" else DIM)
        save(name, weights, layers, dim)
        if name in ("rotated", "deep"):
            continue
        rows[name] = []
        for layer in range(LAYERS):
            for head in range(HEADS):
                one, two = products(base, layer, head, DIM), products(weights, layer, head, dim)
                for product in one:
                    if name == "keys" and product == "ov":
                        continue
                    rows[name] += [{"layer": layer, "head": head, "product": product, "asked": asked,
                                    **compared(one[product], two[product], asked)} for asked in (0, 2)]
    before, after = nudged_mamba(rng)
    rows["ssm"] = [{"layer": layer, "head": 0, "product": "io", "asked": asked, **compared(in_out(before, layer), in_out(after, layer), asked)}
                   for layer in range(2) for asked in (0, 2)]
    (OUT / "compare.json").write_text(json.dumps(rows, indent=1) + "\n")


main()
