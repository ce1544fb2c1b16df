#!/usr/bin/env python3
"""Singular values of products A Bᵀ whose small ones are hard to get, for test_spectrum.c: by mpmath with 120 digits.

graded: units (columns) of random directions, whose lengths span up to 25 decades in each factor. parallel: units of one length, some of
which nearly coincide. `condition` is the larger of the factors' condition numbers once their columns have unit length: the relative error
of a method that is careful about lengths grows with it, and with nothing else.

    python3 tests/oracle/make_product_spectrum_golden.py
"""

import json
import pathlib

import mpmath
import numpy as np

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "product_spectrum.json"
mpmath.mp.dps = 120
M, N, R = 7, 6, 4


def exact(a, b):
    product = mpmath.matrix(a.tolist()) * mpmath.matrix(b.tolist()).T
    return sorted((float(s) for s in mpmath.svd_r(product, compute_uv=False)), reverse=True)[:R]


def condition(a):
    scaled = mpmath.matrix((a / np.linalg.norm(a, axis=0)).tolist())
    sigma = mpmath.svd_r(scaled, compute_uv=False)
    return float(max(sigma) / min(sigma))


def near(random, a, i, j):
    """Makes unit j of a almost unit i."""
    a[:, j] = a[:, i] + 10 ** -random.uniform(3, 12) * random.standard_normal(len(a))


def main():
    random = np.random.default_rng(20)
    cases = []
    for kind in ("graded", "parallel"):
        for trial in range(12):
            a, b = random.standard_normal((M, R)), random.standard_normal((N, R))
            if kind == "graded":
                a *= 10 ** (-25 * random.random(R))
                b *= 10 ** (-25 * random.random(R))
            else:
                near(random, a, 0, 1)
                if trial % 2:
                    near(random, b, 2, 3)
            cases.append({"kind": kind, "a": a.tolist(), "b": b.tolist(), "sigma": exact(a, b), "condition": max(condition(a), condition(b))})
    text = ",\n".join(json.dumps(case) for case in cases)
    GOLDEN.write_text(f"[{text}]\n")


main()
