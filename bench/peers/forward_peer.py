#!/usr/bin/env python3
"""The same forward passes in PyTorch (transformers), float32, inference_mode.

forward_peer.py --make bert|llama DIR      writes a model of that shape with drawn weights
forward_peer.py DIR --threads T            answers each line "SAMPLES TOKENS" on standard input with one JSON line:
                                           seconds of one pass with sdpa and with eager attention (one pass before, to warm up)
"""
import argparse
import json
import sys
import time

import torch
import transformers

SHAPES = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(), add_pooling_layer=False),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=1024, num_hidden_layers=12, num_attention_heads=16, num_key_value_heads=8, head_dim=64, intermediate_size=2816,
        vocab_size=32000, max_position_embeddings=8192)),
}


def seconds(model, ids, cached):
    begin = time.perf_counter()
    with torch.inference_mode():
        model(ids, **({"use_cache": False} if cached else {}))
    return time.perf_counter() - begin


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
    models = {name: transformers.AutoModel.from_pretrained(args.dir, attn_implementation=name, dtype=torch.float32).eval()
              for name in ("sdpa", "eager")}
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                      "blas": [s.strip() for s in torch.__config__.show().splitlines() if "MKL" in s or "CPU capability" in s][:3]}),
          flush=True)
    warm = set()
    for line in sys.stdin:
        samples, tokens = (int(word) for word in line.split())
        ids = torch.randint(0, 1000, (samples, tokens), generator=torch.Generator().manual_seed(0))
        answer = {}
        for name, model in models.items():
            cached = hasattr(model.config, "use_cache") and model.config.model_type == "llama"
            if (name, samples, tokens) not in warm:
                seconds(model, ids, cached)
                warm.add((name, samples, tokens))
            answer[name] = seconds(model, ids, cached)
        print(json.dumps(answer), flush=True)


main()
