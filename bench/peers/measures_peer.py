#!/usr/bin/env python3
"""Peer of the attention and token measures: the same columns by PyTorch, batched, in float32.

  measures_peer.py make MODEL DIR          states and attention of a BERT-like checkpoint over one text, as raw float32
                                           matrices: DIR/attention.f32 (128 x 128) and DIR/tokens.f32 (128 x width)
  measures_peer.py attention|tokens|spectral FILE ROWS COLUMNS THREADS REPEATS

The second form prints JSON like bench_measures: seconds a matrix (best of the repeats), their number, and the mean of one
measure.
"""
import json
import os
import sys
import time

TEXT = ("The instrument measures how quickly the token vectors of a sequence model become alike. When attention mixes all "
        "tokens evenly, differences die out, and the matrix of hidden states approaches rank one. A ship at sea in 1842 "
        "carried twelve barrels of salt, three goats, and a physician who doubted the compass; he wrote letters home, none of "
        "which arrived. Later readers found in them the first description of an island that nobody has visited since, with "
        "red cliffs and a lake of fresh water. ") * 3


def make(model, folder):
    import torch
    from transformers import AutoModel, AutoTokenizer
    batch = AutoTokenizer.from_pretrained(model)([TEXT], max_length=128, truncation=True, return_tensors="pt")
    with torch.no_grad():
        out = AutoModel.from_pretrained(model, attn_implementation="eager")(**batch, output_attentions=True,
                                                                            output_hidden_states=True)
    torch.stack(out.attentions)[:, 0].numpy().astype("float32").tofile(os.path.join(folder, "attention.f32"))
    states = torch.stack(out.hidden_states)[:, 0].numpy().astype("float32")
    states.tofile(os.path.join(folder, "tokens.f32"))
    print(json.dumps({"width": states.shape[-1]}))


def attention(torch, a):
    """Entropy, the two largest singular values, |lambda_2|, Dobrushin, distance to uniform, means, centred norm."""
    n = a.shape[-1]
    entropy = -torch.xlogy(a, a).sum(-1).mean(-1)
    sigma = torch.linalg.svdvals(a)[:, :2]
    second = torch.linalg.eigvals(a).abs().topk(2, dim=-1).values[:, 1]
    dobrushin = 0.5 * torch.cdist(a, a, p=1).amax((1, 2))
    distance = torch.linalg.matrix_norm(a - 1 / n)
    own, first = a.diagonal(dim1=1, dim2=2).mean(-1), a[:, :, 0].mean(-1)
    centred = torch.linalg.matrix_norm(a - a.mean(1, keepdim=True), 2) ** 2
    return second.mean(), (entropy, sigma, dobrushin, distance, own, first, centred)


def composite(r):
    return (r.abs().sum(1).amax(-1) * r.abs().sum(2).amax(-1)).sqrt()


def tokens(torch, x, spectral):
    """Residuals in both norms, row-normalised spread, cosine, diameter; with the spectrum the four ranks."""
    r = x - x.mean(1, keepdim=True)
    relative = torch.linalg.matrix_norm(r) / torch.linalg.matrix_norm(x)
    unit = torch.nn.functional.normalize(x, dim=-1)
    spread = torch.linalg.matrix_norm(unit - unit.mean(1, keepdim=True)) ** 2
    rest = [composite(r), composite(x), spread, torch.cdist(x, x).amax((1, 2))]
    if spectral:
        sigma = torch.linalg.svdvals(x)
        p = sigma / sigma.sum(-1, keepdim=True)
        rest += [torch.exp(-torch.xlogy(p, p).sum(-1)), (sigma**2).sum(-1) / sigma[:, 0] ** 2,
                 (sigma**4).sum(-1) / sigma[:, 0] ** 4, (sigma > x.shape[-1] * 1.2e-7 * sigma[:, :1]).sum(-1)]
    return relative.mean(), rest


def main():
    if sys.argv[1] == "make":
        return make(sys.argv[2], sys.argv[3])
    what, path, (rows, columns, threads, repeats) = sys.argv[1], sys.argv[2], map(int, sys.argv[3:7])
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    import numpy as np
    import torch
    torch.set_num_threads(threads)
    x = torch.from_numpy(np.fromfile(path, dtype=np.float32).reshape(-1, rows, columns))
    best, mean = float("inf"), None
    for _ in range(repeats):
        begin = time.perf_counter()
        mean, _ = attention(torch, x) if what == "attention" else tokens(torch, x, what == "spectral")
        best = min(best, time.perf_counter() - begin)
    print(json.dumps({"seconds": best / len(x), "matrices": len(x), "mean": float(mean)}))


if __name__ == "__main__":
    main()
