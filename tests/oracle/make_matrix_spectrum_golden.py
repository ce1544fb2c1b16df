#!/usr/bin/env python3
"""Singular values for tests/unit/test_matrix_spectrum.c.

The matrices come from an integer generator and exact scalings that the C test repeats bit by bit, so only the
singular values are stored: by mpmath with 60 digits for the small ones, by LAPACK's dgesvd (scipy) for others.

    python3 tests/oracle/make_matrix_spectrum_golden.py tests/golden/matrix_spectrum.json
"""

import json
import pathlib

import mpmath
import numpy as np
import scipy.linalg

MASK = (1 << 64) - 1


def entries(count, seed):
    """Uniform numbers in (-1/2, 1/2), multiples of 2^-32."""
    out = []
    for _ in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) & MASK
        out.append((seed >> 32) / 2.0**32 - 0.5)
    return np.array(out)


def matrix(rows, cols, seed, row_step, col_step, mean):
    """Rows scaled by 2^(-row_step i), columns by 2^(-col_step j), then `mean` added to every entry."""
    a = entries(rows * cols, seed).reshape(rows, cols)
    a = a * 2.0 ** (-row_step * np.arange(rows))[:, None] * 2.0 ** (-col_step * np.arange(cols))[None, :]
    return a + mean


def exact(a):
    mpmath.mp.dps = 60
    m = mpmath.matrix(a.tolist() if a.shape[0] >= a.shape[1] else a.T.tolist())
    return [float(x) for x in sorted(mpmath.svd_r(m, compute_uv=False), reverse=True)]


# rows, cols, seed, row_step, col_step, mean
CASES = [
    (1, 1, 1, 0, 0, 0.0), (1, 9, 2, 0, 0, 0.0), (9, 1, 3, 0, 0, 0.0), (2, 2, 4, 0, 0, 0.0), (12, 12, 5, 0, 0, 0.0),
    (20, 13, 6, 0, 0, 4.0),   # one dominant direction
    (16, 40, 7, 1, 0, 0.0),   # condition about 1e5
    (21, 21, 8, 2, 0, 0.0),   # condition about 1e12
    (14, 30, 9, 0, 3, 0.0),   # condition about 1e12
    (30, 12, 10, 0, 0, 1e6),  # dominant direction, ratio 1e7
    (100, 60, 11, 0, 0, 0.0), (60, 200, 12, 0, 0, 0.25), (150, 150, 13, 0, 0, 0.0),
]


GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "matrix_spectrum.json"


def main():
    golden = []
    for case in CASES:
        a = matrix(*case)
        small = a.size <= 500
        sigma = exact(a) if small else scipy.linalg.svdvals(a).tolist()
        keys = ("rows", "cols", "seed", "row_step", "col_step", "mean")
        golden.append({**dict(zip(keys, case)), "oracle": "mpmath" if small else "scipy", "sigma": sigma})
    with open(GOLDEN, "w", encoding="ascii") as out:
        out.write("[\n" + ",\n".join(json.dumps(case) for case in golden) + "\n]\n")


if __name__ == "__main__":
    main()
