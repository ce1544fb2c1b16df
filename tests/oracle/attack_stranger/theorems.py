"""What theorems A and D speak of: the least that any branch no longer than a bound leaves of mu."""
import numpy as np

from .climb import climb
from .mixers import rms


def spread(x):
    return np.sqrt(((x - x.mean(-2, keepdims=True)) ** 2).sum((-2, -1)))


def own_norm(l, x):
    """The norm behind the sum, without its bias."""
    if l["norm_kind"] == "layernorm":
        x = x - x.mean(-1, keepdims=True)
    return rms(x, l["eps"]) * l.get("g", 1)


def turned(x, o):
    """Rows of o no longer than 1."""
    return o / np.maximum(1, np.sqrt((o * o).sum(-1, keepdims=True)))


def least_kept(l, x, skip, length, g, steps):
    """The least mu(norm(skip x + O))/mu(x) over rows of O no longer than length (a number, or a column of them)."""
    def score(o):
        return -spread(own_norm(l, skip * x + length * turned(x, o))) / spread(x)
    n, d = x.shape
    # towards the mean of the others, of a direction, or of minus the token
    unit = x / (np.sqrt((x * x).sum(-1, keepdims=True)) + 1e-300) * np.sign(skip)
    begin = [unit.mean(0) * 10 - unit, unit[:1] * 10 - unit * 9, -unit, 10 * (unit.mean(0) - unit), *g.standard_normal((12, n, d))]
    for lead in unit[:4]:
        across = lead - unit * (unit * lead).sum(-1, keepdims=True)
        across = across / (np.sqrt((across ** 2).sum(-1, keepdims=True)) + 1e-300)
        t = min(1, np.max(length) / (abs(skip) * np.sqrt((x * x).sum(-1)).min() + 1e-300))
        begin.append(across * np.sqrt(1 - t * t) - unit * t)
    best, o = climb(score, np.array(begin), g, steps)
    return -best, o


def drift(h, skip, length, g, depths, centred):
    """The least share of mu of the rows' directions that depths of rows no longer than length leave."""
    if centred:
        h = h - h.mean(-1, keepdims=True)

    def nu(y):
        return spread(y / (np.sqrt((y * y).sum(-1, keepdims=True)) + 1e-300))
    least = 1.0
    for trial in range(6):
        y = h.copy()
        for k in range(depths):
            y = skip * y
            unit = y / np.sqrt((y * y).sum(-1, keepdims=True))
            lead = (unit.mean(0), unit[0], unit[-1], g.standard_normal(unit.shape[1]), unit.mean(0) + 0.3 * unit[0], unit.mean(0))[trial]
            if centred:
                lead = lead - lead.mean()
            lead = lead / (np.sqrt((lead ** 2).sum()) + 1e-300)
            across = lead - unit * (unit @ lead)[:, None]
            rest = np.sqrt((across ** 2).sum(-1, keepdims=True))
            across = np.where(rest > 1e-13, across / (rest + 1e-300), 0)
            t = np.minimum(1, length / np.sqrt((y * y).sum(-1, keepdims=True)))
            full = length * (across * np.sqrt(1 - t * t) - unit * t) if trial < 5 else length * across
            # no further than onto the lead itself
            after = y + full
            cos_now, cos_most = (unit @ lead)[:, None], np.sqrt(1 - t * t)
            onto = lead * (y @ lead)[:, None] - y
            y = np.where((cos_now > cos_most) & (np.sqrt((onto ** 2).sum(-1, keepdims=True)) <= length), y + onto, after)
            least = min(least, nu(y) / nu(h))
            if np.abs(y).max() * max(1, abs(skip)) > 1e140:  # squares of lengths must fit
                break
    return least
