"""A batch of small random attention networks in PyTorch: the peer of bench_san.c, the same steps as batched products.

san_peer.py NETWORKS LAYERS TOKENS FEATURES HEADS THREADS REPEATS
"""
import json
import math
import statistics
import sys
import time

import torch

networks, layers, n, d, heads, threads, repeats = map(int, sys.argv[1:])
torch.set_num_threads(threads)
width = d // heads


def draw(generator):
    """Every weight of every network, layer by layer: W_Q, W_K, W_V [networks·heads, d, width], W_O [networks·heads, width, d]."""
    def normals(rows, cols):
        return torch.randn(networks * heads, rows, cols, dtype=torch.float64, generator=generator).mul_(1 / math.sqrt(d))
    return [(normals(d, width), normals(d, width), normals(d, width), normals(width, d)) for _ in range(layers)]


def relative_residual(x):
    return ((x - x.mean(1, keepdim=True)).flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1))


def forward(weights, x):
    states = [relative_residual(x)]
    for q, k, v, o in weights:
        wide = x.unsqueeze(1).expand(networks, heads, n, d).reshape(networks * heads, n, d)
        logits = torch.bmm(torch.bmm(wide, q), torch.bmm(wide, k).transpose(1, 2)).mul_(1 / math.sqrt(width))
        mixed = torch.bmm(torch.softmax(logits, -1), torch.bmm(wide, v))
        x = torch.bmm(mixed, o).view(networks, heads, n, d).sum(1)
        states.append(relative_residual(x))
    return states


def main():
    generator = torch.Generator().manual_seed(0)
    alls, passes = [], []
    with torch.inference_mode():
        for _ in range(repeats):
            begin = time.perf_counter()
            weights = draw(generator)
            x = torch.randn(networks, n, d, dtype=torch.float64, generator=generator)
            drawn = time.perf_counter()
            states = forward(weights, x)
            end = time.perf_counter()
            alls.append(end - begin)
            passes.append(end - drawn)
    print(json.dumps({"all": min(alls), "passes": min(passes), "residual": statistics.median(states[min(2, layers)].tolist()),
                      "torch": torch.__version__}))


main()
