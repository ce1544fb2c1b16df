"""Mixers and MLPs by their definitions (docs/theory/ssm.md), on batches: tokens (batch, n, d), in float64 or long double."""
import mpmath
import numpy as np
from scipy import special

EPS = 1e-5


def silu(x):
    return x / (1 + np.exp(-x))


def softplus(x):
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 30))))


def rms(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def linear(x, w, b=None):
    y = x @ w.T
    return y if b is None else y + b


def conv(x, w, b=None):
    """Causal; the last column of w acts on the token itself."""
    y, width = np.zeros_like(x), w.shape[1]
    for back in range(min(width, x.shape[1])):
        y[:, back:] += w[:, width - 1 - back] * x[:, :x.shape[1] - back]
    return y if b is None else y + b


def by_stretch(y, groups, w, eps):
    return rms(y.reshape(*y.shape[:-1], groups, -1), eps).reshape(y.shape) * (1 if w is None else w)


def mamba(m, x):
    both = linear(x, m["in"], m.get("in_b"))
    inner = both.shape[-1] // 2
    u, z = silu(conv(both[..., :inner], m["conv"], m.get("conv_b"))), both[..., inner:]
    rank, n = m["step"].shape[1], m["a"].shape[1]
    three = linear(u, m["x"])
    dt, b, c = three[..., :rank], three[..., rank:rank + n], three[..., rank + n:]
    if m.get("three_eps") is not None:
        dt, b, c = (rms(part, m["three_eps"]) * m.get(g, 1) for part, g in ((dt, "dt_g"), (b, "b_g"), (c, "c_g")))
    steps = softplus(linear(dt, m["step"], m["step_b"]))
    h, ys = np.zeros((len(x), inner, n), x.dtype), []
    for t in range(x.shape[1]):
        s = steps[:, t, :, None]
        h = np.exp(-m["a"] * s) * h + s * b[:, t, None, :] * u[:, t, :, None]
        ys.append((h * c[:, t, None, :]).sum(-1) + m["d"] * u[:, t])
    y = np.stack(ys, 1)
    return linear(y * silu(z) if m["gate"] != "none" else y, m["o"], m.get("o_b"))


def finish(m, y, z, groups):
    if z is not None and m["gate"] == "before":
        y = y * silu(z)
    if m["norm"]:
        y = by_stretch(y, groups, m.get("norm_g"), m["norm_eps"])
    if z is not None and m["gate"] == "after":
        y = y * silu(z)
    return linear(y, m["o"], m.get("o_b"))


def mamba2(m, x):
    heads, groups, n = len(m["a"]), m["groups"], m["state"]
    inner = m["o"].shape[1]
    row = linear(x, m["in"], m.get("in_b"))
    z, rest, dt = row[..., :inner], row[..., inner:-heads], row[..., -heads:]
    rest = silu(conv(rest, m["conv"], m.get("conv_b")))
    u = rest[..., :inner].reshape(*x.shape[:2], heads, -1)
    b, c = (np.repeat(part.reshape(*x.shape[:2], groups, n), heads // groups, 2) for part in np.split(rest[..., inner:], 2, -1))
    steps = np.clip(softplus(dt + m["dt_bias"]), *m.get("limits", (0, np.inf)))
    h, ys = np.zeros((len(x), heads, u.shape[-1], n), x.dtype), []
    for t in range(x.shape[1]):
        s = steps[:, t, :, None, None]
        h = np.exp(-m["a"][:, None, None] * s) * h + s * b[:, t, :, None, :] * u[:, t, :, :, None]
        ys.append((h * c[:, t, :, None, :]).sum(-1) + m["d"][:, None] * u[:, t])
    return finish(m, np.stack(ys, 1).reshape(*x.shape[:2], inner), z, groups)


def gated_delta(m, x):
    heads, dim = len(m["a"]), m["state"]
    keys = (m["conv"].shape[0] - m["o"].shape[1]) // (2 * dim)
    q, k, v = np.split(silu(conv(linear(x, m["qkv"]), m["conv"])), [keys * dim, 2 * keys * dim], -1)
    q, k = (part.reshape(*x.shape[:2], keys, dim) for part in (q, k))
    q, k = (np.repeat(part / np.sqrt((part ** 2).sum(-1, keepdims=True) + 1e-6), heads // keys, 2) for part in (q, k))
    q, v = q / np.sqrt(q.dtype.type(dim)), v.reshape(*x.shape[:2], heads, -1)
    decay = np.exp(-m["a"] * softplus(linear(x, m["wa"]) + m["dt_bias"]))
    beta = 1 / (1 + np.exp(-linear(x, m["wb"])))
    s, ys = np.zeros((len(x), heads, dim, v.shape[-1]), x.dtype), []
    for t in range(x.shape[1]):
        s = s * decay[:, t, :, None, None]
        miss = v[:, t] - (s * k[:, t, :, :, None]).sum(2)
        s = s + beta[:, t, :, None, None] * k[:, t, :, :, None] * miss[:, :, None, :]
        ys.append((s * q[:, t, :, :, None]).sum(2))
    y = np.stack(ys, 1).reshape(*x.shape[:2], -1)
    z = linear(x, m["z"]) if "z" in m else None
    return finish(m, y, z, heads)


def linear_matrix(m, x):
    """(batch, heads, n, n)."""
    heads, n = m["heads"], x.shape[1]
    q, k = (linear(x, m[name]) for name in "qk")
    q, k = q.reshape(*x.shape[:2], heads, -1), k.reshape(*x.shape[:2], m["kv_heads"], -1)
    k = np.repeat(k, heads // m["kv_heads"], 2)
    if m["elu"]:
        q, k = (np.where(part > 0, part + 1, np.exp(np.minimum(part, 0))) for part in (q, k))
    mix = np.einsum("bihe,bjhe->bhij", q, k) / m["temperature"]
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    if m["causal"]:
        mix = mix * np.where(j <= i, np.asarray(m["decay"], float)[:, None, None] ** np.maximum(i - j, 0), 0)
    if m["without_self"]:
        mix = mix * (i != j)
    if m["normalised"]:
        total = mix.sum(-1, keepdims=True)
        mix = np.where(total != 0, mix / np.where(total != 0, total, 1), 0)
    return mix


def linear_attention(m, x):
    mix, heads = linear_matrix(m, x), m["heads"]
    if "v" in m:
        v = linear(x, m["v"]).reshape(*x.shape[:2], m["kv_heads"], -1)
        v = np.repeat(v, heads // m["kv_heads"], 2)
    else:
        v = np.repeat(x[:, :, None], heads, 2)
    y = np.einsum("bhij,bjhe->bihe", mix, v)
    if "o" not in m:
        return y.sum(2)
    y = y.reshape(*x.shape[:2], -1)
    return finish(m, y, linear(x, m["z"]) if "z" in m else None, heads)


def turned_by_position(y, turn, theta):
    """Rotary positions: entry t of the first `turn` with t + turn/2; y (batch, n, heads, width)."""
    half, n = turn // 2, y.shape[1]
    if not half:
        return y
    number = y.dtype.type
    angles = np.arange(n).astype(y.dtype)[:, None] * number(theta) ** (-np.arange(half).astype(y.dtype) / number(half))
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = y[..., :half], y[..., half:turn]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, y[..., turn:]], -1)


def attention(m, x):
    """Causal softmax attention, rotary."""
    heads, kv, n = m["heads"], m["kv_heads"], x.shape[1]
    q, k, v = (linear(x, m[name], m.get(name + "_b")) for name in "qkv")
    q = q.reshape(*x.shape[:2], heads, -1)
    k, v = (np.repeat(part.reshape(*x.shape[:2], kv, -1), heads // kv, 2) for part in (k, v))
    q, k = (turned_by_position(part, m["turn"], m["theta"]) for part in (q, k))
    logits = np.einsum("bihe,bjhe->bhij", q, k) * m.get("key_times", 1) / np.sqrt(x.dtype.type(q.shape[-1]))
    logits = np.where(np.arange(n)[None] <= np.arange(n)[:, None], logits, -np.inf)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    y = np.einsum("bhij,bjhe->bihe", e / e.sum(-1, keepdims=True), v).reshape(*x.shape[:2], -1)
    return linear(y, m["o"], m.get("o_b")) * m.get("times", 1)


def erf(x):
    if x.dtype != np.longdouble:
        return special.erf(x)
    mpmath.mp.prec = 90

    def one(v):
        high = float(v)
        return np.longdouble(mpmath.nstr(mpmath.erf(mpmath.mpf(high) + mpmath.mpf(float(v - np.longdouble(high)))), 25)) if np.isfinite(high) else v
    return np.array([one(v) for v in x.reshape(-1)], np.longdouble).reshape(x.shape)


def mlp(m, x):
    up = linear(x, m["up"], m.get("up_b"))
    if m["form"] == "swiglu":
        return linear(silu(linear(x, m["gate"], m.get("gate_b"))) * up, m["down"], m.get("down_b"))
    act = {"linear": lambda v: v, "relu": lambda v: np.maximum(v, 0), "gelu": lambda v: v * (1 + erf(v / np.sqrt(v.dtype.type(2)))) / 2,
           "gelu_tanh": lambda v: v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v ** 3))) / 2}
    return linear(act[m["form"]](up), m["down"], m.get("down_b"))


MIX = {"mamba": mamba, "mamba2": mamba2, "gated_delta": gated_delta, "linear_attention": linear_attention, "attention": attention, "mlp": mlp}


def read(l, x):
    """What the mixer reads of raw tokens."""
    if l["norm_kind"] == "none":
        return x
    if l["norm_kind"] == "layernorm":
        x = x - x.mean(-1, keepdims=True)
    return rms(x, l["eps"]) * l.get("g", 1) + l.get("b", 0)


def mixer_rows(l, x):
    """What all branches of the skip add; those beside the mixer may read through a norm of their own gain and bias."""
    rows = MIX[l["kind"]](l["m"], read(l, x))
    for more in l.get("also", ()):
        rows = rows + MIX[more["kind"]](more["m"], read({**l, **more}, x))
    return rows * l.get("times", 1)


def mlp_rows(l, x):
    return mlp(l["mlp"], read(dict(l, g=l.get("mlp_g", 1), b=l.get("mlp_b", 0)), x))


def wide(x):
    """In long double; what float64 had to round ("exact") is worked out anew."""
    if isinstance(x, dict):
        out = {k: wide(v) for k, v in x.items() if k != "exact"}
        return {**out, **{k: f() for k, f in x.get("exact", {}).items()}}
    if isinstance(x, (list, tuple)):
        return [wide(v) for v in x]
    return x.astype(np.longdouble) if isinstance(x, np.ndarray) and x.dtype == np.float64 else x
