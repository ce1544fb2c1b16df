#!/usr/bin/env python3
"""Writes tests/golden/kobayashi.json: what `lab run kobayashi-fig1 --quick` and `kobayashi-fig5 --quick` should print, by NumPy and mpmath from the
statements alone (docs/theory/weight_decay.md); tests/cli/lab_kobayashi.sh compares. Prints the digits that src/lab/kobayashi_fig*.c expect.

  tests/oracle/make_kobayashi_golden.py      (numpy and mpmath as in requirements.txt; some two minutes)

The draws of seed 0 are made again, by Philox as Random123 defines it; medians of other draws are NumPy's own.
"""
import json
import os

import mpmath as mp
import numpy as np

TARGET = np.array([1, 0.8, 0.6, 0.4, 0.2])
LOSSES = {"c = 1": 1.0, "c = 1/2": 0.5}
DECAYS = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.6, 2.0]
FITTED = [0.1, 0.2, 0.4, 0.8]
QUICK, OTHERS = 16, 4000
SETTINGS = [(0.1, 0.1), (1.0, 0.1), (1.0, 0.5), (0.1, 1.0), (0.01, 1.0)]
SHOWN = [1, 10, 30, 100, 300, 1000, 2000, 3000, 5000, 7000, 10000, 15000, 20000, 30000, 45000, 60000, 90000, 120000]
NORMAL = np.array([1.0, 2.0])


# ---- draws ----

def philox(counters, stream, seed):
    """The first two words of Philox4x32-10 of Salmon et al. 2011, as 64 bits."""
    word = np.uint64(0xFFFFFFFF)
    c = [counters & word, counters >> np.uint64(32), np.full_like(counters, stream & 0xFFFFFFFF), np.full_like(counters, stream >> 32)]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), b & word, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), a & word]
        k = [(k[0] + 0x9E3779B9) % 2 ** 32, (k[1] + 0xBB67AE85) % 2 ** 32]
    return c[0] << np.uint64(32) | c[1]


def normals(n, stream, seed=0):
    u = ((philox(np.arange(n + n % 2, dtype=np.uint64), stream, seed) >> np.uint64(11)).astype(float) + 0.5) / 2.0 ** 53
    radius, angle = np.sqrt(-2 * np.log(u[::2])), 2 * np.pi * u[1::2]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()[:n]


def hashed(tag, count, scale):
    out = []
    for k in range(count):
        h = ((k + 1) * 2654435761 + tag * 2246822519) % 2 ** 32
        h = (h ^ h >> 15) * 2246822519 % 2 ** 32
        h = (h ^ h >> 13) * 3266489917 % 2 ** 32
        out.append(scale * ((h ^ h >> 16) / 2 ** 31 - 1))
    return np.array(out)


# ---- two factors; a and b are [draws, 5, 5] ----

def turned(x):
    return np.swapaxes(x, 1, 2)


def descend(a, b, c, decay, rate, steps):
    """Yields the factors of step 0, 1, ..., steps."""
    for _ in range(steps):
        yield a, b
        g = 2 * c * (a @ turned(b) - np.diag(TARGET))
        a, b = a - rate * (g @ b + decay * a), b - rate * (turned(g) @ a + decay * b)
    yield a, b


def seen(a, b):
    sigma = np.linalg.svd(a @ turned(b), compute_uv=False)
    norms = (a ** 2).sum((1, 2)) + (b ** 2).sum((1, 2))
    q = np.sqrt(((turned(a) @ a - turned(b) @ b) ** 2).sum((1, 2)))
    return sigma, norms / 2 - sigma.sum(1), q, norms


def at(a, b, c, decay, rate, steps):
    """What is seen at each of the steps."""
    return {t: seen(*pair) for t, pair in enumerate(descend(a, b, c, decay, rate, max(steps))) if t in steps}


def soft(c, decay):
    s = TARGET - decay / (2 * c)
    return np.where(abs(s) < 1e-12, 0, s)


def slopes(a, b, c, decay):
    """Of ln|Q| and of ln gap, by least squares."""
    steps = range(300, 901, 10)
    found = at(a, b, c, decay, 0.02, steps)
    x = np.array(steps, float)
    q, gap = (np.array([found[t][i] for t in steps]) for i in (2, 1))
    out = []
    for k in range(a.shape[0]):
        good, open_ = q[:, k] > 1e-10, np.logical_and.accumulate(gap[:, k] > 1e-11)
        out.append([np.polyfit(x[use] - 600, np.log(y[use, k]), 1)[0] for use, y in ((good, q), (open_, gap))])
    return np.array(out).T


def farthest(values, centre=0.0):
    values = np.ravel(values)
    return float(values[np.argmax(abs(values - centre))])


def dead(c, decay):
    return soft(c, decay)[-1] < 0


def figure_1():
    start = [normals(50, 0x0b5 << 32 ^ draw) / np.sqrt(5) for draw in range(QUICK)]
    a, b = (np.array([s[i:i + 25].reshape(5, 5) for s in start]) for i in (0, 25))
    own = [hashed(tag, 25, np.sqrt(0.6)).reshape(1, 5, 5) for tag in (401, 402)]
    claims, curves, balance = {}, {}, {}
    for name, c in LOSSES.items():
        free = at(a, b, c, 0, 0.1, (0, 1000))
        claims[f"{name}: no decay: |Q| of step 1000 over that of step 0, median"] = float(np.median(free[1000][2] / free[0][2]))
        law, slope, half = [], [], []
        for decay in DECAYS:
            found, s = at(a, b, c, decay, 0.1, (300, 1000, 1500)), soft(c, decay)
            for i in np.flatnonzero(s == 0):
                early, late = 1 / found[300][0][:, i], 1 / found[1000][0][:, i]
                law.append((early + 280 * c) / late - 1)
                slope.append((late - early) / (280 * c))
            half += [found[1500][0][:, i] / d for i, d in enumerate(TARGET) if d == decay]
        claims[f"{name}: mode on it, step 1000: s over 1/(1/s0 + 4c t), less 1"] = abs(farthest(law))
        claims[f"{name}: mode on it: slope of 1/s over 4c, median"] = float(np.median(slope))
        if c == 1:
            claims["c = 1, as printed: share of a mode that a decay of d leaves"] = farthest(half, 0.5)
        claims[f"{name}{', as printed' if c == 1 else ''}: decay at which the mode d = 1 vanishes"] = 2 * c
        for decay in FITTED:
            q, gap = slopes(a, b, c, decay)
            text = f"{name}, decay {decay:g}"
            claims[f"{text}, dead modes: slope of ln|Q|: no farther than theirs" if dead(c, decay) else
                   f"{text}: slope of ln|Q| over ln(1 - 2 rate decay), less 1"] = abs(farthest(q / np.log(1 - 0.04 * decay) - 1))
            claims[f"{text}: slope of ln gap over that of ln|Q|, median"] = float(np.median(gap / q))
        modes = [at(*own, c, decay, 0.1, (1000,))[1000][0][0] for decay in [0.0] + DECAYS]
        for i in (0, 2, 4):
            curves[f"{name}, d = {TARGET[i]:g}"] = [float(m[i]) for m in modes]
        alone = np.zeros((2, 1, 5, 5))
        alone[:, 0, 4, 4] = 0.5, 0.3
        found = at(*alone, c, 0.8, 0.02, (800, 801))
        claims[f"{name}, decay 0.8, the dead mode alone: |Q| over that a step before"] = float(found[801][2][0] / found[800][2][0])
        q, gap = slopes(*own, c, 0.4)
        claims[f"from a hash, {name}, decay 0.4: slope of ln|Q| a step"] = float(q[0])
        claims[f"from a hash, {name}, decay 0.4: slope of ln gap a step"] = float(gap[0])
        print(name, "instance: slopes %.14g, %.11g; mode on the threshold %.14g" % (q[0], gap[0], modes[2][4] if c == 1 else modes[3][2]))
    claims["from a hash, c = 1, decay 0.4, step 1000: mode d = 0.2, on it"] = curves["c = 1, d = 0.2"][2]
    claims["from a hash, c = 1/2, decay 0.6, step 1000: mode d = 0.6, on it"] = curves["c = 1/2, d = 0.6"][3]
    for decay in (0.0, 0.1, 0.4, 0.8):
        found = at(*own, 1.0, decay, 0.02, range(0, 901, 20))
        balance[f"|Q|, decay {decay:g}"] = [float(found[t][2][0]) for t in range(0, 901, 20)]
        balance[f"gap, decay {decay:g}"] = [float(found[t][1][0]) for t in range(0, 901, 20)]
    return {"claims": claims, "curves": curves, "balance": balance}


def other_draws():
    random = np.random.default_rng(5)
    a, b = (random.normal(size=(OTHERS, 5, 5)) / np.sqrt(5) for _ in range(2))
    for name, c in LOSSES.items():
        free = at(a, b, c, 0, 0.1, (0, 1000))
        kept = free[1000][2] / free[0][2]
        print(name, "|Q| kept without decay: median %.4f, deviation %.4f" % (np.median(kept), kept.std()))
        late = max(abs(at(a, b, c, decay, 0.1, (1500,))[1500][0] - np.maximum(soft(c, decay), 0))[:, soft(c, decay) != 0].max() for decay in DECAYS)
        print(name, "largest distance of modes off the threshold, step 1500: %.1e" % late)
        for decay in FITTED:
            q, gap = slopes(a, b, c, decay)
            away = q / np.log(1 - 0.04 * decay) - 1
            print(name, "decay %g: ratio of slopes, median %.4f, deviation %.4f; slope of ln|Q| %.4f%% to %.4f%% away" %
                  (decay, np.median(gap / q), (gap / q).std(), 100 * away.min(), 100 * away.max()))


# ---- two weights and a line ----

def by_weights(w, share=1.0):
    return share * 0.4 * (w @ NORMAL - 2)[..., None] * NORMAL


def by_factors(p):
    g = by_weights(p[:2] * p[2:])
    return np.concatenate([g * p[2:], g * p[:2]])


def adam(gradient, x, lr, eps, decay, coupled):
    """x of the steps SHOWN."""
    m = v = np.zeros_like(x)
    out = []
    for t in range(1, SHOWN[-1] + 1):
        g = gradient(x) + coupled * x
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x = x - lr * (m / (1 - 0.9 ** t) / (np.sqrt(v / (1 - 0.999 ** t)) + eps) + decay * x)
        if t in SHOWN:
            out.append(x)
    return out


def fixed_points(share=mp.mpf(1)):
    """[setting][panel][AdamW, Adam + L2]: (w1, w2). On the line's normal form: with r = w1 + 2 w2 - 2 and k = 2/5 share the gradient by w_i is
    k r n_i, so each weight is a function of r, and r solves one equation."""
    mp.mp.dps = 40
    out = []
    for eps, decay in SETTINGS:
        eps, decay = mp.mpf(str(eps)), mp.mpf(str(decay))
        k = mp.mpf(2) / 5 * share

        def apart(size):  # decay w = size/(size + eps)
            return size / (size + eps) / decay

        def root(weights):
            """r < 0 of w1 + 2 w2 - 2 = r: the left side falls as -r does."""
            r = mp.findroot(lambda r: weights(r)[0] + 2 * weights(r)[1] - 2 - r, (mp.mpf(-2), mp.mpf("-1e-30")), solver="anderson", tol=1e-60,
                            maxsteps=500, verify=False)
            return weights(r)

        direct = root(lambda r: (apart(-k * r), apart(-2 * k * r))), root(lambda r: (-k * r / (eps * decay), -2 * k * r / (eps * decay)))
        # Factors, a = b = sqrt(w): |g| sqrt(w) = decay eps sqrt(w)/(1 - decay sqrt(w)), so decay sqrt(w) = 1 - decay eps/|g| or w = 0.
        def size(g):
            root_w = (1 - decay * eps / g) / decay
            return root_w ** 2 if root_w > 0 else mp.mpf(0)

        adamw = root(lambda r: (size(-k * r), size(-2 * k * r)))
        coupled = mp.mpf(0), 1 - eps * decay / (8 * mp.mpf(1) / 5 * share) if share == 1 else mp.nan
        out.append([[direct[0], direct[1]], [adamw, coupled]])
    return out


def check(fixed):
    """What the fixed points leave of the equations themselves."""
    worst = mp.mpf(0)
    for (eps, decay), (direct, factored) in zip(SETTINGS, fixed):
        eps, decay = mp.mpf(str(eps)), mp.mpf(str(decay))
        for kind in (0, 1):
            for w, factors in ((direct[kind], False), (factored[kind], True)):
                r = (w[0] + 2 * w[1] - 2) * 2 / 5
                for n, v in ((1, w[0]), (2, w[1])):
                    x = mp.sqrt(v) if factors else v
                    g = r * n * (x if factors else 1)
                    worst = max(worst, abs(g + decay * x * ((abs(g) if kind == 0 else 0) + eps)))
    return worst


def strength(noise, decay, eps):
    """x - 1 = -decay (sqrt((x - 1)^2 + noise^2) + eps) x."""
    x = mp.findroot(lambda x: x - 1 + decay * x * (mp.sqrt((x - 1) ** 2 + noise ** 2) + eps), mp.mpf(1) / (1 + decay * noise))
    return (1 - x) / x


def line_strength(noise, decay, eps):
    def of(r, n):
        return decay * (mp.sqrt(noise ** 2 + (n * r) ** 2) + eps)

    # n r = -strength w_n, r = 2/5 (w1 + 2 w2 - 2)
    r = mp.findroot(lambda r: mp.mpf(2) / 5 * (-r / of(r, 1) - 4 * r / of(r, 2) - 2) - r, (mp.mpf(-1), mp.mpf(-1) / 10 ** 9), solver="anderson", tol=1e-50)
    return of(r, 1), of(r, 2)


def deviations(noise, decay, eps, line, n=2000):
    """Of the strength of a single weight, by a run of n; and the means."""
    random = np.random.default_rng(6)
    x = np.zeros((n, 2 if line else 1))
    m = v = total = np.zeros_like(x)
    for t in range(1, 12001):
        g = (by_weights(x) if line else x - 1) + noise * random.normal(size=x.shape)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x = x - 2e-3 * (m / (1 - 0.9 ** t) / (np.sqrt(v / (1 - 0.999 ** t)) + eps) + decay * x)
        if t > 8000:
            total = total + x / 4000
    mean = total.mean(0)
    if not line:
        return (1 - mean) / mean, total.std(0) / mean ** 2
    rest = by_weights(total)
    each = -rest / mean + (total - mean) * rest.mean(0) / mean ** 2  # to first order in what one weight differs by
    return -rest.mean(0) / mean, each.std(0)


def figure_5():
    fixed, paths, claims = fixed_points(), {}, {}
    print("fixed points leave %s of the equations" % mp.nstr(check(fixed), 3))
    start_w, start_a = np.array([1.5, 1.2]), np.array([1.3, 1.1])
    kinds = ("AdamW", "Adam + L2")
    for s, (eps, decay) in enumerate(SETTINGS):
        lr = 5e-3 * min(1, 10 * eps)
        for kind, name in enumerate(kinds):
            for panel, word in enumerate(("direct", "factored")):
                for i in (0, 1):
                    claims[f"eps {eps:g}, decay {decay:g}, {word}, {name}: w{i + 1}, step 60000"] = float(fixed[s][panel][kind][i])
                if s in (0, 3):
                    x = adam(by_weights if panel == 0 else by_factors, start_w if panel == 0 else np.concatenate([start_a, start_w / start_a]),
                             lr, eps, decay if kind == 0 else 0, 0 if kind == 0 else eps * decay)
                    paths[f"{word}, {name}, decay {decay:g}"] = [float(p[0] if panel == 0 else p[0] * p[2]) for p in x]
        for word in ("direct", "factored") if s == 0 else ():
            for name in kinds:
                claims[f"eps 0.1, decay 0.1, {word}, {name}: w1, step 300"] = paths[f"{word}, {name}, decay 0.1"][4]
        print("    {%s}," % ", ".join("{%s}" % ", ".join("{%s, %s}" % tuple(mp.nstr(v, 17) for v in fixed[s][panel][kind]) for kind in (0, 1))
                                      for panel in (0, 1)))
    half = fixed_points(mp.mpf(1) / 2)
    distance = max(abs(x - y) for f, h in zip(fixed, half) for kind in (0, 1) for x, y in zip(f[0][kind], h[0][kind]))
    claims["half the squared distance: its ends, farthest from the table"] = float(distance)
    print("half the squared distance is off by", mp.nstr(distance, 15))
    for noise, decay in ((0.5, 0.1), (2, 0.1), (0.5, 0.5), (2, 0.5)):
        value = strength(mp.mpf(noise), mp.mpf(str(decay)), mp.mpf("1e-8"))
        claims[f"noise {noise:g}, decay {decay:g}, eps 1e-08: strength of L2"] = float(value)
        print("noise %g, decay %g: strength %s; a run %s, deviation %s" % (noise, decay, mp.nstr(value, 12), *deviations(noise, decay, 1e-8, False)))
    for noise in (0.5, 2):
        pair = line_strength(mp.mpf(noise), mp.mpf(1), mp.mpf("0.1"))
        for i in (0, 1):
            claims[f"noise {noise:g}, decay 1, eps 0.1, line, w{i + 1}: strength of L2"] = float(pair[i])
        print("line, noise %g: strengths %s; a run %s, deviations %s" % (noise, [mp.nstr(p, 12) for p in pair], *deviations(noise, 1.0, 0.1, True)))
    return {"claims": claims, "paths": paths}


if __name__ == "__main__":
    golden = {"kobayashi-fig1": figure_1(), "kobayashi-fig5": figure_5()}
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
    with open(os.path.join(folder, "kobayashi.json"), "w", encoding="utf-8") as f:
        json.dump(json.loads(json.dumps(golden), parse_float=lambda text: float("%.13g" % float(text))), f, indent=1)
        f.write("\n")
    other_draws()
