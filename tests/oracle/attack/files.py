"""Checkpoints as files: safetensors, written here byte by byte, and arrays of ids."""

import json
import pathlib
import struct

import gguf
import numpy as np

CODES = {"F64": np.float64, "F32": np.float32, "F16": np.float16}


QUANTISED = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")


def blocks(values, dtype):
    kind = gguf.GGMLQuantizationType[dtype]
    return kind, gguf.quants.quantize(np.ascontiguousarray(values.astype(np.float32)), kind)


def stored(values, dtype, name=""):
    """The float64 numbers that a file of this dtype holds for these. A quantised file keeps vectors and embeddings as float32."""
    values = np.asarray(values, np.float64)
    if dtype in QUANTISED:
        if values.ndim < 2 or "embed" in name:
            return stored(values, "F32")
        kind, data = blocks(np.clip(values, -6e4, 6e4), dtype)
        return gguf.quants.dequantize(data, kind).reshape(values.shape).astype(np.float64)
    if dtype == "BF16":
        bits = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return bits.astype(np.uint32).view(np.float32).astype(np.float64).reshape(values.shape)
    with np.errstate(over="ignore"):
        out = values.astype(CODES[dtype]).astype(np.float64)
    limit = 6e4 if dtype == "F16" else 3e38
    return np.clip(out, -limit, limit).astype(CODES[dtype]).astype(np.float64) if dtype != "F64" else out


def raw(values, dtype):
    if dtype == "BF16":
        return (np.ascontiguousarray(values.astype(np.float32)).view(np.uint32) >> 16).astype("<u2").tobytes()
    return np.ascontiguousarray(values.astype(CODES[dtype])).tobytes()


def write_safetensors(path, tensors, dtype):
    header, data, at = {}, [], 0
    for name, values in tensors.items():
        kind = dtype if isinstance(dtype, str) else dtype.get(name, dtype[""])
        blob = raw(values, kind)
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [at, at + len(blob)]}
        data.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def read_safetensors(path):
    blob = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", blob[:8])[0]
    header, out = json.loads(blob[8:8 + size]), {}
    kinds = {"F64": "<f8", "F32": "<f4", "I64": "<i8"}
    for name, entry in header.items():
        if name != "__metadata__":
            a, b = entry["data_offsets"]
            out[name] = np.frombuffer(blob[8 + size + a:8 + size + b], kinds[entry["dtype"]]).reshape(entry["shape"])
    return out


NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm"}


def interleaved(w, heads):
    """Row t + s·c/2 of a head goes to row 2t + s, as llama's converter does."""
    return w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def write_gguf(path, config, tensors, dtype):
    """A LLaMA of quantised blocks."""
    out = gguf.GGUFWriter(path, "llama")
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    out.add_block_count(config["num_hidden_layers"])
    out.add_embedding_length(config["hidden_size"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_context_length(config["max_position_embeddings"])
    out.add_head_count(heads)
    out.add_head_count_kv(kv)
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_key_length(config["head_dim"])
    out.add_value_length(config["head_dim"])
    out.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    out.add_rope_dimension_count(config["head_dim"])
    out.add_vocab_size(config["vocab_size"])
    for name, w in tensors.items():
        module, part = name.removeprefix("model.").rsplit(".", 1)
        if module.startswith("layers."):
            _, number, rest = module.split(".", 2)
            target = f"blk.{number}.{NAMES[rest]}.{part}"
            w = interleaved(w, heads) if "q_proj" in rest else interleaved(w, kv) if "k_proj" in rest else w
        else:
            target = {"embed_tokens": "token_embd", "norm": "output_norm"}[module] + "." + part
        kind, data = gguf.GGMLQuantizationType.F32, w.astype(np.float32)
        if w.ndim == 2 and "embed" not in name:
            kind, data = blocks(w, dtype)
        out.add_tensor(target, np.ascontiguousarray(data), raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
