#!/usr/bin/env python3
"""Peers for `rankscope scan` at LLaMA-2-7B size: QK and OV singular values of one layer by NumPy and PyTorch.

Every route but 'naive' is the same smart one that rankscope uses: two float64 Grams, Cholesky, singular values of the small
product. Prints JSON: seconds a layer for each route (best of --repeat), and the kernels and threads used.
Set OPENBLAS_CORETYPE for NumPy's best kernel; the caller names it.

  product_spectra_peer.py DIR [--layer 0 --threads 2 --repeat 3 --naive-heads 0]
"""
import argparse
import json
import os
import time


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--layer", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--naive-heads", type=int, default=0)
    args = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    import numpy as np
    import torch
    from concurrent.futures import ThreadPoolExecutor
    from safetensors import safe_open
    import scipy.linalg
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        threadpool_limits = None

    torch.set_num_threads(args.threads)
    config = json.load(open(os.path.join(args.directory, "config.json")))
    heads, d = config["num_attention_heads"], config["hidden_size"]
    width = config.get("head_dim") or d // heads
    index = os.path.join(args.directory, "model.safetensors.index.json")
    names = [f"model.layers.{args.layer}.self_attn.{p}_proj.weight" for p in "qkvo"]
    files = json.load(open(index))["weight_map"] if os.path.exists(index) else dict.fromkeys(names, "model.safetensors")
    weights = []
    for name in names:
        with safe_open(os.path.join(args.directory, files[name]), framework="pt") as f:
            weights.append(f.get_tensor(name))
    q, k, v, o = weights
    bits = [w.contiguous().view(torch.int16).numpy().view(np.uint16) for w in weights]

    def widen(block):
        return (block.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    def spectrum(rows_a, rows_b):
        x, y = rows_a @ rows_a.T, rows_b @ rows_b.T
        return np.linalg.svd(np.linalg.cholesky(x).T @ np.linalg.cholesky(y), compute_uv=False)

    def head(h):
        s = slice(h * width, (h + 1) * width)
        spectrum(widen(bits[0][s]), widen(bits[1][s]))
        spectrum(widen(bits[2][s]), widen(np.ascontiguousarray(bits[3][:, s].T)))

    def numpy_loop():
        for h in range(heads):
            head(h)

    def numpy_pool():
        with threadpool_limits(1):
            with ThreadPoolExecutor(args.threads) as pool:
                list(pool.map(head, range(heads)))

    def torch_batched():
        def gram(w):
            return torch.bmm(w, w.mT)
        rows = [w.double().view(heads, width, d) for w in (q, k, v)]
        rows.append(o.double().view(d, heads, width).permute(1, 2, 0))
        chol = [torch.linalg.cholesky(gram(w)) for w in rows]
        torch.linalg.svdvals(chol[0].mT @ chol[1])
        torch.linalg.svdvals(chol[2].mT @ chol[3])

    def torch_head(h):
        s = slice(h * width, (h + 1) * width)
        for a, b in ((q[s], k[s]), (v[s], o[:, s].T)):
            a, b = a.double(), b.double()
            la, lb = torch.linalg.cholesky(a @ a.T), torch.linalg.cholesky(b @ b.T)
            torch.linalg.svdvals(la.T @ lb)

    def torch_pool():
        torch.set_num_threads(1)
        with ThreadPoolExecutor(args.threads) as pool:
            list(pool.map(torch_head, range(heads)))
        torch.set_num_threads(args.threads)

    def best(f):
        times = []
        for _ in range(args.repeat):
            begin = time.perf_counter()
            f()
            times.append(time.perf_counter() - begin)
        return min(times)

    routes = {"numpy_loop": numpy_loop, "torch_batched": torch_batched, "torch_pool": torch_pool}
    if threadpool_limits:
        routes["numpy_pool"] = numpy_pool
    out = {"threads": args.threads, "coretype": os.environ.get("OPENBLAS_CORETYPE"), "numpy": np.__version__,
           "torch": torch.__version__, "seconds_a_layer": {name: best(f) for name, f in routes.items()}}
    if args.naive_heads:
        begin = time.perf_counter()
        for h in range(args.naive_heads):
            s = slice(h * width, (h + 1) * width)
            product = q[s].float().T @ k[s].float()
            scipy.linalg.svd(product.numpy(), compute_uv=False, overwrite_a=True, check_finite=False)
        out["naive_seconds_a_product"] = (time.perf_counter() - begin) / args.naive_heads
    print(json.dumps(out))


main()
