"""Checkpoints with one defect that was planted in them: it is found, and nothing else is."""
import json
import struct

import numpy as np


def write_safetensors(path, tensors):
    header, offset, blobs = {}, 0, []
    for name, array in tensors.items():
        blob = np.ascontiguousarray(array, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def plant(rng, folder):
    """A GPT-2 as it is drawn (normal(0, 0.02)), with one defect in one head: returns what was done and where."""
    heads, d_head, layers, vocab, n = rng.choice([2, 4, 6]), rng.choice([16, 32, 64]), rng.choice([1, 2, 4]), 300, 64
    width = heads * d_head
    draw_from = np.random.default_rng(rng.randrange(2**32))
    normal = lambda *shape: draw_from.normal(0, 0.02, shape)
    config = {"model_type": "gpt2", "n_layer": layers, "n_head": heads, "n_embd": width, "n_positions": n, "vocab_size": vocab,
              "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}
    tensors = {"wte.weight": normal(vocab, width), "wpe.weight": normal(n, width), "ln_f.weight": np.ones(width),
               "ln_f.bias": np.zeros(width)}
    for layer in range(layers):
        p = f"h.{layer}."
        for norm in "ln_1", "ln_2":
            tensors[p + norm + ".weight"], tensors[p + norm + ".bias"] = np.ones(width), np.zeros(width)
        for name, a, b in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width), ("mlp.c_fc", width, 4 * width),
                           ("mlp.c_proj", 4 * width, width)):
            tensors[p + name + ".weight"], tensors[p + name + ".bias"] = normal(a, b), np.zeros(b)
    kind = rng.choice(["none", "condensed", "uniform", "sink", "low_rank", "low_rank_ov", "dead"])
    layer, head = rng.randrange(layers), rng.randrange(heads)
    weight, bias = tensors[f"h.{layer}.attn.c_attn.weight"], tensors[f"h.{layer}.attn.c_attn.bias"]
    q, k, v = (slice(i * width + head * d_head, i * width + (head + 1) * d_head) for i in range(3))
    if kind == "condensed":
        weight[:, q] *= 60
        weight[:, k] *= 60
    elif kind == "uniform":
        weight[:, q] *= 0.05
        weight[:, k] *= 0.05
    elif kind == "sink":  # every query asks for a direction that position 0 alone has
        direction = draw_from.normal(0, 1, width)
        direction -= direction.mean()
        tensors["wpe.weight"][0] += 4 * direction
        unit = draw_from.normal(0, 1, d_head)
        bias[q] = 3 * unit
        weight[:, k] += np.outer(direction / np.linalg.norm(direction), unit)
    elif kind == "low_rank":
        weight[:, q] = normal(width, 1) @ draw_from.normal(0, 1, (1, d_head))
    elif kind == "low_rank_ov":
        weight[:, v] = normal(width, 1) @ draw_from.normal(0, 1, (1, d_head))
    elif kind == "dead":
        weight[:, v] *= 1e-3
    folder.joinpath("m").mkdir()
    folder.joinpath("m", "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "m" / "model.safetensors", tensors)
    return kind, layer, head, n


def check_planted(case, kind, layer, head):
    rows = case.result["tables"]["findings"]
    want = {"condensed": "condensed_attention", "uniform": "uniform_attention", "sink": "attention_sink",
            "low_rank": "qk_low_rank", "low_rank_ov": "ov_low_rank", "dead": "dead_head"}
    seen = {(r["code"], r["layer"], r["head"]) for r in rows if r["code"] in want.values() and r["layer"] is not None}
    if kind != "none":
        case.check((want[kind], layer, head) in seen, f"planted {kind} in layer {layer}, head {head}: found {sorted(seen)}")
    extra = {s for s in seen if s[1:] != (layer, head) and s[0] != "attention_sink"}
    allowed = kind in ("sink",)
    case.check(allowed or not extra, f"planted {kind} in layer {layer}, head {head}: heads that were drawn are found, too: {sorted(extra)}")
