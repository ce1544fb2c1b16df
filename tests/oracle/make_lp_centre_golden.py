#!/usr/bin/env python3
"""Writes tests/golden/measures/lp_centre.json: the radius of the smallest l1 ball around the rows of matrices that
test_lp_centre.c makes by the same rule, as the linear programme min t, |X_ik - x_k| <= s_ik, sum_k s_ik <= t, solved by HiGHS.

  tests/oracle/make_lp_centre_golden.py      (numpy and scipy as in requirements.txt)
"""
import json
import os

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import bmat, csr_matrix, identity, kron

LAWS = ["plain", "far", "outlier", "repeated", "ties", "collapsed", "tokens"]
SIZES = [(1, 7), (2, 9), (3, 40), (5, 1), (40, 6), (24, 64), (40, 48)]


def entries(count, seed):
    out = np.empty(count)
    for i in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        out[i] = (seed >> 32) * 2.0**-32 - 0.5
    return out


def matrix(law, n, d, seed):
    x = entries(n * d, seed).reshape(n, d)
    if law == "far":                          # every fifth row far out, as separators are among tokens
        x[::5] *= 3
    if law == "outlier":                      # one massive activation
        x[:, 0] *= 1e4
    if law == "repeated":                     # tokens that occur twice
        x[(n + 1) // 2:] = x[:n // 2]
    if law == "ties":
        x = np.floor(x * 8)
    if law == "collapsed":                    # rows equal to float32's last bits
        x = x[:1] + 2.0**-23 * x
    if law == "tokens":                       # few words, each with a small mark of its position
        x = x[np.arange(n) ** 2 % 7 % n] + 0.125 * x
    return x


def radius(x):
    n, d = x.shape
    x = x - x[0]
    scale = np.abs(x).max()
    if scale == 0:
        return 0.0
    x = x / scale
    # variables x (d), s (nd), t
    eye, ones = kron(csr_matrix(np.ones((n, 1))), identity(d)), identity(n * d)
    a = bmat([[-eye, -ones, csr_matrix((n * d, 1))], [eye, -ones, csr_matrix((n * d, 1))],
              [csr_matrix((n, d)), kron(identity(n), np.ones((1, d))), csr_matrix(-np.ones((n, 1)))]], format="csr")
    b = np.concatenate([-x.ravel(), x.ravel(), np.zeros(n)])
    cost = np.zeros(a.shape[1])
    cost[-1] = 1
    bounds = [(None, None)] * d + [(0, None)] * (n * d + 1)
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = linprog(cost, A_ub=a, b_ub=b, bounds=bounds, method="highs-ds", options=options)
    assert result.status == 0, result.message
    return float(result.fun * scale)


def main():
    cases = []
    for law in LAWS:
        for n, d in SIZES:
            seed = 1000 * LAWS.index(law) + 10 * n + d
            cases.append({"law": law, "n": n, "d": d, "seed": seed, "radius": radius(matrix(law, n, d, seed))})
            print(cases[-1], flush=True)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "measures", "lp_centre.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
