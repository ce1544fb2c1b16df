#!/usr/bin/env python3
"""Writes tests/golden/steps.json: both sides of every line of the proof of the cubic bound (docs/perturbation.md, 7) for
heads that test_steps.c draws by the same rule, worked out from the definitions in mpmath with 60 digits; and climbs for
a head that breaks a line, which must fail for the repaired ones and must succeed for the published ones that are false.

  tests/oracle/make_steps_golden.py      (mpmath as in requirements.txt; about a minute)
"""
import json
import os
import random

from mpmath import e as E_NUMBER, exp, expm1, inf, log10, mp, mpf, sqrt, tanh

mp.dps = 60
LAWS = ["plain", "equal", "near", "sharp", "small", "large"]
# law, n, d, units, values, out (0: values are written as they are), causal, window
CASES = [("plain", 5, 4, 3, 2, 4, 0, 0), ("plain", 1, 3, 2, 2, 3, 0, 0), ("plain", 4, 1, 1, 1, 1, 0, 0), ("plain", 2, 2, 2, 2, 0, 0, 0),
         ("equal", 4, 3, 2, 2, 3, 0, 0), ("near", 5, 3, 2, 2, 3, 0, 0), ("sharp", 4, 3, 2, 2, 3, 0, 0), ("small", 6, 4, 2, 3, 4, 0, 0),
         ("large", 3, 2, 2, 2, 2, 0, 0), ("plain", 6, 3, 2, 2, 3, 1, 0), ("plain", 6, 3, 2, 2, 3, 0, 2), ("near", 5, 4, 2, 2, 4, 1, 3),
         ("sharp", 4, 3, 2, 2, 3, 1, 0), ("sharp", 3, 2, 2, 2, 2, 1, 0)]


class Draw:
    """The generator of test_steps.c: numbers of [-1/2, 1/2)."""

    def __init__(self, seed):
        self.seed = seed

    def one(self):
        self.seed = (self.seed * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.seed >> 32) * 2.0**-32 - 0.5

    def rows(self, n, d):
        return [[self.one() for _ in range(d)] for _ in range(n)]


def head_of(case, seed):
    law, n, d, units, values, out, causal, window = case
    draw = Draw(seed)
    x = draw.rows(n, d)
    q, k, v = draw.rows(units, d), draw.rows(units, d), draw.rows(values, d)
    o = draw.rows(values, out) if out else None
    bias = draw.rows(1, units)[0]
    for i, row in enumerate(x):
        for c in range(d):
            if law == "equal":
                row[c] = x[0][c]
            elif law == "near":  # all alike but for 2^-20
                row[c] = 0.75 + 2.0**-20 * row[c]
            elif law == "sharp":  # logits far apart
                row[c] = 16 * row[c]
            elif law == "small":
                row[c] = 2.0**-300 * row[c]
            elif law == "large":  # logits beyond any exponential
                row[c] = 2.0**900 * row[c]
    return {"x": x, "q": q, "k": k, "v": v, "o": o, "bias": bias, "scale": 0.75, "causal": causal, "window": window}


def product(a, b):
    return [[sum((x * y for x, y in zip(row, column)), mpf(0)) for column in zip(*b)] for row in a]


def turned(a):
    return [list(column) for column in zip(*a)]


def exact(a):
    return [[mpf(x) for x in row] for row in a]


def one(a):
    return max(sum(abs(x) for x in column) for column in zip(*a))


def infinity(a):
    return max(sum(abs(x) for x in row) for row in a)


def softmax(logits):
    most = max(logits)
    grown = [exp(x - most) if x - most > -mpf(2)**50 else mpf(0) for x in logits]
    return [x / sum(grown) for x in grown]


def constant(rho):
    return mpf(2) if rho == 0 else expm1(rho) / rho + expm1(2 * rho) / (2 * rho)


def power(x):
    """e^x; None beyond what is counted."""
    return exp(x) if x < mpf(2)**50 else None


def lines(head, centre=None):
    """{line: {norm: (left, right, repaired)}}; None: no number, or no such side. centre: rounded to doubles as steps.c
    does, unless given."""
    x = exact(head["x"])
    n, d = len(x), len(x[0])
    if centre is None:
        centre = [mpf(float(x[0][c] + sum(x[i][c] - x[0][c] for i in range(n)) / n)) for c in range(d)]
    r = [[x[i][c] - centre[c] for c in range(d)] for i in range(n)]
    wq, wk, wv = (turned(exact(head[w])) for w in ("q", "k", "v"))
    w = product(wv, exact(head["o"])) if head["o"] else wv
    qk = product(wq, turned(wk))
    scale = mpf(head["scale"])
    bias = [mpf(b) for b in head["bias"]]
    shared_key = [sum(centre[c] * wq[c][u] for c in range(d)) + bias[u] for u in range(len(bias))]
    rk = product(r, wk)
    shared = [scale * sum(a * b for a, b in zip(row, shared_key)) for row in rk]
    change = [[scale * y for y in row] for row in product(product(r, qk), turned(r))]
    window = head["window"] or n
    seen = [[(not head["causal"] or j <= i) and abs(i - j) < window for j in range(n)] for i in range(n)]
    masked = not all(all(row) for row in seen)
    p, mixed, gap, ranges = [], [], [], []
    for i in range(n):
        keys = [j for j in range(n) if seen[i][j]]
        base, after = [mpf(0)] * n, [mpf(0)] * n
        for j, value in zip(keys, softmax([shared[j] for j in keys])):
            base[j] = value
        for j, value in zip(keys, softmax([shared[j] + change[i][j] for j in keys])):
            after[j] = value
        p.append(base)
        mixed.append(after)
        # 60 digits leave 20 of a difference of 1e-40; smaller E have the terms apart
        values = [change[i][j] for j in keys]
        ranges.append(max(values) - min(values))
        if max(abs(v) for v in values) < mpf(10)**-10:
            mean = sum(base[j] * expm1(change[i][j]) for j in keys)
            gap.append([base[j] * (expm1(change[i][j]) - mean) / (1 + mean) if seen[i][j] else mpf(0) for j in range(n)])
        else:
            gap.append([a - b for a, b in zip(after, base)])
    shown = [[change[i][j] if seen[i][j] else mpf(0) for j in range(n)] for i in range(n)]
    moved = product(r, w)
    left = product(gap, moved)
    grown = [None if power(v) is None else expm1(v) for v in ranges]
    rho, total = max(ranges), sum(ranges)
    known = all(g is not None for g in grown)
    out = {}

    def entries(name, left_, right, repaired, norms=None, choose="ratio", visible=None):
        """Matrices; norms: of what the norms are taken instead."""
        cells = [(i, j) for i in range(len(left_)) for j in range(len(left_[0])) if visible is None or visible[i][j]]

        def tight(cell):
            a, b = left_[cell[0]][cell[1]], right[cell[0]][cell[1]]
            if choose == "excess":
                return a - b
            return a / b if b != 0 else (inf if a > 0 else -inf)
        i, j = max(cells, key=tight)
        side = lambda m: None if m is None else m[i][j]
        rows = {"entry": (side(left_), side(right), side(repaired))}
        nl, nr, np = norms or (left_, right, repaired)
        rows["one"] = (one(nl), one(nr), None if np is None else one(np))
        rows["inf"] = (infinity(nl), infinity(nr), None if np is None else infinity(np))
        out[name] = rows

    def outer(factors, columns):
        return [[f * c for c in row] for f, row in zip(factors, columns)]
    weighed = lambda m: product(p, m)
    absolute = lambda m: [[abs(v) for v in row] for row in m]
    low = outer([1 - v for v in ranges], p)
    entries("low", low, mixed, None, ([[max(v, mpf(0)) for v in row] for row in low], mixed, None), visible=seen)
    entries("high", mixed, outer([1 + 2 * v for v in ranges], p), outer([1 + g for g in grown], p) if known else None, visible=seen)
    pr, size = weighed(r), weighed(absolute(r))
    plus = outer(grown, size) if known else None
    add = lambda a, b: [[x + y for x, y in zip(s, t)] for s, t in zip(a, b)]
    right = outer([1 + 2 * v for v in ranges], pr)
    entries("signed", product(mixed, r), right, add(pr, plus) if known else None,
            (product(mixed, r), right, add(absolute(pr), plus) if known else None), "excess")
    size = weighed(absolute(moved))
    entries("absolute", absolute(left), outer([2 * v for v in ranges], size), outer(grown, size) if known else None)
    entries("moved", absolute(gap), outer([2 * v for v in ranges], p), outer(grown, p) if known else None, visible=seen)
    e_one, e_inf = one(shown), infinity(shown)
    k = constant(rho) if power(2 * rho) is not None else None
    columns = [(sum(abs(gap[i][j]) for i in range(n)), 2 * sum(ranges[i] * p[i][j] for i in range(n)),
                None if masked or k is None else k * e_one * p[0][j]) for j in range(n)]
    # the line speaks of each key by itself, with a mask too
    out["moved"]["one"] = max(columns, key=lambda c: c[0] / c[1] if c[1] else inf if c[0] else -inf)
    rows = [(sum(abs(g) for g in gap[i]), 2 * ranges[i], 2 * tanh(ranges[i] / 4)) for i in range(n)]
    out["moved"]["inf"] = max(rows, key=lambda c: c[0] / c[2] if c[2] else -inf)
    r1, ri, w1, wi = one(r), infinity(r), one(w), infinity(w)

    def scalars(name, one_, inf_):
        both = tuple(None if a is None or b is None else sqrt(a * b) for a, b in zip(one_, inf_))
        out[name] = {"one": one_, "inf": inf_, "both": both}
    out["range"] = {"inf": (rho, mpf(1.256), None)}
    scalars("norms", (one(left), 2 * total * r1 * w1, sum(grown) * r1 * w1 if known else None),
            (infinity(left), 2 * rho * ri * wi, 2 * tanh(rho / 4) * ri * wi))
    bound = scale * r1 * ri * one(qk)
    out["logits"] = {"one": (e_one, bound, None), "inf": (e_inf, scale * r1 * ri * infinity(qk), None)}
    out["ranges"] = {"one": (total, 2 * e_one, sum(abs(v) for row in shown for v in row)), "inf": (rho, 2 * e_one, None)}
    out["gamma"] = {"both": (sqrt(total * rho), 2 * bound, 2 * bound * sqrt(mpf(max(n, 2)) / 2))}
    if not masked:
        scalars("cubic", (one(left), 4 * bound * r1 * w1, None if k is None else k * bound * r1 * w1),
                (infinity(left), 4 * bound * ri * wi, bound * ri * wi))
        mean = [sum(left[i][c] for i in range(n)) / n for c in range(len(left[0]))]
        about = [[left[i][c] - mean[c] for c in range(len(mean))] for i in range(n)]
        f = 2 * (1 - mpf(1) / n)
        scalars("mean", (one(about), 4 * bound * r1 * w1, None if k is None else f * k * bound * r1 * w1),
                (infinity(about), 4 * bound * ri * wi, f * bound * ri * wi))
    return out


# ---- climbing ----

ALWAYS = [("low", "entry", 1), ("low", "one", 1), ("low", "inf", 1), ("moved", "inf", 1), ("norms", "inf", 1), ("logits", "one", 1), ("logits", "inf", 1),
          ("ranges", "inf", 1), ("cubic", "inf", 1), ("mean", "inf", 1)]
ALWAYS += [(line, norm, 2) for line, norm in [
    ("high", "entry"), ("high", "one"), ("high", "inf"), ("signed", "one"), ("signed", "inf"), ("absolute", "entry"), ("absolute", "one"), ("absolute", "inf"),
    ("moved", "entry"), ("moved", "one"), ("moved", "inf"), ("norms", "one"), ("norms", "inf"), ("norms", "both"), ("ranges", "one"), ("gamma", "both"),
    ("cubic", "one"), ("cubic", "inf"), ("cubic", "both"), ("mean", "one"), ("mean", "inf"), ("mean", "both")]]
FALSE = [("signed", "one", 1), ("signed", "inf", 1), ("ranges", "one", 1), ("gamma", "both", 1)]


def ratio(head, line, norm, side):
    sides = lines(head)[line][norm]
    if sides[side] is None or sides[side] <= 0:
        return mpf(0)
    return sides[0] / sides[side]


def climb(line, norm, side, generator, starts, steps):
    best, mp.dps = mpf(0), 30
    for start in range(starts):
        n, d = generator.choice([2, 3, 4, 6]), generator.choice([1, 2, 3])
        wide = line == "gamma" or (line, norm) == ("ranges", "one")
        if wide:  # about the mean token the example's ‖R‖₁‖R‖∞ is nearly 4: γ passes 1 only where √(n/2) does 4
            n = d = 40 if line == "gamma" and side == 1 else 12
        gauss = lambda rows, cols, size: [[generator.gauss(0, size) for _ in range(cols)] for _ in range(rows)]
        head = {"x": gauss(n, d, generator.choice([0.1, 1, 3])), "q": gauss(d, d, 1), "k": gauss(d, d, 1), "v": gauss(d, d, 1), "o": None,
                "bias": [generator.gauss(0, 1) for _ in range(d)], "scale": 1.0, "causal": 0, "window": 0}
        if wide:  # where it is attained (docs/theory/corrections.md, 10), stirred
            head["x"] = [[float(i == j) for j in range(n)] for i in range(n)]
            head["k"] = [[float(i == j) for j in range(n)] for i in range(n)]
            qk = [[0.0] * n for _ in range(n)]
            qk[0][0], qk[0][1] = 1.0, -1.0
            for i in range(1, n - 1):
                qk[i][i + 1] = 1.0
            head["q"] = turned(qk)
            head["bias"] = [0.0] * n
        value, size = ratio(head, line, norm, side), 0.5
        for _ in range(steps):
            other = json.loads(json.dumps(head))
            field = generator.choice(["x", "q", "k", "v", "bias"])
            if field == "bias":
                other["bias"] = [b + generator.gauss(0, size) for b in other["bias"]]
            else:
                row = generator.choice(other[field])
                row[generator.randrange(len(row))] += generator.gauss(0, size)
            found = ratio(other, line, norm, side)
            if found > value:
                head, value = other, found
            else:
                size = max(size * 0.97, 1e-3)
        best = max(best, value)
    mp.dps = 60
    return best


def attack(starts, steps):
    generator = random.Random(19)
    for line, norm, side in ALWAYS:
        found = climb(line, norm, side, generator, 1 if line == "gamma" or (line, norm) == ("ranges", "one") else starts, steps)
        print(f"{'repaired' if side == 2 else 'published'} {line} {norm}: largest left/right {float(found):.12f}")
        assert found <= 1 + mpf(10)**-25, (line, norm, found)
    for line, norm, side in FALSE:
        found = climb(line, norm, side, generator, 1 if line in ("gamma", "ranges") else starts, 2 if line == "gamma" else steps)
        print(f"false {line} {norm}: largest left/right {float(found):.6g}")
        assert found > 1, (line, norm, found)


def number(value):
    """[plain, log10]; null where no double is."""
    if value is None:
        return None
    if value != 0 and abs(log10(abs(value))) > 3e14:
        return None
    plain = float(value)
    return [plain if abs(plain) < 1e308 and (value == 0 or abs(plain) > 1e-307) else None, float(log10(value)) if value > 0 else None]


def main():
    attack(2, 60)
    cases = []
    for at, case in enumerate(CASES):
        found = lines(head_of(case, 100 + at))
        cases.append({"case": list(case), "seed": 100 + at,
                      "lines": {line: {norm: [number(side) for side in sides] for norm, sides in rows.items()} for line, rows in found.items()}})
    path = os.path.join(os.path.dirname(__file__), "..", "golden", "steps.json")
    with open(path, "w") as file:
        json.dump({"laws": LAWS, "cases": cases}, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()
