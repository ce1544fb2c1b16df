#!/usr/bin/env python3
"""What the claims of `lab run lambda-figure-1`, `-2` and `-3` on random weights expect: |RY|/|Y| of stacks of Mamba-2 blocks and of the
selective layer M = 1SS(decay) * cosines, by skip strength.  NumPy, matrices formed whole, its own random numbers.

Prints C initialisers for src/lab/lambda_figure_*.c: mean and standard deviation over draws of everything, and the values of one network
whose numbers are a hash of their index, so that the engine has the same ones; there tokens moved by 1e-10 say how far rounding can get.
    python3 tests/oracle/lab_lambda_figures.py [DRAWS]"""
import math
import sys

import numpy as np

N = D = LAYERS = 64
INNER, HEADS, STATE, TAPS = 128, 8, 16, 4
WIDTH = INNER // HEADS
EPSILON = 1e-12
SEED = 20250213
STRENGTHS = (-20, -10, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 10, 20)  # of figure 2
SEVERAL = (-20, -10, -1, 0, 0.5, 1, 2, 5, 10, 20)  # of figure 1
STATES = (1, 8, 32, 64)  # of figures 1 and 3
SURE = 16  # layers after which rounding is still far below what is compared
FEW, NARROW = 32, 16  # tokens and features of the selective layer


def normed(y):
    return y / np.sqrt((y * y).mean(-1, keepdims=True) + EPSILON)


def silu(x):
    return x / (1 + np.exp(-np.clip(x, -60, 60)))


def left(y):
    rest = y - y.mean(-2, keepdims=True)
    return np.sqrt((rest * rest).sum((-1, -2)) / (y * y).sum((-1, -2)))


# ---- Mamba-2 ----

def drawn_weights(rng, draws):
    """W_in [d, z | x | B | C | dt], taps, step biases, rates, W_out of one layer of each draw."""
    columns = 2 * INNER + 2 * STATE + HEADS
    steps = np.exp(rng.uniform(math.log(1e-3), math.log(1e-1), (draws, HEADS)))
    return (rng.uniform(-1, 1, (draws, D, columns)) / math.sqrt(D), rng.uniform(-0.5, 0.5, (draws, INNER + 2 * STATE, TAPS)),
            steps + np.log(-np.expm1(-steps)), rng.uniform(1, 16, (draws, HEADS)), rng.uniform(-1, 1, (draws, INNER, D)) / math.sqrt(INNER))


def block(y, weights, gate, inner_norm):
    """y [draws, strengths, n, d]"""
    into, taps, bias, rates, out = (w[:, None] for w in weights)
    n = y.shape[-2]
    both = y @ into
    z, conv, steps = both[..., :INNER], both[..., INNER:2 * INNER + 2 * STATE], both[..., 2 * INNER + 2 * STATE:]
    padded = np.concatenate([np.zeros(conv.shape[:-2] + (TAPS - 1, conv.shape[-1])), conv], -2)
    conv = silu(sum(padded[..., j:j + n, :] * taps[..., None, :, j] for j in range(TAPS)))
    u, keys, queries = conv[..., :INNER], conv[..., INNER:INNER + STATE], conv[..., INNER + STATE:]
    steps = np.logaddexp(0, steps + bias[..., None, :])
    scores = queries @ np.swapaxes(keys, -1, -2)
    visible = np.tril(np.ones((n, n))) > 0
    mixed = np.empty_like(u)
    for h in range(HEADS):
        past = np.cumsum(-steps[..., h] * rates[..., h, None], -1)
        decay = np.exp(np.where(visible, past[..., :, None] - past[..., None, :], -np.inf))
        own = slice(h * WIDTH, (h + 1) * WIDTH)
        mixed[..., own] = (decay * scores * steps[..., None, :, h]) @ u[..., own] + u[..., own]
    if gate:
        mixed = mixed * silu(z)
    return (normed(mixed) if inner_norm else mixed) @ out


def tokens(rng, draws, n, d):
    return normed(rng.standard_normal((draws, n, d)) + 0.5 * rng.standard_normal((draws, 1, d)))


def stack(y, weights, skips, gate=True, inner_norm=True, norm="post"):
    """|RY|/|Y| [draws, strengths, layers + 1]; norm: behind the sum, before the block, or nowhere."""
    y, skips = np.repeat(y[:, None], len(skips), 1), np.array(skips, float)[:, None, None]
    states = [left(y)]
    for l in range(LAYERS):
        add = block(normed(y) if norm == "pre" else y, weights(l), gate, inner_norm)
        y = skips * y + add
        if norm == "post":
            y = normed(y)
        states.append(left(y))
    return np.stack(states, -1)


# ---- the selective layer ----

def selective(y, decay, skips, epsilon=EPSILON):
    """|RY|/|Y| [draws, strengths] behind Y <- rms(skip Y + M Y), M_ij = decay^(i-j) y_i.y_j/d for j <= i."""
    i, j = np.indices((FEW, FEW))
    decays = np.where(j <= i, decay ** np.maximum(i - j, 0.0), 0)
    skips = np.array(skips, float)[:, None, None]
    y = np.repeat(y[:, None], len(skips), 1)
    for _ in range(LAYERS):
        z = skips * y + (decays * (y @ np.swapaxes(y, -1, -2)) / NARROW) @ y
        y = z / np.sqrt((z * z).mean(-1, keepdims=True) + epsilon)
    return left(y)


def positive_tokens(rng, draws):
    return normed(np.abs(rng.standard_normal((draws, FEW, NARROW))))


# ---- the network from a hash ----

def uniform(tag, shape, scale=1.0):
    """Numbers in [-scale, scale), rs_lab_hash of src/lab/toy_matrix.c."""
    count = int(np.prod(shape))
    k = np.arange(1, count + 1, dtype=np.uint64)
    mask = np.uint64(2 ** 32 - 1)
    h = (k * np.uint64(2654435761) + np.uint64(tag * 2246822519 % 2 ** 32)) & mask
    h = ((h ^ h >> np.uint64(15)) * np.uint64(2246822519)) & mask
    h = ((h ^ h >> np.uint64(13)) * np.uint64(3266489917)) & mask
    return (scale * ((h ^ h >> np.uint64(16)).astype(float) / 2 ** 31 - 1)).reshape((1,) + shape)


def hashed_weights(layer):
    tag = 2000 + 10 * layer
    return (uniform(tag, (D, 2 * INNER + 2 * STATE + HEADS), 1 / math.sqrt(D)), uniform(tag + 1, (INNER + 2 * STATE, TAPS), 0.5),
            uniform(tag + 2, (HEADS,)) - 4, 8.5 + 7.5 * uniform(tag + 3, (HEADS,)), uniform(tag + 4, (INNER, D), 1 / math.sqrt(INNER)))


def hashed_tokens():
    return normed(uniform(1990, (N, D)) + uniform(1991, (1, D), 0.5))


def moved(y):
    return y * (1 + 1e-12 * np.cos(np.arange(D)))


# ---- what is printed ----

def spread(name, values):
    """values [draws, ...]: rows of {mean, deviation}."""
    print("/* %s, %d draws: mean and deviation */" % (name, len(values)))
    values = values.reshape(len(values), -1, values.shape[-1])
    for means, deviations in zip(values.mean(0), values.std(0, ddof=1)):
        print("{" + ", ".join("{%.5f, %.5f}" % v for v in zip(means, deviations)) + "},", flush=True)


def exact(name, run):
    here, there = run(hashed_tokens())[0], run(moved(hashed_tokens()))[0]
    print("/* %s, the network from a hash; tokens moved by 1e-12 change them by %.1e */" % (name, np.abs(here - there).max()))
    for row in np.atleast_2d(here):
        print("{" + ", ".join("%.10f" % v for v in row) + "},", flush=True)


def in_parts(draws, run):
    """run(rng, draws of a part), part after part."""
    return np.concatenate([run(np.random.default_rng([SEED, part]), 4) for part in range(draws // 4)])


def drawn_stack(skips, **settings):
    return lambda rng, draws: stack(tokens(rng, draws, N, D), lambda _: drawn_weights(rng, draws), skips, **settings)


def hashed_stack(skips, **settings):
    return lambda y: stack(y, hashed_weights, skips, **settings)


def figure_1(draws):
    run, at = {"gate": False, "norm": "pre"}, list(STATES)
    spread("figure 1, rows are strengths, columns states", in_parts(draws, drawn_stack(SEVERAL, **run))[..., at])
    exact("figure 1, the same", lambda y: hashed_stack(SEVERAL, **run)(y)[..., at])


def figure_2(draws):
    for name, run in (("no gate, no inner norm", {"gate": False, "inner_norm": False}), ("gate and inner norm", {})):
        spread("figure 2, " + name, in_parts(draws, drawn_stack(STRENGTHS, **run))[..., -1])
        exact("figure 2, " + name, lambda y, run=run: hashed_stack(STRENGTHS, **run)(y)[..., SURE])
    skips = [s for s in STRENGTHS if s != -1]
    y = positive_tokens(np.random.default_rng(SEED), 16 * draws)
    for decay in (0.9, 0.5):
        values = selective(y, decay, skips)
        spread("figure 2, selective, decay %g" % decay, values)
        spread("figure 2, selective, decay %g, log10" % decay, np.log10(values))
        for epsilon in (1e-15, 1e-12, 1e-9, 1e-5):
            values = selective(y, decay, (-1,), epsilon)[:, 0]
            print("/* strength -1, epsilon %g: %.3f, deviation %.3f */" % (epsilon, values.mean(), values.std(ddof=1)))


def figure_3(draws):
    at = list(STATES)
    for gate in (True, False):
        for norm in ("pre", None):
            name, run = "figure 3, gate %s, norm %s" % (gate, norm), {"gate": gate, "norm": norm}
            spread(name, in_parts(draws, drawn_stack((1,), **run))[..., 0, at])
            exact(name, lambda y, run=run: hashed_stack((1,), **run)(y)[..., 0, at])


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    for figure in (figure_2, figure_1, figure_3):
        figure(wanted)
