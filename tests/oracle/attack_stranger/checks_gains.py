"""What holds for every input: gains from the weights, theorems A, C and D, the consensus, and the reasons of nulls."""
import json
import os
import shutil
import tempfile
from collections import Counter, defaultdict

import numpy as np
from safetensors.numpy import load_file

from .architectures import first_rows
from .climb import climb, climb_gain
from .instances import Instance, Refused
from .mixers import linear_matrix, mixer_rows, mlp_rows, rms
from .theorems import drift, least_kept, own_norm, spread

np.seterr(all="ignore")


class Attack:
    def __init__(self, options):
        self.options = options
        self.best, self.where, self.count = defaultdict(float), {}, Counter()
        self.nulls, self.refused, self.violations, self.runs = defaultdict(Counter), Counter(), [], 0

    def note(self, it, column, ratio, what, row, limit=1 + 1e-12):
        key = column, it.kind
        self.count[key] += 1
        if not ratio <= self.best[key]:
            self.best[key], self.where[key] = ratio, it.seed
        if not ratio <= limit:
            self.violations.append((column, it.kind, it.seed))
            print(f"VIOLATION {column} {it.kind} seed {it.seed} layer {row['layer']} sample {row['sample']}: ratio {ratio:.15g}; {what}\n    {it.command()}\n"
                  f"    {json.dumps(getattr(it, 'arch', None))}", flush=True)
            if self.options.keep:
                target = os.path.join(self.options.keep, f"{column}.{it.kind}.{it.seed}")
                shutil.copytree(it.folder, target, dirs_exist_ok=True)
                json.dump({"row": row, "ratio": ratio, "command": it.command()}, open(os.path.join(target, "violation.json"), "w"), indent=1)

    def one(self, seed, kind):
        with tempfile.TemporaryDirectory() as folder:
            try:
                it = Instance(self.options, seed, kind, folder)
                taps_at = os.path.join(folder, "taps")
                it.run("probe", "--precision", "f64", "--taps", taps_at)
                result = it.run("certify", "--kept", repr(it.kept))
                fast = it.run("certify", "--kept", repr(it.kept), "--fast")
            except Refused as why:
                self.refused[f"{kind} {str(why).replace(folder, '')}"] += 1
                return
            self.runs += 1
            self.check(it, load_file(taps_at), result["tables"]["lambda"], fast["tables"]["lambda"])

    def check(self, it, taps, rows, fast):
        if "ids.json" in str(it.input):
            lengths = [len(t) for t in json.load(open(it.input[1]))]
        else:
            lengths = [taps["layer.0.block_out"].shape[1]] * len(taps["layer.0.block_out"])
        longest = max(lengths)
        done = set()
        for row, loose in zip(rows, fast):
            l, sample = row["layer"], row["sample"]
            layer, n = it.layers[l], lengths[sample]
            x = taps[f"layer.{l}.block_out"][sample, :n].astype(np.float64)
            o = taps[f"layer.{l + 1}.mixer_out"][sample, :n].astype(np.float64)
            mine = mixer_rows(layer, x[None])[0]
            miss = np.abs(mine - o).max() / (np.abs(mine).max() or 1)
            finite = np.isfinite(mine).all() and np.isfinite(o).all()
            self.count["definition agrees" if miss < 1e-8 else "DEFINITION DIFFERS" if finite else "not finite", it.kind] += 1
            if miss >= 1e-8 and finite:
                if self.count["DEFINITION DIFFERS", it.kind] < 4:
                    print(f"differs {it.kind} {it.seed} layer {l}: {miss:.3g} place {layer['place']}", flush=True)
                continue
            self.conditions(it, row, loose)
            if (l, "gain") not in done:
                done.add((l, "gain"))
                self.gains(it, row, layer, longest, x.shape[1])
            if finite and n > 1 and spread(x) > 0:
                self.reasons(it, loose, layer, x)
                self.theorems(it, row, loose, layer, x, o)

    def conditions(self, it, row, loose):
        for name in row:
            if not name.endswith("_conditional"):
                continue
            base = name[:-12]
            if row[name] is True and row.get(base) is not None:
                print(f"CONDITION {it.kind} {it.seed}: {base} is conditional and shown without --fast", flush=True)
        for base, why in (("weights_only_gain", "weights_only_gain_failed"), ("demanded_by_theorem_a", "theorem_a_failed"),
                          ("demanded_by_theorem_a_layer", "theorem_a_layer_failed"), ("demanded_by_theorem_d", "theorem_d_failed"),
                          ("theorem_d_kept", "theorem_d_kept_failed"), ("theorem_c_kept", "theorem_c_failed"), ("consensus_multiplier", "consensus_failed"),
                          ("mlp_weights_only_gain", "mlp_weights_only_gain_failed")):
            if loose.get(base) is None:
                self.nulls[base][f"{it.kind}: {loose.get(why)}"] += 1
                if not loose.get(why):
                    print(f"NULL WITHOUT REASON {it.kind} {it.seed} layer {row['layer']}: {base}", flush=True)
            elif loose.get(why):
                print(f"REASON BESIDE A VALUE {it.kind} {it.seed} layer {row['layer']}: {base} {loose[why]}", flush=True)
            else:
                self.nulls[base][f"{it.kind}: value, conditional {loose.get(base + '_conditional')}"] += 1

    def reasons(self, it, row, layer, x):
        """A hypothesis that is said to fail must fail."""
        d, gain = x.shape[1], row["weights_only_gain"]
        reason, holds = row["theorem_d_kept_failed"], False
        if reason == "(|lambda| - 1) min|h_i| > B" and gain is not None:
            room = (abs(layer["skip"]) - 1) * np.sqrt((x * x).sum(-1)).min()
            self.note(it, "null theorem_d_kept, room/B", room / (gain * np.sqrt(d)) if gain else 0, f"room {room}, gain {gain}", row, 1 + 1e-9)
        reason = row["theorem_a_layer_failed"]
        if reason and "without the branch" in reason:
            post = dict(layer, norm_kind=layer["post_kind"], eps=0.0)
            self.note(it, "null theorem_a_layer, left/kept", spread(own_norm(post, x)) / (it.kept * spread(x)), "the norm leaves more", row, 1 + 1e-9)
        for column, text, holds in (("theorem_d_failed", "a norm before the branch (pre-norm)", layer["place"] == "pre"),
                                    ("theorem_a_layer_failed", "a norm after the sum (post-norm)", layer["place"] == "post"),
                                    ("theorem_a_failed", "a norm after the sum (post-norm)", layer["place"] == "post"),
                                    ("weights_only_gain_failed", "a norm before the branch: else what it reads has no known length",
                                     layer["place"] in ("pre", "sandwich") or (layer["place"] == "post" and row["layer"] > 0)),
                                    ("weights_only_gain_failed", "no norm inside the branch", layer["place"] != "sandwich"),
                                    ("mlp_weights_only_gain_failed", "one MLP in the layer", "mlp" in layer),
                                    ("mlp_weights_only_gain_failed", "no norm inside the branch", layer["place"] != "sandwich"),
                                    ("consensus_failed", "a causal mixer: M lower triangular", layer["m"].get("causal")),
                                    ("weights_only_gain_failed", "a norm of each head and an output map behind linear attention",
                                     layer["m"].get("norm") and "o" in layer["m"])):
            if row[column] == text and holds:
                print(f"REASON THAT HOLDS {it.kind} {it.seed} layer {row['layer']}: {column} {text}; {layer['place']} {getattr(it, 'arch', '')}", flush=True)
        reason = row["theorem_c_failed"]
        if reason and "one sign" in reason and layer["kind"] == "linear_attention":
            sums = layer["skip"] + layer["branch"] * linear_matrix(layer["m"], x[None])[0, 0].sum(1)
            if (sums > 1e-9).all() or (sums < -1e-9).all():
                print(f"REASON THAT HOLDS {it.kind} {it.seed} layer {row['layer']}: sums {sums}", flush=True)

    def gains(self, it, row, layer, n, d):
        claimed = row["weights_only_gain"]
        if claimed:
            # a post-norm layer reads what a norm gave: any vector of that kind; the first one reads anything
            reads = dict(layer, times=layer["branch"])
            if layer["place"] == "post" and row["layer"] > 0:
                before = it.layers[row["layer"] - 1]
                reads.update(norm_kind=layer["post_kind"], g=before["mlp_g" if "mlp" in before else "g"] if "g" in before else 1)
            ratio, x = climb_gain(mixer_rows, reads, claimed, n, d, it.g, self.options, first_rows(layer["m"]))
            self.note(it, "weights_only_gain", ratio, f"claimed {claimed}, x {x.tolist() if x is not None and ratio > 1 else ''}", row, 1 + 1e-15)
        elif claimed == 0:
            self.note(it, "weights_only_gain is 0", 0.0, "", row)
        claimed = row["mlp_weights_only_gain"]
        if claimed and "mlp" in layer:
            reads = dict(layer)
            if layer["place"] == "post":
                reads.update(norm_kind=layer["post_kind"], mlp_g=layer.get("g", 1))
            ratio, x = climb_gain(mlp_rows, reads, claimed, 1, d, it.g, self.options, layer["mlp"]["up"])
            self.note(it, "mlp_weights_only_gain", ratio, f"claimed {claimed}, x {x.tolist() if x is not None and ratio > 1 else ''}", row, 1 + 1e-14)

    def theorems(self, it, row, loose, layer, x, o):
        options, g, d = self.options, it.g, x.shape[1]
        gain = row["weights_only_gain"]
        length = None if gain is None else gain * np.sqrt(d)
        # a number that is conditional is about the branch of this pass: attack_sets_stranger.py has it
        loose = {**loose, **{name: None for name in ("demanded_by_theorem_a", "demanded_by_theorem_a_layer", "demanded_by_theorem_d", "theorem_d_kept")
                             if loose.get(name + "_conditional")}}
        post = dict(layer, norm_kind=layer["post_kind"])
        for column, layers in (("demanded_by_theorem_a_layer", 1), ("demanded_by_theorem_a", len(it.layers))):
            demanded = loose[column]
            if demanded is None or length is None or not demanded < 1e290:
                continue
            for sign in (1, -1):
                if layers == 1:
                    least, _ = least_kept(post, x, sign * demanded, length, g, options.steps // 2)
                    self.note(it, column, it.kept / least if least else np.inf, f"kept {least} at {sign * demanded}", row, 1 + 1e-9)
        demanded = loose["demanded_by_theorem_d"]
        if demanded is not None and length is not None and demanded < 1e100:
            for sign in (1, -1):
                least = drift(x, sign * demanded, length, g, 60, False)
                self.note(it, "demanded_by_theorem_d", it.kept / least, f"kept {least} at {sign * demanded}", row, 1 + 1e-9)
                if layer["norm_kind"] == "layernorm":  # the directions that LayerNorm reads; the statement is about the rows as they are
                    self.note(it, "(theorem d, rows centred)", it.kept / drift(x, sign * demanded, length, g, 60, True), "", row, np.inf)
        kept = loose["theorem_d_kept"]
        if kept and length is not None:
            least = drift(x, layer["skip"], length, g, 60, False)
            self.note(it, "theorem_d_kept", kept / least, f"kept {kept}, found {least}", row, 1 + 1e-9)
        if layer["kind"] == "linear_attention":
            self.one_matrix(it, row, loose, layer, x)

    def one_matrix(self, it, row, loose, layer, x):
        kept, lead = loose["theorem_c_kept"], loose["consensus_multiplier"]
        if kept is None and lead is None:
            return
        if loose["theorem_c_kept_conditional"] is False:
            print(f"CONDITION {it.kind} {it.seed}: theorem_c_kept is called unconditional", flush=True)
        mix = linear_matrix(layer["m"], x[None])[0, 0]
        skip, w, n = layer["skip"], layer["branch"], len(x)
        post = dict(layer, norm_kind=layer["post_kind"])
        if kept is not None:
            y = own_norm(post, (skip * x + w * mix @ x).astype(np.longdouble))
            self.note(it, "theorem_c_kept (own X)", kept * float(spread(x.astype(np.longdouble))) / float(spread(y)), f"kept {kept}", row, 1 + 1e-9)
            # what LayerNorm takes away before anything else is no part of the statement
            x = x - x.mean(-1, keepdims=True) if layer["post_kind"] == "layernorm" else x
            lengths = np.sqrt((x * x).sum(-1, keepdims=True))

            def score(z):  # any states whose rows are as long and that differ as much: the epsilon is paid at this spread
                z = z - z.mean(-1, keepdims=True) if layer["post_kind"] == "layernorm" else z
                z = z / (np.sqrt((z * z).sum(-1, keepdims=True)) + 1e-300) * lengths
                left = spread(own_norm(post, skip * z + w * (mix @ z))) / spread(z)
                return np.where(spread(z) >= spread(x), kept / left, -1) if kept else spread(z) * 0
            begin = np.concatenate([x[None] + s * it.g.standard_normal((1,) + x.shape) for s in (0, 0.1, 1, 3, 10) * 4])
            best, _ = climb(score, begin, it.g, self.options.steps // 2)
            self.note(it, "theorem_c_kept (any X)", best, f"kept {kept}", row, 1 + 1e-9)
        if lead is not None:
            self.consensus(it, row, loose, layer, mix, x, lead)

    def consensus(self, it, row, loose, layer, mix, x, lead):
        skip, w, n = layer["skip"], layer["branch"], len(x)
        sums = skip + w * mix.sum(1)
        rates = np.abs((skip + w * np.diag(mix)) / sums)[1:]
        wrong = abs(rates.max() / lead - 1) if lead else float(rates.max())
        self.note(it, "consensus_multiplier error", wrong, f"claimed {lead}, found {rates.max()}", row, 1e-6)
        # small differences, followed through the linear part; tokens of sign sgn(D_i) are turned back, as M turns with its tokens
        d = x.shape[1]
        if d == 1 or lead > 1e6:
            return
        u = it.g.standard_normal(d)
        u = u / np.sqrt(u @ u) * np.sqrt(d)
        y = u + 1e-7 * it.g.standard_normal(x.shape)
        size = [spread(y)]
        for k in range(400):
            z = skip * y + w * mix @ y
            y = np.sign(sums)[:, None] * rms(z, 0)
            size.append(spread(y))
            if size[-1] > 1e-3 or size[-1] < 1e-13:
                break
        one_sign = (sums > 0).all() or (sums < 0).all()
        small = size[-1] < 1e-13 or size[-1] < size[0] * 1e-2
        went = "repelled" if size[-1] > 1e-3 or size[-1] > 100 * size[0] else ("equal" if one_sign else "sign") if small else "undecided"
        self.outcomes = getattr(self, "outcomes", Counter())
        self.outcomes[f"{loose['consensus_outcome']} / simulated {went}" + (f" at {lead:.3f}" if went == "undecided" else "")] += 1

    def show(self):
        print(f"{'column':34} {'kind':22} {'checks':>7} {'largest':>24}  seed")
        for key in sorted(self.count):
            near = 0.999999 < self.best[key] < 2
            best = np.format_float_positional(self.best[key], 20, unique=False, trim="-") if near else f"{self.best[key]:.6g}"
            print(f"{key[0]:34} {key[1]:22} {self.count[key]:7} {best:>24}  {self.where.get(key, '')}")
        for why, times in self.refused.most_common(12):
            print(f"refused {times}: {why}")
        for name, times in getattr(self, "outcomes", Counter()).most_common():
            print(f"outcome {times}: {name}")
        if self.options.nulls:
            for column in self.nulls:
                for why, times in sorted(self.nulls[column].items()):
                    print(f"{column}: {times} {why}")
