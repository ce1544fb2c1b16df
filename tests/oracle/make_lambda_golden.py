#!/usr/bin/env python3
"""Layers λX + O, with and without a norm, worked out by definition with 50 digits (mpmath) for test_lambda.c.

Numbers that a certified error bound is compared with are stored as two doubles whose sum is the exact value to 32 digits.

    python3 tests/oracle/make_lambda_golden.py
"""

import json
import pathlib

import mpmath
from mpmath import mpf

MASK = (1 << 64) - 1
GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "lambda" / "layers.json"
mpmath.mp.dps = 50
LAMBDAS = [-1e300, -40.0, -3.0, -1.0, -0.5, 0.0, 0.3, 1.0, 2.7, 40.0, 1e300]
KEPT = 0.8

# law, n, d, norm, gain, epsilon
CASES = [
    ("generic", 2, 2, "rmsnorm", False, 0.0), ("generic", 3, 4, "layernorm", True, 1e-5), ("generic", 5, 3, "rmsnorm", True, 1e-6),
    ("generic", 1, 4, "layernorm", False, 1e-12), ("generic", 4, 1, "rmsnorm", False, 0.0), ("generic", 4, 1, "layernorm", False, 1e-5),
    ("generic", 6, 24, "layernorm", True, 1e-12), ("collapsed", 4, 5, "layernorm", False, 1e-5), ("collapsed", 4, 5, "rmsnorm", True, 0.0),
    ("offset", 4, 6, "layernorm", True, 1e-5), ("parallel", 3, 3, "rmsnorm", False, 0.0), ("parallel", 3, 3, "rmsnorm", False, 1e-6),
    ("zero row", 3, 3, "rmsnorm", False, 0.0), ("zero row", 3, 4, "layernorm", True, 1e-5), ("opposite", 2, 4, "layernorm", False, 0.0),
    ("repeated", 4, 3, "rmsnorm", False, 0.0), ("large", 3, 4, "rmsnorm", False, 1e-5), ("small", 3, 4, "rmsnorm", True, 0.0),
    ("undoing", 5, 6, "rmsnorm", False, 1e-5), ("undoing", 5, 6, "layernorm", True, 0.0),
]


class Draws:
    """Uniform numbers in (-1/2, 1/2), multiples of 2^-32."""

    def __init__(self, seed):
        self.seed = seed

    def next(self):
        self.seed = (self.seed * 6364136223846793005 + 1442695040888963407) & MASK
        return (self.seed >> 32) / 2.0**32 - 0.5


def layer(law, n, d, draws):
    common = [draws.next() + 1.0 for _ in range(d)]
    x = [[draws.next() for _ in range(d)] for _ in range(n)]
    o = [[draws.next() for _ in range(d)] for _ in range(n)]
    for i in range(n):
        for j in range(d):
            if law == "collapsed":
                x[i][j] = common[j] + 2.0**-20 * x[i][j]
                o[i][j] = common[-1 - j] + 2.0**-18 * o[i][j]
            if law == "offset":
                x[i][j] += 1e6 * (i + 1)
                o[i][j] -= 3e5
            if law == "parallel":
                o[i][j] = -0.75 * x[i][j] + 2.0**-45 * o[i][j]
            if law == "zero row" and i == 1:
                x[i][j] = 0.0
            if law == "opposite":
                x[i][j] = (1 if i else -1) * common[j]
            if law == "repeated":
                x[i][j] = common[j]
            if law == "large":
                x[i][j] *= 2.0**600
                o[i][j] *= 2.0**601
            if law == "small":
                x[i][j] *= 2.0**-600
                o[i][j] *= 2.0**-598
            if law == "undoing":
                x[i][j] += common[j]
                o[i][j] = -0.9 * x[i][j] + 0.05 * o[i][j]
    return x, o


def mu(rows):
    n = len(rows)
    means = [mpmath.fsum(column) / n for column in zip(*rows)]
    return mpmath.sqrt(mpmath.fsum((v - m)**2 for row in rows for v, m in zip(row, means)))


def centred(rows):
    n = len(rows)
    means = [mpmath.fsum(column) / n for column in zip(*rows)]
    return [[v - m for v, m in zip(row, means)] for row in rows]


def features_centred(row, kind):
    mean = mpmath.fsum(row) / len(row) if kind == "layernorm" else mpf(0)
    return [v - mean for v in row]


def normed(row, kind, gain, epsilon):
    """norm(row)/sqrt(d), without its bias."""
    d = len(row)
    row = features_centred(row, kind)
    root = mpmath.sqrt(mpmath.fsum(v * v for v in row) + d * mpf(epsilon))
    return [(v / root if root else mpf(0)) * mpf(g) for v, g in zip(row, gain)]


def pair(value):
    high = float(value)
    return [high, float(value - mpf(high))]


def length(row):
    return mpmath.sqrt(mpmath.fsum(v * v for v in row))


def quadratic(x, o):
    rx, ro = centred(x), centred(o)
    alpha = mpmath.fsum(v * v for row in rx for v in row)
    beta = mpmath.fsum(a * b for p, q in zip(rx, ro) for a, b in zip(p, q))
    gamma = mpmath.fsum(v * v for row in ro for v in row)
    out = {"trivial": alpha == 0}
    if alpha == 0:
        return out
    b, c = beta / alpha, gamma / alpha - mpf(KEPT)**2
    out["worst"] = float(-b)
    out["worst_kept"] = float(mpmath.sqrt(max(gamma / alpha - b * b, mpf(0))))
    out["opposition"] = float(beta / mpmath.sqrt(alpha * gamma))
    delta = b * b - c
    out["low"], out["high"] = (pair(-b - mpmath.sqrt(delta)), pair(-b + mpmath.sqrt(delta))) if delta > 0 else (None, None)
    at = [[mpf(1.75) * v + w for v, w in zip(p, q)] for p, q in zip(x, o)]
    out["kept_at_1.75"] = pair(mu(at) / mpmath.sqrt(alpha))
    return out


def facts(x, o, kind, gain, epsilon):
    n, d = len(x), len(x[0])
    root, cx = mpmath.sqrt(d), [features_centred(row, kind) for row in x]
    co = [features_centred(row, kind) for row in o]
    ratios = [mpmath.sqrt(length(b)**2 + d * mpf(epsilon)) / length(a) if length(a) else mpmath.inf for a, b in zip(cx, co)]
    unit = [[v / length(row) * g for v, g in zip(row, gain)] if length(row) else [mpf(0)] * d for row in cx]
    finite = max(ratios) != mpmath.inf
    return {"diversity": pair(mu(x) / mpmath.sqrt(n * d)), "branch_diversity": pair(mu(o) / mpmath.sqrt(n * d)),
            "row_gain": pair(max(length(row) for row in o) / root), "row_ratio": pair(max(ratios)) if finite else None,
            "smallest_row": pair(min(length(row) for row in cx)), "largest_branch": pair(max(length(row) for row in co)),
            "unit_diversity": pair(mu(unit) / mpmath.sqrt(n)) if finite else None}


def case(number, law, n, d, kind, with_gain, epsilon):
    draws = Draws(number + 1)
    gain = [1.0 + draws.next() for _ in range(d)] if with_gain else [1.0] * d
    x, o = layer(law, n, d, draws)
    mx, mo = [[[mpf(v) for v in row] for row in m] for m in (x, o)]
    values = []
    for lam in LAMBDAS:
        rows = [normed([mpf(lam) * v + w for v, w in zip(p, q)], kind, gain, epsilon) for p, q in zip(mx, mo)]
        values.append(pair(mu(rows)))
    return {"law": law, "n": n, "d": d, "norm": kind, "gain": gain if with_gain else None, "epsilon": epsilon, "x": sum(x, []),
            "o": sum(o, []), "lambdas": LAMBDAS, "values": values, "input": pair(mu(mx) / mpmath.sqrt(d)), "kept": KEPT,
            "quadratic": quadratic(mx, mo), "facts": facts(mx, mo, kind, gain, epsilon)}


def main():
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    cases = [case(k, *c) for k, c in enumerate(CASES)]
    GOLDEN.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
