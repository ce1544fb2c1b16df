"""Models for the attack on sets of skip strengths: texts of 2 to 60 tokens, tokens that are equal or nearly so, branches against the skip."""
import json
import os
import random

import numpy as np
from arch_files import drawn_weights, meaning
from mixer_definitions import Kind, Layers
from safetensors.numpy import save_file

from .architectures import draw_arch, some
from .checkpoints import Checkpoint
from .instances import Instance, Refused
from .mixers import MIX, erf, mixer_rows, read, wide

ARCH = ("mamba", "mamba2", "gated_delta", "linear_attention", "s4d", "gated_recurrence", "short_conv", "attention", "graph", "hybrid")
FAMILIES = ("mamba", "falcon_mamba", "mamba2", "jamba", "falcon_h1", "falcon_h1", "qwen3_5", "nemotron_h", "gpt_neox")
KINDS = [f"arch_{name}" for name in ARCH] + list(dict.fromkeys(FAMILIES))
SKIPS = (1, 1, 1.5, -0.7, -4, 40, -1000, 0, 1e-3, -1e-3, 1e6, -1e6)


class WideKind(Kind):
    def __init__(self, dtype):
        super().__init__(dtype)
        self.erfc = lambda x: 1 - erf(x) if dtype == np.longdouble else Kind(np.float64).erfc(x)


def draw_graph(r, g, n):
    """A matrix of any sign ("given"), or weights of edges."""
    form = r.choice(("given", "given", "given", "row", "symmetric"))
    if form != "given":
        a = g.random((n, n)) * (g.random((n, n)) < r.choice((0.3, 1)))
        return form, a + a.T if form == "symmetric" else a
    a = g.standard_normal((n, n)) * r.choice((1, 1 / n, 1e-3, 30))
    kind = r.randrange(6)
    if kind == 0:  # Toeplitz: a state-space model with constant steps
        kernel = g.standard_normal(n) * r.choice((0.3, 0.9, 1.0)) ** np.arange(n)
        a = np.array([[kernel[i - j] if j <= i else 0 for j in range(n)] for i in range(n)])
    if kind == 1:
        a = np.tril(a)
    if kind in (2, 3):  # against the skip
        a = -r.choice(SKIPS[:6]) * np.eye(n) + a * 10.0 ** r.choice((-1, -4, -8, -12))
    if kind == 4:
        a = np.eye(n) + np.ones((n, n)) * r.choice((-1, 1)) / n + 10.0 ** r.choice((-1, -3, -6)) * a
    return form, a


def draw_wide_arch(r, g, kind, folder):
    a = draw_arch(r, kind if kind in ARCH[:4] else "mamba")
    a["seq_len"] = r.choice((2, 3, 5, 8, 17, 33, 60))
    a["heads"], a["kv_heads"] = r.choice(((1, 1), (2, 1), (2, 2))) if kind != "linear_attention" else (a["heads"], a["kv_heads"])
    a["groups"] = 1
    if kind != "linear_attention":
        a["mixer"] = [r.choice(ARCH[:8]) for _ in range(a["depth"])] if kind == "hybrid" else kind
        a["d_head"] = r.choice((1, 2, 3))
    if kind in ("s4d", "gated_recurrence", "short_conv", "graph", "attention"):
        for name in ("gate", "inner_norm"):
            a.pop(name, None)
    if kind in ("attention", "hybrid", "graph"):
        a.update(mask=r.choice(("none", "causal")), d_head=2)
        a["positions"] = r.choice(("none", "rope", "alibi")) if kind == "attention" else "none"
    graph = None
    if kind == "graph":
        form, graph = draw_graph(r, g, a["seq_len"])
        np.save(os.path.join(folder, "graph.npy"), graph)
        for name in ("mask", "positions", "feature_map", "temperature", "decay", "kv_heads", "d_head", "conv", "state", "groups", "dt_init"):
            a.pop(name, None)
        a.update(graph={"file": "graph.npy", "form": form}, heads=1, value_map="identity", norm=r.choice(("none", "none", "none", "post", "pre", "sandwich")))
        a["init"] = {"wo": "none"}
    if a.get("norm") == "post" and some(r, 0.5):
        a["mlp"] = "none"
    for name in ("skip_mixer", "skip_mlp"):
        a.pop(name, None)
    a["skip_mixer"] = r.choice(SKIPS) if some(r, 0.7) else [r.choice(SKIPS) for _ in range(a["depth"])]
    rho = r.choice((0, 0.5, 0.99, 1 - 1e-9, 1 - 1e-13)) if a["d_model"] > 1 else 0
    a["input"] = {"law": "gaussian", "rho": rho, "norm2": r.choice(("d", "d", 1, 1e-4, "100*d", 1e8, 1e-60, 1e60))}
    return a, graph


class ArchLayer:
    """A layer of an architecture file by mixer_definitions.py, in both precisions."""

    def __init__(self, a, weights, graph, l):
        self.stacks = {kind: Layers(meaning(a), weights, WideKind(kind), graph) for kind in (np.float64, np.longdouble)}
        s = meaning(a)
        self.s, self.l, self.name = s, l, s["mixer"][l]
        self.skip, self.factor, self.place = s["skip_mixer"][l], s["branch_mixer"][l], s["norm"]
        self.post = {"norm_kind": s["norm_kind"], "eps": 1e-5} if self.place == "post" else None
        self.graph, self.beside = graph, False

    def rows(self, x):
        stack = self.stacks[x.dtype.type]
        stack.s = dict(self.s, gate=self.s["gate_of"][self.name], inner_norm=self.s["inner_norm_of"][self.name])
        op = getattr(stack, "graph_mixer" if self.name == "graph" else self.name)
        with np.errstate(all="ignore"):
            out = op(stack.norm(x) if self.place in ("pre", "sandwich") else x, f"{self.l}.0.")[0] if self.factor else x * 0
            return out, stack.k.one(self.factor) * (stack.norm(out) if self.place == "sandwich" else out)


class FamilyLayer:
    def __init__(self, layer, model):
        self.layer, self.skip, self.factor, self.place, self.model = layer, layer["skip"], 1.0, layer["place"], model
        self.beside = any(more["kind"] == "mlp" for more in layer.get("also", ()))
        self.post = {k: layer[k] for k in ("eps", "g", "exact") if k in layer} if self.place == "post" else None
        if self.post:
            self.post["norm_kind"] = layer["post_kind"]

    def rows(self, x):
        with np.errstate(all="ignore"):
            layer = wide(self.layer) if x.dtype == np.longdouble else self.layer
            out = mixer_rows(layer, x[None])[0]
            if not self.beside:
                return out, out
            return mixer_rows({**layer, "also": ()}, x[None])[0], out  # what the tap holds is the attention alone


class SetInstance(Instance):
    def __init__(self, options, seed, kind, folder):  # its own draw: wider than the other attack's
        self.options, self.seed, self.kind, self.folder, self.edit, self.model = options, seed, kind, folder, [], None
        r, self.g = random.Random(f"sets {kind} {seed}"), np.random.default_rng([seed, 6])
        self.kept = r.choice((0.3, 0.5, 0.9, 0.9, 0.99, 0.999))
        if kind.startswith("arch_"):
            self.arch, graph = draw_wide_arch(r, self.g, kind[5:], folder)
            self.path = os.path.join(folder, "arch.json")
            json.dump(self.arch, open(self.path, "w"))
            self.input = ["--init", "default", "--seed", str(seed), "--random", str(r.choice((1, 2)))]
            try:
                weights = drawn_weights(options.weights, self.path, seed)
            except RuntimeError as why:
                raise Refused(f"weights: {why}")
            self.layers = [ArchLayer(self.arch, weights, graph, l) for l in range(self.arch["depth"])]
            return
        self.model = Checkpoint(r, kind)
        self.texts(r)
        self.skip = r.choice(SKIPS)
        self.edit = ["--lambda", f"mixer:{self.skip!r}"]
        for layer in self.model.layers:
            layer["skip"] = self.skip
        self.change(r)
        if some(r, 0.35) and kind not in ("gpt_neox",):
            self.edit += ["--norm-placement", "post"]
            for layer in self.model.layers:
                layer.update(place="post", norm_kind="none")
            if some(r, 0.4):
                self.clean()
        if some(r, 0.3):
            self.oppose(r)
        self.share()
        self.write()

    @property
    def changed_layers(self):
        return self.model.layers

    def change(self, r):
        if self.kind in ("qwen3_5", "nemotron_h", "mamba2", "gated_delta", "jamba", "falcon_mamba") and some(r, 0.1):
            self.edit.append("--no-inner-norm")
            for layer in self.model.layers:
                layer["m"].update(norm=False, three_eps=None)

    def texts(self, r):
        model, scale = self.model, r.choice((1, 1, 1, 1e-3, 100, 1e-30, 1e30, 1e-100, 1e100))
        e = self.g.standard_normal((model.vocab, model.d)) * scale
        near = r.choice((0, 0, 0, 1, 1e-3, 1e-8, 1e-13))
        if near:
            e = e[:1] + near * e
        model.tensor(model.embed, e)
        self.ids = [[r.randrange(r.choice((2, model.vocab))) for _ in range(r.choice((2, 3, 5, 8, 17, 33, 60)))] for _ in range(r.choice((1, 2, 3)))]

    def clean(self):
        """What theorems A and B ask for: norms of gain 1 without an epsilon, tokens of norm sqrt(d)."""
        model = self.model
        for name in [name for name in model.config if name in ("layer_norm_epsilon", "rms_norm_eps")]:
            model.config[name] = 0.0
        for name, w in model.w.items():
            if name.endswith(("input_layernorm.weight", "pre_ff_layernorm.weight", "post_attention_layernorm.weight")) or (
                    name.endswith(".norm.weight") and "layers" in name and "mixer" not in name and "attn" not in name and "mamba" not in name):
                w[...] = 0 if self.kind == "qwen3_5" else 1
        e = model.w[model.embed]
        e *= np.sqrt(model.d) / np.sqrt((e / np.abs(e).max() * (e / np.abs(e).max())).sum(-1, keepdims=True)) / np.abs(e).max()
        for layer in model.layers:
            layer.update(eps=0.0, g=np.ones(model.d))
            layer.pop("exact", None)
            m = layer["m"]
            m.update({name: 0.0 for name in ("norm_eps",) if name in m})
            if self.kind == "jamba" and m.get("three_eps") is not None:
                m["three_eps"] = 0.0

    def oppose(self, r):
        """The last map of the first layer, so that what it gives is nearly -lambda X for the first text; or nearly what X has of one direction."""
        layer = self.model.layers[0]
        x = self.model.w[self.model.embed][self.ids[0]]
        m = layer["m"]
        bare = dict(m, o=np.eye(m["o"].shape[1]))
        for name in ("o_b", "exact"):
            bare.pop(name, None)
        with np.errstate(all="ignore"):
            y = MIX[layer["kind"]](bare, read(layer, x[None]))[0]
            rest = -(self.skip or 1.0) * x - sum(MIX[more["kind"]](more["m"], read({**layer, **more}, x[None]))[0] for more in layer.get("also", ()))
        if not np.isfinite(y).all() or not np.isfinite(rest).all():
            return
        w = np.linalg.lstsq(y, rest, rcond=1e-12)[0].T
        w = w * (1 + 10.0 ** r.choice((-1, -3, -6, -9, -14)) * self.g.standard_normal(w.shape))
        if not np.isfinite(w).all() or np.abs(w).max() > 1e200:
            return
        times = self.model.config.get("ssm_out_multiplier", 1.0) if self.kind == "falcon_h1" else 1.0
        stored = self.model.tensor(m["o_name"], w / times)
        m["o"] = stored * times
        if times != 1.0:
            m["exact"]["o"] = lambda: stored.astype(np.longdouble) * np.longdouble(times)
        elif "o" in m.get("exact", {}):
            m["exact"]["o"] = lambda: stored.astype(np.longdouble)

    def nudge(self, g, size):
        """A tensor, an entry of one, or the tokens' states; in place, as the layers hold the same arrays or views of them."""
        names = self.shared or [self.model.embed]
        w = self.model.w[self.model.embed if g.random() < 0.4 else names[g.integers(len(names))]]
        noise = size * g.standard_normal(w.shape) * (np.abs(w).mean() or 1)
        w += noise if g.random() < 0.5 else noise * (g.random(w.shape) < 2 / w.size)

    def share(self):
        """The tensors that the layers hold as they are stored: the others (rates, gains, folded maps) are not climbed."""
        held = []

        def gather(part):
            for v in part.values() if isinstance(part, dict) else part:
                held.append(v) if isinstance(v, np.ndarray) else gather(v) if isinstance(v, (dict, list)) else None
        gather(self.model.layers)
        self.shared = [name for name, w in self.model.w.items() if w.size and any(np.shares_memory(w, v) for v in held)]

    def restore(self, kept):
        for name, w in kept.items():
            self.model.w[name][...] = w

    def write(self):
        self.path = os.path.join(self.folder, "model")
        os.makedirs(self.path, exist_ok=True)
        json.dump(self.model.config, open(os.path.join(self.path, "config.json"), "w"))
        save_file(self.model.w, os.path.join(self.path, "model.safetensors"))
        json.dump(self.ids, open(os.path.join(self.folder, "ids.json"), "w"))
        self.input = ["--tokens", os.path.join(self.folder, "ids.json")]
        self.layers = [FamilyLayer(layer, self.model) for layer in self.model.layers]
