"""The models of attack_gradients_stranger.py from their definitions, and a reverse mode over mpmath beside PyTorch's.
A module: it has no command line.
"""
import math

import mpmath
import numpy as np
import torch
from mpmath import mp, mpf
from torch.nn import functional as F


# ---- a reverse mode over mpmath, with the names of torch ---------------------------------------------------------------

up = np.frompyfunc
EXP, LOG, TANH, ERF, ROOT = up(mpmath.exp, 1, 1), up(mpmath.log, 1, 1), up(mpmath.tanh, 1, 1), up(mpmath.erf, 1, 1), up(mpmath.sqrt, 1, 1)


class V:
    """A matrix of mpf with the way back of what made it."""
    __array_priority__ = 1000
    __neg__ = lambda s: s * mpf(-1)
    __radd__ = __add__ = lambda s, o: V.two(s, o, lambda a, b: a + b, lambda d, a, b: d, lambda d, a, b: d)
    __rmul__ = __mul__ = lambda s, o: V.two(s, o, lambda a, b: a * b, lambda d, a, b: d * b, lambda d, a, b: d * a)
    __matmul__ = lambda s, o: V.two(s, o, lambda a, b: a @ b, lambda d, a, b: d @ b.T, lambda d, a, b: a.T @ d)
    __sub__ = lambda s, o: s + (-o if isinstance(o, V) else V(-np.asarray(o, dtype=object)))
    __truediv__ = lambda s, o: s * (o.one(1 / o.a, lambda d: -d / o.a ** 2) if isinstance(o, V) else 1 / mpf(o))
    T = property(lambda s: s.one(s.a.T, lambda d: d.T))
    shape = property(lambda s: s.a.shape)
    detach = lambda s: V(s.a)
    log = lambda s: s.one(LOG(s.a), lambda d: d / s.a)
    erf = lambda s: s.one(ERF(s.a), lambda d: d * 2 / mpmath.sqrt(mp.pi) * EXP(-s.a * s.a))
    exp = lambda s: s.by(EXP(s.a), lambda y: y)
    tanh = lambda s: s.by(TANH(s.a), lambda y: 1 - y * y)
    rsqrt = lambda s: s.by(1 / ROOT(s.a), lambda y: -y ** 3 / 2)
    sigmoid = lambda s: s.by(1 / (1 + EXP(-s.a)), lambda y: y * (1 - y))

    def __init__(self, a, back=()):
        self.a, self.back, self.grad = np.asarray(a, dtype=object), back, None

    @staticmethod
    def two(s, o, f, left, right):
        o = o if isinstance(o, V) else V(o)
        return V(f(s.a, o.a), ((s, lambda d: left(d, s.a, o.a)), (o, lambda d: right(d, s.a, o.a))))

    def one(self, a, back):
        return V(a, ((self, back),))

    def by(self, y, slope):
        return self.one(y, lambda d: d * slope(y))

    def sum(self, axis=None, keepdim=False):
        return self.one(self.a.sum(axis=axis, keepdims=keepdim or axis is None), lambda d: d + np.zeros(self.shape, dtype=object))

    def __getitem__(self, i):
        def back(d):
            z = np.full(self.a.shape, mpf(0), dtype=object)
            np.add.at(z, i, d)
            return z
        return self.one(self.a[i], back)

    def top(self, mask):
        return V(np.where(mask, self.a, mpf("-inf")).max(axis=1, keepdims=True))

    def backward(self):
        order, seen = [], set()

        def visit(x):
            if id(x) not in seen:
                seen.add(id(x))
                for p, _ in x.back:
                    visit(p)
                order.append(x)
        visit(self)
        self.grad = np.full(self.shape, mpf(1), dtype=object)
        for x in reversed(order):
            for p, f in x.back:
                d = np.asarray(f(x.grad), dtype=object)
                while d.ndim > p.a.ndim:
                    d = np.asarray(d.sum(axis=0), dtype=object)
                for ax, size in enumerate(p.shape):
                    if size == 1 and d.shape[ax] > 1:
                        d = d.sum(axis=ax, keepdims=True)
                p.grad = d if p.grad is None else p.grad + d


class T(torch.Tensor):
    """Of torch's tensors only the one thing that they lack here."""
    def top(self, mask):
        return torch.where(torch.as_tensor(mask), self, -math.inf).amax(1, keepdim=True).detach()


def lift(a, exact):
    a = a.numpy() if isinstance(a, torch.Tensor) else np.asarray(a, dtype=float)
    return V(up(mpf, 1, 1)(a) if a.ndim else np.array(mpf(float(a)), dtype=object)) if exact else torch.tensor(a).as_subclass(T)


# ---- the models ---------------------------------------------------------------------------------------------------------

class Net:
    """A model with its interventions `o`; leaves are made where they are first read, one for each place."""

    def __init__(self, m, w, o, exact=False):
        self.m, self.w, self.o, self.exact, self.leaves = m, w, o, exact, {}
        self.logit, self.near = 0., 1.

    def p(self, l, name, value=None):
        if (l, name) not in self.leaves:
            if value is None:
                stored = None if l is None else 0 if self.m["family"] == "albert" else l % self.m["layers"]
                value = self.w[None, "embedding.tokens"] if name == "head.decoder.weight" and self.m["tied"] else self.w[stored, name]
            x = self.leaves[l, name] = lift(value, self.exact)
            if not self.exact:
                x.requires_grad_()
        return self.leaves[l, name]

    def norm(self, x, l, name):
        f, d = self.m["family"], x.shape[1]
        layer = f in ("gpt2", "bert", "albert")
        y = x - x.sum(1, keepdim=True) / d if layer else x
        eps = lift(self.m["eps"], self.exact)
        if not self.exact:  # squares of rows beyond 1e154 are no doubles
            size = y.detach().abs().amax(1, keepdim=True).clamp(min=1)
            y, eps = y / size, eps / size / size
        s = ((y * y).sum(1, keepdim=True) / d + eps).rsqrt()
        y = y * (s.detach() if self.o.get("freeze_norm") else s)
        g = self.p(l, name + ".gain")
        y = y * (g + lift(1., self.exact) if f == "gemma2" else g)
        return y + self.p(l, name + ".bias") if layer else y

    def linear(self, x, l, name):
        y = x @ self.p(l, name + ".weight").T
        return y + self.p(l, name + ".bias") if (l, name + ".bias") in self.w or (0, name + ".bias") in self.w and l is not None else y

    def attention(self, x, l):
        m, o, n, c = self.m, self.o, x.shape[0], self.m["c"]
        i = np.arange(n)
        mask = np.ones((n, n), dtype=bool) if m["family"] in ("bert", "albert") or o.get("no_mask") else i[None] <= i[:, None]
        if m["family"] == "gemma2" and (l % m["layers"]) % 2 == 0 and not o.get("no_mask"):
            mask = mask & (i[None] > i[:, None] - 3)
        K = lambda a: lift(a, self.exact)
        q, k, v = (self.linear(x, l, "mixer." + y) for y in "qkv")
        turn = np.eye(c, k=c // 2) - np.eye(c, k=-(c // 2))
        angle = i[:, None] * np.tile(10000.0 ** (-np.arange(0, c, 2) / c), 2)[None] if c % 2 == 0 else None
        seen = mask.sum(1, keepdims=True)
        uniform = V(up(mpf, 1, 1)(mask.astype(float)) / up(mpf, 1, 1)(seen)) if self.exact else K(mask / seen)
        out = None
        for h in range(m["h"]):
            a, b = slice(h * c, (h + 1) * c), slice(h // (m["h"] // m["kv"]) * c, (h // (m["h"] // m["kv"]) + 1) * c)
            qh, kh = q[:, a], k[:, b]
            if m["family"] in ("llama", "qwen2", "gemma2"):
                qh, kh = (y * K(np.cos(angle)) + y @ K(turn) * K(np.sin(angle)) for y in (qh, kh))
            width = 7 if m["family"] == "gemma2" else c
            root = 1 / mpmath.sqrt(width) if self.exact else 1 / math.sqrt(width)
            T = o.get("temperature", 1)
            S = qh @ kh.T * root / (1 if m["family"] == "gemma2" else T)
            if self.exact:
                self.logit = max(self.logit, float(abs(S.a).max()))
            if m["family"] == "gemma2":
                S = (S / m["cap"]).tanh() * (m["cap"] / T)  # as the program has it: behind the soft cap
            e = self.masked(S, mask)
            P = e / e.sum(1, keepdim=True)
            if o.get("freeze_attention"):
                P = P.detach()
            if o.get("shape"):
                P = K(np.eye(n)) * o["shape"][0] + P * o["shape"][1] - uniform * o["shape"][2]
            y = P @ v[:, b] @ self.p(l, "mixer.o.weight")[:, a].T
            out = y if out is None else out + y
        return out + self.p(l, "mixer.o.bias") if (0, "mixer.o.bias") in self.w else out

    def masked(self, S, mask):
        if not self.exact:
            return (torch.where(torch.as_tensor(mask), S, -math.inf) - S.top(mask)).exp()
        one = np.where(mask, mpf(1), mpf(0))
        return ((S - S.top(mask)) * one).exp() * one

    def mlp(self, x, l):
        f = self.m["family"]
        y = self.linear(x, l, "mlp.up")
        if f == "bert":
            y = y * ((y * (1 / mpmath.sqrt(2) if self.exact else math.sqrt(.5))).erf() + lift(1., self.exact)) * .5
        elif f in ("gpt2", "albert"):
            y = tanh_gelu(y)
        else:
            g = self.linear(x, l, "mlp.gate")
            y = y * (tanh_gelu(g) if f == "gemma2" else g * g.sigmoid())
        return self.linear(y, l, "mlp.down")

    def mamba(self, x, l):
        m, n = self.m, x.shape[0]
        N, inner = m["state"], m["inner"]
        one = m["family"] == "mamba"
        z, u, dt = (None, *((self.linear(x, l, "mixer.in")), None)) if one else (None, self.linear(x, l, "mixer.in"), None)
        if one:
            u, z = u[:, :inner], u[:, inner:]
        else:
            H, G = m["H"], m["groups"]
            z, u, dt = u[:, :inner], u[:, inner:-H], u[:, -H:]
        cw = self.p(l, "mixer.conv.weight")
        u = F.pad(u, (0, 0, m["conv"] - 1, 0))
        u = F.silu(sum(u[t:t + n] * cw[:, t] for t in range(m["conv"])) + self.p(l, "mixer.conv.bias"))
        A = -self.p(l, "mixer.A_log").exp()
        D = self.p(l, "mixer.D")
        if one:
            t = self.linear(u, l, "mixer.x")
            B, C = t[:, -2 * N:-N], t[:, -N:]
            step = F.softplus(t[:, :-2 * N] @ self.p(l, "mixer.dt.weight").T + self.p(l, "mixer.dt.bias"))
            B, C = B[:, None, :], C[:, None, :]
        else:
            reps, P = H // G, m["P"]
            B, C = (y.reshape(n, G, N).repeat_interleave(reps * P, 1) for y in (u[:, inner:inner + G * N], u[:, inner + G * N:]))
            u = u[:, :inner]
            step = F.softplus(dt + self.p(l, "mixer.dt_bias")).repeat_interleave(P, 1)
            A, D = A.repeat_interleave(P)[:, None], D.repeat_interleave(P)
        state, ys = torch.zeros(inner, N), []
        for t in range(n):
            state = (step[t][:, None] * A).exp() * state + (step[t] * u[t])[:, None] * B[t]
            ys.append((state * C[t]).sum(1) + D * u[t])
        y = torch.stack(ys) * F.silu(z)
        if not one:
            s = (y.reshape(n, G, -1).square().mean(2, keepdim=True) + m["eps"]).rsqrt()
            y = (y.reshape(n, G, -1) * (s.detach() if self.o.get("freeze_norm") else s)).reshape(n, inner) * self.p(l, "mixer.norm.gain")
        return self.linear(y, l, "mixer.out")

    def states(self, ids):
        m, o, f = self.m, self.o, self.m["family"]
        x = self.p(None, "embedding.tokens")[ids]
        if (None, "embedding.positions") in self.w:
            x = x + self.p(None, "embedding.positions")[np.arange(len(ids))]
        if f in ("bert", "albert"):
            x = self.norm(x + self.p(None, "embedding.types")[[0] * len(ids)], None, "embedding.norm")
        if f == "albert":
            x = self.linear(x, None, "embedding.projection")
        if f == "gemma2":
            x = x * (mpmath.sqrt(m["d"]) if self.exact else math.sqrt(m["d"]))
        if self.exact and len(ids) > 1:
            r = x.a - x.a.mean(axis=0)
            self.near = min(self.near, float(size(r) / size(x.a)) or 1.)
        depth = o.get("depth", m["layers"])
        for l in range(depth):
            for kind in ("mixer",) if o.get("no_mlp") or f in ("mamba", "mamba2") else ("mixer", "mlp"):
                stored = 0 if f == "albert" else l % m["layers"]
                name = next((kind + y for y in (".before", ".after") if (stored, kind + y + ".gain") in self.w), None)
                place = {"pre": "before", "post": "after"}.get(o.get("placement"), name.split(".")[1])
                norm = not o.get("no_norm")
                mine = kind + "." + place
                for y in (".gain", ".bias"):
                    if (stored, name + y) in self.w and norm:
                        self.p(l, mine + y, self.w[stored, name + y])
                y = self.norm(x, l, mine) if norm and place == "before" else x
                y = self.mlp(y, l) if kind == "mlp" else self.mamba(y, l) if f in ("mamba", "mamba2") else self.attention(y, l)
                if norm and (stored, kind + ".inside.gain") in self.w:
                    y = self.norm(y, l, kind + ".inside")
                lam, alpha = (lift(t(l, depth) if callable(t) else t, self.exact) for t in (o.get("lam_" + kind, 1.), o.get("alpha", 1.)))
                x = x * self.p(l, kind + ".skip", lam_value(lam)) + y * self.p(l, kind + ".scale", lam_value(alpha))
                if norm and place == "after":
                    x = self.norm(x, l, mine)
        return x

    def loss(self, samples):
        o, m, total = self.o, self.m, lift(0., self.exact)
        targets = sum(max(len(s) - 1, 0) for s in samples) if o["loss"] == "lm" else sum(len(s) > 0 for s in samples)
        row, self.X = 0, []
        for i, s in enumerate(samples):
            if not s:
                continue
            x = self.states(s)
            if o["loss"] in ("lm", "class") or o.get("at") == "final":
                x = self.norm(x, None, "final") if m["family"] not in ("bert", "albert") else x
            self.X.append(x)
            if o["loss"] == "norm2":
                total = total + (x * x).sum() * .5
            elif o["loss"] == "random":
                total = total + (x * o["G"][row:row + len(s)]).sum()
            else:
                last = o["loss"] == "class"
                if not last and len(s) < 2:
                    continue
                z = (x[:1] if last and o.get("no_mask") else x[-1:] if last else x[:-1]) @ self.p(None, "head.decoder.weight").T
                if m["family"] == "gemma2":
                    z = (z / m["fcap"]).tanh() * m["fcap"]
                t = [o["target"]] if last else s[1:]
                z = z - z.top(np.ones(z.shape, dtype=bool))
                total = total + (z.exp().sum(1, keepdim=True).log().sum() - z[np.arange(len(t)), t].sum()) / targets
            row += len(s)
        return total

    def gradients(self, samples):
        """The loss, and every gradient as (layer, head, parameter) -> norm, sums included."""
        total = self.loss(samples)
        total.backward()
        m, out, sums = self.m, {}, {}
        for (l, name), x in self.leaves.items():
            if x.grad is None:
                continue
            g = x.grad if self.exact else x.grad.as_subclass(torch.Tensor).numpy()
            out[l, None, name] = size(g)
            part = name.split(".")
            if len(part) == 3 and part[0] == "mixer" and part[1] in "qkvo" and part[2] == "weight":
                for h in range(m["h"] if part[1] in "qo" else m["kv"]):
                    cut = slice(h * m["c"], (h + 1) * m["c"])
                    out[l, h, name] = size(g[:, cut] if part[1] == "o" else g[cut])
            stored = l if l is None else 0 if m["family"] == "albert" else l % m["layers"]
            key = f"layer.{stored}.{name}.sum" if l is not None else "embedding.tokens.sum" if m["tied"] and name in (
                "embedding.tokens", "head.decoder.weight") else None
            if key and part[-1] not in ("skip", "scale"):
                sums.setdefault(key, []).append(g)
        tied = m["family"] not in ("bert", "albert")
        out.update({(None, None, k): size(sum(v)) for k, v in sums.items() if len(v) > 1 or k.startswith("emb") and tied})
        return total, out


def lam_value(t):
    return np.asarray(float(t.a.item()) if isinstance(t, V) else t.detach().item())


def size(g):
    g = np.asarray(g)
    return mpmath.sqrt(sum((x * x for x in g.ravel()), mpf(0))) if g.dtype == object else float(np.sqrt((g * g).sum()))


def tanh_gelu(y):
    exact = isinstance(y, V)
    k, cube, one = (mpmath.sqrt(2 / mp.pi), mpf("0.044715"), V(mpf(1))) if exact else (math.sqrt(2 / math.pi), .044715, 1.)
    return y * ((y * k + y * y * y * (k * cube)).tanh() + one) * .5
