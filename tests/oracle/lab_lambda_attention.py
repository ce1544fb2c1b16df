#!/usr/bin/env python3
"""What the claims of `lab run lambda-attention` expect: log10 of what is left of the residual after 64 layers of causal attention
with post-norm, Y <- rms(lambda Y + P Y W), by skip strength and kind of W. Residuals go far below float64's rounding of the states,
so states are carried as X = 1x + R with R by itself (x is token 1, which sees itself alone): nothing nearly equal is subtracted.
mpmath, which carries the states whole in 60 digits, checks that arithmetic first.

Prints C initialisers for src/lab/lambda_attention.c: mean and standard deviation of log10 over draws of everything, six decimals, and
the values of one network whose numbers are a hash of their index, so that the engine has the same ones.
    python3 tests/oracle/lab_lambda_attention.py [DRAWS]"""
import math
import sys

import mpmath as mp
import numpy as np

SIZE, EPSILON = 64, 1e-12
SKIPS = (-20, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 20)
KINDS = ("identity", "psd", "gaussian")


def normed(x, r):
    """rows (x + r_i)/rms as (x', r'): x [..., 1, d], r [..., n, d]."""
    d = x.shape[-1]
    q = (r * (2 * x + r)).sum(-1, keepdims=True) / d
    s0 = np.sqrt((x * x).sum(-1, keepdims=True) / d + EPSILON)
    s = np.sqrt(((x + r) ** 2).sum(-1, keepdims=True) / d + EPSILON)
    return x / s0, r / s - x * q / (s0 * s * (s0 + s))


def layer(x, r, skip, queries, keys, values):
    """One layer; weights Y = X w. What is the same for all keys leaves the softmax as it is."""
    n, d = r.shape[-2:]
    logits = (x + r) @ queries @ np.swapaxes(r @ keys, -1, -2) / math.sqrt(d)
    logits = np.where(np.tril(np.ones((n, n), dtype=bool)), logits, -np.inf)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return normed(skip * x + x @ values, skip * r + p @ r @ values)


def left(x, r):
    rest = r - r.mean(-2, keepdims=True)
    return np.log10(np.sqrt((rest ** 2).sum((-1, -2)) / ((x + r) ** 2).sum((-1, -2))))


def value_matrices(kind, gauss):
    if kind == "identity":
        return np.eye(gauss.shape[-1]) + 0 * gauss
    return gauss @ np.swapaxes(gauss, -1, -2) if kind == "psd" else gauss


def run(y, weights, layers):
    """y [draws, n, d] tokens; weights(l) gives W_Q, W_K, W [draws, d, d]. Returns log10 [draws, skips]."""
    skips = np.array(SKIPS)[:, None, None]
    x, r = y[:, None, :1, :], y[:, None] - y[:, None, :1, :]
    x, r = np.repeat(x, len(SKIPS), 1), np.repeat(r, len(SKIPS), 1)
    for l in range(layers):
        queries, keys, values = (w[:, None] for w in weights(l))
        x, r = layer(x, r, skips, queries, keys, values)
    return left(x, r)


def plain_mpmath(y, weights, layers, skip):
    """The same network in 60 digits, states whole."""
    mp.mp.dps = 60
    n, d = y.shape
    states = mp.matrix(y.tolist())
    for l in range(layers):
        queries, keys, values = (mp.matrix(w[0].tolist()) for w in weights(l))
        logits = states * queries * (states * keys).T / mp.sqrt(d)
        p = mp.zeros(n, n)
        for i in range(n):
            e = [mp.exp(logits[i, j] - logits[i, i]) for j in range(i + 1)]
            for j in range(i + 1):
                p[i, j] = e[j] / mp.fsum(e)
        states = mp.mpf(skip) * states + p * states * values
        for i in range(n):
            rms = mp.sqrt(mp.fsum(states[i, k] ** 2 for k in range(d)) / d + mp.mpf(EPSILON))
            for k in range(d):
                states[i, k] /= rms
    mean = [mp.fsum(states[i, k] for i in range(n)) / n for k in range(d)]
    rest = mp.sqrt(mp.fsum((states[i, k] - mean[k]) ** 2 for i in range(n) for k in range(d)))
    return float(mp.log10(rest / mp.sqrt(mp.fsum(v ** 2 for v in states))))


def tokens(rng, draws, n, d):
    y = rng.standard_normal((draws, n, d)) + 0.5 * rng.standard_normal((draws, 1, d))
    return y / np.sqrt((y * y).mean(-1, keepdims=True))


def check_arithmetic():
    n, layers, rng = 6, 64, np.random.default_rng(5)
    for kind in KINDS:
        y = tokens(rng, 1, n, n)
        stored = [[rng.standard_normal((1, n, n)) / math.sqrt(n) for _ in range(3)] for _ in range(layers)]
        for w in stored:
            w[2] = value_matrices(kind, w[2])
        here = run(y, stored.__getitem__, layers)[0]
        errors = [abs(here[s] - plain_mpmath(y[0], stored.__getitem__, layers, SKIPS[s])) for s in range(len(SKIPS))]
        print("/* W %s: log10 down to %.1f; against 60 digits at most %.1e off */" % (kind, here.min(), max(errors)))


def random_draws(kind, draws, rng):
    def weights(_):
        queries, keys, gauss = (rng.standard_normal((draws, SIZE, SIZE)) / math.sqrt(SIZE) for _ in range(3))
        return queries, keys, value_matrices(kind, gauss)

    return run(tokens(rng, draws, SIZE, SIZE), weights, SIZE)


def hashed(tag, count):
    """Uniform in (0, 1), a hash of tag and index: the same doubles in any language."""
    k = np.arange(1, count + 1, dtype=np.uint64)
    mask = np.uint64(2 ** 32 - 1)
    h = (k * np.uint64(2654435761) + np.uint64(tag * 2246822519 % 2 ** 32)) & mask
    h = ((h ^ h >> np.uint64(15)) * np.uint64(2246822519)) & mask
    h = ((h ^ h >> np.uint64(13)) * np.uint64(3266489917)) & mask
    return ((h ^ h >> np.uint64(16)).astype(float) + 0.5) / 2 ** 32


def hashed_normal(tag, count):
    u = hashed(tag, 2 * count)
    return np.sqrt(-2 * np.log(u[0::2])) * np.cos(2 * math.pi * u[1::2])


def hashed_network(kind):
    common, own = hashed_normal(1, SIZE), hashed_normal(2, SIZE * SIZE).reshape(SIZE, SIZE)
    y = own + 0.5 * common
    y = (y / np.sqrt((y * y).mean(-1, keepdims=True)))[None]

    def weights(l):
        queries, keys, gauss = (hashed_normal(100 + 10 * l + i, SIZE * SIZE).reshape(1, SIZE, SIZE) / math.sqrt(SIZE) for i in range(3))
        return queries, keys, value_matrices(kind, gauss)

    return y, weights


def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    check_arithmetic()
    rng = np.random.default_rng(99)
    for kind in KINDS:
        values = np.concatenate([random_draws(kind, 8, rng) for _ in range(draws // 8)])
        print("/* W %s, %d draws: mean and deviation of log10 */" % (kind, len(values)))
        print("{" + ", ".join("{%.6f, %.6f}" % v for v in zip(values.mean(0), values.std(0, ddof=1))) + "},", flush=True)
    for kind in KINDS:
        y, weights = hashed_network(kind)
        here = run(y, weights, SIZE)[0]
        moved = run(y * (1 + 1e-10 * np.cos(np.arange(SIZE))), weights, SIZE)[0]
        print("/* W %s, the network from a hash; tokens changed by 1e-10 change them by %.1e */" % (kind, abs(here - moved).max()))
        print("{" + ", ".join("%.9f" % v for v in here) + "},")


if __name__ == "__main__":
    main()
