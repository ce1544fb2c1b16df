#!/usr/bin/env python3
"""Numbers that the laboratory's experiments on skip strengths expect (lambda-minus-three-halves, consensus-threshold, gate-reinjects,
lti-with-and-without-norm, lambda-theorem-4.1, lambda-theorem-4.3): closed forms, mpmath where digits matter, NumPy where a threshold
of a whole network is bisected.  Nothing reads this program's output.
Needs mpmath and numpy (requirements.txt).  Run: python3 tests/oracle/lab_lambda.py [EXPERIMENT]"""
import math
import sys

import mpmath as mp
import numpy as np


def hashed(tag, count):
    """rs_lab_hash of src/lab/toy_matrix.c: whole numbers below 2^32."""
    k = np.arange(1, count + 1, dtype=np.uint64)
    mask = np.uint64(2 ** 32 - 1)
    h = (k * np.uint64(2654435761) + np.uint64(tag * 2246822519 % 2 ** 32)) & mask
    h = ((h ^ h >> np.uint64(15)) * np.uint64(2246822519)) & mask
    h = ((h ^ h >> np.uint64(13)) * np.uint64(3266489917)) & mask
    return h ^ h >> np.uint64(16)


def between(tag, shape, scale=1.0):
    """Numbers in [-scale, scale)."""
    return (scale * (hashed(tag, int(np.prod(shape))).astype(float) / 2 ** 31 - 1)).reshape(shape)


def hashed_normal(tag, shape):
    u = (hashed(tag, 2 * int(np.prod(shape))).astype(float) + 0.5) / 2 ** 32
    return (np.sqrt(-2 * np.log(u[0::2])) * np.cos(2 * math.pi * u[1::2])).reshape(shape)


def show(name, *numbers):
    print(name + ": " + ", ".join(mp.nstr(mp.mpf(v), 15) for v in numbers))


# ---- matrices of mpmath ----

def exact(a):
    return mp.matrix(np.atleast_2d(a).tolist())


def mu(y):
    means = [mp.fsum(y[:, k]) / y.rows for k in range(y.cols)]
    return mp.sqrt(mp.fsum((y[i, k] - means[k]) ** 2 for i in range(y.rows) for k in range(y.cols)))


def size(y):
    return mp.sqrt(mp.fsum(v ** 2 for v in y))


def units(y):
    out = y.copy()
    for i in range(y.rows):
        length = size(y[i, :])
        for k in range(y.cols):
            out[i, k] /= length
    return out


# ---- experiments ----

def minus_three_halves():
    mp.mp.dps = 40
    root = mp.sqrt(3)

    def angle(skip, layers):
        skip = mp.mpf(skip)
        return mp.atan(((1 + skip) / (2 + skip)) ** layers * root)
    for skip, layers in ((1, 1), (1, 2), (1, 5), (-3, 3)):
        show("lambda-minus-three-halves: skip %d, mu of state %d" % (skip, layers), mp.sqrt(1 - mp.cos(angle(skip, layers))))
    show("lambda-minus-three-halves: the first as sqrt(1 - sqrt(3/7))", mp.sqrt(1 - mp.sqrt(mp.mpf(3) / 7)))
    for skip in ("-1.49", "-1.51"):
        show("lambda-minus-three-halves: skip %s, |det| of state 100" % skip, mp.sin(abs(angle(skip, 100))))
    # tokens without any formula: the layer itself
    for skip in ("-1.49", "-1.51", "1"):
        y = mp.matrix([[1, 0], [mp.mpf(1) / 2, root / 2]])
        for _ in range(100):
            m = mp.matrix([[1, 0], [(y[1, :] * y[0, :].T)[0], 1]])
            y = units(mp.mpf(skip) * y + m * y)
        show("lambda-minus-three-halves: layers, skip %s, |det| of state 100" % skip, abs(mp.det(y)))
    # theorem C on M = [.6 0; .1 1.1], skip -.75: Q, c, |R (Q - I) R|
    m, skip = mp.matrix([["0.6", 0], ["0.1", "1.1"]]), mp.mpf("-0.75")
    q = skip * mp.eye(2) + m
    for i in range(2):
        q[i, :] = q[i, :] / (skip + m[i, 0] + m[i, 1])
    r = mp.matrix([[0.5, -0.5], [-0.5, 0.5]])
    c, l = 2 * abs(q[1, 0]), max(mp.svd_r(r * (q - mp.eye(2)) * r, compute_uv=False))
    show("lambda-minus-three-halves: theorem C", (1 - l / mp.sqrt(1 - c ** 2)) / (1 + c))


def consensus():
    m = np.array([[0, 0, 0], [0.5, 0, 0], [-10, 10.1, 0.2]])
    q = (np.eye(3) + m) / (1 + m.sum(1))[:, None]
    r = np.eye(3) - 1 / 3
    show("consensus-threshold: factors", q[1, 1], q[2, 2])
    show("consensus-threshold: largest stretch |RQR|", np.linalg.svd(r @ q @ r)[1][0])
    show("consensus-threshold: .9 .1 .9 .1", mp.mpf("0.9") ** 2 * mp.mpf("0.1") ** 2)


def gate():
    mp.mp.dps = 40
    n, d, layers = 6, 5, 8

    def layer(x, l, gated=True):
        keys, values, gates = (x * exact(between(tag + 10 * l, (d, d), scale)) for tag, scale in ((81, 1), (82, 1), (83, 2)))
        weight = [mp.fsum(k + 1 if k > 0 else mp.exp(k) for k in keys[i, :]) for i in range(n)]
        total = mp.fsum(weight)
        mixed = [mp.fsum(weight[j] * values[j, k] for j in range(n)) / total for k in range(d)]
        out = mp.matrix(n, d)
        for i in range(n):
            for k in range(d):
                out[i, k] = mixed[k] * (gates[i, k] / (1 + mp.exp(-gates[i, k])) if gated else 1)
        return out
    x = exact(between(80, (n, d)))
    show("gate-reinjects: mu behind the gate", mu(layer(x, 0)))
    for l in range(layers):
        x = layer(x, l)
        x = units(x) * mp.sqrt(d)
    show("gate-reinjects: 8 layers with norms, mu/|Y|", mu(x) / size(x))


def lti():
    mp.mp.dps = 60
    n, d, decay = 4, 3, mp.mpf(0.7)
    y = exact(np.abs(between(62, (n, d))) + 0.1)
    for layers in (10, 50, 200, 2000):
        power = mp.matrix(n, n)
        for i in range(n):
            for j in range(i + 1):
                power[i, j] = mp.binomial(layers + i - j - 1, i - j) * decay ** (i - j)
        show("lti-with-and-without-norm: norm at the end, %d layers" % layers, mu(units(power * y)))
    m = mp.matrix(n, n)
    for i in range(n):
        for j in range(i + 1):
            m[i, j] = decay ** (i - j)
    for _ in range(10):
        y = units(m * y)
    show("lti-with-and-without-norm: norm in every layer, 10 layers", mu(y))


def theorem_4_3():
    mp.mp.dps = 40
    n, d, decay = 4, 3, mp.mpf(0.9)
    y = units(exact(np.abs(between(71, (n, d))) + 0.3))
    cosines = y * y.T
    least = min(cosines[i, j] for i in range(n) for j in range(i))
    first = min(cosines[i, 0] for i in range(n))
    p = decay ** (n - 1) * least * (1 - decay) / (1 - decay ** n)
    show("lambda-theorem-4.3: least cosine, p", least, p)
    factors = [1 - (least * mp.mpf(s)) ** 2 * decay ** (2 * n) for s in ("1", "1.75", "7")]
    show("lambda-theorem-4.3: factor as quoted, W = I, 1.75 I, 7 I", *factors)
    above = [0, 0, 0]
    for layer in range(41):
        above = [a + (mu(y) > mp.sqrt(n) * f ** layer) for a, f in zip(above, factors)]
        if layer in (1, 10):
            show("lambda-theorem-4.3: state %d, mu over the replacement" % layer, mu(y) / (mp.sqrt(2 * (n - 1) * (1 - first)) * (1 - p) ** (mp.mpf(layer) / 2)))
        cosines = y * y.T
        m = mp.matrix(n, n)
        for i in range(n):
            for j in range(i + 1):
                m[i, j] = decay ** (i - j) * cosines[i, j]
        y = units(m * y)
    print("lambda-theorem-4.3: states 0 to 40 above the bound as quoted:", above)
    # two tokens, W = I: tan(theta) falls by 1/(1 + decay) a layer
    decay, cosine = mp.mpf("0.95"), mp.mpf("0.9")
    tangent, factor = mp.sqrt(1 - cosine ** 2) / cosine, 1 - cosine ** 2 * decay ** 4
    spreads = [mp.sqrt(1 - mp.cos(mp.atan(tangent / (1 + decay) ** k))) for k in range(41)]
    print("lambda-theorem-4.3: two tokens, states above the bound as quoted:", sum(s > mp.sqrt(2) * factor ** k for k, s in enumerate(spreads)))
    show("lambda-theorem-4.3: two tokens, log10 of mu of state 40, factor as quoted", mp.log10(spreads[40]), factor)
    show("lambda-theorem-4.3: p of 3 tokens, decay 1/2, least product 1/2", mp.mpf(1) / 4 / 2 / 2 / (1 - mp.mpf(1) / 8))


GRID = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 6, 10, 20, 50, 200]


def demands(c, gain, a, layers, nu, n, selective):
    """Equation 7, with b, theorem A, theorem B: the pages' formulas, roots by bisection."""
    p = nu ** 2 * a ** layers
    both = ((p * a + 1) * c + math.sqrt((p * a + 1) ** 2 * c * c + p * p * a * (1 - a) * c * c)) / (p * (1 - a))
    delta = (1 - a ** (layers / 2)) * nu
    theorem_a = gain / math.sin(2 * math.asin(delta / (2 * layers)))
    low, high = 1.0, 1e9
    for _ in range(300):
        middle = math.sqrt(low * high)
        if middle > 1 and (1 - math.sqrt(n / 2) / math.sqrt(middle ** 2 - 1)) / (1 + 1 / middle) >= math.sqrt(a):
            high = middle
        else:
            low = middle
    return (a + math.sqrt(a)) * c / (1 - a), both, theorem_a, math.nan if selective else high


def network(n, d, layers, a, selective):
    y0 = hashed_normal(90, (n, d))
    y0 *= math.sqrt(d) / np.linalg.norm(y0, axis=1, keepdims=True)
    spread = lambda y: np.linalg.norm(y - y.mean(0))
    visible = np.tril(np.ones((n, n))) > 0
    maps = []
    for l in range(layers):
        tag = 1000 + 10 * l
        if selective:
            maps.append([hashed_normal(tag + i, (d, 16)) / math.sqrt(d) for i in range(2)] + [np.eye(d)])
        else:
            w = hashed_normal(tag + 2, (d, d))
            maps.append([hashed_normal(tag + i, (d, d)) / math.sqrt(d) for i in range(2)] + [w / np.linalg.norm(w, 2)])
    i, j = np.indices((n, n))
    decays = np.where(visible, 0.9 ** np.maximum(i - j, 0), 0)

    def mixing(y, q, k):
        if selective:
            return decays * ((y @ q) @ (y @ k).T) / 16
        logits = np.where(visible, (y @ q) @ (y @ k).T / math.sqrt(d), -np.inf)
        e = np.exp(logits - logits.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def run(skip, each=None):
        y = y0
        for q, k, w in maps:
            m = mixing(y, q, k)
            if each:
                each(m, y)
            z = skip * y + m @ y @ w
            y = z * math.sqrt(d) / np.linalg.norm(z, axis=1, keepdims=True)
        return spread(y) ** 2 / (a ** layers * spread(y0) ** 2)
    c, gain = math.sqrt(n), 1.0
    if selective:
        seen = []
        run(10, lambda m, y: seen.append((np.linalg.norm(m), np.linalg.norm(m @ y, axis=1).max() / math.sqrt(d))))
        c, gain = max(s[0] for s in seen), max(s[1] for s in seen)
    first = len(GRID)
    while first > 0 and run(GRID[first - 1]) >= 1:
        first -= 1
    works = GRID[first] if first < len(GRID) else math.inf
    if 0 < first < len(GRID):
        fails = GRID[first - 1]
        for _ in range(24):
            middle = (fails + works) / 2
            if run(middle) < 1:
                fails = middle
            else:
                works = middle
    return demands(c, gain, a, layers, spread(y0) / math.sqrt(n * d), n, selective) + (works,)


def theorem_4_1():
    for n, d, layers, a, selective in ((32, 64, 12, 0.9, False), (32, 64, 12, 0.9, True), (128, 64, 12, 0.9, False), (128, 64, 64, 0.99, False)):
        show("lambda-theorem-4.1: %s, %d tokens, %d layers, a = %g: equation 7, and b, theorem A, theorem B, works" %
             ("selective" if selective else "attention", n, layers, a), *network(n, d, layers, a, selective))
    show("lambda-theorem-4.1: equation 7, a = .9999, c = sqrt(128)", demands(math.sqrt(128), 1, 0.9999, 64, 1, 128, True)[0])
    show("lambda-theorem-4.1: a = .9, c = 1, 4 layers", *demands(1, 1, 0.9, 4, 1, 128, True)[:2])
    show("lambda-theorem-4.1: theorem A, .1 over 12 layers", 1 / mp.sin(2 * mp.asin(mp.mpf(1) / 240)))


EXPERIMENTS = {"lambda-minus-three-halves": minus_three_halves, "consensus-threshold": consensus, "gate-reinjects": gate,
               "lti-with-and-without-norm": lti, "lambda-theorem-4.3": theorem_4_3, "lambda-theorem-4.1": theorem_4_1}

if __name__ == "__main__":
    for name, experiment in EXPERIMENTS.items():
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            experiment()
