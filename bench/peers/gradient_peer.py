#!/usr/bin/env python3
"""The same steps forward and back in PyTorch (transformers), float32.

gradient_peer.py --make bert|gpt2 DIR         writes a model of that shape with drawn weights
gradient_peer.py DIR --threads T [--loss lm]  answers each line "SAMPLES TOKENS" on standard input with one JSON line:
                                              seconds of one step with sdpa and with eager attention (one before, to warm up), of
                                              its forward part, and the peak of resident memory so far
The loss is <G, final state>, G of N(0, 1), or the next token's. Dropout is off; gradients are dropped between steps.
"""
import argparse
import json
import resource
import sys
import time

import torch
import transformers

SHAPES = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(), add_pooling_layer=False),
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config()),
}


def step(model, ids, lm, drawn):
    model.zero_grad(set_to_none=True)
    begin = time.perf_counter()
    if lm:
        loss = model(ids, labels=ids, use_cache=False).loss
    else:
        loss = (model(ids).last_hidden_state * drawn).sum()
    middle = time.perf_counter()
    loss.backward()
    return time.perf_counter() - begin, middle - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--make", choices=SHAPES)
    parser.add_argument("dir")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--loss", choices=("lm", "random"), default="random")
    parser.add_argument("--attention", default="sdpa,eager")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.make:
        torch.manual_seed(0)
        SHAPES[args.make]().save_pretrained(args.dir)
        return
    lm = args.loss == "lm"
    kind = transformers.AutoModelForCausalLM if lm else transformers.AutoModel
    models = {name: kind.from_pretrained(args.dir, attn_implementation=name, dtype=torch.float32).eval()
              for name in args.attention.split(",")}
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__}), flush=True)
    warm = set()
    for line in sys.stdin:
        samples, tokens = (int(word) for word in line.split())
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(0, 1000, (samples, tokens), generator=generator)
        answer = {}
        for name, model in models.items():
            drawn = torch.randn(samples, tokens, model.config.hidden_size, generator=generator)
            if (name, samples, tokens) not in warm:
                step(model, ids, lm, drawn)
                warm.add((name, samples, tokens))
            answer[name], answer[f"{name}_forward"] = step(model, ids, lm, drawn)
            model.zero_grad(set_to_none=True)
        answer["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(answer), flush=True)


main()
