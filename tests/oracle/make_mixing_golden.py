"""tests/golden/mixing.json: table mixing of small hybrids. Every matrix M is formed entry by entry in NumPy, from what the
maps of transformers' modules give in double precision; attention's matrices are transformers' own."""
import json
import math
from pathlib import Path

import numpy as np
import torch
import transformers as T
from double_models import all_double

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
MODELS = ("mamba", "falcon_mamba", "jamba", "mamba2", "mamba2_limits", "bamba", "falcon_h1", "falcon_h1_norm")
LENGTHS = (30, 1, 11)


def softplus(x):
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))


def silu(x):
    return x / (1 + np.exp(-x))


def numbers(t):
    return t.detach().numpy().astype(np.float64)


def convolved(module, x):
    """x: [n, channels]; causal, zeros before the sample."""
    w, n = numbers(module.weight)[:, 0], len(x)
    bias = 0 if module.bias is None else numbers(module.bias)
    out = np.zeros_like(x)
    for i in range(n):
        for j in range(w.shape[1]):
            k = i - (w.shape[1] - 1) + j
            if k >= 0:
                out[i] += w[:, j] * x[k]
    return silu(out + bias)


def head_numbers(m, d, n, rates, steps):
    """Of one matrix: m without the skip d; rates: mean logarithm of the decay over states for a step of 1."""
    whole = m + d * np.eye(n)
    sums = whole.sum(1)
    return dict(square=(whole ** 2).sum(), mixed=(m ** 2).sum(), skip=n * d * d, low=sums.min(), high=sums.max(),
                log_decay=(rates * steps).mean(), delta=steps.mean())


def mamba2_heads(mixer, projected, config):
    heads = mixer.num_heads
    groups, state, inner = mixer.n_groups, mixer.ssm_state_size, mixer.intermediate_size
    _, x, dt = np.split(projected, (inner, projected.shape[1] - heads), axis=1)
    x = convolved(mixer.conv1d, x)
    b = x[:, inner:inner + groups * state].reshape(-1, groups, state)
    c = x[:, inner + groups * state:].reshape(-1, groups, state)
    low, high = mixer.time_step_limit
    steps = np.clip(softplus(dt + numbers(mixer.dt_bias)), low, high)
    a = -np.exp(numbers(mixer.A_log))
    d, n = numbers(mixer.D), len(x)
    for h in range(heads):
        g, m = h // (heads // groups), np.zeros((n, n))
        for i in range(n):
            for j in range(i + 1):
                m[i, j] = c[i, g] @ b[j, g] * steps[j, h] * math.exp(a[h] * steps[j + 1:i + 1, h].sum())
        yield head_numbers(m, d[h], n, a[h], steps[:, h])


def rms(module, x, eps):
    if module is None:
        return x
    gain = 1 if isinstance(module, str) else numbers(module.weight)
    return x / np.sqrt((x ** 2).mean(1, keepdims=True) + eps) * gain


def mamba_channels(mixer, projected, config):
    inner, state, rank = mixer.intermediate_size, mixer.ssm_state_size, mixer.time_step_rank
    x = convolved(mixer.conv1d, projected[:, :inner])
    read = x @ numbers(mixer.x_proj.weight).T
    dt, b, c = np.split(read, (rank, rank + state), axis=1)
    norms = {"falcon_mamba": ("one",) * 3, "jamba": [getattr(mixer, k + "_layernorm", None) for k in "dt b c".split()]}
    eps = {"falcon_mamba": getattr(config, "mixer_rms_eps", 0), "jamba": getattr(config, "rms_norm_eps", 0)}
    dt, b, c = (rms(m, v, eps.get(config.model_type)) for m, v in zip(norms.get(config.model_type, (None,) * 3), (dt, b, c)))
    steps = softplus(dt @ numbers(mixer.dt_proj.weight).T + numbers(mixer.dt_proj.bias))
    a, d, n = -np.exp(numbers(mixer.A_log)), numbers(mixer.D), len(x)
    for k in range(inner):
        m = np.zeros((n, n))
        for i in range(n):
            for j in range(i + 1):
                m[i, j] = (c[i] * b[j] * np.exp(a[k] * steps[j + 1:i + 1, k].sum())).sum() * steps[j, k]
        yield head_numbers(m, d[k], n, a[k].mean(), steps[:, k])


def attention_heads(matrices):
    for m in matrices:
        sums = m.sum(1)
        yield dict(square=(m ** 2).sum(), low=sums.min(), high=sums.max())


def row(samples):
    """samples: for each, the list of the matrices that share the row."""
    out = dict(frobenius=np.mean([math.sqrt(np.mean([m["square"] for m in s])) for s in samples]),
               row_sum_min=min(m["low"] for s in samples for m in s), row_sum_max=max(m["high"] for s in samples for m in s),
               decay=None, half_life=None, delta_mean=None, share_of_d=None)
    if "skip" in samples[0][0]:
        decay = np.mean([m["log_decay"] for s in samples for m in s])
        skips = [sum(m["skip"] for m in s) for s in samples]
        out |= dict(decay=math.exp(decay), half_life=-math.log(2) / decay, delta_mean=np.mean([m["delta"] for s in samples for m in s]),
                    share_of_d=np.mean([k / (k + sum(m["mixed"] for m in s)) for k, s in zip(skips, samples)]))
    return out


def rows_of(name, ids):
    folder = GOLDEN / "forward" / name
    stored = T.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with all_double():
        model = type(stored)(stored.config).double().eval()
        model.load_state_dict({k: v.double() for k, v in stored.state_dict().items()})
        seen = {}
        found, attends = {}, set()
        for layer, block in enumerate(model.model.layers if hasattr(model, "model") else model.backbone.layers):
            if hasattr(block, "self_attn"):
                attends.add(layer)
            for word in ("mixer", "mamba"):
                if mixer := getattr(block, word, None):
                    found[layer] = mixer
                    mixer.in_proj.register_forward_hook(lambda m, i, out, layer=layer: seen.__setitem__(layer, numbers(out[0])))
        gathered = {}
        for sample in ids:
            with torch.no_grad():
                out = model(torch.tensor([sample]), output_attentions=True, use_cache=False)
            maps = [m for m in getattr(out, "attentions", None) or () if m is not None]
            for layer in range(model.config.num_hidden_layers):
                branch = 0
                if layer in attends:
                    for h, m in enumerate(attention_heads(numbers(maps.pop(0)[0]))):
                        gathered.setdefault((layer, branch, "attention", h), []).append([m])
                    branch = 1
                if layer not in found:
                    continue
                mixer, projected = found[layer], seen[layer]
                if model.config.model_type == "falcon_h1":
                    projected = projected * numbers(mixer.mup_vector).reshape(-1)
                if hasattr(mixer, "x_proj"):
                    channels = list(mamba_channels(mixer, projected, model.config))
                    gathered.setdefault((layer, branch, "mamba", None), []).append(channels)
                    continue
                for h, m in enumerate(mamba2_heads(mixer, projected, model.config)):
                    gathered.setdefault((layer, branch, "mamba2", h), []).append([m])
            assert not maps, (name, len(maps))
    return [dict(layer=k[0], branch=k[1], mixer=k[2], head=k[3], **row(v)) for k, v in gathered.items()]


def main():
    draw = np.random.default_rng(14)
    cases = []
    for name in MODELS:
        ids = [draw.integers(0, 23, n).tolist() for n in LENGTHS]
        cases.append(dict(model=name, ids=ids, rows=rows_of(name, ids)))
    text = ",\n ".join(json.dumps(c) for c in cases)
    (GOLDEN / "mixing.json").write_text(f"[{text}]\n")


if __name__ == "__main__":
    main()
