#!/usr/bin/env python3
"""Recompute the tables of `rankscope probe --relevance` from outside and look for a number that is false.

Usage: attack_relevance_stranger.py PROGRAM [--weights ARCH_WEIGHTS] [--instances N] [--seed S] [--kinds K,K,...] [--work DIR]

Kinds: arch (architecture files of every mixer; ARCH_WEIGHTS is built from tests/oracle/arch_weights.c: scripts/build.sh release
--only arch_weights), checkpoint (those of attack_gradients_stranger.py), transformers (small models of that library, whose own
code is differentiated with the rules put in), same (threads, --recompute, --batch), bad (requests that must be refused with a
hint). The models are in attack_stranger: relevance_models.py, relevance_transformers.py; most instances are of f64, others of f32.

Compared: relevance and gradient x input of every token, f, its token and output, sums, bias shares, deviation, profile cosines,
effective tokens at every cut, and the curves of table removal for relevance, gradient x input and rollout where no two scores tie.
A mismatch is kept under DIR/found/N with its command line; exit status 1 when there is one.
"""
import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys

os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np
import torch
from safetensors.numpy import load_file

from arch_files import MIXERS, drawn_weights, meaning
from attack_gradients_stranger import Attack as Gradients
from attack_stranger.gradient_checkpoints import draw, write
from attack_stranger.relevance_models import Relevant, Stack

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
FAMILIES = ["gpt2", "llama", "qwen2", "gemma2", "jamba", "bert", "albert", "mamba", "mamba2"]


def plain(x):
    return x.detach().as_subclass(torch.Tensor).numpy()


def gradients(f, wanted):
    found = torch.autograd.grad(f, wanted, retain_graph=True, allow_unused=True)
    return [np.zeros(tuple(x.shape)) if g is None else plain(g) for g, x in zip(found, wanted)]


class Truth:
    """What is to be found of one sample; net has fresh(hold), states, head, final, biases, causal."""

    def __init__(self, net, x0, target=None):
        self.net, self.n = net, len(x0)
        self.row = self.n - 1 if net.causal else 0
        self.hold(False)
        X = net.states(x0)
        z = net.head(X[-1])
        self.output = None
        self.gap = math.inf
        if z is not None:
            z = plain(z)[self.row]
            self.output = int(np.argmax(z)) if target is None else target
            self.gap = z[self.output] - max([y for i, y in enumerate(z) if i != self.output], default=-math.inf) if target is None else math.inf
        f = self.value(X, self.row)
        self.f = float(f.detach())
        g = gradients(f, X[:1])[0]
        self.gi, self.gi_terms = (plain(X[0]) * g).sum(1), np.abs(plain(X[0]) * g).sum()
        self.rollout = None
        if self.net.maps and len(self.net.maps) == len(X) - 1:
            A = np.eye(self.n)
            for m in net.maps:
                A = (plain(m) + np.eye(self.n)) / 2 @ A
            self.rollout = A[self.row]
        self.hold(True)
        X = net.states(x0)
        ends = [self.back(X, self.row), self.back(X, self.n - 1 - self.row)]
        self.R, self.G, self.bias, self.terms, self.memory = ends[0]
        self.other = ends[1][0]
        self.sizes = [np.abs(plain(x) * g).sum() for x, g in zip(X, self.G)]
        self.other_sizes = ends[1][3]
        self.state = [plain(x) for x in X]

    def hold(self, hold):
        if hasattr(self.net, "fresh"):
            self.net.fresh(hold)
        self.net.hold = hold

    def value(self, X, row):
        z = self.net.head(X[-1])
        if z is not None:
            return z[row, self.output]
        y = self.net.final(X[-1])[row]
        if not self.net.hold:
            return y.square().sum().sqrt()
        size = y.detach().square().sum().sqrt()
        return (y * (y.detach() / size if size > 0 else 0 * y.detach())).sum()

    def back(self, X, row):
        f = self.value(X, row)
        biases, memories = self.net.biases(), getattr(self.net, "memories", [])
        G = gradients(f, X + [t for _, t in biases + memories])
        of = [(l, plain(t) * g) for (l, t), g in zip(biases + memories, G[len(X):])]
        of, read = of[:len(biases)], of[len(biases):]
        R, share, terms, memory = [], [], [], []
        for cut, x in enumerate(X):
            xg = plain(x) * G[cut]
            above = [y for l, y in of if l is None or l >= cut]
            R.append(xg.sum(1))
            share.append(sum(y.sum() for y in above))
            terms.append(np.abs(xg).sum() + sum(np.abs(y).sum() for y in above))
            memory.append(sum(y.sum() for l, y in read if l >= cut) if memories else None)
            terms[-1] += abs(memory[-1] or 0)
        return R, G[:len(X)], share, terms, memory

    def again(self, x0):
        """f of other tokens in the same place."""
        self.hold(False)
        return float(self.value(self.net.states(x0), self.row).detach())


def effective(g):
    s = np.sqrt((g * g).sum(1))
    return s.sum() ** 2 / (s * s).sum() if s.any() else None


def cosine(a, b):
    m = max(np.abs(a).max(), 1e-300), max(np.abs(b).max(), 1e-300)
    a, b = a / m[0], b / m[1]
    return (a @ b) / math.sqrt((a @ a) * (b @ b)) if a.any() and b.any() else None


class Attack(Gradients):
    def run(self, path, inputs, options, check=True, threads=1):
        self.cmd = [self.a.program, "probe", path] + inputs + ["--relevance", "--no-spectral", "--no-attention", "--no-mixing", "--no-loss", "-q",
                                                               "--threads", str(threads), "--json", os.path.join(self.dir, "out.json")] + options
        r = subprocess.run(self.cmd, capture_output=True, text=True, timeout=120)
        self.error = r.stderr
        if r.returncode != 0:
            if check:
                self.mismatch("exit", f"exit status {r.returncode}: {r.stderr.strip()[:300]}")
            return None
        with open(os.path.join(self.dir, "out.json")) as fp:
            return json.load(fp)

    leaks = []

    def clear(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)

    def near(self, kind, what, got, want, size, tolerance, rounded=()):
        """got within tolerance of the terms' size, or within what rounding does to it."""
        if got is None or want is None:
            if not (got is None and want is None):
                self.mismatch(kind, f"{what}: {got}, not {want}")
            return
        error = abs(got - want) / size if size > 0 else abs(got - want)
        if not math.isfinite(want):
            return
        if rounded:
            loss = max(abs(want - y) if y is not None else math.inf for y in rounded) / (size or 1.)
            if loss > 1e-3:
                self.lost = getattr(self, "lost", 0) + 1
                return
            tolerance = max(tolerance, 100 * loss)
        self.record(kind, error)
        if not error <= tolerance:
            self.mismatch(kind, f"{what}: {got!r}, not {want!r} (off by {error:.2g} of {size:.3g})")

    def compare(self, tag, r, truths, f32, variant, stand=None):
        """truths: of each sample, None for empty ones."""
        t = {name: [x for x in r["tables"].get(name, []) if x["variant"] == variant] for name in ("relevance", "conservation", "removal")}
        tol = 2e-4 if f32 else 1e-10
        p = tag + ("-f32" if f32 else "")
        for i, T in enumerate(truths):
            rows, cuts = ([x for x in t[name] if x["sample"] == i] for name in ("relevance", "conservation"))
            if T is None:
                if rows or cuts:
                    self.mismatch(p + "-rows", f"rows of empty sample {i}")
                continue
            if len(rows) != T.n or len(cuts) != len(T.R) or [x["token"] for x in rows] != list(range(T.n)):
                self.mismatch(p + "-rows", f"sample {i}: {len(rows)} tokens, {len(cuts)} cuts, not {T.n}, {len(T.R)}")
                continue
            if T.gap < (1e-4 if f32 else 1e-9) * max(T.terms):
                continue  # which output is the largest is rounding
            for x in cuts:
                if x["explained_token"] != T.row or x["output"] != T.output:
                    self.mismatch(p + "-which", f"sample {i}: explains {x['explained_token']}, {x['output']}, not {T.row}, {T.output}")
            if any(x["explained_token"] != T.row or x["output"] != T.output for x in cuts):
                continue
            N = getattr(T, "noisy", ())
            for j, x in enumerate(rows):
                self.near(p + "-relevance", f"sample {i} token {j}", x["relevance"], T.R[0][j], T.terms[0], tol, [y.R[0][j] for y in N])
                self.near(p + "-gradient_input", f"sample {i} token {j}", x["gradient_input"], T.gi[j], max(T.gi_terms, T.terms[0]), tol, [y.gi[j] for y in N])
            for l, x in enumerate(cuts):
                what = f"sample {i} cut {l}"
                self.near(p + "-f", what, x["explained"], T.f, max(abs(T.f), 1e-3 * T.terms[-1]), tol, [y.f for y in N])
                self.near(p + "-sum", what, x["sum"], T.R[l].sum(), T.terms[l], tol, [y.R[l].sum() for y in N])
                if T.f:
                    self.near(p + "-bias", what, x["bias_share"], T.bias[l] / T.f, T.terms[l] / abs(T.f), 10 * tol, [y.bias[l] / y.f for y in N])
                self.near(p + "-memory", what, x["memory_share"], T.memory[l] if T.memory[l] is None else T.memory[l] / T.f, T.terms[l] / abs(T.f or 1.), tol)
                if x["deviation"] is None:
                    self.mismatch(p + "-deviation", f"{what}: null")
                elif not x["deviation"] <= (5.4e-4 if f32 else 1e-12):
                    leak = max([abs(y.R[l].sum() - T.R[l].sum()) / T.terms[l] for y in N] or [0])
                    if not leak > (1e-5 if f32 else 1e-14):
                        self.mismatch(p + "-deviation", f"{what}: {x['deviation']} (terms {T.terms[l]:.3g}, f {T.f:.3g}, rounding {leak:.3g})")
                    self.leaks.append((leak, x["deviation"], " ".join(self.cmd)))
                else:
                    self.record(p + "-deviation", x["deviation"])
                own = abs(x["sum"] + ((x["bias_share"] or 0) + (x["memory_share"] or 0)) * x["explained"] - x["explained"]) / T.terms[l] if T.terms[l] else 0
                if not f32:
                    self.near(p + "-identity", what, own, x["deviation"] or 0., 1., 2e-12)
                e = effective(T.G[l])
                shaky = np.sqrt((T.G[l] ** 2).sum()) < (1e-3 if f32 else 1e-8) * max(np.sqrt((g ** 2).sum()) for g in T.G)
                if not shaky:
                    self.near(p + "-effective", what, x["effective_tokens"], e, e or 1., 1e-3 if f32 else 1e-8, [effective(y.G[l]) for y in N])
                if T.n > 1:
                    a, b = T.R[l], T.other[l]
                    lost = max(T.sizes[l] / max(np.abs(a).max(), 1e-300), T.other_sizes[l] / max(np.abs(b).max(), 1e-300)) if a.any() and b.any() else 1
                    if lost < (50 if f32 else 1e4):
                        self.near(p + "-cosine", what, x["profile_cosine"], cosine(a, b), 1., lost * (1e-3 if f32 else 1e-9),
                                  [cosine(y.R[l], y.other[l]) for y in N])
                elif x["profile_cosine"] is not None:
                    self.mismatch(p + "-cosine", f"{what}: {x['profile_cosine']} of one token")
        if stand is not None:
            self.removal(p, t["removal"], truths, f32, stand)

    def removal(self, p, table, truths, f32, stand):
        """stand(T, keep) is f of the text where tokens that are not kept are stand-ins."""
        long = [T for T in truths if T is not None and T.n > 1]
        if not long:
            if table:
                self.mismatch(p + "-removal", "a table of samples of one token")
            return
        if any(T.gap < (1e-4 if f32 else 1e-9) * max(T.terms) for T in long):
            return
        self.count["removal"] = self.count.get("removal", 0) + 1
        methods = {x["method"] for x in table}
        expected = {"relevance", "gradient_input", "random"} | ({"rollout"} if all(T.rollout is not None for T in long) and not self.no_rollout else set())
        if methods != expected:
            self.mismatch(p + "-methods", f"methods {sorted(methods)}, not {sorted(expected)}")
        for method in sorted(methods & expected):
            for order in ("insert", "remove"):
                rows = [x for x in table if x["method"] == method and x["order"] == order]
                if [round(x["fraction"] * 10) for x in rows] != list(range(11)):
                    self.mismatch(p + "-steps", f"{method} {order}: fractions {[x['fraction'] for x in rows]}")
                    continue
                scores = []
                for T in long:
                    s = {"relevance": T.R[0], "gradient_input": T.gi, "rollout": T.rollout, "random": np.zeros(T.n)}[method]
                    s = -s if order == "insert" else np.abs(s)
                    size = {"relevance": T.terms[0], "gradient_input": max(T.gi_terms, T.terms[0])}.get(method, 1.)
                    scores.append((s, min(np.diff(np.sort(s))) < (1e-3 if f32 else 1e-9) * size))
                for x in rows:
                    k = [self.steps(x["fraction"], T.n) for T in long]
                    if method == "random" and any(0 < c < T.n for c, T in zip(k, long)):
                        continue
                    if any(tie and 0 < c < T.n for c, T, (_, tie) in zip(k, long, scores)):
                        self.notes_of_ties = getattr(self, "notes_of_ties", 0) + 1
                        continue
                    fs = []
                    for T, c, (s, _) in zip(long, k, scores):
                        first = np.argsort(s, kind="stable")[:c]
                        keep = np.isin(np.arange(T.n), first)
                        fs.append(stand(T, keep if order == "insert" else ~keep))
                    size = max(max(abs(T.f), abs(f), 1e-2 * T.terms[-1]) for T, f in zip(long, fs))
                    what = f"{method} {order} {x['fraction']}"
                    self.near(p + "-removal", what, x["output"], float(np.mean(fs)), size, 1e-3 if f32 else 1e-9)
                    self.near(p + "-distance", what, x["distance"], float(np.mean([abs(f - T.f) for T, f in zip(long, fs)])), size, 1e-3 if f32 else 1e-9)

    def steps(self, fraction, n):
        return int(math.floor(fraction * n + .5))

    def refuse(self, text):
        self.refused = getattr(self, "refused", {})
        self.refused.setdefault("".join(c for c in text.split("arch.json")[-1] if not c.isdigit()), text.strip())
        self.count["refused"] = self.count.get("refused", 0) + 1

    def noisy(self, net, x0, target, f32):
        """The truth of a sample, and two more with errors of the precision's size everywhere."""
        T = Truth(net, x0, target)
        T.noisy = []
        for i in range(2):
            net.noise, net.draws = 6e-8 if f32 else 1.1e-16, torch.Generator().manual_seed(i)
            T.noisy.append(Truth(net, net.jit(x0.detach()), T.output))
            net.noise = 0.
        return T

    # ---- kinds ----

    def precision(self):
        return self.rng.choice(["f64", "f64", "f32"])

    def arch(self):
        rng = self.rng
        self.clear()
        heads, depth = rng.choice([1, 1, 2, 4]), rng.choice([1, 1, 2, 3, 4])
        a = {"depth": depth, "d_model": rng.choice([1, 2, 3, 4, 6, 8]), "heads": heads, "d_head": rng.choice([1, 2, 3, 4]),
             "kv_heads": rng.choice([k for k in (1, 2, 4) if heads % k == 0]), "seq_len": rng.choice([1, 2, 3, 5, 8]),
             "vocab": rng.choice([None, None, 2, 7, 19]), "norm": rng.choice(["pre", "pre", "post", "none", "sandwich"]),
             "norm_kind": rng.choice(["layernorm", "rmsnorm"]), "mlp": rng.choice(["none", "linear", "relu", "gelu", "gelu_tanh", "swiglu"]),
             "mlp_width": rng.choice([1, 3, 6]), "state": rng.choice([1, 2, 5]), "conv": rng.choice([1, 2, 4]),
             "groups": rng.choice([k for k in (1, 2, 4) if heads % k == 0])}
        a["mixer"] = rng.choice(["attention", "attention", "attention"] + list(MIXERS) + [[rng.choice(MIXERS) for _ in range(depth)]])
        used = a["mixer"] if isinstance(a["mixer"], list) else [a["mixer"]]
        graph = None
        if "graph" in used:
            n = a["seq_len"]
            g = np.random.default_rng(rng.randrange(1 << 30))
            graph = (g.random((n, n)) < .5) * g.integers(1, 4, (n, n))
            form = rng.choice(["row", "symmetric", "attention", "given"])
            graph = np.tril(graph) if rng.random() < .3 and form != "symmetric" else graph
            if form == "symmetric":
                graph = graph + graph.T
            if form == "given" and rng.random() < .5:
                graph = graph * g.choice([-1, 1], (n, n))
            np.save(os.path.join(self.dir, "g.npy"), graph.astype(np.float64))
            a["graph"] = {"file": "g.npy", "form": form}
        if "attention" in used:
            a["attention"] = rng.choice(["softmax", "softmax", "softmax", "uniform", "centred", "shaped", "rescaled"])
            if a["attention"] == "shaped":
                a["shaped"] = [rng.choice([1, .5, -1]), rng.choice([1, 2]), rng.choice([1, -.5])]
            if a["attention"] == "rescaled":
                a["rescale"] = rng.choice([.5, -2])
            a["positions"] = rng.choice(["none", "rope", "alibi", "relative"])
        if a["vocab"] and rng.random() < .5:
            a["positions"] = "learned"
        if "attention" in used or "linear_attention" in used:
            a["mask"] = rng.choice(["none", "none", "causal", "causal"] + (["sliding:2"] if "linear_attention" not in used else []))
        if {"attention", "linear_attention"} & set(used) or "graph" in used and a["graph"]["form"] == "attention":
            a["temperature"] = rng.choice([1, 1, .2, 10])
        if "linear_attention" in used:
            a.update(feature_map=rng.choice(["identity", "elu"]), normalised=rng.random() < .4, without_self=rng.random() < .2)
            if a.get("mask") == "causal" and rng.random() < .6:
                a["decay"] = rng.choice([0, .5, .9, "retnet", 1])
        if {"linear_attention", "mamba", "mamba2", "gated_delta"} & set(used):
            if rng.random() < .5:
                a["inner_norm"] = rng.random() < .7
        if {"linear_attention", "mamba", "mamba2", "gated_delta", "gated_recurrence"} & set(used) and rng.random() < .5:
            a["gate"] = rng.choice(["before", "after", "none"])
        for name in ("skip_mixer", "skip_mlp"):
            if rng.random() < .4:
                a[name] = rng.choice([0, 0, .5, -1, 2, "1/sqrt(L)", -.9, 20])
        for name in ("branch_mixer", "branch_mlp"):
            if rng.random() < .2:
                a[name] = rng.choice([0, .5, -1, "1/sqrt(L)"])
        laws = a["init"] = {}
        for name in ("wq", "wk", "wv", "wo", "w1", "w2", "win", "wx", "wdt", "conv", "embedding", "head"):
            if rng.random() < .12:
                laws[name] = rng.choice(["orthogonal", "normal(0, 4/fan_in)", "uniform(-1, 1)", "zero", "identity", "normal(0, 1e-20)", "normal(0, 9)"])
        if rng.random() < .15 and all(x in ("attention", "graph") for x in used):
            laws["wo"] = "none"
        if rng.random() < .15 and len(set(used)) == 1:
            a["share_layers"] = True
        if not a["vocab"] and rng.random() < .4:
            a["input"] = {"law": "gaussian", "rho": rng.choice([0, .5, .99, .999999]) if a["d_model"] > 1 else 0, "norm2": rng.choice(["d", 1, 1e-4, "100*d"])}
        path = os.path.join(self.dir, "arch.json")
        with open(path, "w") as fp:
            json.dump(a, fp)
        seed, f32 = rng.randrange(1000), self.precision() == "f32"
        rows, options = rng.choice([1, 2, 3]), ["--init", "default", "--seed", str(seed), "--precision", "f32" if f32 else "f64"]
        try:
            net = Stack(meaning(a), drawn_weights(self.a.weights, path, seed), graph)
        except RuntimeError as e:
            self.refuse(str(e))
            return
        target, inputs = None, ["--random", str(rows)]
        if a["vocab"]:
            n = a["seq_len"]
            ids = [[rng.randrange(a["vocab"]) for _ in range(n if "graph" in used else rng.randint(1, n))] for _ in range(rows)]
            with open(os.path.join(self.dir, "t.json"), "w") as fp:
                json.dump(ids, fp)
            inputs = ["--tokens", os.path.join(self.dir, "t.json")]
            if rng.random() < .5:
                target = [rng.randrange(a["vocab"]) for _ in range(rng.choice([1, rows]))]
                options += ["--target", ",".join(map(str, target))]
                target = target * rows if len(target) == 1 else target
        else:
            options += ["--taps", os.path.join(self.dir, "x.safetensors")]
            inputs += ["--seq-len", str(a["seq_len"])]
        if rng.random() < .3:
            options += ["--recompute"]
        r = self.run(path, inputs, options, check=False)
        if r is None:
            self.refuse(self.error)
            return
        entered = [net.enter(s) for s in ids] if a["vocab"] else [torch.tensor(x.astype(np.float64)) for x in
                                                                 load_file(os.path.join(self.dir, "x.safetensors"))["layer.0.block_out"]]
        truths = [self.noisy(net, x, target and target[i], f32) for i, x in enumerate(entered)]
        self.compare("arch", r, truths, f32, "full")

    def checkpoint(self):
        rng = self.rng
        shutil.rmtree(self.dir, ignore_errors=True)
        family = rng.choice(FAMILIES)
        m, w = self.m, self.w = draw(rng, family)
        o, x = self.interventions(m)
        write(self.dir, m, w)
        ids = [[rng.randrange(m["vocab"]) for _ in range(rng.choice([1, 2, 3, 5, 9]))] for _ in range(rng.choice([1, 2, 3]))]
        if rng.random() < .1:
            ids.append([])
        # A LayerNorm of one or two entries, and a norm behind P - C of equal tokens, are rounding alone.
        f32, target = self.precision() == "f32" and m["d"] > 2 and o.get("shape") != (0, 1, 1), None
        if family not in ("bert", "albert") and rng.random() < .5:
            target = [rng.randrange(m["vocab"]) for _ in range(rng.choice([1, len(ids)]))]
            x += ["--target", ",".join(map(str, target))]
            target = target * len(ids) if len(target) == 1 else target
        if rng.random() < .3:
            x += ["--recompute"]
        if rng.random() < .3:
            x += ["--batch", "1"]
        with open(os.path.join(self.dir, "t.json"), "w") as fp:
            json.dump(ids, fp)
        r = self.run(self.dir, ["--tokens", os.path.join(self.dir, "t.json")], x + ["--precision", "f32" if f32 else "f64"])
        if r is None:
            return
        net = Relevant(m, w, o)

        def of(s, i):
            net.fresh(False)
            T = self.noisy(net, net.enter(s), target and target[i], f32)
            T.ids = s
            return T
        truths = [of(s, i) if s else None for i, s in enumerate(ids)]
        if any(T is not None and not np.isfinite(T.terms + [T.f]).all() for T in truths):
            return
        self.no_rollout = family in ("mamba", "mamba2")

        def stand(T, keep):
            net.fresh(False)
            return T.again(net.enter([t if k else self.pad(m) for t, k in zip(T.ids, keep)]))
        self.compare("checkpoint", r, truths, f32, r["tables"]["relevance"][-1]["variant"], stand if self.pad(m) is not None else None)

    def transformers(self):
        from attack_stranger.relevance_transformers import Library, draw_model
        rng = self.rng
        self.clear()
        name, model, parts = draw_model(rng)
        model.save_pretrained(self.dir)
        net, V, target = Library(model, parts), model.config.vocab_size, None
        outputs = V if net.top else 0
        ids = [[rng.choice([t for t in range(V) if t not in (1,)]) for _ in range(rng.choice([1, 2, 3, 5, 10]))] for _ in range(rng.choice([1, 2, 3]))]
        f32, x = rng.random() < .2, []
        if outputs and rng.random() < .5:
            target = [rng.randrange(outputs) for _ in range(rng.choice([1, len(ids)]))]
            x += ["--target", ",".join(map(str, target))]
            target = target * len(ids) if len(target) == 1 else target
        if rng.random() < .3:
            x += ["--recompute"]
        with open(os.path.join(self.dir, "t.json"), "w") as fp:
            json.dump(ids, fp)
        memory = None
        if "cross" in name:
            memory = np.random.default_rng(rng.randrange(1 << 30)).standard_normal((len(ids), rng.choice([1, 2, 6]), model.config.hidden_size))
            np.save(os.path.join(self.dir, "m.npy"), memory)
            x += ["--encoder-states", os.path.join(self.dir, "m.npy")]
        r = self.run(self.dir, ["--tokens", os.path.join(self.dir, "t.json")], x + ["--precision", "f32" if f32 else "f64"])
        self.count[name] = self.count.get(name, 0) + 1
        if r is None:
            return

        def of(s, i):
            net.memory = None if memory is None else torch.tensor(memory[i])
            T = Truth(net, net.enter(s), target and target[i])
            T.ids, T.read = s, net.memory
            return T

        def again(T, keep):
            net.memory = T.read
            return T.again(net.enter([t if k else stand for t, k in zip(T.ids, keep)]))
        self.no_rollout = False
        stand = r["run"]["relevance"].get("stand_in", 1)
        self.compare("transformers-" + name if self.a.verbose else "transformers", r, [of(s, i) for i, s in enumerate(ids)], f32, "full",
                     again)

    def same(self):
        """No digit depends on threads or --recompute, nor one of a sample on the samples beside it."""
        rng = self.rng
        shutil.rmtree(self.dir, ignore_errors=True)
        m, w = self.m, self.w = draw(rng, rng.choice(FAMILIES))
        _, x = self.interventions(m)
        write(self.dir, m, w)
        ids = [[rng.randrange(m["vocab"]) for _ in range(rng.choice([1, 2, 3, 5, 9]))] for _ in range(3)]
        x += ["--precision", rng.choice(["f32", "f64"]), "--seed", str(rng.randrange(9))]
        runs = []
        for samples, options, threads in ((ids, [], 1), (ids, [], 2), (ids, ["--recompute"], 1), (ids, ["--batch", "1"], 2), (ids[1:2], [], 1)):
            with open(os.path.join(self.dir, "t.json"), "w") as fp:
                json.dump(samples, fp)
            r = self.run(self.dir, ["--tokens", os.path.join(self.dir, "t.json")], x + options, threads=threads)
            if r is None:
                return
            runs.append([r["tables"][name] for name in ("relevance", "conservation")] + [r["tables"].get("removal")])
        for i, name in ((1, "2 threads"), (2, "--recompute"), (3, "--batch 1, 2 threads")):
            for table, a, b in zip(("relevance", "conservation", "removal"), runs[0], runs[i]):
                for y, z in zip(a or [], b or []):
                    for c in y:
                        if y[c] != z[c] and not (i == 3 and table == "removal" and c in ("output", "distance") and (
                                abs(y[c] - z[c]) < 1e-4 * max(abs(y["output"]), abs(y["distance"])))):
                            self.mismatch("same", f"{name}: {table} {c} {y[c]}, {z[c]} ({m['family']}, {y})")
        for a, b in zip(runs[0][:2], runs[4][:2]):
            if [dict(y, sample=0) for y in a if y["sample"] == 1] != b:
                self.mismatch("same-alone", f"a sample by itself has other digits ({m['family']})")

    def bad(self):
        """Requests that must be refused with 2 and a hint, nothing on standard output."""
        rng = self.rng
        self.clear()
        a = {"depth": rng.choice([1, 2]), "d_model": 4, "seq_len": 5, "vocab": rng.choice([None, 7]), "mask": rng.choice(["none", "causal"])}
        path, tokens = os.path.join(self.dir, "arch.json"), os.path.join(self.dir, "t.json")
        for name, x in ((path, a), (tokens, [[1, 2, 3], [4]])):
            with open(name, "w") as fp:
                json.dump(x, fp)
        inputs = ["--tokens", tokens] if a["vocab"] else ["--random", "2"]
        requests = [(inputs, ["--precision", "residual"]), (inputs, ["--sweep", "lambda=0:1:3"]), ([], []), (inputs, ["--memory", "1K"]),
                    (inputs, ["--target", rng.choice(["7", "99", "-1", "x", "", "1,2,3", "1,,2", "1.5", "1e9", "9" * 30])])]
        if not a["vocab"]:
            requests.append((inputs, ["--target", "0"]))
        for given, options in requests:
            r = self.run(path, given, ["--init", "default", "--precision", "f64"] + options, check=False)
            text = self.error.strip()
            if r is not None or not text.startswith("rankscope: error: ") or ";" not in text or subprocess.run(self.cmd, capture_output=True).returncode != 2:
                self.mismatch("bad", f"{options}: {'accepted' if r else text}")
            self.count["requests"] = self.count.get("requests", 0) + 1

    @staticmethod
    def pad(m):
        return 0 if m["family"] != "gpt2" else None

    def interventions(self, m):
        """Options and the same for Net, but for those of the loss."""
        while True:
            o, x = Gradients.options(self)
            if not any(y.startswith("--freeze") for y in x):
                break
        keep, i = [], 0
        while i < len(x):
            if x[i] in ("--loss", "--loss-at", "--target", "--batch"):
                i += 2
            elif x[i] == "--recompute":
                i += 1
            else:
                keep.append(x[i])
                i += 1
        if "alpha" in o and self.rng.random() < .5:
            text, f = self.rng.choice([("l", lambda l, L: float(l)), ("L-1-l", lambda l, L: L - 1. - l)])
            keep[keep.index("--residual-scale") + 1], o["alpha"] = text, f
        for name in ("loss", "target", "at"):
            o.pop(name, None)
        return o, keep


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("program")
    a.add_argument("--weights")
    a.add_argument("--instances", type=int, default=20, help="of each kind")
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--kinds", default="arch,checkpoint,transformers,same,bad")
    a.add_argument("--verbose", action="store_true", help="worst values of each model of transformers")
    a.add_argument("--work", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "attack_out"))
    a = a.parse_args()
    t = Attack(a)
    for kind in a.kinds.split(","):
        t.rng = random.Random(f"{a.seed} {kind}")
        for _ in range(a.instances):
            t.count[kind] = t.count.get(kind, 0) + 1
            getattr(t, kind)()
    print("instances", t.count, "\nworst", {k: float(f"{v:.3g}") for k, v in sorted(t.worst.items())}, "\nmismatches", t.notes)
    print("values that rounding leaves open", getattr(t, "lost", 0), "ties", getattr(t, "notes_of_ties", 0), "leaks by rounding", len(t.leaks), t.leaks[:3])
    print(*(f"refused: {x}" for x in getattr(t, "refused", {}).values()), sep="\n")
    return 1 if t.notes else 0


if __name__ == "__main__":
    sys.exit(main())
