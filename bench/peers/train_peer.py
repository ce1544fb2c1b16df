#!/usr/bin/env python3
"""The same training steps in PyTorch, float32, as people write them.

train_peer.py recall|gpt2 --threads T [--fused]   answers each line "N" on standard input with one JSON line: seconds of the next N steps,
                                                  the loss of the last and the peak of resident memory so far

recall: the associative recall of docs/train.md: batches drawn by NumPy, attention written out, AdamW, clipping.
gpt2:   GPT-2 small with tied embeddings, 4 x 256 random tokens; attention and AdamW written out (eager), or --fused: PyTorch's own kernels.
"""
import argparse
import json
import math
import resource
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, d, heads, width, bias, act, fused):
        super().__init__()
        self.heads, self.act, self.fused = heads, act, fused
        self.norm1, self.norm2 = torch.nn.LayerNorm(d, bias=bias), torch.nn.LayerNorm(d, bias=bias)
        self.qkv, self.out = torch.nn.Linear(d, 3 * d, bias=bias), torch.nn.Linear(d, d, bias=bias)
        self.up, self.down = torch.nn.Linear(d, width, bias=bias), torch.nn.Linear(width, d, bias=bias)

    def forward(self, x, mask):
        n, t, d = x.shape
        q, k, v = (part.view(n, t, self.heads, d // self.heads).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(d, 2))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = ((q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1]) + mask).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(n, t, d))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Decoder(torch.nn.Module):
    def __init__(self, vocabulary, outputs, tokens, d, heads, layers, width, bias, act, fused, tied):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(vocabulary, d), torch.nn.Embedding(tokens, d)
        self.blocks = torch.nn.ModuleList(Block(d, heads, width, bias, act, fused) for _ in range(layers))
        self.norm, self.head = torch.nn.LayerNorm(d, bias=bias), torch.nn.Linear(d, outputs, bias=False)
        if tied:
            self.head.weight = self.tokens.weight
        self.register_buffer("mask", torch.full((tokens, tokens), float("-inf")).triu(1))
        torch.nn.init.normal_(self.tokens.weight, std=0.02 if tied else 0.3)
        torch.nn.init.normal_(self.positions.weight, std=0.02 if tied else 0.3)

    def forward(self, ids, last):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask[: ids.shape[1], : ids.shape[1]])
        return self.head(self.norm(x[:, -last:]))


def recall_batch(rng):
    keys = np.argsort(rng.random((32, 16)), 1)[:, :6]
    values = rng.integers(0, 16, (32, 6))
    order = np.argsort(rng.random((32, 6)), 1)
    ids = np.empty((32, 18), np.int64)
    ids[:, 0:12:2], ids[:, 1:12:2] = keys, values + 16
    ids[:, 12:] = np.take_along_axis(keys, order, 1)
    return torch.from_numpy(ids), torch.from_numpy(np.take_along_axis(values, order, 1))


def text_batch(rng):
    ids = torch.from_numpy(rng.integers(0, 50000, (4, 257)))
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("recall", "gpt2"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fused", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.kind == "recall":
        model = Decoder(32, 16, 18, 64, 2, 2, 128, False, F.relu, args.fused, False)
        batch, last, rate, betas = recall_batch, 6, 2e-3, (0.9, 0.95)
    else:
        model = Decoder(50257, 50257, 1024, 768, 12, 12, 3072, True, lambda x: F.gelu(x, approximate="tanh"), args.fused, True)
        batch, last, rate, betas = text_batch, 256, 6e-4, (0.9, 0.95)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimiser = torch.optim.AdamW([dict(params=decayed, weight_decay=0.1), dict(params=others, weight_decay=0.0)], lr=rate, betas=betas,
                                  fused=args.fused)
    rng = np.random.default_rng(1)
    print(json.dumps({"torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters())}), flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        for _ in range(int(line)):
            ids, targets = batch(rng)
            logits = model(ids, last)
            loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            value = loss.item()
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds, "loss": value, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}),
              flush=True)


main()
