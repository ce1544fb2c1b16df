#!/usr/bin/env python3
"""What the claims of the experiments on signal propagation expect: means over draws and their standard errors, as C initialisers.

    python3 tests/oracle/lab_signals.py EXPERIMENT ...

NumPy and PyTorch alone, random numbers of their own, matrices formed whole, gradients by autograd in float64, laws written down again from
the papers and from docs/theory/mean_field.md; nothing is read from the program. A row of the output is a row of the array `awaited` of the
experiment's file in src/lab/, in the order of its enumeration."""
import math
import re
import sys

import numpy as np
import torch

torch.set_num_threads(1)


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def show(name, table):
    """table: {(row ...): [value per draw]} or nested lists of lists of draws."""
    def cell(values):
        values = np.asarray(values, float)
        return "{%.6g, %.2g}" % (values.mean(), values.std(ddof=1) / math.sqrt(len(values)))
    print("/* %s */" % name)
    for row in table:
        print("    {" + ", ".join(cell(v) for v in row) + "},")


def over_draws(draws, one, rows, seed):
    """table[row][cell][draw] of one(rng) -> [rows][cells]."""
    rng = np.random.default_rng(seed)
    all_draws = [one(rng) for _ in range(draws)]
    return [[[d[r][c] for d in all_draws] for c in range(len(all_draws[0][r]))] for r in range(rows)]


# ---- gaps in width ----

def ranks(x):
    s = np.linalg.svd(x, compute_uv=False) / np.linalg.norm(x, 2)
    return (s ** 2).sum(), (s ** 4).sum()


def gap_width_collapse():
    sizes, v = (32, 64, 128, 256), math.log(2)
    sigma2 = math.exp(v) - 1

    def markov(rng, n):
        return softmax(rng.standard_normal((n, n)) * math.sqrt(v))

    def one(rng):
        out = []
        for n in sizes:
            a = markov(rng, n)
            s = np.linalg.svd(a, compute_uv=False)
            second = np.sort(np.abs(np.linalg.eigvals(a)))[-2]
            row = [(s[0] ** 2 - 1) / (sigma2 / n), s[1] / (2 * math.sqrt(sigma2 / n)), second / math.sqrt(sigma2 / n), (s ** 2).sum() / s[0] ** 2 / (1 + sigma2)]
            x = a @ rng.standard_normal((n, n))
            rank, gram = ranks(x)
            row += [rank / (1 + sigma2), (gram - 1) / (3 * sigma2 ** 2 / n)]
            row.append((ranks(markov(rng, n) @ x @ rng.standard_normal((n, n)))[1] - 1) / (5 * sigma2 ** 4 / n ** 3))
            x = (markov(rng, n) - 1 / n) @ rng.standard_normal((n, n))
            rank, gram = ranks(x)
            fuss = lambda k, p: n * k ** (p * k) / (k + 1) ** (p * k + 1)
            row += [rank / fuss(2, 1), gram / fuss(2, 2), ranks((markov(rng, n) - 1 / n) @ x @ rng.standard_normal((n, n)))[1] / fuss(4, 2)]
            row.append((np.linalg.norm(markov(rng, n) @ markov(rng, n)) * np.linalg.norm(rng.standard_normal((n, n))) / n) ** 2)
            out.append(row)
        return out

    show("gap-width-collapse", over_draws(120, one, len(sizes), 1))


def gap_fixed_dk():
    sizes, widths, variances = (64, 128, 256), (None, 64, 16), (.01, .25)

    def attention(rng, n, k, v):
        return softmax(rng.standard_normal((n, k)) @ rng.standard_normal((k, n)) * math.sqrt(v / k))

    def edge(lam):
        psi = (-lam + math.sqrt(lam * lam + 8 * lam)) / (4 * lam)
        return (1 + psi) * (1 + lam * psi) ** 2 / psi

    def one(rng):
        rows, logs = [], {}
        for n in sizes:
            row = []
            for v in variances:
                for k in widths:
                    k_ = k or n
                    s = math.sqrt(np.linalg.eigvalsh((lambda a: a @ a.T)(attention(rng, n, k_, v)))[-2])
                    row.append(s / math.sqrt(v * edge(k_ / n) / k_))
                    logs[n, v, k] = math.log(s)
            a = attention(rng, n, n, 1 / n ** 2) - 1 / n
            s2 = np.linalg.eigvalsh((lambda x: x @ x.T)(a @ rng.standard_normal((n, n))))
            row.append((s2 ** 2).sum() / s2[-1] ** 2 / (n * 3 ** 6 / 4 ** 7))
            rows.append(row)
        return rows + [[(logs[256, v, k] - logs[64, v, k]) / math.log(4) for v in variances for k in widths]]

    found = over_draws(100, one, 4, 2)
    show("gap-fixed-dk", found[:3])
    show("gap-fixed-dk: slopes", found[3:])
    sigma2 = math.exp(.25) - 1
    print("// law of keys over that of independent entries: %.9g" % (math.sqrt(.25 * edge(16 / 256) / 16) / (2 * math.sqrt(sigma2 / 256))))


def generated(tag, count, scale):
    """the hash of src/lab/toy_matrix.c"""
    out = []
    for k in range(count):
        h = ((k + 1) * 2654435761 + tag * 2246822519) % 2 ** 32
        h = (h ^ h >> 15) * 2246822519 % 2 ** 32
        h = (h ^ h >> 13) * 3266489917 % 2 ** 32
        out.append(scale * ((h ^ h >> 16) / 2 ** 31 - 1))
    return np.array(out)


def centred_identities():
    n, width, tag = 12, 20, 3000
    j, eye = np.full((n, n), 1 / n), np.eye(n)
    a = [softmax(generated(tag + l, n * n, 4).reshape(n, n)) for l in range(16)]

    def difference(m, less):
        """of the sums of powers of eigenvalues"""
        before, after = np.linalg.eigvals(m), np.linalg.eigvals(m - less)
        return [((after ** k).sum() - (before ** k).sum() + 1).real for k in range(1, n + 1)]

    i = np.arange(n)
    edges = (abs(i[:, None] - i) <= 1) | (abs(i[:, None] - i) == n - 1) | (np.outer(i, i) == 8)
    root = np.sqrt(edges.sum(1))
    s = edges / np.outer(root, root)
    low = np.tril(a[0]) / np.tril(a[0]).sum(1, keepdims=True)
    causal = np.tril(np.ones((n, n))) / (i + 1)[:, None]
    print("// symmetric, 11'/T: %.10f; uu' %.1g" % (max(map(abs, difference(s, j))), max(map(abs, difference(s, np.outer(root, root) / edges.sum())))))
    print("// causal: %.10f" % difference(low, causal)[1])
    for skip in (0, 1):
        for c in (0, 1):
            x = generated(tag + 101, n * width, 1).reshape(n, width)
            for m in a[:8]:
                x = skip * x + (m - c * j) @ x
            u = x / np.linalg.norm(x, axis=1, keepdims=True)
            print("// skip %d, centred %d: relative %.12g, cosine %.12g" % (skip, c, np.linalg.norm(x - x.mean(0)) / np.linalg.norm(x), ((u @ u.T).sum() - n) / (n * (n - 1))))


def softmax_moment():
    pairs = ((1, 16), (2.7, 64), (4, 256), (9, 1024), (3.4657359, 1024), (6.9314718, 1024))

    def moment(c, n, k):
        """n/Gamma(k) int t^(k-1) E[e^(km - t e^m)] (E e^(-t e^m))^(n-1) dt, t = e^u, m ~ N(0, c) by a fine mesh"""
        z = np.linspace(-12, 12, 6001)
        p = np.exp(-z * z / 2)
        p /= p.sum()
        u = np.linspace(-math.log(n) - 12 * math.sqrt(c) - 40, 12 * math.sqrt(c) + 8, 6001)
        total = np.empty_like(u)
        for i, v in enumerate(u):
            a = np.clip(math.sqrt(c) * z + v, -745, 60)
            e = np.exp(-np.exp(a))
            total[i] = (np.exp(k * a) * e @ p) * (e @ p) ** (n - 1)
        return n / math.gamma(k) * total.sum() * (u[1] - u[0])

    for c, n in pairs:
        m2, m3 = moment(c, n, 2), moment(c, n, 3)
        print("    {%.13g, %.13g, %.13g, %.13g}," % (m2, m3, math.log((n - 1) * m2 / (1 - m2)), 1 / (1 + (n - 1) * math.exp(-c)) / m2))
    # cross moment: n int int E[e^(m + m') e^(-s e^m - t e^m')] (E e^(...))^(n-1) ds dt
    c, n, r = 2.7, 64, .5
    z = np.linspace(-8.5, 8.5, 171)
    p = np.exp(-z * z / 2)
    p /= p.sum()
    u = np.linspace(-math.log(n) - 9 * math.sqrt(c) - 20, 9 * math.sqrt(c) + 6, 321)
    # m = sqrt(c) (sqrt r a + sqrt(1-r) b): given the common part a both rows are independent
    g0, g1 = np.empty((len(u), len(z))), np.empty((len(u), len(z)))
    for i, v in enumerate(u):
        a = np.clip(math.sqrt(c) * (math.sqrt(r) * z[:, None] + math.sqrt(1 - r) * z[None]) + v, -745, 60)
        e = np.exp(-np.exp(a))
        g0[i], g1[i] = e @ p, (np.exp(a) * e) @ p
    both0, both1 = (g0 * p) @ g0.T, (g1 * p) @ g1.T
    print("// cross %.10g" % (n * (both1 * both0 ** (n - 1)).sum() * (u[1] - u[0]) ** 2))

    q, p_, s2, n = 1., 0., 9., 64
    phi = lambda x: 1 / (1 + (n - 1) * math.exp(-x))
    for _ in range(8):
        rho = p_ / q
        q, p_ = q + rho + (1 - rho) * phi(s2 * (1 - rho)), p_ + rho + (1 - rho) * phi(s2 * rho * (1 - rho))
        k = p_ / q
        q, p_ = q + 1, p_ + (math.sqrt(1 - k * k) + k * (math.pi - math.acos(k))) / math.pi
    print("// annealed rho %.12g" % (p_ / q))

    def one(rng):
        n = d = 64
        x = rng.standard_normal((n, d))
        norm = lambda y: (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5)
        for _ in range(8):
            q, k, v = (norm(x) @ rng.standard_normal((d, d)) / math.sqrt(d) for _ in range(3))
            x = x + softmax(3 * q @ k.T / math.sqrt(d)) @ v
            x = x + np.maximum(norm(x) @ rng.standard_normal((d, 4 * d)) * math.sqrt(2 / d), 0) @ rng.standard_normal((4 * d, d)) / math.sqrt(4 * d)
        return [[((x.sum(0) ** 2).sum() / (x * x).sum() - 1) / (n - 1)]]

    show("softmax-moment: rho_awaited", over_draws(400, one, 1, 5))


def espa():
    n, depth = 12, 8
    i = np.arange(n)
    uspa = lambda r, m=n: (1 - r) * np.eye(m) + r
    kernel = lambda g, m=n: np.eye(m) if g == math.inf else np.exp(-g * abs(np.arange(m)[:, None] - np.arange(m)))

    def rates(layers, last):
        a = math.sqrt(1 - math.exp(-2 * last))
        return [math.inf] + [-.5 * math.log(1 - a ** (2 * l / layers)) for l in range(1, layers + 1)]

    def cosine(s):
        c = s / np.sqrt(np.outer(s.diagonal(), s.diagonal()))
        return (c.sum() - len(s)) / (len(s) * (len(s) - 1))

    low = np.tril(np.ones((n, n))) / (i + 1)[:, None]
    found = [cosine(uspa(.8)), cosine(kernel(.05))]
    for m in (low, .9 * np.eye(n) + .1 * low):
        p = np.linalg.matrix_power(m, depth)
        found.append(cosine(p @ p.T))
    print("// cosines " + ", ".join("%.14g" % x for x in found))
    chol = np.linalg.cholesky
    print("// reversed %.14g, %.14g" % ((chol(uspa(.2, 8)) @ np.linalg.inv(chol(uspa(.5, 8)))).min(), (chol(kernel(1, 8)) @ np.linalg.inv(chol(kernel(.5, 8)))).min()))
    n, layers = 64, 12
    g, total = rates(layers, .005), np.eye(64)
    for l in range(1, layers + 1):
        a = chol(kernel(g[l], n)) @ np.linalg.inv(chol(kernel(g[l - 1], n)))
        sums = a.sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            b = np.where(np.tril(np.ones((n, n))) > 0, np.log(np.where(a > 0, a, 1) / sums[None, :]), -np.inf)
        total = sums[:, None] * softmax(b) @ total
    print("// columns %.12g" % abs((total @ total.T).diagonal() - 1).max())


def oversmoothing_bound():
    n, d, heads = 16, 64, 4
    hd = d // heads
    p = np.eye(n) - 1 / n

    def norm(z):
        s = z.std(1)
        return (z - z.mean(1, keepdims=True)) / s[:, None], s.min()

    def one(rng):
        rows = []
        for w in (.02, .125):
            h, row = rng.standard_normal((n, d)), []
            for layer in range(6):
                z, lam, sv = h.copy(), [], []
                for _ in range(heads):
                    q, k, v = (rng.standard_normal((d, hd)) * w for _ in range(3))
                    o = rng.standard_normal((hd, d)) * w
                    a = softmax(h @ q @ (h @ k).T / math.sqrt(hd))
                    z += a @ h @ v @ o
                    lam.append(np.linalg.norm(p @ a, 2))
                    sv.append(np.linalg.norm(v @ o, 2))
                z, s1 = norm(z)
                up, down = rng.standard_normal((d, 4 * d)) * w, rng.standard_normal((4 * d, d)) * w
                y, s2 = norm(z + np.maximum(z @ up, 0) @ down)
                u, t = np.linalg.norm(up, 2), np.linalg.norm(down, 2)
                s = max(sv + [u, t])
                tight = (1 + u * t) * (1 + sum(a * b for a, b in zip(lam, sv))) / (s1 * s2)
                if layer in (0, 5):
                    row += [np.linalg.norm(p @ y) / np.linalg.norm(p @ h), tight, (1 + s * s) * (1 + max(lam) * heads * s) / (s1 * s2)]
                h = y
            rows.append(row)
        return rows

    show("oversmoothing-bound", over_draws(100, one, 2, 6))


def shaped_sde():
    g2, tau0 = .5, 1.
    v0 = np.full((4, 4), .2) + .8 * np.eye(4)
    v0[0, 1] = v0[1, 0] = .6
    v0[2, 2] = 1.5
    pair = np.array([[1, .2], [.2, 1]])

    def drift(v):
        """of v [..., m, m], derived anew (docs/theory/mean_field.md, 10)"""
        m = v.shape[-1]
        mean, all_ = v.mean(-1), v.mean((-1, -2))[..., None]
        diag = np.diagonal(v, axis1=-2, axis2=-1)
        inner = v - mean[..., :, None] - mean[..., None, :] + all_[..., None]
        first = (v * inner).sum((-1, -2))[..., None, None] / m ** 2
        s = .5 * (diag - 2 * mean + 2 * all_ - diag.mean(-1)[..., None])
        t = (v @ s[..., None])[..., 0] / m
        return g2 / tau0 ** 2 * (v * first + diag[..., :, None] * t[..., None, :] + t[..., :, None] * diag[..., None, :])

    def attention(y):
        m = y.shape[-1]
        return np.eye(m) + softmax(y) - 1 / m

    rng, n, root = np.random.default_rng(3), 128, np.linalg.cholesky(v0)
    found = []
    for _ in range(60):
        g, h = rng.standard_normal((2, 2000, 4, n))
        y = root @ g @ h.swapaxes(1, 2) @ root.T / (tau0 * n)
        step = np.mean([n * (g2 * (attention(s * y) @ v0 @ attention(s * y).swapaxes(1, 2) - v0)).mean(0) for s in (1, -1)], 0) / drift(v0)
        found.append([step[0, 0], step[0, 1], step[2, 2], step[2, 3]])
    show("shaped-sde", [list(zip(*found))])

    def paths(v, count, time, steps):
        """Euler's steps of dV = b dt + noise; V' = L (I + noise) L' has the noise's covariance"""
        m, dt = len(v), time / steps
        v = np.repeat(v[None], count, 0)
        alive = np.ones(count, bool)
        for _ in range(steps):
            low = np.linalg.cholesky(v[alive])
            g = rng.standard_normal((alive.sum(), m, m))
            z = (g + g.swapaxes(1, 2)) / math.sqrt(2)  # Cov Z_ab Z_cd = d_ac d_bd + d_ad d_bc
            new = v[alive] + drift(v[alive]) * dt + math.sqrt(g2 * (2 - g2) * dt) * low @ z @ low.swapaxes(1, 2)
            good = (abs(new).max((1, 2)) < 50) & (np.linalg.eigvalsh(new)[:, 0] > 0)
            v[alive] = new
            alive[alive] = good
        return v[alive], 1 - alive.mean()

    def networks(count, n, depth):
        """of tokens of width n: only V and the first m columns of W_V's Gaussian matter"""
        v = np.repeat(pair[None], count, 0)
        for _ in range(depth):
            low = np.linalg.cholesky(v)
            g, h = rng.standard_normal((2, count, 2, n))
            a = attention(low @ g @ h.swapaxes(1, 2) @ low.swapaxes(1, 2) / (tau0 * n)) @ low
            w = rng.standard_normal((count, 2, n))
            cross = math.sqrt((1 - g2) * g2 / n) * a @ w[:, :, :2] @ low.swapaxes(1, 2)
            v = (1 - g2) * v + cross + cross.swapaxes(1, 2) + g2 / n * a @ w @ w.swapaxes(1, 2) @ a.swapaxes(1, 2)
        return v

    def median(x):
        x = np.sort(x)
        n, r = len(x), int(math.sqrt(len(x)) / 2)
        return np.median(x), (x[n // 2 + r] - x[n // 2 - r]) / 2

    nets = networks(30000, 64, 32)
    sde, _ = paths(pair, 40000, .5, 400)
    rho = nets[:, 0, 1] / np.sqrt(nets[:, 0, 0] * nets[:, 1, 1])
    mean = lambda x: (x.mean(), x.std() / math.sqrt(len(x)))
    ratio = lambda a, b: (a[0] / b[0], a[0] / b[0] * math.hypot(a[1] / a[0], b[1] / b[0]))
    _, lost = paths(v0, 40000, .5, 400)
    row = [mean(np.log(nets[:, 0, 0])), mean(rho), ratio(median(nets[:, 0, 0]), median(sde[:, 0, 0])), (lost, math.sqrt(lost * (1 - lost) / 40000))]
    print("/* shaped-sde: ends */\n    {" + ", ".join("{%.6g, %.2g}" % x for x in row) + "},")


# ---- networks by autograd ----

def torch_norm(x):
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)


def torch_network(rng, x, depth, norm="none", mlp="none", skip=1., scale=1., no_query=False, temperature=1., after=False, query=None):
    """squared gradients (q, k, v, up, down) by layer, states, of <G, X^L>, G of N(0, 1); after: behind the final norm"""
    n, d = x.shape
    normal = lambda *shape: torch.tensor(rng.standard_normal(shape))
    x = torch.tensor(x, requires_grad=True)
    states, weights = [x], []
    for _ in range(depth):
        q, k, v = (normal(d, d) / math.sqrt(d) for _ in range(3))
        q = q * (0 if no_query else 1)
        up, down = normal(d, 4 * d) * math.sqrt((2 if mlp == "relu" else 1) / d), normal(4 * d, d) / math.sqrt(4 * d)
        w = [m.requires_grad_() for m in (q, k, v, up, down)]
        weights.append(w)
        y = torch_norm(x) if norm == "pre" else x
        a = torch.softmax((y @ w[0]) @ (y @ w[1]).T / math.sqrt(d) / temperature, -1)
        x = skip * x + scale * (a @ y @ w[2])
        x = torch_norm(x) if norm == "post" else x
        if mlp != "none":
            y = torch_norm(x) if norm == "pre" else x
            h = y @ w[3]
            x = x + scale * ((torch.relu(h) if mlp == "relu" else h) @ w[4])
            x = torch_norm(x) if norm == "post" else x
        states.append(x)
    out = torch_norm(x) if after else x
    (out * normal(n, d)).sum().backward()
    return [[0. if m.grad is None else float((m.grad ** 2).sum()) for m in w] for w in weights], [s.detach().numpy() for s in states], float((states[0].grad ** 2).sum())


def noci_lemma_3_2():
    n, d = 4, 8
    shared, own = generated(3200, d, 1), generated(3201, n * d, math.sqrt(3)).reshape(n, d)
    p = torch.eye(n, dtype=torch.float64) - 1 / n
    rng = np.random.default_rng(8)
    bounds, rows = [], []
    for common in (0, 1, 10, 100):
        x = common * shared / np.linalg.norm(shared) + own
        c = x.T @ p.numpy() @ x
        bounds.append(8 / d ** 3 * d * d / n * (c ** 2).sum() + 2 * d)
        found = [[], []]
        for _ in range(3000):
            q, k, v = (torch.tensor(rng.standard_normal((d, d))) / math.sqrt(d) for _ in range(3))

            def attend(y, true):
                m = (y @ q) @ (y @ k).T / math.sqrt(d)
                return (torch.softmax(m, -1) if true else 1 / n + (m - m.detach()) @ p / n) @ y @ v

            for true in (0, 1):
                jacobian = torch.autograd.functional.jacobian(lambda y: attend(y, true), torch.tensor(x), vectorize=True)
                found[true].append(float((jacobian ** 2).sum()))
        rows.append(found)
    print("// bounds " + ", ".join("%.13g" % b for b in bounds))
    show("noci-lemma-3.2", rows)


def noci_hyperparameters():
    rng, rows = np.random.default_rng(9), []
    n, d = 6, 12
    for size in (1 / 12, 1):
        found = [torch_network(rng, rng.standard_normal((n, d)) * math.sqrt(size), 1, skip=0)[0][0] for _ in range(6000)]
        q = size ** 3 * (n - 1) / n * d * (n + d) * (n * d + 4) / (n * d)
        rows.append([[f[0] / q for f in found], [f[2] / (size * d * d) for f in found]])
    show("noci-hyperparameters", rows)


def noci_theorem_3_3():
    rng, n, d = np.random.default_rng(10), 8, 24
    rows = []
    for norm, skip in (("pre", 1), ("post", 1), ("none", 1), ("none", 0)):
        found = []
        for _ in range(400):
            g, _, _ = torch_network(rng, rng.standard_normal((n, d)), 16, norm=norm, skip=skip, no_query=True)
            found.append([math.log10(max(g[l][0], 1e-300) / g[l][2]) for l in (0, 3, 15)] + [math.log10(g[15][0]) - math.log10(g[0][0]) if skip and norm == "none" else 0])
        rows.append(list(zip(*found)))
    show("noci-theorem-3.3", [r[:3] for r in rows[:3]] + [rows[3][:1]])
    print("// no norm, decades of gQ, last layer over first: %.4f +- %.4f" % (np.mean(rows[2][3]), np.std(rows[2][3]) / math.sqrt(400)))


def xiong_last_layer():
    rng, n, d = np.random.default_rng(11), 8, 32
    rows = []
    for norm in ("pre", "post"):
        row = []
        for depth in (2, 16):
            found = [torch_network(rng, rng.standard_normal((n, d)), depth, norm=norm, mlp="relu", after=norm == "pre")[0][-1] for _ in range(400)]
            row += [[math.log10(g[4]) for g in found], [math.log10(g[3]) for g in found]]
        rows.append(row)
    show("xiong-last-layer", rows)


def sas_at_init():
    n, d, depth = 12, 48, 18

    def norm(x):
        return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)

    def cosine(x):
        u = x / np.linalg.norm(x, axis=1, keepdims=True)
        return ((u @ u.T).sum() - n) / (n * (n - 1))

    def mlp(rng, x):
        return np.maximum(norm(x) @ rng.standard_normal((d, 4 * d)) * math.sqrt(2 / d), 0) @ rng.standard_normal((4 * d, d)) / math.sqrt(4 * d * depth)

    def one(rng):
        rows = []
        for way in range(3):
            x, seen = rng.standard_normal((n, d)), []
            for _ in range(depth):
                if way == 0:
                    x = norm(x)
                elif way == 1:
                    x = np.repeat(norm(x).mean(0, keepdims=True), n, 0)
                else:
                    heads = []
                    for _ in range(4):
                        q, k, v = (norm(x) @ rng.standard_normal((d, d // 4)) / math.sqrt(d) for _ in range(3))
                        heads.append(softmax(q @ k.T / math.sqrt(d // 4)) @ v)
                    x = x + np.concatenate(heads, 1) @ rng.standard_normal((d, d)) / math.sqrt(d * depth)
                x = x + mlp(rng, x)
                seen.append(cosine(x))
            rows.append([seen[0], seen[-1]])
        return rows

    found = over_draws(400, one, 3, 12)
    show("sas-at-init", [[found[0][1], found[2][1]]])


def noci_fig1():
    rng, n, d, depth = np.random.default_rng(13), 16, 32, 16

    def cosine(x):
        u = x / np.linalg.norm(x, axis=1, keepdims=True)
        return ((u @ u.T).sum() - n) / (n * (n - 1))

    rows = []
    for norm in ("post", "pre", "none"):
        row = []
        for scale in (1, .5, 1 / math.sqrt(depth)):
            found = []
            for _ in range(120):
                g, s, _ = torch_network(rng, rng.standard_normal((n, d)), depth, norm=norm, mlp="relu", scale=scale)
                found.append([cosine(s[-1])] + ([math.log10(g[-1][0] / g[0][0]), math.log10(g[-1][2] / g[0][2])] if scale == 1 and norm != "none" else [0, 0] if scale == 1 else []))  # without norms attention condenses, and gQ may be 0
            row += list(zip(*found))
        rows.append(row)  # cosine, gQ, gV at scale 1; cosine; cosine
    show("noci-fig1", rows)
    print("/* noci-fig1: density */")
    n, d = 6, 30
    for real in (0, 1):
        row = []
        for size in (1 / d, 1):
            found = []
            for _ in range(400):
                with torch.no_grad():
                    x = torch.tensor(rng.standard_normal((n, d)) * math.sqrt(size))
                    normal = lambda a, b: torch.tensor(rng.standard_normal((a, b))) / math.sqrt(a)
                    for _ in range(10):
                        a = torch.softmax((x @ normal(d, d)) @ (x @ normal(d, d)).T / math.sqrt(d), -1) if real else torch.full((n, n), 1 / n, dtype=torch.float64)
                        x = x + a @ x @ normal(d, d)
                        x = x + (x @ normal(d, 4 * d)) @ normal(4 * d, d)
                    found.append(math.log10(float((x ** 2).sum()) / (n * d * size)))
            f = np.array(found)
            row.append("{%.6g, %.2g}" % (f.mean(), f.std() / 20))
        print("    {" + ", ".join(row) + "},")


def noci_density():
    """Mean and variance of ln|e + alpha g/sqrt(d)|^2: given K of Poisson's law of mean d/(2 alpha^2), alpha^2/d times chi-squared of d + 2K."""
    import mpmath as mp

    d = 32
    for alpha in (mp.mpf(1), mp.mpf(1) / 4):
        m, first, square = d / alpha**2 / 2, mp.mpf(0), mp.mpf(0)
        for k in range(int(m + 16 * mp.sqrt(m) + 60)):
            p = mp.e ** (k * mp.log(m) - m - mp.loggamma(k + 1))
            mean = mp.psi(0, mp.mpf(d) / 2 + k) + mp.log(2 * alpha**2 / d)
            first, square = first + p * mean, square + p * (mean**2 + mp.psi(1, mp.mpf(d) / 2 + k))
        # and by draws, the vectors themselves
        g = np.random.default_rng(14).standard_normal((100000, d)) * float(alpha) / math.sqrt(d)
        g[:, 0] += 1
        drawn = np.log((g**2).sum(1))
        assert abs(drawn.mean() - first) < 5 * drawn.std() / 316 and abs(drawn.var() / (square - first**2) - 1) < 0.03
        print("noci-density: scale %s: mean %s, variance %s" % (mp.nstr(alpha, 3), mp.nstr(first, 12), mp.nstr(square - first**2, 12)))


def gap_bert_init():
    layers, width, heads, vocabulary = 12, 768, 12, 8192
    torch.manual_seed(1)
    p = 1 / (np.arange(vocabulary - 1) + 2.7)
    ids_of = lambda rng, n: rng.choice(np.arange(1, vocabulary), n, p=p / p.sum())
    norm = lambda x, eps: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + eps)
    rng = np.random.default_rng(14)
    draws = 6

    def ranks_of(x):
        s = torch.linalg.svdvals(x.double())
        s = s / s[0]
        return float((s ** 2).sum()), float((s ** 4).sum())

    found = {}
    for _ in range(draws):
        tables = torch.randn(vocabulary, width) * .02
        positions, kind = torch.randn(512, width) * .02, torch.randn(width) * .02
        weights = [[torch.randn(a, b) * .02 for a, b in ((width, width),) * 4 + ((width, 4 * width), (4 * width, width))] for _ in range(layers)]
        for n in (64, 256):
            x0 = norm(tables[torch.tensor(ids_of(rng, n))] + positions[:n] + kind, 1e-12)
            for fixed in (0, 1):
                x = x0
                found.setdefault((n, fixed, 0), []).append(ranks_of(x))
                for l, (q, k, v, o, up, down) in enumerate(weights):
                    split = lambda m: (x @ m).view(n, heads, -1).transpose(0, 1)
                    a = torch.softmax(split(q) @ split(k).transpose(1, 2) / 8, -1) - fixed / n
                    x = norm(x + (a @ split(v)).transpose(0, 1).reshape(n, width) @ o, 1e-12)
                    x = norm(x + torch.nn.functional.gelu(x @ up) @ down, 1e-12)
                    if l + 1 in (1, 4, 12):
                        found.setdefault((n, fixed, l + 1), []).append(ranks_of(x))
    for n in (64, 256):
        print("/* gap-bert-init: tokens_%d */" % n)
        for fixed in (0, 1):
            row = []
            for layer in (0, 1, 4, 12):
                f = np.array(found[n, fixed, layer])
                row += ["{%.6g, %.2g}" % (f[:, i].mean(), f[:, i].std(ddof=1)) for i in (0, 1)]
            print("    {" + ", ".join(row) + "},")


def name_of(function):
    """noci_lemma_3_2 is noci-lemma-3.2"""
    return re.sub(r"-(\d)-(\d)$", r"-\1.\2", function.__name__.replace("_", "-"))


EXPERIMENTS = {name_of(f): f for f in (gap_width_collapse, gap_fixed_dk, centred_identities, softmax_moment, espa, oversmoothing_bound, shaped_sde, noci_lemma_3_2, noci_hyperparameters, noci_theorem_3_3, xiong_last_layer, sas_at_init, noci_fig1, noci_density, gap_bert_init)}

if __name__ == "__main__":
    for name in sys.argv[1:] or EXPERIMENTS:
        EXPERIMENTS[name]()
