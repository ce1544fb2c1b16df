#!/usr/bin/env python3
"""Singular values of head products of BERT-base's shape, formed and decomposed whole: the peer of bench_session.c.

svdvals_peer.py THREADS REPEATS            prints the median seconds of one 768 x 768 product in float64
"""
import json
import statistics
import sys
import time

import torch

threads, repeats = map(int, sys.argv[1:])
torch.set_num_threads(threads)
torch.manual_seed(0)
seconds = []
for _ in range(repeats + 1):
    a, b = (0.05 * torch.randn(768, 64, dtype=torch.float64) for _ in range(2))
    begin = time.perf_counter()
    torch.linalg.svdvals(a @ b.T)
    seconds.append(time.perf_counter() - begin)
print(json.dumps({"seconds": statistics.median(seconds[1:]), "torch": torch.__version__}))
