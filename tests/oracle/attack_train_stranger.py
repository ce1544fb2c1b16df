#!/usr/bin/env python3
"""What `rankscope train` writes, computed a second time from docs/train.md and docs/arch.md alone, in NumPy and PyTorch
float64. A check is a line: what was claimed, what is true, and a verdict.

    attack_train_stranger.py BINARY [--only PART[,PART]] [--keep FOLDER]

Parts: measures, steps, sets, states, alarms, refusals. Needs NumPy and PyTorch. Exit code 1 where a check differs."""
import argparse
import importlib.util
import itertools
import json
import math
import os
import re
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

    def __init__(self, folder, loader, w=None):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.a = json.load(file)["arch"]
        self.w = weights(folder) if w is None else w
        self.loader, self.folder = loader, folder

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
            y = y - 2.0 ** (-8 * torch.arange(1, heads + 1).double() / heads)[:, None, None] * distance.abs()
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
            h = h + torch.where(pair % 2 == 1, angle.cos(), angle.sin())
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

def loss_of(z, y, kind, smoothing=0.0):
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
