"""Writes tests/golden/paths/three/ (a GPT-2 of three layers of two heads) and tests/golden/paths/lesions.json.

cosines: for each sample and length the mean Frobenius cosine of all pairs of paths, P_path X W_path multiplied out one
by one in long double (make_paths_golden.py), every pair taken.
lesions: loss and relative residual of the last state of the same model in transformers, float64, with weights set to
zero: a head's rows of c_proj for a head, c_proj and its bias for a whole attention or MLP; all 64 sets of heads.

Re-run with the versions of requirements.txt:  python tests/oracle/make_lesions_golden.py
"""

import itertools
import json

import numpy as np
import torch
import transformers as T

from double_models import all_double
from make_paths_golden import OUT, arr, enumerate_paths, factors, norm

LAYERS, HEADS = 3, 2
SAMPLES = [[5, 2, 9, 1, 3], [4, 8, 4], [7]]
WHERE = OUT / "three"


def draw():
    torch.manual_seed(19)
    config = T.GPT2Config(vocab_size=16, n_positions=16, n_embd=8, n_layer=LAYERS, n_head=HEADS, n_inner=12,
                          bos_token_id=0, eos_token_id=0)
    model = T.GPT2LMHeadModel(config)
    for name, p in model.named_parameters():
        scale = 0.6 if p.ndim == 2 else 0.3
        p.data = scale * torch.randn_like(p) + (1 if "ln" in name and name.endswith("weight") else 0)
    model.save_pretrained(WHERE)
    (WHERE / "generation_config.json").unlink(missing_ok=True)


def opened():
    loaded = T.GPT2LMHeadModel.from_pretrained(WHERE)
    weights = {k: v.double() for k, v in loaded.state_dict().items()}
    with all_double():
        model = T.GPT2LMHeadModel._from_config(loaded.config, attn_implementation="eager", dtype=torch.float64).eval()
        model.load_state_dict(weights)
    return model


def run(model, ids):
    """what enters the first block, what leaves the last one, attention, summed loss"""
    kept = {}
    blocks = model.transformer.h
    hooks = [blocks[0].register_forward_pre_hook(
                 lambda m, a, k: kept.__setitem__("in", a[0] if a else k["hidden_states"]), with_kwargs=True),
             blocks[-1].register_forward_hook(
                 lambda m, i, o: kept.__setitem__("out", o[0] if isinstance(o, tuple) else o))]
    with torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), output_attentions=True)
    for hook in hooks:
        hook.remove()
    log = torch.log_softmax(out.logits[0], -1)
    loss = -sum(log[i, t].item() for i, t in enumerate(ids[1:]))
    return [arr(kept[k].reshape(-1, kept[k].shape[-1])) for k in ("in", "out")] + [out.attentions, loss]


def cosines(model, ids):
    start, _, attentions, _ = run(model, ids)
    with torch.no_grad():
        branches, _ = factors(model, "gpt2", start, attentions)
    by_length = [[] for _ in range(LAYERS + 1)]
    for k, _, y in enumerate_paths(start, branches):
        by_length[k].append(y / norm(y))
    rows = []
    for paths in by_length:
        pairs = [float((a * b).sum()) for a, b in itertools.combinations(paths, 2)]
        rows.append({"paths": len(paths), "pairs": len(pairs), "mean": float(np.mean(pairs)) if pairs else None})
    return rows


def measured(model):
    loss, tokens, residuals = 0, 0, []
    for ids in SAMPLES:
        _, x, _, own = run(model, ids)
        loss += own
        tokens += len(ids) - 1
        residuals.append(norm(x - x.mean(0)) / norm(x))
    return {"nll": loss / tokens, "residual": float(np.mean(residuals))}


def lesioned(kind, layer=None, heads=()):
    model = opened()
    with torch.no_grad():
        for l, h in heads:
            w = model.transformer.h[l].attn.c_proj.weight  # Conv1D: [in, out]
            size = w.shape[0] // HEADS
            w[h * size:(h + 1) * size] = 0
        if kind in ("attention", "mlp"):
            block = model.transformer.h[layer]
            last = (block.attn if kind == "attention" else block.mlp).c_proj
            last.weight.zero_()
            last.bias.zero_()
    return measured(model)


if __name__ == "__main__":
    draw()
    all_heads = list(itertools.product(range(LAYERS), range(HEADS)))
    golden = {"samples": SAMPLES, "cosines": [cosines(opened(), ids) for ids in SAMPLES],
              "attention": [lesioned("attention", l) for l in range(LAYERS)],
              "mlp": [lesioned("mlp", l) for l in range(LAYERS)],
              "heads": {" ".join(f"{l}:{h}" for l, h in chosen): lesioned("head", heads=chosen)
                        for k in range(len(all_heads) + 1) for chosen in itertools.combinations(all_heads, k)}}
    (OUT / "lesions.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print((OUT / "lesions.json").stat().st_size, "bytes")
