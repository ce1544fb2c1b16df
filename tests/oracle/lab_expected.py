#!/usr/bin/env python3
"""Numbers that the laboratory's claims expect and that no page prints: computed here, in Python, from the statements
alone.  Nothing reads this program's output; each line names the experiment in src/lab/ that holds its numbers
(those on skip strengths are lab_lambda.py's, lab_lambda_attention.py's and lab_lambda_figures.py's).
Needs mpmath, numpy and scipy (requirements.txt).  Run: python3 tests/oracle/lab_expected.py"""
import math

import mpmath as mp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import erf


def equiangular_ode():
    n, beta = 6, 2.0

    def slope(_, g):
        e = math.exp(beta * g[0])
        return [2 * e * (1 - g[0]) * ((n - 1) * g[0] + 1) / (math.exp(beta) + (n - 1) * e)]

    end = solve_ivp(slope, (0, 3), [0.0], rtol=1e-12, atol=1e-14).y[0, -1]
    print("equiangular-ode: cosine at depth 3 = %.9f" % end)
    # X <- rms(X + h P X) of equiangular rows: I + h P and the Gram matrix have the eigenvectors 1 and its complement
    for steps in (1000, 10000):
        g, h = 0.0, 1 / steps
        for _ in range(3 * steps):
            other = math.exp(beta * (g - 1))
            share = 1 / (1 + (n - 1) * other)
            along, across = (1 + h) ** 2 * (1 + (n - 1) * g), (1 + h * share * (1 - other)) ** 2 * (1 - g)
            g = (along - across) / (along + (n - 1) * across)
        print("equiangular-ode: cosine at depth 3 in %d steps a unit = %.12f" % (steps, g))


def ensemble(networks, layers, skip, n=32, d=32, heads=4):
    """log10 of relative residuals and of residuals by state of random attention networks, each [networks, layers + 1]."""
    random, width = np.random.default_rng(1), d // heads
    out = np.empty((2, networks, layers + 1))
    for b in range(networks):
        x = random.standard_normal((n, d))
        for state in range(layers + 1):
            rest = np.linalg.norm(x - x.mean(0))
            out[:, b, state] = np.log10(rest / np.linalg.norm(x)), np.log10(rest)
            wq, wk, wv, wo = (random.standard_normal((d, d)) / math.sqrt(d) for _ in range(4))
            mixed = np.empty((n, d))
            for h in range(heads):
                part = slice(h * width, (h + 1) * width)
                logits = (x @ wq[:, part]) @ (x @ wk[:, part]).T / math.sqrt(width)
                p = np.exp(logits - logits.max(1, keepdims=True))
                mixed[:, part] = p / p.sum(1, keepdims=True) @ (x @ wv[:, part])
            x = skip * x + mixed @ wo
    return out


def ensembles():
    for skip, layers in ((0, 3), (1, 12)):
        relative, residual = ensemble(4000, layers, skip)
        print("dong-ensemble: skip %d, medians" % skip, np.round(np.median(relative, 0), 5), "deviations", np.round(relative.std(0), 4))
        if skip == 0:
            fit = np.polyfit(residual[:, 2], residual[:, 3], 1)
            rest = residual[:, 3] - np.polyval(fit, residual[:, 2])
            print("dong-ensemble: slope %.4f, its error %.4f" % (fit[0], rest.std() / residual[:, 2].std() / math.sqrt(4000)))


def where_theorems_are_silent():
    """Why two figures have no published curve: what the theorems ask for, beside what the experiments have."""
    # lambda-skip, theorem 4.1: both its conditions for a rate a of 64 layers, C_M = sqrt(64) for attention, S = 1, tokens without a common part
    c, a = 8.0, 1 - np.logspace(-6, -0.01, 200000)
    p = a ** 64
    least = ((p * a + 1) * c + np.sqrt(((p * a + 1) * c) ** 2 + p ** 2 * a * (1 - a) * c * c)) / (p * (1 - a))
    print("lambda-attention: the theorem asks for a skip strength of %.0f at least" % least.min())
    # Dong et al. 2021, theorem 2.3: the bound falls where 4 beta H/sqrt(d_qk) |R|^2 < 1
    random, bases = np.random.default_rng(1), []
    for _ in range(100):
        x, beta = random.standard_normal((32, 32)), 0
        wq, wk, wv, wo = (random.standard_normal((32, 32)) / math.sqrt(32) for _ in range(4))
        for part in (slice(8 * h, 8 * h + 8) for h in range(4)):
            qk, both = wq[:, part] @ wk[:, part].T, wv[:, part] @ wo[part]
            beta = max(beta, np.linalg.norm(qk, 1) * math.sqrt(np.linalg.norm(both, 1) * np.linalg.norm(both, np.inf)))
        rest = x - x.mean(0)
        bases.append(4 * beta * 4 / math.sqrt(8) * np.linalg.norm(rest, 1) * np.linalg.norm(rest, np.inf))
    print("dong-ensemble: theorem 2.3 begins with %.2g to %.2g, median %.2g" % (min(bases), max(bases), np.median(bases)))


def masks(n):
    i, j = np.indices((n, n))
    return {
        "causal": j <= i,
        "sliding 4": (j <= i) & (i - j < 4),
        "sliding 2": (j <= i) & (i - j < 2),
        "band 4": abs(i - j) < 4,
        "band 2": abs(i - j) < 2,
    }


def reach(mask):
    """Least number of steps in which some token reaches all others, by powers of the graph."""
    n = len(mask)
    power = np.eye(n, dtype=bool)
    for steps in range(n):
        if power.all(axis=0).any():
            return steps
        power = (mask.astype(int) @ power.astype(int)) > 0
    return None


def variation(p):
    return max(abs(p[a] - p[b]).sum() / 2 for a in range(len(p)) for b in range(a))


def dobrushin_mask():
    n, layers = 16, 24
    for name, mask in masks(n).items():
        p = mask / mask.sum(1, keepdims=True)
        print("dobrushin-mask: %-9s reach %2d, tau(P^%d) of uniform attention = %.9g" %
              (name, reach(mask), layers, variation(np.linalg.matrix_power(p, layers))))


def dong_layernorm(draws=20000):
    """Six tokens of width 8 that differ by 1e-3: what the best affine map of each column leaves unexplained of
    LayerNorm's output, and how far the local law is from it."""
    tokens, width, rng = 6, 8, np.random.default_rng(7)
    shares, errors = [], []
    for _ in range(draws):
        x = rng.standard_normal(width) + 1e-3 * rng.standard_normal((tokens, width))
        normed = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        left = total = 0
        for k in range(width):
            a, b = x[:, k] - x[:, k].mean(), normed[:, k] - normed[:, k].mean()
            left += b @ b - (a @ b) ** 2 / (a @ a)
            total += b @ b
        shares.append(left / total)
        mean = x.mean(0)
        centred, scale = mean - mean.mean(), mean.std()
        r = (x - mean) - (x - mean).mean(1, keepdims=True)
        law = r / scale - np.outer(r @ centred, centred) / (width * scale ** 3)
        true = normed - centred / scale
        errors.append(np.linalg.norm(true - law) / np.linalg.norm(true))
    print("dong-layernorm: unexplained share: mean %.4f, standard deviation %.4f, least %.3f, largest %.3f" %
          (np.mean(shares), np.std(shares), min(shares), max(shares)))
    print("dong-layernorm: share between 0.16 and 0.26: %.3f; quartiles %.4f %.4f %.4f" %
          (np.mean([(0.16 <= s <= 0.26) for s in shares]), *np.percentile(shares, [25, 50, 75])))
    print("dong-layernorm: local law, relative error: median %.3e, mean of log10 %.4f, its deviation %.4f" %
          (np.median(errors), np.mean(np.log10(errors)), np.std(np.log10(errors))))


def generated(tag, count, scale):
    """scale (h/2^31 - 1), h a hash of (tag, index): the same doubles in any language."""
    out = []
    for k in range(count):
        h = ((k + 1) * 2654435761 + tag * 2246822519) % 2 ** 32
        h = (h ^ h >> 15) * 2246822519 % 2 ** 32
        h = (h ^ h >> 13) * 3266489917 % 2 ** 32
        out.append(scale * ((h ^ h >> 16) / 2 ** 31 - 1))
    return out


def dong_doubly_exponential():
    """Five tokens, four features, one head with biases, 34 layers without skip: X = 1x + R carried as x and R in 80
    digits (mpmath's exponents have no end), by the exact identity P_ij - p_j = p_j expm1(E_ij - c_i)."""
    n, d, layers = 5, 4, 34
    mp.mp.dps = 80

    def rows(numbers, cols):
        return [[mp.mpf(v) for v in numbers[i:i + cols]] for i in range(0, len(numbers), cols)]

    def times(a, w):
        return [[mp.fdot(row, column) for column in zip(*w)] for row in a]

    base, apart = generated(1, d, 1), generated(2, n * d, 0.5)
    tokens = rows([base[i % d] + apart[i] for i in range(n * d)], d)
    x = [mp.fsum(column) / n for column in zip(*tokens)]
    r = [[v - c for v, c in zip(row, x)] for row in tokens]
    for layer in range(layers + 1):
        largest = max(abs(v) for row in r for v in row)
        if layer in (1, 2, 4, 8, 16, 33, 34):
            print("dong-doubly-exponential: layer %2d, log10 max|R| = %s" % (layer, mp.nstr(mp.log10(largest), 20)))
        tag = 100 + 10 * layer
        size, apart = composite(mp.matrix(r)), diameter(mp.matrix(r))
        if layer == 3:
            print("dong-doubly-exponential: log10 of state 3 over the published bound %s, over the diameter theorem %s" %
                  (mp.nstr(mp.log10(size / published / (2 * (1 - mp.mpf(1) / n))), 14), mp.nstr(mp.log10(apart / certified), 14)))
        wq, wk = (rows(generated(tag + i, d * d, 2), d) for i in (0, 1))
        wv = rows(generated(tag + 2, d * d, 1), d)
        bq, bv = (rows(generated(tag + i, d, 0.5), d)[0] for i in (3, 4))
        if layer == 2:
            qk, both = mp.matrix(wq) * mp.matrix(wk).T / mp.sqrt(d), mp.matrix(wv)
            published = 4 * column_norm(qk) * composite(both) * size ** 3
            spectral = [max(mp.svd_r(m, compute_uv=False)) for m in (qk, both)]
            certified = spectral[1] * mp.tanh(spectral[0] * apart ** 2 / 4) * apart
        query = [a + b for a, b in zip(times([x], wq)[0], bq)]
        shared = [mp.fdot(row, query) / mp.sqrt(d) for row in times(r, wk)]
        weights = [mp.exp(v) for v in shared]
        p = [w / mp.fsum(weights) for w in weights]
        mean = [mp.fdot(p, column) for column in zip(*r)]
        keys = [[v - m for v, m in zip(row, mean)] for row in r]
        e = [[v / mp.sqrt(d) for v in row] for row in times(times(r, wq), list(zip(*times(keys, wk))))]
        values, after = times(keys, wv), []
        for row in e:
            c = mp.log1p(mp.fsum(a * mp.expm1(b) for a, b in zip(p, row)))
            moved = [a * mp.expm1(b - c) for a, b in zip(p, row)]
            after.append([mp.fdot(moved, column) for column in zip(*values)])
        x = [a + b for a, b in zip(times([[u + m for u, m in zip(x, mean)]], wv)[0], bv)]
        centre = [mp.fsum(column) / n for column in zip(*after)]
        x = [a + b for a, b in zip(x, centre)]
        r = [[v - m for v, m in zip(row, centre)] for row in after]


def column_norm(a):
    return max(mp.fsum(abs(a[i, j]) for i in range(a.rows)) for j in range(a.cols))


def row_norm(a):
    return column_norm(a.T)


def composite(a):
    return mp.sqrt(column_norm(a) * row_norm(a))


def diameter(a):
    return max(mp.norm(a[i, :] - a[k, :]) for i in range(a.rows) for k in range(i))


def growth(rho):
    return mp.expm1(rho) / rho + mp.expm1(2 * rho) / (2 * rho)


def hashed_layer(heads, n=4, d=3):
    """Ratios of one layer, all of whose numbers are a hash, to the bounds of docs/theory/collapse.md, 3, 4 and 8."""
    def numbers(tag, rows, cols, scale=1):
        return mp.matrix(rows, cols) + mp.matrix([generated(tag, rows * cols, scale)[i * cols:(i + 1) * cols] for i in range(rows)])

    r, mean, root = numbers(1, n, d, 0.8), numbers(2, 1, d), mp.sqrt(d)
    tokens = r + mp.ones(n, 1) * mean
    after, tracked, across = mp.zeros(n, d), mp.zeros(n, d), 0
    columns = rows = 0
    for h in range(heads):
        qk, w, g = numbers(10 + h, d, d), numbers(20 + h, d, d), numbers(30 + h, d, 1)
        e, shared = r * qk * r.T / root, r * g / root
        base = [mp.exp(v) for v in shared]
        base = mp.matrix([[v / mp.fsum(base) for v in base]])
        p = mp.zeros(n, n)
        for i in range(n):
            row = [mp.exp(shared[j] + e[i, j]) for j in range(n)]
            for j in range(n):
                p[i, j] = row[j] / mp.fsum(row)
        after += p * tokens * w
        tracked += (p - mp.ones(n, 1) * base) * r * w
        ranges = [max(e[i, :]) - min(e[i, :]) for i in range(n)]
        columns += growth(max(ranges)) * column_norm(qk) / root * column_norm(w)
        rows += column_norm(qk) / root * row_norm(w)
        spectral = [max(mp.svd_r(m, compute_uv=False)) for m in (qk, w)]
        across += spectral[1] * mp.tanh(spectral[0] * diameter(r) ** 2 / (4 * root)) * diameter(r)
    cubic = column_norm(qk) * composite(w) * composite(r) ** 3 / root
    q = column_norm(r) * row_norm(r)
    values = r * w
    signed = max((p * r)[i, k] - (1 + 2 * ranges[i]) * (base * r)[k] for i in range(n) for k in range(d)) / max(abs(v) for v in r)
    absolute = max(abs(((p - mp.ones(n, 1) * base) * values)[i, k]) / (2 * ranges[i] * mp.fsum(base[j] * abs(values[j, k]) for j in range(n)))
                   for i in range(n) for k in range(d))
    return {"SIGNED": signed, "ABSOLUTE": absolute,
            "GAMMA": composite(tracked) / (2 * mp.sqrt(mp.fsum(ranges) * max(ranges)) * composite(w) * composite(r)),
            "PAPER": composite(tracked) / (4 * cubic),
            "REPAIRED": composite(tracked) / (mp.sqrt(growth(max(ranges))) * cubic),
            "HEADS": column_norm(tracked) * row_norm(tracked) / (columns * rows * q ** 3),
            "DIAMETER": diameter(after) / across}, max(ranges)


def no_range(n):
    """R = I, half of the n rows lift a token of their own by ln 6(n - 1), p_1 = 1/2 (docs/theory/collapse.md, 3)."""
    lift, first, other = mp.log(6 * (n - 1)), mp.mpf(1) / 2, mp.mpf(1) / 2 / (n - 1)
    z = 1 + mp.expm1(lift) * other
    own = other * mp.exp(lift) / z
    first_moves, other_moves = first - first / z, other - other / z
    column = mp.mpf(n) / 2 * first_moves
    return mp.sqrt(column * (first_moves + (n - 2) * other_moves + own - other) / 2) / (4 * lift)


def two_heads(m, eps=mp.mpf(1) / 1000):
    """Tokens +-eps, W_QK = 1, W_1 = 1_m/sqrt(m), W_2 = e_1 (docs/theory/collapse.md, 4)."""
    moved = eps * mp.tanh(eps * eps)
    rows, columns = moved * (1 + mp.sqrt(m)), 2 * moved * (1 + 1 / mp.sqrt(m))
    return mp.sqrt(rows * columns) / (8 * (mp.sqrt(2) * eps) ** 3)


def dong_bounds():
    mp.mp.dps = 40
    for heads in (1, 2):
        ratios, largest = hashed_layer(heads)
        for name in ("SIGNED", "ABSOLUTE", "GAMMA", "PAPER", "REPAIRED") if heads == 1 else ("HEADS", "DIAMETER"):
            print("dong-bounds: layer from a hash, %d heads, largest change %s: %s %s" % (heads, mp.nstr(largest, 4), name, mp.nstr(ratios[name], 13)))
    print("dong-bounds: sqrt(K(1.256)) %s, range at which sqrt(K) is 4 %s" %
          (mp.nstr(mp.sqrt(growth(mp.mpf("1.256"))), 13), mp.nstr(mp.findroot(lambda x: growth(x) - 16, 2), 13)))
    for n in (256, 4096, 16384):
        print("dong-bounds: %d tokens, range not limited %s" % (n, mp.nstr(no_range(n), 13)))
    for m in (256, 10 ** 4, 10 ** 6, 10 ** 8):
        print("dong-bounds: two heads, %d features %s" % (m, mp.nstr(two_heads(m), 13)))


def proof_lines(n=4, d=3):
    """Left over right side of every line of the proof (docs/perturbation.md, 7) in both norms, repaired where it has a
    repair: for the layer from a hash, and for the 40 tokens of docs/theory/corrections.md, 10, about their mean."""
    from make_steps_golden import lines
    flat = lambda tag, count, scale=1: [float(v) for v in generated(tag, count, scale)]
    residual, mean, qk, w, g = flat(1, n * d, 0.8), flat(2, d), flat(10, d * d), flat(20, d * d), flat(30, d)
    bias = [g[k] - sum(qk[j * d + k] * mean[j] for j in range(d)) for k in range(d)]
    turned = lambda a: [[a[c * d + u] for c in range(d)] for u in range(d)]
    unit = lambda m: [[float(i == j) for j in range(m)] for i in range(m)]
    head = {"x": [[residual[i * d + k] + mean[k] for k in range(d)] for i in range(n)], "q": turned(qk), "k": unit(d), "v": turned(w), "o": None,
            "bias": bias, "scale": 1 / math.sqrt(d), "causal": 0, "window": 0}
    for line, rows in lines(head).items():
        for norm, (left, right, repaired) in rows.items():
            if norm != "entry":
                print("dong-perturbation-lemma: layer from a hash, %s %s: %s %s" % (
                    line, norm, mp.nstr(left / right, 13), "" if repaired is None else mp.nstr(left / repaired, 13)))
    m = 40
    chain = [[0.0] * m for _ in range(m)]
    chain[0][0], chain[1][0] = 1.0, -1.0
    for i in range(1, m - 1):
        chain[i + 1][i] = 1.0
    head = {"x": unit(m), "q": chain, "k": unit(m), "v": unit(m), "o": None, "bias": [0.0] * m, "scale": 1.0, "causal": 0, "window": 0}
    rows = lines(head)
    for line, norm in (("ranges", "one"), ("gamma", "both")):
        print("dong-perturbation-lemma: 40 tokens, %s %s: %s" % (line, norm, mp.nstr(rows[line][norm][0] / rows[line][norm][1], 13)))


def hashed(tag, shape):
    """rs_lab_hash of src/lab/toy_matrix.c as numbers in [-1, 1)."""
    out = np.empty(int(np.prod(shape)))
    for k in range(out.size):
        h = ((k + 1) * 2654435761 + tag * 2246822519) & 0xFFFFFFFF
        for shift, factor in ((15, 2246822519), (13, 3266489917), (16, 1)):
            h = ((h ^ h >> shift) * factor) & 0xFFFFFFFF
        out[k] = h / 2147483648 - 1
    return out.reshape(shape)


def graphs(n=12):
    """The graphs of graph-oversmoothing: with loops but for the last."""
    ring = np.zeros((n, n))
    for i in range(n):
        ring[i, (i + 1) % n] = ring[(i + 1) % n, i] = 1
    chords = ring.copy()
    for i, j in ((0, 4), (2, 9), (5, 11)):
        chords[i, j] = chords[j, i] = 1
    star = np.zeros((n, n))
    star[0, 1:] = star[1:, 0] = 1
    cliques = np.zeros((n, n))
    cliques[:6, :6] = cliques[6:, 6:] = 1
    cliques[5, 6] = cliques[6, 5] = 1
    random = np.triu(hashed(60, (n, n)) < -0.4, 1).astype(float)
    random += random.T
    eye = np.eye(n)
    return (("ring with chords", chords + eye), ("star", star + eye), ("two cliques", np.maximum(cliques, eye)), ("random", random + eye), ("ring without loops", ring))


def graph_oversmoothing(layers=30):
    x0 = hashed(61, (12, 5))
    for name, a in graphs():
        u = np.sqrt(a.sum(1))
        m = a / np.outer(u, u)
        w = np.sort(np.linalg.eigvalsh(m))
        rate = max(w[-2], -w[0])

        def run(matrix, skip):
            x, rests = x0.copy(), []
            for _ in range(layers + 1):
                rests.append((np.linalg.norm(x - np.outer(u, u @ x) / (u @ u)), np.linalg.norm(x - x.mean(0)), np.linalg.norm(x)))
                x = skip * x + matrix @ x
            return np.array(rests)
        plain, skipped, walk = run(m, 0), run(m, 1), run(a / a.sum(1)[:, None], 0)
        away = run(m, -1)
        print("graph-oversmoothing: %-20s lambda %.15f, fall of the last layer %.15f, log10 about u %.12f, about the mean %.15f (limit %.15f), "
              "skip 1 log10 about u %.12f, skip -1 about u %.15f, row form log10 about the mean %.12f" %
              (name, rate, plain[-1, 0] / plain[-2, 0], math.log10(plain[-1, 0] / plain[-1, 2]), plain[-1, 1] / plain[-1, 2],
               np.linalg.norm(u - u.mean()) / np.linalg.norm(u), math.log10(skipped[-1, 0] / skipped[-1, 2]), away[-1, 0] / away[-1, 2],
               math.log10(walk[-1, 1] / walk[-1, 2])))


def three_numbers(y):
    """mu/|Y|, mu(rn(Y))/sqrt(N) and the rank-1 residual of an mpmath matrix."""
    n, d = y.rows, y.cols

    def spread(z):
        means = [mp.fsum(z[i, k] for i in range(n)) / n for k in range(d)]
        return mp.sqrt(mp.fsum((z[i, k] - means[k]) ** 2 for i in range(n) for k in range(d)))
    units = mp.matrix(n, d)
    for i in range(n):
        length = mp.sqrt(mp.fsum(y[i, k] ** 2 for k in range(d)))
        for k in range(d):
            units[i, k] = y[i, k] / length
    s = sorted((abs(v) for v in mp.svd_r(y, compute_uv=False)), reverse=True)
    total = mp.sqrt(mp.fsum(v ** 2 for v in s))
    return spread(y) / total, spread(units) / mp.sqrt(n), mp.sqrt(mp.fsum(v ** 2 for v in s[1:])) / total


def ssm_rank_one_without_mu():
    mp.mp.dps = 60
    n, d, decay = 4, 3, mp.mpf("0.7")
    y0 = mp.matrix((np.abs(hashed(62, (n, d))) + 0.1).tolist())
    for layers in (10, 50, 200):
        # M = (I - 0.7 S)^-1, S the shift: M^K = sum_m binomial(K + m - 1, m) 0.7^m S^m
        power = mp.matrix(n, n)
        for i in range(n):
            for j in range(i + 1):
                power[i, j] = mp.binomial(layers + i - j - 1, i - j) * decay ** (i - j)
        print("ssm-rank-one-without-mu: K = %d: mu/|Y| %s, mu(rn(Y))/sqrt(N) %s, rank-1 residual %s" %
              ((layers,) + tuple(mp.nstr(v, 15) for v in three_numbers(power * y0))))
    print("ssm-rank-one-without-mu: limit sqrt(1 - 1/N) %s, rate with norms 1/(1 + 0.7) %s" % (mp.nstr(mp.sqrt(1 - mp.mpf(1) / n), 15), mp.nstr(1 / (1 + decay), 15)))


def one_layer_collapse():
    mp.mp.dps = 50
    w = mp.matrix([[0, 1, 0], [-1, 0, 0], [0, 0, mp.mpf(1) / 2]])
    u = mp.matrix([[mp.mpf(6) / 10, 0, mp.mpf(8) / 10]])

    def rows(z, eps):
        out = mp.matrix(z.rows, 3)
        for i in range(z.rows):
            size = mp.sqrt(mp.fsum(z[i, k] ** 2 for k in range(3)) / 3 + eps)
            for k in range(3):
                out[i, k] = z[i, k] / size
        return out

    def mu(y):
        return mp.sqrt(mp.fsum((y[0, k] - y[1, k]) ** 2 for k in range(3)) / 2)
    for skip in (4, 64, 1024):
        y = mp.matrix(2, 3)
        for i, m in enumerate((1, -1)):
            row = u * (skip * mp.eye(3) + m * w) ** -1
            for k in range(3):
                y[i, k] = row[0, k]
        y = rows(y, 0)
        after = mp.matrix(2, 3)
        for i, m in enumerate((1, -1)):
            row = skip * y[i, :] + m * (y[i, :] * w)
            for k in range(3):
                after[i, k] = row[0, k]
        same = rows(skip * y + y * w, 0)
        c = max(mp.sqrt(mp.fsum((y[i, :] * w)[0, k] ** 2 for k in range(3)) / 3) for i in range(2))
        kappa = 2 * mp.sin(mp.asin(c / skip) / 2)
        print("one-layer-collapse: skip %d: mu before %s, after with eps 0 %s, with eps 1e-5 %s, with M = I %s, theorem A at least %s" %
              (skip, mp.nstr(mu(y), 15), mp.nstr(mu(rows(after, 0)), 5), mp.nstr(mu(rows(after, mp.mpf(10) ** -5)), 15), mp.nstr(mu(same), 15),
               mp.nstr(mu(y) - kappa * mp.sqrt(6), 15)))


def ssm_homogeneity(layers=4):
    mp.mp.dps = 60
    n, d, decay = 6, 4, mp.mpf("0.9")
    for scale in (1, 10):
        y = mp.matrix((hashed(63, (n, d)) / 5).tolist()) * scale
        for k in range(layers + 1):
            relative, units, rest = three_numbers(y)
            size = mp.sqrt(mp.fsum(y[i, c] ** 2 for i in range(n) for c in range(d)))
            print("ssm-homogeneity: scale %d, state %d: log10 |Y| %s, mu/|Y| %s, mu(rn(Y))/sqrt(N) %s, rank-1 residual %s" %
                  (scale, k, mp.nstr(mp.log10(size), 15), mp.nstr(relative, 15), mp.nstr(units, 15), mp.nstr(rest, 15)))
            gram = y * y.T
            for i in range(n):
                for j in range(n):
                    gram[i, j] = gram[i, j] * decay ** (i - j) if j <= i else 0
            y = gram * y


def lrp_network(layers, skip, post, act, held, biases):
    """f(x, row) of the networks of lrp-conservation; complex steps may move x. held: what is constant, of P, L(N) and A(ctivation):
    as it was at the first call."""
    n, d, heads, width = 7, 16, 4, 4
    weights = [[hashed(2000 + 20 * l + i, shape) * (math.sqrt(3 / shape[0]) * (2 if i == 0 else 1))
                for i, shape in enumerate(((d, d), (d, d), (d, d), (d, d), (d, 2 * d), (2 * d, d)))] for l in range(layers)]
    offsets = [[hashed(2010 + 20 * l + i, (2 * d if i == 4 else d,)) / 2 * biases for i in range(6)] for l in range(layers)]
    frozen = {}

    def hold(kind, key, number):
        return frozen.setdefault(key, number) if kind in held else number

    def norm(x, key):
        x = x - x.mean(-1, keepdims=True)
        return x / hold("L", key, np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5))

    def forward(x, row):
        for l, (q, k, v, o, w1, w2) in enumerate(weights):
            b = offsets[l]
            z = x if post else norm(x, (l, "a"))
            mixed = np.zeros((n, d), dtype=x.dtype)
            for h in range(heads):
                part = slice(h * width, (h + 1) * width)
                logits = (z @ q[:, part]) @ (z @ k[:, part]).T / math.sqrt(width)
                p = np.exp(logits - logits.real.max(1, keepdims=True))
                p = hold("P", (l, h), p / p.sum(1, keepdims=True))
                mixed[:, part] = p @ (z @ v[:, part] + b[2][part])
            x = skip * x + mixed @ o + b[3]
            x = norm(x, (l, "b")) if post else x
            z = x if post else norm(x, (l, "c"))
            a = z @ w1 + b[4]
            if act == "relu":
                g = a * (a.real > 0)
            else:
                phi = 0.5 * (1 + erf(a / math.sqrt(2)))
                g = a * hold("A", (l, "g"), phi)
            x = skip * x + g @ w2 + b[5]
            x = norm(x, (l, "d")) if post else x
        return (x if post else norm(x, "final"))[row] @ (hashed(1980, (d,)) * math.sqrt(3))

    return forward


def lrp_gradient(layers, tokens=0, skip=1, post=True, act="relu", held="PLA", row=0, biases=0):
    """f, its gradient by complex steps, and the tokens."""
    forward = lrp_network(layers, skip, post, act, held, biases)
    x = hashed(1990 + tokens, (7, 16)) * math.sqrt(3)
    f = forward(x, row)
    g = np.zeros_like(x)
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            moved = x.astype(complex)
            moved[i, c] += 1e-30j
            g[i, c] = forward(moved, row).imag / 1e-30
    return f, g, x


def lrp_conservation():
    for post in (True, False):
        for layers in (1, 2, 4, 8):
            row = []
            for held in ("A", "PA", "LA", "PLA"):
                f, g, x = lrp_gradient(layers, post=post, held=held)
                row.append((g * x).sum() / f)
            print("lrp-conservation: %s-LN, %d layers: f %.12g; sum R / f plain %.12g, P held %.6g, LN held %.12g, both 1%+.1e" %
                  ("post" if post else "pre", layers, f, row[0], row[1], row[2], row[3] - 1))
    for held in ("PL", "PLA"):
        f, g, x = lrp_gradient(4, act="gelu", held=held)
        print("lrp-conservation: GELU, held %s: %.12g" % (held, (g * x).sum() / f))
    f, g, x = lrp_gradient(4, biases=1)
    print("lrp-conservation: share of biases %.12g" % (1 - (g * x).sum() / f))
    for skip in (0.0, 1.0):
        for layers in (1, 2, 4, 8):
            tokens, cosines = [], []
            for draw in range(20):
                f, g, x = lrp_gradient(layers, draw, skip)
                size = np.linalg.norm(g, axis=1)
                tokens.append(size.sum() ** 2 / (size ** 2).sum())
                other = (lrp_gradient(layers, draw, skip, row=6)[1] * x).sum(1)
                own = (g * x).sum(1)
                cosines.append(own @ other / np.linalg.norm(own) / np.linalg.norm(other))
            print("lrp-conservation: skip %g, %d layers: effective tokens %.10f, cosine of profiles %.10f" %
                  (skip, layers, np.mean(tokens), np.mean(cosines)))


if __name__ == "__main__":
    equiangular_ode()
    dobrushin_mask()
    dong_layernorm()
    dong_doubly_exponential()
    dong_bounds()
    proof_lines()
    ensembles()
    where_theorems_are_silent()
    graph_oversmoothing()
    ssm_rank_one_without_mu()
    one_layer_collapse()
    ssm_homogeneity()
    lrp_conservation()
