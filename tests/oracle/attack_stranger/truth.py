"""What lambda X + O has of mu, for the mixer of one layer on one sample, in long double, and how far that number may be off."""
import numpy as np

from .instances_of_sets import behind
from .theorems import spread


def centred(x):
    """Differences of tokens first, then their mean: of tokens that are nearly equal all digits are left."""
    x = x - x[:1]
    return x - x.mean(0)


class Truth:
    """o: the branch in long double; off: what a row of it may miss; loose: beside that, what the program's own pass may differ."""

    def __init__(self, layer, x, o, off, loose=0.0):
        self.layer, self.x, self.o = layer, x.astype(np.longdouble), o.astype(np.longdouble)
        self.off, self.loose = np.longdouble(off), np.longdouble(loose)
        self.centred = [centred(part) for part in (self.x, self.o)]
        self.mu = spread(self.centred[0])
        self.longest = np.sqrt((self.x ** 2).sum(-1)).max()

    def sums(self, lam):
        lam = np.atleast_1d(np.asarray(lam, np.longdouble))
        return lam[:, None, None] * self.x + self.o, lam

    def left(self, lam, conditional=False, sum_alone=False):
        """(mu behind the mixer for each lambda, how far off it may be)"""
        y, lam = self.sums(lam)
        n = len(self.x)
        row = self.off + (self.loose if conditional else 0) + np.longdouble(2) ** -61 * (np.abs(lam) * self.longest + np.sqrt((self.o ** 2).sum(-1)).max())
        if sum_alone or self.layer.post is None:  # centred before they are added: tokens that are nearly equal keep their digits
            rx, ro = self.centred
            value = spread(lam[:, None, None] * rx + ro)
            own = self.off + (self.loose if conditional else 0)
            return value, np.sqrt(np.longdouble(n)) * own + np.longdouble(2) ** -60 * (np.abs(lam) * self.mu + spread(ro) + value)
        post = self.layer.post
        centred = y - y.mean(-1, keepdims=True) if post["norm_kind"] == "layernorm" else y
        length = np.sqrt((centred ** 2).mean(-1) + np.longdouble(post["eps"]))
        gain = np.abs(np.asarray(post.get("g", 1))).max()
        value = spread(behind(self.layer, y))
        worst = np.minimum(2 * row[:, None] / np.where(length > 0, length, 1e-300), 2 * np.sqrt(np.longdouble(self.x.shape[1])))
        return value, gain * (np.sqrt((worst ** 2).sum(-1)) + np.longdouble(2) ** -60 * np.sqrt(np.longdouble(self.x.size)))

    def directions(self, lam, conditional=False):
        """mu of the rows scaled to length 1, and how far off it may be."""
        y, lam = self.sums(lam)
        row = self.off + (self.loose if conditional else 0) + np.longdouble(2) ** -61 * (np.abs(lam) * self.longest + np.sqrt((self.o ** 2).sum(-1)).max())
        length = np.sqrt((y ** 2).sum(-1))
        unit = y / np.where(length > 0, length, 1)[..., None]
        return spread(unit), np.sqrt((np.minimum(2 * row[:, None] / np.where(length > 0, length, 1e-300), 2) ** 2).sum(-1)) + np.longdouble(2) ** -58


def branch(layer, x):
    """(O in long double, what a row may miss, O in float64, the op's own rows): the error of long double is told from what float64 does."""
    op, rough = layer.rows(x.astype(np.float64))
    fine_op, fine = layer.rows(x.astype(np.longdouble))
    gap = np.sqrt(((rough - fine) ** 2).sum(-1)).max()
    return fine, 16 * gap / 2048 + np.longdouble(2) ** -60 * np.sqrt((fine ** 2).sum(-1)).max(), gap, op
