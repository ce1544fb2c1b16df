#!/usr/bin/env python3
"""A synthetic LLaMA-shaped checkpoint (bf16, one file a layer), for timing: attention tensors alone, or with --whole a model that runs.

The numbers are random but recycled: one block of normals is drawn and every tensor is a rotation of it, so that 4 GB are written
in seconds. Needs the standard library only.

  make_llama_shape.py DIR [--layers 32 --d 4096 --heads 32 --kv-heads 32 --seed 1] [--whole]
"""
import argparse
import array
import json
import math
import os
import random
import struct


def bf16_normals(n, seed):
    """n normals as bf16 bytes."""
    rng = random.Random(seed)
    floats = array.array("f", (rng.gauss(0, 0.02) for _ in range(n)))
    raw, out = floats.tobytes(), bytearray(2 * n)
    out[0::2], out[1::2] = raw[2::4], raw[3::4]  # the upper half of each little-endian float
    return bytes(out)


def write_file(directory, name, tensors, block, weight_map):
    """tensors: {name: shape}; those of one dimension are gains, all 1. Each of the others is a rotation of the block."""
    header, offset = {}, 0
    for tensor, shape in tensors.items():
        size = 2 * math.prod(shape)
        header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        weight_map[tensor] = name
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(directory, name), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for i, shape in enumerate(tensors.values()):
            start = 2 * ((len(weight_map) + i) * 7919 % 1000003)
            f.write(b"\x80\x3f" * shape[0] if len(shape) == 1 else block[start:start + 2 * math.prod(shape)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--d", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    args = parser.parse_args()
    kv_heads = args.kv_heads or args.heads
    os.makedirs(args.directory, exist_ok=True)
    width, mlp, vocabulary = args.d // args.heads, round(args.d * 8 / 3 / 256) * 256 if args.whole else 4 * args.d, 32000
    attention = {"q": [args.d, args.d], "k": [kv_heads * width, args.d], "v": [kv_heads * width, args.d], "o": [args.d, args.d]}
    # A length that shares no factor with a row: recycled rows are never equal.
    unit = bf16_normals(1000003, args.seed)
    block = unit * ((vocabulary if args.whole else args.d) * args.d // 1000003 + 3)
    weight_map, files = {}, args.layers + args.whole
    for layer in range(args.layers):
        at = f"model.layers.{layer}"
        tensors = {f"{at}.self_attn.{p}_proj.weight": shape for p, shape in attention.items()}
        if args.whole:
            tensors |= {f"{at}.mlp.{p}_proj.weight": [mlp, args.d] for p in ("gate", "up")}
            tensors |= {f"{at}.mlp.down_proj.weight": [args.d, mlp]}
            tensors |= {f"{at}.{p}_layernorm.weight": [args.d] for p in ("input", "post_attention")}
        write_file(args.directory, f"model-{layer + 1:05d}-of-{files:05d}.safetensors", tensors, block, weight_map)
    if args.whole:
        ends = {"model.embed_tokens.weight": [vocabulary, args.d], "model.norm.weight": [args.d], "lm_head.weight": [vocabulary, args.d]}
        write_file(args.directory, f"model-{files:05d}-of-{files:05d}.safetensors", ends, block, weight_map)
    json.dump({"metadata": {}, "weight_map": weight_map}, open(os.path.join(args.directory, "model.safetensors.index.json"), "w"))
    json.dump({"model_type": "llama", "hidden_size": args.d, "num_hidden_layers": args.layers, "num_attention_heads": args.heads,
               "num_key_value_heads": kv_heads, "intermediate_size": mlp, "vocab_size": vocabulary, "hidden_act": "silu",
               "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "torch_dtype": "bfloat16"},
              open(os.path.join(args.directory, "config.json"), "w"))


main()
