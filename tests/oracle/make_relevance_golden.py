"""Writes tests/golden/relevance.safetensors: relevance by PyTorch's autograd in float64, of some models of tests/golden/forward/.

NAME/S/explained        f, its row, its output (-1: the length of that final state)
NAME/S/relevance        [tokens] by what enters the first layer, with softmaxes, norms' factors, activations' ratios, gates and what
                        state-space mixers read from tokens held constant
NAME/S/gradient_input   [tokens] with nothing held
NAME/S/sum, /effective, /cosine, /memory   [layers + 1] at each cut; cosine (of two tokens or more) with the profile of the other end
NAME/S/rollout          [tokens] of models of self-attention alone
NAME/removal            [methods, 2, 11] means over samples of two tokens or more of the output (methods: relevance, gradient x input,
                        rollout where it is; put in, taken out); token 0 stands in

The first samples of each golden model, fed one by one. Re-run with the versions of requirements.txt:
    python tests/oracle/make_relevance_golden.py
"""
import contextlib
import pathlib
import tempfile

import forward_cases
import numpy as np
import torch
import transformers as T
from double_models import all_double
from safetensors.numpy import save_file

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
MODELS = {"bert", "gpt2", "llama", "gemma2", "albert", "gpt_neox", "distilbert", "qwen3", "phi3", "mamba", "mamba2", "bert_cross",
          "gpt2_cross", "falcon_mamba"}
GATED = {"llama", "gemma2", "qwen3", "phi3"}  # whose activation is a gate
STAND_IN = 0
kept = {}


def by_ratio(x, y):
    return x * (y / x).detach()


def hold_activations(model, name):
    """Hooks: an activation is its ratio, a gate a constant. (The gates of Mamba are functions, not modules.)"""

    def hook(module, args, out):
        return out.detach() if name in GATED else by_ratio(args[0], out)

    for m in model.modules():
        if type(m).__module__ in ("transformers.activations", "torch.nn.modules.activation"):
            m.register_forward_hook(hook)
        if hasattr(m, "x_proj"):  # steps, B and C of Mamba
            m.x_proj.register_forward_hook(lambda module, args, out: out.detach())


@contextlib.contextmanager
def held():
    f = torch.nn.functional
    saved = f.softmax, f.layer_norm, torch.rsqrt, torch.softmax, torch.tanh, f.silu, f.softplus, torch.split
    module = T.activations.SiLUActivation.forward

    def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
        centred = x - x.mean(-1, keepdim=True)
        y = centred * (centred.square().mean(-1, keepdim=True) + eps).rsqrt().detach()
        y = y if weight is None else y * weight
        return y if bias is None else y + bias

    def split(x, sizes, *args, **kwargs):
        parts = saved[7](x, sizes, *args, **kwargs)
        if len(parts) == 3 and sizes[1] == sizes[2] != sizes[0]:  # x, B and C of Mamba-2
            return parts[0], parts[1].detach(), parts[2].detach()
        return parts

    f.softmax = lambda *a, **k: saved[0](*a, **k).detach()
    torch.softmax = lambda *a, **k: saved[3](*a, **k).detach()
    f.layer_norm, torch.rsqrt = layer_norm, lambda x: saved[2](x).detach()
    torch.tanh = lambda x: by_ratio(x, saved[4](x))
    f.silu = lambda x, *a, **k: saved[5](x, *a, **k).detach()
    T.activations.SiLUActivation.forward = lambda self, x: by_ratio(x, saved[5](x))
    f.softplus = lambda x, *a, **k: saved[6](x, *a, **k).detach()
    torch.split = split
    try:
        yield
    finally:
        f.softmax, f.layer_norm, torch.rsqrt, torch.softmax, torch.tanh, f.silu, f.softplus, torch.split = saved
        T.activations.SiLUActivation.forward = module


def output_of(out, row, target):
    if target < 0:
        return out.last_hidden_state[0, row].norm()
    return out.logits[0, row, target]


def go(model, batch, row, target):
    """f, the states at all cuts and the derivatives by them, and of the memory."""
    watch = forward_cases.Watch(model)
    memory = batch.get("encoder_hidden_states")
    if memory is not None:
        batch = {**batch, "encoder_hidden_states": memory.clone().requires_grad_(True)}
    out = model(**batch, output_hidden_states=True, return_dict=True)
    watch.close()
    f = output_of(out, row, target)
    inputs = watch.states + ([batch["encoder_hidden_states"]] if memory is not None else [])
    gradients = torch.autograd.grad(f, inputs, allow_unused=True)
    return float(f.detach()), watch.states, gradients, batch.get("encoder_hidden_states")


def scores(states, gradients, cut):
    return (states[cut] * gradients[cut])[0].sum(-1).detach().numpy()


def rollout(model, batch, row):
    with torch.no_grad():
        maps = model(**batch, output_attentions=True, return_dict=True).get("attentions")
    if not maps or maps[0] is None:
        return None
    product = np.eye(maps[0].shape[-1])
    for a in maps:
        product = (a[0].mean(0).numpy() + np.eye(len(product))) / 2 @ product
    return product[row]


def curve(model, batch, row, target, score, insert):
    ids, n = batch["input_ids"], batch["input_ids"].shape[1]
    order = sorted(range(n), key=lambda i: -score[i] if insert else abs(score[i]))
    values = []
    for step in range(11):
        first = (2 * step * n + 10) // 20
        there = [(k < first) == insert for k in range(n)]
        text = torch.full_like(ids, STAND_IN)
        for k, i in enumerate(order):
            if there[k]:
                text[0, i] = ids[0, i]
        with torch.no_grad():
            out = model(**{**batch, "input_ids": text}, output_hidden_states=True, return_dict=True)
        values.append(float(output_of(out, row, target)))
    return values


def explain(name, s, build, batch, last):
    """One sample; its curves, or None."""
    n = batch["input_ids"].shape[1]
    row, other = (n - 1, 0) if last else (0, n - 1)
    plain = build()
    with torch.no_grad():
        out = plain(**batch, output_hidden_states=True, return_dict=True)
    target = int(out.logits[0, row].argmax()) if "logits" in out else -1
    with held():
        model = build()
        hold_activations(model, name)
        f, states, gradients, memory = go(model, batch, row, target)
        sums = [scores(states, gradients, c).sum() for c in range(len(states))]
        sizes = [g[0].norm(dim=-1) for g in gradients[:len(states)]]
        own = [scores(states, gradients, c) for c in range(len(states))]
        if n > 1:
            _, states_b, gradients_b, _ = go(model, batch, other, target)
            others = [scores(states_b, gradients_b, c) for c in range(len(states))]
            kept[f"{name}/{s}/cosine"] = np.array([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(own, others)])
    kept[f"{name}/{s}/explained"] = np.array([f, row, target], dtype=np.float64)
    kept[f"{name}/{s}/relevance"] = own[0].copy()
    kept[f"{name}/{s}/sum"] = np.array(sums)
    kept[f"{name}/{s}/effective"] = np.array([float(z.sum() ** 2 / (z ** 2).sum()) for z in sizes])
    if memory is not None:
        kept[f"{name}/{s}/memory"] = np.array([float((memory * gradients[-1]).sum().detach())])
    _, states, gradients, _ = go(plain, batch, row, target)
    kept[f"{name}/{s}/gradient_input"] = scores(states, gradients, 0).copy()
    if n < 2:
        return None
    rolled = None if "mamba" in name else rollout(plain, batch, row)
    if rolled is not None:
        kept[f"{name}/{s}/rollout"] = rolled
    methods = [kept[f"{name}/{s}/relevance"], kept[f"{name}/{s}/gradient_input"]] + ([rolled] if rolled is not None else [])
    return [[curve(plain, batch, row, target, m, insert) for insert in (True, False)] for m in methods]


def relevance(folder, cls, config, state, lengths, images=None, memory=None, seed=1, for64=None, inverse=None):
    """In place of forward_cases.golden, which draws the same inputs."""
    name = folder.name
    if name not in MODELS:
        return
    rng = np.random.default_rng(seed)
    _, batch = forward_cases.inputs(config, rng, lengths, images, memory, getattr(config, "vocab_size", 2))
    curves = []
    with all_double():
        def build():
            torch.manual_seed(0)
            model = cls._from_config(type(config)(**config.to_dict()), attn_implementation="eager").eval().double()
            model.load_state_dict({k: v.double() for k, v in state.items()})
            return model

        wide = forward_cases.wide(batch)
        kind = type(build()).__name__
        last = "CausalLM" in kind or "LMHead" in kind or name in ("gpt2", "gpt2_cross", "mamba", "mamba2", "falcon_mamba")
        for s, n in enumerate(lengths):
            own = {k: v[s:s + 1, :memory[s]] if k.startswith("encoder") else v[s:s + 1, :n] for k, v in wide.items()}
            if n > 0:
                curves.append(explain(name, s, build, own, last))
    kept[f"{name}/removal"] = np.mean([c for c in curves if c is not None], axis=0)


if __name__ == "__main__":
    T.logging.set_verbosity_error()
    forward_cases.golden = relevance
    with tempfile.TemporaryDirectory() as scratch:
        forward_cases.OUT = pathlib.Path(scratch)
        from forward_families import decoders, encoders
        from forward_families_states import state_spaces
        for cases in (encoders, decoders, state_spaces):
            cases()
    save_file({k: np.ascontiguousarray(v) for k, v in kept.items()}, GOLDEN / "relevance.safetensors")
    print(sorted({k.split("/")[0] for k in kept}), len(kept), "tensors")
