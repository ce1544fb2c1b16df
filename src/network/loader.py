"""What `rankscope train` saved, in PyTorch alone: python loader.py DIR 3 1 4 prints a line of logits for each token id;
python loader.py DIR states.npy takes the first states [tokens, d_model] instead, or rows, for a model without a
vocabulary; one without a head prints its last states. In Python: Model(DIR)(ids). The architecture's fields are those of docs/arch.md."""
import ast
import json
import math
import os
import sys

import torch
import torch.nn.functional as F

EPS = 1e-5
TYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
NPY = {"<f8": torch.float64, "<f4": torch.float32, "<i8": torch.int64, "<i4": torch.int32}


def safetensors(path):
    """8 bytes with the header's length, the header as JSON, then the numbers."""
    data = bytearray(open(path, "rb").read())
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(data[start + t["data_offsets"][0]:start + t["data_offsets"][1]],
                                   dtype=TYPES[t["dtype"]]).reshape(t["shape"]) for name, t in header.items()}


def npy(path):
    data = bytearray(open(path, "rb").read())
    wide = 2 if data[6] == 1 else 4
    start = 8 + wide + int.from_bytes(data[8:8 + wide], "little")
    header = ast.literal_eval(data[8 + wide:start].decode("latin1"))
    return torch.frombuffer(data[start:], dtype=NPY[header["descr"]]).reshape(header["shape"])


def rms(x):
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()


def rotated(x):
    """Positions: [heads, tokens, d_head], the first half of a head with the second."""
    n, half = x.shape[1], x.shape[2] // 2
    angle = torch.arange(n, dtype=x.dtype)[:, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half).to(x.dtype)
    a, b, cos, sin = x[..., :half], x[..., half:], angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def slopes(heads):
    """ALiBi's."""
    power = 2 ** int(math.log2(heads))
    return [2.0 ** (-8 * (h + 1) / power) if h < power else 2.0 ** (-4 * (2 * (h - power) + 1) / power) for h in range(heads)]


class Model:
    def __init__(self, folder):
        self.a = json.load(open(os.path.join(folder, "config.json")))["arch"]
        self.w = safetensors(os.path.join(folder, "model.safetensors"))
        self.dtype = next(iter(self.w.values())).dtype if self.w else torch.float64
        if self.a.get("graph"):
            self.adjacency = npy(os.path.join(folder, self.a["graph"]["file"])).to(torch.float64)
        self.merged = self.a.get("init", {}).get("wo") == "none"

    # ---- parts ----

    def map(self, x, name):
        if name + ".weight" not in self.w:  # absent: "wv" or "wo" of "identity"
            return x
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"].flatten() if name + ".bias" in self.w else None)

    def affine(self, x, name):
        x = x * self.w[name + ".gain"].flatten() if name + ".gain" in self.w else x
        return x + self.w[name + ".bias"].flatten() if name + ".bias" in self.w else x

    def norm(self, x, name):
        if self.a["norm_kind"] == "layernorm":
            x = x - x.mean(-1, keepdim=True)
        return self.affine(rms(x), name)

    def conv(self, x, name):
        """Causal, each channel by itself."""
        w = self.w[name + ".weight"]
        bias = self.w[name + ".bias"].flatten() if name + ".bias" in self.w else None
        return F.conv1d(x.T[None], w[:, None], bias, padding=w.shape[1] - 1, groups=len(w))[0, :, :len(x)].T

    def gated(self, y, z, groups, place, normed, name):
        """The gate z before or behind the norm of each of `groups` stretches, or none."""
        if z is not None and place == "before":
            y = y * F.silu(z)
        if normed:
            y = rms(y.view(len(y), groups, -1))
            whole = self.w.get(name + ".gain", y[0]).numel() == y[0].numel()
            y = self.affine(y.flatten(1), name) if whole else self.affine(y, name).flatten(1)
        return y * F.silu(z) if z is not None and place == "after" else y

    def heads(self, x, heads, shared):
        """[tokens, ...] as [heads, tokens, ...], each part repeated for the heads that share it."""
        return x.view(len(x), shared, -1).transpose(0, 1).repeat_interleave(heads // shared, 0)

    def put_together(self, y, p):
        """Heads side by side through W_O, or their sum where W_O is in W_V."""
        return y.sum(0) if self.merged else self.map(y.transpose(0, 1).flatten(1), p + "o")

    def values(self, x, p, heads, shared):
        """Of each head; the tokens, whole, where nothing maps them and the heads are summed."""
        return x if self.merged and p + "v.weight" not in self.w else self.heads(self.map(x, p + "v"), heads, shared)

    def gate_of(self, mixer):
        return self.a.get("gate") or {"linear_attention": "none", "gated_delta": "after"}.get(mixer, "before")

    def inner_norm(self, mixer):
        return self.a.get("inner_norm", mixer in ("mamba2", "gated_delta"))

    # ---- attention ----

    def temperature(self, layer):
        given = self.a["temperature"]
        return given[layer] if isinstance(given, list) else given

    def logits(self, x, p, layer, positions):
        a = self.a
        q = self.heads(self.map(x, p + "q"), a["heads"], a["heads"])
        k = self.heads(self.map(x, p + "k"), a["heads"], a["kv_heads"])
        if positions == "rope":
            q, k = rotated(q), rotated(k)
        y, n = q @ k.transpose(1, 2) / math.sqrt(a["d_head"]), len(x)
        distance = torch.arange(n)[:, None] - torch.arange(n)
        if positions == "alibi":
            y = y - torch.tensor(slopes(a["heads"]), dtype=x.dtype)[:, None, None] * distance.abs()
        if positions == "relative":
            bias = self.w[p + "distance_bias"]
            reach = bias.shape[1] // 2
            y = y + bias[:, distance.clamp(-reach, reach) + reach]
        return y / self.temperature(layer)

    def mix(self, layer):
        a, w = self.a, self.a.get("rescale", 1)
        shaped = a.get("shaped", [1, 1, 1])
        return {"softmax": (0, 1, 0), "uniform": (0, 0, -1), "centred": (0, 1, 1), "rescaled": (0, 1 + w, w),
                "shaped": shaped[layer] if isinstance(shaped[0], list) else shaped}[a["attention"]]

    def attention(self, x, p, layer):
        a, n = self.a, len(x)
        seen = torch.ones(n, n, dtype=torch.bool)
        if a["mask"] != "none":
            seen = seen.tril()
        if a["mask"].startswith("sliding:"):
            seen = seen.triu(1 - int(a["mask"].split(":")[1]))
        softmax = self.logits(x, p, layer, a["positions"]).masked_fill(~seen, -math.inf).softmax(-1)
        uniform = seen.to(x.dtype) / seen.sum(1, keepdim=True)
        of_identity, of_softmax, of_uniform = self.mix(layer)
        m = of_identity * torch.eye(n, dtype=x.dtype) + of_softmax * softmax - of_uniform * uniform
        return self.put_together(m @ self.values(x, p, a["heads"], a["kv_heads"]), p)

    def linear_attention(self, x, p, layer):
        a, n, heads = self.a, len(x), self.a["heads"]
        features = (lambda v: F.elu(v) + 1) if a["feature_map"] == "elu" else (lambda v: v)
        q = features(self.heads(self.map(x, p + "q"), heads, heads))
        k = features(self.heads(self.map(x, p + "k"), heads, a["kv_heads"]))
        m = q @ k.transpose(1, 2) / self.temperature(layer)
        if a["mask"] == "causal":
            decay = [1 - 2.0 ** (-5 - h) for h in range(heads)] if a["decay"] == "retnet" else a["decay"]
            decay = torch.tensor(decay, dtype=torch.float64).expand(heads)[:, None, None]
            distance = (torch.arange(n)[:, None] - torch.arange(n)).clamp(min=0)
            m = (m * (decay ** distance).to(x.dtype)).tril()
        if a["without_self"]:
            m = m * (1 - torch.eye(n, dtype=x.dtype))
        if a["normalised"]:
            total = m.sum(-1, keepdim=True)
            m = m / torch.where(total == 0, math.inf, total)
        y = m @ (x if a.get("value_map") == "identity" else self.values(x, p, heads, a["kv_heads"]))
        width = y.shape[2]
        z = self.map(x, p + "gate") if p + "gate.weight" in self.w else None
        y = self.gated(y.transpose(0, 1).flatten(1), z, heads, self.gate_of("linear_attention"),
                       self.inner_norm("linear_attention"), p + "norm")
        return self.put_together(y.view(n, heads, width).transpose(0, 1), p)

    def graph(self, x, p, layer):
        a, n, form = self.a, len(x), self.a["graph"].get("form", "row")
        g, heads, shared = self.adjacency, 1, 1
        if form == "attention":
            heads, shared = a["heads"], a["kv_heads"]
            m = self.logits(x, p, layer, "none").masked_fill(g == 0, -math.inf).softmax(-1).nan_to_num(0)
        else:
            degree = g.sum(1)
            degree = torch.where(degree == 0, math.inf, degree)
            m = {"row": g / degree[:, None], "symmetric": g / degree.sqrt()[:, None] / degree.sqrt(), "given": g}[form].to(x.dtype)
        y = m @ self.values(x, p, heads, shared)
        return self.put_together(y if y.dim() == 3 else y[None], p)

    # ---- state spaces (docs/theory/ssm.md) ----

    def mamba(self, x, p, layer):
        inner, states = self.a["heads"] * self.a["d_head"], self.a["state"]
        u, z = self.map(x, p + "in").split(inner, 1)
        u = F.silu(self.conv(u, p + "conv"))
        dt, b, c = self.map(u, p + "x").split([self.w[p + "dt.weight"].shape[1], states, states], 1)
        if self.inner_norm("mamba"):
            dt, b, c = (self.affine(rms(v), p + name + "_norm") for v, name in ((dt, "dt"), (b, "b"), (c, "c")))
        step, a = F.softplus(self.map(dt, p + "dt")), -self.w[p + "a_log"].exp()
        h, y = torch.zeros_like(a), []
        for t in range(len(x)):
            h = (step[t, :, None] * a).exp() * h + (step[t] * u[t])[:, None] * b[t]
            y.append(h @ c[t])
        y = torch.stack(y) + self.w[p + "d"].flatten() * u
        return self.map(y * F.silu(z) if self.gate_of("mamba") != "none" else y, p + "out")

    def mamba2(self, x, p, layer):
        heads, width, groups, states = (self.a[name] for name in ("heads", "d_head", "groups", "state"))
        inner, keys, n = heads * width, groups * states, len(x)
        z, rest, dt = self.map(x, p + "in").split([inner, inner + 2 * keys, heads], 1)
        u, b, c = F.silu(self.conv(rest, p + "conv")).split([inner, keys, keys], 1)
        b, c = self.heads(b, heads, groups), self.heads(c, heads, groups)
        u, step = self.heads(u, heads, heads), F.softplus(dt + self.w[p + "dt_bias"].flatten())
        decay, s, y = (-self.w[p + "a_log"].flatten().exp() * step).exp(), torch.zeros(heads, states, width, dtype=x.dtype), []
        for t in range(n):
            s = decay[t, :, None, None] * s + step[t, :, None, None] * b[:, t, :, None] * u[:, t, None]
            y.append((s * c[:, t, :, None]).sum(1) + self.w[p + "d"].flatten()[:, None] * u[:, t])
        y = self.gated(torch.stack(y).flatten(1), z, groups, self.gate_of("mamba2"), self.inner_norm("mamba2"), p + "norm")
        return self.map(y, p + "out")

    def s4d(self, x, p, layer):
        pairs, n = self.a["state"], len(x)
        step = self.w[p + "log_step"].flatten().double().exp()[:, None]
        a = torch.complex(-self.w[p + "log_decay"].double().exp(), self.w[p + "frequency"].double())
        c = torch.view_as_complex(self.w[p + "c"].double().reshape(len(step), pairs, 2))
        quotient = torch.where(step * a == 0, step.to(a.dtype), ((step * a).exp() - 1) / a)
        kernel = 2 * (c * quotient * (torch.arange(n)[:, None, None] * step * a).exp()).real.sum(-1).to(x.dtype)
        distance = torch.arange(n)[:, None] - torch.arange(n)
        m = kernel[distance.clamp(min=0)] * (distance >= 0)[..., None]
        y = F.gelu((m * x).sum(1) + self.w[p + "d"].flatten() * x)
        return self.map(y, p + "out") * self.map(y, p + "out_gate").sigmoid()

    def gated_recurrence(self, x, p, layer):
        inner = self.a["heads"] * self.a["d_head"]
        z, u = self.map(x, p + "in").split(inner, 1)
        u = self.conv(u, p + "conv")
        forget, into, out = self.map(u, p + "gates").sigmoid().split(inner, 1)
        h, y = torch.zeros_like(u[0]), []
        for t in range(len(x)):
            h = forget[t] * h + into[t] * u[t]
            y.append(out[t] * h)
        y = torch.stack(y)
        return self.map(y * F.gelu(z) if self.gate_of("gated_recurrence") != "none" else y, p + "out")

    def gated_delta(self, x, p, layer):
        heads, shared, states, width = (self.a[name] for name in ("heads", "kv_heads", "state", "d_head"))
        whole = F.silu(self.conv(torch.cat([self.map(x, p + name) for name in "qkv"], 1), p + "conv"))
        q, k, v = whole.split([shared * states, shared * states, heads * width], 1)
        q, k, v = self.heads(q, heads, shared), self.heads(k, heads, shared), self.heads(v, heads, heads)
        k = k / (k.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        q = q / (q.square().sum(-1, keepdim=True) + 1e-6).sqrt() / math.sqrt(states)
        decay = (-self.w[p + "a_log"].flatten().exp() * F.softplus(self.map(x, p + "a") + self.w[p + "dt_bias"].flatten())).exp()
        strength = self.map(x, p + "b").sigmoid()
        s, y = torch.zeros(heads, states, width, dtype=x.dtype), []
        for t in range(len(x)):
            s = decay[t, :, None, None] * s
            wrong = v[:, t] - (s * k[:, t, :, None]).sum(1)
            s = s + (strength[t, :, None] * k[:, t])[:, :, None] * wrong[:, None]
            y.append((s * q[:, t, :, None]).sum(1))
        z = self.map(x, p + "z") if p + "z.weight" in self.w else None
        y = self.gated(torch.stack(y).flatten(1), z, heads, self.gate_of("gated_delta"), self.inner_norm("gated_delta"), p + "norm")
        return self.map(y, p + "out")

    def short_conv(self, x, p, layer):
        b, c, u = self.map(x, p + "in").chunk(3, 1)
        return self.map(c * self.conv(b * u, p + "conv"), p + "out")

    # ---- the whole ----

    def mlp(self, x, p, layer):
        up, kind = self.map(x, p + "up"), self.a["mlp"]
        if kind == "swiglu":
            up = F.silu(self.map(x, p + "gate")) * up
        act = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"),
               "sin": torch.sin, "sigmoid": torch.sigmoid}
        return self.map(act[kind](up) if kind in act else up, p + "down")

    def branch(self, x, op, p, layer, skip, scale, read=None):
        """read: what the op reads in the place of the state, in a parallel block."""
        norm, y = self.a["norm"], x if read is None else read
        y = self.norm(y, p + "norm_before") if norm in ("pre", "sandwich") else y
        y = op(y, p, layer) if scale else torch.zeros_like(x)
        if norm == "sandwich" and scale:
            y = self.norm(y, p + "norm_inside")
        x = skip * x + scale * y
        return self.norm(x, p + "norm_after") if norm == "post" else x

    def read_out(self, seen):
        """What final norm and head read of the states behind all layers; without a head the last one."""
        kind, together = self.a.get("fusion", "none"), torch.stack(seen)
        if kind == "none" or "head.weight" not in self.w:
            return seen[-1]
        if kind == "max":
            return together.max(0).values
        if kind == "gate":
            return (F.linear(together, self.w["fusion.weight"]).softmax(0) * together).sum(0)
        return F.linear(torch.cat(seen, -1), self.w["fusion.weight"])

    def states(self, x):
        a, seen = self.a, []
        for layer in range(a["depth"]):
            p = f"layers.{0 if a['share_layers'] else layer}."
            mixer = a["mixer"] if isinstance(a["mixer"], str) else a["mixer"][layer]
            read = x if a.get("block") == "parallel" else None
            x = self.branch(x, getattr(self, mixer), p + "mixer.", layer, a["skip_mixer"][layer], a["branch_mixer"][layer])
            if a["mlp"] != "none":
                x = self.branch(x, self.mlp, p + "mlp.", layer, a["skip_mlp"][layer], a["branch_mlp"][layer], read)
            seen.append(x)
        x = self.read_out(seen)
        x = self.norm(x, "final_norm") if a["norm"] in ("pre", "sandwich") else x
        return self.map(x, "head") if "head.weight" in self.w else x

    def embed(self, x):
        """Embeddings of tokens, or rows, to the first states."""
        n, d = len(x), self.a["d_model"]
        if "embed.map.weight" in self.w:
            x = self.map(x, "embed.map")
        if "embed.map_out.weight" in self.w:
            x = self.map(F.gelu(x), "embed.map_out")
        if "embed.positions.weight" in self.w:
            x = x + self.w["embed.positions.weight"][:n]
        if self.a["positions"] == "sinusoidal":
            c = torch.arange(d)
            angle = torch.arange(n, dtype=torch.float64)[:, None] * 10000.0 ** (-(c - c % 2).double() / d)
            x = x + torch.where(c % 2 == 1, angle.cos(), angle.sin()).float().to(x.dtype)
        return self.affine(rms(x - x.mean(-1, keepdim=True)), "embed.norm") if "embed.norm.gain" in self.w else x

    def __call__(self, ids):
        """Token ids, or rows of numbers [tokens, width]."""
        return self.states(self.embed(ids if self.a.get("rows") else self.w["embed.tokens.weight"][ids]))


if __name__ == "__main__":
    model = Model(sys.argv[1])
    x = npy(sys.argv[2]).to(model.dtype) if sys.argv[2].endswith(".npy") else [int(i) for i in sys.argv[2:]]
    for row in model(x) if model.a["vocab"] or model.a.get("rows") else model.states(x):
        print(*row.tolist())
