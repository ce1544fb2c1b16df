"""The layers of an architecture file by their definitions (docs/arch.md, docs/theory/ssm.md, docs/theory/graph.md): every mixing
matrix is formed, entry by entry, and applied. Nothing here knows how the program computes. Numbers are of any kind that `Kind` has:
float32, float64, long double, or mpmath's (arrays of objects)."""
import math

import numpy as np
from scipy.special import erfc

EPSILON = 1e-5


class Kind:
    """Functions on arrays of one kind of number; mp: the mpmath module, dtype: None."""

    def __init__(self, dtype=np.float64, mp=None):
        self.mp, self.dtype = mp, object if mp else dtype
        of = (lambda name, _: np.vectorize(getattr(mp, name), otypes=[object])) if mp else (lambda _, f: f)
        self.exp, self.sqrt, self.log1p = of("exp", np.exp), of("sqrt", np.sqrt), of("log1p", np.log1p)
        self.tanh, self.cos, self.sin = of("tanh", np.tanh), of("cos", np.cos), of("sin", np.sin)
        self.erfc = of("erfc", lambda x: erfc(x.astype(np.float64)).astype(self.dtype))

    def array(self, x):
        x = np.asarray(x)
        if not self.mp:
            return x.astype(self.dtype)
        return np.vectorize(self.mp.mpf, otypes=[object])(x) if x.size else x.astype(object)

    def zeros(self, *shape):
        return self.array(np.zeros(shape))

    def one(self, x):
        return self.array([x])[0]

    def sigmoid(self, x):
        return 1 / (1 + self.exp(-x))

    def silu(self, x):
        return x / (1 + self.exp(-x))

    def gelu(self, x):
        return x * self.erfc(-x / self.sqrt(self.array([2.0]))) / 2

    def gelu_tanh(self, x):
        inner = self.sqrt(self.array([2 / math.pi]) if not self.mp else self.array([2]) / self.mp.pi) * (x + self.one(0.044715) * x ** 3)
        return x * (1 + self.tanh(inner)) / 2

    def softplus(self, x):
        flat = [v if v > 20 else self.log1p(self.exp(self.array([v])))[0] for v in x.reshape(-1)]
        return np.array(flat, dtype=self.dtype).reshape(x.shape)


class Layers:
    """A stack: spec is a description of attack_mixers.py, weights are by name as arch_weights.c writes them."""

    def __init__(self, spec, weights, kind, graph=None):
        self.s, self.k, self.graph = spec, kind, graph
        self.w = {name: kind.array(x) for name, x in weights.items()}

    # ---- what table mixing says beside the matrices: logarithms of decays, steps and skips, by head or channel ----

    def note(self, logs=None, steps=None, d=None):
        self.noted = {"logs": logs, "steps": steps, "d": d}

    # ---- parts ----

    def map(self, x, name):
        return x @ self.w[name].T + (self.w[name + ".bias"][0] if name + ".bias" in self.w else 0)

    def norm(self, x, rms=None):
        if self.s["norm_kind"] == "layernorm" and not rms:
            x = x - x.sum(-1, keepdims=True) / x.shape[-1]
        return x / self.k.sqrt((x * x).sum(-1, keepdims=True) / x.shape[-1] + self.k.one(rms or EPSILON))

    def conv(self, x, name):
        """y_t = sum_j w_j x_(t - width + 1 + j), zeros before the text."""
        w = self.w[name + "conv"]
        y = self.k.zeros(*x.shape)
        for t in range(len(x)):
            for j in range(w.shape[1]):
                if t - w.shape[1] + 1 + j >= 0:
                    y[t] += w[:, j] * x[t - w.shape[1] + 1 + j]
        return y

    def backwards(self, steps, i):
        """j and step_(j+1) + ... + step_i for j = i, i - 1, ..., 0."""
        total = steps[i] * 0
        for j in range(i, -1, -1):
            yield j, total
            total = total + steps[j]

    def gated(self, y, z, groups, normed, eps=EPSILON):
        """The gate z, before or behind the norm over each of `groups` stretches, or none."""
        place = self.s["gate"]
        if z is not None and place == "before":
            y = y * self.k.silu(z)
        if normed:
            y = self.norm(y.reshape(len(y), groups, -1), rms=eps).reshape(len(y), -1)
        return y * self.k.silu(z) if z is not None and place == "after" else y

    # ---- mixers: the matrices, and what the branch gives ----

    def mamba(self, x, p):
        s, k = self.s, self.k
        inner, n, rank = s["heads"] * s["d_head"], s["state"], -(-s["d_model"] // 16)
        both = self.map(x, p + "in")
        u, z = k.silu(self.conv(both[:, :inner], p)), both[:, inner:]
        three = self.map(u, p + "x")
        dt, b, c = three[:, :rank], three[:, rank:rank + n], three[:, rank + n:]
        if s["inner_norm"]:
            dt, b, c = (self.norm(part, rms=self.s.get("eps", EPSILON)) for part in (dt, b, c))
        steps = k.softplus(self.map(dt, p + "step"))
        a, d = -k.exp(self.w[p + "a_log"].reshape(inner, n)), self.w[p + "d"].reshape(-1)
        ms = [k.zeros(len(x), len(x)) for _ in range(inner)]
        self.note([steps[:, [c]] * a[c] for c in range(inner)], [steps[:, c] for c in range(inner)], d)
        for i in range(len(x)):
            for j, time in self.backwards(steps, i):
                e = k.exp(a * time[:, None])
                row = (c[i] * b[j] * e).sum(1) * steps[j] + (d if i == j else 0)
                for channel in range(inner):
                    ms[channel][i, j] = row[channel]
        y = np.stack([m @ u[:, channel] for channel, m in enumerate(ms)], 1)
        if s["gate"] != "none":
            y = y * k.silu(z)
        return self.map(y, p + "o"), ms, [u[:, [channel]] for channel in range(inner)]

    def mamba2(self, x, p):
        s, k = self.s, self.k
        heads, dim, groups, n = s["heads"], s["d_head"], s["groups"], s["state"]
        inner = heads * dim
        row = self.map(x, p + "in")
        z, rest, dt = row[:, :inner], row[:, inner:-heads], row[:, -heads:]
        rest = k.silu(self.conv(rest, p))
        u, b, c = rest[:, :inner], rest[:, inner:inner + groups * n], rest[:, inner + groups * n:]
        steps = k.softplus(dt + self.w[p + "dt_bias"].reshape(-1))
        a, d = -k.exp(self.w[p + "a_log"].reshape(-1)), self.w[p + "d"].reshape(-1)
        ms, values = [], []
        self.note([steps[:, h] * a[h] for h in range(heads)], [steps[:, h] for h in range(heads)], d)
        for h in range(heads):
            g = h // (heads // groups)
            own = slice(g * n, (g + 1) * n)
            m = k.zeros(len(x), len(x))
            for i in range(len(x)):
                for j, time in self.backwards(steps[:, [h]], i):
                    decay = k.exp(a[h] * time)[0]
                    m[i, j] = (c[i, own] * b[j, own]).sum() * decay * steps[j, h] + (d[h] if i == j else 0)
            ms.append(m)
            values.append(u[:, h * dim:(h + 1) * dim])
        y = np.concatenate([m @ v for m, v in zip(ms, values)], 1)
        return self.map(self.gated(y, z, groups, s["inner_norm"]), p + "o"), ms, values

    def features(self, x):
        if self.s["feature_map"] == "identity":
            return x
        return np.where(x > 0, x + 1, self.k.exp(np.where(x > 0, 0 * x, x)))

    def heads_of(self, x, name, heads):
        """The parts that belong to each of `heads` query heads."""
        y = self.map(x, name)
        own = np.split(y, self.s["kv_heads"] if name[-1] in "kv" else heads, 1)
        return [own[h * len(own) // heads] for h in range(heads)]

    def put_together(self, outs, p, gate=None):
        """Heads side by side through W_O, or their sum where W_O is in W_V."""
        return self.map(np.concatenate(outs, 1), p + "o") if p + "o" in self.w else sum(outs)

    def linear_attention(self, x, p):
        s, k, heads = self.s, self.k, self.s["heads"]
        q, keys = ([self.features(part) for part in self.heads_of(x, p + name, heads)] for name in "qk")
        values = self.heads_of(x, p + "v", heads) if p + "v" in self.w else [x] * heads
        ms = []
        if s["mask"] == "causal" and any(v != 1 for v in s["decay_of"]):
            self.note([np.log(np.full(len(x), float(v))) if v else np.full(len(x), -np.inf) for v in s["decay_of"]])
        for h in range(heads):
            decay = k.one(s["decay_of"][h])
            m = k.zeros(len(x), len(x))
            for i in range(len(x)):
                for j in range(len(x)):
                    if (j > i and s["mask"] == "causal") or (j == i and s["without_self"]):
                        continue
                    m[i, j] = (q[h][i] * keys[h][j]).sum() * (decay ** (i - j) if s["mask"] == "causal" else 1) / k.one(s["temperature"])
                total = m[i].sum()
                if s["normalised"]:
                    m[i] = m[i] / total if total != 0 else 0 * m[i]
            ms.append(m)
        y = np.concatenate([m @ v for m, v in zip(ms, values)], 1)
        y = self.gated(y, self.map(x, p + "gate") if p + "gate" in self.w else None, heads, s["inner_norm"])
        return self.put_together(np.split(y, heads, 1), p), ms, values

    def s4d(self, x, p):
        k, w = self.k, {name: self.w[p + name] for name in ("log_step", "log_decay", "frequency", "c", "d")}
        channels, pairs = w["log_decay"].shape[0], w["log_decay"].reshape(len(w["log_decay"]), -1).shape[1]
        c = w["c"].reshape(channels, pairs, 2)
        ms = []
        if not k.mp:
            steps = np.exp(w["log_step"].reshape(-1))
            self.note([-steps[c] * np.exp(w["log_decay"].reshape(channels, -1)[c]) for c in range(channels)], [steps[[c]] for c in range(channels)],
                      w["d"].reshape(-1))
        for channel in range(channels):
            step = k.exp(w["log_step"].reshape(-1)[[channel]])[0]
            re, im = -k.exp(w["log_decay"].reshape(channels, -1)[channel]), w["frequency"].reshape(channels, -1)[channel]
            # (e^{step a} - 1)/a, then times C e^{l step a}, in real and imaginary parts
            grow, turn = k.exp(step * re), step * im
            top_re, top_im = grow * k.cos(turn) - 1, grow * k.sin(turn)
            size = re * re + im * im
            b_re, b_im = (top_re * re + top_im * im) / size, (top_im * re - top_re * im) / size
            g_re, g_im = c[channel, :, 0] * b_re - c[channel, :, 1] * b_im, c[channel, :, 0] * b_im + c[channel, :, 1] * b_re
            m = k.zeros(len(x), len(x))
            for i in range(len(x)):
                for j in range(i + 1):
                    e = k.exp((i - j) * step * re)
                    m[i, j] = 2 * (g_re * e * k.cos((i - j) * turn) - g_im * e * k.sin((i - j) * turn)).sum()
                m[i, i] += w["d"].reshape(-1)[channel]
            ms.append(m)
        y = k.gelu(np.stack([m @ x[:, channel] for channel, m in enumerate(ms)], 1))
        return self.map(y, p + "o") * k.sigmoid(self.map(y, p + "gate")), ms, [x[:, [c]] for c in range(channels)]

    def gated_recurrence(self, x, p):
        k = self.k
        both = self.map(x, p + "in")
        inner = both.shape[1] // 2
        u = self.conv(both[:, inner:], p)
        forget, into, out = np.split(k.sigmoid(self.map(u, p + "gates")), 3, 1)
        ms = []
        if not k.mp:
            self.note([np.log(forget[:, c]) for c in range(inner)])
        for channel in range(inner):
            m = k.zeros(len(x), len(x))
            for i in range(len(x)):
                kept = forget[i, channel] * 0 + 1
                for j in range(i, -1, -1):
                    m[i, j] = out[i, channel] * kept * into[j, channel]
                    kept = kept * forget[j, channel]
            ms.append(m)
        y = np.stack([m @ u[:, channel] for channel, m in enumerate(ms)], 1)
        if self.s["gate"] != "none":
            y = y * k.gelu(both[:, :inner])
        return self.map(y, p + "o"), ms, [u[:, [c]] for c in range(inner)]

    def gated_delta(self, x, p):
        s, k = self.s, self.k
        heads, keys, dim, n = s["heads"], s["kv_heads"], s["state"], len(x)
        whole = np.concatenate([self.map(x, p + name) for name in "qkv"], 1)
        whole = k.silu(self.conv(whole, p))
        q, key, v = np.split(whole, [keys * dim, 2 * keys * dim], 1)
        steps = k.softplus(self.map(x, p + "a") + self.w[p + "dt_bias"].reshape(-1))
        g = -k.exp(self.w[p + "a_log"].reshape(-1)) * steps
        beta = k.sigmoid(self.map(x, p + "b"))
        ms, values = [], []
        self.note([g[:, h] for h in range(heads)], [steps[:, h] for h in range(heads)])
        for h in range(heads):
            own = slice(h // (heads // keys) * dim, (h // (heads // keys) + 1) * dim)
            qh, kh = (part[:, own] / k.sqrt((part[:, own] ** 2).sum(1, keepdims=True) + k.one(1e-6)) for part in (q, key))
            qh = qh / k.sqrt(k.array([dim]))
            gamma = k.zeros(n, n)
            for i in range(n):
                for j, time in self.backwards(g[:, [h]], i):
                    gamma[i, j] = k.exp(time)[0]
            read = qh @ kh.T * gamma
            own_keys = kh @ kh.T * gamma * beta[:, [h]]
            # (I + stril(diag b (K Kt o G))) Z = diag b, row after row
            z = k.zeros(n, n)
            for i in range(n):
                z[i, i] = beta[i, h]
                for j in range(i):
                    z[i] = z[i] - own_keys[i, j] * z[j]
            ms.append(read @ z)
            values.append(np.split(v, heads, 1)[h])
        y = np.concatenate([m @ value for m, value in zip(ms, values)], 1)
        y = self.gated(y, self.map(x, p + "z") if p + "z" in self.w else None, heads, s["inner_norm"], s.get("eps_delta", EPSILON))
        return self.map(y, p + "o"), ms, values

    def short_conv(self, x, p):
        b, c, u = np.split(self.map(x, p + "in"), 3, 1)
        w, n = self.w[p + "conv"], len(x)
        ms = []
        for channel in range(u.shape[1]):
            m = self.k.zeros(n, n)
            for i in range(n):
                for j in range(max(0, i - w.shape[1] + 1), i + 1):
                    m[i, j] = c[i, channel] * w[channel, w.shape[1] - 1 - (i - j)] * b[j, channel]
            ms.append(m)
        return self.map(np.stack([m @ u[:, i] for i, m in enumerate(ms)], 1), p + "o"), ms, [u[:, [i]] for i in range(u.shape[1])]

    def softmax(self, row, seen):
        out = row * 0
        if seen:
            e = self.k.exp(row[seen] - max(row[seen]))
            out[seen] = e / e.sum()
        return out

    def rotated(self, x):
        """Half-split pairs, base 10000."""
        half = x.shape[1] // 2
        y = x + 0
        for t in range(len(x)):
            for i in range(half):
                angle = self.k.array([t]) * self.k.one(10000.0) ** self.k.one(-i / half)
                cos, sin = self.k.cos(angle)[0], self.k.sin(angle)[0]
                y[t, i], y[t, half + i] = x[t, i] * cos - x[t, half + i] * sin, x[t, half + i] * cos + x[t, i] * sin
        return y

    def logits(self, x, p):
        s, k, heads = self.s, self.k, self.s["heads"]
        q, keys = self.heads_of(x, p + "q", heads), self.heads_of(x, p + "k", heads)
        if s["positions"] == "rope":
            q, keys = [self.rotated(part) for part in q], [self.rotated(part) for part in keys]
        return [a @ b.T / k.sqrt(k.array([s["d_head"]]))[0] / k.one(s["temperature"]) for a, b in zip(q, keys)]

    def attention(self, x, p):
        s, k, n = self.s, self.k, len(x)
        window = int(s["mask"].split(":")[1]) if s["mask"].startswith("sliding") else n + 1
        values = self.heads_of(x, p + "v", s["heads"])
        ms = []
        for h, logits in enumerate(self.logits(x, p)):
            m = k.zeros(n, n)
            for i in range(n):
                seen = [j for j in range(n) if s["mask"] == "none" or (j <= i and i - j < window)]
                row = logits[i] + 0
                if s["positions"] == "relative":
                    bias = self.w[p + "distance"]
                    reach = bias.shape[1] // 2
                    for j in seen:
                        row[j] += bias[h, min(max(i - j, -reach), reach) + reach] / k.one(s["temperature"])
                if s["positions"] == "alibi":
                    slope = 2.0 ** (-8 * (h + 1) / s["heads"])
                    for j in seen:
                        row[j] -= k.one(slope) * abs(i - j) / k.one(s["temperature"])
                u = k.zeros(n)
                u[seen] = k.one(1.0) / len(seen)
                soft = self.softmax(row, seen)
                eye, of_softmax, of_uniform = s["mix"]
                m[i] = k.one(of_softmax) * soft - k.one(of_uniform) * u
                m[i, i] += k.one(eye)
            ms.append(m)
        return self.put_together([m @ v for m, v in zip(ms, values)], p), ms, values

    def graph_matrix(self, x, p):
        form, a, n = self.s["form"], self.k.array(self.graph), len(x)
        if form == "attention":
            ms = []
            for logits in self.logits(x, p):
                m = self.k.zeros(n, n)
                for i in range(n):
                    m[i] = self.softmax(logits[i], [j for j in range(n) if self.graph[i, j] != 0])
                ms.append(m)
            return ms
        m = a + 0
        degrees = [a[i].sum() for i in range(n)]
        for i in range(n):
            for j in range(n):
                if form == "row":
                    m[i, j] = a[i, j] / degrees[i] if degrees[i] != 0 else a[i, j] * 0
                if form == "symmetric":
                    both = self.k.sqrt(self.k.array([degrees[i]])) * self.k.sqrt(self.k.array([degrees[j]]))
                    m[i, j] = a[i, j] / both[0] if both[0] != 0 else a[i, j] * 0
        return [m]

    def graph_mixer(self, x, p):
        ms = self.graph_matrix(x, p)
        heads = self.s["heads"] if self.s["form"] == "attention" else 1
        if p + "v" in self.w:
            values = self.heads_of(x, p + "v", heads) if self.s["form"] == "attention" else [self.map(x, p + "v")]
        elif p + "o" not in self.w:
            values = [x] * heads  # summed up
        else:
            values = [np.split(x, self.s["kv_heads"], 1)[h * self.s["kv_heads"] // heads] for h in range(heads)] if heads > 1 else [x]
        return self.put_together([m @ v for m, v in zip(ms, values)], p), ms, values

    def mlp(self, x, p):
        act = {"linear": lambda v: v, "relu": lambda v: np.where(v > 0, v, 0 * v), "gelu": self.k.gelu, "gelu_tanh": self.k.gelu_tanh}
        if self.s["mlp"] == "swiglu":
            return self.map(self.k.silu(self.map(x, p + "gate")) * self.map(x, p + "up"), p + "down")
        return self.map(act[self.s["mlp"]](self.map(x, p + "up")), p + "down")

    # ---- the stack ----

    def block(self, x, skip, scale, norm, op):
        """One branch: what its op gives, and the state behind it."""
        k = self.k
        read = self.norm(x) if norm in ("pre", "sandwich") else x
        out, *more = op(read) if op and scale else (x * 0, [])  # a branch of factor 0 is not run
        inside = self.norm(out) if norm == "sandwich" and op and scale else out
        y = k.one(skip) * x + k.one(scale) * inside
        return out, (self.norm(y) if norm == "post" else y), more

    def run(self, x):
        """States before and behind each layer, what mixers give, and their matrices."""
        s = self.s
        x = self.k.array(x)
        states, outs, matrices = [x], [], []
        self.notes = []
        for l in range(s["layers"]):
            stored = l % s["depth"]
            name = s["mixer"][stored]
            op = getattr(self, "graph_mixer" if name == "graph" else name)
            own = {"gate": s["gate_of"][name], "inner_norm": s["inner_norm_of"][name]}
            self.s = dict(s, **own)
            p = f"{stored}."
            self.note()
            out, x, more = self.block(x, s["skip_mixer"][stored], s["branch_mixer"][stored], s["norm"], lambda v: op(v, p + "0."))
            outs.append(out)
            matrices.append(more[0])
            self.notes.append(self.noted)
            if s["mlp"] != "none":
                gives = (lambda v: (self.mlp(v, p + "1."),)) if not s.get("no_mlp_branch") else None
                x = self.block(x, s["skip_mlp"][stored], s["branch_mlp"][stored], s["mlp_norm"], gives)[1]
            states.append(x)
            self.s = s
        final = self.norm(x) if s["final_norm"] else x
        return states, outs, matrices, final, self.notes
