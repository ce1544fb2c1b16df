"""The exact layer: attention, norms and MLPs from their definitions, in balls.

A layer is X -> after(skip X + scale inside(op(before(X)))) for its mixer and then for its MLP (in a parallel block both read X).
Weights are float64 arrays that hold what the file stores, number for number; `plus_one` says that a gain is 1 + w.
"""

import dataclasses
import typing

import numpy as np
from flint import arb

from .numbers import Balls as B


@dataclasses.dataclass
class Norm:
    kind: str  # layernorm or rmsnorm
    gain: np.ndarray = None
    bias: np.ndarray = None
    eps: float = 0.0
    plus_one: bool = False

    def gains(self, d):
        if self.gain is None:
            return B.of(np.ones(d))
        return B.of(self.gain) + (B.number(1) if self.plus_one else B.number(0))

    def __call__(self, x):
        d = x.shape[-1]
        if self.kind == "layernorm":
            x = x - x.sum(-1, keepdims=True) / B.number(d)
        y = x / B.sqrt((x * x).sum(-1, keepdims=True) / B.number(d) + B.number(self.eps)) * self.gains(d)
        return y if self.bias is None else y + B.of(self.bias)


@dataclasses.dataclass
class Attention:
    wq: np.ndarray  # [heads, d, c]
    wk: np.ndarray  # [kv, d, c]
    wv: np.ndarray  # [kv, d, v]
    wo: np.ndarray  # [heads, v, d]
    bq: np.ndarray = None  # [heads, c]
    bk: np.ndarray = None
    bv: np.ndarray = None
    bo: np.ndarray = None  # [d]
    inverse_square_scale: float = None  # logits are divided by the root of this
    multiplier: float = 1.0  # and multiplied by this
    temperature: float = 1.0
    softcap: float = None
    causal: bool = False
    window: int = None
    slopes: typing.Any = None  # ALiBi: [heads] balls
    distance_bias: np.ndarray = None  # [heads, 2n - 1], by i - j + n - 1
    rope: typing.Any = None  # rope.Rotation
    q_norm: Norm = None
    k_norm: Norm = None
    norm_whole: bool = False  # QK-norm over all heads together (OLMo 2)
    xlnet: typing.Any = None
    mix: tuple = (0.0, 1.0, 0.0)  # a I + b P - c U

    def visible(self, n):
        i, j = np.arange(n)[:, None], np.arange(n)[None, :]
        seen = (j <= i) if self.causal else np.ones((n, n), bool)
        if self.window:
            seen = seen & (i - j < self.window) & ((j - i < self.window) | self.causal)
        return seen

    def project(self, x, w, b):
        y = x[:, None] @ B.of(w)[None]
        return y if b is None else y + B.of(b)[None, :, None]

    def head_norm(self, norm, y):
        if norm is None:
            return y
        if not self.norm_whole:
            return norm(y)
        s, h, n, c = y.shape
        flat = norm(y.transpose(0, 2, 1, 3).reshape(s, n, h * c))
        return flat.reshape(s, n, h, c).transpose(0, 2, 1, 3)

    def logits(self, x):
        n, heads, c = x.shape[1], self.wq.shape[0], self.wq.shape[2]
        q, k = self.project(x, self.wq, self.bq), self.project(x, self.wk, self.bk)
        q, k = self.head_norm(self.q_norm, q), self.head_norm(self.k_norm, k)
        if self.rope is not None:
            q, k = self.rope.turn(q), self.rope.turn(k)
        group = np.arange(heads) // (heads // k.shape[1])
        k = k[:, group]
        if self.xlnet is not None:
            a = self.xlnet.logits(q, k, n)
        else:
            a = q @ k.swapaxes(-1, -2)
        factor = arb(self.multiplier)
        if self.inverse_square_scale is not None:
            factor = factor / arb(self.inverse_square_scale).sqrt()
        a = a * B.number(factor)
        if self.softcap:
            a = B.tanh(a / B.number(self.softcap)) * B.number(self.softcap)
        distance = np.arange(n)[:, None] - np.arange(n)[None, :]
        if self.slopes is not None:
            a = a - self.slopes[None, :, None, None] * B.of(np.abs(distance))[None, None]
        if self.distance_bias is not None:
            a = a + B.of(self.distance_bias[:, distance + n - 1])[None]
        return a if self.temperature == 1 else a / B.number(self.temperature)

    def mixing(self, x):
        """[samples, heads, n, n]"""
        a = self.logits(x)
        n = x.shape[1]
        seen = self.visible(n)
        top = np.where(seen, B.floats(a), -np.inf).max(-1, keepdims=True)
        e = B.exp(a - B.of(top)) * B.of(seen)
        p = e / e.sum(-1, keepdims=True)
        identity, softmax, uniform = self.mix
        if self.mix == (0.0, 1.0, 0.0):
            return p
        u = B.of(seen) / B.of(seen.sum(-1, keepdims=True))
        return p * B.number(softmax) + B.of(np.eye(n)) * B.number(identity) - u * B.number(uniform)

    def __call__(self, x):
        m = self.mixing(x)
        v = self.project(x, self.wv, self.bv)
        v = v[:, np.arange(m.shape[1]) // (m.shape[1] // v.shape[1])]
        y = ((m @ v) @ B.of(self.wo)[None]).sum(1)
        return y if self.bo is None else y + B.of(self.bo)


def activation(kind, x):
    one, half = B.number(1), B.number(0.5)
    if kind == "linear":
        return x
    if kind == "relu":
        return B.relu(x)
    if kind == "relu2":
        return B.relu(x) * B.relu(x)
    if kind == "gelu":
        return x * half * (one + B.erf(x / B.number(arb(2).sqrt())))
    if kind == "gelu_tanh":
        inner = (x + x * x * x * B.number(arb("0.044715"))) * B.number((2 / arb.pi()).sqrt())
        return x * half * (one + B.tanh(inner))
    if kind == "silu":
        return x / (one + B.exp(-x))
    if kind == "quick_gelu":
        return x / (one + B.exp(x * -B.number(arb("1.702"))))
    if kind == "tanh":
        return B.tanh(x)
    raise ValueError(kind)


@dataclasses.dataclass
class Mlp:
    up: np.ndarray  # [d, f]
    down: np.ndarray  # [f, d]
    act: str
    up_bias: np.ndarray = None
    down_bias: np.ndarray = None
    gate: np.ndarray = None  # [d, f]

    def __call__(self, x):
        u = x @ B.of(self.up)
        u = u if self.up_bias is None else u + B.of(self.up_bias)
        h = activation(self.act, u) if self.gate is None else activation(self.act, x @ B.of(self.gate)) * u
        y = h @ B.of(self.down)
        return y if self.down_bias is None else y + B.of(self.down_bias)


@dataclasses.dataclass
class Branch:
    op: typing.Any
    before: Norm = None
    inside: Norm = None
    after: Norm = None
    skip: float = 1.0
    scale: float = 1.0

    def branch(self, x):
        y = self.op(self.before(x) if self.before else x)
        y = self.inside(y) if self.inside else y
        return y if self.scale == 1 else y * B.number(self.scale)

    def behind(self, x, o, skip):
        y = x * B.number(skip) + o
        return self.after(y) if self.after else y

    def __call__(self, x):
        return self.behind(x, self.branch(x), self.skip)


@dataclasses.dataclass
class Layer:
    mixer: Branch
    mlp: Branch = None
    parallel: bool = False

    def __call__(self, x):
        if self.parallel:
            y = x * B.number(self.mixer.skip) + self.mixer.branch(x)
            return y if self.mlp is None else y + self.mlp.branch(x)
        y = self.mixer(x)
        return y if self.mlp is None else self.mlp(y)


def residual(x):
    return x - x.sum(-2, keepdims=True) / B.number(x.shape[-2])


def spread(x):
    """mu of every sample: the Frobenius norm of what differs from the mean."""
    r = residual(x)
    return B.sqrt((r * r).sum((-1, -2)))


def diameter(x):
    n = x.shape[1]
    if n < 2:
        return B.of(np.zeros(x.shape[0]))
    i, j = np.triu_indices(n, 1)
    e = x[:, i] - x[:, j]
    length = B.sqrt((e * e).sum(-1))
    out = np.empty(x.shape[0], dtype=object)
    for s in range(x.shape[0]):
        out[s] = B.largest(list(length[s]))
    return out


def composite(x):
    """sqrt(|R|_1 |R|_inf) about the mean."""
    r = abs(residual(x))
    rows, columns = r.sum(-1), r.sum(-2)
    return np.array([B.sqrt(B.largest(list(a)) * B.largest(list(b))) for a, b in zip(rows, columns)], dtype=object)
