#!/usr/bin/env python3
"""What dong-lipschitz and dong-heads expect: attention without skips, five layers, tokens kept as 1x + R.

    python3 tests/oracle/lab_collapse.py [DRAWS]

A program of its own, in NumPy's doubles: no residual of these networks falls below 1e-160, so R keeps its digits as long as it is never
formed as a difference of whole tokens. (With MLPs four times as steep some do fall below: -inf there, and quantiles.) Tokens are
Gaussian, of squared norm d each. Prints means, standard deviations of one draw, and quartiles of log10 |R|/|X| and log10 |R| (Frobenius),
and of what a doubling adds to them; and how the published 4 beta H / sqrt(d_qk) grows with the heads of the first layer.
"""
import sys

import numpy as np

N, D, LAYERS, EPS = 16, 64, 5, 1e-5
FACTORS = (0.25, 0.5, 1, 2, 4)
HEADS = (1, 2, 4, 8, 16)


def centred(x, r):
    mean = r.mean(0)
    return x + mean, r - mean


def attention(x, r, layer):
    """Sum over heads of P (1x + R) W: softmax(1 a + E) = p + dP, p = softmax(a), and (p + dP) R = p R + dP R."""
    common, rest = 0, 0
    for q, k, w in layer:
        scale = 1 / np.sqrt(q.shape[1])
        a = r @ k @ (q.T @ x) * scale
        e = (r @ q) @ (r @ k).T * scale
        p = np.exp(a - a.max())
        p /= p.sum()
        if np.abs(e).max() < 1:
            change = p * np.expm1(e - np.log1p(np.expm1(e) @ p)[:, None])
        else:
            change = np.exp(a + e - (a + e).max(1, keepdims=True))
            change = change / change.sum(1, keepdims=True) - p
        common = common + (x + p @ r) @ w
        rest = rest + change @ r @ w
    return centred(common, rest)


def relu(x, r):
    whole, up = x + r, x > 0
    moved = np.where((whole > 0) & up, r, np.where((whole <= 0) & ~up, 0, np.maximum(whole, 0) - np.maximum(x, 0)))
    return np.maximum(x, 0), moved


def norm(x, r):
    c, rho = x - x.mean(), r - r.mean(1, keepdims=True)
    s = np.sqrt((c * c).mean() + EPS)
    more = (2 * c * rho + rho * rho).mean(1, keepdims=True)
    t = np.sqrt(s * s + more)
    return centred(c / s, rho / t - c * more / (s * t * (s + t)))


def tokens(random):
    x = random.standard_normal((N, D))
    x *= np.sqrt(D) / np.linalg.norm(x, axis=1, keepdims=True)
    return centred(np.zeros(D), x)


def sizes(x, r):
    rest = np.linalg.norm(r)
    return np.log10(rest), np.log10(rest) - 0.5 * np.log10(N * (x @ x) + rest * rest)


def gaussian(random, rows, cols, variance):
    return random.standard_normal((rows, cols)) * np.sqrt(variance)


def lipschitz(random, norms):
    """log10 |R| and of |R|/|X| behind five layers, by factor of the MLP; one network and one set of tokens for all of them."""
    start, out = tokens(random), []
    layers = []
    for _ in range(LAYERS):
        q, k, v, o = (gaussian(random, D, D, 1 / D) for _ in range(4))
        layers.append((((q, k, v @ o),), gaussian(random, D, 4 * D, 2 / D), gaussian(random, 4 * D, D, 1 / (4 * D))))
    for factor in FACTORS:
        x, r = start
        for heads, up, down in layers:
            x, r = attention(x, r, heads)
            x, r = norm(x, r) if norms else (x, r)
            x, r = relu(x @ up, r @ up)
            x, r = centred(factor * (x @ down), factor * (r @ down))
            x, r = norm(x, r) if norms else (x, r)
        out.append(sizes(x, r))
    return np.array(out).T


def composite(a):
    return np.sqrt(np.abs(a).sum(0).max() * np.abs(a).sum(1).max())


def published(layer):
    return np.log10(len(layer) * max(np.abs(q @ k.T).sum(0).max() / np.sqrt(q.shape[1]) * composite(w) for q, k, w in layer))


def many_heads(random, heads, merged):
    """log10 |R|, log10 |R|/|X| and log10 (beta H / sqrt(d_qk)) of the first layer."""
    x, r = tokens(random)
    beta = None
    width = D if merged else D // heads
    for _ in range(LAYERS):
        layer = []
        for _ in range(heads):
            q, k = (gaussian(random, D, width, 1 / D) for _ in range(2))
            w = gaussian(random, D, D, 1 / D) if merged else gaussian(random, D, width, 1 / D) @ gaussian(random, width, D, 1 / D)
            layer.append((q, k, w))
        beta = published(layer) if beta is None else beta
        x, r = attention(x, r, layer)
    return (*sizes(x, r), beta)


def show(name, values):
    def text(numbers):
        return " ".join("%.5g" % v for v in numbers)

    print("%s: mean %s; deviation of one draw %s; quartiles %s" % (name, text(values.mean(0)), text(values.std(0, ddof=1)),
                                                                  " | ".join(text(q) for q in np.quantile(values, [.25, .5, .75], axis=0))))


def main(draws):
    np.seterr(divide="ignore", invalid="ignore")
    random = np.random.default_rng(20261126)
    for norms in (False, True):
        both = np.array([lipschitz(random, norms) for _ in range(draws)])
        name = "dong-lipschitz, %s, log10 of the %%s" % ("LayerNorm" if norms else "no norm")
        for kind, values in (("residual", both[:, 0]), ("relative residual", both[:, 1])):
            show(name % kind, values)
            show(name % kind + ", steps", np.diff(values, axis=1))
    for merged in (True, False):
        all_of = np.array([[many_heads(random, h, merged) for h in HEADS] for _ in range(draws)])
        name = "dong-heads, %s, log10 of %%s" % ("W_O merged" if merged else "concatenated")
        for kind, values in (("the residual", all_of[:, :, 0]), ("the relative residual", all_of[:, :, 1]), ("beta H / sqrt(d_qk)", all_of[:, :, 2])):
            show(name % kind, values)
            show(name % kind + ", steps", np.diff(values, axis=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 512)
