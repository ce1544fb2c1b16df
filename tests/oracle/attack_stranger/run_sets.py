"""Runs instances, checks their claims in both modes, tallies, and climbs from some of them."""
import json
import os
import random
import shutil
import tempfile
from collections import Counter, defaultdict

import numpy as np
from safetensors.numpy import load_file

from . import checks_graphs
from .checks_sets import Claims
from .instances import Refused
from .instances_of_sets import SetInstance
from .theorems import spread
from .truth import Truth, branch

MODES = {False: "default", True: "--fast"}


class Tally:
    def __init__(self):
        self.count, self.broken, self.largest, self.where, self.kinds = Counter(), Counter(), defaultdict(float), {}, defaultdict(Counter)

    def add(self, column, mode, ratio, violated, it):
        key = column, mode
        self.count[key] += 1
        self.broken[key] += violated
        self.kinds[column][it.kind] += 1
        if not float(ratio) <= self.largest[key]:
            self.largest[key], self.where[key] = float(ratio), f"{it.kind} {it.seed}"

    def show(self, by_kind):
        print(f"{'column':46} {'mode':22} {'claims':>8} {'broken':>6} {'largest':>20}  where")
        for key in sorted(self.count):
            print(f"{key[0]:46} {key[1]:22} {self.count[key]:8} {self.broken[key]:6} {self.largest[key]:20.15g}  {self.where.get(key, '')}")
        for column in sorted(self.kinds) if by_kind else ():
            print(f"{column}: " + ", ".join(f"{kind} {times}" for kind, times in sorted(self.kinds[column].items())))


class SetAttack:
    def __init__(self, options):
        self.options, self.tally, self.refused, self.agrees = options, Tally(), Counter(), Counter()
        self.runs, self.violations, self.near = 0, [], []

    def measure(self, it):
        """Claims of one instance as (column, mode, ratio); tallied."""
        taps_at = os.path.join(it.folder, "taps")
        it.run("probe", "--precision", "f64", "--taps", taps_at)
        taps = load_file(taps_at)
        tables = [it.run("certify", "--kept", repr(it.kept), *more)["tables"] for more in ((), ("--fast",))]
        self.runs += 1
        truths, out = {}, []
        for fast, result in zip((False, True), tables):
            cuts = defaultdict(list)
            for r in result["intervals"]:
                cuts[r["layer"], r["sample"]].append(r)
            for row in result["lambda"]:
                key = row["layer"], row["sample"]
                if key not in truths:
                    truths[key] = self.truth(it, taps, *key)
                if truths[key] is not None:
                    out += self.row(it, truths[key], row, cuts[key], fast)
        return out

    def truth(self, it, taps, l, sample):
        n = len(it.ids[sample]) if it.model else None
        x = taps[f"layer.{l}.block_out"][sample, :n].astype(np.float64)
        o = taps[f"layer.{l + 1}.mixer_out"][sample, :n].astype(np.float64)
        layer = it.layers[l]
        if not np.isfinite(x).all() or not np.isfinite(o).all():
            self.agrees["not finite", it.kind] += 1
            return None
        fine, off, gap, op = branch(layer, x)
        if not np.isfinite(fine).all() or not np.isfinite(off):
            self.agrees["not finite", it.kind] += 1
            return None
        top = np.abs(op).max()
        good = np.abs(op - o).max() <= 1e-9 * top + 1e4 * gap / (abs(layer.factor) or 1)
        self.agrees["definition agrees" if good else "DEFINITION DIFFERS", it.kind] += 1
        if not good:
            print(f"differs {it.kind} {it.seed} layer {l} sample {sample}: {np.abs(op - o).max() / top:.3g}", flush=True)
            return None
        if len(x) < 2 or not spread(x) > 0:
            return None
        if layer.beside:  # the tap is of the attention alone: the sum is told from the state behind
            after = taps[f"layer.{l + 1}.block_out"][sample, :n].astype(np.longdouble)
            expected = np.longdouble(layer.skip) * x.astype(np.longdouble) + fine
            good = np.abs(after - expected).max() <= 1e-9 * np.abs(fine).max() + 1e-14 * np.abs(expected).max() + 1e4 * gap
            self.agrees["sum of branches agrees" if good else "SUM OF BRANCHES DIFFERS", it.kind] += 1
            if not good:
                return None
        size = np.sqrt((fine ** 2).sum(-1)).max()
        t = Truth(layer, x, fine, off, 1e-9 * size + 100 * gap)
        own = None
        if layer.place != "sandwich" and not layer.beside:  # the pass's own branch, number for number
            given = np.longdouble(layer.factor) * o.astype(np.longdouble)
            own = Truth(layer, x, given, 0 if layer.factor == 1 else 2.0 ** -51 * size)
        return t, own, x

    def row(self, it, truths, row, cuts, fast):
        t, own, x = truths
        out, options = [], self.options
        g = np.random.default_rng([it.seed, row["layer"], row["sample"]])
        for truth, name in ((t, ""), (own, " (pass's O)")):
            if truth is None:
                continue
            claims = Claims(truth, row, it.kept, g, 20)
            for column, conditional, ratio, violated, words in claims.all(cuts, options.steps if not name and not fast else 0):
                if name and not conditional:
                    continue  # these are about the exact branch
                mode = MODES[fast] + (", conditional" if conditional else "") + name
                out.append(self.note(it, row, column, mode, ratio, violated, words))
        layer = it.layers[row["layer"]]
        if getattr(layer, "graph", None) is not None and not fast:
            matrix = layer.stacks[np.longdouble].graph_matrix(x.astype(np.longdouble), "")[0]
            found = [*checks_graphs.check_fixed(layer, matrix, row, x, g, 6 * options.steps),
                     *checks_graphs.check_theorem_c(layer, matrix, row, x, g, options.steps)]
            for column, _, ratio, violated, words in found:
                out.append(self.note(it, row, column, "default", ratio, violated, words))
                if column.endswith("kept, climbed"):
                    self.near.append((float(row["mean_share"]), float(ratio), f"{it.kind} {it.seed} of {len(x)} tokens: {words}"))
        return out

    def note(self, it, row, column, mode, ratio, violated, words):
        self.tally.add(column, mode, ratio, violated, it)
        if violated:
            self.violations.append((column, it.kind, it.seed))
            if self.tally.broken[column, mode] <= 5:
                print(f"VIOLATION {column} ({mode}) {it.kind} seed {it.seed} layer {row['layer']} sample {row['sample']}: ratio {float(ratio):.17g}; {words}\n"
                      f"    {it.command()}\n    {json.dumps(getattr(it, 'arch', None))}", flush=True)
                if self.options.keep:
                    target = os.path.join(self.options.keep, f"{column}.{it.kind}.{it.seed}".replace(" ", "_").replace("'", ""))
                    shutil.copytree(it.folder, target, dirs_exist_ok=True)
                    json.dump({"row": row, "ratio": float(ratio), "words": words, "command": it.command()}, open(target + "/violation.json", "w"), indent=1)
        return column, mode, float(ratio)

    def one(self, seed, kind):
        with tempfile.TemporaryDirectory() as folder:
            try:
                it = SetInstance(self.options, seed, kind, folder)
                found = self.measure(it)
                if it.model and self.options.climb and random.Random(seed).randrange(self.options.every) == 0:
                    self.climb(it, found)
            except Refused as why:
                self.refused[f"{kind} {str(why).replace(folder, '')}"] += 1

    def climb(self, it, found):
        """Small changes of weights and states that bring one claim nearer to the truth."""
        wanted = sorted({(column, mode) for column, mode, ratio in found if 0 < ratio < 1 and column[0] != "(" and "too near" not in column})
        if not wanted:
            return
        g = it.g
        column = wanted[g.integers(len(wanted))]

        def score(found):
            return max((ratio for c, m, ratio in found if (c, m) == column), default=-1)
        best, size = score(found), 0.3
        for _ in range(self.options.climb):
            kept = {name: w.copy() for name, w in it.model.w.items()}
            it.nudge(g, size)
            try:
                it.write()
                now = score(self.measure(it))
            except Refused:
                now = -1
            if now >= best:
                best, size = now, min(1, size * 1.5)
            else:
                it.restore(kept)
                size *= 0.7
        self.tally.add(f"climbed: {column[0]}", column[1], best, False, it)

    def show(self):
        self.tally.show(self.options.kinds)
        for (name, kind), times in sorted(self.agrees.items()):
            print(f"{name}: {kind} {times}")
        for why, times in self.refused.most_common(12):
            print(f"refused {times}: {why}")
        for low, high in ((0, 1e3), (1e3, 1e6), (1e6, np.inf)):
            ratios = [ratio for share, ratio, _ in self.near if low <= share < high]
            if ratios:
                quantiles = np.round(np.quantile(ratios, (0, 0.05, 0.25, 0.5, 0.75, 1)), 6)
                print(f"fixed_mixing_kept, claimed/climbed, mean_share {low:g} to {high:g}, {len(ratios)} cases: quantiles 0 .05 .25 .5 .75 1: {quantiles}")
        for share, ratio, words in sorted(t for t in self.near if t[1] < 0.95 and t[0] < 1e3)[:self.options.far]:
            print(f"fixed_mixing_kept is {ratio:.4g} of what was climbed: {words}")
