"""Hill climbs over inputs of a mixer and over branches."""
import numpy as np

from .mixers import wide


def starts(g, rows, n, d, count):
    """Tokens: Gaussian, equal, one-hot, along rows and singular vectors of first maps, of alternating sign, tiny, huge."""
    rows = np.concatenate([rows, np.linalg.svd(rows, full_matrices=False)[2]]) if len(rows) else rows
    out = []
    for i in range(count):
        kind = i % 8
        x = g.standard_normal((n, d))
        if kind == 1:
            x = np.repeat(x[:1], n, 0)
        if kind == 2:
            x = np.eye(d)[g.integers(d, size=n)] * g.choice((-1, 1), (n, 1))
        if kind in (3, 4) and len(rows):
            x = rows[g.integers(len(rows), size=n if kind == 3 else 1)] * g.choice((-1, 1), (n if kind == 3 else 1, 1)) + 1e-9 * x
        if kind == 5 and len(rows):
            x = rows[[g.integers(len(rows))]] * (-1.0) ** np.arange(n)[:, None] + 1e-9 * x
        if kind == 6:
            x = np.concatenate([np.repeat(x[:1], n - 1, 0), x[-1:]])
        if kind == 7:
            x = x * 10.0 ** g.uniform(-8, 3, (n, 1))
        length = np.sqrt((x * x).mean(-1, keepdims=True)) + 1e-300
        out.append(x / length * 1e4 if kind != 7 else x * 1e2)
    return np.array(out)


def climb(score, x, g, steps, keep=4, children=32):
    """The best of x under random changes of all tokens, one token or one number, and finite-difference ascent."""
    best = score(x)
    order = np.argsort(-best)[:keep]
    x, best = x[order], best[order]
    sizes = np.full(len(x), 0.5)
    n, d = x.shape[1:]
    for step in range(steps):
        length = np.sqrt((x * x).mean(-1, keepdims=True)) + 1e-300
        noise = g.standard_normal((children, len(x), n, d))
        kind = g.integers(4, size=(children, len(x), 1, 1))
        token = g.random((children, len(x), n, 1))
        one = token == token.max(2, keepdims=True)
        coordinate = g.random((children, len(x), n, d))
        single = coordinate == coordinate.max((2, 3), keepdims=True)
        noise = np.where(kind == 0, noise, np.where(kind == 1, noise * one, np.where(kind == 2, noise * single * 2, noise * (coordinate < 0.3))))
        tries = x + noise * length * (sizes[:, None, None] * 2.0 ** g.uniform(-3, 1, (children, len(x), 1, 1)))
        if step % 6 == 5 and n * d <= 72:  # ascent, in steps of many lengths
            for p in range(len(x)):
                delta = 1e-6 * length[p].max()
                slope = np.array(score(x[p] + delta * np.eye(n * d).reshape(-1, n, d)) - best[p]) * length[p].max() / delta
                slope = np.where(np.isfinite(slope), slope, 0).reshape(n, d)
                size = np.sqrt((slope ** 2).mean()) + 1e-300
                tries[:, p] = x[p] + length[p] * slope / size * 2.0 ** np.linspace(2, -14, children)[:, None, None]
        found = np.where(np.isfinite(f := score(tries.reshape(-1, n, d))), f, -1).reshape(children, len(x))
        top = found.argmax(0)
        for p in range(len(x)):
            if found[top[p], p] > best[p]:
                x[p], best[p] = tries[top[p], p], found[top[p], p]
                sizes[p] = min(2, sizes[p] * 1.3)
            else:
                sizes[p] *= 0.8
                if sizes[p] < 1e-5:
                    sizes[p] = 0.5
    i = best.argmax()
    return best[i], x[i]


def climb_gain(rows_of, l, claimed, n, d, g, options, first):
    def score(x):
        return np.sqrt((rows_of(l, x) ** 2).sum(-1)).max(-1) / (np.sqrt(d) * claimed)
    total = 0, None
    for _ in range(options.climbs):
        few = int(g.integers(1, n + 1)) if g.random() < 0.3 else n  # inputs of fewer tokens, too
        found = climb(score, starts(g, first, few, d, options.restarts), g, options.steps)
        total = max(total, found, key=lambda t: t[0])
    if total[0] > 1 - 1e-6:
        lw = wide(l)
        best = max((1.0, 1e30, 1e80), key=lambda far: score(total[1][None] * far)[0])  # epsilon counts for less far out
        x = total[1] * best
        return (np.sqrt((rows_of(lw, x.astype(np.longdouble)[None]) ** 2).sum(-1)).max() / (np.sqrt(np.longdouble(d)) * np.longdouble(claimed))), x
    return total
