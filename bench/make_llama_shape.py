#!/usr/bin/env python3
"""A synthetic LLaMA-shaped checkpoint (bf16, attention tensors only, one file a layer), for timing.

The numbers are random but recycled: one block of normals is drawn and every tensor is a rotation of it, so that 4 GB are written
in seconds. Needs the standard library only.

  make_llama_shape.py DIR [--layers 32 --d 4096 --heads 32 --kv-heads 32]
"""
import argparse
import array
import json
import os
import random
import struct


def bf16_normals(n):
    """n normals as bf16 bytes."""
    rng = random.Random(1)
    floats = array.array("f", (rng.gauss(0, 0.02) for _ in range(n)))
    raw, out = floats.tobytes(), bytearray(2 * n)
    out[0::2], out[1::2] = raw[2::4], raw[3::4]  # the upper half of each little-endian float
    return bytes(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--d", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=0)
    args = parser.parse_args()
    kv_heads = args.kv_heads or args.heads
    os.makedirs(args.directory, exist_ok=True)
    width = args.d // args.heads
    shapes = {"q": (args.d, args.d), "k": (kv_heads * width, args.d), "v": (kv_heads * width, args.d), "o": (args.d, args.d)}
    # A length that shares no factor with a row: recycled rows are never equal.
    unit = bf16_normals(1000003)
    block = unit * (args.d * args.d // 1000003 + 3)
    weight_map = {}
    for layer in range(args.layers):
        name = f"model-{layer + 1:05d}-of-{args.layers:05d}.safetensors"
        header, offset = {}, 0
        for p, shape in shapes.items():
            size = 2 * shape[0] * shape[1]
            tensor = f"model.layers.{layer}.self_attn.{p}_proj.weight"
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
            weight_map[tensor] = name
            offset += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(args.directory, name), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for i, shape in enumerate(shapes.values()):
                start = 2 * ((layer * 4 + i) * 7919 % 1000003)
                f.write(block[start:start + 2 * shape[0] * shape[1]])
    json.dump({"metadata": {}, "weight_map": weight_map}, open(os.path.join(args.directory, "model.safetensors.index.json"), "w"))
    json.dump({"model_type": "llama", "hidden_size": args.d, "num_hidden_layers": args.layers, "num_attention_heads": args.heads,
               "num_key_value_heads": kv_heads, "intermediate_size": 4 * args.d, "vocab_size": 32000, "hidden_act": "silu",
               "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "torch_dtype": "bfloat16"},
              open(os.path.join(args.directory, "config.json"), "w"))


main()
