"""Positions: every law of rotary frequencies, ALiBi's slopes and XLNet's relative logits, as balls from their definitions.

The numbers of the configuration are taken as the doubles that its decimal text names.
"""

import dataclasses
import math

import numpy as np
from flint import arb

from .numbers import Balls as B


def exact(v):
    return arb(float(v))


def plain(theta, dim):
    return [(-(exact(theta).log()) * 2 * i / dim).exp() for i in range(dim // 2)]


def linear(p, dim, n, config):
    return [f / exact(p["factor"]) for f in plain(p["rope_theta"], dim)], arb(1)


def dynamic(p, dim, n, config):
    longest = config["max_position_embeddings"]
    if n <= longest:
        return plain(p["rope_theta"], dim), arb(1)
    stretch = exact(p["factor"]) * n / longest - (exact(p["factor"]) - 1)
    base = exact(p["rope_theta"]) * (stretch.log() * dim / (dim - 2)).exp()
    return [(-(base.log()) * 2 * i / dim).exp() for i in range(dim // 2)], arb(1)


def magnitude(scale, m=1.0):
    return arb(1) if scale <= 1 else exact(m) * exact(scale).log() / 10 + 1


def yarn(p, dim, n, config):
    theta, factor = p["rope_theta"], p["factor"]
    original = p.get("original_max_position_embeddings") or config["max_position_embeddings"]
    if p.get("attention_factor") is not None:
        share = exact(p["attention_factor"])
    elif p.get("mscale") and p.get("mscale_all_dim"):
        share = magnitude(factor, p["mscale"]) / magnitude(factor, p["mscale_all_dim"])
    else:
        share = magnitude(factor)

    def turning(rotations):
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))
    low, high = turning(p.get("beta_fast") or 32), turning(p.get("beta_slow") or 1)
    if p.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    out = []
    for i, f in enumerate(plain(theta, dim)):
        ramp = (arb(i) - exact(low)) / (exact(high) - exact(low))
        ramp = arb(0) if ramp < 0 else arb(1) if ramp > 1 else ramp
        out.append(f / exact(factor) * ramp + f * (1 - ramp))
    return out, share


def llama3(p, dim, n, config):
    low, high, old = p["low_freq_factor"], p["high_freq_factor"], p["original_max_position_embeddings"]
    out = []
    for f in plain(p["rope_theta"], dim):
        length = 2 * arb.pi() / f
        if length > exact(old) / exact(low):
            out.append(f / exact(p["factor"]))
        elif length < exact(old) / exact(high):
            out.append(f)
        else:
            smooth = (exact(old) / length - exact(low)) / (exact(high) - exact(low))
            out.append((1 - smooth) * f / exact(p["factor"]) + smooth * f)
    return out, arb(1)


LAWS = {"default": lambda p, dim, n, config: (plain(p["rope_theta"], dim), arb(1)),
        "linear": linear, "dynamic": dynamic, "yarn": yarn, "llama3": llama3}


@dataclasses.dataclass
class Rotation:
    """The first 2·len(frequencies) entries of a head turn in halves (t, t + half); the rest stays."""
    frequencies: list
    share: arb
    cache: dict = dataclasses.field(default_factory=dict)

    def tables(self, n):
        if n not in self.cache:
            angles = np.array([[arb(p) * f for f in self.frequencies] for p in range(n)], dtype=object)
            both = [f(angles) * self.share for f in (B.cos, B.sin)]
            self.cache[n] = both
        return self.cache[n]

    def turn(self, y):
        cos, sin = self.tables(y.shape[2])
        half = len(self.frequencies)
        a, b, rest = y[..., :half], y[..., half:2 * half], y[..., 2 * half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def rotation(parameters, dim, n, config):
    law = parameters.get("rope_type", "default")
    frequencies, share = LAWS[law](parameters, dim, n, config)
    return Rotation(frequencies, share)


def slopes(heads):
    """ALiBi's geometric series; between powers of two every second of the next one's."""
    def series(count):
        return [(arb(2).log() * -8 * (i + 1) / count).exp() for i in range(count)]
    near = 2 ** int(math.floor(math.log2(heads)))
    out = series(near)
    if near < heads:
        out += series(2 * near)[0::2][:heads - near]
    return np.array(out, dtype=object)


@dataclasses.dataclass
class XlnetPositions:
    r: np.ndarray  # [heads, d, c]
    r_w: np.ndarray  # [heads, c]
    r_r: np.ndarray
    cache: dict = dataclasses.field(default_factory=dict)

    def keys(self, n):
        """[heads, 2n - 1, c], by i - j + n - 1."""
        if n not in self.cache:
            d = self.r.shape[1]
            f = plain(10000, d)
            angles = np.array([[arb(p) * v for v in f] for p in range(1 - n, n)], dtype=object)
            waves = np.concatenate([B.sin(angles), B.cos(angles)], -1)
            self.cache[n] = waves[None] @ B.of(self.r)
        return self.cache[n]

    def logits(self, q, k, n):
        content = (q + B.of(self.r_w)[None, :, None]) @ k.swapaxes(-1, -2)
        every = (q + B.of(self.r_r)[None, :, None]) @ self.keys(n).swapaxes(-1, -2)[None]
        i, j = np.arange(n)[:, None], np.arange(n)[None, :]
        return content + every[:, :, i, i - j + n - 1]
