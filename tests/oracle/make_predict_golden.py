#!/usr/bin/env python3
"""Numbers of mean-field theory by their definitions, for tests/unit/test_predict_*.c (docs/theory/mean_field.md).

Moments of a softmax and maps of activations by sums with 30 digits, the recursions in (q, p) as they are written down, masks by sums
over all pairs of pairs, closed forms with 50 digits. Nothing is drawn.

    python3 tests/oracle/make_predict_golden.py
"""

import functools
import json
import math
import pathlib

import mpmath as mp
import numpy as np

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "predict"


def write(name, data):
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / name).write_text(json.dumps(data, indent=0) + "\n")


# ---- moments of a softmax: sums with equal steps, 25 digits ----


def moments(c, n):
    s = mp.sqrt(c)
    step = min(mp.mpf("0.3"), mp.mpf("0.13") / s)
    count = int(11 / step)
    weights = [mp.e ** (-((i * step) ** 2) / 2) * step / mp.sqrt(2 * mp.pi) for i in range(-count, count + 1)]
    du, u, high = mp.mpf("0.14"), -mp.log(n) - 11 * s - 36, 5 + 11 * s
    second = third = square = mp.mpf(0)
    while u < high:
        kept = two = three = four = mp.mpf(0)
        for i, w in zip(range(-count, count + 1), weights):
            rate = mp.e ** (u + s * i * step)
            if rate > 80:
                break
            part = w * mp.e**-rate
            kept, two, three, four = kept + part, two + part * rate**2, three + part * rate**3, four + part * rate**4
        second += two * kept ** (n - 1)
        third += three * kept ** (n - 1)
        square += (four * kept + (n - 1) * two**2) * kept ** (n - 2)
        u += du
    return n * second * du, mp.mpf(n) / 2 * third * du, mp.mpf(n) / 6 * square * du


def panels(ends, count=40):
    """Gauss-Legendre nodes and weights over panels between the ends."""
    x, w = np.polynomial.legendre.leggauss(count)
    # the doubles' nodes, polished to all digits
    nodes = []
    for z in x:
        z = mp.findroot(lambda t: mp.legendre(count, t), mp.mpf(float(z)))
        slope = count * (z * mp.legendre(count, z) - mp.legendre(count - 1, z)) / (z * z - 1)
        nodes.append((z, 2 / ((1 - z * z) * slope**2)))
    return [((a + b) / 2 + (b - a) / 2 * z, (b - a) / 2 * w) for a, b in zip(ends, ends[1:]) for z, w in nodes]


@functools.cache
def cold_mesh(s):
    """(u, g0, g2, g3, g4): w = u + m is where exp(-e^w) has its slope, whatever the deviation s of m; below -60 it is 1."""
    inner = [(w, weight * mp.e ** -mp.e**w, mp.e**w) for w, weight in panels([-60, -30, -12, -5, -2, 0, 2, 3, 5])]
    rows, du, u = [], s / 25, -11 * s
    while u < 11 * s + 5:
        g = [mp.ncdf((-60 - u) / s), mp.mpf(0), mp.mpf(0), mp.mpf(0)]
        for w, weight, rate in inner:
            part = weight * mp.npdf((w - u) / s) / s
            g = [g[0] + part, g[1] + part * rate**2, g[2] + part * rate**3, g[3] + part * rate**4]
        rows.append((du, *g))
        u += du
    return rows


def cold_moments(c, n):
    rows = cold_mesh(mp.sqrt(c))
    second = mp.fsum(du * g2 * g0 ** (n - 1) for du, g0, g2, g3, g4 in rows)
    third = mp.fsum(du * g3 * g0 ** (n - 1) for du, g0, g2, g3, g4 in rows)
    square = mp.fsum(du * (g4 * g0 + (n - 1) * g2**2) * g0 ** (n - 2) for du, g0, g2, g3, g4 in rows)
    return n * second, mp.mpf(n) / 2 * third, mp.mpf(n) / 6 * square


def moments_golden():
    rows = []
    for c, n in [("1", 16), ("2.7", 64), ("4", 256), ("9", 1024), ("0.001", 2), ("1e-8", 128), ("0.0899", 1000), ("0.0901", 1000), ("25", 3),
                 ("0.3", 1000000), ("5", 2), ("99.9", 1000000)] + [(c, n) for c in ("100", "9990", "10000", "1e8", "1e12") for n in (2, 32, 1000000)]:
        m2, m3, m22 = (cold_moments if mp.mpf(c) >= 100 else moments)(mp.mpf(c), n)
        excess = n * m2 - 1
        rows.append(dict(c=float(mp.mpf(c)), n=n, second=float(m2), excess=float(excess), third=float(m3), square=float(m22),
                         equal=float(mp.log1p(excess) - mp.log1p(-excess / (n - 1)))))
    return rows


def logistic(x):
    return 1 / (1 + np.exp(-x))


def cross_two(c, rho):
    """Two keys: A = (σ(x), σ(−x)), x the logits' difference."""
    z = np.linspace(-11, 11, 601)
    w = np.exp(-z * z / 2)
    w /= w.sum()
    x, y = math.sqrt(2 * c) * z[:, None], math.sqrt(2 * c) * (rho * z[:, None] + math.sqrt(1 - rho * rho) * z[None, :])
    return float((w[:, None] * w[None, :] * (logistic(x) * logistic(y) + logistic(-x) * logistic(-y))).sum())


def cross_three(c, rho):
    """Three keys: six logits, of which the rows see four differences; Gauss-Hermite in all of them."""
    h, w = np.polynomial.hermite_e.hermegauss(24)
    w = w / w.sum()
    own = math.sqrt(c * (1 - abs(rho)))
    shared = math.sqrt(c * abs(rho))
    # differences of three independent normals: (z1, z2) with covariance [[2, 1], [1, 2]]
    a, b = math.sqrt(2), 1 / math.sqrt(2)
    first, second = a * h[:, None], b * h[:, None] + math.sqrt(1.5) * h[None, :]
    first = np.broadcast_to(first, second.shape).ravel()
    second = second.ravel()
    ww = (w[:, None] * w[None, :]).ravel()
    total = 0.0
    for f, s, weight in zip(first, second, ww):
        rows = []
        for sign in (1, math.copysign(1, rho)):
            e1, e2 = np.exp(own * first + sign * shared * f), np.exp(own * second + sign * shared * s)
            z = 1 + e1 + e2
            rows.append([(ww / z).sum(), (ww * e1 / z).sum(), (ww * e2 / z).sum()])
        total += weight * sum(x * y for x, y in zip(*rows))
    return float(total)


def cross_golden():
    rows = [dict(n=2, c=c, rho=r, value=cross_two(c, r)) for c in (0.01, 1.0, 9.0) for r in (-0.7, 0.2, 0.95)]
    rows += [dict(n=3, c=c, rho=r, value=cross_three(c, r)) for c, r in ((0.25, 0.5), (0.5, -0.3), (1.0, 0.8))]
    return rows


# ---- maps of activations: double sums with 30 digits ----


def sigmoid(x):
    return 1 / (1 + mp.e**-x)


def activations():
    root = mp.sqrt(2 / mp.pi)
    cubic = mp.mpf("0.044715")
    rate = mp.mpf("1.702")
    return dict(gelu=lambda x: x * (1 + mp.erf(x / mp.sqrt(2))) / 2, sin=mp.sin, tanh=mp.tanh, sigmoid=sigmoid,
                gelu_tanh=lambda x: x * (1 + mp.tanh(root * (x + cubic * x**3))) / 2, quick_gelu=lambda x: x * sigmoid(rate * x),
                silu=lambda x: x * sigmoid(x))


def slopes():
    root = mp.sqrt(2 / mp.pi)
    cubic = mp.mpf("0.044715")
    rate = mp.mpf("1.702")

    def swish(x, k):
        s = sigmoid(k * x)
        return s + k * x * s * (1 - s)

    def gelu_tanh(x):
        t = mp.tanh(root * (x + cubic * x**3))
        return (1 + t) / 2 + x * (1 - t * t) * root * (1 + 3 * cubic * x * x) / 2

    return dict(gelu=lambda x: (1 + mp.erf(x / mp.sqrt(2))) / 2 + x * mp.e ** (-x * x / 2) / mp.sqrt(2 * mp.pi), sin=mp.cos,
                tanh=lambda x: 1 - mp.tanh(x) ** 2, sigmoid=lambda x: sigmoid(x) * (1 - sigmoid(x)), gelu_tanh=gelu_tanh,
                quick_gelu=lambda x: swish(x, rate), silu=lambda x: swish(x, 1))


def pair(f, q, e, step):
    """E f² and E f² − E f(u)f(v)."""
    count = int(mp.mpf("12.5") / step)
    r, s = 1 - e, mp.sqrt(q)
    t = mp.sqrt(e * (2 - e))
    x = [i * step for i in range(-count, count + 1)]
    w = [mp.e ** (-z * z / 2) * step / mp.sqrt(2 * mp.pi) for z in x]
    values = [f(s * z) for z in x]
    square = sum(a * b * b for a, b in zip(w, values))
    both = sum(a * b * sum(c * f(s * (r * z + t * y)) for c, y in zip(w, x)) for a, b, z in zip(w, values, x))
    return square, square - both


def maps_golden():
    mp.mp.dps = 30
    rows = []
    for q, e, step in (("1", "0.5", "0.15"), ("0.3", "1.2", "0.2"), ("2.5", "1e-7", "0.1")):
        for name, f in activations().items():
            wide = mp.mpf(step) * (1 if name in ("tanh", "gelu_tanh", "quick_gelu") else mp.mpf("1.5"))
            square, gap = pair(f, mp.mpf(q), mp.mpf(e), wide)
            slope, slope_gap = pair(slopes()[name], mp.mpf(q), mp.mpf(e), wide)
            rows.append(dict(kind=name, q=float(q), e=float(e), square=float(square), gap=float(gap), slope=float(slope),
                             slope_gap=float(slope_gap)))
    mp.mp.dps = 25
    return rows


# ---- the recursions, in (q, p) ----


def lognormal_means(c, n, powers):
    """Steps of u, and E e^{k(u+m)} h(u+m) of each power k on them."""
    s = math.sqrt(c)
    z = np.linspace(-9.5, 9.5, 401)
    pz = np.exp(-z * z / 2)
    pz /= pz.sum()
    u = np.linspace(-math.log(n) - 9.5 * s - 22, 9.5 * s + 5, 1600)
    w = np.clip(s * z[None, :] + u[:, None], -700, 60)
    e = np.exp(-np.exp(w))
    return u, [(np.exp(k * w) * e) @ pz for k in powers]


@functools.lru_cache(maxsize=None)
def moment(c, n, k):
    if c == 0:
        return n ** (1.0 - k)
    u, (g0, gk) = lognormal_means(c, n, (0, k))
    return float(n / math.gamma(k) * np.trapezoid(gk * g0 ** (n - 1), u))


@functools.lru_cache(maxsize=None)
def square_moment(c, n):
    """E (Σ A²)²."""
    if c == 0:
        return n**-2.0
    u, (g0, g2, g4) = lognormal_means(c, n, (0, 2, 4))
    return float(n / 6 * np.trapezoid((g4 * g0 + (n - 1) * g2**2) * g0 ** (n - 2), u))


def phi(x, n):
    return 1 / (1 + (n - 1) * math.exp(-x))


def hermite(f, q, r):
    h, w = np.polynomial.hermite_e.hermegauss(90)
    w = w / w.sum()
    s, t = math.sqrt(q), math.sqrt(1 - r * r)
    a = f(s * h)
    return float((w * a * a).sum()), float((w[:, None] * w[None, :] * a[:, None] * f(s * (r * h[:, None] + t * h[None, :]))).sum())


ERF = np.vectorize(math.erf)
KINDS = {
    "gelu": (lambda x: x * 0.5 * (1 + ERF(x / 2**0.5)), lambda x: 0.5 * (1 + ERF(x / 2**0.5)) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    "swiglu": (lambda x: x * logistic(x), lambda x: logistic(x) * (1 + x * logistic(-x))),
    "linear": (lambda x: x, np.ones_like),
}


def activation_moments(kind, q, r):
    """E φ², E φφ, E φ'², E φ'φ' at variance q."""
    if kind == "relu":
        angle = math.acos(r)
        return q / 2, q * (math.sin(angle) + (math.pi - angle) * r) / (2 * math.pi), 0.5, (math.pi - angle) / (2 * math.pi)
    return (*hermite(KINDS[kind][0], q, r), *hermite(KINDS[kind][1], q, r))


def mlp(k, q, p):
    f, both, slope, slope_both = activation_moments(k["act"], (k["vg"] if k["act"] == "swiglu" else k["v1"]) * q, p / q)
    if k["act"] != "swiglu":
        return k["v2"] * f, k["v2"] * both, k["v1"] * k["v2"] * slope, k["v1"] * k["v2"] * slope_both
    v = k["v1"] * k["v2"]
    return v * f * q, v * both * p, v * (k["vg"] * slope * q + f), v * (k["vg"] * slope_both * p + both)


def run(k):
    """Rows (q, p), then (gQ, gV, gO, b) of each layer; equally correlated tokens."""
    n, d, norm, skip, eps = k["n"], k["d"], k["norm"], k["skip"], k["eps"]
    q, p = k["q0"], k["q0"] * k["rho0"]
    v = k["vv"] * k["vo"]
    kappa, forward, tape = 1 / d, [(q, p)], []
    for _ in range(k["L"]):
        by = q + eps if norm in ("pre", "sandwich") else 1.0
        qi, pi = q / by, p / by
        e, g = 1 - pi / qi, qi - pi
        c = k["logit"] * k["vq"] * k["vk"] * qi * qi * e
        m2, m3, m22 = moment(c, n, 2), moment(c, n, 3), square_moment(c, n)
        hat = math.log((n - 1) * m2 / (1 - m2))
        m11 = phi((1 - e) * hat, n)
        m, mean = pi + g / n, pi + g / n
        # a row gathers tokens along its own query: its weights are those of what they weigh
        led = c * kappa * max(1 - m2 - 6 * m3 + 6 * m22, 0)
        qs, ps = pi + g * (m2 + led), pi + g * (m11 + led * (1 - e))
        a, b, u = k["mix"]
        qs = a * a * (qi - m) + b * b * (qs - m) + (a + b - u) ** 2 * m
        gs = a * a * g + b * b * (m2 - m11 + led * e) * g
        ps = qs - gs
        ins = v * qs + eps if norm == "sandwich" else 1.0
        r = dict(by=by, qi=qi, pi=pi, m2=m2, m3=m3, m22=m22, m11=m11, qs=qs, ps=ps, ins=ins, kappa=kappa, mean=mean)
        add_q, add_p = k["a1"] ** 2 * v * qs / ins, k["a1"] ** 2 * v * ps / ins
        q, p = skip**2 * q + add_q, skip**2 * p + add_p
        share = (add_q - add_p) / (q - p) if q > p else 0
        kappa += share * (2 - share) * (1 + kappa) / d
        r["aft"] = q + eps if norm == "post" else 1.0
        q, p = q / r["aft"], p / r["aft"]
        if k["act"] != "none":
            r["by2"] = q + eps if norm in ("pre", "sandwich") else 1.0
            y, yp, r["own"], r["cross"] = mlp(k, q / r["by2"], p / r["by2"])
            r["ins2"] = y + eps if norm == "sandwich" else 1.0
            add_q, add_p = k["a2"] ** 2 * y / r["ins2"], k["a2"] ** 2 * yp / r["ins2"]
            q, p = skip**2 * q + add_q, skip**2 * p + add_p
            kappa += 2 * ((add_q - add_p) / (q - p) if q > p else 0) * (1 + kappa) / d
            r["aft2"] = q + eps if norm == "post" else 1.0
            q, p = q / r["aft2"], p / r["aft2"]
        tape.append(r)
        forward.append((q, p))
    return forward, backward(k, tape)


def backward(k, tape):
    n, d, skip = k["n"], k["d"], k["skip"]
    b, p, out = 1.0, 0.0, []
    for r in reversed(tape):
        if k["act"] != "none":
            b, p = b / r["aft2"], p / r["aft2"]
            f = k["a2"] ** 2 / r["by2"] / r["ins2"]
            b, p = (skip**2 + f * r["own"]) * b, (skip**2 + f * r["cross"]) * p
        b, p = b / r["aft"], p / r["aft"]
        f = k["a1"] ** 2 / r["ins"]
        gate = d * d * (n * r["qs"] * f * b + n * (n - 1) * r["ps"] * f * p)
        value, output = gate * k["vo"], gate * k["vv"]
        big, both = k["vv"] * k["vo"] * f * b, k["vv"] * k["vo"] * f * p
        m2, m3, m11, kap, qi, pi = r["m2"], r["m3"], r["m11"], r["kappa"], r["qi"], r["pi"]
        one, soft, u = k["mix"]
        g = qi - pi
        t0, t1 = m2 - 2 * m3 + r["m22"], m11 - 2 * m2 * m11 + m11 * m11
        T0, T1 = g * g * (t0 + kap * (1 - m2)), g * g * (t1 + kap * (1 - m11))
        query = soft**2 * k["logit"] * k["vk"] * n * d * d * (qi * big * T0 + (n - 1) * pi * both * T1)
        total = big + (n - 1) * both
        own = m2 * big + (n - 1) * m11 * both
        mean = total / n
        own = one * one * (big - mean) + soft * soft * (own - mean) + (one + soft - u) ** 2 * mean
        cross = ((one + soft - u) ** 2 * total - own) / (n - 1)
        w = soft**2 * k["logit"] * k["vq"] * k["vk"]
        keys = w * g * (qi * big * t0 + (n - 1) * pi * both * t1)
        own += w * big * T0 + keys
        cross += w * both * T1 - keys / (n - 1)
        b, p = skip**2 * b + own / r["by"], skip**2 * p + cross / r["by"]
        out.append((query, value, output, b))
    return out[::-1]


PLAIN = dict(L=6, n=12, d=48, act="relu", norm="none", skip=1.0, a1=1.0, a2=1.0, rho0=0.0, q0=1.0, eps=0.0, logit=1.0, vq=1.0, vk=1.0, vv=1.0, vo=1.0,
             v1=2.0, v2=1.0, vg=1.0, mix=[0.0, 1.0, 0.0])
CASES = [
    dict(norm="pre"), dict(norm="post", act="gelu", v1=1.0), dict(norm="pre", act="swiglu", v1=1.0, logit=4.0),
    dict(norm="sandwich", act="gelu", v1=1.3, eps=1e-3, rho0=0.2), dict(norm="post", skip=1.7, a1=0.5, a2=0.8, vo=2.0, vv=0.5, n=5),
    dict(act="linear", v1=1.0, logit=0.0, a1=0.8, a2=0.5, q0=2.0, rho0=0.3), dict(act="none", skip=0.0, L=3, rho0=0.1),
    dict(a1=0.4, a2=0.4, q0=0.5, rho0=-0.05, vq=0.7, vk=1.4), dict(norm="pre", mix=[1.0, 1.0, 1.0]), dict(norm="pre", mix=[0.0, 1.0, 1.0], act="gelu"),
    dict(norm="pre", mix=[0.5, 0.8, 0.2], eps=0.1, rho0=0.5), dict(norm="pre", n=2, rho0=-0.5, act="gelu", v1=1.0),
    dict(norm="post", act="swiglu", v1=0.5, vg=2.0, v2=3.0, rho0=0.9), dict(act="none", a1=0.7, rho0=0.4, L=4, logit=0.5),
]


def theory_golden():
    rows = []
    for case in CASES:
        k = {**PLAIN, **case}
        forward, back = run(k)
        rows.append({**k, "forward": forward, "backward": back})
    return rows


# ---- masks: sums over all weights of pairs of rows ----


def weights(k_read, see, t, i, other, turn):
    rows, cols = see(i), see(other)
    diagonal = np.diag(k_read)
    kept = turn((i - other) - (np.array(rows)[:, None] - np.array(cols)[None, :]))
    e = 0.5 * k_read[i, i] * diagonal[rows][:, None] + 0.5 * k_read[other, other] * diagonal[cols][None, :]
    e = t * (e + kept * k_read[i, other] * k_read[np.ix_(rows, cols)])
    e = np.exp(e - e.max())
    return rows, cols, e / e.sum()


def visible(k):
    n = k["n"]

    def see(i):
        low, high = 0, i + 1 if k["causal"] else n
        if k["window"]:
            low = max(0, i - k["window"] + 1)
            if not k["causal"]:
                high = min(n, i + k["window"])
        return list(range(low, high))

    return see


def turning(k):
    """What rotary positions leave of a covariance at a distance."""
    rates = np.array(k["rates"] + [0.0] * k["still"])
    if len(rates) == 0:
        return lambda distance: np.ones(distance.shape)
    return lambda distance: np.cos(distance[..., None] * rates).mean(axis=-1)


def softened(k_read, see, t, turn, given=None):
    """Σ w K for all pairs of rows, or Σ w given for all pairs of keys."""
    n = len(k_read)
    out = np.zeros((n, n))
    for i in range(n):
        for other in range(n):
            rows, cols, w = weights(k_read, see, t, i, other, turn)
            if given is None:
                out[i, other] = (w * k_read[np.ix_(rows, cols)]).sum()
            else:
                out[np.ix_(rows, cols)] += w * given[i, other]
    return out


def logits_back(k, read, see, turn, given, kappa):
    """Σ K Q of queries, and what comes back to tokens, per logit vq vk: sums over all pairs of rows and of keys."""
    n, t = len(read), k["logit"] * k["vq"] * k["vk"]
    total, back = 0.0, np.zeros((n, n))
    shared, gap, tail, uneven = np.zeros((n, n)), np.zeros(n), np.zeros(n), np.ones(n)
    for i in range(n):
        keys, m = see(i), len(see(i))
        sub, turned = read[np.ix_(keys, keys)], turn(np.subtract.outer(keys, keys).astype(float))
        if m > 1:
            gap[i] = np.trace(sub) / m - (sub.sum() - np.trace(sub)) / (m * (m - 1))
            centred = np.eye(m) - 1.0 / m
            uneven[i] = ((centred @ sub @ centred) ** 2).sum() / ((m - 1) * gap[i] ** 2)
            free = sub * turned
            spread = np.trace(free) / m - (free.sum() - np.trace(free)) / (m * (m - 1))
        variance = t * read[i, i] * spread if m > 1 else 0.0
        tail[i] = 2 * moment(variance, m, 3) - square_moment(variance, m) if m > 1 else 1.0
        for j in range(n):
            rows, cols, w = weights(read, see, t, i, j, turn)
            shared[i, j] = sum(w[a, b] for a, x in enumerate(rows) for b, y in enumerate(cols) if x == y)
    for i in range(n):
        for j in range(n):
            both = sorted(set(see(i)) & set(see(j)))
            m = len(both)
            if m == 0:
                continue
            first = min(i, j)
            M = shared[i, j]
            part = M - (tail[i] if i == j else (shared[i, i] + shared[j, j]) * M - M * M)
            D = np.zeros((n, n))
            if m > 1:
                D[np.ix_(both, both)] = given[i, j] * gap[first] * part * (np.eye(m) - 1.0 / m) / (m - 1)
            turns = turn((i - j) - np.subtract.outer(np.arange(n), np.arange(n)).astype(float))
            same = np.mean([read[x, x] for x in both])
            # what keys have in common, which a turn keeps from dropping out, and what sets each apart
            query = (same - gap[first]) * (D * turns).sum()
            query += given[i, j] * gap[i] * gap[j] * uneven[first] * (part + kappa * (1 - M)) * turns[0, 0]
            total += read[i, j] * query
            back[i, j] += query
            back += D * turns * read[i, j]
    return total, back


def flat_matrix(k, see):
    c = np.zeros((k["n"], k["n"]))
    for i in range(k["n"]):
        c[i, see(i)] = 1 / len(see(i))
    return c


def mixed(k, a, soft, c):
    one, s, u = k["mix"]
    f = s - u
    return one * one * a + one * f * (c @ a + a @ c.T) + s * s * (soft - c @ a @ c.T) + f * f * c @ a @ c.T


def gram_mlp(k, a):
    n, root = len(a), np.sqrt(np.diag(a))
    y, slope = np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            r = min(1.0, a[i, j] / root[i] / root[j]) if i != j else 1.0
            f, both, s, s_both = activation_moments(k["act"], (k["vg"] if k["act"] == "swiglu" else k["v1"]) * root[i] * root[j], r)
            if k["act"] == "swiglu":
                y[i, j] = k["v1"] * k["v2"] * both * a[i, j]
                slope[i, j] = k["v1"] * k["v2"] * (k["vg"] * s_both * a[i, j] + both)
            else:
                y[i, j], slope[i, j] = k["v2"] * both, k["v1"] * k["v2"] * s_both
    return y, slope


def normed(k, where, a):
    f = 1 / np.sqrt(np.diag(a) + k["eps"]) if k["norm"] in where else np.ones(len(a))
    return a * np.outer(f, f), np.outer(f, f)


def run_gram(k):
    n, d, v = k["n"], k["d"], k["vv"] * k["vo"]
    see, turn = visible(k), turning(k)
    c, t = flat_matrix(k, see), k["logit"] * k["vq"] * k["vk"]
    a = k["q0"] * ((1 - k["rho0"]) * np.eye(n) + k["rho0"])
    sums, tape, kappa = [(np.trace(a), a.sum())], [], 1 / d

    def apart(x):
        return np.trace(x) - (x.sum() - np.trace(x)) / (n - 1)

    def grown(x, added, scale, twice):
        share = min(scale**2 * apart(added) / apart(x), 1)
        return min(kappa + (2 * share if twice else share * (2 - share)) * (1 + kappa) / d, 1)

    for _ in range(k["L"]):
        read, before = normed(k, ("pre", "sandwich"), a)
        added, inside = normed(k, ("sandwich",), v * mixed(k, read, softened(read, see, t, turn), c))
        r = dict(read=read, before=before, inside=inside, kappa=kappa)
        a = k["skip"] ** 2 * a + k["a1"] ** 2 * added
        kappa = grown(a, added, k["a1"], False)
        a, r["after"] = normed(k, ("post",), a)
        if k["act"] != "none":
            read, r["before2"] = normed(k, ("pre", "sandwich"), a)
            y, r["slope"] = gram_mlp(k, read)
            y, r["inside2"] = normed(k, ("sandwich",), y)
            a = k["skip"] ** 2 * a + k["a2"] ** 2 * y
            kappa = grown(a, y, k["a2"], True)
            a, r["after2"] = normed(k, ("post",), a)
        tape.append(r)
        sums.append((np.trace(a), a.sum()))
    b, back = np.eye(n), []
    for r in reversed(tape):
        if k["act"] != "none":
            b = b * r["after2"]
            b = k["skip"] ** 2 * b + k["a2"] ** 2 * b * r["inside2"] * r["slope"] * r["before2"]
        b = b * r["after"]
        given = k["a1"] ** 2 * b * r["inside"]
        through = mixed_back(k, given, softened(r["read"], see, t, turn, given), c)
        value = d * d * k["vo"] * (r["read"] * through).sum()
        logit = k["logit"] * k["mix"][1] ** 2
        sum_queries, logits = logits_back(k, r["read"], see, turn, given, r["kappa"])
        query = logit * k["vk"] * v * d * d * sum_queries
        b = k["skip"] ** 2 * b + v * (through + logit * k["vq"] * k["vk"] * logits) * r["before"]
        back.append((value, np.trace(b), query))
    return sums, back[::-1]


def mixed_back(k, b, soft, c):
    one, s, u = k["mix"]
    f = s - u
    return one * one * b + one * f * (b @ c + c.T @ b) + s * s * (soft - c.T @ b @ c) + f * f * c.T @ b @ c


GRAM = dict(L=3, n=7, d=16, causal=True, window=0, rates=[], still=0)
GRAM_CASES = [
    dict(norm="pre"), dict(norm="pre", logit=1.5, rho0=0.2), dict(norm="post", act="gelu", v1=1.0), dict(norm="pre", act="swiglu", v1=1.0, vo=2.0, vv=0.7),
    dict(norm="none", a1=0.5, a2=0.5, rho0=0.3), dict(norm="pre", window=3), dict(norm="pre", causal=False, window=2, act="linear", v1=1.0),
    dict(norm="sandwich", eps=1e-3, q0=0.3), dict(norm="pre", mix=[1.0, 1.0, 1.0]), dict(norm="pre", mix=[0.3, 0.8, 0.1], skip=0.9), dict(norm="pre", logit=0.0),
    dict(norm="none", act="none", skip=0.0, L=2, logit=0.5), dict(norm="pre", n=32, L=8, d=64),
    dict(norm="pre", rates=[1.0, 0.3, 0.1, 0.03]), dict(norm="post", rates=[1.0, 0.01], still=1, act="gelu", v1=1.0, rho0=0.6, logit=2.0),
    dict(norm="pre", causal=False, rates=[2.0, 0.5]), dict(norm="pre", window=3, rates=[1.0, 0.1], mix=[0.4, 1.0, 0.3]),
    dict(norm="sandwich", causal=False, window=2, rates=[0.7], still=3, eps=0.0),
]


def gram_golden():
    rows = []
    for case in GRAM_CASES:
        k = {**PLAIN, **GRAM, **case}
        sums, back = run_gram(k)
        rows.append({**k, "forward": [[float(x) for x in s] for s in sums], "backward": [[float(x) for x in s] for s in back]})
    return rows


# ---- closed forms, 50 digits ----


def cholesky(s):
    n = s.rows
    low = mp.zeros(n)
    for j in range(n):
        low[j, j] = mp.sqrt(s[j, j] - sum(low[j, k] ** 2 for k in range(j)))
        for i in range(j + 1, n):
            low[i, j] = (s[i, j] - sum(low[i, k] * low[j, k] for k in range(j))) / low[j, j]
    return low


def carried(before, after):
    a = cholesky(after) * cholesky(before) ** -1
    return [[float(a[i, j]) for j in range(a.cols)] for i in range(a.rows)]


def kernel(n, entry):
    return mp.matrix([[entry(i, j) for j in range(n)] for i in range(n)])


def vectors():
    """The 59 numbers by which signal propagation's closed forms are known, each from its definition."""
    mp.mp.dps = 50
    q, out = mp.mpf, {}
    x = [[1, 2], [3, 4], [5, 9]]
    gram = mp.matrix([[35, 59], [59, 101]])  # XᵀX
    root = mp.sqrt((gram[0, 0] - gram[1, 1]) ** 2 + 4 * gram[0, 1] ** 2)
    high, low = (136 + root) / 2, (136 - root) / 2
    mean = [q(3), q(5)]
    out["dM"] = mp.sqrt(sum((row[j] - mean[j]) ** 2 for row in x for j in range(2)))
    out["dM_pairwise"] = mp.sqrt(sum((a[j] - b[j]) ** 2 for a in x for b in x for j in range(2)) / q(6))
    out["C"], out["F2"] = q(81 + 225), q(136)
    out["rho_bar"], out["rho"] = out["C"] / (3 * out["F2"]), (out["C"] / out["F2"] - 1) / 2
    out["relres"] = out["dM"] / mp.sqrt(out["F2"])
    dots = [sum(a * b for a, b in zip(x[i], x[j])) / mp.sqrt(sum(a * a for a in x[i]) * q(sum(b * b for b in x[j]))) for i in range(3) for j in range(i)]
    out["mean_cos"] = sum(dots) / 3
    out["sr_X"], out["sr_Sigma"] = 136 / high, (high**2 + low**2) / high**2
    # Noci et al.: n = 4, F = C = 4, L = 3, all scales 1; steps of the recursion
    f = c = q(4)
    for _ in range(3):
        f, c = 2 * (c / 4 + f), 4 * c
    out["noci_C"], out["noci_F2"], out["noci_rho"] = c, f, (c / f - 1) / 3
    for rate in (1, 4):
        e = mp.e**rate
        out["noci_rho_inf_%d" % rate] = q(4) * e * 4 / (3 * ((e - 1) * 4 + 16)) - q(1) / 3
    f = c = q(1024)
    for _ in range(12):
        f, c = (1 + q(1) / 12) * (c / 16 / 12 + f), (1 + q(1) / 12) ** 2 * c
    out["noci_rho_finite"] = (c / f - 1) / 15
    bar, depth = q(1) / 16, 0
    while bar < (1 + 15 * q("0.9")) / 16:
        bar, depth = 2 * bar / (1 + bar), depth + 1
    out["noci_depth_to_rho"] = q(depth)
    out["noci_gradV_local"] = 2 * 3 * (q(4) / 9 + q(4) / 9)
    cross = mp.matrix([[q(2) / 3, -q(1) / 3], [-q(1) / 3, q(2) / 3]])
    out["noci_gradQ_local"] = q(1) / 4 * 2 / 9 * 4 * sum(v**2 for v in cross)
    value, query = q(64) ** 2 * (1 + 15 * q("0.25")), q(15) / 16 * q("0.5625") * 64 * 80
    out["noci_eq_gradV"], out["noci_eq_gradQ"] = value, query
    out["gradQ_exact"], out["tau_match"] = query * (16 * 64 + 3) / (16 * 64), mp.sqrt(value / query)
    out["net_gradV"], out["net_gradQ"] = q(4) * 8 / 4 * 4 * 8, q(1) / 64 * 8 / 16 * 6 * (4 + 3)
    # attention matrices
    trace, det = q(85) / 72, q(25) / 144
    first = mp.sqrt((trace + mp.sqrt(trace**2 - 4 * det)) / 2)
    out["softmax2"] = [[q(1) / 3, q(2) / 3], [q(3) / 4, q(1) / 4]]
    out["softmax2_sv"], out["softmax2_eig"] = [first, mp.sqrt(det) / first], [q(1), -q(5) / 12]
    out["softmax2_centered_eig"], out["softmax2_centered_s1"] = [q(0), -q(5) / 12], mp.sqrt(q(26)) / 12
    out["softmax2_dobrushin"] = q(5) / 12
    out["softmax2_entropy"] = -sum(p * mp.log(p) for row in out["softmax2"] for p in row) / 2
    causal = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    out["causal_uniform_4"] = [sum(q(1) / k for k in range(1, 5)), q(float(np.linalg.svd(causal, compute_uv=False)[0]))]
    # gaps in width
    out["markov_sigma2"], out["markov_s2"] = q(1), 2 / mp.sqrt(400)
    for v, t, k in ((0.25, 1024, 64), (0.01, 512, 512), (0.25, 4096, 64)):
        shape = q(k) / t
        psi = (-shape + mp.sqrt(shape**2 + 8 * shape)) / (4 * shape)
        out["kq_s2_T%d_k%d" % (t, k)] = mp.sqrt(q(v) * (1 + psi) * (1 + shape * psi) ** 2 / psi / k)
    out["sr_Sigma_width"] = 1 + q(3) / 400
    for layer in (1, 2, 3):
        s = 2 * layer
        edge = q(s + 1) ** (s + 1) / q(s) ** s
        out["fix_sr_Sigma_l%d" % layer], out["fix_sr_X_l%d" % layer] = (s + 1) / edge**2, 1 / edge
    out["grad_T"] = [q(10000), q(100)]
    out["shi_lambda_max"], out["shi_v"] = q(2), q("1.25") * q("1.5") / q("1.8")
    out["gate_fusion"] = q(1) / 6 + q(10) / 3 + q(100) / 2
    # kept kernels, shaped attention
    out["uspa_A"] = carried(kernel(4, lambda i, j: q(1) if i == j else q("0.2")), kernel(4, lambda i, j: q(1) if i == j else q("0.5")))
    out["espa_A"] = carried(kernel(4, lambda i, j: mp.e ** -abs(i - j)), kernel(4, lambda i, j: mp.e ** (-q("0.5") * abs(i - j))))
    out["espa_schedule"] = [-mp.log(1 - (1 - mp.e ** q("-0.01")) ** (q(k) / 4)) / 2 for k in range(1, 5)]
    out["shaped_drift_m2"] = [[q("0.08"), q("0.016")], [q("0.016"), q("0.08")]]
    out["shaped_diffusion"] = q("1.5")
    out["shaped_relu_nu"] = (mp.sqrt(1 - q("0.04")) - q("0.2") * mp.acos(q("0.2"))) / (2 * mp.pi)
    out["kappa_half"] = (mp.sqrt(q(3)) / 2 + (mp.pi - mp.pi / 3) / 2) / mp.pi
    annealed = lambda v: mp.e**v / (mp.e**v + 15)
    e = q("0.1")
    out["phi"] = annealed(1)
    out["cubic_step"] = e * (annealed(e) - annealed(e * (1 - e))) / (1 - e + e * annealed(e))
    out["cubic_small"] = q("0.25") * q("1e-18") * 15 / 256
    mp.mp.dps = 25
    return {name: as_floats(value) for name, value in out.items()}


def as_floats(value):
    return [as_floats(v) for v in value] if isinstance(value, list) else float(value)


def main():
    mp.mp.dps = 25
    write("vectors.json", vectors())
    write("moments.json", dict(rows=moments_golden(), cross=cross_golden()))
    write("theory.json", theory_golden())
    write("gram.json", gram_golden())
    write("maps.json", maps_golden())


if __name__ == "__main__":
    main()
