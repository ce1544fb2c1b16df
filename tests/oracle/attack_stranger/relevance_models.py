"""The models of attack_relevance_stranger.py from their definitions (docs/arch.md, docs/theory/ssm.md, docs/theory/gradients.md,
9), by PyTorch in float64. Where `hold` is set, what the rules take for constant is detached. A module: it has no command line.
"""
import math

import numpy as np
import torch
from torch.nn import functional as F

from .gradient_models import Net

EPSILON = 1e-5


class Held:
    """What is constant on the way back, where relevance is asked for."""
    hold, noise = False, 0.

    def jit(self, x):
        """x, or for estimates of what rounding does, with an error of the size `noise`."""
        if not self.noise:
            return x
        return x * (1 + self.noise * torch.randn(x.shape, generator=self.draws)).as_subclass(torch.Tensor)

    def const(self, x):
        return x.detach() if self.hold else x

    def act(self, f, a, slope):
        """phi(a), or a times the constant phi(a)/a; slope: its limit at 0."""
        if not self.hold:
            return f(a)
        b = a.detach()
        small = b.abs() < 1e-300
        return a * torch.where(small, torch.full_like(b, slope), f(b) / torch.where(small, torch.ones_like(b), b))


def gelu(a):
    return a * torch.special.erfc(-a / math.sqrt(2)) / 2


def gelu_tanh(a):
    return a * (1 + torch.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a ** 3))) / 2


ACTS = {"linear": (lambda a: a, 1.), "relu": (torch.relu, 0.), "gelu": (gelu, .5), "gelu_tanh": (gelu_tanh, .5), "silu": (F.silu, .5),
        "tanh": (torch.tanh, 1.)}


class Stack(Held):
    """An architecture file; s as arch_files.meaning says, weights by name as arch_weights.c writes them."""

    def __init__(self, s, w, graph=None):
        self.s, self.graph = s, graph
        self.w = {name: torch.tensor(np.array(x, dtype=np.float64)) for name, x in w.items()}
        self.causal = all(m in ("s4d", "mamba", "mamba2", "gated_recurrence", "gated_delta", "short_conv")
                          or m in ("attention", "linear_attention") and s["mask"] != "none"
                          or m == "graph" and not np.triu(graph, 1).any() for m in s["mixer"])

    def map(self, x, name):
        return self.jit(x @ self.w[name].T)

    def norm(self, x, rms=False, eps=EPSILON):
        x = self.jit(x)
        if self.s["norm_kind"] == "layernorm" and not rms:
            x = x - x.mean(-1, keepdim=True)
        return x * self.const((x.square().mean(-1, keepdim=True) + eps).rsqrt())

    def conv(self, x, p):
        w = self.w[p + "conv"]
        k, n = w.shape[1], len(x)
        x = torch.cat([torch.zeros(k - 1, x.shape[1]), x])
        return sum(x[j:j + n] * w[:, j] for j in range(k))

    def silu(self, x):
        return self.act(F.silu, x, .5)

    def times(self, logs):
        """exp(log_(j+1) + ... + log_i) at [i, j], 0 above the diagonal; logs [n] or [n, N]."""
        n = len(logs)
        rows = []
        for i in range(n):
            rows.append(torch.stack([logs[j + 1:i + 1].sum(0).exp() if j <= i else torch.zeros_like(logs[0]) for j in range(n)]))
        return torch.stack(rows)

    # ---- mixers: what matrices they have is constant ----

    def gated(self, y, z, groups, normed):
        place = self.s["gate"]
        if z is not None and place == "before":
            y = y * self.const(F.silu(z))
        if normed:
            y = self.norm(y.reshape(len(y), groups, -1), True).reshape(len(y), -1)
        return y * self.const(F.silu(z)) if z is not None and place == "after" else y

    def mamba(self, x, p):
        s = self.s
        inner, N, rank = s["heads"] * s["d_head"], s["state"], -(-s["d_model"] // 16)
        both = self.map(x, p + "in")
        u, z = self.silu(self.conv(both[:, :inner], p)), both[:, inner:]
        three = self.map(u, p + "x")
        dt, b, c = three[:, :rank], three[:, rank:rank + N], three[:, rank + N:]
        if s["inner_norm"]:
            dt, b, c = (self.norm(part, True) for part in (dt, b, c))
        steps = F.softplus(self.map(dt, p + "step") + self.w[p + "step.bias"][0], threshold=40)
        a, d = -self.w[p + "a_log"].reshape(inner, N).exp(), self.w[p + "d"].reshape(-1)
        out = []
        for i in range(inner):
            m = (c[:, None] * b[None] * self.times(steps[:, i:i + 1] * a[i])).sum(2) * steps[:, i][None]
            out.append(self.const(m) @ u[:, i] + d[i] * u[:, i])
        y = torch.stack(out, 1)
        return self.map(y * self.const(F.silu(z)) if s["gate"] != "none" else y, p + "o")

    def mamba2(self, x, p):
        s = self.s
        H, P, G, N = s["heads"], s["d_head"], s["groups"], s["state"]
        row = self.map(x, p + "in")
        z, rest, dt = row[:, :H * P], self.silu(self.conv(row[:, H * P:-H], p)), row[:, -H:]
        u, b, c = rest[:, :H * P], rest[:, H * P:H * P + G * N], rest[:, H * P + G * N:]
        steps = F.softplus(dt + self.w[p + "dt_bias"].reshape(-1), threshold=40)
        a, d = -self.w[p + "a_log"].reshape(-1).exp(), self.w[p + "d"].reshape(-1)
        out = []
        for h in range(H):
            own = slice(h // (H // G) * N, (h // (H // G) + 1) * N)
            v = u[:, h * P:(h + 1) * P]
            m = c[:, own] @ b[:, own].T * self.times(steps[:, h] * a[h]) * steps[:, h][None]
            out.append(self.const(m) @ v + d[h] * v)
        return self.map(self.gated(torch.cat(out, 1), z, G, s["inner_norm"]), p + "o")

    def heads_of(self, y, have):
        """The part of y that belongs to each query head."""
        H, own = self.s["heads"], torch.chunk(y, have, 1) if have > 1 else [y]
        return [own[h * have // H] for h in range(H)]

    def together(self, outs, p):
        return self.map(torch.cat(outs, 1), p + "o") if p + "o" in self.w else sum(outs)

    def linear_attention(self, x, p):
        s, H, n = self.s, self.s["heads"], len(x)
        phi = (lambda v: torch.where(v > 0, v + 1, v.clamp(max=0).exp())) if s["feature_map"] == "elu" else lambda v: v
        q, k = self.heads_of(phi(self.map(x, p + "q")), H), self.heads_of(phi(self.map(x, p + "k")), s["kv_heads"])
        v = self.heads_of(self.map(x, p + "v"), s["kv_heads"]) if p + "v" in self.w else [x] * H
        i = torch.arange(n)
        out = []
        for h in range(H):
            m = q[h] @ k[h].T / s["temperature"]
            if s["mask"] == "causal":
                m = m * torch.where(i[:, None] >= i, float(s["decay_of"][h]) ** (i[:, None] - i).clamp(min=0), torch.zeros(()))
            if s["without_self"]:
                m = m * (i[:, None] != i)
            if s["normalised"]:
                total = m.sum(1, keepdim=True)
                m = m / torch.where(total == 0, torch.ones_like(total), total) * (total != 0)
            out.append(self.const(self.jit(m)) @ v[h])
        width = out[0].shape[1]
        y = self.gated(torch.cat(out, 1), self.map(x, p + "gate") if p + "gate" in self.w else None, H, s["inner_norm"])
        return self.together(list(torch.split(y, width, 1)), p)

    def s4d(self, x, p):
        w, n = {name: self.w[p + name] for name in ("log_step", "log_decay", "frequency", "c", "d")}, len(x)
        d, i = x.shape[1], torch.arange(n)
        a = torch.complex(-w["log_decay"].reshape(d, -1).exp(), w["frequency"].reshape(d, -1))
        step = w["log_step"].reshape(-1).exp()[:, None]
        c = torch.view_as_complex(w["c"].reshape(d, -1, 2).contiguous())
        g = c * ((step * a).exp() - 1) / a
        out = []
        for channel in range(d):
            back = (i[:, None] - i).clamp(min=0)
            m = 2 * (g[channel] * (back[..., None] * step[channel] * a[channel]).exp()).sum(2).real * (i[:, None] >= i)
            out.append(m @ x[:, channel] + w["d"].reshape(-1)[channel] * x[:, channel])
        y = self.act(gelu, torch.stack(out, 1), .5)
        return self.map(y, p + "o") * self.const(torch.sigmoid(self.map(y, p + "gate")))

    def gated_recurrence(self, x, p):
        both = self.map(x, p + "in")
        inner = both.shape[1] // 2
        u = self.conv(both[:, inner:], p)
        forget, into, out = torch.chunk(torch.sigmoid(self.map(u, p + "gates")), 3, 1)
        rows, state = [], torch.zeros(inner)
        forget, into, out = self.const(forget), self.const(into), self.const(out)
        for t in range(len(x)):
            state = forget[t] * state + into[t] * u[t]
            rows.append(out[t] * state)
        y = torch.stack(rows)
        return self.map(y * self.const(gelu(both[:, :inner])) if self.s["gate"] != "none" else y, p + "o")

    def gated_delta(self, x, p):
        s = self.s
        H, K, N = s["heads"], s["kv_heads"], s["state"]
        whole = self.silu(self.conv(torch.cat([self.map(x, p + name) for name in "qkv"], 1), p))
        q, k, v = whole[:, :K * N], whole[:, K * N:2 * K * N], whole[:, 2 * K * N:]
        g = -self.w[p + "a_log"].reshape(-1).exp() * F.softplus(self.map(x, p + "a") + self.w[p + "dt_bias"].reshape(-1), threshold=40)
        beta, out = torch.sigmoid(self.map(x, p + "b")), []
        for h in range(H):
            own = slice(h // (H // K) * N, (h // (H // K) + 1) * N)
            qh, kh = (self.const(y[:, own] * (y[:, own].square().sum(1, keepdim=True) + 1e-6).rsqrt()) for y in (q, k))
            gh, bh = self.const(g[:, h].exp()), self.const(beta[:, h])
            vh = v[:, h * v.shape[1] // H:(h + 1) * v.shape[1] // H]
            S, rows = torch.zeros(N, vh.shape[1]), []
            for t in range(len(x)):
                S = gh[t] * S
                S = S + torch.outer(kh[t] * bh[t], vh[t] - S.T @ kh[t])
                rows.append(S.T @ qh[t] / math.sqrt(N))
            out.append(torch.stack(rows))
        y = self.gated(torch.cat(out, 1), self.map(x, p + "z") if p + "z" in self.w else None, H, s["inner_norm"])
        return self.map(y, p + "o")

    def short_conv(self, x, p):
        b, c, u = torch.chunk(self.map(x, p + "in"), 3, 1)
        return self.map(self.const(c) * self.conv(self.const(b) * u, p), p + "o")

    def logits(self, x, p):
        s, n = self.s, len(x)
        q, k = self.heads_of(self.map(x, p + "q"), s["heads"]), self.heads_of(self.map(x, p + "k"), s["kv_heads"])
        if s["positions"] == "rope" and s["mixer_now"] == "attention":
            half = s["d_head"] // 2
            angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(half) / max(half, 1))
            cos, sin = angle.cos(), angle.sin()

            def turned(y):
                a, b = y[:, :half], y[:, half:2 * half]
                return torch.cat([a * cos - b * sin, b * cos + a * sin, y[:, 2 * half:]], 1)
            q, k = [turned(y) for y in q], [turned(y) for y in k]
        return [a @ b.T / math.sqrt(s["d_head"]) / s["temperature"] for a, b in zip(q, k)]

    def attention(self, x, p):
        s, n, i = self.s, len(x), torch.arange(len(x))
        back = i[:, None] - i
        window = int(s["mask"].split(":")[1]) if s["mask"].startswith("sliding") else n + 1
        seen = torch.ones(n, n, dtype=torch.bool) if s["mask"] == "none" else (back >= 0) & (back < window)
        v = self.heads_of(self.map(x, p + "v"), s["kv_heads"])
        eye, soft, flat = s["mix"]
        out, mean = [], 0
        for h, S in enumerate(self.logits(x, p)):
            if s["positions"] == "relative":
                bias = self.w[p + "distance"]
                reach = bias.shape[1] // 2
                S = S + bias[h, back.clamp(-reach, reach) + reach] / s["temperature"]
            if s["positions"] == "alibi":
                S = S - 2.0 ** (-8 * (h + 1) / s["heads"]) * back.abs() / s["temperature"]
            P = torch.softmax(torch.where(seen, S, -math.inf), 1)
            P = self.jit(P)
            m = soft * P - flat * seen / seen.sum(1, keepdim=True) + eye * torch.eye(n)
            mean = mean + m.detach() / s["heads"]
            out.append(self.const(m) @ v[h])
        self.maps.append(mean)
        return self.together(out, p)

    def graph_mixer(self, x, p):
        s, a = self.s, torch.tensor(np.asarray(self.graph, dtype=np.float64))
        H = s["heads"] if s["form"] == "attention" else 1
        degree = a.sum(1, keepdim=True)
        if s["form"] == "attention":
            none = (a != 0).sum(1, keepdim=True) == 0
            ms = [torch.where(none, torch.zeros(()), torch.softmax(torch.where((a != 0) | none, S, -math.inf), 1)) for S in self.logits(x, p)]
        elif s["form"] == "row":
            ms = [torch.where(degree != 0, a / torch.where(degree == 0, 1., degree), torch.zeros(()))]
        elif s["form"] == "symmetric":
            both = degree.sqrt() * degree.sqrt().T
            ms = [torch.where(both != 0, a / torch.where(both == 0, 1., both), torch.zeros(()))]
        else:
            ms = [a]
        if p + "v" in self.w:
            y = self.map(x, p + "v")
            v = self.heads_of(y, s["kv_heads"]) if H > 1 else [y]
        elif p + "o" not in self.w:
            v = [x] * H
        else:
            v = self.heads_of(x, s["kv_heads"]) if H > 1 else [x]
        return self.together([self.const(m) @ y for m, y in zip(ms, v)], p)

    def mlp(self, x, p):
        if self.s["mlp"] == "swiglu":
            return self.map(self.const(F.silu(self.map(x, p + "gate"))) * self.map(x, p + "up"), p + "down")
        return self.map(self.act(ACTS[self.s["mlp"]][0], self.map(x, p + "up"), ACTS[self.s["mlp"]][1]), p + "down")

    def block(self, x, skip, scale, op):
        norm = self.s["norm"]
        y = self.jit(skip * x)
        if scale:
            out = op(self.norm(x) if norm in ("pre", "sandwich") else x)
            y = y + scale * (self.norm(out) if norm == "sandwich" else out)
        return self.norm(y) if norm == "post" else y

    def enter(self, ids):
        x = self.w["embedding"][torch.tensor(ids)]
        return x + self.w["positions"][:len(ids)] if "positions" in self.w else x

    def states(self, x):
        """What enters each layer, and the last state."""
        whole, self.maps = self.s, []
        x = x.detach().requires_grad_()
        out = [x]
        for l in range(whole["depth"]):
            name = whole["mixer"][l]
            stored = 0 if whole.get("share_layers") else l
            self.s = dict(whole, gate=whole["gate_of"][name], inner_norm=whole["inner_norm_of"][name], mixer_now=name)
            op = getattr(self, "graph_mixer" if name == "graph" else name)
            x = self.block(x, whole["skip_mixer"][l], whole["branch_mixer"][l], lambda v: op(v, f"{stored}.0."))
            if whole["mlp"] != "none":
                x = self.block(x, whole["skip_mlp"][l], whole["branch_mlp"][l], lambda v: self.mlp(v, f"{stored}.1."))
            out.append(x)
            self.s = whole
        return out

    def head(self, x):
        """Outputs of each row; None without a head."""
        if "head" not in self.w:
            return None
        return (self.norm(x) if self.s["final_norm"] else x) @ self.w["head"].T

    def final(self, x):
        return self.norm(x) if self.s["final_norm"] else x

    def biases(self):
        return []


class Relevant(Held, Net):
    """A checkpoint of gradient_checkpoints.py."""

    def __init__(self, m, w, o):
        Net.__init__(self, m, w, o)
        self.causal = (m["family"] not in ("bert", "albert")) and not (o.get("no_mask") and m["family"] not in ("mamba", "mamba2"))

    def fresh(self, hold):
        self.hold, self.leaves = hold, {}
        self.o = dict(self.o, freeze_norm=hold, freeze_attention=hold)

    def mlp(self, y, l):
        f, y0 = self.m["family"], y
        y = self.linear(y0, l, "mlp.up")
        if f in ("bert", "gpt2", "albert"):
            y = self.act(gelu if f == "bert" else gelu_tanh, y, .5)
        else:
            g = self.linear(y0, l, "mlp.gate")
            y = y * self.const(gelu_tanh(g) if f == "gemma2" else F.silu(g))
        return self.linear(y, l, "mlp.down")

    def linear(self, x, l, name):
        return self.jit(Net.linear(self, x, l, name))

    def norm(self, x, l, name):
        return Net.norm(self, self.jit(x), l, name)

    def masked(self, S, mask):
        e = self.jit(Net.masked(self, S, mask))
        P = (e / e.sum(1, keepdim=True)).detach()
        self.now.append(P)
        return e

    def mamba(self, x, l):
        """Net's, with what the rules hold constant."""
        m, n = self.m, x.shape[0]
        N, inner, one = m["state"], m["inner"], m["family"] == "mamba"
        u = self.linear(x, l, "mixer.in")
        if one:
            u, z = u[:, :inner], u[:, inner:]
        else:
            H, G = m["H"], m["groups"]
            z, u, dt = u[:, :inner], u[:, inner:-H], u[:, -H:]
        cw = self.p(l, "mixer.conv.weight")
        u = F.pad(u, (0, 0, m["conv"] - 1, 0))
        u = self.act(F.silu, sum(u[t:t + n] * cw[:, t] for t in range(m["conv"])) + self.p(l, "mixer.conv.bias"), .5)
        A, D = -self.p(l, "mixer.A_log").exp(), self.p(l, "mixer.D")
        if one:
            t = self.linear(u, l, "mixer.x")
            B, C = t[:, -2 * N:-N], t[:, -N:]
            step = F.softplus(t[:, :-2 * N] @ self.p(l, "mixer.dt.weight").T + self.p(l, "mixer.dt.bias"))
            B, C = B[:, None, :], C[:, None, :]
        else:
            P = m["P"]
            B, C = (y.reshape(n, G, N).repeat_interleave(H // G * P, 1) for y in (u[:, inner:inner + G * N], u[:, inner + G * N:]))
            u = u[:, :inner]
            step = F.softplus(dt + self.p(l, "mixer.dt_bias")).repeat_interleave(P, 1)
            A, D = A.repeat_interleave(P)[:, None], D.repeat_interleave(P)
        step, B, C = self.const(step), self.const(B), self.const(C)
        state, ys = torch.zeros(inner, N), []
        for t in range(n):
            state = (step[t][:, None] * A).exp() * state + (step[t] * u[t])[:, None] * B[t]
            ys.append((state * C[t]).sum(1) + D * u[t])
        y = torch.stack(ys) * self.const(F.silu(z))
        if not one:
            s = (y.reshape(n, G, -1).square().mean(2, keepdim=True) + m["eps"]).rsqrt()
            y = (y.reshape(n, G, -1) * self.const(s)).reshape(n, inner) * self.p(l, "mixer.norm.gain")
        return self.linear(y, l, "mixer.out")

    def enter(self, ids):
        o, self.o = self.o, dict(self.o, depth=0)
        x = Net.states(self, ids)
        self.o = o
        return x

    def states(self, x):
        m, o, f, self.maps = self.m, self.o, self.m["family"], []
        x = x.detach().as_subclass(torch.Tensor).requires_grad_()
        out, depth = [x], o.get("depth", m["layers"])
        for l in range(depth):
            self.now = []
            for kind in ("mixer",) if o.get("no_mlp") or f in ("mamba", "mamba2") else ("mixer", "mlp"):
                stored = 0 if f == "albert" else l % m["layers"]
                name = next((kind + y for y in (".before", ".after") if (stored, kind + y + ".gain") in self.w), None)
                place = {"pre": "before", "post": "after"}.get(o.get("placement"), name.split(".")[1])
                norm, mine = not o.get("no_norm"), kind + "." + place
                for y in (".gain", ".bias"):
                    if (stored, name + y) in self.w and norm:
                        self.p(l, mine + y, self.w[stored, name + y])
                lam, alpha = (t(l, depth) if callable(t) else t for t in (o.get("lam_" + kind, 1.), o.get("alpha", 1.)))
                y = self.norm(x, l, mine) if norm and place == "before" else x
                y = self.mlp(y, l) if kind == "mlp" else self.mamba(y, l) if f in ("mamba", "mamba2") else self.attention(y, l)
                if norm and (stored, kind + ".inside.gain") in self.w:
                    y = self.norm(y, l, kind + ".inside")
                x = x * lam + y * alpha
                alpha_mixer = alpha if kind == "mixer" else alpha_mixer
                if norm and place == "after":
                    x = self.norm(x, l, mine)
            if self.now:  # a branch of factor 0 is not run
                self.maps.append(sum(self.now) / len(self.now) * (alpha_mixer != 0))
            out.append(x)
        return out

    def final(self, x):
        return self.norm(x, None, "final") if (None, "final.gain") in self.w else x

    def head(self, x):
        if self.m["family"] in ("bert", "albert"):
            return None
        z = self.final(x) @ self.p(None, "head.decoder.weight").T
        return self.act(torch.tanh, z / self.m["fcap"], 1.) * self.m["fcap"] if self.m["family"] == "gemma2" else z

    def biases(self):
        """(layer or None, tensor) of all that were read."""
        return [(l, t) for (l, name), t in self.leaves.items() if name.endswith(".bias") and not name.startswith("embedding.")
                and name not in ("mixer.dt.bias",)]
