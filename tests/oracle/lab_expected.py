#!/usr/bin/env python3
"""Numbers that the laboratory's claims expect and that no page prints: computed here, in Python, from the statements
alone.  Nothing reads this program's output; each line names the experiment in src/lab/ that holds its numbers.
Needs mpmath, numpy and scipy (requirements.txt).  Run: python3 tests/oracle/lab_expected.py"""
import math

import mpmath as mp
import numpy as np
from scipy.integrate import solve_ivp


def equiangular_ode():
    n, beta = 6, 2.0

    def slope(_, g):
        e = math.exp(beta * g[0])
        return [2 * e * (1 - g[0]) * ((n - 1) * g[0] + 1) / (math.exp(beta) + (n - 1) * e)]

    end = solve_ivp(slope, (0, 3), [0.0], rtol=1e-12, atol=1e-14).y[0, -1]
    print("equiangular-ode: cosine at depth 3 = %.9f" % end)


def masks(n):
    i, j = np.indices((n, n))
    return {
        "causal": j <= i,
        "sliding 4": (j <= i) & (i - j < 4),
        "sliding 2": (j <= i) & (i - j < 2),
        "band 4": abs(i - j) < 4,
        "band 2": abs(i - j) < 2,
    }


def reach(mask):
    """Least number of steps in which some token reaches all others, by powers of the graph."""
    n = len(mask)
    power = np.eye(n, dtype=bool)
    for steps in range(n):
        if power.all(axis=0).any():
            return steps
        power = (mask.astype(int) @ power.astype(int)) > 0
    return None


def variation(p):
    return max(abs(p[a] - p[b]).sum() / 2 for a in range(len(p)) for b in range(a))


def dobrushin_mask():
    n, layers = 16, 24
    for name, mask in masks(n).items():
        p = mask / mask.sum(1, keepdims=True)
        print("dobrushin-mask: %-9s reach %2d, tau(P^%d) of uniform attention = %.9g" %
              (name, reach(mask), layers, variation(np.linalg.matrix_power(p, layers))))


def lambda_attention(draws=16):
    """Causal attention with post-norm, Y <- rms(lambda Y + P Y W), 64 layers, 64 tokens of width 64: what is left of
    the residual, relative to the norm, over independent draws of all weights and tokens."""
    size, rng = 64, np.random.default_rng(99)
    visible = np.tril(np.ones((size, size), dtype=bool))

    def rms(y):
        return y / np.sqrt((y * y).mean(1, keepdims=True) + 1e-12)

    def gauss():
        return rng.standard_normal((size, size)) / math.sqrt(size)

    def value_matrix(kind):
        if kind == "identity":
            return np.eye(size)
        a = gauss()
        return a @ a.T if kind == "psd" else a

    for kind in ("identity", "psd", "gaussian"):
        for skip in (-20, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 20):
            left = []
            for _ in range(draws):
                y = rms(rng.standard_normal((size, size)) + 0.5 * rng.standard_normal((1, size)))
                for _ in range(size):
                    logits = np.where(visible, (y @ gauss()) @ (y @ gauss()).T / math.sqrt(size), -np.inf)
                    p = np.exp(logits - logits.max(1, keepdims=True))
                    y = rms(skip * y + p / p.sum(1, keepdims=True) @ y @ value_matrix(kind))
                left.append(np.linalg.norm(y - y.mean(0)) / np.linalg.norm(y))
            print("lambda-attention: W %-8s lambda %5.1f: mean %.5f, standard deviation %.5f" %
                  (kind, skip, np.mean(left), np.std(left, ddof=1)), flush=True)


def dong_layernorm(draws=20000):
    """Six tokens of width 8 that differ by 1e-3: what the best affine map of each column leaves unexplained of
    LayerNorm's output, and how far the local law is from it."""
    tokens, width, rng = 6, 8, np.random.default_rng(7)
    shares, errors = [], []
    for _ in range(draws):
        x = rng.standard_normal(width) + 1e-3 * rng.standard_normal((tokens, width))
        normed = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        left = total = 0
        for k in range(width):
            a, b = x[:, k] - x[:, k].mean(), normed[:, k] - normed[:, k].mean()
            left += b @ b - (a @ b) ** 2 / (a @ a)
            total += b @ b
        shares.append(left / total)
        mean = x.mean(0)
        centred, scale = mean - mean.mean(), mean.std()
        r = (x - mean) - (x - mean).mean(1, keepdims=True)
        law = r / scale - np.outer(r @ centred, centred) / (width * scale ** 3)
        true = normed - centred / scale
        errors.append(np.linalg.norm(true - law) / np.linalg.norm(true))
    print("dong-layernorm: unexplained share: mean %.4f, standard deviation %.4f, least %.3f, largest %.3f" %
          (np.mean(shares), np.std(shares), min(shares), max(shares)))
    print("dong-layernorm: share between 0.16 and 0.26: %.3f; quartiles %.4f %.4f %.4f" %
          (np.mean([(0.16 <= s <= 0.26) for s in shares]), *np.percentile(shares, [25, 50, 75])))
    print("dong-layernorm: local law, relative error: median %.3e, mean of log10 %.4f, its deviation %.4f" %
          (np.median(errors), np.mean(np.log10(errors)), np.std(np.log10(errors))))


def generated(tag, count, scale):
    """scale (h/2^31 - 1), h a hash of (tag, index): the same doubles in any language."""
    out = []
    for k in range(count):
        h = ((k + 1) * 2654435761 + tag * 2246822519) % 2 ** 32
        h = (h ^ h >> 15) * 2246822519 % 2 ** 32
        h = (h ^ h >> 13) * 3266489917 % 2 ** 32
        out.append(scale * ((h ^ h >> 16) / 2 ** 31 - 1))
    return out


def dong_doubly_exponential():
    """Five tokens, four features, one head with biases, 34 layers without skip: X = 1x + R carried as x and R in 80
    digits (mpmath's exponents have no end), by the exact identity P_ij - p_j = p_j expm1(E_ij - c_i)."""
    n, d, layers = 5, 4, 34
    mp.mp.dps = 80

    def rows(numbers, cols):
        return [[mp.mpf(v) for v in numbers[i:i + cols]] for i in range(0, len(numbers), cols)]

    def times(a, w):
        return [[mp.fdot(row, column) for column in zip(*w)] for row in a]

    base, apart = generated(1, d, 1), generated(2, n * d, 0.5)
    tokens = rows([base[i % d] + apart[i] for i in range(n * d)], d)
    x = [mp.fsum(column) / n for column in zip(*tokens)]
    r = [[v - c for v, c in zip(row, x)] for row in tokens]
    for layer in range(layers + 1):
        largest = max(abs(v) for row in r for v in row)
        if layer in (1, 2, 4, 8, 16, 33, 34):
            print("dong-doubly-exponential: layer %2d, log10 max|R| = %s" % (layer, mp.nstr(mp.log10(largest), 20)))
        tag = 100 + 10 * layer
        wq, wk = (rows(generated(tag + i, d * d, 2), d) for i in (0, 1))
        wv = rows(generated(tag + 2, d * d, 1), d)
        bq, bv = (rows(generated(tag + i, d, 0.5), d)[0] for i in (3, 4))
        query = [a + b for a, b in zip(times([x], wq)[0], bq)]
        shared = [mp.fdot(row, query) / mp.sqrt(d) for row in times(r, wk)]
        weights = [mp.exp(v) for v in shared]
        p = [w / mp.fsum(weights) for w in weights]
        mean = [mp.fdot(p, column) for column in zip(*r)]
        keys = [[v - m for v, m in zip(row, mean)] for row in r]
        e = [[v / mp.sqrt(d) for v in row] for row in times(times(r, wq), list(zip(*times(keys, wk))))]
        values, after = times(keys, wv), []
        for row in e:
            c = mp.log1p(mp.fsum(a * mp.expm1(b) for a, b in zip(p, row)))
            moved = [a * mp.expm1(b - c) for a, b in zip(p, row)]
            after.append([mp.fdot(moved, column) for column in zip(*values)])
        x = [a + b for a, b in zip(times([[u + m for u, m in zip(x, mean)]], wv)[0], bv)]
        centre = [mp.fsum(column) / n for column in zip(*after)]
        x = [a + b for a, b in zip(x, centre)]
        r = [[v - m for v, m in zip(row, centre)] for row in after]


if __name__ == "__main__":
    equiangular_ode()
    dobrushin_mask()
    dong_layernorm()
    dong_doubly_exponential()
    lambda_attention()
