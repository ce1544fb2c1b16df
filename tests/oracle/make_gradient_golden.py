"""Writes tests/golden/gradients.safetensors: what PyTorch's autograd gives for the models of tests/golden/forward/ (those in
safetensors), in float64 throughout.

NAME/TENSOR   norm of the gradient, then its products with eight fixed directions cos(0.7 + 1.618... (k + 1)(i + 1)), i its place in
              the tensor as the file stores it

NAME@attention/..., NAME@norm/..., NAME@activation/...   the same, of some models, with all softmax matrices, what norms multiply
              by, or what activations multiply their arguments by (and gates) held constant
NAME/loss     the loss, and 1 where it is one of next tokens

The loss is the mean over the tokens that have a next one of -ln softmax(logits)[next]; of a model without a head,
or of a single token, |final state|^2 / 2. Texts run one by one, without padding. Re-run with the versions of requirements.txt:
    python tests/oracle/make_gradient_golden.py
"""
import contextlib
import pathlib
import tempfile

import forward_cases
import numpy as np
import torch
import transformers as T
from double_models import all_double
from safetensors.numpy import load_file, save_file

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
PHI = 1.618033988749895
HELD = {"bert", "gpt2", "llama", "gemma3", "qwen3", "xlnet", "vit", "phi3", "gpt_neox", "falcon_old"}
OWN_GELU = {"gpt2", "falcon_old"}  # whose activation is not a function of torch
kept, left_out = {}, []


@contextlib.contextmanager
def held(what):
    """Parts of the model are constants on the way back."""
    f = torch.nn.functional
    saved = f.softmax, f.layer_norm, torch.rsqrt, f.gelu, f.silu, f.relu, torch.softmax

    def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
        centred = x - x.mean(-1, keepdim=True)
        y = centred * (centred.square().mean(-1, keepdim=True) + eps).rsqrt().detach()
        y = y if weight is None else y * weight
        return y if bias is None else y + bias

    def by_ratio(function):
        return lambda x, *a, **k: x * (function(x, *a, **k) / x).detach()

    if what == "attention":
        f.softmax = lambda *a, **k: saved[0](*a, **k).detach()
        torch.softmax = lambda *a, **k: saved[6](*a, **k).detach()
    elif what == "norm":
        f.layer_norm, torch.rsqrt = layer_norm, lambda x: saved[2](x).detach()
    elif what == "activation":
        f.gelu, f.silu, f.relu = by_ratio(saved[3]), by_ratio(saved[4]), by_ratio(saved[5])
    try:
        yield
    finally:
        f.softmax, f.layer_norm, torch.rsqrt, f.gelu, f.silu, f.relu, torch.softmax = saved


def summary(gradient):
    g = gradient.reshape(-1)
    i = np.arange(1, g.size + 1, dtype=np.float64)
    return np.array([np.linalg.norm(g)] + [float(np.cos(0.7 + PHI * (k + 1) * i) @ g) for k in range(8)])


def loss_of(model, batch, lengths, memory):
    """The loss, and whether it is one of next tokens."""
    total, count, tokens, pairs = 0.0, 0, False, sum(n - 1 for n in lengths)
    for s, n in enumerate(lengths):
        own = {k: v[s:s + 1] if k == "pixel_values" else v[s:s + 1, :memory[s]] if k.startswith("encoder") else v[s:s + 1, :n]
               for k, v in batch.items()}
        out = model(**own, output_hidden_states=True, return_dict=True)
        if "logits" in out and "input_ids" in own and pairs:
            if n > 1:
                total = total + torch.nn.functional.cross_entropy(out.logits[0, :-1], own["input_ids"][0, 1:], reduction="sum")
            count += n - 1
            tokens = True
        else:
            final = out.last_hidden_state if "last_hidden_state" in out else out.hidden_states[-1]
            total, count = total + 0.5 * final.square().sum(), 1
    return total / count, tokens


def gradients(folder, cls, config, state, lengths, images=None, memory=None, seed=1, for64=None, inverse=None):
    """In place of forward_cases.golden, which draws the same inputs."""
    stored = GOLDEN / "forward" / folder.name
    if not (stored / "model.safetensors").exists():
        left_out.append(folder.name)
        return
    rng = np.random.default_rng(seed)
    _, batch = forward_cases.inputs(config, rng, lengths, images, memory, getattr(config, "vocab_size", 2))
    held_parts = ["attention", "norm"] + (["activation"] if folder.name not in OWN_GELU else [])
    for what in [""] + (held_parts if folder.name in HELD else []):
        with all_double(), held(what):
            torch.manual_seed(0)
            model = cls._from_config(type(config)(**config.to_dict()), attn_implementation="eager").eval().double()
            model.load_state_dict({k: v.double() for k, v in state.items()})
            if inverse is not None:
                model.model.rotary_emb.inv_freq = torch.from_numpy(inverse).to(torch.float32)
            loss, targets = loss_of(model, forward_cases.wide(batch), lengths, memory)
            loss.backward()
        keep(folder.name, what, model, load_file(stored / "model.safetensors"), [float(loss), float(targets)])


def keep(folder, what, model, stored, loss):
    name = f"{folder}@{what}" if what else folder
    kept[f"{name}/loss"] = np.array(loss)
    named = [(p.detach().numpy(), p.grad) for p in model.parameters()]
    for key, values in stored.items():
        # by content: releases rename what they save
        same = [g for p, g in named if p.shape == values.shape and np.array_equal(p, values.astype(np.float64))]
        if len(same) == 1 and same[0] is not None:
            kept[f"{name}/{key}"] = summary(same[0].detach().numpy())
        elif len(same) != 1:
            left_out.append(f"{name}/{key}")


if __name__ == "__main__":
    T.logging.set_verbosity_error()
    forward_cases.golden = gradients
    with tempfile.TemporaryDirectory() as scratch:
        forward_cases.OUT = pathlib.Path(scratch)
        from forward_families import decoders, encoders
        from forward_families_gguf import from_gguf, states_from_gguf
        from forward_families_states import delta_nets, hybrids, short_convolutions, state_spaces
        for cases in (encoders, decoders, state_spaces, hybrids, short_convolutions, delta_nets, from_gguf, states_from_gguf):
            cases()
    save_file(kept, GOLDEN / "gradients.safetensors")
    print(len({k.split("/")[0] for k in kept}), "models;", len(kept), "tensors; left out:", *left_out)
