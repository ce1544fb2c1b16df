#!/usr/bin/env python3
"""Oracle for table `heads` on two real checkpoints: forms every product in full (d x d, float64) and takes its SVD, which shares no
step with rankscope's route (two Grams and an r x r SVD). Also for table `energy`: every stored matrix as a whole, and every group's stacked
product. Writes tests/golden/minilm_heads.json, gemma3_270m_heads.json and their ..._energy.json; a model that scripts/fetch_model.sh cannot
fetch is left as it is.
"""
import json
import os
import subprocess

import numpy as np


def measures(a, b, eps):
    """a: m x r, b: n x r; the columns of docs/contract.md for A B^T."""
    m, n, r = a.shape[0], b.shape[0], a.shape[1]
    s = np.linalg.svd(a @ b.T, compute_uv=False)[: min(m, n, r)]
    x, y = a.T @ a, b.T @ b
    p = s / s.sum()
    h = 0.5 * (np.sum(a * a) + np.sum(b * b))
    q = np.linalg.eigvalsh(x - y)
    nuclear_q = np.abs(q).sum()
    spread = np.sum(x * x) + np.sum(y * y) - 2 * np.trace(x) * np.trace(y) / r
    tolerance = max(m, n) * eps
    numerical = int(np.sum(s > tolerance * s[0]))
    return {
        "rows": m, "cols": n, "inner": r,
        "spectral_norm": s[0], "frobenius_norm": np.sqrt(np.sum(s**2)), "nuclear_norm": s.sum(),
        "stable_rank": np.sum(s**2) / s[0] ** 2,
        "effective_rank": np.exp(-np.sum(p[p > 0] * np.log(p[p > 0]))),
        "participation_ratio": np.sum(s**2) ** 2 / np.sum(s**4),
        "energy_rank": int(np.argmax(np.cumsum(s**2) >= 0.95 * np.sum(s**2) * (1 - 1e-12)) + 1),
        "pseudo_rank": (int(np.argmax(np.cumsum(s) >= 0.95 * s.sum() * (1 - 1e-12))) + 1) / r,
        "numerical_rank": numerical,
        "condition": s[0] / s[-1] if s[-1] > tolerance * s[0] else None,
        "half_norm": h, "gap": h - s.sum(), "nuclear_excess": (h - s.sum()) / h,
        "gap_low": nuclear_q**2 / (4 * (h + s.sum())), "gap_high": nuclear_q / 2,
        "balance": np.linalg.norm(x - y) / (np.linalg.norm(x) + np.linalg.norm(y)),
        "balance_score": 1 - np.sum((x - y) ** 2) / spread,
    }


def energies(rows, layer, sigma, shape, stored, feasible, **names):
    """Rows of table energy for one matrix or product of this spectrum, whose replacement of rank k holds k (rows + cols) numbers."""
    share = np.cumsum(sigma**2) / np.sum(sigma**2)
    for energy in (0.5, 0.9, 0.99):
        k = int(np.argmax(share >= energy * (1 - 1e-12))) + 1
        rows.append({"layer": layer, "matrix": None, "product": None, "head": None, **names, "energy": energy, "rank": k,
                     "relative_error": np.sqrt(np.sum(sigma[k:] ** 2) / np.sum(sigma**2)), "parameters": stored,
                     "parameters_saved": max(0, stored - k * sum(shape)) if feasible else 0, "feasible": feasible})


def energy_rows(rows, layer, q, k, v, o, heads, kv_heads, qk_feasible):
    """q, k, v: units x width, o: width x units, as transformers stores them."""
    for name, w in (("W_Q", q), ("W_K", k), ("W_V", v), ("W_O", o)):
        energies(rows, layer, np.linalg.svd(w, compute_uv=False), w.shape, w.size, True, matrix=name)
    c, share = q.shape[0] // heads, heads // kv_heads
    for g in range(kv_heads):
        kv, members = slice(g * c, (g + 1) * c), [slice((g * share + j) * c, (g * share + j + 1) * c) for j in range(share)]
        stacked = {"qk": np.vstack([q[s].T @ k[kv] for s in members]), "ov": np.hstack([v[kv].T @ o[:, s].T for s in members])}
        stored = {"qk": sum(q[s].size for s in members) + k[kv].size, "ov": sum(o[:, s].size for s in members) + v[kv].size}
        for product, m in stacked.items():
            sigma = np.linalg.svd(m, compute_uv=False)[:c]
            energies(rows, layer, sigma, m.shape, stored[product], product == "ov" or qk_feasible, product=product, head=g)


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def emit(name, rows, note, list_name="heads"):
    for row in rows:
        for key, value in row.items():
            if isinstance(value, (float, np.floating)):
                row[key] = float(f"{value:.12g}")
    head = json.dumps({"made_by": "tests/oracle/make_real_model_golden.py", "note": note, "numpy": np.__version__})
    with open(os.path.join(ROOT, "tests", "golden", name), "w") as f:
        f.write(head[:-1] + f', "{list_name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]}\n")


def minilm(directory):
    from safetensors.numpy import load_file
    w = load_file(f"{directory}/model.safetensors")
    config = json.load(open(f"{directory}/config.json"))
    heads, c = config["num_attention_heads"], config["hidden_size"] // config["num_attention_heads"]
    rows, energy = [], []
    for layer in range(config["num_hidden_layers"]):
        base = f"encoder.layer.{layer}.attention."
        q, k, v, o = (w[base + name].astype(np.float64) for name in
                      ("self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight"))
        energy_rows(energy, layer, q, k, v, o, heads, heads, True)
        for product in ("qk", "ov"):
            for h in range(heads):
                s = slice(h * c, (h + 1) * c)
                a, b = (q[s].T, k[s].T) if product == "qk" else (v[s].T, o[:, s])
                rows.append({"layer": layer, "head": h, "product": product, **measures(a, b, np.finfo(np.float32).eps)})
    emit("minilm_heads.json", rows, "all-MiniLM-L6-v2, safetensors")
    emit("minilm_energy.json", energy, "all-MiniLM-L6-v2, safetensors", "energy")


def gemma(path):
    from gguf import GGUFReader
    from gguf.quants import dequantize
    reader = GGUFReader(path)
    field = {name: f.contents() for name, f in reader.fields.items() if name.startswith("gemma3.")}
    layers, heads = int(field["gemma3.block_count"]), int(field["gemma3.attention.head_count"])
    kv_heads, c = int(field["gemma3.attention.head_count_kv"]), int(field["gemma3.attention.key_length"])
    tensors = {t.name: t for t in reader.tensors}

    def weight(name):
        t = tensors[name]
        return dequantize(t.data, t.tensor_type).reshape([int(x) for x in reversed(t.shape)]).astype(np.float64)

    rows, energy = [], []
    for layer in range(layers):
        q, k, v, o = (weight(f"blk.{layer}.attn_{name}.weight") for name in ("q", "k", "v", "output"))
        energy_rows(energy, layer, q, k, v, o, heads, kv_heads, False)  # Gemma 3 has RoPE and QK-norm
        for product in ("qk", "ov"):
            for h in range(heads):
                g = h * kv_heads // heads
                s, t = slice(h * c, (h + 1) * c), slice(g * c, (g + 1) * c)
                a, b = (q[s].T, k[t].T) if product == "qk" else (v[t].T, o[:, s])
                rows.append({"layer": layer, "head": h, "product": product, **measures(a, b, np.finfo(np.float32).eps)})
    note = "Gemma 3 270M, Q4_K_M, GGUF, dequantised by the gguf package"
    emit("gemma3_270m_heads.json", rows, note)
    emit("gemma3_270m_energy.json", energy, note, "energy")


for model, make in (("minilm", minilm), ("gemma3-270m", gemma)):
    fetch = subprocess.run([os.path.join(ROOT, "scripts", "fetch_model.sh"), model], capture_output=True, text=True)
    if fetch.returncode:
        print(f"{model} is left as it is: {fetch.stderr.strip()}")
    else:
        make(fetch.stdout.strip())
