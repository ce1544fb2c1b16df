#!/usr/bin/env python3
"""Passes of state-space models in PyTorch, float32, inference_mode: `transformers` and a tuned layer.

states_peer.py --make mamba|mamba2 DIR     writes a model of the 130M shape (d 768, 24 layers) with drawn weights
states_peer.py DIR --threads T             answers each line "TOKENS" on standard input with one JSON line: seconds of one pass
                                           of transformers' model, and of Mamba-2 of the tuned one (each after a pass to warm up)

The tuned Mamba-2 forms C Bᵀ of a chunk once for all heads of a group and does the rest as batched products; its chunk is the
fastest of 64, 128 and 256. It is compared with transformers' hidden states before it is timed.
"""
import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F
import transformers

SHAPES = {
    "mamba": lambda: transformers.MambaModel(transformers.MambaConfig(vocab_size=50280, hidden_size=768, num_hidden_layers=24)),
    "mamba2": lambda: transformers.Mamba2Model(transformers.Mamba2Config(
        vocab_size=50288, hidden_size=768, num_hidden_layers=24, num_heads=24, head_dim=64, state_size=128, n_groups=1)),
}


def rms(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def scan(x, step, rate, b, c, chunk):
    """x [n, heads, dim], step [n, heads], rate [heads], b, c [n, state] of one group: y [n, heads, dim], in chunks."""
    n, heads, dim = x.shape
    pad = -n % chunk
    x, step, b, c = (F.pad(t, (0, 0) * (t.dim() - 1) + (0, pad)) for t in (x, step, b, c))
    k = (n + pad) // chunk
    x = (x * step.unsqueeze(-1)).view(k, chunk, heads, dim).permute(0, 2, 1, 3)      # [k, heads, chunk, dim]
    decay = (step * rate).view(k, chunk, heads).permute(0, 2, 1).cumsum(-1)          # [k, heads, chunk]
    b, c = b.view(k, chunk, -1), c.view(k, chunk, -1)
    mask = torch.full((chunk, chunk), -torch.inf).triu(1)
    weights = (decay.unsqueeze(-1) - decay.unsqueeze(-2) + mask).exp_()              # [k, heads, chunk, chunk]
    y = (weights * (c @ b.transpose(-1, -2)).unsqueeze(1)) @ x
    left = (decay[..., -1:] - decay).exp().unsqueeze(-1)
    gained = b.transpose(-1, -2).unsqueeze(1) @ (x * left)                           # [k, heads, state, dim]
    total, state = decay[..., -1].exp()[..., None, None], torch.zeros_like(gained[0])
    before = torch.empty_like(gained)
    for i in range(k):
        before[i] = state
        state = state * total[i] + gained[i]
    y = y + (c.unsqueeze(1) @ before) * decay.exp().unsqueeze(-1)
    return y.permute(0, 2, 1, 3).reshape(k * chunk, heads, dim)[:n]


def mixer(m, x, chunk):
    inner, keys, heads = m.intermediate_size, m.n_groups * m.ssm_state_size, m.num_heads
    z, xbc, dt = m.in_proj(x).split([inner, inner + 2 * keys, heads], -1)
    xbc = F.conv1d(F.pad(xbc.T, (m.conv_kernel_size - 1, 0)).unsqueeze(0), m.conv1d.weight, m.conv1d.bias, groups=inner + 2 * keys)
    u, b, c = F.silu(xbc[0].T).split([inner, keys, keys], -1)
    u = u.reshape(-1, heads, inner // heads)
    y = scan(u, F.softplus(dt + m.dt_bias), -m.A_log.exp(), b, c, chunk) + u * m.D[:, None]
    return m.out_proj(rms(y.reshape(-1, inner) * F.silu(z), m.norm.weight, m.norm.variance_epsilon))


def tuned(model, ids, chunk):
    x = model.embeddings(ids)[0]
    for layer in model.layers:
        x = x + mixer(layer.mixer, rms(x, layer.norm.weight, layer.norm.variance_epsilon), chunk)
    return rms(x, model.norm_f.weight, model.norm_f.variance_epsilon)


def seconds(run):
    begin = time.perf_counter()
    with torch.inference_mode():
        out = run()
    return time.perf_counter() - begin, out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--make", choices=SHAPES)
    parser.add_argument("dir")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.make:
        torch.manual_seed(0)
        SHAPES[args.make]().save_pretrained(args.dir)
        return
    model = transformers.AutoModel.from_pretrained(args.dir, dtype=torch.float32).eval()
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__}), flush=True)
    chunks = (64, 128, 256) if model.config.model_type == "mamba2" else ()
    for line in sys.stdin:
        ids = torch.randint(0, 1000, (1, int(line)), generator=torch.Generator().manual_seed(0))
        expected = seconds(lambda: model(ids, use_cache=False).last_hidden_state[0])[1]
        answer = {"transformers": seconds(lambda: model(ids, use_cache=False))[0]}
        for chunk in chunks:
            out = seconds(lambda: tuned(model, ids, chunk))[1]
            assert (out - expected).abs().max() < 2e-3 * expected.abs().max(), "the tuned pass is another one"
            spent = seconds(lambda: tuned(model, ids, chunk))[0]
            answer["tuned"] = min(spent, answer.get("tuned", spent))
        print(json.dumps(answer), flush=True)


main()
