"""What lambda X + O has of mu, for the mixer of one layer on one sample, in long double, and how far that number may be off."""
import numpy as np

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

    def left(self, lam, conditional=False, sum_alone=False):
        """(mu behind the mixer for each lambda, how far off it may be)"""
        lam = np.atleast_1d(np.asarray(lam, np.longdouble))
        if sum_alone or self.layer.post is None:  # centred before they are added: tokens that are nearly equal keep their digits
            rx, ro = self.centred
            value = spread(lam[:, None, None] * rx + ro)
            own = self.off + (self.loose if conditional else 0)
            return value, np.sqrt(np.longdouble(len(self.x))) * own + np.longdouble(2) ** -60 * (np.abs(lam) * self.mu + spread(ro) + value)
        post = self.layer.post
        return self.turned(lam, conditional, post["norm_kind"] == "layernorm", np.longdouble(post["eps"]), np.asarray(post.get("g", 1), np.longdouble), 1)

    def turned(self, lam, conditional, middle, eps, gain, root):
        """Rows over their lengths, by differences to the first row, so that rows that are nearly equal keep their digits; root: lengths are those
        of root mean squares (1) or sums (0)."""
        x, o = (part - part.mean(-1, keepdims=True) if middle else part for part in (self.x, self.o))
        dx, do = (part - part[:1] for part in (self.x, self.o))
        dx, do = (part - part.mean(-1, keepdims=True) if middle else part for part in (dx, do))
        y, dy = lam[:, None, None] * x + o, lam[:, None, None] * dx + do
        d = np.longdouble(x.shape[1] if root else 1)
        length = np.sqrt((y * y).sum(-1, keepdims=True) / d + eps)
        safe = np.where(length > 0, length, 1)
        shorter = -(dy * (y + y[:, :1])).sum(-1, keepdims=True) / d / (safe * safe[:, :1] * (safe + safe[:, :1]))
        apart = np.sqrt((dy * dy).sum(-1, keepdims=True)) / np.sqrt(d)
        near = (length > 0) & (apart < length)
        rows = np.where(near, dy / safe + y[:, :1] * shorter, y / safe - y[:, :1] / safe[:, :1]) * gain
        value = spread(rows)
        unit = np.longdouble(2) ** -59
        far = (np.abs(lam)[:, None, None] * np.abs(x).max(-1, keepdims=True) + np.abs(o).max(-1, keepdims=True)) / safe
        far = far + far[:, :1] + 1
        known = unit * np.sqrt(np.longdouble(x.shape[1])) * far * np.where(near, (np.abs(lam)[:, None, None] * np.abs(dx).max(-1, keepdims=True)
                                                                                 + np.abs(do).max(-1, keepdims=True) + apart) / safe, 1)
        known = np.sqrt((known ** 2).sum((1, 2)))
        row = self.off + (self.loose if conditional else 0)
        worst = np.minimum(2 * row / np.where(length > 0, length, 1e-300)[..., 0], 2 * np.sqrt(d))
        return value, np.abs(gain).max() * (known + np.sqrt((worst ** 2).sum(-1))) + unit * value

    def directions(self, lam, conditional=False):
        """mu of the rows scaled to length 1, and how far off it may be."""
        return self.turned(np.atleast_1d(np.asarray(lam, np.longdouble)), conditional, False, np.longdouble(0), np.longdouble(1), 0)


def branch(layer, x):
    """(O in long double, what a row may miss, O in float64, the op's own rows): the error of long double is told from what float64 does."""
    op, rough = layer.rows(x.astype(np.float64))
    fine_op, fine = layer.rows(x.astype(np.longdouble))
    gap = np.sqrt(((rough - fine) ** 2).sum(-1)).max()
    return fine, 16 * gap / 2048 + np.longdouble(2) ** -60 * np.sqrt((fine ** 2).sum(-1)).max(), gap, op
