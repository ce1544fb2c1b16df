"""A pass of a small attention network in multiprecision, digits enough that the residual is measured: the peer of bench_residual.c.

residual_peer.py LAYERS DIGITS REPEATS
"""
import json
import random
import sys
import time

import mpmath as mp

layers, digits, repeats = map(int, sys.argv[1:])
TOKENS = 5
WIDTH = 4
mp.mp.dps = digits
draws = random.Random(1)


def normals(rows, cols, scale):
    return [[mp.mpf(draws.gauss(0, scale)) for _ in range(cols)] for _ in range(rows)]


def product(a, b):
    columns = list(zip(*b))
    return [[mp.fdot(row, column) for column in columns] for row in a]


def attention(x, wq, wk, wv):
    logits = product(product(x, wq), list(zip(*product(x, wk))))
    out = []
    for row in logits:
        weights = [mp.exp((value - max(row)) / 2) for value in row]  # sqrt(WIDTH) = 2
        total = mp.fsum(weights)
        out.append([value / total for value in weights])
    return product(out, product(x, wv))


base = normals(1, WIDTH, 1)[0]
tokens = [[a + b for a, b in zip(base, row)] for row in normals(TOKENS, WIDTH, 0.3)]
weights = [(normals(WIDTH, WIDTH, 1), normals(WIDTH, WIDTH, 1), normals(WIDTH, WIDTH, 0.5)) for _ in range(layers)]
seconds = []
for _ in range(repeats):
    begin = time.perf_counter()
    x = tokens
    for w in weights:
        x = attention(x, *w)
    seconds.append(time.perf_counter() - begin)
means = [mp.fsum(column) / TOKENS for column in zip(*x)]
largest = max(abs(value - mean) for row in x for value, mean in zip(row, means))
print(json.dumps({"seconds": min(seconds), "log10": float(mp.log10(largest)), "mpmath": mp.__version__, "backend": mp.libmp.BACKEND}))
