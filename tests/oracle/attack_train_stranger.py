#!/usr/bin/env python3
"""What `rankscope train` writes, computed a second time from docs/train.md and docs/arch.md alone, in NumPy and PyTorch
float64. A check is a line: what was claimed, what is true, and a verdict.

    attack_train_stranger.py BINARY [--only PART[,PART]] [--keep FOLDER]

Parts: measures, steps, sets, laws, states, alarms, refusals. Needs NumPy and PyTorch. Exit code 1 where a check differs."""
import argparse
import importlib.util
import itertools
import json
import math
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
EPS = 1e-5


# ---- the report ----

class Report:
    def __init__(self):
        self.different, self.checks = 0, 0

    def line(self, name, claimed, true, good, note=""):
        self.checks += 1
        self.different += not good
        print(f"{'ok     ' if good else 'DIFFERS'} {name}: claimed {claimed} true {true}{'  ' + note if note else ''}", flush=True)

    def numbers(self, name, pairs, tolerance):
        """Pairs (claimed, true) of one kind: the worst is the line. None has to meet None."""
        worst, shown, wrong, first = 0.0, ("-", "-"), None, None
        for place, (claimed, true) in enumerate(pairs):
            if claimed is None or true is None:
                if claimed is not true:
                    wrong = (claimed, true)
                continue
            error = abs(claimed - true) / max(abs(true), 1e-12)
            if error > tolerance and first is None:
                first = f", the first is number {place}: {claimed} for {true}"
            if not error <= worst:
                worst, shown = error, (claimed, true)
            elif shown[0] == "-":
                shown = (claimed, true)
        if wrong:
            shown = wrong
        self.line(name, shown[0], shown[1], wrong is None and worst <= tolerance, f"worst of {len(pairs)}: {worst:.1e}{first or ''}")


# ---- files ----

TYPES = {"F64": np.float64, "F32": np.float32}


def safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[start + t["data_offsets"][0]:start + t["data_offsets"][1]],
                                TYPES[t["dtype"]]).reshape(t["shape"]).astype(np.float64) for name, t in header.items()}


def weights(folder):
    return {name: torch.from_numpy(x) for name, x in safetensors(os.path.join(folder, "model.safetensors")).items()}


def log_of(folder):
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Program:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.count = os.path.abspath(binary), folder, 0

    def __call__(self, *arguments, threads=1, **options):
        return subprocess.run([self.binary, "train", *map(str, arguments), "--progress", "never", "--threads", str(threads)],
                              capture_output=True, text=True, cwd=self.folder, check=False, **options)

    def path(self, name):
        return os.path.join(self.folder, name)

    def task(self, task):
        self.count += 1
        name = f"./task{self.count}.json"
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(task, file)
        return name

    def run(self, task, *arguments, **options):
        """A run from a task, its folder and its result as JSON."""
        task_file, out, result = self.task(task), f"run{self.count}", f"result{self.count}.json"
        done = self(task_file, "--out", out, "--json", result, *arguments, **options)
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{json.dumps(task)}: exit {done.returncode}: {done.stderr.strip()}")
        with open(self.path(result), encoding="utf-8") as file:
            return self.path(out), json.load(file)

    def loader(self):
        path = self.path("loader.py")
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(subprocess.run([self.binary, "train", "--show-loader"], capture_output=True, text=True, check=True).stdout)
        spec = importlib.util.spec_from_file_location("loader", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def checkpoint(out, step):
    return os.path.join(out, "checkpoints", f"step-{step:09d}")


# ---- the network, from docs/arch.md ----

class Net:
    """Attention, linear attention and MLPs by this program; other mixers by the loader's functions, a sample at a time."""

    def __init__(self, folder, loader, w=None, as_documented=False):
        """`as_documented` takes ALiBi's slopes and the sinusoids from docs/arch.md to the letter; else they are the loader's,
        which differ where heads are no power of 2, and by float32's rounding."""
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.a = json.load(file)["arch"]
        self.w = weights(folder) if w is None else w
        self.loader, self.as_documented = loader, as_documented

    def map(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"].flatten() if name + ".bias" in self.w else y

    def norm(self, x, name, kind=None):
        if (kind or self.a["norm_kind"]) == "layernorm":
            x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()
        for part, op in ((".gain", torch.mul), (".bias", torch.add)):
            if name + part in self.w:
                x = op(x, self.w[name + part].flatten())
        return x

    def split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)

    def visible(self, n):
        seen = torch.ones(n, n, dtype=torch.bool)
        mask = self.a["mask"]
        if mask != "none":
            seen = seen.tril()
        if mask.startswith("sliding:"):
            seen = seen.triu(1 - int(mask.split(":")[1]))
        return seen

    def rope(self, x):
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2]).double()[:, None] / 10000 ** (torch.arange(half).double() / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def attention(self, x, p, layer, tau, keep):
        a, n = self.a, x.shape[1]
        heads, shared, share = a["heads"], a["kv_heads"], a["heads"] // a["kv_heads"]
        q, k, v = self.split(self.map(x, p + "q"), heads), self.split(self.map(x, p + "k"), shared), self.split(self.map(x, p + "v"), shared)
        if a["positions"] == "rope":
            q, k = self.rope(q), self.rope(k)
        k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        y = q @ k.transpose(-1, -2) / math.sqrt(a["d_head"])
        distance = (torch.arange(n)[:, None] - torch.arange(n)).double()
        if a["positions"] == "alibi":
            slopes = 2.0 ** (-8 * torch.arange(1, heads + 1).double() / heads) if self.as_documented else torch.tensor(self.loader.slopes(heads))
            y = y - slopes[:, None, None] * distance.abs()
        if a["positions"] == "relative":
            bias = self.w[p + "distance_bias"]
            y = y + bias[:, distance.long() + bias.shape[1] // 2]
        y = y * tau / a["temperature"]
        seen = self.visible(n)
        y = y.masked_fill(~seen, -math.inf)
        soft = y.softmax(-1)
        uniform = seen.double() / seen.sum(1, keepdim=True)
        gains = a.get("shaped", [1, 1, 1])
        gains = gains[layer] if isinstance(gains[0], list) else gains
        w = a.get("rescale", 1)
        mix = {"softmax": (0, 1, 0), "uniform": (0, 0, -1), "centred": (0, 1, 1), "rescaled": (0, 1 + w, w), "shaped": gains}[a["attention"]]
        applied = mix[0] * torch.eye(n) + mix[1] * soft - mix[2] * uniform
        if keep is not None:
            keep["logits"].append(y.detach())
            keep["soft"].append(soft.detach())
            keep["mix"].append(tuple(float(g) for g in mix))
        y = applied @ v
        return self.map(y.transpose(1, 2).flatten(2), p + "o") if p + "o.weight" in self.w else y.sum(1)

    def other(self, x, p, layer, mixer):
        model = self.loader.Model.__new__(self.loader.Model)
        model.a, model.w, model.dtype = self.a, self.w, torch.float64
        return torch.stack([getattr(model, mixer)(row, p, layer) for row in x])

    def mlp(self, x, p):
        up, kind = self.map(x, p + "up"), self.a["mlp"]
        if kind == "swiglu":
            up = F.silu(self.map(x, p + "gate")) * up
        acts = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda v: F.gelu(v, approximate="tanh")}
        return self.map(acts.get(kind, lambda v: v)(up), p + "down")

    def block(self, x, op, p, skip, scale):
        norm = self.a["norm"]
        y = self.norm(x, p + "norm_before") if norm in ("pre", "sandwich") else x
        y = op(y)
        y = self.norm(y, p + "norm_inside") if norm == "sandwich" else y
        x = skip * x + scale * y
        return self.norm(x, p + "norm_after") if norm == "post" else x

    def __call__(self, x, tau=1.0, keep=None):
        """ids [samples, n] or rows [samples, n, width] to outputs."""
        a = self.a
        if a.get("rows"):
            h = x.double()
        else:
            h = self.w["embed.tokens.weight"][x]
        if "embed.map.weight" in self.w:
            h = self.map(h, "embed.map")
            if "embed.map_out.weight" in self.w:
                h = self.map(F.gelu(h), "embed.map_out")
        n, d = h.shape[1], h.shape[2]
        if a["positions"] == "learned":
            h = h + self.w["embed.positions.weight"][:n]
        if a["positions"] == "sinusoidal":
            place, pair = torch.arange(n).double()[:, None], torch.arange(d)
            angle = place / 10000 ** ((pair - pair % 2).double() / d)
            waves = torch.where(pair % 2 == 1, angle.cos(), angle.sin())
            h = h + (waves if self.as_documented else waves.float().double())
        if "embed.norm.gain" in self.w:
            h = self.norm(h, "embed.norm", "layernorm")
        if keep is not None:
            keep.update(states=[h.detach()], logits=[], soft=[], mix=[])
        for layer in range(a["depth"]):
            p = f"layers.{0 if a['share_layers'] else layer}."
            mixer = a["mixer"] if isinstance(a["mixer"], str) else a["mixer"][layer]

            def mix(y, p=p, layer=layer, mixer=mixer):
                return self.attention(y, p + "mixer.", layer, tau, keep) if mixer == "attention" else self.other(y, p + "mixer.", layer, mixer)
            h = self.block(h, mix, p + "mixer.", a["skip_mixer"][layer], a["branch_mixer"][layer])
            if a["mlp"] != "none":
                h = self.block(h, lambda y, p=p: self.mlp(y, p + "mlp."), p + "mlp.", a["skip_mlp"][layer], a["branch_mlp"][layer])
            if keep is not None:
                keep["states"].append(h.detach())
        if a["norm"] in ("pre", "sandwich"):
            h = self.norm(h, "final_norm")
        return self.map(h, "head") if "head.weight" in self.w else h


# ---- measures, from docs/train.md ----

def factors(a, w):
    """(layer, head, product): A and B, their tensors' names."""
    found = {}
    for layer in range(1 if a["share_layers"] else a["depth"]):
        mixer = a["mixer"] if isinstance(a["mixer"], str) else a["mixer"][layer]
        p = f"layers.{layer}.mixer."
        m = {name[len(p):-len(".weight")]: x for name, x in w.items() if name.startswith(p) and name.endswith(".weight")}
        if mixer in ("attention", "linear_attention"):
            heads, share = a["heads"], a["heads"] // a["kv_heads"]
            dk = m["q"].shape[0] // heads
            dv = m["v"].shape[0] // a["kv_heads"] if "v" in m else 0
            for h in range(heads):
                g = h // share
                found[layer, h, "qk"] = (m["q"][h * dk:(h + 1) * dk].T, m["k"][g * dk:(g + 1) * dk].T, p + "q.weight", p + "k.weight")
            for h in range(heads):
                if "v" in m and "o" not in m:
                    dv = m["v"].shape[0] // a["kv_heads"]
                    found[layer, h, "ov"] = (m["v"][h // share * dv:(h // share + 1) * dv].T, None, p + "v.weight", p + "v.weight")
                if "v" in m and "o" in m:
                    g = h // share
                    found[layer, h, "ov"] = (m["v"][g * dv:(g + 1) * dv].T, m["o"][:, h * dv:(h + 1) * dv], p + "v.weight", p + "o.weight")
        if mixer == "gated_delta":
            states, width = a["state"], a["d_head"]
            for h in range(a["kv_heads"]):
                found[layer, h, "qk"] = (m["q"][h * states:(h + 1) * states].T, m["k"][h * states:(h + 1) * states].T, p + "q.weight", p + "k.weight")
            for h in range(a["heads"]):
                found[layer, h, "ov"] = (m["v"][h * width:(h + 1) * width].T, m["out"][:, h * width:(h + 1) * width], p + "v.weight", p + "out.weight")
        if mixer == "mamba2":
            inner, states, groups, width = a["heads"] * a["d_head"], a["state"], a["groups"], a["d_head"]
            x_in = m["in"]
            for g in range(groups):
                b = x_in[2 * inner + g * states:2 * inner + (g + 1) * states].T
                c = x_in[2 * inner + groups * states + g * states:2 * inner + groups * states + (g + 1) * states].T
                found[layer, g, "cb"] = (c, b, p + "in.weight", p + "in.weight")
            for h in range(a["heads"]):
                found[layer, h, "io"] = (x_in[inner + h * width:inner + (h + 1) * width].T, m["out"][:, h * width:(h + 1) * width],
                                         p + "in.weight", p + "out.weight")
        if mixer == "mamba":
            states, rank = a["state"], m["dt"].shape[1]
            b, c = m["x"][rank:rank + states].T, m["x"][rank + states:rank + 2 * states].T
            found[layer, 0, "cb"] = (c, b, p + "x.weight", p + "x.weight")
    return found


def head_measures(A, B):
    A, alone = np.asarray(A), B is None
    B = np.eye(A.shape[1]) if alone else np.asarray(B)
    r = A.shape[1]
    s = np.linalg.svd(A @ B.T, compute_uv=False)[:r]
    X, Y, n = A.T @ A, B.T @ B, np.linalg.norm
    half = (n(A) ** 2 + n(B) ** 2) / 2
    out = {"q_norm": n(X - Y), "q_relative": n(X - Y) / math.sqrt(n(X) * n(Y)) if n(X) * n(Y) else None, "half_norm": half,
           "nuclear_norm": s.sum(), "gap": half - s.sum(), "inner": r}
    spread = n(X) ** 2 + n(Y) ** 2 - 2 * np.trace(X) * np.trace(Y) / r
    out["balance_score"] = 1 - n(X - Y) ** 2 / spread if spread else None
    if alone:
        out.update(dict.fromkeys(("q_norm", "q_relative", "half_norm", "gap", "balance_score")))
    if s.sum() == 0:
        return {**out, "pseudo_rank": None, "pseudo_count": None, "effective_rank": None, "stable_rank": None}
    count = int((np.cumsum(s) < 0.95 * s.sum() * (1 - 1e-12)).sum()) + 1
    p = s[s > 0] / s.sum()
    return {**out, "pseudo_count": count, "pseudo_rank": count / r, "effective_rank": math.exp(-(p * np.log(p)).sum()),
            "stable_rank": (s ** 2).sum() / s[0] ** 2}


def state_measures(x):
    """Relative residual and mean cosine of [samples, n, d]."""
    centred = x - x.mean(1, keepdim=True)
    residual = centred.flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1)
    n = x.shape[1]
    unit = x / x.norm(dim=2, keepdim=True)
    cosines = unit @ unit.transpose(1, 2)
    mean = (cosines.sum((1, 2)) - n) / (n * (n - 1)) if n > 1 else torch.full((len(x),), math.nan)
    return residual.mean().item(), mean.mean().item()


def probe_measures(net, x, tau=1.0):
    keep = {}
    with torch.no_grad():
        net(x, tau, keep)
    rows = []
    n = x.shape[1]
    seen = net.visible(n)
    for state in keep["states"]:
        residual, cosine = state_measures(state)
        rows.append({"relative_residual": residual, "mean_cosine": cosine if n > 1 else None})
    for i, soft in enumerate(keep["soft"]):
        entropy = -(soft * soft.clamp(min=1e-300).log()).sum(-1).mean().item()
        most = seen.sum(1).double().log().mean().item()
        rows[i + 1].update(entropy=entropy, entropy_share=entropy / most if most else None, logit_max=keep["logits"][i].max().item(),
                           identity=keep["mix"][i][0], softmax=keep["mix"][i][1], uniform=keep["mix"][i][2])
    return rows


# ---- losses and steps ----

def loss_of(z, y, kind="auto", smoothing=0.0):
    """Mean over targets of classes; squared errors summed over a sample, mean over samples."""
    if kind == "squared":
        there = ~torch.isnan(y)
        return torch.where(there, z - y.nan_to_num(0), torch.zeros(())).square().sum() / len(z), None
    rows, t = z.flatten(0, 1), y.flatten()
    rows, t = rows[t >= 0], t[t >= 0]
    accuracy = (rows.argmax(1) == t).double().mean().item()
    if kind == "hinge":
        return F.multi_margin_loss(rows, t), accuracy
    return F.cross_entropy(rows, t, label_smoothing=smoothing), accuracy


WORDS = {"attention": None, "mixer": lambda n: ".mixer." in n and ".norm" not in n,
         "mlp": lambda n: ".mlp." in n and ".norm" not in n, "norm": lambda n: "norm" in n,
         "embedding": lambda n: n.startswith("embed.") and ".norm" not in n, "head": lambda n: n.startswith("head."),
         "bias": lambda n: n.endswith(".bias") and "norm" not in n, "strength": lambda n: False}


def by_group(words, groups, name, default):
    if not isinstance(groups, dict):
        return groups
    found, rank = groups.get("default", default), 0
    for key, value in groups.items():
        if key == "default":
            continue
        level = 1 if key in words else 2
        if level >= rank and (words[key](name) if key in words else re.search(key, name)):
            found, rank = value, level
    return found


def schedule(s, t, steps):
    kind, warm = s.get("kind", "constant"), s.get("warmup", 0)
    if t < warm:
        return (t + 1) / warm
    end, last = s.get("steps", steps), s.get("last", 0)
    u = min(1.0, (t - warm) / (end - warm)) if end > warm else 1.0
    if kind == "cosine":
        return last + (1 - last) * (1 + math.cos(math.pi * u)) / 2
    if kind == "linear":
        return 1 + (last - 1) * u
    if kind == "inverse_sqrt":
        return math.sqrt(max(warm, 1) / (t + 1))
    if kind == "step":
        k = (t // s["every"] if s.get("every") else 0) + sum(m <= t for m in s.get("milestones", []))
        return s.get("factor", 0.1) ** k
    return 1.0


class Stepper:
    """torch.optim by the task's settings, on weights that the first checkpoint gives."""

    def __init__(self, task, w, a):
        mixers = a["mixer"] if isinstance(a["mixer"], list) else [a["mixer"]] * a["depth"]

        def attends(n):
            """Maps of attention, not of other mixers."""
            return WORDS["mixer"](n) and mixers[int(n.split(".")[1])] in ("attention", "linear_attention") and ".gate." not in n
        self.words = {**WORDS, "attention": attends}
        self.o, self.s, self.steps = task["optimizer"], task.get("schedule", {}), task["steps"]
        frozen = self.o.get("frozen", [])
        self.w = {n: x.clone().requires_grad_(not any(self.words[f](n) if f in WORDS else re.search(f, n) for f in frozen)) for n, x in w.items()}
        self.free = {n: x for n, x in self.w.items() if x.requires_grad}
        self.decay = {n: by_group(self.words, self.o.get("weight_decay", {}), n, 0) for n in self.free}
        self.factor = {n: by_group(self.words, self.o.get("lr_factor", {}), n, 1) for n in self.free}
        parameters = [{"params": [x], "lr": 1.0, "weight_decay": self.decay[n]} for n, x in self.free.items()]
        kind, betas = self.o["kind"], self.o.get("betas", [0.9, 0.999])
        eps = self.o.get("eps", 1e-8)
        self.optim = {"adamw": lambda: torch.optim.AdamW(parameters, betas=betas, eps=eps, foreach=False),
                      "adam": lambda: torch.optim.Adam(parameters, betas=betas, eps=eps, foreach=False),
                      "sgd": lambda: torch.optim.SGD(parameters, lr=1.0, foreach=False),
                      "heavy_ball": lambda: torch.optim.SGD(parameters, lr=1.0, momentum=betas[0], foreach=False)}[kind]()

    def penalty(self, a, w):
        mu = self.o.get("product_penalty", 0)
        return sum((mu / 2 * (A @ B.T).square().sum() for A, B, _, _ in factors(a, w).values() if B is not None), torch.zeros(())) if mu else 0

    def rate(self, t):
        return self.o["lr"] * schedule(self.s, t, self.steps)

    def step(self, t):
        """Clips and steps; the gradients are in place."""
        grads = [x.grad for x in self.free.values()]
        if self.o.get("clip") is not None:
            norm = math.sqrt(sum(g.square().sum().item() for g in grads))
            for g in grads:
                g.mul_(min(1.0, self.o["clip"] / (norm + 1e-6)))
        if self.o.get("clip_each") is not None:
            for g in grads:
                g.mul_(min(1.0, self.o["clip_each"] / (g.norm().item() + 1e-6)))
        for group, name in zip(self.optim.param_groups, self.free):
            group["lr"] = self.rate(t) * self.factor[name]
        self.optim.step()

    def effective(self, name, t):
        """Mean of eta/(sqrt(v hat) + eps) behind the step of t."""
        rate, kind = self.rate(t) * self.factor[name], self.o["kind"]
        if kind not in ("adam", "adamw"):
            return rate
        state = self.optim.state[self.free[name]]
        v = state["exp_avg_sq"] / (1 - self.o.get("betas", [0.9, 0.999])[1] ** int(state["step"]))
        return (rate / (v.sqrt() + self.o.get("eps", 1e-8))).mean().item()


# ---- data of this program's own making ----

def recall_batches(rng, steps, batch, keys, values, pairs, queries):
    out = np.full((steps, batch, 2, 2 * pairs + queries), -1, np.int64)
    for s, b in itertools.product(range(steps), range(batch)):
        k, v = rng.permutation(keys)[:pairs], rng.integers(0, values, pairs)
        order = rng.permutation(pairs)[:queries]
        out[s, b, 0, 0:2 * pairs:2], out[s, b, 0, 1:2 * pairs:2], out[s, b, 0, 2 * pairs:] = k, keys + v, k[order]
        out[s, b, 1, 2 * pairs:] = v[order]
    return out


def recall_task(**more):
    task = {"task": "associative-recall", "data": {"keys": 6, "values": 5, "pairs": 3, "queries": 2, "eval": 8, "batches": "recall.npy"},
            "model": {"depth": 2, "d_model": 12, "heads": 2, "kv_heads": 1, "mask": "causal", "positions": "learned", "norm": "pre",
                      "mlp": "relu", "mlp_width": 10},
            "steps": 10, "batch": 4, "precision": "f64", "log_every": 1, "rank_every": 1, "every_checkpoint": 1, "keep": 100, "seed": 3,
            "probe_samples": 2, "schedule": {"warmup": 3},
            "optimizer": {"kind": "adamw", "lr": 2e-2, "betas": [0.9, 0.95], "clip": 1, "clip_each": None,
                          "weight_decay": {"default": 0.1, "attention": 0.5, "norm": 0}}}
    for name, value in more.items():
        task[name] = {**task[name], **value} if isinstance(value, dict) and name in task and name != "optimizer" else value
    return task


def write_inputs(program):
    rng = np.random.default_rng(5)
    np.save(program.path("recall.npy"), recall_batches(rng, 24, 4, 6, 5, 3, 2))
    text = "".join(rng.choice(list("abcde fé"), 400, p=[.3, .2, .1, .1, .1, .1, .05, .05]))
    with open(program.path("text.txt"), "w", encoding="utf-8") as file:
        file.write(text)
    np.save(program.path("ids.npy"), rng.integers(0, 7, (14, 6)))
    np.save(program.path("labels.npy"), rng.integers(0, 3, 14))
    np.save(program.path("images.npy"), rng.normal(size=(12, 4, 6)).astype(np.float32))
    np.save(program.path("classes.npy"), np.arange(12) % 3)
    np.save(program.path("series.npy"), rng.normal(size=(60, 2)).cumsum(0) / 4)
    return text


# ---- part: measures and steps of one run ----

def first_weights(program, task):
    """What the run starts with: a run of no steps."""
    out, _ = program.run({**task, "steps": 0, "every_checkpoint": 0, "schedule": {**task.get("schedule", {}), "steps": task.get("schedule", {}).get("steps", task["steps"])}})
    return out


def follow(report, program, name, task, batches, kind="auto", tolerance=1e-9):
    """Runs the task, then steps beside it on the same batches, and compares each row of its log."""
    loader = program.loader()
    start = first_weights(program, task)
    out, result = program.run(task)
    rows = log_of(out)
    net = Net(start, loader)
    a, accumulate = net.a, task.get("accumulate", 1)
    a["temperature"] = task.get("model", {}).get("temperature", 1)  # a checkpoint's own holds the schedule's factor, too
    step = Stepper(task, net.w, a)
    net.w = step.w
    pairs = {}

    def put(key, claimed, true):
        pairs.setdefault(key, []).append((claimed, true))
    running, first_q, summed = None, {}, {}
    temper = task.get("schedule", {}).get("temperature", {"start": 1, "final": 1, "steps": 0})
    nulls = {}
    for t in range(task["steps"] + 1):
        row = rows[t]
        put("step", row["step"], t)
        length = temper["steps"]
        tau = temper["start"] + (temper["final"] - temper["start"]) * t / length if t < length else temper["final"]
        for x in step.w.values():
            x.grad = None
        losses, rights = [], []
        for part in range(accumulate):
            x, y = batches(t * accumulate + part)
            loss, right = loss_of(net(x, tau), y, kind, task.get("label_smoothing", 0))
            (loss / accumulate).backward()
            losses.append(loss.item())
            rights.append(right)
        batch_loss = sum(losses) / accumulate
        batch_right = None if rights[0] is None else sum(rights) / accumulate
        loss_grads = {n: x.grad.clone() for n, x in step.free.items()}
        penalty = step.penalty(a, step.w)
        if torch.is_tensor(penalty):
            penalty.backward()
        put("batch_loss", row["batch_loss"], batch_loss)
        put("batch_accuracy", row["batch_accuracy"], batch_right)
        running = (batch_loss, batch_right) if running is None else tuple(None if r is None else .98 * r + .02 * b for r, b in zip(running, (batch_loss, batch_right)))
        put("loss", row["loss"], running[0])
        put("accuracy", row["accuracy"], running[1])
        put("learning_rate", row["learning_rate"], step.rate(t))
        put("gradient_norm", row["gradient_norm"], math.sqrt(sum(x.grad.square().sum().item() for x in step.free.values())))
        before = {n: x.detach().clone() for n, x in step.w.items()}
        # heads
        mine = factors(a, before)
        put("rows of ranks", len(row.get("ranks") or []), len(mine))
        for claimed in row.get("ranks") or []:
            key = (claimed["layer"], claimed["head"], claimed["product"])
            A, B, name_a, name_b = mine[key]
            true = head_measures(A, B)
            for column, value in true.items():
                put(column, claimed[column], value)
            first_q.setdefault(key, true["q_norm"])
            put("contraction", claimed["contraction"], None if B is None else true["q_norm"] / first_q[key])
            sum_ab = summed.get(key, 0.0)
            expected = None if step.o["kind"] == "adam" or B is None else math.exp(-sum_ab / ((1 - step.o.get("betas", [0.9])[0]) if step.o["kind"] == "heavy_ball" else 1))
            put("contraction_expected", claimed["contraction_expected"], expected)
            summed[key] = sum_ab + sum(step.rate(t) * step.factor[n] * step.decay[n] for n in (name_a, name_b) if n in step.free)
            nulls[A.shape[0], 0 if B is None else B.shape[0], A.shape[1]] = tuple(claimed[n] for n in ("pseudo_rank_null", "effective_rank_null", "stable_rank_null"))
        last = t == task["steps"]
        if not last:
            step.step(t)
            after = {n: x.detach() for n, x in step.w.items()}
            saved = weights(checkpoint(out, t + 1))
            # a softmax does not see its keys' biases: their gradient is rounding, which Adam makes steps of
            worst = max(((saved[n] - after[n]).norm() / after[n].norm().clamp(min=1e-12)).item() for n in after if not n.endswith("k.bias"))
            put("weights", worst, 0.0)
            for x in (saved[n] for n in after):
                assert torch.isfinite(x).all()
        # layers

        def ratio(names, over):
            top = math.sqrt(sum((after[n] - before[n]).square().sum().item() for n in names))
            bottom = math.sqrt(sum(over[n].square().sum().item() for n in names))
            return top / bottom if bottom else None
        put("update_ratio", row["update_ratio"], None if last else ratio(step.w, before))
        for claimed in row["layers"]:
            layer = claimed["layer"]
            if layer is None or (a["share_layers"] and layer):
                continue
            p = f"layers.{0 if a['share_layers'] else layer}."
            for letter in "qkvo":
                tensor = p + f"mixer.{letter}.weight"
                true = loss_grads[tensor].square().sum().item() if tensor in loss_grads else None
                if true is not None or tensor in step.w:
                    put("g_" + letter, claimed["g_" + letter], true)
                if letter != "o" and tensor in step.w:
                    put("rate_" + letter, claimed["rate_" + letter], step.effective(tensor, t) if not last and tensor in step.free else None)
            if p + "mixer.q.weight" in loss_grads and p + "mixer.v.weight" in loss_grads:
                put("ratio_q_v", claimed["ratio_q_v"], claimed["g_q"] / claimed["g_v"] if claimed["g_v"] else None)
                put("ratio_k_v", claimed["ratio_k_v"], claimed["g_k"] / claimed["g_v"] if claimed["g_v"] else None)
            put("layers.update_ratio", claimed["update_ratio"], None if last else ratio([n for n in step.w if n.startswith(p)], before))
            for column, field in (("mixer_skip", "skip_mixer"), ("mixer_scale", "branch_mixer"), ("mlp_skip", "skip_mlp"), ("mlp_scale", "branch_mlp")):
                if column[:3] != "mlp" or a["mlp"] != "none":
                    put("strengths", claimed[column], float(a[field][layer]))
    absolute = pairs.pop("weights", [])
    if absolute:
        worst = max(c for c, _ in absolute)
        report.line(f"{name}: weights after each step", f"{worst:.1e}", 0, worst <= 1e-11, "largest relative distance from torch.optim")
    for key, found in pairs.items():
        report.numbers(f"{name}: {key}", found, tolerance)
    residuals = [r["balance_residual"] for row in rows for r in row.get("ranks") or [] if r.get("balance_residual") is not None]
    laws = sorted({str(r["balance_law"]) for row in rows[:-1] for r in row.get("ranks") or []})
    report.line(f"{name}: balance_residual", max(residuals, default=None), "<= 1e-12", max(residuals, default=0) <= 1e-12, f"laws {laws}")
    tables_agree(report, name, out, result, rows)
    return out, rows, nulls


def tables_agree(report, name, out, result, rows):
    """log.jsonl, run.db and the result's tables hold the same numbers."""
    base = sqlite3.connect(os.path.join(out, "run.db"))
    for table in ("log", "ranks", "layers"):
        columns = [c[1] for c in base.execute(f"pragma table_info({table})")]
        stored = [dict(zip(columns, r)) for r in base.execute(f"select * from {table} order by rowid")]
        logged = [{k: v for k, v in row.items() if k in columns} for row in rows] if table == "log" else [r for row in rows for r in row.get(table) or []]
        report.line(f"{name}: table {table} of run.db", len(stored), len(logged), stored == logged, "against log.jsonl")
        listed = [{k: r.get(k) for k in columns} for r in result["tables"].get(table, [])]
        report.line(f"{name}: table {table} of the result", len(listed), len(logged), listed == [{k: r.get(k) for k in columns} for r in logged], "against log.jsonl")
    base.close()


def null_check(report, name, shape, claimed, draws=1000, seed=1):
    """The nulls beside those of other random factors: within 5 standard errors of a mean of at least 16."""
    rng = np.random.default_rng(seed)
    m, n, r = shape
    drawn = np.array([[v["pseudo_rank"], v["effective_rank"], v["stable_rank"]] for v in
                      (head_measures(rng.normal(size=(m, r)), rng.normal(size=(n, r)) if n else None) for _ in range(draws))])
    for i, column in enumerate(("pseudo_rank_null", "effective_rank_null", "stable_rank_null")):
        mean, deviation = drawn[:, i].mean(), drawn[:, i].std()
        far = abs(claimed[i] - mean) / max(deviation * math.sqrt(1 / draws + 1 / 64), 1e-3 * mean)
        report.line(f"{name}: {column} {shape}", claimed[i], f"{mean:.5f}", far < 5, f"{far:.1f} standard errors (64 draws)")


# ---- part: measures, and part: steps ----

PLAIN = {"clip": None, "clip_each": None, "betas": [0.9, 0.95]}


def measures(report, program):
    """Every mixer, norm, mask and position; what the weights give at each step."""
    batches = np.load(program.path("recall.npy"))

    def recall(i):
        b = torch.from_numpy(batches[i])
        return b[:, 0], b[:, 1]
    models = {
        "pre, shared keys": {},
        "post, rope, biases": {"norm": "post", "norm_affine": "both", "bias": True, "positions": "rope", "heads": 4, "kv_heads": 2, "d_model": 16, "mlp": "gelu"},
        "rmsnorm, swiglu, alibi": {"norm_kind": "rmsnorm", "norm_affine": "gain", "mlp": "swiglu", "positions": "alibi", "kv_heads": 2},
        "alibi, three heads": {"heads": 3, "kv_heads": 3, "positions": "alibi"},
        "no norm, no mlp": {"norm": "none", "mlp": "none", "kv_heads": 2},
        "sandwich, relative, sliding": {"norm": "sandwich", "norm_affine": "both", "mlp": "linear", "positions": "relative", "mask": "sliding:3", "bias": True,
                                        "skip_mixer": 0.7, "branch_mlp": "1/sqrt(L)", "temperature": 1.7},
        "shaped, sinusoidal, shared layers": {"share_layers": True, "depth": 3, "attention": "shaped", "shaped": [1, .5, .5], "positions": "sinusoidal",
                                              "mlp": "gelu_tanh", "kv_heads": 2},
        "centred": {"attention": "centred", "kv_heads": 2},
        "rescaled": {"attention": "rescaled", "rescale": .5, "kv_heads": 2, "norm": "post"},
        "without W_O": {"init": {"wo": "none"}, "kv_heads": 2, "norm": "post"},
        "mamba": {"mixer": "mamba", "kv_heads": 2, "state": 4},
        "mamba2": {"mixer": "mamba2", "kv_heads": 2, "state": 4},
        "linear attention": {"mixer": "linear_attention", "positions": "none", "gate": "after", "decay": "retnet", "inner_norm": True},
        "linear attention, elu": {"mixer": "linear_attention", "kv_heads": 2, "positions": "none", "feature_map": "elu", "normalised": True, "temperature": 1.5},
        "s4d": {"mixer": "s4d", "kv_heads": 2, "state": 4},
        "gated recurrence": {"mixer": ["gated_recurrence", "attention"], "kv_heads": 2},
        "gated delta": {"mixer": "gated_delta", "state": 4},
        "short convolution": {"mixer": ["short_conv", "attention"], "kv_heads": 2}}
    drawn = {}
    for name, model in models.items():
        _, _, nulls = follow(report, program, name, recall_task(model=model), recall)
        drawn.update(nulls)
    for shape, claimed in drawn.items():
        null_check(report, "null", shape, claimed)
    for name, model in (("ALiBi's slopes of three heads", {"heads": 3, "kv_heads": 3, "positions": "alibi"}), ("sinusoids in f64", {"positions": "sinusoidal"})):
        out, _ = program.run(recall_task(steps=0, every_checkpoint=0, model=model))
        row = log_of(out)[0]
        for documented in (True, False):
            with torch.no_grad():
                x, y = recall(0)
                loss = loss_of(Net(out, program.loader(), as_documented=documented)(x), y)[0].item()
            report.numbers(f"{name}, as {'docs/arch.md' if documented else 'the loader'} has them: batch_loss", [(row["batch_loss"], loss)], 1e-12)


def steps(report, program):
    """Every optimiser, schedule, group and loss against torch.optim, on exported batches."""
    batches = np.load(program.path("recall.npy"))

    def recall(i):
        b = torch.from_numpy(batches[i])
        return b[:, 0], b[:, 1]
    adamw = {**PLAIN, "kind": "adamw", "lr": 1e-2, "weight_decay": 0}
    for kind, lr in (("adamw", 1e-2), ("adam", 1e-2), ("sgd", 0.1), ("heavy_ball", 0.05)):
        for name, plan in (("constant", {"warmup": 0}), ("cosine", {"warmup": 2, "last": .1}), ("cosine, ends early", {"warmup": 3, "steps": 6, "last": .3}),
                           ("linear", {"warmup": 2, "last": .2}), ("linear, all warm-up", {"warmup": 30}), ("inverse_sqrt", {"warmup": 3}),
                           ("step", {"warmup": 2, "every": 3, "factor": .5, "milestones": [4, 4, 9]})):
            follow(report, program, f"{kind}, {name}", recall_task(
                schedule={"kind": name.split(",")[0], **plan}, model={"kv_heads": 2},
                optimizer={**PLAIN, "kind": kind, "lr": lr, "clip": 1, "weight_decay": {"default": .1, "attention": .5, "layers\\.0\\.": .2, "norm": 0},
                           "lr_factor": {"default": 1, "mlp": .5, "q\\.weight": 2}}), recall)
    whole = recall_batches(rng := np.random.default_rng(1), 251, 32, 16, 16, 6, 6)
    np.save(program.path("whole.npy"), whole)

    def weight_decay_paper(i):
        b = torch.from_numpy(whole[i])
        return b[:, 0], b[:, 1]
    follow(report, program, "weight_decay.md 7.3, 250 steps", {
        "task": "associative-recall", "data": {"batches": "whole.npy"}, "steps": 250, "batch": 32, "precision": "f64", "log_every": 1, "rank_every": 1,
        "every_checkpoint": 1, "keep": 300, "schedule": {"warmup": 100},
        "optimizer": {"kind": "adamw", "lr": 2e-3, "betas": [.9, .95], "clip": 1, "weight_decay": {"default": .1, "attention": .3, "norm": 0}}}, weight_decay_paper)
    follow(report, program, "clip_each", recall_task(optimizer={**adamw, "clip_each": .2}), recall)
    follow(report, program, "accumulate, smoothing", recall_task(accumulate=2, label_smoothing=.1), recall)
    follow(report, program, "temperature", recall_task(schedule={"temperature": {"start": .3, "final": 1.5, "steps": 4}}), recall)
    follow(report, program, "frozen", recall_task(optimizer={**adamw, "clip": .7, "frozen": ["layers\\.1\\.mixer\\.q"]}), recall)
    follow(report, program, "product penalty", recall_task(optimizer={**adamw, "product_penalty": .3}), recall)
    digits = rng.integers(0, 5, (12, 48, 7))
    points, labels = rng.uniform(0, 10, (12, 5, 6, 2)), rng.integers(0, 2, (12, 5, 6, 1))
    labels[0, 0, 2] = labels[3, :, 1] = -1
    rows = rng.normal(size=(12, 5, 6, 3))
    targets = np.maximum(rows, 0)
    targets[2, 1, 3] = targets[4, :, 0] = np.nan
    own = {"reversal": np.stack([digits, digits[:, :, ::-1]], 2), "hull": np.concatenate([points, labels], 3), "map": np.concatenate([rows, targets], 3)}
    for name, array in own.items():
        np.save(program.path(name + ".npy"), array)
    common = {"dropout": 0, "label_smoothing": 0, "optimizer": {**PLAIN, "kind": "adamw", "lr": 1e-2, "clip": 1, "weight_decay": .1}}

    def own_task(task, data, positions, **more):
        made = recall_task(model={"mask": "none", "positions": positions, "bias": False}, **common)
        return {**made, "task": task, "data": data, **more}

    def ids(i):
        b = torch.from_numpy(own["reversal"][i])
        return b[:, 0], b[:, 1]

    def hull(i):
        b = torch.from_numpy(own["hull"][i])
        return b[..., :2], b[..., 2].long()

    def entries(i):
        b = torch.from_numpy(own["map"][i])
        return b[..., :3], b[..., 3:]
    follow(report, program, "targets everywhere, a batch in parts", own_task("reversal", {"length": 7, "symbols": 5, "batches": "reversal.npy"}, "learned", batch=48), ids)
    follow(report, program, "rows, classes", own_task("convex-hull", {"length": 6, "batches": "hull.npy"}, "none", batch=5,
                                                      embed={"map": "mlp", "width": 7, "norm": True}), hull)
    follow(report, program, "rows, hinge", own_task("convex-hull", {"length": 6, "batches": "hull.npy"}, "none", batch=5, loss="hinge",
                                                    embed={"map": "linear", "width": 0, "norm": False}), hull, "hinge")
    follow(report, program, "rows, squared errors", own_task("entrywise", {"length": 6, "width": 3, "batches": "map.npy"}, "none", batch=5,
                                                             embed={"map": "linear"}), entries, "squared")


# ---- part: sets ----

def best_sample(net, x, row):
    """The sample whose states and attention are those of the row's layers, and how far off they are."""
    worst = []
    for i in range(len(x)):
        true = probe_measures(net, x[i:i + 1])
        worst.append(max(abs(row["layers"][l][k] - v) / max(abs(v), 1e-9) for l, m in enumerate(true) for k, v in m.items() if v is not None))
    return int(np.argmin(worst)), min(worst)


def explained(report, program, name, task, x, y, kind="auto", evaluation=3, dropout=0):
    """A run of one sample a batch and one of the probe: each step's loss is that of a candidate, and so is the probe batch."""
    base = {"steps": 5, "batch": 1, "precision": "f64", "log_every": 1, "rank_every": 1, "eval_every": 1, "every_checkpoint": 1, "keep": 9,
            "probe_samples": 1, "dropout": dropout, "optimizer": {"kind": "adamw", "lr": .02}}
    model = {"d_model": 8, "heads": 2, "mlp_width": 8, **task.get("model", {})}
    out, result = program.run({**base, **task, "model": model})
    rows = log_of(out)
    net = Net(checkpoint(out, 1), program.loader())
    batch, probes, evaluated = [], [], []
    seen, far = set(), []
    for step in (1, 3, 5):
        net.w, row = weights(checkpoint(out, step)), rows[step]
        with torch.no_grad():
            found = [loss_of(net(x[i:i + 1]), y[i:i + 1], kind) for i in range(len(x))]
        losses = np.array([f[0].item() for f in found])
        near = int(np.argmin(abs(losses - row["batch_loss"])))
        if not dropout:
            batch.append((row["batch_loss"], losses[near]))
        place, error = best_sample(net, x, row)
        probes.append(place)
        far.append(error)
        seen.add(near)
        if evaluation:
            subset = min((abs(np.mean(losses[list(c)]) - row["eval_loss"]), c) for r in range(1, evaluation + 1)
                         for c in itertools.combinations(range(len(x)), r))
            evaluated.append((row["eval_loss"], np.mean(losses[list(subset[1])])))
            report.line(f"{name}: sets at step {step}", f"evaluates {subset[1]}, probes {place}, trains {near}", "no sample in two sets",
                        dropout > 0 or (near not in subset[1] and place not in subset[1] and place != near))
    if batch:
        report.numbers(f"{name}: batch_loss", batch, 1e-10)
    report.line(f"{name}: probe batch", f"{max(far):.1e}", 0, max(far) < 1e-8 and len(set(probes)) == 1, f"sample {probes[0]} of {len(x)}")
    if evaluated:
        report.numbers(f"{name}: eval_loss", evaluated, 1e-10)
    return result, out


def marks_of(result):
    return {m["name"]: m["value"] for m in result["tables"].get("marks", [])}


def entropy(counts):
    p = np.asarray(counts, float)
    p = p[p > 0] / p.sum()
    return float(-(p * np.log(p)).sum())


def sets(report, program):
    """What files and generators give: samples, targets, losses, marks; which samples stand in which set."""
    with open(program.path("text.txt"), encoding="utf-8") as file:
        text = file.read()
    vocabulary = sorted(set(text))
    ids = torch.tensor([vocabulary.index(c) for c in text])
    n = 9
    windows = ids.unfold(0, n + 1, 1)
    causal = {"depth": 2, "mask": "causal", "positions": "learned"}
    chars = {"task": "char-lm", "data": {"text": "text.txt", "length": n}, "model": causal}
    result, _ = explained(report, program, "char-lm", chars, windows[:, :n], windows[:, 1:], evaluation=0)
    explained(report, program, "char-lm, dropout", chars, windows[:, :n], windows[:, 1:], evaluation=0, dropout=.3)
    report.numbers("char-lm: unigram entropy of the 362 training characters", [(marks_of(result)["unigram entropy"], entropy(np.bincount(ids[:362])))], 1e-12)
    x, y = np.load(program.path("ids.npy")), np.load(program.path("labels.npy"))
    last = np.full((14, 6), -1)
    last[:, -1] = y
    result, _ = explained(report, program, "tokens", {"task": "tokens", "data": {"x": "ids.npy", "y": "labels.npy", "eval_share": .25}, "model": causal},
                          torch.from_numpy(x), torch.from_numpy(last))
    images = torch.from_numpy(np.load(program.path("images.npy")).astype(float))
    patches = images.view(12, 2, 2, 3, 2).permute(0, 1, 3, 2, 4).reshape(12, 6, 4)
    classes = torch.from_numpy(np.load(program.path("classes.npy")))[:, None].expand(12, 6)
    pictures = {"task": "image", "data": {"x": "images.npy", "y": "classes.npy", "patch": 2, "eval_share": .34}, "model": {"depth": 2, "positions": "learned"}}
    explained(report, program, "image", pictures, patches, classes)
    explained(report, program, "image, hinge", {**pictures, "loss": "hinge"}, patches, classes, "hinge")
    series = torch.from_numpy(np.load(program.path("series.npy")))
    n, ahead = 5, 2
    count = 60 - n - ahead + 1
    x = torch.stack([series[i:i + n] for i in range(count)])
    y = torch.stack([series[i + ahead:i + ahead + n] for i in range(count)])
    result, _ = explained(report, program, "series", {"task": "series", "data": {"x": "series.npy", "length": n, "horizon": ahead, "eval_share": .3},
                                                      "model": {"depth": 1, "mask": "causal"}}, x, y, "squared", evaluation=1)
    train = series[:46].numpy()  # 46 steps to train on, as it says
    again = ((train[ahead:] - train[:-ahead]) ** 2).sum(1).mean() * n
    report.numbers("series: the last value again, over the training part", [(marks_of(result)["the last value again"], again)], 1e-9)
    report.numbers("series: best constant, over the training part", [(marks_of(result)["best constant"], train[ahead:].var(0).sum() * n)], 1e-9)
    every = torch.tensor(list(itertools.product(range(3), repeat=4)))
    result, _ = explained(report, program, "sorting", {"task": "sorting", "data": {"length": 4, "symbols": 3, "train": 50, "eval": 7},
                                                       "model": {"positions": "learned", "depth": 1}}, every, every.sort(1).values, evaluation=0)
    ranked = every.sort(1).values
    best = np.mean([max((ranked[:, i] == v).double().mean().item() for v in range(3)) for i in range(4)])
    report.numbers("sorting: best letter for each place", [(marks_of(result)["best letter for each place"], best)], 1e-12)
    explained(report, program, "reversal", {"task": "reversal", "data": {"length": 4, "symbols": 3, "eval": 7}, "model": {"positions": "learned", "depth": 1}},
              every, every.flip(1), evaluation=0)
    number = 20
    angle = 2 * math.pi * torch.arange(number).double() / number
    points = .3 * torch.stack([angle.cos(), angle.sin()], 1)
    samples = range(number // 2 - 1)
    x = torch.stack([torch.stack([points[i], points[i + number // 2 - 1]]) for i in samples])
    y = torch.stack([torch.stack([points[i + 1], points[i + number // 2]]) for i in samples])
    result, _ = explained(report, program, "circle", {"task": "circle", "data": {"angles": number}, "embed": {"map": "linear"}}, x, y, "squared", evaluation=0)
    arc = math.sin(math.pi * len(samples) / number) / (len(samples) * math.sin(math.pi / number))
    report.numbers("circle: marks", [(marks_of(result)["the point where it is"], 2 * (.6 * math.sin(math.pi / number)) ** 2),
                                     (marks_of(result)["best constant"], .18 * (1 - arc ** 2))], 1e-9)
    _, result = program.run({"task": "tokens", "data": {"x": "ids.npy", "y": "labels.npy"}, "loss": "squared", "steps": 0, "batch": 2,
                             "model": {"depth": 1, "d_model": 8, "heads": 1}})
    names = [m["name"] for m in result["tables"]["marks"] if m["kind"] == "loss"]
    report.line("squared loss of classes: marks", names, "no entropies", not names, "an entropy is no floor of a squared error")


def drawn(program, task, x, y):
    """Which candidates the batches of one sample were: those whose losses are the steps'."""
    common = {"steps": 3000, "batch": 1, "precision": "f64", "log_every": 1, "rank_every": 0, "probe_samples": 1, "dropout": 0,
              "optimizer": {"kind": "sgd", "lr": 0}, "model": {"depth": 1, "d_model": 8, "heads": 2, "mlp_width": 8, "positions": "learned", "mask": "causal"}}
    out, result = program.run({**common, **task})
    net, there = Net(out, program.loader()), y >= 0
    with torch.no_grad():
        shares = net(x).log_softmax(-1).gather(-1, y.clamp(min=0)[..., None])[..., 0]
    losses = (-(shares * there).sum(1) / there.sum(1)).numpy()
    claimed = np.array([row["batch_loss"] for row in log_of(out)])
    near = np.abs(losses[None] - claimed[:, None])
    assert near.min(1).max() < 1e-12
    return near.argmin(1), result


def likely(counts, shares):
    """Pearson's statistic over its degrees of freedom, in deviations above its mean."""
    counts, shares = np.asarray(counts, float), np.asarray(shares, float)
    freedom = len(counts) - 1
    return (((counts - counts.sum() * shares) ** 2 / (counts.sum() * shares)).sum() - freedom) / math.sqrt(2 * freedom)


def laws(report, program):
    """The laws of draws, by telling which sample each step had."""
    letters = torch.tensor(list(itertools.product(range(3), repeat=5)))
    found, result = drawn(program, {"task": "markov", "data": {"length": 4, "symbols": 3, "eval": 7}}, letters[:, :4], letters[:, 1:])
    moves, first = np.zeros((3, 3)), np.zeros(3)
    for i in found:
        row = letters[i].tolist()
        first[row[0]] += 1
        for a, b in zip(row, row[1:]):
            moves[a, b] += 1
    p = moves / moves.sum(1, keepdims=True)
    pi = np.linalg.matrix_power(p, 99)[0]
    report.line("markov: first letters by the fixed point", np.round(first / first.sum(), 3), np.round(pi, 3), likely(first, pi) < 6)
    marks = marks_of(result)
    report.numbers("markov: unigram entropy, of the letters that were seen", [(marks["unigram entropy"], entropy(pi))], .02)
    report.numbers("markov: entropy of the source, likewise", [(marks["entropy of the source"], sum(pi[i] * entropy(p[i]) for i in range(3)))], .03)
    samples, targets, kinds = [], [], []
    for keys, values, gaps in itertools.product(itertools.permutations((1, 2, 3), 2), itertools.permutations((4, 5, 6, 7), 2), itertools.permutations(range(4), 2)):
        x, y = [keys[0], values[0], keys[1], values[1]] + [0] * 8, [-1] * 12
        for k, v, g in zip(keys, values, gaps):
            x[4 + 2 * g], y[4 + 2 * g] = k, v
        samples.append(x)
        targets.append(y)
        kinds.append((keys, values, gaps))
    for power in (.01, 2.0):
        found, _ = drawn(program, {"task": "mqar", "data": {"length": 12, "symbols": 8, "pairs": 2, "power": power, "filler": False, "train": 0, "eval": 7}},
                         torch.tensor(samples), torch.tensor(targets))
        law = np.array([(g + 1) ** (power - 1) for g in range(4)])
        law /= law.sum()
        second = np.array([sum(law[a] * law[g] / (1 - law[a]) for a in range(4) if a != g) for g in range(4)])
        for place, shares in enumerate((law, second)):
            counts = np.bincount([kinds[i][2][place] for i in found], minlength=4)
            report.line(f"mqar, power {power}: gap of key {place}", np.round(counts / counts.sum(), 3), np.round(shares, 3), likely(counts, shares) < 6)
        counts = np.unique([str(kinds[i][:2]) for i in found], return_counts=True)[1]
        report.line(f"mqar, power {power}: keys and values", len(counts), 72, len(counts) == 72 and likely(counts, np.full(72, 1 / 72)) < 6)


# ---- part: states ----

def without_times(rows):
    return [{k: v for k, v in row.items() if k not in ("seconds", "tokens_per_second")} for row in rows]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def states(report, program):
    """The same bits for any number of threads and behind a break; what a break may not lose; logs and evaluations where they are due."""
    task = recall_task(steps=120, log_every=7, rank_every=14, eval_every=21, every_checkpoint=13, keep=3, dropout=.1, precision="f32",
                       data={"batches": None}, batch=64)
    out, _ = program.run(task)
    for threads in (2, 3):
        other, _ = program.run(task, threads=threads)
        report.line(f"{threads} threads: weights", "as one thread's", "", read(out + "/model.safetensors") == read(other + "/model.safetensors"))
        report.line(f"{threads} threads: log", "as one thread's", "", without_times(log_of(out)) == without_times(log_of(other)))
    stopped = {**task, "stop_on": ["loss_spike"], "alarms": {"loss_spike": 0.1}}
    name = program.task(stopped)
    done = program(name, "--out", "broken")
    report.line("--stop-on: exit code", done.returncode, 3, done.returncode == 3)
    folder = program.path("broken")
    row = log_of(folder)[-1]["step"]
    done = program(name, "--out", "broken", "--resume", "--set", "stop_on=[]")
    same = read(folder + "/model.safetensors") == read(out + "/model.safetensors")
    report.line(f"resumed behind step {row}: weights", done.returncode, 0, done.returncode == 0 and same, done.stderr.strip()[-200:])
    # as a program leaves it that was ended behind the checkpoint of step 36, the log's last line in the middle
    cut = program.task(recall_task(steps=40, log_every=5, rank_every=0, every_checkpoint=12, keep=9, data={"batches": None}))
    program(cut, "--out", "cut")
    folder = program.path("cut")
    shutil.rmtree(checkpoint(folder, 40))
    lines = [x for x in read(folder + "/log.jsonl").splitlines(True) if json.loads(x)["step"] <= 35]
    with open(folder + "/log.jsonl", "wb") as file:
        file.write(b"".join(lines)[:-40])
    done = program(cut, "--out", "cut", "--resume")
    got, want = [r["step"] for r in log_of(folder)], [t for t in range(41) if t % 5 == 0]
    report.line("a log cut in the row of step 35, run.db whole: rows behind --resume", got, want, got == want, done.stderr.strip()[-200:])
    # data that changed during the break
    name = program.task(recall_task(steps=20, every_checkpoint=0, stop_on=["loss_spike"], alarms={"loss_spike": .1}, data={"batches": "changing.npy"}))
    batches = np.load(program.path("recall.npy"))
    np.save(program.path("changing.npy"), batches)
    program(name, "--out", "changed")
    batches[15] = batches[3]
    np.save(program.path("changing.npy"), batches)
    done = program(name, "--out", "changed", "--resume", "--set", "stop_on=[]")
    report.line("--resume with another file of batches", done.returncode, "refused, 2", done.returncode == 2)
    # two programs in one folder
    name = program.task(recall_task(steps=10 ** 6, log_every=50, rank_every=0, every_checkpoint=100, data={"batches": None}))
    command = [program.binary, "train", name, "--out", "shared", "--progress", "never", "--threads", "1"]
    with subprocess.Popen(command, cwd=program.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        while "step 200" not in running.stderr.readline():
            pass
        try:
            second = program(name, "--out", "shared", "--resume", timeout=3).returncode
        except subprocess.TimeoutExpired:
            second = "it trains"
        running.send_signal(9)
    report.line("--resume in the folder of a run that goes on", second, "refused, 2", second == 2)
    # an output over a file of the run
    done = program(program.task(recall_task(steps=1, data={"batches": None})), "--out", "over", "--json", "over/config.json")
    report.line("--json DIR/config.json of the run's own folder", done.returncode, "refused, 2", done.returncode == 2)
    # rows and evaluations
    out, _ = program.run(recall_task(steps=22, log_every=7, rank_every=3, eval_every=5, every_checkpoint=0, data={"batches": None}))
    rows = log_of(out)
    got = [r["step"] for r in rows if r["eval_loss"] is not None]
    report.line("eval_every 5 of 22 steps, log_every 7: evaluated at", got, [0, 5, 10, 15, 20, 22], got == [0, 5, 10, 15, 20, 22])
    got = [r["step"] for r in rows]
    report.line("log_every 7, rank_every 3: logged at", got, "those and the evaluated ones", got == [0, 5, 7, 10, 14, 15, 20, 21, 22])


# ---- part: alarms ----

def foreseen(rows, alarms, warmup, unigram):
    """(step, code, severity, layer) by the rules of docs/train.md, from the rows of a log."""
    hold = max(alarms["hold"], 2 * warmup)
    rung, held, most = [], {}, {}

    def judge(step, code, layer, said, lasting):
        if said is None:
            return
        state = held.setdefault((code, layer), {})
        if not said:
            state.clear()
            return
        state.setdefault("since", step)
        state["logs"] = state.get("logs", 0) + 1
        if state["logs"] == 2:
            rung.append((step, code, "warn", layer))
        if lasting and state["logs"] >= 2 and "critical" not in state and step - state["since"] >= hold:
            state["critical"] = True
            rung.append((step, code, "critical", layer))
    near = None
    for row in rows:
        step, layers = row["step"], [r for r in row.get("layers") or [] if r["layer"] is not None]
        judge(step, "loss_spike", None, row["batch_loss"] > alarms["loss_spike"] * row["loss"], False)
        if layers:
            value = layers[-1]["relative_residual"]
            judge(step, "token_collapse", None, None if value is None else value < alarms["token_collapse"], True)
        for r in layers:
            if r["g_q"] is not None and r["g_v"] is not None:
                judge(step, "vanishing_qk_gradient", r["layer"], math.sqrt(r["g_q"]) < alarms["vanishing_qk_gradient"] * math.sqrt(r["g_v"]), True)
        for product in ("qk", "ov"):
            for layer in sorted({r["layer"] for r in row.get("ranks") or [] if r["product"] == product}):
                mine = [r for r in row["ranks"] if r["product"] == product and r["layer"] == layer]
                if any(r["effective_rank"] is None for r in mine):
                    continue
                rank, null = (np.mean([r[c] for r in mine]) for c in ("effective_rank", "effective_rank_null"))
                most[product, layer] = max(most.get((product, layer), 0), rank)
                code = product + "_rank_loss"
                judge(step, code, layer, bool(rank < alarms[code] * null and rank < alarms[code] * most[product, layer]), False)
        collapsed = held.get(("token_collapse", None), {}).get("logs", 0) >= 2
        if unigram is not None and abs(row["loss"] - unigram) <= alarms["context_unused"] and collapsed:
            near = step if near is None else near
            if near >= 0 and step - near >= hold:
                rung.append((step, "context_unused", "critical", None))
                near = -1
        else:
            near = None
    return rung


def alarms(report, program):
    """Runs that should and should not ring; each alarm foreseen from the log."""
    default = {"token_collapse": .05, "vanishing_qk_gradient": 1e-3, "qk_rank_loss": .6, "ov_rank_loss": .6, "context_unused": .03, "loss_spike": 3, "hold": 200}
    cases = {"healthy": {}, "deep post-norm": {"model": {"depth": 10}, "steps": 150},
             "no skips, pre-norm": {"model": {"depth": 5, "norm": "pre", "skip_mixer": 0, "skip_mlp": 0}, "steps": 150, "schedule": {"warmup": 10}},
             "the same, long warm-up": {"model": {"depth": 6, "norm": "pre", "skip_mixer": 0, "skip_mlp": 0}, "steps": 150, "schedule": {"warmup": 30}},
             "high rate": {"optimizer": {"lr": .5, "clip": None}, "steps": 150},
             "decay of attention": {"optimizer": {"weight_decay": {"attention": 20, "default": 0}}},
             "low threshold of a spike": {"optimizer": {"kind": "sgd", "lr": .8, "clip": None}, "steps": 60, "log_every": 1, "rank_every": 7, "alarms": {"loss_spike": 1.02}},
             "no context": {"model": {"depth": 4, "norm": "pre", "skip_mixer": 0, "skip_mlp": 0}, "steps": 400, "optimizer": {"lr": .02}, "alarms": {"context_unused": .3}},
             "odd logs": {"rank_every": 3, "log_every": 7, "model": {"depth": 5, "norm": "pre", "skip_mixer": 0, "skip_mlp": 0}, "steps": 150}}
    for name, case in cases.items():
        task = {"task": "markov", "data": {"length": 12, "symbols": 6, "eval": 4}, "steps": 200, "batch": 4, "log_every": 5, "rank_every": 10, "probe_samples": 2,
                "alarms": {"hold": 40}, "schedule": {"warmup": 0}, "optimizer": {"kind": "adamw", "lr": .003, "betas": [.9, .99], "clip": 1},
                "model": {"depth": 2, "d_model": 16, "heads": 2, "mlp_width": 16, "mask": "causal", "positions": "learned", "norm": "post"}}
        for field, value in case.items():
            task[field] = {**task[field], **value} if isinstance(value, dict) else value
        out, result = program.run(task)
        mine = foreseen(log_of(out), {**default, **task["alarms"]}, task["schedule"]["warmup"], marks_of(result)["unigram entropy"])
        whole = ("token_collapse", "context_unused", "loss_spike")
        theirs = [(a["step"], a["code"], a["severity"], None if a["code"] in whole else a["layer"]) for a in result["tables"]["alarms"]]
        report.line(f"alarms: {name}", len(theirs), len(mine), sorted(mine, key=str) == sorted(theirs, key=str))
        for finding in result["findings"]:
            said = re.match(r"(\d+) layers", finding["message"])
            layers = {a["layer"] for a in result["tables"]["alarms"] if a["code"] == finding["code"]}
            if said:
                report.line(f"alarms: {name}: finding {finding['code']}", said.group(0), f"{len(layers)} layers", int(said.group(1)) == len(layers),
                            f"a network of {task['model']['depth']}")
            if "only a note" in finding["message"]:
                kinds = {a["severity"] for a in result["tables"]["alarms"] if a["code"] == finding["code"]}
                report.line(f"alarms: {name}: finding {finding['code']}", re.search(r"\d+ of them only a note", finding["message"]).group(0), f"severities {sorted(kinds)}",
                            "info" in kinds)


    # what rang before a break
    task = {**task, "steps": 150, "log_every": 5, "rank_every": 10, "every_checkpoint": 7, "schedule": {"warmup": 10}}
    _, whole = program.run(task)
    name = program.task(task)
    program(name, "--out", "rung", "--stop-on", "token_collapse")
    codes = []
    for result in ("rung.json", "again.json"):  # behind the break, and of the finished run
        done = program(name, "--out", "rung", "--resume", "--fail-on", "warn", "--json", result)
        codes.append(done.returncode)
        with open(program.path(result), encoding="utf-8") as file:
            got = json.load(file)
        report.line(f"{result}: table alarms behind --resume", len(got["tables"]["alarms"]), len(whole["tables"]["alarms"]),
                    got["tables"]["alarms"] == whole["tables"]["alarms"])
        counts = [sorted((f["code"], f["count"]) for f in r["findings"]) for r in (got, whole)]
        report.line(f"{result}: findings behind --resume", counts[0], counts[1], counts[0] == counts[1])
    report.line("--fail-on warn of a finished run that rang, behind --resume", codes[1], 3, codes[1] == 3)


# ---- part: refusals ----

def refusals(report, program):
    """Exit codes and messages; --dry-run; what a message tells to do can be done."""
    def exit_code(name, wanted, *arguments, says=""):
        done = program(*arguments, "--quiet")
        report.line(name, done.returncode, wanted, done.returncode == wanted and says in done.stderr and "Traceback" not in done.stderr, done.stderr.strip()[-160:])
        return done
    exit_code("a wrong name", 2, "asociative-recall", says="associative-recall")
    exit_code("a wrong field", 2, "associative-recall", "--set", "optimzer.lr=1", says="optimizer")
    exit_code("a wrong group", 2, "associative-recall", "--set", 'optimizer.weight_decay={"atention":1}', says="attention")
    exit_code("a wrong alarm", 2, "associative-recall", "--stop-on", "tokn_collapse", says="token_collapse")
    exit_code("--precision, of every command (docs/contract.md, 1)", 0, "associative-recall", "--precision", "f64", "--set", "steps=0")
    for name, content in (("empty", b""), ("short", b"ab"), ("not UTF-8", b"ab\xff" * 99)):
        with open(program.path("bad.txt"), "wb") as file:
            file.write(content)
        exit_code(f"a text that is {name}", 2, "char-lm", "--set", "data.text=bad.txt", says="bad.txt")
    for name, array in (("float16", np.zeros((20, 6, 2), np.float16)), ("NaN", np.full((20, 6, 2), np.nan)), ("no sample", np.zeros((0, 6, 2))),
                        ("Fortran order", np.asfortranarray(np.random.default_rng(0).normal(size=(20, 6, 2))))):
        np.save(program.path("bad.npy"), array)
        exit_code(f"an array: {name}", 2, "tokens", "--set", "data.x=bad.npy", "--set", "data.y=labels.npy", says="bad.npy")
    exit_code("no steps", 0, "associative-recall", "--set", "steps=0")
    exit_code("batch 1, one head, one pair", 0, "associative-recall", "--set", "batch=1", "--set", "model.heads=1", "--set", "data.pairs=1", "--set", "data.queries=1", "--set", "steps=3")
    exit_code("sequences of 1", 0, "sorting", "--set", "data.length=1", "--set", "steps=3")
    blow = [x for f in ("optimizer.kind=sgd", "optimizer.clip=null", "optimizer.lr=100000", "schedule.warmup=0", "every_checkpoint=1", "steps=50") for x in ("--set", f)]
    exit_code("a loss that is not finite", 1, "associative-recall", "--out", "blown", *blow, says="checkpoint of step")
    # a file with fewer batches than steps
    np.save(program.path("few.npy"), np.load(program.path("recall.npy"))[:3])
    task = recall_task(steps=3, every_checkpoint=0, data={"batches": "few.npy"})
    exit_code("three batches for three steps and a last look", 2, program.task(task), "--out", "few")
    left = os.path.exists(program.path("few/log.jsonl"))
    report.line("the same: refused", "behind the last step, without a checkpoint" if left else "at once", "at once", not left)
    # no targets
    none = np.load(program.path("recall.npy"))
    none[:, :, 1] = -1
    np.save(program.path("none.npy"), none)
    out, _ = program.run(recall_task(steps=2, every_checkpoint=0, data={"batches": "none.npy"}))
    row = log_of(out)[0]
    report.line("batches without a target: batch_loss", row["batch_loss"], None, row["batch_loss"] is None, "a mean over nothing")
    # what an interrupted run is told to do
    command = [program.binary, "train", "associative-recall", "--out", "stopped", "--progress", "never", "--set", "steps=100000", "--threads", "1"]
    with subprocess.Popen(command, cwd=program.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        while "step" not in running.stderr.readline():
            pass
        running.send_signal(2)
        said = running.stderr.read()
        code = running.wait()
    report.line("SIGINT: exit code", code, 130, code == 130, said.strip()[-200:])
    told = re.search(r"'rankscope train ([^']*)' goes on", said)
    if told:
        try:  # what it was told to do is a long run: one that trains for some seconds goes on
            done = subprocess.run([program.binary, "train", *shlex.split(told.group(1)), "--progress", "never", "--quiet"], cwd=program.folder,
                                  capture_output=True, text=True, timeout=5, check=False).returncode
        except subprocess.TimeoutExpired:
            done = 0
        report.line("SIGINT: the printed command", done, 0, done == 0)
    report.line("SIGINT: what was written", "nothing was written" if "nothing was written" in said else "-", "a checkpoint", "nothing was written" not in said)
    # seeds
    seen = []
    for arguments in ((), ("--seed", "5")):
        out, _ = program.run(recall_task(steps=1, every_checkpoint=0, data={"batches": None}), *arguments)
        seen.append(read(out + "/model.safetensors"))
    report.line("--seed 5, 'seed of every random draw'", "the same weights" if seen[0] == seen[1] else "other weights", "other weights", seen[0] != seen[1])
    # --dry-run
    for name, tokens in (("circle", 60), ("associative-recall", 576)):
        done = program(name, "--dry-run", "--json", f"{name}.plan.json")
        with open(program.path(f"{name}.plan.json"), encoding="utf-8") as file:
            plan = {p["name"]: p["value"] for p in json.load(file)["tables"]["plan"]}
        report.line(f"--dry-run {name}: tokens a step", plan["tokens a step"], tokens, plan["tokens a step"] == tokens)
    d, n, last, mlp = 64, 18, 6, 128
    layer = 2 * (4 * d * d + 2 * d * mlp)
    products = 3 * 32 * (layer * n + 2 * 2 * d * d * n + (layer - 4 * d * d) * last + 2 * d * 16 * last + 4 * d * (n * (n + 1) // 2 + sum(range(n - last + 1, n + 1))))
    report.line("--dry-run associative-recall: operations", plan["operations a step"], products / 1e9, abs(plan["operations a step"] * 1e9 / products - 1) < .03, "within 3 %")
    report.line("--dry-run associative-recall: parameters", plan["parameters"], 70080, plan["parameters"] == 32 * d + n * d + 2 * (4 * d * d + 2 * d * mlp + 2 * d) + d + 16 * d)
    wide = ["mqar", "--set", "batch=8", "--set", "data.length=256", "--set", "data.pairs=8", "--set", "model.d_model=128", "--set", "steps=3", "--set", "rank_every=2",
            "--set", "log_every=1", "--set", "eval_every=2", "--progress", "never", "--quiet", "--threads", "1", "--out", "wide", "--memory", "64M"]
    done = subprocess.run([sys.executable, "-c", "import resource,subprocess,sys\ncode=subprocess.run(sys.argv[1:]).returncode\n"
                           "print(code,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1024)", program.binary, "train", *wide],
                          cwd=program.folder, capture_output=True, text=True, check=False)
    code, peak = done.stdout.split()[-2:]
    report.line("--memory 64M: accepted with a peak of MiB", f"{float(peak):.0f} (exit {code})", "at most 64, or refused", code == "2" or float(peak) <= 64 * 1.1)


PARTS = {"measures": measures, "steps": steps, "sets": sets, "laws": laws, "states": states, "alarms": alarms, "refusals": refusals}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--keep", help="a folder for the runs, which stays")
    arguments = parser.parse_args()
    report, folder = Report(), arguments.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    try:
        for name in arguments.only.split(","):
            place = os.path.join(folder, name)
            os.makedirs(place, exist_ok=True)
            program = Program(arguments.binary, place)
            write_inputs(program)
            PARTS[name](report, program)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{report.checks} checks, {report.different} differ")
    return report.different > 0


if __name__ == "__main__":
    sys.exit(main())
