#!/usr/bin/env python3
"""Recompute the gradients of `rankscope probe --grad` from outside and look for a number that is false.

Usage: attack_gradients_stranger.py PROGRAM [--instances N] [--seed S] [--kinds K,K,...] [--work DIR]

Small random checkpoints (GPT-2, LLaMA/Qwen2 with grouped queries, Gemma 2, Jamba's attention, BERT, ALBERT, Mamba,
Mamba-2) are written in Hugging Face layouts and run with random inputs, losses and interventions. The same models,
written here from their definitions, are differentiated by PyTorch in float64, or by a small reverse mode over mpmath.

The rest of it is in attack_stranger: gradient_checkpoints.py, gradient_models.py.

Kinds: f64 and f32 (every row of tables gradients and gradient_ratios, run.loss, the findings' sentences), same (threads,
recompute, batch change no digit, or only rounding), random (G is solved for from values of the loss, then used), floor
(column at_floor of collapsed stacks in f32 and f64 against mpmath), residual (--precision residual against mpmath), near (the
same of tokens that enter nearly equal: only where asked for, since what the embedding rounds of them is not in column floor).
Counts that end in -shy are of rows at the floor that were right all the same: the floor is an estimate.
A mismatch is kept under DIR/found/N with its command line; exit status 1 when there is one.
"""
import argparse
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys

os.environ["OMP_NUM_THREADS"] = "1"
import mpmath
import numpy as np
import torch
from mpmath import mp, mpf

from attack_stranger.gradient_checkpoints import draw, write
from attack_stranger.gradient_models import Net, size

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


# ---- the program, and what is asked of it -----------------------------------------------------------------------------

class Attack:
    def __init__(self, a):
        self.a, self.rng, self.count, self.worst, self.found, self.notes = a, random.Random(a.seed), {}, {}, 0, {}
        os.makedirs(a.work, exist_ok=True)
        self.dir = os.path.join(a.work, "now")

    def run(self, samples, options, check=True):
        with open(os.path.join(self.dir, "t.json"), "w") as fp:
            json.dump(samples, fp)
        self.cmd = [self.a.program, "probe", self.dir, "--tokens", os.path.join(self.dir, "t.json"), "--grad", "--no-spectral", "-q",
                    "--json", os.path.join(self.dir, "out.json")] + options
        r = subprocess.run(self.cmd, capture_output=True, text=True, timeout=120)
        if r.returncode != 0:
            if check:
                self.mismatch("exit", f"exit status {r.returncode}: {r.stderr.strip()[:300]}")
            self.error = r.stderr
            return None
        with open(os.path.join(self.dir, "out.json")) as fp:
            return json.load(fp)

    def mismatch(self, kind, what):
        self.notes[kind] = self.notes.get(kind, 0) + 1
        print(f"MISMATCH {kind}: {what}\n  {' '.join(self.cmd)}", flush=True)
        if self.notes[kind] > 6:
            return
        self.found += 1
        to = os.path.join(self.a.work, "found", str(self.found))
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.dir, to)
        with open(os.path.join(to, "README"), "w") as fp:
            fp.write(f"{kind}: {what}\n{' '.join(self.cmd).replace(self.dir, to)}\n")

    def record(self, kind, error):
        self.worst[kind] = max(self.worst.get(kind, 0.), error)

    def fresh(self, families, small=False):
        shutil.rmtree(self.dir, ignore_errors=True)
        self.m, self.w = draw(self.rng, self.rng.choice(families), small)
        write(self.dir, self.m, self.w)
        return self.m, self.w

    def ids(self, rows=None):
        rng = self.rng
        return [[rng.randrange(self.m["vocab"]) for _ in range(rng.choice([1, 1, 2, 3, 5, 9]))] for _ in range(rows or rng.choice([1, 2, 3]))]

    def options(self, loss=True):
        """Options of the command line, and the same for Net."""
        rng, m, o, x = self.rng, self.m, {}, []
        ssm = m["family"] in ("mamba", "mamba2")
        head = m["family"] not in ("bert", "albert")
        o["loss"] = rng.choice(["lm", "class", "norm2"] if head else ["norm2"])
        x += ["--loss", o["loss"]]
        if o["loss"] == "class":
            o["target"] = rng.randrange(m["vocab"])
            x += ["--target", str(o["target"])]
        if o["loss"] == "norm2":
            o["at"] = rng.choice(["state", "final"] if head else ["state"])
            x += ["--loss-at", o["at"]]
        for name in ("freeze-attention", "freeze-norm"):
            if rng.random() < .2:
                o[name.replace("-", "_")] = True
                x += ["--" + name]
        if rng.random() < .2:
            x += ["--recompute"]
        if rng.random() < .3:
            x += ["--batch", "1"]
        variant = "full"
        if rng.random() < .5 and not ssm:
            variant = rng.choice(["san", "san+skip", "san+mlp", "pure", "mine"])
            o["variant"] = variant
            if variant in ("san", "san+skip", "pure"):
                o["no_mlp"] = True
            if variant in ("san", "san+mlp", "pure"):
                o["lam_mixer"] = 0.
            if variant == "pure":
                o["no_norm"] = True
            if variant == "mine":
                o["lam_mixer"] = o["lam_mlp"] = .5
                o["no_norm"] = True
            x += ["--variants", "full," + variant if variant != "mine" else "full,mine=lambda:0.5,no-norm"]
        else:
            if rng.random() < .3:
                lam = [rng.choice([0., .5, -1.5, 2.]) for _ in range(m["layers"])]
                if rng.random() < .5:
                    lam = lam[:1] * m["layers"]
                which = rng.choice(["", "mixer:"] + ([] if ssm else ["mlp:"]))
                x += ["--lambda", which + (",".join(map(str, lam)))]
                for k in ("mixer", "mlp"):
                    if which in ("", k + ":"):
                        o["lam_" + k] = lambda l, L, lam=lam: lam[l % len(lam)]
            if rng.random() < .3:
                text, f = rng.choice([("1/sqrt(L)", lambda l, L: L ** -.5), ("0", lambda l, L: 0.), ("(l+1)/L", lambda l, L: (l + 1) / L)])
                x += ["--residual-scale", text]
                o["alpha"] = f
            if rng.random() < .2 and not ssm:
                o["temperature"] = rng.choice([.25, 3.])
                x += ["--temperature", str(o["temperature"])]
            if rng.random() < .3 and not ssm:
                name, o["shape"] = rng.choice([("--center-attention", (0, 1, 1)), ("--shaped=.5,2,-1", (.5, 2, -1)),
                                               ("--uniform-attention", (0, 0, -1)), ("--attention-rescale=.75", (0, 1.75, .75))])
                x += name.split("=")
            if rng.random() < .2 and "lam_mixer" not in o and "lam_mlp" not in o:
                o["depth"] = rng.choice([1, 2, 3, 5])
                x += ["--depth", str(o["depth"])]
            if rng.random() < .15:
                o["no_norm"] = True
                x += ["--no-norm"]
            elif rng.random() < .2 and m["family"] != "gemma2":
                o["placement"] = rng.choice(["pre", "post"])
                x += ["--norm-placement", o["placement"]]
            if rng.random() < .1 and not ssm and o["loss"] != "lm":
                o["no_mask"] = True
                x += ["--no-mask"]
        return o, x

    def rows(self, r, variant=None):
        names = [v["variant"] for v in r["tables"]["gradients"]]
        variant = variant or names[-1]
        return variant, {(g["layer"], g["head"], g["parameter"]): g for g in r["tables"]["gradients"] if g["variant"] == variant}

    def compare(self, kind, r, o, total, want, tolerance, bottom):
        """Every row of gradients and gradient_ratios, and run.loss."""
        variant, rows = self.rows(r)
        top = max([x for x in want.values() if x == x], default=0.)
        got = r["run"]["loss"]["values"][variant]
        error = abs(got - total) / max(abs(total), 1e-300)
        if error > tolerance and abs(got - total) > tolerance * 10:
            self.mismatch(kind + "-loss", f"loss {got!r}, not {total!r} ({self.m['family']})")
        for key in sorted(set(rows) | set(want), key=str):
            if key not in rows or key not in want:
                x = want[key] if key in want else rows[key]["norm"]
                if x != 0 and not (x is not None and x < bottom * top):
                    self.mismatch(kind + "-rows", f"row {key} only {'here' if key in want else 'there'}, norm {x} ({self.m['family']}, {o})")
                continue
            g, x = rows[key], want[key]
            y = g["norm"]
            if y is None or abs(y - x) > tolerance * x + bottom * top:
                if not (g["at_floor"] and y is not None and y <= 1.01 * g["floor"]):
                    self.mismatch(kind + "-norm", f"{key}: norm {y}, not {x} (at_floor {g['at_floor']}, floor {g['floor']}, {self.m['family']}, {o})")
            elif x > 1e4 * bottom * top:
                self.record(kind + "-norm", abs(y - x) / x)
            if y and (abs(g["log10_norm"] - math.log10(y)) > 1e-9 or abs(g["rms"] / y * math.sqrt(self.entries(key)) - 1) > 1e-9):
                self.mismatch(kind + "-columns", f"{key}: {g}")
        for line in r["tables"].get("gradient_ratios", []):
            if line["variant"] != variant:
                continue
            for a in "QKV":
                x = want.get((line["layer"], None, f"mixer.{a.lower()}.weight"))
                y = line["log10_g" + a]
                if x and x > 1e5 * bottom * top and (y is None or abs(y - 2 * math.log10(x)) > 2 * tolerance + 1e-9):
                    self.mismatch(kind + "-ratios", f"log10_g{a} of layer {line['layer']}: {y}, not {2 * math.log10(x)}")
        self.sentences(kind, r)

    def entries(self, key):
        l, h, name = key
        m = self.m
        if name.endswith(("skip", "scale")):
            return 1
        plain = name if l is None and not name.startswith("layer.") else name.split(".", 2)[2].rsplit(".sum", 1)[0] if l is None else name
        plain = {"embedding.tokens.sum": "embedding.tokens", "head.decoder.weight": "embedding.tokens" if m["tied"] else name}.get(plain, plain)
        stored = None if l is None and not name.startswith("layer.") else 0
        for old, new in ((".before.", ".after."), (".after.", ".before.")):
            if (stored, plain) not in self.w:
                plain = plain.replace(old, new)
        n = self.w[stored, plain].numel()
        return n if h is None else n // (m["kv"] if name.startswith(("mixer.k", "mixer.v")) else m["h"])

    def layers(self, text, words, known):
        """The layers that a sentence lists behind some words."""
        found = re.search(words + r" layers? ([\d, to]*\d)", text)
        return sorted(set(self.numbers(found[1])) & set(known)) if found and known else []

    def sentences(self, kind, r, want=None):
        """gradient_summary, vanishing_qk_gradient, zero_gradient against the tables."""
        for f in r["tables"]["findings"]:
            if f["code"] != "gradient_summary" or "message" not in f or "every sample is one token" in f["message"]:
                continue
            v, text = f["variant"], f["message"]
            lines = [t for t in r["tables"].get("gradient_ratios", []) if t["variant"] == v]
            lost = {g["layer"] for g in r["tables"]["gradients"] if g["variant"] == v and g["head"] is None and g["at_floor"]
                    and g["parameter"] in ("mixer.q.weight", "mixer.k.weight")}
            known = {t["layer"]: min(t["log10_ratio_g%s_gV" % a] if t["log10_ratio_g%s_gV" % a] is not None else -math.inf for a in "QK")
                     for t in lines if t["log10_gV"] is not None}
            yes, no = [l for l, x in known.items() if x >= -6], [l for l, x in known.items() if x < -6]
            key = "".join(c for c in text.split(":", 1)[-1] if not c.isdigit())
            self.seen = getattr(self, "seen", {})
            self.seen.setdefault(key, (text, yes, no, lost))
            # What a layer's queries and keys do: learn, starve, or hide behind rounding.
            said = {word: self.layers(text, word, known) for word in ("learn in", "do not in", "whether they do in")}
            if "of every layer learn" in text:
                said["learn in"] = sorted(known)
            if "learn in no layer" in text:
                said["do not in"] = no
            if said != {"learn in": [l for l in yes if l not in lost], "do not in": no, "whether they do in": [l for l in yes if l in lost]}:
                self.mismatch(kind + "-summary", f"{text} / {known} at_floor {lost}")
        zero = {(g["variant"], g["layer"], g["parameter"]) for g in r["tables"]["gradients"]
                if g["norm"] == 0 and g["log10_norm"] is None and g["head"] is None}
        said = [f for f in r["tables"].get("findings", []) if f["code"] == "zero_gradient"]
        if bool(zero) != bool(said or [f for f in r["findings"] if f["code"] == "zero_gradient"]):
            self.mismatch(kind + "-zero", f"rows of norm 0: {sorted(zero, key=str)[:5]}, findings {said[:2]}")
        for f in [f for f in r["findings"] if f["code"] == "zero_gradient"]:
            self.zeros = getattr(self, "zeros", {})
            self.zeros.setdefault("".join(c for c in f["message"] if not c.isdigit())[-90:], f["message"])

    @staticmethod
    def ratio(want, l):
        q, k, v = (want[l, None, f"mixer.{x}.weight"] for x in "qkv")
        return float(2 * mpmath.log10(min(q, k) / v)) if v and q and k else -math.inf

    @staticmethod
    def numbers(text):
        out = []
        for part in text.replace(" and ", ",").split(","):
            ends = [e for e in part.split() if e.isdigit()]
            out += range(int(ends[0]), int(ends[-1]) + 1) if ends else []
        return sorted(out)

    # ---- kinds ----

    def f64(self, precision="f64"):
        self.fresh(["gpt2", "llama", "qwen2", "gemma2", "jamba", "bert", "albert", "mamba", "mamba2"])
        while precision == "f32" and self.m["d"] < 3:  # a LayerNorm of one or two entries has a gradient of 0 but for rounding
            self.fresh(["gpt2", "llama", "bert", "albert"])
        samples = self.ids()
        o, x = self.options()
        if o["loss"] == "lm" and all(len(s) < 2 for s in samples):
            samples.append([0, 1, 2])
        total, want = Net(self.m, self.w, o).gradients(samples)
        r = self.run(samples, ["--precision", precision, "--threads", "1"] + x)
        if r and all(v == v and v < 1e200 for v in want.values()):
            self.compare(precision, r, o, float(total.detach()), want, *((1e-8, 1e-13) if precision == "f64" else (1e-3, 1e-5)))

    def f32(self):
        self.f64("f32")

    def same(self):
        """No digit depends on threads, on --recompute, and beyond rounding none on the batch."""
        self.fresh(["gpt2", "llama", "gemma2", "jamba", "bert", "albert", "mamba", "mamba2"])
        samples = self.ids(3)
        samples[0] += [0, 1, 2]
        o, x = self.options()
        x = [y for y in x if y not in ("--recompute",)]
        p = ["--precision", self.rng.choice(["f32", "f64", "residual"])]
        runs = [self.run(samples, p + x + ["--threads", t] + y) for t, y in (("1", []), ("2", []), ("1", ["--recompute"]), ("2", ["--no-attention"]))]
        if all(runs):
            for i in (1, 2, 3):
                a, b = (json.dumps([q["tables"]["gradients"], q["tables"].get("gradient_ratios"), q["run"]["loss"]]) for q in (runs[0], runs[i]))
                if a != b:
                    self.mismatch("same", f"run {i} of (1 thread; 2; recompute; 2 without attention) differs from run 0 {p} {self.m['family']}")

    def random(self):
        """G of --loss random from values of the loss, of four tokens of width four, and then used."""
        p = ["--precision", "f64", "--threads", "1", "--loss", "random", "--seed", "5"]
        if not hasattr(self, "G"):
            A, b = [], []
            while len(A) < 20:
                self.fresh(["bert"], True)
                if self.m["d"] != 4:
                    continue
                s = [[self.rng.randrange(self.m["vocab"]) for _ in range(k)] for k in (1, 3)]
                net = Net(self.m, self.w, dict(loss="norm2"))
                net.gradients(s)
                A.append(np.concatenate([y.detach().as_subclass(torch.Tensor).numpy() for y in net.X]).ravel())
                b.append(self.run(s, p)["run"]["loss"]["values"]["full"])
            self.G, rest, rank, _ = np.linalg.lstsq(np.array(A), np.array(b), rcond=None)
            print("G solved for: rank", rank, "residual", np.abs(np.array(A) @ self.G - b).max(), "G", self.G[:3])
            self.G = torch.tensor(self.G.reshape(4, 4))
        while True:
            self.fresh(["gpt2", "bert", "jamba"], True)
            if self.m["d"] == 4:
                break
        samples = self.rng.choice([[[1, 2, 3, 0]], [[1], [2, 3, 0]], [[1, 1], [0, 4]], [[1], [2], [], [3, 4]]])
        o, x = dict(loss="random", G=self.G), []
        if self.rng.random() < .5 and self.m["family"] != "bert":
            o["at"], x = "final", ["--loss-at", "final"]
        total, want = Net(self.m, self.w, o).gradients(samples)
        r = self.run(samples, p + x + ["--batch", self.rng.choice("12")])
        if r:
            self.compare("random", r, o, float(total.detach()), want, 1e-7, 1e-11)

    def near(self):
        """Tokens that enter nearly equal, where the embedding's own doubles are what tells them apart."""
        self.residual(10. ** self.rng.uniform(-17, -8))

    def collapsed(self, precise, near=None):
        """A stack of attention, what of it the options leave, and its gradients by mpmath."""
        rng = self.rng
        self.fresh(["gpt2"] if near else ["gpt2", "bert", "jamba"], True)
        m, w = self.m, self.w
        scale = 10. ** rng.uniform(-1.5, .5)
        same, near = near, near or 10. ** rng.uniform(-6, 0)
        big = 10. ** rng.uniform(-1, 2)
        base = torch.randn(m["d"], generator=torch.Generator().manual_seed(rng.randrange(10**6)))
        for (l, name), t in w.items():
            if name in ("embedding.tokens", "embedding.positions"):
                if rng.random() < .7 or same:
                    t = big * (base + near * t) if name.endswith("tokens") else big * near * t
            elif name.split(".")[1] in "qk" and name.startswith("mixer"):
                t = t * scale
            w[l, name] = t.float().double()
        write(self.dir, m, w)
        n = rng.choice([2, 3, 4])
        samples = [[rng.randrange(m["vocab"]) for _ in range(n)] for _ in range(rng.choice([1, 1, 2]))]
        if same:
            samples = [[1] * n]
        o = dict(loss="norm2", at="state")
        x = ["--loss", "norm2"]
        mode = rng.choice(["pure", "pure", "san", "san+skip", "full"])
        o.update({"pure": dict(no_mlp=True, no_norm=True, lam_mixer=0.), "san": dict(no_mlp=True, lam_mixer=0.), "san+skip": dict(no_mlp=True),
                  "full": {}}[mode])
        x += ["--variants", mode]
        if rng.random() < .25:
            o["shape"] = (0, 1.75, .75)
            x += ["--attention-rescale", ".75"]
        elif rng.random() < .15:
            o["shape"] = (0, 1, 1)
            x += ["--center-attention"]
        if rng.random() < .2:
            o["no_mask"] = True
            x += ["--no-mask"]
        if rng.random() < .2:
            o["temperature"] = .125
            x += ["--temperature", ".125"]
        if not precise or mode not in ("pure", "san"):
            mp.dps = 150 if not precise else 300
        else:
            mp.dps = 100 + 25 * 3 ** min(m["layers"], 4)
        self.net = Net(m, w, o, True)
        return samples, o, x, self.net.gradients(samples)

    def floor(self):
        samples, o, x, (total, want) = self.collapsed(False)
        for p in ("f32", "f64"):
            r = self.run(samples, x + ["--precision", p, "--threads", "1"])
            if r:
                self.judge(f"floor-{p}", r, want, o)
                self.sentences(f"floor-{p}", r, want)

    def judge(self, kind, r, want, o):
        for key, g in self.rows(r)[1].items():
            if g["at_floor"] is None or key not in want or g["norm"] is None:
                continue
            y, x = mpf(10) ** mpf(g["log10_norm"]) if g["log10_norm"] is not None else mpf(0), want[key]
            y = y if kind.startswith("residual") else mpf(g["norm"])
            zero = x <= max(want.values()) * mpf(10) ** (-mp.dps * 3 // 4)
            error = float(abs(y - x) / x) if not zero else math.inf if y else 0.
            u = 6e-8 if "f32" in kind else 1.1e-16
            kind = kind.split("+")[0] + ("+kbias" if zero and key[2] == "mixer.k.bias" else "+zero" if zero else
                                         "+near" if "residual" in kind and 40 * u / self.net.near * 3 ** (key[0] or 0) > 1e-3 else
                                         "+logits" if u * self.net.logit > 1e-4 else "+centred" if o.get("shape") == (0, 1, 1) else
                                         "+near" if u / self.net.near > 1e-4 else "+tiny" if x < 1e-30 and "32" in kind else "")
            self.count[kind + "-rows"] = self.count.get(kind + "-rows", 0) + 1
            if not g["at_floor"]:
                self.record(kind, error if y or x > 1e-300 else 0)
                if error > .1:  # a norm just above its floor may be off by some per cent
                    self.mismatch(kind, f"{key}: norm {mpmath.nstr(y, 8)}, truth {mpmath.nstr(x, 8)}, not at_floor (floor {g['floor']}), "
                                  f"{self.m['family']} {o}")
            elif error < 1e-6 and not (zero and not y):
                self.notes[kind + "-shy"] = self.notes.get(kind + "-shy", 0) + 1  # the floor is an estimate, not a bound

    def residual(self, near=None):
        samples, o, x, (total, want) = self.collapsed(True, near)
        r = self.run(samples, x + ["--precision", "residual", "--threads", "1"])
        if r:
            self.judge("residual", r, want, o)
            self.sentences("residual", r, want)
            for key, g in self.rows(r)[1].items():
                if o.get("shape") != (0, 1, 1) and self.net.near > 1e-8 and not key[2].endswith(("skip", "scale")) and (
                        g["at_floor"] is None and key in want and g["log10_norm"] is not None) and (
                        want[key] > max(want.values()) * mpf(10) ** (-mp.dps // 2)):
                    error = float(abs(mpf(10) ** mpf(g["log10_norm"]) / want[key] - 1))
                    self.record("residual-others", error)
                    if error > 1e-6:
                        self.mismatch("residual-others", f"{key}: log10_norm {g['log10_norm']}, truth {mpmath.nstr(mpmath.log10(want[key]), 10)} {o}")


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("program")
    a.add_argument("--instances", type=int, default=20, help="of each kind")
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--kinds", default="f64,f32,same,random,floor,residual")
    a.add_argument("--work", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "attack_out"))
    a = a.parse_args()
    t = Attack(a)
    for kind in a.kinds.split(","):
        t.rng = random.Random(f"{a.seed} {kind}")
        for _ in range(a.instances):
            t.count[kind] = t.count.get(kind, 0) + 1
            getattr(t, kind)()
    print("instances", t.count, "\nworst relative difference", t.worst, "\nmismatches", t.notes)
    if a.instances >= 20:
        print(*(f"summary: {x}" for x in getattr(t, "seen", {}).values()), *(f"zero: {x}" for x in getattr(t, "zeros", {}).values()), sep="\n")
    return 1 if any(not kind.endswith("-shy") for kind in t.notes) else 0


if __name__ == "__main__":
    sys.exit(main())
