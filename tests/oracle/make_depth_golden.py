#!/usr/bin/env python3
"""Writes tests/golden/lab/depth_init.json: the relative residual through ALBERT and XLNet at initialisation, by transformers' own classes.

Sixteen random networks of each (albert-base-v2, xlnet-base-cased: 12 layers, width 768, 12 heads), each with 128 tokens of its own by
Zipf's law, in float64: mean and standard deviation by variant and state of |X - 1x|/|X| in the composite norm sqrt(|.|_1 |.|_inf), x the
mean token. Variants as in the code released with Dong et al. 2021 (docs/theory/collapse.md, 13): skips around attention are removed by
giving its LayerNorm a zero in their place, MLPs by giving the block back what it read; of ALBERT also as that code does it, which leaves
LN(gelu(a) + a). And XLNet's `san` once more with so many different ids among its 128 tokens. It takes some ten minutes on two cores."""
import json
import pathlib

import numpy as np
import torch
import transformers
from transformers.models.albert import modeling_albert
from transformers.models.xlnet import modeling_xlnet

DRAWS, TOKENS, LAYERS, SEED = 16, 128, 12, 20261127
IDS = (16, 32, 64, 96, 128)
ALBERT = transformers.AlbertConfig(vocab_size=30000, embedding_size=128, hidden_size=768, num_hidden_layers=LAYERS, num_attention_heads=12,
                                   intermediate_size=3072, hidden_act="gelu_new", hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                                   attn_implementation="eager")
XLNET = transformers.XLNetConfig(vocab_size=32000, d_model=768, n_layer=LAYERS, n_head=12, d_inner=3072, dropout=0)
PADDING = {"albert": 0, "xlnet": 5}
SKIP = {"san": False, "san+mlp": False, "san+skip": True, "full": True}
MLP = {"san": False, "san+mlp": True, "san+skip": False, "full": True}


def zipf(random, vocabulary, padding):
    ids = np.delete(np.arange(vocabulary), padding)
    p = 1 / (np.arange(1, len(ids) + 1) + 2.7)
    return random.choice(ids, TOKENS, p=p / p.sum())


def repeated(random, vocabulary, padding, different):
    """`different` ids, drawn alike, in turn until there are 128 tokens, in any order."""
    ids = random.choice(np.delete(np.arange(vocabulary), padding), different, replace=False)
    return random.permutation(np.resize(ids, TOKENS))


class Zero(torch.nn.Module):
    """A LayerNorm that is told the sum less what the skip brought: see remove_skip."""

    def __init__(self, norm):
        super().__init__()
        self.norm, self.skip = norm, None

    def forward(self, x):
        return self.norm(x - self.skip)


class AlbertAttention(modeling_albert.AlbertAttention):
    def forward(self, hidden_states, *more, **kwargs):
        if isinstance(self.LayerNorm, Zero):
            self.LayerNorm.skip = hidden_states
        return super().forward(hidden_states, *more, **kwargs)


class XLNetAttention(modeling_xlnet.XLNetRelativeAttention):
    def post_attention(self, h, attn_vec, residual=True):
        return super().post_attention(h, attn_vec, residual=self.keeps_skip)


def composite(a):
    return torch.sqrt(a.abs().sum(0).max() * a.abs().sum(1).max()).item()


def relative(states):
    return [composite(x - x.mean(0)) / composite(x) for x in states]


def albert(ids, model, variant, code):
    layer = model.encoder.albert_layer_groups[0].albert_layers[0]
    whole, norm = layer.forward, layer.attention.LayerNorm
    linear = layer.ffn, layer.ffn_output
    layer.attention.__class__ = AlbertAttention
    if not SKIP[variant]:
        layer.attention.LayerNorm = Zero(norm)
    if not MLP[variant] and code:
        layer.ffn = layer.ffn_output = torch.nn.Identity()
    elif not MLP[variant]:
        layer.forward = lambda h, mask=None, **kwargs: layer.attention(h, mask, **kwargs)[0]
    states = []
    hook = layer.attention.register_forward_pre_hook(lambda module, args: states.append(args[0][0]))
    last = model(ids).last_hidden_state[0]
    hook.remove()
    layer.forward, layer.attention.LayerNorm = whole, norm
    layer.ffn, layer.ffn_output = linear
    return states + [last]


def xlnet(ids, model, variant, code):
    for layer in model.layer:
        layer.rel_attn.__class__ = XLNetAttention
        layer.rel_attn.keeps_skip = SKIP[variant]
    whole = [layer.ff for layer in model.layer]
    if not MLP[variant]:
        for layer in model.layer:
            layer.ff = torch.nn.Identity()
    states = [h[0] for h in model(ids, output_hidden_states=True).hidden_states]
    for layer, ff in zip(model.layer, whole):
        layer.ff = ff
    return states


def fresh(name, seed):
    torch.manual_seed(seed)
    return (modeling_albert.AlbertModel(ALBERT) if name == "albert" else modeling_xlnet.XLNetModel(XLNET)).double().eval()


def numbers(values):
    values = np.array(values)
    return {"mean": [float("%.5g" % v) for v in values.mean(0)], "std": [float("%.3g" % v) for v in values.std(0, ddof=1)]}


def main():
    random, out, different = np.random.default_rng(SEED), {}, []
    runs = {"albert": [(v, False) for v in SKIP] + [("san", True), ("san+skip", True)], "xlnet": [(v, False) for v in SKIP]}
    values = {}
    for draw in range(DRAWS):
        for name, wanted in runs.items():
            model, vocabulary = fresh(name, SEED + draw), (ALBERT if name == "albert" else XLNET).vocab_size
            ids = zipf(random, vocabulary, PADDING[name])
            different.append(len(set(ids)))
            for variant, code in wanted:
                states = (albert if name == "albert" else xlnet)(torch.tensor(ids[None]), model, variant, code)
                values.setdefault((name, variant + (", code" if code else "")), []).append(relative(states))
            if name == "xlnet":
                model.layer = model.layer[:4]  # behind these nothing else is asked for
            for count in IDS if name == "xlnet" else ():
                ids = repeated(random, vocabulary, PADDING[name], count)
                values.setdefault(("xlnet_ids", str(count)), []).append(relative(xlnet(torch.tensor(ids[None]), model, "san", False)))
    for (name, variant), draws in values.items():
        out.setdefault(name, {})[variant] = numbers(draws)
    out["different_ids"] = numbers([[n] for n in different])
    out["draws"] = DRAWS
    path = pathlib.Path(__file__).parents[1] / "golden" / "lab" / "depth_init.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
