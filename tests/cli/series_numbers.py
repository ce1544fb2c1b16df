#!/usr/bin/env python3
"""series_numbers.py RESULT.json: table series of a run of copies of tests/golden/families/llama against its weights: the effective rank of each
head by Cholesky and Jacobi, and the standard deviation of random ones by drawing them. Standard library only."""
import json
import math
import random
import struct
import sys


def cholesky(m):
    n = len(m)
    low = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = m[i][j] - sum(low[i][k] * low[j][k] for k in range(j))
            low[i][j] = math.sqrt(rest) if i == j else rest / low[j][j]
    return low


def eigenvalues(m):
    """Of a symmetric matrix, by cyclic Jacobi."""
    a, n = [row[:] for row in m], len(m)
    for _ in range(60):
        if sum(a[i][j] ** 2 for i in range(n) for j in range(i)) < 1e-300:
            break
        for p in range(n):
            for q in range(p + 1, n):
                if a[p][q] == 0:
                    continue
                theta = (a[q][q] - a[p][p]) / (2 * a[p][q])
                t = (1 if theta >= 0 else -1) / (abs(theta) + math.sqrt(theta * theta + 1))
                c = 1 / math.sqrt(t * t + 1)
                s = t * c
                for k in range(n):
                    a[k][p], a[k][q] = c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]
                for k in range(n):
                    a[p][k], a[q][k] = c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]
    return [a[i][i] for i in range(n)]


def effective_rank(a, b):
    """Of A Bᵀ, whose squared singular values are the eigenvalues of Lᵀ (BᵀB) L, AᵀA = L Lᵀ; a, b: lists of the columns."""
    def gram(columns):
        return [[sum(x * y for x, y in zip(u, v)) for v in columns] for u in columns]
    low, g, n = cholesky(gram(a)), gram(b), len(a)
    m = [[sum(low[k][i] * g[k][l] * low[l][j] for k in range(n) for l in range(n)) for j in range(n)] for i in range(n)]
    sigma = [math.sqrt(max(0, x)) for x in eigenvalues(m)]
    shares = [s / sum(sigma) for s in sigma]
    return math.exp(-sum(p * math.log(p) for p in shares if p > 0))


def weights(path):
    with open(f"{path}/model.safetensors", "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(size)), f.read()
    def matrix(name):
        t = header[name]
        rows, cols = t["shape"]
        flat = struct.unpack_from(f"<{rows * cols}f", data, t["data_offsets"][0])
        return [list(flat[r * cols:(r + 1) * cols]) for r in range(rows)]
    return matrix


result = json.load(open(sys.argv[1]))
rows, width, heads, group, d = result["tables"]["series"], 4, 4, 2, 16
bad = 0
for row in rows:
    matrix = weights(row["path"])
    name = f"model.layers.{row['layer']}.self_attn."
    ranks = []
    for h in range(heads):
        units = range(h * width, (h + 1) * width)
        kv = range(h // group * width, (h // group + 1) * width)
        if row["product"] == "qk":
            a, b = [matrix(name + "q_proj.weight")[i] for i in units], [matrix(name + "k_proj.weight")[i] for i in kv]
        else:
            output = matrix(name + "o_proj.weight")
            a, b = [matrix(name + "v_proj.weight")[i] for i in kv], [[r[i] for r in output] for i in units]
        ranks.append(effective_rank(a, b))
    want = sum(ranks) / heads
    # 1e-8: the Grams square the condition, of columns down to 0.001 of each other
    if abs(row["effective_rank"] - want) > 1e-8 * want or abs(row["effective_rank_ratio"] - want / row["effective_rank_null"]) > 1e-8:
        print(f"{row['path']} layer {row['layer']} {row['product']}: {row['effective_rank']!r}, expected {want!r}")
        bad += 1
# layers drawn whole: heads of a group share their keys, and so vary together
draw = random.Random(5)


def normal():
    return [[draw.gauss(0, 1) for _ in range(d)] for _ in range(width)]


layers = []
for _ in range(400):
    keys = [normal() for _ in range(heads // group)]
    layers.append(sum(effective_rank(normal(), keys[h // group]) for h in range(heads)) / heads)
mean = sum(layers) / len(layers)
spread = math.sqrt(sum((x - mean) ** 2 for x in layers) / (len(layers) - 1)) / mean
if abs(rows[0]["effective_rank_null"] - mean) > 0.02 * mean or abs(rows[0]["effective_rank_ratio_spread"] / spread - 1) > 0.15:
    print(f"chance: {rows[0]['effective_rank_null']!r} ± {rows[0]['effective_rank_ratio_spread']!r}, drawn {mean!r} ± {spread!r}")
    bad += 1
print(f"{len(rows)} rows, {bad} differ")
sys.exit(1 if bad or not rows else 0)
