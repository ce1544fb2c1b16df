#!/usr/bin/env python3
"""compare_recall.py PROGRAM [STEPS]: associative recall beside PyTorch in float64, step by step.

Batches are drawn here by NumPy and handed over as data.batches; the weights are those that PROGRAM draws, read from its checkpoint; the
model and the optimiser are PyTorch's own layers and torch.optim.AdamW. Fails where a loss of a step differs by 1e-9 or more.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 250
HEADS, EPS = 2, 1e-5


def read(path):
    """The tensors of a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {name: torch.from_numpy(np.frombuffer(data[slice(*entry["data_offsets"])], "<f8").copy()).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def draw(rng):
    keys = np.argsort(rng.random((32, 16)), 1)[:, :6]
    values = rng.integers(0, 16, (32, 6))
    order = np.argsort(rng.random((32, 6)), 1)
    batch = np.full((2, 32, 18), -1, np.int64)
    batch[0, :, 0:12:2], batch[0, :, 1:12:2] = keys, values + 16
    batch[0, :, 12:] = np.take_along_axis(keys, order, 1)
    batch[1, :, 12:] = np.take_along_axis(values, order, 1)
    return batch.transpose(1, 0, 2)


def forward(p, ids):
    n, t = ids.shape
    x = p["embed.tokens.weight"][ids] + p["embed.positions.weight"]
    d = x.shape[-1]
    mask = torch.full((t, t), float("-inf"), dtype=x.dtype).triu(1)
    for layer in range(2):
        name = f"layers.{layer}.mixer."
        y = F.layer_norm(x, (d,), p[name + "norm_before.gain"], eps=EPS)
        q, k, v = (F.linear(y, p[name + part + ".weight"]).view(n, t, HEADS, d // HEADS).transpose(1, 2) for part in "qkv")
        y = ((q @ k.transpose(-2, -1)) / (d // HEADS) ** 0.5 + mask).softmax(-1) @ v
        x = x + F.linear(y.transpose(1, 2).reshape(n, t, d), p[name + "o.weight"])
        name = f"layers.{layer}.mlp."
        y = F.layer_norm(x, (d,), p[name + "norm_before.gain"], eps=EPS)
        x = x + F.linear(F.relu(F.linear(y, p[name + "up.weight"])), p[name + "down.weight"])
    return F.linear(F.layer_norm(x, (d,), p["final_norm.gain"], eps=EPS), p["head.weight"])


def main():
    with tempfile.TemporaryDirectory() as folder:
        def train(out, *settings):
            subprocess.run([sys.argv[1], "train", "associative-recall", "--out", os.path.join(folder, out), "-q", "--set", "precision=f64",
                            *(word for setting in settings for word in ("--set", setting))], check=True)

        train("start", "steps=0")
        rng = np.random.default_rng(1000)
        batches = np.stack([draw(rng) for _ in range(STEPS + 1)])
        np.save(os.path.join(folder, "batches.npy"), batches)
        train("run", f"steps={STEPS}", "log_every=1", "rank_every=0", f"data.batches={folder}/batches.npy", f"model={folder}/start")
        ours = [json.loads(line)["batch_loss"] for line in open(os.path.join(folder, "run", "log.jsonl"))]
        p = {name: tensor.requires_grad_() for name, tensor in read(os.path.join(folder, "start", "model.safetensors")).items()}
        gains = [tensor for name, tensor in p.items() if name.endswith("gain")]
        others = [tensor for name, tensor in p.items() if not name.endswith("gain")]
        optimiser = torch.optim.AdamW([dict(params=others, weight_decay=0.1), dict(params=gains, weight_decay=0.0)], lr=2e-3,
                                      betas=(0.9, 0.95), eps=1e-8)
        worst = 0
        for step in range(STEPS + 1):
            ids, targets = (torch.from_numpy(batches[step, :, plane]) for plane in (0, 1))
            logits = forward(p, ids)
            loss = F.cross_entropy(logits.reshape(-1, 16), targets.reshape(-1), ignore_index=-1)
            worst = max(worst, abs(loss.item() - ours[step]))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(p.values()), 1.0)
            for group in optimiser.param_groups:
                group["lr"] = 2e-3 * min(1, (step + 1) / 100)
            optimiser.step()
    print(f"{STEPS} steps: losses differ by at most {worst:.1e}; the last is {ours[-1]:.6f}")
    sys.exit(worst >= 1e-9)


main()
