#!/usr/bin/env python3
"""Writes tests/golden/lab/pretrained/: a BERT, an ALBERT and an XLNet that dong-depth-pretrained runs, and what transformers makes of them.

Twelve layers of width 8 with random weights in float16, large enough for tokens to stay apart for some layers. curves.json has, of the whole
windows of share/page.txt under tests/golden/tokenizer/bert.json (128 tokens with [CLS] and [SEP]), in float64 throughout and by transformers' own
classes, the mean over windows of |X - 1x|/|X| in the composite norm, by model, variant and state: all windows, and the first four
(--quick). Variants as make_depth_golden.py has them: an attention's skip is taken out of what its LayerNorm is given."""
import json
import pathlib

import safetensors.torch
import tokenizers
import torch
import transformers
from transformers.models.bert import modeling_bert

import double_models
import make_depth_golden as depth

ROOT = pathlib.Path(__file__).parents[2]
OUT = ROOT / "tests" / "golden" / "lab" / "pretrained"
SEED, TOKENS, QUICK, LAYERS = 20261127, 128, 4, 12
NONE = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "attn_implementation": "eager"}


class BertSelfOutput(modeling_bert.BertSelfOutput):
    def forward(self, hidden_states, input_tensor):
        return super().forward(hidden_states, input_tensor if self.keeps_skip else torch.zeros_like(input_tensor))


class NoMlp(torch.nn.Module):
    def forward(self, hidden_states, input_tensor):
        return input_tensor


def bert(ids, model, variant, code):
    whole = [(layer.intermediate, layer.output) for layer in model.encoder.layer]
    for layer in model.encoder.layer:
        layer.attention.output.__class__ = BertSelfOutput
        layer.attention.output.keeps_skip = depth.SKIP[variant]
        if not depth.MLP[variant]:
            layer.intermediate, layer.output = torch.nn.Identity(), NoMlp()
    states = [h[0] for h in model(ids, output_hidden_states=True).hidden_states]
    for layer, (intermediate, output) in zip(model.encoder.layer, whole):
        layer.intermediate, layer.output = intermediate, output
    return states


def models(vocabulary):
    sizes = {"vocab_size": vocabulary, "hidden_size": 8, "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": 12}
    yield "bert", transformers.BertForMaskedLM(transformers.BertConfig(**sizes, max_position_embeddings=TOKENS, **NONE)), bert
    yield "albert", transformers.AlbertForMaskedLM(transformers.AlbertConfig(
        **sizes, embedding_size=6, max_position_embeddings=TOKENS, hidden_act="gelu_new", **NONE)), depth.albert
    yield "xlnet", transformers.XLNetLMHeadModel(transformers.XLNetConfig(
        vocab_size=vocabulary, d_model=8, n_layer=LAYERS, n_head=2, d_inner=12, dropout=0)), depth.xlnet


def draw(model):
    """Weights that are not those at initialisation: the norms have gains and biases, and logits are not small."""
    for name, p in model.named_parameters():
        one = 1.0 if name.lower().endswith(("layernorm.weight", "layer_norm.weight")) else 0.0
        p.copy_((one + (0.6 if p.dim() > 1 else 0.2) * torch.randn(p.shape)).half().float())


def windows():
    tokenizer = tokenizers.Tokenizer.from_file(str(ROOT / "tests" / "golden" / "tokenizer" / "bert.json"))
    ids = tokenizer.encode((ROOT / "share" / "page.txt").read_text(encoding="utf-8"), add_special_tokens=False).ids
    first, last = tokenizer.encode("", add_special_tokens=True).ids
    each = TOKENS - 2
    return [[first] + ids[i:i + each] + [last] for i in range(0, len(ids) - each + 1, each)], tokenizer.get_vocab_size()


def main():
    texts, vocabulary = windows()
    curves = {"windows": len(texts)}
    for name, model, run in models(vocabulary):
        torch.manual_seed(SEED)
        draw(model.eval())
        folder = OUT / name
        folder.mkdir(parents=True, exist_ok=True)
        model.half().save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        body = getattr(model.double(), {"xlnet": "transformer"}.get(name, name))
        ways = [(v, False) for v in depth.SKIP] + ([("san", True), ("san+skip", True)] if name == "albert" else [])
        for variant, code in ways:
            with double_models.all_double():
                each = torch.tensor([depth.relative(run(torch.tensor([w]), body, variant, code)) for w in texts], dtype=torch.float64)
            series = f"{name}, {variant}" + (", their code" if code else "")
            curves[series] = {"all": each.mean(0).tolist(), "quick": each[:QUICK].mean(0).tolist()}
    (OUT / "curves.json").write_text(json.dumps(curves, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
