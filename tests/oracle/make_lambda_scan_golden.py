#!/usr/bin/env python3
"""Bounds of rows from weights alone, theorem C, the sign rule and the S-lemma, by their formulas with 60 digits (mpmath) for
test_lambda_scan.c and test_lambda_fixed.c.

Numbers are stored as two doubles whose sum is the exact value to 32 digits; arguments are doubles.

    python3 tests/oracle/make_lambda_scan_golden.py
"""

import json
import pathlib
import random

import mpmath
from mpmath import mpf

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "lambda" / "scan.json"
mpmath.mp.dps = 60


def pair(value):
    high = float(value)
    return [high, float(value - mpf(high))]


def row_sum(rate, step, tokens):
    bounds = [mpf(tokens) * step] if tokens else []
    if rate > 0:
        bounds.append(mpf(step) / -mpmath.expm1(-mpf(rate) * mpf(step)))
    return min(bounds)


def attained(rate, step, tokens):
    """The sum itself, for the constant step that the bound is about: the largest of any number of tokens."""
    x = mpf(rate) * mpf(step)
    return mpf(step) * (-mpmath.expm1(-tokens * x) / -mpmath.expm1(-x) if x else tokens)


def row_sums(r):
    # docs/theory/corrections.md, 21 and 22, then drawn ones: (rate, largest step, tokens or 0)
    cases = [(5e-16, 0.1, 0), (float(mpmath.exp(-40)), 0.1, 5000), (0.0, 0.1, 5000), (1.0, 1.0, 0), (1.0, float(mpmath.ln(2)), 0),
             (5e-324, 1.0, 7), (1e-300, 1e-10, 3), (1e300, 2.0, 0), (700.0, 1e-320, 9)]
    cases += [(10.0 ** r.uniform(-25, 3), 10.0 ** r.uniform(-6, 2), r.choice([0, 1, 2, 17, 100000])) for _ in range(40)]
    return [{"rate": a, "step": d, "tokens": n, "bound": pair(row_sum(a, d, n)),
             "attained": pair(attained(a, d, n or 50))} for a, d, n in cases]


def softplus(x):
    return mpmath.log1p(mpmath.exp(mpf(x)))


def scalars(r):
    xs = [0.0, 1.0, -2.0, 20.0, 20.000001, -40.0, 63.9, 64.1, 1e5, 1e-300, -1e-300] + [r.gauss(0, 8) for _ in range(30)]
    return [{"x": x, "softplus": pair(softplus(x)), "silu": pair(abs(x) / (1 + mpmath.exp(-abs(mpf(x))))),
             "exp": pair(mpmath.exp(mpf(x))) if abs(x) < 600 else None} for x in xs]


def channel(r):
    """One channel, as in lambda_scan.h: three bounds, the least of them counts."""
    state, tokens = r.randint(1, 6), r.choice([0, 3, 1000])
    rates = [10.0 ** r.uniform(-3, 2) for _ in range(state)]
    step, skip = 10.0 ** r.uniform(-3, 1), r.choice([0.0, abs(r.gauss(0, 2))])
    most = [[abs(r.gauss(0, 1)) for _ in range(state)] for _ in range(2)]
    gain = [[r.gauss(0, 1) for _ in range(state)] for _ in range(2)]
    length = [10.0 ** r.uniform(-2, 1) for _ in range(2)]
    sums = [row_sum(a, step, tokens) for a in rates]
    entries = mpmath.fsum(mpf(b) * c * g for b, c, g in zip(*most, sums))
    gains = [abs(mpf(b) * c) for b, c in zip(*gain)]
    turned = min(max(gains) * max(sums), mpmath.sqrt(mpmath.fsum((x * g) ** 2 for x, g in zip(gains, sums))))
    bound = min(entries, mpf(length[0]) * length[1] * turned) + mpf(skip)
    return {"state": state, "tokens": tokens, "rate": rates, "step": step, "skip": skip, "b": most[0], "c": most[1], "b_gain": gain[0],
            "c_gain": gain[1], "b_length": length[0], "c_length": length[1], "bound": pair(bound)}


def theorem_c(m, w, lam):
    """Of rows of norm sqrt(d): c_Q, L_Q and the share that is kept; None where a hypothesis fails."""
    n, w, lam = len(m), mpf(w), mpf(lam)
    sums = [mpmath.fsum(row) for row in m]
    d = [lam + w * s for s in sums]
    out = {"n": n, "m": sum(m, []), "value": float(w), "lambda": float(lam), "stretch": None, "lipschitz": None, "kept": None}
    if not (all(x > 0 for x in d) or all(x < 0 for x in d)):
        return out
    q = mpmath.matrix(n, n)
    for i in range(n):
        for j in range(n):
            q[i, j] = w * mpf(m[i][j]) / d[i] + (lam / d[i] if i == j else 0) - (1 if i == j else 0)
    c = max(mpmath.fsum(abs(q[i, j]) for j in range(n)) for i in range(n))
    r = mpmath.eye(n) - mpmath.ones(n, n) / n
    k = r * q * r
    lipschitz = max(mpmath.svd_r(k, compute_uv=False))
    out["stretch"], out["lipschitz"] = pair(c), pair(lipschitz)
    if c < 1:
        out["kept"] = pair((1 - lipschitz / mpmath.sqrt(1 - c * c)) / (1 + c))
    return out


def theorems(r):
    cases = [([[-0.05, 0.05], [-0.05, 0.05]], 1.0, 1.0),  # T15: mu(O) = 0, t = .1
             ([[0.6, 0.0], [0.1, 1.1]], 1.0, -0.75),  # corrections, 26: antipodal tokens merge
             ([[0.6, 0.0], [0.1, 1.1]], 1.0, -1.75), ([[0.6, 0.0], [0.1, 1.1]], 1.0, -9.0), ([[0.6, 0.0], [0.1, 1.1]], 1.0, 9.0)]
    for _ in range(25):
        n = r.randint(2, 7)
        m = [[r.gauss(0, 1) if j <= i or n % 2 else 0.0 for j in range(n)] for i in range(n)]
        cases.append((m, r.gauss(0, 1), r.choice([-1, 1]) * 10.0 ** r.uniform(0, 3)))
    return [theorem_c(*c) for c in cases]


def sign_rule(layers):
    """max over i >= 2 of the product over layers of |lambda + w m_ii|/|D_i|, M fixed; and the signs of all layers."""
    n = len(layers[0][0])
    signs, rate, mixed = [1] * n, [mpf(1)] * n, False
    for m, w, lam in layers:
        d = [mpf(lam) * signs[i] + mpf(w) * mpmath.fsum(mpf(m[i][j]) * signs[j] for j in range(n)) for i in range(n)]
        rate = [x * abs(mpf(lam) + mpf(w) * m[i][i]) / abs(d[i]) for i, x in enumerate(rate)]
        signs = [1 if x > 0 else -1 for x in d]
        mixed = mixed or len(set(signs)) > 1
    most = max(rate[1:])
    outcome = "repelled" if most > 1 else "equal up to sign" if mixed else "equal"
    return {"n": n, "layers": [{"m": sum(m, []), "value": w, "lambda": lam} for m, w, lam in layers], "rate": float(most),
            "outcome": outcome}


def rules(r):
    out = [sign_rule([([[1.0, 0.0], [0.5, 0.5]], 1.0, 2.0)])]  # T21
    for _ in range(25):
        n, k = r.randint(2, 6), r.randint(1, 4)
        out.append(sign_rule([([[r.gauss(0, 1) if j <= i else 0.0 for j in range(n)] for i in range(n)], r.gauss(0, 1), r.gauss(0, 2))
                              for _ in range(k)]))
    return out


def fixed(m, w, lam, kappa):
    """Largest a with |R(lam + wM)x| >= a |Rx| for all x with |sum x| <= sqrt(n) kappa |Rx|: over tau >= 0 the largest
    least eigenvalue of K1'(I - k0 k0'/(tau + k0'k0))K1 - tau kappa^2, which is concave in tau."""
    n, w, lam = len(m), mpf(w), mpf(lam)
    t = mpmath.matrix(n, n)
    for i in range(n):
        for j in range(n):
            t[i, j] = w * mpf(m[i][j]) + (lam if i == j else 0)
    v = mpmath.matrix(n, n - 1)  # Helmert's basis of what is orthogonal to the ones
    for k in range(1, n):
        for i in range(k):
            v[i, k - 1] = 1 / mpmath.sqrt(k * (k + 1))
        v[k, k - 1] = -k / mpmath.sqrt(k * (k + 1))
    k0, k1 = v.T * t * mpmath.ones(n, 1) / mpmath.sqrt(n), v.T * t * v
    square = mpmath.fsum(x * x for x in k0)

    def value(tau):
        s = k1.T * (mpmath.eye(n - 1) - k0 * k0.T / (tau + square)) * k1 if tau + square > 0 else k1.T * k1
        return min(mpmath.eigsy(s, eigvals_only=True)) - tau * mpf(kappa) ** 2

    low, high, golden = mpf(0), (1 + square) * mpf(10) ** 6, (mpmath.sqrt(5) - 1) / 2
    for _ in range(200):
        a, b = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, b) if value(a) > value(b) else (a, high)
    best = max(value((low + high) / 2), value(mpf(0)))
    return {"n": n, "m": sum(m, []), "value": float(w), "lambda": float(lam), "kappa": kappa, "kept": pair(mpmath.sqrt(max(best, 0)))}


def fixed_cases(r):
    out = [fixed([[0.0, 0.0], [1.0, 0.0]], 1.0, 2.0, 1.0), fixed([[0.0, 0.0], [1.0, 0.0]], 1.0, 2.0, 0.5)]  # T22: (3 - kappa)/2
    with mpmath.workdps(40):
        for _ in range(16):
            n = r.randint(2, 6)
            m = [[r.gauss(0, 1) if j <= i or n % 2 else 0.0 for j in range(n)] for i in range(n)]
            out.append(fixed(m, r.gauss(0, 1), r.choice([-1, 1]) * 10.0 ** r.uniform(-0.3, 2), 10.0 ** r.uniform(-2, 1)))
    return out


def main():
    r = random.Random(15)
    out = {"row_sums": row_sums(r), "scalars": scalars(r), "channels": [channel(r) for _ in range(30)], "theorem_c": theorems(r),
           "sign_rule": rules(r), "fixed": fixed_cases(r)}
    parts = [f'"{name}": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]" for name, cases in out.items()]
    GOLDEN.write_text("{" + ",\n".join(parts) + "}\n")


if __name__ == "__main__":
    main()
