"""fixed_mixing_kept (L28): the least share of mu that lambda X + w M X keeps of X with sqrt(n)|mean| <= mean_share mu(X)."""
import numpy as np

from .climb import climb
from .theorems import own_norm, spread
from .truth import centred


def share(t, x):
    """(What t x keeps of mu, sqrt(n)|mean|/mu) of columns x, in long double."""
    x = x.astype(np.longdouble)
    rt, rx, mean = t - t.mean(0), centred(x), x.mean(0)
    return spread(rt @ rx + rt.sum(1)[:, None] * mean) / spread(rx), np.sqrt(np.longdouble(len(x))) * np.sqrt((mean ** 2).sum()) / spread(rx)


def dual(a, b, c, limit):
    """Least eigenvectors where the statement's own bound is largest: near equality its column is one of them."""
    n = len(a)
    r = np.eye(n) - 1 / n
    best, found = -np.inf, []
    low, high = -40.0, 40.0
    for _ in range(4):
        grid = np.linspace(low, high, 17)
        values = []
        for at in grid:
            tau = 10.0 ** at * (np.trace(a) + 1e-300)
            w, v = np.linalg.eigh(a - np.outer(b, b) / (tau + c) + np.ones((n, n)) / n * 10 * np.trace(a))
            values.append(w[0] - tau * limit ** 2)
            if values[-1] > best:
                best, found = values[-1], [*(v[:, :2].T @ r), *found[:6]]
        i = int(np.argmax(values))
        low, high = grid[max(0, i - 1)], grid[min(16, i + 1)]
    return np.array(found) if found else np.zeros((0, n))


def climbed(t, limit, g, steps):
    """What one column in the cone keeps at least, as far as is found, and its share of mean: its part z across the constant by descent, its
    mean the best that z allows."""
    n, limit = len(t), np.longdouble(limit)
    rt = t - t.mean(0)
    tc = rt.sum(1) / np.sqrt(np.longdouble(n))
    c = tc @ tc
    a, b = (rt.T @ rt).astype(np.float64), (rt.T @ tc).astype(np.float64)
    near = [np.linalg.eigh(a)[1].T, np.linalg.eigh(a - np.outer(b, b) / (float(c) + 1e-300))[1].T, dual(a, b, float(c), float(limit))]

    def across(z):
        z = z.astype(np.longdouble)
        z = z - z.mean(-1, keepdims=True)
        z = z - z.mean(-1, keepdims=True)
        return z / (np.sqrt((z * z).sum(-1, keepdims=True)) + np.longdouble(1e-300))

    def told(z):
        tz = z @ rt.T
        free = -(tz @ tc) / c if c > 0 else np.zeros(len(z), np.longdouble)
        mean = np.clip(free, -limit * (1 - np.longdouble(1e-15)), limit * (1 - np.longdouble(1e-15)))
        left = tz + mean[:, None] * tc
        return (left * left).sum(-1), mean, left
    z = across(np.concatenate([g.standard_normal((16, n)), *near, *[-part for part in near]]))
    z = z[(z * z).sum(-1) > 0.5]  # an eigenvector may be the constant itself
    z = z[np.argsort(told(z)[0])[:32]]
    (now, mean, left), size = told(z), np.full(len(z), 0.5)
    for _ in range(steps):
        slope = left @ rt
        slope = slope - slope.mean(-1, keepdims=True)
        slope = slope - (slope * z).sum(-1, keepdims=True) * z
        slope = slope / (np.sqrt((slope ** 2).sum(-1, keepdims=True)) + np.longdouble(1e-300))
        for move in (-slope, -slope * 0.1, g.standard_normal(z.shape) / np.sqrt(n)):
            other = across(z + size[:, None] * move)
            found, of, rest = told(other)
            better = found < now
            z, left = np.where(better[:, None], other, z), np.where(better[:, None], rest, left)
            now, mean, size = np.where(better, found, now), np.where(better, of, mean), np.where(better, size * 1.5, size * 0.9)
    i = now.argmin()
    return np.sqrt(now[i]), abs(mean[i])  # of z of length 1: beside a mean of 1e13 z itself would be lost in their sum


def check_fixed(layer, matrix, row, x, g, steps):
    """(name, conditional, ratio, violated, words) of one row."""
    claimed, limit = row["fixed_mixing_kept"], row["mean_share"]
    if claimed is None:
        return
    n = len(matrix)
    t = np.longdouble(layer.skip) * np.eye(n, dtype=np.longdouble) + np.longdouble(layer.factor) * matrix.astype(np.longdouble)
    noise = np.longdouble(2) ** -58 * np.sqrt((t ** 2).sum()) * np.sqrt(np.longdouble(n))
    _, own = share(t, x.astype(np.longdouble))
    off = np.longdouble(2) ** -55 * np.sqrt((x.astype(np.longdouble) ** 2).sum()) / spread(centred(x.astype(np.longdouble)))
    ratio = own / np.longdouble(limit) if limit else (1.0 if own > 0 else 0.0)
    yield "mean_share", False, ratio, bool(own > np.longdouble(limit) * (1 + 1e-18) + off * own), f"{own!r}"
    for name, columns in (("fixed_mixing_kept, climbed", None), ("fixed_mixing_kept, own X", x), ("fixed_mixing_kept, drawn", None)):
        if name.endswith("drawn"):
            columns = g.standard_normal((n, 3))
            centre = columns - columns.mean(0)
            columns = centre + min(1, limit) * g.random() * spread(centre) / np.sqrt(n) * np.array([1, 0, 0])
        left, mean = climbed(t, limit, g, steps) if columns is None else share(t, columns)
        if name.endswith("own X") or mean <= np.longdouble(limit):
            fails = np.longdouble(claimed) > left + noise * (1 + mean)
            ratio = float(claimed / left) if left > 0 else (np.inf if claimed > 0 else 1.0)
            if claimed == 0 and left < 1e-7 * np.sqrt((t ** 2).sum()):
                name += " (nothing is left)"
            yield name, False, ratio, bool(fails), f"claimed {claimed!r}, left {left!r}, mean {mean!r} of {limit!r}"
        else:
            yield name + " (outside)", False, 0.0, False, ""


def check_theorem_c(layer, matrix, row, x, g, steps):
    """L26 of any states whose rows are as long and that differ as much: the epsilon is paid at this spread."""
    kept = row["theorem_c_kept"]
    if not kept or not 1e-100 < np.abs(x).max() < 1e100:
        return
    middle = layer.post["norm_kind"] == "layernorm"
    x = x - x.mean(-1, keepdims=True) if middle else x
    lengths, least = np.sqrt((x * x).sum(-1, keepdims=True)), spread(x)

    def score(z):
        z = z - z.mean(-1, keepdims=True) if middle else z
        z = z / (np.sqrt((z * z).sum(-1, keepdims=True)) + 1e-300) * lengths
        left = spread(own_norm(layer.post, layer.skip * z + layer.factor * (matrix.astype(np.float64) @ z))) / spread(z)
        return np.where(spread(z) >= least, kept / left, -1)
    begin = np.concatenate([x[None] + s * np.abs(x).mean() * g.standard_normal((1,) + x.shape) for s in (0, 0.1, 1, 3, 10) * 2])
    best, _ = climb(score, begin, g, steps)
    yield "theorem_c_kept, any X", False, float(best), bool(best > 1 + 1e-9), f"claimed {kept!r}"
