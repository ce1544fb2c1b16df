#!/usr/bin/env python3
"""Mixers with a given matrix (docs/theory/graph.md), computed in NumPy in float64 from the formulas alone.

    python3 tests/oracle/make_graph_golden.py

Writes tests/golden/graph/: adjacency files, and cases.json with an architecture, the states that leave its layers, the mixing
matrices of the first, its right vector and the residual about it. Weights and tokens are a hash of their index (float32), which
tests/unit/test_graph.c makes again: no generator of random numbers is shared.
"""
import json
import math
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).resolve().parents[1] / "golden" / "graph"
N, D, DEPTH = 7, 6, 2


def gen(tag, shape, scale=1.0):
    k = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    h = (k * np.uint64(2654435761) + np.uint64(tag) * np.uint64(2246822519)) & mask
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(2246822519)) & mask
    h ^= h >> np.uint64(13)
    h = (h * np.uint64(3266489917)) & mask
    h ^= h >> np.uint64(16)
    return (scale * (h.astype(np.float64) / 2147483648.0 - 1)).astype(np.float32).astype(np.float64).reshape(shape)


def adjacency():
    ring = np.zeros((N, N))
    for i in range(N):
        ring[i, (i + 1) % N] = ring[(i + 1) % N, i] = 1
    ring[0, 2] = ring[2, 0] = 1
    weighted = np.abs(gen(7, (N, N))) * (np.abs(gen(8, (N, N))) > 0.3)
    weighted = weighted + weighted.T
    lonely = weighted.copy()
    lonely[4, :] = lonely[:, 4] = 0
    directed = np.abs(gen(9, (N, N))) * (np.abs(gen(10, (N, N))) > 0.5)
    given = np.tril(gen(11, (N, N)))
    return {"ring": ring.astype(np.int32), "weighted": weighted, "lonely": lonely.astype(np.float32), "directed": directed, "given": given}


def fixed(a, form):
    a = a.astype(np.float64)
    degree = a.sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(degree > 0, 1 / degree, 0)
        root = np.where(degree > 0, 1 / np.sqrt(degree), 0)
    if form == "row":
        return np.diag(inverse) @ a
    if form == "symmetric":
        return np.diag(root) @ a @ np.diag(root)
    return a


def right_vector(a, form):
    a = a.astype(np.float64)
    edges = (a != 0).sum(1) > 0
    if form == "symmetric":
        return np.sqrt(a.sum(1))
    if form == "row":
        u, m = edges.astype(np.float64), fixed(a, "row")
        return u if np.allclose(m @ u, u, atol=1e-13) else None
    if form == "attention":
        return edges.astype(np.float64) if not (a[:, ~edges] != 0).any() else None
    sums = a.sum(1)
    return np.ones(N) if np.ptp(sums) < 1e-13 and abs(sums[0]) > 0 else None


def softmax_on(a, logits):
    p = np.where(a != 0, np.exp(np.where(a != 0, logits - np.max(np.where(a != 0, logits, -np.inf), 1, keepdims=True, initial=-1e30), 0)), 0)
    total = p.sum(1, keepdims=True)
    return np.divide(p, total, out=np.zeros_like(p), where=total > 0)


def run(a, arch):
    form, heads = arch["graph"]["form"], arch.get("heads", 1)
    kv = arch.get("kv_heads", heads)
    dim = D // heads
    merged, identity = arch.get("init", {}).get("wo") == "none", arch.get("value_map") == "identity"
    x, states, matrices = gen(1, (N, D)), [], None
    for l in range(DEPTH):
        def weight(which, out, inner):
            return gen(100 + 10 * l + which, (out, inner), 1 / math.sqrt(inner)).T
        if form == "attention":
            q, k = x @ weight(0, heads * dim, D), x @ weight(1, kv * dim, D)
            ms = [softmax_on(a, q[:, h * dim:(h + 1) * dim] @ k[:, g * dim:(g + 1) * dim].T / math.sqrt(dim) / arch.get("temperature", 1))
                  for h in range(heads) for g in [h // (heads // kv)]]
        else:
            ms = [fixed(a, form)]
        if identity:
            vs = [x] * len(ms) if merged or len(ms) == 1 else [x[:, h * dim:(h + 1) * dim] for h in range(heads)]
        elif form == "attention":
            width = D if merged else dim
            v = x @ weight(2, kv * width, D)
            vs = [v[:, g * width:(g + 1) * width] for h in range(heads) for g in [h // (heads // kv)]]
        else:
            vs = [x @ weight(2, D, D)]
        mixed = [m @ v for m, v in zip(ms, vs)]
        out = sum(mixed) if merged else np.hstack(mixed) @ weight(3, D, D)
        x = arch["skip_mixer"] * x + out
        states.append(x)
        matrices = matrices or ms
    return states, matrices


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    files = adjacency()
    for name, a in files.items():
        np.save(OUT / (name + ".npy"), a)
    cases = []
    for name, forms in (("ring", ("row", "symmetric", "attention", "given")), ("weighted", ("row", "symmetric", "attention", "given")),
                        ("lonely", ("row", "symmetric", "attention", "given")), ("directed", ("row", "attention", "given")), ("given", ("given",))):
        for form in forms:
            for extra in ({}, {"init": {"wo": "none"}}, {"value_map": "identity"}, {"value_map": "identity", "init": {"wo": "none"}},
                          {"heads": 2}, {"heads": 3, "kv_heads": 1, "temperature": 0.5}):
                if form != "attention" and "heads" in extra:
                    continue
                arch = dict(depth=DEPTH, d_model=D, mixer="graph", graph=dict(file=name + ".npy", form=form), norm="none", mlp="none",
                            skip_mixer=0.5, **extra)
                states, matrices = run(files[name], arch)
                u = right_vector(files[name], form)
                case = dict(arch=arch, states=[s.ravel().tolist() for s in states], matrices=[m.ravel().tolist() for m in matrices] if "value_map" not in extra and "init" not in extra else [],
                            right=None if u is None else u.tolist())
                if u is not None:
                    last = states[-1]
                    rest = last - np.outer(u, u @ last) / (u @ u)
                    case["residual_fro"] = float(np.linalg.norm(rest))
                    case["residual_1inf"] = float(math.sqrt(np.abs(rest).sum(0).max() * np.abs(rest).sum(1).max()))
                cases.append(case)
    with open(OUT / "cases.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
