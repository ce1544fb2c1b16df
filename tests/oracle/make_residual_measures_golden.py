#!/usr/bin/env python3
"""Golden of the token measures of X = 1x + 2^e M: X is formed in thousands of digits and every measure is taken from
it by its definition (mpmath; singular values by Jacobi's one-sided rotations).

Run: python3 make_residual_measures_golden.py (writes tests/golden/residual_measures.json)
"""
import json
import os

import mpmath as mp
import numpy as np

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'golden', 'residual_measures.json')


def singular_values(rows):
    """One-sided Jacobi on the columns of the matrix whose rows are the short side."""
    if len(rows) < len(rows[0]):
        rows = [list(c) for c in zip(*rows)]
    a = [list(c) for c in zip(*rows)]  # columns, fewer than their length
    for _ in range(60):
        turned = False
        for p in range(len(a)):
            for q in range(p + 1, len(a)):
                pp, qq, pq = mp.fdot(a[p], a[p]), mp.fdot(a[q], a[q]), mp.fdot(a[p], a[q])
                if pq == 0 or abs(pq) < mp.eps * mp.sqrt(pp * qq) * 16:
                    continue
                turned = True
                z = (qq - pp) / (2 * pq)
                t = (1 if z >= 0 else -1) / (abs(z) + mp.sqrt(1 + z * z))
                c = 1 / mp.sqrt(1 + t * t)
                s = c * t
                a[p], a[q] = [c * u - s * v for u, v in zip(a[p], a[q])], [s * u + c * v for u, v in zip(a[p], a[q])]
        if not turned:
            break
    return sorted((mp.sqrt(mp.fdot(c, c)) for c in a), reverse=True)


def fro(r):
    return mp.sqrt(mp.fsum(v * v for row in r for v in row))


def composite(r):
    column = max(mp.fsum(abs(row[k]) for row in r) for k in range(len(r[0])))
    return mp.sqrt(column * max(mp.fsum(abs(v) for v in row) for row in r))


def measures(x, m, e):
    n, d = m.shape
    rows = [[mp.mpf(float(x[k])) + mp.ldexp(mp.mpf(float(m[i, k])), e) for k in range(d)] for i in range(n)]
    mean = [mp.fsum(row[k] for row in rows) / n for k in range(d)]
    r = [[a - b for a, b in zip(row, mean)] for row in rows]
    u = []
    for row in rows:
        length = mp.sqrt(mp.fdot(row, row))
        u.append([v / length for v in row])
    ubar = [mp.fsum(row[k] for row in u) / n for k in range(d)]
    spread = mp.fsum((a - b) ** 2 for row in u for a, b in zip(row, ubar))
    s = singular_values(rows)
    total, first = mp.fsum(s), s[0]
    out = {'norm_fro': fro(rows), 'residual_fro': fro(r), 'relative_residual': fro(r) / fro(rows),
           'residual_1inf': composite(r), 'relative_residual_1inf': composite(r) / composite(rows),
           'row_normalised_mu': mp.sqrt(spread / n),
           'rank1_residual': mp.sqrt(mp.fsum(v * v for v in s[1:])) / fro(rows),
           'diameter': max(mp.sqrt(mp.fsum((a - b) ** 2 for a, b in zip(p, q))) for p in rows for q in rows),
           'effective_rank': mp.exp(-mp.fsum(v / total * mp.log(v / total) for v in s if v > 0)),
           'stable_rank': mp.fsum(v * v for v in s) / first ** 2,
           'stable_rank_gram': mp.fsum(v ** 4 for v in s) / first ** 4,
           'numerical_rank': mp.mpf(sum(v > max(n, d) * mp.mpf(2) ** -52 * first for v in s))}
    if n > 1:
        out['one_minus_cosine'] = spread / (n - 1)
        out['mean_cosine'] = 1 - spread / (n - 1)
    logs = ('residual_fro', 'relative_residual', 'residual_1inf', 'relative_residual_1inf', 'one_minus_cosine',
            'diameter')
    numbers = {k: float(v) for k, v in out.items()}
    numbers.update({'log10_' + k: float(mp.log10(out[k])) for k in logs if k in out and out[k] > 0})
    return numbers


def main():
    rng = np.random.default_rng(7)
    cases = []
    for n, d in ((6, 4), (4, 7), (2, 1), (3, 3)):
        for e in (2, -3, -14, -17, -20, -40, -60, -300, -2000, -12000):
            m = rng.integers(-2 ** 20, 2 ** 20, (n, d)).astype(float)
            m *= n
            m -= m.mean(0)  # whole numbers: the columns' means are exactly 0
            m /= 2.0 ** np.ceil(np.log2(np.abs(m).max() * 1.0000001))
            x = rng.standard_normal(d)
            mp.mp.dps = 60 + int(0.31 * 2 * max(0, -e)) + 40
            cases.append({'n': n, 'd': d, 'e': e, 'x': list(x), 'm': [float(v) for v in m.ravel()],
                          'expected': measures(x, m, e)})
    with open(OUT, 'w') as f:
        json.dump(cases, f, separators=(',', ':'))
        f.write('\n')


if __name__ == '__main__':
    main()
