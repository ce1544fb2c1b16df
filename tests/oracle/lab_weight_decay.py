#!/usr/bin/env python3
"""Numbers that lab experiments gqa-balance, rope-planes, heavy-ball-root, certificate-global-minimum and kobayashi-fig4 are compared with, by
NumPy and mpmath from docs/theory/weight_decay.md alone. `lab_weight_decay.py` prints them; tests/cli/lab_weight_decay.sh imports instances()."""
import json
import math
import sys

import mpmath
import numpy as np

mpmath.mp.dps = 40


def singular(matrix):
    """By the eigenvalues of the smaller Gram, in 40 digits."""
    a = mpmath.matrix(matrix)
    gram = a.T * a if a.rows >= a.cols else a * a.T
    return sorted((mpmath.sqrt(max(v, 0)) for v in mpmath.eigsy(gram, eigvals_only=True)), reverse=True)


def nuclear(matrix):
    return float(mpmath.fsum(singular(matrix)))


def planes(queries, keys, pairs):
    """sum_j |q_j||k_j| over pairs of rows."""
    def length(w, pair):
        return mpmath.sqrt(mpmath.fsum(mpmath.mpf(x) ** 2 for row in pair for x in w[row]))
    return float(mpmath.fsum(length(queries, p) * length(keys, p) for p in pairs))


def half_norm(*factors):
    return sum(x * x for f in factors for row in f for x in row) / 2


def root():
    """The heavy ball's slow root, momentum .9, rate .002, decay .3."""
    beta, rate, decay = mpmath.mpf("0.9"), mpmath.mpf("0.002"), mpmath.mpf("0.3")
    half = (1 + beta - 2 * rate * decay) / 2
    return float(half + mpmath.sqrt(half * half - beta))


def certificate():
    """W = diag(.9, 0), target diag(1, 0), decay .5, square loss: max(0, |G| - decay), distance, certificate with rho = L_*(W)/decay."""
    w, decay = np.diag([0.9, 0]), 0.5
    g = w - np.diag([1.0, 0])
    norm = np.linalg.norm(g, 2)
    value = (g**2).sum() / 2 + decay * 0.9
    least = 0.5**2 / 2 + decay * 0.5  # at diag(.5, 0)
    return max(0, norm - decay), value - least, decay * 0.9 + (g * w).sum() + max(0, norm - decay) * value / decay


def instances():
    """By the text of the claim."""
    q1, q2, k = [[1, 2, 0], [0, 1, 1]], [[2, 0, 1], [1, 1, 0]], [[1, 0, 1], [0, 2, 1]]
    wq, wk = [[1, 2, 0], [0, 1, 1], [2, 0, 1], [1, 1, 1]], [[1, 0, 1], [0, 2, 1], [1, 1, 0], [0, 0, 3]]
    stack = np.vstack([np.array(q).T @ np.array(k) for q in (q1, q2)])
    number, distance, bound = certificate()
    return {
        "whole numbers: nuclear norm of two stacked heads": nuclear(stack.tolist()),
        "whole numbers: of the first head by itself": nuclear((np.array(q1).T @ np.array(k)).tolist()),
        "whole numbers: H of the group": half_norm(q1, q2, k),
        "whole numbers: nuclear norm of W_Q'W_K": nuclear((np.array(wq).T @ np.array(wk)).tolist()),
        "whole numbers: sum of planes, interleaved rows": planes(wq, wk, ((0, 1), (2, 3))),
        "whole numbers: sum of planes, half-split rows": planes(wq, wk, ((0, 2), (1, 3))),
        "whole numbers: H": half_norm(wq, wk),
        "rate .002: |Q| a step later over |Q|, late": root(),
        "rate .02, roots are complex: 2 Re z of Q's late steps": 1.9 - 2 * 0.02 * 0.3,
        "rate .02: |z| of Q's late steps": math.sqrt(0.9),
        "W = diag(.9, 0): max(0, |G|_2 - decay), which proves nothing": number,
        "W = diag(.9, 0): its distance to the least loss": distance,
        "W = diag(.9, 0): its certificate": bound,
    }


def random_factors(d, r, draws, seed=0):
    """Mean and deviation over draws of the nuclear norm over H, of Gaussian factors d by r."""
    rng, ratios = np.random.default_rng(seed), []
    for _ in range(draws):
        a, b = rng.normal(size=(d, r)), rng.normal(size=(d, r))
        core = np.linalg.qr(a)[1] @ np.linalg.qr(b)[1].T
        ratios.append(np.linalg.svd(core, compute_uv=False).sum() / ((a**2).sum() + (b**2).sum()) * 2)
    return float(np.mean(ratios)), float(np.std(ratios, ddof=1))


if __name__ == "__main__":
    json.dump({"instances": instances(),
               "random factors": {f"{d} by {r}": random_factors(d, r, n) for d, r, n in ((64, 32, 400), (1024, 64, 60), (4096, 128, 12))}},
              sys.stdout, indent=1)
    print()
