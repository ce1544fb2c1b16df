"""What every certified column claims, checked row by row against the exact layers.

Each check yields (column, ratio, violated, what): ratio is claimed over true, turned so that more than 1 is a violation; `violated` is decided by balls.
A value that the program itself labels conditional yields the column's name with "(conditional)" behind it, and is never a violation.
"""

import math

import numpy as np
from flint import arb

from . import model
from .numbers import Balls as B


def number(v):
    return arb(float(v))


def above(row, name, log_name):
    """A claimed bound as a ball: the plain column, or the logarithm where it left the doubles."""
    if row.get(name) is not None:
        return number(row[name])
    log = row.get(log_name)
    return None if log is None else (number(log) * arb(10).log()).exp() * (1 + arb(0, 1e-12))


def ratio(a, b):
    if not (a.is_finite() and b.is_finite()):
        return 0.0  # a row without a norm has no truth to compare with
    if b.contains(0):
        return math.inf if a > b else 0.0
    return float((a / b).mid())


class Truth:
    """Exact layers from the tapped states of one instance; what was worked out is kept, since both modes ask for it."""

    def __init__(self, inst, taps):
        self.inst, self.layers = inst, inst.layers()
        self.taps, self.exact = taps, [B.of(t) for t in taps]
        self.memory = {}

    def keep(self, key, make):
        if key not in self.memory:
            self.memory[key] = make()
        return self.memory[key]

    def behind(self, source, layer):
        """The exact state behind `layer` of the chain that starts from the tapped state that enters `source`."""
        def make():
            before = self.exact[source] if layer == source else self.behind(source, layer - 1)
            if layer == source and not self.layers[layer].parallel:
                one, y = self.layers[layer], self.mixed(layer)
                return y if one.mlp is None else one.mlp(y)
            return self.layers[layer](before)
        return self.keep(("behind", source, layer), make)

    def diameter(self, source, layer):
        return self.keep(("diameter", source, layer), lambda: model.diameter(self.behind(source, layer)))

    def composite(self, source, layer):
        return self.keep(("composite", source, layer), lambda: model.composite(self.behind(source, layer)))

    def branch(self, layer):
        """O: all that adds to the mixer's skip what it reads of the same tokens."""
        def make():
            one, x = self.layers[layer], self.exact[layer]
            o = one.mixer.branch(x)
            return o + one.mlp.branch(x) if one.parallel and one.mlp is not None else o
        return self.keep(("branch", layer), make)

    def mixed(self, layer):
        def make():
            mixer = self.layers[layer].mixer
            return mixer.behind(self.exact[layer], self.branch(layer), mixer.skip)
        return self.keep(("mixed", layer), make)

    def spread(self, layer):
        return self.keep(("spread", layer), lambda: model.spread(self.exact[layer]))

    def kept(self, layer, sample, skip, norm=True):
        """mu behind the mixer with this skip strength, of one sample."""
        mixer = self.layers[layer].mixer
        x, o = self.exact[layer][sample:sample + 1], self.branch(layer)[sample:sample + 1]
        y = x * number(skip) + o
        return model.spread(mixer.after(y) if norm and mixer.after else y)[0]


def conditional(row, name, inst, rigorous):
    """The flag beside the column; older results have one flag, of certified_diameter, and a finding."""
    name = {"kept_now": "kept_now_error"}.get(name, name)
    if name + "_conditional" in row:
        return bool(row[name + "_conditional"])
    if "conditional" not in row:
        return False
    if name == "certified_from_input":
        return row["layer"] > 0 if not rigorous else bool(row["conditional"])
    return bool(row["conditional"]) and name in ("certified_diameter", "certified_one_layer")


def upper(truth, row, name, log, exact):
    claim = above(row, name, log)
    if claim is not None:
        yield name, ratio(exact, claim), bool(exact > claim), {"claimed": float(claim.mid()), "true": float(exact.mid())}


def bounds(truth, row, rigorous):
    s, l = row["sample"], row["layer"]
    for name, log, source in (("certified_diameter", "log10_certified", row.get("source_layer")),
                              ("certified_one_layer", "log10_certified_one_layer", l),
                              ("certified_from_input", "log10_certified_from_input", 0)):
        if source is not None and above(row, name, log) is not None:
            yield from upper(truth, row, name, log, truth.diameter(source, l)[s])
    claim = above(row, "certified_at_least", "log10_certified_at_least")
    if claim is not None and row.get("at_least_by") == "enclosure" and row.get("certified_at_least"):
        measured = model.diameter(truth.exact[l + 1][s:s + 1])[0]
        off, room = measured - truth.diameter(l, l)[s], measured - claim  # how much of the room for rounding is used
        yield "room of enclosure", ratio(off, room), False, {}
    if claim is not None:
        exact = truth.diameter(l, l)[s]
        yield "certified_at_least", ratio(claim, exact), bool(claim > exact), {"claimed": float(claim.mid()), "true": float(exact.mid()),
                                                                                "by": row.get("at_least_by")}
    for name, log, source in (("recursion", "log10_recursion", 0), ("recursion_one_layer", "log10_recursion_one_layer", l)):
        if above(row, name, log) is not None:
            yield from upper(truth, row, name, log, truth.composite(source, l)[s])
    if row.get("published_valid") and above(row, "published", "log10_published") is not None:
        yield from upper(truth, row, "published", "log10_published", truth.composite(0, l)[s])


def keeps(truth, layer, sample, skip, kept, norm=True):
    """(share that is asked for over what is left, is it certainly less)"""
    left, asked = truth.kept(layer, sample, skip, norm), truth.spread(layer)[sample] * number(kept)
    return ratio(asked, left), bool(left < asked)


FARTHER = (0.0, 1e-7, 0.1, 6.0, 1e4)


def from_there_on(truth, row, name, value, outwards, kept, norm=True):
    """A claim of all skip strengths from value on, upwards or downwards."""
    worst, violated, at = 0.0, False, None
    for step in FARTHER:
        skip = value + outwards * step * abs(value)
        if not math.isfinite(skip):
            continue
        r, v = keeps(truth, row["layer"], row["sample"], skip, kept, norm)
        if r > worst or v and not violated:
            worst, violated, at = r, violated or v, skip
    yield name, worst, violated, {"claimed": value, "at": at, "kept": kept}


def directions(y):
    """mu of the tokens scaled to length 1."""
    return model.spread(y / B.sqrt((y * y).sum(-1, keepdims=True)))[0]


def every_input(truth, row):
    """L13, L19 and theorem D at the model's own skip: the sample at hand is one of all inputs, its layer one depth of all."""
    s, l = row["sample"], row["layer"]
    layer, x, o = truth.layers[l], truth.exact[l][s:s + 1], truth.branch(l)[s:s + 1]
    claim = row.get("mlp_weights_only_gain")
    if claim is not None and layer.mlp is not None:
        read = x if layer.parallel else truth.mixed(l)[s:s + 1]
        out = layer.mlp.branch(read)[0]
        longest = B.largest(list(B.sqrt((out * out).sum(-1)))) / arb(out.shape[-1]).sqrt()
        yield "mlp_weights_only_gain", ratio(longest, number(claim)), bool(longest > number(claim)), {"claimed": claim, "true": float(longest.mid())}
    y = x * number(layer.mixer.skip) + o
    for name, before, behind in (("kept_for_any_input", truth.spread(l)[s], lambda: model.spread(y)[0]),
                                 ("theorem_d_kept", None, lambda: directions(y))):
        if row.get(name) is None:
            continue
        asked, left = (directions(x) if before is None else before) * number(row[name]), behind()
        yield name, ratio(asked, left), bool(left < asked), {"claimed": row[name], "left": float(left.mid())}


def theorem_d(truth, layer, sample, value, kept):
    """One layer of L9: what is kept is the spread of the tokens scaled to length 1."""
    x, o = truth.exact[layer][sample:sample + 1], truth.branch(layer)[sample:sample + 1]
    asked, worst, violated, at = directions(x) * number(kept), 0.0, False, None
    for step in FARTHER:
        for sign in (1, -1):
            skip = sign * value * (1 + step)
            left = directions(x * number(skip) + o)
            if ratio(asked, left) > worst:
                worst, violated, at = ratio(asked, left), violated or bool(left < asked), skip
    return "demanded_by_theorem_d", worst, violated, {"claimed": value, "at": at, "kept": kept}


def strengths(truth, row, rigorous):
    """Table lambda."""
    s, l, kept = row["sample"], row["layer"], truth.inst.kept
    low, high = row.get("lambda_exact_low"), row.get("lambda_exact_high")
    for name, value, outwards in (("lambda_exact_low", low, -1), ("lambda_exact_high", high, 1)):
        if value is None:
            continue
        worst, violated, at = 0.0, False, None
        for step in (0.0, 1e-9, 0.1, 10.0):
            skip = value + outwards * step * (abs(value) + (high - low if low is not None and high is not None else 0))
            if math.isfinite(skip):
                r, v = keeps(truth, l, s, skip, kept, False)
                if r > worst or v:
                    worst, violated, at = r, violated or v, skip
        yield name, worst, violated, {"claimed": value, "at": at, "kept": kept}
    now, error = row.get("kept_now"), row.get("kept_now_error")
    if now is not None and error is not None:
        exact = truth.mixed(l)[s:s + 1]
        base = truth.spread(l)[s]
        off = abs(model.spread(exact)[0] / base - number(now)) if base > 0 else number(0)
        if error < 0 or base > 0 and off.is_finite():
            yield "kept_now", ratio(off, number(error)) if error >= 0 else math.inf, error < 0 or bool(off > number(error)), {
                "kept_now": now, "error": error, "off by": float(off.mid())}
    for name, outwards in (("lambda_certified", 1), ("lambda_certified_negative", -1)):
        if row.get(name) is not None:
            yield from from_there_on(truth, row, name, row[name], outwards, kept)
    for name, failed in (("demanded_by_theorem_a", "theorem_a_failed"), ("demanded_by_theorem_a_layer", "theorem_a_layer_failed"),
                         ("demanded_by_theorem_b", "theorem_b_failed")):
        if row.get(name) is not None and not row.get(failed):
            for sign in (1, -1):
                yield from from_there_on(truth, row, name, sign * row[name], sign, kept)
    if row.get("demanded_by_theorem_d") is not None and not row.get("theorem_d_failed"):
        yield theorem_d(truth, l, s, row["demanded_by_theorem_d"], kept)
    if row.get("demanded_for_any_input") is not None:
        for sign in (1, -1):
            yield from from_there_on(truth, row, "demanded_for_any_input", sign * row["demanded_for_any_input"], sign, kept, False)
    yield from every_input(truth, row)
    if row.get("weights_only_gain") is not None:
        o = truth.branch(l)[s]
        longest = B.largest(list(B.sqrt((o * o).sum(-1)))) / arb(o.shape[-1]).sqrt()
        claim = number(row["weights_only_gain"])
        yield "weights_only_gain", ratio(longest, claim), bool(longest > claim), {"claimed": row["weights_only_gain"], "true": float(longest.mid())}
    if row.get("over_smoothing_v") is not None:
        left, claim = model.spread(truth.behind(l, l))[s], number(row["over_smoothing_v"]) * truth.spread(l)[s]
        yield "over_smoothing_v", ratio(left, claim), bool(left > claim), {"claimed": row["over_smoothing_v"],
                                                                           "true": ratio(left, truth.spread(l)[s])}


def worst_over_samples(truth, tables):
    """Tables summary and chains: one number for all samples."""
    samples = range(truth.exact[0].shape[0])
    sources = {(r["sample"], r["layer"]): r.get("source_layer") for r in tables["bounds"]}
    for row in tables.get("summary", []):
        l = row["layer"]
        claim = above(row, "at_most", "log10_at_most")
        if claim is not None:  # a sample without a certificate has its own layer to answer for
            start = [l if sources.get((s, l)) is None else sources[s, l] for s in samples]
            exact = B.largest([truth.diameter(start[s], l)[s] for s in samples])
            yield "summary at_most", ratio(exact, claim), bool(exact > claim), {"claimed": float(claim.mid()), "layer": l}
        if row.get("at_least") is not None:
            exact, claim = B.smallest(list(truth.diameter(l, l))), number(row["at_least"])
            yield "summary at_least", ratio(claim, exact), bool(claim > exact), {"claimed": row["at_least"], "layer": l}
    floor = {(r["sample"], r["layer"] + 1) for r in tables["bounds"] if r["at_floor"]}
    for row in tables.get("chains", []):
        source = row["source_layer"]
        every = truth.diameter(source, row["layer"])
        some = [v for s, v in enumerate(every) if (s, source) not in floor]
        for name, log in (("certified_diameter", "log10_certified"), ("weights_only", "log10_weights_only")):
            claim = above(row, name, log)
            for what, values in ((name, some), (name + " (samples at the floor too)", list(every))):
                if claim is not None and values:
                    exact = B.largest(values)
                    yield "chains " + what, ratio(exact, claim), bool(exact > claim), {**row, "true": float(exact.mid())}


def points(row, rng):
    low, high = row.get("low"), row.get("high")
    if low is None and high is None:
        return [0.0, 1.0, -1.0, 100.0]
    if low is None:
        return [high, high - 1e-9 * abs(high), high - 1 - abs(high), high - 1e6]
    if high is None:
        return [low, low + 1e-9 * abs(low), low + 1 + abs(low), low + 1e6]
    width = high - low
    return [low, high, low + 0.5 * width, low + rng.random() * width]


def intervals(truth, row, rng):
    s, l, kept, answer = row["sample"], row["layer"], truth.inst.kept, row["answer"]
    if answer == "unknown":
        return
    asked = truth.spread(l)[s] * number(kept)
    worst, violated, at = 0.0, False, None
    for skip in points(row, rng):
        left = truth.kept(l, s, skip)
        r, v = (ratio(asked, left), bool(left < asked)) if answer == "yes" else (ratio(left, asked), bool(left >= asked))
        if r > worst or v and not violated:
            worst, violated, at = r, violated or v, skip
    yield "answer_" + answer, worst, violated, {"low": row.get("low"), "high": row.get("high"), "at": at, "kept": kept}


def check(truth, result, rigorous, rng, share=1.0):
    """Every claim of one result. share: of the rows of intervals, which are many, this many are looked at."""
    tables, inst = result["tables"], truth.inst
    for row in tables["bounds"]:
        for name, r, violated, what in bounds(truth, row, rigorous):
            soft = conditional(row, name, inst, rigorous)
            yield name + " (conditional)" if soft else name, r, violated and not soft, {**what, "sample": row["sample"], "layer": row["layer"]}
    if len(truth.layers) <= 6:
        yield from worst_over_samples(truth, tables)
    for row in tables["lambda"]:
        for name, r, violated, what in strengths(truth, row, rigorous):
            soft = conditional(row, name, inst, rigorous)
            yield name + " (conditional)" if soft else name, r, violated and not soft, {**what, "sample": row["sample"], "layer": row["layer"]}
    for row in tables["intervals"]:
        if rng.random() < share:
            for name, r, violated, what in intervals(truth, row, rng):
                soft = bool(row.get("answer_conditional"))
                yield name + " (conditional)" if soft else name, r, violated and not soft, {**what, "sample": row["sample"], "layer": row["layer"]}


def finite(taps):
    return all(np.isfinite(v).all() for v in taps)


def same_states(truth, result):
    """The taps have to be the states of the certified pass."""
    for row in result["tables"]["bounds"]:
        x = truth.taps[row["layer"] + 1][row["sample"]]
        size = np.sqrt(((x[:, None] - x[None])**2).sum(-1)).max()
        if abs(size - (row["measured_diameter"] or 0)) > 1e-12 * size + 1e-150:
            raise AssertionError(f"states of probe and certify differ: {size} and {row['measured_diameter']}")
