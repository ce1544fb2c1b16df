"""Monte Carlo trials of a small post-norm ReLU network in PyTorch: the peer of bench_trials.c.

trials_peer.py TRIALS LAYERS TOKENS FEATURES HEADS WIDTH THREADS REPEATS

Two programs: a loop over trials, and a batched one (bmm, 100 trials at once). Both draw all weights, run forward and back, and
take the squares of the gradients of W_Q, W_K, W_V, W_O, w1, w2 and of the states. Each on one thread and on THREADS: the best counts.
The loop runs a fortieth of the trials and is multiplied.
"""
import json
import math
import sys
import time

import torch
import torch.nn.functional as F

trials, layers, n, d, heads, width, threads, repeats = map(int, sys.argv[1:])
head = d // heads
SHAPES = [(d, d)] * 4 + [(d, width), (width, d)]
DEVIATIONS = [1 / math.sqrt(d)] * 4 + [math.sqrt(2 / d), 1 / math.sqrt(width)]


def draw(count, generator):
    return [[torch.randn(*count, *shape, dtype=torch.float64, generator=generator).mul_(by).requires_grad_()
             for shape, by in zip(SHAPES, DEVIATIONS)] for _ in range(layers)]


def forward(weights, x):
    """x [.., n, d], weights [.., in, out]; the states in front of each layer and the last."""
    states = [x]
    for q, k, v, o, up, down in weights:
        lead = x.shape[:-2]
        split = lambda t: t.view(*lead, n, heads, head).transpose(-2, -3)
        a = torch.softmax(split(x @ q) @ split(x @ k).transpose(-1, -2) / math.sqrt(head), -1)
        x = F.layer_norm(x + (a @ split(x @ v)).transpose(-2, -3).reshape(*lead, n, d) @ o, (d,))
        x = F.layer_norm(x + torch.relu(x @ up) @ down, (d,))
        states.append(x)
    return states


def some(count, generator):
    """That many trials at once: rho of the last states, squares of the first layer's gradients."""
    weights = draw(count, generator)
    x = torch.randn(*count, n, d, dtype=torch.float64, generator=generator)
    x = (x * math.sqrt(d) / x.norm(dim=-1, keepdim=True)).requires_grad_()
    states = forward(weights, x)
    g = torch.randn(*count, n, d, dtype=torch.float64, generator=generator)
    flat = [w for layer in weights for w in layer]
    grads = torch.autograd.grad((states[-1] * g).sum(), flat + states)
    squares = [w.square().sum((-1, -2)) for w in grads]
    sums = [(s.square().sum((-1, -2)), s.sum(-2).square().sum(-1), (s - s.mean(-2, keepdim=True)).square().sum((-1, -2))) for s in states]
    return sums[-1][0].sum().item(), sums[-1][1].sum().item(), squares[2].log().sum().item(), squares[0].log().sum().item()


def run(count, times, generator):
    totals = [0.0] * 4
    for _ in range(times):
        totals = [a + b for a, b in zip(totals, some(count, generator))]
    return totals


def main():
    generator = torch.Generator().manual_seed(0)
    alone, batched = [], []
    at_once = min(100, trials)
    loop = max(1, trials // 40)
    for _ in range(repeats):
        for count in {1, threads}:
            torch.set_num_threads(count)
            some((), generator)
            begin = time.perf_counter()
            run((), loop, generator)
            middle = time.perf_counter()
            totals = run((at_once,), trials // at_once, generator)
            end = time.perf_counter()
            alone.append((middle - begin) * trials / loop)
            batched.append(end - middle)
    square, total, value, query = totals
    count = trials // at_once * at_once
    print(json.dumps({"loop": min(alone), "batched": min(batched), "rho": (total / square - 1) / (n - 1),
                      "log_value": value / count, "log_query": query / count, "torch": torch.__version__}))


main()
