#!/usr/bin/env python3
"""Measures of token matrices and of attention matrices for test_token_measures.c and test_attention_measures.c.

The matrices come from an integer generator and from arithmetic that the C tests repeat bit by bit, so only the measures
are stored. Small cases are worked out by definition with 60 digits (mpmath), larger ones with NumPy in long double for
the sums and LAPACK for the spectra. The smallest l1 ball is the linear programme as docs/theory/tokens.md, 1 states it, solved by
HiGHS (scipy.optimize.linprog).

    python3 tests/oracle/make_measures_golden.py
"""

import json
import pathlib

import mpmath
import numpy as np
import scipy.linalg
import scipy.optimize

MASK = (1 << 64) - 1
GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "measures"
mpmath.mp.dps = 60


def entries(count, seed):
    """Uniform numbers in (-1/2, 1/2), multiples of 2^-32."""
    out = np.empty(count)
    for i in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) & MASK
        out[i] = (seed >> 32) / 2.0**32 - 0.5
    return out


# ---- tokens ----

# n, d, law of the common part, exponent e of the 2^-e spread around it, type
TOKENS = [
    (1, 1, "equal", 0, "f64"), (1, 7, "equal", 0, "f64"), (5, 1, "equal", 0, "f64"), (2, 3, "equal", 0, "f64"),
    (4, 6, "none", 0, "f64"), (9, 4, "none", 0, "f32"), (4, 9, "equal", 3, "f32"), (7, 7, "unequal", 2, "f64"),
    (6, 8, "equal", 20, "f64"), (6, 8, "equal", 44, "f64"), (6, 8, "unequal", 44, "f64"), (8, 6, "unequal", 30, "f64"),
    (6, 8, "unequal", 21, "f32"), (6, 8, "equal", 21, "f32"), (5, 8, "signs", 40, "f64"), (8, 5, "signs", 6, "f32"),
    (40, 64, "equal", 1, "f32"), (64, 40, "unequal", 3, "f64"), (33, 17, "none", 0, "f64"), (128, 24, "equal", 5, "f32"),
    (300, 20, "none", 0, "f32"), (4, 6, "sizes", 345, "f64"), (3, 5, "sizes", 530, "f64"), (5, 4, "sizes", 140, "f64"),
]


def tokens(n, d, law, exponent, kind, seed):
    """X_ik = a_i c_k + 2^-e r_ik, rounded to the type; c, a and r come from the generator in this order. Law `sizes`:
    row i is 2^-(i e) r_i, whose square no double holds from some row on."""
    numbers = entries(d + n + n * d, seed)
    c, a, r = numbers[:d], numbers[d:d + n], numbers[d + n:].reshape(n, d)
    if law == "sizes":
        return np.ldexp(r, -exponent * np.arange(n)[:, None])
    a = {"equal": np.ones(n), "none": np.zeros(n), "unequal": a + 1.0, "signs": np.where(a < 0, -1.0, 1.0)}[law]
    x = a[:, None] * c[None, :] + 2.0**-exponent * r
    return x.astype(np.float32).astype(np.float64) if kind == "f32" else x



def ball(x):
    """Radius of the smallest l1 ball around the rows: min t, |X_ik - x_k| <= s_ik, sum_k s_ik <= t."""
    n, d = x.shape
    centre, scale = x.mean(0), np.abs(x - x.mean(0)).max()
    if scale == 0:
        return 0.0
    y = (x - centre) / scale
    count = d + n * d + 1
    cost = np.zeros(count)
    cost[-1] = 1
    a, b = [], []
    for i in range(n):
        row = np.zeros(count)
        row[d + i * d:d + (i + 1) * d] = 1
        row[-1] = -1
        a.append(row)
        b.append(0.0)
        for k in range(d):
            for sign in (1.0, -1.0):
                row = np.zeros(count)
                row[k] = sign
                row[d + i * d + k] = -1
                a.append(row)
                b.append(sign * y[i, k])
    bounds = [(None, None)] * d + [(0, None)] * (n * d + 1)
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = scipy.optimize.linprog(cost, np.array(a), np.array(b), bounds=bounds, method="highs", options=options)
    assert result.status == 0, result.message
    return result.fun * scale


def exact_singular(x):
    m = mpmath.matrix(x.tolist() if x.shape[0] >= x.shape[1] else x.T.tolist())
    return sorted((s for s in mpmath.svd_r(m, compute_uv=False)), reverse=True)


def token_sums(x, number, root):
    """Everything but the spectrum, by definition; `number` makes an exact or wide number, x holds such numbers."""
    n, d = x.shape
    mean = x.sum(0) / number(n)
    norms = [root((x[i] * x[i]).sum()) for i in range(n)]
    fro = root((x * x).sum())
    unit = np.array([x[i] / norms[i] for i in range(n)])
    out = {"norm_fro": fro}
    for name, centre in (("mean", mean), ("median", np.array([median(x[:, k], number) for k in range(d)]))):
        r = x - centre
        out[f"residual_fro_{name}"] = root((r * r).sum())
        out[f"relative_residual_{name}"] = root((r * r).sum()) / fro
        one, inf = max(abs(r).sum(0)), max(abs(r).sum(1))
        out[f"residual_1inf_{name}"] = root(one * inf)
        out[f"relative_residual_1inf_{name}"] = root(one * inf / (max(abs(x).sum(0)) * max(abs(x).sum(1))))
    spread = unit - unit.sum(0) / number(n)
    out["row_normalised_mu"] = root((spread * spread).sum() / number(n))
    if n > 1:
        pairs = [(unit[i] * unit[j]).sum() for i in range(n) for j in range(i)]
        out["mean_cosine"] = sum(pairs) / number(len(pairs))
        differences = [((unit[i] - unit[j]) ** 2).sum() for i in range(n) for j in range(i)]
        out["one_minus_cosine"] = sum(differences) / number(2 * len(pairs))
    out["diameter"] = max([root(((x[i] - x[j]) ** 2).sum()) for i in range(n) for j in range(i)], default=number(0))
    return out


def median(column, number):
    s, n = sorted(column), len(column)
    return s[n // 2] if n % 2 else (s[n // 2 - 1] + s[n // 2]) / number(2)


def token_spectrum(sigma, n, d, epsilon, log, exp, root):
    total, energy = sum(sigma), sum(s * s for s in sigma)
    tail = sum((s * s for s in sigma[1:]), sigma[0] * 0)
    entropy = sum((-(s / total) * log(s / total) for s in sigma if s > 0), sigma[0] * 0)
    return {"rank1_residual": root(tail / energy), "effective_rank": exp(entropy), "stable_rank": energy / sigma[0] ** 2,
            "stable_rank_gram": sum(s**4 for s in sigma) / sigma[0] ** 4,
            "numerical_rank": sum(s > max(n, d) * epsilon * sigma[0] for s in sigma)}


def token_case(index, case):
    n, d, law, exponent, kind = case
    seed = 100 + index
    x = tokens(n, d, law, exponent, kind, seed)
    epsilon = float(np.finfo(np.float32 if kind == "f32" else np.float64).eps)
    small = n * d <= 100
    if small:
        wide = np.array([[mpmath.mpf(float(v)) for v in row] for row in x], dtype=object)
        out = token_sums(wide, mpmath.mpf, mpmath.sqrt)
        out |= token_spectrum(exact_singular(x), n, d, epsilon, mpmath.log, mpmath.exp, mpmath.sqrt)
    else:
        out = token_sums(x.astype(np.longdouble), np.longdouble, np.sqrt)
        out |= token_spectrum(scipy.linalg.svdvals(x), n, d, epsilon, np.log, np.exp, np.sqrt)
    if n * d <= 400:
        out["ball"] = ball(x)
    head = {"n": n, "d": d, "law": law, "exponent": exponent, "type": kind, "seed": seed}
    return head | {key: float(value) for key, value in out.items()}


# ---- attention ----

# n, power that sharpens the rows, mask, window, edit
ATTENTION = [
    (1, 1, "none", 0, "plain"), (2, 1, "none", 0, "plain"), (3, 2, "causal", 0, "plain"), (6, 1, "none", 0, "plain"),
    (6, 6, "none", 0, "plain"), (7, 3, "causal", 3, "plain"), (8, 2, "none", 4, "plain"), (7, 2, "none", 0, "centred"),
    (7, 2, "none", 0, "shaped"), (20, 1, "none", 0, "plain"), (40, 12, "none", 0, "plain"), (40, 2, "causal", 0, "plain"),
    (40, 2, "none", 0, "centred"), (40, 3, "none", 0, "shaped"), (33, 40, "none", 0, "plain"), (64, 4, "causal", 9, "plain"),
    (90, 2, "none", 6, "plain"), (48, 3, "none", 0, "masked"), (48, 3, "none", 0, "rescaled"), (40, 4, "causal", 0, "shaped"),
    (150, 6, "none", 0, "plain"), (140, 3, "causal", 0, "plain"), (135, 30, "none", 20, "plain"),
]


def attention(n, power, mask, window, edit, seed):
    """P_ij = (1/2 + r_ij)^power over the visible keys, divided by the row's sum; A = its edit; logits: n² more."""
    numbers = entries(2 * n * n, seed)
    r, logits = numbers[:n * n].reshape(n, n) + 0.5, 8.0 * numbers[n * n:].reshape(n, n)
    i, j = np.indices((n, n))
    visible = (j <= i if mask == "causal" else j >= 0)
    if window:
        visible = visible & (np.abs(i - j) < window)
    p = np.where(visible, r, 0.0)
    for _ in range(power - 1):
        p = p * np.where(visible, r, 0.0)
    sums = np.cumsum(p, axis=1)[:, -1]
    p = p / sums[:, None]
    if edit == "masked":
        p[5::7] = 0.0
    even = np.where(visible, 1.0, 0.0) / visible.sum(1)[:, None]
    a = {"plain": p, "masked": p, "centred": p - even, "rescaled": 0.5 * p,
         "shaped": (np.eye(n) + 0.5 * p) - 0.5 * even}[edit]
    return p, a, logits, visible, even


def ranks(sigma, size, prefix=""):
    """Of singular values, descending; size: what the entries' rounding is relative to."""
    s = np.array([float(x) for x in sigma])
    out = {prefix + "numerical_rank": (s > len(s) * 2.0**-52 * float(size)).sum()}
    if s[0] > 0:
        p = s / s.sum()
        p = p[p > 0]
        share = np.cumsum(s**2) / (s**2).sum()
        out |= {prefix + "effective_rank": np.exp(-(p * np.log(p)).sum()), prefix + "stable_rank": (s**2).sum() / s[0]**2,
                prefix + "energy_rank": 1 + np.argmax(share >= 0.9)}
    return out


def attention_case(index, case):
    n, power, mask, window, edit = case
    seed = 500 + index
    p, a, logits, visible, even = attention(*case, seed)
    rows = [-(q[q > 0] * np.log(q[q > 0])).sum() for q in p if q.sum() > 0]
    centred = a - a.mean(0)
    if n <= 8:
        m, c = mpmath.matrix(a.tolist()), mpmath.matrix(n, n)
        for i in range(n):
            for j in range(n):
                c[i, j] = m[i, j] - sum(m[k, j] for k in range(n)) / n
        sigma = sorted(mpmath.svd_r(m, compute_uv=False), reverse=True)
        less = sorted(mpmath.svd_r(m - mpmath.matrix(even.tolist()), compute_uv=False), reverse=True)
        spectral = max(mpmath.svd_r(c, compute_uv=False))
        eigen = sorted((abs(z) for z in (mpmath.eig(m, left=False, right=False) if n > 1 else [m[0, 0]])), reverse=True)
    else:
        sigma = scipy.linalg.svdvals(a)
        less = scipy.linalg.svdvals(a - even)
        spectral = scipy.linalg.svdvals(centred)[0]
        eigen = sorted(np.abs(np.diag(a) if mask == "causal" else scipy.linalg.eigvals(a)), reverse=True)
    seen = visible[:, 0]
    out = {
        "entropy": np.mean(rows), "logit_variance": np.mean([logits[i][visible[i]].var() for i in range(n)]),
        "sigma1": sigma[0], "sigma2": sigma[1] if n > 1 else 0.0, "lambda2": eigen[1] if n > 1 else 0.0,
        "dobrushin": max(np.abs(a[i] - a[k]).sum() for i in range(n) for k in range(n)) / 2,
        "distance_to_uniform": np.linalg.norm(a - even), "self_weight": np.trace(a) / n,
        "first_token_weight": a[seen, 0].mean(), "centred_norm_squared": spectral**2,
    } | ranks(sigma, sigma[0]) | ranks(less, sigma[0], "centred_")
    head = {"n": n, "power": power, "mask": mask, "window": window, "edit": edit, "seed": seed}
    return head | {key: float(value) for key, value in out.items()}


def write(name, cases):
    text = "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n"
    (GOLDEN / name).write_text(text)


def main():
    GOLDEN.mkdir(exist_ok=True)
    write("tokens.json", [token_case(i, case) for i, case in enumerate(TOKENS)])
    write("attention.json", [attention_case(i, case) for i, case in enumerate(ATTENTION)])


if __name__ == "__main__":
    main()
