"""Every claim of tables `lambda` and `intervals` about one input, against the branch worked out from the tapped state."""
import numpy as np

from .theorems import drift, least_kept
from .truth import Truth

FAR = np.array([0, 1e-15, 1e-12, 1e-7, 1e-3, 0.1, 1, 9, 1e3, 1e6, 1e12])


def beyond(end, sign):
    """Strengths from an end outwards: at it, hardly past it, far out."""
    step = np.longdouble(max(abs(end), 1e-6))
    return np.longdouble(end) + sign * step * FAR.astype(np.longdouble)


def inside(low, high, g):
    if low is None or high is None:
        return np.concatenate([beyond(low, 1) if high is None else beyond(high, -1)]) if (low, high) != (None, None) else beyond(0, 1) - beyond(0, -1)[::-1]
    low, high = np.longdouble(low), np.longdouble(high)
    share = np.concatenate([[0, 1, 0.5, 1e-12, 1 - 1e-12, 1e-4, 1 - 1e-4], g.random(8)]).astype(np.longdouble)
    return np.clip(low + (high - low) * share, low, high)


class Claims:
    """Yields (column, ratio claimed/true, by how much it fails beyond what is known of the truth, words) of one row."""

    def __init__(self, truth, row, kept, g, depths):
        self.t, self.row, self.kept, self.g, self.depths = truth, row, kept, g, depths

    def conditional(self, column):
        return bool(self.row.get(column + "_conditional"))

    def keeps(self, column, lams, conditional, sum_alone=False, share=None):
        share = np.longdouble(self.kept if share is None else share)
        value, off = self.t.left(lams, conditional, sum_alone)
        return self.worst(column, share * self.t.mu, value, off, lams, conditional)

    def worst(self, column, target, value, off, lams, conditional, below=False):
        ratio = np.where(value > 0, target / np.where(value > 0, value, 1), np.inf if target > 0 else 0)
        ratio = np.where(ratio > 0, 1 / ratio, np.inf) if below else ratio
        fails = (value - target if below else target - value) - off - np.longdouble(2) ** -60 * target
        ok = np.isfinite(value) & np.isfinite(off)
        sure = ok & ((off < 1e-6 * target) | (fails > 0))
        if not ok.any():
            return []
        fails = np.where(ok, fails, -np.inf)
        i = fails.argmax() if (fails > 0).any() else np.where(sure, ratio, -1).argmax() if sure.any() else None
        if i is None:
            return [(column + " (too near to tell)", conditional, 0.0, False, "")]
        return [(column, conditional, ratio[i], bool(fails[i] > 0), f"lambda {float(lams[i])!r}: {value[i]!r} against {target!r}, off {off[i]!r}")]

    def refine(self, lams, low, high, below, conditional):
        """More strengths around where the claim is nearest to fail."""
        lams = np.sort(lams)
        for _ in range(3):
            value, _ = self.t.left(lams, conditional)
            i = value.argmax() if below else value.argmin()
            a, b = lams[max(0, i - 1)], lams[min(len(lams) - 1, i + 1)]
            lams = np.sort(np.concatenate([lams, a + (b - a) * np.linspace(0, 1, 9).astype(np.longdouble)[1:-1]]))
        return lams

    def intervals(self, rows):
        for r in rows:
            if r["answer"] == "unknown":
                continue
            below, conditional = r["answer"] == "no", bool(r["answer_conditional"])
            lams = self.refine(inside(r["low"], r["high"], self.g), r["low"], r["high"], below, conditional)
            value, off = self.t.left(lams, conditional)
            yield from self.worst(f"intervals {r['answer']}", np.longdouble(self.kept) * self.t.mu, value, off, lams, conditional, below)

    def half_lines(self):
        row = self.row
        for column, sign, alone in (("lambda_exact_low", -1, True), ("lambda_exact_high", 1, True), ("lambda_certified", 1, False),
                                    ("lambda_certified_negative", -1, False)):
            if row[column] is not None:
                yield from self.keeps(column, beyond(row[column], sign), self.conditional(column), alone)
        low, high = row["lambda_exact_low"], row["lambda_exact_high"]
        if low is not None and high is not None and high > low:  # how exact: just inside it is no longer kept
            value, off = self.t.left([np.longdouble(low), np.longdouble(high)], True, True)
            yield "(lambda_exact: truth/claim at the ends)", False, float((value / (np.longdouble(self.kept) * self.t.mu)).max()), False, ""

    def now(self):
        row, conditional = self.row, self.conditional("kept_now_error")
        if row["kept_now"] is not None and row["kept_now_error"] is not None:
            value, off = self.t.left([self.t.layer.skip], conditional)
            miss = abs(np.longdouble(row["kept_now"]) - value[0] / self.t.mu)
            bound = np.longdouble(row["kept_now_error"]) + np.longdouble(1e-16) * abs(np.longdouble(row["kept_now"]))
            off = off[0] / self.t.mu
            if np.isfinite(miss):
                fails = miss - off > bound
                words = f"{row['kept_now']!r} +- {row['kept_now_error']!r}, truth {value[0] / self.t.mu!r} off {off!r}"
                name = "kept_now" if off < 1e-2 * bound or fails else "kept_now (too near to tell)"
                yield name, conditional, miss / bound, bool(fails), words
        worst, least = row["lambda_worst"], row["worst_kept"]
        if worst is not None and least is not None:
            value, off = self.t.left(np.longdouble(worst) * np.array([1, 1 - 1e-9, 1 + 1e-9, 0.9, 1.1]), True, True)
            if (off < 1e-12 * self.t.mu).all():
                yield "(worst_kept, measured: its error)", True, abs(float(value[0] / self.t.mu - np.longdouble(least))), False, ""
        for column in ("kept_for_any_input", "theorem_c_kept"):
            if row[column] is not None:
                yield from self.keeps(column, np.array([self.t.layer.skip], np.longdouble), self.conditional(column), share=row[column])

    def theorems(self, steps):
        row, t, g = self.row, self.t, self.g
        o, x = t.o.astype(np.float64), t.x.astype(np.float64)
        length = float(np.sqrt((t.o ** 2).sum(-1)).max())
        calm = 1e-100 < np.abs(x).max() < 1e100 and 1e-100 < length < 1e100
        for column in ("demanded_by_theorem_a", "demanded_by_theorem_a_layer", "demanded_by_theorem_b", "demanded_for_any_input"):
            demanded, conditional = row[column], self.conditional(column)
            if demanded is None or not demanded < 1e290:
                continue
            for sign in (1, -1):
                yield from self.keeps(column, sign * beyond(demanded, 1), conditional)
                if column == "demanded_by_theorem_a_layer" and calm and steps and demanded < 1e100:
                    least, _ = least_kept(t.layer.post, x, sign * demanded, self.as_long(), g, steps)
                    yield column + ", any branch as long", conditional, self.kept / least if least else np.inf, bool(self.kept > least * (1 + 1e-9)), "climbed"
            if column == "demanded_by_theorem_b":
                for _ in range(12):
                    q = np.linalg.qr(g.standard_normal((x.shape[1],) * 2))[0]
                    turned = type(t)(t.layer, t.x, t.o @ q, t.off + 1e-15 * length, t.loose)
                    other = Claims(turned, row, self.kept, g, 0)
                    yield from other.keeps(column + ", branch turned", g.choice((1, -1)) * beyond(demanded, 1), True)
        yield from self.directions(length, x, calm, steps)

    def as_long(self):
        """How long rows of a branch may be that turns no row by more than this one's largest turn (L7), epsilon being one more coordinate."""
        post, x, o = self.t.layer.post, self.t.x, self.t.o
        if post["norm_kind"] == "layernorm":
            x, o = x - x.mean(-1, keepdims=True), o - o.mean(-1, keepdims=True)
        own = x.shape[1] * np.longdouble(post["eps"])
        x2, o2 = (x * x).sum(-1, keepdims=True), (o * o).sum(-1, keepdims=True)
        return np.sqrt(np.maximum(((o2 + own) / x2).max() * x2 - own, 0)).astype(np.float64)

    def directions(self, length, x, calm, steps):
        row, t, g = self.row, self.t, self.g
        before, _ = Truth(t.layer, t.x, t.o * 0, 0).directions(1)
        before = before[0]
        for column, at in (("demanded_by_theorem_d", None), ("theorem_d_kept", t.layer.skip)):
            given, conditional = row[column], self.conditional(column)
            if given is None or not np.isfinite(before) or (at is None and not given < 1e290):
                continue
            share = np.longdouble(self.kept if at is None else given)
            for sign in (1, -1) if at is None else (1,):
                lams = sign * beyond(given, 1) if at is None else np.array([at], np.longdouble)
                value, off = t.directions(lams, conditional)
                yield from self.worst(column, share * before, value, off, lams, conditional)
                if calm and abs(lams[0]) < 1e100 and before > 1e-6:
                    least = drift(x, float(lams[0]), length, g, self.depths, False)
                    fails = share > least * (1 + 1e-9)
                    ratio = float(share / least) if least else np.inf if share else 0.0
                    yield column + ", any branch as long", conditional, ratio, bool(fails), f"{float(share)!r} left {least!r}"

    def all(self, rows, steps):
        yield from self.intervals(rows)
        yield from self.half_lines()
        yield from self.now()
        yield from self.theorems(steps)
